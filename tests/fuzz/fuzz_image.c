/* Images: any bytes at all. What is accepted has no more pixels than it may, all of them are written, and twice the same
 * ones; what is refused has a reason. */
#include "fuzz.h"

#include "image.h"

#define PIXELS (1u << 20)

/* Into a block of exactly the size of its pixels. NULL: refused. */
static uint8_t *decoded(struct lx_span in, const struct lx_image *im, size_t n, int fill)
{
	struct lx_err e = LX_ERR_INIT;
	uint8_t *out = malloc(n);
	HOLDS(out != NULL);
	memset(out, fill, n);
	if (lx_image_decode(in, im, out, &e) == 0)
		return out;
	HOLDS(e.code == LX_DATA && e.msg[0]);
	free(out);
	return NULL;
}

static void image(struct lx_span in)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_image im;
	if (lx_image_probe(in, PIXELS, &im, &e) < 0) {
		HOLDS(e.code == LX_DATA && e.msg[0]);
		return;
	}
	HOLDS(im.width && im.height && (uint64_t)im.width * im.height <= PIXELS && (im.channels == 1 || im.channels == 3));
	size_t n = (size_t)im.width * im.height * im.channels;
	uint8_t *a = decoded(in, &im, n, 0x5a), *b = decoded(in, &im, n, 0xa5);
	HOLDS(!a == !b);
	HOLDS(!a || memcmp(a, b, n) == 0);
	free(a);
	free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size, so that a sanitizer sees a read of one byte too many. */
	uint8_t *p = malloc(size + !size);
	HOLDS(p != NULL);
	memcpy(p, data, size);
	image((struct lx_span){ p, size });
	free(p);
	return 0;
}

FUZZ_MAIN("tests/fuzz/seeds/image")

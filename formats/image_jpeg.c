#include "image_int.h"

#include <turbojpeg.h>

static bool is_jpeg(struct lx_span b)
{
	return b.len >= 3 && memcmp(b.p, "\xff\xd8\xff", 3) == 0;
}

static tjhandle begin(struct lx_err *e)
{
	tjhandle tj = tjInitDecompress();
	if (!tj)
		lx_err_set(e, LX_SYSTEM, "JPEG: no memory");
	return tj;
}

static int failed(tjhandle tj, struct lx_err *e)
{
	lx_err_set(e, LX_DATA, "JPEG: %s", tjGetErrorStr2(tj));
	tjDestroy(tj);
	return -1;
}

static int probe(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im, struct lx_err *e)
{
	int w = 0, h = 0, sampling = 0, colours = 0;
	tjhandle tj = begin(e);
	if (!tj)
		return -1;
	if (tjDecompressHeader3(tj, bytes.p, bytes.len, &w, &h, &sampling, &colours) < 0)
		return failed(tj, e);
	tjDestroy(tj);
	if (colours == TJCS_CMYK || colours == TJCS_YCCK)
		return lx_err_set(e, LX_DATA, "JPEG: CMYK, only grey and RGB are read");
	im->channels = colours == TJCS_GRAY ? 1 : 3;
	return image_size(im, (uint64_t)w, (uint64_t)h, max_pixels, e);
}

/* A progressive image of so many scans that each of them takes all the time of an image is refused. */
#ifdef TJFLAG_LIMITSCANS
#define LIMIT_SCANS TJFLAG_LIMITSCANS
#else
#define LIMIT_SCANS 0
#endif

static int decode(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	tjhandle tj = begin(e);
	if (!tj)
		return -1;
	if (tjDecompress2(tj, bytes.p, bytes.len, out, (int)im->width, 0, (int)im->height, im->channels == 3 ? TJPF_RGB : TJPF_GRAY,
	                  TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | LIMIT_SCANS) < 0)
		return failed(tj, e);
	tjDestroy(tj);
	return 0;
}

const struct image_format image_jpeg = { is_jpeg, probe, decode };

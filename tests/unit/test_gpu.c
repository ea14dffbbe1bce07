/* The CPU device: kernels against plain sums, every item once, bad ones left out. */
#include "device.h"
#include "resample.h"
#include "threads.h"
#include "value.h"

#include "tap.h"

#include <stdatomic.h>

static void every_turn_once(void)
{
	struct lx_err e = LX_ERR_INIT;
	for (uint32_t n = 1; n <= 8; n *= 2) {
		struct lx_threads *t = lx_threads_new(n, &e);
		CHECK(t && lx_threads_count(t) == n);
		lx_threads_free(t);
	}
}

static atomic_uint turns[1000];

static void turn(void *ctx, size_t i, uint32_t thread)
{
	CHECK(ctx == turns && thread < 3);
	atomic_fetch_add(&turns[i], 1);
}

static void loops_are_complete(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_threads *t = lx_threads_new(3, &e);
	unsigned rounds = 0;
	for (size_t n = 0; n <= 1000; n = n < 4 ? n + 1 : n * 3 / 2, rounds++) {
		for (size_t i = 0; i < 1000; i++)
			atomic_store(&turns[i], 0);
		lx_threads_run(t, n, turn, turns);
		for (size_t i = 0; i < 1000; i++)
			CHECK(atomic_load(&turns[i]) == (i < n));
	}
	CHECK(rounds > 10);
	lx_threads_free(t);
}

/* Coefficients sum to one, but for the rounding of each, and stay within the image. */
static void tables_are_whole(void)
{
	static const uint32_t sizes[] = { 1, 2, 3, 7, 8, 9, 31, 32, 33, 640, 1275, 5000 };
	for (size_t a = 0; a < sizeof(sizes) / sizeof(*sizes); a++)
		for (size_t b = 0; b < 9; b++) {
			uint32_t in = sizes[a], out = sizes[b];
			int32_t *t = malloc(lx_resample_size(in, out) * sizeof(*t));
			lx_resample_fill(t, in, out);
			for (uint32_t i = 0; i < out; i++) {
				const int32_t *c = t + 1 + (int64_t)i * t[0];
				int64_t sum = 0;
				CHECK(c[0] >= 0 && c[1] >= 1 && c[1] <= t[0] - 2 && (uint32_t)(c[0] + c[1]) <= in);
				for (int32_t k = 0; k < c[1]; k++)
					sum += c[2 + k];
				CHECK(sum > (1 << 22) - c[1] && sum < (1 << 22) + c[1]);
			}
			free(t);
		}
}

/* ---- ops on made-up pixels ---- */

#define N 40

static uint8_t pixels[N][3 * 64 * 64];
static struct lx_device_input made[N];

/* Every third has to be decoded, two of those are damaged. */
static bool give(void *ctx, size_t i, struct lx_device_input *in)
{
	(void)ctx;
	*in = made[i];
	if (i % 3 == 0)
		in->bytes = NULL;
	return i % 7 != 3;
}

static bool is_damaged(size_t i)
{
	return i == 6 || i == N / 3 * 3 - 3;
}

static bool give_bytes(void *ctx, size_t i, const struct lx_device_input *in, uint8_t *to)
{
	(void)ctx;
	CHECK(i % 3 == 0 && in->len == made[i].len);
	memcpy(to, made[i].bytes, in->len);
	return !is_damaged(i);
}

static atomic_uint n_large;

static void too_large(void *ctx, size_t i, uint64_t need)
{
	(void)ctx;
	CHECK(need > made[i].len);
	n_large++;
}

static uint8_t grey_of(size_t i, int64_t x, int64_t y)
{
	const uint8_t *p = pixels[i] + made[i].channels * ((uint64_t)y * made[i].width + (uint64_t)x);
	return made[i].channels == 1 ? *p : (uint8_t)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
}

static int64_t mirrored(int64_t v, int64_t n)
{
	return n == 1 ? 0 : v < 0 ? -v : v >= n ? 2 * n - 2 - v : v;
}

/* What sharpness, ink:100 and luma:4 should leave in out. */
static void want(size_t i, uint64_t out[8])
{
	int64_t w = made[i].width, h = made[i].height, sum = 0;
	memset(out, 0, 8 * sizeof(*out));
	for (int64_t y = 0; y < h; y++)
		for (int64_t x = 0; x < w; x++) {
			int g = grey_of(i, x, y);
			int v = grey_of(i, mirrored(x - 1, w), y) + grey_of(i, mirrored(x + 1, w), y) + grey_of(i, x, mirrored(y - 1, h)) +
			        grey_of(i, x, mirrored(y + 1, h)) - 4 * g;
			sum += v;
			out[1] += (uint64_t)(v * v);
			out[2] += g < 100;
			out[4 + g / 64]++;
		}
	out[0] = (uint64_t)sum;
}

static void make_pixels(void)
{
	uint64_t s = 1;
	for (size_t i = 0; i < N; i++) {
		made[i] = (struct lx_device_input){ .bytes = pixels[i], .width = 1 + (uint32_t)(i * 7 % 64), .height = 1 + (uint32_t)(i * 11 % 64),
			                            .channels = i % 2 ? 3 : 1 };
		made[i].len = (uint64_t)made[i].width * made[i].height * made[i].channels;
		for (size_t k = 0; k < sizeof(pixels[i]); k++) {
			s = s * 6364136223846793005u + 1442695040888963407u;
			pixels[i][k] = (uint8_t)(s >> 56);
		}
	}
}

static struct lx_device_batch batch_of(const struct lx_gpu_call *calls, uint64_t *out)
{
	static struct lx_device_input in[LX_DEVICE_BATCHES + 1][N];
	static uint32_t status[LX_DEVICE_BATCHES + 1][N * 3];
	static int turn_of;
	turn_of = (turn_of + 1) % (LX_DEVICE_BATCHES + 1);
	return (struct lx_device_batch){
		.n = N, .measure = give, .decode = give_bytes, .oversize = too_large, .calls = calls, .n_calls = 3, .words = 8, .in = in[turn_of],
		.out = out, .status = status[turn_of],
	};
}

static void sums_are_right(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_gpu_call calls[3];
	static uint64_t out[N * 8];
	CHECK(lx_gpu_parse(&calls[0], "sharpness", &e) == 0 && lx_gpu_parse(&calls[1], "ink:100", &e) == 0 && lx_gpu_parse(&calls[2], "luma:4", &e) == 0);
	CHECK(calls[0].words == 2 && calls[1].words == 2 && calls[2].words == 4);
	make_pixels();
	for (uint32_t threads = 1; threads <= 4; threads += 3) {
		struct lx_device *d = lx_device_cpu(&(struct lx_device_conf){ .threads = threads }, &e);
		memset(out, 0xaa, sizeof(out));
		struct lx_device_batch b = batch_of(calls, out);
		lx_device_start(d, &b);
		CHECK(lx_device_wait(d, &b, &e) == 0);
		for (size_t i = 0; i < N; i++) {
			uint64_t w[8];
			want(i, w);
			if (i % 7 == 3 || is_damaged(i))
				memset(w, 0xaa, sizeof(w));
			w[3] = out[i * 8 + 3]; /* ink has one result in two words */
			CHECK(memcmp(w, out + i * 8, sizeof(w)) == 0);
		}
		lx_device_free(d);
	}
}

/* With little memory a batch goes in pieces, and what does not fit alone is told; batches in flight do not mix. */
static void memory_is_bounded(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_gpu_call calls[3];
	static uint64_t all[N * 8], out[LX_DEVICE_BATCHES][N * 8];
	struct lx_device_batch b[LX_DEVICE_BATCHES], whole = batch_of(calls, all);
	CHECK(lx_gpu_parse(&calls[0], "sharpness", &e) == 0 && lx_gpu_parse(&calls[1], "ink:100", &e) == 0 && lx_gpu_parse(&calls[2], "luma:4", &e) == 0);
	struct lx_device *d = lx_device_cpu(&(struct lx_device_conf){ .threads = 2 }, &e);
	memset(all, 0xaa, sizeof(all));
	lx_device_start(d, &whole);
	CHECK(lx_device_wait(d, &whole, &e) == 0);
	lx_device_free(d);
	d = lx_device_cpu(&(struct lx_device_conf){ .threads = 2, .mem = 8000 }, &e);
	atomic_store(&n_large, 0);
	for (int k = 0; k < LX_DEVICE_BATCHES; k++) {
		b[k] = batch_of(calls, out[k]);
		memset(out[k], 0xaa, sizeof(out[k]));
		lx_device_start(d, &b[k]);
	}
	unsigned large = 0;
	for (int k = LX_DEVICE_BATCHES - 1; k >= 0; k--) {
		CHECK(lx_device_wait(d, &b[k], &e) == 0 && lx_device_done(d, &b[k]));
		for (size_t i = 0; i < N; i++) {
			bool untouched = out[k][i * 8] == 0xaaaaaaaaaaaaaaaa && all[i * 8] != 0xaaaaaaaaaaaaaaaa;
			CHECK(untouched || memcmp(all + i * 8, out[k] + i * 8, 64) == 0);
			large += untouched;
		}
	}
	CHECK(large == atomic_load(&n_large) && large > 0 && large % LX_DEVICE_BATCHES == 0);
	lx_device_free(d);
}

static void ops_are_read(void)
{
	struct lx_gpu_call c;
	static const struct {
		const char *text, *says;
	} t[] = {
		{ "nothing", "no op 'nothing'" }, { "dhash:3", "dhash takes no arguments" }, { "luma:3", "3 is not a power of two" },
		{ "luma:512", "luma[:BINS]" }, { "ink:0", "ink[:BELOW]" }, { "ink:x", "'x' is not a whole number" }, { "", "no op ''" },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_err e = LX_ERR_INIT;
		CHECK(lx_gpu_parse(&c, t[i].text, &e) < 0 && e.code == LX_USAGE);
		if (!strstr(e.msg, t[i].says))
			printf("# %s\n", e.msg);
		CHECK(strstr(e.msg, t[i].says));
	}
}

int main(void)
{
	RUN(every_turn_once);
	RUN(loops_are_complete);
	RUN(tables_are_whole);
	RUN(sums_are_right);
	RUN(memory_is_bounded);
	RUN(ops_are_read);
	return tap_done();
}

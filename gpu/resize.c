/* Kernels make bytes; the numbers they stand for are looked up here, so that they are the same on every device. */
#include "resize.h"

#include "opt.h"
#include "value.h"

#include "fit.k.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SIDE_MAX 4096

/* args[2]: how numbers are kept */
enum { F32, F16, U8, TYPES };

static const struct {
	const char *name, *type;
	uint32_t size;
} types[TYPES] = {
	[F32] = { "f32", "float32", 4 },
	[F16] = { "f16", "float16", 2 },
	[U8] = { "u8", "uint8", 1 },
};

/* ---- arguments ---- */

static int parse_size(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	unsigned w = 0, h = 0;
	int len = 0;
	if (text[strspn(text, "0123456789x")] || sscanf(text, "%4ux%4u%n", &w, &h, &len) != 2 || text[len] || !w || !h || w > SIDE_MAX || h > SIDE_MAX)
		return lx_err_set(e, LX_USAGE, "'%.32s' is no WxH of 1x1 to %dx%d", text, SIDE_MAX, SIDE_MAX);
	c->args[0] = (uint64_t)h << 32 | w;
	return 0;
}

/* A mean and a deviation, or three of each. */
static int parse_numbers(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	double v[6];
	int n = 0;
	const char *at = text;
	for (char *end; n < 6; at = end + 1) {
		v[n++] = strtod(at, &end);
		if (end == at || (*end && *end != ','))
			return lx_err_set(e, LX_USAGE, "'%.64s' is none of letterbox, f32, f16, u8 and MEAN,STD", text);
		if (!*end)
			break;
	}
	if (n != 2 && n != 6)
		return lx_err_set(e, LX_USAGE, "'%.64s': a mean and a deviation, or three means and three deviations", text);
	for (int i = 0; i < 3; i++) {
		c->mean[i] = n == 2 ? v[0] : v[i];
		c->deviation[i] = n == 2 ? v[1] : v[3 + i];
		if (!isfinite(c->mean[i]) || !(c->deviation[i] > 0) || !isfinite(c->deviation[i]))
			return lx_err_set(e, LX_USAGE, "'%.64s': means are finite, deviations larger than 0", text);
	}
	return 0;
}

enum { LETTERBOX = 1, TYPE = 2, NUMBERS = 4 };

/* *kind: which of those it is. */
static int parse_word(const char *word, struct lx_gpu_call *c, unsigned *kind, struct lx_err *e)
{
	*kind = LETTERBOX;
	if (strcmp(word, "letterbox") == 0) {
		c->args[1] = 1;
		return 0;
	}
	*kind = TYPE;
	for (uint64_t t = 0; t < TYPES; t++)
		if (strcmp(word, types[t].name) == 0) {
			c->args[2] = t;
			return 0;
		}
	*kind = NUMBERS;
	return parse_numbers(word, c, e);
}

int lx_resize_parse(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	char copy[256], *rest = copy, *word;
	unsigned seen = 0, kind;
	if (!text)
		return lx_err_set(e, LX_USAGE, "the size is missing");
	if (strlen(text) >= sizeof(copy))
		return lx_err_set(e, LX_USAGE, "'%.32s...' is too long", text);
	strcpy(copy, text);
	for (int i = 0; i < 3; i++)
		c->deviation[i] = 1;
	if (parse_size(strsep(&rest, ":"), c, e) < 0)
		return -1;
	while ((word = strsep(&rest, ":"))) {
		if (parse_word(word, c, &kind, e) < 0)
			return -1;
		if (seen & kind)
			return lx_err_set(e, LX_USAGE, "'%.64s' is one too many of its kind", word);
		seen |= kind;
	}
	if (c->args[2] == U8 && (seen & NUMBERS))
		return lx_err_set(e, LX_USAGE, "u8 has bytes as they are: no mean, no deviation");
	return 0;
}

/* ---- sizes ---- */

void lx_resize_size(const struct lx_gpu_call *c, const struct lx_device_input *in, uint32_t *columns, uint32_t *rows)
{
	struct lx_k_fit f = lx_k_fit(c->args, in->width, in->height);
	*columns = f.w;
	*rows = f.h;
}

static uint32_t plane(const struct lx_gpu_call *c)
{
	return (uint32_t)c->args[0] * (uint32_t)(c->args[0] >> 32);
}

uint32_t lx_resize_words(const struct lx_gpu_call *c)
{
	return (3 * plane(c) + 7) / 8;
}

uint64_t lx_resize_work(const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	struct lx_k_fit f = lx_k_fit(c->args, in->width, in->height);
	return (uint64_t)f.w * in->height * in->channels;
}

/* ---- numbers ---- */

/* The half precision number nearest to v, the even one of two. */
static uint32_t half(double v)
{
	double a = fabs(v);
	uint32_t sign = signbit(v) ? 0x8000 : 0;
	if (a >= 65520)
		return sign | 0x7c00;
	int power = a < 0x1p-14 ? -14 : ilogb(a);
	return sign | (((uint32_t)(power + 14) << 10) + (uint32_t)rint(ldexp(a, 10 - power)));
}

static uint32_t bits(double v, uint64_t type)
{
	float f = (float)v;
	uint32_t n;
	if (type == F16)
		return half(v);
	memcpy(&n, &f, sizeof(n));
	return n;
}

static void pack_numbers(uint8_t *to, const uint8_t *from, uint32_t n, const uint32_t *number, uint32_t size)
{
	for (uint32_t i = 0; i < n; i++, to += size)
		for (uint32_t b = 0; b < size; b++)
			to[b] = (uint8_t)(number[from[i]] >> 8 * b);
}

static void pack_plane(uint8_t *to, const uint8_t *from, const struct lx_gpu_call *c, int channel)
{
	uint32_t number[256];
	for (int v = 0; v < 256; v++)
		number[v] = bits((v / 255.0 - c->mean[channel]) / c->deviation[channel], c->args[2]);
	/* constant sizes, for the compiler */
	if (c->args[2] == F32)
		pack_numbers(to, from, plane(c), number, 4);
	else
		pack_numbers(to, from, plane(c), number, 2);
}

void lx_resize_pack(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	const uint8_t *from = (const uint8_t *)out;
	uint32_t n = plane(c), size = types[c->args[2]].size;
	(void)in;
	lx_pack_map(to, 3);
	lx_pack_cstr(to, "shape");
	lx_pack_array(to, 3);
	lx_pack_uint(to, 3);
	lx_pack_uint(to, c->args[0] >> 32);
	lx_pack_uint(to, (uint32_t)c->args[0]);
	lx_pack_cstr(to, "type");
	lx_pack_cstr(to, types[c->args[2]].type);
	lx_pack_cstr(to, "data");
	if (c->args[2] == U8) {
		lx_pack_bin(to, (struct lx_span){ from, 3 * (size_t)n });
		return;
	}
	lx_pack_bin_head(to, 3 * (size_t)n * size);
	uint8_t *at = lx_buf_room(to, 3 * (size_t)n * size);
	for (int i = 0; at && i < 3; i++)
		pack_plane(at + (size_t)i * n * size, from + (size_t)i * n, c, i);
	if (at)
		to->len += 3 * (size_t)n * size;
}

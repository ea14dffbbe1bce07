#include "image_int.h"

struct header {
	const uint8_t *p, *end; /* the raster, and what is behind it */
	char type; /* '1' to '6' */
	uint64_t width, height;
	uint32_t channels;
	uint64_t maxval;
};

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_netpbm(struct lx_span b)
{
	return b.len >= 3 && b.p[0] == 'P' && b.p[1] >= '1' && b.p[1] <= '6' && (b.p[2] == '#' || is_space(b.p[2]));
}

/* White space and comments, then a number. */
static int read_number(struct header *h, uint64_t *v)
{
	bool comment = false;
	for (; h->p < h->end && (comment || *h->p == '#' || is_space(*h->p)); h->p++)
		comment = *h->p == '#' || (comment && *h->p != '\n');
	const uint8_t *first = h->p;
	for (*v = 0; h->p < h->end && *h->p >= '0' && *h->p <= '9' && *v <= UINT32_MAX; h->p++)
		*v = *v * 10 + (*h->p - '0');
	return h->p == first ? -1 : 0;
}

static int read_header(struct lx_span bytes, struct header *h, struct lx_err *e)
{
	*h = (struct header){ .p = bytes.p + 2, .end = bytes.p + bytes.len, .type = (char)bytes.p[1], .channels = 1, .maxval = 1 };
	if (h->type == '3' || h->type == '6')
		h->channels = 3;
	bool bits = h->type == '1' || h->type == '4';
	if (read_number(h, &h->width) < 0 || read_number(h, &h->height) < 0 || (!bits && read_number(h, &h->maxval) < 0))
		return lx_err_set(e, LX_DATA, "netpbm: no size in its header");
	if (h->maxval < 1 || h->maxval > 65535)
		return lx_err_set(e, LX_DATA, "netpbm: a maxval of %llu, not 1 to 65535", ULL(h->maxval));
	if (h->type >= '4' && h->p < h->end)
		h->p++; /* one byte of white space before the raster */
	return 0;
}

static uint64_t row_samples(const struct header *h)
{
	return h->width * h->channels;
}

/* Bytes of a row of a raw image. */
static uint64_t row_bytes(const struct header *h)
{
	return h->type == '4' ? (h->width + 7) / 8 : row_samples(h) * (h->maxval > 255 ? 2 : 1);
}

/* The bytes the raster takes: exactly, of a plain one at least. */
static uint64_t raster_bytes(const struct header *h)
{
	if (h->type >= '4')
		return row_bytes(h) * h->height;
	return h->type == '1' ? row_samples(h) * h->height : 2 * row_samples(h) * h->height - 1;
}

static int probe(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im, struct lx_err *e)
{
	struct header h;
	if (read_header(bytes, &h, e) < 0 || image_size(im, h.width, h.height, max_pixels, e) < 0)
		return -1;
	im->channels = h.channels;
	if ((uint64_t)(h.end - h.p) < raster_bytes(&h))
		return lx_err_set(e, LX_DATA, "netpbm: %llu bytes of pixels, not %llu", ULL(h.end - h.p), ULL(raster_bytes(&h)));
	return 0;
}

static uint8_t scaled(uint32_t v, uint32_t maxval)
{
	return (uint8_t)((v * 255 + maxval / 2) / maxval);
}

/* Bits need no space between them. */
static int decode_plain_bits(struct header *h, uint64_t samples, uint8_t *out, struct lx_err *e)
{
	for (uint64_t i = 0; i < samples; i++) {
		while (h->p < h->end && is_space(*h->p))
			h->p++;
		if (h->p == h->end || (*h->p != '0' && *h->p != '1'))
			return lx_err_set(e, LX_DATA, "netpbm: sample %llu of %llu is missing or neither 0 nor 1", ULL(i), ULL(samples));
		out[i] = *h->p++ == '1' ? 0 : 255;
	}
	return 0;
}

static int decode_plain(struct header *h, uint64_t samples, uint8_t *out, struct lx_err *e)
{
	for (uint64_t i = 0, v; i < samples; i++) {
		if (read_number(h, &v) < 0 || v > h->maxval)
			return lx_err_set(e, LX_DATA, "netpbm: sample %llu of %llu is missing or over its maxval", ULL(i), ULL(samples));
		out[i] = scaled((uint32_t)v, (uint32_t)h->maxval);
	}
	return 0;
}

static void decode_bits(struct header *h, uint8_t *out)
{
	for (uint64_t y = 0; y < h->height; y++, h->p += row_bytes(h))
		for (uint64_t x = 0; x < h->width; x++)
			*out++ = h->p[x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
}

static int decode_raw(struct header *h, uint64_t samples, uint8_t *out, struct lx_err *e)
{
	uint32_t maxval = (uint32_t)h->maxval, wide = maxval > 255 ? 2 : 1;
	for (uint64_t i = 0; i < samples; i++, h->p += wide) {
		uint32_t v = wide == 2 ? (uint32_t)h->p[0] << 8 | h->p[1] : *h->p;
		if (v > maxval)
			return lx_err_set(e, LX_DATA, "netpbm: sample %llu of %llu is over its maxval", ULL(i), ULL(samples));
		out[i] = scaled(v, maxval);
	}
	return 0;
}

static int decode_raster(struct header *h, uint8_t *out, struct lx_err *e)
{
	uint64_t samples = row_samples(h) * h->height;
	if (h->type == '1')
		return decode_plain_bits(h, samples, out, e);
	if (h->type < '4')
		return decode_plain(h, samples, out, e);
	if (h->type == '4') {
		decode_bits(h, out);
		return 0;
	}
	if (h->maxval != 255)
		return decode_raw(h, samples, out, e);
	memcpy(out, h->p, samples);
	h->p += samples;
	return 0;
}

static int decode(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	struct header h;
	(void)im;
	if (read_header(bytes, &h, e) < 0 || decode_raster(&h, out, e) < 0)
		return -1;
	for (; h.p < h.end; h.p++)
		if (!is_space(*h.p))
			return lx_err_set(e, LX_DATA, "netpbm: %llu bytes behind the image", ULL(h.end - h.p));
	return 0;
}

const struct image_format image_netpbm = { is_netpbm, probe, decode };

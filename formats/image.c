#include "image.h"

#include <png.h>
#include <stdio.h>
#include <turbojpeg.h>

#define ULL(x) ((unsigned long long)(x))

/* ---- netpbm ---- */

struct netpbm {
	const uint8_t *p, *end;
	char type; /* '1' to '6' */
	uint64_t maxval;
};

/* White space and comments, then a number. */
static int read_number(struct netpbm *n, uint64_t *v)
{
	bool comment = false;
	for (; n->p < n->end && (comment || *n->p == '#' || *n->p == ' ' || (*n->p >= '\t' && *n->p <= '\r')); n->p++)
		comment = *n->p == '#' || (comment && *n->p != '\n');
	const uint8_t *first = n->p;
	for (*v = 0; n->p < n->end && *n->p >= '0' && *n->p <= '9' && *v <= UINT32_MAX; n->p++)
		*v = *v * 10 + (*n->p - '0');
	return n->p == first ? -1 : 0;
}

static int read_netpbm(struct lx_span bytes, struct netpbm *n, uint64_t *width, uint64_t *height, struct lx_err *e)
{
	*n = (struct netpbm){ bytes.p + 2, bytes.p + bytes.len, (char)bytes.p[1], 1 };
	bool bits = n->type == '1' || n->type == '4';
	if (read_number(n, width) < 0 || read_number(n, height) < 0 || (!bits && read_number(n, &n->maxval) < 0))
		return lx_err_set(e, LX_DATA, "netpbm: no size in its header");
	if (n->maxval < 1 || n->maxval > 65535)
		return lx_err_set(e, LX_DATA, "netpbm: a maxval of %llu, not 1 to 65535", ULL(n->maxval));
	if (n->type >= '4' && n->p < n->end)
		n->p++; /* one byte of white space before the raster */
	return 0;
}

static uint8_t scaled(const struct netpbm *n, uint64_t v)
{
	return (uint8_t)((v * 255 + n->maxval / 2) / n->maxval);
}

static int decode_plain(struct netpbm *n, uint64_t samples, uint8_t *out, struct lx_err *e)
{
	for (uint64_t i = 0; i < samples; i++) {
		uint64_t v;
		if (n->type == '1') { /* bits need no space between them */
			while (n->p < n->end && *n->p != '0' && *n->p != '1' && (*n->p == ' ' || (*n->p >= '\t' && *n->p <= '\r')))
				n->p++;
			if (n->p == n->end || (*n->p != '0' && *n->p != '1'))
				return lx_err_set(e, LX_DATA, "netpbm: it ends after %llu of %llu samples", ULL(i), ULL(samples));
			out[i] = *n->p++ == '1' ? 0 : 255;
			continue;
		}
		if (read_number(n, &v) < 0 || v > n->maxval)
			return lx_err_set(e, LX_DATA, "netpbm: sample %llu of %llu is missing or over its maxval", ULL(i), ULL(samples));
		out[i] = scaled(n, v);
	}
	return 0;
}

static int decode_raw(struct netpbm *n, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	uint64_t samples = (uint64_t)im->width * im->height * im->channels, wide = n->maxval > 255 ? 2 : 1, left = (uint64_t)(n->end - n->p);
	uint64_t row = n->type == '4' ? ((uint64_t)im->width + 7) / 8 : (uint64_t)im->width * im->channels * wide;
	if (left < row * im->height)
		return lx_err_set(e, LX_DATA, "netpbm: %llu bytes of pixels, not %llu", ULL(left), ULL(row * im->height));
	if (n->type == '4') {
		for (uint64_t y = 0; y < im->height; y++, n->p += row)
			for (uint64_t x = 0; x < im->width; x++)
				*out++ = n->p[x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
		return 0;
	}
	if (n->maxval == 255) {
		memcpy(out, n->p, samples);
		n->p += samples;
		return 0;
	}
	for (uint64_t i = 0; i < samples; i++, n->p += wide) {
		uint64_t v = wide == 2 ? (uint64_t)n->p[0] << 8 | n->p[1] : *n->p;
		if (v > n->maxval)
			return lx_err_set(e, LX_DATA, "netpbm: sample %llu is over its maxval", ULL(i));
		out[i] = scaled(n, v);
	}
	return 0;
}

static int decode_netpbm(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	struct netpbm n;
	uint64_t w, h;
	if (read_netpbm(bytes, &n, &w, &h, e) < 0)
		return -1;
	if ((n.type <= '3' ? decode_plain(&n, w * h * im->channels, out, e) : decode_raw(&n, im, out, e)) < 0)
		return -1;
	for (; n.p < n.end; n.p++)
		if (*n.p != ' ' && (*n.p < '\t' || *n.p > '\r'))
			return lx_err_set(e, LX_DATA, "netpbm: %llu bytes behind the image", ULL(n.end - n.p));
	return 0;
}

/* ---- PNG ---- */

static int png_failed(png_image *png, struct lx_err *e)
{
	lx_err_set(e, LX_DATA, "PNG: %s", png->message);
	png_image_free(png);
	return -1;
}

/* What is a warning to libpng is damage to us. */
static int open_png(struct lx_span bytes, png_image *png, struct lx_err *e)
{
	memset(png, 0, sizeof(*png));
	png->version = PNG_IMAGE_VERSION;
	if (!png_image_begin_read_from_memory(png, bytes.p, bytes.len) || png->warning_or_error)
		return png_failed(png, e);
	return 0;
}

static int decode_png(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	const png_color white = { 255, 255, 255 };
	png_image png;
	if (open_png(bytes, &png, e) < 0)
		return -1;
	png.format = im->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
	if (!png_image_finish_read(&png, &white, out, 0, NULL) || png.warning_or_error)
		return png_failed(&png, e);
	png_image_free(&png);
	return 0;
}

/* ---- JPEG ---- */

static int jpeg_failed(tjhandle tj, struct lx_err *e)
{
	lx_err_set(e, LX_DATA, "JPEG: %s", tjGetErrorStr2(tj));
	tjDestroy(tj);
	return -1;
}

static int probe_jpeg(struct lx_span bytes, uint64_t *width, uint64_t *height, uint32_t *channels, struct lx_err *e)
{
	int w = 0, h = 0, sampling = 0, colours = 0;
	tjhandle tj = tjInitDecompress();
	if (!tj)
		return lx_err_set(e, LX_SYSTEM, "JPEG: no memory");
	if (tjDecompressHeader3(tj, bytes.p, bytes.len, &w, &h, &sampling, &colours) < 0)
		return jpeg_failed(tj, e);
	tjDestroy(tj);
	if (colours == TJCS_CMYK || colours == TJCS_YCCK)
		return lx_err_set(e, LX_DATA, "JPEG: CMYK, only grey and RGB are read");
	*width = (uint64_t)w;
	*height = (uint64_t)h;
	*channels = colours == TJCS_GRAY ? 1 : 3;
	return 0;
}

static int decode_jpeg(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	tjhandle tj = tjInitDecompress();
	if (!tj)
		return lx_err_set(e, LX_SYSTEM, "JPEG: no memory");
	if (tjDecompress2(tj, bytes.p, bytes.len, out, (int)im->width, 0, (int)im->height, im->channels == 3 ? TJPF_RGB : TJPF_GRAY,
	                  TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING) < 0)
		return jpeg_failed(tj, e);
	tjDestroy(tj);
	return 0;
}

/* ---- any ---- */

static int unknown(struct lx_span bytes, struct lx_err *e)
{
	char first[3 * 4 + 1] = "";
	for (size_t i = 0; i < 4 && i < bytes.len; i++)
		snprintf(first + 3 * i, 4, " %02x", bytes.p[i]);
	return lx_err_set(e, LX_DATA, bytes.len ? "neither netpbm, PNG nor JPEG (first bytes%s)" : "no bytes where an image should be%s", first);
}

static int probe(struct lx_span bytes, struct lx_image *im, uint64_t *width, uint64_t *height, struct lx_err *e)
{
	const uint8_t *p = bytes.p;
	struct netpbm n;
	png_image png;
	if (bytes.len >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6' && (p[2] == '#' || p[2] == ' ' || (p[2] >= '\t' && p[2] <= '\r'))) {
		im->kind = LX_IMAGE_NETPBM;
		im->channels = p[1] == '3' || p[1] == '6' ? 3 : 1;
		return read_netpbm(bytes, &n, width, height, e);
	}
	if (bytes.len >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0) {
		if (open_png(bytes, &png, e) < 0)
			return -1;
		im->kind = LX_IMAGE_PNG;
		im->channels = png.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
		*width = png.width;
		*height = png.height;
		png_image_free(&png);
		return 0;
	}
	if (bytes.len >= 3 && memcmp(p, "\xff\xd8\xff", 3) == 0) {
		im->kind = LX_IMAGE_JPEG;
		return probe_jpeg(bytes, width, height, &im->channels, e);
	}
	return unknown(bytes, e);
}

int lx_image_probe(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im, struct lx_err *e)
{
	uint64_t w = 0, h = 0;
	if (probe(bytes, im, &w, &h, e) < 0)
		return -1;
	if (!w || !h || w > INT32_MAX || h > INT32_MAX)
		return lx_err_set(e, LX_DATA, "%llu x %llu pixels", ULL(w), ULL(h));
	if (w * h > max_pixels)
		return lx_err_set(e, LX_DATA, "%llu x %llu pixels, over %llu (--max-pixels)", ULL(w), ULL(h), ULL(max_pixels));
	im->width = (uint32_t)w;
	im->height = (uint32_t)h;
	return 0;
}

int lx_image_decode(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	switch (im->kind) {
	case LX_IMAGE_NETPBM:
		return decode_netpbm(bytes, im, out, e);
	case LX_IMAGE_PNG:
		return decode_png(bytes, im, out, e);
	case LX_IMAGE_JPEG:
		break;
	}
	return decode_jpeg(bytes, im, out, e);
}

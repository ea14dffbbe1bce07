#include "image_int.h"

#include <stdio.h>

static const struct image_format *const formats[] = {
	[LX_IMAGE_NETPBM] = &image_netpbm,
	[LX_IMAGE_PNG] = &image_png,
	[LX_IMAGE_JPEG] = &image_jpeg,
};

int image_size(struct lx_image *im, uint64_t width, uint64_t height, uint64_t max_pixels, struct lx_err *e)
{
	if (!width || !height || width > INT32_MAX || height > INT32_MAX)
		return lx_err_set(e, LX_DATA, "%llu x %llu pixels", ULL(width), ULL(height));
	if (width * height > max_pixels)
		return lx_err_set(e, LX_DATA, "%llu x %llu pixels, over %llu (--max-pixels)", ULL(width), ULL(height), ULL(max_pixels));
	im->width = (uint32_t)width;
	im->height = (uint32_t)height;
	return 0;
}

static int unknown(struct lx_span bytes, struct lx_err *e)
{
	char first[3 * 4 + 1] = "";
	for (size_t i = 0; i < 4 && i < bytes.len; i++)
		snprintf(first + 3 * i, 4, " %02x", bytes.p[i]);
	return lx_err_set(e, LX_DATA, bytes.len ? "neither netpbm, PNG nor JPEG (first bytes%s)" : "no bytes where an image should be%s", first);
}

int lx_image_probe(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im, struct lx_err *e)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
		if (formats[i]->is(bytes)) {
			im->kind = (enum lx_image_kind)i;
			return formats[i]->probe(bytes, max_pixels, im, e);
		}
	return unknown(bytes, e);
}

int lx_image_decode(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	return formats[im->kind]->decode(bytes, im, out, e);
}

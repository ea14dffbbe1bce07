/* image: one whole image in memory to packed 8-bit pixels.
 *
 * Samples are what the file has, 0 to 255: no gamma, no colour profile, no rotation is applied. One of another maximum is
 * v * 255 / maximum, rounded to the nearest, half up; that is, of a bit 0 or 255.
 *
 * netpbm   P1 to P6. White space may follow, nothing else.
 * PNG      through libpng; all chunks are checked, those that are not needed for its pixels are otherwise ignored. What is
 *          transparent lies on white: (v * alpha + 255 * (255 - alpha)) / 255 of 8-bit samples, rounded to the nearest.
 *          An index that the palette has no colour for is black. What follows the image is not looked at.
 * JPEG     through libjpeg-turbo, with its accurate DCT. CMYK is refused, EXIF ignored. What follows is not looked at.
 *
 * An image that ends early or is damaged is an error, never half an image; so is what libpng and libjpeg only warn about.
 *
 * Nothing a file says of itself is believed before it was compared with max_pixels and, for netpbm and PNG, with how many
 * pixels its bytes can hold. Besides what the caller has for the pixels, decoding takes the memory of some rows; of a
 * progressive JPEG 6 bytes a pixel.
 */
#ifndef LX_IMAGE_H
#define LX_IMAGE_H

#include "buf.h"

enum lx_image_kind { LX_IMAGE_NETPBM, LX_IMAGE_PNG, LX_IMAGE_JPEG };

struct lx_image {
	uint32_t width, height;
	uint32_t channels; /* 1 grey, 3 RGB, interleaved */
	enum lx_image_kind kind;
};

#define LX_IMAGE_PIXELS (1ull << 28) /* a usual limit on width x height */

/* What an image is, from its header. -1: LX_DATA, why: "neither netpbm, PNG nor JPEG", over max_pixels. */
int lx_image_probe(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im, struct lx_err *e);
/* Its pixels, width x height x channels bytes, rows from the top and without padding. `bytes` and `im` are those of
 * lx_image_probe. -1: LX_DATA, and where; LX_SYSTEM (no memory). */
int lx_image_decode(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e);

#endif

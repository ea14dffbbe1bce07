/* image: one whole image in memory to packed 8-bit pixels.
 *
 * netpbm   P1 to P6; bits are 0 and 255, samples of another maxval v * 255 / maxval, rounded. White space may follow.
 * PNG      through libpng; 16 bits are reduced to 8, what is transparent lies on white
 * JPEG     through libjpeg-turbo, with its accurate DCT; CMYK is refused
 *
 * An image that ends early or is damaged is an error, never half an image.
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
/* Its pixels, width x height x channels bytes, rows from the top and without padding. -1: LX_DATA, or LX_SYSTEM (no memory). */
int lx_image_decode(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e);

#endif

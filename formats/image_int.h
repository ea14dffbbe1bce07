/* image_int: between image.c and the formats, which have a file each; nobody else includes it. */
#ifndef LX_IMAGE_INT_H
#define LX_IMAGE_INT_H

#include "image.h"

#define ULL(x) ((unsigned long long)(x))

/* One format. */
struct image_format {
	bool (*is)(struct lx_span bytes);
	/* Fill width, height and channels; ask image_size first. -1: LX_DATA. */
	int (*probe)(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im, struct lx_err *e);
	int (*decode)(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e);
};

extern const struct image_format image_netpbm, image_png, image_jpeg;

/* Whether an image may have this size. -1: LX_DATA: no pixels, or too many. Else im has it, and their product is at most
 * max_pixels. */
int image_size(struct lx_image *im, uint64_t width, uint64_t height, uint64_t max_pixels, struct lx_err *e);

#endif

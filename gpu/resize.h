/* resize: the op that brings images to one size, the host's side. Its kernel is gpu/resize.k.h. */
#ifndef LX_RESIZE_H
#define LX_RESIZE_H

#include "op.h"

/* "224x224:letterbox:f16:0.5,0.25" */
int lx_resize_parse(const char *text, struct lx_gpu_call *c, struct lx_err *e);
/* The size an image is resampled to. */
void lx_resize_size(const struct lx_gpu_call *c, const struct lx_device_input *in, uint32_t *columns, uint32_t *rows);
uint32_t lx_resize_words(const struct lx_gpu_call *c);
uint64_t lx_resize_work(const struct lx_gpu_call *c, const struct lx_device_input *in);
void lx_resize_pack(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in);

#endif

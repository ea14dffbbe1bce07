/* nvrtc: a kernel file of the user's, compiled for a CUDA device. The compiler is a library that is looked for when it is
 * wanted; nothing is linked against it, and it needs no device.
 */
#ifndef LX_NVRTC_H
#define LX_NVRTC_H

#include "buf.h"

/* Compile for a compute capability into `image`: a cubin, or PTX with a NUL behind it where the compiler does not know the
 * device yet. `log` (to be freed): what the compiler said. -1: LX_USAGE: it refuses the file; LX_WORKER: it is not there or too old;
 * LX_SYSTEM. */
int lx_nvrtc_compile(const char *file, const char *source, int major, int minor, struct lx_buf *image, struct lx_buf *log, struct lx_err *e);

#endif

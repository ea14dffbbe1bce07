/* compile: a kernel file of the user's, made into a plugin for the CPU device by the C compiler.
 *
 * What was compiled is kept in ${XDG_CACHE_HOME:-~/.cache}/lx, by the hash of the file, of kernel.h, of the flags and of
 * the compiler (where it lies, its size and when it was changed), with a checksum: a file there that is not whole, not ours
 * or writable for others is made again. Where that folder cannot be used, or is not ours alone, and for files that
 * include others of the user's, nothing is kept. Starts at the same time do not disturb each other.
 */
#ifndef LX_COMPILE_H
#define LX_COMPILE_H

#include "buf.h"

#define LX_COMPILE_SOURCE (16u << 20) /* bytes a file has at most */

/* A compiled file: dlopen it, then lx_compiled_free. */
struct lx_compiled {
	char *path;
	char *dir; /* holds it, and goes with it; NULL: it stays */
};

/* kernel.h, as this program knows it, with a NUL behind it. */
extern const char lx_kernel_header[];

/* Read a file of kernels, with a NUL behind it. -1: LX_USAGE: why not. */
int lx_compile_read(const char *file, struct lx_buf *source, struct lx_err *e);
/* -1: LX_USAGE: there is no compiler, or it refuses the file (its words went to standard error), or took over a minute;
 * LX_SYSTEM. Blocks while the compiler runs; a stop signal ends it. */
int lx_compile(const char *file, const struct lx_buf *source, struct lx_compiled *c, struct lx_err *e);
void lx_compiled_free(struct lx_compiled *c);

#endif

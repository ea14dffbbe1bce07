/* compile: a kernel file of the user's, made into a plugin for the CPU device by the C compiler.
 *
 * What was compiled is kept in ${XDG_CACHE_HOME:-~/.cache}/lx, by the hash of the file, of kernel.h, of the flags and of
 * the compiler (where it lies, its size and when it was changed), with a checksum: a file there that is not whole, not ours
 * or writable for others is made again. Where that folder cannot be used, or is not ours alone, and for files that
 * include others of the user's, nothing is kept. Starts at the same time do not disturb each other, and what is checked
 * is what is loaded, whatever becomes of the folder.
 */
#ifndef LX_COMPILE_H
#define LX_COMPILE_H

#include "buf.h"

#define LX_COMPILE_SOURCE (16u << 20) /* bytes a file has at most */
#define LX_COMPILE_SOURCE_TEXT "16 MiB"

/* kernel.h, as this program knows it, with a NUL behind it. */
extern const char lx_kernel_header[];

/* Read a regular file of at most max bytes, with a NUL behind it. -1: LX_USAGE: why not, naming max_text where it is too large. */
int lx_compile_read(const char *file, uint64_t max, const char *max_text, struct lx_buf *to, struct lx_err *e);
/* A descriptor of the shared object, to be closed when that is not loaded any more: the loader knows it by its number. -1: LX_USAGE:
 * there is no compiler, or it refuses the file (its words went to standard error), or took over a minute; the file is no text;
 * LX_SYSTEM. Blocks while the compiler runs; a stop signal ends it. */
int lx_compile(const char *file, const struct lx_buf *source, struct lx_err *e);

#endif

/* files: what a command leaves in a directory, in natural order (lx-expand -s files).
 *
 * Every regular file counts, also those whose name begins with a dot and those in subdirectories, which are
 * entered. Symbolic links are never followed, not even to a file inside: they, and FIFOs, sockets and devices,
 * are counted in `skipped`. Mount points are not crossed.
 * Natural order: digits count as numbers (page-2 before page-10), anything else by bytes; a directory's files
 * stand together.
 */
#ifndef LX_FILES_H
#define LX_FILES_H

#include "buf.h"

#define LX_FILES_DEPTH_MAX 64 /* directories below one another */

struct lx_files {
	char **path; /* relative to the directory, without "./" */
	size_t n;
	size_t skipped; /* neither regular file nor directory */
};

/* -1: LX_SYSTEM; LX_DATA when directories nest deeper than LX_FILES_DEPTH_MAX. Free in either case. */
int lx_files_list(const char *dir, struct lx_files *f, struct lx_err *e);
void lx_files_free(struct lx_files *f);

/* Open dir/path for reading: close-on-exec, refusing a last component that is no regular file. -1: LX_SYSTEM. */
int lx_files_open(const char *dir, const char *path, struct lx_err *e);

/* < 0, 0, > 0; 0 only for equal strings. */
int lx_natural_cmp(const char *a, const char *b);

#endif

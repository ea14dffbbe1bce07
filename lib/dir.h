/* dir: a fresh directory for one command, and its removal with all that was left in it. */
#ifndef LX_DIR_H
#define LX_DIR_H

#include "err.h"

/* Make a directory of mode 0700 in `parent` (NULL: $TMPDIR, else /tmp); its absolute path, to be freed. NULL: LX_SYSTEM. */
char *lx_dir_make(const char *parent, struct lx_err *e);
/* Remove a directory and everything below it. Symbolic links are removed, never followed; missing
 * permissions of directories are put right; depth costs neither stack nor descriptors. -1: LX_SYSTEM, something is left
 * (a mount point, or somebody keeps adding files). */
int lx_dir_remove(const char *path, struct lx_err *e);

#endif

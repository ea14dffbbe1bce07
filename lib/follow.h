/* follow: the parts of a run as they appear in directories (part.h).
 *
 * A file is taken once it is whole: it is read to its end before anything of it is handed out. What is not whole is looked at
 * again when it has changed. Of a number the first file that is whole counts. Part 0 is handed out first. Files of other
 * runs are left out. Files that begin with a dot, and those not called NAME.lx, are none.
 */
#ifndef LX_FOLLOW_H
#define LX_FOLLOW_H

#include "part.h"

struct lx_follow;

/* dirs: NULL-terminated, not copied. say (may be NULL): one line for people. NULL: LX_SYSTEM. */
struct lx_follow *lx_follow_new(char *const *dirs, const struct lx_limits *l, void (*say)(const char *line), struct lx_err *e);
void lx_follow_free(struct lx_follow *f);

/* Look once. 1: *path is a part that was not there before, whole (valid until the next call); 0: all parts have been handed out;
 * LX_IO_AGAIN: nothing new; -1: LX_SYSTEM, or LX_USAGE: first parts of two runs. */
int lx_follow_next(struct lx_follow *f, const char **path, struct lx_err *e);
/* How long to wait after LX_IO_AGAIN: longer where looking takes long. */
int lx_follow_nap_ms(const struct lx_follow *f);
/* No more will come: say which files were not taken, and why. */
void lx_follow_report(const struct lx_follow *f);

#endif

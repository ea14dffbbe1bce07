/* part: a file that holds one part of a run (lx-stream(5)), as lx-batch --spool and its jobs write them.
 *
 * Parts rest in directories as files called NAME.lx. What is not whole is none: it is half a result, or still on its way.
 */
#ifndef LX_PART_H
#define LX_PART_H

#include "stream.h"

struct lx_part {
	char run[LX_RUN_MAX + 1];
	uint64_t number;
	uint64_t parts; /* how many there are, if it is the last; else 0 */
};

/* Read a file to its end and check all that can be checked. rec (may be NULL) is called with each of its records; what it
 * refuses is refused here. -1: LX_SYSTEM, LX_VERSION, or LX_DATA: cut off, damaged, no part, several segments; the message names
 * the file. */
int lx_part_read(const char *path, const struct lx_limits *l, struct lx_part *p,
                 int (*rec)(void *ctx, const struct lx_rec *r, struct lx_err *e), void *ctx, struct lx_err *e);
/* Its begin mark alone: run and number. */
int lx_part_head(const char *path, const struct lx_limits *l, struct lx_part *p, struct lx_err *e);

/* Whether a directory's entry may be a part: NAME.lx that does not begin with a dot. */
bool lx_part_name(const char *name);

#endif

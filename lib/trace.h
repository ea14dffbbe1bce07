/* trace: what happened to each item and when, one JSON object a line (--trace).
 *
 *     {"ms":12.345,"event":"take","domain":"page","id":"0.3"}
 *
 * ms counts from the start of the trace. Events of a stage: `take` (handed to the stage's work), `present`,
 * `dropped`, `failed`, `suppressed` (its answer), `barred` (passed on without work). Lines are collected and
 * written when 64 KiB are full, at lx_trace_flush and at the end.
 */
#ifndef LX_TRACE_H
#define LX_TRACE_H

#include "rec.h"

struct lx_trace {
	int fd;
	uint64_t start_ns;
	struct lx_buf lines;
	struct lx_err err; /* the first failure: reported by lx_trace_close */
};

/* Create or empty the file. -1: LX_SYSTEM. */
int lx_trace_open(struct lx_trace *t, const char *path, struct lx_err *e);
/* t may be NULL. A failed write is kept for lx_trace_close. */
void lx_trace_event(struct lx_trace *t, const char *event, const char *domain, const struct lx_id *id);
void lx_trace_flush(struct lx_trace *t);
int lx_trace_close(struct lx_trace *t, struct lx_err *e);

#endif

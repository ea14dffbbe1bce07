/* stage: what every stage does the same: marks, passing on, barriers, sums.
 *
 * A stage works on one domain. lx_stage_next hands the caller each present, unbarred item of that
 * domain; everything else it deals with itself: records of other domains and non-present items are
 * passed on at once, an item below a barrier is passed on as suppressed or dropped without work.
 * The caller answers each item it was handed exactly once with lx_stage_put (or the helpers). At
 * the end of a run the sums are checked: in = present + dropped + failed + suppressed.
 *
 * A blocking stage calls lx_stage_wait when told LX_STEP_MORE (it flushes the open frame first, so that a
 * slow source leaves nothing stuck); a polling stage watches lx_stage_fd and calls lx_stage_fill.
 */
#ifndef LX_STAGE_H
#define LX_STAGE_H

#include "ledger.h"
#include "stream.h"
#include "trace.h"

enum lx_step {
	LX_STEP_ERROR = -1,
	LX_STEP_MORE = 0, /* no whole frame at hand */
	LX_STEP_ITEM,     /* *rec: a present item of the domain; valid until the next lx_stage_next */
	LX_STEP_REC,      /* only with take_all: any record of the run */
	LX_STEP_FRAME,    /* the frame at hand is done; a filter's is closed by the next lx_stage_next, after late answers */
	LX_STEP_RUN,      /* true end of a run's input, or of a part that is kept: settle, answer what is open, call lx_stage_end_run */
	LX_STEP_EOF,      /* nothing follows */
};

struct lx_stage;

struct lx_stage_conf {
	const char *tool;   /* "lx-map" */
	const char *domain; /* -d, or NULL for the last opened that is open */
	const char *domain_option; /* what names it; NULL: -d */
	int in, out;        /* descriptors; out == -1: a sink, nothing is written */
	const char *in_name; /* what messages call the input; NULL: stdin */
	struct lx_limits limits;
	int packing, level; /* --compress; packing -1: a filter answers in kind, a maker picks by the output */
	bool keep_frames;   /* a filter: frame boundaries of the input are kept */
	bool own_frames;    /* a maker that closes every frame itself (lx_writer_flush): none is closed for being full */
	bool take_all;      /* gather, sinks: every record is handed over, nothing is passed on or barred */
	bool any_domain;    /* lx-cat: no work domain is looked for */
	bool keep_parts;    /* a part of a run is answered by a part: a segment each, and whether all are there is seen by who joins them */
	bool check;         /* stop after the begin marks (LX_CHECK) */
	struct lx_trace *trace; /* --trace, or NULL */
	struct lx_ledger *ledger; /* of LX_RUN, or NULL: barriers are written there and learnt from it. Closed by lx_stage_release */
	/* At the begin mark of every run, with s->domain set: apply the stage's own operation to *p or
	 * refuse. Called before anything else of the run is read. */
	int (*plan)(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e);
	/* For a stage that holds items back (may be NULL, not with take_all). seen: a record that is dealt with here,
	 * before it is passed on; not present items of other domains. as: its outcome, or for a barred item
	 * what it becomes. barred: a new barrier, from whatever was seen or answered. hint: barriers from outside. */
	int (*seen)(void *ctx, const struct lx_rec *r, enum lx_outcome as, struct lx_err *e);
	void (*barred)(void *ctx, uint32_t domain, const struct lx_id *id, enum lx_outcome as);
	int (*hint)(void *ctx, const struct lx_hint *h, struct lx_err *e);
	/* put: takes the place of the output; with it `out` is -1. Records come as they would be written, and are copied. */
	int (*put)(void *ctx, const struct lx_rec *r, struct lx_err *e);
	/* other: a present item of another domain, before it is passed on. With it every frame is looked into. */
	int (*other)(void *ctx, const struct lx_rec *r, struct lx_err *e);
	void *ctx;
};

struct lx_stage {
	struct lx_stage_conf conf;
	struct lx_reader *in;
	struct lx_writer out;
	struct lx_plan plan;     /* as written: the input's plan with our operation applied */
	int domain;              /* work domain in plan */
	struct lx_doom *doom;
	struct lx_counts got;    /* records read, this run */
	uint64_t barred;         /* items of the domain passed on without work because of a barrier */
	uint64_t handed, answered, left_out;
	uint64_t parts;          /* how many there are, where the part at work is the last; else 0 */
	struct lx_buf scratch;   /* records being built */
	/* internal */
	int state;
	int source;     /* where what is learnt now comes from */
	bool in_frame;  /* records of the reader's frame are left */
	bool frame_due; /* a filter's frame is to be closed */
	bool run_waits; /* a begin mark was read and not acted on */
	bool checked;   /* LX_CHECK: done */
};

int lx_stage_init(struct lx_stage *s, const struct lx_stage_conf *c, struct lx_err *e);
void lx_stage_release(struct lx_stage *s);
enum lx_step lx_stage_next(struct lx_stage *s, struct lx_rec *rec, struct lx_err *e);
/* Send what is closed and the open frame, then block until input or a stop signal arrives: 0 or more, or -1. */
int lx_stage_wait(struct lx_stage *s, struct lx_err *e);
int lx_stage_fd(const struct lx_stage *s);
int lx_stage_fill(struct lx_stage *s, struct lx_err *e); /* one read, for polling stages: 0 or more, or -1 */

/* Answers. Each also teaches the barriers. A maker's frame is flushed when it is full. */
int lx_stage_put(struct lx_stage *s, const struct lx_rec *r, struct lx_err *e);     /* passes r on as it is (by reference in a filter) */
int lx_stage_put_buf(struct lx_stage *s, struct lx_buf *b, struct lx_err *e);       /* a record built in b; clears b */
/* The item with edited fields. */
int lx_stage_put_edit(struct lx_stage *s, const struct lx_rec *r, const struct lx_edit *edits, size_t n, struct lx_err *e);
int lx_stage_drop(struct lx_stage *s, const struct lx_rec *r, struct lx_err *e);
/* The item as failed, keeping its fields. `scope`: "record" (or NULL), "parent", or an ancestor's domain; an unknown one is a contract
 * error (LX_WORKER). A root item's parent scope is the item itself. */
struct lx_blame {
	const char *type;
	struct lx_span message;
	const char *scope;
	uint64_t attempt, elapsed_ms;
};
int lx_stage_fail(struct lx_stage *s, const struct lx_rec *r, const struct lx_blame *why, struct lx_err *e);
/* The item as suppressed. One that is itself the anchor of the barrier keeps its fields, and failed where the cause began at it. */
int lx_stage_suppress(struct lx_stage *s, const struct lx_rec *r, struct lx_span cause, struct lx_err *e);
/* The item came before and has left, and nothing can be said of it any more: it is left out, as it is the same one. */
void lx_stage_leave_out(struct lx_stage *s);
/* Build a cause for an item of any domain into b. */
int lx_stage_cause(struct lx_stage *s, struct lx_buf *b, uint32_t domain, const struct lx_id *id,
                   const struct lx_blame *why, struct lx_err *e);
/* With take_all: pass a record on as it is. */
int lx_stage_pass(struct lx_stage *s, const struct lx_rec *r, struct lx_err *e);
/* Records that are not answers (children, closes): counted, not checked as 1:1. */
int lx_stage_emit_buf(struct lx_stage *s, struct lx_buf *b, struct lx_err *e);
/* A present item of `domain`, not a root, whose bytes are what is in `head` (cleared) followed by `payload`: a large
 * payload is written from where it lies. */
int lx_stage_emit_item(struct lx_stage *s, uint32_t domain, struct lx_buf *head, struct lx_span payload, struct lx_err *e);
/* Whether an item that was handed out earlier has been barred meanwhile. */
enum lx_outcome lx_stage_barred(const struct lx_stage *s, const struct lx_rec *r, struct lx_span *cause);

/* Learn what the run's ledger has that is new: for stages that work on while they do not call lx_stage_next. Cheap; looks at
 * the file every few milliseconds. */
void lx_stage_ledger(struct lx_stage *s);
/* How long such a stage may sleep, in milliseconds: `ms` (-1: for ever), or less where there is a ledger. */
int lx_stage_nap(const struct lx_stage *s, int ms);

/* Learn the barriers of a hint, from an lx-batch whose worker this is. -1: LX_DATA. */
int lx_stage_bars(struct lx_stage *s, const struct lx_hint *h, struct lx_err *e);

/* After LX_STEP_RUN: check the sums and write the end mark. */
int lx_stage_end_run(struct lx_stage *s, struct lx_err *e);
/* Give up: flush what is whole, write an abort mark saying why (as it came when it came from upstream). Nothing is written
 * once a signal said to end now (lx_sig_stop). */
void lx_stage_abort(struct lx_stage *s, const struct lx_err *why);

#endif

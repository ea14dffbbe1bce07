/* jobs: a command for every item of a stage, several side by side: the loop of lx-map(1) and lx-filter(1).
 *
 * A thin loop around lib/sched: the process slots are its workers, batches are single items, and the order is `probe`:
 * a parent's first child goes ahead, and its siblings wait for that one while other work is at hand. Items below a new
 * barrier are withdrawn unrun; the result of one that runs then is discarded, unless it is its own failure.
 *
 * A command that is ended by a signal, runs too long or exits 75 is run again in its slot, up to `retries` times, after
 * 0.1 s, 0.2 s, ... 10 s, each times 0.5 to 1.5. Everything else is its verdict on the item.
 *
 * A maker (stage->conf.keep_frames false) reads on while fewer than max_waiting items and max_bytes of records wait; results
 * leave as they finish, and the open frame is closed when there is nothing else to do. A filter works one frame at a time.
 *
 * When the input turns out bad, the commands that run are finished and their results passed on; what waits gets no
 * verdict. On any other error, a stop signal, or a reader that has gone, the process groups are killed at once.
 */
#ifndef LX_JOBS_H
#define LX_JOBS_H

#include "job.h"
#include "stage.h"

/* What becomes of an item. */
struct lx_reply {
	enum lx_outcome outcome;      /* LX_PRESENT, LX_DROPPED, LX_FAILED */
	const struct lx_edit *edits;  /* present: changes of its fields */
	size_t n_edits;               /* 0: it goes on as it came */
	struct lx_blame blame;        /* failed */
};

struct lx_jobs_stats {
	uint64_t commands; /* started */
	uint64_t retried;
	uint64_t withdrawn, discarded; /* items barred before and after their command was started */
};

struct lx_jobs_conf {
	struct lx_stage *stage;   /* set up with the configuration that lx_jobs_hook was given */
	struct lx_job_conf job;   /* plan and domain are filled in */
	uint64_t slots;           /* 1 .. LX_JOBS_MAX */
	uint64_t retries;
	uint64_t max_waiting, max_bytes;
	const char *tmpdir;       /* for {dir} */
	bool mute;                /* what the command writes on stdout is thrown away (job.max_output is 0) */
	/* Which field is sent on stdin; NULL: `data`, or nothing where there is none. An item without the field that was asked
	 * for, or without data that was declared, fails `no-field`. */
	const char *in_field;
	/* The bytes of its value: they may lie in the value or be put into `room`. 0, -1. */
	int (*payload)(struct lx_span value, struct lx_buf *room, struct lx_span *bytes, struct lx_err *e);
	/* The command's verdict. *out holds the failure of a command that did not end well, LX_PRESENT without edits
	 * otherwise; what it is made to point to must last until the next call. 0, -1. */
	int (*reply)(void *ctx, const struct lx_rec *r, const struct lx_job *j, struct lx_reply *out, struct lx_err *e);
	/* The end mark of a run was written. 0, -1. */
	int (*end_run)(void *ctx, const struct lx_jobs_stats *st, struct lx_err *e);
	void *ctx;
	/* internal */
	const char *sent; /* in_field, or what stands for it in this run */
	bool needed;      /* an item without it fails */
};
#define LX_JOBS_MAX 512

/* In the plan callback of the stage: check that the fields are known that the command reads (in_field, job.tmpl, job.env)
 * and add them to `reads`. -1: LX_USAGE. */
int lx_jobs_plan(struct lx_jobs_conf *c, const struct lx_plan *p, int domain, struct lx_strs *reads, struct lx_err *e);

struct lx_jobs;
struct lx_jobs *lx_jobs_new(struct lx_err *e); /* LX_SYSTEM */
void lx_jobs_free(struct lx_jobs *js);
/* Have the stage tell of barriers: sets ctx, barred and hint of its configuration. */
void lx_jobs_hook(struct lx_jobs *js, struct lx_stage_conf *sc);
/* Run to the end of the input. No command is left when it returns. It raises SIGPIPE as soon as the reader of the output has
 * gone. *c must last as long. */
int lx_jobs_run(struct lx_jobs *js, struct lx_jobs_conf *c, struct lx_err *e);

/* For --stats: JSON members that begin with a comma. */
void lx_jobs_members(const struct lx_jobs_stats *st, char *out, size_t size);
#define LX_JOBS_MEMBERS_MAX 160

#endif

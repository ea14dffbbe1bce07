/* pool: one call on a pool of worker processes: the loop around the scheduler (sched.h).
 *
 * Items of the stage's domain are copied as they arrive and handed to the scheduler; batches go to workers
 * (worker.h) as frames of a stream whose begin mark is the input's; answers are put out as they come. What
 * the workers declare in their begin marks (fields read and written) becomes part of our own, so the
 * first of them is waited for before anything is written.
 *
 * A worker gets the input's domain tree, with what was opened after the call's domain marked as gathered: the
 * domain of the call is the last one open. Barriers go to the workers as hints; hints with barriers on the
 * input are obeyed.
 *
 * The scheduler's clock stands still while this process is busy for more than a moment (a reader that does
 * not take the output): nobody is over his time because of us.
 */
#ifndef LX_POOL_H
#define LX_POOL_H

#include "sched.h"
#include "stage.h"

struct lx_pool_cmd {
	char *const *argv;
	char *const *env;  /* changes to the environment, as lx_spawn; may be NULL */
	const char *name;  /* what messages call it */
	bool far;          /* reached over a network: its stream is compressed */
	bool host;         /* a machine, behind an lx-batch there: what ends it says nothing of the items, what it refuses nothing of the others */
};

struct lx_pool_conf {
	struct lx_sched_conf sched; /* levels and tolerance are set here */
	const struct lx_pool_cmd *cmds;
	size_t n;                /* workers: one for each; 0 only with `listen` */
	const char *listen;      /* unix:PATH on which workers may join (listen.h), with sched.elastic; NULL: none */
	const char *cost_field;  /* with sched.max_cost; NULL: every item costs 0 */
	const char *bucket_field; /* a number or a string or bytes (by length); NULL: one bucket */
	bool frames;             /* with sched.order fixed: a batch is an input frame */
	uint64_t silence_ms;     /* workers are asked to beat four times in it; 0: not asked */
	uint64_t mem;            /* bytes reserved for items; what does not fit is taken beside it */
	/* One line for people. May be NULL. */
	void (*say)(const char *line);
	/* After the end mark of a run: `more` is what --stats should say of it, JSON members beginning with a comma. */
	int (*run_done)(const struct lx_stage *s, const char *more, struct lx_err *e);
};

/* A field as a size: a number as it is (rounded up, 0 when negative), text and bytes by length, arrays and maps by
 * their elements. False: it is missing or has no size; then lx_pool_no_size fails the item as `no-field`. */
uint32_t lx_pool_bucket(uint64_t size); /* below LX_SCHED_BUCKETS, two to each doubling */
bool lx_pool_size(const struct lx_rec *r, const char *field, uint64_t *size);
int lx_pool_no_size(struct lx_stage *s, const struct lx_rec *r, const char *field, struct lx_err *e);

/* Run the stage to its end. `sc` says input, output, domain, limits; its callbacks are set here. On failure
 * an abort mark has been written. -1: see lx_err; LX_WORKER when workers are gone or broke the contract. */
int lx_pool_run(const struct lx_pool_conf *c, const struct lx_stage_conf *sc, struct lx_err *e);

#endif

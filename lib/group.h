/* group: the regrouping behind lx-gather. Records of a child domain, their parents and the closes
 * go in, in any order; each parent comes out once, settled, with its children in order.
 *
 * The verdict of a parent (lx(7), outcome rules), given as soon as it is known:
 *   - not present itself: passed on unchanged, its children are discarded, early or late;
 *   - complete (parent, close and all children seen): present;
 *   - doomed: suppressed, with the cause of the child that dooms it. That is a child whose cause is
 *     anchored at the parent or above it, else the lowest failed or suppressed ordinal known when
 *     there are more of them than the tolerance. Below a barrier (lx_group_learn): what the barrier
 *     says. Expansion failed: failed with the cause of the close, also after another doom as long as
 *     the parent record has not come, and also where a suppressed child brings that cause first;
 *   - contradictory: failed `conflict`: two different presents, two different counts, an ordinal at
 *     or over the count, two different parent records;
 *   - at the true end: failed `incomplete` (a close or children missing), failed `orphan` (no
 *     parent record). Neither is given after a truncation: lx_group_end is not called then.
 * The same child twice is one child: failed beats suppressed beats dropped beats present, equal
 * repeats are counted. Fields are equal when their values are, in whatever order and integer width
 * they were written; of children stored without some fields (conf.keep), when the bytes are.
 *
 * What comes for a parent that has left is discarded and counted, as `late` when the parent left
 * as present: its children are not kept, so a repeat cannot be told from a contradiction.
 *
 * Memory: conf.mem bytes hold records, tables and write buffers. When they are full, the largest
 * partition (by hash of the parent's id) goes to a temporary file and later records of that partition
 * follow; per parent a counter stays in memory, at most half of it in all, so that completion and doom
 * are noticed. A doomed parent leaves at once. A complete one leaves when three quarters of its
 * partition's file are complete, when the input is idle, or at the end. When counters exceed their
 * half, those of the largest partition are dropped and made again when it is read. What is too large
 * to be read back is split by further hash bits; a parent too large even for that is given out from
 * the file by an index of its ordinals. Finished parents are kept as intervals (struct lx_done), which
 * come on top: a few bytes for each gap, at worst a bit per parent.
 */
#ifndef LX_GROUP_H
#define LX_GROUP_H

#include "lineage.h"

#define LX_GROUP_MEM (40u << 20)     /* default of conf.mem */
#define LX_GROUP_MEM_MIN (256u << 10) /* less is raised to it */

struct lx_group;

/* A settled parent, handed to conf.settle. Views are valid during the call. */
struct lx_settled {
	struct lx_id id;
	struct lx_rec parent;    /* as it came; raw.p == NULL for an orphan */
	bool passed;             /* the parent was not present itself: pass it on unchanged */
	enum lx_outcome outcome; /* verdict */
	struct lx_span
		cause; /* not present: the cause as it came; p == NULL when judged here (or dropped without one): */
	const char *type;        /* "conflict", "incomplete", "orphan", "oversize"; else NULL */
	struct lx_span message;  /* "3 of 20 children missing: 7, 9, 12" */
	uint64_t children;       /* present children */
	uint64_t failed; /* failed and suppressed children: those tolerated, or those known when it was doomed */
};

struct lx_group_conf {
	const struct lx_plan *plan; /* must outlive the group */
	int domain;                 /* of the children */
	uint64_t mem;               /* bytes, at most 64 GiB; 0: LX_GROUP_MEM */
	const char *tmpdir;         /* as in lx_io_tmpdir */
	struct lx_limits limits;
	const char *const *keep;    /* children's fields to hold, NULL-terminated; NULL: all */
	/* Called once per parent: 0 or -1. It may call lx_group_child, lx_group_missing and lx_group_rewind. */
	int (*settle)(void *ctx, struct lx_group *g, const struct lx_settled *s, struct lx_err *e);
	/* A record that came too late for a parent that left as present: kind, domain, id and outcome
	 * are set. May be NULL. */
	void (*late)(void *ctx, const struct lx_rec *r);
	void *ctx;
};

/* children == joined + dropped + failed + suppressed + discarded + duplicates + those still held.
 * parents_in + orphans == the sum of parents[] + those still held. */
struct lx_group_stats {
	uint64_t children;   /* child records received */
	uint64_t joined, dropped, failed, suppressed; /* children of present parents, by outcome */
	uint64_t discarded;  /* children of parents that were not present or had left */
	uint64_t duplicates; /* repeats of a child, equal or beaten by a stronger outcome */
	uint64_t repeats;    /* equal repeats of a parent or a close, and parents that had left */
	uint64_t late;       /* records for a parent that had left as present */
	uint64_t parents_in, orphans;
	uint64_t parents[LX_OUTCOMES]; /* by verdict */
	uint64_t spilled_bytes, spill_reads;
	uint64_t held_bytes, peak_bytes;
};

/* NULL: LX_SYSTEM. */
struct lx_group *lx_group_new(const struct lx_group_conf *c, struct lx_err *e);
void lx_group_free(struct lx_group *g);
/* A record of the children's domain, a present or gone parent, or a close of the children's domain;
 * it is copied. Settles what becomes settled; with very many parents at work up to 15 records are
 * kept back until more come, lx_group_idle or lx_group_end. -1: what settle said, LX_SYSTEM, LX_DATA
 * (an id of the wrong length). */
int lx_group_add(struct lx_group *g, const struct lx_rec *r, struct lx_err *e);
/* Any other record of the run, before or after it is passed on: barriers at or above parents are
 * obeyed, a close of the parents' own expansion says when finished parents may fold. */
int lx_group_learn(struct lx_group *g, const struct lx_rec *r, struct lx_err *e);
/* The input would block: settle what is complete but lies on disk. The work is in proportion to what was
 * spilled, however often this is called. */
int lx_group_idle(struct lx_group *g, struct lx_err *e);
/* The input broke off: settle what is complete, wherever it lies, and nothing else. */
int lx_group_flush(struct lx_group *g, struct lx_err *e);
/* True end of the run: settle everything. */
int lx_group_end(struct lx_group *g, struct lx_err *e);
const struct lx_group_stats *lx_group_stats(struct lx_group *g);

/* In settle of a present parent: the next present child in order of ordinals (domain, id and fields are set): 1,
 * 0 at the end, -1. Valid until the next call. */
int lx_group_child(struct lx_group *g, struct lx_rec *child, struct lx_err *e);
/* The next failed or suppressed child in order: ordinal and cause type. 1, 0 or -1. */
int lx_group_missing(struct lx_group *g, uint64_t *ordinal, struct lx_span *type, struct lx_err *e);
/* Both start again. */
void lx_group_rewind(struct lx_group *g);

#endif

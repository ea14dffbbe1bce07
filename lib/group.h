/* group: the regrouping behind lx-gather. Records of a child domain, their parents and the closes
 * go in, in any order; each parent comes out once, settled, with its children in order.
 *
 * The verdict of a parent (lx(7), outcome rules):
 *   - doomed (a cause anchored at it or above, failed expansion, more failed and suppressed
 *     children than the tolerance) -> suppressed with the lowest ordinal's cause known, or failed where the
 *     expansion itself failed; at once, what comes later for it is discarded and counted;
 *   - complete: parent record, close and all children seen -> present;
 *   - a parent that is not present itself passes unchanged at once, its children are discarded;
 *   - contradictions -> failed `conflict`; at the true end: missing children -> failed
 *     `incomplete` naming the first missing ordinals, children without a parent -> failed `orphan`.
 *
 * Memory: at most conf.mem bytes of records and tables are held. Beyond it whole partitions (by
 * hash of the parent's id) go to unlinked temporary files, and later records of those partitions follow
 * them there. A partition is read back when enough of it has become complete, when the input is
 * idle, or at the end; one too large for memory is split again by further hash bits, and a single
 * parent too large for memory is read from its file in order of ordinals. Finished parents are kept
 * as intervals (struct lx_done).
 */
#ifndef LX_GROUP_H
#define LX_GROUP_H

#include "lineage.h"

struct lx_group;

/* A settled parent, handed to conf.settle. */
struct lx_settled {
	struct lx_rec parent;     /* as it came; for an orphan, fields.p == NULL */
	enum lx_outcome outcome;  /* verdict */
	struct lx_span cause;     /* non-present verdicts */
	bool passed;              /* the parent was not present itself: pass it on unchanged */
	uint64_t children;        /* present children */
	uint64_t failed;          /* tolerated failed and suppressed children */
	uint64_t bytes;           /* of the present children's records */
};

struct lx_group_conf {
	const struct lx_plan *plan; /* before the gather is applied */
	int domain;                 /* of the children */
	uint64_t mem;               /* bytes, default 40 MiB; at least 1 MiB */
	const char *tmpdir;         /* NULL: $TMPDIR or /tmp */
	struct lx_limits limits;
	/* Called once per parent. It may call lx_group_child and lx_group_missing, nothing else of g. 0 or -1. */
	int (*settle)(void *ctx, struct lx_group *g, const struct lx_settled *s, struct lx_err *e);
	void *ctx;
};

struct lx_group_stats {
	uint64_t children;   /* child records received */
	uint64_t joined, dropped, failed, suppressed; /* children of present parents, by outcome */
	uint64_t discarded;  /* children of parents that were not present or had left */
	uint64_t late;       /* news for a parent that had left which would have changed its verdict or content */
	uint64_t duplicates; /* equal repeats */
	uint64_t parents[LX_OUTCOMES];
	uint64_t spilled_bytes, spill_reads;
	uint64_t held_bytes, peak_bytes;
};

struct lx_group *lx_group_new(const struct lx_group_conf *c, struct lx_err *e);
void lx_group_free(struct lx_group *g);
/* A parent, child or close record of the two domains; it is copied. Settles what becomes settled. */
int lx_group_add(struct lx_group *g, const struct lx_rec *r, struct lx_err *e);
/* The input would block: settle parents that are complete but lie in spill files. */
int lx_group_idle(struct lx_group *g, struct lx_err *e);
/* True end of the run: settle everything. Not called after truncation: no verdict then. */
int lx_group_end(struct lx_group *g, struct lx_err *e);
const struct lx_group_stats *lx_group_stats(const struct lx_group *g);

/* In settle: the next present child in order of ordinals: 1, 0 at the end, -1. May be restarted. */
int lx_group_child(struct lx_group *g, struct lx_rec *child, struct lx_err *e);
void lx_group_rewind(struct lx_group *g);
/* In settle: the next tolerated child in order: ordinal and cause type. 1, 0. */
int lx_group_missing(struct lx_group *g, uint64_t *ordinal, struct lx_span *type);

#endif

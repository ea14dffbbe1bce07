/* spool: a run in a directory, a file for each batch, for jobs that somebody else starts (lx-batch --spool).
 *
 * Every file is one part of the run (part.h), written aside, synced, renamed, and never written again:
 *     DIR/in/RUN.000042.lx    a batch: one frame of present items; a job makes out/RUN.000042.lx of it
 *     DIR/out/RUN.000042.lx   a result, or records that need no job: parents, closes, items that are not present
 *     DIR/out/RUN.000000.lx   the first part: no records, written at once
 *     DIR/out/RUN.last.lx     the last one, which says how many there are
 * A batch has its number when it is written; with the same records in the same order numbers are the same. What is in out/
 * from the start says that a worker may write any field, for which one will is not known here.
 *
 * A rerun reads what lies there and writes only records that do not, in whatever order they come: an item is known by
 * domain and id, a close by domain and parent. Of a number whose batch is gone its result counts. Numbers that are free
 * below the highest are used first. The present items that come again must be those that are there: else the
 * last part is not written. One process at a time writes to a spool (a lock on DIR).
 */
#ifndef LX_SPOOL_H
#define LX_SPOOL_H

#include "lineage.h"

struct lx_spool;

struct lx_spool_conf {
	const char *dir;
	struct lx_limits limits;
	enum lx_packing packing; /* not LX_RAW: bytes rest there */
	int level;
	int (*name)(void *ctx, const char *path, struct lx_err *e); /* a batch is there: those from before first, in order */
	void *ctx;
};

struct lx_spool_stats {
	uint64_t batches, items;       /* written now */
	uint64_t known_batches, known; /* batches that were there; records that were there and came again */
	uint64_t parts;                /* files written now */
};

/* The begin of a run: `plan` as its stage writes it, the batches are of `domain`. Makes the directories, locks, reads what is
 * there. NULL: LX_USAGE (another run is there, or another process at work), LX_DATA (a part is damaged), LX_SYSTEM. */
struct lx_spool *lx_spool_open(const struct lx_spool_conf *c, const struct lx_plan *plan, int domain, struct lx_err *e);
/* What was begun and not written is gone. */
void lx_spool_free(struct lx_spool *s);

/* Whether a record is there from before. Those are to be left out of batches; lx_spool_add leaves them out by itself. */
bool lx_spool_has(const struct lx_spool *s, const struct lx_rec *r);
/* Take a record: a present item of the domain into the open batch, any other to be written beside it. */
int lx_spool_add(struct lx_spool *s, const struct lx_rec *r, struct lx_err *e);
/* The open batch is full: write it, if there is one. -1: LX_SYSTEM; LX_USAGE: the spool was complete without it. */
int lx_spool_close(struct lx_spool *s, struct lx_err *e);
/* What is written beside batches leaves now. */
int lx_spool_flush(struct lx_spool *s, struct lx_err *e);
/* True end of the run: write all that is left, and the last part. -1: LX_USAGE: it is not the input that is there. */
int lx_spool_end(struct lx_spool *s, struct lx_err *e);

const struct lx_spool_stats *lx_spool_stats(const struct lx_spool *s);

#endif

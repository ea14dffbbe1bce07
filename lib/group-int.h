/* group-int: what the files of the group module share. See group.h for what it is for.
 *
 *   group.c        records in, verdicts, parents out
 *   group-table.c  partitions, entries, children in memory
 *   group-disk.c   partitions on disk: evicted, appended to, read back, split
 *   group-big.c    one parent that does not fit in memory
 */
#ifndef LX_GROUP_INT_H
#define LX_GROUP_INT_H

#include "doom.h"
#include "done.h"
#include "group.h"
#include "slab.h"
#include "spill.h"

#define ULL(x) ((unsigned long long)(x))

/* Answers of functions that may find the memory full: the caller makes room and calls again. */
enum { DONE = 0, ERROR = -1, NO_ROOM = 1, CONFLICT = 2 };

enum what { PARENT, CHILD, CLOSE, WHY };

/* Why a parent is not present, when this stage judged it. */
enum judged { AS_CAUSE, AS_CONFLICT, AS_INCOMPLETE, AS_ORPHAN, AS_OVERSIZE };

/* One piece of news about a parent: a record that came in, or one read back. */
struct news {
	enum what what;
	enum lx_outcome outcome;
	enum judged judged;    /* WHY */
	bool cut;              /* child: fields were left out; the body begins with a digest of all of them */
	bool flat;             /* child: as in struct lx_rec */
	bool placed;           /* it is stored; what follows from it may still have to be done */
	uint64_t number;       /* child: ordinal; close: count */
	struct lx_span body;   /* parent: the record; child: fields or cause; why: cause or message */
	const struct lx_id *id; /* the parent's */
	uint64_t hash;
	bool fresh;            /* it came in; else it was read back */
};

/* A piece of news as it is stored, in memory or (behind a link, before the parent's id) on disk. The body follows. */
struct cell {
	uint64_t number;
	uint32_t len;
	uint8_t outcome, judged, what, cut : 1, flat : 1;
};

static inline struct cell cell_of(const struct news *n)
{
	return (struct cell){
		.number = n->number, .len = (uint32_t)n->body.len, .outcome = (uint8_t)n->outcome,
		.judged = (uint8_t)n->judged, .what = (uint8_t)n->what, .cut = n->cut, .flat = n->flat,
	};
}

/* Flags of an entry. */
enum {
	HAS_PARENT = 1,
	HAS_CLOSE = 2,
	DOOMED = 4,   /* only the parent record is missing; children are not kept */
	ON_DISK = 8,  /* what came for it lies in the partition's chain */
	READY = 16,   /* on disk, and seems complete */
	DOUBT = 32,   /* on disk; it seemed complete or doomed, and repeats were the reason */
	HASHED = 64,  /* kids are found by hash, not by index: the ordinals are far apart */
	LOADING = 128, /* chosen to be read back */
	DOOM_FAILED = 256, /* doomed to be failed, not suppressed */
};

/* A parent that has not left. */
struct entry {
	uint64_t count;  /* with HAS_CLOSE: announced children */
	uint32_t n;      /* children; on disk repeats count too */
	uint32_t failed; /* failed and suppressed ones among them */
	uint32_t units;  /* bytes held, or in the chain, by 16; stays at the maximum */
	uint16_t flags;
	uint8_t kids_log2; /* places in kids; 0: there is no array */
	union {
		struct {
			lx_ref kids;   /* array of children's cells */
			lx_ref parent; /* cells */
			lx_ref why;
			uint32_t unread; /* children still to be read back */
		};
		struct { /* places in the chain, 48 bits each; 0: none */
			uint32_t last_lo, parent_lo; /* the last record of this parent, and the parent record */
			uint16_t last_hi, parent_hi;
			lx_ref next_ready;
		};
	};
	uint64_t ord[]; /* the id; its length is that of the domain */
};

struct slot {
	uint32_t tag; /* low bits of the hash; the home slot follows from it */
	lx_ref entry; /* 0: free */
};

struct part {
	lx_ref slots;
	uint32_t n_slots, n; /* n: entries */
	bool disk;           /* news go to the chain */
	bool blind;          /* the entries of what lies in the chain were dropped */
	struct lx_chain chain;
	uint64_t held;       /* bytes of cells and arrays in memory */
	uint64_t ready, garbage; /* bytes in the chain of parents that seem complete, and of parents that left */
	uint64_t unseen;     /* blind: bytes appended since it was last read */
	uint64_t owed_children, owed_parents; /* blind: records in the chain that are in no other sum */
	uint64_t found_children, found_parents; /* of those, what the last reading could tell of */
	lx_ref first_ready;
	uint32_t n_ready;
};

#define LX_GROUP_AHEAD 16 /* records whose entries are fetched into the cache together */
#define LX_GROUP_MANY 1024 /* entries from which on that pays */
#define LX_GROUP_QUEUE (32u << 10) /* bytes of records that wait for it */

/* A child in a chain. */
struct place {
	uint64_t number;
	uint64_t pos; /* 48 bits of place, the outcome in the top ones */
};

/* The parent that is given out from its chain: the children with ordinals in [from, next). */
struct big {
	bool on;
	struct lx_chain *chain;
	struct entry *e;
	lx_ref ref; /* of v */
	struct place *v;
	size_t n, cap;
	uint64_t from, next; /* next: UINT64_MAX: that is all */
	bool twice, parents, counts; /* contradictions: children, parent records, closes */
	uint64_t twice_at, other_count;
	bool seen_parent;
};

struct queued {
	struct news n;
	struct lx_id id;
};

struct lx_group {
	struct lx_group_conf conf;
	struct lx_group_stats stats;
	int parent_domain;
	uint32_t id_len; /* of a parent */
	struct lx_tolerance tolerance;
	struct lx_slab slab;
	struct lx_spill spill;
	struct lx_done *done;
	struct lx_doom *doom; /* barriers at or above parents; NULL: none ever came */
	struct part *parts;
	uint32_t n_parts, parts_log2;
	uint64_t entries;       /* in all partitions */
	uint64_t budget;        /* bytes of the slab */
	uint64_t big;           /* bytes of a parent that is not read back as a whole */
	uint64_t appended;      /* bytes to chains by what came in and by evicting */
	uint64_t idle_read;     /* bytes of blind chains read because the input was idle */
	uint64_t since_sweep;
	bool sweep_due, ending;
	struct queued queue[LX_GROUP_AHEAD]; /* records that came in and were not looked at */
	unsigned n_queue;
	struct lx_buf queue_bytes;
	struct lx_buf cut, body, other, parent_buf, message;
	/* the parent being settled */
	struct {
		struct entry *e; /* NULL: nothing to hand out */
		uint32_t n, child, failed; /* sorted kids, and positions in them */
		struct big big;
		uint64_t big_child, big_failed; /* next ordinals */
	} now;
};

/* ---- group.c ---- */
/* Store a piece of news about e and act on it: e may settle and be gone. DONE, NO_ROOM (call again), ERROR. */
int lx_group_take(struct lx_group *g, struct part *p, struct entry *e, struct news *n, struct lx_err *err);
/* The parent will not be present: it leaves, or waits doomed for its record. */
int lx_group_fail(struct lx_group *g, struct part *p, struct entry *e, const struct news *why, struct lx_err *err);
/* It is complete, and in memory. */
int lx_group_present(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err);
/* End of input, and it is in memory: what is missing will not come. */
int lx_group_judge(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err);
/* It leaves with this verdict, with or without a parent record. */
int lx_group_leave_as(struct lx_group *g, struct part *p, struct entry *e, const struct news *why, struct lx_err *err);
struct news lx_group_why_of(const struct entry *e, enum lx_outcome outcome, enum judged judged, struct lx_span body);
/* For a cause that a child or a barrier brought: the parent is failed where the cause began at it, else `as`. */
struct news lx_group_caused(const struct lx_group *g, const struct entry *e, enum lx_outcome as, struct lx_span cause);
void lx_group_joined(struct lx_group *g, const uint64_t by[LX_OUTCOMES]);
/* Fill id and parent record of s and let it leave. */
int lx_group_finish(struct lx_group *g, struct part *p, struct entry *e, struct lx_settled *s, struct lx_err *err);
/* Whether a child's cause is anchored at its parent or above; anchors elsewhere become barriers. */
int lx_group_wide(struct lx_group *g, const struct lx_id *parent, struct lx_span cause, bool *wide, struct lx_err *err);
/* Whether two parent records say the same. */
int lx_group_same_parent(struct lx_group *g, struct lx_span a, struct lx_span b, bool *same, struct lx_err *err);
bool lx_group_over(const struct lx_group *g, const struct entry *e); /* more failed than the tolerance */
bool lx_group_known(const struct entry *e);                          /* parent and close are there */
int lx_group_bar(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err); /* obey barriers */
/* Messages, valid until the next. */
struct lx_span lx_group_beyond_text(struct lx_group *g, uint64_t ordinal, uint64_t count);
struct lx_span lx_group_twice_text(struct lx_group *g, uint64_t ordinal);
struct lx_span lx_group_counts_text(struct lx_group *g, uint64_t a, uint64_t b);
struct lx_span lx_group_parents_text(struct lx_group *g);
struct lx_span lx_group_incomplete(struct lx_group *g, const struct entry *e, uint64_t have, const uint64_t *missing,
                                   size_t n);
struct lx_span lx_group_orphan(struct lx_group *g, uint64_t have);
#define LX_GROUP_NAMED 8 /* missing ordinals that a message lists */

/* ---- group-table.c ---- */
struct entry *lx_group_find(const struct lx_group *g, const struct part *p, const struct lx_id *id, uint64_t hash);
/* Have what a look at an entry will need fetched into the cache, in three steps that each need the one
 * before: its slot, the entry (NULL: there seems to be none), the place of a child. */
void lx_group_prefetch_slot(const struct lx_group *g, const struct part *p, uint64_t hash);
struct entry *lx_group_prefetch_entry(const struct lx_group *g, const struct part *p, uint64_t hash);
void lx_group_prefetch_kid(const struct lx_group *g, const struct entry *e, uint64_t ordinal);
struct entry *lx_group_nth(const struct lx_group *g, const struct part *p, uint32_t slot); /* NULL: a free slot */
/* A new one; NULL: no room. */
struct entry *lx_group_entry(struct lx_group *g, struct part *p, const struct lx_id *id, uint64_t hash);
void lx_group_remove(struct lx_group *g, struct part *p, struct entry *e); /* its cells too */
void lx_group_remove_all(struct lx_group *g, struct part *p);
struct lx_id lx_group_id(const struct lx_group *g, const struct entry *e);
lx_ref lx_group_ref(const struct lx_group *g, const struct entry *e);
uint64_t lx_group_table_bytes(const struct lx_group *g, const struct part *p); /* entries and slots */
lx_ref lx_group_cell(struct lx_group *g, struct part *p, struct entry *e, const struct news *n); /* 0: no room */
void lx_group_drop_cells(struct lx_group *g, struct part *p, struct entry *e); /* kids, parent and why */
void lx_group_drop_kids(struct lx_group *g, struct part *p, struct entry *e);
/* Store a child in memory. DONE, NO_ROOM, CONFLICT. *repeat: it was there, and is one child now. */
int lx_group_place(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, bool *repeat);
/* Whether a child is at or over count, and the lowest such. */
bool lx_group_beyond(const struct lx_group *g, const struct entry *e, uint64_t count, uint64_t *ordinal);
/* The cause of the lowest failed or suppressed child in memory. */
struct lx_span lx_group_lowest(const struct lx_group *g, const struct entry *e);
/* Kids become a list by ordinal; how many. Nothing may follow but leaving. */
uint32_t lx_group_sort(struct lx_group *g, struct entry *e);
int lx_group_strength(unsigned outcome); /* of two records of one child, the stronger counts */
bool lx_group_same(const struct news *n, const uint8_t *body, size_t len, bool cut); /* two presents */
bool lx_fields_same(struct lx_span a, struct lx_span b);

static inline struct cell *lx_group_at(const struct lx_group *g, lx_ref ref)
{
	return lx_slab_at(&g->slab, ref);
}

static inline uint8_t *cell_body(struct cell *c)
{
	return (uint8_t *)(c + 1);
}

static inline bool failing(unsigned outcome)
{
	return outcome == LX_FAILED || outcome == LX_SUPPRESSED;
}

/* ---- group-disk.c ---- */
/* Free memory by evicting a partition other than `spare`, or when none is left and it `may_blind`, by dropping the
 * counters of one. DONE, NO_ROOM (nothing left), ERROR. */
int lx_group_room(struct lx_group *g, const struct part *spare, bool may_blind, struct lx_err *err);
/* Nothing is left but p: it goes to disk, or loses its counters. DONE or ERROR. */
int lx_group_give_up(struct lx_group *g, struct part *p, struct lx_err *err);
int lx_group_evict(struct lx_group *g, struct part *p, struct lx_err *err);
/* Counters over their share: the partitions with most of them, `spare` excepted, become blind. */
void lx_group_limit_counters(struct lx_group *g, const struct part *spare);
/* Append to the chain of p; e (may be NULL: blind) learns where it lies. DONE or ERROR. */
int lx_group_append(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, struct lx_err *err);
/* The parent record; why it is doomed. Valid until the next call. */
int lx_group_parent(struct lx_group *g, struct part *p, const struct entry *e, struct lx_span *raw, struct lx_err *err);
int lx_group_why(struct lx_group *g, struct part *p, const struct entry *e, struct news *why, struct lx_err *err);
/* Of an entry on disk that seems complete or doomed: count without repeats and act on it. */
int lx_group_verify(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err);
void lx_group_mark_ready(struct lx_group *g, struct part *p, struct entry *e);
/* Its bytes in the chain are garbage now. */
void lx_group_forget(struct lx_group *g, struct part *p, struct entry *e);
int lx_group_maybe_read(struct lx_group *g, struct part *p, struct lx_err *err);
int lx_group_idle_part(struct lx_group *g, struct part *p, struct lx_err *err);
/* Settle what is complete; `all`: everything. */
int lx_group_read_back(struct lx_group *g, struct part *p, bool all, struct lx_err *err);

/* One stored record, as it lies in a chain: this, the parent's id, the body. */
struct stored {
	uint64_t prev; /* place of the one before of the same parent; 0: none or not known */
	struct cell cell;
};
#define LX_GROUP_STORED_MAX (sizeof(struct stored) + LX_ID_MAX * sizeof(uint64_t))
static inline size_t stored_head(const struct lx_group *g)
{
	return sizeof(struct stored) + g->id_len * sizeof(uint64_t);
}
/* Read the record at pos; the body goes into `into`. */
int lx_group_stored(struct lx_group *g, const struct lx_chain *c, uint64_t pos, struct stored *s, struct lx_buf *into,
                    struct lx_err *err);
/* Read the next record's head; the body follows in the cursor. */
int lx_group_next_stored(struct lx_group *g, struct lx_cursor *k, struct stored *s, struct lx_id *id,
                         struct lx_err *err);
void lx_group_set_parent(struct entry *e, uint64_t pos);
uint64_t lx_group_parent_pos(const struct entry *e);

/* ---- group-big.c ---- */
/* Settle a parent on disk whose records lie in chain c, without reading it as a whole. all: it is judged in any case. */
int lx_group_big(struct lx_group *g, struct part *p, struct entry *e, struct lx_chain *c, bool all, struct lx_err *err);
/* The child with the lowest ordinal from *next on, present or failing: 1, 0, -1. */
int lx_group_big_next(struct lx_group *g, uint64_t *next, bool present, struct cell *c, struct lx_span *body,
                      struct lx_err *err);

#endif

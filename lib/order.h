/* order: byte strings handed back in order, on disk beyond a budget.
 *
 * An entry is a key and a body. Entries are added and taken in any interleaving; what is taken is the least of those
 * that are there, by the bytes of the key, then of the body. Beyond `mem` bytes what is held goes, sorted, as one row to
 * an unlinked temporary file (spill.h), whose blocks are used again once they have been read. There are at most
 * LX_ORDER_ROWS rows, then they become one. So memory is `mem`, a block for each row, and the largest bodies.
 */
#ifndef LX_ORDER_H
#define LX_ORDER_H

#include "spill.h"

#define LX_ORDER_ROWS 256
#define LX_ORDER_BLOCK (16u << 10)

struct lx_entry;

struct lx_order {
	uint64_t mem, held; /* bytes */
	struct lx_spill spill;
	struct lx_entry **heap; /* those in memory, and the head of each row */
	size_t n, cap, rows;
	struct lx_entry *taken; /* in memory, given back by the next take */
	struct lx_err broken;   /* a comparison could not read */
};

/* `tmpdir` as in lx_io_tmpdir; nothing is opened yet. */
void lx_order_init(struct lx_order *o, uint64_t mem, const char *tmpdir);
void lx_order_release(struct lx_order *o);

/* Both are copied. The key is at most 65,535 bytes. -1: LX_SYSTEM. */
int lx_order_add(struct lx_order *o, struct lx_span key, struct lx_span body, struct lx_err *e);

/* The key of the least entry, valid until the next add or take; p == NULL when there is none. */
struct lx_span lx_order_least(const struct lx_order *o);

/* Take the least entry; there must be one. *body is valid until the next add or take. -1: LX_SYSTEM. */
int lx_order_take(struct lx_order *o, struct lx_span *body, struct lx_err *e);

#endif

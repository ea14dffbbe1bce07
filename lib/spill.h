/* spill: rows of bytes that do not fit in memory, in one unlinked temporary file.
 *
 * The file is cut into blocks of one size. A chain is a row of blocks that bytes are appended to;
 * its last block is kept in memory until it is full, so that every write is one whole block.
 * Blocks of freed chains are used again, so that the file is as large as what lies in it at one
 * time. The order of blocks is kept in memory (4 bytes a block). Errors name the directory and --tmpdir.
 */
#ifndef LX_SPILL_H
#define LX_SPILL_H

#include "buf.h"

struct lx_spill {
	const char *dir;
	int fd; /* -1: nothing was written yet */
	uint32_t block; /* bytes, a power of two */
	uint32_t *next; /* by block: the one that follows in its chain, or in the list of free ones; 0: none */
	uint32_t n, cap, free;
	uint8_t **spare; /* block buffers not in use */
	uint32_t n_spare, cap_spare;
	uint64_t written, reads; /* bytes written in all; read calls */
};

struct lx_chain {
	uint32_t first, last; /* blocks; 0: empty */
	uint32_t fill;        /* bytes in the last block */
	uint8_t *tail;        /* the last block, while it is not written */
	uint64_t bytes;
};

/* `dir` as in lx_io_tmpdir; nothing is opened yet. */
void lx_spill_init(struct lx_spill *s, const char *dir, uint32_t block);
void lx_spill_release(struct lx_spill *s);

/* The place of the next byte appended, for lx_spill_read; never 0, below 2^48. 0: error. */
uint64_t lx_chain_pos(struct lx_spill *s, struct lx_chain *c, struct lx_err *e);
/* Room for n bytes in the last block, to be filled by the caller, who adds n to fill and bytes; NULL:
 * they do not fit there. */
static inline uint8_t *lx_chain_room(const struct lx_spill *s, const struct lx_chain *c, size_t n)
{
	return c->tail && n <= s->block - c->fill ? c->tail + c->fill : NULL;
}
int lx_chain_add(struct lx_spill *s, struct lx_chain *c, const void *p, size_t n, struct lx_err *e);
/* Write the last block too and give its memory back; nothing can be appended any more. */
int lx_chain_seal(struct lx_spill *s, struct lx_chain *c, struct lx_err *e);
/* Give all blocks back; the chain is empty. */
void lx_chain_clear(struct lx_spill *s, struct lx_chain *c);
/* Copy n bytes that lie at `pos` of chain c. A place is not a number to add to: lx_chain_read_behind
 * copies what lies `skip` bytes behind it. */
int lx_chain_read(struct lx_spill *s, const struct lx_chain *c, uint64_t pos, void *out, size_t n, struct lx_err *e);
int lx_chain_read_behind(struct lx_spill *s, const struct lx_chain *c, uint64_t pos, size_t skip, void *out, size_t n,
                         struct lx_err *e);

/* Reading a chain from its first byte to its last. */
struct lx_cursor {
	struct lx_spill *spill;
	struct lx_chain *chain;
	uint32_t block, at; /* where it stands */
	uint64_t left;      /* bytes */
	bool consume;       /* give blocks back once they are behind the cursor */
	uint8_t *mine;      /* buffer for blocks */
	const uint8_t *bytes; /* of `block`; NULL: not read yet */
	struct lx_buf join;
};
/* With `consume` the chain is empty in the end and must not be appended to meanwhile. */
int lx_cursor_init(struct lx_cursor *k, struct lx_spill *s, struct lx_chain *c, bool consume, struct lx_err *e);
void lx_cursor_release(struct lx_cursor *k);
uint64_t lx_cursor_pos(const struct lx_cursor *k);
/* What is in memory already of what comes next; *n: how many bytes, possibly none. */
const uint8_t *lx_cursor_ahead(const struct lx_cursor *k, size_t *n);
void lx_cursor_skip(struct lx_cursor *k, uint64_t n);
/* The next n bytes in one piece, valid until the next call: NULL on error. The caller knows that they are there. */
const uint8_t *lx_cursor_take(struct lx_cursor *k, size_t n, struct lx_err *e);

#endif

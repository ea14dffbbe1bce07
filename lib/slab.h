/* slab: memory within a fixed budget, reused.
 *
 * The address space for the whole budget is reserved once; pages are touched when they are first
 * needed and never given back, because a fresh page costs as much as several thousand bytes of
 * copying. Cells of similar size share a span of pages; a span that empties goes back to the pages,
 * so that memory moves between sizes. A cell is named by a 32-bit reference, not a pointer.
 *
 * lx_slab_get says 0 when the budget holds no room for the cell: the caller frees something and
 * tries again. When every cell is freed all of the budget is free again, whatever came before.
 */
#ifndef LX_SLAB_H
#define LX_SLAB_H

#include "buf.h"

#define LX_SLAB_UNIT 16u      /* cells start at multiples of it */
#define LX_SLAB_SMALL 8192u   /* larger cells take whole pages */
#define LX_SLAB_CLASSES 32
#define LX_SLAB_MAX (1ull << 36)

typedef uint32_t lx_ref; /* 0: none */

struct lx_slab_page;

struct lx_slab {
	uint8_t *base;
	uint64_t used; /* bytes of the cells handed out, rounding included */
	uint32_t n_pages, top; /* pages in all; the first never used */
	struct lx_slab_page *pages;
	uint32_t partial[LX_SLAB_CLASSES]; /* spans with a free cell */
	uint32_t runs[64];                 /* free page runs by length; the last: that or longer */
	uint64_t runs_there;               /* bit i: runs[i] is not empty */
};

/* `bytes`: the budget, at most LX_SLAB_MAX. -1 with LX_SYSTEM. */
int lx_slab_init(struct lx_slab *s, uint64_t bytes, struct lx_err *e);
void lx_slab_release(struct lx_slab *s);

/* A cell of n bytes (n > 0), uninitialised, or 0. */
lx_ref lx_slab_get(struct lx_slab *s, size_t n);
/* Free it; n as it was asked for. */
void lx_slab_put(struct lx_slab *s, lx_ref ref, size_t n);

static inline void *lx_slab_at(const struct lx_slab *s, lx_ref ref)
{
	return s->base + (uint64_t)ref * LX_SLAB_UNIT;
}

/* What a cell of n bytes takes. */
size_t lx_slab_size(size_t n);

#endif

#include "slab.h"

#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096u
#define SPAN_BYTES (16u << 10) /* at least; and at least SPAN_CELLS cells */
#define SPAN_CELLS 8u
#define BINS 64u

enum kind { PAGE_FRESH, PAGE_FREE, PAGE_RUN, PAGE_SPAN };

struct lx_slab_page {
	uint32_t next, prev; /* neighbours in a list of free runs or of spans with free cells; 0: none */
	union {
		uint32_t n;    /* first page of anything, and last page of a free run: its pages */
		uint32_t head; /* inner page of a span: its first page */
	};
	lx_ref free;     /* span: free cells, chained through their first bytes */
	uint16_t live;   /* span: cells handed out */
	uint16_t carved; /* span: cells that have ever been handed out */
	uint8_t kind, class;
	bool inner, listed;
};

static unsigned class_of(size_t n)
{
	if (n <= 128)
		return (unsigned)((n + 15) / 16) - 1;
	unsigned k = 63u - (unsigned)__builtin_clzll(n - 1);
	return 8 + (k - 7) * 4 + (unsigned)((n - 1) >> (k - 2)) - 4;
}

static size_t class_size(unsigned c)
{
	if (c < 8)
		return (c + 1) * 16;
	unsigned k = 7 + (c - 8) / 4;
	return (1u << k) + ((c - 8) % 4 + 1) * (1u << (k - 2));
}

static uint32_t pages_for(size_t n)
{
	return (uint32_t)((n + PAGE - 1) / PAGE);
}

size_t lx_slab_size(size_t n)
{
	return n <= LX_SLAB_SMALL ? class_size(class_of(n)) : (size_t)pages_for(n) * PAGE;
}

int lx_slab_init(struct lx_slab *s, uint64_t bytes, struct lx_err *e)
{
	*s = (struct lx_slab){ 0 };
	if (bytes > LX_SLAB_MAX)
		bytes = LX_SLAB_MAX;
	s->n_pages = (uint32_t)(bytes / PAGE);
	s->top = 1; /* page 0 is not used: reference 0 means none */
	s->pages = calloc(s->n_pages + 1u, sizeof(*s->pages));
	void *p = s->pages ? mmap(NULL, (size_t)s->n_pages * PAGE, PROT_READ | PROT_WRITE,
	                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
	if (p == MAP_FAILED) {
		lx_err_sys(e, "reserving %llu bytes (--mem)", (unsigned long long)bytes);
		free(s->pages);
		s->pages = NULL;
		return -1;
	}
	s->base = p;
	return 0;
}

void lx_slab_release(struct lx_slab *s)
{
	if (s->base)
		munmap(s->base, (size_t)s->n_pages * PAGE);
	free(s->pages);
	*s = (struct lx_slab){ 0 };
}

/* ---- lists of pages ---- */

static void list_add(struct lx_slab *s, uint32_t *list, uint32_t p)
{
	s->pages[p].prev = 0;
	s->pages[p].next = *list;
	if (*list)
		s->pages[*list].prev = p;
	*list = p;
}

static void list_remove(struct lx_slab *s, uint32_t *list, uint32_t p)
{
	struct lx_slab_page *g = &s->pages[p];
	if (g->prev)
		s->pages[g->prev].next = g->next;
	else
		*list = g->next;
	if (g->next)
		s->pages[g->next].prev = g->prev;
}

/* ---- runs of pages ---- */

static unsigned bin_of(uint32_t n)
{
	return n < BINS ? n - 1 : BINS - 1;
}

static void run_add(struct lx_slab *s, uint32_t p, uint32_t n)
{
	unsigned bin = bin_of(n);
	s->pages[p].kind = s->pages[p + n - 1].kind = PAGE_FREE;
	s->pages[p].n = s->pages[p + n - 1].n = n;
	s->pages[p].inner = false;
	list_add(s, &s->runs[bin], p);
	s->runs_there |= 1ull << bin;
}

static void run_remove(struct lx_slab *s, uint32_t p)
{
	unsigned bin = bin_of(s->pages[p].n);
	list_remove(s, &s->runs[bin], p);
	if (!s->runs[bin])
		s->runs_there &= ~(1ull << bin);
}

static uint32_t run_find(const struct lx_slab *s, uint32_t n)
{
	uint64_t bins = s->runs_there & ~0ull << bin_of(n);
	if (!bins)
		return 0;
	uint32_t p = s->runs[__builtin_ctzll(bins)];
	while (p && s->pages[p].n < n) /* only in the last bin */
		p = s->pages[p].next;
	return p;
}

/* n pages in a row; 0: none. */
static uint32_t run_get(struct lx_slab *s, uint32_t n)
{
	uint32_t p = run_find(s, n);
	if (p) {
		uint32_t have = s->pages[p].n;
		run_remove(s, p);
		if (have > n)
			run_add(s, p + n, have - n);
	} else {
		if (n > s->n_pages - s->top)
			return 0;
		p = s->top;
		s->top += n;
	}
	s->pages[p].kind = s->pages[p + n - 1].kind = PAGE_RUN;
	s->pages[p].n = n;
	s->pages[p].inner = false;
	return p;
}

/* Give pages back; they join their free neighbours, and the untouched rest where they border on it. */
static void run_put(struct lx_slab *s, uint32_t p)
{
	uint32_t n = s->pages[p].n;
	if (p + n < s->top && s->pages[p + n].kind == PAGE_FREE) {
		uint32_t more = s->pages[p + n].n;
		run_remove(s, p + n);
		n += more;
	}
	if (s->pages[p - 1].kind == PAGE_FREE) {
		uint32_t before = s->pages[p - 1].n;
		p -= before;
		run_remove(s, p);
		n += before;
	}
	if (p + n == s->top)
		s->top = p;
	else
		run_add(s, p, n);
}

/* ---- cells ---- */

static uint32_t span_new(struct lx_slab *s, unsigned class)
{
	size_t bytes = class_size(class) * SPAN_CELLS;
	uint32_t n = pages_for(bytes > SPAN_BYTES ? bytes : SPAN_BYTES), p = run_get(s, n);
	if (!p && n > pages_for(class_size(class)))
		p = run_get(s, n = pages_for(class_size(class)));
	if (!p)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		struct lx_slab_page *g = &s->pages[p + i];
		g->kind = PAGE_SPAN;
		g->inner = i > 0;
		if (i > 0)
			g->head = p;
	}
	s->pages[p].class = (uint8_t)class;
	s->pages[p].free = 0;
	s->pages[p].live = s->pages[p].carved = 0;
	s->pages[p].listed = true;
	list_add(s, &s->partial[class], p);
	return p;
}

static unsigned span_cells(const struct lx_slab_page *g)
{
	return g->n * PAGE / (uint32_t)class_size(g->class);
}

static lx_ref span_take(struct lx_slab *s, uint32_t p)
{
	struct lx_slab_page *g = &s->pages[p];
	lx_ref ref = g->free;
	if (ref) {
		memcpy(&g->free, lx_slab_at(s, ref), sizeof(g->free));
		__builtin_prefetch(lx_slab_at(s, g->free), 1); /* the next one is as cold as this one was */
	} else {
		ref = p * (PAGE / LX_SLAB_UNIT) + (lx_ref)(g->carved++ * (class_size(g->class) / LX_SLAB_UNIT));
	}
	g->live++;
	if (!g->free && g->carved == span_cells(g)) {
		list_remove(s, &s->partial[g->class], p);
		g->listed = false;
	}
	return ref;
}

lx_ref lx_slab_get(struct lx_slab *s, size_t n)
{
	if (n > LX_SLAB_SMALL) {
		if (n > (uint64_t)s->n_pages * PAGE)
			return 0;
		uint32_t run = run_get(s, pages_for(n));
		s->used += run ? lx_slab_size(n) : 0;
		return run * (PAGE / LX_SLAB_UNIT);
	}
	unsigned class = class_of(n);
	uint32_t p = s->partial[class];
	if (!p && !(p = span_new(s, class)))
		return 0;
	s->used += class_size(class);
	return span_take(s, p);
}

void lx_slab_put(struct lx_slab *s, lx_ref ref, size_t n)
{
	uint32_t p = ref / (PAGE / LX_SLAB_UNIT);
	s->used -= lx_slab_size(n);
	if (n > LX_SLAB_SMALL) {
		run_put(s, p);
		return;
	}
	if (s->pages[p].inner)
		p = s->pages[p].head;
	struct lx_slab_page *g = &s->pages[p];
	memcpy(lx_slab_at(s, ref), &g->free, sizeof(g->free));
	g->free = ref;
	g->live--;
	if (!g->live) {
		if (g->listed)
			list_remove(s, &s->partial[g->class], p);
		run_put(s, p);
	} else if (!g->listed) {
		list_add(s, &s->partial[g->class], p);
		g->listed = true;
	}
}

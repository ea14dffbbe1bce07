#include "slab.h"
#include "tap.h"

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

struct cell {
	lx_ref ref;
	size_t n;
	uint8_t mark;
};

static size_t any_size(void)
{
	switch (rnd(10)) {
	case 0:
		return 1 + rnd(100000);
	case 1:
		return 1 + rnd(9000);
	default:
		return 1 + rnd(600);
	}
}

static bool intact(const struct lx_slab *s, const struct cell *c)
{
	const uint8_t *p = lx_slab_at(s, c->ref);
	for (size_t i = 0; i < c->n; i++)
		if (p[i] != c->mark)
			return false;
	return true;
}

static void cells_do_not_overlap_and_all_memory_comes_back(void)
{
	enum { CELLS = 4000 };
	struct lx_err e = LX_ERR_INIT;
	struct lx_slab s;
	struct cell *c = calloc(CELLS, sizeof(*c));
	CHECK(lx_slab_init(&s, 1 << 20, &e) == 0);
	int refused = 0, wrong = 0;
	seed = 7;
	for (int i = 0; i < 300000; i++) {
		struct cell *at = &c[rnd(CELLS)];
		if (at->ref) {
			wrong += !intact(&s, at);
			lx_slab_put(&s, at->ref, at->n);
			at->ref = 0;
			continue;
		}
		at->n = any_size();
		at->mark = (uint8_t)rnd(256);
		at->ref = lx_slab_get(&s, at->n);
		refused += !at->ref;
		if (at->ref)
			memset(lx_slab_at(&s, at->ref), at->mark, at->n);
	}
	CHECK(wrong == 0);
	CHECK(refused > 100);
	for (int i = 0; i < CELLS; i++)
		if (c[i].ref)
			lx_slab_put(&s, c[i].ref, c[i].n);
	CHECK(s.used == 0);
	lx_ref all = lx_slab_get(&s, (1 << 20) - 4096);
	CHECK(all != 0);
	lx_slab_put(&s, all, (1 << 20) - 4096);
	lx_slab_release(&s);
	free(c);
}

static void a_cell_wastes_at_most_a_quarter(void)
{
	for (size_t n = 64; n < 100000; n++)
		if (lx_slab_size(n) < n || lx_slab_size(n) - n > (n <= LX_SLAB_SMALL ? n / 4 : 4095)) {
			CHECK(!"a size class is too coarse");
			return;
		}
}

int main(void)
{
	RUN(cells_do_not_overlap_and_all_memory_comes_back);
	RUN(a_cell_wastes_at_most_a_quarter);
	return tap_done();
}

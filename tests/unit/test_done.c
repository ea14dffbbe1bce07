#include "done.h"
#include "tap.h"

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static struct lx_id id1(uint64_t a)
{
	return (struct lx_id){ .n = 1, .ord = { a } };
}

static struct lx_id id2(uint64_t a, uint64_t b)
{
	return (struct lx_id){ .n = 2, .ord = { a, b } };
}

static void add(struct lx_done *d, struct lx_id id, bool marked)
{
	struct lx_err e = LX_ERR_INIT;
	CHECK(lx_done_add(d, &id, marked, &e) == 0);
}

static enum lx_done_state has(struct lx_done *d, struct lx_id id)
{
	return lx_done_has(d, &id);
}

static void total(struct lx_done *d, struct lx_id prefix, uint64_t n)
{
	struct lx_err e = LX_ERR_INIT;
	CHECK(lx_done_total(d, &prefix, n, &e) == 0);
}

/* 0..n-1, swapped within a window. */
static uint32_t *shuffled(uint32_t n, uint32_t window)
{
	uint32_t *a = malloc(n * sizeof(*a));
	for (uint32_t i = 0; i < n; i++)
		a[i] = i;
	for (uint32_t i = n - 1; i > 0; i--) {
		uint32_t lo = i > window ? i - window : 0, j = lo + (uint32_t)rnd(i - lo + 1), t = a[i];
		a[i] = a[j];
		a[j] = t;
	}
	return a;
}

static void members_are_found_and_others_are_not(void)
{
	enum { N = 200000 };
	struct lx_done *d = lx_done_new();
	uint8_t *model = calloc(1, N);
	seed = 1;
	for (int i = 0; i < 150000; i++) {
		uint64_t x = rnd(4) ? rnd(N) : rnd(3000);
		bool marked = rnd(5) == 0;
		add(d, id1(x), marked);
		model[x] = model[x] == 2 || marked ? 2 : 1;
	}
	int wrong = 0;
	size_t intervals = 0;
	for (uint64_t x = 0; x < N; x++) {
		wrong += has(d, id1(x)) != (enum lx_done_state)model[x];
		intervals += model[x] && (x % 65536 == 0 || !model[x - 1]);
	}
	CHECK(wrong == 0);
	CHECK(has(d, id1(N)) == LX_DONE_NO);
	CHECK(lx_done_intervals(d) == intervals);
	free(model);
	lx_done_free(d);
}

static void memory_is_flat_in_finished_neighbours(void)
{
	enum { N = 2000000 };
	seed = 2;
	struct lx_done *d = lx_done_new();
	uint32_t *a = shuffled(N, 5000);
	size_t peak = 0;
	for (uint32_t i = 0; i < N; i++) {
		add(d, id1(a[i]), false);
		if (lx_done_bytes(d) > peak)
			peak = lx_done_bytes(d);
	}
	CHECK(peak < 40000);
	CHECK(lx_done_intervals(d) == (N + 65535) / 65536);
	CHECK(lx_done_bytes(d) < 16000); /* the last leaf may be a bitmap */
	free(a);
	lx_done_free(d);
}

static void memory_in_any_order_is_about_a_bit_each(void)
{
	enum { N = 2000000 };
	seed = 3;
	struct lx_done *d = lx_done_new();
	uint32_t *a = shuffled(N, N);
	size_t peak = 0;
	for (uint32_t i = 0; i < N; i++) {
		add(d, id1(a[i]), i % 2);
		if (lx_done_bytes(d) > peak)
			peak = lx_done_bytes(d);
	}
	CHECK(peak < 2 * (N / 8) + 40000);
	int wrong = 0;
	for (uint32_t i = 0; i < N; i++)
		wrong += has(d, id1(a[i])) != (i % 2 ? LX_DONE_MARKED : LX_DONE_YES);
	CHECK(wrong == 0);
	free(a);
	lx_done_free(d);
}

static void children_of_a_finished_prefix_fold_into_it(void)
{
	enum { DOCS = 20000 };
	seed = 4;
	struct lx_done *d = lx_done_new();
	uint32_t *a = shuffled(DOCS, 500);
	size_t peak = 0;
	for (uint32_t i = 0; i < DOCS; i++) {
		uint64_t doc = a[i], n = doc % 7;
		if (doc % 2)
			total(d, id1(doc), n);
		for (uint64_t k = n; k-- > 0;)
			add(d, id2(doc, k), doc % 3 == 0 && k == 1);
		if (!(doc % 2))
			total(d, id1(doc), n);
		if (lx_done_bytes(d) > peak)
			peak = lx_done_bytes(d);
	}
	CHECK(lx_done_intervals(d) == 1);
	CHECK(peak < 60000);
	CHECK(has(d, id2(8, 0)) == LX_DONE_YES);
	CHECK(has(d, id2(9, 0)) == LX_DONE_MARKED);
	CHECK(has(d, id2(DOCS, 0)) == LX_DONE_NO);
	free(a);
	lx_done_free(d);
}

static void a_prefix_with_a_gap_or_without_a_total_does_not_fold(void)
{
	struct lx_done *d = lx_done_new();
	add(d, id2(5, 0), false);
	add(d, id2(5, 2), false);
	total(d, id1(5), 3);
	CHECK(has(d, id2(5, 1)) == LX_DONE_NO);
	add(d, id2(5, 2), true);
	CHECK(has(d, id2(5, 2)) == LX_DONE_MARKED);
	add(d, id2(5, 1), false);
	CHECK(has(d, id2(5, 1)) == LX_DONE_MARKED);
	add(d, id2(6, 0), false);
	CHECK(has(d, id2(6, 0)) == LX_DONE_YES);
	CHECK(has(d, id2(6, 1)) == LX_DONE_NO);
	lx_done_free(d);
}

static void more_than_a_leaf_below_a_prefix_folds(void)
{
	struct lx_done *d = lx_done_new();
	for (uint64_t k = 0; k < 200000; k++)
		add(d, id2(1, k), false);
	total(d, id1(1), 200001);
	CHECK(has(d, id2(1, 200000)) == LX_DONE_NO);
	add(d, id2(1, 200000), false);
	CHECK(lx_done_intervals(d) == 1);
	CHECK(has(d, id2(1, 200000)) == LX_DONE_YES);
	lx_done_free(d);
}

static void huge_ordinals_cost_no_more_than_small_ones(void)
{
	struct lx_done *d = lx_done_new();
	add(d, id1(UINT64_MAX - 1), false);
	add(d, id1(1ull << 63), true);
	add(d, id2(1ull << 62, 1ull << 63), false);
	CHECK(has(d, id1(UINT64_MAX - 1)) == LX_DONE_YES);
	CHECK(has(d, id1(UINT64_MAX - 2)) == LX_DONE_NO);
	CHECK(has(d, id1(1ull << 63)) == LX_DONE_MARKED);
	CHECK(has(d, id2(1ull << 62, 1ull << 63)) == LX_DONE_YES);
	CHECK(has(d, id1(0)) == LX_DONE_NO);
	total(d, id1(1ull << 62), 1ull << 63);
	CHECK(has(d, id2(1ull << 62, 0)) == LX_DONE_NO);
	CHECK(lx_done_bytes(d) < 2000);
	lx_done_free(d);
}

int main(void)
{
	RUN(members_are_found_and_others_are_not);
	RUN(memory_is_flat_in_finished_neighbours);
	RUN(memory_in_any_order_is_about_a_bit_each);
	RUN(children_of_a_finished_prefix_fold_into_it);
	RUN(a_prefix_with_a_gap_or_without_a_total_does_not_fold);
	RUN(more_than_a_leaf_below_a_prefix_folds);
	RUN(huge_ordinals_cost_no_more_than_small_ones);
	return tap_done();
}

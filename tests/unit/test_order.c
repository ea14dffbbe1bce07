#include "order.h"
#include "tap.h"

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

/* A small entry kept by the model, too: the key, then the body. */
struct pair {
	uint8_t key[4];
	size_t key_len, body_len;
	uint8_t *body;
};

static int cmp_bytes(const uint8_t *a, size_t na, const uint8_t *b, size_t nb)
{
	int d = memcmp(a, b, na < nb ? na : nb);
	return d ? d : (na > nb) - (na < nb);
}

static int cmp_pair(const void *x, const void *y)
{
	const struct pair *a = x, *b = y;
	int d = cmp_bytes(a->key, a->key_len, b->key, b->key_len);
	return d ? d : cmp_bytes(a->body, a->body_len, b->body, b->body_len);
}

static struct pair random_pair(size_t max_body)
{
	struct pair p = { .key_len = rnd(5), .body_len = rnd(max_body + 1) };
	for (size_t i = 0; i < sizeof(p.key); i++)
		p.key[i] = (uint8_t)rnd(3);
	p.body = malloc(p.body_len + 1);
	memset(p.body, (int)rnd(3), p.body_len);
	return p;
}

static void add(struct lx_order *o, const struct pair *p)
{
	struct lx_err e = LX_ERR_INIT;
	CHECK(lx_order_add(o, (struct lx_span){ p->key, p->key_len }, (struct lx_span){ p->body, p->body_len }, &e) == 0);
}

static bool take_is(struct lx_order *o, const struct pair *want)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_span key = lx_order_least(o), body;
	if (!key.p || !lx_span_eq(key, (struct lx_span){ want->key, want->key_len }))
		return false;
	return lx_order_take(o, &body, &e) == 0 && lx_span_eq(body, (struct lx_span){ want->body, want->body_len });
}

/* Add n pairs; in between and at the end take the least, and compare with a sorted array. */
static uint64_t against_model(uint64_t mem, size_t n, size_t max_body, unsigned takes_in_100)
{
	struct lx_order o;
	struct pair *model = malloc(n * sizeof(*model));
	size_t first = 0, last = 0, wrong = 0;
	lx_order_init(&o, mem, NULL);
	for (size_t i = 0; i < n; i++) {
		model[last] = random_pair(max_body);
		add(&o, &model[last++]);
		if (rnd(100) >= takes_in_100)
			continue;
		qsort(model + first, last - first, sizeof(*model), cmp_pair);
		wrong += !take_is(&o, &model[first]);
		free(model[first++].body);
	}
	qsort(model + first, last - first, sizeof(*model), cmp_pair);
	for (; first < last; first++) {
		wrong += !take_is(&o, &model[first]);
		free(model[first].body);
	}
	CHECK(wrong == 0);
	CHECK(lx_order_least(&o).p == NULL);
	CHECK(o.held == 0 && o.rows == 0);
	uint64_t spilled = o.spill.written;
	lx_order_release(&o);
	free(model);
	return spilled;
}

static void entries_in_memory_come_back_in_order(void)
{
	seed = 1;
	CHECK(against_model(1 << 20, 2000, 20, 0) == 0);
}

static void entries_beyond_the_budget_come_back_from_disk_in_order(void)
{
	seed = 2;
	CHECK(against_model(20000, 3000, 300, 0) > 0);
}

static void taking_and_adding_may_alternate(void)
{
	for (seed = 3; seed < 8; seed++) {
		CHECK(against_model(1 << 20, 500, 20, 45) == 0);
		CHECK(against_model(4000, 500, 300, 45) > 0);
	}
}

static void more_rows_than_there_may_be_become_one(void)
{
	seed = 9;
	CHECK(against_model(1, 3 * LX_ORDER_ROWS, 50, 0) > 0);
}

static void bodies_larger_than_a_block_come_back(void)
{
	seed = 10;
	CHECK(against_model(200000, 60, 5 * LX_ORDER_BLOCK, 10) > 0);
}

static void disk_is_used_again(void)
{
	struct lx_order o;
	struct lx_err e = LX_ERR_INIT;
	uint8_t body[1000] = { 0 };
	struct lx_span taken;
	lx_order_init(&o, 20000, NULL);
	uint32_t blocks = 0;
	for (unsigned round = 0; round < 50; round++) {
		for (uint8_t i = 0; i < 100; i++)
			CHECK(lx_order_add(&o, (struct lx_span){ &i, 1 }, (struct lx_span){ body, sizeof(body) }, &e) == 0);
		while (lx_order_least(&o).p)
			CHECK(lx_order_take(&o, &taken, &e) == 0);
		blocks = blocks ? blocks : o.spill.n;
		CHECK(o.spill.n <= blocks + 1);
	}
	CHECK(blocks > 1);
	lx_order_release(&o);
}

static void what_is_left_is_freed(void)
{
	struct lx_order o;
	seed = 11;
	lx_order_init(&o, 4000, NULL);
	for (int i = 0; i < 300; i++) {
		struct pair p = random_pair(100);
		add(&o, &p);
		free(p.body);
	}
	CHECK(o.rows > 0);
	lx_order_release(&o);
	CHECK(o.n == 0);
}

static void a_directory_that_is_not_there_is_said(void)
{
	struct lx_order o;
	struct lx_err e = LX_ERR_INIT;
	struct lx_span s = lx_span_str("x");
	int rc = 0;
	lx_order_init(&o, 1, "/dev/null/nowhere");
	for (int i = 0; i < 100 && rc == 0; i++)
		rc = lx_order_add(&o, s, s, &e);
	CHECK(rc < 0 && e.code == LX_SYSTEM && strstr(e.msg, "--tmpdir"));
	lx_order_release(&o);
}

int main(void)
{
	RUN(entries_in_memory_come_back_in_order);
	RUN(entries_beyond_the_budget_come_back_from_disk_in_order);
	RUN(taking_and_adding_may_alternate);
	RUN(more_rows_than_there_may_be_become_one);
	RUN(bodies_larger_than_a_block_come_back);
	RUN(disk_is_used_again);
	RUN(what_is_left_is_freed);
	RUN(a_directory_that_is_not_there_is_said);
	return tap_done();
}

#include "group.h"
#include "tap.h"

#include <signal.h>
#include <sys/resource.h>

/* ---- a small world: doc -> chapter? -> page, and doc -> audio ---- */

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static bool one_in(uint64_t n)
{
	return rnd(n) == 0;
}

enum { DOC = 0, AUDIO = 1, PAGE = 2, CHAPTER = 2, PAGE_OF_CHAPTER = 3 };

static void make_plan(struct lx_plan *p, bool nested, struct lx_tolerance t)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_tolerance none = { 0 };
	lx_plan_init(p);
	strcpy(p->run, "test");
	if (p->n_domains == 0) {
		strcpy(p->domains[0].name, "doc");
		p->domains[0].parent = -1;
		p->n_domains = 1;
	}
	CHECK(lx_plan_expand(p, "audio", DOC, none, &e) == AUDIO);
	if (nested)
		CHECK(lx_plan_expand(p, "chapter", DOC, none, &e) == CHAPTER);
	CHECK(lx_plan_expand(p, "page", nested ? CHAPTER : DOC, t, &e) == (nested ? PAGE_OF_CHAPTER : PAGE));
}

static struct lx_id id_of(uint32_t n, uint64_t a, uint64_t b, uint64_t c)
{
	return (struct lx_id){ .n = n, .ord = { a, b, c } };
}

/* Fields {"n": ordinal, "v": value}; `other` writes the same values in another order and width. */
static void fields(struct lx_buf *b, uint64_t n, uint64_t v, bool other, size_t pad)
{
	static const uint8_t zeros[512 << 10];
	lx_pack_map(b, 2 + (pad > 0));
	if (other) {
		lx_pack_cstr(b, "v");
		lx_buf_byte(b, 0xcf);
		for (int i = 7; i >= 0; i--)
			lx_buf_byte(b, (uint8_t)(v >> (8 * i)));
	}
	lx_pack_cstr(b, "n");
	lx_pack_uint(b, n);
	if (!other) {
		lx_pack_cstr(b, "v");
		lx_pack_uint(b, v);
	}
	if (pad) {
		lx_pack_cstr(b, "pad");
		lx_pack_bin(b, (struct lx_span){ zeros, pad });
	}
}

static void cause(struct lx_buf *b, uint32_t od, struct lx_id origin, uint32_t ad, struct lx_id anchor)
{
	struct lx_cause c = { .type = lx_span_str("bad-page"),
		              .message = lx_span_str("said so"),
		              .anchor_domain = ad,
		              .anchor = anchor,
		              .origin_domain = od,
		              .origin = origin };
	lx_cause_pack(b, &c);
}

static const uint8_t nil = 0xc0;

static void build(struct lx_buf *b, uint32_t d, struct lx_id id, enum lx_outcome o, struct lx_span why,
                  struct lx_span f)
{
	struct lx_span key = id.n == 1 ? (struct lx_span){ &nil, 1 } : (struct lx_span){ 0 };
	if (o == LX_PRESENT)
		lx_rec_item(b, d, &id, f, key);
	else
		lx_rec_gone(b, d, &id, o, why, (struct lx_span){ 0 }, key);
}

/* ---- a bench: a group and what it settled ---- */

enum { SEEN_MAX = 64 };

struct seen {
	struct lx_id id;
	enum lx_outcome outcome;
	bool passed, orphan;
	char type[16], message[200], cause_type[16];
	struct lx_id origin;
	uint64_t n, ords[40], vals[40], n_missing, missing[8];
	uint64_t failed;
};

struct bench {
	struct lx_plan plan;
	struct lx_group *g;
	struct lx_buf rec;
	uint32_t page;
	struct seen seen[SEEN_MAX];
	int n, late;
	bool broken;
	int (*settle)(struct bench *b, const struct lx_settled *s, struct lx_err *e);
	void *model;
};

static void copy_text(char *to, size_t size, struct lx_span s)
{
	snprintf(to, size, "%.*s", (int)s.len, s.p ? (const char *)s.p : "");
}

static int settle(void *ctx, struct lx_group *g, const struct lx_settled *s, struct lx_err *e)
{
	struct bench *b = ctx;
	struct lx_cause c;
	struct lx_rec child;
	struct lx_span type;
	if (b->settle)
		return b->settle(b, s, e);
	if (b->n == SEEN_MAX)
		return lx_err_set(e, LX_DATA, "too many");
	struct seen *to = &b->seen[b->n++];
	memset(to, 0, sizeof(*to));
	to->id = s->id;
	to->outcome = s->outcome;
	to->passed = s->passed;
	to->orphan = s->parent.raw.p == NULL;
	to->failed = s->failed;
	if (s->type)
		snprintf(to->type, sizeof(to->type), "%s", s->type);
	copy_text(to->message, sizeof(to->message), s->message);
	if (s->cause.p && lx_cause_read(s->cause, &c) == 0) {
		copy_text(to->cause_type, sizeof(to->cause_type), c.type);
		to->origin = c.origin;
	}
	while (s->outcome == LX_PRESENT && lx_group_child(g, &child, e) > 0) {
		if (to->n < 40) {
			to->ords[to->n] = lx_id_ordinal(&child.id);
			lx_map_uint(child.fields, "v", &to->vals[to->n]);
		}
		to->n++;
	}
	while (s->outcome == LX_PRESENT && to->n_missing < 8 &&
	       lx_group_missing(g, &to->missing[to->n_missing], &type, e) > 0)
		to->n_missing++;
	return 0;
}

static void late(void *ctx, const struct lx_rec *r)
{
	struct bench *b = ctx;
	b->late += r != NULL;
}

static const char *const *keep_only;

static struct bench *bench_new(bool nested, struct lx_tolerance t, uint64_t mem)
{
	struct lx_err e = LX_ERR_INIT;
	struct bench *b = calloc(1, sizeof(*b));
	make_plan(&b->plan, nested, t);
	b->page = nested ? PAGE_OF_CHAPTER : PAGE;
	struct lx_group_conf c = { .plan = &b->plan, .domain = (int)b->page, .mem = mem, .limits = LX_LIMITS_DEFAULT,
				   .settle = settle, .late = late, .ctx = b, .keep = keep_only };
	b->g = lx_group_new(&c, &e);
	CHECK(b->g != NULL);
	return b;
}

static void bench_free(struct bench *b)
{
	const struct lx_group_stats *s = lx_group_stats(b->g);
	if (!b->broken) {
		CHECK(s->children == s->joined + s->dropped + s->failed + s->suppressed + s->discarded + s->duplicates);
		CHECK(s->parents_in + s->orphans == s->parents[0] + s->parents[1] + s->parents[2] + s->parents[3]);
		CHECK(s->held_bytes < 200000); /* empty tables */
	}
	lx_group_free(b->g);
	lx_plan_free(&b->plan);
	lx_buf_free(&b->rec);
	free(b);
}

static int feed_to(struct bench *b, bool learn, struct lx_err *e)
{
	struct lx_limits l = LX_LIMITS_DEFAULT;
	struct lx_rec r;
	size_t used;
	if (lx_rec_parse(b->rec.p, b->rec.len, &l, &r, &used, e) < 0 || used != b->rec.len)
		return -1;
	int rc = learn ? lx_group_learn(b->g, &r, e) : lx_group_add(b->g, &r, e);
	memset(b->rec.p, 0xee, b->rec.len); /* it was copied */
	lx_buf_clear(&b->rec);
	return rc;
}

static void feed(struct bench *b)
{
	struct lx_err e = LX_ERR_INIT;
	if (feed_to(b, false, &e) < 0) {
		printf("# %s\n", e.msg);
		CHECK(!"a record was refused");
	}
}

static void parent_v(struct bench *b, struct lx_id id, enum lx_outcome o, uint64_t v)
{
	struct lx_buf f = { 0 }, c = { 0 };
	uint32_t d = (uint32_t)b->plan.domains[b->page].parent;
	fields(&f, 0, v, false, 0);
	cause(&c, d, id, d, id);
	build(&b->rec, d, id, o, lx_buf_view(&c), lx_buf_view(&f));
	lx_buf_free(&f);
	lx_buf_free(&c);
	feed(b);
}

static void parent(struct bench *b, struct lx_id id, enum lx_outcome o)
{
	parent_v(b, id, o, 7);
}

static void page_v(struct bench *b, struct lx_id up, uint64_t n, uint64_t v, bool other, size_t pad)
{
	struct lx_buf f = { 0 };
	fields(&f, n, v, other, pad);
	build(&b->rec, b->page, lx_id_child(&up, n), LX_PRESENT, (struct lx_span){ 0 }, lx_buf_view(&f));
	lx_buf_free(&f);
	feed(b);
}

static void page(struct bench *b, struct lx_id up, uint64_t n)
{
	page_v(b, up, n, n * 10, false, 0);
}

static void page_gone(struct bench *b, struct lx_id up, uint64_t n, enum lx_outcome o, uint32_t anchor_domain,
                      struct lx_id anchor)
{
	struct lx_buf c = { 0 };
	struct lx_id id = lx_id_child(&up, n);
	cause(&c, b->page, id, anchor_domain, anchor);
	build(&b->rec, b->page, id, o, lx_buf_view(&c), (struct lx_span){ 0 });
	lx_buf_free(&c);
	feed(b);
}

static void page_bad(struct bench *b, struct lx_id up, uint64_t n, enum lx_outcome o)
{
	page_gone(b, up, n, o, b->page, lx_id_child(&up, n));
}

static void close_as(struct bench *b, struct lx_id up, uint64_t count, enum lx_outcome o)
{
	struct lx_buf c = { 0 };
	uint32_t d = (uint32_t)b->plan.domains[b->page].parent;
	cause(&c, d, up, d, up);
	lx_rec_close(&b->rec, b->page, &up, count, o, o == LX_PRESENT ? (struct lx_span){ 0 } : lx_buf_view(&c));
	lx_buf_free(&c);
	feed(b);
}

static void close_of(struct bench *b, struct lx_id up, uint64_t count)
{
	close_as(b, up, count, LX_PRESENT);
}

static void fine(int rc, const struct lx_err *e)
{
	if (rc < 0)
		printf("# %s\n", e->msg);
	CHECK(rc == 0);
}

static void idle(struct bench *b)
{
	struct lx_err e = LX_ERR_INIT;
	fine(lx_group_idle(b->g, &e), &e);
}

static void finish(struct bench *b)
{
	struct lx_err e = LX_ERR_INIT;
	fine(lx_group_end(b->g, &e), &e);
}

static const struct lx_tolerance none = { 0 };
static const struct lx_id doc1 = { .n = 1, .ord = { 1 } };

/* ---- verdicts ---- */

static void children_come_out_in_order_whatever_order_they_came_in(void)
{
	static const int orders[3][5] = { { 0, 1, 2, 3, 4 }, { 4, 3, 2, 1, 0 }, { 2, 4, 0, 3, 1 } };
	for (int o = 0; o < 3; o++) {
		for (int where = 0; where < 7; where++) {
			struct bench *b = bench_new(false, none, 0);
			for (int i = 0; i < 7; i++) {
				if (i == where)
					parent(b, doc1, LX_PRESENT);
				if (i == (where + 3) % 7)
					close_of(b, doc1, 5);
				if (i < 5)
					page(b, doc1, (uint64_t)orders[o][i]);
			}
			CHECK(b->n == 1);
			CHECK(b->seen[0].outcome == LX_PRESENT && b->seen[0].n == 5 && !b->seen[0].passed);
			for (uint64_t i = 0; i < 5; i++)
				CHECK(b->seen[0].ords[i] == i && b->seen[0].vals[i] == i * 10);
			finish(b);
			CHECK(b->n == 1);
			bench_free(b);
		}
	}
}

static void a_parent_without_children_is_present_and_empty(void)
{
	struct bench *b = bench_new(false, none, 0);
	close_of(b, doc1, 0);
	CHECK(b->n == 0);
	parent(b, doc1, LX_PRESENT);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_PRESENT && b->seen[0].n == 0);
	finish(b);
	bench_free(b);
}

static void dropped_children_are_left_out(void)
{
	struct bench *b = bench_new(false, none, 0);
	parent(b, doc1, LX_PRESENT);
	page(b, doc1, 0);
	page_bad(b, doc1, 1, LX_DROPPED);
	page(b, doc1, 2);
	close_of(b, doc1, 3);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_PRESENT && b->seen[0].n == 2 && b->seen[0].ords[1] == 2);
	finish(b);
	CHECK(lx_group_stats(b->g)->dropped == 1);
	bench_free(b);
}

static void a_parent_that_is_not_present_passes_and_its_children_are_discarded(void)
{
	for (int o = LX_DROPPED; o <= LX_SUPPRESSED; o++) {
		struct bench *b = bench_new(false, none, 0);
		page(b, doc1, 0);
		parent(b, doc1, (enum lx_outcome)o);
		CHECK(b->n == 1 && b->seen[0].passed && b->seen[0].outcome == (enum lx_outcome)o);
		page(b, doc1, 1);
		page_bad(b, doc1, 2, LX_FAILED);
		close_of(b, doc1, 3);
		finish(b);
		CHECK(b->n == 1 && b->late == 0);
		CHECK(lx_group_stats(b->g)->discarded == 3 && lx_group_stats(b->g)->late == 0);
		bench_free(b);
	}
}

static void the_first_failed_child_dooms_its_parent_at_once(void)
{
	for (int o = LX_FAILED; o <= LX_SUPPRESSED; o++) {
		struct bench *b = bench_new(false, none, 0);
		parent(b, doc1, LX_PRESENT);
		page(b, doc1, 0);
		page_bad(b, doc1, 7, (enum lx_outcome)o);
		CHECK(b->n == 1 && b->seen[0].outcome == LX_SUPPRESSED && !strcmp(b->seen[0].cause_type, "bad-page"));
		CHECK(b->seen[0].origin.n == 2 && b->seen[0].origin.ord[1] == 7 && b->seen[0].failed == 1);
		page(b, doc1, 1);
		close_of(b, doc1, 9);
		finish(b);
		CHECK(b->n == 1 && lx_group_stats(b->g)->discarded == 3 && b->late == 0);
		bench_free(b);
	}
}

static void a_doomed_parent_leaves_when_its_record_comes(void)
{
	struct bench *b = bench_new(false, none, 0);
	page(b, doc1, 0);
	page_bad(b, doc1, 3, LX_FAILED);
	page(b, doc1, 1);
	close_of(b, doc1, 4);
	CHECK(b->n == 0);
	parent(b, doc1, LX_PRESENT);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_SUPPRESSED && b->seen[0].origin.ord[1] == 3);
	finish(b);
	bench_free(b);
}

static void a_failed_expansion_fails_its_parent(void)
{
	struct bench *b = bench_new(false, none, 0);
	struct lx_id doc2 = id_of(1, 2, 0, 0), doc3 = id_of(1, 3, 0, 0);
	parent(b, doc1, LX_PRESENT);
	page(b, doc1, 0);
	close_as(b, doc1, 1, LX_FAILED);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_FAILED && b->seen[0].origin.n == 1);
	close_as(b, doc2, 0, LX_SUPPRESSED);
	parent(b, doc2, LX_PRESENT);
	CHECK(b->n == 2 && b->seen[1].outcome == LX_SUPPRESSED);
	page_bad(b, doc3, 0, LX_FAILED); /* doomed, but the failed close says more as long as the parent waits */
	close_as(b, doc3, 1, LX_FAILED);
	parent(b, doc3, LX_PRESENT);
	CHECK(b->n == 3 && b->seen[2].outcome == LX_FAILED && b->seen[2].origin.n == 1);
	finish(b);
	bench_free(b);
}

static void a_tolerance_bears_failures_and_lists_them(void)
{
	struct bench *b = bench_new(false, (struct lx_tolerance){ .n = 2 }, 0);
	struct lx_id doc2 = id_of(1, 2, 0, 0);
	parent(b, doc1, LX_PRESENT);
	page_bad(b, doc1, 3, LX_FAILED);
	page_bad(b, doc1, 1, LX_SUPPRESSED);
	page_bad(b, doc1, 3, LX_FAILED); /* a repeat does not count twice */
	page(b, doc1, 0);
	page(b, doc1, 2);
	close_of(b, doc1, 4);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_PRESENT && b->seen[0].n == 2 && b->seen[0].failed == 2);
	CHECK(b->seen[0].n_missing == 2 && b->seen[0].missing[0] == 1 && b->seen[0].missing[1] == 3);
	parent(b, doc2, LX_PRESENT);
	page_bad(b, doc2, 9, LX_FAILED);
	page_bad(b, doc2, 5, LX_FAILED);
	CHECK(b->n == 1);
	page_bad(b, doc2, 7, LX_FAILED);
	CHECK(b->n == 2 && b->seen[1].outcome == LX_SUPPRESSED && b->seen[1].origin.ord[1] == 5 &&
	      b->seen[1].failed == 3);
	finish(b);
	CHECK(lx_group_stats(b->g)->failed == 1 && lx_group_stats(b->g)->suppressed == 1 &&
	      lx_group_stats(b->g)->duplicates == 1);
	bench_free(b);
}

static void a_tolerance_in_percent_waits_for_the_close(void)
{
	struct bench *b = bench_new(false, (struct lx_tolerance){ .percent = true, .n = 2500 }, 0);
	struct lx_id doc2 = id_of(1, 2, 0, 0);
	parent(b, doc1, LX_PRESENT);
	for (uint64_t i = 0; i < 3; i++)
		page_bad(b, doc1, i, LX_FAILED);
	CHECK(b->n == 0);
	close_of(b, doc1, 8);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_SUPPRESSED && b->seen[0].origin.ord[1] == 0);
	parent(b, doc2, LX_PRESENT);
	for (uint64_t i = 0; i < 8; i++)
		if (i < 2)
			page_bad(b, doc2, i, LX_FAILED);
		else
			page(b, doc2, i);
	close_of(b, doc2, 8);
	CHECK(b->n == 2 && b->seen[1].outcome == LX_PRESENT && b->seen[1].n == 6);
	finish(b);
	bench_free(b);
}

static void a_wide_cause_dooms_its_anchor_whatever_the_tolerance(void)
{
	struct bench *b = bench_new(false, (struct lx_tolerance){ .n = 5 }, 0);
	struct lx_id doc2 = id_of(1, 2, 0, 0), doc3 = id_of(1, 3, 0, 0);
	parent(b, doc1, LX_PRESENT);
	page_bad(b, doc1, 0, LX_FAILED);
	page_gone(b, doc1, 4, LX_FAILED, DOC, doc1);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_SUPPRESSED && b->seen[0].origin.ord[1] == 4);
	parent(b, doc2, LX_PRESENT);
	parent(b, doc3, LX_PRESENT);
	page_gone(b, doc2, 0, LX_FAILED, DOC, doc3); /* anchored at another document */
	finish(b);
	CHECK(b->n == 3);
	for (int i = 1; i < 3; i++)
		CHECK(b->seen[i].id.ord[0] == 3 ? b->seen[i].outcome == LX_SUPPRESSED
		                                : !strcmp(b->seen[i].type, "incomplete"));
	bench_free(b);
}

static void contradictions_fail_the_parent(void)
{
	static const char *const messages[] = { "page 1 came twice with different fields",
		                                "two different counts of page: 2 and 3", "page 2 in a group of 2",
		                                "page 2 in a group of 2", "two different doc records" };
	for (int k = 0; k < 5; k++) {
		struct bench *b = bench_new(false, none, 0);
		parent(b, doc1, LX_PRESENT);
		page(b, doc1, 1);
		if (k == 0) {
			page_v(b, doc1, 1, 5, false, 0);
		} else if (k == 1) {
			close_of(b, doc1, 3);
			close_of(b, doc1, 2);
		} else if (k == 2) {
			page(b, doc1, 2);
			close_of(b, doc1, 2);
		} else if (k == 3) {
			close_of(b, doc1, 2);
			page(b, doc1, 2);
		} else {
			parent_v(b, doc1, LX_PRESENT, 8);
		}
		CHECK(b->n == 1 && b->seen[0].outcome == LX_FAILED && !strcmp(b->seen[0].type, "conflict"));
		CHECK(!strcmp(b->seen[0].message, messages[k]));
		page(b, doc1, 0);
		finish(b);
		CHECK(b->n == 1);
		bench_free(b);
	}
}

static void equal_repeats_are_one(void)
{
	struct bench *b = bench_new(false, none, 0);
	parent(b, doc1, LX_PRESENT);
	parent(b, doc1, LX_PRESENT);
	close_of(b, doc1, 2);
	close_of(b, doc1, 2);
	page(b, doc1, 0);
	page_v(b, doc1, 0, 0, true, 0); /* the same values, written otherwise */
	page(b, doc1, 0);
	CHECK(b->n == 0);
	page(b, doc1, 1);
	CHECK(b->n == 1 && b->seen[0].outcome == LX_PRESENT && b->seen[0].n == 2);
	finish(b);
	const struct lx_group_stats *s = lx_group_stats(b->g);
	CHECK(s->duplicates == 2 && s->repeats == 2 && s->late == 0 && s->parents_in == 1);
	bench_free(b);
}

/* One page whose only field is this value, as raw msgpack. */
static void page_raw(struct bench *b, uint64_t n, const void *value, size_t len)
{
	struct lx_buf f = { 0 };
	lx_pack_map(&f, 1);
	lx_pack_cstr(&f, "x");
	lx_buf_add(&f, value, len);
	build(&b->rec, b->page, lx_id_child(&doc1, n), LX_PRESENT, (struct lx_span){ 0 }, lx_buf_view(&f));
	lx_buf_free(&f);
	feed(b);
}

static void fields_are_equal_when_their_values_are(void)
{
	static const struct {
		const char *a, *b;
		size_t na, nb;
		bool same;
	} pairs[] = {
#define PAIR(x, y, s) { x, y, sizeof(x) - 1, sizeof(y) - 1, s }
		PAIR("\x05", "\xcc\x05", true),     /* 5 */
		PAIR("\xff", "\xd1\xff\xff", true), /* -1 */
		PAIR("\x05", "\x06", false),
		PAIR("\x05", "\xa1" "5", false),
		PAIR("\xa1" "a", "\xd9\x01" "a", true), /* str */
		PAIR("\xa1" "a", "\xc4\x01" "a", false), /* str, bin */
		PAIR("\xd4\x07" "a", "\xc7\x01\x07" "a", true), /* ext */
		PAIR("\xd4\x07" "a", "\xc7\x01\x08" "a", false),
		PAIR("\x92\x01\xc0", "\xdc\x00\x02\x01\xc0", true), /* [1, nil] */
		PAIR("\x92\x01\xc0", "\x92\x01\xc2", false),
		PAIR("\x81\x01\xc3", "\xde\x00\x01\xcc\x01\xc3", true), /* {1: true} */
		PAIR("\x81\x01\xc3", "\x81\x01\xc2", false),
		PAIR("\xca\x3f\x80\x00\x00", "\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", false), /* 1.0 as float and as double */
		PAIR("\xca\x3f\x80\x00\x00", "\xca\x3f\x80\x00\x01", false),
#undef PAIR
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct bench *b = bench_new(false, none, 0);
		parent(b, doc1, LX_PRESENT);
		page_raw(b, 0, pairs[i].a, pairs[i].na);
		page_raw(b, 0, pairs[i].b, pairs[i].nb);
		CHECK(b->n == !pairs[i].same);
		close_of(b, doc1, 1);
		finish(b);
		CHECK(b->n == 1 && b->seen[0].outcome == (pairs[i].same ? LX_PRESENT : LX_FAILED));
		bench_free(b);
	}
}

static void the_stronger_outcome_of_a_child_counts(void)
{
	static const enum lx_outcome weak_first[] = { LX_PRESENT, LX_DROPPED, LX_SUPPRESSED, LX_FAILED };
	for (int x = 0; x < 4; x++) {
		for (int y = 0; y < 4; y++) {
			struct bench *b = bench_new(false, (struct lx_tolerance){ .n = 1 }, 0);
			parent(b, doc1, LX_PRESENT);
			for (int i = 0; i < 2; i++) {
				enum lx_outcome o = weak_first[i ? y : x];
				if (o == LX_PRESENT)
					page(b, doc1, 0);
				else
					page_bad(b, doc1, 0, o);
			}
			page(b, doc1, 1);
			close_of(b, doc1, 2);
			int most = x > y ? x : y;
			const struct lx_group_stats *s = lx_group_stats(b->g);
			CHECK(b->n == 1 && b->seen[0].outcome == LX_PRESENT && b->seen[0].n == (most == 0 ? 2 : 1));
			CHECK(s->dropped == (most == 1) && s->suppressed == (most == 2) && s->failed == (most == 3));
			CHECK(s->duplicates == 1);
			finish(b);
			bench_free(b);
		}
	}
}

static void news_for_a_parent_that_left_as_present_is_late(void)
{
	struct bench *b = bench_new(false, none, 0);
	parent(b, doc1, LX_PRESENT);
	close_of(b, doc1, 1);
	page(b, doc1, 0);
	CHECK(b->n == 1 && b->late == 0);
	page_bad(b, doc1, 0, LX_FAILED);
	page_v(b, doc1, 0, 99, false, 0);
	close_of(b, doc1, 2);
	parent(b, doc1, LX_FAILED);
	finish(b);
	CHECK(b->n == 1 && b->late == 4 && lx_group_stats(b->g)->late == 4 && lx_group_stats(b->g)->discarded == 2);
	bench_free(b);
}

static void what_is_missing_at_the_end_is_named(void)
{
	struct bench *b = bench_new(false, none, 0);
	struct lx_id d[6];
	for (uint64_t i = 0; i < 6; i++)
		d[i] = id_of(1, i, 0, 0);
	parent(b, d[0], LX_PRESENT);
	close_of(b, d[0], 20);
	for (uint64_t i = 0; i < 20; i++)
		if (i != 7 && i != 9 && i != 12)
			page(b, d[0], i);
	parent(b, d[1], LX_PRESENT);
	page(b, d[1], 0);
	page(b, d[2], 5);
	close_of(b, d[2], 1);
	parent(b, d[3], LX_PRESENT);
	close_of(b, d[3], 1000000);
	page(b, d[3], 1);
	page_bad(b, d[4], 1, LX_FAILED);
	CHECK(b->n == 0);
	finish(b);
	CHECK(b->n == 5);
	for (int i = 0; i < b->n; i++) {
		const struct seen *s = &b->seen[i];
		static const char *const says[] = {
			"3 of 20 children missing: 7, 9, 12",
			"the close of its page group never came; children seen: 1",
			"its doc record never came; children seen: 0", /* a contradiction before: nothing is held */
			"999999 of 1000000 children missing: 0, 2, 3, 4, 5, 6, 7, 8, ...",
			"its doc record never came; children seen: 0",
		};
		uint64_t k = s->id.ord[0];
		CHECK(s->outcome == LX_FAILED && !strcmp(s->type, k == 2 || k == 4 ? "orphan" : "incomplete"));
		CHECK(s->orphan == (k == 2 || k == 4));
		if (strcmp(s->message, says[k]))
			printf("# %s\n", s->message);
		CHECK(!strcmp(s->message, says[k]));
	}
	bench_free(b);
}

static void huge_ordinals_and_counts_cost_nothing(void)
{
	struct bench *b = bench_new(false, none, 1 << 20);
	struct lx_id far = id_of(1, UINT64_MAX - 1, 0, 0);
	parent(b, far, LX_PRESENT);
	page(b, far, 1ull << 63);
	page(b, far, UINT64_MAX - 1);
	page(b, far, 0);
	page(b, far, 1ull << 63);
	CHECK(lx_group_stats(b->g)->peak_bytes < 4096);
	close_of(b, far, UINT64_MAX - 1);
	CHECK(b->n == 1 && !strcmp(b->seen[0].type, "conflict"));
	parent(b, doc1, LX_PRESENT);
	close_of(b, doc1, UINT64_MAX - 1);
	page(b, doc1, UINT64_MAX - 2);
	finish(b);
	CHECK(b->n == 2 &&
	      !strcmp(b->seen[1].message,
	              "18446744073709551613 of 18446744073709551614 children missing: 0, 1, 2, 3, 4, 5, 6, 7, ..."));
	CHECK(lx_group_stats(b->g)->spilled_bytes == 0);
	bench_free(b);
}

static void ordinals_far_apart_come_out_in_order(void)
{
	struct bench *b = bench_new(false, none, 1 << 20);
	struct lx_id sparse = id_of(1, 3, 0, 0);
	parent(b, sparse, LX_PRESENT);
	close_of(b, sparse, 1ull << 62);
	for (uint64_t i = 0; i < 50; i++)
		page(b, sparse, (i * 37 % 50) * 1000000007);
	finish(b);
	CHECK(b->n == 1 &&
	      !strcmp(b->seen[0].message,
	              "4611686018427387854 of 4611686018427387904 children missing: 1, 2, 3, 4, 5, 6, 7, 8, ..."));
	CHECK(lx_group_stats(b->g)->spilled_bytes == 0);
	bench_free(b);
}

/* ---- trees ---- */

static void ids_are_not_mixed_up_and_prefixes_hold(void)
{
	struct bench *b = bench_new(true, none, 0);
	struct lx_id x = id_of(2, 1, 23, 0), y = id_of(2, 12, 3, 0), z = id_of(2, 1, 2, 0);
	parent(b, x, LX_PRESENT);
	parent(b, y, LX_PRESENT);
	parent(b, z, LX_PRESENT);
	close_of(b, x, 1);
	close_of(b, y, 1);
	close_of(b, z, 1);
	page(b, y, 0);
	CHECK(b->n == 1 && lx_id_eq(&b->seen[0].id, &y));
	page(b, z, 0);
	CHECK(b->n == 2 && lx_id_eq(&b->seen[1].id, &z));
	page(b, x, 0);
	CHECK(b->n == 3 && lx_id_eq(&b->seen[2].id, &x));
	finish(b);
	bench_free(b);
}

static void a_cause_anchored_above_dooms_all_parents_below_the_anchor(void)
{
	struct bench *b = bench_new(true, (struct lx_tolerance){ .n = 3 }, 0);
	struct lx_id c[4];
	for (uint64_t i = 0; i < 4; i++)
		c[i] = id_of(2, i < 3 ? 5 : 6, i, 0);
	for (int i = 0; i < 4; i++)
		if (i != 2)
			parent(b, c[i], LX_PRESENT);
	page(b, c[2], 0);
	page_gone(b, c[0], 1, LX_FAILED, DOC, id_of(1, 5, 0, 0));
	CHECK(b->n == 1 && lx_id_eq(&b->seen[0].id, &c[0]));
	idle(b);
	CHECK(b->n == 2 && lx_id_eq(&b->seen[1].id, &c[1]) && b->seen[1].outcome == LX_SUPPRESSED);
	parent(b, c[2], LX_PRESENT);
	CHECK(b->n == 3 && lx_id_eq(&b->seen[2].id, &c[2]) && b->seen[2].outcome == LX_SUPPRESSED);
	close_of(b, c[3], 1);
	page(b, c[3], 0);
	CHECK(b->n == 4 && b->seen[3].outcome == LX_PRESENT);
	finish(b);
	bench_free(b);
}

static void learn_gone(struct bench *b, uint32_t d, struct lx_id id, enum lx_outcome o, uint32_t ad,
                       struct lx_id anchor)
{
	struct lx_buf c = { 0 };
	struct lx_err e = LX_ERR_INIT;
	cause(&c, d, id, ad, anchor);
	build(&b->rec, d, id, o, lx_buf_view(&c), (struct lx_span){ 0 });
	lx_buf_free(&c);
	CHECK(feed_to(b, true, &e) == 0);
}

static void an_ancestor_that_is_not_present_bars_what_is_below(void)
{
	for (int o = LX_DROPPED; o <= LX_SUPPRESSED; o++) {
		struct bench *b = bench_new(true, none, 0);
		struct lx_id early = id_of(2, 5, 0, 0), after = id_of(2, 5, 1, 0);
		parent(b, early, LX_PRESENT);
		page(b, early, 0);
		learn_gone(b, DOC, id_of(1, 5, 0, 0), (enum lx_outcome)o, DOC, id_of(1, 5, 0, 0));
		page(b, after, 3);
		parent(b, after, LX_PRESENT);
		idle(b);
		parent(b, id_of(2, 5, 2, 0), LX_PRESENT); /* the first that is heard of it */
		parent(b, id_of(2, 6, 0, 0), LX_PRESENT);
		CHECK(b->n == 3);
		for (int i = 0; i < 3; i++)
			CHECK(b->seen[i].outcome == (o == LX_DROPPED ? LX_DROPPED : LX_SUPPRESSED) &&
			      !b->seen[i].passed);
		close_of(b, id_of(2, 6, 0, 0), 0);
		finish(b);
		CHECK(lx_group_stats(b->g)->discarded == 2);
		bench_free(b);
	}
}

static void a_failed_item_beside_dooms_the_parent_of_both(void)
{
	struct bench *b = bench_new(false, none, 0);
	struct lx_id doc2 = id_of(1, 2, 0, 0), doc3 = id_of(1, 3, 0, 0);
	struct lx_err e = LX_ERR_INIT;
	parent(b, doc1, LX_PRESENT);
	learn_gone(b, AUDIO, id_of(2, 1, 0, 0), LX_FAILED, AUDIO, id_of(2, 1, 0, 0));
	CHECK(b->n == 1 && b->seen[0].outcome == LX_SUPPRESSED);
	page(b, doc2, 0);
	learn_gone(b, AUDIO, id_of(2, 2, 0, 0), LX_FAILED, DOC, doc2);
	CHECK(b->n == 1);
	parent(b, doc2, LX_PRESENT);
	CHECK(b->n == 2 && b->seen[1].outcome == LX_SUPPRESSED);
	parent(b, doc3, LX_PRESENT);
	learn_gone(b, AUDIO, id_of(2, 3, 0, 0), LX_DROPPED, AUDIO, id_of(2, 3, 0, 0));
	CHECK(b->n == 2);
	lx_rec_close(&b->rec, AUDIO, &doc3, 1, LX_PRESENT, (struct lx_span){ 0 });
	CHECK(feed_to(b, true, &e) == 0);
	close_of(b, doc3, 0);
	CHECK(b->n == 3 && b->seen[2].outcome == LX_PRESENT);
	finish(b);
	bench_free(b);
}

static int count_only(struct bench *b, const struct lx_settled *s, struct lx_err *e)
{
	(void)s;
	(void)e;
	b->n++;
	return 0;
}

static void memory_is_flat_in_the_number_of_finished_parents(void)
{
	struct bench *b = bench_new(true, none, 1 << 20);
	struct lx_err e = LX_ERR_INIT;
	b->settle = count_only;
	for (uint64_t i = 0; i < 60000; i++) {
		struct lx_id c = id_of(2, i / 3, i % 3, 0), d = id_of(1, i / 3, 0, 0);
		parent(b, c, LX_PRESENT);
		page(b, c, 0);
		close_of(b, c, 1);
		if (i % 3 == 2) {
			lx_rec_close(&b->rec, CHAPTER, &d, 3, LX_PRESENT, (struct lx_span){ 0 });
			CHECK(feed_to(b, true, &e) == 0);
		}
	}
	CHECK(b->n == 60000);
	CHECK(lx_group_stats(b->g)->peak_bytes < 4096);
	finish(b);
	bench_free(b);
}

/* ---- beyond memory ---- */

struct order {
	uint32_t parent, what; /* what: ordinal; N: the parent record; N + 1: the close */
};

static struct order *shuffled(uint32_t parents, uint32_t children, size_t *n)
{
	*n = (size_t)parents * (children + 2);
	struct order *o = malloc(*n * sizeof(*o));
	for (size_t i = 0; i < *n; i++)
		o[i] = (struct order){ (uint32_t)(i / (children + 2)), (uint32_t)(i % (children + 2)) };
	for (size_t i = *n - 1; i > 0; i--) {
		size_t j = rnd(i + 1);
		struct order t = o[i];
		o[i] = o[j];
		o[j] = t;
	}
	return o;
}

struct totals {
	uint64_t children, wrong;
	uint32_t expect;
};

static int count_children(struct bench *b, const struct lx_settled *s, struct lx_err *e)
{
	struct totals *t = b->model;
	struct lx_rec c;
	uint64_t next = 0, v = 0;
	b->n++;
	t->wrong += s->outcome != LX_PRESENT;
	for (int again = 0; again < 2; again++, lx_group_rewind(b->g)) {
		next = 0;
		while (lx_group_child(b->g, &c, e) > 0) {
			lx_map_uint(c.fields, "v", &v);
			t->wrong += lx_id_ordinal(&c.id) != next || v != next * 10 || c.id.ord[0] != s->id.ord[0];
			next++;
		}
	}
	t->wrong += next != t->expect || s->children != t->expect;
	t->children += next;
	return 0;
}

static void feed_one(struct bench *b, const struct order *o, uint32_t children, size_t pad)
{
	struct lx_id id = id_of(1, o->parent, 0, 0);
	if (o->what == children)
		parent(b, id, LX_PRESENT);
	else if (o->what == children + 1)
		close_of(b, id, children);
	else
		page_v(b, id, o->what, (uint64_t)o->what * 10, false, pad);
}

static void spilled_parents_come_out_whole(uint64_t mem, uint32_t parents, uint32_t children, size_t pad, int idle_each)
{
	struct totals t = { .expect = children };
	struct bench *b = bench_new(false, none, mem);
	size_t n;
	b->settle = count_children;
	b->model = &t;
	struct order *o = shuffled(parents, children, &n);
	for (size_t i = 0; i < n; i++) {
		feed_one(b, &o[i], children, pad);
		if (idle_each && i % (size_t)idle_each == 0)
			idle(b);
	}
	idle(b);
	finish(b);
	const struct lx_group_stats *s = lx_group_stats(b->g);
	CHECK(b->n == (int)parents && t.wrong == 0 && t.children == (uint64_t)parents * children);
	CHECK(s->spilled_bytes > 0);
	CHECK(s->peak_bytes <= mem);
	free(o);
	bench_free(b);
}

static void a_full_shuffle_in_a_megabyte(void)
{
	seed = 11;
	spilled_parents_come_out_whole(1 << 20, 5000, 20, 20, 0);
}

static void a_full_shuffle_in_a_quarter_megabyte_goes_blind_and_splits(void)
{
	seed = 12;
	spilled_parents_come_out_whole(256 << 10, 12000, 12, 30, 0);
	spilled_parents_come_out_whole(256 << 10, 3000, 12, 30, 997);
}

static void one_parent_larger_than_memory(void)
{
	seed = 13;
	spilled_parents_come_out_whole(256 << 10, 1, 60000, 0, 0);
	spilled_parents_come_out_whole(1 << 20, 3, 30000, 50, 0);
	spilled_parents_come_out_whole(1 << 20, 3, 40, 200 << 10, 0);
	spilled_parents_come_out_whole(256 << 10, 2, 5, 400 << 10, 1);
}

static void complete_parents_on_disk_leave_when_idle(void)
{
	struct bench *b = bench_new(false, none, 256 << 10);
	struct totals t = { .expect = 10 };
	b->settle = count_children;
	b->model = &t;
	for (uint32_t o = 0; o < 9; o++)
		for (uint32_t p = 0; p < 2000; p++)
			feed_one(b, &(struct order){ p, o }, 10, 100);
	for (uint32_t p = 0; p < 2000; p++)
		feed_one(b, &(struct order){ p, 10 }, 10, 0);
	for (uint32_t p = 0; p < 2000; p++)
		feed_one(b, &(struct order){ p, 11 }, 10, 0);
	CHECK(b->n == 0);
	uint64_t reads = lx_group_stats(b->g)->spill_reads;
	for (uint32_t p = 0; p < 200; p++) {
		feed_one(b, &(struct order){ p, 9 }, 10, 100);
		idle(b);
		idle(b);
	}
	reads = lx_group_stats(b->g)->spill_reads - reads;
	if (lx_group_stats(b->g)->spilled_bytes < 1 << 20)
		CHECK(!"nothing was spilled");
	/* A few reads for each record that left, not the whole of a partition for each parent. */
	CHECK(reads < 200 * 60);
	for (uint32_t p = 200; p < 2000; p++)
		feed_one(b, &(struct order){ p, 9 }, 10, 100);
	finish(b);
	CHECK(b->n == 2000 && t.wrong == 0);
	bench_free(b);
}

/* Records of `parents` documents of ten pages, page by page; the last page of every other document is missing. */
static void half_complete(struct bench *b, uint32_t parents)
{
	static const uint32_t order[12] = { 0, 1, 2, 10, 3, 4, 5, 6, 11, 7, 8, 9 };
	for (int i = 0; i < 12; i++)
		for (uint32_t p = 0; p < parents; p++)
			if (order[i] != 9 || p % 2)
				feed_one(b, &(struct order){ p, order[i] }, 10, 100);
}

static void what_is_complete_leaves_when_the_input_breaks_off(void)
{
	static const uint32_t sizes[] = { 10, 1000, 8000 }; /* in memory, on disk, without counters */
	for (int i = 0; i < 3; i++) {
		struct bench *b = bench_new(false, none, 256 << 10);
		struct totals t = { .expect = 10 };
		struct lx_err e = LX_ERR_INIT;
		b->settle = count_children;
		b->model = &t;
		half_complete(b, sizes[i]);
		fine(lx_group_flush(b->g, &e), &e);
		CHECK(b->n == (int)sizes[i] / 2 && t.wrong == 0);
		b->broken = true; /* the others stay */
		bench_free(b);
	}
}

static void a_doomed_parent_on_disk_leaves_at_once(void)
{
	struct bench *b = bench_new(false, none, 1 << 20);
	for (uint32_t o = 0; o < 10; o++)
		for (uint32_t p = 0; p < 2000; p++)
			feed_one(b, &(struct order){ p, o == 0 ? 20 : o }, 20, 100);
	CHECK(lx_group_stats(b->g)->spilled_bytes > 0 && b->n == 0);
	for (uint64_t p = 0; p < 50; p++) {
		page_bad(b, id_of(1, p, 0, 0), 15, LX_FAILED);
		idle(b); /* a few records may be kept back while more come */
		CHECK(b->n == (int)p + 1 && b->seen[p].outcome == LX_SUPPRESSED && b->seen[p].origin.ord[1] == 15);
	}
	b->settle = count_only;
	b->n = 0;
	finish(b);
	CHECK(b->n == 1950);
	bench_free(b);
}

static void a_full_disk_is_an_error_that_names_the_directory(void)
{
	struct rlimit old, small;
	struct lx_err e = LX_ERR_INIT;
	struct bench *b = bench_new(false, none, 1 << 20);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 256 << 10;
	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	int rc = 0;
	for (uint32_t i = 0; i < 100000 && rc == 0; i++) {
		struct lx_buf f = { 0 };
		struct lx_id up = id_of(1, i, 0, 0);
		fields(&f, 0, i, false, 100);
		build(&b->rec, PAGE, lx_id_child(&up, 0), LX_PRESENT, (struct lx_span){ 0 }, lx_buf_view(&f));
		lx_buf_free(&f);
		rc = feed_to(b, false, &e);
	}
	setrlimit(RLIMIT_FSIZE, &old);
	CHECK(rc == -1 && e.code == LX_SYSTEM && strstr(e.msg, "--tmpdir") && strstr(e.msg, "/"));
	b->broken = true;
	bench_free(b);
}

static void only_the_fields_asked_for_are_held(void)
{
	static const char *const keep[] = { "v", NULL };
	keep_only = keep;
	struct bench *b = bench_new(false, none, 0);
	keep_only = NULL;
	for (uint64_t i = 0; i < 20; i++) {
		page_v(b, doc1, i, i, false, 100000);
		page_v(b, doc1, i, i, false, 100000);
	}
	CHECK(lx_group_stats(b->g)->peak_bytes < 4096 && lx_group_stats(b->g)->duplicates == 20);
	parent(b, doc1, LX_PRESENT);
	page_v(b, doc1, 3, 3, false, 100001); /* differs only in what is not held */
	CHECK(b->n == 1 && !strcmp(b->seen[0].type, "conflict"));
	struct lx_id doc2 = id_of(1, 2, 0, 0);
	parent(b, doc2, LX_PRESENT);
	page_v(b, doc2, 0, 42, false, 9);
	close_of(b, doc2, 1);
	CHECK(b->n == 2 && b->seen[1].n == 1 && b->seen[1].vals[0] == 42);
	finish(b);
	bench_free(b);
}

/* ---- a naive model ---- */

enum { FEW = 60, CROWD = 4000, KIDS = 48, EVENTS_MAX = 120000 };

struct event {
	int what; /* 0 parent, 1 child, 2 close */
	int p;
	uint64_t ord, v;
	enum lx_outcome o;
	bool other, wide;
};

struct kid {
	bool there;
	enum lx_outcome o;
	uint64_t v;
};

struct model_parent {
	bool parent, close, left, doomed, fuzzy;
	enum lx_outcome o;
	uint64_t count, n, failed, v;
	struct kid kid[KIDS * 2];
	const char *type;
	uint64_t origin;
	/* what the group said */
	int settled;
};

struct model {
	struct model_parent *p;
	int parents;
	bool exact, nested;
	struct lx_tolerance t;
	uint64_t wrong;
};

static int strength(enum lx_outcome o)
{
	return o == LX_FAILED ? 3 : o == LX_SUPPRESSED ? 2 : o == LX_DROPPED ? 1 : 0;
}

static void model_leave(struct model_parent *m, enum lx_outcome o, const char *type)
{
	m->o = o;
	m->type = type;
	m->left = true;
}

static void model_doom(struct model_parent *m, enum lx_outcome o, const char *type, uint64_t origin)
{
	if (m->doomed && !(o == LX_FAILED && !type))
		return;
	if (m->doomed && m->o == LX_FAILED)
		return;
	m->doomed = true;
	m->o = o;
	m->type = type;
	m->origin = origin;
	if (m->parent)
		m->left = true;
}

static void model_check(const struct model *w, struct model_parent *m)
{
	uint64_t lowest = UINT64_MAX;
	if (m->left || m->doomed)
		return;
	for (uint64_t i = KIDS * 2; i-- > 0;)
		if (m->kid[i].there && strength(m->kid[i].o) > 1)
			lowest = i;
	if (m->failed && (!w->t.percent || m->close) && m->failed > lx_tolerance_of(w->t, m->count))
		model_doom(m, LX_SUPPRESSED, NULL, lowest);
	else if (m->parent && m->close && m->n == m->count)
		model_leave(m, LX_PRESENT, NULL);
}

static void model_child(struct model_parent *m, const struct event *ev)
{
	struct kid *k = &m->kid[ev->ord];
	bool bad = strength(ev->o) > 1;
	if (bad && ev->wide) {
		model_doom(m, LX_SUPPRESSED, NULL, ev->ord);
	} else if (m->close && ev->ord >= m->count && !(bad && false)) {
		model_doom(m, LX_FAILED, "conflict", 0);
	} else if (!k->there) {
		*k = (struct kid){ true, ev->o, ev->v };
		m->n++;
		m->failed += bad;
	} else if (!bad && k->o == LX_PRESENT && ev->o == LX_PRESENT && k->v != ev->v) {
		model_doom(m, LX_FAILED, "conflict", 0);
	} else if (strength(ev->o) > strength(k->o)) {
		m->failed += bad && strength(k->o) < 2;
		k->o = ev->o;
	}
}

static void model_event(struct model *w, const struct event *ev)
{
	struct model_parent *m = &w->p[ev->p];
	if (m->left)
		return;
	if (ev->what == 0) {
		if (ev->o != LX_PRESENT) {
			model_leave(m, ev->o, "passed");
			return;
		}
		if (m->parent && m->v != ev->v)
			model_doom(m, LX_FAILED, "conflict", 0);
		if (!m->parent)
			m->v = ev->v;
		m->parent = true;
		m->left = m->doomed;
	} else if (ev->what == 2) {
		if (ev->o != LX_PRESENT) {
			model_doom(m, ev->o, NULL, UINT64_MAX);
		} else if (m->doomed) {
			return;
		} else if (m->close && m->count != ev->ord) {
			model_doom(m, LX_FAILED, "conflict", 0);
		} else {
			m->close = true;
			m->count = ev->ord;
			for (uint64_t i = ev->ord; i < KIDS * 2; i++)
				if (m->kid[i].there)
					model_doom(m, LX_FAILED, "conflict", 0);
		}
	} else if (!m->doomed) {
		if (strength(ev->o) > 1 && !w->t.n)
			model_doom(m, LX_SUPPRESSED, NULL, ev->ord);
		else
			model_child(m, ev);
	}
	model_check(w, m);
}

static void model_end(struct model *w)
{
	for (int i = 0; i < w->parents; i++) {
		struct model_parent *m = &w->p[i];
		bool any = m->parent || m->close || m->n || m->doomed;
		if (m->left || !any)
			continue;
		model_leave(m, LX_FAILED, m->parent ? "incomplete" : "orphan");
	}
}

static int parent_index(const struct model *w, const struct lx_id *id)
{
	return (int)(w->nested ? id->ord[0] * 4 + id->ord[1] : id->ord[0]);
}

static bool same_children(struct bench *b, const struct model_parent *m, struct lx_err *e)
{
	struct lx_rec c;
	struct lx_span type;
	uint64_t v, ord;
	for (uint64_t i = 0; i < KIDS * 2; i++) {
		if (!m->kid[i].there || m->kid[i].o != LX_PRESENT)
			continue;
		if (lx_group_child(b->g, &c, e) != 1 || lx_id_ordinal(&c.id) != i || !lx_map_uint(c.fields, "v", &v) ||
		    v != m->kid[i].v)
			return false;
	}
	for (uint64_t i = 0; i < KIDS * 2; i++)
		if (m->kid[i].there && strength(m->kid[i].o) > 1 &&
		    (lx_group_missing(b->g, &ord, &type, e) != 1 || ord != i || type.len != 8))
			return false;
	return lx_group_child(b->g, &c, e) == 0 && lx_group_missing(b->g, &ord, &type, e) == 0;
}

/* The verdict of the model; where repeats contradict or anchors reach far and memory is short, any one
 * verdict will do. */
static int compare(struct bench *b, const struct lx_settled *s, struct lx_err *e)
{
	struct model *w = b->model;
	int i = parent_index(w, &s->id);
	struct model_parent *m = &w->p[i];
	struct lx_cause c;
	const char *said = s->passed ? "passed" : s->type;
	m->settled++;
	if (m->fuzzy && !w->exact)
		return 0;
	bool ok = m->left && s->outcome == m->o && !said == !m->type && (!said || !strcmp(said, m->type));
	if (ok && s->outcome == LX_PRESENT)
		ok = same_children(b, m, e);
	if (ok && s->outcome == LX_SUPPRESSED && !s->passed) {
		ok = s->cause.p && lx_cause_read(s->cause, &c) == 0;
		uint64_t origin = ok && c.origin_domain == b->page ? lx_id_ordinal(&c.origin) : UINT64_MAX;
		ok = ok && (w->exact ? origin == m->origin : (origin == UINT64_MAX) == (m->origin == UINT64_MAX));
	}
	if (!ok && !w->wrong++)
		printf("# parent %d: %d %s, the model %d %s (left %d)\n", i, s->outcome, said ? said : "", m->o,
		       m->type ? m->type : "", m->left);
	return 0;
}

static struct lx_id parent_id(const struct model *w, int i)
{
	return w->nested ? id_of(2, (uint64_t)i / 4, (uint64_t)i % 4, 0) : id_of(1, (uint64_t)i, 0, 0);
}

static void feed_event(struct bench *b, const struct event *ev, size_t pad)
{
	struct model *w = b->model;
	struct lx_id id = parent_id(w, ev->p);
	if (ev->what == 0)
		parent_v(b, id, ev->o, ev->v);
	else if (ev->what == 2)
		close_as(b, id, ev->ord, ev->o);
	else if (ev->o == LX_PRESENT)
		page_v(b, id, ev->ord, ev->v, ev->other, pad);
	else if (ev->wide)
		page_gone(b, id, ev->ord, ev->o, (uint32_t)b->plan.domains[b->page].parent, id);
	else
		page_bad(b, id, ev->ord, ev->o);
}

static enum lx_outcome any_bad(void)
{
	return (enum lx_outcome)(1 + rnd(3));
}

/* The records of one parent, most of them in good order, some not. */
static size_t make_parent(struct model *w, struct event *ev, int p)
{
	size_t n = 0;
	struct model_parent *m = &w->p[p];
	uint64_t kids = one_in(8) ? rnd(KIDS) : rnd(8), trouble = rnd(3);
	bool clean = trouble != 0;
	if (clean || !one_in(10))
		ev[n++] = (struct event){ .what = 0, .p = p, .o = one_in(12) ? any_bad() : LX_PRESENT };
	if (clean || !one_in(10))
		ev[n++] = (struct event){ .what = 2, .p = p, .ord = kids, .o = one_in(15) ? LX_FAILED : LX_PRESENT };
	for (uint64_t i = 0; i < kids; i++) {
		if (!clean && one_in(12))
			continue;
		enum lx_outcome o = one_in(trouble == 2 ? 1000 : 9) ? any_bad() : LX_PRESENT;
		ev[n++] = (struct event){
			.what = 1, .p = p, .ord = i, .v = i * 3, .o = o, .other = one_in(2), .wide = one_in(10)
		};
		if (!clean && one_in(10)) {
			ev[n] = ev[n - 1];
			ev[n++].other = one_in(2);
			m->fuzzy |= w->t.n > 0 || o == LX_PRESENT; /* a repeat may come when all is complete */
		}
		if (!clean && one_in(40)) {
			ev[n] = ev[n - 1];
			ev[n].v++;
			ev[n++].o = one_in(2) ? LX_PRESENT : any_bad();
			m->fuzzy = true;
		}
	}
	if (!clean && one_in(10)) {
		ev[n++] = (struct event){ .what = 1, .p = p, .ord = kids + rnd(20), .v = 1 };
		m->fuzzy = true;
	}
	if (!clean && one_in(10)) {
		ev[n++] = (struct event){ .what = 2, .p = p, .ord = kids + rnd(2) };
		m->fuzzy = true;
	}
	if (!clean && one_in(10)) {
		ev[n++] = (struct event){ .what = 0, .p = p, .v = rnd(2) };
		m->fuzzy = true;
	}
	for (size_t i = 0; i < n;
	     i++) /* several reasons at once: which one comes first depends on when it is noticed */
		m->fuzzy |= ev[i].what == 2 && ev[i].o != LX_PRESENT && w->t.n;
	return n;
}

static void mix(struct event *ev, size_t n, size_t window)
{
	for (size_t i = n - 1; i > 0; i--) {
		size_t lo = i > window ? i - window : 0, j = lo + rnd(i - lo + 1);
		struct event t = ev[i];
		ev[i] = ev[j];
		ev[j] = t;
	}
}

/* The model leaves at the moment it is asked; so it runs ahead of the group, event by event. */
static bool one_world(uint64_t number, int parents, uint64_t mem, size_t pad)
{
	static struct event ev[EVENTS_MAX];
	static const struct lx_tolerance tolerances[] = {
		{ 0 }, { .n = 1 }, { .n = 3 }, { .percent = true, .n = 2000 }
	};
	struct model *w = calloc(1, sizeof(*w));
	seed = number * 7919 + 1;
	w->parents = parents;
	w->p = calloc((size_t)parents, sizeof(*w->p));
	w->exact = mem == 0;
	w->nested = number % 3 == 0;
	w->t = tolerances[rnd(4)];
	size_t n = 0;
	for (int p = 0; p < w->parents; p++)
		n += make_parent(w, ev + n, p);
	size_t windows[] = { 1, 30, n };
	mix(ev, n, windows[rnd(3)]);
	struct bench *b = bench_new(w->nested, w->t, mem);
	b->settle = compare;
	b->model = w;
	uint64_t idles = one_in(2) ? 20 + n / 50 : 0;
	for (size_t i = 0; i < n; i++) {
		model_event(w, &ev[i]);
		feed_event(b, &ev[i], (ev[i].ord * 7919 + (uint64_t)ev[i].p * 104729) % pad);
		if (idles && one_in(idles))
			idle(b);
	}
	model_end(w);
	finish(b);
	bool good = w->wrong == 0;
	for (int i = 0; i < w->parents; i++) {
		const struct model_parent *m = &w->p[i];
		if (m->settled != (m->left ? 1 : 0) && good) {
			printf("# parent %d settled %d times, left %d\n", i, m->settled, m->left);
			good = false;
		}
	}
	if (!good)
		printf("# world %llu, mem %llu\n", (unsigned long long)number, (unsigned long long)mem);
	bench_free(b);
	free(w->p);
	free(w);
	return good;
}

static void agrees_with_a_naive_model_in_memory(void)
{
	for (uint64_t i = 0; i < 400; i++)
		CHECK(one_world(i, FEW, 0, 50));
}

static void agrees_with_a_naive_model_on_disk(void)
{
	for (uint64_t i = 0; i < 400; i++)
		CHECK(one_world(1000 + i, FEW, 256 << 10, i % 4 == 0 ? 20000 : 5000));
}

static void agrees_with_a_naive_model_without_counters(void)
{
	for (uint64_t i = 0; i < 25; i++)
		CHECK(one_world(2000 + i, CROWD, 256 << 10, 40));
}

int main(void)
{
	RUN(children_come_out_in_order_whatever_order_they_came_in);
	RUN(a_parent_without_children_is_present_and_empty);
	RUN(dropped_children_are_left_out);
	RUN(a_parent_that_is_not_present_passes_and_its_children_are_discarded);
	RUN(the_first_failed_child_dooms_its_parent_at_once);
	RUN(a_doomed_parent_leaves_when_its_record_comes);
	RUN(a_failed_expansion_fails_its_parent);
	RUN(a_tolerance_bears_failures_and_lists_them);
	RUN(a_tolerance_in_percent_waits_for_the_close);
	RUN(a_wide_cause_dooms_its_anchor_whatever_the_tolerance);
	RUN(contradictions_fail_the_parent);
	RUN(equal_repeats_are_one);
	RUN(fields_are_equal_when_their_values_are);
	RUN(the_stronger_outcome_of_a_child_counts);
	RUN(news_for_a_parent_that_left_as_present_is_late);
	RUN(what_is_missing_at_the_end_is_named);
	RUN(huge_ordinals_and_counts_cost_nothing);
	RUN(ordinals_far_apart_come_out_in_order);
	RUN(ids_are_not_mixed_up_and_prefixes_hold);
	RUN(a_cause_anchored_above_dooms_all_parents_below_the_anchor);
	RUN(an_ancestor_that_is_not_present_bars_what_is_below);
	RUN(a_failed_item_beside_dooms_the_parent_of_both);
	RUN(memory_is_flat_in_the_number_of_finished_parents);
	RUN(a_full_shuffle_in_a_megabyte);
	RUN(a_full_shuffle_in_a_quarter_megabyte_goes_blind_and_splits);
	RUN(one_parent_larger_than_memory);
	RUN(complete_parents_on_disk_leave_when_idle);
	RUN(what_is_complete_leaves_when_the_input_breaks_off);
	RUN(a_doomed_parent_on_disk_leaves_at_once);
	RUN(a_full_disk_is_an_error_that_names_the_directory);
	RUN(only_the_fields_asked_for_are_held);
	RUN(agrees_with_a_naive_model_in_memory);
	RUN(agrees_with_a_naive_model_on_disk);
	RUN(agrees_with_a_naive_model_without_counters);
	return tap_done();
}

#include "group-int.h"

#include <stdlib.h>

/* One parent whose children do not fit in memory: what is held of each is its ordinal and its place in
 * the chain, and when even those do not fit, those of the lowest ordinals: the chain is read once for
 * every such window. */

#define PLACE_BITS 48
#define PLACES_MIN 64

static unsigned outcome_of(const struct place *p)
{
	return (unsigned)(p->pos >> PLACE_BITS);
}

static uint64_t pos_of(const struct place *p)
{
	return p->pos & ((1ull << PLACE_BITS) - 1);
}

static int by_number(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Two records of one child. Which one counts; contradictions are noted. */
static int merge(struct lx_group *g, struct place *had, const struct place *more, struct lx_err *err)
{
	struct big *b = &g->now.big;
	struct stored x, y;
	if (lx_group_strength(outcome_of(more)) > lx_group_strength(outcome_of(had)))
		*had = *more;
	if (outcome_of(had) != LX_PRESENT || outcome_of(more) != LX_PRESENT)
		return DONE;
	if (lx_group_stored(g, b->chain, pos_of(had), &x, &g->body, err) < 0 ||
	    lx_group_stored(g, b->chain, pos_of(more), &y, &g->other, err) < 0)
		return ERROR;
	struct news n = { .body = lx_buf_view(&g->other), .cut = y.cell.cut };
	if (lx_group_same(&n, g->body.p, g->body.len, x.cell.cut))
		return DONE;
	if (!b->twice || had->number < b->twice_at)
		b->twice_at = had->number;
	b->twice = true;
	return DONE;
}

/* Sort what is there, one place for each ordinal. */
static int tidy(struct lx_group *g, struct lx_err *err)
{
	struct big *b = &g->now.big;
	size_t to = 0;
	qsort(b->v, b->n, sizeof(*b->v), by_number);
	for (size_t i = 1; i < b->n; i++) {
		if (b->v[i].number != b->v[to].number)
			b->v[++to] = b->v[i];
		else if (merge(g, &b->v[to], &b->v[i], err) < 0)
			return ERROR;
	}
	b->n = b->n ? to + 1 : 0;
	return DONE;
}

/* The window is full: it keeps its lower half. */
static int narrow(struct lx_group *g, struct lx_err *err)
{
	struct big *b = &g->now.big;
	if (tidy(g, err) < 0)
		return ERROR;
	if (b->n > b->cap / 4 * 3) {
		b->n /= 2;
		b->next = b->v[b->n].number;
	}
	return DONE;
}

static int note_parent(struct lx_group *g, uint64_t pos, struct lx_err *err)
{
	struct big *b = &g->now.big;
	struct stored x, y;
	bool same = true;
	uint64_t had = b->seen_parent ? lx_group_parent_pos(b->e) : pos;
	if (had != pos && (lx_group_stored(g, b->chain, had, &x, &g->body, err) < 0 ||
	                   lx_group_stored(g, b->chain, pos, &y, &g->other, err) < 0 ||
	                   lx_group_same_parent(g, lx_buf_view(&g->body), lx_buf_view(&g->other), &same, err) < 0))
		return ERROR;
	b->parents |= !same;
	b->seen_parent = true;
	lx_group_set_parent(b->e, had);
	b->e->flags |= HAS_PARENT;
	return DONE;
}

static void note_close(struct big *b, uint64_t count)
{
	if (b->e->flags & HAS_CLOSE && b->e->count != count) {
		b->counts = true;
		b->other_count = count;
		return;
	}
	b->e->flags |= HAS_CLOSE;
	b->e->count = count;
}

/* Parent and close are read here too: the entry may know of them only in part. */
static int note(struct lx_group *g, const struct stored *s, uint64_t pos, struct lx_err *err)
{
	struct big *b = &g->now.big;
	if (s->cell.what == PARENT)
		return note_parent(g, pos, err);
	if (s->cell.what == CLOSE)
		note_close(b, s->cell.number);
	if (s->cell.what != CHILD || s->cell.number < b->from || s->cell.number >= b->next)
		return DONE;
	b->v[b->n++] = (struct place){ s->cell.number, pos | (uint64_t)s->cell.outcome << PLACE_BITS };
	return b->n == b->cap ? narrow(g, err) : DONE;
}

static int window(struct lx_group *g, uint64_t from, struct lx_err *err)
{
	struct big *b = &g->now.big;
	struct lx_cursor k;
	struct stored s;
	struct lx_id id, mine = lx_group_id(g, b->e);
	b->n = 0;
	b->from = from;
	b->next = UINT64_MAX;
	if (lx_cursor_init(&k, &g->spill, b->chain, false, err) < 0)
		return ERROR;
	int rc = DONE;
	while (rc == DONE && k.left) {
		uint64_t pos = lx_cursor_pos(&k);
		rc = lx_group_next_stored(g, &k, &s, &id, err);
		if (rc == DONE)
			lx_cursor_skip(&k, s.cell.len);
		if (rc == DONE && memcmp(id.ord, mine.ord, g->id_len * sizeof(id.ord[0])) == 0)
			rc = note(g, &s, pos, err);
	}
	lx_cursor_release(&k);
	return rc == DONE ? tidy(g, err) : rc;
}

/* What all windows together say. */
struct sum {
	uint64_t have, failed, lowest, by[LX_OUTCOMES];
	bool beyond, wide;
	uint64_t beyond_at, wide_pos;
	uint64_t expect, missing[LX_GROUP_NAMED];
	size_t n_missing;
};

static int sum_failing(struct lx_group *g, struct sum *t, const struct place *p, struct lx_err *err)
{
	struct big *b = &g->now.big;
	struct lx_id id = lx_group_id(g, b->e);
	struct stored s;
	bool wide;
	if (!t->failed++)
		t->lowest = pos_of(p);
	if (t->wide)
		return DONE;
	if (lx_group_stored(g, b->chain, pos_of(p), &s, &g->body, err) < 0 ||
	    lx_group_wide(g, &id, lx_buf_view(&g->body), &wide, err) < 0)
		return ERROR;
	t->wide = wide;
	t->wide_pos = pos_of(p);
	return DONE;
}

static int sum_one(struct lx_group *g, struct sum *t, const struct place *p, struct lx_err *err)
{
	const struct entry *e = g->now.big.e;
	bool closed = e->flags & HAS_CLOSE;
	t->have++;
	t->by[outcome_of(p)]++;
	if (closed && p->number >= e->count && !t->beyond) {
		t->beyond = true;
		t->beyond_at = p->number;
	}
	for (; closed && t->expect < p->number && t->expect < e->count && t->n_missing < LX_GROUP_NAMED; t->expect++)
		t->missing[t->n_missing++] = t->expect;
	t->expect = p->number + 1;
	return failing(outcome_of(p)) ? sum_failing(g, t, p, err) : DONE;
}

static int sum_all(struct lx_group *g, struct sum *t, struct lx_err *err)
{
	struct big *b = &g->now.big;
	for (uint64_t from = 0;; from = b->next) {
		if (window(g, from, err) < 0)
			return ERROR;
		for (size_t i = 0; i < b->n; i++)
			if (sum_one(g, t, &b->v[i], err) < 0)
				return ERROR;
		if (b->next == UINT64_MAX)
			break;
	}
	for (; b->e->flags & HAS_CLOSE && t->expect < b->e->count && t->n_missing < LX_GROUP_NAMED; t->expect++)
		t->missing[t->n_missing++] = t->expect;
	return DONE;
}

static int read_cause(struct lx_group *g, uint64_t pos, struct lx_span *cause, struct lx_err *err)
{
	struct stored s;
	if (lx_group_stored(g, g->now.big.chain, pos, &s, &g->other, err) < 0)
		return ERROR;
	*cause = lx_buf_view(&g->other);
	return DONE;
}

static int present(struct lx_group *g, struct part *p, struct entry *e, const struct sum *t, struct lx_err *err)
{
	struct lx_settled s = { .outcome = LX_PRESENT, .children = t->by[LX_PRESENT], .failed = t->failed };
	g->stats.duplicates += e->n - t->have;
	lx_group_joined(g, t->by);
	e->failed = t->failed > 0;
	g->now.e = e;
	g->now.big.on = true;
	lx_group_rewind(g);
	return lx_group_finish(g, p, e, &s, err);
}

static int decide(struct lx_group *g, struct part *p, struct entry *e, const struct sum *t, bool all,
                  struct lx_err *err)
{
	struct lx_span cause;
	struct news why;
	uint32_t failed = e->failed;
	e->failed = t->failed > UINT32_MAX ? UINT32_MAX : (uint32_t)t->failed;
	if (g->now.big.parents) {
		why = lx_group_why_of(e, LX_FAILED, AS_CONFLICT, lx_group_parents_text(g));
	} else if (g->now.big.counts) {
		why = lx_group_why_of(e, LX_FAILED, AS_CONFLICT,
		                      lx_group_counts_text(g, e->count, g->now.big.other_count));
	} else if (g->now.big.twice) {
		why = lx_group_why_of(e, LX_FAILED, AS_CONFLICT, lx_group_twice_text(g, g->now.big.twice_at));
	} else if (t->beyond) {
		why = lx_group_why_of(e, LX_FAILED, AS_CONFLICT, lx_group_beyond_text(g, t->beyond_at, e->count));
	} else if (t->wide || lx_group_over(g, e)) {
		if (read_cause(g, t->wide ? t->wide_pos : t->lowest, &cause, err) < 0)
			return ERROR;
		why = lx_group_caused(g, e, LX_SUPPRESSED, cause);
	} else if (lx_group_known(e) && t->have == e->count) {
		return present(g, p, e, t, err);
	} else if (all) {
		bool orphan = !(e->flags & HAS_PARENT);
		why = lx_group_why_of(e, LX_FAILED, orphan ? AS_ORPHAN : AS_INCOMPLETE,
		                      orphan ? lx_group_orphan(g, t->have)
		                             : lx_group_incomplete(g, e, t->have, t->missing, t->n_missing));
		return lx_group_leave_as(g, p, e, &why, err);
	} else {
		e->failed = failed;
		e->flags |= DOUBT;
		return DONE;
	}
	if (all && !(e->flags & HAS_PARENT)) {
		why = lx_group_why_of(e, LX_FAILED, AS_ORPHAN, lx_group_orphan(g, t->have));
		return lx_group_leave_as(g, p, e, &why, err);
	}
	return lx_group_fail(g, p, e, &why, err);
}

/* Room for the window: a quarter of the memory, or what is left. */
static int places_get(struct lx_group *g, struct part *p, uint64_t want, struct lx_err *err)
{
	struct big *b = &g->now.big;
	uint64_t cap = g->budget / 4 / sizeof(*b->v);
	b->cap = want + 1 < cap ? want + 1 : cap;
	while (!(b->ref = lx_slab_get(&g->slab, b->cap * sizeof(*b->v)))) {
		int rc = lx_group_room(g, p, true, err);
		if (rc == ERROR)
			return ERROR;
		if (rc == NO_ROOM && (b->cap /= 2) < PLACES_MIN)
			return lx_err_set(err, LX_SYSTEM, "regrouping in %llu bytes (--mem)", ULL(g->conf.mem));
	}
	b->v = lx_slab_at(&g->slab, b->ref);
	return DONE;
}

int lx_group_big(struct lx_group *g, struct part *p, struct entry *e, struct lx_chain *c, bool all, struct lx_err *err)
{
	struct big *b = &g->now.big;
	struct sum t = { 0 };
	*b = (struct big){ .chain = c, .e = e };
	e->flags &= (uint16_t)~(HAS_PARENT | HAS_CLOSE);
	if (places_get(g, p, e->n < PLACES_MIN ? PLACES_MIN : e->n, err) < 0)
		return ERROR;
	size_t size = b->cap * sizeof(*b->v);
	lx_ref ref = b->ref;
	int rc = sum_all(g, &t, err);
	if (rc == DONE)
		rc = decide(g, p, e, &t, all, err);
	lx_slab_put(&g->slab, ref, size);
	*b = (struct big){ 0 };
	return rc;
}

int lx_group_big_next(struct lx_group *g, uint64_t *next, bool want_present, struct cell *c, struct lx_span *body,
                      struct lx_err *err)
{
	struct big *b = &g->now.big;
	struct stored s;
	for (;;) {
		bool within = *next >= b->from && (*next < b->next || b->next == UINT64_MAX);
		if (!within && window(g, *next, err) < 0)
			return -1;
		size_t lo = 0, hi = b->n;
		while (lo < hi) {
			size_t mid = (lo + hi) / 2;
			if (b->v[mid].number < *next)
				lo = mid + 1;
			else
				hi = mid;
		}
		while (lo < b->n &&
		       !(want_present ? outcome_of(&b->v[lo]) == LX_PRESENT : failing(outcome_of(&b->v[lo]))))
			lo++;
		if (lo < b->n) {
			if (lx_group_stored(g, b->chain, pos_of(&b->v[lo]), &s, &g->body, err) < 0)
				return -1;
			*next = b->v[lo].number + 1;
			*c = s.cell;
			*body = lx_buf_view(&g->body);
			return 1;
		}
		if (b->next == UINT64_MAX)
			return 0;
		*next = b->next;
	}
}

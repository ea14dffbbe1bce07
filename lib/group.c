#include "group-int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#define DOOM_MAX 16384 /* barriers remembered, of a few hundred bytes each; forgetting one costs work only */

/* ---- making one ---- */

static uint64_t floor_pow2(uint64_t n)
{
	return n ? 1ull << (63 - __builtin_clzll(n)) : 0;
}

/* One buffer for each partition's chain, one set for a split, and two for reading. */
static uint64_t buffers_bytes(const struct lx_group *g)
{
	return (uint64_t)g->spill.block * (g->n_parts + 16 + 2);
}

static void size_up(struct lx_group *g)
{
	uint64_t mem = g->conf.mem ? g->conf.mem : LX_GROUP_MEM;
	if (mem < LX_GROUP_MEM_MIN)
		mem = LX_GROUP_MEM_MIN;
	if (mem > LX_SLAB_MAX)
		mem = LX_SLAB_MAX;
	uint64_t block = floor_pow2(mem / 1280);
	block = block < 4096 ? 4096 : block > 256u << 10 ? 256u << 10 : block;
	g->conf.mem = mem;
	g->parts_log2 = mem < 8u << 20 ? 4 : 6;
	g->n_parts = 1u << g->parts_log2;
	lx_spill_init(&g->spill, g->conf.tmpdir, (uint32_t)block);
}

struct lx_group *lx_group_new(const struct lx_group_conf *c, struct lx_err *e)
{
	struct lx_group *g = calloc(1, sizeof(*g));
	if (!g) {
		lx_err_sys(e, "regrouping");
		return NULL;
	}
	g->conf = *c;
	g->parent_domain = c->plan->domains[c->domain].parent;
	g->tolerance = c->plan->domains[c->domain].tolerance;
	for (int d = g->parent_domain; d >= 0; d = c->plan->domains[d].parent)
		g->id_len++;
	size_up(g);
	g->parts = calloc(g->n_parts, sizeof(*g->parts));
	g->done = lx_done_new();
	if (!g->parts || !g->done) {
		lx_err_sys(e, "regrouping");
		lx_group_free(g);
		return NULL;
	}
	g->budget = g->conf.mem - buffers_bytes(g);
	if (lx_slab_init(&g->slab, g->budget, e) < 0) {
		lx_group_free(g);
		return NULL;
	}
	g->big = g->budget / 8;
	return g;
}

void lx_group_free(struct lx_group *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; g->parts && i < g->n_parts; i++)
		lx_chain_clear(&g->spill, &g->parts[i].chain);
	free(g->parts);
	lx_spill_release(&g->spill);
	lx_slab_release(&g->slab);
	lx_done_free(g->done);
	lx_doom_free(g->doom);
	lx_buf_free(&g->queue_bytes);
	lx_buf_free(&g->cut);
	lx_buf_free(&g->body);
	lx_buf_free(&g->other);
	lx_buf_free(&g->parent_buf);
	lx_buf_free(&g->message);
	free(g);
}

const struct lx_group_stats *lx_group_stats(struct lx_group *g)
{
	g->stats.spilled_bytes = g->spill.written;
	g->stats.spill_reads = g->spill.reads;
	g->stats.held_bytes = g->slab.used;
	if (g->stats.peak_bytes < g->slab.used)
		g->stats.peak_bytes = g->slab.used;
	return &g->stats;
}

static struct part *part_of(struct lx_group *g, uint64_t hash)
{
	return &g->parts[hash >> (64 - g->parts_log2)];
}

static const char *child_name(const struct lx_group *g)
{
	return g->conf.plan->domains[g->conf.domain].name;
}

static const char *parent_name(const struct lx_group *g)
{
	return g->conf.plan->domains[g->parent_domain].name;
}

static struct lx_span say(struct lx_group *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static struct lx_span say(struct lx_group *g, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	lx_buf_clear(&g->message);
	lx_buf_str(&g->message, text);
	return lx_buf_view(&g->message);
}

/* ---- a parent leaves ---- */

static const char *type_of(enum judged j)
{
	static const char *const names[] = { NULL, "conflict", "incomplete", "orphan", "oversize" };
	return names[j];
}

static int parse_parent(struct lx_group *g, struct lx_span raw, struct lx_rec *r, struct lx_err *err)
{
	size_t used;
	if (lx_rec_parse(raw.p, raw.len, &g->conf.limits, r, &used, err) < 0)
		return lx_err_prefix(err, "a %s that was held", parent_name(g));
	return 0;
}

/* Hand the parent to the caller and remember that it left. `e` may be NULL: it never had an entry. */
static int leave(struct lx_group *g, struct part *p, struct entry *e, struct lx_settled *s, struct lx_err *err)
{
	int rc = g->conf.settle(g->conf.ctx, g, s, err);
	g->now.e = NULL;
	if (rc < 0)
		return ERROR;
	g->stats.parents[s->outcome]++;
	g->stats.orphans += s->parent.raw.p == NULL;
	if (!g->ending && lx_done_add(g->done, &s->id, s->outcome != LX_PRESENT, err) < 0)
		return ERROR;
	if (!e)
		return DONE;
	if (e->flags & ON_DISK)
		lx_group_forget(g, p, e);
	lx_group_remove(g, p, e);
	return DONE;
}

int lx_group_finish(struct lx_group *g, struct part *p, struct entry *e, struct lx_settled *s, struct lx_err *err)
{
	struct lx_span raw;
	s->id = lx_group_id(g, e);
	if (s->parent.raw.p || !(e->flags & HAS_PARENT))
		return leave(g, p, e, s, err);
	if (lx_group_parent(g, p, e, &raw, err) < 0 || parse_parent(g, raw, &s->parent, err) < 0)
		return ERROR;
	return leave(g, p, e, s, err);
}

#define AHEAD 6 /* children whose bytes are fetched into the cache before they are looked at */

static void prefetch_cell(const struct cell *c)
{
	for (size_t i = 0; i < 256; i += 64)
		__builtin_prefetch((const uint8_t *)c + i);
}

void lx_group_joined(struct lx_group *g, const uint64_t by[LX_OUTCOMES])
{
	g->stats.joined += by[LX_PRESENT];
	g->stats.dropped += by[LX_DROPPED];
	g->stats.failed += by[LX_FAILED];
	g->stats.suppressed += by[LX_SUPPRESSED];
}

int lx_group_present(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err)
{
	struct lx_settled s = { .outcome = LX_PRESENT, .failed = e->failed };
	uint64_t by[LX_OUTCOMES] = { 0 };
	uint32_t n = lx_group_sort(g, e);
	const lx_ref *kids = n ? lx_slab_at(&g->slab, e->kids) : NULL;
	for (uint32_t i = 0; i < n; i++) {
		if (i + AHEAD < n)
			prefetch_cell(lx_group_at(g, kids[i + AHEAD]));
		by[lx_group_at(g, kids[i])->outcome]++;
	}
	s.children = by[LX_PRESENT];
	lx_group_joined(g, by);
	g->stats.discarded += e->unread; /* they came after it was complete */
	g->stats.late += e->unread;
	g->now.e = e;
	g->now.n = n;
	lx_group_rewind(g);
	return lx_group_finish(g, p, e, &s, err);
}

static struct lx_settled settled_as(const struct news *why)
{
	struct lx_settled s = { .outcome = why->outcome, .failed = why->number, .type = type_of(why->judged) };
	if (why->judged == AS_CAUSE)
		s.cause = why->body;
	else
		s.message = why->body;
	return s;
}

/* A cause that began at the parent itself (its expansion) says that it failed, whichever way it comes here. */
static enum lx_outcome as_caused(const struct lx_group *g, const struct lx_id *parent, enum lx_outcome as,
                                 struct lx_span cause)
{
	return as == LX_SUPPRESSED && lx_cause_began_at(cause, (uint32_t)g->parent_domain, parent) ? LX_FAILED : as;
}

struct news lx_group_why_of(const struct entry *e, enum lx_outcome outcome, enum judged judged, struct lx_span body)
{
	return (struct news){ .what = WHY, .outcome = outcome, .judged = judged, .number = e->failed, .body = body };
}

struct news lx_group_caused(const struct lx_group *g, const struct entry *e, enum lx_outcome as, struct lx_span cause)
{
	struct lx_id id = lx_group_id(g, e);
	return lx_group_why_of(e, as_caused(g, &id, as, cause), AS_CAUSE, cause);
}

/* The children of a parent that will not be present. */
static void discard(struct lx_group *g, struct part *p, struct entry *e)
{
	g->stats.discarded += e->n;
	e->n = e->failed = 0;
	if (e->flags & ON_DISK)
		return;
	g->stats.discarded += e->unread;
	e->unread = 0;
	lx_group_drop_kids(g, p, e);
}

/* Remember why until the parent record comes. */
static int doom(struct lx_group *g, struct part *p, struct entry *e, const struct news *why, struct lx_err *err)
{
	if (e->flags & ON_DISK) {
		lx_group_forget(g, p, e);
		if (lx_group_append(g, p, e, why, err) < 0)
			return ERROR;
		discard(g, p, e);
	} else {
		lx_ref ref = lx_group_cell(g, p, e, why);
		if (!ref)
			return NO_ROOM;
		discard(g, p, e);
		lx_group_drop_cells(g, p, e);
		e->why = ref;
	}
	e->flags |= DOOMED | (why->outcome == LX_FAILED ? DOOM_FAILED : 0);
	return DONE;
}

int lx_group_leave_as(struct lx_group *g, struct part *p, struct entry *e, const struct news *why, struct lx_err *err)
{
	struct lx_settled s = settled_as(why);
	g->stats.discarded += e->n + (e->flags & ON_DISK ? 0 : e->unread);
	return lx_group_finish(g, p, e, &s, err);
}

int lx_group_fail(struct lx_group *g, struct part *p, struct entry *e, const struct news *why, struct lx_err *err)
{
	if (!(e->flags & HAS_PARENT))
		return doom(g, p, e, why, err);
	return lx_group_leave_as(g, p, e, why, err);
}

static int conflict(struct lx_group *g, struct part *p, struct entry *e, struct lx_span message, struct lx_err *err)
{
	struct news why = lx_group_why_of(e, LX_FAILED, AS_CONFLICT, message);
	return lx_group_fail(g, p, e, &why, err);
}

struct lx_span lx_group_beyond_text(struct lx_group *g, uint64_t ordinal, uint64_t count)
{
	return say(g, "%s %llu in a group of %llu", child_name(g), ULL(ordinal), ULL(count));
}

struct lx_span lx_group_twice_text(struct lx_group *g, uint64_t ordinal)
{
	return say(g, "%s %llu came twice with different fields", child_name(g), ULL(ordinal));
}

struct lx_span lx_group_counts_text(struct lx_group *g, uint64_t a, uint64_t b)
{
	return say(g, "two different counts of %s: %llu and %llu", child_name(g), ULL(a < b ? a : b),
	           ULL(a < b ? b : a));
}

struct lx_span lx_group_parents_text(struct lx_group *g)
{
	return say(g, "two different %s records", parent_name(g));
}

/* ---- what follows from what is known ---- */

bool lx_group_over(const struct lx_group *g, const struct entry *e)
{
	if (!e->failed || (g->tolerance.percent && !(e->flags & HAS_CLOSE)))
		return false;
	return e->failed > lx_tolerance_of(g->tolerance, e->flags & HAS_CLOSE ? e->count : 0);
}

bool lx_group_known(const struct entry *e)
{
	return (e->flags & (HAS_PARENT | HAS_CLOSE)) == (HAS_PARENT | HAS_CLOSE);
}

static int react_in_memory(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err)
{
	if (lx_group_over(g, e)) {
		struct news why = lx_group_caused(g, e, LX_SUPPRESSED, lx_group_lowest(g, e));
		return lx_group_fail(g, p, e, &why, err);
	}
	return lx_group_known(e) && e->n == e->count ? lx_group_present(g, p, e, err) : DONE;
}

static int react_on_disk(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err)
{
	if (e->flags & DOUBT)
		return DONE;
	if (lx_group_over(g, e))
		return lx_group_verify(g, p, e, err);
	if (lx_group_known(e) && e->n >= e->count && !(e->flags & READY))
		lx_group_mark_ready(g, p, e);
	return DONE;
}

static int react(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err)
{
	if (e->flags & DOOMED)
		return DONE;
	return e->flags & ON_DISK ? react_on_disk(g, p, e, err) : react_in_memory(g, p, e, err);
}

/* ---- a parent record ---- */

int lx_group_same_parent(struct lx_group *g, struct lx_span a, struct lx_span b, bool *same, struct lx_err *err)
{
	struct lx_rec x, y;
	if (parse_parent(g, a, &x, err) < 0 || parse_parent(g, b, &y, err) < 0)
		return ERROR;
	*same = lx_fields_same(x.fields, y.fields) && lx_span_eq(x.key, y.key);
	return DONE;
}

static int second_parent(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, struct lx_err *err)
{
	bool same = false;
	struct lx_span raw;
	if (lx_group_parent(g, p, e, &raw, err) < 0 || lx_group_same_parent(g, raw, n->body, &same, err) < 0)
		return ERROR;
	if (!same) {
		int rc = conflict(g, p, e, lx_group_parents_text(g), err);
		if (rc != DONE)
			return rc;
	}
	g->stats.repeats += n->fresh;
	return DONE;
}

/* The parent that was waited for: it leaves as it was doomed to. */
static int doomed_parent(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, struct lx_err *err)
{
	struct news why;
	if (lx_group_why(g, p, e, &why, err) < 0)
		return ERROR;
	struct lx_settled s = settled_as(&why);
	if (parse_parent(g, n->body, &s.parent, err) < 0)
		return ERROR;
	g->stats.parents_in += n->fresh;
	return lx_group_finish(g, p, e, &s, err);
}

/* Dropped, failed or suppressed itself: it passes, its children do not matter. `e` may be NULL. */
static int pass_parent(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, struct lx_err *err)
{
	struct lx_settled s = { .passed = true, .outcome = n->outcome, .id = *n->id };
	if (parse_parent(g, n->body, &s.parent, err) < 0)
		return ERROR;
	s.cause = s.parent.cause;
	bool second = e && e->flags & HAS_PARENT; /* it came as present before: the stronger outcome counts */
	g->stats.repeats += second;
	g->stats.parents_in += !second;
	g->stats.discarded += e ? e->n + (e->flags & ON_DISK ? 0 : e->unread) : 0;
	return leave(g, p, e, &s, err);
}

static int take_parent(struct lx_group *g, struct part *p, struct entry *e, struct news *n, struct lx_err *err)
{
	if (n->outcome != LX_PRESENT)
		return pass_parent(g, p, e, n, err);
	if (e->flags & HAS_PARENT)
		return second_parent(g, p, e, n, err);
	if (e->flags & DOOMED)
		return doomed_parent(g, p, e, n, err);
	if (e->flags & ON_DISK) {
		if (lx_group_append(g, p, e, n, err) < 0)
			return ERROR;
	} else if (!(e->parent = lx_group_cell(g, p, e, n))) {
		return NO_ROOM;
	}
	e->flags |= HAS_PARENT;
	g->stats.parents_in += n->fresh;
	n->placed = true;
	return react(g, p, e, err);
}

/* ---- a close ---- */

/* The expansion itself did not succeed: that outweighs what its children say. */
static int failed_close(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, struct lx_err *err)
{
	if (e->flags & DOOMED && (n->outcome != LX_FAILED || e->flags & DOOM_FAILED))
		return DONE;
	struct news why = lx_group_why_of(e, n->outcome, AS_CAUSE, n->body);
	return lx_group_fail(g, p, e, &why, err);
}

static int second_close(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, struct lx_err *err)
{
	if (e->count == n->number) {
		g->stats.repeats++;
		return DONE;
	}
	return conflict(g, p, e, lx_group_counts_text(g, e->count, n->number), err);
}

static int take_close(struct lx_group *g, struct part *p, struct entry *e, struct news *n, struct lx_err *err)
{
	uint64_t ordinal;
	if (n->outcome != LX_PRESENT)
		return failed_close(g, p, e, n, err);
	if (e->flags & DOOMED)
		return DONE;
	if (e->flags & HAS_CLOSE)
		return second_close(g, p, e, n, err);
	if (e->flags & ON_DISK) {
		if (lx_group_append(g, p, e, n, err) < 0)
			return ERROR;
	} else if (lx_group_beyond(g, e, n->number, &ordinal)) {
		return conflict(g, p, e, lx_group_beyond_text(g, ordinal, n->number), err);
	}
	e->count = n->number;
	e->flags |= HAS_CLOSE;
	n->placed = true;
	return react(g, p, e, err);
}

/* ---- a child ---- */

/* A cause is anchored at or above parents other than the child's own. */
static int bar_others(struct lx_group *g, uint32_t domain, const struct lx_id *anchor, struct lx_span cause,
                      struct lx_err *err)
{
	if (!g->doom && !(g->doom = lx_doom_new(DOOM_MAX))) {
		errno = ENOMEM;
		return lx_err_sys(err, "barriers");
	}
	lx_doom_bar(g->doom, domain, anchor, LX_SUPPRESSED, cause);
	g->sweep_due = true;
	return DONE;
}

int lx_group_wide(struct lx_group *g, const struct lx_id *parent, struct lx_span cause, bool *wide, struct lx_err *err)
{
	struct lx_cause c;
	*wide = false;
	if (lx_cause_read(cause, &c) < 0 || c.anchor_domain >= (uint32_t)g->conf.plan->n_domains)
		return DONE;
	int up = lx_plan_levels(g->conf.plan, g->parent_domain, (int)c.anchor_domain);
	if (up < 0 || c.anchor.n != g->id_len - (uint32_t)up)
		return DONE;
	*wide = memcmp(c.anchor.ord, parent->ord, c.anchor.n * sizeof(c.anchor.ord[0])) == 0;
	if (up == 0 && *wide)
		return DONE;
	return bar_others(g, c.anchor_domain, &c.anchor, cause, err);
}

/* What a child does to its parent before it is stored. DONE: nothing, store it. */
static int judge_child(struct lx_group *g, struct entry *e, const struct news *n, struct news *why, struct lx_err *err)
{
	bool wide = false;
	bool bad = failing(n->outcome);
	if (bad && lx_group_wide(g, n->id, n->body, &wide, err) < 0)
		return ERROR;
	if (wide || (bad && !g->tolerance.n))
		*why = lx_group_caused(g, e, LX_SUPPRESSED, n->body);
	else if (e->flags & HAS_CLOSE && n->number >= e->count)
		*why = lx_group_why_of(e, LX_FAILED, AS_CONFLICT, lx_group_beyond_text(g, n->number, e->count));
	else if (e->n == UINT32_MAX)
		*why = lx_group_why_of(e, LX_FAILED, AS_OVERSIZE,
		                       say(g, "over %u records of %s", UINT32_MAX, child_name(g)));
	else
		return DONE;
	why->number += bad;
	return CONFLICT;
}

static int store_child(struct lx_group *g, struct part *p, struct entry *e, struct news *n, struct lx_err *err)
{
	bool repeat = false;
	if (!(e->flags & ON_DISK)) {
		int rc = lx_group_place(g, p, e, n, &repeat);
		g->stats.duplicates += rc == DONE && repeat;
		return rc;
	}
	if (lx_group_append(g, p, e, n, err) < 0)
		return ERROR;
	e->n++;
	e->failed += failing(n->outcome);
	return DONE;
}

static int take_child(struct lx_group *g, struct part *p, struct entry *e, struct news *n, struct lx_err *err)
{
	struct news why;
	if (e->flags & DOOMED) {
		g->stats.discarded += n->fresh; /* read back: counted when it was doomed */
		return DONE;
	}
	int rc = judge_child(g, e, n, &why, err);
	if (rc == DONE) {
		rc = store_child(g, p, e, n, err);
		if (rc == CONFLICT)
			why = lx_group_why_of(e, LX_FAILED, AS_CONFLICT, lx_group_twice_text(g, n->number));
	}
	if (rc == CONFLICT) {
		rc = lx_group_fail(g, p, e, &why, err);
		g->stats.discarded += rc == DONE;
		return rc;
	}
	if (rc != DONE)
		return rc;
	n->placed = true;
	return react(g, p, e, err);
}

int lx_group_take(struct lx_group *g, struct part *p, struct entry *e, struct news *n, struct lx_err *err)
{
	if (n->placed)
		return react(g, p, e, err);
	switch (n->what) {
	case PARENT:
		return take_parent(g, p, e, n, err);
	case CHILD:
		return take_child(g, p, e, n, err);
	case CLOSE:
		return take_close(g, p, e, n, err);
	case WHY:
		break;
	}
	if (e->flags & DOOMED && (e->flags & DOOM_FAILED || n->outcome != LX_FAILED))
		return DONE;
	return lx_group_fail(g, p, e, n, err);
}

/* ---- barriers ---- */

static int take_queue(struct lx_group *g, struct lx_err *err);

static enum lx_outcome barred(struct lx_group *g, const struct lx_id *id, struct lx_span *cause)
{
	*cause = (struct lx_span){ 0 };
	if (!g->doom)
		return LX_PRESENT;
	return lx_doom_find(g->doom, g->conf.plan, (uint32_t)g->parent_domain, id, true, cause);
}

/* A parent that a barrier lies on or above leaves, now or when its record comes. */
int lx_group_bar(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err)
{
	struct lx_span cause;
	struct lx_id id = lx_group_id(g, e);
	enum lx_outcome as = e->flags & DOOMED ? LX_PRESENT : barred(g, &id, &cause);
	if (as == LX_PRESENT)
		return DONE;
	struct news why = lx_group_caused(g, e, as, cause);
	return lx_group_fail(g, p, e, &why, err);
}

static int bar_id(struct lx_group *g, const struct lx_id *id, struct lx_err *err)
{
	uint64_t hash = lx_id_hash(id);
	struct part *p = part_of(g, hash);
	for (;;) {
		struct entry *e = lx_group_find(g, p, id, hash);
		int rc = e ? lx_group_bar(g, p, e, err) : DONE;
		if (rc != NO_ROOM)
			return rc;
		if (lx_group_room(g, NULL, true, err) != DONE)
			return err->code ? ERROR : DONE; /* not barred now costs work only */
	}
}

/* Barriers above parents: look at every entry. Removing one moves others into its slot. */
static int sweep_part(struct lx_group *g, struct part *p, struct lx_err *err)
{
	for (uint32_t i = 0; i < p->n_slots;) {
		struct entry *e = lx_group_nth(g, p, i);
		uint32_t n = p->n;
		int rc = e ? lx_group_bar(g, p, e, err) : DONE;
		if (rc == ERROR)
			return ERROR;
		i += p->n == n;
	}
	return DONE;
}

static int sweep(struct lx_group *g, struct lx_err *err)
{
	g->sweep_due = false;
	g->since_sweep = 0;
	for (uint32_t i = 0; i < g->n_parts; i++)
		if (sweep_part(g, &g->parts[i], err) < 0)
			return ERROR;
	return DONE;
}

/* What a barrier learnt from r says about the one parent that r belongs to, and the one it names. */
static int bar_near(struct lx_group *g, const struct lx_rec *r, struct lx_err *e)
{
	const struct lx_plan *plan = g->conf.plan;
	struct lx_cause c;
	int d = r->kind == LX_CLOSE ? plan->domains[r->domain].parent : (int)r->domain;
	int down = lx_plan_levels(plan, d, g->parent_domain);
	if (down >= 0 && r->id.n == g->id_len + (uint32_t)down) {
		struct lx_id id = lx_id_parent(&r->id, (uint32_t)down);
		if (bar_id(g, &id, e) < 0)
			return -1;
	}
	if (!r->cause.p || lx_cause_read(r->cause, &c) < 0 || c.anchor_domain != (uint32_t)g->parent_domain ||
	    c.anchor.n != g->id_len)
		return 0;
	return bar_id(g, &c.anchor, e);
}

int lx_group_learn(struct lx_group *g, const struct lx_rec *r, struct lx_err *e)
{
	if (r->kind == LX_ITEM || r->domain >= (uint32_t)g->conf.plan->n_domains)
		return 0;
	if (take_queue(g, e) < 0)
		return -1;
	if (r->kind == LX_CLOSE && (int)r->domain == g->parent_domain && r->outcome == LX_PRESENT)
		return lx_done_total(g->done, &r->id, r->count, e);
	if (!g->doom && !(g->doom = lx_doom_new(DOOM_MAX))) {
		errno = ENOMEM;
		return lx_err_sys(e, "barriers");
	}
	lx_doom_learn(g->doom, g->conf.plan, r);
	if (lx_doom_empty(g->doom))
		return 0;
	g->sweep_due |= g->id_len > 1;
	return bar_near(g, r, e);
}

/* ---- the end ---- */

struct lx_span lx_group_incomplete(struct lx_group *g, const struct entry *e, uint64_t have, const uint64_t *missing,
                                   size_t n)
{
	if (!(e->flags & HAS_CLOSE))
		return say(g, "the close of its %s group never came; children seen: %llu", child_name(g), ULL(have));
	say(g, "%llu of %llu children missing:", ULL(e->count - have), ULL(e->count));
	for (size_t i = 0; i < n; i++)
		lx_buf_printf(&g->message, "%s %llu", i ? "," : "", ULL(missing[i]));
	if (e->count - have > n)
		lx_buf_str(&g->message, ", ...");
	return lx_buf_view(&g->message);
}

struct lx_span lx_group_orphan(struct lx_group *g, uint64_t have)
{
	return say(g, "its %s record never came; children seen: %llu", parent_name(g), ULL(have));
}

static size_t first_missing(struct lx_group *g, struct entry *e, uint64_t missing[LX_GROUP_NAMED])
{
	uint32_t have = lx_group_sort(g, e), at = 0;
	const lx_ref *kids = have ? lx_slab_at(&g->slab, e->kids) : NULL;
	size_t n = 0;
	for (uint64_t o = 0; o < e->count && n < LX_GROUP_NAMED; o++) {
		if (at < have && lx_group_at(g, kids[at])->number == o)
			at++;
		else
			missing[n++] = o;
	}
	return n;
}

int lx_group_judge(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err)
{
	uint64_t missing[LX_GROUP_NAMED];
	struct news why;
	if (!(e->flags & HAS_PARENT))
		why = lx_group_why_of(e, LX_FAILED, AS_ORPHAN, lx_group_orphan(g, e->n));
	else
		why = lx_group_why_of(e, LX_FAILED, AS_INCOMPLETE,
		                      lx_group_incomplete(g, e, e->n, missing,
		                                          e->flags & HAS_CLOSE ? first_missing(g, e, missing) : 0));
	return lx_group_leave_as(g, p, e, &why, err);
}

static int judge_all(struct lx_group *g, struct part *p, struct lx_err *err)
{
	struct entry *e;
	for (uint32_t i = 0; i < p->n_slots;) {
		if (!(e = lx_group_nth(g, p, i)))
			i++;
		else if (lx_group_judge(g, p, e, err) != DONE)
			return ERROR;
	}
	return DONE;
}

int lx_group_end(struct lx_group *g, struct lx_err *e)
{
	if (take_queue(g, e) < 0)
		return -1;
	if (g->sweep_due && sweep(g, e) < 0)
		return -1;
	g->ending = true;
	for (uint32_t i = 0; i < g->n_parts; i++)
		if (!g->parts[i].disk && judge_all(g, &g->parts[i], e) < 0)
			return -1;
	for (uint32_t i = 0; i < g->n_parts; i++)
		if (g->parts[i].disk && lx_group_read_back(g, &g->parts[i], true, e) < 0)
			return -1;
	return 0;
}

/* What is complete on disk too; `all_of_it`: even where that reads much for little. */
static int settle_complete(struct lx_group *g, bool all_of_it, struct lx_err *e)
{
	if (take_queue(g, e) < 0 || (g->sweep_due && sweep(g, e) < 0))
		return -1;
	for (uint32_t i = 0; i < g->n_parts; i++) {
		struct part *p = &g->parts[i];
		if (!p->disk)
			continue;
		bool whole = p->blind && all_of_it;
		if ((whole ? lx_group_read_back(g, p, false, e) : lx_group_idle_part(g, p, e)) < 0)
			return -1;
	}
	return 0;
}

int lx_group_idle(struct lx_group *g, struct lx_err *e)
{
	return settle_complete(g, false, e);
}

int lx_group_flush(struct lx_group *g, struct lx_err *e)
{
	return settle_complete(g, true, e);
}

/* ---- records in ---- */

static bool keeps(const struct lx_group *g, struct lx_span name)
{
	for (const char *const *k = g->conf.keep; *k; k++)
		if (lx_span_eq(name, lx_span_str(*k)))
			return true;
	return false;
}

static uint32_t count_kept(const struct lx_group *g, struct lx_cur c, uint32_t n)
{
	struct lx_val name;
	uint32_t kept = 0;
	for (uint32_t i = 0; i < n && lx_val_read(&c, &name) == 0; i++) {
		kept += keeps(g, name.s);
		lx_val_skip(&c, NULL);
	}
	return kept;
}

/* Leave out the fields that nobody wants; a digest of all of them tells repeats from contradictions. */
static int cut_fields(struct lx_group *g, struct news *n, struct lx_err *err)
{
	struct lx_cur c = lx_cur(n->body);
	struct lx_val head, name;
	struct lx_buf *b = &g->cut;
	if (lx_val_read(&c, &head) < 0)
		return lx_err_set(err, LX_DATA, "fields are not a map");
	uint32_t kept = count_kept(g, c, head.n);
	if (kept == head.n)
		return 0;
	uint64_t digest = XXH3_64bits(n->body.p, n->body.len);
	lx_buf_clear(b);
	lx_buf_add(b, &digest, sizeof(digest));
	lx_pack_map(b, kept);
	for (uint32_t i = 0; i < head.n; i++) {
		const uint8_t *pair = c.p;
		if (lx_val_read(&c, &name) < 0 || lx_val_skip(&c, NULL) < 0)
			return lx_err_set(err, LX_DATA, "fields are damaged");
		if (keeps(g, name.s))
			lx_buf_add(b, pair, (size_t)(c.p - pair));
	}
	n->cut = true;
	n->body = lx_buf_view(b);
	return lx_buf_check(b, err);
}

static int read_news(struct lx_group *g, const struct lx_rec *r, struct lx_id *id, struct news *n, struct lx_err *err)
{
	bool parent = (int)r->domain == g->parent_domain && r->kind != LX_CLOSE;
	*n = (struct news){ .outcome = r->outcome, .fresh = true, .id = id };
	if (!parent && (int)r->domain != g->conf.domain)
		return lx_err_set(err, LX_DATA, "a record of domain %u in a regrouping of domain %d", r->domain,
		                  g->conf.domain);
	id->n = r->id.n - (!parent && r->kind != LX_CLOSE);
	for (uint32_t i = 0; i < id->n; i++)
		id->ord[i] = r->id.ord[i];
	if (id->n != g->id_len || r->raw.len > UINT32_MAX / 2)
		return lx_err_set(err, LX_DATA,
		                  "an id of %u numbers or a record of %zu bytes, which cannot be regrouped", r->id.n,
		                  r->raw.len);
	n->hash = lx_id_hash(id);
	if (parent) {
		n->what = PARENT;
		n->body = r->raw;
	} else if (r->kind == LX_CLOSE) {
		n->what = CLOSE;
		n->number = r->count;
		n->body = r->cause;
	} else {
		n->what = CHILD;
		n->number = lx_id_ordinal(&r->id);
		n->flat = r->flat;
		n->body = r->kind == LX_ITEM ? r->fields : r->outcome == LX_DROPPED ? (struct lx_span){ 0 } : r->cause;
		if (r->kind == LX_ITEM && g->conf.keep)
			return cut_fields(g, n, err);
	}
	return 0;
}

static void tell_late(struct lx_group *g, const struct news *n)
{
	struct lx_rec r = { .kind = n->what == CLOSE ? LX_CLOSE : n->outcome == LX_PRESENT ? LX_ITEM : LX_GONE,
			    .domain = (uint32_t)(n->what == PARENT ? g->parent_domain : g->conf.domain),
			    .outcome = n->outcome };
	r.id = n->what == CHILD ? lx_id_child(n->id, n->number) : *n->id;
	if (g->conf.late)
		g->conf.late(g->conf.ctx, &r);
}

/* The parent has left. */
static int too_late(struct lx_group *g, const struct news *n, enum lx_done_state left)
{
	g->stats.discarded += n->what == CHILD;
	g->stats.repeats += n->what == PARENT;
	if (left == LX_DONE_YES) {
		g->stats.late++;
		tell_late(g, n);
	}
	return DONE;
}

/* A present parent that is barred and holds nothing. */
static int leave_barred(struct lx_group *g, const struct news *n, enum lx_outcome as, struct lx_span cause,
                        struct lx_err *err)
{
	struct lx_settled s = { .id = *n->id, .outcome = as_caused(g, n->id, as, cause), .cause = cause };
	if (parse_parent(g, n->body, &s.parent, err) < 0)
		return ERROR;
	g->stats.parents_in++;
	return leave(g, NULL, NULL, &s, err);
}

/* News of a parent that has no entry. */
static int first_news(struct lx_group *g, struct part *p, struct news *n, struct lx_err *err)
{
	struct lx_span cause;
	enum lx_done_state left = lx_done_has(g->done, n->id);
	if (left != LX_DONE_NO)
		return too_late(g, n, left);
	if (n->what == PARENT && n->outcome != LX_PRESENT)
		return pass_parent(g, p, NULL, n, err);
	enum lx_outcome as = barred(g, n->id, &cause);
	if (as != LX_PRESENT && n->what == PARENT)
		return leave_barred(g, n, as, cause, err);
	if (p->disk)
		lx_group_limit_counters(g, NULL);
	if (p->blind) {
		g->stats.parents_in += n->what == PARENT;
		return lx_group_append(g, p, NULL, n, err);
	}
	struct entry *e = lx_group_entry(g, p, n->id, n->hash);
	if (!e)
		return NO_ROOM;
	e->flags = p->disk ? ON_DISK : 0;
	if (as != LX_PRESENT) {
		struct news why = lx_group_caused(g, e, as, cause);
		int rc = lx_group_fail(g, p, e, &why, err);
		g->sweep_due |= rc == NO_ROOM;
		if (rc != DONE)
			return rc;
	}
	return lx_group_take(g, p, e, n, err);
}

/* The memory is full: evict something, as a last resort what the news is for. */
static int make_room(struct lx_group *g, struct part *p, struct lx_err *err)
{
	int rc = lx_group_room(g, NULL, true, err);
	return rc == NO_ROOM ? lx_group_give_up(g, p, err) : rc;
}

static int take_in(struct lx_group *g, struct news *n, struct lx_err *err)
{
	struct part *p = part_of(g, n->hash);
	if (g->sweep_due && ++g->since_sweep > g->entries && sweep(g, err) < 0)
		return ERROR;
	if (n->body.len > g->big / 2 && !p->disk && lx_group_evict(g, p, err) < 0)
		return ERROR;
	for (;;) {
		struct entry *e = lx_group_find(g, p, n->id, n->hash);
		int rc = e ? lx_group_take(g, p, e, n, err) : n->placed ? DONE : first_news(g, p, n, err);
		if (rc == NO_ROOM)
			rc = make_room(g, p, err) == DONE ? NO_ROOM : ERROR;
		if (rc == ERROR)
			return ERROR;
		if (rc == DONE)
			break;
	}
	if (g->stats.peak_bytes < g->slab.used)
		g->stats.peak_bytes = g->slab.used;
	return p->disk ? lx_group_maybe_read(g, p, err) : DONE;
}

/* With very many parents every look at one waits for memory. A few records are kept back, so that those waits overlap. */
static int take_queue(struct lx_group *g, struct lx_err *err)
{
	unsigned n = g->n_queue;
	struct entry *e[LX_GROUP_AHEAD];
	g->n_queue = 0;
	for (unsigned i = 0; i < n; i++)
		e[i] = lx_group_prefetch_entry(g, part_of(g, g->queue[i].n.hash), g->queue[i].n.hash);
	for (unsigned i = 0; i < n; i++)
		if (e[i] && g->queue[i].n.what == CHILD)
			lx_group_prefetch_kid(g, e[i], g->queue[i].n.number);
	for (unsigned i = 0; i < n; i++)
		if (take_in(g, &g->queue[i].n, err) < 0)
			return ERROR;
	lx_buf_clear(&g->queue_bytes);
	return DONE;
}

static int enqueue(struct lx_group *g, const struct news *n, struct lx_err *err)
{
	struct queued *q = &g->queue[g->n_queue];
	struct lx_buf *b = &g->queue_bytes;
	if (!b->cap && !lx_buf_room(b, LX_GROUP_QUEUE))
		return lx_buf_check(b, err);
	q->n = *n;
	q->n.id = &q->id;
	q->id.n = n->id->n;
	memcpy(q->id.ord, n->id->ord, n->id->n * sizeof(q->id.ord[0]));
	if (n->body.p) {
		q->n.body.p = b->p + b->len;
		lx_buf_span(b, n->body);
	}
	lx_group_prefetch_slot(g, part_of(g, n->hash), n->hash);
	return ++g->n_queue == LX_GROUP_AHEAD ? take_queue(g, err) : DONE;
}

int lx_group_add(struct lx_group *g, const struct lx_rec *r, struct lx_err *e)
{
	struct lx_id id;
	struct news n;
	if (read_news(g, r, &id, &n, e) < 0)
		return -1;
	g->stats.children += n.what == CHILD;
	bool fits = n.body.len <= LX_GROUP_QUEUE - g->queue_bytes.len;
	if (fits && (g->n_queue || g->entries > LX_GROUP_MANY))
		return enqueue(g, &n, e);
	return take_queue(g, e) < 0 ? -1 : take_in(g, &n, e);
}

/* ---- children out ---- */

void lx_group_rewind(struct lx_group *g)
{
	g->now.child = g->now.failed = 0;
	g->now.big_child = g->now.big_failed = 0;
}

/* The next child in memory from *at on, of a kind. */
static struct cell *next_kid(const struct lx_group *g, uint32_t *at, bool present)
{
	const lx_ref *kids = lx_slab_at(&g->slab, g->now.e->kids);
	while (*at < g->now.n) {
		struct cell *c = lx_group_at(g, kids[(*at)++]);
		if (present ? c->outcome == LX_PRESENT : failing(c->outcome))
			return c;
	}
	return NULL;
}

int lx_group_child(struct lx_group *g, struct lx_rec *child, struct lx_err *e)
{
	struct lx_span body;
	struct cell head, *c = &head;
	if (!g->now.e)
		return 0;
	if (g->now.big.on) {
		int rc = lx_group_big_next(g, &g->now.big_child, true, &head, &body, e);
		if (rc <= 0)
			return rc;
	} else if (!(c = next_kid(g, &g->now.child, true))) {
		return 0;
	} else {
		body = (struct lx_span){ cell_body(c), c->len };
	}
	if (c->cut)
		body = (struct lx_span){ body.p + sizeof(uint64_t), body.len - sizeof(uint64_t) };
	child->kind = LX_ITEM;
	child->outcome = LX_PRESENT;
	child->domain = (uint32_t)g->conf.domain;
	child->count = 0;
	child->raw = child->cause = child->key = (struct lx_span){ 0 };
	child->fields = body;
	child->flat = c->flat;
	child->id.n = g->id_len + 1;
	memcpy(child->id.ord, g->now.e->ord, g->id_len * sizeof(child->id.ord[0]));
	child->id.ord[g->id_len] = c->number;
	return 1;
}

int lx_group_missing(struct lx_group *g, uint64_t *ordinal, struct lx_span *type, struct lx_err *e)
{
	struct lx_span body;
	struct cell head, *c = &head;
	struct lx_cause cause;
	if (!g->now.e || !g->now.e->failed)
		return 0;
	if (g->now.big.on) {
		int rc = lx_group_big_next(g, &g->now.big_failed, false, &head, &body, e);
		if (rc <= 0)
			return rc;
	} else if (!(c = next_kid(g, &g->now.failed, false))) {
		return 0;
	} else {
		body = (struct lx_span){ cell_body(c), c->len };
	}
	*ordinal = c->number;
	*type = lx_cause_read(body, &cause) < 0 ? lx_span_str("unknown") : cause.type;
	return 1;
}

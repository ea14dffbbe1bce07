#include "group-int.h"

#include <errno.h>

#define SPLIT_LOG2 4
#define SPLIT (1u << SPLIT_LOG2)
#define LEVELS_MAX 6 /* splits of one partition by further hash bits */
#define FETCH_NS 1500 /* one record by its place: a system call */
#define READ_NS 2     /* a byte of a chain read in a row, or copied to stay there */

/* ---- places in a chain: 48 bits ---- */

static uint64_t last_of(const struct entry *e)
{
	return (uint64_t)e->last_hi << 32 | e->last_lo;
}

static void set_last(struct entry *e, uint64_t pos)
{
	e->last_lo = (uint32_t)pos;
	e->last_hi = (uint16_t)(pos >> 32);
}

uint64_t lx_group_parent_pos(const struct entry *e)
{
	return (uint64_t)e->parent_hi << 32 | e->parent_lo;
}

void lx_group_set_parent(struct entry *e, uint64_t pos)
{
	e->parent_lo = (uint32_t)pos;
	e->parent_hi = (uint16_t)(pos >> 32);
}

static uint64_t bytes_of(const struct entry *e)
{
	return (uint64_t)e->units * LX_SLAB_UNIT;
}

static void add_bytes(struct entry *e, uint64_t bytes)
{
	uint64_t units = e->units + (bytes + LX_SLAB_UNIT - 1) / LX_SLAB_UNIT;
	e->units = units > UINT32_MAX ? UINT32_MAX : (uint32_t)units;
}

/* What only an entry in memory, or only one on disk, has. */
static void clear_place(struct entry *e)
{
	e->kids = e->parent = e->why = e->unread = 0;
}

/* ---- records in a chain ---- */

static int put(struct lx_group *g, struct lx_chain *c, uint64_t prev, const struct cell *cell, const uint64_t *ord,
               const uint8_t *body, struct lx_err *err)
{
	struct stored s = { prev, *cell };
	size_t ids = g->id_len * sizeof(*ord), all = sizeof(s) + ids + cell->len;
	uint8_t *to = lx_chain_room(&g->spill, c, all);
	if (to) {
		memcpy(to, &s, sizeof(s));
		memcpy(to + sizeof(s), ord, ids);
		if (cell->len)
			memcpy(to + sizeof(s) + ids, body, cell->len);
		c->fill += (uint32_t)all;
		c->bytes += all;
		return DONE;
	}
	if (lx_chain_add(&g->spill, c, &s, sizeof(s), err) < 0 ||
	    lx_chain_add(&g->spill, c, ord, ids, err) < 0 ||
	    lx_chain_add(&g->spill, c, body, cell->len, err) < 0)
		return ERROR;
	return DONE;
}

/* Append and let the entry know. A doomed one is only its last `why`. */
static int put_linked(struct lx_group *g, struct lx_chain *c, struct entry *e, const struct cell *cell,
                      const uint8_t *body, struct lx_err *err)
{
	uint64_t pos = lx_chain_pos(&g->spill, c, err);
	if (!pos || put(g, c, cell->what == WHY ? 0 : last_of(e), cell, e->ord, body, err) < 0)
		return ERROR;
	set_last(e, pos);
	if (cell->what == PARENT)
		lx_group_set_parent(e, pos);
	add_bytes(e, stored_head(g) + cell->len);
	return DONE;
}

int lx_group_append(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, struct lx_err *err)
{
	struct cell c = cell_of(n);
	uint64_t size = stored_head(g) + c.len;
	g->appended += size;
	if (e) {
		p->ready += e->flags & READY ? size : 0;
		return put_linked(g, &p->chain, e, &c, n->body.p, err);
	}
	p->unseen += size;
	p->owed_children += n->what == CHILD;
	p->owed_parents += n->what == PARENT;
	return put(g, &p->chain, 0, &c, n->id->ord, n->body.p, err);
}

int lx_group_stored(struct lx_group *g, const struct lx_chain *c, uint64_t pos, struct stored *s, struct lx_buf *into,
                    struct lx_err *err)
{
	uint8_t head[LX_GROUP_STORED_MAX];
	if (lx_chain_read(&g->spill, c, pos, head, stored_head(g), err) < 0)
		return ERROR;
	memcpy(s, head, sizeof(*s));
	lx_buf_clear(into);
	if (!lx_buf_room(into, s->cell.len + 1u))
		return lx_buf_check(into, err);
	into->len = s->cell.len;
	if (!s->cell.len)
		return DONE;
	return lx_chain_read_behind(&g->spill, c, pos, stored_head(g), into->p, s->cell.len, err);
}

int lx_group_next_stored(struct lx_group *g, struct lx_cursor *k, struct stored *s, struct lx_id *id,
                         struct lx_err *err)
{
	const uint8_t *p = lx_cursor_take(k, stored_head(g), err);
	if (!p)
		return ERROR;
	memcpy(s, p, sizeof(*s));
	id->n = g->id_len;
	memcpy(id->ord, p + sizeof(*s), g->id_len * sizeof(id->ord[0]));
	return DONE;
}

static struct news news_of(const struct cell *c, const uint8_t *body)
{
	return (struct news){
		.what = c->what, .outcome = c->outcome, .judged = c->judged, .cut = c->cut, .flat = c->flat,
		.number = c->number, .body = { body, c->len },
	};
}

int lx_group_parent(struct lx_group *g, struct part *p, const struct entry *e, struct lx_span *raw, struct lx_err *err)
{
	struct stored s;
	if (!(e->flags & ON_DISK)) {
		struct cell *c = lx_group_at(g, e->parent);
		*raw = (struct lx_span){ cell_body(c), c->len };
		return DONE;
	}
	if (lx_group_stored(g, &p->chain, lx_group_parent_pos(e), &s, &g->parent_buf, err) < 0)
		return ERROR;
	*raw = lx_buf_view(&g->parent_buf);
	return DONE;
}

int lx_group_why(struct lx_group *g, struct part *p, const struct entry *e, struct news *why, struct lx_err *err)
{
	struct stored s;
	if (!(e->flags & ON_DISK)) {
		struct cell *c = lx_group_at(g, e->why);
		*why = news_of(c, cell_body(c));
		return DONE;
	}
	if (lx_group_stored(g, &p->chain, last_of(e), &s, &g->body, err) < 0)
		return ERROR;
	*why = news_of(&s.cell, g->body.p);
	return DONE;
}

/* ---- what seems complete, and what is garbage ---- */

void lx_group_mark_ready(struct lx_group *g, struct part *p, struct entry *e)
{
	e->flags |= READY;
	e->next_ready = p->first_ready;
	p->first_ready = lx_group_ref(g, e);
	p->n_ready++;
	p->ready += bytes_of(e);
}

static void unready(struct lx_group *g, struct part *p, struct entry *e)
{
	lx_ref ref = lx_group_ref(g, e), *at = &p->first_ready;
	if (!(e->flags & READY))
		return;
	while (*at != ref)
		at = &((struct entry *)lx_slab_at(&g->slab, *at))->next_ready;
	*at = e->next_ready;
	e->next_ready = 0;
	e->flags &= (uint16_t)~READY;
	p->n_ready--;
	p->ready -= p->ready < bytes_of(e) ? p->ready : bytes_of(e);
}

void lx_group_forget(struct lx_group *g, struct part *p, struct entry *e)
{
	unready(g, p, e);
	p->garbage += bytes_of(e);
	e->units = 0;
	clear_place(e);
}

/* ---- to disk ---- */

/* Everything held of one parent goes to a chain. */
static int spill_entry(struct lx_group *g, struct part *p, struct lx_chain *chain, struct entry *e, struct lx_err *err)
{
	struct entry was = *e;
	lx_ref first[2] = { was.parent, was.why };
	e->flags = (uint16_t)((e->flags | ON_DISK) & ~HASHED);
	e->units = 0;
	e->kids_log2 = 0;
	e->n += e->unread;
	clear_place(e);
	for (int i = 0; i < 2; i++) {
		struct cell *c = first[i] ? lx_group_at(g, first[i]) : NULL;
		if (c && put_linked(g, chain, e, c, cell_body(c), err) < 0)
			return ERROR;
	}
	struct cell close = { .number = was.count, .what = CLOSE };
	if ((e->flags & (HAS_CLOSE | DOOMED)) == HAS_CLOSE && put_linked(g, chain, e, &close, NULL, err) < 0)
		return ERROR;
	const lx_ref *kids = lx_slab_at(&g->slab, was.kids);
	for (uint32_t i = 0; was.kids_log2 && i < 1u << was.kids_log2; i++) {
		struct cell *c = kids[i] ? lx_group_at(g, kids[i]) : NULL;
		if (c && put_linked(g, chain, e, c, cell_body(c), err) < 0)
			return ERROR;
	}
	lx_group_drop_cells(g, p, &was);
	return DONE;
}

static int evict(struct lx_group *g, struct part *p, const struct part *spare, struct lx_err *err)
{
	p->disk = true;
	for (uint32_t i = 0; i < p->n_slots; i++) {
		struct entry *e = lx_group_nth(g, p, i);
		if (e && spill_entry(g, p, &p->chain, e, err) < 0)
			return ERROR;
	}
	g->appended += p->chain.bytes;
	lx_group_limit_counters(g, spare);
	return DONE;
}

int lx_group_evict(struct lx_group *g, struct part *p, struct lx_err *err)
{
	return p->disk ? DONE : evict(g, p, NULL, err);
}

static void go_blind(struct lx_group *g, struct part *p)
{
	for (uint32_t i = 0; i < p->n_slots; i++) {
		struct entry *e = lx_group_nth(g, p, i);
		p->owed_children += e ? e->n : 0;
		p->owed_parents += e && e->flags & HAS_PARENT;
	}
	lx_group_remove_all(g, p);
	p->blind = true;
	p->unseen = p->chain.bytes;
	p->ready = p->garbage = 0;
	p->first_ready = 0;
	p->n_ready = 0;
}

void lx_group_limit_counters(struct lx_group *g, const struct part *spare)
{
	if (g->entries * (2 * sizeof(struct entry)) < g->budget / 2)
		return;
	for (;;) {
		uint64_t all = 0, most = 0;
		struct part *p = NULL;
		for (uint32_t i = 0; i < g->n_parts; i++) {
			struct part *q = &g->parts[i];
			uint64_t bytes = q->disk && !q->blind ? lx_group_table_bytes(g, q) : 0;
			all += bytes;
			if (q == spare || bytes <= most)
				continue;
			most = bytes;
			p = q;
		}
		if (all <= g->budget / 2 || !p)
			return;
		go_blind(g, p);
	}
}

int lx_group_room(struct lx_group *g, const struct part *spare, bool may_blind, struct lx_err *err)
{
	struct part *held = NULL, *counted = NULL;
	for (uint32_t i = 0; i < g->n_parts; i++) {
		struct part *p = &g->parts[i];
		if (p == spare)
			continue;
		if (!p->disk && p->held && (!held || p->held > held->held))
			held = p;
		if (p->disk && !p->blind && p->n && (!counted || p->n > counted->n))
			counted = p;
	}
	if (g->stats.peak_bytes < g->slab.used)
		g->stats.peak_bytes = g->slab.used;
	if (held)
		return evict(g, held, spare, err);
	if (!counted || !may_blind)
		return NO_ROOM;
	go_blind(g, counted);
	return DONE;
}

int lx_group_give_up(struct lx_group *g, struct part *p, struct lx_err *err)
{
	if (!p->disk)
		return evict(g, p, NULL, err);
	if (!p->blind) {
		go_blind(g, p);
		return DONE;
	}
	errno = ENOMEM;
	return lx_err_sys(err, "regrouping in %llu bytes (--mem)", ULL(g->conf.mem));
}

/* ---- one parent, by the links between its records ---- */

/* Whether it is complete, doomed or contradictory once repeats are merged: what `fetch` found. */
static int fetch_one(struct lx_group *g, struct part *p, struct entry *e, const struct stored *s, struct lx_err *err)
{
	struct news n = news_of(&s->cell, g->body.p);
	for (;;) {
		bool repeat;
		int rc = DONE;
		if (n.what == PARENT)
			rc = (e->parent = lx_group_cell(g, p, e, &n)) ? DONE : NO_ROOM;
		else if (n.what == CHILD)
			rc = lx_group_place(g, p, e, &n, &repeat);
		if (rc != NO_ROOM)
			return rc;
		rc = lx_group_room(g, p, false, err);
		if (rc != DONE)
			return rc;
	}
}

static int fetch(struct lx_group *g, struct part *p, struct entry *e, uint64_t pos, uint64_t *ordinal,
                 struct lx_err *err)
{
	struct stored s;
	for (; pos; pos = s.prev) {
		if (lx_group_stored(g, &p->chain, pos, &s, &g->body, err) < 0)
			return ERROR;
		*ordinal = s.cell.number;
		int rc = fetch_one(g, p, e, &s, err);
		if (rc != DONE)
			return rc;
	}
	return DONE;
}

static struct lx_span keep_text(struct lx_group *g, struct lx_span s)
{
	lx_buf_clear(&g->other);
	lx_buf_span(&g->other, s);
	return lx_buf_view(&g->other);
}

int lx_group_verify(struct lx_group *g, struct part *p, struct entry *e, struct lx_err *err)
{
	unready(g, p, e);
	if (bytes_of(e) > g->big)
		return lx_group_big(g, p, e, &p->chain, false, err);
	struct entry was = *e;
	uint64_t ordinal = 0;
	clear_place(e);
	e->flags &= (uint16_t)~ON_DISK;
	e->n = e->failed = e->units = 0;
	int rc = fetch(g, p, e, last_of(&was), &ordinal, err);
	if (rc == ERROR)
		return ERROR;
	if (rc == DONE && lx_group_known(e) && e->n == e->count && !lx_group_over(g, e) &&
	    !lx_group_beyond(g, e, e->count, &ordinal)) {
		p->garbage += bytes_of(&was);
		g->stats.duplicates += was.n - e->n;
		return lx_group_present(g, p, e, err);
	}
	struct news why = { .what = CHILD };
	if (rc == CONFLICT)
		why = lx_group_why_of(&was, LX_FAILED, AS_CONFLICT, lx_group_twice_text(g, ordinal));
	else if (rc == DONE && e->flags & HAS_CLOSE && lx_group_beyond(g, e, e->count, &ordinal))
		why = lx_group_why_of(&was, LX_FAILED, AS_CONFLICT, lx_group_beyond_text(g, ordinal, e->count));
	else if (rc == DONE && lx_group_over(g, e))
		why = lx_group_caused(g, e, LX_SUPPRESSED, keep_text(g, lx_group_lowest(g, e)));
	lx_group_drop_cells(g, p, e);
	*e = was;
	if (rc == NO_ROOM)
		return lx_group_big(g, p, e, &p->chain, false, err);
	if (why.what == WHY)
		return lx_group_fail(g, p, e, &why, err);
	e->flags |= DOUBT;
	return DONE;
}

/* ---- reading a chain back ---- */

struct pass {
	bool all;  /* nothing more will come: what is read is settled one way or another */
	bool keep; /* what stays incomplete stays in memory */
	unsigned level;
	uint64_t mask, value; /* the entries this chain holds: (hash & mask) == value */
};

static uint64_t hash_of(const struct lx_group *g, const struct entry *e)
{
	struct lx_id id = lx_group_id(g, e);
	return lx_id_hash(&id);
}

static unsigned shift_of(const struct lx_group *g, unsigned level)
{
	return 64 - g->parts_log2 - SPLIT_LOG2 * (level + 1);
}

/* Choose what to read; the rest is copied, and linked anew as it goes. Returns the bytes chosen. */
static uint64_t choose(struct lx_group *g, struct part *p, bool every)
{
	uint64_t live = 0;
	for (uint32_t i = 0; i < p->n_slots; i++) {
		struct entry *e = lx_group_nth(g, p, i);
		if (!e)
			continue;
		if (every || e->flags & (READY | LOADING)) {
			e->flags |= LOADING;
			live += bytes_of(e);
		} else {
			e->units = 0;
			clear_place(e);
		}
		e->flags &= (uint16_t)~READY;
		e->next_ready = 0;
	}
	p->ready = p->garbage = 0;
	p->first_ready = 0;
	p->n_ready = 0;
	return live;
}

/* Memory that reading back can have, if everything else that can be evicted is. */
static uint64_t load_most(const struct lx_group *g)
{
	uint64_t tables = 0;
	for (uint32_t i = 0; i < g->n_parts; i++)
		tables += lx_group_table_bytes(g, &g->parts[i]);
	return tables >= g->budget ? 0 : (g->budget - tables) / 4 * 3;
}

/* The entry becomes one in memory, to be filled again by its records. */
static void begin_load(struct entry *e)
{
	uint32_t unread = e->n;
	e->flags = LOADING;
	e->n = e->failed = e->units = 0;
	e->count = 0;
	clear_place(e);
	e->unread = unread;
}

/* A record that no longer matters: its parent is doomed, and it is not the reason. */
static bool is_moot(const struct entry *e, const struct stored *s)
{
	return e->flags & DOOMED && s->cell.what != WHY && !(s->cell.what == PARENT && e->flags & LOADING);
}

static int copy_on(struct lx_group *g, struct part *p, struct lx_cursor *k, struct entry *e, const struct stored *s,
                   struct lx_err *err)
{
	const uint8_t *body = lx_cursor_take(k, s->cell.len, err);
	return body ? put_linked(g, &p->chain, e, &s->cell, body, err) : ERROR;
}

/* Memory is full in the middle: what was read so far goes out again, to be split. */
static int overflow(struct lx_group *g, struct part *p, struct lx_chain *to, struct lx_err *err)
{
	for (uint32_t i = 0; i < p->n_slots; i++) {
		struct entry *e = lx_group_nth(g, p, i);
		if (!e || !(e->flags & LOADING))
			continue;
		if (e->flags & ON_DISK) {
			e->units = 0;
			clear_place(e);
		} else if (spill_entry(g, p, to, e, err) < 0) {
			return ERROR;
		}
	}
	return DONE;
}

/* One record of a chosen entry. NO_ROOM: nothing was done. */
static int load_one(struct lx_group *g, struct part *p, struct entry *e, const struct stored *s, struct lx_id *id,
                    const uint8_t *body, struct lx_err *err)
{
	struct news n = news_of(&s->cell, body);
	n.id = id;
	n.hash = lx_id_hash(id);
	if (e->flags & ON_DISK)
		begin_load(e);
	if (n.what == CHILD && e->unread)
		e->unread--;
	for (;;) {
		int rc = lx_group_take(g, p, e, &n, err);
		if (rc != NO_ROOM)
			return rc;
		rc = lx_group_room(g, p, false, err);
		if (rc == NO_ROOM && n.what == CHILD && !n.placed)
			e->unread++;
		if (rc != DONE)
			return n.placed && rc == NO_ROOM ? DONE : rc;
	}
}

/* What was read and did not settle. */
static int leftover(struct lx_group *g, struct part *p, const struct pass *how, struct lx_err *err)
{
	for (uint32_t i = 0; i < p->n_slots;) {
		struct entry *e = lx_group_nth(g, p, i);
		int rc = DONE;
		if (!e || !(e->flags & LOADING) || e->flags & ON_DISK) {
			i++;
			continue;
		}
		e->flags &= (uint16_t)~LOADING;
		e->unread = 0;
		if (how->all)
			rc = lx_group_judge(g, p, e, err);
		else if (!how->keep)
			rc = spill_entry(g, p, &p->chain, e, err);
		if (rc != DONE)
			return ERROR;
		i += !how->all; /* a removed one leaves its slot to the next */
	}
	return DONE;
}

static int process(struct lx_group *g, struct part *p, struct lx_chain *from, uint64_t live, struct pass how,
                   bool must_split, struct lx_err *err);

/* Entries lie all over memory: touch those of the next records together, so that the waits overlap. */
static unsigned look_ahead(struct lx_group *g, struct part *p, const struct lx_cursor *k)
{
	size_t n, head = stored_head(g);
	const uint8_t *at = lx_cursor_ahead(k, &n);
	uint64_t hash[LX_GROUP_AHEAD], number[LX_GROUP_AHEAD];
	struct entry *e[LX_GROUP_AHEAD];
	unsigned seen = 0;
	for (; seen < LX_GROUP_AHEAD && n >= head; seen++) {
		struct stored s;
		struct lx_id id = { .n = g->id_len };
		memcpy(&s, at, sizeof(s));
		memcpy(id.ord, at + sizeof(s), head - sizeof(s));
		hash[seen] = lx_id_hash(&id);
		number[seen] = s.cell.number;
		lx_group_prefetch_slot(g, p, hash[seen]);
		size_t all = head + s.cell.len < n ? head + s.cell.len : n;
		at += all;
		n -= all;
	}
	for (unsigned i = 0; i < seen; i++)
		e[i] = lx_group_prefetch_entry(g, p, hash[i]);
	for (unsigned i = 0; i < seen; i++)
		if (e[i])
			lx_group_prefetch_kid(g, e[i], number[i]);
	return seen;
}

static int load_records(struct lx_group *g, struct part *p, struct lx_cursor *k, struct lx_chain *over,
                        struct lx_err *err)
{
	struct stored s;
	struct lx_id id;
	for (unsigned ahead = 0; k->left; ahead -= ahead > 0) {
		if (!ahead)
			ahead = look_ahead(g, p, k);
		if (lx_group_next_stored(g, k, &s, &id, err) < 0)
			return ERROR;
		struct entry *e = lx_group_find(g, p, &id, lx_id_hash(&id));
		if (!e || is_moot(e, &s)) {
			lx_cursor_skip(k, s.cell.len);
			continue;
		}
		if (!(e->flags & LOADING)) {
			if (copy_on(g, p, k, e, &s, err) < 0)
				return ERROR;
			continue;
		}
		const uint8_t *body = lx_cursor_take(k, s.cell.len, err);
		if (!body)
			return ERROR;
		int rc = over->bytes ? NO_ROOM : load_one(g, p, e, &s, &id, body, err);
		if (rc == NO_ROOM && !over->bytes && overflow(g, p, over, err) < 0)
			return ERROR;
		if (rc == NO_ROOM && put_linked(g, over, e, &s.cell, body, err) < 0)
			return ERROR;
		if (rc == ERROR)
			return ERROR;
	}
	return DONE;
}

static int load(struct lx_group *g, struct part *p, struct lx_chain *from, struct pass how, struct lx_err *err)
{
	struct lx_cursor k;
	struct lx_chain over = { 0 };
	if (lx_cursor_init(&k, &g->spill, from, true, err) < 0)
		return ERROR;
	int rc = load_records(g, p, &k, &over, err);
	lx_cursor_release(&k);
	how.keep &= !over.bytes;
	if (rc == DONE)
		rc = leftover(g, p, &how, err);
	if (rc == DONE && over.bytes)
		rc = process(g, p, &over, over.bytes, how, true, err);
	lx_chain_clear(&g->spill, &over);
	return rc;
}

static int split_records(struct lx_group *g, struct part *p, struct lx_cursor *k, struct lx_chain *subs, uint64_t *live,
                         unsigned shift, struct lx_err *err)
{
	struct stored s;
	struct lx_id id;
	while (k->left) {
		if (lx_group_next_stored(g, k, &s, &id, err) < 0)
			return ERROR;
		uint64_t hash = lx_id_hash(&id);
		struct entry *e = live ? lx_group_find(g, p, &id, hash) : NULL;
		if (live && (!e || is_moot(e, &s))) {
			lx_cursor_skip(k, s.cell.len);
			continue;
		}
		if (live && !(e->flags & LOADING)) {
			if (copy_on(g, p, k, e, &s, err) < 0)
				return ERROR;
			continue;
		}
		uint32_t i = hash >> shift & (SPLIT - 1);
		const uint8_t *body = lx_cursor_take(k, s.cell.len, err);
		if (!body || put(g, &subs[i], 0, &s.cell, id.ord, body, err) < 0)
			return ERROR;
		if (live)
			live[i] += stored_head(g) + s.cell.len;
	}
	return DONE;
}

/* Cut a chain into SPLIT ones by further hash bits. `live`: bytes that went to each; NULL: nothing is known of
 * the entries, everything goes. */
static int split(struct lx_group *g, struct part *p, struct lx_chain *from, struct lx_chain *subs, uint64_t *live,
                 unsigned level, struct lx_err *err)
{
	struct lx_cursor k;
	if (lx_cursor_init(&k, &g->spill, from, true, err) < 0)
		return ERROR;
	int rc = split_records(g, p, &k, subs, live, shift_of(g, level), err);
	lx_cursor_release(&k);
	for (uint32_t i = 0; rc == DONE && i < SPLIT; i++)
		rc = lx_chain_seal(&g->spill, &subs[i], err);
	return rc;
}

static void clear_subs(struct lx_group *g, struct lx_chain *subs)
{
	for (uint32_t i = 0; i < SPLIT; i++)
		lx_chain_clear(&g->spill, &subs[i]);
}

static struct pass pass_below(const struct lx_group *g, struct pass how, uint32_t i)
{
	unsigned shift = shift_of(g, how.level);
	how.mask |= (uint64_t)(SPLIT - 1) << shift;
	how.value |= (uint64_t)i << shift;
	how.level++;
	how.keep = false;
	return how;
}

/* Parents so large that they are not read as a whole, where they make up much of the chain. */
static int big_ones(struct lx_group *g, struct part *p, struct lx_chain *from, uint64_t *live, struct pass *how,
                    bool must_split, struct lx_err *err)
{
	bool any = how->level >= LEVELS_MAX && (must_split || *live > load_most(g));
	for (uint32_t i = 0; i < p->n_slots;) {
		struct entry *e = lx_group_nth(g, p, i);
		uint64_t bytes = e ? bytes_of(e) : 0;
		if (!e || (e->flags & (LOADING | ON_DISK | DOOMED)) != (LOADING | ON_DISK) ||
		    (hash_of(g, e) & how->mask) != how->value || !(any || (bytes > g->big && *live / 4 <= bytes))) {
			i++;
			continue;
		}
		uint32_t n = p->n;
		*live -= bytes < *live ? bytes : *live;
		e->units = 0;
		e->flags &= (uint16_t)~LOADING;
		if (lx_group_big(g, p, e, from, how->all, err) != DONE)
			return ERROR;
		if (p->n < n)
			continue; /* it left; another may have moved into its slot */
		how->keep = false; /* it stays on disk, and so does all else */
		if (!(e->flags & DOOMED))
			clear_place(e);
		i++;
	}
	return DONE;
}

/* Settle what can be settled of the chosen entries in a chain; consumes it. The rest goes to p's chain. */
static int process(struct lx_group *g, struct part *p, struct lx_chain *from, uint64_t live, struct pass how,
                   bool must_split, struct lx_err *err)
{
	struct lx_chain subs[SPLIT] = { 0 };
	uint64_t bytes[SPLIT] = { 0 };
	if (lx_chain_seal(&g->spill, from, err) < 0 || big_ones(g, p, from, &live, &how, must_split, err) != DONE)
		return ERROR;
	if (how.level >= LEVELS_MAX || !(must_split || live > load_most(g)))
		return load(g, p, from, how, err);
	int rc = split(g, p, from, subs, bytes, how.level, err);
	for (uint32_t i = 0; rc == DONE && i < SPLIT; i++)
		if (subs[i].bytes)
			rc = process(g, p, &subs[i], bytes[i], pass_below(g, how, i), false, err);
	clear_subs(g, subs);
	return rc;
}

/* ---- a partition without counters ---- */

static int count_one(struct lx_group *g, struct entry *e, const struct stored *s, const struct lx_id *id, uint64_t pos,
                     struct lx_span body, struct lx_err *err)
{
	const struct cell *c = &s->cell;
	bool wide = false;
	if (e->flags & DOOMED && c->what != WHY && c->what != PARENT)
		return DONE;
	add_bytes(e, stored_head(g) + c->len);
	switch ((enum what)c->what) {
	case PARENT:
		lx_group_set_parent(e, pos);
		e->flags |= HAS_PARENT | (e->flags & DOOMED ? LOADING : 0);
		break;
	case CLOSE:
		e->flags |= HAS_CLOSE | (e->flags & HAS_CLOSE && e->count != c->number ? LOADING : 0) |
		            (c->outcome != LX_PRESENT ? LOADING : 0);
		e->count = c->number;
		break;
	case WHY:
		e->flags |= DOOMED | (c->outcome == LX_FAILED ? DOOM_FAILED : 0);
		e->n = e->failed = 0;
		break;
	case CHILD:
		if (failing(c->outcome) && lx_group_wide(g, id, body, &wide, err) < 0)
			return ERROR;
		e->flags |= wide ? LOADING : 0;
		e->n++;
		e->failed += failing(c->outcome);
		break;
	}
	return DONE;
}

/* An entry for what is found; *e NULL: the parent has left. */
static int count_entry(struct lx_group *g, struct part *p, const struct lx_id *id, struct entry **e, struct lx_err *err)
{
	uint64_t hash = lx_id_hash(id);
	*e = lx_group_find(g, p, id, hash);
	if (*e || lx_done_has(g->done, id) != LX_DONE_NO)
		return DONE;
	if (lx_group_table_bytes(g, p) > g->budget / 4) /* and other counters half: a quarter is left to work in */
		return NO_ROOM;
	while (!(*e = lx_group_entry(g, p, id, hash))) {
		int rc = lx_group_room(g, p, true, err);
		if (rc != DONE)
			return rc;
	}
	(*e)->flags = ON_DISK;
	return DONE;
}

static int count_records(struct lx_group *g, struct part *p, struct lx_cursor *k, struct lx_err *err)
{
	struct stored s;
	struct lx_id id;
	struct entry *e;
	while (k->left) {
		uint64_t pos = lx_cursor_pos(k);
		if (lx_group_next_stored(g, k, &s, &id, err) < 0)
			return ERROR;
		int rc = count_entry(g, p, &id, &e, err);
		if (rc != DONE)
			return rc;
		struct lx_span body = { 0 };
		if (e && s.cell.what == CHILD && failing(s.cell.outcome)) {
			body = (struct lx_span){ lx_cursor_take(k, s.cell.len, err), s.cell.len };
			if (!body.p)
				return ERROR;
		} else {
			lx_cursor_skip(k, s.cell.len);
		}
		if (e && count_one(g, e, &s, &id, pos, body, err) < 0)
			return ERROR;
	}
	return DONE;
}

/* Close the books on what was counted: barriers, debts, what seems worth reading. */
static int counted(struct lx_group *g, struct part *p, struct lx_err *err)
{
	for (uint32_t i = 0; i < p->n_slots;) {
		struct entry *e = lx_group_nth(g, p, i);
		uint32_t n = p->n;
		if (e) {
			p->found_children += e->n;
			p->found_parents += (e->flags & HAS_PARENT) != 0;
			if ((lx_group_known(e) && e->n >= e->count) || lx_group_over(g, e))
				e->flags |= LOADING;
			if (g->doom && lx_group_bar(g, p, e, err) == ERROR)
				return ERROR;
		}
		i += p->n == n;
	}
	return DONE;
}

static int read_blind(struct lx_group *g, struct part *p, struct lx_chain *from, struct pass how, struct lx_err *err)
{
	struct lx_cursor k;
	if (lx_chain_seal(&g->spill, from, err) < 0 || lx_cursor_init(&k, &g->spill, from, false, err) < 0)
		return ERROR;
	int rc = count_records(g, p, &k, err);
	lx_cursor_release(&k);
	if (rc == DONE && (rc = counted(g, p, err)) == DONE)
		return process(g, p, from, choose(g, p, how.all), how, false, err);
	if (rc == ERROR)
		return ERROR;
	lx_group_remove_all(g, p);
	if (how.level >= LEVELS_MAX) {
		errno = ENOMEM;
		return lx_err_sys(err, "regrouping in %llu bytes (--mem)", ULL(g->conf.mem));
	}
	struct lx_chain subs[SPLIT] = { 0 };
	rc = split(g, p, from, subs, NULL, how.level, err);
	for (uint32_t i = 0; rc == DONE && i < SPLIT; i++) {
		if (subs[i].bytes)
			rc = read_blind(g, p, &subs[i], pass_below(g, how, i), err);
		if (p->n)
			go_blind(g, p);
	}
	clear_subs(g, subs);
	return rc;
}

static int resolve_blind(struct lx_group *g, struct part *p, bool all, struct lx_err *err)
{
	struct lx_chain from = p->chain;
	uint64_t children = p->owed_children, parents = p->owed_parents;
	p->chain = (struct lx_chain){ 0 };
	p->owed_children = p->owed_parents = p->found_children = p->found_parents = 0;
	int rc = read_blind(g, p, &from, (struct pass){ .all = all }, err);
	lx_chain_clear(&g->spill, &from);
	if (rc != DONE)
		return rc;
	/* What came for parents that left while nobody could tell. */
	g->stats.discarded += children - p->found_children;
	g->stats.parents_in -= parents - p->found_parents;
	g->stats.repeats += parents - p->found_parents;
	p->unseen = 0;
	p->blind = !p->n && p->chain.bytes;
	p->disk = p->chain.bytes;
	return DONE;
}

/* ---- when to read back ---- */

/* Whether what stays incomplete finds room in memory without evicting others. */
static bool can_keep(const struct lx_group *g, const struct part *p)
{
	uint64_t done = p->ready + p->garbage, rest = p->chain.bytes > done ? p->chain.bytes - done : 0;
	if (rest > (g->budget - g->slab.used) / 2)
		return false;
	for (uint32_t i = 0; i < p->n_slots; i++) {
		const struct entry *e = lx_group_nth(g, p, i);
		if (e && !(e->flags & READY) && bytes_of(e) > g->big)
			return false;
	}
	return true;
}

int lx_group_read_back(struct lx_group *g, struct part *p, bool all, struct lx_err *err)
{
	if (p->blind)
		return resolve_blind(g, p, all, err);
	struct pass how = { .all = all, .keep = !all && can_keep(g, p) };
	struct lx_chain from = p->chain;
	p->chain = (struct lx_chain){ 0 };
	int rc = p->n ? process(g, p, &from, choose(g, p, how.all || how.keep), how, false, err) : DONE;
	lx_chain_clear(&g->spill, &from);
	p->disk = p->chain.bytes;
	if (!p->n)
		p->garbage = 0;
	return rc;
}

/* Three quarters of what is read leave for good: all reading together is at most 4/3 of what came, and
 * so is all writing. */
int lx_group_maybe_read(struct lx_group *g, struct part *p, struct lx_err *err)
{
	if (p->blind || p->chain.bytes < 4 * (uint64_t)g->spill.block ||
	    4 * (p->ready + p->garbage) < 3 * p->chain.bytes)
		return DONE;
	return lx_group_read_back(g, p, false, err);
}

static uint64_t records_ready(const struct lx_group *g, const struct part *p)
{
	uint64_t n = 0;
	for (lx_ref r = p->first_ready; r;) {
		const struct entry *e = lx_slab_at(&g->slab, r);
		n += e->n + 2;
		r = e->next_ready;
	}
	return n;
}

/* The input is idle. Complete parents are fetched one by one, each record once, or with all of the chain where that is
 * cheaper. A blind chain is read as often as new bytes have paid for it. */
int lx_group_idle_part(struct lx_group *g, struct part *p, struct lx_err *err)
{
	if (p->blind) {
		if (!p->unseen || g->idle_read + p->chain.bytes > g->appended)
			return DONE;
		g->idle_read += p->chain.bytes;
		return lx_group_read_back(g, p, false, err);
	}
	if (!p->n_ready)
		return DONE;
	if (records_ready(g, p) * FETCH_NS > READ_NS * p->chain.bytes)
		return lx_group_read_back(g, p, false, err);
	while (p->first_ready)
		if (lx_group_verify(g, p, lx_slab_at(&g->slab, p->first_ready), err) != DONE)
			return ERROR;
	return lx_group_maybe_read(g, p, err);
}

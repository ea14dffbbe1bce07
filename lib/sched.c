#include "sched-int.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK (64u << 10)

int sched_oom(struct lx_err *e)
{
	return lx_err_set(e, LX_SYSTEM, "no memory for the scheduler");
}

/* ---- memory ---- */

void *sched_get(struct pool *p)
{
	void *x = p->free;
	if (x) {
		memcpy(&p->free, x, sizeof p->free);
	} else {
		if ((size_t)(p->end - p->at) < p->size) {
			char *c = malloc(CHUNK);
			if (!c)
				return NULL;
			memcpy(c, &p->chunks, sizeof p->chunks);
			p->chunks = c;
			p->at = c + 16;
			p->end = c + CHUNK;
		}
		x = p->at;
		p->at += p->size;
	}
	memset(x, 0, p->size);
	return x;
}

void sched_put(struct pool *p, void *x)
{
	memcpy(x, &p->free, sizeof p->free);
	p->free = x;
}

static void pool_free(struct pool *p)
{
	while (p->chunks) {
		void *next;
		memcpy(&next, p->chunks, sizeof next);
		free(p->chunks);
		p->chunks = next;
	}
}

/* ---- batches in lists ---- */

void batch_list_add(struct batch_list *l, struct batch *b)
{
	b->in = l;
	b->next = NULL;
	b->prev = l->tail;
	*(l->tail ? &l->tail->next : &l->head) = b;
	l->tail = b;
	l->n++;
}

void batch_list_add_front(struct batch_list *l, struct batch *b)
{
	b->in = l;
	b->prev = NULL;
	b->next = l->head;
	*(l->head ? &l->head->prev : &l->tail) = b;
	l->head = b;
	l->n++;
}

void batch_list_del(struct batch *b)
{
	struct batch_list *l = b->in;
	*(b->prev ? &b->prev->next : &l->head) = b->next;
	*(b->next ? &b->next->prev : &l->tail) = b->prev;
	l->n--;
	b->in = NULL;
}

/* ---- items at workers, by id ---- */

static inline uint64_t item_hash(const struct item *it)
{
	return sched_hash(it->node->hash, it->ordinal);
}

static int sent_grow(struct lx_sched *s)
{
	size_t size = s->sent_size ? s->sent_size * 2 : 1024;
	struct item **t = calloc(size, sizeof *t);
	if (!t)
		return -1;
	for (size_t i = 0; i < s->sent_size; i++) {
		for (struct item *it = s->sent[i], *next; it; it = next) {
			next = it->snext;
			struct item **to = &t[item_hash(it) & (size - 1)];
			it->snext = *to;
			*to = it;
		}
	}
	free(s->sent);
	s->sent = t;
	s->sent_size = size;
	return 0;
}

int sched_sent_add(struct lx_sched *s, struct item *it)
{
	if (s->sent_n >= s->sent_size && sent_grow(s) < 0)
		return -1;
	struct item **to = &s->sent[item_hash(it) & (s->sent_size - 1)];
	it->snext = *to;
	*to = it;
	s->sent_n++;
	return 0;
}

void sched_sent_del(struct lx_sched *s, struct item *it)
{
	struct item **at = &s->sent[item_hash(it) & (s->sent_size - 1)];
	while (*at != it)
		at = &(*at)->snext;
	*at = it->snext;
	it->snext = NULL;
	s->sent_n--;
}

/* Whether a node is the first `n` numbers of an id. */
static bool node_is(const struct node *n, const struct lx_id *id, uint32_t len)
{
	if (n->depth != len)
		return false;
	for (; len > 0; n = n->parent)
		if (n->ordinal != id->ord[--len])
			return false;
	return true;
}

static struct item *sent_find(const struct lx_sched *s, const struct worker *w, const struct lx_id *id, uint64_t *hash)
{
	uint64_t h = s->root->hash;
	for (uint32_t i = 0; i < id->n; i++)
		h = sched_hash(h, id->ord[i]);
	*hash = h;
	if (!s->sent_size || id->n != s->conf.levels)
		return NULL;
	for (struct item *it = s->sent[h & (s->sent_size - 1)]; it; it = it->snext)
		if (it->ordinal == id->ord[id->n - 1] && it->batch->worker == w && node_is(it->node, id, id->n - 1))
			return it;
	return NULL;
}

/* ---- life ---- */

static int check_conf(const struct lx_sched_conf *c, struct lx_err *e)
{
	if (c->levels < 1 || c->levels > LX_ID_MAX)
		return lx_err_set(e, LX_USAGE, "%u levels: an id has 1 to %d numbers", c->levels, LX_ID_MAX);
	if (c->max_items < 1)
		return lx_err_set(e, LX_USAGE, "a batch needs room for one item (-n)");
	return 0;
}

struct lx_sched *lx_sched_new(const struct lx_sched_conf *c, struct lx_err *e)
{
	if (check_conf(c, e) < 0)
		return NULL;
	struct lx_sched *s = calloc(1, sizeof *s);
	if (!s) {
		sched_oom(e);
		return NULL;
	}
	s->conf = *c;
	s->items.size = sizeof(struct item);
	s->nodes.size = sizeof(struct node);
	s->batches.size = sizeof(struct batch);
	s->alone_ns = LX_SCHED_NEVER;
	s->rng = c->seed * 2654435761u + 88172645463325252u;
	if (sched_tree_init(s) < 0) {
		lx_sched_free(s);
		sched_oom(e);
		return NULL;
	}
	return s;
}

void lx_sched_free(struct lx_sched *s)
{
	if (!s)
		return;
	sched_tree_clear(s);
	sched_pool_free(s);
	pool_free(&s->items);
	pool_free(&s->nodes);
	pool_free(&s->batches);
	free(s->tree);
	free(s->sent);
	free(s->bars);
	free(s->send);
	free(s);
}

void sched_give_up(struct lx_sched *s, const char *fmt, ...)
{
	if (s->dead)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof s->why, fmt, ap);
	va_end(ap);
	s->dead = true;
}

/* ---- events: input ---- */

void sched_end_item(struct lx_sched *s, struct item *it, enum lx_outcome as)
{
	it->as = as;
	it->node = NULL;
	list_add(&s->out, it);
}

static void received(struct lx_sched *s, struct node *n)
{
	s->stats.doom.parents += n->barred && !n->t.received; /* doomed before any child came */
	sched_tally(s, n, received);
}

/* Admit an item whose parent is known. */
static int admit(struct lx_sched *s, struct node *n, struct item *it)
{
	received(s, n);
	if (s->conf.order == LX_ORDER_FIXED) {
		if (sched_fixed_add(s, it) < 0)
			return -1;
	} else if (!n->barred) {
		sched_unsent_add(s, it);
		sched_queue_add(s, it);
	}
	if (n->barred) {
		sched_tally(s, n, never_sent);
		sched_end_item(s, it, n->barred);
		sched_node_rest(s, n);
	}
	return 0;
}

int lx_sched_item(struct lx_sched *s, const struct lx_arrival *a, uint64_t now_ns, struct lx_err *e)
{
	s->now = now_ns;
	struct node *n = sched_node(s, a->id, a->id->n - 1);
	struct item *it = n ? sched_get(&s->items) : NULL;
	if (!it)
		return sched_oom(e);
	it->node = n;
	it->data = a->data;
	it->ordinal = a->id->ord[a->id->n - 1];
	it->bytes = a->bytes;
	it->cost = a->cost;
	it->bucket = a->bucket;
	it->on[0] = it->on[1] = -1;
	s->held++;
	s->stats.items++;
	return admit(s, n, it) < 0 ? sched_oom(e) : 0;
}

bool lx_sched_full(const struct lx_sched *s)
{
	return s->stats.ready - s->forming_items >= s->conf.max_ready ||
	       s->stats.ready_bytes - s->forming_bytes >= s->conf.max_ready_bytes;
}

/* An item of the call's own domain that came non-present. */
static int gone_child(struct lx_sched *s, struct node *n, uint64_t ordinal, enum lx_outcome o)
{
	received(s, n);
	if (o == LX_DROPPED)
		sched_tally(s, n, dropped);
	else if (o == LX_FAILED)
		sched_tally(s, n, failed);
	else
		sched_tally(s, n, never_sent);
	return o == LX_DROPPED ? 0 : sched_bad(s, n, ordinal);
}

/* An item above the call's domain came non-present: nothing below it is worth doing. Its own node, or NULL. */
static struct node *gone_above(struct lx_sched *s, struct node *parent, const struct lx_id *id, enum lx_outcome o)
{
	if (o != LX_DROPPED && sched_bad(s, parent, id->ord[id->n - 1]) < 0)
		return NULL;
	struct node *n = sched_node(s, id, id->n);
	return n && sched_doom(s, n, o == LX_DROPPED ? LX_DROPPED : LX_SUPPRESSED, true) == 0 ? n : NULL;
}

int lx_sched_gone(struct lx_sched *s, const struct lx_id *id, enum lx_outcome o, uint32_t anchor_n, struct lx_err *e)
{
	struct node *n = sched_node(s, id, id->n - 1), *up = n;
	if (n && id->n == s->conf.levels)
		n = gone_child(s, n, id->ord[id->n - 1], o) < 0 ? NULL : n;
	else if (n)
		n = gone_above(s, n, id, o);
	if (!n)
		return sched_oom(e);
	if (anchor_n < id->n && anchor_n > 0) {
		while (up->depth > anchor_n)
			up = up->parent;
		if (sched_doom(s, up, LX_SUPPRESSED, true) < 0)
			return sched_oom(e);
	}
	sched_node_rest(s, n);
	return 0;
}

int lx_sched_close(struct lx_sched *s, const struct lx_id *parent, uint64_t count, enum lx_outcome o, struct lx_err *e)
{
	if (parent->n >= s->conf.levels)
		return 0;
	if (o != LX_PRESENT)
		return lx_sched_bar(s, parent, LX_SUPPRESSED, e);
	if (parent->n + 1 != s->conf.levels && !s->conf.tolerance[parent->n + 1].percent)
		return 0;
	struct node *n = count ? sched_node(s, parent, parent->n) : sched_node_find(s, parent, parent->n);
	if (!n)
		return count ? sched_oom(e) : 0;
	sched_counted(s, n, count);
	if (n->bad && !n->barred && s->conf.tolerance[parent->n + 1].percent &&
	    n->bad > lx_tolerance_of(s->conf.tolerance[parent->n + 1], count) && sched_doom(s, n, LX_SUPPRESSED, false) < 0)
		return sched_oom(e);
	sched_node_rest(s, n);
	return 0;
}

int lx_sched_bar(struct lx_sched *s, const struct lx_id *anchor, enum lx_outcome as, struct lx_err *e)
{
	if (anchor->n >= s->conf.levels || anchor->n == 0)
		return 0;
	struct node *n = sched_node(s, anchor, anchor->n);
	if (!n || sched_doom(s, n, as, true) < 0)
		return sched_oom(e);
	sched_node_rest(s, n);
	return 0;
}

void lx_sched_cut(struct lx_sched *s)
{
	if (s->conf.order == LX_ORDER_FIXED)
		sched_fixed_close(s);
}

void lx_sched_end(struct lx_sched *s)
{
	s->ended = true;
	lx_sched_cut(s);
}

void lx_sched_run(struct lx_sched *s, uint32_t levels, const struct lx_tolerance *tolerance)
{
	s->ended = false;
	s->conf.levels = levels;
	memcpy(s->conf.tolerance, tolerance, sizeof s->conf.tolerance);
	sched_tree_clear(s);
	sched_pool_wake(s);
}

/* ---- events: answers ---- */

static enum lx_answer no_such(const struct worker *w, uint64_t hash)
{
	for (uint32_t i = 0; w->ring && i < RING && i < w->answered; i++)
		if (w->ring[i] == (uint32_t)hash)
			return LX_ANS_TWICE;
	return LX_ANS_STRANGER;
}

static int remember(struct worker *w, uint64_t hash)
{
	if (!w->ring && !(w->ring = calloc(RING, sizeof *w->ring)))
		return -1;
	w->ring[w->ring_at++ % RING] = (uint32_t)hash;
	w->answered++;
	w->strikes = w->flaps = 0;
	return 0;
}

/* Judge the answer of an item that has just been taken from its worker. */
static enum lx_answer judge(struct lx_sched *s, struct node *n, const struct item *it, enum lx_outcome o, enum lx_outcome *as)
{
	if (n->barred && o != LX_FAILED) {
		sched_tally(s, n, discarded);
		s->stats.barred++;
		*as = n->barred;
		return LX_ANS_BARRED;
	}
	s->stats.committed++;
	if (o == LX_PRESENT)
		sched_tally(s, n, left);
	else if (o == LX_DROPPED)
		sched_tally(s, n, dropped);
	else if (o == LX_FAILED)
		sched_tally(s, n, failed);
	else
		sched_tally(s, n, discarded);
	if ((o == LX_FAILED || o == LX_SUPPRESSED) && sched_bad(s, n, it->ordinal) < 0)
		return LX_ANS_ERROR;
	return LX_ANS_COMMIT;
}

/* What follows from the answer for others: a wide anchor bars, an answered probe releases. */
static int consequences(struct lx_sched *s, struct node *n, const struct item *it, enum lx_outcome o, uint32_t anchor_n)
{
	if ((o == LX_FAILED || o == LX_SUPPRESSED) && anchor_n > 0 && anchor_n < s->conf.levels) {
		struct node *up = n;
		while (up->depth > anchor_n)
			up = up->parent;
		if (sched_doom(s, up, LX_SUPPRESSED, false) < 0)
			return -1;
	}
	if (it->probe && !n->barred)
		sched_release(s, n);
	return 0;
}

enum lx_answer lx_sched_answer(struct lx_sched *s, int number, const struct lx_id *id, enum lx_outcome o, uint32_t anchor_n,
                               uint64_t now_ns, void **data, enum lx_outcome *as, struct lx_err *e)
{
	s->now = now_ns;
	struct worker *w = s->workers[number];
	if (w->state != LX_W_READY && w->state != LX_W_LEAVING && w->state != LX_W_KILLED) {
		s->stats.late++;
		return LX_ANS_LATE;
	}
	uint64_t hash;
	struct item *it = sent_find(s, w, id, &hash);
	w->heard_ns = now_ns;
	if (!it)
		return no_such(w, hash);
	struct node *n = it->node;
	struct batch *b = it->batch;
	sched_sent_del(s, it);
	list_del(it);
	n->n_sent--;
	w->items--;
	s->stats.sent--;
	s->held--;
	s->charge_row = 0;
	*data = it->data;
	enum lx_answer r = remember(w, hash) < 0 ? LX_ANS_ERROR : judge(s, n, it, o, as);
	if (r == LX_ANS_ERROR || consequences(s, n, it, o, anchor_n) < 0) {
		sched_oom(e);
		return LX_ANS_ERROR;
	}
	sched_node_rest(s, n);
	sched_put(&s->items, it);
	if (!b->items.n)
		sched_batch_done(s, b);
	return r;
}

/* ---- actions ---- */

static enum lx_do hand_back(struct lx_sched *s, struct lx_action *a)
{
	struct item *it = s->out.head;
	list_del(it);
	a->data = it->data;
	a->sent = it->sent_before;
	a->as = it->as;
	a->loss = it->loss;
	a->deaths = it->alone;
	a->worker = it->on[0];
	s->held--;
	bool charged = it->as == LX_FAILED;
	sched_put(&s->items, it);
	if (charged)
		s->stats.charged++;
	else
		s->stats.barred++;
	return charged ? LX_DO_CHARGE : LX_DO_BARRED;
}

static enum lx_do hand_bar(struct lx_sched *s, struct lx_action *a)
{
	a->id = s->bars[s->bars_at++].id;
	if (s->bars_at == s->bars_n)
		s->bars_at = s->bars_n = 0;
	return LX_DO_BAR;
}

static enum lx_do hand_todo(struct lx_sched *s, struct lx_action *a)
{
	struct worker *w = s->todo_head;
	s->todo_head = w->todo_next;
	if (!s->todo_head)
		s->todo_tail = NULL;
	w->in_todo = false;
	enum lx_do what = w->todo;
	w->todo = LX_DO_NOTHING;
	a->worker = w->number;
	a->loss = w->kill_loss;
	a->deaths = w->losses;
	return what;
}

static bool send_room(struct lx_sched *s, size_t n)
{
	if (n <= s->send_cap)
		return true;
	size_t cap = n + n / 2 + 64;
	void **v = realloc(s->send, cap * sizeof *v);
	if (!v)
		return false;
	s->send = v;
	s->send_cap = cap;
	return true;
}

static enum lx_do hand_batch(struct lx_sched *s, struct worker *w, struct batch *b, struct lx_action *a)
{
	if (!send_room(s, b->items.n)) {
		sched_give_up(s, "no memory for a batch");
		return LX_DO_NOTHING;
	}
	uint32_t n = 0;
	for (struct item *it = b->items.head; it; it = it->next)
		s->send[n++] = it->data;
	a->items = s->send;
	a->n_items = n;
	a->bytes = b->items.bytes;
	a->cost = b->items.cost;
	a->recovered = b->recovered;
	sched_send(s, w, b);
	a->worker = w->number;
	a->batch = b->serial;
	return LX_DO_SEND;
}

static enum lx_do dispatch(struct lx_sched *s, struct lx_action *a)
{
	struct worker *w;
	struct batch *b = sched_recovered(s, &w);
	if (b)
		return hand_batch(s, w, b, a);
	w = s->free.head ? s->free.head : s->room.head;
	if (!w)
		return LX_DO_NOTHING;
	bool fail = false;
	b = s->formed.head;
	if (b)
		batch_list_del(b);
	else
		b = sched_form(s, s->free.head, &fail);
	if (fail)
		sched_give_up(s, "no memory for a batch");
	return b ? hand_batch(s, w, b, a) : LX_DO_NOTHING;
}

static uint64_t alone_until(const struct lx_sched *s)
{
	return s->conf.join_ns && s->alone_ns < LX_SCHED_NEVER - s->conf.join_ns ? s->alone_ns + s->conf.join_ns : LX_SCHED_NEVER;
}

/* Workers may join: how long has there been none, with something to do for it? */
static void wait_for_one(struct lx_sched *s)
{
	if (s->usable || !(s->held || (!s->was_ready && !s->ended)))
		s->alone_ns = LX_SCHED_NEVER;
	else if (s->alone_ns == LX_SCHED_NEVER)
		s->alone_ns = s->now;
	if (s->now >= alone_until(s))
		sched_give_up(s, "no worker has joined for %llu s", (unsigned long long)(s->conf.join_ns / 1000000000));
}

static void look_for_hope(struct lx_sched *s)
{
	if (s->conf.elastic)
		wait_for_one(s);
	if (!s->usable && s->n_workers && !s->conf.elastic && !(s->ended && !s->held))
		sched_give_up(s, "no worker is left");
}

enum lx_do lx_sched_next(struct lx_sched *s, uint64_t now_ns, struct lx_action *a)
{
	s->now = now_ns;
	*a = (struct lx_action){ .worker = -1 };
	if (s->dead_told)
		return LX_DO_NOTHING;
	sched_timers(s);
	sched_unreserve(s);
	if (s->out.head)
		return hand_back(s, a); /* before barriers: a charge is what bars */
	if (s->bars_n)
		return hand_bar(s, a);
	while (s->todo_head) {
		enum lx_do what = hand_todo(s, a);
		if (what != LX_DO_NOTHING)
			return what;
	}
	look_for_hope(s);
	enum lx_do what = s->dead ? LX_DO_NOTHING : dispatch(s, a);
	if (!s->dead)
		return what;
	s->dead_told = true;
	a->why = s->why;
	return LX_DO_GIVE_UP;
}

uint64_t lx_sched_deadline(const struct lx_sched *s)
{
	uint64_t t = s->heap_n ? s->heap[0]->timer_ns : LX_SCHED_NEVER;
	uint64_t part = s->free.head ? sched_part_ns(s, s->free.head) : LX_SCHED_NEVER;
	uint64_t alone = alone_until(s);
	t = alone < t ? alone : t;
	return s->dead_told ? LX_SCHED_NEVER : part < t ? part : t;
}

uint64_t lx_sched_held(const struct lx_sched *s)
{
	return s->held;
}

const struct lx_sched_stats *lx_sched_stats(const struct lx_sched *s)
{
	return &s->stats;
}

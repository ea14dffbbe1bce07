/* The ready queue: preferred items by bucket, siblings of unanswered probes by the number their parent
 * holds, and the forming of batches from both. */
#include "sched-int.h"

static bool oversize(const struct lx_sched *s, const struct item *it)
{
	return (s->conf.max_bytes && it->bytes > s->conf.max_bytes) || (s->conf.max_cost && it->cost > s->conf.max_cost);
}

bool sched_fits(const struct lx_sched *s, uint64_t n, uint64_t bytes, uint64_t cost, const struct item *it)
{
	if (!n)
		return true;
	if (n >= s->conf.max_items)
		return false;
	return (!s->conf.max_bytes || (bytes <= s->conf.max_bytes && it->bytes <= s->conf.max_bytes - bytes)) &&
	       (!s->conf.max_cost || (cost <= s->conf.max_cost && it->cost <= s->conf.max_cost - cost));
}

static bool reached(const struct lx_sched *s, uint64_t n, uint64_t bytes, uint64_t cost)
{
	return n >= s->conf.max_items || (s->conf.max_bytes && bytes >= s->conf.max_bytes) ||
	       (s->conf.max_cost && cost >= s->conf.max_cost);
}

/* ---- preferred items ---- */

static void prefer(struct lx_sched *s, struct item *it)
{
	struct queue *q = &s->q[it->bucket];
	if (oversize(s, it)) {
		list_add(&s->big, it);
		return;
	}
	list_add(it->probe ? &q->probe : &q->rel, it);
	s->q_mask |= 1ull << it->bucket;
}

static void unprefer(struct lx_sched *s, struct item *it)
{
	struct queue *q = &s->q[it->bucket];
	list_del(it);
	if (!q->rel.n && !q->probe.n)
		s->q_mask &= ~(1ull << it->bucket);
}

static uint64_t preferred(const struct queue *q)
{
	return q->rel.n + q->probe.n;
}

static struct item *preferred_first(const struct lx_sched *s, const struct queue *q)
{
	struct item *a = q->rel.head, *b = q->probe.head;
	if (s->conf.order == LX_ORDER_PROBES_FIRST)
		return b ? b : a;
	return a ? a : b;
}

/* ---- siblings of unanswered probes ---- */

/* Parents whose close has come first: what an open one holds now says nothing of how many it will have, and
 * the one that is just arriving would always seem the smallest. 0: holds nothing. */
static unsigned held_class(const struct node *n)
{
	unsigned held = n->wait.n < HELD_CLASSES ? n->wait.n : HELD_CLASSES;
	return held && !n->counted ? held + HELD_CLASSES : held;
}

static void held_del(struct lx_sched *s, struct node *n, unsigned c)
{
	*(n->q_prev ? &n->q_prev->q_next : &s->held_head[c]) = n->q_next;
	*(n->q_next ? &n->q_next->q_prev : &s->held_tail[c]) = n->q_prev;
	n->q_next = n->q_prev = NULL;
	if (!s->held_head[c])
		s->held_mask[c / 64] &= ~(1ull << c % 64);
}

static void held_add(struct lx_sched *s, struct node *n, unsigned c)
{
	n->q_next = NULL;
	n->q_prev = s->held_tail[c];
	*(s->held_tail[c] ? &s->held_tail[c]->q_next : &s->held_head[c]) = n;
	s->held_tail[c] = n;
	s->held_mask[c / 64] |= 1ull << c % 64;
}

/* After the number a parent holds changed from `was`. */
static void held_move(struct lx_sched *s, struct node *n, unsigned was)
{
	unsigned c = held_class(n);
	if (c == was)
		return;
	if (was)
		held_del(s, n, was);
	if (c)
		held_add(s, n, c);
}

static unsigned held_next(const struct lx_sched *s, unsigned c)
{
	for (unsigned i = c / 64; i <= 2 * HELD_CLASSES / 64; i++) {
		uint64_t m = s->held_mask[i] & (i == c / 64 ? ~0ull << c % 64 : ~0ull);
		if (m)
			return i * 64 + (unsigned)__builtin_ctzll(m);
	}
	return 2 * HELD_CLASSES + 1;
}

void sched_counted(struct lx_sched *s, struct node *n, uint64_t count)
{
	unsigned was = held_class(n);
	n->counted = true;
	n->count = count;
	held_move(s, n, was);
}

static void hold(struct lx_sched *s, struct item *it)
{
	struct node *n = it->node;
	unsigned was = held_class(n);
	list_add(&n->wait, it);
	s->waiting++;
	held_move(s, n, was);
}

static void unhold(struct lx_sched *s, struct item *it)
{
	struct node *n = it->node;
	unsigned was = held_class(n);
	list_del(it);
	s->waiting--;
	held_move(s, n, was);
}

/* ---- in and out ---- */

void sched_queue_add(struct lx_sched *s, struct item *it)
{
	struct node *n = it->node;
	if (!s->queued++)
		s->ready_ns = s->now;
	if (!probes(s) || n->proof == PROVEN) {
		prefer(s, it);
	} else if (n->proof == FRESH) {
		n->proof = PROBING;
		it->probe = true;
		prefer(s, it);
	} else {
		hold(s, it);
	}
}

void sched_release(struct lx_sched *s, struct node *n)
{
	n->proof = PROVEN;
	while (n->wait.head) {
		struct item *it = n->wait.head;
		unhold(s, it);
		prefer(s, it);
	}
}

/* Out of the queue, on the way into a batch or out altogether. */
static void dequeue(struct lx_sched *s, struct item *it)
{
	if (it->in == &it->node->wait)
		unhold(s, it);
	else
		unprefer(s, it);
	s->queued--;
}

static void shrink(struct lx_sched *s, struct batch *b, struct item *it)
{
	list_del(it);
	it->batch = NULL;
	if (b == s->forming[b->bucket]) {
		s->forming_items--;
		s->forming_bytes -= it->bytes;
	} else if (!b->items.n && b->in) { /* else somebody has it in hand */
		batch_list_del(b);
		sched_batch_free(s, b);
	}
}

void sched_withdraw(struct lx_sched *s, struct item *it)
{
	if (it->batch)
		shrink(s, it->batch, it);
	else
		dequeue(s, it);
}

/* ---- batches ---- */

struct batch *sched_batch(struct lx_sched *s)
{
	struct batch *b = sched_get(&s->batches);
	if (b)
		b->not_on = -1;
	return b;
}

void sched_batch_free(struct lx_sched *s, struct batch *b)
{
	sched_put(&s->batches, b);
}

static void take(struct lx_sched *s, struct batch *b, struct item *it)
{
	dequeue(s, it);
	it->batch = b;
	list_add(&b->items, it);
}

/* A full batch can be had from this bucket. */
static bool bucket_full(const struct lx_sched *s, const struct queue *q)
{
	return reached(s, preferred(q), q->rel.bytes + q->probe.bytes, q->rel.cost + q->probe.cost);
}

static int full_bucket(const struct lx_sched *s)
{
	for (uint64_t m = s->q_mask; m; m &= m - 1) {
		int i = __builtin_ctzll(m);
		if (bucket_full(s, &s->q[i]))
			return i;
	}
	return -1;
}

static int fullest_bucket(const struct lx_sched *s)
{
	int best = -1;
	for (uint64_t m = s->q_mask; m; m &= m - 1) {
		int i = __builtin_ctzll(m);
		if (best < 0 || preferred(&s->q[i]) > preferred(&s->q[best]))
			best = i;
	}
	return best;
}

static void fill_preferred(struct lx_sched *s, struct batch *b)
{
	const struct queue *q = &s->q[b->bucket];
	struct item *it;
	while ((it = preferred_first(s, q))) {
		if (!sched_fits(s, b->items.n, b->items.bytes, b->items.cost, it)) {
			b->full = true;
			return;
		}
		take(s, b, it);
	}
	b->full = reached(s, b->items.n, b->items.bytes, b->items.cost);
}

/* Add siblings of an unanswered probe from one parent. Items of other buckets are passed over, a bounded
 * number of times in all. */
static void fill_from(struct lx_sched *s, struct batch *b, struct node *n, unsigned *looks)
{
	for (struct item *it = n->wait.head, *next; it && *looks; it = next) {
		next = it->next;
		(*looks)--;
		if (b->items.n && it->bucket != b->bucket)
			continue;
		if (!sched_fits(s, b->items.n, b->items.bytes, b->items.cost, it)) {
			b->full = true;
			return;
		}
		if (!b->items.n)
			b->bucket = it->bucket;
		take(s, b, it);
		s->stats.unproven++;
	}
	b->full = reached(s, b->items.n, b->items.bytes, b->items.cost);
}

static void fill_waiting(struct lx_sched *s, struct batch *b)
{
	unsigned looks = s->conf.max_items > 1u << 20 ? 1u << 22 : 4 * s->conf.max_items + 64;
	for (unsigned c = held_next(s, 1); c <= 2 * HELD_CLASSES && looks && !b->full; c = held_next(s, c + 1)) {
		for (struct node *n = s->held_head[c], *next; n && looks && !b->full; n = next) {
			next = n->q_next;
			fill_from(s, b, n, &looks);
		}
	}
}

static bool nothing_more_to_come(const struct lx_sched *s)
{
	return (s->ended || lx_sched_full(s)) && !s->waiting;
}

uint64_t sched_part_ns(const struct lx_sched *s, const struct worker *w)
{
	if (!s->queued || s->conf.order == LX_ORDER_FIXED)
		return LX_SCHED_NEVER;
	if (nothing_more_to_come(s))
		return s->now;
	uint64_t from = w->free_ns > s->ready_ns ? w->free_ns : s->ready_ns;
	return from + s->conf.linger_ns;
}

struct batch *sched_form(struct lx_sched *s, const struct worker *free_worker, bool *fail)
{
	int bucket = s->big.n ? -1 : full_bucket(s);
	bool full = s->big.n || bucket >= 0;
	if (!full && (!free_worker || s->now < sched_part_ns(s, free_worker)))
		return NULL;
	struct batch *b = sched_batch(s);
	if (!b) {
		*fail = true;
		return NULL;
	}
	if (s->big.n) {
		b->full = true;
		take(s, b, s->big.head);
		return b;
	}
	if (!full)
		bucket = fullest_bucket(s);
	b->bucket = bucket < 0 ? 0 : bucket;
	if (bucket >= 0)
		fill_preferred(s, b);
	if (!full && !b->full)
		fill_waiting(s, b);
	return b;
}

/* ---- fixed ---- */

static void form_close(struct lx_sched *s, uint32_t bucket)
{
	struct batch *b = s->forming[bucket];
	if (!b)
		return;
	s->forming[bucket] = NULL;
	s->forming_items -= b->items.n;
	s->forming_bytes -= b->items.bytes;
	if (b->items.n)
		batch_list_add(&s->formed, b);
	else
		sched_batch_free(s, b);
}

void sched_fixed_close(struct lx_sched *s)
{
	for (uint32_t i = 0; i < LX_SCHED_BUCKETS; i++)
		form_close(s, i);
}

int sched_fixed_add(struct lx_sched *s, struct item *it)
{
	struct batch *b = s->forming[it->bucket];
	if (b && !sched_fits(s, b->places, b->place_bytes, b->place_cost, it)) {
		b->full = true;
		form_close(s, it->bucket);
		b = NULL;
	}
	if (!b && !(b = s->forming[it->bucket] = sched_batch(s)))
		return -1;
	b->bucket = it->bucket;
	b->places++;
	b->place_bytes += it->bytes;
	b->place_cost += it->cost;
	if (!it->node->barred) {
		it->batch = b;
		list_add(&b->items, it);
		sched_unsent_add(s, it);
		s->forming_items++;
		s->forming_bytes += it->bytes;
	}
	if (reached(s, b->places, b->place_bytes, b->place_cost)) {
		b->full = true;
		form_close(s, it->bucket);
	}
	return 0;
}

/* Parents: where barriers and tallies are kept. A node stands for an id above the call's domain; its
 * ancestors always exist, so that an id is compared by walking up. */
#include "sched-int.h"

#include <stdlib.h>

static struct node *node_new(struct lx_sched *s, struct node *parent, uint64_t ordinal)
{
	struct node *n = sched_get(&s->nodes);
	if (!n)
		return NULL;
	n->parent = parent;
	n->ordinal = ordinal;
	n->hash = parent ? sched_hash(parent->hash, ordinal) : sched_hash(s->rng, 0);
	n->depth = parent ? parent->depth + 1 : 0;
	if (!parent)
		return n;
	n->barred = parent->barred;
	n->sib_next = parent->child;
	if (parent->child)
		parent->child->sib_prev = n;
	parent->child = n;
	s->stats.parents++;
	return n;
}

int sched_tree_init(struct lx_sched *s)
{
	s->tree_size = 1024;
	s->tree = calloc(s->tree_size, sizeof *s->tree);
	s->root = s->tree ? node_new(s, NULL, 0) : NULL;
	if (!s->root)
		return -1;
	s->root->proof = PROVEN;
	return 0;
}

static void tree_grow(struct lx_sched *s)
{
	size_t size = s->tree_size * 2;
	struct node **t = calloc(size, sizeof *t);
	if (!t)
		return; /* longer chains, nothing worse */
	for (size_t i = 0; i < s->tree_size; i++) {
		for (struct node *n = s->tree[i], *next; n; n = next) {
			next = n->hnext;
			n->hnext = t[n->hash & (size - 1)];
			t[n->hash & (size - 1)] = n;
		}
	}
	free(s->tree);
	s->tree = t;
	s->tree_size = size;
}

static void tree_add(struct lx_sched *s, struct node *n)
{
	if (s->tree_n >= s->tree_size)
		tree_grow(s);
	struct node **to = &s->tree[n->hash & (s->tree_size - 1)];
	n->hnext = *to;
	*to = n;
	s->tree_n++;
}

static struct node *child_find(const struct lx_sched *s, const struct node *parent, uint64_t ordinal)
{
	uint64_t h = sched_hash(parent->hash, ordinal);
	struct node *n = s->tree[h & (s->tree_size - 1)];
	while (n && (n->parent != parent || n->ordinal != ordinal))
		n = n->hnext;
	return n;
}

struct node *sched_node_find(const struct lx_sched *s, const struct lx_id *id, uint32_t len)
{
	struct node *n = s->root;
	for (uint32_t i = 0; n && i < len; i++)
		n = child_find(s, n, id->ord[i]);
	return n;
}

static struct node *node_make(struct lx_sched *s, const struct lx_id *id, uint32_t len)
{
	struct node *n = s->root;
	for (uint32_t i = 0; n && i < len; i++) {
		struct node *c = child_find(s, n, id->ord[i]);
		if (!c && (c = node_new(s, n, id->ord[i]))) {
			tree_add(s, c);
			sched_node_wake(s, n);
		}
		n = c;
	}
	return n;
}

struct node *sched_node(struct lx_sched *s, const struct lx_id *id, uint32_t len)
{
	/* Children of one parent come in a row. */
	if (s->last && s->last_id.n == len && memcmp(s->last_id.ord, id->ord, len * sizeof id->ord[0]) == 0)
		return s->last;
	struct node *n = node_make(s, id, len);
	if (n) {
		sched_node_wake(s, n);
		s->last = n;
		s->last_id.n = len;
		memcpy(s->last_id.ord, id->ord, len * sizeof id->ord[0]);
	}
	return n;
}

/* ---- which nodes are remembered ---- */

static void idle_del(struct lx_sched *s, struct node *n)
{
	*(n->q_prev ? &n->q_prev->q_next : &s->idle_head) = n->q_next;
	*(n->q_next ? &n->q_next->q_prev : &s->idle_tail) = n->q_prev;
	n->q_next = n->q_prev = NULL;
	n->idle = false;
	s->idle_n--;
}

static void idle_add(struct lx_sched *s, struct node *n)
{
	n->q_next = NULL;
	n->q_prev = s->idle_tail;
	*(s->idle_tail ? &s->idle_tail->q_next : &s->idle_head) = n;
	s->idle_tail = n;
	n->idle = true;
	s->idle_n++;
}

void sched_node_wake(struct lx_sched *s, struct node *n)
{
	if (n->idle)
		idle_del(s, n);
}

static void node_free(struct lx_sched *s, struct node *n)
{
	struct node **at = &s->tree[n->hash & (s->tree_size - 1)];
	while (*at != n)
		at = &(*at)->hnext;
	*at = n->hnext;
	s->tree_n--;
	if (n->sib_prev)
		n->sib_prev->sib_next = n->sib_next;
	else
		n->parent->child = n->sib_next;
	if (n->sib_next)
		n->sib_next->sib_prev = n->sib_prev;
	if (n->idle)
		idle_del(s, n);
	if (s->last == n)
		s->last = NULL;
	free(n->bad_ord);
	s->stats.parents--;
	sched_put(&s->nodes, n);
}

static bool bare(const struct node *n)
{
	return n->depth && !n->n_unsent && !n->n_sent && !n->child;
}

/* Nothing more can come for it, or nothing is known about it that would be missed. */
static bool finished(const struct lx_sched *s, const struct node *n)
{
	if (n->depth + 1u == s->conf.levels)
		return n->counted && n->t.received >= n->count;
	return !n->barred && !n->bad && !n->counted;
}

static void forget(struct lx_sched *s, struct node *n)
{
	while (n->depth && bare(n)) {
		struct node *up = n->parent;
		node_free(s, n);
		n = up;
		if (!finished(s, n)) {
			if (bare(n) && !n->idle)
				idle_add(s, n);
			break;
		}
	}
}

static void rest(struct lx_sched *s, struct node *n)
{
	if (!bare(n))
		return;
	if (finished(s, n))
		forget(s, n);
	else if (!n->idle)
		idle_add(s, n);
}

void sched_node_rest(struct lx_sched *s, struct node *n)
{
	rest(s, n);
	while (s->idle_n > s->conf.max_parents) {
		s->stats.forgotten++;
		forget(s, s->idle_head);
	}
}

void sched_tree_clear(struct lx_sched *s)
{
	for (size_t i = 0; i < s->tree_size; i++) {
		for (struct node *n = s->tree[i], *next; n; n = next) {
			next = n->hnext;
			free(n->bad_ord);
			sched_put(&s->nodes, n);
		}
		s->tree[i] = NULL;
	}
	s->tree_n = 0;
	s->stats.parents = 0;
	s->last = s->idle_head = s->idle_tail = NULL;
	s->idle_n = 0;
	if (s->root)
		s->root->child = NULL;
}

/* ---- doom ---- */

void sched_unsent_add(struct lx_sched *s, struct item *it)
{
	struct node *n = it->node;
	it->snext = NULL;
	it->sprev = n->unsent_last;
	*(n->unsent_last ? &n->unsent_last->snext : &n->unsent) = it;
	n->unsent_last = it;
	n->n_unsent++;
	if (n->idle)
		idle_del(s, n);
	if (++s->stats.ready > s->stats.peak_ready)
		s->stats.peak_ready = s->stats.ready;
	s->stats.ready_bytes += it->bytes;
	if (s->stats.ready_bytes > s->stats.peak_ready_bytes)
		s->stats.peak_ready_bytes = s->stats.ready_bytes;
}

void sched_unsent_del(struct lx_sched *s, struct item *it)
{
	struct node *n = it->node;
	*(it->sprev ? &it->sprev->snext : &n->unsent) = it->snext;
	*(it->snext ? &it->snext->sprev : &n->unsent_last) = it->sprev;
	it->snext = it->sprev = NULL;
	n->n_unsent--;
	s->stats.ready--;
	s->stats.ready_bytes -= it->bytes;
}

static int tell(struct lx_sched *s, const struct node *n)
{
	if (s->bars_n == s->bars_cap) {
		size_t cap = s->bars_cap ? s->bars_cap * 2 : 16;
		struct sched_bar *v = realloc(s->bars, cap * sizeof *v);
		if (!v)
			return -1;
		s->bars = v;
		s->bars_cap = cap;
	}
	struct lx_id *id = &s->bars[s->bars_n++].id;
	id->n = n->depth;
	for (; n->depth; n = n->parent)
		id->ord[n->depth - 1] = n->ordinal;
	return 0;
}

/* Everything unsent below n ends now. */
static void bar_below(struct lx_sched *s, struct node *n, enum lx_outcome as)
{
	if (n->barred)
		return; /* what is below was barred then */
	n->barred = as;
	if (n->depth + 1u == s->conf.levels) {
		s->stats.doom.parents += n->t.received != 0;
		s->stats.doom.received += n->t.received;
		s->stats.doom.failed += n->t.failed;
		s->stats.doom.dropped += n->t.dropped;
		s->stats.doom.never_sent += n->t.never_sent;
		s->stats.doom.discarded += n->t.discarded;
		s->stats.doom.left += n->t.left;
	}
	while (n->unsent) {
		struct item *it = n->unsent;
		sched_withdraw(s, it);
		sched_unsent_del(s, it);
		if (it->sent_before)
			sched_tally(s, n, discarded);
		else
			sched_tally(s, n, never_sent);
		sched_end_item(s, it, as);
	}
	for (struct node *c = n->child, *next; c; c = next) {
		next = c->sib_next;
		bar_below(s, c, as);
	}
}

/* Nodes below a barred one that hold nothing need not be there: the barrier above speaks for them. */
static void prune(struct lx_sched *s, struct node *n)
{
	for (struct node *c = n->child, *next; c; c = next) {
		next = c->sib_next;
		prune(s, c);
		if (bare(c) && !c->idle)
			idle_add(s, c);
	}
}

int sched_doom(struct lx_sched *s, struct node *n, enum lx_outcome as, bool told)
{
	if (n->barred || !n->depth)
		return 0;
	if (!told && tell(s, n) < 0)
		return -1;
	bar_below(s, n, as);
	prune(s, n);
	return 0;
}

/* Remember a child's ordinal; 1: it is new, 0: counted before. */
static int bad_add(struct node *n, uint64_t ordinal)
{
	uint64_t lo = 0, hi = n->bad;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (n->bad_ord[mid] < ordinal)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < n->bad && n->bad_ord[lo] == ordinal)
		return 0;
	if (n->bad == n->bad_cap) {
		uint64_t cap = n->bad_cap ? n->bad_cap * 2 : 8;
		uint64_t *v = realloc(n->bad_ord, cap * sizeof *v);
		if (!v)
			return -1;
		n->bad_ord = v;
		n->bad_cap = cap;
	}
	memmove(n->bad_ord + lo + 1, n->bad_ord + lo, (n->bad - lo) * sizeof *n->bad_ord);
	n->bad_ord[lo] = ordinal;
	n->bad++;
	return 1;
}

int sched_bad(struct lx_sched *s, struct node *n, uint64_t ordinal)
{
	if (n->barred || !n->depth)
		return 0;
	struct lx_tolerance t = s->conf.tolerance[n->depth + 1];
	if (!t.n)
		return sched_doom(s, n, LX_SUPPRESSED, false);
	if (bad_add(n, ordinal) < 0)
		return -1;
	if (t.percent && !n->counted)
		return 0; /* the close will tell */
	return n->bad > lx_tolerance_of(t, n->count) ? sched_doom(s, n, LX_SUPPRESSED, false) : 0;
}

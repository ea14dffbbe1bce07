#include "doom.h"

#include <stdlib.h>

/* One barrier, or one tally of failed children, keyed by domain and id. All of them hang in one hash
 * table and in one list by age; the oldest go first when there are too many. */
struct node {
	struct node *chain, *older, *newer;
	uint64_t hash;
	uint32_t domain;
	bool tally;
	struct lx_id id;
	enum lx_outcome as;       /* barrier: what it makes of items below */
	uint64_t failed, count;   /* tally: failed children, number of children */
	bool counted;             /* tally: count is known */
	bool told;                /* barred from outside: not yet counted against its expansion */
	size_t cause_len;
	uint8_t cause[];
};

struct lx_doom {
	struct node **slots;
	size_t n_slots, n, most, barriers;
	struct node *oldest, *newest;
	void (*barred)(void *ctx, uint32_t domain, const struct lx_id *id, enum lx_outcome as);
	void *ctx;
	uint64_t domains_barred; /* bit d: some barrier lies in domain d: no look-up for the others */
};

struct lx_doom *lx_doom_new(size_t max_entries)
{
	struct lx_doom *d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->most = max_entries ? max_entries : 1;
	d->n_slots = 64;
	d->slots = calloc(d->n_slots, sizeof(*d->slots));
	if (!d->slots) {
		free(d);
		return NULL;
	}
	return d;
}

void lx_doom_free(struct lx_doom *d)
{
	if (!d)
		return;
	for (struct node *n = d->oldest, *next; n; n = next) {
		next = n->newer;
		free(n);
	}
	free(d->slots);
	free(d);
}

bool lx_doom_empty(const struct lx_doom *d)
{
	return d->barriers == 0;
}

static uint64_t key_hash(uint32_t domain, bool tally, const struct lx_id *id)
{
	uint64_t h = lx_id_hash(id) + domain * 0x9e3779b97f4a7c15u + tally;
	return h ^ h >> 29;
}

static struct node *look_up(const struct lx_doom *d, uint32_t domain, bool tally, const struct lx_id *id)
{
	uint64_t h = key_hash(domain, tally, id);
	for (struct node *n = d->slots[h & (d->n_slots - 1)]; n; n = n->chain)
		if (n->hash == h && n->domain == domain && n->tally == tally && lx_id_eq(&n->id, id))
			return n;
	return NULL;
}

static void forget_oldest(struct lx_doom *d)
{
	struct node *n = d->oldest, **at = &d->slots[n->hash & (d->n_slots - 1)];
	while (*at != n)
		at = &(*at)->chain;
	*at = n->chain;
	d->oldest = n->newer;
	if (d->oldest)
		d->oldest->older = NULL;
	else
		d->newest = NULL;
	d->n--;
	d->barriers -= !n->tally;
	free(n);
}

/* A table that cannot grow only gets slower. */
static void grow(struct lx_doom *d)
{
	size_t n_slots = d->n_slots * 4;
	struct node **slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return;
	for (struct node *n = d->oldest; n; n = n->newer) {
		struct node **at = &slots[n->hash & (n_slots - 1)];
		n->chain = *at;
		*at = n;
	}
	free(d->slots);
	d->slots = slots;
	d->n_slots = n_slots;
}

/* Forgetting is allowed (it costs work only), so no memory means: not noted. */
static struct node *insert(struct lx_doom *d, uint32_t domain, bool tally, const struct lx_id *id, struct lx_span cause)
{
	if (d->n == d->most)
		forget_oldest(d);
	if (d->n >= d->n_slots)
		grow(d);
	struct node *n = calloc(1, sizeof(*n) + cause.len);
	if (!n)
		return NULL;
	n->hash = key_hash(domain, tally, id);
	n->domain = domain;
	n->tally = tally;
	n->id = *id;
	n->cause_len = cause.len;
	if (cause.len)
		memcpy(n->cause, cause.p, cause.len);
	struct node **at = &d->slots[n->hash & (d->n_slots - 1)];
	n->chain = *at;
	*at = n;
	n->older = d->newest;
	if (d->newest)
		d->newest->newer = n;
	else
		d->oldest = n;
	d->newest = n;
	d->n++;
	d->barriers += !tally;
	return n;
}

static void bar(struct lx_doom *d, uint32_t domain, const struct lx_id *id, enum lx_outcome as, struct lx_span cause, bool told)
{
	struct node *n = insert(d, domain, false, id, cause);
	if (n) {
		n->as = as;
		n->told = told;
		d->domains_barred |= 1ull << (domain & 63);
		if (d->barred)
			d->barred(d->ctx, domain, id, as);
	}
}

void lx_doom_bar(struct lx_doom *d, uint32_t domain, const struct lx_id *id, enum lx_outcome as, struct lx_span cause)
{
	if (!look_up(d, domain, false, id))
		bar(d, domain, id, as, cause, as == LX_SUPPRESSED);
}

void lx_doom_watch(struct lx_doom *d, void (*barred)(void *ctx, uint32_t domain, const struct lx_id *id, enum lx_outcome as),
                   void *ctx)
{
	d->barred = barred;
	d->ctx = ctx;
}

static void count_failed(struct lx_doom *d, const struct lx_plan *p, uint32_t domain, const struct lx_id *id,
                         struct lx_span cause);

/* The item will not be present: bar what is below it, and count it against its own expansion. */
static void doom_item(struct lx_doom *d, const struct lx_plan *p, uint32_t domain, const struct lx_id *id,
                      struct lx_span cause)
{
	struct node *n = look_up(d, domain, false, id);
	if (n && !n->told)
		return;
	if (n)
		n->told = false;
	else
		bar(d, domain, id, LX_SUPPRESSED, cause, false);
	count_failed(d, p, domain, id, cause);
}

/* A tally begun by a failed child keeps its cause: the close may be what shows that it was one too many. */
static struct node *tally_of(struct lx_doom *d, uint32_t domain, const struct lx_id *parent, struct lx_span cause)
{
	struct node *t = look_up(d, domain, true, parent);
	return t ? t : insert(d, domain, true, parent, cause);
}

static bool beyond(const struct node *t, struct lx_tolerance tol)
{
	if (tol.percent && !t->counted)
		return false;
	return t->failed > lx_tolerance_of(tol, t->count);
}

/* One more child of `id`'s parent is failed or suppressed. */
static void count_failed(struct lx_doom *d, const struct lx_plan *p, uint32_t domain, const struct lx_id *id,
                         struct lx_span cause)
{
	int up = p->domains[domain].parent;
	if (up < 0)
		return;
	struct lx_id parent = lx_id_parent(id, 1);
	struct lx_tolerance tol = p->domains[domain].tolerance;
	if (tol.n) {
		struct node *t = tally_of(d, domain, &parent, cause);
		if (!t)
			return;
		t->failed++;
		if (!beyond(t, tol))
			return;
	}
	doom_item(d, p, (uint32_t)up, &parent, cause);
}

static void learn_close(struct lx_doom *d, const struct lx_plan *p, const struct lx_rec *r)
{
	int up = p->domains[r->domain].parent;
	if (r->outcome != LX_PRESENT) {
		doom_item(d, p, (uint32_t)up, &r->id, r->cause);
		return;
	}
	struct lx_tolerance tol = p->domains[r->domain].tolerance;
	if (!tol.percent || !tol.n)
		return;
	struct node *t = tally_of(d, r->domain, &r->id, (struct lx_span){ 0 });
	if (!t || t->counted)
		return;
	t->counted = true;
	t->count = r->count;
	if (beyond(t, tol))
		doom_item(d, p, (uint32_t)up, &r->id, (struct lx_span){ t->cause, t->cause_len });
}

static bool has_below(const struct lx_plan *p, uint32_t domain)
{
	for (int i = (int)domain + 1; i < p->n_domains; i++)
		if (p->domains[i].parent == (int)domain && !p->domains[i].gathered)
			return true;
	return false;
}

void lx_doom_learn(struct lx_doom *d, const struct lx_plan *p, const struct lx_rec *r)
{
	struct lx_cause c;
	if (r->kind == LX_ITEM)
		return;
	if (r->kind == LX_CLOSE) {
		learn_close(d, p, r);
		return;
	}
	if (r->outcome == LX_DROPPED) {
		if (has_below(p, r->domain)) /* dropped items without children are the everyday work of lx-filter */
			lx_doom_bar(d, r->domain, &r->id, LX_DROPPED, r->cause);
		return;
	}
	doom_item(d, p, r->domain, &r->id, r->cause);
	if (lx_cause_read(r->cause, &c) == 0 && c.anchor_domain < (uint32_t)p->n_domains &&
	    !(c.anchor_domain == r->domain && lx_id_eq(&c.anchor, &r->id)))
		doom_item(d, p, c.anchor_domain, &c.anchor, r->cause);
}

static enum lx_outcome barrier_at(const struct lx_doom *d, uint32_t domain, const struct lx_id *id, struct lx_span *cause)
{
	if (!(d->domains_barred >> (domain & 63) & 1))
		return LX_PRESENT;
	struct node *n = look_up(d, domain, false, id);
	if (!n)
		return LX_PRESENT;
	*cause = (struct lx_span){ n->cause_len ? n->cause : NULL, n->cause_len };
	return n->as;
}

enum lx_outcome lx_doom_find(const struct lx_doom *d, const struct lx_plan *p, uint32_t domain,
                             const struct lx_id *id, bool itself, struct lx_span *cause)
{
	if (!d->barriers)
		return LX_PRESENT;
	int at = (int)domain;
	for (uint32_t up = 0; at >= 0 && up < id->n; up++, at = p->domains[at].parent) {
		if (up == 0 && !itself)
			continue;
		struct lx_id anchor = lx_id_parent(id, up);
		enum lx_outcome o = barrier_at(d, (uint32_t)at, &anchor, cause);
		if (o != LX_PRESENT)
			return o;
	}
	return LX_PRESENT;
}

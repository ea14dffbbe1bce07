#include "done.h"

#include <errno.h>
#include <stdlib.h>

#define LEAF_BITS 16
#define LEAF_SIZE (1u << LEAF_BITS)
#define BITMAP_BYTES (LEAF_SIZE / 8)
#define RUNS_MAX (BITMAP_BYTES / sizeof(struct run)) /* beyond it a bitmap is smaller */
#define RUNS_INLINE 2

struct run {
	uint16_t lo, hi; /* both inside */
};

/* A set of numbers below LEAF_SIZE. */
struct set {
	uint32_t members;
	uint16_t n, cap; /* runs; cap 0: they lie in `few` */
	bool bitmap;
	union {
		struct run few[RUNS_INLINE];
		struct run *runs;
		uint64_t *bits;
	};
};

/* The ids that share everything but the low bits of their last ordinal. The first leaf of a prefix
 * also holds what is known of the prefix as a whole. */
struct leaf {
	struct leaf *chain;
	uint64_t hash;
	uint64_t total;  /* first leaf: ids below the prefix, UINT64_MAX: not known */
	uint64_t below;  /* first leaf: members in all leaves of the prefix */
	struct set all, marked;
	uint32_t n;      /* numbers in the key: the prefix, then the leaf's number */
	uint64_t key[];
};

struct lx_done {
	struct leaf **slots;
	size_t n_slots, n;
	size_t bytes;
};

/* ---- sets ---- */

static const struct run *set_runs(const struct set *s)
{
	return s->cap ? s->runs : s->few;
}

/* The first run that ends at or behind x; n when there is none. */
static uint32_t set_seek(const struct set *s, uint32_t x)
{
	const struct run *r = set_runs(s);
	uint32_t lo = 0, hi = s->n;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (r[mid].hi < x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool set_has(const struct set *s, uint32_t x)
{
	if (s->bitmap)
		return s->bits[x / 64] >> (x % 64) & 1;
	uint32_t i = set_seek(s, x);
	return i < s->n && set_runs(s)[i].lo <= x;
}

static size_t set_bytes(const struct set *s)
{
	return s->bitmap ? BITMAP_BYTES : s->cap * sizeof(struct run);
}

static void set_free(struct set *s)
{
	if (s->bitmap)
		free(s->bits);
	else if (s->cap)
		free(s->runs);
}

static int set_to_bitmap(struct set *s)
{
	uint64_t *bits = calloc(1, BITMAP_BYTES);
	if (!bits)
		return -1;
	const struct run *r = set_runs(s);
	for (uint32_t i = 0; i < s->n; i++)
		for (uint32_t x = r[i].lo; x <= r[i].hi; x++)
			bits[x / 64] |= 1ull << (x % 64);
	set_free(s);
	s->bitmap = true;
	s->bits = bits;
	return 0;
}

/* Room for one more run. */
static int set_grow(struct set *s)
{
	if (s->n < (s->cap ? s->cap : RUNS_INLINE))
		return 0;
	if (s->n == RUNS_MAX)
		return set_to_bitmap(s);
	uint16_t cap = s->cap ? s->cap * 2 : 2 * RUNS_INLINE;
	struct run *runs = realloc(s->cap ? s->runs : NULL, cap * sizeof(*runs));
	if (!runs)
		return -1;
	if (!s->cap)
		memcpy(runs, s->few, sizeof(s->few));
	s->runs = runs;
	s->cap = cap;
	return 0;
}

/* Give back what a burst of gaps took. */
static void set_shrink(struct set *s)
{
	if (s->cap <= 4 * RUNS_INLINE || s->n > s->cap / 4)
		return;
	struct run *runs = realloc(s->runs, s->cap / 2 * sizeof(*runs));
	if (!runs)
		return;
	s->runs = runs;
	s->cap /= 2;
}

static void set_filled(struct set *s)
{
	set_free(s);
	s->bitmap = false;
	s->cap = 0;
	s->n = 1;
	s->few[0] = (struct run){ 0, LEAF_SIZE - 1 };
}

static int set_insert(struct set *s, uint32_t x, uint32_t i)
{
	struct run *r = (struct run *)set_runs(s);
	bool left = i > 0 && r[i - 1].hi + 1u == x;
	bool right = i < s->n && r[i].lo == x + 1u;
	if (left && right) {
		r[i - 1].hi = r[i].hi;
		memmove(&r[i], &r[i + 1], (s->n - i - 1u) * sizeof(*r));
		s->n--;
		set_shrink(s);
	} else if (left) {
		r[i - 1].hi = (uint16_t)x;
	} else if (right) {
		r[i].lo = (uint16_t)x;
	} else {
		if (set_grow(s) < 0)
			return -1;
		if (s->bitmap) {
			s->bits[x / 64] |= 1ull << (x % 64);
			return 0;
		}
		r = (struct run *)set_runs(s);
		memmove(&r[i + 1], &r[i], (s->n - i) * sizeof(*r));
		r[i] = (struct run){ (uint16_t)x, (uint16_t)x };
		s->n++;
	}
	return 0;
}

/* x is not in s. */
static int set_add(struct set *s, uint32_t x)
{
	if (s->bitmap)
		s->bits[x / 64] |= 1ull << (x % 64);
	else if (set_insert(s, x, set_seek(s, x)) < 0)
		return -1;
	if (++s->members == LEAF_SIZE)
		set_filled(s);
	return 0;
}

static size_t set_intervals(const struct set *s)
{
	if (!s->bitmap)
		return s->n;
	size_t n = 0;
	uint64_t before = 0;
	for (uint32_t w = 0; w < LEAF_SIZE / 64; w++) {
		n += (size_t)__builtin_popcountll(s->bits[w] & ~(s->bits[w] << 1 | before));
		before = s->bits[w] >> 63;
	}
	return n;
}

/* ---- leaves ---- */

/* The key of the leaf that id, cut to its first `n` numbers, lies in. */
struct key {
	uint32_t n;
	uint64_t ord[LX_ID_MAX];
	uint64_t hash;
};

static struct key key_of(const struct lx_id *id, uint32_t n, uint64_t leaf)
{
	struct key k;
	struct lx_id h = lx_id_parent(id, id->n - n);
	h.ord[n - 1] = leaf;
	k.n = n;
	memcpy(k.ord, h.ord, n * sizeof(k.ord[0]));
	k.hash = lx_id_hash(&h);
	return k;
}

static struct leaf **leaf_at(const struct lx_done *d, const struct key *k)
{
	struct leaf **at = &d->slots[k->hash & (d->n_slots - 1)];
	while (*at && !((*at)->hash == k->hash && (*at)->n == k->n &&
	                memcmp((*at)->key, k->ord, k->n * sizeof(k->ord[0])) == 0))
		at = &(*at)->chain;
	return at;
}

/* A table that cannot grow only gets slower. */
static void grow_slots(struct lx_done *d)
{
	size_t n_slots = d->n_slots * 2;
	struct leaf **slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return;
	for (size_t i = 0; i < d->n_slots; i++) {
		for (struct leaf *l = d->slots[i], *next; l; l = next) {
			next = l->chain;
			l->chain = slots[l->hash & (n_slots - 1)];
			slots[l->hash & (n_slots - 1)] = l;
		}
	}
	d->bytes += (n_slots - d->n_slots) * sizeof(*slots);
	free(d->slots);
	d->slots = slots;
	d->n_slots = n_slots;
}

static struct leaf *leaf_make(struct lx_done *d, const struct key *k, struct lx_err *e)
{
	struct leaf **at = leaf_at(d, k);
	if (*at)
		return *at;
	size_t size = sizeof(struct leaf) + k->n * sizeof(k->ord[0]);
	struct leaf *l = calloc(1, size);
	if (!l) {
		lx_err_sys(e, "finished parents");
		return NULL;
	}
	l->hash = k->hash;
	l->n = k->n;
	l->total = UINT64_MAX;
	memcpy(l->key, k->ord, k->n * sizeof(k->ord[0]));
	*at = l;
	d->bytes += size;
	if (++d->n > d->n_slots)
		grow_slots(d);
	return l;
}

static void leaf_free(struct lx_done *d, struct leaf *l)
{
	d->bytes -= sizeof(*l) + l->n * sizeof(l->key[0]) + set_bytes(&l->all) + set_bytes(&l->marked);
	set_free(&l->all);
	set_free(&l->marked);
	free(l);
}

static void leaf_remove(struct lx_done *d, const struct key *k)
{
	struct leaf **at = leaf_at(d, k), *l = *at;
	if (!l)
		return;
	*at = l->chain;
	d->n--;
	leaf_free(d, l);
}

struct lx_done *lx_done_new(void)
{
	struct lx_done *d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->n_slots = 16;
	d->slots = calloc(d->n_slots, sizeof(*d->slots));
	d->bytes = sizeof(*d) + d->n_slots * sizeof(*d->slots);
	if (!d->slots) {
		free(d);
		return NULL;
	}
	return d;
}

void lx_done_free(struct lx_done *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_slots; i++) {
		for (struct leaf *l = d->slots[i], *next; l; l = next) {
			next = l->chain;
			leaf_free(d, l);
		}
	}
	free(d->slots);
	free(d);
}

/* ---- members ---- */

static enum lx_done_state state_at(const struct lx_done *d, const struct lx_id *id, uint32_t n)
{
	uint64_t ordinal = id->ord[n - 1];
	uint32_t x = (uint32_t)(ordinal & (LEAF_SIZE - 1));
	struct key k = key_of(id, n, ordinal >> LEAF_BITS);
	const struct leaf *l = *leaf_at(d, &k);
	if (!l || !set_has(&l->all, x))
		return LX_DONE_NO;
	return set_has(&l->marked, x) ? LX_DONE_MARKED : LX_DONE_YES;
}

enum lx_done_state lx_done_has(const struct lx_done *d, const struct lx_id *id)
{
	enum lx_done_state s = LX_DONE_NO;
	for (uint32_t n = 1; n <= id->n && s == LX_DONE_NO; n++)
		s = state_at(d, id, n);
	return s;
}

static int add_to(struct lx_done *d, struct set *s, uint32_t x, struct lx_err *e)
{
	size_t before = set_bytes(s);
	if (set_add(s, x) < 0) {
		errno = ENOMEM;
		return lx_err_sys(e, "finished parents");
	}
	d->bytes += set_bytes(s) - before;
	return 0;
}

/* Every id below the prefix is in: drop its leaves. *marked: some member was. */
static void forget_below(struct lx_done *d, const struct lx_id *prefix, uint64_t total, bool *marked)
{
	struct lx_id first = lx_id_child(prefix, 0);
	for (uint64_t i = 0; i <= (total ? (total - 1) >> LEAF_BITS : 0); i++) {
		struct key k = key_of(&first, first.n, i);
		const struct leaf *l = *leaf_at(d, &k);
		*marked |= l && l->marked.members;
		leaf_remove(d, &k);
	}
}

static int fold(struct lx_done *d, const struct lx_id *prefix, const struct leaf *first, struct lx_err *e)
{
	bool marked = false;
	if (first->total == UINT64_MAX || first->below < first->total)
		return 0;
	forget_below(d, prefix, first->total, &marked);
	return lx_done_add(d, prefix, marked, e);
}

int lx_done_add(struct lx_done *d, const struct lx_id *id, bool marked, struct lx_err *e)
{
	struct lx_id prefix = lx_id_parent(id, 1);
	if (lx_done_has(d, &prefix) != LX_DONE_NO)
		return 0;
	uint64_t ordinal = lx_id_ordinal(id);
	uint32_t x = (uint32_t)(ordinal & (LEAF_SIZE - 1));
	struct key k = key_of(id, id->n, ordinal >> LEAF_BITS);
	struct leaf *l = leaf_make(d, &k, e);
	if (!l)
		return -1;
	if (marked && !set_has(&l->marked, x) && add_to(d, &l->marked, x, e) < 0)
		return -1;
	if (set_has(&l->all, x))
		return 0;
	if (add_to(d, &l->all, x, e) < 0)
		return -1;
	if (id->n == 1)
		return 0;
	k = key_of(id, id->n, 0);
	struct leaf *first = leaf_make(d, &k, e);
	if (!first)
		return -1;
	first->below++;
	return fold(d, &prefix, first, e);
}

int lx_done_total(struct lx_done *d, const struct lx_id *prefix, uint64_t count, struct lx_err *e)
{
	if (lx_done_has(d, prefix) != LX_DONE_NO)
		return 0;
	struct lx_id id = lx_id_child(prefix, 0);
	struct key k = key_of(&id, id.n, 0);
	struct leaf *first = leaf_make(d, &k, e);
	if (!first)
		return -1;
	first->total = count;
	return fold(d, prefix, first, e);
}

size_t lx_done_intervals(const struct lx_done *d)
{
	size_t n = 0;
	for (size_t i = 0; i < d->n_slots; i++)
		for (const struct leaf *l = d->slots[i]; l; l = l->chain)
			n += set_intervals(&l->all);
	return n;
}

size_t lx_done_bytes(const struct lx_done *d)
{
	return d->bytes;
}

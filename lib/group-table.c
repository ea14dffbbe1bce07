#include "group-int.h"

#include <stdlib.h>

#define FIRST_SLOTS 16
#define KEEP_SLOTS 64 /* a larger table that is empty is freed */
#define FIRST_KIDS 3 /* log2 */
#define SPARSE 8     /* an array by ordinal may have this many places a child */

/* ---- entries ---- */

static size_t entry_size(const struct lx_group *g)
{
	return sizeof(struct entry) + g->id_len * sizeof(uint64_t);
}

uint64_t lx_group_table_bytes(const struct lx_group *g, const struct part *p)
{
	return p->n * lx_slab_size(entry_size(g)) + p->n_slots * sizeof(struct slot);
}

struct lx_id lx_group_id(const struct lx_group *g, const struct entry *e)
{
	struct lx_id id;
	id.n = g->id_len;
	memcpy(id.ord, e->ord, id.n * sizeof(id.ord[0]));
	return id;
}

lx_ref lx_group_ref(const struct lx_group *g, const struct entry *e)
{
	return (lx_ref)(((const uint8_t *)e - g->slab.base) / LX_SLAB_UNIT);
}

static struct slot *slots_of(const struct lx_group *g, const struct part *p)
{
	return lx_slab_at(&g->slab, p->slots);
}

static bool same_ord(const uint64_t *a, const uint64_t *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

struct entry *lx_group_find(const struct lx_group *g, const struct part *p, const struct lx_id *id, uint64_t hash)
{
	if (!p->n)
		return NULL;
	const struct slot *s = slots_of(g, p);
	uint32_t tag = (uint32_t)hash, mask = p->n_slots - 1;
	for (uint32_t i = tag & mask; s[i].entry; i = (i + 1) & mask) {
		if (s[i].tag != tag)
			continue;
		struct entry *e = lx_slab_at(&g->slab, s[i].entry);
		if (same_ord(e->ord, id->ord, g->id_len))
			return e;
	}
	return NULL;
}

void lx_group_prefetch_slot(const struct lx_group *g, const struct part *p, uint64_t hash)
{
	if (p->n)
		__builtin_prefetch(&slots_of(g, p)[(uint32_t)hash & (p->n_slots - 1)]);
}

struct entry *lx_group_prefetch_entry(const struct lx_group *g, const struct part *p, uint64_t hash)
{
	if (!p->n)
		return NULL;
	const struct slot *s = slots_of(g, p);
	uint32_t mask = p->n_slots - 1, i = (uint32_t)hash & mask;
	while (s[i].entry && s[i].tag != (uint32_t)hash)
		i = (i + 1) & mask;
	if (!s[i].entry)
		return NULL;
	uint8_t *e = lx_slab_at(&g->slab, s[i].entry);
	__builtin_prefetch(e, 1);
	__builtin_prefetch(e + sizeof(struct entry), 1);
	return (struct entry *)e;
}

struct entry *lx_group_nth(const struct lx_group *g, const struct part *p, uint32_t slot)
{
	lx_ref ref = slots_of(g, p)[slot].entry;
	return ref ? lx_slab_at(&g->slab, ref) : NULL;
}

static void slot_put(struct slot *s, uint32_t mask, struct slot what)
{
	uint32_t i = what.tag & mask;
	while (s[i].entry)
		i = (i + 1) & mask;
	s[i] = what;
}

/* Room for one more entry: at most three quarters of the slots are taken. */
static int slots_room(struct lx_group *g, struct part *p)
{
	if ((uint64_t)(p->n + 1) * 4 <= (uint64_t)p->n_slots * 3)
		return DONE;
	uint32_t n = p->n_slots ? p->n_slots * 2 : FIRST_SLOTS;
	lx_ref ref = n ? lx_slab_get(&g->slab, n * sizeof(struct slot)) : 0;
	if (!ref)
		return NO_ROOM;
	struct slot *to = lx_slab_at(&g->slab, ref), *from = p->slots ? slots_of(g, p) : NULL;
	memset(to, 0, n * sizeof(*to));
	for (uint32_t i = 0; i < p->n_slots; i++)
		if (from[i].entry)
			slot_put(to, n - 1, from[i]);
	if (p->slots)
		lx_slab_put(&g->slab, p->slots, p->n_slots * sizeof(struct slot));
	p->slots = ref;
	p->n_slots = n;
	return DONE;
}

struct entry *lx_group_entry(struct lx_group *g, struct part *p, const struct lx_id *id, uint64_t hash)
{
	if (slots_room(g, p) != DONE)
		return NULL;
	lx_ref ref = lx_slab_get(&g->slab, entry_size(g));
	if (!ref)
		return NULL;
	struct entry *e = lx_slab_at(&g->slab, ref);
	memset(e, 0, sizeof(*e));
	memcpy(e->ord, id->ord, g->id_len * sizeof(e->ord[0]));
	slot_put(slots_of(g, p), p->n_slots - 1, (struct slot){ (uint32_t)hash, ref });
	p->n++;
	g->entries++;
	return e;
}

/* Linear probing without tombstones: what would be lost behind the hole moves into it. */
static void slot_remove(struct lx_group *g, struct part *p, lx_ref ref, uint32_t tag)
{
	struct slot *s = slots_of(g, p);
	uint32_t mask = p->n_slots - 1, i = tag & mask;
	while (s[i].entry != ref)
		i = (i + 1) & mask;
	for (uint32_t j = (i + 1) & mask; s[j].entry; j = (j + 1) & mask) {
		if (((j - s[j].tag) & mask) < ((j - i) & mask))
			continue;
		s[i] = s[j];
		i = j;
	}
	s[i].entry = 0;
	if (--p->n || p->n_slots <= KEEP_SLOTS)
		return;
	lx_slab_put(&g->slab, p->slots, p->n_slots * sizeof(*s));
	p->slots = 0;
	p->n_slots = 0;
}

void lx_group_remove(struct lx_group *g, struct part *p, struct entry *e)
{
	struct lx_id id = lx_group_id(g, e);
	lx_ref ref = lx_group_ref(g, e);
	if (!(e->flags & ON_DISK))
		lx_group_drop_cells(g, p, e);
	slot_remove(g, p, ref, (uint32_t)lx_id_hash(&id));
	lx_slab_put(&g->slab, ref, entry_size(g));
	g->entries--;
}

void lx_group_remove_all(struct lx_group *g, struct part *p)
{
	struct slot *s = p->slots ? slots_of(g, p) : NULL;
	for (uint32_t i = 0; i < p->n_slots; i++) {
		if (!s[i].entry)
			continue;
		struct entry *e = lx_slab_at(&g->slab, s[i].entry);
		if (!(e->flags & ON_DISK))
			lx_group_drop_cells(g, p, e);
		lx_slab_put(&g->slab, s[i].entry, entry_size(g));
	}
	if (p->slots)
		lx_slab_put(&g->slab, p->slots, p->n_slots * sizeof(struct slot));
	g->entries -= p->n;
	p->slots = 0;
	p->n_slots = p->n = 0;
}

/* ---- cells ---- */

static size_t cell_size(const struct cell *c)
{
	return sizeof(*c) + c->len;
}

static void held(struct part *p, struct entry *e, size_t size)
{
	size_t took = lx_slab_size(size);
	p->held += took;
	e->units += (uint32_t)(took / LX_SLAB_UNIT);
}

static void cell_drop(struct lx_group *g, struct part *p, struct entry *e, lx_ref ref)
{
	size_t size = cell_size(lx_group_at(g, ref)), took = lx_slab_size(size);
	lx_slab_put(&g->slab, ref, size);
	p->held -= took;
	e->units -= (uint32_t)(took / LX_SLAB_UNIT);
}

lx_ref lx_group_cell(struct lx_group *g, struct part *p, struct entry *e, const struct news *n)
{
	size_t size = sizeof(struct cell) + n->body.len;
	lx_ref ref = lx_slab_get(&g->slab, size);
	if (!ref)
		return 0;
	struct cell *c = lx_group_at(g, ref);
	*c = cell_of(n);
	if (n->body.len)
		memcpy(cell_body(c), n->body.p, n->body.len);
	held(p, e, size);
	return ref;
}

/* ---- kids: the cells of children, by ordinal or, when ordinals are far apart, by hash ---- */

static lx_ref *kids_of(const struct lx_group *g, const struct entry *e)
{
	return lx_slab_at(&g->slab, e->kids);
}

static uint32_t places(const struct entry *e)
{
	return e->kids_log2 ? 1u << e->kids_log2 : 0;
}

void lx_group_drop_kids(struct lx_group *g, struct part *p, struct entry *e)
{
	uint32_t n = places(e);
	if (!n)
		return;
	lx_ref *kids = kids_of(g, e);
	for (uint32_t i = 0; i < n; i++)
		if (kids[i])
			cell_drop(g, p, e, kids[i]);
	p->held -= lx_slab_size(n * sizeof(*kids));
	e->units -= (uint32_t)(lx_slab_size(n * sizeof(*kids)) / LX_SLAB_UNIT);
	lx_slab_put(&g->slab, e->kids, n * sizeof(*kids));
	e->kids = 0;
	e->kids_log2 = 0;
	e->flags &= (uint16_t)~HASHED;
}

void lx_group_drop_cells(struct lx_group *g, struct part *p, struct entry *e)
{
	lx_group_drop_kids(g, p, e);
	if (e->parent)
		cell_drop(g, p, e, e->parent);
	if (e->why)
		cell_drop(g, p, e, e->why);
	e->parent = e->why = 0;
}

static uint32_t spread(uint64_t ordinal)
{
	return (uint32_t)(ordinal * 0x9e3779b97f4a7c15u >> 32);
}

/* Where the child with this ordinal is, or would be; NULL: the array does not reach that far. */
static lx_ref *kid_place(const struct lx_group *g, const struct entry *e, uint64_t ordinal)
{
	uint32_t n = places(e);
	if (!n)
		return NULL;
	lx_ref *kids = kids_of(g, e);
	if (!(e->flags & HASHED))
		return ordinal < n ? &kids[ordinal] : NULL;
	uint32_t i = spread(ordinal) & (n - 1);
	while (kids[i] && lx_group_at(g, kids[i])->number != ordinal)
		i = (i + 1) & (n - 1);
	return &kids[i];
}

void lx_group_prefetch_kid(const struct lx_group *g, const struct entry *e, uint64_t ordinal)
{
	if (!(e->flags & (ON_DISK | HASHED)) && ordinal < places(e))
		__builtin_prefetch(&kids_of(g, e)[ordinal], 1);
}

/* The smallest array, as a power of two, with a place for every ordinal up to this one. */
static unsigned log2_over(uint64_t ordinal)
{
	unsigned bits = ordinal ? 64u - (unsigned)__builtin_clzll(ordinal) : 0;
	return bits < FIRST_KIDS ? FIRST_KIDS : bits;
}

static int kids_rebuild(struct lx_group *g, struct part *p, struct entry *e, bool hashed, unsigned log2)
{
	if (log2 > 31)
		return NO_ROOM;
	struct entry to = *e;
	size_t size = sizeof(lx_ref) << log2;
	to.kids = lx_slab_get(&g->slab, size);
	if (!to.kids)
		return NO_ROOM;
	memset(kids_of(g, &to), 0, size);
	to.kids_log2 = (uint8_t)log2;
	to.flags = (uint16_t)(hashed ? e->flags | HASHED : e->flags & ~HASHED);
	uint32_t n = places(e);
	lx_ref *kids = n ? kids_of(g, e) : NULL;
	for (uint32_t i = 0; i < n; i++)
		if (kids[i])
			*kid_place(g, &to, lx_group_at(g, kids[i])->number) = kids[i];
	if (n) {
		size_t old = lx_slab_size(n * sizeof(lx_ref));
		p->held -= old;
		to.units -= (uint32_t)(old / LX_SLAB_UNIT);
		lx_slab_put(&g->slab, e->kids, n * sizeof(lx_ref));
	}
	held(p, &to, size);
	e->kids = to.kids;
	e->kids_log2 = to.kids_log2;
	e->flags = to.flags;
	e->units = to.units;
	return DONE;
}

static uint64_t largest_kid(const struct lx_group *g, const struct entry *e)
{
	uint64_t most = 0;
	lx_ref *kids = kids_of(g, e);
	for (uint32_t i = 0; i < places(e); i++)
		if (kids[i] && lx_group_at(g, kids[i])->number > most)
			most = lx_group_at(g, kids[i])->number;
	return most;
}

/* Make kid_place answer for a new ordinal, with room left. Ordinals are never believed: an array by
 * ordinal is as large as the number of children allows. */
static int kids_room(struct lx_group *g, struct part *p, struct entry *e, uint64_t ordinal)
{
	unsigned most = log2_over((uint64_t)(e->n + 1) * SPARSE), direct = log2_over(ordinal);
	uint32_t n = places(e);
	if (e->flags & HASHED) {
		if ((uint64_t)(e->n + 1) * 4 <= (uint64_t)n * 3)
			return DONE;
		uint64_t top = largest_kid(g, e);
		direct = log2_over(top > ordinal ? top : ordinal);
	} else if (ordinal < n) {
		return DONE;
	} else if (e->flags & HAS_CLOSE && e->count > ordinal && log2_over(e->count - 1) <= most) {
		direct = log2_over(e->count - 1); /* no need to grow again */
	}
	if (direct <= most || direct <= 5)
		return kids_rebuild(g, p, e, false, direct <= 5 && n ? 5 : direct);
	return kids_rebuild(g, p, e, true, log2_over((uint64_t)(e->n + 1) * 2));
}

int lx_group_strength(unsigned outcome)
{
	static const uint8_t s[LX_OUTCOMES] = {
		[LX_PRESENT] = 0, [LX_DROPPED] = 1, [LX_SUPPRESSED] = 2, [LX_FAILED] = 3
	};
	return s[outcome];
}

/* The child is there already. */
static int kid_merge(struct lx_group *g, struct part *p, struct entry *e, lx_ref *at, const struct news *n)
{
	struct cell *c = lx_group_at(g, *at);
	if (c->outcome == LX_PRESENT && n->outcome == LX_PRESENT && !lx_group_same(n, cell_body(c), c->len, c->cut))
		return CONFLICT;
	if (lx_group_strength(n->outcome) <= lx_group_strength(c->outcome))
		return DONE;
	uint8_t was = c->outcome;
	lx_ref ref = lx_group_cell(g, p, e, n);
	if (!ref)
		return NO_ROOM;
	cell_drop(g, p, e, *at);
	*at = ref;
	e->failed += failing(n->outcome) && !failing(was);
	return DONE;
}

int lx_group_place(struct lx_group *g, struct part *p, struct entry *e, const struct news *n, bool *repeat)
{
	lx_ref *at = kid_place(g, e, n->number);
	*repeat = at && *at;
	if (*repeat)
		return kid_merge(g, p, e, at, n);
	if (kids_room(g, p, e, n->number) != DONE)
		return NO_ROOM;
	lx_ref ref = lx_group_cell(g, p, e, n);
	if (!ref)
		return NO_ROOM;
	*kid_place(g, e, n->number) = ref;
	e->n++;
	e->failed += failing(n->outcome);
	return DONE;
}

bool lx_group_beyond(const struct lx_group *g, const struct entry *e, uint64_t count, uint64_t *ordinal)
{
	uint32_t n = places(e), first = !(e->flags & HASHED) && count < n ? (uint32_t)count : 0;
	if (!n || (!(e->flags & HASHED) && count >= n))
		return false;
	const lx_ref *kids = kids_of(g, e);
	bool found = false;
	for (uint32_t i = first; i < n; i++) {
		uint64_t number = kids[i] ? lx_group_at(g, kids[i])->number : 0;
		if (!kids[i] || number < count || (found && number > *ordinal))
			continue;
		*ordinal = number;
		found = true;
	}
	return found;
}

struct lx_span lx_group_lowest(const struct lx_group *g, const struct entry *e)
{
	const lx_ref *kids = kids_of(g, e);
	struct cell *low = NULL;
	for (uint32_t i = 0; i < places(e); i++) {
		struct cell *c = kids[i] ? lx_group_at(g, kids[i]) : NULL;
		if (c && failing(c->outcome) && (!low || c->number < low->number))
			low = c;
	}
	return low ? (struct lx_span){ cell_body(low), low->len } : (struct lx_span){ 0 };
}

static int by_number(const void *a, const void *b, void *ctx)
{
	const struct lx_group *g = ctx;
	uint64_t x = lx_group_at(g, *(const lx_ref *)a)->number, y = lx_group_at(g, *(const lx_ref *)b)->number;
	return x < y ? -1 : x > y;
}

uint32_t lx_group_sort(struct lx_group *g, struct entry *e)
{
	uint32_t n = places(e), to = 0;
	if (!n)
		return 0;
	lx_ref *kids = kids_of(g, e);
	for (uint32_t i = 0; i < n; i++) {
		lx_ref k = kids[i];
		kids[i] = 0;
		if (k)
			kids[to++] = k;
	}
	if (e->flags & HASHED)
		qsort_r(kids, to, sizeof(*kids), by_number, g);
	return to;
}

/* ---- equality ---- */

static bool value_same(struct lx_cur *a, struct lx_cur *b)
{
	struct lx_val x, y;
	if (lx_val_read(a, &x) < 0 || lx_val_read(b, &y) < 0 || x.type != y.type || x.n != y.n)
		return false;
	switch (x.type) {
	case LX_NIL:
		return true;
	case LX_BOOL:
		return x.b == y.b;
	case LX_UINT:
		return x.u == y.u;
	case LX_INT:
		return x.i == y.i;
	case LX_F32:
	case LX_F64:
		return memcmp(&x.f, &y.f, sizeof(x.f)) == 0;
	case LX_EXT:
		return x.ext == y.ext && lx_span_eq(x.s, y.s);
	case LX_STR:
	case LX_BIN:
		return lx_span_eq(x.s, y.s);
	case LX_ARRAY:
	case LX_MAP:
		break;
	}
	uint64_t n = x.type == LX_MAP ? 2 * (uint64_t)x.n : x.n;
	while (n && value_same(a, b))
		n--;
	return n == 0;
}

/* Every field of a is in b with the same value. */
static bool fields_within(struct lx_span a, struct lx_span b)
{
	struct lx_cur c = lx_cur(a);
	struct lx_val head, name;
	if (lx_val_read(&c, &head) < 0)
		return false;
	for (uint32_t i = 0; i < head.n; i++) {
		if (lx_val_read(&c, &name) < 0)
			return false;
		struct lx_span other = lx_map_get(b, (const char *)name.s.p, name.s.len);
		struct lx_cur o = lx_cur(other);
		if (!other.p || !value_same(&c, &o))
			return false;
	}
	return true;
}

bool lx_fields_same(struct lx_span a, struct lx_span b)
{
	struct lx_val x, y;
	struct lx_cur ca = lx_cur(a), cb = lx_cur(b);
	if (lx_span_eq(a, b))
		return true;
	if (!a.p || !b.p || lx_val_read(&ca, &x) < 0 || lx_val_read(&cb, &y) < 0 || x.n != y.n)
		return false;
	return fields_within(a, b) && fields_within(b, a);
}

bool lx_group_same(const struct news *n, const uint8_t *body, size_t len, bool cut)
{
	if (n->cut != cut)
		return false;
	if (cut)
		return memcmp(n->body.p, body, sizeof(uint64_t)) == 0;
	return lx_fields_same(n->body, (struct lx_span){ body, len });
}

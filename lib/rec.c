#include "rec.h"

#include <stdio.h>

/* ---- ids ---- */

bool lx_id_eq(const struct lx_id *a, const struct lx_id *b)
{
	return a->n == b->n && memcmp(a->ord, b->ord, a->n * sizeof(a->ord[0])) == 0;
}

int lx_id_cmp(const struct lx_id *a, const struct lx_id *b)
{
	for (uint32_t i = 0; i < a->n && i < b->n; i++)
		if (a->ord[i] != b->ord[i])
			return a->ord[i] < b->ord[i] ? -1 : 1;
	return a->n < b->n ? -1 : a->n > b->n;
}

struct lx_id lx_id_parent(const struct lx_id *id, uint32_t levels)
{
	struct lx_id up;
	up.n = levels < id->n ? id->n - levels : 0;
	memcpy(up.ord, id->ord, up.n * sizeof(up.ord[0]));
	return up;
}

struct lx_id lx_id_child(const struct lx_id *id, uint64_t ordinal)
{
	struct lx_id down;
	uint32_t n = id->n < LX_ID_MAX ? id->n : LX_ID_MAX - 1;
	memcpy(down.ord, id->ord, n * sizeof(down.ord[0]));
	down.ord[n] = ordinal;
	down.n = n + 1;
	return down;
}

uint64_t lx_id_ordinal(const struct lx_id *id)
{
	return id->n ? id->ord[id->n - 1] : 0;
}

uint64_t lx_id_hash(const struct lx_id *id)
{
	uint64_t h = 0x9e3779b97f4a7c15u * (id->n + 1);
	for (uint32_t i = 0; i < id->n; i++) {
		h ^= id->ord[i];
		h *= 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

void lx_id_text(const struct lx_id *id, char *out, size_t size)
{
	size_t n = 0;
	if (size)
		out[0] = '\0';
	for (uint32_t i = 0; i < id->n && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%llu", i ? "." : "", (unsigned long long)id->ord[i]);
}

void lx_pack_id(struct lx_buf *b, const struct lx_id *id)
{
	lx_pack_array(b, id->n);
	for (uint32_t i = 0; i < id->n; i++)
		lx_pack_uint(b, id->ord[i]);
}

static inline int read_uint(struct lx_cur *c, uint64_t *out)
{
	ptrdiff_t left = c->end - c->p;
	if (left > 0 && c->p[0] <= 0x7f) {
		*out = *c->p++;
		return 0;
	}
	unsigned width = left > 0 ? c->p[0] - 0xccu : 4, n = 1u << (width & 3);
	if (width < 4 && left > n) { /* uint 8 to uint 64 */
		uint64_t v = 0;
		for (unsigned i = 1; i <= n; i++)
			v = v << 8 | c->p[i];
		*out = v;
		c->p += 1 + n;
		return 0;
	}
	struct lx_val v;
	if (lx_val_read(c, &v) < 0 || v.type != LX_UINT)
		return -1;
	*out = v.u;
	return 0;
}

int lx_id_read(struct lx_cur *c, uint32_t max_len, struct lx_id *id)
{
	struct lx_val v;
	if (c->p < c->end && *c->p >= 0x90 && *c->p <= 0x9f)
		v.n = *c->p++ & 15;
	else if (lx_val_read(c, &v) < 0 || v.type != LX_ARRAY)
		return -1;
	if (v.n == 0 || v.n > max_len || v.n > LX_ID_MAX)
		return -1;
	id->n = v.n;
	for (uint32_t i = 0; i < v.n; i++)
		if (read_uint(c, &id->ord[i]) < 0 || id->ord[i] == UINT64_MAX)
			return -1;
	return 0;
}

/* ---- parsing ---- */

#define ULL(x) ((unsigned long long)(x))

static int bad(struct lx_err *e, const char *why)
{
	return lx_err_set(e, LX_DATA, "%s", why);
}

/* A record being parsed: each part is walked once, in order. */
struct parse {
	struct lx_cur c;
	const struct lx_limits *l;
	bool nested; /* a field is an array or a map */
	bool cut; /* the bytes were cut at l->record */
	struct lx_err *e;
};

static int too_deep(const struct lx_limits *l, struct lx_err *e)
{
	return lx_err_set(e, LX_DATA, "nesting over %u (--max-depth)", l->depth);
}

static int too_long(const struct lx_limits *l, struct lx_err *e)
{
	return lx_err_set(e, LX_DATA, "over %llu bytes (--max-record)", ULL(l->record));
}

static int check_fields(uint32_t n, const struct lx_limits *l, struct lx_err *e)
{
	if (l->depth < 2)
		return too_deep(l, e);
	if (n > l->fields)
		return lx_err_set(e, LX_DATA, "%u fields, over %u (--max-fields)", n, l->fields);
	return 0;
}

static int walk_failed(const struct parse *p, enum lx_walk w)
{
	if (w == LX_WALK_DEPTH)
		return too_deep(p->l, p->e);
	if (w == LX_WALK_RESERVED)
		return bad(p->e, "byte c1, which msgpack never uses");
	if (p->cut)
		return too_long(p->l, p->e);
	return bad(p->e, "its frame ends before it does");
}

/* Walk one value that stands inside `outer` containers; remember where it lies. */
static inline int take(struct parse *p, unsigned outer, struct lx_span *s)
{
	size_t left = (size_t)(p->c.end - p->c.p), len = left ? lx_val_quick(p->c.p, left) : 0;
	if (!len) {
		unsigned depth = p->l->depth > outer ? p->l->depth - outer : 0;
		enum lx_walk w = lx_val_walk(p->c.p, left, depth, &len);
		if (w != LX_WALK_OK)
			return walk_failed(p, w);
	}
	if (s)
		*s = (struct lx_span){ p->c.p, len };
	p->c.p += len;
	return 0;
}

/* Step over at most n fields whose name and value are short and usual; how many. */
static inline uint32_t step_over(struct parse *parse, uint32_t n)
{
	const uint8_t *p = parse->c.p, *end = parse->c.end;
	uint32_t i = 0;
	for (; i < n && p < end && (*p & 0xe0) == 0xa0; i++) {
		const uint8_t *value = p + 1 + (*p & 31);
		size_t len = value < end ? lx_val_quick(value, (size_t)(end - value)) : 0;
		if (!len)
			break;
		p = value + len;
	}
	parse->c.p = p;
	return i;
}

/* One field, whatever it is. */
static int take_field(struct parse *p)
{
	struct lx_span name;
	struct lx_val v;
	if (take(p, 2, &name) < 0)
		return -1;
	if (lx_val_from(name, &v) < 0 || v.type != LX_STR)
		return bad(p->e, "a field name is not a string");
	p->nested = p->nested || p->c.p == p->c.end || lx_val_has_items(*p->c.p);
	return take(p, 2, NULL);
}

static inline int take_container(struct parse *p, uint8_t fix, struct lx_val *v)
{
	const uint8_t *start = p->c.p;
	size_t len;
	if (start < p->c.end && (*start & 0xf0) == fix) {
		v->type = fix == 0x80 ? LX_MAP : LX_ARRAY;
		v->n = *p->c.p++ & 15;
		return 0;
	}
	if (lx_val_read(&p->c, v) == 0)
		return 0;
	return walk_failed(p, lx_val_walk(start, (size_t)(p->c.end - start), p->l->depth, &len));
}

static int take_fields(struct parse *p, struct lx_rec *r)
{
	struct lx_val v;
	const uint8_t *start = p->c.p;
	if (take_container(p, 0x80, &v) < 0)
		return -1;
	if (v.type != LX_MAP)
		return bad(p->e, "fields are not a map");
	if (check_fields(v.n, p->l, p->e) < 0)
		return -1;
	for (uint32_t i = step_over(p, v.n); i < v.n; i += 1 + step_over(p, v.n - i - 1))
		if (take_field(p) < 0)
			return -1;
	r->fields = (struct lx_span){ start, (size_t)(p->c.p - start) };
	r->flat = !p->nested;
	return 0;
}

static bool take_nil(struct parse *p)
{
	if (p->c.p == p->c.end || *p->c.p != 0xc0)
		return false;
	p->c.p++;
	return true;
}

static int take_outcome(struct parse *p, bool close, enum lx_outcome *o)
{
	uint64_t v;
	if (read_uint(&p->c, &v) < 0 || v >= LX_OUTCOMES || (close ? v == LX_DROPPED : v == LX_PRESENT))
		return bad(p->e, close ? "the outcome of a close is not 0, 2 or 3" : "the outcome is not 1, 2 or 3");
	*o = (enum lx_outcome)v;
	return 0;
}

static int take_cause(struct parse *p, struct lx_rec *r)
{
	bool needed = r->outcome == LX_FAILED || r->outcome == LX_SUPPRESSED;
	struct lx_cause cause;
	if (take_nil(p))
		return needed ? bad(p->e, "failed or suppressed without a cause") : 0;
	if (r->outcome == LX_PRESENT)
		return bad(p->e, "a cause for what is present");
	if (take(p, 1, &r->cause) < 0)
		return -1;
	return lx_cause_read(r->cause, &cause) < 0 ? bad(p->e, "the cause lacks type, message, anchor or origin, or has one of a wrong type") : 0;
}

/* Everything behind kind, domain and id. */
static int take_rest(struct parse *p, uint32_t n, struct lx_rec *r)
{
	bool root = r->kind != LX_CLOSE && r->id.n == 1;
	uint32_t want = r->kind == LX_ITEM ? 4 + root : r->kind == LX_GONE ? 6 + root : 6;
	if (n != want)
		return lx_err_set(p->e, LX_DATA, "%u elements in a record of kind %d, not %u", n, (int)r->kind, want);
	if (r->kind == LX_CLOSE) {
		if (read_uint(&p->c, &r->count) < 0 || r->count == UINT64_MAX)
			return bad(p->e, "the count of a close is not an unsigned integer below 2^64-1");
		return take_outcome(p, true, &r->outcome) < 0 || take_cause(p, r) < 0 ? -1 : 0;
	}
	if (r->kind == LX_GONE && (take_outcome(p, false, &r->outcome) < 0 || take_cause(p, r) < 0))
		return -1;
	if ((r->kind == LX_ITEM || !take_nil(p)) && take_fields(p, r) < 0)
		return -1;
	return root ? take(p, 1, &r->key) : 0;
}

static int take_head(struct parse *p, struct lx_rec *r, uint32_t *n)
{
	struct lx_val v;
	uint64_t kind, domain;
	if (take_container(p, 0x90, &v) < 0)
		return -1;
	if (v.type != LX_ARRAY || v.n < 4)
		return bad(p->e, "not an array of four elements or more");
	if (read_uint(&p->c, &kind) < 0 || kind < LX_ITEM || kind > LX_CLOSE)
		return bad(p->e, "not a record of a known kind");
	if (read_uint(&p->c, &domain) < 0 || domain >= UINT32_MAX)
		return bad(p->e, "the domain is not an index");
	r->kind = (enum lx_kind)kind;
	r->domain = (uint32_t)domain;
	if (lx_id_read(&p->c, p->l->id_len, &r->id) < 0)
		return lx_err_set(p->e, LX_DATA, "the id is not an array of 1 to %u ordinals (--max-id)", p->l->id_len);
	*n = v.n;
	return 0;
}

int lx_rec_parse(const uint8_t *p, size_t n, const struct lx_limits *l, struct lx_rec *r,
                 size_t *used, struct lx_err *e)
{
	bool cut = n > l->record;
	struct parse parse = { .c = { p, p + (cut ? (size_t)l->record : n) }, .l = l, .cut = cut, .e = e };
	uint32_t elements = 0;
	/* All but the 128 bytes of ordinals. */
	memset(r, 0, offsetof(struct lx_rec, id));
	memset(&r->count, 0, sizeof(*r) - offsetof(struct lx_rec, count));
	if (take_head(&parse, r, &elements) < 0 || take_rest(&parse, elements, r) < 0)
		return -1;
	*used = (size_t)(parse.c.p - p);
	r->raw = (struct lx_span){ p, *used };
	return 0;
}

/* ---- building ---- */

void lx_rec_item_head(struct lx_buf *b, uint32_t domain, const struct lx_id *id)
{
	lx_pack_array(b, id->n == 1 ? 5 : 4);
	lx_pack_uint(b, LX_ITEM);
	lx_pack_uint(b, domain);
	lx_pack_id(b, id);
}

void lx_rec_item(struct lx_buf *b, uint32_t domain, const struct lx_id *id, struct lx_span fields, struct lx_span key)
{
	lx_rec_item_head(b, domain, id);
	lx_buf_span(b, fields);
	if (id->n == 1)
		lx_buf_span(b, key);
}

int lx_rec_made(struct lx_buf *b, uint32_t domain, const struct lx_id *id, struct lx_span fields, struct lx_span key,
                const struct lx_limits *l, struct lx_rec *r, struct lx_err *e)
{
	struct lx_cur c = lx_cur(fields);
	struct lx_val v;
	lx_buf_clear(b);
	lx_rec_item_head(b, domain, id);
	size_t head = b->len;
	lx_buf_span(b, fields);
	lx_buf_span(b, key);
	if (lx_buf_check(b, e) < 0)
		return -1;
	if (b->len > l->record)
		return too_long(l, e);
	if (lx_val_read(&c, &v) < 0 || check_fields(v.n, l, e) < 0)
		return -1;
	*r = (struct lx_rec){
		.kind = LX_ITEM,
		.domain = domain,
		.id = *id,
		.raw = lx_buf_view(b),
		.fields = { b->p + head, fields.len },
		.key = { key.p ? b->p + head + fields.len : NULL, key.len },
	};
	return 0;
}

static void span_or_nil(struct lx_buf *b, struct lx_span s)
{
	if (s.p)
		lx_buf_span(b, s);
	else
		lx_pack_nil(b);
}

void lx_rec_gone(struct lx_buf *b, uint32_t domain, const struct lx_id *id, enum lx_outcome o,
                 struct lx_span cause, struct lx_span fields, struct lx_span key)
{
	lx_pack_array(b, id->n == 1 ? 7 : 6);
	lx_pack_uint(b, LX_GONE);
	lx_pack_uint(b, domain);
	lx_pack_id(b, id);
	lx_pack_uint(b, o);
	span_or_nil(b, cause);
	span_or_nil(b, fields);
	if (id->n == 1)
		span_or_nil(b, key);
}

void lx_rec_close(struct lx_buf *b, uint32_t domain, const struct lx_id *parent, uint64_t count,
                  enum lx_outcome o, struct lx_span cause)
{
	lx_pack_array(b, 6);
	lx_pack_uint(b, LX_CLOSE);
	lx_pack_uint(b, domain);
	lx_pack_id(b, parent);
	lx_pack_uint(b, count);
	lx_pack_uint(b, o);
	span_or_nil(b, cause);
}

/* ---- causes ---- */

static void pack_where(struct lx_buf *b, const char *name, uint32_t domain, const struct lx_id *id)
{
	lx_pack_cstr(b, name);
	lx_pack_array(b, 2);
	lx_pack_uint(b, domain);
	lx_pack_id(b, id);
}

static void pack_text(struct lx_buf *b, const char *name, struct lx_span s)
{
	lx_pack_cstr(b, name);
	lx_pack_str(b, s);
}

void lx_cause_pack(struct lx_buf *b, const struct lx_cause *c)
{
	lx_pack_map(b, 4 + !!c->judged.len + !!c->stage.len + !!c->host.len + !!c->attempt + !!c->elapsed_ms);
	pack_text(b, "type", c->type);
	pack_text(b, "message", c->message);
	pack_where(b, "anchor", c->anchor_domain, &c->anchor);
	pack_where(b, "origin", c->origin_domain, &c->origin);
	if (c->judged.len)
		pack_text(b, "judged", c->judged);
	if (c->stage.len)
		pack_text(b, "stage", c->stage);
	if (c->host.len)
		pack_text(b, "host", c->host);
	if (c->attempt) {
		lx_pack_cstr(b, "attempt");
		lx_pack_uint(b, c->attempt);
	}
	if (c->elapsed_ms) {
		lx_pack_cstr(b, "elapsed");
		lx_pack_uint(b, c->elapsed_ms);
	}
}

static int read_where(struct lx_span map, const char *name, uint32_t *domain, struct lx_id *id)
{
	struct lx_span s = lx_map_get(map, name, strlen(name));
	struct lx_cur c = lx_cur(s);
	struct lx_val v;
	uint64_t d;
	if (!s.p || lx_val_read(&c, &v) < 0 || v.type != LX_ARRAY || v.n != 2 || read_uint(&c, &d) < 0 ||
	    d >= UINT32_MAX || lx_id_read(&c, LX_ID_MAX, id) < 0)
		return -1;
	*domain = (uint32_t)d;
	return 0;
}

/* Absent is fine, another type is not. */
static bool optional_str(struct lx_span map, const char *key, struct lx_span *out)
{
	return lx_map_str(map, key, out) || !lx_map_get(map, key, strlen(key)).p;
}

static bool optional_uint(struct lx_span map, const char *key, uint64_t *out)
{
	return lx_map_uint(map, key, out) || !lx_map_get(map, key, strlen(key)).p;
}

int lx_cause_read(struct lx_span s, struct lx_cause *c)
{
	memset(c, 0, sizeof(*c));
	if (!lx_map_str(s, "type", &c->type) || !lx_map_str(s, "message", &c->message) ||
	    read_where(s, "anchor", &c->anchor_domain, &c->anchor) < 0 ||
	    read_where(s, "origin", &c->origin_domain, &c->origin) < 0)
		return -1;
	return optional_str(s, "judged", &c->judged) && optional_str(s, "stage", &c->stage) && optional_str(s, "host", &c->host) &&
	       optional_uint(s, "attempt", &c->attempt) && optional_uint(s, "elapsed", &c->elapsed_ms) ? 0 : -1;
}

bool lx_cause_began_at(struct lx_span cause, uint32_t domain, const struct lx_id *id)
{
	struct lx_cause c;
	return cause.p && lx_cause_read(cause, &c) == 0 && !c.judged.len && c.origin_domain == domain && lx_id_eq(&c.origin, id);
}

/* ---- editing ---- */

static const struct lx_edit *edit_of(struct lx_span name, const struct lx_edit *edits, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (lx_span_eq(name, edits[i].name))
			return &edits[i];
	return NULL;
}

static int skip_old(struct lx_cur *c, const struct lx_edit *edit)
{
	if (!edit || !edit->old.p || edit->old.p != c->p)
		return lx_val_skip(c, NULL);
	c->p += edit->old.len;
	return 0;
}

/* How many of the old fields stay. */
static uint32_t count_kept(struct lx_cur c, uint32_t fields, const struct lx_edit *edits, size_t n)
{
	uint32_t kept = 0;
	struct lx_val k;
	for (uint32_t i = 0; i < fields && lx_val_read(&c, &k) == 0; i++) {
		const struct lx_edit *edit = edit_of(k.s, edits, n);
		kept += !edit;
		skip_old(&c, edit);
	}
	return kept;
}

int lx_fields_edit(struct lx_buf *b, struct lx_span fields, const struct lx_edit *edits, size_t n,
                   const struct lx_limits *l, struct lx_err *e)
{
	static const uint8_t empty = 0x80;
	struct lx_cur c = lx_cur(fields.p ? fields : (struct lx_span){ &empty, 1 });
	struct lx_val head, k;
	if (lx_val_read(&c, &head) < 0 || head.type != LX_MAP)
		return bad(e, "fields are not a map");
	uint32_t added = 0;
	for (size_t i = 0; i < n; i++)
		added += edits[i].value.p != NULL;
	/* The head of a small map is one byte whatever the count: it is put right once the fields have been copied. */
	bool small = head.n + added <= 15;
	uint32_t kept = !n || small ? head.n : count_kept(c, head.n, edits, n);
	if ((uint64_t)kept + added > l->fields && !small)
		return lx_err_set(e, LX_DATA, "%llu fields, over %u (--max-fields)", ULL(kept) + added, l->fields);
	size_t at = b->len;
	lx_pack_map(b, kept + added);
	/* Neighbours that stay are copied in one piece: all of them when nothing is taken away. */
	const uint8_t *from = c.p;
	for (uint32_t i = 0; i < head.n && n && (small || kept < head.n); i++) {
		const uint8_t *pair = c.p;
		if (lx_val_read(&c, &k) < 0)
			return bad(e, "fields are damaged");
		const struct lx_edit *edit = edit_of(k.s, edits, n);
		if (skip_old(&c, edit) < 0)
			return bad(e, "fields are damaged");
		if (!edit)
			continue;
		lx_buf_add(b, from, (size_t)(pair - from));
		from = c.p;
		kept -= small;
	}
	lx_buf_add(b, from, (size_t)(c.end - from));
	if (small && !b->failed)
		b->p[at] = (uint8_t)(0x80 | (kept + added));
	if (kept + added > l->fields)
		return lx_err_set(e, LX_DATA, "%u fields, over %u (--max-fields)", kept + added, l->fields);
	for (size_t i = 0; i < n; i++) {
		if (!edits[i].value.p)
			continue;
		lx_pack_str(b, edits[i].name);
		lx_buf_span(b, edits[i].value);
	}
	return lx_buf_check(b, e);
}

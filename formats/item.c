#include "item.h"

#include "json.h"

#include <stdio.h>

const char *lx_outcome_name(enum lx_outcome o)
{
	static const char *const names[] = { "present", "dropped", "failed", "suppressed" };
	return names[o];
}

void lx_item_text_free(struct lx_item_text *t)
{
	lx_buf_free(&t->map);
	lx_buf_free(&t->fields);
}

/* ---- words ---- */

void lx_item_where(const struct lx_plan *p, const struct lx_rec *r, char out[LX_WHERE_MAX])
{
	int path[LX_DOMAINS_MAX];
	size_t n = 0;
	struct lx_cause c;
	out[0] = '\0';
	if (!r->cause.p || lx_plan_cause(p, r->cause, &c) < 0 || c.origin_domain >= (uint32_t)p->n_domains)
		return;
	int levels = lx_plan_levels(p, (int)c.origin_domain, (int)r->domain);
	struct lx_id up = lx_id_parent(&c.origin, levels > 0 ? (uint32_t)levels : 0);
	if (levels < 0 || !lx_id_eq(&up, &r->id))
		levels = (int)c.origin.n;
	for (int i = 0, d = (int)c.origin_domain; i < levels && d >= 0; i++, d = p->domains[d].parent)
		path[i] = d;
	for (int i = levels; i > 0 && n < LX_WHERE_MAX; i--)
		n += (size_t)snprintf(out + n, LX_WHERE_MAX - n, "%s%s %llu", n ? ", " : "", p->domains[path[i - 1]].name,
		                      (unsigned long long)c.origin.ord[c.origin.n - (uint32_t)i] + 1);
}

/* ---- writing ---- */

static uint32_t pairs(struct lx_span map, struct lx_cur *at)
{
	struct lx_val v;
	*at = lx_cur(map);
	return map.p && lx_val_read(at, &v) == 0 && v.type == LX_MAP ? v.n : 0;
}

/* [domain, id] with the domain's name instead of its number. */
static void pack_anchor(struct lx_buf *b, const struct lx_plan *p, uint32_t domain, const struct lx_id *id)
{
	lx_pack_array(b, 2);
	lx_pack_cstr(b, p->domains[domain].name);
	lx_pack_id(b, id);
}

/* The cause as it came, but for anchor and origin (which may be the item that could only be named), and with `where`
 * behind the message. */
static void pack_cause(struct lx_buf *b, const struct lx_plan *p, const struct lx_rec *r, const struct lx_cause *c)
{
	struct lx_cur at;
	uint32_t n = pairs(r->cause, &at);
	bool known = !c->judged.len && lx_map_get(r->cause, "judged", 6).p;
	char where[LX_WHERE_MAX];
	lx_item_where(p, r, where);
	lx_pack_map(b, n - known + (where[0] != '\0'));
	for (uint32_t i = 0; i < n; i++) {
		struct lx_span key, value;
		struct lx_val k;
		if (lx_val_skip(&at, &key) < 0 || lx_val_skip(&at, &value) < 0 || lx_val_from(key, &k) < 0)
			return;
		if (known && k.type == LX_STR && lx_span_eq(k.s, lx_span_str("judged")))
			continue;
		lx_buf_span(b, key);
		if (k.type == LX_STR && lx_span_eq(k.s, lx_span_str("anchor")))
			pack_anchor(b, p, c->anchor_domain, &c->anchor);
		else if (k.type == LX_STR && lx_span_eq(k.s, lx_span_str("origin")))
			pack_anchor(b, p, c->origin_domain, &c->origin);
		else
			lx_buf_span(b, value);
		if (where[0] && k.type == LX_STR && lx_span_eq(k.s, lx_span_str("message"))) {
			lx_pack_cstr(b, "where");
			lx_pack_cstr(b, where);
			where[0] = '\0';
		}
	}
}

/* Our member. */
static void pack_lx(struct lx_buf *b, const struct lx_plan *p, const struct lx_rec *r, struct lx_span inside)
{
	struct lx_cause c;
	bool gone = r->outcome != LX_PRESENT;
	bool cause = gone && r->cause.p && lx_plan_cause(p, r->cause, &c) == 0 && c.anchor_domain < (uint32_t)p->n_domains &&
	             c.origin_domain < (uint32_t)p->n_domains;
	bool below = r->domain > 0 && r->domain < (uint32_t)p->n_domains;
	lx_pack_map(b, 1 + below + (r->key.p != NULL) + gone + cause + (inside.p != NULL));
	if (below) {
		lx_pack_cstr(b, "domain");
		lx_pack_cstr(b, p->domains[r->domain].name);
	}
	lx_pack_cstr(b, "id");
	lx_pack_id(b, &r->id);
	if (r->key.p) {
		lx_pack_cstr(b, "key");
		lx_buf_span(b, r->key);
	}
	if (gone) {
		lx_pack_cstr(b, "outcome");
		lx_pack_cstr(b, lx_outcome_name(r->outcome));
	}
	if (cause) {
		lx_pack_cstr(b, "cause");
		pack_cause(b, p, r, &c);
	}
	if (inside.p) {
		lx_pack_cstr(b, "fields");
		lx_buf_span(b, inside);
	}
}

int lx_item_write(struct lx_buf *out, struct lx_item_text *t, const struct lx_plan *p, const struct lx_rec *r,
                  struct lx_span fields, struct lx_err *e)
{
	static const char plain[] = "{\"lx\":";
	struct lx_buf *b = &t->map;
	struct lx_cur at;
	size_t before = out->len;
	uint32_t n = pairs(fields, &at);
	lx_buf_clear(b);
	lx_pack_map(b, n + 1);
	lx_pack_cstr(b, "lx");
	pack_lx(b, p, r, (struct lx_span){ 0 });
	if (n)
		lx_buf_add(b, at.p, (size_t)(at.end - at.p));
	if (lx_buf_check(b, e) < 0 || lx_json_write(out, lx_buf_view(b), e) < 0)
		return -1;
	if (memcmp(out->p + before, plain, sizeof(plain) - 1) == 0)
		return 0;
	/* No object can hold them side by side: it became a list of pairs. */
	out->len = before;
	lx_buf_clear(b);
	lx_pack_map(b, 1);
	lx_pack_cstr(b, "lx");
	pack_lx(b, p, r, fields);
	return lx_buf_check(b, e) < 0 ? -1 : lx_json_write(out, lx_buf_view(b), e);
}

/* ---- reading ---- */

/* Whether the value of a member `lx` is what lx_item_write puts there, and not some field of the user's. */
static bool is_ours(struct lx_span lx)
{
	static const char *const names[] = { "domain", "id", "key", "outcome", "cause", "fields" };
	struct lx_cur at;
	struct lx_val k;
	uint32_t n = pairs(lx, &at);
	for (uint32_t i = 0; i < n; i++) {
		bool known = false;
		if (lx_val_read(&at, &k) < 0 || k.type != LX_STR || lx_val_skip(&at, NULL) < 0)
			return false;
		for (size_t m = 0; m < sizeof(names) / sizeof(*names); m++)
			known = known || lx_span_eq(k.s, lx_span_str(names[m]));
		if (!known)
			return false;
	}
	return lx_val_from(lx_map_get(lx, "id", 2), &k) == 0 && k.type == LX_ARRAY;
}

int lx_item_read(struct lx_item_text *t, struct lx_span object, struct lx_span *fields, struct lx_span *key, struct lx_err *e)
{
	static const struct lx_limits any = { .fields = UINT32_MAX };
	struct lx_edit gone = { .name = lx_span_str("lx") };
	struct lx_span lx = lx_map_get(object, "lx", 2);
	struct lx_val v;
	if (!lx.p || !is_ours(lx))
		return 0;
	*key = lx_map_get(lx, "key", 3);
	*fields = lx_map_get(lx, "fields", 6);
	if (fields->p && lx_val_from(*fields, &v) == 0 && v.type == LX_MAP)
		return 1;
	lx_buf_clear(&t->fields);
	if (lx_fields_edit(&t->fields, object, &gone, 1, &any, e) < 0 || lx_buf_check(&t->fields, e) < 0)
		return -1;
	*fields = lx_buf_view(&t->fields);
	return 1;
}

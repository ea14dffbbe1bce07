/* The parser of records and the editor of fields: any bytes at all, with low and with usual limits. What is accepted
 * lies within the input, is built again as the same bytes' meaning, and survives an edit. */
#include "fuzz.h"

static const struct lx_limits usual = LX_LIMITS_DEFAULT;
static const struct lx_limits low = { .record = 64, .frame = 256, .depth = 4, .id_len = 2, .fields = 2 };

static bool within(struct lx_span inner, struct lx_span outer)
{
	return !inner.p || (inner.p >= outer.p && inner.len <= outer.len && (size_t)(inner.p - outer.p) <= outer.len - inner.len);
}

static void same_record(const struct lx_rec *a, const struct lx_rec *b)
{
	HOLDS(a->kind == b->kind && a->outcome == b->outcome && a->domain == b->domain && a->count == b->count);
	HOLDS(lx_id_eq(&a->id, &b->id) && lx_id_cmp(&a->id, &b->id) == 0 && lx_id_hash(&a->id) == lx_id_hash(&b->id));
	HOLDS(!a->fields.p == !b->fields.p && lx_span_eq(a->fields, b->fields));
	HOLDS(!a->cause.p == !b->cause.p && lx_span_eq(a->cause, b->cause) && lx_span_eq(a->key, b->key));
}

/* Built from its parts it parses as the same record. */
static void rebuild(const struct lx_rec *r)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	struct lx_rec again;
	size_t used;
	if (r->kind == LX_ITEM)
		lx_rec_item(&b, r->domain, &r->id, r->fields, r->key);
	else if (r->kind == LX_GONE)
		lx_rec_gone(&b, r->domain, &r->id, r->outcome, r->cause, r->fields, r->key);
	else
		lx_rec_close(&b, r->domain, &r->id, r->count, r->outcome, r->cause);
	HOLDS(lx_rec_parse(b.p, b.len, &usual, &again, &used, &e) == 0 && used == b.len);
	same_record(r, &again);
	lx_buf_free(&b);
}

static void edit(const struct lx_rec *r)
{
	static const uint8_t one = 0x01;
	struct lx_edit edits[] = { { lx_span_str("data"), { &one, 1 } }, { lx_span_str("path"), { 0 } } };
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	struct lx_val v;
	size_t len;
	if (lx_fields_edit(&b, r->fields, edits, 2, &usual, &e) == 0) {
		HOLDS(lx_val_walk(b.p, b.len, 64, &len) == LX_WALK_OK && len == b.len);
		HOLDS(lx_val_from(lx_map_get(lx_buf_view(&b), "data", 4), &v) == 0 && v.type == LX_UINT && v.u == 1);
		HOLDS(!lx_map_get(lx_buf_view(&b), "path", 4).p);
	} else {
		HOLDS(e.code == LX_DATA);
	}
	lx_buf_free(&b);
}

static void cause(const struct lx_rec *r)
{
	struct lx_cause c, again;
	struct lx_buf b = { 0 };
	HOLDS(lx_cause_read(r->cause, &c) == 0);
	HOLDS(within(c.type, r->cause) && within(c.message, r->cause) && within(c.stage, r->cause) && within(c.host, r->cause));
	lx_cause_pack(&b, &c);
	HOLDS(lx_cause_read(lx_buf_view(&b), &again) == 0);
	HOLDS(lx_span_eq(c.type, again.type) && lx_span_eq(c.message, again.message) && lx_id_eq(&c.anchor, &again.anchor));
	lx_buf_free(&b);
}

static void one(struct lx_span in, const struct lx_limits *l)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_rec r;
	char text[LX_ID_TEXT_MAX];
	size_t used;
	if (lx_rec_parse(in.p, in.len, l, &r, &used, &e) < 0) {
		HOLDS(e.code == LX_DATA && e.msg[0]);
		return;
	}
	HOLDS(used > 0 && used <= in.len && used <= l->record && r.raw.p == in.p && r.raw.len == used);
	HOLDS(within(r.fields, r.raw) && within(r.cause, r.raw) && within(r.key, r.raw));
	HOLDS(r.id.n >= 1 && r.id.n <= l->id_len);
	lx_id_text(&r.id, text, sizeof(text));
	HOLDS(strlen(text) < sizeof(text) - 1);
	rebuild(&r);
	if (r.kind != LX_CLOSE)
		edit(&r);
	if (r.cause.p)
		cause(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of exactly this size, so that a sanitizer sees a read of one byte too many. */
	uint8_t *p = malloc(size + !size);
	HOLDS(p != NULL);
	memcpy(p, data, size);
	one((struct lx_span){ p, size }, &usual);
	one((struct lx_span){ p, size }, &low);
	free(p);
	return 0;
}

FUZZ_MAIN("tests/fuzz/seeds/record")

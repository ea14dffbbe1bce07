/* The writer. A map is looked through before it is written, since its form depends on all of its keys. */
#include "json_int.h"

#include "base64.h"
#include "num.h"
#include "value.h"

#include <math.h>

/* ---- strings and bytes ---- */

static void put_escaped(struct lx_buf *out, uint8_t c)
{
	static const char hex[] = "0123456789abcdef", from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	const char *hit = c ? strchr(from, c) : NULL;
	if (hit) {
		char two[2] = { '\\', to[hit - from] };
		lx_buf_add(out, two, 2);
	} else {
		char six[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };
		lx_buf_add(out, six, 6);
	}
}

/* s is UTF-8. */
static void put_string(struct lx_buf *out, struct lx_span s)
{
	const uint8_t *p = s.p, *end = s.p + s.len;
	lx_buf_byte(out, '"');
	for (;;) {
		const uint8_t *q = json_plain(p, end);
		lx_buf_add(out, p, (size_t)(q - p));
		if (q == end)
			break;
		put_escaped(out, *q);
		p = q + 1;
	}
	lx_buf_byte(out, '"');
}

static void put_base64(struct lx_buf *out, struct lx_span s)
{
	lx_buf_byte(out, '"');
	lx_base64_encode(out, s);
	lx_buf_byte(out, '"');
}

void lx_json_bin(struct lx_buf *out, struct lx_span s)
{
	lx_buf_str(out, "{\"$bin\":");
	put_base64(out, s);
	lx_buf_byte(out, '}');
}

void lx_json_str(struct lx_buf *out, struct lx_span s)
{
	if (lx_span_utf8(s)) {
		put_string(out, s);
		return;
	}
	lx_buf_str(out, "{\"$str\":");
	put_base64(out, s);
	lx_buf_byte(out, '}');
}

void lx_json_cstr(struct lx_buf *out, const char *s)
{
	lx_json_str(out, lx_span_str(s));
}

/* ---- numbers ---- */

static void put_float(struct lx_buf *out, const char *text, size_t n, bool finite)
{
	if (!finite)
		lx_buf_str(out, "{\"$float\":\"");
	lx_buf_add(out, text, n);
	if (!finite)
		lx_buf_str(out, "\"}");
}

void lx_json_f64(struct lx_buf *out, double v)
{
	char text[LX_NUM_MAX];
	put_float(out, text, lx_num_f64(text, v), isfinite(v));
}

static void put_f32(struct lx_buf *out, float v)
{
	char text[LX_NUM_MAX];
	put_float(out, text, lx_num_f32(text, v), isfinite(v));
}

static void put_uint(struct lx_buf *out, uint64_t v, bool negative)
{
	char text[24], *p = text + sizeof(text);
	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	if (negative)
		*--p = '-';
	lx_buf_add(out, p, (size_t)(text + sizeof(text) - p));
}

/* Whether the scanner would make the very same ext of the text. */
static bool is_big_number(struct lx_span s)
{
	struct lx_buf scratch = { 0 };
	struct json_num n;
	const uint8_t *bad;
	bool big = json_number(s.p, s.p + s.len, &n, &bad, &scratch) == s.p + s.len && n.kind == JSON_TEXT;
	big = big && !scratch.failed;
	lx_buf_free(&scratch);
	return big;
}

static void put_ext(struct lx_buf *out, int8_t type, struct lx_span s)
{
	if (type == LX_JSON_EXT_NUMBER && is_big_number(s)) {
		lx_buf_span(out, s);
		return;
	}
	lx_buf_str(out, "{\"$ext\":[");
	put_uint(out, (uint64_t)(type < 0 ? -type : type), type < 0);
	lx_buf_byte(out, ',');
	put_base64(out, s);
	lx_buf_str(out, "]}");
}

/* ---- containers ---- */

static int put_value(struct lx_buf *out, struct lx_cur *c, unsigned depth);

static int put_array(struct lx_buf *out, struct lx_cur *c, uint32_t n, unsigned depth)
{
	lx_buf_byte(out, '[');
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			lx_buf_byte(out, ',');
		if (put_value(out, c, depth) < 0)
			return -1;
	}
	lx_buf_byte(out, ']');
	return 0;
}

/* Collect the keys of a map of n pairs at c: 1 when all are UTF-8 strings, 0 when not, -1 malformed. */
static int collect_keys(struct lx_cur c, const uint8_t *base, uint32_t n, struct json_key *k)
{
	for (uint32_t i = 0; i < n; i++) {
		struct lx_val v;
		if (lx_val_read(&c, &v) < 0)
			return -1;
		if (v.type != LX_STR || !lx_span_utf8(v.s))
			return 0;
		k[i] = (struct json_key){ .off = (size_t)(v.s.p - base), .len = v.s.len, .sig = json_key_sig(v.s.p, v.s.len) };
		if (lx_val_skip(&c, NULL) < 0)
			return -1;
	}
	return 1;
}

/* Whether a map of n pairs at c can be a plain object: 1, 0, or -1 malformed. */
static int is_object(struct lx_buf *out, const struct lx_cur *c, uint32_t n)
{
	struct json_key few[16];
	struct lx_buf many = { 0 }, table = { 0 };
	struct json_key *k = n <= 16 ? few : (struct json_key *)(void *)lx_buf_room(&many, n * sizeof(*k));
	int rc = k ? collect_keys(*c, c->p, n, k) : -1;
	if (rc == 1 && n == 1)
		rc = json_tag((struct lx_span){ c->p + k->off, k->len }) == JSON_NO_TAG;
	else if (rc == 1 && n)
		rc = json_key_twice(c->p, k, n, &table) == n;
	out->failed |= many.failed || table.failed;
	lx_buf_free(&many);
	lx_buf_free(&table);
	return rc;
}

static int put_object(struct lx_buf *out, struct lx_cur *c, uint32_t n, unsigned depth)
{
	lx_buf_byte(out, '{');
	for (uint32_t i = 0; i < n; i++) {
		struct lx_val key;
		if (lx_val_read(c, &key) < 0)
			return -1;
		if (i)
			lx_buf_byte(out, ',');
		put_string(out, key.s);
		lx_buf_byte(out, ':');
		if (put_value(out, c, depth) < 0)
			return -1;
	}
	lx_buf_byte(out, '}');
	return 0;
}

static int put_pairs(struct lx_buf *out, struct lx_cur *c, uint32_t n, unsigned depth)
{
	lx_buf_str(out, "{\"$map\":[");
	for (uint32_t i = 0; i < n; i++) {
		lx_buf_str(out, i ? ",[" : "[");
		if (put_value(out, c, depth) < 0)
			return -1;
		lx_buf_byte(out, ',');
		if (put_value(out, c, depth) < 0)
			return -1;
		lx_buf_byte(out, ']');
	}
	lx_buf_str(out, "]}");
	return 0;
}

static int put_map(struct lx_buf *out, struct lx_cur *c, uint32_t n, unsigned depth)
{
	int plain = is_object(out, c, n);
	if (plain < 0)
		return -1;
	return plain ? put_object(out, c, n, depth) : put_pairs(out, c, n, depth);
}

/* -1: malformed or too deep. */
static int put_value(struct lx_buf *out, struct lx_cur *c, unsigned depth)
{
	struct lx_val v;
	if (lx_val_read(c, &v) < 0 || ((v.type == LX_ARRAY || v.type == LX_MAP) && depth == LX_JSON_DEPTH_MAX))
		return -1;
	switch (v.type) {
	case LX_NIL:
		lx_buf_str(out, "null");
		break;
	case LX_BOOL:
		lx_buf_str(out, v.b ? "true" : "false");
		break;
	case LX_UINT:
		put_uint(out, v.u, false);
		break;
	case LX_INT:
		put_uint(out, 0 - (uint64_t)v.i, true);
		break;
	case LX_F32:
		put_f32(out, (float)v.f);
		break;
	case LX_F64:
		lx_json_f64(out, v.f);
		break;
	case LX_STR:
		lx_json_str(out, v.s);
		break;
	case LX_BIN:
		lx_json_bin(out, v.s);
		break;
	case LX_EXT:
		put_ext(out, v.ext, v.s);
		break;
	case LX_ARRAY:
		return put_array(out, c, v.n, depth + 1);
	case LX_MAP:
		return put_map(out, c, v.n, depth + 1);
	}
	return 0;
}

int lx_json_write(struct lx_buf *out, struct lx_span value, struct lx_err *e)
{
	size_t before = out->len;
	struct lx_cur c = lx_cur(value);
	int rc = put_value(out, &c, 0);
	if (rc == 0 && c.p == c.end && !out->failed)
		return 0;
	out->len = before;
	if (lx_buf_check(out, e) < 0)
		return -1;
	return lx_err_set(e, LX_DATA, "not one whole msgpack value of at most %d levels", LX_JSON_DEPTH_MAX);
}

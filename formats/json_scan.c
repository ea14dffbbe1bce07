/* The scanner: recursive descent, straight into msgpack. A map's or array's head is written when its end is known:
 * one byte is kept free for it, and what follows moves only when the head is longer than that. */
#include "json_int.h"

#include "base64.h"
#include "value.h"

#include <stdio.h>

struct scan {
	struct lx_json *j;
	const uint8_t *start, *p, *end;
	struct lx_buf *out;
	unsigned nesting, deepest, max_nesting; /* of the text */
	unsigned max_depth;            /* of the value */
	struct lx_err *e;
};

/* ---- errors ---- */

__attribute__((format(printf, 3, 4))) static int fail(struct scan *s, const uint8_t *at, const char *fmt, ...)
{
	char what[256];
	uint64_t line = s->j->line ? s->j->line : 1;
	const uint8_t *begin = s->start;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	for (const uint8_t *nl; (nl = memchr(begin, '\n', (size_t)(at - begin))); begin = nl + 1)
		line++;
	s->j->at = (size_t)(at - s->start);
	return lx_err_set(s->e, LX_DATA, "line %llu column %zu: %s", (unsigned long long)line,
	                  (size_t)(at - begin) + 1, what);
}

static int fail_depth(struct scan *s, const uint8_t *at)
{
	return fail(s, at, "nesting over %u (--max-depth)", s->max_depth);
}

/* "expected WHAT", and what stands there instead. */
static int expected(struct scan *s, const char *what)
{
	if (s->p == s->end)
		return fail(s, s->p, "expected %s, found the end", what);
	if (*s->p > 0x20 && *s->p < 0x7f)
		return fail(s, s->p, "expected %s, found '%c'", what, *s->p);
	return fail(s, s->p, "expected %s, found byte 0x%02x", what, *s->p);
}

/* ---- strings ---- */

static int hex4(const uint8_t *p, const uint8_t *end)
{
	int v = 0;
	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int c = p[i] | 0x20;
		int d = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
		if (d < 0)
			return -1;
		v = v << 4 | d;
	}
	return v;
}

/* Also for lone surrogates, which so become three bytes that are not UTF-8. */
static void put_utf8(struct lx_buf *b, uint32_t c)
{
	uint8_t u[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
	for (size_t i = n; i-- > 1; c >>= 6)
		u[i] = (uint8_t)(0x80 | (c & 0x3f));
	u[0] = (uint8_t)(lead[n] | c);
	lx_buf_add(b, u, n);
}

/* s->p stands behind "\u". */
static int unicode_escape(struct scan *s)
{
	int c = hex4(s->p, s->end), low;
	if (c < 0)
		return fail(s, s->p - 2, "\\u without four hexadecimal digits");
	s->p += 4;
	if (c >= 0xd800 && c < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u' &&
	    (low = hex4(s->p + 2, s->end)) >= 0xdc00 && low < 0xe000) {
		s->p += 6;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	put_utf8(&s->j->text, (uint32_t)c);
	return 0;
}

/* s->p stands at the backslash. */
static int escape(struct scan *s)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	if (s->end - s->p < 2)
		return fail(s, s->p, "the text ends inside a string");
	uint8_t c = s->p[1];
	if (c == 'u') {
		s->p += 2;
		return unicode_escape(s);
	}
	const char *hit = c ? strchr(from, c) : NULL;
	if (!hit)
		return fail(s, s->p, "unknown escape in a string");
	lx_buf_byte(&s->j->text, (uint8_t)to[hit - from]);
	s->p += 2;
	return 0;
}

/* The bytes of the string at s->p (behind its opening quote): a view of the text, or of j->text if there are
 * escapes. */
static int string_bytes(struct scan *s, struct lx_span *v)
{
	const uint8_t *first = s->p, *q = json_plain(first, s->end);
	struct lx_buf *text = &s->j->text;
	bool escaped = false;
	while (q < s->end && *q == '\\') {
		if (!escaped)
			lx_buf_clear(text);
		escaped = true;
		lx_buf_add(text, s->p, (size_t)(q - s->p));
		s->p = q;
		if (escape(s) < 0)
			return -1;
		q = json_plain(s->p, s->end);
	}
	if (q == s->end)
		return fail(s, q, "the text ends inside a string");
	if (*q != '"')
		return fail(s, q, "byte 0x%02x in a string must be escaped", *q);
	if (escaped) {
		lx_buf_add(text, s->p, (size_t)(q - s->p));
		*v = lx_buf_view(text);
	} else {
		*v = (struct lx_span){ first, (size_t)(q - first) };
	}
	s->p = q + 1;
	return 0;
}

static int string(struct scan *s)
{
	struct lx_span v;
	s->p++;
	if (string_bytes(s, &v) < 0)
		return -1;
	lx_pack_str(s->out, v);
	return 0;
}

/* ---- scalars ---- */

/* Most numbers are a few digits: false for all others, and nothing is done. */
static bool short_integer(struct scan *s)
{
	const uint8_t *p = s->p;
	uint64_t v = 0;
	for (unsigned d; p < s->end && p - s->p < 18 && (d = *p - '0') <= 9; p++)
		v = v * 10 + d;
	if (p == s->p || p == s->end || (*p >= '0' && *p <= '9') || *p == '.' || (*p | 0x20) == 'e' || (*s->p == '0' && p - s->p > 1))
		return false;
	lx_pack_uint(s->out, v);
	s->p = p;
	return true;
}

static int number(struct scan *s)
{
	if (short_integer(s))
		return 0;
	struct json_num n;
	const uint8_t *bad, *behind = json_number(s->p, s->end, &n, &bad, &s->j->text);
	if (!behind)
		return fail(s, bad, "not a number of JSON");
	switch (n.kind) {
	case JSON_UINT:
		lx_pack_uint(s->out, n.u);
		break;
	case JSON_INT:
		lx_pack_int(s->out, n.i);
		break;
	case JSON_F64:
		lx_pack_f64(s->out, n.f);
		break;
	case JSON_TEXT:
		lx_pack_ext(s->out, LX_JSON_EXT_NUMBER, (struct lx_span){ s->p, (size_t)(behind - s->p) });
		break;
	}
	s->p = behind;
	return 0;
}

static bool word(struct scan *s, const char *w)
{
	size_t n = strlen(w);
	if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* ---- tags: {"$bin":"..."} and the like back into what they stand for ---- */

/* Replace everything in out from `head` on by the decoded base64 of the text. */
static int untag_bytes(struct scan *s, size_t head, const struct lx_val *v, enum json_tag tag, int8_t ext)
{
	struct lx_buf *bytes = &s->j->text;
	lx_buf_clear(bytes);
	if (v->type != LX_STR || lx_base64_decode(bytes, v->s) < 0)
		return -1;
	s->out->len = head;
	if (tag == JSON_BIN)
		lx_pack_bin(s->out, lx_buf_view(bytes));
	else if (tag == JSON_STR)
		lx_pack_str(s->out, lx_buf_view(bytes));
	else
		lx_pack_ext(s->out, ext, lx_buf_view(bytes));
	return 0;
}

static int untag_ext(struct scan *s, size_t head, struct lx_cur c, const struct lx_val *v)
{
	struct lx_val type, bytes;
	if (v->type != LX_ARRAY || v->n != 2 || lx_val_read(&c, &type) < 0 || lx_val_read(&c, &bytes) < 0)
		return -1;
	if (type.type == LX_UINT && type.u <= 127)
		return untag_bytes(s, head, &bytes, JSON_EXT, (int8_t)type.u);
	if (type.type == LX_INT && type.i >= -128)
		return untag_bytes(s, head, &bytes, JSON_EXT, (int8_t)type.i);
	return -1;
}

static int untag_float(struct scan *s, size_t head, const struct lx_val *v)
{
	static const struct {
		const char *name;
		double f;
	} t[] = { { "nan", __builtin_nan("") }, { "inf", __builtin_inf() }, { "-inf", -__builtin_inf() } };
	for (size_t i = 0; v->type == LX_STR && i < 3; i++)
		if (lx_span_eq(v->s, lx_span_str(t[i].name))) {
			s->out->len = head;
			lx_pack_f64(s->out, t[i].f);
			return 0;
		}
	return -1;
}

/* [[k,v],...] to a map: the pairs without their array heads. */
static int untag_map(struct scan *s, size_t head, struct lx_cur c, const struct lx_val *v)
{
	struct lx_buf *pairs = &s->j->text;
	lx_buf_clear(pairs);
	if (v->type != LX_ARRAY)
		return -1;
	for (uint32_t i = 0; i < v->n; i++) {
		struct lx_val pair;
		struct lx_span key, value;
		if (lx_val_read(&c, &pair) < 0 || pair.type != LX_ARRAY || pair.n != 2)
			return -1;
		if (lx_val_skip(&c, &key) < 0 || lx_val_skip(&c, &value) < 0)
			return -1;
		lx_buf_span(pairs, key);
		lx_buf_span(pairs, value);
	}
	s->out->len = head;
	lx_pack_map(s->out, v->n);
	lx_buf_span(s->out, lx_buf_view(pairs));
	return 0;
}

/* The object whose head byte is at `head` has one member, a tag, and its value is at `value`. */
static int untag(struct scan *s, enum json_tag tag, size_t head, size_t value, const uint8_t *at)
{
	static const char *const wants[] = {
		[JSON_BIN] = "$bin: expected base64",       [JSON_STR] = "$str: expected base64",
		[JSON_EXT] = "$ext: expected [TYPE,BASE64]", [JSON_FLOAT] = "$float: expected \"nan\", \"inf\" or \"-inf\"",
		[JSON_MAP] = "$map: expected [[KEY,VALUE],...]",
	};
	struct lx_cur c = { s->out->p + value, s->out->p + s->out->len };
	struct lx_val v;
	int rc = lx_val_read(&c, &v);
	if (rc == 0 && (tag == JSON_BIN || tag == JSON_STR))
		rc = untag_bytes(s, head, &v, tag, 0);
	else if (rc == 0 && tag == JSON_EXT)
		rc = untag_ext(s, head, c, &v);
	else if (rc == 0 && tag == JSON_FLOAT)
		rc = untag_float(s, head, &v);
	else if (rc == 0)
		rc = untag_map(s, head, c, &v);
	return rc < 0 ? fail(s, at, "%s", wants[tag]) : 0;
}

/* ---- containers ---- */

static int value(struct scan *s);

static void space(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
		s->p++;
}

/* Put a container's head where one byte was kept for it. */
static void put_head(struct scan *s, size_t head, void (*pack)(struct lx_buf *, uint32_t), size_t n)
{
	uint8_t room[16];
	struct lx_buf h = { .p = room, .cap = sizeof(room) }, *out = s->out;
	pack(&h, (uint32_t)n); /* a text is shorter than 4 GiB */
	if (h.len > 1) {
		if (!lx_buf_room(out, h.len - 1))
			return;
		memmove(out->p + head + h.len, out->p + head + 1, out->len - head - 1);
		out->len += h.len - 1;
	}
	if (!out->failed)
		memcpy(out->p + head, room, h.len);
}

static struct json_key *keys(const struct scan *s)
{
	return (struct json_key *)(void *)s->j->keys.p;
}

/* A key and its colon. */
static int member_key(struct scan *s)
{
	struct json_key k = { .at = (size_t)(s->p - s->start) };
	struct lx_span v;
	if (s->p == s->end || *s->p != '"')
		return expected(s, "a string as key");
	s->p++;
	if (string_bytes(s, &v) < 0)
		return -1;
	lx_pack_str(s->out, v);
	if (s->out->failed)
		return -1;
	k.len = v.len;
	k.off = s->out->len - v.len;
	k.sig = json_key_sig(v.p, v.len);
	if (s->nesting == 1 && s->j->member && lx_span_eq(v, lx_span_str(s->j->member)))
		s->j->has_member = true;
	lx_buf_add(&s->j->keys, &k, sizeof(k));
	space(s);
	if (s->p == s->end || *s->p != ':')
		return expected(s, "':'");
	s->p++;
	return 0;
}

/* Behind an element: 1 when another follows, 0 at the end of the container, -1. */
static int more(struct scan *s, uint8_t close)
{
	space(s);
	if (s->p < s->end && *s->p == close) {
		s->p++;
		return 0;
	}
	if (s->p == s->end || *s->p != ',')
		return expected(s, close == '}' ? "',' or '}'" : "',' or ']'");
	s->p++;
	space(s);
	return 1;
}

static int object_end(struct scan *s, size_t head, size_t first_key, size_t last_value)
{
	struct json_key *k = keys(s) + first_key;
	size_t n = s->j->keys.len / sizeof(*k) - first_key, twice;
	if (s->j->tags && n == 1) {
		enum json_tag tag = json_tag((struct lx_span){ s->out->p + k->off, k->len });
		if (tag != JSON_NO_TAG) {
			if (s->nesting == 1)
				s->j->has_member = true; /* of a tagged map: not looked at */
			return untag(s, tag, head, last_value, s->start + k->at);
		}
	}
	twice = n > 1 ? json_key_twice(s->out->p, k, n, &s->j->seen) : n;
	if (twice < n)
		return fail(s, s->start + k[twice].at, "key \"%.*s\" twice in one object",
		            (int)(k[twice].len < 64 ? k[twice].len : 64), (char *)s->out->p + k[twice].off);
	put_head(s, head, lx_pack_map, n);
	return 0;
}

static int object(struct scan *s)
{
	size_t head = s->out->len, first_key = s->j->keys.len / sizeof(struct json_key), last_value = 0;
	int rc = 1;
	lx_buf_byte(s->out, 0);
	s->p++;
	space(s);
	if (s->p < s->end && *s->p == '}') {
		s->p++;
		rc = 0;
	}
	while (rc > 0) {
		if (member_key(s) < 0)
			return -1;
		last_value = s->out->len;
		if (value(s) < 0)
			return -1;
		rc = more(s, '}');
	}
	if (rc < 0 || s->j->keys.failed || object_end(s, head, first_key, last_value) < 0)
		return -1;
	s->j->keys.len = first_key * sizeof(struct json_key);
	return 0;
}

static int array(struct scan *s)
{
	size_t head = s->out->len, n = 0;
	int rc = 1;
	lx_buf_byte(s->out, 0);
	s->p++;
	space(s);
	if (s->p < s->end && *s->p == ']') {
		s->p++;
		rc = 0;
	}
	for (; rc > 0; rc = more(s, ']')) {
		if (value(s) < 0)
			return -1;
		n++;
	}
	if (rc == 0)
		put_head(s, head, lx_pack_array, n);
	return rc;
}

static int container(struct scan *s)
{
	if (s->nesting == s->max_nesting)
		return fail_depth(s, s->p);
	if (++s->nesting > s->deepest)
		s->deepest = s->nesting;
	int rc = *s->p == '{' ? object(s) : array(s);
	s->nesting--;
	return rc;
}

static int value(struct scan *s)
{
	int rc = 0;
	space(s);
	uint8_t c = s->p < s->end ? *s->p : 0;
	if (c == '"')
		rc = string(s);
	else if (c == '{' || c == '[')
		rc = container(s);
	else if (c == '-' || (c >= '0' && c <= '9'))
		rc = number(s);
	else if (c == 't' && word(s, "true"))
		lx_pack_bool(s->out, true);
	else if (c == 'f' && word(s, "false"))
		lx_pack_bool(s->out, false);
	else if (c == 'n' && word(s, "null"))
		lx_pack_nil(s->out);
	else
		rc = expected(s, "a value");
	return s->out->failed || s->j->text.failed ? -1 : rc;
}

static int whole(struct scan *s)
{
	size_t first = s->out->len, len;
	if ((size_t)(s->end - s->start) > UINT32_MAX)
		return fail(s, s->start, "a text over 4 GiB");
	if (value(s) < 0)
		return -1;
	space(s);
	if (s->p < s->end)
		return expected(s, "the end");
	/* Tags nest deeper in the text than in the value. */
	if (s->deepest > s->max_depth &&
	    lx_val_walk(s->out->p + first, s->out->len - first, s->max_depth, &len) != LX_WALK_OK)
		return fail_depth(s, s->start);
	return 0;
}

int lx_json_scan(struct lx_json *j, struct lx_span text, struct lx_buf *out, struct lx_err *e)
{
	unsigned depth = j->max_depth < LX_JSON_DEPTH_MAX ? j->max_depth : LX_JSON_DEPTH_MAX;
	struct scan s = {
		.j = j, .start = text.p, .p = text.p, .end = text.p + text.len, .out = out, .e = e, .max_depth = depth,
		/* {"$map":[[k,v]]} is three levels for one, {"$ext":[1,""]} two for none */
		.max_nesting = j->tags ? 3 * depth + 2 : depth,
	};
	size_t before = out->len;
	lx_buf_clear(&j->keys);
	j->has_member = false;
	int rc = whole(&s);
	if (lx_buf_check(out, e) < 0 || lx_buf_check(&j->text, e) < 0 || lx_buf_check(&j->keys, e) < 0 ||
	    lx_buf_check(&j->seen, e) < 0)
		rc = -1;
	if (rc < 0)
		out->len = before;
	return rc;
}

void lx_json_release(struct lx_json *j)
{
	lx_buf_free(&j->keys);
	lx_buf_free(&j->seen);
	lx_buf_free(&j->text);
}

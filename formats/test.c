#include "test.h"

#include "json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- reading a test ---- */

static int refuse(const char *text, const char *why, struct lx_err *e)
{
	return lx_err_set(e, LX_USAGE, "test '%s': %s", text, why);
}

static struct lx_span trim(struct lx_span s)
{
	while (s.len && (*s.p == ' ' || *s.p == '\t')) {
		s.p++;
		s.len--;
	}
	while (s.len && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* The bytes up to and with the quote that ends the JSON string at the start; 0: it does not end. */
static size_t quoted_len(const char *s)
{
	for (size_t i = 1; s[i]; i++) {
		if (s[i] == '"')
			return i + 1;
		i += s[i] == '\\' && s[i + 1];
	}
	return 0;
}

/* Scan a JSON scalar; false when it is none. `packed` is as before then. */
static bool scan_scalar(struct lx_span text, struct lx_buf *packed, struct lx_val *v)
{
	struct lx_json j = LX_JSON_INIT;
	struct lx_err ignored = LX_ERR_INIT;
	bool good = lx_json_scan(&j, text, packed, &ignored) == 0 && lx_val_from(lx_buf_view(packed), v) == 0 &&
	            v->type != LX_ARRAY && v->type != LX_MAP;
	if (!good)
		lx_buf_clear(packed);
	lx_json_release(&j);
	return good;
}

static char *take_quoted(const char *text, const char **at, size_t *len, struct lx_err *e)
{
	struct lx_buf packed = { 0 };
	struct lx_val v;
	char *name = NULL;
	size_t n = quoted_len(*at);
	if (!n || !scan_scalar((struct lx_span){ (const uint8_t *)*at, n }, &packed, &v) || memchr(v.s.p, 0, v.s.len)) {
		refuse(text, "the name in quotes is no JSON string, or holds a NUL", e);
	} else if (!(name = strndup((const char *)v.s.p, v.s.len))) {
		lx_err_sys(e, "test");
	} else {
		*len = v.s.len;
		*at += n;
	}
	lx_buf_free(&packed);
	return name;
}

/* The name of the field at *at, which then stands behind it. */
static int take_field(struct lx_test *t, const char *text, const char **at, struct lx_err *e)
{
	*at += strspn(*at, " \t");
	if (**at == '"') {
		t->field = take_quoted(text, at, &t->field_len, e);
		*at += strspn(*at, " \t");
		return t->field ? 0 : -1;
	}
	size_t n = strcspn(*at, "=!<>");
	struct lx_span name = trim((struct lx_span){ (const uint8_t *)*at, n });
	if (!name.len)
		return refuse(text, "it begins with the name of a field", e);
	*at += n;
	t->field = strndup((const char *)name.p, name.len);
	t->field_len = name.len;
	return t->field ? 0 : lx_err_sys(e, "test");
}

static int take_op(struct lx_test *t, const char *text, const char **at, struct lx_err *e)
{
	static const struct {
		const char *text;
		enum lx_test_op op;
	} ops[] = {
		{ "==", LX_TEST_EQ }, { "!=", LX_TEST_NE },    { "<=", LX_TEST_LE }, { ">=", LX_TEST_GE },
		{ "<", LX_TEST_LT },  { ">", LX_TEST_GT },     { "=~", LX_TEST_MATCH }, { "!~", LX_TEST_NO_MATCH },
	};
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		size_t n = strlen(ops[i].text);
		if (strncmp(*at, ops[i].text, n) != 0)
			continue;
		t->op = ops[i].op;
		*at += n;
		return 0;
	}
	return refuse(text, **at == '=' ? "equal is ==" : "it needs one of == != < <= > >= =~ !~, or is ?FIELD", e);
}

/* JSON knows neither .5 nor +5, people do. */
static void spell_out(struct lx_span s, struct lx_buf *b)
{
	size_t sign = s.len && (*s.p == '+' || *s.p == '-');
	if (sign && *s.p == '-')
		lx_buf_byte(b, '-');
	if (s.len > sign && s.p[sign] == '.')
		lx_buf_byte(b, '0');
	lx_buf_add(b, s.p + sign, s.len - sign);
}

static int take_value(struct lx_test *t, const char *text, const char *at, struct lx_err *e)
{
	struct lx_span s = trim(lx_span_str(at));
	struct lx_buf spelled = { 0 };
	t->quoted = s.len && *s.p == '"';
	if (t->quoted) {
		if (!scan_scalar(s, &t->packed, &t->value))
			return refuse(text, "the value in quotes is no JSON string", e);
		lx_buf_span(&t->text, t->value.s);
		return lx_buf_check(&t->text, e);
	}
	spell_out(s, &spelled);
	if (!scan_scalar(lx_buf_view(&spelled), &t->packed, &t->value)) {
		lx_pack_str(&t->packed, s);
		if (lx_buf_check(&t->packed, e) == 0)
			lx_val_from(lx_buf_view(&t->packed), &t->value);
	}
	lx_buf_free(&spelled);
	lx_buf_span(&t->text, s);
	return lx_buf_check(&t->text, e) < 0 || lx_buf_check(&t->packed, e) < 0 ? -1 : 0;
}

static int take_regex(struct lx_test *t, const char *text, const char *at, struct lx_err *e)
{
	/* The GNU functions, since those of POSIX stop at a NUL byte. */
	re_set_syntax(RE_SYNTAX_POSIX_EXTENDED | RE_NO_SUB);
	const char *why = re_compile_pattern(at, strlen(at), &t->regex);
	t->regex.newline_anchor = 0;
	return why ? refuse(text, why, e) : 0;
}

static int parse(struct lx_test *t, const char *text, struct lx_err *e)
{
	const char *at = text + strspn(text, " \t");
	if (*at == '?') {
		at++;
		t->op = LX_TEST_EXISTS;
		if (take_field(t, text, &at, e) < 0)
			return -1;
		return *at ? refuse(text, "nothing may follow ?FIELD", e) : 0;
	}
	if (take_field(t, text, &at, e) < 0 || take_op(t, text, &at, e) < 0)
		return -1;
	if (t->op == LX_TEST_MATCH || t->op == LX_TEST_NO_MATCH)
		return take_regex(t, text, at, e);
	return take_value(t, text, at, e);
}

static void release(struct lx_test *t)
{
	free(t->field);
	lx_buf_free(&t->text);
	lx_buf_free(&t->packed);
	if (t->op == LX_TEST_MATCH || t->op == LX_TEST_NO_MATCH)
		regfree(&t->regex);
}

int lx_tests_add(struct lx_tests *t, const char *text, struct lx_err *e)
{
	struct lx_test new = { .op = LX_TEST_EXISTS };
	struct lx_test *v = realloc(t->v, (t->n + 1) * sizeof(*v));
	if (!v)
		return lx_err_sys(e, "test");
	t->v = v;
	if (parse(&new, text, e) < 0) {
		release(&new);
		return -1;
	}
	t->v[t->n++] = new;
	return 0;
}

void lx_tests_release(struct lx_tests *t)
{
	for (size_t i = 0; i < t->n; i++)
		release(&t->v[i]);
	free(t->v);
	*t = (struct lx_tests){ 0 };
}

/* ---- asking ---- */

static bool is_text(const struct lx_val *v)
{
	return v->type == LX_STR || v->type == LX_BIN;
}

static bool is_number(const struct lx_val *v)
{
	return v->type == LX_UINT || v->type == LX_INT || v->type == LX_F32 || v->type == LX_F64 ||
	       (v->type == LX_EXT && v->ext == LX_JSON_EXT_NUMBER);
}

static const char *what(const struct lx_val *v)
{
	if (is_number(v))
		return "a number";
	switch (v->type) {
	case LX_NIL:
		return "null";
	case LX_BOOL:
		return "true or false";
	case LX_ARRAY:
		return "an array";
	case LX_MAP:
		return "a map";
	case LX_EXT:
		return "an ext value";
	default:
		return "a string";
	}
}

/* Order of two values, LX_UNORDERED when they have none, `mixed` set when there can be none. */
static int compare(const struct lx_test *t, const struct lx_val *v, bool *mixed)
{
	if (is_number(v) && is_number(&t->value)) {
		struct lx_val rounded = t->value;
		if (v->type == LX_F32 && t->value.type == LX_F64)
			rounded.f = (float)rounded.f;
		return lx_number_cmp(v, &rounded);
	}
	if (is_text(v)) {
		size_t n = v->s.len < t->text.len ? v->s.len : t->text.len;
		int o = n ? memcmp(v->s.p, t->text.p, n) : 0;
		*mixed = !is_text(&t->value);
		return o ? (o < 0 ? -1 : 1) : (v->s.len > t->text.len) - (v->s.len < t->text.len);
	}
	*mixed = true;
	if (v->type == LX_BOOL && t->value.type == LX_BOOL)
		return v->b == t->value.b ? 0 : LX_UNORDERED;
	return v->type == LX_NIL && t->value.type == LX_NIL ? 0 : LX_UNORDERED;
}

__attribute__((format(printf, 3, 4))) static enum lx_verdict failed(struct lx_test_why *why, const char *type,
                                                                     const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	why->type = type;
	vsnprintf(why->message, sizeof(why->message), fmt, ap);
	va_end(ap);
	return LX_TEST_FAILED;
}

static enum lx_verdict no_order(const struct lx_test *t, const struct lx_val *v, struct lx_test_why *why)
{
	if (is_text(v))
		return failed(why, "bad-field", "'%.64s' is a string, not %s (quotes around the value compare strings)", t->field,
		              what(&t->value));
	return failed(why, "bad-field", "'%.64s' is %s and cannot be ordered against %s", t->field, what(v), what(&t->value));
}

static enum lx_verdict ask_regex(const struct lx_test *t, const struct lx_val *v, struct lx_test_why *why)
{
	if (!is_text(v))
		return failed(why, "bad-field", "'%.64s' is %s: a regular expression is for strings", t->field, what(v));
	if (v->s.len > INT_MAX)
		return failed(why, "bad-field", "'%.64s' is too long for a regular expression", t->field);
	int n = (int)v->s.len;
	int at = (int)re_search((struct re_pattern_buffer *)&t->regex, (const char *)v->s.p, n, 0, n, NULL);
	if (at < -1)
		return failed(why, "bad-field", "'%.64s': the regular expression ran out of memory", t->field);
	return (at >= 0) == (t->op == LX_TEST_MATCH);
}

static enum lx_verdict ask(const struct lx_test *t, struct lx_span fields, struct lx_test_why *why)
{
	struct lx_val v;
	bool mixed = false;
	struct lx_span s = lx_map_get(fields, t->field, t->field_len);
	if (t->op == LX_TEST_EXISTS)
		return s.p != NULL;
	if (!s.p)
		return failed(why, "no-field", "no field '%.64s'", t->field);
	if (lx_val_from(s, &v) < 0)
		return failed(why, "bad-field", "'%.64s' cannot be read", t->field);
	if (t->op == LX_TEST_MATCH || t->op == LX_TEST_NO_MATCH)
		return ask_regex(t, &v, why);
	int o = compare(t, &v, &mixed);
	if (t->op == LX_TEST_EQ || t->op == LX_TEST_NE)
		return (o == 0) == (t->op == LX_TEST_EQ);
	if (mixed)
		return no_order(t, &v, why);
	if (o == LX_UNORDERED)
		return LX_TEST_FALSE;
	return t->op == LX_TEST_LT ? o < 0 : t->op == LX_TEST_LE ? o <= 0 : t->op == LX_TEST_GT ? o > 0 : o >= 0;
}

enum lx_verdict lx_tests_ask(const struct lx_tests *t, struct lx_span fields, struct lx_test_why *why)
{
	for (size_t i = 0; i < t->n; i++) {
		enum lx_verdict v = ask(&t->v[i], fields, why);
		if (v != LX_TEST_TRUE)
			return v;
	}
	return LX_TEST_TRUE;
}

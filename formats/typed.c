#include "typed.h"
#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static struct lx_span without_newline(struct lx_span s)
{
	s.len -= s.len && s.p[s.len - 1] == '\n';
	return s;
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The text without blanks at its ends, as a C string; NULL: empty, or it holds a NUL. */
static const char *trimmed(struct lx_typed *t, struct lx_span s)
{
	while (s.len && is_blank(s.p[s.len - 1]))
		s.len--;
	while (s.len && is_blank(*s.p)) {
		s.p++;
		s.len--;
	}
	lx_buf_clear(&t->text);
	lx_buf_span(&t->text, s);
	return s.len && !memchr(s.p, 0, s.len) ? lx_buf_cstr(&t->text) : NULL;
}

static bool pack_integer(const char *s, struct lx_buf *value)
{
	char *end;
	bool neg = *s == '-';
	const char *digits = s + (neg || *s == '+');
	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	if (neg)
		lx_pack_int(value, strtoll(s, &end, 10));
	else
		lx_pack_uint(value, strtoull(digits, &end, 10));
	return !*end && errno == 0;
}

static bool pack_float(const char *s, struct lx_buf *value)
{
	char *end;
	errno = 0;
	double v = strtod(s, &end);
	lx_pack_f64(value, v);
	return end != s && !*end && !(errno == ERANGE && (v > 1 || v < -1));
}

static const char *pack_json(struct lx_typed *t, struct lx_span s, struct lx_buf *value)
{
	struct lx_err e = LX_ERR_INIT;
	t->json.tags = true;
	t->json.max_depth = t->max_depth;
	if (lx_json_scan(&t->json, s, value, &e) == 0)
		return NULL;
	snprintf(t->why, sizeof(t->why), "%s", e.msg);
	return t->why;
}

const char *lx_typed_pack(struct lx_typed *t, struct lx_span s, struct lx_buf *value)
{
	const char *text;
	switch (t->as) {
	case LX_AS_STR:
		if (!lx_span_utf8(s))
			return "the output is not UTF-8";
		lx_pack_str(value, without_newline(s));
		return NULL;
	case LX_AS_BIN:
		lx_pack_bin(value, s);
		return NULL;
	case LX_AS_INT:
		text = trimmed(t, s);
		return text && pack_integer(text, value) ? NULL : "the output is not an integer of 64 bits";
	case LX_AS_FLOAT:
		text = trimmed(t, s);
		return text && pack_float(text, value) ? NULL : "the output is not a number";
	case LX_AS_JSON:
		return pack_json(t, s, value);
	case LX_AS_TEXT:
		lx_pack_text(value, lx_span_utf8(s) ? without_newline(s) : s);
	}
	return NULL;
}

int lx_typed_parse(struct lx_typed *t, const char *arg, struct lx_err *e)
{
	static const struct {
		const char *name;
		enum lx_typed_as as;
	} types[] = { { "str", LX_AS_STR }, { "bin", LX_AS_BIN }, { "int", LX_AS_INT }, { "float", LX_AS_FLOAT },
		      { "json", LX_AS_JSON } };
	const char *colon = strrchr(arg, ':');
	t->field = strndup(arg, colon ? (size_t)(colon - arg) : strlen(arg));
	if (!t->field)
		return lx_err_sys(e, "-o");
	if (!*t->field)
		return lx_err_set(e, LX_USAGE, "-o: the name of the field is missing in '%s'", arg);
	for (size_t i = 0; colon && i < sizeof(types) / sizeof(*types); i++) {
		if (strcmp(colon + 1, types[i].name) == 0) {
			t->as = types[i].as;
			return 0;
		}
	}
	if (colon)
		return lx_err_set(e, LX_USAGE, "-o: '%s' is none of the types str, bin, int, float, json", colon + 1);
	return 0;
}

void lx_typed_release(struct lx_typed *t)
{
	free(t->field);
	lx_json_release(&t->json);
	lx_buf_free(&t->text);
	t->field = NULL;
}

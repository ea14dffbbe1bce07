#include "split_int.h"

#include "value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- formats of delimited bytes ---- */

static enum split_step found(struct lx_split *s, size_t len, size_t total)
{
	s->len = len;
	s->total = total;
	return SPLIT_PIECE;
}

static enum split_step split_byte(struct lx_split *s, const uint8_t *p, size_t n)
{
	const uint8_t *q = memchr(p + s->seen, s->spec.delim[0], n - s->seen);
	s->seen = n;
	return q ? found(s, (size_t)(q - p), (size_t)(q - p) + 1) : SPLIT_MORE;
}

/* Knuth-Morris-Pratt, since a window may end anywhere inside a delimiter. */
static enum split_step split_bytes(struct lx_split *s, const uint8_t *p, size_t n)
{
	const uint8_t *d = s->spec.delim;
	size_t i = s->seen;
	while (i < n && s->matched < s->spec.n_delim) {
		if (s->matched == 0) {
			const uint8_t *q = memchr(p + i, d[0], n - i);
			i = q ? (size_t)(q - p) + 1 : n;
			s->matched = q != NULL;
		} else if (p[i] == d[s->matched]) {
			s->matched++;
			i++;
		} else {
			s->matched = s->fallback[s->matched - 1];
		}
	}
	s->seen = i;
	if (s->matched < s->spec.n_delim)
		return SPLIT_MORE;
	s->matched = 0;
	return found(s, i - s->spec.n_delim, i);
}

static enum split_step split_delim(struct lx_split *s, const uint8_t *p, size_t n)
{
	return s->spec.n_delim == 1 ? split_byte(s, p, n) : split_bytes(s, p, n);
}

/* fallback[i]: length of the longest proper prefix of the delimiter that ends at its byte i. */
static void fill_fallback(struct lx_split *s)
{
	const uint8_t *d = s->spec.delim;
	size_t k = 0;
	for (size_t i = 1; i < s->spec.n_delim; i++) {
		while (k && d[i] != d[k])
			k = s->fallback[k - 1];
		k += d[i] == d[k];
		s->fallback[i] = (uint8_t)k;
	}
}

/* ---- the table ---- */

static const struct split_format formats[] = {
	[LX_SPLIT_LINES] = { "lines", "line", LX_PIECE_TEXT, split_delim, NULL },
	[LX_SPLIT_NUL] = { "nul", "piece", LX_PIECE_TEXT, split_delim, NULL },
	[LX_SPLIT_DELIM] = { "delim:BYTES", "piece", LX_PIECE_TEXT, split_delim, NULL },
	[LX_SPLIT_JSONL] = { "jsonl", "line", LX_PIECE_VALUE, split_delim, NULL },
	[LX_SPLIT_NETPBM] = { "netpbm", "image", LX_PIECE_BYTES, split_netpbm, split_netpbm_finish },
	[LX_SPLIT_PNG] = { "png", "image", LX_PIECE_BYTES, split_png, split_png_finish },
	[LX_SPLIT_FILES] = { "files", "file", LX_PIECE_BYTES, NULL, NULL },
};
#define N_FORMATS (sizeof(formats) / sizeof(*formats))

/* ---- the -s argument ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One escape at *p, which stands behind the backslash and is moved over it: the byte, or -1. */
static int escape(const char **p)
{
	static const char from[] = "\\abefnrtv0", to[] = "\\\a\b\033\f\n\r\t\v";
	char c = *(*p)++;
	if (c == 'x') {
		int high = hex_digit(**p), low = high < 0 ? -1 : hex_digit((*p)[1]);
		*p += low < 0 ? 0 : 2;
		return low < 0 ? -1 : high << 4 | low;
	}
	const char *hit = c ? strchr(from, c) : NULL;
	return hit ? (uint8_t)to[hit - from] : -1;
}

static int parse_delim(const char *p, struct lx_split_spec *spec, struct lx_err *e)
{
	const char *arg = p;
	while (*p) {
		int c = (uint8_t)*p++;
		if (c == '\\' && (c = escape(&p)) < 0)
			return lx_err_set(e, LX_USAGE, "-s delim:%s: unknown escape; known are \\\\ \\a \\b \\e \\f \\n "
			                  "\\r \\t \\v \\0 \\xNN", arg);
		if (spec->n_delim == LX_SPLIT_DELIM_MAX)
			return lx_err_set(e, LX_USAGE, "-s delim:%s: over %d bytes", arg, LX_SPLIT_DELIM_MAX);
		spec->delim[spec->n_delim++] = (uint8_t)c;
	}
	if (!spec->n_delim)
		return lx_err_set(e, LX_USAGE, "-s delim: needs the delimiter's bytes, as in -s 'delim:\\f'");
	return 0;
}

static int unknown_format(const char *arg, struct lx_err *e)
{
	char known[128] = "";
	for (size_t i = 0; i < N_FORMATS; i++) {
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", formats[i].name);
	}
	return lx_err_set(e, LX_USAGE, "-s %s: unknown format; known are %s", arg, known);
}

int lx_split_parse(const char *arg, struct lx_split_spec *spec, struct lx_err *e)
{
	*spec = (struct lx_split_spec){ .format = LX_SPLIT_DELIM };
	if (strncmp(arg, "delim:", 6) == 0)
		return parse_delim(arg + 6, spec, e);
	if (strcmp(arg, "delim") == 0)
		return parse_delim("", spec, e);
	for (size_t i = 0; i < N_FORMATS; i++)
		if (i != LX_SPLIT_DELIM && strcmp(arg, formats[i].name) == 0) {
			spec->format = (enum lx_split_format)i;
			spec->delim[0] = i == LX_SPLIT_NUL ? '\0' : '\n';
			spec->n_delim = 1;
			return 0;
		}
	return unknown_format(arg, e);
}

/* ---- one input ---- */

struct lx_split *lx_split_new(const struct lx_split_spec *spec, const struct lx_split_conf *conf, struct lx_err *e)
{
	if (spec->format == LX_SPLIT_FILES) {
		lx_err_set(e, LX_USAGE, "-s files needs a command that writes to {dir}");
		return NULL;
	}
	struct lx_split *s = calloc(1, sizeof(*s));
	if (!s) {
		lx_err_sys(e, "a splitter");
		return NULL;
	}
	s->spec = *spec;
	s->conf = *conf;
	if (s->conf.max_piece > UINT32_MAX)
		s->conf.max_piece = UINT32_MAX; /* what a msgpack value holds */
	s->format = &formats[spec->format];
	s->json = (struct lx_json)LX_JSON_INIT;
	s->json.max_depth = conf->max_depth;
	s->json.tags = conf->tags;
	fill_fallback(s);
	lx_split_reset(s);
	return s;
}

void lx_split_free(struct lx_split *s)
{
	if (!s)
		return;
	lx_json_release(&s->json);
	lx_buf_free(&s->value);
	free(s);
}

void lx_split_reset(struct lx_split *s)
{
	s->window = (struct lx_span){ 0 };
	s->eof = false;
	s->at = s->seen = s->matched = s->chunk = 0;
	s->index = 1;
	s->type = NULL;
	s->why = (struct lx_err)LX_ERR_INIT;
	s->netpbm = (struct netpbm){ 0 };
	s->after_plain = false;
}

void lx_split_window(struct lx_split *s, struct lx_span bytes, bool eof)
{
	s->window = bytes;
	s->eof = eof;
	s->at = 0;
}

size_t lx_split_left(const struct lx_split *s)
{
	return s->window.len - s->at;
}

void lx_split_rest(const struct lx_split *s, struct lx_buf *in)
{
	size_t left = lx_split_left(s);
	if (left && left < in->len)
		memmove(in->p, in->p + in->len - left, left);
	in->len = left;
}

const char *lx_split_type(const struct lx_split *s)
{
	return s->type;
}

/* ---- pieces ---- */

enum split_step split_bad(struct lx_split *s, const char *type, const char *fmt, ...)
{
	char what[256];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	s->type = type;
	lx_err_set(&s->why, LX_DATA, "%s %llu: %s", s->format->noun, (unsigned long long)s->index, what);
	return SPLIT_BAD;
}

enum split_step split_oversize(struct lx_split *s)
{
	return split_bad(s, "oversize", "over %llu bytes (--max-record)", (unsigned long long)s->conf.max_piece);
}

static enum split_step scan_line(struct lx_split *s, struct lx_span line)
{
	lx_buf_clear(&s->value);
	s->json.line = s->index;
	if (lx_json_scan(&s->json, line, &s->value, &s->why) == 0)
		return SPLIT_PIECE;
	s->type = s->why.code == LX_DATA ? "bad-json" : NULL;
	return SPLIT_BAD;
}

static bool is_blank(struct lx_span s)
{
	size_t i = 0;
	while (i < s.len && (s.p[i] == ' ' || s.p[i] == '\t' || s.p[i] == '\r'))
		i++;
	return i == s.len;
}

/* Find the next piece in the window and use it up; SPLIT_MORE only when the input goes on. */
static enum split_step cut(struct lx_split *s, struct lx_span *bytes)
{
	const uint8_t *p = s->window.p + s->at;
	size_t n = s->window.len - s->at;
	enum split_step rc = s->format->step(s, p, n);
	if (rc == SPLIT_MORE && n - s->matched > s->conf.max_piece)
		return split_oversize(s);
	if (rc == SPLIT_MORE && s->eof)
		rc = s->format->finish ? s->format->finish(s, n) : found(s, n, n);
	if (rc == SPLIT_PIECE && s->len > s->conf.max_piece)
		return split_oversize(s);
	if (rc == SPLIT_PIECE || rc == SPLIT_SKIP) {
		*bytes = (struct lx_span){ p, s->len };
		s->at += s->total;
		s->seen = 0;
	}
	return rc;
}

/* jsonl: blank lines are no pieces, others are values. */
static enum split_step as_value(struct lx_split *s, struct lx_span *bytes)
{
	enum split_step rc = is_blank(*bytes) ? SPLIT_SKIP : scan_line(s, *bytes);
	*bytes = lx_buf_view(&s->value);
	s->index += rc == SPLIT_SKIP;
	return rc;
}

int lx_split_next(struct lx_split *s, struct lx_split_piece *piece, struct lx_err *e)
{
	enum split_step rc = s->why.code ? SPLIT_BAD : SPLIT_SKIP;
	while (rc == SPLIT_SKIP) {
		if (s->at == s->window.len)
			return s->eof ? LX_SPLIT_END : LX_SPLIT_MORE;
		rc = cut(s, &piece->bytes);
		if (rc == SPLIT_PIECE && s->format->kind == LX_PIECE_VALUE)
			rc = as_value(s, &piece->bytes);
	}
	if (rc == SPLIT_MORE)
		return LX_SPLIT_MORE;
	if (rc == SPLIT_BAD) {
		if (e->code == LX_OK)
			*e = s->why;
		return -1;
	}
	piece->kind = s->format->kind;
	s->index++;
	return LX_SPLIT_PIECE;
}

void lx_split_pack(struct lx_buf *out, const struct lx_split_piece *piece)
{
	if (piece->kind == LX_PIECE_TEXT)
		lx_pack_text(out, piece->bytes);
	else if (piece->kind == LX_PIECE_BYTES)
		lx_pack_bin(out, piece->bytes);
	else
		lx_buf_span(out, piece->bytes);
}

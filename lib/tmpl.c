#include "tmpl.h"

#include "num.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* A piece of an element: literal text, or something to fill in. */
struct piece {
	enum { TEXT, FIELD, ID, ORDINAL, KEY, DIR } kind;
	struct lx_span text; /* the literal, or the name; a view into argv */
};

struct element {
	size_t first, n; /* pieces */
	bool named;      /* has a template */
	bool path;       /* begins with {path} or {xyz_path} */
};

struct lx_tmpl {
	char *const *argv;
	struct element *element;
	size_t n_elements;
	struct piece *piece;
	size_t n_pieces, cap_pieces;
	struct lx_strs fields; /* all */
	struct lx_strs named;  /* those in braces */
	bool dir;
};

/* ---- parsing ---- */

static bool is_name_start(char c)
{
	return isalpha((unsigned char)c) || c == '_';
}

static size_t name_len(const char *s)
{
	size_t n = 0;
	if (is_name_start(*s))
		while (isalnum((unsigned char)s[n]) || (s[n] && strchr("_.-", s[n])))
			n++;
	return n;
}

static int add_piece(struct lx_tmpl *t, int kind, const char *p, size_t len, struct lx_err *e)
{
	if (t->n_pieces == t->cap_pieces) {
		size_t cap = t->cap_pieces ? 2 * t->cap_pieces : 16;
		struct piece *more = realloc(t->piece, cap * sizeof(*more));
		if (!more)
			return lx_err_sys(e, "a command template");
		t->piece = more;
		t->cap_pieces = cap;
	}
	t->piece[t->n_pieces++] = (struct piece){ kind, { (const uint8_t *)p, len } };
	return 0;
}

static int add_text(struct lx_tmpl *t, const char *p, size_t len, struct lx_err *e)
{
	return len ? add_piece(t, TEXT, p, len, e) : 0;
}

static int add_field(struct lx_strs *l, const char *p, size_t len, struct lx_err *e)
{
	char *name = strndup(p, len);
	if (!name)
		return lx_err_sys(e, "a command template");
	int rc = lx_strs_has(l, name) ? 0 : lx_strs_add(l, name, e);
	free(name);
	return rc;
}

static bool is_word(const char *p, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(p, word, len) == 0;
}

static int add_name(struct lx_tmpl *t, const char *p, size_t len, struct lx_err *e)
{
	static const struct {
		const char *word;
		int kind;
	} own[] = { { "id", ID }, { "ordinal", ORDINAL }, { "key", KEY }, { "dir", DIR } };
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		if (is_word(p, len, own[i].word)) {
			t->dir = t->dir || own[i].kind == DIR;
			return add_piece(t, own[i].kind, p, len, e);
		}
	}
	if (add_field(&t->fields, p, len, e) < 0 || add_field(&t->named, p, len, e) < 0)
		return -1;
	return add_piece(t, FIELD, p, len, e);
}

static size_t run_of(const char *p, char c)
{
	size_t n = 0;
	while (p[n] == c)
		n++;
	return n;
}

/* Braces at p: add the text from *text on and what they stand for. Returns behind them, *text likewise unless they are literal. */
static const char *add_braces(struct lx_tmpl *t, const char *p, const char **text, struct lx_err *e)
{
	size_t open = run_of(p, '{');
	const char *name = p + open;
	size_t len = name_len(name), closed = run_of(name + len, '}');
	size_t pairs = open < closed ? open : closed, half = pairs / 2;
	bool shell_variable = p > *text && p[-1] == '$';
	if (!len || !pairs || shell_variable)
		return name + len;
	p += open - pairs;
	/* Half of the pairs are literal; of an odd number the one left makes the template. */
	if (add_text(t, *text, (size_t)(p - *text) + half, e) < 0)
		return NULL;
	if ((pairs % 2 ? add_name(t, name, len, e) : add_text(t, name, len, e)) < 0)
		return NULL;
	if (add_text(t, name + len, half, e) < 0)
		return NULL;
	*text = name + len + pairs;
	return *text;
}

static bool is_path_name(struct lx_span s)
{
	return lx_span_eq(s, lx_span_str("path")) || (s.len > 5 && memcmp(s.p + s.len - 5, "_path", 5) == 0);
}

/* Fields that a script names by its environment. */
static int add_env_fields(struct lx_tmpl *t, const char *s, struct lx_err *e)
{
	static const char prefix[] = "LX_FIELD_";
	while ((s = strstr(s, prefix))) {
		s += sizeof(prefix) - 1;
		size_t n = 0;
		while (isalnum((unsigned char)s[n]) || s[n] == '_')
			n++;
		if (n && add_field(&t->fields, s, n, e) < 0)
			return -1;
	}
	return 0;
}

static int add_element(struct lx_tmpl *t, const char *s, struct element *el, struct lx_err *e)
{
	const char *text = s, *p = s;
	el->first = t->n_pieces;
	while (*p) {
		if (*p != '{')
			p++;
		else if (!(p = add_braces(t, p, &text, e)))
			return -1;
	}
	if (add_text(t, text, (size_t)(p - text), e) < 0)
		return -1;
	el->n = t->n_pieces - el->first;
	const struct piece *first = t->piece + el->first;
	el->path = el->n && first->kind == FIELD && is_path_name(first->text);
	for (size_t i = 0; i < el->n; i++)
		el->named = el->named || first[i].kind != TEXT;
	return add_env_fields(t, s, e);
}

/* ---- what must not reach a shell ---- */

static bool base_is(const char *program, const char *const *list)
{
	const char *slash = strrchr(program, '/');
	for (; *list; list++)
		if (strcmp(slash ? slash + 1 : program, *list) == 0)
			return true;
	return false;
}

static const char *const shells[] = { "sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "fish", "csh", "tcsh", NULL };
/* They give their arguments to a shell. */
static const char *const to_shell[] = { "ssh", "rsh", "su", "runuser", "script", "watch", "parallel", "eval", NULL };
/* They run another program that stands among their arguments. */
static const char *const wrappers[] = { "env", "timeout", "nice", "ionice", "chrt", "taskset", "nohup", "setsid", "stdbuf", "time",
	"sudo", "doas", "xargs", "flock", "unshare", "nsenter", "chroot", "busybox", "strace", "numactl", "exec", NULL };

static int refuse_script(const char *shell, struct lx_err *e)
{
	return lx_err_set(e, LX_USAGE,
	                  "a template in what '%s' runs as a script: use the environment there, as in "
	                  "sh -c 'file \"$LX_FIELD_path\"', or an argument: sh -c 'file \"$1\"' sh {path}", shell);
}

/* The shell is element i. Its options and, with -c, its script must not come from data; a script file may, unless its
 * name could be taken for an option. */
static int check_shell(const struct lx_tmpl *t, size_t i, struct lx_err *e)
{
	const char *shell = t->argv[i++];
	bool script = false;
	for (; i < t->n_elements; i++) {
		const char *s = t->argv[i];
		if ((*s != '-' && *s != '+') || !s[1])
			break;
		if (strcmp(s, "--") == 0) {
			i++;
			break;
		}
		if (t->element[i].named)
			return refuse_script(shell, e);
		if (s[1] == '-')
			continue;
		script = script || strchr(s, 'c');
		if (strchr(s, 'o') || strchr(s, 'O')) /* takes an argument */
			if (++i < t->n_elements && t->element[i].named)
				return refuse_script(shell, e);
	}
	if (i >= t->n_elements || !t->element[i].named)
		return 0;
	bool as_option = t->piece[t->element[i].first].kind != TEXT && !t->element[i].path;
	return script || as_option ? refuse_script(shell, e) : 0;
}

static int check_to_shell(const struct lx_tmpl *t, size_t i, struct lx_err *e)
{
	for (size_t k = i + 1; k < t->n_elements; k++)
		if (t->element[k].named)
			return lx_err_set(e, LX_USAGE, "'%s' gives '%s' to a shell: send the value on stdin", t->argv[i], t->argv[k]);
	return 0;
}

static int check_safe(const struct lx_tmpl *t, struct lx_err *e)
{
	if (t->element[0].named)
		return lx_err_set(e, LX_USAGE, "the program '%s' would come from data: name it", t->argv[0]);
	bool wrapped = base_is(t->argv[0], wrappers);
	for (size_t i = 0; i < (wrapped ? t->n_elements : 1); i++) {
		if (base_is(t->argv[i], shells) && check_shell(t, i, e) < 0)
			return -1;
		if (base_is(t->argv[i], to_shell) && check_to_shell(t, i, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- making ---- */

static int parse(struct lx_tmpl *t, struct lx_err *e)
{
	for (size_t i = 0; i < t->n_elements; i++)
		if (add_element(t, t->argv[i], &t->element[i], e) < 0)
			return -1;
	return check_safe(t, e);
}

struct lx_tmpl *lx_tmpl_new(char *const *argv, struct lx_err *e)
{
	struct lx_tmpl *t = calloc(1, sizeof(*t));
	if (!t) {
		lx_err_sys(e, "a command template");
		return NULL;
	}
	t->argv = argv;
	while (argv[t->n_elements])
		t->n_elements++;
	t->element = calloc(t->n_elements + 1, sizeof(*t->element));
	if (!t->n_elements)
		lx_err_set(e, LX_USAGE, "a command is missing");
	else if (!t->element)
		lx_err_sys(e, "a command template");
	else if (parse(t, e) == 0)
		return t;
	lx_tmpl_free(t);
	return NULL;
}

void lx_tmpl_free(struct lx_tmpl *t)
{
	if (!t)
		return;
	lx_strs_free(&t->fields);
	lx_strs_free(&t->named);
	free(t->element);
	free(t->piece);
	free(t);
}

const struct lx_strs *lx_tmpl_fields(const struct lx_tmpl *t)
{
	return &t->fields;
}

bool lx_tmpl_uses_dir(const struct lx_tmpl *t)
{
	return t->dir;
}

int lx_tmpl_check(const struct lx_tmpl *t, const struct lx_plan *p, int domain, struct lx_err *e)
{
	for (size_t i = 0; i < t->fields.n; i++) {
		const char *field = t->fields.v[i];
		char hint[160];
		if (lx_strs_has(&t->named, field))
			snprintf(hint, sizeof(hint), "write {{%.60s}} for literal text", field);
		else
			snprintf(hint, sizeof(hint), "LX_FIELD_%.60s", field);
		if (lx_plan_reads(p, domain, field, hint, e) < 0)
			return -1;
	}
	for (size_t i = 0; domain > 0 && i < t->n_pieces; i++)
		if (t->piece[i].kind == KEY)
			return lx_err_set(e, LX_USAGE, "{key}: only items of %s have a key (write {{key}} for literal text)",
			                  p->domains[0].name);
	return 0;
}

/* ---- values as text ---- */

#define EXT_NUMBER 1 /* a JSON number kept as its text (lx-stream(5)) */

int lx_value_text(struct lx_span value, struct lx_buf *out)
{
	struct lx_val v;
	char num[LX_NUM_MAX];
	if (lx_val_from(value, &v) < 0)
		return -1;
	switch (v.type) {
	case LX_NIL:
		return 0;
	case LX_BOOL:
		lx_buf_str(out, v.b ? "true" : "false");
		return 0;
	case LX_UINT:
		lx_buf_printf(out, "%llu", (unsigned long long)v.u);
		return 0;
	case LX_INT:
		lx_buf_printf(out, "%lld", (long long)v.i);
		return 0;
	case LX_F32:
		lx_buf_add(out, num, lx_num_f32(num, (float)v.f));
		return 0;
	case LX_F64:
		lx_buf_add(out, num, lx_num_f64(num, v.f));
		return 0;
	case LX_EXT:
		if (v.ext != EXT_NUMBER)
			return -1;
		/* fallthrough */
	case LX_STR:
	case LX_BIN:
		lx_buf_span(out, v.s);
		return 0;
	default:
		return -1;
	}
}

/* ---- arrays of strings in an arena that may move while it grows: offsets first, pointers at the end ---- */

static size_t table_begin(struct lx_buf *b, size_t n)
{
	size_t pad = -b->len % sizeof(char *), at = b->len + pad;
	uint8_t *room = lx_buf_room(b, pad + (n + 1) * sizeof(char *));
	if (room)
		b->len += pad + (n + 1) * sizeof(char *);
	return at;
}

/* The i-th string begins here. */
static void table_set(struct lx_buf *b, size_t at, size_t i)
{
	if (!b->failed)
		memcpy(b->p + at + i * sizeof(char *), &b->len, sizeof(b->len));
}

static char **table_end(struct lx_buf *b, size_t at, size_t n)
{
	if (b->failed)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		size_t offset;
		memcpy(&offset, b->p + at + i * sizeof(char *), sizeof(offset));
		char *s = (char *)b->p + offset;
		memcpy(b->p + at + i * sizeof(char *), &s, sizeof(s));
	}
	memset(b->p + at + n * sizeof(char *), 0, sizeof(char *));
	return (char **)(void *)(b->p + at);
}

/* ---- filling ---- */

static int blame(struct lx_tmpl_why *why, const char *type, struct lx_span name, const char *what)
{
	why->type = type;
	snprintf(why->message, sizeof(why->message), "{%.*s}: %s", (int)(name.len < 80 ? name.len : 80), (const char *)name.p, what);
	return -1;
}

/* Append the text of a value, which has to fit into an argument. */
static int fill_value(struct lx_span name, struct lx_span value, bool path, struct lx_buf *b, struct lx_tmpl_why *why)
{
	size_t at = b->len;
	if (!value.p)
		return blame(why, "no-field", name, "the item has no such field");
	if (lx_value_text(value, b) < 0)
		return blame(why, "bad-field", name, "an array, a map or an extension is no argument");
	if (b->failed)
		return 0;
	if (b->len > at && memchr(b->p + at, '\0', b->len - at))
		return blame(why, "bad-field", name, "the value holds a NUL byte, which no argument can");
	if (path && b->len > at && b->p[at] == '-' && lx_buf_room(b, 2)) {
		memmove(b->p + at + 2, b->p + at, b->len - at);
		memcpy(b->p + at, "./", 2);
		b->len += 2;
	}
	return 0;
}

static int fill_piece(const struct piece *p, bool path, const struct lx_rec *r, const char *dir, struct lx_buf *b,
                      struct lx_tmpl_why *why)
{
	char id[LX_ID_TEXT_MAX];
	switch (p->kind) {
	case TEXT:
		lx_buf_span(b, p->text);
		return 0;
	case ID:
		lx_id_text(&r->id, id, sizeof(id));
		lx_buf_str(b, id);
		return 0;
	case ORDINAL:
		lx_buf_printf(b, "%llu", (unsigned long long)lx_id_ordinal(&r->id));
		return 0;
	case KEY:
		return fill_value(p->text, r->key, false, b, why);
	case DIR:
		lx_buf_str(b, dir ? dir : "");
		return 0;
	default:
		return fill_value(p->text, r->fields.p ? lx_map_get(r->fields, (const char *)p->text.p, p->text.len) : (struct lx_span){ 0 },
		                  path, b, why);
	}
}

char **lx_tmpl_fill(const struct lx_tmpl *t, const struct lx_rec *r, const char *dir, struct lx_buf *arena,
                    struct lx_tmpl_why *why)
{
	size_t at = table_begin(arena, t->n_elements);
	*why = (struct lx_tmpl_why){ .type = NULL };
	for (size_t i = 0; i < t->n_elements; i++) {
		const struct element *el = &t->element[i];
		table_set(arena, at, i);
		for (size_t k = 0; k < el->n; k++)
			if (fill_piece(&t->piece[el->first + k], el->path && k == 0, r, dir, arena, why) < 0)
				return NULL;
		lx_buf_byte(arena, '\0');
	}
	return table_end(arena, at, t->n_elements);
}

/* ---- environment ---- */

struct table {
	struct lx_buf *b;
	size_t at, n;
};

__attribute__((format(printf, 2, 3))) static void add_var(struct table *v, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	table_set(v->b, v->at, v->n++);
	if (n < 0)
		v->b->failed = true;
	else
		lx_buf_add(v->b, s, (size_t)n + 1);
	free(s);
}

/* NAME=TEXT, or NAME alone (unset it) when there is no text that fits. */
static void add_value(struct table *v, const char *prefix, const char *name, struct lx_span value)
{
	struct lx_buf *b = v->b;
	table_set(b, v->at, v->n++);
	lx_buf_str(b, prefix);
	for (; *name; name++)
		lx_buf_byte(b, isalnum((unsigned char)*name) ? (uint8_t)*name : '_');
	size_t end = b->len;
	lx_buf_byte(b, '=');
	bool good = value.p && lx_value_text(value, b) == 0;
	if (!b->failed && (!good || memchr(b->p + end, '\0', b->len - end)))
		b->len = end;
	lx_buf_byte(b, '\0');
}

static void add_fields(struct table *v, const struct lx_strs *fields, const struct lx_rec *r)
{
	for (size_t i = 0; fields && i < fields->n; i++)
		add_value(v, "LX_FIELD_", fields->v[i], lx_rec_field(r, fields->v[i]));
}

char **lx_tmpl_env(const struct lx_tmpl *t, const struct lx_tmpl_env *x, const struct lx_rec *r, struct lx_buf *arena)
{
	char id[LX_ID_TEXT_MAX];
	size_t n_set = 0;
	while (x->set && x->set[n_set])
		n_set++;
	size_t n = 7 + n_set + t->fields.n + (x->fields ? x->fields->n : 0);
	struct table v = { arena, table_begin(arena, n), 0 };
	lx_id_text(&r->id, id, sizeof(id));
	add_var(&v, "LX_ID=%s", id);
	add_var(&v, "LX_ORDINAL=%llu", (unsigned long long)lx_id_ordinal(&r->id));
	add_var(&v, "LX_DOMAIN=%s", x->plan->domains[r->domain].name);
	add_var(&v, "LX_RUN_ID=%s", x->plan->run);
	add_value(&v, "LX_KEY", "", r->key);
	add_var(&v, x->dir ? "LX_DIR=%s" : "LX_DIR", x->dir);
	add_var(&v, x->fail >= 0 ? "LX_FAIL=%d" : "LX_FAIL", x->fail);
	for (size_t i = 0; i < n_set; i++)
		add_var(&v, "%s", x->set[i]);
	add_fields(&v, &t->fields, r);
	add_fields(&v, x->fields, r);
	return table_end(arena, v.at, v.n);
}

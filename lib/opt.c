#include "opt.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

int lx_strs_add(struct lx_strs *l, const char *s, struct lx_err *e)
{
	const char **v = realloc(l->v, (l->n + 2) * sizeof(*v));
	if (!v)
		return lx_err_sys(e, "a list of %zu strings", l->n + 1);
	l->v = v;
	v[l->n] = strdup(s);
	if (!v[l->n])
		return lx_err_sys(e, "a list of %zu strings", l->n + 1);
	v[++l->n] = NULL;
	return 0;
}

bool lx_strs_has(const struct lx_strs *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], s) == 0)
			return true;
	return false;
}

void lx_strs_free(struct lx_strs *l)
{
	for (size_t i = 0; i < l->n; i++)
		free((char *)l->v[i]);
	free(l->v);
	*l = (struct lx_strs){ 0 };
}

/* ---- numbers ---- */

/* Digits at *s; false when there is none or they pass 2^64-1 (errno ERANGE). */
static bool take_digits(const char **s, uint64_t *out)
{
	char *end;
	errno = 0;
	if (**s < '0' || **s > '9')
		return false;
	*out = strtoull(*s, &end, 10);
	*s = end;
	return errno == 0;
}

static const char *sep(const char *what)
{
	return *what ? ": " : "";
}

static int too_large(const char *what, const char *s, struct lx_err *e)
{
	return lx_err_set(e, LX_USAGE, "%s%s'%s' is too large", what, sep(what), s);
}

static int check_range(const char *what, uint64_t v, uint64_t min, uint64_t max, const char *unit, struct lx_err *e)
{
	if (v < min)
		return lx_err_set(e, LX_USAGE, "%s%s%llu%s is below %llu%s", what, sep(what), (unsigned long long)v, unit,
		                  (unsigned long long)min, unit);
	if (max && v > max)
		return lx_err_set(e, LX_USAGE, "%s%s%llu%s is above %llu%s", what, sep(what), (unsigned long long)v, unit,
		                  (unsigned long long)max, unit);
	return 0;
}

int lx_opt_uint(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out, struct lx_err *e)
{
	const char *p = s;
	uint64_t v = 0;
	if (!take_digits(&p, &v) && errno == ERANGE)
		return too_large(what, s, e);
	if (p == s || *p)
		return lx_err_set(e, LX_USAGE, "%s%s'%s' is not a whole number", what, sep(what), s);
	if (check_range(what, v, min, max, "", e) < 0)
		return -1;
	*out = v;
	return 0;
}

int lx_opt_size(const char *what, const char *s, uint64_t *out, struct lx_err *e)
{
	static const char letters[] = "KMGTkmgt";
	const char *p = s;
	uint64_t v = 0, unit = 1;
	if (!take_digits(&p, &v) && errno == ERANGE)
		return too_large(what, s, e);
	const char *letter = p != s && *p ? strchr(letters, *p) : NULL;
	if (letter) {
		unit = 1ull << (10 * ((letter - letters) % 4 + 1));
		p++;
	}
	if (p == s || *p)
		return lx_err_set(e, LX_USAGE, "%s%s'%s' is not a size (bytes, or with K, M, G or T)", what, sep(what), s);
	if (__builtin_mul_overflow(v, unit, &v))
		return too_large(what, s, e);
	*out = v;
	return 0;
}

/* Milliseconds in one of a suffix; 0: no such suffix. */
static uint64_t time_unit(const char *suffix, uint64_t bare)
{
	static const struct {
		const char *suffix;
		uint64_t ms;
	} t[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };
	if (!*suffix)
		return bare;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		if (strcmp(suffix, t[i].suffix) == 0)
			return t[i].ms;
	return 0;
}

int lx_opt_time(const char *what, const char *s, uint64_t unit_ms, uint64_t *out, struct lx_err *e)
{
	const char *p = s;
	uint64_t v = 0, frac = 0, scale = 1;
	if (!take_digits(&p, &v) && errno == ERANGE)
		return too_large(what, s, e);
	bool good = p != s;
	if (good && *p == '.') {
		const char *digits = ++p;
		/* Nine decimals: frac * 3600000 stays far below 2^64. */
		for (; *p >= '0' && *p <= '9' && p - digits < 9; p++) {
			frac = frac * 10 + (uint64_t)(*p - '0');
			scale *= 10;
		}
		good = p != digits;
	}
	uint64_t unit = good ? time_unit(p, unit_ms) : 0;
	if (!unit)
		return lx_err_set(e, LX_USAGE, "%s%s'%s' is not a time (a number with ms, s, m or h)", what, sep(what), s);
	if (frac * unit % scale)
		return lx_err_set(e, LX_USAGE, "%s%s'%s' is finer than a millisecond", what, sep(what), s);
	if (__builtin_mul_overflow(v, unit, &v) || __builtin_add_overflow(v, frac * unit / scale, &v))
		return too_large(what, s, e);
	*out = v;
	return 0;
}

/* ---- the table ---- */

static int set_names(const char *what, struct lx_strs *l, const char *arg, struct lx_err *e)
{
	char *copy = strdup(arg), *rest = copy, *name;
	if (!copy)
		return lx_err_sys(e, "%s", what);
	int rc = 0;
	while (rc == 0 && (name = strsep(&rest, ",")))
		rc = *name ? lx_strs_add(l, name, e) : lx_err_set(e, LX_USAGE, "%s: an empty name in '%s'", what, arg);
	free(copy);
	return rc;
}

static int set_number(const struct lx_opt *o, const char *what, const char *arg, struct lx_err *e)
{
	uint64_t v = 0;
	const char *unit = "";
	int rc;
	if (o->kind == LX_OPT_UINT) {
		rc = lx_opt_uint(what, arg, 0, 0, &v, e);
	} else if (o->kind == LX_OPT_SIZE) {
		rc = lx_opt_size(what, arg, &v, e);
		unit = " bytes";
	} else {
		rc = lx_opt_time(what, arg, o->kind == LX_OPT_SEC ? 1000 : 1, &v, e);
		unit = " ms";
	}
	if (rc < 0 || check_range(what, v, o->min, o->max, unit, e) < 0)
		return -1;
	*(uint64_t *)o->to = v;
	return 0;
}

static int set_option(const struct lx_opt *o, const char *what, const char *arg, struct lx_err *e)
{
	bool text = o->kind == LX_OPT_STR || o->kind == LX_OPT_LIST || o->kind == LX_OPT_NAMES;
	if (text && !*arg)
		return lx_err_set(e, LX_USAGE, "%s: the value is empty", what);
	switch (o->kind) {
	case LX_OPT_FLAG:
		*(bool *)o->to = true;
		return 0;
	case LX_OPT_STR:
		*(const char **)o->to = arg;
		return 0;
	case LX_OPT_LIST:
		return lx_strs_add(o->to, arg, e);
	case LX_OPT_NAMES:
		return set_names(what, o->to, arg, e);
	case LX_OPT_CALL:
		if (o->call(o->to, arg, e) == 0)
			return 0;
		return lx_err_prefix(e, "%s", what);
	default:
		return set_number(o, what, arg, e);
	}
}

/* What getopt_long wants, made from a table. Long options return their index + 256. */
struct getopt_form {
	char letters[2 + 2 * LX_OPTS_MAX];
	struct option longs[LX_OPTS_MAX];
};

static int make_form(struct getopt_form *f, const struct lx_opt *table, struct lx_err *e)
{
	char *letter = f->letters;
	struct option *o = f->longs;
	*letter++ = '+'; /* options end at the first operand */
	*letter++ = ':';
	for (int i = 0; table[i].letter || table[i].name; i++) {
		bool arg = table[i].kind != LX_OPT_FLAG;
		if (i + 1 == LX_OPTS_MAX)
			return lx_err_set(e, LX_USAGE, "a table of over %d options", LX_OPTS_MAX - 1);
		if (table[i].letter) {
			*letter++ = table[i].letter;
			if (arg)
				*letter++ = ':';
		}
		if (table[i].name)
			*o++ = (struct option){ table[i].name, arg ? required_argument : no_argument, NULL, 256 + i };
	}
	*letter = '\0';
	*o = (struct option){ 0 };
	return 0;
}

static int find_letter(const struct lx_opt *table, int letter)
{
	int i = 0;
	while (table[i].letter != letter)
		i++;
	return i;
}

/* getopt said '?' or ':'. It leaves optopt 0 for an unknown or ambiguous long option. */
static int refuse(int said, char **argv, const struct lx_opt *table, struct lx_err *e)
{
	const char *word = argv[optind - 1];
	if (optopt >= 256)
		return lx_err_set(e, LX_USAGE, said == ':' ? "--%s needs a value" : "--%s takes no value",
		                  table[optopt - 256].name);
	if (said == ':')
		return lx_err_set(e, LX_USAGE, "-%c needs a value", optopt);
	if (optopt)
		return lx_err_set(e, LX_USAGE, "unknown option -%c (-h shows the usage)", optopt);
	return lx_err_set(e, LX_USAGE, "unknown or ambiguous option %s (-h shows the usage)", word);
}

int lx_opt_parse(int argc, char **argv, const struct lx_opt *table, bool *dashes, struct lx_err *e)
{
	struct getopt_form f;
	if (make_form(&f, table, e) < 0)
		return -1;
	optind = 0; /* glibc: start afresh */
	opterr = 0;
	for (;;) {
		int before = optind ? optind : 1;
		int c = getopt_long(argc, argv, f.letters, f.longs, NULL);
		if (c == -1) {
			if (dashes)
				*dashes = optind > before;
			return optind;
		}
		if (c == '?' || c == ':')
			return refuse(c, argv, table, e);
		char what[64];
		int i = c >= 256 ? c - 256 : find_letter(table, c);
		if (c >= 256)
			snprintf(what, sizeof(what), "--%s", table[i].name);
		else
			snprintf(what, sizeof(what), "-%c", c);
		if (set_option(&table[i], what, optarg, e) < 0)
			return -1;
	}
}

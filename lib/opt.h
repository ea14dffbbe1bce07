/* opt: command-line options from a table.
 *
 * getopt_long underneath; options end at the first operand or at "--". Numbers are parsed whole
 * with range checks: "12x", "-1" and 99999999999999999999 are errors that name the option.
 */
#ifndef LX_OPT_H
#define LX_OPT_H

#include "err.h"

#include <stddef.h>
#include <stdint.h>

struct lx_strs { /* a growing, NULL-terminated list of strings of its own; v is NULL while empty */
	const char **v;
	size_t n;
};

enum lx_opt_kind {
	LX_OPT_FLAG,  /* bool *: set true */
	LX_OPT_STR,   /* const char ** into argv: an empty string is refused */
	LX_OPT_UINT,  /* uint64_t * */
	LX_OPT_SIZE,  /* uint64_t *: bytes; suffixes K M G T are powers of 1024 */
	LX_OPT_MS,    /* uint64_t *: milliseconds, suffixes ms s m h, decimals allowed if whole in ms */
	LX_OPT_SEC,   /* uint64_t *: stored in milliseconds; as MS, but a bare number is seconds */
	LX_OPT_LIST,  /* struct lx_strs *: appended, as often as given; an empty string is refused */
	LX_OPT_NAMES, /* struct lx_strs *: split at commas, appended; an empty name is refused */
	LX_OPT_CALL,  /* function below */
};

struct lx_opt {
	char letter;      /* 0: none */
	const char *name; /* long name without dashes; NULL: none */
	enum lx_opt_kind kind;
	void *to;         /* where it goes; LX_OPT_CALL: handed to the function */
	uint64_t min, max; /* UINT, SIZE, MS, SEC: inclusive; max 0: no upper bound */
	/* 0, or -1 with the bare reason in e: "-j: " or "--jobs: ", as the user wrote it, is put before it. */
	int (*call)(void *to, const char *arg, struct lx_err *e);
};
#define LX_OPTS_MAX 64 /* entries of a table, its end included */

/* A table ends with an entry without letter and name. Returns the index of the first operand
 * (argc when none), or -1 with LX_USAGE. *dashes (may be NULL): a "--" ended the options. */
int lx_opt_parse(int argc, char **argv, const struct lx_opt *table, bool *dashes, struct lx_err *e);

int lx_strs_add(struct lx_strs *l, const char *s, struct lx_err *e); /* a copy of s */
bool lx_strs_has(const struct lx_strs *l, const char *s);
void lx_strs_free(struct lx_strs *l);

/* Whole-string number parsing, used by option tables and commands alike. `what` is named first in
 * the message ("": not); max 0: no upper bound. */
int lx_opt_uint(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out, struct lx_err *e);
int lx_opt_size(const char *what, const char *s, uint64_t *out, struct lx_err *e);
/* Milliseconds; a bare number counts units of unit_ms (1 or 1000). */
int lx_opt_time(const char *what, const char *s, uint64_t unit_ms, uint64_t *out, struct lx_err *e);

#endif

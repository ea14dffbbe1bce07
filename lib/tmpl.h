/* tmpl: command templates. `{name}` inside an argv element is replaced by a field of the item, or by
 * {id} ("12.0.3"), {ordinal}, {key}, {dir}, which go before fields of those names. A name is
 * [A-Za-z_][A-Za-z0-9_.-]*; braces around anything else stay as they are ("{}", "{3}", "{print $1}"), and so do
 * those behind a "$" ("${HOME}").
 * Around a name, doubled braces stand for single ones: "{{name}}" is the text {name}, "{{{name}}}" the
 * value in braces.
 *
 * A field that an element names as LX_FIELD_name (as in sh -c 'file "$LX_FIELD_path"') counts as used
 * too, and is in the environment.
 *
 * A value never leaves its argv element and never reaches a shell. Refused are: a program named by a
 * template; a template in the script of `sh -c` (also bash, dash, ksh, zsh, also behind env, timeout and
 * the like) or in the options of a shell; a template handed to ssh, su and others that give
 * their arguments to a shell. In an element that begins with {path} (or {xyz_path}), a path that begins
 * with "-" becomes "./-...".
 */
#ifndef LX_TMPL_H
#define LX_TMPL_H

#include "lineage.h"
#include "opt.h"

struct lx_tmpl;

/* argv is NULL-terminated, not empty, and must outlive the template. NULL with LX_USAGE. */
struct lx_tmpl *lx_tmpl_new(char *const *argv, struct lx_err *e);
void lx_tmpl_free(struct lx_tmpl *t);
/* The field names used, each once ({id} and the like are not fields). v is NULL when there are none. */
const struct lx_strs *lx_tmpl_fields(const struct lx_tmpl *t);
bool lx_tmpl_uses_dir(const struct lx_tmpl *t);
/* Every name must be a known field of the domain (or unknowable): else LX_USAGE, saying to write {{name}} for literal text.
 * {key} is for the root domain only. */
int lx_tmpl_check(const struct lx_tmpl *t, const struct lx_plan *p, int domain, struct lx_err *e);

/* Text of a field value: str and bin as they are, integers and floats in decimal (floats shortest
 * exact), a JSON number kept as text (ext 1) as it is, true/false, nil empty. -1: array, map, other ext. */
int lx_value_text(struct lx_span value, struct lx_buf *out);

/* Why an item's template could not be filled; both are data failures of the item. */
struct lx_tmpl_why {
	const char *type;    /* "no-field" or "bad-field" (a NUL byte, an array, a map); NULL: no memory */
	char message[160];
};

/* Fill for one item: an argv whose array and strings live in `arena` until it is cleared or added to. {key} is
 * r->key. dir may be NULL when the template does not use it. NULL: *why is filled. */
char **lx_tmpl_fill(const struct lx_tmpl *t, const struct lx_rec *r, const char *dir, struct lx_buf *arena,
                    struct lx_tmpl_why *why);

/* What goes into the environment of a command. */
struct lx_tmpl_env {
	const struct lx_plan *plan;
	const struct lx_strs *fields;  /* besides those the template uses; may be NULL */
	const char *const *set;        /* NAME=VALUE for every item, NULL-terminated; may be NULL */
	const char *dir;               /* LX_DIR; may be NULL */
	int fail;                      /* LX_FAIL; -1: none */
};
/* Environment for one item, as changes for lx_spawn: LX_ID, LX_ORDINAL, LX_DOMAIN, LX_KEY (root items), LX_RUN_ID,
 * LX_DIR, LX_FAIL, and LX_FIELD_name for the fields, where bytes of a name other than letters, digits and _ become _.
 * What does not apply, and fields that are absent, hold a NUL byte or have no text, are unset, whatever was inherited.
 * Lives in arena until it is cleared or added to. NULL: no memory. */
char **lx_tmpl_env(const struct lx_tmpl *t, const struct lx_tmpl_env *x, const struct lx_rec *r, struct lx_buf *arena);

#endif

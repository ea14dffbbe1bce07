/* tmpl: command templates. `{name}` inside an argv element is replaced by a field of the item or by
 * {id} ("12.0.3"), {ordinal}, {key}, {dir}; `{{` and `}}` are literal braces and `{}` is literal.
 *
 * A value never leaves its argv element and never reaches a shell: a template in the script of
 * `sh -c` (also bash, dash, ksh, zsh) is refused and the message says to use the environment
 * ("$LX_FIELD_path"). In an element that begins with {path} (or {xyz_path}), a path that begins
 * with "-" becomes "./-...".
 */
#ifndef LX_TMPL_H
#define LX_TMPL_H

#include "lineage.h"
#include "opt.h"

struct lx_tmpl;

/* argv is NULL-terminated and must outlive the template. NULL with LX_USAGE. */
struct lx_tmpl *lx_tmpl_new(char *const *argv, struct lx_err *e);
void lx_tmpl_free(struct lx_tmpl *t);
/* The field names used, each once ({id} and the like are not fields). */
const struct lx_strs *lx_tmpl_fields(const struct lx_tmpl *t);
bool lx_tmpl_uses_dir(const struct lx_tmpl *t);
/* Every name must be a known field of the domain (or unknowable): else LX_USAGE, saying to write {{name}} for literal text. */
int lx_tmpl_check(const struct lx_tmpl *t, const struct lx_plan *p, int domain, struct lx_err *e);

/* Text of a field value: str and bin as they are, integers and floats in decimal (floats shortest
 * exact), true/false, nil empty. -1: array, map, ext. */
int lx_value_text(struct lx_span value, struct lx_buf *out);

/* Why an item's template could not be filled; both are data failures of the item. */
struct lx_tmpl_why {
	const char *type;    /* "no-field" or "bad-field" (a NUL byte, an array, a map) */
	char message[160];
};

/* Fill for one item: an argv whose array and strings live in `arena` until it is cleared. `key`: the
 * root's key if known (encoded value), dir may be NULL. NULL: *why is filled. */
char **lx_tmpl_fill(const struct lx_tmpl *t, const struct lx_rec *r, const char *dir, struct lx_buf *arena,
                    struct lx_tmpl_why *why);
/* Environment for one item: LX_ID, LX_ORDINAL, LX_DOMAIN, LX_KEY (root items), LX_RUN_ID and LX_FIELD_name for the
 * template's fields and `more`; fields without a text are left out. Lives in arena. */
char **lx_tmpl_env(const struct lx_tmpl *t, const struct lx_strs *more, const struct lx_plan *p,
                   const struct lx_rec *r, struct lx_buf *arena);

#endif

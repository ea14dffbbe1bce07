/* typed: what a command wrote as the value of a field (-o FIELD[:TYPE] of lx-map and lx-gather).
 *
 *   text   no type: str when it is UTF-8, less one newline at its end, else bin
 *   str    UTF-8, less one newline at its end
 *   bin    as it is
 *   int    an integer from -2^63 to 2^64-1, blanks around it allowed
 *   float  a floating point number, also nan and inf, blanks around it allowed
 *   json   one JSON text; tagged bytes and ext types become what they were
 */
#ifndef LX_TYPED_H
#define LX_TYPED_H

#include "json.h"

enum lx_typed_as { LX_AS_TEXT, LX_AS_STR, LX_AS_BIN, LX_AS_INT, LX_AS_FLOAT, LX_AS_JSON };

struct lx_typed {
	char *field;           /* owned */
	enum lx_typed_as as;
	uint32_t max_depth;    /* of a json value; set by the caller */
	struct lx_json json;
	struct lx_buf text;
	char why[LX_ERR_MAX];
};

#define LX_TYPED_INIT { .max_depth = 30, .json = LX_JSON_INIT }

/* FIELD or FIELD:TYPE. -1 with LX_USAGE, which names -o. */
int lx_typed_parse(struct lx_typed *t, const char *arg, struct lx_err *e);
/* Append the encoded value. NULL, or why it cannot be one (valid until the next call): then `value` is undefined. */
const char *lx_typed_pack(struct lx_typed *t, struct lx_span out, struct lx_buf *value);
void lx_typed_release(struct lx_typed *t);

#endif

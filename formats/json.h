/* json: JSON text (RFC 8259) to msgpack values and back, exactly.
 *
 * Reading        integers -2^63 .. 2^64-1     msgpack integers
 *                other integers               ext 1 holding the literal text
 *                -0                           f64 -0.0
 *                with a point or an exponent  f64, correctly rounded; ext 1 when it overflows (1e400) or
 *                                             is not zero and rounds to zero (1e-400)
 *                strings                      str; \u escapes as UTF-8, a lone surrogate as its three bytes
 *                                             (so the str is not UTF-8); bytes that are no UTF-8 stay as they are
 *                objects                      maps in the order of the text; a key that comes twice is an error:
 *                                             whichever value won, data would be lost without a word
 *                strict: no byte order mark, no comments, no trailing commas, no NaN
 *
 * Writing        always valid JSON, valid UTF-8, one line. Floats are the shortest text that reads back equal
 *                and keep a point or exponent (1.0); a float32 is the shortest for a float, and reads back as
 *                the f64 of that text. What JSON lacks is an object with one tagged member:
 *                bin                                       {"$bin":"BASE64"}
 *                str that is not UTF-8                     {"$str":"BASE64"}
 *                ext 1 with a number that needs it         the number itself
 *                any other ext                             {"$ext":[TYPE,"BASE64"]}
 *                not finite                                {"$float":"nan"}, "inf", "-inf"
 *                map with a key that is no str or no UTF-8,
 *                with a key twice, or whose only key is
 *                one of these five tags                    {"$map":[[KEY,VALUE],...]}
 *
 * Round trip: what lx_json_write wrote, lx_json_scan with `tags` turns back into the same value. The same means
 * msgpack type and content; the width of integers, float32 against float64 and the bits of a NaN are not kept.
 */
#ifndef LX_JSON_H
#define LX_JSON_H

#include "buf.h"

#define LX_JSON_EXT_NUMBER 1 /* ext type of a number kept as text */
#define LX_JSON_DEPTH_MAX 64 /* nesting of any value: what lx_val_walk bears */

/* A scanner; reuse it, it keeps its scratch memory. Start with LX_JSON_INIT. */
struct lx_json {
	bool tags;          /* turn {"$bin":...} and the like back into what they stand for */
	unsigned max_depth; /* nested containers of the value; a scalar is depth 0. At most LX_JSON_DEPTH_MAX */
	uint64_t line;      /* number of the text's first line, for messages; 0 counts as 1 */
	const char *member; /* a name to look out for; may be NULL */
	/* set by lx_json_scan */
	bool has_member;    /* the text is an object that may have this member; false: it has not */
	size_t at;          /* of an error: byte offset in the text */
	/* scratch */
	struct lx_buf keys, seen, text;
};
#define LX_JSON_INIT { .max_depth = 32 }

/* Scan exactly one JSON text, white space around it allowed, and append its value to out.
 * -1: LX_DATA, `out` is as before, the message is "line 1 column 17: expected ',' or '}'" (both count from 1,
 * columns are bytes) or ends in "nesting over 32 (--max-depth)"; or LX_SYSTEM, no memory. */
int lx_json_scan(struct lx_json *j, struct lx_span text, struct lx_buf *out, struct lx_err *e);
void lx_json_release(struct lx_json *j);

/* Append the JSON text of one whole msgpack value (as found by lx_val_walk). -1: LX_DATA (`value` is not exactly
 * one value, or nests over LX_JSON_DEPTH_MAX; out is as before) or LX_SYSTEM. */
int lx_json_write(struct lx_buf *out, struct lx_span value, struct lx_err *e);

/* The parts of a hand-made object. Each appends one JSON value. */
void lx_json_str(struct lx_buf *out, struct lx_span s); /* a string, or {"$str":...} when s is not UTF-8 */
void lx_json_cstr(struct lx_buf *out, const char *s);
void lx_json_bin(struct lx_buf *out, struct lx_span s); /* {"$bin":...} */
void lx_json_f64(struct lx_buf *out, double v);

#endif

/* test: what lx-filter asks of an item: `ink>0.01`, `lang==en`, `name=~^p[0-9]+$`, `?title`.
 *
 *   FIELD OP VALUE   OP is == != < <= > >=
 *   FIELD =~ REGEX   matches a POSIX extended regular expression somewhere; FIELD !~ REGEX does not. The regex is all
 *                    that follows the operator, and sees bytes
 *   ?FIELD           the item has the field, whatever is in it
 *
 * A field whose name holds one of = ! < >, a quote, or blanks at an end is written as a JSON string: `"a=b"==1`.
 * Blanks around the operator and at the ends are dropped. VALUE in double quotes is a JSON string and compared as a
 * string; a JSON number (also .5 and +5), true, false and null are what they say; anything else is a string as it stands.
 *
 *   field               VALUE            == and !=                   < <= > >=
 *   integer, float      number           by number, exactly          by number, exactly
 *   str, bin            string           byte for byte               by byte values
 *   str, bin            number, true..   with the text as written    bad-field
 *   bool, nil           true, false..    as they say                 bad-field
 *   any other pair                       different                   bad-field
 *
 * Exactly: integers of any size against each other and against floats, without rounding one to the other. A value with a
 * point or an exponent is read as a double, and for a field that is a float32 as a float32. NaN differs from everything.
 */
#ifndef LX_TEST_H
#define LX_TEST_H

#include "value.h"

#include <regex.h>

enum lx_test_op {
	LX_TEST_EQ,
	LX_TEST_NE,
	LX_TEST_LT,
	LX_TEST_LE,
	LX_TEST_GT,
	LX_TEST_GE,
	LX_TEST_MATCH,
	LX_TEST_NO_MATCH,
	LX_TEST_EXISTS,
};

struct lx_test {
	char *field;
	size_t field_len;
	enum lx_test_op op;
	struct lx_buf text;   /* the value as it was written, or what its quotes hold */
	struct lx_buf packed; /* the value, encoded; `value` has views of it */
	struct lx_val value;
	bool quoted;
	regex_t regex;        /* MATCH, NO_MATCH */
};

/* Tests that must all hold. Start with zeroes. */
struct lx_tests {
	struct lx_test *v;
	size_t n;
};

/* -1: LX_USAGE, "test 'ink=1': ...", or LX_SYSTEM. */
int lx_tests_add(struct lx_tests *t, const char *text, struct lx_err *e);
void lx_tests_release(struct lx_tests *t);

enum lx_verdict {
	LX_TEST_FALSE,
	LX_TEST_TRUE,
	LX_TEST_FAILED, /* it cannot be said: *why is filled, the item fails */
};
struct lx_test_why {
	const char *type; /* no-field, bad-field */
	char message[256];
};
/* Ask the tests in order, up to the first that is not true. `fields`: an encoded map. */
enum lx_verdict lx_tests_ask(const struct lx_tests *t, struct lx_span fields, struct lx_test_why *why);

/* Compare two numbers (integers, floats, JSON numbers kept as text) exactly: -1, 0, 1; LX_UNORDERED with a NaN or something
 * that is no number. */
#define LX_UNORDERED 2
int lx_number_cmp(const struct lx_val *a, const struct lx_val *b);

#endif

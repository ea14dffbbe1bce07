/* json_int: what the scanner and the writer of JSON share; nobody else includes it. */
#ifndef LX_JSON_INT_H
#define LX_JSON_INT_H

#include "json.h"

/* ---- numbers ---- */

enum json_num_kind { JSON_UINT, JSON_INT, JSON_F64, JSON_TEXT /* becomes ext 1 */ };

struct json_num {
	enum json_num_kind kind;
	uint64_t u;
	int64_t i;
	double f;
};

/* Read the number that begins at p. Returns where it ends, or NULL with *bad set to where the grammar broke.
 * `scratch` is used for numbers that need strtod. */
const uint8_t *json_number(const uint8_t *p, const uint8_t *end, struct json_num *n, const uint8_t **bad,
                           struct lx_buf *scratch);

/* ---- keys ---- */

struct json_key {
	size_t off, len; /* of its bytes, from a base the caller knows */
	size_t at;       /* where it stands in the text, for messages */
	uint64_t sig;    /* json_key_sig of the bytes */
};

uint64_t json_key_sig(const uint8_t *p, size_t len);
/* Index of the first key that equals an earlier one, or n. `table` is scratch. */
size_t json_key_twice(const uint8_t *base, const struct json_key *keys, size_t n, struct lx_buf *table);

/* ---- tags ---- */

enum json_tag { JSON_NO_TAG, JSON_BIN, JSON_STR, JSON_EXT, JSON_FLOAT, JSON_MAP };

enum json_tag json_tag(struct lx_span key);

/* First byte from p on that cannot stand in a string as it is: '"', '\\' or below 0x20; or end. */
const uint8_t *json_plain(const uint8_t *p, const uint8_t *end);

#endif

/* value: msgpack values, read in place and written exactly.
 *
 * Reading is a cursor over bytes that lx_val_walk (or lx_rec_parse) has found whole: nothing is
 * decoded that is not asked for, nothing is copied, and spans of the original bytes stay what they
 * were, so that what passes through is not repacked. Walking first and decoding later is also
 * what keeps a declared length from being believed: no step allocates.
 * Writing goes through msgpack-c's packer, which picks the shortest form of every integer and length.
 */
#ifndef LX_VALUE_H
#define LX_VALUE_H

#include "buf.h"

enum lx_type {
	LX_NIL,
	LX_BOOL,
	LX_UINT, /* u: 0 .. 2^64-1, whichever integer format it came in */
	LX_INT,  /* i: negative only */
	LX_F32,  /* f, exact */
	LX_F64,  /* f */
	LX_STR,  /* bytes; need not be UTF-8 */
	LX_BIN,  /* bytes */
	LX_EXT,  /* bytes, ext */
	LX_ARRAY, /* n elements follow */
	LX_MAP,  /* n pairs follow */
};

struct lx_val {
	enum lx_type type;
	int8_t ext;
	uint32_t n;
	union {
		bool b;
		uint64_t u;
		int64_t i;
		double f;
		struct lx_span s;
	};
};

struct lx_cur {
	const uint8_t *p, *end;
};

static inline struct lx_cur lx_cur(struct lx_span s)
{
	return (struct lx_cur){ s.p, s.len ? s.p + s.len : s.p };
}

/* Why a walk stopped. */
enum lx_walk { LX_WALK_OK, LX_WALK_SHORT, LX_WALK_DEPTH, LX_WALK_RESERVED /* the byte 0xc1 */ };

/* Find the length in bytes of the one value that starts at p, reading no further than n.
 * Depth counts nested arrays and maps (a scalar is depth 0). A container that declares more
 * elements than bytes are left is SHORT at once. */
enum lx_walk lx_val_walk(const uint8_t *p, size_t n, unsigned max_depth, size_t *len);

/* Length of the scalar at p (n bytes are there, at least one) where its first two bytes tell it, as they do for all that
 * is small and usual; 0: look at it properly. */
extern const uint8_t lx_val_sizes[256]; /* by the first byte; 0: it does not tell */
static inline size_t lx_val_quick(const uint8_t *p, size_t n)
{
	size_t len = lx_val_sizes[p[0]];
	if (!len && n > 1 && (p[0] == 0xd9 || p[0] == 0xc4))
		len = 2u + p[1];
	return len <= n ? len : 0;
}

/* Whether a value that begins with this byte is an array or a map. */
static inline bool lx_val_has_items(uint8_t first)
{
	return (first & 0xe0) == 0x80 || (first & 0xfc) == 0xdc;
}

/* Read the value at the cursor: 0, or -1 at the end or on malformed bytes. After a container the
 * cursor stands at its first element; after anything else, behind it. */
int lx_val_read(struct lx_cur *c, struct lx_val *v);

/* Skip one whole value; *span (may be NULL) is set to its bytes. 0 or -1. */
int lx_val_skip_slow(struct lx_cur *c, struct lx_span *span);
static inline int lx_val_skip(struct lx_cur *c, struct lx_span *span)
{
	size_t left = (size_t)(c->end - c->p), len = left ? lx_val_quick(c->p, left) : 0;
	if (!len)
		return lx_val_skip_slow(c, span);
	if (span)
		*span = (struct lx_span){ c->p, len };
	c->p += len;
	return 0;
}

/* Read one value from a span that must hold exactly it. */
int lx_val_from(struct lx_span s, struct lx_val *v);

/* Value of a string key in an encoded map; span.p == NULL when absent or not a map. */
struct lx_span lx_map_get(struct lx_span map, const char *key, size_t key_len);

/* Shorthands on lx_map_get for marks and causes: false (and *out untouched) when absent or of another type. */
bool lx_map_uint(struct lx_span map, const char *key, uint64_t *out);
bool lx_map_str(struct lx_span map, const char *key, struct lx_span *out);

/* Writing. Each appends one value (or the head of one) to the buffer. */
void lx_pack_nil(struct lx_buf *b);
void lx_pack_bool(struct lx_buf *b, bool v);
void lx_pack_uint(struct lx_buf *b, uint64_t v);
void lx_pack_int(struct lx_buf *b, int64_t v);
void lx_pack_f32(struct lx_buf *b, float v);
void lx_pack_f64(struct lx_buf *b, double v);
void lx_pack_array(struct lx_buf *b, uint32_t n);
void lx_pack_map(struct lx_buf *b, uint32_t n);
void lx_pack_str(struct lx_buf *b, struct lx_span s);
void lx_pack_bin(struct lx_buf *b, struct lx_span s);
void lx_pack_ext(struct lx_buf *b, int8_t type, struct lx_span s);
/* Only the head of a string or of bytes; n bytes follow. */
void lx_pack_str_head(struct lx_buf *b, size_t n);
void lx_pack_bin_head(struct lx_buf *b, size_t n);
void lx_pack_cstr(struct lx_buf *b, const char *s);
/* Bytes that came from outside (a path, a line, a key): str when they are UTF-8, else bin. */
void lx_pack_text(struct lx_buf *b, struct lx_span s);

#endif

/* buf: a growing byte buffer, and views of bytes somebody else owns.
 *
 * Appending never fails in the caller's face: when memory runs out the buffer is marked `failed`,
 * further appends do nothing, and lx_buf_check reports it once. Growth is by half, so that reuse
 * after lx_buf_clear costs nothing. All sizes are bytes.
 */
#ifndef LX_BUF_H
#define LX_BUF_H

#include "err.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes owned by somebody else. p == NULL: absent (an empty span has p != NULL). */
struct lx_span {
	const uint8_t *p;
	size_t len;
};

struct lx_buf {
	uint8_t *p;
	size_t len, cap;
	bool failed;
};

/* Room for `n` more bytes after len, or NULL (and the buffer is failed). */
uint8_t *lx_buf_grow(struct lx_buf *b, size_t n);
void lx_buf_free(struct lx_buf *b);

/* -1 with LX_SYSTEM when an append to `b` ever ran out of memory. */
int lx_buf_check(const struct lx_buf *b, struct lx_err *e);

static inline void lx_buf_clear(struct lx_buf *b)
{
	b->len = 0;
}

/* At least `n` bytes of room after len; the caller writes there and adds to len. */
static inline uint8_t *lx_buf_room(struct lx_buf *b, size_t n)
{
	return b->cap - b->len >= n && !b->failed ? b->p + b->len : lx_buf_grow(b, n);
}

static inline void lx_buf_add(struct lx_buf *b, const void *p, size_t n)
{
	uint8_t *to = lx_buf_room(b, n);
	if (to && n) {
		memcpy(to, p, n);
		b->len += n;
	}
}

static inline void lx_buf_span(struct lx_buf *b, struct lx_span s)
{
	lx_buf_add(b, s.p, s.len);
}

static inline void lx_buf_byte(struct lx_buf *b, uint8_t c)
{
	lx_buf_add(b, &c, 1);
}

static inline void lx_buf_str(struct lx_buf *b, const char *s)
{
	lx_buf_add(b, s, strlen(s));
}

__attribute__((format(printf, 2, 3))) void lx_buf_printf(struct lx_buf *b, const char *fmt, ...);

/* A NUL after the last byte (not counted in len), so that p is a C string; NULL when failed. */
char *lx_buf_cstr(struct lx_buf *b);

static inline struct lx_span lx_span_str(const char *s)
{
	return (struct lx_span){ (const uint8_t *)s, strlen(s) };
}

static inline struct lx_span lx_buf_view(const struct lx_buf *b)
{
	return (struct lx_span){ b->p ? b->p : (const uint8_t *)"", b->len };
}

static inline bool lx_span_eq(struct lx_span a, struct lx_span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

/* Whether the bytes are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool lx_span_utf8(struct lx_span s);
/* How many bytes in front are: s.len, or where the first that are not begin. */
size_t lx_span_utf8_len(struct lx_span s);

/* Checked size arithmetic: false on overflow. */
static inline bool lx_size_add(size_t a, size_t b, size_t *sum)
{
	return !__builtin_add_overflow(a, b, sum);
}

static inline bool lx_size_mul(size_t a, size_t b, size_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

#endif

#include "buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint8_t *lx_buf_grow(struct lx_buf *b, size_t n)
{
	size_t need;
	if (b->failed || !lx_size_add(b->len, n, &need)) {
		b->failed = true;
		return NULL;
	}
	if (need <= b->cap && b->p)
		return b->p + b->len;
	size_t cap = b->cap + b->cap / 2;
	if (cap < need)
		cap = need;
	if (cap < 256)
		cap = 256;
	uint8_t *p = realloc(b->p, cap);
	if (!p) {
		b->failed = true;
		return NULL;
	}
	b->p = p;
	b->cap = cap;
	return p + b->len;
}

void lx_buf_free(struct lx_buf *b)
{
	free(b->p);
	*b = (struct lx_buf){ 0 };
}

int lx_buf_check(const struct lx_buf *b, struct lx_err *e)
{
	if (!b->failed)
		return 0;
	errno = ENOMEM;
	return lx_err_sys(e, "a buffer of %zu bytes could not grow", b->cap);
}

void lx_buf_printf(struct lx_buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !lx_buf_room(b, (size_t)n + 1))
		return;
	va_start(ap, fmt);
	vsnprintf((char *)b->p + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

char *lx_buf_cstr(struct lx_buf *b)
{
	if (!lx_buf_room(b, 1))
		return NULL;
	b->p[b->len] = '\0';
	return (char *)b->p;
}

/* Length of the well-formed sequence at p (at most n bytes), 0 when there is none. */
static size_t utf8_seq(const uint8_t *p, size_t n)
{
	uint8_t c = p[0];
	if (c < 0x80)
		return 1;
	size_t len = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
	if (!len || len > n)
		return 0;
	uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
	uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

size_t lx_span_utf8_len(struct lx_span s)
{
	size_t i = 0;
	while (i < s.len) {
		uint64_t w;
		while (s.len - i >= 8 && (memcpy(&w, s.p + i, 8), !(w & 0x8080808080808080u)))
			i += 8;
		if (i == s.len)
			break;
		size_t n = utf8_seq(s.p + i, s.len - i);
		if (!n)
			break;
		i += n;
	}
	return i;
}

bool lx_span_utf8(struct lx_span s)
{
	return lx_span_utf8_len(s) == s.len;
}

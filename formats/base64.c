#include "base64.h"

static const char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void encode3(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)alphabet[v >> 18];
	to[1] = (uint8_t)alphabet[v >> 12 & 63];
	to[2] = (uint8_t)alphabet[v >> 6 & 63];
	to[3] = (uint8_t)alphabet[v & 63];
}

void lx_base64_encode(struct lx_buf *out, struct lx_span bytes)
{
	size_t whole = bytes.len / 3, rest = bytes.len % 3;
	uint8_t *to = lx_buf_room(out, 4 * (whole + 1));
	if (!to)
		return;
	const uint8_t *p = bytes.p;
	for (size_t i = 0; i < whole; i++, p += 3, to += 4)
		encode3(to, (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]);
	if (rest) {
		encode3(to, (uint32_t)p[0] << 16 | (rest == 2 ? (uint32_t)p[1] << 8 : 0));
		to[3] = '=';
		if (rest == 1)
			to[2] = '=';
	}
	out->len += 4 * (whole + (rest != 0));
}

/* Value of each character plus one; 0: not in the alphabet. */
static const uint8_t *values(void)
{
	static const uint8_t t[256] = {
#define RUN10(c, v) [(c)] = (v), [(c) + 1] = (v) + 1, [(c) + 2] = (v) + 2, [(c) + 3] = (v) + 3, [(c) + 4] = (v) + 4, \
	[(c) + 5] = (v) + 5, [(c) + 6] = (v) + 6, [(c) + 7] = (v) + 7, [(c) + 8] = (v) + 8, [(c) + 9] = (v) + 9
#define RUN26(c, v) RUN10(c, v), RUN10((c) + 10, (v) + 10), [(c) + 20] = (v) + 20, [(c) + 21] = (v) + 21, \
	[(c) + 22] = (v) + 22, [(c) + 23] = (v) + 23, [(c) + 24] = (v) + 24, [(c) + 25] = (v) + 25
		RUN26('A', 1), RUN26('a', 27), RUN10('0', 53), ['+'] = 63, ['/'] = 64,
#undef RUN26
#undef RUN10
	};
	return t;
}

/* 24 bits of four characters, or -1. */
static int32_t decode4(const uint8_t *t, const uint8_t *p)
{
	int a = t[p[0]], b = t[p[1]], c = t[p[2]], d = t[p[3]];
	if (!a || !b || !c || !d)
		return -1;
	return (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);
}

static void put(uint8_t *to, int32_t v, size_t n)
{
	to[0] = (uint8_t)(v >> 16);
	if (n > 1)
		to[1] = (uint8_t)(v >> 8);
	if (n > 2)
		to[2] = (uint8_t)v;
}

int lx_base64_decode(struct lx_buf *out, struct lx_span text)
{
	if (text.len % 4)
		return -1;
	size_t groups = text.len / 4, pad = 0;
	if (groups && text.p[text.len - 1] == '=')
		pad = text.p[text.len - 2] == '=' ? 2 : 1;
	uint8_t *to = lx_buf_room(out, 3 * groups);
	if (!groups || !to)
		return 0; /* a failed buffer says so itself */
	const uint8_t *t = values(), *p = text.p;
	for (size_t i = 0; i + 1 < groups; i++, p += 4, to += 3) {
		int32_t v = decode4(t, p);
		if (v < 0)
			return -1;
		put(to, v, 3);
	}
	uint8_t last[4] = { p[0], p[1], pad == 2 ? 'A' : p[2], pad ? 'A' : p[3] };
	int32_t v = decode4(t, last);
	if (v < 0 || (pad && v & (pad == 1 ? 0xff : 0xffff)))
		return -1;
	put(to, v, 3 - pad);
	out->len += 3 * groups - pad;
	return 0;
}

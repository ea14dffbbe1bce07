#include "value.h"

#include <endian.h>
#include <msgpack.h>

/* ---- reading ---- */

/* Big-endian, of 0, 1, 2, 4 or 8 bytes. */
static inline uint64_t be(const uint8_t *p, unsigned n)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;
	switch (n) {
	case 1:
		return *p;
	case 2:
		memcpy(&two, p, 2);
		return be16toh(two);
	case 4:
		memcpy(&four, p, 4);
		return be32toh(four);
	case 8:
		memcpy(&eight, p, 8);
		return be64toh(eight);
	default:
		return 0;
	}
}

/* The head of one value: what it is, how many bytes of head and of body, how many elements follow. */
struct head {
	enum lx_type type;
	unsigned size; /* head bytes */
	uint64_t body; /* bytes behind the head that belong to this value */
	uint64_t items; /* values that follow (pairs count two) */
};

/* 0: fine; otherwise the walk's answer. */
static enum lx_walk read_head(const uint8_t *p, size_t n, struct head *h)
{
	uint8_t c = p[0];
	*h = (struct head){ .type = LX_UINT, .size = 1 };
	if (c <= 0x7f)
		return LX_WALK_OK;
	if (c >= 0xe0) {
		h->type = LX_INT;
		return LX_WALK_OK;
	}
	if (c >= 0xa0 && c <= 0xbf) {
		h->type = LX_STR;
		h->body = c & 31;
	} else if (c <= 0x8f) {
		h->type = LX_MAP;
		h->items = 2u * (c & 15);
	} else if (c <= 0x9f) {
		h->type = LX_ARRAY;
		h->items = c & 15;
	} else {
		/* 0xc0 .. 0xdf: type, bytes of length field, fixed body */
		static const struct {
			uint8_t type, len, fixed;
		} t[32] = {
			[0x00] = { LX_NIL, 0, 0 },   [0x02] = { LX_BOOL, 0, 0 },  [0x03] = { LX_BOOL, 0, 0 },
			[0x04] = { LX_BIN, 1, 0 },   [0x05] = { LX_BIN, 2, 0 },   [0x06] = { LX_BIN, 4, 0 },
			[0x07] = { LX_EXT, 1, 1 },   [0x08] = { LX_EXT, 2, 1 },   [0x09] = { LX_EXT, 4, 1 },
			[0x0a] = { LX_F32, 0, 4 },   [0x0b] = { LX_F64, 0, 8 },   [0x0c] = { LX_UINT, 0, 1 },
			[0x0d] = { LX_UINT, 0, 2 },  [0x0e] = { LX_UINT, 0, 4 },  [0x0f] = { LX_UINT, 0, 8 },
			[0x10] = { LX_INT, 0, 1 },   [0x11] = { LX_INT, 0, 2 },   [0x12] = { LX_INT, 0, 4 },
			[0x13] = { LX_INT, 0, 8 },   [0x14] = { LX_EXT, 0, 2 },   [0x15] = { LX_EXT, 0, 3 },
			[0x16] = { LX_EXT, 0, 5 },   [0x17] = { LX_EXT, 0, 9 },   [0x18] = { LX_EXT, 0, 17 },
			[0x19] = { LX_STR, 1, 0 },   [0x1a] = { LX_STR, 2, 0 },   [0x1b] = { LX_STR, 4, 0 },
			[0x1c] = { LX_ARRAY, 2, 0 }, [0x1d] = { LX_ARRAY, 4, 0 }, [0x1e] = { LX_MAP, 2, 0 },
			[0x1f] = { LX_MAP, 4, 0 },
		};
		if (c == 0xc1)
			return LX_WALK_RESERVED;
		h->type = (enum lx_type)t[c & 31].type;
		unsigned len = t[c & 31].len;
		h->size = 1 + len;
		if (n < h->size)
			return LX_WALK_SHORT;
		uint64_t declared = be(p + 1, len);
		if (h->type == LX_ARRAY)
			h->items = declared;
		else if (h->type == LX_MAP)
			h->items = 2 * declared;
		else
			h->body = declared + t[c & 31].fixed;
	}
	/* Every element takes a byte at least: a count is checked against what is there, not believed. */
	if (h->body > n - h->size || h->items > n - h->size)
		return LX_WALK_SHORT;
	return LX_WALK_OK;
}

const uint8_t lx_val_sizes[256] = {
	[0x00 ... 0x7f] = 1, [0xe0 ... 0xff] = 1,
	[0xa0] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	[0xb0] = 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
	[0xc0] = 1, [0xc2] = 1, 1, [0xca] = 5, 9, 2, 3, 5, 9, 2, 3, 5, 9,
};

enum lx_walk lx_val_walk(const uint8_t *p, size_t n, unsigned max_depth, size_t *len)
{
	const uint8_t *start = p, *end = p + n;
	uint64_t local[64], left;
	unsigned depth = 0;
	if (max_depth > 64)
		max_depth = 64;
	left = 1;
	for (;;) {
		while (left) {
			left--;
			if (p == end)
				return LX_WALK_SHORT;
			/* The usual ones by branches: a predicted branch does not wait for the byte, a table does. */
			uint8_t c = *p;
			if (c <= 0x7f || c >= 0xe0) {
				p++;
				continue;
			}
			size_t quick = (c & 0xe0) == 0xa0 ? 1u + (c & 31) : lx_val_quick(p, (size_t)(end - p));
			if (quick && quick <= (size_t)(end - p)) {
				p += quick;
				continue;
			}
			uint64_t items;
			if (c <= 0x9f) {
				items = c <= 0x8f ? 2u * (c & 15) : c & 15;
				if (items > (size_t)(end - p) - 1)
					return LX_WALK_SHORT;
				p++;
			} else {
				struct head h;
				enum lx_walk w = read_head(p, (size_t)(end - p), &h);
				if (w != LX_WALK_OK)
					return w;
				p += h.size + h.body;
				if (h.type != LX_ARRAY && h.type != LX_MAP)
					continue;
				items = h.items;
			}
			if (depth == max_depth)
				return LX_WALK_DEPTH;
			local[depth++] = left;
			left = items;
		}
		if (!depth)
			break;
		left = local[--depth];
	}
	*len = (size_t)(p - start);
	return LX_WALK_OK;
}

static void read_int(struct lx_val *v, const uint8_t *p, unsigned n)
{
	uint64_t u = be(p, n);
	int64_t i = (int64_t)(u << (64 - 8 * n)) >> (64 - 8 * n);
	if (i >= 0) {
		v->type = LX_UINT;
		v->u = (uint64_t)i;
	} else {
		v->i = i;
	}
}

static void read_float(struct lx_val *v, const uint8_t *p)
{
	if (v->type == LX_F32) {
		uint32_t u = (uint32_t)be(p, 4);
		float f;
		memcpy(&f, &u, 4);
		v->f = f;
	} else {
		uint64_t u = be(p, 8);
		memcpy(&v->f, &u, 8);
	}
}

/* The usual small values; false: look properly. */
static inline bool read_quick(struct lx_cur *c, struct lx_val *v)
{
	uint8_t first = c->p[0];
	size_t left = (size_t)(c->end - c->p) - 1;
	v->ext = 0;
	v->n = 0;
	if (first <= 0x7f) {
		v->type = LX_UINT;
		v->u = first;
		c->p++;
		return true;
	}
	if (first == 0xcb && left >= 8) {
		uint64_t bits = be(c->p + 1, 8);
		v->type = LX_F64;
		memcpy(&v->f, &bits, 8);
		c->p += 9;
		return true;
	}
	unsigned n = first & 31;
	if ((first & 0xe0) != 0xa0 || left < n)
		return false;
	v->type = LX_STR;
	v->s = (struct lx_span){ c->p + 1, n };
	c->p += 1 + n;
	return true;
}

int lx_val_read(struct lx_cur *c, struct lx_val *v)
{
	struct head h;
	if (c->p < c->end && read_quick(c, v))
		return 0;
	if (c->p >= c->end || read_head(c->p, (size_t)(c->end - c->p), &h) != LX_WALK_OK)
		return -1;
	const uint8_t *body = c->p + h.size;
	uint8_t first = c->p[0];
	v->type = h.type;
	v->ext = 0;
	v->n = 0;
	c->p = body + h.body;
	switch (h.type) {
	case LX_NIL:
		break;
	case LX_BOOL:
		v->b = first == 0xc3;
		break;
	case LX_UINT:
		v->u = h.body ? be(body, (unsigned)h.body) : first;
		break;
	case LX_INT:
		if (h.body)
			read_int(v, body, (unsigned)h.body);
		else
			v->i = (int8_t)first;
		break;
	case LX_F32:
	case LX_F64:
		read_float(v, body);
		break;
	case LX_EXT:
		v->ext = (int8_t)body[0];
		v->s = (struct lx_span){ body + 1, h.body - 1 };
		break;
	case LX_STR:
	case LX_BIN:
		v->s = (struct lx_span){ body, h.body };
		break;
	case LX_ARRAY:
		v->n = (uint32_t)h.items;
		break;
	case LX_MAP:
		v->n = (uint32_t)(h.items / 2);
		break;
	}
	return 0;
}

int lx_val_skip_slow(struct lx_cur *c, struct lx_span *span)
{
	size_t len;
	if (lx_val_walk(c->p, (size_t)(c->end - c->p), 64, &len) != LX_WALK_OK)
		return -1;
	if (span)
		*span = (struct lx_span){ c->p, len };
	c->p += len;
	return 0;
}

int lx_val_from(struct lx_span s, struct lx_val *v)
{
	struct lx_cur c = lx_cur(s);
	if (!s.p || lx_val_read(&c, v) < 0)
		return -1;
	return v->type == LX_ARRAY || v->type == LX_MAP || c.p == c.end ? 0 : -1;
}

/* The key of a pair, as a view; its bytes are stepped over. p == NULL: it is no str. -1: it cannot be read. */
static inline int take_key(struct lx_cur *c, struct lx_span *key)
{
	struct lx_val k;
	size_t left = (size_t)(c->end - c->p);
	if (left && (c->p[0] & 0xe0) == 0xa0 && left > (c->p[0] & 31u)) {
		*key = (struct lx_span){ c->p + 1, c->p[0] & 31u };
		c->p += 1 + key->len;
		return 0;
	}
	if (lx_val_read(c, &k) < 0 || k.type == LX_ARRAY || k.type == LX_MAP)
		return -1;
	*key = k.type == LX_STR ? k.s : (struct lx_span){ 0 };
	return 0;
}

struct lx_span lx_map_get(struct lx_span map, const char *key, size_t key_len)
{
	struct lx_cur c = lx_cur(map);
	struct lx_val head = { .type = LX_MAP };
	if (!map.p || !map.len)
		return (struct lx_span){ 0 };
	if ((*c.p & 0xf0) == 0x80)
		head.n = *c.p++ & 15;
	else if (lx_val_read(&c, &head) < 0 || head.type != LX_MAP)
		return (struct lx_span){ 0 };
	for (uint32_t i = 0; i < head.n; i++) {
		struct lx_span k, v;
		if (take_key(&c, &k) < 0)
			break;
		if (lx_val_skip(&c, &v) < 0)
			break;
		if (k.p && k.len == key_len && memcmp(k.p, key, key_len) == 0)
			return v;
	}
	return (struct lx_span){ 0 };
}

bool lx_map_uint(struct lx_span map, const char *key, uint64_t *out)
{
	struct lx_val v;
	if (lx_val_from(lx_map_get(map, key, strlen(key)), &v) < 0 || v.type != LX_UINT)
		return false;
	*out = v.u;
	return true;
}

bool lx_map_str(struct lx_span map, const char *key, struct lx_span *out)
{
	struct lx_val v;
	if (lx_val_from(lx_map_get(map, key, strlen(key)), &v) < 0 || v.type != LX_STR)
		return false;
	*out = v.s;
	return true;
}

/* ---- writing, through msgpack-c ---- */

static int write_buf(void *data, const char *p, size_t n)
{
	struct lx_buf *b = data;
	lx_buf_add(b, p, n);
	return b->failed ? -1 : 0;
}

static inline msgpack_packer packer(struct lx_buf *b)
{
	msgpack_packer p;
	msgpack_packer_init(&p, b, write_buf);
	return p;
}

#define PACK(call, ...) \
	do { \
		msgpack_packer p_ = packer(b); \
		msgpack_pack_##call(&p_, ##__VA_ARGS__); \
	} while (0)

void lx_pack_nil(struct lx_buf *b)
{
	PACK(nil);
}

void lx_pack_bool(struct lx_buf *b, bool v)
{
	if (v)
		PACK(true);
	else
		PACK(false);
}

/* Of one byte are most of the small ones: those do not go through a packer. */
void lx_pack_uint(struct lx_buf *b, uint64_t v)
{
	if (v <= 0x7f)
		lx_buf_byte(b, (uint8_t)v);
	else
		PACK(uint64, v);
}

void lx_pack_int(struct lx_buf *b, int64_t v)
{
	PACK(int64, v);
}

void lx_pack_f32(struct lx_buf *b, float v)
{
	PACK(float, v);
}

void lx_pack_f64(struct lx_buf *b, double v)
{
	PACK(double, v);
}

void lx_pack_array(struct lx_buf *b, uint32_t n)
{
	PACK(array, n);
}

void lx_pack_map(struct lx_buf *b, uint32_t n)
{
	PACK(map, n);
}

void lx_pack_str_head(struct lx_buf *b, size_t n)
{
	if (n <= 31)
		lx_buf_byte(b, (uint8_t)(0xa0 | n));
	else
		PACK(str, n);
}

void lx_pack_bin_head(struct lx_buf *b, size_t n)
{
	PACK(bin, n);
}

/* At most 32 bytes, by two moves that overlap. */
static inline void copy_short(uint8_t *to, const uint8_t *from, size_t n)
{
	if (n >= 16) {
		memcpy(to, from, 16);
		memcpy(to + n - 16, from + n - 16, 16);
	} else if (n >= 8) {
		memcpy(to, from, 8);
		memcpy(to + n - 8, from + n - 8, 8);
	} else if (n >= 4) {
		memcpy(to, from, 4);
		memcpy(to + n - 4, from + n - 4, 4);
	} else {
		for (size_t i = 0; i < n; i++)
			to[i] = from[i];
	}
}

void lx_pack_str(struct lx_buf *b, struct lx_span s)
{
	uint8_t *to = lx_buf_room(b, s.len + 5);
	if (!to || s.len > 31) {
		lx_pack_str_head(b, s.len);
		lx_buf_span(b, s);
		return;
	}
	*to++ = (uint8_t)(0xa0 | s.len);
	copy_short(to, s.p, s.len);
	b->len += 1 + s.len;
}

void lx_pack_bin(struct lx_buf *b, struct lx_span s)
{
	lx_pack_bin_head(b, s.len);
	lx_buf_span(b, s);
}

void lx_pack_ext(struct lx_buf *b, int8_t type, struct lx_span s)
{
	PACK(ext, s.len, type);
	lx_buf_span(b, s);
}

void lx_pack_cstr(struct lx_buf *b, const char *s)
{
	lx_pack_str(b, lx_span_str(s));
}

void lx_pack_text(struct lx_buf *b, struct lx_span s)
{
	if (lx_span_utf8(s))
		lx_pack_str(b, s);
	else
		lx_pack_bin(b, s);
}

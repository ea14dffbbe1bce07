#include "json_int.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <xxhash.h>

__extension__ typedef unsigned __int128 wide;

/* ---- numbers ---- */

/* A number's parts: mantissa digits without the point, and the power of ten they are times. */
struct parts {
	bool negative, integer, nonzero;
	bool exact; /* mantissa holds all digits */
	uint64_t mantissa;
	int64_t exp10;
};

static bool is_digit(const uint8_t *p, const uint8_t *end)
{
	return p < end && *p >= '0' && *p <= '9';
}

static const uint8_t *digits(const uint8_t *p, const uint8_t *end, struct parts *t)
{
	for (; is_digit(p, end); p++) {
		unsigned d = *p - '0';
		t->nonzero |= d != 0;
		if (__builtin_mul_overflow(t->mantissa, 10, &t->mantissa) ||
		    __builtin_add_overflow(t->mantissa, d, &t->mantissa))
			t->exact = false;
	}
	return p;
}

static const uint8_t *exponent(const uint8_t *p, const uint8_t *end, struct parts *t)
{
	bool negative = p < end && *p == '-';
	int64_t v = 0;
	if (p < end && (*p == '-' || *p == '+'))
		p++;
	if (!is_digit(p, end))
		return NULL;
	for (; is_digit(p, end); p++)
		if (v < 1000000000)
			v = v * 10 + (*p - '0');
	t->exp10 += negative ? -v : v;
	return p;
}

/* Check the grammar and collect the parts. */
static const uint8_t *take_apart(const uint8_t *p, const uint8_t *end, struct parts *t, const uint8_t **bad)
{
	*t = (struct parts){ .integer = true, .exact = true };
	if (p < end && *p == '-') {
		t->negative = true;
		p++;
	}
	*bad = p;
	if (!is_digit(p, end) || (*p == '0' && is_digit(p + 1, end)))
		return NULL;
	p = digits(p, end, t);
	if (p < end && *p == '.') {
		const uint8_t *first = ++p;
		*bad = p;
		t->integer = false;
		if (!is_digit(p, end))
			return NULL;
		p = digits(p, end, t);
		t->exp10 -= p - first;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		*bad = ++p;
		t->integer = false;
		p = exponent(p, end, t);
	}
	return p;
}

static void as_integer(const struct parts *t, struct json_num *n)
{
	if (!t->exact || (t->negative && t->mantissa > (uint64_t)1 << 63)) {
		n->kind = JSON_TEXT;
	} else if (!t->negative) {
		n->kind = JSON_UINT;
		n->u = t->mantissa;
	} else if (t->mantissa == 0) { /* integers have no -0 */
		n->kind = JSON_F64;
		n->f = -0.0;
	} else {
		n->kind = JSON_INT;
		n->i = (int64_t)(0 - t->mantissa);
	}
}

/* Both operands are exact doubles, so that one operation rounds correctly (Clinger 1990). */
static bool quick_double(const struct parts *t, double *v)
{
	static const double ten[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
		                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
	if (!t->exact || t->mantissa > (uint64_t)1 << 53 || t->exp10 < -22 || t->exp10 > 22)
		return false;
	double m = (double)t->mantissa;
	m = t->exp10 < 0 ? m / ten[-t->exp10] : m * ten[t->exp10];
	*v = t->negative ? -m : m;
	return true;
}

/* m * 10^e or m / 10^-e in 128 bits with the remainder as a sticky bit: 64 bits are left to round once, to 53. */
static bool wide_double(const struct parts *t, double *v)
{
	if (!t->exact || !t->mantissa || t->exp10 < -19 || t->exp10 > 19)
		return false;
	uint64_t ten = 1;
	for (int64_t i = t->exp10 < 0 ? -t->exp10 : t->exp10; i > 0; i--)
		ten *= 10;
	int shift = 0;
	wide w = t->mantissa, rest = 0;
	if (t->exp10 < 0) {
		shift = 64 + __builtin_clzll(t->mantissa); /* the quotient has 64 bits or more */
		w <<= shift;
		rest = w % ten;
		w /= ten;
	} else {
		w *= ten;
	}
	int over = w >> 64 ? 64 - __builtin_clzll((uint64_t)(w >> 64)) : 0;
	rest |= w & (((wide)1 << over) - 1);
	double m = (double)((uint64_t)(w >> over) | (rest != 0));
	m = ldexp(m, over - shift);
	*v = t->negative ? -m : m;
	return true;
}

static double slow_double(const uint8_t *p, size_t len, struct lx_buf *scratch)
{
	lx_buf_clear(scratch);
	lx_buf_add(scratch, p, len);
	char *s = lx_buf_cstr(scratch);
	return s ? strtod(s, NULL) : 0;
}

const uint8_t *json_number(const uint8_t *p, const uint8_t *end, struct json_num *n, const uint8_t **bad,
                           struct lx_buf *scratch)
{
	struct parts t;
	const uint8_t *behind = take_apart(p, end, &t, bad);
	if (!behind)
		return NULL;
	if (t.integer) {
		as_integer(&t, n);
		return behind;
	}
	n->kind = JSON_F64;
	if (!quick_double(&t, &n->f) && !wide_double(&t, &n->f))
		n->f = slow_double(p, (size_t)(behind - p), scratch);
	if (isinf(n->f) || (n->f == 0 && t.nonzero))
		n->kind = JSON_TEXT;
	return behind;
}

/* ---- keys ---- */

static uint64_t load(const uint8_t *p, size_t n)
{
	uint64_t v = 0;
	memcpy(&v, p, n);
	return v;
}

uint64_t json_key_sig(const uint8_t *p, size_t len)
{
	uint64_t a = 0, b = 0;
	if (len >= 8) {
		a = load(p, 8);
		b = load(p + len - 8, 8);
	} else if (len >= 4) {
		a = load(p, 4);
		b = load(p + len - 4, 4);
	} else if (len) {
		a = (uint64_t)p[0] << 16 | (uint64_t)p[len / 2] << 8 | p[len - 1];
	}
	return (a ^ (b * 0x9e3779b97f4a7c15u >> 7) ^ b << 32) + len;
}

static bool same(const uint8_t *base, const struct json_key *a, const struct json_key *b)
{
	return a->sig == b->sig && a->len == b->len && memcmp(base + a->off, base + b->off, a->len) == 0;
}

static size_t twice_of_few(const uint8_t *base, const struct json_key *keys, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (same(base, &keys[i], &keys[k]))
				return i;
	return n;
}

/* Open addressing, at most half full; entries are index + 1. */
static size_t twice_of_many(const uint8_t *base, const struct json_key *keys, size_t n, struct lx_buf *table)
{
	size_t slots = 64;
	while (slots < 2 * n)
		slots *= 2;
	lx_buf_clear(table);
	size_t *t = (size_t *)(void *)lx_buf_room(table, slots * sizeof(*t));
	if (!t)
		return n;
	memset(t, 0, slots * sizeof(*t));
	for (size_t i = 0; i < n; i++) {
		size_t at = XXH3_64bits(base + keys[i].off, keys[i].len) & (slots - 1);
		for (; t[at]; at = (at + 1) & (slots - 1))
			if (same(base, &keys[i], &keys[t[at] - 1]))
				return i;
		t[at] = i + 1;
	}
	return n;
}

size_t json_key_twice(const uint8_t *base, const struct json_key *keys, size_t n, struct lx_buf *table)
{
	return n <= 16 ? twice_of_few(base, keys, n) : twice_of_many(base, keys, n, table);
}

/* ---- tags, strings ---- */

enum json_tag json_tag(struct lx_span key)
{
	static const struct {
		const char *name;
		enum json_tag tag;
	} t[] = {
		{ "$bin", JSON_BIN },     { "$str", JSON_STR }, { "$ext", JSON_EXT },
		{ "$float", JSON_FLOAT }, { "$map", JSON_MAP },
	};
	if (key.len < 4 || key.p[0] != '$')
		return JSON_NO_TAG;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		if (lx_span_eq(key, lx_span_str(t[i].name)))
			return t[i].tag;
	return JSON_NO_TAG;
}

/* Non-zero when one of the eight bytes needs a look; bytes behind the first such one may be flagged wrongly. */
static uint64_t special(uint64_t w)
{
	const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
	uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
	return (((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w)) & high;
}

const uint8_t *json_plain(const uint8_t *p, const uint8_t *end)
{
	uint64_t w;
#ifdef __SSE2__
	const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), last = _mm_set1_epi8(0x1f);
	for (; end - p >= 16; p += 16) {
		__m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i odd = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(b, quote), _mm_cmpeq_epi8(b, slash)), _mm_cmpeq_epi8(_mm_min_epu8(b, last), b));
		int at = _mm_movemask_epi8(odd);
		if (at)
			return p + __builtin_ctz((unsigned)at);
	}
#endif
	while (end - p >= 8 && (memcpy(&w, p, 8), !special(w)))
		p += 8;
	while (p < end && *p >= 0x20 && *p != '"' && *p != '\\')
		p++;
	return p;
}

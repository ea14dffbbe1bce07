/* Comparing numbers of different kinds without rounding one to the other. */
#include "test.h"

#include "json.h"

#include <math.h>
#include <stdio.h>

static int order(bool less, bool more)
{
	return less ? -1 : more;
}

/* A whole number (kept in u or, negative, in i) against a double. */
static int cmp_whole(const struct lx_val *a, double d)
{
	if (isnan(d))
		return LX_UNORDERED;
	if (a->type == LX_UINT) {
		if (d < 0 || d >= 0x1p64)
			return d < 0 ? 1 : -1;
		uint64_t t = (uint64_t)d;
		return t == a->u ? order((double)t < d, false) : order(a->u < t, true);
	}
	if (d >= 0 || d < -0x1p63)
		return d >= 0 ? -1 : 1;
	int64_t t = (int64_t)d;
	return t == a->i ? order(false, (double)t > d) : order(a->i < t, true);
}

/* ---- numbers as decimal text ---- */

/* 0.DDD * 10^exp, the digits (and perhaps a point among them) at p; the first is not 0. sign 0: zero. */
struct decimal {
	int sign;
	int64_t exp;
	const uint8_t *p, *end;
};

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

#define EXP_MAX 1000000000000000 /* so many digits come nowhere */

static bool read_exponent(const uint8_t *p, const uint8_t *end, int64_t *exp)
{
	bool neg = p < end && *p == '-';
	int64_t v = 0;
	p += p < end && (*p == '-' || *p == '+');
	if (p == end)
		return false;
	for (; p < end && is_digit(*p); p++)
		if (v < EXP_MAX)
			v = v * 10 + (*p - '0');
	*exp += neg ? -v : v;
	return p == end;
}

/* false: not a number. */
static bool read_decimal(struct lx_span text, struct decimal *d)
{
	const uint8_t *p = text.p, *end = p + text.len;
	bool neg = p < end && *p == '-', point = false;
	size_t digits = 0;
	p += neg;
	*d = (struct decimal){ .sign = neg ? -1 : 1 };
	for (; p < end && (is_digit(*p) || (*p == '.' && !point)); p++) {
		point = point || *p == '.';
		digits += *p != '.';
		if (!d->p && *p != '0' && *p != '.')
			d->p = p;
		if (d->p ? !point : point && *p != '.')
			d->exp += d->p ? 1 : -1;
	}
	d->end = p;
	if (!d->p)
		d->sign = 0;
	return digits && (p == end || ((*p == 'e' || *p == 'E') && read_exponent(p + 1, end, &d->exp)));
}

static uint8_t next_digit(struct decimal *d)
{
	if (d->p < d->end && *d->p == '.')
		d->p++;
	return d->p < d->end ? *d->p++ : '0';
}

static int cmp_decimal(struct decimal *a, struct decimal *b)
{
	if (a->sign != b->sign || !a->sign)
		return order(a->sign < b->sign, a->sign > b->sign);
	if (a->exp != b->exp)
		return (a->exp < b->exp ? -1 : 1) * a->sign;
	while (a->p < a->end || b->p < b->end) {
		uint8_t x = next_digit(a), y = next_digit(b);
		if (x != y)
			return (x < y ? -1 : 1) * a->sign;
	}
	return 0;
}

#define TEXT_MAX 1400 /* a double needs at most 309 digits before the point and 1074 behind it */

static bool as_decimal(const struct lx_val *v, char text[TEXT_MAX], struct decimal *d)
{
	if (v->type == LX_EXT)
		return v->ext == LX_JSON_EXT_NUMBER && read_decimal(v->s, d);
	if (v->type == LX_UINT)
		snprintf(text, TEXT_MAX, "%llu", (unsigned long long)v->u);
	else if (v->type == LX_INT)
		snprintf(text, TEXT_MAX, "%lld", (long long)v->i);
	else
		snprintf(text, TEXT_MAX, "%.1074f", v->f);
	return read_decimal(lx_span_str(text), d);
}

static bool is_float(const struct lx_val *v)
{
	return v->type == LX_F32 || v->type == LX_F64;
}

static bool is_whole(const struct lx_val *v)
{
	return v->type == LX_UINT || v->type == LX_INT;
}

/* One of them is text. */
static int cmp_texts(const struct lx_val *a, const struct lx_val *b)
{
	struct decimal x, y;
	char ta[TEXT_MAX], tb[TEXT_MAX];
	if (is_float(a) && !isfinite(a->f))
		return isnan(a->f) ? LX_UNORDERED : order(a->f < 0, true);
	if (is_float(b) && !isfinite(b->f))
		return isnan(b->f) ? LX_UNORDERED : order(b->f > 0, true);
	return as_decimal(a, ta, &x) && as_decimal(b, tb, &y) ? cmp_decimal(&x, &y) : LX_UNORDERED;
}

int lx_number_cmp(const struct lx_val *a, const struct lx_val *b)
{
	if (is_float(a) && is_float(b))
		return isunordered(a->f, b->f) ? LX_UNORDERED : order(a->f < b->f, a->f > b->f);
	if (a->type == LX_UINT && b->type == LX_UINT)
		return order(a->u < b->u, a->u > b->u);
	if (is_whole(a) && is_float(b))
		return cmp_whole(a, b->f);
	if (is_float(a) && is_whole(b)) {
		int o = cmp_whole(b, a->f);
		return o == LX_UNORDERED ? o : -o;
	}
	if (!is_whole(a) && !is_float(a) && a->type != LX_EXT)
		return LX_UNORDERED;
	if (!is_whole(b) && !is_float(b) && b->type != LX_EXT)
		return LX_UNORDERED;
	if (a->type == LX_EXT || b->type == LX_EXT)
		return cmp_texts(a, b);
	/* Of whole numbers the negative ones are INT. */
	if (a->type != b->type)
		return a->type == LX_INT ? -1 : 1;
	return order(a->i < b->i, a->i > b->i);
}

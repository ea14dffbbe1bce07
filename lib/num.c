#include "num.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Powers of ten that a double holds exactly. */
static const double ten[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
	                      1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19 };

static size_t not_finite(char *out, double v)
{
	return (size_t)sprintf(out, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

/* ---- m / 10^k, the common case: no printf, no strtod ---- */

/* How many digits behind the point make `digits` significant ones of v; -1 where %g would not write v without an
 * exponent. */
static int places(double v, int digits)
{
	int whole = 0;
	if (v < 1)
		return v < 1e-4 ? -1 : digits + (v < 1e-1) + (v < 1e-2) + (v < 1e-3);
	while (whole < 16 && v >= ten[whole])
		whole++;
	return digits - whole;
}

/* Write m / 10^k without zeros at the end, but with one digit at least behind the point. */
static size_t put_fixed(char *out, bool negative, uint64_t m, int k)
{
	char text[LX_NUM_MAX], *p = text + sizeof(text);
	for (; k > 1 && m % 10 == 0; k--)
		m /= 10;
	if (k == 0) {
		*--p = '0';
		*--p = '.';
	}
	for (int i = 1; i <= k || m; i++) {
		*--p = (char)('0' + m % 10);
		m /= 10;
		if (i == k)
			*--p = '.';
	}
	if (*p == '.')
		*--p = '0';
	if (negative)
		*--p = '-';
	size_t n = (size_t)(text + sizeof(text) - p);
	memcpy(out, p, n);
	out[n] = '\0';
	return n;
}

/* ---- any value: the fewest digits that read back ---- */

/* A float must not read back as an integer. */
static size_t with_point(char *out, size_t n)
{
	if (strpbrk(out, ".e"))
		return n;
	memcpy(out + n, ".0", 3);
	return n + 2;
}

static size_t search(char *out, double v, int digits, int enough, bool is_float)
{
	int n;
	do
		n = snprintf(out, LX_NUM_MAX, "%.*g", digits, v);
	while (digits++ < enough && (is_float ? strtof(out, NULL) != (float)v : strtod(out, NULL) != v));
	return with_point(out, (size_t)n);
}

/* 15 digits survive text -> double -> text, 17 survive double -> text -> double. A decimal of 15 digits and at most 19
 * places is one exact double divided by another, so a division says what strtod would. */
size_t lx_num_f64(char out[LX_NUM_MAX], double v)
{
	double a = fabs(v);
	int k;
	if (!isfinite(v))
		return not_finite(out, v);
	if (a == 0)
		return put_fixed(out, signbit(v), 0, 1);
	if (a < 1e-4 || (k = places(a, 15)) < 0)
		return search(out, v, 15, 17, false);
	double m = rint(a * ten[k]);
	return m / ten[k] == a ? put_fixed(out, v < 0, (uint64_t)m, k) : search(out, v, 16, 17, false);
}

/* For floats 6 and 9. A division rounded twice, to double and to float, is only a guess, so strtof has the last word. */
size_t lx_num_f32(char out[LX_NUM_MAX], float v)
{
	double a = fabs((double)v);
	if (!isfinite(v))
		return not_finite(out, (double)v);
	if (a == 0)
		return put_fixed(out, signbit(v), 0, 1);
	for (int digits = 6; digits <= 9; digits++) {
		int k = places(a, digits);
		double m = k < 0 ? 0 : rint(a * ten[k]);
		if (k < 0 || (float)(m / ten[k]) != fabsf(v))
			continue;
		size_t n = put_fixed(out, v < 0, (uint64_t)m, k);
		if (strtof(out, NULL) == v)
			return n;
	}
	return search(out, (double)v, 6, 9, true);
}

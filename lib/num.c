#include "num.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* ---- without an exponent: exact in 128 bits, 10 times faster than printf and strtod in a loop ---- */

/* m / 2^shift; edge: m is a power of two, so that the next value below is half as far away as the next above. */
struct binary {
	uint64_t m;
	int shift;
	bool edge;
};

static struct binary binary(double a, int bits)
{
	int e;
	double f = frexp(a, &e);
	uint64_t m = (uint64_t)ldexp(f, bits);
	return (struct binary){ m, bits - e, (m & (m - 1)) == 0 };
}

/* How many digits behind the point make `digits` significant ones of a, which is 1e-4 or more. */
static int places(double a, int digits)
{
	if (a < 1)
		return digits + (a < 1e-1) + (a < 1e-2) + (a < 1e-3);
	for (double t = 1; a >= t; t *= 10)
		digits--;
	return digits;
}

/* The integer d nearest to a * 10^k, and whether d / 10^k reads back as a, that is, lies nearer to a than half the
 * way to its neighbours. All products are below 2^124: m has 53 bits, 10^k 67, d 57 and 2^shift 67. */
static bool decimal(const struct binary *b, int k, uint64_t *d)
{
	wide ten = 1, one = (wide)1 << b->shift;
	for (int i = 0; i < k; i++)
		ten *= 10;
	wide exact = b->m * ten, rest = exact & (one - 1), q = exact >> b->shift;
	if (rest > one / 2 || (rest == one / 2 && q & 1))
		q++;
	*d = (uint64_t)q;
	wide got = q << b->shift;
	if (got < exact)
		return (exact - got) * (b->edge ? 4 : 2) < ten;
	return (got - exact) * 2 < ten;
}

/* Write d / 10^k without zeros at the end, but with one digit at least on either side of the point. */
static size_t put_fixed(char *out, bool negative, uint64_t d, int k)
{
	char text[LX_NUM_MAX], *p = text + sizeof(text);
	for (; k > 1 && d % 10 == 0; k--)
		d /= 10;
	if (k == 0) {
		*--p = '0';
		*--p = '.';
	}
	for (int i = 1; i <= k || d; i++) {
		*--p = (char)('0' + d % 10);
		d /= 10;
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

static size_t shortest_fixed(char *out, bool negative, const struct binary *b, double a, int digits, int enough)
{
	uint64_t d;
	int k = places(a, digits);
	while (!decimal(b, k, &d) && digits < enough) {
		digits++;
		k++;
	}
	return put_fixed(out, negative, d, k);
}

/* ---- any value ---- */

/* A float must not read back as an integer. */
static size_t with_point(char *out, size_t n)
{
	if (strpbrk(out, ".e"))
		return n;
	memcpy(out + n, ".0", 3);
	return n + 2;
}

static size_t shortest(char *out, double v, int digits, int enough, bool is_float)
{
	int n;
	do
		n = snprintf(out, LX_NUM_MAX, "%.*g", digits, v);
	while (digits++ < enough && (is_float ? strtof(out, NULL) != (float)v : strtod(out, NULL) != v));
	return with_point(out, (size_t)n);
}

static size_t not_finite(char *out, double v)
{
	return (size_t)sprintf(out, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

/* Between 1e-4 and 10^digits %g writes no exponent, and both ways give the same text. 15 digits survive
 * text -> double -> text, 17 survive double -> text -> double; for floats 6 and 9. */
size_t lx_num_f64(char out[LX_NUM_MAX], double v)
{
	double a = fabs(v);
	if (!isfinite(v))
		return not_finite(out, v);
	if (a < 1e-4 || a >= 1e15)
		return shortest(out, v, 15, 17, false);
	struct binary b = binary(a, 53);
	return shortest_fixed(out, v < 0, &b, a, 15, 17);
}

size_t lx_num_f32(char out[LX_NUM_MAX], float v)
{
	double a = fabs((double)v);
	if (!isfinite(v))
		return not_finite(out, (double)v);
	if (a < 1e-4 || a >= 1e6)
		return shortest(out, (double)v, 6, 9, true);
	struct binary b = binary(a, 24);
	return shortest_fixed(out, v < 0, &b, a, 6, 9);
}

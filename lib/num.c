#include "num.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A float must not read back as an integer. */
static size_t with_point(char *out, size_t n)
{
	if (strpbrk(out, ".e"))
		return n;
	memcpy(out + n, ".0", 3);
	return n + 2;
}

static size_t not_finite(char *out, double v)
{
	return (size_t)sprintf(out, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
}

/* 15 digits survive text -> double -> text, 17 double -> text -> double; for floats 6 and 9. */
size_t lx_num_f64(char out[LX_NUM_MAX], double v)
{
	int n = 0;
	if (!isfinite(v))
		return not_finite(out, v);
	for (int digits = 15; digits <= 17; digits++) {
		n = snprintf(out, LX_NUM_MAX, "%.*g", digits, v);
		if (strtod(out, NULL) == v)
			break;
	}
	return with_point(out, (size_t)n);
}

size_t lx_num_f32(char out[LX_NUM_MAX], float v)
{
	int n = 0;
	if (!isfinite(v))
		return not_finite(out, v);
	for (int digits = 6; digits <= 9; digits++) {
		n = snprintf(out, LX_NUM_MAX, "%.*g", digits, (double)v);
		if (strtof(out, NULL) == v)
			break;
	}
	return with_point(out, (size_t)n);
}

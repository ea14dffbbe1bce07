#include "resample.h"

#include <math.h>

#define SUPPORT 3.0 /* Lanczos, a = 3 */

static double sinc(double x)
{
	const double pi = 3.14159265358979323846;
	return x == 0 ? 1.0 : sin(pi * x) / (pi * x);
}

static double lanczos(double x)
{
	return x >= -SUPPORT && x < SUPPORT ? sinc(x) * sinc(x / SUPPORT) : 0.0;
}

static double stretch(uint32_t in, uint32_t out)
{
	double scale = (double)in / out;
	return scale < 1 ? 1 : scale;
}

uint32_t lx_resample_taps(uint32_t in, uint32_t out)
{
	return (uint32_t)ceil(SUPPORT * stretch(in, out)) * 2 + 1;
}

size_t lx_resample_size(uint32_t in, uint32_t out)
{
	return 1 + (size_t)out * (2 + lx_resample_taps(in, out));
}

/* One output's coefficients, which sum to one before they are rounded. */
static void fill_one(int32_t *to, double center, double scale, uint32_t in)
{
	double support = SUPPORT * scale, sum = 0;
	int64_t first = (int64_t)(center - support + 0.5), end = (int64_t)(center + support + 0.5);
	first = first < 0 ? 0 : first;
	end = end > in ? in : end;
	for (int64_t x = first; x < end; x++)
		sum += lanczos(((double)x - center + 0.5) * (1.0 / scale));
	to[0] = (int32_t)first;
	to[1] = (int32_t)(end - first);
	for (int64_t x = first; x < end; x++) {
		double k = lanczos(((double)x - center + 0.5) * (1.0 / scale));
		k = sum != 0 ? k * (1.0 / sum) : k;
		to[2 + x - first] = (int32_t)((k < 0 ? -0.5 : 0.5) + k * (1 << LX_RESAMPLE_BITS));
	}
}

void lx_resample_fill(int32_t *table, uint32_t in, uint32_t out)
{
	uint32_t stride = 2 + lx_resample_taps(in, out);
	*table = (int32_t)stride;
	for (uint32_t i = 0; i < out; i++)
		fill_one(table + 1 + (size_t)i * stride, (i + 0.5) * ((double)in / out), stretch(in, out), in);
}

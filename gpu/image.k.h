/* Kernels on images. Definitions and their sources: lx-gpu(1). */
#ifndef LX_IMAGE_K_H
#define LX_IMAGE_K_H

#include "kernel.h"

/* ---- resampling (gpu/resample.h) ---- */

LX_FN uint8_t lx_k_round(int64_t sum)
{
	int64_t v = (sum + (1 << 21)) >> 22;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

LX_FN void lx_k_columns(const struct lx_kernel_item *k, uint32_t width)
{
	int32_t stride = k->columns[0];
	LX_FOR_ROW(y, k->height) {
		const uint8_t *row = k->grey + (uint64_t)y * k->width;
		LX_FOR_COLUMN(x, width) {
			const int32_t *c = k->columns + 1 + (int64_t)x * stride;
			const uint8_t *from = row + c[0];
			int32_t n = c[1], sum = 0;
			for (int32_t i = 0; i < n; i++)
				sum += from[i] * c[2 + i];
			k->work[(uint64_t)y * width + x] = lx_k_round(sum);
		}
	}
}

LX_FN void lx_k_rows(const struct lx_kernel_item *k, uint32_t width, uint32_t height, uint8_t *to)
{
	int32_t stride = k->rows[0];
	LX_FOR(p, width * height) {
		uint32_t x = (uint32_t)p % width, y = (uint32_t)p / width;
		const int32_t *c = k->rows + 1 + (int64_t)y * stride;
		int32_t n = c[1], sum = 0;
		for (int32_t i = 0; i < n; i++)
			sum += k->work[(uint64_t)(c[0] + i) * width + x] * c[2 + i];
		to[p] = lx_k_round(sum);
	}
}

/* ---- dhash ---- */

#define DHASH_SIDE 8

LX_PHASE(dhash_columns)
{
	lx_k_columns(k, DHASH_SIDE + 1);
}

LX_PHASE(dhash_rows)
{
	lx_k_rows(k, DHASH_SIDE + 1, DHASH_SIDE, (uint8_t *)k->shared);
}

LX_PHASE(dhash_bits)
{
	const uint8_t *small = (const uint8_t *)k->shared;
	LX_ONCE {
		uint64_t bits = 0;
		for (uint32_t i = 0; i < 64; i++) {
			uint32_t at = i / DHASH_SIDE * (DHASH_SIDE + 1) + i % DHASH_SIDE;
			bits = bits << 1 | (small[at + 1] > small[at]);
		}
		k->out[0] = bits;
	}
}

LX_ENTRY(lx_op_dhash, dhash_columns, dhash_rows, dhash_bits)

/* ---- phash ---- */

#define PHASH_SIDE 32
#define PHASH_LOW 8

/* round(cos(pi * i / 64) * 2^20): the quarter of a period that all the others follow from. */
LX_FN int64_t lx_k_cos(uint32_t i)
{
	const int32_t quarter[33] = {
		1048576, 1047313, 1043527, 1037227, 1028428, 1017151, 1003425, 987281, 968758, 947901, 924761,
		899394, 871859, 842224, 810560, 776944, 741455, 704181, 665210, 624636, 582558, 539076,
		494295, 448324, 401273, 353255, 304386, 254783, 204567, 153858, 102778, 51451, 0,
	};
	i %= 128;
	if (i > 64)
		i = 128 - i;
	return i <= 32 ? quarter[i] : -quarter[64 - i];
}

LX_FN uint64_t lx_k_small(const struct lx_kernel_item *k)
{
	return ((uint64_t)PHASH_SIDE * k->height + 15) / 16 * 16;
}

LX_PHASE(phash_columns)
{
	lx_k_columns(k, PHASH_SIDE);
}

LX_PHASE(phash_rows)
{
	lx_k_rows(k, PHASH_SIDE, PHASH_SIDE, k->work + lx_k_small(k));
}

/* The DCT of type II of every column, its lowest frequencies. */
LX_PHASE(phash_dct_columns)
{
	const uint8_t *small = k->work + lx_k_small(k);
	int64_t *half = (int64_t *)(void *)(k->work + lx_k_small(k) + PHASH_SIDE * PHASH_SIDE);
	LX_FOR(p, PHASH_LOW * PHASH_SIDE) {
		uint32_t u = (uint32_t)p / PHASH_SIDE, x = (uint32_t)p % PHASH_SIDE;
		int64_t sum = 0;
		for (uint32_t y = 0; y < PHASH_SIDE; y++)
			sum += small[y * PHASH_SIDE + x] * lx_k_cos(u * (2 * y + 1));
		half[p] = sum;
	}
}

LX_PHASE(phash_dct_rows)
{
	const int64_t *half = (const int64_t *)(const void *)(k->work + lx_k_small(k) + PHASH_SIDE * PHASH_SIDE);
	LX_FOR(p, PHASH_LOW * PHASH_LOW) {
		uint32_t u = (uint32_t)p / PHASH_LOW, v = (uint32_t)p % PHASH_LOW;
		int64_t sum = 0;
		for (uint32_t x = 0; x < PHASH_SIDE; x++)
			sum += half[u * PHASH_SIDE + x] * lx_k_cos(v * (2 * x + 1));
		k->shared[p] = (uint64_t)sum;
	}
}

/* Bits that lie above the median, which of 64 values is the mean of the two in the middle. */
LX_PHASE(phash_bits)
{
	LX_ONCE {
		int64_t sorted[64];
		uint64_t bits = 0;
		for (uint32_t i = 0; i < 64; i++) {
			int64_t v = (int64_t)k->shared[i];
			uint32_t at = i;
			for (; at && sorted[at - 1] > v; at--)
				sorted[at] = sorted[at - 1];
			sorted[at] = v;
		}
		for (uint32_t i = 0; i < 64; i++)
			bits = bits << 1 | (2 * (int64_t)k->shared[i] > sorted[31] + sorted[32]);
		k->out[0] = bits;
	}
}

LX_ENTRY(lx_op_phash, phash_columns, phash_rows, phash_dct_columns, phash_dct_rows, phash_bits)
#define PHASH_WORK (PHASH_SIDE * PHASH_SIDE + PHASH_LOW * PHASH_SIDE * 8)

/* ---- sums over pixels: each thread's own are added up in shared ---- */

LX_PHASE(sums_clear)
{
	LX_FOR(i, LX_KERNEL_SHARED / 8)
		k->shared[i] = 0;
}

/* Pixels darker than args[0]. */
LX_PHASE(ink_count)
{
	uint64_t dark = 0;
	uint32_t limit = (uint32_t)k->args[0];
	LX_FOR_ROW(y, k->height) {
		const uint8_t *row = k->grey + (uint64_t)y * k->width;
		uint32_t n = 0;
		LX_FOR_COLUMN(x, k->width)
			n += row[x] < limit;
		dark += n;
	}
	LX_ADD(&k->shared[0], dark);
}

LX_PHASE(sums_out)
{
	LX_ONCE {
		k->out[0] = k->shared[0];
		k->out[1] = k->shared[1];
	}
}

LX_ENTRY(lx_op_ink, sums_clear, ink_count, sums_out)

/* The sum and the sum of squares of the Laplacian 0 1 0 / 1 -4 1 / 0 1 0; beyond the border the image is mirrored without
 * repeating its edge. */
LX_FN int32_t lx_k_laplacian(const uint8_t *above, const uint8_t *row, const uint8_t *below, uint32_t left, uint32_t x, uint32_t right)
{
	return above[x] + below[x] + row[left] + row[right] - 4 * row[x];
}

LX_PHASE(sharpness_sums)
{
	int64_t sum = 0;
	uint64_t squares = 0;
	uint32_t w = k->width, h = k->height;
	LX_FOR_ROW(y, h) {
		const uint8_t *row = k->grey + (uint64_t)y * w;
		const uint8_t *above = k->grey + (uint64_t)(y ? y - 1 : h > 1) * w;
		const uint8_t *below = k->grey + (uint64_t)(y + 1 < h ? y + 1 : h > 1 ? h - 2 : 0) * w;
		LX_FOR_COLUMN(x, w) {
			int32_t v = lx_k_laplacian(above, row, below, x ? x - 1 : w > 1, x, x + 1 < w ? x + 1 : w > 1 ? w - 2 : 0);
			sum += v;
			squares += (uint64_t)(v * v);
		}
	}
	LX_ADD(&k->shared[0], sum);
	LX_ADD(&k->shared[1], squares);
}

LX_ENTRY(lx_op_sharpness, sums_clear, sharpness_sums, sums_out)

/* args[0] equal ranges of 0..255: how many pixels are in each. 256 counters are all of shared. */
LX_PHASE(luma_count)
{
	uint32_t shift = (uint32_t)k->args[1]; /* 256 >> shift ranges */
	LX_FOR(p, (uint64_t)k->width * k->height)
		LX_ADD(&k->shared[k->grey[p] >> shift], 1);
}

LX_PHASE(luma_out)
{
	LX_FOR(i, k->args[0])
		k->out[i] = k->shared[i];
}

LX_ENTRY(lx_op_luma, sums_clear, luma_count, luma_out)

/* ---- RGB to grey, before any other kernel: L = (19595 R + 38470 G + 7471 B + 32768) / 65536, as Pillow has it ---- */

LX_PHASE(grey_pixels)
{
	uint8_t *to = k->work;
	LX_FOR(p, (uint64_t)k->width * k->height) {
		const uint8_t *c = k->in + 3 * p;
		to[p] = (uint8_t)((19595u * c[0] + 38470u * c[1] + 7471u * c[2] + 32768u) >> 16);
	}
}

LX_ENTRY(lx_op_grey, grey_pixels)

#endif

/* The kernel that brings images to one size, in colour, as planes. */
#ifndef LX_RESIZE_K_H
#define LX_RESIZE_K_H

#include "fit.k.h"
#include "image.k.h"

/* Columns first: as many bytes a row as the image gets to be wide, times its channels. */
LX_PHASE(resize_columns)
{
	struct lx_k_fit f = lx_k_fit(k->args, k->width, k->height);
	uint32_t n = k->channels;
	int32_t stride = k->columns[0];
	LX_FOR_ROW(y, k->height) {
		const uint8_t *row = k->in + (uint64_t)y * k->width * n;
		uint8_t *to = k->work + (uint64_t)y * f.w * n;
		LX_FOR_COLUMN(p, f.w * n) {
			const int32_t *c = k->columns + 1 + (int64_t)(p / n) * stride;
			const uint8_t *from = row + (uint64_t)c[0] * n + p % n;
			int32_t sum = 0;
			for (int32_t i = 0; i < c[1]; i++)
				sum += from[(uint32_t)i * n] * c[2 + i];
			to[p] = lx_k_round(sum);
		}
	}
}

LX_FN uint8_t lx_k_resized(const struct lx_kernel_item *k, struct lx_k_fit f, uint32_t channel, uint32_t y, uint32_t x)
{
	const int32_t *c = k->rows + 1 + (int64_t)(y - f.y) * k->rows[0];
	uint64_t row = (uint64_t)f.w * k->channels;
	const uint8_t *from = k->work + (uint32_t)c[0] * row + (uint64_t)(x - f.x) * k->channels + (k->channels == 3 ? channel : 0);
	int32_t sum = 0;
	for (int32_t i = 0; i < c[1]; i++)
		sum += from[(uint32_t)i * row] * c[2 + i];
	return lx_k_round(sum);
}

/* Then rows, into the planes. */
LX_PHASE(resize_rows)
{
	struct lx_k_fit f = lx_k_fit(k->args, k->width, k->height);
	uint8_t *out = (uint8_t *)k->out;
	LX_FOR_ROW(r, 3 * f.height) {
		uint32_t channel = r / f.height, y = r % f.height;
		LX_FOR_COLUMN(x, f.width) {
			bool in = y - f.y < f.h && x - f.x < f.w;
			out[(uint64_t)r * f.width + x] = in ? lx_k_resized(k, f, channel, y, x) : 0;
		}
	}
	LX_ONCE {
		uint64_t n = 3 * (uint64_t)f.width * f.height;
		for (uint64_t i = n; i < (n + 7) / 8 * 8; i++)
			out[i] = 0;
	}
}

LX_ENTRY(lx_op_resize, resize_columns, resize_rows)

#endif

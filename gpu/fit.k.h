/* How an image lies in the size it is brought to. */
#ifndef LX_FIT_K_H
#define LX_FIT_K_H

#include "kernel.h"

/* args[0]: width, in the upper half height; args[1]: the image keeps its proportions, what it leaves is black. */

struct lx_k_fit {
	uint32_t width, height; /* of what comes out */
	uint32_t w, h, x, y;    /* the image in it */
};

/* n * to / from, rounded, at least 1. */
LX_FN uint32_t lx_k_part(uint32_t n, uint32_t to, uint32_t from)
{
	uint64_t v = (2 * (uint64_t)n * to + from) / (2 * (uint64_t)from);
	return v ? (uint32_t)v : 1;
}

LX_FN struct lx_k_fit lx_k_fit(const uint64_t *args, uint32_t width, uint32_t height)
{
	uint32_t w = (uint32_t)args[0], h = (uint32_t)(args[0] >> 32);
	struct lx_k_fit f = { w, h, w, h, 0, 0 };
	if (!args[1])
		return f;
	if ((uint64_t)width * h > (uint64_t)height * w)
		f.h = lx_k_part(height, w, width);
	else
		f.w = lx_k_part(width, h, height);
	f.x = (w - f.w) / 2;
	f.y = (h - f.h) / 2;
	return f;
}

#endif

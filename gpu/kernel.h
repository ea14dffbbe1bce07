/* kernel: the language kernels are written in, once for every device.
 *
 * A kernel is a list of phases. A phase is a function of one item; the threads of a block run it side by side on
 * a CUDA device, each with its share of every LX_FOR loop, and one thread runs all of it on the CPU. Between two
 * phases all threads of the item meet: what one phase has written, the next may read. So a kernel has no barrier
 * inside it, and its integer results are the same on every device.
 *
 *     LX_PHASE(dark_clear)
 *     {
 *             LX_ONCE
 *                     k->out[0] = 0;
 *     }
 *     LX_PHASE(dark_count)
 *     {
 *             LX_FOR(p, (uint64_t)k->width * k->height)
 *                     if (k->grey[p] < k->args[0])
 *                             LX_ADD(&k->out[0], 1);
 *     }
 *     #define DARK_PHASES dark_clear, dark_count
 *
 * `out` holds anything when the first phase begins: a kernel writes every byte of it, or fails the item.
 */
#ifndef LX_KERNEL_H
#define LX_KERNEL_H

#include <stdint.h>

#define LX_KERNEL_SHARED 2048 /* bytes an item's threads share, 8-byte aligned; holds anything at first */
#define LX_KERNEL_PHASES 6    /* at most */
#define LX_KERNEL_ARGS 4

/* One item, as a phase sees it. */
struct lx_kernel_item {
	const uint8_t *in;   /* its bytes: text, or pixels */
	uint64_t len;        /* of them */
	const uint8_t *grey; /* images: width x height grey pixels */
	uint32_t width, height;
	/* Resampling tables for the size the op asked for (gpu/resample.h), for columns and for rows. */
	const int32_t *columns, *rows;
	uint8_t *work;       /* as many bytes as the op asked for, 16-byte aligned */
	uint64_t *out;       /* the op's results */
	const uint64_t *args;
	uint64_t *shared;    /* LX_KERNEL_SHARED bytes */
	uint32_t thread, threads;
};

typedef void lx_phase_fn(const struct lx_kernel_item *k);

#ifdef __CUDACC__
#define LX_FN static __device__ inline
#define LX_FOR(i, n) for (uint64_t i = k->thread; i < (n); i += k->threads)
/* Rows go to warps, the columns of a row to the lanes of its warp. */
#define LX_FOR_ROW(y, n) for (uint32_t y = k->thread / 32; y < (n); y += k->threads / 32)
#define LX_FOR_COLUMN(x, n) for (uint32_t x = k->thread % 32; x < (n); x += 32)
#define LX_ADD(p, v) atomicAdd((unsigned long long *)(p), (unsigned long long)(v))
#else
#define LX_FN static inline
#define LX_FOR(i, n) for (uint64_t i = 0; i < (n); i++)
#define LX_FOR_ROW(y, n) for (uint32_t y = 0; y < (n); y++)
#define LX_FOR_COLUMN(x, n) for (uint32_t x = 0; x < (n); x++)
#define LX_ADD(p, v) ((void)(*(p) += (uint64_t)(v)))
#endif
/* The first thread alone. */
#define LX_ONCE if (k->thread == 0)
#define LX_PHASE(name) LX_FN void name(const struct lx_kernel_item *k)

#endif

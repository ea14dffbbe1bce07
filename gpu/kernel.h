/* kernel: the language kernels are written in, once for every device. The manual is lx-kernel(5).
 *
 * A kernel is a list of phases. A phase is a function of one item; the threads of a block run it side by side on
 * a CUDA device, each with its share of every LX_FOR loop, and one thread runs all of it on the CPU. Between two
 * phases all threads of the item meet: what one phase has written, the next may read. So a kernel has no barrier
 * inside it, and its integer results are the same on every device.
 *
 *     LX_PHASE(clear)
 *     {
 *             LX_ONCE
 *                     k->out[0] = 0;
 *     }
 *     LX_PHASE(count)
 *     {
 *             LX_FOR(p, (uint64_t)k->width * k->height)
 *                     if (k->grey[p] < k->args[0])
 *                             LX_ADD(&k->out[0], 1);
 *     }
 *     LX_KERNEL(dark, LX_IMAGE, "uint", "", 0, clear, count)
 *     LX_PLUGIN(dark)
 *
 * `out` holds anything when the first phase begins: a kernel writes every byte of it, or refuses the item.
 *
 * The C compiler makes a shared object of such a file that exports one symbol, lx_plugin; nvcc and NVRTC make the entries
 * and the descriptions (NAME_about) of its kernels.
 */
#ifndef LX_KERNEL_H
#define LX_KERNEL_H

#ifdef __CUDACC_RTC__
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
#else
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#endif

#define LX_KERNEL_ABI 1
#define LX_KERNEL_SHARED 2048 /* bytes an item's threads share, 8-byte aligned; holds anything at first */
#define LX_KERNEL_PHASES 6    /* at most */
#define LX_KERNEL_ARGS 4
#define LX_KERNEL_WORK (1u << 30) /* bytes of `work` an item gets, at most */

enum lx_kernel_input {
	LX_IMAGE, /* netpbm, PNG or JPEG, decoded */
	LX_BYTES, /* a string or bytes, as they are */
	LX_TEXT,  /* the same, in UTF-8: the kernel sees to that */
};

/* One item, as a phase sees it. */
struct lx_kernel_item {
	const uint8_t *in;   /* its bytes: text, or pixels, 16-byte aligned */
	uint64_t len;        /* of them */
	const uint8_t *grey; /* images: width x height grey pixels */
	uint32_t width, height, channels; /* 1 grey, 3 RGB: what `in` has */
	uint32_t thread, threads;
	/* Resampling tables for the size the op asked for (gpu/resample.h), for columns and for rows. */
	const int32_t *columns, *rows;
	uint8_t *work;       /* as many bytes as the op asked for, 16-byte aligned */
	uint64_t *out;       /* the op's results */
	const uint64_t *args;
	uint64_t *shared;    /* LX_KERNEL_SHARED bytes */
	uint32_t *status;    /* 0 at first: see LX_REFUSE */
};

typedef void lx_phase_fn(const struct lx_kernel_item *k);

/* What a kernel is called, reads and makes. No pointers: it is read out of device memory, too. */
struct lx_kernel_about {
	uint32_t abi;       /* LX_KERNEL_ABI */
	uint32_t input;     /* enum lx_kernel_input */
	uint64_t work;      /* bytes of `work` an item gets */
	char name[32];
	char result[32];    /* uint, int, float: a 64-bit word; with [N]: as many, an array; bytes[N] */
	char failures[192]; /* "too-dark record, cut-off parent": what LX_REFUSE(1) and LX_REFUSE(2) mean, type and scope */
};

/* LX_BLOCKS: C, but with the threads of a block, as a test of kernels has them. */
#if defined(__CUDACC__) || defined(LX_BLOCKS)
#define LX_FOR(i, n) for (uint64_t i = k->thread; i < (n); i += k->threads)
/* Rows go to warps, the columns of a row to the lanes of its warp. */
#define LX_FOR_ROW(y, n) for (uint32_t y = k->thread / 32; y < (n); y += k->threads / 32)
#define LX_FOR_COLUMN(x, n) for (uint32_t x = k->thread % 32; x < (n); x += 32)
#else
#define LX_FOR(i, n) for (uint64_t i = 0; i < (n); i++)
#define LX_FOR_ROW(y, n) for (uint32_t y = 0; y < (n); y++)
#define LX_FOR_COLUMN(x, n) for (uint32_t x = 0; x < (n); x++)
#endif

#ifdef __CUDACC__
#define LX_FN static __device__ inline
#define LX_PHASE(name) static __device__ inline void name(const struct lx_kernel_item *k)
#define LX_ADD(p, v) atomicAdd((unsigned long long *)(p), (unsigned long long)(v))
#define LX_ONES(v) ((uint32_t)__popcll(v))
#define LX_LOW(v) ((uint32_t)__ffsll((long long)(v)) - 1) /* number of the lowest bit that is set */

/* A block takes an item through all phases, then another one. */
template <lx_phase_fn *...phases> static __device__ void lx_kernel_run(const struct lx_kernel_item *items, uint64_t n)
{
	__shared__ uint64_t shared[LX_KERNEL_SHARED / 8];
	for (uint64_t i = blockIdx.x; i < n; i += gridDim.x) {
		struct lx_kernel_item k = items[i];
		k.shared = shared;
		k.thread = threadIdx.x;
		k.threads = blockDim.x;
		((phases(&k), __syncthreads()), ...);
	}
}
#define LX_ENTRY(name, ...) \
	extern "C" __global__ void name(const struct lx_kernel_item *items, uint64_t n) { lx_kernel_run<__VA_ARGS__>(items, n); }
#define LX_KERNEL(name, input, result, failures, work, ...) \
	extern "C" { __device__ struct lx_kernel_about name##_about = { LX_KERNEL_ABI, input, work, #name, result, failures }; } \
	LX_ENTRY(name, __VA_ARGS__)
#define LX_PLUGIN(...)

#else
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/* Compiled for what the machine it runs on may have. */
#define LX_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define LX_CLONES
#endif
#define LX_FN static inline
#define LX_PHASE(name) LX_CLONES static void name(const struct lx_kernel_item *k)
#define LX_ADD(p, v) ((void)(*(p) += (uint64_t)(v)))
#define LX_ONES(v) ((uint32_t)__builtin_popcountll(v))
#define LX_LOW(v) ((uint32_t)__builtin_ctzll(v))

struct lx_plugin_kernel {
	struct lx_kernel_about about;
	lx_phase_fn *phases[LX_KERNEL_PHASES + 1]; /* NULL ends them */
};
struct lx_plugin {
	uint32_t abi, n;
	const struct lx_plugin_kernel *const *kernels;
	const uint8_t *fatbin, *fatbin_end; /* of the CUDA device; NULL: none */
};
#define LX_ENTRY(name, ...) static lx_phase_fn *const name[] = { __VA_ARGS__, 0 };
#define LX_KERNEL(name, input, result, failures, work, ...) \
	static const struct lx_plugin_kernel name[1] = { { { LX_KERNEL_ABI, input, work, #name, result, failures }, { __VA_ARGS__ } } };
#ifdef LX_FATBIN /* the file with the same kernels for the CUDA device */
#define LX_PLUGIN(...) \
	__asm__(".pushsection .rodata\n.balign 16\nlx_fatbin: .incbin \"" LX_FATBIN "\"\nlx_fatbin_end:\n.popsection"); \
	extern const uint8_t lx_fatbin[], lx_fatbin_end[]; \
	LX_PLUGIN_OF(lx_fatbin, lx_fatbin_end, __VA_ARGS__)
#else
#define LX_PLUGIN(...) LX_PLUGIN_OF(0, 0, __VA_ARGS__)
#endif
#define LX_PLUGIN_OF(from, to, ...) \
	static const struct lx_plugin_kernel *const lx_plugin_kernels[] = { __VA_ARGS__ }; \
	extern const struct lx_plugin lx_plugin; \
	const struct lx_plugin lx_plugin = { \
		LX_KERNEL_ABI, sizeof(lx_plugin_kernels) / sizeof(*lx_plugin_kernels), lx_plugin_kernels, from, to, \
	};
#endif

/* The first thread alone. */
#define LX_ONCE if (k->thread == 0)
/* Fail the item with the Nth failure of the kernel's list. */
#define LX_REFUSE(number) ((void)(*k->status = (number)))
/* The same, at a place (of a byte, a row) that the message names. It lies in the results: no later phase writes those. */
#define LX_REFUSE_AT(number, place) ((void)(k->out[0] = (place), *k->status = (number) | LX_REFUSED_AT))
#define LX_REFUSED_AT 0x80000000u
/* The results as another type. */
#define LX_OUT(type) ((type *)(void *)k->out)

#endif

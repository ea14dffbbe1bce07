/* op: what lx-gpu can compute, and how its results become fields.
 *
 * An op is one kernel (gpu/kernel.h) with its arguments. Its result is a fixed number of 64-bit words per item, which
 * `pack` turns into the value of one field, called as the op unless -o says otherwise.
 */
#ifndef LX_OP_H
#define LX_OP_H

#include "buf.h"
#include "kernel.h"

enum lx_gpu_input { LX_GPU_IMAGE };

struct lx_gpu_op {
	const char *name;
	const char *args;   /* as a manual has them: "[:BINS]"; "" none */
	const char *help;   /* one line */
	const char *result; /* type of the field */
	enum lx_gpu_input input;
	uint32_t columns, rows; /* the size to resample to; 0: not wanted */
	lx_phase_fn *phases[LX_KERNEL_PHASES + 1]; /* of the CPU device; NULL ends them */
	/* Read the arguments behind the colon (NULL: none were given). -1: LX_USAGE, the bare reason. May be NULL: takes none. */
	int (*parse)(const char *text, uint64_t args[LX_KERNEL_ARGS], struct lx_err *e);
	uint32_t (*words)(const uint64_t *args);             /* of a result; NULL: 1 */
	uint64_t (*work)(uint32_t width, uint32_t height);   /* bytes; NULL: none */
	void (*pack)(struct lx_buf *to, const uint64_t *out, const uint64_t *args, uint32_t width, uint32_t height);
};

extern const struct lx_gpu_op lx_gpu_ops[];  /* NULL name ends them */
extern const struct lx_gpu_op lx_gpu_grey; /* before the others, for images in colour */

/* An op with its arguments. */
struct lx_gpu_call {
	const struct lx_gpu_op *op;
	uint64_t args[LX_KERNEL_ARGS];
	uint32_t words;
};

/* "dhash", "luma:32". -1: LX_USAGE: which op, why. */
int lx_gpu_parse(struct lx_gpu_call *c, const char *text, struct lx_err *e);

#endif

/* op: what lx-gpu can compute, and how its results become fields.
 *
 * An op is one kernel (gpu/kernel.h) with its arguments. Its result is a fixed number of 64-bit words per item, which
 * `pack` turns into the value of one field, called as the op unless -o says otherwise.
 */
#ifndef LX_OP_H
#define LX_OP_H

#include "buf.h"
#include "kernel.h"

/* One item's value, as a device gets it. */
struct lx_device_input {
	const uint8_t *bytes; /* where it is, when nothing has to be decoded; else NULL */
	uint64_t len;         /* of the value, or of the pixels: rows without padding */
	uint32_t width, height, channels; /* images: 1 grey, 3 RGB */
};

struct lx_gpu_call;

/* Kernels of a file of the user's, for a CUDA device. */
struct lx_gpu_module {
	const char *name;  /* the file, for messages */
	const void *image; /* fatbin, cubin, or PTX with a NUL behind it; NULL: not made yet */
	/* Make the image for a device of this compute capability, where there is none. May take seconds. -1: LX_USAGE: why it cannot be;
	 * LX_WORKER; LX_SYSTEM. */
	int (*make)(struct lx_gpu_module *m, int major, int minor, struct lx_err *e);
	void *own;
};

struct lx_gpu_op {
	const char *name;
	const char *args;   /* as a manual has them: "[:BINS]"; "" none */
	const char *help;   /* one line */
	const char *result; /* type of the field */
	enum lx_kernel_input input;
	uint32_t columns, rows; /* the size to resample to; 0: what `size` says, if anything */
	lx_phase_fn *const *phases; /* of the CPU device; NULL ends them */
	const char *failures;   /* "bad-text record, ...": what LX_REFUSE(1), ... mean: type and scope; NULL: it refuses nothing */
	/* Why it refused this value; NULL: that is for the kernel to say (LX_REFUSE_AT). */
	void (*explain)(const struct lx_gpu_op *op, struct lx_span value, char *why, size_t size);
	const char *entry;      /* on a CUDA device */
	struct lx_gpu_module *module; /* there; NULL: the built-in one */
	const struct lx_kernel_about *about; /* which the module has to have, too; NULL: that of the built-in one */
	/* Read the arguments behind the colon (NULL: none were given) into c->args. -1: LX_USAGE, the bare reason. May be NULL: takes none. */
	int (*parse)(const char *text, struct lx_gpu_call *c, struct lx_err *e);
	void (*size)(const struct lx_gpu_call *c, const struct lx_device_input *in, uint32_t *columns, uint32_t *rows); /* may be NULL */
	uint32_t (*words)(const struct lx_gpu_call *c);      /* of a result; NULL: 1 */
	uint64_t (*work)(const struct lx_gpu_call *c, const struct lx_device_input *in); /* bytes; NULL: none */
	void (*pack)(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in);
};

extern const struct lx_gpu_op lx_gpu_ops[];  /* NULL name ends them */
extern const struct lx_gpu_op lx_gpu_grey; /* before the others, for images in colour */

/* Add an op, which stays where it is. -1: LX_USAGE: there is one of that name, or there are too many. */
int lx_gpu_add(const struct lx_gpu_op *op, struct lx_err *e);
/* All ops, built in and added; NULL behind the last. */
const struct lx_gpu_op *lx_gpu_op_at(size_t i);

/* What LX_REFUSE(number) of an op means. */
struct lx_gpu_failure {
	char type[64], scope[64];
};
/* false: the op declares no such number, or not as one type and one scope. */
bool lx_gpu_failure(const struct lx_gpu_op *op, uint32_t number, struct lx_gpu_failure *f);

/* An op with its arguments. */
struct lx_gpu_call {
	const struct lx_gpu_op *op;
	uint64_t args[LX_KERNEL_ARGS];
	double mean[3], deviation[3]; /* resize */
	uint32_t words;
};

/* The next of the numbers that colons part; *text moves behind it, and to NULL behind the last. max 0: any. -1: LX_USAGE, the bare reason. */
int lx_gpu_number(const char **text, uint64_t min, uint64_t max, uint64_t *to, struct lx_err *e);
/* "dhash", "luma:32". -1: LX_USAGE: which op, why. */
int lx_gpu_parse(struct lx_gpu_call *c, const char *text, struct lx_err *e);
/* The size to resample an item to. false: this op does not resample. */
bool lx_gpu_size(const struct lx_gpu_call *c, const struct lx_device_input *in, uint32_t *columns, uint32_t *rows);

#endif

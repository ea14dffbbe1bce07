/* nvrtc: a kernel file of the user's, compiled for a CUDA device. The compiler is a library that is looked for when it is
 * wanted; nothing is linked against it, and it needs no device.
 */
#ifndef LX_NVRTC_H
#define LX_NVRTC_H

#include "buf.h"

struct lx_nvrtc_job {
	const char *file, *source;
	int major, minor;    /* the compute capability */
	struct lx_buf image; /* a cubin, or PTX with a NUL behind it where the compiler does not know the device yet */
	struct lx_buf log;   /* what the compiler said */
	/* internal */
	int event, rc;
	struct lx_err err;
};

/* Compile. -1: LX_USAGE: it refuses the file; LX_WORKER: it is not there or too old; LX_SYSTEM. A stop signal ends the wait: the compiler
 * cannot be stopped, goes on with the job, and ends with the process. */
int lx_nvrtc_compile(struct lx_nvrtc_job *j, struct lx_err *e);

#endif

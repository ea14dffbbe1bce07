/* driver: the CUDA driver, found when the program runs. Nothing is linked against it: a machine without one starts too.
 *
 * lx_cuda.cuLaunchKernel(...) and so on are the driver's own functions, once lx_cuda_open has succeeded. Constants and
 * types are those of cuda.h, which only the build needs.
 */
#ifndef LX_DRIVER_H
#define LX_DRIVER_H

#include "err.h"

#include <cuda.h>

#define LX_CUDA_CALLS(X) \
	X(cuInit) X(cuGetErrorName) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceGetAttribute) \
	X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) X(cuMemGetInfo) \
	X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal) X(cuFuncGetAttribute) X(cuLaunchKernel) \
	X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemcpyDtoH) \
	X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) \
	X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventElapsedTime)

struct lx_cuda {
#define LX_CUDA_MEMBER(f) __typeof__(f) *f;
	LX_CUDA_CALLS(LX_CUDA_MEMBER)
#undef LX_CUDA_MEMBER
};
extern struct lx_cuda lx_cuda;

/* Load and initialise the driver, once. Returns how many devices there are, at least 1. -1: LX_WORKER: there is no driver, it
 * is too old, it has no device, or one that does not work. */
int lx_cuda_open(struct lx_err *e);
/* "NAME: what the driver says". Always -1; LX_WORKER. */
__attribute__((format(printf, 3, 4))) int lx_cuda_fail(CUresult rc, struct lx_err *e, const char *fmt, ...);

#endif

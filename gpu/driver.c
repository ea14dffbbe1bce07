#ifdef LX_CUDA
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>

struct lx_cuda lx_cuda;

int lx_cuda_fail(CUresult rc, struct lx_err *e, const char *fmt, ...)
{
	char what[256];
	const char *name = NULL, *text = NULL;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (lx_cuda.cuGetErrorName)
		lx_cuda.cuGetErrorName(rc, &name);
	if (lx_cuda.cuGetErrorString)
		lx_cuda.cuGetErrorString(rc, &text);
	return lx_err_set(e, LX_WORKER, "%s: %s (%s)", what, text ? text : "error", name ? name : "unknown to the driver");
}

/* The name as the library has it: cuda.h puts the version of many behind it. */
#define TEXT_OF(f) #f
#define LOAD(f) { TEXT_OF(f), (void **)&lx_cuda.f },

static int load(void *library, struct lx_err *e)
{
	const struct {
		const char *name;
		void **to;
	} calls[] = { LX_CUDA_CALLS(LOAD) };
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!(*calls[i].to = dlsym(library, calls[i].name)))
			return lx_err_set(e, LX_WORKER, "the CUDA driver is too old: it lacks %s", calls[i].name);
	return 0;
}

int lx_cuda_open(struct lx_err *e)
{
	static int n;
	if (n)
		return n;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return lx_err_set(e, LX_WORKER, "no CUDA driver on this machine");
	if (load(library, e) < 0)
		return -1;
	CUresult rc = lx_cuda.cuInit(0);
	if (rc != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "the CUDA driver does not start");
	rc = lx_cuda.cuDeviceGetCount(&n);
	if (rc != CUDA_SUCCESS || n < 1) {
		n = 0;
		return rc != CUDA_SUCCESS ? lx_cuda_fail(rc, e, "the CUDA driver counts no devices") : lx_err_set(e, LX_WORKER, "the CUDA driver has no device");
	}
	return n;
}
#endif

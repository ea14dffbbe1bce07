/* A CUDA driver that is none: for tests of what the host does, on machines without a device. It is called libcuda.so.1 and found
 * through LD_LIBRARY_PATH.
 *
 * Memory of the "device" is memory of the process and begins as 0xaa. What is put into a stream happens when the stream is
 * waited for, not before, so that nothing works that relies on luck. Kernels are the same source, compiled with LX_BLOCKS: a
 * block's threads run one after the other, phase by phase, forwards or (FAKE_CUDA_ORDER=backwards) backwards; a kernel
 * whose threads meddle with each other within a phase gives two answers. Kernels of users are found in the plugin FAKE_CUDA_PLUGIN.
 *
 *     FAKE_CUDA_FAIL=NAME:N[:CODE]   the Nth call of a function fails, and so does everything behind it (code 700)
 *     FAKE_CUDA_MEM=BYTES            more memory than that there is not
 *     FAKE_CUDA_BOUND=BYTES          whoever asks for more than that at once breaks the device
 *     FAKE_CUDA_COUNT=N              devices (1)
 */
#include <cuda.h>

#include "image.k.h"
#include "resize.k.h"
#include "text.k.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUresult broken;

static CUresult enter(const char *name)
{
	static unsigned long calls;
	const char *want = getenv("FAKE_CUDA_FAIL");
	size_t len = strlen(name);
	pthread_mutex_lock(&lock);
	if (want && strncmp(want, name, len) == 0 && want[len] == ':') {
		char *end;
		unsigned long n = strtoul(want + len + 1, &end, 10);
		if (++calls == n)
			broken = *end == ':' ? (CUresult)atoi(end + 1) : CUDA_ERROR_ILLEGAL_ADDRESS;
	}
	CUresult rc = broken;
	pthread_mutex_unlock(&lock);
	return rc;
}

#define ENTER(name) \
	do { \
		CUresult rc_ = enter(name); \
		if (rc_ != CUDA_SUCCESS) \
			return rc_; \
	} while (0)

CUresult cuGetErrorName(CUresult error, const char **text)
{
	*text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
	return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
	*text = error == CUDA_ERROR_ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : "it failed";
	return CUDA_SUCCESS;
}

/* NVRTC looks for more than cuda.h has, and takes a table that ends with its own size for an old driver. */
CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	static const size_t empty[8] = { sizeof(empty[0]) };
	(void)id;
	*table = empty;
	return CUDA_SUCCESS;
}

/* ---- devices ---- */

static int count(void)
{
	const char *n = getenv("FAKE_CUDA_COUNT");
	return n ? atoi(n) : 1;
}

CUresult cuInit(unsigned flags)
{
	(void)flags;
	ENTER("cuInit");
	return count() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDeviceGetCount(int *n)
{
	ENTER("cuDeviceGetCount");
	*n = count();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *d, int number)
{
	ENTER("cuDeviceGet");
	*d = number;
	return number < count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice d)
{
	ENTER("cuDeviceGetName");
	snprintf(name, (size_t)size, "fake %d", d);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d)
{
	(void)d;
	ENTER("cuDeviceGetAttribute");
	*value = a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	ENTER("cuDevicePrimaryCtxRetain");
	*c = (CUcontext)&broken;
	(void)d;
	return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice d)
{
	(void)d;
	return CUDA_SUCCESS;
}

static _Thread_local CUcontext current;

CUresult cuCtxSetCurrent(CUcontext c)
{
	ENTER("cuCtxSetCurrent");
	current = c;
	return CUDA_SUCCESS;
}

/* ---- memory ---- */

static size_t used;

static size_t memory(void)
{
	const char *n = getenv("FAKE_CUDA_MEM");
	return n ? strtoull(n, NULL, 10) : 1ull << 30;
}

/* The size stands in front. */
static CUresult take(void **p, size_t n)
{
	size_t *at = NULL;
	pthread_mutex_lock(&lock);
	if (used + n <= memory() && (at = malloc(n + 16))) {
		used += n;
		*at = n;
		memset((char *)at + 16, 0xaa, n);
		*p = (char *)at + 16;
	}
	pthread_mutex_unlock(&lock);
	return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void give(void *p)
{
	size_t *at = (size_t *)(void *)((char *)p - 16);
	pthread_mutex_lock(&lock);
	used -= *at;
	free(at);
	pthread_mutex_unlock(&lock);
}

CUresult cuMemGetInfo(size_t *left, size_t *all)
{
	ENTER("cuMemGetInfo");
	*all = memory();
	*left = *all - used;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *p, size_t n)
{
	const char *bound = getenv("FAKE_CUDA_BOUND");
	void *at;
	ENTER("cuMemAlloc");
	if (bound && used + n > strtoull(bound, NULL, 10))
		broken = CUDA_ERROR_ILLEGAL_ADDRESS;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	CUresult rc = take(&at, n);
	if (rc == CUDA_SUCCESS)
		*p = (CUdeviceptr)(uintptr_t)at;
	return rc;
}

CUresult cuMemFree(CUdeviceptr p)
{
	give((void *)(uintptr_t)p);
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n)
{
	ENTER("cuMemcpyDtoH");
	memcpy(to, (const void *)(uintptr_t)from, n);
	return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
	(void)flags;
	ENTER("cuMemHostAlloc");
	*p = malloc(n);
	return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void *p)
{
	free(p);
	return CUDA_SUCCESS;
}

/* ---- kernels ---- */

struct CUfunc_st {
	const char *name;
	lx_phase_fn *const *phases;
	unsigned threads; /* 0: as launched */
};

#define KERNEL(name) { "lx_op_" #name, lx_op_##name, 0 }
static struct CUfunc_st kernels[] = {
	KERNEL(dhash), KERNEL(phash), KERNEL(sharpness), KERNEL(ink), KERNEL(luma), KERNEL(grey), KERNEL(resize), KERNEL(minhash), KERNEL(simhash),
};

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
	ENTER("cuModuleLoadData");
	*m = (CUmodule)(uintptr_t)image;
	return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule m)
{
	(void)m;
	return CUDA_SUCCESS;
}

/* That of FAKE_CUDA_PLUGIN whose name is the first `len` bytes. */
static const struct lx_plugin_kernel *find_in_plugin(const char *name, size_t len)
{
	const char *file = getenv("FAKE_CUDA_PLUGIN");
	void *library = file ? dlopen(file, RTLD_NOW) : NULL;
	const struct lx_plugin *p = library ? dlsym(library, "lx_plugin") : NULL;
	for (uint32_t i = 0; p && i < p->n; i++)
		if (strlen(p->kernels[i]->about.name) == len && memcmp(p->kernels[i]->about.name, name, len) == 0)
			return p->kernels[i];
	return NULL;
}

CUresult cuModuleGetGlobal(CUdeviceptr *at, size_t *size, CUmodule m, const char *name)
{
	const char *behind = strstr(name, "_about");
	const struct lx_plugin_kernel *k = behind ? find_in_plugin(name, (size_t)(behind - name)) : NULL;
	(void)m;
	ENTER("cuModuleGetGlobal");
	if (!k)
		return CUDA_ERROR_NOT_FOUND;
	*at = (CUdeviceptr)(uintptr_t)&k->about;
	*size = sizeof(k->about);
	return CUDA_SUCCESS;
}

/* Compiled for the CPU: one thread. */
static CUresult from_plugin(CUfunction *f, const char *name)
{
	static struct CUfunc_st made[64];
	static size_t n_made;
	const struct lx_plugin_kernel *k = find_in_plugin(name, strlen(name));
	if (!k || n_made == sizeof(made) / sizeof(*made))
		return CUDA_ERROR_NOT_FOUND;
	*f = &made[n_made++];
	**f = (struct CUfunc_st){ name, k->phases, 1 };
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	(void)m;
	ENTER("cuModuleGetFunction");
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		if (strcmp(kernels[i].name, name) == 0) {
			*f = &kernels[i];
			return CUDA_SUCCESS;
		}
	return from_plugin(f, name);
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction f)
{
	(void)a, (void)f;
	ENTER("cuFuncGetAttribute");
	*value = 100;
	return CUDA_SUCCESS;
}

static void run(const struct CUfunc_st *f, const struct lx_kernel_item *items, uint64_t n, unsigned threads)
{
	const char *order = getenv("FAKE_CUDA_ORDER");
	bool backwards = order && strcmp(order, "backwards") == 0;
	static _Thread_local uint64_t shared[LX_KERNEL_SHARED / 8];
	threads = f->threads ? f->threads : threads;
	for (uint64_t i = 0; i < n; i++) {
		struct lx_kernel_item k = items[i];
		memset(shared, 0xaa, sizeof(shared));
		k.shared = shared;
		k.threads = threads;
		for (lx_phase_fn *const *phase = f->phases; *phase; phase++)
			for (unsigned t = 0; t < threads; t++) {
				k.thread = backwards ? threads - 1 - t : t;
				(*phase)(&k);
			}
	}
}

/* ---- streams ---- */

struct task {
	struct task *next;
	void *to;
	const void *from;
	size_t n;
	CUfunction f; /* NULL: a copy */
	const struct lx_kernel_item *items;
	unsigned threads;
};

struct CUstream_st {
	struct task *first, **last;
};

CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
	(void)flags;
	ENTER("cuStreamCreate");
	*s = calloc(1, sizeof(**s));
	(*s)->last = &(*s)->first;
	return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream s)
{
	for (struct task *t; (t = s->first);) {
		s->first = t->next;
		free(t);
	}
	free(s);
	return CUDA_SUCCESS;
}

static CUresult append(CUstream s, struct task task)
{
	struct task *t = malloc(sizeof(*t));
	*t = task;
	t->next = NULL;
	*s->last = t;
	s->last = &t->next;
	return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
	ENTER("cuMemcpyHtoDAsync");
	return append(s, (struct task){ .to = (void *)(uintptr_t)to, .from = from, .n = n });
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream s)
{
	ENTER("cuMemcpyDtoHAsync");
	return append(s, (struct task){ .to = to, .from = (const void *)(uintptr_t)from, .n = n });
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                        CUstream s, void **args, void **extra)
{
	ENTER("cuLaunchKernel");
	if (!gx || gy != 1 || gz != 1 || !bx || bx % 32 || bx > 100 || by != 1 || bz != 1 || shared || extra)
		return CUDA_ERROR_INVALID_VALUE;
	CUdeviceptr items = *(CUdeviceptr *)args[0];
	return append(s, (struct task){
		.f = f, .items = (const struct lx_kernel_item *)(uintptr_t)items, .n = *(uint64_t *)args[1], .threads = bx,
	});
}

CUresult cuStreamSynchronize(CUstream s)
{
	ENTER("cuStreamSynchronize");
	for (struct task *t; (t = s->first);) {
		if (t->f)
			run(t->f, t->items, t->n, t->threads);
		else
			memcpy(t->to, t->from, t->n);
		s->first = t->next;
		free(t);
	}
	s->last = &s->first;
	return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	ENTER("cuMemcpyDtoDAsync");
	return append(s, (struct task){ .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .n = n });
}

/* ---- time: of no meaning here ---- */

CUresult cuEventCreate(CUevent *e, unsigned flags)
{
	(void)flags;
	*e = (CUevent)&broken;
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent e)
{
	(void)e;
	return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
	(void)e, (void)s;
	return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b)
{
	(void)a, (void)b;
	*ms = 1;
	return CUDA_SUCCESS;
}

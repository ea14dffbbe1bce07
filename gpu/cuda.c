/* The CUDA device: a lane fills pinned memory with a piece of a batch (all threads decode), sends it up at once, launches a kernel
 * for every op and fetches the results at once. While one lane waits for the device, another decodes.
 *
 * Of a lane's memory on the device the front is a copy of what the host has prepared:
 *
 *     inputs | items of each kernel | arguments | resampling tables |  grey pixels | work | results | status
 *     ------------------- sent up ---------------------------------                         -- fetched ----
 */
#include "device-int.h"

#ifndef LX_CUDA

static int without(struct lx_err *e)
{
	return lx_err_set(e, LX_WORKER, "this lx-gpu was built without CUDA");
}

struct lx_device *lx_device_cuda(int number, const struct lx_device_conf *c, struct lx_err *e)
{
	(void)number, (void)c;
	without(e);
	return NULL;
}

int lx_device_cuda_count(struct lx_err *e)
{
	return without(e);
}

int lx_device_cuda_prepare(int number, const struct lx_gpu_call *calls, size_t n, struct lx_err *e)
{
	(void)number, (void)calls, (void)n;
	return without(e);
}

const char *lx_device_cuda_archs(void)
{
	return NULL;
}

#else

#include "driver.h"
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LANES 3
#define PIECE (64ull << 20)

/* The built-in kernels, compiled for all architectures. */
__asm__(".pushsection .rodata\n.balign 16\n.global lx_kernels\nlx_kernels: .incbin \"" LX_KERNELS "\"\n.popsection");
extern const unsigned char lx_kernels[];

/* An item of a piece: where it is, from the start of the lane's memory. */
struct place {
	size_t i;
	uint64_t in, grey, work, out, status;
};

/* A resampling table of a piece. */
struct sent {
	uint32_t in, out;
	const int32_t *table;
	uint64_t at;
};

struct hand {
	CUstream stream;
	CUdeviceptr mem;
	uint8_t *up, *down; /* pinned */
	uint64_t mem_cap, up_cap, down_cap;
	struct lx_tables resampling;
	struct place *places;
	struct sent *sent;
	size_t n, n_sent, cap;
	uint64_t items, args, tables, up_len, out, status, len; /* the sections */
};

/* What was loaded: a module, or an op's function of one. */
struct loaded {
	const void *of; /* struct lx_gpu_module, NULL the built-in one; or struct lx_gpu_op */
	CUmodule m;
	CUfunction f;
	int threads; /* a block's, at most */
	struct loaded *next;
};

struct cuda {
	CUdevice device;
	CUcontext context;
	int number;
	struct loaded *modules, *functions;
	pthread_mutex_t decoding; /* all threads work for one lane */
	pthread_mutex_t loading;  /* of modules and functions */
	struct hand hands[LANES];
};

/* ---- kernels ---- */

static int load_module(struct cuda *d, struct loaded *l, struct lx_err *e)
{
	const struct lx_gpu_module *of = l->of;
	CUresult rc = lx_cuda.cuModuleLoadData(&l->m, of ? of->image : lx_kernels); /* lx_device_cuda_prepare made it */
	return rc == CUDA_SUCCESS ? 0 : lx_cuda_fail(rc, e, "cuda:%d does not take the kernels of %s", d->number, of ? of->name : "lx-gpu");
}

/* What is loaded of that already, or else by `load`. NULL: LX_SYSTEM, or what that says. */
static struct loaded *get(struct cuda *d, struct loaded **all, const void *of, int (*load)(struct cuda *d, struct loaded *l, struct lx_err *e),
                          struct lx_err *e)
{
	struct loaded *l = *all;
	while (l && l->of != of)
		l = l->next;
	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l) {
		lx_err_sys(e, "kernels");
		return NULL;
	}
	l->of = of;
	if (load(d, l, e) < 0) {
		free(l);
		return NULL;
	}
	l->next = *all;
	*all = l;
	return l;
}

/* The kernels of a plugin for CUDA devices are a file of their own, which may be older than those for the CPU. */
static int check_about(CUmodule m, const struct lx_gpu_op *op, struct lx_err *e)
{
	struct lx_kernel_about there;
	char name[sizeof(there.name) + sizeof("_about")];
	CUdeviceptr at;
	size_t size = 0;
	snprintf(name, sizeof(name), "%s_about", op->entry);
	CUresult rc = lx_cuda.cuModuleGetGlobal(&at, &size, m, name);
	if (rc == CUDA_ERROR_NOT_FOUND) /* the entry will hardly be there, and says so */
		return 0;
	if (rc == CUDA_SUCCESS && size == sizeof(there))
		rc = lx_cuda.cuMemcpyDtoH(&there, at, sizeof(there));
	if (rc != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "kernel %s", op->name);
	if (size != sizeof(there) || memcmp(&there, op->about, sizeof(there)) != 0)
		return lx_err_set(e, LX_USAGE, "%s: kernel %s for CUDA devices is not the one for the CPU: make both of the same file, with the same lx/kernel.h",
		                  op->module->name, op->name);
	return 0;
}

static int load_function(struct cuda *d, struct loaded *l, struct lx_err *e)
{
	const struct lx_gpu_op *op = l->of;
	const struct loaded *m = get(d, &d->modules, op->module, load_module, e);
	if (!m || (op->about && check_about(m->m, op, e) < 0))
		return -1;
	CUresult rc = lx_cuda.cuModuleGetFunction(&l->f, m->m, op->entry);
	if (rc == CUDA_SUCCESS)
		rc = lx_cuda.cuFuncGetAttribute(&l->threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, l->f);
	return rc == CUDA_SUCCESS ? 0 : lx_cuda_fail(rc, e, "kernel %s", op->name);
}

/* A block per item: large where there is much to do in it. */
static int launch(struct cuda *d, struct hand *h, const struct lx_gpu_op *op, uint64_t items, uint64_t n, uint64_t bytes, struct lx_err *e)
{
	CUdeviceptr at = h->mem + items;
	void *args[] = { &at, &n };
	pthread_mutex_lock(&d->loading);
	const struct loaded *f = get(d, &d->functions, op, load_function, e);
	pthread_mutex_unlock(&d->loading);
	if (!f)
		return -1;
	int threads = bytes / n > 65536 ? 1024 : 256;
	threads = threads < f->threads ? threads : f->threads / 32 * 32;
	unsigned blocks = n < 65536 ? (unsigned)n : 65536;
	CUresult rc = lx_cuda.cuLaunchKernel(f->f, blocks, 1, 1, (unsigned)threads, 1, 1, 0, h->stream, args, NULL);
	return rc == CUDA_SUCCESS ? 0 : lx_cuda_fail(rc, e, "cuda:%d: launching %s", d->number, op->name);
}

/* ---- where things go ---- */

/* Room for another table, which is sent once. -1: no memory. */
static int send_table(struct hand *h, uint32_t in, uint32_t out)
{
	for (size_t i = 0; i < h->n_sent; i++)
		if (h->sent[i].in == in && h->sent[i].out == out)
			return 0;
	const int32_t *table = lx_tables_get(&h->resampling, in, out);
	h->sent[h->n_sent++] = (struct sent){ .in = in, .out = out, .table = table };
	return table ? 0 : -1;
}

static int send_tables(struct hand *h, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	uint32_t columns, rows;
	if (!lx_gpu_size(c, in, &columns, &rows))
		return 0;
	return send_table(h, in->width, columns) < 0 || send_table(h, in->height, rows) < 0 ? -1 : 0;
}

static uint64_t table_at(const struct hand *h, uint32_t in, uint32_t out)
{
	for (size_t i = 0; i < h->n_sent; i++)
		if (h->sent[i].in == in && h->sent[i].out == out)
			return h->sent[i].at;
	return 0;
}

static int make_room(struct hand *h, const struct lx_piece *p)
{
	size_t n = p->to - p->from;
	if (n <= h->cap)
		return 0;
	struct place *places = realloc(h->places, n * sizeof(*places));
	h->places = places ? places : h->places;
	struct sent *sent = places ? realloc(h->sent, 2 * n * p->b->n_calls * sizeof(*sent)) : NULL;
	h->sent = sent ? sent : h->sent;
	if (!sent)
		return -1;
	h->cap = n;
	return 0;
}

/* The sections of a piece. -1: no memory. */
static int lay_out(struct hand *h, const struct lx_piece *p)
{
	const struct lx_device_batch *b = p->b;
	uint64_t at = 0;
	h->n = h->n_sent = 0;
	lx_tables_trim(&h->resampling);
	if (make_room(h, p) < 0)
		return -1;
	for (size_t i = p->from; i < p->to; i++) {
		const struct lx_device_input *in = &b->in[i];
		if (lx_item_bad(in))
			continue;
		h->places[h->n++] = (struct place){ .i = i, .in = at };
		at += lx_align16(in->len);
		for (size_t c = 0; c < b->n_calls; c++)
			if (send_tables(h, &b->calls[c], in) < 0)
				return -1;
	}
	h->items = at;
	at += lx_align16((b->n_calls + 1) * h->n * sizeof(struct lx_kernel_item));
	h->args = at;
	at += lx_align16(b->n_calls * sizeof(b->calls[0].args));
	for (size_t i = 0; i < h->n_sent; i++) {
		h->sent[i].at = at;
		at += lx_align16(lx_table_bytes(h->sent[i].in, h->sent[i].out));
	}
	h->up_len = at;
	for (size_t k = 0; k < h->n; k++) {
		struct place *pl = &h->places[k];
		const struct lx_device_input *in = &b->in[pl->i];
		pl->grey = in->channels == 3 ? at : pl->in;
		at += in->channels == 3 ? lx_align16((uint64_t)in->width * in->height) : 0;
		pl->work = at;
		at += lx_align16(lx_device_work(b, in));
	}
	h->out = at;
	for (size_t k = 0; k < h->n; k++)
		h->places[k].out = at + 8 * (uint64_t)b->words * k;
	at += lx_align16(8 * (uint64_t)b->words * h->n);
	h->status = at;
	for (size_t k = 0; k < h->n; k++)
		h->places[k].status = at + 4 * b->n_calls * k;
	h->len = at + lx_align16(4 * b->n_calls * h->n);
	return 0;
}

enum { FITS, TOO_LARGE };

/* TOO_LARGE: there is less memory than that. -1: anything else. */
static int grow_pinned(struct cuda *d, uint8_t **p, uint64_t *cap, uint64_t need, struct lx_err *e)
{
	if (need <= *cap)
		return FITS;
	if (*p)
		lx_cuda.cuMemFreeHost(*p);
	*p = NULL;
	*cap = 0;
	CUresult rc = lx_cuda.cuMemHostAlloc((void **)p, need, CU_MEMHOSTALLOC_PORTABLE);
	if (rc == CUDA_ERROR_OUT_OF_MEMORY)
		return TOO_LARGE;
	if (rc != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "cuda:%d: %llu bytes of pinned memory", d->number, (unsigned long long)need);
	*cap = need;
	return FITS;
}

static int grow_device(struct cuda *d, struct hand *h, struct lx_err *e)
{
	if (h->len <= h->mem_cap)
		return FITS;
	if (h->mem)
		lx_cuda.cuMemFree(h->mem);
	h->mem = 0;
	h->mem_cap = 0;
	CUresult rc = lx_cuda.cuMemAlloc(&h->mem, h->len);
	if (rc == CUDA_ERROR_OUT_OF_MEMORY)
		return TOO_LARGE;
	if (rc != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "cuda:%d: %llu bytes", d->number, (unsigned long long)h->len);
	h->mem_cap = h->len;
	return FITS;
}

static int grow(struct cuda *d, struct hand *h, struct lx_err *e)
{
	int rc = grow_device(d, h, e);
	if (rc == FITS)
		rc = grow_pinned(d, &h->up, &h->up_cap, h->up_len, e);
	return rc == FITS ? grow_pinned(d, &h->down, &h->down_cap, h->len - h->out, e) : rc;
}

/* ---- a piece ---- */

struct loop {
	struct hand *h;
	struct lx_device_batch *b;
};

static void decode(void *ctx, size_t k, uint32_t thread)
{
	struct loop *l = ctx;
	const struct place *p = &l->h->places[k];
	struct lx_device_input *in = &l->b->in[p->i];
	(void)thread;
	if (in->bytes)
		memcpy(l->h->up + p->in, in->bytes, in->len);
	else if (!l->b->decode(l->b->ctx, p->i, in, l->h->up + p->in))
		in->channels = LX_ITEM_BAD;
}

/* A place in the lane's memory, as the kernels see it. */
static uint8_t *there(const struct hand *h, uint64_t at)
{
	return (uint8_t *)(uintptr_t)(h->mem + at);
}

static struct lx_kernel_item item_of(const struct hand *h, const struct place *p, const struct lx_device_input *in)
{
	return (struct lx_kernel_item){
		.in = there(h, p->in), .len = in->len, .grey = there(h, p->grey), .width = in->width, .height = in->height, .channels = in->channels,
		.work = there(h, p->work), .out = (uint64_t *)(void *)there(h, p->out), .status = (uint32_t *)(void *)there(h, p->status),
	};
}

/* The items of the ops' kernels, one behind the other, and those in colour in front for the grey kernel. Both leave out
 * what turned out to be bad; *n, *grey: how many are left. */
static void fill_items(struct hand *h, const struct lx_device_batch *b, size_t *n, size_t *grey)
{
	struct lx_kernel_item *items = (struct lx_kernel_item *)(void *)(h->up + h->items);
	*n = *grey = 0;
	for (size_t k = 0; k < h->n; k++) {
		const struct lx_device_input *in = &b->in[h->places[k].i];
		if (lx_item_bad(in))
			continue;
		h->places[(*n)++] = h->places[k];
		if (in->channels == 3) {
			items[*grey] = item_of(h, &h->places[k], in);
			items[(*grey)++].work = there(h, h->places[k].grey);
		}
	}
	for (size_t k = 0; k < *n; k++) {
		const struct lx_device_input *in = &b->in[h->places[k].i];
		struct lx_kernel_item item = item_of(h, &h->places[k], in);
		for (size_t c = 0; c < b->n_calls; item.out += b->calls[c++].words, item.status++) {
			const struct lx_gpu_call *call = &b->calls[c];
			uint32_t columns, rows;
			bool resampled = lx_gpu_size(call, in, &columns, &rows);
			item.columns = resampled ? (const int32_t *)(const void *)there(h, table_at(h, in->width, columns)) : NULL;
			item.rows = resampled ? (const int32_t *)(const void *)there(h, table_at(h, in->height, rows)) : NULL;
			item.args = (const uint64_t *)(const void *)there(h, h->args + c * sizeof(call->args));
			items[(c + 1) * h->n + k] = item;
		}
	}
}

static void fill_rest(struct hand *h, const struct lx_device_batch *b)
{
	for (size_t c = 0; c < b->n_calls; c++)
		memcpy(h->up + h->args + c * sizeof(b->calls[c].args), b->calls[c].args, sizeof(b->calls[c].args));
	for (size_t i = 0; i < h->n_sent; i++)
		memcpy(h->up + h->sent[i].at, h->sent[i].table, lx_table_bytes(h->sent[i].in, h->sent[i].out));
}

static int launch_all(struct cuda *d, struct hand *h, const struct lx_device_batch *b, size_t n, size_t grey, struct lx_err *e)
{
	if (grey && launch(d, h, &lx_gpu_grey, h->items, grey, h->items, e) < 0)
		return -1;
	for (size_t c = 0; c < b->n_calls; c++)
		if (launch(d, h, b->calls[c].op, h->items + (c + 1) * h->n * sizeof(struct lx_kernel_item), n, h->items, e) < 0)
			return -1;
	return 0;
}

/* Up, through the kernels, and down. */
static int compute(struct cuda *d, struct hand *h, const struct lx_device_batch *b, size_t n, size_t grey, struct lx_err *e)
{
	CUresult rc;
	memset(h->down + (h->status - h->out), 0, h->len - h->status);
	if ((rc = lx_cuda.cuMemcpyHtoDAsync(h->mem, h->up, h->up_len, h->stream)) != CUDA_SUCCESS ||
	    (rc = lx_cuda.cuMemcpyHtoDAsync(h->mem + h->status, h->down + (h->status - h->out), h->len - h->status, h->stream)) != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "cuda:%d: sending %llu bytes", d->number, (unsigned long long)h->up_len);
	if (launch_all(d, h, b, n, grey, e) < 0)
		return -1;
	if ((rc = lx_cuda.cuMemcpyDtoHAsync(h->down, h->mem + h->out, h->len - h->out, h->stream)) != CUDA_SUCCESS ||
	    (rc = lx_cuda.cuStreamSynchronize(h->stream)) != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "cuda:%d: computing %zu items", d->number, n);
	return 0;
}

static void take_results(const struct hand *h, const struct lx_device_batch *b, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		const struct place *p = &h->places[k];
		memcpy(b->out + p->i * b->words, h->down + (p->out - h->out), 8 * (size_t)b->words);
		memcpy(b->status + p->i * b->n_calls, h->down + (p->status - h->out), 4 * b->n_calls);
	}
}

static int run_piece(struct lx_device *device, struct hand *h, const struct lx_piece *p, struct lx_err *e)
{
	struct cuda *d = device->own;
	size_t n, grey;
	if (lay_out(h, p) < 0)
		return lx_err_set(e, LX_SYSTEM, "no memory for a batch of %zu items (smaller batches: lx-batch -n)", p->to - p->from);
	if (!h->n)
		return 0;
	int rc = h->len > device->mem ? TOO_LARGE : grow(d, h, e);
	if (rc != FITS)
		return rc;
	pthread_mutex_lock(&d->decoding);
	lx_threads_run(device->threads, h->n, decode, &(struct loop){ h, p->b });
	pthread_mutex_unlock(&d->decoding);
	fill_items(h, p->b, &n, &grey);
	fill_rest(h, p->b);
	if (!n)
		return 0;
	if (compute(d, h, p->b, n, grey, e) < 0)
		return -1;
	take_results(h, p->b, n);
	return 0;
}

/* What does not fit goes in halves, from now on. */
static int run_halves(struct lx_device *device, struct hand *h, const struct lx_piece *p, struct lx_err *e)
{
	int rc = run_piece(device, h, p, e);
	if (rc != TOO_LARGE)
		return rc;
	if (h->n == 1) {
		size_t i = h->places[0].i;
		p->b->oversize(p->b->ctx, i, h->len);
		p->b->in[i].channels = LX_ITEM_BAD;
		return 0;
	}
	pthread_mutex_lock(&device->lock);
	if (device->piece > h->len / 2)
		device->piece = h->len / 2;
	pthread_mutex_unlock(&device->lock);
	struct lx_piece a = *p, b = *p;
	a.to = b.from = h->places[h->n / 2].i;
	return run_halves(device, h, &a, e) < 0 || run_halves(device, h, &b, e) < 0 ? -1 : 0;
}

static int run(struct lx_device *device, uint32_t lane, const struct lx_piece *p, struct lx_err *e)
{
	struct cuda *d = device->own;
	CUresult rc = lx_cuda.cuCtxSetCurrent(d->context);
	if (rc != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "cuda:%d", d->number);
	return run_halves(device, &d->hands[lane], p, e);
}

/* ---- the device ---- */

static void release_hand(struct hand *h)
{
	if (h->stream)
		lx_cuda.cuStreamDestroy(h->stream);
	if (h->mem)
		lx_cuda.cuMemFree(h->mem);
	if (h->up)
		lx_cuda.cuMemFreeHost(h->up);
	if (h->down)
		lx_cuda.cuMemFreeHost(h->down);
	lx_tables_free(&h->resampling);
	free(h->places);
	free(h->sent);
}

static void forget(struct loaded **all)
{
	for (struct loaded *l; (l = *all);) {
		*all = l->next;
		if (l->m)
			lx_cuda.cuModuleUnload(l->m);
		free(l);
	}
}

static void release(struct lx_device *device)
{
	struct cuda *d = device->own;
	if (d->context)
		lx_cuda.cuCtxSetCurrent(d->context);
	for (int i = 0; i < LANES; i++)
		release_hand(&d->hands[i]);
	forget(&d->functions);
	forget(&d->modules);
	if (d->context)
		lx_cuda.cuDevicePrimaryCtxRelease(d->device);
	pthread_mutex_destroy(&d->decoding);
	pthread_mutex_destroy(&d->loading);
	free(d);
}

/* The device of that number, -1: LX_WORKER. */
static int find_device(int number, CUdevice *device, struct lx_err *e)
{
	int n = lx_cuda_open(e);
	if (n < 0)
		return -1;
	if (number >= n)
		return lx_err_set(e, LX_WORKER, "there is no cuda:%d: the machine has %d device%s", number, n, n == 1 ? "" : "s");
	CUresult rc = lx_cuda.cuDeviceGet(device, number);
	return rc == CUDA_SUCCESS ? 0 : lx_cuda_fail(rc, e, "cuda:%d cannot be used", number);
}

/* Context, streams. *mem: what is free. */
static int open_device(struct cuda *d, char *name, int size, uint64_t *mem, struct lx_err *e)
{
	size_t left = 0, all;
	CUresult rc = lx_cuda.cuDeviceGetName(name, size, d->device);
	if (rc == CUDA_SUCCESS)
		rc = lx_cuda.cuDevicePrimaryCtxRetain(&d->context, d->device);
	if (rc == CUDA_SUCCESS)
		rc = lx_cuda.cuCtxSetCurrent(d->context);
	if (rc == CUDA_SUCCESS)
		rc = lx_cuda.cuMemGetInfo(&left, &all);
	for (int i = 0; rc == CUDA_SUCCESS && i < LANES; i++)
		rc = lx_cuda.cuStreamCreate(&d->hands[i].stream, CU_STREAM_NON_BLOCKING);
	*mem = left / 10 * 9;
	return rc == CUDA_SUCCESS ? 0 : lx_cuda_fail(rc, e, "cuda:%d cannot be used", d->number);
}

int lx_device_cuda_count(struct lx_err *e)
{
	return lx_cuda_open(e);
}

int lx_device_cuda_prepare(int number, const struct lx_gpu_call *calls, size_t n, struct lx_err *e)
{
	CUdevice device;
	int major = 0, minor = 0;
	if (find_device(number, &device, e) < 0)
		return -1;
	CUresult rc = lx_cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
	if (rc == CUDA_SUCCESS)
		rc = lx_cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	if (rc != CUDA_SUCCESS)
		return lx_cuda_fail(rc, e, "cuda:%d cannot be used", number);
	for (size_t i = 0; i < n; i++) {
		struct lx_gpu_module *m = calls[i].op->module;
		if (m && !m->image && m->make(m, major, minor, e) < 0)
			return -1;
	}
	return 0;
}

const char *lx_device_cuda_archs(void)
{
	return LX_CUDA_ARCHS;
}

struct lx_device *lx_device_cuda(int number, const struct lx_device_conf *conf, struct lx_err *e)
{
	static const struct lx_device_kind kind = { .lanes = LANES, .piece = PIECE, .run = run, .release = release };
	struct lx_device_conf c = *conf;
	char name[96] = "";
	uint64_t mem = 0;
	CUdevice found;
	if (find_device(number, &found, e) < 0)
		return NULL;
	struct cuda *d = calloc(1, sizeof(*d));
	if (!d) {
		lx_err_sys(e, "device");
		return NULL;
	}
	d->number = number;
	d->device = found;
	pthread_mutex_init(&d->decoding, NULL);
	pthread_mutex_init(&d->loading, NULL);
	for (int i = 0; i < LANES; i++)
		d->hands[i].resampling = (struct lx_tables)LX_TABLES_INIT;
	if (open_device(d, name, sizeof(name), &mem, e) < 0 || !get(d, &d->modules, NULL, load_module, e)) {
		release(&(struct lx_device){ .own = d });
		return NULL;
	}
	c.mem = c.mem ? c.mem : mem;
	struct lx_device *device = lx_device_new(&kind, d, &c, e);
	if (device)
		snprintf(device->name, sizeof(device->name), "cuda:%d, %s", number, name);
	return device;
}
#endif

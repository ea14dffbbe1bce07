/* How close kernels come to what the device can do: a GiB of pages that lie on it, each op by itself.
 *
 *     bench [MIB]
 *
 * Prints a line an op: bytes read a second, and their share of what a copy on the device moves a second (it reads and writes: two
 * bytes for each). An op that reads a byte once and computes little should be near 100 %; see the table's last column for
 * its results per second. */
#include "driver.h"

#include "device-int.h"
#include "tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const unsigned char lx_kernels[];

#define WIDTH 1275u
#define HEIGHT 1650u
#define TURNS 5

static CUstream stream;
static CUevent begun, ended;

static void check(CUresult rc, const char *what)
{
	struct lx_err e = LX_ERR_INIT;
	if (rc == CUDA_SUCCESS)
		return;
	lx_cuda_fail(rc, &e, "%s", what);
	printf("%s\n", e.msg);
	exit(1);
}

static struct lx_tables tables = LX_TABLES_INIT;
static CUdeviceptr rooms[32];
static size_t n_rooms;

static CUdeviceptr room(uint64_t n)
{
	check(lx_cuda.cuMemAlloc(&rooms[n_rooms], n), "memory");
	return rooms[n_rooms++];
}

/* Give back all but the first `keep`. */
static void clear_rooms(size_t keep)
{
	while (n_rooms > keep)
		check(lx_cuda.cuMemFree(rooms[--n_rooms]), "memory");
}

static CUdeviceptr sent(const void *from, uint64_t n)
{
	CUdeviceptr p = room(n);
	check(lx_cuda.cuMemcpyHtoDAsync(p, from, n, stream), "sending");
	check(lx_cuda.cuStreamSynchronize(stream), "sending");
	return p;
}

static double seconds(void)
{
	float ms = 0;
	check(lx_cuda.cuStreamSynchronize(stream), "computing");
	check(lx_cuda.cuEventElapsedTime(&ms, begun, ended), "timing");
	return ms / 1e3;
}

/* Bytes moved a second by a copy on the device, read and written. */
static double copy_rate(CUdeviceptr from, CUdeviceptr to, uint64_t n)
{
	double best = 1e9;
	for (int i = 0; i < TURNS; i++) {
		check(lx_cuda.cuEventRecord(begun, stream), "timing");
		check(lx_cuda.cuMemcpyDtoDAsync(to, from, n, stream), "copying");
		check(lx_cuda.cuEventRecord(ended, stream), "timing");
		double s = seconds();
		best = s < best ? s : best;
	}
	return 2 * (double)n / best;
}

/* n pages, one behind the other. */
static struct lx_kernel_item *items_of(const struct lx_gpu_call *c, const struct lx_device_input *in, CUdeviceptr pages, size_t n)
{
	struct lx_device_batch b = { .calls = c, .n_calls = 1, .words = c->words };
	uint64_t size = (uint64_t)WIDTH * HEIGHT, work = lx_align16(lx_device_work(&b, in) + 1);
	CUdeviceptr works = room(n * work), outs = room(n * 8 * c->words), status = room(4 * n), columns = 0, rows = 0;
	CUdeviceptr args = sent(c->args, sizeof(c->args));
	uint32_t w, h;
	if (lx_gpu_size(c, in, &w, &h)) {
		columns = sent(lx_tables_get(&tables, WIDTH, w), lx_table_bytes(WIDTH, w));
		rows = sent(lx_tables_get(&tables, HEIGHT, h), lx_table_bytes(HEIGHT, h));
	}
	struct lx_kernel_item *items = calloc(n, sizeof(*items));
	for (size_t i = 0; i < n; i++)
		items[i] = (struct lx_kernel_item){
			.in = (const uint8_t *)(uintptr_t)(pages + i * size), .grey = (const uint8_t *)(uintptr_t)(pages + i * size), .len = size,
			.width = WIDTH, .height = HEIGHT, .channels = 1, .columns = (const int32_t *)(uintptr_t)columns,
			.rows = (const int32_t *)(uintptr_t)rows, .work = (uint8_t *)(uintptr_t)(works + i * work),
			.out = (uint64_t *)(uintptr_t)(outs + i * 8 * c->words), .args = (const uint64_t *)(uintptr_t)args,
			.status = (uint32_t *)(uintptr_t)(status + 4 * i),
		};
	return items;
}

static double kernel_time(CUmodule module, const struct lx_gpu_call *c, CUdeviceptr items, uint64_t n)
{
	CUfunction f;
	int threads = 0;
	double best = 1e9;
	void *args[] = { &items, &n };
	check(lx_cuda.cuModuleGetFunction(&f, module, c->op->entry), c->op->name);
	check(lx_cuda.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f), c->op->name);
	threads = threads / 32 * 32;
	for (int i = 0; i < TURNS; i++) {
		check(lx_cuda.cuEventRecord(begun, stream), "timing");
		check(lx_cuda.cuLaunchKernel(f, (unsigned)n, 1, 1, (unsigned)threads, 1, 1, 0, stream, args, NULL), c->op->name);
		check(lx_cuda.cuEventRecord(ended, stream), "timing");
		double s = seconds();
		best = s < best ? s : best;
	}
	return best;
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	char name[96] = "";
	uint64_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1024) << 20, size = (uint64_t)WIDTH * HEIGHT;
	size_t n = bytes / size ? bytes / size : 1;
	if (lx_cuda_open(&e) < 0) {
		printf("skipped: %s\n", e.msg);
		return 0;
	}
	check(lx_cuda.cuDeviceGet(&device, 0), "device");
	check(lx_cuda.cuDeviceGetName(name, sizeof(name), device), "device");
	check(lx_cuda.cuDevicePrimaryCtxRetain(&context, device), "device");
	check(lx_cuda.cuCtxSetCurrent(context), "device");
	check(lx_cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
	check(lx_cuda.cuEventCreate(&begun, CU_EVENT_DEFAULT), "event");
	check(lx_cuda.cuEventCreate(&ended, CU_EVENT_DEFAULT), "event");
	check(lx_cuda.cuModuleLoadData(&module, lx_kernels), "kernels");
	uint8_t *pages = malloc(n * size);
	if (!pages) {
		printf("no memory for %zu pages\n", n);
		return 1;
	}
	for (uint64_t i = 0, s = 1; i < n * size; i++, s = s * 6364136223846793005u + 1442695040888963407u)
		pages[i] = (uint8_t)(s >> 56);
	CUdeviceptr from = sent(pages, n * size), to = room(n * size);
	double ceiling = copy_rate(from, to, n * size);
	printf("%s: %zu pages of %u x %u; a copy moves %.1f GB/s\n", name, n, WIDTH, HEIGHT, ceiling / 1e9);
	clear_rooms(1);
	for (const struct lx_gpu_op *op = lx_gpu_ops; op->name; op++) {
		struct lx_gpu_call c;
		struct lx_device_input in = { .len = size, .width = WIDTH, .height = HEIGHT, .channels = 1 };
		if (op->input != LX_IMAGE || (*op->args && *op->args != '['))
			continue;
		if (lx_gpu_parse(&c, op->name, &e) < 0)
			return 1;
		struct lx_kernel_item *items = items_of(&c, &in, from, n);
		double s = kernel_time(module, &c, sent(items, n * sizeof(*items)), n);
		printf("%-12s %8.1f GB/s  %5.1f %% of a copy  %10.0f items/s\n", op->name, (double)(n * size) / s / 1e9,
		       100 * (double)(n * size) / s / ceiling, (double)n / s);
		free(items);
		clear_rooms(1);
	}
	clear_rooms(0);
	free(pages);
	lx_tables_free(&tables);
	check(lx_cuda.cuStreamDestroy(stream), "stream");
	check(lx_cuda.cuDevicePrimaryCtxRelease(device), "device");
	return 0;
}

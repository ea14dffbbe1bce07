/* Every op on fresh random items, on a CUDA device and on the CPU: all results and refusals are to be equal, bit for bit.
 *
 *     check [SECONDS [SEED]]
 *
 * What is left on the device of earlier batches is what results are written over, batches are of all sizes, several are on their
 * way at once, and the device has little memory in every other round. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ITEMS 96
#define BYTES (48u << 20)

/* Ops are tried with these arguments, and all others without. */
static const char *const variants[] = { "ink:200", "luma:2", "luma:256", "resize:224x224", "resize:31x50:letterbox:u8", "minhash:7:1", "minhash:64:3:8", "simhash:2", NULL };

static uint64_t state;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 2685821657736338717u;
}

static uint64_t below(uint64_t n)
{
	return next() % n;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- items ---- */

static uint8_t *bytes;
static struct lx_device_input made[ITEMS];
static bool bad[ITEMS];

/* Small ones mostly, some pages, some one pixel wide. */
static void make_image(struct lx_device_input *in)
{
	uint64_t side = below(10) ? 300 : 2500;
	in->width = 1 + (uint32_t)(below(8) ? below(side) : 0);
	in->height = 1 + (uint32_t)(below(8) ? below(side) : 0);
	in->channels = below(2) ? 3 : 1;
	in->len = (uint64_t)in->width * in->height * in->channels;
}

/* Words and white space, some bytes of any kind. */
static void make_text(struct lx_device_input *in, uint8_t *to)
{
	in->len = below(3) ? below(6000) : below(20);
	for (uint64_t i = 0; i < in->len; i++)
		to[i] = below(500) == 0 ? (uint8_t)next() : below(6) == 0 ? ' ' : (uint8_t)('a' + below(4));
}

static void make_items(enum lx_kernel_input kind, size_t n)
{
	uint64_t at = 0;
	for (size_t i = 0; i < n; i++) {
		struct lx_device_input *in = &made[i];
		*in = (struct lx_device_input){ .bytes = bytes + at };
		if (kind == LX_IMAGE)
			make_image(in);
		else
			make_text(in, bytes + at);
		if (at + in->len > BYTES)
			*in = (struct lx_device_input){ .bytes = bytes, .len = 1, .width = 1, .height = 1, .channels = 1 };
		at += (in->len + 15) / 16 * 16;
		bad[i] = below(20) == 0;
	}
}

static bool measure(void *ctx, size_t i, struct lx_device_input *in)
{
	(void)ctx;
	*in = made[i];
	in->bytes = i % 2 ? made[i].bytes : NULL;
	return true;
}

static bool decode(void *ctx, size_t i, const struct lx_device_input *in, uint8_t *to)
{
	(void)ctx;
	memcpy(to, made[i].bytes, in->len);
	return !bad[i];
}

static void oversize(void *ctx, size_t i, uint64_t need)
{
	(void)ctx, (void)need;
	bad[i] = true;
}

/* ---- batches ---- */

struct answers {
	struct lx_device_batch b;
	struct lx_device_input in[ITEMS];
	uint64_t *out;
	uint32_t *status;
};

static void start(struct lx_device *d, struct answers *a, const struct lx_gpu_call *call, size_t n)
{
	free(a->out);
	free(a->status);
	size_t words = n * call->words;
	a->out = malloc(8 * words + 1);
	a->status = malloc(4 * n + 1);
	memset(a->out, 0x5a, 8 * words);
	a->b = (struct lx_device_batch){
		.n = n, .measure = measure, .decode = decode, .oversize = oversize, .calls = call, .n_calls = 1, .words = call->words, .in = a->in,
		.out = a->out, .status = a->status,
	};
	lx_device_start(d, &a->b);
}

static bool same(const char *op, const struct answers *a, const struct answers *b)
{
	size_t words = a->b.words;
	for (size_t i = 0; i < a->b.n; i++) {
		if (bad[i] && i % 2 == 0)
			continue;
		bool equal = a->status[i] == b->status[i] && (a->status[i] || memcmp(a->out + i * words, b->out + i * words, 8 * words) == 0);
		if (equal)
			continue;
		printf("not equal: %s of item %zu: %u x %u, %u channels, %llu bytes, refused %u and %u\n", op, i, made[i].width, made[i].height,
		       made[i].channels, (unsigned long long)made[i].len, a->status[i], b->status[i]);
		return false;
	}
	return true;
}

static int run_op(const char *text, struct lx_device *cpu, struct lx_device *cuda[2], unsigned rounds)
{
	static struct answers want, got;
	struct lx_gpu_call call;
	struct lx_err e = LX_ERR_INIT;
	if (lx_gpu_parse(&call, text, &e) < 0) {
		printf("not equal: %s\n", e.msg);
		return 1;
	}
	for (unsigned i = 0; i < rounds; i++) {
		size_t n = below(4) ? 1 + below(ITEMS) : 1;
		make_items(call.op->input, n);
		start(cpu, &want, &call, n);
		start(cuda[i % 2], &got, &call, n);
		if (lx_device_wait(cpu, &want.b, &e) < 0 || lx_device_wait(cuda[i % 2], &got.b, &e) < 0) {
			printf("not equal: %s: %s\n", text, e.msg);
			return 1;
		}
		if (!same(text, &want, &got))
			return 1;
	}
	printf("equal: %s, %u batches\n", text, rounds);
	return 0;
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	double until = now() + (argc > 1 ? atof(argv[1]) : 30);
	int failed = 0;
	state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL) * 2654435761u;
	state = state ? state : 1;
	struct lx_device *cpu = lx_device_cpu(&(struct lx_device_conf){ 0 }, &e);
	struct lx_device *cuda[2] = {
		lx_device_cuda(0, &(struct lx_device_conf){ 0 }, &e),
		lx_device_cuda(0, &(struct lx_device_conf){ .mem = 100u << 20 }, &e),
	};
	bytes = malloc(BYTES + (64u << 20));
	if (!cuda[0] || !cuda[1] || !cpu || !bytes) {
		printf("skipped: %s\n", e.code ? e.msg : "no memory");
		return e.code == LX_WORKER ? 0 : 1;
	}
	printf("device: %s; replay with seed %#llx\n", lx_device_name(cuda[0]), (unsigned long long)state);
	do {
		for (const struct lx_gpu_op *op = lx_gpu_ops; op->name; op++)
			if (*op->args == '[' || !*op->args)
				failed |= run_op(op->name, cpu, cuda, 4);
		for (const char *const *v = variants; *v; v++)
			failed |= run_op(*v, cpu, cuda, 4);
	} while (!failed && now() < until);
	lx_device_free(cpu);
	lx_device_free(cuda[0]);
	lx_device_free(cuda[1]);
	return failed;
}

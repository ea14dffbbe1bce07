/* The CPU device: a thread takes an item from its bytes through all ops, while it is in the cache. */
#include "device.h"

#include "resample.h"
#include "threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define TABLES_MAX (64u << 20) /* bytes of resampling tables kept from batch to batch */

struct table {
	uint32_t in, out;
	struct table *next;
	int32_t k[];
};

/* What a thread keeps. */
struct hand {
	struct lx_buf room, work, grey;
	uint64_t shared[LX_KERNEL_SHARED / 8];
};

struct lx_device {
	struct lx_threads *threads;
	struct hand *hands;
	pthread_mutex_t lock; /* of the tables */
	struct table *tables;
	size_t table_bytes;
	char name[32];
	const struct lx_device_batch *b;
	bool no_memory;
};

struct lx_device *lx_device_cpu(uint32_t threads, struct lx_err *e)
{
	struct lx_device *d = calloc(1, sizeof(*d));
	if (!d) {
		lx_err_sys(e, "device");
		return NULL;
	}
	pthread_mutex_init(&d->lock, NULL);
	d->threads = lx_threads_new(threads, e);
	uint32_t n = d->threads ? lx_threads_count(d->threads) : 0;
	d->hands = calloc(n + 1, sizeof(*d->hands));
	if (!n || !d->hands) {
		if (n)
			lx_err_sys(e, "device");
		lx_device_free(d);
		return NULL;
	}
	snprintf(d->name, sizeof(d->name), "cpu, %u thread%s", n, n == 1 ? "" : "s");
	return d;
}

static void forget_tables(struct lx_device *d)
{
	for (struct table *t; (t = d->tables);) {
		d->tables = t->next;
		free(t);
	}
	d->table_bytes = 0;
}

void lx_device_free(struct lx_device *d)
{
	if (!d)
		return;
	uint32_t n = d->threads && d->hands ? lx_threads_count(d->threads) : 0;
	lx_threads_free(d->threads);
	for (uint32_t i = 0; i < n; i++) {
		lx_buf_free(&d->hands[i].room);
		lx_buf_free(&d->hands[i].work);
		lx_buf_free(&d->hands[i].grey);
	}
	free(d->hands);
	forget_tables(d);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

const char *lx_device_name(const struct lx_device *d)
{
	return d->name;
}

static struct table *make_table(struct lx_device *d, uint32_t in, uint32_t out)
{
	size_t bytes = sizeof(struct table) + lx_resample_size(in, out) * sizeof(int32_t);
	struct table *t = malloc(bytes);
	if (!t)
		return NULL;
	lx_resample_fill(t->k, in, out);
	t->in = in;
	t->out = out;
	t->next = d->tables;
	d->tables = t;
	d->table_bytes += bytes;
	return t;
}

/* Images of a batch are mostly of one size: the list is short. NULL: no memory. */
static const int32_t *table(struct lx_device *d, uint32_t in, uint32_t out)
{
	pthread_mutex_lock(&d->lock);
	struct table *t = d->tables;
	while (t && (t->in != in || t->out != out))
		t = t->next;
	if (!t)
		t = make_table(d, in, out);
	pthread_mutex_unlock(&d->lock);
	return t ? t->k : NULL;
}

static void run_phases(const struct lx_gpu_op *op, struct lx_kernel_item *k)
{
	for (lx_phase_fn *const *f = op->phases; *f; f++)
		(*f)(k);
}

/* Room for the op's work, which kernels want aligned to 16 bytes as malloc gives it. */
static bool make_work(struct lx_buf *b, const struct lx_gpu_op *op, struct lx_kernel_item *k)
{
	lx_buf_clear(b);
	k->work = lx_buf_room(b, (op->work ? (size_t)op->work(k->width, k->height) : 0) + 1);
	return k->work != NULL;
}

static bool run_call(struct lx_device *d, struct hand *h, const struct lx_gpu_call *c, struct lx_kernel_item *k)
{
	if (c->op->columns) {
		k->columns = table(d, k->width, c->op->columns);
		k->rows = table(d, k->height, c->op->rows);
		if (!k->columns || !k->rows)
			return false;
	}
	k->args = c->args;
	if (!make_work(&h->work, c->op, k))
		return false;
	run_phases(c->op, k);
	return true;
}

static bool make_grey(struct hand *h, struct lx_kernel_item *k)
{
	if (!make_work(&h->grey, &lx_gpu_grey, k))
		return false;
	run_phases(&lx_gpu_grey, k);
	k->grey = k->work;
	return true;
}

static bool run_item(struct lx_device *d, size_t i, struct hand *h)
{
	const struct lx_device_batch *b = d->b;
	struct lx_device_input in = { 0 };
	uint64_t *out = b->out + i * b->words;
	lx_buf_clear(&h->room);
	if (!b->prepare(b->ctx, i, &h->room, &in))
		return true;
	struct lx_kernel_item k = {
		.in = in.bytes, .len = in.len, .grey = in.bytes, .width = in.width, .height = in.height, .shared = h->shared, .threads = 1,
	};
	bool ok = in.channels != 3 || make_grey(h, &k);
	for (size_t c = 0; ok && c < b->n_calls; out += b->calls[c++].words) {
		k.out = out;
		ok = run_call(d, h, &b->calls[c], &k);
	}
	return ok;
}

static void work(void *ctx, size_t i, uint32_t thread)
{
	struct lx_device *d = ctx;
	if (!run_item(d, i, &d->hands[thread])) {
		pthread_mutex_lock(&d->lock);
		d->no_memory = true;
		pthread_mutex_unlock(&d->lock);
	}
}

int lx_device_run(struct lx_device *d, const struct lx_device_batch *b, struct lx_err *e)
{
	d->b = b;
	if (d->table_bytes > TABLES_MAX)
		forget_tables(d);
	lx_threads_run(d->threads, b->n, work, d);
	return d->no_memory ? lx_err_set(e, LX_SYSTEM, "no memory for a batch of %zu items (smaller batches: lx-batch -n)", b->n) : 0;
}

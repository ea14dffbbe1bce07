/* The CPU device: a thread takes an item from its bytes through all ops, while it is in the cache. */
#include "device-int.h"

#include "tables.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* What a thread keeps. */
struct hand {
	struct lx_buf room, work, grey;
	uint64_t shared[LX_KERNEL_SHARED / 8];
};

struct cpu {
	struct lx_tables tables;
	atomic_bool no_memory;
	uint32_t n_hands;
	struct hand hands[];  /* a thread's each */
};

/* Room for the op's work, which kernels want aligned to 16 bytes as malloc gives it. */
static bool make_work(struct lx_buf *b, const struct lx_gpu_call *c, const struct lx_device_input *in, struct lx_kernel_item *k)
{
	lx_buf_clear(b);
	k->work = lx_buf_room(b, (c->op->work ? (size_t)c->op->work(c, in) : 0) + 1);
	return k->work != NULL;
}

static bool run_call(struct cpu *d, struct lx_buf *work, const struct lx_gpu_call *c, const struct lx_device_input *in,
                     struct lx_kernel_item *k)
{
	uint32_t columns, rows;
	if (lx_gpu_size(c, in, &columns, &rows)) {
		k->columns = lx_tables_get(&d->tables, k->width, columns);
		k->rows = lx_tables_get(&d->tables, k->height, rows);
		if (!k->columns || !k->rows)
			return false;
	}
	k->args = c->args;
	if (!make_work(work, c, in, k))
		return false;
	for (lx_phase_fn *const *f = c->op->phases; *f; f++)
		(*f)(k);
	return true;
}

/* Grey pixels of an image in colour. */
static bool make_grey(struct cpu *d, struct hand *h, const struct lx_device_input *in, struct lx_kernel_item *k)
{
	static const struct lx_gpu_call call = { .op = &lx_gpu_grey };
	if (!run_call(d, &h->grey, &call, in, k))
		return false;
	k->grey = k->work;
	return true;
}

/* false: no memory. */
static bool run_item(struct cpu *d, const struct lx_device_batch *b, size_t i, struct hand *h)
{
	struct lx_device_input *in = &b->in[i];
	const uint8_t *bytes = in->bytes;
	if (lx_item_bad(in))
		return true;
	if (!bytes) {
		lx_buf_clear(&h->room);
		uint8_t *to = lx_buf_room(&h->room, in->len + 1);
		if (!to)
			return false;
		if (!b->decode(b->ctx, i, in, to)) {
			in->channels = LX_ITEM_BAD;
			return true;
		}
		bytes = to;
	}
	struct lx_kernel_item k = {
		.in = bytes, .len = in->len, .grey = bytes, .width = in->width, .height = in->height, .channels = in->channels,
		.shared = h->shared, .out = b->out + i * b->words, .status = b->status + i * b->n_calls, .threads = 1,
	};
	bool ok = in->channels != 3 || make_grey(d, h, in, &k);
	for (size_t c = 0; ok && c < b->n_calls; k.out += b->calls[c++].words, k.status++)
		ok = run_call(d, &h->work, &b->calls[c], in, &k);
	return ok;
}

struct loop {
	struct cpu *d;
	const struct lx_piece *p;
};

static void work(void *ctx, size_t i, uint32_t thread)
{
	struct loop *l = ctx;
	if (!run_item(l->d, l->p->b, l->p->from + i, &l->d->hands[thread]))
		l->d->no_memory = true;
}

static int no_memory(const struct cpu *d, const struct lx_piece *p, struct lx_err *e)
{
	uint64_t most = 0;
	for (size_t i = p->from; i < p->to; i++) {
		uint64_t need = lx_item_bad(&p->b->in[i]) ? 0 : lx_device_need(p->b, &p->b->in[i]);
		most = need > most ? need : most;
	}
	return lx_err_set(e, LX_SYSTEM, "no memory: an item needs %llu bytes, and %u at a time are computed (fewer: -j; what is too large fails alone: --device-mem)",
	                  (unsigned long long)most, d->n_hands);
}

static int run(struct lx_device *device, uint32_t lane, const struct lx_piece *p, struct lx_err *e)
{
	struct cpu *d = device->own;
	(void)lane;
	lx_tables_trim(&d->tables);
	lx_threads_run(device->threads, p->to - p->from, work, &(struct loop){ d, p });
	return d->no_memory ? no_memory(d, p, e) : 0;
}

static void release(struct lx_device *device)
{
	struct cpu *d = device->own;
	for (uint32_t i = 0; i < d->n_hands; i++) {
		lx_buf_free(&d->hands[i].room);
		lx_buf_free(&d->hands[i].work);
		lx_buf_free(&d->hands[i].grey);
	}
	lx_tables_free(&d->tables);
	free(d);
}

struct lx_device *lx_device_cpu(const struct lx_device_conf *conf, struct lx_err *e)
{
	/* One lane: it has all threads, and an item stays in the cache of the one that decoded it. */
	static const struct lx_device_kind kind = { .lanes = 1, .piece = UINT64_MAX, .run = run, .release = release };
	struct lx_device_conf c = *conf;
	c.mem = c.mem ? c.mem : UINT64_MAX;
	c.threads = lx_threads_default(c.threads);
	struct cpu *d = calloc(1, sizeof(*d) + c.threads * sizeof(*d->hands));
	if (!d) {
		lx_err_sys(e, "device");
		return NULL;
	}
	d->tables = (struct lx_tables)LX_TABLES_INIT;
	d->n_hands = c.threads;
	struct lx_device *device = lx_device_new(&kind, d, &c, e);
	if (device)
		snprintf(device->name, sizeof(device->name), "cpu, %u thread%s", c.threads, c.threads == 1 ? "" : "s");
	return device;
}

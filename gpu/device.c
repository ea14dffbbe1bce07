#include "device-int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- pieces ---- */

uint64_t lx_device_work(const struct lx_device_batch *b, const struct lx_device_input *in)
{
	uint64_t most = 0;
	for (size_t c = 0; c < b->n_calls; c++) {
		uint64_t n = b->calls[c].op->work ? b->calls[c].op->work(&b->calls[c], in) : 0;
		most = n > most ? n : most;
	}
	return most;
}

uint64_t lx_device_need(const struct lx_device_batch *b, const struct lx_device_input *in)
{
	uint64_t n = lx_align16(in->len) + 8 * (uint64_t)b->words + b->n_calls * (sizeof(struct lx_kernel_item) + 4);
	if (in->channels == 3)
		n += lx_align16((uint64_t)in->width * in->height);
	return n + lx_align16(lx_device_work(b, in));
}

static void measure(struct lx_device *d, struct lx_device_batch *b, size_t i)
{
	struct lx_device_input *in = &b->in[i];
	*in = (struct lx_device_input){ 0 };
	memset(b->status + i * b->n_calls, 0, b->n_calls * sizeof(*b->status));
	b->measured = i + 1;
	bool good = b->measure(b->ctx, i, in);
	uint64_t need = good ? lx_device_need(b, in) : 0;
	if (need > d->mem)
		b->oversize(b->ctx, i, need);
	if (!good || need > d->mem)
		in->channels = LX_ITEM_BAD;
}

/* The next items of a batch that go together, at least one. */
static struct lx_piece take(struct lx_device *d, struct lx_device_batch *b)
{
	struct lx_piece p = { b, b->taken, b->taken };
	uint64_t sum = 0;
	for (; p.to < b->n; p.to++) {
		if (p.to == b->measured)
			measure(d, b, p.to);
		uint64_t need = lx_item_bad(&b->in[p.to]) ? 0 : lx_device_need(b, &b->in[p.to]);
		if (sum && sum + need > d->piece)
			break;
		sum += need;
	}
	b->taken = p.to;
	return p;
}

/* ---- lanes ---- */

static struct lx_device_batch *untaken(struct lx_device *d)
{
	for (size_t i = 0; i < d->n_batches; i++)
		if (d->batches[i]->taken < d->batches[i]->n)
			return d->batches[i];
	return NULL;
}

static bool is_done(const struct lx_device_batch *b)
{
	return b->done == b->n;
}

static void ring(struct lx_device *d)
{
	uint64_t one = 1;
	while (write(d->event, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_cond_broadcast(&d->done);
}

/* A failed batch is not begun any further. */
static void give_up(struct lx_device_batch *b, const struct lx_err *e)
{
	if (!b->failed)
		b->err = *e;
	b->failed = true;
	b->done += b->n - b->taken;
	b->taken = b->n;
}

static void *serve(void *arg)
{
	struct lx_lane *l = arg;
	struct lx_device *d = l->d;
	pthread_mutex_lock(&d->lock);
	for (;;) {
		struct lx_device_batch *b;
		while (!(b = untaken(d)) && !d->stop)
			pthread_cond_wait(&d->work, &d->lock);
		if (!b)
			break;
		struct lx_piece p = take(d, b);
		struct lx_err e = LX_ERR_INIT;
		pthread_mutex_unlock(&d->lock);
		int rc = d->kind->run(d, l->number, &p, &e);
		pthread_mutex_lock(&d->lock);
		b->done += p.to - p.from;
		if (rc < 0)
			give_up(b, &e);
		if (is_done(b))
			ring(d);
	}
	pthread_mutex_unlock(&d->lock);
	return NULL;
}

static int start_lanes(struct lx_device *d, struct lx_err *e)
{
	for (; d->n_lanes < d->kind->lanes; d->n_lanes++) {
		struct lx_lane *l = &d->lanes[d->n_lanes];
		*l = (struct lx_lane){ .d = d, .number = d->n_lanes };
		if (lx_thread_start(&l->id, serve, l) == 0)
			continue;
		if (!d->n_lanes)
			return lx_err_set(e, LX_SYSTEM, "no thread for the device");
		break; /* fewer will do */
	}
	return 0;
}

struct lx_device *lx_device_new(const struct lx_device_kind *kind, void *own, const struct lx_device_conf *c, struct lx_err *e)
{
	struct lx_device *d = calloc(1, sizeof(*d));
	if (!d) {
		struct lx_device bare = { .kind = kind, .own = own };
		lx_err_sys(e, "device");
		kind->release(&bare);
		return NULL;
	}
	d->kind = kind;
	d->own = own;
	d->mem = c->mem / kind->lanes;
	d->piece = kind->piece < d->mem ? kind->piece : d->mem;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->work, NULL);
	pthread_cond_init(&d->done, NULL);
	d->event = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	if (d->event < 0) {
		lx_err_sys(e, "eventfd");
	} else if ((d->threads = lx_threads_new(c->threads, e)) && start_lanes(d, e) == 0) {
		return d;
	}
	lx_device_free(d);
	return NULL;
}

void lx_device_free(struct lx_device *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stop = true;
	for (size_t i = 0; i < d->n_batches; i++)
		give_up(d->batches[i], &(struct lx_err)LX_ERR_INIT);
	pthread_cond_broadcast(&d->work);
	pthread_mutex_unlock(&d->lock);
	for (uint32_t i = 0; i < d->n_lanes; i++)
		pthread_join(d->lanes[i].id, NULL);
	d->kind->release(d);
	lx_threads_free(d->threads);
	if (d->event >= 0)
		close(d->event);
	pthread_cond_destroy(&d->done);
	pthread_cond_destroy(&d->work);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

const char *lx_device_name(const struct lx_device *d)
{
	return d->name;
}

/* ---- batches ---- */

void lx_device_start(struct lx_device *d, struct lx_device_batch *b)
{
	b->measured = b->taken = b->done = 0;
	b->failed = false;
	b->err = (struct lx_err)LX_ERR_INIT;
	pthread_mutex_lock(&d->lock);
	d->batches[d->n_batches++] = b;
	if (is_done(b))
		ring(d);
	pthread_cond_broadcast(&d->work);
	pthread_mutex_unlock(&d->lock);
}

bool lx_device_done(struct lx_device *d, const struct lx_device_batch *b)
{
	pthread_mutex_lock(&d->lock);
	bool done = is_done(b);
	pthread_mutex_unlock(&d->lock);
	return done;
}

int lx_device_fd(const struct lx_device *d)
{
	return d->event;
}

int lx_device_wait(struct lx_device *d, struct lx_device_batch *b, struct lx_err *e)
{
	uint64_t one;
	size_t i = 0;
	pthread_mutex_lock(&d->lock);
	while (!is_done(b))
		pthread_cond_wait(&d->done, &d->lock);
	while (d->batches[i] != b)
		i++;
	d->n_batches--;
	memmove(d->batches + i, d->batches + i + 1, (d->n_batches - i) * sizeof(*d->batches));
	pthread_mutex_unlock(&d->lock);
	while (read(d->event, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	if (!b->failed)
		return 0;
	*e = b->err;
	return -1;
}

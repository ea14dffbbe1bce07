#include "threads.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS_MAX 1024u

struct lx_threads {
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	uint64_t round;   /* number of the loop that runs or ran last */
	uint32_t busy;    /* threads still in it, the caller's aside */
	bool stop;
	atomic_size_t next;
	size_t n;
	void (*f)(void *ctx, size_t i, uint32_t thread);
	void *ctx;
	uint32_t count; /* the caller's included */
	struct hand {
		struct lx_threads *t;
		uint32_t number;
		pthread_t id;
	} *hands;
};

static void take_turns(struct lx_threads *t, uint32_t thread)
{
	for (size_t i; (i = atomic_fetch_add(&t->next, 1)) < t->n;)
		t->f(t->ctx, i, thread);
}

static void *serve(void *arg)
{
	struct hand *h = arg;
	struct lx_threads *t = h->t;
	uint64_t seen = 0;
	pthread_mutex_lock(&t->lock);
	for (;;) {
		while (t->round == seen && !t->stop)
			pthread_cond_wait(&t->work, &t->lock);
		if (t->stop)
			break;
		seen = t->round;
		pthread_mutex_unlock(&t->lock);
		take_turns(t, h->number);
		pthread_mutex_lock(&t->lock);
		if (--t->busy == 0)
			pthread_cond_signal(&t->done);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static uint32_t cores(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	return n < 1 ? 1 : (uint32_t)n;
}

uint32_t lx_threads_default(uint32_t n)
{
	n = n ? n : cores();
	return n > THREADS_MAX ? THREADS_MAX : n;
}

int lx_thread_start(pthread_t *id, void *(*f)(void *arg), void *arg)
{
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(id, NULL, f, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

struct lx_threads *lx_threads_new(uint32_t n, struct lx_err *e)
{
	struct lx_threads *t = calloc(1, sizeof(*t));
	n = lx_threads_default(n);
	if (!t || !(t->hands = calloc(n, sizeof(*t->hands)))) {
		free(t);
		lx_err_sys(e, "threads");
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->done, NULL);
	/* Fewer than were asked for will do. */
	for (t->count = 1; t->count < n; t->count++) {
		struct hand *h = &t->hands[t->count];
		*h = (struct hand){ .t = t, .number = t->count };
		if (lx_thread_start(&h->id, serve, h) != 0)
			break;
	}
	return t;
}

void lx_threads_free(struct lx_threads *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	for (uint32_t i = 1; i < t->count; i++)
		pthread_join(t->hands[i].id, NULL);
	pthread_cond_destroy(&t->work);
	pthread_cond_destroy(&t->done);
	pthread_mutex_destroy(&t->lock);
	free(t->hands);
	free(t);
}

uint32_t lx_threads_count(const struct lx_threads *t)
{
	return t->count;
}

void lx_threads_run(struct lx_threads *t, size_t n, void (*f)(void *ctx, size_t i, uint32_t thread), void *ctx)
{
	t->n = n;
	t->f = f;
	t->ctx = ctx;
	atomic_store(&t->next, 0);
	bool alone = n < 2 || t->count == 1;
	if (!alone) {
		pthread_mutex_lock(&t->lock);
		t->busy = t->count - 1;
		t->round++;
		pthread_cond_broadcast(&t->work);
		pthread_mutex_unlock(&t->lock);
	}
	take_turns(t, 0);
	if (alone)
		return;
	pthread_mutex_lock(&t->lock);
	while (t->busy)
		pthread_cond_wait(&t->done, &t->lock);
	pthread_mutex_unlock(&t->lock);
}

#include "beat.h"
#include "frame.h"
#include "io.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

struct lx_beat {
	pthread_t thread;
	pthread_mutex_t lock; /* of everything below, and of writing */
	pthread_cond_t end;
	int fd;
	uint64_t every_ns, written_ns;
	bool over;
	struct lx_buf hint; /* encoded */
};

/* A reader that is behind has something to read: that is sign enough. */
static void beat(struct lx_beat *b)
{
	struct lx_err ignored = LX_ERR_INIT;
	struct pollfd p = { .fd = b->fd, .events = POLLOUT };
	if (poll(&p, 1, 0) == 1 && p.revents == POLLOUT)
		lx_io_write(b->fd, b->hint.p, b->hint.len, &ignored); /* who has gone is found by the stage */
	b->written_ns = lx_io_now_ns();
}

static void *run(void *arg)
{
	struct lx_beat *b = arg;
	pthread_mutex_lock(&b->lock);
	while (!b->over) {
		uint64_t due = b->written_ns + b->every_ns / 2;
		if (lx_io_now_ns() >= due) {
			beat(b);
			continue;
		}
		struct timespec t = { (time_t)(due / 1000000000), (long)(due % 1000000000) };
		pthread_cond_timedwait(&b->end, &b->lock, &t);
	}
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

/* The thread gets no signals: they are for the stage, whose waits they interrupt. */
static int start(struct lx_beat *b)
{
	sigset_t all, old;
	pthread_condattr_t a;
	pthread_mutex_init(&b->lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&b->end, &a);
	pthread_condattr_destroy(&a);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int error = pthread_create(&b->thread, NULL, run, b);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
}

static void release(struct lx_beat *b)
{
	pthread_cond_destroy(&b->end);
	pthread_mutex_destroy(&b->lock);
	lx_buf_free(&b->hint);
	free(b);
}

struct lx_beat *lx_beat_start(int fd, uint64_t every_ms, struct lx_err *e)
{
	static const uint8_t empty_map[] = { 0x80 };
	struct lx_beat *b = calloc(1, sizeof(*b));
	if (!b) {
		lx_err_sys(e, "beats");
		return NULL;
	}
	b->fd = fd;
	b->every_ns = every_ms * 1000000;
	b->written_ns = lx_io_now_ns();
	lx_mark_encode(&b->hint, LX_MARK_HINT, (struct lx_span){ empty_map, 1 });
	int error = lx_buf_check(&b->hint, e) < 0 ? ENOMEM : start(b);
	if (error == 0)
		return b;
	errno = error;
	lx_err_sys(e, "beats");
	release(b);
	return NULL;
}

void lx_beat_stop(struct lx_beat *b)
{
	if (!b)
		return;
	pthread_mutex_lock(&b->lock);
	b->over = true;
	pthread_cond_signal(&b->end);
	pthread_mutex_unlock(&b->lock);
	pthread_join(b->thread, NULL);
	release(b);
}

void lx_beat_lock(struct lx_beat *b)
{
	if (b)
		pthread_mutex_lock(&b->lock);
}

void lx_beat_unlock(struct lx_beat *b)
{
	if (!b)
		return;
	b->written_ns = lx_io_now_ns();
	pthread_mutex_unlock(&b->lock);
}

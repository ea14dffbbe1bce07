/* threads: one loop over many cores.
 *
 * The threads are started once and wait in between. No signal is delivered to them. One thread at a time runs a loop.
 */
#ifndef LX_THREADS_H
#define LX_THREADS_H

#include "err.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* A thread that no signal is delivered to. 0, or an errno. */
int lx_thread_start(pthread_t *id, void *(*f)(void *arg), void *arg);

struct lx_threads;

/* n, at most 1024; 0: as many as the process may run on. */
uint32_t lx_threads_default(uint32_t n);
/* lx_threads_default(n) threads, the caller's included. */
struct lx_threads *lx_threads_new(uint32_t n, struct lx_err *e);
void lx_threads_free(struct lx_threads *t);
uint32_t lx_threads_count(const struct lx_threads *t);

/* f(ctx, i, thread) for every i below n, in any order and side by side; thread: which one it is, below the count.
 * Returns when all are done. */
void lx_threads_run(struct lx_threads *t, size_t n, void (*f)(void *ctx, size_t i, uint32_t thread), void *ctx);

#endif

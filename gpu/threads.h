/* threads: one loop over many cores.
 *
 * The threads are started once and wait in between. No signal is delivered to them: the caller's thread has them all.
 */
#ifndef LX_THREADS_H
#define LX_THREADS_H

#include "err.h"

#include <stddef.h>
#include <stdint.h>

struct lx_threads;

/* n threads, the caller's included; 0: as many as the process may run on. At most 1024. */
struct lx_threads *lx_threads_new(uint32_t n, struct lx_err *e);
void lx_threads_free(struct lx_threads *t);
uint32_t lx_threads_count(const struct lx_threads *t);

/* f(ctx, i, thread) for every i below n, in any order and side by side; thread: which one it is, below the count.
 * Returns when all are done. */
void lx_threads_run(struct lx_threads *t, size_t n, void (*f)(void *ctx, size_t i, uint32_t thread), void *ctx);

#endif

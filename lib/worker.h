/* worker: a process that reads and writes lx streams, on the other end of a socketpair, without blocking.
 *
 * What is to be sent is encoded into `out` (a writer without a descriptor) and pushed as the socket takes
 * it; what comes is read through `in`. Writing to a worker that is gone is no error: its loss shows when
 * reading. The caller watches fd and child.pidfd.
 */
#ifndef LX_WORKER_H
#define LX_WORKER_H

#include "spawn.h"
#include "stream.h"

struct lx_worker {
	struct lx_child child;
	int fd;               /* our end; -1: not running */
	struct lx_writer out; /* fd -1: encoded bytes collect in out.out */
	size_t gone;          /* of those, bytes the socket has taken */
	struct lx_reader *in;
	bool closing;         /* close its input when all is sent */
	bool shut;            /* its input is closed */
};

#define LX_WORKER_NONE { .fd = -1, .child = LX_CHILD_NONE }

/* Start it: the socket is its stdin and stdout, stderr is ours. `name` is what messages call it and must outlive it.
 * -1: LX_USAGE (cannot be started), LX_SYSTEM. */
int lx_worker_start(struct lx_worker *w, char *const *argv, char *const *env, const char *name,
                    const struct lx_limits *l, struct lx_err *e);
/* One that has connected by itself: no process of ours. Takes the descriptor, which does not block, also when it fails. */
int lx_worker_adopt(struct lx_worker *w, int fd, const char *name, const struct lx_limits *l, struct lx_err *e);
/* Send what the socket takes now. 1: all is gone; 0: some waits (watch for writing); -1: LX_SYSTEM. */
int lx_worker_push(struct lx_worker *w, struct lx_err *e);
/* Bytes encoded and not sent. */
static inline size_t lx_worker_pending(const struct lx_worker *w)
{
	return w->out.out.len - w->gone;
}
/* No more input for it once all is sent. */
int lx_worker_close_input(struct lx_worker *w, struct lx_err *e);
/* Kill its process group if it lives, reap it (waits for that), free everything. *status (may be NULL): its wait
 * status; -1 when it cannot be had. */
void lx_worker_release(struct lx_worker *w, int *status);

#endif

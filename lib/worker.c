#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <fcntl.h>
#include <unistd.h>

static int nonblocking(int fd, struct lx_err *e)
{
	/* Our end of the pair is a file description of its own: the worker's stays as it is. */
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return lx_err_sys(e, "socket");
	return 0;
}

static int open_streams(struct lx_worker *w, int rc, const char *name, const struct lx_limits *l, struct lx_err *e)
{
	if (rc == 0)
		rc = lx_writer_init(&w->out, -1, l, e);
	if (rc == 0 && !(w->in = lx_reader_new(w->fd, name, l, e)))
		rc = -1;
	if (rc < 0)
		lx_worker_release(w, NULL);
	return rc;
}

int lx_worker_start(struct lx_worker *w, char *const *argv, char *const *env, const char *name,
                    const struct lx_limits *l, struct lx_err *e)
{
	int pair[2];
	*w = (struct lx_worker)LX_WORKER_NONE;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return lx_err_sys(e, "socketpair");
	struct lx_spawn s = { .argv = argv, .env = env, .in = pair[1], .out = pair[1], .err = -1, .keep = -1, .tidy = true };
	int rc = nonblocking(pair[0], e);
	if (rc == 0)
		rc = lx_spawn(&s, &w->child, e);
	close(pair[1]);
	w->fd = pair[0];
	return open_streams(w, rc, name, l, e);
}

int lx_worker_adopt(struct lx_worker *w, int fd, const char *name, const struct lx_limits *l, struct lx_err *e)
{
	*w = (struct lx_worker)LX_WORKER_NONE;
	w->fd = fd;
	return open_streams(w, 0, name, l, e);
}

static bool peer_is_gone(int error)
{
	return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

/* One send(2): bytes taken, 0 when it would block, -1. Not write(2): a worker that has gone must not raise SIGPIPE. */
static ssize_t send_some(const struct lx_worker *w, struct lx_err *e)
{
	for (;;) {
		ssize_t n = send(w->fd, w->out.out.p + w->gone, lx_worker_pending(w), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			return n;
		if (errno == EAGAIN || errno == EWOULDBLOCK)
			return 0;
		if (peer_is_gone(errno))
			return (ssize_t)lx_worker_pending(w);
		if (errno != EINTR)
			return lx_err_sys(e, "send");
	}
}

int lx_worker_push(struct lx_worker *w, struct lx_err *e)
{
	if (w->fd < 0)
		return 1;
	while (lx_worker_pending(w)) {
		ssize_t n = send_some(w, e);
		if (n < 0)
			return -1;
		if (n == 0)
			return 0;
		w->gone += (size_t)n;
	}
	lx_buf_clear(&w->out.out);
	w->gone = 0;
	if (w->closing && !w->shut) {
		shutdown(w->fd, SHUT_WR);
		w->shut = true;
	}
	return 1;
}

int lx_worker_close_input(struct lx_worker *w, struct lx_err *e)
{
	w->closing = true;
	return lx_worker_push(w, e) < 0 ? -1 : 0;
}

void lx_worker_release(struct lx_worker *w, int *status)
{
	struct lx_err ignored = LX_ERR_INIT;
	int st = -1;
	if (w->child.pid > 0) {
		lx_child_kill(&w->child, SIGKILL);
		if (lx_child_wait(&w->child, true, &st, &ignored) < 0)
			st = -1;
	}
	if (w->fd >= 0)
		close(w->fd);
	lx_reader_free(w->in);
	lx_writer_release(&w->out);
	*w = (struct lx_worker)LX_WORKER_NONE;
	if (status)
		*status = st;
}

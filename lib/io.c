#include "io.h"
#include "sig.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STREAM_PIPE (256 << 10) /* two frames: one is read while the next is written */

int lx_io_std(struct lx_err *e)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
			continue;
		/* The wrong way round: using it is an error (EBADF), not an empty input or an output lost in silence. */
		int got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
		if (got != fd) /* the lowest free number is fd: those below are open */
			return lx_err_sys(e, "/dev/null for descriptor %d", fd);
	}
	return 0;
}

ssize_t lx_io_read(int fd, void *p, size_t n, struct lx_err *e)
{
	for (;;) {
		ssize_t got = read(fd, p, n);
		if (got >= 0)
			return got;
		if (errno == EAGAIN)
			return LX_IO_AGAIN;
		if (errno != EINTR)
			return lx_err_sys(e, "read");
		if (lx_sig_stop())
			return LX_IO_AGAIN;
	}
}

/* A descriptor somebody else made non-blocking still has to take everything. */
static int wait_writable(int fd, struct lx_err *e)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	if (poll(&p, 1, -1) < 0 && errno != EINTR)
		return lx_err_sys(e, "poll");
	return 0;
}

int lx_io_writev(int fd, struct iovec *v, int n, struct lx_err *e)
{
	while (n > 0) {
		ssize_t got = writev(fd, v, n < IOV_MAX ? n : IOV_MAX);
		if (got < 0 && errno == EAGAIN) {
			if (wait_writable(fd, e) < 0)
				return -1;
			continue;
		}
		if (got < 0 && errno == EINTR) {
			if (!lx_sig_stop())
				continue;
			return lx_err_set(e, LX_SYSTEM, "write: stopped by a signal");
		}
		if (got < 0)
			return lx_err_sys(e, "write");
		size_t done = (size_t)got;
		while (n > 0 && done >= v->iov_len) {
			done -= v->iov_len;
			v++;
			n--;
		}
		if (n > 0) {
			v->iov_base = (char *)v->iov_base + done;
			v->iov_len -= done;
		}
	}
	return 0;
}

int lx_io_write(int fd, const void *p, size_t n, struct lx_err *e)
{
	struct iovec v = { .iov_base = (void *)p, .iov_len = n };
	return lx_io_writev(fd, &v, 1, e);
}

ssize_t lx_io_write_some(int fd, const void *p, size_t n, struct lx_err *e)
{
	for (;;) {
		ssize_t got = write(fd, p, n);
		if (got >= 0)
			return got;
		if (errno == EAGAIN)
			return LX_IO_AGAIN;
		if (errno != EINTR)
			return lx_err_sys(e, "write");
		if (lx_sig_stop())
			return LX_IO_AGAIN;
	}
}

int lx_io_read_at(int fd, void *p, size_t n, uint64_t offset, struct lx_err *e)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = pread(fd, (char *)p + at, n - at, (off_t)(offset + at));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return lx_err_sys(e, "read");
		if (got == 0)
			return lx_err_set(e, LX_SYSTEM, "read: the file ended at %llu", (unsigned long long)(offset + at));
		at += (size_t)got;
	}
	return 0;
}

int lx_io_write_at(int fd, const void *p, size_t n, uint64_t offset, struct lx_err *e)
{
	for (size_t at = 0; at < n;) {
		ssize_t got = pwrite(fd, (const char *)p + at, n - at, (off_t)(offset + at));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return lx_err_sys(e, "write");
		at += (size_t)got;
	}
	return 0;
}

int lx_io_slurp(int fd, struct lx_buf *b, uint64_t max_bytes, const char *option, struct lx_err *e)
{
	size_t start = b->len;
	for (;;) {
		uint8_t *to = lx_buf_room(b, 64u << 10);
		if (!to)
			return lx_buf_check(b, e);
		ssize_t got = lx_io_read(fd, to, b->cap - b->len, e);
		if (got == LX_IO_EOF)
			return 0;
		if (got == LX_IO_AGAIN) {
			if (lx_sig_stop())
				return lx_err_set(e, LX_SYSTEM, "read: stopped by a signal");
			if (lx_io_wait(fd, -1, e) < 0)
				return -1;
			continue;
		}
		if (got < 0)
			return -1;
		b->len += (size_t)got;
		if (b->len - start > max_bytes)
			return lx_err_set(e, LX_DATA, "over %llu bytes (%s)", (unsigned long long)max_bytes, option);
	}
}

int lx_io_wait(int fd, int timeout_ms, struct lx_err *e)
{
	uint64_t end = lx_io_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int n = poll(&p, 1, timeout_ms);
		if (n > 0)
			return 1;
		if (n == 0)
			return 0;
		if (errno != EINTR)
			return lx_err_sys(e, "poll");
		if (lx_sig_stop())
			return 0;
		if (timeout_ms > 0) {
			uint64_t now = lx_io_now_ns();
			timeout_ms = now >= end ? 0 : (int)((end - now) / 1000000u);
		}
	}
}

int lx_io_wait_asked(int fd, struct lx_err *e)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = lx_sig_fd(), .events = POLLIN } };
	while (!lx_sig_asked() && poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return lx_err_sys(e, "poll");
	return !lx_sig_asked();
}

int lx_io_unread(struct lx_err *e)
{
	raise(SIGPIPE);
	errno = EPIPE;
	return lx_err_sys(e, "stdout");
}

bool lx_io_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	return poll(&p, 1, 0) > 0;
}

int lx_io_pipe(int fd[2], struct lx_err *e)
{
	if (pipe2(fd, O_CLOEXEC) < 0)
		return lx_err_sys(e, "pipe");
	(void)fcntl(fd[1], F_SETPIPE_SZ, 1 << 20);
	return 0;
}

void lx_io_widen(int fd)
{
	int room = fcntl(fd, F_GETPIPE_SZ);
	if (room >= 0 && room < STREAM_PIPE)
		(void)fcntl(fd, F_SETPIPE_SZ, STREAM_PIPE);
}

bool lx_io_is_file(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

bool lx_io_is_terminal(int fd)
{
	return isatty(fd) == 1;
}

uint64_t lx_io_now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *lx_io_tmpdir(const char *dir)
{
	if (!dir || !*dir)
		dir = getenv("TMPDIR");
	return dir && *dir ? dir : "/tmp";
}

int lx_io_tmpfile(const char *dir, struct lx_err *e)
{
	dir = lx_io_tmpdir(dir);
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s/lx.XXXXXX", dir) < (int)sizeof(path)) {
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0) {
			unlink(path);
			return fd;
		}
	}
	return lx_err_sys(e, "temporary file in %s (--tmpdir)", dir);
}

/* ---- files written aside ---- */

static char *aside_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
	char *tmp;
	if (asprintf(&tmp, "%.*s.%s.%ld.part", (int)dir, path, path + dir, (long)getpid()) < 0)
		return NULL;
	return tmp;
}

static int open_unnamed(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	int fd = dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
	free(dir);
	return fd;
}

/* Names of what is open already: a regular file behind them has a place of its own, which is not ours to replace. */
static bool names_a_descriptor(const char *path)
{
	return strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0;
}

int lx_outfile_open(struct lx_outfile *f, const char *path, struct lx_err *e)
{
	struct stat st;
	*f = (struct lx_outfile){ .fd = -1 };
	f->aside = !names_a_descriptor(path) && (stat(path, &st) < 0 || S_ISREG(st.st_mode));
	/* A link stays one: what it leads to is replaced. */
	f->path = f->aside ? realpath(path, NULL) : NULL;
	if (!f->path && !(f->path = strdup(path)))
		return lx_err_sys(e, "%s", path);
	if (!f->aside)
		f->fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	else
		f->fd = open_unnamed(f->path);
	if (f->fd < 0 && f->aside) {
		f->tmp = aside_name(f->path);
		if (f->tmp)
			f->fd = open(f->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	}
	if (f->fd >= 0)
		return 0;
	lx_err_sys(e, "%s", path);
	free(f->tmp);
	f->tmp = NULL;
	lx_outfile_discard(f);
	return -1;
}

/* Give an unnamed file a name beside its place, so that it can be renamed over what is there. */
static int name_unnamed(struct lx_outfile *f, struct lx_err *e)
{
	char proc[64];
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", f->fd);
	char *tmp = aside_name(f->path);
	if (!tmp)
		return lx_err_sys(e, "%s", f->path);
	if (linkat(AT_FDCWD, proc, AT_FDCWD, tmp, AT_SYMLINK_FOLLOW) < 0) {
		lx_err_sys(e, "%s", tmp);
		free(tmp);
		return -1;
	}
	f->tmp = tmp;
	return 0;
}

int lx_outfile_commit(struct lx_outfile *f, struct lx_err *e)
{
	int rc = 0;
	if (f->aside) {
		if (fsync(f->fd) < 0)
			rc = lx_err_sys(e, "%s", f->path);
		if (rc == 0 && !f->tmp)
			rc = name_unnamed(f, e);
		if (rc == 0 && rename(f->tmp, f->path) < 0)
			rc = lx_err_sys(e, "%s", f->path);
		if (rc == 0) {
			free(f->tmp);
			f->tmp = NULL;
		}
	}
	if (close(f->fd) < 0 && rc == 0)
		rc = lx_err_sys(e, "%s", f->path);
	f->fd = -1;
	lx_outfile_discard(f);
	return rc;
}

void lx_outfile_discard(struct lx_outfile *f)
{
	if (f->fd >= 0)
		close(f->fd);
	if (f->tmp)
		unlink(f->tmp);
	free(f->tmp);
	free(f->path);
	*f = (struct lx_outfile){ .fd = -1 };
}

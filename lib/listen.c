#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SCHEME "unix:"
#define PATH_MAX_BYTES (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static int parse_address(const char *address, struct sockaddr_un *to, struct lx_err *e)
{
	if (strncmp(address, SCHEME, strlen(SCHEME)) != 0)
		return lx_err_set(e, LX_USAGE, "'%s' is not unix:PATH (over a network: ssh -R, see lx-attach(1))", address);
	const char *path = address + strlen(SCHEME);
	size_t len = strlen(path);
	if (!len)
		return lx_err_set(e, LX_USAGE, "'%s': the path is empty", address);
	if (len > PATH_MAX_BYTES)
		return lx_err_set(e, LX_USAGE, "a path of %zu bytes, that of a socket has %zu at most: use a shorter or a relative one: %s", len,
		                  PATH_MAX_BYTES, path);
	*to = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(to->sun_path, path, len);
	return 0;
}

static int new_socket(int flags, struct lx_err *e)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	return fd < 0 ? lx_err_sys(e, "socket") : fd;
}

/* ---- the lock ---- */

/* Who listens, by what the lock says. */
static int refuse_live(int lock, const char *path, struct lx_err *e)
{
	char pid[32] = "";
	ssize_t n = pread(lock, pid, sizeof(pid) - 1, 0);
	pid[n > 0 ? n : 0] = '\0';
	return lx_err_set(e, LX_USAGE, "unix:%s: the lx-batch with process id %s listens there", path, *pid ? pid : "?");
}

/* Whether the file we have locked is still the one with that name: another may just have removed it. */
static bool is_named(int fd, const char *path)
{
	struct stat a, b;
	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

static int take_lock(struct lx_listen *l, struct lx_err *e)
{
	char pid[32];
	for (;;) {
		l->lock = open(l->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (l->lock < 0)
			return lx_err_sys(e, "%s", l->lock_path);
		int rc = flock(l->lock, LOCK_EX | LOCK_NB);
		if (rc < 0 && errno == EWOULDBLOCK)
			rc = refuse_live(l->lock, l->path, e);
		else if (rc < 0)
			rc = lx_err_sys(e, "%s", l->lock_path);
		else if (is_named(l->lock, l->lock_path))
			break;
		close(l->lock);
		l->lock = -1;
		if (rc < 0)
			return -1;
	}
	int n = snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	if (ftruncate(l->lock, 0) < 0 || pwrite(l->lock, pid, (size_t)n, 0) != n)
		return lx_err_sys(e, "%s", l->lock_path);
	return 0;
}

/* ---- listening ---- */

/* With the lock held: what lies there was left behind, unless somebody who knows no lock listens. */
static int remove_stale(const struct sockaddr_un *a, struct lx_err *e)
{
	struct stat st;
	if (lstat(a->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : lx_err_sys(e, "%s", a->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return lx_err_set(e, LX_USAGE, "%s is there and is no socket", a->sun_path);
	int fd = new_socket(SOCK_NONBLOCK, e);
	if (fd < 0)
		return -1;
	bool live = connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno != ECONNREFUSED;
	close(fd);
	if (live)
		return lx_err_set(e, LX_USAGE, "unix:%s: another program listens there", a->sun_path);
	return unlink(a->sun_path) < 0 ? lx_err_sys(e, "%s", a->sun_path) : 0;
}

static int bind_and_listen(struct lx_listen *l, const struct sockaddr_un *a, struct lx_err *e)
{
	int fd = new_socket(SOCK_NONBLOCK, e);
	if (fd < 0)
		return -1;
	mode_t old = umask(0177);
	int rc = bind(fd, (const struct sockaddr *)a, sizeof(*a));
	umask(old);
	if (rc < 0) {
		lx_err_sys(e, "unix:%s", a->sun_path);
		close(fd);
		return -1;
	}
	l->fd = fd;
	return listen(fd, SOMAXCONN) < 0 ? lx_err_sys(e, "unix:%s", a->sun_path) : 0;
}

int lx_listen_open(struct lx_listen *l, const char *address, struct lx_err *e)
{
	struct sockaddr_un a;
	*l = (struct lx_listen)LX_LISTEN_NONE;
	if (parse_address(address, &a, e) < 0)
		return -1;
	l->path = strdup(a.sun_path);
	if (!l->path || asprintf(&l->lock_path, "%s.lock", a.sun_path) < 0) {
		l->lock_path = NULL;
		lx_listen_close(l);
		return lx_err_sys(e, "--listen");
	}
	int rc = take_lock(l, e);
	if (rc == 0)
		rc = remove_stale(&a, e);
	if (rc == 0)
		rc = bind_and_listen(l, &a, e);
	if (rc < 0)
		lx_listen_close(l);
	return rc;
}

void lx_listen_close(struct lx_listen *l)
{
	if (l->fd >= 0) {
		unlink(l->path);
		close(l->fd);
	}
	if (l->lock >= 0) {
		unlink(l->lock_path); /* while it is locked */
		close(l->lock);
	}
	free(l->path);
	free(l->lock_path);
	*l = (struct lx_listen)LX_LISTEN_NONE;
}

int lx_listen_accept(const struct lx_listen *l, uid_t *uid)
{
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(who);
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return -1;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid())
		return fd;
	lx_hello_say(fd, "lx-batch 1 no it is not for uid %ld", (long)who.uid);
	close(fd);
	*uid = who.uid;
	return -2;
}

int lx_listen_connect(const char *address, struct lx_err *e)
{
	struct sockaddr_un a;
	if (parse_address(address, &a, e) < 0)
		return -1;
	int fd = new_socket(0, e);
	if (fd < 0)
		return -1;
	while (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		if (errno == EINTR)
			continue;
		lx_err_sys(e, errno == ECONNREFUSED ? "%s: nobody listens there" : "%s", address);
		close(fd);
		return -1;
	}
	return fd;
}

/* ---- the first line ---- */

int lx_hello_read(struct lx_hello *h, int fd)
{
	char *from = h->text + h->len, *end;
	ssize_t n = recv(fd, from, sizeof(h->text) - h->len, MSG_DONTWAIT | MSG_PEEK);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0)
		return -1;
	end = memchr(from, '\n', (size_t)n);
	n = recv(fd, from, end ? (size_t)(end + 1 - from) : (size_t)n, MSG_DONTWAIT);
	for (ssize_t i = 0; i < n; i++, h->len++)
		if (from[i] != '\n' && (from[i] < ' ' || from[i] > '~'))
			return -1;
	if (!end)
		return h->len < sizeof(h->text) ? 0 : -1;
	*end = '\0';
	return 1;
}

const char *lx_hello_after(const struct lx_hello *h, const char *word)
{
	size_t len = strlen(word);
	return strncmp(h->text, word, len) == 0 && strncmp(h->text + len, " 1 ", 3) == 0 ? h->text + len + 3 : NULL;
}

void lx_hello_say(int fd, const char *fmt, ...)
{
	char line[LX_HELLO_MAX];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line) - 1, fmt, ap);
	va_end(ap);
	size_t len = n < (int)sizeof(line) - 1 ? (size_t)n : sizeof(line) - 2;
	line[len++] = '\n';
	ssize_t ignored = send(fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)ignored;
}

#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- natural order ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A slash sorts before every other byte, so that a directory's files stand together. */
static int rank(char c)
{
	return c == '\0' ? 0 : c == '/' ? 1 : (unsigned char)c + 1;
}

static size_t digit_run(const char *s)
{
	size_t n = 0;
	while (is_digit(s[n]))
		n++;
	return n;
}

/* Compare two runs of digits as numbers of any length; both pointers are moved behind them. */
static int number_cmp(const char **a, const char **b)
{
	while (**a == '0' && is_digit((*a)[1]))
		++*a;
	while (**b == '0' && is_digit((*b)[1]))
		++*b;
	size_t na = digit_run(*a), nb = digit_run(*b);
	int c = na != nb ? (na < nb ? -1 : 1) : memcmp(*a, *b, na);
	*a += na;
	*b += nb;
	return c;
}

int lx_natural_cmp(const char *a, const char *b)
{
	const char *x = a, *y = b;
	int c = 0;
	while (c == 0 && *x && *y) {
		if (is_digit(*x) && is_digit(*y)) {
			c = number_cmp(&x, &y);
		} else {
			c = rank(*x) - rank(*y);
			x++;
			y++;
		}
	}
	if (c == 0)
		c = rank(*x) - rank(*y);
	return c ? c : strcmp(a, b); /* 01 and 1 */
}

/* ---- listing ---- */

struct listing {
	struct lx_files *f;
	size_t cap;
	dev_t dev;
	struct lx_buf path; /* of the directory at hand, with a slash at its end unless empty */
	struct lx_err *e;
};

static int add_file(struct listing *l, const char *name)
{
	if (l->f->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		char **p = reallocarray(l->f->path, cap, sizeof(*p));
		if (!p)
			return lx_err_sys(l->e, "a list of %zu files", l->f->n);
		l->f->path = p;
		l->cap = cap;
	}
	char *s;
	if (asprintf(&s, "%.*s%s", (int)l->path.len, l->path.len ? (char *)l->path.p : "", name) < 0)
		return lx_err_sys(l->e, "a list of %zu files", l->f->n);
	l->f->path[l->f->n++] = s;
	return 0;
}

static int list_dir(struct listing *l, int fd, unsigned depth);

static int enter(struct listing *l, int dir, const char *name, unsigned depth)
{
	size_t before = l->path.len;
	if (depth == LX_FILES_DEPTH_MAX)
		return lx_err_set(l->e, LX_DATA, "directories nest deeper than %d at %s", LX_FILES_DEPTH_MAX, name);
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return lx_err_sys(l->e, "%s", name);
	lx_buf_str(&l->path, name);
	lx_buf_byte(&l->path, '/');
	int rc = lx_buf_check(&l->path, l->e) < 0 ? (close(fd), -1) : list_dir(l, fd, depth + 1);
	l->path.len = before;
	return rc;
}

static int list_entry(struct listing *l, int dir, const char *name, unsigned depth)
{
	struct stat st;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return lx_err_sys(l->e, "%s", name);
	if (S_ISREG(st.st_mode))
		return add_file(l, name);
	if (S_ISDIR(st.st_mode) && st.st_dev == l->dev)
		return enter(l, dir, name, depth);
	l->f->skipped++;
	return 0;
}

/* Takes the descriptor. */
static int list_dir(struct listing *l, int fd, unsigned depth)
{
	DIR *d = fdopendir(fd);
	int rc = 0;
	if (!d) {
		lx_err_sys(l->e, "reading a directory");
		close(fd);
		return -1;
	}
	while (rc == 0) {
		errno = 0;
		struct dirent *entry = readdir(d);
		if (!entry) {
			rc = errno ? lx_err_sys(l->e, "reading a directory") : 0;
			break;
		}
		rc = list_entry(l, fd, entry->d_name, depth);
	}
	closedir(d);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return lx_natural_cmp(*(char *const *)a, *(char *const *)b);
}

int lx_files_list(const char *dir, struct lx_files *f, struct lx_err *e)
{
	struct listing l = { .f = f, .e = e };
	struct stat st;
	*f = (struct lx_files){ 0 };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return lx_err_sys(e, "%s", dir);
	if (fstat(fd, &st) < 0) {
		lx_err_sys(e, "%s", dir);
		close(fd);
		return -1;
	}
	l.dev = st.st_dev;
	int rc = list_dir(&l, fd, 0);
	lx_buf_free(&l.path);
	if (rc < 0)
		return lx_err_prefix(e, "%s", dir);
	if (f->n)
		qsort(f->path, f->n, sizeof(*f->path), by_name);
	return 0;
}

void lx_files_free(struct lx_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->path[i]);
	free(f->path);
	*f = (struct lx_files){ 0 };
}

int lx_files_open(const char *dir, const char *path, struct lx_err *e)
{
	int base = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base < 0)
		return lx_err_sys(e, "%s", dir);
	/* O_NONBLOCK: a FIFO put there meanwhile must not hang the stage; it means nothing for a regular file */
	int fd = openat(base, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	int rc = fd < 0 ? -1 : fstat(fd, &st);
	if (rc == 0 && !S_ISREG(st.st_mode)) {
		errno = EINVAL;
		rc = -1;
	}
	if (rc < 0) {
		lx_err_sys(e, "%s/%s", dir, path);
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	close(base);
	return fd;
}

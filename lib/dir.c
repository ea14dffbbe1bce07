#include "dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *lx_dir_make(const char *parent, struct lx_err *e)
{
	char *name = NULL, *path = NULL;
	if (!parent || !*parent)
		parent = getenv("TMPDIR");
	if (!parent || !*parent)
		parent = "/tmp";
	if (asprintf(&name, "%s/lx.XXXXXX", parent) >= 0 && mkdtemp(name))
		path = realpath(name, NULL);
	if (!path)
		lx_err_sys(e, "a directory in %s (--tmpdir)", parent);
	free(name);
	return path;
}

/* ---- removal ----
 * Directories below the first level are moved up to it instead of entered, so that few descriptors are
 * open however deep they nest. */

#define PASSES_MAX 100000 /* against somebody who keeps adding */

/* Open a directory for reading, whatever its mode was. */
static int open_dir(int at, const char *name)
{
	char proc[64];
	int path = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (path < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", path);
	chmod(proc, 0700); /* not by name: that would follow a symbolic link put there meanwhile */
	int fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(path);
	return fd;
}

/* unlink of a directory says EISDIR (Linux) or EPERM (POSIX). */
static bool is_dir_error(void)
{
	return errno == EISDIR || errno == EPERM;
}

/* Move the directory sub/name to a free name of the top directory. */
static int move_up(int top, int sub, const char *name, unsigned long *next)
{
	char to[32];
	int fd = open_dir(sub, name); /* to move it, it must be writable */
	if (fd < 0)
		return -1;
	close(fd);
	for (unsigned long n = *next; n < *next + 1000; n++) {
		snprintf(to, sizeof(to), "lx%lu", n);
		if (renameat(sub, name, top, to) == 0) {
			*next = n + 1;
			return 0;
		}
		if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
			return -1;
	}
	return -1;
}

static void each_entry(int fd, void (*fn)(int fd, const char *name, void *ctx), void *ctx)
{
	int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	DIR *d = own >= 0 ? fdopendir(own) : NULL;
	if (!d) {
		if (own >= 0)
			close(own);
		return;
	}
	rewinddir(d);
	for (struct dirent *entry; (entry = readdir(d));)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			fn(fd, entry->d_name, ctx);
	closedir(d);
}

struct removal {
	int top;
	unsigned long next;
};

static void empty_sub(int sub, const char *name, void *ctx)
{
	struct removal *r = ctx;
	if (unlinkat(sub, name, 0) < 0 && is_dir_error())
		move_up(r->top, sub, name, &r->next);
}

static void empty_top(int top, const char *name, void *ctx)
{
	if (unlinkat(top, name, 0) == 0 || !is_dir_error())
		return;
	int sub = open_dir(top, name);
	if (sub < 0)
		return;
	each_entry(sub, empty_sub, ctx);
	close(sub);
	unlinkat(top, name, AT_REMOVEDIR);
}

int lx_dir_remove(const char *path, struct lx_err *e)
{
	struct removal r = { .top = open_dir(AT_FDCWD, path) };
	if (r.top < 0)
		return lx_err_sys(e, "%s: cannot be removed", path);
	/* A pass takes one level of every tree away. When one moves nothing up, a further pass would change nothing. */
	for (int pass = 0; pass < PASSES_MAX; pass++) {
		unsigned long before = r.next;
		each_entry(r.top, empty_top, &r);
		if (rmdir(path) == 0 || r.next == before)
			break;
	}
	close(r.top);
	if (access(path, F_OK) == 0)
		return lx_err_sys(e, "%s: cannot be removed", path);
	return 0;
}

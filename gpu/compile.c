#include "compile.h"

#include "dir.h"
#include "io.h"
#include "sig.h"
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define COMPILE_MS 60000
#define PLUGIN_MAX (256u << 20)

__asm__(".pushsection .rodata\n.global lx_kernel_header\nlx_kernel_header: .incbin \"gpu/kernel.h\"\n.byte 0\n.popsection");

/* Behind the name of the compiler; then the outputs, the folder of lx/kernel.h and the file. */
static const char *const flags[] = { "-x", "c", "-std=gnu11", "-O3", "-fPIC", "-shared", "-MMD" };
#define N_FLAGS (sizeof(flags) / sizeof(*flags))

struct compile {
	const char *file, *cc;
	char *cache;          /* the folder; NULL: nothing is kept */
	char name[48];        /* there */
	char *dir;            /* for the compiler's outputs */
};

static char *join(const char *dir, const char *name, struct lx_err *e)
{
	char *path = NULL;
	if (asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		lx_err_sys(e, "%s", name);
	}
	return path;
}

int lx_compile_read(const char *file, struct lx_buf *source, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return lx_err_set(e, LX_USAGE, "%s", strerror(errno));
	int rc = lx_io_slurp(fd, source, LX_COMPILE_SOURCE, "16 MiB", &why);
	close(fd);
	if (rc < 0)
		return lx_err_set(e, LX_USAGE, "%s", why.msg);
	return lx_buf_cstr(source) ? 0 : lx_buf_check(source, e);
}

/* ---- what is kept ---- */

static bool ours_alone(const struct stat *st)
{
	return st->st_uid == geteuid() && (st->st_mode & 022) == 0;
}

/* The folder, made if need be; NULL: there is none to trust. */
static char *cache_dir(void)
{
	const char *home = getenv("XDG_CACHE_HOME");
	char *path = NULL;
	struct stat st;
	int n = home && *home == '/' ? asprintf(&path, "%s/lx", home) : (home = getenv("HOME")) && *home == '/' ? asprintf(&path, "%s/.cache/lx", home) : -1;
	if (n < 0)
		return NULL;
	for (char *p = path + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = 0;
		mkdir(path, 0700);
	}
	mkdir(path, 0700);
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && ours_alone(&st) && access(path, W_OK | X_OK) == 0)
		return path;
	free(path);
	return NULL;
}

/* Where the shell would find it. */
static bool stat_program(const char *name, struct stat *st)
{
	const char *path = strchr(name, '/') ? "" : getenv("PATH");
	for (const char *p = path ? path : "/usr/bin:/bin"; p; p = strchr(p, ':') ? strchr(p, ':') + 1 : NULL) {
		char file[4096];
		int len = (int)strcspn(p, ":");
		if (strchr(name, '/'))
			snprintf(file, sizeof(file), "%s", name);
		else
			snprintf(file, sizeof(file), "%.*s/%s", len ? len : 1, len ? p : ".", name);
		if (access(file, X_OK) == 0 && stat(file, st) == 0 && S_ISREG(st->st_mode))
			return true;
	}
	return false;
}

static void name_of(struct compile *c, const struct lx_buf *source)
{
	struct stat st = { 0 };
	XXH3_state_t *h = XXH3_createState();
	if (!h || !stat_program(c->cc, &st)) {
		free(c->cache);
		c->cache = NULL;
	}
	if (c->cache) {
		const uint64_t compiler[] = { st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec };
		XXH3_128bits_reset(h);
		XXH3_128bits_update(h, source->p, source->len + 1);
		XXH3_128bits_update(h, lx_kernel_header, strlen(lx_kernel_header) + 1);
		XXH3_128bits_update(h, compiler, sizeof(compiler));
		XXH3_128bits_update(h, c->cc, strlen(c->cc) + 1);
		for (size_t i = 0; i < N_FLAGS; i++)
			XXH3_128bits_update(h, flags[i], strlen(flags[i]) + 1);
		XXH128_hash_t sum = XXH3_128bits_digest(h);
		snprintf(c->name, sizeof(c->name), "%016llx%016llx.so", (unsigned long long)sum.high64, (unsigned long long)sum.low64);
	}
	XXH3_freeState(h);
}

static XXH128_canonical_t sum_of(const uint8_t *p, size_t len)
{
	XXH128_canonical_t sum;
	XXH128_canonicalFromHash(&sum, XXH3_128bits(p, len));
	return sum;
}

/* The path of a whole one; NULL: there is none. */
static char *find_kept(const struct compile *c, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	struct stat st;
	bool whole = false;
	char *path = c->cache ? join(c->cache, c->name, e) : NULL;
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ours_alone(&st) && lx_io_slurp(fd, &b, PLUGIN_MAX, "", &why) == 0 &&
	    b.len > sizeof(XXH128_canonical_t)) {
		XXH128_canonical_t sum = sum_of(b.p, b.len - sizeof(sum));
		whole = memcmp(b.p + b.len - sizeof(sum), &sum, sizeof(sum)) == 0;
	}
	if (fd >= 0)
		close(fd);
	lx_buf_free(&b);
	if (!whole) {
		free(path);
		path = NULL;
	}
	return path;
}

/* Put a checksum behind it, and it into its place. The path; NULL: it is not kept. */
static char *keep(const struct compile *c, const char *made)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	char *path = join(c->cache, c->name, &why);
	int fd = open(made, O_RDWR | O_APPEND | O_CLOEXEC);
	bool ok = path && fd >= 0 && fchmod(fd, 0600) == 0 && lx_io_slurp(fd, &b, PLUGIN_MAX, "", &why) == 0;
	if (ok) {
		XXH128_canonical_t sum = sum_of(b.p, b.len);
		ok = lx_io_write(fd, &sum, sizeof(sum), &why) == 0 && rename(made, path) == 0;
	}
	if (fd >= 0)
		close(fd);
	lx_buf_free(&b);
	if (!ok) {
		free(path);
		path = NULL;
	}
	return path;
}

/* ---- the compiler ---- */

static int write_header(const char *dir, struct lx_err *e)
{
	char *lx = join(dir, "lx", e), *path = lx ? join(lx, "kernel.h", e) : NULL;
	int fd = path && mkdir(lx, 0700) == 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
	int rc = fd < 0 ? lx_err_sys(e, "%s/lx/kernel.h", dir) : lx_io_write(fd, lx_kernel_header, strlen(lx_kernel_header), e);
	if (fd >= 0)
		close(fd);
	free(lx);
	free(path);
	return rc;
}

/* Until it ends, a minute passes, or we are told to stop. */
static int await_child(struct lx_child *child, const struct compile *c, struct lx_err *e)
{
	uint64_t end = lx_io_now_ns() + COMPILE_MS * 1000000ull;
	int status, ended = 0;
	while ((ended = lx_child_ended(child, &status, e)) == 0 && !lx_sig_asked() && lx_io_now_ns() < end) {
		struct pollfd p[] = { { .fd = child->pidfd, .events = POLLIN }, { .fd = lx_sig_fd(), .events = POLLIN } };
		if (poll(p, 2, 1000) < 0 && errno != EINTR)
			break;
	}
	lx_child_kill(child, SIGKILL);
	if (ended < 0 || lx_child_wait(child, true, &status, e) < 0)
		return -1;
	if (ended == 0 && lx_sig_asked())
		return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	if (ended == 0)
		return lx_err_set(e, LX_USAGE, "%s was not done after %d s", c->cc, COMPILE_MS / 1000);
	if (WIFSIGNALED(status))
		return lx_err_set(e, LX_USAGE, "%s was ended by signal %d", c->cc, WTERMSIG(status));
	return WEXITSTATUS(status) ? lx_err_set(e, LX_USAGE, "it does not compile: see what %s wrote above", c->cc) : 0;
}

static int run_compiler(const struct compile *c, const char *out, const char *deps, struct lx_err *e)
{
	const char *argv[N_FLAGS + 16] = { c->cc };
	size_t n = 1;
	for (size_t i = 0; i < N_FLAGS; i++)
		argv[n++] = flags[i];
	const char *rest[] = { "-MF", deps, "-o", out, "-isystem", c->dir, c->file };
	for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++)
		argv[n++] = rest[i];
	/* What it says is the user's, and nothing of it may get into the stream. */
	const struct lx_spawn s = { .argv = (char *const *)(void *)argv, .in = -1, .out = 2, .err = 2, .keep = -1 };
	struct lx_child child = LX_CHILD_NONE;
	struct lx_err why = LX_ERR_INIT;
	if (lx_spawn_check(c->cc, &why) < 0)
		return lx_err_set(e, LX_USAGE, "no C compiler to compile it with: %s (set CC, or use --plugin)", why.msg);
	return lx_spawn(&s, &child, e) < 0 ? -1 : await_child(&child, c, e);
}

/* Whether the file includes another one that is not the system's: "OUT: FILE OTHER". */
static bool has_others(const char *deps)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	size_t n = 0;
	int fd = open(deps, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && lx_io_slurp(fd, &b, LX_COMPILE_SOURCE, "", &why) == 0 && lx_buf_cstr(&b))
		for (const char *p = (const char *)b.p; *p; p++) {
			bool first = p > (const char *)b.p && (p[-1] == ' ' || p[-1] == '\n'), escapes = *p == '\\' && p[1];
			n += first && !strchr(" \n", *p) && !(escapes && p[1] == '\n');
			p += escapes;
		}
	if (fd >= 0)
		close(fd);
	lx_buf_free(&b);
	return n != 1;
}

static int compile(struct compile *c, struct lx_compiled *to, struct lx_err *e)
{
	char *deps = join(c->dir, "deps", e);
	to->path = join(c->dir, "kernel.so", e);
	int rc = deps && to->path && write_header(c->dir, e) == 0 ? run_compiler(c, to->path, deps, e) : -1;
	if (rc == 0 && c->cache && !has_others(deps)) {
		char *kept = keep(c, to->path);
		if (kept) {
			free(to->path);
			to->path = kept;
		}
	}
	free(deps);
	return rc;
}

int lx_compile(const char *file, const struct lx_buf *source, struct lx_compiled *to, struct lx_err *e)
{
	const char *cc = getenv("CC");
	struct lx_err why = LX_ERR_INIT;
	struct compile c = { .file = file, .cc = cc && *cc ? cc : "cc", .cache = cache_dir() };
	*to = (struct lx_compiled){ 0 };
	name_of(&c, source);
	if ((to->path = find_kept(&c, e))) {
		free(c.cache);
		return 0;
	}
	/* In the cache itself: a rename does not leave a file system. */
	c.dir = to->dir = c.cache ? lx_dir_make(c.cache, &why) : NULL;
	if (!c.dir) {
		free(c.cache);
		c.cache = NULL;
		c.dir = to->dir = lx_dir_make(NULL, e);
	}
	int rc = c.dir ? compile(&c, to, e) : -1;
	free(c.cache);
	if (rc < 0)
		lx_compiled_free(to);
	return rc;
}

void lx_compiled_free(struct lx_compiled *c)
{
	struct lx_err why = LX_ERR_INIT;
	if (c->dir)
		lx_dir_remove(c->dir, &why);
	free(c->dir);
	free(c->path);
	*c = (struct lx_compiled){ 0 };
}

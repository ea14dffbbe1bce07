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
#include <sys/mman.h>
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
	const char *file;
	const struct lx_buf *source;
	const char *cc;
	char *program; /* where that lies */
	char *kept;    /* the path of what is kept of it; NULL: nothing is */
	char *dir;     /* for the compiler */
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

int lx_compile_read(const char *file, uint64_t max, const char *max_text, struct lx_buf *to, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	struct stat st;
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	if (fd < 0)
		return lx_err_set(e, LX_USAGE, "%s", strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		rc = lx_err_set(e, LX_USAGE, "not a regular file, and it is read more than once");
	else if (lx_io_slurp(fd, to, max, max_text, &why) < 0)
		rc = lx_err_set(e, LX_USAGE, "%s", why.msg);
	close(fd);
	return rc < 0 || lx_buf_cstr(to) ? rc : lx_buf_check(to, e);
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

/* Its name says of what it was made, by what and how. */
static char *kept_path(const struct compile *c)
{
	struct lx_err why = LX_ERR_INIT;
	struct stat st = { 0 };
	char name[48], *path = NULL, *dir = c->program && stat(c->program, &st) == 0 ? cache_dir() : NULL;
	XXH3_state_t *h = dir ? XXH3_createState() : NULL;
	if (h) {
		const uint64_t compiler[] = { st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec };
		XXH3_128bits_reset(h);
		XXH3_128bits_update(h, c->source->p, c->source->len + 1);
		XXH3_128bits_update(h, lx_kernel_header, strlen(lx_kernel_header) + 1);
		XXH3_128bits_update(h, compiler, sizeof(compiler));
		XXH3_128bits_update(h, c->cc, strlen(c->cc) + 1);
		for (size_t i = 0; i < N_FLAGS; i++)
			XXH3_128bits_update(h, flags[i], strlen(flags[i]) + 1);
		XXH128_hash_t sum = XXH3_128bits_digest(h);
		snprintf(name, sizeof(name), "%016llx%016llx.so", (unsigned long long)sum.high64, (unsigned long long)sum.low64);
		path = join(dir, name, &why);
	}
	XXH3_freeState(h);
	free(dir);
	return path;
}

static XXH128_canonical_t sum_of(const uint8_t *p, size_t len)
{
	XXH128_canonical_t sum;
	XXH128_canonicalFromHash(&sum, XXH3_128bits(p, len));
	return sum;
}

/* false: there is no whole one. */
static bool find_kept(const char *path, struct lx_buf *object)
{
	struct lx_err why = LX_ERR_INIT;
	struct stat st;
	XXH128_canonical_t sum;
	bool whole = false;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ours_alone(&st) && lx_io_slurp(fd, object, PLUGIN_MAX, "", &why) == 0 && object->len > sizeof(sum)) {
		object->len -= sizeof(sum);
		sum = sum_of(object->p, object->len);
		whole = memcmp(object->p + object->len, &sum, sizeof(sum)) == 0;
	}
	close(fd);
	if (!whole)
		lx_buf_clear(object);
	return whole;
}

/* With a checksum behind it. Where that cannot be, it is made again next time. */
static void keep(const char *path, const struct lx_buf *object)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_outfile f;
	struct stat st;
	XXH128_canonical_t sum = sum_of(object->p, object->len);
	if ((lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) || lx_outfile_open(&f, path, &why) < 0)
		return;
	if (fchmod(f.fd, 0600) == 0 && lx_io_write(f.fd, object->p, object->len, &why) == 0 && lx_io_write(f.fd, &sum, sizeof(sum), &why) == 0)
		lx_outfile_commit(&f, &why);
	else
		lx_outfile_discard(&f);
}

/* ---- the compiler ---- */

static int write_file(const char *path, struct lx_span bytes, struct lx_err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return lx_err_sys(e, "%s", path);
	int rc = lx_io_write(fd, bytes.p, bytes.len, e);
	close(fd);
	return rc < 0 ? lx_err_prefix(e, "%s", path) : 0;
}

static int write_header(const char *dir, struct lx_err *e)
{
	char *lx = join(dir, "lx", e), *path = lx ? join(lx, "kernel.h", e) : NULL;
	int rc = !path ? -1 : mkdir(lx, 0700) < 0 ? lx_err_sys(e, "%s", lx) : write_file(path, lx_span_str(lx_kernel_header), e);
	free(lx);
	free(path);
	return rc;
}

/* What was read, under the file's name: by now that may be another file, and to the compiler it is where it is one of our descriptors. */
static int write_source(const struct compile *c, const char *path, struct lx_err *e)
{
	struct lx_buf b = { 0 };
	lx_buf_str(&b, "#line 1 \"");
	for (const char *p = c->file; *p; p++)
		lx_buf_printf(&b, (unsigned char)*p < ' ' || strchr("\"\\\177", *p) ? "\\%03o" : "%c", (unsigned char)*p);
	lx_buf_str(&b, "\"\n");
	lx_buf_span(&b, lx_buf_view(c->source));
	int rc = lx_buf_check(&b, e) < 0 ? -1 : write_file(path, lx_buf_view(&b), e);
	lx_buf_free(&b);
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

/* Of a file that is no source the first errors are enough. Clang gives up after 20 unasked, and does not know the flag. */
static bool wants_limit(const char *program)
{
	char *path = realpath(program, NULL);
	bool wants = !path || !strstr(strrchr(path, '/'), "clang");
	free(path);
	return wants;
}

static int run_compiler(const struct compile *c, const char *source, const char *out, const char *deps, struct lx_err *e)
{
	const char *argv[N_FLAGS + 16] = { c->cc };
	size_t n = 1;
	char tmp[4096 + sizeof("TMPDIR=")], *beside = strndup(c->file, (size_t)(strrchr(c->file, '/') - c->file) + 1);
	if (!beside)
		return lx_err_sys(e, "%s", c->file);
	for (size_t i = 0; i < N_FLAGS; i++)
		argv[n++] = flags[i];
	if (wants_limit(c->program))
		argv[n++] = "-fmax-errors=20";
	const char *rest[] = { "-MF", deps, "-o", out, "-iquote", beside, "-isystem", c->dir, source };
	for (size_t i = 0; i < sizeof(rest) / sizeof(*rest); i++)
		argv[n++] = rest[i];
	/* What it needs for a while goes with the folder, also when it is ended before it is done. */
	snprintf(tmp, sizeof(tmp), "TMPDIR=%s", c->dir);
	char *const env[] = { tmp, NULL };
	/* What it says is the user's, and nothing of it may get into the stream. */
	const struct lx_spawn s = { .argv = (char *const *)(void *)argv, .env = env, .in = -1, .out = 2, .err = 2, .keep = -1 };
	struct lx_child child = LX_CHILD_NONE;
	int rc = lx_spawn(&s, &child, e);
	free(beside);
	return rc < 0 ? -1 : await_child(&child, c, e);
}

/* Whether the file includes another one that is not the system's: "OUT: FILE OTHER". */
static bool has_others(const char *deps)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	size_t n = 0;
	if (lx_compile_read(deps, LX_COMPILE_SOURCE, "", &b, &why) == 0)
		for (const char *p = (const char *)b.p; *p; p++) {
			bool first = p > (const char *)b.p && (p[-1] == ' ' || p[-1] == '\n'), escapes = *p == '\\' && p[1];
			n += first && !strchr(" \n", *p) && !(escapes && p[1] == '\n');
			p += escapes;
		}
	lx_buf_free(&b);
	return n != 1;
}

static int compile_in_dir(const struct compile *c, struct lx_buf *object, struct lx_err *e)
{
	char *source = join(c->dir, "kernel.c", e), *deps = join(c->dir, "deps", e), *out = join(c->dir, "kernel.so", e);
	int rc = source && deps && out && write_header(c->dir, e) == 0 && write_source(c, source, e) == 0 ? run_compiler(c, source, out, deps, e) : -1;
	if (rc == 0)
		rc = lx_compile_read(out, PLUGIN_MAX, "256 MiB", object, e);
	if (rc == 0 && c->kept && !has_others(deps))
		keep(c->kept, object);
	free(source);
	free(deps);
	free(out);
	return rc;
}

static int compile(struct compile *c, struct lx_buf *object, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	if (!c->program)
		return -1;
	c->dir = lx_dir_make(NULL, &why);
	if (!c->dir)
		return lx_err_set(e, LX_SYSTEM, "no folder for the compiler in %s: %s (TMPDIR)", lx_io_tmpdir(NULL), strerror(why.sys));
	int rc = compile_in_dir(c, object, e);
	lx_dir_remove(c->dir, &why);
	free(c->dir);
	return rc;
}

/* A file of its own, so that nobody can change or remove what was checked, and one that may be run wherever the folder lies. */
static int object_file(const struct compile *c, const struct lx_buf *object, struct lx_err *e)
{
	int fd = memfd_create("kernel", MFD_CLOEXEC);
	if (fd < 0)
		return lx_err_sys(e, "memfd_create");
	if (lx_io_write(fd, object->p, object->len, e) == 0)
		return fd;
	close(fd);
	return lx_err_prefix(e, "%s", c->file);
}

int lx_compile(const char *file, const struct lx_buf *source, struct lx_err *e)
{
	const char *cc = getenv("CC");
	struct lx_err why = LX_ERR_INIT;
	struct lx_buf object = { 0 };
	struct compile c = { .file = file, .source = source, .cc = cc && *cc ? cc : "cc" };
	const uint8_t *nul = memchr(source->p, 0, source->len);
	if (nul)
		return lx_err_set(e, LX_USAGE, "no source: byte %zu is NUL", (size_t)(nul - source->p));
	c.program = lx_spawn_find(c.cc, &why);
	if (!c.program)
		return lx_err_set(e, LX_USAGE, "no C compiler to compile it with: %s (set CC, or use --plugin)", why.msg);
	c.kept = kept_path(&c);
	bool found = c.kept && find_kept(c.kept, &object);
	int fd = found || compile(&c, &object, e) == 0 ? object_file(&c, &object, e) : -1;
	lx_buf_free(&object);
	free(c.kept);
	free(c.program);
	return fd;
}

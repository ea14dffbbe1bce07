#include "nvrtc.h"

#include "compile.h"
#include "sig.h"
#include "threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The calls used, as the library has them: its header is not needed to build. */
typedef struct program *program;
#define CALLS(X) \
	X(nvrtcCreateProgram, (program *, const char *source, const char *name, int n, const char *const *headers, const char *const *names)) \
	X(nvrtcCompileProgram, (program, int n, const char *const *options)) \
	X(nvrtcDestroyProgram, (program *)) \
	X(nvrtcGetProgramLogSize, (program, size_t *)) \
	X(nvrtcGetProgramLog, (program, char *)) \
	X(nvrtcGetCUBINSize, (program, size_t *)) \
	X(nvrtcGetCUBIN, (program, char *)) \
	X(nvrtcGetPTXSize, (program, size_t *)) \
	X(nvrtcGetPTX, (program, char *)) \
	X(nvrtcGetNumSupportedArchs, (int *)) \
	X(nvrtcGetSupportedArchs, (int *))

static struct {
#define MEMBER(f, args) int (*f) args;
	CALLS(MEMBER)
} rtc;

static int open_library(struct lx_err *e)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so",
		                             "/usr/local/cuda/lib64/libnvrtc.so", "/usr/local/cuda/lib/libnvrtc.so" };
	static void *library;
#define LOAD(f, args) { #f, (void **)&rtc.f },
	const struct {
		const char *name;
		void **to;
	} calls[] = { CALLS(LOAD) };
	if (library)
		return 0;
	for (size_t i = 0; !library && i < sizeof(names) / sizeof(*names); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return lx_err_set(e, LX_WORKER, "no libnvrtc to compile it for the CUDA device (it comes with the CUDA toolkit; or --device cpu)");
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!(*calls[i].to = dlsym(library, calls[i].name))) {
			library = NULL;
			return lx_err_set(e, LX_WORKER, "libnvrtc is too old: it lacks %s", calls[i].name);
		}
	return 0;
}

/* The newest architecture it knows that is not over the wanted one; 0: it knows none. */
static int arch_for(int wanted)
{
	int n = 0, best = 0;
	int *all = rtc.nvrtcGetNumSupportedArchs(&n) == 0 && n > 0 ? calloc((size_t)n, sizeof(*all)) : NULL;
	if (all && rtc.nvrtcGetSupportedArchs(all) == 0)
		for (int i = 0; i < n; i++)
			if (all[i] <= wanted && all[i] > best)
				best = all[i];
	free(all);
	return best;
}

static void take_log(program p, struct lx_buf *log)
{
	size_t n = 0;
	char *to = rtc.nvrtcGetProgramLogSize(p, &n) == 0 && n > 1 ? (char *)lx_buf_room(log, n) : NULL;
	if (to && rtc.nvrtcGetProgramLog(p, to) == 0)
		log->len += strnlen(to, n);
}

static int take_image(program p, bool cubin, struct lx_buf *image, struct lx_err *e)
{
	size_t n = 0;
	int rc = cubin ? rtc.nvrtcGetCUBINSize(p, &n) : rtc.nvrtcGetPTXSize(p, &n);
	char *to = rc == 0 ? (char *)lx_buf_room(image, n + 1) : NULL;
	if (rc == 0 && to && (rc = cubin ? rtc.nvrtcGetCUBIN(p, to) : rtc.nvrtcGetPTX(p, to)) == 0)
		image->len += n;
	if (rc)
		return lx_err_set(e, LX_WORKER, "libnvrtc: error %d", rc);
	return lx_buf_cstr(image) ? 0 : lx_buf_check(image, e);
}

static int compile(program p, const char *file, int wanted, struct lx_buf *image, struct lx_buf *log, struct lx_err *e)
{
	const char *slash = strrchr(file, '/');
	char arch[48], include[4096 + sizeof("--include-path=")];
	int known = arch_for(wanted);
	if (!known)
		return lx_err_set(e, LX_WORKER, "libnvrtc knows no device as old as compute capability %d.%d", wanted / 10, wanted % 10);
	snprintf(arch, sizeof(arch), "--gpu-architecture=%s_%d", known == wanted ? "sm" : "compute", known);
	snprintf(include, sizeof(include), "--include-path=%.*s", slash ? (int)(slash - file) : 1, slash ? file : ".");
	const char *const options[] = { arch, include, "--std=c++17" };
	int rc = rtc.nvrtcCompileProgram(p, 3, options);
	take_log(p, log);
	return rc ? lx_err_set(e, LX_USAGE, "it does not compile for the CUDA device") : take_image(p, known == wanted, image, e);
}

static int run(struct lx_nvrtc_job *j, struct lx_err *e)
{
	/* kernel.h has the types of stdint.h itself there. */
	const char *const headers[] = { lx_kernel_header, "" }, *const names[] = { "lx/kernel.h", "stdint.h" };
	program p = NULL;
	if (open_library(e) < 0)
		return -1;
	int rc = rtc.nvrtcCreateProgram(&p, j->source, j->file, 2, headers, names);
	if (rc)
		return lx_err_set(e, LX_WORKER, "libnvrtc: error %d", rc);
	rc = compile(p, j->file, 10 * j->major + j->minor, &j->image, &j->log, e);
	rtc.nvrtcDestroyProgram(&p);
	return rc;
}

/* ---- beside the caller, who hears signals meanwhile ---- */

static void *serve(void *arg)
{
	struct lx_nvrtc_job *j = arg;
	uint64_t one = 1;
	j->rc = run(j, &j->err);
	while (write(j->event, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return NULL;
}

int lx_nvrtc_compile(struct lx_nvrtc_job *j, struct lx_err *e)
{
	pthread_t id;
	j->err = (struct lx_err)LX_ERR_INIT;
	j->event = eventfd(0, EFD_CLOEXEC);
	if (j->event < 0)
		return lx_err_sys(e, "eventfd");
	struct pollfd p[] = { { .fd = j->event, .events = POLLIN }, { .fd = lx_sig_fd(), .events = POLLIN } };
	int rc = lx_thread_start(&id, serve, j) == 0 ? 0 : lx_err_set(e, LX_SYSTEM, "no thread to compile in");
	while (rc == 0 && !p[0].revents && !lx_sig_asked())
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			rc = lx_err_sys(e, "poll");
	if (rc == 0 && !p[0].revents)
		return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	if (rc == 0)
		pthread_join(id, NULL);
	close(j->event);
	if (rc < 0 || j->rc == 0)
		return rc;
	*e = j->err;
	return -1;
}

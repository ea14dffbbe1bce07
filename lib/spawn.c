#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rlimit files_before; /* rlim_max 0: never raised */

void lx_spawn_raise_files(void)
{
	struct rlimit l;
	if (files_before.rlim_max || getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	files_before = l;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

/* ---- finding the program ---- */

static bool is_program(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return false;
	if (S_ISREG(st.st_mode) && faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0)
		return true;
	errno = S_ISDIR(st.st_mode) ? EISDIR : EACCES;
	return false;
}

static int refuse(const char *program, const char *why, int sys, struct lx_err *e)
{
	if (e->code != LX_OK)
		return -1;
	lx_err_set(e, LX_USAGE, "cannot start '%s': %s", program, why);
	e->sys = sys;
	return -1;
}

char *lx_spawn_find(const char *program, struct lx_err *e)
{
	char *path = NULL;
	int why = ENOENT;
	if (!*program) {
		refuse(program, "the name is empty", ENOENT, e);
		return NULL;
	}
	if (strchr(program, '/')) {
		if (!is_program(program)) {
			refuse(program, strerror(errno), errno, e);
			return NULL;
		}
		path = strdup(program);
		if (!path)
			lx_err_sys(e, "cannot start '%s'", program);
		return path;
	}
	const char *dir = getenv("PATH");
	for (dir = dir ? dir : "/bin:/usr/bin"; dir; dir = *dir ? dir + 1 : NULL) {
		size_t len = strcspn(dir, ":");
		if (asprintf(&path, "%.*s/%s", len ? (int)len : 1, len ? dir : ".", program) < 0) {
			lx_err_sys(e, "cannot start '%s'", program);
			return NULL;
		}
		if (is_program(path))
			return path;
		if (errno == EACCES || errno == EISDIR)
			why = errno;
		free(path);
		dir += len;
	}
	refuse(program, why == ENOENT ? "not found in PATH" : strerror(why), why, e);
	return NULL;
}

int lx_spawn_check(const char *program, struct lx_err *e)
{
	char *path = lx_spawn_find(program, e);
	free(path);
	return path ? 0 : -1;
}

/* ---- environment ---- */

static bool same_name(const char *var, const char *change)
{
	size_t n = strcspn(change, "=");
	return strncmp(var, change, n) == 0 && (var[n] == '=' || var[n] == '\0');
}

static bool is_changed(const char *var, char *const *changes)
{
	for (; changes && *changes; changes++)
		if (same_name(var, *changes))
			return true;
	return false;
}

/* The array is allocated, the strings are not. Of two changes of one name the later counts. An inherited LX_FAIL
 * is left out: the descriptor it names does not reach the child. */
static char **make_env(char *const *changes)
{
	size_t n = 0, max = 1;
	for (char **v = environ; v && *v; v++)
		max++;
	for (char *const *c = changes; c && *c; c++)
		max++;
	char **env = malloc(max * sizeof(*env));
	if (!env)
		return NULL;
	for (char **v = environ; v && *v; v++)
		if (!is_changed(*v, changes) && !same_name(*v, "LX_FAIL"))
			env[n++] = *v;
	for (char *const *c = changes; c && *c; c++)
		if (strchr(*c, '=') && !is_changed(*c, c + 1))
			env[n++] = *c;
	env[n] = NULL;
	return env;
}

/* ---- the child ---- */

/* Everything the child needs, made before vfork: it shares our memory and may only call what a signal
 * handler may. */
struct start {
	const char *path;
	char *const *argv;
	char **sh_argv; /* /bin/sh PATH ARGS, for a file the kernel cannot run */
	char **env;
	int fd[3], keep, death; /* death: the signal when we end first */
	pid_t parent;
	struct {
		int err; /* errno of the step that failed; 0: the program runs */
		bool at_exec;
	} volatile *said; /* in a shared page: valgrind makes a fork of vfork */
};

/* Descriptors 0-2 from fd[], whatever their numbers are; the others close on exec. */
static bool child_fds(const struct start *s)
{
	int fd[3];
	for (int i = 0; i < 3; i++) {
		fd[i] = s->fd[i];
		if (i == 0 && fd[i] < 0)
			fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (i == 0 && fd[i] < 0)
			return false;
		/* Out of the way of the dup2 calls below. */
		if (fd[i] >= 0 && fd[i] < 3 && fd[i] != i && (fd[i] = fcntl(fd[i], F_DUPFD_CLOEXEC, 3)) < 0)
			return false;
	}
	for (int i = 0; i < 3; i++) {
		if (fd[i] == i ? fcntl(i, F_SETFD, 0) < 0 : fd[i] >= 0 && dup2(fd[i], i) < 0)
			return false;
	}
	/* Kernels before 5.11 lack the flag: there what we opened is close-on-exec and the rest is the caller's. */
	close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
	return s->keep < 0 || fcntl(s->keep, F_SETFD, 0) == 0;
}

static bool child_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		sigaction(sig, &dfl, NULL); /* refused for SIGKILL, SIGSTOP and glibc's own */
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) == 0;
}

static bool child_setup(const struct start *s)
{
	if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, s->death) < 0)
		return false;
	if (getppid() != s->parent) /* it ended before the prctl */
		_exit(127);
	if (files_before.rlim_max && setrlimit(RLIMIT_NOFILE, &files_before) < 0)
		return false;
	return child_fds(s) && child_signals();
}

__attribute__((noinline, noreturn)) static void child(const struct start *s)
{
	if (child_setup(s)) {
		s->said->at_exec = true;
		execve(s->path, s->argv, s->env);
		if (errno == ENOEXEC)
			execve("/bin/sh", s->sh_argv, s->env);
	}
	s->said->err = errno;
	_exit(127);
}

/* Signals are blocked around it, so that no handler of ours runs in the child on our memory. */
__attribute__((noinline)) static pid_t start_child(const struct start *s)
{
	sigset_t all, old;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid_t pid = vfork();
	if (pid == 0)
		child(s);
	int saved = errno;
	sigprocmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return pid;
}

/* ---- starting ---- */

/* Is it the user's choice of program that is wrong, or the system? */
static bool is_users_fault(int sys)
{
	switch (sys) {
	case ENOENT: case EACCES: case EPERM: case ENOTDIR: case EISDIR: case ELOOP: case ENAMETOOLONG:
	case ENOEXEC: case EINVAL: case E2BIG: case ELIBBAD:
		return true;
	default:
		return false;
	}
}

static int reap(pid_t pid, int flags, int *status)
{
	for (;;) {
		pid_t got = waitpid(pid, status, flags);
		if (got >= 0 || errno != EINTR)
			return got;
	}
}

static int start_failed(const char *program, pid_t pid, int sys, bool at_exec, struct lx_err *e)
{
	int status;
	reap(pid, 0, &status);
	if (at_exec && is_users_fault(sys))
		return refuse(program, strerror(sys), sys, e);
	errno = sys;
	return lx_err_sys(e, "cannot start '%s'", program);
}

static int start(const struct lx_spawn *sp, struct start *s, struct lx_child *c, struct lx_err *e)
{
	static void *page = NULL;
	if (!page) {
		page = mmap(NULL, sizeof(*s->said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED) {
			page = NULL;
			return lx_err_sys(e, "cannot start '%s'", sp->argv[0]);
		}
	}
	s->said = page;
	s->said->err = 0;
	s->said->at_exec = false;
	pid_t pid = start_child(s);
	if (pid < 0)
		return lx_err_sys(e, "cannot start '%s'", sp->argv[0]);
	if (s->said->err)
		return start_failed(sp->argv[0], pid, s->said->err, s->said->at_exec, e);
	*c = (struct lx_child){ .pid = pid, .pidfd = pidfd_open(pid, 0) };
	if (c->pidfd >= 0)
		return 0;
	int sys = errno;
	lx_child_kill(c, SIGKILL);
	*c = (struct lx_child)LX_CHILD_NONE;
	return start_failed(sp->argv[0], pid, sys, false, e);
}

static char **make_sh_argv(const char *path, char *const *argv)
{
	size_t n = 0;
	while (argv[n])
		n++;
	char **sh = malloc((n + 2) * sizeof(*sh));
	if (!sh)
		return NULL;
	sh[0] = (char *)"sh";
	sh[1] = (char *)path;
	for (size_t i = 1; i <= n; i++)
		sh[i + 1] = argv[i];
	return sh;
}

int lx_spawn(const struct lx_spawn *sp, struct lx_child *c, struct lx_err *e)
{
	*c = (struct lx_child)LX_CHILD_NONE;
	char *path = lx_spawn_find(sp->argv[0], e);
	if (!path)
		return -1;
	struct start s = {
		.path = path,
		.argv = sp->argv,
		.sh_argv = make_sh_argv(path, sp->argv),
		.env = make_env(sp->env),
		.fd = { sp->in, sp->out, sp->err },
		.keep = sp->keep,
		.death = sp->tidy ? SIGTERM : SIGKILL,
		.parent = getpid(),
	};
	int rc = s.sh_argv && s.env ? start(sp, &s, c, e) : lx_err_sys(e, "cannot start '%s'", sp->argv[0]);
	free(s.sh_argv);
	free(s.env);
	free(path);
	return rc;
}

/* ---- the running child ---- */

void lx_child_kill(const struct lx_child *c, int sig)
{
	if (c->pid > 0)
		kill(-c->pid, sig);
}

int lx_child_ended(const struct lx_child *c, int *status, struct lx_err *e)
{
	siginfo_t si = { .si_pid = 0 };
	while (waitid(P_PID, (id_t)c->pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0)
		if (errno != EINTR)
			return lx_err_sys(e, "waiting for process %ld", (long)c->pid);
	if (si.si_pid == 0)
		return 0;
	if (si.si_code == CLD_EXITED)
		*status = W_EXITCODE(si.si_status & 0xff, 0);
	else
		*status = W_EXITCODE(0, si.si_status) | (si.si_code == CLD_DUMPED ? WCOREFLAG : 0);
	return 1;
}

int lx_child_wait(struct lx_child *c, bool block, int *status, struct lx_err *e)
{
	pid_t got = -1;
	errno = ECHILD;
	if (c->pid > 0) /* waitpid takes 0 for any child */
		got = reap(c->pid, block ? 0 : WNOHANG, status);
	if (got < 0)
		return lx_err_sys(e, "waiting for process %ld", (long)c->pid);
	if (got == 0)
		return 0;
	close(c->pidfd);
	*c = (struct lx_child)LX_CHILD_NONE;
	return 1;
}

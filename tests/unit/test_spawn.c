#include "io.h"
#include "spawn.h"

#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 60000 /* an upper bound: every wait is for a condition */

static struct lx_err err;
static struct lx_buf said; /* stdout of the last run() */

static void check_ok(int rc)
{
	if (rc < 0)
		printf("# %s\n", err.msg);
	CHECK(rc >= 0);
}

static int start(char *const *argv, char *const *env, int out, int keep, struct lx_child *c)
{
	struct lx_spawn s = { .argv = argv, .env = env, .in = -1, .out = out, .err = -1, .keep = keep };
	err = (struct lx_err)LX_ERR_INIT;
	return lx_spawn(&s, c, &err);
}

/* The wait status, stdout in `said` as a C string; -1 when it did not start. */
static int run_env(char *const *argv, char *const *env, int keep)
{
	int p[2], status = -1;
	struct lx_child c;
	lx_buf_clear(&said);
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	int rc = start(argv, env, p[1], keep, &c);
	close(p[1]);
	if (rc == 0) {
		check_ok(lx_io_slurp(p[0], &said, 1 << 20, "", &err));
		CHECK(lx_child_wait(&c, true, &status, &err) == 1);
		CHECK(c.pid == 0 && c.pidfd == -1);
	}
	close(p[0]);
	lx_buf_cstr(&said);
	return status;
}

#define ARGV(...) ((char *[]){ __VA_ARGS__, NULL })
#define SH(script) ARGV((char *)"sh", (char *)"-c", (char *)(script))
#define RUN_SH(script) run_env(SH(script), NULL, -1)

static bool says(const char *text)
{
	if (strcmp((char *)said.p, text) == 0)
		return true;
	printf("# said '%s'\n", (char *)said.p);
	return false;
}

static void runs_and_tells_how_it_ended(void)
{
	CHECK(RUN_SH("echo hello; exit 3") == W_EXITCODE(3, 0) && says("hello\n"));
	CHECK(run_env(ARGV((char *)"/bin/echo", (char *)"a b", (char *)""), NULL, -1) == 0 && says("a b \n"));
	CHECK(RUN_SH("kill -9 $$") == SIGKILL);
	CHECK(RUN_SH("cat") == 0 && says("")); /* stdin is /dev/null */
}

static void looks_without_reaping(void)
{
	struct lx_child c;
	int status = -1;
	CHECK(start(SH("kill -TERM $$"), NULL, -1, -1, &c) == 0);
	struct pollfd p = { .fd = c.pidfd, .events = POLLIN };
	CHECK(poll(&p, 1, WAIT_MS) == 1);
	CHECK(lx_child_ended(&c, &status, &err) == 1 && status == SIGTERM);
	CHECK(lx_child_ended(&c, &status, &err) == 1 && kill(c.pid, 0) == 0);
	status = -1;
	CHECK(lx_child_wait(&c, false, &status, &err) == 1 && status == SIGTERM);
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_child_wait(&c, true, &status, &err) == -1 && err.code == LX_SYSTEM);
	CHECK(start(SH("exec sleep 1000"), NULL, -1, -1, &c) == 0);
	CHECK(lx_child_ended(&c, &status, &err) == 0 && lx_child_wait(&c, false, &status, &err) == 0);
	lx_child_kill(&c, SIGKILL);
	CHECK(lx_child_wait(&c, true, &status, &err) == 1 && status == SIGKILL);
}

/* Write an executable file. */
static char *script(const char *dir, const char *name, const char *text, mode_t mode)
{
	static char path[4][256];
	static int n;
	char *p = path[n++ % 4];
	snprintf(p, 256, "%s/%s", dir, name);
	int fd = open(p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
	return p;
}

static bool refused(char *const *argv, int sys, const char *message)
{
	int status = run_env(argv, NULL, -1);
	if (status == -1 && err.code == LX_USAGE && err.sys == sys && strcmp(err.msg, message) == 0)
		return true;
	printf("# status %d, code %d, errno %d, '%s'\n", status, err.code, err.sys, err.msg);
	return false;
}

static void says_why_it_cannot_start(void)
{
	char dir[] = "/tmp/lx-test.XXXXXX", want[400];
	CHECK(mkdtemp(dir));
	CHECK(refused(ARGV((char *)"lx-no-such"), ENOENT, "cannot start 'lx-no-such': not found in PATH"));
	CHECK(refused(ARGV((char *)""), ENOENT, "cannot start '': the name is empty"));
	CHECK(refused(ARGV((char *)"/lx/no such"), ENOENT, "cannot start '/lx/no such': No such file or directory"));
	CHECK(refused(ARGV((char *)"/tmp"), EISDIR, "cannot start '/tmp': Is a directory"));
	char *plain = script(dir, "plain", "#!/bin/sh\n", 0644);
	snprintf(want, sizeof(want), "cannot start '%s': Permission denied", plain);
	CHECK(refused(ARGV(plain), EACCES, want));
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_spawn_check("sh", &err) == 0 && lx_spawn_check(plain, &err) == -1 && err.code == LX_USAGE);
	/* Only exec can tell. */
	char *bad = script(dir, "bad", "#!/lx/no-such-interpreter\n", 0755);
	snprintf(want, sizeof(want), "cannot start '%s': No such file or directory", bad);
	CHECK(refused(ARGV(bad), ENOENT, want));
	char *bare = script(dir, "bare", "echo \"$0|$1|$2\"\n", 0755);
	snprintf(want, sizeof(want), "%s|x y|-c\n", bare);
	CHECK(run_env(ARGV(bare, (char *)"x y", (char *)"-c"), NULL, -1) == 0 && says(want));
	unlink(plain), unlink(bad), unlink(bare);
	CHECK(rmdir(dir) == 0);
}

static void too_long_arguments_are_told_apart(void)
{
	char *big = malloc(300000);
	memset(big, 'x', 299999);
	big[299999] = '\0';
	CHECK(refused(ARGV((char *)"true", big), E2BIG, "cannot start 'true': Argument list too long"));
	free(big);
}

static void a_path_is_searched_as_execvp_does(void)
{
	char dir[] = "/tmp/lx-test.XXXXXX", path[600], *old = strdup(getenv("PATH"));
	CHECK(mkdtemp(dir));
	char *plain = script(dir, "lx-probe", "#!/bin/sh\necho one\n", 0644);
	snprintf(path, sizeof(path), "/lx/none:%s:%s", dir, old);
	setenv("PATH", path, 1);
	CHECK(refused(ARGV((char *)"lx-probe"), EACCES, "cannot start 'lx-probe': Permission denied"));
	chmod(plain, 0755);
	CHECK(run_env(ARGV((char *)"lx-probe"), NULL, -1) == 0 && says("one\n"));
	setenv("PATH", old, 1);
	unlink(plain);
	CHECK(rmdir(dir) == 0);
	free(old);
}

static void only_the_given_descriptors_reach_it(void)
{
	int leak = open("/dev/null", O_RDONLY); /* as left open by our caller: not close-on-exec */
	int keep = fcntl(leak, F_DUPFD, 77);
	CHECK(leak > 2 && keep == 77);
	/* 3 is the directory that ls itself reads. */
	CHECK(run_env(ARGV((char *)"ls", (char *)"/proc/self/fd"), NULL, -1) == 0 && says("0\n1\n2\n3\n"));
	CHECK(run_env(ARGV((char *)"ls", (char *)"/proc/self/fd"), NULL, keep) == 0 && says("0\n1\n2\n3\n77\n"));
	CHECK(fcntl(keep, F_GETFD) == 0); /* our own are as they were */
	close(leak);
	close(keep);
}

static void descriptors_may_cross(void)
{
	int a[2], b[2], save[3], status;
	char got[16] = "";
	struct lx_child c;
	CHECK(pipe2(a, O_CLOEXEC) == 0 && pipe2(b, O_CLOEXEC) == 0);
	fflush(stdout);
	for (int i = 0; i < 3; i++)
		save[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
	dup2(a[1], 1);
	dup2(b[1], 2);
	dup2(open("/dev/zero", O_RDONLY | O_CLOEXEC), 0);
	struct lx_spawn s = { .argv = SH("echo out; echo err >&2; head -c1 | od -An -tx1"), .in = 0, .out = 2, .err = 1, .keep = -1 };
	err = (struct lx_err)LX_ERR_INIT;
	int rc = lx_spawn(&s, &c, &err);
	for (int i = 0; i < 3; i++)
		dup2(save[i], i), close(save[i]);
	check_ok(rc);
	close(a[1]), close(b[1]);
	CHECK(lx_child_wait(&c, true, &status, &err) == 1 && status == 0);
	CHECK(read(a[0], got, sizeof(got)) == 4 && memcmp(got, "err\n", 4) == 0);
	CHECK(read(b[0], got, sizeof(got)) == 8 && memcmp(got, "out\n 00\n", 8) == 0);
	close(a[0]), close(b[0]);
}

#define SIGNALS "signals" /* argv[1]: be the child that says which of its signals are not as at a login */

static int say_signals(void)
{
	sigset_t blocked;
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		struct sigaction as;
		if (sigaction(sig, NULL, &as) < 0)
			continue; /* glibc's own: whoever started the tests may have left them ignored */
		if (as.sa_handler == SIG_IGN || sigismember(&blocked, sig))
			printf("%d%s%s\n", sig, as.sa_handler == SIG_IGN ? " ignored" : "", sigismember(&blocked, sig) ? " blocked" : "");
	}
	return 0;
}

static void signals_are_default_and_unblocked(void)
{
	sigset_t set, old;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &old);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	CHECK(run_env(ARGV((char *)"/proc/self/exe", (char *)SIGNALS), NULL, -1) == 0 && says(""));
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigset_t now;
	sigprocmask(SIG_SETMASK, &old, &now);
	CHECK(sigismember(&now, SIGUSR1) == 1 && sigismember(&now, SIGTERM) == 0);
}

static void a_group_is_killed_as_one(void)
{
	int p[2], status;
	char up[8];
	struct lx_child c;
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	CHECK(start(SH("sleep 1000 & sleep 1000 & echo up; exit 0"), NULL, p[1], -1, &c) == 0);
	close(p[1]);
	CHECK(getpgid(c.pid) == c.pid);
	CHECK(read(p[0], up, 3) == 3);
	struct pollfd ended = { .fd = c.pidfd, .events = POLLIN };
	CHECK(poll(&ended, 1, WAIT_MS) == 1); /* the leader has ended, the others hold the pipe */
	CHECK(!lx_io_ready(p[0]));
	lx_child_kill(&c, SIGKILL);
	CHECK(lx_io_wait(p[0], WAIT_MS, &err) == 1 && read(p[0], up, 1) == 0);
	CHECK(lx_child_wait(&c, true, &status, &err) == 1 && status == 0);
	close(p[0]);
}

static void it_dies_with_its_parent(void)
{
	int p[2];
	char got[8];
	struct lx_child c;
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	fflush(stdout);
	pid_t middle = fork();
	if (middle == 0) {
		if (start(SH("echo up; exec sleep 1000"), NULL, p[1], -1, &c) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	close(p[1]);
	int status;
	CHECK(waitpid(middle, &status, 0) == middle && WIFSIGNALED(status));
	/* It may have been killed before it said a word. */
	ssize_t n;
	do
		CHECK(lx_io_wait(p[0], WAIT_MS, &err) == 1);
	while ((n = read(p[0], got, sizeof(got))) > 0);
	CHECK(n == 0);
	close(p[0]);
}

static void the_environment_is_changed(void)
{
	setenv("LX_A", "inherited", 1);
	setenv("LX_B", "inherited", 1);
	setenv("LX_BB", "other", 1);
	char *env[] = { (char *)"LX_A=first", (char *)"LX_B", (char *)"LX_C=with = and space", (char *)"LX_A=second", NULL };
	CHECK(run_env(SH("echo \"$LX_A|${LX_B-unset}|$LX_BB|$LX_C\"; env | grep -c ^LX_A="), env, -1) == 0);
	CHECK(says("second|unset|other|with = and space\n1\n"));
	setenv("LX_FAIL", "77", 1); /* a descriptor of ours: the child has none */
	CHECK(RUN_SH("echo \"$LX_A|$LX_B|${LX_FAIL-unset}\"") == 0 && says("inherited|inherited|unset\n"));
	env[0] = (char *)"LX_FAIL=20";
	CHECK(run_env(SH("echo $LX_FAIL"), env, -1) == 0 && says("20\n"));
	unsetenv("LX_FAIL"), unsetenv("LX_A"), unsetenv("LX_B"), unsetenv("LX_BB");
}

static void it_has_the_callers_file_limit(void)
{
	struct rlimit l, now;
	CHECK(getrlimit(RLIMIT_NOFILE, &l) == 0);
	l.rlim_cur = 200;
	CHECK(setrlimit(RLIMIT_NOFILE, &l) == 0);
	lx_spawn_raise_files();
	lx_spawn_raise_files();
	CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == l.rlim_max);
	CHECK(RUN_SH("ulimit -Sn") == 0 && says("200\n"));
}

static void no_descriptor_is_left_open(void)
{
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(before);
	for (int i = 0; i < 20; i++) {
		CHECK(RUN_SH("exit 1") == W_EXITCODE(1, 0));
		CHECK(run_env(ARGV((char *)"/lx/none"), NULL, -1) == -1);
	}
	int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(before == after);
	close(after);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], SIGNALS) == 0)
		return say_signals();
	RUN(runs_and_tells_how_it_ended);
	RUN(looks_without_reaping);
	RUN(says_why_it_cannot_start);
	RUN(too_long_arguments_are_told_apart);
	RUN(a_path_is_searched_as_execvp_does);
	RUN(only_the_given_descriptors_reach_it);
	RUN(descriptors_may_cross);
	RUN(signals_are_default_and_unblocked);
	RUN(a_group_is_killed_as_one);
	RUN(it_dies_with_its_parent);
	RUN(the_environment_is_changed);
	RUN(no_descriptor_is_left_open);
	RUN(it_has_the_callers_file_limit);
	lx_buf_free(&said);
	return tap_done();
}

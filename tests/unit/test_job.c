#include "job.h"
#include "dir.h"

#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 60000 /* an upper bound: every wait is for a condition */
#define S(s) ((char *)(s))
#define MB (1u << 20)

static struct lx_err err;
static struct lx_plan plan;
static struct lx_buf bytes;
static struct lx_rec rec;
static struct lx_job job;
static struct lx_job_conf conf;
static char tmpdir[] = "/tmp/lx-test.XXXXXX";

/* doc > page > region; the item is page 12.3 with the fields name and big. */
static void make_world(void)
{
	struct lx_id id = { .n = 2, .ord = { 12, 3 } };
	struct lx_limits limits = LX_LIMITS_DEFAULT;
	size_t used;
	lx_plan_init(&plan);
	strcpy(plan.run, "r");
	strcpy(plan.domains[0].name, "doc");
	plan.domains[0].parent = -1;
	plan.n_domains = 1;
	CHECK(lx_plan_expand(&plan, "page", 0, (struct lx_tolerance){ 0 }, &err) == 1);
	CHECK(lx_plan_expand(&plan, "region", 1, (struct lx_tolerance){ 0 }, &err) == 2);
	char *big = malloc(300000);
	memset(big, 'b', 300000);
	lx_rec_item_head(&bytes, 1, &id);
	lx_pack_map(&bytes, 3);
	lx_pack_cstr(&bytes, "name");
	lx_pack_cstr(&bytes, "a  b\n");
	lx_pack_cstr(&bytes, "big");
	lx_pack_bin(&bytes, (struct lx_span){ (uint8_t *)big, 300000 });
	lx_pack_cstr(&bytes, "nul");
	lx_pack_bin(&bytes, (struct lx_span){ (const uint8_t *)"\0", 1 });
	free(big);
	CHECK(lx_rec_parse(bytes.p, bytes.len, &limits, &rec, &used, &err) == 0);
}

/* Start argv as the job. 0 or -1. */
static int begin(char *const *argv, struct lx_span input)
{
	lx_job_clear(&job);
	err = (struct lx_err)LX_ERR_INIT;
	conf.plan = &plan;
	conf.domain = 1;
	struct lx_tmpl *t = lx_tmpl_new(argv, &err);
	if (!t) {
		printf("# %s\n", err.msg);
		return -1;
	}
	conf.tmpl = t;
	int rc = lx_job_start(&job, &conf, &rec, input, tmpdir, &err);
	lx_tmpl_free(t);
	conf.tmpl = NULL;
	return rc;
}

/* One poll and one step; false when nothing happened for WAIT_MS. */
static bool turn(bool hold)
{
	struct pollfd p[4];
	uint64_t now = lx_io_now_ns();
	int timeout = WAIT_MS;
	if (job.deadline_ns)
		timeout = job.deadline_ns > now ? (int)((job.deadline_ns - now) / 1000000) + 1 : 0;
	int ready = poll(p, (nfds_t)lx_job_fds(&job, p, hold), timeout);
	int rc = lx_job_step(&job, &conf, lx_io_now_ns(), &err);
	if (rc < 0)
		printf("# %s\n", err.msg);
	return rc == 0 && (ready != 0 || job.deadline_ns);
}

/* To its end. */
static enum lx_job_end finish(void)
{
	while (job.end == LX_JOB_RUNNING)
		if (!turn(false)) {
			CHECK(!"it hangs or failed");
			return LX_JOB_RUNNING;
		}
	return job.end;
}

static enum lx_job_end run(const char *script, struct lx_span input)
{
	CHECK(begin((char *[]){ S("sh"), S("-c"), S(script), NULL }, input) == 0);
	return finish();
}

static enum lx_job_end run_sh(const char *script)
{
	return run(script, (struct lx_span){ 0 });
}

static bool is_message(const char *want)
{
	if (job.message.len == strlen(want) && memcmp(job.message.p, want, job.message.len) == 0)
		return true;
	printf("# message '%.*s', not '%s'\n", (int)job.message.len, (char *)job.message.p, want);
	return false;
}

static bool is_type(const char *type, const char *message)
{
	if (strcmp(job.type, type) != 0)
		printf("# type '%s', not '%s'\n", job.type, type);
	return is_message(message) && strcmp(job.type, type) == 0;
}

static bool is_output(const char *want)
{
	if (job.output.len == strlen(want) && memcmp(job.output.p, want, job.output.len) == 0)
		return true;
	printf("# output '%.*s', not '%s'\n", (int)job.output.len, (char *)job.output.p, want);
	return false;
}

static void reset(void)
{
	lx_job_clear(&job);
	conf = (struct lx_job_conf){ .max_output = 64 * MB };
}

/* ---- data in and out ---- */

static void input_goes_in_and_output_comes_out(void)
{
	reset();
	CHECK(run("tr a-z A-Z; echo done", lx_span_str("hello ")) == LX_JOB_OK && is_output("HELLO done\n"));
	CHECK(strcmp(job.type, "") == 0 && job.message.len == 0 && job.out_eof);
	CHECK(run("wc -c | tr -d ' '", (struct lx_span){ (const uint8_t *)"", 0 }) == LX_JOB_OK && is_output("0\n"));
	CHECK(run_sh("readlink /proc/self/fd/0") == LX_JOB_OK && is_output("/dev/null\n"));
	CHECK(run_sh("") == LX_JOB_OK && is_output(""));
}

static struct lx_span megabytes(size_t n)
{
	static uint8_t p[10 * MB];
	for (size_t i = 0; i < n * MB; i++)
		p[i] = (uint8_t)(i * 2654435761u >> 13);
	return (struct lx_span){ p, n * MB };
}

static void both_directions_move_at_once(void)
{
	reset();
	struct lx_span in = megabytes(10);
	CHECK(run("cat", in) == LX_JOB_OK && lx_span_eq(lx_buf_view(&job.output), in));
	/* 10 MB out before the first byte is read. */
	CHECK(run("head -c 10000000 /dev/zero; wc -c | tr -d ' '", in) == LX_JOB_OK);
	CHECK(job.output.len == 10000000 + 9 && memcmp(job.output.p + 10000000, "10485760\n", 9) == 0);
	/* One that never reads, one that reads a little, one that closes stdin and goes on. */
	CHECK(run("echo x", in) == LX_JOB_OK && is_output("x\n"));
	CHECK(run("head -c 3 >/dev/null; echo x", in) == LX_JOB_OK && is_output("x\n"));
	CHECK(run("exec 0<&-; head -c 3000000 /dev/zero; exec true", in) == LX_JOB_OK && job.output.len == 3000000);
}

static void sigpipe_is_as_it_was(void)
{
	sigset_t pending;
	struct sigaction act;
	reset();
	CHECK(run("exec true", megabytes(4)) == LX_JOB_OK);
	CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
	CHECK(sigaction(SIGPIPE, NULL, &act) == 0 && act.sa_handler == SIG_DFL);
	sigset_t mask;
	CHECK(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && !sigismember(&mask, SIGPIPE));
}

static void the_owner_may_hold_the_output(void)
{
	reset();
	conf.max_output = 0;
	CHECK(begin((char *[]){ S("head"), S("-c"), S("20000000"), S("/dev/zero"), NULL }, (struct lx_span){ 0 }) == 0);
	size_t total = 0, most = 0;
	while (job.end == LX_JOB_RUNNING && turn(job.output.len >= LX_JOB_HELD)) {
		if (job.output.len > most)
			most = job.output.len;
		if (job.output.len < LX_JOB_HELD && job.end == LX_JOB_RUNNING)
			continue;
		total += job.output.len;
		lx_buf_clear(&job.output);
	}
	CHECK(job.end == LX_JOB_OK && total == 20000000 && most >= LX_JOB_HELD && most < 4 * LX_JOB_HELD);
}

static void held_output_stays_in_the_pipe(void)
{
	struct pollfd p[4];
	reset();
	conf.max_output = 0;
	CHECK(begin((char *[]){ S("cat"), S("/dev/zero"), NULL }, (struct lx_span){ 0 }) == 0);
	while (job.output.len < LX_JOB_HELD && turn(false))
		;
	size_t held = job.output.len;
	for (int i = 0; i < 10; i++)
		CHECK(lx_job_step(&job, &conf, lx_io_now_ns(), &err) == 0);
	CHECK(job.end == LX_JOB_RUNNING && job.output.len == held);
	CHECK(lx_job_fds(&job, p, false) == 3 && lx_job_fds(&job, p, true) == 2);
}

static void too_much_output_is_oversize(void)
{
	reset();
	conf.max_output = 100000;
	CHECK(run_sh("head -c 100000 /dev/zero") == LX_JOB_OK && job.output.len == 100000);
	CHECK(run_sh("head -c 100001 /dev/zero") == LX_JOB_DATA && is_type("oversize", "wrote over 100000 bytes (--max-record)"));
	CHECK(run_sh("cat /dev/zero") == LX_JOB_DATA && is_type("oversize", "wrote over 100000 bytes (--max-record)"));
	CHECK(job.output.len < 4 * MB);
}

/* ---- how it ends ---- */

static void its_end_is_told_apart(void)
{
	reset();
	conf.quiet = true;
	CHECK(run_sh("exit 1") == LX_JOB_DATA && is_type("exit", "exit status 1"));
	CHECK(run_sh("echo 'not a PDF' >&2; exit 3") == LX_JOB_DATA && is_type("exit", "exit status 3: not a PDF"));
	CHECK(run_sh("echo later >&2; exit 75") == LX_JOB_RETRY && is_type("exit", "exit status 75: later"));
	CHECK(run_sh("kill -9 $$") == LX_JOB_LOST && is_type("crash", "killed by SIGKILL"));
	CHECK(run_sh("echo 'going down' >&2; kill -SEGV $$") == LX_JOB_LOST && is_type("crash", "killed by SIGSEGV: going down"));
	CHECK(run_sh("exit 127") == LX_JOB_DATA && is_type("exit", "exit status 127"));
	CHECK(run_sh("echo only a warning >&2") == LX_JOB_OK && is_message("only a warning"));
	CHECK(run_sh("true") == LX_JOB_OK && is_message(""));
}

static void a_deadline_kills_the_whole_group(void)
{
	reset();
	conf.quiet = true;
	conf.timeout_ms = 300;
	CHECK(run_sh("echo busy >&2; sleep 1000") == LX_JOB_LOST && is_type("timeout", "still running after 0.3 s (--timeout): busy"));
	/* The grandchild alone holds stdout. */
	CHECK(run_sh("sleep 1000 & exit 0") == LX_JOB_LOST && strcmp(job.type, "timeout") == 0);
	CHECK(run_sh("trap '' TERM INT; while :; do sleep 1000; done") == LX_JOB_LOST && strcmp(job.type, "timeout") == 0);
	/* Out of our reach, and still it ends. */
	CHECK(run_sh("setsid sleep 5 & exit 0") == LX_JOB_LOST && strcmp(job.type, "timeout") == 0);
	conf.timeout_ms = WAIT_MS;
	CHECK(run_sh("echo fast") == LX_JOB_OK && is_output("fast\n"));
}

static void an_end_before_the_deadline_counts_even_when_seen_late(void)
{
	reset();
	conf.timeout_ms = WAIT_MS;
	CHECK(begin((char *[]){ S("true"), NULL }, (struct lx_span){ 0 }) == 0);
	CHECK(lx_io_wait(job.child.pidfd, WAIT_MS, &err) == 1);
	CHECK(lx_job_step(&job, &conf, job.deadline_ns + 1, &err) == 0 && job.end == LX_JOB_OK);
}

static void a_grandchild_may_keep_stdout_or_stderr(void)
{
	char fifo[300], script[500];
	reset();
	snprintf(fifo, sizeof(fifo), "%s/fifo", tmpdir);
	CHECK(mkfifo(fifo, 0600) == 0);
	/* It holds stderr for ever: not waited for. */
	CHECK(run_sh("sleep 1000 >/dev/null & echo out") == LX_JOB_OK && is_output("out\n"));
	/* It writes stdout after its parent has ended: waited for. */
	snprintf(script, sizeof(script), "{ read x <%s; echo \"$x\"; } & echo first", fifo);
	CHECK(begin((char *[]){ S("sh"), S("-c"), script, NULL }, (struct lx_span){ 0 }) == 0);
	while (!job.gone && turn(false))
		;
	CHECK(job.gone && job.end == LX_JOB_RUNNING);
	int fd = open(fifo, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, "second\n", 7) == 7 && close(fd) == 0);
	CHECK(finish() == LX_JOB_OK && is_output("first\nsecond\n"));
	unlink(fifo);
}

static void clearing_ends_everything(void)
{
	int p[2];
	char c;
	reset();
	CHECK(pipe2(p, O_CLOEXEC) == 0);
	/* The write end is duplicated into the group through /proc, and gone when all of it is. */
	char script[200];
	snprintf(script, sizeof(script), "exec 3>/proc/%ld/fd/%d; sleep 1000 & echo up; wait", (long)getpid(), p[1]);
	CHECK(begin((char *[]){ S("bash"), S("-c"), script, NULL }, (struct lx_span){ 0 }) == 0);
	while (job.output.len < 3 && turn(false))
		;
	CHECK(is_output("up\n"));
	close(p[1]);
	CHECK(!lx_io_ready(p[0]));
	lx_job_clear(&job);
	CHECK(lx_io_wait(p[0], WAIT_MS, &err) == 1 && read(p[0], &c, 1) == 0);
	close(p[0]);
	CHECK(job.child.pid == 0 && job.in == -1 && job.out == -1 && job.err == -1 && job.fail == -1);
	lx_job_clear(&job);
}

static void what_cannot_start_is_usage(void)
{
	reset();
	CHECK(begin((char *[]){ S("lx-no-such-program"), NULL }, (struct lx_span){ 0 }) == -1 && err.code == LX_USAGE);
	lx_job_clear(&job);
}

static void a_template_that_cannot_be_filled_fails_the_item(void)
{
	reset();
	CHECK(begin((char *[]){ S("true"), S("{nope}"), NULL }, (struct lx_span){ 0 }) == 0);
	CHECK(job.end == LX_JOB_DATA && is_type("no-field", "{nope}: the item has no such field") && job.child.pid == 0);
	lx_job_clear(&job);
	CHECK(begin((char *[]){ S("true"), S("{nul}"), NULL }, (struct lx_span){ 0 }) == 0);
	CHECK(job.end == LX_JOB_DATA && strcmp(job.type, "bad-field") == 0);
	lx_job_clear(&job);
	CHECK(begin((char *[]){ S("true"), S("{big}"), NULL }, (struct lx_span){ 0 }) == 0);
	CHECK(job.end == LX_JOB_DATA && strcmp(job.type, "bad-field") == 0 && err.code == LX_OK);
	CHECK(is_message("the fields are too long for the arguments and environment of a command: send them on stdin"));
}

/* ---- what it says ---- */

/* Run with our stderr on a file; its content as a C string. */
static char *said_by(const char *script, enum lx_job_end want)
{
	static struct lx_buf said;
	int file = lx_io_tmpfile(tmpdir, &err), saved = fcntl(2, F_DUPFD_CLOEXEC, 10);
	dup2(file, 2);
	enum lx_job_end end = run_sh(script);
	dup2(saved, 2);
	close(saved);
	CHECK(end == want);
	lseek(file, 0, SEEK_SET);
	lx_buf_clear(&said);
	CHECK(lx_io_slurp(file, &said, 64 * MB, "", &err) == 0);
	close(file);
	return lx_buf_cstr(&said);
}

static void stderr_is_passed_on_and_its_last_line_kept(void)
{
	reset();
	CHECK(strcmp(said_by("echo one >&2; printf 'two\\n\\n \\n' >&2; exit 1", LX_JOB_DATA), "one\ntwo\n\n \n") == 0);
	CHECK(is_message("exit status 1: two"));
	CHECK(strcmp(said_by("printf 'no end' >&2; exit 1", LX_JOB_DATA), "no end\n") == 0 && is_message("exit status 1: no end"));
	CHECK(strcmp(said_by("printf '1%%\\r2%%\\r\\n' >&2; exit 1", LX_JOB_DATA), "1%\r2%\r\n") == 0 && is_message("exit status 1: 2%"));
	CHECK(strcmp(said_by("printf 'a\\033[1mb\\tc\\001\\n' >&2; exit 1", LX_JOB_DATA), "a\033[1mb\tc\001\n") == 0);
	CHECK(is_message("exit status 1: a\\x1b[1mb c\\x01"));
	conf.quiet = true;
	CHECK(strcmp(said_by("echo one >&2; exit 1", LX_JOB_DATA), "") == 0 && is_message("exit status 1: one"));
}

static void long_lines_are_bounded(void)
{
	reset();
	char *said = said_by("head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 1", LX_JOB_DATA);
	CHECK(strlen(said) == 1000001 && said[1000000] == '\n' && strspn(said, "x") == 1000000);
	CHECK(job.message.len > 400 && job.message.len < 600 && job.line.cap < 200000);
	/* No UTF-8 sequence is cut: 499 bytes, then one of two. */
	said_by("{ head -c 499 /dev/zero | tr '\\0' x; printf '\\303\\251\\n'; } >&2; exit 1", LX_JOB_DATA);
	CHECK(job.message.len == strlen("exit status 1: ") + 499);
}

static void a_flood_on_stderr_blocks_nothing(void)
{
	reset();
	conf.quiet = true;
	CHECK(run("yes 'a line of noise' | head -n 500000 >&2; cat", megabytes(3)) == LX_JOB_OK);
	CHECK(job.output.len == 3 * MB && is_message("a line of noise"));
	/* stderr closed early, stdout closed early. */
	CHECK(run_sh("exec 2>&-; echo x") == LX_JOB_OK && is_output("x\n"));
	CHECK(run_sh("exec >&-; echo x >&2; exit 4") == LX_JOB_DATA && is_message("exit status 4: x"));
}

static void lines_are_passed_on_whole(void)
{
	int p[2];
	static char got[MB];
	size_t n = 0;
	reset();
	CHECK(pipe2(p, O_CLOEXEC | O_DIRECT) == 0); /* packets: one read is one write */
	(void)fcntl(p[1], F_SETPIPE_SZ, (int)MB);
	int saved = fcntl(2, F_DUPFD_CLOEXEC, 10);
	dup2(p[1], 2);
	close(p[1]);
	enum lx_job_end end = run_sh("seq -f 'line %g of some length' 2000 >&2");
	dup2(saved, 2);
	close(saved);
	CHECK(end == LX_JOB_OK);
	for (ssize_t k; (k = read(p[0], got, sizeof(got))) > 0; n += (size_t)k)
		CHECK(got[k - 1] == '\n' && k <= 4096);
	CHECK(n > 2000 * 20);
	close(p[0]);
}

/* ---- lx-fail ---- */

static void raised_failures_count(void)
{
	reset();
	conf.quiet = true;
	/* Every status that may follow. bash: dash knows no descriptors above 9. */
	static const char *const after[] = { "exit 0", "exit 1", "exit 75", "kill -9 $$" };
	for (size_t i = 0; i < 4; i++) {
		char script[200];
		snprintf(script, sizeof(script), "bash -c 'printf \"bad-page\\trecord\\tno text here\\n\" >&$LX_FAIL'; echo x; %s", after[i]);
		CHECK(run_sh(script) == LX_JOB_DATA && is_type("bad-page", "no text here") && strcmp(job.scope, "record") == 0);
	}
	conf.timeout_ms = 300;
	CHECK(run_sh("bash -c 'printf \"slow\\tdoc\\tm\\n\" >&$LX_FAIL'; sleep 1000") == LX_JOB_DATA && is_type("slow", "m"));
}

static bool raised(const char *lines, const char *type, const char *scope, const char *message)
{
	char script[600];
	snprintf(script, sizeof(script), "bash -c 'printf \"%s\" >&$LX_FAIL'", lines);
	if (run_sh(script) == LX_JOB_DATA && is_type(type, message) && strcmp(job.scope, scope) == 0)
		return true;
	printf("# %s: scope '%s', not '%s'\n", lines, job.scope, scope);
	return false;
}

static void the_widest_scope_wins_then_the_first(void)
{
	reset();
	CHECK(raised("a\\trecord\\t1\\nb\\tparent\\t2\\nc\\tdoc\\t3\\nd\\t\\t4\\n", "b", "parent", "2"));
	CHECK(raised("a\\tpage\\t1\\nb\\trecord\\t2\\n", "a", "page", "1"));
	CHECK(raised("a\\trecord\\t1\\nb\\tregion\\t2\\n", "b", "region", "2")); /* no ancestor: to be refused, not hidden */
	CHECK(raised("a\\tdoc\\t1\\nb\\tnowhere\\t2\\n", "b", "nowhere", "2"));
	CHECK(raised("only-a-type\\n", "only-a-type", "", ""));
	CHECK(raised("\\n\\ta\\n", "fail", "a", ""));
	CHECK(raised("t\\trecord\\twith\\ttabs \\001\\n", "t", "record", "with tabs \\x01"));
	conf.domain = 0;
	CHECK(raised("no-end\\tdoc\\tm", "no-end", "doc", "m"));
}

static void a_line_that_the_limit_cuts_does_not_count(void)
{
	reset();
	/* 9 bytes, 65,522 line ends, and a scope that would read "doc" without its TAB at 65,536 bytes. */
	CHECK(run_sh("bash -c '{ printf \"t\tpage\tm\n\"; head -c 65522 /dev/zero | tr \"\\0\" \"\\n\"; printf \"z\tdoc\tm\n\"; } >&$LX_FAIL'") == LX_JOB_DATA);
	CHECK(is_type("t", "m") && strcmp(job.scope, "page") == 0);
}

static void many_raise_at_once_without_waiting(void)
{
	reset();
	/* More than a pipe holds, before anybody reads. */
	CHECK(run_sh("bash -c 'for i in {1..4}; do for k in {1..5000}; do echo \"t$i\trecord\tmessage $k\"; done >&$LX_FAIL & done; wait'") == LX_JOB_DATA);
	CHECK(job.type[0] == 't' && is_message("message 1"));
}

/* ---- where it runs ---- */

static void it_sees_three_descriptors_and_lx_fail(void)
{
	reset();
	int leak = open("/dev/null", O_RDONLY);
	char want[64];
	CHECK(begin((char *[]){ S("sh"), S("-c"), S("echo $LX_FAIL; ls -v /proc/self/fd"), NULL }, lx_span_str("x")) == 0);
	snprintf(want, sizeof(want), "%d\n0\n1\n2\n3\n%d\n", job.fail, job.fail);
	CHECK(job.fail >= 20 && finish() == LX_JOB_OK && is_output(want));
	close(leak);
	/* Its descriptors block, whatever ours do. */
	CHECK(run("for i in 0 1 2; do grep flags /proc/self/fdinfo/$i; done", lx_span_str("x")) == LX_JOB_OK);
	int n = 0;
	for (char *p = lx_buf_cstr(&job.output); (p = strstr(p, "flags:")); n++)
		CHECK((strtol(p += 6, NULL, 8) & O_NONBLOCK) == 0);
	CHECK(n == 3);
}

static void no_descriptor_is_left_open(void)
{
	reset();
	conf.quiet = true;
	conf.dir = true;
	int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
	close(before);
	for (int i = 0; i < 10; i++) {
		CHECK(run("cat", lx_span_str("x")) == LX_JOB_OK);
		CHECK(run_sh("exit 1") == LX_JOB_DATA);
		lx_job_clear(&job);
		CHECK(begin((char *[]){ S("/lx/none"), NULL }, lx_span_str("x")) == -1);
		lx_job_clear(&job);
		CHECK(begin((char *[]){ S("sleep"), S("1000"), NULL }, lx_span_str("x")) == 0);
	}
	lx_job_clear(&job);
	int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(before == after);
	close(after);
}

static void its_environment_tells_the_item(void)
{
	static const char *const set[] = { "OMP_NUM_THREADS=1", NULL };
	struct lx_strs more = { 0 };
	reset();
	setenv("LX_DIR", "inherited", 1);
	CHECK(lx_strs_add(&more, "name", &err) == 0);
	conf.env = &more;
	conf.set_env = set;
	CHECK(run_sh("printf '%s|' $LX_ID $LX_ORDINAL $LX_DOMAIN $LX_RUN_ID \"$LX_FIELD_name\" ${LX_DIR-none} $OMP_NUM_THREADS") == LX_JOB_OK);
	CHECK(is_output("12.3|3|page|r|a  b\n|none|1|"));
	conf.env = NULL;
	CHECK(run_sh("printf %s \"$LX_FIELD_name\"") == LX_JOB_OK && is_output("a  b\n")); /* named by the script */
	lx_strs_free(&more);
	unsetenv("LX_DIR");
}

static void one_thread_unless_said_otherwise(void)
{
	unsetenv("OMP_NUM_THREADS"), unsetenv("OMP_THREAD_LIMIT");
	const char *const *v = lx_job_one_thread();
	CHECK(strcmp(v[0], "OMP_NUM_THREADS=1") == 0 && strcmp(v[1], "OMP_THREAD_LIMIT=1") == 0 && !v[2]);
	setenv("OMP_NUM_THREADS", "4", 1);
	v = lx_job_one_thread();
	CHECK(strcmp(v[0], "OMP_THREAD_LIMIT=1") == 0 && !v[1]);
	unsetenv("OMP_NUM_THREADS");
}

/* ---- the fresh directory ---- */

static int entries(const char *dir)
{
	int n = 0;
	DIR *d = opendir(dir);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

static void the_directory_is_fresh_and_removed(void)
{
	struct stat st;
	reset();
	CHECK(begin((char *[]){ S("touch"), S("{dir}/a"), S("{dir}/b"), NULL }, (struct lx_span){ 0 }) == 0);
	CHECK(finish() == LX_JOB_OK && job.dir && strncmp(job.dir, tmpdir, strlen(tmpdir)) == 0 && entries(job.dir) == 2);
	CHECK(stat(job.dir, &st) == 0 && (st.st_mode & 07777) == 0700);
	lx_job_clear(&job);
	CHECK(entries(tmpdir) == 0);
	conf.dir = true;
	CHECK(run_sh("cd \"$LX_DIR\" && pwd && mkdir sub") == LX_JOB_OK && entries(job.dir) == 1);
	CHECK(job.output.len == strlen(job.dir) + 1 && memcmp(job.output.p, job.dir, strlen(job.dir)) == 0);
	lx_job_clear(&job);
	CHECK(entries(tmpdir) == 0);
	CHECK(begin((char *[]){ S("/lx/none"), S("{dir}"), NULL }, (struct lx_span){ 0 }) == -1);
	lx_job_clear(&job);
	CHECK(entries(tmpdir) == 0);
}

static void removal_follows_no_link_and_stops_at_nothing(void)
{
	char keep[300], *dir = lx_dir_make(tmpdir, &err);
	snprintf(keep, sizeof(keep), "%s/keep", tmpdir);
	reset();
	CHECK(mkdir(keep, 0700) == 0);
	setenv("D", dir, 1);
	setenv("KEEP", keep, 1);
	CHECK(run_sh("set -e; echo x >\"$KEEP/file\"; cd \"$D\"; ln -s \"$KEEP\" link; ln -s \"$KEEP/file\" link2; ln -s . loop; ln -s nowhere dangling;"
	             "mkfifo fifo; touch -- '-rf' 'a b' \"$(printf '\\377\\n')\" lx0 lx1; mkdir -p lx2/lx0 .hid/den; touch .hid/den/x;"
	             "mkdir -p ro/ro2/ro3; touch ro/ro2/f; chmod 500 ro/ro2; chmod 000 ro") == LX_JOB_OK);
	int deep = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 3000; i++) { /* more than descriptors or PATH_MAX allow */
		CHECK(mkdirat(deep, "d", 0700) == 0 && mkdirat(deep, "side", 0700) == 0);
		int next = openat(deep, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(deep);
		deep = next;
	}
	close(deep);
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_dir_remove(dir, &err) == 0 && access(dir, F_OK) < 0);
	CHECK(entries(keep) == 1);
	CHECK(lx_dir_remove(keep, &err) == 0 && entries(tmpdir) == 0);
	CHECK(lx_dir_remove(dir, &err) == -1 && err.code == LX_SYSTEM);
	free(dir);
}

/* The same without the powers of root. */
static void removal_puts_permissions_right(void)
{
	char *dir = lx_dir_make(tmpdir, &err);
	CHECK(chmod(tmpdir, 0777) == 0 && (geteuid() != 0 || chown(dir, 65534, 65534) == 0));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(2);
		setenv("D", dir, 1);
		reset();
		if (run_sh("cd \"$D\" && mkdir -p a/b/c e && touch a/b/f e/g && chmod 500 a/b && chmod 0 e && chmod 300 a && chmod 500 .") != LX_JOB_OK)
			_exit(3);
		lx_job_clear(&job);
		_exit(lx_dir_remove(dir, &err) == 0 ? 0 : 4);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(entries(tmpdir) == 0);
	free(dir);
}

int main(void)
{
	CHECK(mkdtemp(tmpdir));
	make_world();
	lx_job_init(&job);
	RUN(input_goes_in_and_output_comes_out);
	RUN(both_directions_move_at_once);
	RUN(sigpipe_is_as_it_was);
	RUN(the_owner_may_hold_the_output);
	RUN(held_output_stays_in_the_pipe);
	RUN(too_much_output_is_oversize);
	RUN(its_end_is_told_apart);
	RUN(a_deadline_kills_the_whole_group);
	RUN(an_end_before_the_deadline_counts_even_when_seen_late);
	RUN(a_grandchild_may_keep_stdout_or_stderr);
	RUN(clearing_ends_everything);
	RUN(what_cannot_start_is_usage);
	RUN(a_template_that_cannot_be_filled_fails_the_item);
	RUN(stderr_is_passed_on_and_its_last_line_kept);
	RUN(long_lines_are_bounded);
	RUN(a_flood_on_stderr_blocks_nothing);
	RUN(lines_are_passed_on_whole);
	RUN(raised_failures_count);
	RUN(the_widest_scope_wins_then_the_first);
	RUN(a_line_that_the_limit_cuts_does_not_count);
	RUN(many_raise_at_once_without_waiting);
	RUN(it_sees_three_descriptors_and_lx_fail);
	RUN(no_descriptor_is_left_open);
	RUN(its_environment_tells_the_item);
	RUN(one_thread_unless_said_otherwise);
	RUN(the_directory_is_fresh_and_removed);
	RUN(removal_follows_no_link_and_stops_at_nothing);
	RUN(removal_puts_permissions_right);
	lx_job_free(&job);
	lx_plan_free(&plan);
	lx_buf_free(&bytes);
	rmdir(tmpdir);
	return tap_done();
}

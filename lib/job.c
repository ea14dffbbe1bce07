#include "job.h"

#include "dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAIL_FD_MIN 20        /* above the numbers that scripts use for their own redirections */
#define FAIL_BYTES_MAX 65536u /* of what lx-fail wrote; the rest is not looked at */
#define LINE_MAX_BYTES 65536u /* a stderr line that is longer is passed on in parts */
#define MESSAGE_MAX 500u      /* bytes of a cause's message that come from the command */
/* A command that writes a page of megabytes in pieces of 4 KiB is not run after for each of them, which costs both: once so
 * much of its output waits to be cut, a read that got less gives it a moment to write on. */
#define NAP_BYTES 65536
#define NAP_NS 200000
#define KEEP_BYTES (16u << 20) /* a larger output buffer is not kept for the next item */

void lx_job_init(struct lx_job *j)
{
	*j = (struct lx_job){ .child = LX_CHILD_NONE, .in = -1, .out = -1, .err = -1, .fail = -1 };
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

const char *const *lx_job_one_thread(void)
{
	static const char *const names[] = { "OMP_NUM_THREADS", "OMP_THREAD_LIMIT" };
	static const char *const vars[] = { "OMP_NUM_THREADS=1", "OMP_THREAD_LIMIT=1" };
	static const char *list[3];
	size_t n = 0;
	for (size_t i = 0; i < 2; i++)
		if (!getenv(names[i]))
			list[n++] = vars[i];
	list[n] = NULL;
	return list;
}

/* ---- messages ---- */

/* Append at most MESSAGE_MAX bytes of what a command said, on one line: control bytes shown as \xNN, no UTF-8 sequence cut. */
static void add_printable(struct lx_buf *b, struct lx_span s)
{
	size_t n = s.len < MESSAGE_MAX ? s.len : MESSAGE_MAX;
	while (n < s.len && n && (s.p[n] & 0xc0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++) {
		if (s.p[i] == '\t')
			lx_buf_byte(b, ' ');
		else if (s.p[i] < 0x20 || s.p[i] == 0x7f)
			lx_buf_printf(b, "\\x%02x", s.p[i]);
		else
			lx_buf_byte(b, s.p[i]);
	}
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct lx_span trim(struct lx_span s)
{
	while (s.len && is_blank(s.p[s.len - 1]))
		s.len--;
	while (s.len && is_blank(*s.p)) {
		s.p++;
		s.len--;
	}
	return s;
}

/* Remember the last line of s that says something. Progress bars end theirs with a carriage return. */
static void note_last_line(struct lx_job *j, struct lx_span s)
{
	s = trim(s);
	if (!s.len)
		return;
	size_t from = s.len;
	while (from && s.p[from - 1] != '\n' && s.p[from - 1] != '\r')
		from--;
	lx_buf_clear(&j->message);
	add_printable(&j->message, trim((struct lx_span){ s.p + from, s.len - from }));
}

static void end_as(struct lx_job *j, enum lx_job_end end, const char *type)
{
	j->end = end;
	snprintf(j->type, sizeof(j->type), "%s", type);
}

/* The message becomes "WHAT: LAST LINE". */
__attribute__((format(printf, 2, 3))) static void put_before(struct lx_job *j, const char *fmt, ...)
{
	char what[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	size_t n = strlen(what), sep = j->message.len ? 2 : 0, said = j->message.len;
	if (!lx_buf_room(&j->message, n + sep))
		return;
	memmove(j->message.p + n + sep, j->message.p, said);
	memcpy(j->message.p, what, n);
	memcpy(j->message.p + n, ": ", sep);
	j->message.len = n + sep + said;
}

/* ---- start ---- */

/* A file in memory that every writer appends to. */
static int make_fail_file(struct lx_err *e)
{
	int fd = memfd_create("lx-fail", MFD_CLOEXEC);
	int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FAIL_FD_MIN) : -1;
	if (high < 0 || fcntl(high, F_SETFL, O_APPEND) < 0) {
		lx_err_sys(e, "a file for lx-fail");
		close_fd(&high);
	}
	close_fd(&fd);
	return high;
}

/* A pipe whose end `ours` does not block. The other end is another open file: the command's blocks as usual. */
static int make_pipe(int *ours, int *theirs, bool we_write, bool large, struct lx_err *e)
{
	int fd[2];
	if (large ? lx_io_pipe(fd, e) < 0 : pipe2(fd, O_CLOEXEC) < 0)
		return lx_err_sys(e, "pipe");
	*ours = fd[we_write];
	*theirs = fd[!we_write];
	if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0)
		return lx_err_sys(e, "pipe");
	return 0;
}

static int make_pipes(struct lx_job *j, struct lx_spawn *s, struct lx_err *e)
{
	/* Only what can be full for long is worth a large pipe: the kernel bounds their sum for each user. */
	if (j->input.p && make_pipe(&j->in, &s->in, true, j->input.len > 65536, e) < 0)
		return -1;
	if (make_pipe(&j->out, &s->out, false, true, e) < 0 || make_pipe(&j->err, &s->err, false, false, e) < 0)
		return -1;
	j->fail = s->keep = make_fail_file(e);
	return j->fail < 0 ? -1 : 0;
}

/* Data failure before anything ran. */
static int fail_item(struct lx_job *j, const char *type, const char *message)
{
	end_as(j, LX_JOB_DATA, type);
	lx_buf_clear(&j->message);
	lx_buf_str(&j->message, message);
	return 0;
}

static int start_command(struct lx_job *j, const struct lx_job_conf *c, const struct lx_rec *r, char **argv, struct lx_err *e)
{
	struct lx_spawn s = { .argv = argv, .in = -1, .out = -1, .err = -1, .keep = -1 };
	int rc = make_pipes(j, &s, e);
	if (rc == 0) {
		struct lx_tmpl_env x = { c->plan, c->env, c->set_env, j->dir, j->fail };
		s.env = lx_tmpl_env(c->tmpl, &x, r, &j->envp);
		rc = s.env ? lx_spawn(&s, &j->child, e) : lx_buf_check(&j->envp, e);
	}
	close_fd(&s.in);
	close_fd(&s.out);
	close_fd(&s.err);
	return rc;
}

int lx_job_start(struct lx_job *j, const struct lx_job_conf *c, const struct lx_rec *r, struct lx_span input,
                 const char *tmpdir, struct lx_err *e)
{
	struct lx_tmpl_why why;
	j->input = input;
	j->started_ns = lx_io_now_ns();
	j->deadline_ns = c->timeout_ms ? j->started_ns + c->timeout_ms * 1000000u : 0;
	if ((c->dir || lx_tmpl_uses_dir(c->tmpl)) && !(j->dir = lx_dir_make(tmpdir, e)))
		return -1;
	char **argv = lx_tmpl_fill(c->tmpl, r, j->dir, &j->argv, &why);
	if (!argv)
		return why.type ? fail_item(j, why.type, why.message) : lx_buf_check(&j->argv, e);
	if (start_command(j, c, r, argv, e) == 0)
		return 0;
	if (e->sys != E2BIG)
		return -1;
	*e = (struct lx_err)LX_ERR_INIT;
	return fail_item(j, "bad-field", "the fields are too long for the arguments and environment of a command: send them on stdin");
}

/* ---- moving bytes ---- */

/* write(2) to a reader that may leave. SIGPIPE says that the reader of our stdout has gone, so it is
 * blocked here and the one that this write raised is taken away. */
static ssize_t write_without_sigpipe(int fd, const void *p, size_t n)
{
	static const struct timespec now = { 0 };
	sigset_t pipe_set, old;
	sigemptyset(&pipe_set);
	sigaddset(&pipe_set, SIGPIPE);
	sigprocmask(SIG_BLOCK, &pipe_set, &old);
	ssize_t got = write(fd, p, n);
	int saved = errno;
	if (got < 0 && saved == EPIPE && !sigismember(&old, SIGPIPE))
		while (sigtimedwait(&pipe_set, NULL, &now) < 0 && errno == EINTR)
			;
	sigprocmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return got;
}

static int feed(struct lx_job *j, struct lx_err *e)
{
	while (j->in >= 0 && j->input.len) {
		ssize_t got = write_without_sigpipe(j->in, j->input.p, j->input.len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return 0;
		if (got < 0 && errno != EPIPE)
			return lx_err_sys(e, "writing to a command");
		if (got < 0) /* it wants no more: its right */
			break;
		j->input.p += got;
		j->input.len -= (size_t)got;
	}
	close_fd(&j->in);
	return 0;
}

static void kill_job(struct lx_job *j, const char *why)
{
	lx_child_kill(&j->child, SIGKILL);
	j->killed = why;
	close_fd(&j->in);
}

/* Read until it would block, but not for ever: other jobs wait. */
static int take_output(struct lx_job *j, const struct lx_job_conf *c, struct lx_err *e)
{
	uint64_t limit = c->max_output ? c->max_output : LX_JOB_HELD - 1;
	for (size_t turn = 0; turn < LX_JOB_HELD && j->out >= 0 && j->output.len <= limit;) {
		if (!lx_buf_room(&j->output, 65536))
			return lx_buf_check(&j->output, e);
		ssize_t got = read(j->out, j->output.p + j->output.len, j->output.cap - j->output.len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return 0;
		if (got < 0)
			return lx_err_sys(e, "reading from a command");
		if (got == 0) {
			close_fd(&j->out);
			j->out_eof = true;
		}
		j->output.len += (size_t)got;
		turn += (size_t)got;
		if (got && got < NAP_BYTES && j->output.len >= NAP_BYTES)
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	}
	if (c->max_output && j->output.len > c->max_output && !j->killed)
		kill_job(j, "oversize");
	return 0;
}

/* ---- stderr ---- */

/* Whole lines, as many in one write as a pipe takes in one piece. What stderr says to that is of no interest. */
static void pass_on(const struct lx_job_conf *c, const uint8_t *p, size_t n)
{
	struct lx_err ignored = LX_ERR_INIT;
	while (n && !c->quiet) {
		size_t some = n;
		if (n > PIPE_BUF) {
			const uint8_t *end = memrchr(p, '\n', PIPE_BUF);
			if (!end)
				end = memchr(p, '\n', n);
			some = end ? (size_t)(end - p) + 1 : n;
		}
		lx_io_write(2, p, some, &ignored);
		p += some;
		n -= some;
	}
}

static void take_lines(struct lx_job *j, const struct lx_job_conf *c)
{
	struct lx_buf *b = &j->line;
	const uint8_t *end = b->len ? memrchr(b->p, '\n', b->len) : NULL;
	size_t whole = end ? (size_t)(end - b->p) + 1 : 0;
	if (!whole && b->len >= LINE_MAX_BYTES)
		whole = b->len;
	if (!whole)
		return;
	pass_on(c, b->p, whole);
	note_last_line(j, (struct lx_span){ b->p, whole });
	memmove(b->p, b->p + whole, b->len - whole);
	b->len -= whole;
}

static int take_stderr(struct lx_job *j, const struct lx_job_conf *c, struct lx_err *e)
{
	for (size_t turn = 0; turn < LX_JOB_HELD && j->err >= 0;) {
		if (!lx_buf_room(&j->line, 16384))
			return lx_buf_check(&j->line, e);
		ssize_t got = read(j->err, j->line.p + j->line.len, 16384);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return 0;
		if (got < 0)
			return lx_err_sys(e, "reading from a command");
		if (got == 0)
			close_fd(&j->err);
		j->line.len += (size_t)got;
		turn += (size_t)got;
		take_lines(j, c);
	}
	return 0;
}

/* A last line without its end gets one, so that it does not run into what others say. */
static void end_stderr(struct lx_job *j, const struct lx_job_conf *c)
{
	if (!j->line.len)
		return;
	lx_buf_byte(&j->line, '\n');
	take_lines(j, c);
}

/* ---- the verdict ---- */

/* How far up a scope reaches; what is no ancestor reaches furthest, so that it is seen and refused. */
static int scope_reach(const struct lx_job_conf *c, struct lx_span scope)
{
	if (!scope.len || lx_span_eq(scope, lx_span_str("record")))
		return 0;
	if (lx_span_eq(scope, lx_span_str("parent")))
		return c->domain > 0;
	for (int d = 0; d < c->plan->n_domains; d++) {
		if (!lx_span_eq(scope, lx_span_str(c->plan->domains[d].name)))
			continue;
		int levels = lx_plan_levels(c->plan, c->domain, d);
		return levels < 0 ? INT_MAX : levels;
	}
	return INT_MAX;
}

/* Take what comes before the next TAB. */
static struct lx_span cut_column(struct lx_span *rest)
{
	const uint8_t *tab = rest->len ? memchr(rest->p, '\t', rest->len) : NULL;
	struct lx_span s = { rest->p, tab ? (size_t)(tab - rest->p) : rest->len };
	size_t used = s.len + (tab != NULL);
	rest->p += used;
	rest->len -= used;
	return s;
}

static void put_word(char *out, size_t size, struct lx_span s)
{
	struct lx_buf b = { 0 };
	add_printable(&b, s);
	snprintf(out, size, "%.*s", (int)b.len, b.p ? (char *)b.p : "");
	lx_buf_free(&b);
}

/* The line of lx-fail that counts, of all in `lines`; false: none. */
static bool find_raised(const struct lx_job_conf *c, struct lx_span lines, struct lx_span *best)
{
	int best_reach = -1;
	while (lines.len) {
		const uint8_t *end = memchr(lines.p, '\n', lines.len);
		struct lx_span line = { lines.p, end ? (size_t)(end - lines.p) : lines.len }, rest = line;
		size_t used = line.len + (end != NULL);
		lines.p += used;
		lines.len -= used;
		if (!line.len)
			continue;
		cut_column(&rest);
		int reach = scope_reach(c, cut_column(&rest));
		if (reach > best_reach) {
			best_reach = reach;
			*best = line;
		}
	}
	return best_reach >= 0;
}

/* The whole lines of what was written to LX_FAIL; the last need not have its end, unless it was cut here. */
static struct lx_span read_raised(struct lx_job *j, struct lx_buf *b)
{
	struct lx_span s = { (const uint8_t *)"", 0 };
	ssize_t got = -1;
	if (lx_buf_room(b, FAIL_BYTES_MAX))
		got = pread(j->fail, b->p, FAIL_BYTES_MAX, 0);
	if (got > 0)
		s = (struct lx_span){ b->p, (size_t)got };
	while (got == FAIL_BYTES_MAX && s.len && s.p[s.len - 1] != '\n')
		s.len--;
	return s;
}

/* A failure raised with lx-fail; false: none was. */
static bool take_raised(struct lx_job *j, const struct lx_job_conf *c)
{
	struct lx_buf b = { 0 };
	struct lx_span line;
	bool raised = find_raised(c, read_raised(j, &b), &line);
	if (raised) {
		struct lx_span type = cut_column(&line);
		put_word(j->type, sizeof(j->type), type.len ? type : lx_span_str("fail"));
		put_word(j->scope, sizeof(j->scope), cut_column(&line));
		lx_buf_clear(&j->message);
		add_printable(&j->message, line);
	}
	lx_buf_free(&b);
	return raised;
}

static void judge_status(struct lx_job *j)
{
	if (WIFSIGNALED(j->status)) {
		const char *name = sigabbrev_np(WTERMSIG(j->status));
		if (name)
			put_before(j, "killed by SIG%s", name);
		else
			put_before(j, "killed by signal %d", WTERMSIG(j->status));
		end_as(j, LX_JOB_LOST, "crash");
	} else if (WEXITSTATUS(j->status) != 0) {
		put_before(j, "exit status %d", WEXITSTATUS(j->status));
		end_as(j, WEXITSTATUS(j->status) == 75 ? LX_JOB_RETRY : LX_JOB_DATA, "exit");
	} else {
		end_as(j, LX_JOB_OK, "");
	}
}

/* What it raised counts whatever followed; then why we killed it; then its status. */
static void judge(struct lx_job *j, const struct lx_job_conf *c)
{
	j->raised = take_raised(j, c);
	if (j->raised) {
		j->end = LX_JOB_DATA;
	} else if (!j->killed) {
		judge_status(j);
	} else if (strcmp(j->killed, "timeout") == 0) {
		put_before(j, "still running after %g s (--timeout)", (double)c->timeout_ms / 1000);
		end_as(j, LX_JOB_LOST, j->killed);
	} else {
		put_before(j, "wrote over %llu bytes (--max-record)", (unsigned long long)c->max_output);
		end_as(j, LX_JOB_DATA, j->killed);
	}
}

/* ---- steps ---- */

int lx_job_fds(const struct lx_job *j, struct pollfd *p, bool hold_output)
{
	int n = 0;
	if (j->end != LX_JOB_RUNNING)
		return 0;
	if (j->in >= 0)
		p[n++] = (struct pollfd){ .fd = j->in, .events = POLLOUT };
	if (j->out >= 0 && !hold_output && !j->killed)
		p[n++] = (struct pollfd){ .fd = j->out, .events = POLLIN };
	if (j->err >= 0)
		p[n++] = (struct pollfd){ .fd = j->err, .events = POLLIN };
	if (!j->gone)
		p[n++] = (struct pollfd){ .fd = j->child.pidfd, .events = POLLIN };
	return n;
}

/* The process is looked at before its stderr is read: what it said last is there when it is seen to have ended. */
static int look_at_process(struct lx_job *j, struct lx_err *e)
{
	if (j->gone)
		return 0;
	int ended = lx_child_ended(&j->child, &j->status, e);
	if (ended <= 0)
		return ended;
	j->gone = true;
	close_fd(&j->in);
	return 0;
}

int lx_job_step(struct lx_job *j, const struct lx_job_conf *c, uint64_t now_ns, struct lx_err *e)
{
	if (j->end != LX_JOB_RUNNING)
		return 0;
	if (look_at_process(j, e) < 0 || feed(j, e) < 0 || take_output(j, c, e) < 0 || take_stderr(j, c, e) < 0)
		return -1;
	bool finished = j->gone && (j->out_eof || j->killed);
	if (!finished && !j->killed && j->deadline_ns && now_ns >= j->deadline_ns) {
		kill_job(j, "timeout");
		finished = j->gone; /* only a grandchild kept it going */
	}
	if (!finished)
		return 0;
	end_stderr(j, c);
	judge(j, c);
	if (j->message.failed || j->line.failed || j->output.failed)
		return lx_err_set(e, LX_SYSTEM, "no memory for what a command said");
	return 0;
}

/* ---- end ---- */

void lx_job_clear(struct lx_job *j)
{
	struct lx_err ignored = LX_ERR_INIT;
	if (j->child.pid > 0) {
		lx_child_kill(&j->child, SIGKILL); /* the group first: reaped, its number may be somebody else's */
		lx_child_wait(&j->child, true, &j->status, &ignored);
	}
	close_fd(&j->in);
	close_fd(&j->out);
	close_fd(&j->err);
	close_fd(&j->fail);
	if (j->dir)
		lx_dir_remove(j->dir, &ignored);
	free(j->dir);
	if (j->output.cap > KEEP_BYTES)
		lx_buf_free(&j->output);
	struct lx_job kept = *j;
	lx_job_init(j);
	j->output = kept.output;
	j->message = kept.message;
	j->line = kept.line;
	j->argv = kept.argv;
	j->envp = kept.envp;
	lx_buf_clear(&j->output);
	lx_buf_clear(&j->message);
	lx_buf_clear(&j->line);
	lx_buf_clear(&j->argv);
	lx_buf_clear(&j->envp);
}

void lx_job_free(struct lx_job *j)
{
	lx_job_clear(j);
	lx_buf_free(&j->output);
	lx_buf_free(&j->message);
	lx_buf_free(&j->line);
	lx_buf_free(&j->argv);
	lx_buf_free(&j->envp);
}

uint64_t lx_job_again(const struct lx_job *j, uint64_t attempt, uint64_t retries)
{
	uint64_t wait = 100000000ull << (attempt < 7 ? attempt - 1 : 6);
	if ((j->end != LX_JOB_RETRY && j->end != LX_JOB_LOST) || attempt > retries)
		return 0;
	return wait / 2 + (uint64_t)random() % wait;
}

/* lx-attach: connect a worker to a listening lx-batch.
 *
 * It runs the worker and carries the streams between it and the socket: what comes as it comes, answers by whole marks and
 * frames, so that it can always say between two of them that the worker wants to leave, or how it died. A worker that
 * dies is started again and joins anew. Reads no stdin, writes no stdout.
 * Exits non-zero when nobody listens (5), it is refused or the worker does not fit (2, 4), the connection breaks (3) or the
 * worker fails too often (6).
 */
#include "cmd.h"
#include "io.h"
#include "listen.h"
#include "sig.h"
#include "spawn.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
	"lx-attach [-q] [--for SECONDS] [--idle SECONDS] [--strikes N]\n"
	"          unix:PATH -- WORKER [ARG ...]";

#define MS 1000000ull
#define CHUNK (256u << 10)
#define STARTS 3      /* failed starts in a row */
#define GRACE_MS 5000 /* a worker whose input was closed may take so long to end */
#define END_MS 500    /* a worker that has closed its output may take so long to end */

static struct cmd_common common = CMD_COMMON_INIT;
static uint64_t for_ms, idle_ms, strikes = 16;

static const struct lx_opt options[] = {
	{ 0, "for", LX_OPT_SEC, &for_ms, 1, 0, NULL },
	{ 0, "idle", LX_OPT_SEC, &idle_ms, 1, 0, NULL },
	{ 0, "strikes", LX_OPT_UINT, &strikes, 1, 1000000, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 0 },
};

/* What is to be written to one side. */
struct way {
	struct lx_buf buf;
	size_t gone;
	bool over; /* nothing more will come */
	bool shut;
};

static struct {
	int far;               /* the socket to lx-batch */
	int near;              /* to the worker */
	struct lx_child child;
	struct way there, back; /* to the worker; to lx-batch */
	struct lx_buf part;    /* of the worker's output: not yet a whole mark or frame */
	struct lx_scan scan;
	bool in_segment, begun, answered, ended;
	bool far_over;         /* lx-batch says nothing more, */
	uint64_t over_ns;      /* since then */
	bool leaving, told, now; /* the worker is to leave; lx-batch knows; at once */
	uint64_t busy_ns;      /* when something last passed */
} r;

static uint64_t began_ns;
static unsigned signals;

/* ---- carrying ---- */

/* Send what the other side takes. */
static int send_way(struct way *w, int fd, struct lx_err *e)
{
	while (w->buf.len > w->gone) {
		ssize_t n = send(fd, w->buf.p + w->gone, w->buf.len - w->gone, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (n < 0 && errno != EPIPE && errno != ECONNRESET)
			return lx_err_sys(e, "send");
		w->gone = n < 0 ? w->buf.len : w->gone + (size_t)n; /* gone: that shows when reading */
	}
	lx_buf_clear(&w->buf);
	w->gone = 0;
	if (w->over && !w->shut) {
		shutdown(fd, SHUT_WR);
		w->shut = true;
	}
	return 0;
}

/* What is there: > 0 bytes appended; 0: it has ended; LX_IO_AGAIN; -1. A connection that was reset has ended. */
static ssize_t take(int fd, struct lx_buf *b, struct lx_err *e)
{
	uint8_t *to = lx_buf_room(b, CHUNK);
	if (!to)
		return lx_buf_check(b, e) < 0 ? -1 : LX_IO_AGAIN;
	ssize_t n = recv(fd, to, CHUNK, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? LX_IO_AGAIN : errno == ECONNRESET ? 0 : lx_err_sys(e, "recv");
	b->len += (size_t)n;
	r.busy_ns = n ? lx_io_now_ns() : r.busy_ns;
	return n;
}

/* A whole mark or frame of the worker's has come. */
static void note(const struct lx_scan *s)
{
	r.answered |= s->what == LX_SCAN_FRAME;
	if (s->what != LX_SCAN_SKIP)
		return;
	if (s->magic == LX_MARK_BEGIN)
		r.in_segment = r.begun = true;
	else if (s->magic == LX_MARK_END || s->magic == LX_MARK_ABORT)
		r.in_segment = false;
	r.ended = s->magic == LX_MARK_END;
}

/* Pass on what is whole. -1: it is no stream. */
static int pass_whole(struct lx_err *e)
{
	size_t at = 0;
	while (at < r.part.len) {
		if (lx_frame_scan(&r.scan, r.part.p + at, r.part.len - at, common.limits.frame, e) < 0)
			return -1;
		if (r.scan.what == LX_SCAN_MORE)
			break;
		note(&r.scan);
		lx_buf_add(&r.back.buf, r.part.p + at, r.scan.size);
		at += r.scan.size;
		memset(&r.scan, 0, sizeof(r.scan));
	}
	memmove(r.part.p, r.part.p + at, r.part.len - at);
	r.part.len -= at;
	return lx_buf_check(&r.back.buf, e);
}

/* ---- how it ends ---- */

enum how { GOES_ON, DONE, CUT, DIED, FAILED };

/* Tell lx-batch how the worker ended, as an abort mark: then it knows whose fault it is. */
static int abort_back(int code, const char *message, struct lx_err *e)
{
	struct lx_writer w;
	if (lx_writer_init(&w, -1, &common.limits, e) < 0)
		return -1;
	int rc = lx_writer_abort(&w, code, "lx-attach", message, e);
	lx_buf_add(&r.back.buf, w.out.p, w.out.len);
	lx_writer_release(&w);
	return rc;
}

static void status_text(int status, char *out, size_t size)
{
	if (status >= 0 && WIFSIGNALED(status))
		snprintf(out, size, "its worker died of signal %d", WTERMSIG(status));
	else if (status >= 0 && WIFEXITED(status))
		snprintf(out, size, "its worker ended with status %d", WEXITSTATUS(status));
	else
		snprintf(out, size, "its worker ended");
}

static bool is_refusal(int status)
{
	return status >= 0 && WIFEXITED(status) && (WEXITSTATUS(status) == LX_USAGE || WEXITSTATUS(status) == LX_VERSION);
}

/* The worker's output has ended. */
static enum how worker_ended(const struct lx_err *garbled, struct lx_err *e)
{
	struct lx_err ignored = LX_ERR_INIT;
	char text[LX_ERR_MAX];
	int status = -1;
	if (garbled)
		lx_child_kill(&r.child, SIGKILL);
	lx_io_wait(r.child.pidfd, END_MS, &ignored);
	lx_child_kill(&r.child, SIGKILL);
	lx_child_wait(&r.child, true, &status, &ignored);
	if (r.there.over && r.ended && !garbled) {
		r.back.over = true;
		return DONE;
	}
	if (r.far_over && !r.ended && is_refusal(status)) {
		lx_err_set(e, WEXITSTATUS(status), "the lx-batch refuses the worker, and says why");
		return FAILED;
	}
	if (r.far_over && !r.ended)
		return CUT;
	status_text(status, text, sizeof(text));
	if (garbled)
		snprintf(text, sizeof(text), "its worker wrote what is no stream: %.900s", garbled->msg);
	int code = !r.begun && is_refusal(status) ? WEXITSTATUS(status) : LX_WORKER;
	r.back.over = true;
	if (abort_back(code, text, e) < 0)
		return FAILED;
	if (code != LX_WORKER) {
		lx_err_set(e, code, "%s: it refuses the stream", text);
		return FAILED;
	}
	if (!common.quiet)
		cmd_say("%s", text);
	return DIED;
}

/* ---- leaving ---- */

/* The first signal, the time or idleness: finish and go. A second signal: go. */
static void look_at_time(void)
{
	uint64_t now = lx_io_now_ns();
	bool over = (for_ms && now >= began_ns + for_ms * MS) || (idle_ms && now >= r.busy_ns + idle_ms * MS);
	r.leaving |= over || signals > 0;
	r.now |= signals > 1 || (r.leaving && !r.in_segment && !r.there.over && !r.told);
	if (r.leaving && r.in_segment && !r.told) {
		r.told = true;
		lx_hint_leave(&r.back.buf);
	}
}

static int wait_ms(void)
{
	uint64_t now = lx_io_now_ns(), until = r.far_over ? r.over_ns + GRACE_MS * MS : now + 3600000 * MS;
	if (r.leaving)
		return until > now ? (int)((until - now + MS - 1) / MS) : 0;
	if (for_ms && began_ns + for_ms * MS < until)
		until = began_ns + for_ms * MS;
	if (idle_ms && r.busy_ns + idle_ms * MS < until)
		until = r.busy_ns + idle_ms * MS;
	return until > now ? (int)((until - now + MS - 1) / MS) : 0;
}

static void count_signal(void)
{
	lx_sig_ack();
	signals++;
}

/* ---- the loop ---- */

static enum how from_batch(struct lx_err *e)
{
	ssize_t n = take(r.far, &r.there.buf, e);
	if (n == 0) {
		r.far_over = r.there.over = true;
		r.over_ns = lx_io_now_ns();
	}
	return n == -1 ? FAILED : GOES_ON;
}

static enum how from_worker(struct lx_err *e)
{
	struct lx_err bad = LX_ERR_INIT;
	ssize_t n = take(r.near, &r.part, e);
	if (n == LX_IO_AGAIN)
		return GOES_ON;
	if (n < 0)
		return FAILED;
	int rc = pass_whole(&bad);
	return n == 0 || rc < 0 ? worker_ended(rc < 0 ? &bad : NULL, e) : GOES_ON;
}

/* Reading from one side stops while the other does not take it. */
static enum how turn(struct lx_err *e)
{
	struct pollfd f[3] = {
		{ .fd = r.far_over || r.there.buf.len ? -1 : r.far, .events = POLLIN },
		{ .fd = r.back.buf.len ? -1 : r.near, .events = POLLIN },
		{ .fd = lx_sig_fd(), .events = POLLIN },
	};
	struct pollfd out[2] = { { .fd = r.there.buf.len ? r.near : -1, .events = POLLOUT }, { .fd = r.back.buf.len ? r.far : -1, .events = POLLOUT } };
	struct pollfd all[5] = { f[0], f[1], f[2], out[0], out[1] };
	if (poll(all, 5, wait_ms()) < 0 && errno != EINTR) {
		lx_err_sys(e, "poll");
		return FAILED;
	}
	enum how how = GOES_ON;
	if (all[2].revents)
		count_signal();
	if (all[0].revents)
		how = from_batch(e);
	if (how == GOES_ON && all[1].revents)
		how = from_worker(e);
	if (how == GOES_ON && r.far_over && lx_io_now_ns() >= r.over_ns + GRACE_MS * MS) {
		lx_child_kill(&r.child, SIGKILL);
		how = CUT;
	}
	look_at_time();
	if (send_way(&r.there, r.near, e) < 0 || send_way(&r.back, r.far, e) < 0)
		return FAILED;
	return how == GOES_ON && r.now ? DONE : how;
}

/* What is left for lx-batch goes out before the connection is closed, unless it takes nothing. */
static void flush_back(struct lx_err *e)
{
	struct lx_err ignored = LX_ERR_INIT;
	fcntl(r.far, F_SETFL, fcntl(r.far, F_GETFL) & ~O_NONBLOCK);
	while (r.back.buf.len && !r.now && send_way(&r.back, r.far, e) == 0 && r.back.buf.len) {
		struct pollfd f = { .fd = r.far, .events = POLLOUT };
		if (poll(&f, 1, 10000) <= 0)
			break;
	}
	send_way(&r.back, r.far, &ignored);
}

/* ---- joining ---- */

/* Say who we are and wait until we are let in: as long as it takes, between two runs nobody is. 1; 0: a signal came. */
static int say_hello(const char *program, struct lx_err *e)
{
	char host[128] = "?";
	struct lx_hello h = { 0 };
	gethostname(host, sizeof(host) - 1);
	lx_hello_say(r.far, "lx-attach 1 %s %.100s", host, program);
	for (;;) {
		struct pollfd f[2] = { { .fd = r.far, .events = POLLIN }, { .fd = lx_sig_fd(), .events = POLLIN } };
		if (poll(f, 2, wait_ms()) < 0 && errno != EINTR)
			return lx_err_sys(e, "poll");
		if (f[1].revents)
			count_signal();
		look_at_time();
		if (r.leaving)
			return 0;
		int got = f[0].revents ? lx_hello_read(&h, r.far) : 0;
		const char *said = got > 0 ? lx_hello_after(&h, "lx-batch") : NULL;
		if (said && strcmp(said, "ok") == 0)
			return 1;
		if (said)
			return lx_err_set(e, LX_USAGE, "refused: %s", strncmp(said, "no ", 3) == 0 ? said + 3 : said);
		if (got < 0 && !h.len)
			return lx_err_set(e, LX_DATA, "the connection ended before it was answered: the call is over, or it is no lx-batch");
		if (got)
			return lx_err_set(e, LX_USAGE, "what listens there is no lx-batch of this version");
	}
}

static int start_worker(char **argv, struct lx_err *e)
{
	static char unset[] = "LX_RUN";
	static char *env[] = { unset, NULL };
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return lx_err_sys(e, "socketpair");
	struct lx_spawn s = { .argv = argv, .env = env, .in = pair[1], .out = pair[1], .err = -1, .keep = -1, .tidy = true };
	int rc = lx_spawn(&s, &r.child, e);
	close(pair[1]);
	r.near = pair[0];
	return rc;
}

static void forget(void)
{
	lx_child_kill(&r.child, SIGKILL);
	int status;
	struct lx_err ignored = LX_ERR_INIT;
	if (r.child.pid)
		lx_child_wait(&r.child, true, &status, &ignored);
	if (r.near >= 0)
		close(r.near);
	if (r.far >= 0)
		close(r.far);
	lx_buf_free(&r.there.buf);
	lx_buf_free(&r.back.buf);
	lx_buf_free(&r.part);
}

/* One life of the worker. */
static enum how live(const char *address, char **argv, struct lx_err *e)
{
	enum how how = GOES_ON;
	memset(&r, 0, sizeof(r));
	r.near = -1;
	r.child = (struct lx_child)LX_CHILD_NONE;
	r.busy_ns = lx_io_now_ns();
	r.far = lx_listen_connect(address, e);
	if (r.far < 0)
		return FAILED;
	int in = say_hello(argv[0], e);
	if (in <= 0)
		return in < 0 ? FAILED : DONE;
	if (start_worker(argv, e) < 0)
		return FAILED;
	while (how == GOES_ON)
		how = turn(e);
	if (how != FAILED || e->code != LX_SYSTEM)
		flush_back(e);
	return how;
}

/* Cut off: has the call ended, or only we for it? */
static bool is_there(const char *address)
{
	struct lx_err ignored = LX_ERR_INIT;
	int fd = lx_listen_connect(address, &ignored);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void attach(const char *address, char **argv, struct lx_err *e)
{
	uint64_t starts = 0, losses = 0;
	if (lx_spawn_check(argv[0], e) < 0)
		return;
	began_ns = lx_io_now_ns();
	for (;;) {
		enum how how = live(address, argv, e);
		starts = how == DIED && !r.begun ? starts + 1 : 0;
		losses = how == DONE || r.answered ? 0 : losses + 1;
		bool over = how == DONE || how == FAILED || r.leaving;
		forget();
		if (over)
			return;
		if (how == CUT && !is_there(address)) {
			lx_err_set(e, LX_DATA, "the connection has ended before the work was done: the lx-batch died, or the way to it");
			return;
		}
		if (starts >= STARTS || losses >= strikes) {
			lx_err_set(e, LX_WORKER, "the worker failed too often: '%s'", argv[0]);
			return;
		}
	}
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	int first = cmd_start("lx-attach", usage, &common, &e) == 0 ? cmd_options(argc, argv, options, &e) : -1;
	if (first >= 0 && first + 1 < argc && strcmp(argv[first + 1], "--") == 0)
		argv[first + 1] = argv[first], first++; /* what follows the address may be set off */
	if (first >= 0 && first + 1 >= argc)
		lx_err_set(&e, LX_USAGE, "needs unix:PATH and a worker: lx-attach unix:PATH -- WORKER");
	else if (first >= 0)
		attach(argv[first], argv + first + 1, &e);
	return cmd_finish(&common, &e);
}

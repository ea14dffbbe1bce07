/* worker [OPTION...]: a worker for tests of lx-batch: answers every item with what it was sent, or does what an
 * item's `data` says.
 *
 *     fail, fail-parent, fail-ROOTDOMAIN   fails with this scope
 *     drop                                 drops it
 *     die, exit, stop, hang, silent        kills itself; exits 3; stops itself; hangs with a grandchild that holds
 *                                          the pipe; closes nothing and waits for ever
 *     twice, stranger, other, garbage      answers twice; with an id nobody sent; with a close; writes what is no stream
 *     flood                                writes 1 MiB to stderr first
 * A word applies when it begins the data. With -1 FILE such an item misbehaves only when FILE does not exist (it is
 * made). Options: -s US sleeps so long for each item, once for each frame, to an absolute deadline; -r answers in
 * reverse order, each in a frame of its own; -c BYTES ends after so many bytes of answers; -S MS begins so late; -x
 * dies before it begins; -e ends without an answer after the first frame; -n SLOTS; -b MS beats, and announces it;
 * -a FILE appends a byte to it when it has begun.
 */
#include "io.h"
#include "stream.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t sleep_us, start_ms, slots, beats_ms;
static int64_t cut = -1;
static bool reverse, dead, ends;
static const char *once, *announce;

static struct lx_reader *in;
static struct lx_writer out;
static struct lx_err e = LX_ERR_INIT;
static uint64_t due_ns;
static bool waited; /* for input */

static void check(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "worker: %s\n", e.msg);
	exit(e.code);
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
		;
}

/* What is encoded goes out, or only the first bytes of it. */
static void send_out(void)
{
	size_t n = out.out.len;
	if (cut >= 0 && (int64_t)n > cut)
		n = (size_t)cut;
	check(lx_io_write(1, out.out.p, n, &e));
	if (cut >= 0 && (cut -= (int64_t)n) == 0)
		_exit(9);
	lx_buf_clear(&out.out);
}

static void flush(void)
{
	check(lx_writer_flush(&out, &e));
	send_out();
}

static void begin(const struct lx_plan *p)
{
	static const char *const none[] = { NULL };
	struct lx_plan mine;
	int64_t all = cut;
	lx_plan_init(&mine);
	check(lx_plan_copy(&mine, p, &e));
	int domain = lx_plan_work_domain(p, NULL, "-d", &e);
	check(domain);
	mine.slots = slots;
	mine.beats_ms = beats_ms;
	check(lx_plan_op(&mine, "worker", domain, none, none, none, &e));
	cut = -1; /* answers are what is cut */
	check(lx_writer_begin(&out, &mine, &e));
	send_out();
	cut = all;
	lx_plan_free(&mine);
	int fd = announce ? open(announce, O_CREAT | O_APPEND | O_WRONLY, 0600) : -1;
	if (fd >= 0) {
		check(lx_io_write(fd, "r", 1, &e));
		close(fd);
	}
}

static bool first_time(void)
{
	if (!once)
		return true;
	int fd = open(once, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool is(struct lx_span s, const char *word)
{
	return s.len >= strlen(word) && memcmp(s.p, word, strlen(word)) == 0;
}

static void gone(const struct lx_rec *r, enum lx_outcome o, uint32_t anchor_domain, struct lx_id anchor)
{
	struct lx_buf cause = { 0 }, rec = { 0 };
	struct lx_cause c = { .type = lx_span_str("test"), .message = lx_span_str("asked for"), .anchor_domain = anchor_domain, .anchor = anchor,
		.origin_domain = r->domain, .origin = r->id, .stage = lx_span_str("worker") };
	lx_cause_pack(&cause, &c);
	lx_rec_gone(&rec, r->domain, &r->id, o, lx_buf_view(&cause), o == LX_FAILED ? r->fields : (struct lx_span){ 0 }, r->key);
	check(lx_writer_add_buf(&out, &rec, &e));
	lx_buf_free(&rec);
	lx_buf_free(&cause);
}

static void hang(void)
{
	if (fork() == 0)
		for (;;)
			pause();
	for (;;)
		pause();
}

static void misbehave(const struct lx_rec *r, struct lx_span s)
{
	struct lx_buf b = { 0 };
	if (is(s, "die"))
		raise(SIGKILL);
	if (is(s, "exit"))
		_exit(3);
	if (is(s, "stop"))
		raise(SIGSTOP);
	if (is(s, "hang"))
		hang();
	if (is(s, "silent"))
		for (;;)
			pause();
	if (is(s, "garbage"))
		check(lx_io_write(1, "this is no stream", 17, &e));
	if (is(s, "twice"))
		check(lx_writer_add(&out, r, &e));
	if (is(s, "stranger")) {
		struct lx_id id = r->id;
		id.ord[id.n - 1] += 1000;
		lx_rec_item(&b, r->domain, &id, r->fields, r->key);
		check(lx_writer_add_buf(&out, &b, &e));
	}
	if (is(s, "other")) {
		struct lx_id up = lx_id_parent(&r->id, 1);
		lx_rec_close(&b, r->domain, &up, 1, LX_PRESENT, (struct lx_span){ 0 });
		check(lx_writer_add_buf(&out, &b, &e));
	}
	if (is(s, "flood"))
		for (int i = 0; i < 16384; i++)
			check(lx_io_write(2, "................................................................", 64, &e));
	lx_buf_free(&b);
}

static struct lx_span data_of(const struct lx_rec *r)
{
	struct lx_val v;
	struct lx_span f = lx_rec_field(r, "data");
	if (!f.p || lx_val_from(f, &v) < 0 || (v.type != LX_STR && v.type != LX_BIN))
		return lx_span_str("");
	return v.s;
}

static void answer(const struct lx_rec *r, const struct lx_plan *p)
{
	static const char *const bad[] = { "die", "exit", "stop", "hang", "silent", "garbage", "twice", "stranger", "other", "flood" };
	struct lx_span s = data_of(r);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (is(s, bad[i]) && first_time())
			misbehave(r, s);
	if (is(s, "fail-parent"))
		gone(r, LX_FAILED, (uint32_t)p->domains[r->domain].parent, lx_id_parent(&r->id, 1));
	else if (is(s, "fail-") && is((struct lx_span){ s.p + 5, s.len - 5 }, p->domains[0].name))
		gone(r, LX_FAILED, 0, lx_id_parent(&r->id, r->id.n - 1));
	else if (is(s, "fail"))
		gone(r, LX_FAILED, r->domain, r->id);
	else if (is(s, "drop"))
		gone(r, LX_DROPPED, r->domain, r->id);
	else
		check(lx_writer_add(&out, r, &e));
}

static void wait_work(size_t n)
{
	if (!sleep_us)
		return;
	/* A frame that lay there already began when the one before it ended, however late we woke. */
	due_ns = (waited || !due_ns ? lx_io_now_ns() : due_ns) + n * sleep_us * 1000;
	waited = false;
	sleep_until(due_ns);
}

static void frame(const struct lx_plan *p)
{
	static struct lx_rec recs[65536];
	size_t n = 0;
	int got;
	while (n < 65536 && (got = lx_reader_rec(in, &recs[n], &e)) != 0) {
		check(got);
		n++;
	}
	if (ends)
		exit(0);
	wait_work(n);
	for (size_t i = 0; i < n; i++) {
		answer(&recs[reverse ? n - 1 - i : i], p);
		if (reverse)
			flush();
	}
	flush();
}


/* More input, beating meanwhile. */
static void fill(void)
{
	waited |= !lx_io_ready(0);
	while (beats_ms && !lx_io_ready(0)) {
		struct lx_err ignored = LX_ERR_INIT;
		if (lx_io_wait(0, (int)beats_ms / 2, &ignored) > 0)
			break;
		check(lx_writer_hint(&out, (struct lx_span){ 0 }, &e));
		send_out();
	}
	check(lx_reader_fill(in, &e));
}

static void options(int argc, char **argv)
{
	int c;
	while ((c = getopt(argc, argv, "s:rc:S:xen:b:1:a:")) != -1) {
		switch (c) {
		case 's': sleep_us = strtoull(optarg, NULL, 10); break;
		case 'r': reverse = true; break;
		case 'c': cut = strtoll(optarg, NULL, 10); break;
		case 'S': start_ms = strtoull(optarg, NULL, 10); break;
		case 'x': dead = true; break;
		case 'e': ends = true; break;
		case 'n': slots = strtoull(optarg, NULL, 10); break;
		case 'b': beats_ms = strtoull(optarg, NULL, 10); break;
		case '1': once = optarg; break;
		case 'a': announce = optarg; break;
		default: exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	struct lx_limits limits = LX_LIMITS_DEFAULT;
	options(argc, argv);
	if (dead)
		exit(1);
	sleep_until(lx_io_now_ns() + start_ms * 1000000);
	in = lx_reader_new(0, "stdin", &limits, &e);
	check(in ? 0 : -1);
	check(lx_writer_init(&out, -1, &limits, &e));
	for (;;) {
		switch (lx_reader_next(in, &e)) {
		case LX_EV_MORE: fill(); break;
		case LX_EV_BEGIN: begin(lx_reader_plan(in)); break;
		case LX_EV_FRAME: frame(lx_reader_plan(in)); break;
		case LX_EV_HINT: break;
		case LX_EV_END: check(lx_writer_end(&out, 0, &e)); send_out(); break;
		case LX_EV_EOF: return 0;
		case LX_EV_ERROR: check(-1);
		}
	}
}

/* lx-batch: full batches across parents. Alone it closes frames so that each holds a batch; with --spool it makes a file of
 * each; with workers it hands batches to them and puts out what they answer.
 *
 * in: a stream with present items of the call's domain (-d). out: the same items, answered; other records untouched. With
 * --spool: names of files.
 * Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call fails (5),
 * no worker is left or one broke the contract (6).
 */
#include "cmd.h"
#include "hosts.h"
#include "io.h"
#include "pool.h"
#include "sig.h"
#include "spawn.h"
#include "spool.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
	"lx-batch [-d DOMAIN] [-n COUNT] [-b BYTES] [--cost FIELD=BUDGET]\n"
	"         [--linger MS] [--bucket FIELD]\n"
	"         [-qv] [--stats FILE] [--trace FILE] [--from FILE] [--to FILE]\n"
	"         [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"         [--max-depth N] [--max-id N] [--max-fields N]\n"
	"lx-batch --spool DIR [-d DOMAIN] [-n COUNT] [-b BYTES]\n"
	"         [--cost FIELD=BUDGET] [--linger MS] [--bucket FIELD]\n"
	"         [-qv] [--stats FILE] [--trace FILE] [--from FILE]\n"
	"         [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"         [--max-depth N] [--max-id N] [--max-fields N]\n"
	"lx-batch [-d DOMAIN] [-n COUNT] [-b BYTES] [--cost FIELD=BUDGET]\n"
	"         [--linger MS] [--bucket FIELD] [--order ORDER] [--fixed]\n"
	"         [--frames] [--hosts FILE] [--listen unix:PATH]\n"
	"         [--join-timeout SECONDS] [-j JOBS] [--gpus LIST] [--depth N]\n"
	"         [--queue COUNT] [--mem SIZE] [--silence SECONDS]\n"
	"         [--timeout SECONDS] [--start-timeout SECONDS] [--on-crash MODE]\n"
	"         [--retry N] [--strikes N] [--max-crashes N]\n"
	"         [-qv] [--stats FILE] [--trace FILE] [--from FILE] [--to FILE]\n"
	"         [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"         [--max-depth N] [--max-id N] [--max-fields N]\n"
	"         [-W COMMAND ...] [[--] WORKER [ARG ...]]";

#define WORKERS_MAX 8192
#define COUNT_DEFAULT 64
#define MS 1000000ull

static struct cmd_common common = CMD_STAGE_INIT;
static struct lx_sched_conf sched = LX_SCHED_CONF_DEFAULT;
static struct lx_strs shell_workers, gpus;
static const char *bucket_field, *spool_dir, *listen_at;
static char *cost_field;
static uint64_t count, jobs, linger_ms = UINT64_MAX, depth, timeout_ms;
/* UINT64_MAX: not given */
static uint64_t queue = UINT64_MAX, start_timeout_ms = UINT64_MAX, retries = UINT64_MAX, strikes = UINT64_MAX, crashes = UINT64_MAX,
	silence_ms = UINT64_MAX, join_ms = UINT64_MAX;
static bool fixed_order, has_order, frames;
static struct lx_hosts hosts;
static const char *crash_mode; /* NULL: not given */

static int parse_cost(void *to, const char *arg, struct lx_err *e)
{
	const char *eq = strrchr(arg, '=');
	(void)to;
	if (!eq || eq == arg)
		return lx_err_set(e, LX_USAGE, "'%s' is not FIELD=BUDGET", arg);
	free(cost_field);
	cost_field = strndup(arg, (size_t)(eq - arg));
	if (!cost_field)
		return lx_err_sys(e, "--cost");
	return lx_opt_uint("budget", eq + 1, 1, UINT64_MAX, &sched.max_cost, e);
}

static int parse_order(void *to, const char *arg, struct lx_err *e)
{
	(void)to;
	has_order = true;
	if (strcmp(arg, "probe") == 0)
		sched.order = LX_ORDER_PROBE;
	else if (strcmp(arg, "fifo") == 0)
		sched.order = LX_ORDER_FIFO;
	else
		return lx_err_set(e, LX_USAGE, "'%s' is neither probe nor fifo", arg);
	return 0;
}

static int parse_crash(void *to, const char *arg, struct lx_err *e)
{
	static const char *const modes[] = { "bisect", "retry", "fail", "abort" };
	(void)to;
	for (int i = 0; i < 4; i++)
		if (strcmp(arg, modes[i]) == 0) {
			sched.on_crash = (enum lx_on_crash)i;
			crash_mode = modes[i];
			return 0;
		}
	return lx_err_set(e, LX_USAGE, "'%s' is none of bisect, retry, fail, abort", arg);
}

/* A number, or so many for a hundred processors, as parallel(1) has it. */
static int parse_jobs(void *to, const char *arg, struct lx_err *e)
{
	size_t len = strlen(arg);
	char digits[32];
	(void)to;
	if (!len || arg[len - 1] != '%')
		return lx_opt_uint("", arg, 1, WORKERS_MAX, &jobs, e);
	snprintf(digits, sizeof(digits), "%.*s", (int)(len - 1), arg);
	if (lx_opt_uint("", digits, 1, 100000, &jobs, e) < 0)
		return -1;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	jobs = jobs * (uint64_t)(processors > 0 ? processors : 1) / 100;
	jobs = jobs < 1 ? 1 : jobs > WORKERS_MAX ? WORKERS_MAX : jobs;
	return 0;
}

static int parse_hosts(void *to, const char *arg, struct lx_err *e)
{
	(void)to;
	lx_hosts_free(&hosts);
	return lx_hosts_read(&hosts, arg, e);
}

static int parse_depth(void *to, const char *arg, struct lx_err *e)
{
	(void)to;
	if (strcmp(arg, "auto") == 0) {
		depth = 0;
		return 0;
	}
	return lx_opt_uint("", arg, 1, 1024, &depth, e);
}

static const struct lx_opt options[] = {
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ 'n', "count", LX_OPT_UINT, &count, 1, UINT32_MAX, NULL },
	{ 'b', "bytes", LX_OPT_SIZE, &sched.max_bytes, 1, 0, NULL },
	{ 0, "cost", LX_OPT_CALL, NULL, 0, 0, parse_cost },
	{ 0, "linger", LX_OPT_MS, &linger_ms, 0, 3600000, NULL },
	{ 0, "bucket", LX_OPT_STR, &bucket_field, 0, 0, NULL },
	{ 0, "order", LX_OPT_CALL, NULL, 0, 0, parse_order },
	{ 0, "fixed", LX_OPT_FLAG, &fixed_order, 0, 0, NULL },
	{ 0, "frames", LX_OPT_FLAG, &frames, 0, 0, NULL },
	{ 0, "hosts", LX_OPT_CALL, NULL, 0, 0, parse_hosts },
	{ 'j', "jobs", LX_OPT_CALL, NULL, 0, 0, parse_jobs },
	{ 0, "listen", LX_OPT_STR, &listen_at, 0, 0, NULL },
	{ 0, "join-timeout", LX_OPT_SEC, &join_ms, 0, 0, NULL },
	{ 'W', "worker", LX_OPT_LIST, &shell_workers, 0, 0, NULL },
	{ 0, "gpus", LX_OPT_NAMES, &gpus, 0, 0, NULL },
	{ 0, "depth", LX_OPT_CALL, NULL, 0, 0, parse_depth },
	{ 0, "queue", LX_OPT_UINT, &queue, 1, 1u << 28, NULL },
	{ 0, "mem", LX_OPT_SIZE, &common.mem, 1u << 20, 0, NULL },
	{ 0, "timeout", LX_OPT_SEC, &timeout_ms, 1, 0, NULL },
	{ 0, "start-timeout", LX_OPT_SEC, &start_timeout_ms, 0, 0, NULL },
	{ 0, "silence", LX_OPT_SEC, &silence_ms, 0, 0, NULL },
	{ 0, "on-crash", LX_OPT_CALL, NULL, 0, 0, parse_crash },
	{ 0, "retry", LX_OPT_UINT, &retries, 0, 1000, NULL },
	{ 0, "strikes", LX_OPT_UINT, &strikes, 1, 1000000, NULL },
	{ 0, "max-crashes", LX_OPT_UINT, &crashes, 0, UINT32_MAX, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "trace", LX_OPT_STR, &common.trace, 0, 0, NULL },
	CMD_FROM_OPT(common),
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "spool", LX_OPT_STR, &spool_dir, 0, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

/* ---- alone: frames are batches ---- */

static struct {
	struct lx_stage stage;
	struct sums {
		uint64_t items, bytes, cost;
	} open;            /* in the open frame */
	uint64_t until_ns; /* linger: when what is there leaves part-filled */
	uint64_t batches;
	struct lx_spool *spool; /* --spool */
	/* --bucket: items that wait for others of their size */
	struct bucket {
		struct lx_buf records;
		struct sums sums;
	} *buckets;
} r;

static int print_name(void *ctx, const char *path, struct lx_err *e)
{
	char *line;
	(void)ctx;
	if (asprintf(&line, "%s\n", path) < 0)
		return lx_err_sys(e, "stdout");
	int rc = lx_io_write(1, line, strlen(line), e);
	free(line);
	return rc < 0 ? lx_err_prefix(e, "stdout") : 0;
}

static int open_spool(const struct lx_stage *s, const struct lx_plan *p, struct lx_err *e)
{
	struct lx_spool_conf conf = { .dir = spool_dir, .limits = common.limits, .packing = common.packing < 0 ? LX_ZSTD : (enum lx_packing)common.packing,
		.level = common.level, .name = print_name };
	if (common.check)
		return 0;
	if (r.spool)
		return lx_err_set(e, LX_USAGE, "--spool %s: it holds one run, and here comes another, %s", spool_dir, p->run);
	r.spool = lx_spool_open(&conf, p, s->domain, e);
	return r.spool ? 0 : -1;
}

static int to_spool(void *ctx, const struct lx_rec *rec, struct lx_err *e)
{
	(void)ctx;
	return lx_spool_add(r.spool, rec, e);
}

static int plan_reframe(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	const char *const reads[] = { cost_field ? cost_field : bucket_field, cost_field ? bucket_field : NULL, NULL };
	(void)ctx;
	if ((cost_field && lx_plan_reads(p, s->domain, cost_field, "--cost", e) < 0) ||
	    (bucket_field && lx_plan_reads(p, s->domain, bucket_field, "--bucket", e) < 0))
		return -1;
	if (lx_plan_op(p, "lx-batch", s->domain, reads, NULL, NULL, e) < 0)
		return -1;
	return spool_dir ? open_spool(s, p, e) : 0;
}

static int close_batch(struct lx_err *e)
{
	r.batches += r.open.items != 0;
	r.open = (struct sums){ 0 };
	return r.spool ? lx_spool_close(r.spool, e) : lx_writer_close(&r.stage.out, e);
}

static bool fits(const struct sums *s, uint64_t bytes, uint64_t cost)
{
	return !s->items || ((!sched.max_bytes || s->bytes + bytes <= sched.max_bytes) &&
	                     (!sched.max_cost || (s->cost <= sched.max_cost && cost <= sched.max_cost - s->cost)));
}

static bool is_full(const struct sums *s)
{
	return s->items >= sched.max_items || (sched.max_bytes && s->bytes >= sched.max_bytes) ||
	       (sched.max_cost && s->cost >= sched.max_cost);
}

static void add_sums(struct sums *s, uint64_t bytes, uint64_t cost)
{
	s->items++;
	s->bytes += bytes;
	s->cost += cost;
}

/* What a bucket holds becomes a frame of its own. */
static int close_bucket(struct bucket *b, struct lx_err *e)
{
	if (!b->sums.items)
		return 0;
	struct lx_rec rec;
	size_t used;
	if (lx_buf_check(&b->records, e) < 0 || close_batch(e) < 0)
		return -1;
	for (size_t at = 0; at < b->records.len; at += used)
		if (lx_rec_parse(b->records.p + at, b->records.len - at, &common.limits, &rec, &used, e) < 0 || lx_stage_put(&r.stage, &rec, e) < 0)
			return -1;
	r.open = b->sums;
	b->sums = (struct sums){ 0 };
	lx_buf_clear(&b->records);
	return close_batch(e);
}

static int close_buckets(struct lx_err *e)
{
	for (int i = 0; r.buckets && i < LX_SCHED_BUCKETS; i++)
		if (close_bucket(&r.buckets[i], e) < 0)
			return -1;
	return close_batch(e);
}

static bool is_waiting(void)
{
	bool any = r.open.items;
	for (int i = 0; r.buckets && i < LX_SCHED_BUCKETS; i++)
		any |= r.buckets[i].sums.items != 0;
	return any;
}

static int add_to_bucket(const struct lx_rec *rec, uint64_t cost, struct lx_err *e)
{
	uint64_t size;
	if (!lx_pool_size(rec, bucket_field, &size))
		return lx_pool_no_size(&r.stage, rec, bucket_field, e);
	struct bucket *b = &r.buckets[lx_pool_bucket(size)];
	if (!fits(&b->sums, rec->raw.len, cost) && close_bucket(b, e) < 0)
		return -1;
	lx_buf_span(&b->records, rec->raw);
	add_sums(&b->sums, rec->raw.len, cost);
	return is_full(&b->sums) ? close_bucket(b, e) : 0;
}

static int add_item(const struct lx_rec *rec, struct lx_err *e)
{
	uint64_t cost = 0;
	if (cost_field && !lx_pool_size(rec, cost_field, &cost))
		return lx_pool_no_size(&r.stage, rec, cost_field, e);
	if (r.spool && lx_spool_has(r.spool, rec))
		return lx_stage_put(&r.stage, rec, e);
	if (linger_ms != UINT64_MAX && !is_waiting())
		r.until_ns = lx_io_now_ns() + linger_ms * MS;
	if (r.buckets)
		return add_to_bucket(rec, cost, e);
	if (!fits(&r.open, rec->raw.len, cost) && close_batch(e) < 0)
		return -1;
	add_sums(&r.open, rec->raw.len, cost);
	if (lx_stage_put(&r.stage, rec, e) < 0)
		return -1;
	return is_full(&r.open) ? close_batch(e) : 0;
}

/* Records of other domains ride along; alone, or a great deal of them, they do not wait for a batch. */
static int end_of_frame(struct lx_err *e)
{
	if (r.spool)
		return 0;
	uint64_t all = r.stage.out.bytes, riding = all - (r.open.bytes < all ? r.open.bytes : all);
	return riding >= (r.open.items ? 16u << 20 : LX_FRAME_TARGET) ? close_batch(e) : 0;
}

/* The input has nothing at hand: a part-filled batch leaves, after the linger if there is one. */
static int wait_input(struct lx_err *e)
{
	while (is_waiting() && linger_ms != UINT64_MAX && !lx_io_ready(lx_stage_fd(&r.stage))) {
		uint64_t now = lx_io_now_ns();
		if (now >= r.until_ns || lx_sig_stop())
			break;
		if (lx_writer_send(&r.stage.out, e) < 0 || lx_io_wait(lx_stage_fd(&r.stage), (int)((r.until_ns - now + MS - 1) / MS), e) < 0)
			return -1;
	}
	if ((lx_writer_waits(&r.stage.out) || is_waiting()) && !lx_io_ready(lx_stage_fd(&r.stage)) && close_buckets(e) < 0)
		return -1;
	return lx_stage_wait(&r.stage, e);
}

/* The same of a spool: jobs are worth more than a moment, so without a linger what is part-filled waits. */
static int wait_spooling(struct lx_err *e)
{
	while (linger_ms != UINT64_MAX && is_waiting() && !lx_io_ready(lx_stage_fd(&r.stage)) && !lx_sig_stop()) {
		uint64_t now = lx_io_now_ns();
		if (now >= r.until_ns)
			return close_buckets(e) < 0 ? -1 : lx_spool_flush(r.spool, e);
		if (lx_io_wait(lx_stage_fd(&r.stage), (int)((r.until_ns - now + MS - 1) / MS), e) < 0)
			return -1;
	}
	return lx_stage_wait(&r.stage, e);
}

static int end_spooled_run(char *more, size_t size, struct lx_err *e)
{
	if (common.check)
		return 0;
	if (lx_spool_end(r.spool, e) < 0)
		return -1;
	const struct lx_spool_stats *st = lx_spool_stats(r.spool);
	snprintf(more, size, ",\"batches\":%llu,\"files\":%llu,\"known_batches\":%llu,\"known\":%llu", (unsigned long long)st->batches,
	         (unsigned long long)st->parts, (unsigned long long)st->known_batches, (unsigned long long)st->known);
	return 0;
}

static int end_reframed_run(struct lx_err *e)
{
	char more[160];
	if (close_buckets(e) < 0 || lx_stage_end_run(&r.stage, e) < 0)
		return -1;
	snprintf(more, sizeof(more), ",\"batches\":%llu", (unsigned long long)r.batches);
	if (spool_dir && end_spooled_run(more, sizeof(more), e) < 0)
		return -1;
	r.batches = 0;
	return cmd_stats(&common, &r.stage, more, e);
}

static const struct cmd_loop reframing = { .item = add_item, .frame = end_of_frame, .wait = wait_input, .run = end_reframed_run };
static const struct cmd_loop spooling = { .item = add_item, .wait = wait_spooling, .run = end_reframed_run };

static void reframe(struct lx_err *e)
{
	struct lx_stage_conf conf;
	if (cmd_stage_conf(&common, &conf, e) < 0)
		return;
	conf.own_frames = true;
	conf.keep_parts = !spool_dir;
	conf.plan = plan_reframe;
	if (spool_dir)
		conf.out = -1, conf.put = to_spool;
	if (bucket_field && !(r.buckets = calloc(LX_SCHED_BUCKETS, sizeof(*r.buckets)))) {
		lx_err_sys(e, "--bucket");
		return;
	}
	if (lx_stage_init(&r.stage, &conf, e) < 0 || cmd_loop(&r.stage, spool_dir ? &spooling : &reframing, e) < 0)
		lx_stage_abort(&r.stage, e);
	lx_stage_release(&r.stage);
	lx_spool_free(r.spool);
	for (int i = 0; r.buckets && i < LX_SCHED_BUCKETS; i++)
		lx_buf_free(&r.buckets[i].records);
	free(r.buckets);
}

/* ---- with workers ---- */

/* A worker: its command, its environment, its name. */
struct hand {
	char *shell[4];
	char worker[32], gpu[128];
	char *env[4];
	char name[96];
	struct lx_strs command; /* of a host: what runs there, */
	char **channel;         /* and what runs here for that */
};

static bool is_far(const char *command)
{
	return strncmp(command, "ssh ", 4) == 0;
}

static char unset[] = "LX_RUN"; /* for a worker */

static void fill_hand(struct hand *h, struct lx_pool_cmd *c, size_t number, char **argv, const char *shell)
{
	const char *program = shell ? shell : argv[0];
	size_t n = 0;
	snprintf(h->worker, sizeof(h->worker), "LX_WORKER=%zu", number);
	h->env[n++] = h->worker;
	h->env[n++] = unset; /* barriers go to workers as hints: what they told of those would have lost its cause */
	if (gpus.n) {
		snprintf(h->gpu, sizeof(h->gpu), "CUDA_VISIBLE_DEVICES=%s", gpus.v[number % gpus.n]);
		h->env[n++] = h->gpu;
	}
	snprintf(h->name, sizeof(h->name), "worker %zu (%.64s)", number, program);
	h->shell[0] = (char *)"sh", h->shell[1] = (char *)"-c", h->shell[2] = (char *)shell;
	*c = (struct lx_pool_cmd){
		.argv = shell ? h->shell : argv,
		.env = h->env,
		.name = h->name,
		.far = is_far(program),
	};
}

static int run_done(const struct lx_stage *s, const char *more, struct lx_err *e)
{
	return cmd_stats(&common, s, more, e);
}

static void say(const char *line)
{
	cmd_say("%s", line);
}

static struct hand *hands;
static struct lx_pool_cmd *cmds;

static int make_room(size_t n, struct lx_err *e)
{
	if (n > WORKERS_MAX)
		return lx_err_set(e, LX_USAGE, "%zu workers, %d at most (-j)", n, WORKERS_MAX);
	hands = calloc(n, sizeof(*hands));
	cmds = calloc(n, sizeof(*cmds));
	return hands && cmds ? 0 : lx_err_sys(e, "workers");
}

/* One of each kind, then the next of each. */
static size_t local_workers(char **argv, struct lx_err *e)
{
	size_t each = jobs ? jobs : gpus.n ? gpus.n : 1, n_cmds = shell_workers.n + (argv != NULL), n = each * n_cmds;
	if (make_room(n, e) < 0 || (argv && lx_spawn_check(argv[0], e) < 0))
		return 0;
	for (size_t i = 0; i < n; i++)
		fill_hand(&hands[i], &cmds[i], i, argv, i % n_cmds < shell_workers.n ? shell_workers.v[i % n_cmds] : NULL);
	return n;
}

/* ---- on hosts: a worker is an lx-batch there ---- */

/* Words of a command; an error stays in e and makes the later ones do nothing. */
static void word(struct lx_strs *l, const char *text, struct lx_err *e)
{
	if (e->code == LX_OK)
		lx_strs_add(l, text, e);
}

static void option(struct lx_strs *l, const char *name, const char *value, struct lx_err *e)
{
	word(l, name, e);
	word(l, value, e);
}

static void number(struct lx_strs *l, const char *name, uint64_t value, const char *unit, struct lx_err *e)
{
	char text[32];
	snprintf(text, sizeof(text), "%llu%s", (unsigned long long)value, unit);
	option(l, name, text, e);
}

/* This program, for hosts that are none. */
static void own_name(struct lx_strs *l, struct lx_err *e)
{
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[len > 0 ? len : 0] = '\0';
	word(l, len > 0 ? self : "lx-batch", e);
}

/* The lx-batch on a host, with what concerns its workers. Batches are formed here; there they are frames. */
static void host_command(struct lx_strs *l, const struct lx_host *h, char **argv, struct lx_err *e)
{
	if (h->host)
		word(l, "lx-batch", e);
	else
		own_name(l, e);
	word(l, "--frames", e);
	if (h->slots || jobs)
		number(l, "-j", h->slots ? h->slots : jobs, "", e);
	else if (!gpus.n)
		option(l, "-j", "100%", e);
	for (size_t i = 0; i < gpus.n; i++)
		option(l, "--gpus", gpus.v[i], e);
	if (common.quiet)
		word(l, "-q", e);
	if (timeout_ms)
		number(l, "--timeout", timeout_ms, "ms", e);
	option(l, "--on-crash", crash_mode, e);
	number(l, "--retry", retries, "", e);
	number(l, "--strikes", strikes, "", e);
	number(l, "--max-crashes", crashes, "", e);
	number(l, "--silence", silence_ms, "ms", e);
	for (size_t i = 0; i < shell_workers.n; i++)
		option(l, "-W", shell_workers.v[i], e);
	if (argv)
		word(l, "--", e);
	for (; argv && *argv; argv++)
		word(l, *argv, e);
}

static int fill_host(struct hand *w, struct lx_pool_cmd *c, const struct lx_host *h, char **argv, struct lx_err *e)
{
	host_command(&w->command, h, argv, e);
	if (e->code != LX_OK || (h->host && !(w->channel = lx_host_argv(h, w->command.v, e))))
		return -1;
	w->env[0] = unset;
	snprintf(w->name, sizeof(w->name), "host %.80s", h->login);
	*c = (struct lx_pool_cmd){
		.argv = h->host ? w->channel : (char *const *)w->command.v,
		.env = w->env,
		.name = w->name,
		.far = h->host,
		.host = true,
	};
	return 0;
}

static size_t host_workers(char **argv, struct lx_err *e)
{
	if (make_room(hosts.n, e) < 0)
		return 0;
	for (size_t i = 0; i < hosts.n; i++)
		if (fill_host(&hands[i], &cmds[i], &hosts.v[i], argv, e) < 0)
			return 0;
	sched.timeout_ns = 0; /* the time of a batch is a matter for the lx-batch that runs it */
	return hosts.n;
}

static void run_pool(char **argv, struct lx_err *e)
{
	struct lx_stage_conf conf;
	size_t n = hosts.n ? host_workers(argv, e) : argv || shell_workers.n ? local_workers(argv, e) : 0;
	struct lx_pool_conf pc = { .sched = sched, .cmds = cmds, .n = n, .cost_field = cost_field, .bucket_field = bucket_field,
		.frames = frames, .silence_ms = silence_ms, .mem = sched.max_ready_bytes, .say = common.quiet ? NULL : say, .run_done = run_done };
	pc.listen = listen_at;
	if (e->code == LX_OK && (n || listen_at) && cmd_stage_conf(&common, &conf, e) == 0)
		lx_pool_run(&pc, &conf, e);
	for (size_t i = 0; hands && i < hosts.n; i++) {
		lx_strs_free(&hands[i].command);
		free(hands[i].channel);
	}
	free(hands);
	free(cmds);
}

/* ---- main ---- */

static bool recovery_is_given(void)
{
	return queue != UINT64_MAX || common.mem || silence_ms != UINT64_MAX || start_timeout_ms != UINT64_MAX || crash_mode ||
	       join_ms != UINT64_MAX || retries != UINT64_MAX || strikes != UINT64_MAX || crashes != UINT64_MAX;
}

static void by_default(uint64_t *given, uint64_t value)
{
	if (*given == UINT64_MAX)
		*given = value;
}

static int settle_options(bool commands, bool workers, struct lx_err *e)
{
	if (frames && (count || sched.max_bytes || sched.max_cost || bucket_field || has_order || fixed_order || linger_ms != UINT64_MAX))
		return lx_err_set(e, LX_USAGE, "--frames takes batches as they come: it goes with none of -n, -b, --cost, --bucket, --linger, --order, --fixed");
	if (fixed_order && has_order && sched.order != LX_ORDER_FIFO)
		return lx_err_set(e, LX_USAGE, "--fixed is in order of arrival: --order probe contradicts it");
	if (!workers && (recovery_is_given() || jobs || gpus.n || fixed_order || has_order || timeout_ms || depth || frames || hosts.n))
		return lx_err_set(e, LX_USAGE, "without a worker there is nothing to schedule: --hosts, -j, --gpus, --depth, --order, --fixed, "
		                               "--frames, --queue, --mem, --silence, --timeout, --start-timeout, --on-crash, "
		                               "--retry, --strikes and --max-crashes need -W, -- WORKER or --listen");
	if (spool_dir && (workers || common.to || common.packing == LX_RAW))
		return lx_err_set(e, LX_USAGE, "--spool writes files for jobs, with checksums: not with a worker, --to and --compress raw");
	if (hosts.n && listen_at)
		return lx_err_set(e, LX_USAGE, "--hosts and --listen: a host joins with lx-attach, or is started from here");
	if (jobs && listen_at && !commands)
		return lx_err_set(e, LX_USAGE, "-j is how many of -W and -- WORKER: whoever joins is one each time");
	if (join_ms != UINT64_MAX && !listen_at)
		return lx_err_set(e, LX_USAGE, "--join-timeout is how long to wait for workers that join: it needs --listen");
	by_default(&join_ms, 3600000);
	by_default(&queue, 65536);
	by_default(&start_timeout_ms, 60000);
	by_default(&silence_ms, 20000);
	by_default(&retries, 1);
	by_default(&strikes, 16);
	by_default(&crashes, 16);
	crash_mode = crash_mode ? crash_mode : "bisect";
	sched.max_items = count ? (uint32_t)count : sched.max_bytes || sched.max_cost || frames ? UINT32_MAX : COUNT_DEFAULT;
	sched.linger_ns = linger_ms == UINT64_MAX ? 10 * MS : linger_ms * MS;
	sched.order = fixed_order || frames ? LX_ORDER_FIXED : sched.order;
	sched.depth = (uint32_t)depth;
	sched.max_ready = queue;
	sched.max_ready_bytes = common.mem ? common.mem : 256u << 20;
	sched.timeout_ns = timeout_ms * MS;
	sched.start_timeout_ns = start_timeout_ms * MS;
	sched.retries = (uint32_t)retries;
	sched.max_strikes = (uint32_t)strikes;
	sched.max_charges = (uint32_t)crashes;
	sched.elastic = listen_at;
	sched.join_ns = join_ms * MS;
	sched.seed = lx_io_now_ns();
	return 0;
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	int first = cmd_start("lx-batch", usage, &common, &e) == 0 ? cmd_options(argc, argv, options, &e) : -1;
	if (spool_dir)
		common.unstarted = false; /* names are no stream */
	bool commands = first >= 0 && (first < argc || shell_workers.n), workers = commands || listen_at;
	if (first >= 0 && settle_options(commands, workers, &e) == 0) {
		if (workers)
			run_pool(first < argc ? argv + first : NULL, &e);
		else
			reframe(&e);
	}
	free(cost_field);
	lx_strs_free(&shell_workers);
	lx_hosts_free(&hosts);
	return cmd_finish(&common, &e);
}

/* lx-out: the end of a pipeline: one JSON object a line for each root item that is present.
 *
 * in: a stream whose domains have all been gathered, or with -d any. out: JSON lines; those that failed or were
 * suppressed go to --failures; a summary goes to stderr.
 * Exits non-zero when more failed than --max-failed allows (1), the pipeline has the wrong shape (2), the input is
 * damaged or cut off (3, 4; what arrived has been written), a system call fails (5), or as an earlier stage says.
 */
#include "cmd.h"
#include "done.h"
#include "item.h"
#include "json.h"
#include "order.h"
#include "sig.h"
#include "tally.h"

#include <stdio.h>
#include <unistd.h>

static const char usage[] =
	"lx-out [-qv] [-d DOMAIN] [--drop FIELDS] [--ordered] [--failures FILE]\n"
	"       [--max-failed N|P%] [--to FILE] [--stats FILE] [--mem SIZE]\n"
	"       [--tmpdir DIR] [--max-record SIZE] [--max-frame SIZE]\n"
	"       [--max-depth N] [--max-id N] [--max-fields N]";

#define TEXT_TARGET (64u << 10)
#define MEM_DEFAULT (40u << 20)
#define ULL(x) ((unsigned long long)(x))

static struct cmd_common common = CMD_COMMON_INIT;
static bool ordered;
static const char *failures;
static struct lx_tolerance max_failed;

static int parse_max_failed(void *to, const char *arg, struct lx_err *e)
{
	struct lx_err own = LX_ERR_INIT;
	if (lx_tolerance_parse(arg, to, &own) == 0)
		return 0;
	return lx_err_set(e, LX_USAGE, "'%s' is neither a number of items nor a percentage from 0%% to 100%%", arg);
}

static const struct lx_opt options[] = {
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ 0, "drop", LX_OPT_NAMES, &common.drop, 0, 0, NULL },
	{ 0, "ordered", LX_OPT_FLAG, &ordered, 0, 0, NULL },
	{ 0, "failures", LX_OPT_STR, &failures, 0, 0, NULL },
	{ 0, "max-failed", LX_OPT_CALL, &max_failed, 0, 0, parse_max_failed },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "tmpdir", LX_OPT_STR, &common.tmpdir, 0, 0, NULL },
	{ 0, "mem", LX_OPT_SIZE, &common.mem, 1u << 20, 0, NULL },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

/* Where lines go, gathered into large writes. */
struct sink {
	int fd; /* -1: nowhere */
	const char *name;
	struct lx_buf text;
};

static struct {
	struct lx_stage stage;
	struct sink out, bad;
	struct lx_outfile failures;
	struct lx_item_text text;
	struct lx_buf line, fields;
	struct lx_done *done;      /* items of this run that came */
	struct lx_done *broken;    /* -d: parents of this run whose expansion into the domain failed */
	uint64_t n_broken;
	struct lx_order waiting;   /* --ordered: lines of items behind one that has not come */
	uint64_t next;             /* --ordered: ordinal of the next item */
	uint64_t seen[LX_OUTCOMES], again;
	struct lx_tally types;
} o = { .out.fd = -1, .bad.fd = -1, .failures.fd = -1, .waiting.spill.fd = -1 };

/* ---- lines ---- */

static int flush(struct sink *s, struct lx_err *e)
{
	if (!s->text.len)
		return lx_buf_check(&s->text, e);
	int rc = lx_io_write(s->fd, s->text.p, s->text.len, e);
	lx_buf_clear(&s->text);
	return rc < 0 ? lx_err_prefix(e, "%s", s->name) : 0;
}

static int flush_all(struct lx_err *e)
{
	return flush(&o.out, e) < 0 || flush(&o.bad, e) < 0 ? -1 : 0;
}

/* `body`: the outcome in one byte, then the line. */
static int write_line(struct lx_span body, struct lx_err *e)
{
	struct sink *s = body.p[0] == LX_PRESENT ? &o.out : &o.bad;
	if (s->fd < 0 || body.len == 1)
		return 0;
	lx_buf_add(&s->text, body.p + 1, body.len - 1);
	lx_buf_byte(&s->text, '\n');
	return s->text.len >= TEXT_TARGET ? flush(s, e) : 0;
}

/* Take from those that wait; `all`: also behind gaps. */
static int write_waiting(bool all, struct lx_err *e)
{
	struct lx_span key, body;
	while ((key = lx_order_least(&o.waiting)).p) {
		uint64_t ordinal = 0;
		for (size_t i = 0; i < key.len; i++)
			ordinal = ordinal << 8 | key.p[i];
		if (ordinal != o.next && !all)
			return 0;
		o.next = ordinal + 1;
		if (lx_order_take(&o.waiting, &body, e) < 0 || write_line(body, e) < 0)
			return -1;
	}
	return 0;
}

/* Every item fills its place, whatever its outcome, or those behind it would wait for ever. */
static int write_ordered(uint64_t ordinal, struct lx_span body, struct lx_err *e)
{
	uint8_t key[8];
	if (ordinal == o.next) {
		o.next++;
		return write_line(body, e) < 0 ? -1 : write_waiting(false, e);
	}
	for (int i = 0; i < 8; i++)
		key[i] = (uint8_t)(ordinal >> (56 - 8 * i));
	return lx_order_add(&o.waiting, (struct lx_span){ key, sizeof(key) }, body, e);
}

/* ---- items ---- */

/* Its line in o.line, behind its outcome: nothing for what is written nowhere. */
static int make_line(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_span fields = r->fields;
	lx_buf_clear(&o.line);
	lx_buf_byte(&o.line, (uint8_t)r->outcome);
	if (r->outcome == LX_DROPPED || (r->outcome != LX_PRESENT && o.bad.fd < 0))
		return 0;
	if (fields.p && common.drop.n) {
		struct lx_edit gone[64];
		lx_buf_clear(&o.fields);
		for (size_t i = 0; i < common.drop.n; i++)
			gone[i] = (struct lx_edit){ .name = lx_span_str(common.drop.v[i]) };
		if (lx_fields_edit(&o.fields, fields, gone, common.drop.n, &common.limits, e) < 0)
			return -1;
		fields = lx_buf_view(&o.fields);
	}
	return lx_item_write(&o.line, &o.text, &o.stage.plan, r, fields, e);
}

/* "a.pdf (page 7: blank)" for the summary. */
static void describe(const struct lx_rec *r, const struct lx_cause *c, char out[LX_TALLY_FIRST])
{
	char where[LX_WHERE_MAX], id[LX_ID_TEXT_MAX];
	struct lx_val key;
	lx_item_where(&o.stage.plan, r, where);
	lx_id_text(&r->id, id, sizeof(id));
	struct lx_span name = lx_span_str(id);
	if (r->key.p && lx_val_from(r->key, &key) == 0 && (key.type == LX_STR || key.type == LX_BIN))
		name = key.s;
	snprintf(out, LX_TALLY_FIRST, "%.*s (%.40s%s%.*s)", (int)(name.len < 100 ? name.len : 100), (const char *)name.p,
	         where, where[0] ? ": " : "", (int)(c->message.len < 100 ? c->message.len : 100), (const char *)c->message.p);
}

static void count_type(const struct lx_rec *r)
{
	struct lx_cause c;
	if (r->outcome < LX_FAILED || lx_cause_read(r->cause, &c) < 0)
		return;
	struct lx_tally_row *row = lx_tally_add(&o.types, c.type);
	if (row && row->n == 1)
		describe(r, &c, row->first);
}

static void count(const struct lx_rec *r)
{
	o.seen[r->outcome]++;
	count_type(r);
}

/* Whether an item came before; if not, it has now. -1: no memory. */
static int came_before(const struct lx_rec *r, struct lx_err *e)
{
	if (lx_done_has(o.done, &r->id) != LX_DONE_NO) {
		o.again++;
		return 1;
	}
	return lx_done_add(o.done, &r->id, false, e);
}

static int on_item(const struct lx_rec *r, struct lx_err *e)
{
	int again = came_before(r, e);
	if (again)
		return again < 0 ? -1 : 0;
	count(r);
	if (make_line(r, e) < 0 || lx_buf_check(&o.line, e) < 0)
		return -1;
	if (ordered)
		return write_ordered(lx_id_ordinal(&r->id), lx_buf_view(&o.line), e);
	return write_line(lx_buf_view(&o.line), e);
}

/* With the number of children known a parent's need not be remembered one by one. */
static int on_close(const struct lx_rec *r, struct lx_err *e)
{
	/* How many children it did not make is not known: it counts as one. */
	if (r->domain == (uint32_t)o.stage.domain && r->outcome != LX_PRESENT && lx_done_has(o.broken, &r->id) == LX_DONE_NO) {
		o.n_broken++;
		count_type(r);
		if (lx_done_add(o.broken, &r->id, false, e) < 0)
			return -1;
	}
	if (lx_plan_levels(&o.stage.plan, o.stage.domain, (int)r->domain) < 0)
		return 0;
	return lx_done_total(o.done, &r->id, r->count, e);
}

static int on_record(const struct lx_rec *r, struct lx_err *e)
{
	if (r->kind == LX_CLOSE)
		return on_close(r, e);
	return r->domain == (uint32_t)o.stage.domain ? on_item(r, e) : 0;
}

/* ---- the run ---- */

static int plan(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	if (lx_plan_sink(p, common.domain != NULL, e) < 0)
		return -1;
	if (ordered && s->domain != 0)
		return lx_err_set(e, LX_USAGE, "--ordered: only for root items, %s is below them (-d)", p->domains[s->domain].name);
	for (size_t i = 0; i < common.drop.n; i++)
		if (lx_plan_reads(p, s->domain, common.drop.v[i], "--drop", e) < 0)
			return -1;
	lx_done_free(o.done);
	lx_done_free(o.broken);
	o.done = lx_done_new();
	o.broken = lx_done_new();
	o.next = 0;
	return o.done && o.broken ? 0 : lx_err_sys(e, "items that came");
}

static int end_run(struct lx_err *e)
{
	char more[160];
	if (write_waiting(true, e) < 0 || flush_all(e) < 0 || lx_stage_end_run(&o.stage, e) < 0)
		return -1;
	snprintf(more, sizeof(more), ",\"repeated\":%llu,\"spilled_bytes\":%llu", ULL(o.again), ULL(o.waiting.spill.written));
	return cmd_stats(&common, &o.stage, more, e);
}

static int wait_input(struct lx_err *e)
{
	if (!lx_io_ready(o.stage.conf.in) && flush_all(e) < 0)
		return -1;
	return lx_stage_wait(&o.stage, e);
}

static const struct cmd_loop loop = { .item = on_record, .wait = wait_input, .run = end_run };

/* ---- the verdict ---- */

static void say_counts(void)
{
	char text[256];
	int n = snprintf(text, sizeof(text), "%llu present", ULL(o.seen[LX_PRESENT]));
	for (int k = LX_DROPPED; k < LX_OUTCOMES; k++)
		if (o.seen[k])
			n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu %s", ULL(o.seen[k]), lx_outcome_name((enum lx_outcome)k));
	if (o.n_broken)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", %llu expansion%s failed", ULL(o.n_broken), o.n_broken == 1 ? "" : "s");
	if (o.again)
		snprintf(text + n, sizeof(text) - (size_t)n, ", %llu came again and were left out", ULL(o.again));
	cmd_say("%s", text);
}

static void say_summary(void)
{
	say_counts();
	lx_tally_sort(&o.types);
	for (size_t i = 0; i < o.types.n; i++) {
		const struct lx_tally_row *row = &o.types.rows[i];
		cmd_say("%llu %s: %s%s", ULL(row->n), row->word, row->first, row->n > 1 ? ", ..." : "");
	}
	if (o.types.other)
		cmd_say("%llu of other types", ULL(o.types.other));
}

static int judge(struct lx_err *e)
{
	uint64_t bad = o.seen[LX_FAILED] + o.seen[LX_SUPPRESSED] + o.n_broken, all = bad + o.seen[LX_PRESENT] + o.seen[LX_DROPPED];
	if (bad <= lx_tolerance_of(max_failed, all))
		return 0;
	return lx_err_set(e, LX_RECORDS, "%llu of %llu failed or were suppressed, --max-failed allows %llu", ULL(bad), ULL(all),
	                  ULL(lx_tolerance_of(max_failed, all)));
}

/* All is written. */
static int finish(struct lx_err *e)
{
	if (common.check)
		return 0;
	if (o.failures.path && lx_outfile_commit(&o.failures, e) < 0)
		return -1;
	if (!common.quiet)
		say_summary();
	return judge(e);
}

/* What arrived is written all the same, unless writing is what failed. */
static void give_up(const struct lx_err *why)
{
	struct lx_err ignored = LX_ERR_INIT;
	if (why->code == LX_SYSTEM && !why->upstream && !lx_sig_stop())
		return;
	if (!lx_sig_stop())
		write_waiting(true, &ignored);
	flush_all(&ignored);
}

static int open_failures(struct lx_err *e)
{
	if (!failures || common.check)
		return 0;
	if (lx_outfile_open(&o.failures, failures, e) < 0)
		return lx_err_prefix(e, "--failures");
	o.bad.fd = o.failures.fd;
	return 0;
}

static int open_all(struct lx_err *e)
{
	struct lx_stage_conf sc;
	if (common.drop.n > 64)
		return lx_err_set(e, LX_USAGE, "--drop: over 64 fields");
	if (cmd_stage_conf(&common, &sc, e) < 0)
		return -1;
	o.out = (struct sink){ .fd = sc.out, .name = common.to ? common.to : "stdout" };
	o.bad = (struct sink){ .fd = -1, .name = failures };
	sc.out = -1;
	sc.take_all = true;
	sc.plan = plan;
	lx_order_init(&o.waiting, common.mem ? common.mem : MEM_DEFAULT, common.tmpdir);
	return open_failures(e) < 0 ? -1 : lx_stage_init(&o.stage, &sc, e);
}

static void release(void)
{
	struct lx_buf *bufs[] = { &o.out.text, &o.bad.text, &o.line, &o.fields };
	for (size_t i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
		lx_buf_free(bufs[i]);
	lx_item_text_free(&o.text);
	lx_order_release(&o.waiting);
	lx_done_free(o.done);
	lx_done_free(o.broken);
	lx_outfile_discard(&o.failures);
	lx_stage_release(&o.stage);
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	int first = cmd_start("lx-out", usage, &common, &e) < 0 ? -1 : cmd_options(argc, argv, options, &e);
	if (first >= 0 && first < argc)
		lx_err_set(&e, LX_USAGE, "'%s': it reads stdin and takes no operands", argv[first]);
	if (e.code == LX_OK && open_all(&e) == 0) {
		if (cmd_loop(&o.stage, &loop, &e) < 0)
			give_up(&e);
		else
			finish(&e);
	}
	release();
	return cmd_finish(&common, &e);
}

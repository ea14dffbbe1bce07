#include "cmd.h"

#include "io.h"
#include "json.h"
#include "sig.h"
#include "spawn.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *tool = "lx", *usage = "";
static uint64_t start_ns;
static struct lx_outfile to_file = { .fd = -1 }, stats_file = { .fd = -1 };
static bool stats_written;
static struct lx_trace trace_file = { .fd = -1 };

/* ---- start ---- */

int cmd_start(const char *name, const char *synopsis, struct cmd_common *c, struct lx_err *e)
{
	const char *check = getenv("LX_CHECK");
	tool = name;
	usage = synopsis;
	start_ns = lx_io_now_ns();
	if (c)
		c->check = check && *check && strcmp(check, "0") != 0;
	if (lx_io_std(e) < 0 || lx_sig_init(e) < 0)
		return -1;
	lx_spawn_raise_files();
	return 0;
}

/* Text the user asked for: it goes to stdout, and has to arrive. */
__attribute__((noreturn)) static void answer(struct lx_buf *b)
{
	struct lx_err e = LX_ERR_INIT;
	if (lx_buf_check(b, &e) == 0 && lx_io_write(1, b->p, b->len, &e) < 0)
		lx_err_prefix(&e, "stdout");
	lx_buf_free(b);
	exit(cmd_finish(NULL, &e));
}

int cmd_options(int argc, char **argv, const struct lx_opt *table, struct lx_err *e)
{
	bool help = false, version = false;
	struct lx_opt all[LX_OPTS_MAX];
	struct lx_buf text = { 0 };
	size_t n = 0;
	while (table[n].letter || table[n].name)
		n++;
	if (n + 3 > LX_OPTS_MAX)
		return lx_err_set(e, LX_USAGE, "a table of over %d options", LX_OPTS_MAX - 3);
	memcpy(all, table, n * sizeof(*all));
	all[n++] = (struct lx_opt){ 'h', "help", LX_OPT_FLAG, &help, 0, 0, NULL };
	all[n++] = (struct lx_opt){ 'V', "version", LX_OPT_FLAG, &version, 0, 0, NULL };
	all[n] = (struct lx_opt){ 0 };
	int first = lx_opt_parse(argc, argv, all, NULL, e);
	if (help)
		lx_buf_printf(&text, "usage: %s\n", usage);
	else if (version && first >= 0)
		lx_buf_printf(&text, "%s %s\n", tool, LX_VERSION_TEXT);
	if (text.len || text.failed)
		answer(&text);
	return first;
}

int cmd_compress(void *common, const char *arg, struct lx_err *e)
{
	struct cmd_common *c = common;
	uint64_t level = 1;
	if (strcmp(arg, "raw") == 0) {
		c->packing = LX_RAW;
	} else if (strcmp(arg, "checked") == 0) {
		c->packing = LX_CHECKED;
	} else if (strcmp(arg, "zstd") == 0 || strncmp(arg, "zstd:", 5) == 0) {
		if (arg[4] && lx_opt_uint("level", arg + 5, 1, 19, &level, e) < 0)
			return -1;
		c->packing = LX_ZSTD;
		c->level = (int)level;
	} else {
		return lx_err_set(e, LX_USAGE, "'%s' is none of raw, checked, zstd, zstd:LEVEL", arg);
	}
	return 0;
}

static int small(const char *arg, uint64_t max, uint32_t *out, struct lx_err *e)
{
	uint64_t v;
	if (lx_opt_uint("", arg, 1, max, &v, e) < 0)
		return -1;
	*out = (uint32_t)v;
	return 0;
}

int cmd_max_depth(void *common, const char *arg, struct lx_err *e)
{
	return small(arg, 64, &((struct cmd_common *)common)->limits.depth, e); /* lx_val_walk goes no deeper */
}

int cmd_max_id(void *common, const char *arg, struct lx_err *e)
{
	return small(arg, LX_ID_MAX, &((struct cmd_common *)common)->limits.id_len, e);
}

int cmd_max_fields(void *common, const char *arg, struct lx_err *e)
{
	return small(arg, 1u << 24, &((struct cmd_common *)common)->limits.fields, e);
}

/* ---- the stage ---- */

static int open_stats(const struct cmd_common *c, struct lx_err *e)
{
	if (!c->stats || c->check || stats_file.fd >= 0)
		return 0;
	if (lx_outfile_open(&stats_file, c->stats, e) == 0)
		return 0;
	stats_file.fd = -1;
	return lx_err_prefix(e, "--stats");
}

int cmd_output(struct cmd_common *c, struct lx_err *e)
{
	if (c && open_stats(c, e) < 0)
		return -1;
	if (!c || !c->to)
		return 1;
	if (to_file.fd < 0 && lx_outfile_open(&to_file, c->to, e) < 0) {
		to_file.fd = -1;
		return lx_err_prefix(e, "--to");
	}
	return to_file.fd;
}

int cmd_trace(struct cmd_common *c, struct lx_trace **trace, struct lx_err *e)
{
	*trace = NULL;
	if (!c->trace || c->check)
		return 0;
	if (trace_file.fd < 0 && lx_trace_open(&trace_file, c->trace, e) < 0)
		return lx_err_prefix(e, "--trace");
	*trace = &trace_file;
	return 0;
}

/* --from takes the place of stdin. */
static int open_from(const struct cmd_common *c, struct lx_err *e)
{
	if (!c->from)
		return 0;
	int fd = open(c->from, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || dup2(fd, 0) < 0)
		return lx_err_sys(e, "--from: %s", c->from);
	close(fd);
	return 0;
}

/* The stage before us may be refused for the same, and then says it. */
static int unless_said(const struct lx_stage_conf *sc, struct lx_err *e)
{
	struct lx_err before = LX_ERR_INIT;
	struct lx_reader *r = lx_reader_new(0, "stdin", &sc->limits, &before);
	if (r && lx_reader_wait(r, &before) == LX_EV_ERROR && before.upstream && strcmp(before.msg, e->msg) == 0)
		*e = before;
	lx_reader_free(r);
	return -1;
}

int cmd_stage_conf(struct cmd_common *c, struct lx_stage_conf *sc, struct lx_err *e)
{
	if (open_from(c, e) < 0)
		return -1;
	if (lx_io_is_terminal(0))
		return lx_err_set(e, LX_USAGE, "stdin is a terminal, not a stream: put lx-in or another stage before it");
	*sc = (struct lx_stage_conf){
		.tool = tool,
		.domain = c->domain,
		.in_name = c->from,
		.out = cmd_output(c, e),
		.limits = c->limits,
		.packing = c->packing,
		.level = c->level,
		.check = c->check,
	};
	if (sc->out < 0 || cmd_trace(c, &sc->trace, e) < 0)
		return -1;
	const char *dir = getenv("LX_RUN");
	if (dir && *dir && !c->check && !(sc->ledger = lx_ledger_open(dir, e)))
		return unless_said(sc, e);
	c->unstarted = false; /* from here on the stage writes the abort mark */
	return 0;
}

/* ---- the loop ---- */

static int on_step(struct lx_stage *s, const struct cmd_loop *l, enum lx_step st, const struct lx_rec *r, struct lx_err *e)
{
	switch (st) {
	case LX_STEP_ITEM:
	case LX_STEP_REC:
		return l->item(r, e);
	case LX_STEP_FRAME:
		return l->frame ? l->frame(e) : 0;
	case LX_STEP_MORE:
		return l->wait ? l->wait(e) : lx_stage_wait(s, e);
	case LX_STEP_RUN:
		return l->run(e);
	case LX_STEP_EOF:
	case LX_STEP_ERROR:
		break;
	}
	return -1;
}

int cmd_loop(struct lx_stage *s, const struct cmd_loop *l, struct lx_err *e)
{
	struct lx_rec r;
	for (;;) {
		enum lx_step st = lx_stage_next(s, &r, e);
		if (st == LX_STEP_EOF)
			return 0;
		if (st == LX_STEP_ERROR && l->broke)
			l->broke();
		if (on_step(s, l, st, &r, e) < 0)
			return -1;
	}
}

/* ---- stats ---- */

static void add_counts(struct lx_buf *b, const char *name, const struct lx_plan *p, const struct lx_counts *c)
{
	lx_buf_printf(b, ",\"%s\":{", name);
	for (int d = 0; d < p->n_domains; d++) {
		const uint64_t *n = c->items[d];
		lx_buf_str(b, d ? "," : "");
		lx_json_cstr(b, p->domains[d].name);
		lx_buf_printf(b, ":{\"present\":%llu,\"dropped\":%llu,\"failed\":%llu,\"suppressed\":%llu,\"closes\":%llu}",
		              (unsigned long long)n[LX_PRESENT], (unsigned long long)n[LX_DROPPED],
		              (unsigned long long)n[LX_FAILED], (unsigned long long)n[LX_SUPPRESSED],
		              (unsigned long long)c->closes[d]);
	}
	lx_buf_byte(b, '}');
}

/* The peak of this program; ru_maxrss also counts what the process was before exec. */
static long peak_kb(const struct rusage *ru)
{
	char line[256];
	long kb = ru->ru_maxrss;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "VmHWM:", 6) == 0)
			kb = strtol(line + 6, NULL, 10);
	if (f)
		fclose(f);
	return kb;
}

static unsigned long long cpu_ms(const struct rusage *ru)
{
	const struct timeval *u = &ru->ru_utime, *s = &ru->ru_stime;
	return (unsigned long long)(u->tv_sec + s->tv_sec) * 1000 + (unsigned long long)(u->tv_usec + s->tv_usec) / 1000;
}

/* The last line waits for the end: children count once they have been reaped. */
static struct {
	bool waits;
	struct lx_buf before, after; /* child_cpu_ms */
} stats_line;

static unsigned long long child_cpu_ms(void)
{
	struct rusage children;
	getrusage(RUSAGE_CHILDREN, &children);
	return cpu_ms(&children);
}

static void add_costs(struct lx_buf *before, struct lx_buf *after)
{
	struct rusage self;
	getrusage(RUSAGE_SELF, &self);
	lx_buf_printf(before, ",\"wall_ms\":%llu,\"cpu_ms\":%llu,\"child_cpu_ms\":", (unsigned long long)(lx_io_now_ns() - start_ns) / 1000000,
	              cpu_ms(&self));
	lx_buf_printf(after, ",\"max_rss_kb\":%ld", peak_kb(&self));
}

static int write_line(struct lx_err *e)
{
	if (!stats_line.waits)
		return 0;
	lx_buf_printf(&stats_line.before, "%llu", child_cpu_ms());
	lx_buf_span(&stats_line.before, lx_buf_view(&stats_line.after));
	int rc = lx_buf_check(&stats_line.before, e) < 0 || lx_buf_check(&stats_line.after, e) < 0 ? -1
	       : lx_io_write(stats_file.fd, stats_line.before.p, stats_line.before.len, e);
	lx_buf_free(&stats_line.before);
	lx_buf_free(&stats_line.after);
	stats_line.waits = false;
	return rc;
}

int cmd_stats(const struct cmd_common *c, const struct lx_stage *s, const char *more, struct lx_err *e)
{
	if (!c->stats || c->check)
		return 0;
	if (open_stats(c, e) < 0 || write_line(e) < 0)
		return -1;
	struct lx_buf *b = &stats_line.before;
	lx_buf_str(b, "{\"stage\":");
	lx_json_cstr(b, tool);
	lx_buf_str(b, ",\"run\":");
	lx_json_cstr(b, s->plan.run);
	lx_buf_str(b, ",\"domain\":");
	if (s->domain >= 0 && s->domain < s->plan.n_domains)
		lx_json_cstr(b, s->plan.domains[s->domain].name);
	else
		lx_buf_str(b, "null");
	add_counts(b, "in", &s->plan, &s->got);
	if (s->conf.out >= 0)
		add_counts(b, "out", &s->plan, &s->out.counts);
	lx_buf_printf(b, ",\"barred\":%llu", (unsigned long long)s->barred);
	add_costs(b, &stats_line.after);
	lx_buf_str(&stats_line.after, more);
	lx_buf_str(&stats_line.after, "}\n");
	stats_line.waits = stats_written = true;
	return 0;
}

/* ---- the end ---- */

void cmd_say(const char *fmt, ...)
{
	char text[LX_ERR_MAX];
	struct lx_err line = LX_ERR_INIT, ignored = LX_ERR_INIT; /* lx_err_set makes it one clean line */
	struct lx_buf b = { 0 };
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	lx_err_set(&line, LX_SYSTEM, "%s", text);
	lx_buf_printf(&b, "%s: %s\n", tool, line.msg);
	lx_io_write(2, b.p, b.len, &ignored);
	lx_buf_free(&b);
}

static bool was_said_before(const struct cmd_common *c, const struct lx_err *e)
{
	return e->upstream && !(c && c->verbose) && !lx_io_is_file(0);
}

/* A failure of the end replaces success and LX_RECORDS, never an earlier reason. */
static void take_reason(struct lx_err *e, struct lx_err *own, const char *where)
{
	if (own->code == LX_OK || e->code > LX_RECORDS)
		return;
	lx_err_prefix(own, "%s", where);
	*e = *own;
}

static void finish_output(const struct cmd_common *c, struct lx_err *e)
{
	bool complete = e->code <= LX_RECORDS && !lx_sig_stop() && !(c && c->check);
	struct lx_err own = LX_ERR_INIT;
	if (to_file.fd < 0)
		return;
	if (complete)
		lx_outfile_commit(&to_file, &own);
	else
		lx_outfile_discard(&to_file);
	take_reason(e, &own, "--to");
}

static void finish_stats(struct lx_err *e)
{
	struct lx_err trace = LX_ERR_INIT, own = LX_ERR_INIT;
	if (trace_file.fd >= 0)
		lx_trace_close(&trace_file, &trace);
	take_reason(e, &trace, "--trace");
	if (stats_file.fd >= 0 && stats_written)
		lx_outfile_commit(&stats_file, &own);
	else if (stats_file.fd >= 0)
		lx_outfile_discard(&stats_file);
	take_reason(e, &own, "--stats");
}

/* Options that were refused end a pipeline with their own reason, not with the truncation that the next stage would find. */
static void say_in_stream(const struct cmd_common *c, const struct lx_err *e)
{
	struct lx_limits limits = LX_LIMITS_DEFAULT;
	struct lx_err ignored = LX_ERR_INIT;
	struct lx_writer w;
	if (!c || !c->unstarted || c->to || e->code < LX_USAGE || lx_sig_stop())
		return;
	if (lx_writer_init(&w, 1, &limits, &ignored) < 0)
		return;
	lx_writer_abort(&w, e->code, tool, e->msg, &ignored);
	lx_writer_release(&w);
}

/* A disk may say only now that it is full. */
static void close_stdout(struct lx_err *e)
{
	struct lx_err own = LX_ERR_INIT;
	if (fflush(stdout) != 0 || close(1) < 0)
		lx_err_sys(&own, "close");
	take_reason(e, &own, "stdout");
}

int cmd_finish(struct cmd_common *c, struct lx_err *e)
{
	struct lx_err own = LX_ERR_INIT;
	write_line(&own);
	take_reason(e, &own, "--stats");
	finish_output(c, e);
	finish_stats(e);
	say_in_stream(c, e);
	close_stdout(e);
	if (e->code != LX_OK && !lx_sig_stop() && !was_said_before(c, e)) {
		if (e->upstream && *e->stage)
			cmd_say("%s: %s", e->stage, e->msg);
		else
			cmd_say("%s", e->msg);
	}
	if (c)
		lx_strs_free(&c->drop);
	lx_sig_raise();
	return e->code;
}

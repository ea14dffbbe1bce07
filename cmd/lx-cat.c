/* lx-cat: look at streams, join them, pack them anew, cut them into parts; wait for the parts of a run.
 *
 * in: the streams named, one after the other, or stdin; with --follow the parts that appear in directories. out: one stream, its frames as they were; or with --json and
 * --canonical a line for each record; or with --part-size files.
 * Exits non-zero when options are wrong or the streams do not belong together (2), one is damaged or cut off (3, 4),
 * a system call fails (5).
 */
#include "cmd.h"
#include "follow.h"
#include "json.h"
#include "order.h"
#include "sig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
	"lx-cat [-qv] [--verify] [--to FILE] [--stats FILE]\n"
	"       [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"       [--max-depth N] [--max-id N] [--max-fields N] [FILE ...]\n"
	"lx-cat --part-size SIZE --to PREFIX [-qv] [--verify] [--stats FILE]\n"
	"       [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"       [--max-depth N] [--max-id N] [--max-fields N] [FILE ...]\n"
	"lx-cat --json | --canonical [-qv] [--to FILE] [--mem SIZE]\n"
	"       [--tmpdir DIR] [--max-record SIZE] [--max-frame SIZE]\n"
	"       [--max-depth N] [--max-id N] [--max-fields N] [FILE ...]\n"
	"lx-cat --follow [--json | --canonical] [-qv] [--to FILE] [--stats FILE]\n"
	"       [--mem SIZE] [--tmpdir DIR] [--compress PACKING]\n"
	"       [--max-record SIZE] [--max-frame SIZE] [--max-depth N] [--max-id N]\n"
	"       [--max-fields N] DIR ...";

#define TEXT_TARGET (64u << 10)
#define MEM_DEFAULT (40u << 20)

static struct cmd_common common = CMD_STAGE_INIT;
static bool json, canonical, verify, follow;
static uint64_t part_size;

static const struct lx_opt options[] = {
	{ 0, "json", LX_OPT_FLAG, &json, 0, 0, NULL },
	{ 0, "canonical", LX_OPT_FLAG, &canonical, 0, 0, NULL },
	{ 0, "follow", LX_OPT_FLAG, &follow, 0, 0, NULL },
	{ 0, "verify", LX_OPT_FLAG, &verify, 0, 0, NULL },
	{ 0, "part-size", LX_OPT_SIZE, &part_size, 1, 0, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "tmpdir", LX_OPT_STR, &common.tmpdir, 0, 0, NULL },
	{ 0, "mem", LX_OPT_SIZE, &common.mem, 1u << 20, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

/* What is done at each event of the input. */
struct mode {
	int (*begin)(const struct lx_plan *p, struct lx_err *e); /* of a segment */
	int (*frame)(struct lx_err *e);                          /* a frame is at hand */
	int (*hint)(const struct lx_hint *h, struct lx_err *e);
	int (*end)(struct lx_err *e);                            /* of a segment */
	int (*run)(struct lx_err *e);                            /* all of a run has been read */
	int (*idle)(struct lx_err *e);                           /* the next read will wait */
	void (*give_up)(const struct lx_err *why);
};

static struct {
	struct lx_stage stage; /* its plan, writer and counts; the input is our own */
	struct lx_reader *in;
	int fd;
	char **files; /* the next to read */
	bool is_source, in_run;
	struct lx_follow *follow;
	bool no_more; /* --follow: stdin has ended, nobody writes parts any more */
	int (*idle)(struct lx_err *e); /* of the mode */
	int out;
	struct lx_buf text;
	/* canonical */
	struct lx_order order;
	struct lx_buf key, line, cause, record;
	/* parts */
	struct lx_outfile file;
	uint64_t n_files, part;
	bool part_used; /* it has a frame */
} c = { .fd = -1, .out = -1, .file.fd = -1, .order.spill.fd = -1 };

static int none(struct lx_err *e)
{
	(void)e;
	return 0;
}

static int no_hint(const struct lx_hint *h, struct lx_err *e)
{
	(void)h;
	return none(e);
}

/* ---- a stream from streams ---- */

/* In kind, but bytes that come to rest get checksums. */
static enum lx_packing pick_packing(const struct lx_plan *in, int out)
{
	if (common.packing >= 0)
		return (enum lx_packing)common.packing;
	return in->packing == LX_RAW ? lx_packing_for(out) : in->packing;
}

static int take_plan(const struct lx_plan *in, struct lx_err *e)
{
	struct lx_plan *p = &c.stage.plan;
	lx_plan_free(p);
	if (lx_plan_copy(p, in, e) < 0)
		return -1;
	memset(&c.stage.got, 0, sizeof(c.stage.got));
	c.part = 0;
	p->has_part = false;
	p->limits = common.limits;
	return 0;
}

static int copy_begin(const struct lx_plan *in, struct lx_err *e)
{
	if (c.in_run)
		return 0;
	if (take_plan(in, e) < 0)
		return -1;
	c.stage.plan.packing = pick_packing(in, c.out);
	return lx_writer_begin(&c.stage.out, &c.stage.plan, e);
}

static int copy_records(struct lx_err *e)
{
	struct lx_rec r;
	int got;
	while ((got = lx_reader_rec(c.in, &r, e)) > 0)
		if (lx_writer_add_ref(&c.stage.out, &r, e) < 0)
			return -1;
	return got < 0 ? -1 : lx_writer_close(&c.stage.out, e);
}

static int send(struct lx_err *e)
{
	return lx_writer_send(&c.stage.out, e);
}

static int copy_frame(struct lx_err *e)
{
	if (verify || !lx_reader_hint(c.in))
		return copy_records(e);
	return lx_writer_forward(&c.stage.out, c.in, e);
}

static int copy_end(struct lx_err *e)
{
	(void)e;
	lx_counts_add(&c.stage.got, lx_reader_counts(c.in));
	return 0;
}

static int copy_run(struct lx_err *e)
{
	return lx_writer_end(&c.stage.out, 0, e) < 0 ? -1 : cmd_stats(&common, &c.stage, "", e);
}

static void copy_give_up(const struct lx_err *why)
{
	lx_stage_abort(&c.stage, why);
}

static const struct mode copying = { copy_begin, copy_frame, no_hint, copy_end, copy_run, send, copy_give_up };

/* ---- parts ---- */

static int open_part(struct lx_err *e)
{
	char *path;
	if (asprintf(&path, "%s%04llu.lx", common.to, (unsigned long long)c.n_files++) < 0)
		return lx_err_sys(e, "--to");
	c.part_used = false;
	int rc = lx_outfile_open(&c.file, path, e);
	free(path);
	if (rc < 0 || lx_writer_init(&c.stage.out, c.file.fd, &common.limits, e) < 0)
		return -1;
	c.stage.out.level = common.level;
	c.stage.conf.out = c.file.fd;
	c.stage.plan.has_part = true;
	c.stage.plan.part = c.part++;
	c.stage.plan.packing = pick_packing(&c.stage.plan, c.file.fd);
	return lx_writer_begin(&c.stage.out, &c.stage.plan, e);
}

/* `parts`: how many there are, if this is the last; else 0. */
static int close_part(uint64_t parts, struct lx_err *e)
{
	if (lx_writer_end(&c.stage.out, parts, e) < 0)
		return -1;
	if (parts && cmd_stats(&common, &c.stage, "", e) < 0)
		return -1;
	lx_writer_release(&c.stage.out);
	c.stage.conf.out = -1;
	return lx_outfile_commit(&c.file, e);
}

static int part_begin(const struct lx_plan *in, struct lx_err *e)
{
	if (c.in_run)
		return 0;
	return take_plan(in, e) < 0 ? -1 : open_part(e);
}

/* Which part is the last is known at the end only: so a part that is full is closed when something follows. */
static int part_frame(struct lx_err *e)
{
	struct stat st;
	if (fstat(c.file.fd, &st) < 0)
		return lx_err_sys(e, "%s", c.file.path);
	if (c.part_used && (uint64_t)st.st_size >= part_size && (close_part(0, e) < 0 || open_part(e) < 0))
		return -1;
	c.part_used = true;
	return copy_frame(e);
}

static int part_run(struct lx_err *e)
{
	return close_part(c.part, e);
}

static void part_give_up(const struct lx_err *why)
{
	(void)why;
	lx_outfile_discard(&c.file);
}

static const struct mode cutting = { part_begin, part_frame, no_hint, copy_end, part_run, send, part_give_up };

/* ---- JSON ---- */

static int write_text(struct lx_err *e)
{
	if (lx_buf_check(&c.text, e) < 0)
		return -1;
	int rc = lx_io_write(c.out, c.text.p, c.text.len, e);
	lx_buf_clear(&c.text);
	return rc < 0 ? lx_err_prefix(e, "%s", common.to ? common.to : "stdout") : 0;
}

static int end_line(struct lx_err *e)
{
	lx_buf_byte(&c.text, '\n');
	return c.text.len >= TEXT_TARGET ? write_text(e) : 0;
}

/* {"NAME":MAP}, the map in c.record. */
static int json_mark(const char *name, struct lx_err *e)
{
	lx_buf_printf(&c.text, "{\"%s\":", name);
	if (lx_buf_check(&c.record, e) < 0 || lx_json_write(&c.text, lx_buf_view(&c.record), e) < 0)
		return -1;
	lx_buf_byte(&c.text, '}');
	lx_buf_clear(&c.record);
	return end_line(e);
}

static int json_begin(const struct lx_plan *p, struct lx_err *e)
{
	lx_plan_pack(&c.record, p);
	return json_mark("begin", e);
}

static int json_frame(struct lx_err *e)
{
	struct lx_rec r;
	int got;
	while ((got = lx_reader_rec(c.in, &r, e)) > 0)
		if (lx_json_write(&c.text, r.raw, e) < 0 || end_line(e) < 0)
			return -1;
	return got;
}

static int json_hint(const struct lx_hint *h, struct lx_err *e)
{
	lx_pack_map(&c.record, h->bars.p != NULL);
	if (h->bars.p) {
		lx_pack_cstr(&c.record, "bars");
		lx_buf_span(&c.record, h->bars);
	}
	return json_mark("hint", e);
}

static int json_end(struct lx_err *e)
{
	const struct lx_plan *p = lx_reader_plan(c.in);
	const struct lx_counts *n = lx_reader_counts(c.in);
	uint64_t parts = lx_reader_last(c.in);
	lx_pack_map(&c.record, 1 + (parts != 0));
	lx_pack_cstr(&c.record, "counts");
	lx_pack_array(&c.record, (uint32_t)p->n_domains);
	for (int d = 0; d < p->n_domains; d++) {
		lx_pack_array(&c.record, LX_OUTCOMES + 1);
		for (int o = 0; o < LX_OUTCOMES; o++)
			lx_pack_uint(&c.record, n->items[d][o]);
		lx_pack_uint(&c.record, n->closes[d]);
	}
	if (parts) {
		lx_pack_cstr(&c.record, "parts");
		lx_pack_uint(&c.record, parts);
	}
	return json_mark("end", e);
}

static void json_give_up(const struct lx_err *why)
{
	struct lx_err ignored = LX_ERR_INIT;
	if (why->upstream) {
		lx_buf_clear(&c.record);
		lx_pack_map(&c.record, 3);
		lx_pack_cstr(&c.record, "code");
		lx_pack_uint(&c.record, (uint64_t)why->code);
		lx_pack_cstr(&c.record, "stage");
		lx_pack_cstr(&c.record, why->stage);
		lx_pack_cstr(&c.record, "message");
		lx_pack_cstr(&c.record, why->msg);
		json_mark("abort", &ignored);
	}
	write_text(&ignored);
}

static const struct mode printing = { json_begin, json_frame, json_hint, json_end, none, write_text, json_give_up };

/* ---- canonical ---- */

static void add_be64(struct lx_buf *b, uint64_t v)
{
	for (int shift = 56; shift >= 0; shift -= 8)
		lx_buf_byte(b, (uint8_t)(v >> shift));
}

/* Bytes that sort as domain, id, kind do; a byte before each ordinal makes an id sort before those below it. */
static void sort_key(struct lx_buf *b, const struct lx_rec *r)
{
	lx_buf_clear(b);
	lx_buf_byte(b, (uint8_t)r->domain);
	for (uint32_t i = 0; i < r->id.n; i++) {
		lx_buf_byte(b, 1);
		add_be64(b, r->id.ord[i]);
	}
	lx_buf_byte(b, 0);
	lx_buf_byte(b, (uint8_t)r->kind);
}

/* The record without what changes from one run to the next. */
static struct lx_span stable(const struct lx_rec *r, struct lx_err *e)
{
	static const struct lx_limits any = { .fields = UINT32_MAX };
	struct lx_edit gone[3] = { { .name = lx_span_str("host") }, { .name = lx_span_str("attempt") }, { .name = lx_span_str("elapsed") } };
	if (!r->cause.p)
		return r->raw;
	lx_buf_clear(&c.cause);
	lx_buf_clear(&c.record);
	if (lx_fields_edit(&c.cause, r->cause, gone, 3, &any, e) < 0)
		return (struct lx_span){ 0 };
	if (r->kind == LX_CLOSE)
		lx_rec_close(&c.record, r->domain, &r->id, r->count, r->outcome, lx_buf_view(&c.cause));
	else
		lx_rec_gone(&c.record, r->domain, &r->id, r->outcome, lx_buf_view(&c.cause), r->fields, r->key);
	return lx_buf_view(&c.record);
}

static int sort_record(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_span s = stable(r, e);
	lx_buf_clear(&c.line);
	if (!s.p || lx_json_write(&c.line, s, e) < 0)
		return -1;
	sort_key(&c.key, r);
	if (lx_buf_check(&c.key, e) < 0)
		return -1;
	return lx_order_add(&c.order, lx_buf_view(&c.key), lx_buf_view(&c.line), e);
}

static int sort_frame(struct lx_err *e)
{
	struct lx_rec r;
	int got;
	while ((got = lx_reader_rec(c.in, &r, e)) > 0)
		if (sort_record(&r, e) < 0)
			return -1;
	return got;
}

static int sort_run(struct lx_err *e)
{
	struct lx_span line;
	while (lx_order_least(&c.order).p) {
		if (lx_order_take(&c.order, &line, e) < 0)
			return -1;
		lx_buf_span(&c.text, line);
		if (end_line(e) < 0)
			return -1;
	}
	return write_text(e);
}

static int no_begin(const struct lx_plan *p, struct lx_err *e)
{
	(void)p;
	return none(e);
}

/* What arrived is printed all the same. */
static void sort_give_up(const struct lx_err *why)
{
	struct lx_err ignored = LX_ERR_INIT;
	if (why->code == LX_SYSTEM && !why->upstream)
		return;
	sort_run(&ignored);
}

static const struct mode sorting = { no_begin, sort_frame, no_hint, none, sort_run, none, sort_give_up };

/* ---- LX_CHECK, where no stream is written ---- */

static void nothing(const struct lx_err *why)
{
	(void)why;
}

static const struct mode checking = { no_begin, none, no_hint, none, none, none, nothing };

/* ---- the input ---- */

static int open_next(void *ctx, int *fd, const char **name, struct lx_err *e)
{
	(void)ctx;
	if (c.fd > 0)
		close(c.fd);
	c.fd = -1;
	if (!*c.files)
		return 0;
	bool standard = strcmp(*c.files, "-") == 0;
	*name = standard ? "stdin" : *c.files;
	c.fd = *fd = standard ? 0 : open(*c.files, O_RDONLY | O_CLOEXEC);
	c.files++;
	return c.fd < 0 ? lx_err_sys(e, "%s", *name) : 1;
}

/* A while later, or when stdin has ended. What comes there says only that somebody is still at work. */
static int wait_for_parts(struct lx_err *e)
{
	char text[4096];
	if (c.idle(e) < 0)
		return -1;
	if (lx_sig_asked())
		return lx_err_set(e, LX_DATA, "interrupted");
	int ready = lx_io_wait(0, lx_follow_nap_ms(c.follow), e);
	ssize_t n = ready > 0 ? lx_io_read(0, text, sizeof(text), e) : ready < 0 ? LX_IO_ERROR : LX_IO_AGAIN;
	c.no_more = n == LX_IO_EOF;
	return n == LX_IO_ERROR ? lx_err_prefix(e, "stdin") : 0;
}

static int open_part_next(void *ctx, int *fd, const char **name, struct lx_err *e)
{
	int got;
	(void)ctx;
	if (c.fd > 0)
		close(c.fd);
	c.fd = -1;
	while ((got = lx_follow_next(c.follow, name, e)) == LX_IO_AGAIN && !c.no_more)
		if (wait_for_parts(e) < 0)
			return -1;
	if (got == LX_IO_AGAIN && !common.quiet)
		lx_follow_report(c.follow);
	if (got <= 0)
		return got == LX_IO_ERROR ? -1 : 0;
	c.fd = *fd = open(*name, O_RDONLY | O_CLOEXEC);
	return c.fd < 0 ? lx_err_sys(e, "%s", *name) : 1;
}

static void say(const char *line)
{
	cmd_say("%s", line);
}

static int open_parts(char **dirs, struct lx_err *e)
{
	const char *name;
	int fd, got;
	c.is_source = true;
	c.follow = lx_follow_new(dirs, &common.limits, say, e);
	if (!c.follow || (got = open_part_next(NULL, &fd, &name, e)) < 0)
		return -1;
	if (got == 0)
		return lx_err_set(e, LX_DATA, "%s: no first part (part 0) of a run is there", dirs[0]);
	c.in = lx_reader_new(fd, name, &common.limits, e);
	if (!c.in)
		return -1;
	lx_reader_chain(c.in, open_part_next, NULL);
	return 0;
}

static int open_input(char **operands, struct lx_err *e)
{
	static char dash[] = "-", *standard[] = { dash, NULL };
	const char *name;
	int fd;
	for (char **f = operands; *f; f++)
		if (strcmp(*f, "-") != 0 && access(*f, R_OK) < 0)
			return lx_err_sys(e, "%s", *f);
	c.is_source = *operands != NULL;
	c.files = *operands ? operands : standard;
	if (strcmp(*c.files, "-") == 0 && lx_io_is_terminal(0))
		return lx_err_set(e, LX_USAGE, "stdin is a terminal, not a stream: name a file, or put a stage before it");
	if (open_next(NULL, &fd, &name, e) < 0)
		return -1;
	c.in = lx_reader_new(fd, name, &common.limits, e);
	if (!c.in)
		return -1;
	lx_reader_chain(c.in, open_next, NULL);
	return 0;
}

/* One read. Where no stage comes before, the first SIGINT ends the reading. */
static int fill(const struct mode *m, struct lx_err *e)
{
	if (!lx_io_ready(c.fd) && m->idle(e) < 0)
		return -1;
	int rc = c.is_source ? lx_io_wait_asked(c.fd, e) : 1;
	if (rc == 0)
		return lx_err_set(e, LX_DATA, "interrupted");
	if (rc > 0)
		rc = lx_reader_fill(c.in, e);
	if (rc != LX_IO_AGAIN)
		return rc;
	if (lx_sig_stop())
		return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	return lx_io_wait(c.fd, -1, e);
}

static int on_begin(const struct mode *m, char run[LX_RUN_MAX + 1], struct lx_err *e)
{
	const struct lx_plan *p = lx_reader_plan(c.in);
	if (c.in_run && strcmp(run, p->run) != 0) {
		if (m->run(e) < 0)
			return -1;
		c.in_run = false;
	}
	if (m->begin(p, e) < 0)
		return -1;
	strcpy(run, p->run);
	c.in_run = true;
	return 0;
}

static int run(const struct mode *m, struct lx_err *e)
{
	char current[LX_RUN_MAX + 1] = "";
	for (;;) {
		int rc = 0;
		switch (lx_reader_next(c.in, e)) {
		case LX_EV_ERROR:
			return -1;
		case LX_EV_MORE:
			rc = fill(m, e);
			break;
		case LX_EV_BEGIN:
			rc = on_begin(m, current, e);
			if (rc == 0 && common.check)
				return m->run(e);
			break;
		case LX_EV_FRAME:
			rc = m->frame(e);
			break;
		case LX_EV_HINT:
			rc = m->hint(lx_reader_hint(c.in), e);
			break;
		case LX_EV_END:
			rc = m->end(e);
			break;
		case LX_EV_EOF:
			return m->run(e);
		}
		if (rc < 0)
			return -1;
	}
}

/* ---- the command ---- */

static int check_options(char **operands, struct lx_err *e)
{
	if (follow && (!*operands || verify || part_size))
		return lx_err_set(e, LX_USAGE, "--follow reads the parts in a DIR, every one to its end: name it, and leave out --verify and --part-size");
	if (json + canonical + (part_size != 0) > 1)
		return lx_err_set(e, LX_USAGE, "--json, --canonical and --part-size: choose one");
	if (part_size && !common.to)
		return lx_err_set(e, LX_USAGE, "--part-size: say with --to how the names of the files begin");
	if ((json || canonical) && common.packing >= 0)
		return lx_err_set(e, LX_USAGE, "--compress: not with --json and --canonical, which write no stream");
	return 0;
}

static const struct mode *pick_mode(void)
{
	if (common.check && (part_size || canonical || json))
		return &checking;
	if (part_size)
		return &cutting;
	if (canonical)
		return &sorting;
	return json || lx_io_is_terminal(c.out) ? &printing : &copying;
}

static int open_output(const struct mode **m, struct lx_err *e)
{
	lx_plan_init(&c.stage.plan);
	c.stage.conf = (struct lx_stage_conf){ .tool = "lx-cat", .out = -1 };
	if (!part_size && (c.out = cmd_output(&common, e)) < 0)
		return -1;
	*m = pick_mode();
	if (*m == &sorting)
		lx_order_init(&c.order, common.mem ? common.mem : MEM_DEFAULT, common.tmpdir);
	if (*m != &copying)
		return 0;
	c.stage.conf.out = c.out;
	if (lx_writer_init(&c.stage.out, c.out, &common.limits, e) < 0)
		return -1;
	common.unstarted = false;
	c.stage.out.level = common.level;
	return 0;
}

static void release(void)
{
	struct lx_buf *bufs[] = { &c.text, &c.key, &c.line, &c.cause, &c.record };
	for (size_t i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
		lx_buf_free(bufs[i]);
	if (c.stage.out.codec)
		lx_writer_release(&c.stage.out);
	lx_plan_free(&c.stage.plan);
	lx_reader_free(c.in);
	lx_follow_free(c.follow);
	lx_order_release(&c.order);
	lx_outfile_discard(&c.file);
}

/* What a stream on stdin gave up for, the stage that did has said; who wrote a file may be long gone. */
static void speak_for_files(struct lx_err *e)
{
	if (!c.is_source || !e->upstream)
		return;
	lx_err_prefix(e, "%s", e->stage);
	e->upstream = false;
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	const struct mode *m;
	int first = cmd_start("lx-cat", usage, &common, &e) < 0 ? -1 : cmd_options(argc, argv, options, &e);
	common.unstarted = !json && !canonical && !part_size;
	if (first >= 0 && check_options(argv + first, &e) == 0 && open_output(&m, &e) == 0) {
		c.idle = m->idle;
		if ((follow ? open_parts : open_input)(argv + first, &e) < 0 || run(m, &e) < 0 || m->idle(&e) < 0)
			m->give_up(&e);
		speak_for_files(&e);
	}
	release();
	return cmd_finish(&common, &e);
}

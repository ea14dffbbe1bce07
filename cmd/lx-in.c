/* lx-in: root items from paths, lines or JSON; the start of every pipeline.
 *
 * in: paths as operands or on stdin, or with --lines and --jsonl the files named, or stdin. out: a stream of one
 * domain. What cannot be read or parsed becomes a failed item, not the end of the run.
 * Exits non-zero when options are wrong (2), a system call fails (5), or by SIGINT, which ends only the reading.
 */
#include "cmd.h"
#include "io.h"
#include "item.h"
#include "json.h"
#include "sig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char usage[] =
	"lx-in [-0qv] [-d DOMAIN] [--read] [--key FIELD] [--run ID] [--first N]\n"
	"      [--to FILE] [--stats FILE] [--compress PACKING]\n"
	"      [--max-record SIZE] [--max-frame SIZE] [--max-depth N] [--max-id N]\n"
	"      [--max-fields N] [PATH ...]\n"
	"lx-in --lines | --jsonl [-0qv] [-d DOMAIN] [--key FIELD] [--plain]\n"
	"      [--run ID] [--first N] [--to FILE] [--stats FILE]\n"
	"      [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"      [--max-depth N] [--max-id N] [--max-fields N] [FILE ...]";

#define READ_SIZE (256u << 10)

static struct cmd_common common = CMD_STAGE_INIT;
static bool nul, read_files, lines, jsonl, plain;
static const char *key_field, *run_id;
static uint64_t first_ordinal;

static const struct lx_opt options[] = {
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ '0', "null", LX_OPT_FLAG, &nul, 0, 0, NULL },
	{ 0, "read", LX_OPT_FLAG, &read_files, 0, 0, NULL },
	{ 0, "lines", LX_OPT_FLAG, &lines, 0, 0, NULL },
	{ 0, "jsonl", LX_OPT_FLAG, &jsonl, 0, 0, NULL },
	{ 0, "plain", LX_OPT_FLAG, &plain, 0, 0, NULL },
	{ 0, "key", LX_OPT_STR, &key_field, 0, 0, NULL },
	{ 0, "run", LX_OPT_STR, &run_id, 0, 0, NULL },
	{ 0, "first", LX_OPT_UINT, &first_ordinal, 0, 1ull << 63, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

/* Bytes of one input that are cut into lines. */
struct input {
	int fd;
	const char *name;
	struct lx_buf buf;
	size_t at, seen;  /* first byte not cut; first not searched */
	uint64_t line;    /* number of the line cut last */
	bool eof, too_long; /* too_long: the line's first bytes were over the limit and are gone, but for `sum` */
	XXH64_state_t *sum;
};

static struct {
	struct lx_stage stage; /* without input: only its plan and its writer are used */
	uint64_t n;            /* items made */
	struct input in;
	struct lx_json json;
	struct lx_err why;     /* of an item that fails */
	struct lx_item_text text;
	struct lx_buf name, data, fields, key, record, cause;
} s;

/* ---- items ---- */

static int add(struct lx_buf *b, const struct lx_rec *r, struct lx_err *e)
{
	struct lx_writer *w = &s.stage.out;
	s.n++;
	if (b->len < LX_FRAME_TARGET) {
		if (lx_writer_add(w, r, e) < 0)
			return -1;
		return lx_writer_full(w) ? lx_writer_close(w, e) : 0;
	}
	/* A large one goes out from where it lies. */
	return lx_writer_add_ref(w, r, e) < 0 ? -1 : lx_writer_close(w, e);
}

static struct lx_id next_id(void)
{
	return (struct lx_id){ .n = 1, .ord = { first_ordinal + s.n } };
}

static struct lx_span hash_key(uint64_t hash)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t hex[16];
	for (int i = 0; i < 16; i++)
		hex[i] = (uint8_t)digits[hash >> (60 - 4 * i) & 15];
	lx_buf_clear(&s.key);
	lx_pack_str(&s.key, (struct lx_span){ hex, sizeof(hex) });
	return lx_buf_view(&s.key);
}

/* A root item that never was: fields.p == NULL where there are none. */
static int put_failed(const char *type, const char *message, struct lx_span fields, struct lx_span key, struct lx_err *e)
{
	struct lx_id id = next_id();
	struct lx_blame why = { .type = type, .message = lx_span_str(message) };
	struct lx_rec r;
	size_t used;
	lx_buf_clear(&s.cause);
	lx_buf_clear(&s.record);
	if (lx_stage_cause(&s.stage, &s.cause, 0, &id, &why, e) < 0)
		return -1;
	if (key.len > common.limits.record / 2) /* a key that is no better than the item it is of */
		key = hash_key(XXH64(key.p, key.len, 0));
	lx_rec_gone(&s.record, 0, &id, LX_FAILED, lx_buf_view(&s.cause), fields, key);
	if (lx_buf_check(&s.record, e) < 0 || lx_rec_parse(s.record.p, s.record.len, &common.limits, &r, &used, e) < 0)
		return lx_err_prefix(e, "item %llu", (unsigned long long)s.n);
	return add(&s.record, &r, e);
}

/* A root item; over a limit it fails. */
static int put_item(struct lx_span fields, struct lx_span key, struct lx_err *e)
{
	struct lx_id id = next_id();
	struct lx_rec r;
	s.why.code = LX_OK; /* clearing all of it would cost as much as the item */
	if (lx_rec_made(&s.record, 0, &id, fields, key, &common.limits, &r, &s.why) == 0)
		return add(&s.record, &r, e);
	if (s.why.code != LX_DATA)
		return lx_err_set(e, s.why.code, "%s", s.why.msg);
	return put_failed(strstr(s.why.msg, "(--max") ? "oversize" : "bad-json", s.why.msg, (struct lx_span){ 0 }, key, e);
}

/* ---- paths ---- */

static struct lx_span text_value(struct lx_buf *b, struct lx_span s1)
{
	lx_buf_clear(b);
	lx_pack_text(b, s1);
	return lx_buf_view(b);
}

static void fields_of_path(struct lx_span path, bool with_data)
{
	lx_buf_clear(&s.fields);
	lx_pack_map(&s.fields, 1 + with_data);
	lx_pack_cstr(&s.fields, "path");
	lx_pack_text(&s.fields, path);
	if (!with_data)
		return;
	lx_pack_cstr(&s.fields, "data");
	lx_pack_bin(&s.fields, lx_buf_view(&s.data));
}

/* Whether a failure says more about this process than about the file. */
static bool is_ours(const struct lx_err *e)
{
	return e->sys == ENOMEM || e->sys == EMFILE || e->sys == ENFILE;
}

/* The content of a file in s.data. -1: why says LX_DATA for a file over the limit. */
static int slurp(const char *path, struct lx_err *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	lx_buf_clear(&s.data);
	if (fd < 0)
		return lx_err_sys(why, "open");
	int rc = lx_io_slurp(fd, &s.data, common.limits.record, "--max-record", why);
	close(fd);
	return rc;
}

static int read_path(struct lx_span path, struct lx_span key, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	struct stat st;
	lx_buf_clear(&s.name);
	lx_buf_span(&s.name, path);
	const char *name = lx_buf_cstr(&s.name);
	if (!name)
		return lx_buf_check(&s.name, e);
	if (stat(name, &st) == 0 && !S_ISREG(st.st_mode) && lx_writer_flush(&s.stage.out, e) < 0)
		return -1; /* a FIFO may keep us waiting */
	if (memchr(path.p, 0, path.len))
		lx_err_set(&why, LX_SYSTEM, "a NUL byte in the path");
	else if (slurp(name, &why) == 0) {
		fields_of_path(path, true);
		return put_item(lx_buf_view(&s.fields), key, e);
	}
	if (is_ours(&why))
		return lx_err_set(e, LX_SYSTEM, "%s: %s", name, why.msg);
	fields_of_path(path, false);
	return put_failed(why.code == LX_DATA ? "oversize" : "unreadable", why.msg, lx_buf_view(&s.fields), key, e);
}

static int on_path(struct lx_span path, struct lx_err *e)
{
	if (!path.len)
		return 0;
	struct lx_span key = text_value(&s.key, path);
	if (read_files)
		return read_path(path, key, e);
	fields_of_path(path, false);
	return put_item(lx_buf_view(&s.fields), key, e);
}

/* ---- lines ---- */

static int on_text(struct lx_span line, struct lx_span key, struct lx_err *e)
{
	lx_buf_clear(&s.fields);
	lx_pack_map(&s.fields, 1);
	lx_pack_cstr(&s.fields, "data");
	lx_pack_text(&s.fields, line);
	return put_item(lx_buf_view(&s.fields), key_field ? text_value(&s.key, line) : key, e);
}

static int put_object(struct lx_span fields, struct lx_span key, struct lx_err *e)
{
	struct lx_span own_key = { 0 };
	if (s.json.has_member && lx_item_read(&s.text, fields, &fields, &own_key, e) < 0)
		return -1;
	key = own_key.p ? own_key : key;
	if (!key_field)
		return put_item(fields, key, e);
	struct lx_span named = lx_map_get(fields, key_field, strlen(key_field));
	if (named.p)
		return put_item(fields, named, e);
	char why[256];
	snprintf(why, sizeof(why), "no field '%.100s' for the key (--key)", key_field);
	return put_failed("no-field", why, fields, key, e);
}

static bool is_blank(struct lx_span line)
{
	for (size_t i = 0; i < line.len; i++)
		if (!memchr(" \t\r", line.p[i], 3))
			return false;
	return true;
}

static int bad_json(const char *why, struct lx_span key, struct lx_err *e)
{
	char message[LX_ERR_MAX + 128];
	snprintf(message, sizeof(message), "%.100s: %s", s.in.name, why);
	return put_failed("bad-json", message, (struct lx_span){ 0 }, key, e);
}

static int on_json(struct lx_span line, struct lx_span key, struct lx_err *e)
{
	struct lx_val v;
	char why[64];
	if (is_blank(line))
		return 0;
	lx_buf_clear(&s.fields);
	s.json.line = s.in.line;
	s.why.code = LX_OK;
	if (lx_json_scan(&s.json, line, &s.fields, &s.why) < 0)
		return s.why.code == LX_DATA ? bad_json(s.why.msg, key, e) : lx_err_set(e, s.why.code, "%s", s.why.msg);
	if (lx_val_from(lx_buf_view(&s.fields), &v) == 0 && v.type == LX_MAP)
		return put_object(lx_buf_view(&s.fields), key, e);
	snprintf(why, sizeof(why), "line %llu column 1: not an object", (unsigned long long)s.in.line);
	return bad_json(why, key, e);
}

static int on_line(struct lx_span line, struct lx_err *e)
{
	if (!lines && !jsonl)
		return on_path(line, e);
	if (lines && key_field)
		return on_text(line, (struct lx_span){ 0 }, e);
	struct lx_span key = hash_key(XXH64(line.p, line.len, 0));
	return lines ? on_text(line, key, e) : on_json(line, key, e);
}

/* A line over the limit, of which only the hash is left. */
static int on_long_line(struct lx_err *e)
{
	char why[LX_ERR_MAX];
	snprintf(why, sizeof(why), "%.100s: line %llu: over %llu bytes (--max-record)", s.in.name,
	         (unsigned long long)s.in.line, (unsigned long long)common.limits.record);
	return put_failed("oversize", why, (struct lx_span){ 0 }, hash_key(XXH64_digest(s.in.sum)), e);
}

/* ---- reading ---- */

/* Before a read that may block: let go of what is waiting. 1: read; 0: SIGINT, stop reading. */
static int await_input(int fd, struct lx_err *e)
{
	if (!lx_io_ready(fd) && lx_writer_flush(&s.stage.out, e) < 0)
		return -1;
	return lx_io_wait_asked(fd, e);
}

/* Of a line over the limit only the hash is kept. */
static int shorten(struct input *in, struct lx_err *e)
{
	if (in->buf.len - in->at <= common.limits.record)
		return 0;
	if (!in->sum && !(in->sum = XXH64_createState()))
		return lx_err_sys(e, "a hash");
	if (!in->too_long)
		XXH64_reset(in->sum, 0);
	in->too_long = true;
	XXH64_update(in->sum, in->buf.p + in->at, in->buf.len - in->at);
	in->at = in->seen = in->buf.len;
	return 0;
}

/* One read. 1; 0: stop reading. */
static int fill(struct input *in, struct lx_err *e)
{
	int rc = await_input(in->fd, e);
	if (rc <= 0)
		return rc;
	if (in->at) {
		memmove(in->buf.p, in->buf.p + in->at, in->buf.len - in->at);
		in->buf.len -= in->at;
		in->seen -= in->at;
		in->at = 0;
	}
	uint8_t *to = lx_buf_room(&in->buf, READ_SIZE);
	if (!to)
		return lx_buf_check(&in->buf, e);
	ssize_t n = lx_io_read(in->fd, to, READ_SIZE, e);
	if (n == LX_IO_AGAIN)
		return !lx_sig_asked();
	if (n < 0)
		return lx_err_prefix(e, "%s", in->name);
	in->eof = n == 0;
	in->buf.len += (size_t)n;
	return 1;
}

/* The next line, without its end: 1; 0: no more, or SIGINT. */
static int next_line(struct input *in, struct lx_span *line, struct lx_err *e)
{
	for (;;) {
		uint8_t *from = in->buf.p + in->seen;
		uint8_t *end = in->buf.len > in->seen ? memchr(from, nul ? 0 : '\n', in->buf.len - in->seen) : NULL;
		bool rest = in->eof && (in->buf.len > in->at || in->too_long);
		if (end || rest) {
			size_t stop = end ? (size_t)(end - in->buf.p) : in->buf.len;
			*line = (struct lx_span){ in->buf.p + in->at, stop - in->at };
			in->at = in->seen = stop + (end != NULL);
			in->line++;
			return 1;
		}
		in->seen = in->buf.len;
		if (in->eof || lx_sig_asked())
			return 0;
		if (shorten(in, e) < 0)
			return -1;
		int rc = fill(in, e);
		if (rc <= 0)
			return rc;
	}
}

static int read_lines(int fd, const char *name, struct lx_err *e)
{
	struct lx_span line;
	int rc;
	s.in.fd = fd;
	s.in.name = name;
	s.in.line = 0;
	s.in.at = s.in.seen = s.in.buf.len = 0;
	s.in.eof = false;
	while ((rc = next_line(&s.in, &line, e)) > 0) {
		if (s.in.too_long) {
			XXH64_update(s.in.sum, line.p, line.len);
			s.in.too_long = false;
			rc = on_long_line(e);
		} else {
			rc = on_line(line, e);
		}
		if (rc < 0 || lx_sig_asked())
			return rc;
	}
	return rc;
}

static int read_named(const char *name, struct lx_err *e)
{
	if (strcmp(name, "-") == 0)
		return read_lines(0, "stdin", e);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return lx_err_sys(e, "%s", name);
	int rc = read_lines(fd, name, e);
	close(fd);
	return rc;
}

static int read_all(char **operands, struct lx_err *e)
{
	int rc = 0;
	if (!*operands)
		return read_lines(0, "stdin", e);
	for (; *operands && rc == 0 && !lx_sig_asked(); operands++)
		rc = lines || jsonl ? read_named(*operands, e) : on_path(lx_span_str(*operands), e);
	return rc;
}

/* ---- the run ---- */

static int check_options(char **operands, struct lx_err *e)
{
	if (lines && jsonl)
		return lx_err_set(e, LX_USAGE, "--lines and --jsonl: choose one");
	if ((lines || jsonl) && read_files)
		return lx_err_set(e, LX_USAGE, "--read: for paths, not for --lines and --jsonl, which read the files anyway");
	if (plain && !jsonl)
		return lx_err_set(e, LX_USAGE, "--plain: only with --jsonl");
	if (jsonl && nul)
		return lx_err_set(e, LX_USAGE, "-0: not with --jsonl, whose lines end in newlines");
	if (key_field && lines && strcmp(key_field, "data") != 0)
		return lx_err_set(e, LX_USAGE, "--key %s: with --lines the only field is data", key_field);
	if (key_field && !lines && !jsonl && strcmp(key_field, "path") != 0)
		return lx_err_set(e, LX_USAGE, "--key %s: the key of a path is the path; choose a field with --jsonl", key_field);
	for (; (lines || jsonl) && *operands; operands++)
		if (strcmp(*operands, "-") != 0 && access(*operands, R_OK) < 0)
			return lx_err_sys(e, "%s", *operands);
	return 0;
}

static int pick_run(char run[LX_RUN_MAX + 1], struct lx_err *e)
{
	uint64_t r[2];
	if (!run_id) {
		if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
			return lx_err_sys(e, "a random run id");
		snprintf(run, LX_RUN_MAX + 1, "%016llx%016llx", (unsigned long long)r[0], (unsigned long long)r[1]);
		return 0;
	}
	size_t n = strlen(run_id);
	for (size_t i = 0; i < n; i++)
		if (run_id[i] <= ' ' || run_id[i] > '~')
			return lx_err_set(e, LX_USAGE, "--run: an id is printable ASCII without spaces");
	if (n > LX_RUN_MAX)
		return lx_err_set(e, LX_USAGE, "--run: over %d bytes", LX_RUN_MAX);
	memcpy(run, run_id, n + 1);
	return 0;
}

static int make_plan(struct lx_plan *p, int out, struct lx_err *e)
{
	static const char *const path[] = { "path", NULL }, *const path_data[] = { "path", "data", NULL },
	                                *const data[] = { "data", NULL }, *const any[] = { "*", NULL };
	const char *const *writes = jsonl ? any : lines ? data : read_files ? path_data : path;
	p->limits = common.limits;
	p->packing = common.packing >= 0 ? (enum lx_packing)common.packing : lx_packing_for(out);
	if (pick_run(p->run, e) < 0)
		return -1;
	if (lx_plan_expand(p, common.domain ? common.domain : "doc", -1, (struct lx_tolerance){ 0 }, e) < 0)
		return -1;
	return lx_plan_op(p, "lx-in", 0, NULL, writes, NULL, e);
}

static int run(char **operands, struct lx_err *e)
{
	struct lx_writer *w = &s.stage.out;
	if (make_plan(&s.stage.plan, s.stage.conf.out, e) < 0 || lx_writer_begin(w, &s.stage.plan, e) < 0)
		return -1;
	if (!common.check && read_all(operands, e) < 0)
		return -1;
	if (lx_sig_asked())
		return lx_err_set(e, LX_DATA, "interrupted after %llu items", (unsigned long long)s.n);
	if (lx_writer_end(w, 0, e) < 0)
		return -1;
	return cmd_stats(&common, &s.stage, "", e);
}

static void release(void)
{
	struct lx_buf *bufs[] = { &s.name, &s.data, &s.fields, &s.key, &s.record, &s.cause, &s.in.buf };
	for (size_t i = 0; i < sizeof(bufs) / sizeof(*bufs); i++)
		lx_buf_free(bufs[i]);
	if (s.stage.out.codec)
		lx_writer_release(&s.stage.out);
	lx_plan_free(&s.stage.plan);
	lx_json_release(&s.json);
	lx_item_text_free(&s.text);
	XXH64_freeState(s.in.sum);
}

static int open_output(struct lx_err *e)
{
	struct lx_stage *st = &s.stage;
	lx_plan_init(&st->plan);
	st->conf = (struct lx_stage_conf){ .tool = "lx-in", .out = cmd_output(&common, e) };
	if (st->conf.out < 0 || lx_writer_init(&st->out, st->conf.out, &common.limits, e) < 0)
		return -1;
	common.unstarted = false;
	st->out.level = common.level;
	s.json = (struct lx_json){ .tags = !plain, .member = plain ? NULL : "lx", .max_depth = common.limits.depth - 1 };
	return 0;
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	int first = cmd_start("lx-in", usage, &common, &e) < 0 ? -1 : cmd_options(argc, argv, options, &e);
	if (first >= 0 && check_options(argv + first, &e) == 0 && open_output(&e) == 0 && run(argv + first, &e) < 0)
		lx_stage_abort(&s.stage, &e);
	release();
	return cmd_finish(&common, &e);
}

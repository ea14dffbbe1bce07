/* lx-map: one item to one item, a command for each. The field -i is the command's stdin, its stdout becomes the field -o.
 *
 * in: a stream. out: the same stream, its items with another field, failed, or suppressed.
 * Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call fails (5), or
 * a command names a scope that is none (6). A command that fails fails its own item only.
 */
#include "cmd.h"
#include "jobs.h"
#include "json.h"
#include "payload.h"

#include <errno.h>
#include <stdlib.h>

static const char usage[] =
	"lx-map [-d DOMAIN] [-i FIELD] [-o FIELD[:TYPE]] [-j JOBS] [--drop FIELDS]\n"
	"       [--env FIELDS] [--timeout SECONDS] [--retry N] [-qv] [--stats FILE]\n"
	"       [--trace FILE] [--to FILE] [--mem SIZE] [--tmpdir DIR]\n"
	"       [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"       [--max-depth N] [--max-id N] [--max-fields N] [--] COMMAND [ARG ...]";

/* TEXT: str when it is UTF-8, less one newline at its end, else bin. AS_IS: str when it is UTF-8 and the old value was
 * no bin, else bin. */
enum type { AS_IS, TEXT, STR, BIN, INT, FLOAT, JSON };

static struct cmd_common common = CMD_STAGE_INIT;
static struct lx_strs env_fields;
static uint64_t n_jobs = 1, timeout_ms, retries = 2;

static const struct lx_opt options[] = {
	CMD_COMMON_OPTS(common),
	{ 'j', "jobs", LX_OPT_UINT, &n_jobs, 1, LX_JOBS_MAX, NULL },
	{ 0, "timeout", LX_OPT_SEC, &timeout_ms, 1, 0, NULL },
	{ 0, "retry", LX_OPT_UINT, &retries, 0, 1000, NULL },
	{ 0, "env", LX_OPT_NAMES, &env_fields, 0, 0, NULL },
	{ 0 },
};

static struct {
	struct lx_stage stage;
	struct lx_jobs *jobs;
	struct lx_jobs_conf conf;
	struct lx_tmpl *tmpl;
	char *out_field;
	enum type type;
	struct lx_buf value;  /* the field being set */
	struct lx_json json;
	struct lx_edit *edits;
} x = { .json = LX_JSON_INIT };

/* ---- before it runs ---- */

static int plan_map(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	const char *writes[] = { x.out_field, NULL };
	struct lx_strs reads = { 0 };
	int rc = lx_jobs_plan(&x.conf, p, s->domain, &reads, e);
	for (size_t i = 0; rc == 0 && i < common.drop.n; i++)
		rc = lx_plan_reads(p, s->domain, common.drop.v[i], "--drop", e);
	if (rc == 0)
		rc = lx_plan_op(p, "lx-map", s->domain, reads.v, writes, common.drop.v, e);
	lx_strs_free(&reads);
	return rc;
}

/* ---- out ---- */

static struct lx_span without_newline(struct lx_span s)
{
	s.len -= s.len && s.p[s.len - 1] == '\n';
	return s;
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The text without blanks at its ends, as a C string in `text`. */
static const char *trimmed(struct lx_span s, struct lx_buf *text)
{
	while (s.len && is_blank(s.p[s.len - 1]))
		s.len--;
	while (s.len && is_blank(*s.p)) {
		s.p++;
		s.len--;
	}
	lx_buf_clear(text);
	lx_buf_span(text, s);
	return s.len && !memchr(s.p, 0, s.len) ? lx_buf_cstr(text) : NULL;
}

static bool pack_integer(const char *s)
{
	char *end;
	bool neg = *s == '-';
	const char *digits = s + (neg || *s == '+');
	if (*digits < '0' || *digits > '9')
		return false;
	errno = 0;
	if (neg) {
		long long v = strtoll(s, &end, 10);
		lx_pack_int(&x.value, v);
	} else {
		unsigned long long v = strtoull(digits, &end, 10);
		lx_pack_uint(&x.value, v);
	}
	return !*end && errno == 0;
}

static bool pack_float(const char *s)
{
	char *end;
	errno = 0;
	double v = strtod(s, &end);
	lx_pack_f64(&x.value, v);
	return end != s && !*end && !(errno == ERANGE && (v > 1 || v < -1));
}

static bool pack_number(struct lx_span s)
{
	struct lx_buf text = { 0 };
	const char *t = trimmed(s, &text);
	bool good = t && (x.type == INT ? pack_integer(t) : pack_float(t));
	lx_buf_free(&text);
	return good;
}

static bool is_bin(struct lx_span value)
{
	struct lx_val v;
	return lx_val_from(value, &v) == 0 && v.type == LX_BIN;
}

/* Encode what the command wrote; why it cannot be, or NULL. */
static const char *pack_output(struct lx_span s, struct lx_span old)
{
	static char why[LX_ERR_MAX];
	struct lx_err e = LX_ERR_INIT;
	switch (x.type) {
	case STR:
		if (!lx_span_utf8(s))
			return "the output is not UTF-8";
		lx_pack_str(&x.value, without_newline(s));
		return NULL;
	case BIN:
		lx_pack_bin(&x.value, s);
		return NULL;
	case INT:
		return pack_number(s) ? NULL : "the output is not an integer of 64 bits";
	case FLOAT:
		return pack_number(s) ? NULL : "the output is not a number";
	case JSON:
		x.json.tags = true;
		x.json.max_depth = common.limits.depth > 2 ? common.limits.depth - 2 : 0;
		if (lx_json_scan(&x.json, s, &x.value, &e) == 0)
			return NULL;
		strcpy(why, e.msg);
		return why;
	case AS_IS:
		if (is_bin(old))
			lx_pack_bin(&x.value, s);
		else
			lx_pack_text(&x.value, s);
		return NULL;
	case TEXT:
		lx_pack_text(&x.value, lx_span_utf8(s) ? without_newline(s) : s);
	}
	return NULL;
}

/* The field that is set, and those that are dropped. */
static int set_field(void *ctx, const struct lx_rec *r, const struct lx_job *j, struct lx_reply *out, struct lx_err *e)
{
	(void)ctx;
	if (out->outcome != LX_PRESENT)
		return 0;
	lx_buf_clear(&x.value);
	const char *why = pack_output(lx_buf_view(&j->output), lx_rec_field(r, x.out_field));
	if (lx_buf_check(&x.value, e) < 0)
		return -1;
	if (why) {
		out->outcome = LX_FAILED;
		out->blame = (struct lx_blame){ .type = "bad-output", .message = lx_span_str(why) };
		return 0;
	}
	x.edits[common.drop.n].value = lx_buf_view(&x.value);
	out->edits = x.edits;
	out->n_edits = common.drop.n + 1;
	return 0;
}

static int make_edits(struct lx_err *e)
{
	x.edits = calloc(common.drop.n + 1, sizeof(*x.edits));
	if (!x.edits)
		return lx_err_sys(e, "--drop");
	for (size_t i = 0; i < common.drop.n; i++)
		x.edits[i].name = lx_span_str(common.drop.v[i]);
	x.edits[common.drop.n].name = lx_span_str(x.out_field);
	return 0;
}

/* ---- the stage ---- */

static int end_run(void *ctx, const struct lx_jobs_stats *st, struct lx_err *e)
{
	(void)ctx;
	char more[LX_JOBS_MEMBERS_MAX];
	lx_jobs_members(st, more, sizeof(more));
	return cmd_stats(&common, &x.stage, more, e);
}

static int run(struct lx_err *e)
{
	struct lx_stage_conf sc;
	if (cmd_stage_conf(&common, &sc, e) < 0 || !(x.jobs = lx_jobs_new(e)))
		return -1;
	sc.plan = plan_map;
	lx_jobs_hook(x.jobs, &sc);
	if (lx_stage_init(&x.stage, &sc, e) < 0)
		return -1;
	int rc = lx_jobs_run(x.jobs, &x.conf, e);
	if (rc < 0)
		lx_stage_abort(&x.stage, e);
	return rc;
}

static void release(void)
{
	lx_stage_release(&x.stage);
	lx_jobs_free(x.jobs);
	lx_tmpl_free(x.tmpl);
	lx_strs_free(&env_fields);
	lx_json_release(&x.json);
	lx_buf_free(&x.value);
	free(x.out_field);
	free(x.edits);
}

/* ---- options ---- */

/* FIELD or FIELD:TYPE; without -o what the command makes of the payload is the new payload, byte for byte. */
static int parse_output(const char *arg, struct lx_err *e)
{
	static const struct {
		const char *name;
		enum type type;
	} types[] = { { "str", STR }, { "bin", BIN }, { "int", INT }, { "float", FLOAT }, { "json", JSON } };
	const char *colon = arg ? strrchr(arg, ':') : NULL;
	x.out_field = arg ? strndup(arg, colon ? (size_t)(colon - arg) : strlen(arg)) : strdup("data");
	if (!x.out_field)
		return lx_err_sys(e, "-o");
	x.type = arg ? TEXT : AS_IS;
	if (!*x.out_field)
		return lx_err_set(e, LX_USAGE, "-o: the name of the field is missing in '%s'", arg);
	if (!colon)
		return 0;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (strcmp(colon + 1, types[i].name) == 0) {
			x.type = types[i].type;
			return 0;
		}
	}
	return lx_err_set(e, LX_USAGE, "-o: '%s' is none of the types str, bin, int, float, json", colon + 1);
}

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0 || parse_output(common.out_field, e) < 0)
		return -1;
	if (first == argc)
		return lx_err_set(e, LX_USAGE, "the command is missing (-h shows the usage)");
	if (lx_strs_has(&common.drop, x.out_field))
		return lx_err_set(e, LX_USAGE, "--drop and -o both name '%s': it cannot be dropped and set", x.out_field);
	if (make_edits(e) < 0 || lx_spawn_check(argv[first], e) < 0)
		return -1;
	x.tmpl = lx_tmpl_new(argv + first, e);
	x.conf = (struct lx_jobs_conf){
		.stage = &x.stage,
		.job = { .tmpl = x.tmpl, .env = &env_fields, .timeout_ms = timeout_ms, .max_output = common.limits.record,
		         .quiet = common.quiet, .set_env = n_jobs > 1 ? lx_job_one_thread() : NULL },
		.slots = n_jobs,
		.retries = retries,
		.max_waiting = n_jobs > 32 ? 2 * n_jobs : 64,
		.max_bytes = common.mem ? common.mem : 64u << 20,
		.tmpdir = common.tmpdir,
		.in_field = common.in_field,
		.payload = lx_payload,
		.reply = set_field,
		.end_run = end_run,
	};
	return x.tmpl ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	if (cmd_start("lx-map", usage, &common, &e) == 0 && configure(argc, argv, &e) == 0)
		run(&e);
	release();
	return cmd_finish(&common, &e);
}

/* lx-map: one item to one item, a command for each. The field -i is the command's stdin, its stdout becomes the field -o.
 *
 * in: a stream. out: the same stream, its items with another field, failed, or suppressed.
 * Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call fails (5), or
 * a command names a scope that is none (6). A command that fails fails its own item only.
 */
#include "cmd.h"
#include "jobs.h"
#include "payload.h"
#include "typed.h"

#include <stdlib.h>

static const char usage[] =
	"lx-map [-d DOMAIN] [-i FIELD] [-o FIELD[:TYPE]] [-j JOBS] [--drop FIELDS]\n"
	"       [--env FIELDS] [--timeout SECONDS] [--retry N] [-qv] [--stats FILE]\n"
	"       [--trace FILE] [--from FILE] [--to FILE] [--mem SIZE] [--tmpdir DIR]\n"
	"       [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"       [--max-depth N] [--max-id N] [--max-fields N] [--] COMMAND [ARG ...]";

static struct cmd_common common = CMD_STAGE_INIT;
static struct lx_strs env_fields;
static uint64_t n_jobs = 1, timeout_ms, retries = 2;

static const struct lx_opt options[] = {
	CMD_COMMON_OPTS(common),
	CMD_FROM_OPT(common),
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
	struct lx_typed out;  /* -o */
	struct lx_buf value;  /* the field being set */
	struct lx_edit *edits;
} x = { .out = LX_TYPED_INIT };

/* ---- before it runs ---- */

static int plan_map(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	const char *writes[] = { x.out.field, NULL };
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

static bool is_bin(struct lx_span value)
{
	struct lx_val v;
	return lx_val_from(value, &v) == 0 && v.type == LX_BIN;
}

/* Without -o what the command makes of the payload is the new payload, byte for byte: bin where it was, or is not UTF-8. */
static const char *pack_output(struct lx_span s, struct lx_span old)
{
	if (common.out_field)
		return lx_typed_pack(&x.out, s, &x.value);
	if (is_bin(old))
		lx_pack_bin(&x.value, s);
	else
		lx_pack_text(&x.value, s);
	return NULL;
}

/* The field that is set, and those that are dropped. */
static int set_field(void *ctx, const struct lx_rec *r, const struct lx_job *j, struct lx_reply *out, struct lx_err *e)
{
	(void)ctx;
	if (out->outcome != LX_PRESENT)
		return 0;
	lx_buf_clear(&x.value);
	const char *why = pack_output(lx_buf_view(&j->output), lx_rec_field(r, x.out.field));
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
	x.edits[common.drop.n].name = lx_span_str(x.out.field);
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
	sc.keep_parts = true;
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
	lx_typed_release(&x.out);
	lx_buf_free(&x.value);
	free(x.edits);
}

/* ---- options ---- */

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0 || lx_typed_parse(&x.out, common.out_field ? common.out_field : "data", e) < 0)
		return -1;
	if (first == argc)
		return lx_err_set(e, LX_USAGE, "the command is missing (-h shows the usage)");
	x.out.max_depth = common.limits.depth > 2 ? common.limits.depth - 2 : 0;
	if (lx_strs_has(&common.drop, x.out.field))
		return lx_err_set(e, LX_USAGE, "--drop and -o both name '%s': it cannot be dropped and set",
		                  x.out.field);
	if (make_edits(e) < 0 || lx_spawn_check(argv[first], e) < 0)
		return -1;
	x.tmpl = lx_tmpl_new(argv + first, e);
	x.conf = (struct lx_jobs_conf){
		.stage = &x.stage,
		.job = { .tmpl = x.tmpl,
		         .env = &env_fields,
		         .timeout_ms = timeout_ms,
		         .max_output = common.limits.record,
		         .quiet = common.quiet,
		         .set_env = n_jobs > 1 ? lx_job_one_thread() : NULL },
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

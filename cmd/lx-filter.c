/* lx-filter: keep the items that pass, by tests of their fields or by a command for each.
 *
 * in, out: a stream, the same frames. An item that passes goes on as it is, any other is dropped.
 * Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call fails (5), or
 * a command names a scope that is none (6).
 */
#include "cmd.h"
#include "jobs.h"
#include "payload.h"
#include "test.h"

#include <stdlib.h>
#include <sys/wait.h>

static const char usage[] =
	"lx-filter [-d DOMAIN] [--not] [--drop FIELDS] [-qv] [--stats FILE]\n"
	"          [--trace FILE] [--from FILE] [--to FILE] [--compress PACKING]\n"
	"          [--max-record SIZE] [--max-frame SIZE] [--max-depth N] [--max-id N]\n"
	"          [--max-fields N] TEST ...\n"
	"lx-filter [-d DOMAIN] [--not] [--drop FIELDS] [-qv] [--stats FILE]\n"
	"          [--trace FILE] [--from FILE] [--to FILE] [--compress PACKING]\n"
	"          [--max-record SIZE] [--max-frame SIZE] [--max-depth N] [--max-id N]\n"
	"          [--max-fields N] [-i FIELD] [-j JOBS] [--env FIELDS] [--timeout SECONDS]\n"
	"          [--retry N] [--tmpdir DIR] -- COMMAND [ARG ...]";

#define NOT_SAID UINT64_MAX

static struct cmd_common common = CMD_STAGE_INIT;
static struct lx_strs env_fields;
static bool invert;
static uint64_t n_jobs = NOT_SAID, timeout_ms = NOT_SAID, retries = NOT_SAID;

static const struct lx_opt options[] = {
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ 'i', "in-field", LX_OPT_STR, &common.in_field, 0, 0, NULL },
	{ 0, "not", LX_OPT_FLAG, &invert, 0, 0, NULL },
	{ 0, "drop", LX_OPT_NAMES, &common.drop, 0, 0, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "trace", LX_OPT_STR, &common.trace, 0, 0, NULL },
	CMD_FROM_OPT(common),
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "tmpdir", LX_OPT_STR, &common.tmpdir, 0, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	{ 'j', "jobs", LX_OPT_UINT, &n_jobs, 1, LX_JOBS_MAX, NULL },
	{ 0, "timeout", LX_OPT_SEC, &timeout_ms, 1, 0, NULL },
	{ 0, "retry", LX_OPT_UINT, &retries, 0, 1000, NULL },
	{ 0, "env", LX_OPT_NAMES, &env_fields, 0, 0, NULL },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

static struct {
	struct lx_stage stage;
	struct lx_tests tests;
	/* with a command */
	struct lx_jobs *jobs;
	struct lx_jobs_conf conf;
	struct lx_tmpl *tmpl;
	struct lx_edit *edits; /* of an item that passes: what is dropped from it */
} x;

/* ---- before it runs ---- */

static int plan_tests(const struct lx_plan *p, int domain, struct lx_strs *reads, struct lx_err *e)
{
	for (size_t i = 0; i < x.tests.n; i++)
		if (lx_plan_reads(p, domain, x.tests.v[i].field, "TEST", e) < 0 || lx_strs_add(reads, x.tests.v[i].field, e) < 0)
			return -1;
	return 0;
}

static int plan_filter(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	struct lx_strs reads = { 0 };
	int rc = x.tmpl ? lx_jobs_plan(&x.conf, p, s->domain, &reads, e) : plan_tests(p, s->domain, &reads, e);
	for (size_t i = 0; rc == 0 && i < common.drop.n; i++)
		rc = lx_plan_reads(p, s->domain, common.drop.v[i], "--drop", e);
	if (rc == 0)
		rc = lx_plan_op(p, "lx-filter", s->domain, reads.v, NULL, common.drop.v, e);
	lx_strs_free(&reads);
	return rc;
}

/* ---- by tests ---- */

static int judge(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_test_why why;
	enum lx_verdict v = lx_tests_ask(&x.tests, r->fields, &why);
	if (v == LX_TEST_FAILED)
		return lx_stage_fail(&x.stage, r, &(struct lx_blame){ .type = why.type, .message = lx_span_str(why.message) }, e);
	if ((v == LX_TEST_TRUE) == invert)
		return lx_stage_drop(&x.stage, r, e);
	return common.drop.n ? lx_stage_put_edit(&x.stage, r, x.edits, common.drop.n, e) : lx_stage_put(&x.stage, r, e);
}

static int end_run(void *ctx, const struct lx_jobs_stats *st, struct lx_err *e)
{
	(void)ctx;
	char more[LX_JOBS_MEMBERS_MAX] = "";
	if (st)
		lx_jobs_members(st, more, sizeof(more));
	return cmd_stats(&common, &x.stage, more, e);
}

static int end_tests(struct lx_err *e)
{
	return lx_stage_end_run(&x.stage, e) < 0 ? -1 : end_run(NULL, NULL, e);
}

static const struct cmd_loop by_tests = { .item = judge, .run = end_tests };

/* ---- by a command ---- */

/* 0 keeps, 1 drops, anything else is a failure. */
static int take_verdict(void *ctx, const struct lx_rec *r, const struct lx_job *j, struct lx_reply *out, struct lx_err *e)
{
	(void)ctx, (void)r, (void)e;
	bool no = j->end == LX_JOB_DATA && !j->raised && j->gone && WIFEXITED(j->status) && WEXITSTATUS(j->status) == 1;
	if (j->end != LX_JOB_OK && !no)
		return 0;
	out->outcome = no == invert ? LX_PRESENT : LX_DROPPED;
	out->edits = x.edits;
	out->n_edits = common.drop.n;
	return 0;
}

/* ---- the stage ---- */

static int run(struct lx_err *e)
{
	struct lx_stage_conf sc;
	if (cmd_stage_conf(&common, &sc, e) < 0)
		return -1;
	sc.keep_frames = true;
	sc.keep_parts = true;
	sc.plan = plan_filter;
	if (x.tmpl) {
		if (!(x.jobs = lx_jobs_new(e)))
			return -1;
		lx_jobs_hook(x.jobs, &sc);
	}
	if (lx_stage_init(&x.stage, &sc, e) < 0)
		return -1;
	int rc = x.tmpl ? lx_jobs_run(x.jobs, &x.conf, e) : cmd_loop(&x.stage, &by_tests, e);
	if (rc < 0)
		lx_stage_abort(&x.stage, e);
	return rc;
}

static void release(void)
{
	lx_stage_release(&x.stage);
	lx_jobs_free(x.jobs);
	lx_tmpl_free(x.tmpl);
	lx_tests_release(&x.tests);
	lx_strs_free(&env_fields);
	free(x.edits);
}

/* ---- options ---- */

static int make_edits(struct lx_err *e)
{
	x.edits = calloc(common.drop.n + 1, sizeof(*x.edits));
	if (!x.edits)
		return lx_err_sys(e, "--drop");
	for (size_t i = 0; i < common.drop.n; i++)
		x.edits[i].name = lx_span_str(common.drop.v[i]);
	return 0;
}

static int configure_command(char **argv, struct lx_err *e)
{
	if (lx_spawn_check(argv[0], e) < 0 || !(x.tmpl = lx_tmpl_new(argv, e)))
		return -1;
	uint64_t jobs = n_jobs == NOT_SAID ? 1 : n_jobs;
	x.conf = (struct lx_jobs_conf){
		.stage = &x.stage,
		.job = { .tmpl = x.tmpl, .env = &env_fields, .timeout_ms = timeout_ms == NOT_SAID ? 0 : timeout_ms,
		         .quiet = common.quiet, .set_env = jobs > 1 ? lx_job_one_thread() : NULL },
		.slots = jobs,
		.retries = retries == NOT_SAID ? 2 : retries,
		.max_waiting = UINT64_MAX, /* the frame is in memory anyway */
		.max_bytes = UINT64_MAX,
		.tmpdir = common.tmpdir,
		.mute = true,
		.in_field = common.in_field,
		.payload = lx_payload,
		.reply = take_verdict,
		.end_run = end_run,
	};
	return 0;
}

static int configure_tests(char **argv, struct lx_err *e)
{
	if (!*argv)
		return lx_err_set(e, LX_USAGE, "nothing to test: give a TEST, or -- and a COMMAND (-h shows the usage)");
	if (common.in_field || common.tmpdir || env_fields.n || n_jobs != NOT_SAID || timeout_ms != NOT_SAID ||
	    retries != NOT_SAID)
		return lx_err_set(e, LX_USAGE, "-i, -j, --env, --timeout, --retry and --tmpdir go with a command: lx-filter ... -- COMMAND");
	for (; *argv; argv++)
		if (lx_tests_add(&x.tests, *argv, e) < 0)
			return -1;
	return 0;
}

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0 || make_edits(e) < 0)
		return -1;
	bool command = first > 1 && first < argc && strcmp(argv[first - 1], "--") == 0;
	return command ? configure_command(argv + first, e) : configure_tests(argv + first, e);
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	if (cmd_start("lx-filter", usage, &common, &e) == 0 && configure(argc, argv, &e) == 0)
		run(&e);
	release();
	return cmd_finish(&common, &e);
}

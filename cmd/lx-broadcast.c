/* lx-broadcast: give fields of an item to all that is below it in some domain, whichever comes first.
 *
 * in, out: a stream, the same frames; what came before its ancestor leaves in the frame in which that comes. Exits non-zero
 * when the options or the pipeline's shape are wrong (2), the input is (3, 4), or a system call fails (5).
 */
#include "await.h"
#include "cmd.h"
#include "done.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
	"lx-broadcast [-d DOMAIN] [--of DOMAIN] -i FIELDS [-o FIELD] [-qv] [--mem SIZE]\n"
	"             [--tmpdir DIR] [--stats FILE] [--trace FILE] [--to FILE]\n"
	"             [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"             [--max-depth N] [--max-id N] [--max-fields N]";

#define MEM_DEFAULT (64u << 20)
#define ABSENT UINT32_MAX /* length of a field that the ancestor does not have */

static struct cmd_common common = CMD_STAGE_INIT;
static struct lx_strs fields;
static const char *of_domain;

static const struct lx_opt options[] = {
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ 0, "of", LX_OPT_STR, &of_domain, 0, 0, NULL },
	{ 'i', "in-field", LX_OPT_NAMES, &fields, 0, 0, NULL },
	{ 'o', "out-field", LX_OPT_STR, &common.out_field, 0, 0, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "mem", LX_OPT_SIZE, &common.mem, 1u << 20, 0, NULL },
	{ 0, "tmpdir", LX_OPT_STR, &common.tmpdir, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "trace", LX_OPT_STR, &common.trace, 0, 0, NULL },
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

static struct {
	struct lx_stage stage;
	int of;                  /* the ancestor's domain */
	uint32_t levels;         /* from a descendant up to it */
	struct lx_await *await;  /* of the run */
	/* Descendants that have left, and what is complete below items that are above them. */
	struct lx_done *done;
	struct lx_done *forgotten; /* ancestors whose values were given up: all below them had left */
	struct lx_edit *edits;
	struct lx_buf value, record;
	uint64_t waited;
} x;

/* ---- before it runs ---- */

static const char *written(size_t i)
{
	return common.out_field ? common.out_field : fields.v[i];
}

static int find_ancestor(const struct lx_stage *s, struct lx_err *e)
{
	const struct lx_plan *p = &s->plan;
	int of = of_domain ? lx_plan_domain(p, of_domain, "--of", e) : p->domains[s->domain].parent;
	if (of < 0)
		return of_domain ? -1
		                 : lx_err_set(e, LX_USAGE, "'%s' is the root domain: nothing lies above it (-d, or lx-expand comes first)",
		                              p->domains[s->domain].name);
	int levels = lx_plan_levels(p, s->domain, of);
	if (levels <= 0)
		return lx_err_set(e, LX_USAGE, "'%s' is not above '%s' (--of)", p->domains[of].name, p->domains[s->domain].name);
	x.of = of;
	x.levels = (uint32_t)levels;
	return 0;
}

static void release_run(void)
{
	lx_await_free(x.await);
	lx_done_free(x.done);
	lx_done_free(x.forgotten);
	x.await = NULL;
	x.done = x.forgotten = NULL;
}

static int plan_broadcast(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	const char *writes[fields.n + 1];
	if (find_ancestor(s, e) < 0)
		return -1;
	for (size_t i = 0; i < fields.n; i++) {
		if (lx_plan_reads(p, x.of, fields.v[i], "-i", e) < 0)
			return -1;
		writes[i] = written(i);
	}
	writes[fields.n] = NULL;
	if (lx_plan_op(p, "lx-broadcast", x.of, fields.v, NULL, NULL, e) < 0 ||
	    lx_plan_op(p, "lx-broadcast", s->domain, NULL, writes, NULL, e) < 0)
		return -1;
	release_run();
	x.await = lx_await_new(common.mem ? common.mem : MEM_DEFAULT, common.tmpdir, e);
	x.done = lx_done_new();
	x.forgotten = lx_done_new();
	if (x.await && (!x.done || !x.forgotten))
		return lx_err_sys(e, "ids");
	return x.await ? 0 : -1;
}

/* ---- values: each field's length, or ABSENT, and its bytes ---- */

static int pack_value(const struct lx_rec *r, struct lx_err *e)
{
	lx_buf_clear(&x.value);
	for (size_t i = 0; i < fields.n; i++) {
		struct lx_span v = lx_rec_field(r, fields.v[i]);
		uint32_t len = v.p ? (uint32_t)v.len : ABSENT;
		lx_buf_add(&x.value, &len, sizeof(len));
		if (v.p)
			lx_buf_span(&x.value, v);
	}
	return lx_buf_check(&x.value, e);
}

/* The edits that a value stands for. The name of a field that is missing, or NULL. */
static const char *unpack_value(struct lx_span value)
{
	const char *missing = NULL;
	for (size_t i = 0; i < fields.n; i++) {
		uint32_t len;
		memcpy(&len, value.p, sizeof(len));
		value.p += sizeof(len);
		x.edits[i].value = (struct lx_span){ value.p, len };
		if (len == ABSENT)
			missing = missing ? missing : fields.v[i];
		else
			value.p += len;
	}
	return missing;
}

/* ---- descendants ---- */

static struct lx_id ancestor_of(const struct lx_id *id)
{
	return lx_id_parent(id, x.levels);
}

static const char *name_of(int domain)
{
	return x.stage.plan.domains[domain].name;
}

static int give(const struct lx_rec *r, struct lx_span value, struct lx_err *e)
{
	char why[160];
	const char *missing = unpack_value(value);
	if (!missing)
		return lx_stage_put_edit(&x.stage, r, x.edits, fields.n, e);
	snprintf(why, sizeof(why), "its %s has no field '%.64s' (-i)", name_of(x.of), missing);
	return lx_stage_fail(&x.stage, r, &(struct lx_blame){ .type = "no-field", .message = lx_span_str(why) }, e);
}

/* Nothing below the ancestor can still come: its value goes. Should it all come again, it is kept from then on. */
static int settle(const struct lx_id *ancestor, struct lx_err *e)
{
	if (lx_done_has(x.done, ancestor) == LX_DONE_NO || lx_done_has(x.forgotten, ancestor) != LX_DONE_NO)
		return 0;
	return lx_await_forget(x.await, ancestor) ? lx_done_add(x.forgotten, ancestor, false, e) : 0;
}

/* A descendant, or all that is below an item between it and the ancestor, asks for nothing any more. */
static int is_over(const struct lx_id *id, uint32_t levels, struct lx_err *e)
{
	struct lx_id ancestor = lx_id_parent(id, levels);
	return lx_done_add(x.done, id, false, e) < 0 ? -1 : settle(&ancestor, e);
}

static int take_item(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_id ancestor = ancestor_of(&r->id);
	struct lx_span value;
	int have = lx_await_get(x.await, &ancestor, &value, e);
	if (have < 0)
		return -1;
	if (!have) {
		x.waited++;
		return lx_await_hold(x.await, &ancestor, r->raw, e);
	}
	return give(r, value, e) < 0 ? -1 : is_over(&r->id, x.levels, e);
}

/* One that has waited: meanwhile it may have been barred. orphan: its ancestor will not come. */
static int release(const struct lx_id *ancestor, bool orphan, struct lx_err *e)
{
	struct lx_span cause, value;
	struct lx_rec r;
	size_t used;
	char why[160];
	int got = lx_await_take(x.await, ancestor, &x.record, e);
	if (got <= 0)
		return got;
	if (lx_rec_parse(x.record.p, x.record.len, &common.limits, &r, &used, e) < 0)
		return lx_err_prefix(e, "a record that was held");
	enum lx_outcome as = lx_stage_barred(&x.stage, &r, &cause);
	if (as == LX_DROPPED) {
		got = lx_stage_drop(&x.stage, &r, e);
	} else if (as != LX_PRESENT) {
		got = lx_stage_suppress(&x.stage, &r, cause, e);
	} else if (orphan && lx_done_has(x.done, &r.id) != LX_DONE_NO) {
		lx_stage_leave_out(&x.stage);
		return 1;
	} else if (orphan) {
		snprintf(why, sizeof(why), "its %s record never came", name_of(x.of));
		got = lx_stage_fail(&x.stage, &r, &(struct lx_blame){ .type = "orphan", .message = lx_span_str(why) }, e);
	} else {
		got = lx_await_get(x.await, ancestor, &value, e) < 0 ? -1 : give(&r, value, e);
	}
	return got < 0 || lx_done_add(x.done, &r.id, false, e) < 0 ? -1 : 1;
}

static int release_all(const struct lx_id *ancestor, bool orphan, struct lx_err *e)
{
	int got;
	while ((got = release(ancestor, orphan, e)) > 0)
		;
	return got;
}

/* ---- what passes ---- */

/* Levels from the domain of the call up to this one, where it is one of those from there to the ancestor's; else -1. */
static int levels_above(uint32_t domain)
{
	int up = lx_plan_levels(&x.stage.plan, x.stage.domain, (int)domain);
	return up >= 0 && (uint32_t)up <= x.levels ? up : -1;
}

static int on_other(void *ctx, const struct lx_rec *r, struct lx_err *e)
{
	(void)ctx;
	if (r->domain != (uint32_t)x.of)
		return 0;
	if (pack_value(r, e) < 0 || lx_await_put(x.await, &r->id, lx_buf_view(&x.value), e) < 0)
		return -1;
	return release_all(&r->id, false, e) < 0 ? -1 : settle(&r->id, e);
}

static int on_seen(void *ctx, const struct lx_rec *r, enum lx_outcome as, struct lx_err *e)
{
	(void)ctx, (void)as;
	int d = r->kind == LX_CLOSE ? x.stage.plan.domains[r->domain].parent : (int)r->domain;
	if (r->kind == LX_CLOSE && levels_above(r->domain) < 0)
		return 0;
	int up = levels_above((uint32_t)d);
	if (up < 0)
		return 0;
	uint32_t down = x.levels - (uint32_t)up; /* from the ancestor */
	struct lx_id ancestor = lx_id_parent(&r->id, down);
	if (r->kind == LX_CLOSE)
		return lx_done_total(x.done, &r->id, r->count, e) < 0 ? -1 : settle(&ancestor, e);
	if (d == x.of)
		return release_all(&r->id, false, e);
	return is_over(&r->id, down, e);
}

/* ---- the loop ---- */

static int end_run(struct lx_err *e)
{
	struct lx_id ancestor;
	char more[128];
	while (lx_await_any(x.await, &ancestor))
		if (release_all(&ancestor, true, e) < 0)
			return -1;
	if (lx_stage_end_run(&x.stage, e) < 0)
		return -1;
	snprintf(more, sizeof(more), ",\"waited\":%llu,\"duplicates\":%llu,\"spilled_bytes\":%llu", (unsigned long long)x.waited,
	         (unsigned long long)x.stage.left_out, (unsigned long long)lx_await_spilled(x.await));
	x.waited = 0;
	return cmd_stats(&common, &x.stage, more, e);
}

static const struct cmd_loop loop = { .item = take_item, .run = end_run };

static void run(struct lx_err *e)
{
	struct lx_stage_conf sc;
	if (cmd_stage_conf(&common, &sc, e) < 0)
		return;
	sc.keep_frames = true;
	sc.plan = plan_broadcast;
	sc.other = on_other;
	sc.seen = on_seen;
	if (lx_stage_init(&x.stage, &sc, e) < 0 || cmd_loop(&x.stage, &loop, e) < 0)
		lx_stage_abort(&x.stage, e);
}

/* ---- options ---- */

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0)
		return -1;
	if (first < argc)
		return lx_err_set(e, LX_USAGE, "'%.64s': no operands are taken (-i names fields)", argv[first]);
	if (!fields.n)
		return lx_err_set(e, LX_USAGE, "-i FIELDS is missing: what to give to the descendants");
	if (common.out_field && fields.n > 1)
		return lx_err_set(e, LX_USAGE, "-o with %zu fields: it names one", fields.n);
	for (size_t i = 1; i < fields.n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(fields.v[i], fields.v[k]) == 0)
				return lx_err_set(e, LX_USAGE, "-i: '%.64s' twice", fields.v[i]);
	x.edits = calloc(fields.n, sizeof(*x.edits));
	if (!x.edits)
		return lx_err_sys(e, "-i");
	for (size_t i = 0; i < fields.n; i++)
		x.edits[i].name = lx_span_str(written(i));
	return 0;
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	if (cmd_start("lx-broadcast", usage, &common, &e) == 0 && configure(argc, argv, &e) == 0)
		run(&e);
	release_run();
	lx_stage_release(&x.stage);
	lx_strs_free(&fields);
	lx_buf_free(&x.value);
	lx_buf_free(&x.record);
	free(x.edits);
	return cmd_finish(&common, &e);
}

/* lx-gather: many children back to one parent, in order, with a verdict. The regrouping and its rules are lib/group; this
 * makes the parent's new field: an array of maps, joined bytes, or what a command makes of the joined bytes.
 *
 * in: a stream with an open domain. out: the same stream with that domain gathered; a parent leaves as soon as its own
 * children are known.
 * Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call fails (5).
 */
#include "cmd.h"
#include "group.h"
#include "item.h"
#include "job.h"
#include "join.h"
#include "sig.h"
#include "typed.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const char usage[] =
	"lx-gather [-d DOMAIN] [-f FIELDS] [-s FORMAT] [-i FIELD]\n"
	"          [-o FIELD[:TYPE]] [--drop FIELDS] [--timeout SECONDS] [--retry N] [--env FIELDS]\n"
	"          [-qv] [--stats FILE] [--trace FILE] [--to FILE] [--mem SIZE]\n"
	"          [--tmpdir DIR] [--compress PACKING] [--max-record SIZE]\n"
	"          [--max-frame SIZE] [--max-depth N] [--max-id N] [--max-fields N]\n"
	"          [-- COMMAND [ARG ...]]";

#define JOIN_MEM (8u << 20) /* bytes for a command's stdin that are held; more lies in a temporary file */
#define LATE_NAMED 8        /* records that came too late and are named one by one */

static struct cmd_common common = CMD_STAGE_INIT;
static struct lx_strs fields, env_fields;
static const char *format_arg;
static uint64_t timeout_ms, retries = 2;

static const struct lx_opt options[] = {
	CMD_COMMON_OPTS(common),
	{ 'f', "fields", LX_OPT_NAMES, &fields, 0, 0, NULL },
	{ 's', "format", LX_OPT_STR, &format_arg, 0, 0, NULL },
	{ 0, "timeout", LX_OPT_SEC, &timeout_ms, 1, 0, NULL },
	{ 0, "retry", LX_OPT_UINT, &retries, 0, 1000, NULL },
	{ 0, "env", LX_OPT_NAMES, &env_fields, 0, 0, NULL },
	{ 0 },
};

static struct {
	struct lx_stage stage;
	struct lx_group *group; /* of the run */
	int child, parent;      /* domains */
	enum lx_join_format format;
	const char *join_field, *out_field;
	struct lx_typed out;    /* -o, and what a command's output becomes */
	struct lx_tmpl *tmpl;   /* NULL: no command */
	struct lx_job job;
	struct lx_job_conf job_conf;
	struct lx_join join;
	int file;               /* joined bytes beyond JOIN_MEM; -1: none */
	struct lx_buf value, joined, missing, cause, rec;
	struct lx_edit *edits;
	bool adds_missing;      /* another gather of the parents may have left a field `missing` */
	bool may_clash;         /* a child may have a field called ordinal */
	bool flat;              /* no child of the parent at work has a container among its fields */
} x = { .file = -1, .format = LX_JOIN_ARRAY, .out = LX_TYPED_INIT };

/* Why a parent fails here; code is LX_DATA when it does. */
struct why {
	const char *type, *scope;
	struct lx_err err;
};

/* ---- before it runs ---- */

static int reads_of(const struct lx_plan *p, int domain, const struct lx_strs *names, const char *option,
                    struct lx_strs *reads, struct lx_err *e)
{
	for (size_t i = 0; i < names->n; i++)
		if (lx_plan_reads(p, domain, names->v[i], option, e) < 0 || lx_strs_add(reads, names->v[i], e) < 0)
			return -1;
	return 0;
}

/* Whether a gather before this one wrote `missing` on the parents. */
static bool had_missing(const struct lx_plan *p)
{
	for (int i = 0; i < p->n_ops; i++)
		for (char **w = p->ops[i].writes; w && *w; w++)
			if (p->ops[i].domain == x.parent && strcmp(p->ops[i].tool, "lx-gather") == 0 && strcmp(*w, "missing") == 0)
				return true;
	return false;
}

static int declare(struct lx_plan *p, struct lx_err *e)
{
	const char *const joined[] = { x.join_field, NULL };
	const char *const writes[] = { x.out_field, p->domains[x.child].tolerance.n ? "missing" : NULL, NULL };
	struct lx_strs reads = { 0 };
	int rc = 0;
	x.adds_missing = had_missing(p);
	if (x.format != LX_JOIN_ARRAY && lx_plan_reads(p, x.child, x.join_field, "-i", e) < 0)
		return -1;
	if (reads_of(p, x.child, &fields, "-f", &reads, e) < 0 ||
	    lx_plan_op(p, "lx-gather", x.child, x.format == LX_JOIN_ARRAY ? reads.v : joined, NULL, NULL, e) < 0)
		rc = -1;
	lx_strs_free(&reads);
	if (rc == 0 && x.tmpl && (lx_tmpl_check(x.tmpl, p, x.parent, e) < 0 ||
	                          reads_of(p, x.parent, lx_tmpl_fields(x.tmpl), "{name}", &reads, e) < 0 ||
	                          reads_of(p, x.parent, &env_fields, "--env", &reads, e) < 0))
		rc = -1;
	if (rc == 0)
		rc = lx_plan_op(p, "lx-gather", x.parent, reads.v, writes, common.drop.v, e);
	lx_strs_free(&reads);
	return rc;
}

static int settle(void *ctx, struct lx_group *g, const struct lx_settled *s, struct lx_err *e);

static void say_late(void *ctx, const struct lx_rec *r)
{
	(void)ctx;
	char id[LX_ID_TEXT_MAX];
	lx_id_text(&r->id, id, sizeof(id));
	if (!common.quiet && lx_group_stats(x.group)->late <= LATE_NAMED)
		cmd_say("late: %s %s came after its parent had left; it is not in the result",
		        x.stage.plan.domains[r->domain].name, id);
}

static int plan_gather(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	static const char *keep_one[2];
	x.child = s->domain;
	if (lx_plan_gather(p, x.child, e) < 0)
		return -1;
	x.parent = p->domains[x.child].parent;
	x.out_field = common.out_field ? x.out.field : p->domains[x.child].name;
	x.job_conf.domain = x.parent;
	x.may_clash = lx_plan_knows(p, x.child, "ordinal") >= 0;
	if (declare(p, e) < 0)
		return -1;
	keep_one[0] = x.join_field;
	struct lx_group_conf gc = {
		.plan = &s->plan,
		.domain = x.child,
		.mem = common.mem,
		.tmpdir = common.tmpdir,
		.limits = common.limits,
		.keep = x.format != LX_JOIN_ARRAY ? keep_one : fields.n ? fields.v : NULL,
		.settle = settle,
		.late = say_late,
	};
	lx_group_free(x.group);
	x.group = lx_group_new(&gc, e);
	return x.group ? 0 : -1;
}

/* ---- the parent's new field ---- */

/* The parent fails: the type, and one line. */
static int refuse(struct why *w, const char *type, const char *fmt, uint64_t ordinal, const char *what)
{
	w->type = type;
	return lx_err_set(&w->err, LX_DATA, fmt, (unsigned long long)ordinal, what);
}

/* {"ordinal": N, its fields}; a field of its own that is called ordinal gives way. */
static int add_map(struct lx_rec *child, struct why *w, struct lx_err *e)
{
	static const struct lx_edit ours = { { (const uint8_t *)"ordinal", 7 }, { 0 } };
	struct lx_limits limits = common.limits;
	uint64_t n = lx_id_ordinal(&child->id);
	struct lx_span own = child->fields;
	struct lx_cur c;
	struct lx_val head;
	for (size_t i = 0; i < fields.n; i++)
		if (!lx_rec_field(child, fields.v[i]).p)
			return refuse(w, "no-field", "child %llu has no field '%s'", n, fields.v[i]);
	if (x.may_clash && lx_rec_field(child, "ordinal").p) {
		lx_buf_clear(&x.rec);
		if (lx_fields_edit(&x.rec, own, &ours, 1, &limits, e) < 0)
			return -1;
		own = lx_buf_view(&x.rec);
	}
	c = lx_cur(own);
	lx_val_read(&c, &head);
	lx_pack_map(&x.value, head.n + 1);
	lx_pack_str(&x.value, ours.name);
	lx_pack_uint(&x.value, n);
	lx_buf_add(&x.value, c.p, (size_t)(c.end - c.p));
	x.flat = x.flat && child->flat;
	return lx_buf_check(&x.value, e);
}

static int make_array(struct lx_group *g, const struct lx_settled *s, struct why *w, struct lx_err *e)
{
	struct lx_rec child;
	int got;
	if (s->children > UINT32_MAX)
		return refuse(w, "oversize", "%llu children in one array%s", s->children, "");
	lx_pack_array(&x.value, (uint32_t)s->children);
	while ((got = lx_group_child(g, &child, e)) > 0) {
		if (add_map(&child, w, e) < 0)
			return -1;
		/* More cannot fit; whether this much does is seen when the record is whole. */
		if (x.value.len > common.limits.record)
			return refuse(w, "oversize", "over %llu bytes with all its children (%s)", common.limits.record,
			              "--max-record");
	}
	return got;
}

/* Joined bytes for a command: what is beyond JOIN_MEM goes to a file. */
static int spill_joined(struct lx_err *e)
{
	if (x.file < 0 && (x.file = lx_io_tmpfile(common.tmpdir, e)) < 0)
		return -1;
	int rc = lx_io_write(x.file, x.joined.p, x.joined.len, e);
	lx_buf_clear(&x.joined);
	return rc;
}

static int join_children(struct lx_group *g, struct why *w, struct lx_err *e)
{
	struct lx_rec child;
	int got;
	lx_join_init(&x.join, x.format, x.tmpl ? UINT64_MAX : common.limits.record);
	while ((got = lx_group_child(g, &child, e)) > 0) {
		struct lx_span v = lx_rec_field(&child, x.join_field);
		if (!v.p)
			return refuse(w, "no-field", "child %llu has no field '%s'", lx_id_ordinal(&child.id),
			              x.join_field);
		if (lx_join_add(&x.join, v, &x.joined, &w->err) < 0) {
			if (w->err.code != LX_DATA)
				return lx_err_set(e, w->err.code, "%s", w->err.msg);
			w->type = x.join.type;
			return lx_err_prefix(&w->err, "child %llu", (unsigned long long)lx_id_ordinal(&child.id));
		}
		if (x.tmpl && x.joined.len > JOIN_MEM && spill_joined(e) < 0)
			return -1;
	}
	return got;
}

static int pack_joined(struct lx_err *e)
{
	if (x.join.text)
		lx_pack_str(&x.value, lx_buf_view(&x.joined));
	else
		lx_pack_bin(&x.value, lx_buf_view(&x.joined));
	return lx_buf_check(&x.value, e);
}

/* ---- the command ---- */

static int run_job(const struct lx_settled *s, struct lx_span input, struct lx_err *e)
{
	if (lx_job_start(&x.job, &x.job_conf, &s->parent, input, common.tmpdir, e) < 0)
		return -1;
	while (x.job.end == LX_JOB_RUNNING) {
		struct pollfd p[5] = { { .fd = lx_sig_fd(), .events = POLLIN } };
		int n = 1 + lx_job_fds(&x.job, p + 1, false);
		uint64_t now = lx_io_now_ns(), at = x.job.deadline_ns;
		if (poll(p, (nfds_t)n, 0) == 0) {
			if (lx_writer_flush(&x.stage.out, e) < 0)
				return -1;
			poll(p, (nfds_t)n, !at ? -1 : at <= now ? 0 : (int)((at - now) / 1000000u + 1));
		}
		lx_sig_ack();
		if (lx_sig_stop())
			return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
		if (lx_job_step(&x.job, &x.job_conf, lx_io_now_ns(), e) < 0)
			return -1;
	}
	return 0;
}

static int run_command(const struct lx_settled *s, struct lx_span input, struct lx_err *e)
{
	uint64_t wait = 1;
	for (uint64_t attempt = 1; wait; attempt++) {
		lx_job_clear(&x.job);
		if (run_job(s, input, e) < 0)
			return -1;
		wait = lx_job_again(&x.job, attempt, retries);
		if (wait && (lx_writer_flush(&x.stage.out, e) < 0 || lx_io_wait(lx_sig_fd(), (int)(wait / 1000000u), e) < 0))
			return -1;
		lx_sig_ack();
		if (lx_sig_stop())
			return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	}
	return 0;
}

static int reduce(const struct lx_settled *s, struct why *w, struct lx_err *e)
{
	struct lx_span input = lx_buf_view(&x.joined);
	void *map = NULL;
	if (x.file >= 0) {
		if (spill_joined(e) < 0)
			return -1;
		off_t size = lseek(x.file, 0, SEEK_END);
		map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, x.file, 0);
		if (size < 0 || map == MAP_FAILED)
			return lx_err_sys(e, "temporary file (--tmpdir)");
		input = (struct lx_span){ map, (size_t)size };
	}
	x.job_conf.max_output = common.limits.record;
	int rc = run_command(s, input, e);
	const char *bad =
		rc == 0 && x.job.end == LX_JOB_OK ? lx_typed_pack(&x.out, lx_buf_view(&x.job.output), &x.value) : NULL;
	if (bad) {
		w->type = "bad-output";
		rc = lx_err_set(&w->err, LX_DATA, "%s", bad);
	} else if (rc == 0 && x.job.end == LX_JOB_OK) {
		x.flat = x.flat && x.out.as != LX_AS_JSON;
		rc = lx_buf_check(&x.value, e);
	} else if (rc == 0) {
		w->type = x.job.type;
		w->scope = x.job.scope;
		rc = lx_err_set(&w->err, LX_DATA, "%.*s", (int)x.job.message.len,
		                x.job.message.p ? (char *)x.job.message.p : "");
	}
	if (map)
		munmap(map, input.len);
	return rc;
}

static int make_value(struct lx_group *g, const struct lx_settled *s, struct why *w, struct lx_err *e)
{
	lx_buf_clear(&x.value);
	lx_buf_clear(&x.joined);
	x.flat = true;
	if (x.file >= 0 && (ftruncate(x.file, 0) < 0 || lseek(x.file, 0, SEEK_SET) < 0))
		return lx_err_sys(e, "temporary file (--tmpdir)");
	if (x.format == LX_JOIN_ARRAY)
		return make_array(g, s, w, e);
	if (join_children(g, w, e) < 0)
		return -1;
	return x.tmpl ? reduce(s, w, e) : pack_joined(e);
}

/* What another gather of this parent left in `missing`: its elements, and how many. */
static uint32_t earlier_missing(const struct lx_settled *s, struct lx_span *elements)
{
	struct lx_val v;
	struct lx_span old = x.adds_missing ? lx_map_get(s->parent.fields, "missing", strlen("missing")) : (struct lx_span){ 0 };
	struct lx_cur c = lx_cur(old);
	if (!old.p || lx_val_read(&c, &v) < 0 || v.type != LX_ARRAY)
		return 0;
	*elements = (struct lx_span){ c.p, (size_t)(c.end - c.p) };
	return v.n;
}

/* [[ordinal, type, domain], ...] of the failed and suppressed children that the expansions bore. */
static int make_missing(struct lx_group *g, const struct lx_settled *s, struct lx_err *e)
{
	uint64_t ordinal;
	struct lx_span type, before = { 0 };
	uint32_t n_before = earlier_missing(s, &before);
	int got;
	lx_buf_clear(&x.missing);
	lx_pack_array(&x.missing, n_before + (uint32_t)s->failed);
	lx_buf_span(&x.missing, before);
	while ((got = lx_group_missing(g, &ordinal, &type, e)) > 0) {
		lx_pack_array(&x.missing, 3);
		lx_pack_uint(&x.missing, ordinal);
		lx_pack_str(&x.missing, type);
		lx_pack_str(&x.missing, lx_span_str(x.stage.plan.domains[x.child].name));
	}
	return got;
}

/* ---- settled parents ---- */

static void trace(const struct lx_settled *s, enum lx_outcome o)
{
	if (x.stage.conf.trace)
		lx_trace_event(x.stage.conf.trace, lx_outcome_name(o), x.stage.plan.domains[x.parent].name, &s->id);
}

/* A dropped parent carries nothing, any other keeps its fields for replay. */
static int put_gone(const struct lx_settled *s, enum lx_outcome o, struct lx_span cause, struct lx_err *e)
{
	const struct lx_rec *r = &s->parent;
	trace(s, o);
	struct lx_span kept = o == LX_DROPPED ? (struct lx_span){ 0 } : r->fields;
	lx_buf_clear(&x.rec);
	lx_rec_gone(&x.rec, (uint32_t)x.parent, &s->id, o, cause, kept, r->key);
	if (x.rec.len > common.limits.record) { /* the cause does not fit behind fields that just did */
		lx_buf_clear(&x.rec);
		lx_rec_gone(&x.rec, (uint32_t)x.parent, &s->id, o, cause, (struct lx_span){ 0 }, r->key);
	}
	return lx_stage_emit_buf(&x.stage, &x.rec, e);
}

static int put_failed(const struct lx_settled *s, const char *type, struct lx_span message, const char *scope,
                      struct lx_err *e)
{
	struct lx_blame why = { .type = type, .message = message, .scope = scope };
	lx_buf_clear(&x.cause);
	if (lx_stage_cause(&x.stage, &x.cause, (uint32_t)x.parent, &s->id, &why, e) < 0)
		return -1;
	return put_gone(s, LX_FAILED, lx_buf_view(&x.cause), e);
}

/* The parent with its new field, in x.rec. Its own fields passed every check when they came in; where the
 * children have no containers of their own, the new one is two levels deep and needs none. -1: why not
 * is in *why. */
static int build_present(const struct lx_settled *s, struct lx_rec *r, struct lx_err *why)
{
	size_t n = 0, used;
	for (; n < common.drop.n; n++)
		x.edits[n] = (struct lx_edit){ .name = lx_span_str(common.drop.v[n]) };
	if (s->failed)
		x.edits[n++] = (struct lx_edit){ lx_span_str("missing"), lx_buf_view(&x.missing) };
	x.edits[n++] = (struct lx_edit){ lx_span_str(x.out_field), lx_buf_view(&x.value) };
	lx_buf_clear(&x.rec);
	lx_rec_item_head(&x.rec, (uint32_t)x.parent, &s->id);
	*r = (struct lx_rec){ .kind = LX_ITEM, .domain = (uint32_t)x.parent, .id = s->id };
	size_t head = x.rec.len;
	if (lx_fields_edit(&x.rec, s->parent.fields, x.edits, n, &common.limits, why) < 0)
		return -1;
	size_t fields_end = x.rec.len;
	if (s->id.n == 1)
		lx_buf_span(&x.rec, s->parent.key);
	if (lx_buf_check(&x.rec, why) < 0)
		return -1;
	if (x.rec.len > common.limits.record)
		return lx_err_set(why, LX_DATA, "%zu bytes with its children, over %llu (--max-record)", x.rec.len,
		                  (unsigned long long)common.limits.record);
	if (!x.flat || common.limits.depth < 4)
		return lx_rec_parse(x.rec.p, x.rec.len, &common.limits, r, &used, why);
	r->raw = lx_buf_view(&x.rec);
	r->fields = (struct lx_span){ x.rec.p + head, fields_end - head };
	r->key = (struct lx_span){ x.rec.p + fields_end, x.rec.len - fields_end };
	return 0;
}

static int put_present(struct lx_group *g, const struct lx_settled *s, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_rec r;
	if (s->failed && make_missing(g, s, e) < 0)
		return -1;
	if (build_present(s, &r, &why) == 0) {
		trace(s, LX_PRESENT);
		return lx_stage_pass(&x.stage, &r, e);
	}
	if (why.code != LX_DATA)
		return lx_err_set(e, why.code, "%s", why.msg);
	return put_failed(s, "oversize", lx_span_str(why.msg), NULL, e);
}

static int settle(void *ctx, struct lx_group *g, const struct lx_settled *s, struct lx_err *e)
{
	(void)ctx;
	struct why why = { .err = LX_ERR_INIT };
	if (s->passed) {
		trace(s, s->parent.outcome);
		return lx_stage_pass(&x.stage, &s->parent, e);
	}
	if (s->type)
		return put_failed(s, s->type, s->message, NULL, e);
	if (s->outcome != LX_PRESENT)
		return put_gone(s, s->outcome, s->cause, e);
	if (make_value(g, s, &why, e) == 0)
		return put_present(g, s, e);
	if (e->code)
		return -1;
	return put_failed(s, why.type, lx_span_str(why.err.msg), why.scope, e);
}

/* ---- the loop ---- */

static int take(const struct lx_rec *r, struct lx_err *e)
{
	if (r->domain == (uint32_t)x.child || (r->domain == (uint32_t)x.parent && r->kind != LX_CLOSE))
		return lx_group_add(x.group, r, e);
	return lx_group_learn(x.group, r, e) < 0 ? -1 : lx_stage_pass(&x.stage, r, e);
}

static int check_sums(struct lx_err *e)
{
	const struct lx_group_stats *st = lx_group_stats(x.group);
	uint64_t in = st->parents_in + st->orphans, out = lx_counts_items(&x.stage.out.counts, x.parent);
	uint64_t gone = st->joined + st->dropped + st->failed + st->suppressed + st->discarded + st->duplicates;
	if (in != out)
		return lx_err_set(e, LX_WORKER, "conservation: %llu parents came in and %llu went out",
		                  (unsigned long long)in, (unsigned long long)out);
	if (st->children != gone)
		return lx_err_set(e, LX_WORKER, "conservation: %llu children came in and %llu are accounted for",
		                  (unsigned long long)st->children, (unsigned long long)gone);
	return 0;
}

static int write_stats(struct lx_err *e)
{
	const struct lx_group_stats *st = lx_group_stats(x.group);
	struct lx_buf b = { 0 };
#define STAT(name) lx_buf_printf(&b, ",\"" #name "\":%llu", (unsigned long long)st->name)
	STAT(children);
	STAT(joined);
	STAT(dropped);
	STAT(failed);
	STAT(suppressed);
	STAT(discarded);
	STAT(duplicates);
	STAT(repeats);
	STAT(late);
	STAT(orphans);
	STAT(spilled_bytes);
	STAT(spill_reads);
	STAT(peak_bytes);
#undef STAT
	const char *more = lx_buf_cstr(&b);
	int rc = more ? cmd_stats(&common, &x.stage, more, e) : lx_buf_check(&b, e);
	lx_buf_free(&b);
	return rc;
}

static int end_run(struct lx_err *e)
{
	/* When only the shape is checked nothing came, and nothing is missing. */
	if (lx_group_end(x.group, e) < 0 || check_sums(e) < 0)
		return -1;
	uint64_t late = lx_group_stats(x.group)->late;
	if (late > LATE_NAMED && !common.quiet)
		cmd_say("late: %llu more like these", (unsigned long long)late - LATE_NAMED);
	return lx_stage_end_run(&x.stage, e) < 0 ? -1 : write_stats(e);
}

/* No whole frame is at hand: before it waits, what is complete leaves, also what lies on disk. */
static int wait_for_input(struct lx_err *e)
{
	if (x.group && !lx_io_ready(lx_stage_fd(&x.stage)) && lx_group_idle(x.group, e) < 0)
		return -1;
	return lx_stage_wait(&x.stage, e);
}

/* The input is damaged, cut or given up: what is complete leaves all the same, nothing unfinished gets a verdict. */
static void input_broke(void)
{
	struct lx_err e = LX_ERR_INIT;
	if (x.group)
		lx_group_flush(x.group, &e);
}

static const struct cmd_loop loop = { .item = take, .wait = wait_for_input, .run = end_run, .broke = input_broke };

/* ---- options ---- */

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0)
		return -1;
	if (first < argc && (lx_spawn_check(argv[first], e) < 0 || !(x.tmpl = lx_tmpl_new(argv + first, e))))
		return -1;
	if (format_arg && lx_join_parse(format_arg, &x.format, e) < 0)
		return -1;
	if (x.tmpl && !format_arg)
		x.format = LX_JOIN_CONCAT;
	if (x.tmpl && x.format == LX_JOIN_ARRAY)
		return lx_err_set(e, LX_USAGE, "-s array makes no bytes for a command's stdin: use concat or lines");
	if (x.format == LX_JOIN_ARRAY && common.in_field)
		return lx_err_set(e, LX_USAGE, "-i names the field that -s concat or lines joins; for an array use -f");
	if (x.format != LX_JOIN_ARRAY && fields.n)
		return lx_err_set(e, LX_USAGE, "-f chooses the fields of an array; for -s concat and lines use -i");
	if (common.out_field && lx_typed_parse(&x.out, common.out_field, e) < 0)
		return -1;
	if (!x.tmpl && x.out.as != LX_AS_TEXT)
		return lx_err_set(e, LX_USAGE, "-o %s: a type is for what a command writes, and there is none",
		                  common.out_field);
	x.out.max_depth = common.limits.depth > 2 ? common.limits.depth - 2 : 0;
	x.join_field = common.in_field ? common.in_field : "data";
	x.job_conf = (struct lx_job_conf){
		.tmpl = x.tmpl,
		.env = &env_fields,
		.timeout_ms = timeout_ms,
		.quiet = common.quiet,
		.plan = &x.stage.plan,
	};
	x.edits = calloc(common.drop.n + 2, sizeof(*x.edits));
	return x.edits ? 0 : lx_err_sys(e, "options");
}

static int run(struct lx_err *e)
{
	struct lx_stage_conf conf;
	if (cmd_stage_conf(&common, &conf, e) < 0)
		return -1;
	conf.plan = plan_gather;
	conf.take_all = true;
	if (lx_stage_init(&x.stage, &conf, e) < 0)
		return -1;
	int rc = cmd_loop(&x.stage, &loop, e);
	if (rc < 0)
		lx_stage_abort(&x.stage, e);
	return rc;
}

static void release(void)
{
	lx_group_free(x.group);
	lx_job_free(&x.job);
	lx_tmpl_free(x.tmpl);
	lx_join_release(&x.join);
	lx_typed_release(&x.out);
	struct lx_buf *all[] = { &x.value, &x.joined, &x.missing, &x.cause, &x.rec };
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		lx_buf_free(all[i]);
	if (x.file >= 0)
		close(x.file);
	free(x.edits);
	lx_strs_free(&fields);
	lx_strs_free(&env_fields);
	lx_stage_release(&x.stage);
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	lx_job_init(&x.job);
	if (cmd_start("lx-gather", usage, &common, &e) == 0 && configure(argc, argv, &e) == 0)
		run(&e);
	release();
	return cmd_finish(&common, &e);
}

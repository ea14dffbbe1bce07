/* lx-expand: one parent to many children. With a command: it runs once per parent and its output is cut into
 * children while it runs. Without one: a field of the parent is cut, or the elements of an array field are
 * taken. The parent goes ahead, its children follow, then the close with their count and outcome.
 *
 * in: a stream with present items of the parent's domain (--of). out: the same stream, one domain more.
 * Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call fails (5).
 * A command that fails fails its own parent only.
 */
#include "cmd.h"
#include "files.h"
#include "job.h"
#include "sig.h"
#include "split.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
	"lx-expand -d DOMAIN [--of DOMAIN] [-s FORMAT] [-i FIELD] [-o FIELD]\n"
	"          [--tolerate N|P%] [--carry FIELDS] [--drop FIELDS] [--keep]\n"
	"          [-j JOBS] [--timeout SECONDS] [--retry N] [--env FIELDS]\n"
	"          [-qv] [--stats FILE] [--trace FILE] [--to FILE] [--tmpdir DIR]\n"
	"          [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"          [--max-depth N] [--max-id N] [--max-fields N]\n"
	"          [-- COMMAND [ARG ...]]";

#define JOBS_MAX 512

static struct cmd_common common = CMD_STAGE_INIT;
static const char *of_domain, *format_arg;
static struct lx_tolerance tolerance;
static struct lx_strs carry, env_fields;
static bool keep;
static uint64_t n_jobs = 1, timeout_ms, retries = 2;

static int parse_tolerance(void *to, const char *arg, struct lx_err *e)
{
	return lx_tolerance_parse(arg, to, e);
}

static const struct lx_opt options[] = {
	CMD_COMMON_OPTS(common),
	{ 0, "of", LX_OPT_STR, &of_domain, 0, 0, NULL },
	{ 's', "split", LX_OPT_STR, &format_arg, 0, 0, NULL },
	{ 0, "tolerate", LX_OPT_CALL, &tolerance, 0, 0, parse_tolerance },
	{ 0, "carry", LX_OPT_NAMES, &carry, 0, 0, NULL },
	{ 0, "keep", LX_OPT_FLAG, &keep, 0, 0, NULL },
	{ 'j', "jobs", LX_OPT_UINT, &n_jobs, 1, JOBS_MAX, NULL },
	{ 0, "timeout", LX_OPT_SEC, &timeout_ms, 1, 0, NULL },
	{ 0, "retry", LX_OPT_UINT, &retries, 0, 1000, NULL },
	{ 0, "env", LX_OPT_NAMES, &env_fields, 0, 0, NULL },
	{ 0 },
};

/* One parent being expanded. In process there is one slot and no job. */
struct slot {
	bool busy;            /* holds a parent whose close has not been written */
	struct lx_job job;
	struct lx_split *split;
	struct lx_buf record; /* the parent's record; the views below are of it */
	struct lx_rec parent;
	struct lx_span field; /* the value of -i; p == NULL: nothing is sent */
	struct lx_span input; /* its bytes, for stdin */
	uint64_t count;       /* children that left */
	struct lx_id child;   /* of the next, but for its last number */
	uint64_t attempt, started_ns;
	uint64_t again_ns;    /* when to run it again; 0: it runs */
};

static struct {
	struct lx_stage stage;
	struct lx_split_spec format;
	bool has_format, files;
	char **argv; /* NULL: in process */
	struct lx_tmpl *tmpl;
	struct lx_job_conf job_conf;
	const char *in_field; /* NULL: nothing is sent */
	int child;            /* domain of the children */
	struct slot *slots;
	struct lx_buf head, value;
	uint64_t expanded, retried;
} x;

/* ---- before it runs ---- */

static int add_reads(struct lx_plan *p, int of, const struct lx_strs *names, const char *option, struct lx_strs *reads,
                     struct lx_err *e)
{
	for (size_t i = 0; i < names->n; i++)
		if (lx_plan_reads(p, of, names->v[i], option, e) < 0 || lx_strs_add(reads, names->v[i], e) < 0)
			return -1;
	return 0;
}

/* Which field is cut or sent on stdin: -i, else `data` where there is one. */
static int find_input(const struct lx_plan *p, int of, struct lx_strs *reads, struct lx_err *e)
{
	x.in_field = common.in_field ? common.in_field : "data";
	if (!common.in_field && x.argv && lx_plan_knows(p, of, x.in_field) <= 0) {
		x.in_field = NULL;
		return 0;
	}
	if (lx_plan_reads(p, of, x.in_field, "-i", e) < 0)
		return -1;
	return lx_strs_add(reads, x.in_field, e);
}

static int declare_children(struct lx_plan *p, struct lx_err *e)
{
	const char *out = common.out_field ? common.out_field : "data";
	struct lx_strs writes = { 0 };
	bool maps = !x.has_format || x.format.format == LX_SPLIT_JSONL;
	int rc = lx_strs_add(&writes, out, e);
	for (size_t i = 0; rc == 0 && i < carry.n; i++)
		rc = lx_strs_add(&writes, carry.v[i], e);
	if (rc == 0 && maps)
		rc = lx_strs_add(&writes, "*", e);
	if (rc == 0 && x.files)
		rc = lx_strs_add(&writes, "name", e);
	if (rc == 0)
		rc = lx_plan_op(p, "lx-expand", x.child, NULL, writes.v, NULL, e);
	lx_strs_free(&writes);
	return rc;
}

static int plan_expand(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	struct lx_strs reads = { 0 }, drops = { 0 };
	int of = s->domain, rc;
	rc = find_input(p, of, &reads, e);
	if (rc == 0 && x.tmpl)
		rc = lx_tmpl_check(x.tmpl, p, of, e);
	if (rc == 0 && x.tmpl)
		rc = add_reads(p, of, lx_tmpl_fields(x.tmpl), "{name}", &reads, e);
	if (rc == 0)
		rc = add_reads(p, of, &env_fields, "--env", &reads, e);
	if (rc == 0)
		rc = add_reads(p, of, &carry, "--carry", &reads, e);
	for (size_t i = 0; rc == 0 && i < common.drop.n; i++)
		rc = lx_strs_add(&drops, common.drop.v[i], e);
	if (rc == 0 && x.in_field && !keep)
		rc = lx_strs_add(&drops, x.in_field, e);
	if (rc == 0)
		rc = x.child = lx_plan_expand(p, common.domain, of, tolerance, e);
	if (rc >= 0)
		rc = lx_plan_op(p, "lx-expand", of, reads.v, NULL, drops.v, e);
	if (rc == 0)
		rc = declare_children(p, e);
	x.job_conf.domain = of;
	lx_strs_free(&reads);
	lx_strs_free(&drops);
	return rc;
}

/* ---- children ---- */

/* Carried fields that the child does not have itself, as edits of its own map (p == NULL: none). */
static size_t carried(const struct slot *s, struct lx_span own, struct lx_edit *edits)
{
	size_t n = 0;
	for (size_t i = 0; i < carry.n; i++) {
		struct lx_span name = lx_span_str(carry.v[i]), v = lx_rec_field(&s->parent, carry.v[i]);
		if (v.p && (!own.p || !lx_map_get(own, carry.v[i], name.len).p))
			edits[n++] = (struct lx_edit){ name, v };
	}
	return n;
}

static void child_head(struct slot *s)
{
	s->child.ord[s->child.n - 1] = s->count;
	lx_buf_clear(&x.head);
	lx_rec_item_head(&x.head, (uint32_t)x.child, &s->child);
}

/* The limit is the child's record's, not the piece's: `oversize` either way. */
static int too_large(const struct slot *s, size_t len, struct lx_err *e)
{
	return lx_err_set(e, LX_DATA, "child %llu: %zu bytes, over %llu (--max-record)", (unsigned long long)s->count, len,
	                  (unsigned long long)common.limits.record);
}

/* A child whose fields are the map's own and the carried ones. Only called for maps with string keys. */
static int emit_map(struct slot *s, struct lx_span map, struct lx_err *why, struct lx_err *e)
{
	struct lx_edit edits[carry.n + 1];
	size_t n = carried(s, map, edits);
	child_head(s);
	if (n && lx_fields_edit(&x.head, map, edits, n, &common.limits, why) < 0)
		return 0;
	if (n)
		map.len = 0;
	if (x.head.len + map.len > common.limits.record)
		return too_large(s, x.head.len + map.len, why), 0;
	s->count++;
	return lx_stage_emit_item(&x.stage, (uint32_t)x.child, &x.head, map, e);
}

/* A child with one value in -o (an encoded head, then the payload), the carried fields and perhaps a file's name. */
static int emit_value(struct slot *s, struct lx_span value_head, struct lx_span payload, const char *name,
                      struct lx_err *why, struct lx_err *e)
{
	struct lx_edit edits[carry.n + 1];
	size_t n = carried(s, (struct lx_span){ 0 }, edits);
	const char *out = common.out_field ? common.out_field : "data";
	size_t kept = 0;
	for (size_t i = 0; i < n; i++)
		if (!lx_span_eq(edits[i].name, lx_span_str(out)) && !(name && lx_span_eq(edits[i].name, lx_span_str("name"))))
			edits[kept++] = edits[i];
	child_head(s);
	lx_pack_map(&x.head, (uint32_t)kept + 1 + (name != NULL));
	for (size_t i = 0; i < kept; i++) {
		lx_pack_str(&x.head, edits[i].name);
		lx_buf_span(&x.head, edits[i].value);
	}
	if (name) {
		lx_pack_cstr(&x.head, "name");
		lx_pack_text(&x.head, lx_span_str(name));
	}
	lx_pack_cstr(&x.head, out);
	lx_buf_span(&x.head, value_head);
	if (x.head.len + payload.len > common.limits.record)
		return too_large(s, x.head.len + payload.len, why), 0;
	s->count++;
	return lx_stage_emit_item(&x.stage, (uint32_t)x.child, &x.head, payload, e);
}

/* The value at the cursor, stepped over, and whether it is a map that can be the fields of an item. */
static int take_element(struct lx_cur *c, struct lx_span *value, bool *fields)
{
	const uint8_t *start = c->p;
	struct lx_val head, key;
	*fields = false;
	if (lx_val_read(c, &head) < 0)
		return -1;
	if (head.type != LX_MAP || head.n > common.limits.fields) {
		c->p = start;
		return lx_val_skip(c, value);
	}
	*fields = true;
	for (uint32_t i = head.n; i; i--) {
		if (c->p < c->end && (*c->p & 0xe0) == 0xa0) {
			c->p += 1 + (*c->p & 31);
		} else {
			struct lx_span k;
			if (lx_val_skip(c, &k) < 0 || lx_val_from(k, &key) < 0)
				return -1;
			*fields = *fields && key.type == LX_STR;
		}
		if (lx_val_skip(c, NULL) < 0)
			return -1;
	}
	*value = (struct lx_span){ start, (size_t)(c->p - start) };
	return 0;
}

/* A map becomes the child's fields, any other value its -o field. */
static int emit_encoded(struct slot *s, struct lx_span value, bool fields, struct lx_err *why, struct lx_err *e)
{
	if (fields)
		return emit_map(s, value, why, e);
	return emit_value(s, value, (struct lx_span){ (const uint8_t *)"", 0 }, NULL, why, e);
}

static int emit_piece(struct slot *s, const struct lx_split_piece *piece, struct lx_err *why, struct lx_err *e)
{
	bool text = piece->kind == LX_PIECE_TEXT && lx_span_utf8(piece->bytes);
	if (piece->kind == LX_PIECE_VALUE) {
		struct lx_cur c = lx_cur(piece->bytes);
		struct lx_span value;
		bool fields;
		take_element(&c, &value, &fields);
		return emit_encoded(s, value, fields, why, e);
	}
	lx_buf_clear(&x.value);
	if (text)
		lx_pack_str_head(&x.value, piece->bytes.len);
	else
		lx_pack_bin_head(&x.value, piece->bytes.len);
	return emit_value(s, lx_buf_view(&x.value), piece->bytes, NULL, why, e);
}

/* Whether nobody wants the parent's children any more; looked at now and then. */
static bool is_barred(const struct slot *s)
{
	struct lx_span cause;
	if (!x.stage.conf.ledger || s->count % 1024)
		return false;
	lx_stage_ledger(&x.stage);
	return lx_stage_barred(&x.stage, &s->parent, &cause) != LX_PRESENT;
}

/* Cut what is in the window into children. `why` is filled when the data is bad. */
static int cut(struct slot *s, struct lx_span window, bool eof, struct lx_err *why, struct lx_err *e)
{
	struct lx_split_piece piece;
	int rc;
	lx_split_window(s->split, window, eof);
	while ((rc = lx_split_next(s->split, &piece, why)) == LX_SPLIT_PIECE)
		if (emit_piece(s, &piece, why, e) < 0)
			return -1;
		else if (why->code || is_barred(s))
			return 0;
	if (rc < 0 && why->code != LX_DATA)
		return lx_err_set(e, why->code, "%s", why->msg);
	return 0;
}

static const char *bad_type(const struct slot *s)
{
	const char *type = s->split ? lx_split_type(s->split) : NULL;
	return type ? type : "oversize";
}

/* ---- parents ---- */

static bool is_dropped(const char *field)
{
	return lx_strs_has(&common.drop, field);
}

/* The parent goes ahead of its children, without what was sent. */
static int send_parent(struct slot *s, struct lx_err *e)
{
	struct lx_edit edits[common.drop.n + 1];
	size_t n = 0;
	for (; n < common.drop.n; n++)
		edits[n] = (struct lx_edit){ .name = lx_span_str(common.drop.v[n]) };
	if (x.in_field && !keep && !is_dropped(x.in_field))
		edits[n++] = (struct lx_edit){ .name = lx_span_str(x.in_field), .old = s->field };
	x.expanded++;
	return n ? lx_stage_put_edit(&x.stage, &s->parent, edits, n, e) : lx_stage_put(&x.stage, &s->parent, e);
}

static int close_as(struct slot *s, enum lx_outcome o, struct lx_span cause, struct lx_err *e)
{
	lx_buf_clear(&x.head);
	lx_rec_close(&x.head, (uint32_t)x.child, &s->parent.id, s->count, o, cause);
	s->busy = false;
	return lx_stage_emit_buf(&x.stage, &x.head, e);
}

static int close_failed(struct slot *s, const char *type, struct lx_span message, const char *scope, struct lx_err *e)
{
	struct lx_buf cause = { 0 };
	struct lx_blame why = { .type = type, .message = message, .scope = scope, .attempt = s->attempt,
		.elapsed_ms = (lx_io_now_ns() - s->started_ns) / 1000000u };
	int rc = lx_stage_cause(&x.stage, &cause, s->parent.domain, &s->parent.id, &why, e);
	if (rc == 0)
		rc = close_as(s, LX_FAILED, lx_buf_view(&cause), e);
	lx_buf_free(&cause);
	return rc;
}

/* The field a parent lacks, if it lacks one that is needed. */
static const char *lacks(const struct slot *s)
{
	for (size_t i = 0; i < carry.n; i++)
		if (!lx_rec_field(&s->parent, carry.v[i]).p)
			return carry.v[i];
	return x.in_field && !s->field.p ? x.in_field : NULL;
}

/* A parent that cannot be expanded at all fails itself; it has no close. */
static int refuse_parent(struct slot *s, const char *type, const char *message, struct lx_err *e)
{
	s->busy = false;
	return lx_stage_fail(&x.stage, &s->parent, &(struct lx_blame){ .type = type, .message = lx_span_str(message) }, e);
}

/* ---- in process ---- */

static int expand_elements(struct slot *s, struct lx_span array, struct lx_err *why, struct lx_err *e)
{
	struct lx_cur c = lx_cur(array);
	struct lx_val v;
	struct lx_span element;
	bool fields;
	lx_val_read(&c, &v);
	for (uint32_t n = v.n; n && !why->code && !is_barred(s); n--)
		if (take_element(&c, &element, &fields) < 0 || emit_encoded(s, element, fields, why, e) < 0)
			return -1;
	return 0;
}

static int expand_here(struct slot *s, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_span cause;
	struct lx_val v;
	lx_val_from(s->field, &v);
	if (!x.has_format && v.type != LX_ARRAY)
		return refuse_parent(s, "bad-field", "not an array: without a command and -s the elements of an array are taken", e);
	if (x.has_format && v.type != LX_STR && v.type != LX_BIN)
		return refuse_parent(s, "bad-field", "neither a string nor bytes: there is nothing to split", e);
	if (send_parent(s, e) < 0)
		return -1;
	if (x.has_format)
		lx_split_reset(s->split);
	if ((x.has_format ? cut(s, v.s, true, &why, e) : expand_elements(s, s->field, &why, e)) < 0)
		return -1;
	if (why.code)
		return close_failed(s, bad_type(s), lx_span_str(why.msg), NULL, e);
	if (lx_stage_barred(&x.stage, &s->parent, &cause) != LX_PRESENT)
		return close_as(s, LX_SUPPRESSED, cause, e);
	return close_as(s, LX_PRESENT, (struct lx_span){ 0 }, e);
}

/* ---- with a command ---- */

static int start_command(struct slot *s, struct lx_err *e)
{
	s->again_ns = 0;
	s->attempt++;
	if (s->split)
		lx_split_reset(s->split);
	return lx_job_start(&s->job, &x.job_conf, &s->parent, s->input, common.tmpdir, e);
}

static int take_files(struct slot *s, struct lx_err *why, struct lx_err *e)
{
	struct lx_files files;
	struct lx_buf data = { 0 };
	int rc = lx_files_list(s->job.dir, &files, why);
	for (size_t i = 0; rc == 0 && !why->code && i < files.n; i++) {
		int fd = lx_files_open(s->job.dir, files.path[i], why);
		lx_buf_clear(&data);
		if (fd < 0 || lx_io_slurp(fd, &data, common.limits.record, "--max-record", why) < 0)
			lx_err_prefix(why, "%s", files.path[i]);
		if (fd >= 0)
			close(fd);
		if (why->code)
			break;
		lx_buf_clear(&x.value);
		lx_pack_bin_head(&x.value, data.len);
		rc = emit_value(s, lx_buf_view(&x.value), lx_buf_view(&data), files.path[i], why, e);
	}
	lx_buf_free(&data);
	lx_files_free(&files);
	return e->code ? -1 : 0;
}

/* Whether a command that did not end well is run again: never once a child has left. */
static bool run_again(struct slot *s)
{
	uint64_t wait = s->count ? 0 : lx_job_again(&s->job, s->attempt, retries);
	if (!wait)
		return false;
	lx_job_clear(&s->job);
	s->again_ns = lx_io_now_ns() + wait;
	x.retried++;
	return true;
}

static int end_command(struct slot *s, struct lx_err *why, struct lx_err *e)
{
	int rc;
	if (!why->code && s->job.end == LX_JOB_OK && x.files && take_files(s, why, e) < 0)
		return -1;
	if (!why->code && run_again(s))
		return 0;
	if (s->job.end != LX_JOB_OK && s->job.end != LX_JOB_RUNNING)
		rc = close_failed(s, s->job.type, lx_buf_view(&s->job.message), s->job.scope, e);
	else if (why->code)
		rc = close_failed(s, why->code == LX_DATA ? bad_type(s) : "unreadable", lx_span_str(why->msg), NULL, e);
	else
		rc = close_as(s, LX_PRESENT, (struct lx_span){ 0 }, e);
	lx_job_clear(&s->job);
	return rc;
}

/* What the command wrote so far becomes children at once. */
static int take_output(struct slot *s, struct lx_err *why, struct lx_err *e)
{
	if (x.files) { /* what it prints is not asked for */
		lx_buf_clear(&s->job.output);
		return 0;
	}
	if (cut(s, lx_buf_view(&s->job.output), s->job.out_eof, why, e) < 0)
		return -1;
	lx_split_rest(s->split, &s->job.output);
	return 0;
}

static int step_command(struct slot *s, struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	struct lx_span cause;
	if (lx_stage_barred(&x.stage, &s->parent, &cause) != LX_PRESENT) {
		lx_job_clear(&s->job);
		return close_as(s, LX_SUPPRESSED, cause, e);
	}
	if (s->again_ns)
		return lx_io_now_ns() >= s->again_ns ? start_command(s, e) : 0;
	if (lx_job_step(&s->job, &x.job_conf, lx_io_now_ns(), e) < 0 || take_output(s, &why, e) < 0)
		return -1;
	return why.code || s->job.end != LX_JOB_RUNNING ? end_command(s, &why, e) : 0;
}

/* A parent arrives in a free slot. */
static int admit(struct slot *s, const struct lx_rec *r, struct lx_err *e)
{
	size_t used;
	const char *missing;
	char message[256];
	lx_buf_clear(&s->record);
	if (x.argv) { /* it outlives the frame it came in */
		lx_buf_span(&s->record, r->raw);
		if (lx_buf_check(&s->record, e) < 0 ||
		    lx_rec_parse(s->record.p, s->record.len, &common.limits, &s->parent, &used, e) < 0)
			return -1;
	} else {
		s->parent = *r;
	}
	s->busy = true;
	s->count = s->attempt = s->again_ns = 0;
	s->child = lx_id_child(&s->parent.id, 0);
	s->started_ns = lx_io_now_ns();
	s->input = (struct lx_span){ 0 };
	s->field = x.in_field ? lx_rec_field(&s->parent, x.in_field) : (struct lx_span){ 0 };
	if ((missing = lacks(s))) {
		snprintf(message, sizeof(message), "no field '%s'", missing);
		return refuse_parent(s, "no-field", message, e);
	}
	if (!x.argv)
		return expand_here(s, e);
	if (x.in_field) {
		struct lx_val v;
		if (lx_val_from(s->field, &v) < 0 || (v.type != LX_STR && v.type != LX_BIN))
			return refuse_parent(s, "bad-field", "neither a string nor bytes: it cannot be sent on stdin", e);
		s->input = v.s;
	}
	if (start_command(s, e) < 0)
		return -1;
	if (s->job.end == LX_JOB_DATA && s->job.child.pid <= 0) { /* its template could not be filled */
		const char *type = s->job.type;
		lx_buf_cstr(&s->job.message);
		int rc = refuse_parent(s, type, (char *)s->job.message.p, e);
		lx_job_clear(&s->job);
		return rc;
	}
	return send_parent(s, e);
}

/* ---- the loop ---- */

static struct slot *free_slot(void)
{
	for (uint64_t i = 0; i < n_jobs; i++)
		if (!x.slots[i].busy)
			return &x.slots[i];
	return NULL;
}

static bool all_idle(void)
{
	for (uint64_t i = 0; i < n_jobs; i++)
		if (x.slots[i].busy)
			return false;
	return true;
}

static int step_commands(struct lx_err *e)
{
	lx_stage_ledger(&x.stage);
	for (uint64_t i = 0; x.argv && i < n_jobs; i++)
		if (x.slots[i].busy && step_command(&x.slots[i], e) < 0)
			return -1;
	return 0;
}

/* Milliseconds until the next deadline or retry; -1: none. */
static int next_deadline(void)
{
	uint64_t at = UINT64_MAX, now = lx_io_now_ns();
	for (uint64_t i = 0; i < n_jobs; i++) {
		const struct slot *s = &x.slots[i];
		uint64_t t = !s->busy ? 0 : s->again_ns ? s->again_ns : s->job.deadline_ns;
		if (t && t < at)
			at = t;
	}
	if (at == UINT64_MAX)
		return -1;
	return at <= now ? 0 : (int)((at - now) / 1000000u + 1);
}

/* Sleep until a command, the input or a signal wants something. What is in the open frame leaves first. */
static int sleep_until_event(bool want_input, struct lx_err *e)
{
	struct pollfd p[4 * JOBS_MAX + 2];
	int n = 0;
	p[n++] = (struct pollfd){ .fd = lx_sig_fd(), .events = POLLIN };
	int in = n;
	if (want_input)
		p[n++] = (struct pollfd){ .fd = lx_stage_fd(&x.stage), .events = POLLIN };
	for (uint64_t i = 0; i < n_jobs; i++)
		if (x.slots[i].busy && !x.slots[i].again_ns)
			n += lx_job_fds(&x.slots[i].job, p + n, false);
	int ready = poll(p, (nfds_t)n, 0);
	if (ready == 0) {
		if (lx_writer_flush(&x.stage.out, e) < 0)
			return -1;
		ready = poll(p, (nfds_t)n, all_idle() ? -1 : lx_stage_nap(&x.stage, next_deadline()));
	}
	if (ready < 0)
		return 0; /* a signal: seen by the caller */
	if (p[0].revents)
		lx_sig_ack();
	return want_input && p[in].revents ? lx_stage_fill(&x.stage, e) : 0;
}

/* Take parents while there are free slots. Returns the step that stopped it: LX_STEP_ITEM when all slots are busy.
 * What is wrong with the input goes to *input, anything else to *e. */
static enum lx_step take_parents(struct lx_err *input, struct lx_err *e)
{
	struct lx_rec rec;
	struct slot *s;
	while ((s = free_slot())) {
		enum lx_step st = lx_stage_next(&x.stage, &rec, input);
		if (st != LX_STEP_FRAME && st != LX_STEP_ITEM)
			return st;
		if (st == LX_STEP_ITEM && admit(s, &rec, e) < 0)
			return LX_STEP_ERROR;
	}
	return LX_STEP_ITEM;
}

static int end_run(struct lx_err *e)
{
	char more[96];
	snprintf(more, sizeof(more), ",\"expanded\":%llu,\"retried\":%llu", (unsigned long long)x.expanded,
	         (unsigned long long)x.retried);
	if (lx_stage_end_run(&x.stage, e) < 0 || cmd_stats(&common, &x.stage, more, e) < 0)
		return -1;
	x.expanded = x.retried = 0;
	return 0;
}

/* Until the end of the input and of every command. When the input is bad what runs is still finished. */
static int work(struct lx_err *e)
{
	struct lx_err input = LX_ERR_INIT;
	enum lx_step st = LX_STEP_MORE;
	for (;;) {
		if (lx_sig_stop())
			return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
		if (st == LX_STEP_MORE || st == LX_STEP_ITEM)
			st = take_parents(&input, e);
		if (e->code || step_commands(e) < 0)
			return -1;
		if (all_idle() && st == LX_STEP_RUN) {
			if (end_run(e) < 0)
				return -1;
			st = LX_STEP_MORE;
			continue;
		}
		if (all_idle() && (st == LX_STEP_EOF || st == LX_STEP_ERROR))
			break;
		if ((st == LX_STEP_MORE || !all_idle()) && sleep_until_event(st == LX_STEP_MORE, e) < 0)
			return -1;
	}
	if (st == LX_STEP_ERROR)
		*e = input;
	return e->code ? -1 : 0;
}

static void release(void)
{
	for (uint64_t i = 0; x.slots && i < n_jobs; i++) {
		lx_job_free(&x.slots[i].job);
		lx_split_free(x.slots[i].split);
		lx_buf_free(&x.slots[i].record);
	}
	free(x.slots);
	lx_tmpl_free(x.tmpl);
	lx_buf_free(&x.head);
	lx_buf_free(&x.value);
	lx_stage_release(&x.stage);
}

static int run(struct lx_err *e)
{
	struct lx_stage_conf conf;
	if (cmd_stage_conf(&common, &conf, e) < 0)
		return -1;
	conf.tool = "lx-expand";
	conf.domain = of_domain;
	conf.domain_option = "--of";
	conf.plan = plan_expand;
	if (lx_stage_init(&x.stage, &conf, e) < 0)
		return -1;
	x.job_conf.plan = &x.stage.plan;
	int rc = work(e);
	if (rc < 0)
		lx_stage_abort(&x.stage, e);
	return rc;
}

/* ---- options ---- */

static int make_slots(struct lx_err *e)
{
	struct lx_split_conf sc = { .max_piece = common.limits.record, .max_depth = common.limits.depth > 2 ? common.limits.depth - 2 : 0 };
	x.slots = calloc(n_jobs, sizeof(*x.slots));
	if (!x.slots)
		return lx_err_sys(e, "-j");
	for (uint64_t i = 0; i < n_jobs; i++) {
		lx_job_init(&x.slots[i].job);
		if (x.has_format && !x.files && !(x.slots[i].split = lx_split_new(&x.format, &sc, e)))
			return -1;
	}
	return 0;
}

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0)
		return -1;
	if (!common.domain)
		return lx_err_set(e, LX_USAGE, "-d DOMAIN is missing: a name for the children (options stand before the command)");
	x.argv = first < argc ? argv + first : NULL;
	if (x.argv && !format_arg)
		format_arg = "lines";
	x.has_format = format_arg != NULL;
	if (x.has_format && lx_split_parse(format_arg, &x.format, e) < 0)
		return -1;
	x.files = x.has_format && x.format.format == LX_SPLIT_FILES;
	if (!x.argv) {
		n_jobs = 1;
		return x.files ? lx_err_set(e, LX_USAGE, "-s files needs a command that leaves files in {dir}") : make_slots(e);
	}
	if (lx_spawn_check(x.argv[0], e) < 0 || !(x.tmpl = lx_tmpl_new(x.argv, e)))
		return -1;
	x.job_conf = (struct lx_job_conf){ .tmpl = x.tmpl, .env = &env_fields, .timeout_ms = timeout_ms, .quiet = common.quiet,
		/* A piece is cut when all of it is there, so that much is held; one over the limit is `oversize` before that. */
		.max_output = common.limits.record + LX_JOB_HELD,
		.dir = x.files, .set_env = n_jobs > 1 ? lx_job_one_thread() : NULL };
	return make_slots(e);
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	if (cmd_start("lx-expand", usage, &common, &e) == 0 && configure(argc, argv, &e) == 0)
		run(&e);
	release();
	return cmd_finish(&common, &e);
}

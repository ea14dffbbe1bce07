#include "stage.h"
#include "sig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ULL(x) ((unsigned long long)(x))
#define DOOM_MAX 65536
#define NAP_MS 100

enum state { FRESH, IN_RUN, RUN_DONE, AT_EOF };

/* Whose word a new barrier is: of a record that passes, our own verdict, or told by the ledger or a hint. */
enum source { PASSING, JUDGED, TOLD };

int lx_stage_init(struct lx_stage *s, const struct lx_stage_conf *c, struct lx_err *e)
{
	memset(s, 0, sizeof(*s));
	s->conf = *c;
	s->out.fd = -1;
	if (c->out >= 0) {
		if (lx_writer_init(&s->out, c->out, &c->limits, e) < 0)
			return -1;
		s->out.level = c->level;
	}
	s->doom = lx_doom_new(DOOM_MAX);
	if (!s->doom)
		return lx_err_sys(e, "%s", c->tool);
	s->in = lx_reader_new(c->in, c->in_name ? c->in_name : "stdin", &c->limits, e);
	if (s->in && c->keep_parts)
		lx_reader_keep_parts(s->in);
	return s->in ? 0 : -1;
}

static void stop_beats(struct lx_stage *s)
{
	lx_beat_stop(s->out.beat);
	s->out.beat = NULL;
}

void lx_stage_release(struct lx_stage *s)
{
	stop_beats(s);
	lx_reader_free(s->in);
	if (s->conf.out >= 0)
		lx_writer_release(&s->out);
	lx_doom_free(s->doom);
	lx_ledger_close(s->conf.ledger);
	lx_plan_free(&s->plan);
	lx_buf_free(&s->scratch);
	s->conf.ledger = NULL;
	s->in = NULL;
	s->doom = NULL;
}

/* ---- the begin of a run ---- */

static enum lx_packing pick_packing(const struct lx_stage *s, const struct lx_plan *in)
{
	if (s->conf.packing >= 0)
		return (enum lx_packing)s->conf.packing;
	if (in->ask.packed)
		return in->ask.packing;
	return s->conf.keep_frames ? in->packing : lx_packing_for(s->conf.out);
}

/* Whether some expansion of the domain's items bears failures: then the count that went beyond may be ours alone. */
static bool bears(const struct lx_plan *p, uint32_t domain)
{
	for (int d = 0; d < p->n_domains; d++)
		if (p->domains[d].parent == (int)domain && p->domains[d].tolerance.n)
			return true;
	return false;
}

/* A gather's verdict on a parent is mostly that of a stage before it. */
static bool is_old_news(const struct lx_stage *s, struct lx_span cause)
{
	struct lx_cause c;
	return s->conf.take_all && lx_cause_read(cause, &c) == 0 && !lx_span_eq(c.stage, lx_span_str(s->conf.tool));
}

/* Whether the ledger may not know of a barrier: where it was not judged here, whoever did has told it. */
static bool is_news(const struct lx_stage *s, uint32_t domain)
{
	return s->source == JUDGED || (s->source == PASSING && bears(&s->plan, domain));
}

static void on_barred(void *ctx, uint32_t domain, const struct lx_id *id, enum lx_outcome as)
{
	struct lx_stage *s = ctx;
	struct lx_span cause = { 0 };
	if (s->conf.ledger && as == LX_SUPPRESSED && is_news(s, domain) &&
	    lx_doom_find(s->doom, &s->plan, domain, id, true, &cause) != LX_PRESENT && !is_old_news(s, cause))
		lx_ledger_write(s->conf.ledger, &s->plan, domain, id, cause);
	if (s->conf.barred)
		s->conf.barred(s->conf.ctx, domain, id, as);
}

/* A stage that does not beat by itself, and was asked to, does so from now until the end of the run. */
static int write_begin(struct lx_stage *s, struct lx_err *e)
{
	bool beats = !s->plan.beats_ms && s->plan.ask.beats_ms;
	if (beats)
		s->plan.beats_ms = s->plan.ask.beats_ms;
	if (lx_writer_begin(&s->out, &s->plan, e) < 0)
		return -1;
	if (beats && !(s->out.beat = lx_beat_start(s->out.fd, s->plan.beats_ms, e)))
		return -1;
	return 0;
}

static int begin_run(struct lx_stage *s, struct lx_err *e)
{
	const struct lx_plan *in = lx_reader_plan(s->in);
	lx_plan_free(&s->plan);
	lx_plan_init(&s->plan);
	if (lx_plan_copy(&s->plan, in, e) < 0)
		return -1;
	s->plan.slots = s->plan.beats_ms = 0; /* what the stage before us can do, we may not */
	s->domain = 0;
	const char *option = s->conf.domain_option ? s->conf.domain_option : "-d";
	if (!s->conf.any_domain && (s->domain = lx_plan_work_domain(in, s->conf.domain, option, e)) < 0)
		return -1;
	if (s->conf.plan && s->conf.plan(s->conf.ctx, s, &s->plan, e) < 0)
		return -1;
	if (!s->conf.keep_parts) /* what is written is one whole whatever it was read as */
		s->plan.has_part = false;
	s->plan.limits = s->conf.limits;
	s->plan.packing = pick_packing(s, in);
	if (s->conf.out >= 0 && write_begin(s, e) < 0)
		return -1;
	lx_doom_free(s->doom);
	s->doom = lx_doom_new(DOOM_MAX);
	if (!s->doom)
		return lx_err_sys(e, "%s", s->conf.tool);
	lx_doom_watch(s->doom, on_barred, s);
	memset(&s->got, 0, sizeof(s->got));
	s->barred = s->handed = s->answered = s->left_out = s->parts = 0;
	s->state = IN_RUN;
	return 0;
}

/* A begin mark was read: of the run at work (one more segment), or of a new one or a part that is kept, which first ends this one. */
static enum lx_step on_begin(struct lx_stage *s)
{
	if (s->state == IN_RUN && !s->plan.has_part && strcmp(s->plan.run, lx_reader_plan(s->in)->run) == 0)
		return LX_STEP_MORE;
	s->run_waits = true;
	if (s->state == IN_RUN) {
		s->state = RUN_DONE;
		return LX_STEP_RUN;
	}
	return LX_STEP_MORE;
}

static enum lx_step start_waiting_run(struct lx_stage *s, struct lx_err *e)
{
	s->run_waits = false;
	if (begin_run(s, e) < 0)
		return LX_STEP_ERROR;
	if (!s->conf.check)
		return LX_STEP_MORE;
	s->state = RUN_DONE;
	s->checked = true;
	return LX_STEP_RUN;
}

/* ---- passing on ---- */

static void trace(const struct lx_stage *s, const char *event, const struct lx_rec *r)
{
	if (s->conf.trace)
		lx_trace_event(s->conf.trace, event, s->plan.domains[r->domain].name, &r->id);
}

static void trace_answer(const struct lx_stage *s, const struct lx_rec *r)
{
	static const char *const events[LX_OUTCOMES] = { "present", "dropped", "failed", "suppressed" };
	trace(s, events[r->outcome], r);
}

/* A maker's frame that nothing else closes. */
static bool frame_is_full(const struct lx_stage *s)
{
	return !s->conf.keep_frames && !s->conf.own_frames && lx_writer_full(&s->out);
}

static int pass(struct lx_stage *s, const struct lx_rec *r, struct lx_err *e)
{
	if (s->conf.put)
		return s->conf.put(s->conf.ctx, r, e);
	if (s->conf.out < 0)
		return 0;
	if (s->conf.keep_frames)
		return lx_writer_add_ref(&s->out, r, e);
	if (lx_writer_add(&s->out, r, e) < 0)
		return -1;
	return frame_is_full(s) ? lx_writer_close(&s->out, e) : 0;
}

enum pass { BARRED, ANSWER, EMIT };

static int pass_buf(struct lx_stage *s, struct lx_buf *b, enum pass what, struct lx_err *e)
{
	struct lx_rec r;
	size_t used;
	if (lx_buf_check(b, e) < 0)
		return -1;
	if (lx_rec_parse(b->p, b->len, &s->conf.limits, &r, &used, e) < 0)
		return lx_err_prefix(e, "a record being written");
	if (what == BARRED)
		trace(s, "barred", &r);
	if (what == ANSWER)
		trace_answer(s, &r);
	if (what != BARRED && r.kind != LX_ITEM) {
		s->source = JUDGED;
		lx_doom_learn(s->doom, &s->plan, &r);
		s->source = PASSING;
	}
	int rc = s->conf.put ? s->conf.put(s->conf.ctx, &r, e) : s->conf.out < 0 ? 0 : lx_writer_add(&s->out, &r, e);
	lx_buf_clear(b);
	if (rc == 0 && frame_is_full(s))
		rc = lx_writer_close(&s->out, e);
	return rc;
}

/* Whether a barrier stands over an item, and what it makes of it: below one it carries nothing on, but an item that is the
 * anchor itself (what doomed it is below it) keeps its fields, for replay, and has failed where the cause began at it. */
static enum lx_outcome barred(const struct lx_stage *s, const struct lx_rec *r, struct lx_span *cause, struct lx_span *fields)
{
	*fields = (struct lx_span){ 0 };
	enum lx_outcome as = lx_doom_find(s->doom, &s->plan, r->domain, &r->id, false, cause);
	if (as != LX_PRESENT || lx_doom_empty(s->doom))
		return as;
	as = lx_doom_find(s->doom, &s->plan, r->domain, &r->id, true, cause);
	if (as != LX_DROPPED)
		*fields = r->fields;
	return as == LX_SUPPRESSED && lx_cause_began_at(*cause, r->domain, &r->id) ? LX_FAILED : as;
}

static int seen(struct lx_stage *s, const struct lx_rec *r, enum lx_outcome as, struct lx_err *e)
{
	return s->conf.seen ? s->conf.seen(s->conf.ctx, r, as, e) : 0;
}

/* A record of the run: handed over, or dealt with here. */
static enum lx_step on_record(struct lx_stage *s, struct lx_rec *r, struct lx_err *e)
{
	struct lx_span cause = { 0 }, fields;
	enum lx_outcome as;
	lx_counts_rec(&s->got, r);
	if (s->conf.take_all)
		return LX_STEP_REC;
	if (r->kind != LX_ITEM)
		lx_doom_learn(s->doom, &s->plan, r);
	if (r->kind != LX_ITEM && seen(s, r, r->outcome, e) < 0)
		return LX_STEP_ERROR;
	bool other = r->domain != (uint32_t)s->domain;
	if (r->kind == LX_ITEM && other && s->conf.other && s->conf.other(s->conf.ctx, r, e) < 0)
		return LX_STEP_ERROR;
	if (r->kind != LX_ITEM || other)
		return pass(s, r, e) < 0 ? LX_STEP_ERROR : LX_STEP_MORE;
	as = barred(s, r, &cause, &fields);
	if (as == LX_PRESENT) {
		s->handed++;
		trace(s, "take", r);
		return LX_STEP_ITEM;
	}
	s->barred++;
	if (seen(s, r, as, e) < 0)
		return LX_STEP_ERROR;
	lx_rec_gone(&s->scratch, r->domain, &r->id, as, cause, fields, r->key);
	return pass_buf(s, &s->scratch, BARRED, e) < 0 ? LX_STEP_ERROR : LX_STEP_MORE;
}

/* Whether the frame at hand holds nothing this stage has to look at. */
static bool can_forward(const struct lx_stage *s, const struct lx_hint *h)
{
	if (!h || s->conf.take_all || s->conf.other || !s->conf.keep_frames || h->wide)
		return false;
	if (!s->conf.any_domain && h->counts.items[s->domain][LX_PRESENT])
		return false;
	for (int d = 0; d < s->plan.n_domains; d++)
		for (int o = LX_DROPPED; o < LX_OUTCOMES; o++)
			if (h->counts.items[d][o] && !s->conf.any_domain)
				return false;
	return s->conf.any_domain || !h->counts.closes[s->domain];
}

static enum lx_step on_frame(struct lx_stage *s, struct lx_err *e)
{
	const struct lx_hint *h = lx_reader_hint(s->in);
	if (!can_forward(s, h)) {
		s->in_frame = true;
		return LX_STEP_MORE;
	}
	lx_counts_add(&s->got, &h->counts);
	return lx_writer_forward(&s->out, s->in, e) < 0 ? LX_STEP_ERROR : LX_STEP_MORE;
}

/* The end of the frame at hand: a filter closes its own, once what it still works on has been answered. */
static enum lx_step end_frame(struct lx_stage *s)
{
	s->in_frame = false;
	s->frame_due = s->conf.keep_frames && s->conf.out >= 0;
	return LX_STEP_FRAME;
}

static enum lx_step on_eof(struct lx_stage *s)
{
	if (s->state == IN_RUN) {
		s->state = RUN_DONE;
		return LX_STEP_RUN;
	}
	s->state = AT_EOF;
	return LX_STEP_EOF;
}

static enum lx_step in_frame(struct lx_stage *s, struct lx_rec *rec, struct lx_err *e)
{
	int got;
	while ((got = lx_reader_rec(s->in, rec, e)) > 0) {
		enum lx_step st = on_record(s, rec, e);
		if (st != LX_STEP_MORE)
			return st;
	}
	return got < 0 ? LX_STEP_ERROR : end_frame(s);
}

enum lx_step lx_stage_next(struct lx_stage *s, struct lx_rec *rec, struct lx_err *e)
{
	for (;;) {
		enum lx_step st = LX_STEP_MORE;
		if (s->in_frame)
			return in_frame(s, rec, e);
		if (s->frame_due && lx_writer_close(&s->out, e) < 0)
			return LX_STEP_ERROR;
		s->frame_due = false;
		if (s->checked || s->state == AT_EOF)
			return LX_STEP_EOF;
		if (s->run_waits) {
			st = start_waiting_run(s, e);
			if (st != LX_STEP_MORE)
				return st;
		}
		lx_stage_ledger(s);
		switch (lx_reader_next(s->in, e)) {
		case LX_EV_ERROR:
			return LX_STEP_ERROR;
		case LX_EV_MORE:
			return LX_STEP_MORE;
		case LX_EV_BEGIN:
			st = on_begin(s);
			break;
		case LX_EV_FRAME:
			st = on_frame(s, e);
			break;
		case LX_EV_HINT:
			if (s->conf.hint && s->conf.hint(s->conf.ctx, lx_reader_hint(s->in), e) < 0)
				return LX_STEP_ERROR;
			break;
		case LX_EV_END:
			s->parts = s->plan.has_part ? lx_reader_last(s->in) : 0;
			break;
		case LX_EV_EOF:
			return on_eof(s);
		}
		if (st != LX_STEP_MORE)
			return st;
	}
}

int lx_stage_fd(const struct lx_stage *s)
{
	return s->conf.in;
}

int lx_stage_fill(struct lx_stage *s, struct lx_err *e)
{
	int rc = lx_reader_fill(s->in, e);
	return rc == LX_IO_AGAIN ? 0 : rc;
}

int lx_stage_wait(struct lx_stage *s, struct lx_err *e)
{
	if (s->conf.out >= 0 && lx_writer_waits(&s->out) && !lx_io_ready(s->conf.in) && lx_writer_flush(&s->out, e) < 0)
		return -1;
	if (lx_sig_stop())
		return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	return lx_stage_fill(s, e);
}

/* ---- answers ---- */

int lx_stage_put(struct lx_stage *s, const struct lx_rec *r, struct lx_err *e)
{
	s->answered++;
	trace_answer(s, r);
	return pass(s, r, e);
}

int lx_stage_put_buf(struct lx_stage *s, struct lx_buf *b, struct lx_err *e)
{
	s->answered++;
	return pass_buf(s, b, ANSWER, e);
}

int lx_stage_pass(struct lx_stage *s, const struct lx_rec *r, struct lx_err *e)
{
	return pass(s, r, e);
}

int lx_stage_emit_buf(struct lx_stage *s, struct lx_buf *b, struct lx_err *e)
{
	return pass_buf(s, b, EMIT, e);
}

int lx_stage_emit_item(struct lx_stage *s, uint32_t domain, struct lx_buf *head, struct lx_span payload, struct lx_err *e)
{
	int rc;
	if (lx_buf_check(head, e) < 0)
		return -1;
	rc = lx_writer_add_item(&s->out, domain, lx_buf_view(head), payload, e);
	lx_buf_clear(head);
	/* A large payload was not copied: it leaves before its memory is used again. */
	if (rc == 0 && (payload.len >= LX_WRITER_REF_MIN || lx_writer_full(&s->out)))
		rc = lx_writer_close(&s->out, e);
	return rc;
}

/* Whether an edited item would be over a limit that its input was not: then it fails, and nobody else does. */
static bool too_large(struct lx_stage *s, size_t len, char *why, size_t size)
{
	if (len <= s->conf.limits.record)
		return false;
	snprintf(why, size, "%zu bytes, over %llu (--max-record)", len, ULL(s->conf.limits.record));
	return true;
}

int lx_stage_put_edit(struct lx_stage *s, const struct lx_rec *r, const struct lx_edit *edits, size_t n, struct lx_err *e)
{
	struct lx_err edit = LX_ERR_INIT;
	char why[96];
	struct lx_buf *b = &s->scratch;
	lx_rec_item_head(b, r->domain, &r->id);
	if (lx_fields_edit(b, r->fields, edits, n, &s->conf.limits, &edit) < 0) {
		lx_buf_clear(b);
		if (edit.code != LX_DATA)
			return lx_err_set(e, edit.code, "%s", edit.msg);
		return lx_stage_fail(s, r, &(struct lx_blame){ .type = "oversize", .message = lx_span_str(edit.msg) }, e);
	}
	if (r->id.n == 1)
		lx_buf_span(b, r->key);
	if (too_large(s, b->len, why, sizeof(why))) {
		lx_buf_clear(b);
		return lx_stage_fail(s, r, &(struct lx_blame){ .type = "oversize", .message = lx_span_str(why) }, e);
	}
	return lx_stage_put_buf(s, b, e);
}

int lx_stage_drop(struct lx_stage *s, const struct lx_rec *r, struct lx_err *e)
{
	lx_rec_gone(&s->scratch, r->domain, &r->id, LX_DROPPED, (struct lx_span){ 0 }, (struct lx_span){ 0 }, r->key);
	return lx_stage_put_buf(s, &s->scratch, e);
}

/* The domain a scope names for an item of `domain`: itself, its parent's, an ancestor's. */
static int scope_domain(const struct lx_stage *s, int domain, const char *scope, struct lx_err *e)
{
	if (!scope || !*scope || strcmp(scope, "record") == 0)
		return domain;
	if (strcmp(scope, "parent") == 0)
		return domain > 0 ? s->plan.domains[domain].parent : 0;
	for (int d = domain; d >= 0; d = s->plan.domains[d].parent)
		if (strcmp(s->plan.domains[d].name, scope) == 0)
			return d;
	return lx_err_set(e, LX_WORKER, "scope '%s' is neither record, parent, nor an ancestor domain of %s (--scope)", scope,
	                  s->plan.domains[domain].name);
}

int lx_stage_cause(struct lx_stage *s, struct lx_buf *b, uint32_t domain, const struct lx_id *id,
                   const struct lx_blame *why, struct lx_err *e)
{
	static char host[256];
	int anchor = scope_domain(s, (int)domain, why->scope, e);
	if (anchor < 0)
		return -1;
	if (!host[0])
		gethostname(host, sizeof(host) - 1);
	struct lx_cause c = {
		.type = lx_span_str(why->type),
		.message = why->message.p ? why->message : lx_span_str(""),
		.anchor_domain = (uint32_t)anchor,
		.anchor = lx_id_parent(id, (uint32_t)lx_plan_levels(&s->plan, (int)domain, anchor)),
		.origin_domain = domain,
		.origin = *id,
		.stage = lx_span_str(s->conf.tool),
		.host = lx_span_str(host),
		.attempt = why->attempt,
		.elapsed_ms = why->elapsed_ms,
	};
	lx_cause_pack(b, &c);
	return lx_buf_check(b, e);
}

int lx_stage_fail(struct lx_stage *s, const struct lx_rec *r, const struct lx_blame *why, struct lx_err *e)
{
	struct lx_buf cause = { 0 };
	int rc = lx_stage_cause(s, &cause, r->domain, &r->id, why, e);
	if (rc == 0) {
		lx_rec_gone(&s->scratch, r->domain, &r->id, LX_FAILED, lx_buf_view(&cause), r->fields, r->key);
		if (s->scratch.len > s->conf.limits.record) { /* the cause does not fit behind fields that just did */
			lx_buf_clear(&s->scratch);
			lx_rec_gone(&s->scratch, r->domain, &r->id, LX_FAILED, lx_buf_view(&cause), (struct lx_span){ 0 }, r->key);
		}
		rc = lx_stage_put_buf(s, &s->scratch, e);
	}
	lx_buf_free(&cause);
	return rc;
}

int lx_stage_suppress(struct lx_stage *s, const struct lx_rec *r, struct lx_span cause, struct lx_err *e)
{
	struct lx_span known, fields;
	enum lx_outcome as = barred(s, r, &known, &fields);
	lx_rec_gone(&s->scratch, r->domain, &r->id, as == LX_FAILED ? LX_FAILED : LX_SUPPRESSED, cause, fields, r->key);
	return lx_stage_put_buf(s, &s->scratch, e);
}

enum lx_outcome lx_stage_barred(const struct lx_stage *s, const struct lx_rec *r, struct lx_span *cause)
{
	return lx_doom_find(s->doom, &s->plan, r->domain, &r->id, true, cause);
}

void lx_stage_leave_out(struct lx_stage *s)
{
	s->answered++;
	s->left_out++;
}

/* ---- barriers from outside ---- */

void lx_stage_ledger(struct lx_stage *s)
{
	if (!s->conf.ledger || s->state != IN_RUN)
		return;
	s->source = TOLD;
	lx_ledger_read(s->conf.ledger, &s->plan, s->doom, false);
	s->source = PASSING;
}

int lx_stage_nap(const struct lx_stage *s, int ms)
{
	return s->conf.ledger && (ms < 0 || ms > NAP_MS) ? NAP_MS : ms;
}

static int learn_bar(struct lx_stage *s, uint64_t domain, const struct lx_id *id, struct lx_err *e)
{
	static const struct lx_blame why = { .type = "cancelled" };
	struct lx_buf cause = { 0 };
	if (domain >= (uint64_t)s->plan.n_domains)
		return 0;
	int rc = lx_stage_cause(s, &cause, (uint32_t)domain, id, &why, e);
	s->source = TOLD;
	if (rc == 0)
		lx_doom_bar(s->doom, (uint32_t)domain, id, LX_SUPPRESSED, lx_buf_view(&cause));
	s->source = PASSING;
	lx_buf_free(&cause);
	return rc;
}

int lx_stage_bars(struct lx_stage *s, const struct lx_hint *h, struct lx_err *e)
{
	struct lx_cur c = lx_cur(h->bars);
	struct lx_val list, pair, domain;
	struct lx_id id;
	if (!h->bars.p)
		return 0;
	if (lx_val_read(&c, &list) < 0 || list.type != LX_ARRAY)
		return lx_err_set(e, LX_DATA, "a hint whose barriers are no array");
	for (uint32_t n = list.n; n; n--) {
		if (lx_val_read(&c, &pair) < 0 || pair.type != LX_ARRAY || pair.n != 2 || lx_val_read(&c, &domain) < 0 ||
		    domain.type != LX_UINT || lx_id_read(&c, LX_ID_MAX, &id) < 0)
			return lx_err_set(e, LX_DATA, "a hint with a malformed barrier");
		if (learn_bar(s, domain.u, &id, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- the end ---- */

static int check_sums(const struct lx_stage *s, struct lx_err *e)
{
	if (s->handed != s->answered)
		return lx_err_set(e, LX_WORKER, "conservation: %llu items of %s were taken and %llu answered", ULL(s->handed),
		                  s->plan.domains[s->domain].name, ULL(s->answered));
	if (s->conf.take_all || s->conf.out < 0)
		return 0;
	uint64_t in = lx_counts_items(&s->got, s->domain), out = lx_counts_items(&s->out.counts, s->domain);
	if (in != out + s->left_out)
		return lx_err_set(e, LX_WORKER, "conservation: %llu items of %s came in and %llu went out", ULL(in),
		                  s->plan.domains[s->domain].name, ULL(out + s->left_out));
	return 0;
}

int lx_stage_end_run(struct lx_stage *s, struct lx_err *e)
{
	if (check_sums(s, e) < 0)
		return -1;
	stop_beats(s);
	return s->conf.out >= 0 ? lx_writer_end(&s->out, s->parts, e) : 0;
}

void lx_stage_abort(struct lx_stage *s, const struct lx_err *why)
{
	struct lx_err ignored = LX_ERR_INIT;
	stop_beats(s);
	if (s->conf.out < 0 || !s->out.codec || lx_sig_stop()) /* told to end now: not to wait for a reader */
		return;
	int code = why->code >= LX_USAGE ? why->code : LX_SYSTEM;
	lx_writer_abort(&s->out, code, why->upstream ? why->stage : s->conf.tool, why->msg, &ignored);
}

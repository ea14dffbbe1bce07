#include "jobs.h"

#include "sched.h"
#include "sig.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define BACKOFF_NS 100000000u
#define BACKOFF_MAX_NS 10000000000u
#define STALL_NS 20000000u  /* nobody served the commands for so long: it does not count as their time */
#define FLUSH_NS 100000000u /* a frame is not kept open for longer, however busy the commands are */

/* An item that has been taken and not answered. A maker's has a copy of its record behind it. */
struct item {
	struct item *prev, *next;
	struct lx_rec rec;
	uint8_t bytes[];
};

struct slot {
	struct lx_job job;
	struct item *item;  /* NULL: free */
	struct lx_buf room; /* what `input` made */
	struct lx_span input;
	uint64_t attempt;
	uint64_t again_ns;  /* to be run again then; 0: it runs */
	int at, n;          /* its descriptors in `polled` */
};

enum phase { TAKING, FRAME_DONE, RUN_DONE, ALL_DONE, BROKEN };

struct lx_jobs {
	struct lx_jobs_conf *c;
	struct lx_jobs_stats stats;
	struct lx_sched *sched;
	struct slot *slots;
	struct item *items;
	enum phase phase;
	bool want_input;
	struct lx_err input;   /* BROKEN: why */
	struct lx_err trouble; /* in a callback that cannot say so */
	struct pollfd *polled;
	uint64_t served_ns;    /* when the last poll returned */
	uint64_t flushed_ns;   /* when the open frame was last seen to */
	char run[LX_RUN_MAX + 1];
};

struct lx_jobs *lx_jobs_new(struct lx_err *e)
{
	struct lx_jobs *js = calloc(1, sizeof(*js));
	if (!js)
		lx_err_sys(e, "commands");
	return js;
}

void lx_jobs_free(struct lx_jobs *js)
{
	free(js);
}

void lx_jobs_members(const struct lx_jobs_stats *st, char *out, size_t size)
{
	snprintf(out, size, ",\"commands\":%llu,\"retried\":%llu,\"withdrawn\":%llu,\"discarded\":%llu",
	         (unsigned long long)st->commands, (unsigned long long)st->retried, (unsigned long long)st->withdrawn,
	         (unsigned long long)st->discarded);
}

/* ---- before it runs ---- */

static int add_reads(const struct lx_plan *p, int domain, const struct lx_strs *names, const char *option, struct lx_strs *reads,
                     struct lx_err *e)
{
	for (size_t i = 0; names && i < names->n; i++)
		if (lx_plan_reads(p, domain, names->v[i], option, e) < 0 || lx_strs_add(reads, names->v[i], e) < 0)
			return -1;
	return 0;
}

int lx_jobs_plan(struct lx_jobs_conf *c, const struct lx_plan *p, int domain, struct lx_strs *reads, struct lx_err *e)
{
	int known;
	c->sent = c->in_field ? c->in_field : "data";
	known = lx_plan_knows(p, domain, c->sent);
	c->needed = c->in_field || known > 0;
	if (!c->in_field && known < 0)
		c->sent = NULL;
	if (c->sent && (lx_plan_reads(p, domain, c->sent, "-i", e) < 0 || lx_strs_add(reads, c->sent, e) < 0))
		return -1;
	if (lx_tmpl_check(c->job.tmpl, p, domain, e) < 0 ||
	    add_reads(p, domain, lx_tmpl_fields(c->job.tmpl), "{name}", reads, e) < 0)
		return -1;
	return add_reads(p, domain, c->job.env, "--env", reads, e);
}

/* ---- items ---- */

static struct item *new_item(struct lx_jobs *js, const struct lx_rec *r, struct lx_err *e)
{
	bool copy = !js->c->stage->conf.keep_frames; /* a filter answers before the frame is given up */
	size_t used;
	struct item *it = malloc(sizeof(*it) + (copy ? r->raw.len : 0));
	if (!it) {
		lx_err_sys(e, "an item of %zu bytes", r->raw.len);
		return NULL;
	}
	it->rec = *r;
	if (copy) {
		memcpy(it->bytes, r->raw.p, r->raw.len);
		lx_rec_parse(it->bytes, r->raw.len, &js->c->stage->conf.limits, &it->rec, &used, e);
	}
	it->prev = NULL;
	it->next = js->items;
	if (it->next)
		it->next->prev = it;
	js->items = it;
	return it;
}

static void free_item(struct lx_jobs *js, struct item *it)
{
	*(it->prev ? &it->prev->next : &js->items) = it->next;
	if (it->next)
		it->next->prev = it->prev;
	free(it);
}

static int admit(struct lx_jobs *js, const struct lx_rec *r, struct lx_err *e)
{
	struct item *it = new_item(js, r, e);
	if (!it)
		return -1;
	struct lx_arrival a = { .id = &it->rec.id, .bytes = it->rec.raw.len, .data = it };
	return lx_sched_item(js->sched, &a, js->served_ns, e);
}

/* ---- the scheduler ---- */

static int new_sched(struct lx_jobs *js, struct lx_sched_conf *c, struct lx_err *e)
{
	c->max_items = 1;
	c->linger_ns = 0;
	c->depth = 1;
	c->max_ready = js->c->max_waiting;
	c->max_ready_bytes = js->c->max_bytes;
	c->max_strikes = c->max_charges = 0;
	js->sched = lx_sched_new(c, e);
	for (uint64_t i = 0; js->sched && i < js->c->slots; i++) {
		if (lx_sched_worker(js->sched, true, js->served_ns, e) < 0)
			return -1;
		lx_sched_ready(js->sched, (int)i, 1, 0, js->served_ns);
	}
	return js->sched ? 0 : -1;
}

/* The first step after a begin mark: the scheduler learns how deep the items lie. */
static int enter_run(struct lx_jobs *js, struct lx_err *e)
{
	const struct lx_stage *s = js->c->stage;
	struct lx_sched_conf c = LX_SCHED_CONF_DEFAULT;
	if (strcmp(js->run, s->plan.run) == 0)
		return 0;
	strcpy(js->run, s->plan.run);
	js->stats = (struct lx_jobs_stats){ 0 };
	js->c->job.plan = &s->plan;
	js->c->job.domain = s->domain;
	c.levels = (uint32_t)lx_plan_levels(&s->plan, s->domain, 0) + 1;
	uint32_t n = c.levels;
	for (int d = s->domain; d > 0; d = s->plan.domains[d].parent)
		c.tolerance[n--] = s->plan.domains[d].tolerance;
	if (!js->sched)
		return new_sched(js, &c, e);
	lx_sched_run(js->sched, c.levels, c.tolerance);
	return 0;
}

static void on_barred(void *ctx, uint32_t domain, const struct lx_id *id, enum lx_outcome as)
{
	struct lx_jobs *js = ctx;
	const struct lx_stage *s = js->c->stage;
	if (js->sched && lx_plan_levels(&s->plan, s->domain, (int)domain) >= 0)
		lx_sched_bar(js->sched, id, as, &js->trouble);
}

static int on_hint(void *ctx, const struct lx_hint *h, struct lx_err *e)
{
	struct lx_jobs *js = ctx;
	return lx_stage_bars(js->c->stage, h, e);
}

void lx_jobs_hook(struct lx_jobs *js, struct lx_stage_conf *sc)
{
	sc->ctx = js;
	sc->barred = on_barred;
	sc->hint = on_hint;
}

/* ---- answers ---- */

/* A barrier says what an item becomes, and why; one that was forgotten meanwhile leaves no reason. */
static int answer_barred(struct lx_jobs *js, struct item *it, enum lx_outcome as, struct lx_err *e)
{
	struct lx_blame forgotten = { .type = "cancelled", .message = lx_span_str("barred, and why is no longer known here") };
	struct lx_stage *s = js->c->stage;
	struct lx_buf own = { 0 };
	struct lx_span cause = { 0 };
	enum lx_outcome o = lx_stage_barred(s, &it->rec, &cause);
	int rc = 0;
	if (o == LX_PRESENT)
		o = as;
	if (o == LX_SUPPRESSED && !cause.p) {
		rc = lx_stage_cause(s, &own, it->rec.domain, &it->rec.id, &forgotten, e);
		cause = lx_buf_view(&own);
	}
	if (rc == 0)
		rc = o == LX_DROPPED ? lx_stage_drop(s, &it->rec, e) : lx_stage_suppress(s, &it->rec, cause, e);
	lx_buf_free(&own);
	free_item(js, it);
	return rc;
}

static int put(struct lx_stage *s, const struct lx_rec *r, const struct lx_reply *a, struct lx_err *e)
{
	if (a->outcome == LX_FAILED)
		return lx_stage_fail(s, r, &a->blame, e);
	if (a->outcome == LX_DROPPED)
		return lx_stage_drop(s, r, e);
	return a->n_edits ? lx_stage_put_edit(s, r, a->edits, a->n_edits, e) : lx_stage_put(s, r, e);
}

/* The item of a slot is done with. Whether it counts is for the scheduler to say, and for the barriers where they know more. */
static int answer(struct lx_jobs *js, struct slot *sl, const struct lx_reply *a, struct lx_err *e)
{
	struct item *it = sl->item;
	struct lx_span cause;
	enum lx_outcome as = LX_PRESENT;
	void *data;
	int rc;
	enum lx_answer said = lx_sched_answer(js->sched, (int)(sl - js->slots), &it->rec.id, a->outcome, it->rec.id.n,
	                                      js->served_ns, &data, &as, e);
	sl->item = NULL;
	if (said == LX_ANS_ERROR)
		return -1;
	if (said == LX_ANS_COMMIT && a->outcome != LX_FAILED)
		as = lx_stage_barred(js->c->stage, &it->rec, &cause);
	if (as != LX_PRESENT) {
		js->stats.discarded++;
		rc = answer_barred(js, it, as, e);
	} else {
		rc = put(js->c->stage, &it->rec, a, e);
		free_item(js, it);
	}
	lx_job_clear(&sl->job);
	lx_buf_clear(&sl->room);
	return rc;
}

static bool may_run_again(const struct lx_jobs *js, const struct slot *sl)
{
	return (sl->job.end == LX_JOB_RETRY || sl->job.end == LX_JOB_LOST) && sl->attempt <= js->c->retries;
}

static void rest(struct lx_jobs *js, struct slot *sl)
{
	uint64_t wait = sl->attempt < 8 ? (uint64_t)BACKOFF_NS << (sl->attempt - 1) : BACKOFF_MAX_NS;
	uint64_t jitter = js->served_ns * 0x9e3779b97f4a7c15u >> 20;
	lx_job_clear(&sl->job);
	sl->again_ns = js->served_ns + wait / 2 + jitter % wait;
	js->stats.retried++;
}

/* A command did not get to a verdict and might be run again: unless its item is barred by now, or the input has turned
 * out bad, where what is not finished is left without a verdict. */
static int try_again(struct lx_jobs *js, struct slot *sl, struct lx_err *e)
{
	struct lx_span cause;
	if (lx_stage_barred(js->c->stage, &sl->item->rec, &cause) != LX_PRESENT)
		return answer(js, sl, &(struct lx_reply){ .outcome = LX_PRESENT }, e);
	if (js->phase != BROKEN) {
		rest(js, sl);
		return 0;
	}
	lx_job_clear(&sl->job);
	sl->item = NULL;
	return 0;
}

static int finish(struct lx_jobs *js, struct slot *sl, struct lx_err *e)
{
	const struct lx_job *j = &sl->job;
	struct lx_reply a = { .outcome = LX_PRESENT };
	if (may_run_again(js, sl))
		return try_again(js, sl, e);
	if (j->end != LX_JOB_OK) {
		a.outcome = LX_FAILED;
		a.blame = (struct lx_blame){ .type = j->type, .message = lx_buf_view(&j->message), .scope = j->scope };
	}
	if (js->c->reply(js->c->ctx, &sl->item->rec, j, &a, e) < 0)
		return -1;
	a.blame.attempt = sl->attempt;
	a.blame.elapsed_ms = (lx_io_now_ns() - j->started_ns) / 1000000u;
	return answer(js, sl, &a, e);
}

/* ---- commands ---- */

static int start(struct lx_jobs *js, struct slot *sl, struct lx_err *e)
{
	sl->again_ns = 0;
	sl->attempt++;
	if (lx_job_start(&sl->job, &js->c->job, &sl->item->rec, sl->input, js->c->tmpdir, e) < 0)
		return -1;
	if (sl->job.end != LX_JOB_RUNNING)
		return finish(js, sl, e);
	js->stats.commands++;
	return 0;
}

/* 1: the item lacks the field. */
static int find_input(struct lx_jobs *js, struct slot *sl, struct lx_err *e)
{
	struct lx_span value = js->c->sent ? lx_rec_field(&sl->item->rec, js->c->sent) : (struct lx_span){ 0 };
	sl->input = (struct lx_span){ 0 };
	if (!value.p)
		return js->c->needed;
	if (js->c->payload(value, &sl->room, &sl->input, e) < 0)
		return -1;
	return lx_buf_check(&sl->room, e);
}

static int start_item(struct lx_jobs *js, struct slot *sl, struct item *it, struct lx_err *e)
{
	char message[128];
	sl->item = it;
	sl->attempt = 0;
	int rc = find_input(js, sl, e);
	if (rc <= 0)
		return rc < 0 ? -1 : start(js, sl, e);
	snprintf(message, sizeof(message), "no field '%.80s'", js->c->sent);
	struct lx_reply a = { .outcome = LX_FAILED, .blame = { .type = "no-field", .message = lx_span_str(message) } };
	return answer(js, sl, &a, e);
}

/* Do what the scheduler says until it has nothing more to say. */
static int act(struct lx_jobs *js, struct lx_err *e)
{
	struct lx_action a;
	for (;;) {
		int rc = 0;
		switch (lx_sched_next(js->sched, js->served_ns, &a)) {
		case LX_DO_NOTHING:
			return 0;
		case LX_DO_SEND:
			rc = start_item(js, &js->slots[a.worker], a.items[0], e);
			break;
		case LX_DO_BARRED:
			js->stats.withdrawn++;
			rc = answer_barred(js, a.data, a.as, e);
			break;
		case LX_DO_GIVE_UP:
			rc = lx_err_set(e, LX_WORKER, "%s", a.why);
			break;
		default: /* workers that never die give no cause for more; barriers were known here before */
			break;
		}
		if (js->trouble.code && !e->code)
			*e = js->trouble;
		if (rc < 0 || js->trouble.code)
			return -1;
	}
}

/* ---- input ---- */

static int broken(struct lx_jobs *js, struct lx_err *e)
{
	if (!js->input.upstream && js->input.code >= LX_SYSTEM) { /* not the input's fault */
		*e = js->input;
		return -1;
	}
	js->phase = BROKEN;
	return 0;
}

/* Take items until enough wait, or there are none for now. */
static int take(struct lx_jobs *js, struct lx_err *e)
{
	struct lx_rec rec;
	js->want_input = false;
	while (!js->sched || !lx_sched_full(js->sched)) {
		switch (lx_stage_next(js->c->stage, &rec, &js->input)) {
		case LX_STEP_ITEM:
			if (enter_run(js, e) < 0 || admit(js, &rec, e) < 0)
				return -1;
			break;
		case LX_STEP_FRAME:
			if (!js->c->stage->conf.keep_frames)
				break;
			js->phase = FRAME_DONE;
			return 0;
		case LX_STEP_RUN:
			js->phase = RUN_DONE;
			return enter_run(js, e);
		case LX_STEP_EOF:
			js->phase = ALL_DONE;
			return 0;
		case LX_STEP_ERROR:
			return broken(js, e);
		default:
			js->want_input = true;
			return 0;
		}
	}
	return 0;
}

static bool running(const struct lx_jobs *js)
{
	for (uint64_t i = 0; i < js->c->slots; i++)
		if (js->slots[i].item && !(js->phase == BROKEN && js->slots[i].again_ns))
			return true;
	return false;
}

static bool all_answered(const struct lx_jobs *js)
{
	return js->phase == BROKEN ? !running(js) : !js->sched || lx_sched_held(js->sched) == 0;
}

static int end_run(struct lx_jobs *js, struct lx_err *e)
{
	js->run[0] = '\0';
	if (lx_stage_end_run(js->c->stage, e) < 0)
		return -1;
	return js->c->end_run(js->c->ctx, &js->stats, e);
}

/* ---- waiting ---- */

/* The descriptors everything waits for; the first three are not those of commands. */
enum { SIGNALS, OUTPUT, INPUT, FIRST_SLOT };

static int fill_poll(struct lx_jobs *js)
{
	struct pollfd *p = js->polled;
	int n = FIRST_SLOT;
	p[SIGNALS] = (struct pollfd){ .fd = lx_sig_fd(), .events = POLLIN };
	p[OUTPUT] = (struct pollfd){ .fd = js->c->stage->conf.out }; /* no events: only whether its reader has gone */
	p[INPUT] = (struct pollfd){ .fd = js->phase == TAKING && js->want_input ? lx_stage_fd(js->c->stage) : -1, .events = POLLIN };
	for (uint64_t i = 0; i < js->c->slots; i++) {
		struct slot *sl = &js->slots[i];
		sl->at = n;
		sl->n = sl->item && !sl->again_ns ? lx_job_fds(&sl->job, p + n, false) : 0;
		n += sl->n;
	}
	return n;
}

/* Milliseconds to the next time-out or retry; -1: none. */
static int next_deadline(const struct lx_jobs *js)
{
	uint64_t at = LX_SCHED_NEVER, now = lx_io_now_ns();
	for (uint64_t i = 0; i < js->c->slots; i++) {
		const struct slot *sl = &js->slots[i];
		uint64_t t = !sl->item || sl->job.killed ? 0 : sl->again_ns ? sl->again_ns : sl->job.deadline_ns;
		if (t && t < at)
			at = t;
	}
	if (at == LX_SCHED_NEVER)
		return -1;
	if (at <= now)
		return 0;
	return (at - now) / 1000000u >= INT_MAX - 1 ? INT_MAX : (int)((at - now) / 1000000u) + 1;
}

/* A slow reader may have held us up while the commands waited for us. */
static void forgive(struct lx_jobs *js)
{
	uint64_t away = lx_io_now_ns() - js->served_ns;
	for (uint64_t i = 0; away > STALL_NS && i < js->c->slots; i++)
		if (js->slots[i].item && js->slots[i].job.deadline_ns)
			js->slots[i].job.deadline_ns += away;
}

/* Sleep until something is to be done. What a maker has in its open frame leaves first, and a filter's closed frames. */
static int sleep_until_event(struct lx_jobs *js, struct lx_err *e)
{
	int n = fill_poll(js);
	int ready = poll(js->polled, (nfds_t)n, 0);
	if (ready == 0 || js->served_ns - js->flushed_ns > FLUSH_NS) {
		struct lx_writer *w = &js->c->stage->out;
		js->flushed_ns = js->served_ns;
		if ((js->c->stage->conf.keep_frames ? lx_writer_send(w, e) : lx_writer_flush(w, e)) < 0)
			return -1;
	}
	forgive(js);
	if (ready == 0)
		ready = poll(js->polled, (nfds_t)n, next_deadline(js));
	js->served_ns = lx_io_now_ns();
	if (ready < 0 && errno != EINTR)
		return lx_err_sys(e, "poll");
	if (ready < 0) {
		memset(js->polled, 0, sizeof(*js->polled) * FIRST_SLOT);
		for (uint64_t i = 0; i < js->c->slots; i++)
			js->slots[i].n = 0;
	}
	if (js->polled[SIGNALS].revents)
		lx_sig_ack();
	if (js->polled[OUTPUT].revents & (POLLERR | POLLHUP))
		return lx_io_unread(e);
	return 0;
}

static bool wants_step(const struct lx_jobs *js, const struct slot *sl)
{
	for (int i = sl->at; i < sl->at + sl->n; i++)
		if (js->polled[i].revents)
			return true;
	return sl->job.deadline_ns && !sl->job.killed && js->served_ns >= sl->job.deadline_ns;
}

static int serve(struct lx_jobs *js, struct slot *sl, struct lx_err *e)
{
	struct lx_span cause;
	if (sl->again_ns) {
		if (lx_stage_barred(js->c->stage, &sl->item->rec, &cause) != LX_PRESENT)
			return answer(js, sl, &(struct lx_reply){ .outcome = LX_PRESENT }, e);
		return js->served_ns >= sl->again_ns && js->phase != BROKEN ? start(js, sl, e) : 0;
	}
	if (!wants_step(js, sl))
		return 0;
	if (lx_job_step(&sl->job, &js->c->job, js->served_ns, e) < 0)
		return -1;
	if (js->c->mute)
		lx_buf_clear(&sl->job.output);
	return sl->job.end == LX_JOB_RUNNING ? 0 : finish(js, sl, e);
}

static int wait_and_serve(struct lx_jobs *js, struct lx_err *e)
{
	if (sleep_until_event(js, e) < 0)
		return -1;
	if (js->polled[INPUT].revents && lx_stage_fill(js->c->stage, &js->input) < 0 && broken(js, e) < 0)
		return -1;
	for (uint64_t i = 0; i < js->c->slots; i++)
		if (js->slots[i].item && serve(js, &js->slots[i], e) < 0)
			return -1;
	return 0;
}

/* ---- the loop ---- */

/* 1: everything is done. */
static int step(struct lx_jobs *js, struct lx_err *e)
{
	if (lx_sig_stop())
		return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	lx_stage_ledger(js->c->stage);
	if (js->phase == TAKING && take(js, e) < 0)
		return -1;
	if (js->phase != BROKEN && js->sched && act(js, e) < 0)
		return -1;
	if (!all_answered(js) || (js->phase == TAKING && js->want_input))
		return wait_and_serve(js, e);
	switch (js->phase) {
	case RUN_DONE:
		if (end_run(js, e) < 0)
			return -1;
		break;
	case ALL_DONE:
		return 1;
	case BROKEN:
		*e = js->input;
		return -1;
	default:
		break;
	}
	js->phase = TAKING;
	return 0;
}

static int make_slots(struct lx_jobs *js, struct lx_err *e)
{
	js->slots = calloc(js->c->slots, sizeof(*js->slots));
	js->polled = calloc(FIRST_SLOT + 4 * js->c->slots, sizeof(*js->polled));
	if (!js->slots || !js->polled)
		return lx_err_sys(e, "commands");
	for (uint64_t i = 0; i < js->c->slots; i++)
		lx_job_init(&js->slots[i].job);
	return 0;
}

static void clear(struct lx_jobs *js)
{
	for (uint64_t i = 0; js->slots && i < js->c->slots; i++) {
		lx_job_free(&js->slots[i].job);
		lx_buf_free(&js->slots[i].room);
	}
	while (js->items)
		free_item(js, js->items);
	lx_sched_free(js->sched);
	free(js->slots);
	free(js->polled);
	memset(js, 0, sizeof(*js));
}

int lx_jobs_run(struct lx_jobs *js, struct lx_jobs_conf *c, struct lx_err *e)
{
	int rc;
	js->c = c;
	js->served_ns = lx_io_now_ns();
	rc = make_slots(js, e);
	while (rc == 0)
		rc = step(js, e);
	clear(js);
	return rc < 0 ? -1 : 0;
}

#include "pool-int.h"
#include "loss.h"
#include "sig.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ULL(x) ((unsigned long long)(x))
#define BUSY_MS 10           /* so much of our own work counts as time between two waits */
#define BEAT_MS 5000         /* never silent for longer, unless asked to beat faster */
#define GRACE_MS 5000        /* a worker whose input was closed may take so long to end */
#define LINGER_EXIT_MS 500   /* the same after it closed its output, or was told to end (SIGTERM) */
#define KILL_GRACE_MS 2000   /* from SIGTERM to SIGKILL for a worker that is to go; an lx-batch there gives its own LINGER_EXIT_MS */
#define DOUBT_MS 3000        /* an lx stage writes its begin mark at once: a worker that has not by then may be none */
#define FEED_MAX 4096        /* items taken before workers are looked at again */

/* ---- time ---- */

/* Count real time since the last look, but not long spells of our own. */
static void tick(struct pool *p, bool waited)
{
	uint64_t real = lx_io_now_ns(), d = real - p->mark;
	if (!waited && d > BUSY_MS * MS)
		d = BUSY_MS * MS;
	p->now += d;
	p->mark = real;
}

void pool_say(const struct pool *p, const char *fmt, ...)
{
	char line[LX_ERR_MAX];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (p->conf->say)
		p->conf->say(line);
}

/* ---- items ---- */

static struct held *hold(struct pool *p, struct lx_span raw, struct lx_err *e)
{
	size_t size = sizeof(struct held) + raw.len;
	lx_ref ref = lx_slab_get(&p->slab, size);
	struct held *h = ref ? lx_slab_at(&p->slab, ref) : malloc(size);
	if (!h) {
		lx_err_sys(e, "an item of %zu bytes", raw.len);
		return NULL;
	}
	h->ref = ref;
	h->len = raw.len;
	memcpy(h->raw, raw.p, raw.len);
	return h;
}

static void let_go(struct pool *p, struct held *h)
{
	if (h->ref)
		lx_slab_put(&p->slab, h->ref, sizeof(*h) + h->len);
	else
		free(h);
}

static int parse(const struct pool *p, const struct held *h, struct lx_rec *r, struct lx_err *e)
{
	size_t used;
	return lx_rec_parse(h->raw, h->len, &p->stage.conf.limits, r, &used, e);
}

uint32_t lx_pool_bucket(uint64_t size)
{
	if (size < 2)
		return (uint32_t)size;
	uint32_t log = 63 - (uint32_t)__builtin_clzll(size);
	uint32_t b = 2 * log + (uint32_t)(size >> (log - 1) & 1);
	return b < LX_SCHED_BUCKETS ? b : LX_SCHED_BUCKETS - 1;
}

bool lx_pool_size(const struct lx_rec *r, const char *field, uint64_t *size)
{
	struct lx_val v;
	struct lx_span s = lx_rec_field(r, field);
	if (!s.p || lx_val_from(s, &v) < 0)
		return false;
	switch (v.type) {
	case LX_UINT: *size = v.u; return true;
	case LX_INT: *size = 0; return true;
	case LX_F32:
	case LX_F64: *size = v.f > 0 && v.f < 1e18 ? (uint64_t)ceil(v.f) : v.f > 0 ? UINT64_MAX : 0; return true;
	case LX_STR:
	case LX_BIN: *size = v.s.len; return true;
	case LX_ARRAY:
	case LX_MAP: *size = v.n; return true;
	default: return false;
	}
}

int lx_pool_no_size(struct lx_stage *s, const struct lx_rec *r, const char *field, struct lx_err *e)
{
	char text[256];
	snprintf(text, sizeof(text), "field '%s' is missing or has no size", field);
	return lx_stage_fail(s, r, &(struct lx_blame){ .type = "no-field", .message = lx_span_str(text) }, e);
}

static int take(struct pool *p, const struct lx_rec *r, struct lx_err *e)
{
	struct lx_arrival a = { .id = &r->id, .bytes = r->raw.len };
	uint64_t size = 0;
	if (p->conf->cost_field && !lx_pool_size(r, p->conf->cost_field, &a.cost))
		return lx_pool_no_size(&p->stage, r, p->conf->cost_field, e);
	if (p->conf->bucket_field) {
		if (!lx_pool_size(r, p->conf->bucket_field, &size))
			return lx_pool_no_size(&p->stage, r, p->conf->bucket_field, e);
		a.bucket = lx_pool_bucket(size);
	}
	a.data = hold(p, r->raw, e);
	return a.data ? lx_sched_item(p->sched, &a, p->now, e) : -1;
}

/* ---- what the stage tells ---- */

static bool on_the_way(const struct pool *p, uint32_t domain)
{
	return lx_plan_levels(&p->stage.plan, p->stage.domain, (int)domain) >= 0;
}

/* How many numbers of the item's id the anchor of its cause has; 0: that is no ancestor of it. */
static uint32_t anchor_of(const struct pool *p, const struct lx_rec *r)
{
	struct lx_cause c;
	if (!r->cause.p || lx_cause_read(r->cause, &c) < 0)
		return r->id.n;
	int levels = c.anchor_domain < (uint32_t)p->stage.plan.n_domains
	                     ? lx_plan_levels(&p->stage.plan, (int)r->domain, (int)c.anchor_domain) : -1;
	if (levels < 0 || (uint32_t)levels >= r->id.n)
		return 0;
	struct lx_id up = lx_id_parent(&r->id, (uint32_t)levels);
	return lx_id_eq(&up, &c.anchor) ? up.n : 0;
}

static int on_seen(void *ctx, const struct lx_rec *r, enum lx_outcome as, struct lx_err *e)
{
	struct pool *p = ctx;
	if (r->kind == LX_CLOSE) {
		int parent = p->stage.plan.domains[r->domain].parent;
		if (!on_the_way(p, r->domain) || parent < 0)
			return 0;
		return lx_sched_close(p->sched, &r->id, r->count, as, e);
	}
	if (!on_the_way(p, r->domain))
		return 0;
	uint32_t anchor = anchor_of(p, r);
	return lx_sched_gone(p->sched, &r->id, as, anchor ? anchor : r->id.n, e);
}

static void on_barred(void *ctx, uint32_t domain, const struct lx_id *id, enum lx_outcome as)
{
	struct pool *p = ctx;
	if (!on_the_way(p, domain) || domain == (uint32_t)p->stage.domain || p->failed)
		return;
	if (lx_sched_bar(p->sched, id, as, p->e) < 0)
		p->failed = true;
	if (as != LX_SUPPRESSED)
		return;
	lx_pack_array(&p->bars, 2);
	lx_pack_uint(&p->bars, domain);
	lx_pack_id(&p->bars, id);
	p->n_bars++;
}

static int on_hint(void *ctx, const struct lx_hint *h, struct lx_err *e)
{
	struct pool *p = ctx;
	return lx_stage_bars(&p->stage, h, e) < 0 || p->failed ? -1 : 0;
}

/* ---- epoll ---- */

int pool_watch(struct pool *p, int op, int fd, uint32_t events, enum source what, int number, struct lx_err *e)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uint64_t)what << 32 | (uint32_t)number };
	if (epoll_ctl(p->epoll, op, fd, &ev) < 0)
		return lx_err_sys(e, "epoll");
	return 0;
}

/* Look at stdin only while more may come in: a hang-up is reported whether asked for or not. */
static int watch_input(struct pool *p, bool want, struct lx_err *e)
{
	struct lx_err refused = LX_ERR_INIT;
	if (p->always_readable || want == p->watched)
		return 0;
	if (!want) {
		p->watched = false;
		return pool_watch(p, EPOLL_CTL_DEL, lx_stage_fd(&p->stage), 0, STDIN, 0, e);
	}
	if (pool_watch(p, EPOLL_CTL_ADD, lx_stage_fd(&p->stage), EPOLLIN, STDIN, 0, &refused) == 0) {
		p->watched = true;
		return 0;
	}
	if (refused.sys != EPERM)
		return lx_err_sys(e, "epoll");
	p->always_readable = true; /* a regular file */
	return 0;
}

/* ---- sending ---- */

static int push(struct pool *p, struct peer *k, struct lx_err *e)
{
	int done = lx_worker_push(&k->w, e);
	if (done < 0)
		return -1;
	bool full = done == 0;
	if (full != k->watch_out && k->w.fd >= 0 && !k->output_over) {
		k->watch_out = full;
		if (pool_watch(p, EPOLL_CTL_MOD, k->w.fd, EPOLLIN | (full ? EPOLLOUT : 0), SOCKET, k->number, e) < 0)
			return -1;
	}
	if (full != k->stalled && k->begun && !k->output_over) {
		k->stalled = full;
		lx_sched_stalled(p->sched, k->number, full, p->now);
	}
	return 0;
}

int pool_send_begin(struct pool *p, struct peer *k, struct lx_err *e)
{
	int said = p->stage.conf.packing;
	p->to_workers.packing = said >= 0 ? (enum lx_packing)said : k->cmd->far ? LX_ZSTD : LX_RAW;
	p->to_workers.ask = (struct lx_ask){ .asked = true, .packed = k->cmd->far, .packing = p->to_workers.packing, .beats_ms = p->conf->silence_ms / 4 };
	k->begun = k->ended = false;
	k->in_segment = true;
	k->asked_at = lx_io_now_ns();
	k->due++;
	return lx_writer_begin(&k->w.out, &p->to_workers, e) < 0 ? -1 : push(p, k, e);
}

static int send_end(struct pool *p, struct peer *k, struct lx_err *e)
{
	if (!k->in_segment)
		return 0;
	k->in_segment = false;
	return lx_writer_end(&k->w.out, 0, e) < 0 ? -1 : push(p, k, e);
}

static int send_batch(struct pool *p, const struct lx_action *a, struct lx_err *e)
{
	struct peer *k = &p->peers[a->worker];
	/* Only what is counted and written has to be set. */
	struct lx_rec r = { .kind = LX_ITEM, .domain = (uint32_t)p->stage.domain };
	for (uint32_t i = 0; i < a->n_items; i++) {
		const struct held *h = a->items[i];
		r.raw = (struct lx_span){ h->raw, h->len };
		if (lx_writer_add_ref(&k->w.out, &r, e) < 0)
			return -1;
	}
	return lx_writer_flush(&k->w.out, e) < 0 ? -1 : push(p, k, e);
}

/* Tell every worker of the barriers that came up since the last time. */
static int send_bars(struct pool *p, struct lx_err *e)
{
	struct lx_buf list = { 0 };
	int rc = 0;
	if (!p->n_bars)
		return 0;
	lx_pack_array(&list, p->n_bars);
	lx_buf_span(&list, lx_buf_view(&p->bars));
	for (size_t i = 0; rc == 0 && i < p->n_peers; i++) {
		struct peer *k = &p->peers[i];
		if (k->begun && k->in_segment && !k->stalled)
			rc = lx_writer_hint(&k->w.out, lx_buf_view(&list), e) < 0 ? -1 : push(p, k, e);
	}
	lx_buf_free(&list);
	lx_buf_clear(&p->bars);
	p->n_bars = 0;
	return rc;
}

/* ---- ends of items without an answer ---- */

static int end_barred(struct pool *p, struct held *h, enum lx_outcome as, struct lx_err *e)
{
	struct lx_rec r;
	struct lx_span cause = { 0 };
	struct lx_buf own = { 0 };
	int rc = parse(p, h, &r, e);
	if (rc == 0 && lx_stage_barred(&p->stage, &r, &cause) == LX_PRESENT && as == LX_SUPPRESSED) {
		/* the barrier itself was forgotten */
		struct lx_blame why = { .type = "suppressed", .message = lx_span_str("something it depends on failed") };
		rc = lx_stage_cause(&p->stage, &own, r.domain, &r.id, &why, e);
		cause = lx_buf_view(&own);
	}
	if (rc == 0 && as == LX_DROPPED) {
		lx_rec_gone(&p->stage.scratch, r.domain, &r.id, LX_DROPPED, cause, (struct lx_span){ 0 }, r.key);
		rc = lx_stage_put_buf(&p->stage, &p->stage.scratch, e);
	} else if (rc == 0) {
		rc = lx_stage_suppress(&p->stage, &r, cause, e);
	}
	lx_buf_free(&own);
	let_go(p, h);
	return rc;
}

static int end_charged(struct pool *p, const struct lx_action *a, struct lx_err *e)
{
	struct lx_rec r;
	char text[LX_ERR_MAX];
	bool late = a->loss == LX_LOSS_TIMEOUT;
	const char *how = late || a->worker < 0 ? "" : p->peers[a->worker].said; /* of the last of them */
	snprintf(text, sizeof(text), late ? "%u worker%s took too long over it (--timeout)" : "%u worker%s ended without answering it%s%.200s",
	         a->deaths, a->deaths == 1 ? "" : "s", *how ? ": it " : "", how);
	struct lx_blame why = { .type = late ? "timeout" : "crash", .message = lx_span_str(text), .attempt = a->deaths };
	int rc = parse(p, a->data, &r, e);
	if (rc == 0)
		rc = lx_stage_fail(&p->stage, &r, &why, e);
	let_go(p, a->data);
	return rc;
}

/* ---- workers ---- */

static int start_worker(struct pool *p, int number, struct lx_err *e)
{
	struct peer *k = &p->peers[number];
	k->why = (struct lx_err)LX_ERR_INIT;
	k->stalled = k->watch_out = k->garbled = k->foreign = k->killed = k->output_over = k->process_over = false;
	k->kill_at = 0;
	if (lx_worker_start(&k->w, k->cmd->argv, k->cmd->env, k->cmd->name, &p->stage.conf.limits, e) < 0)
		return -1;
	k->started = true;
	if (pool_watch(p, EPOLL_CTL_ADD, k->w.fd, EPOLLIN, SOCKET, number, e) < 0 ||
	    pool_watch(p, EPOLL_CTL_ADD, k->w.child.pidfd, EPOLLIN, PROCESS, number, e) < 0)
		return -1;
	if (pool_send_begin(p, k, e) < 0)
		return -1;
	if (!p->doubted && k->asked_at + DOUBT_MS * MS < p->doubt_at)
		p->doubt_at = k->asked_at + DOUBT_MS * MS;
	return 0;
}

static void tell_to_end(const struct lx_worker *w)
{
	lx_child_kill(&w->child, SIGTERM);
	lx_child_kill(&w->child, SIGCONT); /* one that was stopped */
}

static void kill_in(struct pool *p, struct peer *k, uint64_t ms)
{
	k->kill_at = lx_io_now_ns() + ms * MS;
	p->kill_at = k->kill_at < p->kill_at ? k->kill_at : p->kill_at;
}

/* A worker that is to go ends what it has started itself: its commands are in groups of their own, which it alone knows. */
static void end_worker(struct pool *p, struct peer *k)
{
	tell_to_end(&k->w);
	kill_in(p, k, KILL_GRACE_MS);
}

/* The stage gives up for it, and says why then. */
static bool is_final(const struct pool *p, const struct peer *k, enum lx_loss loss, uint64_t items)
{
	return items && (loss == LX_LOSS_CRASH || loss == LX_LOSS_TIMEOUT) && p->conf->sched.on_crash == LX_CRASH_ABORT && !k->cmd->host && !k->attached;
}

/* Of one command, or of one host, one that never began was lost for this before. */
static bool is_told(const struct pool *p, const struct peer *k, const char *why)
{
	if (k->cmd->host || k->attached)
		return k->cmd->host && strcmp(k->said, why) == 0;
	for (size_t i = 0; i < p->conf->n && !k->was_ready; i++) {
		const struct peer *o = &p->peers[i];
		if (!o->was_ready && strcmp(o->said, why) == 0 && strcmp(strchrnul(o->cmd->name, '('), strchrnul(k->cmd->name, '(')) == 0)
			return true;
	}
	return false;
}

/* Once for each reason: a host that stays away is tried again and again. */
static void tell_loss(const struct pool *p, struct peer *k, enum lx_loss loss, const char *why, uint64_t items)
{
	char had[64] = "";
	bool told = is_told(p, k, why);
	snprintf(k->said, sizeof(k->said), "%s", why);
	if (items || k->was_ready)
		snprintf(had, sizeof(had), ", %llu item%s unanswered", ULL(items), items == 1 ? "" : "s");
	if (!told && !is_final(p, k, loss, items))
		pool_say(p, "%s %s%s%s", k->cmd->name, k->said, had, k->cmd->host ? "; it is tried again" : "");
}

/* What the first of them said, where all refuse; else what was said last of one that is not there. */
static int give_up(const struct pool *p, const char *why, struct lx_err *e)
{
	const struct peer *first = NULL;
	bool all = true;
	for (size_t i = 0; i < p->n_peers; i++) {
		all = all && p->peers[i].refused;
		if (!first && p->peers[i].said[0])
			first = &p->peers[i];
	}
	if (p->lost && !p->lost->cmd->host && !p->lost->attached && p->lost->said[0])
		return lx_err_set(e, LX_WORKER, "%s: %s %s", why, p->lost->cmd->name, p->lost->said);
	if (!first || !first->cmd->host)
		return lx_err_set(e, LX_WORKER, "%s", why);
	return lx_err_set(e, all ? first->refused : LX_WORKER, "%s: %s %s", why, first->cmd->name, first->said);
}

static int act_one(struct pool *p, enum lx_do what, const struct lx_action *a, struct lx_err *e)
{
	struct peer *k = a->worker >= 0 ? &p->peers[a->worker] : NULL;
	switch (what) {
	case LX_DO_SEND:
		return send_batch(p, a, e);
	case LX_DO_BARRED:
		p->stage.barred += !a->sent;
		return end_barred(p, a->data, a->as, e);
	case LX_DO_CHARGE:
		return end_charged(p, a, e);
	case LX_DO_START:
		return start_worker(p, a->worker, e);
	case LX_DO_KILL:
		tell_loss(p, k, a->loss, a->loss == LX_LOSS_TIMEOUT ? "is over its time (--timeout): killed" : k->begun ? "fell silent: killed" :
		                "was not ready in time (--start-timeout): killed", lx_sched_view(p->sched, k->number).items);
		k->killed = true;
		if (k->attached)
			shutdown(k->w.fd, SHUT_RDWR); /* its end shows when reading */
		else
			end_worker(p, k);
		return 0;
	case LX_DO_STOP:
		return send_end(p, k, e) < 0 ? -1 : lx_worker_close_input(&k->w, e);
	case LX_DO_RETIRE:
		pool_say(p, "%s failed too often (%u losses): retired", k->cmd->name, a->deaths);
		return 0;
	case LX_DO_GIVE_UP:
		return give_up(p, a->why, e);
	case LX_DO_BAR: /* the stage has told of it */
	case LX_DO_NOTHING:
		break;
	}
	return 0;
}

static int act(struct pool *p, struct lx_err *e)
{
	struct lx_action a;
	enum lx_do what;
	tick(p, false);
	lx_stage_ledger(&p->stage);
	while ((what = lx_sched_next(p->sched, p->now, &a)) != LX_DO_NOTHING)
		if (act_one(p, what, &a, e) < 0)
			return -1;
	return p->failed ? -1 : send_bars(p, e);
}

/* ---- loss ---- */

static struct lx_loss_facts facts_of(const struct peer *k, int status)
{
	return (struct lx_loss_facts){ .host = k->cmd->host, .begun = k->begun, .attached = k->attached, .left = k->leaving || (k->w.shut && k->ended),
		.garbled = k->garbled, .foreign = k->foreign,
		.killed = k->killed, .status = status, .why = &k->why };
}

static int lose(struct pool *p, struct peer *k, struct lx_err *e)
{
	int status = -1;
	if (!k->started)
		return 0;
	uint64_t items = lx_sched_view(p->sched, k->number).items;
	p->lost = k;
	k->started = false;
	k->kill_at = 0;
	bool closed = k->w.shut;
	struct lx_loss_facts f = facts_of(k, status);
	k->refused = lx_loss_refused(&f) ? k->why.code : 0;
	if (!closed && !k->cmd->host && !k->attached && (k->refused || lx_loss_contract(&f))) {
		*e = k->why;
		lx_worker_release(&k->w, NULL);
		return -1;
	}
	lx_worker_release(&k->w, &f.status);
	k->begun = k->in_segment = k->stalled = k->watch_out = false;
	k->due = 0;
	if (!closed && !k->killed && !p->stage.conf.check) { /* a check ends the worker too */
		char text[LX_ERR_MAX];
		if (k->stranger)
			snprintf(text, sizeof(text), "%s", k->why.msg);
		else
			lx_loss_text(&f, text, sizeof(text));
		tell_loss(p, k, lx_loss_kind(&f), text, items);
	}
	/* Who is to blame is known now, and has to be told before anybody suffers for it. */
	return lx_sched_lost(p->sched, k->number, lx_loss_kind(&f), p->now, e) < 0 ? -1 : act(p, e);
}

/* Its output has ended: let the process end by itself, for its status' sake, or tidy up when it was told to go. */
static int output_ended(struct pool *p, struct peer *k, struct lx_err *e)
{
	char byte;
	bool told = k->kill_at;
	k->foreign = lx_reader_foreign(k->w.in);
	k->garbled = k->foreign || (k->why.code == LX_DATA && !k->why.upstream && recv(k->w.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0);
	if (k->process_over || !k->w.child.pid || (k->garbled && !told))
		return lose(p, k, e);
	k->output_over = k->stalled = true;
	lx_sched_stalled(p->sched, k->number, true, p->now);
	if (!told)
		kill_in(p, k, LINGER_EXIT_MS);
	return pool_watch(p, EPOLL_CTL_DEL, k->w.fd, 0, SOCKET, k->number, e);
}

/* ---- answers ---- */

static int contract(const struct pool *p, const struct peer *k, const struct lx_rec *r, const char *what, struct lx_err *e)
{
	char id[LX_ID_TEXT_MAX];
	lx_id_text(&r->id, id, sizeof(id));
	return lx_err_set(e, LX_WORKER, "%s %s: %s %s", k->cmd->name, what, p->stage.plan.domains[r->domain].name, id);
}

static int commit(struct pool *p, const struct lx_rec *r, struct lx_err *e)
{
	if (r->kind == LX_ITEM)
		return lx_stage_put(&p->stage, r, e);
	lx_buf_span(&p->stage.scratch, r->raw);
	return lx_stage_put_buf(&p->stage, &p->stage.scratch, e);
}

static int on_answer(struct pool *p, struct peer *k, const struct lx_rec *r, struct lx_err *e)
{
	void *data;
	enum lx_outcome as = LX_SUPPRESSED;
	if (r->kind == LX_CLOSE || r->domain != (uint32_t)p->stage.domain)
		return contract(p, k, r, "answered with a record of another kind or domain", e);
	uint32_t anchor = r->kind == LX_ITEM ? r->id.n : anchor_of(p, r);
	if (!anchor && r->outcome != LX_FAILED) /* suppressed for what befell a sibling */
		anchor = r->id.n;
	if (!anchor)
		return contract(p, k, r, "named a cause that is anchored at no ancestor of", e);
	switch (lx_sched_answer(p->sched, k->number, &r->id, r->outcome, anchor, p->now, &data, &as, e)) {
	case LX_ANS_COMMIT:
		let_go(p, data);
		return commit(p, r, e);
	case LX_ANS_BARRED:
		return end_barred(p, data, as, e);
	case LX_ANS_STRANGER:
		return contract(p, k, r, "answered an item that is not open at it", e);
	case LX_ANS_TWICE:
		return contract(p, k, r, "answered an item twice", e);
	case LX_ANS_LATE:
		return 0;
	case LX_ANS_ERROR:
		break;
	}
	return -1;
}

static int on_frame(struct pool *p, struct peer *k, struct lx_err *e)
{
	struct lx_rec r;
	int got;
	if (!k->begun)
		return 0;
	while ((got = lx_reader_rec(k->w.in, &r, &k->why)) > 0)
		if (on_answer(p, k, &r, e) < 0)
			return -1;
	return got < 0 ? 1 : 0;
}

/* What it says in its begin mark cannot be: the end of the call, or of one that has just joined. 1: it is to be lost. */
static int strange(struct pool *p, struct peer *k, int code, const char *what, struct lx_err *e)
{
	if (!k->attached)
		return lx_err_set(e, code, "%s %s", k->cmd->name, what);
	k->stranger = true;
	k->why = (struct lx_err)LX_ERR_INIT;
	lx_err_set(&k->why, LX_USAGE, "%s: refused", what);
	return lx_writer_abort(&k->w.out, LX_USAGE, "lx-batch", what, e) < 0 || push(p, k, e) < 0 ? -1 : 1;
}

/* One of its own stages answers an item when an ancestor of it has come. */
static bool holds_back(const struct lx_plan *its, int n_ops)
{
	for (int i = n_ops; i < its->n_ops; i++)
		if (strcmp(its->ops[i].tool, "lx-broadcast") == 0)
			return true;
	return false;
}

/* Its begin mark: the same tree as ours, the input's operations and its own behind them. */
static int on_begin(struct pool *p, struct peer *k, struct lx_err *e)
{
	const struct lx_plan *its = lx_reader_plan(k->w.in), *ours = &p->to_workers;
	struct lx_err why = LX_ERR_INIT;
	if (!k->due)
		return strange(p, k, LX_WORKER, "began a stream twice", e);
	if (--k->due)
		return 0;
	k->ended = false;
	if (strcmp(its->run, ours->run) != 0 || its->n_ops < ours->n_ops)
		return strange(p, k, LX_WORKER, "began a stream that is not this run's", e);
	if (lx_plan_agree(ours, its, &why) < 0)
		return strange(p, k, LX_WORKER, "is no worker: it changes the domains (one that opens or gathers a domain stands outside lx-batch)", e);
	if (holds_back(its, ours->n_ops))
		return strange(p, k, LX_WORKER, "is no worker: lx-broadcast waits for an ancestor, and a worker gets items alone (it stands outside lx-batch)", e);
	if (k->attached && p->declared.run[0] && lx_plan_same_writes(&p->declared, its, ours->n_ops, &why) < 0)
		return strange(p, k, LX_USAGE, why.msg, e);
	k->begun = true;
	if (k->said[0] && k->cmd->host)
		pool_say(p, "%s is back", k->cmd->name);
	k->said[0] = '\0';
	if (!k->was_ready)
		p->ready_ns = lx_io_now_ns();
	k->was_ready = true;
	if (!p->declared.run[0] && lx_plan_copy(&p->declared, its, e) < 0)
		return -1;
	lx_sched_ready(p->sched, k->number, its->slots > 1024 ? 1024 : (uint32_t)its->slots, its->beats_ms * MS, p->now);
	return push(p, k, e);
}

/* Everything that can be read from a worker now. */
static int pump(struct pool *p, struct peer *k, struct lx_err *e)
{
	bool lost = false;
	if (k->output_over)
		return 0;
	if (k->begun)
		lx_sched_heard(p->sched, k->number, p->now);
	while (!lost) {
		int rc = 0;
		switch (lx_reader_next(k->w.in, &k->why)) {
		case LX_EV_MORE:
			rc = lx_reader_fill(k->w.in, &k->why);
			if (rc == LX_IO_AGAIN)
				return 0;
			lost = rc < 0;
			rc = 0;
			break;
		case LX_EV_BEGIN:
			rc = on_begin(p, k, e);
			lost = rc > 0;
			break;
		case LX_EV_FRAME:
			rc = on_frame(p, k, e);
			lost = rc > 0;
			break;
		case LX_EV_HINT:
			if (lx_reader_hint(k->w.in)->leave)
				pool_on_leave(p, k);
			break;
		case LX_EV_END:
			k->ended = true;
			lost = k->begun && k->in_segment;
			if (lost)
				lx_err_set(&k->why, LX_DATA, "an end mark while its input goes on");
			break;
		case LX_EV_EOF:
		case LX_EV_ERROR:
			lost = true;
			break;
		}
		if (rc < 0)
			return -1;
	}
	return output_ended(p, k, e);
}

/* ---- waiting ---- */

static int timeout_ms(const struct pool *p)
{
	uint64_t t = lx_sched_deadline(p->sched), real = lx_io_now_ns();
	uint64_t wait = t == LX_SCHED_NEVER ? UINT64_MAX : t > p->now ? t - p->now : 0;
	const uint64_t at[] = { p->in_run ? p->beat_at : UINT64_MAX, p->kill_at, p->doubt_at };
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
		uint64_t left = at[i] == UINT64_MAX ? UINT64_MAX : at[i] > real ? at[i] - real : 0;
		wait = left < wait ? left : wait;
	}
	return wait / MS > 1000 ? 1000 : (int)((wait + MS - 1) / MS);
}

static int beat(struct pool *p, struct lx_err *e)
{
	if (!p->in_run || lx_io_now_ns() < p->beat_at)
		return 0;
	p->beat_at = lx_io_now_ns() + p->beat_ms * MS;
	return lx_writer_hint(&p->stage.out, (struct lx_span){ 0 }, e);
}

static int process_ended(struct pool *p, struct peer *k, struct lx_err *e)
{
	int status;
	pid_t pid = k->w.child.pid;
	if (!k->started || lx_child_ended(&k->w.child, &status, e) == 0)
		return 0; /* the event was for the one before it */
	/* What it wrote before it ended counts. */
	if (pump(p, k, e) < 0)
		return -1;
	if (!k->started || k->w.child.pid != pid)
		return 0;
	if (k->kill_at && !k->output_over && !k->process_over) { /* it was the shell of a chain, and they are still at it */
		k->process_over = true;
		return pool_watch(p, EPOLL_CTL_DEL, k->w.child.pidfd, 0, PROCESS, k->number, e);
	}
	return lose(p, k, e);
}

/* The time of those that were told to end and did not is over. */
static int kill_late(struct pool *p, struct lx_err *e)
{
	uint64_t now = lx_io_now_ns();
	if (now < p->kill_at)
		return 0;
	p->kill_at = UINT64_MAX;
	for (size_t i = 0; i < p->n_peers; i++) {
		struct peer *k = &p->peers[i];
		if (!k->kill_at)
			continue;
		if (now < k->kill_at) {
			p->kill_at = k->kill_at < p->kill_at ? k->kill_at : p->kill_at;
			continue;
		}
		k->kill_at = 0;
		lx_child_kill(&k->w.child, SIGKILL);
		if (k->process_over && process_ended(p, k, e) < 0)
			return -1;
	}
	return 0;
}

static bool is_doubtful(const struct peer *k)
{
	return k->started && !k->begun && !k->was_ready && !k->attached && !k->cmd->far && !k->cmd->host;
}

static void doubt(struct pool *p)
{
	uint64_t now = lx_io_now_ns();
	if (now < p->doubt_at)
		return;
	p->doubt_at = UINT64_MAX;
	for (size_t i = 0; i < p->n_peers; i++) {
		struct peer *k = &p->peers[i];
		uint64_t due = k->asked_at + DOUBT_MS * MS;
		if (!is_doubtful(k))
			continue;
		if (now >= due) {
			pool_say(p, "%s has written no begin mark for %d s, as an lx stage does at once: is it one? (lx-map runs any other command)",
			         k->cmd->name, DOUBT_MS / 1000);
			p->doubted = true;
			p->doubt_at = UINT64_MAX;
			return;
		}
		p->doubt_at = due < p->doubt_at ? due : p->doubt_at;
	}
}

static int on_event(struct pool *p, const struct epoll_event *ev, struct lx_err *e)
{
	struct peer *k = &p->peers[(uint32_t)ev->data.u64];
	switch ((enum source)(ev->data.u64 >> 32)) {
	case STDIN:
		p->readable = true;
		return 0;
	case STDOUT: /* asked for nothing: its reader has gone */
		return lx_io_unread(e);
	case SIGNAL:
		lx_sig_ack();
		return lx_sig_stop() ? lx_err_set(e, LX_SYSTEM, "stopped by a signal") : 0;
	case SOCKET:
		if (!k->started)
			return 0;
		if (ev->events & EPOLLOUT && push(p, k, e) < 0)
			return -1;
		return ev->events & ~(uint32_t)EPOLLOUT ? pump(p, k, e) : 0;
	case PROCESS:
		return process_ended(p, k, e);
	case LISTENER:
		return pool_on_listener(p, e);
	case GUEST:
		return pool_on_guest(p, (int)(uint32_t)ev->data.u64, e);
	}
	return 0;
}

/* Events, without waiting where there is more to do. Before a wait the open frame leaves. */
static int poll_events(struct pool *p, struct epoll_event *ev, int n_ev, bool more_to_do, struct lx_err *e)
{
	int n = epoll_wait(p->epoll, ev, n_ev, 0);
	if (n == 0 && !more_to_do) {
		if (p->in_run && lx_writer_flush(&p->stage.out, e) < 0)
			return -1;
		tick(p, false);
		n = epoll_wait(p->epoll, ev, n_ev, timeout_ms(p));
		tick(p, true);
	}
	if (n < 0 && errno != EINTR)
		return lx_err_sys(e, "epoll_wait");
	return n < 0 ? 0 : n;
}

/* input: more of it can be taken. */
static int wait_events(struct pool *p, bool input, struct lx_err *e)
{
	struct epoll_event ev[64];
	if (watch_input(p, input, e) < 0 || pool_guests(p, e) < 0)
		return -1;
	bool ready = input && p->always_readable;
	int n = poll_events(p, ev, 64, ready || (input && !p->starved), e);
	if (n < 0)
		return -1;
	p->readable = ready;
	for (int i = 0; i < n; i++)
		if (on_event(p, &ev[i], e) < 0)
			return -1;
	doubt(p);
	return kill_late(p, e) < 0 ? -1 : beat(p, e);
}

/* ---- the begin of a run ---- */

static void make_plan(struct lx_plan *w, const struct lx_plan *p, int domain, const struct lx_limits *l)
{
	w->has_part = false;
	w->slots = w->beats_ms = 0;
	w->limits = *l;
	for (int d = domain + 1; d < p->n_domains; d++)
		w->domains[d].gathered = true;
}

/* What the first worker declares becomes ours. */
static int adopt(const struct pool *p, struct lx_plan *plan, struct lx_err *e)
{
	for (int i = plan->n_ops; i < p->declared.n_ops; i++) {
		const struct lx_op *op = &p->declared.ops[i];
		if (lx_plan_op(plan, op->tool, op->domain, (const char *const *)op->reads, (const char *const *)op->writes,
		               (const char *const *)op->drops, e) < 0)
			return -1;
	}
	return 0;
}

static int check_field(struct lx_plan *plan, int domain, const char *field, const char *option, struct lx_err *e)
{
	return field ? lx_plan_reads(plan, domain, field, option, e) : 0;
}

static int new_sched(struct pool *p, const struct lx_sched_conf *conf, struct lx_err *e)
{
	p->sched = lx_sched_new(conf, e);
	for (size_t i = 0; p->sched && i < p->conf->n; i++) {
		if (lx_sched_worker(p->sched, false, p->now, e) < 0)
			return -1;
		if (p->conf->cmds[i].far)
			lx_sched_far(p->sched, (int)i);
	}
	return p->sched ? 0 : -1;
}

static int begin_sched(struct pool *p, const struct lx_plan *plan, int domain, struct lx_err *e)
{
	struct lx_sched_conf conf = p->conf->sched;
	conf.levels = (uint32_t)lx_plan_levels(plan, domain, 0) + 1;
	int d = domain;
	for (uint32_t n = conf.levels; n > 1; n--, d = plan->domains[d].parent)
		conf.tolerance[n] = plan->domains[d].tolerance;
	p->run_open = true;
	if (!p->sched)
		return new_sched(p, &conf, e);
	lx_sched_run(p->sched, conf.levels, conf.tolerance);
	for (size_t i = 0; i < p->n_peers; i++)
		if (p->peers[i].started && pool_send_begin(p, &p->peers[i], e) < 0)
			return -1;
	return 0;
}

static int wait_for_one(struct pool *p, struct lx_err *e)
{
	int rc = 0;
	while (rc == 0 && !p->declared.run[0]) {
		rc = act(p, e);
		if (rc == 0)
			rc = wait_events(p, false, e);
	}
	return rc;
}

/* What we can work on at once: workers of our own, or those that have joined by now. */
static uint64_t slots(const struct pool *p)
{
	uint64_t n = 0;
	for (size_t i = p->conf->n; i < p->n_peers; i++)
		n += p->peers[i].begun ? lx_sched_view(p->sched, (int)i).slots : 0;
	return p->conf->n + n;
}

static int on_plan(void *ctx, struct lx_stage *s, struct lx_plan *plan, struct lx_err *e)
{
	struct pool *p = ctx;
	const char *const reads[] = { p->conf->cost_field ? p->conf->cost_field : p->conf->bucket_field,
		p->conf->cost_field ? p->conf->bucket_field : NULL, NULL };
	p->run_over = false;
	lx_plan_free(&p->declared);
	lx_plan_init(&p->declared);
	if (check_field(plan, s->domain, p->conf->cost_field, "--cost", e) < 0 ||
	    check_field(plan, s->domain, p->conf->bucket_field, "--bucket", e) < 0)
		return -1;
	lx_plan_free(&p->to_workers);
	lx_plan_init(&p->to_workers);
	if (lx_plan_copy(&p->to_workers, plan, e) < 0)
		return -1;
	make_plan(&p->to_workers, plan, s->domain, &s->conf.limits);
	if (begin_sched(p, plan, s->domain, e) < 0 || wait_for_one(p, e) < 0 || adopt(p, plan, e) < 0)
		return -1;
	plan->slots = slots(p);
	p->beat_ms = plan->ask.beats_ms && plan->ask.beats_ms < BEAT_MS ? plan->ask.beats_ms : BEAT_MS;
	plan->beats_ms = p->beat_ms;
	p->beat_at = lx_io_now_ns() + p->beat_ms * MS;
	p->in_run = true;
	return lx_plan_op(plan, s->conf.tool, s->domain, reads, NULL, NULL, e);
}

/* ---- the end ---- */

/* A JSON string; what is not printable ASCII becomes `?`. */
static void quote(struct lx_buf *b, const char *s)
{
	lx_buf_byte(b, '"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			lx_buf_byte(b, '\\');
		lx_buf_byte(b, *s >= ' ' && *s <= '~' ? (uint8_t)*s : '?');
	}
	lx_buf_byte(b, '"');
}

static void stats_text(const struct pool *p, struct lx_buf *b)
{
	const struct lx_sched_stats *s = lx_sched_stats(p->sched);
	lx_buf_printf(b, ",\"batches\":%llu,\"batch_items\":%llu,\"full_batches\":%llu,\"resent\":%llu,\"unproven\":%llu",
	              ULL(s->batches), ULL(s->batch_items), ULL(s->full_batches), ULL(s->resent), ULL(s->unproven));
	lx_buf_printf(b, ",\"crashed\":%llu,\"losses\":%llu,\"starts\":%llu,\"retired\":%llu,\"late\":%llu,\"peak_ready\":%llu,\"peak_ready_bytes\":%llu",
	              ULL(s->charged), ULL(s->losses), ULL(s->starts), ULL(s->retired), ULL(s->late), ULL(s->peak_ready), ULL(s->peak_ready_bytes));
	lx_buf_printf(b, ",\"doomed\":{\"parents\":%llu,\"received\":%llu,\"failed\":%llu,\"dropped\":%llu,\"never_sent\":%llu,\"discarded\":%llu,\"left\":%llu}",
	              ULL(s->doom.parents), ULL(s->doom.received), ULL(s->doom.failed), ULL(s->doom.dropped), ULL(s->doom.never_sent),
	              ULL(s->doom.discarded), ULL(s->doom.left));
	lx_buf_printf(b, ",\"ready_ms\":%llu,\"workers\":[", ULL((p->ready_ns - p->began_ns) / MS));
	for (size_t i = 0; i < p->n_peers; i++) {
		struct lx_worker_view v = lx_sched_view(p->sched, (int)i);
		lx_buf_str(b, i ? ",{\"name\":" : "{\"name\":");
		quote(b, p->peers[i].cmd->name);
		lx_buf_printf(b, ",\"answered\":%llu,\"losses\":%u,\"depth\":%u,\"ready\":%s,\"lost\":", ULL(v.answered), v.losses, v.depth,
		              v.state == LX_W_READY ? "true" : "false");
		quote(b, p->peers[i].said);
		lx_buf_byte(b, '}');
	}
	lx_buf_str(b, "]");
}

static int end_run(struct pool *p, struct lx_err *e)
{
	struct lx_buf more = { 0 };
	p->run_over = p->in_run = p->run_open = false;
	for (size_t i = 0; i < p->n_peers; i++)
		if (p->peers[i].started && send_end(p, &p->peers[i], e) < 0)
			return -1;
	if (lx_stage_end_run(&p->stage, e) < 0)
		return -1;
	stats_text(p, &more);
	int rc = lx_buf_cstr(&more) ? 0 : lx_buf_check(&more, e);
	if (rc == 0 && p->conf->run_done)
		rc = p->conf->run_done(&p->stage, (const char *)more.p, e);
	lx_buf_free(&more);
	return rc;
}

/* Take what the input has at hand, as long as there is room. */
static int feed(struct pool *p, struct lx_err *e)
{
	struct lx_rec r;
	p->starved = false;
	for (int n = 0; n < FEED_MAX && !p->run_over && !p->eof && !(p->sched && lx_sched_full(p->sched)); n++) {
		int rc = 0;
		switch (lx_stage_next(&p->stage, &r, e)) {
		case LX_STEP_ITEM:
			rc = take(p, &r, e);
			break;
		case LX_STEP_MORE:
			p->starved = !p->readable;
			if (p->starved)
				return 0;
			p->readable = p->always_readable;
			rc = lx_stage_fill(&p->stage, e);
			break;
		case LX_STEP_RUN:
			p->run_over = true;
			if (p->sched)
				lx_sched_end(p->sched);
			break;
		case LX_STEP_EOF:
			p->eof = true;
			break;
		case LX_STEP_FRAME:
			if (p->conf->frames)
				lx_sched_cut(p->sched);
			break;
		case LX_STEP_REC:
			break;
		case LX_STEP_ERROR:
			rc = -1;
			break;
		}
		if (rc < 0 || p->failed)
			return -1;
	}
	return 0;
}

/* Close the workers' inputs and give them a moment to end. Their work is done: how they end changes nothing. */
static int shut_down(struct pool *p, struct lx_err *e)
{
	uint64_t until = lx_io_now_ns() + GRACE_MS * MS;
	size_t left = 0;
	for (size_t i = 0; i < p->n_peers; i++)
		if (p->peers[i].started && lx_worker_close_input(&p->peers[i].w, e) < 0)
			return -1;
	do {
		left = 0;
		for (size_t i = 0; i < p->n_peers; i++)
			left += p->peers[i].started && p->peers[i].begun;
		if (left && wait_events(p, false, e) < 0)
			return -1;
	} while (left && lx_io_now_ns() < until);
	return 0;
}

static bool at_work(const struct pool *p)
{
	return p->sched && lx_sched_held(p->sched);
}

static int loop(struct pool *p, struct lx_err *e)
{
	while (!p->eof) {
		if (feed(p, e) < 0 || (p->sched && act(p, e) < 0))
			return -1;
		if (p->run_over && !at_work(p)) {
			if (end_run(p, e) < 0)
				return -1;
			continue;
		}
		if (p->eof)
			break;
		bool input = !p->run_over && !p->eof && !(p->sched && lx_sched_full(p->sched));
		if (!p->sched) { /* no run has begun: there is nothing but input to wait for */
			p->readable = true;
			if (lx_io_wait(lx_stage_fd(&p->stage), -1, e) < 0)
				return -1;
			if (lx_sig_stop())
				return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
			continue;
		}
		if (wait_events(p, input, e) < 0)
			return -1;
	}
	return p->sched ? shut_down(p, e) : 0;
}

static int watch_output(struct pool *p, struct lx_err *e)
{
	struct lx_err refused = LX_ERR_INIT;
	if (pool_watch(p, EPOLL_CTL_ADD, p->stage.conf.out, 0, STDOUT, 0, &refused) < 0 && refused.sys != EPERM) /* a file */
		return lx_err_sys(e, "epoll");
	return 0;
}

static int set_up(struct pool *p, const struct lx_stage_conf *sc, struct lx_err *e)
{
	struct lx_stage_conf conf = *sc;
	conf.plan = on_plan;
	conf.seen = on_seen;
	conf.barred = on_barred;
	conf.hint = on_hint;
	conf.keep_parts = true;
	conf.ctx = p;
	p->mark = p->began_ns = p->ready_ns = lx_io_now_ns();
	if (lx_stage_init(&p->stage, &conf, e) < 0) /* first: what fails from here on is said in the stream */
		return -1;
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		return lx_err_sys(e, "epoll");
	p->peers = calloc(p->conf->n + (p->conf->listen ? ATTACHED_MAX : 0), sizeof(*p->peers));
	if (!p->peers)
		return lx_err_sys(e, "workers");
	for (; p->n_peers < p->conf->n; p->n_peers++)
		p->peers[p->n_peers] = (struct peer){ .w = LX_WORKER_NONE, .cmd = &p->conf->cmds[p->n_peers], .number = (int)p->n_peers };
	if (lx_slab_init(&p->slab, p->conf->mem, e) < 0)
		return -1;
	if (p->conf->listen && pool_listen(p, e) < 0)
		return -1;
	return watch_output(p, e) < 0 ? -1 : pool_watch(p, EPOLL_CTL_ADD, lx_sig_fd(), EPOLLIN, SIGNAL, 0, e);
}

/* Tell those that are left to end, so that they remove what they and their commands made. */
static void dismiss(struct pool *p)
{
	struct lx_err ignored = LX_ERR_INIT;
	uint64_t until = lx_io_now_ns() + LINGER_EXIT_MS * MS;
	for (size_t i = 0; p->peers && i < p->n_peers; i++)
		tell_to_end(&p->peers[i].w);
	for (size_t i = 0; p->peers && i < p->n_peers; i++) {
		uint64_t now = lx_io_now_ns();
		if (p->peers[i].w.child.pid)
			lx_io_wait(p->peers[i].w.child.pidfd, now < until ? (int)((until - now) / MS) : 0, &ignored);
	}
}

static void tear_down(struct pool *p)
{
	pool_unlisten(p); /* first: nobody is to join any more */
	dismiss(p);
	for (size_t i = 0; p->peers && i < p->n_peers; i++)
		lx_child_kill(&p->peers[i].w.child, SIGKILL); /* all at once, then reap */
	for (size_t i = 0; p->peers && i < p->n_peers; i++)
		lx_worker_release(&p->peers[i].w, NULL);
	free(p->peers);
	lx_sched_free(p->sched);
	lx_slab_release(&p->slab);
	lx_stage_release(&p->stage);
	lx_plan_free(&p->to_workers);
	lx_plan_free(&p->declared);
	lx_buf_free(&p->bars);
	if (p->epoll >= 0)
		close(p->epoll);
}

int lx_pool_run(const struct lx_pool_conf *c, const struct lx_stage_conf *sc, struct lx_err *e)
{
	struct pool p = { .conf = c, .epoll = -1, .e = e, .kill_at = UINT64_MAX, .doubt_at = UINT64_MAX, .listen = LX_LISTEN_NONE };
	lx_plan_init(&p.to_workers);
	lx_plan_init(&p.declared);
	int rc = set_up(&p, sc, e);
	if (rc == 0)
		rc = loop(&p, e);
	if (rc < 0)
		lx_stage_abort(&p.stage, e);
	tear_down(&p);
	return rc;
}

/* Workers: which may take more, when they are given up, and what becomes of what they had. */
#include "sched-int.h"

#include <stdlib.h>

#define PER_SLOT_MAX 16
#define BEATS 4 /* so many times the announced interval without a word is silence */

/* ---- lists of workers ---- */

static void worker_del(struct worker *w)
{
	struct worker_list *l = w->in;
	if (!l)
		return;
	*(w->prev ? &w->prev->next : &l->head) = w->next;
	*(w->next ? &w->next->prev : &l->tail) = w->prev;
	l->n--;
	w->in = NULL;
}

static void worker_add(struct worker_list *l, struct worker *w)
{
	w->in = l;
	w->next = NULL;
	w->prev = l->tail;
	*(l->tail ? &l->tail->next : &l->head) = w;
	l->tail = w;
	l->n++;
}

static void worker_move(struct worker_list *l, struct worker *w)
{
	if (w->in == l)
		return;
	worker_del(w);
	if (l)
		worker_add(l, w);
}

void sched_todo(struct lx_sched *s, struct worker *w, enum lx_do what)
{
	w->todo = what;
	if (w->in_todo)
		return;
	w->in_todo = true;
	w->todo_next = NULL;
	*(s->todo_tail ? &s->todo_tail->todo_next : &s->todo_head) = w;
	s->todo_tail = w;
}

static bool alive(const struct worker *w)
{
	return !w->leaving && w->state != LX_W_RETIRED && w->state != LX_W_GONE && !w->hopeless;
}

static void count_usable(struct lx_sched *s, struct worker *w)
{
	s->usable -= w->counted;
	w->counted = alive(w);
	s->usable += w->counted;
}

static bool others_live(const struct lx_sched *s, const struct worker *w)
{
	return s->usable > w->counted;
}

static uint32_t depth(const struct lx_sched *s, const struct worker *w)
{
	uint64_t d = (uint64_t)w->slots * (s->conf.depth ? s->conf.depth : w->per_slot);
	return d > UINT32_MAX ? UINT32_MAX : (uint32_t)d;
}

/* ---- room ---- */

static bool may_take(const struct lx_sched *s, const struct batch *b, const struct worker *w)
{
	return b->not_on != w->number || !others_live(s, w);
}

/* One of the first recovered batches could go to w. */
static bool wanted(const struct lx_sched *s, const struct worker *w)
{
	unsigned looks = 8;
	for (const struct batch *b = s->recover.head; b && looks; b = b->next, looks--)
		if (may_take(s, b, w))
			return true;
	return false;
}

static bool runs_suspect(const struct worker *w)
{
	return w->batches.head && w->batches.head->recovered;
}

void sched_place(struct lx_sched *s, struct worker *w)
{
	uint64_t n = w->batches.n;
	struct worker_list *to = NULL;
	if (w->state == LX_W_READY && !w->stalled && !runs_suspect(w)) {
		if (n && (w->in == &s->reserved || (s->recover.n > s->reserved.n && wanted(s, w))))
			to = &s->reserved;
		else if (n < w->slots)
			to = &s->free;
		else if (n < depth(s, w))
			to = &s->room;
	}
	if (to == &s->free && w->in != to)
		w->free_ns = s->now;
	worker_move(to, w);
}

void sched_unreserve(struct lx_sched *s)
{
	while (s->reserved.n > s->recover.n) {
		struct worker *w = s->reserved.tail;
		worker_del(w);
		sched_place(s, w);
		if (w->in == &s->reserved)
			break;
	}
}

static struct worker *empty_after(struct worker *w)
{
	while (w && w->batches.n)
		w = w->next;
	return w;
}

struct batch *sched_recovered(struct lx_sched *s, struct worker **worker)
{
	if (!s->recover.n)
		return NULL;
	struct worker *first = empty_after(s->free.head);
	for (struct batch *b = s->recover.head; b && first; b = b->next) {
		struct worker *w = first;
		while (w && !may_take(s, b, w))
			w = empty_after(w->next);
		if (w) {
			batch_list_del(b);
			*worker = w;
			return b;
		}
	}
	return NULL;
}

/* ---- timers: one per worker, in a heap; it may ring early, never late ---- */

static void heap_set(struct lx_sched *s, size_t i, struct worker *w)
{
	s->heap[i] = w;
	w->heap_at = i + 1;
}

static void heap_up(struct lx_sched *s, size_t i)
{
	struct worker *w = s->heap[i];
	for (; i && s->heap[(i - 1) / 2]->timer_ns > w->timer_ns; i = (i - 1) / 2)
		heap_set(s, i, s->heap[(i - 1) / 2]);
	heap_set(s, i, w);
}

static void heap_down(struct lx_sched *s, size_t i)
{
	struct worker *w = s->heap[i];
	for (size_t c; (c = 2 * i + 1) < s->heap_n; i = c) {
		if (c + 1 < s->heap_n && s->heap[c + 1]->timer_ns < s->heap[c]->timer_ns)
			c++;
		if (s->heap[c]->timer_ns >= w->timer_ns)
			break;
		heap_set(s, i, s->heap[c]);
	}
	heap_set(s, i, w);
}

static void timer_off(struct lx_sched *s, struct worker *w)
{
	if (!w->heap_at)
		return;
	size_t i = w->heap_at - 1;
	struct worker *last = s->heap[--s->heap_n];
	w->heap_at = 0;
	if (last == w)
		return;
	heap_set(s, i, last);
	heap_up(s, i);
	heap_down(s, last->heap_at - 1);
}

static void timer_at(struct lx_sched *s, struct worker *w, uint64_t t)
{
	if (t == LX_SCHED_NEVER) {
		timer_off(s, w);
		return;
	}
	w->timer_ns = t;
	if (!w->heap_at)
		heap_set(s, s->heap_n++, w);
	size_t i = w->heap_at - 1;
	heap_up(s, i);
	heap_down(s, w->heap_at - 1);
}

static uint64_t later(uint64_t t, uint64_t by)
{
	return by > LX_SCHED_NEVER - t ? LX_SCHED_NEVER : t + by;
}

/* When the batch that has run longest is over its time. */
static uint64_t batch_due(const struct lx_sched *s, const struct worker *w)
{
	uint64_t t = LX_SCHED_NEVER, i = 0;
	if (!s->conf.timeout_ns)
		return t;
	for (const struct batch *b = w->batches.head; b && i < w->slots; b = b->next, i++) {
		uint64_t due = later(b->run_ns, s->conf.timeout_ns);
		t = due < t ? due : t;
	}
	return t;
}

static uint64_t silence_due(const struct worker *w)
{
	return w->beats_ns && w->beats_ns < LX_SCHED_NEVER / BEATS ? later(w->heard_ns, BEATS * w->beats_ns) : LX_SCHED_NEVER;
}

static uint64_t due(const struct lx_sched *s, const struct worker *w)
{
	if (w->state == LX_W_DOWN)
		return w->since_ns;
	if (w->state == LX_W_STARTING)
		return s->conf.start_timeout_ns ? later(w->since_ns, s->conf.start_timeout_ns) : LX_SCHED_NEVER;
	if (w->state != LX_W_READY && w->state != LX_W_LEAVING)
		return LX_SCHED_NEVER;
	uint64_t a = batch_due(s, w), b = silence_due(w);
	return a < b ? a : b;
}

static void timer_set(struct lx_sched *s, struct worker *w)
{
	timer_at(s, w, due(s, w));
}

static void kill_worker(struct lx_sched *s, struct worker *w, enum lx_loss why)
{
	w->killed_starting = w->state == LX_W_STARTING;
	w->state = LX_W_KILLED;
	w->kill_loss = why;
	sched_place(s, w);
	timer_off(s, w);
	sched_todo(s, w, LX_DO_KILL);
}

static void ring(struct lx_sched *s, struct worker *w)
{
	if (w->state == LX_W_DOWN) {
		timer_off(s, w);
		if (s->ended && !s->held)
			return;
		w->state = LX_W_STARTING;
		w->since_ns = s->now;
		w->beats_ns = 0; /* a new life says so itself */
		s->stats.starts++;
		sched_todo(s, w, LX_DO_START);
		timer_set(s, w);
	} else if (w->state == LX_W_STARTING) {
		kill_worker(s, w, w->far ? LX_LOSS_HOST : LX_LOSS_CRASH);
	} else {
		kill_worker(s, w, s->now >= batch_due(s, w) ? LX_LOSS_TIMEOUT : LX_LOSS_HOST);
	}
}

void sched_timers(struct lx_sched *s)
{
	while (s->heap_n && s->heap[0]->timer_ns <= s->now) {
		struct worker *w = s->heap[0];
		if (due(s, w) > s->now)
			timer_set(s, w);
		else
			ring(s, w);
	}
}

/* ---- coming ---- */

static struct worker *worker_room(struct lx_sched *s)
{
	for (size_t i = 0; i < s->n_workers; i++)
		if (s->workers[i]->state == LX_W_GONE && s->workers[i]->attached && !s->workers[i]->in_todo)
			return s->workers[i];
	if (s->n_workers == s->cap_workers) {
		size_t cap = s->cap_workers ? s->cap_workers * 2 : 16;
		struct worker **v = realloc(s->workers, cap * sizeof *v);
		if (v)
			s->workers = v;
		struct worker **h = v ? realloc(s->heap, cap * sizeof *h) : NULL;
		if (!h)
			return NULL;
		s->heap = h;
		s->cap_workers = cap;
	}
	struct worker *w = calloc(1, sizeof *w);
	if (w) {
		w->number = (int)s->n_workers;
		s->workers[s->n_workers++] = w;
	}
	return w;
}

int lx_sched_worker(struct lx_sched *s, bool attached, uint64_t now_ns, struct lx_err *e)
{
	s->now = now_ns;
	struct worker *w = worker_room(s);
	if (!w)
		return sched_oom(e);
	w->attached = attached;
	w->leaving = w->far = false;
	w->state = attached ? LX_W_STARTING : LX_W_DOWN;
	w->beats_ns = 0;
	w->slots = 1;
	w->per_slot = 2;
	w->strikes = w->flaps = w->failed_starts = w->losses = 0;
	w->since_ns = now_ns;
	count_usable(s, w);
	timer_set(s, w);
	return w->number;
}

void lx_sched_ready(struct lx_sched *s, int number, uint32_t slots, uint64_t beats_ns, uint64_t now_ns)
{
	struct worker *w = s->workers[number];
	s->now = now_ns;
	if (w->state != LX_W_STARTING)
		return;
	s->was_ready = true;
	w->hopeless = false;
	w->state = LX_W_READY;
	count_usable(s, w);
	w->slots = slots ? slots : 1;
	w->per_slot = 2;
	w->base_ns = w->usual = w->settle = 0;
	w->beats_ns = beats_ns;
	w->heard_ns = now_ns;
	w->failed_starts = 0;
	w->stalled = false;
	w->ring_at = 0;
	if (w->ring)
		memset(w->ring, 0, RING * sizeof *w->ring);
	sched_place(s, w);
	timer_set(s, w);
}

void lx_sched_far(struct lx_sched *s, int number)
{
	s->workers[number]->far = true;
}

void lx_sched_heard(struct lx_sched *s, int number, uint64_t now_ns)
{
	s->now = now_ns;
	s->workers[number]->heard_ns = now_ns;
}

void lx_sched_stalled(struct lx_sched *s, int number, bool stalled, uint64_t now_ns)
{
	s->now = now_ns;
	s->workers[number]->stalled = stalled;
	sched_place(s, s->workers[number]);
}

void lx_sched_leave(struct lx_sched *s, int number, uint64_t now_ns)
{
	struct worker *w = s->workers[number];
	s->now = now_ns;
	if (w->state == LX_W_DOWN || w->state == LX_W_STARTING || w->state == LX_W_READY) {
		bool down = w->state == LX_W_DOWN;
		w->leaving = true;
		w->state = down ? LX_W_GONE : LX_W_LEAVING;
		count_usable(s, w);
		sched_place(s, w);
		timer_set(s, w);
		if (!down && !w->batches.n)
			sched_todo(s, w, LX_DO_STOP);
	}
}

/* ---- work ---- */

static void run_more(struct lx_sched *s, struct worker *w)
{
	uint64_t i = 0;
	for (struct batch *b = w->batches.head; b && i < w->slots; b = b->next, i++)
		if (b->run_ns == LX_SCHED_NEVER)
			b->run_ns = s->now;
}

void sched_send(struct lx_sched *s, struct worker *w, struct batch *b)
{
	b->serial = ++s->serial;
	b->worker = w;
	b->sent_ns = s->now;
	b->run_ns = LX_SCHED_NEVER;
	b->alone = !w->batches.n;
	b->sent_items = (uint32_t)b->items.n;
	for (struct item *it = b->items.head; it; it = it->next) {
		sched_unsent_del(s, it);
		if (sched_sent_add(s, it) < 0) {
			sched_give_up(s, "no memory for a batch");
			return;
		}
		it->node->n_sent++;
		s->stats.resent += it->sent_before;
		it->sent_before = true;
	}
	s->stats.sent += b->items.n;
	s->stats.batches++;
	s->stats.batch_items += b->items.n;
	s->stats.full_batches += b->full;
	w->items += b->items.n;
	batch_list_add(&w->batches, b);
	run_more(s, w);
	if (w->in == &s->free)
		worker_del(w); /* to the end of the line */
	sched_place(s, w);
	if (s->conf.timeout_ns || w->beats_ns)
		timer_set(s, w);
}

/* Batches in flight are too few when the worker is seen to have nothing behind what it runs, too many when
 * more than one a slot waits there: expected queue = outstanding * (1 - least time / this time). */
static void adapt(struct lx_sched *s, struct worker *w, const struct batch *b)
{
	uint64_t took = s->now - b->sent_ns, out = w->batches.n;
	w->usual += b->sent_items - w->usual / 8;
	bool usual_size = b->sent_items * 16ull >= w->usual;
	if (b->alone && usual_size && (!w->base_ns || took < w->base_ns))
		w->base_ns = took;
	if (s->conf.depth || !w->base_ns || !took || !usual_size || out < depth(s, w))
		return;
	if (w->settle) {
		w->settle--;
		return;
	}
	double waits = took > w->base_ns ? (double)out * (double)(took - w->base_ns) / (double)took : 0;
	if (waits < 0.5 * w->slots && w->per_slot < PER_SLOT_MAX)
		w->per_slot += (w->per_slot + 1) / 2;
	else if (waits > 1.5 * w->slots && w->per_slot > 2)
		w->per_slot--;
	else
		return;
	if (w->per_slot > PER_SLOT_MAX)
		w->per_slot = PER_SLOT_MAX;
	w->settle = depth(s, w);
}

void sched_batch_done(struct lx_sched *s, struct batch *b)
{
	struct worker *w = b->worker;
	adapt(s, w, b);
	batch_list_del(b);
	sched_batch_free(s, b);
	run_more(s, w);
	sched_place(s, w);
	if (s->conf.timeout_ns || w->beats_ns)
		timer_set(s, w);
	if (w->state == LX_W_LEAVING && !w->batches.n)
		sched_todo(s, w, LX_DO_STOP);
}

/* ---- loss ---- */

static int charge(struct lx_sched *s, struct item *it, enum lx_loss loss)
{
	struct node *n = it->node;
	bool probe = it->probe;
	sched_unsent_del(s, it);
	sched_tally(s, n, failed);
	it->loss = loss;
	sched_end_item(s, it, LX_FAILED);
	if (sched_bad(s, n, it->ordinal) < 0)
		return -1;
	if (probe && !n->barred)
		sched_release(s, n);
	sched_node_rest(s, n);
	s->charged_now = true;
	return 0;
}

/* Whatever one loss cost, it says one thing about the stage. */
static void count_charges(struct lx_sched *s)
{
	if (s->charged_now && s->conf.max_charges && ++s->charge_row >= s->conf.max_charges)
		sched_give_up(s, "%u losses in a row failed what their workers had, and no item was answered (--max-crashes)", s->charge_row);
	s->charged_now = false;
}

static void forgive(struct lx_sched *s, int number, uint32_t strikes)
{
	if (number < 0)
		return;
	struct worker *w = s->workers[number];
	w->strikes -= strikes < w->strikes ? strikes : w->strikes;
}

static void lost_alone(struct item *it, int number)
{
	if (it->on[0] != number) {
		int other = it->on[0];
		uint16_t times = it->on[1] == number ? it->lost[1] : 0;
		it->two |= other >= 0;
		it->on[1] = other;
		it->lost[1] = it->lost[0];
		it->on[0] = number;
		it->lost[0] = times;
	}
	it->lost[0]++;
	it->alone++;
}

static bool guilty(const struct lx_sched *s, const struct worker *w, const struct item *it)
{
	return it->alone > s->conf.retries && (it->two || !others_live(s, w));
}

/* The unanswered items of a batch are unsent again. Those doomed meanwhile end here. */
static void take_back(struct lx_sched *s, struct batch *b)
{
	for (struct item *it = b->items.head, *next; it; it = next) {
		next = it->next;
		struct node *n = it->node;
		sched_sent_del(s, it);
		n->n_sent--;
		s->stats.sent--;
		if (!n->barred) {
			sched_unsent_add(s, it);
			continue;
		}
		list_del(it);
		sched_tally(s, n, discarded);
		sched_end_item(s, it, n->barred);
		sched_node_rest(s, n);
	}
}

static void suspect(struct lx_sched *s, struct batch *b)
{
	b->recovered = true;
	batch_list_add_front(&s->recover, b);
}

/* The second half of b as a batch of its own. */
static struct batch *halve(struct lx_sched *s, struct batch *b)
{
	struct batch *half = sched_batch(s);
	if (!half)
		return NULL;
	half->bucket = b->bucket;
	uint64_t keep = (b->items.n + 1) / 2;
	struct item *it = b->items.head;
	while (keep--)
		it = it->next;
	for (struct item *next; it; it = next) {
		next = it->next;
		list_del(it);
		it->batch = half;
		list_add(&half->items, it);
	}
	return half;
}

static int charge_all(struct lx_sched *s, struct batch *b, enum lx_loss loss)
{
	while (b->items.head) {
		struct item *it = b->items.head;
		list_del(it);
		it->batch = NULL;
		it->alone = b->deaths ? b->deaths : 1;
		it->on[0] = b->worker->number;
		if (charge(s, it, loss) < 0)
			return -1;
	}
	forgive(s, b->worker->number, b->deaths ? b->deaths : 1);
	sched_batch_free(s, b);
	return 0;
}

static int charge_one(struct lx_sched *s, struct batch *b, enum lx_loss loss)
{
	struct item *it = b->items.head;
	forgive(s, it->on[0], it->lost[0]);
	forgive(s, it->on[1], it->lost[1]);
	list_del(it);
	it->batch = NULL;
	sched_batch_free(s, b);
	return charge(s, it, loss);
}

static int bisect(struct lx_sched *s, struct worker *w, struct batch *b, bool alone, enum lx_loss loss)
{
	if (b->items.n > 1) {
		struct batch *half = halve(s, b);
		if (!half)
			return -1;
		suspect(s, half);
		suspect(s, b);
		return 0;
	}
	if (alone) {
		lost_alone(b->items.head, w->number);
		if (guilty(s, w, b->items.head))
			return charge_one(s, b, loss);
		b->not_on = w->number;
	}
	suspect(s, b);
	return 0;
}

/* A batch the worker was running when it was lost. */
static int ran(struct lx_sched *s, struct worker *w, struct batch *b, bool alone, enum lx_loss loss)
{
	b->deaths++;
	switch (s->conf.on_crash) {
	case LX_CRASH_BISECT:
		return bisect(s, w, b, alone, loss);
	case LX_CRASH_RETRY:
		if (b->deaths > s->conf.retries)
			return charge_all(s, b, loss);
		suspect(s, b);
		return 0;
	case LX_CRASH_FAIL:
		return charge_all(s, b, loss);
	case LX_CRASH_ABORT:
		break;
	}
	suspect(s, b);
	sched_give_up(s, "%llu item%s unanswered (--on-crash abort)", (unsigned long long)b->items.n, b->items.n == 1 ? "" : "s");
	return 0;
}

static int recover(struct lx_sched *s, struct worker *w, struct batch *b, bool running, bool alone, enum lx_loss loss)
{
	batch_list_del(b);
	take_back(s, b);
	b->full = false;
	if (!b->items.n) {
		sched_batch_free(s, b);
		return 0;
	}
	if (loss == LX_LOSS_HOST || loss == LX_LOSS_LEFT) {
		batch_list_add_front(b->recovered ? &s->recover : &s->formed, b);
		return 0;
	}
	if (running)
		return ran(s, w, b, alone, loss);
	suspect(s, b);
	return 0;
}

/* From the last to the first, so that the first ends up in front. What was over its time is to blame for a
 * time-out, not what ran beside it. */
static int recover_all(struct lx_sched *s, struct worker *w, enum lx_loss loss)
{
	bool many = w->batches.n > 1;
	bool alone = w->batches.n == 1 && w->batches.head->sent_items == 1 && w->batches.head->alone;
	while (w->batches.tail) {
		struct batch *b = w->batches.tail;
		bool running = w->batches.n <= w->slots && b->run_ns != LX_SCHED_NEVER;
		if (running && many && loss == LX_LOSS_TIMEOUT && s->conf.timeout_ns)
			running = s->now - b->run_ns >= s->conf.timeout_ns;
		if (recover(s, w, b, running, alone, loss) < 0)
			return -1;
	}
	w->items = 0;
	return 0;
}

static uint64_t jitter(struct lx_sched *s, uint64_t ns)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return ns / 2 + (uint64_t)((double)ns * ((double)(s->rng >> 11) / 9007199254740992.0));
}

static uint64_t backoff(struct lx_sched *s, struct worker *w)
{
	uint64_t ns = s->conf.backoff_ns;
	for (uint32_t i = 0; i < w->flaps && ns < s->conf.backoff_max_ns; i++)
		ns *= 2;
	if (ns > s->conf.backoff_max_ns)
		ns = s->conf.backoff_max_ns;
	w->flaps += w->flaps < 64;
	return jitter(s, ns);
}

static bool spent(const struct lx_sched *s, const struct worker *w)
{
	return (s->conf.max_strikes && w->strikes >= s->conf.max_strikes) || w->failed_starts >= s->conf.max_starts;
}

/* What becomes of the worker itself. `busy`: it had items unanswered. */
static void fate(struct lx_sched *s, struct worker *w, enum lx_loss loss, bool busy)
{
	w->stalled = false;
	if (loss == LX_LOSS_LEFT || w->attached || w->leaving) {
		w->state = LX_W_GONE;
	} else if (spent(s, w) && loss != LX_LOSS_HOST) {
		w->state = LX_W_RETIRED;
		s->stats.retired++;
		sched_todo(s, w, LX_DO_RETIRE);
	} else {
		w->hopeless |= spent(s, w);
		w->state = LX_W_DOWN;
		w->since_ns = s->now + (busy && loss != LX_LOSS_HOST ? 0 : backoff(s, w));
	}
	count_usable(s, w);
	timer_set(s, w);
}

int lx_sched_lost(struct lx_sched *s, int number, enum lx_loss loss, uint64_t now_ns, struct lx_err *e)
{
	struct worker *w = s->workers[number];
	s->now = now_ns;
	if (w->state == LX_W_DOWN || w->state == LX_W_RETIRED || w->state == LX_W_GONE)
		return 0;
	bool busy = w->batches.n, started = w->state == LX_W_STARTING;
	if (w->state == LX_W_KILLED) {
		loss = w->kill_loss;
		started = w->killed_starting;
	}
	w->todo = LX_DO_NOTHING;
	if (loss != LX_LOSS_LEFT) {
		w->losses++;
		w->strikes++;
		w->failed_starts += started;
		s->stats.losses++;
	}
	w->state = LX_W_KILLED; /* gets nothing meanwhile */
	sched_place(s, w);
	timer_off(s, w);
	if (recover_all(s, w, loss) < 0)
		return sched_oom(e);
	count_charges(s);
	fate(s, w, loss, busy);
	return 0;
}

struct lx_worker_view lx_sched_view(const struct lx_sched *s, int number)
{
	const struct worker *w = s->workers[number];
	return (struct lx_worker_view){
		.state = w->state, .slots = w->slots, .depth = depth(s, w), .batches = (uint32_t)w->batches.n,
		.items = w->items, .answered = w->answered, .strikes = w->strikes, .losses = w->losses,
		.reserved = w->in == &s->reserved, .hopeless = w->hopeless,
	};
}

void sched_pool_free(struct lx_sched *s)
{
	for (size_t i = 0; i < s->n_workers; i++) {
		free(s->workers[i]->ring);
		free(s->workers[i]);
	}
	free(s->workers);
	free(s->heap);
}

void sched_pool_wake(struct lx_sched *s)
{
	for (size_t i = 0; i < s->n_workers; i++)
		timer_set(s, s->workers[i]);
}

/* sim_sched [-v] [SCHEDULES [FIRST-SEED]]: drive the scheduler (lib/sched.h) with seeded random schedules in
 * simulated time and compare each with a naive model.
 *
 * A schedule is a random tree of items, an order of arrival, a configuration, and a pool of workers that
 * are slow, die, hang, fall silent, fail to start, join and leave. Some items drop, fail (with any scope),
 * kill or hang every worker, or only the first. The model below knows the rules by their definition and
 * nothing of how the scheduler keeps them: it looks at every item after every event.
 * A schedule that breaks a rule prints the rule and the command that replays it.
 */
#include "sched.h"

#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_ITEMS 96
#define MAX_ANCS 64
#define MAX_WORKERS 12
#define MAX_QUEUE 64 /* batches at a worker */
#define MAX_EVENTS 4096
#define NEVER LX_SCHED_NEVER
#define MS 1000u /* one "millisecond" of the simulation */

enum fate { GOOD, DROP, FAIL, WIDE, POISON, HANG, FLAKY };
enum state { AWAY, UNSENT, SENT, ENDED };
enum proof { FRESH, PROBING, PROVEN };

struct anc { /* an item above the call's domain */
	struct lx_id id;
	int parent;
	enum lx_outcome as; /* barred */
	uint64_t bad, count;
	bool counted;
	enum proof proof;
	int probe;
	uint64_t received, failed, dropped, never, discarded, left;
	bool untold;    /* doomed here: the scheduler has to say so */
	bool forgotten; /* all its children had ended before it was doomed: nobody knows it any more */
};

struct thing {
	struct lx_id id;
	int anc; /* -1: a root item */
	uint64_t bytes, cost;
	uint32_t bucket, wide_n;
	enum fate fate;
	bool gone; /* arrives non-present */
	enum lx_outcome gone_as;
	/* the model */
	enum state st;
	int worker, sends, alone, last_alone, deaths, hosts, max_batch;
	bool two, was_sent, preferred, recovered, flaked;
	uint64_t key, since; /* key: place among the preferred */
	int fixed;           /* its batch by order of arrival */
	int answered_by, answered_life;
};

enum ev { READY, ANSWER, DEATH, BEAT, JOIN, LEAVE, STALL, UNSTALL, FOREIGN };

struct event {
	uint64_t t, seq;
	enum ev what;
	int worker, life, item;
	enum lx_loss loss;
	uint64_t phys;
};

struct sim_batch {
	uint64_t serial, run;
	int items[MAX_ITEMS], n, open;
	bool alone, recovered;
};

struct wk {
	int life;
	bool attached, up, stalled, starting, start_silent;
	uint32_t slots;
	uint64_t speed, latency, beats, free_since, dead_at, lane[4], heard, start_at;
	struct sim_batch q[MAX_QUEUE];
	int nq;
	int in_row;       /* losses since the last answer */
	int flaps, failed_starts;
	uint64_t lost_at;
	bool lost_busy, first_start, reserved, leaving;
	enum lx_loss lost_kind;
	bool kill_asked, stop_asked;
	int loss_count;
	bool just_lost;
};

static struct {
	uint64_t seed, rng, now;
	struct lx_sched *s;
	struct lx_sched_conf conf;
	struct anc anc[MAX_ANCS];
	int n_anc;
	struct thing item[MAX_ITEMS];
	int n_items;
	struct arrival { enum { A_ITEM, A_ANC, A_CLOSE, A_BAR } what; int i; enum lx_outcome as; uint32_t anchor_n; uint64_t t; } arr[MAX_ITEMS + 3 * MAX_ANCS];
	int n_arr, at_arr;
	struct wk w[MAX_WORKERS];
	int n_w;
	struct event heap[MAX_EVENTS];
	int n_heap;
	uint64_t seq, key;
	bool was_ready; /* some worker, once */
	uint64_t alone; /* since when none has been there though one was wanted; NEVER */
	bool strict, plain, ended, gave_up, forgot; /* plain: one bucket, no bytes, no cost */
	uint64_t queue_since;
	int queued;
	int fixed_batch[4], fixed_n[4], fixed_next;
	uint64_t fixed_bytes[4], fixed_cost[4];
	bool fixed_open[MAX_ITEMS + 4];
	int charge_row;     /* losses that charged something, since the last answer */
	bool charge_counted; /* the last loss is in it */
	int chaos; /* how much goes wrong, percent */
	int reason;

} m;

static bool verbose;
static jmp_buf out;
static char said[256];

__attribute__((format(printf, 1, 2), noreturn)) static void broken(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(said, sizeof said, fmt, ap);
	va_end(ap);
	longjmp(out, 1);
}

#define RULE(cond, ...) \
	do { \
		if (!(cond)) \
			broken(__VA_ARGS__); \
	} while (0)

#define TELL(...) \
	do { \
		if (verbose) { \
			printf("# %8" PRIu64 " ", m.now); \
			printf(__VA_ARGS__); \
			putchar('\n'); \
		} \
	} while (0)

static uint64_t rnd(uint64_t n)
{
	m.rng ^= m.rng << 13;
	m.rng ^= m.rng >> 7;
	m.rng ^= m.rng << 17;
	return n ? (m.rng * 0x2545f4914f6cdd1dull >> 20) % n : 0;
}

static bool chance(unsigned percent)
{
	return rnd(100) < percent;
}

/* ---- events in simulated time ---- */

static bool before(const struct event *a, const struct event *b)
{
	return a->t != b->t ? a->t < b->t : a->seq < b->seq;
}

static void push(struct event e)
{
	RULE(m.n_heap < MAX_EVENTS, "the simulator has too many events");
	e.seq = ++m.seq;
	int i = m.n_heap++;
	for (; i && before(&e, &m.heap[(i - 1) / 2]); i = (i - 1) / 2)
		m.heap[i] = m.heap[(i - 1) / 2];
	m.heap[i] = e;
}

static struct event pop(void)
{
	struct event top = m.heap[0], e = m.heap[--m.n_heap];
	int i = 0;
	for (int c; (c = 2 * i + 1) < m.n_heap; i = c) {
		if (c + 1 < m.n_heap && before(&m.heap[c + 1], &m.heap[c]))
			c++;
		if (!before(&m.heap[c], &e))
			break;
		m.heap[i] = m.heap[c];
	}
	m.heap[i] = e;
	return top;
}

/* ---- making a schedule ---- */

static enum fate random_fate(void)
{
	static const enum fate bad[] = { DROP, FAIL, FAIL, WIDE, POISON, POISON, HANG, FLAKY };
	if (!chance(m.chaos))
		return GOOD;
	enum fate f = bad[rnd(8)];
	return f == HANG && !m.conf.timeout_ns ? POISON : f;
}

static void make_item(int anc, uint64_t ordinal)
{
	if (m.n_items == MAX_ITEMS)
		return;
	struct thing *x = &m.item[m.n_items++];
	*x = (struct thing){ .anc = anc, .last_alone = -1, .answered_by = -1, .max_batch = MAX_ITEMS };
	x->id = anc < 0 ? (struct lx_id){ .n = 1, .ord = { ordinal } } : lx_id_child(&m.anc[anc].id, ordinal);
	x->bytes = 1 + rnd(100);
	x->cost = rnd(20);
	x->bucket = m.plain ? 0 : rnd(3);
	x->fate = random_fate();
	x->wide_n = m.conf.levels > 1 ? 1 + rnd(m.conf.levels - 1) : 1;
	if (x->fate == WIDE && m.conf.levels == 1)
		x->fate = FAIL;
	x->gone = chance(m.chaos / 4);
	x->gone_as = 1 + rnd(3);
}

static int make_anc(int parent, uint64_t ordinal)
{
	if (m.n_anc == MAX_ANCS)
		return -1;
	struct anc *a = &m.anc[m.n_anc];
	*a = (struct anc){ .parent = parent, .probe = -1 };
	a->id = parent < 0 ? (struct lx_id){ .n = 1, .ord = { ordinal } } : lx_id_child(&m.anc[parent].id, ordinal);
	return m.n_anc++;
}

static uint64_t tail(void)
{
	return chance(20) ? rnd(16) : rnd(4);
}

static void make_below(int anc)
{
	uint64_t n = tail();
	m.anc[anc].count = n;
	for (uint64_t i = 0; i < n; i++) {
		if (m.anc[anc].id.n + 1 == m.conf.levels) {
			if (m.n_items == MAX_ITEMS) {
				m.anc[anc].count = i;
				return;
			}
			make_item(anc, i);
		} else {
			int c = make_anc(anc, i);
			if (c < 0) {
				m.anc[anc].count = i;
				return;
			}
			make_below(c);
		}
	}
}

static void arrive(int what, int i, enum lx_outcome as, uint32_t anchor_n)
{
	m.arr[m.n_arr++] = (struct arrival){ what, i, as, anchor_n, 0 };
}

static void make_arrivals(void)
{
	for (int i = 0; i < m.n_items; i++)
		arrive(A_ITEM, i, m.item[i].gone ? m.item[i].gone_as : LX_PRESENT,
		       chance(20) && m.conf.levels > 1 ? 1 + rnd(m.conf.levels - 1) : m.conf.levels);
	for (int i = 0; i < m.n_anc; i++) {
		struct anc *a = &m.anc[i];
		if (chance(m.chaos / 6))
			arrive(A_ANC, i, 1 + rnd(3), a->id.n);
		if (chance(80))
			arrive(A_CLOSE, i, chance(m.chaos / 8) ? LX_FAILED : LX_PRESENT, 0);
		if (chance(m.chaos / 8))
			arrive(A_BAR, i, chance(30) ? LX_DROPPED : LX_SUPPRESSED, 0);
	}
	/* Items come in order of their parents; the order is broken up within a window. */
	uint64_t window = chance(30) ? (uint64_t)m.n_arr : chance(50) ? 1 : 1 + rnd(8);
	for (int i = 0; i < m.n_arr; i++) {
		uint64_t far = window < (uint64_t)(m.n_arr - i) ? window : (uint64_t)(m.n_arr - i);
		int j = i + (int)rnd(far);
		struct arrival t = m.arr[i];
		m.arr[i] = m.arr[j];
		m.arr[j] = t;
	}
	uint64_t t = 0, gap = chance(50) ? 0 : rnd(5 * MS);
	for (int i = 0; i < m.n_arr; i++) {
		t += chance(10) ? rnd(30 * MS) : rnd(gap + 1);
		m.arr[i].t = t;
	}
}

static void make_conf(void)
{
	static const enum lx_sched_order orders[] = { LX_ORDER_PROBE, LX_ORDER_PROBE, LX_ORDER_PROBE, LX_ORDER_FIFO, LX_ORDER_FIXED, LX_ORDER_PROBES_FIRST };
	struct lx_sched_conf *c = &m.conf;
	*c = (struct lx_sched_conf)LX_SCHED_CONF_DEFAULT;
	c->levels = 1 + rnd(3);
	for (int i = 0; i <= LX_ID_MAX; i++)
		if (chance(30))
			c->tolerance[i] = (struct lx_tolerance){ chance(40), chance(50) ? 1 : 3000 };
	for (int i = 0; i <= LX_ID_MAX; i++)
		if (!c->tolerance[i].percent && c->tolerance[i].n > 2)
			c->tolerance[i].n = 2;
	c->max_items = chance(20) ? 1 : 1 + rnd(9);
	c->max_bytes = m.plain ? 0 : rnd(3) * 60;
	c->max_cost = m.plain ? 0 : rnd(2) * 25;
	c->linger_ns = chance(20) ? 0 : rnd(15) * MS;
	c->order = orders[rnd(6)];
	c->depth = rnd(4);
	c->max_ready = chance(30) ? c->max_items + rnd(10) : 1000;
	c->max_ready_bytes = chance(20) ? 200 : 1u << 30;
	c->max_parents = m.strict ? 1000 : rnd(3);
	c->on_crash = chance(75) ? LX_CRASH_BISECT : rnd(20) ? (enum lx_on_crash)(1 + rnd(2)) : LX_CRASH_ABORT;
	c->retries = rnd(3);
	c->timeout_ns = chance(40) ? (50 + rnd(100)) * MS : 0;
	c->start_timeout_ns = chance(50) ? 40 * MS : 0;
	c->backoff_ns = 5 * MS;
	c->backoff_max_ns = 100 * MS;
	c->max_strikes = chance(20) ? 2 + rnd(4) : 1000;
	c->max_charges = chance(20) ? 2 + rnd(3) : 0;
	c->seed = m.seed;
	c->elastic = chance(20);
	c->join_ns = chance(60) ? (2 + rnd(60)) * MS : 0;
}

static void add_worker(bool attached)
{
	struct lx_err e = LX_ERR_INIT;
	int n = lx_sched_worker(m.s, attached, m.now, &e);
	RULE(n >= 0 && n < MAX_WORKERS && n <= m.n_w, "a new worker is number %d", n);
	if (n == m.n_w)
		m.n_w++;
	int life = m.w[n].life;
	m.w[n] = (struct wk){ .life = life + 1, .attached = attached, .first_start = true, .dead_at = NEVER };
	if (!attached)
		return;
	TELL("worker %d joins", n);
	m.w[n].starting = true;
	m.w[n].start_at = m.now;
	if (chance(50))
		push((struct event){ .t = m.now + rnd(150 * MS), .what = LEAVE, .worker = n });
	if (chance(m.chaos) && (!m.conf.start_timeout_ns || chance(70))) /* gone before it is ready, else perhaps silent */
		push((struct event){ .t = m.now + rnd(20 * MS), .what = DEATH, .worker = n, .life = m.w[n].life, .phys = m.now, .loss = chance(50) ? LX_LOSS_HOST : LX_LOSS_CRASH });
	else if (!m.conf.start_timeout_ns || !chance(m.chaos))
		push((struct event){ .t = m.now + rnd(20 * MS), .what = READY, .worker = n, .life = m.w[n].life });
}

static void make(uint64_t seed)
{
	memset(&m, 0, sizeof m);
	m.alone = NEVER;
	m.seed = seed;
	m.rng = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
	rnd(2);
	m.strict = chance(85);
	m.plain = chance(70);
	m.chaos = chance(25) ? 0 : chance(60) ? 10 : 40;
	make_conf();
	uint64_t roots = 1 + rnd(m.conf.levels == 1 ? 30 : 8);
	for (uint64_t i = 0; i < roots; i++) {
		if (m.conf.levels == 1) {
			make_item(-1, i);
		} else {
			int a = make_anc(-1, i);
			if (a >= 0)
				make_below(a);
		}
	}
	make_arrivals();
	struct lx_err e = LX_ERR_INIT;
	m.s = lx_sched_new(&m.conf, &e);
	RULE(m.s, "%s", e.msg);
	TELL("order %d, %u items, linger %" PRIu64 ", depth %u, ready %" PRIu64 ", %" PRIu64 " bytes, crash %d, retries %u, timeout %" PRIu64, m.conf.order,
	     m.conf.max_items, m.conf.linger_ns, m.conf.depth, m.conf.max_ready, m.conf.max_ready_bytes, m.conf.on_crash, m.conf.retries, m.conf.timeout_ns);
	uint64_t workers = m.conf.elastic && chance(50) ? rnd(3) : 1 + rnd(5);
	for (uint64_t i = 0; i < workers; i++)
		add_worker(false);
	if (m.conf.elastic)
		for (uint64_t i = rnd(9); i > 0; i--)
			push((struct event){ .t = rnd(200 * MS), .what = JOIN });
	if (!workers)
		return;
	if (chance(m.chaos))
		push((struct event){ .t = rnd(200 * MS), .what = LEAVE, .worker = rnd(workers) });
	for (int i = chance(20) ? 3 : 0; i > 0; i--)
		push((struct event){ .t = rnd(100 * MS), .what = STALL, .worker = rnd(workers) });
	if (chance(20))
		push((struct event){ .t = rnd(100 * MS), .what = FOREIGN, .worker = rnd(workers) });
}

/* ---- the model: doom ---- */

static bool is_below(int a, int top)
{
	for (; a >= 0; a = m.anc[a].parent)
		if (a == top)
			return true;
	return false;
}

static bool all_ended(int a)
{
	for (int i = 0; i < m.n_items; i++)
		if (m.item[i].anc == a && m.item[i].st != ENDED)
			return false;
	return m.anc[a].counted;
}

/* told: it came from outside. */
static void model_bar(int a, enum lx_outcome as, bool told)
{
	if (!m.anc[a].as && !told)
		m.anc[a].untold = true;
	for (int i = 0; i < m.n_anc; i++)
		if (is_below(i, a) && !m.anc[i].as)
			m.anc[i].as = as;
}

static void model_bad_check(int a, uint32_t child_n)
{
	struct lx_tolerance t = m.conf.tolerance[child_n];
	struct anc *x = &m.anc[a];
	if (x->as || !x->bad || (t.percent && t.n && !x->counted))
		return;
	uint64_t bears = !t.n ? 0 : t.percent ? x->count * t.n / 10000 : t.n;
	if (x->bad > bears)
		model_bar(a, LX_SUPPRESSED, false);
}

static void model_bad(int a, uint32_t child_n)
{
	if (a < 0)
		return;
	if (!m.anc[a].as)
		m.anc[a].bad++;
	model_bad_check(a, child_n);
}

static enum lx_outcome barred(const struct thing *x)
{
	return x->anc < 0 ? LX_PRESENT : m.anc[x->anc].as;
}

static int anc_at(int a, uint32_t n)
{
	while (a >= 0 && m.anc[a].id.n > n)
		a = m.anc[a].parent;
	return a;
}

/* ---- the model: the queue ---- */

static bool in_queue(const struct thing *x)
{
	return x->st == UNSENT && !x->was_sent && m.conf.order != LX_ORDER_FIXED;
}

static bool probing(void)
{
	return m.conf.order == LX_ORDER_PROBE || m.conf.order == LX_ORDER_PROBES_FIRST;
}

static bool is_probe(const struct thing *x)
{
	return x->anc >= 0 && m.anc[x->anc].probe == x - m.item;
}

/* Released siblings come before probes, or the other way round. */
static uint64_t place(const struct thing *x)
{
	bool late = is_probe(x) != (m.conf.order == LX_ORDER_PROBES_FIRST);
	return x->key + (probing() && late ? 1ull << 40 : 0);
}

static void leave_queue(const struct thing *x)
{
	if (in_queue(x))
		m.queued--;
}

static void model_enqueue(struct thing *x)
{
	x->since = m.now;
	if (m.conf.order == LX_ORDER_FIXED)
		return;
	if (!m.queued++)
		m.queue_since = m.now;
	x->preferred = true;
	x->key = ++m.key;
	struct anc *a = x->anc < 0 ? NULL : &m.anc[x->anc];
	if (!probing() || !a || a->proof == PROVEN)
		return;
	if (a->proof == FRESH) {
		a->proof = PROBING;
		a->probe = (int)(x - m.item);
	} else {
		x->preferred = false;
	}
}

static void model_release(struct thing *probe)
{
	struct anc *a = probe->anc < 0 ? NULL : &m.anc[probe->anc];
	if (!a || a->probe != probe - m.item || a->as || a->proof != PROBING)
		return;
	a->proof = PROVEN;
	/* in order of arrival, which is the order of the keys they had */
	for (;;) {
		struct thing *next = NULL;
		for (int i = 0; i < m.n_items; i++) {
			struct thing *x = &m.item[i];
			if (in_queue(x) && !x->preferred && x->anc == probe->anc && (!next || x->key < next->key))
				next = x;
		}
		if (!next)
			return;
		next->preferred = true;
		next->key = ++m.key;
	}
}

static bool over(const struct thing *x)
{
	return (m.conf.max_bytes && x->bytes > m.conf.max_bytes) || (m.conf.max_cost && x->cost > m.conf.max_cost);
}

static void model_fixed_close(uint32_t b)
{
	if (m.fixed_n[b])
		m.fixed_open[m.fixed_batch[b]] = false;
	m.fixed_n[b] = 0;
}

static void model_fixed(struct thing *x)
{
	uint32_t b = x->bucket;
	const struct lx_sched_conf *c = &m.conf;
	if (m.fixed_n[b] && ((c->max_bytes && m.fixed_bytes[b] + x->bytes > c->max_bytes) ||
	                     (c->max_cost && m.fixed_cost[b] + x->cost > c->max_cost)))
		model_fixed_close(b);
	if (!m.fixed_n[b]) {
		m.fixed_batch[b] = m.fixed_next++;
		m.fixed_bytes[b] = m.fixed_cost[b] = 0;
		m.fixed_open[m.fixed_batch[b]] = true;
	}
	x->fixed = m.fixed_batch[b];
	m.fixed_bytes[b] += x->bytes;
	m.fixed_cost[b] += x->cost;
	if (++m.fixed_n[b] == (int)c->max_items || (c->max_bytes && m.fixed_bytes[b] >= c->max_bytes) ||
	    (c->max_cost && m.fixed_cost[b] >= c->max_cost))
		model_fixed_close(b);
}

/* ---- events: input ---- */

static void arrive_item(struct thing *x, const struct arrival *a)
{
	struct lx_err e = LX_ERR_INIT;
	struct anc *p = x->anc < 0 ? NULL : &m.anc[x->anc];
	if (p)
		p->received++;
	if (a->as) {
		x->st = ENDED;
		uint32_t anchor = a->anchor_n;
		if (p) {
			*(a->as == LX_DROPPED ? &p->dropped : a->as == LX_FAILED ? &p->failed : &p->never) += 1;
			if (a->as != LX_DROPPED)
				model_bad(x->anc, x->id.n);
			if (anchor < x->id.n)
				model_bar(anc_at(x->anc, anchor), LX_SUPPRESSED, true);
		}
		RULE(lx_sched_gone(m.s, &x->id, a->as, anchor, &e) == 0, "%s", e.msg);
		return;
	}
	x->st = UNSENT;
	if (m.conf.order == LX_ORDER_FIXED)
		model_fixed(x);
	if (!barred(x))
		model_enqueue(x);
	else
		x->was_sent = x->was_sent; /* it only waits for its LX_DO_BARRED */
	struct lx_arrival in = { .id = &x->id, .bytes = x->bytes, .cost = x->cost, .bucket = x->bucket, .data = x };
	bool was_barred = barred(x);
	if (was_barred)
		x->key = 0;
	RULE(lx_sched_item(m.s, &in, m.now, &e) == 0, "%s", e.msg);
}

static void arrive_one(const struct arrival *a)
{
	struct lx_err e = LX_ERR_INIT;
	struct anc *x = a->what == A_ITEM ? NULL : &m.anc[a->i];
	switch (a->what) {
	case A_ITEM:
		TELL("item %d (anc %d, %" PRIu64 " bytes) %s", a->i, m.item[a->i].anc, m.item[a->i].bytes, a->as ? "gone" : "");
		arrive_item(&m.item[a->i], a);
		return;
	case A_ANC:
		TELL("anc %d gone %d", a->i, a->as);
		if (a->as != LX_DROPPED)
			model_bad(x->parent, x->id.n);
		model_bar(a->i, a->as == LX_DROPPED ? LX_DROPPED : LX_SUPPRESSED, true);
		RULE(lx_sched_gone(m.s, &x->id, a->as, a->anchor_n, &e) == 0, "%s", e.msg);
		return;
	case A_CLOSE:
		TELL("anc %d close %d", a->i, a->as);
		if (a->as) {
			model_bar(a->i, LX_SUPPRESSED, true);
		} else {
			x->counted = true;
			model_bad_check(a->i, x->id.n + 1);
		}
		RULE(lx_sched_close(m.s, &x->id, x->count, a->as, &e) == 0, "%s", e.msg);
		return;
	case A_BAR:
		TELL("anc %d bar %d", a->i, a->as);
		model_bar(a->i, a->as, true);
		RULE(lx_sched_bar(m.s, &x->id, a->as, &e) == 0, "%s", e.msg);
		return;
	}
}

/* ---- workers in simulated time ---- */

static int live_others(int w)
{
	int n = 0;
	for (int i = 0; i < m.n_w; i++) {
		struct lx_worker_view v = lx_sched_view(m.s, i);
		n += i != w && !v.hopeless && !m.w[i].leaving && v.state != LX_W_RETIRED && v.state != LX_W_GONE;
	}
	return n;
}

/* The worker gets a batch: all that will come of it is put on the calendar now; what lies after its death is
 * void when its time comes. */
static void work(int w, struct sim_batch *b)
{
	struct wk *k = &m.w[w];
	uint32_t lane = 0;
	for (uint32_t i = 1; i < k->slots; i++)
		if (k->lane[i] < k->lane[lane])
			lane = i;
	uint64_t t = k->lane[lane] > m.now + k->latency ? k->lane[lane] : m.now + k->latency;
	if (t == NEVER)
		return;
	int order[MAX_ITEMS];
	for (int i = 0; i < b->n; i++)
		order[i] = b->items[i];
	bool shuffled = chance(40), at_end = chance(40);
	for (int i = b->n - 1; shuffled && i > 0; i--) {
		int j = (int)rnd(i + 1), x = order[i];
		order[i] = order[j];
		order[j] = x;
	}
	uint64_t end = t + k->speed * b->n;
	for (int i = 0; i < b->n; i++) {
		struct thing *x = &m.item[order[i]];
		t += rnd(2 * k->speed) + 1;
		bool kills = x->fate == POISON || (x->fate == FLAKY && !x->flaked) || chance(m.chaos > 10 ? 1 : 0);
		if (kills) {
			x->flaked = true;
			push((struct event){ .t = t + k->latency, .what = DEATH, .worker = w, .life = k->life, .phys = t, .loss = LX_LOSS_CRASH });
			k->lane[lane] = NEVER;
			return;
		}
		if (x->fate == HANG) {
			k->lane[lane] = NEVER;
			return;
		}
		uint64_t at = at_end && end > t ? end : t;
		push((struct event){ .t = at + k->latency, .what = ANSWER, .worker = w, .life = k->life, .item = order[i], .phys = at });
	}
	k->lane[lane] = t > end ? t : end;
	if (chance(m.chaos / 20))
		push((struct event){ .t = t, .what = DEATH, .worker = w, .life = k->life, .phys = t, .loss = chance(50) ? LX_LOSS_HOST : LX_LOSS_CRASH });
}

static void start(int w)
{
	struct wk *k = &m.w[w];
	uint64_t t = m.now + rnd(20 * MS);
	k->starting = true;
	k->start_at = m.now;
	k->dead_at = NEVER;
	k->life++;
	if (chance(m.chaos / 2)) {
		if (m.conf.start_timeout_ns && chance(30))
			return; /* never heard of again */
		push((struct event){ .t = t, .what = DEATH, .worker = w, .life = k->life, .phys = t, .loss = chance(30) ? LX_LOSS_HOST : LX_LOSS_CRASH });
		return;
	}
	push((struct event){ .t = t, .what = READY, .worker = w, .life = k->life });
}

static void become_ready(int w)
{
	struct wk *k = &m.w[w];
	k->starting = false;
	k->up = m.was_ready = true;
	k->stalled = k->kill_asked = k->stop_asked = false;
	k->dead_at = NEVER;
	k->nq = 0;
	k->failed_starts = 0;
	k->slots = chance(70) ? 1 : 1 + rnd(3);
	k->speed = (1 + rnd(4)) * MS;
	k->latency = chance(60) ? 0 : rnd(30) * MS;
	k->beats = chance(25) ? 10 * MS : 0;
	k->heard = m.now;
	k->free_since = m.now;
	memset(k->lane, 0, sizeof k->lane);
	lx_sched_ready(m.s, w, k->slots, k->beats, m.now);
	if (k->beats)
		push((struct event){ .t = m.now + k->beats, .what = BEAT, .worker = w, .life = k->life });
	if (chance(m.chaos / 8)) {
		uint64_t t = m.now + rnd(100 * MS);
		push((struct event){ .t = t, .what = DEATH, .worker = w, .life = k->life, .phys = t, .loss = chance(40) ? LX_LOSS_HOST : LX_LOSS_CRASH });
	}
}

static bool suspect_runs(const struct wk *k)
{
	return k->nq && k->q[0].recovered;
}

static bool is_free(int w)
{
	const struct wk *k = &m.w[w];
	return k->up && !k->stalled && k->nq < (int)k->slots && !suspect_runs(k) && !k->kill_asked;
}

static void run_more(struct wk *k)
{
	for (int i = 0; i < k->nq && i < (int)k->slots; i++)
		if (k->q[i].run == NEVER)
			k->q[i].run = m.now;
}

static void batch_off(struct wk *k, int i)
{
	bool full = k->nq >= (int)k->slots || suspect_runs(k);
	memmove(&k->q[i], &k->q[i + 1], (k->nq - i - 1) * sizeof k->q[0]);
	k->nq--;
	run_more(k);
	if (full)
		k->free_since = m.now;
}

static int batch_of(const struct wk *k, int item)
{
	for (int i = 0; i < k->nq; i++)
		for (int j = 0; j < k->q[i].n; j++)
			if (k->q[i].items[j] == item)
				return i;
	return -1;
}

static enum lx_outcome outcome_of(const struct thing *x)
{
	return x->fate == DROP ? LX_DROPPED : x->fate == FAIL || x->fate == WIDE ? LX_FAILED : LX_PRESENT;
}

static void model_answer(struct thing *x, enum lx_outcome o, bool discard)
{
	struct anc *a = x->anc < 0 ? NULL : &m.anc[x->anc];
	x->st = ENDED;
	m.charge_row = 0;
	if (!a)
		return;
	if (discard) {
		a->discarded++;
		return;
	}
	*(o == LX_FAILED ? &a->failed : o == LX_DROPPED ? &a->dropped : &a->left) += 1;
	if (o == LX_FAILED)
		model_bad(x->anc, x->id.n);
	if (x->fate == WIDE)
		model_bar(anc_at(x->anc, x->wide_n), LX_SUPPRESSED, false);
	model_release(x);
}

static void on_answer(const struct event *ev)
{
	struct wk *k = &m.w[ev->worker];
	struct thing *x = &m.item[ev->item];
	struct lx_err e = LX_ERR_INIT;
	void *data = NULL;
	enum lx_outcome as = LX_PRESENT, o = outcome_of(x);
	uint32_t anchor = x->fate == WIDE ? x->wide_n : x->id.n;
	if (ev->life != k->life || ev->phys > k->dead_at)
		return;
	if (!k->up) {
		if (k->starting)
			return;
		enum lx_answer r = lx_sched_answer(m.s, ev->worker, &x->id, o, anchor, m.now, &data, &as, &e);
		RULE(r == LX_ANS_LATE, "late answer for %d says %d", ev->item, r);
		return;
	}
	bool discard = barred(x) && o != LX_FAILED;
	enum lx_outcome want = barred(x);
	TELL("answer %d from %d (%d)", ev->item, ev->worker, o);
	int b = batch_of(k, ev->item);
	RULE(b >= 0, "the simulator lost item %d", ev->item);
	enum lx_answer r = lx_sched_answer(m.s, ev->worker, &x->id, o, anchor, m.now, &data, &as, &e);
	RULE(data == x, "answer for %d hands back another item", ev->item);
	if (m.strict) {
		RULE(r == (discard ? LX_ANS_BARRED : LX_ANS_COMMIT), "commit: item %d, barred %d, answer says %d", ev->item, want, r);
		RULE(!discard || as == want, "item %d becomes %d, not %d", ev->item, as, want);
	}
	RULE(r == LX_ANS_BARRED || r == LX_ANS_COMMIT, "answer says %d", r);
	model_answer(x, o, r == LX_ANS_BARRED);
	x->answered_by = ev->worker;
	x->answered_life = k->life;
	k->in_row = k->flaps = 0;
	k->heard = m.now;
	if (!--k->q[b].open)
		batch_off(k, b);
}

/* What a loss means for what was there. */
static void model_loss(int w, enum lx_loss loss)
{
	struct wk *k = &m.w[w];
	bool alone = k->nq == 1 && k->q[0].n == 1 && k->q[0].alone;
	int others = live_others(w);
	bool infra = loss == LX_LOSS_CRASH || loss == LX_LOSS_TIMEOUT;
	for (int i = 0; i < k->nq; i++) {
		struct sim_batch *b = &k->q[i];
		bool ran = i < (int)k->slots && b->run != NEVER;
		if (ran && loss == LX_LOSS_TIMEOUT && k->nq > 1)
			ran = m.now - b->run >= m.conf.timeout_ns;
		for (int j = 0; j < b->n; j++) {
			struct thing *x = &m.item[b->items[j]];
			if (x->st != SENT || x->worker != w)
				continue;
			x->st = UNSENT;
			x->worker = -1;
			x->since = m.now;
			if (!infra) {
				x->hosts++;
				continue;
			}
			x->recovered = true;
			x->deaths += ran;
			if (ran && b->open > 1 && m.conf.on_crash == LX_CRASH_BISECT)
				x->max_batch = (b->open + 1) / 2;
			if (alone) {
				x->two |= x->last_alone >= 0 && x->last_alone != w;
				x->last_alone = w;
				x->alone++;
			}
			x->fixed = -1 - (x->alone > (int)m.conf.retries && (x->two || !others)); /* -2: guilty */
		}
	}
	k->nq = 0;
}

static void on_death(const struct event *ev)
{
	struct wk *k = &m.w[ev->worker];
	struct lx_err e = LX_ERR_INIT;
	if (ev->life != k->life || ev->phys > k->dead_at || (!k->up && !k->starting))
		return;
	struct lx_worker_view v = lx_sched_view(m.s, ev->worker);
	if (v.state == LX_W_GONE || v.state == LX_W_DOWN || v.state == LX_W_RETIRED)
		return;
	enum lx_loss loss = k->kill_asked ? k->lost_kind : ev->loss;
	bool busy = false;
	for (int i = 0; i < m.n_items; i++)
		busy |= m.item[i].st == SENT && m.item[i].worker == ev->worker;
	TELL("worker %d lost (%d)%s", ev->worker, loss, busy ? " busy" : "");
	k->lost_busy = busy && loss != LX_LOSS_HOST;
	k->lost_at = m.now;
	k->lost_kind = loss;
	if (loss != LX_LOSS_LEFT) {
		k->in_row++;
		k->loss_count++;
		k->failed_starts += k->starting;
	}
	model_loss(ev->worker, loss);
	m.charge_counted = false;
	k->up = k->starting = false;
	k->just_lost = true;
	RULE(lx_sched_lost(m.s, ev->worker, ev->loss, m.now, &e) == 0, "%s", e.msg);
	if (!chance(30))
		k->life++; /* its pipe is closed; else late answers still come */
}

static void on_foreign(const struct event *ev)
{
	struct wk *k = &m.w[ev->worker];
	struct lx_err e = LX_ERR_INIT;
	void *data;
	enum lx_outcome as;
	if (!k->up || k->kill_asked || !m.n_items)
		return;
	for (int i = 0; i < m.n_items; i++) {
		struct thing *x = &m.item[i];
		if (x->st == SENT && x->worker == ev->worker)
			continue;
		bool twice = x->answered_by == ev->worker && x->answered_life == k->life;
		enum lx_answer r = lx_sched_answer(m.s, ev->worker, &x->id, LX_PRESENT, x->id.n, m.now, &data, &as, &e);
		RULE(r == (twice ? LX_ANS_TWICE : LX_ANS_STRANGER), "an answer for %d, %s, says %d", i,
		     twice ? "answered" : "not there", r);
		k->heard = m.now;
	}
}

static void on_event(const struct event *ev)
{
	struct wk *k = &m.w[ev->worker];
	bool same = ev->life == k->life;
	switch (ev->what) {
	case READY:
		if (same && k->starting && !k->up && !k->kill_asked && !k->stop_asked) {
			TELL("worker %d ready", ev->worker);
			become_ready(ev->worker);
		}
		return;
	case ANSWER:
		on_answer(ev);
		return;
	case DEATH:
		on_death(ev);
		return;
	case BEAT:
		if (!same || !k->up || k->dead_at != NEVER)
			return;
		k->heard = m.now;
		lx_sched_heard(m.s, ev->worker, m.now);
		if (!chance(m.chaos / 10)) /* else it falls silent */
			push((struct event){ .t = m.now + k->beats, .what = BEAT, .worker = ev->worker, .life = k->life });
		return;
	case JOIN:
		if (m.n_w < MAX_WORKERS)
			add_worker(true);
		return;
	case LEAVE:
		TELL("worker %d is to leave", ev->worker);
		k->leaving |= lx_sched_view(m.s, ev->worker).state <= LX_W_READY;
		lx_sched_leave(m.s, ev->worker, m.now);
		k->stalled |= k->up; /* gets nothing more */
		return;
	case STALL:
		if (!k->up || k->stalled)
			return;
		k->stalled = true;
		lx_sched_stalled(m.s, ev->worker, true, m.now);
		push((struct event){ .t = m.now + rnd(20 * MS), .what = UNSTALL, .worker = ev->worker, .life = k->life });
		return;
	case UNSTALL:
		if (!same || !k->up || lx_sched_view(m.s, ev->worker).state == LX_W_LEAVING)
			return;
		k->stalled = false;
		k->free_since = m.now;
		lx_sched_stalled(m.s, ev->worker, false, m.now);
		return;
	case FOREIGN:
		on_foreign(ev);
		return;
	}
}

/* ---- actions, checked ---- */

static bool waiting_left(void)
{
	for (int i = 0; i < m.n_items; i++)
		if (in_queue(&m.item[i]) && !m.item[i].preferred && !barred(&m.item[i]))
			return true;
	return false;
}

static bool model_full(void)
{
	uint64_t n = 0, bytes = 0;
	for (int i = 0; i < m.n_items; i++) {
		const struct thing *x = &m.item[i];
		if (x->st != UNSENT || barred(x))
			continue;
		if (m.conf.order == LX_ORDER_FIXED && !x->was_sent && m.fixed_open[x->fixed])
			continue;
		n++;
		bytes += x->bytes;
	}
	return n >= m.conf.max_ready || bytes >= m.conf.max_ready_bytes;
}

static bool lingered(const struct wk *k)
{
	if ((m.ended || model_full()) && !waiting_left())
		return true;
	uint64_t from = k->free_since > m.queue_since ? k->free_since : m.queue_since;
	return m.now >= from + m.conf.linger_ns;
}

static int held_by(int anc)
{
	int n = 0;
	for (int i = 0; i < m.n_items; i++)
		n += in_queue(&m.item[i]) && !m.item[i].preferred && m.item[i].anc == anc;
	return n;
}

/* Open parents come after closed ones. */
static int held_rank(int anc)
{
	int n = held_by(anc);
	return n && !m.anc[anc].counted ? n + 1000 : n;
}

static void check_fewest(const struct thing *x)
{
	int mine = held_rank(x->anc);
	for (int i = 0; i < m.n_anc; i++) {
		int n = held_rank(i);
		RULE(!n || n >= mine, "order: a sibling of a parent that holds %d was taken, another holds %d", mine, n);
	}
}

/* One that is not in the batch but should have come before x. */
static void check_order(const struct thing *x, bool x_preferred)
{
	for (int i = 0; i < m.n_items; i++) {
		const struct thing *y = &m.item[i];
		if (y == x || !in_queue(y) || barred(y) || over(y) || y->bucket != x->bucket)
			continue;
		if (x_preferred)
			RULE(!y->preferred || place(y) > place(x), "order: item %d before item %d", (int)(x - m.item), i);
		else
			RULE(!y->preferred || !m.plain, "order: sibling %d of an unanswered probe before item %d", (int)(x - m.item), i);
	}
}

static void check_new(int w, struct thing *const *v, int n, uint64_t bytes, uint64_t cost)
{
	struct wk *k = &m.w[w];
	bool free_now = k->nq < (int)k->slots;
	bool full = n == (int)m.conf.max_items || (!m.plain && (m.conf.max_bytes || m.conf.max_cost));
	if (m.conf.order == LX_ORDER_FIXED) {
		for (int i = 0; i < n; i++) {
			RULE(v[i]->fixed == v[0]->fixed, "fixed: items of two batches in one");
			RULE(!m.fixed_open[v[i]->fixed], "fixed: a batch went before it was closed");
			v[i]->st = SENT;
		}
		for (int i = 0; i < m.n_items; i++)
			RULE(!(m.item[i].st == UNSENT && !m.item[i].was_sent && !barred(&m.item[i]) && m.item[i].fixed == v[0]->fixed),
			     "fixed: item %d was left out of its batch", i);
		return;
	}
	RULE(free_now || full, "a part-filled batch (%d) for worker %d, which is not free", n, w);
	RULE(full || lingered(k) || !m.strict, "a part-filled batch before the linger");
	for (int i = 0; i < n; i++) {
		struct thing *x = v[i];
		if (!x->preferred && m.strict) {
			RULE(free_now, "sibling of an unanswered probe for a worker that is not free");
			RULE(lingered(k), "sibling of an unanswered probe before the linger");
		}
		if (m.strict && !over(x)) {
			if (!x->preferred && m.plain)
				check_fewest(x);
			check_order(x, x->preferred);
		}
		leave_queue(x);
		x->st = SENT;
	}
	(void)bytes;
	(void)cost;
}

static void check_again(int w, struct thing *const *v, int n, bool recovered)
{
	struct wk *k = &m.w[w];
	for (int i = 0; i < n; i++) {
		struct thing *x = v[i];
		RULE(x->was_sent, "a batch mixes new items and others");
		RULE(recovered || !x->recovered, "suspect item %d sent as if it were not", (int)(x - m.item));
		RULE(n <= x->max_batch, "bisection: item %d in a batch of %d, should be %d at most", (int)(x - m.item), n, x->max_batch);
		if (m.conf.on_crash == LX_CRASH_BISECT)
			RULE(x->last_alone != w || !live_others(w), "item %d was lost alone on worker %d and goes there again", (int)(x - m.item), w);
		RULE(x->fixed != -2 || m.conf.on_crash != LX_CRASH_BISECT, "item %d is guilty and was sent again", (int)(x - m.item));
	}
	RULE(!recovered || !k->nq, "a suspect for worker %d, which has other work", w);
}

static void on_send(const struct lx_action *a)
{
	struct wk *k = &m.w[a->worker];
	struct thing *v[MAX_ITEMS];
	uint64_t bytes = 0, cost = 0;
	int n = (int)a->n_items;
	RULE(n > 0 && n <= (int)m.conf.max_items, "a batch of %d", n);
	RULE(k->up && !k->kill_asked && !k->stalled, "a batch for worker %d, which cannot take it", a->worker);
	RULE(!suspect_runs(k), "a batch behind a suspect");
	uint32_t depth = m.conf.depth ? m.conf.depth : 16;
	RULE(k->nq < (int)(depth * k->slots), "worker %d has %d batches", a->worker, k->nq);
	struct sim_batch *b = &k->q[k->nq];
	*b = (struct sim_batch){ .serial = a->batch, .n = n, .open = n, .run = NEVER, .alone = !k->nq, .recovered = a->recovered };
	for (int i = 0; i < n; i++) {
		v[i] = a->items[i];
		struct thing *x = v[i];
		TELL("send %d to %d%s%s", (int)(x - m.item), a->worker, x->preferred ? "" : " (unproven)", a->recovered ? " (suspect)" : "");
		RULE(x->st == UNSENT, "item %d was sent but is not ready", (int)(x - m.item));
		RULE(!m.strict || !barred(x), "dispatch: item %d is barred", (int)(x - m.item));
		RULE(x->bucket == v[0]->bucket || !v[0]->bucket, "two buckets in one batch");
		bytes += x->bytes;
		cost += x->cost;
		b->items[i] = (int)(x - m.item);
	}
	RULE(n == 1 || !m.conf.max_bytes || bytes <= m.conf.max_bytes, "a batch of %" PRIu64 " bytes", bytes);
	RULE(n == 1 || !m.conf.max_cost || cost <= m.conf.max_cost, "a batch of cost %" PRIu64, cost);
	RULE(a->bytes == bytes && a->cost == cost, "the sums of a batch are wrong");
	if (v[0]->was_sent)
		check_again(a->worker, v, n, a->recovered);
	else
		check_new(a->worker, v, n, bytes, cost);
	for (int i = 0; i < n; i++) {
		struct thing *x = v[i];
		x->st = SENT;
		x->was_sent = true;
		x->worker = a->worker;
		x->sends++;
		int most = 4 + 2 * x->hosts + (int)m.conf.retries + 2;
		for (uint32_t h = 1; h < m.conf.max_items; h *= 2)
			most++;
		RULE(x->sends <= most || m.conf.on_crash != LX_CRASH_BISECT, "item %d was sent %d times", (int)(x - m.item), x->sends);
	}
	k->nq++;
	k->free_since = m.now;
	run_more(k);
	work(a->worker, b);
}

static void on_barred(const struct lx_action *a)
{
	struct thing *x = a->data;
	TELL("barred %d as %d", (int)(x - m.item), a->as);
	RULE(x->st == UNSENT, "item %d ended barred but was not ready", (int)(x - m.item));
	if (m.strict)
		RULE(barred(x) && a->as == barred(x), "item %d ended as %d, should be %d", (int)(x - m.item), a->as, barred(x));
	if (x->key)
		leave_queue(x);
	x->st = ENDED;
	if (x->anc >= 0)
		*(x->was_sent ? &m.anc[x->anc].discarded : &m.anc[x->anc].never) += 1;
}

static void on_charge(const struct lx_action *a)
{
	struct thing *x = a->data;
	int i = (int)(x - m.item);
	TELL("charged %d", i);
	RULE(x->st == UNSENT && x->was_sent, "item %d charged but not lost", i);
	switch (m.conf.on_crash) {
	case LX_CRASH_BISECT:
		RULE(x->alone > (int)m.conf.retries, "item %d charged after %d losses alone", i, x->alone);
		RULE(x->fixed == -2, "item %d charged after losses on one worker only", i);
		break;
	case LX_CRASH_RETRY:
		RULE(x->deaths > (int)m.conf.retries, "item %d charged after %d losses", i, x->deaths);
		break;
	case LX_CRASH_FAIL:
		RULE(x->deaths > 0, "item %d charged without a loss", i);
		break;
	case LX_CRASH_ABORT:
		broken("item %d charged, should have given up", i);
	}
	RULE(a->loss == LX_LOSS_CRASH || a->loss == LX_LOSS_TIMEOUT, "item %d charged for loss %d", i, a->loss);
	x->st = ENDED;
	m.charge_row += !m.charge_counted;
	m.charge_counted = true;
	if (x->anc >= 0) {
		m.anc[x->anc].failed++;
		model_bad(x->anc, x->id.n);
		model_release(x);
	}
}

static void on_start(const struct lx_action *a)
{
	struct wk *k = &m.w[a->worker];
	RULE(!k->leaving, "worker %d is started, but it was to leave", a->worker);
	RULE(!k->up && !k->starting && !k->attached, "worker %d started twice", a->worker);
	if (!k->first_start) {
		uint64_t least = 0, most = 0;
		if (!k->lost_busy) {
			uint64_t b = m.conf.backoff_ns;
			for (int i = 0; i < k->flaps && b < m.conf.backoff_max_ns; i++)
				b *= 2;
			b = b < m.conf.backoff_max_ns ? b : m.conf.backoff_max_ns;
			k->flaps++;
			least = b / 2;
			most = b + b / 2;
		}
		RULE(m.now >= k->lost_at + least && m.now <= k->lost_at + most, "worker %d started %" PRIu64 " after its loss, should be %" PRIu64 " to %" PRIu64,
		     a->worker, m.now - k->lost_at, least, most);
	}
	k->first_start = false;
	k->kill_asked = k->stop_asked = false;
	TELL("start %d", a->worker);
	start(a->worker);
}

static void on_kill(const struct lx_action *a)
{
	struct wk *k = &m.w[a->worker];
	bool late = false;
	for (int i = 0; i < k->nq && i < (int)k->slots; i++)
		late |= m.conf.timeout_ns && k->q[i].run != NEVER && m.now >= k->q[i].run + m.conf.timeout_ns;
	bool silent = k->up && k->beats && m.now >= k->heard + 4 * k->beats;
	bool slow = k->starting && m.conf.start_timeout_ns && m.now >= k->start_at + m.conf.start_timeout_ns;
	TELL("kill %d", a->worker);
	RULE(late || silent || slow, "worker %d killed for nothing", a->worker);
	RULE((a->loss == LX_LOSS_TIMEOUT) == late, "worker %d killed for %d", a->worker, a->loss);
	RULE((a->loss == LX_LOSS_HOST) == (silent && !late), "worker %d killed for %d", a->worker, a->loss);
	k->kill_asked = true;
	k->lost_kind = a->loss;
	k->dead_at = m.now;
	push((struct event){ .t = m.now + rnd(3 * MS), .what = DEATH, .worker = a->worker, .life = k->life, .phys = 0, .loss = LX_LOSS_CRASH });
}

static void on_stop(const struct lx_action *a)
{
	struct wk *k = &m.w[a->worker];
	RULE(!k->nq, "worker %d stopped with work", a->worker);
	k->stop_asked = true;
	push((struct event){ .t = m.now + rnd(3 * MS), .what = DEATH, .worker = a->worker, .life = k->life, .phys = 0, .loss = LX_LOSS_LEFT });
}

static void on_retire(const struct lx_action *a)
{
	struct wk *k = &m.w[a->worker];
	TELL("retire %d", a->worker);
	RULE(k->failed_starts >= (int)m.conf.max_starts || k->in_row >= (int)m.conf.max_strikes, "worker %d retired after %d failed starts, %d losses in a row",
	     a->worker, k->failed_starts, k->in_row);
}

static void on_give_up(const struct lx_action *a)
{
	TELL("give up: %s", a->why);
	bool any = false;
	for (int i = 0; i < m.n_w; i++) {
		struct lx_worker_view v = lx_sched_view(m.s, i);
		any |= !v.hopeless && !m.w[i].leaving && v.state != LX_W_RETIRED && v.state != LX_W_GONE;
	}
	bool row = m.conf.max_charges && m.charge_row >= (int)m.conf.max_charges;
	if (strstr(a->why, "joined"))
		RULE(!any && m.conf.elastic && m.conf.join_ns && m.now >= m.alone + m.conf.join_ns, "gave up waiting for a worker too early");
	else if (strstr(a->why, "no worker"))
		RULE(!any && !m.conf.elastic, "gave up with workers left");
	else if (strstr(a->why, "in a row"))
		RULE(row, "gave up after %d losses with charges", m.charge_row);
	else
		RULE(m.conf.on_crash == LX_CRASH_ABORT, "gave up: %s", a->why);
	m.gave_up = true;
}

static void on_bar(const struct lx_action *a)
{
	for (int i = 0; i < m.n_anc; i++)
		if (lx_id_eq(&m.anc[i].id, &a->id)) {
			RULE(!m.strict || m.anc[i].untold, "anc %d said to be doomed", i);
			m.anc[i].untold = false;
			return;
		}
	broken("an unknown item is said to be doomed");
}

static bool act(void)
{
	struct lx_action a;
	switch (lx_sched_next(m.s, m.now, &a)) {
	case LX_DO_NOTHING: return false;
	case LX_DO_SEND: on_send(&a); return true;
	case LX_DO_BARRED: on_barred(&a); return true;
	case LX_DO_CHARGE: on_charge(&a); return true;
	case LX_DO_BAR: on_bar(&a); return true;
	case LX_DO_START: on_start(&a); return true;
	case LX_DO_KILL: on_kill(&a); return true;
	case LX_DO_STOP: on_stop(&a); return true;
	case LX_DO_RETIRE: on_retire(&a); return true;
	case LX_DO_GIVE_UP: on_give_up(&a); return false;
	}
	return false;
}

/* ---- what must hold between events ---- */

static void check_workers(void)
{
	for (int w = 0; w < m.n_w; w++) {
		struct wk *k = &m.w[w];
		struct lx_worker_view v = lx_sched_view(m.s, w);
		if (!k->up)
			continue;
		RULE(v.batches == (uint32_t)k->nq, "worker %d has %d batches, is said to have %u", w, k->nq, v.batches);
		for (int i = 0; i < k->nq && i < (int)k->slots && m.conf.timeout_ns && !k->kill_asked; i++)
			RULE(m.now < k->q[i].run + m.conf.timeout_ns, "worker %d is over its time", w);
		RULE(k->kill_asked || k->stop_asked || !k->beats || m.now < k->heard + 4 * k->beats, "worker %d is silent", w);
	}
	for (int w = 0; w < m.n_w; w++) {
		struct wk *k = &m.w[w];
		RULE(!k->starting || k->kill_asked || k->stop_asked || !m.conf.start_timeout_ns || m.now < k->start_at + m.conf.start_timeout_ns, "worker %d starts for ever", w);
		if (!k->just_lost)
			continue;
		struct lx_worker_view v = lx_sched_view(m.s, w);
		if (k->lost_kind == LX_LOSS_CRASH && !k->attached && k->failed_starts >= (int)m.conf.max_starts)
			RULE(v.state == LX_W_RETIRED || v.state == LX_W_GONE, "worker %d failed to start %d times and is not retired", w, k->failed_starts);
		k->just_lost = false;
	}
}

/* Whether a worker is there, is wanted, and how long there has been none. */
static void check_alone(void)
{
	bool any = live_others(-1) > 0, wanted = lx_sched_held(m.s) || (!m.was_ready && !m.ended);
	if (any || !wanted)
		m.alone = NEVER;
	else if (m.alone == NEVER)
		m.alone = m.now;
	if (m.conf.elastic && m.conf.join_ns && m.alone != NEVER)
		RULE(m.gave_up || m.now < m.alone + m.conf.join_ns, "no worker since %" PRIu64 " and it does not give up", m.alone);
}

static bool may_go(const struct thing *x, int w)
{
	if (x->st != UNSENT || barred(x))
		return false;
	if (!x->was_sent)
		return m.conf.order != LX_ORDER_FIXED || !m.fixed_open[x->fixed];
	if (!x->recovered)
		return true;
	return !m.w[w].nq && (x->last_alone != w || !live_others(w));
}

static void check_idle(void)
{
	for (int w = 0; w < m.n_w; w++) {
		struct wk *k = &m.w[w];
		bool reserved = lx_sched_view(m.s, w).reserved; /* it waits for a suspect */
		if (k->reserved && !reserved)
			k->free_since = m.now;
		k->reserved = reserved;
		if (!is_free(w) || reserved || k->stop_asked)
			continue;
		for (int i = 0; i < m.n_items; i++) {
			const struct thing *x = &m.item[i];
			if (!may_go(x, w))
				continue;
			uint64_t from = x->since > k->free_since ? x->since : k->free_since;
			uint64_t until = from + (x->was_sent || m.conf.order == LX_ORDER_FIXED ? 0 : m.conf.linger_ns);
			RULE(m.now < until, "worker %d idles, item %d has been ready for %" PRIu64, w, i, m.now - x->since);
		}
	}
}

static void check_items(void)
{
	uint64_t sent = 0, held = 0;
	for (int i = 0; i < m.n_items; i++) {
		const struct thing *x = &m.item[i];
		RULE(x->st != UNSENT || !m.strict || !barred(x), "item %d is barred and still held", i);
		RULE(x->st != UNSENT || x->fixed != -2 || !x->recovered || m.conf.on_crash != LX_CRASH_BISECT, "item %d is guilty and not charged", i);
		sent += x->st == SENT;
		held += x->st == SENT || x->st == UNSENT;
	}
	const struct lx_sched_stats *st = lx_sched_stats(m.s);
	RULE(st->sent == sent && lx_sched_held(m.s) == held, "held %" PRIu64 ", said to be %" PRIu64, held, lx_sched_held(m.s));
	RULE(st->items == st->committed + st->barred + st->charged + held, "sum of items");
	RULE(st->ready == held - sent, "%" PRIu64 " ready, said to be %" PRIu64, held - sent, st->ready);
	RULE(lx_sched_full(m.s) == model_full() || !m.strict, "full %d", model_full());
}

static void check_accounts(void)
{
	for (int i = 0; i < m.n_anc; i++)
		m.anc[i].forgotten |= !m.anc[i].as && all_ended(i);
	const struct lx_sched_stats *st = lx_sched_stats(m.s);
	uint64_t received = 0, failed = 0, dropped = 0, never = 0, discarded = 0, left = 0, open = 0;
	for (int i = 0; i < m.n_anc; i++) {
		const struct anc *a = &m.anc[i];
		if (!a->as || a->id.n + 1 != m.conf.levels || a->forgotten)
			continue;
		received += a->received;
		failed += a->failed;
		dropped += a->dropped;
		never += a->never;
		discarded += a->discarded;
		left += a->left;
		for (int j = 0; j < m.n_items; j++)
			open += m.item[j].anc == i && m.item[j].st == SENT;
	}
	RULE(received - open == failed + dropped + never + discarded + left, "the model's own accounts");
	RULE(st->doom.failed == failed && st->doom.dropped == dropped && st->doom.never_sent == never && st->doom.discarded == discarded &&
	     st->doom.left == left && st->doom.received == received,
	     "accounts: received %" PRIu64 "/%" PRIu64 " failed %" PRIu64 "/%" PRIu64 " dropped %" PRIu64 "/%" PRIu64 " never sent %" PRIu64 "/%" PRIu64
	     " discarded %" PRIu64 "/%" PRIu64 " left %" PRIu64 "/%" PRIu64,
	     st->doom.received, received, st->doom.failed, failed, st->doom.dropped, dropped, st->doom.never_sent, never, st->doom.discarded, discarded,
	     st->doom.left, left);
}

static void check_memory(void)
{
	const struct lx_sched_stats *st = lx_sched_stats(m.s);
	uint64_t used = 0;
	for (int i = 0; i < m.n_anc; i++) {
		bool any = false;
		for (int j = 0; j < m.n_items; j++)
			any |= (m.item[j].st == SENT || m.item[j].st == UNSENT) && is_below(m.item[j].anc, i);
		used += any;
	}
	/* what is remembered keeps what is above it */
	RULE(st->parents <= used + (m.conf.max_parents + 1) * m.conf.levels, "%" PRIu64 " parents remembered, %" PRIu64 " in use", st->parents, used);
}

static void check_told(void)
{
	for (int i = 0; i < m.n_anc; i++)
		RULE(!m.strict || !m.anc[i].untold, "anc %d was doomed and nobody was told", i);
}

static void check_all(void)
{
	check_told();
	check_items();
	check_workers();
	check_alone();
	if (!m.gave_up)
		check_idle();
	if (m.strict)
		check_accounts();
	else
		check_memory();
}

/* ---- a run ---- */

static bool step(void)
{
	uint64_t due = lx_sched_deadline(m.s), t = due;
	bool input = m.at_arr < m.n_arr && !lx_sched_full(m.s);
	uint64_t in_t = input ? m.arr[m.at_arr].t : NEVER, ev_t = m.n_heap ? m.heap[0].t : NEVER;
	t = in_t < t ? in_t : t;
	t = ev_t < t ? ev_t : t;
	if (t == NEVER)
		return false;
	m.now = t > m.now ? t : m.now;
	if (ev_t <= m.now) {
		struct event ev = pop();
		on_event(&ev);
	} else if (in_t <= m.now) {
		arrive_one(&m.arr[m.at_arr++]);
		if (m.at_arr == m.n_arr)
			in_t = NEVER;
	}
	if (m.at_arr == m.n_arr && !m.ended) {
		m.ended = true;
		for (uint32_t b = 0; b < 4; b++)
			model_fixed_close(b);
		lx_sched_end(m.s);
		for (int i = 0; i < m.n_items; i++) /* their batches were closed just now */
			if (m.item[i].st == UNSENT && m.conf.order == LX_ORDER_FIXED && !m.item[i].was_sent)
				m.item[i].since = m.now;
	}
	return true;
}

static void run(void)
{
	int steps = 0;
	if (!m.n_arr) {
		m.ended = true;
		lx_sched_end(m.s);
	}
	for (;;) {
		int acts = 0;
		while (act())
			RULE(++acts < 100000, "no end of actions");
		check_all();
		if (m.gave_up || (m.ended && !lx_sched_held(m.s)))
			break;
		RULE(++steps < 20000, "no end: %" PRIu64 " held", lx_sched_held(m.s));
		if (!step()) {
			RULE(m.conf.elastic && !m.conf.join_ns, "stuck with %" PRIu64 " held", lx_sched_held(m.s));
			return; /* its last worker has gone and no other will join */
		}
	}
	for (int i = 0; i < m.n_items && !m.gave_up; i++)
		RULE(m.item[i].st == ENDED, "item %d never ended", i);
}

static int schedule(uint64_t seed)
{
	volatile int bad = 0;
	if (setjmp(out) == 0) {
		make(seed);
		run();
	} else {
		bad = 1;
		printf("# seed %" PRIu64 ": %s\n# replay: sim_sched -v 1 %" PRIu64 "\n", seed, said, seed);
	}
	lx_sched_free(m.s);
	m.s = NULL;
	return bad;
}

int main(int argc, char **argv)
{
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
	if (argc > 1 && strcmp(argv[1], "-v") == 0) {
		verbose = true;
		argc--;
		argv++;
	}
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	uint64_t bad = 0, i;
	for (i = 0; i < n && bad < 5; i++)
		bad += schedule(first + i);
	printf("%sok 1 - %" PRIu64 " schedules from seed %" PRIu64 "\n1..1\n", bad ? "not " : "", i, first);
	return bad != 0;
}

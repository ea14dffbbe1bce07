/* sim_loads [-v]: what the scheduler makes of the page-count loads, in simulated time.
 *
 * Parents with the page counts of tests/data/pagecounts.tsv, shuffled with a fixed seed (or the longest first);
 * children arrive one a microsecond while the ready queue takes them; a worker takes so long a child
 * and answers a batch as a whole. "ideal" is the sum of the work over the number of workers. The tests hold
 * the targets; -v prints the whole table: wall/ideal, fill, doomed siblings never sent, and when the
 * parents were finished on average, as part of the wall time.
 */
#include "sched.h"
#include "tap.h"

#include <inttypes.h>
#include <time.h>

#define US 1000ull
#define MS 1000000ull
#define MAX_PARENTS 4000
#define MAX_WORKERS 4096

struct load {
	uint32_t pages[MAX_PARENTS];
	bool poison[MAX_PARENTS];
	int n;
	uint64_t children;
};

struct setup {
	const struct load *load;
	enum lx_sched_order order;
	uint32_t workers, batch;
	uint64_t child_ns, latency_ns, max_ready;
	uint32_t depth;
};

struct result {
	double wall, fill, never, finished; /* wall over ideal; parts of one */
	double ns_item;                     /* CPU of the scheduler and this simulation, per child */
	uint64_t batches, unproven;
};

struct event {
	uint64_t t;
	int worker;
	uint32_t n;
	void **items;
};

static struct event heap[MAX_WORKERS * 40];
static size_t heap_n;

static void push(struct event e)
{
	size_t i = heap_n++;
	for (; i && heap[(i - 1) / 2].t > e.t; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = e;
}

static struct event pop(void)
{
	struct event top = heap[0], e = heap[--heap_n];
	size_t i = 0;
	for (size_t c; (c = 2 * i + 1) < heap_n; i = c) {
		if (c + 1 < heap_n && heap[c + 1].t < heap[c].t)
			c++;
		if (heap[c].t >= e.t)
			break;
		heap[i] = heap[c];
	}
	heap[i] = e;
	return top;
}

/* ---- loads ---- */

static uint32_t all[MAX_PARENTS];
static int n_all;

static int down(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;
	return (*x < *y) - (*x > *y);
}

static bool read_pages(void)
{
	FILE *f = fopen("tests/data/pagecounts.tsv", "r");
	char line[512];
	unsigned pages, times;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%u\t%u", &pages, &times) == 2)
			while (times-- && n_all < MAX_PARENTS)
				all[n_all++] = pages;
	if (f)
		fclose(f);
	qsort(all, n_all, sizeof all[0], down);
	return n_all == 3689;
}

/* The 99 longest and all of at most 23 pages, or everything. */
static void make_load(struct load *l, bool whole, bool poison, bool longest_first)
{
	memset(l, 0, sizeof *l);
	for (int i = 0; i < n_all; i++)
		if (whole || i < 99 || all[i] <= 23) {
			l->poison[l->n] = poison && i < 99;
			l->pages[l->n++] = all[i];
			l->children += all[i];
		}
	uint64_t r = 88172645463325252u;
	for (int i = l->n - 1; i > 0 && !longest_first; i--) {
		r ^= r << 13, r ^= r >> 7, r ^= r << 17;
		int j = (int)(r % (uint64_t)(i + 1));
		uint32_t p = l->pages[i];
		bool b = l->poison[i];
		l->pages[i] = l->pages[j], l->poison[i] = l->poison[j];
		l->pages[j] = p, l->poison[j] = b;
	}
}

/* ---- a run ---- */

static struct lx_sched *s;
static uint64_t now, busy_until[MAX_WORKERS], open_children[MAX_PARENTS];
static int at_parent;
static uint32_t at_child;

static struct lx_id id_of(uint64_t code)
{
	return (struct lx_id){ .n = 2, .ord = { code >> 16, code & 0xffff } };
}

static void feed(const struct setup *u)
{
	struct lx_err e = LX_ERR_INIT;
	uint64_t code = (uint64_t)at_parent << 16 | at_child;
	struct lx_id id = id_of(code);
	struct lx_arrival a = { .id = &id, .bytes = 1000, .data = (void *)(uintptr_t)(code + 1) };
	CHECK(lx_sched_item(s, &a, now, &e) == 0);
	if (++at_child < u->load->pages[at_parent])
		return;
	id.n = 1;
	CHECK(lx_sched_close(s, &id, u->load->pages[at_parent], LX_PRESENT, &e) == 0);
	at_child = 0;
	if (++at_parent == u->load->n)
		lx_sched_end(s);
}

static void send(const struct setup *u, const struct lx_action *a)
{
	struct event e = { .worker = a->worker, .n = a->n_items, .items = malloc(a->n_items * sizeof(void *)) };
	memcpy(e.items, a->items, a->n_items * sizeof(void *));
	uint64_t start = now + u->latency_ns / 2;
	start = busy_until[a->worker] > start ? busy_until[a->worker] : start;
	busy_until[a->worker] = start + u->child_ns * a->n_items;
	e.t = busy_until[a->worker] + u->latency_ns / 2;
	push(e);
}

static void ended(uint64_t code, double *finish_sum)
{
	if (!--open_children[code >> 16])
		*finish_sum += (double)now;
}

static void answer(const struct setup *u, struct event *e, double *finish_sum)
{
	struct lx_err err = LX_ERR_INIT;
	for (uint32_t i = 0; i < e->n; i++) {
		uint64_t code = (uint64_t)(uintptr_t)e->items[i] - 1;
		struct lx_id id = id_of(code);
		bool bad = u->load->poison[code >> 16] && (code & 0xffff) == 0;
		void *data;
		enum lx_outcome as;
		enum lx_answer r = lx_sched_answer(s, e->worker, &id, bad ? LX_FAILED : LX_PRESENT, bad ? 1 : 2, now, &data, &as, &err);
		CHECK(r == LX_ANS_COMMIT || r == LX_ANS_BARRED);
		ended(code, finish_sum);
	}
	free(e->items);
}

static void act(const struct setup *u, double *finish_sum)
{
	struct lx_action a;
	for (;;) {
		switch (lx_sched_next(s, now, &a)) {
		case LX_DO_SEND: send(u, &a); break;
		case LX_DO_BARRED: ended((uint64_t)(uintptr_t)a.data - 1, finish_sum); break;
		case LX_DO_START: lx_sched_ready(s, a.worker, 1, 0, now); break;
		case LX_DO_BAR: break;
		default: return;
		}
	}
}

static void begin(const struct setup *u)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_sched_conf c = LX_SCHED_CONF_DEFAULT;
	c.order = u->order;
	c.max_items = u->batch;
	c.depth = u->depth;
	if (u->max_ready)
		c.max_ready = u->max_ready;
	s = lx_sched_new(&c, &e);
	now = heap_n = at_parent = at_child = 0;
	memset(busy_until, 0, sizeof busy_until);
	for (int i = 0; i < u->load->n; i++)
		open_children[i] = u->load->pages[i];
	for (uint32_t i = 0; i < u->workers; i++)
		CHECK(lx_sched_worker(s, false, 0, &e) == (int)i);
}

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static struct result run(const struct setup *u)
{
	double finish_sum = 0, started = cpu_ns();
	uint64_t next_in = 0;
	begin(u);
	for (;;) {
		act(u, &finish_sum);
		if (at_parent == u->load->n && !lx_sched_held(s))
			break;
		uint64_t in = at_parent < u->load->n && !lx_sched_full(s) ? (next_in > now ? next_in : now) : LX_SCHED_NEVER;
		uint64_t t = lx_sched_deadline(s), ev = heap_n ? heap[0].t : LX_SCHED_NEVER;
		t = in < t ? in : t;
		t = ev < t ? ev : t;
		if (t == LX_SCHED_NEVER) {
			CHECK(!"stuck");
			break;
		}
		now = t > now ? t : now;
		if (ev <= now) {
			struct event e = pop();
			answer(u, &e, &finish_sum);
		} else if (in <= now) {
			feed(u);
			next_in = now + US;
		}
	}
	const struct lx_sched_stats *st = lx_sched_stats(s);
	uint64_t work = 0, doomed = 0, poisons = 0;
	for (int i = 0; i < u->load->n; i++) {
		work += u->load->poison[i] ? 0 : u->load->pages[i];
		doomed += u->load->poison[i] ? u->load->pages[i] - 1 : 0;
		poisons += u->load->poison[i];
	}
	struct result r = { .batches = st->batches, .unproven = st->unproven };
	r.wall = (double)now / ((double)(work * u->child_ns) / u->workers);
	r.fill = (double)st->batch_items / ((double)st->batches * u->batch);
	r.never = doomed ? (double)st->doom.never_sent / (double)doomed : 1;
	r.finished = finish_sum / u->load->n / (double)now;
	r.ns_item = (cpu_ns() - started) / (double)u->load->children;
	CHECK(st->doom.parents == poisons && st->doom.failed == poisons);
	CHECK(st->doom.received == st->doom.failed + st->doom.never_sent + st->doom.discarded + st->doom.left);
	CHECK(st->items == u->load->children && st->items == st->committed + st->barred);
	lx_sched_free(s);
	return r;
}

/* ---- the tests ---- */

static bool verbose;
static struct load healthy, poisoned, longest, whole;

static struct result show(const char *name, const struct setup *said)
{
	static const char *const orders[] = { "probe", "fifo", "fixed", "probes first" };
	struct setup with = *said, *u = &with;
	u->workers += u->workers ? 0 : 4;
	u->batch += u->batch ? 0 : 48;
	u->child_ns += u->child_ns ? 0 : MS;
	struct result r = run(u);
	if (verbose)
		printf("# %-34s %-12s %4u workers, batch %2u: wall %.4f of ideal, fill %.3f, never sent %.4f, unproven %" PRIu64
		       ", parents at %.3f, %.0f ns CPU a child\n",
		       name, orders[u->order], u->workers, u->batch, r.wall, r.fill, r.never, r.unproven, r.finished, r.ns_item);
	return r;
}

/* What is not said: 4 workers, batches of 48, 1 ms a child. */
#define SETUP(...) &(struct setup){ __VA_ARGS__ }

static void full_batches_on_four_workers(void)
{
	struct result r = show("healthy", SETUP(.load = &healthy));
	CHECK(r.wall <= 1.01 && r.fill >= 0.99);
	r = show("healthy", SETUP(.load = &healthy, .order = LX_ORDER_FIFO));
	CHECK(r.wall <= 1.01 && r.fill >= 0.99);
	if (verbose)
		show("healthy", SETUP(.load = &healthy, .order = LX_ORDER_PROBES_FIRST));
}

static void poison_costs_almost_nothing(void)
{
	struct result r = show("99 longest poisoned", SETUP(.load = &poisoned));
	CHECK(r.wall <= 1.05 && r.never >= 0.98);
	if (verbose) {
		show("99 longest poisoned", SETUP(.load = &poisoned, .order = LX_ORDER_FIFO));
		show("99 longest poisoned", SETUP(.load = &poisoned, .order = LX_ORDER_PROBES_FIRST));
		show("poisoned, longest first", SETUP(.load = &longest));
	}
}

static void doomed_siblings_are_not_sent(void)
{
	struct result r = show("poisoned", SETUP(.load = &poisoned, .workers = 32, .batch = 64));
	CHECK(r.never >= 0.98);
	if (!verbose)
		return;
	show("poisoned", SETUP(.load = &poisoned, .workers = 32, .batch = 64, .order = LX_ORDER_FIFO));
	show("poisoned, longest first", SETUP(.load = &longest, .workers = 32, .batch = 64));
	show("poisoned, queue 4,096", SETUP(.load = &poisoned, .workers = 32, .batch = 64, .max_ready = 4096));
	show("longest first, queue 4,096", SETUP(.load = &longest, .workers = 32, .batch = 64, .max_ready = 4096));
}

static void the_large_corpus_on_32_workers(void)
{
	struct result r = show("large corpus", SETUP(.load = &whole, .workers = 32, .batch = 8, .child_ns = 10 * MS));
	CHECK(r.wall <= 1.02);
	if (verbose)
		show("large corpus", SETUP(.load = &whole, .workers = 32, .batch = 8, .child_ns = 10 * MS, .order = LX_ORDER_FIFO));
}

static void many_workers(void)
{
	static struct load l;
	static const uint32_t counts[] = { 4, 64, 512, 4096 };
	static const double least[] = { 0.99, 0.99, 0.95, 0.9 };
	for (int i = 0; i < 4; i++) {
		/* 320 children a worker, parents of 40 */
		memset(&l, 0, sizeof l);
		l.n = counts[i] < 400 ? (int)counts[i] * 8 : MAX_PARENTS;
		for (int p = 0; p < l.n; p++) {
			l.pages[p] = 320u * counts[i] / (uint32_t)l.n;
			l.children += l.pages[p];
		}
		for (int order = LX_ORDER_PROBE; order <= LX_ORDER_FIFO; order++) {
			struct result r = show("constant work a worker", SETUP(.load = &l, .workers = counts[i], .batch = 8, .child_ns = 10 * MS, .order = order));
			CHECK(1 / r.wall >= least[i]);
		}
	}
}

static void long_round_trips(void)
{
	struct result near = show("no latency", SETUP(.load = &healthy, .batch = 50));
	struct result far = show("50 ms round trip", SETUP(.load = &healthy, .batch = 50, .latency_ns = 50 * MS));
	CHECK(near.wall / far.wall >= 0.95);
	struct result farther = show("400 ms round trip", SETUP(.load = &healthy, .batch = 50, .latency_ns = 400 * MS));
	CHECK(near.wall / farther.wall >= 0.8); /* the depth grows as answers come */
	if (verbose)
		show("50 ms round trip, depth 2", SETUP(.load = &healthy, .batch = 50, .latency_ns = 50 * MS, .depth = 2));
}

int main(int argc, char **argv)
{
	verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	if (!read_pages()) {
		printf("not ok 1 - tests/data/pagecounts.tsv cannot be read\n1..1\n");
		return 1;
	}
	make_load(&healthy, false, false, false);
	make_load(&poisoned, false, true, false);
	make_load(&longest, false, true, true);
	make_load(&whole, true, false, false);
	RUN(full_batches_on_four_workers);
	RUN(poison_costs_almost_nothing);
	RUN(doomed_siblings_are_not_sent);
	RUN(the_large_corpus_on_32_workers);
	RUN(many_workers);
	RUN(long_round_trips);
	return tap_done();
}

/* sched-int: what the parts of the scheduler share. Not installed, not for others.
 *
 *   sched.c        events and actions, memory, the table of items at workers
 *   sched-tree.c   parents: barriers, tallies, accounting, which of them are remembered
 *   sched-queue.c  the ready queue and the forming of batches
 *   sched-pool.c   workers: room, timers, losses and recovery
 */
#ifndef LX_SCHED_INT_H
#define LX_SCHED_INT_H

#include "sched.h"

struct node;
struct batch;
struct worker;

/* Items in order, with their sums. An item is in at most one. */
struct list {
	struct item *head, *tail;
	uint64_t n, bytes, cost;
};

struct item {
	struct item *next, *prev; /* in `in` */
	struct list *in;
	struct item *snext, *sprev; /* unsent: its parent's unsent items; sent: snext is the hash chain */
	struct node *node;        /* its parent */
	struct batch *batch;      /* formed or sent */
	void *data;
	uint64_t ordinal, bytes, cost;
	int on[2];                /* workers it was lost alone on, the last first; -1 */
	uint16_t lost[2];         /* how often on each */
	uint16_t alone;           /* how often in all */
	uint8_t bucket;
	bool probe, sent_before, two; /* two: lost alone on two workers */
	uint8_t as;               /* ended: enum lx_outcome (barred) or LX_FAILED (charged) */
	uint8_t loss;             /* charged: enum lx_loss */
};

enum proof { FRESH, PROBING, PROVEN };

struct tallies {
	uint64_t received, failed, dropped, never_sent, discarded, left;
};

/* An item above the call's domain: a parent of items, or an ancestor of such. */
struct node {
	struct node *hnext;
	struct node *parent;
	struct node *child, *sib_next, *sib_prev;
	struct node *q_next, *q_prev; /* in a list by number held, or in the idle list */
	uint64_t ordinal, hash;
	struct item *unsent;          /* first of its ready and formed items, oldest first */
	struct item *unsent_last;
	struct list wait;             /* siblings of an unanswered probe */
	uint64_t n_unsent, n_sent;
	struct tallies t;
	uint64_t bad;                 /* failed and suppressed children */
	uint64_t *bad_ord;            /* their ordinals, sorted, where some are borne */
	uint64_t bad_cap;
	uint64_t count;               /* from the close */
	uint8_t depth;
	uint8_t barred;               /* enum lx_outcome; LX_PRESENT: no */
	uint8_t proof;                /* enum proof */
	bool counted;                 /* count is known */
	bool idle;                    /* in the idle list */
};

struct batch_list {
	struct batch *head, *tail;
	uint64_t n;
};

struct batch {
	struct batch *next, *prev;
	struct batch_list *in;
	struct list items;
	uint64_t serial, sent_ns, run_ns; /* run_ns LX_SCHED_NEVER: behind others */
	uint64_t places, place_bytes, place_cost; /* fixed: holes included */
	uint32_t sent_items;
	uint32_t deaths;                  /* retry: how often it was lost */
	struct worker *worker;
	int not_on;                       /* not to this worker while another lives; -1 */
	uint8_t bucket;
	bool recovered, full;
	bool alone;                       /* its worker had nothing else when it was sent */
};

#define RING 256

struct worker_list {
	struct worker *head, *tail;
	uint64_t n;
};

struct worker {
	int number;
	uint8_t state; /* LX_W_* */
	bool attached, stalled, hopeless;
	bool far;             /* reached over a network */
	bool counted;         /* in `usable` */
	bool killed_starting; /* killed before it was ready */
	bool leaving;         /* asked to go: is not started again */
	bool in_todo;
	enum lx_do todo; /* waiting to be handed out; LX_DO_NOTHING: taken back */
	struct worker *todo_next;
	struct worker_list *in; /* free, room, reserved or NULL */
	struct worker *next, *prev;
	uint32_t slots, per_slot;
	struct batch_list batches; /* in order of sending */
	uint64_t items, answered;
	uint64_t free_ns, heard_ns, beats_ns, since_ns;
	uint64_t timer_ns;
	size_t heap_at; /* index in the heap plus one; 0: not in it */
	uint32_t strikes, flaps, failed_starts, losses;
	enum lx_loss kill_loss;
	/* depth auto */
	uint64_t base_ns;  /* least time from send to answer of a batch that found the worker empty */
	uint64_t usual;    /* items a batch, times 8 */
	uint32_t settle;   /* batches to go until depth is looked at again */
	uint32_t *ring;    /* hashes of the last answers */
	uint32_t ring_at;
};

struct pool {
	size_t size;
	void *free;
	void *chunks;
	char *at, *end;
};

struct queue {
	struct list rel, probe;
};

#define HELD_CLASSES 1024 /* parents by number held, this many and more together; twice: closed ones, open ones */

struct sched_bar {
	struct lx_id id;
};

struct lx_sched {
	struct lx_sched_conf conf;
	struct lx_sched_stats stats;
	uint64_t now, held;
	bool ended, dead, dead_told;
	bool was_ready;    /* some worker, once */
	uint64_t alone_ns; /* elastic: since when there is no worker that is wanted; LX_SCHED_NEVER */
	char why[160];

	struct pool items, nodes, batches;
	struct node **tree;
	size_t tree_size, tree_n;
	struct item **sent;
	size_t sent_size, sent_n;
	struct node *root, *last;
	struct lx_id last_id;
	struct node *idle_head, *idle_tail;
	uint64_t idle_n;

	struct queue q[LX_SCHED_BUCKETS];
	uint64_t q_mask; /* buckets with preferred items */
	struct list big;
	uint64_t queued, waiting, ready_ns; /* queued: ready, in whatever list; waiting: of these, siblings of probes */
	struct node *held_head[2 * HELD_CLASSES + 1], *held_tail[2 * HELD_CLASSES + 1];
	uint64_t held_mask[2 * HELD_CLASSES / 64 + 1];
	struct batch *forming[LX_SCHED_BUCKETS];
	uint64_t forming_items, forming_bytes;
	struct batch_list recover, formed;
	uint64_t serial;

	struct worker **workers;
	size_t n_workers, cap_workers;
	uint32_t usable; /* not retired, gone, leaving or hopeless */
	struct worker_list free, room, reserved;
	struct worker *todo_head, *todo_tail;
	struct worker **heap;
	size_t heap_n;
	uint32_t charge_row; /* losses for which items were charged, since the last answer */
	bool charged_now;    /* by the loss at hand */
	uint64_t rng;

	struct list out;
	struct sched_bar *bars;
	size_t bars_n, bars_at, bars_cap;
	void **send;
	size_t send_cap;
};

/* ---- lists ---- */

static inline void list_add(struct list *l, struct item *it)
{
	it->in = l;
	it->next = NULL;
	it->prev = l->tail;
	if (l->tail)
		l->tail->next = it;
	else
		l->head = it;
	l->tail = it;
	l->n++;
	l->bytes += it->bytes;
	l->cost += it->cost;
}

static inline void list_del(struct item *it)
{
	struct list *l = it->in;
	if (it->prev)
		it->prev->next = it->next;
	else
		l->head = it->next;
	if (it->next)
		it->next->prev = it->prev;
	else
		l->tail = it->prev;
	l->n--;
	l->bytes -= it->bytes;
	l->cost -= it->cost;
	it->in = NULL;
}

static inline uint64_t sched_hash(uint64_t h, uint64_t x)
{
	unsigned __int128 m = (unsigned __int128)(h ^ 0x9e3779b97f4a7c15u) * (x ^ 0xe7037ed1a0b428dbu);
	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline bool probes(const struct lx_sched *s)
{
	return s->conf.order == LX_ORDER_PROBE || s->conf.order == LX_ORDER_PROBES_FIRST;
}

void batch_list_add(struct batch_list *l, struct batch *b);
void batch_list_add_front(struct batch_list *l, struct batch *b);
void batch_list_del(struct batch *b);

/* ---- sched.c ---- */
void *sched_get(struct pool *p); /* zeroed; NULL: no memory */
void sched_put(struct pool *p, void *x);
/* The item has ended: it waits in `out` to be handed back. */
void sched_end_item(struct lx_sched *s, struct item *it, enum lx_outcome as);
int sched_sent_add(struct lx_sched *s, struct item *it);
void sched_sent_del(struct lx_sched *s, struct item *it);
int sched_oom(struct lx_err *e);
__attribute__((format(printf, 2, 3))) void sched_give_up(struct lx_sched *s, const char *fmt, ...);

/* ---- sched-tree.c ---- */
int sched_tree_init(struct lx_sched *s);
void sched_tree_clear(struct lx_sched *s);
/* The node of the first n numbers of an id; made if it is not there. NULL: no memory. */
struct node *sched_node(struct lx_sched *s, const struct lx_id *id, uint32_t n);
struct node *sched_node_find(const struct lx_sched *s, const struct lx_id *id, uint32_t n);
/* Count into the node and, when it is doomed, into the sums over doomed parents. */
#define sched_tally(s, node, field) ((node)->t.field++, (node)->barred ? (void)(s)->stats.doom.field++ : (void)0)
/* A child turned out failed or suppressed. May doom the node. */
int sched_bad(struct lx_sched *s, struct node *n, uint64_t ordinal);
/* Bar a node and everything below. told: the caller knows it, no LX_DO_BAR. */
int sched_doom(struct lx_sched *s, struct node *n, enum lx_outcome as, bool told);
/* Called when a node may have nothing left: it is forgotten, or put where it may be. */
void sched_node_rest(struct lx_sched *s, struct node *n);
void sched_node_wake(struct lx_sched *s, struct node *n);
void sched_unsent_add(struct lx_sched *s, struct item *it);
void sched_unsent_del(struct lx_sched *s, struct item *it);

/* ---- sched-queue.c ---- */
void sched_queue_add(struct lx_sched *s, struct item *it);
int sched_fixed_add(struct lx_sched *s, struct item *it);
void sched_fixed_close(struct lx_sched *s);
/* The close of a parent's expansion came. */
void sched_counted(struct lx_sched *s, struct node *n, uint64_t count);
/* The probe of a parent was answered and the parent is not doomed. */
void sched_release(struct lx_sched *s, struct node *n);
/* Take an unsent item out of wherever it is (not out of its parent's list). */
void sched_withdraw(struct lx_sched *s, struct item *it);
/* A batch that should go out now, for a free worker or for one that only has room; NULL: none. *fail: no memory. */
struct batch *sched_form(struct lx_sched *s, const struct worker *free, bool *fail);
/* When a free worker may take what is there; LX_SCHED_NEVER when nothing is. */
uint64_t sched_part_ns(const struct lx_sched *s, const struct worker *free);
struct batch *sched_batch(struct lx_sched *s);
void sched_batch_free(struct lx_sched *s, struct batch *b);
bool sched_fits(const struct lx_sched *s, uint64_t n, uint64_t bytes, uint64_t cost, const struct item *it);

/* ---- sched-pool.c ---- */
/* Put a worker where it belongs after anything changed about it. */
void sched_place(struct lx_sched *s, struct worker *w);
void sched_send(struct lx_sched *s, struct worker *w, struct batch *b);
/* Its last item was answered. */
void sched_batch_done(struct lx_sched *s, struct batch *b);
void sched_timers(struct lx_sched *s);
/* Send a recovered or formed batch if one can go; NULL. */
struct batch *sched_recovered(struct lx_sched *s, struct worker **w);
/* Give reserved workers back that no recovered batch waits for any more. */
void sched_unreserve(struct lx_sched *s);
void sched_pool_free(struct lx_sched *s);
/* Another run: workers that were left down are started again. */
void sched_pool_wake(struct lx_sched *s);
void sched_todo(struct lx_sched *s, struct worker *w, enum lx_do what);

#endif

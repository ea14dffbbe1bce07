/* sched: the call scheduler. A pure state machine that forms batches across parents, keeps workers
 * busy, and keeps failures in their scope. No I/O, no clock, no knowledge of streams: a loop feeds
 * events in, each with the time it happened, then takes actions out with lx_sched_next until there
 * are none, then sleeps until lx_sched_deadline or the next event.
 *
 * Items are the caller's: the machine keeps an ordinal, sizes, links and the caller's pointer for each
 * item it holds (about 120 bytes), and hands that pointer back exactly once, by the answer or by an
 * action that ends the item. All times are nanoseconds of one monotonic clock. Nothing is allocated
 * per item but from pools that are reused; memory is bounded by max_ready + what is in flight +
 * max_parents.
 *
 * Words: an item is *ready* from its arrival until it is put into a batch; *formed* while that batch
 * waits for a worker (only recovered, handed-back and fixed batches do); *sent* once LX_DO_SEND said so.
 * A parent is *doomed* when something bars it; every unsent item below is withdrawn at once.
 *
 * ITEMS
 *   state    event                                      next
 *   -        lx_sched_item, nothing bars it             ready (fixed: formed)
 *   -        lx_sched_item, its parent is doomed        ended: LX_DO_BARRED (fixed: it leaves a hole)
 *   ready    a worker has room, see BATCHES             sent: LX_DO_SEND
 *   ready    its parent becomes doomed                  ended: LX_DO_BARRED
 *   formed   a worker may take its batch                sent: LX_DO_SEND
 *   formed   its parent becomes doomed                  ended: LX_DO_BARRED; the batch shrinks or is gone
 *   sent     lx_sched_answer from the worker it is at   ended: LX_ANS_COMMIT, or LX_ANS_BARRED when doomed meanwhile
 *   sent     the worker is lost or leaves               formed, or ended: LX_DO_CHARGE (see RECOVERY), LX_DO_BARRED
 *
 * WORKERS
 *   state      event                                    next
 *   down       its back-off has passed                  starting: LX_DO_START
 *   starting   lx_sched_ready                           ready
 *   starting   start_timeout_ns passed                  killed: LX_DO_KILL (CRASH, of a far one HOST)
 *   starting   lx_sched_lost                            down, or retired: LX_DO_RETIRE; an attached worker: gone
 *   ready      a batch for it                           ready
 *   ready      timeout_ns passed for a batch it runs    killed: LX_DO_KILL (the loop kills its process group)
 *   ready      it beats and was silent for 4 beats      killed: LX_DO_KILL
 *   ready      lx_sched_leave                           leaving: LX_DO_STOP when it has answered what it has
 *   ready, leaving, killed  lx_sched_lost               down, or retired; an attached worker: gone
 *   -, gone    lx_sched_worker(attached): it joins      starting; its number may be that of one that is gone
 *   Answers count until lx_sched_lost, from a killed worker too; the loop drains its pipe first.
 *   After that they are LX_ANS_LATE.
 *
 * BATCHES
 *   A batch closes when it has max_items items, or when the next would take it over max_bytes or
 *   max_cost; an item over max_bytes or max_cost goes alone. All its items are of one bucket.
 *   A worker is *free* while it runs fewer batches than it has slots, and *has room* while it has fewer
 *   than its depth. Each takes, in this order:
 *     1. a recovered batch, when it has nothing else (and then gets nothing else until that is answered)
 *     2. a handed-back or fixed batch
 *     3. a full batch of preferred items: order fifo: all that are ready, in order of arrival; order probe:
 *        first released siblings, then probes
 *     4. only when free, and once linger_ns have passed with it free and something ready: whatever
 *        is there, preferred items first, then siblings of unanswered probes, from the parent
 *        with the fewest held (1,024 and more count as equal), oldest first; parents whose close has
 *        not come are taken last, for the one that is just arriving would always seem small. At the end of input a
 *        part-filled batch of preferred items does not wait.
 *   So no free worker idles beyond the linger while anything may be sent to it.
 *   Probe: a parent's first child to arrive is its probe; when that is answered without dooming the parent,
 *   its siblings are released. Items without a parent (roots) are never probes.
 *   Fixed: membership depends on the order of arrival alone: a batch closes on count, bytes, cost and
 *   lx_sched_end only, and barred members leave holes.
 *   Depth 0 (auto): two batches per slot; half as many again, up to 16, while the time from send to
 *   answer shows that less than half a batch per slot waits at the worker (the worker starves
 *   behind a long round trip); one fewer, down to two, when more than one and a half wait.
 *
 * DOOM
 *   A barrier is kept on the item it names, by id. It comes from lx_sched_bar, from a non-present ancestor
 *   (lx_sched_gone), a failed close, an answer whose cause is anchored above the item, or more failed and
 *   suppressed children than the expansion bears. It acts when an item arrives, when a batch is
 *   formed or waits, and when an answer comes. The machine forgets the oldest parents that hold
 *   nothing beyond max_parents, which costs work, never a verdict; a tally that was forgotten
 *   starts again from zero. A child is counted once however often it comes.
 *
 * RECOVERY (a worker was lost with items unanswered)
 *   kind of loss     bisect (default)                         retry           fail      abort
 *   CRASH, TIMEOUT   the batches it ran: halved; those behind  whole, N times,  charged   LX_DO_GIVE_UP
 *                    them: whole. All go out as recovered      then charged
 *   HOST, LEFT       handed back whole; nobody is charged (all modes)
 *   An item is charged (crash or timeout) when it was lost N+1 times as the only item its worker had,
 *   and on two workers where more than one lives; until then it is not sent twice running to one worker.
 *   `retry` and `fail` treat a batch as one unit and charge everything unanswered in it.
 *   Halves go before older work, so at most log2(batch)+N+1 losses come without an answer or a charge.
 *
 * WORKERS THAT FAIL
 *   A strike is a loss since the worker's last answer, however it came; losses for which an item was
 *   charged are taken back. max_strikes strikes, or max_starts failed starts in a row, retire a
 *   worker. Where the kind is HOST it is never retired but counts as hopeless and is tried again with back-off.
 *   After a loss with items unanswered (not HOST) the worker is restarted at once; after a failed start, an idle
 *   death or a HOST loss it waits backoff_ns, doubled for each in a row up to backoff_max_ns, times 0.5 to 1.5.
 *   LX_DO_GIVE_UP: every worker is retired, gone or hopeless while something is held or input goes
 *   on; or max_charges losses in a row had items charged, with no answer
 *   from anybody (a loss that fails a whole batch is one); or on_crash is abort.
 *   Where workers may join (conf.elastic) having none is a reason to give up only after join_ns without any, while
 *   something is held or as long as none has ever been ready. A worker that is starting counts as one.
 *
 * Accounting, over all doomed parents, at any time (struct lx_sched_stats, `doom`):
 *     failed + dropped + never_sent + discarded + left = received - (sent and not answered yet)
 * and over all items:  items = committed + barred + charged + held.
 */
#ifndef LX_SCHED_H
#define LX_SCHED_H

#include "lineage.h"

#define LX_SCHED_NEVER UINT64_MAX
#define LX_SCHED_BUCKETS 64

enum lx_sched_order {
	LX_ORDER_PROBE,
	LX_ORDER_FIFO,
	LX_ORDER_FIXED,
	LX_ORDER_PROBES_FIRST, /* probe, but new probes go before released siblings: kept to measure against */
};

enum lx_on_crash { LX_CRASH_BISECT, LX_CRASH_RETRY, LX_CRASH_FAIL, LX_CRASH_ABORT };

struct lx_sched_conf {
	uint32_t levels;           /* numbers in the ids of the call's items: depth of its domain, 1 for roots */
	/* of the expansion that made ids of n numbers: tolerance[n]. Index 0 and 1 are not used. */
	struct lx_tolerance tolerance[LX_ID_MAX + 1];
	uint32_t max_items;        /* 64 */
	uint64_t max_bytes;        /* 0: no limit */
	uint64_t max_cost;         /* 0: no limit */
	uint64_t linger_ns;        /* 10 ms */
	enum lx_sched_order order;       /* probe */
	uint32_t depth;            /* batches per slot; 0: auto */
	uint64_t max_ready;        /* 65,536 items ready or formed, then lx_sched_full */
	uint64_t max_ready_bytes;  /* 256 MiB */
	uint64_t max_parents;      /* 65,536 parents remembered that hold nothing */
	enum lx_on_crash on_crash; /* bisect */
	uint32_t retries;          /* N: 1 */
	uint64_t timeout_ns;       /* per batch, from when the worker runs it; 0 (default): none */
	uint64_t start_timeout_ns; /* 60 s; 0: none */
	uint64_t backoff_ns;       /* 100 ms */
	uint64_t backoff_max_ns;   /* 10 s */
	uint32_t max_strikes;      /* 16; 0: no limit */
	uint32_t max_starts;       /* 3 */
	uint32_t max_charges;      /* losses: 16; 0: no limit */
	bool elastic;              /* workers may join later */
	uint64_t join_ns;          /* elastic: the longest without a worker; 0: for ever */
	uint64_t seed;             /* of the jitter */
};
#define LX_SCHED_CONF_DEFAULT \
	{ .levels = 2, .max_items = 64, .linger_ns = 10000000, .max_ready = 65536, .max_ready_bytes = 256u << 20, \
	  .max_parents = 65536, .retries = 1, .start_timeout_ns = 60000000000, .backoff_ns = 100000000, \
	  .backoff_max_ns = 10000000000, .max_strikes = 16, .max_starts = 3, .max_charges = 16, .seed = 1 }

struct lx_sched;
struct lx_sched *lx_sched_new(const struct lx_sched_conf *c, struct lx_err *e); /* LX_SYSTEM, LX_USAGE */
void lx_sched_free(struct lx_sched *s); /* items still held are forgotten: they are the caller's */

/* ---- events: input ---- */

struct lx_arrival {
	const struct lx_id *id; /* `levels` numbers */
	uint64_t bytes;
	uint64_t cost;
	uint32_t bucket;        /* below LX_SCHED_BUCKETS */
	void *data;             /* handed back when the item ends */
};
/* An item arrived, present. The caller stops reading while lx_sched_full, but any item is taken. -1: LX_SYSTEM. */
int lx_sched_item(struct lx_sched *s, const struct lx_arrival *a, uint64_t now_ns, struct lx_err *e);
bool lx_sched_full(const struct lx_sched *s);

/* An item of the call's domain or of a domain above it arrived that is not present. anchor_n: how many numbers
 * of the id its cause's anchor has, id->n when the cause reaches no further than the item. */
int lx_sched_gone(struct lx_sched *s, const struct lx_id *id, enum lx_outcome o, uint32_t anchor_n, struct lx_err *e);
/* The close of an expansion on the way down to the call's domain arrived. */
int lx_sched_close(struct lx_sched *s, const struct lx_id *parent, uint64_t count, enum lx_outcome o, struct lx_err *e);
/* A barrier on an item of the call's domain or above from elsewhere (a wide anchor in a passing record,
 * the run ledger). as: what items below become. */
int lx_sched_bar(struct lx_sched *s, const struct lx_id *anchor, enum lx_outcome as, struct lx_err *e);
/* Order fixed: what has arrived is whole batches; the next item begins another. */
void lx_sched_cut(struct lx_sched *s);
/* No more input will come. */
void lx_sched_end(struct lx_sched *s);
/* Another run begins: input goes on and parents are forgotten. Only when nothing is held. `levels` and
 * `tolerance` may differ from before; workers stay as they are. */
void lx_sched_run(struct lx_sched *s, uint32_t levels, const struct lx_tolerance *tolerance);

/* ---- events: workers ---- */

/* Why a worker was lost. */
enum lx_loss {
	LX_LOSS_CRASH,   /* it ended or broke the stream with items unanswered, or died idle */
	LX_LOSS_TIMEOUT, /* killed for a batch over its time. What the machine itself killed keeps its own kind, whatever is said */
	LX_LOSS_HOST,    /* the way to it is gone (ssh 255, silence): charges nobody */
	LX_LOSS_LEFT,    /* it went in good order: no strike, what it had is handed back */
};

/* A new worker. attached: it has joined and is starting; the machine never starts it again. Returns its
 * number (0, 1, ...; numbers of attached workers that are gone are used again) or -1 (LX_SYSTEM). */
int lx_sched_worker(struct lx_sched *s, bool attached, uint64_t now_ns, struct lx_err *e);
/* It is reached over a network: that it is not ready in time, or gives no sign of life, is HOST. */
void lx_sched_far(struct lx_sched *s, int w);
/* It is ready for work. slots: batches it can run at once (0: 1); beats_ns: it is never silent for longer (0: it may be). */
void lx_sched_ready(struct lx_sched *s, int w, uint32_t slots, uint64_t beats_ns, uint64_t now_ns);
/* Anything came from it. Only needed where it beats. */
void lx_sched_heard(struct lx_sched *s, int w, uint64_t now_ns);
/* What was sent to it is stuck in the loop's buffer: send nothing more until told so. */
void lx_sched_stalled(struct lx_sched *s, int w, bool stalled, uint64_t now_ns);
/* It is to go: no new batches, LX_DO_STOP once it has answered. */
void lx_sched_leave(struct lx_sched *s, int w, uint64_t now_ns);
int lx_sched_lost(struct lx_sched *s, int w, enum lx_loss kind, uint64_t now_ns, struct lx_err *e);

enum lx_answer {
	LX_ANS_ERROR = -1, /* LX_SYSTEM */
	LX_ANS_COMMIT,     /* the answer stands: pass it on */
	LX_ANS_BARRED,     /* discard it: the item becomes *as */
	LX_ANS_STRANGER,   /* contract error: that item is not at this worker */
	LX_ANS_TWICE,      /* contract error: this worker has answered it (told apart from STRANGER for its last 256 answers) */
	LX_ANS_LATE,       /* the worker was lost before: ignore */
};
/* An answer. anchor_n as in lx_sched_gone. On COMMIT and BARRED *data is the item's, which has ended. An
 * item that failed itself keeps its failure when its parent is doomed: COMMIT. */
enum lx_answer lx_sched_answer(struct lx_sched *s, int w, const struct lx_id *id, enum lx_outcome o, uint32_t anchor_n,
                               uint64_t now_ns, void **data, enum lx_outcome *as, struct lx_err *e);

/* ---- actions ---- */

enum lx_do {
	LX_DO_NOTHING,
	LX_DO_SEND,    /* worker, batch, items[n_items] */
	LX_DO_BARRED,  /* data, as: the item becomes dropped or suppressed without work */
	LX_DO_CHARGE,  /* data, loss, deaths, worker: the item fails `crash` or `timeout`. Its parent may be doomed by it */
	LX_DO_BAR,     /* id: doomed by what was said here (not by lx_sched_bar): tell the workers and the ledger */
	LX_DO_START,   /* worker */
	LX_DO_KILL,    /* worker, loss: kill its process group, then lx_sched_lost */
	LX_DO_STOP,    /* worker: close its input, then lx_sched_lost with LEFT */
	LX_DO_RETIRE,  /* worker, deaths: it will not be started again */
	LX_DO_GIVE_UP, /* why: one line. The machine does nothing more */
};

struct lx_action {
	int worker;
	uint64_t batch;     /* serial number, from 1 */
	void *const *items; /* SEND: each item's data, in order; valid until the next call of any function */
	uint32_t n_items;
	uint64_t bytes, cost;
	bool recovered;     /* SEND: a suspect, alone at its worker */
	void *data;
	bool sent;          /* BARRED, CHARGE: it has been at a worker */
	enum lx_outcome as;
	enum lx_loss loss;
	uint32_t deaths;
	struct lx_id id;
	const char *why;
};

/* The next thing to do at this time; LX_DO_NOTHING when there is none. Call until then after every event.
 * Time must not go back. */
enum lx_do lx_sched_next(struct lx_sched *s, uint64_t now_ns, struct lx_action *a);
/* When lx_sched_next should be called again if nothing happens; LX_SCHED_NEVER. */
uint64_t lx_sched_deadline(const struct lx_sched *s);

/* ---- queries ---- */

/* Items that have not ended: ready, formed, sent, or waiting for lx_sched_next. */
uint64_t lx_sched_held(const struct lx_sched *s);

struct lx_sched_stats {
	uint64_t items;     /* lx_sched_item */
	uint64_t committed, barred, charged;
	uint64_t ready, ready_bytes, sent; /* now */
	uint64_t peak_ready, peak_ready_bytes;
	uint64_t batches, batch_items; /* sent for the first time or again */
	uint64_t full_batches;         /* closed on count, bytes or cost */
	uint64_t resent;    /* items sent again after a loss */
	uint64_t unproven;  /* items sent while their parent's probe was unanswered, so that a worker need not idle */
	uint64_t late;      /* answers from lost workers */
	uint64_t losses, starts, retired;
	uint64_t forgotten; /* parents forgotten for want of room */
	uint64_t parents;   /* remembered now */
	struct { /* over doomed parents; see Accounting */
		uint64_t parents, received, failed, dropped, never_sent, discarded, left;
	} doom;
};
const struct lx_sched_stats *lx_sched_stats(const struct lx_sched *s);

struct lx_worker_view {
	enum { LX_W_DOWN, LX_W_STARTING, LX_W_READY, LX_W_LEAVING, LX_W_KILLED, LX_W_RETIRED, LX_W_GONE } state;
	uint32_t slots, depth; /* depth: batches it may have in all, as it is now */
	uint32_t batches;      /* at it */
	uint64_t items;        /* at it */
	uint64_t answered;     /* ever */
	uint32_t strikes, losses;
	bool reserved;         /* gets nothing until it is empty, then a recovered batch */
	bool hopeless;         /* lost with its host too often; tried again, but not counted on */
};
struct lx_worker_view lx_sched_view(const struct lx_sched *s, int w);

#endif

/* pool-int: what the parts of the pool share. Not installed, not for others.
 *
 *   pool.c       the loop: input, batches, answers, losses
 *   pool-join.c  workers that join while it runs
 */
#ifndef LX_POOL_INT_H
#define LX_POOL_INT_H

#include "listen.h"
#include "pool.h"
#include "slab.h"
#include "worker.h"

#define MS 1000000ull

/* An item while it is here: in the slab, or on the heap when the slab has no room. */
struct held {
	lx_ref ref; /* 0: heap */
	size_t len;
	uint8_t raw[];
};

struct peer {
	struct lx_worker w;
	const struct lx_pool_cmd *cmd;
	int number;
	bool started;    /* START was acted on and no loss reported since */
	bool in_segment; /* our begin mark was sent, the end mark not */
	bool begun;      /* its own begin mark of this run came */
	uint32_t due;    /* begin marks it owes us: of this run, and of earlier ones that were over before it had started */
	bool stalled;    /* the scheduler was told */
	bool watch_out;  /* epoll looks for room */
	bool ended;      /* its end mark came */
	bool garbled;    /* what it wrote is no stream, */
	bool foreign;    /* nor anything that one begins with */
	bool was_ready;  /* once */
	bool killed;     /* the scheduler had it killed */
	uint64_t asked_at; /* real time: our begin mark was written */
	uint64_t kill_at; /* real time: it was told to end, and is killed then; 0: not */
	bool output_over, process_over; /* meanwhile: which of the two has been seen to end */
	struct lx_err why; /* what its stream ended with, if with an error */
	char said[LX_ERR_MAX]; /* the last that was said of its loss; "": nothing, or it has come back */
	bool attached;     /* came through the listening socket: `own` is its command, in name only */
	bool leaving;      /* it said that it wants to go */
	bool stranger;     /* it was refused for its begin mark, `why` says so */
	struct lx_pool_cmd own;
	char name[160];
	int refused;       /* the code of its refusal, while it refuses; 0: it does not */
};

enum source { STDIN, STDOUT, SIGNAL, SOCKET, PROCESS, LISTENER, GUEST };

/* Somebody who has connected and not said who he is. */
struct guest {
	int fd;      /* -1: nobody */
	uint64_t until; /* real time by which he has to have said it */
	bool whole;  /* he has */
	struct lx_hello hello;
};
#define GUESTS_MAX 64
#define ATTACHED_MAX 4096

struct pool {
	const struct lx_pool_conf *conf;
	struct lx_stage stage;
	struct lx_sched *sched;
	struct lx_slab slab;
	struct peer *peers;        /* conf->n of our own, then those that joined; they never move */
	size_t n_peers;
	struct lx_listen listen;
	struct guest guests[GUESTS_MAX];
	size_t n_guests;
	bool accepting;            /* epoll looks at the listening socket */
	bool run_open;             /* workers were or will be sent the begin mark of this run */
	struct lx_plan to_workers; /* what their begin mark says */
	int epoll;
	uint64_t now, mark;        /* the scheduler's time; real time up to which it was counted */
	uint64_t began_ns, ready_ns; /* real time: when we began, when the last worker became ready for the first time */
	uint64_t beat_ms, beat_at; /* real time of the next beat */
	const struct peer *lost;   /* last */
	uint64_t kill_at;          /* real time: no worker is to be killed before */
	uint64_t doubt_at;         /* real time: whether workers have begun is looked at; UINT64_MAX: no more */
	bool doubted;              /* and one has not: it was said */
	bool always_readable;      /* stdin is a file: epoll has no say */
	bool readable, watched;
	bool starved;              /* the stage has no whole frame at hand */
	bool run_over, eof, in_run;
	struct lx_plan declared;   /* the first begin mark of a worker in this run; no run id: none came yet */
	struct lx_buf bars;        /* [domain, id] ... to be told to workers */
	uint32_t n_bars;
	struct lx_err *e;          /* where callbacks without one report */
	bool failed;
};

/* ---- pool.c ---- */
int pool_watch(struct pool *p, int op, int fd, uint32_t events, enum source what, int number, struct lx_err *e);
int pool_send_begin(struct pool *p, struct peer *k, struct lx_err *e);
__attribute__((format(printf, 2, 3))) void pool_say(const struct pool *p, const char *fmt, ...);

/* ---- pool-join.c ---- */
int pool_listen(struct pool *p, struct lx_err *e);
void pool_unlisten(struct pool *p);
/* Before a wait: who may be let in now, whose time is over. */
int pool_guests(struct pool *p, struct lx_err *e);
int pool_on_listener(struct pool *p, struct lx_err *e);
int pool_on_guest(struct pool *p, int slot, struct lx_err *e);
/* A worker said that it wants to go: it finishes what it has. */
void pool_on_leave(struct pool *p, struct peer *k);

#endif

/* job: one command run for one item, fed and read without blocking.
 *
 * stdin, stdout and stderr are pipes. Input and output move at the same time, so a command that
 * writes before it reads, or never reads, cannot deadlock. Its stderr is passed on to ours whole lines at a
 * time and the last line is kept for the cause. The descriptor named by LX_FAIL in its environment
 * takes lines `type TAB scope TAB message` (lx-fail(1) writes them); of several the widest scope
 * wins, then the first. It is a file in memory, so that writing to it never waits for us.
 *
 * A job is finished when the process has ended and its stdout has reached end
 * of file; what a surviving grandchild still writes to stderr is not waited for. When the deadline
 * passes the whole process group is killed. When a job is cleared, what is left of its group is killed.
 *
 * A loop that owns jobs: lx_job_start; until j->end != LX_JOB_RUNNING: poll lx_job_fds of all jobs
 * until something is ready or the nearest deadline_ns, lx_job_step those that are; take the output; lx_job_clear.
 */
#ifndef LX_JOB_H
#define LX_JOB_H

#include "io.h"
#include "spawn.h"
#include "tmpl.h"

#include <poll.h>

struct lx_job_conf {
	const struct lx_tmpl *tmpl;
	const struct lx_strs *env;  /* further fields for the environment; may be NULL */
	const struct lx_plan *plan;
	int domain;                 /* of the items */
	uint64_t timeout_ms;        /* 0: none */
	uint64_t max_output;        /* bytes of stdout held at once; over it the job fails `oversize`. 0: the owner drains */
	bool quiet;                 /* stderr is kept for causes but not passed on */
	bool dir;                   /* make the fresh directory (LX_DIR) also when the template does not name {dir} */
	const char *const *set_env; /* NAME=VALUE for every job (lx_job_one_thread); may be NULL */
};

enum lx_job_end {
	LX_JOB_RUNNING,
	LX_JOB_OK,      /* exit 0, nothing raised */
	LX_JOB_DATA,    /* it judged its item: non-zero exit (type `exit`) or lx-fail (its type), or oversize, no-field, bad-field */
	LX_JOB_RETRY,   /* exit 75; type `exit` */
	LX_JOB_LOST,    /* signal (type `crash`) or time-out (type `timeout`): infrastructure */
};

/* With max_output 0, lx_job_step reads no more while this much output waits to be taken. */
#define LX_JOB_HELD (1u << 20)

struct lx_job {
	struct lx_child child;
	int in, out, err, fail; /* our ends; -1 when closed */
	struct lx_span input;   /* what is still to be written to stdin */
	struct lx_buf output;   /* what it wrote and the owner has not taken */
	bool out_eof;
	enum lx_job_end end;
	uint64_t started_ns, deadline_ns; /* lx_io_now_ns; deadline_ns 0: none */
	bool raised;            /* DATA: lx-fail was used */
	char type[64];          /* of the failure */
	char scope[LX_NAME_MAX + 1]; /* of lx-fail, as it was given: "record", "parent" or a domain name, unchecked; "" = record */
	struct lx_buf message;  /* one line for the cause: how it ended and its last stderr line, or lx-fail's message */
	/* internal */
	struct lx_buf line;     /* stderr line being collected */
	struct lx_buf argv, envp;
	char *dir;              /* the fresh directory of {dir}, removed by lx_job_clear; NULL: none */
	const char *killed;     /* why we killed it: "timeout", "oversize"; NULL: we did not */
	bool gone;              /* the process has ended (it is reaped by lx_job_clear) */
	int status;
};

void lx_job_init(struct lx_job *j);
/* Start a job that was just initialised or cleared. `input` must stay until the job ended; input.p == NULL: stdin is /dev/null. A template that cannot be
 * filled, or arguments that are too long for the system, end the job at once as LX_JOB_DATA. -1: LX_USAGE (cannot start the
 * program) or LX_SYSTEM. tmpdir (for {dir}) may be NULL. */
int lx_job_start(struct lx_job *j, const struct lx_job_conf *c, const struct lx_rec *r, struct lx_span input,
                 const char *tmpdir, struct lx_err *e);
/* Fill at most 4 pollfds with what the job waits for; returns how many. hold_output: do not wait for more stdout now. */
int lx_job_fds(const struct lx_job *j, struct pollfd *p, bool hold_output);
/* Move what can be moved without blocking, look at the process and the deadline. Sets j->end when finished. Only
 * passing stderr on may block. */
int lx_job_step(struct lx_job *j, const struct lx_job_conf *c, uint64_t now_ns, struct lx_err *e);
/* Kill and reap, close, remove the directory; buffers are kept for the next item. Also after a failed start. */
void lx_job_clear(struct lx_job *j);
void lx_job_free(struct lx_job *j);

/* After attempt number `attempt` (from 1) has ended: nanoseconds to wait before the next, or 0 when there is none, because the
 * job judged its item or has been run again `retries` times. 0.1 s at first, doubled up to 6.4 s, times 0.5 to 1.5. */
uint64_t lx_job_again(const struct lx_job *j, uint64_t attempt, uint64_t retries);

/* For jobs that run side by side: OMP_NUM_THREADS=1 and OMP_THREAD_LIMIT=1, unless the user has set them. */
const char *const *lx_job_one_thread(void);

#endif

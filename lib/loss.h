/* loss: what the end of a worker means, and how it is said. */
#ifndef LX_LOSS_H
#define LX_LOSS_H

#include "sched.h"

#include <stddef.h>

struct lx_loss_facts {
	bool host;     /* a machine behind an lx-batch there */
	bool attached; /* joined by itself: when its connection ends without an abort mark, that is all we know */
	bool begun;    /* its begin mark had come */
	bool left;     /* its input was closed and its end mark came */
	bool garbled;  /* what it wrote is no stream */
	bool foreign;  /* and nothing that a stream begins with */
	bool killed;   /* by us: its time was over */
	int status;    /* wait status; -1: not known */
	const struct lx_err *why; /* what its stream ended with; code LX_OK: nothing special */
};

/* The kind of the loss. HOST, and nobody is charged: status 255; whatever ends a host; a system call that failed at the worker
 * (its abort mark says so: full disk, no memory). */
enum lx_loss lx_loss_kind(const struct lx_loss_facts *f);
/* Whether every start would end so: the pipeline's shape is refused, or the version. Of a host that is its own matter. */
bool lx_loss_refused(const struct lx_loss_facts *f);
/* Whether what a command said is wrong, and would be at every worker: the scope of a failure. */
bool lx_loss_contract(const struct lx_loss_facts *f);
/* In words, without the worker's name: "ended with status 3", "has another version: ... (exit 4)". */
void lx_loss_text(const struct lx_loss_facts *f, char *out, size_t size);

#endif

/* ledger: the run's directory (LX_RUN), by which barriers travel upstream.
 *
 * A stage that dooms an item which others may still be working for appends a line to the file `barriers` there. The other
 * stages of the run read it and stop: lx-expand no longer makes children of a parent that has failed. All of it is
 * advice: a line that is lost costs work, nothing else, so nothing here fails once the file is open, and nothing waits.
 *
 *     RUN TAB DOMAIN TAB ID TAB TYPE TAB ANCHOR TAB ORIGIN TAB STAGE TAB MESSAGE LF
 *     r7  doc  12  crash  doc:12  page:12.3  lx-map  signal 11
 *
 * DOMAIN and ID name the doomed item, the rest is its cause. Control bytes, backslashes and bytes from 7f on are \xNN. A line
 * has at most LX_LEDGER_LINE bytes (the message is cut) and is one write(2) with O_APPEND. Only lines that came after
 * the ledger was opened count, so that a second attempt at a run is not doomed by the first.
 */
#ifndef LX_LEDGER_H
#define LX_LEDGER_H

#include "doom.h"

#define LX_LEDGER_LINE 4096
#define LX_LEDGER_MS 5 /* between two looks at the file, at least */

struct lx_ledger;

/* The file `barriers` in dir, made if it is not there. -1 as NULL: LX_USAGE, what is wrong with the directory or the file. */
struct lx_ledger *lx_ledger_open(const char *dir, struct lx_err *e);
void lx_ledger_close(struct lx_ledger *l); /* may be NULL */

/* An item was doomed here. Nothing is written for one that nobody can be working for (no domain lies below its own). */
void lx_ledger_write(struct lx_ledger *l, const struct lx_plan *p, uint32_t domain, const struct lx_id *id, struct lx_span cause);

/* What others have written since: barriers of this run, on items of domains of p, are put into d. Looks at the file every
 * LX_LEDGER_MS at most, at once with `now`, and takes in 1 MiB at most. */
void lx_ledger_read(struct lx_ledger *l, const struct lx_plan *p, struct lx_doom *d, bool now);

#endif

/* await: values by item, and the records that wait for them.
 *
 * For each item: its value once it is there, or the records that came before it. What goes beyond the memory given
 * lies in one unlinked temporary file, which stays within some MiB of twice what lies in it at one time; about 150 bytes stay
 * in memory for each item with anything here.
 */
#ifndef LX_AWAIT_H
#define LX_AWAIT_H

#include "rec.h"

struct lx_await;

/* mem: bytes of values and records in memory. dir: as in lx_io_tmpdir. NULL: LX_SYSTEM. */
struct lx_await *lx_await_new(uint64_t mem, const char *dir, struct lx_err *e);
void lx_await_free(struct lx_await *a);

/* The item's value; one that came before is replaced. -1: LX_SYSTEM, here and below. */
int lx_await_put(struct lx_await *a, const struct lx_id *item, struct lx_span value, struct lx_err *e);
/* 1: *value, valid until the next call; 0: none came; -1. */
int lx_await_get(struct lx_await *a, const struct lx_id *item, struct lx_span *value, struct lx_err *e);

/* A record that waits for the item. */
int lx_await_hold(struct lx_await *a, const struct lx_id *item, struct lx_span record, struct lx_err *e);
/* Take a record that waits for the item into *record, which is cleared: 1, 0: none is left, -1. In no particular order. */
int lx_await_take(struct lx_await *a, const struct lx_id *item, struct lx_buf *record, struct lx_err *e);

/* Forget the value: whether there was one. Not while anything waits for the item. */
bool lx_await_forget(struct lx_await *a, const struct lx_id *item);
/* An item that records wait for: false when there is none. */
bool lx_await_any(const struct lx_await *a, struct lx_id *item);

uint64_t lx_await_spilled(const struct lx_await *a); /* bytes ever written to the file */

#endif

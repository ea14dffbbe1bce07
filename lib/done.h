/* done: which items have left for good.
 *
 * A set of ids, kept as intervals of last ordinals below each prefix: memory follows the number of
 * gaps, not the number of members. Below one prefix every 65,536 ordinals form a leaf; a leaf with
 * very many gaps becomes a bitmap, so that one item never costs more than a bit where ids are dense.
 * When all ids below a prefix are in and their number is known, they fold into the prefix itself.
 *
 * A member may be marked (it left without being present). A folded prefix is marked when any
 * member of it was.
 */
#ifndef LX_DONE_H
#define LX_DONE_H

#include "rec.h"

enum lx_done_state { LX_DONE_NO = 0, LX_DONE_YES = 1, LX_DONE_MARKED = 2 };

struct lx_done;
struct lx_done *lx_done_new(void); /* NULL: no memory */
void lx_done_free(struct lx_done *d);

/* Add an id; adding it again changes nothing, except that it may become marked (not once its prefix has
 * folded). -1: LX_SYSTEM. */
int lx_done_add(struct lx_done *d, const struct lx_id *id, bool marked, struct lx_err *e);
enum lx_done_state lx_done_has(const struct lx_done *d, const struct lx_id *id);
/* The number of ids directly below a prefix is now known; the prefix has at least one number. -1: LX_SYSTEM. */
int lx_done_total(struct lx_done *d, const struct lx_id *prefix, uint64_t count, struct lx_err *e);

size_t lx_done_intervals(const struct lx_done *d); /* runs of neighbours; walks everything */
size_t lx_done_bytes(const struct lx_done *d);     /* memory in use */

#endif

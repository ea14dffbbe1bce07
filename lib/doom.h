/* doom: anchors below which no more work is worth doing.
 *
 * struct lx_doom holds barriers and, for expansions that bear failures, the failed children counted
 * against the tolerance. A doomed item counts in turn against the expansion it belongs to.
 */
#ifndef LX_DOOM_H
#define LX_DOOM_H

#include "lineage.h"

/* Barriers and failure tallies of one stream. At most max_entries are held; the oldest are
 * forgotten first, which costs work, never a verdict. */
struct lx_doom;
struct lx_doom *lx_doom_new(size_t max_entries); /* NULL: no memory */
void lx_doom_free(struct lx_doom *d);

/* Be told of every new barrier, also of those that follow from others. */
void lx_doom_watch(struct lx_doom *d, void (*barred)(void *ctx, uint32_t domain, const struct lx_id *id, enum lx_outcome as),
                   void *ctx);

/* Learn from a record that passes: a non-present item bars what is below it, a cause with a wide
 * anchor bars that anchor, a failed or suppressed child counts against its expansion, a failed
 * close dooms the parent. `cause`: bytes that lx_doom_find hands out for what this bars. */
void lx_doom_learn(struct lx_doom *d, const struct lx_plan *p, const struct lx_rec *r);

/* Bar an anchor directly. cause may be empty. */
void lx_doom_bar(struct lx_doom *d, uint32_t domain, const struct lx_id *id, enum lx_outcome as, struct lx_span cause);

/* Whether an item is barred: LX_PRESENT no; LX_DROPPED or LX_SUPPRESSED: what it becomes, and *cause
 * (valid until the next call that changes d) says why. The item itself does not count, only its
 * ancestors and, when `itself` is set, a barrier on the very item (used for anchors). */
enum lx_outcome lx_doom_find(const struct lx_doom *d, const struct lx_plan *p, uint32_t domain,
                             const struct lx_id *id, bool itself, struct lx_span *cause);
bool lx_doom_empty(const struct lx_doom *d);

#endif

/* item: an item as one JSON line, as lx-out writes it and lx-in reads it back.
 *
 *     {"lx":{"id":[0],"key":"a.pdf"},"path":"a.pdf","pages":12}
 *     {"lx":{"id":[1],"key":"b.pdf","outcome":"suppressed","cause":{"type":"bad-page","message":"blank",
 *      "where":"page 7","anchor":["doc",[1]],"origin":["page",[1,6]],"stage":"lx-map"}},"path":"b.pdf"}
 *
 * Member `lx` is ours and comes first, the fields stand beside it. Where they cannot (a field is named lx, a name is no
 * UTF-8 or comes twice) all of them stand in its member `fields`. Root items have a key, others say their `domain`.
 * outcome and cause are there when the item is not present; anchor and origin name their domain, and `where` says in
 * words where below the item the cause lies, counting from 1. Values are written as in json.h.
 */
#ifndef LX_ITEM_H
#define LX_ITEM_H

#include "lineage.h"

#define LX_WHERE_MAX 256

/* "page 7" or "page 7, region 2": the way from the item down to the origin of its cause; "" when it is the item itself,
 * or has no cause. An origin that is not below the item is named from the root on: "doc 4, page 7". */
void lx_item_where(const struct lx_plan *p, const struct lx_rec *r, char out[LX_WHERE_MAX]);

/* "present", "dropped", "failed", "suppressed". */
const char *lx_outcome_name(enum lx_outcome o);

/* Reusable memory for the functions below; start with zeroes. */
struct lx_item_text {
	struct lx_buf map, fields;
};
void lx_item_text_free(struct lx_item_text *t);

/* Append the line of an item, without newline. `fields`: usually r->fields; nil or p == NULL: none. -1: LX_DATA when it
 * nests too deep for JSON (out is as before), LX_SYSTEM. */
int lx_item_write(struct lx_buf *out, struct lx_item_text *t, const struct lx_plan *p, const struct lx_rec *r,
                  struct lx_span fields, struct lx_err *e);

/* Take an object that lx_json_scan made apart again. 1: it has our member, and *fields and *key (p == NULL: it had none)
 * are what it stands for, valid as long as `object` and t are unchanged. 0: it is just an object. -1: LX_SYSTEM. */
int lx_item_read(struct lx_item_text *t, struct lx_span object, struct lx_span *fields, struct lx_span *key, struct lx_err *e);

#endif

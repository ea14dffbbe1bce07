/* payload: the bytes of a field's value as a command gets them on its standard input.
 *
 * Strings and bytes as they are, other scalars as text (lx_value_text), arrays, maps and ext values as JSON.
 */
#ifndef LX_PAYLOAD_H
#define LX_PAYLOAD_H

#include "buf.h"

/* *bytes may lie in the value, or in `room`, which is appended to. 0, -1: LX_SYSTEM, or LX_DATA where `value` is not one value. */
int lx_payload(struct lx_span value, struct lx_buf *room, struct lx_span *bytes, struct lx_err *e);

#endif

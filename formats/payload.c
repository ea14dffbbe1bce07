#include "payload.h"

#include "json.h"
#include "tmpl.h"

int lx_payload(struct lx_span value, struct lx_buf *room, struct lx_span *bytes, struct lx_err *e)
{
	struct lx_val v;
	size_t from = room->len;
	if (lx_val_from(value, &v) == 0 && (v.type == LX_STR || v.type == LX_BIN)) {
		*bytes = v.s;
		return 0;
	}
	if (lx_value_text(value, room) < 0 && lx_json_write(room, value, e) < 0)
		return -1;
	if (lx_buf_check(room, e) < 0)
		return -1;
	*bytes = lx_buf_view(room);
	bytes->p += from;
	bytes->len -= from;
	return 0;
}

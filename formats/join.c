#include "join.h"

#include "io.h"
#include "json.h"
#include "value.h"

int lx_join_parse(const char *arg, enum lx_join_format *format, struct lx_err *e)
{
	static const char *const names[] = {
		[LX_JOIN_ARRAY] = "array", [LX_JOIN_CONCAT] = "concat", [LX_JOIN_LINES] = "lines",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(arg, names[i]) == 0) {
			*format = (enum lx_join_format)i;
			return 0;
		}
	return lx_err_set(e, LX_USAGE, "-s %s: unknown format; known are array, concat, lines", arg);
}

void lx_join_init(struct lx_join *j, enum lx_join_format format, uint64_t max_bytes)
{
	*j = (struct lx_join){ .format = format, .max_bytes = max_bytes, .text = true };
}

void lx_join_release(struct lx_join *j)
{
	lx_buf_free(&j->json);
}

static int bad(struct lx_join *j, const char *type, struct lx_err *e, const char *message)
{
	j->type = type;
	return lx_err_set(e, LX_DATA, "%s", message);
}

/* The bytes a piece stands for. */
static int bytes_of(struct lx_join *j, struct lx_span value, struct lx_span *bytes, bool *text, struct lx_err *e)
{
	struct lx_val v;
	if (lx_val_from(value, &v) < 0)
		return bad(j, "bad-field", e, "not one whole msgpack value");
	*text = true;
	if (v.type == LX_STR || v.type == LX_BIN) {
		*bytes = v.s;
		*text = v.type == LX_STR && (!j->text || lx_span_utf8(v.s));
		return 0;
	}
	if (j->format == LX_JOIN_CONCAT)
		return bad(j, "bad-field", e, "only strings and binaries can be joined by concat (-s lines, -s array)");
	lx_buf_clear(&j->json);
	if (lx_json_write(&j->json, value, e) < 0) {
		j->type = e->code == LX_DATA ? "bad-field" : NULL;
		return -1;
	}
	*bytes = lx_buf_view(&j->json);
	return 0;
}

/* Bytes of the next piece and whether a newline follows; counts them. */
static int next(struct lx_join *j, struct lx_span value, struct lx_span *bytes, bool *newline, struct lx_err *e)
{
	bool text;
	j->type = NULL;
	if (bytes_of(j, value, bytes, &text, e) < 0)
		return -1;
	*newline = j->format == LX_JOIN_LINES && (!bytes->len || bytes->p[bytes->len - 1] != '\n');
	uint64_t room = j->max_bytes - j->bytes;
	if (bytes->len > room || (*newline && bytes->len == room)) {
		j->type = "oversize";
		return lx_err_set(e, LX_DATA, "joined: over %llu bytes (--max-record)", (unsigned long long)j->max_bytes);
	}
	j->bytes += bytes->len + *newline;
	j->text = j->text && text;
	return 0;
}

int lx_join_add(struct lx_join *j, struct lx_span value, struct lx_buf *out, struct lx_err *e)
{
	struct lx_span bytes;
	bool newline;
	if (next(j, value, &bytes, &newline, e) < 0)
		return -1;
	lx_buf_span(out, bytes);
	if (newline)
		lx_buf_byte(out, '\n');
	return lx_buf_check(out, e);
}

int lx_join_write(struct lx_join *j, struct lx_span value, int fd, struct lx_err *e)
{
	struct lx_span bytes;
	bool newline;
	if (next(j, value, &bytes, &newline, e) < 0)
		return -1;
	struct iovec v[2] = { { (void *)(uintptr_t)bytes.p, bytes.len }, { (char[]){ '\n' }, newline } };
	return lx_io_writev(fd, v, 2, e);
}

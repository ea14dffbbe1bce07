#include "trace.h"
#include "io.h"

#include <fcntl.h>
#include <unistd.h>

int lx_trace_open(struct lx_trace *t, const char *path, struct lx_err *e)
{
	*t = (struct lx_trace){ .fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), .start_ns = lx_io_now_ns() };
	return t->fd < 0 ? lx_err_sys(e, "%s", path) : 0;
}

void lx_trace_flush(struct lx_trace *t)
{
	if (!t || !t->lines.len)
		return;
	if (lx_buf_check(&t->lines, &t->err) == 0)
		lx_io_write(t->fd, t->lines.p, t->lines.len, &t->err);
	lx_buf_clear(&t->lines);
}

void lx_trace_event(struct lx_trace *t, const char *event, const char *domain, const struct lx_id *id)
{
	char text[LX_ID_TEXT_MAX];
	if (!t)
		return;
	uint64_t us = (lx_io_now_ns() - t->start_ns) / 1000;
	lx_id_text(id, text, sizeof(text));
	lx_buf_printf(&t->lines, "{\"ms\":%llu.%03u,\"event\":\"%s\",\"domain\":\"%s\",\"id\":\"%s\"}\n",
	              (unsigned long long)us / 1000, (unsigned)(us % 1000), event, domain, text);
	if (t->lines.len >= 64u << 10)
		lx_trace_flush(t);
}

int lx_trace_close(struct lx_trace *t, struct lx_err *e)
{
	lx_trace_flush(t);
	if (close(t->fd) < 0)
		lx_err_sys(&t->err, "close");
	t->fd = -1;
	lx_buf_free(&t->lines);
	return t->err.code ? lx_err_set(e, t->err.code, "%s", t->err.msg) : 0;
}

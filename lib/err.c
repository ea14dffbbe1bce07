#include "err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A message is one line whatever bytes of somebody's data are in it. */
static void make_one_line(char *s, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	char out[LX_ERR_MAX];
	size_t n = 0;
	for (const unsigned char *p = (unsigned char *)s; *p && n + 5 < sizeof(out) && n + 5 < size; p++) {
		if (*p >= 0x20 && *p != 0x7f) {
			out[n++] = (char)*p;
			continue;
		}
		out[n++] = '\\';
		out[n++] = 'x';
		out[n++] = hex[*p >> 4];
		out[n++] = hex[*p & 15];
	}
	memcpy(s, out, n);
	s[n] = '\0';
}

static void fill(struct lx_err *e, int code, int sys, const char *fmt, va_list ap)
{
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	if (sys) {
		size_t n = strlen(e->msg);
		snprintf(e->msg + n, sizeof(e->msg) - n, ": %s", strerror(sys));
	}
	make_one_line(e->msg, sizeof(e->msg));
	e->code = code;
	e->sys = sys;
}

int lx_err_set(struct lx_err *e, int code, const char *fmt, ...)
{
	if (e->code != LX_OK)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	fill(e, code, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int lx_err_sys(struct lx_err *e, const char *fmt, ...)
{
	int sys = errno;
	if (e->code != LX_OK)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	fill(e, LX_SYSTEM, sys, fmt, ap);
	va_end(ap);
	return -1;
}

int lx_err_prefix(struct lx_err *e, const char *fmt, ...)
{
	char head[LX_ERR_MAX], msg[LX_ERR_MAX];
	if (e->code == LX_OK)
		return -1;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(head, sizeof(head), fmt, ap);
	va_end(ap);
	memcpy(msg, e->msg, sizeof(msg));
	size_t n = strlen(head), room = sizeof(e->msg) - 1;
	memcpy(e->msg, head, n);
	for (const char *p = ": "; *p && n < room; p++)
		e->msg[n++] = *p;
	for (const char *p = msg; *p && n < room; p++)
		e->msg[n++] = *p;
	e->msg[n] = '\0';
	make_one_line(e->msg, sizeof(e->msg));
	return -1;
}

#include "part.h"

#include <fcntl.h>
#include <unistd.h>

bool lx_part_name(const char *name)
{
	size_t n = strlen(name);
	return name[0] != '.' && n > 3 && strcmp(name + n - 3, ".lx") == 0;
}

static int on_begin(const struct lx_reader *r, const char *path, struct lx_part *p, struct lx_err *e)
{
	const struct lx_plan *plan = lx_reader_plan(r);
	if (!plan->has_part)
		return lx_err_set(e, LX_DATA, "%s: a stream, but not a part of one", path);
	if (p->run[0])
		return lx_err_set(e, LX_DATA, "%s: more than one part", path);
	strcpy(p->run, plan->run);
	p->number = plan->part;
	return 0;
}

static int read_frame(struct lx_reader *r, int (*rec)(void *ctx, const struct lx_rec *r, struct lx_err *e), void *ctx, struct lx_err *e)
{
	struct lx_rec record;
	int got;
	while ((got = lx_reader_rec(r, &record, e)) > 0)
		if (rec && rec(ctx, &record, e) < 0)
			return -1;
	return got;
}

/* The abort mark of whoever wrote the file is its reason for being none. */
static int broken(const char *path, struct lx_err *e)
{
	if (!e->upstream)
		return -1;
	lx_err_prefix(e, "%s: %s gave up", path, e->stage);
	e->upstream = false;
	e->code = LX_DATA;
	return -1;
}

static int read_all(struct lx_reader *r, const char *path, struct lx_part *p,
                    int (*rec)(void *ctx, const struct lx_rec *r, struct lx_err *e), void *ctx, struct lx_err *e)
{
	for (;;) {
		switch (lx_reader_wait(r, e)) {
		case LX_EV_ERROR:
			return broken(path, e);
		case LX_EV_MORE:
			return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
		case LX_EV_BEGIN:
			if (on_begin(r, path, p, e) < 0)
				return -1;
			break;
		case LX_EV_FRAME:
			if (read_frame(r, rec, ctx, e) < 0)
				return -1;
			break;
		case LX_EV_END:
			p->parts = lx_reader_last(r);
			break;
		case LX_EV_EOF:
			return 0;
		case LX_EV_HINT:
			break;
		}
	}
}

static struct lx_reader *open_part(const char *path, const struct lx_limits *l, int *fd, struct lx_err *e)
{
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0) {
		lx_err_sys(e, "%s", path);
		return NULL;
	}
	struct lx_reader *r = lx_reader_new(*fd, path, l, e);
	if (r)
		lx_reader_keep_parts(r);
	else
		close(*fd);
	return r;
}

int lx_part_read(const char *path, const struct lx_limits *l, struct lx_part *p,
                 int (*rec)(void *ctx, const struct lx_rec *r, struct lx_err *e), void *ctx, struct lx_err *e)
{
	int fd;
	struct lx_reader *r = open_part(path, l, &fd, e);
	*p = (struct lx_part){ 0 };
	if (!r)
		return -1;
	int rc = read_all(r, path, p, rec, ctx, e);
	lx_reader_free(r);
	close(fd);
	return rc;
}

int lx_part_head(const char *path, const struct lx_limits *l, struct lx_part *p, struct lx_err *e)
{
	int fd, rc = -1;
	struct lx_reader *r = open_part(path, l, &fd, e);
	*p = (struct lx_part){ 0 };
	if (!r)
		return -1;
	enum lx_event ev = lx_reader_wait(r, e);
	if (ev == LX_EV_BEGIN)
		rc = on_begin(r, path, p, e);
	else if (ev == LX_EV_MORE)
		lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	else
		broken(path, e);
	lx_reader_free(r);
	close(fd);
	return rc;
}

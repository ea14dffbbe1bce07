#include "ledger.h"

#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIELDS 8
#define CHUNK (64u << 10)
#define CHUNKS 16 /* read at one look */

enum field { RUN, DOMAIN, ID, TYPE, ANCHOR, ORIGIN, STAGE, MESSAGE };

struct lx_ledger {
	int fd;
	off_t at;          /* read so far */
	uint64_t looked_ns;
	struct lx_buf line; /* being written */
	struct lx_buf in;   /* read, no whole line yet */
	bool skipping;      /* in a line that is too long to be ours */
};

/* why: an errno; 0: `barriers` is there and no regular file. */
static void refuse(const char *dir, bool folder, int why, struct lx_err *e)
{
	const char *do_what = why == EACCES || why == EPERM ? "name a directory that you may write to" : "name another directory";
	if (folder && (!why || why == EISDIR || why == ELOOP))
		lx_err_set(e, LX_USAGE, "LX_RUN=%s: 'barriers' in it is no regular file (remove that, or name another directory)", dir);
	else if (folder)
		lx_err_set(e, LX_USAGE, "LX_RUN=%s: 'barriers' in it: %s (%s, or do not set LX_RUN)", dir, strerror(why), do_what);
	else
		lx_err_set(e, LX_USAGE, "LX_RUN=%s: %s (%s, or do not set LX_RUN)", dir, strerror(why), why == ENOENT ? "make the directory" : do_what);
}

struct lx_ledger *lx_ledger_open(const char *dir, struct lx_err *e)
{
	struct stat st;
	struct lx_ledger *l = calloc(1, sizeof(*l));
	int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Whatever stands there, opening it does not wait. */
	int fd = folder < 0 ? -1 : openat(folder, "barriers", O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
	int why = errno;
	if (folder >= 0)
		close(folder);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -1;
		why = 0;
	}
	if (l && fd >= 0) {
		l->fd = fd;
		l->at = st.st_size;
		return l;
	}
	free(l);
	if (fd >= 0) {
		close(fd);
		lx_err_sys(e, "LX_RUN");
	} else {
		refuse(dir, folder >= 0, why, e);
	}
	return NULL;
}

void lx_ledger_close(struct lx_ledger *l)
{
	if (!l)
		return;
	close(l->fd);
	lx_buf_free(&l->line);
	lx_buf_free(&l->in);
	free(l);
}

/* ---- writing ---- */

static void put_text(struct lx_buf *b, struct lx_span s)
{
	for (size_t i = 0; i < s.len && b->len < LX_LEDGER_LINE - 8; i++) {
		if (s.p[i] < 0x20 || s.p[i] >= 0x7f || s.p[i] == '\\')
			lx_buf_printf(b, "\\x%02x", s.p[i]);
		else
			lx_buf_byte(b, s.p[i]);
	}
}

static void put_id(struct lx_buf *b, const struct lx_id *id)
{
	char text[LX_ID_TEXT_MAX];
	lx_id_text(id, text, sizeof(text));
	lx_buf_str(b, text);
}

static void put_item(struct lx_buf *b, const struct lx_plan *p, uint32_t domain, const struct lx_id *id)
{
	if (domain >= (uint32_t)p->n_domains)
		return;
	lx_buf_printf(b, "%s:", p->domains[domain].name);
	put_id(b, id);
}

static bool has_below(const struct lx_plan *p, uint32_t domain)
{
	for (int i = (int)domain + 1; i < p->n_domains; i++)
		if (p->domains[i].parent == (int)domain)
			return true;
	return false;
}

void lx_ledger_write(struct lx_ledger *l, const struct lx_plan *p, uint32_t domain, const struct lx_id *id, struct lx_span cause)
{
	struct lx_buf *b = &l->line;
	struct lx_cause c;
	if (!has_below(p, domain) || lx_cause_read(cause, &c) < 0)
		return;
	lx_buf_clear(b);
	lx_buf_printf(b, "%s\t%s\t", p->run, p->domains[domain].name);
	put_id(b, id);
	lx_buf_byte(b, '\t');
	put_text(b, c.type);
	lx_buf_byte(b, '\t');
	put_item(b, p, c.anchor_domain, &c.anchor);
	lx_buf_byte(b, '\t');
	if (c.judged.len)
		put_text(b, c.judged);
	else
		put_item(b, p, c.origin_domain, &c.origin);
	lx_buf_byte(b, '\t');
	put_text(b, c.stage);
	lx_buf_byte(b, '\t');
	put_text(b, c.message);
	lx_buf_byte(b, '\n');
	/* Not written, or only in part (a full disk): readers know what a line is. */
	if (!b->failed && b->len <= LX_LEDGER_LINE && write(l->fd, b->p, b->len) < 0)
		return;
}

/* ---- reading ---- */

static int hex(uint8_t c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undo put_text, into room; -1: it is not such a text. */
static int plain(struct lx_span *s, uint8_t *room)
{
	size_t n = 0;
	for (size_t i = 0; i < s->len; i++, n++) {
		room[n] = s->p[i];
		if (s->p[i] != '\\')
			continue;
		int high = s->len - i >= 4 && s->p[i + 1] == 'x' ? hex(s->p[i + 2]) : -1, low = high < 0 ? -1 : hex(s->p[i + 3]);
		if (low < 0)
			return -1;
		room[n] = (uint8_t)(high << 4 | low);
		i += 3;
	}
	*s = (struct lx_span){ room, n };
	return 0;
}

/* "page:12.3"; for one that this stage does not know (its domain is opened further on), an item that is known. */
static uint32_t read_place(const struct lx_plan *p, struct lx_span s, uint32_t domain, const struct lx_id *item, struct lx_id *id)
{
	int d = lx_plan_place(p, s, id);
	if (d >= 0)
		return (uint32_t)d;
	*id = *item;
	return domain;
}

/* Where it began may be known by name only: not the doomed item itself, which then would have failed and not be suppressed. */
static void read_places(const struct lx_plan *p, const struct lx_span f[FIELDS], uint32_t domain, const struct lx_id *item, struct lx_cause *c)
{
	struct lx_id known;
	c->anchor_domain = read_place(p, f[ANCHOR], domain, item, &c->anchor);
	c->origin_domain = read_place(p, f[ORIGIN], c->anchor_domain, &c->anchor, &c->origin);
	if (lx_plan_place(p, f[ORIGIN], &known) < 0)
		c->judged = f[ORIGIN];
}

static int split(struct lx_span line, struct lx_span f[FIELDS])
{
	for (int i = 0; i < FIELDS; i++) {
		const uint8_t *tab = memchr(line.p, '\t', line.len);
		if (!tab != (i == FIELDS - 1))
			return -1;
		size_t n = tab ? (size_t)(tab - line.p) : line.len;
		f[i] = (struct lx_span){ line.p, n };
		line.p += n + (tab != NULL);
		line.len -= n + (tab != NULL);
	}
	return 0;
}

/* What is no line of ours, or none of this run, says nothing. */
static void take_line(const struct lx_plan *p, struct lx_doom *d, struct lx_span line)
{
	struct lx_span f[FIELDS];
	uint8_t room[3][LX_LEDGER_LINE];
	struct lx_id id;
	struct lx_buf cause = { 0 };
	int domain;
	if (line.len >= LX_LEDGER_LINE || split(line, f) < 0 || !lx_span_eq(f[RUN], lx_span_str(p->run)) ||
	    (domain = lx_plan_item(p, f[DOMAIN], f[ID], &id)) < 0 || plain(&f[TYPE], room[0]) < 0 || plain(&f[STAGE], room[1]) < 0 ||
	    plain(&f[MESSAGE], room[2]) < 0 || !f[TYPE].len ||
	    !memchr(f[ORIGIN].p, ':', f[ORIGIN].len))
		return;
	struct lx_cause c = { .type = f[TYPE], .message = f[MESSAGE], .stage = f[STAGE] };
	read_places(p, f, (uint32_t)domain, &id, &c);
	lx_cause_pack(&cause, &c);
	if (!cause.failed)
		lx_doom_bar(d, (uint32_t)domain, &id, LX_SUPPRESSED, lx_buf_view(&cause));
	lx_buf_free(&cause);
}

static void take_lines(struct lx_ledger *l, const struct lx_plan *p, struct lx_doom *d)
{
	size_t at = 0;
	for (const uint8_t *lf; (lf = memchr(l->in.p + at, '\n', l->in.len - at)); at = (size_t)(lf - l->in.p) + 1) {
		if (!l->skipping)
			take_line(p, d, (struct lx_span){ l->in.p + at, (size_t)(lf - l->in.p) - at });
		l->skipping = false;
	}
	l->in.len -= at;
	memmove(l->in.p, l->in.p + at, l->in.len);
	if (l->in.len >= LX_LEDGER_LINE) {
		l->skipping = true;
		lx_buf_clear(&l->in);
	}
}

void lx_ledger_read(struct lx_ledger *l, const struct lx_plan *p, struct lx_doom *d, bool now)
{
	uint64_t ns = lx_io_now_ns();
	struct stat st;
	if ((!now && ns - l->looked_ns < LX_LEDGER_MS * 1000000ull) || fstat(l->fd, &st) < 0)
		return;
	l->looked_ns = ns;
	if (st.st_size < l->at) /* somebody emptied it */
		l->at = st.st_size;
	/* No more at a time than what others may reasonably have told since: a stage works, it does not read. */
	for (int chunks = 0; l->at < st.st_size && chunks < CHUNKS; chunks++) {
		uint8_t *to = lx_buf_room(&l->in, CHUNK);
		ssize_t got = to ? pread(l->fd, to, CHUNK, l->at) : -1;
		if (got <= 0)
			return;
		l->at += got;
		l->in.len += (size_t)got;
		take_lines(l, p, d);
	}
}

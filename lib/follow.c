#include "follow.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define NAP_MIN_MS 20
#define NAP_MAX_MS 2000
#define NAP_FACTOR 20   /* looking may take a twentieth of the time */
#define SAID_MAX 8      /* files named one by one */

/* What a file was when it was looked at. */
struct look {
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct entry {
	char *path;
	char *why;   /* it was not whole, or of another run; NULL: not looked at yet, or taken */
	bool taken;
	struct look look;
};

struct listing {
	struct entry *v; /* in the order of names */
	size_t n, cap;
};

struct lx_follow {
	char *const *dirs;
	struct lx_limits limits;
	void (*say)(const char *line);
	struct listing all;
	size_t at;         /* entries before it have been looked at this time */
	bool looking;
	uint64_t began_ns, took_ns;
	char run[LX_RUN_MAX + 1]; /* "": part 0 has not come */
	uint8_t *seen;
	uint64_t n_seen, cap_seen, parts;
};

struct lx_follow *lx_follow_new(char *const *dirs, const struct lx_limits *l, void (*say)(const char *line), struct lx_err *e)
{
	struct lx_follow *f = calloc(1, sizeof(*f));
	if (!f) {
		lx_err_sys(e, "--follow");
		return NULL;
	}
	f->dirs = dirs;
	f->limits = *l;
	f->say = say;
	return f;
}

static void free_entry(struct entry *n)
{
	free(n->path);
	free(n->why);
}

static void free_listing(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		free_entry(&l->v[i]);
	free(l->v);
	*l = (struct listing){ 0 };
}

void lx_follow_free(struct lx_follow *f)
{
	if (!f)
		return;
	free_listing(&f->all);
	free(f->seen);
	free(f);
}

/* ---- what is there ---- */

static int add_entry(struct listing *l, const char *dir, const char *name, struct lx_err *e)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		struct entry *v = realloc(l->v, cap * sizeof(*v));
		if (!v)
			return lx_err_sys(e, "%s", dir);
		l->v = v;
		l->cap = cap;
	}
	struct entry n = { 0 };
	if (asprintf(&n.path, "%s/%s", dir, name) < 0)
		return lx_err_sys(e, "%s", dir);
	l->v[l->n++] = n;
	return 0;
}

static int list_dir(struct listing *l, const char *dir, struct lx_err *e)
{
	DIR *d = opendir(dir);
	int rc = 0;
	if (!d) /* it may not be there yet */
		return errno == ENOENT ? 0 : lx_err_sys(e, "%s", dir);
	for (struct dirent *n; rc == 0 && (n = readdir(d));)
		if (lx_part_name(n->d_name))
			rc = add_entry(l, dir, n->d_name, e);
	closedir(d);
	return rc;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

/* What was known of the files that are still there. */
static void carry_over(struct listing *now, struct listing *before)
{
	size_t b = 0;
	for (size_t i = 0; i < now->n; i++) {
		while (b < before->n && by_path(&before->v[b], &now->v[i]) < 0)
			b++;
		if (b == before->n)
			return;
		if (by_path(&before->v[b], &now->v[i]) != 0)
			continue;
		now->v[i].taken = before->v[b].taken;
		now->v[i].why = before->v[b].why;
		now->v[i].look = before->v[b].look;
		before->v[b].why = NULL;
	}
}

static int look(struct lx_follow *f, struct lx_err *e)
{
	struct listing now = { 0 };
	f->began_ns = lx_io_now_ns();
	for (char *const *d = f->dirs; *d; d++)
		if (list_dir(&now, *d, e) < 0) {
			free_listing(&now);
			return -1;
		}
	if (now.n)
		qsort(now.v, now.n, sizeof(*now.v), by_path);
	carry_over(&now, &f->all);
	free_listing(&f->all);
	f->all = now;
	f->at = 0;
	f->looking = true;
	return 0;
}

/* Whether there is reason to read a file. False too when it has gone meanwhile. */
static bool is_news(struct entry *n)
{
	struct stat st;
	if (n->taken || stat(n->path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	struct look l = { .ino = st.st_ino, .size = st.st_size, .changed = st.st_mtim };
	if (n->why && l.ino == n->look.ino && l.size == n->look.size && l.changed.tv_sec == n->look.changed.tv_sec &&
	    l.changed.tv_nsec == n->look.changed.tv_nsec)
		return false;
	free(n->why);
	n->why = NULL;
	n->look = l;
	return true;
}

/* ---- taking ---- */

static int mark_seen(struct lx_follow *f, uint64_t number, struct lx_err *e)
{
	if (number >= f->cap_seen) {
		uint64_t cap = f->cap_seen ? f->cap_seen : 1024;
		while (cap <= number)
			cap *= 2;
		uint8_t *seen = realloc(f->seen, cap);
		if (!seen)
			return lx_err_sys(e, "parts");
		memset(seen + f->cap_seen, 0, cap - f->cap_seen);
		f->seen = seen;
		f->cap_seen = cap;
	}
	bool again = f->seen[number];
	f->n_seen += !again;
	f->seen[number] = 1;
	return again ? 0 : 1;
}

/* Not whole, or not ours: why. What only the system could say ends it all; a file that has gone does not. */
static int refuse(struct entry *n, struct lx_err *why, struct lx_err *e)
{
	if (why->code == LX_SYSTEM && why->sys != ENOENT)
		return lx_err_set(e, why->code, "%s", why->msg);
	n->why = strdup(why->msg);
	return n->why ? 0 : lx_err_sys(e, "%s", n->path);
}

/* Which run it is, from the first part. 0 or -1. */
static int find_run(struct lx_follow *f, struct lx_err *e)
{
	for (size_t i = 0; i < f->all.n; i++) {
		struct lx_part p;
		struct lx_err why = LX_ERR_INIT;
		if (lx_part_head(f->all.v[i].path, &f->limits, &p, &why) < 0 || p.number != 0)
			continue;
		if (f->run[0] && strcmp(f->run, p.run) != 0)
			return lx_err_set(e, LX_USAGE, "%s is the first part of run %s, but there is one of run %s too: a directory for each run",
			                  f->all.v[i].path, p.run, f->run);
		strcpy(f->run, p.run);
	}
	return 0;
}

/* 1: a part to hand out; 0: none; -1. */
static int take(struct lx_follow *f, struct entry *n, bool first, struct lx_err *e)
{
	struct lx_part p;
	struct lx_err why = LX_ERR_INIT;
	if (lx_part_read(n->path, &f->limits, &p, NULL, NULL, &why) < 0)
		return refuse(n, &why, e);
	if (strcmp(p.run, f->run) != 0) {
		lx_err_set(&why, LX_DATA, "%s: it is of run %s, not of run %s", n->path, p.run, f->run);
		return refuse(n, &why, e);
	}
	if (first && p.number != 0) {
		n->look = (struct look){ 0 };
		return 0;
	}
	n->taken = true;
	if (p.parts)
		f->parts = p.parts;
	return mark_seen(f, p.number, e);
}

static int take_next(struct lx_follow *f, const char **path, struct lx_err *e)
{
	while (f->at < f->all.n) {
		struct entry *n = &f->all.v[f->at++];
		bool first = !f->n_seen;
		int got = is_news(n) ? take(f, n, first, e) : 0;
		if (got < 0)
			return -1;
		if (got == 0)
			continue;
		*path = n->path;
		if (first) /* those before it in the list are to be looked at now */
			f->at = 0;
		return 1;
	}
	return 0;
}

int lx_follow_next(struct lx_follow *f, const char **path, struct lx_err *e)
{
	if (f->parts && f->n_seen == f->parts)
		return 0;
	if (!f->looking && look(f, e) < 0)
		return -1;
	if (!f->run[0] && find_run(f, e) < 0)
		return -1;
	int got = f->run[0] ? take_next(f, path, e) : 0;
	if (got)
		return got;
	f->looking = false;
	f->took_ns = lx_io_now_ns() - f->began_ns;
	return LX_IO_AGAIN;
}

int lx_follow_nap_ms(const struct lx_follow *f)
{
	uint64_t ms = f->took_ns * NAP_FACTOR / 1000000;
	return ms < NAP_MIN_MS ? NAP_MIN_MS : ms > NAP_MAX_MS ? NAP_MAX_MS : (int)ms;
}

void lx_follow_report(const struct lx_follow *f)
{
	size_t n = 0;
	for (size_t i = 0; f->say && i < f->all.n; i++)
		if (f->all.v[i].why && n++ < SAID_MAX) {
			char line[LX_ERR_MAX];
			snprintf(line, sizeof(line), "not taken: %s", f->all.v[i].why);
			f->say(line);
		}
}

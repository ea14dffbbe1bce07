#include "await.h"

#include "io.h"

#include <stdlib.h>
#include <unistd.h>

#define NOWHERE UINT64_MAX
#define WASTE_MAX (4u << 20) /* bytes in the file that nobody wants, beyond as many as are wanted */

/* Bytes here or in the file. */
struct place {
	uint8_t *p;   /* NULL: in the file, or nothing */
	uint64_t at;  /* in the file; NOWHERE: not there */
	size_t len;
};

/* A record that waits, in memory. In the file: the place and length of the one before it, 16 bytes, then the record. */
struct row {
	struct row *next;
	size_t len;
	uint8_t bytes[];
};

struct entry {
	struct entry *chain;        /* of its slot */
	struct entry *older, *newer; /* of those that records wait for */
	uint64_t hash;
	struct place value;
	bool has_value;
	struct row *rows;
	uint64_t last_at;           /* the last record in the file; NOWHERE: none */
	uint64_t last_len;
	struct lx_id id;
};

struct lx_await {
	struct entry **slots;
	size_t n_slots, n;
	struct entry *waiting;      /* any of those that records wait for */
	uint64_t mem, used;
	const char *dir;
	int fd;
	uint64_t end, there, spilled; /* of the file: its end, what is still wanted of it, all that was ever written */
	struct lx_buf read;
};

struct lx_await *lx_await_new(uint64_t mem, const char *dir, struct lx_err *e)
{
	struct lx_await *a = calloc(1, sizeof(*a));
	if (a) {
		a->n_slots = 64;
		a->slots = calloc(a->n_slots, sizeof(*a->slots));
	}
	if (!a || !a->slots) {
		free(a);
		lx_err_sys(e, "values");
		return NULL;
	}
	a->mem = mem;
	a->dir = dir;
	a->fd = -1;
	return a;
}

static void free_entry(struct entry *n)
{
	for (struct row *r; (r = n->rows);) {
		n->rows = r->next;
		free(r);
	}
	free(n->value.p);
	free(n);
}

void lx_await_free(struct lx_await *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n_slots; i++)
		for (struct entry *n; (n = a->slots[i]);) {
			a->slots[i] = n->chain;
			free_entry(n);
		}
	if (a->fd >= 0)
		close(a->fd);
	lx_buf_free(&a->read);
	free(a->slots);
	free(a);
}

/* ---- entries ---- */

static struct entry *find(const struct lx_await *a, const struct lx_id *id, uint64_t hash)
{
	for (struct entry *n = a->slots[hash & (a->n_slots - 1)]; n; n = n->chain)
		if (n->hash == hash && lx_id_eq(&n->id, id))
			return n;
	return NULL;
}

/* A table that cannot grow only gets slower. */
static void grow(struct lx_await *a)
{
	size_t n_slots = a->n_slots * 4;
	struct entry **slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return;
	for (size_t i = 0; i < a->n_slots; i++)
		for (struct entry *n; (n = a->slots[i]);) {
			a->slots[i] = n->chain;
			n->chain = slots[n->hash & (n_slots - 1)];
			slots[n->hash & (n_slots - 1)] = n;
		}
	free(a->slots);
	a->slots = slots;
	a->n_slots = n_slots;
}

static struct entry *find_or_make(struct lx_await *a, const struct lx_id *id, struct lx_err *e)
{
	uint64_t hash = lx_id_hash(id);
	struct entry *n = find(a, id, hash);
	if (n)
		return n;
	if (a->n >= a->n_slots)
		grow(a);
	/* Of the id only the numbers it has. */
	n = calloc(1, offsetof(struct entry, id.ord) + id->n * sizeof(id->ord[0]));
	if (!n) {
		lx_err_sys(e, "values");
		return NULL;
	}
	n->hash = hash;
	n->id.n = id->n;
	memcpy(n->id.ord, id->ord, id->n * sizeof(id->ord[0]));
	n->last_at = n->value.at = NOWHERE;
	n->chain = a->slots[hash & (a->n_slots - 1)];
	a->slots[hash & (a->n_slots - 1)] = n;
	a->n++;
	return n;
}

static void remove_entry(struct lx_await *a, struct entry *n)
{
	struct entry **at = &a->slots[n->hash & (a->n_slots - 1)];
	while (*at != n)
		at = &(*at)->chain;
	*at = n->chain;
	a->n--;
	free_entry(n);
}

static bool is_waited_for(const struct entry *n)
{
	return n->rows || n->last_at != NOWHERE;
}

static void link_waiting(struct lx_await *a, struct entry *n)
{
	n->older = a->waiting;
	if (a->waiting)
		a->waiting->newer = n;
	a->waiting = n;
}

static void unlink_waiting(struct lx_await *a, struct entry *n)
{
	if (n->newer)
		n->newer->older = n->older;
	else
		a->waiting = n->older;
	if (n->older)
		n->older->newer = n->newer;
	n->older = n->newer = NULL;
}

/* ---- the file ---- */

static int to_file(struct lx_await *a, struct lx_span bytes, uint64_t *at, struct lx_err *e)
{
	if (a->fd < 0 && (a->fd = lx_io_tmpfile(a->dir, e)) < 0)
		return -1;
	*at = a->end;
	if (lx_io_write_at(a->fd, bytes.p, bytes.len, a->end, e) < 0)
		return lx_err_prefix(e, "temporary file in %s (--tmpdir)", lx_io_tmpdir(a->dir));
	a->end += bytes.len;
	a->there += bytes.len;
	a->spilled += bytes.len;
	return 0;
}

static int from_file(struct lx_await *a, uint64_t at, size_t len, struct lx_buf *b, struct lx_err *e)
{
	uint8_t *to;
	lx_buf_clear(b);
	to = lx_buf_room(b, len + 1);
	if (!to)
		return lx_buf_check(b, e);
	if (lx_io_read_at(a->fd, to, len, at, e) < 0)
		return lx_err_prefix(e, "temporary file in %s (--tmpdir)", lx_io_tmpdir(a->dir));
	b->len = len;
	return 0;
}

/* One more record that waits: before it lies where the one before is. */
static int hold_in_file(struct lx_await *a, struct entry *n, struct lx_span record, struct lx_err *e)
{
	uint64_t before[2] = { n->last_at, n->last_len };
	lx_buf_clear(&a->read);
	lx_buf_add(&a->read, before, sizeof(before));
	lx_buf_span(&a->read, record);
	if (lx_buf_check(&a->read, e) < 0 || to_file(a, lx_buf_view(&a->read), &n->last_at, e) < 0)
		return -1;
	n->last_len = a->read.len;
	return 0;
}

/* What waits for an item, to another file; in the other order, as there is none. */
static int move_records(struct lx_await *from, struct lx_await *to, struct entry *n, struct lx_err *e)
{
	uint64_t at = n->last_at, len = n->last_len, before[2];
	n->last_at = NOWHERE;
	n->last_len = 0;
	for (; at != NOWHERE; at = before[0], len = before[1]) {
		if (from_file(from, at, len, &from->read, e) < 0)
			return -1;
		memcpy(before, from->read.p, sizeof(before));
		if (hold_in_file(to, n, (struct lx_span){ from->read.p + sizeof(before), len - sizeof(before) }, e) < 0)
			return -1;
	}
	return 0;
}

static int move_value(struct lx_await *from, struct lx_await *to, struct entry *n, struct lx_err *e)
{
	if (n->value.at == NOWHERE)
		return 0;
	if (from_file(from, n->value.at, n->value.len, &from->read, e) < 0)
		return -1;
	return to_file(to, lx_buf_view(&from->read), &n->value.at, e);
}

/* Where something always waits the file never empties: when most of it is waste, what is wanted moves to a new one. */
static int tidy_file(struct lx_await *a, struct lx_err *e)
{
	struct lx_await to = { .dir = a->dir, .fd = -1 };
	int rc = 0;
	if (a->end < 2 * a->there + WASTE_MAX)
		return 0;
	for (size_t i = 0; i < a->n_slots; i++)
		for (struct entry *n = a->slots[i]; n && rc == 0; n = n->chain)
			rc = move_records(a, &to, n, e) < 0 ? -1 : move_value(a, &to, n, e);
	close(a->fd);
	lx_buf_free(&to.read);
	a->fd = to.fd;
	a->end = a->there = to.end;
	return rc;
}

/* When nothing in it is wanted any more the file begins anew. */
static void drop_from_file(struct lx_await *a, uint64_t len)
{
	a->there -= len;
	if (a->there == 0 && a->end && ftruncate(a->fd, 0) == 0)
		a->end = 0;
}

/* ---- values ---- */

static void drop_value(struct lx_await *a, struct entry *n)
{
	if (n->value.p)
		a->used -= n->value.len;
	else if (n->value.at != NOWHERE)
		drop_from_file(a, n->value.len);
	free(n->value.p);
	n->value = (struct place){ .at = NOWHERE };
	n->has_value = false;
}

int lx_await_put(struct lx_await *a, const struct lx_id *item, struct lx_span value, struct lx_err *e)
{
	struct entry *n = find_or_make(a, item, e);
	if (!n || tidy_file(a, e) < 0)
		return -1;
	drop_value(a, n);
	n->value.len = value.len;
	if (a->used + value.len > a->mem) {
		if (to_file(a, value, &n->value.at, e) < 0)
			return -1;
	} else {
		if (!(n->value.p = malloc(value.len + 1)))
			return lx_err_sys(e, "values");
		memcpy(n->value.p, value.p, value.len);
		a->used += value.len;
	}
	n->has_value = true;
	return 0;
}

int lx_await_get(struct lx_await *a, const struct lx_id *item, struct lx_span *value, struct lx_err *e)
{
	struct entry *n = find(a, item, lx_id_hash(item));
	if (!n || !n->has_value)
		return 0;
	if (n->value.p) {
		*value = (struct lx_span){ n->value.p, n->value.len };
		return 1;
	}
	if (from_file(a, n->value.at, n->value.len, &a->read, e) < 0)
		return -1;
	*value = lx_buf_view(&a->read);
	return 1;
}

bool lx_await_forget(struct lx_await *a, const struct lx_id *item)
{
	struct entry *n = find(a, item, lx_id_hash(item));
	if (!n || !n->has_value || is_waited_for(n))
		return false;
	drop_value(a, n);
	remove_entry(a, n);
	return true;
}

/* ---- records that wait ---- */

int lx_await_hold(struct lx_await *a, const struct lx_id *item, struct lx_span record, struct lx_err *e)
{
	struct entry *n = find_or_make(a, item, e);
	if (!n || tidy_file(a, e) < 0)
		return -1;
	bool first = !is_waited_for(n);
	if (a->used + record.len > a->mem) {
		if (hold_in_file(a, n, record, e) < 0)
			return -1;
	} else {
		struct row *r = malloc(sizeof(*r) + record.len);
		if (!r)
			return lx_err_sys(e, "records that wait");
		memcpy(r->bytes, record.p, record.len);
		r->len = record.len;
		r->next = n->rows;
		n->rows = r;
		a->used += record.len;
	}
	if (first)
		link_waiting(a, n);
	return 0;
}

static int take_from_file(struct lx_await *a, struct entry *n, struct lx_buf *record, struct lx_err *e)
{
	uint64_t before[2];
	if (from_file(a, n->last_at, n->last_len, &a->read, e) < 0)
		return -1;
	memcpy(before, a->read.p, sizeof(before));
	lx_buf_add(record, a->read.p + sizeof(before), a->read.len - sizeof(before));
	drop_from_file(a, n->last_len);
	n->last_at = before[0];
	n->last_len = before[1];
	return lx_buf_check(record, e);
}

int lx_await_take(struct lx_await *a, const struct lx_id *item, struct lx_buf *record, struct lx_err *e)
{
	struct entry *n = find(a, item, lx_id_hash(item));
	lx_buf_clear(record);
	if (!n || !is_waited_for(n))
		return 0;
	if (n->rows) {
		struct row *r = n->rows;
		n->rows = r->next;
		a->used -= r->len;
		lx_buf_add(record, r->bytes, r->len);
		free(r);
		if (lx_buf_check(record, e) < 0)
			return -1;
	} else if (take_from_file(a, n, record, e) < 0) {
		return -1;
	}
	if (!is_waited_for(n)) {
		unlink_waiting(a, n);
		if (!n->has_value)
			remove_entry(a, n);
	}
	return 1;
}

bool lx_await_any(const struct lx_await *a, struct lx_id *item)
{
	if (!a->waiting)
		return false;
	/* Only the numbers it has are there. */
	item->n = a->waiting->id.n;
	memcpy(item->ord, a->waiting->id.ord, item->n * sizeof(item->ord[0]));
	return true;
}

uint64_t lx_await_spilled(const struct lx_await *a)
{
	return a->spilled;
}

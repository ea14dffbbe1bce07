#include "order.h"

#include <stdlib.h>

/* A row on disk: heads and bodies, one behind the other. */
struct row {
	struct lx_chain chain;
	struct lx_cursor cursor;
};

struct head {
	uint64_t body_len;
	uint32_t key_len;
};

struct lx_entry {
	struct row *row; /* NULL: the body follows the key */
	size_t key_len, body_len;
	uint64_t body_pos; /* in the row */
	uint8_t key[];
};

void lx_order_init(struct lx_order *o, uint64_t mem, const char *tmpdir)
{
	*o = (struct lx_order){ .mem = mem, .broken = LX_ERR_INIT };
	lx_spill_init(&o->spill, tmpdir, LX_ORDER_BLOCK);
}

static void free_row(struct row *r)
{
	lx_cursor_release(&r->cursor);
	free(r);
}

void lx_order_release(struct lx_order *o)
{
	for (size_t i = 0; i < o->n; i++) {
		if (o->heap[i]->row)
			free_row(o->heap[i]->row);
		free(o->heap[i]);
	}
	free(o->heap);
	free(o->taken);
	lx_spill_release(&o->spill);
	*o = (struct lx_order){ .spill.fd = -1 };
}

/* ---- comparing ---- */

static int cmp_bytes(const uint8_t *a, size_t na, const uint8_t *b, size_t nb)
{
	size_t n = na < nb ? na : nb;
	int d = n ? memcmp(a, b, n) : 0;
	return d ? d : (na > nb) - (na < nb);
}

/* The body, read into `b` when it lies in a row. */
static const uint8_t *peek_body(struct lx_order *o, const struct lx_entry *x, struct lx_buf *b)
{
	if (!x->row)
		return x->key + x->key_len;
	uint8_t *to = lx_buf_room(b, x->body_len + 1);
	if (!to)
		lx_buf_check(b, &o->broken);
	else if (lx_chain_read(&o->spill, &x->row->chain, x->body_pos, to, x->body_len, &o->broken) == 0)
		return to;
	return NULL;
}

static int cmp_bodies(struct lx_order *o, const struct lx_entry *a, const struct lx_entry *b)
{
	struct lx_buf own_a = { 0 }, own_b = { 0 };
	const uint8_t *pa = peek_body(o, a, &own_a), *pb = peek_body(o, b, &own_b);
	int d = pa && pb ? cmp_bytes(pa, a->body_len, pb, b->body_len) : 0;
	lx_buf_free(&own_a);
	lx_buf_free(&own_b);
	return d;
}

static int cmp(struct lx_order *o, const struct lx_entry *a, const struct lx_entry *b)
{
	int d = cmp_bytes(a->key, a->key_len, b->key, b->key_len);
	return d ? d : cmp_bodies(o, a, b);
}

/* ---- the heap ---- */

static void sift_up(struct lx_order *o, size_t i)
{
	struct lx_entry *x = o->heap[i];
	for (; i && cmp(o, x, o->heap[(i - 1) / 2]) < 0; i = (i - 1) / 2)
		o->heap[i] = o->heap[(i - 1) / 2];
	o->heap[i] = x;
}

static void sift_down(struct lx_order *o, size_t i)
{
	struct lx_entry *x = o->heap[i];
	for (size_t child; (child = 2 * i + 1) < o->n; i = child) {
		if (child + 1 < o->n && cmp(o, o->heap[child + 1], o->heap[child]) < 0)
			child++;
		if (cmp(o, x, o->heap[child]) <= 0)
			break;
		o->heap[i] = o->heap[child];
	}
	o->heap[i] = x;
}

static int push(struct lx_order *o, struct lx_entry *x, struct lx_err *e)
{
	if (o->n == o->cap) {
		size_t cap = o->cap ? o->cap * 2 : 256;
		struct lx_entry **heap = realloc(o->heap, cap * sizeof(struct lx_entry *));
		if (!heap)
			return lx_err_sys(e, "entries to be put in order");
		o->heap = heap;
		o->cap = cap;
	}
	o->heap[o->n++] = x;
	sift_up(o, o->n - 1);
	return 0;
}

static struct lx_entry *new_entry(size_t key_len, size_t body_len, struct lx_err *e)
{
	struct lx_entry *x = malloc(sizeof(*x) + key_len + body_len);
	if (!x)
		return lx_err_sys(e, "an entry to be put in order"), NULL;
	*x = (struct lx_entry){ .key_len = key_len, .body_len = body_len };
	return x;
}

static uint64_t weight(const struct lx_entry *x)
{
	return sizeof(*x) + x->key_len + x->body_len + 2 * sizeof(void *);
}

/* ---- rows ---- */

/* The next entry of a row as a heap entry: 1, 0 at the row's end, -1. */
static int row_head(struct row *r, struct lx_entry **out, struct lx_err *e)
{
	struct head h;
	if (!r->cursor.left)
		return 0;
	const uint8_t *p = lx_cursor_take(&r->cursor, sizeof(h), e);
	if (!p)
		return -1;
	memcpy(&h, p, sizeof(h));
	struct lx_entry *x = new_entry(h.key_len, 0, e);
	if (!x)
		return -1;
	p = lx_cursor_take(&r->cursor, h.key_len, e);
	if (!p) {
		free(x);
		return -1;
	}
	if (h.key_len)
		memcpy(x->key, p, h.key_len);
	x->body_len = (size_t)h.body_len;
	x->row = r;
	x->body_pos = lx_cursor_pos(&r->cursor);
	*out = x;
	return 1;
}

/* x lies in memory, its body behind its key. */
static int row_add(struct lx_order *o, struct row *r, const struct lx_entry *x, struct lx_err *e)
{
	struct head h;
	memset(&h, 0, sizeof(h)); /* its padding goes to disk too */
	h.body_len = x->body_len;
	h.key_len = (uint32_t)x->key_len;
	if (lx_chain_add(&o->spill, &r->chain, &h, sizeof(h), e) < 0)
		return -1;
	return lx_chain_add(&o->spill, &r->chain, x->key, x->key_len + x->body_len, e);
}

/* A row is written: put its head into the heap. Owns the row either way. */
static int row_open(struct lx_order *o, struct row *r, struct lx_err *e)
{
	struct lx_entry *x = NULL;
	if (lx_chain_seal(&o->spill, &r->chain, e) < 0 ||
	    lx_cursor_init(&r->cursor, &o->spill, &r->chain, true, e) < 0) {
		lx_chain_clear(&o->spill, &r->chain);
		free(r);
		return -1;
	}
	int rc = row_head(r, &x, e);
	if (rc > 0 && push(o, x, e) < 0) {
		free(x);
		rc = -1;
	}
	if (rc <= 0) {
		free_row(r);
		return rc;
	}
	o->rows++;
	return 0;
}

static void took(struct lx_order *o, struct lx_entry *x)
{
	free(o->taken);
	o->taken = x;
}

/* Put what follows the top in its place: `next`, or nothing. */
static void replace_top(struct lx_order *o, struct lx_entry *next)
{
	o->heap[0] = next ? next : o->heap[--o->n];
	if (o->n)
		sift_down(o, 0);
}

/* Take from the row whose head is at the top. */
static int take_from_row(struct lx_order *o, struct lx_err *e)
{
	struct lx_entry *x = o->heap[0], *next = NULL;
	struct row *r = x->row;
	struct lx_entry *whole = new_entry(x->key_len, x->body_len, e);
	if (!whole)
		return -1;
	memcpy(whole->key, x->key, x->key_len);
	took(o, whole);
	const uint8_t *p = lx_cursor_take(&r->cursor, x->body_len, e);
	if (!p)
		return -1;
	if (x->body_len)
		memcpy(whole->key + x->key_len, p, x->body_len);
	int rc = row_head(r, &next, e);
	if (rc < 0)
		return -1;
	free(x);
	if (rc == 0) {
		free_row(r);
		o->rows--;
	}
	replace_top(o, next);
	return 0;
}

/* The least entry becomes o->taken. */
static int take(struct lx_order *o, struct lx_err *e)
{
	struct lx_entry *x = o->heap[0];
	if (x->row)
		return take_from_row(o, e);
	o->held -= weight(x);
	took(o, x);
	replace_top(o, NULL);
	return 0;
}

/* Write what is held as one row; `all`: the rows that there are go into it too. */
static int write_row(struct lx_order *o, struct row *r, bool all, struct lx_err *e)
{
	struct lx_entry *heads[LX_ORDER_ROWS];
	size_t n = 0;
	int rc = 0;
	while (rc == 0 && o->n) {
		if (o->heap[0]->row && !all) {
			heads[n++] = o->heap[0];
			replace_top(o, NULL);
		} else if ((rc = take(o, e)) == 0) {
			rc = row_add(o, r, o->taken, e);
		}
	}
	while (n) {
		o->heap[o->n++] = heads[--n]; /* there is room, they came from there;  */
		sift_up(o, o->n - 1);
	}
	return rc;
}

static int spill(struct lx_order *o, struct lx_err *e)
{
	struct row *r = calloc(1, sizeof(*r));
	if (!r)
		return lx_err_sys(e, "a row on disk");
	if (write_row(o, r, o->rows == LX_ORDER_ROWS - 1, e) == 0)
		return row_open(o, r, e);
	lx_chain_clear(&o->spill, &r->chain);
	free(r);
	return -1;
}

/* ---- in and out ---- */

int lx_order_add(struct lx_order *o, struct lx_span key, struct lx_span body, struct lx_err *e)
{
	struct lx_entry *x = new_entry(key.len, body.len, e);
	if (!x)
		return -1;
	memcpy(x->key, key.p, key.len);
	if (body.len)
		memcpy(x->key + key.len, body.p, body.len);
	if (push(o, x, e) < 0) {
		free(x);
		return -1;
	}
	o->held += weight(x);
	return o->held <= o->mem ? 0 : spill(o, e);
}

struct lx_span lx_order_least(const struct lx_order *o)
{
	if (!o->n)
		return (struct lx_span){ 0 };
	return (struct lx_span){ o->heap[0]->key, o->heap[0]->key_len };
}

int lx_order_take(struct lx_order *o, struct lx_span *body, struct lx_err *e)
{
	if (o->broken.code)
		return lx_err_set(e, o->broken.code, "%s", o->broken.msg);
	if (take(o, e) < 0)
		return -1;
	*body = (struct lx_span){ o->taken->key + o->taken->key_len, o->taken->body_len };
	return 0;
}

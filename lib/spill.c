#include "spill.h"
#include "io.h"

#include <stdlib.h>
#include <unistd.h>

void lx_spill_init(struct lx_spill *s, const char *dir, uint32_t block)
{
	*s = (struct lx_spill){ .dir = lx_io_tmpdir(dir), .fd = -1, .block = block, .n = 1 };
}

void lx_spill_release(struct lx_spill *s)
{
	if (s->fd >= 0)
		close(s->fd);
	for (uint32_t i = 0; i < s->n_spare; i++)
		free(s->spare[i]);
	free(s->spare);
	free(s->next);
	*s = (struct lx_spill){ .fd = -1 };
}

/* ---- blocks and their buffers ---- */

static int no_memory(struct lx_err *e)
{
	return lx_err_sys(e, "a buffer for spilling");
}

static uint8_t *buffer_get(struct lx_spill *s, struct lx_err *e)
{
	if (s->n_spare)
		return s->spare[--s->n_spare];
	uint8_t *p = malloc(s->block);
	if (!p)
		no_memory(e);
	return p;
}

static void buffer_put(struct lx_spill *s, uint8_t *p)
{
	if (s->n_spare == s->cap_spare) {
		uint32_t cap = s->cap_spare ? s->cap_spare * 2 : 16;
		uint8_t **spare = realloc(s->spare, cap * sizeof(*spare));
		if (!spare) {
			free(p);
			return;
		}
		s->spare = spare;
		s->cap_spare = cap;
	}
	s->spare[s->n_spare++] = p;
}

static uint32_t block_get(struct lx_spill *s, struct lx_err *e)
{
	uint32_t b = s->free;
	if (b) {
		s->free = s->next[b];
		s->next[b] = 0;
		return b;
	}
	if (s->fd < 0 && (s->fd = lx_io_tmpfile(s->dir, e)) < 0)
		return 0;
	if (s->n == UINT32_MAX)
		return lx_err_set(e, LX_SYSTEM, "spilling to %s: over 2^32 blocks (--mem, --tmpdir)", s->dir), 0;
	if (s->n >= s->cap) {
		uint32_t cap = s->cap ? s->cap + s->cap / 2 : 64;
		uint32_t *next = realloc(s->next, (size_t)cap * sizeof(*next));
		if (!next)
			return no_memory(e), 0;
		s->next = next;
		s->cap = cap;
	}
	s->next[s->n] = 0;
	return s->n++;
}

static void block_put(struct lx_spill *s, uint32_t b)
{
	s->next[b] = s->free;
	s->free = b;
}

static uint64_t offset_of(const struct lx_spill *s, uint32_t block)
{
	return (uint64_t)(block - 1) * s->block;
}

static int block_write(struct lx_spill *s, uint32_t block, const uint8_t *p, size_t n, struct lx_err *e)
{
	if (lx_io_write_at(s->fd, p, n, offset_of(s, block), e) < 0)
		return lx_err_prefix(e, "spilling to %s (--tmpdir)", s->dir);
	s->written += n;
	return 0;
}

static int block_read(struct lx_spill *s, uint32_t block, uint32_t at, void *p, size_t n, struct lx_err *e)
{
	s->reads++;
	if (lx_io_read_at(s->fd, p, n, offset_of(s, block) + at, e) < 0)
		return lx_err_prefix(e, "reading back from %s (--tmpdir)", s->dir);
	return 0;
}

/* ---- chains ---- */

/* A last block with room for at least one byte. */
static int open_tail(struct lx_spill *s, struct lx_chain *c, struct lx_err *e)
{
	if (c->tail && c->fill < s->block)
		return 0;
	if (c->tail && block_write(s, c->last, c->tail, s->block, e) < 0)
		return -1;
	if (!c->tail && !(c->tail = buffer_get(s, e)))
		return -1;
	uint32_t b = block_get(s, e);
	if (!b)
		return -1;
	if (c->last)
		s->next[c->last] = b;
	else
		c->first = b;
	c->last = b;
	c->fill = 0;
	return 0;
}

uint64_t lx_chain_pos(struct lx_spill *s, struct lx_chain *c, struct lx_err *e)
{
	return open_tail(s, c, e) < 0 ? 0 : (uint64_t)c->last * s->block + c->fill;
}

int lx_chain_add(struct lx_spill *s, struct lx_chain *c, const void *p, size_t n, struct lx_err *e)
{
	const uint8_t *from = p;
	c->bytes += n;
	while (n) {
		if (open_tail(s, c, e) < 0)
			return -1;
		size_t part = s->block - c->fill < n ? s->block - c->fill : n;
		memcpy(c->tail + c->fill, from, part);
		c->fill += (uint32_t)part;
		from += part;
		n -= part;
	}
	return 0;
}

int lx_chain_seal(struct lx_spill *s, struct lx_chain *c, struct lx_err *e)
{
	if (!c->tail)
		return 0;
	if (block_write(s, c->last, c->tail, c->fill, e) < 0)
		return -1;
	buffer_put(s, c->tail);
	c->tail = NULL;
	return 0;
}

void lx_chain_clear(struct lx_spill *s, struct lx_chain *c)
{
	for (uint32_t b = c->first, next; b; b = next) {
		next = s->next[b];
		block_put(s, b);
	}
	if (c->tail)
		buffer_put(s, c->tail);
	*c = (struct lx_chain){ 0 };
}

int lx_chain_read_behind(struct lx_spill *s, const struct lx_chain *c, uint64_t pos, size_t skip, void *out, size_t n,
                         struct lx_err *e)
{
	uint32_t block = (uint32_t)(pos / s->block), at;
	uint8_t *to = out;
	for (skip += pos % s->block; skip >= s->block; skip -= s->block)
		block = s->next[block];
	at = (uint32_t)skip;
	while (n) {
		size_t part = s->block - at < n ? s->block - at : n;
		if (c->tail && block == c->last)
			memcpy(to, c->tail + at, part);
		else if (block_read(s, block, at, to, part, e) < 0)
			return -1;
		to += part;
		n -= part;
		block = s->next[block];
		at = 0;
	}
	return 0;
}

int lx_chain_read(struct lx_spill *s, const struct lx_chain *c, uint64_t pos, void *out, size_t n, struct lx_err *e)
{
	return lx_chain_read_behind(s, c, pos, 0, out, n, e);
}

/* ---- cursors ---- */

int lx_cursor_init(struct lx_cursor *k, struct lx_spill *s, struct lx_chain *c, bool consume, struct lx_err *e)
{
	*k = (struct lx_cursor){ .spill = s, .chain = c, .block = c->first, .left = c->bytes, .consume = consume };
	k->mine = buffer_get(s, e);
	return k->mine ? 0 : -1;
}

void lx_cursor_release(struct lx_cursor *k)
{
	if (k->mine)
		buffer_put(k->spill, k->mine);
	lx_buf_free(&k->join);
	k->mine = NULL;
	if (k->consume)
		lx_chain_clear(k->spill, k->chain);
}

uint64_t lx_cursor_pos(const struct lx_cursor *k)
{
	uint32_t size = k->spill->block;
	uint32_t block = k->at < size ? k->block : k->spill->next[k->block];
	return (uint64_t)block * size + k->at % size;
}

const uint8_t *lx_cursor_ahead(const struct lx_cursor *k, size_t *n)
{
	*n = !k->bytes ? 0 : k->spill->block - k->at < k->left ? k->spill->block - k->at : (size_t)k->left;
	return k->bytes ? k->bytes + k->at : NULL;
}

static void next_block(struct lx_cursor *k)
{
	uint32_t behind = k->block;
	k->block = k->spill->next[behind];
	k->at = 0;
	k->bytes = NULL;
	if (k->consume) {
		k->chain->first = k->block;
		block_put(k->spill, behind);
	}
}

static int load_block(struct lx_cursor *k, struct lx_err *e)
{
	struct lx_chain *c = k->chain;
	if (c->tail && k->block == c->last) {
		k->bytes = c->tail;
		return 0;
	}
	uint64_t n = k->spill->block - k->at < k->left ? k->spill->block : k->at + k->left;
	if (block_read(k->spill, k->block, 0, k->mine, (size_t)n, e) < 0)
		return -1;
	k->bytes = k->mine;
	return 0;
}

void lx_cursor_skip(struct lx_cursor *k, uint64_t n)
{
	k->left -= n;
	while (n > k->spill->block - k->at) {
		n -= k->spill->block - k->at;
		next_block(k);
	}
	k->at += (uint32_t)n;
}

/* Bytes of the block it stands in, at most n. */
static const uint8_t *take_part(struct lx_cursor *k, size_t n, size_t *got, struct lx_err *e)
{
	if (k->at == k->spill->block)
		next_block(k);
	if (!k->bytes && load_block(k, e) < 0)
		return NULL;
	const uint8_t *p = k->bytes + k->at;
	*got = k->spill->block - k->at < n ? k->spill->block - k->at : n;
	k->at += (uint32_t)*got;
	k->left -= *got;
	return p;
}

const uint8_t *lx_cursor_take(struct lx_cursor *k, size_t n, struct lx_err *e)
{
	size_t got;
	if (n == 0)
		return k->mine;
	const uint8_t *p = take_part(k, n, &got, e);
	if (!p || got == n)
		return p;
	lx_buf_clear(&k->join);
	if (!lx_buf_room(&k->join, n))
		return lx_buf_check(&k->join, e), NULL;
	for (;;) {
		lx_buf_add(&k->join, p, got);
		if (k->join.len == n)
			return k->join.p;
		p = take_part(k, n - k->join.len, &got, e);
		if (!p)
			return NULL;
	}
}

#include "tables.h"

#include "resample.h"

#include <stdlib.h>

#define BYTES_MAX (64u << 20) /* kept from batch to batch */

struct lx_table {
	uint32_t in, out;
	struct lx_table *next;
	int32_t k[];
};

size_t lx_table_bytes(uint32_t in, uint32_t out)
{
	return lx_resample_size(in, out) * sizeof(int32_t);
}

static struct lx_table *make(struct lx_tables *t, uint32_t in, uint32_t out)
{
	size_t bytes = sizeof(struct lx_table) + lx_table_bytes(in, out);
	struct lx_table *made = malloc(bytes);
	if (!made)
		return NULL;
	lx_resample_fill(made->k, in, out);
	made->in = in;
	made->out = out;
	made->next = t->first;
	t->first = made;
	t->bytes += bytes;
	return made;
}

const int32_t *lx_tables_get(struct lx_tables *t, uint32_t in, uint32_t out)
{
	pthread_mutex_lock(&t->lock);
	struct lx_table *at = t->first;
	while (at && (at->in != in || at->out != out))
		at = at->next;
	if (!at)
		at = make(t, in, out);
	pthread_mutex_unlock(&t->lock);
	return at ? at->k : NULL;
}

static void forget(struct lx_tables *t)
{
	for (struct lx_table *at; (at = t->first);) {
		t->first = at->next;
		free(at);
	}
	t->bytes = 0;
}

void lx_tables_trim(struct lx_tables *t)
{
	if (t->bytes > BYTES_MAX)
		forget(t);
}

void lx_tables_free(struct lx_tables *t)
{
	forget(t);
	pthread_mutex_destroy(&t->lock);
}

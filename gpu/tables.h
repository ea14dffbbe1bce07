/* tables: resampling tables (gpu/resample.h) kept from item to item. Images of a batch are mostly of one size. */
#ifndef LX_TABLES_H
#define LX_TABLES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct lx_tables {
	pthread_mutex_t lock;
	struct lx_table *first;
	size_t bytes;
};

#define LX_TABLES_INIT { .lock = PTHREAD_MUTEX_INITIALIZER }

/* The table for `in` inputs and `out` outputs: stays until lx_tables_trim. NULL: no memory. By any thread. */
const int32_t *lx_tables_get(struct lx_tables *t, uint32_t in, uint32_t out);
/* Bytes of it. */
size_t lx_table_bytes(uint32_t in, uint32_t out);
/* Forget them all, if they are many: while nobody uses one. */
void lx_tables_trim(struct lx_tables *t);
void lx_tables_free(struct lx_tables *t);

#endif

/* tally: how often each of a few words came. What comes when LX_TALLY_MAX are known counts as `other`. */
#ifndef LX_TALLY_H
#define LX_TALLY_H

#include "buf.h"

#define LX_TALLY_MAX 64
#define LX_TALLY_WORD 64    /* bytes of a word, cut if longer */
#define LX_TALLY_FIRST 256

struct lx_tally {
	struct lx_tally_row {
		char word[LX_TALLY_WORD + 1];
		char first[LX_TALLY_FIRST]; /* what the first came with */
		uint64_t n;
	} rows[LX_TALLY_MAX];
	size_t n;
	uint64_t other;
};

/* The row of the word after counting it, NULL when it went to `other`. A row whose n is 1 is new: fill `first`. */
struct lx_tally_row *lx_tally_add(struct lx_tally *t, struct lx_span word);
/* Most frequent first, then as they came. */
void lx_tally_sort(struct lx_tally *t);

#endif

#include "tally.h"

struct lx_tally_row *lx_tally_add(struct lx_tally *t, struct lx_span word)
{
	struct lx_tally_row *r;
	if (word.len > LX_TALLY_WORD)
		word.len = LX_TALLY_WORD;
	for (r = t->rows; r < t->rows + t->n; r++)
		if (lx_span_eq(lx_span_str(r->word), word)) {
			r->n++;
			return r;
		}
	if (t->n == LX_TALLY_MAX) {
		t->other++;
		return NULL;
	}
	*r = (struct lx_tally_row){ .n = 1 };
	memcpy(r->word, word.p, word.len);
	t->n++;
	return r;
}

void lx_tally_sort(struct lx_tally *t)
{
	for (size_t i = 1; i < t->n; i++) {
		struct lx_tally_row x = t->rows[i];
		size_t k = i;
		for (; k && t->rows[k - 1].n < x.n; k--)
			t->rows[k] = t->rows[k - 1];
		t->rows[k] = x;
	}
}

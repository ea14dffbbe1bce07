#include "stream.h"

void lx_counts_add(struct lx_counts *to, const struct lx_counts *more)
{
	for (int d = 0; d < LX_DOMAINS_MAX; d++) {
		for (int o = 0; o < LX_OUTCOMES; o++)
			to->items[d][o] += more->items[d][o];
		to->closes[d] += more->closes[d];
	}
}

uint64_t lx_counts_items(const struct lx_counts *c, int domain)
{
	uint64_t n = 0;
	for (int o = 0; o < LX_OUTCOMES; o++)
		n += c->items[domain][o];
	return n;
}

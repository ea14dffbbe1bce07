/* The arithmetic of minhash alone, 128 permutations of 5-word shingles: words that are numbers already, hashed; shingles of
 * them; the least of every permutation. All of it in the first cache. Prints nanoseconds a text.
 *
 *     minhash WORDS [TEXTS] */
#include "text.k.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint8_t work[1 << 20];
static uint64_t shared[LX_KERNEL_SHARED / 8], out[64], eights[1 << 14];

LX_PHASE(word_hashes)
{
	uint64_t *words = lx_k_words(k);
	LX_FOR(i, k->shared[TEXT_WORDS])
		words[i] = lx_k_word_step(0, eights[i]);
}

int main(int argc, char **argv)
{
	static lx_phase_fn *const phases[] = { word_hashes, minhash_shingles, minhash_least };
	uint64_t words = argc > 1 ? strtoull(argv[1], NULL, 10) : 850, args[LX_KERNEL_ARGS] = { 128, 5 };
	int texts = argc > 2 ? atoi(argv[2]) : 10000;
	struct lx_kernel_item k = { .len = 6 * words, .work = work, .shared = shared, .out = out, .args = args, .threads = 1 };
	struct timespec a, b;
	if (words < 1 || words > sizeof(eights) / 8)
		return 2;
	shared[TEXT_WORDS] = words;
	for (uint64_t i = 0; i < words; i++)
		eights[i] = lx_k_splitmix(i);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int t = 0; t < texts; t++) {
		eights[0] = out[0];
		for (int p = 0; p < 3; p++)
			phases[p](&k);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	printf("%.0f\n", ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / texts);
	return out[0] == 1;
}

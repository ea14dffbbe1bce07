/* Kernels on text. Definitions and their sources: lx-gpu(1). */
#ifndef LX_TEXT_K_H
#define LX_TEXT_K_H

#include "kernel.h"

/* `work` of a text of len bytes: a number for each thread, then a hash for each word, then one for each shingle. */
#define TEXT_THREADS 1024
LX_FN uint64_t lx_k_words_most(uint64_t len)
{
	return len / 2 + 1;
}

LX_FN uint64_t *lx_k_words(const struct lx_kernel_item *k)
{
	return (uint64_t *)(void *)k->work + TEXT_THREADS;
}

LX_FN uint64_t *lx_k_shingles(const struct lx_kernel_item *k)
{
	return lx_k_words(k) + lx_k_words_most(k->len);
}

#define TEXT_WORK(len) (8 * (TEXT_THREADS + 2 * ((len) / 2 + 1)))

/* The last step of MurmurHash3: every bit of x decides about every bit of the result. */
LX_FN uint64_t lx_k_mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	return x ^ x >> 33;
}

/* ---- UTF-8 ---- */

#define TEXT_HIGH 0  /* in shared: whether there is a byte above 127 */
#define TEXT_WORDS 1 /* how many words */

LX_PHASE(text_begin)
{
	LX_ONCE {
		k->shared[TEXT_HIGH] = 0;
		k->shared[TEXT_WORDS] = 0;
	}
}

LX_PHASE(text_high)
{
	uint8_t high = 0;
	LX_FOR(i, k->len)
		high |= k->in[i] & 0x80;
	if (high)
		LX_ADD(&k->shared[TEXT_HIGH], 1);
}

/* Bytes of the character that begins with c; 0: none does. */
LX_FN uint32_t lx_k_utf8_length(uint8_t c)
{
	return c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
}

/* Whether byte i is part of a character, told from its neighbours: a first byte has what it asks for behind it, another has a
 * first byte that asks for it before it. */
LX_FN bool lx_k_utf8_good(const uint8_t *p, uint64_t len, uint64_t i)
{
	uint8_t c = p[i];
	if (c < 0x80)
		return true;
	if ((c & 0xc0) == 0x80) {
		for (uint32_t back = 1; back <= 3 && back <= i; back++)
			if ((p[i - back] & 0xc0) != 0x80)
				return lx_k_utf8_length(p[i - back]) > back;
		return false;
	}
	uint32_t n = lx_k_utf8_length(c);
	if (!n || len - i < n)
		return false;
	for (uint32_t k = 1; k < n; k++)
		if ((p[i + k] & 0xc0) != 0x80)
			return false;
	uint8_t second = p[i + 1];
	return !(c == 0xe0 && second < 0xa0) && !(c == 0xed && second > 0x9f) && !(c == 0xf0 && second < 0x90) && !(c == 0xf4 && second > 0x8f);
}

/* ---- words: what lies between white space ---- */

/* Eight bytes, the first the lowest; zeros behind the end of the text. */
LX_FN uint64_t lx_k_eight(const struct lx_kernel_item *k, uint64_t at)
{
	uint64_t v = 0, n = k->len - at;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (n >= 8) {
		memcpy(&v, k->in + at, 8);
		return v;
	}
#endif
	for (uint64_t i = 0; i < n && i < 8; i++)
		v |= (uint64_t)k->in[at + i] << 8 * i;
	return v;
}

/* The highest bit of each byte that is white space. */
LX_FN uint64_t lx_k_white_of(uint64_t v)
{
	const uint64_t ones = 0x0101010101010101u, low = 0x7f * ones;
	uint64_t blank = v ^ ' ' * ones, small = v & low;
	blank = ~(((blank & low) + low) | blank | low);
	return blank | ((small + (0x80 - 9) * ones) & ~(small + (0x80 - 14) * ones) & ~v & ~low);
}

/* White space among the 64 bytes from `at`, a bit each; behind the end all is. */
LX_FN uint64_t lx_k_white_block(const struct lx_kernel_item *k, uint64_t at)
{
	uint64_t bits = 0, n = k->len - at;
	for (uint32_t i = 0; i < 64 && i < n; i += 8)
		bits |= ((lx_k_white_of(lx_k_eight(k, at + i)) >> 7) * 0x0102040810204080u >> 56) << i;
	return n < 64 ? bits | ~(uint64_t)0 << n : bits;
}

/* Where words begin there: not white, behind what is. */
LX_FN uint64_t lx_k_begins(const struct lx_kernel_item *k, uint64_t at, uint64_t white)
{
	uint64_t before = at ? lx_k_white_of(k->in[at - 1]) >> 7 & 1 : 1;
	return ~white & (white << 1 | before);
}

/* The first byte of a thread's share of the text, in blocks of 64. */
LX_FN uint64_t lx_k_share(const struct lx_kernel_item *k, uint32_t thread)
{
	uint64_t blocks = (k->len + 63) / 64;
	return (blocks / k->threads * thread + blocks % k->threads * thread / k->threads) * 64;
}

LX_PHASE(text_count)
{
	uint32_t bad = 0;
	if (k->shared[TEXT_HIGH])
		LX_FOR(i, k->len)
			bad |= !lx_k_utf8_good(k->in, k->len, i);
	if (bad)
		LX_REFUSE(1);
	uint64_t n = 0, to = lx_k_share(k, k->thread + 1);
	if (k->threads > 1) /* one thread alone knows where its words go */
		for (uint64_t i = lx_k_share(k, k->thread); i < to; i += 64)
			n += LX_ONES(lx_k_begins(k, i, lx_k_white_block(k, i)));
	((uint64_t *)(void *)k->work)[k->thread] = n;
}

LX_FN uint64_t lx_k_word_step(uint64_t h, uint64_t eight)
{
	return lx_k_mix((h + 0x9e3779b97f4a7c15u) ^ eight);
}

/* The first n bytes, 1 to 8; 0 gives anything. */
LX_FN uint64_t lx_k_first(uint64_t eight, uint32_t n)
{
	uint32_t rest = (64 - 8 * n) & 63;
	return eight << rest >> rest;
}

/* The hash of a word of any length. */
LX_FN uint64_t lx_k_long_word(const struct lx_kernel_item *k, uint64_t at)
{
	uint64_t from = at, h = 0;
	for (uint32_t n = 8; n == 8 && at < k->len; at += n) {
		uint64_t v = lx_k_eight(k, at), white = lx_k_white_of(v);
		n = k->len - at < 8 ? (uint32_t)(k->len - at) : 8;
		if (white && LX_LOW(white) / 8 < n)
			n = LX_LOW(white) / 8;
		if (n)
			h = lx_k_word_step(h, lx_k_first(v, n));
	}
	return h + (at - from);
}

/* The hash of a word of len bytes: most have 16 at most, and how many cannot be foretold, so nothing branches on it. */
LX_FN uint64_t lx_k_word(const struct lx_kernel_item *k, uint64_t at, uint32_t len)
{
	if (len > 16 || k->len - at < 16)
		return lx_k_long_word(k, at);
	uint32_t n = len < 8 ? len : 8;
	uint64_t h = lx_k_word_step(0, lx_k_first(lx_k_eight(k, at), n));
	uint64_t longer = lx_k_word_step(h, lx_k_first(lx_k_eight(k, at + 8), len - n));
	return (len > 8 ? longer : h) + len;
}

LX_PHASE(text_words)
{
	const uint64_t *counts = (const uint64_t *)(const void *)k->work;
	uint64_t *words = lx_k_words(k), n = 0, at = lx_k_share(k, k->thread), to = lx_k_share(k, k->thread + 1);
	for (uint32_t t = 0; t < k->thread; t++)
		n += counts[t];
	for (; at < to; at += 64) {
		uint64_t white = lx_k_white_block(k, at);
		for (uint64_t begins = lx_k_begins(k, at, white); begins; begins &= begins - 1) {
			uint32_t i = LX_LOW(begins);
			words[n++] = white >> i ? lx_k_word(k, at + i, LX_LOW(white >> i)) : lx_k_long_word(k, at + i);
		}
	}
	if (k->thread == k->threads - 1)
		k->shared[TEXT_WORDS] = n;
}

/* ---- shingles: args[1] words in a row; a text of fewer is one, one without words has none ---- */

LX_FN uint64_t lx_k_n_shingles(const struct lx_kernel_item *k)
{
	uint64_t words = k->shared[TEXT_WORDS], size = k->args[1];
	return words > size ? words - size + 1 : words > 0;
}

LX_FN uint64_t lx_k_shingle(const struct lx_kernel_item *k, uint64_t first)
{
	const uint64_t *words = lx_k_words(k) + first;
	uint64_t n = k->shared[TEXT_WORDS] < k->args[1] ? k->shared[TEXT_WORDS] : k->args[1], h = 0;
	for (uint64_t i = 0; i < n; i++)
		h = h * 0x9e3779b97f4a7c15u + words[i];
	return lx_k_mix(h);
}

/* ---- minhash ---- */

LX_PHASE(minhash_shingles)
{
	uint32_t *to = (uint32_t *)(void *)lx_k_shingles(k);
	LX_FOR(i, lx_k_n_shingles(k))
		to[i] = (uint32_t)(lx_k_shingle(k, i) >> 32);
}

/* Permutation p of 32 bits: x to a x + b, a odd. a and b are the halves of the pth number of SplitMix64, begun at 0. */
LX_FN uint64_t lx_k_splitmix(uint64_t p)
{
	uint64_t z = (p + 1) * 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

LX_FN uint32_t lx_k_least(const uint32_t *x, uint64_t n, uint32_t a, uint32_t b)
{
	uint32_t least = 0xffffffffu;
	for (uint64_t i = 0; i < n; i++) {
		uint32_t v = a * x[i] + b;
		least = v < least ? v : least;
	}
	return least;
}

/* Two of 32 bits in a word, the first the lower. */
LX_PHASE(minhash_least)
{
	const uint32_t *x = (const uint32_t *)(const void *)lx_k_shingles(k);
	uint64_t n = lx_k_n_shingles(k);
	uint32_t *to = LX_OUT(uint32_t);
	LX_ONCE {
		if (k->args[0] % 2)
			to[k->args[0]] = 0;
	}
	LX_FOR(p, k->args[0]) {
		uint64_t r = lx_k_splitmix(p);
		to[p] = lx_k_least(x, n, (uint32_t)(r >> 32) | 1, (uint32_t)r);
	}
}

LX_ENTRY(lx_op_minhash, text_begin, text_high, text_count, text_words, minhash_shingles, minhash_least)

/* ---- simhash ---- */

LX_PHASE(simhash_shingles)
{
	uint64_t *to = lx_k_shingles(k);
	LX_FOR(i, lx_k_n_shingles(k))
		to[i] = lx_k_shingle(k, i);
	LX_ONCE
		k->out[0] = 0;
}

LX_FN uint64_t lx_k_ones(const uint64_t *x, uint64_t n, uint32_t bit)
{
	uint64_t ones = 0;
	for (uint64_t i = 0; i < n; i++)
		ones += x[i] >> bit & 1;
	return ones;
}

/* A bit is set that more than half of the shingles have. */
LX_PHASE(simhash_bits)
{
	uint64_t n = lx_k_n_shingles(k);
	LX_FOR(bit, 64)
		if (2 * lx_k_ones(lx_k_shingles(k), n, (uint32_t)bit) > n)
			LX_ADD(&k->out[0], (uint64_t)1 << bit);
}

LX_ENTRY(lx_op_simhash, text_begin, text_high, text_count, text_words, simhash_shingles, simhash_bits)

#endif

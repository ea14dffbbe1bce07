#include "spill.h"
#include "tap.h"

#include <signal.h>
#include <sys/resource.h>

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

enum { CHAINS = 5 };

static void chains_give_back_what_went_in(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_spill s;
	struct lx_chain c[CHAINS] = { 0 };
	struct lx_buf model[CHAINS] = { 0 };
	uint64_t pos[CHAINS][400];
	size_t at[CHAINS][400], len[CHAINS][400];
	int n[CHAINS] = { 0 };
	uint8_t piece[5000], back[5000];
	seed = 9;
	lx_spill_init(&s, NULL, 1024);
	for (int i = 0; i < CHAINS * 300; i++) {
		int k = (int)rnd(CHAINS), j = n[k];
		if (j == 400)
			continue;
		size_t size = rnd(5) ? rnd(100) : rnd(sizeof(piece));
		for (size_t b = 0; b < size; b++)
			piece[b] = (uint8_t)rnd(256);
		pos[k][j] = lx_chain_pos(&s, &c[k], &e);
		at[k][j] = model[k].len;
		len[k][j] = size;
		n[k]++;
		CHECK(pos[k][j] != 0);
		CHECK(lx_chain_add(&s, &c[k], piece, size, &e) == 0);
		lx_buf_add(&model[k], piece, size);
	}
	for (int k = 0; k < CHAINS; k++) {
		if (k % 2)
			CHECK(lx_chain_seal(&s, &c[k], &e) == 0);
		int wrong = 0;
		for (int j = 0; j < n[k]; j++) {
			size_t skip = len[k][j] / 3;
			CHECK(lx_chain_read_behind(&s, &c[k], pos[k][j], skip, back, len[k][j] - skip, &e) == 0);
			wrong += memcmp(back, model[k].p + at[k][j] + skip, len[k][j] - skip) != 0;
		}
		struct lx_cursor cur;
		CHECK(lx_cursor_init(&cur, &s, &c[k], k > 2, &e) == 0);
		for (int j = 0; j < n[k]; j++) {
			if (len[k][j])
				wrong += lx_cursor_pos(&cur) != pos[k][j];
			if (j % 3 == 0) {
				lx_cursor_skip(&cur, len[k][j]);
				continue;
			}
			const uint8_t *p = lx_cursor_take(&cur, len[k][j], &e);
			wrong += !p || memcmp(p, model[k].p + at[k][j], len[k][j]) != 0;
		}
		CHECK(cur.left == 0);
		CHECK(wrong == 0);
		lx_cursor_release(&cur);
		CHECK((c[k].bytes == 0) == (k > 2));
		lx_buf_free(&model[k]);
	}
	uint32_t blocks = s.n;
	for (int k = 0; k < CHAINS; k++)
		lx_chain_clear(&s, &c[k]);
	uint8_t *big = calloc(1, (size_t)(blocks - 1) * 1024);
	CHECK(lx_chain_add(&s, &c[0], big, (size_t)(blocks - 1) * 1024, &e) == 0);
	CHECK(s.n == blocks); /* nothing but blocks used before */
	free(big);
	lx_chain_clear(&s, &c[0]);
	lx_spill_release(&s);
}

static void a_full_disk_names_the_directory_and_the_option(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_spill s;
	struct lx_chain c = { 0 };
	struct rlimit old, small = { 8192, 8192 };
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	lx_spill_init(&s, "/tmp", 4096);
	uint8_t piece[1000] = { 0 };
	int rc = 0;
	for (int i = 0; i < 100 && rc == 0; i++)
		rc = lx_chain_add(&s, &c, piece, sizeof(piece), &e);
	setrlimit(RLIMIT_FSIZE, &old);
	CHECK(rc == -1);
	CHECK(e.code == LX_SYSTEM);
	CHECK(strstr(e.msg, "/tmp") && strstr(e.msg, "--tmpdir"));
	lx_chain_clear(&s, &c);
	lx_spill_release(&s);
	e = (struct lx_err)LX_ERR_INIT;
	lx_spill_init(&s, "/nowhere/at/all", 4096);
	CHECK(lx_chain_add(&s, &c, piece, 1, &e) == -1);
	CHECK(e.code == LX_SYSTEM && strstr(e.msg, "/nowhere/at/all") && strstr(e.msg, "--tmpdir"));
	lx_chain_clear(&s, &c);
	lx_spill_release(&s);
}

int main(void)
{
	RUN(chains_give_back_what_went_in);
	RUN(a_full_disk_names_the_directory_and_the_option);
	return tap_done();
}

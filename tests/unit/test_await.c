/* What is kept for items, in memory and in the file, against a naive model. */
#include "await.h"
#include "tap.h"

#include <sys/stat.h>
#include <unistd.h>

#define ITEMS 60
#define RECORDS 12 /* that wait for one item at most */
#define LEN 6000
#define ALL (64u << 20) /* more than there ever is */

struct model {
	uint64_t value; /* what the bytes are made of; 0: none */
	uint64_t records[RECORDS];
	size_t n;
};

static uint64_t seed, made;
static uint64_t kept, peak; /* bytes, each record with the 16 that lie before it in the file */

static uint64_t rnd(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

/* Bytes that begin with their number, 8 of them at least. */
static struct lx_span bytes_of(uint64_t number)
{
	static uint8_t p[LEN];
	size_t n = sizeof(number) + number * 2654435761u % (LEN - sizeof(number));
	memcpy(p, &number, sizeof(number));
	for (size_t i = sizeof(number); i < n; i++)
		p[i] = (uint8_t)(number + i * i);
	return (struct lx_span){ p, n };
}

static void keep(uint64_t number)
{
	kept += bytes_of(number).len + 16;
	peak = kept > peak ? kept : peak;
}

/* 0: there was none. */
static void leave(uint64_t number)
{
	kept -= number ? bytes_of(number).len + 16 : 0;
}

static uint64_t number_of(struct lx_span s)
{
	uint64_t number = 0;
	CHECK(s.len >= sizeof(number));
	memcpy(&number, s.p, sizeof(number));
	CHECK(lx_span_eq(s, bytes_of(number)));
	return number;
}

static struct lx_id id_of(int i)
{
	return (struct lx_id){ .n = 1 + (uint32_t)i % 2, .ord = { (uint64_t)i, 7 } };
}

/* Bytes that the largest file without a name has which this process holds. */
static off_t file_size(void)
{
	struct stat st;
	off_t most = 0;
	for (int fd = 3; fd < 64; fd++)
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 && st.st_size > most)
			most = st.st_size;
	return most;
}

static void take_one(struct lx_await *a, int i, struct model *m, struct lx_buf *b)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_id id = id_of(i);
	int got = lx_await_take(a, &id, b, &e);
	CHECK(got == (m->n > 0));
	if (got <= 0 || !m->n)
		return;
	uint64_t number = number_of(lx_buf_view(b));
	for (size_t k = 0; k < m->n; k++)
		if (m->records[k] == number) {
			leave(number);
			m->records[k] = m->records[--m->n];
			return;
		}
	CHECK(!"a record that waits");
}

static void check_value(struct lx_await *a, int i, const struct model *m)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_id id = id_of(i);
	struct lx_span v;
	int got = lx_await_get(a, &id, &v, &e);
	CHECK(got == (m->value != 0));
	CHECK(got <= 0 || number_of(v) == m->value);
}

static void step(struct lx_await *a, struct model *all, struct lx_buf *b)
{
	struct lx_err e = LX_ERR_INIT;
	int i = (int)rnd(ITEMS);
	struct model *m = &all[i];
	struct lx_id id = id_of(i);
	switch (rnd(6)) {
	case 0:
		leave(m->value);
		m->value = ++made;
		keep(made);
		CHECK(lx_await_put(a, &id, bytes_of(made), &e) == 0);
		break;
	case 1:
	case 2:
		if (m->n < RECORDS) {
			m->records[m->n++] = ++made;
			keep(made);
			CHECK(lx_await_hold(a, &id, bytes_of(made), &e) == 0);
		}
		break;
	case 3:
	case 4:
		take_one(a, i, m, b);
		break;
	case 5:
		CHECK(lx_await_forget(a, &id) == (m->value && !m->n));
		if (!m->n) {
			leave(m->value);
			m->value = 0;
		}
		break;
	}
	i = (int)rnd(ITEMS);
	check_value(a, i, &all[i]);
}

static int number_in(const struct lx_id *id)
{
	CHECK(id->ord[0] < ITEMS && id->n == 1 + id->ord[0] % 2);
	return (int)(id->ord[0] % ITEMS);
}

/* When nothing is left there is room again. */
static void check_room(struct lx_await *a)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_id id = id_of(1);
	uint64_t before = lx_await_spilled(a);
	CHECK(lx_await_put(a, &id, bytes_of(1), &e) == 0 && lx_await_spilled(a) == before && lx_await_forget(a, &id));
}

/* All that is left, by what lx_await_any names; then nothing is. */
static void empty(struct lx_await *a, struct model *all, struct lx_buf *b)
{
	struct lx_id id;
	int n = 0;
	for (; lx_await_any(a, &id) && n < ITEMS * RECORDS; n++)
		take_one(a, number_in(&id), &all[number_in(&id)], b);
	CHECK(!lx_await_any(a, &id));
	for (int i = 0; i < ITEMS; i++) {
		CHECK(all[i].n == 0);
		check_value(a, i, &all[i]);
		id = id_of(i);
		CHECK(lx_await_forget(a, &id) == (all[i].value != 0));
		leave(all[i].value);
		all[i].value = 0;
	}
	CHECK(kept == 0);
}

static void run(uint64_t mem)
{
	static struct model all[ITEMS];
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	struct lx_await *a = lx_await_new(mem, NULL, &e);
	off_t most = 0, now;
	CHECK(a != NULL);
	memset(all, 0, sizeof(all));
	seed = mem;
	kept = peak = 0;
	for (int round = 0; a && round < 2 && !tap_bad; round++) {
		for (int i = 0; i < 20000 && !tap_bad; i++) {
			step(a, all, &b);
			now = file_size();
			most = now > most ? now : most;
		}
		empty(a, all, &b);
		if (mem)
			check_room(a);
	}
	/* await.h: within some MiB of twice what lies there at one time; far more than that has passed through */
	CHECK(most <= (off_t)(2 * peak + (4 << 20) + LEN));
	CHECK(mem >= ALL ? lx_await_spilled(a) == 0 : lx_await_spilled(a) > 20u << 20);
	lx_await_free(a);
	lx_buf_free(&b);
}

static void in_memory(void) { run(ALL); }
static void in_the_file(void) { run(0); }
static void in_both(void) { run(300000); }

int main(void)
{
	RUN(in_memory);
	RUN(in_the_file);
	RUN(in_both);
	return tap_done();
}

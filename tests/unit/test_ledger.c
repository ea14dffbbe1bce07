/* The ledger: every line of it is read back, and nothing else is believed. */
#include "ledger.h"
#include "io.h"

#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/lx-ledger.XXXXXX", file[64];
static struct lx_plan plan;

static void make_plan(void)
{
	struct lx_err e = LX_ERR_INIT;
	lx_plan_init(&plan);
	strcpy(plan.run, "r1");
	CHECK(lx_plan_expand(&plan, "doc", -1, (struct lx_tolerance){ 0 }, &e) == 0);
	CHECK(lx_plan_expand(&plan, "page", 0, (struct lx_tolerance){ 0 }, &e) == 1);
	CHECK(lx_plan_expand(&plan, "word", 1, (struct lx_tolerance){ 0 }, &e) == 2);
}

static struct lx_ledger *open_it(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_ledger *l = lx_ledger_open(dir, &e);
	if (!l)
		printf("# %s\n", e.msg);
	CHECK(l != NULL);
	return l;
}

static void write_bar(struct lx_ledger *l, uint32_t domain, struct lx_id id, const char *type, struct lx_span message)
{
	struct lx_buf b = { 0 };
	struct lx_cause c = { .type = lx_span_str(type), .message = message, .anchor_domain = domain, .anchor = id, .origin_domain = domain,
		              .origin = id, .stage = lx_span_str("lx-map") };
	lx_cause_pack(&b, &c);
	lx_ledger_write(l, &plan, domain, &id, lx_buf_view(&b));
	lx_buf_free(&b);
}

/* The message of the barrier on an item: NULL when there is none. */
static const char *barred(const struct lx_doom *d, uint32_t domain, struct lx_id id)
{
	static char text[8192];
	struct lx_span cause;
	struct lx_cause c;
	if (lx_doom_find(d, &plan, domain, &id, true, &cause) == LX_PRESENT)
		return NULL;
	CHECK(lx_cause_read(cause, &c) == 0 && lx_span_eq(c.stage, lx_span_str("lx-map")) && c.origin_domain < 3);
	snprintf(text, sizeof(text), "%.*s", (int)c.message.len, (const char *)c.message.p);
	return text;
}

static void what_is_written_is_learnt(void)
{
	struct lx_ledger *a = open_it(), *b = open_it();
	struct lx_doom *d = lx_doom_new(1000);
	static const uint8_t odd[] = "tab\there, line\nend, back\\slash, \xff\x7f \xc3\xa9";
	write_bar(a, 0, (struct lx_id){ 1, { UINT64_MAX - 1 } }, "x", (struct lx_span){ odd, sizeof(odd) - 1 });
	write_bar(a, 1, (struct lx_id){ 2, { 7, 3 } }, "y", lx_span_str(""));
	write_bar(a, 2, (struct lx_id){ 3, { 7, 3, 1 } }, "z", lx_span_str("nobody works below a word"));
	lx_ledger_read(b, &plan, d, true);
	CHECK(barred(d, 0, (struct lx_id){ 1, { UINT64_MAX - 1 } }) && memcmp(barred(d, 0, (struct lx_id){ 1, { UINT64_MAX - 1 } }), odd, sizeof(odd)) == 0);
	CHECK(barred(d, 2, (struct lx_id){ 3, { 7, 3, 9 } }) && !*barred(d, 1, (struct lx_id){ 2, { 7, 3 } }));
	CHECK(!barred(d, 1, (struct lx_id){ 2, { 7, 4 } }) && !barred(d, 0, (struct lx_id){ 1, { 7 } }));
	/* Nothing is there twice, and who opens it later has not missed anything that is his. */
	struct lx_ledger *late = open_it();
	struct lx_doom *none = lx_doom_new(10);
	lx_ledger_read(late, &plan, none, true);
	lx_ledger_read(b, &plan, none, true);
	CHECK(lx_doom_empty(none));
	lx_doom_free(none), lx_doom_free(d);
	lx_ledger_close(a), lx_ledger_close(b), lx_ledger_close(late);
}

static void a_long_message_is_cut(void)
{
	struct lx_ledger *a = open_it(), *b = open_it();
	struct lx_doom *d = lx_doom_new(10);
	static uint8_t text[9000];
	memset(text, '\n', sizeof(text));
	write_bar(a, 0, (struct lx_id){ 1, { 5 } }, "x", (struct lx_span){ text, sizeof(text) });
	lx_ledger_read(b, &plan, d, true);
	const char *m = barred(d, 0, (struct lx_id){ 1, { 5 } });
	CHECK(m && strlen(m) > 900 && strspn(m, "\n") == strlen(m));
	lx_doom_free(d);
	lx_ledger_close(a), lx_ledger_close(b);
}

static bool put(int fd, const char *s)
{
	return write(fd, s, strlen(s)) == (ssize_t)strlen(s);
}

/* One byte at a time, and the plan of another run. */
static void a_line_counts_when_it_is_whole(void)
{
	static const char line[] = "r1\tpage\t8.2\ttorn\tdoc:8\tpage:8.2\tlx-map\tno\n";
	struct lx_ledger *l = open_it();
	struct lx_doom *d = lx_doom_new(10);
	int fd = open(file, O_WRONLY | O_APPEND);
	for (size_t i = 0; i + 1 < sizeof(line); i++) {
		lx_ledger_read(l, &plan, d, true);
		CHECK(lx_doom_empty(d));
		CHECK(write(fd, line + i, 1) == 1);
	}
	plan.run[0] = 'q';
	struct lx_ledger *other = open_it();
	struct lx_doom *none = lx_doom_new(10);
	CHECK(put(fd, line));
	lx_ledger_read(other, &plan, none, true);
	CHECK(lx_doom_empty(none));
	plan.run[0] = 'r';
	lx_ledger_read(l, &plan, d, true);
	CHECK(barred(d, 1, (struct lx_id){ 2, { 8, 2 } }) && !barred(d, 0, (struct lx_id){ 1, { 8 } }));
	/* An origin in a domain that is opened further on is known by name only: it is not the doomed item itself. */
	static const char far[] = "r1\tdoc\t9\ttorn\tdoc:9\tregion:9.1.1\tlx-map\tno\n";
	CHECK(put(fd, far));
	lx_ledger_read(l, &plan, d, true);
	struct lx_id doc9 = { 1, { 9 } };
	struct lx_span cause;
	struct lx_cause c;
	CHECK(lx_doom_find(d, &plan, 0, &doc9, true, &cause) == LX_SUPPRESSED && !lx_cause_began_at(cause, 0, &doc9));
	CHECK(lx_plan_cause(&plan, cause, &c) == 0 && c.origin_domain == 0 && lx_span_eq(c.judged, lx_span_str("region:9.1.1")));
	struct lx_err e = LX_ERR_INIT;
	CHECK(lx_plan_expand(&plan, "region", 1, (struct lx_tolerance){ 0 }, &e) == 3);
	CHECK(lx_plan_cause(&plan, cause, &c) == 0 && c.origin_domain == 3 && c.origin.n == 3 && c.origin.ord[2] == 1 && !c.judged.len);
	lx_plan_free(&plan);
	make_plan();
	close(fd);
	lx_doom_free(d), lx_doom_free(none);
	lx_ledger_close(l), lx_ledger_close(other);
}

/* Bytes of every kind between lines that are good. */
static void garbage_is_passed_over(void)
{
	struct lx_ledger *l = open_it();
	struct lx_doom *d = lx_doom_new(1000);
	int fd = open(file, O_WRONLY | O_APPEND);
	uint64_t s = 9;
	for (uint64_t i = 0; i < 200; i++) {
		uint8_t junk[5000];
		char line[128];
		size_t n = (size_t)(s >> 33) % sizeof(junk);
		for (size_t k = 0; k < n; k++) {
			s = s * 6364136223846793005u + 1442695040888963407u;
			junk[k] = (uint8_t)(s >> 56);
		}
		int len = snprintf(line, sizeof(line), "\nr1\tdoc\t%llu\tt\tdoc:%llu\tpage:%llu.0\tlx-map\tno\n", (unsigned long long)i + 1000,
		                   (unsigned long long)i + 1000, (unsigned long long)i + 1000);
		CHECK(write(fd, junk, n) == (ssize_t)n && write(fd, line, (size_t)len) == len);
		lx_ledger_read(l, &plan, d, true);
		CHECK(barred(d, 0, (struct lx_id){ 1, { i + 1000 } }));
	}
	/* A line of megabytes takes no memory, and the one behind it counts. */
	CHECK(ftruncate(fd, 20 << 20) == 0 && put(fd, "\nr1\tdoc\t1\tt\tdoc:1\tdoc:1\tlx-map\tno\n"));
	lx_ledger_read(l, &plan, d, true);
	CHECK(!barred(d, 0, (struct lx_id){ 1, { 1 } })); /* nor all of a stage's time */
	for (int i = 0; i < 20; i++)
		lx_ledger_read(l, &plan, d, true);
	CHECK(barred(d, 0, (struct lx_id){ 1, { 1 } }));
	/* Emptied: what comes then is read. */
	CHECK(ftruncate(fd, 0) == 0);
	lx_ledger_read(l, &plan, d, true);
	CHECK(put(fd, "r1\tdoc\t2\tt\tdoc:2\tdoc:2\tlx-map\tno\n"));
	lx_ledger_read(l, &plan, d, true);
	CHECK(barred(d, 0, (struct lx_id){ 1, { 2 } }));
	close(fd);
	lx_doom_free(d);
	lx_ledger_close(l);
}

/* A line of so many bytes with its end: one on doc `id` with a message that fills it. */
static bool put_line(int fd, unsigned id, size_t bytes)
{
	char line[2 * LX_LEDGER_LINE];
	int n = snprintf(line, sizeof(line), "r1\tdoc\t%u\tt\tdoc:%u\tpage:%u.0\tlx-map\t", id, id, id);
	memset(line + n, 'm', bytes - (size_t)n);
	line[bytes - 1] = '\n';
	return write(fd, line, bytes) == (ssize_t)bytes;
}

static void a_line_that_is_too_long_is_none(void)
{
	struct lx_ledger *l = open_it();
	struct lx_doom *d = lx_doom_new(10);
	int fd = open(file, O_WRONLY | O_APPEND);
	CHECK(put_line(fd, 51, LX_LEDGER_LINE) && put_line(fd, 52, LX_LEDGER_LINE + 1) && put_line(fd, 53, 2 * LX_LEDGER_LINE));
	lx_ledger_read(l, &plan, d, true);
	CHECK(barred(d, 0, (struct lx_id){ 1, { 51 } }) && !barred(d, 0, (struct lx_id){ 1, { 52 } }) && !barred(d, 0, (struct lx_id){ 1, { 53 } }));
	/* What comes after a look at the first part of one belongs to it, whatever it looks like. */
	char junk[LX_LEDGER_LINE];
	memset(junk, 'x', sizeof(junk));
	CHECK(write(fd, junk, sizeof(junk)) == (ssize_t)sizeof(junk));
	lx_ledger_read(l, &plan, d, true);
	CHECK(put_line(fd, 54, 100) && put_line(fd, 55, 100));
	lx_ledger_read(l, &plan, d, true);
	CHECK(!barred(d, 0, (struct lx_id){ 1, { 54 } }) && barred(d, 0, (struct lx_id){ 1, { 55 } }));
	close(fd);
	lx_doom_free(d);
	lx_ledger_close(l);
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	snprintf(file, sizeof(file), "%s/barriers", dir);
	make_plan();
	RUN(what_is_written_is_learnt);
	RUN(a_long_message_is_cut);
	RUN(a_line_counts_when_it_is_whole);
	RUN(garbage_is_passed_over);
	RUN(a_line_that_is_too_long_is_none);
	lx_plan_free(&plan);
	unlink(file);
	rmdir(dir);
	return tap_done();
}

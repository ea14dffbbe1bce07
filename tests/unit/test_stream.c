/* The reader and the writer against each other: every packing, every cut, one byte at a time, damage anywhere. */
#include "stage.h"
#include "tap.h"

#include <sys/mman.h>
#include <unistd.h>

static const struct lx_limits limits = LX_LIMITS_DEFAULT;

static void plan_of_two(struct lx_plan *p)
{
	struct lx_err e = LX_ERR_INIT;
	lx_plan_init(p);
	strcpy(p->run, "r1");
	strcpy(p->domains[0].name, "doc");
	p->domains[0].parent = -1;
	p->n_domains = 1;
	CHECK(lx_plan_op(p, "lx-in", 0, NULL, (const char *const[]){ "path", NULL }, NULL, &e) == 0);
	CHECK(lx_plan_expand(p, "page", 0, (struct lx_tolerance){ 0 }, &e) == 1);
	CHECK(lx_plan_op(p, "lx-expand", 1, NULL, (const char *const[]){ "data", NULL }, NULL, &e) == 0);
}

static void put_doc(struct lx_writer *w, uint64_t n, struct lx_err *e)
{
	struct lx_buf b = { 0 };
	struct lx_id id = { 1, { n } };
	lx_rec_item_head(&b, 0, &id);
	lx_pack_map(&b, 1);
	lx_pack_cstr(&b, "path");
	lx_pack_cstr(&b, "a.pdf");
	lx_pack_cstr(&b, "a.pdf");
	CHECK(lx_writer_add_buf(w, &b, e) == 0);
	lx_buf_free(&b);
}

static void put_page(struct lx_writer *w, uint64_t doc, uint64_t n, size_t bytes, struct lx_err *e)
{
	struct lx_buf b = { 0 }, data = { 0 };
	struct lx_id id = { 2, { doc, n } };
	uint64_t x = n * 77 + 1;
	for (size_t i = 0; i < bytes; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		lx_buf_byte(&data, (uint8_t)(x >> 56));
	}
	lx_rec_item_head(&b, 1, &id);
	lx_pack_map(&b, 1);
	lx_pack_cstr(&b, "data");
	lx_pack_bin(&b, lx_buf_view(&data));
	CHECK(lx_writer_add_buf(w, &b, e) == 0);
	lx_buf_free(&b);
	lx_buf_free(&data);
}

static void put_failed_and_close(struct lx_writer *w, struct lx_err *e)
{
	struct lx_buf b = { 0 }, cause = { 0 };
	struct lx_id id = { 2, { 0, 9 } }, doc = { 1, { 0 } };
	struct lx_cause c = { .type = lx_span_str("bad-page"), .message = lx_span_str("no"), .anchor_domain = 0, .anchor = doc,
		.origin_domain = 1, .origin = id };
	lx_cause_pack(&cause, &c);
	lx_rec_gone(&b, 1, &id, LX_FAILED, lx_buf_view(&cause), (struct lx_span){ 0 }, (struct lx_span){ 0 });
	CHECK(lx_writer_add_buf(w, &b, e) == 0);
	lx_rec_close(&b, 1, &doc, 10, LX_PRESENT, (struct lx_span){ 0 });
	CHECK(lx_writer_add_buf(w, &b, e) == 0);
	lx_buf_free(&b);
	lx_buf_free(&cause);
}

/* A stream of a few frames in *out. */
static void make(struct lx_buf *out, enum lx_packing packing, size_t page_bytes)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_writer w;
	struct lx_plan p;
	plan_of_two(&p);
	p.packing = packing;
	CHECK(lx_writer_init(&w, -1, &limits, &e) == 0);
	CHECK(lx_writer_begin(&w, &p, &e) == 0);
	put_doc(&w, 0, &e);
	CHECK(lx_writer_flush(&w, &e) == 0);
	for (uint64_t i = 0; i < 9; i++)
		put_page(&w, 0, i, page_bytes, &e);
	put_failed_and_close(&w, &e);
	CHECK(lx_writer_end(&w, 0, &e) == 0);
	CHECK(e.code == LX_OK);
	lx_buf_clear(out);
	lx_buf_span(out, lx_buf_view(&w.out));
	lx_writer_release(&w);
	lx_plan_free(&p);
}

struct seen {
	int code;
	uint64_t docs, pages, failed, closes, begins, ends, bytes;
	bool eof;
	char msg[LX_ERR_MAX];
};

static struct seen read_fd(int fd)
{
	struct seen s = { 0 };
	struct lx_err e = LX_ERR_INIT;
	struct lx_reader *r = lx_reader_new(fd, "test", &limits, &e);
	struct lx_rec rec;
	for (enum lx_event ev; (ev = lx_reader_wait(r, &e)) > 0 && ev != LX_EV_EOF;) {
		s.begins += ev == LX_EV_BEGIN;
		s.ends += ev == LX_EV_END;
		while (ev == LX_EV_FRAME && lx_reader_rec(r, &rec, &e) > 0) {
			s.docs += rec.domain == 0 && rec.kind == LX_ITEM;
			s.pages += rec.domain == 1 && rec.kind == LX_ITEM;
			s.failed += rec.kind == LX_GONE;
			s.closes += rec.kind == LX_CLOSE;
			s.bytes += rec.raw.len;
		}
	}
	s.eof = lx_reader_next(r, &e) == LX_EV_EOF;
	s.code = e.code;
	memcpy(s.msg, e.msg, sizeof(s.msg));
	lx_reader_free(r);
	return s;
}

static struct seen read_bytes(const uint8_t *p, size_t n)
{
	int fd = memfd_create("stream", 0);
	CHECK(write(fd, p, n) == (ssize_t)n);
	lseek(fd, 0, SEEK_SET);
	struct seen s = read_fd(fd);
	close(fd);
	return s;
}

static void what_is_written_is_read(void)
{
	struct lx_buf b = { 0 };
	for (int packing = LX_RAW; packing <= LX_ZSTD; packing++)
		for (size_t bytes = 10; bytes < 2000000; bytes = bytes * 13 + 1) {
			make(&b, (enum lx_packing)packing, bytes);
			struct seen s = read_bytes(b.p, b.len);
			CHECK(s.code == LX_OK && s.eof && s.begins == 1 && s.ends == 1);
			CHECK(s.docs == 1 && s.pages == 9 && s.failed == 1 && s.closes == 1);
			CHECK(s.bytes > 9 * bytes);
		}
	lx_buf_free(&b);
}

static void every_cut_is_truncated(void)
{
	struct lx_buf b = { 0 };
	for (int packing = LX_RAW; packing <= LX_ZSTD; packing++) {
		make(&b, (enum lx_packing)packing, 600);
		for (size_t n = 0; n < b.len; n++) {
			struct seen s = read_bytes(b.p, n);
			CHECK(s.code == LX_DATA && !s.eof && strstr(s.msg, "truncated"));
		}
	}
	lx_buf_free(&b);
}

static void one_byte_at_a_time_is_the_same(void)
{
	struct lx_buf b = { 0 };
	struct lx_err e = LX_ERR_INIT;
	int fd[2];
	make(&b, LX_ZSTD, 300);
	CHECK(lx_io_pipe(fd, &e) == 0);
	struct lx_reader *r = lx_reader_new(fd[0], "test", &limits, &e);
	struct lx_rec rec;
	uint64_t recs = 0;
	for (size_t i = 0; i < b.len; i++) {
		CHECK(write(fd[1], b.p + i, 1) == 1);
		CHECK(lx_reader_fill(r, &e) == 1);
		for (enum lx_event ev; (ev = lx_reader_next(r, &e)) != LX_EV_MORE;) {
			CHECK(ev != LX_EV_ERROR);
			if (ev == LX_EV_ERROR)
				break;
			while (ev == LX_EV_FRAME && lx_reader_rec(r, &rec, &e) > 0)
				recs++;
		}
	}
	close(fd[1]);
	CHECK(lx_reader_wait(r, &e) == LX_EV_EOF);
	CHECK(recs == 12);
	lx_reader_free(r);
	close(fd[0]);
	lx_buf_free(&b);
}

static void a_flipped_bit_is_found_where_there_are_checksums(void)
{
	struct lx_buf b = { 0 };
	make(&b, LX_CHECKED, 300);
	struct seen whole = read_bytes(b.p, b.len);
	for (size_t i = 0; i < b.len; i++) {
		b.p[i] ^= 0x10;
		struct seen s = read_bytes(b.p, b.len);
		/* In a mark it may be a name that changed; records are protected. */
		CHECK(s.code != LX_OK || (s.bytes == whole.bytes && s.pages == 9));
		b.p[i] ^= 0x10;
	}
	lx_buf_free(&b);
}

static void two_streams_joined_are_one(void)
{
	struct lx_buf a = { 0 }, b = { 0 };
	make(&a, LX_RAW, 50);
	make(&b, LX_ZSTD, 50);
	lx_buf_span(&a, lx_buf_view(&b));
	struct seen s = read_bytes(a.p, a.len);
	CHECK(s.code == LX_OK && s.begins == 2 && s.pages == 18);
	lx_buf_free(&a);
	lx_buf_free(&b);
}

static void an_abort_mark_carries_its_reason(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_writer w;
	struct lx_plan p;
	plan_of_two(&p);
	CHECK(lx_writer_init(&w, -1, &limits, &e) == 0);
	CHECK(lx_writer_begin(&w, &p, &e) == 0);
	put_doc(&w, 0, &e);
	CHECK(lx_writer_abort(&w, LX_WORKER, "lx-batch", "all workers are gone", &e) == 0);
	struct seen s = read_bytes(w.out.p, w.out.len);
	CHECK(s.code == LX_WORKER && s.docs == 1 && strcmp(s.msg, "all workers are gone") == 0);
	lx_writer_release(&w);
	lx_plan_free(&p);
}

/* Forwarding unopened, in every mix of packings, gives the same records. */
static void forwarded_frames_are_the_same(void)
{
	struct lx_buf b = { 0 };
	for (int from = LX_RAW; from <= LX_ZSTD; from++)
		for (int to = LX_RAW; to <= LX_ZSTD; to++) {
			struct lx_err e = LX_ERR_INIT;
			struct lx_writer w;
			make(&b, (enum lx_packing)from, 3000);
			int fd = memfd_create("stream", 0);
			CHECK(write(fd, b.p, b.len) == (ssize_t)b.len);
			lseek(fd, 0, SEEK_SET);
			struct lx_reader *r = lx_reader_new(fd, "test", &limits, &e);
			CHECK(lx_writer_init(&w, -1, &limits, &e) == 0);
			uint64_t forwarded = 0;
			for (enum lx_event ev; (ev = lx_reader_wait(r, &e)) > 0 && ev != LX_EV_EOF;) {
				struct lx_rec rec;
				if (ev == LX_EV_BEGIN) {
					struct lx_plan p;
					CHECK(lx_plan_copy(&p, lx_reader_plan(r), &e) == 0);
					p.packing = (enum lx_packing)to;
					CHECK(lx_writer_begin(&w, &p, &e) == 0);
					lx_plan_free(&p);
				} else if (ev == LX_EV_FRAME && lx_reader_hint(r)) {
					forwarded++;
					CHECK(lx_writer_forward(&w, r, &e) == 0);
				} else if (ev == LX_EV_FRAME) {
					while (lx_reader_rec(r, &rec, &e) > 0)
						CHECK(lx_writer_add(&w, &rec, &e) == 0);
				} else if (ev == LX_EV_END) {
					CHECK(lx_writer_end(&w, 0, &e) == 0);
				}
			}
			struct seen s = read_bytes(w.out.p, w.out.len);
			CHECK(e.code == LX_OK && forwarded > 0 && s.code == LX_OK && s.eof && s.pages == 9 && s.docs == 1);
			lx_writer_release(&w);
			lx_reader_free(r);
			close(fd);
		}
	lx_buf_free(&b);
}

static void records_over_a_limit_are_refused_by_both(void)
{
	struct lx_limits small = limits;
	struct lx_err e = LX_ERR_INIT;
	struct lx_writer w;
	struct lx_buf b = { 0 };
	struct lx_plan p;
	small.record = 100;
	plan_of_two(&p);
	CHECK(lx_writer_init(&w, -1, &small, &e) == 0);
	CHECK(lx_writer_begin(&w, &p, &e) == 0);
	lx_rec_item_head(&b, 1, &(struct lx_id){ 2, { 0, 0 } });
	lx_pack_map(&b, 1);
	lx_pack_cstr(&b, "data");
	lx_pack_bin(&b, (struct lx_span){ (const uint8_t[200]){ 0 }, 200 });
	CHECK(lx_writer_add_buf(&w, &b, &e) < 0 && e.code == LX_DATA && strstr(e.msg, "--max-record"));
	lx_buf_free(&b);
	lx_writer_release(&w);
	lx_plan_free(&p);
}

static void walks_bound_depth_and_length(void)
{
	size_t len;
	uint8_t bomb[200];
	memset(bomb, 0x91, sizeof(bomb));
	CHECK(lx_val_walk(bomb, sizeof(bomb), 32, &len) == LX_WALK_DEPTH);
	CHECK(lx_val_walk((const uint8_t *)"\xc6\xff\xff\xff\xff\0\0\0", 8, 32, &len) == LX_WALK_SHORT);
	CHECK(lx_val_walk((const uint8_t *)"\xdd\xff\xff\xff\xff\0\0\0", 8, 32, &len) == LX_WALK_SHORT);
	CHECK(lx_val_walk((const uint8_t *)"\xdf\xff\xff\xff\xff\0\0\0", 8, 32, &len) == LX_WALK_SHORT);
	CHECK(lx_val_walk((const uint8_t *)"\xc1", 1, 32, &len) == LX_WALK_RESERVED);
	CHECK(lx_val_walk((const uint8_t *)"\x92\x01\xa1x\x05", 5, 1, &len) == LX_WALK_OK && len == 4);
}

static void a_barrier_covers_what_is_below(void)
{
	struct lx_plan p;
	plan_of_two(&p);
	struct lx_doom *d = lx_doom_new(4);
	struct lx_id doc = { 1, { 7 } }, page = { 2, { 7, 3 } }, other = { 2, { 8, 3 } };
	struct lx_span cause;
	CHECK(lx_doom_find(d, &p, 1, &page, true, &cause) == LX_PRESENT);
	lx_doom_bar(d, 0, &doc, LX_SUPPRESSED, lx_span_str("why"));
	CHECK(lx_doom_find(d, &p, 1, &page, false, &cause) == LX_SUPPRESSED && cause.len == 3);
	CHECK(lx_doom_find(d, &p, 1, &other, true, &cause) == LX_PRESENT);
	CHECK(lx_doom_find(d, &p, 0, &doc, false, &cause) == LX_PRESENT);
	CHECK(lx_doom_find(d, &p, 0, &doc, true, &cause) == LX_SUPPRESSED);
	for (uint64_t i = 100; i < 200; i++) /* forgetting keeps it small */
		lx_doom_bar(d, 0, &(struct lx_id){ 1, { i } }, LX_DROPPED, (struct lx_span){ 0 });
	CHECK(lx_doom_find(d, &p, 1, &page, false, &cause) == LX_PRESENT);
	CHECK(lx_doom_find(d, &p, 1, &(struct lx_id){ 2, { 199, 0 } }, false, &cause) == LX_DROPPED);
	lx_doom_free(d);
	lx_plan_free(&p);
}

static void learn_failed(struct lx_doom *d, const struct lx_plan *p, uint64_t ordinal)
{
	struct lx_buf b = { 0 }, c = { 0 };
	struct lx_id id = { 2, { 0, ordinal } };
	struct lx_err e = LX_ERR_INIT;
	struct lx_rec r;
	size_t used;
	lx_cause_pack(&c, &(struct lx_cause){ .type = lx_span_str("t"), .message = lx_span_str("m"), .anchor_domain = 1, .anchor = id,
		.origin_domain = 1, .origin = id });
	lx_rec_gone(&b, 1, &id, LX_FAILED, lx_buf_view(&c), (struct lx_span){ 0 }, (struct lx_span){ 0 });
	CHECK(lx_rec_parse(b.p, b.len, &limits, &r, &used, &e) == 0);
	lx_doom_learn(d, p, &r);
	lx_buf_free(&b);
	lx_buf_free(&c);
}

static void an_item_barred_from_outside_counts_when_it_comes(void)
{
	struct lx_plan p;
	struct lx_span cause;
	plan_of_two(&p);
	struct lx_doom *d = lx_doom_new(100);
	struct lx_id doc = { 1, { 0 } };
	p.domains[1].tolerance = (struct lx_tolerance){ false, 1 };
	lx_doom_bar(d, 1, &(struct lx_id){ 2, { 0, 0 } }, LX_SUPPRESSED, lx_span_str("why"));
	lx_doom_bar(d, 1, &(struct lx_id){ 2, { 0, 1 } }, LX_SUPPRESSED, lx_span_str("why"));
	learn_failed(d, &p, 0);
	learn_failed(d, &p, 0); /* once */
	CHECK(lx_doom_find(d, &p, 0, &doc, true, &cause) == LX_PRESENT);
	learn_failed(d, &p, 1);
	CHECK(lx_doom_find(d, &p, 0, &doc, true, &cause) == LX_SUPPRESSED);
	lx_doom_free(d);
	lx_plan_free(&p);
}

static void tolerance_counts_before_it_dooms(void)
{
	struct lx_plan p;
	struct lx_err e = LX_ERR_INIT;
	struct lx_span cause;
	plan_of_two(&p);
	p.domains[1].tolerance = (struct lx_tolerance){ false, 2 };
	struct lx_doom *d = lx_doom_new(100);
	for (uint64_t i = 0; i < 3; i++) {
		struct lx_buf b = { 0 }, c = { 0 };
		struct lx_id id = { 2, { 0, i } };
		struct lx_cause why = { .type = lx_span_str("t"), .message = lx_span_str("m"), .anchor_domain = 1, .anchor = id,
			.origin_domain = 1, .origin = id };
		struct lx_rec r;
		size_t used;
		lx_cause_pack(&c, &why);
		lx_rec_gone(&b, 1, &id, LX_FAILED, lx_buf_view(&c), (struct lx_span){ 0 }, (struct lx_span){ 0 });
		CHECK(lx_rec_parse(b.p, b.len, &limits, &r, &used, &e) == 0);
		CHECK(lx_doom_find(d, &p, 1, &(struct lx_id){ 2, { 0, 50 } }, true, &cause) == LX_PRESENT);
		lx_doom_learn(d, &p, &r);
		lx_buf_free(&b);
		lx_buf_free(&c);
	}
	CHECK(lx_doom_find(d, &p, 1, &(struct lx_id){ 2, { 0, 50 } }, true, &cause) == LX_SUPPRESSED);
	lx_doom_free(d);
	lx_plan_free(&p);
}

static void shapes_are_refused_with_the_fix(void)
{
	struct lx_plan p;
	plan_of_two(&p);
#define REFUSED(call, word) \
	do { \
		struct lx_err e = LX_ERR_INIT; \
		CHECK((call) < 0 && e.code == LX_USAGE && strstr(e.msg, word)); \
	} while (0)
	REFUSED(lx_plan_gather(&p, 0, &e), "lx-expand");
	REFUSED(lx_plan_expand(&p, "page", 0, (struct lx_tolerance){ 0 }, &e), "opened before");
	REFUSED(lx_plan_expand(&p, "no good", 0, (struct lx_tolerance){ 0 }, &e), "no domain name");
	REFUSED(lx_plan_sink(&p, false, &e), "lx-gather -d page");
	REFUSED(lx_plan_reads(&p, 1, "text", "-i", &e), "data");
	REFUSED(lx_plan_domain(&p, "region", "--of", &e), "doc, page (--of)");
	struct lx_err ok = LX_ERR_INIT;
	CHECK(lx_plan_expand(&p, "region", 1, (struct lx_tolerance){ 0 }, &ok) == 2);
	REFUSED(lx_plan_gather(&p, 1, &e), "lx-gather -d region");
	CHECK(lx_plan_gather(&p, 2, &ok) == 0 && lx_plan_gather(&p, 1, &ok) == 0 && lx_plan_sink(&p, false, &ok) == 0);
	REFUSED(lx_plan_gather(&p, 1, &e), "already");
	REFUSED(lx_plan_work_domain(&p, "page", "-d", &e), "gathered");
	CHECK(lx_plan_knows(&p, 1, "data") == 1 && lx_plan_knows(&p, 1, "x") == -1);
	CHECK(lx_plan_op(&p, "lx-map", 1, NULL, (const char *const[]){ "*", NULL }, (const char *const[]){ "data", NULL }, &ok) == 0);
	CHECK(lx_plan_knows(&p, 1, "x") == 0);
	lx_plan_free(&p);
}

/* Small frames wait for each other, but never for a reader that waits for them. */
static void small_frames_go_out_together(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_writer w;
	struct lx_plan p;
	int fd[2];
	static uint8_t got[1 << 20];
	plan_of_two(&p);
	p.packing = LX_RAW;
	CHECK(lx_io_pipe(fd, &e) == 0 && lx_writer_init(&w, fd[1], &limits, &e) == 0);
	CHECK(lx_writer_begin(&w, &p, &e) == 0 && !lx_writer_waits(&w));
	CHECK(read(fd[0], got, sizeof(got)) > 0); /* the mark, at once */
	put_doc(&w, 0, &e);
	CHECK(lx_writer_close(&w, &e) == 0 && w.records == 0 && lx_writer_waits(&w) && !lx_io_ready(fd[0]));
	put_page(&w, 0, 0, 100, &e); /* stays open */
	CHECK(lx_writer_send(&w, &e) == 0 && w.records == 1);
	ssize_t one = read(fd[0], got, sizeof(got));
	CHECK(one > 0 && lx_writer_waits(&w) && !lx_io_ready(fd[0]));
	CHECK(lx_writer_flush(&w, &e) == 0 && !lx_writer_waits(&w) && read(fd[0], got, sizeof(got)) > 0);
	/* What is enough to send does not wait. */
	for (uint64_t i = 1; i < 20 && !lx_io_ready(fd[0]); i++) {
		put_page(&w, 0, i, 10000, &e);
		CHECK(lx_writer_close(&w, &e) == 0);
	}
	CHECK(lx_io_ready(fd[0]) && read(fd[0], got, sizeof(got)) > 60000 && !lx_writer_waits(&w));
	lx_writer_release(&w);
	lx_plan_free(&p);
	close(fd[0]), close(fd[1]);
}

/* What lx_rec_made gives is what lx_rec_parse would. */
static void a_made_record_is_a_parsed_one(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf fields = { 0 }, key = { 0 }, b = { 0 };
	struct lx_limits l = limits;
	struct lx_id id = { 1, { 300 } };
	struct lx_rec made, parsed;
	size_t used;
	lx_pack_map(&fields, 2);
	for (int i = 0; i < 2; i++) {
		lx_pack_cstr(&fields, i ? "a" : "b");
		lx_pack_uint(&fields, 70000);
	}
	lx_pack_cstr(&key, "k");
	CHECK(lx_rec_made(&b, 0, &id, lx_buf_view(&fields), lx_buf_view(&key), &l, &made, &e) == 0);
	CHECK(lx_rec_parse(b.p, b.len, &l, &parsed, &used, &e) == 0 && used == b.len);
	CHECK(made.kind == parsed.kind && made.outcome == parsed.outcome && made.domain == parsed.domain && lx_id_eq(&made.id, &parsed.id));
	CHECK(made.raw.p == parsed.raw.p && made.raw.len == parsed.raw.len && made.cause.p == NULL);
	CHECK(made.fields.p == parsed.fields.p && made.fields.len == parsed.fields.len);
	CHECK(made.key.p == parsed.key.p && made.key.len == parsed.key.len);
	for (int i = 0; i < 3; i++) { /* over each limit: the same words */
		struct lx_err a = LX_ERR_INIT, c = LX_ERR_INIT;
		l = limits;
		if (i == 0)
			l.fields = 1;
		else if (i == 1)
			l.depth = 1;
		else
			l.record = b.len - 1;
		CHECK(lx_rec_parse(b.p, b.len, &l, &parsed, &used, &a) < 0 && a.code == LX_DATA);
		CHECK(lx_rec_made(&b, 0, &id, lx_buf_view(&fields), lx_buf_view(&key), &l, &made, &c) < 0 && c.code == LX_DATA);
		CHECK(strcmp(a.msg, c.msg) == 0);
	}
	lx_buf_free(&fields), lx_buf_free(&key), lx_buf_free(&b);
}

static struct lx_span edited(struct lx_buf *b, const struct lx_rec *r, struct lx_span old)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_edit gone = { .name = lx_span_str("b"), .old = old };
	lx_buf_clear(b);
	CHECK(lx_fields_edit(b, r->fields, &gone, 1, &limits, &e) == 0);
	return lx_buf_view(b);
}

/* Whether fields are flat, with the odd one first, in the middle or last; and an edit that is told where the old value is. */
static void nested_fields_are_known(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_id id = { 1, { 7 } };
	for (int odd = 0; odd < 4; odd++) {
		struct lx_buf fields = { 0 }, key = { 0 }, b = { 0 }, one = { 0 }, two = { 0 };
		struct lx_rec made, r;
		size_t used;
		lx_pack_map(&fields, 3);
		for (int i = 0; i < 3; i++) {
			lx_pack_cstr(&fields, i == 0 ? "a" : i == 1 ? "b" : "c");
			if (i != odd) {
				lx_pack_cstr(&fields, "a text of more than thirty-one bytes in all");
				continue;
			}
			lx_pack_array(&fields, 20);
			for (uint64_t k = 0; k < 20; k++)
				lx_pack_uint(&fields, k * 100);
		}
		lx_pack_nil(&key);
		CHECK(lx_rec_made(&b, 0, &id, lx_buf_view(&fields), lx_buf_view(&key), &limits, &made, &e) == 0 && !made.flat);
		CHECK(lx_rec_parse(b.p, b.len, &limits, &r, &used, &e) == 0 && r.flat == (odd == 3));
		CHECK(lx_span_eq(edited(&one, &r, (struct lx_span){ 0 }), edited(&two, &r, lx_rec_field(&r, "b"))));
		CHECK(!lx_map_get(lx_buf_view(&two), "b", 1).p && lx_map_get(lx_buf_view(&two), "c", 1).p);
		lx_buf_free(&fields), lx_buf_free(&key), lx_buf_free(&b), lx_buf_free(&one), lx_buf_free(&two);
	}
}

int main(void)
{
	RUN(nested_fields_are_known);
	RUN(small_frames_go_out_together);
	RUN(a_made_record_is_a_parsed_one);
	RUN(what_is_written_is_read);
	RUN(every_cut_is_truncated);
	RUN(one_byte_at_a_time_is_the_same);
	RUN(a_flipped_bit_is_found_where_there_are_checksums);
	RUN(two_streams_joined_are_one);
	RUN(an_abort_mark_carries_its_reason);
	RUN(forwarded_frames_are_the_same);
	RUN(records_over_a_limit_are_refused_by_both);
	RUN(walks_bound_depth_and_length);
	RUN(a_barrier_covers_what_is_below);
	RUN(tolerance_counts_before_it_dooms);
	RUN(an_item_barred_from_outside_counts_when_it_comes);
	RUN(shapes_are_refused_with_the_fix);
	return tap_done();
}

/* The reader of streams, whole: whatever the bytes are it ends, with an end or with a reason. What it accepted is written
 * again, in another packing, and read as the same records; frames with a hint go out unopened half of the time. */
#include "fuzz.h"

static const struct lx_limits limits = { .record = 1u << 20, .frame = 2u << 20, .depth = 32, .id_len = LX_ID_MAX, .fields = 4096 };

struct copy {
	struct lx_reader *r;
	struct lx_writer w;
	struct lx_buf records; /* raw bytes of all records that were looked at */
	enum lx_packing packing;
	bool unopened;
};

static void copy_begin(struct copy *c, struct lx_err *e)
{
	struct lx_plan p;
	HOLDS(lx_plan_copy(&p, lx_reader_plan(c->r), e) == 0);
	p.has_part = false;
	p.packing = c->packing;
	HOLDS(lx_writer_begin(&c->w, &p, e) == 0);
	lx_plan_free(&p);
}

/* -1: the frame was refused. */
static int copy_frame(struct copy *c, struct lx_err *e)
{
	struct lx_rec rec;
	int got;
	if (c->unopened && lx_reader_hint(c->r))
		return lx_writer_forward(&c->w, c->r, e);
	while ((got = lx_reader_rec(c->r, &rec, e)) == 1) {
		lx_buf_span(&c->records, rec.raw);
		HOLDS(lx_writer_add(&c->w, &rec, e) == 0);
	}
	return got < 0 ? -1 : lx_writer_flush(&c->w, e);
}

static int copy_event(struct copy *c, enum lx_event ev, struct lx_err *e)
{
	switch (ev) {
	case LX_EV_BEGIN:
		copy_begin(c, e);
		return 0;
	case LX_EV_FRAME:
		return copy_frame(c, e);
	case LX_EV_HINT:
		return lx_writer_hint(&c->w, lx_reader_hint(c->r)->bars, e);
	case LX_EV_END:
		HOLDS(lx_writer_end(&c->w, 0, e) == 0);
		return 0;
	default:
		return -1;
	}
}

/* 0: read to a good end. */
static int copy_stream(struct copy *c, struct lx_span in, struct lx_err *e)
{
	int fd = fuzz_fd(in), rc = 0;
	enum lx_event ev;
	c->r = lx_reader_new(fd, "fuzz", &limits, e);
	HOLDS(c->r && lx_writer_init(&c->w, -1, &limits, e) == 0);
	while ((ev = lx_reader_wait(c->r, e)) != LX_EV_EOF && rc == 0) {
		HOLDS(ev != LX_EV_MORE);
		rc = copy_event(c, ev, e);
	}
	rc = ev == LX_EV_EOF ? 0 : -1;
	HOLDS((rc == 0) == (e->code == LX_OK));
	HOLDS(e->code == LX_OK || e->msg[0] || e->upstream);
	lx_reader_free(c->r);
	close(fd);
	return rc;
}

static void release(struct copy *c)
{
	lx_writer_release(&c->w);
	lx_buf_free(&c->records);
}

/* Read, write in `packing`, read again. */
static void round_trip(struct lx_span in, enum lx_packing packing)
{
	struct lx_err e = LX_ERR_INIT;
	struct copy a = { .packing = packing }, b = { .packing = LX_RAW };
	if (copy_stream(&a, in, &e) == 0) {
		HOLDS(copy_stream(&b, lx_buf_view(&a.w.out), &e) == 0);
		HOLDS(lx_span_eq(lx_buf_view(&a.records), lx_buf_view(&b.records)));
		release(&b);
	}
	release(&a);
}

/* Frames that nobody looked into; a lie in a hint stays for the next reader. */
static void pass_on(struct lx_span in)
{
	struct lx_err e = LX_ERR_INIT;
	struct copy a = { .packing = LX_CHECKED, .unopened = true };
	copy_stream(&a, in, &e);
	release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct lx_span in = { data, size };
	round_trip(in, size % 2 ? LX_ZSTD : LX_CHECKED);
	pass_on(in);
	return 0;
}

FUZZ_MAIN("tests/corpus", "tests/fuzz/seeds/stream")

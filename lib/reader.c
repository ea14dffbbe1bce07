#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

#define ULL(x) ((unsigned long long)(x))
#define READ_MIN (256u << 10) /* bytes asked of one read */
#define RUNS_MAX 65536        /* runs in one stream whose return is noticed */

enum state { WANT_BEGIN, IN_SEGMENT, AT_EOF, BROKEN };

struct lx_reader {
	int fd;
	char *name;
	struct lx_limits limits;
	struct lx_codec *codec;
	enum state state;

	struct lx_buf in;  /* bytes read; those before `at` are done with */
	size_t at;
	uint64_t offset;   /* of in.p[at] in the source */
	bool eof;
	struct lx_scan scan;

	struct lx_plan plan;
	bool have_plan;
	int depth[LX_DOMAINS_MAX]; /* length of an id in each domain */
	struct lx_counts counts;   /* of the segment */

	/* the frame at hand */
	bool has_frame, opened;
	struct lx_span content;
	size_t pos;
	struct lx_counts in_frame;
	bool wide;
	uint64_t record; /* records read so far, for messages */

	struct lx_hint hint;
	bool has_hint;
	struct lx_buf bars;

	/* parts of the current run, runs of the stream */
	uint8_t *parts;
	uint64_t n_parts, most_parts, total_parts;
	bool skip_segment;
	bool unparted, keep_parts;
	char **runs;
	size_t n_runs;
	uint64_t segments; /* of this source */

	int (*next_source)(void *ctx, int *fd, const char **name, struct lx_err *e);
	void *next_ctx;

	struct lx_err broken;
};

struct lx_reader *lx_reader_new(int fd, const char *name, const struct lx_limits *l, struct lx_err *e)
{
	struct lx_reader *r = calloc(1, sizeof(*r));
	lx_io_widen(fd);
	if (r) {
		r->fd = fd;
		r->limits = *l;
		r->name = strdup(name);
		r->codec = lx_codec_new(e);
	}
	if (r && r->name && r->codec)
		return r;
	lx_err_sys(e, "%s", name);
	lx_reader_free(r);
	return NULL;
}

void lx_reader_free(struct lx_reader *r)
{
	if (!r)
		return;
	if (r->have_plan)
		lx_plan_free(&r->plan);
	for (size_t i = 0; i < r->n_runs; i++)
		free(r->runs[i]);
	free(r->runs);
	free(r->parts);
	free(r->name);
	lx_codec_free(r->codec);
	lx_buf_free(&r->in);
	lx_buf_free(&r->bars);
	free(r);
}

void lx_reader_chain(struct lx_reader *r, int (*next)(void *ctx, int *fd, const char **name, struct lx_err *e), void *ctx)
{
	r->next_source = next;
	r->next_ctx = ctx;
}

const struct lx_plan *lx_reader_plan(const struct lx_reader *r)
{
	return &r->plan;
}

uint64_t lx_reader_parts(const struct lx_reader *r)
{
	return r->total_parts;
}

uint64_t lx_reader_last(const struct lx_reader *r)
{
	return r->plan.has_part && r->total_parts == r->plan.part + 1 ? r->total_parts : 0;
}

void lx_reader_keep_parts(struct lx_reader *r)
{
	r->keep_parts = true;
}

const struct lx_hint *lx_reader_hint(const struct lx_reader *r)
{
	return r->has_hint ? &r->hint : NULL;
}

const struct lx_counts *lx_reader_counts(const struct lx_reader *r)
{
	return &r->counts;
}

void lx_reader_where(const struct lx_reader *r, char *out, size_t size)
{
	uint64_t off = r->offset;
	if (r->has_frame && r->opened && r->scan.raw)
		off += r->scan.first_block + 3 + r->pos;
	if (r->record)
		snprintf(out, size, "%s: record %llu at 0x%llx", r->name, ULL(r->record), ULL(off));
	else
		snprintf(out, size, "%s: at 0x%llx", r->name, ULL(off));
}

/* ---- failing ---- */

static enum lx_event fail(struct lx_reader *r, struct lx_err *e)
{
	if (!e->upstream) {
		char where[256];
		lx_reader_where(r, where, sizeof(where));
		lx_err_prefix(e, "%s", where);
	}
	r->state = BROKEN;
	r->broken = *e;
	return LX_EV_ERROR;
}

static int bad(struct lx_err *e, const char *what)
{
	return lx_err_set(e, LX_DATA, "%s", what);
}

/* ---- bytes ---- */

int lx_reader_fill(struct lx_reader *r, struct lx_err *e)
{
	size_t have = r->in.len - r->at;
	size_t want = r->scan.need > have + READ_MIN ? r->scan.need - have : READ_MIN;
	if (r->at && (have == 0 || r->in.cap - r->in.len < want)) {
		memmove(r->in.p, r->in.p + r->at, have);
		r->in.len = have;
		r->at = 0;
	}
	uint8_t *to = lx_buf_room(&r->in, want);
	if (!to)
		return lx_buf_check(&r->in, e);
	ssize_t n = lx_io_read(r->fd, to, r->in.cap - r->in.len, e);
	if (n == LX_IO_AGAIN)
		return LX_IO_AGAIN;
	if (n < 0)
		return lx_err_prefix(e, "%s", r->name);
	r->eof = n == 0;
	r->in.len += (size_t)n;
	return 1;
}

static void consume(struct lx_reader *r)
{
	r->at += r->scan.size;
	r->offset += r->scan.size;
	memset(&r->scan, 0, sizeof(r->scan));
}

/* ---- runs and parts ---- */

static int missing_part(const struct lx_reader *r, struct lx_err *e)
{
	if (!r->n_parts)
		return 0;
	for (uint64_t i = 0; i < r->most_parts; i++)
		if (!r->parts[i])
			return lx_err_set(e, LX_DATA, "part %llu of run %s is missing", ULL(i), r->plan.run);
	if (!r->total_parts)
		return lx_err_set(e, LX_DATA, "the last part of run %s is missing: %llu parts were read and none says how many there are",
		                  r->plan.run, ULL(r->n_parts));
	if (r->most_parts > r->total_parts)
		return lx_err_set(e, LX_DATA, "part %llu of run %s, but there are only %llu", ULL(r->most_parts - 1), r->plan.run,
		                  ULL(r->total_parts));
	if (r->most_parts < r->total_parts)
		return lx_err_set(e, LX_DATA, "part %llu of run %s is missing: there are %llu", ULL(r->most_parts), r->plan.run,
		                  ULL(r->total_parts));
	return 0;
}

static int remember_run(struct lx_reader *r, const char *run, struct lx_err *e)
{
	for (size_t i = 0; i < r->n_runs; i++)
		if (strcmp(r->runs[i], run) == 0)
			return lx_err_set(e, LX_USAGE, "run %s comes back after another run: put the segments of a run side by side", run);
	if (r->n_runs == RUNS_MAX)
		return 0;
	if ((r->n_runs & (r->n_runs - 1)) == 0) {
		char **runs = realloc(r->runs, (r->n_runs ? r->n_runs * 2 : 1) * sizeof(*runs));
		if (!runs)
			return lx_err_sys(e, "runs");
		r->runs = runs;
	}
	r->runs[r->n_runs] = strdup(run);
	return r->runs[r->n_runs] ? (r->n_runs++, 0) : lx_err_sys(e, "runs");
}

/* Note the part of a begin mark; a part read before is skipped whole (a retry wrote it again). */
static int note_part(struct lx_reader *r, const struct lx_plan *p, struct lx_err *e)
{
	if (p->has_part ? r->unparted : r->n_parts != 0)
		return lx_err_set(e, LX_USAGE, "run %s has segments with part numbers and segments without", p->run);
	r->unparted = !p->has_part;
	if (!p->has_part)
		return 0;
	if (p->part >= LX_PARTS_MAX)
		return lx_err_set(e, LX_DATA, "part %llu, over %u", ULL(p->part), LX_PARTS_MAX);
	if (p->part >= r->most_parts) {
		uint8_t *parts = realloc(r->parts, p->part + 1);
		if (!parts)
			return lx_err_sys(e, "parts");
		memset(parts + r->most_parts, 0, p->part + 1 - r->most_parts);
		r->parts = parts;
		r->most_parts = p->part + 1;
	}
	r->skip_segment = r->parts[p->part];
	r->n_parts += !r->parts[p->part];
	r->parts[p->part] = 1;
	return 0;
}

static int end_of_run(struct lx_reader *r, struct lx_err *e)
{
	if (!r->keep_parts && missing_part(r, e) < 0)
		return -1;
	free(r->parts);
	r->parts = NULL;
	r->n_parts = r->most_parts = r->total_parts = 0;
	r->unparted = false;
	return 0;
}

/* ---- marks ---- */

static void adopt_plan(struct lx_reader *r, const struct lx_plan *p)
{
	if (r->have_plan)
		lx_plan_free(&r->plan);
	r->plan = *p;
	r->have_plan = true;
	memset(&r->counts, 0, sizeof(r->counts));
	for (int d = 0; d < p->n_domains; d++)
		r->depth[d] = p->domains[d].parent < 0 ? 1 : r->depth[p->domains[d].parent] + 1;
}

static int check_begin(struct lx_reader *r, const struct lx_plan *p, struct lx_err *e)
{
	bool same = r->have_plan && strcmp(r->plan.run, p->run) == 0;
	if (lx_plan_limits(p, &r->limits, e) < 0)
		return -1;
	if (same && lx_plan_agree(&r->plan, p, e) < 0)
		return -1;
	if (!same && ((r->have_plan && end_of_run(r, e) < 0) || remember_run(r, p->run, e) < 0))
		return -1;
	return note_part(r, p, e);
}

static enum lx_event on_begin(struct lx_reader *r, struct lx_span map, struct lx_err *e)
{
	struct lx_plan p;
	if (r->state != WANT_BEGIN)
		return bad(e, "a begin mark inside a segment: the stage before it died, or files were joined that are not whole");
	if (lx_plan_read(&p, map, e) < 0)
		return LX_EV_ERROR;
	r->skip_segment = false;
	if (check_begin(r, &p, e) < 0) {
		lx_plan_free(&p);
		return LX_EV_ERROR;
	}
	adopt_plan(r, &p);
	r->state = IN_SEGMENT;
	return r->skip_segment ? LX_EV_MORE : LX_EV_BEGIN;
}

static int read_uints(struct lx_cur *c, uint64_t *out, uint32_t n)
{
	struct lx_val v;
	if (lx_val_read(c, &v) < 0 || v.type != LX_ARRAY || v.n != n)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (lx_val_read(c, &v) < 0 || v.type != LX_UINT)
			return -1;
		out[i] = v.u;
	}
	return 0;
}

static bool same_counts(const struct lx_counts *c, int d, const uint64_t said[LX_OUTCOMES + 1])
{
	return memcmp(c->items[d], said, sizeof(c->items[d])) == 0 && c->closes[d] == said[LX_OUTCOMES];
}

static int check_end_counts(struct lx_reader *r, struct lx_span map, struct lx_err *e)
{
	struct lx_span s = lx_map_get(map, "counts", 6);
	struct lx_cur c = lx_cur(s);
	struct lx_val v;
	uint64_t said[LX_OUTCOMES + 1];
	if (!s.p || lx_val_read(&c, &v) < 0 || v.type != LX_ARRAY || v.n != (uint32_t)r->plan.n_domains)
		return bad(e, "end mark: no counts for each domain");
	for (int d = 0; d < r->plan.n_domains; d++) {
		if (read_uints(&c, said, LX_OUTCOMES + 1) < 0)
			return bad(e, "end mark: counts that are not five unsigned integers");
		if (!same_counts(&r->counts, d, said))
			return lx_err_set(e, LX_DATA, "end mark: %llu items and %llu closes of %s were written, %llu and %llu arrived",
			                  ULL(said[0] + said[1] + said[2] + said[3]), ULL(said[4]), r->plan.domains[d].name,
			                  ULL(lx_counts_items(&r->counts, d)), ULL(r->counts.closes[d]));
	}
	return 0;
}

/* The last part says how many there are: one more than its own number. */
static int note_total(struct lx_reader *r, struct lx_span map, struct lx_err *e)
{
	uint64_t total;
	if (!lx_map_get(map, "parts", 5).p)
		return 0;
	if (!lx_map_uint(map, "parts", &total) || !r->plan.has_part || total != r->plan.part + 1)
		return bad(e, "end mark: a number of parts that is not its own part number plus 1");
	r->total_parts = total;
	return 0;
}

static enum lx_event on_end(struct lx_reader *r, struct lx_span map, struct lx_err *e)
{
	if (r->state != IN_SEGMENT)
		return bad(e, "an end mark without a begin mark");
	if ((!r->skip_segment && check_end_counts(r, map, e) < 0) || note_total(r, map, e) < 0)
		return LX_EV_ERROR;
	r->state = WANT_BEGIN;
	r->segments++;
	return r->skip_segment ? LX_EV_MORE : LX_EV_END;
}

static enum lx_event on_abort(struct lx_span map, struct lx_err *e)
{
	uint64_t code;
	struct lx_span stage, message;
	if (!lx_map_uint(map, "code", &code) || code < LX_USAGE || code > LX_TIMEOUT || !lx_map_str(map, "stage", &stage) ||
	    !lx_map_str(map, "message", &message))
		return bad(e, "abort mark: code, stage or message is missing");
	lx_err_set(e, (int)code, "%.*s", (int)(message.len < LX_ERR_MAX ? message.len : LX_ERR_MAX), (const char *)message.p);
	snprintf(e->stage, sizeof(e->stage), "%.*s", (int)(stage.len < 63 ? stage.len : 63), (const char *)stage.p);
	e->upstream = true;
	return LX_EV_ERROR;
}

static int read_hint_counts(struct lx_reader *r, struct lx_span s, struct lx_err *e)
{
	struct lx_cur c = lx_cur(s);
	struct lx_val v;
	uint64_t row[LX_OUTCOMES + 2], least = 0;
	if (lx_val_read(&c, &v) < 0 || v.type != LX_ARRAY || v.n > LX_DOMAINS_MAX)
		return bad(e, "hint: counts are not an array of rows");
	for (uint32_t i = 0; i < v.n; i++, least = row[0] + 1) {
		if (read_uints(&c, row, LX_OUTCOMES + 2) < 0 || row[0] >= (uint64_t)r->plan.n_domains)
			return bad(e, "hint: a row of counts is not a domain and five unsigned integers");
		if (row[0] < least)
			return bad(e, "hint: the rows of counts are not in the order of domains");
		memcpy(r->hint.counts.items[row[0]], row + 1, sizeof(r->hint.counts.items[0]));
		r->hint.counts.closes[row[0]] = row[LX_OUTCOMES + 1];
	}
	return 0;
}

static bool fits_tree(const struct lx_reader *r, uint32_t domain, const struct lx_id *id)
{
	return domain < (uint32_t)r->plan.n_domains && id->n == (uint32_t)r->depth[domain];
}

/* An array of [domain, id]; kept, since the bytes of the mark are given up before the caller looks. */
static int read_bars(struct lx_reader *r, struct lx_span bars, struct lx_err *e)
{
	struct lx_cur c = lx_cur(bars);
	struct lx_val v, domain;
	struct lx_id id;
	if (lx_val_read(&c, &v) < 0 || v.type != LX_ARRAY)
		return bad(e, "hint: bars are not an array");
	for (uint32_t i = v.n; i; i--)
		if (lx_val_read(&c, &v) < 0 || v.type != LX_ARRAY || v.n != 2 || lx_val_read(&c, &domain) < 0 ||
		    domain.type != LX_UINT || lx_id_read(&c, LX_ID_MAX, &id) < 0 || domain.u > UINT32_MAX ||
		    !fits_tree(r, (uint32_t)domain.u, &id))
			return bad(e, "hint: a bar is not a domain and an id of it");
	lx_buf_clear(&r->bars);
	lx_buf_span(&r->bars, bars);
	r->hint.bars = lx_buf_view(&r->bars);
	return lx_buf_check(&r->bars, e);
}

static enum lx_event on_hint(struct lx_reader *r, struct lx_span map, struct lx_err *e)
{
	struct lx_val v;
	if (r->state != IN_SEGMENT)
		return bad(e, "a hint outside a segment");
	struct lx_span counts = lx_map_get(map, "counts", 6), bars = lx_map_get(map, "bars", 4);
	memset(&r->hint, 0, sizeof(r->hint));
	r->has_hint = true;
	if (counts.p) {
		r->hint.frame = true;
		r->hint.wide = lx_val_from(lx_map_get(map, "wide", 4), &v) == 0 && v.type == LX_BOOL && v.b;
		return read_hint_counts(r, counts, e) < 0 ? LX_EV_ERROR : LX_EV_MORE;
	}
	r->hint.leave = lx_val_from(lx_map_get(map, "leave", 5), &v) == 0 && v.type == LX_BOOL && v.b;
	if (bars.p && read_bars(r, bars, e) < 0)
		return LX_EV_ERROR;
	return r->skip_segment ? LX_EV_MORE : LX_EV_HINT;
}

/* LX_EV_MORE: go on with what follows. */
static enum lx_event on_mark(struct lx_reader *r, struct lx_err *e)
{
	struct lx_span map;
	if (lx_mark_decode(r->scan.body, &map, e) < 0)
		return LX_EV_ERROR;
	if (r->has_hint && r->hint.frame)
		return bad(e, "a hint that announces a frame is followed by a mark");
	r->has_hint = false;
	switch (r->scan.magic) {
	case LX_MARK_BEGIN:
		return on_begin(r, map, e);
	case LX_MARK_END:
		return on_end(r, map, e);
	case LX_MARK_ABORT:
		return on_abort(map, e);
	case LX_MARK_HINT:
		return on_hint(r, map, e);
	}
	return lx_err_set(e, LX_DATA, "a mark of unknown kind %u", r->scan.magic);
}

/* ---- frames and records ---- */

static enum lx_event on_frame(struct lx_reader *r, struct lx_err *e)
{
	if (r->state != IN_SEGMENT)
		return bad(e, "a data frame without a begin mark before it");
	if (r->skip_segment) {
		consume(r);
		r->has_hint = false;
		return LX_EV_MORE;
	}
	if (!(r->has_hint && r->hint.frame))
		r->has_hint = false;
	r->has_frame = true;
	r->opened = false;
	r->pos = 0;
	return LX_EV_FRAME;
}

const struct lx_scan *lx_reader_frame(const struct lx_reader *r, struct lx_span *bytes)
{
	*bytes = (struct lx_span){ r->in.p + r->at, r->scan.size };
	return &r->scan;
}

int lx_reader_open_frame(struct lx_reader *r, struct lx_span *content, struct lx_err *e)
{
	return lx_frame_open(r->codec, &r->scan, r->in.p + r->at, r->limits.frame, content, e);
}

static int open_frame(struct lx_reader *r, struct lx_err *e)
{
	if (lx_reader_open_frame(r, &r->content, e) < 0)
		return -1;
	if (!r->content.len)
		return bad(e, "an empty frame");
	r->opened = true;
	r->wide = false;
	for (int d = 0; d < r->plan.n_domains; d++) {
		memset(r->in_frame.items[d], 0, sizeof(r->in_frame.items[d]));
		r->in_frame.closes[d] = 0;
	}
	return 0;
}

static int check_cause(struct lx_reader *r, const struct lx_rec *rec, struct lx_err *e)
{
	struct lx_cause c;
	if (!rec->cause.p || lx_cause_read(rec->cause, &c) < 0)
		return 0;
	if (!fits_tree(r, c.anchor_domain, &c.anchor) || !fits_tree(r, c.origin_domain, &c.origin))
		return bad(e, "the anchor or origin of the cause does not fit the domain tree");
	if (c.anchor_domain != c.origin_domain || !lx_id_eq(&c.anchor, &c.origin))
		r->wide = true;
	return 0;
}

static int check_place(struct lx_reader *r, const struct lx_rec *rec, struct lx_err *e)
{
	if (rec->domain >= (uint32_t)r->plan.n_domains)
		return lx_err_set(e, LX_DATA, "domain %u of %d", rec->domain, r->plan.n_domains);
	const struct lx_domain *d = &r->plan.domains[rec->domain];
	bool close = rec->kind == LX_CLOSE;
	if (close && rec->domain == 0)
		return bad(e, "a close of the root domain");
	if (rec->id.n != (uint32_t)(r->depth[rec->domain] - close))
		return lx_err_set(e, LX_DATA, "an id of %u numbers in domain %s", rec->id.n, d->name);
	if (d->gathered)
		return lx_err_set(e, LX_DATA, "a record of domain %s, which has been gathered", d->name);
	return rec->cause.p ? check_cause(r, rec, e) : 0;
}

/* At the end of an opened frame: did its hint tell the truth? */
static int check_hint(struct lx_reader *r, struct lx_err *e)
{
	if (!r->has_hint)
		return 0;
	for (int d = 0; d < r->plan.n_domains; d++) {
		const struct lx_counts *h = &r->hint.counts;
		if (memcmp(h->items[d], r->in_frame.items[d], sizeof(h->items[d])) || h->closes[d] != r->in_frame.closes[d])
			return lx_err_set(e, LX_DATA, "the hint of this frame does not tell what is in it (domain %s)",
			                  r->plan.domains[d].name);
	}
	if (r->wide && !r->hint.wide)
		return bad(e, "the hint of this frame hides a cause with a wide anchor");
	return 0;
}

static int next_rec(struct lx_reader *r, struct lx_rec *rec, struct lx_err *e)
{
	size_t used;
	if (!r->opened && open_frame(r, e) < 0)
		return -1;
	if (r->pos == r->content.len)
		return 0;
	r->record++;
	if (lx_rec_parse(r->content.p + r->pos, r->content.len - r->pos, &r->limits, rec, &used, e) < 0 ||
	    check_place(r, rec, e) < 0)
		return -1;
	r->pos += used;
	lx_counts_rec(&r->in_frame, rec);
	lx_counts_rec(&r->counts, rec);
	if (r->pos == r->content.len && check_hint(r, e) < 0)
		return -1;
	return 1;
}

int lx_reader_rec(struct lx_reader *r, struct lx_rec *rec, struct lx_err *e)
{
	int got = next_rec(r, rec, e);
	if (got < 0)
		fail(r, e);
	return got;
}

/* What the caller did not look at is still counted: by the hint if it was forwarded unopened, else record by record. */
static int finish_frame(struct lx_reader *r, struct lx_err *e)
{
	struct lx_rec rec;
	int got = 0;
	if (!r->opened && r->has_hint) {
		lx_counts_add(&r->counts, &r->hint.counts);
		for (int d = 0; d < r->plan.n_domains; d++)
			r->record += lx_counts_items(&r->hint.counts, d) + r->hint.counts.closes[d];
	} else {
		while ((got = next_rec(r, &rec, e)) > 0)
			;
	}
	if (got < 0)
		return -1;
	consume(r);
	r->has_frame = r->has_hint = false;
	return 0;
}

/* ---- events ---- */

/* The source has ended well: go on with the next of a chain. 1, 0, -1. */
static int change_source(struct lx_reader *r, struct lx_err *e)
{
	const char *name;
	int got = r->next_source ? r->next_source(r->next_ctx, &r->fd, &name, e) : 0;
	if (got <= 0)
		return got;
	free(r->name);
	r->name = strdup(name);
	if (!r->name)
		return lx_err_sys(e, "%s", name);
	r->eof = false;
	r->offset = r->record = r->segments = 0;
	return 1;
}

bool lx_reader_foreign(const struct lx_reader *r)
{
	const uint8_t *p = r->in.p + r->at;
	size_t n = r->in.len - r->at;
	return !r->offset && n && ((*p & 0xf0) != 0x50 || memcmp(p + 1, "\x2a\x4d\x18", n > 4 ? 3 : n - 1) != 0);
}

#define FOREIGN "not an lx stream (lx-in makes one)"

static enum lx_event on_eof(struct lx_reader *r, struct lx_err *e)
{
	bool nothing = r->offset == 0 && r->in.len == r->at;
	if (r->state == WANT_BEGIN && r->in.len == r->at && r->segments) {
		int more = change_source(r, e);
		if (more)
			return more < 0 ? LX_EV_ERROR : LX_EV_MORE;
		if (end_of_run(r, e) < 0)
			return LX_EV_ERROR;
		r->state = AT_EOF;
		return LX_EV_EOF;
	}
	return bad(e, lx_reader_foreign(r) ? FOREIGN : nothing ? "truncated: no bytes at all (the stage before it did not start, or died)"
	                      : "truncated: it ends without an end mark (the stage before it died, or the file was cut)");
}

/* What comes first is text, JSON, an archive: the stage that makes a stream of it is missing. */
static int scan(struct lx_reader *r, struct lx_err *e)
{
	if (lx_frame_scan(&r->scan, r->in.p + r->at, r->in.len - r->at, r->limits.frame, e) == 0)
		return 0;
	return lx_reader_foreign(r) ? lx_err_prefix(e, FOREIGN) : -1;
}

static enum lx_event step(struct lx_reader *r, struct lx_err *e)
{
	if (r->has_frame && finish_frame(r, e) < 0)
		return LX_EV_ERROR;
	if (r->has_hint && !r->hint.frame)
		r->has_hint = false;
	for (;;) {
		if (r->in.len > r->at && scan(r, e) < 0)
			return LX_EV_ERROR;
		if (r->in.len == r->at || r->scan.what == LX_SCAN_MORE)
			return r->eof ? on_eof(r, e) : LX_EV_MORE;
		enum lx_event ev;
		if (r->scan.what == LX_SCAN_FRAME) {
			ev = on_frame(r, e);
		} else {
			ev = on_mark(r, e);
			if (ev != LX_EV_ERROR)
				consume(r);
		}
		if (ev != LX_EV_MORE)
			return ev;
	}
}

enum lx_event lx_reader_next(struct lx_reader *r, struct lx_err *e)
{
	if (r->state == AT_EOF)
		return LX_EV_EOF;
	if (r->state == BROKEN) {
		if (e->code == LX_OK)
			*e = r->broken;
		return LX_EV_ERROR;
	}
	enum lx_event ev = step(r, e);
	return ev == LX_EV_ERROR ? fail(r, e) : ev;
}

enum lx_event lx_reader_wait(struct lx_reader *r, struct lx_err *e)
{
	for (;;) {
		enum lx_event ev = lx_reader_next(r, e);
		if (ev != LX_EV_MORE)
			return ev;
		int rc = lx_reader_fill(r, e);
		if (rc == LX_IO_AGAIN)
			return LX_EV_MORE;
		if (rc < 0)
			return LX_EV_ERROR;
	}
}

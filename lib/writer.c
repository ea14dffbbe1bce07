#include "stream.h"

#include <stdlib.h>

#define HINT_MIN 4096u        /* content bytes: below, a hint saves nobody anything */
#define SEND_MIN (64u << 10) /* encoded bytes: closed frames wait for so many, or for lx_writer_send; a pipe's usual room */

/* A part of the open frame: `len` bytes at ref, or at offset `off` of the frame buffer. */
struct lx_piece {
	const uint8_t *ref;
	size_t off, len;
};

enum lx_packing lx_packing_for(int fd)
{
	return lx_io_is_file(fd) ? LX_ZSTD : LX_RAW;
}

int lx_writer_init(struct lx_writer *w, int fd, const struct lx_limits *l, struct lx_err *e)
{
	memset(w, 0, sizeof(*w));
	w->fd = fd;
	w->limits = *l;
	w->level = 1;
	if (fd >= 0 && lx_io_is_terminal(fd))
		return lx_err_set(e, LX_USAGE, "records are not written to a terminal: redirect the output, or add | lx-cat --json");
	lx_io_widen(fd);
	w->codec = lx_codec_new(e);
	w->in_frame = calloc(1, sizeof(*w->in_frame));
	if (!w->codec || !w->in_frame) {
		lx_writer_release(w);
		return lx_err_sys(e, "stream");
	}
	return 0;
}

void lx_writer_release(struct lx_writer *w)
{
	lx_codec_free(w->codec);
	lx_buf_free(&w->out);
	lx_buf_free(&w->frame);
	free(w->pieces);
	free(w->iov);
	free(w->in_frame);
	memset(w, 0, sizeof(*w));
	w->fd = -1;
}

/* ---- the way out ---- */

/* Send what is encoded, unless the owner does the sending. */
int lx_writer_send(struct lx_writer *w, struct lx_err *e)
{
	if (lx_buf_check(&w->out, e) < 0)
		return -1;
	if (w->fd < 0 || !w->out.len)
		return 0;
	lx_beat_lock(w->beat);
	int rc = lx_io_write(w->fd, w->out.p, w->out.len, e);
	lx_beat_unlock(w->beat);
	lx_buf_clear(&w->out);
	return rc;
}

/* A frame has been closed: many small ones go out together. */
static int sent_enough(struct lx_writer *w, struct lx_err *e)
{
	return w->out.len >= SEND_MIN ? lx_writer_send(w, e) : lx_buf_check(&w->out, e);
}

/* Whether a frame of n bytes more is still too little to send. */
static bool waits(const struct lx_writer *w, size_t n)
{
	return w->fd < 0 || w->out.len + n < SEND_MIN;
}

/* An encoded frame from elsewhere. */
static int send_frame(struct lx_writer *w, struct lx_span bytes, struct lx_err *e)
{
	if (waits(w, bytes.len)) {
		lx_buf_span(&w->out, bytes);
		return lx_buf_check(&w->out, e);
	}
	if (lx_buf_check(&w->out, e) < 0)
		return -1;
	struct iovec v[2] = { { w->out.p, w->out.len }, { (void *)bytes.p, bytes.len } };
	lx_buf_clear(&w->out);
	lx_beat_lock(w->beat);
	int rc = lx_io_writev(w->fd, v, 2, e);
	lx_beat_unlock(w->beat);
	return rc;
}

static int send_mark(struct lx_writer *w, enum lx_mark m, struct lx_buf *map, struct lx_err *e)
{
	int rc = lx_buf_check(map, e);
	if (rc == 0 && map->len + 3 > LX_MARK_MAX)
		rc = lx_err_set(e, LX_DATA, "a mark of %zu bytes, over %u", map->len, LX_MARK_MAX);
	if (rc == 0) {
		lx_mark_encode(&w->out, m, lx_buf_view(map));
		rc = lx_writer_send(w, e);
	}
	lx_buf_free(map);
	return rc;
}

int lx_writer_begin(struct lx_writer *w, const struct lx_plan *p, struct lx_err *e)
{
	struct lx_buf map = { 0 };
	if (lx_writer_close(w, e) < 0)
		return -1;
	w->packing = p->packing;
	w->n_domains = p->n_domains;
	memset(&w->counts, 0, sizeof(w->counts));
	lx_plan_pack(&map, p);
	return send_mark(w, LX_MARK_BEGIN, &map, e);
}

/* ---- the open frame ---- */

static struct lx_piece *new_piece(struct lx_writer *w, struct lx_err *e)
{
	if (w->n_pieces == w->cap_pieces) {
		size_t cap = w->cap_pieces ? w->cap_pieces * 2 : 16;
		struct lx_piece *p = realloc(w->pieces, cap * sizeof(*p));
		if (p)
			w->pieces = p;
		struct iovec *v = realloc(w->iov, cap * sizeof(*v));
		if (v)
			w->iov = v;
		if (!p || !v) {
			lx_err_sys(e, "frame");
			return NULL;
		}
		w->cap_pieces = cap;
	}
	return &w->pieces[w->n_pieces++];
}

static int append_copy(struct lx_writer *w, struct lx_span s, struct lx_err *e)
{
	struct lx_piece *last = w->n_pieces ? &w->pieces[w->n_pieces - 1] : NULL;
	size_t off = w->frame.len;
	lx_buf_span(&w->frame, s);
	if (w->frame.failed)
		return lx_buf_check(&w->frame, e);
	if (last && !last->ref) {
		last->len += s.len;
		return 0;
	}
	struct lx_piece *p = new_piece(w, e);
	if (!p)
		return -1;
	*p = (struct lx_piece){ NULL, off, s.len };
	return 0;
}

/* Nothing follows the last piece where it lies: if it is small, it is copied to the others. */
static int settle_last(struct lx_writer *w, struct lx_err *e)
{
	struct lx_piece *last = w->n_pieces ? &w->pieces[w->n_pieces - 1] : NULL;
	if (!last || !last->ref || last->len >= LX_WRITER_REF_MIN)
		return 0;
	struct lx_span s = { last->ref, last->len };
	w->n_pieces--;
	return append_copy(w, s, e);
}

static int append(struct lx_writer *w, struct lx_span s, bool ref, struct lx_err *e)
{
	struct lx_piece *last = w->n_pieces ? &w->pieces[w->n_pieces - 1] : NULL;
	/* Neighbours in the reader's frame stay one piece. */
	if (ref && last && last->ref && last->ref + last->len == s.p) {
		last->len += s.len;
		return 0;
	}
	if (settle_last(w, e) < 0)
		return -1;
	if (!ref)
		return append_copy(w, s, e);
	struct lx_piece *p = new_piece(w, e);
	if (!p)
		return -1;
	*p = (struct lx_piece){ s.p, 0, s.len };
	return 0;
}

static bool has_wide_cause(const struct lx_rec *r)
{
	struct lx_cause c;
	return r->cause.p && lx_cause_read(r->cause, &c) == 0 &&
	       !(c.anchor_domain == c.origin_domain && lx_id_eq(&c.anchor, &c.origin));
}

/* Room for a record of `len` bytes: a frame that it would take over its limit is closed first. */
static int make_room(struct lx_writer *w, size_t len, struct lx_err *e)
{
	if (len > w->limits.record)
		return lx_err_set(e, LX_DATA, "a record of %zu bytes, over %llu (--max-record)", len,
		                  (unsigned long long)w->limits.record);
	if (len > w->limits.frame)
		return lx_err_set(e, LX_DATA, "a record of %zu bytes, over a frame's %llu (--max-frame)", len,
		                  (unsigned long long)w->limits.frame);
	return w->bytes + len > w->limits.frame ? lx_writer_close(w, e) : 0;
}

static int add(struct lx_writer *w, const struct lx_rec *r, bool ref, struct lx_err *e)
{
	if (make_room(w, r->raw.len, e) < 0 || append(w, r->raw, ref, e) < 0)
		return -1;
	w->bytes += r->raw.len;
	w->records++;
	lx_counts_rec(&w->counts, r);
	lx_counts_rec(w->in_frame, r);
	w->wide = w->wide || has_wide_cause(r);
	return 0;
}

int lx_writer_add_item(struct lx_writer *w, uint32_t domain, struct lx_span head, struct lx_span payload, struct lx_err *e)
{
	if (make_room(w, head.len + payload.len, e) < 0 || append(w, head, false, e) < 0 ||
	    append(w, payload, payload.len >= LX_WRITER_REF_MIN, e) < 0)
		return -1;
	w->bytes += head.len + payload.len;
	w->records++;
	w->counts.items[domain][LX_PRESENT]++;
	w->in_frame->items[domain][LX_PRESENT]++;
	return 0;
}

int lx_writer_add(struct lx_writer *w, const struct lx_rec *r, struct lx_err *e)
{
	return add(w, r, false, e);
}

int lx_writer_add_ref(struct lx_writer *w, const struct lx_rec *r, struct lx_err *e)
{
	return add(w, r, true, e);
}

int lx_writer_add_buf(struct lx_writer *w, struct lx_buf *b, struct lx_err *e)
{
	struct lx_rec r;
	size_t used;
	if (lx_buf_check(b, e) < 0)
		return -1;
	if (lx_rec_parse(b->p, b->len, &w->limits, &r, &used, e) < 0)
		return lx_err_prefix(e, "a record being written");
	int rc = add(w, &r, false, e);
	lx_buf_clear(b);
	return rc;
}

/* [domain, present, dropped, failed, suppressed, closes] for each domain that occurs. */
static void pack_hint_counts(struct lx_buf *b, const struct lx_counts *c, int n_domains)
{
	uint32_t n = 0;
	for (int d = 0; d < n_domains; d++)
		n += lx_counts_items(c, d) || c->closes[d];
	lx_pack_cstr(b, "counts");
	lx_pack_array(b, n);
	for (int d = 0; d < n_domains; d++) {
		if (!lx_counts_items(c, d) && !c->closes[d])
			continue;
		lx_pack_array(b, 6);
		lx_pack_uint(b, (uint64_t)d);
		for (int o = 0; o < LX_OUTCOMES; o++)
			lx_pack_uint(b, c->items[d][o]);
		lx_pack_uint(b, c->closes[d]);
	}
}

static void encode_frame_hint(struct lx_buf *out, const struct lx_counts *c, int n_domains, bool wide)
{
	struct lx_buf map = { 0 };
	lx_pack_map(&map, 1 + wide);
	pack_hint_counts(&map, c, n_domains);
	if (wide) {
		lx_pack_cstr(&map, "wide");
		lx_pack_bool(&map, true);
	}
	if (map.failed)
		out->failed = true;
	else
		lx_mark_encode(out, LX_MARK_HINT, lx_buf_view(&map));
	lx_buf_free(&map);
}

static int write_frame(struct lx_writer *w, struct lx_err *e)
{
	for (size_t i = 0; i < w->n_pieces; i++) {
		const struct lx_piece *p = &w->pieces[i];
		w->iov[i] = (struct iovec){ p->ref ? (void *)p->ref : w->frame.p + p->off, p->len };
	}
	if (w->bytes >= HINT_MIN)
		encode_frame_hint(&w->out, w->in_frame, w->n_domains, w->wide);
	if (lx_buf_check(&w->out, e) < 0)
		return -1;
	if (w->packing != LX_ZSTD && !waits(w, w->bytes)) {
		lx_beat_lock(w->beat);
		int rc = lx_frame_writev(w->codec, w->packing, w->fd, lx_buf_view(&w->out), w->iov, (int)w->n_pieces, e);
		lx_beat_unlock(w->beat);
		lx_buf_clear(&w->out);
		return rc;
	}
	if (lx_frame_encode(w->codec, w->packing, w->level, w->iov, (int)w->n_pieces, &w->out, e) < 0)
		return -1;
	return sent_enough(w, e);
}

int lx_writer_close(struct lx_writer *w, struct lx_err *e)
{
	if (!w->records)
		return 0;
	int rc = write_frame(w, e);
	lx_buf_clear(&w->frame);
	w->n_pieces = 0;
	w->bytes = 0;
	w->records = 0;
	w->wide = false;
	/* Only the domains in use are non-zero. */
	memset(w->in_frame->items, 0, sizeof(w->in_frame->items[0]) * (size_t)w->n_domains);
	memset(w->in_frame->closes, 0, sizeof(w->in_frame->closes[0]) * (size_t)w->n_domains);
	return rc;
}

int lx_writer_flush(struct lx_writer *w, struct lx_err *e)
{
	return lx_writer_close(w, e) < 0 ? -1 : lx_writer_send(w, e);
}

/* ---- frames and marks that are not made of records ---- */

/* Whether an encoded frame of the reader can go out as it is. */
static bool fits_packing(const struct lx_writer *w, const struct lx_scan *s)
{
	return w->packing == LX_RAW || (s->checked && (w->packing == LX_CHECKED || !s->raw));
}

int lx_writer_forward(struct lx_writer *w, struct lx_reader *r, struct lx_err *e)
{
	struct lx_span bytes, content;
	const struct lx_scan *s;
	const struct lx_hint *h = lx_reader_hint(r);
	if (lx_writer_close(w, e) < 0)
		return -1;
	lx_counts_add(&w->counts, &h->counts);
	encode_frame_hint(&w->out, &h->counts, w->n_domains, h->wide);
	s = lx_reader_frame(r, &bytes);
	if (fits_packing(w, s))
		return send_frame(w, bytes, e);
	if (lx_reader_open_frame(r, &content, e) < 0)
		return -1;
	struct iovec v = { (void *)content.p, content.len };
	if (lx_frame_encode(w->codec, w->packing, w->level, &v, 1, &w->out, e) < 0)
		return -1;
	return sent_enough(w, e);
}

int lx_writer_hint(struct lx_writer *w, struct lx_span bars, struct lx_err *e)
{
	struct lx_buf map = { 0 };
	lx_pack_map(&map, bars.p != NULL);
	if (bars.p) {
		lx_pack_cstr(&map, "bars");
		lx_buf_span(&map, bars);
	}
	return send_mark(w, LX_MARK_HINT, &map, e);
}

void lx_hint_leave(struct lx_buf *b)
{
	struct lx_buf map = { 0 };
	lx_pack_map(&map, 1);
	lx_pack_cstr(&map, "leave");
	lx_pack_bool(&map, true);
	if (map.failed)
		b->failed = true;
	else
		lx_mark_encode(b, LX_MARK_HINT, lx_buf_view(&map));
	lx_buf_free(&map);
}

int lx_writer_end(struct lx_writer *w, uint64_t parts, struct lx_err *e)
{
	struct lx_buf map = { 0 };
	if (lx_writer_close(w, e) < 0)
		return -1;
	lx_pack_map(&map, 1 + (parts != 0));
	lx_pack_cstr(&map, "counts");
	lx_pack_array(&map, (uint32_t)w->n_domains);
	for (int d = 0; d < w->n_domains; d++) {
		lx_pack_array(&map, LX_OUTCOMES + 1);
		for (int o = 0; o < LX_OUTCOMES; o++)
			lx_pack_uint(&map, w->counts.items[d][o]);
		lx_pack_uint(&map, w->counts.closes[d]);
	}
	if (parts) {
		lx_pack_cstr(&map, "parts");
		lx_pack_uint(&map, parts);
	}
	return send_mark(w, LX_MARK_END, &map, e);
}

int lx_writer_abort(struct lx_writer *w, int code, const char *stage, const char *message, struct lx_err *e)
{
	struct lx_buf map = { 0 };
	if (lx_writer_close(w, e) < 0)
		return -1;
	lx_pack_map(&map, 3);
	lx_pack_cstr(&map, "code");
	lx_pack_uint(&map, (uint64_t)code);
	lx_pack_cstr(&map, "stage");
	lx_pack_cstr(&map, stage);
	lx_pack_cstr(&map, "message");
	lx_pack_cstr(&map, message);
	return send_mark(w, LX_MARK_ABORT, &map, e);
}

/* stream: a reader and a writer of lx streams (lx-stream(5)).
 *
 * Reader: feed it with lx_reader_fill (one read(2) each), take events with lx_reader_next. It never
 * reads unless told to, so the same reader serves a blocking loop and an epoll loop. It checks
 * everything the format promises: marks in order, limits, checksums, hints that tell the truth, end
 * counts, parts. Order of events of a segment:
 *     BEGIN (FRAME (records)* | HINT)* END ... EOF
 * A second segment of the same run may follow: BEGIN again. After an error or an abort mark the
 * reader stays in error. Frames are the unit of trust: what a cut or damaged frame held is not
 * handed out, all frames before it are.
 *
 * Writer: records are gathered into a frame, frames go out when the caller closes them. It counts
 * what it writes by domain and outcome and puts the sums in the end mark.
 */
#ifndef LX_STREAM_H
#define LX_STREAM_H

#include "beat.h"
#include "frame.h"
#include "io.h"

#define LX_PARTS_MAX (1u << 20) /* parts of a run */
#define LX_FRAME_TARGET (128u << 10) /* a frame nothing else closes is closed at this many bytes */

/* Records by domain and outcome; closes apart. */
struct lx_counts {
	uint64_t items[LX_DOMAINS_MAX][LX_OUTCOMES];
	uint64_t closes[LX_DOMAINS_MAX];
};
void lx_counts_add(struct lx_counts *to, const struct lx_counts *more);
static inline void lx_counts_rec(struct lx_counts *c, const struct lx_rec *r)
{
	if (r->kind == LX_CLOSE)
		c->closes[r->domain]++;
	else
		c->items[r->domain][r->outcome]++;
}
uint64_t lx_counts_items(const struct lx_counts *c, int domain); /* all outcomes */

/* A hint: what the next frame holds, or (no frame announced) a beat or barriers. */
struct lx_hint {
	bool frame;              /* counts below announce the next frame */
	struct lx_counts counts;
	bool wide;               /* some cause in it has an anchor other than its origin */
	bool leave;              /* a worker wants to go: nothing more for it, please */
	struct lx_span bars;     /* array of [domain, id]; p == NULL: none */
};

enum lx_event {
	LX_EV_ERROR = -1,
	LX_EV_MORE = 0, /* needs bytes: lx_reader_fill */
	LX_EV_BEGIN,    /* lx_reader_plan */
	LX_EV_FRAME,    /* a frame is at hand: lx_reader_rec until 0, or lx_writer_forward, or nothing (skip it) */
	LX_EV_HINT,     /* a hint that announces no frame: lx_reader_hint (beats, barriers) */
	LX_EV_END,      /* end mark of a segment, counts checked */
	LX_EV_EOF,      /* true end: at least one segment, all parts seen */
};

struct lx_reader;

/* `name` is what messages call the source ("stdin"). The fd is not closed. NULL with LX_SYSTEM. */
struct lx_reader *lx_reader_new(int fd, const char *name, const struct lx_limits *l, struct lx_err *e);
void lx_reader_free(struct lx_reader *r);
/* Several sources, read as if joined end to end: when one has ended where a stream may end, `next` is asked for another
 * descriptor, and what messages call it: 1; 0: there is none; -1. Each must hold a whole segment at least. The last
 * one is not closed, nor those before it. */
void lx_reader_chain(struct lx_reader *r, int (*next)(void *ctx, int *fd, const char **name, struct lx_err *e), void *ctx);

/* One read(2), only after LX_EV_MORE. 1: bytes or end of file arrived; LX_IO_AGAIN; -1. May block: poll
 * first where that matters. */
int lx_reader_fill(struct lx_reader *r, struct lx_err *e);
/* The next event that the bytes at hand give. Truncation (end of file without end mark), an abort
 * mark (e->upstream, its code, stage and message) and malformed input are LX_EV_ERROR. */
enum lx_event lx_reader_next(struct lx_reader *r, struct lx_err *e);
/* What came first is neither a mark nor the first bytes of one. */
bool lx_reader_foreign(const struct lx_reader *r);
/* lx_reader_next, filling while it wants more; LX_EV_MORE only when a stop signal came. */
enum lx_event lx_reader_wait(struct lx_reader *r, struct lx_err *e);

/* Of the last BEGIN; valid until the next. */
const struct lx_plan *lx_reader_plan(const struct lx_reader *r);
/* Number of parts of the run, once the end mark that says it was read; else 0. */
uint64_t lx_reader_parts(const struct lx_reader *r);
/* The same when the part at hand is the one that says it; else 0. */
uint64_t lx_reader_last(const struct lx_reader *r);
/* Parts are handed on as parts: whether all are there is for a later reader to see. */
void lx_reader_keep_parts(struct lx_reader *r);
/* Of the last FRAME (NULL: it had none) or HINT. */
const struct lx_hint *lx_reader_hint(const struct lx_reader *r);
/* Next record of the frame at hand: 1, 0 at its end, -1. Views stay valid until the next lx_reader_next. */
int lx_reader_rec(struct lx_reader *r, struct lx_rec *rec, struct lx_err *e);
/* The frame at hand as it came: its encoded bytes, and what the scan found. */
const struct lx_scan *lx_reader_frame(const struct lx_reader *r, struct lx_span *bytes);
/* Its content as one span of whole records, unparsed. */
int lx_reader_open_frame(struct lx_reader *r, struct lx_span *content, struct lx_err *e);
/* Counts of everything read in this segment so far. */
const struct lx_counts *lx_reader_counts(const struct lx_reader *r);
/* Where the reader is, for messages: "stdin: record 4127 at 0x9f3a10". */
void lx_reader_where(const struct lx_reader *r, char *out, size_t size);

#define LX_WRITER_REF_MIN (16u << 10) /* bytes: a payload that is smaller is copied by lx_writer_add_item */

struct lx_piece;

struct lx_writer {
	int fd; /* -1: encode into `out` only; the caller sends it */
	enum lx_packing packing;
	struct lx_beat *beat;  /* set by the owner while another thread may write to fd; NULL: none does */
	int level;             /* of LX_ZSTD, 1..19; set by the owner, default 1 */
	struct lx_limits limits;
	struct lx_counts counts; /* of the segment, flushed or not */
	struct lx_buf out;       /* encoded bytes not written yet */
	/* the open frame */
	struct lx_buf frame;     /* records copied in */
	struct lx_piece *pieces; /* runs of `frame` and referenced spans, in order */
	size_t n_pieces, cap_pieces;
	struct iovec *iov;
	size_t bytes;            /* content bytes, referenced ones included */
	uint64_t records;
	struct lx_counts *in_frame;
	bool wide;
	struct lx_codec *codec;
	int n_domains;
};

/* Packing where nobody asked for one: LX_ZSTD on a regular file (bytes rest there), else LX_RAW. */
enum lx_packing lx_packing_for(int fd);

/* A writer on fd, which is not closed. LX_USAGE on a terminal: records are never written to one. */
int lx_writer_init(struct lx_writer *w, int fd, const struct lx_limits *l, struct lx_err *e);
void lx_writer_release(struct lx_writer *w);

/* Begin a segment: writes the mark at once. Packing is taken from the plan. */
int lx_writer_begin(struct lx_writer *w, const struct lx_plan *p, struct lx_err *e);
/* Append one whole encoded record; copied. Refuses records over the limits the way a reader would. */
int lx_writer_add(struct lx_writer *w, const struct lx_rec *r, struct lx_err *e);
/* The same without copying: r->raw must stay where it is until the frame is closed. Records that follow each other there
 * are written from where they lie. */
int lx_writer_add_ref(struct lx_writer *w, const struct lx_rec *r, struct lx_err *e);
/* Append a present item that is not a root and whose bytes are `head` followed by `payload`; the payload is
 * not copied and must stay where it is until the frame is closed. */
int lx_writer_add_item(struct lx_writer *w, uint32_t domain, struct lx_span head, struct lx_span payload, struct lx_err *e);
/* Append a record built in `b` (parses it for the counts) and clear b. */
int lx_writer_add_buf(struct lx_writer *w, struct lx_buf *b, struct lx_err *e);
/* Whether the open frame has reached LX_FRAME_TARGET. */
static inline bool lx_writer_full(const struct lx_writer *w)
{
	return w->bytes >= LX_FRAME_TARGET;
}
/* Whether there is anything to flush. */
static inline bool lx_writer_waits(const struct lx_writer *w)
{
	return w->records || w->out.len;
}
/* Close the open frame; nothing when it is empty. Small closed frames wait in `out` and are written together. */
int lx_writer_close(struct lx_writer *w, struct lx_err *e);
/* Write what is closed: to be called before any wait. */
int lx_writer_send(struct lx_writer *w, struct lx_err *e);
/* Both. */
int lx_writer_flush(struct lx_writer *w, struct lx_err *e);
/* Write the reader's frame at hand unopened (only when it has a hint, from which it is counted). */
int lx_writer_forward(struct lx_writer *w, struct lx_reader *r, struct lx_err *e);
/* A beat (bars.p == NULL) or barriers for a worker. */
int lx_writer_hint(struct lx_writer *w, struct lx_span bars, struct lx_err *e);
/* "Nothing more for me, please": what a worker says that wants to go. Appended to b. */
void lx_hint_leave(struct lx_buf *b);
/* Close the frame and write the end mark with the counts. parts: number of parts, 0 when not in parts. */
int lx_writer_end(struct lx_writer *w, uint64_t parts, struct lx_err *e);
/* Close the frame and write an abort mark. `stage`: where it began. */
int lx_writer_abort(struct lx_writer *w, int code, const char *stage, const char *message, struct lx_err *e);

#endif

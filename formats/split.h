/* split: a stream of bytes cut into pieces, as it arrives.
 *
 *   lines        at \n, which is dropped (\r is data); a last line without \n counts
 *   nul          at \0, likewise
 *   delim:BYTES  at a delimiter of 1 to 64 bytes, likewise: a delimiter at the very end makes no empty last piece.
 *                Escapes \\ \a \b \e \f \n \r \t \v \0 \xNN (pdftotext parts pages by \f)
 *   jsonl        one JSON text a line (json.h), blank lines skipped; a piece is an encoded value
 *   netpbm       images one after the other: P1 to P6 and PAM (P7), with comments. After a plain image (P1 to P3)
 *                white space is skipped; after a raw one the next begins at once
 *   png          images one after the other, walked chunk by chunk to IEND
 *   files        not cut from bytes: what a command leaves in its directory (files.h)
 *
 * The bytes stay the caller's. It shows a window that begins with the first byte not yet cut, and takes pieces
 * until there are no more in it; pieces are views of the window (nothing is copied, except the values of jsonl).
 * What was examined before is not examined again, so windows may grow byte by byte:
 *
 *     struct lx_buf in = { 0 };
 *     do {
 *             n = lx_io_read(fd, lx_buf_room(&in, 65536), 65536, e);        (checks left out)
 *             in.len += n;
 *             lx_split_window(s, lx_buf_view(&in), n == 0);
 *             while ((rc = lx_split_next(s, &piece, e)) == LX_SPLIT_PIECE)
 *                     use(piece);
 *             lx_split_rest(s, &in);
 *     } while (rc == LX_SPLIT_MORE);
 *
 * A caller never holds more than max_piece bytes and one read.
 */
#ifndef LX_SPLIT_H
#define LX_SPLIT_H

#include "json.h"

#define LX_SPLIT_DELIM_MAX 64

enum lx_split_format {
	LX_SPLIT_LINES,
	LX_SPLIT_NUL,
	LX_SPLIT_DELIM,
	LX_SPLIT_JSONL,
	LX_SPLIT_NETPBM,
	LX_SPLIT_PNG,
	LX_SPLIT_FILES, /* for lx_files_list; lx_split_new refuses it */
};

/* A parsed -s argument. */
struct lx_split_spec {
	enum lx_split_format format;
	uint8_t delim[LX_SPLIT_DELIM_MAX];
	size_t n_delim;
};

/* -1 with LX_USAGE: "-s pgn: unknown format; known are lines, ..." */
int lx_split_parse(const char *arg, struct lx_split_spec *spec, struct lx_err *e);

struct lx_split_conf {
	uint64_t max_piece; /* bytes; more is `oversize` */
	unsigned max_depth; /* jsonl: as in struct lx_json */
	bool tags;          /* jsonl: as in struct lx_json */
};

enum lx_piece_kind {
	LX_PIECE_TEXT,  /* lines, nul, delim: str when UTF-8, else bin */
	LX_PIECE_BYTES, /* netpbm, png, files: bin */
	LX_PIECE_VALUE, /* jsonl: an encoded msgpack value */
};

struct lx_split_piece {
	struct lx_span bytes;
	enum lx_piece_kind kind;
};

/* Append the piece as one msgpack value. */
void lx_split_pack(struct lx_buf *out, const struct lx_split_piece *piece);

struct lx_split;

/* NULL: LX_SYSTEM, or LX_USAGE for `files`. */
struct lx_split *lx_split_new(const struct lx_split_spec *spec, const struct lx_split_conf *conf, struct lx_err *e);
void lx_split_free(struct lx_split *s);
/* Begin another input, keeping memory. */
void lx_split_reset(struct lx_split *s);

/* Show the bytes not cut so far: those lx_split_left counted, followed by new ones. They must stay where they are
 * until the next lx_split_window. eof: no more will come. */
void lx_split_window(struct lx_split *s, struct lx_span bytes, bool eof);

enum {
	LX_SPLIT_MORE = 0,  /* nothing whole is left in this window */
	LX_SPLIT_PIECE = 1, /* valid until the next lx_split_next (jsonl) or lx_split_window (others) */
	LX_SPLIT_END = 2,   /* end of file, all bytes cut */
};

/* The next piece. -1: LX_SYSTEM, or LX_DATA with a short type from lx_split_type and one line in e
 * ("image 3: truncated after 1017 of 8215 bytes"); a bad splitter stays bad until reset. */
int lx_split_next(struct lx_split *s, struct lx_split_piece *piece, struct lx_err *e);

/* Type of the failure: "bad-json", "bad-netpbm", "bad-png", "oversize"; NULL when it was none of the data. */
const char *lx_split_type(const struct lx_split *s);

/* Bytes at the end of the window that are not cut. */
size_t lx_split_left(const struct lx_split *s);
/* Move them to the front of the buffer that was shown as the window. */
void lx_split_rest(const struct lx_split *s, struct lx_buf *in);

#endif

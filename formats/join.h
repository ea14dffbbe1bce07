/* join: pieces put together again (lx-gather -s), one at a time, so that a join of any size needs no memory.
 *
 *   concat  the bytes of the pieces, one after the other; a piece that is neither str nor bin is `bad-field`
 *   lines   each piece and a newline, unless it ends in one; an empty piece is an empty line. A piece that is
 *           neither str nor bin is written as JSON, so that maps become JSON lines
 *   array   not made of bytes: the command collects the values
 */
#ifndef LX_JOIN_H
#define LX_JOIN_H

#include "buf.h"

enum lx_join_format { LX_JOIN_ARRAY, LX_JOIN_CONCAT, LX_JOIN_LINES };

/* -1 with LX_USAGE: "-s csv: unknown format; known are array, concat, lines". */
int lx_join_parse(const char *arg, enum lx_join_format *format, struct lx_err *e);

struct lx_join {
	enum lx_join_format format; /* concat or lines */
	uint64_t max_bytes; /* of the result; more is `oversize` */
	uint64_t bytes;     /* joined so far */
	bool text;          /* no piece was bin and every str was UTF-8: the result is a str */
	const char *type;   /* of a failure: "oversize", "bad-field"; else NULL */
	struct lx_buf json; /* scratch */
};

void lx_join_init(struct lx_join *j, enum lx_join_format format, uint64_t max_bytes);
void lx_join_release(struct lx_join *j);

/* Append the next piece, one encoded msgpack value, to out. -1: LX_DATA with j->type, nothing appended; or
 * LX_SYSTEM. */
int lx_join_add(struct lx_join *j, struct lx_span value, struct lx_buf *out, struct lx_err *e);
/* The same, written to a descriptor, blocking and without copying. */
int lx_join_write(struct lx_join *j, struct lx_span value, int fd, struct lx_err *e);

#endif

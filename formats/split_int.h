/* split_int: between split.c and the formats that have a file of their own; nobody else includes it. */
#ifndef LX_SPLIT_INT_H
#define LX_SPLIT_INT_H

#include "split.h"

enum split_step {
	SPLIT_BAD = -1,  /* split_bad was called */
	SPLIT_MORE = 0,  /* not whole yet; s->seen says what need not be looked at again */
	SPLIT_PIECE = 1, /* whole: s->len bytes of the s->total that are used up */
	SPLIT_SKIP = 2,  /* s->total bytes that belong to no piece */
};

/* One format. p: the first byte not cut, n > 0 bytes from there. */
struct split_format {
	const char *name, *noun;
	enum lx_piece_kind kind;
	enum split_step (*step)(struct lx_split *s, const uint8_t *p, size_t n);
	/* The input ends here and step wanted more. NULL: what is left is the last piece. */
	enum split_step (*finish)(struct lx_split *s, size_t n);
};

enum netpbm_phase { NETPBM_MAGIC, NETPBM_HEADER, NETPBM_PAM, NETPBM_RAW, NETPBM_BITS, NETPBM_NUMBERS };

/* Where in an image the netpbm parser is. */
struct netpbm {
	enum netpbm_phase phase;
	uint8_t kind;        /* '1' .. '7' */
	bool comment, digits; /* inside one */
	uint64_t number;     /* digits so far */
	unsigned fields;     /* header: numbers read */
	uint64_t width, height, depth, maxval;
	uint64_t samples;    /* plain: still to come */
	uint64_t size;       /* raw: bytes of the whole image */
	char line[80];       /* PAM: the header line at hand, cut */
	size_t line_len;     /* its true length */
	unsigned have;       /* PAM: bits of the fields read */
};

struct lx_split {
	struct lx_split_spec spec;
	struct lx_split_conf conf;
	const struct split_format *format;
	struct lx_span window;
	bool eof;
	size_t at;           /* of the first byte not cut */
	size_t seen;         /* bytes from there that step has looked at */
	size_t len, total;   /* of the piece step found */
	uint64_t index;      /* of the piece at hand, from 1; jsonl: of the line */
	const char *type;    /* of a failure */
	struct lx_err why;
	/* delim: how much of the delimiter matches, and what still matches when the next byte does not */
	size_t matched;
	uint8_t fallback[LX_SPLIT_DELIM_MAX];
	struct netpbm netpbm;
	bool after_plain;    /* netpbm: the image before was plain */
	size_t chunk;        /* png: where the next chunk begins */
	struct lx_json json;
	struct lx_buf value; /* jsonl: the piece */
};

/* Record why the input is bad, "NOUN INDEX: " before it. */
__attribute__((format(printf, 3, 4))) enum split_step split_bad(struct lx_split *s, const char *type,
                                                                const char *fmt, ...);
enum split_step split_oversize(struct lx_split *s);

enum split_step split_netpbm(struct lx_split *s, const uint8_t *p, size_t n);
enum split_step split_netpbm_finish(struct lx_split *s, size_t n);
enum split_step split_png(struct lx_split *s, const uint8_t *p, size_t n);
enum split_step split_png_finish(struct lx_split *s, size_t n);

#endif

/* frame: zstd frames and skippable frames, as bytes. The only module that knows zstd.
 *
 * A stream is a row of frames. Data frames decompress to whole records; skippable frames carry
 * marks and hints. Raw and checked frames are written and read here without libzstd: magic, a
 * header with the single-segment flag clear, raw blocks of at most 128 KiB, and for checked frames
 * the low 32 bits of XXH64 of the content (RFC 8878, section 3.1.1). Compressed frames go through
 * libzstd with one context kept for the life of the object.
 */
#ifndef LX_FRAME_H
#define LX_FRAME_H

#include "lineage.h"

#include <sys/uio.h>

#define LX_BLOCK_MAX (128u << 10)
#define LX_WINDOW_MAX (8u << 20)
#define LX_MARK_MAX (16u << 20) /* bytes of a mark's or hint's payload */

/* The skippable magics 0x184D2A50 + n in use. */
enum lx_mark { LX_MARK_BEGIN = 1, LX_MARK_END = 2, LX_MARK_ABORT = 3, LX_MARK_HINT = 4 };
#define LX_STREAM_VERSION 1

/* What the bytes at the start of `in` are. */
struct lx_scan {
	enum { LX_SCAN_MORE, LX_SCAN_SKIP, LX_SCAN_FRAME } what; /* MORE: need bytes */
	size_t need;         /* MORE: at least this many bytes must be there in all before another look pays */
	size_t size;         /* whole encoded frame, header and checksum included */
	unsigned magic;      /* SKIP: low nibble of the magic */
	struct lx_span body; /* SKIP: the payload */
	bool raw;            /* FRAME: all blocks are raw */
	bool checked;        /* FRAME: a content checksum follows */
	size_t content;      /* FRAME: decompressed bytes known without decoding; all of them when raw */
	size_t first_block;  /* FRAME: offset of the first block header */
	/* progress of a frame that is not whole yet, so that no block header is looked at twice */
	size_t at, blocks;
	uint32_t block_max;  /* the smaller of window and LX_BLOCK_MAX */
	bool started;
};

/* Look at n bytes. Start with a zeroed scan; on MORE call again with the same scan and more bytes
 * (the same bytes first). -1 with LX_DATA: bad magic, reserved bits set, a window over 8 MiB, a
 * single-segment frame, a dictionary, content over max_content ("--max-frame"). */
int lx_frame_scan(struct lx_scan *s, const uint8_t *p, size_t n, uint64_t max_content, struct lx_err *e);

struct lx_codec;
struct lx_codec *lx_codec_new(struct lx_err *e);
void lx_codec_free(struct lx_codec *c);

/* The content of a whole frame of s->size bytes at p. Raw frames are closed up in place (p is
 * written to) and *content points into p; compressed ones are decoded into memory of the codec, valid
 * until the next call. The checksum is checked. A declared size is never believed: output stops
 * at max_content. -1 with LX_DATA. */
int lx_frame_open(struct lx_codec *c, const struct lx_scan *s, uint8_t *p, uint64_t max_content,
                  struct lx_span *content, struct lx_err *e);

/* Encode one frame whose content is the n pieces of `v` in order and append it to `out`. Frames that
 * do not shrink are stored raw (a sample is tried first, so that they cost no CPU). */
int lx_frame_encode(struct lx_codec *c, enum lx_packing packing, int level, const struct iovec *v, int n,
                    struct lx_buf *out, struct lx_err *e);

/* Write `before` (encoded marks; may be empty) and one raw or checked frame in one writev, large pieces from where they lie. */
int lx_frame_writev(struct lx_codec *c, enum lx_packing packing, int fd, struct lx_span before, const struct iovec *v,
                    int n, struct lx_err *e);

/* Append a skippable frame with payload "lx", version, map. */
void lx_mark_encode(struct lx_buf *out, enum lx_mark m, struct lx_span map);
/* The map of a mark whose payload is `body`: -1 with LX_DATA (not ours, not one whole map) or LX_VERSION. */
int lx_mark_decode(struct lx_span body, struct lx_span *map, struct lx_err *e);

#endif

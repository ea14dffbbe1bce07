#include "frame.h"
#include "io.h"

#include <stdlib.h>
#include <xxhash.h>
#include <zstd.h>

#define ULL(x) ((unsigned long long)(x))
#define MAGIC 0xFD2FB528u
#define SKIP_MAGIC 0x184D2A50u
#define FHD_CHECKSUM 0x04
#define WINDOW_128K 0x38 /* exponent 7: 2^(10+7) bytes */
#define HEADER_SIZE 6
#define SAMPLE 8192 /* bytes, at four places */

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_le32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* ---- looking ---- */

static int more(struct lx_scan *s, size_t need)
{
	s->what = LX_SCAN_MORE;
	s->need = need;
	return 0;
}

static int scan_skippable(struct lx_scan *s, const uint8_t *p, size_t n, struct lx_err *e)
{
	if (n < 8)
		return more(s, 8);
	size_t len = le32(p + 4);
	if (len > LX_MARK_MAX)
		return lx_err_set(e, LX_DATA, "a mark of %zu bytes, over %u", len, LX_MARK_MAX);
	if (n < 8 + len)
		return more(s, 8 + len);
	s->what = LX_SCAN_SKIP;
	s->magic = le32(p) & 15;
	s->size = 8 + len;
	s->body = (struct lx_span){ p + 8, len };
	return 0;
}

static int scan_header(struct lx_scan *s, const uint8_t *p, size_t n, struct lx_err *e)
{
	static const uint8_t size_field[4] = { 0, 2, 4, 8 };
	if (n < HEADER_SIZE)
		return more(s, HEADER_SIZE);
	uint8_t fhd = p[4];
	if (fhd & 0x20)
		return lx_err_set(e, LX_DATA, "a single-segment zstd frame: not written by lx");
	if (fhd & 0x08)
		return lx_err_set(e, LX_DATA, "a zstd frame with its reserved bit set");
	if (fhd & 0x03)
		return lx_err_set(e, LX_DATA, "a zstd frame that needs a dictionary");
	uint64_t base = 1ull << (10 + (p[5] >> 3));
	uint64_t window = base + base / 8 * (p[5] & 7);
	if (window > LX_WINDOW_MAX)
		return lx_err_set(e, LX_DATA, "a zstd window of %llu bytes, over %u", ULL(window), LX_WINDOW_MAX);
	s->block_max = window < LX_BLOCK_MAX ? (uint32_t)window : LX_BLOCK_MAX;
	s->checked = fhd & FHD_CHECKSUM;
	s->raw = true;
	s->first_block = s->at = HEADER_SIZE + size_field[fhd >> 6];
	s->started = true;
	return 0;
}

static int scan_blocks(struct lx_scan *s, const uint8_t *p, size_t n, uint64_t max_content, struct lx_err *e)
{
	for (bool last = false; !last;) {
		if (n < s->at + 3)
			return more(s, s->at + 3);
		uint32_t head = p[s->at] | p[s->at + 1] << 8 | (uint32_t)p[s->at + 2] << 16;
		uint32_t type = head >> 1 & 3, size = head >> 3;
		if (type == 3 || size > s->block_max)
			return lx_err_set(e, LX_DATA, "a damaged zstd block header");
		size_t end = s->at + 3 + (type == 1 ? 1 : size);
		last = head & 1;
		size_t tail = last ? (s->checked ? 4 : 0) : 3;
		if (type != 2 && s->content + size > max_content)
			return lx_err_set(e, LX_DATA, "a frame of over %llu bytes (--max-frame)", ULL(max_content));
		if (end > max_content + max_content / 8 + (64u << 10))
			return lx_err_set(e, LX_DATA, "a frame of over %llu encoded bytes (--max-frame)", ULL(max_content));
		if (n < end + tail)
			return more(s, end + tail);
		s->raw = s->raw && type == 0;
		s->content += type == 2 ? 0 : size;
		s->at = end;
		s->blocks++;
	}
	s->what = LX_SCAN_FRAME;
	s->size = s->at + (s->checked ? 4 : 0);
	return 0;
}

int lx_frame_scan(struct lx_scan *s, const uint8_t *p, size_t n, uint64_t max_content, struct lx_err *e)
{
	if (!s->started) {
		if (n < 4)
			return more(s, 4);
		uint32_t magic = le32(p);
		if ((magic & ~15u) == SKIP_MAGIC)
			return scan_skippable(s, p, n, e);
		if (magic != MAGIC)
			return lx_err_set(e, LX_DATA, "neither a mark nor a zstd frame (first bytes %02x %02x %02x %02x)", p[0],
			                  p[1], p[2], p[3]);
		if (scan_header(s, p, n, e) < 0)
			return -1;
		if (!s->started)
			return 0;
	}
	return scan_blocks(s, p, n, max_content, e);
}

/* ---- opening ---- */

struct lx_codec {
	ZSTD_DCtx *d;
	ZSTD_CCtx *c;
	XXH64_state_t *sum;
	struct lx_buf out;   /* decoded content */
	struct lx_buf heads; /* block headers of a frame being written */
	struct iovec *iov;
	size_t n_iov, cap_iov;
};

struct lx_codec *lx_codec_new(struct lx_err *e)
{
	struct lx_codec *c = calloc(1, sizeof(*c));
	if (!c)
		lx_err_sys(e, "frame");
	return c;
}

void lx_codec_free(struct lx_codec *c)
{
	if (!c)
		return;
	ZSTD_freeDCtx(c->d);
	ZSTD_freeCCtx(c->c);
	XXH64_freeState(c->sum);
	lx_buf_free(&c->out);
	lx_buf_free(&c->heads);
	free(c->iov);
	free(c);
}

static int zstd_failed(struct lx_err *e, int code, const char *what, size_t rc)
{
	return lx_err_set(e, code, "%s: %s", what, ZSTD_getErrorName(rc));
}

/* Move the blocks of a raw frame together. A frame of one block lies right already. */
static int open_raw(const struct lx_scan *s, uint8_t *p, struct lx_span *content, struct lx_err *e)
{
	uint8_t *to = p + s->first_block + 3;
	size_t at = s->first_block, n = 0;
	for (size_t i = 0; i < s->blocks; i++) {
		size_t size = (p[at] | p[at + 1] << 8 | (size_t)p[at + 2] << 16) >> 3;
		if (i)
			memmove(to + n, p + at + 3, size);
		n += size;
		at += 3 + size;
	}
	*content = (struct lx_span){ to, n };
	if (s->checked && (uint32_t)XXH64(to, n, 0) != le32(p + s->size - 4))
		return lx_err_set(e, LX_DATA, "the frame's checksum does not match its content");
	return 0;
}

static int open_zstd(struct lx_codec *c, const struct lx_scan *s, const uint8_t *p, uint64_t max_content,
                     struct lx_span *content, struct lx_err *e)
{
	if (!c->d) {
		c->d = ZSTD_createDCtx();
		if (!c->d)
			return lx_err_sys(e, "zstd");
		ZSTD_DCtx_setParameter(c->d, ZSTD_d_windowLogMax, 23);
	}
	ZSTD_DCtx_reset(c->d, ZSTD_reset_session_only);
	ZSTD_inBuffer in = { p, s->size, 0 };
	lx_buf_clear(&c->out);
	for (size_t left = 1; left;) {
		if (!lx_buf_room(&c->out, LX_BLOCK_MAX))
			return lx_buf_check(&c->out, e);
		ZSTD_outBuffer out = { c->out.p, c->out.cap, c->out.len };
		left = ZSTD_decompressStream(c->d, &out, &in);
		if (ZSTD_isError(left))
			return zstd_failed(e, LX_DATA, "damaged zstd frame", left);
		if (out.pos == c->out.len && in.pos == in.size && left)
			return lx_err_set(e, LX_DATA, "damaged zstd frame: it does not end where its blocks do");
		c->out.len = out.pos;
		if (c->out.len > max_content)
			return lx_err_set(e, LX_DATA, "a frame of over %llu bytes (--max-frame)", ULL(max_content));
	}
	*content = lx_buf_view(&c->out);
	return 0;
}

int lx_frame_open(struct lx_codec *c, const struct lx_scan *s, uint8_t *p, uint64_t max_content,
                  struct lx_span *content, struct lx_err *e)
{
	return s->raw ? open_raw(s, p, content, e) : open_zstd(c, s, p, max_content, content, e);
}

/* ---- writing raw frames ---- */

static int add_iov(struct lx_codec *c, const void *p, size_t n, struct lx_err *e)
{
	if (c->n_iov == c->cap_iov) {
		size_t cap = c->cap_iov ? c->cap_iov * 2 : 64;
		struct iovec *iov = realloc(c->iov, cap * sizeof(*iov));
		if (!iov)
			return lx_err_sys(e, "frame");
		c->iov = iov;
		c->cap_iov = cap;
	}
	c->iov[c->n_iov++] = (struct iovec){ (void *)p, n };
	return 0;
}

static size_t total_len(const struct iovec *v, int n)
{
	size_t total = 0;
	for (int i = 0; i < n; i++)
		total += v[i].iov_len;
	return total;
}

static uint32_t checksum(struct lx_codec *c, const struct iovec *v, int n)
{
	if (n == 1)
		return (uint32_t)XXH64(v[0].iov_base, v[0].iov_len, 0);
	if (!c->sum)
		c->sum = XXH64_createState();
	XXH64_reset(c->sum, 0);
	for (int i = 0; i < n; i++)
		XXH64_update(c->sum, v[i].iov_base, v[i].iov_len);
	return (uint32_t)XXH64_digest(c->sum);
}

static void put_block_head(uint8_t *p, size_t size, bool last)
{
	uint32_t head = (uint32_t)size << 3 | last;
	p[0] = (uint8_t)head;
	p[1] = (uint8_t)(head >> 8);
	p[2] = (uint8_t)(head >> 16);
}

/* The frame as pieces in c->iov: header and block headers from c->heads, content where it lies. */
static int lay_out_raw(struct lx_codec *c, bool checked, const struct iovec *v, int n, struct lx_err *e)
{
	size_t left = total_len(v, n), blocks = left ? (left + LX_BLOCK_MAX - 1) / LX_BLOCK_MAX : 1, off = 0;
	lx_buf_clear(&c->heads);
	uint8_t *h = lx_buf_room(&c->heads, HEADER_SIZE + 3 * blocks + 4);
	if (!h)
		return lx_buf_check(&c->heads, e);
	put_le32(h, MAGIC);
	h[4] = checked ? FHD_CHECKSUM : 0;
	h[5] = WINDOW_128K;
	uint8_t *start = h;
	h += HEADER_SIZE;
	for (size_t b = 0; b < blocks; b++) {
		size_t size = left < LX_BLOCK_MAX ? left : LX_BLOCK_MAX;
		left -= size;
		put_block_head(h, size, left == 0);
		h += 3;
		if (add_iov(c, start, (size_t)(h - start), e) < 0)
			return -1;
		start = h;
		c->heads.len = (size_t)(h - c->heads.p);
		while (size) {
			size_t part = v->iov_len - off < size ? v->iov_len - off : size;
			if (part && add_iov(c, (uint8_t *)v->iov_base + off, part, e) < 0)
				return -1;
			size -= part;
			off += part;
			if (off == v->iov_len) {
				v++;
				off = 0;
			}
		}
	}
	return 0;
}

static int add_checksum(struct lx_codec *c, const struct iovec *v, int n, struct lx_err *e)
{
	uint8_t *at = c->heads.p + c->heads.len;
	put_le32(at, checksum(c, v, n));
	return add_iov(c, at, 4, e);
}

static int lay_out(struct lx_codec *c, bool checked, struct lx_span before, const struct iovec *v, int n, struct lx_err *e)
{
	c->n_iov = 0;
	if (before.len && add_iov(c, before.p, before.len, e) < 0)
		return -1;
	if (lay_out_raw(c, checked, v, n, e) < 0)
		return -1;
	return checked ? add_checksum(c, v, n, e) : 0;
}

int lx_frame_writev(struct lx_codec *c, enum lx_packing packing, int fd, struct lx_span before, const struct iovec *v,
                    int n, struct lx_err *e)
{
	if (lay_out(c, packing != LX_RAW, before, v, n, e) < 0)
		return -1;
	return lx_io_writev(fd, c->iov, (int)c->n_iov, e);
}

static int encode_raw(struct lx_codec *c, bool checked, const struct iovec *v, int n, struct lx_buf *out, struct lx_err *e)
{
	if (lay_out(c, checked, (struct lx_span){ 0 }, v, n, e) < 0)
		return -1;
	if (!lx_buf_room(out, total_len(c->iov, (int)c->n_iov)))
		return lx_buf_check(out, e);
	for (size_t i = 0; i < c->n_iov; i++)
		lx_buf_add(out, c->iov[i].iov_base, c->iov[i].iov_len);
	return lx_buf_check(out, e);
}

/* ---- compressing ---- */

/* Copy n bytes from offset `at` of the pieces. */
static void copy_from(const struct iovec *v, int pieces, size_t at, uint8_t *to, size_t n)
{
	for (int i = 0; i < pieces && n; i++) {
		if (at >= v[i].iov_len) {
			at -= v[i].iov_len;
			continue;
		}
		size_t part = v[i].iov_len - at < n ? v[i].iov_len - at : n;
		memcpy(to, (uint8_t *)v[i].iov_base + at, part);
		to += part;
		n -= part;
		at = 0;
	}
}

/* Whether four samples shrink by a sixteenth at least: what does not is not worth the CPU. */
static bool shrinks(ZSTD_CCtx *c, const struct iovec *v, int n, size_t total)
{
	static uint8_t sample[4 * SAMPLE], out[4 * SAMPLE + 1024];
	if (total <= sizeof(sample))
		return true;
	for (size_t i = 0; i < 4; i++)
		copy_from(v, n, (total - SAMPLE) / 3 * i, sample + i * SAMPLE, SAMPLE);
	size_t size = ZSTD_compress2(c, out, sizeof(out), sample, sizeof(sample));
	return !ZSTD_isError(size) && size < sizeof(sample) / 16 * 15;
}

static int open_encoder(struct lx_codec *c, int level, struct lx_err *e)
{
	if (!c->c && !(c->c = ZSTD_createCCtx()))
		return lx_err_sys(e, "zstd");
	ZSTD_CCtx_reset(c->c, ZSTD_reset_session_only);
	ZSTD_CCtx_setParameter(c->c, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(c->c, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setParameter(c->c, ZSTD_c_contentSizeFlag, 0); /* a known size would make small frames single-segment */
	return 0;
}

static int compress_pieces(struct lx_codec *c, const struct iovec *v, int n, struct lx_buf *out, struct lx_err *e)
{
	for (int i = 0; i < n; i++) {
		ZSTD_inBuffer in = { v[i].iov_base, v[i].iov_len, 0 };
		ZSTD_EndDirective mode = i == n - 1 ? ZSTD_e_end : ZSTD_e_continue;
		for (size_t left = 1; mode == ZSTD_e_end ? left != 0 : in.pos < in.size;) {
			if (!lx_buf_room(out, ZSTD_CStreamOutSize()))
				return lx_buf_check(out, e);
			ZSTD_outBuffer o = { out->p, out->cap, out->len };
			left = ZSTD_compressStream2(c->c, &o, &in, mode);
			if (ZSTD_isError(left))
				return zstd_failed(e, LX_SYSTEM, "zstd", left);
			out->len = o.pos;
		}
	}
	return 0;
}

int lx_frame_encode(struct lx_codec *c, enum lx_packing packing, int level, const struct iovec *v, int n,
                    struct lx_buf *out, struct lx_err *e)
{
	size_t total = total_len(v, n), start = out->len;
	if (packing != LX_ZSTD)
		return encode_raw(c, packing == LX_CHECKED, v, n, out, e);
	if (open_encoder(c, level, e) < 0)
		return -1;
	if (shrinks(c->c, v, n, total)) {
		if (open_encoder(c, level, e) < 0 || compress_pieces(c, v, n, out, e) < 0)
			return -1;
		if (out->len - start < total)
			return 0;
		out->len = start;
	}
	return encode_raw(c, true, v, n, out, e);
}

/* ---- marks ---- */

void lx_mark_encode(struct lx_buf *out, enum lx_mark m, struct lx_span map)
{
	uint8_t head[11] = { [8] = 'l', 'x', LX_STREAM_VERSION };
	put_le32(head, SKIP_MAGIC + m);
	put_le32(head + 4, (uint32_t)(map.len + 3));
	lx_buf_add(out, head, sizeof(head));
	lx_buf_span(out, map);
}

int lx_mark_decode(struct lx_span body, struct lx_span *map, struct lx_err *e)
{
	size_t len;
	if (body.len < 3 || body.p[0] != 'l' || body.p[1] != 'x')
		return lx_err_set(e, LX_DATA, "a skippable frame that is no mark of lx");
	if (body.p[2] != LX_STREAM_VERSION)
		return lx_err_set(e, LX_VERSION, "stream version %d: this build knows version %d only", body.p[2], LX_STREAM_VERSION);
	*map = (struct lx_span){ body.p + 3, body.len - 3 };
	struct lx_cur c = lx_cur(*map);
	struct lx_val v;
	if (lx_val_walk(map->p, map->len, 32, &len) != LX_WALK_OK || len != map->len || lx_val_read(&c, &v) < 0 ||
	    v.type != LX_MAP)
		return lx_err_set(e, LX_DATA, "a mark that does not hold one whole map");
	for (uint32_t i = v.n; i; i--) {
		if (lx_val_read(&c, &v) < 0 || v.type != LX_STR)
			return lx_err_set(e, LX_DATA, "a mark with a key that is no string");
		lx_val_skip(&c, NULL);
	}
	return 0;
}

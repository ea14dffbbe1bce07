/* PNG images one after the other (PNG specification, third edition): a signature, then chunks of length, type,
 * data and CRC up to IEND. The CRCs of data are left to whoever decodes the image: here they would cost a pass over
 * every byte, and one damaged image would take those behind it along. IEND's is constant, so it is compared. */
#include "split_int.h"

static const uint8_t signature[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
static const uint8_t end_chunk[12] = { 0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82 };

static bool is_letter(uint8_t c)
{
	c |= 0x20;
	return c >= 'a' && c <= 'z';
}

/* Check the eight bytes at the head of a chunk; *size is set to the bytes of all of it. */
static enum split_step chunk_head(struct lx_split *s, const uint8_t *h, size_t *size)
{
	uint32_t len = (uint32_t)h[0] << 24 | (uint32_t)h[1] << 16 | (uint32_t)h[2] << 8 | h[3];
	bool first = s->chunk == sizeof(signature);
	for (int i = 4; i < 8; i++)
		if (!is_letter(h[i]))
			return split_bad(s, "bad-png", "no chunk at byte %zu", s->chunk);
	if (len > INT32_MAX)
		return split_bad(s, "bad-png", "a chunk of %u bytes at byte %zu", len, s->chunk);
	if (first != (memcmp(h + 4, "IHDR", 4) == 0) || (first && len != 13))
		return split_bad(s, "bad-png", "%s at byte %zu", first ? "no IHDR chunk" : "a second IHDR chunk", s->chunk);
	*size = (size_t)len + 12;
	return SPLIT_MORE;
}

enum split_step split_png(struct lx_split *s, const uint8_t *p, size_t n)
{
	if (s->chunk == 0) {
		if (memcmp(p, signature, n < 8 ? n : 8) != 0)
			return split_bad(s, "bad-png", "no PNG signature");
		if (n < 8)
			return SPLIT_MORE;
		s->chunk = 8;
	}
	while (n >= s->chunk && n - s->chunk >= 8) {
		size_t size = 0;
		const uint8_t *h = p + s->chunk;
		if (chunk_head(s, h, &size) == SPLIT_BAD)
			return SPLIT_BAD;
		bool last = memcmp(h + 4, "IEND", 4) == 0;
		if (last && n - s->chunk < 12)
			return SPLIT_MORE;
		if (last && memcmp(h, end_chunk, 12) != 0)
			return split_bad(s, "bad-png", "damaged IEND chunk at byte %zu", s->chunk);
		s->chunk += size;
		if (s->chunk > s->conf.max_piece)
			return split_oversize(s);
		if (last) {
			s->len = s->total = s->chunk;
			s->chunk = 0;
			return SPLIT_PIECE;
		}
	}
	return SPLIT_MORE;
}

enum split_step split_png_finish(struct lx_split *s, size_t n)
{
	return split_bad(s, "bad-png", "truncated after %zu bytes", n);
}

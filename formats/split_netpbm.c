/* PBM, PGM, PPM, plain and raw, and PAM (netpbm's pages pbm(5) to pam(5)), one image after the other.
 * Comments run from # to the end of the line wherever netpbm's own reader takes them: between and right behind the
 * numbers of a header, and in plain rasters. */
#include "split_int.h"

static const char type[] = "bad-netpbm";

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static enum split_step unexpected(struct lx_split *s, const char *where, uint8_t c)
{
	if (c > 0x20 && c < 0x7f)
		return split_bad(s, type, "'%c' %s", c, where);
	return split_bad(s, type, "byte 0x%02x %s", c, where);
}

static enum split_step piece(struct lx_split *s, size_t len)
{
	s->after_plain = s->netpbm.kind <= '3';
	s->netpbm = (struct netpbm){ 0 };
	s->len = s->total = len;
	return SPLIT_PIECE;
}

/* ---- what a header says ---- */

static bool raster_bytes(const struct netpbm *t, size_t *bytes)
{
	size_t row;
	if (t->kind == '4')
		return lx_size_mul(t->width / 8 + (t->width % 8 != 0), t->height, bytes);
	return lx_size_mul(t->width, t->depth, &row) && lx_size_mul(row, t->maxval > 255 ? 2 : 1, &row) &&
	       lx_size_mul(row, t->height, bytes);
}

/* The header ends before byte `begin`. */
static enum split_step header_done(struct lx_split *s, size_t begin)
{
	struct netpbm *t = &s->netpbm;
	size_t bytes;
	if (!t->width || !t->height || !t->depth)
		return split_bad(s, type, "no pixels: %llu x %llu x %llu", (unsigned long long)t->width,
		                 (unsigned long long)t->height, (unsigned long long)t->depth);
	if (!t->maxval || t->maxval > 65535)
		return split_bad(s, type, "maximum value %llu is not 1 to 65535", (unsigned long long)t->maxval);
	if (t->kind <= '3') {
		if (!lx_size_mul(t->width, t->height, &bytes) || !lx_size_mul(bytes, t->depth, &bytes) ||
		    bytes > s->conf.max_piece) /* a sample is a byte at least */
			return split_oversize(s);
		t->samples = bytes;
		t->phase = t->kind == '1' ? NETPBM_BITS : NETPBM_NUMBERS;
		return SPLIT_MORE;
	}
	if (!raster_bytes(t, &bytes) || !lx_size_add(bytes, begin, &bytes) || bytes > s->conf.max_piece)
		return split_oversize(s);
	t->size = bytes;
	t->phase = NETPBM_RAW;
	return SPLIT_MORE;
}

static enum split_step magic(struct lx_split *s, uint8_t c, size_t i)
{
	struct netpbm *t = &s->netpbm;
	if (i == 0)
		return c == 'P' ? SPLIT_MORE : unexpected(s, "where an image begins", c);
	if (c < '1' || c > '7')
		return unexpected(s, "behind P: only P1 to P7 are known", c);
	t->kind = c;
	t->phase = c == '7' ? NETPBM_PAM : NETPBM_HEADER;
	t->depth = c == '3' || c == '6' ? 3 : 1;
	t->maxval = 1;
	return SPLIT_MORE;
}

/* ---- numbers between white space ---- */

/* Feed one byte: 1 when it ended a number (in t->number), 0, or -1 for a byte that cannot stand here or a number
 * over 32 bits (*big). */
static int number(struct netpbm *t, uint8_t c, bool *big)
{
	*big = false;
	if (t->comment) {
		t->comment = c != '\n' && c != '\r';
	} else if (c >= '0' && c <= '9') {
		t->number = (t->digits ? t->number * 10 : 0) + (c - '0');
		t->digits = true;
		*big = t->number > UINT32_MAX;
		return *big ? -1 : 0;
	} else if (c == '#') {
		t->comment = true;
	} else if (!is_space(c)) {
		return -1;
	}
	/* a comment right behind a number does not end it, the line end behind the comment does */
	int ended = t->digits && !t->comment;
	t->digits = t->digits && t->comment;
	return ended;
}

static enum split_step header(struct lx_split *s, uint8_t c, size_t i)
{
	struct netpbm *t = &s->netpbm;
	bool big;
	if (i == 2 && !is_space(c) && c != '#')
		return unexpected(s, "behind the magic number", c);
	int rc = number(t, c, &big);
	if (rc < 0)
		return big ? split_oversize(s) : unexpected(s, "in the header", c);
	if (rc == 0)
		return SPLIT_MORE;
	uint64_t *to[] = { &t->width, &t->height, &t->maxval };
	*to[t->fields++] = t->number;
	return t->fields == (t->kind == '1' || t->kind == '4' ? 2 : 3) ? header_done(s, i + 1) : SPLIT_MORE;
}

/* ---- PAM ---- */

/* The value of a line like "WIDTH 640", or -1. */
static int64_t pam_value(const char *p)
{
	int64_t v = 0;
	while (is_space((uint8_t)*p))
		p++;
	if (*p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++)
		if ((v = v * 10 + (*p - '0')) > UINT32_MAX)
			return -1;
	while (is_space((uint8_t)*p))
		p++;
	return *p ? -1 : v;
}

/* One whole header line, in t->line; `next` is the byte behind it. */
static enum split_step pam_line(struct lx_split *s, size_t next)
{
	static const char *const names[] = { "WIDTH", "HEIGHT", "DEPTH", "MAXVAL" };
	struct netpbm *t = &s->netpbm;
	uint64_t *to[] = { &t->width, &t->height, &t->depth, &t->maxval };
	char *p = t->line;
	while (is_space((uint8_t)*p))
		p++;
	size_t n = strcspn(p, " \t\v\f\r");
	if (n == 0 || *p == '#' || (n == 8 && memcmp(p, "TUPLTYPE", 8) == 0))
		return SPLIT_MORE;
	if (n == 6 && memcmp(p, "ENDHDR", 6) == 0 && t->have == 15)
		return header_done(s, next);
	for (unsigned f = 0; f < 4; f++) {
		if (strlen(names[f]) != n || memcmp(p, names[f], n) != 0)
			continue;
		int64_t v = t->line_len < sizeof(t->line) ? pam_value(p + n) : -1;
		if (v < 0 || t->have & 1u << f)
			return split_bad(s, type, v < 0 ? "PAM header: bad %s" : "PAM header: %s twice", names[f]);
		*to[f] = (uint64_t)v;
		t->have |= 1u << f;
		return SPLIT_MORE;
	}
	if (n == 6 && memcmp(p, "ENDHDR", 6) == 0)
		return split_bad(s, type, "PAM header without all of WIDTH, HEIGHT, DEPTH, MAXVAL");
	return split_bad(s, type, "PAM header: unknown line '%.20s'", p);
}

static enum split_step pam_header(struct lx_split *s, uint8_t c, size_t i)
{
	struct netpbm *t = &s->netpbm;
	if (i == 2 && c != '\n')
		return unexpected(s, "behind P7", c);
	if (c == '\0')
		return unexpected(s, "in the header", c);
	if (c != '\n') {
		if (t->line_len < sizeof(t->line) - 1)
			t->line[t->line_len] = (char)c;
		t->line_len++;
		return SPLIT_MORE;
	}
	t->line[t->line_len < sizeof(t->line) ? t->line_len : sizeof(t->line) - 1] = '\0';
	enum split_step rc = i == 2 ? SPLIT_MORE : pam_line(s, i + 1);
	t->line_len = 0;
	return rc;
}

/* ---- plain rasters ---- */

/* Bits need no white space between them. */
static enum split_step bit(struct lx_split *s, uint8_t c, size_t i)
{
	struct netpbm *t = &s->netpbm;
	if (t->comment)
		t->comment = c != '\n' && c != '\r';
	else if (c == '#')
		t->comment = true;
	else if (c == '0' || c == '1')
		t->samples--;
	else if (!is_space(c))
		return unexpected(s, "in the raster", c);
	return t->samples ? SPLIT_MORE : piece(s, i + 1);
}

static enum split_step sample(struct lx_split *s, uint8_t c, size_t i)
{
	struct netpbm *t = &s->netpbm;
	bool big;
	int rc = number(t, c, &big);
	if (rc < 0 && !big)
		return unexpected(s, "in the raster", c);
	if (rc < 0 || (rc == 1 && t->number > t->maxval))
		return split_bad(s, type, "a sample over the maximum value %llu", (unsigned long long)t->maxval);
	t->samples -= (unsigned)rc;
	return t->samples ? SPLIT_MORE : piece(s, i + 1);
}

/* ---- */

static enum split_step skip_space(struct lx_split *s, const uint8_t *p, size_t n)
{
	size_t i = 0;
	while (i < n && is_space(p[i]))
		i++;
	s->len = 0;
	s->total = i;
	return SPLIT_SKIP;
}

enum split_step split_netpbm(struct lx_split *s, const uint8_t *p, size_t n)
{
	static enum split_step (*const feed[])(struct lx_split *, uint8_t, size_t) = {
		[NETPBM_MAGIC] = magic, [NETPBM_HEADER] = header,  [NETPBM_PAM] = pam_header,
		[NETPBM_BITS] = bit,    [NETPBM_NUMBERS] = sample,
	};
	struct netpbm *t = &s->netpbm;
	enum split_step rc = SPLIT_MORE;
	if (s->seen == 0 && s->after_plain && is_space(p[0]))
		return skip_space(s, p, n);
	while (rc == SPLIT_MORE && s->seen < n && t->phase != NETPBM_RAW) {
		rc = feed[t->phase](s, p[s->seen], s->seen);
		s->seen++;
	}
	if (t->phase == NETPBM_RAW && rc == SPLIT_MORE && n >= t->size)
		rc = piece(s, t->size);
	return rc;
}

enum split_step split_netpbm_finish(struct lx_split *s, size_t n)
{
	struct netpbm *t = &s->netpbm;
	if (t->phase == NETPBM_NUMBERS && t->samples == 1 && t->digits && t->number <= t->maxval)
		return piece(s, n); /* the end of the file ends the last number */
	if (t->phase == NETPBM_RAW)
		return split_bad(s, type, "truncated after %zu of %llu bytes", n, (unsigned long long)t->size);
	return split_bad(s, type, "truncated after %zu bytes%s", n, t->samples ? "" : ", in the header");
}

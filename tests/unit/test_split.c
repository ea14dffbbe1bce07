/* Splitters: the same pieces whatever the sizes in which the bytes arrive, and a typed failure for what is none. */
#include "tap.h"

#include "files.h"
#include "split.h"
#include "value.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_PIECE 4096

struct bytes {
	const char *p;
	size_t n;
};
#define BYTES(s) { (s), sizeof(s) - 1 }

/* What an input was cut into, as text: "[piece][piece]end" or "[piece]bad-png". */
static struct lx_buf told;
static char message[LX_ERR_MAX];

static void tell_piece(const struct lx_split_piece *p)
{
	lx_buf_byte(&told, '[');
	lx_buf_span(&told, p->bytes);
	lx_buf_byte(&told, ']');
}

/* Take what is whole in the window; the state afterwards. */
static int take(struct lx_split *s)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_split_piece piece;
	int rc;
	while ((rc = lx_split_next(s, &piece, &e)) == LX_SPLIT_PIECE)
		tell_piece(&piece);
	if (rc < 0) {
		CHECK(e.code == LX_DATA && lx_split_type(s));
		lx_buf_str(&told, lx_split_type(s));
		snprintf(message, sizeof(message), "%s", e.msg);
	} else if (rc == LX_SPLIT_END) {
		lx_buf_str(&told, "end");
	}
	return rc;
}

/* Feed in steps of `step` bytes. Every window is a block of its own size, so that a sanitizer sees reads beyond it. */
static const char *cut(struct lx_split *s, struct bytes in, size_t step)
{
	struct lx_buf held = { 0 };
	int rc = LX_SPLIT_MORE;
	lx_buf_clear(&told);
	message[0] = '\0';
	lx_split_reset(s);
	for (size_t at = 0; rc == LX_SPLIT_MORE; at += step) {
		size_t n = at >= in.n ? 0 : in.n - at < step ? in.n - at : step;
		lx_buf_add(&held, in.p + (n ? at : 0), n);
		uint8_t *window = malloc(held.len + 1);
		memcpy(window, held.p ? held.p : window, held.len);
		lx_split_window(s, (struct lx_span){ window, held.len }, n == 0);
		rc = take(s);
		lx_split_rest(s, &held);
		CHECK(held.len <= MAX_PIECE + step);
		free(window);
	}
	lx_buf_free(&held);
	return lx_buf_cstr(&told);
}

static struct lx_split *splitter(const char *arg, uint64_t max_piece)
{
	struct lx_split_spec spec;
	struct lx_split_conf conf = { .max_piece = max_piece, .max_depth = 8 };
	struct lx_err e = LX_ERR_INIT;
	if (lx_split_parse(arg, &spec, &e) < 0) {
		printf("# %s\n", e.msg);
		return NULL;
	}
	return lx_split_new(&spec, &conf, &e);
}

static void check_cut(struct lx_split *s, const char *arg, struct bytes in, const void *want, size_t n, size_t step)
{
	cut(s, in, step);
	bool same = told.len == n && memcmp(told.p, want, n) == 0;
	if (!same)
		printf("# %s of '%.*s' by %zu: '%.*s' (%s), want '%.*s'\n", arg, (int)in.n, in.p, step, (int)told.len,
		       (char *)told.p, message, (int)n, (char *)want);
	CHECK(same);
}

/* Whatever the steps, the pieces are those of the whole: also for the input cut short anywhere. */
static void check_steps(struct lx_split *s, const char *arg, struct bytes in)
{
	struct lx_buf want = { 0 };
	for (size_t n = 0; n <= in.n; n++) {
		struct bytes part = { in.p, n };
		cut(s, part, in.n + 1);
		lx_buf_clear(&want);
		lx_buf_span(&want, lx_buf_view(&told));
		for (size_t step = 1; step <= 5; step += 2)
			check_cut(s, arg, part, want.p, want.len, step);
	}
	lx_buf_free(&want);
}

struct sample {
	const char *arg;
	struct bytes in, want;
};

#define P5(wh, raster) "P5\n" wh "\n255\n" raster
#define PNG_HEAD "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3a\x7e\x9b\x55"
#define PNG_DATA "\0\0\0\4IDATabcdCRC!"
#define PNG_END "\0\0\0\0IEND\xae\x42\x60\x82"

static const struct sample samples[] = {
	{ "lines", BYTES(""), BYTES("end") },
	{ "lines", BYTES("a"), BYTES("[a]end") },
	{ "lines", BYTES("a\n"), BYTES("[a]end") },
	{ "lines", BYTES("a\nbb\n\nc"), BYTES("[a][bb][][c]end") },
	{ "lines", BYTES("\n"), BYTES("[]end") },
	{ "lines", BYTES("a\r\nb\0c\xff\n"), BYTES("[a\r][b\0c\xff]end") },
	{ "nul", BYTES("a b\0c\nd\0"), BYTES("[a b][c\nd]end") },
	{ "nul", BYTES("\0\0x"), BYTES("[][][x]end") },
	{ "delim:\\f", BYTES("p1\n\fp2\n\f"), BYTES("[p1\n][p2\n]end") },
	{ "delim:\\f", BYTES("p1\f\f"), BYTES("[p1][]end") },
	{ "delim:\\f", BYTES("p1\fp2"), BYTES("[p1][p2]end") },
	{ "delim:,", BYTES(",a,"), BYTES("[][a]end") },
	{ "delim:::", BYTES("a::b:c:::d::"), BYTES("[a][b:c][:d]end") },
	{ "delim:aab", BYTES("aaabaabxaaaaab"), BYTES("[a][][xaaa]end") },
	{ "delim:aa", BYTES("aaaaa"), BYTES("[][][a]end") },
	{ "delim:\\r\\n", BYTES("a\r\nb\n\r\r\nc\r"), BYTES("[a][b\n\r][c\r]end") },
	{ "delim:\\x00\\0\\x7F", BYTES("a\0\0\0\x7f" "b"), BYTES("[a\0][b]end") },
	{ "delim:abcabd", BYTES("abcabcabdx"), BYTES("[abc][x]end") },
	{ "jsonl", BYTES(""), BYTES("end") },
	{ "jsonl", BYTES("1\n[2]\n"), BYTES("[\1][\x91\2]end") },
	{ "jsonl", BYTES("\n 1 \r\n\t\n\r\n2"), BYTES("[\1][\2]end") },
	{ "jsonl", BYTES("{\"a\":\"\\n\"}\n"), BYTES("[\x81\xa1" "a\xa1\n]end") },
	{ "jsonl", BYTES("1\n{\n2\n"), BYTES("[\1]bad-json") },
	{ "jsonl", BYTES("1\n[1"), BYTES("[\1]bad-json") },
	{ "jsonl", BYTES("1 2\n"), BYTES("bad-json") },
	{ "jsonl", BYTES("[[[[[[[[1]]]]]]]]\n[[[[[[[[[1]]]]]]]]]\n"), BYTES("[\x91\x91\x91\x91\x91\x91\x91\x91\1]bad-json") },
	{ "netpbm", BYTES(""), BYTES("end") },
	{ "netpbm", BYTES(P5("2 2", "abcd")), BYTES("[" P5("2 2", "abcd") "]end") },
	{ "netpbm", BYTES(P5("2 1", "P5") P5("1 2", "\n\n") P5("1 1", " ")),
	  BYTES("[" P5("2 1", "P5") "][" P5("1 2", "\n\n") "][" P5("1 1", " ") "]end") },
	{ "netpbm", BYTES("P6 1 1 255 rgbP6 1 1 256 rrggbb"), BYTES("[P6 1 1 255 rgb][P6 1 1 256 rrggbb]end") },
	{ "netpbm", BYTES("P4\n9 2\nabcdP4 8 1 x"), BYTES("[P4\n9 2\nabcd][P4 8 1 x]end") },
	{ "netpbm", BYTES("P5#c\n# 9 9\n2#x\n\t1 # y\n\r255#z\nab"), BYTES("[P5#c\n# 9 9\n2#x\n\t1 # y\n\r255#z\nab]end") },
	{ "netpbm", BYTES("P1 3 2 1 0 101 1\n\nP1 1 1 0"), BYTES("[P1 3 2 1 0 101 1][P1 1 1 0]end") },
	{ "netpbm", BYTES("P1\n2 1\n#c 1\n1#x\n0\n"), BYTES("[P1\n2 1\n#c 1\n1#x\n0]end") },
	{ "netpbm", BYTES("P2 2 1 15 7 15\nP2 1 1 9 9"), BYTES("[P2 2 1 15 7 15\n][P2 1 1 9 9]end") },
	{ "netpbm", BYTES("P3 1 1 255 1 22 255 \n P5 1 1 1 x"), BYTES("[P3 1 1 255 1 22 255 ][P5 1 1 1 x]end") },
	{ "netpbm", BYTES("P7\nWIDTH 2\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\nabcdP5 1 1 1 x"),
	  BYTES("[P7\nWIDTH 2\nHEIGHT 1\nDEPTH 2\nMAXVAL 255\nTUPLTYPE GRAYSCALE_ALPHA\nENDHDR\nabcd][P5 1 1 1 x]end") },
	{ "netpbm", BYTES("P7\n# c\n\nDEPTH  1 \nMAXVAL 256\n WIDTH 1\nHEIGHT\t1\nENDHDR\nab"),
	  BYTES("[P7\n# c\n\nDEPTH  1 \nMAXVAL 256\n WIDTH 1\nHEIGHT\t1\nENDHDR\nab]end") },
	{ "netpbm", BYTES(P5("2 2", "abc")), BYTES("bad-netpbm") },
	{ "netpbm", BYTES(P5("1 1", "a") "P5 1"), BYTES("[" P5("1 1", "a") "]bad-netpbm") },
	{ "netpbm", BYTES(P5("1 1", "a") "\n" P5("1 1", "a")), BYTES("[" P5("1 1", "a") "]bad-netpbm") },
	{ "netpbm", BYTES("P5 0 1 255 "), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P5 1 1 0 x"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P5 1 1 65536 x"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P5 -1 1 255 x"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P51 1 255 x"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P8 1 1 255 x"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("Pf 1 1 1 x"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("%PDF-1.5"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P1 1 1 2"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P1 2 1 1"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P2 1 1 9 10"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P2 1 1 9 10 "), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P2 2 1 9 1"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P2 2 1 9 1 "), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P2 1 1 9 x"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P7 WIDTH 1\n"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P7\nWIDTH 1\nHEIGHT 1\nDEPTH 1\nENDHDR\n"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P7\nWIDTH 1\nWIDTH 1\n"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P7\nWIDTH 1x\n"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P7\nWIDTH\n"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P7\nWIDTH 1\0\n"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P7\nCOLOR 1\n"), BYTES("bad-netpbm") },
	{ "netpbm", BYTES("P5 4000 4000 255 "), BYTES("oversize") },
	{ "netpbm", BYTES("P6 4294967295 4294967295 65535 "), BYTES("oversize") },
	{ "netpbm", BYTES("P5 99999999999999999999999999 1 1 "), BYTES("oversize") },
	{ "netpbm", BYTES("P5 18446744073709551617 1 1 x"), BYTES("oversize") },
	{ "netpbm", BYTES("P2 4294967295 4294967295 1 "), BYTES("oversize") },
	{ "netpbm", BYTES("P7\nWIDTH 4294967295\nHEIGHT 4294967295\nDEPTH 4294967295\nMAXVAL 65535\nENDHDR\n"), BYTES("oversize") },
	{ "png", BYTES(""), BYTES("end") },
	{ "png", BYTES(PNG_HEAD PNG_DATA PNG_END), BYTES("[" PNG_HEAD PNG_DATA PNG_END "]end") },
	{ "png", BYTES(PNG_HEAD PNG_END PNG_HEAD PNG_DATA PNG_DATA PNG_END),
	  BYTES("[" PNG_HEAD PNG_END "][" PNG_HEAD PNG_DATA PNG_DATA PNG_END "]end") },
	{ "png", BYTES(PNG_HEAD PNG_DATA), BYTES("bad-png") },
	{ "png", BYTES(PNG_HEAD PNG_END "x"), BYTES("[" PNG_HEAD PNG_END "]bad-png") },
	{ "png", BYTES("\x89PNG\n"), BYTES("bad-png") },
	{ "png", BYTES("\x89PNG\r\n\x1a\n" PNG_DATA), BYTES("bad-png") },
	{ "png", BYTES("\x89PNG\r\n\x1a\n" "\0\0\0\xfIHDR"), BYTES("bad-png") },
	{ "png", BYTES(PNG_HEAD "\0\0\0\rIHDR"), BYTES("bad-png") },
	{ "png", BYTES(PNG_HEAD "\0\0\0\0I3ND"), BYTES("bad-png") },
	{ "png", BYTES(PNG_HEAD "\xff\xff\xff\xffIDAT"), BYTES("bad-png") },
	{ "png", BYTES(PNG_HEAD "\x7f\xff\xff\xffIDAT"), BYTES("oversize") },
	{ "png", BYTES(PNG_HEAD "\0\0\0\0IENDabcd"), BYTES("bad-png") },
	{ "png", BYTES(PNG_HEAD "\0\0\0\1IENDx\xae\x42\x60\x82"), BYTES("bad-png") },
};
#define N_SAMPLES (sizeof(samples) / sizeof(*samples))

static void cuts(void)
{
	for (size_t i = 0; i < N_SAMPLES; i++) {
		const struct sample *t = &samples[i];
		struct lx_split *s = splitter(t->arg, MAX_PIECE);
		check_cut(s, t->arg, t->in, t->want.p, t->want.n, t->in.n + 1);
		lx_split_free(s);
	}
}

static void any_steps_make_the_same_pieces(void)
{
	for (size_t i = 0; i < N_SAMPLES; i++) {
		struct lx_split *s = splitter(samples[i].arg, MAX_PIECE);
		check_steps(s, samples[i].arg, samples[i].in);
		lx_split_free(s);
	}
}

/* A raw image or a PNG is whole with its last byte, not with the first byte of the next. */
static void pieces_leave_at_once(void)
{
	static const struct {
		const char *arg;
		struct bytes in;
	} t[] = {
		{ "lines", BYTES("abc\n") },
		{ "delim:ab", BYTES("xyzab") },
		{ "jsonl", BYTES("{}\n") },
		{ "netpbm", BYTES(P5("2 2", "abcd")) },
		{ "netpbm", BYTES("P1 2 1 10") },
		{ "png", BYTES(PNG_HEAD PNG_DATA PNG_END) },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_split *s = splitter(t[i].arg, MAX_PIECE);
		struct lx_split_piece piece;
		struct lx_err e = LX_ERR_INIT;
		lx_split_window(s, (struct lx_span){ (const uint8_t *)t[i].in.p, t[i].in.n - 1 }, false);
		CHECK(lx_split_next(s, &piece, &e) == LX_SPLIT_MORE && lx_split_left(s) == t[i].in.n - 1);
		lx_split_window(s, (struct lx_span){ (const uint8_t *)t[i].in.p, t[i].in.n }, false);
		CHECK(lx_split_next(s, &piece, &e) == LX_SPLIT_PIECE && lx_split_left(s) == 0);
		if (i != 2)
			CHECK(piece.bytes.p == (const uint8_t *)t[i].in.p); /* a view, no copy */
		CHECK(lx_split_next(s, &piece, &e) == LX_SPLIT_MORE);
		lx_split_free(s);
	}
}

/* Exactly the limit is fine, one more is not, in whatever steps; and never is much more than the limit held. */
static void bounds_pieces(void)
{
	static const struct {
		const char *arg;
		struct bytes fits, over;
		uint64_t max;
	} t[] = {
		{ "lines", BYTES("12345\n12345\n1"), BYTES("12345\n123456\n1"), 5 },
		{ "lines", BYTES("12345"), BYTES("123456"), 5 },
		{ "nul", BYTES("12345\0"), BYTES("123456\0"), 5 },
		{ "delim:abc", BYTES("12345abc123ab"), BYTES("123456abc"), 5 },
		{ "jsonl", BYTES("12345\n"), BYTES("123456\n"), 5 },
		{ "netpbm", BYTES(P5("1 1", "a")), BYTES(P5("2 1", "ab")), 12 },
		{ "netpbm", BYTES("P1 2 1 10"), BYTES("P1 2 1 1 0"), 9 },
		{ "png", BYTES(PNG_HEAD PNG_END), BYTES(PNG_HEAD PNG_DATA PNG_END), 45 },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		for (size_t step = 1; step < 20; step++) {
			struct lx_split *s = splitter(t[i].arg, t[i].max);
			cut(s, t[i].fits, step);
			CHECK(told.len > 3 && memcmp(told.p + told.len - 3, "end", 3) == 0);
			lx_split_free(s);
			s = splitter(t[i].arg, t[i].max);
			cut(s, t[i].over, step);
			CHECK(told.len >= 8 && memcmp(told.p + told.len - 8, "oversize", 8) == 0);
			CHECK(strstr(message, "(--max-record)"));
			lx_split_free(s);
		}
	}
}

static void stays_bad_until_reset(void)
{
	struct lx_split *s = splitter("jsonl", MAX_PIECE);
	struct lx_split_piece piece;
	for (int i = 0; i < 2; i++) {
		struct lx_err e = LX_ERR_INIT;
		lx_split_window(s, lx_span_str("1\n\nx\n3\n"), true);
		CHECK(lx_split_next(s, &piece, &e) == LX_SPLIT_PIECE);
		CHECK(lx_split_next(s, &piece, &e) < 0 && e.code == LX_DATA);
		CHECK(strcmp(e.msg, "line 3 column 1: expected a value, found 'x'") == 0);
		e = (struct lx_err)LX_ERR_INIT;
		CHECK(lx_split_next(s, &piece, &e) < 0 && e.code == LX_DATA);
		CHECK(strcmp(lx_split_type(s), "bad-json") == 0);
		lx_split_reset(s);
		CHECK(lx_split_type(s) == NULL);
	}
	lx_split_free(s);
}

static void says_where(void)
{
	static const struct {
		const char *arg;
		struct bytes in;
		const char *says;
	} t[] = {
		{ "netpbm", BYTES(P5("1 1", "a") P5("2 2", "abc")), "image 2: truncated after 14 of 15 bytes" },
		{ "netpbm", BYTES("P5 1"), "image 1: truncated after 4 bytes, in the header" },
		{ "netpbm", BYTES("hello"), "image 1: 'h' where an image begins" },
		{ "netpbm", BYTES("P5 3 4 70000 x"), "image 1: maximum value 70000 is not 1 to 65535" },
		{ "netpbm", BYTES("P7\nWIDTH 1\nWIDTH 1\n"), "image 1: PAM header: WIDTH twice" },
		{ "png", BYTES(PNG_HEAD PNG_END PNG_HEAD), "image 2: truncated after 33 bytes" },
		{ "png", BYTES("\x89PNG\r\n\x1a\n\0\0\0\xfIHDR"), "image 1: no IHDR chunk at byte 8" },
		{ "png", BYTES(PNG_HEAD "\0\0\0\0????"), "image 1: no chunk at byte 33" },
		{ "jsonl", BYTES("1\n\n[1,]\n"), "line 3 column 4: expected a value, found ']'" },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_split *s = splitter(t[i].arg, MAX_PIECE);
		cut(s, t[i].in, 3);
		if (strcmp(message, t[i].says) != 0)
			printf("# got %s, want %s\n", message, t[i].says);
		CHECK(strcmp(message, t[i].says) == 0);
		lx_split_free(s);
	}
}

static void parses_arguments(void)
{
	static const struct {
		const char *arg, *says; /* says NULL: fine */
	} t[] = {
		{ "lines", NULL },
		{ "files", NULL },
		{ "delim:\\\\\\a\\b\\e\\f\\n\\r\\t\\v\\0\\x1b", NULL },
		{ "delim:1234567890123456789012345678901234567890123456789012345678901234", NULL },
		{ "delim:12345678901234567890123456789012345678901234567890123456789012345", "over 64 bytes" },
		{ "delim:", "needs the delimiter's bytes" },
		{ "delim", "needs the delimiter's bytes" },
		{ "delim:\\q", "unknown escape" },
		{ "delim:a\\", "unknown escape" },
		{ "delim:\\x", "unknown escape" },
		{ "delim:\\x1", "unknown escape" },
		{ "delim:\\xg1", "unknown escape" },
		{ "", "unknown format; known are lines, nul, delim:BYTES, jsonl, netpbm, png, files" },
		{ "pgn", "-s pgn: unknown format" },
		{ "linesx", "unknown format" },
		{ "delim:BYTES", NULL },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_split_spec spec;
		struct lx_err e = LX_ERR_INIT;
		int rc = lx_split_parse(t[i].arg, &spec, &e);
		CHECK((rc == 0) == !t[i].says);
		CHECK(rc == 0 || (e.code == LX_USAGE && strstr(e.msg, t[i].says)));
	}
	struct lx_split_spec spec;
	struct lx_split_conf conf = { .max_piece = 1 };
	struct lx_err e = LX_ERR_INIT;
	CHECK(lx_split_parse("delim:\\\\\\a\\b\\e\\f\\n\\r\\t\\v\\0\\x1b", &spec, &e) == 0);
	CHECK(spec.n_delim == 11 && memcmp(spec.delim, "\\\a\b\033\f\n\r\t\v\0\x1b", 11) == 0);
	CHECK(lx_split_parse("files", &spec, &e) == 0 && spec.format == LX_SPLIT_FILES);
	CHECK(lx_split_new(&spec, &conf, &e) == NULL && e.code == LX_USAGE);
}

static void packs_pieces(void)
{
	static const struct {
		struct lx_split_piece piece;
		struct bytes want;
	} t[] = {
		{ { { (const uint8_t *)"a", 1 }, LX_PIECE_TEXT }, BYTES("\xa1" "a") },
		{ { { (const uint8_t *)"\xff", 1 }, LX_PIECE_TEXT }, BYTES("\xc4\1\xff") },
		{ { { (const uint8_t *)"a", 1 }, LX_PIECE_BYTES }, BYTES("\xc4\1" "a") },
		{ { { (const uint8_t *)"\x91\1", 2 }, LX_PIECE_VALUE }, BYTES("\x91\1") },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_buf b = { 0 };
		lx_split_pack(&b, &t[i].piece);
		CHECK(b.len == t[i].want.n && memcmp(b.p, t[i].want.p, b.len) == 0);
		lx_buf_free(&b);
	}
}

static uint64_t seed = 88172645463325252u;

static size_t rnd(size_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (size_t)(seed >> 11) % below;
}

/* Damage of good samples: any step gives what the whole gives, and nothing reads out of bounds. */
static void damage(void)
{
	size_t bad = 0, fine = 0;
	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < N_SAMPLES; i++) {
			struct lx_split *s = splitter(samples[i].arg, MAX_PIECE);
			size_t n = samples[i].in.n;
			char *p = malloc(n + 1);
			memcpy(p, samples[i].in.p, n);
			for (int k = 0; n && k < 2; k++)
				p[rnd(n)] = "\0\1 \n90P5#\xff\x7f{\""[rnd(13)];
			struct lx_buf want = { 0 };
			cut(s, (struct bytes){ p, n }, n + 1);
			lx_buf_span(&want, lx_buf_view(&told));
			*(message[0] ? &bad : &fine) += 1;
			check_cut(s, samples[i].arg, (struct bytes){ p, n }, want.p, want.len, 1 + rnd(4));
			lx_buf_free(&want);
			free(p);
			lx_split_free(s);
		}
	}
	CHECK(bad > 100 && fine > 100);
}

/* ---- files ---- */

static void natural_order(void)
{
	static const char *const sorted[] = { "", "-", "0", "00", "001", "01", "1", "2", "10", "99999999999999999999998",
		                              "99999999999999999999999", "100000000000000000000000", "a", "a/b", "a/b/c", "a/c",
		                              "a-1", "a1", "a1b", "a01c", "a2", "a10", "b", "page-2.png", "page-2a.png", "page-10.png" };
	size_t n = sizeof(sorted) / sizeof(*sorted);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			int c = lx_natural_cmp(sorted[i], sorted[k]);
			if ((c > 0) - (c < 0) != (i > k) - (i < k))
				printf("# %s and %s: %d\n", sorted[i], sorted[k], c);
			CHECK((c > 0) - (c < 0) == (i > k) - (i < k));
		}
}

static char root[64];

static void put(const char *name)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, name, strlen(name)) == (ssize_t)strlen(name) && close(fd) == 0);
}

static const char *under(const char *name)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void clean(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", root);
	CHECK(system(command) == 0);
}

static void lists_files(void)
{
	static const char *const want[] = { ".hidden", "page-2.png", "page-10.png", "sub/1", "sub/deep/x y\n", "sub-1" };
	struct lx_files f;
	struct lx_err e = LX_ERR_INIT;
	snprintf(root, sizeof(root), "/tmp/lx-test-XXXXXX");
	CHECK(mkdtemp(root) != NULL);
	CHECK(mkdir(under("sub"), 0700) == 0 && mkdir(under("sub/deep"), 0700) == 0 && mkdir(under("empty"), 0700) == 0);
	for (size_t i = 6; i-- > 0;)
		put(want[i]);
	CHECK(symlink("/etc", under("link-to-dir")) == 0 && symlink("page-2.png", under("link")) == 0);
	CHECK(mkfifo(under("fifo"), 0600) == 0);
	CHECK(lx_files_list(root, &f, &e) == 0 && f.n == 6 && f.skipped == 3);
	for (size_t i = 0; i < f.n; i++) {
		char got[64] = "";
		CHECK(strcmp(f.path[i], want[i]) == 0);
		int fd = lx_files_open(root, f.path[i], &e);
		CHECK(fd >= 0 && read(fd, got, sizeof(got) - 1) > 0 && strcmp(got, want[i]) == 0);
		close(fd);
	}
	CHECK(lx_files_open(root, "link", &e) < 0 && e.code == LX_SYSTEM);
	e = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_files_open(root, "fifo", &e) < 0 && e.code == LX_SYSTEM);
	lx_files_free(&f);
	clean();
}

static void bounds_directories(void)
{
	struct lx_files f;
	struct lx_err e = LX_ERR_INIT;
	snprintf(root, sizeof(root), "/tmp/lx-test-XXXXXX");
	CHECK(mkdtemp(root) != NULL);
	int at = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < LX_FILES_DEPTH_MAX + 1; i++) {
		int rc = mkdirat(at, "d", 0700), next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(rc == 0 && next >= 0);
		close(at);
		at = next;
		if (i + 1 == LX_FILES_DEPTH_MAX) {
			CHECK(lx_files_list(root, &f, &e) == 0 && f.n == 0);
			lx_files_free(&f);
		}
	}
	close(at);
	CHECK(lx_files_list(root, &f, &e) < 0 && e.code == LX_DATA);
	lx_files_free(&f);
	clean();
	e = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_files_list(root, &f, &e) < 0 && e.code == LX_SYSTEM && strstr(e.msg, root));
	lx_files_free(&f);
}

int main(void)
{
	RUN(cuts);
	RUN(any_steps_make_the_same_pieces);
	RUN(pieces_leave_at_once);
	RUN(bounds_pieces);
	RUN(stays_bad_until_reset);
	RUN(says_where);
	RUN(parses_arguments);
	RUN(packs_pieces);
	RUN(damage);
	RUN(natural_order);
	RUN(lists_files);
	RUN(bounds_directories);
	lx_buf_free(&told);
	return tap_done();
}

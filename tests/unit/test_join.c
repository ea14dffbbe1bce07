/* Joiners: pieces in, bytes out, bounded and streaming. */
#include "tap.h"

#include "io.h"
#include "join.h"
#include "value.h"

#include <unistd.h>

#define PIECE(s) { (const uint8_t *)(s), sizeof(s) - 1 }

static const struct {
	enum lx_join_format format;
	struct lx_span pieces[5];
	const char *want;
	bool text;
} table[] = {
	{ LX_JOIN_CONCAT, { { 0 } }, "", true },
	{ LX_JOIN_CONCAT, { PIECE("\xa1" "a"), PIECE("\xa0"), PIECE("\xa2" "b\n"), PIECE("\xa1" "c") }, "ab\nc", true },
	{ LX_JOIN_CONCAT, { PIECE("\xa1" "a"), PIECE("\xc4\1" "b") }, "ab", false },
	{ LX_JOIN_CONCAT, { PIECE("\xa1\xc3"), PIECE("\xa1\xa9") }, "\xc3\xa9", false },
	{ LX_JOIN_LINES, { { 0 } }, "", true },
	{ LX_JOIN_LINES, { PIECE("\xa1" "a"), PIECE("\xa2" "b\n"), PIECE("\xa0"), PIECE("\xa1\n"), PIECE("\xa3" "c\nd") },
	  "a\nb\n\n\nc\nd\n", true },
	{ LX_JOIN_LINES, { PIECE("\xc4\2" "a\n"), PIECE("\xc4\1" "b") }, "a\nb\n", false },
	{ LX_JOIN_LINES, { PIECE("\1"), PIECE("\xc0"), PIECE("\x81\xa1" "a\x92\1\xc4\1b"), PIECE("\xcb\x3f\xf8\0\0\0\0\0\0") },
	  "1\nnull\n{\"a\":[1,{\"$bin\":\"Yg==\"}]}\n1.5\n", true },
};

static void joins(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct lx_join j;
		struct lx_buf out = { 0 };
		struct lx_err e = LX_ERR_INIT;
		lx_join_init(&j, table[i].format, 1000);
		for (size_t k = 0; k < 5 && table[i].pieces[k].p; k++)
			CHECK(lx_join_add(&j, table[i].pieces[k], &out, &e) == 0);
		CHECK(lx_span_eq(lx_buf_view(&out), lx_span_str(table[i].want)));
		CHECK(j.bytes == out.len && j.text == table[i].text && !j.type);
		lx_buf_free(&out);
		lx_join_release(&j);
	}
}

static void writes_the_same_to_a_descriptor(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct lx_join j;
		struct lx_buf out = { 0 };
		struct lx_err e = LX_ERR_INIT;
		int fd[2];
		CHECK(lx_io_pipe(fd, &e) == 0);
		lx_join_init(&j, table[i].format, 1000);
		for (size_t k = 0; k < 5 && table[i].pieces[k].p; k++)
			CHECK(lx_join_write(&j, table[i].pieces[k], fd[1], &e) == 0);
		close(fd[1]);
		CHECK(lx_io_slurp(fd[0], &out, 1000, "", &e) == 0);
		close(fd[0]);
		CHECK(lx_span_eq(lx_buf_view(&out), lx_span_str(table[i].want)) && j.bytes == out.len);
		lx_buf_free(&out);
		lx_join_release(&j);
	}
}

static void refuses(void)
{
	static const struct {
		enum lx_join_format format;
		struct lx_span piece;
		const char *type;
	} t[] = {
		{ LX_JOIN_CONCAT, PIECE("\1"), "bad-field" },
		{ LX_JOIN_CONCAT, PIECE("\x90"), "bad-field" },
		{ LX_JOIN_CONCAT, PIECE("\xc0"), "bad-field" },
		{ LX_JOIN_CONCAT, PIECE("\xa5" "a"), "bad-field" },
		{ LX_JOIN_LINES, PIECE("\x92\1"), "bad-field" },
		{ LX_JOIN_LINES, PIECE(""), "bad-field" },
		{ LX_JOIN_CONCAT, PIECE("\xa9" "123456789"), "oversize" },
		{ LX_JOIN_LINES, PIECE("\xa8" "12345678"), "oversize" },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_join j;
		struct lx_buf out = { 0 };
		struct lx_err e = LX_ERR_INIT;
		lx_join_init(&j, t[i].format, 8);
		CHECK(lx_join_add(&j, t[i].piece, &out, &e) < 0 && e.code == LX_DATA && out.len == 0);
		CHECK(j.bytes == 0 && j.type && strcmp(j.type, t[i].type) == 0);
		lx_buf_free(&out);
		lx_join_release(&j);
	}
}

static void bounds_the_sum(void)
{
	struct lx_join j;
	struct lx_buf out = { 0 };
	struct lx_err e = LX_ERR_INIT;
	lx_join_init(&j, LX_JOIN_LINES, 8);
	CHECK(lx_join_add(&j, (struct lx_span)PIECE("\xa3" "abc"), &out, &e) == 0);
	CHECK(lx_join_add(&j, (struct lx_span)PIECE("\xa4" "abcd"), &out, &e) < 0 && strcmp(j.type, "oversize") == 0);
	CHECK(strstr(e.msg, "(--max-record)"));
	e = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_join_add(&j, (struct lx_span)PIECE("\xa4" "abc\n"), &out, &e) == 0 && j.bytes == 8 && !j.type);
	CHECK(lx_join_add(&j, (struct lx_span)PIECE("\xa0"), &out, &e) < 0 && out.len == 8);
	lx_buf_free(&out);
	lx_join_release(&j);
}

static void parses_arguments(void)
{
	enum lx_join_format f;
	struct lx_err e = LX_ERR_INIT;
	CHECK(lx_join_parse("array", &f, &e) == 0 && f == LX_JOIN_ARRAY);
	CHECK(lx_join_parse("concat", &f, &e) == 0 && f == LX_JOIN_CONCAT);
	CHECK(lx_join_parse("lines", &f, &e) == 0 && f == LX_JOIN_LINES);
	CHECK(lx_join_parse("line", &f, &e) < 0 && e.code == LX_USAGE);
	CHECK(strcmp(e.msg, "-s line: unknown format; known are array, concat, lines") == 0);
}

int main(void)
{
	RUN(joins);
	RUN(writes_the_same_to_a_descriptor);
	RUN(refuses);
	RUN(bounds_the_sum);
	RUN(parses_arguments);
	return tap_done();
}

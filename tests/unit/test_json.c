/* JSON and msgpack values: exact in both directions, strict, and never over its limits. */
#include "tap.h"

#include "base64.h"
#include "json.h"
#include "num.h"
#include "value.h"

#include <float.h>
#include <math.h>

static struct lx_json plain = LX_JSON_INIT, tagged = LX_JSON_INIT;
static struct lx_buf out, text;
static struct lx_err err;

static int scan_bytes(struct lx_json *j, const void *p, size_t n)
{
	err = (struct lx_err)LX_ERR_INIT;
	lx_buf_clear(&out);
	return lx_json_scan(j, (struct lx_span){ p, n }, &out, &err);
}

static int scan(struct lx_json *j, const char *s)
{
	return scan_bytes(j, s, strlen(s));
}

/* The JSON of the value in `out`. */
static const char *written(void)
{
	struct lx_err e = LX_ERR_INIT;
	lx_buf_clear(&text);
	return lx_json_write(&text, lx_buf_view(&out), &e) < 0 ? "(failed)" : lx_buf_cstr(&text);
}

static const char *hex(const struct lx_buf *b)
{
	static char s[4096];
	size_t n = 0;
	s[0] = '\0';
	for (size_t i = 0; i < b->len && n + 3 < sizeof(s); i++)
		n += (size_t)sprintf(s + n, "%02x", b->p[i]);
	return s;
}

static void check_str(const char *what, const char *got, const char *want)
{
	if (strcmp(got, want) != 0)
		printf("# %s: got %s, want %s\n", what, got, want);
	CHECK(strcmp(got, want) == 0);
}

static void reads(void)
{
	static const struct {
		const char *text, *hex;
	} t[] = {
		{ "null", "c0" },
		{ "true", "c3" },
		{ " \t\r\n false ", "c2" },
		{ "0", "00" },
		{ "127", "7f" },
		{ "128", "cc80" },
		{ "-1", "ff" },
		{ "-32", "e0" },
		{ "-33", "d0df" },
		{ "65536", "ce00010000" },
		{ "9223372036854775807", "cf7fffffffffffffff" },
		{ "9223372036854775808", "cf8000000000000000" },
		{ "18446744073709551615", "cfffffffffffffffff" },
		{ "-9223372036854775808", "d38000000000000000" },
		{ "-0", "cb8000000000000000" },
		{ "-0.0", "cb8000000000000000" },
		{ "0.0", "cb0000000000000000" },
		{ "0e5", "cb0000000000000000" },
		{ "0.1", "cb3fb999999999999a" },
		{ "1.0", "cb3ff0000000000000" },
		{ "1E2", "cb4059000000000000" },
		{ "1e+2", "cb4059000000000000" },
		{ "25e-1", "cb4004000000000000" },
		{ "1.7976931348623157e308", "cb7fefffffffffffff" },
		{ "5e-324", "cb0000000000000001" },
		{ "9007199254740993.0", "cb4340000000000000" }, /* a tie: to even */
		{ "0.3000000000000000444", "cb3fd3333333333334" },
		{ "\"\"", "a0" },
		{ "\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"", "aa61225c2f080c0a0d097a" },
		{ "\"\\u0000\\u00e9\\u20AC\\ud83d\\uDE00\"", "aa00c3a9e282acf09f9880" },
		{ "\"\\ud800\"", "a3eda080" },
		{ "\"\\udc00x\"", "a4edb08078" },
		{ "\"\\ud800\\u0041\"", "a4eda08041" },
		{ "\"\\ud800\\ud800\\udc00\"", "a7eda080f0908080" },
		{ "\"a\xff\xc3(\"", "a461ffc328" },
		{ "[]", "90" },
		{ "[ ]", "90" },
		{ "{}", "80" },
		{ "{ }", "80" },
		{ "[1,[2,[]],{}]", "930192029080" },
		{ "{\"a\":1,\"b\":{\"a\":[]}}", "82a16101a16281a16190" },
		{ "{ \"\" : null }", "81a0c0" },
		{ "{\"$bin\":\"AA==\"}", "81a42462696ea441413d3d" }, /* without tags it is what it says */
		{ "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", "dc00100102030405060708090a0b0c0d0e0f10" },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		if (scan(&plain, t[i].text) < 0) {
			printf("# %s: %s\n", t[i].text, err.msg);
			CHECK(0);
			continue;
		}
		check_str(t[i].text, hex(&out), t[i].hex);
	}
}

/* What 64-bit integers and doubles do not hold stays as its text, and comes out again as it went in. */
static void big_numbers(void)
{
	static const char *const t[] = {
		"18446744073709551616", "-9223372036854775809", "123456789012345678901234567890", "1e400", "-1e400",
		"1.5E+999", "1e-400", "-0.1e-1000", "1e99999999999999999999", "1e-99999999999999999999",
		"0.0000001e-400", "1.7976931348623159e308",
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_val v;
		CHECK(scan(&plain, t[i]) == 0);
		CHECK(lx_val_from(lx_buf_view(&out), &v) == 0 && v.type == LX_EXT && v.ext == LX_JSON_EXT_NUMBER);
		CHECK(lx_span_eq(v.s, lx_span_str(t[i])));
		check_str(t[i], written(), t[i]);
	}
	CHECK(scan(&plain, "0e99999999999999999999") == 0);
	check_str("a zero is a zero", written(), "0.0");
}

static void refuses(void)
{
	static const struct {
		const char *text;
		size_t at;
		const char *says;
	} t[] = {
		{ "", 0, "expected a value, found the end" },
		{ "  ", 2, "the end" },
		{ "nul", 0, "expected a value, found 'n'" },
		{ "nulll", 4, "expected the end, found 'l'" },
		{ "True", 0, "found 'T'" },
		{ "NaN", 0, "found 'N'" },
		{ "-Infinity", 1, "not a number" },
		{ "01", 0, "not a number" },
		{ "-01", 1, "not a number" },
		{ "-", 1, "not a number" },
		{ "+1", 0, "found '+'" },
		{ ".5", 0, "found '.'" },
		{ "1.", 2, "not a number" },
		{ "1.e5", 2, "not a number" },
		{ "1e", 2, "not a number" },
		{ "1e+", 2, "not a number" },
		{ "0x10", 1, "expected the end, found 'x'" },
		{ "1 2", 2, "expected the end" },
		{ "\"", 1, "ends inside a string" },
		{ "\"\\", 1, "ends inside a string" },
		{ "\"\\\"", 3, "ends inside a string" },
		{ "\"\\q\"", 1, "unknown escape" },
		{ "\"\\u12g4\"", 1, "four hexadecimal digits" },
		{ "\"\\u12", 1, "four hexadecimal digits" },
		{ "\"a\nb\"", 2, "byte 0x0a in a string" },
		{ "'a'", 0, "found '''" },
		{ "[", 1, "found the end" },
		{ "[1", 2, "expected ',' or ']', found the end" },
		{ "[1,", 3, "expected a value" },
		{ "[1,]", 3, "expected a value, found ']'" },
		{ "[,1]", 1, "expected a value, found ','" },
		{ "[1 2]", 3, "expected ',' or ']'" },
		{ "[1}", 2, "expected ',' or ']'" },
		{ "]", 0, "expected a value" },
		{ "{", 1, "expected a string as key, found the end" },
		{ "{1:2}", 1, "expected a string as key" },
		{ "{\"a\"}", 4, "expected ':'" },
		{ "{\"a\":}", 5, "expected a value" },
		{ "{\"a\":1,}", 7, "expected a string as key" },
		{ "{\"a\":1 \"b\":2}", 7, "expected ',' or '}'" },
		{ "{\"a\":1,\"b\":2,\"a\":3}", 13, "key \"a\" twice" },
		{ "[1] // no", 4, "expected the end" },
		{ "\xef\xbb\xbf" "1", 0, "expected a value, found byte 0xef" },
		{ "[1,\n 2,\n  x]", 10, "line 3 column 3: expected a value" },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		int rc = scan(&plain, t[i].text);
		CHECK(rc < 0 && err.code == LX_DATA && out.len == 0);
		if (rc == 0 || plain.at != t[i].at || !strstr(err.msg, t[i].says))
			printf("# %s: at %zu (want %zu): %s\n", t[i].text, plain.at, t[i].at, err.msg);
		CHECK(plain.at == t[i].at);
		CHECK(strstr(err.msg, t[i].says) != NULL);
	}
	CHECK(scan_bytes(&plain, "1\0", 2) < 0 && strstr(err.msg, "byte 0x00"));
	CHECK(scan_bytes(&plain, "t\0ue", 4) < 0);
	CHECK(scan_bytes(&plain, "\"a\0\"", 4) < 0 && strstr(err.msg, "byte 0x00 in a string"));
}

/* A text is refused at every cut: none of these has a prefix that is a text too. */
static void refuses_every_prefix(void)
{
	static const char *const t[] = {
		"{\"a\":[1,2.5e3,\"x\\u00e9\\n\",null,true],\"b\":{\"c\":false,\"d\":{}}}",
		"[[[{\"k\":\"\\ud83d\\ude00\"}]],-12]",
		"\"abc\\\\def\"",
		"{\"$map\":[[{\"$bin\":\"AAEC\"},{\"$ext\":[-5,\"AA==\"]}]]}",
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		size_t n = strlen(t[i]);
		CHECK(scan_bytes(&tagged, t[i], n) == 0);
		for (size_t cut = 0; cut < n; cut++) {
			char *exact = malloc(cut + 1); /* so that a sanitizer sees a read beyond it */
			memcpy(exact, t[i], cut);
			CHECK(scan_bytes(&tagged, exact, cut) < 0 && out.len == 0 && tagged.at <= cut);
			free(exact);
		}
	}
}

static void keeps_what_was_there(void)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	lx_buf_str(&b, "head");
	CHECK(lx_json_scan(&plain, lx_span_str("[1,"), &b, &e) < 0);
	CHECK(b.len == 4 && memcmp(b.p, "head", 4) == 0);
	e = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_json_scan(&plain, lx_span_str("[1]"), &b, &e) == 0);
	CHECK(b.len == 6 && memcmp(b.p, "head\x91\x01", 6) == 0);
	lx_buf_clear(&b);
	lx_buf_str(&b, "head");
	CHECK(lx_json_write(&b, (struct lx_span){ (const uint8_t *)"\x92\x01", 2 }, &e) < 0 && b.len == 4);
	lx_buf_free(&b);
}

static void nests(struct lx_json *j, unsigned levels, const char *open, const char *close, bool fits)
{
	struct lx_buf b = { 0 };
	for (unsigned i = 0; i < levels; i++)
		lx_buf_str(&b, open);
	lx_buf_str(&b, "1");
	for (unsigned i = 0; i < levels; i++)
		lx_buf_str(&b, close);
	CHECK((scan_bytes(j, b.p, b.len) == 0) == fits);
	CHECK(fits || strstr(err.msg, "nesting over"));
	lx_buf_free(&b);
}

static void bounds_nesting(void)
{
	struct lx_json deep = { .max_depth = 1000 }, flat = { .max_depth = 0 };
	nests(&plain, 32, "[", "]", true);
	nests(&plain, 33, "[", "]", false);
	nests(&plain, 33, "{\"a\":", "}", false);
	nests(&plain, 1000000, "[", "", false);
	nests(&plain, 1000000, "{\"a\":", "", false);
	nests(&deep, 64, "[", "]", true);
	nests(&deep, 65, "[", "]", false);
	nests(&flat, 0, "[", "]", true);
	nests(&flat, 1, "[", "]", false);
	nests(&tagged, 32, "{\"$map\":[[1,", "]]}", true);
	nests(&tagged, 33, "{\"$map\":[[1,", "]]}", false);
	nests(&tagged, 33, "[", "]", false);
	nests(&tagged, 1000000, "{\"$map\":[[1,", "", false);
	lx_json_release(&deep);
	lx_json_release(&flat);
}

/* Key sets of every size around the limit between the two ways to look for equal ones. */
static void finds_equal_keys(void)
{
	struct lx_buf b = { 0 };
	for (int n = 2; n < 200; n++) {
		for (int twin = -1; twin < n - 1; twin += n < 40 ? 1 : 17) {
			lx_buf_clear(&b);
			for (int i = 0; i < n; i++)
				lx_buf_printf(&b, "%s\"a common beginning %d and end\":%d", i ? "," : "{",
				              i == n - 1 && twin >= 0 ? twin : i, i);
			lx_buf_str(&b, "}");
			CHECK((scan_bytes(&plain, b.p, b.len) == 0) == (twin < 0));
			CHECK(twin < 0 || strstr(err.msg, "twice in one object"));
		}
	}
	/* the same key in different objects is fine, also behind an inner object */
	CHECK(scan(&plain, "{\"a\":{\"a\":{\"a\":1},\"b\":[{\"a\":1},{\"a\":2}]},\"b\":1}") == 0);
	CHECK(scan(&plain, "{\"a\":{\"b\":1,\"c\":2},\"b\":1,\"a\":2}") < 0);
	CHECK(scan(&plain, "{\"\\u0061\":1,\"a\":2}") < 0);
	CHECK(scan(&plain, "{\"\":1,\"\":2}") < 0);
	lx_buf_free(&b);
}

/* Heads longer than the byte kept free for them. */
static void long_containers(void)
{
	static const unsigned sizes[] = { 15, 16, 17, 255, 65535, 65536, 70000 };
	struct lx_buf b = { 0 }, want = { 0 };
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		for (int map = 0; map < 2; map++) {
			lx_buf_clear(&b);
			lx_buf_clear(&want);
			lx_buf_str(&b, map ? "[{" : "[[");
			lx_pack_array(&want, 2);
			if (map)
				lx_pack_map(&want, sizes[k]);
			else
				lx_pack_array(&want, sizes[k]);
			for (unsigned i = 0; i < sizes[k]; i++) {
				char key[16];
				snprintf(key, sizeof(key), "%u", i);
				lx_buf_printf(&b, map ? "%s\"%u\":[%u]" : "%s[%u,%u]", i ? "," : "", i, i);
				if (map)
					lx_pack_cstr(&want, key);
				lx_pack_array(&want, map ? 1 : 2);
				lx_pack_uint(&want, i);
				if (!map)
					lx_pack_uint(&want, i);
			}
			lx_buf_str(&b, map ? "},7]" : "],7]");
			lx_pack_uint(&want, 7);
			CHECK(scan_bytes(&plain, b.p, b.len) == 0);
			CHECK(lx_span_eq(lx_buf_view(&out), lx_buf_view(&want)));
		}
	}
	lx_buf_free(&b);
	lx_buf_free(&want);
}

/* ---- writing ---- */

#define BYTES(s) (s), sizeof(s) - 1

static void writes(void)
{
	static const struct {
		const char *value;
		size_t len;
		const char *text;
	} t[] = {
		{ BYTES("\xc0"), "null" },
		{ BYTES("\xc2"), "false" },
		{ BYTES("\x00"), "0" },
		{ BYTES("\xcd\x00\x05"), "5" },
		{ BYTES("\xd3\x00\x00\x00\x00\x00\x00\x00\x05"), "5" },
		{ BYTES("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), "18446744073709551615" },
		{ BYTES("\xd3\x80\x00\x00\x00\x00\x00\x00\x00"), "-9223372036854775808" },
		{ BYTES("\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00"), "1.0" },
		{ BYTES("\xcb\x80\x00\x00\x00\x00\x00\x00\x00"), "-0.0" },
		{ BYTES("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"), "{\"$float\":\"nan\"}" },
		{ BYTES("\xcb\xff\xf8\x00\x00\x00\x00\x00\x01"), "{\"$float\":\"nan\"}" },
		{ BYTES("\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00"), "{\"$float\":\"inf\"}" },
		{ BYTES("\xca\xff\x80\x00\x00"), "{\"$float\":\"-inf\"}" },
		{ BYTES("\xca\x3d\xcc\xcc\xcd"), "0.1" },
		{ BYTES("\xca\x3f\x80\x00\x00"), "1.0" },
		{ BYTES("\xa6" "a\"\\\n\x01\x7f"), "\"a\\\"\\\\\\n\\u0001\x7f\"" },
		{ BYTES("\xa5\b\f\r\t\x1f"), "\"\\b\\f\\r\\t\\u001f\"" },
		{ BYTES("\xa3\xe2\x82\xac"), "\"\xe2\x82\xac\"" },
		{ BYTES("\xa1\x00"), "\"\\u0000\"" },
		{ BYTES("\xa1\xff"), "{\"$str\":\"/w==\"}" },
		{ BYTES("\xa3\xed\xa0\x80"), "{\"$str\":\"7aCA\"}" },
		{ BYTES("\xc4\x00"), "{\"$bin\":\"\"}" },
		{ BYTES("\xc4\x03" "abc"), "{\"$bin\":\"YWJj\"}" },
		{ BYTES("\xd4\x05\x00"), "{\"$ext\":[5,\"AA==\"]}" },
		{ BYTES("\xd4\x80\x00"), "{\"$ext\":[-128,\"AA==\"]}" },
		{ BYTES("\xc7\x05\x01" "1e400"), "1e400" },
		{ BYTES("\xd4\x01" "5"), "{\"$ext\":[1,\"NQ==\"]}" },     /* would read back as an integer */
		{ BYTES("\xc7\x03\x01" "1.5"), "{\"$ext\":[1,\"MS41\"]}" },
		{ BYTES("\xd6\x01" "1e40"), "{\"$ext\":[1,\"MWU0MA==\"]}" },
		{ BYTES("\xc7\x06\x01" "1e400,"), "{\"$ext\":[1,\"MWU0MDAs\"]}" },
		{ BYTES("\xc7\x00\x01"), "{\"$ext\":[1,\"\"]}" },
		{ BYTES("\x93\x01\x90\x80"), "[1,[],{}]" },
		{ BYTES("\x82\xa1" "a\x01\xa1" "b\x02"), "{\"a\":1,\"b\":2}" },
		{ BYTES("\x81\x01\x02"), "{\"$map\":[[1,2]]}" },
		{ BYTES("\x82\xa1" "a\x01\xa1" "a\x02"), "{\"$map\":[[\"a\",1],[\"a\",2]]}" },
		{ BYTES("\x81\xa1\xff\x02"), "{\"$map\":[[{\"$str\":\"/w==\"},2]]}" },
		{ BYTES("\x81\xa4$bin\x01"), "{\"$map\":[[\"$bin\",1]]}" },
		{ BYTES("\x81\xa4$map\x90"), "{\"$map\":[[\"$map\",[]]]}" },
		{ BYTES("\x81\xa4$oid\x01"), "{\"$oid\":1}" },
		{ BYTES("\x82\xa4$bin\x01\xa1" "a\x02"), "{\"$bin\":1,\"a\":2}" },
		{ BYTES("\x81\x81\x01\x02\x91\xc0"), "{\"$map\":[[{\"$map\":[[1,2]]},[null]]]}" },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		lx_buf_clear(&out);
		lx_buf_add(&out, t[i].value, t[i].len);
		check_str(t[i].text, written(), t[i].text);
	}
}

static void refuses_to_write(void)
{
	static const struct {
		const char *value;
		size_t len;
	} t[] = {
		{ BYTES("") },
		{ BYTES("\xc1") },
		{ BYTES("\xa5" "abc") },
		{ BYTES("\x92\x01") },
		{ BYTES("\x81\xa1" "a") },
		{ BYTES("\x81\x01") },
		{ BYTES("\x01\x02") },
		{ BYTES("\xdd\xff\xff\xff\xff\x01") },
		{ BYTES("\xdf\xff\xff\xff\xff\x01\x02") },
		{ BYTES("\xc6\xff\xff\xff\xff" "0") },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct lx_err e = LX_ERR_INIT;
		lx_buf_clear(&text);
		CHECK(lx_json_write(&text, (struct lx_span){ (const uint8_t *)t[i].value, t[i].len }, &e) < 0);
		CHECK(e.code == LX_DATA && text.len == 0);
	}
	uint8_t bomb[100];
	struct lx_err e = LX_ERR_INIT;
	memset(bomb, 0x91, sizeof(bomb));
	bomb[99] = 1;
	CHECK(lx_json_write(&text, (struct lx_span){ bomb + 36, 64 }, &e) == 0); /* 63 levels */
	CHECK(lx_json_write(&text, (struct lx_span){ bomb + 35, 65 }, &e) == 0); /* 64 */
	CHECK(lx_json_write(&text, (struct lx_span){ bomb + 34, 66 }, &e) < 0);
}

/* ---- tags back into values ---- */

static void reads_tags(void)
{
	static const struct {
		const char *text, *hex; /* hex NULL: refused */
	} t[] = {
		{ "{\"$bin\":\"AAEC\"}", "c403000102" },
		{ " { \"$bin\" : \"\" } ", "c400" },
		{ "{\"$str\":\"/w==\"}", "a1ff" },
		{ "{\"$ext\":[5,\"AA==\"]}", "d40500" },
		{ "{\"$ext\":[-128,\"\"]}", "c70080" },
		{ "{\"$float\":\"nan\"}", "cb7ff8000000000000" },
		{ "{\"$float\":\"inf\"}", "cb7ff0000000000000" },
		{ "{\"$float\":\"-inf\"}", "cbfff0000000000000" },
		{ "{\"$map\":[]}", "80" },
		{ "{\"$map\":[[1,2],[1,[3]]]}", "820102019103" },
		{ "{\"$map\":[[\"$bin\",1]]}", "81a42462696e01" },
		{ "{\"$map\":[[{\"$map\":[]},{\"$bin\":\"AA==\"}]]}", "8180c40100" },
		{ "[{\"$bin\":\"AA==\"},{\"a\":{\"$str\":\"/w==\"}}]", "92c4010081a161a1ff" },
		{ "{\"$bin\":\"AA==\",\"a\":1}", "82a42462696ea441413d3da16101" },
		{ "{\"$oid\":1}", "81a4246f696401" },
		{ "{\"$b\\u0069n\":\"AA==\"}", "c40100" },
		{ "{\"$bin\":1}", NULL },
		{ "{\"$bin\":\"AA=\"}", NULL },
		{ "{\"$bin\":\"AB==\"}", NULL },
		{ "{\"$bin\":\"A A=\"}", NULL },
		{ "{\"$str\":[]}", NULL },
		{ "{\"$ext\":[128,\"\"]}", NULL },
		{ "{\"$ext\":[-129,\"\"]}", NULL },
		{ "{\"$ext\":[1]}", NULL },
		{ "{\"$ext\":[1,\"\",1]}", NULL },
		{ "{\"$ext\":[1.0,\"\"]}", NULL },
		{ "{\"$ext\":\"\"}", NULL },
		{ "{\"$float\":\"NaN\"}", NULL },
		{ "{\"$float\":1}", NULL },
		{ "{\"$map\":[[1]]}", NULL },
		{ "{\"$map\":[[1,2,3]]}", NULL },
		{ "{\"$map\":[1]}", NULL },
		{ "{\"$map\":{}}", NULL },
	};
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		int rc = scan(&tagged, t[i].text);
		if (t[i].hex)
			check_str(t[i].text, rc == 0 ? hex(&out) : err.msg, t[i].hex);
		else
			CHECK(rc < 0 && err.code == LX_DATA && strstr(err.msg, "expected"));
	}
}

/* ---- round trips with a fixed seed ---- */

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 11) % below;
}

static struct lx_span random_bytes(void)
{
	static uint8_t b[64];
	static const char *const words[] = { "$bin", "$str", "$ext", "$float", "$map", "a", "", "\xed\xa0\x80" };
	size_t n = (size_t)rnd(40);
	switch (rnd(4)) {
	case 0:
		return lx_span_str(words[rnd(8)]);
	case 1:
		for (size_t i = 0; i < n; i++)
			b[i] = (uint8_t)rnd(256);
		break;
	default:
		for (size_t i = 0; i < n; i++)
			b[i] = (uint8_t)rnd(128);
	}
	return (struct lx_span){ b, n };
}

static double random_double(void)
{
	uint64_t bits = rnd((uint64_t)1 << 53) << 11 ^ rnd((uint64_t)1 << 53);
	double v;
	if (rnd(3) == 0)
		return (double)(int64_t)(rnd(2000000) - 1000000) / 1000;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void random_value(struct lx_buf *b, unsigned depth)
{
	static const char *const big[] = { "1e400", "18446744073709551616", "5", "-", "1e-999" };
	uint32_t n = (uint32_t)rnd(rnd(8) ? 5 : 40);
	double v;
	switch (rnd(depth ? 12 : 10)) {
	case 0:
		lx_pack_nil(b);
		break;
	case 1:
		lx_pack_bool(b, rnd(2));
		break;
	case 2:
		lx_pack_uint(b, (rnd((uint64_t)1 << 53) << 11 | rnd(2048)) >> rnd(64));
		break;
	case 3:
		lx_pack_int(b, -(int64_t)(rnd((uint64_t)1 << 53) << 10 >> rnd(63)) - 1);
		break;
	case 4:
	case 5:
		v = random_double();
		lx_pack_f64(b, isnan(v) ? (double)NAN : v); /* NaN bits are not kept */
		break;
	case 6:
	case 7:
		lx_pack_str(b, random_bytes());
		break;
	case 8:
		lx_pack_bin(b, random_bytes());
		break;
	case 9:
		if (rnd(2))
			lx_pack_ext(b, LX_JSON_EXT_NUMBER, lx_span_str(big[rnd(5)]));
		else
			lx_pack_ext(b, (int8_t)(rnd(256) - 128), random_bytes());
		break;
	case 10:
		lx_pack_array(b, n);
		for (uint32_t i = 0; i < n; i++)
			random_value(b, depth - 1);
		break;
	default:
		lx_pack_map(b, n);
		for (uint32_t i = 0; i < n; i++) {
			if (rnd(4))
				lx_pack_str(b, random_bytes());
			else
				random_value(b, depth - 1);
			random_value(b, depth - 1);
		}
	}
}

static void random_round_trips(void)
{
	struct lx_buf value = { 0 };
	for (int i = 0; i < 20000; i++) {
		struct lx_err e = LX_ERR_INIT;
		lx_buf_clear(&value);
		lx_buf_clear(&text);
		random_value(&value, 5);
		CHECK(lx_json_write(&text, lx_buf_view(&value), &e) == 0);
		CHECK(lx_span_utf8(lx_buf_view(&text)));
		for (size_t k = 0; k < text.len; k++)
			if (text.p[k] < 0x20)
				CHECK(!"a control byte in the text");
		CHECK(scan_bytes(&tagged, text.p, text.len) == 0);
		CHECK(lx_span_eq(lx_buf_view(&out), lx_buf_view(&value)));
		if (tap_bad) {
			printf("# round %d: %.*s: %s\n", i, (int)text.len, (char *)text.p, err.msg);
			break;
		}
	}
	lx_buf_free(&value);
}

/* Random damage must be refused or give a value that can be written again; it must not read out of bounds. */
static void random_damage(void)
{
	struct lx_buf value = { 0 };
	size_t refused = 0, taken = 0;
	for (int i = 0; i < 20000; i++) {
		struct lx_err e = LX_ERR_INIT;
		lx_buf_clear(&value);
		lx_buf_clear(&text);
		random_value(&value, 4);
		lx_json_write(&text, lx_buf_view(&value), &e);
		size_t n = (size_t)rnd(text.len + 1);
		uint8_t *p = malloc(n + 1);
		memcpy(p, text.p, n);
		for (int k = 0; n && k < 2; k++)
			p[rnd(n)] = (uint8_t)"{}[]\",:\\u0e$.- \xff"[rnd(15)];
		if (scan_bytes(&tagged, p, n) < 0) {
			CHECK(err.code == LX_DATA && out.len == 0);
			refused++;
		} else {
			CHECK(lx_json_write(&text, lx_buf_view(&out), &e) == 0);
			taken++;
		}
		free(p);
	}
	CHECK(refused > 1000 && taken > 100);
	lx_buf_free(&value);
}

static void floats_read_back(void)
{
	static const double edge[] = { 0,       -0.0,    0.1,     1.0 / 3, DBL_MAX, DBL_MIN, 5e-324, 1e15, 1e16, 1e17,
		                       1e22,    1e23,    123456789012345680.0, 9007199254740993.0, 0.3, 2.5e-8, 100 };
	char s[LX_NUM_MAX];
	for (size_t i = 0; i < sizeof(edge) / sizeof(*edge); i++) {
		size_t n = lx_num_f64(s, edge[i]);
		CHECK(strlen(s) == n && n < LX_NUM_MAX && strtod(s, NULL) == edge[i] && strpbrk(s, ".e"));
	}
	for (int i = 0; i < 20000; i++) {
		double v = random_double();
		if (!isfinite(v))
			continue;
		CHECK(lx_num_f64(s, v) < LX_NUM_MAX && strtod(s, NULL) == v);
		struct lx_err e = LX_ERR_INIT;
		struct lx_val got;
		lx_buf_clear(&out);
		CHECK(lx_json_scan(&plain, lx_span_str(s), &out, &e) == 0 && lx_val_from(lx_buf_view(&out), &got) == 0);
		CHECK(got.type == LX_F64 && memcmp(&got.f, &v, sizeof(v)) == 0);
		float f = (float)v;
		if (isfinite(f))
			CHECK(lx_num_f32(s, f) < LX_NUM_MAX && strtof(s, NULL) == f);
	}
	CHECK(lx_num_f64(s, 0.1) == 3 && strcmp(s, "0.1") == 0);
	CHECK(lx_num_f64(s, -DBL_MAX) && strcmp(s, "-1.7976931348623157e+308") == 0);
	CHECK(lx_num_f32(s, 0.1f) == 3 && strcmp(s, "0.1") == 0);
	CHECK(lx_num_f32(s, 16777216.0f) && strcmp(s, "16777216.0") == 0);
	CHECK(lx_num_f64(s, -(double)INFINITY) == 4 && strcmp(s, "-inf") == 0);
}

static void check_decimal(const char *s)
{
	struct lx_val v;
	CHECK(scan(&plain, s) == 0 && lx_val_from(lx_buf_view(&out), &v) == 0 && v.type == LX_F64);
	if (v.f != strtod(s, NULL))
		printf("# %s: %.17g\n", s, v.f);
	CHECK(v.f == strtod(s, NULL));
}

/* The scanner's quick ways for decimals against strtod, at their borders and next to ties. */
static void decimals_round_correctly(void)
{
	static const char *const edge[] = {
		"1125899906842624.125",  "1125899906842624.1251",   "1125899906842624.1249",  "1125899906842624.375",
		"1125899906842624.3749", "9007199254740993.0",      "9007199254740993.1",     "9007199254740992.9",
		"9007199254740991e22",   "9007199254740993e22",     "18446744073709551615e0", "18446744073709551615e19",
		"18446744073709551615e-19", "18446744073709551616e-1", "1e22", "1e23", "123456789e-22", "123456789e-23", "0.5e-19",
		"2.2250738585072011e-308", "4.9406564584124654e-324", "2.4703282292062329e-324",
	};
	for (size_t i = 0; i < sizeof(edge) / sizeof(*edge); i++)
		check_decimal(edge[i]);
	for (int i = 0; i < 20000; i++) {
		char s[64];
		snprintf(s, sizeof(s), "%llu.%0*llue%d", (unsigned long long)(rnd((uint64_t)1 << 53) >> rnd(53)), (int)rnd(8) + 1,
		         (unsigned long long)rnd(100000), (int)rnd(60) - 30);
		check_decimal(s);
	}
}

static void base64_both_ways(void)
{
	static const char *const t[][2] = {
		{ "", "" },         { "f", "Zg==" },         { "fo", "Zm8=" },         { "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" }, { "fooba", "Zm9vYmE=" }, { "foobar", "Zm9vYmFy" }, { "\xfb\xff\xbe", "+/++" },
	};
	static const char *const bad[] = { "Zg=", "Zg", "Z", "Zg==Zg==", "Zh==", "Zm9=", "====", "=g==", "Zm9v\n", "Zm-_", "Z===" };
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		lx_buf_clear(&text);
		lx_base64_encode(&text, lx_span_str(t[i][0]));
		CHECK(lx_span_eq(lx_buf_view(&text), lx_span_str(t[i][1])));
		lx_buf_clear(&text);
		CHECK(lx_base64_decode(&text, lx_span_str(t[i][1])) == 0);
		CHECK(lx_span_eq(lx_buf_view(&text), lx_span_str(t[i][0])));
	}
	lx_buf_clear(&text);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(lx_base64_decode(&text, lx_span_str(bad[i])) < 0 && text.len == 0);
}

static void parts_of_an_object(void)
{
	lx_buf_clear(&text);
	lx_json_cstr(&text, "a\n");
	lx_json_str(&text, (struct lx_span){ (const uint8_t *)"\xff\0", 2 });
	lx_json_bin(&text, lx_span_str("x"));
	lx_json_f64(&text, 2);
	lx_json_f64(&text, (double)NAN);
	CHECK(lx_span_eq(lx_buf_view(&text),
	                 lx_span_str("\"a\\n\"{\"$str\":\"/wA=\"}{\"$bin\":\"eA==\"}2.0{\"$float\":\"nan\"}")));
}

/* Wherever in a string the byte stands that ends it or may not be in it. */
static void strings_of_every_length(void)
{
	for (size_t len = 0; len <= 70; len++)
		for (size_t at = 0; at <= len; at++) {
			uint8_t t[80];
			struct lx_val v;
			memset(t, 0x80 + (int)at, sizeof(t));
			t[0] = t[len + 1] = '"';
			CHECK(scan_bytes(&plain, t, len + 2) == 0 && lx_val_from(lx_buf_view(&out), &v) == 0 && v.s.len == len);
			if (at == len)
				continue;
			t[1 + at] = '"'; /* ends early: something follows */
			CHECK(scan_bytes(&plain, t, len + 2) < 0 && plain.at == at + 2);
			t[1 + at] = (uint8_t)(at % 0x20);
			CHECK(scan_bytes(&plain, t, len + 2) < 0 && plain.at == at + 1);
			t[1 + at] = '\\'; /* before the last quote it takes that away */
			CHECK(scan_bytes(&plain, t, len + 2) < 0 && (plain.at == at + 1 || at + 1 == len));
			t[1 + at] = ' ';
			CHECK(scan_bytes(&plain, t, len + 2) == 0);
		}
}

static void looks_out_for_a_member(void)
{
	static const struct {
		const char *text;
		bool has;
	} t[] = {
		{ "{\"lx\":1}", true },         { "{\"a\":1,\"l\\u0078\":2}", true },     { "{\"a\":{\"lx\":1}}", false },
		{ "[{\"lx\":1}]", false },      { "{\"lxx\":1,\"l\":2,\"b\":\"lx\"}", false }, { "{\"a\":{\"$bin\":\"\"}}", false },
		{ "{\"$map\":[[\"lx\",1]]}", true }, { "\"lx\"", false },
	};
	struct lx_json j = LX_JSON_INIT;
	j.tags = true;
	j.member = "lx";
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		CHECK(scan(&j, t[i].text) == 0);
		if (j.has_member != t[i].has)
			printf("# %s\n", t[i].text);
		CHECK(j.has_member == t[i].has);
	}
	lx_json_release(&j);
}

int main(void)
{
	RUN(looks_out_for_a_member);
	RUN(strings_of_every_length);
	tagged.tags = true;
	RUN(reads);
	RUN(big_numbers);
	RUN(refuses);
	RUN(refuses_every_prefix);
	RUN(keeps_what_was_there);
	RUN(bounds_nesting);
	RUN(finds_equal_keys);
	RUN(long_containers);
	RUN(writes);
	RUN(refuses_to_write);
	RUN(reads_tags);
	RUN(random_round_trips);
	RUN(random_damage);
	RUN(floats_read_back);
	RUN(decimals_round_correctly);
	RUN(base64_both_ways);
	RUN(parts_of_an_object);
	lx_json_release(&plain);
	lx_json_release(&tagged);
	lx_buf_free(&out);
	lx_buf_free(&text);
	return tap_done();
}

/* The tests of lx-filter: how they are read, and what they say of an item. */
#include "json.h"
#include "tap.h"
#include "test.h"

#include <math.h>

__extension__ typedef __int128 long_int;

/* The fields of an item, from JSON with tags. */
static struct lx_buf fields(const char *json)
{
	struct lx_json j = LX_JSON_INIT;
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf b = { 0 };
	j.tags = true;
	if (lx_json_scan(&j, lx_span_str(json), &b, &e) < 0)
		printf("# %s: %s\n", json, e.msg);
	lx_json_release(&j);
	return b;
}

/* What a test says: T, F, or the first letter of the type of failure; '!' when it is refused. */
static char ask(const char *json, const char *test)
{
	struct lx_tests t = { 0 };
	struct lx_err e = LX_ERR_INIT;
	struct lx_test_why why = { 0 };
	struct lx_buf b = fields(json);
	char said = '!';
	if (lx_tests_add(&t, test, &e) == 0) {
		enum lx_verdict v = lx_tests_ask(&t, lx_buf_view(&b), &why);
		said = v == LX_TEST_TRUE ? 'T' : v == LX_TEST_FALSE ? 'F' : why.type[0];
	} else {
		CHECK(e.code == LX_USAGE && strstr(e.msg, test) && !strchr(e.msg, '\n'));
	}
	lx_tests_release(&t);
	lx_buf_free(&b);
	return said;
}

/* All six comparisons of one pair must agree with `order` ("<", "=", ">", or "" for no order). */
static void pair(const char *json, const char *value, const char *order)
{
	static const struct {
		const char *op, *true_for;
	} ops[] = { { "==", "=" }, { "!=", "<>" }, { "<", "<" }, { "<=", "<=" }, { ">", ">" }, { ">=", "=>" } };
	char object[2048], test[1024];
	snprintf(object, sizeof(object), "{\"x\":%s}", json);
	for (size_t i = 0; i < 6; i++) {
		snprintf(test, sizeof(test), "x%s%s", ops[i].op, value);
		char want = *order ? (strstr(ops[i].true_for, order) ? 'T' : 'F') : i == 1 ? 'T' : 'F';
		char got = ask(object, test);
		if (got != want)
			printf("# %s %s: %c, not %c\n", object, test, got, want);
		CHECK(got == want);
	}
}

static void whole_numbers_compare_exactly(void)
{
	pair("5", "5", "=");
	pair("5", "+5", "=");
	pair("-1", "0", "<");
	pair("-1", "18446744073709551615", "<");
	pair("18446744073709551615", "-9223372036854775808", ">");
	pair("9007199254740993", "9007199254740992", ">");
	pair("9223372036854775807", "9223372036854775808", "<");
	pair("-9223372036854775808", "-9223372036854775807", "<");
	pair("-9223372036854775808", "-9223372036854775808", "=");
}

static void whole_numbers_compare_with_floats(void)
{
	pair("9007199254740993", "9007199254740992.0", ">");
	pair("9007199254740992", "9007199254740992.0", "=");
	pair("18446744073709551615", "18446744073709551616.0", "<");
	pair("9223372036854775807", "9223372036854775808.0", "<");
	pair("-9223372036854775808", "-9223372036854775808.0", "=");
	pair("-9223372036854775808", "-9.3e18", ">");
	pair("2", "2.5", "<");
	pair("3", "2.5", ">");
	pair("-2", "-2.5", ">");
	pair("-3", "-2.5", "<");
	pair("-1", "-0.5", "<");
	pair("0", "-0.5", ">");
	pair("0", "-0.0", "=");
	pair("1000", "1e3", "=");
	pair("2.5", "2", ">");
	pair("-0.5", "0", "<");
	pair("1e300", "18446744073709551615", ">");
}

static void floats_compare(void)
{
	pair("0.1", "0.1", "=");
	pair("0.1", ".1", "=");
	pair("-0.5", "-.5", "=");
	pair("0.30000000000000004", "0.3", ">");
	pair("-0.0", "0.0", "=");
	pair("{\"$float\":\"inf\"}", "1e308", ">");
	pair("{\"$float\":\"-inf\"}", "-9223372036854775808", "<");
	pair("{\"$float\":\"nan\"}", "1", "");
	pair("{\"$float\":\"nan\"}", "1.5", "");
}

static void a_value_is_rounded_to_the_field_s_float32(void)
{
	struct lx_tests t = { 0 };
	struct lx_err e = LX_ERR_INIT;
	struct lx_test_why why;
	struct lx_buf b = { 0 };
	lx_pack_map(&b, 1);
	lx_pack_cstr(&b, "x");
	lx_pack_f32(&b, 0.1f);
	CHECK(lx_tests_add(&t, "x==0.1", &e) == 0);
	CHECK(lx_tests_ask(&t, lx_buf_view(&b), &why) == LX_TEST_TRUE);
	lx_tests_release(&t);
	CHECK(lx_tests_add(&t, "x>0.1", &e) == 0);
	CHECK(lx_tests_ask(&t, lx_buf_view(&b), &why) == LX_TEST_FALSE);
	lx_tests_release(&t);
	lx_buf_free(&b);
}

static void numbers_beyond_64_bits_compare_exactly(void)
{
	pair("18446744073709551616", "18446744073709551615", ">");
	pair("18446744073709551616", "18446744073709551616.0", "=");
	pair("18446744073709551617", "18446744073709551616.0", ">");
	pair("1000000000000000000000000000000", "1000000000000000000000000000001", "<");
	pair("1000000000000000000000000000000", "1e30", "<"); /* the double nearest to 1e30 is above it */
	pair("-1000000000000000000000000000000", "1", "<");
	pair("-1000000000000000000000000000000", "-1000000000000000000000000000001", ">");
	pair("1e400", "1e400", "=");
	pair("1e400", "10e399", "=");
	pair("1e400", "0.00001e405", "=");
	pair("1.50e400", "1.5e400", "=");
	pair("1e400", "1.0000001e400", "<");
	pair("-1e400", "-1e401", ">");
	pair("1e-400", "0", ">");
	pair("1e-400", "1e-401", ">");
	pair("1e-400", "4.9e-324", "<");
	pair("-1e-400", "-4.9e-324", ">");
	pair("{\"$float\":\"inf\"}", "1e400", ">");
	pair("{\"$float\":\"-inf\"}", "-1e400", "<");
	pair("{\"$float\":\"nan\"}", "1e400", "");
	pair("5", "1e99999999999999999999", "<");
}

/* Two values of different kinds near each other, against the order of their difference in long arithmetic. */
static void random_pairs_compare_like_128_bit_integers(void)
{
	uint64_t seed = 7;
	for (int i = 0; i < 20000; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		uint64_t u = seed >> (seed & 31);
		double d = (double)u;
		if (i & 1)
			d = nextafter(d, i & 2 ? 0 : INFINITY);
		long_int diff = (long_int)u - (long_int)floor(d);
		int want = diff ? (diff < 0 ? -1 : 1) : -(d > floor(d));
		struct lx_val a = { .type = LX_UINT, .u = u }, b = { .type = LX_F64, .f = d };
		char text[64];
		snprintf(text, sizeof(text), "%llu", (unsigned long long)u);
		struct lx_val c = { .type = LX_EXT, .ext = LX_JSON_EXT_NUMBER, .s = lx_span_str(text) };
		CHECK(lx_number_cmp(&a, &b) == want && lx_number_cmp(&b, &a) == -want);
		CHECK(lx_number_cmp(&c, &b) == want && lx_number_cmp(&b, &c) == -want);
		CHECK(lx_number_cmp(&a, &c) == 0);
		if (tap_bad)
			return;
	}
}

static void what_is_no_number_has_no_order(void)
{
	static const char *const bad[] = { "", "-", ".", "1.2.3", "1e", "e5", "1e+", "1x", "--1", "0x10" };
	struct lx_val one = { .type = LX_UINT, .u = 1 };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct lx_val v = { .type = LX_EXT, .ext = LX_JSON_EXT_NUMBER, .s = lx_span_str(bad[i]) };
		CHECK(lx_number_cmp(&v, &one) == LX_UNORDERED && lx_number_cmp(&one, &v) == LX_UNORDERED);
	}
	struct lx_val nil = { .type = LX_NIL }, ext = { .type = LX_EXT, .ext = 9, .s = lx_span_str("1") };
	CHECK(lx_number_cmp(&nil, &one) == LX_UNORDERED && lx_number_cmp(&one, &ext) == LX_UNORDERED);
}

static void strings_compare_by_bytes(void)
{
	pair("\"en\"", "en", "=");
	pair("\"en\"", "\"en\"", "=");
	pair("\"en\"", "  en  ", "=");
	pair("\"a\"", "ab", "<");
	pair("\"b\"", "ab", ">");
	pair("\"\"", "", "=");
	pair("\"Z\"", "a", "<");
	pair("\"\xc3\xa9\"", "z", ">");
	pair("{\"$bin\":\"/w==\"}", "~", ">");
	pair("\" x\"", "\" x\"", "=");
	pair("\"2023-01-05\"", "\"2024\"", "<");
	pair("\"a\\u0000b\"", "\"a\\u0000b\"", "=");
	pair("\"1.0\"", "\"1\"", ">");
}

static void other_types_are_different_and_have_no_order(void)
{
	CHECK(ask("{\"x\":\"7\"}", "x==7") == 'T');
	CHECK(ask("{\"x\":\"7\"}", "x==7.0") == 'F');
	CHECK(ask("{\"x\":\"7\"}", "x!=8") == 'T');
	CHECK(ask("{\"x\":\"7\"}", "x<8") == 'b');
	CHECK(ask("{\"x\":7}", "x==seven") == 'F');
	CHECK(ask("{\"x\":7}", "x==\"7\"") == 'F');
	CHECK(ask("{\"x\":7}", "x!=\"7\"") == 'T');
	CHECK(ask("{\"x\":7}", "x<seven") == 'b');
	CHECK(ask("{\"x\":true}", "x==true") == 'T');
	CHECK(ask("{\"x\":true}", "x==false") == 'F');
	CHECK(ask("{\"x\":true}", "x!=false") == 'T');
	CHECK(ask("{\"x\":true}", "x==1") == 'F');
	CHECK(ask("{\"x\":true}", "x>=true") == 'b');
	CHECK(ask("{\"x\":\"true\"}", "x==true") == 'T');
	CHECK(ask("{\"x\":null}", "x==null") == 'T');
	CHECK(ask("{\"x\":null}", "x!=null") == 'F');
	CHECK(ask("{\"x\":null}", "x>0") == 'b');
	CHECK(ask("{\"x\":[1]}", "x==[1]") == 'F');
	CHECK(ask("{\"x\":[1]}", "x>1") == 'b');
	CHECK(ask("{\"x\":{\"y\":1}}", "x!=1") == 'T');
}

static void regular_expressions(void)
{
	CHECK(ask("{\"x\":\"page-12\"}", "x=~^page-[0-9]+$") == 'T');
	CHECK(ask("{\"x\":\"page-12x\"}", "x=~^page-[0-9]+$") == 'F');
	CHECK(ask("{\"x\":\"page-12x\"}", "x!~^page-[0-9]+$") == 'T');
	CHECK(ask("{\"x\":\"a\\u0000b\"}", "x=~b$") == 'T');
	CHECK(ask("{\"x\":\"a\\u0000b\"}", "x=~^a$") == 'F');
	CHECK(ask("{\"x\":\" y\"}", "x=~^ y") == 'T');
	CHECK(ask("{\"x\":\"a\\nb\"}", "x=~^b") == 'F');
	CHECK(ask("{\"x\":\"a\\nb\"}", "x=~a.b") == 'T');
	CHECK(ask("{\"x\":\"aXbX\"}", "x=~^(aX|bX)+$") == 'T');
	CHECK(ask("{\"x\":\"abab\"}", "x=~^(ab){2}$") == 'T');
	CHECK(ask("{\"x\":{\"$bin\":\"/w==\"}}", "x=~^.$") == 'T');
	CHECK(ask("{\"x\":7}", "x=~7") == 'b');
	CHECK(ask("{\"x\":7}", "x!~7") == 'b');
	CHECK(ask("{\"x\":\"\"}", "x=~(") == '!');
	CHECK(ask("{\"x\":\"\"}", "x=~") == 'T');
}

static void fields_are_named(void)
{
	CHECK(ask("{\"x\":null}", "?x") == 'T');
	CHECK(ask("{\"x\":null}", " ?y") == 'F');
	CHECK(ask("{\"x\":1}", "y==1") == 'n');
	CHECK(ask("{\"x\":1}", "y!=1") == 'n');
	CHECK(ask("{\"a=b\":1}", "\"a=b\"==1") == 'T');
	CHECK(ask("{\"a=b\":1}", "?\"a=b\"") == 'T');
	CHECK(ask("{\" x\":1}", "\" x\" > 0") == 'T');
	CHECK(ask("{\"a b\":1}", "a b > 0") == 'T');
	CHECK(ask("{\"q\\\"\":1}", "\"q\\\"\"==1") == 'T');
}

static void what_cannot_be_read_is_refused(void)
{
	static const char *const bad[] = { "", " ", "x", "=x", "==1", "x=1", "x!1", "x!", "x~1", "?", "?x==1", "\"x==1",
		                           "\"a\\u0000\"==1", "x==\"a", "x==\"\\q\"", "x==\"a\"b", "x=~[", "\"x\"y==1" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (ask("{\"x\":1}", bad[i]) != '!')
			printf("# '%s'\n", bad[i]);
		CHECK(ask("{\"x\":1}", bad[i]) == '!');
	}
}

static void all_must_hold_in_order(void)
{
	struct lx_tests t = { 0 };
	struct lx_err e = LX_ERR_INIT;
	struct lx_test_why why;
	struct lx_buf a = fields("{\"x\":1}"), b = fields("{\"x\":2,\"y\":1}"), c = fields("{\"x\":2}");
	CHECK(lx_tests_add(&t, "x==2", &e) == 0 && lx_tests_add(&t, "y==1", &e) == 0);
	CHECK(lx_tests_ask(&t, lx_buf_view(&a), &why) == LX_TEST_FALSE); /* y is not asked for any more */
	CHECK(lx_tests_ask(&t, lx_buf_view(&b), &why) == LX_TEST_TRUE);
	CHECK(lx_tests_ask(&t, lx_buf_view(&c), &why) == LX_TEST_FAILED && strcmp(why.message, "no field 'y'") == 0);
	lx_tests_release(&t);
	lx_buf_free(&a);
	lx_buf_free(&b);
	lx_buf_free(&c);
}

int main(void)
{
	RUN(whole_numbers_compare_exactly);
	RUN(whole_numbers_compare_with_floats);
	RUN(floats_compare);
	RUN(a_value_is_rounded_to_the_field_s_float32);
	RUN(numbers_beyond_64_bits_compare_exactly);
	RUN(random_pairs_compare_like_128_bit_integers);
	RUN(what_is_no_number_has_no_order);
	RUN(strings_compare_by_bytes);
	RUN(other_types_are_different_and_have_no_order);
	RUN(regular_expressions);
	RUN(fields_are_named);
	RUN(what_cannot_be_read_is_refused);
	RUN(all_must_hold_in_order);
	return tap_done();
}

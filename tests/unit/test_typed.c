#include "tap.h"
#include "typed.h"

/* What `out` becomes for -o ARG, as JSON; or the reason. */
static const char *made(const char *arg, const char *out, size_t len)
{
	static char text[LX_ERR_MAX];
	struct lx_typed t = LX_TYPED_INIT;
	struct lx_buf value = { 0 }, json = { 0 };
	struct lx_err e = LX_ERR_INIT;
	if (lx_typed_parse(&t, arg, &e) < 0) {
		strcpy(text, e.msg);
	} else {
		const char *why = lx_typed_pack(&t, (struct lx_span){ (const uint8_t *)out, len }, &value);
		if (!why && lx_json_write(&json, lx_buf_view(&value), &e) < 0)
			why = e.msg;
		snprintf(text, sizeof(text), "%s", why ? why : lx_buf_cstr(&json));
	}
	lx_typed_release(&t);
	lx_buf_free(&value);
	lx_buf_free(&json);
	return text;
}

#define MADE(arg, out, want) \
	do { \
		const char *got = made(arg, out, sizeof(out) - 1); \
		if (strcmp(got, want)) \
			printf("# %s\n", got); \
		CHECK(!strcmp(got, want)); \
	} while (0)

static void text_loses_one_newline(void)
{
	MADE("f", "a\n\n", "\"a\\n\"");
	MADE("f", "", "\"\"");
	MADE("f", "a\xff\n", "{\"$bin\":\"Yf8K\"}");
	MADE("f:str", "a\n", "\"a\"");
	MADE("f:str", "\xff", "the output is not UTF-8");
	MADE("f:bin", "a\n", "{\"$bin\":\"YQo=\"}");
}

static void numbers_are_whole_and_in_range(void)
{
	MADE("f:int", " 12 \n", "12");
	MADE("f:int", "-9223372036854775808", "-9223372036854775808");
	MADE("f:int", "18446744073709551615", "18446744073709551615");
	static const char *const bad[] = {
		"18446744073709551616", "-9223372036854775809", "", " ", "1x", "0x10", "--1", "1 2", "+-1"
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!strcmp(made("f:int", bad[i], strlen(bad[i])), "the output is not an integer of 64 bits"));
	MADE("f:int", "1\0", "the output is not an integer of 64 bits");
	MADE("f:float", "1e3\n", "1000.0");
	MADE("f:float", "1e999", "the output is not a number");
	MADE("f:float", "one", "the output is not a number");
}

static void json_is_one_value(void)
{
	MADE("f:json", " {\"a\":[1,2]}\n", "{\"a\":[1,2]}");
	MADE("f:json", "{\"$bin\":\"YQ==\"}", "{\"$bin\":\"YQ==\"}");
	CHECK(strlen(made("f:json", "{", 1)) > 3);
	CHECK(strlen(made("f:json", "1 2", 3)) > 3);
}

static void a_type_that_is_none_is_refused(void)
{
	MADE("f:number", "", "-o: 'number' is none of the types str, bin, int, float, json");
	MADE(":int", "", "-o: the name of the field is missing in ':int'");
}

int main(void)
{
	RUN(text_loses_one_newline);
	RUN(numbers_are_whole_and_in_range);
	RUN(json_is_one_value);
	RUN(a_type_that_is_none_is_refused);
	return tap_done();
}

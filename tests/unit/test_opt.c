#include "opt.h"

#include "tap.h"

static struct {
	bool flag;
	const char *str;
	uint64_t num, size, ms, sec;
	struct lx_strs list, names;
	int called;
} got;

static int call(void *to, const char *arg, struct lx_err *e)
{
	++*(int *)to;
	return strcmp(arg, "bad") ? 0 : lx_err_set(e, LX_USAGE, "'%s' will not do", arg);
}

static const struct lx_opt table[] = {
	{ 'f', "flag", LX_OPT_FLAG, &got.flag, 0, 0, NULL },
	{ 'o', "out-field", LX_OPT_STR, &got.str, 0, 0, NULL },
	{ 'n', "count", LX_OPT_UINT, &got.num, 1, 100, NULL },
	{ 0, "mem", LX_OPT_SIZE, &got.size, 1u << 20, 0, NULL },
	{ 0, "linger", LX_OPT_MS, &got.ms, 0, 0, NULL },
	{ 0, "timeout", LX_OPT_SEC, &got.sec, 1, 60000, NULL },
	{ 'W', NULL, LX_OPT_LIST, &got.list, 0, 0, NULL },
	{ 0, "drop", LX_OPT_NAMES, &got.names, 0, 0, NULL },
	{ 'c', "call", LX_OPT_CALL, &got.called, 0, 0, call },
	{ 0 },
};

static struct lx_err err;
static bool dashes;

static int parse(const char *line)
{
	static char copy[512];
	static char *argv[32];
	int argc = 0;
	lx_strs_free(&got.list);
	lx_strs_free(&got.names);
	memset(&got, 0, sizeof(got));
	err = (struct lx_err)LX_ERR_INIT;
	snprintf(copy, sizeof(copy), "lx-test %s", line);
	for (char *rest = copy, *word; (word = strsep(&rest, " "));)
		argv[argc++] = word;
	argv[argc] = NULL;
	return lx_opt_parse(argc, argv, table, &dashes, &err);
}

/* Refused with exit 2 and exactly this message. */
static bool refused(const char *line, const char *message)
{
	int rc = parse(line);
	if (rc == -1 && err.code == LX_USAGE && strcmp(err.msg, message) == 0)
		return true;
	printf("# %s: %d, code %d, '%s'\n", line, rc, err.code, err.msg);
	return false;
}

static void every_kind_is_stored(void)
{
	CHECK(parse("-f -o text -n 12 --mem 2M --linger 10 --timeout 1.5 -W a -Wb -W c --drop x,y --drop z -c good file") == 23);
	CHECK(got.flag && strcmp(got.str, "text") == 0 && got.num == 12 && got.size == 2u << 20);
	CHECK(got.ms == 10 && got.sec == 1500 && got.called == 1);
	CHECK(got.list.n == 3 && strcmp(got.list.v[1], "b") == 0 && got.list.v[3] == NULL);
	CHECK(got.names.n == 3 && lx_strs_has(&got.names, "y") && lx_strs_has(&got.names, "z") && !lx_strs_has(&got.names, "x,y"));
	CHECK(parse("--out-field=a=b --count=100") == 3 && strcmp(got.str, "a=b") == 0 && got.num == 100);
}

static void options_end_at_an_operand_or_dashes(void)
{
	CHECK(parse("-f cmd -o x") == 2 && !dashes && !got.str);
	CHECK(parse("-f -- cmd -o x") == 3 && dashes && !got.str);
	CHECK(parse("-f -o -- cmd") == 4 && !dashes && strcmp(got.str, "--") == 0);
	CHECK(parse("-f") == 2 && !dashes);
	CHECK(parse("--") == 2 && dashes);
	CHECK(parse("- x") == 1 && !dashes);
}

static void bad_usage_names_the_option(void)
{
	CHECK(refused("-x", "unknown option -x (-h shows the usage)"));
	CHECK(refused("-fx", "unknown option -x (-h shows the usage)"));
	CHECK(refused("--nope=3", "unknown or ambiguous option --nope=3 (-h shows the usage)"));
	CHECK(refused("-n", "-n needs a value"));
	CHECK(refused("--count", "--count needs a value"));
	CHECK(refused("--flag=yes", "--flag takes no value"));
	CHECK(refused("--out-field= f", "--out-field: the value is empty"));
	CHECK(refused("--drop a,,b", "--drop: an empty name in 'a,,b'"));
	CHECK(refused("-c bad", "-c: 'bad' will not do"));
}

static void numbers_are_whole_and_in_range(void)
{
	CHECK(refused("-n 12x", "-n: '12x' is not a whole number"));
	CHECK(refused("-n -1", "-n: '-1' is not a whole number"));
	CHECK(refused("-n +1", "-n: '+1' is not a whole number"));
	CHECK(refused("-n 1.0", "-n: '1.0' is not a whole number"));
	CHECK(refused("--count= f", "--count: '' is not a whole number"));
	CHECK(refused("-n 99999999999999999999", "-n: '99999999999999999999' is too large"));
	CHECK(refused("-n 0", "-n: 0 is below 1"));
	CHECK(refused("--count 101", "--count: 101 is above 100"));
	CHECK(got.num == 0);
	uint64_t v = 0;
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_opt_uint("x", "18446744073709551615", 0, 0, &v, &err) == 0 && v == UINT64_MAX);
}

static void sizes_have_suffixes(void)
{
	CHECK(parse("--mem 1048576") > 0 && got.size == 1u << 20);
	CHECK(parse("--mem 2048k") > 0 && got.size == 2u << 20);
	CHECK(parse("--mem 3G") > 0 && got.size == 3ull << 30);
	CHECK(parse("--mem 16777215T") > 0 && got.size == 16777215ull << 40);
	CHECK(refused("--mem 16777216T", "--mem: '16777216T' is too large"));
	CHECK(refused("--mem 1K", "--mem: 1024 bytes is below 1048576 bytes"));
	CHECK(refused("--mem M", "--mem: 'M' is not a size (bytes, or with K, M, G or T)"));
	CHECK(refused("--mem 1MB", "--mem: '1MB' is not a size (bytes, or with K, M, G or T)"));
	CHECK(refused("--mem 1P", "--mem: '1P' is not a size (bytes, or with K, M, G or T)"));
}

static void times_have_suffixes(void)
{
	CHECK(parse("--linger 0") > 0 && got.ms == 0);
	CHECK(parse("--linger 0.5s") > 0 && got.ms == 500);
	CHECK(parse("--linger 2m") > 0 && got.ms == 120000);
	CHECK(parse("--linger 1.5h") > 0 && got.ms == 5400000);
	CHECK(parse("--timeout 250ms") > 0 && got.sec == 250);
	CHECK(parse("--timeout 0.001") > 0 && got.sec == 1);
	CHECK(refused("--timeout 0.0001", "--timeout: '0.0001' is finer than a millisecond"));
	CHECK(refused("--timeout 61", "--timeout: 61000 ms is above 60000 ms"));
	CHECK(refused("--timeout 1.", "--timeout: '1.' is not a time (a number with ms, s, m or h)"));
	CHECK(refused("--timeout .5", "--timeout: '.5' is not a time (a number with ms, s, m or h)"));
	CHECK(refused("--timeout 1d", "--timeout: '1d' is not a time (a number with ms, s, m or h)"));
	CHECK(refused("--linger 18446744073709551615s", "--linger: '18446744073709551615s' is too large"));
}

int main(void)
{
	RUN(every_kind_is_stored);
	RUN(options_end_at_an_operand_or_dashes);
	RUN(bad_usage_names_the_option);
	RUN(numbers_are_whole_and_in_range);
	RUN(sizes_have_suffixes);
	RUN(times_have_suffixes);
	lx_strs_free(&got.list);
	lx_strs_free(&got.names);
	return tap_done();
}

#include "tmpl.h"

#include "tap.h"

static struct lx_err err;
static struct lx_plan plan;
static struct lx_buf bytes, arena;
static struct lx_tmpl_why why;

#define ARGV(...) ((char *[]){ __VA_ARGS__, NULL })

/* Two domains: doc (fields path, name) and page (fields data, image_path, image-url). */
static void make_plan(void)
{
	static const char *const doc[] = { "path", "name", NULL }, *const page[] = { "data", "image_path", "image-url", NULL };
	lx_plan_init(&plan);
	strcpy(plan.run, "run-7");
	strcpy(plan.domains[0].name, "doc");
	plan.domains[0].parent = -1;
	plan.n_domains = 1;
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_plan_op(&plan, "lx-in", 0, NULL, doc, NULL, &err) == 0);
	CHECK(lx_plan_expand(&plan, "page", 0, (struct lx_tolerance){ 0 }, &err) == 1);
	CHECK(lx_plan_op(&plan, "lx-expand", 1, NULL, page, NULL, &err) == 0);
}

/* One field of an item: text (bin), or an encoded value. */
struct field {
	const char *name;
	struct lx_span text, value;
};
#define TEXT(n, s) { n, { (const uint8_t *)s, sizeof(s) - 1 }, { 0 } }

/* Item 12.3 of page, or 12 of doc with a key. */
static struct lx_rec item(int domain, const struct field *f, size_t n)
{
	struct lx_id id = { .n = (uint32_t)domain + 1, .ord = { 12, 3 } };
	struct lx_limits limits = LX_LIMITS_DEFAULT;
	struct lx_buf key = { 0 };
	struct lx_rec r = { 0 };
	size_t used;
	lx_buf_clear(&bytes);
	lx_rec_item_head(&bytes, (uint32_t)domain, &id);
	lx_pack_map(&bytes, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		lx_pack_cstr(&bytes, f[i].name);
		if (f[i].value.p)
			lx_buf_span(&bytes, f[i].value);
		else
			lx_pack_bin(&bytes, f[i].text);
	}
	lx_pack_cstr(&key, "the key");
	if (domain == 0)
		lx_buf_span(&bytes, lx_buf_view(&key));
	lx_buf_free(&key);
	CHECK(lx_rec_parse(bytes.p, bytes.len, &limits, &r, &used, &err) == 0);
	return r;
}

static struct lx_tmpl *make(char *const *argv)
{
	err = (struct lx_err)LX_ERR_INIT;
	return lx_tmpl_new(argv, &err);
}

/* What the one element becomes for the item, with the fields name=N, path=-p, image-url=U. NULL: why. */
static const char *filled(const char *element)
{
	static const struct field f[] = { TEXT("name", "N"), TEXT("path", "-p"), TEXT("x_path", "-q"), TEXT("image-url", "U"), TEXT("e", "") };
	struct lx_rec r = item(1, f, 5);
	char *argv[] = { (char *)"true", (char *)element, NULL };
	struct lx_tmpl *t = make(argv);
	if (!t) {
		printf("# %s\n", err.msg);
		return "refused";
	}
	lx_buf_clear(&arena);
	char **got = lx_tmpl_fill(t, &r, "/tmp/d", &arena, &why);
	lx_tmpl_free(t);
	return got && strcmp(got[0], "true") == 0 && !got[2] ? got[1] : NULL;
}

static bool gives(const char *element, const char *want)
{
	const char *got = filled(element);
	if (got && strcmp(got, want) == 0)
		return true;
	printf("# %s gives '%s', not '%s'\n", element, got ? got : why.message, want);
	return false;
}

static void names_are_filled_in(void)
{
	CHECK(gives("{name}", "N") && gives("a{name}b{name}", "aNbN") && gives("{id}", "12.3") && gives("{ordinal}", "3"));
	CHECK(gives("{dir}/x", "/tmp/d/x") && gives("--url={image-url}", "--url=U") && gives("[{e}]", "[]") && gives("{e}", ""));
}

static void other_braces_are_literal(void)
{
	CHECK(gives("{}", "{}") && gives("", "") && gives("{", "{") && gives("}", "}") && gives("{name", "{name") && gives("name}", "name}"));
	CHECK(gives("a{3}", "a{3}") && gives("{print $1}", "{print $1}") && gives("{a:{b:1}}", "{a:{b:1}}") && gives("{a,b}", "{a,b}"));
	CHECK(gives("{{}}", "{{}}") && gives("${name}", "${name}") && gives("${{name}}{name}", "${{name}}N") && gives("a${x}{name}$", "a${x}N$") && gives("{ name }", "{ name }"));
}

static void doubled_braces_around_a_name_stand_for_single_ones(void)
{
	CHECK(gives("{{name}}", "{name}") && gives("{{{name}}}", "{N}") && gives("{{{{name}}}}", "{{name}}"));
	CHECK(gives("{{what}}", "{what}") && gives("x{{{{{name}}}}}y", "x{{N}}y"));
	CHECK(gives("{a:{name}}", "{a:N}") && gives("{{name}", "{N") && gives("{name}}}", "N}}"));
	CHECK(gives("{{name}}{name}", "{name}N"));
}

static void a_leading_dash_of_a_path_is_no_option(void)
{
	CHECK(gives("{path}", "./-p") && gives("{x_path}", "./-q") && gives("{path}.txt", "./-p.txt"));
	CHECK(gives("in={path}", "in=-p") && gives("{e}{path}", "-p"));
}

/* Fill "true {x}" and give the text of x. */
static char *fill_x(struct lx_span text, struct lx_span value)
{
	struct field f = { "x", text, value };
	struct lx_rec r = item(1, &f, 1);
	struct lx_tmpl *t = make(ARGV((char *)"true", (char *)"{x}"));
	lx_buf_clear(&arena);
	char **got = t ? lx_tmpl_fill(t, &r, NULL, &arena, &why) : NULL;
	lx_tmpl_free(t);
	return got ? got[1] : NULL;
}

static char *fill_text(const char *s, size_t n)
{
	return fill_x((struct lx_span){ (const uint8_t *)s, n }, (struct lx_span){ 0 });
}

static void any_bytes_stay_within_their_argument(void)
{
	static const char nasty[] = "-x a  b\n\"'`$(id)\\ {name} {{e}} \xff\xfe\x01";
	char *got = fill_text(nasty, sizeof(nasty) - 1);
	CHECK(got && strcmp(got, nasty) == 0);
	CHECK(!fill_text("a\0b", 3) && strcmp(why.type, "bad-field") == 0 && strstr(why.message, "NUL"));
	CHECK(!fill_text("\0", 1));
}

static bool encoded_gives(const char *value, size_t n, const char *want)
{
	char *got = fill_x((struct lx_span){ 0 }, (struct lx_span){ (const uint8_t *)value, n });
	if (got && want && strcmp(got, want) == 0)
		return true;
	if (!got && !want && strcmp(why.type, "bad-field") == 0)
		return true;
	printf("# '%s', not '%s'\n", got ? got : why.message, want ? want : "a failure");
	return false;
}
#define GIVES(v, want) CHECK(encoded_gives(v, sizeof(v) - 1, want))

static void values_have_a_text(void)
{
	GIVES("\xc0", "");
	GIVES("\xc3", "true");
	GIVES("\xc2", "false");
	GIVES("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615");
	GIVES("\xd3\x80\x00\x00\x00\x00\x00\x00\x00", "-9223372036854775808");
	GIVES("\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a", "0.1");
	GIVES("\xca\x3d\xcc\xcc\xcd", "0.1");
	GIVES("\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "nan");
	GIVES("\xa2\xc3\xa9", "\xc3\xa9");
	GIVES("\xc7\x03\x01" "1e9", "1e9"); /* a JSON number kept as text */
	GIVES("\xc7\x03\x02" "abc", NULL);
	GIVES("\x91\x01", NULL);
	GIVES("\x80", NULL);
}

static void an_absent_field_fails_the_item(void)
{
	CHECK(filled("{name}{nope}") == NULL && strcmp(why.type, "no-field") == 0);
	CHECK(strcmp(why.message, "{nope}: the item has no such field") == 0);
	CHECK(filled("{key}") == NULL && strcmp(why.type, "no-field") == 0); /* not a root item */
}

static bool refused(char *const *argv, const char *in_message)
{
	struct lx_tmpl *t = make(argv);
	bool good = !t && err.code == LX_USAGE && strstr(err.msg, in_message);
	if (!good)
		printf("# %s %s: '%s'\n", argv[0], argv[1], t ? "accepted" : err.msg);
	lx_tmpl_free(t);
	return good;
}
#define REFUSED(message, ...) CHECK(refused((char *[]){ __VA_ARGS__, NULL }, message))

static bool accepted(char *const *argv)
{
	struct lx_tmpl *t = make(argv);
	if (!t)
		printf("# %s %s: %s\n", argv[0], argv[1], err.msg);
	lx_tmpl_free(t);
	return t != NULL;
}
#define ACCEPTED(...) CHECK(accepted((char *[]){ __VA_ARGS__, NULL }))
#define S(s) ((char *)(s))

static void no_template_reaches_a_shell(void)
{
	REFUSED("LX_FIELD_path", S("sh"), S("-c"), S("cat {path}"));
	REFUSED("'/bin/bash'", S("/bin/bash"), S("-ec"), S("cat {path}"));
	REFUSED("script", S("bash"), S("-o"), S("pipefail"), S("-c"), S("a | b {id}"));
	REFUSED("script", S("bash"), S("-c"), S("-e"), S("--"), S("cat {path}"));
	REFUSED("script", S("sh"), S("-{flags}"), S("x"));
	REFUSED("script", S("zsh"), S("-o"), S("{opt}"), S("-c"), S("x"));
	REFUSED("script", S("sh"), S("{mode}"), S("cat {path}"));
	REFUSED("script", S("env"), S("A=1"), S("sh"), S("-c"), S("cat {path}"));
	REFUSED("script", S("timeout"), S("-s"), S("KILL"), S("5"), S("nice"), S("dash"), S("-c"), S("cat {path}"));
	REFUSED("'ssh' gives '{path}' to a shell", S("ssh"), S("host"), S("cat"), S("{path}"));
	REFUSED("'su' gives", S("sudo"), S("su"), S("-c"), S("cat {path}"));
	REFUSED("the program '{path}'", S("{path}"));
}

static void what_is_safe_is_accepted(void)
{
	ACCEPTED(S("sh"), S("-c"), S("cat \"$1\""), S("sh"), S("{path}"));
	ACCEPTED(S("sh"), S("-c"), S("cat \"$LX_FIELD_path\" | jq '{{a}}'"));
	ACCEPTED(S("sh"), S("-c"), S("echo \"${HOME}\" \"${LX_FIELD_path}\""));
	ACCEPTED(S("sh"), S("script.sh"), S("{name}"));
	ACCEPTED(S("sh"), S("{path}"));
	ACCEPTED(S("bash"), S("-o"), S("pipefail"), S("-c"), S("cat \"$1\""), S("{name}"));
	ACCEPTED(S("ssh"), S("host"), S("cat"));
	ACCEPTED(S("grep"), S("-c"), S("{name}"), S("sh"), S("-c"), S("{path}"));
	ACCEPTED(S("timeout"), S("5"), S("cat"), S("{path}"));
	struct lx_err e = LX_ERR_INIT;
	CHECK(!lx_tmpl_new((char *[]){ NULL }, &e) && e.code == LX_USAGE);
}

static void fields_are_known_each_once(void)
{
	struct lx_tmpl *t = make(ARGV(S("true"), S("{a}{id}{b}"), S("{a}{key}"), S("$LX_FIELD_c ${LX_FIELD_a}")));
	const struct lx_strs *f = lx_tmpl_fields(t);
	CHECK(f->n == 3 && lx_strs_has(f, "a") && lx_strs_has(f, "b") && lx_strs_has(f, "c") && !lx_tmpl_uses_dir(t));
	lx_tmpl_free(t);
	t = make(ARGV(S("true"), S("{dir}")));
	CHECK(lx_tmpl_uses_dir(t) && lx_tmpl_fields(t)->n == 0);
	lx_tmpl_free(t);
}

/* -1: refused with LX_USAGE and these words. */
static int check(const char *element, int domain, const char *words)
{
	struct lx_tmpl *t = make(ARGV(S("true"), S(element)));
	int rc = lx_tmpl_check(t, &plan, domain, &err);
	if (rc < 0 && (err.code != LX_USAGE || !strstr(err.msg, words)))
		printf("# %s\n", err.msg), rc = -2;
	lx_tmpl_free(t);
	return rc;
}

static void names_are_checked_before_it_runs(void)
{
	make_plan();
	CHECK(check("{path} {name} {id} {key} {dir}", 0, "") == 0);
	CHECK(check("{data} {image-url}", 1, "") == 0);
	CHECK(check("{path}", 1, "write {{path}} for literal text") == -1);
	CHECK(check("{txet}", 0, "'txet'") == -1);
	CHECK(check("{{txet}}", 0, "") == 0);
	CHECK(check("$LX_FIELD_txet", 0, "LX_FIELD_txet") == -1);
	CHECK(check("{key}", 1, "only items of doc have a key") == -1);
	static const char *const any[] = { "*", NULL };
	CHECK(lx_plan_op(&plan, "lx-in", 0, NULL, any, NULL, &err) == 0);
	CHECK(check("{txet}", 0, "") == 0);
	lx_plan_free(&plan);
}

static const char *var(char **env, const char *name)
{
	size_t n = strlen(name);
	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && ((*env)[n] == '=' || !(*env)[n]))
			return (*env)[n] ? *env + n + 1 : "(unset)";
	return "(absent)";
}

static void the_environment_tells_the_item(void)
{
	static const struct field f[] = { TEXT("data", "a b\n"), TEXT("image-url", "U"), TEXT("nul", "a\0b"),
		                          { "list", { 0 }, { (const uint8_t *)"\x90", 1 } } };
	static const char *const set[] = { "OMP_NUM_THREADS=1", NULL };
	struct lx_strs more = { 0 };
	make_plan();
	CHECK(lx_strs_add(&more, "image-url", &err) == 0 && lx_strs_add(&more, "nul", &err) == 0 && lx_strs_add(&more, "list", &err) == 0);
	struct lx_rec r = item(1, f, 4);
	struct lx_tmpl *t = make(ARGV(S("true"), S("{data}"), S("$LX_FIELD_absent")));
	struct lx_tmpl_env x = { &plan, &more, set, NULL, -1 };
	lx_buf_clear(&arena);
	char **env = lx_tmpl_env(t, &x, &r, &arena);
	CHECK(strcmp(var(env, "LX_ID"), "12.3") == 0 && strcmp(var(env, "LX_ORDINAL"), "3") == 0);
	CHECK(strcmp(var(env, "LX_DOMAIN"), "page") == 0 && strcmp(var(env, "LX_RUN_ID"), "run-7") == 0);
	CHECK(strcmp(var(env, "LX_KEY"), "(unset)") == 0 && strcmp(var(env, "LX_DIR"), "(unset)") == 0);
	CHECK(strcmp(var(env, "LX_FAIL"), "(unset)") == 0 && strcmp(var(env, "OMP_NUM_THREADS"), "1") == 0);
	CHECK(strcmp(var(env, "LX_FIELD_data"), "a b\n") == 0 && strcmp(var(env, "LX_FIELD_image_url"), "U") == 0);
	CHECK(strcmp(var(env, "LX_FIELD_nul"), "(unset)") == 0 && strcmp(var(env, "LX_FIELD_list"), "(unset)") == 0);
	CHECK(strcmp(var(env, "LX_FIELD_absent"), "(unset)") == 0 && strcmp(var(env, "LX_FIELD_name"), "(absent)") == 0);
	r = item(0, f, 1);
	x = (struct lx_tmpl_env){ &plan, NULL, NULL, "/tmp/d", 63 };
	lx_buf_clear(&arena);
	env = lx_tmpl_env(t, &x, &r, &arena);
	CHECK(strcmp(var(env, "LX_KEY"), "the key") == 0 && strcmp(var(env, "LX_DIR"), "/tmp/d") == 0 && strcmp(var(env, "LX_FAIL"), "63") == 0);
	lx_tmpl_free(t);
	lx_strs_free(&more);
	lx_plan_free(&plan);
}

static void many_arguments_fit(void)
{
	enum { N = 3000 };
	static char *argv[N + 2];
	static const struct field f[] = { TEXT("name", "a rather long value, so that the arena moves while it is filled") };
	argv[0] = S("true");
	for (int i = 1; i <= N; i++)
		argv[i] = S("{name}-{ordinal}");
	struct lx_rec r = item(1, f, 1);
	struct lx_tmpl *t = make(argv);
	lx_buf_free(&arena);
	lx_buf_byte(&arena, 'x'); /* not aligned */
	char **got = lx_tmpl_fill(t, &r, NULL, &arena, &why);
	CHECK(got && strcmp(got[0], "true") == 0 && !got[N + 1]);
	for (int i = 1; got && i <= N; i++)
		CHECK(strcmp(got[i], "a rather long value, so that the arena moves while it is filled-3") == 0);
	lx_tmpl_free(t);
}

int main(void)
{
	RUN(names_are_filled_in);
	RUN(other_braces_are_literal);
	RUN(doubled_braces_around_a_name_stand_for_single_ones);
	RUN(a_leading_dash_of_a_path_is_no_option);
	RUN(any_bytes_stay_within_their_argument);
	RUN(values_have_a_text);
	RUN(an_absent_field_fails_the_item);
	RUN(no_template_reaches_a_shell);
	RUN(what_is_safe_is_accepted);
	RUN(fields_are_known_each_once);
	RUN(names_are_checked_before_it_runs);
	RUN(the_environment_tells_the_item);
	RUN(many_arguments_fit);
	lx_buf_free(&bytes);
	lx_buf_free(&arena);
	return tap_done();
}

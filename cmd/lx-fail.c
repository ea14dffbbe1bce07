/* lx-fail: raise a failure from inside a command, mark items of a stream as failed, look after those that failed.
 *
 * Inside a command of a stage it appends a line to the descriptor that LX_FAIL names and exits 0: the verdict of the
 * item is that line, whatever status the command ends with. With --id, --key, --where, --list, --count, --only and
 * --replay it reads a stream.
 * Exits non-zero when options are wrong or no stage is there to tell (2), the input is damaged or cut off (3, 4), a
 * system call fails (5), or as an earlier stage says.
 */
#include "cmd.h"
#include "item.h"
#include "json.h"
#include "tally.h"
#include "test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage[] =
	"lx-fail [-t TYPE] [--scope SCOPE] [MESSAGE ...]\n"
	"lx-fail --id ID | --key KEY | --where TEST | --all [-qv] [-t TYPE]\n"
	"        [--scope SCOPE] [-d DOMAIN] [--from FILE] [--to FILE] [--stats FILE]\n"
	"        [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"        [--max-depth N] [--max-id N] [--max-fields N] [MESSAGE ...]\n"
	"lx-fail --list | --count [--json] [-v] [-d DOMAIN] [--to FILE]\n"
	"        [--max-record SIZE] [--max-frame SIZE] [--max-depth N]\n"
	"        [--max-id N] [--max-fields N]\n"
	"lx-fail --only | --replay [-qv] [--to FILE] [--stats FILE]\n"
	"        [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"        [--max-depth N] [--max-id N] [--max-fields N]";

#define LINE_MAX_BYTES 4096 /* PIPE_BUF: one write that stays in one piece, wherever it goes */
#define TEXT_TARGET (64u << 10)
#define ULL(x) ((unsigned long long)(x))

static struct cmd_common common = CMD_COMMON_INIT;
static const char *type = "fail", *scope;
static struct lx_strs ids, keys;
static struct lx_tests tests;
static bool all, list, count, only, replay, json;

static int add_test(void *to, const char *arg, struct lx_err *e)
{
	return lx_tests_add(to, arg, e);
}

static const struct lx_opt options[] = {
	{ 't', "type", LX_OPT_STR, &type, 0, 0, NULL },
	{ 0, "scope", LX_OPT_STR, &scope, 0, 0, NULL },
	{ 0, "id", LX_OPT_LIST, &ids, 0, 0, NULL },
	{ 0, "key", LX_OPT_LIST, &keys, 0, 0, NULL },
	{ 0, "where", LX_OPT_CALL, &tests, 0, 0, add_test },
	{ 0, "all", LX_OPT_FLAG, &all, 0, 0, NULL },
	{ 0, "list", LX_OPT_FLAG, &list, 0, 0, NULL },
	{ 0, "count", LX_OPT_FLAG, &count, 0, 0, NULL },
	{ 0, "only", LX_OPT_FLAG, &only, 0, 0, NULL },
	{ 0, "replay", LX_OPT_FLAG, &replay, 0, 0, NULL },
	{ 0, "json", LX_OPT_FLAG, &json, 0, 0, NULL },
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	CMD_FROM_OPT(common),
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

static struct {
	struct lx_stage stage;
	int out;               /* --list and --count: text goes here */
	struct lx_buf message, text, record;
	struct lx_item_text item;
	struct lx_tally types;
	bool *id_found, *key_found;
	uint64_t without_fields;
	bool forget_missing;   /* a regrouping before said what was missing, which a replay may not say again */
} f;

/* ---- words ---- */

/* Types and scopes are words, so that they can stand in columns and file names. */
static bool is_word(const char *s, const char *more)
{
	size_t n = strspn(s, more);
	return isalpha((unsigned char)s[0]) && s[n] == '\0' && n < LX_NAME_MAX;
}

/* An id as it is printed: 12.0.3. */
static bool is_id(const char *s)
{
	for (;; s++) {
		size_t n = strspn(s, "0123456789");
		if (n == 0 || (*s == '0' && n > 1))
			return false;
		s += n;
		if (*s != '.')
			return *s == '\0';
	}
}

static int check_words(struct lx_err *e)
{
	static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	static const char any[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
	if (!is_word(type, lower))
		return lx_err_set(e, LX_USAGE, "-t %s: a type is a word of a-z, 0-9 and -, such as bad-pdf", type);
	for (size_t i = 0; i < ids.n; i++)
		if (!is_id(ids.v[i]))
			return lx_err_set(e, LX_USAGE, "--id %s: an id is numbers with dots between them, such as 12.0.3", ids.v[i]);
	if (scope && *scope != '_' && !is_word(scope, any))
		return lx_err_set(e, LX_USAGE, "--scope %s: neither record, parent, nor the name of a domain", scope);
	return 0;
}

/* The operands as one line. */
static int join_message(char **words, struct lx_err *e)
{
	for (char **w = words; *w; w++) {
		if (w != words)
			lx_buf_byte(&f.message, ' ');
		lx_buf_str(&f.message, *w);
	}
	for (size_t i = 0; i < f.message.len; i++)
		if (f.message.p[i] < ' ' || f.message.p[i] == 0x7f)
			f.message.p[i] = ' ';
	return lx_buf_check(&f.message, e);
}

/* ---- inside a command ---- */

static int raise_failure(struct lx_err *e)
{
	const char *where = getenv("LX_FAIL");
	struct lx_buf *line = &f.text;
	uint64_t fd;
	if (!where)
		return lx_err_set(e, LX_USAGE, "no stage to tell: LX_FAIL is not set (outside a stage's command, name items of a stream with --id, --key or --where)");
	if (lx_opt_uint("LX_FAIL", where, 0, INT32_MAX, &fd, e) < 0)
		return -1;
	lx_buf_printf(line, "%s\t%s\t", type, scope ? scope : "record");
	size_t room = LINE_MAX_BYTES - line->len - 1, n = f.message.len;
	if (n > room) {
		n = room;
		while (n && (f.message.p[n] & 0xc0) == 0x80)
			n--; /* no character is cut */
	}
	lx_buf_add(line, f.message.p, n);
	lx_buf_byte(line, '\n');
	if (lx_buf_check(line, e) < 0)
		return -1;
	return lx_io_write((int)fd, line->p, line->len, e) < 0 ? lx_err_prefix(e, "LX_FAIL (descriptor %s)", where) : 0;
}

/* ---- marking ---- */

static bool find(const struct lx_strs *l, bool *found, struct lx_span s)
{
	bool any = false;
	for (size_t i = 0; i < l->n; i++)
		if (lx_span_eq(lx_span_str(l->v[i]), s))
			any = found[i] = true;
	return any;
}

static bool is_named(const struct lx_rec *r)
{
	char id[LX_ID_TEXT_MAX];
	struct lx_val key;
	lx_id_text(&r->id, id, sizeof(id));
	if (find(&ids, f.id_found, lx_span_str(id)))
		return true;
	return keys.n && r->key.p && lx_val_from(r->key, &key) == 0 && (key.type == LX_STR || key.type == LX_BIN) &&
	       find(&keys, f.key_found, key.s);
}

static int mark_item(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_blame blame = { .type = type, .message = lx_buf_view(&f.message), .scope = scope };
	struct lx_test_why why;
	if (all || is_named(r))
		return lx_stage_fail(&f.stage, r, &blame, e);
	switch (tests.n ? lx_tests_ask(&tests, r->fields, &why) : LX_TEST_FALSE) {
	case LX_TEST_TRUE:
		return lx_stage_fail(&f.stage, r, &blame, e);
	case LX_TEST_FAILED: /* it cannot be said, as in lx-filter */
		blame = (struct lx_blame){ .type = why.type, .message = lx_span_str(why.message) };
		return lx_stage_fail(&f.stage, r, &blame, e);
	case LX_TEST_FALSE:
		break;
	}
	return lx_stage_put(&f.stage, r, e);
}

static int mark_op(struct lx_plan *p, int domain, struct lx_err *e)
{
	struct lx_strs reads = { 0 };
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < tests.n; i++) {
		rc = lx_plan_reads(p, domain, tests.v[i].field, "--where", e);
		if (rc == 0)
			rc = lx_strs_add(&reads, tests.v[i].field, e);
	}
	if (rc == 0)
		rc = lx_plan_op(p, "lx-fail", domain, reads.v, NULL, NULL, e);
	lx_strs_free(&reads);
	return rc;
}

static int mark_plan(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	if (keys.n && s->domain != 0)
		return lx_err_set(e, LX_USAGE, "--key: only root items have keys, name items of %s with --id, or say -d %s",
		                  p->domains[s->domain].name, p->domains[0].name);
	return mark_op(p, s->domain, e);
}

static void say_unfound(const char *option, const struct lx_strs *l, const bool *found)
{
	for (size_t i = 0; i < l->n; i++)
		if (!found[i])
			cmd_say("%s %s: no present item of that name came", option, l->v[i]);
}

static int mark_end(struct lx_err *e)
{
	if (common.quiet || common.check)
		return 0;
	say_unfound("--id", &ids, f.id_found);
	say_unfound("--key", &keys, f.key_found);
	(void)e;
	return 0;
}

/* ---- listing ---- */

static int write_text(struct lx_err *e)
{
	if (lx_buf_check(&f.text, e) < 0)
		return -1;
	int rc = lx_io_write(f.out, f.text.p, f.text.len, e);
	lx_buf_clear(&f.text);
	return rc < 0 ? lx_err_prefix(e, "%s", common.to ? common.to : "stdout") : 0;
}

/* Failed or suppressed, and of the domain asked for, if one was. */
static bool is_dead(const struct lx_rec *r)
{
	return r->kind == LX_GONE && r->outcome != LX_DROPPED &&
	       (!common.domain || r->domain == (uint32_t)f.stage.domain);
}

/* A column: whatever it holds, it stays one. */
static void add_column(struct lx_span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < ' ' || s.p[i] == 0x7f)
			lx_buf_printf(&f.text, "\\x%02x", s.p[i]);
		else
			lx_buf_byte(&f.text, s.p[i]);
	}
}

/* The key of a root item, else "page 7". */
static void add_name(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_val key;
	if (!r->key.p)
		lx_buf_printf(&f.text, "%s %llu", f.stage.plan.domains[r->domain].name, ULL(lx_id_ordinal(&r->id)) + 1);
	else if (lx_val_from(r->key, &key) == 0 && (key.type == LX_STR || key.type == LX_BIN))
		add_column(key.s);
	else
		lx_json_write(&f.text, r->key, e);
}

/* 3 TAB b.pdf TAB suppressed (page 7: bad-page) TAB message */
static int list_row(const struct lx_rec *r, const struct lx_cause *c, struct lx_err *e)
{
	char id[LX_ID_TEXT_MAX], where[LX_WHERE_MAX];
	lx_id_text(&r->id, id, sizeof(id));
	lx_item_where(&f.stage.plan, r, where);
	lx_buf_printf(&f.text, "%s\t", id);
	add_name(r, e);
	lx_buf_printf(&f.text, "\t%s (%s%s", lx_outcome_name(r->outcome), where, where[0] ? ": " : "");
	add_column(c->type);
	lx_buf_str(&f.text, ")\t");
	add_column(c->message);
	return e->code ? -1 : 0;
}

static int list_record(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_cause c;
	if (!is_dead(r) || lx_cause_read(r->cause, &c) < 0)
		return 0;
	if (count)
		return lx_tally_add(&f.types, c.type), 0;
	int rc = json ? lx_item_write(&f.text, &f.item, &f.stage.plan, r, r->fields, e) : list_row(r, &c, e);
	lx_buf_byte(&f.text, '\n');
	if (rc == 0 && f.text.len >= TEXT_TARGET)
		rc = write_text(e);
	return rc;
}

static void add_count(const char *word, uint64_t n)
{
	if (!json) {
		lx_buf_printf(&f.text, "%llu\t%s\n", ULL(n), word);
		return;
	}
	lx_buf_str(&f.text, "{\"type\":");
	lx_json_cstr(&f.text, word);
	lx_buf_printf(&f.text, ",\"count\":%llu}\n", ULL(n));
}

static int list_end(struct lx_err *e)
{
	lx_tally_sort(&f.types);
	for (size_t i = 0; i < f.types.n; i++)
		add_count(f.types.rows[i].word, f.types.rows[i].n);
	if (f.types.other)
		add_count("(other)", f.types.other);
	return write_text(e);
}

static int list_plan(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	s->domain = common.domain ? lx_plan_domain(p, common.domain, "-d", e) : 0;
	return s->domain < 0 ? -1 : 0;
}

/* ---- splitting off, replaying ---- */

static int emit(const struct lx_rec *r, struct lx_err *e)
{
	struct lx_writer *w = &f.stage.out;
	if (lx_writer_add(w, r, e) < 0)
		return -1;
	return lx_writer_full(w) ? lx_writer_close(w, e) : 0;
}

static int only_record(const struct lx_rec *r, struct lx_err *e)
{
	return is_dead(r) ? emit(r, e) : 0;
}

static int replay_record(const struct lx_rec *r, struct lx_err *e)
{
	if (!is_dead(r) || r->domain != 0)
		return 0;
	if (!r->fields.p) {
		f.without_fields++;
		return 0;
	}
	if (!f.forget_missing) {
		lx_rec_item(&f.record, 0, &r->id, r->fields, r->key);
	} else {
		lx_rec_item_head(&f.record, 0, &r->id);
		if (lx_fields_edit(&f.record, r->fields, &(struct lx_edit){ .name = lx_span_str("missing") }, 1, &common.limits, e) < 0)
			return -1;
		lx_buf_span(&f.record, r->key);
	}
	return lx_stage_emit_buf(&f.stage, &f.record, e);
}

/* Whether lx-gather set `missing` on root items. It does where something is, so an old list would outlive its reason. */
static bool sets_missing(const struct lx_plan *p)
{
	for (int i = 0; i < p->n_ops; i++)
		for (char **w = p->ops[i].domain == 0 && strcmp(p->ops[i].tool, "lx-gather") == 0 ? p->ops[i].writes : NULL; w && *w; w++)
			if (strcmp(*w, "missing") == 0)
				return true;
	return false;
}

/* The pipeline starts again: only root items, with the fields they had when they failed. */
static int replay_plan(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	static const char *const any[] = { "*", NULL };
	(void)ctx;
	(void)s;
	f.forget_missing = sets_missing(p);
	lx_plan_free(p);
	p->n_domains = 1;
	return lx_plan_op(p, "lx-fail", 0, NULL, any, NULL, e);
}

static int only_plan(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	(void)s;
	return lx_plan_op(p, "lx-fail", 0, NULL, NULL, NULL, e);
}

static int replay_end(struct lx_err *e)
{
	(void)e;
	if (f.without_fields && !common.quiet)
		cmd_say("%llu left out: no fields were kept", ULL(f.without_fields));
	return 0;
}

static int no_end(struct lx_err *e)
{
	(void)e;
	return 0;
}

/* ---- a stream ---- */

struct mode {
	int (*plan)(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e);
	int (*record)(const struct lx_rec *r, struct lx_err *e);
	int (*end)(struct lx_err *e); /* all is read */
	bool filter;                  /* else it takes every record itself */
	bool text;                    /* it writes no stream */
};
static const struct mode marking = { mark_plan, mark_item, mark_end, true, false };
static const struct mode listing = { list_plan, list_record, list_end, false, true };
static const struct mode splitting = { only_plan, only_record, no_end, false, false };
static const struct mode replaying = { replay_plan, replay_record, replay_end, false, false };

static int wait_input(const struct mode *m, struct lx_err *e)
{
	if (m->text && !lx_io_ready(f.stage.conf.in) && write_text(e) < 0)
		return -1;
	return lx_stage_wait(&f.stage, e);
}

static int end_run(struct lx_err *e)
{
	return lx_stage_end_run(&f.stage, e) < 0 ? -1 : cmd_stats(&common, &f.stage, "", e);
}

static int run(const struct mode *m, struct lx_err *e)
{
	struct lx_rec r;
	for (;;) {
		int rc = 0;
		switch (lx_stage_next(&f.stage, &r, e)) {
		case LX_STEP_ERROR:
			return -1;
		case LX_STEP_MORE:
			rc = wait_input(m, e);
			break;
		case LX_STEP_ITEM:
		case LX_STEP_REC:
			rc = m->record(&r, e);
			break;
		case LX_STEP_FRAME:
			break;
		case LX_STEP_RUN:
			rc = end_run(e);
			break;
		case LX_STEP_EOF:
			return m->end(e);
		}
		if (rc < 0)
			return -1;
	}
}

/* What arrived is listed all the same. */
static void give_up(const struct mode *m, const struct lx_err *why)
{
	struct lx_err ignored = LX_ERR_INIT;
	lx_stage_abort(&f.stage, why);
	if (m->text && (why->code != LX_SYSTEM || why->upstream))
		list_end(&ignored);
}

static int open_stage(const struct mode *m, struct lx_err *e)
{
	struct lx_stage_conf sc;
	f.id_found = calloc(ids.n + 1, sizeof(bool));
	f.key_found = calloc(keys.n + 1, sizeof(bool));
	if (!f.id_found || !f.key_found)
		return lx_err_sys(e, "names of items");
	if (cmd_stage_conf(&common, &sc, e) < 0)
		return -1;
	f.out = sc.out;
	sc.plan = m->plan;
	sc.keep_frames = sc.keep_parts = m->filter;
	sc.take_all = sc.any_domain = !m->filter;
	if (m->text)
		sc.out = -1;
	return lx_stage_init(&f.stage, &sc, e);
}

/* ---- the command ---- */

static bool marks(void)
{
	return ids.n || keys.n || tests.n || all;
}

static const struct mode *pick_mode(void)
{
	if (list || count)
		return &listing;
	if (only)
		return &splitting;
	if (replay)
		return &replaying;
	return marks() ? &marking : NULL;
}

/* Whether standard output is to become a stream. */
static bool makes_stream(void)
{
	const struct mode *m = pick_mode();
	return m && !m->text;
}

static int check_options(char **operands, struct lx_err *e)
{
	if (list + count + only + replay + marks() > 1)
		return lx_err_set(e, LX_USAGE, "--list, --count, --only, --replay, and --id, --key, --where or --all: choose one");
	if (common.from && !marks())
		return lx_err_set(e, LX_USAGE, "--from: only with --id, --key, --where and --all");
	if (json && !list && !count)
		return lx_err_set(e, LX_USAGE, "--json: only with --list and --count");
	if (common.domain && (only || replay || !pick_mode()))
		return lx_err_set(e, LX_USAGE, "-d: only with --id, --where, --all, --list and --count");
	if (*operands && (list || count || only || replay))
		return lx_err_set(e, LX_USAGE, "'%s': a message is for items that are to fail", *operands);
	return check_words(e);
}

static int run_stream(const struct mode *m, struct lx_err *e)
{
	if (open_stage(m, e) < 0)
		return -1;
	if (run(m, e) == 0)
		return 0;
	give_up(m, e);
	return -1;
}

static void release(void)
{
	lx_buf_free(&f.message);
	lx_buf_free(&f.text);
	lx_buf_free(&f.record);
	lx_item_text_free(&f.item);
	free(f.id_found);
	free(f.key_found);
	lx_strs_free(&ids);
	lx_strs_free(&keys);
	lx_tests_release(&tests);
	lx_stage_release(&f.stage);
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	f.stage.conf.out = -1;
	int first = cmd_start("lx-fail", usage, &common, &e) < 0 ? -1 : cmd_options(argc, argv, options, &e);
	common.unstarted = makes_stream();
	if (first >= 0 && check_options(argv + first, &e) == 0 && join_message(argv + first, &e) == 0) {
		const struct mode *m = pick_mode();
		if (m)
			run_stream(m, &e);
		else
			raise_failure(&e);
	}
	release();
	return cmd_finish(&common, &e);
}

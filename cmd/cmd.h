/* cmd: what the commands share and lib must not do: print, exit, read the environment.
 *
 * The shape of a main:
 *     struct lx_err e = LX_ERR_INIT;
 *     struct cmd_common c = CMD_COMMON_INIT;
 *     int first = cmd_start("lx-foo", usage, &c, &e) == 0 ? cmd_options(argc, argv, table, &e) : -1;
 *     if (first >= 0)
 *             run(...);
 *     return cmd_finish(&c, &e);
 */
#ifndef CMD_H
#define CMD_H

#include "opt.h"
#include "stage.h"

struct cmd_common {
	const char *domain;    /* -d */
	const char *in_field;  /* -i */
	const char *out_field; /* -o */
	struct lx_strs drop;   /* --drop */
	const char *stats, *trace, *from, *to, *tmpdir;
	uint64_t mem;
	bool quiet, verbose, check; /* check: LX_CHECK=1 */
	bool unstarted;        /* a stage that has not opened its stream yet: cmd_finish writes the reason there, as an abort mark */
	struct lx_limits limits;
	int packing, level;    /* --compress; -1: not said */
};

#define CMD_COMMON_INIT { .limits = LX_LIMITS_DEFAULT, .packing = -1, .level = 1 }
#define CMD_STAGE_INIT { .limits = LX_LIMITS_DEFAULT, .packing = -1, .level = 1, .unstarted = true }

/* Option table entries every stage has: -d -i -o -q -v --drop --stats --trace --to --mem --tmpdir --compress and the limits.
 * -h and -V come from cmd_options. */
#define CMD_COMMON_OPTS(c) \
	{ 'd', "domain", LX_OPT_STR, &(c).domain, 0, 0, NULL }, \
	{ 'i', "in-field", LX_OPT_STR, &(c).in_field, 0, 0, NULL }, \
	{ 'o', "out-field", LX_OPT_STR, &(c).out_field, 0, 0, NULL }, \
	CMD_STREAM_OPTS(c)
#define CMD_STREAM_OPTS(c) \
	{ 'q', "quiet", LX_OPT_FLAG, &(c).quiet, 0, 0, NULL }, \
	{ 'v', "verbose", LX_OPT_FLAG, &(c).verbose, 0, 0, NULL }, \
	{ 0, "drop", LX_OPT_NAMES, &(c).drop, 0, 0, NULL }, \
	{ 0, "stats", LX_OPT_STR, &(c).stats, 0, 0, NULL }, \
	{ 0, "trace", LX_OPT_STR, &(c).trace, 0, 0, NULL }, \
	{ 0, "to", LX_OPT_STR, &(c).to, 0, 0, NULL }, \
	{ 0, "tmpdir", LX_OPT_STR, &(c).tmpdir, 0, 0, NULL }, \
	{ 0, "mem", LX_OPT_SIZE, &(c).mem, 1u << 20, 0, NULL }, \
	{ 0, "compress", LX_OPT_CALL, &(c), 0, 0, cmd_compress }, \
	CMD_LIMIT_OPTS(c)
/* For stages that answer item by item: --from, a file instead of stdin. */
#define CMD_FROM_OPT(c) { 0, "from", LX_OPT_STR, &(c).from, 0, 0, NULL }
/* The limits alone, for commands that have only some of the others. */
#define CMD_LIMIT_OPTS(c) \
	{ 0, "max-record", LX_OPT_SIZE, &(c).limits.record, 1, 1ull << 32, NULL }, \
	{ 0, "max-frame", LX_OPT_SIZE, &(c).limits.frame, 1, 1ull << 36, NULL }, \
	{ 0, "max-depth", LX_OPT_CALL, &(c), 0, 0, cmd_max_depth }, \
	{ 0, "max-id", LX_OPT_CALL, &(c), 0, 0, cmd_max_id }, \
	{ 0, "max-fields", LX_OPT_CALL, &(c), 0, 0, cmd_max_fields }

int cmd_compress(void *common, const char *arg, struct lx_err *e); /* raw, checked, zstd, zstd:LEVEL */
int cmd_max_depth(void *common, const char *arg, struct lx_err *e);
int cmd_max_id(void *common, const char *arg, struct lx_err *e);
int cmd_max_fields(void *common, const char *arg, struct lx_err *e);

/* First call of main: fds 0-2, signals, the soft file limit raised, LX_CHECK. `tool` and `usage` are kept.
 * `usage`: the synopsis lines, without "usage: ", further lines indented as they should appear. c may be NULL here and below:
 * a command without shared options. */
int cmd_start(const char *tool, const char *usage, struct cmd_common *c, struct lx_err *e);
/* Parse options; -h prints the usage and exits 0, -V the version. Returns the first operand's index, or -1. */
int cmd_options(int argc, char **argv, const struct lx_opt *table, struct lx_err *e);
/* One line on stderr, one write: "lx-map: ...". Control bytes are shown as \xNN. */
__attribute__((format(printf, 1, 2))) void cmd_say(const char *fmt, ...);
/* Open --to (aside; renamed by cmd_finish when all went well) and return the descriptor to write to: 1 without --to.
 * Every call returns the same. -1. Opens --stats too: that it cannot be written is known before the work, not after it. */
int cmd_output(struct cmd_common *c, struct lx_err *e);
/* Last call of main, whatever happened before: print the reason of a failure once, commit --to (exit status 0 or 1) or
 * discard it, write the stats file, check that closing stdout works, raise the stop signal again; returns the exit status.
 * A reason that came in as an abort mark was printed by the stage it names; it is printed again only with -v, or when stdin is
 * a file, whose writer is long gone. (A command that reads files of its own clears e->upstream.) After a signal
 * that ends everything now no reason is printed: the death says it. */
int cmd_finish(struct cmd_common *c, struct lx_err *e);
/* The --trace file, opened by the first call; *trace is NULL without --trace. */
int cmd_trace(struct cmd_common *c, struct lx_trace **trace, struct lx_err *e);
/* Stage configuration from the shared options (in 0, which --from becomes; out cmd_output) and LX_RUN; the rest of sc is
 * zeroed. Refuses a terminal as stdin. */
int cmd_stage_conf(struct cmd_common *c, struct lx_stage_conf *sc, struct lx_err *e);
/* The loop of a stage that works on one thing at a time, until the end of its input: 0 or -1. Any but `item` and `run`
 * may be NULL. */
struct cmd_loop {
	int (*item)(const struct lx_rec *r, struct lx_err *e); /* an item, or with take_all a record */
	int (*frame)(struct lx_err *e); /* the frame at hand is done */
	int (*wait)(struct lx_err *e);  /* no whole frame is at hand; NULL: lx_stage_wait */
	int (*run)(struct lx_err *e);   /* the end of a run's input: ends with lx_stage_end_run */
	void (*broke)(void);            /* the input is damaged, cut off or given up */
};
int cmd_loop(struct lx_stage *s, const struct cmd_loop *l, struct lx_err *e);
/* Add one JSON object, on one line, to the --stats file: the sums of the stage's run so far plus `more` (JSON members
 * beginning with a comma, or ""). Once per run: after lx_stage_end_run, or when giving up. Nothing without --stats.
 *     {"stage":"lx-map","run":"r1","domain":"page",
 *      "in":{"doc":{"present":3,"dropped":0,"failed":0,"suppressed":0,"closes":0},"page":{...}},
 *      "out":{...},            absent for a sink
 *      "barred":0,"wall_ms":12,"cpu_ms":3,"child_cpu_ms":0,"max_rss_kb":4120}
 * Times are those of the process since it started; child_cpu_ms is that of children that have been reaped when the next
 * line is added, of the last line when the command ends. The file appears when the command ends. */
int cmd_stats(const struct cmd_common *c, const struct lx_stage *s, const char *more, struct lx_err *e);

#endif

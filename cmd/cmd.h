/* cmd: what the commands share and lib must not do: print, exit, read the environment. */
#ifndef CMD_H
#define CMD_H

#include "opt.h"
#include "stage.h"

struct cmd_common {
	const char *domain;    /* -d */
	const char *in_field;  /* -i */
	const char *out_field; /* -o */
	struct lx_strs drop;   /* --drop */
	const char *stats, *trace, *to, *tmpdir;
	uint64_t mem;
	bool quiet, verbose, check; /* check: LX_CHECK=1 */
	struct lx_limits limits;
	int packing, level;    /* --compress; -1: not said */
};

#define CMD_COMMON_INIT { .limits = LX_LIMITS_DEFAULT, .packing = -1, .level = 1 }

/* Option table entries every stage has: -d -i -o -q -v --drop --stats --trace --to --mem --tmpdir --compress and the limits. */
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
	{ 0, "max-record", LX_OPT_SIZE, &(c).limits.record, 1, 1ull << 32, NULL }, \
	{ 0, "max-frame", LX_OPT_SIZE, &(c).limits.frame, 1, 1ull << 36, NULL }, \
	{ 0, "max-depth", LX_OPT_CALL, &(c), 0, 0, cmd_max_depth }, \
	{ 0, "max-id", LX_OPT_CALL, &(c), 0, 0, cmd_max_id }, \
	{ 0, "max-fields", LX_OPT_CALL, &(c), 0, 0, cmd_max_fields }

int cmd_compress(void *common, const char *arg, struct lx_err *e); /* raw, checked, zstd, zstd:LEVEL */
int cmd_max_depth(void *common, const char *arg, struct lx_err *e);
int cmd_max_id(void *common, const char *arg, struct lx_err *e);
int cmd_max_fields(void *common, const char *arg, struct lx_err *e);

/* First call of main: fds 0-2, signals, LX_CHECK. `usage`: the synopsis lines, without "usage: ". */
int cmd_start(const char *tool, const char *usage, struct cmd_common *c, struct lx_err *e);
/* Parse options; -h prints the usage and exits 0, -V the version. Returns the first operand's index, or -1. */
int cmd_options(int argc, char **argv, const struct lx_opt *table, struct lx_err *e);
/* One line on stderr: "lx-map: ...". */
__attribute__((format(printf, 1, 2))) void cmd_say(const char *fmt, ...);
/* Open --to (aside; renamed by cmd_finish when all went well) and return the descriptor to write to: 1 without --to. */
int cmd_output(struct cmd_common *c, struct lx_err *e);
/* Last call of main: print the reason of a failure once, commit or discard --to, check that closing stdout
 * works, raise the stop signal again; returns the exit status. */
int cmd_finish(struct cmd_common *c, struct lx_err *e);
/* Stage configuration from the shared options (in 0, out cmd_output). */
int cmd_stage_conf(struct cmd_common *c, struct lx_stage_conf *sc, struct lx_err *e);
/* The --stats file: one JSON object of the stage's sums plus `more` (JSON members beginning with a comma, or ""). */
int cmd_stats(const struct cmd_common *c, const struct lx_stage *s, const char *more, struct lx_err *e);

#endif

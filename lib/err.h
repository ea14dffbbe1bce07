/* err: how a library function says what went wrong.
 *
 * Nothing in lib prints or exits. A function that can fail takes a `struct lx_err *` as its last
 * argument and returns -1 (or NULL) after filling it; the command prints the message once and
 * exits with `code`. The first error set stays: a later lx_err_set on a filled error is ignored,
 * so that clean-up cannot hide the cause. Start with LX_ERR_INIT.
 *
 * A message names the source, the record and byte offset where there is one, the cause, and the
 * option that would change the outcome, for example
 *     stdin: record 4127 at 0x9f3a10: nesting over 32 (--max-depth)
 */
#ifndef LX_ERR_H
#define LX_ERR_H

#include <stdarg.h>
#include <stdbool.h>

/* Exit statuses of every command (lx(7)). */
enum lx_code {
	LX_OK = 0,
	LX_RECORDS = 1, /* the sink: more root items failed than --max-failed allows */
	LX_USAGE = 2,   /* options or pipeline shape wrong */
	LX_DATA = 3,    /* corrupt, truncated or over a limit */
	LX_VERSION = 4, /* a stream version or feature this build does not know */
	LX_SYSTEM = 5,  /* a system call failed */
	LX_WORKER = 6,  /* workers or device lost, contract error */
	LX_TIMEOUT = 7, /* a deadline for the whole stage passed */
};

#define LX_ERR_MAX 1024

struct lx_err {
	int code;             /* enum lx_code; LX_OK: nothing set */
	int sys;              /* errno behind LX_SYSTEM, else 0 */
	bool upstream;        /* it came in as an abort mark: already reported by the stage it names */
	char stage[64];       /* the stage an abort mark names, else "" */
	char msg[LX_ERR_MAX]; /* one line, no newline, cut if too long; control bytes shown as \xNN */
};

#define LX_ERR_INIT { .code = LX_OK }

/* Fill `e` unless it is filled already. Always returns -1. */
__attribute__((format(printf, 3, 4))) int lx_err_set(struct lx_err *e, int code, const char *fmt, ...);

/* As lx_err_set with LX_SYSTEM, appending ": " and the text of errno. Always returns -1. */
__attribute__((format(printf, 2, 3))) int lx_err_sys(struct lx_err *e, const char *fmt, ...);

/* Put "PREFIX: " before the message of a filled error. Always returns -1. */
__attribute__((format(printf, 2, 3))) int lx_err_prefix(struct lx_err *e, const char *fmt, ...);

#endif

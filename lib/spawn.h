/* spawn: start a child process.
 *
 * vfork and exec, so that the size of this process does not matter. The child gets its own process
 * group, default signal actions, an empty mask, the caller's soft file limit as it was before
 * lx_spawn_raise_files, and gets a signal when this process ends, however it ends: SIGKILL, or SIGTERM for one that
 * has things of its own to end and remove (a grandchild gets none: it sees its pipes close). Only fds 0, 1, 2 and `keep` reach it, also when the
 * caller of this process left others open.
 *
 * The child's pid names its process group for as long as it has not been reaped: look with
 * lx_child_ended, kill the group, and reap last, or the number may belong to somebody else.
 */
#ifndef LX_SPAWN_H
#define LX_SPAWN_H

#include "buf.h"

#include <sys/types.h>

struct lx_spawn {
	char *const *argv;  /* argv[0] is looked up in PATH; a file the kernel cannot run is given to /bin/sh, as execvp does */
	char *const *env;   /* changes to the inherited environment, NULL-terminated; may be NULL. NAME=VALUE sets, NAME unsets.
	                     * An inherited LX_FAIL is unset: its descriptor does not reach the child */
	int in, out, err;   /* become fds 0, 1, 2; -1: inherit, in == -1: /dev/null */
	bool tidy;          /* SIGTERM, not SIGKILL, when this process ends first */
	int keep;           /* one more fd, above 2, the child inherits under its own number; -1: none */
};

struct lx_child {
	pid_t pid;
	int pidfd; /* readable when the process has ended */
};
#define LX_CHILD_NONE { .pid = 0, .pidfd = -1 }

/* 0, or -1: LX_USAGE when the program cannot be started (the message names it and why), else LX_SYSTEM.
 * e->sys is the errno either way: E2BIG says that arguments and environment are too long together. */
int lx_spawn(const struct lx_spawn *s, struct lx_child *c, struct lx_err *e);
/* Where a program lies, looked up in PATH: allocated. NULL: LX_USAGE, as lx_spawn_check. */
char *lx_spawn_find(const char *program, struct lx_err *e);
/* LX_USAGE when argv[0] is not an executable file and none in PATH: checked before anything starts. */
int lx_spawn_check(const char *program, struct lx_err *e);
/* SIGKILL (or another signal) to the whole process group; nothing once the child was reaped. */
void lx_child_kill(const struct lx_child *c, int sig);
/* Whether the child has ended, its wait status in *status, without reaping it: 1, 0 or -1. Does not block. */
int lx_child_ended(const struct lx_child *c, int *status, struct lx_err *e);
/* Reap: the wait status in *status. 1: ended, and c is LX_CHILD_NONE again; 0: still running (only with block == false); -1. */
int lx_child_wait(struct lx_child *c, bool block, int *status, struct lx_err *e);
/* Raise the soft file limit of this process to its hard limit; children get the old one. */
void lx_spawn_raise_files(void);

#endif

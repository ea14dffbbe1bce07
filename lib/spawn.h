/* spawn: start a child process.
 *
 * vfork and exec, so that the size of this process does not matter. The child gets its own process
 * group, default signal actions, an empty mask, the caller's soft file limit as it was before
 * lx_spawn_raise_files, and dies (SIGKILL) with this process. Every descriptor but those given
 * is close-on-exec.
 */
#ifndef LX_SPAWN_H
#define LX_SPAWN_H

#include "buf.h"

#include <sys/types.h>

struct lx_spawn {
	char *const *argv;  /* argv[0] is looked up in PATH */
	char *const *env;   /* NAME=VALUE added to (or replacing) the inherited environment, NULL-terminated; may be NULL */
	int in, out, err;   /* become fds 0, 1, 2; -1: inherit, in == -1: /dev/null */
	int keep;           /* one more fd the child inherits under its own number; -1: none */
};

struct lx_child {
	pid_t pid;
	int pidfd; /* readable when the process has ended */
};

/* 0, or -1: LX_USAGE when the program cannot be started (the message names it and why), else LX_SYSTEM. */
int lx_spawn(const struct lx_spawn *s, struct lx_child *c, struct lx_err *e);
/* LX_USAGE when argv[0] is not an executable file and none in PATH: checked before anything starts. */
int lx_spawn_check(const char *program, struct lx_err *e);
/* SIGKILL (or another signal) to the whole process group. */
void lx_child_kill(const struct lx_child *c, int sig);
/* Reap: the wait status in *status. 1: ended; 0: still running (only with block == false); -1. */
int lx_child_wait(struct lx_child *c, bool block, int *status, struct lx_err *e);
/* Raise the soft file limit of this process to its hard limit; children get the old one. */
void lx_spawn_raise_files(void);

#endif

/* hosts: machines that are reached through ssh, from a list in GNU parallel's --sshloginfile format.
 *
 * A line holds one or more logins between commas (",," and "\," are a comma), each
 *     [@GROUP[+GROUP...]/][SLOTS/][SSH-COMMAND ][USER@]HOST[:PORT]
 * or ":" for this machine. Empty lines and lines that begin with # are skipped. SSH-COMMAND is shell text, such as
 * `ssh -p 2222 -i key`; groups are skipped; passwords and lists of groups are refused.
 *
 * A command crosses to the other side as one word of printable ASCII that any login shell (sh, csh, fish) hands on as
 * it is, whatever bytes the arguments hold.
 */
#ifndef LX_HOSTS_H
#define LX_HOSTS_H

#include "buf.h"

struct lx_host {
	char *login;     /* [SSH-COMMAND ][USER@]HOST[:PORT] as it was written: what messages call it. ":": this machine */
	char *ssh;       /* SSH-COMMAND, or NULL: plain ssh */
	char *user, *port; /* NULL: not said */
	char *host;      /* NULL: this machine */
	uint64_t slots;  /* 0: not said */
};

struct lx_hosts {
	struct lx_host *v;
	size_t n;
};

#define LX_HOST_SLOTS_MAX 1024

/* LX_USAGE: the file cannot be read, or a line of it (named) cannot; or it has no host. */
int lx_hosts_read(struct lx_hosts *h, const char *path, struct lx_err *e);
void lx_hosts_free(struct lx_hosts *h);

/* A command for the login shell at the other end; appended to b, without a NUL. It begins with `exec`. */
void lx_host_command(struct lx_buf *b, const char *const *argv);
/* What to start here so that argv runs there: a NULL-terminated list in one block, to be freed. NULL: LX_SYSTEM. ssh gets no
 * terminal, asks nothing, forwards nothing, does not compress, and takes no more than CONNECT_S seconds to connect, unless
 * SSH-COMMAND says otherwise; an SSH-COMMAND that is no ssh gets only port, user, host and command. */
char **lx_host_argv(const struct lx_host *h, const char *const *argv, struct lx_err *e);

#endif

/* listen: a socket on which workers join a running call, and the way to it (lx-attach). unix:PATH only: no port is ever
 * opened; from another machine the socket is forwarded by ssh.
 *
 * The socket has mode 0600 and whoever connects must have our uid. Beside it lies PATH.lock, locked (flock) for as long
 * as somebody listens: a socket without a locked lock was left by a process that died, and is replaced. Both are removed
 * at the end.
 *
 * Whoever joins says one line first, `lx-attach 1 HOST NAME`, and gets one back: `lx-batch 1 ok`, then the streams
 * follow; or `lx-batch 1 no REASON`, and the connection ends.
 */
#ifndef LX_LISTEN_H
#define LX_LISTEN_H

#include "err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define LX_HELLO_MAX 256 /* bytes of a line, its end included */

struct lx_listen {
	int fd, lock; /* -1: not open */
	char *path, *lock_path;
};
#define LX_LISTEN_NONE { .fd = -1, .lock = -1 }

/* LX_USAGE: no unix:PATH, a path that is too long for a socket, one that is no socket, one on which somebody listens
 * (named). LX_SYSTEM. The descriptor does not block. */
int lx_listen_open(struct lx_listen *l, const char *address, struct lx_err *e);
/* Removes socket and lock; nothing when it is not open. */
void lx_listen_close(struct lx_listen *l);
/* The next that has connected, not blocking: its descriptor; -1: nobody is there; -2: one was refused for its uid, which is in *uid. */
int lx_listen_accept(const struct lx_listen *l, uid_t *uid);

/* Connect, blocking. LX_USAGE: the address; LX_SYSTEM: nobody listens there. The descriptor or -1. */
int lx_listen_connect(const char *address, struct lx_err *e);

/* The line that is coming in, without its end. */
struct lx_hello {
	size_t len;
	char text[LX_HELLO_MAX];
};
/* Take of it what is there, and nothing of what follows. 1: the line is whole, in text; 0: not yet; -1: it is none (too
 * long, control bytes), or the end of file. */
int lx_hello_read(struct lx_hello *h, int fd);
/* The rest of the line when it begins with `word`, version 1 and a space; else NULL. */
const char *lx_hello_after(const struct lx_hello *h, const char *word);
/* Say a line, its end is added. Nothing when the other end is gone. */
__attribute__((format(printf, 2, 3))) void lx_hello_say(int fd, const char *fmt, ...);

#endif

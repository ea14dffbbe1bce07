/* sig: stop signals as events, and the true death afterwards.
 *
 * SIGINT, SIGTERM and SIGHUP set a flag and write to a pipe that event loops watch. The first SIGINT
 * means "take no new work" (sources stop, everything else drains); a second one, or a SIGTERM or
 * SIGHUP, means "end now". At the end the command raises the signal again with its default
 * action, so that the shell sees the true death (130 for SIGINT).
 * A stop signal that was ignored when the program started stays ignored (nohup, `command &`).
 * SIGPIPE is one more "end now", never ignored: the write that raised it fails, what the stage made is removed, its commands are
 * ended, and it dies of SIGPIPE without a word. Writes to anybody but our readers must not raise it.
 */
#ifndef LX_SIG_H
#define LX_SIG_H

#include "err.h"

/* Once, at start: install the handlers; give SIGCHLD its default action and unblock all of these,
 * whatever the caller left (with SIGCHLD ignored, children could not be waited for). SIGXFSZ is ignored: a file that
 * would pass the caller's limit is a write that fails, said and cleaned up after like a full disk. */
int lx_sig_init(struct lx_err *e);
int lx_sig_fd(void);               /* readable after a stop signal until lx_sig_ack; -1 before lx_sig_init */
void lx_sig_ack(void);             /* an event loop has seen it: unreadable until the next signal */
bool lx_sig_asked(void);           /* a stop signal came, be it a first SIGINT: stop sources, drain */
bool lx_sig_stop(void);            /* end now */
int lx_sig_last(void);             /* the signal to raise again: the last that came; 0: none */
void lx_sig_raise(void);           /* die of lx_sig_last(); returns when none came */

#endif

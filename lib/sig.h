/* sig: stop signals as events, and the true death afterwards.
 *
 * SIGINT, SIGTERM and SIGHUP set a flag and write to a pipe that event loops watch. The first SIGINT
 * means "take no new work" (sources stop, everything else drains); a second one, or a SIGTERM or
 * SIGHUP, means "end now". At the end the command raises the signal again with its default
 * action, so that the shell sees the true death (130 for SIGINT). SIGPIPE keeps its default action.
 */
#ifndef LX_SIG_H
#define LX_SIG_H

#include "err.h"

int lx_sig_init(struct lx_err *e); /* install the handlers; once, at start */
int lx_sig_fd(void);               /* readable after any stop signal; -1 before lx_sig_init */
bool lx_sig_asked(void);           /* a first SIGINT came: stop sources, drain */
bool lx_sig_stop(void);            /* end now */
int lx_sig_last(void);             /* the signal to raise again; 0: none came */
void lx_sig_raise(void);           /* die of lx_sig_last(); returns when none came */

#endif

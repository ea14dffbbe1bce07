#include "sig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static int pipe_fd[2] = { -1, -1 };
static volatile sig_atomic_t asked, stop, last;

static const int stop_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
#define N_STOP (sizeof(stop_signals) / sizeof(*stop_signals))

static void on_stop(int sig)
{
	int saved = errno;
	if (sig != SIGINT || asked)
		stop = 1;
	asked = 1;
	if (sig != SIGPIPE || !last) /* what the user sent says more than a neighbour it ended first */
		last = sig;
	/* A full pipe is readable already. */
	ssize_t ignored = write(pipe_fd[1], "", 1);
	(void)ignored;
	errno = saved;
}

static int catch_unless_ignored(int sig)
{
	struct sigaction old, act = { .sa_handler = on_stop };
	if (sigaction(sig, NULL, &old) < 0)
		return -1;
	if (old.sa_handler == SIG_IGN && sig != SIGPIPE)
		return 0;
	/* One after the other; no SA_RESTART, so that a blocking read ends. */
	for (size_t i = 0; i < N_STOP; i++)
		sigaddset(&act.sa_mask, stop_signals[i]);
	return sigaction(sig, &act, NULL);
}

int lx_sig_init(struct lx_err *e)
{
	sigset_t ours;
	if (pipe_fd[0] < 0 && pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return lx_err_sys(e, "pipe for signals");
	sigemptyset(&ours);
	for (size_t i = 0; i < N_STOP; i++) {
		sigaddset(&ours, stop_signals[i]);
		if (catch_unless_ignored(stop_signals[i]) < 0)
			return lx_err_sys(e, "signal %d", stop_signals[i]);
	}
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigaddset(&ours, SIGCHLD);
	if (sigprocmask(SIG_UNBLOCK, &ours, NULL) < 0)
		return lx_err_sys(e, "signal mask");
	return 0;
}

int lx_sig_fd(void)
{
	return pipe_fd[0];
}

void lx_sig_ack(void)
{
	char some[64];
	while (read(pipe_fd[0], some, sizeof(some)) == (ssize_t)sizeof(some))
		;
}

bool lx_sig_asked(void)
{
	return asked;
}

bool lx_sig_stop(void)
{
	return stop;
}

int lx_sig_last(void)
{
	return last;
}

void lx_sig_raise(void)
{
	int sig = last;
	sigset_t set;
	if (!sig)
		return;
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(sig);
}

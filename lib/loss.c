#include "loss.h"

#include <stdio.h>
#include <sys/wait.h>

#define SSH_FAILED 255

static bool is_status(const struct lx_loss_facts *f, int status)
{
	return f->status >= 0 && WIFEXITED(f->status) && WEXITSTATUS(f->status) == status;
}

enum lx_loss lx_loss_kind(const struct lx_loss_facts *f)
{
	if (f->left)
		return LX_LOSS_LEFT;
	bool system = f->why->upstream && f->why->code == LX_SYSTEM;
	bool cut = f->attached && !f->why->upstream && !f->garbled;
	return f->host || cut || system || is_status(f, SSH_FAILED) ? LX_LOSS_HOST : LX_LOSS_CRASH;
}

bool lx_loss_refused(const struct lx_loss_facts *f)
{
	return !f->begun && ((f->why->upstream && f->why->code == LX_USAGE) || f->why->code == LX_VERSION);
}

bool lx_loss_contract(const struct lx_loss_facts *f)
{
	bool of_commands = strcmp(f->why->stage, "lx-map") == 0 || strcmp(f->why->stage, "lx-filter") == 0;
	return f->why->upstream && f->why->code == LX_WORKER && of_commands;
}

/* How the process ended. For ssh its status is that of the command there. */
static void process_text(const struct lx_loss_facts *f, char *out, size_t size)
{
	if (f->status >= 0 && WIFSIGNALED(f->status))
		snprintf(out, size, "died of signal %d", WTERMSIG(f->status));
	else if (f->host && is_status(f, SSH_FAILED))
		snprintf(out, size, "%s (ssh ended with status %d)", f->begun ? "the connection is lost" : "cannot be reached", SSH_FAILED);
	else if (f->host && is_status(f, 127))
		snprintf(out, size, "has no lx-batch in the PATH of a login there (status 127)");
	else if (f->status >= 0 && WIFEXITED(f->status))
		snprintf(out, size, "ended with status %d", WEXITSTATUS(f->status));
	else
		snprintf(out, size, "ended");
}

void lx_loss_text(const struct lx_loss_facts *f, char *out, size_t size)
{
	if (f->garbled && !f->begun && f->host)
		snprintf(out, size, "writes what is no stream before lx-batch does (a line of its shell's start-up files?): %s", f->why->msg);
	else if (f->foreign && !f->begun && !f->attached)
		snprintf(out, size, "wrote what is no lx stream: is it an lx stage? (lx-map runs any other command)");
	else if (f->garbled)
		snprintf(out, size, "wrote what is no stream: %s; killed", f->why->msg);
	else if (f->why->code == LX_VERSION)
		snprintf(out, size, "has another version of lx: %s (exit %d)", f->why->msg, LX_VERSION);
	else if (f->attached && !f->why->upstream)
		snprintf(out, size, "%s", f->left ? "left before it was done" : "is gone: the connection has ended");
	else if (f->attached)
		snprintf(out, size, "is lost: %s: %s (exit %d)", f->why->stage, f->why->msg, f->why->code);
	else if (f->why->upstream && (f->host || !f->begun))
		snprintf(out, size, "gave up: %s: %s (exit %d)", f->why->stage, f->why->msg, f->why->code);
	else
		process_text(f, out, size);
	size_t len = strlen(out);
	if (!f->begun && !f->garbled && !f->attached && f->why->code != LX_VERSION && !f->why->upstream && len < size)
		snprintf(out + len, size - len, " before it was ready");
}

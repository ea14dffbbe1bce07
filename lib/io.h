/* io: every read, write, wait and temporary file goes through here.
 *
 * EINTR and short counts are handled; 0 bytes read is end of file and never "later"; EAGAIN is
 * kept apart from both. No function sets O_NONBLOCK on a descriptor it was handed.
 * Files made here are close-on-exec.
 */
#ifndef LX_IO_H
#define LX_IO_H

#include "buf.h"

#include <sys/types.h>
#include <sys/uio.h>

enum { LX_IO_AGAIN = -2, LX_IO_ERROR = -1, LX_IO_EOF = 0 };

/* Make sure fds 0-2 are open, so that a file opened later does not become stdout. One that was closed still fails when it is
 * read or written. */
int lx_io_std(struct lx_err *e);

/* One read(2) of up to n bytes. > 0: bytes; LX_IO_EOF; LX_IO_AGAIN on EAGAIN, and on EINTR when a
 * signal asked this process to stop (lx_sig_stop()); LX_IO_ERROR. */
ssize_t lx_io_read(int fd, void *p, size_t n, struct lx_err *e);

/* Write all of it, blocking. 0, or -1. EPIPE is an error like any other (SIGPIPE normally comes first). */
int lx_io_write(int fd, const void *p, size_t n, struct lx_err *e);

/* Write all of the vector, blocking. The vector is modified. */
int lx_io_writev(int fd, struct iovec *v, int n, struct lx_err *e);

/* One write(2), as lx_io_read: bytes written, LX_IO_AGAIN or LX_IO_ERROR. */
ssize_t lx_io_write_some(int fd, const void *p, size_t n, struct lx_err *e);

/* Exactly n bytes at an offset of a file. -1 with LX_SYSTEM, also when the file ends before. */
int lx_io_read_at(int fd, void *p, size_t n, uint64_t offset, struct lx_err *e);
int lx_io_write_at(int fd, const void *p, size_t n, uint64_t offset, struct lx_err *e);

/* Read a whole file or pipe to its end, at most max_bytes (LX_DATA and "option" named when more). */
int lx_io_slurp(int fd, struct lx_buf *b, uint64_t max_bytes, const char *option, struct lx_err *e);

/* 1: fd has data or end of file; 0: timeout_ms passed (-1: none); -1: error. EINTR returns 0 when a stop is asked. */
int lx_io_wait(int fd, int timeout_ms, struct lx_err *e);

/* The wait of a source, which the first SIGINT ends: 1: as above; 0: a stop signal came, now or before; -1: error. */
int lx_io_wait_asked(int fd, struct lx_err *e);

/* The reader of stdout has gone, as a poll told: raises SIGPIPE, as the next write would. -1. */
int lx_io_unread(struct lx_err *e);

/* True when a read of fd would return at once. */
bool lx_io_ready(int fd);

/* A pipe, close-on-exec, asked to hold 1 MiB (a refusal is no error). */
int lx_io_pipe(int fd[2], struct lx_err *e);

/* A stream's pipe, asked to hold 256 KiB at least: the usual 64 KiB do not take one frame. No other descriptor is touched. */
void lx_io_widen(int fd);

bool lx_io_is_file(int fd);     /* a regular file: bytes rest there */
bool lx_io_is_terminal(int fd);

/* Monotonic time. */
uint64_t lx_io_now_ns(void);

/* Where temporary files go: `dir`, or when it is NULL $TMPDIR, else /tmp. */
const char *lx_io_tmpdir(const char *dir);

/* An unlinked temporary file in lx_io_tmpdir(dir): nothing is left behind however the process ends. */
int lx_io_tmpfile(const char *dir, struct lx_err *e);

/* A file written aside and renamed into place when complete; kill -9 before the commit leaves no trace of it. A symbolic link
 * is followed. */
struct lx_outfile {
	char *path;
	int fd;
	bool aside; /* false: path is not a regular file (/dev/full, a FIFO) or names a descriptor (/dev/stdout), and is written directly */
	char *tmp;  /* name to unlink, where the file system has no O_TMPFILE */
};
int lx_outfile_open(struct lx_outfile *f, const char *path, struct lx_err *e);
int lx_outfile_commit(struct lx_outfile *f, struct lx_err *e); /* sync, rename, close */
void lx_outfile_discard(struct lx_outfile *f);

#endif

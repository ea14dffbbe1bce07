/* beat: signs of life on a stream while its writer is busy.
 *
 * A stage that was asked to beat (struct lx_ask) may be in a long computation, wait for a command or for input. A thread of its
 * own writes an empty hint whenever nothing else was written for half the time that was announced. It says that
 * the process runs, no more: one that hangs in its own work is a matter for --timeout. All writes to the descriptor
 * happen under its lock; the thread never blocks in one.
 */
#ifndef LX_BEAT_H
#define LX_BEAT_H

#include "err.h"

#include <stdint.h>

struct lx_beat;

/* Begin, after the begin mark was written. NULL: LX_SYSTEM. */
struct lx_beat *lx_beat_start(int fd, uint64_t every_ms, struct lx_err *e);
/* End, before the end mark is written: nothing is written any more when it returns. NULL is fine. */
void lx_beat_stop(struct lx_beat *b);
/* Around every write of the stage to the descriptor. NULL is fine. */
void lx_beat_lock(struct lx_beat *b);
void lx_beat_unlock(struct lx_beat *b);

#endif

/* device: where kernels run.
 *
 * A batch is some items and some ops; every op runs on every item. The caller tells what an item is made of and gets
 * the results of all ops, one after the other, per item. No answer depends on the device.
 */
#ifndef LX_DEVICE_H
#define LX_DEVICE_H

#include "op.h"

/* One item's value, ready for the kernels. */
struct lx_device_input {
	const uint8_t *bytes; /* image: pixels, rows without padding */
	uint64_t len;
	uint32_t width, height, channels; /* 1 grey, 3 RGB */
};

struct lx_device_batch {
	size_t n;
	/* Item i, put into `room` (which is the thread's, and keeps its memory) or left where it is. Called once per item, by any
	 * thread, several at a time. false: the item is bad, no op sees it. */
	bool (*prepare)(void *ctx, size_t i, struct lx_buf *room, struct lx_device_input *in);
	void *ctx;
	const struct lx_gpu_call *calls;
	size_t n_calls;
	uint32_t words;  /* of all calls, per item */
	uint64_t *out;   /* n * words; of bad items nothing is written */
};

struct lx_device;

/* The CPU. threads: 0 as many as the process may run on. */
struct lx_device *lx_device_cpu(uint32_t threads, struct lx_err *e);
void lx_device_free(struct lx_device *d);
/* "cpu, 8 threads": for people. */
const char *lx_device_name(const struct lx_device *d);
/* -1: LX_SYSTEM, no memory. */
int lx_device_run(struct lx_device *d, const struct lx_device_batch *b, struct lx_err *e);

#endif

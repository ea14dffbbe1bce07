/* device: where kernels run.
 *
 * A batch is some items and some ops; every op runs on every item. The caller tells what an item is made of and gets
 * the results of all ops, one after the other, per item. No answer depends on the device.
 *
 * Batches run beside the caller: while one is computed, the next is read and the last is written. A device takes a batch
 * in pieces that fit into the memory it may use, so that a batch may be of any size.
 */
#ifndef LX_DEVICE_H
#define LX_DEVICE_H

#include "op.h"

#define LX_DEVICE_BATCHES 3 /* started and not yet waited for, at most */

struct lx_device_batch {
	size_t n;
	/* What item i is made of, from its head: cheap. false: the item is bad, no op sees it; `in` is what it was.
	 * Called once per item, by any thread, one at a time. */
	bool (*measure)(void *ctx, size_t i, struct lx_device_input *in);
	/* The bytes of item i, where measure gave none: in->len of them. false: it is bad. By any thread, several at a time. */
	bool (*decode)(void *ctx, size_t i, const struct lx_device_input *in, uint8_t *to);
	/* The item needs `need` bytes, alone more than the device may use. */
	void (*oversize)(void *ctx, size_t i, uint64_t need);
	void *ctx;
	const struct lx_gpu_call *calls;
	size_t n_calls;
	uint32_t words;  /* of all calls, per item */
	struct lx_device_input *in; /* n: as measured */
	uint64_t *out;   /* n * words; of bad items nothing is written */
	uint32_t *status; /* n * n_calls: what an op refused an item for; 0 */
	/* internal */
	size_t measured, taken, done;
	bool failed;
	struct lx_err err;
};

struct lx_device_conf {
	uint32_t threads; /* 0: as many as the process may run on */
	uint64_t mem;     /* bytes that items and results may take on the device, at once; 0: what the device has */
};

struct lx_device;

/* The CPU. */
struct lx_device *lx_device_cpu(const struct lx_device_conf *c, struct lx_err *e);
/* CUDA device N. -1 (NULL): LX_WORKER: there is none, or it cannot be used; why. */
struct lx_device *lx_device_cuda(int number, const struct lx_device_conf *c, struct lx_err *e);
/* How many there are: cheap, nothing is loaded onto a device. -1: LX_WORKER: none, and why. */
int lx_device_cuda_count(struct lx_err *e);
/* Before it is opened: that there is a CUDA device N, and that it can have the kernels of these ops, which are compiled for it where
 * need be. Nothing is loaded onto it. -1: LX_WORKER: there is no such device; LX_USAGE: it cannot have one; LX_SYSTEM. */
int lx_device_cuda_prepare(int number, const struct lx_gpu_call *calls, size_t n, struct lx_err *e);
/* The architectures its kernels were compiled for, "sm_75 sm_80 ..."; NULL: built without CUDA. */
const char *lx_device_cuda_archs(void);
void lx_device_free(struct lx_device *d);
/* "cpu, 8 threads": for people. */
const char *lx_device_name(const struct lx_device *d);
/* Start a batch, which stays where it is until it was waited for. */
void lx_device_start(struct lx_device *d, struct lx_device_batch *b);
/* Wait until it is done. -1: LX_SYSTEM no memory; LX_WORKER the device is lost: no item of the batch may be answered. */
int lx_device_wait(struct lx_device *d, struct lx_device_batch *b, struct lx_err *e);
/* Readable while there may be a batch that is done and was not waited for; lx_device_done tells. */
int lx_device_fd(const struct lx_device *d);
bool lx_device_done(struct lx_device *d, const struct lx_device_batch *b);

#endif

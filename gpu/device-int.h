/* device, inside: what a kind of device does itself. device.c shares batches out to lanes: threads that each take a piece
 * of a batch from its bytes to its results. While one lane waits for the device another decodes. */
#ifndef LX_DEVICE_INT_H
#define LX_DEVICE_INT_H

#include "device.h"
#include "threads.h"

#include <pthread.h>

#define LX_LANES_MAX 4

/* Items from..to-1 of a batch; the bad ones among them (lx_item_bad) are passed over. */
struct lx_piece {
	struct lx_device_batch *b;
	size_t from, to;
};

struct lx_device_kind {
	uint32_t lanes;
	uint64_t piece; /* bytes from which a piece is large enough */
	/* Compute a piece. -1: the batch has failed. */
	int (*run)(struct lx_device *d, uint32_t lane, const struct lx_piece *p, struct lx_err *e);
	void (*release)(struct lx_device *d);
};

struct lx_device {
	const struct lx_device_kind *kind;
	void *own;          /* the kind's */
	char name[128];
	struct lx_threads *threads;
	uint64_t mem;       /* a lane's: no piece is larger */
	uint64_t piece;     /* and no piece of several items is larger than this */
	pthread_mutex_t lock;
	pthread_cond_t work, done;
	struct lx_device_batch *batches[LX_DEVICE_BATCHES]; /* oldest first */
	size_t n_batches;
	uint32_t n_lanes;
	bool stop;
	int event;
	struct lx_lane {
		struct lx_device *d;
		uint32_t number;
		pthread_t id;
	} lanes[LX_LANES_MAX];
};

/* A device of a kind, its lanes running. c->mem is what it has by now. On failure `own` is released. */
struct lx_device *lx_device_new(const struct lx_device_kind *kind, void *own, const struct lx_device_conf *c, struct lx_err *e);
/* The bytes of work an item wants: ops that run one after the other share them. */
uint64_t lx_device_work(const struct lx_device_batch *b, const struct lx_device_input *in);
/* All it takes on a device: itself, its grey pixels, work and results. */
uint64_t lx_device_need(const struct lx_device_batch *b, const struct lx_device_input *in);
static inline uint64_t lx_align16(uint64_t n)
{
	return (n + 15) / 16 * 16;
}
/* An item that is not to be computed. */
#define LX_ITEM_BAD UINT32_MAX
static inline bool lx_item_bad(const struct lx_device_input *in)
{
	return in->channels == LX_ITEM_BAD;
}

#endif

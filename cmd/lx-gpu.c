/* lx-gpu: what kernels compute of each item, a frame at a time.
 *
 * in, out: a stream, the same frames. An item goes on with a field per op; what cannot be read fails, its batchmates do
 * not notice. Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call
 * fails (5), or the device asked for is not there (6).
 */
#include "cmd.h"
#include "device.h"
#include "image.h"

#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
	"lx-gpu [-d DOMAIN] [-i FIELD] [-o FIELD] [--device DEVICE] [-j THREADS]\n"
	"       [--max-pixels N] [--drop FIELDS] [-qv] [--stats FILE] [--trace FILE]\n"
	"       [--to FILE] [--compress PACKING] [--max-record SIZE] [--max-frame SIZE]\n"
	"       [--max-depth N] [--max-id N] [--max-fields N] OP[:ARGS] ...\n"
	"lx-gpu --list";

#define OPS_MAX 32

static struct cmd_common common = CMD_STAGE_INIT;
static bool list;
static const char *device = "auto";
static uint64_t threads, max_pixels = LX_IMAGE_PIXELS;

static const struct lx_opt options[] = {
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ 'i', "in-field", LX_OPT_STR, &common.in_field, 0, 0, NULL },
	{ 'o', "out-field", LX_OPT_STR, &common.out_field, 0, 0, NULL },
	{ 0, "device", LX_OPT_STR, &device, 0, 0, NULL },
	{ 'j', "threads", LX_OPT_UINT, &threads, 1, 1024, NULL },
	{ 0, "max-pixels", LX_OPT_UINT, &max_pixels, 1, 1ull << 32, NULL },
	{ 0, "list", LX_OPT_FLAG, &list, 0, 0, NULL },
	{ 0, "drop", LX_OPT_NAMES, &common.drop, 0, 0, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "trace", LX_OPT_STR, &common.trace, 0, 0, NULL },
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

/* An item of the frame at hand. */
struct held {
	struct lx_rec rec; /* in the frame, which stays until it is answered */
	uint32_t width, height;
	const char *type;  /* of its failure; NULL: none */
	char why[160];
};

static struct {
	struct lx_stage stage;
	struct lx_device *device;
	bool told; /* which device it is */
	struct lx_gpu_call calls[OPS_MAX];
	size_t n_calls;
	uint32_t words;
	const char *in_field;
	const char *names[OPS_MAX + 1]; /* the fields written */
	struct held *held;
	size_t n_held, cap_held;
	uint64_t *out; /* results of as many */
	struct lx_buf values;
	struct lx_edit *edits; /* the fields dropped, then those written */
} x;

/* ---- before it runs ---- */

static int plan_gpu(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	const char *reads[] = { x.in_field, NULL };
	if (lx_plan_reads(p, s->domain, x.in_field, "-i", e) < 0)
		return -1;
	for (size_t i = 0; i < common.drop.n; i++)
		if (lx_plan_reads(p, s->domain, common.drop.v[i], "--drop", e) < 0)
			return -1;
	if (!x.told)
		cmd_say("device: %s (built without CUDA)", lx_device_name(x.device));
	x.told = true;
	return lx_plan_op(p, "lx-gpu", s->domain, reads, x.names, common.drop.v, e);
}

/* ---- a frame ---- */

static int hold(const struct lx_rec *r, struct lx_err *e)
{
	if (x.n_held == x.cap_held) {
		size_t cap = x.cap_held ? 2 * x.cap_held : 64;
		struct held *h = realloc(x.held, cap * sizeof(*h));
		uint64_t *out = h ? realloc(x.out, cap * x.words * sizeof(*out)) : NULL;
		x.held = h ? h : x.held;
		x.out = out ? out : x.out;
		if (!out)
			return lx_err_sys(e, "a batch of %zu items", cap);
		x.cap_held = cap;
	}
	struct held *h = &x.held[x.n_held++];
	h->rec = *r;
	h->type = NULL;
	return 0;
}

static bool refuse(struct held *h, const char *type, const char *why)
{
	h->type = type;
	snprintf(h->why, sizeof(h->why), "%.*s", (int)sizeof(h->why) - 1, why);
	return false;
}

/* The pixels of an image, in the thread's room. */
static bool prepare(void *ctx, size_t i, struct lx_buf *room, struct lx_device_input *in)
{
	(void)ctx;
	struct held *h = &x.held[i];
	struct lx_err why = LX_ERR_INIT;
	struct lx_image im;
	struct lx_val v;
	struct lx_span field = lx_rec_field(&h->rec, x.in_field);
	if (!field.p)
		return refuse(h, "no-field", "no such field (-i)");
	if (lx_val_from(field, &v) < 0 || (v.type != LX_BIN && v.type != LX_STR))
		return refuse(h, "bad-field", "neither a string nor bytes");
	if (lx_image_probe(v.s, max_pixels, &im, &why) < 0)
		return refuse(h, "bad-image", why.msg);
	uint64_t len = (uint64_t)im.width * im.height * im.channels;
	uint8_t *to = lx_buf_room(room, len);
	if (!to)
		return refuse(h, "oversize", "no memory for its pixels (--max-pixels)");
	if (lx_image_decode(v.s, &im, to, &why) < 0)
		return refuse(h, "bad-image", why.msg);
	*in = (struct lx_device_input){ .bytes = to, .len = len, .width = im.width, .height = im.height, .channels = im.channels };
	h->width = im.width;
	h->height = im.height;
	return true;
}

static int answer(struct held *h, const uint64_t *out, struct lx_err *e)
{
	size_t at[OPS_MAX + 1] = { 0 };
	if (h->type)
		return lx_stage_fail(&x.stage, &h->rec, &(struct lx_blame){ .type = h->type, .message = lx_span_str(h->why) }, e);
	lx_buf_clear(&x.values);
	for (size_t i = 0; i < x.n_calls; out += x.calls[i++].words) {
		x.calls[i].op->pack(&x.values, out, x.calls[i].args, h->width, h->height);
		at[i + 1] = x.values.len;
	}
	if (lx_buf_check(&x.values, e) < 0)
		return -1;
	for (size_t i = 0; i < x.n_calls; i++)
		x.edits[common.drop.n + i].value = (struct lx_span){ x.values.p + at[i], at[i + 1] - at[i] };
	return lx_stage_put_edit(&x.stage, &h->rec, x.edits, common.drop.n + x.n_calls, e);
}

static int run_frame(struct lx_err *e)
{
	struct lx_device_batch b = {
		.n = x.n_held, .prepare = prepare, .calls = x.calls, .n_calls = x.n_calls, .words = x.words, .out = x.out,
	};
	if (x.n_held && lx_device_run(x.device, &b, e) < 0)
		return -1;
	for (size_t i = 0; i < x.n_held; i++)
		if (answer(&x.held[i], x.out + i * x.words, e) < 0)
			return -1;
	x.n_held = 0;
	return 0;
}

static int end_run(struct lx_err *e)
{
	return run_frame(e) < 0 || lx_stage_end_run(&x.stage, e) < 0 ? -1 : cmd_stats(&common, &x.stage, "", e);
}

static const struct cmd_loop loop = { .item = hold, .frame = run_frame, .run = end_run };

/* ---- options ---- */

static void print_list(void)
{
	puts("device\tcpu\tthis machine's cores, the same answers as any other");
	for (const struct lx_gpu_op *op = lx_gpu_ops; op->name; op++)
		printf("op\t%s%s\t%s; %s\n", op->name, op->args, op->result, op->help);
}

static int add_op(const char *text, struct lx_err *e)
{
	struct lx_gpu_call *c = &x.calls[x.n_calls];
	if (x.n_calls == OPS_MAX)
		return lx_err_set(e, LX_USAGE, "over %d ops", OPS_MAX);
	if (lx_gpu_parse(c, text, e) < 0)
		return -1;
	for (size_t i = 0; i < x.n_calls; i++)
		if (x.calls[i].op == c->op)
			return lx_err_set(e, LX_USAGE, "%s twice: both would write the field '%s'", c->op->name, c->op->name);
	x.words += c->words;
	x.names[x.n_calls++] = common.out_field ? common.out_field : c->op->name;
	return 0;
}

static int pick_device(struct lx_err *e)
{
	bool any = strcmp(device, "auto") == 0;
	if (strncmp(device, "cuda", 4) == 0)
		return lx_err_set(e, LX_WORKER, "--device %.32s: this lx-gpu was built without CUDA", device);
	if (!any && strcmp(device, "cpu") != 0)
		return lx_err_set(e, LX_USAGE, "--device: '%.32s' is none of auto, cpu and cuda:N", device);
	x.device = lx_device_cpu((uint32_t)threads, e);
	x.told = !any || common.quiet || common.check;
	return x.device ? 0 : -1;
}

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0 || list)
		return first < 0 ? -1 : 0;
	x.in_field = common.in_field ? common.in_field : "data";
	for (char **op = argv + first; *op; op++)
		if (add_op(*op, e) < 0)
			return -1;
	if (!x.n_calls)
		return lx_err_set(e, LX_USAGE, "no op: name one, or several (--list shows them all)");
	if (common.out_field && x.n_calls > 1)
		return lx_err_set(e, LX_USAGE, "-o with %zu ops: it names the field of one", x.n_calls);
	x.edits = calloc(common.drop.n + x.n_calls, sizeof(*x.edits));
	if (!x.edits)
		return lx_err_sys(e, "--drop");
	for (size_t i = 0; i < common.drop.n; i++)
		x.edits[i].name = lx_span_str(common.drop.v[i]);
	for (size_t i = 0; i < x.n_calls; i++)
		x.edits[common.drop.n + i].name = lx_span_str(x.names[i]);
	return pick_device(e);
}

static void run(struct lx_err *e)
{
	struct lx_stage_conf sc;
	if (cmd_stage_conf(&common, &sc, e) < 0)
		return;
	sc.keep_frames = true;
	sc.plan = plan_gpu;
	if (lx_stage_init(&x.stage, &sc, e) < 0 || cmd_loop(&x.stage, &loop, e) < 0)
		lx_stage_abort(&x.stage, e);
}

static void release(void)
{
	lx_stage_release(&x.stage);
	lx_device_free(x.device);
	lx_buf_free(&x.values);
	free(x.held);
	free(x.out);
	free(x.edits);
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	if (cmd_start("lx-gpu", usage, &common, &e) == 0 && configure(argc, argv, &e) == 0) {
		if (list)
			print_list();
		else
			run(&e);
	}
	release();
	return cmd_finish(&common, &e);
}

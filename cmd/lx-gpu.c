/* lx-gpu: what kernels compute of each item, a frame at a time.
 *
 * in, out: a stream, the same frames. An item goes on with a field per op; what cannot be read fails, its batchmates do
 * not notice. Exits non-zero when the options or the pipeline's shape are wrong (2), the input is (3, 4), a system call
 * fails (5), or the device asked for is not there (6).
 */
#include "cmd.h"
#include "device.h"
#include "image.h"
#include "io.h"
#include "plugin.h"
#include "sig.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
	"lx-gpu [-d DOMAIN] [-i FIELD] [-o FIELD] [--device DEVICE] [-j THREADS]\n"
	"       [--kernel FILE[:NAME]] [--plugin FILE] [--device-mem SIZE]\n"
	"       [--max-pixels N] [--drop FIELDS] [-qv] [--stats FILE] [--trace FILE]\n"
	"       [--from FILE] [--to FILE] [--compress PACKING] [--max-record SIZE]\n"
	"       [--max-frame SIZE] [--max-depth N] [--max-id N] [--max-fields N]\n"
	"       OP[:ARGS] ...\n"
	"lx-gpu [--kernel FILE[:NAME]] [--plugin FILE] --list";

#define OPS_MAX 32

static struct cmd_common common = CMD_STAGE_INIT;
static bool list;
static const char *device; /* NULL: auto */
static int cuda_number;
static struct lx_strs kernel_files, plugin_files;
static uint64_t threads, device_mem, max_pixels = LX_IMAGE_PIXELS;

static const struct lx_opt options[] = {
	{ 'd', "domain", LX_OPT_STR, &common.domain, 0, 0, NULL },
	{ 'i', "in-field", LX_OPT_STR, &common.in_field, 0, 0, NULL },
	{ 'o', "out-field", LX_OPT_STR, &common.out_field, 0, 0, NULL },
	{ 0, "device", LX_OPT_STR, &device, 0, 0, NULL },
	{ 0, "kernel", LX_OPT_LIST, &kernel_files, 0, 0, NULL },
	{ 0, "plugin", LX_OPT_LIST, &plugin_files, 0, 0, NULL },
	{ 'j', "threads", LX_OPT_UINT, &threads, 1, 1024, NULL },
	{ 0, "device-mem", LX_OPT_SIZE, &device_mem, 1, 0, NULL },
	{ 0, "max-pixels", LX_OPT_UINT, &max_pixels, 1, 1ull << 32, NULL },
	{ 0, "list", LX_OPT_FLAG, &list, 0, 0, NULL },
	{ 0, "drop", LX_OPT_NAMES, &common.drop, 0, 0, NULL },
	{ 'q', "quiet", LX_OPT_FLAG, &common.quiet, 0, 0, NULL },
	{ 'v', "verbose", LX_OPT_FLAG, &common.verbose, 0, 0, NULL },
	{ 0, "stats", LX_OPT_STR, &common.stats, 0, 0, NULL },
	{ 0, "trace", LX_OPT_STR, &common.trace, 0, 0, NULL },
	CMD_FROM_OPT(common),
	{ 0, "to", LX_OPT_STR, &common.to, 0, 0, NULL },
	{ 0, "compress", LX_OPT_CALL, &common, 0, 0, cmd_compress },
	CMD_LIMIT_OPTS(common),
	{ 0 },
};

/* An item of a frame. */
struct held {
	struct lx_rec rec;  /* in the frame's bytes */
	size_t at, len;     /* there */
	struct lx_image im;
	struct lx_span value;
	const char *type;   /* of its failure; NULL: none */
	char why[160];
};

/* A frame on its way: copied, for the stage reads on. */
struct frame {
	struct lx_device_batch batch;
	struct lx_buf bytes;
	struct held *held;
	size_t cap;  /* of held */
	size_t room; /* of what the batch has for each item */
	bool running;
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
	struct frame frames[LX_DEVICE_BATCHES];
	struct frame *open;     /* that of the stage's frame at hand; NULL: no item of it was seen */
	struct lx_buf values;
	struct lx_edit *edits; /* the fields dropped, then those written */
} x;

/* ---- before it runs ---- */

/* Whether the scope of a failure is one of the items' own: -1: LX_USAGE. */
static int check_scope(const struct lx_plan *p, int domain, const struct lx_gpu_op *op, const char *scope, struct lx_err *e)
{
	for (int d = domain; d >= 0; d = p->domains[d].parent)
		if (strcmp(p->domains[d].name, scope) == 0)
			return 0;
	if (strcmp(scope, "record") == 0 || strcmp(scope, "parent") == 0)
		return 0;
	return lx_err_set(e, LX_USAGE, "%s fails '%s': that is neither record, parent, nor a domain %s is in", op->name, scope, p->domains[domain].name);
}

static int check_scopes(const struct lx_plan *p, int domain, struct lx_err *e)
{
	struct lx_gpu_failure f;
	for (size_t c = 0; c < x.n_calls; c++)
		for (uint32_t i = 1; lx_gpu_failure(x.calls[c].op, i, &f); i++)
			if (check_scope(p, domain, x.calls[c].op, f.scope, e) < 0)
				return -1;
	return 0;
}

static int plan_gpu(void *ctx, struct lx_stage *s, struct lx_plan *p, struct lx_err *e)
{
	(void)ctx;
	const char *reads[] = { x.in_field, NULL };
	if (common.packing < 0)
		s->conf.packing = p->packing; /* answered in kind, though frames are closed here */
	if (lx_plan_reads(p, s->domain, x.in_field, "-i", e) < 0 || check_scopes(p, s->domain, e) < 0)
		return -1;
	for (size_t i = 0; i < common.drop.n; i++)
		if (lx_plan_reads(p, s->domain, common.drop.v[i], "--drop", e) < 0)
			return -1;
	return lx_plan_op(p, "lx-gpu", s->domain, reads, x.names, common.drop.v, e);
}

/* ---- the device ---- */

static int check_device(struct lx_err *e)
{
	uint64_t n = 0;
	device = device ? device : "auto";
	x.told = common.quiet || common.check || strcmp(device, "auto") != 0;
	if (strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0)
		return 0;
	if (strncmp(device, "cuda", 4) != 0 || (device[4] && device[4] != ':'))
		return lx_err_set(e, LX_USAGE, "--device: '%.32s' is none of auto, cpu, cuda and cuda:N", device);
	if (device[4] && lx_opt_uint("--device cuda:N", device + 5, 0, 1023, &n, e) < 0)
		return -1;
	cuda_number = (int)n;
	return 0;
}

/* What can be wrong with it is said before anything starts. Nothing is started behind this: CUDA bears no fork. */
static int prepare_device(struct lx_err *e)
{
	struct lx_err why = LX_ERR_INIT;
	bool own = false, any = strcmp(device, "auto") == 0;
	for (size_t i = 0; i < x.n_calls; i++)
		own |= x.calls[i].op->module != NULL;
	if (common.check || strcmp(device, "cpu") == 0 || (any && (!own || lx_device_cuda_count(&why) < 0)))
		return 0;
	if (lx_device_cuda_prepare(cuda_number, x.calls, x.n_calls, e) == 0)
		return 0;
	return e->code == LX_USAGE ? -1 : lx_err_prefix(e, "--device %.32s", device);
}

/* At the first frame: the begin mark has gone ahead. */
static int open_device(struct lx_err *e)
{
	const struct lx_device_conf c = { .threads = (uint32_t)threads, .mem = device_mem };
	struct lx_err why = LX_ERR_INIT;
	bool any = strcmp(device, "auto") == 0;
	if (strcmp(device, "cpu") != 0)
		x.device = lx_device_cuda(cuda_number, &c, any ? &why : e);
	if (!x.device && !any && strcmp(device, "cpu") != 0)
		return lx_err_prefix(e, "--device %.32s", device);
	if (!x.device)
		x.device = lx_device_cpu(&c, e);
	if (x.device && !x.told)
		cmd_say("device: %s%s%s%s", lx_device_name(x.device), why.code ? " (" : "", why.msg, why.code ? ")" : "");
	x.told = true;
	return x.device ? 0 : -1;
}

/* ---- items, by the device's threads ---- */

__attribute__((format(printf, 3, 4))) static bool refuse(struct held *h, const char *type, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(h->why, sizeof(h->why), fmt, ap);
	va_end(ap);
	h->type = type;
	return false;
}

static bool measure(void *ctx, size_t i, struct lx_device_input *in)
{
	struct frame *f = ctx;
	struct held *h = &f->held[i];
	struct lx_err why = LX_ERR_INIT;
	struct lx_val v;
	struct lx_span field = lx_rec_field(&h->rec, x.in_field);
	if (!field.p)
		return refuse(h, "no-field", "no field '%.100s' (-i)", x.in_field);
	if (lx_val_from(field, &v) < 0 || (v.type != LX_BIN && v.type != LX_STR))
		return refuse(h, "bad-field", "the field '%.100s' is neither a string nor bytes (-i)", x.in_field);
	h->value = v.s;
	if (x.calls[0].op->input != LX_IMAGE) {
		*in = (struct lx_device_input){ .bytes = v.s.p, .len = v.s.len };
		return true;
	}
	if (lx_image_probe(v.s, max_pixels, &h->im, &why) < 0)
		return refuse(h, "bad-image", "%s", why.msg);
	*in = (struct lx_device_input){
		.len = (uint64_t)h->im.width * h->im.height * h->im.channels, .width = h->im.width, .height = h->im.height, .channels = h->im.channels,
	};
	return true;
}

static bool decode(void *ctx, size_t i, const struct lx_device_input *in, uint8_t *to)
{
	struct frame *f = ctx;
	struct lx_err why = LX_ERR_INIT;
	(void)in;
	return lx_image_decode(f->held[i].value, &f->held[i].im, to, &why) == 0 || refuse(&f->held[i], "bad-image", "%s", why.msg);
}

static void oversize(void *ctx, size_t i, uint64_t need)
{
	struct frame *f = ctx;
	refuse(&f->held[i], "oversize", "%llu bytes on the device, more than it may use (--device-mem)", (unsigned long long)need);
}

/* ---- frames ---- */

/* Room for one more item. */
static int grow(struct frame *f, struct lx_err *e)
{
	size_t cap = f->cap ? 2 * f->cap : 64;
	if (f->batch.n < f->cap)
		return 0;
	struct held *held = realloc(f->held, cap * sizeof(*held));
	if (!held)
		return lx_err_sys(e, "a batch of %zu items", cap);
	f->held = held;
	f->cap = cap;
	return 0;
}

/* What the batch has for each item, results above all: they may be much, and how many there are is known by now. */
static int make_room(struct frame *f, struct lx_err *e)
{
	struct lx_device_batch *b = &f->batch;
	size_t out;
	if (b->n <= f->room)
		return 0;
	free(b->in);
	free(b->out);
	free(b->status);
	f->room = 0;
	errno = ENOMEM;
	b->in = malloc(b->n * sizeof(*b->in));
	b->out = lx_size_mul(b->n, x.words * sizeof(*b->out), &out) ? malloc(out) : NULL;
	b->status = malloc(b->n * x.n_calls * sizeof(*b->status));
	if (!b->in || !b->out || !b->status)
		return lx_err_sys(e, "results of %zu items, %zu bytes each (smaller batches: lx-batch -n)", b->n, x.words * sizeof(*b->out));
	f->room = b->n;
	return 0;
}

static int hold(const struct lx_rec *r, struct lx_err *e)
{
	struct frame *f = x.open;
	for (size_t i = 0; !f; i++)
		if (!x.frames[i].running)
			f = x.open = &x.frames[i];
	if (grow(f, e) < 0)
		return -1;
	f->held[f->batch.n++] = (struct held){ .at = f->bytes.len, .len = r->raw.len };
	lx_buf_span(&f->bytes, r->raw);
	return lx_buf_check(&f->bytes, e);
}

/* An op refused the item, whose results it may have put a place into. */
static int answer_refused(struct held *h, const struct lx_gpu_op *op, uint32_t status, uint64_t place, struct lx_err *e)
{
	struct lx_gpu_failure f;
	uint32_t number = status & ~LX_REFUSED_AT;
	if (!lx_gpu_failure(op, number, &f))
		return lx_err_set(e, LX_WORKER, "%s: LX_REFUSE(%u), and its LX_KERNEL lists no such failure", op->name, number);
	if (op->explain)
		op->explain(op, h->value, h->why, sizeof(h->why));
	else if (status & LX_REFUSED_AT)
		snprintf(h->why, sizeof(h->why), "refused by %s at %llu", op->name, (unsigned long long)place);
	else
		snprintf(h->why, sizeof(h->why), "refused by %s", op->name);
	return lx_stage_fail(&x.stage, &h->rec, &(struct lx_blame){ .type = f.type, .scope = f.scope, .message = lx_span_str(h->why) }, e);
}

/* An item that was barred while it was computed is not answered as present; a failure of its own it keeps. */
static int answer(struct held *h, const struct lx_device_input *in, const uint64_t *out, const uint32_t *status, struct lx_err *e)
{
	size_t at[OPS_MAX + 1] = { 0 }, first = 0;
	struct lx_span cause = { 0 };
	enum lx_outcome barred = lx_stage_barred(&x.stage, &h->rec, &cause);
	if (h->type)
		return lx_stage_fail(&x.stage, &h->rec, &(struct lx_blame){ .type = h->type, .message = lx_span_str(h->why) }, e);
	for (size_t i = 0; i < x.n_calls; first += x.calls[i++].words)
		if (status[i])
			return answer_refused(h, x.calls[i].op, status[i], out[first], e);
	if (barred != LX_PRESENT)
		return barred == LX_DROPPED ? lx_stage_drop(&x.stage, &h->rec, e) : lx_stage_suppress(&x.stage, &h->rec, cause, e);
	lx_buf_clear(&x.values);
	for (size_t i = 0; i < x.n_calls; out += x.calls[i++].words) {
		x.calls[i].op->pack(&x.values, out, &x.calls[i], in);
		at[i + 1] = x.values.len;
	}
	if (lx_buf_check(&x.values, e) < 0)
		return -1;
	for (size_t i = 0; i < x.n_calls; i++)
		x.edits[common.drop.n + i].value = (struct lx_span){ x.values.p + at[i], at[i + 1] - at[i] };
	return lx_stage_put_edit(&x.stage, &h->rec, x.edits, common.drop.n + x.n_calls, e);
}

/* Wait for a frame and write its answers: one frame again. */
static int finish(struct frame *f, struct lx_err *e)
{
	struct lx_device_batch *b = &f->batch;
	f->running = false;
	if (lx_device_wait(x.device, b, e) < 0)
		return -1;
	for (size_t i = 0; i < b->n; i++)
		if (answer(&f->held[i], &b->in[i], b->out + i * x.words, b->status + i * x.n_calls, e) < 0)
			return -1;
	b->n = 0;
	lx_buf_clear(&f->bytes);
	return lx_writer_close(&x.stage.out, e);
}

/* What is done by now, in whatever order. Returns how many are not, or -1. */
static int finish_done(struct lx_err *e)
{
	int left = 0;
	for (size_t i = 0; i < LX_DEVICE_BATCHES; i++) {
		struct frame *f = &x.frames[i];
		if (!f->running)
			continue;
		if (!lx_device_done(x.device, &f->batch))
			left++;
		else if (finish(f, e) < 0)
			return -1;
	}
	return left;
}

/* Wait for the device, and for input too if it is wanted; an interrupt ends the wait. */
static int await(bool input, struct lx_err *e)
{
	struct pollfd p[] = {
		{ .fd = lx_device_fd(x.device), .events = POLLIN },
		{ .fd = lx_sig_fd(), .events = POLLIN },
		{ .fd = input ? lx_stage_fd(&x.stage) : -1, .events = POLLIN },
	};
	if (lx_sig_stop())
		return lx_err_set(e, LX_SYSTEM, "stopped by a signal");
	if (poll(p, 3, lx_stage_nap(&x.stage, -1)) < 0 && errno != EINTR)
		return lx_err_sys(e, "poll");
	if (p[1].revents)
		lx_sig_ack();
	lx_stage_ledger(&x.stage);
	return p[2].revents ? 1 : 0;
}

/* The frame at hand is complete. */
static int run_frame(struct lx_err *e)
{
	struct frame *f = x.open;
	int left;
	if (!f)
		return lx_writer_close(&x.stage.out, e);
	for (size_t i = 0, used; i < f->batch.n; i++)
		if (lx_rec_parse(f->bytes.p + f->held[i].at, f->held[i].len, &common.limits, &f->held[i].rec, &used, e) < 0)
			return -1;
	f->batch.measure = measure;
	f->batch.decode = decode;
	f->batch.oversize = oversize;
	f->batch.ctx = f;
	f->batch.calls = x.calls;
	f->batch.n_calls = x.n_calls;
	f->batch.words = x.words;
	f->running = true;
	x.open = NULL;
	if (make_room(f, e) < 0 || (!x.device && open_device(e) < 0))
		return -1;
	lx_device_start(x.device, &f->batch);
	while ((left = finish_done(e)) == LX_DEVICE_BATCHES)
		if (await(false, e) < 0)
			return -1;
	return left < 0 ? -1 : 0;
}

/* No whole frame is at hand: answers go on while there is none. */
static int wait_more(struct lx_err *e)
{
	int left, ready = 0;
	while ((left = finish_done(e)) > 0 && ready == 0) {
		if (!lx_io_ready(lx_stage_fd(&x.stage)) && lx_writer_flush(&x.stage.out, e) < 0)
			return -1;
		ready = await(true, e);
	}
	if (left < 0 || ready < 0)
		return -1;
	return ready ? lx_stage_fill(&x.stage, e) : lx_stage_wait(&x.stage, e);
}

static int end_run(struct lx_err *e)
{
	int left;
	while ((left = finish_done(e)) > 0)
		if (await(false, e) < 0)
			return -1;
	return left < 0 || lx_stage_end_run(&x.stage, e) < 0 ? -1 : cmd_stats(&common, &x.stage, "", e);
}

static const struct cmd_loop loop = { .item = hold, .frame = run_frame, .wait = wait_more, .run = end_run };

/* ---- options ---- */

static const char *const inputs[] = { [LX_IMAGE] = "images", [LX_BYTES] = "bytes", [LX_TEXT] = "text" };

static void print_list(void)
{
	struct lx_err why = LX_ERR_INIT;
	int n = lx_device_cuda_count(&why);
	puts("device\tcpu\tthis machine's cores");
	for (int i = 0; i < n; i++)
		printf("device\tcuda:%d\tthe same answers as any other\n", i);
	if (n < 0)
		printf("no device\tcuda\t%s\n", why.msg);
	if (lx_device_cuda_archs())
		printf("compiled for\tcuda\t%s, and as PTX for those to come\n", lx_device_cuda_archs());
	const struct lx_gpu_op *op;
	for (size_t i = 0; (op = lx_gpu_op_at(i)); i++)
		printf("op\t%s%s\t%s to %s; %s\n", op->name, op->args, inputs[op->input], op->result, op->help);
}

static int add_op(const char *text, struct lx_err *e)
{
	struct lx_gpu_call *c = &x.calls[x.n_calls];
	if (x.n_calls == OPS_MAX)
		return lx_err_set(e, LX_USAGE, "over %d ops", OPS_MAX);
	if (*text == '-')
		return lx_err_set(e, LX_USAGE, "'%.64s' behind an op: options go before the ops", text);
	if (lx_gpu_parse(c, text, e) < 0)
		return -1;
	if (c->op->input != x.calls[0].op->input)
		return lx_err_set(e, LX_USAGE, "%s reads %s and %s reads %s: use two lx-gpu, one behind the other", x.calls[0].op->name,
		                  inputs[x.calls[0].op->input], c->op->name, inputs[c->op->input]);
	for (size_t i = 0; i < x.n_calls; i++)
		if (x.calls[i].op == c->op)
			return lx_err_set(e, LX_USAGE, "%s twice: both would write the field '%s'", c->op->name, c->op->name);
	x.words += c->words;
	x.names[x.n_calls++] = common.out_field ? common.out_field : c->op->name;
	return 0;
}

/* Ops of the user's. */
static int add_files(struct lx_err *e)
{
	for (size_t i = 0; i < plugin_files.n; i++)
		if (lx_plugin_load(plugin_files.v[i], e) < 0)
			return -1;
	for (size_t i = 0; i < kernel_files.n; i++)
		if (lx_plugin_compile(kernel_files.v[i], e) < 0)
			return -1;
	return 0;
}

/* --list goes with --kernel and --plugin, and with nothing that it would not heed. */
static int check_list(const char *operand, struct lx_err *e)
{
	const struct {
		bool given;
		const char *what;
	} all[] = {
		{ operand, operand }, { common.domain, "-d" }, { common.in_field, "-i" }, { common.out_field, "-o" }, { device, "--device" },
		{ threads, "-j" }, { device_mem, "--device-mem" }, { max_pixels != LX_IMAGE_PIXELS, "--max-pixels" }, { common.drop.n, "--drop" },
		{ common.stats, "--stats" }, { common.trace, "--trace" }, { common.from, "--from" }, { common.to, "--to" },
		{ common.packing >= 0, "--compress" },
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i].given)
			return lx_err_set(e, LX_USAGE, "'%.64s' with --list, which shows all there is", all[i].what);
	return 0;
}

static int configure(int argc, char **argv, struct lx_err *e)
{
	int first = cmd_options(argc, argv, options, e);
	if (first < 0 || (list && check_list(argv[first], e) < 0) || add_files(e) < 0 || list)
		return first < 0 || e->code ? -1 : 0;
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
	return check_device(e) < 0 || prepare_device(e) < 0 ? -1 : 0;
}

static void run(struct lx_err *e)
{
	struct lx_stage_conf sc;
	if (cmd_stage_conf(&common, &sc, e) < 0)
		return;
	sc.own_frames = true; /* a frame of answers to each frame of items */
	sc.keep_parts = true;
	sc.plan = plan_gpu;
	if (lx_stage_init(&x.stage, &sc, e) < 0 || cmd_loop(&x.stage, &loop, e) < 0)
		lx_stage_abort(&x.stage, e);
}

static void release(void)
{
	if (lx_sig_asked()) /* a kernel that has no end, or a compiler, is not waited for: the process ends with it */
		return;
	lx_stage_release(&x.stage);
	lx_device_free(x.device); /* its threads read what is freed next */
	for (size_t i = 0; i < LX_DEVICE_BATCHES; i++) {
		struct frame *f = &x.frames[i];
		lx_buf_free(&f->bytes);
		free(f->held);
		free(f->batch.in);
		free(f->batch.out);
		free(f->batch.status);
	}
	lx_buf_free(&x.values);
	free(x.edits);
	lx_plugins_free();
	lx_strs_free(&kernel_files);
	lx_strs_free(&plugin_files);
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

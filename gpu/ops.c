#include "op.h"

#include "opt.h"
#include "resize.h"
#include "value.h"

#include "image.k.h"
#include "resize.k.h"
#include "text.k.h"

#include <stdio.h>

#define MINHASH_MAX 4096

__extension__ typedef unsigned __int128 wide;

/* ---- arguments ---- */

static int parse_ink(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	c->args[0] = 128;
	return text ? lx_opt_uint("", text, 1, 255, &c->args[0], e) : 0;
}

static int parse_luma(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	c->args[0] = 16;
	if (text && lx_opt_uint("", text, 1, 256, &c->args[0], e) < 0)
		return -1;
	if (c->args[0] & (c->args[0] - 1))
		return lx_err_set(e, LX_USAGE, "%s is not a power of two", text);
	c->args[1] = 8;
	for (uint64_t n = c->args[0]; n > 1; n >>= 1)
		c->args[1]--;
	return 0;
}

int lx_gpu_number(const char **text, uint64_t min, uint64_t max, uint64_t *to, struct lx_err *e)
{
	char one[64];
	size_t n = strcspn(*text, ":");
	if (n >= sizeof(one))
		return lx_err_set(e, LX_USAGE, "'%.32s...' is not a whole number", *text);
	snprintf(one, sizeof(one), "%.*s", (int)n, *text);
	*text = (*text)[n] ? *text + n + 1 : NULL;
	return lx_opt_uint("", one, min, max, to, e);
}

static int parse_minhash(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	static const uint64_t max[] = { MINHASH_MAX, UINT32_MAX, MINHASH_MAX };
	c->args[0] = 128;
	c->args[1] = 5;
	for (size_t i = 0; text; i++) {
		if (i == sizeof(max) / sizeof(*max))
			return lx_err_set(e, LX_USAGE, "'%.32s' is too much", text);
		if (lx_gpu_number(&text, 1, max[i], &c->args[i], e) < 0)
			return -1;
	}
	if (c->args[2] && c->args[0] % c->args[2])
		return lx_err_set(e, LX_USAGE, "%llu permutations do not part into %llu bands", (unsigned long long)c->args[0],
		                  (unsigned long long)c->args[2]);
	return 0;
}

static int parse_simhash(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	c->args[1] = 1;
	return text ? lx_opt_uint("", text, 1, UINT32_MAX, &c->args[1], e) : 0;
}

/* ---- sizes ---- */

static uint32_t words_2(const struct lx_gpu_call *c)
{
	(void)c;
	return 2;
}

static uint32_t words_luma(const struct lx_gpu_call *c)
{
	return (uint32_t)c->args[0];
}

static uint64_t work_dhash(const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)c;
	return (uint64_t)(DHASH_SIDE + 1) * in->height;
}

static uint64_t work_phash(const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)c;
	return (uint64_t)PHASH_SIDE * in->height + 16 + PHASH_WORK;
}

static uint64_t work_grey(const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)c;
	return (uint64_t)in->width * in->height;
}

static uint32_t words_minhash(const struct lx_gpu_call *c)
{
	return (uint32_t)(c->args[0] + 1) / 2;
}

static uint64_t work_text(const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)c;
	return TEXT_WORK(in->len);
}

/* ---- results ---- */

static void pack_bits(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)c, (void)in;
	lx_pack_uint(to, out[0]);
}

static void pack_ink(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)c;
	lx_pack_f64(to, (double)out[0] / ((double)in->width * in->height));
}

/* (n * squares - sum^2) / n^2, the upper part exactly. */
static void pack_sharpness(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)c;
	uint64_t n = (uint64_t)in->width * in->height, sum = (int64_t)out[0] < 0 ? 0 - out[0] : out[0];
	lx_pack_f64(to, (double)((wide)n * out[1] - (wide)sum * sum) / ((double)n * (double)n));
}

static void pack_luma(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)in;
	lx_pack_array(to, (uint32_t)c->args[0]);
	for (uint64_t i = 0; i < c->args[0]; i++)
		lx_pack_uint(to, out[i]);
}

static void pack_words(struct lx_buf *to, const uint32_t *v, uint64_t n)
{
	lx_pack_array(to, (uint32_t)n);
	for (uint64_t i = 0; i < n; i++)
		lx_pack_uint(to, v[i]);
}

/* What the numbers of a band come to: 53 bits, which every reader of JSON can hold. */
static uint64_t band_key(const uint32_t *v, uint64_t n, uint64_t band)
{
	uint64_t h = band;
	for (uint64_t i = 0; i < n; i++)
		h = lx_k_mix((h + 0x9e3779b97f4a7c15u) ^ v[i]);
	return h >> 11;
}

static void pack_minhash(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	const uint32_t *v = (const uint32_t *)(const void *)out;
	uint64_t bands = c->args[2];
	(void)in;
	if (!bands) {
		pack_words(to, v, c->args[0]);
		return;
	}
	lx_pack_map(to, 2);
	lx_pack_cstr(to, "signature");
	pack_words(to, v, c->args[0]);
	lx_pack_cstr(to, "bands");
	lx_pack_array(to, (uint32_t)bands);
	for (uint64_t b = 0; b < bands; b++)
		lx_pack_uint(to, band_key(v + b * (c->args[0] / bands), c->args[0] / bands, b));
}

/* ---- refusals ---- */

static void explain_text(const struct lx_gpu_op *op, struct lx_span value, char *why, size_t size)
{
	snprintf(why, size, "not UTF-8 at byte %zu (%s)", lx_span_utf8_len(value), op->name);
}

/* ---- the table ---- */

#define BAD_TEXT .failures = "bad-text record", .explain = explain_text
#define KERNEL(name) .phases = lx_op_##name, .entry = "lx_op_" #name

const struct lx_gpu_op lx_gpu_ops[] = {
	{
		.name = "dhash", .args = "", .result = "uint", .help = "difference hash, 64 bits", .input = LX_IMAGE,
		.columns = DHASH_SIDE + 1, .rows = DHASH_SIDE, KERNEL(dhash), .work = work_dhash, .pack = pack_bits,
	},
	{
		.name = "phash", .args = "", .result = "uint", .help = "hash of the lowest frequencies, 64 bits", .input = LX_IMAGE,
		.columns = PHASH_SIDE, .rows = PHASH_SIDE, KERNEL(phash), .work = work_phash, .pack = pack_bits,
	},
	{
		.name = "sharpness", .args = "", .result = "float", .help = "variance of the Laplacian", .input = LX_IMAGE,
		KERNEL(sharpness), .words = words_2, .pack = pack_sharpness,
	},
	{
		.name = "ink", .args = "[:BELOW]", .result = "float", .help = "share of the pixels darker than BELOW (128)", .input = LX_IMAGE,
		KERNEL(ink), .parse = parse_ink, .words = words_2, .pack = pack_ink,
	},
	{
		.name = "luma", .args = "[:BINS]", .result = "array of uint", .help = "histogram of the grey values in BINS (16) equal ranges",
		.input = LX_IMAGE, KERNEL(luma), .parse = parse_luma, .words = words_luma, .pack = pack_luma,
	},
	{
		.name = "resize", .args = ":WxH[:letterbox][:f32|f16|u8][:MEAN,STD]", .result = "tensor", .help = "the image in another size, as planes of numbers",
		.input = LX_IMAGE, KERNEL(resize), .parse = lx_resize_parse, .size = lx_resize_size, .words = lx_resize_words,
		.work = lx_resize_work, .pack = lx_resize_pack,
	},
	{
		.name = "minhash", .args = "[:PERMS[:SHINGLE[:BANDS]]]", .result = "array of uint; with BANDS a map of signature and bands",
		.help = "least of PERMS (128) permutations of the shingles of SHINGLE (5) words", .input = LX_TEXT, BAD_TEXT,
		KERNEL(minhash), .parse = parse_minhash, .words = words_minhash, .work = work_text, .pack = pack_minhash,
	},
	{
		.name = "simhash", .args = "[:SHINGLE]", .result = "uint", .help = "majority of the bits of the shingles of SHINGLE (1) words, 64 bits",
		.input = LX_TEXT, BAD_TEXT, KERNEL(simhash), .parse = parse_simhash, .work = work_text, .pack = pack_bits,
	},
	{ .name = NULL },
};

const struct lx_gpu_op lx_gpu_grey = { .name = "grey", .input = LX_IMAGE, KERNEL(grey), .work = work_grey };

/* ---- those of the user's ---- */

static const struct lx_gpu_op *added[256];
static size_t n_added;

const struct lx_gpu_op *lx_gpu_op_at(size_t i)
{
	const size_t built_in = sizeof(lx_gpu_ops) / sizeof(*lx_gpu_ops) - 1;
	if (i < built_in)
		return &lx_gpu_ops[i];
	return i - built_in < n_added ? added[i - built_in] : NULL;
}

static const struct lx_gpu_op *find(const char *name, size_t len)
{
	const struct lx_gpu_op *op;
	for (size_t i = 0; (op = lx_gpu_op_at(i)); i++)
		if (strlen(op->name) == len && memcmp(op->name, name, len) == 0)
			return op;
	return NULL;
}

int lx_gpu_add(const struct lx_gpu_op *op, struct lx_err *e)
{
	const struct lx_gpu_op *other = find(op->name, strlen(op->name));
	if (other)
		return lx_err_set(e, LX_USAGE, "there is an op %s already (%s)", op->name, other->help);
	if (n_added == sizeof(added) / sizeof(*added))
		return lx_err_set(e, LX_USAGE, "over %zu kernels", n_added);
	added[n_added++] = op;
	return 0;
}

bool lx_gpu_failure(const struct lx_gpu_op *op, uint32_t number, struct lx_gpu_failure *f)
{
	const char *at = op->failures;
	for (uint32_t i = 1; at && i < number; i++)
		at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
	if (!at || !number)
		return false;
	char one[2 * sizeof(f->type)], more;
	snprintf(one, sizeof(one), "%.*s", (int)(strcspn(at, ",") < sizeof(one) ? strcspn(at, ",") : sizeof(one)), at);
	return sscanf(one, " %63s %63s %c", f->type, f->scope, &more) == 2;
}

int lx_gpu_parse(struct lx_gpu_call *c, const char *text, struct lx_err *e)
{
	size_t len = strcspn(text, ":");
	const char *args = text[len] ? text + len + 1 : NULL;
	*c = (struct lx_gpu_call){ .op = find(text, len) };
	if (!c->op)
		return lx_err_set(e, LX_USAGE, "no op '%.*s' (--list shows them all)", (int)(len < 64 ? len : 64), text);
	if (args && !c->op->parse)
		return lx_err_set(e, LX_USAGE, "%s takes no arguments: '%.100s'", c->op->name, text);
	if (c->op->parse && c->op->parse(args, c, e) < 0)
		return lx_err_prefix(e, "%s%s", c->op->name, c->op->args);
	c->words = c->op->words ? c->op->words(c) : 1;
	return 0;
}

bool lx_gpu_size(const struct lx_gpu_call *c, const struct lx_device_input *in, uint32_t *columns, uint32_t *rows)
{
	*columns = c->op->columns;
	*rows = c->op->rows;
	if (c->op->size)
		c->op->size(c, in, columns, rows);
	return *columns != 0;
}

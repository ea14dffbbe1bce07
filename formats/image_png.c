/* libpng leaves by longjmp: what it works on is in struct reader, and guarded() is the only place it comes back to. */
#include "image_int.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>

#define HEADER 33       /* bytes of the signature and IHDR */
#define DEFLATE_MOST 1032 /* bytes that one byte of deflate can stand for, at most */

static bool is_png(struct lx_span b)
{
	return b.len >= 8 && memcmp(b.p, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static uint32_t read_32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The header is libpng's to check, but not before the size is known to be bearable. */
static int probe(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im, struct lx_err *e)
{
	static const uint8_t samples[] = { [0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4 };
	if (bytes.len < HEADER || memcmp(bytes.p + 8, "\0\0\0\rIHDR", 8) != 0)
		return lx_err_set(e, LX_DATA, "PNG: no whole header");
	uint32_t w = read_32(bytes.p + 16), h = read_32(bytes.p + 20), depth = bytes.p[24], type = bytes.p[25];
	if (type >= sizeof(samples) || !samples[type] || !depth || depth > 16)
		return lx_err_set(e, LX_DATA, "PNG: no colour type %u of %u bits", type, depth);
	if (image_size(im, w, h, max_pixels, e) < 0)
		return -1;
	im->channels = type & 2 ? 3 : 1;
	if ((uint64_t)w * h / 8 * samples[type] * depth / DEFLATE_MOST > bytes.len)
		return lx_err_set(e, LX_DATA, "PNG: %u x %u pixels cannot be in %zu bytes", w, h, bytes.len);
	return 0;
}

struct reader {
	png_structp png;
	png_infop info;
	struct lx_span left; /* not read yet */
	const struct lx_image *im;
	uint8_t *out;
	uint8_t *row;        /* of the file, in 8 bits a sample; allocated for images that need more than a copy */
	uint32_t channels;   /* of that: grey, grey and alpha, RGB, RGBA */
	uint64_t rows;       /* read so far, of all passes */
	bool no_memory;
	char why[160];       /* the first error or warning; "": none */
};

static void note(struct reader *r, const char *message)
{
	if (r->why[0])
		return;
	if (r->rows)
		snprintf(r->why, sizeof(r->why), "PNG: %s (after %llu rows)", message, ULL(r->rows));
	else
		snprintf(r->why, sizeof(r->why), "PNG: %s", message);
}

/* libpng goes on after a warning; that the file is damaged is noted all the same. */
static void on_warning(png_structp png, png_const_charp message)
{
	note(png_get_error_ptr(png), message);
}

static void on_error(png_structp png, png_const_charp message)
{
	note(png_get_error_ptr(png), message);
	png_longjmp(png, 1);
}

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
	struct reader *r = png_get_io_ptr(png);
	if (r->left.len < n)
		png_error(png, "it ends early");
	memcpy(to, r->left.p, n);
	r->left.p += n;
	r->left.len -= n;
}

/* Colours of a palette, grey of fewer bits and colours that stand for nothing become samples of 8 bits. */
static void read_header(struct reader *r)
{
	png_set_read_fn(r->png, r, read_bytes);
	png_set_user_limits(r->png, r->im->width, r->im->height);
	png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
	png_set_option(r->png, PNG_MAXIMUM_INFLATE_WINDOW, PNG_OPTION_ON); /* some writers say too small a window */
	png_read_info(r->png, r->info);
	png_set_expand(r->png);
	png_set_scale_16(r->png);
	png_read_update_info(r->png, r->info);
	r->channels = png_get_channels(r->png, r->info);
}

/* A row of n pixels to every step-th pixel from `to` on. */
static void put_row(const struct reader *r, uint8_t *to, uint32_t n, uint32_t step)
{
	uint32_t colours = r->im->channels;
	bool alpha = r->channels > colours;
	const uint8_t *from = r->row;
	for (uint32_t x = 0; x < n; x++, from += r->channels, to += (size_t)step * colours) {
		uint32_t a = alpha ? from[colours] : 255;
		for (uint32_t c = 0; c < colours; c++)
			to[c] = (uint8_t)((from[c] * a + 255 * (255 - a) + 127) / 255);
	}
}

static void read_row(struct reader *r, uint8_t *to, uint32_t n, uint32_t step)
{
	png_read_row(r->png, r->row ? r->row : to, NULL);
	if (r->row)
		put_row(r, to, n, step);
	r->rows++;
}

/* An interlaced image is seven images, each of every so many rows and columns. */
static void read_pass(struct reader *r, int pass)
{
	uint32_t w = r->im->width, n = PNG_PASS_COLS(w, pass);
	size_t pixel = r->im->channels;
	for (uint32_t i = 0; n && i < PNG_PASS_ROWS(r->im->height, pass); i++) {
		size_t y = PNG_ROW_FROM_PASS_ROW(i, pass), x = PNG_COL_FROM_PASS_COL(0, pass);
		read_row(r, r->out + (y * w + x) * pixel, n, 1u << PNG_PASS_COL_SHIFT(pass));
	}
}

static void read_pixels(struct reader *r)
{
	if (png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_NONE)
		for (uint32_t y = 0; y < r->im->height; y++)
			read_row(r, r->out + (size_t)y * r->im->width * r->im->channels, r->im->width, 1);
	else
		for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
			read_pass(r, pass);
	png_read_end(r->png, NULL);
}

/* -1: `why` says it. */
static int guarded(struct reader *r, void (*f)(struct reader *r))
{
	if (setjmp(png_jmpbuf(r->png)))
		return -1;
	f(r);
	return r->why[0] ? -1 : 0;
}

static int read_png(struct reader *r)
{
	if (guarded(r, read_header) < 0)
		return -1;
	if (r->channels != r->im->channels || png_get_interlace_type(r->png, r->info) != PNG_INTERLACE_NONE) {
		r->row = malloc((size_t)r->im->width * r->channels);
		r->no_memory = !r->row;
	}
	return r->no_memory ? -1 : guarded(r, read_pixels);
}

static int decode(struct lx_span bytes, const struct lx_image *im, uint8_t *out, struct lx_err *e)
{
	struct reader r = { .left = bytes, .im = im, .out = out };
	r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
	r.info = r.png ? png_create_info_struct(r.png) : NULL;
	r.no_memory = !r.info;
	int rc = r.info ? read_png(&r) : -1;
	png_destroy_read_struct(&r.png, &r.info, NULL);
	free(r.row);
	if (rc == 0)
		return 0;
	return r.no_memory ? lx_err_set(e, LX_SYSTEM, "PNG: no memory") : lx_err_set(e, LX_DATA, "%s", r.why);
}

const struct image_format image_png = { is_png, probe, decode };

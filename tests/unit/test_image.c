/* Images whole, cut at every byte, damaged, and with sizes that lie. Pixels of every kind of sample: tests/lx-gpu.bats. */
#include "image.h"

#include "tap.h"

#include <png.h>
#include <stdlib.h>
#include <turbojpeg.h>

#define W 21
#define H 13

static struct lx_err err;

/* Probe and decode from a block of exactly that size, into one of exactly that size. NULL: err says why. */
static uint8_t *decoded(struct lx_span bytes, uint64_t max_pixels, struct lx_image *im)
{
	uint8_t *copy = malloc(bytes.len + !bytes.len), *out = NULL;
	memcpy(copy, bytes.p, bytes.len);
	struct lx_span s = { copy, bytes.len };
	err = (struct lx_err)LX_ERR_INIT;
	if (lx_image_probe(s, max_pixels, im, &err) == 0) {
		CHECK((uint64_t)im->width * im->height <= max_pixels && (im->channels == 1 || im->channels == 3));
		size_t n = (size_t)im->width * im->height * im->channels;
		out = malloc(n);
		memset(out, 0xa5, n);
		if (lx_image_decode(s, im, out, &err) < 0) {
			free(out);
			out = NULL;
		}
	}
	CHECK(out ? err.code == LX_OK : err.code == LX_DATA && err.msg[0]);
	free(copy);
	return out;
}

static bool is_read(struct lx_span bytes)
{
	struct lx_image im;
	uint8_t *out = decoded(bytes, LX_IMAGE_PIXELS, &im);
	free(out);
	return out;
}

/* Refused, and it says so. */
static bool refused(struct lx_span bytes, const char *says)
{
	bool no = !is_read(bytes) && strstr(err.msg, says);
	if (!no)
		printf("# %s\n", err.msg);
	return no;
}

/* Whether it has these pixels. */
static bool has(struct lx_span bytes, uint32_t channels, const uint8_t *pixels)
{
	struct lx_image im;
	uint8_t *out = decoded(bytes, LX_IMAGE_PIXELS, &im);
	bool same = out && im.width == W && im.height == H && im.channels == channels && memcmp(out, pixels, (size_t)W * H * channels) == 0;
	free(out);
	return same;
}

/* ---- images ---- */

/* Grey, or red, green and blue, as the files below have them. */
static const uint8_t *pixels(uint32_t channels)
{
	static uint8_t p[2][W * H * 3];
	uint8_t *to = p[channels == 3];
	for (uint32_t i = 0; i < W * H * channels; i++)
		to[i] = (uint8_t)(i / channels * 3 + i % channels * 60 + i / 100 * 17);
	return to;
}

static void add_netpbm(struct lx_buf *to, char type)
{
	bool colour = type == '3' || type == '6', bits = type == '1' || type == '4';
	uint32_t n = colour ? 3 : 1;
	const uint8_t *p = pixels(n);
	lx_buf_printf(to, "P%c # as it is\n%d %d%s\n", type, W, H, bits ? "" : " 255");
	for (uint32_t i = 0; i < W * H * n; i++) {
		if (type == '1')
			lx_buf_byte(to, p[i] & 1 ? '1' : '0');
		else if (type < '4')
			lx_buf_printf(to, " %03u", p[i]);
		else if (type > '4')
			lx_buf_byte(to, p[i]);
	}
	for (uint32_t i = 0; type == '4' && i < (W + 7) / 8 * H; i++)
		lx_buf_byte(to, (uint8_t)(i * 37));
}

static void png_add(png_structp png, png_bytep p, size_t n)
{
	lx_buf_add(png_get_io_ptr(png), p, n);
}

static void png_nothing(png_structp png)
{
	(void)png;
}

static void add_png(struct lx_buf *to, uint32_t channels, int interlace)
{
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	png_bytep rows[H];
	for (int y = 0; y < H; y++)
		rows[y] = (png_bytep)pixels(channels) + (size_t)y * W * channels;
	png_set_write_fn(png, to, png_add, png_nothing);
	png_set_IHDR(png, info, W, H, 8, channels == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, interlace, 0, 0);
	png_set_gAMA(png, info, 1.0);
	png_set_rows(png, info, rows);
	png_write_png(png, info, 0, NULL);
	png_destroy_write_struct(&png, &info);
}

static void add_jpeg(struct lx_buf *to, int format, int sampling, int flags)
{
	unsigned char *made = NULL;
	unsigned long n = 0;
	static uint8_t four[W * H * 4];
	memcpy(four, pixels(3), sizeof(four) * 3 / 4);
	tjhandle tj = tjInitCompress();
	CHECK(tjCompress2(tj, four, W, 0, H, format, &made, &n, sampling, 90, flags) == 0);
	lx_buf_add(to, made, n);
	tjFree(made);
	tjDestroy(tj);
}

enum { P1, P2, P3, P4, P5, P6, PNG_GREY, PNG_RGB, PNG_INTERLACED, JPEG_GREY, JPEG_RGB, JPEG_PROGRESSIVE, IMAGES };

static struct lx_buf images[IMAGES];

static struct lx_span image(int i)
{
	return lx_buf_view(&images[i]);
}

static void make_images(void)
{
	for (int i = P1; i <= P6; i++)
		add_netpbm(&images[i], (char)('1' + i));
	add_png(&images[PNG_GREY], 1, PNG_INTERLACE_NONE);
	add_png(&images[PNG_RGB], 3, PNG_INTERLACE_NONE);
	add_png(&images[PNG_INTERLACED], 3, PNG_INTERLACE_ADAM7);
	add_jpeg(&images[JPEG_GREY], TJPF_GRAY, TJSAMP_GRAY, 0);
	add_jpeg(&images[JPEG_RGB], TJPF_RGB, TJSAMP_420, 0);
	add_jpeg(&images[JPEG_PROGRESSIVE], TJPF_RGB, TJSAMP_420, TJFLAG_PROGRESSIVE);
}

/* The bytes from..to of a replaced by b. */
static struct lx_span spliced(struct lx_span a, size_t from, size_t to, const void *b, size_t n)
{
	static struct lx_buf made;
	lx_buf_clear(&made);
	lx_buf_add(&made, a.p, from);
	lx_buf_add(&made, b, n);
	lx_buf_add(&made, a.p + to, a.len - to);
	return lx_buf_view(&made);
}

static uint32_t crc(const uint8_t *p, size_t n)
{
	uint32_t c = UINT32_MAX;
	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

static void add_32(struct lx_buf *to, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		lx_buf_byte(to, (uint8_t)(v >> shift));
}

static void add_chunk(struct lx_buf *to, const char *name, const void *p, size_t n)
{
	add_32(to, (uint32_t)n);
	lx_buf_add(to, name, 4);
	lx_buf_add(to, p, n);
	add_32(to, crc(to->p + to->len - n - 4, n + 4));
}

/* A PNG that is all header. */
static struct lx_span png_of(uint32_t width, uint32_t height, uint8_t depth, uint8_t type)
{
	static struct lx_buf made;
	struct lx_buf head = { 0 };
	add_32(&head, width);
	add_32(&head, height);
	lx_buf_add(&head, (uint8_t[]){ depth, type, 0, 0, 0 }, 5);
	lx_buf_clear(&made);
	lx_buf_add(&made, "\x89PNG\r\n\x1a\n", 8);
	add_chunk(&made, "IHDR", head.p, head.len);
	add_chunk(&made, "IEND", "", 0);
	lx_buf_free(&head);
	return lx_buf_view(&made);
}

/* Where its frame header begins. */
static size_t sof_of(struct lx_span s)
{
	size_t at = 2;
	while (at + 4 < s.len && (s.p[at + 1] < 0xc0 || s.p[at + 1] > 0xc2))
		at += 2 + ((size_t)s.p[at + 2] << 8 | s.p[at + 3]);
	return at;
}

/* A JPEG that says another size. */
static struct lx_span jpeg_of(uint16_t width, uint16_t height)
{
	uint8_t size[] = { (uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8), (uint8_t)width };
	size_t at = sof_of(image(JPEG_RGB)) + 5;
	return spliced(image(JPEG_RGB), at, at + 4, size, 4);
}

/* ---- tests ---- */

static void pixels_are_those_of_the_file(void)
{
	static const int grey[] = { P2, P5, PNG_GREY }, colour[] = { P3, P6, PNG_RGB, PNG_INTERLACED };
	for (size_t i = 0; i < sizeof(grey) / sizeof(*grey); i++)
		CHECK(has(image(grey[i]), 1, pixels(1)));
	for (size_t i = 0; i < sizeof(colour) / sizeof(*colour); i++)
		CHECK(has(image(colour[i]), 3, pixels(3)));
	uint8_t bits[W * H];
	for (uint32_t i = 0; i < W * H; i++)
		bits[i] = pixels(1)[i] & 1 ? 0 : 255;
	CHECK(has(image(P1), 1, bits));
	for (uint32_t i = 0; i < W * H; i++) {
		uint32_t byte = i / W * ((W + 7) / 8) + i % W / 8;
		bits[i] = (uint8_t)(byte * 37) >> (7 - i % W % 8) & 1 ? 0 : 255;
	}
	CHECK(has(image(P4), 1, bits));
}

/* The coefficients of a progressive JPEG are those of a plain one. */
static void jpeg_is_read_whichever_way_it_was_written(void)
{
	struct lx_image im;
	uint8_t *rgb = decoded(image(JPEG_RGB), LX_IMAGE_PIXELS, &im);
	CHECK(rgb && im.channels == 3 && has(image(JPEG_PROGRESSIVE), 3, rgb));
	uint8_t *grey = decoded(image(JPEG_GREY), LX_IMAGE_PIXELS, &im);
	CHECK(grey && im.channels == 1 && im.width == W && im.height == H);
	free(rgb);
	free(grey);
}

/* Never half an image. */
static void cut_anywhere_is_refused(void)
{
	for (int i = 0; i < IMAGES; i++)
		for (size_t n = 0; n < image(i).len; n++)
			if (is_read((struct lx_span){ image(i).p, n })) {
				/* a digit less is a number, too */
				bool number = (i == P2 || i == P3) && n + 2 >= image(i).len;
				if (!number)
					printf("# image %d is read from %zu of its %zu bytes\n", i, n, image(i).len);
				CHECK(number);
			}
}

/* Whatever a byte is changed to: refused, or an image of some size. In a PNG every byte is checked. */
static void changed_anywhere_is_no_crash(void)
{
	for (int i = 0; i < IMAGES; i++)
		for (size_t n = 0; n < image(i).len; n++)
			for (int k = 0; k < 3; k++) {
				struct lx_image im;
				uint8_t c = (uint8_t[]){ 0x80 ^ image(i).p[n], image(i).p[n] + 1, 0xff ^ image(i).p[n] }[k];
				uint8_t *out = decoded(spliced(image(i), n, n + 1, &c, 1), 1u << 20, &im);
				CHECK(!out || i < PNG_GREY || i > PNG_INTERLACED);
				free(out);
			}
}

static void where_it_is_damaged_is_told(void)
{
	struct lx_span s = image(PNG_RGB);
	CHECK(refused((struct lx_span){ s.p, 20 }, "PNG: no whole header"));
	CHECK(refused((struct lx_span){ s.p, s.len - 60 }, "PNG: it ends early"));
	CHECK(refused((struct lx_span){ s.p, s.len - 12 }, "PNG: it ends early (after 13 rows)"));
	CHECK(refused(spliced(s, 29, 30, "x", 1), "PNG: IHDR: CRC error"));
	CHECK(refused(spliced(s, s.len - 20, s.len - 19, "x", 1), "PNG: IDAT: incorrect data check (after 1"));
	s = image(P2);
	CHECK(refused((struct lx_span){ s.p, s.len - 4 }, "netpbm: sample 272 of 273"));
	CHECK(refused(spliced(s, 30, 31, "?", 1), "netpbm: sample "));
	s = image(P6);
	CHECK(refused((struct lx_span){ s.p, s.len - 1 }, "netpbm: 818 bytes of pixels, not 819"));
	CHECK(refused(spliced(s, s.len, s.len, "P6", 2), "netpbm: 2 bytes behind the image"));
	CHECK(is_read(spliced(s, s.len, s.len, "\n", 1)));
	s = image(JPEG_RGB);
	CHECK(refused((struct lx_span){ s.p, s.len - 2 }, "JPEG: Premature end of JPEG file"));
}

/* What libjpeg and libpng only warn about. */
static void a_warning_is_damage(void)
{
	struct lx_span s = image(JPEG_RGB);
	CHECK(refused(spliced(s, s.len - 40, s.len - 2, "", 0), "JPEG: Corrupt JPEG data"));
	CHECK(refused(spliced(s, s.len - 40, s.len - 40, "\xff\xd5", 2), "JPEG: Corrupt JPEG data"));
	s = image(PNG_GREY); /* a gamma in a chunk that is damaged: not needed, but checked */
	CHECK(memcmp(s.p + 37, "gAMA", 4) == 0);
	CHECK(refused(spliced(s, 41, 42, "x", 1), "PNG: gAMA: CRC error"));
}

static void what_follows_a_png_or_a_jpeg_is_not_looked_at(void)
{
	for (int i = PNG_GREY; i < IMAGES; i++)
		CHECK(is_read(spliced(image(i), image(i).len, image(i).len, "more", 4)));
}

static void cmyk_is_refused(void)
{
	struct lx_buf b = { 0 };
	add_jpeg(&b, TJPF_CMYK, TJSAMP_444, 0);
	CHECK(refused(lx_buf_view(&b), "JPEG: CMYK"));
	lx_buf_free(&b);
}

/* An orientation that would turn the image. */
static void exif_is_ignored(void)
{
	static const char exif[] = "\xff\xe1\0\x22" "Exif\0\0" "MM\0*\0\0\0\x8" "\0\x1" "\x1\x12\0\x3\0\0\0\x1\0\x6\0\0" "\0\0\0\0";
	struct lx_image im;
	uint8_t *out = decoded(image(JPEG_RGB), LX_IMAGE_PIXELS, &im);
	CHECK(sizeof(exif) - 1 == 2 + 0x22);
	CHECK(out && has(spliced(image(JPEG_RGB), 2, 2, exif, sizeof(exif) - 1), 3, out));
	free(out);
}

static void sizes_without_pixels_are_refused(void)
{
	static const char *const netpbm[] = { "P5 0 1 255 ", "P5 1 0 255 ", "P4 0 0 ", "P1 0 5 ", "P3 0 1 255 " };
	for (size_t i = 0; i < sizeof(netpbm) / sizeof(*netpbm); i++)
		CHECK(refused(lx_span_str(netpbm[i]), " pixels"));
	CHECK(refused(png_of(0, 5, 8, 0), "0 x 5 pixels") && refused(png_of(5, 0, 8, 2), "5 x 0 pixels"));
	CHECK(refused(jpeg_of(0, 5), "JPEG: ") && refused(jpeg_of(5, 0), "JPEG: "));
}

/* Products that do not fit into 32 or 64 bits, and numbers that do not. */
static void sizes_do_not_overflow(void)
{
	static const char *const netpbm[] = {
		"P5 4294967296 4294967296 255 x", "P5 65536 65536 255 x", "P6 2147483647 2147483647 65535 x", "P4 4294967295 4294967295 x",
		"P5 99999999999999999999999 1 255 x", "P2 1 18446744073709551617 255 1", "P3 1431655766 1 255 1 1 1",
	};
	struct lx_image im;
	for (size_t i = 0; i < sizeof(netpbm) / sizeof(*netpbm); i++)
		CHECK(!decoded(lx_span_str(netpbm[i]), UINT64_MAX, &im));
	for (uint32_t w = 0x40000000; w; w <<= 1) {
		CHECK(!decoded(png_of(w, w, 16, 6), UINT64_MAX, &im) && !decoded(png_of(w - 1, w - 1, 16, 6), UINT64_MAX, &im));
		CHECK(!decoded(png_of(w, 1, 1, 0), UINT64_MAX, &im) && !decoded(png_of(1, w, 8, 3), UINT64_MAX, &im));
	}
	CHECK(refused(lx_span_str("P5 1 1 65536 xx"), "maxval of 65536") && refused(lx_span_str("P5 1 1 0 x"), "maxval of 0"));
	CHECK(refused(lx_span_str("P5 1 1 18446744073709551871 x"), "maxval of "));
}

/* Before there is memory for its pixels. */
static void a_size_that_lies_is_refused_by_the_header(void)
{
	struct lx_image im;
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_image_probe(png_of(16000, 16000, 8, 2), LX_IMAGE_PIXELS, &im, &err) < 0 && strstr(err.msg, "16000 x 16000 pixels cannot be in"));
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_image_probe(lx_span_str("P6 16000 16000 255 x"), LX_IMAGE_PIXELS, &im, &err) < 0 && strstr(err.msg, "1 bytes of pixels, not 768000000"));
	err = (struct lx_err)LX_ERR_INIT;
	CHECK(lx_image_probe(lx_span_str("P3 16000 16000 255 1 1"), LX_IMAGE_PIXELS, &im, &err) < 0 && strstr(err.msg, "not 1535999999"));
	CHECK(refused(png_of(20000, 20000, 8, 2), "20000 x 20000 pixels, over 268435456 (--max-pixels)"));
	CHECK(refused(jpeg_of(65500, 65500), "65500 x 65500 pixels, over 268435456 (--max-pixels)"));
}

static void the_limit_is_exact(void)
{
	struct lx_image im;
	for (int i = 0; i < IMAGES; i++) {
		uint8_t *out = decoded(image(i), W * H, &im);
		CHECK(out && !decoded(image(i), W * H - 1, &im) && strstr(err.msg, "21 x 13 pixels, over 272 (--max-pixels)"));
		free(out);
	}
}

static void png_headers_that_are_none(void)
{
	CHECK(refused(png_of(3, 3, 3, 0), "PNG: ") && refused(png_of(3, 3, 16, 3), "PNG: ") && refused(png_of(3, 3, 4, 2), "PNG: "));
	CHECK(refused(png_of(3, 3, 8, 1), "PNG: no colour type 1 of 8 bits") && refused(png_of(3, 3, 8, 255), "PNG: no colour type 255"));
	CHECK(refused(png_of(3, 3, 0, 0), "of 0 bits") && refused(png_of(3, 3, 255, 0), "of 255 bits"));
	CHECK(refused(png_of(3, 3, 8, 3), "PNG: IEND: out of place") && refused(png_of(3, 3, 8, 0), "PNG: IEND: out of place"));
}

int main(void)
{
	make_images();
	RUN(pixels_are_those_of_the_file);
	RUN(jpeg_is_read_whichever_way_it_was_written);
	RUN(cut_anywhere_is_refused);
	RUN(changed_anywhere_is_no_crash);
	RUN(where_it_is_damaged_is_told);
	RUN(a_warning_is_damage);
	RUN(what_follows_a_png_or_a_jpeg_is_not_looked_at);
	RUN(cmyk_is_refused);
	RUN(exif_is_ignored);
	RUN(sizes_without_pixels_are_refused);
	RUN(sizes_do_not_overflow);
	RUN(a_size_that_lies_is_refused_by_the_header);
	RUN(the_limit_is_exact);
	RUN(png_headers_that_are_none);
	for (int i = 0; i < IMAGES; i++)
		lx_buf_free(&images[i]);
	return tap_done();
}

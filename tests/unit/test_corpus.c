/* Every file of tests/corpus through the reader: the exit status that its README promises. What is good is also written
 * again, in every packing and unopened, and has to come back byte for byte. */
#include "stream.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define DIR "tests/corpus/"

static struct lx_buf file;

static int memfile(struct lx_span s)
{
	struct lx_err e = LX_ERR_INIT;
	int fd = memfd_create("corpus", MFD_CLOEXEC);
	if (fd < 0 || lx_io_write(fd, s.p, s.len, &e) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		printf("Bail out! no memory file\n");
		exit(1);
	}
	return fd;
}

/* Copy what the reader stands at: a frame unopened if it has a hint and that is asked for, else record by record. */
static void copy_frame(struct lx_reader *r, struct lx_buf *records, struct lx_writer *w, bool unopened, struct lx_err *e)
{
	struct lx_rec rec;
	if (w && unopened && lx_reader_hint(r)) {
		lx_writer_forward(w, r, e);
		return;
	}
	while (lx_reader_rec(r, &rec, e) == 1) {
		lx_buf_span(records, rec.raw);
		if (w)
			lx_writer_add(w, &rec, e);
	}
	if (w && !e->code)
		lx_writer_flush(w, e);
}

/* Segments of parts are written as plain ones: the reader has dropped the repeated ones. */
static void copy_begin(const struct lx_plan *p, struct lx_writer *w, enum lx_packing packing, struct lx_err *e)
{
	struct lx_plan mine;
	lx_plan_copy(&mine, p, e);
	mine.has_part = false;
	mine.packing = packing;
	lx_writer_begin(w, &mine, e);
	lx_plan_free(&mine);
}

/* Read a stream to its end; its raw records are appended to `records`. With a writer, copy it. */
static int read_all(struct lx_span stream, const struct lx_limits *l, struct lx_buf *records, struct lx_writer *w,
                    enum lx_packing packing, bool unopened, struct lx_err *e)
{
	int fd = memfile(stream);
	struct lx_reader *r = lx_reader_new(fd, "corpus", l, e);
	enum lx_event ev = LX_EV_ERROR;
	while (!e->code && (ev = lx_reader_wait(r, e)) != LX_EV_EOF && ev > LX_EV_MORE) {
		if (ev == LX_EV_FRAME)
			copy_frame(r, records, w, unopened, e);
		else if (ev == LX_EV_BEGIN && w)
			copy_begin(lx_reader_plan(r), w, packing, e);
		else if (ev == LX_EV_HINT && w)
			lx_writer_hint(w, lx_reader_hint(r)->bars, e);
		else if (ev == LX_EV_END && w)
			lx_writer_end(w, 0, e);
	}
	CHECK(ev == LX_EV_EOF || e->code != LX_OK);
	lx_reader_free(r);
	close(fd);
	return e->code;
}

static void load(const char *name)
{
	char path[300];
	struct lx_err e = LX_ERR_INIT;
	snprintf(path, sizeof(path), DIR "%s", name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	lx_buf_clear(&file);
	if (fd < 0 || lx_io_slurp(fd, &file, 1u << 20, "", &e) < 0) {
		printf("Bail out! %s cannot be read\n", path);
		exit(1);
	}
	close(fd);
}

/* "--max-record 100 --max-depth 5" */
static struct lx_limits limits_of(const char *options)
{
	struct lx_limits l = LX_LIMITS_DEFAULT;
	char name[16];
	unsigned value;
	int used;
	for (; sscanf(options, " --max-%15s %u%n", name, &value, &used) == 2; options += used) {
		if (strcmp(name, "record") == 0)
			l.record = value;
		else if (strcmp(name, "frame") == 0)
			l.frame = value;
		else if (strcmp(name, "depth") == 0)
			l.depth = value;
		else if (strcmp(name, "id") == 0)
			l.id_len = value;
		else if (strcmp(name, "fields") == 0)
			l.fields = value;
	}
	return l;
}

static void check_status(const char *name, int status, const char *options)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_buf records = { 0 };
	struct lx_limits l = limits_of(options);
	load(name);
	int got = read_all(lx_buf_view(&file), &l, &records, NULL, LX_RAW, false, &e);
	if (got != status)
		printf("# %s %s: status %d, not %d: %s\n", name, options, got, status, e.msg);
	CHECK(got == status);
	CHECK((got != LX_OK) == (e.msg[0] != '\0'));
	lx_buf_free(&records);
}

/* What a reader handed out, written again, is read as the same bytes. */
static void check_copy(enum lx_packing packing, bool unopened)
{
	struct lx_err e = LX_ERR_INIT;
	struct lx_limits l = LX_LIMITS_DEFAULT;
	struct lx_buf want = { 0 }, got = { 0 };
	struct lx_writer w;
	CHECK(read_all(lx_buf_view(&file), &l, &want, NULL, packing, false, &e) == LX_OK);
	CHECK(lx_writer_init(&w, -1, &l, &e) == 0);
	CHECK(read_all(lx_buf_view(&file), &l, &got, &w, packing, unopened, &e) == LX_OK);
	lx_buf_clear(&got);
	CHECK(read_all(lx_buf_view(&w.out), &l, &got, NULL, packing, false, &e) == LX_OK);
	CHECK(lx_span_eq(lx_buf_view(&want), lx_buf_view(&got)));
	lx_writer_release(&w);
	lx_buf_free(&want);
	lx_buf_free(&got);
}

static int good, bad, unsupported;

/* One line of the table in README.md. */
static void check_row(const char *line)
{
	char name[128], options[128] = "";
	int status, used = 0;
	if (sscanf(line, "| %127s | %d |%n", name, &status, &used) != 2 || !used)
		return;
	sscanf(line + used, " %127[^|]", options);
	good += strncmp(name, "good-", 5) == 0;
	bad += strncmp(name, "bad-", 4) == 0;
	unsupported += strncmp(name, "unsupported-", 12) == 0;
	check_status(name, status, options);
	if (status == LX_OK && options[0] != '-')
		for (int i = 0; i < 6; i++)
			check_copy((enum lx_packing)(i % 3), i >= 3);
}

static void corpus_reads_as_its_readme_says(void)
{
	char line[1024];
	FILE *f = fopen(DIR "README.md", "r");
	CHECK(f != NULL);
	while (f && fgets(line, sizeof(line), f))
		check_row(line);
	if (f)
		fclose(f);
	CHECK(good >= 30 && bad >= 100 && unsupported >= 5);
}

/* Cut after every byte: never accepted, never anything else than cut. */
static void cut_anywhere_is_truncated(void)
{
	static const char *const names[] = { "good-outcomes.lx", "good-hints.lx", "good-zstd.lx", "good-mixed.lx" };
	struct lx_limits l = LX_LIMITS_DEFAULT;
	struct lx_buf records = { 0 };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		load(names[i]);
		for (size_t n = 0; n < file.len; n++) {
			struct lx_err e = LX_ERR_INIT;
			lx_buf_clear(&records);
			CHECK(read_all((struct lx_span){ file.p, n }, &l, &records, NULL, LX_RAW, false, &e) == LX_DATA);
		}
	}
	lx_buf_free(&records);
}

int main(void)
{
	RUN(corpus_reads_as_its_readme_says);
	RUN(cut_anywhere_is_truncated);
	lx_buf_free(&file);
	return tap_done();
}

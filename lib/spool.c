#include "spool.h"
#include "done.h"
#include "part.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define ULL(x) ((unsigned long long)(x))
#define STEM_MAX 128               /* a run id may be as long */
#define BESIDE_BYTES (1u << 20)    /* what is written beside batches leaves when it is so much, */
#define BESIDE_BATCHES 8           /* or with every so many batches */
#define DIGITS 6

enum where { IN = 1, OUT = 2 }; /* where a number's file is: bits */

/* Present items, as a number and a sum that does not depend on their order. */
struct sum {
	uint64_t n, hash;
};

struct lx_spool {
	struct lx_spool_conf conf;
	struct lx_plan plan, beside_plan;
	int domain;
	char stem[STEM_MAX + 1];
	int lock, in, out;     /* the directories */
	uint8_t *numbers;      /* enum where, for each below n */
	uint64_t n, first_free;
	bool complete;         /* the last part is there: number n - 1 */
	/* what is there from before: items, marked where not present; closes */
	struct lx_done *items[LX_DOMAINS_MAX], *closes[LX_DOMAINS_MAX];
	struct sum there, again;
	bool loose;            /* the sums say nothing: a result stands for its batch, or an item is present only here or there */
	uint64_t reading;      /* number whose file is read */
	struct lx_writer batch, beside;
	uint64_t since;        /* batches since `beside` left */
	struct lx_spool_stats stats;
};

const struct lx_spool_stats *lx_spool_stats(const struct lx_spool *s)
{
	return &s->stats;
}

/* ---- names and numbers ---- */

static void make_stem(char *out, const char *run)
{
	size_t n = 0;
	for (; run[n]; n++)
		out[n] = run[n];
	out[n] = '\0';
	for (char *c = out; *c; c++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", *c) || (c == out && strchr("-.", *c)))
			*c = '_';
}

static char *path_of(const struct lx_spool *s, enum where w, uint64_t number, bool last, struct lx_err *e)
{
	char *path, digits[24];
	snprintf(digits, sizeof(digits), "%0*llu", DIGITS, ULL(number));
	if (asprintf(&path, "%s/%s/%s.%s.lx", s->conf.dir, w == IN ? "in" : "out", s->stem, last ? "last" : digits) >= 0)
		return path;
	lx_err_sys(e, "%s", s->conf.dir);
	return NULL;
}

/* What follows RUN in the name of one of our parts, up to ".lx"; NULL: it is none. */
static const char *suffix_of(const struct lx_spool *s, const char *name)
{
	size_t n = strlen(s->stem);
	return lx_part_name(name) && strncmp(name, s->stem, n) == 0 && name[n] == '.' ? name + n + 1 : NULL;
}

static bool number_of(const char *suffix, uint64_t *number)
{
	size_t digits = strspn(suffix, "0123456789");
	if (digits < DIGITS || digits > 18 || strcmp(suffix + digits, ".lx") != 0)
		return false;
	*number = strtoull(suffix, NULL, 10);
	return true;
}

static int note_number(struct lx_spool *s, uint64_t number, enum where w, struct lx_err *e)
{
	if (number >= LX_PARTS_MAX)
		return lx_err_set(e, LX_DATA, "%s: part %llu, over %u: make larger batches (-n)", s->conf.dir, ULL(number), LX_PARTS_MAX);
	if (number >= s->n) {
		uint8_t *numbers = realloc(s->numbers, number + 1);
		if (!numbers)
			return lx_err_sys(e, "%s", s->conf.dir);
		memset(numbers + s->n, 0, number + 1 - s->n);
		s->numbers = numbers;
		s->n = number + 1;
	}
	s->numbers[number] |= (uint8_t)w;
	return 0;
}

static uint64_t free_number(struct lx_spool *s)
{
	while (s->first_free < s->n && s->numbers[s->first_free])
		s->first_free++;
	return s->first_free;
}

/* ---- writing ---- */

static int sync_dir(const struct lx_spool *s, int fd, struct lx_err *e)
{
	return fsync(fd) < 0 && errno != EINVAL ? lx_err_sys(e, "%s", s->conf.dir) : 0;
}

static int write_file(struct lx_spool *s, const char *path, struct lx_buf *head, struct lx_buf *body, struct lx_err *e)
{
	struct lx_outfile f;
	struct iovec v[2] = { { head->p, head->len }, { body->p, body->len } };
	if (lx_buf_check(head, e) < 0 || lx_buf_check(body, e) < 0 || lx_outfile_open(&f, path, e) < 0)
		return -1;
	if (lx_io_writev(f.fd, v, 2, e) < 0) {
		lx_outfile_discard(&f);
		return lx_err_prefix(e, "%s", path);
	}
	s->stats.parts++;
	return lx_outfile_commit(&f, e);
}

/* What the writer has gathered becomes the part `number`. */
static int write_part(struct lx_spool *s, struct lx_writer *w, enum where where, uint64_t number, uint64_t parts, struct lx_err *e)
{
	struct lx_plan *plan = where == IN ? &s->plan : &s->beside_plan;
	struct lx_buf map = { 0 }, head = { 0 };
	char *path = path_of(s, where, number, parts != 0, e);
	if (!path)
		return -1;
	plan->has_part = true;
	plan->part = number;
	lx_plan_pack(&map, plan);
	lx_mark_encode(&head, LX_MARK_BEGIN, lx_buf_view(&map));
	int rc = lx_buf_check(&map, e) < 0 || lx_writer_end(w, parts, e) < 0 ? -1 : write_file(s, path, &head, &w->out, e);
	if (rc == 0)
		rc = sync_dir(s, where == IN ? s->in : s->out, e);
	if (rc == 0)
		rc = note_number(s, number, where, e);
	if (rc == 0 && where == IN)
		rc = s->conf.name(s->conf.ctx, path, e);
	lx_buf_clear(&w->out);
	memset(&w->counts, 0, sizeof(w->counts));
	lx_buf_free(&map);
	lx_buf_free(&head);
	free(path);
	return rc;
}

static int open_writer(struct lx_writer *w, const struct lx_spool *s, struct lx_err *e)
{
	if (lx_writer_init(w, -1, &s->conf.limits, e) < 0)
		return -1;
	w->level = s->conf.level;
	w->packing = s->conf.packing;
	w->n_domains = s->plan.n_domains;
	return 0;
}

static bool has_any(const struct lx_writer *w)
{
	return w->records || w->out.len;
}

/* A number for a new part. */
static int take_number(struct lx_spool *s, uint64_t *number, struct lx_err *e)
{
	*number = free_number(s);
	if (*number < s->n || !s->complete)
		return 0;
	return lx_err_set(e, LX_USAGE, "%s is complete, and this input has records that are not in it: give it another directory, or another --run",
	                  s->conf.dir);
}

int lx_spool_flush(struct lx_spool *s, struct lx_err *e)
{
	uint64_t number;
	s->since = 0;
	if (!has_any(&s->beside))
		return 0;
	return take_number(s, &number, e) < 0 ? -1 : write_part(s, &s->beside, OUT, number, 0, e);
}

int lx_spool_close(struct lx_spool *s, struct lx_err *e)
{
	uint64_t number;
	if (!has_any(&s->batch))
		return 0;
	s->stats.batches++;
	s->stats.items += lx_counts_items(&s->batch.counts, s->domain);
	if (take_number(s, &number, e) < 0 || write_part(s, &s->batch, IN, number, 0, e) < 0)
		return -1;
	return ++s->since >= BESIDE_BATCHES ? lx_spool_flush(s, e) : 0;
}

/* ---- what is there ---- */

static struct lx_done **set_of(const struct lx_spool *s, const struct lx_rec *r)
{
	return (struct lx_done **)(r->kind == LX_CLOSE ? &s->closes[r->domain] : &s->items[r->domain]);
}

static void add_sum(struct sum *to, const struct lx_rec *r)
{
	to->n++;
	to->hash += XXH3_64bits(r->raw.p, r->raw.len);
}

/* A record of a part that is there. */
static int learn(void *ctx, const struct lx_rec *r, struct lx_err *e)
{
	struct lx_spool *s = ctx;
	struct lx_done **set = set_of(s, r);
	bool batch = s->numbers[s->reading] & IN;
	if (!*set && !(*set = lx_done_new()))
		return lx_err_sys(e, "%s", s->conf.dir);
	if (r->kind == LX_ITEM && r->domain == (uint32_t)s->domain && !batch)
		s->loose = true;
	if (r->kind == LX_ITEM)
		add_sum(&s->there, r);
	return lx_done_add(*set, &r->id, r->kind == LX_GONE, e);
}

static enum lx_done_state state_of(const struct lx_spool *s, const struct lx_rec *r)
{
	struct lx_done *set = *set_of(s, r);
	return set ? lx_done_has(set, &r->id) : LX_DONE_NO;
}

bool lx_spool_has(const struct lx_spool *s, const struct lx_rec *r)
{
	return state_of(s, r) != LX_DONE_NO;
}

/* A record that is there has come again. */
static void compare(struct lx_spool *s, const struct lx_rec *r, enum lx_done_state there)
{
	s->stats.known++;
	if (r->kind == LX_CLOSE)
		return;
	if ((r->kind == LX_ITEM) != (there == LX_DONE_YES))
		s->loose = true;
	else if (r->kind == LX_ITEM)
		add_sum(&s->again, r);
}

int lx_spool_add(struct lx_spool *s, const struct lx_rec *r, struct lx_err *e)
{
	enum lx_done_state there = state_of(s, r);
	if (there != LX_DONE_NO)
		return compare(s, r, there), 0;
	if (r->kind == LX_ITEM && r->domain == (uint32_t)s->domain)
		return lx_writer_add(&s->batch, r, e);
	if (lx_writer_add(&s->beside, r, e) < 0)
		return -1;
	if (lx_writer_full(&s->beside) && lx_writer_close(&s->beside, e) < 0)
		return -1;
	return s->beside.out.len >= BESIDE_BYTES ? lx_spool_flush(s, e) : 0;
}

static int check_run(const struct lx_spool *s, const char *path, const char *run, struct lx_err *e)
{
	if (strcmp(run, s->plan.run) == 0)
		return 0;
	return lx_err_set(e, LX_USAGE, "%s is of run %s, this is run %s: go on with lx-in --run %s, or give this one another directory", path, run,
	                  s->plan.run, run);
}

static int read_part(struct lx_spool *s, enum where w, uint64_t number, bool last, struct lx_err *e)
{
	struct lx_part p;
	char *path = path_of(s, w, number, last, e);
	if (!path)
		return -1;
	s->reading = number;
	int rc = lx_part_read(path, &s->conf.limits, &p, learn, s, e);
	if (rc < 0 && e->code == LX_DATA)
		lx_err_prefix(e, "remove the file, what was in it is written again");
	if (rc == 0 && (rc = check_run(s, path, p.run, e)) == 0 && p.number != number)
		rc = lx_err_set(e, LX_DATA, "%s: it is part %llu", path, ULL(p.number));
	if (rc == 0 && w == IN) {
		s->stats.known_batches++;
		rc = s->conf.name(s->conf.ctx, path, e);
	}
	free(path);
	return rc;
}

static int find_last(struct lx_spool *s, struct lx_err *e)
{
	struct lx_part p;
	char *path = path_of(s, OUT, 0, true, e);
	if (!path)
		return -1;
	int rc = lx_part_head(path, &s->conf.limits, &p, e);
	if (rc == 0)
		rc = check_run(s, path, p.run, e);
	if (rc == 0 && s->n > p.number)
		rc = lx_err_set(e, LX_DATA, "%s: it is part %llu, but there is part %llu", path, ULL(p.number), ULL(s->n - 1));
	if (rc == 0)
		rc = note_number(s, p.number, OUT, e);
	s->complete = true;
	free(path);
	return rc;
}

/* The names in one directory. Another run's first part says that this spool is its. */
static int list_dir(struct lx_spool *s, enum where w, bool *last, struct lx_err *e)
{
	int fd = dup(w == IN ? s->in : s->out), rc = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return lx_err_sys(e, "%s", s->conf.dir);
	for (struct dirent *entry; rc == 0 && (entry = readdir(d));) {
		const char *suffix = suffix_of(s, entry->d_name), *first = strstr(entry->d_name, ".000000.lx");
		uint64_t number;
		if (suffix && strcmp(suffix, "last.lx") == 0)
			*last = *last || w == OUT;
		else if (suffix && number_of(suffix, &number))
			rc = note_number(s, number, w, e);
		else if (w == OUT && first && lx_part_name(entry->d_name))
			rc = lx_err_set(e, LX_USAGE, "%s holds another run (out/%s): go on with its lx-in --run, or give run %s another directory",
			                s->conf.dir, entry->d_name, s->plan.run);
	}
	closedir(d);
	return rc;
}

static int read_all(struct lx_spool *s, struct lx_err *e)
{
	bool last = false;
	if (list_dir(s, IN, &last, e) < 0 || list_dir(s, OUT, &last, e) < 0 || (last && find_last(s, e) < 0))
		return -1;
	for (uint64_t i = 0; i < s->n; i++)
		if (s->numbers[i] && read_part(s, s->numbers[i] & IN ? IN : OUT, i, s->complete && i == s->n - 1, e) < 0)
			return -1;
	return 0;
}

/* ---- begin and end ---- */

static int open_dir(const struct lx_spool *s, const char *below, struct lx_err *e)
{
	char *path;
	if (asprintf(&path, "%s%s", s->conf.dir, below) < 0)
		return lx_err_sys(e, "%s", s->conf.dir);
	if (mkdir(path, 0777) < 0 && errno != EEXIST)
		lx_err_sys(e, "--spool: %s", path);
	int fd = e->code ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		lx_err_sys(e, "--spool: %s", path);
	free(path);
	return fd;
}

static int open_dirs(struct lx_spool *s, struct lx_err *e)
{
	s->lock = open_dir(s, "", e);
	if (s->lock >= 0 && flock(s->lock, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? lx_err_set(e, LX_USAGE, "--spool: another lx-batch is writing to %s", s->conf.dir)
		                            : lx_err_sys(e, "--spool: %s", s->conf.dir);
	if (s->lock < 0 || (s->in = open_dir(s, "/in", e)) < 0 || (s->out = open_dir(s, "/out", e)) < 0)
		return -1;
	return sync_dir(s, s->lock, e);
}

static int take_plan(struct lx_spool *s, const struct lx_plan *plan, struct lx_err *e)
{
	static const char *const any[] = { "*", NULL };
	if (lx_plan_copy(&s->plan, plan, e) < 0)
		return -1;
	s->plan.packing = s->conf.packing;
	s->plan.limits = s->conf.limits;
	if (lx_plan_copy(&s->beside_plan, &s->plan, e) < 0)
		return -1;
	make_stem(s->stem, plan->run);
	return lx_plan_op(&s->beside_plan, "lx-batch", s->domain, NULL, any, NULL, e);
}

static int start(struct lx_spool *s, const struct lx_plan *plan, struct lx_err *e)
{
	if (take_plan(s, plan, e) < 0 || open_dirs(s, e) < 0 || open_writer(&s->batch, s, e) < 0 || open_writer(&s->beside, s, e) < 0 ||
	    read_all(s, e) < 0)
		return -1;
	return s->n && s->numbers[0] ? 0 : write_part(s, &s->beside, OUT, 0, 0, e);
}

struct lx_spool *lx_spool_open(const struct lx_spool_conf *c, const struct lx_plan *plan, int domain, struct lx_err *e)
{
	struct lx_spool *s = calloc(1, sizeof(*s));
	if (!s) {
		lx_err_sys(e, "--spool");
		return NULL;
	}
	s->conf = *c;
	s->domain = domain;
	s->lock = s->in = s->out = -1;
	lx_plan_init(&s->plan);
	lx_plan_init(&s->beside_plan);
	if (start(s, plan, e) == 0)
		return s;
	lx_spool_free(s);
	return NULL;
}

void lx_spool_free(struct lx_spool *s)
{
	if (!s)
		return;
	for (int d = 0; d < LX_DOMAINS_MAX; d++) {
		lx_done_free(s->items[d]);
		lx_done_free(s->closes[d]);
	}
	if (s->batch.codec)
		lx_writer_release(&s->batch);
	if (s->beside.codec)
		lx_writer_release(&s->beside);
	lx_plan_free(&s->plan);
	lx_plan_free(&s->beside_plan);
	free(s->numbers);
	int fds[] = { s->in, s->out, s->lock };
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(s);
}

static int check_sums(const struct lx_spool *s, struct lx_err *e)
{
	if (s->loose || (s->there.n == s->again.n && s->there.hash == s->again.hash))
		return 0;
	if (s->there.n != s->again.n)
		return lx_err_set(e, LX_USAGE, "%s has %llu items and only %llu of them came again: this is not the input it was made of (another --run, "
		                  "another directory)", s->conf.dir, ULL(s->there.n), ULL(s->again.n));
	return lx_err_set(e, LX_USAGE, "the items in %s came again with other fields: a command before lx-batch has changed (another --run, another "
	                  "directory)", s->conf.dir);
}

int lx_spool_end(struct lx_spool *s, struct lx_err *e)
{
	if (check_sums(s, e) < 0 || lx_spool_close(s, e) < 0)
		return -1;
	if (s->complete && lx_spool_flush(s, e) < 0)
		return -1;
	for (uint64_t i; (i = free_number(s)) < s->n;) /* what lay there is elsewhere, or was never written */
		if (write_part(s, &s->beside, OUT, i, 0, e) < 0)
			return -1;
	return s->complete ? 0 : write_part(s, &s->beside, OUT, s->n, s->n + 1, e);
}

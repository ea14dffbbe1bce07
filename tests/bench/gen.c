/* gen: parents with small children, in a known order, as an lx stream or as tab-separated lines.
 *
 *     gen [-t] PARENTS CHILDREN PAYLOAD WINDOW SEED
 *
 * Every parent has CHILDREN children with five header fields and PAYLOAD bytes. Records leave shuffled within a
 * window of WINDOW records (1: in order; 0: a full shuffle), drawn with SEED. -t: the children only, as lines
 * `parent TAB ordinal TAB fields... TAB payload`, in the order they have in the stream.
 */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t parents, children, payload, window, state;
static bool text;
static struct lx_writer w;
static struct lx_buf rec, line;
static uint8_t *filler;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void die(const char *what)
{
	fprintf(stderr, "gen: %s\n", what);
	exit(1);
}

static void send_line(bool all)
{
	struct lx_err e = LX_ERR_INIT;
	if ((all || line.len > 1u << 17) && line.len) {
		if (lx_io_write(1, line.p, line.len, &e) < 0)
			die(e.msg);
		lx_buf_clear(&line);
	}
}

static void field(const char *name, const char *value)
{
	lx_pack_cstr(&rec, name);
	lx_pack_cstr(&rec, value);
}

static void put_child(uint64_t parent, uint64_t ordinal)
{
	char a[24], b[24];
	struct lx_span bytes = { filler + (parent * 31 + ordinal * 7) % 997, payload };
	snprintf(a, sizeof(a), "%llu", (unsigned long long)parent);
	snprintf(b, sizeof(b), "%llu", (unsigned long long)ordinal);
	if (text) {
		lx_buf_printf(&line, "%s\t%s\t%s\ten\t%s\tx\t", a, b, a, b);
		lx_buf_span(&line, bytes);
		lx_buf_byte(&line, '\n');
		send_line(false);
		return;
	}
	lx_rec_item_head(&rec, 1, &(struct lx_id){ 2, { parent, ordinal } });
	lx_pack_map(&rec, 6);
	field("doc", a);
	field("lang", "en");
	field("no", b);
	field("kind", "x");
	lx_pack_cstr(&rec, "size");
	lx_pack_uint(&rec, payload);
	lx_pack_cstr(&rec, "data");
	lx_pack_str(&rec, bytes);
}

static void put_parent(uint64_t parent)
{
	char key[24];
	if (text)
		return;
	snprintf(key, sizeof(key), "%llu", (unsigned long long)parent);
	lx_rec_item_head(&rec, 0, &(struct lx_id){ 1, { parent } });
	lx_pack_map(&rec, 1);
	field("path", key);
	lx_pack_cstr(&rec, key);
}

/* Record n of the unshuffled order: the parent, its children, the close. */
static void put(uint64_t n)
{
	struct lx_err e = LX_ERR_INIT;
	uint64_t parent = n / (children + 2), at = n % (children + 2);
	if (at == 0)
		put_parent(parent);
	else if (at <= children)
		put_child(parent, at - 1);
	else if (!text)
		lx_rec_close(&rec, 1, &(struct lx_id){ 1, { parent } }, children, LX_PRESENT, (struct lx_span){ 0 });
	if (text)
		return;
	if (lx_writer_add_buf(&w, &rec, &e) < 0 || (lx_writer_full(&w) && lx_writer_flush(&w, &e) < 0))
		die(e.msg);
}

/* Draw one of the records in the window, put the next in its place. */
static void put_all(uint64_t total)
{
	uint64_t in = window && window < total ? window : total, next = in;
	uint32_t *slots = malloc(in * sizeof(*slots));
	if (!slots)
		die("no memory");
	for (uint64_t i = 0; i < in; i++)
		slots[i] = (uint32_t)i;
	while (in) {
		uint64_t i = in == 1 ? 0 : draw() % in;
		put(slots[i]);
		slots[i] = next < total ? (uint32_t)next++ : slots[--in];
	}
	free(slots);
}

static void begin(void)
{
	struct lx_limits limits = LX_LIMITS_DEFAULT;
	struct lx_err e = LX_ERR_INIT;
	struct lx_plan p;
	lx_plan_init(&p);
	strcpy(p.run, "gen");
	strcpy(p.domains[0].name, "doc");
	p.domains[0].parent = -1;
	p.n_domains = 1;
	if (lx_plan_op(&p, "gen", 0, NULL, (const char *const[]){ "path", NULL }, NULL, &e) < 0 ||
	    lx_plan_expand(&p, "line", 0, (struct lx_tolerance){ 0 }, &e) < 0 ||
	    lx_plan_op(&p, "gen", 1, NULL, (const char *const[]){ "doc", "lang", "no", "kind", "size", "data", NULL }, NULL, &e) < 0 ||
	    lx_writer_init(&w, 1, &limits, &e) < 0 || lx_writer_begin(&w, &p, &e) < 0)
		die(e.msg);
	lx_plan_free(&p);
}

int main(int argc, char **argv)
{
	struct lx_err e = LX_ERR_INIT;
	text = argc > 1 && strcmp(argv[1], "-t") == 0;
	argv += text;
	if (argc - text != 6)
		die("usage: gen [-t] PARENTS CHILDREN PAYLOAD WINDOW SEED");
	parents = strtoull(argv[1], NULL, 10);
	children = strtoull(argv[2], NULL, 10);
	payload = strtoull(argv[3], NULL, 10);
	window = strtoull(argv[4], NULL, 10);
	state = strtoull(argv[5], NULL, 10) * 0x9e3779b97f4a7c15u + 1;
	filler = malloc(payload + 1000);
	for (uint64_t i = 0; i < payload + 1000; i++)
		filler[i] = (uint8_t)('a' + draw() % 26);
	if (!text)
		begin();
	put_all(parents * (children + 2));
	send_line(true);
	if (!text && lx_writer_end(&w, 0, &e) < 0)
		die(e.msg);
	free(filler);
	return 0;
}

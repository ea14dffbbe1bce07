#include "lineage.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ULL(x) ((unsigned long long)(x))
#define OPS_MAX 4096
#define LIST_MAX 4096

/* ---- lists of strings ---- */

static void free_list(char **l)
{
	for (char **s = l; s && *s; s++)
		free(*s);
	free(l);
}

static size_t list_len(char *const *l)
{
	size_t n = 0;
	while (l && l[n])
		n++;
	return n;
}

static char **copy_list(char *const *l)
{
	size_t n = list_len(l);
	char **to = calloc(n + 1, sizeof(*to));
	for (size_t i = 0; to && i < n; i++) {
		to[i] = strdup(l[i]);
		if (!to[i]) {
			free_list(to);
			return NULL;
		}
	}
	return to;
}

static bool list_has(char *const *l, const char *s)
{
	for (; l && *l; l++)
		if (strcmp(*l, s) == 0)
			return true;
	return false;
}

/* ---- life ---- */

void lx_plan_init(struct lx_plan *p)
{
	memset(p, 0, sizeof(*p));
	p->limits = (struct lx_limits)LX_LIMITS_DEFAULT;
}

static void free_op(struct lx_op *op)
{
	free(op->tool);
	free(op->host);
	free_list(op->reads);
	free_list(op->writes);
	free_list(op->drops);
}

void lx_plan_free(struct lx_plan *p)
{
	for (int i = 0; i < p->n_ops; i++)
		free_op(&p->ops[i]);
	free(p->ops);
	p->ops = NULL;
	p->n_ops = 0;
}

static int no_memory(struct lx_err *e)
{
	errno = ENOMEM;
	return lx_err_sys(e, "begin mark");
}

static int add_op(struct lx_plan *p, const char *tool, const char *host, int domain, char *const *reads,
                  char *const *writes, char *const *drops, struct lx_err *e)
{
	struct lx_op *ops = realloc(p->ops, (size_t)(p->n_ops + 1) * sizeof(*ops));
	if (!ops)
		return no_memory(e);
	p->ops = ops;
	struct lx_op *op = &ops[p->n_ops++];
	*op = (struct lx_op){ strdup(tool), strdup(host), domain, copy_list(reads), copy_list(writes), copy_list(drops) };
	return op->tool && op->host && op->reads && op->writes && op->drops ? 0 : no_memory(e);
}

int lx_plan_op(struct lx_plan *p, const char *tool, int domain, const char *const *reads,
               const char *const *writes, const char *const *drops, struct lx_err *e)
{
	char host[256] = "";
	gethostname(host, sizeof(host) - 1);
	return add_op(p, tool, host, domain, (char *const *)reads, (char *const *)writes, (char *const *)drops, e);
}

int lx_plan_copy(struct lx_plan *to, const struct lx_plan *from, struct lx_err *e)
{
	*to = *from;
	to->ops = NULL;
	to->n_ops = 0;
	for (int i = 0; i < from->n_ops; i++) {
		const struct lx_op *op = &from->ops[i];
		if (add_op(to, op->tool, op->host, op->domain, op->reads, op->writes, op->drops, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- writing a begin mark ---- */

static const char *const packing_names[] = { "raw", "checked", "zstd" };

static void pack_list(struct lx_buf *b, const char *name, char *const *l)
{
	lx_pack_cstr(b, name);
	lx_pack_array(b, (uint32_t)list_len(l));
	for (; l && *l; l++)
		lx_pack_cstr(b, *l);
}

static void pack_pair(struct lx_buf *b, const char *name, uint64_t v)
{
	lx_pack_cstr(b, name);
	lx_pack_uint(b, v);
}

static void pack_limits(struct lx_buf *b, const struct lx_limits *l)
{
	lx_pack_cstr(b, "limits");
	lx_pack_map(b, 5);
	pack_pair(b, "record", l->record);
	pack_pair(b, "frame", l->frame);
	pack_pair(b, "depth", l->depth);
	pack_pair(b, "id", l->id_len);
	pack_pair(b, "fields", l->fields);
}

static void pack_domain(struct lx_buf *b, const struct lx_domain *d)
{
	lx_pack_map(b, 3 + (d->tolerance.n != 0));
	lx_pack_cstr(b, "name");
	lx_pack_cstr(b, d->name);
	lx_pack_cstr(b, "parent");
	if (d->parent < 0)
		lx_pack_nil(b);
	else
		lx_pack_uint(b, (uint64_t)d->parent);
	lx_pack_cstr(b, "state");
	lx_pack_cstr(b, d->gathered ? "gathered" : "open");
	if (d->tolerance.n) {
		lx_pack_cstr(b, "tolerance");
		lx_pack_map(b, 1);
		pack_pair(b, d->tolerance.percent ? "percent" : "n", d->tolerance.n);
	}
}

static void pack_op(struct lx_buf *b, const struct lx_op *op)
{
	lx_pack_map(b, 6);
	lx_pack_cstr(b, "tool");
	lx_pack_cstr(b, op->tool);
	lx_pack_cstr(b, "host");
	lx_pack_cstr(b, op->host);
	pack_pair(b, "domain", (uint64_t)op->domain);
	pack_list(b, "reads", op->reads);
	pack_list(b, "writes", op->writes);
	pack_list(b, "drops", op->drops);
}

static void pack_ask(struct lx_buf *b, const struct lx_ask *a)
{
	if (!a->asked)
		return;
	lx_pack_cstr(b, "worker");
	lx_pack_map(b, (uint32_t)a->packed + !!a->beats_ms);
	if (a->packed) {
		lx_pack_cstr(b, "packing");
		lx_pack_cstr(b, packing_names[a->packing]);
	}
	if (a->beats_ms)
		pack_pair(b, "beats", a->beats_ms);
}

void lx_plan_pack(struct lx_buf *b, const struct lx_plan *p)
{
	lx_pack_map(b, 6 + p->has_part + !!p->slots + !!p->beats_ms + p->ask.asked);
	lx_pack_cstr(b, "run");
	lx_pack_cstr(b, p->run);
	lx_pack_cstr(b, "packing");
	lx_pack_cstr(b, packing_names[p->packing]);
	pack_pair(b, "features", p->features);
	pack_limits(b, &p->limits);
	lx_pack_cstr(b, "domains");
	lx_pack_array(b, (uint32_t)p->n_domains);
	for (int i = 0; i < p->n_domains; i++)
		pack_domain(b, &p->domains[i]);
	lx_pack_cstr(b, "ops");
	lx_pack_array(b, (uint32_t)p->n_ops);
	for (int i = 0; i < p->n_ops; i++)
		pack_op(b, &p->ops[i]);
	if (p->has_part)
		pack_pair(b, "part", p->part);
	if (p->slots)
		pack_pair(b, "slots", p->slots);
	if (p->beats_ms)
		pack_pair(b, "beats", p->beats_ms);
	pack_ask(b, &p->ask);
}

/* ---- reading one ---- */

static int bad(struct lx_err *e, const char *what)
{
	return lx_err_set(e, LX_DATA, "begin mark: %s", what);
}

static bool good_name(struct lx_span s)
{
	if (s.len == 0 || s.len > LX_NAME_MAX)
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!(isalpha(s.p[i]) || s.p[i] == '_' || (i && (isdigit(s.p[i]) || s.p[i] == '-'))))
			return false;
	return true;
}

static bool get_cstr(struct lx_span map, const char *key, char *out, size_t size)
{
	struct lx_span s;
	if (!lx_map_str(map, key, &s) || s.len >= size || memchr(s.p, 0, s.len))
		return false;
	memcpy(out, s.p, s.len);
	out[s.len] = '\0';
	return true;
}

/* A number that may be absent, but not something else. */
static int read_optional(struct lx_span map, const char *key, uint64_t *out, struct lx_err *e)
{
	if (!lx_map_get(map, key, strlen(key)).p || lx_map_uint(map, key, out))
		return 0;
	return lx_err_set(e, LX_DATA, "begin mark: %s is not an unsigned integer", key);
}

static int read_run(struct lx_plan *p, struct lx_span map, struct lx_err *e)
{
	if (!get_cstr(map, "run", p->run, sizeof(p->run)) || !p->run[0])
		return bad(e, "no run id of 1 to 128 bytes");
	for (const char *c = p->run; *c; c++)
		if (*c <= ' ' || *c > '~')
			return bad(e, "the run id is not printable ASCII without spaces");
	return 0;
}

static int read_packing(enum lx_packing *packing, struct lx_span map, struct lx_err *e)
{
	char name[16];
	if (get_cstr(map, "packing", name, sizeof(name)))
		for (size_t i = 0; i < sizeof(packing_names) / sizeof(*packing_names); i++)
			if (strcmp(name, packing_names[i]) == 0) {
				*packing = (enum lx_packing)i;
				return 0;
			}
	return bad(e, "packing is not raw, checked or zstd");
}

static int read_ask(struct lx_ask *a, struct lx_span map, struct lx_err *e)
{
	struct lx_span ask = lx_map_get(map, "worker", 6);
	struct lx_val v;
	if (!ask.p)
		return 0;
	if (lx_val_from(ask, &v) < 0 || v.type != LX_MAP)
		return bad(e, "worker is no map");
	a->asked = true;
	a->packed = lx_map_get(ask, "packing", 7).p != NULL;
	if (a->packed && read_packing(&a->packing, ask, e) < 0)
		return -1;
	return read_optional(ask, "beats", &a->beats_ms, e);
}

static uint32_t clamp32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static int read_limits(struct lx_plan *p, struct lx_span map, struct lx_err *e)
{
	struct lx_span l = lx_map_get(map, "limits", 6);
	uint64_t depth, id, fields;
	if (!lx_map_uint(l, "record", &p->limits.record) || !lx_map_uint(l, "frame", &p->limits.frame) ||
	    !lx_map_uint(l, "depth", &depth) || !lx_map_uint(l, "id", &id) || !lx_map_uint(l, "fields", &fields))
		return bad(e, "limits are missing or not unsigned integers");
	p->limits.depth = clamp32(depth);
	p->limits.id_len = clamp32(id);
	p->limits.fields = clamp32(fields);
	return 0;
}

/* The cursor behind an array's head, its length in *n: -1 when there is none or it is too long. */
static int enter_array(struct lx_span map, const char *key, uint32_t most, struct lx_cur *c, uint32_t *n)
{
	struct lx_span s = lx_map_get(map, key, strlen(key));
	struct lx_val v;
	if (!s.p)
		return -1;
	*c = lx_cur(s);
	if (lx_val_read(c, &v) < 0 || v.type != LX_ARRAY || v.n > most)
		return -1;
	*n = v.n;
	return 0;
}

static int read_tolerance(struct lx_domain *d, struct lx_span map, struct lx_err *e)
{
	struct lx_span t = lx_map_get(map, "tolerance", 9);
	d->tolerance.percent = lx_map_uint(t, "percent", &d->tolerance.n);
	if (t.p && d->tolerance.percent == (lx_map_get(t, "n", 1).p != NULL))
		return bad(e, "a tolerance is not one of n and percent");
	if (t.p && !d->tolerance.percent && !lx_map_uint(t, "n", &d->tolerance.n))
		return bad(e, "a tolerance is not an unsigned integer");
	if (d->tolerance.percent && d->tolerance.n > 10000)
		return bad(e, "a tolerance over 100 percent");
	return 0;
}

/* Its parent stands before it, and its items' ids are not too long. */
static int read_parent(struct lx_plan *p, int i, struct lx_span map, struct lx_err *e)
{
	struct lx_val v;
	uint64_t parent;
	int levels = 1;
	p->domains[i].parent = -1;
	if (i == 0)
		return lx_val_from(lx_map_get(map, "parent", 6), &v) < 0 || v.type != LX_NIL ? bad(e, "the first domain's parent is not nil") : 0;
	if (!lx_map_uint(map, "parent", &parent) || parent >= (uint64_t)i)
		return bad(e, "a domain's parent does not stand before it: no tree with one root");
	p->domains[i].parent = (int)parent;
	for (int k = (int)parent; k >= 0; k = p->domains[k].parent)
		levels++;
	return levels > LX_ID_MAX ? bad(e, "a domain is more than 16 levels deep") : 0;
}

static int read_domain(struct lx_plan *p, int i, struct lx_span map, struct lx_err *e)
{
	struct lx_domain *d = &p->domains[i];
	struct lx_span name;
	char state[16];
	if (!lx_map_str(map, "name", &name) || !good_name(name))
		return bad(e, "a domain's name is missing or not of the allowed form");
	memcpy(d->name, name.p, name.len);
	for (int k = 0; k < i; k++)
		if (strcmp(p->domains[k].name, d->name) == 0)
			return bad(e, "two domains have the same name");
	if (read_parent(p, i, map, e) < 0)
		return -1;
	if (!get_cstr(map, "state", state, sizeof(state)) || (strcmp(state, "open") && strcmp(state, "gathered")))
		return bad(e, "a domain's state is neither open nor gathered");
	d->gathered = state[0] == 'g';
	if (d->gathered && i == 0)
		return bad(e, "the root domain is gathered");
	return read_tolerance(d, map, e);
}

static int read_domains(struct lx_plan *p, struct lx_span map, struct lx_err *e)
{
	struct lx_cur c;
	uint32_t n;
	struct lx_span item;
	if (enter_array(map, "domains", LX_DOMAINS_MAX, &c, &n) < 0 || n == 0)
		return bad(e, "no array of 1 to 64 domains");
	p->n_domains = (int)n;
	for (uint32_t i = 0; i < n; i++)
		if (lx_val_skip(&c, &item) < 0 || read_domain(p, (int)i, item, e) < 0)
			return lx_err_set(e, LX_DATA, "begin mark: damaged domains");
	return 0;
}

static char **read_list(struct lx_span map, const char *key, struct lx_err *e)
{
	struct lx_cur c;
	struct lx_val v;
	uint32_t n = 0;
	bool there = lx_map_get(map, key, strlen(key)).p != NULL;
	if (there && enter_array(map, key, LIST_MAX, &c, &n) < 0) {
		bad(e, "the fields of an operation are not an array of at most 4096");
		return NULL;
	}
	char **l = calloc((size_t)n + 1, sizeof(*l));
	for (uint32_t i = 0; l && i < n; i++) {
		bool str = lx_val_read(&c, &v) == 0 && v.type == LX_STR;
		if (!str)
			bad(e, "the name of a field is not a string");
		l[i] = str ? strndup((const char *)v.s.p, v.s.len) : NULL;
		if (!l[i]) {
			free_list(l);
			return NULL;
		}
	}
	return l;
}

static int read_op(struct lx_plan *p, struct lx_span map, struct lx_err *e)
{
	char tool[256], host[256] = "";
	uint64_t domain;
	if (!get_cstr(map, "tool", tool, sizeof(tool)) || !lx_map_uint(map, "domain", &domain) ||
	    domain >= (uint64_t)p->n_domains)
		return bad(e, "an operation lacks its tool or domain");
	get_cstr(map, "host", host, sizeof(host));
	char **reads = read_list(map, "reads", e), **writes = read_list(map, "writes", e), **drops = read_list(map, "drops", e);
	int rc = reads && writes && drops ? add_op(p, tool, host, (int)domain, reads, writes, drops, e) : no_memory(e);
	free_list(reads);
	free_list(writes);
	free_list(drops);
	return rc;
}

static int read_ops(struct lx_plan *p, struct lx_span map, struct lx_err *e)
{
	struct lx_cur c;
	uint32_t n;
	struct lx_span item;
	if (enter_array(map, "ops", OPS_MAX, &c, &n) < 0)
		return bad(e, "no array of operations");
	for (uint32_t i = 0; i < n; i++)
		if (lx_val_skip(&c, &item) < 0 || read_op(p, item, e) < 0)
			return lx_err_set(e, LX_DATA, "begin mark: damaged operations");
	return 0;
}

int lx_plan_read(struct lx_plan *p, struct lx_span map, struct lx_err *e)
{
	lx_plan_init(p);
	if (read_optional(map, "features", &p->features, e) < 0)
		return -1;
	if (p->features)
		return lx_err_set(e, LX_VERSION, "begin mark: required feature bits 0x%llx are not known to this build",
		                  ULL(p->features));
	p->has_part = lx_map_get(map, "part", 4).p != NULL;
	if (read_optional(map, "part", &p->part, e) < 0 || read_optional(map, "slots", &p->slots, e) < 0 ||
	    read_optional(map, "beats", &p->beats_ms, e) < 0 || read_run(p, map, e) < 0 || read_packing(&p->packing, map, e) < 0 || read_ask(&p->ask, map, e) < 0 ||
	    read_limits(p, map, e) < 0 || read_domains(p, map, e) < 0 || read_ops(p, map, e) < 0) {
		lx_plan_free(p);
		return -1;
	}
	return 0;
}

/* ---- comparing ---- */

static bool same_domain(const struct lx_domain *a, const struct lx_domain *b)
{
	return strcmp(a->name, b->name) == 0 && a->parent == b->parent && a->gathered == b->gathered &&
	       a->tolerance.percent == b->tolerance.percent && a->tolerance.n == b->tolerance.n;
}

int lx_plan_agree(const struct lx_plan *a, const struct lx_plan *b, struct lx_err *e)
{
	for (int i = 0; i < a->n_domains && i < b->n_domains; i++)
		if (!same_domain(&a->domains[i], &b->domains[i]))
			return lx_err_set(e, LX_USAGE,
			                  "two segments of run %s differ in domain %d (%s): only segments that went "
			                  "through the same stages may be joined",
			                  a->run, i, a->domains[i].name);
	if (a->n_domains != b->n_domains)
		return lx_err_set(e, LX_USAGE,
		                  "two segments of run %s have %d and %d domains: only segments that went through the same "
		                  "stages may be joined",
		                  a->run, a->n_domains, b->n_domains);
	return 0;
}

static int over(struct lx_err *e, const char *what, uint64_t theirs, uint64_t mine, const char *option)
{
	return lx_err_set(e, LX_DATA, "the writer's limit on %s is %llu, ours %llu (%s)", what, ULL(theirs), ULL(mine), option);
}

static bool op_has(char *const *list, const char *field)
{
	for (; list && *list; list++)
		if (strcmp(*list, field) == 0)
			return true;
	return false;
}

static bool plan_has(const struct lx_plan *p, int n, const char *field, bool drops)
{
	for (int i = n; i < p->n_ops; i++)
		if (op_has(drops ? p->ops[i].drops : p->ops[i].writes, field))
			return true;
	return false;
}

/* What a writes or drops and b does not; NULL: nothing. */
static const char *more_of(const struct lx_plan *a, const struct lx_plan *b, int n, bool drops)
{
	for (int i = n; i < a->n_ops; i++)
		for (char **f = drops ? a->ops[i].drops : a->ops[i].writes; f && *f; f++)
			if (!plan_has(b, n, *f, drops))
				return *f;
	return NULL;
}

int lx_plan_same_writes(const struct lx_plan *a, const struct lx_plan *b, int n, struct lx_err *e)
{
	for (int drops = 0; drops < 2; drops++) {
		const char *what = drops ? "drop" : "write", *less = more_of(a, b, n, drops), *more = more_of(b, a, n, drops);
		if (less)
			return lx_err_set(e, LX_USAGE, "it does other work than the first worker, it does not %s field '%s'", what, less);
		if (more)
			return lx_err_set(e, LX_USAGE, "it does other work than the first worker, it %ss field '%s'", what, more);
	}
	return 0;
}

int lx_plan_limits(const struct lx_plan *p, const struct lx_limits *mine, struct lx_err *e)
{
	const struct lx_limits *l = &p->limits;
	if (l->record > mine->record)
		return over(e, "a record's bytes", l->record, mine->record, "--max-record");
	if (l->frame > mine->frame)
		return over(e, "a frame's bytes", l->frame, mine->frame, "--max-frame");
	if (l->depth > mine->depth)
		return over(e, "nesting", l->depth, mine->depth, "--max-depth");
	if (l->id_len > mine->id_len)
		return over(e, "an id's length", l->id_len, mine->id_len, "--max-id");
	if (l->fields > mine->fields)
		return over(e, "fields", l->fields, mine->fields, "--max-fields");
	return 0;
}

/* ---- shape checks ---- */

/* Names of the domains that satisfy `open`, for messages. */
static void domain_names(const struct lx_plan *p, bool open_only, char *out, size_t size)
{
	size_t n = 0;
	out[0] = '\0';
	for (int i = 0; i < p->n_domains && n < size; i++)
		if (!open_only || !p->domains[i].gathered)
			n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", p->domains[i].name);
}

static int find(const struct lx_plan *p, const char *name)
{
	for (int i = 0; i < p->n_domains; i++)
		if (strcmp(p->domains[i].name, name) == 0)
			return i;
	return -1;
}

int lx_plan_domain(const struct lx_plan *p, const char *name, const char *option, struct lx_err *e)
{
	int d = find(p, name);
	char names[512];
	if (d >= 0)
		return d;
	domain_names(p, false, names, sizeof(names));
	return lx_err_set(e, LX_USAGE, "no domain '%s': this stream has %s (%s)", name, names, option);
}

int lx_plan_work_domain(const struct lx_plan *p, const char *name, const char *option, struct lx_err *e)
{
	char names[512];
	if (!name) {
		for (int i = p->n_domains - 1; i > 0; i--)
			if (!p->domains[i].gathered)
				return i;
		return 0;
	}
	int d = lx_plan_domain(p, name, option, e);
	if (d < 0 || !p->domains[d].gathered)
		return d;
	domain_names(p, true, names, sizeof(names));
	return lx_err_set(e, LX_USAGE, "domain '%s' has been gathered: work on it before lx-gather, or on %s (%s)", name, names, option);
}

int lx_plan_levels(const struct lx_plan *p, int d, int a)
{
	for (int levels = 0; d >= 0; levels++, d = p->domains[d].parent)
		if (d == a)
			return levels;
	return -1;
}

/* "12.0.3" */
static int read_id(struct lx_span s, struct lx_id *id)
{
	id->n = 0;
	for (size_t i = 0; i < s.len; i++) {
		uint64_t v = 0;
		size_t first = i;
		for (; i < s.len && s.p[i] >= '0' && s.p[i] <= '9'; i++)
			if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.p[i] - '0', &v))
				return -1;
		if (i == first || v == UINT64_MAX || id->n == LX_ID_MAX || (i < s.len && (s.p[i] != '.' || i + 1 == s.len)))
			return -1;
		id->ord[id->n++] = v;
	}
	return id->n ? 0 : -1;
}

int lx_plan_item(const struct lx_plan *p, struct lx_span domain, struct lx_span text, struct lx_id *id)
{
	for (int d = 0; d < p->n_domains; d++)
		if (lx_span_eq(domain, lx_span_str(p->domains[d].name)))
			return read_id(text, id) == 0 && (int)id->n == lx_plan_levels(p, d, 0) + 1 ? d : -1;
	return -1;
}

int lx_plan_place(const struct lx_plan *p, struct lx_span place, struct lx_id *id)
{
	const uint8_t *colon = place.len ? memchr(place.p, ':', place.len) : NULL;
	if (!colon)
		return -1;
	size_t n = (size_t)(colon - place.p);
	return lx_plan_item(p, (struct lx_span){ place.p, n }, (struct lx_span){ colon + 1, place.len - n - 1 }, id);
}

int lx_plan_cause(const struct lx_plan *p, struct lx_span cause, struct lx_cause *c)
{
	struct lx_id id;
	if (lx_cause_read(cause, c) < 0)
		return -1;
	int domain = lx_plan_place(p, c->judged, &id);
	if (domain >= 0) {
		c->origin_domain = (uint32_t)domain;
		c->origin = id;
		c->judged = (struct lx_span){ 0 };
	}
	return 0;
}

int lx_plan_expand(struct lx_plan *p, const char *name, int parent, struct lx_tolerance t, struct lx_err *e)
{
	if (!good_name(lx_span_str(name)))
		return lx_err_set(e, LX_USAGE, "'%s' is no domain name: a letter or _, then letters, digits, - and _, at most %d (-d)",
		                  name, LX_NAME_MAX);
	if (find(p, name) >= 0)
		return lx_err_set(e, LX_USAGE, "domain '%s' was opened before: give the new one another name (-d)", name);
	if (parent >= 0 && p->domains[parent].gathered)
		return lx_err_set(e, LX_USAGE, "domain '%s' has been gathered: it cannot be expanded (--of)", p->domains[parent].name);
	if (p->n_domains == LX_DOMAINS_MAX)
		return lx_err_set(e, LX_USAGE, "more than %d domains", LX_DOMAINS_MAX);
	if (parent >= 0 && lx_plan_levels(p, parent, 0) + 2 > LX_ID_MAX)
		return lx_err_set(e, LX_USAGE, "domain '%s' is %d levels deep already: none can be opened below it (--of)",
		                  p->domains[parent].name, LX_ID_MAX);
	struct lx_domain *d = &p->domains[p->n_domains];
	*d = (struct lx_domain){ .parent = parent, .tolerance = t };
	strcpy(d->name, name);
	return p->n_domains++;
}

int lx_plan_gather(struct lx_plan *p, int domain, struct lx_err *e)
{
	struct lx_domain *d = &p->domains[domain];
	if (domain == 0)
		return lx_err_set(e, LX_USAGE, "'%s' is the root domain: nothing was expanded that could be gathered (lx-expand comes first)",
		                  d->name);
	if (d->gathered)
		return lx_err_set(e, LX_USAGE, "domain '%s' has been gathered already", d->name);
	for (int i = 0; i < p->n_domains; i++)
		if (p->domains[i].parent == domain && !p->domains[i].gathered)
			return lx_err_set(e, LX_USAGE, "domain '%s' still has the open child domain '%s': gather that first (lx-gather -d %s)",
			                  d->name, p->domains[i].name, p->domains[i].name);
	d->gathered = true;
	return 0;
}

int lx_plan_sink(const struct lx_plan *p, bool named, struct lx_err *e)
{
	for (int i = p->n_domains - 1; i > 0 && !named; i--)
		if (!p->domains[i].gathered)
			return lx_err_set(e, LX_USAGE, "domain '%s' is still open: gather it first (lx-gather -d %s), or say which items to write (-d)",
			                  p->domains[i].name, p->domains[i].name);
	return 0;
}

int lx_plan_knows(const struct lx_plan *p, int domain, const char *field)
{
	int known = -1;
	for (int i = 0; i < p->n_ops; i++) {
		const struct lx_op *op = &p->ops[i];
		if (op->domain != domain)
			continue;
		if (list_has(op->drops, field))
			known = -1;
		if (list_has(op->writes, field))
			known = 1;
		else if (known < 0 && list_has(op->writes, "*"))
			known = 0;
	}
	return known;
}

/* The fields of a domain that are known, for messages. */
static void known_fields(const struct lx_plan *p, int domain, char *out, size_t size)
{
	size_t n = 0;
	snprintf(out, size, "none");
	for (int i = 0; i < p->n_ops; i++)
		for (char **w = p->ops[i].writes; p->ops[i].domain == domain && w && *w && n < size; w++)
			if (lx_plan_knows(p, domain, *w) > 0 && !strstr(out, *w))
				n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", *w);
}

/* The last that took a field away; NULL: nobody did. */
static const char *dropped_by(const struct lx_plan *p, int domain, const char *field)
{
	for (int i = p->n_ops - 1; i >= 0; i--)
		if (p->ops[i].domain == domain && list_has(p->ops[i].drops, field))
			return p->ops[i].tool;
	return NULL;
}

int lx_plan_reads(const struct lx_plan *p, int domain, const char *field, const char *option, struct lx_err *e)
{
	char names[512];
	if (lx_plan_knows(p, domain, field) >= 0)
		return 0;
	const char *by = dropped_by(p, domain, field);
	if (by)
		return lx_err_set(e, LX_USAGE, "field '%s' of %s is gone: %s removed it (%s here; there it stays with %s)", field,
		                  p->domains[domain].name, by, option, strcmp(by, "lx-expand") == 0 ? "--keep" : "no --drop");
	known_fields(p, domain, names, sizeof(names));
	return lx_err_set(e, LX_USAGE, "nothing writes field '%s' of %s: its fields here are %s (%s)", field,
	                  p->domains[domain].name, names, option);
}

/* ---- tolerance ---- */

uint64_t lx_tolerance_of(struct lx_tolerance t, uint64_t count)
{
	if (!t.percent)
		return t.n;
	return (uint64_t)((unsigned __int128)count * t.n / 10000);
}

int lx_tolerance_parse(const char *s, struct lx_tolerance *t, struct lx_err *e)
{
	char *end = NULL;
	errno = 0;
	t->percent = strchr(s, '%') != NULL;
	if (t->percent) {
		double v = strtod(s, &end);
		if (isdigit((unsigned char)s[0]) && end[0] == '%' && !end[1] && v >= 0 && v <= 100) {
			t->n = (uint64_t)(v * 100 + 0.5);
			return 0;
		}
	} else {
		t->n = strtoull(s, &end, 10);
		if (isdigit((unsigned char)s[0]) && !*end && errno == 0)
			return 0;
	}
	return lx_err_set(e, LX_USAGE, "'%s' is neither a number of children nor a percentage from 0%% to 100%% (--tolerate)", s);
}

/* lineage: domains, what each stage reads and writes, and which items are beyond help.
 *
 * struct lx_plan is the content of a begin mark: the run, the domain tree, and the operations so
 * far. Every shape error of a pipeline is found here, from the begin mark alone, before a record
 * is read or a command started: each lx_plan_* check returns -1 with LX_USAGE and one line that
 * names the fix. A stage applies its own operation to the plan it read and writes the result as
 * its begin mark.
 */
#ifndef LX_LINEAGE_H
#define LX_LINEAGE_H

#include "rec.h"

#define LX_DOMAINS_MAX 64
#define LX_NAME_MAX 64 /* bytes of a domain name: [A-Za-z_][A-Za-z0-9_-]* */
#define LX_RUN_MAX 128 /* bytes of a run id: printable ASCII, no space */

enum lx_packing {
	LX_RAW = 0,     /* raw blocks, no checksum: pipes and sockets of one host */
	LX_CHECKED = 1, /* raw blocks with content checksums */
	LX_ZSTD = 2,    /* compressed, with content checksums; incompressible frames stay raw */
};

/* How many failed or suppressed children an expansion bears. */
struct lx_tolerance {
	bool percent;
	uint64_t n; /* children, or hundredths of a percent of the count (5% is 500) */
};

struct lx_domain {
	char name[LX_NAME_MAX + 1];
	int parent;    /* index; -1 for the root domain, which is index 0 */
	bool gathered; /* else open */
	struct lx_tolerance tolerance;
};

/* One operation of the pipeline so far. Lists are NULL-terminated arrays of owned strings; "*" in
 * writes means fields that cannot be known before the data. */
struct lx_op {
	char *tool; /* "lx-map" */
	char *host;
	int domain; /* whose items it reads and writes */
	char **reads, **writes, **drops;
};

/* What lx-batch asks of a worker in the begin mark that it writes to it. A stage hands it on to those behind it: the worker may
 * be a chain. */
struct lx_ask {
	bool asked;
	bool packed;             /* pack answers so, unless the user said otherwise: */
	enum lx_packing packing;
	uint64_t beats_ms;       /* announce and keep beats of this length; 0: none */
};

struct lx_plan {
	char run[LX_RUN_MAX + 1];
	enum lx_packing packing;
	uint64_t features;       /* required feature bits; none is defined in version 1 */
	struct lx_limits limits; /* the writer's */
	struct lx_domain domains[LX_DOMAINS_MAX];
	int n_domains;
	struct lx_op *ops;
	int n_ops;
	bool has_part;
	uint64_t part;     /* from 0 */
	uint64_t slots;    /* workers: items of work it can hold at once; 0: not said */
	uint64_t beats_ms; /* workers: it writes an empty hint at least this often; 0: never */
	struct lx_ask ask;
};

void lx_plan_init(struct lx_plan *p);
void lx_plan_free(struct lx_plan *p);
int lx_plan_copy(struct lx_plan *to, const struct lx_plan *from, struct lx_err *e);

/* To and from the msgpack map of a begin mark. Reading bounds everything, ignores unknown keys, and
 * refuses a tree that is no tree (LX_DATA) and required features it does not know (LX_VERSION). */
void lx_plan_pack(struct lx_buf *b, const struct lx_plan *p);
int lx_plan_read(struct lx_plan *p, struct lx_span map, struct lx_err *e);

/* Whether two plans of one run may be parts of one whole: same domain names, parents, states and
 * tolerances. -1 with LX_USAGE and the first difference. */
int lx_plan_agree(const struct lx_plan *a, const struct lx_plan *b, struct lx_err *e);

/* Whether two workers of one call, whose operations begin behind the first n, write and drop fields of the same names. -1 with
 * LX_USAGE and the first field that differs. */
int lx_plan_same_writes(const struct lx_plan *a, const struct lx_plan *b, int n, struct lx_err *e);

/* Refuse at start what would be refused later: the writer's limits are above ours. LX_DATA. */
int lx_plan_limits(const struct lx_plan *p, const struct lx_limits *mine, struct lx_err *e);

/* Index of a domain by name, or -1 with "no domain 'x': this stream has doc, page (-d)"; `option` is what named it. */
int lx_plan_domain(const struct lx_plan *p, const char *name, const char *option, struct lx_err *e);
/* The domain a stage works on: `name` if given (must be open), else the last opened that is still open. */
int lx_plan_work_domain(const struct lx_plan *p, const char *name, const char *option, struct lx_err *e);

/* Levels between an item of domain d and its ancestor in domain a; 0: the same; -1: not an ancestor. */
int lx_plan_levels(const struct lx_plan *p, int d, int a);

/* The item that "page" and "12.3" name: its domain, or -1 where p has none such. */
int lx_plan_item(const struct lx_plan *p, struct lx_span domain, struct lx_span text, struct lx_id *id);
/* The same for "page:12.3". */
int lx_plan_place(const struct lx_plan *p, struct lx_span place, struct lx_id *id);
/* As lx_cause_read; an item that a cause could only name (`judged`) is its origin where p has the domain. */
int lx_plan_cause(const struct lx_plan *p, struct lx_span cause, struct lx_cause *c);

/* Declare a child domain, or with parent -1 the root of an empty tree. Refuses a name opened before, a parent that
 * is not open or LX_ID_MAX levels deep, a bad name, too many. Returns its index or -1. */
int lx_plan_expand(struct lx_plan *p, const char *name, int parent, struct lx_tolerance t, struct lx_err *e);
/* Mark a domain gathered. Refuses the root, one gathered before, and one with an open child domain. */
int lx_plan_gather(struct lx_plan *p, int domain, struct lx_err *e);
/* A sink: refuses while a domain other than the root is open, unless `named` says the user asked for one. */
int lx_plan_sink(const struct lx_plan *p, bool named, struct lx_err *e);

/* Whether a field of a domain's items is known: 1 yes, 0 cannot be known beforehand (some op writes "*"), -1 no. */
int lx_plan_knows(const struct lx_plan *p, int domain, const char *field);
/* The field must be known or unknowable, else -1: "nothing writes field 'x' of page: known are data, text (-i)". */
int lx_plan_reads(const struct lx_plan *p, int domain, const char *field, const char *option, struct lx_err *e);
/* Append an operation; lists may be NULL, strings are copied. */
int lx_plan_op(struct lx_plan *p, const char *tool, int domain, const char *const *reads,
               const char *const *writes, const char *const *drops, struct lx_err *e);

/* The largest number of failed or suppressed children an expansion of this many children bears. */
uint64_t lx_tolerance_of(struct lx_tolerance t, uint64_t count);
/* "3", "2.5%": 0 or -1 with LX_USAGE. */
int lx_tolerance_parse(const char *s, struct lx_tolerance *t, struct lx_err *e);

#endif

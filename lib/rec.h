/* rec: one record of a stream (lx-stream(5)), parsed in place and built.
 *
 *     [1, domain, id, fields]                          an item that is present (+ key: root)
 *     [2, domain, id, outcome, cause, fields|nil]      any other item          (+ key: root)
 *     [3, domain, parent id, count, outcome, cause|nil]  the close of one expansion
 *
 * A struct lx_rec is a set of views into the bytes it was parsed from; it owns nothing and is
 * valid as long as they are.
 */
#ifndef LX_REC_H
#define LX_REC_H

#include "value.h"

#define LX_ID_MAX 16

/* Limits a reader and a writer hold alike. Zero is never "no limit". */
struct lx_limits {
	uint64_t record; /* bytes of one record           --max-record, default 256 MiB */
	uint64_t frame;  /* decompressed bytes of a frame  --max-frame, default 1 GiB */
	uint32_t depth;  /* nested containers in a record  --max-depth, default 32 */
	uint32_t id_len; /* numbers in an id               --max-id, default 16 = LX_ID_MAX, never more */
	uint32_t fields; /* fields of an item              --max-fields, default 4096 */
};
#define LX_LIMITS_DEFAULT \
	{ .record = 256u << 20, .frame = 1u << 30, .depth = 32, .id_len = LX_ID_MAX, .fields = 4096 }

/* [root ordinal, ordinal, ...]; n is 1 for a root item. Ordinals are 0 .. 2^64-2. */
struct lx_id {
	uint32_t n;
	uint64_t ord[LX_ID_MAX];
};

enum lx_kind { LX_ITEM = 1, LX_GONE = 2, LX_CLOSE = 3 };
enum lx_outcome { LX_PRESENT = 0, LX_DROPPED = 1, LX_FAILED = 2, LX_SUPPRESSED = 3, LX_OUTCOMES = 4 };

struct lx_rec {
	enum lx_kind kind;
	enum lx_outcome outcome; /* LX_PRESENT for an item; for a close, that of the expansion */
	uint32_t domain;         /* for a close, the domain of the children */
	struct lx_id id;         /* for a close, the parent's */
	uint64_t count;          /* close: number of children */
	struct lx_span raw;      /* the whole record */
	struct lx_span fields;   /* the map; p == NULL when nil or a close */
	bool flat;               /* the fields hold no array and no map; false: not known */
	struct lx_span cause;    /* the map; p == NULL when nil or present */
	struct lx_span key;      /* root items: any one value; else p == NULL */
};

/* Parse the record at p, at most n bytes. All of it is walked and checked against the limits.
 * Returns 0 and sets *used, or -1 with LX_DATA; the message is the bare cause ("nesting over 32
 * (--max-depth)"): the stream adds where. Which of root and non-root an item is (key or none)
 * follows from its id: n == 1 is a root item. */
int lx_rec_parse(const uint8_t *p, size_t n, const struct lx_limits *l, struct lx_rec *r,
                 size_t *used, struct lx_err *e);

/* A field of a present item or of a failed one that kept its fields; p == NULL when absent. */
static inline struct lx_span lx_rec_field(const struct lx_rec *r, const char *name)
{
	return r->fields.p ? lx_map_get(r->fields, name, strlen(name)) : (struct lx_span){ 0 };
}

/* Ids. */
bool lx_id_eq(const struct lx_id *a, const struct lx_id *b);
int lx_id_cmp(const struct lx_id *a, const struct lx_id *b); /* lexicographic by ordinals; a prefix sorts first */
struct lx_id lx_id_parent(const struct lx_id *id, uint32_t levels); /* without its last `levels` numbers */
struct lx_id lx_id_child(const struct lx_id *id, uint64_t ordinal);
uint64_t lx_id_ordinal(const struct lx_id *id); /* the last number */
uint64_t lx_id_hash(const struct lx_id *id);
void lx_id_text(const struct lx_id *id, char *out, size_t size); /* "12.0.3"; 340 bytes always suffice */
#define LX_ID_TEXT_MAX 340

/* Building. `fields` is an encoded map, `key` one encoded value (roots only, else p == NULL). */
void lx_rec_item(struct lx_buf *b, uint32_t domain, const struct lx_id *id, struct lx_span fields, struct lx_span key);
/* The same in two steps, for a fields map that is written straight behind: head, the map, then the key for a root. */
void lx_rec_item_head(struct lx_buf *b, uint32_t domain, const struct lx_id *id);
/* An item alone in b, and the record as lx_rec_parse would give it, without the walk: for fields and a key that the
 * caller has just made, one whole value each and no deeper than l allows. -1: LX_DATA, the same causes as there. */
int lx_rec_made(struct lx_buf *b, uint32_t domain, const struct lx_id *id, struct lx_span fields, struct lx_span key,
                const struct lx_limits *l, struct lx_rec *r, struct lx_err *e);
void lx_rec_gone(struct lx_buf *b, uint32_t domain, const struct lx_id *id, enum lx_outcome o,
                 struct lx_span cause, struct lx_span fields, struct lx_span key);
void lx_rec_close(struct lx_buf *b, uint32_t domain, const struct lx_id *parent, uint64_t count,
                  enum lx_outcome o, struct lx_span cause);
void lx_pack_id(struct lx_buf *b, const struct lx_id *id);
int lx_id_read(struct lx_cur *c, uint32_t max_len, struct lx_id *id); /* 0 or -1 */

/* A cause: why an item is not present. Strings are views. */
struct lx_cause {
	struct lx_span type;    /* short stable word */
	struct lx_span message; /* one line for people */
	uint32_t anchor_domain; /* the item the failure reaches up to */
	struct lx_id anchor;
	uint32_t origin_domain; /* the item that was judged */
	struct lx_id origin;
	struct lx_span judged;  /* "page:12.3": that item, where the stream has no such domain yet; origin is then one above it */
	struct lx_span stage;   /* "lx-map" */
	struct lx_span host;    /* volatile: not part of equality, like attempt and elapsed_ms */
	uint64_t attempt;       /* 1 for the first; 0: not said */
	uint64_t elapsed_ms;    /* 0: not said */
};
void lx_cause_pack(struct lx_buf *b, const struct lx_cause *c);
/* 0, or -1 when the bytes are no cause (lx_rec_parse has refused such a record already). */
int lx_cause_read(struct lx_span s, struct lx_cause *c);
/* Whether it was this item that was judged. cause may be empty. */
bool lx_cause_began_at(struct lx_span cause, uint32_t domain, const struct lx_id *id);

/* Changing the fields of an item: every field but those named is copied as raw bytes, then the new
 * ones follow in order. */
struct lx_edit {
	struct lx_span name;  /* field name */
	struct lx_span value; /* encoded value; p == NULL: only remove the field */
	struct lx_span old;   /* where the field's value stands in the fields, if the caller knows: it is not walked again */
};
/* Append the edited map to b. `fields`.p may be NULL (an empty map). -1 with LX_DATA when the result
 * has more than l->fields fields. */
int lx_fields_edit(struct lx_buf *b, struct lx_span fields, const struct lx_edit *edits, size_t n,
                   const struct lx_limits *l, struct lx_err *e);

#endif

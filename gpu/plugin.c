#include "plugin.h"

#include "compile.h"
#include "io.h"
#include "nvrtc.h"
#include "sig.h"
#include "value.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WORDS_MAX 65536 /* of a result */

enum kind { KIND_UINT, KIND_INT, KIND_FLOAT, KIND_BYTES };

/* An op of a plugin. */
struct own {
	struct lx_gpu_op op; /* first: what the calls have is this */
	const struct lx_plugin_kernel *kernel;
	enum kind kind;
	bool array;
	uint32_t n;          /* values of an array, or bytes; else 1 */
};

/* A plugin that is loaded. */
struct plugin {
	struct lx_gpu_module module;
	char *file;
	void *library;
	int fd;               /* the shared object that was compiled here; -1: it is in a file */
	struct lx_buf source; /* compiled here: for the CUDA device */
	struct lx_nvrtc_job job;
	struct own own[LX_PLUGIN_KERNELS];
	struct plugin *next;
};

static struct plugin *plugins;

/* ---- results ---- */

/* "uint", "float[4]", "bytes[16]". */
static bool parse_result(struct own *o, const char *text)
{
	static const char *const names[] = { "uint", "int", "float", "bytes" };
	size_t len = strcspn(text, "[");
	char *end = NULL;
	unsigned long n = text[len] ? strtoul(text + len + 1, &end, 10) : 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
			o->kind = (enum kind)i;
			o->array = text[len];
			o->n = (uint32_t)n;
			return o->array ? text[len + 1] >= '1' && text[len + 1] <= '9' && n <= WORDS_MAX && strcmp(end, "]") == 0 : i != KIND_BYTES;
		}
	return false;
}

static const struct own *own_of(const struct lx_gpu_call *c)
{
	return (const struct own *)(const void *)c->op;
}

static uint32_t words(const struct lx_gpu_call *c)
{
	const struct own *o = own_of(c);
	return o->kind == KIND_BYTES ? (o->n + 7) / 8 : o->n;
}

static uint64_t work(const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	(void)in;
	return own_of(c)->kernel->about.work;
}

static void pack_one(struct lx_buf *to, enum kind kind, uint64_t word)
{
	double f;
	memcpy(&f, &word, sizeof(f));
	if (kind == KIND_UINT)
		lx_pack_uint(to, word);
	else if (kind == KIND_INT)
		lx_pack_int(to, (int64_t)word);
	else
		lx_pack_f64(to, f);
}

static void pack(struct lx_buf *to, const uint64_t *out, const struct lx_gpu_call *c, const struct lx_device_input *in)
{
	const struct own *o = own_of(c);
	(void)in;
	if (o->kind == KIND_BYTES) {
		lx_pack_bin(to, (struct lx_span){ (const uint8_t *)out, o->n });
		return;
	}
	if (o->array)
		lx_pack_array(to, o->n);
	for (uint32_t i = 0; i < o->n; i++)
		pack_one(to, o->kind, out[i]);
}

static int parse_args(const char *text, struct lx_gpu_call *c, struct lx_err *e)
{
	for (size_t n = 0; text; n++) {
		if (n == LX_KERNEL_ARGS)
			return lx_err_set(e, LX_USAGE, "over %d arguments", LX_KERNEL_ARGS);
		if (lx_gpu_number(&text, 0, 0, &c->args[n], e) < 0)
			return -1;
	}
	return 0;
}

/* ---- a file, before it is loaded ---- */

static bool within(uint64_t from, uint64_t len, uint64_t size)
{
	return from <= size && len <= size - from;
}

/* Those of this program. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* Whether all that its headers speak of is in it. */
static bool is_whole(const struct lx_buf *b, ElfW(Ehdr) h)
{
	if (h.e_phentsize != sizeof(ElfW(Phdr)) || !within(h.e_phoff, (uint64_t)h.e_phnum * h.e_phentsize, b->len) ||
	    (h.e_shnum && h.e_shentsize != sizeof(ElfW(Shdr))) || !within(h.e_shoff, (uint64_t)h.e_shnum * sizeof(ElfW(Shdr)), b->len))
		return false;
	for (size_t i = 0; i < h.e_phnum; i++) {
		ElfW(Phdr) p;
		memcpy(&p, b->p + h.e_phoff + i * sizeof(p), sizeof(p));
		if (!within(p.p_offset, p.p_filesz, b->len))
			return false;
	}
	for (size_t i = 0; i < h.e_shnum; i++) {
		ElfW(Shdr) s;
		memcpy(&s, b->p + h.e_shoff + i * sizeof(s), sizeof(s));
		if (s.sh_type != SHT_NOBITS && !within(s.sh_offset, s.sh_size, b->len))
			return false;
	}
	return true;
}

static int check_elf(const struct lx_buf *b, struct lx_err *e)
{
	if (b->len < SELFMAG || memcmp(b->p, ELFMAG, SELFMAG) != 0)
		return lx_err_set(e, LX_USAGE, "not a shared object (--kernel takes sources)");
	ElfW(Ehdr) h = { 0 };
	memcpy(&h, b->p, b->len < sizeof(h) ? b->len : sizeof(h));
	if (b->len >= sizeof(h) && (h.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS] || h.e_ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
	                            h.e_machine != __ehdr_start.e_machine))
		return lx_err_set(e, LX_USAGE, "made for another kind of machine: compile it on one like this");
	if (b->len >= sizeof(h) && h.e_type != ET_DYN)
		return lx_err_set(e, LX_USAGE, "not a shared object: compile it with -shared");
	if (b->len < sizeof(h) || !is_whole(b, h))
		return lx_err_set(e, LX_USAGE, "cut off or damaged: the file is smaller than its headers say");
	return 0;
}

static int check_file(const char *file, struct lx_err *e)
{
	struct lx_buf b = { 0 };
	int rc = lx_compile_read(file, 1u << 30, "1 GiB", &b, e) < 0 ? -1 : check_elf(&b, e);
	lx_buf_free(&b);
	return rc;
}

/* ---- what it says of itself ---- */

/* A letter, then letters, digits and `more`. */
static bool is_word(const char *s, const char *more)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	if (!*s || !strchr(letters, *s))
		return false;
	while (*s && (strchr(letters, *s) || (*s >= '0' && *s <= '9') || strchr(more, *s)))
		s++;
	return !*s;
}

static bool ends(const char *s, size_t size)
{
	return memchr(s, 0, size) != NULL;
}

/* "too-dark record, cut-off parent": each is a word that says what, and one that says how far. */
static bool good_failures(const struct lx_kernel_about *a)
{
	struct lx_gpu_failure f;
	struct lx_gpu_op op = { .failures = a->failures };
	size_t n = 0, commas = 0;
	while (lx_gpu_failure(&op, (uint32_t)n + 1, &f)) {
		if (!is_word(f.type, "-") || !is_word(f.scope, "-."))
			return false;
		n++;
	}
	for (const char *p = a->failures; *p; p++)
		commas += *p == ',';
	return n == (*a->failures ? commas + 1 : 0);
}

static int check_kernel(struct own *o, const struct lx_plugin_kernel *k, struct lx_err *e)
{
	const struct lx_kernel_about *a = &k->about;
	size_t phases = 0;
	if (!ends(a->name, sizeof(a->name)) || !is_word(a->name, ""))
		return lx_err_set(e, LX_USAGE, "the name of kernel '%.*s' is no C name of at most %zu letters", (int)sizeof(a->name), a->name, sizeof(a->name) - 1);
	if (a->abi != LX_KERNEL_ABI)
		return lx_err_set(e, LX_USAGE, "kernel %s is made for version %u, this is %d", a->name, a->abi, LX_KERNEL_ABI);
	if (a->input > LX_TEXT)
		return lx_err_set(e, LX_USAGE, "kernel %s reads none of LX_IMAGE, LX_BYTES and LX_TEXT", a->name);
	if (!ends(a->result, sizeof(a->result)) || !parse_result(o, a->result))
		return lx_err_set(e, LX_USAGE, "kernel %s: its result '%.*s' is none of uint, int, float, any of them with [N], and bytes[N] (N at most %d)",
		                  a->name, (int)sizeof(a->result), a->result, WORDS_MAX);
	if (!ends(a->failures, sizeof(a->failures)))
		return lx_err_set(e, LX_USAGE, "kernel %s: its failures '%.32s...' are over %zu characters", a->name, a->failures, sizeof(a->failures) - 1);
	if (!good_failures(a))
		return lx_err_set(e, LX_USAGE, "kernel %s: its failures '%s' are not like \"too-dark record, cut-off parent\"", a->name, a->failures);
	if (a->work > LX_KERNEL_WORK)
		return lx_err_set(e, LX_USAGE, "kernel %s: its work of %llu bytes an item is over %u", a->name, (unsigned long long)a->work, LX_KERNEL_WORK);
	while (phases <= LX_KERNEL_PHASES && k->phases[phases])
		phases++;
	if (phases == 0)
		return lx_err_set(e, LX_USAGE, "kernel %s has no phase", a->name);
	if (phases > LX_KERNEL_PHASES)
		return lx_err_set(e, LX_USAGE, "kernel %s has more than %d phases", a->name, LX_KERNEL_PHASES);
	return 0;
}

static int add_kernel(struct plugin *p, struct own *o, const struct lx_plugin_kernel *k, struct lx_err *e)
{
	if (!k)
		return lx_err_set(e, LX_USAGE, "a kernel of its list is missing");
	if (check_kernel(o, k, e) < 0)
		return -1;
	o->kernel = k;
	o->op = (struct lx_gpu_op){
		.name = k->about.name, .args = "[:N...]", .help = p->file, .result = k->about.result, .failures = k->about.failures,
		.input = (enum lx_kernel_input)k->about.input, .phases = k->phases, .entry = k->about.name, .module = &p->module, .about = &k->about,
		.parse = parse_args, .words = words, .work = work, .pack = pack,
	};
	return lx_gpu_add(&o->op, e);
}

/* All, or the one called so. */
static int add_kernels(struct plugin *p, const struct lx_plugin *of, const char *only, struct lx_err *e)
{
	bool any = false;
	for (uint32_t i = 0; i < of->n; i++) {
		const struct lx_plugin_kernel *k = of->kernels[i];
		if (only && k && (!ends(k->about.name, sizeof(k->about.name)) || strcmp(only, k->about.name) != 0))
			continue;
		if (add_kernel(p, &p->own[i], k, e) < 0)
			return -1;
		any = true;
	}
	return any ? 0 : lx_err_set(e, LX_USAGE, "no kernel '%.64s' in its LX_PLUGIN", only ? only : "");
}

/* The symbol, if it is as large as it has to be. */
static const struct lx_plugin *find_symbol(void *library, struct lx_err *e)
{
	const struct lx_plugin *of = dlsym(library, "lx_plugin");
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;
	if (!of)
		lx_err_set(e, LX_USAGE, "it has no symbol lx_plugin: does it end with LX_PLUGIN(...)?");
	else if (!dladdr1((const void *)of, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol || (symbol->st_info & 15) != STT_OBJECT ||
	         symbol->st_size < sizeof(of->abi))
		lx_err_set(e, LX_USAGE, "its lx_plugin is not what LX_PLUGIN(...) makes");
	else if (of->abi != LX_KERNEL_ABI)
		lx_err_set(e, LX_USAGE, "made for version %u of kernels, this lx-gpu has %d: compile it with this one's lx/kernel.h", of->abi, LX_KERNEL_ABI);
	else if (symbol->st_size < sizeof(*of) || of->n == 0 || of->n > LX_PLUGIN_KERNELS || !of->kernels)
		lx_err_set(e, LX_USAGE, "its lx_plugin is not what LX_PLUGIN(...) makes of 1 to %d kernels", LX_PLUGIN_KERNELS);
	else
		return of;
	return NULL;
}

/* ---- for a CUDA device ---- */

static int make_image(struct lx_gpu_module *m, int major, int minor, struct lx_err *e)
{
	struct plugin *p = m->own;
	struct lx_err why = LX_ERR_INIT;
	if (!p->source.len)
		return lx_err_set(e, LX_USAGE, "--plugin %s has no kernels for a CUDA device (-DLX_FATBIN when it was made; or --device cpu)", p->file);
	p->job = (struct lx_nvrtc_job){ .file = p->file, .source = (const char *)p->source.p, .major = major, .minor = minor };
	if (lx_nvrtc_compile(&p->job, e) < 0)
		lx_err_prefix(e, "--kernel %s", p->file);
	if (!lx_sig_asked() && p->job.log.len)
		lx_io_write(2, p->job.log.p, p->job.log.len, &why);
	m->image = p->job.image.p;
	return e->code ? -1 : 0;
}

/* ---- loading ---- */

static struct plugin *plugin_new(const char *file, struct lx_err *e)
{
	struct plugin *p = calloc(1, sizeof(*p));
	/* Without a slash it would be looked for elsewhere, and with a dash in front be an option. */
	if (!p || asprintf(&p->file, "%s%s", strchr(file, '/') ? "" : "./", file) < 0) {
		free(p);
		lx_err_sys(e, "%s", file);
		return NULL;
	}
	p->fd = -1;
	p->module = (struct lx_gpu_module){ .name = p->file, .make = make_image, .own = p };
	p->next = plugins;
	plugins = p;
	return p;
}

static int load(struct plugin *p, const char *path, const char *only, struct lx_err *e)
{
	p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!p->library)
		return lx_err_set(e, LX_USAGE, "%s", dlerror());
	const struct lx_plugin *of = find_symbol(p->library, e);
	if (!of)
		return -1;
	p->module.image = of->fatbin;
	return add_kernels(p, of, only, e);
}

int lx_plugin_load(const char *file, struct lx_err *e)
{
	struct plugin *p = plugin_new(file, e);
	if (!p)
		return -1;
	return check_file(p->file, e) < 0 || load(p, p->file, NULL, e) < 0 ? lx_err_prefix(e, "--plugin %s", file) : 0;
}

static int compile(struct plugin *p, const char *only, struct lx_err *e)
{
	char path[64];
	if (lx_compile_read(p->file, LX_COMPILE_SOURCE, LX_COMPILE_SOURCE_TEXT, &p->source, e) < 0 || (p->fd = lx_compile(p->file, &p->source, e)) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->fd);
	return load(p, path, only, e);
}

int lx_plugin_compile(const char *file, struct lx_err *e)
{
	const char *colon = access(file, F_OK) < 0 ? strrchr(file, ':') : NULL;
	char *name = strndup(file, colon ? (size_t)(colon - file) : strlen(file));
	struct plugin *p = name ? plugin_new(name, e) : NULL;
	free(name);
	if (!p)
		return lx_err_sys(e, "--kernel %s", file);
	return compile(p, colon ? colon + 1 : NULL, e) < 0 ? lx_err_prefix(e, "--kernel %s", file) : 0;
}

void lx_plugins_free(void)
{
	for (struct plugin *p; (p = plugins);) {
		plugins = p->next;
		if (p->library)
			dlclose(p->library);
		if (p->fd >= 0)
			close(p->fd);
		lx_buf_free(&p->source);
		lx_buf_free(&p->job.image);
		lx_buf_free(&p->job.log);
		free(p->file);
		free(p);
	}
}

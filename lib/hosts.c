#include "hosts.h"
#include "opt.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_MAX_BYTES 65536
#define CONNECT_S "20"

/* ---- reading ---- */

static void host_free(struct lx_host *h)
{
	free(h->login);
	free(h->ssh);
	free(h->user);
	free(h->host);
	free(h->port);
}

void lx_hosts_free(struct lx_hosts *h)
{
	for (size_t i = 0; i < h->n; i++)
		host_free(&h->v[i]);
	free(h->v);
	*h = (struct lx_hosts){ 0 };
}

/* Cut *s behind the first `len` bytes: an allocated copy of those, *s after them and `skip` more. */
static char *cut(char **s, size_t len, size_t skip)
{
	char *part = strndup(*s, len);
	*s += len + skip;
	return part;
}

static bool is_login_byte(char c)
{
	return isalnum((unsigned char)c) || strchr("-._", c);
}

/* HOST, [ADDRESS] or an IPv6 address, and :PORT behind the first two. */
static const char *parse_host(struct lx_host *h, char *s)
{
	size_t len = strspn(s, "0123456789abcdefABCDEF:.");
	if (s[0] == '[') {
		len = strcspn(s, "]");
		if (!s[len])
			return "a [ without ]";
		s++;
		h->host = cut(&s, len - 1, 1);
	} else if (!s[len] && strchr(s, ':') != strrchr(s, ':')) {
		h->host = cut(&s, len, 0);
	} else {
		for (len = 0; s[len] && is_login_byte(s[len]); len++)
			;
		h->host = cut(&s, len, 0);
	}
	if (h->host && (!*h->host || h->host[0] == '-'))
		return "no name of a host";
	if (*s == ':' && s[1] && strspn(s + 1, "0123456789") == strlen(s + 1))
		h->port = strdup(s + 1);
	else if (*s)
		return "a byte that no name of a host has";
	return NULL;
}

static const char *parse_user(struct lx_host *h, char **s)
{
	char *at = strrchr(*s, '@');
	if (!at)
		return NULL;
	if (memchr(*s, ':', (size_t)(at - *s)))
		return "a password: use a key, and ssh-agent(1)";
	h->user = cut(s, (size_t)(at - *s), 1);
	return h->user && (!*h->user || h->user[0] == '-') ? "no name of a user" : NULL;
}

/* NULL, or what is wrong. */
static const char *parse_login(struct lx_host *h, char *s)
{
	struct lx_err range = LX_ERR_INIT;
	const char *bad = NULL;
	if (*s == '@') {
		s += strcspn(s, "/");
		if (!*s++)
			return "a list of groups, which chooses no host by itself";
	}
	size_t digits = strspn(s, "0123456789");
	if (digits && s[digits] == '/') {
		s[digits] = '\0';
		if (lx_opt_uint("", s, 1, LX_HOST_SLOTS_MAX, &h->slots, &range) < 0)
			return "a number before the slash that is not 1 to 1024";
		s += digits + 1;
	}
	h->login = strdup(s);
	if (strcmp(s, ":") == 0)
		return NULL;
	char *space = strrchr(s, ' ');
	if (space)
		h->ssh = cut(&s, (size_t)(space - s), 1);
	bad = parse_user(h, &s);
	return bad ? bad : parse_host(h, s);
}

static bool is_whole(const struct lx_host *h, const char *text)
{
	return h->login && (!strcmp(h->login, ":") || h->host) && (h->ssh || !strchr(text, ' '));
}

static int add_login(struct lx_hosts *h, char *s, struct lx_err *e)
{
	struct lx_host one = { 0 };
	s += strspn(s, " \t");
	for (size_t len = strlen(s); len && isspace((unsigned char)s[len - 1]); len--)
		s[len - 1] = '\0';
	if (!*s)
		return 0;
	char *text = strdup(s);
	struct lx_host *v = text ? realloc(h->v, (h->n + 1) * sizeof(*v)) : NULL;
	if (v)
		h->v = v;
	const char *bad = v ? parse_login(&one, s) : NULL;
	int rc = 0;
	if (bad)
		rc = lx_err_set(e, LX_USAGE, "'%s': %s", text, bad);
	else if (!v || !is_whole(&one, text))
		rc = lx_err_sys(e, "hosts");
	free(text);
	if (rc == 0)
		h->v[h->n++] = one;
	else
		host_free(&one);
	return rc;
}

/* Logins of one line, in place. A comma that is meant stands twice or behind a backslash. */
static int add_line(struct lx_hosts *h, char *line, struct lx_err *e)
{
	char *from = line, *to = line, *start = line;
	while (*from && *from != '\n') {
		if ((from[0] == '\\' || from[0] == ',') && from[1] == ',') {
			*to++ = ',';
			from += 2;
		} else if (*from == ',') {
			from++;
			*to++ = '\0';
			if (add_login(h, start, e) < 0)
				return -1;
			start = to;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
	return add_login(h, start, e);
}

static int read_lines(struct lx_hosts *h, FILE *f, const char *path, struct lx_err *e)
{
	static char line[LINE_MAX_BYTES];
	for (unsigned n = 1; fgets(line, sizeof(line), f); n++) {
		char *s = line + strspn(line, " \t");
		if (!strchr(s, '\n') && strlen(line) == sizeof(line) - 1)
			return lx_err_set(e, LX_USAGE, "%s: line %u is over %d bytes", path, n, LINE_MAX_BYTES - 2);
		if (*s != '#' && *s != '\n' && add_line(h, s, e) < 0)
			return lx_err_prefix(e, "%s: line %u", path, n);
	}
	return ferror(f) ? lx_err_sys(e, "%s", path) : 0;
}

int lx_hosts_read(struct lx_hosts *h, const char *path, struct lx_err *e)
{
	*h = (struct lx_hosts){ 0 };
	FILE *f = fopen(path, "re");
	if (!f) {
		lx_err_sys(e, "%s", path);
		e->code = LX_USAGE;
		return -1;
	}
	int rc = read_lines(h, f, path, e);
	fclose(f);
	if (rc == 0 && !h->n)
		rc = lx_err_set(e, LX_USAGE, "%s names no host", path);
	if (rc < 0)
		lx_hosts_free(h);
	return rc;
}

/* ---- quoting ---- */

/* Inside single quotes, sh, csh and fish disagree about quotes, backslashes, ! and newlines, and locales about the rest. */
static bool is_tame(const char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~' || strchr("'\\!", *s))
			return false;
	return true;
}

static bool is_plain(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,") == strlen(s);
}

static void quote_tame(struct lx_buf *b, const char *s)
{
	const char *q = is_plain(s) ? "" : "'";
	lx_buf_printf(b, " %s%s%s", q, s, q);
}

/* For printf's %b inside double quotes inside single quotes: everything that means something to any of them as \0NNN. */
static void octal(struct lx_buf *b, const char *s)
{
	for (; *s; s++)
		if (isalnum((unsigned char)*s) || strchr("_-./:=@+, ", *s))
			lx_buf_byte(b, (uint8_t)*s);
		else
			lx_buf_printf(b, "\\0%03o", (unsigned char)*s);
}

/* One argument as sh reads it, through octal(). */
static void quote_octal(struct lx_buf *b, const char *s)
{
	octal(b, " '");
	for (const char *q; (q = strchr(s, '\'')); s = q + 1) {
		char *part = strndup(s, (size_t)(q - s));
		if (!part) {
			b->failed = true;
			return;
		}
		octal(b, part);
		free(part);
		octal(b, "'\\''");
	}
	octal(b, s);
	octal(b, "'");
}

void lx_host_command(struct lx_buf *b, const char *const *argv)
{
	bool tame = true;
	for (const char *const *a = argv; *a; a++)
		tame = tame && is_tame(*a);
	lx_buf_str(b, tame ? "exec" : "exec sh -c 'eval \"$(printf %b \"exec");
	for (; *argv; argv++)
		tame ? quote_tame(b, *argv) : quote_octal(b, *argv);
	if (!tame)
		lx_buf_str(b, "\")\"'");
}

/* ---- the channel ---- */

/* First values win in ssh: what SSH-COMMAND says stands before these. */
static const char *const ssh_options[] = {
	"-T", "-oBatchMode=yes", "-oConnectTimeout=" CONNECT_S, "-oClearAllForwardings=yes", "-oCompression=no", NULL,
};

/* Whether the program of a shell command is ssh, under whatever path. */
static bool is_ssh(const char *command)
{
	size_t len = strcspn(command, " \t");
	return len >= 3 && memcmp(command + len - 3, "ssh", 3) == 0 && (len == 3 || command[len - 4] == '/');
}

/* The list is made of offsets first: the block may move while it grows. */
struct list {
	struct lx_buf text;
	size_t at[32];
	size_t n;
};

static void put(struct list *l, const char *s)
{
	l->at[l->n++] = l->text.len;
	lx_buf_add(&l->text, s, strlen(s) + 1);
}

static void put_pair(struct list *l, const char *option, const char *value)
{
	if (!value)
		return;
	put(l, option);
	put(l, value);
}

static char **finish(struct list *l, struct lx_err *e)
{
	size_t head = (l->n + 1) * sizeof(char *);
	char **v = lx_buf_check(&l->text, e) == 0 ? malloc(head + l->text.len) : NULL;
	if (!v) {
		lx_err_sys(e, "hosts");
	} else {
		memcpy((char *)v + head, l->text.p, l->text.len);
		for (size_t i = 0; i < l->n; i++)
			v[i] = (char *)v + head + l->at[i];
		v[l->n] = NULL;
	}
	lx_buf_free(&l->text);
	return v;
}

char **lx_host_argv(const struct lx_host *h, const char *const *argv, struct lx_err *e)
{
	struct list l = { 0 };
	struct lx_buf command = { 0 };
	lx_host_command(&command, argv);
	if (!lx_buf_cstr(&command)) {
		lx_buf_check(&command, e);
		lx_buf_free(&command);
		return NULL;
	}
	if (h->ssh) {
		struct lx_buf script = { 0 };
		lx_buf_printf(&script, "%s \"$@\"", h->ssh);
		put(&l, "sh");
		put(&l, "-c");
		put(&l, lx_buf_cstr(&script) ? (const char *)script.p : "");
		l.text.failed |= script.failed;
		lx_buf_free(&script);
	}
	put(&l, "ssh"); /* or $0 of the script */
	for (const char *const *o = ssh_options; (!h->ssh || is_ssh(h->ssh)) && *o; o++)
		put(&l, *o);
	put_pair(&l, "-p", h->port);
	put_pair(&l, "-l", h->user);
	put(&l, h->host);
	put(&l, (const char *)command.p);
	lx_buf_free(&command);
	return finish(&l, e);
}

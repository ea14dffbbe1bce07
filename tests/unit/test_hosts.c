#include "hosts.h"

#include "tap.h"

#include <unistd.h>

static struct lx_hosts hosts;
static struct lx_err err;

static int read_text(const char *text)
{
	char path[] = "/tmp/lx-test-hosts-XXXXXX";
	int fd = mkstemp(path);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	lx_hosts_free(&hosts);
	err = (struct lx_err)LX_ERR_INIT;
	int rc = lx_hosts_read(&hosts, path, &err);
	unlink(path);
	return rc;
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is(size_t i, uint64_t slots, const char *ssh, const char *user, const char *host, const char *port)
{
	const struct lx_host *h = &hosts.v[i];
	if (i < hosts.n && h->slots == slots && same(h->ssh, ssh) && same(h->user, user) && same(h->host, host) && same(h->port, port))
		return true;
	if (i < hosts.n)
		printf("# %zu: %llu '%s' '%s' '%s' '%s'\n", i, (unsigned long long)h->slots, h->ssh ? h->ssh : "-", h->user ? h->user : "-",
		       h->host ? h->host : "-", h->port ? h->port : "-");
	return false;
}

static bool refused(const char *text, const char *part)
{
	if (read_text(text) == -1 && err.code == LX_USAGE && strstr(err.msg, part))
		return true;
	printf("# %s: code %d, '%s'\n", text, err.code, err.msg);
	return false;
}

static void lists_are_read_as_parallel_reads_them(void)
{
	CHECK(read_text("# comment\n\n  # another\n:\n8/gpu7\nme@gpu8:2222\n4/:\n") == 0 && hosts.n == 4);
	CHECK(is(0, 0, NULL, NULL, NULL, NULL) && is(1, 8, NULL, NULL, "gpu7", NULL));
	CHECK(is(2, 0, NULL, "me", "gpu8", "2222") && is(3, 4, NULL, NULL, NULL, NULL));
	CHECK(strcmp(hosts.v[2].login, "me@gpu8:2222") == 0);
	CHECK(read_text("2/ssh -p 2222 -i 'a key' me@x  \r\n16//usr/bin/ssh y,z, 3/ssh -J j1,,j2 k\n@slow+old/2/w\n[fe80::1]:99\n2001:db8::1") == 0);
	CHECK(hosts.n == 7);
	CHECK(is(0, 2, "ssh -p 2222 -i 'a key'", "me", "x", NULL) && is(1, 16, "/usr/bin/ssh", NULL, "y", NULL));
	CHECK(is(2, 0, NULL, NULL, "z", NULL) && is(3, 3, "ssh -J j1,j2", NULL, "k", NULL) && is(4, 2, NULL, NULL, "w", NULL));
	CHECK(is(5, 0, NULL, NULL, "fe80::1", "99") && is(6, 0, NULL, NULL, "2001:db8::1", NULL));
}

static void what_is_no_host_is_refused(void)
{
	CHECK(refused("a\nme:secret@b\n", "line 2: 'me:secret@b': a password"));
	CHECK(refused("0/a\n", "1 to 1024"));
	CHECK(refused("1025/a\n", "1 to 1024"));
	CHECK(refused("-oProxyCommand=x\n", "no name of a host"));
	CHECK(refused("-l@x\n", "no name of a user"));
	CHECK(refused("a;b\n", "no name of a host has"));
	CHECK(refused("8/\n", "no name of a host"));
	CHECK(refused("@group\n", "list of groups"));
	CHECK(refused("# nothing\n", "names no host"));
	CHECK(lx_hosts_read(&hosts, "/nowhere/hosts", &err) == -1 && hosts.n == 0);
}

/* What sh -c makes of a command, as its arguments with their lengths. */
static bool arrives(const char *arg)
{
	const char *const argv[] = { "printf", "%s\\n%s", "first", arg, NULL };
	struct lx_buf b = { 0 };
	char want[1024], got[1024] = "";
	lx_host_command(&b, argv);
	CHECK(lx_buf_cstr(&b));
	for (size_t i = 0; i < b.len; i++)
		CHECK(b.p[i] >= ' ' && b.p[i] <= '~');
	snprintf(want, sizeof(want), "first\n%s", arg);
	FILE *f = popen((const char *)b.p, "r"); /* sh -c, as a login shell does */
	size_t n = f ? fread(got, 1, sizeof(got) - 1, f) : 0;
	CHECK(f && pclose(f) == 0);
	lx_buf_free(&b);
	return n == strlen(want) && memcmp(got, want, n) == 0;
}

static void arguments_arrive_whatever_their_bytes_are(void)
{
	char all[256], pair[3] = "x";
	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	CHECK(arrives(all));
	CHECK(arrives("") && arrives("plain") && arrives("two words") && arrives("it's") && arrives("$HOME `id` \"q\" *?[a] ~ # & ; | < >"));
	CHECK(arrives("'") && arrives("''") && arrives("\\") && arrives("\\'") && arrives("a\nb\n") && arrives("!!") && arrives("%s%%\\n") && arrives("-n"));
	for (int i = 1; i < 256; i++) {
		pair[1] = (char)i;
		CHECK(arrives(pair));
	}
}

static void ssh_is_asked_for_a_quiet_channel(void)
{
	static const char *const command[] = { "lx-batch", "-j", "2", "--", "lx-gpu", "a b", NULL };
	CHECK(read_text("me@x:7\nssh -p 8 y\nmyrsh z\n") == 0);
	char **v = lx_host_argv(&hosts.v[0], command, &err);
	static const char *const want[] = { "ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=20", "-oClearAllForwardings=yes", "-oCompression=no",
		"-p", "7", "-l", "me", "x", "exec lx-batch -j 2 -- lx-gpu 'a b'", NULL };
	for (size_t i = 0; v && i < sizeof(want) / sizeof(*want); i++)
		CHECK(same(v[i], want[i]));
	free(v);
	v = lx_host_argv(&hosts.v[1], command, &err);
	CHECK(v && same(v[0], "sh") && same(v[1], "-c") && same(v[2], "ssh -p 8 \"$@\"") && same(v[3], "ssh") && same(v[4], "-T") && same(v[9], "y"));
	free(v);
	v = lx_host_argv(&hosts.v[2], command, &err);
	CHECK(v && same(v[2], "myrsh \"$@\"") && same(v[4], "z") && !v[6]);
	free(v);
}

int main(void)
{
	RUN(lists_are_read_as_parallel_reads_them);
	RUN(what_is_no_host_is_refused);
	RUN(arguments_arrive_whatever_their_bytes_are);
	RUN(ssh_is_asked_for_a_quiet_channel);
	lx_hosts_free(&hosts);
	return tap_done();
}

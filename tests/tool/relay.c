/* relay [-b BYTES] [-c FILE] MS HOST PORT: a longer way to a host, for the ProxyCommand of ssh.
 *
 * Connects to HOST:PORT and passes bytes between that and stdin/stdout, each MS milliseconds after it was read, in both
 * directions: the round trip grows by twice that. What is under way does not wait for what is before it, so that the delay
 * costs no bandwidth: a direction holds up to BYTES (default 8 MiB), then it is not read any more. An end of input
 * arrives as late as the bytes before it and closes one direction only. -c keeps in
 * FILE how many bytes have gone there and come back: always, for who ends an ssh may kill this with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNKS 65536 /* of one direction */
#define READ_MAX 65536
#define PIPE_SAFE 4096 /* so much a pipe takes at once when poll says it takes anything */

struct chunk {
	uint64_t due_ns;
	size_t len; /* 0: the end */
};

struct way {
	int from, to;
	uint8_t *ring;
	size_t at, len; /* held: len bytes from at, round the end */
	struct chunk *chunks;
	size_t first, n;
	uint64_t passed;
	bool ended, closed; /* its input; its output */
};

static size_t max_bytes = 8 << 20;
static uint64_t delay_ns;
static struct way ways[2];
static int counts = -1;
static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

static void give_up(const char *what)
{
	fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool has_room(const struct way *w)
{
	return !w->ended && w->len < max_bytes && w->n < CHUNKS - 1; /* the last place is for the end */
}

static void keep(struct way *w, size_t len)
{
	w->chunks[(w->first + w->n++) % CHUNKS] = (struct chunk){ now_ns() + delay_ns, len };
	w->len += len;
	w->ended = !len;
}

static void take_in(struct way *w)
{
	if (!w->len)
		w->at = 0; /* memory that was touched before */
	size_t end = (w->at + w->len) % max_bytes, room = max_bytes - w->len;
	room = room < max_bytes - end ? room : max_bytes - end;
	ssize_t got = read(w->from, w->ring + end, room < READ_MAX ? room : READ_MAX);
	if (got >= 0 || errno == ECONNRESET)
		keep(w, got > 0 ? (size_t)got : 0);
	else if (errno != EINTR && errno != EAGAIN)
		give_up("read");
}

static ssize_t put(int fd, const uint8_t *p, size_t len)
{
	ssize_t put = send(fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	return put >= 0 || errno != ENOTSOCK ? put : write(fd, p, len < PIPE_SAFE ? len : PIPE_SAFE);
}

/* Nobody reads there any more. */
static void drop(struct way *w)
{
	w->closed = w->ended = true;
	w->n = w->len = 0;
}

static void close_output(struct way *w)
{
	w->closed = true;
	if (shutdown(w->to, SHUT_WR) < 0 && errno == ENOTSOCK)
		close(w->to);
}

/* One chunk or a part of it. */
static void let_out(struct way *w)
{
	struct chunk *c = &w->chunks[w->first];
	if (c->len) {
		size_t len = c->len < max_bytes - w->at ? c->len : max_bytes - w->at;
		ssize_t n = put(w->to, w->ring + w->at, len);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			drop(w);
		if (n < 0)
			return;
		w->at = (w->at + (size_t)n) % max_bytes;
		w->len -= (size_t)n;
		w->passed += (uint64_t)n;
		c->len -= (size_t)n;
		if (c->len)
			return;
	} else {
		close_output(w);
	}
	w->first = (w->first + 1) % CHUNKS;
	w->n--;
}

static void count(void)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%20llu %20llu\n", (unsigned long long)ways[0].passed, (unsigned long long)ways[1].passed);
	if (counts >= 0 && pwrite(counts, line, (size_t)n, 0) != n)
		give_up("-c");
}

static bool is_due(const struct way *w, uint64_t now)
{
	return w->n && w->chunks[w->first].due_ns <= now;
}

/* Milliseconds until something is due, rounded up. */
static int patience(uint64_t now)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 2; i++)
		if (ways[i].n && !is_due(&ways[i], now) && ways[i].chunks[ways[i].first].due_ns - now < least)
			least = ways[i].chunks[ways[i].first].due_ns - now;
	return least == UINT64_MAX ? -1 : least >= 1000000000000 ? 1000000 : (int)((least + 999999) / 1000000);
}

static void pass(void)
{
	while (!stopped && !(ways[0].closed && ways[1].closed)) {
		struct pollfd p[4];
		uint64_t now = now_ns();
		for (int i = 0; i < 2; i++) {
			struct way *w = &ways[i];
			p[i] = (struct pollfd){ has_room(w) ? w->from : -1, POLLIN, 0 };
			p[2 + i] = (struct pollfd){ w->closed ? -1 : w->to, is_due(w, now) ? POLLOUT : 0, 0 };
		}
		if (poll(p, 4, patience(now)) < 0) {
			if (errno != EINTR)
				give_up("poll");
			continue;
		}
		for (int i = 0; i < 2; i++) {
			if (p[i].revents)
				take_in(&ways[i]);
			if (p[2 + i].revents & POLLOUT) {
				let_out(&ways[i]);
				count();
			} else if (p[2 + i].revents) {
				drop(&ways[i]);
			}
		}
	}
}

static int dial(const char *host, const char *port)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	int bad = getaddrinfo(host, port, &want, &list), fd = -1, one = 1;
	if (bad) {
		fprintf(stderr, "relay: %s: %s\n", host, gai_strerror(bad));
		exit(1);
	}
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM, 0);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(list);
	if (fd < 0)
		give_up(host);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void set_up(struct way *w, int from, int to)
{
	w->from = from;
	w->to = to;
	w->ring = malloc(max_bytes);
	w->chunks = malloc(CHUNKS * sizeof(*w->chunks));
	if (!w->ring || !w->chunks)
		give_up("memory");
}

/* A whole number; anything else ends it. */
static uint64_t number(const char *text)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-')
		exit(2);
	return n;
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_signal };
	int c;
	while ((c = getopt(argc, argv, "b:c:")) != -1) {
		switch (c) {
		case 'b': max_bytes = number(optarg); break;
		case 'c':
			counts = open(optarg, O_WRONLY | O_CREAT | O_TRUNC, 0600);
			if (counts < 0)
				give_up(optarg);
			break;
		default: return 2;
		}
	}
	if (argc - optind != 3 || !max_bytes)
		return 2;
	delay_ns = number(argv[optind]) * 1000000;
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGHUP, &act, NULL); /* how ssh ends its ProxyCommand */
	sigaction(SIGTERM, &act, NULL);
	int fd = dial(argv[optind + 1], argv[optind + 2]);
	set_up(&ways[0], 0, fd);
	set_up(&ways[1], fd, 1);
	count();
	pass();
	return 0;
}

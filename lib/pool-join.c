/* Workers that join through the listening socket, and leave. */
#include "pool-int.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define HELLO_MS 10000 /* so long one that has connected may take to say who it is */

int pool_listen(struct pool *p, struct lx_err *e)
{
	for (int i = 0; i < GUESTS_MAX; i++)
		p->guests[i].fd = -1;
	if (lx_listen_open(&p->listen, p->conf->listen, e) < 0)
		return lx_err_prefix(e, "--listen");
	return 0;
}

static void drop_guest(struct pool *p, struct guest *g)
{
	close(g->fd);
	g->fd = -1;
	p->n_guests--;
}

void pool_unlisten(struct pool *p)
{
	for (int i = 0; p->n_guests && i < GUESTS_MAX; i++)
		if (p->guests[i].fd >= 0)
			drop_guest(p, &p->guests[i]);
	lx_listen_close(&p->listen);
}

/* ---- guests ---- */

int pool_on_listener(struct pool *p, struct lx_err *e)
{
	uid_t uid;
	int slot = 0, fd = lx_listen_accept(&p->listen, &uid);
	if (fd == -2)
		pool_say(p, "--listen: uid %ld has connected: refused", (long)uid);
	if (fd < 0)
		return 0;
	while (slot < GUESTS_MAX && p->guests[slot].fd >= 0)
		slot++;
	if (slot == GUESTS_MAX) { /* it was said to be looked at no more */
		close(fd);
		return 0;
	}
	p->guests[slot] = (struct guest){ .fd = fd, .until = lx_io_now_ns() + HELLO_MS * MS };
	p->n_guests++;
	return pool_watch(p, EPOLL_CTL_ADD, fd, EPOLLIN, GUEST, slot, e);
}

int pool_on_guest(struct pool *p, int slot, struct lx_err *e)
{
	struct guest *g = &p->guests[slot];
	if (g->fd < 0 || g->whole)
		return 0;
	int got = lx_hello_read(&g->hello, g->fd);
	g->whole = got > 0 && lx_hello_after(&g->hello, "lx-attach");
	if (g->whole) /* from here on it is looked at by turns */
		return pool_watch(p, EPOLL_CTL_DEL, g->fd, 0, GUEST, slot, e);
	if (got && !g->hello.len) { /* somebody who only looked whether we are there */
		drop_guest(p, g);
	} else if (got) {
		pool_say(p, "--listen: what has connected is no lx-attach of this version: refused");
		lx_hello_say(g->fd, "lx-batch 1 no not an lx-attach of this version");
		drop_guest(p, g);
	}
	return 0;
}

/* ---- joining ---- */

static size_t n_attached(const struct pool *p)
{
	size_t n = 0;
	for (size_t i = p->conf->n; i < p->n_peers; i++)
		n += p->peers[i].started;
	return n;
}

/* "HOST NAME" of its first line. */
static void name_it(struct peer *k, const char *who)
{
	char here[128] = "";
	size_t host = strcspn(who, " ");
	gethostname(here, sizeof(here) - 1);
	k->own.far = strlen(here) != host || strncmp(here, who, host) != 0;
	snprintf(k->name, sizeof(k->name), "worker %d (%.*s%s%.100s)", k->number, k->own.far ? (int)(host < 40 ? host : 40) : 0, who,
	         k->own.far ? ": " : "", who[host] ? who + host + 1 : who);
	k->own.name = k->name;
}

static int join(struct pool *p, struct guest *g, struct lx_err *e)
{
	int fd = g->fd;
	if (n_attached(p) == ATTACHED_MAX) {
		lx_hello_say(fd, "lx-batch 1 no %d workers have joined, that is all it takes", ATTACHED_MAX);
		drop_guest(p, g);
		return 0;
	}
	g->fd = -1;
	p->n_guests--;
	int number = lx_sched_worker(p->sched, true, p->now, e);
	if (number < 0) {
		close(fd);
		return -1;
	}
	struct peer *k = &p->peers[number];
	*k = (struct peer){ .w = LX_WORKER_NONE, .number = number, .attached = true, .why = LX_ERR_INIT };
	k->cmd = &k->own;
	name_it(k, lx_hello_after(&g->hello, "lx-attach"));
	if ((size_t)number >= p->n_peers)
		p->n_peers = (size_t)number + 1;
	lx_hello_say(fd, "lx-batch 1 ok");
	if (lx_worker_adopt(&k->w, fd, k->name, &p->stage.conf.limits, e) < 0)
		return -1;
	if (k->own.far)
		lx_sched_far(p->sched, number);
	k->started = true;
	pool_say(p, "%s joins", k->name);
	return pool_watch(p, EPOLL_CTL_ADD, fd, EPOLLIN, SOCKET, number, e) < 0 ? -1 : pool_send_begin(p, k, e);
}

static int look_at_listener(struct pool *p, bool want, struct lx_err *e)
{
	if (want == p->accepting)
		return 0;
	p->accepting = want;
	return pool_watch(p, want ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, p->listen.fd, EPOLLIN, LISTENER, 0, e);
}

int pool_guests(struct pool *p, struct lx_err *e)
{
	if (p->listen.fd < 0)
		return 0;
	for (int i = 0; p->n_guests && i < GUESTS_MAX; i++) {
		struct guest *g = &p->guests[i];
		if (g->fd < 0)
			continue;
		if (g->whole && p->run_open && join(p, g, e) < 0)
			return -1;
		if (g->fd >= 0 && !g->whole && lx_io_now_ns() >= g->until) {
			pool_say(p, "--listen: what has connected says nothing: refused");
			drop_guest(p, g);
		}
	}
	return look_at_listener(p, p->run_open && p->n_guests < GUESTS_MAX, e);
}

void pool_on_leave(struct pool *p, struct peer *k)
{
	if (!k->begun || k->leaving)
		return;
	k->leaving = true;
	pool_say(p, "%s leaves", k->cmd->name);
	lx_sched_leave(p->sched, k->number, p->now);
}

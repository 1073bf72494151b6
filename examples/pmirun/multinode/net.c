/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "net.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../options.h"

#define NEVER_S        1e9 /* the longest --node-timeout, which 0 stands for */
#define LINK_S         3   /* the least silence of a link: while idle it is silent for 2 s */
#define MAX_COMPLAINTS 20u /* lines about connections that were refused */

static void die_of_sodium(void)
{
    die(STATUS_RESOURCES, "libsodium failed: it gets no random numbers, or was misused");
}

void net_init(struct net *net, const struct options *opt, const struct net_ops *ops, void *of)
{
    const int err = channel_start(die_of_sodium);

    if (err == -ENOTSUP)
        die(STATUS_USAGE,
            "this pmirun runs jobs on one node only, since it was built without libsodium: "
            "install libsodium-dev and pkg-config, and build it again");
    if (err)
        die(STATUS_RESOURCES, "libsodium cannot be initialized");
    net->opt = opt;
    net->ops = ops;
    net->of = of;
    net->listener.fd = -1;
}

/* ---- addresses ---- */

static int parse_address(const char *address, uint16_t port, struct sockaddr_storage *ss,
                         socklen_t *len)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM},
                    *list;
    char service[8];

    snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(address ? address : "0.0.0.0", service, &hints, &list) != 0)
        return -EINVAL;
    memcpy(ss, list->ai_addr, list->ai_addrlen);
    *len = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

static void format_address(const struct sockaddr *sa, socklen_t len, char *out, size_t n)
{
    if (getnameinfo(sa, len, out, (socklen_t)n, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(out, n, "?");
}

void net_address(const struct netconn *nc, bool local, char *out, size_t n)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    int rc = local ? getsockname(nc->src.fd, (struct sockaddr *)&ss, &len)
                   : getpeername(nc->src.fd, (struct sockaddr *)&ss, &len);

    out[0] = '\0';
    if (rc == 0)
        format_address((struct sockaddr *)&ss, len, out, n);
}

char *net_own_addresses(void)
{
    struct ifaddrs *list, *a;
    char *all = NULL, one[64];

    if (getifaddrs(&list) != 0)
        list = NULL;
    for (a = list; a; a = a->ifa_next) {
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP) ||
            (a->ifa_flags & IFF_LOOPBACK))
            continue;
        format_address(a->ifa_addr, sizeof(struct sockaddr_in), one, sizeof(one));
        all = xappend(all, "%s ", one);
    }
    if (list)
        freeifaddrs(list);
    return xappend(all, "127.0.0.1");
}

/* ---- the life of a connection ---- */

uint64_t net_timeout(const struct net *net)
{
    return (uint64_t)((net->opt->node_s > 0 ? net->opt->node_s : NEVER_S) * 1e9);
}

/* Where there is another address to try. */
static uint64_t short_timeout(const struct net *net)
{
    const uint64_t ns = net_timeout(net) / 5;

    return ns < 5 * NS_PER_S ? ns : 5 * NS_PER_S;
}

/*
 * A link that is cut without a FIN is detected after --node-timeout: on an idle link by the
 * kernel's keep-alive, on a busy one by find_silence(), since nothing is acknowledged.
 * TCP_USER_TIMEOUT would also end a link whose other end is stopped with a full buffer, and a head
 * may be stopped.
 */
static void set_options(const struct options *opt, int fd)
{
    const int fifth = opt->node_s >= 5 ? (int)(opt->node_s / 5) : 1;
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},          {SOL_SOCKET, SO_KEEPALIVE, opt->node_s > 0},
        {IPPROTO_TCP, TCP_KEEPIDLE, 2 * fifth}, {IPPROTO_TCP, TCP_KEEPINTVL, fifth},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                   sizeof(options[i].value));
}

static void on_net_event(void *of, struct source *src, uint32_t events);

bool net_shaking(const struct net *net)
{
    for (const struct netconn *nc = net->conns; nc; nc = nc->next)
        if (!nc->dead && nc->dialled && nc->shaking)
            return true;
    return false;
}

/* The connection breaks; this side has not closed it. */
static void conn_broken(struct netconn *nc, const char *why)
{
    const bool stranger = !nc->dialled && nc->shaking;

    if (nc->dead)
        return;
    net_close(nc);
    if (!stranger) {
        nc->net->ops->closed(nc->net->of, nc, why);
    } else if (nc->net->n_complaints < MAX_COMPLAINTS) {
        log_message("a connection from %s is refused: %s", nc->name, why);
        if (++nc->net->n_complaints == MAX_COMPLAINTS)
            log_message("further connections are refused silently");
    }
}

static void conn_late(void *of)
{
    struct netconn *nc = of;

    conn_broken(nc, nc->connecting ? "no answer" : "it did not identify itself in time");
}

/* The last fifth of its time: the other side may have answered while we were stopped or busy, and
 * its answer must be read first. */
static void conn_extend(void *of)
{
    struct netconn *nc = of;

    timer_call(&nc->deadline, loop.now_ns + nc->timeout_ns / 5, conn_late, nc);
}

/* Time to connect, or for the handshake. */
static void give_time(struct netconn *nc, uint64_t ns)
{
    nc->timeout_ns = ns;
    timer_call(&nc->deadline, loop.now_ns + ns - ns / 5, conn_extend, nc);
}

/* Looks for links with bytes that the peer has not acknowledged for too long. */
static void find_silence(void *of)
{
    struct net *net = of;
    const double most_s = net->opt->node_s > LINK_S ? net->opt->node_s : LINK_S;
    char why[64];

    snprintf(why, sizeof(why), "it has been silent for %g s", most_s);
    for (struct netconn *nc = net->conns; nc; nc = nc->next) {
        struct tcp_info info = {0};
        socklen_t len = sizeof(info);

        if (nc->dead || nc->shaking ||
            getsockopt(nc->src.fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
            continue;
        if ((info.tcpi_unacked || info.tcpi_probes) && info.tcpi_last_ack_recv > most_s * 1e3)
            conn_broken(nc, why);
    }
    timer_call(&net->listen, loop.now_ns + net_timeout(net) / 5, find_silence, net);
}

/* Takes fd. */
static struct netconn *new_conn(struct net *net, int fd, bool dials, uint32_t peer,
                                const struct sockaddr *sa, socklen_t len, int *err)
{
    struct netconn *nc = xzalloc(sizeof(*nc));
    char host[64];

    nc->net = net;
    *err = loop_open(&nc->src, on_net_event, net, fd, dials ? EPOLLIN | EPOLLOUT : EPOLLIN);
    if (*err) {
        free(nc);
        close(fd);
        return NULL;
    }
    channel_init(&nc->ch, &net->self, dials, peer);
    set_options(net->opt, fd);
    format_address(sa, len, host, sizeof(host));
    snprintf(nc->name, sizeof(nc->name), "%s:%u", host,
             ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port));
    nc->dialled = nc->connecting = dials;
    nc->shaking = true;
    give_time(nc, net_timeout(net));
    if (!net->listen.at && net->opt->node_s > 0)
        find_silence(net);
    nc->next = net->conns;
    net->conns = nc;
    return nc;
}

static void on_net_connection(void *of, struct source *src, uint32_t events);

int net_listen(struct net *net, const char *address, uint16_t *port)
{
    struct sockaddr_storage ss = {0};
    socklen_t len;
    int rc = parse_address(address, 0, &ss, &len), fd;

    if (rc)
        return rc;
    fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&ss, len) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&ss, &len) != 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    *port = ntohs(((struct sockaddr_in *)&ss)->sin_port); /* where IPv6 has it too */
    return loop_open(&net->listener, on_net_connection, net, fd, EPOLLIN);
}

struct netconn *net_dial(struct net *net, const char *address, uint16_t port, uint32_t peer,
                         bool hasty, int *err)
{
    struct sockaddr_storage ss = {0};
    struct netconn *nc;
    socklen_t len;
    int fd;

    *err = parse_address(address, port, &ss, &len);
    if (*err)
        return NULL;
    fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (connect(fd, (struct sockaddr *)&ss, len) != 0 && errno != EINPROGRESS)) {
        *err = -errno;
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    nc = new_conn(net, fd, true, peer, (struct sockaddr *)&ss, len, err);
    if (nc && hasty)
        give_time(nc, short_timeout(net));
    return nc;
}

void net_close(struct netconn *nc)
{
    if (nc->dead)
        return;
    if (!nc->dialled && nc->shaking)
        nc->net->n_strangers--;
    timer_set(&nc->deadline, 0);
    loop_close(&nc->src);
    nc->dead = nc->net->any_dead = true;
}

/* Events of this batch may still point to connections closed in it; they are freed afterwards. */
void net_free_closed(struct net *net)
{
    struct netconn **p;

    if (!net || !net->any_dead)
        return;
    net->any_dead = false;
    p = &net->conns;
    while (*p) {
        struct netconn *nc = *p;

        if (!nc->dead || nc->dirty) {
            net->any_dead |= nc->dead;
            p = &nc->next;
            continue;
        }
        *p = nc->next;
        channel_fini(&nc->ch);
        free(nc);
    }
}

static bool on_channel_opened(void *of, struct channel *c)
{
    struct netconn *nc = of;

    if (!nc->net->ops->opened(nc->net->of, nc))
        return false;
    if (!nc->dialled)
        nc->net->n_strangers--;
    nc->shaking = false;
    timer_set(&nc->deadline, 0);
    return true;
}

static bool on_channel_frame(void *of, struct channel *c, const void *p, size_t n)
{
    struct netconn *nc = of;

    return nc->dead || nc->net->ops->frame(nc->net->of, nc, p, n);
}

static void on_replayed(void *of, struct channel *c, uint64_t number)
{
    const struct netconn *nc = of;

    log_message("frame %llu from %s is refused: replayed or forged", (unsigned long long)number,
                nc->name);
}

static const struct channel_ops channel_ops = {on_channel_opened, on_channel_frame, on_replayed};

static void drop_oldest_stranger(struct net *net)
{
    struct netconn *oldest = NULL;

    for (struct netconn *nc = net->conns; nc; nc = nc->next)
        if (!nc->dead && !nc->dialled && nc->shaking &&
            (!oldest || nc->deadline.at <= oldest->deadline.at))
            oldest = nc;
    if (oldest)
        conn_broken(oldest, "too many unauthenticated connections");
}

static void on_net_connection(void *of, struct source *src, uint32_t events)
{
    struct net *net = of;
    for (int i = 0; i < 64; i++) {
        struct sockaddr_storage ss = {0};
        socklen_t len = sizeof(ss);
        int fd = accept4(src->fd, (struct sockaddr *)&ss, &len, SOCK_CLOEXEC | SOCK_NONBLOCK), err;

        if (fd < 0 && (errno == EMFILE || errno == ENFILE) &&
            net->n_strangers) { /* silent strangers shut no peer out */
            drop_oldest_stranger(net);
            continue;
        }
        if (fd < 0)
            return;
        if (net->n_strangers >= NET_MAX_STRANGERS + net->opt->n_nodes)
            drop_oldest_stranger(net);
        if (new_conn(net, fd, false, CHANNEL_NOBODY, (struct sockaddr *)&ss, len, &err))
            net->n_strangers++;
        else
            log_message("cannot accept a connection: %s", strerror(-err));
    }
}

/* ---- bytes ---- */

static bool has_room(const struct netconn *nc)
{
    return channel_waiting(&nc->ch) <= NET_QUEUE_BYTES / 2;
}

bool net_full(struct netconn *nc)
{
    if (!nc->dead && channel_waiting(&nc->ch) > NET_QUEUE_BYTES)
        nc->full = true;
    return nc->full;
}

/* Polls for room in the socket: to write queued bytes, or to report the room. */
static void conn_arm(struct netconn *nc, bool out)
{
    (void)loop_add(&nc->src, out ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void net_conn_flush(struct netconn *nc)
{
    const void *p;
    size_t n;

    while (!nc->dead && !nc->connecting && (n = channel_output(&nc->ch, &p)) > 0) {
        ssize_t w = send(nc->src.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (w > 0) {
            channel_sent(&nc->ch, (size_t)w);
        } else if (errno == EAGAIN) {
            conn_arm(nc, true);
            return;
        } else if (errno != EINTR) {
            conn_broken(nc, strerror(errno));
        }
    }
    if (!nc->dead && !nc->connecting)
        conn_arm(nc, nc->full && has_room(nc));
}

void net_flush(struct net *net)
{
    while (net && net->dirty) {
        struct netconn *nc = net->dirty;

        net->dirty = nc->next_dirty;
        nc->dirty = false;
        net_conn_flush(nc);
    }
}

static void make_dirty(struct netconn *nc)
{
    struct net *net = nc->net;

    if (nc->dirty)
        return;
    nc->dirty = true;
    nc->next_dirty = net->dirty;
    net->dirty = nc;
}

int net_send(struct netconn *nc, const void *p, size_t n)
{
    if (nc->dead)
        return -EPIPE;
    make_dirty(nc);
    return channel_send(&nc->ch, p, n);
}

static void net_conn_read(struct netconn *nc)
{
    ssize_t n = recv(nc->src.fd, loop.scratch, SCRATCH_BYTES, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        conn_broken(nc, n < 0         ? strerror(errno)
                        : nc->shaking ? "it left before it identified itself"
                                      : "it closed the connection");
        return;
    }
    if (channel_input(&nc->ch, loop.scratch, (size_t)n, &channel_ops, nc) != 0)
        conn_broken(nc, nc->ch.why);
    else
        make_dirty(nc);
}

static void on_net_event(void *of, struct source *src, uint32_t events)
{
    struct netconn *nc = (struct netconn *)src;
    int err = 0;
    socklen_t len = sizeof(err);

    if (nc->connecting) {
        if (getsockopt(nc->src.fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 || err) {
            conn_broken(nc, strerror(err ? err : errno));
            return;
        }
        if (!(events & EPOLLOUT))
            return;
        nc->connecting = false;
        give_time(nc, net_timeout(nc->net));
    }
    if (events & EPOLLOUT)
        net_conn_flush(nc);
    if (!nc->dead && nc->full && has_room(nc)) {
        nc->full = false;
        nc->net->ops->room(nc->net->of, nc);
        make_dirty(nc);
    }
    if (!nc->dead && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        net_conn_read(nc);
}

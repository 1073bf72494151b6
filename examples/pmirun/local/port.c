/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PMI_PORT: ranks connect to a TCP port of the loopback interface and identify themselves by
 * PMI_ID.
 *
 * Any user of this machine can connect to the port, so two things are checked: that the peer's
 * socket belongs to our user (or root), and that its id is one that we gave out. An id is a random
 * number of 31 bits, passed to its rank in the environment alone, valid for one connection.
 *
 * A wrong id is refused and its connection closed. Our own user's processes may try any number of
 * ids, since they could do worse: the job continues. Where the kernel does not say who owns a
 * connection, MAX_BAD_IDS wrong ids close the port, so that no id can be found by trying.
 */
#define _GNU_SOURCE
#include "port.h"

#include "job.h"
#include "pmi.h"

#include <errno.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MAX_BAD_IDS    64u   /* from unknown users: then the port is closed */
#define MAX_UNKNOWN    1024u /* connections that have not said who they are */
#define MAX_COMPLAINTS 8u    /* lines about them */

/* ---- ids ---- */

static struct rank *rank_by_token(const struct jobs *jobs, uint32_t token)
{
    for (const struct job *job = jobs->first; job; job = job->next)
        for (uint32_t i = 0; i < job->n_local; i++)
            if (job->ranks[i].token == token)
                return &job->ranks[i];
    return NULL;
}

void port_assign(const struct jobs *jobs, struct rank *r)
{
    uint32_t token;

    do
        token = random_u32() & 0x7fffffffu;
    while (token == 0 || rank_by_token(jobs, token));
    r->token = token;
}

int port_identify(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid, uint32_t *job,
                  int32_t *rank)
{
    struct port *port = ((struct pmi *)ctx)->port;
    struct conn *c = cookie;
    struct rank *r = pmiid > 0 ? rank_by_token(port->pmi->jobs, (uint32_t)pmiid) : NULL;

    if (!r || r->token_used || r->state != RANK_RUNNING) {
        if (!c->is_ours && ++port->n_bad_ids == MAX_BAD_IDS && port->listener.fd >= 0) {
            log_message("closing the PMI port: too many connections with a wrong PMI_ID, and the "
                        "kernel does not report their owners");
            loop_close(&port->listener);
        }
        return PMIWIRE_ENOENT;
    }
    r->token_used = true;
    r->conn = c;
    c->rank = r;
    port->n_unknown--;
    *job = r->job->id;
    *rank = (int32_t)r->number;
    return 0;
}

bool port_may_complain(struct port *port)
{
    uint64_t n = ++port->n_complaints, shown = 100;

    if (n <= MAX_COMPLAINTS)
        return true;
    if (n == MAX_COMPLAINTS + 1)
        log_message("further errors of unidentified clients are only counted");
    while (shown < n)
        shown *= 10;
    if (shown == n)
        log_message("%llu errors of unidentified clients", (unsigned long long)n);
    return false;
}

/* ---- whose socket is it? ---- */

#define OWNER_UNKNOWN (-1) /* the kernel does not tell */
#define OWNER_GONE    (-2) /* closed already: the kernel then reports user 0 for any user */

/* The owner of the local TCP socket addr, connected to our port: a user, or OWNER_*. */
static int64_t socket_owner(const struct port *port, const struct sockaddr_in *addr)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 req;
    } q = {.head = {.nlmsg_len = sizeof(q),
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST}};
    union {
        struct nlmsghdr head;
        char bytes[2048];
    } a;
    const struct inet_diag_msg *m;
    ssize_t n;

    if (port->diag_fd < 0)
        return OWNER_UNKNOWN;
    q.req.sdiag_family = AF_INET;
    q.req.sdiag_protocol = IPPROTO_TCP;
    q.req.idiag_states = ~0u;
    q.req.id.idiag_sport = addr->sin_port;
    q.req.id.idiag_src[0] = addr->sin_addr.s_addr;
    q.req.id.idiag_dport = htons(port->number);
    q.req.id.idiag_dst[0] = htonl(INADDR_LOOPBACK);
    q.req.id.idiag_cookie[0] = q.req.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (send(port->diag_fd, &q, sizeof(q), 0) != (ssize_t)sizeof(q))
        return OWNER_UNKNOWN;
    n = recv(port->diag_fd, &a, sizeof(a), MSG_DONTWAIT); /* the kernel answers within send() */
    if (n < (ssize_t)(NLMSG_HDRLEN + sizeof(struct inet_diag_msg)) ||
        a.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return OWNER_UNKNOWN;
    m = NLMSG_DATA(&a.head);
    return m->idiag_inode ? (int64_t)m->idiag_uid : OWNER_GONE;
}

/* is_ours: from the kernel. If the kernel does not report it, the id alone decides. */
static bool admit_peer(struct port *port, const struct sockaddr_in *addr, bool *is_ours)
{
    int64_t owner;

    if (addr->sin_family != AF_INET || addr->sin_addr.s_addr != htonl(INADDR_LOOPBACK) ||
        port->n_unknown >= MAX_UNKNOWN)
        return false;
    owner = socket_owner(port, addr);
    if (owner == OWNER_GONE)
        return false;
    if (owner > 0 && (uint64_t)owner != geteuid()) {
        if (port_may_complain(port))
            log_message("a connection from user %lld is refused", (long long)owner);
        return false;
    }
    *is_ours = owner >= 0;
    return true;
}

static void on_port_connection(void *of, struct source *src, uint32_t events)
{
    struct port *port = of;
    for (int i = 0; i < 64 && src->fd >= 0; i++) {
        struct sockaddr_in addr = {0};
        socklen_t len = sizeof(addr);
        int fd = accept4(src->fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK),
            one = 1, err;
        bool is_ours = false;
        struct conn *c;

        if (fd < 0)
            return;
        if (!admit_peer(port, &addr, &is_ours)) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        c = pmi_new_conn(port->pmi, fd, 0, PMIWIRE_RANK_UNKNOWN, &err);
        if (!c) {
            if (port_may_complain(port))
                log_message("cannot accept a connection: %s", pmiwire_strerror(err));
            close(fd);
            continue;
        }
        c->is_ours = is_ours;
        port->n_unknown++;
    }
}

int port_init(struct port *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) != 0) {
        int err = -errno;

        close(fd);
        return err;
    }
    port->number = ntohs(addr.sin_port);
    port->diag_fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    return loop_open(&port->listener, on_port_connection, port, fd, EPOLLIN);
}

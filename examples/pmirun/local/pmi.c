/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' PMI connections: moves bytes between sockets and the server engine, and handles the
 * engine's callbacks. */
#define _GNU_SOURCE
#include "pmi.h"

#include "exchange.h"
#include "gather.h"
#include "host.h"
#include "pmirun.h"
#include "spawn.h"
#include "table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_NS   (NS_PER_S / 2)
#define MAX_DIAGS 8u /* lines about one connection */

/* ---- what the engine tells us ---- */

static void on_pmi_ready(void *ctx, struct pmiwire_conn *conn, void *cookie)
{
    struct pmirun *pr = ctx;
    struct conn *c = cookie;

    if (c->queued || c->src.fd < 0)
        return;
    c->queued = true;
    c->next = pr->conns.ready;
    pr->conns.ready = c;
}

static void on_diag(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    struct pmirun *pr = ctx;
    struct conn *c = who->cookie;

    /* job.c judges the end of a connection when its process has ended. */
    if (code == PMIWIRE_EEOF || pr->stopping || (c && c->n_diags > MAX_DIAGS))
        return;
    if (c && !c->rank && !port_may_complain(pr))
        return;
    if (c && c->n_diags++ == MAX_DIAGS)
        say(pr, "rank %d: its further PMI errors are not shown", (int)who->rank);
    else
        say(pr, "%s", text);
}

static void on_pmi_state(void *ctx, const struct pmiwire_peer *who, uint32_t state)
{
    struct pmirun *pr = ctx;
    struct conn *c = who->cookie;

    if (c && c->rank)
        job_rank_state(pr, c->rank, state);
}

static void on_pmi_abort(void *ctx, const struct pmiwire_peer *who, int32_t exitcode,
                         struct pmiwire_str message)
{
    struct pmirun *pr = ctx;
    struct conn *c = who->cookie;
    char text[256];
    size_t n = 0;

    for (size_t i = 0; i < message.len && n < sizeof(text) - 1; i++) /* it goes to a terminal */
        text[n++] = message.ptr[i] >= 32 && message.ptr[i] < 127 ? message.ptr[i] : '?';
    text[n] = '\0';
    if (c && c->rank)
        job_rank_aborted(pr, c->rank, exitcode, text);
}

static void on_pmi_stuck(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why)
{
    job_stuck(ctx, who->job_cookie, (uint32_t)who->rank, coll, why);
}

static void on_waits(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t begins)
{
    const struct conn *c = who->cookie;

    if (c && c->rank)
        timeline_rank(ctx, c->rank, begins ? TIMELINE_ENTER : TIMELINE_LEAVE, coll);
}

void pmi_tick(struct pmirun *pr)
{
    pmiwire_server_tick(pr->server, pr->now_ns);
    host_tick(pr);
    timer_set(pr, &pr->tick, pr->now_ns + TICK_NS, pmi_tick);
}

int pmi_init(struct pmirun *pr)
{
    struct pmiwire_server_ops ops = {
        .size = sizeof(ops),
        .ready = on_pmi_ready,
        .diag = on_diag,
        .identify = port_identify,
        .state = on_pmi_state,
        .abort = on_pmi_abort,
        .spawn = spawn_request,
        .put = table_on_put,
        .find = table_on_find,
        .merge = table_on_merge,
        .fenced = table_on_fenced,
        .stuck = on_pmi_stuck,
        .failed = exchange_on_failed,
    };
    struct pmiwire_server_opts opts = {.size = sizeof(opts)};
    int rc;

    if (pr->agent && pr->opt.n_nodes > 1) {
        ops.send = exchange_on_send;
        ops.name = agent_ask_name;
    }
    if (pr->timeline.on)
        ops.waits = on_waits;
    if (!pr->opt.no_shm)
        ops.gather = gather_on_values;
    opts.ops = &ops;
    opts.ctx = pr;
    opts.stall_ns = (uint64_t)(pr->opt.stall_s * 1e9);
    opts.wait_ns = (uint64_t)(pr->opt.get_s * 1e9);
    if (pr->opt.pmi_1_2)
        opts.flags |= PMIWIRE_SERVER_PMI_1_2;
    rc = pmiwire_server_create(&opts, &pr->server);
    if (rc == 0)
        timer_set(pr, &pr->tick, pr->now_ns, pmi_tick);
    return rc;
}

/* ---- connections ---- */

static void on_pmi_event(struct pmirun *pr, struct source *src, uint32_t events);

struct conn *pmi_new_conn(struct pmirun *pr, int fd, uint32_t job, int32_t rank, int *err)
{
    struct conn *c = calloc(1, sizeof(*c));

    *err = -ENOMEM;
    if (!c)
        return NULL;
    c->src = (struct source){on_pmi_event, fd};
    *err = loop_add(pr, &c->src, EPOLLIN);
    if (*err == 0) {
        *err = pmiwire_server_accept(pr->server, job, rank, c, &c->pmi);
        if (*err == 0) {
            pr->conns.n++;
            return c;
        }
        loop_del(pr, &c->src);
    }
    free(c);
    return NULL;
}

int pmi_attach(struct pmirun *pr, struct rank *r, int fd)
{
    int err;

    r->conn = pmi_new_conn(pr, fd, r->job->id, (int32_t)r->number, &err);
    if (!r->conn) {
        close(fd);
        return err;
    }
    r->conn->rank = r;
    return 0;
}

static void close_conn(struct pmirun *pr, struct conn *c)
{
    if (c->src.fd < 0)
        return;
    pmiwire_conn_close(c->pmi);
    loop_close(pr, &c->src);
    pr->conns.n--;
    if (c->rank)
        c->rank->conn = NULL;
    else
        pr->port.n_unknown--;
    if (!c->queued) { /* else it is in pr->conns.ready, and pmi_flush_ready() moves it */
        c->next = pr->conns.grave;
        pr->conns.grave = c;
    }
    if (c->rank)
        job_rank_closed(pr, c->rank);
}

/* Events of this batch may still point to connections closed in it; they are freed afterwards. */
void pmi_free_closed(struct pmirun *pr)
{
    while (pr->conns.grave) {
        struct conn *c = pr->conns.grave;

        pr->conns.grave = c->next;
        free(c);
    }
}

/* Sends bytes, with the descriptor of the shared memory that they announce. */
static ssize_t send_descriptor(int sock, const void *p, size_t n, int fd)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {(void *)(uintptr_t)p, n};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *h = CMSG_FIRSTHDR(&msg);

    memset(&control, 0, sizeof(control));
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &fd, sizeof(int));
    return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The next descriptor to send to this client, and the flag to set when it is sent; -1: none. */
static int descriptor_due(const struct options *opt, const struct conn *c, bool *table_sent,
                          uint32_t *n_arrays)
{
    struct pmiwire_info_conn info;
    int fd;

    *table_sent = true;
    *n_arrays = c->n_arrays;
    pmiwire_conn_query(c->pmi, &info);
    if (!c->rank || opt->use_port || !info.has_extensions) {
        *table_sent = c->table_sent;
        return -1;
    }
    if (!c->table_sent)
        return table_fd(c->rank->job);
    fd = gather_fd(c->rank->job, n_arrays);
    return *n_arrays != c->n_arrays ? fd : -1;
}

static ssize_t send_some(const struct options *opt, struct conn *c, const void *p, size_t n)
{
    uint32_t n_arrays;
    bool table_sent;
    int fd = descriptor_due(opt, c, &table_sent, &n_arrays);
    ssize_t w = -1;

    if (fd >= 0) {
        w = send_descriptor(c->src.fd, p, n, fd);
        if (w < 0 && (errno == EAGAIN || errno == EINTR))
            return w;
        /* Another error, such as too many descriptors in flight: this client gets pairs by socket.
         */
    }
    c->table_sent = table_sent;
    c->n_arrays = n_arrays;
    return w > 0 ? w : send(c->src.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Writes the queued bytes. Returns how many remain. */
static size_t conn_write(struct pmirun *pr, struct conn *c)
{
    const void *p;
    size_t n;

    while ((n = pmiwire_conn_output(c->pmi, &p)) > 0) {
        ssize_t w = send_some(&pr->opt, c, p, n);

        if (w > 0) {
            pmiwire_conn_sent(c->pmi, (size_t)w);
        } else if (w < 0 && errno == EINTR) {
            continue;
        } else if (w < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
            /* The client is gone; pmirun still reads its earlier bytes, then the end. If the client
             * lives all the same, it must not wait for an answer. */
            if (errno != EPIPE && errno != ECONNRESET)
                say(pr, "cannot answer rank %d: %s", c->rank ? (int)c->rank->number : -1,
                    strerror(errno));
            shutdown(c->src.fd, SHUT_WR);
            pmiwire_conn_sent(c->pmi, n);
        } else {
            break;
        }
    }
    return n;
}

void pmi_send_answers(struct pmirun *pr, const struct job *job)
{
    for (uint32_t i = 0; i < job->n_local; i++)
        if (job->ranks[i].conn)
            conn_write(pr, job->ranks[i].conn);
}

/* Writes the queued bytes; closes a FAILED connection when they are written or cannot be. */
static void pmi_conn_flush(struct pmirun *pr, struct conn *c)
{
    const size_t n = conn_write(pr, c);
    struct pmiwire_info_conn info;

    pmiwire_conn_query(c->pmi, &info);
    if (info.state == PMIWIRE_CONN_FAILED) {
        trace(pr, "connection of rank %d closed: %s", c->rank ? (int)c->rank->number : -1,
              pmiwire_strerror(info.error));
        close_conn(pr, c);
    } else if ((n > 0) != c->armed) {
        loop_mod(pr, &c->src, n > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
        c->armed = n > 0;
    }
}

/* False: no more to read now, and the connection may be closed. */
static bool pmi_conn_read(struct pmirun *pr, struct conn *c)
{
    ssize_t n = recv(c->src.fd, pr->scratch, SCRATCH_BYTES, MSG_DONTWAIT);

    if (n > 0) {
        pmiwire_conn_input(c->pmi, pr->scratch, (size_t)n);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (c->rank && c->rank->pmi_state == PMIWIRE_CONN_INITED)
        job_rank_state(pr, c->rank, PMIWIRE_CONN_FAILED);
    close_conn(pr, c);
    return false;
}

static void on_pmi_event(struct pmirun *pr, struct source *src, uint32_t events)
{
    struct conn *c = (struct conn *)src;

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !pmi_conn_read(pr, c))
        return;
    pmi_conn_flush(pr, c);
}

void pmi_read_all(struct pmirun *pr, struct rank *r)
{
    struct conn *c = r->conn;
    struct pmiwire_info_conn info;

    while (c && c->src.fd >= 0 && pmi_conn_read(pr, c)) {
        pmiwire_conn_query(c->pmi, &info);
        if (info.state == PMIWIRE_CONN_FAILED)
            break;
    }
}

void pmi_drain(struct pmirun *pr, struct rank *r)
{
    pmi_read_all(pr, r);
    if (r->conn)
        close_conn(pr, r->conn);
}

void pmi_flush_ready(struct pmirun *pr)
{
    while (pr->conns.ready) {
        struct conn *c = pr->conns.ready;

        pr->conns.ready = c->next;
        c->queued = false;
        if (c->src.fd >= 0) {
            if (!c->armed)
                pmi_conn_flush(pr, c);
        } else {
            c->next = pr->conns.grave;
            pr->conns.grave = c;
        }
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' PMI connections: moves bytes between sockets and the server engine, and handles the
 * engine's callbacks. */
#define _GNU_SOURCE
#include "pmi.h"

#include "job.h"
#include "job_end.h"
#include "port.h"
#include "role.h"
#include "spawn.h"
#include "table.h"
#include "timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <pmiwire/mapping.h>

#define TICK_NS   (NS_PER_S / 2)
#define MAX_DIAGS 8u /* lines about one connection */
/* Pieces of SCRATCH_BYTES that a rank may have left in its socket, far more than one holds: another
 * process that has the connection may write without end. */
#define LAST_READS 256u

/* ---- what the engine tells us ---- */

static void on_pmi_ready(void *ctx, struct pmiwire_conn *conn, void *cookie)
{
    struct pmi *pmi = ctx;
    struct conn *c = cookie;

    if (c->queued || c == pmi->served || c->src.fd < 0)
        return;
    c->queued = true;
    c->next = NULL;
    *(pmi->ready ? &pmi->last_ready->next : &pmi->ready) = c;
    pmi->last_ready = c;
}

static void on_diag(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    struct pmi *pmi = ctx;
    struct conn *c = who->cookie;

    /* job_end.c decides about the end of a connection when its process has ended. */
    if (code == PMIWIRE_EEOF || pmi->jobs->stopping || (c && c->n_diags > MAX_DIAGS))
        return;
    if (c && !c->rank && !port_may_complain(pmi->port))
        return;
    if (c && c->n_diags++ == MAX_DIAGS)
        log_message("rank %d: its further PMI errors are not shown", (int)who->rank);
    else
        log_message("%s", text);
}

static void on_pmi_state(void *ctx, const struct pmiwire_peer *who, uint32_t state)
{
    struct conn *c = who->cookie;

    if (c)
        pmiwire_conn_query(c->wire, &c->info);
    if (c && c->rank)
        job_rank_state(c->rank, state);
}

static void on_pmi_abort(void *ctx, const struct pmiwire_peer *who, int32_t exitcode,
                         struct pmiwire_str message)
{
    struct conn *c = who->cookie;
    char text[256];
    size_t n = 0;

    for (size_t i = 0; i < message.len && n < sizeof(text) - 1; i++) /* it goes to a terminal */
        text[n++] = message.ptr[i] >= 32 && message.ptr[i] < 127 ? message.ptr[i] : '?';
    text[n] = '\0';
    if (c && c->rank)
        job_rank_aborted(c->rank, exitcode, text);
}

static int on_pmi_spawn(void *ctx, const struct pmiwire_peer *who, const struct pmiwire_spawn *req,
                        uint64_t token)
{
    const struct conn *c = who->cookie;

    return c && c->rank ? spawn_for(c->rank, req, token) : -EINVAL;
}

static void on_pmi_stuck(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t why)
{
    job_stuck(who->job_cookie, (uint32_t)who->rank, coll, why);
}

static void on_waits(void *ctx, const struct pmiwire_peer *who, uint32_t coll, uint32_t begins)
{
    struct pmi *pmi = ctx;
    const struct conn *c = who->cookie;

    if (c && c->rank)
        timeline_rank(pmi->jobs->timeline, c->rank, begins ? TIMELINE_ENTER : TIMELINE_LEAVE, coll);
}

/* ---- other nodes ---- */

static int on_send(void *ctx, const struct pmiwire_peer *peer, uint32_t node,
                   const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    const struct job *job = peer->job_cookie;

    return agent_send_frame(job->jobs->agent, false, node, job->number, iov, n_iov);
}

static int on_name(void *ctx, const struct pmiwire_peer *who, uint32_t what,
                   struct pmiwire_str service, struct pmiwire_str port, uint64_t token)
{
    const struct job *job = who->job_cookie;

    agent_request_name(job->jobs->agent, token, job->number, what, service, port);
    return PMIWIRE_PENDING;
}

static void on_failed(void *ctx, const struct pmiwire_peer *peer, int rc, uint32_t node)
{
    struct jobs *jobs = ((struct pmi *)ctx)->jobs;

    if (rc == PMIWIRE_ELOST && jobs->agent && node != agent_node(jobs->agent)) {
        agent_report_lost(jobs->agent, node, "it is gone");
        return;
    }
    log_message("the key-value exchange has failed: %s; stopping the job", pmiwire_strerror(rc));
    job_stop(jobs, STATUS_RESOURCES);
}

/* ---- the engine ---- */

static void pmi_tick(void *of)
{
    struct pmi *pmi = of;

    pmiwire_server_tick(pmi->server, loop.now_ns);
    timer_call(&pmi->tick, loop.now_ns + TICK_NS, pmi_tick, pmi);
}

int pmi_init(struct pmi *pmi)
{
    struct pmiwire_server_ops ops = {
        .size = sizeof(ops),
        .ready = on_pmi_ready,
        .diag = on_diag,
        .identify = port_identify,
        .state = on_pmi_state,
        .abort = on_pmi_abort,
        .spawn = on_pmi_spawn,
        .put = table_on_put,
        .find = table_on_find,
        .merge = table_on_merge,
        .fenced = table_on_fenced,
        .stuck = on_pmi_stuck,
        .failed = on_failed,
    };
    struct pmiwire_server_opts opts = {.size = sizeof(opts)};
    int rc;

    if (pmi->jobs->agent && pmi->jobs->opt->n_nodes > 1) {
        ops.send = on_send;
        ops.name = on_name;
    }
    if (pmi->jobs->timeline->on)
        ops.waits = on_waits;
    if (!pmi->jobs->opt->no_shm)
        ops.gather = gather_on_values;
    opts.ops = &ops;
    opts.ctx = pmi;
    opts.stall_ns = (uint64_t)(pmi->jobs->opt->stall_s * 1e9);
    opts.wait_ns = (uint64_t)(pmi->jobs->opt->get_s * 1e9);
    if (pmi->jobs->opt->pmi_1_2)
        opts.flags |= PMIWIRE_SERVER_PMI_1_2;
    rc = pmiwire_server_create(&opts, &pmi->server);
    if (rc == 0)
        timer_call(&pmi->tick, loop.now_ns, pmi_tick, pmi);
    return rc;
}

/* ---- jobs ---- */

/* PMI_process_mapping: also in the shared table, so that no rank asks for it by socket. Without it
 * MPICH compares host names, so failing is harmless. */
static void set_mapping(struct job *job)
{
    const struct pmiwire_str key = pmiwire_strz("PMI_process_mapping");
    uint32_t *zeros = job->node_of ? NULL : xzalloc(job->n_ranks * sizeof(*zeros));
    char text[PMIWIRE_MAPPING_MPICH40_BYTES + 1];

    if (pmiwire_mapping_encode(zeros ? zeros : job->node_of, job->n_ranks, PMIWIRE_MAPPING_CLASSIC,
                               sizeof(text) - 1, text, sizeof(text)) > 0) {
        pmiwire_server_job_attr(job->server, job->id, key, pmiwire_strz(text));
        if (job->table && table_put(job, key, pmiwire_strz(text)) == 0)
            table_publish(job);
    }
    free(zeros);
}

/* The program of each rank, by the order of the groups. */
static uint32_t *number_apps(const struct job *job)
{
    uint32_t *appnum = xrealloc(NULL, job->n_ranks * sizeof(*appnum));

    for (uint32_t i = 0, k = 0; i < job->n_apps; i++)
        for (uint32_t j = 0; j < job->apps[i].n_procs; j++)
            appnum[k++] = i;
    return appnum;
}

int pmi_add_job(struct pmi *pmi, struct job *job)
{
    static const uint16_t fields[] = {PMIWIRE_EXT_SERVER, PMIWIRE_EXT_EXCHANGE, PMIWIRE_EXT_BYTES};
    const struct jobs *jobs = pmi->jobs;
    uint32_t *appnum = number_apps(job);
    struct pmiwire_job_opts opts = {.size = sizeof(opts)};
    int rc;

    opts.kvsname = job->kvsname;
    opts.n_ranks = job->n_ranks;
    opts.number = job->number;
    opts.node = jobs->agent ? agent_node(jobs->agent) : 0;
    opts.node_of = job->node_of;
    opts.design = jobs->opt->design;
    opts.universe_size = jobs->opt->universe_size;
    opts.appnum = appnum;
    opts.spawner_jobid = job->spawner;
    opts.cookie = job;
    rc = pmiwire_server_job_add(pmi->server, &opts, &job->id);
    free(appnum);
    if (rc != 0)
        return rc;
    job->server = pmi->server;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]) && rc == 0; i++)
        rc = pmiwire_server_advertise(pmi->server, job->id, fields[i], pmiwire_strz("1"));
    if (rc != 0) {
        pmiwire_server_job_remove(pmi->server, job->id);
        return rc;
    }
    table_create(job);
    set_mapping(job);
    return 0;
}

void pmi_remove_job(struct job *job)
{
    if (job->server) /* else it could not be added */
        pmiwire_server_job_remove(job->server, job->id);
    table_destroy(job);
}

/* ---- connections ---- */

static void close_conn(struct pmi *pmi, struct conn *c)
{
    if (c->src.fd < 0)
        return;
    pmiwire_conn_close(c->wire);
    loop_close(&c->src);
    pmi->n_conns--;
    if (c->rank)
        c->rank->conn = NULL;
    else
        pmi->port->n_unknown--;
    if (!c->queued) { /* else it is in pmi->ready, and pmi_flush_ready() moves it */
        c->next = pmi->closed;
        pmi->closed = c;
    }
}

/* Events of this batch may still point to connections closed in it; they are freed afterwards. */
void pmi_free_closed(struct pmi *pmi)
{
    while (pmi->closed) {
        struct conn *c = pmi->closed;

        pmi->closed = c->next;
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

/* Sends bytes, and the next descriptor that this client is to get: of its job's table, then of each
 * Allgather. If that cannot be sent, by too many in flight for example, it gets pairs by socket. */
static ssize_t send_some(const struct options *opt, struct conn *c, const void *p, size_t n)
{
    uint32_t n_arrays = c->n_arrays;
    ssize_t w = -1;
    int fd;

    if (c->rank && !opt->use_port && c->info.has_extensions) {
        fd = c->table_sent ? gather_fd(c->rank->job, &n_arrays) : table_fd(c->rank->job);
        if (c->table_sent && n_arrays == c->n_arrays)
            fd = -1; /* it has this one */
        if (fd >= 0) {
            w = send_descriptor(c->src.fd, p, n, fd);
            if (w < 0 && (errno == EAGAIN || errno == EINTR))
                return w;
        }
        c->table_sent = true;
        c->n_arrays = n_arrays;
    }
    return w > 0 ? w : send(c->src.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Writes the queued bytes. Returns how many remain. */
static size_t conn_write(const struct options *opt, struct conn *c)
{
    const void *p;
    size_t n;

    while ((n = pmiwire_conn_output(c->wire, &p)) > 0) {
        ssize_t w = send_some(opt, c, p, n);

        if (w > 0) {
            pmiwire_conn_sent(c->wire, (size_t)w);
        } else if (w < 0 && errno == EINTR) {
            continue;
        } else if (w < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
            /* The client is gone; pmirun still reads its earlier bytes, then the end. If the client
             * lives all the same, it must not wait for an answer. */
            if (errno != EPIPE && errno != ECONNRESET)
                log_message("cannot answer rank %d: %s", c->rank ? (int)c->rank->number : -1,
                            strerror(errno));
            shutdown(c->src.fd, SHUT_WR);
            pmiwire_conn_sent(c->wire, n);
        } else {
            break;
        }
    }
    return n;
}

void pmi_send_answers(const struct job *job)
{
    for (uint32_t i = 0; i < job->n_local; i++)
        if (job->ranks[i].conn)
            conn_write(job->jobs->opt, job->ranks[i].conn);
}

/* Writes the queued bytes; closes a FAILED connection when they are written or cannot be. */
static void pmi_conn_flush(struct pmi *pmi, struct conn *c)
{
    const size_t n = conn_write(pmi->jobs->opt, c);

    if (c->info.state == PMIWIRE_CONN_FAILED) {
        log_verbose("connection of rank %d closed: %s", c->rank ? (int)c->rank->number : -1,
                    pmiwire_strerror(c->info.error));
        close_conn(pmi, c);
    } else {
        (void)loop_add(&c->src, n > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

/* False: no more to read now, and the connection may be closed. */
static bool pmi_conn_read(struct pmi *pmi, struct conn *c)
{
    ssize_t n = recv(c->src.fd, loop.scratch, SCRATCH_BYTES, MSG_DONTWAIT);

    if (n > 0) {
        pmiwire_conn_input(c->wire, loop.scratch, (size_t)n);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (c->rank && c->rank->pmi_state == PMIWIRE_CONN_INITED)
        job_rank_state(c->rank, PMIWIRE_CONN_FAILED);
    close_conn(pmi, c);
    return false;
}

static void on_pmi_event(void *of, struct source *src, uint32_t events)
{
    struct pmi *pmi = of;
    struct conn *c = (struct conn *)src;
    bool open = true;

    pmi->served = c;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        open = pmi_conn_read(pmi, c);
    pmi->served = NULL;
    if (open)
        pmi_conn_flush(pmi, c);
}

struct conn *pmi_new_conn(struct pmi *pmi, int fd, uint32_t job, int32_t rank, int *err)
{
    struct conn *c = xzalloc(sizeof(*c));

    *err = loop_open(&c->src, on_pmi_event, pmi, fd, EPOLLIN);
    if (*err == 0) {
        *err = pmiwire_server_accept(pmi->server, job, rank, c, &c->wire);
        if (*err == 0) {
            pmi->n_conns++;
            return c;
        }
        loop_del(&c->src);
    }
    free(c);
    return NULL;
}

int pmi_attach(struct rank *r, int fd)
{
    int err;

    r->conn = pmi_new_conn(r->job->jobs->pmi, fd, r->job->id, (int32_t)r->number, &err);
    if (!r->conn) {
        close(fd);
        return err;
    }
    r->conn->rank = r;
    return 0;
}

void pmi_read_all(struct rank *r)
{
    struct pmi *pmi = r->job->jobs->pmi;
    struct conn *c = r->conn;

    for (unsigned i = 0; i < LAST_READS && c && c->src.fd >= 0 && pmi_conn_read(pmi, c); i++)
        if (c->info.state == PMIWIRE_CONN_FAILED)
            break;
}

void pmi_drain(struct rank *r)
{
    pmi_read_all(r);
    if (r->conn)
        close_conn(r->job->jobs->pmi, r->conn);
}

void pmi_rank_ended(struct rank *r)
{
    pmi_drain(r); /* its last message may still be in the socket: finalize, or an abort */
    pmiwire_server_rank_ended(r->job->jobs->pmi->server, r->job->id, r->number);
}

void pmi_flush_ready(struct pmi *pmi)
{
    while (pmi->ready) {
        struct conn *c = pmi->ready;

        pmi->ready = c->next;
        c->queued = false;
        if (c->src.fd >= 0) {
            if (!(c->src.events & EPOLLOUT)) /* else it waits for room */
                pmi_conn_flush(pmi, c);
        } else {
            c->next = pmi->closed;
            pmi->closed = c;
        }
    }
}

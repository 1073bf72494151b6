/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An agent's life. It reads from stdin its number and its head's addresses (starter.c), connects
 * there, and reports its own address for other agents. From then on the head sends orders over that
 * connection (orders.c), and the agent reports the events of its ranks. If the connection breaks,
 * or stdin ends, the head is gone: the agent ends its ranks and exits.
 *
 * When a job begins, each agent connects to its neighbours in the job's tree; to other agents when
 * it first sends to them.
 */
#define _GNU_SOURCE
#include "agent.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <pmiwire/exchange.h>

#include "../local/host.h"
#include "../local/job_end.h"
#include "../local/launch.h"
#include "../local/pmirun.h"
#include "job_message.h"
#include "step.h"

#define EARLY_BYTES (256u << 20) /* of frames for jobs not announced yet */

uint32_t agent_node(const struct agent *a)
{
    return a->node;
}

/* ---- the lines on stdin ---- */

/* Reads all lines up to "end". Exits if one is missing. */
static void read_boot(char *text, size_t cap)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = read(STDIN_FILENO, text + len, cap - 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            die(STATUS_NODE,
                "agent: no job on stdin: pmirun starts agents, they cannot be started by hand");
        len += (size_t)n;
        text[len] = '\0';
        if (strstr(text, "\nend\n"))
            return;
        if (len == cap - 1)
            die(STATUS_NODE, "agent: the job on stdin is too long");
    }
}

static bool parse_hex(const char *text, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++, text += 2)
        if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) ||
            sscanf(text, "%2hhx", &out[i]) != 1)
            return false;
    return !*text;
}

static bool parse_u32(const char *text, uint32_t *v)
{
    return read_number(&text, UINT32_MAX - 1, v) && !*text;
}

static bool parse_node(struct agent *a, const char *text)
{
    const char *id = strcmp(text, "srun") == 0 ? getenv("SLURM_PROCID") : text;

    if (a->step) /* whose arguments had it */
        return strcmp(text, "step") == 0;
    return id && parse_u32(id, &a->node);
}

static bool split_addresses(const char *text, struct agent *a)
{
    char *list = xprintf("%.*s", (int)strcspn(text, "\n"), text), *save = NULL;
    uint32_t n = 0;

    for (char *w = strtok_r(list, " ", &save); w; w = strtok_r(NULL, " ", &save))
        strings_add(&a->addresses, &n, w);
    return n > 0;
}

/* The lines are boot_lines() of starter.c, in that order. */
static void parse_boot(struct agent *a, const char *text)
{
    struct channel_self *self = &a->net.self;
    char version[32], job[2 * CHANNEL_JOB_BYTES + 1], secret[2 * CHANNEL_SECRET_BYTES + 1],
        node[16], try[16], nodes[16], silence[16], to[16];
    uint32_t port = 0, silence_ms = 0;
    int head_at = 0;
    const int n = sscanf(text,
                         "pmirun-agent %31[^\n]\njob %32s\nsecret %64s\nnode %15s\ntry %15s\nnodes "
                         "%15s\nsilence %15s\nport %15s\nhead%n",
                         version, job, secret, node, try, nodes, silence, to, &head_at);

    if (n >= 1 && strcmp(version, BOOT_VERSION) != 0)
        die(STATUS_NODE,
            "agent: its version differs from the head's (which sent %.20s, not %s): install the "
            "same pmirun on all hosts",
            version, BOOT_VERSION);
    if (!head_at || text[head_at] != ' ' || !parse_hex(job, self->job, sizeof(self->job)) ||
        !parse_hex(secret, self->secret, sizeof(self->secret)) || !parse_node(a, node) ||
        !parse_u32(try, &a->try) || !parse_u32(nodes, &a->n_nodes) ||
        !parse_u32(silence, &silence_ms) || !parse_u32(to, &port) || a->node >= a->n_nodes ||
        port == 0 || port > 65535 || !split_addresses(text + head_at, a))
        die(STATUS_NODE, "agent: unexpected data on stdin: does a command that the login runs read "
                         "stdin, as in ~/.bashrc?");
    explicit_bzero(secret, sizeof(secret));
    a->head_port = (uint16_t)port;
    a->opt->node_s = silence_ms / 1e3;
    self->id = a->node;
}

/* ---- the head ---- */

static void next_address(struct agent *a, const char *why)
{
    const char *address = a->next ? a->addresses[a->next - 1] : "", *first = why;
    int err;

    while (a->addresses[a->next]) {
        address = a->addresses[a->next++];
        a->head =
            net_dial(&a->net, address, a->head_port, CHANNEL_HEAD, a->addresses[a->next], &err);
        if (a->head)
            return;
        first = strerror(-err);
    }
    die(STATUS_NODE, "agent: cannot reach the head at %s:%u: %s", address, a->head_port,
        first ? first : "no address");
}

static void on_boot(void *of, struct source *src, uint32_t events);

/* True if the other end of this pipe or socket is closed; no data is left in it. */
static bool is_at_end(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c;

    return poll(&p, 1, 0) == 1 && read(fd, &c, 1) == 0;
}

static void start_agent(struct agent *a)
{
    char *text = xrealloc(NULL, BOOT_BYTES);
    const char *slurm = getenv("SLURMD_NODENAME"), *more;

    read_boot(text, BOOT_BYTES);
    more = strstr(text, "\nend\n") + 5;
    if (a->step)
        step_told(a, more, strlen(more));
    parse_boot(a, text);
    explicit_bzero(text, BOOT_BYTES);
    free(text);
    snprintf(a->name, sizeof(a->name), "%s", slurm ? slurm : own_host());
    a->opt->n_nodes = a->n_nodes;
    a->early_tail = &a->early;
    if (loop_open(&a->boot, on_boot, a, STDIN_FILENO, EPOLLIN) != 0)
        a->boot.fd = -1; /* a file: only the connection shows that the head is gone */
    else if (!a->step && is_at_end(STDIN_FILENO)) /* in a step slurmstepd writes more there */
        die(STATUS_NODE, "agent: the head has given up waiting for it");
    next_address(a, NULL);
}

/* Without a head, no order arrives, and no report leaves. */
static void head_gone(struct agent *a)
{
    if (a->over)
        return;
    a->over = true;
    a->jobs->hasty = true;
    output_room_given(a->output, &a->output->out, UINT32_MAX); /* nobody wants it any more */
    output_room_given(a->output, &a->output->err, UINT32_MAX);
    if (a->head)
        net_close(a->head);
    if (!a->done_sent)
        job_stop_all(a->jobs);
}

static void on_boot(void *of, struct source *src, uint32_t events)
{
    struct agent *a = of;
    char text[256];
    ssize_t n = read(src->fd, text, sizeof(text));

    if (n > 0 && a->step)
        step_told(a, text, (size_t)n);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;    /* other bytes there have no meaning */
    loop_del(src); /* stays open: it is stdin */
    src->fd = -1;
    if (a->step)
        step_left(a);
    else if (!a->ending)
        head_gone(a);
}

void agent_signalled(struct agent *a, int sig)
{
    log_message("the agent received signal %d (%s)", sig, strsignal(sig));
    net_flush(&a->net);
    head_gone(a);
}

/* ---- reports to it ---- */

struct msg *agent_msg(struct agent *a, enum message what)
{
    msg_begin(&a->msg, what);
    return &a->msg;
}

void agent_tell(struct agent *a)
{
    if (!a->over)
        net_send(a->head, a->msg.p, a->msg.len);
}

bool agent_report_text(struct agent *a, const char *text, size_t n)
{
    if (!a->told || a->over)
        return a->over;
    msg_text(agent_msg(a, MSG_SAY), text, n);
    agent_tell(a);
    return true;
}

void agent_report(struct agent *a, enum message what, const struct report *r)
{
    report_put(agent_msg(a, what), r);
    agent_tell(a);
}

bool agent_report_output(struct agent *a, const struct stream *st, const char *p, size_t n)
{
    struct msg *m;

    if (a->over)
        return false;
    m = agent_msg(a, MSG_OUTPUT);
    msg_u32(m, st->rank->job->number);
    msg_u32(m, st->rank->number);
    msg_u32(m, st == &st->rank->out ? 1 : 2);
    msg_text(m, p, n);
    agent_tell(a);
    return true;
}

static void tell_ready(struct agent *a)
{
    char address[64];
    uint16_t port;
    int rc;

    agent_report(a, MSG_TRY, &(struct report){.value = a->try});
    a->told = true;
    net_address(a->head, true, address, sizeof(address));
    rc = net_listen(&a->net, address, &port);
    if (rc) {
        log_message("agent: cannot listen at %s: %s", address, strerror(-rc));
        job_stop(a->jobs, STATUS_NODE);
        return;
    }
    if (a->step)
        step_tell_ranks(a);
    agent_report(a, MSG_READY, &(struct report){.value = port, .text = a->name});
}

static void tell_times(struct agent *a)
{
    timeline_take(a->jobs->timeline, agent_msg(a, MSG_TIMES));
    agent_tell(a);
}

static void tell_done(struct agent *a)
{
    union node_counters counters = {0};
    struct msg *m = agent_msg(a, MSG_DONE);

    if (a->jobs->pmi->server) /* else it has served no rank */
        pmiwire_server_stats(a->jobs->pmi->server, &counters.stats);
    msg_u32(m, NODE_COUNTERS);
    for (size_t i = 0; i < NODE_COUNTERS; i++)
        msg_u64(m, counters.each[i]);
    agent_tell(a);
}

/* ---- the end ---- */

bool agent_may_end(struct agent *a)
{
    return a->ending || a->over;
}

/* The head closes the connection after MSG_DONE: only then have all reports arrived. */
bool agent_ended(struct agent *a)
{
    if (a->over && !a->ending)
        return true;
    if (a->over) { /* a dialled peer must not report a broken handshake */
        if (!a->leave.at)
            timer_set(&a->leave, loop.now_ns + NS_PER_S);
        return !net_shaking(&a->net) || timer_passed(&a->leave);
    }
    if (!a->done_sent) {
        if (a->jobs->timeline->n)
            tell_times(a);
        tell_done(a);
        net_flush(&a->net);
        a->done_sent = true;
        timer_set(&a->done, loop.now_ns + net_timeout(&a->net));
    }
    return timer_passed(&a->done);
}

/* ---- other agents ---- */

void agent_report_lost(struct agent *a, uint32_t node, const char *why)
{
    if (a->ending || a->jobs->stopping)
        return;
    if (a->peers) {
        if (a->peers[node].lost)
            return;
        a->peers[node].lost = true;
    }
    agent_report(a, MSG_LOST, &(struct report){.value = node, .text = why});
    for (const struct job *job = a->jobs->first; job; job = job->next)
        if (job->server)
            pmiwire_server_node_lost(job->server, job->id, node);
}

/* Records a link failure. It is reported later, outside calls of the exchange. */
static void note_broken(struct agent *a, uint32_t node, int err)
{
    if (!err || a->peers[node].broken)
        return;
    a->peers[node].broken = err;
    a->any_broken = true;
}

/* A link to another agent. NULL: a failure, which counts when there is something to send. */
static struct netconn *link_to(struct agent *a, uint32_t node)
{
    struct peer *peer = &a->peers[node];
    int err = 0;

    if (!peer->out)
        peer->out = net_dial(&a->net, peer->address, peer->port, node, false, &err);
    note_broken(a, node, peer->needed ? err : 0);
    return peer->out;
}

/*
 * The neighbours in a job's tree, which its Fences go by: parent and children among the nodes that
 * have ranks of it. The agent connects to them as the job begins, since during a Fence it may take
 * long to get to a handshake.
 */
static void connect_neighbours(struct agent *a, const struct job *job)
{
    uint32_t *members = xrealloc(NULL, a->n_nodes * sizeof(*members)), n = 0, me = 0, arity;
    bool *has = xrealloc(NULL, a->n_nodes * sizeof(*has));

    memset(has, 0, a->n_nodes * sizeof(*has));
    for (uint32_t i = 0; i < job->n_ranks; i++)
        has[job->node_of[i]] = true;
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        if (i == a->node)
            me = n;
        if (has[i])
            members[n++] = i;
    }
    arity = pmiwire_exchange_arity(n);
    if (me > 0)
        link_to(a, members[(me - 1) / arity]);
    for (uint64_t i = (uint64_t)arity * me + 1; i < n && i <= (uint64_t)arity * me + arity; i++)
        link_to(a, members[i]);
    free(members);
    free(has);
}

int agent_send_frame(struct agent *a, bool is_pmix, uint32_t node, uint32_t job,
                     const struct iovec *iov, uint32_t n_iov)
{
    struct netconn *out;

    a->peers[node].needed = true;
    msg_begin(&a->frame, is_pmix ? MSG_PMIX : MSG_EXCHANGE);
    msg_u32(&a->frame, job);
    for (uint32_t i = 0; i < n_iov; i++)
        msg_bytes(&a->frame, iov[i].iov_base, iov[i].iov_len);
    out = link_to(a, node);
    if (out)
        note_broken(a, node, net_send(out, a->frame.p, a->frame.len));
    return out && net_full(out);
}

static void check_links(struct agent *a)
{
    if (!a->any_broken)
        return;
    a->any_broken = false;
    for (uint32_t i = 0; i < a->n_nodes; i++)
        if (a->peers[i].broken)
            agent_report_lost(a, i, strerror(-a->peers[i].broken));
}

/* Keeps a frame until its job is announced: the head announced the job to the sender first. */
static bool keep_early_frame(struct agent *a, uint32_t from, uint8_t what, uint32_t job,
                             const char *p, size_t n)
{
    struct early *e;

    if (a->early_bytes + n > EARLY_BYTES)
        return false;
    e = xrealloc(NULL, sizeof(*e) + n);
    *e = (struct early){NULL, from, job, what, n};
    memcpy(e->bytes, p, n);
    *a->early_tail = e;
    a->early_tail = &e->next;
    a->early_bytes += n;
    return true;
}

static bool deliver_frame(struct agent *a, uint32_t from, uint8_t what, uint32_t number,
                          const char *p, size_t n)
{
    const struct job *job = job_by_number(a->jobs, number);
    int rc;

    if (what == MSG_PMIX)
        return host_frame(from, p, n);
    if (!job || !job->server) /* it is over, or could not be served */
        return true;
    rc = pmiwire_server_frame(job->server, job->id, from, p, n);
    return rc != PMIWIRE_EPROTO && rc != PMIWIRE_EVERSION; /* failed() has reported another error */
}

/* Handles a message of another agent; false: malformed. */
static bool agent_heard(struct agent *a, uint32_t node, const void *p, size_t n)
{
    struct msg_in in = {(const char *)p + 1, n - 1, false};
    const uint8_t what = n > 0 ? *(const uint8_t *)p : 0;
    uint32_t number;

    if (n < 5 || (what != MSG_EXCHANGE && what != MSG_PMIX))
        return false;
    number = get_u32(&in);
    if (what == MSG_PMIX ? host_knows(number) : number < a->jobs->n_jobs)
        return deliver_frame(a, node, what, number, in.p, in.left);
    return keep_early_frame(a, node, what, number, in.p, in.left);
}

void agent_take_early(struct agent *a, uint32_t number)
{
    struct early **p = &a->early;

    while (*p) {
        struct early *e = *p;

        if (e->job != number) {
            p = &e->next;
            continue;
        }
        *p = e->next;
        if (a->early_tail == &e->next)
            a->early_tail = p;
        a->early_bytes -= e->n;
        if (!deliver_frame(a, e->from, e->what, number, e->bytes, e->n))
            agent_report_lost(a, e->from, "its message is invalid");
        free(e);
    }
}

void agent_begin_exchange(struct agent *a, struct job *job)
{
    connect_neighbours(a, job);
    agent_take_early(a, job->number);
}

/* ---- connections ---- */

static bool on_link_opened(void *of, struct netconn *nc)
{
    struct agent *a = of;
    if (nc == a->head) {
        tell_ready(a);
        return true;
    }
    if (nc->dialled)
        return true;
    return nc->ch.peer < a->n_nodes && !a->over;
}

static bool on_link_frame(void *of, struct netconn *nc, const void *p, size_t n)
{
    struct agent *a = of;
    if (nc == a->head)
        return orders_frame(a, p, n);
    return !nc->dialled && agent_heard(a, nc->ch.peer, p, n);
}

static void on_link_closed(void *of, struct netconn *nc, const char *why)
{
    struct agent *a = of;
    if (nc == a->head) {
        if (!a->told)
            next_address(a, why);
        else
            head_gone(a);
        return;
    }
    if (nc->dialled && a->peers)
        a->peers[nc->ch.peer].out = NULL;
    /* Dialled in advance and never open: no loss; the agent dials again when it has something to
     * send. */
    if (nc->dialled && nc->shaking && a->peers && !a->peers[nc->ch.peer].needed)
        return;
    agent_report_lost(a, nc->ch.peer, why);
}

static void on_link_room(void *of, struct netconn *nc)
{
    struct agent *a = of;

    if (nc == a->head || !nc->dialled)
        return;
    for (const struct job *job = a->jobs->first; job; job = job->next)
        if (job->server)
            pmiwire_server_link_ready(job->server, job->id, nc->ch.peer);
    host_room(nc->ch.peer);
}

const struct net_ops agent_net_ops = {on_link_opened, on_link_frame, on_link_closed, on_link_room};

void agent_progress(struct agent *a)
{
    check_links(a);
    if (timeline_is_due(a->jobs->timeline))
        tell_times(a);
}

void agent_set_up(struct pmirun *pr, char **args)
{
    static struct agent agent;
    struct agent *a = &agent;

    a->opt = &pr->opt;
    a->jobs = &pr->jobs;
    a->output = &pr->output;
    a->input = &pr->input;
    if (args[0])
        step_join(a, args[0], args[1] ? args[1] : "");
    pr->jobs.agent = pr->input.agent = a;
    messages.host = a->name;
    net_init(&a->net, &pr->opt, &agent_net_ops, a);
    if (a->step)
        guard_start(&pr->guard);
    else
        launch_init(&pr->jobs, &pr->output, &pr->input, &pr->signals);
    loop_init(pr);
    start_agent(a);
}

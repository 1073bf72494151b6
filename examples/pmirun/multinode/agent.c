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
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <pmiwire/exchange.h>

#include "../local/exchange.h"
#include "../local/host.h"
#include "../local/launch.h"
#include "step.h"

#define EARLY_BYTES (256u << 20) /* of frames for jobs not announced yet */

uint32_t agent_node(const struct pmirun *pr)
{
    return pr->nodes->agent.node;
}

const char *agent_host_name(const struct pmirun *pr)
{
    return pr->nodes->agent.name;
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
    return strlen(text) == 2 * n && sodium_hex2bin(out, n, text, 2 * n, NULL, NULL, NULL) == 0;
}

static bool parse_u32(const char *text, uint32_t *v)
{
    char *end;
    unsigned long x;

    errno = 0;
    x = strtoul(text, &end, 10);
    *v = (uint32_t)x;
    return !errno && end != text && !*end && x < UINT32_MAX;
}

static bool parse_node(const struct agent *a, const char *text, uint32_t *v)
{
    const char *id = strcmp(text, "srun") == 0 ? getenv("SLURM_PROCID") : text;

    if (a->step) {
        *v = step_node(a->step);
        return strcmp(text, "step") == 0;
    }
    return id && parse_u32(id, v);
}

static bool split_addresses(const char *text, struct agent *a)
{
    char *list = xprintf("%s", text), *save = NULL;
    uint32_t n = 0;

    for (char *w = strtok_r(list, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        a->addresses = xrealloc(a->addresses, (n + 2) * sizeof(*a->addresses));
        a->addresses[n++] = w;
        a->addresses[n] = NULL;
    }
    return n > 0;
}

static void check_version(const char *version)
{
    if (strcmp(version, BOOT_VERSION) != 0)
        die(STATUS_NODE,
            "agent: its version differs from the head's (which sent %.20s, not %s): install the "
            "same pmirun on all hosts",
            version, BOOT_VERSION);
}

static void parse_boot(struct pmirun *pr, char *text)
{
    struct channel_self *self = &pr->nodes->net.self;
    struct agent *a = &pr->nodes->agent;
    unsigned seen = 0;
    char *save = NULL;
    uint32_t port = 0, silence_ms = 0;
    bool ok = true;

    for (char *line = strtok_r(text, "\n", &save); line && ok && strcmp(line, "end") != 0;
         line = strtok_r(NULL, "\n", &save)) {
        char *value = strchr(line, ' ');

        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(line, "pmirun-agent") == 0)
            check_version(value), seen |= 1;
        else if (strcmp(line, "job") == 0)
            ok = parse_hex(value, self->job, sizeof(self->job)), seen |= 2;
        else if (strcmp(line, "secret") == 0)
            ok = parse_hex(value, self->secret, sizeof(self->secret)), seen |= 4;
        else if (strcmp(line, "node") == 0)
            ok = parse_node(a, value, &a->node), seen |= 8;
        else if (strcmp(line, "nodes") == 0)
            ok = parse_u32(value, &a->n_nodes), seen |= 16;
        else if (strcmp(line, "port") == 0)
            ok = parse_u32(value, &port) && port > 0 && port < 65536, seen |= 32;
        else if (strcmp(line, "head") == 0)
            ok = split_addresses(value, a), seen |= 64;
        else if (strcmp(line, "silence") == 0)
            ok = parse_u32(value, &silence_ms), seen |= 128;
        else if (strcmp(line, "try") == 0)
            ok = parse_u32(value, &a->try), seen |= 256;
    }
    if (!ok || seen != 511 || a->node >= a->n_nodes)
        die(STATUS_NODE, "agent: unexpected data on stdin: does a command that the login runs read "
                         "stdin, as in ~/.bashrc?");
    a->head_port = (uint16_t)port;
    pr->opt.node_s = silence_ms / 1e3;
    self->id = a->node;
}

/* ---- the head ---- */

static void next_address(struct pmirun *pr, const char *why)
{
    struct agent *a = &pr->nodes->agent;
    const char *address = a->next ? a->addresses[a->next - 1] : "", *first = why;
    int err;

    while (a->addresses[a->next]) {
        address = a->addresses[a->next++];
        a->head = net_dial(pr, address, a->head_port, CHANNEL_HEAD, a->addresses[a->next], &err);
        if (a->head)
            return;
        first = strerror(-err);
    }
    die(STATUS_NODE, "agent: cannot reach the head at %s:%u: %s", address, a->head_port,
        first ? first : "no address");
}

static void on_boot(struct pmirun *pr, struct source *src, uint32_t events);

/* True if the other end of this pipe or socket is closed; no data is left in it. */
static bool is_at_end(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c;

    return poll(&p, 1, 0) == 1 && read(fd, &c, 1) == 0;
}

static void start_agent(struct pmirun *pr)
{
    struct agent *a = &pr->nodes->agent;
    char *text = xrealloc(NULL, BOOT_BYTES);
    const char *slurm = getenv("SLURMD_NODENAME"), *more;

    read_boot(text, BOOT_BYTES);
    more = strstr(text, "\nend\n") + 5;
    if (a->step)
        step_told(pr, more, strlen(more));
    parse_boot(pr, text);
    sodium_memzero(text, BOOT_BYTES);
    free(text);
    if (gethostname(a->name, sizeof(a->name) - 1) != 0)
        a->name[0] = '\0';
    if (slurm)
        snprintf(a->name, sizeof(a->name), "%s", slurm);
    pr->opt.n_nodes = a->n_nodes;
    a->early_tail = &a->early;
    a->boot = (struct source){on_boot, STDIN_FILENO};
    if (loop_add(pr, &a->boot, EPOLLIN) != 0)
        a->boot.fd = -1; /* a file: only the connection shows that the head is gone */
    else if (!a->step && is_at_end(STDIN_FILENO)) /* in a step slurmstepd writes more there */
        die(STATUS_NODE, "agent: the head has given up waiting for it");
    next_address(pr, NULL);
}

/* Without a head, no order arrives, and no report leaves. */
static void head_gone(struct pmirun *pr)
{
    if (pr->nodes->agent.over)
        return;
    pr->nodes->agent.over = true;
    pr->hasty = true;
    output_room_given(pr, &pr->output.out, UINT32_MAX); /* nobody wants it any more */
    output_room_given(pr, &pr->output.err, UINT32_MAX);
    if (pr->nodes->agent.head)
        net_close(pr, pr->nodes->agent.head);
    if (!pr->nodes->agent.done_sent)
        job_stop_all(pr);
}

static void on_boot(struct pmirun *pr, struct source *src, uint32_t events)
{
    char text[256];
    ssize_t n = read(src->fd, text, sizeof(text));

    if (n > 0 && pr->nodes->agent.step)
        step_told(pr, text, (size_t)n);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;        /* other bytes there have no meaning */
    loop_del(pr, src); /* stays open: it is stdin */
    src->fd = -1;
    if (pr->nodes->agent.step)
        step_left(pr);
    else if (!pr->nodes->agent.ending)
        head_gone(pr);
}

void agent_signalled(struct pmirun *pr, int sig)
{
    say(pr, "the agent received signal %d (%s)", sig, strsignal(sig));
    net_flush(pr);
    head_gone(pr);
}

/* ---- reports to it ---- */

struct msg *agent_msg(struct pmirun *pr, enum message what)
{
    msg_begin(&pr->nodes->agent.msg, what);
    return &pr->nodes->agent.msg;
}

/* Exits as xrealloc() does: the head must not wait for a rank whose end it never learns. */
static void no_memory(void)
{
    die(STATUS_RESOURCES, "agent: out of memory for a message to the head");
}

void agent_tell(struct pmirun *pr)
{
    const struct agent *a = &pr->nodes->agent;

    if (!a->over && net_send(pr, a->head, a->msg.p, a->msg.len) == -ENOMEM)
        no_memory();
}

bool agent_report_text(struct pmirun *pr, const char *text, size_t n)
{
    if (!pr->nodes->agent.told || pr->nodes->agent.over)
        return pr->nodes->agent.over;
    msg_text(agent_msg(pr, MSG_SAY), text, n);
    agent_tell(pr);
    return true;
}

/* About a rank: its numbers, then others. */
static struct msg *rank_msg(struct pmirun *pr, enum message what, const struct rank *r,
                            uint32_t first)
{
    struct msg *m = agent_msg(pr, what);

    msg_u32(m, r->job->number);
    msg_u32(m, r->number);
    msg_u32(m, first);
    return m;
}

void agent_report_started(struct pmirun *pr, const struct rank *r)
{
    rank_msg(pr, MSG_STARTED, r, (uint32_t)r->pid);
    agent_tell(pr);
}

void agent_report_state(struct pmirun *pr, const struct rank *r, uint32_t state)
{
    rank_msg(pr, MSG_STATE, r, state);
    agent_tell(pr);
}

void agent_report_aborted(struct pmirun *pr, const struct rank *r, int32_t code, const char *text)
{
    msg_string(rank_msg(pr, MSG_ABORT, r, (uint32_t)code), text);
    agent_tell(pr);
}

void agent_report_exited(struct pmirun *pr, const struct rank *r, const siginfo_t *si)
{
    msg_u32(rank_msg(pr, MSG_EXIT, r, (uint32_t)si->si_code), (uint32_t)si->si_status);
    agent_tell(pr);
}

void agent_tell_number(struct pmirun *pr, enum message what, uint32_t number)
{
    msg_u32(agent_msg(pr, what), number);
    agent_tell(pr);
}

void agent_report_launched(struct pmirun *pr, const struct job *job)
{
    agent_tell_number(pr, MSG_LAUNCHED, job->number);
}

void agent_report_spawn_failed(struct pmirun *pr, const struct job *job, int err)
{
    struct msg *m = agent_msg(pr, MSG_FAILED);

    msg_u32(m, job->number);
    msg_u32(m, (uint32_t)err);
    agent_tell(pr);
}

void agent_report_fatal(struct pmirun *pr, int status)
{
    if (!pr->stopping)
        agent_tell_number(pr, MSG_FATAL, (uint32_t)status);
}

void agent_report_failure(struct pmirun *pr, int status)
{
    agent_tell_number(pr, MSG_STATUS, (uint32_t)status);
}

void agent_report_stuck(struct pmirun *pr, const struct job *job, uint32_t rank, uint32_t coll,
                        uint32_t why)
{
    struct msg *m = agent_msg(pr, MSG_STUCK);

    msg_u32(m, job->number);
    msg_u32(m, rank);
    msg_u32(m, coll);
    msg_u32(m, why);
    agent_tell(pr);
}

void agent_report_mpi(struct pmirun *pr, const struct job *job)
{
    struct msg *m = agent_msg(pr, MSG_CHOSE);

    msg_u32(m, job->number);
    msg_u32(m, job->way);
    msg_string(m, job->way_why);
    msg_u32(m, job->misled);
    agent_tell(pr);
}

bool agent_report_output(struct pmirun *pr, const struct stream *st, const char *p, size_t n)
{
    struct msg *m;

    if (pr->nodes->agent.over)
        return false;
    m = rank_msg(pr, MSG_OUTPUT, st->rank, st == &st->rank->out ? 1 : 2);
    msg_u32(m, (uint32_t)n);
    if (net_send2(pr, pr->nodes->agent.head, m->p, m->len, p, n) == -ENOMEM)
        no_memory();
    return true;
}

static void tell_ready(struct pmirun *pr)
{
    struct agent *a = &pr->nodes->agent;
    char address[64];
    struct msg *m;
    uint16_t port;
    int rc;

    agent_tell_number(pr, MSG_TRY, a->try);
    a->told = true;
    net_address(a->head, true, address, sizeof(address));
    rc = net_listen(pr, address, &port);
    if (rc) {
        say(pr, "agent: cannot listen at %s: %s", address, strerror(-rc));
        agent_report_fatal(pr, STATUS_NODE);
        return;
    }
    if (a->step)
        step_tell_ranks(pr);
    m = agent_msg(pr, MSG_READY);
    msg_u32(m, port);
    msg_string(m, a->name);
    agent_tell(pr);
}

static void tell_times(struct pmirun *pr)
{
    timeline_take(pr, agent_msg(pr, MSG_TIMES));
    agent_tell(pr);
}

static void tell_done(struct pmirun *pr)
{
    union node_counters counters = {0};
    struct msg *m = agent_msg(pr, MSG_DONE);

    if (pr->server) /* else it has served no rank */
        pmiwire_server_stats(pr->server, &counters.stats);
    msg_u32(m, NODE_COUNTERS);
    for (size_t i = 0; i < NODE_COUNTERS; i++)
        msg_u64(m, counters.each[i]);
    agent_tell(pr);
}

/* ---- the end ---- */

bool agent_may_end(struct pmirun *pr)
{
    return pr->nodes->agent.ending || pr->nodes->agent.over;
}

/* The head closes the connection after MSG_DONE: only then have all reports arrived. */
bool agent_ended(struct pmirun *pr)
{
    struct agent *a = &pr->nodes->agent;

    if (a->over && !a->ending)
        return true;
    if (a->over) { /* a dialled peer must not report a broken handshake */
        if (!a->leave.at)
            timer_set(pr, &a->leave, pr->now_ns + NS_PER_S, NULL);
        return !net_shaking(pr) || timer_passed(pr, &a->leave);
    }
    if (!a->done_sent) {
        if (pr->timeline.n_packed)
            tell_times(pr);
        tell_done(pr);
        net_flush(pr);
        a->done_sent = true;
        timer_set(pr, &a->done, pr->now_ns + net_patience(pr), NULL);
    }
    return timer_passed(pr, &a->done);
}

/* ---- other agents ---- */

void agent_report_lost(struct pmirun *pr, uint32_t node, const char *why)
{
    struct agent *a = &pr->nodes->agent;
    struct msg *m;

    if (a->ending || pr->stopping)
        return;
    if (a->peers) {
        if (a->peers[node].lost)
            return;
        a->peers[node].lost = true;
    }
    m = agent_msg(pr, MSG_LOST);
    msg_u32(m, node);
    msg_string(m, why);
    agent_tell(pr);
    exchange_lost(pr, node);
}

/* A link to another agent; NULL on failure. */
static struct netconn *link_to(struct pmirun *pr, uint32_t node, int *err)
{
    struct peer *peer = &pr->nodes->agent.peers[node];

    if (!peer->out)
        peer->out = net_dial(pr, peer->address, peer->port, node, false, err);
    return peer->out;
}

/* Records a link failure. It is reported later, outside calls of the exchange. */
static void note_broken(struct agent *a, uint32_t node, int err)
{
    if (a->peers[node].broken)
        return;
    a->peers[node].broken = err;
    a->any_broken = true;
}

static void connect_to(struct pmirun *pr, uint32_t node)
{
    struct agent *a = &pr->nodes->agent;
    int err = 0;

    (void)link_to(pr, node, &err);
    if (err && a->peers[node].needed)
        note_broken(a, node, err);
}

/*
 * The neighbours in a job's tree, which its Fences go by: parent and children among the nodes that
 * have ranks of it. The agent connects to them as the job begins, since during a Fence it may take
 * long to get to a handshake.
 */
static void connect_neighbours(struct pmirun *pr, const struct job *job)
{
    const struct agent *a = &pr->nodes->agent;
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
        connect_to(pr, members[(me - 1) / arity]);
    for (uint64_t i = (uint64_t)arity * me + 1; i < n && i <= (uint64_t)arity * me + arity; i++)
        connect_to(pr, members[i]);
    free(members);
    free(has);
}

/* 0, or 1: enough for now, and exchange_room() follows. */
static int send_job_frame(struct pmirun *pr, enum message what, uint32_t node, uint32_t job,
                          const struct iovec *iov, uint32_t n_iov)
{
    struct agent *a = &pr->nodes->agent;
    struct netconn *out;
    int err = 0;
    bool full = false;

    a->peers[node].needed = true;
    msg_begin(&a->frame, what);
    msg_u32(&a->frame, job);
    for (uint32_t i = 0; i < n_iov; i++)
        msg_bytes(&a->frame, iov[i].iov_base, iov[i].iov_len);
    out = link_to(pr, node, &err);
    if (out) {
        err = net_send(pr, out, a->frame.p, a->frame.len);
        full = net_full(out);
    }
    if (err)
        note_broken(a, node, err);
    return full;
}

int agent_send_frame(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                     uint32_t n_iov)
{
    return send_job_frame(pr, MSG_EXCHANGE, node, job, iov, n_iov);
}

int agent_send_pmix(struct pmirun *pr, uint32_t node, uint32_t job, const struct iovec *iov,
                    uint32_t n_iov)
{
    return send_job_frame(pr, MSG_PMIX, node, job, iov, n_iov);
}

static void check_links(struct pmirun *pr)
{
    struct agent *a = &pr->nodes->agent;

    if (!a->any_broken)
        return;
    a->any_broken = false;
    for (uint32_t i = 0; i < a->n_nodes; i++)
        if (a->peers[i].broken)
            agent_report_lost(pr, i, strerror(-a->peers[i].broken));
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

static bool deliver_frame(struct pmirun *pr, uint32_t from, uint8_t what, uint32_t number,
                          const char *p, size_t n)
{
    struct job *job = job_by_number(pr, number);

    if (what == MSG_PMIX)
        return host_frame(pr, from, p, n);
    return !job || exchange_frame(pr, job, from, p, n); /* else it is over */
}

bool agent_heard(struct pmirun *pr, uint32_t node, const void *p, size_t n)
{
    struct msg_in in = {(const char *)p + 1, n - 1, false};
    const uint8_t what = n > 0 ? *(const uint8_t *)p : 0;
    uint32_t number;

    if (n < 5 || (what != MSG_EXCHANGE && what != MSG_PMIX))
        return false;
    number = get_u32(&in);
    if (what == MSG_PMIX ? host_knows(pr, number) : number < pr->n_jobs)
        return deliver_frame(pr, node, what, number, in.p, in.left);
    return keep_early_frame(&pr->nodes->agent, node, what, number, in.p, in.left);
}

void agent_take_early(struct pmirun *pr, uint32_t number)
{
    struct agent *a = &pr->nodes->agent;
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
        if (!deliver_frame(pr, e->from, e->what, number, e->bytes, e->n))
            agent_report_lost(pr, e->from, "its message is invalid");
        free(e);
    }
}

void agent_begin_exchange(struct pmirun *pr, struct job *job)
{
    connect_neighbours(pr, job);
    agent_take_early(pr, job->number);
}

/* ---- connections ---- */

static bool on_link_opened(struct pmirun *pr, struct netconn *nc)
{
    struct agent *a = &pr->nodes->agent;

    if (nc == a->head) {
        nc->deadline_ns = 0;
        tell_ready(pr);
        return true;
    }
    if (nc->dialled)
        return true;
    return nc->ch.peer < a->n_nodes && !a->over;
}

static bool on_link_frame(struct pmirun *pr, struct netconn *nc, const void *p, size_t n)
{
    if (nc == pr->nodes->agent.head)
        return orders_frame(pr, p, n);
    return !nc->dialled && agent_heard(pr, nc->ch.peer, p, n);
}

static void on_link_closed(struct pmirun *pr, struct netconn *nc, const char *why)
{
    struct agent *a = &pr->nodes->agent;

    if (nc == a->head) {
        if (!a->told)
            next_address(pr, why);
        else
            head_gone(pr);
        return;
    }
    if (nc->dialled && a->peers)
        a->peers[nc->ch.peer].out = NULL;
    /* Dialled in advance and never open: no loss; the agent dials again when it has something to
     * send. */
    if (nc->dialled && nc->deadline_ns && a->peers && !a->peers[nc->ch.peer].needed)
        return;
    agent_report_lost(pr, nc->ch.peer, why);
}

static void on_link_room(struct pmirun *pr, struct netconn *nc)
{
    const bool is_head = nc == pr->nodes->agent.head;

    if (!is_head && nc->dialled)
        exchange_room(pr, nc->ch.peer);
}

const struct net_ops agent_net_ops = {on_link_opened, on_link_frame, on_link_closed, on_link_room};

void agent_progress(struct pmirun *pr)
{
    check_links(pr);
    if (timeline_is_due(pr))
        tell_times(pr);
}

void agent_report_input(struct pmirun *pr, uint32_t n)
{
    agent_tell_number(pr, MSG_TOOK, n);
}

void agent_set_up(struct pmirun *pr, char **args)
{
    static struct nodes nodes;

    pr->nodes = &nodes;
    if (args[0])
        nodes.agent.step = step_join(args[0], args[1] ? args[1] : "");
    pr->agent = true;
    net_init(pr, &agent_net_ops);
    job_note_inherited(pr);
    if (nodes.agent.step)
        guard_start(pr);
    else
        launch_init(pr);
    loop_init(pr);
    start_agent(pr);
}

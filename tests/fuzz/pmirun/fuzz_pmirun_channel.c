/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: input that a pmirun gets from other servers of its job and from strangers who
 * find its port. The first byte of the input chooses the listener: a head with three agents; an
 * agent with its head and two others; or one side of a channel whose other side has no secret. The
 * rest is a program of small steps. Peers with the secret send the input's bytes, correctly sealed,
 * so that the fuzzer reaches the messages behind the channel; their frames are cut into pieces,
 * sent twice, altered or lost in transit. Checked:
 *
 * - a peer without the secret opens nothing, and costs the other side no more than the handshake;
 *   - a frame arrives once, in its turn and unchanged, or not at all;
 *   - a head whose link ends has lost that node, and stops; no input makes a server
 *     exit, signal a stranger or lose count of its ranks;
 *   - all memory is given back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../examples/pmirun/local/launch.h"
#include "../../../examples/pmirun/local/spawn.h"
#include "../../../examples/pmirun/local/bind.h"
#include "../../../examples/pmirun/local/folder.h"
#include "../../../examples/pmirun/local/way.h"
#include "../../../examples/pmirun/multinode/nodes.h"
#include "../../../examples/pmirun/pmix/far.h"
#include "fuzz.h"

enum { LINKS = 3, FIRST_PID = 1000000000, SUM_BYTES = 32 };

extern char **environ;

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* ---- what stands in for the system ---- */

void exit(int status)
{
    (void)status;
    abort();
}

int kill(pid_t pid, int sig)
{
    pid = pid < 0 ? -pid : pid;
    check(pid >= FIRST_PID && sig > 0 && sig <= 64);
    return 0;
}

int waitid(idtype_t type, id_t id, siginfo_t *si, int options)
{
    (void)type, (void)id, (void)si, (void)options;
    errno = ECHILD;
    return -1;
}

int chdir(const char *path)
{
    errno = ENOENT;
    return path[0] == '!' ? -1 : 0;
}

int setenv(const char *name, const char *value, int replace)
{
    check(name[0] && !strchr(name, '=') && strlen(value) < SIZE_MAX && replace);
    return 0;
}

/* Random numbers, ours and libsodium's: the same in each run. */
static uint32_t random_next(void)
{
    static uint32_t seed = 1;

    return seed = seed * 1103515245u + 12345u;
}

static void random_fill(void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)p)[i] = (uint8_t)(random_next() >> 16);
}

static const char *random_name(void)
{
    return "fuzz";
}

static struct randombytes_implementation same_numbers = {
    .implementation_name = random_name, .random = random_next, .buf = random_fill};

ssize_t getrandom(void *p, size_t n, unsigned flags)
{
    (void)flags;
    random_fill(p, n);
    return (ssize_t)n;
}

int loop_add(struct pmirun *pr, struct source *src, uint32_t events)
{
    (void)pr, (void)src, (void)events;
    return 0;
}

void loop_mod(struct pmirun *pr, struct source *src, uint32_t events)
{
    (void)pr, (void)src, (void)events;
}

void loop_del(struct pmirun *pr, struct source *src)
{
    (void)pr, (void)src;
}

void loop_close(struct pmirun *pr, struct source *src)
{
    if (src == &pr->input.src && src->fd >= 0) /* a copy of stdin: the one that is real */
        close(src->fd);
    src->fd = -1;
}

void loop_init(struct pmirun *pr)
{
    (void)pr;
    abort();
}

bool folder_remove(const char *key)
{
    (void)key;
    abort();
}

const char *way_name(const struct job *job)
{
    return job->way == MPI_PMIX ? "pmix" : "pmi";
}

void way_report(struct pmirun *pr, const struct job *job)
{
    (void)pr, (void)job;
}

/* What a program needs is not looked for; a job may be told that it goes by PMIx. */
int way_choose(struct pmirun *pr, struct job *job, char **why)
{
    (void)why;
    if (job->way == MPI_AUTO)
        job->way = MPI_PMI;
    job->way_why = xprintf("fuzz");
    far_ready(pr); /* as the host does */
    pr->agent->chose(pr, job);
    return 0;
}

void bind_free(struct binding *b)
{
    free(b);
}

void launch_init(struct pmirun *pr)
{
    (void)pr;
    abort();
}

int launch_resolve(struct app *app)
{
    free(app->path);
    app->path = xprintf("%s", app->argv[0]);
    return app->path[0] == '!' ? ENOENT : 0;
}

int launch_find(struct app *app, char **why)
{
    int err = launch_resolve(app);

    if (err)
        *why = xprintf("cannot start %s", app->argv[0]);
    return err ? STATUS_NOTFOUND : 0;
}

int launch_check_limits(struct pmirun *pr, uint64_t n_more, uint64_t *need, uint64_t *have)
{
    (void)pr;
    *need = n_more;
    *have = 40;
    return n_more > 40 ? -EMFILE : 0;
}

void launch_land_all(struct pmirun *pr)
{
    (void)pr;
}

void launch_settle(struct pmirun *pr)
{
    (void)pr;
}

void launch_drop(struct pmirun *pr, struct job *job)
{
    struct job **p = &pr->launch;

    while (*p && *p != job)
        p = &(*p)->next_launch;
    if (*p)
        *p = job->next_launch;
    if (!*p)
        pr->launch_tail = p;
}

int port_init(struct pmirun *pr)
{
    pr->opt.use_port = false; /* or shared memory would have names, which a crash leaves behind */
    return 0;
}

void port_forget(struct pmirun *pr, const struct rank *r)
{
    (void)pr, (void)r;
}

bool port_may_complain(struct pmirun *pr)
{
    (void)pr;
    return true;
}

int port_identify(void *ctx, struct pmiwire_conn *conn, void *cookie, int32_t pmiid, uint32_t *job,
                  int32_t *rank)
{
    (void)ctx, (void)conn, (void)cookie, (void)pmiid, (void)job, (void)rank;
    return PMIWIRE_ENOENT;
}

/* ---- connections ---- */

/* One that has the secret, at the other end of a link. */
struct peer_end {
    struct channel_self self;
    struct channel ch;
    struct netconn *nc;
    uint64_t n_sent, n_heard; /* frames that went into the link, and that were taken out of it */
    uint64_t out_of_turn;     /* whatever follows that one cannot be taken */
    size_t sent_len;          /* of the last frame */
    uint8_t sent[SUM_BYTES];  /* its payload's hash */
    uint8_t *kept;
    size_t kept_len; /* bytes of what was delivered last */
};

struct world {
    struct pmirun pr;
    struct nodes nodes;
    struct peer_end peers[LINKS];
    struct peer_end *speaks; /* whose bytes are being read */
    bool altered;            /* and they are not what was sent */
};

static void hash(const void *p, size_t n, uint8_t out[SUM_BYTES])
{
    crypto_generichash(out, SUM_BYTES, p, n, NULL, 0);
}

static struct world *world_of(struct pmirun *pr)
{
    return (struct world *)(void *)((char *)pr - offsetof(struct world, pr));
}

static bool server_opened(void *ctx, struct channel *c)
{
    struct pmirun *pr = ctx;
    struct netconn *nc = (struct netconn *)(void *)((char *)c - offsetof(struct netconn, ch));

    nc->deadline_ns = 0;
    return pr->nodes->net.ops->opened(pr, nc);
}

static bool server_frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    struct pmirun *pr = ctx;
    struct netconn *nc = (struct netconn *)(void *)((char *)c - offsetof(struct netconn, ch));
    struct peer_end *e = world_of(pr)->speaks;
    uint8_t *copy, sum[SUM_BYTES];
    bool ok;

    check(e && e->nc == nc && !world_of(pr)->altered && e->n_heard < e->n_sent && !e->out_of_turn);
    hash(p, n, sum);
    check(n == e->sent_len && memcmp(sum, e->sent, sizeof(sum)) == 0);
    e->n_heard++;
    if (nc->dead)
        return true;
    copy = malloc(n ? n : 1); /* so that reading past it is seen */
    check(copy != NULL);
    if (n)
        memcpy(copy, p, n);
    ok = pr->nodes->net.ops->frame(pr, nc, n ? copy : copy + 1, n);
    free(copy);
    return ok;
}

static void server_replayed(void *ctx, struct channel *c, uint64_t number)
{
    (void)ctx;
    check(number < c->in_seq);
}

static const struct channel_ops server_ops = {server_opened, server_frame, server_replayed};

static bool peer_opened(void *ctx, struct channel *c)
{
    (void)ctx, (void)c;
    return true;
}

/* A message of the server's begins with its number. */
static bool peer_frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    (void)ctx, (void)c;
    check(n > 0 && *(const uint8_t *)p != 0);
    return true;
}

static void peer_replayed(void *ctx, struct channel *c, uint64_t number)
{
    (void)ctx, (void)c, (void)number;
    abort(); /* nobody alters what a server says */
}

static const struct channel_ops peer_ops = {peer_opened, peer_frame, peer_replayed};

void net_close(struct pmirun *pr, struct netconn *nc)
{
    (void)pr;
    nc->dead = true;
}

/* What an agent says to others goes nowhere: their links come to us. */
static struct netconn nowhere = {.dialled = true};

int net_send2(struct pmirun *pr, struct netconn *nc, const void *head, size_t head_len,
              const void *p, size_t n)
{
    struct iovec iov[2] = {{(void *)(uintptr_t)head, head_len}, {(void *)(uintptr_t)p, n}};

    (void)pr;
    if (nc == &nowhere)
        return 0;
    return nc->dead ? -EPIPE : channel_send(&nc->ch, iov, n ? 2 : 1);
}

int net_send(struct pmirun *pr, struct netconn *nc, const void *p, size_t n)
{
    return net_send2(pr, nc, p, n, NULL, 0);
}

int net_listen(struct pmirun *pr, const char *address, uint16_t *port)
{
    (void)pr, (void)address;
    *port = 4711;
    return 0;
}

struct netconn *net_dial(struct pmirun *pr, const char *address, uint16_t port, uint32_t peer,
                         bool hasty, int *err)
{
    (void)pr, (void)address, (void)port, (void)peer, (void)hasty, (void)err;
    return &nowhere;
}

bool net_full(struct netconn *nc)
{
    (void)nc;
    return false;
}

bool net_shaking(const struct pmirun *pr)
{
    (void)pr;
    return false;
}

uint64_t net_patience(const struct pmirun *pr)
{
    (void)pr;
    return NS_PER_S;
}

void net_address(const struct netconn *nc, bool local, char *out, size_t n)
{
    (void)nc, (void)local;
    snprintf(out, n, "192.0.2.1");
}

char *net_own_addresses(void)
{
    return xprintf("192.0.2.1");
}

void net_init(struct pmirun *pr, const struct net_ops *ops)
{
    pr->nodes->net.ops = ops;
}

void net_flush(struct pmirun *pr)
{
    (void)pr;
}

void net_bury(struct pmirun *pr)
{
    (void)pr;
}

void net_deadlines(struct pmirun *pr)
{
    (void)pr;
}

static void broken(struct world *w, struct peer_end *e, const char *why)
{
    if (e->nc->dead)
        return;
    net_close(&w->pr, e->nc);
    w->nodes.net.ops->closed(&w->pr, e->nc, why);
}

/* What a server has to say to each, taken away. */
static void listen_to_server(struct world *w)
{
    for (int i = 0; i < LINKS; i++) {
        struct peer_end *e = &w->peers[i];
        const void *p;
        size_t n;

        while (!e->nc->dead && (n = channel_output(&e->nc->ch, &p)) > 0) {
            check(channel_input(&e->ch, p, n, &peer_ops, NULL) == 0);
            channel_sent(&e->nc->ch, n);
        }
    }
}

/* Bytes that arrive over a link. */
static void deliver(struct world *w, struct peer_end *e, const uint8_t *p, size_t n)
{
    int rc;

    if (n == 0 || e->nc->dead)
        return;
    w->speaks = e;
    rc = channel_input(&e->nc->ch, p, n, &server_ops, &w->pr);
    w->speaks = NULL;
    check((rc == -EPROTO) == (e->nc->ch.state == CHANNEL_FAILED) && (rc == 0 || rc == -EPROTO));
    if (rc)
        broken(w, e, e->nc->ch.why);
    listen_to_server(w);
}

/* A sealed frame, kept. */
static void seal(struct peer_end *e, const uint8_t *payload, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)payload, n};
    const void *p;

    check(channel_send(&e->ch, &iov, 1) == 0);
    e->kept_len = channel_output(&e->ch, &p);
    e->kept = realloc(e->kept, e->kept_len);
    check(e->kept != NULL);
    memcpy(e->kept, p, e->kept_len);
    channel_sent(&e->ch, e->kept_len);
    hash(payload, n, e->sent);
    e->sent_len = n;
    e->n_sent++;
}

static void say_frame(struct world *w, struct peer_end *e, const uint8_t *payload, size_t n)
{
    if (e->nc->dead)
        return;
    seal(e, payload, n);
    deliver(w, e, e->kept, e->kept_len);
}

static void say_msg(struct world *w, struct peer_end *e, struct msg *m)
{
    say_frame(w, e, (const uint8_t *)m->p, m->len);
    msg_free(m);
}

/* A link whose two ends have proven who they are. The server dials when `dials`. */
static void connect_link(struct world *w, int i, uint32_t id, bool dials)
{
    struct peer_end *e = &w->peers[i];
    const void *p;
    size_t n;

    memcpy(&e->self, &w->nodes.net.self, sizeof(e->self));
    e->self.id = id;
    e->nc = calloc(1, sizeof(*e->nc));
    check(e->nc != NULL);
    e->nc->src.fd = -1;
    e->nc->dialled = dials;
    check(channel_init(&e->nc->ch, &w->nodes.net.self, dials, dials ? id : CHANNEL_NOBODY) == 0);
    check(channel_init(&e->ch, &e->self, !dials, dials ? CHANNEL_NOBODY : w->nodes.net.self.id) ==
          0);
    if (w->pr.agent && dials)
        w->nodes.agent.head = e->nc;
    for (bool any = true; any;) {
        any = false;
        n = channel_output(&e->ch, &p);
        if (n > 0) {
            check(channel_input(&e->nc->ch, p, n, &server_ops, &w->pr) == 0);
            channel_sent(&e->ch, n);
            any = true;
        }
        n = channel_output(&e->nc->ch, &p);
        if (n > 0) {
            check(channel_input(&e->ch, p, n, &peer_ops, NULL) == 0);
            channel_sent(&e->nc->ch, n);
            any = true;
        }
    }
    check(e->nc->ch.state == CHANNEL_OPEN && e->ch.state == CHANNEL_OPEN);
}

/* ---- the two worlds ---- */

static void begin_world(struct world *w)
{
    static char *environment[] = {(char *)(uintptr_t) "PATH=/bin", NULL};
    struct pmirun *pr = &w->pr;

    environ = environment;
    memset(w, 0, sizeof(*w));
    pr->jobs_tail = &pr->jobs;
    pr->by_pid.key = job_pid_of;
    pr->launch_tail = &pr->launch;
    pr->port.listener.fd = pr->input.src.fd = pr->port.diag_fd = -1;
    pr->opt.n_nodes = LINKS;
    pr->opt.node_s = 25;
    pr->opt.universe_size = -1;
    pr->opt.links = LINKS_TCP;
    pr->opt.shm_max_bytes = 1u << 20;
    pr->now_ns = pr->start_ns = 1;
    pr->nodes = &w->nodes;
    pr->output.out.src.fd = pr->output.err.src.fd = -1;
    pr->output.out.dead = pr->output.err.dead = true;
    memset(w->nodes.net.self.secret, 0x77, CHANNEL_SECRET_BYTES);
    memset(w->nodes.net.self.job, 0x55, CHANNEL_JOB_BYTES);
}

static struct app *one_app(uint32_t n_procs)
{
    struct app *app = calloc(1, sizeof(*app));

    check(app != NULL);
    app->n_procs = n_procs;
    app->argv = calloc(2, sizeof(*app->argv));
    check(app->argv != NULL);
    app->argv[0] = xprintf("prog");
    return app;
}

/* As an agent's first message; no command has brought it. */
static void come(struct world *w, int i)
{
    struct msg m = {0};

    msg_begin(&m, MSG_TRY);
    msg_u32(&m, 0);
    say_msg(w, &w->peers[i], &m);
}

static void ready(struct world *w, int i)
{
    struct msg m = {0};

    msg_begin(&m, MSG_READY);
    msg_u32(&m, 5000);
    msg_text(&m, NULL, 0);
    msg_string(&m, "name");
    say_msg(w, &w->peers[i], &m);
}

static void begin_head(struct world *w, bool with_prelude)
{
    struct pmirun *pr = &w->pr;
    struct job_plan plan = {.n_apps = 1};
    int err;

    pr->node = &head_node_ops;
    pr->head = &head_ops;
    w->nodes.net.self.id = CHANNEL_HEAD;
    net_init(pr, &head_net_ops);
    pr->opt.labels = pr->timeline.on = with_prelude;
    w->nodes.head.nodes = calloc(LINKS, sizeof(*w->nodes.head.nodes));
    w->nodes.head.starters = calloc(LINKS, sizeof(*w->nodes.head.starters));
    w->nodes.head.n_starters = LINKS;
    check(w->nodes.head.nodes != NULL && w->nodes.head.starters != NULL);
    for (uint32_t i = 0; i < LINKS; i++) {
        struct starter *s = &w->nodes.head.starters[i];

        *s = (struct starter){.src.fd = -1, .in = -1, .state = STARTER_EXITED, .first = i, .n = 1};
        w->nodes.head.nodes[i].id = i;
        w->nodes.head.nodes[i].name = xprintf("node%u", i);
    }
    plan.apps = one_app(4);
    plan.node_of = calloc(4, sizeof(*plan.node_of));
    check(plan.node_of != NULL);
    nodes_place(pr, 4, NULL, plan.node_of);
    check(job_create(pr, &plan, &err) != NULL && names_init(pr) == 0);
    for (int i = 0; i < LINKS; i++)
        connect_link(w, i, (uint32_t)i, false);
    for (int i = 0; i < LINKS; i++)
        come(w, i);
    for (int i = 0; i < LINKS && with_prelude; i++)
        ready(w, i);
}

/* What a head says first: how things are to be, and where the others are. */
static void tell_agent(struct world *w)
{
    struct msg m = {0};

    msg_begin(&m, MSG_SETUP);
    msg_u32(&m, 0);
    msg_u32(&m, 0);
    msg_u32(&m, MPI_AUTO);
    msg_u32(&m, 0);
    msg_string(&m, "");
    msg_string(&m, "");
    msg_string(&m, "");
    msg_u32(&m, 8);
    msg_u64(&m, 0);
    msg_u64(&m, 0);
    msg_u64(&m, 1u << 20);
    msg_string(&m, "/");
    msg_u32(&m, 0);
    say_msg(w, &w->peers[0], &m);
    msg_begin(&m, MSG_PEERS);
    msg_u32(&m, 0);
    msg_u32(&m, LINKS);
    for (uint32_t i = 0; i < LINKS; i++) {
        msg_string(&m, "192.0.2.1");
        msg_u32(&m, 5000 + i);
        msg_text(&m, NULL, 0);
    }
    say_msg(w, &w->peers[0], &m);
    msg_begin(&m, MSG_JOB);
    msg_u32(&m, 0);
    msg_u32(&m, 0);
    msg_u32(&m, MPI_AUTO);
    msg_string(&m, "kvs_0");
    msg_string(&m, NULL);
    msg_u32(&m, 0);
    msg_u32(&m, 1);
    msg_u32(&m, 4);
    msg_u32(&m, 1);
    msg_string(&m, "prog");
    msg_string(&m, NULL);
    msg_string(&m, NULL);
    msg_u32(&m, 0);
    msg_u32(&m, 0);
    msg_u32(&m, 0);
    msg_u32(&m, 2);
    msg_u32(&m, 1);
    msg_u32(&m, 2);
    msg_u32(&m, 0);
    msg_u32(&m, 2);
    msg_u32(&m, 0);
    say_msg(w, &w->peers[0], &m);
    check(w->pr.jobs && w->pr.launch == w->pr.jobs);
}

static void begin_agent(struct world *w, bool with_prelude)
{
    struct pmirun *pr = &w->pr;
    struct agent *a = &w->nodes.agent;

    pr->node = &agent_node_ops;
    pr->agent = &agent_ops;
    a->node = w->nodes.net.self.id = 1;
    a->n_nodes = LINKS;
    a->links = LINKS_TCP;
    a->early_tail = &a->early;
    a->boot.fd = -1;
    pr->output.out.dead = pr->output.err.dead = false;
    pr->output.out.room = pr->output.err.room = 1000;
    net_init(pr, &agent_net_ops);
    connect_link(w, 0, CHANNEL_HEAD, true);
    connect_link(w, 1, 0, false);
    connect_link(w, 2, 2, false);
    if (with_prelude)
        tell_agent(w);
}

static void end_agent(struct agent *a)
{
    while (a->early) {
        struct early *e = a->early;

        a->early = e->next;
        free(e);
    }
    for (uint32_t i = 0; i < a->n_nodes && a->peers; i++) {
        free(a->peers[i].address);
        free(a->peers[i].ucx);
    }
    free(a->peers);
    msg_free(&a->msg);
    msg_free(&a->frame);
}

static void end_world(struct world *w)
{
    struct pmirun *pr = &w->pr;

    input_close(pr);
    far_stop(pr);
    while (pr->jobs) {
        struct job *job = pr->jobs;

        pr->jobs = job->next;
        for (uint32_t i = 0; i < job->n_local; i++) {
            free(job->ranks[i].out.part);
            free(job->ranks[i].err.part);
        }
        if (!job->spawned)
            spawn_free_apps(job->apps, job->n_apps);
        job_free(pr, job);
    }
    pmiwire_server_destroy(pr->server);
    end_agent(&w->nodes.agent);
    for (uint32_t i = 0; i < LINKS && w->nodes.head.nodes; i++) {
        free(w->nodes.head.nodes[i].name);
        free(w->nodes.head.nodes[i].ucx);
    }
    free(w->nodes.head.nodes);
    free(w->nodes.head.starters);
    for (int i = 0; i < LINKS; i++) {
        channel_fini(&w->peers[i].ch);
        channel_fini(&w->peers[i].nc->ch);
        free(w->peers[i].nc);
        free(w->peers[i].kept);
    }
    free(pr->output.out.buf);
    free(pr->output.err.buf);
    free(pr->by_pid.slots);
    input_close(pr);
    free(pr->input.feeds);
    free(pr->input.buf);
    free(pr->opt.map_by);
    free(pr->opt.bind_to);
    free(pr->opt.topology);
    place_policy_free(&pr->opt.place);
    free(pr->timeline.events);
    free(pr->timeline.clocks);
    msg_free(&pr->timeline.packed);
}

/* ---- what must hold after each step ---- */

static void judge(struct world *w)
{
    const struct pmirun *pr = &w->pr;
    uint64_t n_live = 0, n_streams = 0;
    size_t early = 0;

    for (const struct job *job = pr->jobs; job; job = job->next) {
        uint32_t here = 0;

        for (uint32_t i = 0; i < job->n_local; i++) {
            here += job->ranks[i].state == RANK_RUNNING;
            n_streams += output_is_open(&job->ranks[i].out) + output_is_open(&job->ranks[i].err);
        }
        check(here == job->n_live && job->n_launched <= job->n_local);
        check(!pr->agent || job->n_local > 0); /* what launch.c relies on */
        n_live += here;
    }
    check(n_live == pr->n_live && n_streams == pr->output.n_streams);
    for (const struct early *e = w->nodes.agent.early; e; e = e->next)
        early += e->n;
    check(early == w->nodes.agent.early_bytes);
    for (uint32_t i = 0; pr->head && i < LINKS; i++)
        if (w->peers[i].nc->dead)
            check(w->nodes.head.nodes[i].done ||
                  (w->nodes.head.nodes[i].lost && (pr->stopping || w->nodes.head.ending)));
    if (pr->agent && w->peers[0].nc->dead)
        check(w->nodes.agent.over);
}

/* ---- steps ---- */

/* An agent's ranks begin, as launch.c would have it. */
static void launch_all(struct pmirun *pr)
{
    static int next;

    while (pr->launch) {
        struct job *job = pr->launch;

        launch_drop(pr, job);
        for (; job->n_launched < job->n_local; job->n_launched++) {
            struct rank *r = &job->ranks[job->n_launched];

            r->pid = FIRST_PID + next++ % 1000000;
            r->state = RANK_RUNNING;
            job->n_live++;
            pr->n_live++;
            check(rank_index_reserve(&pr->by_pid) == 0);
            rank_index_add(&pr->by_pid, r);
            pr->agent->started(pr, r);
        }
        pr->agent->launched(pr, job);
    }
}

/* The which-th of them that runs ends. */
static void end_rank(struct pmirun *pr, unsigned which)
{
    siginfo_t si = {0};

    si.si_code = which & 1 ? CLD_EXITED : CLD_KILLED;
    si.si_status = which & 1 ? 0 : 9;
    which /= 2;
    for (struct job *job = pr->jobs; job; job = job->next)
        for (uint32_t i = 0; i < job->n_local; i++)
            if (job->ranks[i].state == RANK_RUNNING && which-- == 0) {
                job_rank_exited(pr, &job->ranks[i], &si);
                far_rank_gone(pr, &job->ranks[i]); /* as the host does */
                return;
            }
}

static void pass_time(struct pmirun *pr, unsigned how_much)
{
    pr->now_ns += how_much * 50 * NS_PER_MS;
    if (pr->agent) {
        if (pr->server)
            pmiwire_server_tick(pr->server, pr->now_ns);
        far_tick(pr);
        launch_all(pr);
        if (!pr->n_live && pr->node->may_end(pr))
            pr->node->ended(pr);
    } else {
        pr->node->run_deadlines(pr);
        if (!pr->n_live && !job_is_accused(pr))
            pr->node->may_end(pr);
    }
}

/* A frame that is delivered not as it was sent. */
static void spoil(struct world *w, struct peer_end *e, unsigned op, unsigned arg,
                  const uint8_t *payload, size_t n)
{
    size_t at;

    if (op == 2) { /* twice */
        if (e->kept_len)
            deliver(w, e, e->kept, e->kept_len);
        return;
    }
    seal(e, payload, n);
    if (op == 5) { /* never */
        e->out_of_turn = e->n_sent;
        e->kept_len = 0;
        return;
    }
    at = arg % e->kept_len;
    e->kept[at] ^= (uint8_t)(1u << arg % 8);
    w->altered = true;
    deliver(w, e, e->kept, e->kept_len);
    w->altered = false;
    e->out_of_turn = e->n_sent;
    if (at >= 4)
        e->kept_len = 0; /* it is not to be sent again as if it were the true one */
    else if (!e->nc->dead)
        broken(w, e, "the rest of it does not come");
}

static size_t step(struct world *w, const uint8_t *data, size_t size)
{
    unsigned op = data[0] & 7, arg = data[1];
    struct peer_end *e = &w->peers[(data[0] >> 3) % LINKS];
    size_t n = op == 0 || op == 1 || op == 3 || op == 4 || op == 5 ? arg : 0;

    n = n < size - 2 ? n : size - 2;
    if (e->nc->dead && op != 6)
        return 2 + n;
    switch (op) {
    case 0: say_frame(w, e, data + 2, n); break;
    case 1: /* in two pieces */
        seal(e, data + 2, n);
        deliver(w, e, e->kept, arg % e->kept_len);
        deliver(w, e, e->kept + arg % e->kept_len, e->kept_len - arg % e->kept_len);
        break;
    case 4: /* no frame at all, and so the end of what can be understood */
        w->altered = true;
        deliver(w, e, data + 2, n);
        broken(w, e, "nonsense");
        w->altered = false;
        break;
    case 6: pass_time(&w->pr, arg); break;
    case 7:
        if (w->pr.agent && (arg & 0xf0) != 0xf0)
            end_rank(&w->pr, arg);
        else
            broken(w, e, "it closed the connection");
        break;
    default: spoil(w, e, op, arg, data + 2, n);
    }
    return 2 + n;
}

static void run_world(struct world *w, const uint8_t *data, size_t size)
{
    size_t at = 0;

    while (at + 2 <= size) {
        at += step(w, data + at, size - at);
        listen_to_server(w);
        job_judge(&w->pr);
        w->pr.node->progress(&w->pr);
        listen_to_server(w);
        job_bury(&w->pr);
        listen_to_server(w);
        judge(w);
    }
}

/* ---- somebody without the secret ---- */

static bool never_opened(void *ctx, struct channel *c)
{
    (void)ctx, (void)c;
    abort();
}

static bool never_frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    (void)ctx, (void)c, (void)p, (void)n;
    abort();
}

static const struct channel_ops never = {never_opened, never_frame, peer_replayed};

/* Its bytes in pieces, whose lengths are among them. With `shaped`, their beginning is what a
 * message of the handshake begins with. */
static void stranger(const uint8_t *data, size_t size, bool dials, bool shaped)
{
    struct channel_self self = {.id = 1};
    uint8_t first[32] = "FPNL\2\0\0\0";
    struct channel c;
    const void *p;
    size_t at = 0;
    int rc = 0;

    memset(self.secret, 0x77, sizeof(self.secret));
    memset(self.job, 0x55, sizeof(self.job));
    memset(first + 8, 0x55, CHANNEL_JOB_BYTES);
    first[24] = 2;
    first[28] = 1;
    if (dials)
        memcpy(first, "FPNA", 4);
    check(channel_init(&c, &self, dials, dials ? 2 : CHANNEL_NOBODY) == 0);
    if (dials)
        channel_sent(&c, channel_output(&c, &p));
    if (shaped)
        rc = channel_input(&c, first, dials ? 8 : 32, &never, NULL);
    while (at < size) {
        size_t n = 1 + data[at] % 80;

        n = n < size - at ? n : size - at;
        check(rc == 0 || c.state == CHANNEL_FAILED);
        rc = channel_input(&c, data + at, n, &never, NULL);
        at += n;
        check(c.state != CHANNEL_OPEN && c.in.cap == 0 && c.unsent.cap == 0 && c.out.cap <= 4096);
        check(rc == 0 || (rc == -EPROTO && c.why && channel_output(&c, &p) == 0));
    }
    channel_fini(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;

    if (size < 1)
        return 0;
    randombytes_set_implementation(&same_numbers);
    if (data[0] & 2) {
        stranger(data + 1, size - 1, data[0] & 1, data[0] & 4);
        return 0;
    }
    begin_world(&w);
    if (data[0] & 1)
        begin_agent(&w, data[0] & 4);
    else
        begin_head(&w, data[0] & 4);
    run_world(&w, data + 1, size - 1);
    end_world(&w);
    return 0;
}

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
#include <string.h>
#include <unistd.h>

#include "../../../examples/pmirun/local/host.h"
#include "../../../examples/pmirun/local/job_end.h"
#include "../../../examples/pmirun/local/rank_end.h"
#include "../../../examples/pmirun/local/spawn.h"
#include "channel_world.h"
#include "fuzz.h"

extern char **environ;

/* ---- the two worlds ---- */

static void begin_world(struct world *w)
{
    static char *environment[] = {(char *)(uintptr_t) "PATH=/bin", NULL};
    struct pmirun *pr = &w->pr;

    environ = environment;
    memset(w, 0, sizeof(*w));
    memset(&loop, 0, sizeof(loop));
    memset(&messages, 0, sizeof(messages));
    stdin_copy = &pr->input.src;
    pmirun_init(pr);
    pr->opt.n_nodes = LINKS;
    pr->opt.node_s = 25;
    pr->opt.universe_size = -1;
    pr->opt.shm_max_bytes = 1u << 20;
    loop.now_ns = loop.start_ns = 1;
    pr->output.out.src.fd = pr->output.err.src.fd = -1;
    pr->output.out.dead = pr->output.err.dead = true;
}

void begin_net(struct world *w, struct net *net, uint32_t id)
{
    w->net = net;
    memset(net->self.secret, 0x77, CHANNEL_SECRET_BYTES);
    memset(net->self.job, 0x55, CHANNEL_JOB_BYTES);
    net->self.id = id;
}

static void end_world(struct world *w)
{
    struct pmirun *pr = &w->pr;

    input_close(&pr->input);
    host_stop();
    while (pr->jobs.first) {
        struct job *job = pr->jobs.first;

        pr->jobs.first = job->next;
        for (uint32_t i = 0; i < job->n_local; i++) {
            free(job->ranks[i].out.part);
            free(job->ranks[i].err.part);
        }
        if (!job->spawned)
            apps_free(job->apps, job->n_apps);
        job_release(job);
    }
    pmiwire_server_destroy(pr->pmi.server);
    end_agent(&w->agent);
    end_head(&w->head);
    for (int i = 0; i < LINKS; i++) {
        channel_fini(&w->peers[i].ch);
        channel_fini(&w->peers[i].nc->ch);
        free(w->peers[i].nc);
        free(w->peers[i].kept);
    }
    free(pr->output.out.buf);
    free(pr->output.err.buf);
    input_close(&pr->input);
    free(pr->input.feeds);
    free(pr->opt.map_by);
    free(pr->opt.bind_to);
    free(pr->opt.topology);
    free(pr->opt.place.list);
    free(pr->timeline.events);
    free(pr->timeline.clocks);
}

/* ---- what must hold after each step ---- */

static void judge(struct world *w)
{
    const struct pmirun *pr = &w->pr;
    uint64_t n_live = 0, n_streams = 0;
    size_t early = 0;

    for (const struct job *job = pr->jobs.first; job; job = job->next) {
        uint32_t here = 0;

        for (uint32_t i = 0; i < job->n_local; i++) {
            here += job->ranks[i].state == RANK_RUNNING;
            n_streams += output_is_open(&job->ranks[i].out) + output_is_open(&job->ranks[i].err);
        }
        check(here == job->n_live && job->n_launched <= job->n_local);
        check(!pr->jobs.agent || job->n_local > 0); /* what launch.c relies on */
        n_live += here;
    }
    check(n_live == pr->jobs.n_live && n_streams == pr->output.n_streams);
    for (const struct early *e = w->agent.early; e; e = e->next)
        early += e->n;
    check(early == w->agent.early_bytes);
    for (uint32_t i = 0; pr->jobs.head && i < LINKS; i++)
        if (w->peers[i].nc->dead)
            check(w->head.nodes[i].done ||
                  (w->head.nodes[i].lost && (pr->jobs.stopping || w->head.ending)));
    if (pr->jobs.agent && w->peers[0].nc->dead)
        check(w->agent.over);
}

/* ---- steps ---- */

static void pass_time(struct pmirun *pr, unsigned how_much)
{
    struct jobs *jobs = &pr->jobs;

    loop.now_ns += how_much * 50 * NS_PER_MS;
    timers_run();
    if (jobs->agent) {
        if (pr->pmi.server)
            pmiwire_server_tick(pr->pmi.server, loop.now_ns);
        launch_all(jobs);
        if (!jobs->n_live && nodes_may_end(jobs))
            nodes_ended(jobs);
    } else {
        nodes_progress(jobs);
        if (!jobs->n_live && !job_end_is_pending(jobs))
            nodes_may_end(jobs);
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
        if (w->pr.jobs.agent && (arg & 0xf0) != 0xf0)
            end_rank(&w->pr.jobs, arg);
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
        job_decide_end(&w->pr.jobs);
        jobs_progress(&w->pr.jobs);
        nodes_progress(&w->pr.jobs);
        listen_to_server(w);
        jobs_free_ended(&w->pr.jobs);
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
    channel_init(&c, &self, dials, dials ? 2 : CHANNEL_NOBODY);
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
    check(channel_start(abort) == 0);
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

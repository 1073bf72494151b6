/* SPDX-License-Identifier: BSD-3-Clause */
/* The head's nodes: its orders to agents, and the loss of a node. */
#define _GNU_SOURCE
#include "head.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../local/job_end.h"
#include "../local/pmirun.h"
#include "agent.h"
#include "job_message.h"
#include "step.h"

#define END_NS   (8 * NS_PER_S)  /* for agents to end their last ranks */
#define REAP_NS  (10 * NS_PER_S) /* for ssh and srun to leave after their agents: Slurm is slow */
#define HUNG_NS  (6 * NS_PER_S)  /* after SIGKILL, for agents to report their ranks' end */
#define NEVER_S  1e9             /* the longest --start-timeout, which 0 stands for */
#define NAMED    8u              /* nodes that a message names besides the first */
#define OWED_MIN 65536u
/* questions without an answer; --node-timeout has one interval more */
#define ASKS 4u

const char *head_node_name(const struct head *h, uint32_t node)
{
    return h->nodes[node].name;
}

/* ---- orders to agents ---- */

struct msg *head_msg(struct head *h, enum message what)
{
    msg_begin(&h->msg, what);
    return &h->msg;
}

void nodes_tell(struct head *h, struct node *node)
{
    /* without a link, its loss is reported already */
    int rc = node->link ? net_send(node->link, h->msg.p, h->msg.len) : 0;

    if (rc && rc != -EPIPE)
        nodes_lost(h, node, strerror(-rc));
}

static void nodes_tell_all(struct head *h)
{
    for (uint32_t i = 0; i < h->opt->n_nodes; i++)
        nodes_tell(h, &h->nodes[i]);
}

void head_order(struct head *h, enum message what, uint32_t number)
{
    msg_u32(head_msg(h, what), number);
    nodes_tell_all(h);
}

void head_give_room(struct head *h, bool is_err)
{
    const uint32_t which = is_err;

    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        struct node *node = &h->nodes[i];
        struct msg *m;

        if (node->owed[which] < OWED_MIN)
            continue;
        m = head_msg(h, MSG_ROOM);
        msg_u32(m, which + 1);
        msg_u32(m, node->owed[which]);
        node->owed[which] = 0;
        nodes_tell(h, node);
    }
}

bool head_send_input(struct head *h, const char *p, size_t n)
{
    const uint32_t rank = h->opt->stdin_rank;
    bool any = false;

    msg_text(head_msg(h, MSG_INPUT), p, n);
    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        struct node *node = &h->nodes[i];

        if (!node->link || (rank != STDIN_ALL && h->jobs->first->ranks[rank].node != i))
            continue;
        nodes_tell(h, node);
        any = true;
    }
    return any;
}

/* ---- jobs ---- */

/* The nodes named in `hosts`, in this order and as often, or all; to be freed. 0: a name is not a
 * node of ours. */
static uint32_t named_nodes(const struct head *h, const char *hosts, uint32_t **to)
{
    const uint32_t all = h->opt->n_nodes;
    uint32_t n = 0, i, *nodes;
    char *list, *save = NULL;

    nodes = *to = xrealloc(NULL, (hosts ? strlen(hosts) / 2 + 1 : all) * sizeof(*nodes));
    if (!hosts) {
        for (; n < all; n++)
            nodes[n] = n;
        return n;
    }
    list = xprintf("%s", hosts);
    for (char *w = strtok_r(list, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
        for (i = 0; i < all && strcmp(w, head_node_name(h, i)) != 0; i++)
            ;
        if (i == all) {
            n = 0;
            break;
        }
        nodes[n++] = i;
    }
    free(list);
    return n;
}

/* How many ranks a node gets before the ranks begin again at the first: of the command line's job
 * its slots, if there are such; else its share. The first ones get the remainder. */
static uint32_t node_share(const struct head *h, uint32_t i, uint32_t n, uint32_t n_nodes)
{
    uint32_t slots = 0;

    if (!h->jobs->first)
        slots = h->opt->given.n_hosts ? h->opt->given.slots[i] : h->opt->per_host;
    return slots ? slots : n / n_nodes + (i < n % n_nodes);
}

bool head_place_ranks(const struct head *h, uint32_t n, const char *hosts, uint32_t *node_of)
{
    uint32_t *nodes, n_nodes = named_nodes(h, hosts, &nodes);
    uint32_t *left = xrealloc(NULL, n_nodes * sizeof(*left));
    uint64_t n_left = 0;

    for (uint32_t i = 0, k = 0; n_nodes && k < n; i = (i + 1) % n_nodes) {
        if (n_left == 0) {
            for (i = 0; i < n_nodes; i++)
                n_left += left[i] = node_share(h, i, n, n_nodes);
            i = 0;
        }
        for (bool more = true; more && left[i] && k < n; more = !h->opt->cyclic) {
            node_of[k++] = nodes[i];
            left[i]--;
            n_left--;
        }
    }
    free(left);
    free(nodes);
    return n_nodes > 0;
}

/* May PMIx clients of nodes without a rank of the job name it? Then these nodes confirm too before
 * the spawner gets its answer: libpmix must know a namespace before clients connect to it. */
static bool job_is_for_all(const struct head *h, const struct job *job)
{
    return job->mpi == MPI_PMIX ||
           (job->number == 0 && h->opt->mpi != MPI_PMI && h->opt->mpi != MPI_OPENMPI);
}

void head_launch_job(struct head *h, struct job *job, const struct msg_in *preputs)
{
    const uint32_t n_nodes = h->opt->n_nodes;
    bool *has;
    struct msg *m = head_msg(h, MSG_JOB);
    struct msg_fields f = {.out = m};

    job_fields(&f, job, n_nodes);
    if (preputs)
        msg_bytes(m, preputs->p, preputs->left);
    else
        msg_u32(m, 0);
    if (job->spawned && !spawn_fits(m)) {
        job_spawn_failed(job, -EMSGSIZE);
        return;
    }
    has = xrealloc(NULL, n_nodes * sizeof(*has));
    memset(has, 0, n_nodes * sizeof(*has));
    for (uint32_t i = 0; i < job->n_ranks; i++)
        has[job->node_of[i]] = true;
    for (uint32_t i = 0; i < n_nodes; i++) {
        job->n_members += has[i];
        job->n_launching += has[i] || job_is_for_all(h, job);
    }
    for (uint32_t i = 0; i < n_nodes; i++)
        if (has[i] || job_is_for_all(h, job))
            nodes_tell(h, &h->nodes[i]);
    free(has);
}

/* ---- the beginning ---- */

/* Stops the job if agents have not come in time. Names all of these nodes, up to a few. */
static void lose_silent(void *of)
{
    struct head *h = of;
    char *how = xprintf("no answer within %g s", h->opt->start_s + h->opt->wait_s), *why;
    uint32_t n = 0, first = 0;

    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        if (h->nodes[i].ready)
            continue;
        if (n++ == 0)
            first = i;
        else if (n <= 1 + NAMED)
            how = xappend(how, "%s %s", n == 2 ? ", nor from" : ",", h->nodes[i].name);
    }
    if (n > 1 + NAMED)
        how = xappend(how, " and %u more", n - 1 - NAMED);
    why = starters_silent(h, first, how);
    free(how);
    for (uint32_t i = 0; i < h->opt->n_nodes; i++)
        if (!h->nodes[i].ready)
            nodes_lost(h, &h->nodes[i], why);
    free(why);
}

/* Three descriptors a node, and some for unauthenticated peers. Raises the limit only if needed,
 * since ssh and srun inherit it. */
static void check_limit(const struct options *opt)
{
    const uint32_t n_nodes = opt->n_nodes;
    rlim_t need = 4 * (rlim_t)n_nodes + NET_MAX_STRANGERS + 64 +
                  (rlim_t)opt->n_procs * ((opt->outfile != NULL) + (opt->errfile != NULL));
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur >= need)
        return;
    lim.rlim_cur = need;
    if (need > lim.rlim_max || setrlimit(RLIMIT_NOFILE, &lim) != 0)
        die(STATUS_RESOURCES,
            "%u nodes and their output need %llu descriptors, the limit is %llu: raise it (ulimit "
            "-n)",
            n_nodes, (unsigned long long)need, (unsigned long long)lim.rlim_max);
}

static void start_head(struct head *h)
{
    static char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *cwd = getcwd(NULL, 0);
    int rc;

    if (n < 0)
        die(STATUS_RESOURCES, "cannot find pmirun for the nodes: /proc/self/exe: %s",
            strerror(errno));
    self[n] = '\0';
    if (!cwd)
        die(STATUS_NOEXEC, "cannot find the working directory for the nodes: %s", strerror(errno));
    free(cwd);
    check_limit(h->opt);
    net_init(&h->net, h->opt, &head_net_ops, h);
    random_bytes(h->net.self.secret, CHANNEL_SECRET_BYTES);
    random_bytes(h->net.self.job, CHANNEL_JOB_BYTES);
    h->net.self.id = CHANNEL_HEAD;
    rc = net_listen(&h->net, h->opt->launch == LAUNCH_FORK ? "127.0.0.1" : NULL, &h->port);
    if (rc)
        die(STATUS_RESOURCES, "cannot listen: %s", strerror(-rc));
    h->nodes = xrealloc(NULL, h->opt->n_nodes * sizeof(*h->nodes));
    memset(h->nodes, 0, h->opt->n_nodes * sizeof(*h->nodes));
    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        h->nodes[i].id = i;
        h->nodes[i].name = h->opt->given.n_hosts && h->opt->launch != LAUNCH_SRUN
                               ? xprintf("%s", h->opt->given.hosts[i])
                               : xprintf("node%u", i);
    }
    timer_call(&h->start,
               loop.now_ns + (uint64_t)((h->opt->start_s > 0 ? h->opt->start_s : NEVER_S) * 1e9) +
                   (uint64_t)(h->opt->wait_s * 1e9),
               lose_silent, h);
    starters_init(h, self);
}

/* True for variables whose value belongs to the node. */
static bool is_of_node(const char *var)
{
    static const char *const names[] = {
        "HOSTNAME=",       "HOST=",          "SSH_CLIENT=", "SSH_CONNECTION=",
        "SSH_TTY=",        "SSH_AUTH_SOCK=", "TMPDIR=",     "XDG_RUNTIME_DIR=",
        "XDG_SESSION_ID=", "SLURM",          "_=",          NULL};

    return begins_with(var, names);
}

static void tell_setup(struct head *h)
{
    struct options opt = *h->opt;
    struct setup setup = {.opt = &opt, .timeline = h->jobs->timeline->on, .cwd = getcwd(NULL, 0)};
    struct msg_fields f = {.out = head_msg(h, MSG_SETUP)};

    setup.vars = xrealloc(NULL, (strings_count(environ) + 1) * sizeof(*setup.vars));
    for (char **e = environ; *e; e++)
        if (!is_of_node(*e))
            setup.vars[setup.n_vars++] = *e;
    opt.one_host = opt.launch == LAUNCH_FORK;
    setup_fields(&f, &setup);
    timeline_asked(h->jobs->timeline, h->opt->n_nodes);
    nodes_tell_all(h);
    free(setup.vars);
    free(setup.cwd);
}

/* Sends each agent's address to all. */
static void tell_peers(struct head *h)
{
    const struct node *nodes = h->nodes;
    struct msg *m = head_msg(h, MSG_PEERS);

    msg_u32(m, h->opt->n_nodes);
    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        msg_string(m, nodes[i].address);
        msg_u32(m, nodes[i].port);
    }
    nodes_tell_all(h);
}

/*
 * Silence. The kernel's keep-alive (net.c) notices a cut link, but answers for an agent that is
 * stopped or hangs; so the head asks. It counts questions, not time: a head that was stopped itself
 * has not asked meanwhile.
 */
static void ask_all(void *of);

static void ask_later(struct head *h)
{
    if (h->opt->node_s > 0)
        timer_call(&h->ask, loop.now_ns + (uint64_t)(h->opt->node_s * 1e9) / (ASKS + 1), ask_all,
                   h);
}

static void ask_all(void *of)
{
    struct head *h = of;
    char why[64];

    if (h->ending)
        return;
    ask_later(h);

    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        struct node *node = &h->nodes[i];

        node->n_unanswered = node->heard ? 0 : node->n_unanswered + 1;
        node->heard = false;
        snprintf(why, sizeof(why), "it has been silent for %g s", h->opt->node_s);
        if (node->link && node->n_unanswered >= ASKS)
            nodes_lost(h, node, why);
    }
    head_order(h, MSG_ASK, 0);
}

void nodes_ready(struct head *h, struct node *node)
{
    node->ready = true;
    timeline_node(h->jobs->timeline, node->id, TIMELINE_READY);
    log_verbose("node %u is %s, at %s:%u", node->id, node->name, node->address, node->port);
    if (++h->n_ready < h->opt->n_nodes || h->jobs->stopping)
        return;
    timer_set(&h->start, 0);
    ask_later(h);
    tell_setup(h);
    tell_peers(h);
    if (h->opt->launch == LAUNCH_STEP && !step_is_whole(h)) {
        job_stop(h->jobs, STATUS_NODE);
        return;
    }
    h->jobs->at.launch_begin = loop.now_ns - loop.start_ns;
    head_launch_job(h, h->jobs->first, NULL);
    if (h->opt->stdin_rank != STDIN_NONE)
        input_start(h->input);
}

/* ---- the end ---- */

/* True: some had not sent all of their output. */
static bool forget_ranks(struct head *h, uint32_t node)
{
    bool cut = false;

    for (struct job *job = h->jobs->first; job; job = job->next) {
        for (uint32_t i = 0; i < job->n_ranks; i++) {
            struct rank *r = &job->ranks[i];

            if (r->node != node)
                continue;
            cut = cut || output_is_open(&r->out) || output_is_open(&r->err);
            output_close(h->output, &r->out);
            output_close(h->output, &r->err);
            if (r->state != RANK_RUNNING)
                continue;
            r->state = RANK_EXITED;
            job->n_live--;
            h->jobs->n_live--;
        }
    }
    return cut;
}

void nodes_lost(struct head *h, struct node *node, const char *why)
{
    bool cut;

    if (node->lost || node->done)
        return;
    node->lost = true;
    timeline_node(h->jobs->timeline, node->id, TIMELINE_LOST);
    if (node->link) {
        net_close(node->link);
        node->link = NULL;
    }
    cut = forget_ranks(h, node->id);
    if (h->jobs->stopping || (h->ending && !cut))
        log_verbose("node %u (%s) is lost: %s", node->id, node->name, why);
    else
        log_message("node %u (%s) is lost: %s; %s", node->id, node->name, why,
                    h->ending ? "the rest of its ranks' output is missing" : "stopping the job");
    if (!h->ending || h->jobs->stopping)
        job_stop(h->jobs, STATUS_NODE);
    else if (cut)
        job_set_status(h->jobs, STATUS_NODE);
}

void nodes_done(struct head *h, struct node *node)
{
    node->done = true;
    forget_ranks(h, node->id);
    net_close(node->link); /* the agent waits for that */
    node->link = NULL;
}

static void begin_end(struct head *h)
{
    h->ending = true;
    timer_set(&h->start, 0);
    timer_set(&h->jobs->timeout, 0); /* --timeout is for processes, not for readers */
    timer_set(&h->end, loop.now_ns + END_NS);
    input_close(h->input);
    head_order(h, MSG_END, 0);
    starters_stop(h);
}

/* Agents cannot end while readers of our output delay their ranks' output. */
static void settle_end(struct head *h)
{
    if (!h->output->n_full[0] && !h->output->n_full[1])
        return;
    if (!h->jobs->stopping || !h->jobs->hasty)
        timer_set(&h->end, loop.now_ns + END_NS);
    else if (timer_passed(&h->jobs->drain) && !timer_passed(&h->end))
        timer_set(&h->end, loop.now_ns);
}

static bool head_may_end(struct head *h)
{
    bool waits = false;

    if (!h->ending) {
        for (const struct job *job = h->jobs->first; job && !h->jobs->stopping; job = job->next)
            if (!job->abandoned && (job->n_launching || h->start.waits))
                return false;
        begin_end(h);
    }
    settle_end(h);
    for (uint32_t i = 0; i < h->opt->n_nodes; i++) {
        if (h->nodes[i].link && timer_passed(&h->end))
            nodes_lost(h, &h->nodes[i], "it does not end");
        waits = waits || h->nodes[i].link;
    }
    if (waits)
        return false;
    if (!h->reap.at)
        timer_set(&h->reap, loop.now_ns + REAP_NS);
    return starters_end(h) || timer_passed(&h->reap);
}

/* What no message and no timer brings about. */
static void head_progress(struct head *h)
{
    starters_more(h);
    if (h->jobs->stopping && h->jobs->n_live && !h->ending && h->jobs->drain.at &&
        loop.now_ns >= h->jobs->drain.at + HUNG_NS)
        for (uint32_t i = 0; i < h->opt->n_nodes; i++)
            nodes_lost(h, &h->nodes[i], "its ranks do not end");
}

void head_stats(const struct head *h, struct pmiwire_stats_server *s)
{
    *s = h->counters.stats;
}

/* ---- what the loop calls (role.h) ---- */

static struct net *net_of(const struct jobs *jobs)
{
    return jobs->head ? &jobs->head->net : jobs->agent ? &jobs->agent->net : NULL;
}

void nodes_progress(const struct jobs *jobs)
{
    if (jobs->head)
        head_progress(jobs->head);
    if (jobs->agent)
        agent_progress(jobs->agent);
}

void nodes_flush(const struct jobs *jobs)
{
    net_flush(net_of(jobs));
}

void nodes_free_closed(const struct jobs *jobs)
{
    net_free_closed(net_of(jobs));
}

bool nodes_may_end(const struct jobs *jobs)
{
    return (!jobs->head || head_may_end(jobs->head)) &&
           (!jobs->agent || agent_may_end(jobs->agent));
}

bool nodes_ended(const struct jobs *jobs)
{
    return !jobs->agent || agent_ended(jobs->agent);
}

void nodes_stop(const struct jobs *jobs)
{
    if (jobs->head)
        pmiwire_server_destroy(jobs->head->names);
    if (net_of(jobs))
        explicit_bzero(&net_of(jobs)->self, sizeof(net_of(jobs)->self));
}

void head_set_up(struct pmirun *pr)
{
    static struct head head;
    struct head *h = &head;
    uint32_t *node_of;
    int err;

    h->opt = &pr->opt;
    h->jobs = &pr->jobs;
    h->output = &pr->output;
    h->input = &pr->input;
    h->orig_mask = &pr->signals.orig_mask;
    pr->jobs.head = pr->input.head = h;
    (void)open_standard(); /* a failure comes again below */
    loop_init(pr);
    node_of = xrealloc(NULL, pr->opt.n_procs * sizeof(*node_of));
    head_place_ranks(h, pr->opt.n_procs, NULL, node_of);
    job_create_first(&pr->jobs, node_of);
    err = names_init(h);
    if (err)
        die(STATUS_RESOURCES, "cannot keep published names: %s", pmiwire_strerror(err));
    start_head(h);
}

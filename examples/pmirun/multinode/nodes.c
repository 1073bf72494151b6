/* SPDX-License-Identifier: BSD-3-Clause */
/* The head's nodes: its orders to agents, and the loss of a node. */
#define _GNU_SOURCE
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "step.h"

#define END_NS   (8 * NS_PER_S) /* for agents to end their last ranks */
#define REAP_NS  (2 * NS_PER_S) /* for ssh and srun to leave after their agents */
#define HUNG_NS  (6 * NS_PER_S) /* after SIGKILL, for agents to report their ranks' end */
#define NEVER_S  1e9            /* the longest --start-timeout, which 0 stands for */
#define NAMED    8u             /* nodes that a message names besides the first */
#define OWED_MIN 65536u
/* questions without an answer; --node-timeout has one interval more */
#define ASKS 4u

extern char **environ;

const char *head_node_name(const struct pmirun *pr, uint32_t node)
{
    return pr->nodes->head.nodes[node].name;
}

/* ---- orders to agents ---- */

void nodes_tell(struct pmirun *pr, struct node *node, const struct msg *m)
{
    int rc =
        node->link ? net_send(pr, node->link, m->p, m->len) : 0; /* its loss is reported already */

    if (rc && rc != -EPIPE)
        nodes_lost(pr, node, strerror(-rc));
}

void nodes_tell_all(struct pmirun *pr, const struct msg *m)
{
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        nodes_tell(pr, &pr->nodes->head.nodes[i], m);
}

static void tell_number(struct pmirun *pr, enum message what, uint32_t number)
{
    struct msg m = {0};

    msg_begin(&m, what);
    msg_u32(&m, number);
    nodes_tell_all(pr, &m);
    msg_free(&m);
}

void head_signal_ranks(struct pmirun *pr, int sig)
{
    tell_number(pr, MSG_SIGNAL, (uint32_t)sig);
}

void head_stop_launch(struct pmirun *pr)
{
    tell_number(pr, MSG_STOP, 0);
}

void head_abandon_job(struct pmirun *pr, const struct job *job)
{
    tell_number(pr, MSG_ABANDON, job->number);
}

void head_announce_end(struct pmirun *pr, const struct job *job)
{
    tell_number(pr, MSG_OVER, job->number);
}

void head_give_room(struct pmirun *pr, bool is_err)
{
    const uint32_t which = is_err;
    struct msg m = {0};

    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        struct node *node = &pr->nodes->head.nodes[i];

        if (node->owed[which] < OWED_MIN)
            continue;
        msg_begin(&m, MSG_ROOM);
        msg_u32(&m, which + 1);
        msg_u32(&m, node->owed[which]);
        node->owed[which] = 0;
        nodes_tell(pr, node, &m);
    }
    msg_free(&m);
}

bool nodes_send_input(struct pmirun *pr, const char *p, size_t n)
{
    const uint32_t rank = pr->opt.stdin_rank;
    struct msg m = {0};
    bool any = false;

    msg_begin(&m, MSG_INPUT);
    msg_text(&m, p, n);
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        struct node *node = &pr->nodes->head.nodes[i];

        if (!node->link || (rank != STDIN_ALL && pr->jobs->ranks[rank].node != i))
            continue;
        nodes_tell(pr, node, &m);
        any = true;
    }
    msg_free(&m);
    return any;
}

/* ---- jobs ---- */

/* The nodes named in `hosts`, in this order, or all; 0: a name is not a node of ours. */
static uint32_t named_nodes(const struct pmirun *pr, const char *hosts, uint32_t *nodes)
{
    uint32_t n = 0, i;
    char *list, *save = NULL;

    if (!hosts) {
        for (; n < pr->opt.n_nodes; n++)
            nodes[n] = n;
        return n;
    }
    list = xprintf("%s", hosts);
    for (char *h = strtok_r(list, ", ", &save); h; h = strtok_r(NULL, ", ", &save)) {
        for (i = 0; i < pr->opt.n_nodes && strcmp(h, head_node_name(pr, i)) != 0; i++)
            ;
        if (i == pr->opt.n_nodes || n == pr->opt.n_nodes) {
            n = 0;
            break;
        }
        nodes[n++] = i;
    }
    free(list);
    return n;
}

/* Ranks fill the slots of the first node, then of the next. Cyclic: each node with free slots gets
 * one rank at a time. After the last node it begins again. */
static void place_by_slots(const struct pmirun *pr, uint32_t n, uint32_t *node_of)
{
    const struct options *opt = &pr->opt;
    uint32_t *left = xrealloc(NULL, opt->n_nodes * sizeof(*left)), k = 0;

    while (k < n) {
        bool more = true;

        for (uint32_t i = 0; i < opt->n_nodes; i++)
            left[i] = opt->n_hosts ? opt->slots[i] : opt->per_host;
        while (more && k < n) {
            more = false;
            for (uint32_t i = 0; i < opt->n_nodes && k < n; i++)
                while (left[i] && k < n) {
                    node_of[k++] = i;
                    left[i]--;
                    more = true;
                    if (opt->cyclic)
                        break;
                }
        }
    }
    free(left);
}

bool head_place_ranks(const struct pmirun *pr, uint32_t n, const char *hosts, uint32_t *node_of)
{
    uint32_t *nodes = xrealloc(NULL, pr->opt.n_nodes * sizeof(*nodes)),
             n_nodes = named_nodes(pr, hosts, nodes);

    for (uint32_t i = 0, k = 0; n_nodes && i < n_nodes;
         i++) { /* the first ones get the remainder */
        uint32_t here = n / n_nodes + (i < n % n_nodes);

        for (uint32_t j = 0; j < here; j++)
            node_of[pr->opt.cyclic ? j * n_nodes + i : k++] = nodes[i];
    }
    free(nodes);
    return n_nodes > 0;
}

static void put_strings(struct msg *m, char *const *v, uint32_t n)
{
    msg_u32(m, n);
    for (uint32_t i = 0; i < n; i++)
        msg_string(m, v[i]);
}

static void put_app(struct msg *m, const struct app *app)
{
    uint32_t argc = 0;

    while (app->argv[argc])
        argc++;
    msg_u32(m, app->n_procs);
    put_strings(m, app->argv, argc);
    msg_string(m, app->wdir);
    msg_string(m, app->search);
    put_strings(m, app->sets, app->n_sets);
    msg_u32(m, app->env.what);
    put_strings(m, app->env.pass, app->env.n_pass);
}

static void put_placement(struct msg *m, const struct job *job)
{
    uint32_t runs = 0, i, k;

    for (i = 0; i < job->n_ranks; i++)
        runs += i == 0 || job->node_of[i] != job->node_of[i - 1];
    msg_u32(m, runs);
    for (i = 0; i < job->n_ranks; i = k) {
        for (k = i + 1; k < job->n_ranks && job->node_of[k] == job->node_of[i]; k++)
            ;
        msg_u32(m, job->node_of[i]);
        msg_u32(m, k - i);
    }
}

/*
 * Announces a job to nodes without a rank of it, where PMIx clients may name it. They confirm
 * before the spawner gets its answer: libpmix must know a namespace before clients connect to it.
 */
static void tell_space(struct pmirun *pr, struct job *job, const bool *has)
{
    struct msg m = {0};

    if (job->way != MPI_PMIX &&
        (job->number > 0 || pr->opt.mpi == MPI_PMI || pr->opt.mpi == MPI_OPENMPI))
        return;
    msg_begin(&m, MSG_SPACE);
    msg_u32(&m, job->number);
    msg_string(&m, job->kvsname);
    msg_string(&m, job->spawner);
    msg_u32(&m, job->n_apps);
    for (uint32_t i = 0; i < job->n_apps; i++)
        msg_u32(&m, job->apps[i].n_procs);
    put_placement(&m, job);
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        if (has[i])
            continue;
        job->n_launching++;
        nodes_tell(pr, &pr->nodes->head.nodes[i], &m);
    }
    msg_free(&m);
}

void head_launch_job(struct pmirun *pr, struct job *job, const struct msg_in *preputs)
{
    bool *has = xrealloc(NULL, pr->opt.n_nodes * sizeof(*has));
    struct msg m = {0};

    memset(has, 0, pr->opt.n_nodes * sizeof(*has));

    msg_begin(&m, MSG_JOB);
    msg_u32(&m, job->number);
    msg_u32(&m, job->spawned);
    msg_u32(&m, job->way);
    msg_string(&m, job->kvsname);
    msg_string(&m, job->spawner);
    msg_u32(&m, job->spawner_rank);
    msg_u32(&m, job->n_apps);
    for (uint32_t i = 0; i < job->n_apps; i++)
        put_app(&m, &job->apps[i]);
    put_placement(&m, job);
    if (preputs)
        msg_bytes(&m, preputs->p, preputs->left);
    else
        msg_u32(&m, 0);
    for (uint32_t i = 0; i < job->n_ranks; i++)
        has[job->node_of[i]] = true;
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        job->n_members += has[i];
    job->n_launching = job->n_members;
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        if (has[i])
            nodes_tell(pr, &pr->nodes->head.nodes[i], &m);
    tell_space(pr, job, has);
    free(has);
    msg_free(&m);
}

/* ---- the beginning ---- */

/* Stops the job if agents have not come in time. Names all of these nodes, up to a few. */
static void lose_silent(struct pmirun *pr)
{
    struct head *h = &pr->nodes->head;
    char *how = xprintf("no answer within %g s", pr->opt.start_s + pr->opt.wait_s), *why;
    uint32_t n = 0, first = 0;

    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        if (h->nodes[i].ready)
            continue;
        if (n++ == 0)
            first = i;
        else if (n <= 1 + NAMED)
            how = xappend(how, "%s %s", n == 2 ? ", nor from" : ",", h->nodes[i].name);
    }
    if (n > 1 + NAMED)
        how = xappend(how, " and %u more", n - 1 - NAMED);
    why = starters_silent(pr, first, how);
    free(how);
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
        if (!h->nodes[i].ready)
            nodes_lost(pr, &h->nodes[i], why);
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

static void start_head(struct pmirun *pr)
{
    struct head *h = &pr->nodes->head;
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
    check_limit(&pr->opt);
    net_init(pr, &head_net_ops);
    randombytes_buf(pr->nodes->net.self.secret, CHANNEL_SECRET_BYTES);
    randombytes_buf(pr->nodes->net.self.job, CHANNEL_JOB_BYTES);
    pr->nodes->net.self.id = CHANNEL_HEAD;
    rc = net_listen(pr, pr->opt.launch == LAUNCH_FORK ? "127.0.0.1" : NULL, &h->port);
    if (rc)
        die(STATUS_RESOURCES, "cannot listen: %s", strerror(-rc));
    h->nodes = xrealloc(NULL, pr->opt.n_nodes * sizeof(*h->nodes));
    memset(h->nodes, 0, pr->opt.n_nodes * sizeof(*h->nodes));
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        h->nodes[i].id = i;
        h->nodes[i].name = pr->opt.n_hosts && pr->opt.launch != LAUNCH_SRUN
                               ? xprintf("%s", pr->opt.hosts[i])
                               : xprintf("node%u", i);
    }
    timer_set(pr, &h->start,
              pr->now_ns + (uint64_t)((pr->opt.start_s > 0 ? pr->opt.start_s : NEVER_S) * 1e9) +
                  (uint64_t)(pr->opt.wait_s * 1e9),
              lose_silent);
    starters_init(pr, self);
}

/* True for variables whose value belongs to the node. */
static bool is_of_node(const char *var)
{
    static const char *const names[] = {
        "HOSTNAME=",       "HOST=",          "SSH_CLIENT=", "SSH_CONNECTION=",
        "SSH_TTY=",        "SSH_AUTH_SOCK=", "TMPDIR=",     "XDG_RUNTIME_DIR=",
        "XDG_SESSION_ID=", "SLURM",          "_="};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(var, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static void tell_setup(struct pmirun *pr)
{
    char *cwd = getcwd(NULL, 0);
    struct msg m = {0};
    uint32_t n = 0;

    for (char **e = environ; *e; e++)
        n += !is_of_node(*e);
    msg_begin(&m, MSG_SETUP);
    msg_u32(&m, (uint32_t)pr->opt.use_port | (uint32_t)pr->opt.no_shm << 1 |
                    (uint32_t)pr->opt.pmi_1_2 << 2 | (uint32_t)pr->opt.verbose << 3 |
                    (uint32_t)pr->opt.as_hydra << 4 | pr->opt.design << 5 |
                    (uint32_t)pr->timeline.on << 9);
    msg_u32(&m, pr->opt.stdin_rank);
    msg_u32(&m, pr->opt.mpi);
    msg_u32(&m, (uint32_t)pr->opt.report_bindings | (uint32_t)(pr->opt.launch == LAUNCH_FORK) << 1);
    msg_string(&m, pr->opt.map_by);
    msg_string(&m, pr->opt.bind_to);
    msg_string(&m, pr->opt.topology);
    msg_u32(&m, (uint32_t)pr->opt.universe_size);
    msg_u64(&m, (uint64_t)(pr->opt.stall_s * 1e9));
    msg_u64(&m, (uint64_t)(pr->opt.get_s * 1e9));
    msg_u64(&m, pr->opt.shm_max_bytes);
    msg_string(&m, cwd);
    msg_u32(&m, n);
    for (char **e = environ; *e; e++)
        if (!is_of_node(*e))
            msg_string(&m, *e);
    timeline_asked(pr);
    nodes_tell_all(pr, &m);
    msg_free(&m);
    free(cwd);
}

/* Sends each agent's address to all. */
static void tell_peers(struct pmirun *pr)
{
    const struct node *nodes = pr->nodes->head.nodes;
    struct msg m = {0};

    msg_begin(&m, MSG_PEERS);
    msg_u32(&m, pr->opt.n_nodes);
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        msg_string(&m, nodes[i].address);
        msg_u32(&m, nodes[i].port);
    }
    nodes_tell_all(pr, &m);
    msg_free(&m);
}

/*
 * Silence. The kernel's keep-alive (net.c) notices a cut link, but answers for an agent that is
 * stopped or hangs; so the head asks. It counts questions, not time: a head that was stopped itself
 * has not asked meanwhile.
 */
static void ask_all(struct pmirun *pr);

static void ask_later(struct pmirun *pr)
{
    if (pr->opt.node_s > 0)
        timer_set(pr, &pr->nodes->head.ask,
                  pr->now_ns + (uint64_t)(pr->opt.node_s * 1e9) / (ASKS + 1), ask_all);
}

static void ask_all(struct pmirun *pr)
{
    char why[64];

    if (pr->nodes->head.ending)
        return;
    ask_later(pr);

    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        struct node *node = &pr->nodes->head.nodes[i];

        node->n_unanswered = node->heard ? 0 : node->n_unanswered + 1;
        node->heard = false;
        snprintf(why, sizeof(why), "it has been silent for %g s", pr->opt.node_s);
        if (node->link && node->n_unanswered >= ASKS)
            nodes_lost(pr, node, why);
    }
    tell_number(pr, MSG_ASK, 0);
}

void nodes_ready(struct pmirun *pr, struct node *node)
{
    node->ready = true;
    timeline_node(pr, node->id, TIMELINE_READY);
    trace(pr, "node %u is %s, at %s:%u", node->id, node->name, node->address, node->port);
    if (++pr->nodes->head.n_ready < pr->opt.n_nodes || pr->stopping)
        return;
    timer_set(pr, &pr->nodes->head.start, 0, NULL);
    ask_later(pr);
    tell_setup(pr);
    tell_peers(pr);
    if (pr->opt.launch == LAUNCH_STEP && !step_is_whole(pr)) {
        job_stop(pr, STATUS_NODE);
        return;
    }
    pr->at.launch_begin = pr->now_ns - pr->start_ns;
    head_launch_job(pr, pr->jobs, NULL);
    head_input_start(pr);
}

/* ---- the end ---- */

static void forget_ranks(struct pmirun *pr, uint32_t node)
{
    for (struct job *job = pr->jobs; job; job = job->next) {
        for (uint32_t i = 0; i < job->n_ranks; i++) {
            struct rank *r = &job->ranks[i];

            if (r->node != node)
                continue;
            output_close(pr, &r->out);
            output_close(pr, &r->err);
            if (r->state != RANK_RUNNING)
                continue;
            r->state = RANK_EXITED;
            job->n_live--;
            pr->n_live--;
        }
    }
}

void nodes_lost(struct pmirun *pr, struct node *node, const char *why)
{
    if (node->lost || node->done)
        return;
    node->lost = true;
    timeline_node(pr, node->id, TIMELINE_LOST);
    if (node->link) {
        net_close(pr, node->link);
        node->link = NULL;
    }
    if (!pr->stopping && !pr->nodes->head.ending)
        say(pr, "node %u (%s) is lost: %s; stopping the job", node->id, node->name, why);
    else
        trace(pr, "node %u (%s) is lost: %s", node->id, node->name, why);
    forget_ranks(pr, node->id);
    if (!pr->nodes->head.ending || pr->stopping)
        job_stop(pr, STATUS_NODE);
}

void nodes_done(struct pmirun *pr, struct node *node)
{
    node->done = true;
    forget_ranks(pr, node->id);
    net_close(pr, node->link); /* the agent waits for that */
    node->link = NULL;
}

static void begin_end(struct pmirun *pr)
{
    struct head *h = &pr->nodes->head;

    h->ending = true;
    timer_set(pr, &h->start, 0, NULL);
    timer_set(pr, &pr->timeout, 0, NULL); /* --timeout is for processes, not for readers */
    timer_set(pr, &h->end, pr->now_ns + END_NS, NULL);
    input_close(pr);
    tell_number(pr, MSG_END, 0);
    starters_stop(pr);
}

/* Agents cannot end while readers of our output hold up their ranks' last words. */
static void settle_end(struct pmirun *pr)
{
    struct head *h = &pr->nodes->head;

    if (!pr->output.n_full[0] && !pr->output.n_full[1])
        return;
    if (!pr->stopping || !pr->hasty)
        timer_set(pr, &h->end, pr->now_ns + END_NS, NULL);
    else if (timer_passed(pr, &pr->drain) && !timer_passed(pr, &h->end))
        timer_set(pr, &h->end, pr->now_ns, NULL);
}

static bool head_may_end(struct pmirun *pr)
{
    struct head *h = &pr->nodes->head;
    bool waits = false;

    if (!h->ending) {
        for (const struct job *job = pr->jobs; job && !pr->stopping; job = job->next)
            if (!job->abandoned && (job->n_launching || h->start.waits))
                return false;
        begin_end(pr);
    }
    settle_end(pr);
    for (uint32_t i = 0; i < pr->opt.n_nodes; i++) {
        if (h->nodes[i].link && timer_passed(pr, &h->end))
            nodes_lost(pr, &h->nodes[i], "it does not end");
        waits = waits || h->nodes[i].link;
    }
    if (waits)
        return false;
    if (!h->reap.at)
        timer_set(pr, &h->reap, pr->now_ns + REAP_NS, NULL);
    return starters_end(pr) || timer_passed(pr, &h->reap);
}

/* What no message and no timer brings about. */
static void head_progress(struct pmirun *pr)
{
    struct head *h = &pr->nodes->head;

    starters_more(pr);
    if (pr->stopping && pr->n_live && !h->ending && pr->drain.at &&
        pr->now_ns >= pr->drain.at + HUNG_NS)
        for (uint32_t i = 0; i < pr->opt.n_nodes; i++)
            nodes_lost(pr, &h->nodes[i], "its ranks do not end");
}

void head_stats(const struct pmirun *pr, struct pmiwire_stats_server *s)
{
    *s = pr->nodes->head.counters.stats;
}

/* ---- what the loop calls (role.h) ---- */

void nodes_progress(struct pmirun *pr)
{
    if (pr->head)
        head_progress(pr);
    else
        agent_progress(pr);
}

void nodes_flush(struct pmirun *pr)
{
    net_flush(pr);
}

void nodes_free_closed(struct pmirun *pr)
{
    net_free_closed(pr);
}

bool nodes_may_end(struct pmirun *pr)
{
    return pr->head ? head_may_end(pr) : agent_may_end(pr);
}

bool nodes_ended(struct pmirun *pr)
{
    return pr->head || agent_ended(pr);
}

void nodes_stop(struct pmirun *pr)
{
    sodium_memzero(&pr->nodes->net.self, sizeof(pr->nodes->net.self));
}

void head_set_up(struct pmirun *pr)
{
    static struct nodes nodes;
    uint32_t *node_of;
    int err;

    pr->nodes = &nodes;
    pr->head = true;
    (void)open_standard(); /* a failure comes again below */
    job_note_inherited(pr);
    loop_init(pr);
    node_of = xrealloc(NULL, pr->opt.n_procs * sizeof(*node_of));
    if (pr->opt.n_hosts ? pr->opt.slots[0] : pr->opt.per_host)
        place_by_slots(pr, pr->opt.n_procs, node_of);
    else
        head_place_ranks(pr, pr->opt.n_procs, NULL, node_of);
    job_create_first(pr, node_of);
    err = names_init(pr);
    if (err)
        die(STATUS_RESOURCES, "cannot keep published names: %s", any_strerror(err));
    start_head(pr);
}

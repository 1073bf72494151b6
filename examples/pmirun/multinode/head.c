/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The head's handlers for messages of agents. A message must concern the agent's own ranks. An
 * invalid one ends its connection, and the node is lost.
 */
#include "head.h"

#include <stdio.h>
#include <stdlib.h>

#include "../local/host.h"
#include "../local/input.h"
#include "../local/job.h"
#include "../local/job_end.h"
#include "../local/mpi_detect.h"
#include "../local/rank_end.h"
#include "../local/role.h"
#include "../local/timeline.h"
#include "job_message.h"
#include "step.h"

static struct node *node_of_conn(struct head *h, const struct netconn *nc)
{
    return nc->ch.peer < h->opt->n_nodes ? &h->nodes[nc->ch.peer] : NULL;
}

static bool on_agent_opened(void *of, struct netconn *nc)
{
    struct head *h = of;
    struct node *node = node_of_conn(h, nc);

    return node && !node->link && !node->done && !node->lost && !h->ending;
}

/* A connection becomes its node's link by its first message, which names the try: an agent of an
 * abandoned try may connect late, and must not pass for the next try's agent. */
static bool on_try(struct head *h, struct netconn *nc, struct node *node, struct msg_in *in)
{
    struct report r;
    char *text;

    report_get(in, &r, &text);
    free(text);
    if (in->bad || node->link || node->done || node->lost || h->ending)
        return false;
    if (!starters_came(h, node->id, r.value)) {
        log_verbose("node %u (%s): the agent of try %u connected too late", node->id, node->name,
                    r.value);
        return false;
    }
    node->link = nc;
    net_address(nc, false, node->address, sizeof(node->address));
    return true;
}

static void on_agent_closed(void *of, struct netconn *nc, const char *why)
{
    struct head *h = of;
    struct node *node = node_of_conn(h, nc);

    if (node && node->link == nc)
        nodes_lost(h, node, why);
}

static bool on_agent_ready(struct head *h, struct node *node, const struct report *rep)
{
    if (node->ready || rep->value > 65535)
        return false;
    node->port = rep->value;
    if ((h->opt->launch == LAUNCH_SRUN || h->opt->launch == LAUNCH_STEP) && rep->text[0]) {
        free(node->name);
        node->name = xprintf("%s", rep->text);
    }
    nodes_ready(h, node);
    return true;
}

struct rank *rank_of_node(struct head *h, const struct node *node, uint32_t job, uint32_t number)
{
    const struct job *of = job_by_number(h->jobs, job);

    return of && number < of->n_ranks && of->node_of[number] == node->id ? &of->ranks[number]
                                                                         : NULL;
}

static bool on_started(struct head *h, struct rank *r, uint32_t pid)
{
    if (r->state != RANK_WAITING)
        return false;
    r->job->n_launched++;
    rank_started(r, (pid_t)pid);
    if (h->opt->launch != LAUNCH_STEP) { /* whose output is Slurm's */
        r->out.remote = r->err.remote = true;
        h->output->n_streams += 2;
        if (!output_begin(h->output, r))
            job_stop(h->jobs, STATUS_OUTPUT);
    }
    return true;
}

static bool on_launched(struct job *job)
{
    if (job->n_launching == 0)
        return false;
    if (--job->n_launching == 0)
        job_started(job);
    return true;
}

/* PMIx clients of other nodes may have asked for this event. */
static void tell_ended(struct head *h, const struct rank *r, const siginfo_t *si)
{
    report_put(head_msg(h, MSG_ENDED), &(struct report){.job = r->job->number,
                                                        .rank = r->number,
                                                        .value = host_end_of(r, si),
                                                        .detail = (uint32_t)si->si_status});
    for (uint32_t i = 0; i < h->opt->n_nodes; i++)
        if (i != r->node)
            nodes_tell(h, &h->nodes[i]);
}

static siginfo_t siginfo_of(const struct report *rep)
{
    siginfo_t si = {0};

    si.si_code = (int)rep->value;
    si.si_status = (int)rep->detail;
    return si;
}

static bool on_exited(struct head *h, struct rank *r, const struct report *rep)
{
    const siginfo_t si = siginfo_of(rep);

    if (r->state != RANK_RUNNING || (unsigned)si.si_status > 255 ||
        (si.si_code != CLD_EXITED && si.si_code != CLD_KILLED && si.si_code != CLD_DUMPED))
        return false;
    if (r->job->number == 0 && r->number == h->opt->stdin_rank)
        input_close(h->input);
    rank_process_ended(r, &si);
    if (r->job->mpi == MPI_PMIX && !h->jobs->stopping)
        tell_ended(h, r, &si);
    return true;
}

static bool on_rank_output(struct head *h, struct node *node, struct msg_in *in)
{
    const uint32_t job = get_u32(in), number = get_u32(in), which = get_u32(in) - 1;
    struct rank *r = rank_of_node(h, node, job, number);
    const struct pmiwire_str s = get_str(in);

    if (in->bad || !r || which > 1)
        return false;
    output_remote(h->output, which ? &r->err : &r->out, s.ptr, s.len);
    node->owed[which] += (uint32_t)s.len;
    if (h->output->n_full[which] == 0) /* a node's ranks share its credit */
        head_give_room(h, which);
    return true;
}

/* Its ranks have got bytes of stdin. */
static void on_took(struct head *h, struct node *node, uint32_t bytes)
{
    const struct options *opt = h->opt;
    uint64_t least = node->input_took += bytes;

    for (uint32_t i = 0; i < opt->n_nodes && opt->stdin_rank == STDIN_ALL; i++)
        if (h->nodes[i].input_took < least)
            least = h->nodes[i].input_took;
    input_taken(h->input, least);
}

static bool on_say(struct head *h, struct msg_in *in)
{
    const struct pmiwire_str s = get_str(in);

    print_text(s.ptr, s.len);
    return !in->bad;
}

static bool on_node_lost(struct head *h, const struct node *by, const struct report *rep)
{
    const uint32_t other = rep->value;
    char text[256];

    if (other >= h->opt->n_nodes || other == by->id)
        return false;
    if (!h->jobs->stopping && !h->ending) {
        snprintf(text, sizeof(text), "no connection to it from node %u (%s): %s", by->id, by->name,
                 rep->text);
        nodes_lost(h, &h->nodes[other], text);
    }
    return true;
}

static bool on_agent_done(struct head *h, struct node *node, struct msg_in *in)
{
    if (!h->ending || get_u32(in) != NODE_COUNTERS)
        return false;
    for (uint32_t i = 0; i < NODE_COUNTERS; i++)
        h->counters.each[i] += get_u64(in);
    nodes_done(h, node);
    return !in->bad;
}

/* A rank of any node. */
static bool on_rank_stuck(struct head *h, struct job *job, const struct report *rep)
{
    if (!job)
        return job_was(h->jobs, rep->job);
    if (rep->rank >= job->n_ranks)
        return false;
    job_stuck(job, rep->rank, rep->value, rep->detail);
    return true;
}

static bool on_spawn_failed(struct job *job, int32_t err)
{
    if (!job->spawned || job->n_gave_up == job->n_members || err >= 0)
        return false;
    job->n_gave_up++;
    job_spawn_failed(job, err);
    return true;
}

/* All nodes must choose the same: ranks of different modes cannot find each other. */
static bool on_chose(struct head *h, const struct node *node, struct job *job,
                     const struct report *rep)
{
    const struct job other = {.mpi = (enum mpi_mode)rep->value};

    if (rep->value <= MPI_AUTO || rep->value > MPI_PMIX)
        return false;
    if (!job->mpi_reason) {
        job->mpi = other.mpi;
        job->wrong_mpi = rep->detail != 0;
        job->mpi_reason = xprintf("%s", rep->text);
        mpi_detect_report(job);
    } else if (other.mpi != job->mpi && !h->jobs->stopping && !job->abandoned) {
        log_message("%s would start its ranks as --mpi %s (%s), another node as --mpi %s (%s): "
                    "give --mpi, or install the same on all; stopping the job",
                    node->name, mpi_detect_name(&other), rep->text, mpi_detect_name(job),
                    job->mpi_reason);
        job_stop(h->jobs, STATUS_NOEXEC);
    }
    return true;
}

static bool on_status(struct head *h, uint8_t what, uint32_t status)
{
    if (status > 255)
        return false;
    if (what == MSG_FATAL)
        job_stop(h->jobs, (int)status);
    else
        job_set_status(h->jobs, (int)status);
    return true;
}

static bool on_rank(struct head *h, struct rank *r, uint8_t what, const struct report *rep)
{
    if (what == MSG_STARTED)
        return on_started(h, r, rep->value);
    if (what == MSG_EXIT)
        return on_exited(h, r, rep);
    if (what == MSG_ABORT)
        job_rank_aborted(r, (int32_t)rep->value, rep->text);
    else if (rep->value <= PMIWIRE_CONN_FAILED)
        job_rank_state(r, rep->value);
    else
        return false;
    return true;
}

static bool on_report(struct head *h, struct node *node, uint8_t what, const struct report *rep)
{
    struct job *job = job_by_number(h->jobs, rep->job);
    struct rank *r = rank_of_node(h, node, rep->job, rep->rank);

    switch (what) {
    case MSG_READY: return on_agent_ready(h, node, rep);
    case MSG_HERE: return true;
    case MSG_STARTED:
    case MSG_EXIT: return r && on_rank(h, r, what, rep);
    /* of a client that outlives its rank: the job may have ended since */
    case MSG_STATE:
    case MSG_ABORT: return r ? on_rank(h, r, what, rep) : job_was(h->jobs, rep->job);
    /* without ranks of a spawn that has failed meanwhile */
    case MSG_LAUNCHED: return job ? on_launched(job) : job_was(h->jobs, rep->job);
    case MSG_FAILED: return job && on_spawn_failed(job, (int32_t)rep->value);
    case MSG_CHOSE: return job && on_chose(h, node, job, rep);
    case MSG_STUCK: return on_rank_stuck(h, job, rep);
    case MSG_TOOK: on_took(h, node, rep->value); return true;
    case MSG_FATAL:
    case MSG_STATUS: return on_status(h, what, rep->value);
    case MSG_LOST: return on_node_lost(h, node, rep);
    default: return false;
    }
}

static bool take_report(struct head *h, struct node *node, uint8_t what, struct msg_in *in)
{
    struct report rep;
    char *text;
    bool ok;

    report_get(in, &rep, &text);
    ok = !in->bad && on_report(h, node, what, &rep);
    free(text);
    return ok;
}

static bool on_agent_frame(void *of, struct netconn *nc, const void *p, size_t n)
{
    struct head *h = of;
    struct msg_in in = {(const char *)p + 1, n - 1, false};
    struct node *node = node_of_conn(h, nc);
    uint8_t what;

    if (n == 0)
        return false;
    what = *(const uint8_t *)p;
    if (node->link != nc)
        return what == MSG_TRY && on_try(h, nc, node, &in);
    if (!node->ready && what != MSG_READY && what != MSG_SAY && what != MSG_FATAL &&
        !(what == MSG_RANKS && h->opt->launch == LAUNCH_STEP))
        return false;
    node->heard = true;
    switch (what) {
    case MSG_SAY: return on_say(h, &in);
    case MSG_OUTPUT: return on_rank_output(h, node, &in);
    case MSG_NAME: return names_asked(h, node, &in);
    case MSG_TIMES: return timeline_heard(h->jobs->timeline, node->id, &in);
    case MSG_SPAWN: return head_spawn_asked(h, node, &in);
    case MSG_RANKS: return step_ranks(h, node, &in);
    case MSG_DONE: return on_agent_done(h, node, &in);
    default: return take_report(h, node, what, &in);
    }
}

/* Messages to agents have limits of their own: no link is full. */
const struct net_ops head_net_ops = {on_agent_opened, on_agent_frame, on_agent_closed, NULL};

/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_pmirun_channel: an agent with its head and two others, and the ranks that it starts. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>

#include "../../../examples/pmirun/local/rank_end.h"
#include "../../../examples/pmirun/multinode/job_message.h"
#include "channel_world.h"

/* What a head says first: how things are to be, and where the others are. */
static void tell_agent(struct world *w)
{
    char slash[] = "/", kvsname[] = "kvs_0", prog[] = "prog", *argv[] = {prog, NULL};
    uint32_t node_of[] = {1, 1, 0, 0};
    struct options opt = {.universe_size = 8, .shm_max_bytes = 1u << 20};
    struct setup setup = {.opt = &opt, .cwd = slash};
    struct app app = {.n_procs = 4, .argv = argv};
    struct job plan = {.apps = &app, .n_apps = 1, .kvsname = kvsname, .node_of = node_of};
    struct msg m = {0};
    struct msg_fields f = {.out = &m};

    msg_begin(&m, MSG_SETUP);
    setup_fields(&f, &setup);
    say_msg(w, &w->peers[0], &m);
    msg_begin(&m, MSG_PEERS);
    msg_u32(&m, LINKS);
    for (uint32_t i = 0; i < LINKS; i++) {
        msg_string(&m, "192.0.2.1");
        msg_u32(&m, 5000 + i);
    }
    say_msg(w, &w->peers[0], &m);
    msg_begin(&m, MSG_JOB);
    job_fields(&f, &plan, LINKS);
    msg_u32(&m, 0);
    say_msg(w, &w->peers[0], &m);
    check(w->pr.jobs.first && w->pr.jobs.first->queued);
}

void begin_agent(struct world *w, bool with_prelude)
{
    struct pmirun *pr = &w->pr;
    struct agent *a = &w->agent;

    pr->jobs.agent = pr->input.agent = a;
    a->opt = &pr->opt;
    a->jobs = &pr->jobs;
    a->output = &pr->output;
    a->input = &pr->input;
    a->node = 1;
    messages.host = a->name;
    begin_net(w, &a->net, 1);
    a->n_nodes = LINKS;
    a->early_tail = &a->early;
    a->boot.fd = -1;
    pr->output.out.dead = pr->output.err.dead = false;
    pr->output.out.room = pr->output.err.room = 1000;
    net_init(w->net, &pr->opt, &agent_net_ops, a);
    connect_link(w, 0, CHANNEL_HEAD, true);
    connect_link(w, 1, 0, false);
    connect_link(w, 2, 2, false);
    if (with_prelude)
        tell_agent(w);
}

void end_agent(struct agent *a)
{
    while (a->early) {
        struct early *e = a->early;

        a->early = e->next;
        free(e);
    }
    for (uint32_t i = 0; i < a->n_nodes && a->peers; i++) {
        free(a->peers[i].address);
    }
    free(a->peers);
    free(a->msg.p);
    free(a->frame.p);
}

/* An agent's ranks begin, as launch.c would have it. */
void launch_all(struct jobs *jobs)
{
    static int next;

    for (struct job *job; (job = jobs_queued(jobs));) {
        job->queued = false;
        for (; job->n_launched < job->n_local; job->n_launched++) {
            struct rank *r = &job->ranks[job->n_launched];

            r->pid = FIRST_PID + next++ % 1000000;
            r->state = RANK_RUNNING;
            job->n_live++;
            jobs->n_live++;
            rank_note_pid(r, true);
            agent_report(jobs->agent, MSG_STARTED,
                         &(struct report){
                             .job = r->job->number, .rank = r->number, .value = (uint32_t)r->pid});
        }
        agent_report(jobs->agent, MSG_LAUNCHED, &(struct report){.job = job->number});
    }
}

/* The which-th of them that runs ends. */
void end_rank(struct jobs *jobs, unsigned which)
{
    siginfo_t si = {0};

    si.si_code = which & 1 ? CLD_EXITED : CLD_KILLED;
    si.si_status = which & 1 ? 0 : 9;
    which /= 2;
    for (struct job *job = jobs->first; job; job = job->next)
        for (uint32_t i = 0; i < job->n_local; i++)
            if (job->ranks[i].state == RANK_RUNNING && which-- == 0) {
                rank_process_ended(&job->ranks[i], &si);
                return;
            }
}

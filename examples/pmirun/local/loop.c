/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop. */
#define _GNU_SOURCE
#include "loop.h"

#include "job_end.h"
#include "launch.h"
#include "pmirun.h"
#include "rank_end.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BATCH 256

struct loop loop;

void loop_init(struct pmirun *pr)
{
    int err;

    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    loop.scratch = xrealloc(NULL, SCRATCH_BYTES);
    loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop.epoll < 0)
        die(STATUS_RESOURCES, "cannot start: epoll_create1(): %s", strerror(errno));
    output_init(&pr->output);
    err = signals_init(&pr->signals);
    if (err)
        die(STATUS_RESOURCES, "cannot start: signalfd(): %s", strerror(-err));
}

int loop_open(struct source *src, source_fn *event, void *of, int fd, uint32_t events)
{
    *src = (struct source){event, of, fd, 0};
    return fd < 0 ? -errno : loop_add(src, events);
}

int loop_add(struct source *src, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = src};

    if (events == src->events)
        return 0;
    if (epoll_ctl(loop.epoll, src->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, src->fd, &ev) != 0)
        return -errno;
    src->events = events;
    return 0;
}

void loop_del(struct source *src)
{
    if (src->events)
        epoll_ctl(loop.epoll, EPOLL_CTL_DEL, src->fd, NULL);
    src->events = 0;
}

void loop_close(struct source *src)
{
    if (src->fd < 0)
        return;
    loop_del(src);
    close(src->fd);
    src->fd = -1;
}

static void end_streams(struct output *output, const struct jobs *jobs)
{
    for (struct job *job = jobs->first; job; job = job->next) {
        for (uint32_t i = 0; i < job->n_local; i++) {
            output_end(output, &job->ranks[i].out);
            output_end(output, &job->ranks[i].err);
        }
    }
}

/* All processes have ended: are their leftovers gone and their output written? */
static bool job_is_finished(struct jobs *jobs, struct output *output)
{
    struct leftovers *left = &jobs->leftovers;

    if (jobs->n_live || jobs_queued(jobs) || job_end_is_pending(jobs))
        return false;
    if (jobs->opt->as_hydra && !jobs->stopping && output->n_streams)
        return false; /* what a rank has left behind holds its output */
    if (!nodes_may_end(jobs))
        return false;
    timer_set(&jobs->timeout, 0); /* --timeout is for processes, not for readers */
    /* What waits behind a full sink is not lost. */
    if (!jobs->drain.at || output->n_full[0] || output->n_full[1])
        job_give_time(jobs);
    if (!left->filter.at) /* never later: a leftover may write without end */
        timer_set(&left->filter, loop.now_ns + DRAIN_NS);
    /* Who outlives a rank and has its output may be a filter that is not done, such as tee. */
    if (output->n_streams && !jobs->stopping && !left->sweep.at && !timer_passed(&left->filter))
        return false;
    if (!leftovers_end(jobs))
        return false;
    if (timer_passed(&jobs->drain)) {
        if (job_is_hasty(jobs))
            return true; /* whoever reads our output had time enough */
        /* If pmirun was stopped, or its output is slow, there is something to read yet. */
        end_streams(output, jobs);
    }
    return output->n_streams == 0 && !output_pending(output);
}

static void flush_all(struct pmirun *pr)
{
    nodes_progress(&pr->jobs);
    pmi_flush_ready(&pr->pmi);
    output_flush(&pr->output);
    nodes_flush(&pr->jobs);
}

int loop_run(struct pmirun *pr)
{
    struct jobs *jobs = &pr->jobs;
    struct epoll_event ev[BATCH];

    for (;;) {
        /* ranks that run already are served in between */
        bool more = launch_some(jobs->launcher);
        int n;

        loop.now_ns = clock_ns();
        timers_run();
        jobs_progress(jobs);
        if (!more && job_is_finished(jobs, &pr->output)) {
            output_flush(&pr->output);
            if ((!output_pending(&pr->output) || job_is_hasty(jobs)) && nodes_ended(jobs))
                return 0;
        }
        flush_all(pr);
        timer_set(&jobs->decide, job_decision_ns(jobs));
        more |= jobs->to_end_ranks; /* what was flushed may have stopped the job */
        n = epoll_wait(loop.epoll, ev, BATCH, more ? 0 : timers_wait_ms());
        if (n < 0 && errno != EINTR)
            return -errno;
        loop.now_ns = clock_ns();
        for (int i = 0; i < n; i++) {
            struct source *src = ev[i].data.ptr;

            if (src->fd >= 0) /* else closed earlier in this batch */
                src->event(src->of, src, ev[i].events);
        }
        /* A full batch: more events wait, of which one may be the cause. But ranks that print
         * without pause can fill every batch. */
        if (job_end_is_pending(jobs) &&
            (n < BATCH || loop.now_ns >= job_decision_ns(jobs) + NS_PER_S)) {
            ranks_reap(jobs);
            job_decide_end(jobs);
        }
        flush_all(pr);
        pmi_free_closed(&pr->pmi);
        jobs_free_ended(jobs);
        nodes_free_closed(jobs);
    }
}

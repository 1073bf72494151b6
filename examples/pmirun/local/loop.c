/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop. */
#define _GNU_SOURCE
#include "loop.h"

#include "launch.h"
#include "pmirun.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BATCH 256

void loop_init(struct pmirun *pr)
{
    int err;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pr->scratch = xrealloc(NULL, SCRATCH_BYTES);
    pr->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (pr->epoll < 0)
        die(STATUS_RESOURCES, "cannot start: epoll_create1(): %s", strerror(errno));
    output_init(pr);
    err = signals_init(pr);
    if (err)
        die(STATUS_RESOURCES, "cannot start: signalfd(): %s", strerror(-err));
}

int loop_add(struct pmirun *pr, struct source *src, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = src};

    return epoll_ctl(pr->epoll, EPOLL_CTL_ADD, src->fd, &ev) == 0 ? 0 : -errno;
}

void loop_mod(struct pmirun *pr, struct source *src, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = src};

    epoll_ctl(pr->epoll, EPOLL_CTL_MOD, src->fd, &ev);
}

void loop_del(struct pmirun *pr, struct source *src)
{
    epoll_ctl(pr->epoll, EPOLL_CTL_DEL, src->fd, NULL);
}

void loop_close(struct pmirun *pr, struct source *src)
{
    if (src->fd < 0)
        return;
    loop_del(pr, src);
    close(src->fd);
    src->fd = -1;
}

static void close_streams(struct pmirun *pr)
{
    for (struct job *job = pr->jobs; job; job = job->next) {
        for (uint32_t i = 0; i < job->n_local; i++) {
            output_close(pr, &job->ranks[i].out);
            output_close(pr, &job->ranks[i].err);
        }
    }
}

/* What waits behind a full sink is not lost. */
static void settle_drain(struct pmirun *pr)
{
    if (!pr->drain.at || pr->output.n_full[0] || pr->output.n_full[1])
        job_give_time(pr);
}

/* All processes have ended: are their leftovers gone and their output written? */
static bool job_is_finished(struct pmirun *pr)
{
    if (pr->n_live || pr->launch || job_end_is_pending(pr))
        return false;
    if (pr->opt.as_hydra && !pr->stopping && pr->output.n_streams)
        return false; /* what a rank has left behind holds its output */
    if (pr->nodes && !nodes_may_end(pr))
        return false;
    timer_set(pr, &pr->timeout, 0, NULL); /* --timeout is for processes, not for readers */
    settle_drain(pr);
    if (!pr->leftovers.filter.at) /* never later: a leftover may write without end */
        timer_set(pr, &pr->leftovers.filter, pr->now_ns + LAST_WORDS_NS, NULL);
    /* Who outlives a rank and has its output may be a filter that is not done, such as tee. */
    if (pr->output.n_streams && !pr->stopping && !pr->leftovers.sweep.at &&
        !timer_passed(pr, &pr->leftovers.filter))
        return false;
    if (!job_sweep(pr))
        return false;
    if (timer_passed(pr, &pr->drain)) {
        if (job_is_hasty(pr))
            return true; /* whoever reads our output had time enough */
        close_streams(pr);
    }
    return pr->output.n_streams == 0 && !output_pending(pr);
}

static void flush_all(struct pmirun *pr)
{
    if (pr->nodes)
        nodes_progress(pr);
    pmi_flush_ready(pr);
    output_flush(pr);
    if (pr->nodes)
        nodes_flush(pr);
}

int loop_run(struct pmirun *pr)
{
    struct epoll_event ev[BATCH];

    for (;;) {
        bool more = launch_some(pr); /* ranks that run already are served in between */
        int n;

        pr->now_ns = clock_ns();
        timers_run(pr);
        job_kill_late(pr);
        if (!more && job_is_finished(pr)) {
            output_flush(pr);
            if ((!output_pending(pr) || job_is_hasty(pr)) && (!pr->nodes || nodes_ended(pr)))
                return 0;
        }
        flush_all(pr);
        timer_set(pr, &pr->judge, job_decision_ns(pr), NULL);
        n = epoll_wait(pr->epoll, ev, BATCH, more ? 0 : timers_wait_ms(pr));
        if (n < 0 && errno != EINTR)
            return -errno;
        pr->now_ns = clock_ns();
        for (int i = 0; i < n; i++) {
            struct source *src = ev[i].data.ptr;

            if (src->fd >= 0) /* else closed earlier in this batch */
                src->event(pr, src, ev[i].events);
        }
        if (n < BATCH) /* else more events wait */
            job_decide_end(pr);
        flush_all(pr);
        pmi_free_closed(pr);
        job_free_ended(pr);
        if (pr->nodes)
            nodes_free_closed(pr);
    }
}

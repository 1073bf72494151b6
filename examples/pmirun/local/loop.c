/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop. */
#define _GNU_SOURCE
#include "loop.h"

#include "host.h"
#include "launch.h"
#include "pmirun.h"
#include "way.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BATCH   256
#define TICK_NS (NS_PER_S / 2)

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

static bool passed(const struct pmirun *pr, uint64_t deadline)
{
    return deadline && pr->now_ns >= deadline;
}

static void run_deadlines(struct pmirun *pr)
{
    if (passed(pr, pr->output.part_ns))
        output_parts(pr);
    if (passed(pr, pr->input.retry_ns))
        input_retry(pr);
    if (passed(pr, pr->tick_ns)) {
        pmiwire_server_tick(pr->server, pr->now_ns);
        host_tick(pr);
        pr->tick_ns = pr->now_ns + TICK_NS;
    }
    if (passed(pr, pr->look_ns)) {
        pr->look_ns = 0;
        way_look(pr);
    }
    if (passed(pr, pr->signals.patience_ns))
        signals_patience(pr);
    if (passed(pr, pr->deadline_ns)) {
        pr->deadline_ns = 0;
        job_hasten(pr);
        say(pr, "%llu of %llu processes still run after %g s; stopping the job",
            (unsigned long long)pr->n_live, (unsigned long long)pr->n_ranks, pr->opt.timeout_s);
        job_stop(pr, STATUS_TIMEOUT);
    }
    if (passed(pr, pr->progress.draw_ns))
        progress_draw(pr);
    if (pr->node)
        pr->node->run_deadlines(pr);
    if (pr->stopping && pr->n_live && passed(pr, pr->kill_ns)) {
        job_kill_all(pr, SIGKILL);
        pr->kill_ns = pr->now_ns + NS_PER_S;
    }
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
    if (!pr->drain_ns || pr->output.n_full[0] || pr->output.n_full[1])
        job_give_time(pr);
}

/* All processes have ended: are their leftovers gone and their output written? */
static bool finished(struct pmirun *pr)
{
    if (pr->n_live || pr->launch || job_is_accused(pr))
        return false;
    if (pr->opt.as_hydra && !pr->stopping && pr->output.n_streams)
        return false; /* what a rank has left behind holds its output */
    if (pr->node && !pr->node->may_end(pr))
        return false;
    pr->deadline_ns = 0; /* --timeout is for processes, not for readers */
    settle_drain(pr);
    if (!pr->leftovers.filter_ns) /* never later: a leftover may write without end */
        pr->leftovers.filter_ns = pr->now_ns + LAST_WORDS_NS;
    /* Who outlives a rank and has its output may be a filter that is not done, such as tee. */
    if (pr->output.n_streams && !pr->stopping && !pr->leftovers.sweep_ns &&
        !passed(pr, pr->leftovers.filter_ns))
        return false;
    if (!job_sweep(pr))
        return false;
    if (passed(pr, pr->drain_ns)) {
        if (job_is_hasty(pr))
            return true; /* whoever reads our output had time enough */
        close_streams(pr);
    }
    return pr->output.n_streams == 0 && !output_pending(pr);
}

static void sooner(uint64_t *next, uint64_t deadline)
{
    if (deadline && deadline < *next)
        *next = deadline;
}

static int wait_ms(const struct pmirun *pr)
{
    uint64_t next = UINT64_MAX;

    sooner(&next, pr->output.part_ns);
    sooner(&next, pr->input.retry_ns);
    sooner(&next, pr->tick_ns);
    sooner(&next, pr->look_ns);
    sooner(&next, pr->signals.patience_ns);
    sooner(&next, pr->deadline_ns);
    sooner(&next, pr->progress.draw_ns);
    sooner(&next, job_judgement(pr));
    if (pr->node)
        sooner(&next, pr->node->deadline(pr));
    if (pr->n_live) {
        if (pr->stopping)
            sooner(&next, pr->kill_ns);
    } else {
        sooner(&next, pr->leftovers.clean ? 0 : pr->leftovers.sweep_ns);
        if (pr->now_ns < pr->leftovers.filter_ns)
            sooner(&next, pr->leftovers.filter_ns);
        if (pr->now_ns < pr->drain_ns) /* once it has passed, only events matter */
            sooner(&next, pr->drain_ns);
    }
    if (next == UINT64_MAX)
        return -1;
    if (next <= pr->now_ns)
        return 0;
    next = (next - pr->now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return next > INT_MAX ? INT_MAX : (int)next;
}

static void flush(struct pmirun *pr)
{
    if (pr->node)
        pr->node->progress(pr);
    pmi_flush_ready(pr);
    output_flush(pr);
    if (pr->node)
        pr->node->flush(pr);
}

int loop_run(struct pmirun *pr)
{
    struct epoll_event ev[BATCH];

    for (;;) {
        bool more = launch_some(pr); /* ranks that run already are served in between */
        int n;

        pr->now_ns = clock_ns();
        run_deadlines(pr);
        if (!more && finished(pr)) {
            output_flush(pr);
            if ((!output_pending(pr) || job_is_hasty(pr)) && (!pr->node || pr->node->ended(pr)))
                return 0;
        }
        flush(pr);
        n = epoll_wait(pr->epoll, ev, BATCH, more ? 0 : wait_ms(pr));
        if (n < 0 && errno != EINTR)
            return -errno;
        pr->now_ns = clock_ns();
        for (int i = 0; i < n; i++) {
            struct source *src = ev[i].data.ptr;

            if (src->fd >= 0) /* else closed earlier in this batch */
                src->event(pr, src, ev[i].events);
        }
        if (n < BATCH) /* else more events wait */
            job_judge(pr);
        flush(pr);
        pmi_bury(pr);
        job_bury(pr);
        if (pr->node)
            pr->node->bury(pr);
    }
}

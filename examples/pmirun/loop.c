/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop. */
#define _GNU_SOURCE
#include "net.h"
#include "pmirun.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BATCH   256
#define TICK_NS (NS_PER_S / 2)
/* for output that somebody else holds open after the last process */
#define LAST_WORDS_NS NS_PER_S

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

static void dispatch(struct pmirun *pr, struct source *src, uint32_t events)
{
    if (src->fd < 0)
        return; /* closed earlier in this batch */
    switch (src->kind) {
    case SOURCE_SIGNALS: signals_event(pr); break;
    case SOURCE_LISTENER: port_accept(pr); break;
    case SOURCE_CONN: pmi_event(pr, (struct conn *)src, events); break;
    case SOURCE_STREAM: output_event(pr, (struct stream *)src); break;
    case SOURCE_SINK: output_room(pr, (struct sink *)src); break;
    case SOURCE_INPUT:
    case SOURCE_INPUT_PIPE: input_event(pr, src); break;
    case SOURCE_NET_LISTENER: net_accept(pr); break;
    case SOURCE_NET: net_event(pr, (struct netconn *)src, events); break;
    case SOURCE_STARTER: nodes_starter_event(pr, src); break;
    case SOURCE_BOOT: agent_boot_event(pr); break;
    case SOURCE_UCX: ucx_event(pr); break;
    }
}

static bool passed(const struct pmirun *pr, uint64_t deadline)
{
    return deadline && pr->now_ns >= deadline;
}

static void run_deadlines(struct pmirun *pr)
{
    if (passed(pr, pr->part_deadline_ns))
        output_parts(pr);
    if (passed(pr, pr->input_retry_ns))
        input_retry(pr);
    if (passed(pr, pr->tick_ns)) {
        pmiwire_server_tick(pr->server, pr->now_ns);
        wait_tick(pr);
        pr->tick_ns = pr->now_ns + TICK_NS;
    }
    if (passed(pr, pr->deadline_ns)) {
        pr->deadline_ns = 0;
        say(pr, "%llu of %llu processes still run after %g s; stopping the job",
            (unsigned long long)pr->n_live, (unsigned long long)pr->n_ranks, pr->opt.timeout_s);
        job_stop(pr, STATUS_TIMEOUT);
    }
    if (pr->net && passed(pr, pr->net->deadline_ns))
        net_deadlines(pr);
    if (pr->head)
        nodes_deadlines(pr);
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

/* All processes have ended: are their leftovers gone and their last words said? */
static bool finished(struct pmirun *pr)
{
    if (pr->n_live || pr->launch || pr->aborter)
        return false;
    if ((pr->head && !nodes_finished(pr)) || (pr->agent && !agent_may_end(pr)))
        return false;
    if (!job_sweep(pr))
        return false;
    if (!pr->drain_ns)
        pr->drain_ns = pr->now_ns + LAST_WORDS_NS;
    if (passed(pr, pr->drain_ns)) {
        if (pr->stopping)
            return true; /* whoever reads our output had time enough */
        if (!pr->out.full && !pr->err.full)
            close_streams(pr);
    }
    return pr->n_streams == 0 && !output_pending(pr);
}

static void sooner(uint64_t *next, uint64_t deadline)
{
    if (deadline && deadline < *next)
        *next = deadline;
}

static int wait_ms(const struct pmirun *pr)
{
    uint64_t next = UINT64_MAX;

    sooner(&next, pr->part_deadline_ns);
    sooner(&next, pr->input_retry_ns);
    sooner(&next, pr->tick_ns);
    sooner(&next, pr->deadline_ns);
    sooner(&next, job_abort_deadline(pr));
    if (pr->net)
        sooner(&next, pr->net->deadline_ns);
    if (pr->head)
        sooner(&next, nodes_deadline(pr));
    if (pr->agent)
        sooner(&next, agent_deadline(pr));
    if (pr->n_live) {
        if (pr->stopping)
            sooner(&next, pr->kill_ns);
    } else {
        sooner(&next, pr->clean ? 0 : pr->sweep_ns);
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
    if (pr->agent)
        agent_check_links(pr);
    if (pr->agent)
        ucx_event(pr);
    pmi_flush_ready(pr);
    output_flush(pr);
    if (pr->net)
        net_flush(pr);
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
            if ((!output_pending(pr) || pr->stopping) && (!pr->agent || agent_ended(pr)))
                return 0;
        }
        flush(pr);
        n = epoll_wait(pr->epoll, ev, BATCH, more ? 0 : wait_ms(pr));
        if (n < 0 && errno != EINTR)
            return -errno;
        pr->now_ns = clock_ns();
        for (int i = 0; i < n; i++)
            dispatch(pr, ev[i].data.ptr, ev[i].events);
        if (n < BATCH) /* else more of what has happened waits to be seen */
            job_judge_abort(pr);
        flush(pr);
        pmi_bury(pr);
        job_bury(pr);
        if (pr->net)
            net_bury(pr);
    }
}

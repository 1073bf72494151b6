/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals: from signalfd into the loop, and on to the ranks. */
#define _GNU_SOURCE
#include "signals.h"

#include "job.h"
#include "job_end.h"
#include "output.h"
#include "progress.h"
#include "rank_end.h"
#include "role.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TERM_S 10u /* for ranks to end by the first SIGTERM */
/* A copy of a signal comes this soon: timeout(1) sends SIGTERM to pmirun and then to its process
 * group, and some wrappers pass on a Ctrl-C that the terminal has sent to us too. In between, a
 * limit on their processor time may stop them for 100 ms. */
#define COPY_NS (200 * NS_PER_MS)

/* While ranks run: reports those that ignore SIGINT; ends those that ignore SIGTERM. */
static void on_end_timeout(void *of)
{
    const struct signals *s = of;

    if (s->jobs->stopping || s->jobs->n_live == 0)
        return;
    if (s->jobs->last_signal == SIGINT) {
        log_message("%llu of %llu processes have not ended yet; press Ctrl-C again to kill the job",
                    (unsigned long long)s->jobs->n_live, (unsigned long long)s->jobs->n_ranks);
    } else {
        log_message("%llu of %llu processes still run %u s after SIGTERM; stopping the job",
                    (unsigned long long)s->jobs->n_live, (unsigned long long)s->jobs->n_ranks,
                    TERM_S);
        job_stop(s->jobs, STATUS_SIGNAL + SIGTERM);
    }
}

static void on_end_signal(struct signals *s, int sig)
{
    const bool interrupts = sig == SIGINT || sig == SIGTERM;

    log_verbose("signal %d (%s)", sig, strsignal(sig));
    if (s->jobs->agent) {
        agent_signalled(s->jobs->agent, sig);
        return;
    }
    if (sig == s->interrupted_by && loop.now_ns < s->interrupted_ns + COPY_NS)
        return;
    s->jobs->last_signal = sig;
    job_hasten(s->jobs);
    if (interrupts && s->interrupted_by) {
        job_stop(s->jobs, STATUS_SIGNAL + sig);
        timer_set(&s->jobs->kill, loop.now_ns);
        timer_set(&s->jobs->drain, loop.now_ns);
        return;
    }
    if (s->jobs->n_live == 0) { /* no rank to forward it to: it is for pmirun */
        job_stop(s->jobs, STATUS_SIGNAL + sig);
    } else {
        if (interrupts)
            timer_call(&s->end, loop.now_ns + (sig == SIGINT ? 1 : TERM_S) * NS_PER_S,
                       on_end_timeout, s);
        ranks_signal(s->jobs, sig);
    }
    if (interrupts) {
        s->interrupted_by = sig;
        s->interrupted_ns = clock_ns(); /* now, as a copy may have come meanwhile */
    }
}

static void on_signals(void *of, struct source *src, uint32_t events)
{
    struct signals *s = of;
    struct signalfd_siginfo si[16];
    ssize_t n;
    bool child = false;

    n = read(src->fd, si, sizeof(si));
    for (ssize_t i = 0; i < n / (ssize_t)sizeof(si[0]); i++) {
        int sig = (int)si[i].ssi_signo;

        switch (sig) {
        case SIGCHLD: child = true; break;
        case SIGINT:
        case SIGTERM:
        case SIGHUP:
        case SIGQUIT: on_end_signal(s, sig); break;
        case SIGTSTP:
            if (s->jobs->agent)
                break;
            ranks_signal(s->jobs,
                         SIGSTOP); /* sessions of their own: the kernel would drop SIGTSTP there */
            output_flush(s->output);
            progress_clear();
            nodes_flush(s->jobs);
            raise(SIGSTOP); /* pmirun gets SIGCONT in the same way */
            break;
        default:
            if (!s->jobs->agent) /* what is for ranks comes from the head */
                ranks_signal(s->jobs, sig);
        }
    }
    if (child)
        ranks_reap(s->jobs);
}

/* A signal that was ignored at our start (nohup) stays ignored, by us and by the ranks. */
static bool was_ignored(int sig)
{
    struct sigaction sa;

    return sigaction(sig, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN;
}

int signals_init(struct signals *s)
{
    static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                    SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
    struct sigaction dfl = {.sa_handler = SIG_DFL};

    sigemptyset(&s->handled);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        if (!was_ignored(forwarded[i]))
            sigaddset(&s->handled, forwarded[i]);
    sigaddset(&s->handled, SIGCHLD);
    sigaction(SIGCHLD, &dfl, NULL); /* when ignored, statuses would be lost */
    s->pipe_was_ignored = was_ignored(SIGPIPE);
    signal(SIGPIPE, SIG_IGN);
    s->xfsz_was_ignored = was_ignored(SIGXFSZ);
    signal(SIGXFSZ, SIG_IGN); /* the limit on files: write() fails; it does not end pmirun */
    if (sigprocmask(SIG_BLOCK, &s->handled, &s->orig_mask) != 0)
        return -errno;
    return loop_open(&s->src, on_signals, s, signalfd(-1, &s->handled, SFD_CLOEXEC | SFD_NONBLOCK),
                     EPOLLIN);
}

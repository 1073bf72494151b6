/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals: from signalfd into the loop, and on to the ranks. */
#define _GNU_SOURCE
#include "signals.h"

#include "pmirun.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A signal that was ignored at our start (nohup) stays ignored, by us and by the ranks. */
static bool was_ignored(int sig)
{
    struct sigaction sa;

    return sigaction(sig, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN;
}

#define TERM_S 10u /* for ranks to end by the first SIGTERM */

static void on_signals(struct pmirun *pr, struct source *src, uint32_t events);

int signals_init(struct pmirun *pr)
{
    static const int forwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                    SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
    struct sigaction dfl = {.sa_handler = SIG_DFL};

    sigemptyset(&pr->signals.handled);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        if (!was_ignored(forwarded[i]))
            sigaddset(&pr->signals.handled, forwarded[i]);
    sigaddset(&pr->signals.handled, SIGCHLD);
    sigaction(SIGCHLD, &dfl, NULL); /* when ignored, statuses would be lost */
    pr->signals.pipe_was_ignored = was_ignored(SIGPIPE);
    signal(SIGPIPE, SIG_IGN);
    pr->signals.xfsz_was_ignored = was_ignored(SIGXFSZ);
    signal(SIGXFSZ, SIG_IGN); /* the limit on files: write() fails; it does not end pmirun */
    if (sigprocmask(SIG_BLOCK, &pr->signals.handled, &pr->signals.orig_mask) != 0)
        return -errno;
    pr->signals.src =
        (struct source){on_signals, signalfd(-1, &pr->signals.handled, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (pr->signals.src.fd < 0)
        return -errno;
    return loop_add(pr, &pr->signals.src, EPOLLIN);
}

/* While ranks run: reports those that ignore SIGINT; ends those that ignore SIGTERM. */
static void on_patience_end(struct pmirun *pr)
{
    if (pr->stopping || pr->n_live == 0)
        return;
    if (pr->signals.last == SIGINT) {
        say(pr, "%llu of %llu processes have not ended yet; press Ctrl-C again to kill the job",
            (unsigned long long)pr->n_live, (unsigned long long)pr->n_ranks);
    } else {
        say(pr, "%llu of %llu processes still run %u s after SIGTERM; stopping the job",
            (unsigned long long)pr->n_live, (unsigned long long)pr->n_ranks, TERM_S);
        job_stop(pr, STATUS_SIGNAL + SIGTERM);
    }
}

static void on_end_signal(struct pmirun *pr, int sig)
{
    trace(pr, "signal %d (%s)", sig, strsignal(sig));
    if (pr->agent) {
        agent_signalled(pr, sig);
        return;
    }
    pr->signals.last = sig;
    job_hasten(pr);
    if ((sig == SIGINT || sig == SIGTERM) && ++pr->signals.n_interrupts > 1) {
        job_stop(pr, STATUS_SIGNAL + sig);
        job_kill_all(pr, SIGKILL);
        timer_set(pr, &pr->kill, pr->now_ns, NULL);
        timer_set(pr, &pr->drain, pr->now_ns, NULL);
        return;
    }
    if (pr->n_live == 0) { /* no rank to forward it to: it is for pmirun */
        job_stop(pr, STATUS_SIGNAL + sig);
        return;
    }
    if (sig == SIGINT || sig == SIGTERM)
        timer_set(pr, &pr->signals.patience, pr->now_ns + (sig == SIGINT ? 1 : TERM_S) * NS_PER_S,
                  on_patience_end);
    job_kill_all(pr, sig);
}

static void on_signals(struct pmirun *pr, struct source *src, uint32_t events)
{
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
        case SIGQUIT: on_end_signal(pr, sig); break;
        case SIGTSTP:
            if (pr->agent)
                break;
            job_kill_all(pr,
                         SIGSTOP); /* sessions of their own: the kernel would drop SIGTSTP there */
            output_flush(pr);
            progress_clear();
            if (pr->nodes)
                nodes_flush(pr);
            raise(SIGSTOP); /* pmirun gets SIGCONT in the same way */
            break;
        default:
            if (!pr->agent) /* what is for ranks comes from the head */
                job_kill_all(pr, sig);
        }
    }
    if (child)
        job_reap(pr);
}

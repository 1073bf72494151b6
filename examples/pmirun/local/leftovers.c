/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that outlive their rank. pmirun is a subreaper: it inherits every descendant whose
 * parent has died. */
#define _GNU_SOURCE
#include "leftovers.h"

#include "guard.h"
#include "job.h"
#include "loop.h"
#include "rank_end.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SWEEP_EVERY_NS (20 * NS_PER_MS)
#define SAID_AT_MOST   4u /* processes that are ended with their rank, by name */

void leftovers_note_inherited(struct leftovers *l)
{
    l->inherited = children_of(getpid());
}

static bool is_inherited(const struct leftovers *leftovers, pid_t pid)
{
    for (const pid_t *p = leftovers->inherited; p && *p; p++)
        if (*p == pid)
            return true;
    return false;
}

static void say_ended(struct leftovers *l, int pid)
{
    char path[64], name[16] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    f = fopen(path, "re");
    if (f && fscanf(f, "%15[^\n]", name) == 1 && l->n_said++ < SAID_AT_MOST)
        log_message(
            "process %d (%s) outlives the rank that has started it, and is ended; --ends hydra "
            "lets it run",
            pid, name);
    if (f)
        fclose(f);
}

bool leftovers_signal(struct jobs *jobs, int sig)
{
    pid_t *children = children_of(getpid());
    bool found = false;

    for (const pid_t *p = children; *p; p++) {
        const pid_t pid = *p;

        if (pid == jobs->guard->pid || is_inherited(&jobs->leftovers, pid) || rank_by_pid(pid))
            continue;
        found = true;
        log_verbose("process %d outlives its rank: signal %d", pid, sig);
        if (sig == SIGTERM && !jobs->stopping && !jobs->head) /* a head's are of ssh or srun */
            say_ended(&jobs->leftovers, pid);
        if (sig)
            kill(pid, sig);
        if (sig == SIGTERM)
            kill(pid, SIGCONT);
    }
    free(children);
    return found;
}

bool leftovers_end(struct jobs *jobs)
{
    struct timer *sweep = &jobs->leftovers.sweep;
    int sig;

    if (jobs->leftovers.clean || (jobs->opt->as_hydra && !jobs->stopping))
        return true;
    if (sweep->waits && !timer_passed(sweep))
        return false;
    if (!sweep->at)
        timer_set(&jobs->kill, loop.now_ns + GRACE_NS);
    sig = !sweep->at || jobs->stopping ? SIGTERM : 0;
    if (timer_passed(&jobs->kill))
        sig = SIGKILL;
    ranks_reap(jobs);
    jobs->leftovers.clean = !leftovers_signal(jobs, sig);
    timer_set(sweep, loop.now_ns + SWEEP_EVERY_NS);
    return jobs->leftovers.clean;
}

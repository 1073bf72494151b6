/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmirun: a job launcher and the PMI server of the processes that it starts, on one node or
 * several. All state hangs off one `struct pmirun`.
 *
 * The shape. One process, one thread, one epoll loop (loop.c) that looks at: the ranks' PMI
 * connections (pmi.c), their stdout and stderr (output.c), signals (signals.c), a listening socket
 * (port.c) and the terminal (input.c). libpmiwire's server engine does the protocol; pmirun
 * starts processes (launch.c, spawn.c) and ends them (job.c).
 *
 * On several nodes the same program runs once more on each, as an *agent*, and the pmirun of the
 * command line is their *head* (role.h, multinode/):
 *
 *         head ---- ssh, srun or fork: starts the agents; hands each the secret on its stdin
 *        / |  \     one encrypted TCP connection an agent (multinode/channel.c, multinode/net.c)
 *   agent--agent--agent     the exchange of pairs (exchange.c)
 *     |      |      |
 *   ranks  ranks  ranks
 */
#ifndef PMIRUN_H
#define PMIRUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pmiwire/server.h>

#include "../options.h"
#include "folder.h"
#include "guard.h"
#include "input.h"
#include "job.h"
#include "loop.h"
#include "output.h"
#include "pmi.h"
#include "port.h"
#include "progress.h"
#include "rank_index.h"
#include "role.h"
#include "signals.h"
#include "timeline.h"
#include "timer.h"
#include "topology.h"
#include "util.h"

#define SCRATCH_BYTES 65536u

/* Times of events, ns since the start; 0: has not happened. */
struct phases {
    uint64_t launch_begin, launch_end, first_init, last_init, first_finalize, last_finalize,
        last_exit;
    uint64_t launch_busy; /* time spent in starting processes */
};

struct pmirun {
    struct options opt;
    struct pmiwire_server *server;
    int epoll;
    uint64_t start_ns, now_ns;
    struct phases at;
    char *scratch; /* SCRATCH_BYTES that any reader may use at once */

    struct job *jobs, **jobs_tail;
    uint32_t n_jobs;
    uint64_t n_ranks;                  /* of all jobs, ever */
    uint64_t n_live;                   /* processes that run */
    struct job *launch, **launch_tail; /* jobs with processes to start */
    struct launcher *launcher;         /* launch.c's own; NULL: a head */
    struct rank_index by_pid;

    struct output output;
    struct input input;
    struct signals signals;
    struct conns conns;
    struct port port;
    struct guard guard;
    struct folders folders;
    struct topology topology;
    struct progress progress;
    struct timeline timeline;
    bool full_said; /* bind.c has reported that there is no room to bind ranks */

    int status; /* exit status so far */
    bool status_set;
    bool stopping;
    bool hasty;           /* a signal or --timeout ends it: it waits for no reader after `drain` */
    struct timer *timers; /* those that are set, the earliest first */
    struct timer kill;    /* SIGKILL follows; not set: not planned */
    struct timer drain;   /* streams that are still open are closed; not set: not yet known */
    struct timer timeout; /* --timeout */
    struct timer tick;    /* of the engine */
    struct timer look;    /* for an MPI that a script hides (mpi_detect.c) */
    struct timer judge;   /* something may be judged (job.c) */
    struct cause cause;
    struct stuck stuck;
    struct leftovers leftovers;

    bool head, agent;    /* the role; alone: neither */
    struct nodes *nodes; /* what they need besides; alone: NULL */
};

#endif

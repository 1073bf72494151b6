/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmirun: a job launcher and the PMI server of the processes that it starts, on one node or
 * several. One `struct pmirun` has the state, a part for each subject: pmirun.c connects
 * the parts, main.c begins and ends them, loop.c runs them. All other functions take their own
 * part, whose header says what it needs.
 *
 * The shape. One process, one thread, one epoll loop (loop.c) that looks at: the ranks' PMI
 * connections (pmi.c), their stdout and stderr (output.c), signals (signals.c), a listening socket
 * (port.c) and the terminal (input.c). libpmiwire's server engine does the protocol; pmirun
 * starts processes (launch.c, spawn.c) and ends them (job_end.c decides, rank_end.c acts).
 *
 * On several nodes the same program runs once more on each, as an *agent*, and the pmirun of the
 * command line is their *head* (role.h, multinode/):
 *
 *         head ---- ssh, srun or fork: starts the agents; hands each the secret on its stdin
 *        / |  \     one encrypted TCP connection an agent (multinode/channel.c, multinode/net.c)
 *   agent--agent--agent     the exchange of pairs (pmi.c)
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
#include "role.h"
#include "signals.h"
#include "timeline.h"
#include "topology.h"
#include "util.h"

struct pmirun {
    struct options opt;
    struct jobs jobs;
    struct output output;
    struct input input;
    struct signals signals;
    struct pmi pmi;
    struct port port;
    struct guard guard;
    struct folders folders;
    struct topology topology;
    struct progress progress;
    struct timeline timeline;
};

/* Connects its parts; it is all-zero. */
void pmirun_init(struct pmirun *pr);

#endif

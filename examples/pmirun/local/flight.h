/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children on their way to execve().
 *
 * A flight has SLOTS descriptors of pmirun for its child: launch.c puts the child's ends there
 * (dup3() to flight->fd + SLOT_*), then flight_start() makes the child. The flight has landed when
 * the child has left pmirun's memory.
 */
#ifndef PMIRUN_FLIGHT_H
#define PMIRUN_FLIGHT_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "rank_env.h"

/*
 * Flights at a time, at most; one where flight.c has no raw system calls. A few would do on an idle
 * machine, but beside other work each waits for its turn on a processor: 1,024 ranks of a PMI
 * client beside 4 busy processes, whole job: 4 flights 2.1 s, 16 flights 1.1 s, 64 flights 0.8 s.
 */
#define FLIGHTS 32

/* pmirun's low descriptors. The program finds its PMI connection at FD_PMI; each flight has SLOTS
 * from FD_SLOTS on. */
enum { FD_PMI = 3, FD_SLOTS = 4, SLOT_PMI = 0, SLOT_OUT, SLOT_ERR, SLOT_IN, SLOTS };

/* What failed in a child. */
enum stage { STAGE_NONE, STAGE_DESCRIPTORS, STAGE_WDIR, STAGE_BIND, STAGE_EXEC };

struct fleet;
struct place_set;
struct rank;
struct signals;

struct flight {
    int tid; /* nonzero while the child shares our memory; cleared by the kernel */
    bool busy;
    char *stack;
    const struct fleet *fleet;
    struct rank *rank;
    char **shell_argv; /* runs the program if the kernel does not know its format; NULL: none */
    struct rank_env env;
    const struct place_set *cpus; /* it binds itself to these; NULL: does not */
    bool take_stdin;              /* the slot's descriptor becomes stdin; else our own stays */
    volatile int err;
    volatile enum stage stage;
    int fd;     /* first of its slots */
    int report; /* where a forked child writes err and stage; -1: it shares memory */
};

struct fleet {
    struct flight flights[FLIGHTS];
    unsigned n;    /* fewer when the ranks need the descriptors of the limit */
    unsigned next; /* the number of the next flight, counted without end */
    int null_fd;
    pid_t parent;
    const struct signals *signals; /* what the programs get back */
    struct rlimit orig_nofile;
    bool nofile_raised;
    bool copies; /* children are copies of us */
};

/* Takes the low descriptors. 0 or -errno. */
int fleet_init(struct fleet *fleet, const struct signals *signals);
/* Gives back the descriptors of all flights but the first n, which have landed. */
void fleet_shrink(struct fleet *fleet, unsigned n);
/* Makes the child. Its pid, or -errno. An error of its execve() is known when it lands. */
pid_t flight_start(struct flight *f);
bool flight_has_landed(const struct flight *f);
/* Waits until the child has left our memory, and closes the slots: they hold a rank's ends open,
 * and its output would never end. */
void flight_land(struct flight *f);

#endif

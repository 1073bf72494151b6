/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes on processors, in virtual time.
 *
 * A process sleeps until it gets an item. It then waits for a processor, takes all items that have
 * come until then, and works on them for one turn, whose length its owner decides. If more items
 * have come by then, it begins another turn; else it sleeps, and its processor goes to the process
 * that has waited longest. Nothing preempts a turn.
 *
 * Either every process has a processor of its own, or all share a number of them. A process that
 * finds a processor idle begins `wake_ns` later; one that has waited for it begins `switch_ns`
 * after the processor became free.
 */
#ifndef FENCEPOST_BENCH_PROCESSORS_H
#define FENCEPOST_BENCH_PROCESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct item { /* the first member of a process's item */
    struct item *next;
};

/* One turn of a process that begins at `now` with these items, oldest first.
 * Returns when it ends. */
typedef uint64_t turn_fn(void *ctx, uint32_t process, uint64_t now, struct item *items);

struct processors_opts {
    uint32_t n_processes;
    uint32_t n_processors; /* that all share; 0: every process has its own */
    uint64_t wake_ns, switch_ns;
    turn_fn *turn;
    void (*drop)(void *ctx, struct item *item); /* of processors_fini(): it has not been taken */
    void *ctx;
};

#define PROCESSORS_BUCKETS 65

struct process_events {
    struct process_event *events;
    size_t first, n, cap;
};

struct processors {
    struct processors_opts o;
    struct process *processes;
    uint64_t now;
    struct process_events buckets[PROCESSORS_BUCKETS]; /* what will happen */
    uint32_t n_idle;                                   /* processors */
    uint32_t first_ready, ready; /* processes that wait for one: first and last */
    bool out_of_memory;
};

/* 0 or -1: out of memory. */
int processors_init(struct processors *p, const struct processors_opts *o);
void processors_fini(struct processors *p);

/* Gives the process the item at that moment, which must not be in the past. */
void processors_give(struct processors *p, uint32_t process, uint64_t when, struct item *item);

/* Runs until no process has work left. 0 or -1: out of memory. */
int processors_run(struct processors *p);

#endif

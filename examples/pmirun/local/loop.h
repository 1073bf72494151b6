/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one epoll loop of the process: the descriptors that it polls, the deadlines that it waits for
 * (timer.h), and its time.
 */
#ifndef PMIRUN_LOOP_H
#define PMIRUN_LOOP_H

#include <stdint.h>

#include "timer.h"
#include "util.h"

struct pmirun;

#define SCRATCH_BYTES 65536u

struct loop {
    int epoll;
    uint64_t start_ns;    /* pmirun's start */
    uint64_t now_ns;      /* the same clock, as of this batch of events */
    struct timer *timers; /* those that are set, the earliest first */
    char *scratch;        /* SCRATCH_BYTES that any reader may use at once */
};

extern struct loop loop;

/* The first member of everything that is polled. */
struct source {
    void (*event)(void *of, struct source *src, uint32_t events);
    void *of; /* the subject that it belongs to */
    int fd;   /* -1: closed */
};

/* Time since pmirun's start. */
static inline uint64_t run_ns(void)
{
    return clock_ns() - loop.start_ns;
}

void loop_init(struct pmirun *pr); /* with output and signals; exits on failure */
/* 0 or -errno. events: EPOLL*. */
int loop_add(struct source *src, uint32_t events);
void loop_mod(struct source *src, uint32_t events);
/* Call it before close(): a child in flight may hold a copy, which would keep it in epoll. */
void loop_del(struct source *src);
/* loop_del() and close(); sets fd to -1. A no-op when fd is -1. */
void loop_close(struct source *src);
/* Runs until all processes have ended and their output is written. 0 or -errno. */
int loop_run(struct pmirun *pr);

#endif

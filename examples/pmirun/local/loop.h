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

struct source;

typedef void source_fn(void *of, struct source *src, uint32_t events);

/* The first member of everything that is polled. */
struct source {
    source_fn *event;
    void *of;        /* the subject that it belongs to */
    int fd;          /* -1: closed */
    uint32_t events; /* EPOLL*, which the loop reports; 0: none, it is not polled */
};

/* Time since pmirun's start. */
static inline uint64_t run_ns(void)
{
    return clock_ns() - loop.start_ns;
}

void loop_init(struct pmirun *pr); /* with output and signals; exits on failure */
/* Sets it, and polls for these events, EPOLL*. 0 or -errno. fd: may be -1, of a failed call. */
int loop_open(struct source *src, source_fn *event, void *of, int fd, uint32_t events);
/* Polls for these events instead of earlier ones. 0 or -errno. */
int loop_add(struct source *src, uint32_t events);
/* Polls no more. Call it before close(): a child in flight may hold a copy, which would keep it in
 * epoll. */
void loop_del(struct source *src);
/* loop_del() and close(); sets fd to -1. A no-op when fd is -1. */
void loop_close(struct source *src);
/* Runs until all processes have ended and their output is written. 0 or -errno. */
int loop_run(struct pmirun *pr);

#endif

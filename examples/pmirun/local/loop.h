/* SPDX-License-Identifier: BSD-3-Clause */
/* The one epoll loop, and the descriptors that it polls. */
#ifndef PMIRUN_LOOP_H
#define PMIRUN_LOOP_H

#include <stdint.h>

struct pmirun;

/* The first member of everything that is polled. */
struct source {
    void (*event)(struct pmirun *pr, struct source *src, uint32_t events);
    int fd; /* -1: closed */
};

void loop_init(struct pmirun *pr); /* with output and signals; exits on failure */
/* 0 or -errno. events: EPOLL*. */
int loop_add(struct pmirun *pr, struct source *src, uint32_t events);
void loop_mod(struct pmirun *pr, struct source *src, uint32_t events);
/* Call it before close(): a child in flight may hold a copy, which would keep it in epoll. */
void loop_del(struct pmirun *pr, struct source *src);
/* loop_del() and close(); sets fd to -1. A no-op when fd is -1. */
void loop_close(struct pmirun *pr, struct source *src);
/* Runs until all processes have ended and their output is written. 0 or -errno. */
int loop_run(struct pmirun *pr);

#endif

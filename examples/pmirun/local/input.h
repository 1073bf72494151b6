/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standard input belongs to one rank, to all, or to none (-s). It goes to the ranks of this node; a
 * head's to its agents, and from there to their ranks.
 */
#ifndef PMIRUN_INPUT_H
#define PMIRUN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "timer.h"

#define INPUT_BYTES        4096u  /* that are read at a time */
#define INPUT_WINDOW_BYTES 65536u /* that a head may read ahead of the ranks */

struct agent;
struct head;
struct options;
struct rank;

/* A pipe to a rank. */
struct feed {
    struct source src; /* -1: it wants no more */
    size_t at;         /* of buf: what it has been given */
};

struct input {
    const struct options *opt;
    struct head *head;   /* to whose agents it goes; NULL: to the ranks here */
    struct agent *agent; /* from whose head it comes; NULL: none */
    struct source src;   /* standard input, unless a rank inherits it */
    int from;            /* what is read then: src.fd, or another description of the same */
    struct feed *feeds;
    uint32_t n_feeds; /* ranks here that get it */
    uint32_t n_joined;
    char buf[INPUT_WINDOW_BYTES]; /* bytes read that some ranks have not got yet */
    size_t len;
    bool waits;         /* src is not in epoll: ranks, or a head's agents, have no room */
    struct timer retry; /* in the background: when to look again */
    bool is_file;       /* epoll does not take it */
    bool ends;          /* agent: nothing follows what is in buf */
    uint64_t n_sent;    /* head: bytes to agents */
    uint32_t room;      /* head: bytes that they still take */
};

/* Does this rank get standard input? If so, sets the descriptor: STDIN_FILENO, our own, or one end
 * of a pipe, which the caller closes. False also when no pipe can be made. */
bool input_join(struct input *in, const struct rank *r, int *child_fd);
/* Agent: n bytes of standard input arrived; 0: its end. */
void input_given(struct input *in, const char *p, size_t n);
void input_close(struct input *in);
/* Head: begins to read; its agents' ranks have got n bytes. */
void input_start(struct input *in);
void input_taken(struct input *in, uint64_t n);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* stdin is rank 0's. input.c has it where rank 0 is here, multinode/far_input.c where it is not. */
#ifndef PMIRUN_INPUT_H
#define PMIRUN_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

#define INPUT_BYTES 4096u /* that are read at a time */

struct input {
    struct source src;  /* what we read: a terminal, or all that a head has */
    struct source pipe; /* to rank 0 */
    char *buf;
    size_t head, len;  /* of what has been read and not written yet */
    bool blocked;      /* the pipe to rank 0 is full */
    uint64_t retry_ns; /* in the background: when to look again, 0: no need */
    uint32_t room;     /* head: bytes that the agent of rank 0 still takes */
    bool is_file;      /* head: epoll does not take it */
    bool ends;         /* agent: nothing follows what is in buf */
};

int input_init(struct pmirun *pr, int *child_fd); /* what rank 0 gets as stdin */
void input_retry(struct pmirun *pr);              /* at retry_ns */
void input_close(struct pmirun *pr);
/* Is what is typed now for somebody else? Then it is looked at again later. */
bool input_in_background(struct pmirun *pr);

#endif

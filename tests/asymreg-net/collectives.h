/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of the test of collectives: members, which are processes, and their start and
 * end. */
#ifndef ASYMREG_TESTS_COLLECTIVES_H
#define ASYMREG_TESTS_COLLECTIVES_H

#include "../asymreg/targets.h"

enum { MAX = 9, BLOCK = 1000, BUF_BYTES = 3 << 20, PE = 100 };

/* Memory that the test's processes share, to exchange addresses and to count. */
struct board {
    struct {
        size_t n;
        unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
        uint64_t scratch, buf;
        int ready;
    } member[MAX];
    uint32_t entered, met[16];
    uint32_t victim; /* the member to kill or stop; MAX: none */
    int leave;       /* survivors close at once */
    int killed;      /* or stopped */
};
extern struct board *board;
extern const char *transport;

/* A member's state. */
struct self {
    struct asymreg_context *context;
    struct asymreg_worker *w;
    struct asymreg_group *g;
    struct asymreg_member scratches[MAX], bufs[MAX];
    void *scratch;
    char *buf;
    uint32_t me, n;
    uint32_t met;
    uint32_t random;
};

void begin_member(struct self *s, uint32_t me, uint32_t n);
/* Waits for the others outside of the library, with progress, which they may need. */
void meet(struct self *s);
/* A group whose members all know each other's addresses. */
int of_array(struct self *s, uint32_t n, uint32_t me, void *scratch, uint32_t channel,
             uint32_t timeout_ms, struct asymreg_group **g);
void close_member(struct self *s);
/* Ends after all others; does not return. */
void end_member(struct self *s);

/* The whole of collectives_stopped.c. */
void stopped_members(void);

#endif

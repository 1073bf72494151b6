/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the contract test's two files: see transport_contract.c. */
#ifndef FENCEPOST_TESTS_CONTRACT_H
#define FENCEPOST_TESTS_CONTRACT_H

#include <asymreg/transport.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define CHECK_END() exit(1)
#include "../check.h"

/* Regions of the target. */
enum { DATA, READ_ONLY, COUNTERS, FILE_BACKED, N_REGIONS };
#define REGION_BYTES (1u << 20)

/* A registration as its owner sends it to the other side. */
struct published {
    uint64_t memory;       /* its address at the target */
    uint64_t addr, bytes;  /* the range of the handle: that memory, or the whole address space */
    uint64_t handle_bytes; /* 0: this transport cannot register such memory */
    unsigned char handle[ASYMREG_MAX_HANDLE_BYTES];
};

struct hello {
    uint64_t address_bytes;
    unsigned char address[ASYMREG_MAX_ADDRESS_BYTES];
    struct published regions[N_REGIONS];
};

/* Orders to the target; each is answered with a struct answer. */
enum order_kind {
    ORDER_QUIT,
    ORDER_SUM,
    ORDER_FILL,
    ORDER_DEREG,
    ORDER_REG,
    ORDER_ADD,
    ORDER_KILL,
    ORDER_STOP
};
struct order {
    uint64_t kind, region, offset, bytes, value;
};
struct answer {
    int64_t pid;
    uint64_t value;
    struct published published;
};

/* One side of a case. */
struct side {
    struct asymreg_transport *t;
    const struct asymreg_transport_ops *ops;
    struct asymreg_transport_caps caps;
    int sock;
    struct asymreg_ep *ep;                /* initiator */
    struct hello hello;                   /* the target's */
    struct asymreg_rkey *keys[N_REGIONS]; /* NULL: none */
    bool dying;                           /* the case ends the target, so the time limit is short */
};

struct contract_case {
    const char *name;
    void (*run)(struct side *s); /* the initiator's part; the target obeys orders */
    bool dying;
};
extern const struct contract_case contract_cases[];

/* Makes the transport under test: role 0 for the target, 1 for the initiator. */
struct asymreg_transport *make_transport(int role, bool dying);

struct answer tell(struct side *s, struct order order);
/* Sends the order alone; hear() waits for its answer, if it has one. */
void tell_only(struct side *s, struct order order);
struct answer hear(struct side *s);
/* Returns when the target's process has stopped, or, on another machine, probably has. */
void wait_until_stopped(pid_t pid);
/* Continues it; another machine does so by itself. */
void continue_stopped(pid_t pid);
uint64_t sum_of(const unsigned char *p, size_t bytes);
void fill(unsigned char *p, size_t bytes, uint64_t seed);
uint64_t now_ms(void);
/* When the target of case `killed` dies; 0: at once. */
extern uint64_t kill_after_us;

#endif

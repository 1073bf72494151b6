/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport for peers on the same node: shared memory by descriptor, and
 * process_vm_readv/writev for everything else.
 *
 *   local.c        life, capabilities, registrations, the table of operations
 *   local_peer.c   endpoints, whether a peer is alive, keys of its memory
 *   local_copy.c   put, get, atomics, flush
 *   canary.c       whether a process still runs the same program
 *   local_fds.c    descriptors by message
 */
#ifndef ASYMREG_SRC_LOCAL_INTERNAL_H
#define ASYMREG_SRC_LOCAL_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>
#include <time.h>

#include "local.h"

#define ADDRESS_MAGIC 0x324d5341u
/* also without ASYMREG_LOCAL_SHM */
#define MAPPED_ALWAYS  (ASYMREG_MEM_TABLE | ASYMREG_MEM_ACTIVITY)
#define ALIVE_EVERY_NS 20000000

/*
 * A word in a page at a random address of a process. A system call that finds the word has found
 * the program that put it there: exec() removes the word with the rest of the address space.
 */
struct canary {
    uint64_t at, value;
};

/* The bytes that connect() receives. */
struct address {
    uint32_t magic;
    uint32_t flags; /* ASYMREG_LOCAL_* of the owner */
    char boot_id[40];
    uint64_t pid_ns;
    uint64_t start_time; /* of the process, clock ticks since boot: distinguishes a recycled pid */
    uint64_t pid;
    struct canary canary;
};

/* The handle that mem_reg() publishes. */
enum { HANDLE_CMA = 1, HANDLE_FD = 2 };
struct handle {
    uint32_t kind;
    int32_t fd; /* number in the owner's process */
    uint64_t fd_offset;
    uint64_t dev;
    uint64_t ino;
    uint32_t flags; /* ASYMREG_MEM_* */
    uint32_t reserved;
};

struct asymreg_mem {
    struct asymreg_mem *next, **link;
    int fd;
    struct handle handle;
};

/* A descriptor that a peer sent. */
struct received {
    struct received *next;
    uint64_t pid, start_time, dev, ino;
    int fd;
};

struct asymreg__local {
    struct asymreg_transport base;
    uint32_t flags;
    pid_t pid;
    struct address self;
    pthread_mutex_t lock; /* protects the lists */
    struct asymreg_mem *mems;
    struct received *received;
    _Atomic int kept; /* number of descriptors of processes */
    const struct asymreg_allocator *allocator;
};

struct asymreg_ep {
    struct address peer;
    int pidfd; /* or -1: none is kept */
    _Atomic int dead;
    _Atomic int64_t checked_ns; /* when the process was last known to be alive */
};

enum { KEY_DIRECT, KEY_GUARDED, KEY_CMA };
struct asymreg_rkey {
    int kind;
    int writable;
    uint64_t put_bytes; /* of these, writable by stores: all or none */
    uint64_t get_bytes;
    uint32_t flags; /* ASYMREG_MEM_* */
    uint64_t addr, bytes;
    char *ptr; /* address in this process at which `addr` is mapped */
    void *map;
    size_t map_bytes;
};

static inline struct asymreg__local *asymreg__local(struct asymreg_transport *t)
{
    return (struct asymreg__local *)(void *)t;
}

static inline int64_t asymreg__coarse_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* canary.c */
/* Maps the page. -ENOMEM; -EIO (the kernel gives no random bytes). */
int asymreg__canary_create(struct canary *c);
void asymreg__canary_destroy(struct canary *c);
/* Returns whether the peer's program is gone. 0: no, or this process may not read its memory. */
int asymreg__canary_gone(const struct address *peer);

/* local_peer.c: see struct asymreg_transport_ops. */
int asymreg__local_connect(struct asymreg_transport *t, const void *bytes, size_t n,
                           struct asymreg_ep **out, struct asymreg_error *err);
void asymreg__local_disconnect(struct asymreg_transport *t, struct asymreg_ep *ep);
int asymreg__local_alive(struct asymreg_transport *t, struct asymreg_ep *ep);
int asymreg__local_unpack(struct asymreg_transport *t, struct asymreg_ep *ep, const void *handle,
                          size_t handle_bytes, uint64_t addr, uint64_t bytes,
                          struct asymreg_rkey **out, struct asymreg_error *err);
void asymreg__local_release(struct asymreg_transport *t, struct asymreg_ep *ep,
                            struct asymreg_rkey *rkey);
int asymreg__local_map(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, uint64_t bytes, int write,
                       const void **ptr);

/* local_copy.c: likewise. */
int asymreg__local_check(struct asymreg_transport *t, struct asymreg_ep *ep,
                         struct asymreg_rkey *rkey, uint64_t addr, uint32_t need,
                         struct asymreg_error *err);
int asymreg__local_put(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, const void *src, size_t bytes,
                       struct asymreg_mem *mem, struct asymreg_op *op);
int asymreg__local_get(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, void *dst, size_t bytes,
                       struct asymreg_mem *mem, struct asymreg_op *op);
int asymreg__local_amo(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, uint32_t which, uint32_t bytes,
                       uint64_t operand, uint64_t compare, uint64_t *result, struct asymreg_op *op);
int asymreg__local_flush(struct asymreg_transport *t, struct asymreg_ep *ep);

/* Before every operation: asks the kernel at most once in 20 ms. */
static inline int asymreg__known_alive(const struct asymreg_ep *ep)
{
    return !atomic_load_explicit(&ep->dead, memory_order_relaxed) &&
           asymreg__coarse_ns() - atomic_load_explicit(&ep->checked_ns, memory_order_relaxed) <
               ALIVE_EVERY_NS;
}

static inline int asymreg__alive_lately(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    return asymreg__known_alive(ep) ? 0 : asymreg__local_alive(t, ep);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishes which workers are inside an operation, in memory of the owner that peers on the same
 * node map and store into. Each worker of a peer has a slot. The slot has a number other than 0
 * from before the worker reads the published table until its operation has ended. The owner first
 * changes the table and then reads the slots, with a barrier in between that also covers the peers'
 * processes: so the owner sees the number, or the worker sees the change. The owner trusts the
 * numbers that peers write.
 */
#ifndef ASYMREG_SRC_ACTIVITY_H
#define ASYMREG_SRC_ACTIVITY_H

#include <stdatomic.h>
#include <stdint.h>

#define ASYMREG__ACTIVITY_SLOTS 4096u

struct asymreg__activity_slot {
    _Atomic uint64_t process; /* number in the upper half, its start in the lower; 0: free */
    _Atomic uint64_t tag;     /* of the peer's choice, to find its slots again */
    _Atomic uint64_t busy;
    uint64_t reserved[5];
};

struct asymreg__activity {
    _Atomic uint64_t magic;
    _Atomic uint32_t fence;  /* peers must execute a full barrier after their announcement */
    _Atomic uint32_t n_used; /* slots from here on have never been used */
    uint64_t reserved[6];
    struct asymreg__activity_slot slots[ASYMREG__ACTIVITY_SLOTS];
};
_Static_assert(sizeof(struct asymreg__activity_slot) == 64, "shared layout");
_Static_assert(sizeof(struct asymreg__activity) == 64 * (ASYMREG__ACTIVITY_SLOTS + 1),
               "shared layout");

/* For the owner: zeroed memory. Returns whether peers must fence, for asymreg__activity_drain(). */
int asymreg__activity_init(struct asymreg__activity *a);
/* Waits until each number seen at the call has changed or its process has ended. Returns 0 or
 * ASYMREG_ETIMEDOUT. */
int asymreg__activity_drain(struct asymreg__activity *a, int fence, uint32_t timeout_ms);

/* For a peer. */
int asymreg__activity_check(const struct asymreg__activity *a);
/* Claims a slot: ASYMREG_EFULL, or -errno (/proc cannot be read). *fence: see above. */
int asymreg__activity_claim(struct asymreg__activity *a, uint64_t tag,
                            struct asymreg__activity_slot **slot, uint32_t *fence);
void asymreg__activity_release(struct asymreg__activity_slot *slot);
/* Releases every slot that this process claimed under a tag. */
void asymreg__activity_release_all(struct asymreg__activity *a, uint64_t tag);

static inline void asymreg__activity_enter(struct asymreg__activity_slot *slot, uint64_t number,
                                           uint32_t fence)
{
    atomic_store_explicit(&slot->busy, number, memory_order_relaxed);
    if (fence)
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
}

static inline void asymreg__activity_exit(struct asymreg__activity_slot *slot)
{
    atomic_store_explicit(&slot->busy, 0, memory_order_release);
}

#endif

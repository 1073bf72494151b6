/* SPDX-License-Identifier: BSD-3-Clause */
/* The contestants of bench_asym_lookup: each finds the handle of the region that holds an
 * address. */
#ifndef FENCEPOST_BENCH_ASYM_PEERS_H
#define FENCEPOST_BENCH_ASYM_PEERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct item {
    uint64_t start;
    uint64_t bytes;
    uint64_t handle; /* not 0 */
};

struct peer {
    const char *name;
    /* In this order; NULL: this one cannot. */
    void *(*create)(const struct item *items, size_t n);
    /* Looks the addresses up one after the other. Returns the sum of the handles. */
    uint64_t (*run)(void *self, const uint64_t *addrs, size_t n);
    /* The same, each address depending on the handle found before it; may be NULL. */
    uint64_t (*chain)(void *self, const uint64_t *addrs, size_t n);
    void (*destroy)(void *self);
};

/* Defines run and chain from an expression that finds the handle of `addr` in `self`. */
#define DEFINE_RUNS(prefix, type, find)                                                            \
    static uint64_t prefix##_run(void *opaque, const uint64_t *addrs, size_t n)                    \
    {                                                                                              \
        type *self = (type *)opaque;                                                               \
        uint64_t sum = 0;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint64_t addr = addrs[i];                                                              \
            sum += find;                                                                           \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    static uint64_t prefix##_chain(void *opaque, const uint64_t *addrs, size_t n)                  \
    {                                                                                              \
        type *self = (type *)opaque;                                                               \
        uint64_t sum = 0, handle = 1;                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            uint64_t addr = addrs[i] + (handle == 0);                                              \
            handle = find;                                                                         \
            sum += handle;                                                                         \
        }                                                                                          \
        return sum;                                                                                \
    }

/* peers_cxx.cc, where there is a C++ compiler. */
extern const struct peer peer_std_map;
extern const struct peer peer_absl;

#ifdef __cplusplus
}
#endif
#endif

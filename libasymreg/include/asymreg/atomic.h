/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file atomic.h
 * @brief The atomics of OpenSHMEM by type, each one call of asymreg_amo() with ASYMREG_ANY.
 *
 * Each exists for 64 bits, as shown here, and with 32 instead of 64 in its name for 32 bits:
 *
 *     asymreg_fetch64(worker, pe, raddr, &before)
 *     asymreg_set64(worker, pe, raddr, value)
 *     asymreg_add64(worker, pe, raddr, value)
 *         also and64, or64, xor64
 *     asymreg_swap64(worker, pe, raddr, value, &before)
 *     asymreg_fetch_add64(worker, pe, raddr, value, &before)
 *         also fetch_and64, fetch_or64, fetch_xor64
 *     asymreg_compare_swap64(worker, pe, raddr, compare, value, &before)
 *
 * asymreg_compare_swap64() stores `value` if the memory has the value `compare`. `before` receives
 * the value that the memory had before, and may be NULL. All return what asymreg_amo() returns.
 *
 * Source: OpenSHMEM 1.4, section 9.8.
 */
#ifndef ASYMREG_ATOMIC_H
#define ASYMREG_ATOMIC_H

#include <asymreg/rma.h>

#ifdef __cplusplus
extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* the inline functions are C */
#endif

#define ASYMREG__AMO_PLAIN(name, bits, which)                                                      \
    static inline int name##bits(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,       \
                                 uint##bits##_t value)                                             \
    {                                                                                              \
        return asymreg_amo(worker, pe, raddr, ASYMREG_ANY, which, (bits) / 8, value, 0, NULL);     \
    }
#define ASYMREG__AMO_FETCHING(name, bits, which)                                                   \
    static inline int name##bits(struct asymreg_worker *worker, uint32_t pe, uint64_t raddr,       \
                                 uint##bits##_t value, uint##bits##_t *before)                     \
    {                                                                                              \
        uint64_t old;                                                                              \
        int rc = asymreg_amo(worker, pe, raddr, ASYMREG_ANY, which, (bits) / 8, value, 0, &old);   \
                                                                                                   \
        if (rc == 0 && before)                                                                     \
            *before = (uint##bits##_t)old;                                                         \
        return rc;                                                                                 \
    }
#define ASYMREG__AMOS(bits)                                                                        \
    static inline int asymreg_fetch##bits(struct asymreg_worker *worker, uint32_t pe,              \
                                          uint64_t raddr, uint##bits##_t *before)                  \
    {                                                                                              \
        uint64_t old;                                                                              \
        int rc = asymreg_amo(worker, pe, raddr, ASYMREG_ANY, ASYMREG_AMO_FETCH, (bits) / 8, 0, 0,  \
                             &old);                                                                \
                                                                                                   \
        if (rc == 0 && before)                                                                     \
            *before = (uint##bits##_t)old;                                                         \
        return rc;                                                                                 \
    }                                                                                              \
    static inline int asymreg_compare_swap##bits(struct asymreg_worker *worker, uint32_t pe,       \
                                                 uint64_t raddr, uint##bits##_t compare,           \
                                                 uint##bits##_t value, uint##bits##_t *before)     \
    {                                                                                              \
        uint64_t old;                                                                              \
        int rc = asymreg_amo(worker, pe, raddr, ASYMREG_ANY, ASYMREG_AMO_COMPARE_SWAP, (bits) / 8, \
                             value, compare, &old);                                                \
                                                                                                   \
        if (rc == 0 && before)                                                                     \
            *before = (uint##bits##_t)old;                                                         \
        return rc;                                                                                 \
    }                                                                                              \
    ASYMREG__AMO_PLAIN(asymreg_set, bits, ASYMREG_AMO_SET)                                         \
    ASYMREG__AMO_PLAIN(asymreg_add, bits, ASYMREG_AMO_ADD)                                         \
    ASYMREG__AMO_PLAIN(asymreg_and, bits, ASYMREG_AMO_AND)                                         \
    ASYMREG__AMO_PLAIN(asymreg_or, bits, ASYMREG_AMO_OR)                                           \
    ASYMREG__AMO_PLAIN(asymreg_xor, bits, ASYMREG_AMO_XOR)                                         \
    ASYMREG__AMO_FETCHING(asymreg_swap, bits, ASYMREG_AMO_SWAP)                                    \
    ASYMREG__AMO_FETCHING(asymreg_fetch_add, bits, ASYMREG_AMO_FETCH_ADD)                          \
    ASYMREG__AMO_FETCHING(asymreg_fetch_and, bits, ASYMREG_AMO_AND)                                \
    ASYMREG__AMO_FETCHING(asymreg_fetch_or, bits, ASYMREG_AMO_OR)                                  \
    ASYMREG__AMO_FETCHING(asymreg_fetch_xor, bits, ASYMREG_AMO_XOR)
ASYMREG__AMOS(32)
ASYMREG__AMOS(64)
#undef ASYMREG__AMOS
#undef ASYMREG__AMO_FETCHING
#undef ASYMREG__AMO_PLAIN

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif /* ASYMREG_ATOMIC_H */

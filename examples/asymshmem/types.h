/* SPDX-License-Identifier: BSD-3-Clause */
/* The types that OpenSHMEM has calls for, by class: each list expands to X(NAME, T) for each type
 * T; NAME is how call names spell it. */
#ifndef ASYMSHMEM_TYPES_H
#define ASYMSHMEM_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* put, get, p, g, iput, iget */
#define RMA_TYPES(X)                                                                               \
    X(char, char)                                                                                  \
    X(schar, signed char)                                                                          \
    X(uchar, unsigned char)                                                                        \
    X(short, short)                                                                                \
    X(ushort, unsigned short)                                                                      \
    X(int8, int8_t)                                                                                \
    X(int16, int16_t)                                                                              \
    X(uint8, uint8_t)                                                                              \
    X(uint16, uint16_t)                                                                            \
    X(longdouble, long double)                                                                     \
    X(size, size_t)                                                                                \
    X(ptrdiff, ptrdiff_t)                                                                          \
    SIGNED_TYPES(X)                                                                                \
    UNSIGNED_TYPES(X)                                                                              \
    WIDTH_TYPES(X)                                                                                 \
    FLOAT_TYPES(X)

/* Bits of an element, for calls without a type: put, get, iput, iget */
#define RMA_SIZES(X)                                                                               \
    X(8)                                                                                           \
    X(16)                                                                                          \
    X(32)                                                                                          \
    X(64)                                                                                          \
    X(128)

/* All atomics; the ones with names of before OpenSHMEM 1.4 exist for SIGNED_TYPES only */
#define SIGNED_TYPES(X)                                                                            \
    X(int, int)                                                                                    \
    X(long, long)                                                                                  \
    X(longlong, long long)
#define UNSIGNED_TYPES(X)                                                                          \
    X(uint, unsigned int)                                                                          \
    X(ulong, unsigned long)                                                                        \
    X(ulonglong, unsigned long long)
/* Of the atomics and, or, xor */
#define WIDTH_TYPES(X)                                                                             \
    X(int32, int32_t)                                                                              \
    X(int64, int64_t)                                                                              \
    X(uint32, uint32_t)                                                                            \
    X(uint64, uint64_t)
/* All atomics, since OpenSHMEM 1.5 */
#define LATER_TYPES(X)                                                                             \
    X(size, size_t)                                                                                \
    X(ptrdiff, ptrdiff_t)                                                                          \
    WIDTH_TYPES(X)
/* Of the atomics fetch, set, swap */
#define FLOAT_TYPES(X)                                                                             \
    X(float, float)                                                                                \
    X(double, double)

/* All reductions; the arithmetic ones: sum, prod, min, max */
#define REDUCED_INTEGERS(X)                                                                        \
    X(short, short)                                                                                \
    SIGNED_TYPES(X)
#define REDUCED_REALS(X)                                                                           \
    FLOAT_TYPES(X)                                                                                 \
    X(longdouble, long double)

/* wait_until, test */
#define WAIT_TYPES(X)                                                                              \
    X(short, short)                                                                                \
    X(ushort, unsigned short)                                                                      \
    X(size, size_t)                                                                                \
    X(ptrdiff, ptrdiff_t)                                                                          \
    SIGNED_TYPES(X)                                                                                \
    UNSIGNED_TYPES(X)                                                                              \
    WIDTH_TYPES(X)

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions: one loop for each operation and type. */
#include "coll.h"

#include <asymreg/coll.h>

/* `x` comes from the lower members, `y` from the higher ones. */
#define LOOP(NAME, T, RESULT)                                                                      \
    static void NAME(void *upper, const void *lower, size_t n)                                     \
    {                                                                                              \
        const T *xs = lower;                                                                       \
        T *ys = upper;                                                                             \
                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                           \
            const T x = xs[i], y = ys[i];                                                          \
            ys[i] = (T)RESULT;                                                                     \
        }                                                                                          \
    }

#define ARITHMETIC(NAME, T, WIDE)                                                                  \
    LOOP(NAME##_sum, T, ((WIDE)x + (WIDE)y))                                                       \
    LOOP(NAME##_prod, T, ((WIDE)x * (WIDE)y))
#define ORDER(NAME, T)                                                                             \
    LOOP(NAME##_min, T, (y < x ? y : x))                                                           \
    LOOP(NAME##_max, T, (y > x ? y : x))
#define BITS(NAME, T)                                                                              \
    LOOP(NAME##_and, T, (x & y))                                                                   \
    LOOP(NAME##_or, T, (x | y))                                                                    \
    LOOP(NAME##_xor, T, (x ^ y))

/* Computes in types that are unsigned and at least as wide as unsigned int: these wrap. */
#define INTEGER(NAME, T, WIDE)                                                                     \
    ARITHMETIC(NAME, T, WIDE)                                                                      \
    ORDER(NAME, T)                                                                                 \
    BITS(NAME, T)
#define REAL(NAME, T)                                                                              \
    ARITHMETIC(NAME, T, T)                                                                         \
    ORDER(NAME, T)

INTEGER(int8, int8_t, uint32_t)
INTEGER(int16, int16_t, uint32_t)
INTEGER(int32, int32_t, uint32_t)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint8, uint8_t, uint32_t)
INTEGER(uint16, uint16_t, uint32_t)
INTEGER(uint32, uint32_t, uint32_t)
INTEGER(uint64, uint64_t, uint64_t)
REAL(float, float)
REAL(double, double)
REAL(long_double, long double)
ARITHMETIC(complex_float, float _Complex, float _Complex)
ARITHMETIC(complex_double, double _Complex, double _Complex)

#define SIZES(T) .bytes = sizeof(T), .align = _Alignof(T)
#define OF_INTEGER(NAME, T)                                                                        \
    {                                                                                              \
        SIZES(T), .op = {                                                                          \
            NAME##_sum,                                                                            \
            NAME##_prod,                                                                           \
            NAME##_min,                                                                            \
            NAME##_max,                                                                            \
            NAME##_and,                                                                            \
            NAME##_or,                                                                             \
            NAME##_xor                                                                             \
        }                                                                                          \
    }
#define OF_REAL(NAME, T)                                                                           \
    {                                                                                              \
        SIZES(T), .op = { NAME##_sum, NAME##_prod, NAME##_min, NAME##_max }                        \
    }
#define OF_COMPLEX(NAME, T)                                                                        \
    {                                                                                              \
        SIZES(T), .op = { NAME##_sum, NAME##_prod }                                                \
    }

static const struct {
    size_t bytes, align;
    asymreg__combine_fn *op[ASYMREG_OP_XOR + 1];
} types[] = {
    [ASYMREG_TYPE_INT8] = OF_INTEGER(int8, int8_t),
    [ASYMREG_TYPE_INT16] = OF_INTEGER(int16, int16_t),
    [ASYMREG_TYPE_INT32] = OF_INTEGER(int32, int32_t),
    [ASYMREG_TYPE_INT64] = OF_INTEGER(int64, int64_t),
    [ASYMREG_TYPE_UINT8] = OF_INTEGER(uint8, uint8_t),
    [ASYMREG_TYPE_UINT16] = OF_INTEGER(uint16, uint16_t),
    [ASYMREG_TYPE_UINT32] = OF_INTEGER(uint32, uint32_t),
    [ASYMREG_TYPE_UINT64] = OF_INTEGER(uint64, uint64_t),
    [ASYMREG_TYPE_FLOAT] = OF_REAL(float, float),
    [ASYMREG_TYPE_DOUBLE] = OF_REAL(double, double),
    [ASYMREG_TYPE_LONG_DOUBLE] = OF_REAL(long_double, long double),
    [ASYMREG_TYPE_COMPLEX_FLOAT] = OF_COMPLEX(complex_float, float _Complex),
    [ASYMREG_TYPE_COMPLEX_DOUBLE] = OF_COMPLEX(complex_double, double _Complex),
};

asymreg__combine_fn *asymreg__combine(uint32_t op, uint32_t type, size_t *bytes, size_t *align)
{
    if (type >= sizeof(types) / sizeof(*types) || op > ASYMREG_OP_XOR)
        return NULL;
    *bytes = types[type].bytes;
    *align = types[type].align;
    return types[type].op[op];
}

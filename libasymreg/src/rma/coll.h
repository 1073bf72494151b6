/* SPDX-License-Identifier: BSD-3-Clause */
/* The computation of a reduction, without its messages. */
#ifndef ASYMREG_SRC_COLL_H
#define ASYMREG_SRC_COLL_H

#include <stddef.h>
#include <stdint.h>

/* upper[i] = lower[i] op upper[i]. Both are aligned. */
typedef void asymreg__combine_fn(void *upper, const void *lower, size_t n);

/* reduce.c: the function for an operation and a type; NULL: there is none. */
asymreg__combine_fn *asymreg__combine(uint32_t op, uint32_t type, size_t *bytes, size_t *align);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of the interposed calls: a test for symmetric addresses, and the operations on other
 * addresses. Each takes the call's name for its message and ends the job if it fails. */
#ifndef ASYMSHMEM_ASYM_H
#define ASYMSHMEM_ASYM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden) /* a program may have such names */

/* Between pshmem_init() and pshmem_finalize(), by all PEs. */
void asym_begin(void);
void asym_end(void);
/* Their part of the collectives. */
void collectives_begin(void);
void collectives_end(void);

/* Ends the job and reports why. */
_Noreturn void asym_die(const char *call, const char *what, const char *why);

/* Whether the OpenSHMEM itself reaches an address. */
bool is_symmetric(const void *addr, int pe);

/* Whether bytes of a PE are registered; false if that PE is another one and has ended. */
bool asym_accessible(const void *addr, int pe);

/* Where this PE can load and store registered memory of a PE, until asym_end(); NULL: nowhere. */
void *asym_pointer(const void *addr, int pe);

/* A call of a whole block that is in flight until asym_quiet(), which completes all puts too. */
void asym_nbi(const char *call, bool is_put, const void *remote, const void *local, size_t n,
              size_t size, int pe);
void asym_quiet(const char *call);

/* n elements of `size` bytes each, strides in elements. Local memory is the caller's again when
 * they return. */
void asym_put(const char *call, void *to, const void *from, ptrdiff_t to_stride,
              ptrdiff_t from_stride, size_t n, size_t size, int pe);
void asym_get(const char *call, void *to, const void *from, ptrdiff_t to_stride,
              ptrdiff_t from_stride, size_t n, size_t size, int pe);

enum asym_op { OP_FETCH, OP_SET, OP_COMPARE_SWAP, OP_ADD, OP_AND, OP_OR, OP_XOR };

/* An atomic on 4 or 8 bytes. value, compare and before point to that many; compare is
 * NULL except for OP_COMPARE_SWAP; before may be NULL. */
void asym_atomic(const char *call, enum asym_op op, const void *addr, size_t size,
                 const void *value, const void *compare, void *before, int pe);

#pragma GCC visibility pop

#endif

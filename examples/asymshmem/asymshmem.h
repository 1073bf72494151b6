/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric memory for OpenSHMEM programs: calls for what "Asymmetric Memory Extension for
 * OpenSHMEM", section 2, adds to the standard. libasymshmem, linked before the
 * OpenSHMEM or preloaded, then lets every put, get, atomic, wait and test of <shmem.h> take
 * addresses of registered memory: an address means memory of the PE that is named beside it.
 *
 *   - Not collective: a PE registers its own memory at any time, and sends others the address.
 *   - Collectives accept it: broadcast, collect, fcollect, alltoall, alltoalls, reductions. Each PE
 *     passes the addresses of its own memory. The source is registered at every PE of the active
 *     set, or symmetric at every one. The destination may be any memory, of a different kind at
 *     each PE; a destination that is symmetric at every PE must be the same object at each. pSync
 *     and pWrk are symmetric. A PE is in one collective at a time.
 *   - Symmetric memory works as before. An address that is symmetric in the calling PE is never
 *     looked up among registered memory.
 *   - PEs on one node use shared memory and CMA; on several, UCX.
 *   - Atomics on registered memory are atomic with each other, not with those on symmetric memory
 *     and not with loads and stores.
 *   - A call that fails ends the job, as a bad symmetric address does. The last line names the
 *     call, the address, the PE and the reason.
 */
#ifndef ASYMSHMEM_H
#define ASYMSHMEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers memory of any kind: malloc'd, mapped, static, of the stack. It may not overlap
 * registered memory. 0, or a negative code of asymreg_register(). */
int shmemx_register(void *addr, size_t bytes);

/* Ends the registration that begins at addr. Later accesses by others fail; the caller ensures that
 * none is in flight. 0, or a negative code of libasymreg. */
int shmemx_unregister(void *addr);

/* Allocates zeroed memory in this PE alone, and registers it. PEs on the same node put to it and
 * get from it by loads and stores, without a system call, and shmem_ptr() returns it to them;
 * unless the job uses UCX. NULL: none left, or before shmem_init(). */
void *shmemx_alloc(size_t bytes);

/* Ends the registration of memory of shmemx_alloc(), and frees the memory. A PE that has a pointer
 * of shmem_ptr() to it keeps its mapping until shmem_finalize(). 0, or a negative code of
 * libasymreg. */
int shmemx_free(void *addr);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file asymreg.h
 * @brief Put, get and update memory of another process by its number (the PE) and the ordinary
 *        address there.
 *
 * A process registers any of its memory at any time, without a collective call: up to 67 million
 * regions in a context.
 *
 *   - A process opens a **context**, and registers memory where and when it likes: malloc, stack, a
 *     mapped file. Registered memory that peers may access is a **region**.
 *   - It sends its **blob**, a few hundred bytes, to each peer once, by any means.
 *   - A peer imports the blob under a number of its choice, the **PE**. It makes a **worker** for
 *     each thread, and puts, gets and updates memory by the address that the memory has in the
 *     process that registered it.
 *   - A context publishes a table of its regions, and the library keeps a copy of each peer's
 *     table. For each operation the library finds the region in the copy, and refuses an access
 *     that does not fit the region.
 *   - Over shared memory, CMA (process_vm_readv, process_vm_writev) and verbs the target takes no
 *     part in operations. Over UCX it may have to: see asymreg-ucx.h. This library starts no
 *     thread; the transports over UCX and verbs may start some.
 *
 * It is not an OpenSHMEM or MPI library, nor a launcher, nor an allocator.
 *
 *     struct asymreg_error err;                                 // a sentence when something fails
 *
 *     asymreg_open(NULL, &ctx, &err);                           // NULL: shared memory and CMA
 *     asymreg_register(ctx, p, 4096, ASYMREG_RW, NULL, &id, &err);  // the target
 *     n = asymreg_export(ctx, blob, sizeof(blob), &err);
 *
 *     asymreg_import(ctx, 7, blob, n, &err);                    // the initiator calls the target 7
 *     asymreg_worker_create(ctx, &worker);
 *     asymreg_put(worker, 7, p_there + 8, id, "x", 1);          // or ASYMREG_ANY instead of id
 *     asymreg_get(worker, 7, p_there, id, buf, 100);
 *     asymreg_flush(worker, 7); // all puts have arrived
 *
 * examples/asymreg.c is the whole program. The headers, in the order in which to read them:
 *   - asymreg/rma.h        contexts, registering, peers, put, get, atomics
 *   - asymreg/atomic.h     the atomics by type
 *   - asymreg/bound.h      handles bound to a region: put, get, atomics in a few ns
 *   - asymreg/transport.h  the operations that move bytes; write your own
 *   - asymreg/base.h       errors, permissions, identifiers, limits
 *
 * Caveat: a check before an access is not a lock; read "Guarantees" in rma.h before you unregister
 * and reuse memory.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM" (Ionkov and Young, LA-UR-14-27689) and its
 * future work.
 */
#ifndef ASYMREG_H
#define ASYMREG_H

#include <asymreg/base.h>
#include <asymreg/transport.h>
#include <asymreg/rma.h>
#include <asymreg/atomic.h>
#include <asymreg/bound.h>

#endif /* ASYMREG_H */

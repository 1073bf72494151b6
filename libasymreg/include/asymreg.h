/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file asymreg.h
 * @brief Remote memory by (PE, address): any registered address of any peer, no collective call, a
 *        million regions.
 *
 * A process registers memory where and when it likes; peers put, get and update it by its ordinary
 * address there. The library finds the registration and its handle, keeps copies of the peers'
 * tables fresh, and refuses what does not fit.
 *
 * Three layers, each usable without the ones after it:
 *   - asymreg/index.h      which region holds this address? No I/O
 *   - asymreg/table.h publish an index in readable memory; keep a copy of a peer's. No I/O of its
 *     own
 *   - asymreg/transport.h the operations that move bytes; shared memory and CMA are in this library
 *
 * and on top of them
 *   - asymreg/rma.h        register, export, import, put, get, atomics, flush
 *   - asymreg/coll.h       barrier, broadcast, all-gather
 *
 * asymreg/base.h has errors, permissions and identifiers.
 *
 * What it is not: an OpenSHMEM or MPI library, a launcher, an allocator. It starts no thread, and
 * peers take no part in operations.
 *
 * Caveats: a check before an access is not a lock; read "What is promised" in rma.h before you
 * unregister and reuse memory.
 *
 * Source: "Asymmetric Memory Extension for OpenSHMEM" (Ionkov and Young, LA-UR-14-27689) and its
 * future work.
 */
#ifndef ASYMREG_H
#define ASYMREG_H

#include <asymreg/base.h>
#include <asymreg/index.h>
#include <asymreg/table.h>
#include <asymreg/transport.h>
#include <asymreg/rma.h>
#include <asymreg/coll.h>

#endif /* ASYMREG_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rankmap.h
 * @brief Maps from ranks to processes, as formulas or small tables, and the address vector that
 *        they point into.
 *
 * A communicator, team or group is a function from ranks to processes. Runtimes often store it as a
 * table, even where a formula gives the same values. There librankmap stores the formula, in 40 to
 * 160 bytes. A lookup takes 6 instructions of x86-64 for a stride, 20 for blocks, and more for more
 * levels (MODELS.md).
 *
 *   - To the library, a process is an **id** of up to 40 bits, also called *flat id*. In a runtime
 *     with a single world, the id is the process's rank in that world.
 *   - The **address vector** is an array of the addresses of all processes, indexed by flat id. A
 *     runtime may have several process groups: worlds, or jobs that were spawned or connected. The
 *     vector gives each group a base in one range of ids. So one map can contain processes of
 *     several groups.
 *   - A **map** is an immutable, reference-counted sequence of ids, indexed by rank. It is a
 *     formula if the ids have one, else a bit-packed table, or another table if that is much
 *     smaller.
 *   - A **lookup** binds a map to an array of entries. It is 64 bytes of the caller's memory. For
 *     strides and blocks these 64 bytes suffice to turn a rank into the address of its entry; for
 *     tables the lookup also reads the map.
 *   - A child's map is **composed** from its parent's map and the chosen ranks. group.h lists the
 *     pairs of formulas from which the library computes a formula. From other pairs it computes
 *     runs, makes a *view* (a formula that selects ranks of the parent's table), or expands the ids
 *     and looks for their formula.
 *
 * To make a communicator and look a rank up:
 *
 *     struct rankmap *world, *even, *child;
 *     struct rankmap_lookup lookup;
 *
 *     rankmap_affine(0, 1, n, NULL, &world);             // MPI_COMM_WORLD
 *     rankmap_affine(0, 2, n / 2, NULL, &even);          // the list of ranks 0, 2, 4 …
 *     rankmap_compose(world, even, NULL, &child);        // as MPI_Group_incl() of the world
 *     rankmap_lookup_init(&lookup, child, (uintptr_t)entries, sizeof(entries[0]));
 *     send_to(rankmap_addr(&lookup, 7));                 // a stride: 6 instructions of x86-64
 *     rankmap_unref(even);
 *
 * Six calls do most of the work:
 *
 * | call | what for |
 * |---|---|
 * | rankmap_affine() | a map of a formula: the world, each k-th rank, a column |
 * | rankmap_from_ids() | a map of any array: finds its model |
 * | rankmap_compose() | a child's map, from its parent's and the chosen ranks |
 * | rankmap_lookup_init() | binds a map to the runtime's array of entries |
 * | rankmap_addr(), rankmap_at() | from a rank to its entry, inline |
 * | rankmap_rank() | the inverse: from an id to its rank |
 *
 * A whole program is examples/rankmap.c. The headers, in the order to read them:
 *
 *   - rankmap/base.h    limits, error codes and details, allocator
 *   - rankmap/map.h     maps: from arrays, strides, ranges, text; their models and bytes; pack
 *   - rankmap/lookup.h  rank to address, inline
 *   - rankmap/group.h   composition, and MPI's group calls
 *   - rankmap/av.h      the address vector
 *
 * Caveats:
 *
 *   - The functions that make maps refuse duplicate ids, unless RANKMAP_ALLOW_DUPLICATES is set, as
 *     for a map from ranks to nodes.
 *   - The inline lookups do not check that a rank is below the size of its map.
 *   - If a map is NULL, rankmap_size(), rankmap_id() and rankmap_rank() fault; rankmap_ref() and
 *     rankmap_unref() do nothing; all other functions of maps return -EINVAL.
 *   - The library does not communicate: every process makes its own maps.
 *
 * Source: "Memory Compression Techniques for Network Address Management in MPI" (IPDPS 2017),
 * sections III-B and III-C. These are ours: negative strides, inner strides and phases; the rules
 * of composition; flat ids; views that keep no large table alive; runs, frames and sorted sets; the
 * calls on groups and the inverse.
 */
#ifndef RANKMAP_H
#define RANKMAP_H

#include <rankmap/base.h>
#include <rankmap/map.h>
#include <rankmap/lookup.h>
#include <rankmap/group.h>
#include <rankmap/av.h>

#endif /* RANKMAP_H */

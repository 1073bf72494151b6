/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file rankmap.h
 * @brief Rank maps in tens of bytes, looked up in a handful of instructions, and
 *        the address vector that they point into.
 *
 * A communicator, team or group is a function from ranks to processes. Most
 * runtimes store it as a table; nearly all of these tables are regular. This
 * library stores the function: it detects the shape of an array of ids, computes
 * the shape of a child from that of its parent without expanding either, and
 * falls back to the smallest of several tables where there is no shape.
 *
 * A process has a **flat id** of up to 40 bits (the paper's lpid; in one world
 * simply its rank there). Ids of several process groups share one flat range, in
 * which the address vector gives every group a base, so that one map can span
 * groups: the paper's mlut models are the lut models over flat ids. A **map** is
 * an immutable, reference-counted sequence of distinct ids, indexed by rank. A
 * **lookup** is 64 bytes of caller's memory that turns a rank into the address of
 * an entry of an array, prescaled so that no multiplication by the entry's size
 * remains.
 *
 *   - rankmap/base.h    limits, errors, allocator
 *   - rankmap/map.h     maps: from arrays, shapes, ranges, task maps; what they cost; pack
 *   - rankmap/lookup.h  rank to address, inline
 *   - rankmap/group.h   composition, inverse, translation, set operations
 *   - rankmap/av.h      the address vector
 *
 * Caveats. Maps reject a rank that comes twice, which several MPI libraries accept.
 * Hot functions do not check that a rank is below the size of its map; those that
 * only tell something of a map do not look for a NULL, all others return -EINVAL. Nothing
 * here communicates: every process makes its own maps.
 *
 * Source: "Memory Compression Techniques for Network Address Management in MPI"
 * (IPDPS 2017), sections III-B and III-C. Negative strides, inner strides and phases,
 * the closed forms of composition, flat ids, views of limited pinning, runs, frames
 * and sorted sets, and the algebra with its inverse are ours.
 */
#ifndef RANKMAP_H
#define RANKMAP_H

#include <rankmap/base.h>
#include <rankmap/map.h>
#include <rankmap/lookup.h>
#include <rankmap/group.h>
#include <rankmap/av.h>

#endif /* RANKMAP_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of any length between nodes, over links that take a frame at a time and have
 * back-pressure: a message is cut into pieces. Sans-I/O. On each way messages stay in order, and a
 * long one holds up those behind it.
 *
 * A piece: u32 bytes of the message that are still to come, these among them; the bytes.
 */
#ifndef PMIRUN_PARCEL_H
#define PMIRUN_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARCEL_PIECE_BYTES (64u << 10)
#define PARCEL_MAX_BYTES   (257u << 20) /* a message: COLLECT_BYTES, and what says whose they are */

struct parcel_ops {
    /* Sends a piece to a node. False: it was taken, but the link is full now; parcels_room()
     * follows. */
    bool (*piece)(void *ctx, uint32_t node, const void *p, size_t n);
    /* Delivers a message. False: it is invalid. */
    bool (*message)(void *ctx, uint32_t from, const void *p, size_t n);
};

struct parcels;

/* Ways to and from nodes 0 ... n_nodes - 1. Exits when there is no memory, as xrealloc() does. */
struct parcels *parcels_create(uint32_t n_nodes, const struct parcel_ops *ops, void *ctx);
void parcels_destroy(struct parcels *ps);
/* To each of these nodes. Takes `p`, of n bytes from malloc(), at most PARCEL_MAX_BYTES, not 0. */
void parcels_send(struct parcels *ps, const uint32_t *nodes, uint32_t n_nodes, void *p, size_t n);
void parcels_room(struct parcels *ps, uint32_t node);
/* Takes a piece. False: it, or its message, is invalid. */
bool parcels_input(struct parcels *ps, uint32_t from, const void *p, size_t n);

#endif

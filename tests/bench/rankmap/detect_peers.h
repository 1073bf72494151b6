/* SPDX-License-Identifier: BSD-3-Clause */
/* Other libraries' detection of a pattern in an array of ranks, reimplemented: the found pattern
 * must be right. */
#ifndef FENCEPOST_BENCH_DETECT_PEERS_H
#define FENCEPOST_BENCH_DETECT_PEERS_H

#include <stddef.h>
#include <stdint.h>

struct found {
    int regular;
    int64_t offset, block,
        stride; /* a[i] = offset + i / block * stride + i % block; block 1 for a plain stride */
};

/* ch4 of MPICH up to 4.3: the longest first run is the block, then one division an element. No
 * negative strides. */
void detect_ch4(const int32_t *a, size_t n, struct found *found);
/* MPICH main: offset and stride; its own ids have 64 bits; here they have 32, which favours it.
 * */
void detect_main(const int32_t *a, size_t n, struct found *found);
/* UCC: each difference of neighbours must be the first one. */
void detect_ucc(const int32_t *a, size_t n, struct found *found);

/* No detection: the least cost of reading the array. */
uint64_t read_sum(const int32_t *a, size_t n);

#endif

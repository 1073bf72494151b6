/* SPDX-License-Identifier: BSD-3-Clause */
/* What a checkpoint file looks like, as LAYOUT.md says. */
#ifndef STORWIN_CKPT_H
#define STORWIN_CKPT_H

#include <stddef.h>
#include <stdint.h>

#include "sum.h"

#define STORWIN__CKPT_MAGIC        UINT64_C(0x54504b434e495753) /* "SWINCKPT" */
#define STORWIN__CKPT_ORDER        0x01020304u
#define STORWIN__CKPT_LAYOUT       1u
#define STORWIN__CKPT_HEADER_BYTES UINT64_C(65536) /* a multiple of every page size */

/* In the byte order of the machine, which `order` tells. Fits one sector. */
struct storwin__ckpt_header {
    uint64_t magic;
    uint32_t order, layout, word_bits, slot;
    uint64_t header_bytes;
    uint64_t bytes;      /* of data */
    uint64_t generation; /* from 1 */
    uint64_t app_version;
    uint64_t
        data_sum; /* sum over blocks of 4096 bytes of storwin__sum(block, its length, its number) */
    uint64_t header_sum; /* of all before */
};
_Static_assert(offsetof(struct storwin__ckpt_header, order) == 8 &&
                   offsetof(struct storwin__ckpt_header, slot) == 20 &&
                   offsetof(struct storwin__ckpt_header, header_bytes) == 24 &&
                   offsetof(struct storwin__ckpt_header, data_sum) == 56 &&
                   offsetof(struct storwin__ckpt_header, header_sum) == 64 &&
                   sizeof(struct storwin__ckpt_header) == 72,
               "the layout on storage");

void storwin__ckpt_header_make(struct storwin__ckpt_header *h, uint64_t bytes, uint64_t generation,
                               uint64_t app_version, uint64_t data_sum, uint32_t slot);
int storwin__ckpt_header_check(const void *raw, uint64_t bytes, uint32_t slot,
                               struct storwin__ckpt_header *h);

#endif

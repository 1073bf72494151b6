/* SPDX-License-Identifier: BSD-3-Clause */
/* The header of a slot of a checkpoint file. */
#include "ckpt.h"
#include "sum.h"

#include <storwin.h>
#include <string.h>

static uint64_t header_sum(const struct storwin__ckpt_header *h)
{
    return storwin__sum(h, offsetof(struct storwin__ckpt_header, header_sum), STORWIN__CKPT_MAGIC);
}

void storwin__ckpt_header_make(struct storwin__ckpt_header *h, uint64_t bytes, uint64_t generation,
                               uint64_t app_version, uint64_t data_sum, uint32_t slot)
{
    memset(h, 0, sizeof(*h));
    h->magic = STORWIN__CKPT_MAGIC;
    h->order = STORWIN__CKPT_ORDER;
    h->layout = STORWIN__CKPT_LAYOUT;
    h->word_bits = 64;
    h->header_bytes = STORWIN__CKPT_HEADER_BYTES;
    h->slot = slot;
    h->bytes = bytes;
    h->generation = generation;
    h->app_version = app_version;
    h->data_sum = data_sum;
    h->header_sum = header_sum(h);
}

/*
 * 0: a whole header of a slot for `bytes` bytes. STORWIN_ENONE: nothing was ever committed here, or
 * the header is torn. STORWIN_EFORMAT: something else, or checkpoints of another layout or length.
 * `raw` has at least sizeof(*h) bytes and need not be aligned.
 */
int storwin__ckpt_header_check(const void *raw, uint64_t bytes, uint32_t slot,
                               struct storwin__ckpt_header *h)
{
    static const struct storwin__ckpt_header zeros;

    memcpy(h, raw, sizeof(*h));
    if (memcmp(h, &zeros, sizeof(zeros)) == 0)
        return STORWIN_ENONE;
    if (h->magic != STORWIN__CKPT_MAGIC || h->order != STORWIN__CKPT_ORDER ||
        h->layout != STORWIN__CKPT_LAYOUT || h->word_bits != 64 ||
        h->header_bytes != STORWIN__CKPT_HEADER_BYTES)
        return STORWIN_EFORMAT;
    if (h->header_sum != header_sum(h))
        return STORWIN_ENONE;
    if (h->bytes != bytes || h->slot != slot)
        return STORWIN_EFORMAT;
    return h->generation == 0 ? STORWIN_ENONE : 0;
}

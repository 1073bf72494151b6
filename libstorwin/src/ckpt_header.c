/* SPDX-License-Identifier: BSD-3-Clause */
/* The header of a slot of a checkpoint file, and its checksums. */
#include "ckpt.h"

#include <storwin.h>
#include <string.h>

/* Position and content both count; four independent products keep the processor's multipliers
 * busy. */
uint64_t storwin__sum(const void *data, size_t bytes, uint64_t seed)
{
    static const uint64_t k[4] = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                  0xd6e8feb86659fd93u};
    uint64_t lane[4] = {seed ^ k[0], seed + k[1], bytes * k[2] + seed, ~seed * k[3]};
    const uint8_t *at = data;
    uint64_t sum;

    for (; bytes >= 32; bytes -= 32, at += 32) {
        for (unsigned i = 0; i < 4; i++) {
            uint64_t word;

            memcpy(&word, at + 8 * i, 8);
            lane[i] = (lane[i] ^ word) * k[i];
            lane[i] ^= lane[i] >> 29;
        }
    }
    for (unsigned i = 0; i < bytes; i++)
        lane[i % 4] = (lane[i % 4] ^ at[i]) * k[i % 4] + (lane[i % 4] >> 31);
    sum = lane[0];
    for (unsigned i = 1; i < 4; i++)
        sum = ((sum ^ lane[i]) * k[i]) ^ (sum >> 32);
    sum ^= sum >> 33;
    sum *= k[3];
    return sum ^ (sum >> 32);
}

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

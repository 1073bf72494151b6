/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks: pairs on their way between servers (LAYOUT.md). A table exports them, and merges them. */
#include "internal.h"

#define BLOCK_ALIGN 4u

struct block_header {
    unsigned char magic[8];
    uint32_t byte_order;
    uint16_t layout;
    uint16_t reserved;
    uint32_t n_pairs;
    uint32_t reserved2;
    uint64_t bytes; /* this header included */
};

static const unsigned char block_magic[8] = {'S', 'H', 'M', 'H', 'T', 'B', 'L', 'K'};

_Static_assert(sizeof(struct block_header) == SHMHT_BLOCK_HEADER_BYTES, "layout");

/* Checks the header of a received block of `bytes` bytes. */
int shmht__block_check(const void *block, size_t bytes, uint32_t *n_pairs)
{
    struct block_header h;

    if (bytes < sizeof(h))
        return SHMHT_ETRUNC;
    memcpy(&h, block, sizeof(h));
    if (memcmp(h.magic, block_magic, sizeof(h.magic)) != 0)
        return SHMHT_EMAGIC;
    if (h.byte_order != BYTE_ORDER_MARK)
        return h.byte_order == __builtin_bswap32(BYTE_ORDER_MARK) ? SHMHT_EORDER : SHMHT_ECORRUPT;
    if (h.layout != SHMHT_LAYOUT_VERSION)
        return SHMHT_EVERSION;
    if (h.bytes > bytes)
        return SHMHT_ETRUNC;
    if (h.bytes < bytes || h.bytes % BLOCK_ALIGN != 0 || h.reserved != 0 || h.reserved2 != 0)
        return SHMHT_ECORRUPT;
    *n_pairs = h.n_pairs;
    return 0;
}

/* Reads the next pair of a block whose header has been checked, and moves *pos behind it. Returns
 * 1, 0 at the end, or SHMHT_ECORRUPT. */
int shmht__block_pair(const unsigned char *block, uint64_t bytes, uint64_t *pos,
                      struct shmht__pair *pair)
{
    uint32_t word = 0, second = 0;
    struct shmht__record rec;
    uint64_t at = *pos;

    if (at == bytes)
        return 0;
    if (at > bytes || at < SHMHT_BLOCK_HEADER_BYTES || at % BLOCK_ALIGN != 0)
        return SHMHT_ECORRUPT;
    /* bytes is a multiple of 4 */
    memcpy(&word, block + at, 4);
    if (word & (WORD_DEAD | WORD_SKIP))
        return SHMHT_ECORRUPT;
    if (word & WORD_LONG) {
        if (bytes - at < 8)
            return SHMHT_ECORRUPT;
        memcpy(&second, block + at + 4, 4);
    }
    if (!record_parse(word, second, &rec) || align_up(record_bytes(&rec), BLOCK_ALIGN) > bytes - at)
        return SHMHT_ECORRUPT;
    pair->key = (struct shmht_bytes){block + at + rec.head, rec.key};
    pair->value = (struct shmht_bytes){block + at + rec.head + rec.key, rec.value};
    *pos = at + align_up(record_bytes(&rec), BLOCK_ALIGN);
    return 1;
}

static void block_header_write(unsigned char *block, uint32_t n_pairs, uint64_t bytes)
{
    struct block_header h = {.byte_order = BYTE_ORDER_MARK,
                             .layout = SHMHT_LAYOUT_VERSION,
                             .n_pairs = n_pairs,
                             .bytes = bytes};

    memcpy(h.magic, block_magic, sizeof(h.magic));
    memcpy(block, &h, sizeof(h));
}

ssize_t shmht_reader_export(const struct shmht_reader *r, struct shmht_iter *it, void *buf,
                            size_t cap)
{
    size_t used = SHMHT_BLOCK_HEADER_BYTES;
    struct shmht_iter next = *it;
    unsigned char *block = buf;
    struct shmht__pair pair;
    uint32_t n_pairs = 0;
    int rc;

    if (cap < SHMHT_BLOCK_HEADER_BYTES)
        return SHMHT_ENOBUF;
    while ((rc = shmht_reader_next(r, &next, &pair.key, &pair.value)) == 1) {
        struct shmht__record rec = record_plan(pair.key.len, pair.value.len);
        uint64_t bytes = record_bytes(&rec), padded = align_up(bytes, BLOCK_ALIGN);

        /* Full: this pair is the next block's first. */
        if (padded > cap - used || n_pairs == UINT32_MAX)
            break;
        record_store(block + used, &rec, pair.key.ptr, pair.value.ptr);
        memset(block + used + bytes, 0, (size_t)(padded - bytes));
        used += (size_t)padded;
        n_pairs++;
        *it = next;
    }
    if (rc < 0)
        return rc;
    if (n_pairs == 0) {
        if (rc == 0)
            *it = next;
        return rc == 0 ? 0 : SHMHT_ENOBUF;
    }
    block_header_write(block, n_pairs, used);
    return (ssize_t)used;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks: pairs on their way between servers (LAYOUT.md). */
#include <errno.h>

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

int shmht_block_begin(struct shmht_block *b, void *buf, size_t cap)
{
    if (cap < SHMHT_BLOCK_HEADER_BYTES)
        return SHMHT_ENOBUF;
    b->buf = buf;
    b->cap = cap;
    b->used = SHMHT_BLOCK_HEADER_BYTES;
    b->n_pairs = 0;
    b->align = BLOCK_ALIGN;
    return 0;
}

int shmht_block_add(struct shmht_block *b, const void *key, size_t key_len, const void *value,
                    size_t value_len)
{
    struct shmht__record rec;
    unsigned char *p = b->buf + b->used;
    uint64_t bytes;
    uint32_t word;

    if (key_len - 1 >= SHMHT_MAX_KEY_BYTES)
        return SHMHT_EKEYLEN;
    if (value_len > SHMHT_MAX_VALUE_BYTES)
        return SHMHT_EVALLEN;
    rec = record_plan(key_len, value_len);
    bytes = record_bytes(&rec);
    if (align_up(bytes, b->align) > b->cap - b->used || b->n_pairs == UINT32_MAX)
        return SHMHT_ENOBUF;
    word = record_word(&rec);
    memcpy(p, &word, 4);
    if (rec.head == 8)
        memcpy(p + 4, &rec.value, 4);
    memcpy(p + rec.head, key, key_len);
    if (value_len > 0)
        memcpy(p + rec.head + key_len, value, value_len);
    memset(p + bytes, 0, (size_t)(align_up(bytes, b->align) - bytes));
    b->used += (size_t)align_up(bytes, b->align);
    b->n_pairs++;
    return 0;
}

size_t shmht_block_end(struct shmht_block *b)
{
    struct block_header h = {.byte_order = BYTE_ORDER_MARK,
                             .layout = SHMHT_LAYOUT_VERSION,
                             .n_pairs = b->n_pairs,
                             .bytes = b->used};

    memcpy(h.magic, block_magic, sizeof(h.magic));
    memcpy(b->buf, &h, sizeof(h));
    return b->used;
}

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
    memcpy(&word, block + at, 4); /* bytes is a multiple of 4 */
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

int shmht_block_next(const void *block, size_t bytes, struct shmht_iter *it,
                     struct shmht_bytes *key, struct shmht_bytes *value)
{
    struct shmht__pair pair;
    uint32_t n_pairs;
    int rc = shmht__block_check(block, bytes, &n_pairs);

    if (rc < 0)
        return rc;
    if (it->pos == 0)
        it->pos = SHMHT_BLOCK_HEADER_BYTES;
    rc = shmht__block_pair(block, bytes, &it->pos, &pair);
    if (rc == 1) {
        *key = pair.key;
        *value = pair.value;
    }
    return rc;
}

ssize_t shmht_reader_export(const struct shmht_reader *r, struct shmht_iter *it, void *buf,
                            size_t cap)
{
    struct shmht_bytes key, value;
    struct shmht_iter next = *it;
    struct shmht_block b;
    int rc = shmht_block_begin(&b, buf, cap), more;

    if (rc < 0)
        return rc;
    while ((more = shmht_reader_next(r, &next, &key, &value)) == 1) {
        rc = shmht_block_add(&b, key.ptr, key.len, value.ptr, value.len);
        if (rc < 0)
            break; /* full: this pair is the next block's first */
        *it = next;
    }
    if (more < 0)
        return more;
    if (b.n_pairs == 0) {
        if (rc == 0)
            *it = next;
        return rc;
    }
    return (ssize_t)shmht_block_end(&b);
}

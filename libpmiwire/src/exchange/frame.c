/* SPDX-License-Identifier: BSD-3-Clause */
/* The layout of records, blocks and frames. */
#include <errno.h>

#include "exchange_internal.h"

/* ---- records ---- */

#define WORD_SHORT 0x1fffffffu /* a word with a length of value and of key, and no other bit */

void pmiwire__record_write(char *to, struct pmiwire_str key, struct pmiwire_str value)
{
    const uint32_t word = (uint32_t)key.len << 18 | (uint32_t)value.len;
    const size_t n = 4 + key.len + value.len;

    memcpy(to, &word, 4);
    memcpy(to + 4, key.ptr, key.len);
    if (value.len)
        memcpy(to + 4 + key.len, value.ptr, value.len);
    memset(to + n, 0, pmiwire__record_bytes(key.len, value.len) - n);
}

struct pmiwire__record pmiwire__record_at(const char *p)
{
    uint32_t word;
    struct pmiwire__record rec;

    memcpy(&word, p, 4);
    rec.key = (struct pmiwire_str){.ptr = p + 4, .len = word >> 18};
    rec.value = (struct pmiwire_str){.ptr = p + 4 + rec.key.len,
                                     .len = word & PMIWIRE_EXCHANGE_MAX_VALUE_BYTES};
    rec.bytes = pmiwire__record_bytes(rec.key.len, rec.value.len);
    return rec;
}

int pmiwire__record_read(const char *p, size_t n, struct pmiwire__record *rec)
{
    uint32_t word;

    if (n < 4)
        return PMIWIRE_EPROTO;
    memcpy(&word, p, 4);
    if (word & ~WORD_SHORT || word >> 18 == 0 ||
        pmiwire__record_bytes(word >> 18, word & PMIWIRE_EXCHANGE_MAX_VALUE_BYTES) > n)
        return PMIWIRE_EPROTO;
    *rec = pmiwire__record_at(p);
    return 0;
}

/* ---- blocks: as libshmht's, layout version 1 ---- */

struct block_header {
    char magic[8];
    uint32_t byte_order;
    uint16_t layout, reserved;
    uint32_t n_pairs, reserved2;
    uint64_t bytes; /* header included */
};
_Static_assert(sizeof(struct block_header) == PMIWIRE_BLOCK_HEADER_BYTES, "layout");

#define BYTE_ORDER_MARK 0x01020304u
#define BLOCK_LAYOUT    1u

static const char block_magic[8] = {'S', 'H', 'M', 'H', 'T', 'B', 'L', 'K'};

void pmiwire__block_header(char *to, uint32_t n_pairs, size_t bytes)
{
    struct block_header h = {
        .byte_order = BYTE_ORDER_MARK, .layout = BLOCK_LAYOUT, .n_pairs = n_pairs, .bytes = bytes};

    memcpy(h.magic, block_magic, sizeof(h.magic));
    memcpy(to, &h, sizeof(h));
}

int pmiwire_block_next(const void *block, size_t bytes, size_t *pos, struct pmiwire_keyval *pair)
{
    struct pmiwire__record rec;
    struct block_header h;

    if (bytes < sizeof(h))
        return PMIWIRE_EPROTO;
    memcpy(&h, block, sizeof(h));
    if (memcmp(h.magic, block_magic, sizeof(h.magic)) != 0)
        return PMIWIRE_EPROTO;
    if (h.byte_order != BYTE_ORDER_MARK || h.layout != BLOCK_LAYOUT)
        return PMIWIRE_EVERSION;
    if (h.bytes != bytes)
        return PMIWIRE_EPROTO;
    if (*pos == 0)
        *pos = sizeof(h);
    if (*pos == bytes)
        return 0;
    if (*pos > bytes || pmiwire__record_read((const char *)block + *pos, bytes - *pos, &rec) != 0)
        return PMIWIRE_EPROTO;
    *pos += rec.bytes;
    pair->key = rec.key;
    pair->value = rec.value;
    return 1;
}

/* ---- frames out ---- */

void pmiwire__send(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                   struct iovec *iov, uint32_t n_iov)
{
    size_t bytes = sizeof(*f);

    for (uint32_t i = 1; i < n_iov; i++)
        bytes += iov[i].iov_len;
    f->magic = PMIWIRE__FRAME_MAGIC;
    f->job = x->job;
    f->from = x->me;
    f->bytes = (uint32_t)bytes;
    iov[0].iov_base = f;
    iov[0].iov_len = sizeof(*f);
    x->stats.frames[f->type].n_sent++;
    x->stats.frames[f->type].bytes_sent += bytes;
    if (x->ops.send(x->ctx, node, iov, n_iov, bytes) > 0)
        pmiwire__link_full(x, node);
}

void pmiwire__send_bytes(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                         const void *p, size_t n)
{
    struct iovec iov[2] = {{NULL, 0}, {(void *)(uintptr_t)p, n}};

    pmiwire__send(x, node, f, iov, n ? 2 : 1);
}

void pmiwire__send_pair(struct pmiwire_exchange *x, uint32_t node, struct pmiwire__frame *f,
                        struct pmiwire_str key, struct pmiwire_str value)
{
    static const char zeros[4];
    uint32_t word = (uint32_t)key.len << 18 | (uint32_t)value.len;
    size_t pad = pmiwire__record_bytes(key.len, value.len) - 4 - key.len - value.len;
    struct iovec iov[5] = {{NULL, 0}, {&word, 4}, {(void *)(uintptr_t)key.ptr, key.len}};
    uint32_t n = 3;

    if (value.len)
        iov[n++] = (struct iovec){(void *)(uintptr_t)value.ptr, value.len};
    if (pad)
        iov[n++] = (struct iovec){(void *)(uintptr_t)zeros, pad};
    pmiwire__send(x, node, f, iov, n);
}

/* ---- frames in ---- */

int pmiwire__frame_read(const void *data, size_t n, struct pmiwire__frame *f)
{
    if (n < sizeof(*f))
        return PMIWIRE_EPROTO;
    memcpy(f, data, sizeof(*f));
    if (f->magic != PMIWIRE__FRAME_MAGIC) /* another version, or another byte order */
        return memcmp(data, "PFX", 3) == 0 || memcmp((const char *)data + 1, "XFP", 3) == 0
                   ? PMIWIRE_EVERSION
                   : PMIWIRE_EPROTO;
    if (f->type == 0 || f->type >= PMIWIRE_FRAME_COUNT_ || f->bytes != n)
        return PMIWIRE_EPROTO;
    return 0;
}

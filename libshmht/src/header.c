/* SPDX-License-Identifier: BSD-3-Clause */
/* The header of a region: written by a table or an array, and checked by those who attach. */
#include <errno.h>
#include <sys/stat.h>

#include "internal.h"

int shmht__header_write(struct shmht__header *h, uint32_t kind, uint64_t generation,
                        uint64_t max_bytes, struct shmht_error *err)
{
    int rc = shmht__random(&h->id, sizeof(h->id));

    if (rc < 0)
        return shmht__failed(err, rc, "draw", "a random id");
    h->byte_order = BYTE_ORDER_MARK;
    h->layout = SHMHT_LAYOUT_VERSION;
    h->word_bits = 64;
    h->kind = (uint8_t)kind;
    h->generation = generation ? generation : 1;
    h->max_bytes = max_bytes;
    memcpy(h->magic, shmht__magic, sizeof(h->magic));
    return 0;
}

/* Reads the file's size after `top`: the writer grows the object before it moves `top`. */
static int check_table(const struct shmht__header *h, int fd, uint64_t *bytes,
                       struct shmht_error *err)
{
    uint64_t table = atomic_load_explicit(&h->table, memory_order_acquire);
    uint64_t top = atomic_load_explicit(&h->top, memory_order_acquire);
    uint64_t first = (uint32_t)table, n = table >> 32;
    struct stat st;

    if (fd >= 0) {
        if (fstat(fd, &st) != 0)
            return shmht__failed(err, -errno, "measure", NULL);
        *bytes = (uint64_t)st.st_size;
    }
    if (h->granule_shift < 2 || h->granule_shift > 6 ||
        h->max_bytes >> h->granule_shift > UINT64_C(1) << 32)
        return shmht__refused(err, SHMHT_ECORRUPT, "granule_shift", h->granule_shift);
    if (h->max_load_percent < 10 || h->max_load_percent > 90)
        return shmht__refused(err, SHMHT_ECORRUPT, "max_load_percent", h->max_load_percent);
    if (h->duplicates > SHMHT_DUP_KEEP)
        return shmht__refused(err, SHMHT_ECORRUPT, "duplicates", h->duplicates);
    if (top < HEADER_BYTES || top % (UINT64_C(1) << h->granule_shift) != 0 || top > h->max_bytes)
        return shmht__refused(err, SHMHT_ECORRUPT, "top", top);
    if (n == 0 || first < HEADER_BYTES / LINE_BYTES || (first + n) * LINE_BYTES > top)
        return shmht__refused(err, SHMHT_ECORRUPT, "table", table);
    return top > *bytes ? shmht__refused(err, SHMHT_ETRUNC, "bytes", *bytes) : 0;
}

static int check_array(const struct shmht__header *h, uint64_t bytes, struct shmht_error *err)
{
    uint64_t n = shmht__read_once(&h->n_ranks), stride = shmht__read_once(&h->stride_bytes);

    if (stride == 0 || stride > SHMHT_MAX_STRIDE_BYTES)
        return shmht__refused(err, SHMHT_ECORRUPT, "stride_bytes", stride);
    if (n == 0 || n > SHMHT_MAX_REGION_BYTES || n > h->max_bytes / stride)
        return shmht__refused(err, SHMHT_ECORRUPT, "n_ranks", n);
    if (array_bytes(n, stride) > h->max_bytes)
        return shmht__refused(err, SHMHT_ECORRUPT, "n_ranks", n);
    return array_bytes(n, stride) > bytes ? shmht__refused(err, SHMHT_ETRUNC, "bytes", bytes) : 0;
}

int shmht__header_check(const struct shmht__header *h, int fd, uint64_t *bytes, uint32_t kind,
                        const struct shmht_desc *desc, uint64_t limit, struct shmht_error *err)
{
    if (memcmp(h->magic, shmht__magic, sizeof(h->magic)) != 0)
        return shmht__refused(err, SHMHT_EMAGIC, "magic", h->magic[0]);
    if (h->byte_order != BYTE_ORDER_MARK)
        return shmht__refused(err,
                              h->byte_order == __builtin_bswap32(BYTE_ORDER_MARK) ? SHMHT_EORDER
                                                                                  : SHMHT_ECORRUPT,
                              "byte_order", h->byte_order);
    if (h->layout != SHMHT_LAYOUT_VERSION)
        return shmht__refused(err, SHMHT_EVERSION, "layout", h->layout);
    if (h->word_bits != 64)
        return shmht__refused(err, SHMHT_EVERSION, "word_bits", h->word_bits);
    if (h->kind != kind)
        return shmht__refused(err,
                              h->kind == SHMHT_KIND_TABLE || h->kind == SHMHT_KIND_ARRAY
                                  ? SHMHT_EKIND
                                  : SHMHT_ECORRUPT,
                              "kind", h->kind);
    if (h->max_bytes < HEADER_BYTES || h->max_bytes > SHMHT_MAX_REGION_BYTES)
        return shmht__refused(err, SHMHT_ECORRUPT, "max_bytes", h->max_bytes);
    if (h->max_bytes > limit)
        return shmht__refused(err, SHMHT_ELIMIT, "max_bytes", h->max_bytes);
    if (desc && desc->id != h->id)
        return shmht__refused(err, SHMHT_ESTALE, "id", h->id);
    if (desc && desc->generation != h->generation)
        return shmht__refused(err, SHMHT_ESTALE, "generation", h->generation);
    return kind == SHMHT_KIND_TABLE ? check_table(h, fd, bytes, err) : check_array(h, *bytes, err);
}

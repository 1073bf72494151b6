/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays: header, n_ranks values of stride bytes from HEADER_BYTES on, and behind them, aligned to
 * 64, a bit for each rank. A value is written once, then its bit is set with release; who loads the
 * bit with acquire sees the whole value. Layout: check_array() in reader.c.
 */
#include <errno.h>
#include <unistd.h>

#include "internal.h"

struct shmht_array {
    struct shmht_reader reader;  /* of a reader: the mapping */
    struct shmht__object object; /* of the writer */
    struct shmht_allocator allocator;
    unsigned char *base;
    _Atomic uint64_t *bits;
    uint64_t n_ranks;
    uint64_t stride;
    uint32_t writing;
};

static struct shmht__header *header_of(const struct shmht_array *a)
{
    return (struct shmht__header *)(void *)a->base;
}

static uint64_t bits_place(uint64_t n_ranks, uint64_t stride)
{
    return HEADER_BYTES + align_up(n_ranks * stride, 64);
}

static uint64_t array_bytes(uint64_t n_ranks, uint64_t stride)
{
    return bits_place(n_ranks, stride) + align_up(n_ranks, 512) / 8;
}

static void use(struct shmht_array *a, uint64_t n_ranks, uint64_t stride)
{
    a->n_ranks = n_ranks;
    a->stride = stride;
    a->bits = (_Atomic uint64_t *)(void *)(a->base + bits_place(n_ranks, stride));
}

static int alloc(const struct shmht_allocator *wanted, struct shmht_array **out)
{
    struct shmht_allocator allocator;
    void *p;
    int rc = shmht__handle_alloc(sizeof(**out), wanted, NULL, 0, &allocator, &p);

    if (rc < 0)
        return rc;
    *out = p;
    (*out)->allocator = allocator;
    (*out)->object.fd = (*out)->object.ro_fd = (*out)->reader.fd = -1;
    return 0;
}

static int write_header(struct shmht_array *a, const struct shmht_array_opts *opts)
{
    struct shmht__header *h = header_of(a);
    int rc = shmht__random(&h->id, sizeof(h->id));

    if (rc < 0)
        return rc;
    h->byte_order = BYTE_ORDER_MARK;
    h->layout = SHMHT_LAYOUT_VERSION;
    h->word_bits = 64;
    h->kind = SHMHT_KIND_ARRAY;
    h->generation = opts->generation ? opts->generation : 1;
    h->max_bytes = a->object.max_bytes;
    h->seed = opts->n_ranks;
    h->hash_check = opts->stride_bytes;
    memcpy(h->magic, shmht__magic, sizeof(h->magic));
    return 0;
}

int shmht_array_create(const struct shmht_array_opts *opts, struct shmht_array **out)
{
    struct shmht_array *a;
    uint64_t bytes;
    int rc;

    if (!out || !opts || !shmht__opts_known(opts, sizeof(*opts)) || opts->n_ranks == 0 ||
        opts->stride_bytes == 0 || opts->stride_bytes > SHMHT_MAX_STRIDE_BYTES ||
        opts->flags & ~(SHMHT_NAMED | SHMHT_KEEP_NAME | SHMHT_HUGE) ||
        (opts->name && !(opts->flags & SHMHT_NAMED)))
        return -EINVAL;
    if (opts->n_ranks > SHMHT_MAX_REGION_BYTES / opts->stride_bytes)
        return -EINVAL;
    bytes = align_up(array_bytes(opts->n_ranks, opts->stride_bytes), PAGE_BYTES);
    if (bytes > SHMHT_MAX_REGION_BYTES)
        return -EINVAL;
    rc = alloc(opts->allocator, &a);
    if (rc < 0)
        return rc;
    a->writing = 1;
    rc = shmht__object_create(&a->object, opts->name, opts->flags, bytes, opts->min_free_bytes);
    if (rc == 0)
        rc = shmht__object_grow(&a->object, bytes, 1);
    if (rc == 0) {
        a->base = a->object.base;
        use(a, opts->n_ranks, opts->stride_bytes);
        rc = write_header(a, opts);
    }
    if (rc == 0)
        rc = shmht__object_publish(&a->object, 1);
    if (rc < 0) {
        shmht__object_close(&a->object, 1);
        shmht__handle_free(&a->allocator, a);
        return rc;
    }
    *out = a;
    return 0;
}

int shmht_array_attach(const struct shmht_desc *desc, int fd, const struct shmht_reader_opts *opts,
                       struct shmht_array **out)
{
    struct shmht_array *a;
    uint64_t n_ranks, stride, bytes;
    int rc;

    if (!out || (opts && (!shmht__opts_known(opts, sizeof(*opts)) || opts->place)))
        return -EINVAL;
    rc = alloc(opts ? opts->allocator : NULL, &a);
    if (rc < 0)
        return rc;
    rc = shmht__attach_object(desc, fd, opts, SHMHT_KIND_ARRAY, &a->reader);
    if (rc == 0) { /* the sizes once more, from copies: the header may be changing */
        a->base = (unsigned char *)(uintptr_t)a->reader.base;
        n_ranks = header_of(a)->seed;
        stride = header_of(a)->hash_check;
        bytes = atomic_load_explicit(&a->reader.bytes, memory_order_relaxed);
        if (n_ranks == 0 || stride == 0 || n_ranks > bytes / stride ||
            array_bytes(n_ranks, stride) > bytes)
            rc = SHMHT_ECORRUPT;
        else
            use(a, n_ranks, stride);
    }
    if (rc < 0) {
        shmht__detach_object(&a->reader);
        shmht__handle_free(&a->allocator, a);
        return rc;
    }
    *out = a;
    return 0;
}

void shmht_array_close(struct shmht_array *a)
{
    if (!a)
        return;
    if (a->writing)
        shmht__object_close(&a->object, !(a->object.flags & SHMHT_KEEP_NAME));
    else
        shmht__detach_object(&a->reader);
    shmht__handle_free(&a->allocator, a);
}

int shmht_array_fd(const struct shmht_array *a)
{
    return a->writing ? a->object.ro_fd : -EINVAL;
}

int shmht_array_desc(const struct shmht_array *a, struct shmht_desc *desc)
{
    shmht__desc_fill(header_of(a), &a->object, desc);
    return 0;
}

/* The bits of word w that lie in ranks first to first + n - 1. */
static uint64_t mask_of(uint64_t w, uint64_t first, uint64_t n)
{
    uint64_t low = w * 64 < first ? first - w * 64 : 0, end = first + n - w * 64;

    return UINT64_MAX << low & (end < 64 ? (UINT64_C(1) << end) - 1 : UINT64_MAX);
}

static int check_range(const struct shmht_array *a, uint64_t first, uint64_t n)
{
    if (!a->writing)
        return -EINVAL;
    if (first >= a->n_ranks || n > a->n_ranks - first)
        return SHMHT_ERANK;
    for (uint64_t w = first / 64; n > 0 && w <= (first + n - 1) / 64; w++)
        if (atomic_load_explicit(&a->bits[w], memory_order_relaxed) & mask_of(w, first, n))
            return SHMHT_EEXIST;
    return 0;
}

/* The values are in place: shows them. */
static void publish(struct shmht_array *a, uint64_t first, uint64_t n)
{
    struct shmht__header *h = header_of(a);

    for (uint64_t w = first / 64; n > 0 && w <= (first + n - 1) / 64; w++)
        atomic_fetch_or_explicit(&a->bits[w], mask_of(w, first, n), memory_order_release);
    atomic_store_explicit(&h->entries, atomic_load_explicit(&h->entries, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

int shmht_array_put_range(struct shmht_array *a, uint64_t first, uint64_t n, const void *values)
{
    int rc = check_range(a, first, n);

    if (rc == 0 && n > 0) {
        memcpy(a->base + HEADER_BYTES + first * a->stride, values, (size_t)(n * a->stride));
        publish(a, first, n);
    }
    return rc;
}

int shmht_array_put(struct shmht_array *a, uint64_t rank, const void *value, size_t len)
{
    unsigned char *p;
    int rc = check_range(a, rank, 1);

    if (rc < 0)
        return rc;
    if (len > a->stride)
        return SHMHT_EVALLEN;
    p = a->base + HEADER_BYTES + rank * a->stride;
    if (len > 0)
        memcpy(p, value, len);
    memset(p + len, 0, (size_t)(a->stride - len));
    publish(a, rank, 1);
    return 0;
}

int shmht_array_get(const struct shmht_array *a, uint64_t rank, struct shmht_bytes *value)
{
    if (UNLIKELY(rank >= a->n_ranks))
        return SHMHT_ERANK;
    if (UNLIKELY(
            !(atomic_load_explicit(&a->bits[rank / 64], memory_order_acquire) >> rank % 64 & 1)))
        return SHMHT_ENOENT;
    value->ptr = a->base + HEADER_BYTES + rank * a->stride;
    value->len = (size_t)a->stride;
    return 0;
}

const void *shmht_array_values(const struct shmht_array *a)
{
    return a->base + HEADER_BYTES;
}

int shmht_array_info(const struct shmht_array *a, struct shmht_array_info *info)
{
    struct shmht_array_info i = {
        .n_ranks = a->n_ranks,
        .n_set = atomic_load_explicit(&header_of(a)->entries, memory_order_relaxed),
        .stride_bytes = a->stride,
        .total_bytes = a->writing ? a->object.bytes
                                  : atomic_load_explicit(&a->reader.bytes, memory_order_relaxed),
        .generation = header_of(a)->generation,
        .notes = a->writing ? a->object.notes : a->reader.notes,
        .huge_errno = a->writing ? a->object.huge_errno : a->reader.huge_errno,
    };

    *info = i;
    return 0;
}

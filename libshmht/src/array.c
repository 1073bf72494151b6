/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays (LAYOUT.md). The writer stores a value once, then sets its bit with release. A reader that
 * loads the bit with acquire sees the whole value.
 */
#include <errno.h>

#include "internal.h"

struct shmht_array {
    struct shmht_reader reader;  /* of a reader: the mapping */
    struct shmht__object object; /* of the writer */
    const struct shmht_allocator *allocator;
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

static void set_sizes(struct shmht_array *a, uint64_t n_ranks, uint64_t stride)
{
    a->n_ranks = n_ranks;
    a->stride = stride;
    a->bits = (_Atomic uint64_t *)(void *)(a->base + array_bits_place(n_ranks, stride));
}

static int array_alloc(const struct shmht_allocator *allocator, struct shmht_array **out,
                       struct shmht_error *err)
{
    int rc = shmht__handle_alloc(allocator, sizeof(**out), out, err);

    if (rc < 0)
        return rc;
    (*out)->allocator = allocator;
    (*out)->object.fd = (*out)->object.ro_fd = (*out)->reader.fd = -1;
    return 0;
}

static int array_opts_take(struct shmht_array_opts *to, const struct shmht_array_opts *from,
                           struct shmht_error *err)
{
    int rc = shmht__opts_take(to, from, sizeof(*to), err);

    if (rc < 0)
        return rc;
    if (to->stride_bytes == 0 || to->stride_bytes > SHMHT_MAX_STRIDE_BYTES)
        return shmht__refused(err, -EINVAL, "stride_bytes", to->stride_bytes);
    if (to->n_ranks == 0 || to->n_ranks > SHMHT_MAX_REGION_BYTES / to->stride_bytes ||
        align_up(array_bytes(to->n_ranks, to->stride_bytes), PAGE_BYTES) > SHMHT_MAX_REGION_BYTES)
        return shmht__refused(err, -EINVAL, "n_ranks", to->n_ranks);
    if (to->flags & ~(SHMHT_NAMED | SHMHT_KEEP_NAME | SHMHT_HUGE) ||
        (to->name && !(to->flags & SHMHT_NAMED)))
        return shmht__refused(err, -EINVAL, "flags", to->flags);
    return 0;
}

static int array_init(struct shmht_array *a, const struct shmht_array_opts *o,
                      struct shmht_error *err)
{
    uint64_t bytes = align_up(array_bytes(o->n_ranks, o->stride_bytes), PAGE_BYTES);
    int rc = shmht__object_create(&a->object, o->name, o->flags, bytes, o->min_free_bytes);

    if (rc < 0)
        return shmht__failed(err, rc, "create", o->name);
    rc = shmht__object_grow(&a->object, bytes, 1);
    if (rc < 0)
        return shmht__failed(err, rc, "preallocate", a->object.name);
    a->base = a->object.base;
    set_sizes(a, o->n_ranks, o->stride_bytes);
    header_of(a)->n_ranks = o->n_ranks;
    header_of(a)->stride_bytes = o->stride_bytes;
    rc = shmht__header_write(header_of(a), SHMHT_KIND_ARRAY, o->generation, bytes, err);
    if (rc < 0)
        return rc;
    rc = shmht__object_publish(&a->object, 1);
    return rc < 0 ? shmht__failed(err, rc, "seal", a->object.name) : 0;
}

int shmht_array_create(const struct shmht_array_opts *opts, struct shmht_array **out,
                       struct shmht_error *err)
{
    struct shmht_array_opts o;
    struct shmht_array *a = NULL;
    int rc = out ? array_opts_take(&o, opts, err) : shmht__refused(err, -EINVAL, "out", 0);

    if (rc == 0)
        rc = array_alloc(o.allocator, &a, err);
    if (rc < 0)
        return rc;
    a->writing = 1;
    rc = array_init(a, &o, err);
    if (rc < 0) {
        shmht__object_close(&a->object, 1);
        shmht__handle_free(a->allocator, a);
        return rc;
    }
    *out = a;
    return 0;
}

int shmht_array_attach(const struct shmht_desc *desc, int fd, const struct shmht_reader_opts *opts,
                       struct shmht_array **out, struct shmht_error *err)
{
    struct shmht_reader_opts o = {0};
    struct shmht_array *a = NULL;
    uint64_t n_ranks, stride, bytes;
    int rc = out ? shmht__reader_opts_take(&o, opts, err) : shmht__refused(err, -EINVAL, "out", 0);

    if (rc == 0 && o.region)
        rc = shmht__refused(err, -EINVAL, "region", (uintptr_t)o.region);
    if (rc == 0)
        rc = array_alloc(o.allocator, &a, err);
    if (rc < 0)
        return rc;
    rc = shmht__attach_object(desc, fd, &o, SHMHT_KIND_ARRAY, &a->reader, err);
    /* Checks the sizes again, from copies: a hostile writer may change the header. */
    if (rc == 0) {
        a->base = (unsigned char *)(uintptr_t)a->reader.base;
        n_ranks = shmht__read_once(&header_of(a)->n_ranks);
        stride = shmht__read_once(&header_of(a)->stride_bytes);
        bytes = atomic_load_explicit(&a->reader.bytes, memory_order_relaxed);
        if (n_ranks == 0 || stride == 0 || n_ranks > bytes / stride ||
            array_bytes(n_ranks, stride) > bytes)
            rc = shmht__refused(err, SHMHT_ECORRUPT, "n_ranks", n_ranks);
        else
            set_sizes(a, n_ranks, stride);
    }
    if (rc < 0) {
        shmht_array_detach(a);
        return rc;
    }
    *out = a;
    return 0;
}

void shmht_array_destroy(struct shmht_array *a)
{
    if (!a)
        return;
    shmht__object_close(&a->object, !(a->object.flags & SHMHT_KEEP_NAME));
    shmht__handle_free(a->allocator, a);
}

void shmht_array_detach(struct shmht_array *a)
{
    if (!a)
        return;
    shmht__detach_object(&a->reader);
    shmht__handle_free(a->allocator, a);
}

int shmht_array_share(const struct shmht_array *a, struct shmht_desc *desc)
{
    if (!a->writing)
        return -EINVAL;
    if (desc && shmht__may_write(&a->object) < 0)
        return -EPERM;
    if (desc)
        shmht__desc_fill(header_of(a), &a->object, desc);
    return a->object.ro_fd;
}

int shmht_array_put(struct shmht_array *a, uint64_t rank, const void *value, size_t len)
{
    _Atomic uint64_t *n_set = &header_of(a)->n_set;
    uint64_t bit = UINT64_C(1) << rank % 64;
    unsigned char *p;

    if (!a->writing)
        return -EINVAL;
    if (UNLIKELY(shmht__may_write(&a->object) < 0))
        return -EPERM;
    if (rank >= a->n_ranks)
        return SHMHT_ERANK;
    if (atomic_load_explicit(&a->bits[rank / 64], memory_order_relaxed) & bit)
        return SHMHT_EEXIST;
    if (len > a->stride)
        return SHMHT_EVALLEN;
    p = a->base + HEADER_BYTES + rank * a->stride;
    if (len > 0)
        memcpy(p, value, len);
    memset(p + len, 0, (size_t)(a->stride - len));
    atomic_fetch_or_explicit(&a->bits[rank / 64], bit, memory_order_release);
    atomic_store_explicit(n_set, atomic_load_explicit(n_set, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return 0;
}

int shmht_array_get(const struct shmht_array *a, uint64_t rank, struct shmht_bytes *value)
{
    if (UNLIKELY(rank >= a->n_ranks))
        return shmht__absent(value, SHMHT_ERANK);
    if (UNLIKELY(
            !(atomic_load_explicit(&a->bits[rank / 64], memory_order_acquire) >> rank % 64 & 1)))
        return shmht__absent(value, SHMHT_ENOENT);
    value->ptr = a->base + HEADER_BYTES + rank * a->stride;
    value->len = (size_t)a->stride;
    return 0;
}

int shmht_array_query(const struct shmht_array *a, struct shmht_info_array *info)
{
    struct shmht_info_array i = {
        .values = a->base + HEADER_BYTES,
        .n_ranks = a->n_ranks,
        .stride_bytes = a->stride,
        .n_set = atomic_load_explicit(&header_of(a)->n_set, memory_order_relaxed),
        .total_bytes = a->writing ? a->object.bytes
                                  : atomic_load_explicit(&a->reader.bytes, memory_order_relaxed),
        .generation = header_of(a)->generation,
        .huge_errno = a->writing ? a->object.huge_errno : a->reader.huge_errno,
        .notes = a->writing ? a->object.notes : a->reader.notes,
    };

    *info = i;
    return 0;
}

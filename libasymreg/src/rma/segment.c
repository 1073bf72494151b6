/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations with the transport ("segments"), and the choice of one for a new region.
 *
 * c->seg_index has the segments that the user made and the automatic ones that regions may share;
 * these do not overlap. Two kinds are in no index: a segment made for one region alone, and an
 * automatic segment that another has replaced. The latter stays for its regions, gets no further
 * ones, and ends with the last of them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Registers memory with the transport and publishes the segment. */
static int segment_add(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                       uint64_t *value, struct asymreg_error *err)
{
    const uint32_t cap = desc->fd < 0 ? ASYMREG_CAP_PRIVATE : ASYMREG_CAP_FD;
    unsigned char handle[ASYMREG_MAX_HANDLE_BYTES];
    struct asymreg_mem *mem;
    size_t n = 0;
    int rc;

    if (!(c->caps.flags & (cap | ASYMREG_CAP_PRIVATE)))
        return asymreg__fail(err, ASYMREG_ENOTSUP, "%s", asymreg__reason(c, cap));
    asymreg__t_lock(c);
    rc = c->t->ops->mem_reg(c->t, desc, &mem, handle, &n, err);
    asymreg__t_unlock(c);
    if (rc < 0)
        return rc;
    rc = asymreg__table_segment_add(c->table, desc->addr, desc->bytes, handle, n, value);
    if (rc < 0) {
        asymreg__t_lock(c);
        c->t->ops->mem_dereg(c->t, mem);
        asymreg__t_unlock(c);
        return rc;
    }
    c->segs[(uint32_t)*value] = (struct asymreg__own_segment){
        .mem = mem, .value = *value, .prot = desc->prot, .bytes = desc->bytes};
    c->n_segments++;
    c->segment_bytes += desc->bytes;
    c->n_registrations++;
    return 0;
}

int asymreg__kind_check(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                        struct asymreg_error *err)
{
    static const char *const names[] = {"host", "CUDA", "ROCm", "dma-buf"};
    const uint32_t kind = desc->kind;

    if (kind == ASYMREG_KIND_HOST)
        return 0;
    if (kind >= sizeof(names) / sizeof(*names) || (kind == ASYMREG_KIND_DMABUF) != (desc->fd >= 0))
        return asymreg__fail(err, -EINVAL,
                             "no such kind of memory, or a descriptor too many or "
                             "too few (a dma-buf has one): %u",
                             kind);
    if (!(c->caps.kinds >> kind & 1))
        return asymreg__fail(err, ASYMREG_ENOTSUP, "the transport %s cannot use %s memory here",
                             c->t->ops->name, names[kind]);
    return 0;
}

/* Makes a segment available to new regions. ASYMREG_EOVERLAP: another segment is there. */
static int segment_index(struct asymreg_context *c, uint64_t value, uint64_t base, uint64_t bytes)
{
    return asymreg__index_insert(c->seg_index, base, bytes, 0, value,
                                 &c->segs[(uint32_t)value].place);
}

int asymreg__segment_retire(struct asymreg_context *c, uint64_t value)
{
    struct asymreg__own_segment *s = &c->segs[(uint32_t)value];
    int rc = s->place ? asymreg__index_remove(c->seg_index, s->place) : 0;

    if (rc == 0)
        s->place = 0;
    return rc;
}

int asymreg__segment_remove(struct asymreg_context *c, uint64_t value)
{
    struct asymreg__own_segment *s = &c->segs[(uint32_t)value], old;
    int rc;

    if ((uint32_t)value >= c->max_segments || s->value != value || value == c->whole)
        return ASYMREG_ESTALE;
    if (asymreg__table_users(c->table, value))
        return ASYMREG_EBUSY;
    rc = asymreg__segment_retire(c, value); /* needs memory, so it comes before what cannot fail */
    if (rc == 0)
        rc = asymreg__table_segment_remove(c->table, value);
    if (rc < 0)
        return rc;
    old = *s;
    c->n_segments--;
    c->segment_bytes -= old.bytes;
    asymreg__t_lock(c);
    memset(s, 0, sizeof(*s));
    c->dereg_rc = c->t->ops->mem_dereg(c->t, old.mem);
    asymreg__t_unlock(c);
    if (old.alloc)
        munmap(old.alloc, old.alloc_bytes);
    return 0;
}

/* The first segment of the index in [start, last]: a user's if `kept`, else an automatic one. */
static int segment_next(struct asymreg_context *c, uint64_t start, uint64_t last, int kept,
                        struct asymreg_region *place)
{
    while (asymreg__index_next(c->seg_index, start, place) && place->start <= last) {
        if (c->segs[(uint32_t)place->value].automatic != (uint32_t)kept)
            return 1;
        if (place->last >= last)
            break;
        start = place->last + 1;
    }
    return 0;
}

int asymreg__segments_retire(struct asymreg_context *c, uint64_t start, uint64_t last)
{
    struct asymreg_region place;
    int rc;

    while (segment_next(c, start, last, 0, &place)) {
        rc = asymreg__segment_retire(c, place.value);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/*
 * Finds the memory to register for a region without a segment: the mapped memory around it in its
 * chunk, up to the next segments. The new segment replaces automatic segments that overlap it, and
 * includes their permissions. Returns 0 if only the region itself is mapped there.
 */
static int segment_extend(struct asymreg_context *c, uint64_t start, uint64_t last,
                          struct asymreg_mem_desc *desc)
{
    uint64_t low = 0, high = UINT64_MAX, at;
    struct asymreg_region place;
    uint32_t prot = desc->prot;

    if (c->coalesce_bytes != ASYMREG_COALESCE_MAPPING) {
        low = start & ~(c->coalesce_bytes - 1);
        high = last | (c->coalesce_bytes - 1);
    }
    for (at = start; asymreg__index_next(c->seg_index, at, &place); at = place.last + 1) {
        if (place.start > last) {
            if (place.start <= high)
                high = place.start - 1;
            break;
        }
        prot |= c->segs[(uint32_t)place.value].prot;
        if (place.last == UINT64_MAX)
            break;
    }
    if (!asymreg__mapped_run(start, last, prot, &low, &high)) {
        prot = desc->prot;
        if (!asymreg__mapped_run(start, last, prot, &low, &high))
            return 0;
    }
    for (at = low; asymreg__index_next(c->seg_index, at, &place) && place.last < start; at = low)
        low = place.last + 1;
    if (low == start && high == last)
        return 0;
    desc->addr = low;
    desc->bytes = high - low + 1;
    desc->prot = prot;
    return 1;
}

int asymreg__segment_for(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                         uint32_t flags, uint64_t *value, struct asymreg_error *err)
{
    const uint64_t start = desc->addr, last = start + desc->bytes - 1;
    const struct asymreg_region *at = asymreg__index_lookup(c->seg_reader, start);
    const int alone = desc->kind || desc->fd >= 0;
    struct asymreg_mem_desc wide = *desc;
    struct asymreg_region place;
    uint32_t prot = desc->prot;
    int rc;

    if (at && !c->segs[(uint32_t)at->value].automatic) {
        if (desc->fd >= 0)
            return ASYMREG_EOVERLAP;
        *value = at->value;
        if (at->last < last)
            return ASYMREG_ERANGE;
        return (prot & ~c->segs[(uint32_t)*value].prot) ? ASYMREG_EACCES : 0;
    }
    if (segment_next(c, start, last, 1, &place))
        return ASYMREG_EOVERLAP;
    if (c->whole && !alone) {
        *value = c->whole;
        return 0;
    }
    if (c->coalesce_bytes && !(flags & ASYMREG_ALONE) && !alone) {
        /* One without a region was left for lack of memory: its pages may be others by now. */
        if (at && at->last >= last && asymreg__table_users(c->table, at->value) &&
            !(prot & ~c->segs[(uint32_t)at->value].prot)) {
            *value = at->value;
            return 0;
        }
        if (segment_extend(c, start, last, &wide) && segment_add(c, &wide, value, NULL) == 0) {
            c->segs[(uint32_t)*value].automatic = 1;
            /* A segment that is not in the index serves this region only. */
            if (asymreg__segments_retire(c, wide.addr, wide.addr + wide.bytes - 1) == 0)
                (void)segment_index(c, *value, wide.addr, wide.bytes);
            return 0;
        }
        /* The transport may be able to register the region alone. */
    }
    rc = segment_add(c, desc, value, err);
    if (rc == 0)
        c->segs[(uint32_t)*value].automatic = 1;
    return rc;
}

/* ---- segments of the user ---- */

int asymreg__user_segment_add(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                              uint64_t *value, struct asymreg_error *err)
{
    uint64_t last = desc->addr + desc->bytes - 1;
    struct asymreg_region r;
    int rc;

    if (asymreg__first_in(asymreg__table_index(c->table), desc->addr, last, &r))
        return ASYMREG_EOVERLAP;
    rc = asymreg__segments_retire(c, desc->addr, last);
    if (rc < 0)
        return rc;
    if (asymreg__first_in(c->seg_index, desc->addr, last, &r))
        return ASYMREG_EOVERLAP;
    rc = segment_add(c, desc, value, err);
    if (rc < 0)
        return rc;
    rc = segment_index(c, *value, desc->addr, desc->bytes);
    if (rc < 0)
        asymreg__segment_remove(c, *value);
    return rc;
}

int asymreg_segment_alloc(struct asymreg_context *context, size_t bytes, void **addr,
                          struct asymreg_error *err)
{
    struct asymreg_mem_desc desc = {.size = sizeof(desc), .prot = ASYMREG_ALL};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct asymreg_error why = {.code = 0};
    uint64_t value;
    void *p;
    int fd, rc;

    if (!context || !bytes || !addr)
        return asymreg__fail(err, -EINVAL, "context or addr is NULL, or bytes is 0");
    if (bytes > PTRDIFF_MAX - page)
        return asymreg__fail(err, -ENOMEM, "%zu bytes are more than an address space", bytes);
    bytes = (bytes + page - 1) & ~(page - 1);
    p = asymreg__shared_pages(context, bytes, ASYMREG_CAP_FD, 0, &fd);
    if (!p)
        return asymreg__fail(err, -errno, "no shared memory of %zu bytes: %s", bytes,
                             strerror(errno));
    desc.addr = (uintptr_t)p;
    desc.bytes = bytes;
    desc.fd = fd;
    rc = asymreg__may_change(context);
    if (rc == 0) {
        pthread_mutex_lock(&context->lock);
        rc = asymreg__user_segment_add(context, &desc, &value, &why);
        if (rc == 0) {
            context->segs[(uint32_t)value].alloc = p;
            context->segs[(uint32_t)value].alloc_bytes = bytes;
        }
        pthread_mutex_unlock(&context->lock);
    }
    if (fd >= 0)
        close(fd);
    if (rc < 0) {
        munmap(p, bytes);
        return asymreg__fail_at(err, rc, &why, ASYMREG__NO_PE, desc.addr, bytes);
    }
    *addr = p;
    return 0;
}

int asymreg_segment_remove(struct asymreg_context *context, const void *addr)
{
    const struct asymreg_region *place;
    int rc = asymreg__may_change(context);

    if (rc < 0)
        return rc;
    rc = ASYMREG_ENOREGION;
    pthread_mutex_lock(&context->lock);
    place = asymreg__index_lookup(context->seg_reader, (uintptr_t)addr);
    if (place && place->start == (uintptr_t)addr &&
        !context->segs[(uint32_t)place->value].automatic)
        rc = asymreg__segment_remove(context, place->value);
    pthread_mutex_unlock(&context->lock);
    return rc;
}

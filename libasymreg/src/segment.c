/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations with the transport ("segments"), and which of them a new region gets.
 *
 * Segments that the user made, and automatic ones that regions may share, are in c->seg_index,
 * where they do not overlap. A segment made for one region alone is in no index; nor is an
 * automatic one that another has taken the place of: it stays for its regions, gets no more, and
 * goes with the last of them.
 */
#define _GNU_SOURCE
#include "context.h"

#include <string.h>
#include <unistd.h>

#include "table.h"

int asymreg__segment_add(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                         uint64_t *value)
{
    unsigned char handle[ASYMREG_MAX_HANDLE_BYTES];
    struct asymreg_mem *mem;
    size_t n = 0;
    int rc;

    asymreg__t_lock(c);
    rc = c->t->ops->mem_reg(c->t, desc, &mem, handle, &n);
    asymreg__t_unlock(c);
    if (rc < 0)
        return asymreg__why(c, rc);
    if ((rc = asymreg_table_segment_add(c->table, desc->addr, desc->bytes, handle, n, value)) < 0) {
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

int asymreg__segment_index(struct asymreg_context *c, uint64_t value, uint64_t base, uint64_t bytes)
{
    return asymreg_index_insert(c->seg_index, base, bytes, 0, value,
                                &c->segs[(uint32_t)value].place);
}

int asymreg__segment_remove(struct asymreg_context *c, uint64_t value)
{
    struct asymreg__own_segment *s = &c->segs[(uint32_t)value], old;
    int rc;

    if ((uint32_t)value >= c->max_segments || s->value != value || value == c->whole)
        return ASYMREG_ESTALE;
    if ((rc = asymreg_table_segment_remove(c->table, value)) < 0)
        return rc;
    old = *s;
    memset(s, 0, sizeof(*s));
    if (old.place)
        asymreg_index_remove(c->seg_index, old.place);
    c->n_segments--;
    c->segment_bytes -= old.bytes;
    asymreg__t_lock(c);
    c->dereg_rc = c->t->ops->mem_dereg(c->t, old.mem);
    asymreg__t_unlock(c);
    if (old.alloc)
        munmap(old.alloc, old.alloc_bytes);
    return 0;
}

/* The first segment of the index in [start, last], the user's if `kept`, else the automatic ones.
 * */
static int next_segment(struct asymreg_context *c, uint64_t start, uint64_t last, int kept,
                        struct asymreg_region *place)
{
    while (asymreg_index_next(c->seg_index, start, place) && place->start <= last) {
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

    while (next_segment(c, start, last, 0, &place)) {
        if ((rc = asymreg_index_remove(c->seg_index, place.id)) < 0)
            return rc;
        c->segs[(uint32_t)place.value].place = 0;
    }
    return 0;
}

/*
 * The memory to register for a region that no segment serves: what is mapped around it in its
 * chunk, up to the next segments. Those automatic ones that hold a part of it will make way, and
 * what they permit is asked for too. Returns 0 if there is nothing but the region itself.
 */
static int chunk_around(struct asymreg_context *c, uint64_t start, uint64_t last,
                        struct asymreg_mem_desc *desc)
{
    uint64_t low = 0, high = UINT64_MAX, at;
    struct asymreg_region place;
    uint32_t prot = desc->prot;

    if (c->coalesce_bytes != ASYMREG_COALESCE_MAPPING) {
        low = start & ~(c->coalesce_bytes - 1);
        high = last | (c->coalesce_bytes - 1);
    }
    for (at = start; asymreg_index_next(c->seg_index, at, &place) && place.start <= last;
         at = place.last + 1) {
        prot |= c->segs[(uint32_t)place.value].prot;
        if (place.last >= last)
            break;
    }
    if (!asymreg__mapped_run(start, last, prot, &low, &high)) {
        prot = desc->prot;
        if (!asymreg__mapped_run(start, last, prot, &low, &high))
            return 0;
    }
    for (at = low; asymreg_index_next(c->seg_index, at, &place) && place.last < start; at = low)
        low = place.last + 1;
    if (last < UINT64_MAX && asymreg_index_next(c->seg_index, last + 1, &place) &&
        place.start > last && place.start <= high)
        high = place.start - 1;
    if (low == start && high == last)
        return 0;
    desc->addr = low;
    desc->bytes = high - low + 1;
    desc->prot = prot;
    return 1;
}

int asymreg__segment_for(struct asymreg_context *c, uint64_t start, uint64_t bytes, uint32_t prot,
                         uint32_t flags, uint64_t *value)
{
    struct asymreg_mem_desc desc = {.size = sizeof(desc),
                                    .addr = start,
                                    .bytes = bytes,
                                    .prot = prot,
                                    .fd = -1},
                            wide = desc;
    const struct asymreg_region *at = asymreg_index_lookup(c->seg_reader, start);
    uint64_t last = start + bytes - 1;
    struct asymreg_region place;
    int rc;

    if (at && !c->segs[(uint32_t)at->value].automatic) {
        *value = at->value;
        if (at->last < last)
            return ASYMREG_ERANGE;
        return (prot & ~c->segs[(uint32_t)*value].prot) ? ASYMREG_EACCES : 0;
    }
    if (next_segment(c, start, last, 1, &place))
        return ASYMREG_EOVERLAP;
    if (c->whole) {
        *value = c->whole;
        return 0;
    }
    if (c->coalesce_bytes && !(flags & ASYMREG_ALONE)) {
        if (at && at->last >= last && !(prot & ~c->segs[(uint32_t)at->value].prot)) {
            *value = at->value;
            return 0;
        }
        if (chunk_around(c, start, last, &wide) &&
            (rc = asymreg__segment_add(c, &wide, value)) != ASYMREG_EFULL) {
            if (rc == 0) {
                c->segs[(uint32_t)*value].automatic = 1;
                /* Without a place in the index it serves this region alone. */
                if (asymreg__segments_retire(c, wide.addr, wide.addr + wide.bytes - 1) == 0)
                    (void)asymreg__segment_index(c, *value, wide.addr, wide.bytes);
                return 0;
            }
            /* The transport may be able to register the region itself. */
        }
    }
    if ((rc = asymreg__segment_add(c, &desc, value)) == 0)
        c->segs[(uint32_t)*value].automatic = 1;
    return rc;
}

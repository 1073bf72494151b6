/* SPDX-License-Identifier: BSD-3-Clause */
/* A context: opening, closing, and what this process registers. */
#define _GNU_SOURCE
#include "context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "local.h"
#include "opts.h"
#include "table.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int asymreg__why(struct asymreg_context *c, int code)
{
    if (code == ASYMREG_ENOTSUP || code == ASYMREG_EUNREACH) {
        asymreg__t_lock(c);
        __atomic_store_n(&c->why, c->t->ops->reason(c->t, 0), __ATOMIC_RELAXED);
        asymreg__t_unlock(c);
    }
    return code;
}

const char *asymreg_why(struct asymreg_context *context)
{
    return context ? __atomic_load_n(&context->why, __ATOMIC_RELAXED) : NULL;
}

int asymreg_get_caps(struct asymreg_context *context, struct asymreg_transport_caps *caps)
{
    size_t size;

    if (!context || !caps || caps->size < sizeof(*caps))
        return -EINVAL;
    size = caps->size;
    *caps = context->caps;
    caps->size = size;
    return 0;
}

struct asymreg_transport *asymreg_get_transport(struct asymreg_context *context)
{
    return context->t;
}

/* A memfd counts as a file: where it may not be so large, the kernel would send SIGXFSZ. */
static int may_be_so_large(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
           bytes <= limit.rlim_cur;
}

/* Memory that peers can fetch by descriptor and cannot shorten; plain pages when the transport has
 * no use for a descriptor. */
static void *shared_pages(const struct asymreg_context *c, size_t bytes, uint32_t cap,
                          int more_seals, int *fd)
{
    void *p = MAP_FAILED;

    *fd = -1;
    if (!(c->caps.flags & cap)) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    if (!may_be_so_large(bytes)) {
        errno = EFBIG;
        return NULL;
    }
    if ((*fd = memfd_create("asymreg", MFD_CLOEXEC | MFD_ALLOW_SEALING)) < 0)
        return NULL;
    if (ftruncate(*fd, (off_t)bytes) == 0)
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
    if (p != MAP_FAILED && fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | more_seals) < 0) {
        int e = errno;
        munmap(p, bytes);
        errno = e;
        p = MAP_FAILED;
    }
    if (p == MAP_FAILED) {
        int e = errno;
        close(*fd);
        *fd = -1;
        errno = e;
        return NULL;
    }
    return p;
}

static int check_transport(const struct asymreg_transport *t)
{
    const struct asymreg_transport_ops *o = t->ops;

    if (!o || o->size < sizeof(*o) || o->version != ASYMREG_TRANSPORT_VERSION)
        return ASYMREG_EVERSION;
    return o->name && strlen(o->name) < 16 && o->query && o->reason && o->destroy && o->mem_reg &&
                   o->mem_dereg && o->address && o->connect && o->disconnect && o->peer_alive &&
                   o->rkey_unpack && o->rkey_release && o->put && o->get && o->flush && o->progress
               ? 0
               : -EINVAL;
}

/* See activity.h. */
static int open_activity(struct asymreg_context *c)
{
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .prot = ASYMREG_RW, .flags = ASYMREG_MEM_ACTIVITY};
    size_t bytes = (sizeof(*c->activity) + 4095) & ~(size_t)4095;

    if (!(c->activity =
              shared_pages(c, bytes, ASYMREG_CAP_FD | ASYMREG_CAP_MAP, 0, &c->activity_fd)))
        return errno ? -errno : -ENOMEM;
    c->activity_fence = asymreg__activity_init(c->activity);
    desc.addr = (uintptr_t)c->activity;
    desc.bytes = sizeof(*c->activity);
    desc.fd = c->activity_fd;
    return c->t->ops->mem_reg(c->t, &desc, &c->activity_mem, c->activity_handle,
                              &c->activity_handle_bytes);
}

static int open_table(struct asymreg_context *c, const struct asymreg_opts *o)
{
    struct asymreg_table_opts t = {.size = sizeof(t),
                                   .max_regions = o->max_regions,
                                   .max_segments = o->max_segments,
                                   .ring = o->ring,
                                   .max_handle_bytes = c->caps.max_handle_bytes,
                                   .simd = o->simd};
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .prot = ASYMREG_READ, .flags = ASYMREG_MEM_TABLE};
    uint64_t whole;
    int rc;

    if (!(c->bytes = asymreg_table_bytes(&t)))
        return -EINVAL;
    if (getrandom(&c->incarnation, sizeof(c->incarnation), 0) != sizeof(c->incarnation))
        return -EIO;
    c->incarnation |= 1;
    if (!(c->memory = shared_pages(c, c->bytes, ASYMREG_CAP_FD | ASYMREG_CAP_MAP,
                                   F_SEAL_FUTURE_WRITE, &c->table_fd)))
        return errno ? -errno : -ENOMEM;
    if ((rc = asymreg_table_create(&t, c->memory, c->incarnation, &c->table)) < 0)
        return rc;
    desc.addr = (uintptr_t)c->memory;
    desc.bytes = c->bytes;
    desc.fd = c->table_fd;
    if ((rc = c->t->ops->mem_reg(c->t, &desc, &c->table_mem, c->table_handle,
                                 &c->table_handle_bytes)) < 0)
        return rc;
    if ((c->flags & ASYMREG_DRAIN) && (c->caps.flags & ASYMREG_CAP_MAP) &&
        (rc = open_activity(c)) < 0)
        return rc;
    if (!(c->caps.flags & ASYMREG_CAP_WHOLE_SPACE))
        return 0;
    unsigned char handle[ASYMREG_MAX_HANDLE_BYTES];
    size_t n = 0;
    struct asymreg_mem *mem;
    desc = (struct asymreg_mem_desc){
        .size = sizeof(desc), .bytes = UINT64_MAX, .prot = ASYMREG_ALL, .fd = -1};
    if ((rc = c->t->ops->mem_reg(c->t, &desc, &mem, handle, &n)) < 0)
        return rc;
    if ((rc = asymreg_table_segment_add(c->table, 0, UINT64_MAX, handle, n, &whole)) < 0) {
        c->t->ops->mem_dereg(c->t, mem);
        return rc;
    }
    c->whole = whole;
    c->segs[(uint32_t)whole] = (struct asymreg__own_segment){
        .mem = mem, .value = whole, .bytes = UINT64_MAX, .prot = ASYMREG_ALL};
    c->n_segments = c->n_registrations = 1;
    return 0;
}

int asymreg_open(const struct asymreg_opts *opts, struct asymreg_context **context)
{
    struct asymreg_opts o = {.size = sizeof(o)};
    struct asymreg_index_opts index_opts = {.size = sizeof(index_opts)};
    struct asymreg_transport *t =
        opts && asymreg__opts_readable(opts, sizeof(o)) ? opts->transport : NULL;
    struct asymreg_context *c = NULL;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int rc = -EINVAL;

    if (opts && !asymreg__opts_known(opts, sizeof(o)))
        goto fail;
    if (opts)
        o = *opts;
    if (!context || o.reserved || (o.flags & ~(ASYMREG_SPLIT | ASYMREG_FRESH | ASYMREG_DRAIN)) ||
        o.max_regions > ASYMREG_MAX_REGIONS || o.max_segments > ASYMREG_MAX_SEGMENTS)
        goto fail;
    if (o.coalesce_bytes != ASYMREG_COALESCE_MAPPING && (o.coalesce_bytes & (o.coalesce_bytes - 1)))
        goto fail;
    if (!t && (rc = asymreg_local_create(NULL, &t)) < 0)
        return rc;
    if ((rc = check_transport(t)) < 0)
        goto fail;
    rc = -ENOMEM;
    if (!(c = calloc(1, sizeof(*c))))
        goto fail;
    c->t = t;
    c->owner = getpid();
    c->flags = o.flags;
    c->simd = o.simd;
    c->coalesce_bytes = o.coalesce_bytes && o.coalesce_bytes < page ? page : o.coalesce_bytes;
    c->table_fd = c->activity_fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->t_lock, NULL);
    c->caps.size = sizeof(c->caps);
    if ((rc = t->ops->query(t, &c->caps)) < 0)
        goto fail;
    c->caps.size = sizeof(c->caps);
    rc = -EINVAL;
    if (c->caps.max_handle_bytes > ASYMREG_MAX_HANDLE_BYTES ||
        c->caps.max_address_bytes > ASYMREG_MAX_ADDRESS_BYTES)
        goto fail;
    rc = -ENOMEM;
    if (!o.max_regions)
        o.max_regions = 1u << 20;
    if (!o.max_segments)
        o.max_segments =
            o.max_regions < 65536 ? o.max_regions + 1 : 65536; /* one more for all private memory */
    c->max_regions = asymreg__n_leaves(o.max_regions) * ASYMREG_LEAF_SLOTS;
    c->max_segments = index_opts.max_regions = o.max_segments;
    c->shares = asymreg__reserve(c->max_regions * sizeof(*c->shares));
    c->segs = asymreg__reserve(c->max_segments * sizeof(*c->segs));
    if (!c->shares || !c->segs || (rc = asymreg_index_create(&index_opts, &c->seg_index)) < 0 ||
        (rc = asymreg_reader_create(c->seg_index, &c->seg_reader)) < 0 ||
        (rc = open_table(c, &o)) < 0)
        goto fail;
    *context = c;
    return 0;
fail:
    if (c)
        asymreg_close(c);
    else if (t && t->ops && t->ops->destroy)
        t->ops->destroy(t);
    return rc;
}

void asymreg_close(struct asymreg_context *context)
{
    const struct asymreg_transport_ops *ops;

    if (!context || context->owner !=
                        getpid()) /* a child would tell its parent's peers that they have lost it */
        return;
    ops = context->t->ops;
    asymreg_table_destroy(context->table); /* first of all, peers are told */
    for (uint32_t pe = 0; pe < context->end_pe; pe++)
        if (asymreg__peer_at(context, pe))
            asymreg__peer_free(context, asymreg__peer_at(context, pe));
    for (uint32_t i = 0; i < ASYMREG_MAX_PEERS / PEER_CHUNK; i++)
        free(context->peers[i]);
    for (uint32_t i = 0; context->segs && i < context->max_segments; i++) {
        struct asymreg__own_segment *s = &context->segs[i];
        if (!s->value)
            continue;
        ops->mem_dereg(context->t, s->mem);
        if (s->alloc)
            munmap(s->alloc, s->alloc_bytes);
    }
    if (context->table_mem)
        ops->mem_dereg(context->t, context->table_mem);
    if (context->activity_mem)
        ops->mem_dereg(context->t, context->activity_mem);
    if (context->activity)
        munmap(context->activity, (sizeof(*context->activity) + 4095) & ~(size_t)4095);
    if (context->activity_fd >= 0)
        close(context->activity_fd);
    if (context->memory)
        munmap(context->memory, context->bytes);
    if (context->table_fd >= 0)
        close(context->table_fd);
    asymreg_reader_destroy(context->seg_reader);
    asymreg_index_destroy(context->seg_index);
    asymreg__unreserve(context->shares, context->max_regions * sizeof(*context->shares));
    asymreg__unreserve(context->segs, context->max_segments * sizeof(*context->segs));
    ops->destroy(context->t);
    pthread_mutex_destroy(&context->lock);
    pthread_mutex_destroy(&context->t_lock);
    free(context);
}

/* The first region or segment of an index in [start, last]. */
static int first_in(struct asymreg_index *ix, uint64_t start, uint64_t last,
                    struct asymreg_region *r)
{
    return asymreg_index_next(ix, start, r) && r->start <= last;
}

static int do_register(struct asymreg_context *c, uint64_t start, uint64_t bytes, uint32_t prot,
                       uint32_t flags, asymreg_id *id)
{
    struct asymreg_region r;
    uint64_t value = 0;
    int rc;

    if (first_in(asymreg_table_index(c->table), start, start + bytes - 1, &r)) {
        if (!(flags & ASYMREG_SHARE) || r.start != start || r.last != start + bytes - 1 ||
            r.prot != prot)
            return ASYMREG_EOVERLAP;
        if (c->shares[(uint32_t)r.id] == UINT32_MAX)
            return ASYMREG_EFULL;
        c->shares[(uint32_t)r.id]++;
        *id = r.id;
        return 0;
    }
    if ((rc = asymreg__segment_for(c, start, bytes, prot, flags, &value)) < 0)
        return rc;
    rc = asymreg_table_insert(c->table, start, bytes, prot, value, id);
    if (rc < 0 && c->segs[(uint32_t)value].automatic)
        asymreg__segment_remove(c, value); /* unless others lie in it */
    return rc;
}

int asymreg_register(struct asymreg_context *context, const void *addr, size_t bytes, uint32_t prot,
                     uint32_t flags, asymreg_id *id)
{
    uint64_t start = (uintptr_t)addr;
    asymreg_id mine;
    int rc;

    if (!context || !bytes || !prot || (prot & ~ASYMREG_ALL) ||
        (flags & ~(ASYMREG_SHARE | ASYMREG_ALONE)))
        return -EINVAL;
    if (start + bytes - 1 < start)
        return ASYMREG_EOVERFLOW;
    pthread_mutex_lock(&context->lock);
    rc = do_register(context, start, bytes, prot, flags, &mine);
    pthread_mutex_unlock(&context->lock);
    if (rc == 0 && id)
        *id = mine;
    return rc;
}

static int do_unregister(struct asymreg_context *c, asymreg_id id)
{
    uint32_t slot = (uint32_t)id;
    struct asymreg_index *ix = asymreg_table_index(c->table);
    uint64_t value;
    int rc;

    if (slot >= ix->n_used || !(id >> 32 & 1) || ix->slots[slot].generation != id >> 32)
        return ASYMREG_ESTALE;
    if (c->shares[slot]) {
        c->shares[slot]--;
        return 0;
    }
    value = ix->slots[slot].value;
    if ((rc = asymreg_table_remove(c->table, id)) == 0 && c->segs[(uint32_t)value].automatic)
        asymreg__segment_remove(c, value); /* unless others lie in it */
    return rc;
}

int asymreg_unregister(struct asymreg_context *context, asymreg_id id)
{
    int rc;

    if (!context)
        return -EINVAL;
    pthread_mutex_lock(&context->lock);
    rc = do_unregister(context, id);
    pthread_mutex_unlock(&context->lock);
    return rc;
}

/* Can the end of this registration be waited for? */
static int can_drain(struct asymreg_context *c, asymreg_id id)
{
    uint32_t slot = (uint32_t)id;
    struct asymreg_index *ix = asymreg_table_index(c->table);
    const char *why;
    uint64_t value;

    if (slot >= ix->n_used || !(id >> 32 & 1) || ix->slots[slot].generation != id >> 32)
        return ASYMREG_ESTALE;
    if (c->shares[slot])
        return ASYMREG_EBUSY;
    if (c->activity)
        return 0;
    value = ix->slots[slot].value;
    if (c->caps.flags & ASYMREG_CAP_REVOKE) {
        if (c->segs[(uint32_t)value].automatic && asymreg__table_users(c->table, value) == 1)
            return 0;
        why = "the region lies in a registration that outlives it; see ASYMREG_ALONE";
    } else if (c->caps.flags & ASYMREG_CAP_MAP) {
        why = "the context was opened without ASYMREG_DRAIN";
    } else {
        asymreg__t_lock(c);
        why = c->t->ops->reason(c->t, ASYMREG_CAP_REVOKE);
        asymreg__t_unlock(c);
    }
    __atomic_store_n(&c->why, why, __ATOMIC_RELAXED);
    return ASYMREG_ENOTSUP;
}

int asymreg_unregister_drain(struct asymreg_context *context, asymreg_id id, uint32_t timeout_ms)
{
    int rc;

    if (!context)
        return -EINVAL;
    pthread_mutex_lock(&context->lock);
    if ((rc = can_drain(context, id)) == 0 && (rc = do_unregister(context, id)) == 0 &&
        !context->activity)
        rc = context->dereg_rc;
    pthread_mutex_unlock(&context->lock);
    return rc == 0 && context->activity
               ? asymreg__activity_drain(context->activity, context->activity_fence, timeout_ms)
               : rc;
}

int asymreg_drain(struct asymreg_context *context, uint32_t timeout_ms)
{
    if (!context)
        return -EINVAL;
    if (context->activity)
        return asymreg__activity_drain(context->activity, context->activity_fence, timeout_ms);
    __atomic_store_n(&context->why,
                     context->flags & ASYMREG_DRAIN
                         ? "the transport does not show who is inside an operation"
                         : "the context was opened without ASYMREG_DRAIN",
                     __ATOMIC_RELAXED);
    return ASYMREG_ENOTSUP;
}

int asymreg_unregister_range(struct asymreg_context *context, const void *addr, size_t bytes)
{
    uint64_t start = (uintptr_t)addr;
    struct asymreg_region r;
    int rc;

    if (!context || !bytes)
        return -EINVAL;
    if (start + bytes - 1 < start)
        return ASYMREG_EOVERFLOW;
    pthread_mutex_lock(&context->lock);
    if (!first_in(asymreg_table_index(context->table), start, start + bytes - 1, &r))
        rc = ASYMREG_ENOREGION;
    else if (r.start != start || r.last != start + bytes - 1)
        rc = -EINVAL;
    else
        rc = do_unregister(context, r.id);
    pthread_mutex_unlock(&context->lock);
    return rc;
}

/* A segment of the user's. */
static int add_indexed(struct asymreg_context *c, const struct asymreg_mem_desc *desc,
                       uint64_t *value)
{
    struct asymreg_region place;
    int rc;

    if (first_in(c->seg_index, desc->addr, desc->addr + desc->bytes - 1, &place))
        return ASYMREG_EOVERLAP;
    if ((rc = asymreg__segment_add(c, desc, value)) == 0 &&
        (rc = asymreg__segment_index(c, *value, desc->addr, desc->bytes)) < 0)
        asymreg__segment_remove(c, *value);
    return rc;
}

int asymreg_segment_add(struct asymreg_context *context, void *addr, size_t bytes, uint32_t prot,
                        uint32_t flags, int fd, uint64_t fd_offset, uint64_t *segment)
{
    struct asymreg_mem_desc desc = {.size = sizeof(desc),
                                    .addr = (uintptr_t)addr,
                                    .bytes = bytes,
                                    .prot = prot,
                                    .fd = fd < 0 ? -1 : fd,
                                    .flags = flags & ASYMREG_TRUSTED ? ASYMREG_MEM_TRUSTED : 0,
                                    .fd_offset = fd_offset};
    struct asymreg_region r;
    uint64_t value;
    int rc;

    if (!context || !bytes || !prot || (prot & ~ASYMREG_ALL) || (flags & ~ASYMREG_TRUSTED))
        return -EINVAL;
    if (desc.addr + bytes - 1 < desc.addr || fd_offset + bytes < fd_offset)
        return ASYMREG_EOVERFLOW;
    if (!(context->caps.flags &
          (fd < 0 ? ASYMREG_CAP_PRIVATE : ASYMREG_CAP_FD | ASYMREG_CAP_PRIVATE))) {
        asymreg__t_lock(context);
        __atomic_store_n(
            &context->why,
            context->t->ops->reason(context->t, fd < 0 ? ASYMREG_CAP_PRIVATE : ASYMREG_CAP_FD),
            __ATOMIC_RELAXED);
        asymreg__t_unlock(context);
        return ASYMREG_ENOTSUP;
    }
    pthread_mutex_lock(&context->lock);
    if (first_in(asymreg_table_index(context->table), desc.addr, desc.addr + bytes - 1, &r))
        rc = ASYMREG_EOVERLAP;
    else if ((rc = asymreg__segments_retire(context, desc.addr, desc.addr + bytes - 1)) == 0)
        rc = add_indexed(context, &desc, &value);
    pthread_mutex_unlock(&context->lock);
    if (rc == 0 && segment)
        *segment = value;
    return rc;
}

int asymreg_remapped(struct asymreg_context *context, const void *addr, size_t bytes)
{
    uint64_t start = (uintptr_t)addr;
    int rc;

    if (!context || !bytes)
        return -EINVAL;
    if (start + bytes - 1 < start)
        return ASYMREG_EOVERFLOW;
    pthread_mutex_lock(&context->lock);
    rc = asymreg__segments_retire(context, start, start + bytes - 1);
    pthread_mutex_unlock(&context->lock);
    return rc;
}

int asymreg_get_stats(struct asymreg_context *context, struct asymreg_stats *stats)
{
    if (!context || !stats || stats->size < sizeof(*stats))
        return -EINVAL;
    pthread_mutex_lock(&context->lock);
    *stats = (struct asymreg_stats){.size = stats->size,
                                    .n_regions = asymreg_table_index(context->table)->n_regions,
                                    .n_segments = context->n_segments,
                                    .segment_bytes = context->segment_bytes,
                                    .n_registrations = context->n_registrations};
    pthread_mutex_unlock(&context->lock);
    return 0;
}

int asymreg_segment_remove(struct asymreg_context *context, uint64_t segment)
{
    int rc;

    if (!context)
        return -EINVAL;
    pthread_mutex_lock(&context->lock);
    rc = asymreg__segment_remove(context, segment);
    pthread_mutex_unlock(&context->lock);
    return rc;
}

int asymreg_alloc(struct asymreg_context *context, size_t bytes, void **ptr)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t value;
    void *p;
    int fd, rc;

    if (!context || !bytes || !ptr)
        return -EINVAL;
    if (bytes > PTRDIFF_MAX - page)
        return -ENOMEM;
    bytes = (bytes + page - 1) & ~(page - 1);
    if (!(p = shared_pages(context, bytes, ASYMREG_CAP_FD, 0, &fd)))
        return -errno;
    rc = asymreg_segment_add(context, p, bytes, ASYMREG_ALL, 0, fd, 0, &value);
    if (fd >= 0)
        close(fd);
    if (rc < 0) {
        munmap(p, bytes);
        return rc;
    }
    pthread_mutex_lock(&context->lock);
    context->segs[(uint32_t)value].alloc = p;
    context->segs[(uint32_t)value].alloc_bytes = bytes;
    pthread_mutex_unlock(&context->lock);
    *ptr = p;
    return 0;
}

int asymreg_free(struct asymreg_context *context, void *ptr)
{
    const struct asymreg_region *place;
    int rc = -EINVAL;

    if (!context || !ptr)
        return -EINVAL;
    pthread_mutex_lock(&context->lock);
    if ((place = asymreg_index_lookup(context->seg_reader, (uintptr_t)ptr))) {
        uint64_t value = place->value;
        if (context->segs[(uint32_t)value].alloc == ptr)
            rc = asymreg__segment_remove(context, value);
    }
    pthread_mutex_unlock(&context->lock);
    return rc;
}

int asymreg_fds_send(struct asymreg_context *context, int sock)
{
    struct asymreg__local *l;

    if (!context)
        return -EINVAL;
    l = asymreg__local_of(context->t);
    return l ? asymreg__local_fds_send(l, sock) : ASYMREG_ENOTSUP;
}

int asymreg_fds_recv(struct asymreg_context *context, int sock)
{
    struct asymreg__local *l;

    if (!context)
        return -EINVAL;
    l = asymreg__local_of(context->t);
    return l ? asymreg__local_fds_recv(l, sock) : ASYMREG_ENOTSUP;
}

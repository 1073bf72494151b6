/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens, closes and describes a context. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../local/local.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

const char *asymreg__reason(struct asymreg_context *c, uint32_t cap)
{
    const char *why;

    asymreg__t_lock(c);
    why = c->t->ops->reason(c->t, cap);
    asymreg__t_unlock(c);
    return why ? why : "the transport gives no reason";
}

/* A memfd counts as a file: above RLIMIT_FSIZE the kernel would send SIGXFSZ. */
static int may_be_so_large(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
           bytes <= limit.rlim_cur;
}

/* Leaves out seals that the kernel does not know (F_SEAL_FUTURE_WRITE is from Linux 5.1). */
static int memfd_seal(int fd, int more_seals)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    int rc = fcntl(fd, F_ADD_SEALS, seals | more_seals);

    return rc < 0 && errno == EINVAL && more_seals ? fcntl(fd, F_ADD_SEALS, seals) : rc;
}

void *asymreg__shared_pages(const struct asymreg_context *c, size_t bytes, uint32_t caps,
                            int more_seals, int *fd)
{
    void *p = MAP_FAILED;

    *fd = -1;
    if (!(c->caps.flags & caps)) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    if (!may_be_so_large(bytes)) {
        errno = EFBIG;
        return NULL;
    }
    *fd = memfd_create("asymreg", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return NULL;
    if (ftruncate(*fd, (off_t)bytes) == 0)
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, *fd, 0);
    if (p != MAP_FAILED && memfd_seal(*fd, more_seals) < 0) {
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

    if (!o || o->size < offsetof(struct asymreg_transport_ops, guard) ||
        o->version != ASYMREG_TRANSPORT_VERSION)
        return ASYMREG_EVERSION;
    return o->name && strlen(o->name) < 16 && o->query && o->reason && o->destroy && o->mem_reg &&
                   o->mem_dereg && o->address && o->connect && o->disconnect && o->peer_alive &&
                   o->rkey_unpack && o->rkey_release && o->put && o->get && o->flush && o->progress
               ? 0
               : -EINVAL;
}

/* See activity.h. */
static int context_open_activity(struct asymreg_context *c, struct asymreg_error *err)
{
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .prot = ASYMREG_RW, .flags = ASYMREG_MEM_ACTIVITY};
    size_t bytes = (sizeof(*c->activity) + 4095) & ~(size_t)4095;

    c->activity =
        asymreg__shared_pages(c, bytes, ASYMREG_CAP_FD | ASYMREG_CAP_MAP, 0, &c->activity_fd);
    if (!c->activity)
        return errno ? -errno : -ENOMEM;
    c->activity_fence = asymreg__activity_init(c->activity);
    desc.addr = (uintptr_t)c->activity;
    desc.bytes = sizeof(*c->activity);
    desc.fd = c->activity_fd;
    return c->t->ops->mem_reg(c->t, &desc, &c->activity_mem, c->activity_handle,
                              &c->activity_handle_bytes, err);
}

static int context_open_table(struct asymreg_context *c, const struct asymreg_opts *o,
                              struct asymreg_error *err)
{
    struct asymreg__table_opts t = {.max_regions = o->max_regions,
                                    .max_segments = o->max_segments,
                                    .ring = o->ring,
                                    .max_handle_bytes = c->caps.max_handle_bytes,
                                    .allocator = o->allocator};
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .prot = ASYMREG_READ, .flags = ASYMREG_MEM_TABLE};
    uint64_t whole;
    int rc;

    c->bytes = asymreg__table_bytes(&t);
    if (!c->bytes)
        return -EINVAL;
    if (getrandom(&c->incarnation, sizeof(c->incarnation), 0) != sizeof(c->incarnation))
        return -EIO;
    c->incarnation |= 1;
    /* This mapping stays writable, and no later mapping is: no peer can alter memory that the owner
     * trusts. */
    c->memory = asymreg__shared_pages(c, c->bytes, ASYMREG_CAP_FD | ASYMREG_CAP_MAP,
                                      F_SEAL_FUTURE_WRITE, &c->table_fd);
    if (!c->memory)
        return asymreg__fail(err, errno ? -errno : -ENOMEM,
                             "no memory of %llu bytes for the published table: %s; lower "
                             "max_regions or max_segments, or raise RLIMIT_FSIZE",
                             (unsigned long long)c->bytes, strerror(errno));
    rc = asymreg__table_create(&t, c->memory, c->incarnation, &c->table);
    if (rc == 0)
        rc = asymreg__guard_open(c);
    if (rc < 0)
        return rc;
    desc.addr = (uintptr_t)c->memory;
    desc.bytes = c->bytes;
    desc.fd = c->table_fd;
    rc = c->t->ops->mem_reg(c->t, &desc, &c->table_mem, c->table_handle, &c->table_handle_bytes,
                            err);
    if (rc == 0 && (c->flags & ASYMREG_DRAIN) && (c->caps.flags & ASYMREG_CAP_MAP))
        rc = context_open_activity(c, err);
    if (rc < 0 || !(c->caps.flags & ASYMREG_CAP_WHOLE_SPACE))
        return rc;
    unsigned char handle[ASYMREG_MAX_HANDLE_BYTES];
    size_t n = 0;
    struct asymreg_mem *mem;
    desc = (struct asymreg_mem_desc){
        .size = sizeof(desc), .bytes = UINT64_MAX, .prot = ASYMREG_ALL, .fd = -1};
    rc = c->t->ops->mem_reg(c->t, &desc, &mem, handle, &n, err);
    if (rc < 0)
        return rc;
    rc = asymreg__table_segment_add(c->table, 0, UINT64_MAX, handle, n, &whole);
    if (rc < 0) {
        c->t->ops->mem_dereg(c->t, mem);
        return rc;
    }
    c->whole = whole;
    c->segs[(uint32_t)whole] = (struct asymreg__own_segment){
        .mem = mem, .value = whole, .bytes = UINT64_MAX, .prot = ASYMREG_ALL};
    c->n_segments = 1;
    c->n_registrations = 1;
    return 0;
}

/* Fills in the defaults. -EINVAL with the reason. */
static int check_opts(struct asymreg_opts *o, struct asymreg_error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    if (o->flags & ~(ASYMREG_SPLIT | ASYMREG_FRESH | ASYMREG_DRAIN))
        return asymreg__fail(err, -EINVAL, "unknown flags %#x of struct asymreg_opts", o->flags);
    if (!asymreg__allocator_ok(o->allocator))
        return asymreg__fail(err, -EINVAL, "the allocator lacks realloc or free");
    if (o->max_regions > ASYMREG_MAX_REGIONS || o->max_segments > ASYMREG_MAX_SEGMENTS)
        return asymreg__fail(err, -EINVAL, "max_regions or max_segments is above %u",
                             ASYMREG_MAX_REGIONS);
    if (o->ring && (o->ring < 16 || o->ring > ASYMREG__MAX_RING || (o->ring & (o->ring - 1))))
        return asymreg__fail(err, -EINVAL, "ring is %u, not a power of two from 16 to %u", o->ring,
                             ASYMREG__MAX_RING);
    if (o->coalesce_bytes != ASYMREG_COALESCE_MAPPING &&
        (o->coalesce_bytes & (o->coalesce_bytes - 1)))
        return asymreg__fail(err, -EINVAL, "coalesce_bytes is not a power of two");
    if (o->coalesce_bytes && o->coalesce_bytes < page)
        o->coalesce_bytes = page;
    if (!o->max_regions)
        o->max_regions = 1u << 20;
    if (!o->max_segments) /* one more, for all private memory */
        o->max_segments = o->max_regions < 65536 ? o->max_regions + 1 : 65536;
    return 0;
}

/* Opens all of a context except its transport. */
static int context_open_all(struct asymreg_context *c, const struct asymreg_opts *o,
                            struct asymreg_error *err)
{
    struct asymreg__index_opts index_opts = {.max_regions = o->max_segments,
                                             .allocator = o->allocator};
    int rc;

    c->caps.size = sizeof(c->caps);
    rc = c->t->ops->query(c->t, &c->caps);
    if (rc < 0)
        return rc;
    c->caps.size = sizeof(c->caps);
    if (c->caps.max_handle_bytes > ASYMREG_MAX_HANDLE_BYTES ||
        c->caps.max_address_bytes > ASYMREG_MAX_ADDRESS_BYTES)
        return asymreg__fail(err, -EINVAL, "the transport's handles or addresses are too long");
    c->max_regions = asymreg__n_leaves(o->max_regions) * ASYMREG__LEAF_SLOTS;
    c->max_segments = o->max_segments;
    c->shares = asymreg__reserve(c->max_regions * sizeof(*c->shares));
    c->segs = asymreg__reserve(c->max_segments * sizeof(*c->segs));
    if (!c->shares || !c->segs)
        return -ENOMEM;
    rc = asymreg__index_create(&index_opts, &c->seg_index);
    if (rc == 0)
        rc = asymreg__reader_create(c->seg_index, &c->seg_reader);
    if (rc < 0)
        return rc;
    return context_open_table(c, o, err);
}

int asymreg_open(const struct asymreg_opts *opts, struct asymreg_context **out,
                 struct asymreg_error *err)
{
    struct asymreg_opts o = {.size = sizeof(o)};
    struct asymreg_local_opts local = {.size = sizeof(local)};
    struct asymreg_error why = {.code = 0};
    struct asymreg_context *c = NULL;
    int rc = asymreg__opts_take(&o, opts, sizeof(o));
    struct asymreg_transport *t = o.transport;

    if (rc < 0)
        asymreg__fail(&why, rc,
                      "struct asymreg_opts is of another release, or its size is not set");
    if (rc == 0 && !out)
        rc = -EINVAL;
    if (rc == 0)
        rc = check_opts(&o, &why);
    local.allocator = o.allocator;
    if (rc == 0)
        rc = t ? check_transport(t) : asymreg_local_create(&local, &t, &why);
    if (rc == 0) {
        c = asymreg__alloc(o.allocator, sizeof(*c));
        rc = c ? 0 : -ENOMEM;
    }
    if (!c) {
        if (t && t->ops && t->ops->destroy)
            t->ops->destroy(t);
        return asymreg__fail_at(err, rc, &why, ASYMREG__NO_PE, 0, 0);
    }
    c->t = t;
    c->owner = getpid();
    c->flags = o.flags;
    c->allocator = o.allocator;
    c->coalesce_bytes = o.coalesce_bytes;
    c->table_fd = c->activity_fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->t_lock, NULL);
    pthread_mutex_init(&c->guard_lock, NULL);
    rc = context_open_all(c, &o, &why);
    if (rc < 0) {
        asymreg_close(c);
        return asymreg__fail_at(err, rc, &why, ASYMREG__NO_PE, 0, 0);
    }
    *out = c;
    return 0;
}

void asymreg_close(struct asymreg_context *context)
{
    const struct asymreg_transport_ops *ops;

    if (!context || context->owner != getpid()) /* a child would close its parent's table */
        return;
    ops = context->t->ops;
    asymreg__guard_close(context);
    asymreg__table_destroy(context->table); /* first: this notifies the peers */
    for (uint32_t pe = 0; pe < context->end_pe; pe++)
        if (asymreg__peer_at(context, pe))
            asymreg__peer_free(context, asymreg__peer_at(context, pe));
    for (uint32_t i = 0; i < ASYMREG_MAX_PEERS / PEER_CHUNK; i++)
        asymreg__free(context->allocator, context->peers[i]);
    for (uint32_t i = 0; context->segs && i < context->max_segments; i++)
        if (context->segs[i].value)
            ops->mem_dereg(context->t, context->segs[i].mem);
    if (context->table_mem)
        ops->mem_dereg(context->t, context->table_mem);
    if (context->activity_mem)
        ops->mem_dereg(context->t, context->activity_mem);
    /* A transport's thread may serve peers until `destroy` returns: free memory afterwards. */
    ops->destroy(context->t);
    for (uint32_t i = 0; context->segs && i < context->max_segments; i++)
        if (context->segs[i].value && context->segs[i].alloc)
            munmap(context->segs[i].alloc, context->segs[i].alloc_bytes);
    if (context->activity)
        munmap(context->activity, (sizeof(*context->activity) + 4095) & ~(size_t)4095);
    if (context->activity_fd >= 0)
        close(context->activity_fd);
    if (context->memory)
        munmap(context->memory, context->bytes);
    if (context->table_fd >= 0)
        close(context->table_fd);
    asymreg__reader_destroy(context->seg_reader);
    asymreg__index_destroy(context->seg_index);
    asymreg__unreserve(context->shares, context->max_regions * sizeof(*context->shares));
    asymreg__unreserve(context->segs, context->max_segments * sizeof(*context->segs));
    pthread_mutex_destroy(&context->lock);
    pthread_mutex_destroy(&context->t_lock);
    pthread_mutex_destroy(&context->guard_lock);
    asymreg__free(context->allocator, context);
}

int asymreg_context_stats(struct asymreg_context *context, struct asymreg_stats *stats)
{
    if (!context || !stats || stats->size < sizeof(*stats))
        return -EINVAL;
    pthread_mutex_lock(&context->lock);
    *stats = (struct asymreg_stats){.size = stats->size,
                                    .n_regions = asymreg__table_index(context->table)->n_regions,
                                    .n_segments = context->n_segments,
                                    .segment_bytes = context->segment_bytes,
                                    .n_registrations = context->n_registrations};
    for (uint32_t pe = 0; pe < context->end_pe; pe++) {
        struct asymreg__peer *p = asymreg__peer_at(context, pe);
        if (p)
            asymreg__peer_stats(p, stats);
    }
    pthread_mutex_unlock(&context->lock);
    return 0;
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers: bootstrap blobs, the copy of a peer's table, and keys of its segments. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "context.h"

#include <errno.h>
#include <string.h>

#define BLOB_MAGIC   UINT64_C(0x424745525953412b) /* "+ASYREGB" */
#define BLOB_VERSION 1u
#define BLOB_ORDER   0x01020304u

/* Followed by the table's handle; with ASYMREG_DRAIN the activity's address (8 bytes) and handle;
 * and the endpoint's address. */
struct blob {
    uint64_t magic;
    uint32_t version;
    uint32_t byte_order;
    uint64_t checksum; /* of the whole blob, with 0 in this field */
    uint32_t total_bytes;
    uint32_t handle_bytes;
    uint32_t address_bytes;
    uint32_t activity_bytes; /* of its address and handle; 0: no activity */
    uint64_t incarnation;
    uint64_t table_addr;
    uint64_t table_bytes;
    char transport[16];
};

/* FNV-1a: detects damage, not malice. */
static uint64_t blob_checksum(const unsigned char *p, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ (i >= offsetof(struct blob, checksum) && i < offsetof(struct blob, checksum) + 8
                      ? 0
                      : p[i])) *
            UINT64_C(0x100000001b3);
    return h;
}

ssize_t asymreg_export(struct asymreg_context *context, void *buf, size_t cap,
                       struct asymreg_error *err)
{
    struct blob b = {.magic = BLOB_MAGIC, .version = BLOB_VERSION, .byte_order = BLOB_ORDER};
    unsigned char address[ASYMREG_MAX_ADDRESS_BYTES];
    struct asymreg_error why = {.code = 0};
    size_t n = sizeof(address);
    int rc;

    if (!context || (!buf && cap))
        return asymreg__fail(err, -EINVAL, "context or buf is NULL");
    asymreg__t_lock(context);
    rc = context->t->ops->address(context->t, address, &n, &why);
    asymreg__t_unlock(context);
    if (rc < 0)
        return asymreg__fail_at(err, rc, &why, ASYMREG__NO_PE, 0, 0);
    b.handle_bytes = (uint32_t)context->table_handle_bytes;
    b.address_bytes = (uint32_t)n;
    b.activity_bytes = context->activity ? (uint32_t)(8 + context->activity_handle_bytes) : 0;
    b.total_bytes = (uint32_t)(sizeof(b) + context->table_handle_bytes + b.activity_bytes + n);
    b.incarnation = context->incarnation;
    b.table_addr = (uintptr_t)context->memory;
    b.table_bytes = context->bytes;
    strncpy(b.transport, context->t->ops->name, sizeof(b.transport) - 1);
    if (cap < b.total_bytes)
        return asymreg__fail(err, -ENOBUFS, "the blob has %u bytes, and there is room for %zu",
                             b.total_bytes, cap);
    memcpy(buf, &b, sizeof(b));
    memcpy((char *)buf + sizeof(b), context->table_handle, context->table_handle_bytes);
    if (b.activity_bytes) {
        uint64_t at = (uintptr_t)context->activity;
        memcpy((char *)buf + sizeof(b) + b.handle_bytes, &at, 8);
        memcpy((char *)buf + sizeof(b) + b.handle_bytes + 8, context->activity_handle,
               context->activity_handle_bytes);
    }
    memcpy((char *)buf + sizeof(b) + b.handle_bytes + b.activity_bytes, address, n);
    b.checksum = blob_checksum(buf, b.total_bytes);
    memcpy((char *)buf + offsetof(struct blob, checksum), &b.checksum, 8);
    return (ssize_t)b.total_bytes;
}

/* Reads the blob's fixed part, and checks every length in it. */
static int blob_parse(const struct asymreg_context *c, const void *bytes, size_t n, struct blob *b,
                      struct asymreg_error *err)
{
    if (n < sizeof(*b))
        return ASYMREG_EBLOB;
    memcpy(b, bytes, sizeof(*b));
    if (b->magic == __builtin_bswap64(BLOB_MAGIC))
        return ASYMREG_EVERSION;
    if (b->magic != BLOB_MAGIC)
        return ASYMREG_EBLOB;
    if (b->version != BLOB_VERSION || b->byte_order != BLOB_ORDER)
        return ASYMREG_EVERSION;
    if (b->handle_bytes > ASYMREG_MAX_HANDLE_BYTES ||
        b->address_bytes > ASYMREG_MAX_ADDRESS_BYTES ||
        b->activity_bytes > 8 + ASYMREG_MAX_HANDLE_BYTES ||
        (b->activity_bytes && b->activity_bytes < 8) ||
        b->total_bytes != sizeof(*b) + b->handle_bytes + b->activity_bytes + b->address_bytes ||
        b->total_bytes != n || blob_checksum(bytes, n) != b->checksum)
        return ASYMREG_EBLOB;
    if (b->transport[sizeof(b->transport) - 1] || !b->incarnation || !b->table_bytes ||
        b->table_addr + b->table_bytes < b->table_addr || b->table_addr % 8 || b->table_bytes % 8)
        return ASYMREG_EBLOB;
    if (strcmp(b->transport, c->t->ops->name) != 0)
        return asymreg__fail(err, ASYMREG_EUNREACH, "the peer uses the transport %.15s, not %s",
                             b->transport, c->t->ops->name);
    return 0;
}

/* Reads one piece of the peer's table, and waits for it. */
static int table_read_piece(struct asymreg__peer *p, uint64_t offset, void *to, size_t n)
{
    struct asymreg_context *c = p->context;
    const struct asymreg_transport_ops *ops = c->t->ops;
    struct asymreg_op op = {.status = 0};
    struct asymreg__wait wait = {0};
    int rc;

    asymreg__t_lock(c);
    rc = ops->get(c->t, p->ep, p->table_key, p->table_addr + offset, to, n, NULL, &op);
    asymreg__t_unlock(c);
    while (rc == -EAGAIN || (rc == ASYMREG_PENDING && asymreg__op_pending(&op))) {
        asymreg__t_lock(c);
        int moved = ops->progress(c->t);
        if (rc == -EAGAIN) {
            rc = ops->peer_alive(c->t, p->ep);
            if (rc == 0)
                rc = ops->get(c->t, p->ep, p->table_key, p->table_addr + offset, to, n, NULL, &op);
        }
        asymreg__t_unlock(c);
        asymreg__wait(c, &wait, moved || rc != ASYMREG_PENDING || !asymreg__op_pending(&op));
    }
    return rc == ASYMREG_PENDING ? op.status : rc;
}

/* Reads the peer's table through the transport. For the cache. */
static int table_read(void *ctx, uint64_t offset, void *dst, size_t bytes)
{
    struct asymreg__peer *p = ctx;
    uint64_t most = p->context->caps.max_op_bytes;
    char *to = dst;
    int rc = 0;

    while (bytes && rc >= 0) {
        size_t n = most && bytes > most ? most : bytes;
        rc = table_read_piece(p, offset, to, n);
        offset += n;
        to += n;
        bytes -= n;
    }
    return rc < 0 ? rc : 0;
}

uint64_t asymreg__activity_tag(const struct asymreg__peer *p)
{
    return p->context->incarnation + p->serial;
}

void asymreg__peer_free(struct asymreg_context *c, struct asymreg__peer *p)
{
    const struct asymreg_transport_ops *ops = c->t->ops;
    struct asymreg__key *k;

    if (p->cache) {
        struct asymreg__index *ix = asymreg__cache_index(p->cache);
        while (ix->readers) /* workers' readers: workers notice by the serial number */
            asymreg__reader_destroy(ix->readers);
    }
    for (uint32_t i = 0; i < p->n_keys; i++) {
        k = p->keys[i];
        if (!k)
            continue;
        k->next = p->retired;
        p->retired = k;
    }
    asymreg__t_lock(c);
    while ((k = p->retired)) {
        p->retired = k->next;
        ops->rkey_release(c->t, p->ep, k->rkey);
        asymreg__free(c->allocator, k);
    }
    asymreg__cache_destroy(p->cache);
    asymreg__unreserve(p->keys, p->n_keys * sizeof(*p->keys));
    if (p->activity)
        asymreg__activity_release_all(p->activity, asymreg__activity_tag(p));
    if (p->activity_key)
        ops->rkey_release(c->t, p->ep, p->activity_key);
    pthread_mutex_destroy(&p->lock);
    if (p->table_key)
        ops->rkey_release(c->t, p->ep, p->table_key);
    if (p->ep)
        ops->disconnect(c->t, p->ep);
    asymreg__t_unlock(c);
    asymreg__free(c->allocator, p);
}

/* Makes the cache of the peer's table, and room for its keys; under the peer's lock. */
static int peer_create_cache(struct asymreg__peer *p)
{
    struct asymreg__cache_opts opts = {.read = table_read,
                                       .ctx = p,
                                       .mapped = p->mapped,
                                       .bytes = p->table_bytes,
                                       .incarnation = p->incarnation,
                                       .allocator = p->context->allocator};
    struct asymreg__cache *cache;
    uint32_t n;
    int rc = asymreg__cache_create(&opts, &cache);

    if (rc < 0)
        return rc;
    n = asymreg__cache_max_segments(cache);
    p->keys = asymreg__reserve(n * sizeof(*p->keys));
    if (!p->keys) {
        asymreg__cache_destroy(cache);
        return -ENOMEM;
    }
    p->n_keys = n;
    atomic_store_explicit(&p->cache, cache, memory_order_release);
    return 0;
}

int asymreg__peer_open_table(struct asymreg__peer *p)
{
    int rc;

    if (atomic_load_explicit(&p->cache, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&p->lock);
    rc = p->cache ? 0 : peer_create_cache(p);
    if (rc == ASYMREG_EPEER || rc == ASYMREG_ESTALE) {
        atomic_store_explicit(&p->dead, 1, memory_order_relaxed);
        rc = ASYMREG_EPEER;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

int asymreg__peer_alive(struct asymreg__peer *p)
{
    struct asymreg_context *c = p->context;
    int rc;

    asymreg__t_lock(c);
    rc = c->t->ops->peer_alive(c->t, p->ep);
    asymreg__t_unlock(c);
    if (rc == ASYMREG_EPEER)
        atomic_store_explicit(&p->dead, 1, memory_order_relaxed);
    return rc;
}

int asymreg__peer_refresh(struct asymreg__peer *p)
{
    int rc;

    if (atomic_load_explicit(&p->dead, memory_order_relaxed))
        return ASYMREG_EPEER;
    rc = asymreg__peer_open_table(p);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&p->lock);
    rc = asymreg__cache_refresh(p->cache);
    pthread_mutex_unlock(&p->lock);
    if (rc == ASYMREG_EBUSY && asymreg__peer_alive(p) < 0)
        rc = ASYMREG_EPEER; /* a writer killed during a change looks like a busy one */
    if (rc == ASYMREG_EPEER)
        atomic_store_explicit(&p->dead, 1, memory_order_relaxed);
    return rc;
}

int asymreg__peer_flush(struct asymreg__peer *p)
{
    struct asymreg_context *c = p->context;
    struct asymreg__wait wait = {0};
    int rc, moved;

    do {
        moved = 1;
        asymreg__t_lock(c);
        rc = c->t->ops->flush(c->t, p->ep);
        if (rc == ASYMREG_PENDING)
            moved = c->t->ops->progress(c->t);
        asymreg__t_unlock(c);
        asymreg__wait(c, &wait, moved);
    } while (rc == ASYMREG_PENDING || rc == -EAGAIN);
    return rc;
}

/* Frees the retired keys that no worker can be using. */
static void release_retired(struct asymreg__peer *p)
{
    struct asymreg_context *c = p->context;
    struct asymreg__key **link = &p->retired, *unused = NULL, *k;
    int rc;

    while ((k = *link)) {
        if (k->bound || !asymreg__epoch_passed(asymreg__cache_index(p->cache), k->epoch)) {
            link = &k->next;
            continue;
        }
        *link = k->next;
        k->next = unused;
        unused = k;
    }
    if (!unused)
        return;
    /* Only now: a worker may have posted operations with such a key until it left its section. */
    rc = asymreg__peer_flush(p);
    if (rc < 0 && !p->late)
        p->late = rc;
    while ((k = unused)) {
        unused = k->next;
        asymreg__t_lock(c);
        c->t->ops->rkey_release(c->t, p->ep, k->rkey);
        asymreg__t_unlock(c);
        asymreg__free(c->allocator, k);
    }
}

/* Makes the key of a region's segment, with the handle from the peer's table. */
static int key_make(struct asymreg__peer *p, const struct asymreg_region *r,
                    struct asymreg__key **key, struct asymreg_error *err)
{
    struct asymreg_context *c = p->context;
    struct asymreg__segment_copy seg;
    struct asymreg__key *k;
    const void *mapped;
    uint64_t bytes;
    int rc = asymreg__cache_segment(p->cache, r->value, &seg);

    if (rc < 0)
        return rc;
    if (r->start < seg.base || r->last > seg.last)
        return ASYMREG_ETABLE;
    k = asymreg__alloc(c->allocator, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->value = r->value;
    k->base = seg.base;
    k->last = seg.last;
    bytes = seg.last - seg.base < UINT64_MAX ? seg.last - seg.base + 1 : UINT64_MAX;
    asymreg__t_lock(c);
    rc = c->t->ops->rkey_unpack(c->t, p->ep, seg.handle, seg.handle_bytes, seg.base, bytes,
                                &k->rkey, err);
    if (rc == 0 && (c->caps.flags & ASYMREG_CAP_MAP) && c->t->ops->map &&
        c->t->ops->map(c->t, p->ep, k->rkey, seg.base, bytes, 0, &mapped) == 0)
        k->mapped = mapped;
    asymreg__t_unlock(c);
    if (rc == 0)
        *key = k;
    else
        asymreg__free(c->allocator, k);
    return rc;
}

int asymreg__peer_key(struct asymreg__peer *p, const struct asymreg_region *r,
                      struct asymreg_error *err)
{
    struct asymreg__key *k, *old;
    uint32_t n = (uint32_t)r->value;
    int rc;

    if (n >= p->n_keys)
        return ASYMREG_ETABLE;
    pthread_mutex_lock(&p->lock);
    old = p->keys[n];
    if (old && old->value == r->value) { /* another worker has made it */
        rc = r->start >= old->base && r->last <= old->last ? 0 : ASYMREG_ETABLE;
    } else {
        rc = key_make(p, r, &k, err);
        if (rc == 0) {
            atomic_store_explicit(&p->keys[n], k, memory_order_release);
            if (old) {
                old->epoch = asymreg__epoch_now(asymreg__cache_index(p->cache));
                old->next = p->retired;
                p->retired = old;
            }
            release_retired(p);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return rc < 0 ? rc : 0;
}

/* Maps the memory in which a peer with ASYMREG_DRAIN requires workers to announce operations.
 * Without the mapping no operation may reach that peer. */
static int peer_map_activity(struct asymreg_context *c, struct asymreg__peer *p, const char *bytes,
                             uint32_t n, struct asymreg_error *err)
{
    const struct asymreg_transport_ops *ops = c->t->ops;
    const void *mapped = NULL;
    uint64_t at;
    int rc;

    memcpy(&at, bytes, 8);
    if (at % 64 || at + sizeof(*p->activity) < at)
        return ASYMREG_EBLOB;
    rc = !p->mapped ? ASYMREG_ENOTSUP
                    : ops->rkey_unpack(c->t, p->ep, bytes + 8, n - 8, at, sizeof(*p->activity),
                                       &p->activity_key, err);
    if (rc == 0)
        rc = ops->map(c->t, p->ep, p->activity_key, at, sizeof(*p->activity), 1, &mapped);
    if (rc == ASYMREG_ENOTSUP)
        return asymreg__fail(err, ASYMREG_EUNREACH,
                             "the peer drains (ASYMREG_DRAIN), and the memory that it needs for "
                             "that cannot be mapped");
    if (rc == 0)
        rc = (uintptr_t)mapped % 64 ? ASYMREG_ETABLE : asymreg__activity_check(mapped);
    if (rc < 0)
        return rc;
    p->activity = (struct asymreg__activity *)(uintptr_t)mapped;
    return 0;
}

/* Makes endpoint, table and activity of a new peer. */
static int peer_connect(struct asymreg_context *c, struct asymreg__peer *p, const struct blob *b,
                        const char *blob, struct asymreg_error *err)
{
    const struct asymreg_transport_ops *ops = c->t->ops;
    const char *handle = blob + sizeof(*b), *activity = handle + b->handle_bytes,
               *address = activity + b->activity_bytes;
    int rc;

    asymreg__t_lock(c);
    rc = ops->connect(c->t, address, b->address_bytes, &p->ep, err);
    if (rc == 0)
        rc = ops->rkey_unpack(c->t, p->ep, handle, b->handle_bytes, b->table_addr, b->table_bytes,
                              &p->table_key, err);
    if (rc == 0 && (c->caps.flags & ASYMREG_CAP_MAP) && ops->map &&
        ops->map(c->t, p->ep, p->table_key, b->table_addr, b->table_bytes, 0, &p->mapped) < 0)
        p->mapped = NULL; /* read it by get instead */
    if (rc == 0 && b->activity_bytes)
        rc = peer_map_activity(c, p, activity, b->activity_bytes, err);
    asymreg__t_unlock(c);
    p->ask = !p->mapped && (c->flags & ASYMREG_FRESH);
    if (rc == ASYMREG_ESTALE) /* the descriptor is gone, and so is its context */
        rc = ASYMREG_EPEER;
    if (rc == 0 && (p->mapped || !(c->caps.flags & ASYMREG_CAP_REMOTE_NODE)))
        rc = asymreg__peer_open_table(p);
    if (rc == ASYMREG_EUNREACH && p->table_key && ops->check) {
        asymreg__t_lock(c);
        (void)ops->check(c->t, p->ep, p->table_key, p->table_addr, ASYMREG_READ, err);
        asymreg__t_unlock(c);
    }
    return rc;
}

/* Under the context's lock. */
static int peer_import(struct asymreg_context *c, uint32_t pe, const struct blob *b,
                       const void *blob, struct asymreg_error *err)
{
    struct asymreg__peer *_Atomic *chunk, *p;
    int rc;

    if (asymreg__peer_at(c, pe))
        return asymreg__fail(err, -EEXIST, "this number is in use");
    chunk = c->peers[pe / PEER_CHUNK];
    if (!chunk) {
        chunk = asymreg__alloc(c->allocator, PEER_CHUNK * sizeof(*chunk));
        if (!chunk)
            return -ENOMEM;
        atomic_store_explicit(&c->peers[pe / PEER_CHUNK], chunk, memory_order_release);
    }
    p = asymreg__alloc(c->allocator, sizeof(*p));
    if (!p)
        return -ENOMEM;
    pthread_mutex_init(&p->lock, NULL);
    p->context = c;
    p->serial = ++c->serials;
    p->table_addr = b->table_addr;
    p->table_bytes = b->table_bytes;
    p->incarnation = b->incarnation;
    rc = peer_connect(c, p, b, blob, err);
    if (rc < 0) {
        asymreg__peer_free(c, p);
        return rc;
    }
    atomic_store_explicit(&chunk[pe % PEER_CHUNK], p, memory_order_release);
    if (pe >= c->end_pe)
        c->end_pe = pe + 1;
    return 0;
}

int asymreg_import(struct asymreg_context *context, uint32_t pe, const void *blob, size_t bytes,
                   struct asymreg_error *err)
{
    struct asymreg_error why = {.code = 0};
    struct blob b;
    int rc = asymreg__may_change(context);

    if (rc == 0 && (!blob || pe >= ASYMREG_MAX_PEERS))
        rc = asymreg__fail(&why, -EINVAL, "blob is NULL, or the number %u is not below %u", pe,
                           ASYMREG_MAX_PEERS);
    if (rc == 0)
        rc = blob_parse(context, blob, bytes, &b, &why);
    if (rc == 0) {
        pthread_mutex_lock(&context->lock);
        rc = peer_import(context, pe, &b, blob, &why);
        pthread_mutex_unlock(&context->lock);
    }
    return rc < 0 ? asymreg__fail_at(err, rc, &why, pe, 0, 0) : 0;
}

int asymreg_forget(struct asymreg_context *context, uint32_t pe)
{
    struct asymreg__peer *p;

    if (!context || pe >= ASYMREG_MAX_PEERS)
        return ASYMREG_ENOPEER;
    if (asymreg__may_change(context) < 0)
        return -EPERM;
    pthread_mutex_lock(&context->lock);
    p = asymreg__peer_at(context, pe);
    if (p && p->n_bound) {
        pthread_mutex_unlock(&context->lock);
        return ASYMREG_EBUSY;
    }
    if (p) {
        atomic_store_explicit(&context->peers[pe / PEER_CHUNK][pe % PEER_CHUNK], NULL,
                              memory_order_release);
        atomic_store_explicit(&context->forgets, context->forgets + 1, memory_order_release);
        asymreg__peer_free(context, p);
    }
    pthread_mutex_unlock(&context->lock);
    return p ? 0 : ASYMREG_ENOPEER;
}

int asymreg_refresh(struct asymreg_context *context, uint32_t pe)
{
    struct asymreg__peer *p =
        context && pe < ASYMREG_MAX_PEERS ? asymreg__peer_at(context, pe) : NULL;
    int rc = p ? asymreg__peer_refresh(p) : ASYMREG_ENOPEER;

    return rc == 0 ? asymreg__peer_alive(p) : rc; /* a killed peer's mapped table never changes */
}

void asymreg__peer_stats(struct asymreg__peer *p, struct asymreg_stats *stats)
{
    struct asymreg__cache *cache = atomic_load_explicit(&p->cache, memory_order_acquire);
    struct asymreg__cache_stats s;

    if (!cache)
        return;
    asymreg__cache_stats(cache, &s);
    stats->n_refreshes += s.n_refreshes;
    stats->n_records += s.n_records;
    stats->n_leaves += s.n_leaves;
    stats->read_bytes += s.read_bytes;
    stats->n_retries += s.n_retries;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The adapter: opens it, registers memory, makes handles and keys; the table of operations. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ibv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

uint64_t asymreg_ibv__now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Capabilities. */

static int query_caps(struct asymreg_transport *base, struct asymreg_transport_caps *caps)
{
    struct ibv_transport *t = ibv_of(base);
    struct asymreg_transport_caps full = {
        .size = caps->size,
        .flags = ASYMREG_CAP_PUT | ASYMREG_CAP_GET | ASYMREG_CAP_ONE_SIDED | ASYMREG_CAP_REVOKE |
                 ASYMREG_CAP_ORDERED | ASYMREG_CAP_FD | ASYMREG_CAP_PRIVATE |
                 ASYMREG_CAP_REMOTE_NODE | ASYMREG_CAP_WANT_LOCAL |
                 (t->atomics ? ASYMREG_CAP_AMO : 0),
        .amo8_ops = t->atomics ? AMO_OPS : 0,
        .max_handle_bytes = HANDLE_BYTES,
        .max_address_bytes = ADDRESS_BYTES,
        .kinds = 1u << ASYMREG_KIND_HOST | 1u << ASYMREG_KIND_DMABUF,
        .max_op_bytes = ASYMREG_IBV_MAX_OP_BYTES,
    };

    if (caps->size < sizeof(caps->size))
        return -EINVAL;
    memcpy(caps, &full, caps->size < sizeof(full) ? caps->size : sizeof(full));
    return 0;
}

static const char *explain_cap(struct asymreg_transport *base, uint32_t cap)
{
    struct ibv_transport *t = ibv_of(base);

    switch (cap) {
    case ASYMREG_CAP_AMO: return t->atomics ? NULL : "the adapter has no atomics";
    case ASYMREG_CAP_WHOLE_SPACE:
        return "the adapter pins what is registered, so only what is registered can be reached";
    case ASYMREG_CAP_MAP: return "memory behind an adapter cannot be mapped";
    case ASYMREG_CAP_THREADS: return "the queues belong to one thread at a time";
    default: return NULL;
    }
}

/* Registrations. */

/* Writes code and sentence, if err is not NULL. Returns the code. */
__attribute__((format(printf, 3, 4))) static int set_error(struct asymreg_error *err, int code,
                                                           const char *format, ...)
{
    va_list args;

    if (!err)
        return code;
    *err = (struct asymreg_error){.code = code, .pe = UINT32_MAX};
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return code;
}

/* Maps the error of a failed registration. */
static int explain_reg_error(struct asymreg_error *err, int error)
{
    switch (error) {
    case EFAULT:
        return set_error(err, ASYMREG_EFAULT,
                         "the kernel cannot pin this memory: it is not mapped, not writable, or a "
                         "shared file mapping that this kernel refuses to pin for writing");
    case ENOMEM:
        return set_error(err, -ENOMEM,
                         "ibv_reg_mr: no memory, or more pinned than RLIMIT_MEMLOCK allows");
    default: return set_error(err, ASYMREG_ETRANSPORT, "ibv_reg_mr: %s", strerror(error));
    }
}

static int mem_reg(struct asymreg_transport *base, const struct asymreg_mem_desc *desc,
                   struct asymreg_mem **mem, void *handle, size_t *handle_bytes,
                   struct asymreg_error *err)
{
    struct ibv_transport *t = ibv_of(base);
    struct asymreg_mem *m;
    int access = 0;

    if (desc->size < sizeof(*desc) || desc->bytes == 0 || desc->prot & ~KNOWN_PROT)
        return -EINVAL;
    if (desc->bytes - 1 > UINT64_MAX - desc->addr)
        return ASYMREG_EOVERFLOW;
    if (desc->bytes > SIZE_MAX || desc->addr > UINTPTR_MAX)
        return -EINVAL;
    if (desc->prot & ASYMREG_READ)
        access |= IBV_ACCESS_REMOTE_READ;
    if (desc->prot & ASYMREG_WRITE)
        access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    if (desc->prot & ASYMREG_ATOMIC)
        access |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
    m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    if (desc->kind == ASYMREG_KIND_DMABUF)
        m->mr = ibv_reg_dmabuf_mr(t->pd, desc->fd_offset, (size_t)desc->bytes, desc->addr, desc->fd,
                                  access);
    else
        m->mr = ibv_reg_mr(t->pd, (void *)(uintptr_t)desc->addr, // NOLINT: the memory's own address
                           (size_t)desc->bytes, access);
    if (!m->mr) {
        int error = errno;

        free(m);
        return explain_reg_error(err, error);
    }
    m->local_write = access & IBV_ACCESS_LOCAL_WRITE;
    /* The adapter reuses its keys some day; handles are never reused. */
    asymreg_ibv__handle_pack(&(struct wire_handle){.prot = desc->prot,
                                                   .seq = ++t->next_seq,
                                                   .addr = desc->addr,
                                                   .bytes = desc->bytes,
                                                   .rkey = m->mr->rkey},
                             handle);
    *handle_bytes = HANDLE_BYTES;
    *mem = m;
    return 0;
}

static int mem_dereg(struct asymreg_transport *base, struct asymreg_mem *mem)
{
    int rc = ibv_dereg_mr(mem->mr);

    (void)base;
    if (rc != 0)
        return -rc;
    free(mem);
    return 0;
}

static int rkey_unpack(struct asymreg_transport *base, struct asymreg_ep *ep, const void *handle,
                       size_t handle_bytes, uint64_t addr, uint64_t bytes,
                       struct asymreg_rkey **rkey, struct asymreg_error *err)
{
    (void)err;
    struct wire_handle h;
    struct asymreg_rkey *k;

    (void)base, (void)ep;
    if (!asymreg_ibv__handle_unpack(handle, handle_bytes, &h) || h.addr != addr || h.bytes != bytes)
        return ASYMREG_ETABLE;
    k = malloc(sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->rkey = h.rkey;
    k->prot = h.prot;
    *rkey = k;
    return 0;
}

static void rkey_release(struct asymreg_transport *base, struct asymreg_ep *ep,
                         struct asymreg_rkey *rkey)
{
    (void)base, (void)ep;
    free(rkey);
}

/* Endpoints. */

static int get_address(struct asymreg_transport *base, void *buf, size_t *bytes,
                       struct asymreg_error *err)
{
    (void)err;
    struct ibv_transport *t = ibv_of(base);

    asymreg_ibv__address_pack(&(struct wire_address){.is_global = t->is_global,
                                                     .cookie = t->cookie,
                                                     .ud_qpn = t->ud_qp->qp_num,
                                                     .qkey = t->qkey,
                                                     .port = t->self},
                              buf);
    *bytes = ADDRESS_BYTES;
    return 0;
}

static int ep_connect(struct asymreg_transport *base, const void *buf, size_t bytes,
                      struct asymreg_ep **out, struct asymreg_error *err)
{
    struct ibv_transport *t = ibv_of(base);
    struct wire_address a;
    struct asymreg_ep *ep;
    int rc = asymreg_ibv__address_unpack(buf, bytes, &a);

    if (rc < 0)
        return rc;
    if (a.is_global != t->is_global)
        return set_error(err, ASYMREG_EUNREACH, "one side is on Ethernet, the other on InfiniBand");
    ep = calloc(1, sizeof(*ep));
    if (!ep)
        return -ENOMEM;
    ep->peer = a.port;
    ep->peer_cookie = a.cookie;
    ep->peer_ud_qpn = a.ud_qpn;
    ep->peer_qkey = a.qkey;
    ep->posted = ep->returned = ep->waiting = (struct queue){NO_REQ, NO_REQ, 0};
    pthread_mutex_lock(&t->lock);
    ep->number = t->next_ep++;
    rc = asymreg_ibv__ep_begin(t, ep);
    if (rc == 0) {
        ep->next = t->eps;
        t->eps = ep;
    }
    pthread_mutex_unlock(&t->lock);
    if (rc < 0) {
        free(ep);
        return set_error(err, rc, "ibv_create_qp: %s", strerror(-rc));
    }
    *out = ep;
    return 0;
}

static void ep_disconnect(struct asymreg_transport *base, struct asymreg_ep *ep)
{
    struct ibv_transport *t = ibv_of(base);

    asymreg_ibv__ep_dead(t, ep, ASYMREG_EPEER);
    pthread_mutex_lock(&t->lock);
    asymreg_ibv__ep_end(t, ep);
    pthread_mutex_unlock(&t->lock);
    free(ep);
}

/* Opening. */

static void destroy_transport(struct asymreg_transport *base)
{
    struct ibv_transport *t = ibv_of(base);

    while (t->eps)
        ep_disconnect(base, t->eps);
    asymreg_ibv__wireup_stop(t);
    if (t->cq)
        ibv_destroy_cq(t->cq);
    if (t->bounce_mr)
        ibv_dereg_mr(t->bounce_mr);
    if (t->bounce)
        munmap(t->bounce, N_REQS * SLOT_BYTES + (size_t)N_CHUNKS * ASYMREG_IBV_MAX_OP_BYTES);
    if (t->pd)
        ibv_dealloc_pd(t->pd);
    if (t->context)
        ibv_close_device(t->context);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static const struct asymreg_transport_ops ops = {
    .size = sizeof(ops),
    .version = ASYMREG_TRANSPORT_VERSION,
    .name = "ibv",
    .query = query_caps,
    .reason = explain_cap,
    .destroy = destroy_transport,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .address = get_address,
    .connect = ep_connect,
    .disconnect = ep_disconnect,
    .peer_alive = asymreg_ibv__peer_alive,
    .rkey_unpack = rkey_unpack,
    .rkey_release = rkey_release,
    .put = asymreg_ibv__put,
    .get = asymreg_ibv__get,
    .amo = asymreg_ibv__amo,
    .flush = asymreg_ibv__flush,
    .progress = asymreg_ibv__progress,
};

/* Returns the requested port, or the first active one. */
static int choose_port(struct ibv_transport *t, uint32_t wanted, uint32_t n_ports)
{
    for (uint32_t port = wanted ? wanted : 1;
         port <= (wanted ? wanted : n_ports) && port <= n_ports; port++) {
        struct ibv_port_attr attr;

        if (ibv_query_port(t->context, (uint8_t)port, &attr) != 0 || attr.state != IBV_PORT_ACTIVE)
            continue;
        t->port = (uint8_t)port;
        t->is_global = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
        t->self.lid = attr.lid;
        t->self.mtu = (uint8_t)attr.active_mtu;
        return attr.gid_tbl_len;
    }
    return -ENODEV;
}

/* Returns the requested GID; else, on Ethernet, that of RoCE v2 with an IPv4 address; else the
 * first. */
static int choose_gid(struct ibv_transport *t, const struct asymreg_ibv_opts *o, int n_gids)
{
    static const unsigned char v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    struct ibv_gid_entry entry;
    uint32_t found = 0;

    if (o->flags & ASYMREG_IBV_GID_INDEX) {
        found = o->gid_index;
        if (found >= (uint32_t)n_gids)
            return -EINVAL;
    } else if (t->is_global) {
        for (uint32_t i = 0; i < (uint32_t)n_gids && i < 256; i++) {
            if (ibv_query_gid_ex(t->context, t->port, i, &entry, 0) == 0 &&
                entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
                memcmp(entry.gid.raw, v4, sizeof(v4)) == 0) {
                found = i;
                break;
            }
        }
    }
    t->gid_index = (uint8_t)found;
    return ibv_query_gid(t->context, t->port, (int)found, &t->self.gid) == 0 ? 0 : -ENODEV;
}

/* Opens the requested adapter, or the first with an active port. */
static int open_device(struct ibv_transport *t, const struct asymreg_ibv_opts *o)
{
    struct ibv_device_attr attr;
    int n, rc = -ENODEV;
    struct ibv_device **list = ibv_get_device_list(&n);

    if (!list)
        return errno == ENOSYS || errno == EPERM ? -ENODEV : -errno;
    for (int i = 0; i < n; i++) {
        if (o->device && strcmp(o->device, ibv_get_device_name(list[i])) != 0)
            continue;
        t->context = ibv_open_device(list[i]);
        if (!t->context) {
            rc = errno == ENOMEM || errno == EMFILE || errno == ENFILE ? -errno : -ENODEV;
            continue;
        }
        rc = -ENODEV;
        if (ibv_query_device(t->context, &attr) == 0)
            rc = choose_port(t, o->port, attr.phys_port_cnt);
        if (rc >= 0)
            rc = choose_gid(t, o, rc);
        if (rc == 0)
            break;
        ibv_close_device(t->context);
        t->context = NULL;
    }
    ibv_free_device_list(list);
    if (rc < 0)
        return rc;
    t->atomics = attr.atomic_cap != IBV_ATOMIC_NONE;
    rc = attr.max_qp_rd_atom < attr.max_qp_init_rd_atom ? attr.max_qp_rd_atom
                                                        : attr.max_qp_init_rd_atom;
    t->self.rd_atomic = (uint8_t)(rc > 16 ? 16 : rc > 1 ? rc : 1);
    return 0;
}

static int open_queues(struct ibv_transport *t)
{
    size_t bytes = N_REQS * SLOT_BYTES + (size_t)N_CHUNKS * ASYMREG_IBV_MAX_OP_BYTES;

    t->pd = ibv_alloc_pd(t->context);
    if (!t->pd)
        return -errno;
    t->cq = ibv_create_cq(t->context, 2 * N_REQS, NULL, NULL, 0);
    if (!t->cq)
        return -errno;
    t->bounce = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->bounce == MAP_FAILED) {
        t->bounce = NULL;
        return -errno;
    }
    t->bounce_mr = ibv_reg_mr(t->pd, t->bounce, bytes, IBV_ACCESS_LOCAL_WRITE);
    return t->bounce_mr ? 0 : -errno;
}

/* Copies the options if they are allowed, and fills in the defaults. -EINVAL: something is set that
 * this release does not know or allow, or the size is wrong; above 4,096 it was never set. */
static int opts_take(struct asymreg_ibv_opts *to, const struct asymreg_ibv_opts *from)
{
    const unsigned char *bytes = (const unsigned char *)from;

    if (from) {
        if (from->size < sizeof(*to) || from->size > 4096)
            return -EINVAL;
        *to = *from;
        for (size_t i = sizeof(*to); i < from->size; i++)
            if (bytes[i])
                return -EINVAL;
    }
    if (to->flags & ~ASYMREG_IBV_GID_INDEX || to->port > 255 || to->gid_index > 255 ||
        to->timeout_ms > ASYMREG_IBV_MAX_TIMEOUT_MS || to->reserved)
        return -EINVAL;
    if (to->timeout_ms == 0)
        to->timeout_ms = 1000;
    if (to->max_peers == 0)
        to->max_peers = 4096;
    return 0;
}

int asymreg_ibv_create(const struct asymreg_ibv_opts *opts, struct asymreg_transport **out,
                       struct asymreg_error *err)
{
    struct asymreg_ibv_opts o = {.size = sizeof(o)};
    struct ibv_transport *t;
    int rc;

    if (!out || opts_take(&o, opts) < 0)
        return set_error(err, -EINVAL,
                         "struct asymreg_ibv_opts: a value out of range, or its size");
    t = calloc(1, sizeof(*t));
    if (!t)
        return set_error(err, -ENOMEM, "no memory for a transport");
    t->base.ops = &ops;
    t->wake_fd = -1;
    t->timeout_ms = o.timeout_ms;
    t->max_passive = o.max_peers;
    /* An adapter tries seven times, each for 4096 ns * 2^rc_timeout; half of the timeout is left
     * for other delays. */
    for (t->rc_timeout = 8;
         (UINT64_C(4096) << (t->rc_timeout + 1)) * 7 <= (uint64_t)o.timeout_ms * 500000;
         t->rc_timeout++)
        ;
    pthread_mutex_init(&t->lock, NULL);
    rc = getrandom(&t->cookie, sizeof(t->cookie), 0) == sizeof(t->cookie) &&
                 getrandom(&t->qkey, sizeof(t->qkey), 0) == sizeof(t->qkey)
             ? 0
             : -EIO;
    t->qkey &= 0x7fffffff; /* the upper half is privileged */
    if (rc == 0)
        rc = open_device(t, &o);
    if (rc == 0)
        rc = open_queues(t);
    if (rc == 0) {
        asymreg_ibv__ops_init(t);
        rc = asymreg_ibv__wireup_start(t);
    }
    if (rc < 0) {
        destroy_transport(&t->base);
        return set_error(err, rc, "%s", asymreg_ibv_strerror(rc));
    }
    *out = &t->base;
    return 0;
}

/* The error's name without a static buffer, as in asymreg_strerror(). NULL: unknown. */
static const char *errno_text(int number)
{
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)
    return strerrordesc_np(number);
#endif
#endif
    return number <= EHWPOISON ? strerror(number) : NULL;
}

const char *asymreg_ibv_strerror(int code)
{
    const char *text;

    if (code >= 0)
        return "success";
    if (code == -ENODEV)
        return "no such verbs adapter, or none with an active port";
    if (code == -ENOMEM)
        return "no memory, or more pinned than RLIMIT_MEMLOCK allows";
    text = code > -4096 ? errno_text(-code) : NULL;
    return text ? text : "unknown error code";
}

const char *asymreg_ibv_version(void)
{
    return ASYMREG_IBV_VERSION;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport for one node: creation and destruction, capabilities, registrations. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int local_query(struct asymreg_transport *t, struct asymreg_transport_caps *out)
{
    struct asymreg_transport_caps all = {.size = out->size}, *caps = &all;
    uint32_t flags = asymreg__local(t)->flags;

    caps->flags = ASYMREG_CAP_PUT | ASYMREG_CAP_GET | ASYMREG_CAP_ONE_SIDED | ASYMREG_CAP_THREADS |
                  ASYMREG_CAP_MAP | ASYMREG_CAP_DIRECT;
    if (flags & ASYMREG_LOCAL_SHM) {
        caps->flags |= ASYMREG_CAP_AMO | ASYMREG_CAP_FD;
        caps->amo4_ops = caps->amo8_ops = ASYMREG_AMO_ALL;
    }
    if (flags & ASYMREG_LOCAL_CMA)
        caps->flags |= ASYMREG_CAP_WHOLE_SPACE | ASYMREG_CAP_PRIVATE;
    caps->max_handle_bytes = sizeof(struct handle);
    caps->max_address_bytes = sizeof(struct address);
    memcpy(out, &all, all.size < sizeof(all) ? all.size : sizeof(all));
    return 0;
}

static const char *local_reason(struct asymreg_transport *t, uint32_t cap)
{
    struct asymreg_transport_caps caps = {.size = sizeof(caps)};

    local_query(t, &caps);
    if (caps.flags & cap)
        return NULL;
    switch (cap) {
    case ASYMREG_CAP_AMO: return "process_vm_writev cannot update atomically; use shared memory";
    case ASYMREG_CAP_FD: return "shared memory is off";
    case ASYMREG_CAP_PRIVATE:
    case ASYMREG_CAP_WHOLE_SPACE: return "memory without a descriptor needs CMA, which is off";
    case ASYMREG_CAP_REVOKE:
        return "the kernel cannot take back a mapping, nor the right to trace a process";
    case ASYMREG_CAP_REMOTE_NODE: return "shared memory and process_vm_readv end at the node";
    default: return "not offered";
    }
}

static void local_destroy(struct asymreg_transport *t)
{
    struct asymreg__local *l = asymreg__local(t);
    struct received *r;

    while ((r = l->received)) {
        l->received = r->next;
        close(r->fd);
        asymreg__free(l->allocator, r);
    }
    pthread_mutex_destroy(&l->lock);
    asymreg__canary_destroy(&l->self.canary);
    asymreg__free(l->allocator, l);
}

static int local_mem_reg(struct asymreg_transport *t, const struct asymreg_mem_desc *desc,
                         struct asymreg_mem **mem, void *handle, size_t *handle_bytes,
                         struct asymreg_error *err)
{
    struct asymreg__local *l = asymreg__local(t);
    struct asymreg_mem *m;
    struct stat st;
    int mode = desc->fd >= 0 ? fcntl(desc->fd, F_GETFL) : 0;

    if (mode < 0)
        return -errno;
    if (desc->fd < 0 && !(l->flags & ASYMREG_LOCAL_CMA))
        return asymreg__fail(err, ASYMREG_ENOTSUP,
                             "memory without a descriptor needs CMA, which is off");
    if (desc->fd >= 0 && (desc->prot & (ASYMREG_WRITE | ASYMREG_ATOMIC)) &&
        (mode & O_ACCMODE) != O_RDWR)
        return asymreg__fail(err, ASYMREG_EACCES,
                             "the descriptor is not open for reading and writing");
    m = asymreg__alloc(l->allocator, sizeof(*m));
    if (!m)
        return -ENOMEM;
    m->fd = -1;
    m->handle.kind = HANDLE_CMA;
    m->handle.flags = desc->flags;
    if (desc->fd >= 0 && ((l->flags & ASYMREG_LOCAL_SHM) || (desc->flags & MAPPED_ALWAYS))) {
        m->fd = fcntl(desc->fd, F_DUPFD_CLOEXEC, 3);
        if (m->fd < 0 || fstat(m->fd, &st) < 0) {
            int e = errno;
            if (m->fd >= 0)
                close(m->fd);
            asymreg__free(l->allocator, m);
            return -e;
        }
        m->handle.kind = HANDLE_FD;
        m->handle.fd = m->fd;
        m->handle.fd_offset = desc->fd_offset;
        m->handle.dev = st.st_dev;
        m->handle.ino = st.st_ino;
    }
    pthread_mutex_lock(&l->lock);
    m->next = l->mems;
    m->link = &l->mems;
    if (m->next)
        m->next->link = &m->next;
    l->mems = m;
    pthread_mutex_unlock(&l->lock);
    memcpy(handle, &m->handle, sizeof(m->handle));
    *handle_bytes = sizeof(m->handle);
    *mem = m;
    return 0;
}

static int local_mem_dereg(struct asymreg_transport *t, struct asymreg_mem *mem)
{
    pthread_mutex_lock(&asymreg__local(t)->lock);
    *mem->link = mem->next;
    if (mem->next)
        mem->next->link = mem->link;
    pthread_mutex_unlock(&asymreg__local(t)->lock);
    if (mem->fd >= 0)
        close(mem->fd);
    asymreg__free(asymreg__local(t)->allocator, mem);
    return 0;
}

static int local_address(struct asymreg_transport *t, void *buf, size_t *bytes,
                         struct asymreg_error *err)
{
    (void)err;
    memcpy(buf, &asymreg__local(t)->self, sizeof(struct address));
    *bytes = sizeof(struct address);
    return 0;
}

static int local_progress(struct asymreg_transport *t)
{
    (void)t;
    return 0;
}

static const struct asymreg_transport_ops local_ops = {
    .size = sizeof(local_ops),
    .version = ASYMREG_TRANSPORT_VERSION,
    .name = "local",
    .query = local_query,
    .reason = local_reason,
    .destroy = local_destroy,
    .mem_reg = local_mem_reg,
    .mem_dereg = local_mem_dereg,
    .address = local_address,
    .connect = asymreg__local_connect,
    .disconnect = asymreg__local_disconnect,
    .peer_alive = asymreg__local_alive,
    .rkey_unpack = asymreg__local_unpack,
    .rkey_release = asymreg__local_release,
    .map = asymreg__local_map,
    .check = asymreg__local_check,
    .put = asymreg__local_put,
    .get = asymreg__local_get,
    .amo = asymreg__local_amo,
    .flush = asymreg__local_flush,
    .progress = local_progress,
};

/* Identifies this process. Without /proc some members remain 0: they are then not compared, or
 * equal for all processes. */
static int address_identify(struct address *a)
{
    struct stat st;
    ssize_t n;
    int fd, ended, rc = asymreg__process_stat(a->pid, &a->start_time, &ended);

    if (rc < 0 && rc != -ENOENT)
        return rc;
    if (stat("/proc/self/ns/pid", &st) == 0)
        a->pid_ns = st.st_ino;
    else if (errno != ENOENT)
        return -errno;
    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    n = read(fd, a->boot_id, sizeof(a->boot_id));
    close(fd);
    if (n < 36)
        memset(a->boot_id, 0, sizeof(a->boot_id));
    return 0;
}

int asymreg_local_create(const struct asymreg_local_opts *opts, struct asymreg_transport **out,
                         struct asymreg_error *err)
{
    const uint32_t both = ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA;
    struct asymreg_local_opts o = {.size = sizeof(o)};
    struct asymreg__local *l;
    int rc;

    if (!out || asymreg__opts_take(&o, opts, sizeof(o)) < 0 ||
        (o.flags & ~(both | ASYMREG_LOCAL_TRUST)) || o.reserved)
        return asymreg__fail(err, -EINVAL, "struct asymreg_local_opts: unknown flags or size");
    if (!asymreg__allocator_ok(o.allocator))
        return asymreg__fail(err, -EINVAL, "the allocator lacks realloc or free");
    l = asymreg__alloc(o.allocator, sizeof(*l));
    if (!l)
        return asymreg__fail(err, -ENOMEM, "no memory for a transport");
    l->allocator = o.allocator;
    l->base.ops = &local_ops;
    l->flags = o.flags & both ? o.flags : o.flags | both;
    l->pid = getpid();
    l->self.magic = ADDRESS_MAGIC;
    l->self.flags = l->flags;
    l->self.pid = (uint64_t)l->pid;
    rc = address_identify(&l->self);
    if (rc < 0) {
        asymreg__free(l->allocator, l);
        return asymreg__fail(err, rc, "cannot identify this process in /proc: %s",
                             asymreg_strerror(rc));
    }
    rc = asymreg__canary_create(&l->self.canary);
    if (rc < 0) {
        asymreg__free(l->allocator, l);
        return asymreg__fail(err, rc, "no page at a random address for the canary: %s",
                             asymreg_strerror(rc));
    }
    pthread_mutex_init(&l->lock, NULL);
    *out = &l->base;
    return 0;
}

struct asymreg__local *asymreg__local_of(struct asymreg_transport *t)
{
    return t->ops == &local_ops ? asymreg__local(t) : NULL;
}

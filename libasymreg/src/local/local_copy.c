/* SPDX-License-Identifier: BSD-3-Clause */
/* Put, get and atomics: by loads and stores if no process can take the pages away, else through the
 * kernel. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local_internal.h"

#include <asymreg/bound.h>

#include <errno.h>
#include <sys/uio.h>

#define MAX_ONE_CALL ((size_t)1 << 30) /* the kernel moves a little less than 2 GiB in one call */

static ssize_t process_move(pid_t pid, const struct iovec *mine, const struct iovec *theirs, int n,
                            int write)
{
    return write ? process_vm_writev(pid, mine, (unsigned long)n, theirs, (unsigned long)n, 0)
                 : process_vm_readv(pid, mine, (unsigned long)n, theirs, (unsigned long)n, 0);
}

/* Copies within this process through the kernel: a fault is an error, not a signal. */
static int copy_within(struct asymreg__local *l, char *mapped, char *here, size_t bytes, int write)
{
    while (bytes) {
        struct iovec mine = {here, bytes < MAX_ONE_CALL ? bytes : MAX_ONE_CALL},
                     theirs = {mapped, mine.iov_len};
        ssize_t n = process_move(l->pid, &mine, &theirs, 1, write);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EFAULT ? ASYMREG_EFAULT : -errno;
        mapped += n;
        here += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int ep_set_dead(struct asymreg_ep *ep)
{
    atomic_store_explicit(&ep->dead, 1, memory_order_relaxed);
    return ASYMREG_EPEER;
}

/*
 * Copies between this process and a peer. One system call pins one address space and handles its
 * pieces in order. The canary is the first piece: if it is missing, the process runs another
 * program or is ending, and the kernel accesses no later piece.
 */
static int copy_across(struct asymreg__local *l, struct asymreg_ep *ep, uint64_t remote, char *here,
                       size_t bytes, int write)
{
    const struct canary *canary = &ep->peer.canary;

    while (bytes) {
        uint64_t word = canary->value;
        size_t most = bytes < MAX_ONE_CALL ? bytes : MAX_ONE_CALL;
        struct iovec mine[] = {{&word, sizeof(word)}, {here, most}},
                     theirs[] = {{(void *)(uintptr_t)canary->at, sizeof(word)},
                                 {(void *)(uintptr_t)remote, most}};
        ssize_t n = process_move((pid_t)ep->peer.pid, mine, theirs, 2, write);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPERM)
            return ASYMREG_EUNREACH; /* no right to trace the peer */
        if (n < 0 && errno != EFAULT && errno != ESRCH)
            return -errno;
        /* The kernel refuses such an address, unless the canary's own page has gone. */
        if (n < 0 && errno == EFAULT && !asymreg__canary_gone(&ep->peer))
            return asymreg__local_alive(&l->base, ep) < 0 ? ASYMREG_EPEER : ASYMREG_EFAULT;
        if (n < (ssize_t)sizeof(word) || word != canary->value)
            return ep_set_dead(ep);
        if (n == sizeof(word)) /* a dying process loses its memory before it is a zombie */
            return asymreg__local_alive(&l->base, ep) < 0 ? ASYMREG_EPEER : ASYMREG_EFAULT;
        n -= (ssize_t)sizeof(word);
        remote += (uint64_t)n;
        here += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static inline int key_excludes(const struct asymreg_rkey *key, uint64_t addr, size_t bytes)
{
    if (key->bytes == UINT64_MAX) /* the whole space: no length can express its end */
        return 0;
    return addr < key->addr || bytes > key->bytes || addr - key->addr > key->bytes - bytes;
}

/* Every case except loads and stores to a peer known to be alive. */
__attribute__((noinline)) static int copy_with_care(struct asymreg_transport *t,
                                                    struct asymreg_ep *ep,
                                                    struct asymreg_rkey *rkey, uint64_t addr,
                                                    char *here, size_t bytes, int write)
{
    struct asymreg__local *l = asymreg__local(t);
    char *mapped;
    int rc;

    if (key_excludes(rkey, addr, bytes))
        return ASYMREG_ERANGE;
    if (rkey->kind == KEY_CMA)
        return copy_across(l, ep, addr, here, bytes, write);
    if (write && !rkey->writable)
        return ASYMREG_EACCES;
    rc = asymreg__alive_lately(t, ep);
    if (rc < 0)
        return rc;
    mapped = rkey->ptr + (addr - rkey->addr);
    if (rkey->kind == KEY_GUARDED)
        return copy_within(l, mapped, here, bytes, write);
    if (write)
        asymreg__store(mapped, here, bytes);
    else
        asymreg__load(here, mapped, bytes);
    return 0;
}

int asymreg__local_put(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, const void *src, size_t bytes,
                       struct asymreg_mem *mem, struct asymreg_op *op)
{
    (void)mem, (void)op;
    if (addr - rkey->addr > rkey->put_bytes || bytes > rkey->put_bytes - (addr - rkey->addr) ||
        !asymreg__known_alive(ep))
        return copy_with_care(t, ep, rkey, addr, (char *)(uintptr_t)src, bytes, 1);
    asymreg__store(rkey->ptr + (addr - rkey->addr), src, bytes);
    return 0;
}

int asymreg__local_get(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, void *dst, size_t bytes,
                       struct asymreg_mem *mem, struct asymreg_op *op)
{
    (void)mem, (void)op;
    if (addr - rkey->addr > rkey->get_bytes || bytes > rkey->get_bytes - (addr - rkey->addr) ||
        !asymreg__known_alive(ep))
        return copy_with_care(t, ep, rkey, addr, dst, bytes, 0);
    asymreg__load(dst, rkey->ptr + (addr - rkey->addr), bytes);
    return 0;
}

int asymreg__local_amo(struct asymreg_transport *t, struct asymreg_ep *ep,
                       struct asymreg_rkey *rkey, uint64_t addr, uint32_t which, uint32_t bytes,
                       uint64_t operand, uint64_t compare, uint64_t *result, struct asymreg_op *op)
{
    uint64_t old;
    char *p;
    int rc;

    (void)op;
    if (rkey->kind != KEY_DIRECT) /* asymreg__local_check() gives the reason */
        return ASYMREG_ENOTSUP;
    if (key_excludes(rkey, addr, bytes))
        return ASYMREG_ERANGE;
    if (!rkey->writable)
        return ASYMREG_EACCES;
    rc = asymreg__alive_lately(t, ep);
    if (rc < 0)
        return rc;
    p = rkey->ptr + (addr - rkey->addr);
    if ((uintptr_t)p % bytes)
        return ASYMREG_EALIGN; /* mapped at an odd offset in its file */
    old = bytes == 4
              ? asymreg__amo4((uint32_t *)(void *)p, which, (uint32_t)operand, (uint32_t)compare)
              : asymreg__amo8((uint64_t *)(void *)p, which, operand, compare);
    if (result)
        *result = old;
    return 0;
}

int asymreg__local_flush(struct asymreg_transport *t, struct asymreg_ep *ep)
{
    atomic_thread_fence(memory_order_release);
    return ep ? asymreg__alive_lately(t, ep) : 0;
}

int asymreg__local_check(struct asymreg_transport *t, struct asymreg_ep *ep,
                         struct asymreg_rkey *rkey, uint64_t addr, uint32_t need,
                         struct asymreg_error *err)
{
    int rc, write = (need & (ASYMREG_WRITE | ASYMREG_ATOMIC)) != 0;
    char byte;

    if ((need & ASYMREG_ATOMIC) && rkey->kind == KEY_CMA)
        return asymreg__fail(err, ASYMREG_ENOTSUP,
                             "process_vm_writev cannot update atomically; use shared memory "
                             "(asymreg_segment_alloc, or a descriptor)");
    if ((need & ASYMREG_ATOMIC) && rkey->kind == KEY_GUARDED)
        return asymreg__fail(err, ASYMREG_ENOTSUP,
                             "a file that may be shortened is accessed through the kernel, which "
                             "cannot update atomically");
    if (write && !rkey->writable)
        return asymreg__fail(err, ASYMREG_EACCES, "the peer's file cannot be written from here");
    rc = asymreg__local_get(t, ep, rkey, addr, &byte, 1, NULL, NULL);
    if (rc == 0 && write && rkey->kind == KEY_CMA &&
        asymreg__process_permits_write(ep->peer.pid, addr) == 0)
        rc = ASYMREG_EFAULT;
    if (rc == ASYMREG_EFAULT)
        return asymreg__fail(
            err, rc,
            "registered, but the memory at %#llx is unmapped, protected or cut off "
            "in process %llu",
            (unsigned long long)addr, (unsigned long long)ep->peer.pid);
    return rc != ASYMREG_EUNREACH
               ? rc
               : asymreg__fail(
                     err, rc,
                     "no right to trace process %llu (user, container, Yama or a system "
                     "call filter): use memory of asymreg_segment_alloc(), which the peer "
                     "can send by asymreg_fds_send()",
                     (unsigned long long)ep->peer.pid);
}

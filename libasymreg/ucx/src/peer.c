/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses and endpoints. UCX's shared memory does not notice a death, so this side watches a peer
 * on its node through a pidfd or /proc. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ucx.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ADDRESS_MAGIC 0x41755861u /* "AuXa" */
/* As for keys, zeros follow: UCX finds the end of an address by its content. */
#define PADDED_ADDRESS_BYTES (2 * ASYMREG_MAX_ADDRESS_BYTES)
/* of a transport: further endpoints open one for each check */
#define KEPT_PIDFDS  64u
#define ASK_EVERY_NS 20000000 /* for a peer without a kept descriptor */

struct address {
    uint32_t magic;
    uint16_t version, reserved;
    char boot[40];      /* the node: its boot id */
    uint32_t pids, ipc; /* its namespaces of process ids and of shared memory */
    uint64_t started;   /* in the kernel's ticks since boot */
    uint32_t pid, ucx_bytes;
    uint64_t checksum;
};
_Static_assert(sizeof(struct address) == 80, "no padding");

/*
 * Reads a process's start from /proc, and whether all its threads have ended, reaped or not.
 * -ENOENT, -ESRCH: no such process, or it is not visible; another -errno.
 */
static int process_stat(uint32_t pid, uint64_t *started, bool *ended)
{
    char path[64], line[1024], state = 0, *p;
    unsigned long long ticks = 0;
    int n_threads = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    f = fopen(path, "re");
    if (!f)
        return -errno;
    p = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
    fclose(f);
    /* The 3rd field follows the parenthesis; the 20th and the 22nd. A process that ends during the
     * read has none of these fields. */
    if (!p ||
        sscanf(p + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d %*s %llu",
               &state, &n_threads, &ticks) != 3)
        return -ESRCH;
    *started = ticks;
    /* The first thread may end before others. */
    *ended = (state == 'Z' || state == 'X') && n_threads <= 1;
    return 0;
}

/* Returns 0 without /proc. */
static uint32_t namespace_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (uint32_t)st.st_ino : 0;
}

/* Names this process. Without /proc its start is 0. */
static int describe_self(struct address *a)
{
    bool ended;
    int rc, fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno != ENOENT)
        return -errno;
    if (fd >= 0) {
        if (read(fd, a->boot, sizeof(a->boot) - 1) < 0)
            a->boot[0] = 0;
        close(fd);
    }
    a->pids = namespace_of("/proc/self/ns/pid");
    a->ipc = namespace_of("/proc/self/ns/ipc");
    a->pid = (uint32_t)getpid();
    rc = process_stat(a->pid, &a->started, &ended);
    return rc == -ENOENT ? 0 : rc;
}

int asymreg_ucx__address(struct asymreg_transport *base, void *buf, size_t *bytes,
                         struct asymreg_error *err)
{
    struct ucx_transport *t = ucx_of(base);
    struct address a;
    int rc;

    memset(&a, 0, sizeof(a));
    if (sizeof(a) + t->address_bytes > ASYMREG_MAX_ADDRESS_BYTES)
        return asymreg_ucx__fail(err, ASYMREG_ENOTSUP,
                                 "UCX's address is %zu bytes: name fewer devices in "
                                 "UCX_NET_DEVICES",
                                 t->address_bytes);
    a.magic = ADDRESS_MAGIC;
    a.version = WIRE_VERSION;
    a.ucx_bytes = (uint32_t)t->address_bytes;
    rc = describe_self(&a);
    if (rc < 0)
        return rc;
    memcpy(buf, &a, sizeof(a));
    memcpy((char *)buf + sizeof(a), t->address, t->address_bytes);
    *bytes = sizeof(a) + t->address_bytes;
    a.checksum = asymreg_ucx__checksum(buf, *bytes);
    memcpy(buf, &a, sizeof(a));
    return 0;
}

/*
 * Opens a descriptor of a process, which the caller closes. *fd -1: the system has no such
 * descriptors (before Linux 5.3, under system call filters), and /proc or kill() shows the process
 * alive. ASYMREG_EPEER: it is gone; another process or a thread may have its number. Or -errno.
 */
static int process_open(uint32_t pid, uint64_t started, int *fd)
{
    uint64_t when = 0;
    bool ended = false;
    int rc;

    *fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (*fd < 0 && errno != ENOSYS && errno != EPERM)
        return errno == ESRCH || errno == EINVAL || errno == ENOENT ? ASYMREG_EPEER : -errno;
    rc = started ? process_stat(pid, &when, &ended) : -ENOENT;
    /* Without /proc, or if it hides other users' processes (hidepid): does a process with this
     * number exist? */
    if (rc == -ENOENT || rc == -EPERM || rc == -EACCES)
        rc = kill((pid_t)pid, 0) < 0 && errno == ESRCH ? ASYMREG_EPEER : 0;
    else if (rc == -ESRCH || (rc == 0 && (when != started || ended)))
        rc = ASYMREG_EPEER;
    if (rc < 0 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

/* Finds out whether the peer is on this node, where the kernel reports its end (then opens a
 * descriptor), and whether it may share memory or is in another container. ASYMREG_EPEER if it is
 * gone; or -errno. */
static int find_process(const struct address *a, bool *here, bool *shares, int *fd)
{
    struct address us;
    int rc;

    *here = *shares = false;
    *fd = -1;
    memset(&us, 0, sizeof(us));
    rc = describe_self(&us);
    if (rc < 0)
        return rc;
    if (!us.boot[0] || memcmp(us.boot, a->boot, sizeof(us.boot)) != 0 || us.pids != a->pids ||
        us.pids == 0)
        return 0;
    *shares = us.ipc == a->ipc;
    rc = process_open(a->pid, a->started, fd);
    *here = rc == 0;
    return rc;
}

/* Keeps the descriptor, or closes it. With the lock held. */
static void keep_pidfd(struct ucx_transport *t, struct asymreg_ep *ep, int fd)
{
    ep->pidfd = -1;
    if (fd >= 0 && t->n_pidfds < KEPT_PIDFDS) {
        ep->pidfd = fd;
        t->n_pidfds++;
    } else if (fd >= 0) {
        close(fd);
    }
}

static void close_pidfd(struct ucx_transport *t, struct asymreg_ep *ep)
{
    if (ep->pidfd >= 0) {
        close(ep->pidfd);
        t->n_pidfds--;
    }
    ep->pidfd = -1;
}

static void on_error(void *arg, ucp_ep_h ucp_ep, ucs_status_t status)
{
    struct asymreg_ep *ep = arg;
    int error = asymreg_ucx__map_status(status);

    (void)ucp_ep;
    /* After any error an endpoint is useless to UCX. */
    if (!ep->dead)
        ep->dead = error == ASYMREG_EUNREACH ? error : ASYMREG_EPEER;
}

static ucs_status_t create_ep(struct ucx_transport *t, struct asymreg_ep *ep, const void *address,
                              bool watched_by_ucx)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
        .err_mode = watched_by_ucx ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
        .err_handler = {.cb = on_error, .arg = ep}};

    ep->force = watched_by_ucx;
    return ucp_ep_create(t->worker, &params, &ep->ep);
}

/* Finds out which shared memory UCX may use, and whether it has adapters that access memory by
 * themselves. UCX reports this only in prose. If unknown: some memory, no adapter. */
void asymreg_ucx__find_transports(struct ucx_transport *t)
{
    static const char *const shared[] = {" posix/", " sysv/", " xpmem/"};
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    t->within_node = t->within_process = true;
    if (!f)
        return;
    ucp_context_print_info(t->context, f);
    if (fclose(f) == 0 && text && strstr(text, "resource ")) {
        t->within_node = false;
        for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
            t->within_node = t->within_node || strstr(text, shared[i]);
        t->within_process = t->within_node || strstr(text, " self/");
        t->rdma = strstr(text, " rc_") || strstr(text, " dc_");
    }
    free(text);
}

/* What UCX prints about an endpoint, which the caller frees; NULL: no memory. */
static char *describe_ep(ucp_ep_h ep)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    if (!f)
        return NULL;
    ucp_ep_print_info(ep, f);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* Returns whether the endpoint uses an adapter that accesses the peer's memory. */
static bool has_rdma(struct asymreg_ep *ep)
{
    char *text = describe_ep(ep->ep);
    bool has = text && (strstr(text, "/rc_") || strstr(text, "/dc_"));

    free(text);
    return has;
}

/* Returns whether the endpoint uses only memory of this node; UCX 1.13 reports this only in
 * prose. */
bool asymreg_ucx__is_shared_memory(ucp_ep_h ep)
{
    static const char *const local[] = {"/self/",  "/posix/", "/sysv/",
                                        "/xpmem/", "/cma/",   "/knem/"};
    char *text = describe_ep(ep), *save = NULL;
    bool all = true;

    if (!text)
        return false;
    for (char *line = strtok_r(text, "\n", &save); line && all;
         line = strtok_r(NULL, "\n", &save)) {
        bool known = !strstr(line, "lane[");

        for (size_t i = 0; i < sizeof(local) / sizeof(*local); i++)
            known = known || strstr(line, local[i]);
        all = known;
    }
    free(text);
    return all;
}

static void close_ep(struct ucx_transport *t, struct asymreg_ep *ep)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = ep->force ? UCP_EP_CLOSE_FLAG_FORCE : 0};
    void *request;

    if (!ep->ep)
        return;
    /* Closing would flush, and so wait for a dead peer: the worker's end closes this endpoint. UCX
     * may send answers through it until then, and this side its goodbye. */
    if (!ep->force && ep->dead)
        return;
    asymreg_ucx__forget_caller(t, ep->ep);
    request = ucp_ep_close_nbx(ep->ep, &param);
    ep->ep = NULL;
    if (!UCS_PTR_IS_PTR(request))
        return;
    if (t->n_closing == t->max_closing) {
        size_t max = t->max_closing ? 2 * t->max_closing : 16;
        void **more = realloc(t->closing, max * sizeof(*more));

        if (!more) {
            ucp_request_free(request); /* UCX frees it on completion */
            return;
        }
        t->closing = more;
        t->max_closing = max;
    }
    t->closing[t->n_closing++] = request;
}

void asymreg_ucx__free_closed(struct ucx_transport *t)
{
    for (size_t i = 0; i < t->n_closing;) {
        if (ucp_request_check_status(t->closing[i]) == UCS_INPROGRESS) {
            i++;
            continue;
        }
        ucp_request_free(t->closing[i]);
        t->closing[i] = t->closing[--t->n_closing];
    }
}

/*
 * On one node the endpoint should use shared memory, but UCX does not use it for an endpoint that
 * UCX watches; so this side asks the kernel about the peer instead. If UCX has no shared memory, or
 * the peer is elsewhere, UCX watches. In that case this function opens no endpoint only to find
 * out: over TCP the peer's UCX would take part in that connection after it was closed, and print an
 * error.
 */
static ucs_status_t open_ep(struct ucx_transport *t, struct asymreg_ep *ep, const void *address,
                            bool maybe_shared)
{
    ucs_status_t status;

    if (!ep->here || !maybe_shared) {
        status = create_ep(t, ep, address, true);
        return status == UCS_OK ? status : create_ep(t, ep, address, false);
    }
    status = create_ep(t, ep, address, false);
    if (status == UCS_OK && !asymreg_ucx__is_shared_memory(ep->ep)) {
        close_ep(t, ep);
        status = create_ep(t, ep, address, true);
        if (status != UCS_OK)
            status = create_ep(t, ep, address, false);
    }
    return status;
}

int asymreg_ucx__connect(struct asymreg_transport *base, const void *buf, size_t bytes,
                         struct asymreg_ep **out, struct asymreg_error *err)
{
    struct ucx_transport *t = ucx_of(base);
    unsigned char copy[PADDED_ADDRESS_BYTES] = {0};
    struct asymreg_ep *ep;
    struct address a;
    uint64_t checksum;
    ucs_status_t status;
    uint64_t token = 0;
    bool here, shares;
    int rc, fd;

    if (bytes <= sizeof(a) || bytes > ASYMREG_MAX_ADDRESS_BYTES)
        return ASYMREG_EBLOB;
    memcpy(copy, buf, bytes);
    memcpy(&a, copy, sizeof(a));
    checksum = a.checksum;
    a.checksum = 0;
    memcpy(copy, &a, sizeof(a));
    if (a.magic != ADDRESS_MAGIC)
        return ASYMREG_EBLOB;
    if (a.version != WIRE_VERSION)
        return ASYMREG_EVERSION;
    if (a.ucx_bytes != bytes - sizeof(a) || a.reserved ||
        checksum != asymreg_ucx__checksum(copy, bytes))
        return ASYMREG_EBLOB;
    while (token == 0)
        if (getrandom(&token, sizeof(token), 0) != sizeof(token) && errno != EINTR)
            return -errno;
    rc = find_process(&a, &here, &shares, &fd);
    if (rc < 0)
        return rc;
    ep = calloc(1, sizeof(*ep));
    if (!ep) {
        if (fd >= 0)
            close(fd);
        return -ENOMEM;
    }
    ep->here = here;
    ep->pid = a.pid;
    ep->started = a.started;
    ep->token = token;
    ucx_lock(t);
    keep_pidfd(t, ep, fd);
    if (shares)
        shares = a.pid == (uint32_t)getpid() ? t->within_process : t->within_node;
    status = t->blocked && shares ? UCS_ERR_UNREACHABLE : open_ep(t, ep, copy + sizeof(a), shares);
    if (status == UCS_OK) {
        ep->rdma = t->rdma && has_rdma(ep);
        ep->next = t->eps;
        t->eps = ep;
        asymreg_ucx__send_hello(t, ep);
    } else {
        close_pidfd(t, ep);
    }
    ucx_unlock(t);
    if (status != UCS_OK) {
        free(ep);
        return asymreg_ucx__fail(err, status == UCS_ERR_NO_MEMORY ? -ENOMEM : ASYMREG_EUNREACH,
                                 "ucp_ep_create: %s", ucs_status_string(status));
    }
    *out = ep;
    return 0;
}

void asymreg_ucx__disconnect(struct asymreg_transport *base, struct asymreg_ep *ep)
{
    struct ucx_transport *t = ucx_of(base);

    ucx_lock(t);
    if (ep->dead) /* there is nobody to tell this side's end */
        asymreg_ucx__forget_caller(t, ep->ep);
    asymreg_ucx__fail_ep(t, ep, ASYMREG_EPEER);
    for (struct asymreg_ep **p = &t->eps; *p; p = &(*p)->next) {
        if (*p == ep) {
            *p = ep->next;
            break;
        }
    }
    if (ep->flush)
        ucp_request_free(ep->flush);
    close_ep(t, ep);
    close_pidfd(t, ep);
    asymreg_ucx__free_closed(t);
    ucx_unlock(t);
    free(ep);
}

/* Asks the kernel whether the peer has ended; if it cannot answer now (no free descriptor), the
 * next check asks again. */
static bool has_ended(const struct asymreg_ep *ep)
{
    struct pollfd p = {.fd = ep->pidfd, .events = POLLIN};
    bool ended;
    int rc;

    if (!ep->here)
        return false;
    rc = p.fd < 0 ? process_open(ep->pid, ep->started, &p.fd) : 0;
    if (rc < 0)
        return rc == ASYMREG_EPEER;
    ended = p.fd >= 0 && poll(&p, 1, 0) == 1;
    if (p.fd != ep->pidfd)
        close(p.fd);
    return ended;
}

/* Returns whether a check is due. With a kept descriptor a check is cheap; without one it takes six
 * system calls. */
static bool check_is_due(struct asymreg_ep *ep)
{
    struct timespec now;
    int64_t ns;

    if (ep->pidfd >= 0)
        return true;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (ns - ep->asked_ns < ASK_EVERY_NS)
        return false;
    ep->asked_ns = ns;
    return true;
}

static void fail_ended_peer(struct ucx_transport *t, struct asymreg_ep *ep)
{
    /* Handle the messages that the peer sent before its end first: none may arrive later, in a
     * buffer that was returned to the user. */
    while (ucp_worker_progress(t->worker))
        ;
    t->probe.due |= !ep->dead && !ep->force; /* dead by now: it has closed, and was not killed */
    asymreg_ucx__fail_ep(t, ep, ASYMREG_EPEER);
}

/* Peers without operations in flight too, if that is cheap: one that was killed may have blocked
 * this side's queue. */
void asymreg_ucx__check_peers(struct ucx_transport *t)
{
    for (struct asymreg_ep *ep = t->eps; ep; ep = ep->next) {
        bool busy = ep->n_pending > 0 || ep->flush;

        if (!busy && (ep->dead || ep->pidfd < 0))
            continue;
        if (ep->dead)
            asymreg_ucx__fail_ep(t, ep, ep->dead);
        else if (check_is_due(ep) && has_ended(ep))
            fail_ended_peer(t, ep);
    }
}

int asymreg_ucx__peer_alive(struct asymreg_transport *base, struct asymreg_ep *ep)
{
    struct ucx_transport *t = ucx_of(base);

    ucx_lock(t);
    if (!ep->dead && has_ended(ep))
        fail_ended_peer(t, ep);
    else if (!ep->here)
        ucp_worker_progress(t->worker); /* only UCX knows */
    ucx_unlock(t);
    return ep->dead;
}

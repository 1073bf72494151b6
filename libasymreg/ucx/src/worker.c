/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens UCX, registers memory, makes keys; the thread that progresses peers' messages; the table of
 * operations. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ucx.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define KIND_SHIFT      8           /* of the kind of memory, in a handle's permissions */
#define KEY_SLACK_BYTES 48u         /* keys of some memory may be longer */
#define HANDLE_MAGIC    0x41755868u /* "AuXh" */
/* UCX reads a packed key without knowing its length. So zeros follow the key, as many as any count
 * in a damaged key can reach. */
#define PADDED_KEY_BYTES (MAX_KEY_BYTES + 64 * 256 + 64)

struct handle {
    uint32_t magic; /* in host order, like UCX's own bytes inside */
    uint16_t version, prot;
    uint64_t addr, bytes, seq;
    uint32_t key_bytes; /* 0: UCX does not know the memory; messages reach it */
    uint32_t place;
    uint64_t checksum; /* of all other bytes */
};
_Static_assert(sizeof(struct handle) == HEADER_BYTES, "no padding");

int asymreg_ucx__map_status(ucs_status_t status)
{
    switch (status) {
    case UCS_OK: return 0;
    case UCS_ERR_NO_MEMORY: return -ENOMEM;
    case UCS_ERR_UNREACHABLE: return ASYMREG_EUNREACH;
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_CANCELED:
    case UCS_ERR_TIMED_OUT: return ASYMREG_EPEER;
    default: return ASYMREG_ETRANSPORT;
    }
}

uint64_t asymreg_ucx__checksum(const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

static int query_caps(struct asymreg_transport *base, struct asymreg_transport_caps *caps)
{
    struct asymreg_transport_caps full = {
        .size = caps->size,
        .flags = ASYMREG_CAP_PUT | ASYMREG_CAP_GET | ASYMREG_CAP_AMO | ASYMREG_CAP_FD |
                 ASYMREG_CAP_PRIVATE | ASYMREG_CAP_REMOTE_NODE |
                 (ucx_of(base)->max_key_bytes ? 0 : ASYMREG_CAP_REVOKE),
        .amo4_ops = ASYMREG_AMO_ALL,
        .amo8_ops = ASYMREG_AMO_ALL,
        .max_handle_bytes = HEADER_BYTES + ucx_of(base)->max_key_bytes,
        .max_address_bytes = ASYMREG_MAX_ADDRESS_BYTES,
        .kinds = ucx_of(base)->kinds,
        .max_op_bytes = MAX_MESSAGE_BYTES,
    };

    if (caps->size < sizeof(caps->size))
        return -EINVAL;
    if (ucx_of(base)->threaded)
        full.flags |= ASYMREG_CAP_THREADS;
    memcpy(caps, &full, caps->size < sizeof(full) ? caps->size : sizeof(full));
    return 0;
}

static const char *explain_cap(struct asymreg_transport *base, uint32_t cap)
{
    struct ucx_transport *t = ucx_of(base);

    switch (cap) {
    case ASYMREG_CAP_ONE_SIDED:
        return "UCX moves most memory by messages that the target has to take in";
    case ASYMREG_CAP_REVOKE:
        return t->max_key_bytes
                   ? "UCX keeps registrations with an adapter or device after their end"
                   : NULL;
    case ASYMREG_CAP_WHOLE_SPACE: return "UCX registers memory that exists";
    case ASYMREG_CAP_MAP: return "UCX maps only memory that it has allocated";
    case ASYMREG_CAP_THREADS:
        return t->threaded ? NULL
                           : "UCX's worker belongs to one thread at a time; see ASYMREG_UCX_THREAD";
    case ASYMREG_CAP_WANT_LOCAL: return "UCX keeps registrations of local buffers itself";
    default: return NULL;
    }
}

/* Registrations and keys. */

/* Allocates an entry for a registration. -ENOMEM. */
static int alloc_entry(struct ucx_transport *t, const struct asymreg_mem_desc *desc,
                       uint32_t *place)
{
    uint32_t n = t->n_places;

    if (t->free_place) {
        n = t->free_place - 1;
        t->free_place = t->places[n].next;
    } else {
        if (n == t->max_places) {
            uint32_t max = t->max_places ? 2 * t->max_places : 64;
            struct place *more = realloc(t->places, max * sizeof(*more));

            if (!more)
                return -ENOMEM;
            t->places = more;
            t->max_places = max;
        }
        t->n_places++;
    }
    t->places[n] =
        (struct place){.seq = ++t->next_seq,
                       .addr = desc->addr,
                       .bytes = desc->bytes,
                       .prot = desc->prot,
                       .kind = desc->kind,
                       .strange = t->reaches && !desc->kind &&
                                  asymreg_ucx__reach_pages(desc->addr, 1, false) == EINVAL};
    *place = n;
    return 0;
}

static void free_entry(struct ucx_transport *t, uint32_t place)
{
    t->places[place] = (struct place){.next = t->free_place};
    t->free_place = place + 1;
}

/* Has UCX register memory, and packs its key. */
static ucs_status_t map_memory(struct ucx_transport *t, const struct asymreg_mem_desc *desc,
                               struct asymreg_mem *m, void **key, size_t *key_bytes)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_PROT,
                                   .address = (void *)(uintptr_t)desc->addr, // NOLINT
                                   .length = (size_t)desc->bytes};
    ucs_status_t status;

    if (desc->kind) {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.memory_type =
            desc->kind == ASYMREG_KIND_CUDA ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_ROCM;
    }
    params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_REMOTE_READ;
    if (desc->prot & (ASYMREG_WRITE | ASYMREG_ATOMIC))
        params.prot |= UCP_MEM_MAP_PROT_LOCAL_WRITE | UCP_MEM_MAP_PROT_REMOTE_WRITE;
    status = ucp_mem_map(t->context, &params, &m->memh);
    if (status != UCS_OK)
        return status;
    status = ucp_rkey_pack(t->context, m->memh, key, key_bytes);
    if (status == UCS_OK && *key_bytes > t->max_key_bytes) {
        ucp_rkey_buffer_release(*key);
        status = UCS_ERR_EXCEEDS_LIMIT;
    }
    if (status != UCS_OK)
        ucp_mem_unmap(t->context, m->memh);
    return status;
}

static int mem_reg(struct asymreg_transport *base, const struct asymreg_mem_desc *desc,
                   struct asymreg_mem **mem, void *handle, size_t *handle_bytes,
                   struct asymreg_error *err)
{
    struct ucx_transport *t = ucx_of(base);
    struct handle h = {.magic = HANDLE_MAGIC,
                       .version = WIRE_VERSION,
                       .prot = (uint16_t)(desc->prot | desc->kind << KIND_SHIFT),
                       .addr = desc->addr,
                       .bytes = desc->bytes};
    struct asymreg_mem *m;
    void *key = NULL;
    size_t key_bytes = 0;
    ucs_status_t status = UCS_OK;
    int rc;

    if (desc->size < sizeof(*desc) || desc->bytes == 0 || desc->prot & ~KNOWN_PROT)
        return -EINVAL;
    if (desc->bytes - 1 > UINT64_MAX - desc->addr)
        return ASYMREG_EOVERFLOW;
    if (desc->bytes > SIZE_MAX || desc->addr > UINTPTR_MAX)
        return -EINVAL;
    if (desc->kind && !(t->kinds >> desc->kind & 1))
        return ASYMREG_ENOTSUP;
    m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    ucx_lock(t);
    rc = alloc_entry(t, desc, &m->place);
    if (rc == 0 && t->max_key_bytes)
        status = map_memory(t, desc, m, &key, &key_bytes);
    if (status != UCS_OK)
        free_entry(t, m->place);
    if (rc == 0 && status == UCS_OK)
        h.seq = t->places[m->place].seq;
    ucx_unlock(t);
    if (status != UCS_OK)
        rc = asymreg_ucx__fail(err, status == UCS_ERR_NO_MEMORY ? -ENOMEM : ASYMREG_ETRANSPORT,
                               "ucp_mem_map or ucp_rkey_pack: %s", ucs_status_string(status));
    if (rc < 0) {
        free(m);
        return rc;
    }
    h.place = m->place;
    h.key_bytes = (uint32_t)key_bytes;
    memcpy(handle, &h, sizeof(h));
    if (key) {
        memcpy((char *)handle + sizeof(h), key, key_bytes);
        ucp_rkey_buffer_release(key);
    }
    *handle_bytes = sizeof(h) + key_bytes;
    h.checksum = asymreg_ucx__checksum(handle, *handle_bytes);
    memcpy(handle, &h, sizeof(h));
    *mem = m;
    return 0;
}

static int mem_dereg(struct asymreg_transport *base, struct asymreg_mem *mem)
{
    struct ucx_transport *t = ucx_of(base);
    ucs_status_t status = UCS_OK;

    ucx_lock(t); /* no message of a peer is being executed */
    free_entry(t, mem->place);
    if (mem->memh)
        status = ucp_mem_unmap(t->context, mem->memh);
    ucx_unlock(t);
    free(mem);
    return asymreg_ucx__map_status(status);
}

static int rkey_unpack(struct asymreg_transport *base, struct asymreg_ep *ep, const void *handle,
                       size_t handle_bytes, uint64_t addr, uint64_t bytes,
                       struct asymreg_rkey **rkey, struct asymreg_error *err)
{
    (void)err;
    struct ucx_transport *t = ucx_of(base);
    unsigned char padded[PADDED_KEY_BYTES] = {0};
    unsigned char copy[ASYMREG_MAX_HANDLE_BYTES];
    struct asymreg_rkey *k;
    struct handle h;
    uint64_t checksum;
    ucs_status_t status = UCS_OK;

    if (handle_bytes < sizeof(h) || handle_bytes > sizeof(copy))
        return ASYMREG_ETABLE;
    memcpy(copy, handle, handle_bytes);
    memcpy(&h, copy, sizeof(h));
    checksum = h.checksum;
    h.checksum = 0;
    memcpy(copy, &h, sizeof(h));
    if (h.magic != HANDLE_MAGIC || h.version != WIRE_VERSION ||
        h.prot & ~(KNOWN_PROT | 3u << KIND_SHIFT) || h.addr != addr || h.bytes != bytes ||
        h.key_bytes != handle_bytes - sizeof(h) ||
        checksum != asymreg_ucx__checksum(copy, handle_bytes))
        return ASYMREG_ETABLE;
    if (ep->dead)
        return ep->dead;
    k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    k->prot = h.prot & KNOWN_PROT;
    k->kind = h.prot >> KIND_SHIFT;
    k->seq = h.seq;
    k->place = h.place;
    if (h.key_bytes && (ep->rdma || k->kind)) {
        memcpy(padded, copy + sizeof(h), h.key_bytes);
        ucx_lock(t);
        status = ucp_ep_rkey_unpack(ep->ep, padded, &k->rkey);
        ucx_unlock(t);
    }
    if (status != UCS_OK) {
        free(k);
        return asymreg_ucx__map_status(status);
    }
    *rkey = k;
    return 0;
}

static void rkey_release(struct asymreg_transport *base, struct asymreg_ep *ep,
                         struct asymreg_rkey *rkey)
{
    struct ucx_transport *t = ucx_of(base);

    (void)ep;
    if (rkey->rkey) {
        ucx_lock(t);
        ucp_rkey_destroy(rkey->rkey);
        ucx_unlock(t);
    }
    free(rkey);
}

/* The thread. */

static void *thread_main(void *arg)
{
    struct ucx_transport *t = arg;
    struct pollfd fds[2] = {{.fd = t->event_fd, .events = POLLIN},
                            {.fd = t->wake_fd, .events = POLLIN}};

    pthread_mutex_lock(&t->lock);
    while (!t->stop) {
        unsigned int quiet = 0;
        int timeout_ms; /* nothing wakes the thread for some of UCX's timers, nor at a peer's end */

        while (!t->stop && quiet < 64) { /* more messages often follow some */
            quiet = asymreg_ucx__advance(t) ? 0 : quiet + 1;
            pthread_mutex_unlock(&t->lock);
            while (atomic_load(&t->waiting) > 0)
                sched_yield();
            pthread_mutex_lock(&t->lock);
        }
        if (t->stop || (ucp_worker_arm(t->worker) == UCS_ERR_BUSY && !t->blocked))
            continue;
        timeout_ms = t->probe.worker || t->blocked ? 20 : 100; /* a blocked queue cannot be armed */
        pthread_mutex_unlock(&t->lock);
        poll(fds, 2, timeout_ms);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static int start_thread(struct ucx_transport *t)
{
    sigset_t all, before;
    int rc;

    t->moved_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->wake_fd = t->moved_fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->wake_fd < 0)
        return -errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = -pthread_create(&t->thread, NULL, thread_main, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc < 0) { /* then there is no thread to stop */
        close(t->wake_fd);
        t->wake_fd = -1;
    }
    return rc;
}

static void stop_thread(struct ucx_transport *t)
{
    uint64_t one = 1;

    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_mutex_unlock(&t->lock);
    if (write(t->wake_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(t->thread, NULL);
    close(t->wake_fd);
    t->wake_fd = -1;
}

/* Opening. */

/* UCX's endpoints between a process with a context of UCX and its forked child deliver nothing. */
static atomic_uint n_opened;      /* transports that this process has, or has inherited */
static atomic_bool has_inherited; /* some of them: for good */

static void fork_note(void)
{
    if (atomic_load(&n_opened) > 0)
        atomic_store(&has_inherited, true);
}

static void fork_watch(void)
{
    (void)pthread_atfork(NULL, NULL, fork_note);
}

static void set_guard(struct asymreg_transport *base, const struct asymreg_guard *guard)
{
    ucx_lock(ucx_of(base));
    ucx_of(base)->guard = *guard;
    ucx_unlock(ucx_of(base));
}

static void destroy_transport(struct asymreg_transport *base)
{
    struct ucx_transport *t = ucx_of(base);

    if (t->wake_fd >= 0)
        stop_thread(t);
    if (t->moved_fd >= 0)
        close(t->moved_fd);
    if (t->worker)
        asymreg_ucx__send_byes(t);
    while (t->eps)
        asymreg_ucx__disconnect(base, t->eps);
    asymreg_ucx__end_probe(t);
    if (t->worker) {
        /* Closing endpoints get a chance to complete; this does not wait for them. */
        for (int i = 0; i < 1000 && t->n_closing > 0; i++) {
            ucp_worker_progress(t->worker);
            asymreg_ucx__free_closed(t);
        }
        /* UCX ends them with the worker, and requires that we release them. */
        while (t->n_closing > 0)
            ucp_request_free(t->closing[--t->n_closing]);
    }
    if (t->address)
        ucp_worker_release_address(t->worker, t->address);
    if (t->worker)
        ucp_worker_destroy(t->worker);
    if (t->context) {
        ucp_cleanup(t->context);
        atomic_fetch_sub(&n_opened, 1);
    }
    asymreg_ucx__free_reqs(t);
    asymreg_ucx__free_answers(t);
    free(t->places);
    free(t->callers);
    free(t->closing);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static const struct asymreg_transport_ops ops = {
    .size = sizeof(ops),
    .version = ASYMREG_TRANSPORT_VERSION,
    .name = "ucx",
    .query = query_caps,
    .reason = explain_cap,
    .destroy = destroy_transport,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .address = asymreg_ucx__address,
    .connect = asymreg_ucx__connect,
    .disconnect = asymreg_ucx__disconnect,
    .peer_alive = asymreg_ucx__peer_alive,
    .rkey_unpack = rkey_unpack,
    .rkey_release = rkey_release,
    .put = asymreg_ucx__put,
    .get = asymreg_ucx__get,
    .amo = asymreg_ucx__amo,
    .flush = asymreg_ucx__flush,
    .progress = asymreg_ucx__progress,
    .guard = set_guard,
    .arm = asymreg_ucx__arm,
};

/* Finds the devices whose memory UCX can use. */
static void find_kinds(struct ucx_transport *t)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};

    t->kinds = 1u << ASYMREG_KIND_HOST;
    if (ucp_context_query(t->context, &attr) != UCS_OK)
        return;
    if (attr.memory_types >> UCS_MEMORY_TYPE_CUDA & 1)
        t->kinds |= 1u << ASYMREG_KIND_CUDA;
    if (attr.memory_types >> UCS_MEMORY_TYPE_ROCM & 1)
        t->kinds |= 1u << ASYMREG_KIND_ROCM;
}

static int open_worker(struct ucx_transport *t)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return status == UCS_ERR_NO_MEMORY ? -ENOMEM : -EIO;
    /* A death on another node is noticed within a second, unless the user sets this. */
    if (!getenv("UCX_KEEPALIVE_INTERVAL"))
        ucp_config_modify(config, "KEEPALIVE_INTERVAL", "0.3s");
    status = ucp_init(&params, config, &t->context);
    ucp_config_release(config);
    if (status == UCS_OK)
        atomic_fetch_add(&n_opened, 1);
    if (status == UCS_OK)
        status = ucp_worker_create(t->context, &worker, &t->worker);
    if (status == UCS_OK)
        status = ucp_worker_get_efd(t->worker, &t->event_fd);
    if (status == UCS_OK)
        status = ucp_worker_get_address(t->worker, &t->address, &t->address_bytes);
    if (status != UCS_OK)
        return status == UCS_ERR_NO_MEMORY ? -ENOMEM : status == UCS_ERR_NO_DEVICE ? -ENODEV : -EIO;
    asymreg_ucx__find_transports(t);
    find_kinds(t);
    return asymreg_ucx__set_handlers(t);
}

/* Measures the length of keys, which depends on the networks that UCX has found. Every entry of a
 * published table has that length. */
static int measure_keys(struct ucx_transport *t)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = 4096};
    void *memory = malloc(params.length), *key;
    ucs_status_t status = UCS_ERR_NO_MEMORY;
    size_t bytes = 0;
    ucp_mem_h memh;

    params.address = memory;
    if (memory)
        status = ucp_mem_map(t->context, &params, &memh);
    if (status == UCS_OK) {
        status = ucp_rkey_pack(t->context, memh, &key, &bytes);
        if (status == UCS_OK)
            ucp_rkey_buffer_release(key);
        ucp_mem_unmap(t->context, memh);
    }
    free(memory);
    bytes = (bytes + KEY_SLACK_BYTES) / 16 * 16;
    t->max_key_bytes = (uint32_t)(bytes < MAX_KEY_BYTES ? bytes : MAX_KEY_BYTES);
    return status == UCS_OK ? 0 : status == UCS_ERR_NO_MEMORY ? -ENOMEM : -EIO;
}

/* Copies the options if they are allowed; NULL leaves `to` unchanged. -EINVAL: something is set
 * that this release does not know, or the size is wrong; above 4,096 it was never set. */
static int opts_take(struct asymreg_ucx_opts *to, const struct asymreg_ucx_opts *from)
{
    const unsigned char *bytes = (const unsigned char *)from;

    if (!from)
        return 0;
    if (from->size < sizeof(*to) || from->size > 4096)
        return -EINVAL;
    *to = *from;
    for (size_t i = sizeof(*to); i < from->size; i++)
        if (bytes[i])
            return -EINVAL;
    return to->flags & ~ASYMREG_UCX_THREAD || to->reserved ? -EINVAL : 0;
}

int asymreg_ucx__fail(struct asymreg_error *err, int code, const char *format, ...)
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

int asymreg_ucx_create(const struct asymreg_ucx_opts *opts, struct asymreg_transport **out,
                       struct asymreg_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct asymreg_ucx_opts o = {.size = sizeof(o)};
    struct ucx_transport *t;
    unsigned char buf[ASYMREG_MAX_ADDRESS_BYTES];
    size_t bytes;
    int rc;

    if (!out || opts_take(&o, opts) < 0)
        return asymreg_ucx__fail(err, -EINVAL, "struct asymreg_ucx_opts: unknown flags or size");
    pthread_once(&once, fork_watch);
    if (atomic_load(&has_inherited))
        return asymreg_ucx__fail(
            err, -EPERM,
            "a process that had UCX open has forked this one, and UCX delivers "
            "nothing between them; fork before the first asymreg_ucx_create(), "
            "or call exec()");
    t = calloc(1, sizeof(*t));
    if (!t)
        return asymreg_ucx__fail(err, -ENOMEM, "no memory for a transport");
    t->base.ops = &ops;
    t->wake_fd = t->moved_fd = -1;
    t->threaded = o.flags & ASYMREG_UCX_THREAD;
    pthread_mutex_init(&t->lock, NULL);
    rc = open_worker(t);
    if (rc == 0)
        rc = asymreg_ucx__address(&t->base, buf, &bytes, NULL);
    if (rc == ASYMREG_ENOTSUP)
        rc = -ENOTSUP;
    if (rc == 0 && (t->rdma || t->kinds != 1u << ASYMREG_KIND_HOST))
        rc = measure_keys(t);
    if (rc == 0 && t->threaded)
        rc = start_thread(t);
    if (rc < 0) {
        destroy_transport(&t->base);
        return asymreg_ucx__fail(err, rc, "%s", asymreg_ucx_strerror(rc));
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

const char *asymreg_ucx_strerror(int code)
{
    const char *text;

    if (code >= 0)
        return "success";
    switch (code) {
    case -ENODEV: return "UCX has no usable device";
    case -ENOTSUP: return "UCX's address is too long: name fewer devices in UCX_NET_DEVICES";
    case -EIO: return "UCX failed; UCX_LOG_LEVEL=info says more";
    default: text = code > -4096 ? errno_text(-code) : NULL;
    }
    return text ? text : "unknown error code";
}

const char *asymreg_ucx_version(void)
{
    return ASYMREG_UCX_VERSION;
}

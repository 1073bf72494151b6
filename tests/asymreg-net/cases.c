/* SPDX-License-Identifier: BSD-3-Clause */
/* The cases of the contract test: the initiator's part of each. */
#define _GNU_SOURCE
#include "transport_contract.h"

#include "../opts_size.h"

#ifdef HAVE_UCX
#include <asymreg-ucx.h>
#endif
#ifdef HAVE_IBV
#include <asymreg-ibv.h>
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_UCX
uint64_t asymreg_ucx__checksum(const void *bytes, size_t n); /* libasymreg's header */
#endif

/* Waits for an explicit operation; `rc` is the return code of its put, get or amo. */
static int await(struct side *s, int rc, struct asymreg_op *op)
{
    if (rc != ASYMREG_PENDING)
        return rc;
    while ((rc = __atomic_load_n(&op->status, __ATOMIC_ACQUIRE)) == ASYMREG_PENDING)
        CHECK_MSG(s->ops->progress(s->t) >= 0, "progress");
    return rc;
}

/* Like the core, retries while the transport has no room and the peer is alive.
 * */
#define TRY(s, rc, call)                                                                           \
    do {                                                                                           \
        (rc) = (call);                                                                             \
        if ((rc) == -EAGAIN) {                                                                     \
            (s)->ops->progress((s)->t);                                                            \
            if ((s)->ops->peer_alive((s)->t, (s)->ep) != 0)                                        \
                (rc) = ASYMREG_EPEER;                                                              \
        }                                                                                          \
    } while ((rc) == -EAGAIN)

static uint64_t at(struct side *s, int region, uint64_t offset)
{
    return s->hello.regions[region].memory + offset;
}

/* The longest piece that one operation may move. */
static size_t piece(struct side *s, size_t bytes)
{
    return s->caps.max_op_bytes && bytes > s->caps.max_op_bytes ? (size_t)s->caps.max_op_bytes
                                                                : bytes;
}

static int put_in(struct side *s, int region, uint64_t offset, const void *src, size_t bytes,
                  struct asymreg_mem *local)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        struct asymreg_op op = {0};
        int rc;

        n = piece(s, bytes - done);
        TRY(s, rc,
            s->ops->put(s->t, s->ep, s->keys[region], at(s, region, offset + done),
                        (const char *)src + done, n, local, &op));
        rc = await(s, rc, &op);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int get_from(struct side *s, int region, uint64_t offset, void *dst, size_t bytes,
                    struct asymreg_mem *local)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        struct asymreg_op op = {0};
        int rc;

        n = piece(s, bytes - done);
        TRY(s, rc,
            s->ops->get(s->t, s->ep, s->keys[region], at(s, region, offset + done),
                        (char *)dst + done, n, local, &op));
        rc = await(s, rc, &op);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int flush(struct side *s)
{
    int rc;

    while ((rc = s->ops->flush(s->t, s->ep)) == ASYMREG_PENDING)
        CHECK_MSG(s->ops->progress(s->t) >= 0, "progress");
    return rc;
}

static int amo8(struct side *s, uint64_t offset, uint32_t amo, uint32_t bytes, uint64_t operand,
                uint64_t compare, uint64_t *result)
{
    struct asymreg_op op = {0};
    int rc;

    TRY(s, rc,
        s->ops->amo(s->t, s->ep, s->keys[COUNTERS], at(s, COUNTERS, offset), amo, bytes, operand,
                    compare, result, &op));
    return await(s, rc, &op);
}

/* The capabilities are consistent, and each that is off has a reason. */
static void case_caps(struct side *s)
{
    struct asymreg_transport_caps small = {
        .size = offsetof(struct asymreg_transport_caps, amo4_ops), .amo4_ops = 12345};

    CHECK_MSG(s->ops->size >= sizeof(*s->ops) && s->ops->version == ASYMREG_TRANSPORT_VERSION,
              "the table");
    CHECK_MSG(s->ops->name && strlen(s->ops->name) < 16, "the name");
    CHECK_MSG(s->caps.flags & ASYMREG_CAP_PUT && s->caps.flags & ASYMREG_CAP_GET, "moves nothing");
    CHECK_MSG(s->caps.max_handle_bytes <= ASYMREG_MAX_HANDLE_BYTES &&
                  s->caps.max_address_bytes <= ASYMREG_MAX_ADDRESS_BYTES,
              "limits");
    CHECK_MSG(!(s->caps.flags & ASYMREG_CAP_AMO) == !(s->caps.amo4_ops | s->caps.amo8_ops),
              "atomics: %x %x %x", s->caps.flags, s->caps.amo4_ops, s->caps.amo8_ops);
    CHECK_MSG(!!(s->caps.flags & ASYMREG_CAP_MAP) == !!s->ops->map, "map");
    for (uint32_t bit = 1; bit <= ASYMREG_CAP_REMOTE_NODE; bit <<= 1) {
        const char *why = s->ops->reason(s->t, bit);

        if (s->caps.flags & bit)
            CHECK_MSG(!why, "capability %x is on, and yet: %s", bit, why);
        else
            CHECK_MSG(why && *why, "no reason for the lack of capability %x", bit);
    }
    CHECK_MSG(s->ops->query(s->t, &small) == 0 && small.amo4_ops == 12345,
              "query wrote past the caller's size");
}

#if defined(HAVE_UCX) || defined(HAVE_IBV)
static int closed_again(int rc, struct asymreg_transport *t)
{
    if (rc == 0)
        t->ops->destroy(t);
    return rc;
}
#endif

#ifdef HAVE_UCX
static int open_ucx(void *opts, void *ctx)
{
    struct asymreg_transport *t = NULL;
    int rc = asymreg_ucx_create(opts, &t, NULL);

    return closed_again(rc, t);
}
#endif

#ifdef HAVE_IBV
static int open_ibv(void *opts, void *ctx)
{
    struct asymreg_transport *t = NULL;
    int rc = asymreg_ibv_create(opts, &t, NULL);

    return closed_again(rc, t);
}
#endif

/* Options of other releases; tests/asymreg tests libasymreg's own. */
static void case_opts(struct side *s)
{
#ifdef HAVE_UCX
    const struct asymreg_ucx_opts ucx = {.size = sizeof(ucx)};

    if (strncmp(s->ops->name, "ucx", 3) == 0)
        CHECK_MSG(opts_sizes("asymreg_ucx_opts", &ucx, sizeof(ucx), open_ucx, NULL) == 0, "sizes");
#endif
#ifdef HAVE_IBV
    const struct asymreg_ibv_opts ibv = {.size = sizeof(ibv)};

    if (strcmp(s->ops->name, "ibv") == 0)
        CHECK_MSG(opts_sizes("asymreg_ibv_opts", &ibv, sizeof(ibv), open_ibv, NULL) == 0, "sizes");
#endif
}

/* Bytes arrive unchanged, at any length and alignment, from registered and unregistered memory. */
static void case_putget(struct side *s)
{
    static const size_t sizes[] = {1,   2,    7,    8,    63,    64,    65,    255,   256,
                                   257, 1000, 4095, 4097, 65535, 65536, 65537, 500001};
    static unsigned char local_memory[REGION_BYTES] __attribute__((aligned(4096)));
    struct asymreg_mem_desc desc = {.size = sizeof(desc),
                                    .addr = (uintptr_t)local_memory,
                                    .bytes = sizeof(local_memory),
                                    .prot = ASYMREG_RW,
                                    .fd = -1};
    struct asymreg_mem *local = NULL;
    unsigned char handle[ASYMREG_MAX_HANDLE_BYTES], *plain = malloc(REGION_BYTES),
                                                    *back = malloc(REGION_BYTES);
    size_t handle_bytes;

    if (s->caps.flags & ASYMREG_CAP_WHOLE_SPACE) {
        desc.addr = 0;
        desc.bytes = UINT64_MAX;
    }
    if (s->caps.flags & ASYMREG_CAP_PRIVATE)
        CHECK_MSG(s->ops->mem_reg(s->t, &desc, &local, handle, &handle_bytes, NULL) == 0,
                  "mem_reg");
    for (int region = 0; region < N_REGIONS; region += FILE_BACKED) {
        if (!s->keys[region])
            continue;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            for (int from_local = 0; from_local <= (local != NULL); from_local++) {
                unsigned char *src = from_local ? local_memory : plain;
                struct asymreg_mem *mem = from_local ? local : NULL;
                uint64_t offset = 3 * i;
                struct answer sum;

                fill(src, sizes[i], i * 7 + (uint64_t)from_local);
                CHECK_MSG(put_in(s, region, offset, src, sizes[i], mem) == 0, "put of %zu",
                          sizes[i]);
                CHECK_MSG(flush(s) == 0, "flush");
                sum = tell(s, (struct order){.kind = ORDER_SUM,
                                             .region = (uint64_t)region,
                                             .offset = offset,
                                             .bytes = sizes[i]});
                CHECK_MSG(sum.value == sum_of(src, sizes[i]), "%zu bytes put are not there",
                          sizes[i]);
                memcpy(back, src, sizes[i]);
                memset(src, 0, sizes[i]);
                CHECK_MSG(get_from(s, region, offset, src, sizes[i], mem) == 0, "get of %zu",
                          sizes[i]);
                CHECK_MSG(memcmp(src, back, sizes[i]) == 0, "%zu bytes come back otherwise",
                          sizes[i]);
            }
        }
    }
    CHECK_MSG(get_from(s, READ_ONLY, 0, plain, 5000, NULL) == 0, "get of a read-only region");
    fill(back, 5000, READ_ONLY + 1);
    CHECK_MSG(memcmp(plain, back, 5000) == 0, "a read-only region reads otherwise");
    if (local)
        CHECK_MSG(s->ops->mem_dereg(s->t, local) == 0, "mem_dereg");
    free(plain);
    free(back);
}

/* More operations in flight than any queue holds, with and without a status of their own. */
static void case_many(struct side *s)
{
    enum { N = 3000, BYTES = 40 };
    static unsigned char src[N][BYTES], dst[N][BYTES];
    static struct asymreg_op ops[N];
    int rc, last[N];

    fill(src[0], sizeof(src), 99);
    for (int i = 0; i < N; i++) {
        TRY(s, rc,
            s->ops->put(s->t, s->ep, s->keys[DATA], at(s, DATA, (uint64_t)i * BYTES), src[i], BYTES,
                        NULL, NULL));
        CHECK_MSG(rc == 0 || rc == ASYMREG_PENDING, "put %d: %d", i, rc);
    }
    CHECK_MSG(flush(s) == 0, "flush of puts");
    CHECK_MSG(
        tell(s, (struct order){.kind = ORDER_SUM, .region = DATA, .bytes = sizeof(src)}).value ==
            sum_of(src[0], sizeof(src)),
        "what was put is not there");
    for (int i = 0; i < N; i++) {
        TRY(s, rc,
            s->ops->get(s->t, s->ep, s->keys[DATA], at(s, DATA, (uint64_t)i * BYTES), dst[i], BYTES,
                        NULL, NULL));
        CHECK_MSG(rc == 0 || rc == ASYMREG_PENDING, "get %d: %d", i, rc);
    }
    CHECK_MSG(flush(s) == 0, "flush of gets");
    CHECK_MSG(memcmp(src, dst, sizeof(src)) == 0, "what was got is something else");
    memset(dst, 0, sizeof(dst));
    for (int i = 0; i < N; i++) {
        TRY(s, last[i],
            s->ops->get(s->t, s->ep, s->keys[DATA], at(s, DATA, (uint64_t)i * BYTES), dst[i], BYTES,
                        NULL, &ops[i]));
        CHECK_MSG(last[i] == 0 || last[i] == ASYMREG_PENDING, "explicit get %d: %d", i, last[i]);
    }
    for (int i = 0; i < N; i++)
        CHECK_MSG(await(s, last[i], &ops[i]) == 0, "explicit get %d", i);
    CHECK_MSG(memcmp(src, dst, sizeof(src)) == 0, "what was got is something else");
}

/* Every atomic that the transport claims works; every other is refused. */
static void case_amo(struct side *s)
{
    for (uint32_t bytes = 4; bytes <= 8; bytes += 4) {
        uint32_t mask = bytes == 4 ? s->caps.amo4_ops : s->caps.amo8_ops;
        uint64_t all = bytes == 4 ? UINT32_MAX : UINT64_MAX, old = 77,
                 offset = bytes == 4 ? 68 : 128;

        for (uint32_t amo = 0; ASYMREG_AMO_ALL >> amo; amo++) {
            if (!(mask & 1u << amo))
                CHECK_MSG(amo8(s, offset, amo, bytes, 1, 0, &old) == ASYMREG_ENOTSUP,
                          "atomic %u of %u bytes", amo, bytes);
        }
        if ((mask & 15u) != 15u)
            continue;
        CHECK_MSG(amo8(s, offset, ASYMREG_AMO_ADD, bytes, all, 0, NULL) == 0, "add");
        CHECK_MSG(amo8(s, offset, ASYMREG_AMO_FETCH_ADD, bytes, 3, 0, &old) == 0 && old == all,
                  "fetch-add: %llx", (unsigned long long)old);
        CHECK_MSG(amo8(s, offset, ASYMREG_AMO_SWAP, bytes, 1000, 0, &old) == 0 && old == 2,
                  "swap: %llu", (unsigned long long)old);
        CHECK_MSG(amo8(s, offset, ASYMREG_AMO_COMPARE_SWAP, bytes, 5, 999, &old) == 0 &&
                      old == 1000,
                  "compare-swap that fails");
        CHECK_MSG(amo8(s, offset, ASYMREG_AMO_COMPARE_SWAP, bytes, 5, 1000, &old) == 0 &&
                      old == 1000,
                  "compare-swap that succeeds");
        CHECK_MSG(amo8(s, offset, ASYMREG_AMO_FETCH_ADD, bytes, 0, 0, &old) == 0 && old == 5,
                  "in the end: %llu", (unsigned long long)old);
        if (mask == ASYMREG_AMO_ALL) {
            CHECK_MSG(amo8(s, offset, ASYMREG_AMO_OR, bytes, 0xf0, 0, &old) == 0 && old == 5, "or");
            CHECK_MSG(amo8(s, offset, ASYMREG_AMO_AND, bytes, all ^ 0x11, 0, &old) == 0 &&
                          old == 0xf5,
                      "and");
            CHECK_MSG(amo8(s, offset, ASYMREG_AMO_XOR, bytes, all, 0, NULL) == 0, "xor");
            CHECK_MSG(amo8(s, offset, ASYMREG_AMO_FETCH, bytes, 7, 0, &old) == 0 &&
                          old == (all ^ 0xe4),
                      "fetch: %llx", (unsigned long long)old);
            CHECK_MSG(amo8(s, offset, ASYMREG_AMO_SET, bytes, 8, 0, NULL) == 0 &&
                          amo8(s, offset, ASYMREG_AMO_FETCH, bytes, 0, 0, &old) == 0 && old == 8,
                      "set");
        }
        /* Its neighbours have not changed. */
        old = 1;
        CHECK_MSG(get_from(s, COUNTERS, offset + bytes, &old, 4, NULL) == 0 && (uint32_t)old == 0,
                  "the bytes after it");
        CHECK_MSG(get_from(s, COUNTERS, offset - 4, &old, 4, NULL) == 0 && (uint32_t)old == 0,
                  "the bytes before it");
    }
}

/* Two processes add to one counter concurrently: no addition is lost. */
static void case_contend(struct side *s)
{
    enum { N = 300 };
    uint32_t bytes = s->caps.amo8_ops & 1u << ASYMREG_AMO_ADD ? 8 : 4;
    uint64_t value = 0, one_each = 0;

    if (!(s->caps.flags & ASYMREG_CAP_AMO))
        return;
    tell_only(s, (struct order){.kind = ORDER_ADD, .offset = 512, .bytes = bytes, .value = N});
    for (int i = 0; i < N; i++) {
        CHECK_MSG(amo8(s, 512, i % 2 ? ASYMREG_AMO_FETCH_ADD : ASYMREG_AMO_ADD, bytes, 1, 0,
                       i % 2 ? &value : NULL) == 0,
                  "add %d", i);
        CHECK_MSG(amo8(s, 1024, ASYMREG_AMO_COMPARE_SWAP, bytes, (uint64_t)i + 1, (uint64_t)i,
                       &one_each) == 0 &&
                      one_each == (uint64_t)i,
                  "swap %d", i);
    }
    hear(s);
    CHECK_MSG(amo8(s, 512, ASYMREG_AMO_FETCH_ADD, bytes, 0, 0, &value) == 0, "read");
    CHECK_MSG(value == 2 * N, "%llu of %d additions arrived", (unsigned long long)value, 2 * N);
}

/* Operations without the owner's permission have no effect, and the endpoint continues to work. */
static void case_readonly(struct side *s)
{
    unsigned char before[100], after[100];
    int rc;

    if (!(s->caps.flags & ASYMREG_CAP_REVOKE))
        return; /* the core alone checks there */
    CHECK_MSG(get_from(s, READ_ONLY, 50, before, sizeof(before), NULL) == 0, "get");
    rc = put_in(s, READ_ONLY, 50, "something else", 14, NULL);
    if (rc == 0)
        rc = flush(s);
    CHECK_MSG(rc == ASYMREG_EACCES || rc == ASYMREG_EFAULT || rc == ASYMREG_ESTALE,
              "put into read-only memory: %d", rc);
    CHECK_MSG(get_from(s, READ_ONLY, 50, after, sizeof(after), NULL) == 0 &&
                  memcmp(before, after, sizeof(after)) == 0,
              "it was written");
}

/* After mem_dereg the old handle is stale, also while other operations are queued; a new
 * registration works. */
static void case_revoke(struct side *s)
{
    unsigned char old_handle[ASYMREG_MAX_HANDLE_BYTES], buf[4000], other[4000];
    struct published *p = &s->hello.regions[DATA];
    size_t old_bytes = p->handle_bytes;
    struct asymreg_op ops[30] = {{0}};
    int rc[30];

    if (!(s->caps.flags & ASYMREG_CAP_REVOKE))
        return;
    memcpy(old_handle, p->handle, sizeof(old_handle));
    CHECK_MSG(put_in(s, DATA, 0, "before", 6, NULL) == 0 && flush(s) == 0, "put before");
    for (int round = 0; round < 3; round++) {
        tell(s, (struct order){.kind = ORDER_DEREG, .region = DATA});
        for (int i = 0; i < 30; i++) {
            ops[i] = (struct asymreg_op){0};
            TRY(s, rc[i],
                s->ops->put(s->t, s->ep, s->keys[i % 3 ? COUNTERS : DATA],
                            at(s, i % 3 ? COUNTERS : DATA, (uint64_t)i * 8), "revoked!", 8, NULL,
                            &ops[i]));
        }
        for (int i = 0; i < 30; i++) {
            rc[i] = await(s, rc[i], &ops[i]);
            CHECK_MSG(rc[i] == (i % 3 ? 0 : ASYMREG_ESTALE), "operation %d: %d", i, rc[i]);
        }
        CHECK_MSG(get_from(s, DATA, 0, buf, sizeof(buf), NULL) == ASYMREG_ESTALE,
                  "get of what is gone");
        CHECK_MSG(get_from(s, COUNTERS, 8, buf, 8, NULL) == 0 && memcmp(buf, "revoked!", 8) == 0,
                  "the other region");
        *p = tell(s, (struct order){.kind = ORDER_REG, .region = DATA}).published;
        CHECK_MSG(p->handle_bytes != old_bytes || memcmp(p->handle, old_handle, old_bytes) != 0,
                  "the new handle is the old one");
        CHECK_MSG(get_from(s, DATA, 0, buf, sizeof(buf), NULL) == ASYMREG_ESTALE,
                  "the old handle reaches the new registration");
        s->ops->rkey_release(s->t, s->ep, s->keys[DATA]);
        CHECK_MSG(s->ops->rkey_unpack(s->t, s->ep, p->handle, p->handle_bytes, p->addr, p->bytes,
                                      &s->keys[DATA], NULL) == 0,
                  "unpack");
        memset(other, 'a' + round, sizeof(other));
        CHECK_MSG(put_in(s, DATA, 0, other, sizeof(other), NULL) == 0 && flush(s) == 0,
                  "put after");
        CHECK_MSG(get_from(s, DATA, 0, buf, sizeof(buf), NULL) == 0 &&
                      memcmp(buf, other, sizeof(buf)) == 0,
                  "get after");
    }
}

/* Damaged addresses and handles are refused, or their operations fail; nothing crashes. */
static void case_hostile(struct side *s)
{
    const struct hello *h = &s->hello;
    unsigned char bytes[ASYMREG_MAX_ADDRESS_BYTES];
    struct asymreg_ep *ep;
    struct asymreg_rkey *key;

    for (size_t n = 0; n < h->address_bytes; n++) {
        unsigned char *exact = malloc(n ? n : 1); /* so that a sanitizer sees reads past its end */

        memcpy(exact, h->address, n);
        CHECK_MSG(s->ops->connect(s->t, exact, n, &ep, NULL) < 0, "connected by %zu bytes of %zu",
                  n, (size_t)h->address_bytes);
        free(exact);
    }
    for (size_t i = 0; i < h->address_bytes; i++) {
        memcpy(bytes, h->address, h->address_bytes);
        bytes[i] ^= 0x55;
        if (s->ops->connect(s->t, bytes, h->address_bytes, &ep, NULL) == 0)
            s->ops->disconnect(s->t, ep);
    }
    for (int region = 0; region < N_REGIONS; region++) {
        const struct published *p = &h->regions[region];

        for (size_t n = 0; n < p->handle_bytes; n++) {
            unsigned char *exact = malloc(n ? n : 1);

            memcpy(exact, p->handle, n);
            CHECK_MSG(s->ops->rkey_unpack(s->t, s->ep, exact, n, p->addr, p->bytes, &key, NULL) < 0,
                      "a key of %zu bytes", n);
            free(exact);
        }
        for (size_t i = 0; i < p->handle_bytes; i++) {
            memcpy(bytes, p->handle, p->handle_bytes);
            bytes[i] ^= 0x55;
            if (s->ops->rkey_unpack(s->t, s->ep, bytes, p->handle_bytes, p->addr, p->bytes, &key,
                                    NULL) == 0)
                s->ops->rkey_release(s->t, s->ep, key);
        }
    }
    CHECK_MSG(put_in(s, DATA, 0, "still", 5, NULL) == 0 && flush(s) == 0, "put after that");
}

/* Registrations that must fail. */
static void case_badmem(struct side *s)
{
    static unsigned char memory[100];
    unsigned char handle[ASYMREG_MAX_HANDLE_BYTES];
    struct asymreg_mem_desc desc = {
        .size = sizeof(desc), .addr = (uintptr_t)memory, .bytes = 0, .prot = ASYMREG_RW, .fd = -1};
    struct asymreg_mem *mem;
    size_t bytes;

    if (s->caps.flags & ASYMREG_CAP_WHOLE_SPACE)
        return; /* creates a handle and registers nothing */
    CHECK_MSG(s->ops->mem_reg(s->t, &desc, &mem, handle, &bytes, NULL) < 0,
              "registered nothing at all");
    desc.bytes = sizeof(memory);
    desc.prot = 1u << 30;
    CHECK_MSG(s->ops->mem_reg(s->t, &desc, &mem, handle, &bytes, NULL) < 0,
              "registered with unknown permissions");
    desc.prot = ASYMREG_RW;
    desc.addr = UINT64_MAX - 10;
    CHECK_MSG(s->ops->mem_reg(s->t, &desc, &mem, handle, &bytes, NULL) < 0,
              "registered past the end of the address space");
}

/* Cancels operations in flight at once, without the peer. */
static void case_leave(struct side *s)
{
    enum { N = 200 };
    static unsigned char dst[N][100];
    static struct asymreg_op ops[N];
    int rc[N];

    for (int i = 0; i < N; i++)
        TRY(s, rc[i],
            s->ops->get(s->t, s->ep, s->keys[DATA], at(s, DATA, 0), dst[i], 100, NULL, &ops[i]));
    for (int i = 0; i < N_REGIONS; i++) {
        if (s->keys[i] && i != DATA)
            s->ops->rkey_release(s->t, s->ep, s->keys[i]);
        if (i != DATA)
            s->keys[i] = NULL;
    }
    /* The contract demands that keys are released first; pending operations use this one, so the
     * cancellation releases it.
     * */
    while (s->ops->flush(s->t, s->ep) == ASYMREG_PENDING)
        s->ops->progress(s->t);
    s->ops->rkey_release(s->t, s->ep, s->keys[DATA]);
    s->keys[DATA] = NULL;
    s->ops->disconnect(s->t, s->ep);
    s->ep = NULL;
    for (int i = 0; i < N; i++) {
        int status = rc[i] == ASYMREG_PENDING ? ops[i].status : rc[i];

        CHECK_MSG(status == 0 || status == ASYMREG_EPEER, "operation %d: %d", i, status);
    }
    CHECK_MSG(s->ops->connect(s->t, s->hello.address, s->hello.address_bytes, &s->ep, NULL) == 0,
              "connect again");
    CHECK_MSG(s->ops->rkey_unpack(s->t, s->ep, s->hello.regions[DATA].handle,
                                  s->hello.regions[DATA].handle_bytes, s->hello.regions[DATA].addr,
                                  s->hello.regions[DATA].bytes, &s->keys[DATA], NULL) == 0,
              "unpack again");
    CHECK_MSG(put_in(s, DATA, 0, "again", 5, NULL) == 0 && flush(s) == 0, "put again");
}

/* The target does not run. */
static void case_stopped(struct side *s)
{
    unsigned char buf[1000], back[1000];
    pid_t pid;

    if (!(s->caps.flags & ASYMREG_CAP_ONE_SIDED))
        return;
    CHECK_MSG(put_in(s, DATA, 0, "connects", 8, NULL) == 0 && flush(s) == 0, "put");
    pid = (pid_t)tell(s, (struct order){.kind = ORDER_STOP}).pid;
    wait_until_stopped(pid);
    fill(buf, sizeof(buf), 5);
    CHECK_MSG(put_in(s, DATA, 0, buf, sizeof(buf), NULL) == 0 && flush(s) == 0,
              "put into a stopped process");
    CHECK_MSG(get_from(s, DATA, 0, back, sizeof(back), NULL) == 0 &&
                  memcmp(buf, back, sizeof(buf)) == 0,
              "get from a stopped process");
    CHECK_MSG(s->ops->peer_alive(s->t, s->ep) == 0, "a stopped process is called dead");
    continue_stopped(pid);
    CHECK_MSG(
        tell(s, (struct order){.kind = ORDER_SUM, .region = DATA, .bytes = sizeof(buf)}).value ==
            sum_of(buf, sizeof(buf)),
        "sum after the stop");
}

/* The target is killed while operations are in flight: they fail soon. */
static void case_killed(struct side *s)
{
    static unsigned char dst[16][30000];
    static struct asymreg_op ops[16];
    uint64_t begin;
    int64_t late;
    int rc = 0, n = 0;

    CHECK_MSG(get_from(s, DATA, 0, dst[0], 100, NULL) == 0, "get");
    tell_only(s, (struct order){.kind = ORDER_KILL, .value = kill_after_us});
    begin = now_ms() + kill_after_us / 1000;
    while (rc >= 0) {
        int last[16];

        for (int i = 0; i < 16; i++) {
            ops[i] = (struct asymreg_op){0};
            TRY(s, last[i],
                s->ops->get(s->t, s->ep, s->keys[DATA], at(s, DATA, 0), dst[i], sizeof(dst[i]),
                            NULL, &ops[i]));
        }
        for (int i = 0; i < 16; i++) {
            last[i] = await(s, last[i], &ops[i]);
            if (rc >= 0)
                rc = last[i];
            CHECK_MSG(rc >= 0 || last[i] < 0 || i == 0, "alive after it was dead");
        }
        if (rc >= 0 && s->ops->peer_alive(s->t, s->ep) != 0)
            rc = ASYMREG_EPEER;
        n++;
    }
    CHECK_MSG(rc == ASYMREG_EPEER, "after %d rounds: %d", n, rc);
    late = (int64_t)(now_ms() - begin);
    printf("killed: noticed %lld ms later\n", (long long)late);
    if (kill_after_us)
        CHECK_MSG(late <= 1000, "promised: within a second");
    CHECK_MSG(s->ops->peer_alive(s->t, s->ep) == ASYMREG_EPEER, "called alive");
    CHECK_MSG(get_from(s, DATA, 0, dst[0], 100, NULL) == ASYMREG_EPEER, "get from the dead");
    CHECK_MSG(put_in(s, DATA, 0, "x", 1, NULL) == ASYMREG_EPEER || flush(s) == ASYMREG_EPEER,
              "put to the dead");
    CHECK_MSG(flush(s) == ASYMREG_EPEER || flush(s) == ASYMREG_EPEER, "flush to the dead");
}

/* The same when another process ends the target's whole machine: only with --connect, see
 * tests/verbs/pair.sh. */
static void case_machine(struct side *s)
{
    static unsigned char dst[30000];
    uint64_t last = 0;
    int rc;

    CHECK_MSG(get_from(s, DATA, 0, dst, sizeof(dst), NULL) == 0, "get");
    printf("machine: end it\n");
    fflush(stdout);
    do {
        last = now_ms();
        rc = get_from(s, DATA, 0, dst, sizeof(dst), NULL);
    } while (rc == 0);
    CHECK_MSG(rc == ASYMREG_EPEER, "get: %d", rc);
    printf("machine: noticed %llu ms after the last good get\n",
           (unsigned long long)(now_ms() - last));
    CHECK_MSG(s->ops->peer_alive(s->t, s->ep) == ASYMREG_EPEER, "called alive");
}

/* The target is killed while no operation is in flight. */
static void case_killed_idle(struct side *s)
{
    unsigned char buf[10];
    uint64_t begin;
    int rc;

    CHECK_MSG(get_from(s, DATA, 0, buf, sizeof(buf), NULL) == 0, "get");
    CHECK_MSG(s->ops->peer_alive(s->t, s->ep) == 0, "called dead");
    tell_only(s, (struct order){.kind = ORDER_KILL});
    begin = now_ms();
    while ((rc = s->ops->peer_alive(s->t, s->ep)) == 0) {
        struct timespec wait = {.tv_nsec = 1000000};

        s->ops->progress(s->t);
        nanosleep(&wait, NULL);
    }
    CHECK_MSG(rc == ASYMREG_EPEER, "peer_alive: %d", rc);
    printf("killed_idle: noticed %llu ms later\n", (unsigned long long)(now_ms() - begin));
    /* A new endpoint cannot connect: the error comes now or with its first operation. */
    for (int i = 0; i < N_REGIONS; i++) {
        if (s->keys[i])
            s->ops->rkey_release(s->t, s->ep, s->keys[i]);
        s->keys[i] = NULL;
    }
    s->ops->disconnect(s->t, s->ep);
    s->ep = NULL;
    rc = s->ops->connect(s->t, s->hello.address, s->hello.address_bytes, &s->ep, NULL);
    if (rc == 0) {
        const struct published *p = &s->hello.regions[DATA];

        rc = s->ops->rkey_unpack(s->t, s->ep, p->handle, p->handle_bytes, p->addr, p->bytes,
                                 &s->keys[DATA], NULL);
        if (rc == 0)
            rc = get_from(s, DATA, 0, buf, sizeof(buf), NULL);
    } else {
        s->ep = NULL;
    }
    CHECK_MSG(rc == ASYMREG_EPEER || rc == ASYMREG_EUNREACH, "connected to the dead: %d", rc);
}

/* When this process was started, as /proc has it: the 22nd field, and the second may have blanks.
 * */
static uint64_t started(void)
{
    char text[1024] = "", *p;
    FILE *f = fopen("/proc/self/stat", "r");

    CHECK_MSG(f && fgets(text, sizeof(text), f), "/proc/self/stat");
    fclose(f);
    p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    CHECK_MSG(p, "/proc/self/stat: %s", text);
    return strtoull(p, NULL, 10);
}

/* Connects to this process's own address, in which every word like `from` is `to`. */
static int connect_changed(struct side *s, uint64_t from, uint64_t to, size_t word_bytes)
{
    unsigned char bytes[ASYMREG_MAX_ADDRESS_BYTES];
    struct asymreg_ep *ep;
    unsigned changed = 0;
    size_t n = sizeof(bytes);
    int rc;

    CHECK_MSG(s->ops->address(s->t, bytes, &n, NULL) == 0, "address");
    for (size_t i = 0; i + word_bytes <= n && i < 72; i += word_bytes) { /* the others are UCX's */
        if (memcmp(bytes + i, &from, word_bytes) != 0)
            continue;
        memcpy(bytes + i, &to, word_bytes);
        changed++;
    }
    CHECK_MSG(changed == 1, "the address has it %u times", changed);
#ifdef HAVE_UCX
    if (strcmp(s->ops->name, "ucx") == 0) {
        uint64_t sum = 0;

        memcpy(bytes + 72, &sum, 8);
        sum = asymreg_ucx__checksum(bytes, n);
        memcpy(bytes + 72, &sum, 8);
    }
#endif
    rc = s->ops->connect(s->t, bytes, n, &ep, NULL);
    if (rc == 0)
        s->ops->disconnect(s->t, ep);
    return rc;
}

static void *sleeps(void *tid)
{
    __atomic_store_n((pid_t *)tid, gettid(), __ATOMIC_RELEASE);
    pause(); /* until it is cancelled */
    return NULL;
}

/* A process counts as gone when another process, or a thread, has its number. */
static void case_reused(struct side *s)
{
    pthread_t thread;
    pid_t tid = 0;
    int rc;

    if (strcmp(s->ops->name, "ibv") == 0) /* its addresses name no process */
        return;
    usleep(20000); /* /proc counts in ticks: the thread begins in a later one */
    CHECK_MSG(pthread_create(&thread, NULL, sleeps, &tid) == 0, "pthread_create");
    while (__atomic_load_n(&tid, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    rc = connect_changed(s, started(), started(), 8);
    CHECK_MSG(rc == 0, "itself: %d", rc);
    rc = connect_changed(s, started(), started() - 1, 8);
    CHECK_MSG(rc == ASYMREG_EPEER, "one that began earlier: %d", rc);
    rc = connect_changed(s, (uint64_t)getpid(), (uint64_t)tid, 4);
    CHECK_MSG(rc == ASYMREG_EPEER, "a thread: %d", rc);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

/* Descriptors of processes that this one has open. */
static unsigned pidfds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *e;
    unsigned n = 0;

    CHECK_MSG(dir, "/proc/self/fd");
    while ((e = readdir(dir)) != NULL) {
        char link[64] = "";

        n += readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1) > 0 && strstr(link, "pidfd");
    }
    closedir(dir);
    return n;
}

/*
 * More endpoints than the 64 for which a transport keeps process descriptors: each works, and each
 * notices the target's death, also in the middle of an operation. With ucx and shm the kernel
 * reports the death, with others the adapter.
 */
static void case_crowd(struct side *s)
{
    enum { N = 80, KEPT = 64 };
    const bool kernel = strcmp(s->ops->name, "ibv") != 0;
    const struct published *p = &s->hello.regions[DATA];
    struct asymreg_rkey *first = s->keys[DATA], *keys[N];
    struct asymreg_ep *own = s->ep, *eps[N];
    unsigned char buf[100], back[100];
    int rc;

    CHECK_MSG(pidfds() == (kernel ? 1 : 0), "%u at the beginning", pidfds());
    for (unsigned i = 0; i < N; i++) {
        rc = s->ops->connect(s->t, s->hello.address, s->hello.address_bytes, &eps[i], NULL);
        CHECK_MSG(rc == 0, "connect %u: %d", i, rc);
        CHECK_MSG(pidfds() == (!kernel        ? 0
                               : i + 2 < KEPT ? i + 2
                                              : KEPT),
                  "%u with %u endpoints", pidfds(), i + 2);
    }
    for (unsigned round = 0; round < 3;
         round++) { /* others take the places of some, with and without a descriptor */
        for (unsigned i = round; i < N; i += 9)
            s->ops->disconnect(s->t, eps[i]);
        CHECK_MSG(pidfds() < KEPT, "none is given back");
        for (unsigned i = round; i < N; i += 9)
            CHECK_MSG(
                s->ops->connect(s->t, s->hello.address, s->hello.address_bytes, &eps[i], NULL) == 0,
                "connect again");
        CHECK_MSG(pidfds() == (kernel ? KEPT : 0), "%u after round %u", pidfds(), round);
    }
    for (unsigned i = 0; i < N; i++) {
        s->ep = eps[i];
        CHECK_MSG(s->ops->rkey_unpack(s->t, s->ep, p->handle, p->handle_bytes, p->addr, p->bytes,
                                      &s->keys[DATA], NULL) == 0,
                  "unpack");
        keys[i] = s->keys[DATA];
        fill(buf, sizeof(buf), i);
        CHECK_MSG(put_in(s, DATA, 100 * i, buf, sizeof(buf), NULL) == 0 && flush(s) == 0, "put %u",
                  i);
        CHECK_MSG(get_from(s, DATA, 100 * i, back, sizeof(back), NULL) == 0 &&
                      memcmp(buf, back, sizeof(buf)) == 0,
                  "get %u", i);
        CHECK_MSG(s->ops->peer_alive(s->t, s->ep) == 0, "endpoint %u calls it dead", i);
    }
    tell_only(s, (struct order){.kind = ORDER_KILL});
    do /* on the last one, which has no descriptor: only progress() checks it */
        rc = get_from(s, DATA, 0, back, sizeof(back), NULL);
    while (rc == 0);
    CHECK_MSG(rc == ASYMREG_EPEER, "get of the last: %d", rc);
    for (unsigned i = 0; i < N;
         i++) /* checks all at the same time, since an answer may take a while */
        (void)s->ops->peer_alive(s->t, eps[i]);
    for (unsigned i = 0; i < N; i++) {
        s->ep = eps[i];
        s->keys[DATA] = keys[i];
        while ((rc = s->ops->peer_alive(s->t, s->ep)) == 0)
            s->ops->progress(s->t);
        CHECK_MSG(rc == ASYMREG_EPEER &&
                      get_from(s, DATA, 0, back, sizeof(back), NULL) == ASYMREG_EPEER,
                  "endpoint %u: %d", i, rc);
        s->ops->rkey_release(s->t, s->ep, s->keys[DATA]);
        s->ops->disconnect(s->t, s->ep);
    }
    CHECK_MSG(pidfds() == (kernel ? 1 : 0), "%u in the end", pidfds());
    s->ep = own;
    s->keys[DATA] = first;
}

const struct contract_case contract_cases[] = {
    {"caps", case_caps, false},
    {"opts", case_opts, false},
    {"putget", case_putget, false},
    {"many", case_many, false},
    {"amo", case_amo, false},
    {"contend", case_contend, false},
    {"readonly", case_readonly, false},
    {"revoke", case_revoke, false},
    {"hostile", case_hostile, false},
    {"badmem", case_badmem, false},
    {"leave", case_leave, false},
    {"stopped", case_stopped, false},
    {"killed", case_killed, true},
    {"killed_idle", case_killed_idle, true},
    {"reused", case_reused, false},
    {"crowd", case_crowd, true},
    {"machine", case_machine, true}, /* on demand */
    {NULL, NULL, false},
};

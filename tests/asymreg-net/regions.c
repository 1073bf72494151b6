/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, regions and peers over a network transport: regions TRANSPORT [coalesce|living] (ucx,
 * ucx-thread, ibv). The cases of tests/asymreg/test_semantics.c that hold over a network: peers
 * read the table through the transport, so a refresh finds later changes or, where the transport
 * revokes, the refusal shows them. living: the owner is not killed.
 *
 * The owner is another process, which obeys one-letter orders. Over UCX it makes calls while it
 * waits. */
#define _GNU_SOURCE
#include <asymreg.h>
#ifdef HAVE_UCX
#include <asymreg-ucx.h>
#endif
#ifdef HAVE_IBV
#include <asymreg-ibv.h>
#endif

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_END() exit(1)
#include "../asymreg/register.h"
#include "../check.h"

#define N_REGIONS 500u
#define BYTES     1000u /* of each region; they follow each other with a gap */
#define STRIDE    1024u
#define OWNER     3u
#define USER      4u
#define BIG_BYTES (1u << 20)

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libuct.so\nleak:libucp.so\n";
}

struct news {
    uint64_t base, file, read_only, counter, big, gone, strange;
    asymreg_id big_id, gone_ids[2];
    asymreg_id ids[N_REGIONS];
    ssize_t blob_bytes;
    char blob[ASYMREG_MAX_BLOB_BYTES];
};

#ifndef MADV_POPULATE_READ /* from Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

static size_t page; /* bytes */
static const char *transport_name;
static bool coalesce; /* the owner has few segments, of 64 KiB */
static bool living;   /* the owner is not killed */
static bool closing;  /* it closes its context, and lives */
static struct asymreg_transport_caps caps = {.size = sizeof(caps)}; /* of open_context()'s */

static struct asymreg_context *open_context(void)
{
    struct asymreg_opts opts = {.size = sizeof(opts),
                                .max_regions = 2 * N_REGIONS,
                                .max_segments = coalesce ? 20 : N_REGIONS,
                                .coalesce_bytes = coalesce ? 65536 : 0};
    struct asymreg_context *ctx;
    int rc = -ENOSYS;

#ifdef HAVE_UCX
    if (strncmp(transport_name, "ucx", 3) == 0) {
        struct asymreg_ucx_opts o = {
            .size = sizeof(o), .flags = strcmp(transport_name, "ucx") ? ASYMREG_UCX_THREAD : 0};

        rc = asymreg_ucx_create(&o, &opts.transport, NULL);
    }
#endif
#ifdef HAVE_IBV
    if (strcmp(transport_name, "ibv") == 0) {
        struct asymreg_ibv_opts o = {.size = sizeof(o)};

        o.timeout_ms = 3000;
        rc = asymreg_ibv_create(&o, &opts.transport, NULL);
        if (rc == -ENODEV) {
            printf("skip: needs a verbs adapter\n");
            fflush(stdout);
            _exit(77);
        }
    }
#endif
    CHECK_MSG(rc == 0, "no transport %s: %d", transport_name, rc);
    rc = opts.transport->ops->query(opts.transport, &caps);
    CHECK_MSG(rc == 0, "query: %s", asymreg_strerror(rc));
    rc = asymreg_open(&opts, &ctx, NULL);
    CHECK_MSG(rc == 0, "open: %s", asymreg_strerror(rc));
    return ctx;
}

/* The owner. */

/* Unregisters the large region with drain while its user puts: after the return the memory does not
 * change. Where the transport cannot promise that, the call is refused and changes nothing. Returns
 * 1: promised and kept; 2: refused. */
static asymreg_id drain(struct asymreg_context *ctx, const struct news *news)
{
    struct asymreg_error err = {0};
    const unsigned char *big =
        (const unsigned char *)(uintptr_t)news->big; // NOLINT: an address of this process
    int rc = asymreg_unregister_drain(ctx, news->ids[2], 1000, &err);
    const bool guarded = strncmp(transport_name, "ucx", 3) == 0;

    if (guarded) /* each operation of a peer checks, also for regions that share a segment */
        CHECK_MSG(rc == 0, "in a segment: %s", asymreg_strerror(rc));
    else
        CHECK_MSG(rc == ASYMREG_ENOTSUP && err.code == rc && err.text[0], "in a segment: %s",
                  asymreg_strerror(rc));
    err.code = 0;
    CHECK_MSG(asymreg_unregister_drain(ctx, ASYMREG_ANY, 1000, NULL) ==
                  (guarded ? 0 : ASYMREG_ENOTSUP),
              "drain");
    rc = asymreg_unregister_drain(ctx, news->big_id, 1000, &err);
    if (!(caps.flags & ASYMREG_CAP_REVOKE)) {
        CHECK_MSG(rc == ASYMREG_ENOTSUP && err.code == rc && err.text[0], "not to be promised: %s",
                  asymreg_strerror(rc));
        return 2;
    }
    CHECK_MSG(rc == 0, "unregister and wait: %s", asymreg_strerror(rc));
    memset((void *)(uintptr_t)news->big, 0, BIG_BYTES); // NOLINT
    for (int i = 0; i < 5; i++) {
        for (size_t k = 0; k < BIG_BYTES; k++)
            CHECK_MSG(big[k] == 0, "written after that, at %zu", k);
        usleep(10000);
    }
    return 1;
}

static void owner(int sock)
{
    static struct news news, theirs;
    struct asymreg_context *ctx = open_context();
    struct asymreg_stats stats = {.size = sizeof(stats)};
    struct asymreg_worker *worker;
    uint32_t prot[3] = {ASYMREG_RW, ASYMREG_READ, ASYMREG_ALL};
    int fd = memfd_create("regions", MFD_CLOEXEC);
    char *memory = calloc(N_REGIONS, STRIDE), *file, *others = calloc(2, 4096),
         *big = calloc(1, BIG_BYTES), order,
         *gone = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *strange = mmap(NULL, 8, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct pollfd p = {.fd = sock, .events = POLLIN};

    CHECK_MSG(asymreg_worker_create(ctx, &worker) == 0, "worker");
    CHECK_MSG(memory && others && big && fd >= 0 && ftruncate(fd, 2 * (off_t)page) == 0, "memory");
    file = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK_MSG(file != MAP_FAILED, "mmap");
    /* The first half in one segment; the others have registrations of their own, or share a few of
     * them. */
    CHECK_MSG(asymreg_register(ctx, memory, (size_t)N_REGIONS / 2 * STRIDE, ASYMREG_RW,
                               FLAGS(ASYMREG_SEGMENT), NULL, NULL) == 0,
              "segment");
    for (uint32_t i = 0; i < N_REGIONS; i++)
        CHECK_MSG(asymreg_register(ctx, memory + (size_t)i * STRIDE, BYTES, prot[0],
                                   FLAGS(i == N_REGIONS - 1 ? ASYMREG_ALONE : 0), &news.ids[i],
                                   NULL) == 0,
                  "register %u", i);
    CHECK_MSG(asymreg_register(ctx, file, 2 * page, prot[0], NULL, NULL, NULL) == 0,
              "register a file");
    CHECK_MSG(asymreg_register(ctx, others, 100, prot[1], NULL, NULL, NULL) == 0,
              "register read-only");
    CHECK_MSG(asymreg_register(ctx, others + 4096, 64, prot[2], NULL, NULL, NULL) == 0,
              "register a counter");
    CHECK_MSG(asymreg_register(ctx, big, BIG_BYTES, prot[0], FLAGS(ASYMREG_ALONE), &news.big_id,
                               NULL) == 0,
              "register much");
    CHECK_MSG(gone != MAP_FAILED, "mmap");
    CHECK_MSG(
        asymreg_register(ctx, gone, 32768, ASYMREG_ALL, FLAGS(ASYMREG_SEGMENT), NULL, NULL) == 0 &&
            asymreg_register(ctx, gone, 8, ASYMREG_ALL, NULL, NULL, NULL) == 0 &&
            asymreg_register(ctx, gone + 16384, 4096, ASYMREG_ALL, NULL, &news.gone_ids[0], NULL) ==
                0 &&
            asymreg_register(ctx, gone + 49152, 4096, ASYMREG_ALL, FLAGS(ASYMREG_ALONE),
                             &news.gone_ids[1], NULL) == 0,
        "register what will go");
    CHECK_MSG(strange != MAP_FAILED, "mmap");
    if (strncmp(transport_name, "ucx", 3) == 0) /* an adapter refuses it */
        CHECK_MSG(
            asymreg_register(ctx, strange, 8, ASYMREG_ALL, FLAGS(ASYMREG_ALONE), NULL, NULL) == 0,
            "register what may only be written");
    news.gone = (uintptr_t)gone;
    news.strange = (uintptr_t)strange;
    CHECK_MSG(asymreg_context_stats(ctx, &stats) == 0 &&
                  (coalesce ? stats.n_segments < 15 : stats.n_segments > N_REGIONS / 2),
              "%llu segments", (unsigned long long)stats.n_segments);
    news.base = (uintptr_t)memory;
    news.file = (uintptr_t)file;
    news.read_only = (uintptr_t)others;
    news.counter = (uintptr_t)(others + 4096);
    news.big = (uintptr_t)big;
    news.blob_bytes = asymreg_export(ctx, news.blob, sizeof(news.blob), NULL);
    CHECK_MSG(news.blob_bytes > 0, "export");
    CHECK_MSG(send(sock, &news, sizeof(news), 0) == (ssize_t)sizeof(news), "send");
    for (;;) {
        asymreg_id id = 0;
        uint32_t last = N_REGIONS - 1; /* with a registration of its own */

        while (strcmp(transport_name, "ucx") == 0 && poll(&p, 1, 0) == 0) {
            asymreg_progress(worker);
            sched_yield();
        }
        if (read(sock, &order, 1) != 1 || order == 'c')
            break;
        switch (order) {
        case 'u': /* unregister the first, which shares a segment, and the last */
            CHECK_MSG(asymreg_unregister(ctx, news.ids[0]) == 0 &&
                          asymreg_unregister(ctx, news.ids[last]) == 0,
                      "unregister");
            break;
        case 'r': /* the same memory again */
            CHECK_MSG(asymreg_register(ctx, memory, BYTES, ASYMREG_RW, NULL, &news.ids[0], NULL) ==
                          0,
                      "register again");
            CHECK_MSG(asymreg_register(ctx, memory + (size_t)last * STRIDE, BYTES, ASYMREG_RW,
                                       FLAGS(ASYMREG_ALONE), &news.ids[last], NULL) == 0,
                      "register again");
            id = news.ids[last];
            break;
        case 'm': /* unmaps memory of a region's own registration and of a shared one */
            CHECK_MSG(asymreg_unregister(ctx, news.gone_ids[0]) == 0 &&
                          asymreg_unregister(ctx, news.gone_ids[1]) == 0 &&
                          mmap(gone, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                               0) == gone, /* a hole could be filled by another mapping */
                      "unregister and unmap");
            break;
        case 't': CHECK_MSG(ftruncate(fd, (off_t)page) == 0, "ftruncate"); break;
        case 'p': CHECK_MSG(mprotect(file, page, PROT_READ) == 0, "mprotect"); break;
        case 'd': id = drain(ctx, &news); break;
        case 'f': CHECK_MSG(pread(fd, &id, 8, 100) == 8, "pread"); break;
        case 'i': /* the user is imported too: each side's operations go both ways */
            CHECK_MSG(recv(sock, &theirs, sizeof(theirs), MSG_WAITALL) == (ssize_t)sizeof(theirs),
                      "recv");
            CHECK_MSG(asymreg_import(ctx, USER, theirs.blob, (size_t)theirs.blob_bytes, NULL) ==
                              0 &&
                          asymreg_refresh(ctx, USER) >= 0,
                      "import the user");
            break;
        case 'k': raise(SIGKILL); break;
        default: break;
        }
        CHECK_MSG(send(sock, &id, sizeof(id), MSG_NOSIGNAL) == (ssize_t)sizeof(id), "send");
    }
    asymreg_worker_destroy(worker);
    asymreg_close(ctx);
    if (order == 'c') /* it lives on, until it is killed */
        for (;;)
            pause();
    exit(0);
}

/* The user. */

static struct asymreg_worker *w;
static struct news news;

static asymreg_id answer(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    asymreg_id id;

    while (poll(&p, 1, 0) == 0)
        asymreg_progress(w);
    CHECK_MSG(recv(sock, &id, sizeof(id), MSG_WAITALL) == (ssize_t)sizeof(id), "recv");
    return id;
}

static asymreg_id tell(int sock, char order)
{
    CHECK_MSG(send(sock, &order, 1, 0) == 1, "send");
    return answer(sock);
}

static int put(uint64_t addr, asymreg_id id, const void *src, size_t bytes)
{
    int rc = asymreg_put(w, OWNER, addr, id, src, bytes);

    return rc < 0 ? rc : asymreg_flush(w, OWNER);
}

static void moves(int sock)
{
    unsigned char src[BYTES], dst[BYTES];
    uint64_t old = 1, value = 0;

    for (uint32_t i = 0; i < N_REGIONS; i += 7) {
        memset(src, (int)i, sizeof(src));
        CHECK_MSG(put(news.base + (uint64_t)i * STRIDE, news.ids[i], src, BYTES) == 0, "put %u", i);
        CHECK_MSG(
            asymreg_get(w, OWNER, news.base + (uint64_t)i * STRIDE, ASYMREG_ANY, dst, BYTES) == 0,
            "get %u", i);
        CHECK_MSG(memcmp(src, dst, BYTES) == 0, "region %u", i);
    }
    CHECK_MSG(put(news.file + 100, ASYMREG_ANY, "in file!", 8) == 0, "put into a file");
    value = tell(sock, 'f');
    CHECK_MSG(memcmp(&value, "in file!", 8) == 0, "it is in the file");
    CHECK_MSG(asymreg_amo(w, OWNER, news.counter, ASYMREG_ANY, ASYMREG_AMO_FETCH_ADD, 8, 5, 0,
                          &old) == 0 &&
                  old == 0,
              "add");
    CHECK_MSG(asymreg_amo(w, OWNER, news.counter, ASYMREG_ANY, ASYMREG_AMO_SWAP, 8, 9, 0, &old) ==
                      0 &&
                  old == 5,
              "swap");
    CHECK_MSG(asymreg_amo(w, OWNER, news.counter, ASYMREG_ANY, ASYMREG_AMO_COMPARE_SWAP, 8, 1, 9,
                          &old) == 0 &&
                  old == 9,
              "compare");
    CHECK_MSG(asymreg_get(w, OWNER, news.counter, ASYMREG_ANY, &old, 8) == 0 && old == 1,
              "the counter");
    CHECK_MSG(asymreg_amo(w, OWNER, news.counter + 4, ASYMREG_ANY, ASYMREG_AMO_ADD, 8, 1, 0,
                          NULL) == ASYMREG_EALIGN,
              "misaligned");
}

/* Signals, and puts of a column. */
static void signals(void)
{
    struct asymreg_signal s = {.addr = news.counter + 8, .value = 7, .what = ASYMREG_AMO_ADD};
    struct asymreg_transfer apart[50];
    uint32_t out[50], all[150];
    uint64_t got = 0;
    size_t n_begun;

    for (uint32_t i = 0; i < 50; i++) {
        out[i] = i * 17;
        apart[i] = (struct asymreg_transfer){
            .raddr = news.base + i * 12, .id = ASYMREG_ANY, .here = &out[i], .bytes = 4};
    }
    memset(all, 0xff, sizeof(all));
    CHECK_MSG(put(news.base, ASYMREG_ANY, all, sizeof(all)) == 0, "put");
    CHECK_MSG(asymreg_put_many(w, OWNER, apart, 50, &n_begun) == 0 && n_begun == 50 &&
                  asymreg_flush(w, OWNER) == 0,
              "put apart");
    CHECK_MSG(asymreg_get(w, OWNER, news.base, ASYMREG_ANY, all, sizeof(all)) == 0, "get");
    for (uint32_t i = 0; i < 50; i++)
        CHECK_MSG(all[3 * i] == i * 17 && all[3 * i + 1] == UINT32_MAX, "what is between");
    for (uint64_t i = 1; i <= 2; i++)
        CHECK_MSG(asymreg_put_signal(w, OWNER, news.base, ASYMREG_ANY, "data", 4, &s) == 0 &&
                      asymreg_get(w, OWNER, s.addr, ASYMREG_ANY, &got, 8) == 0 && got == 7 * i,
                  "signal");
}

static void refusals(void)
{
    unsigned char buf[BYTES] = {0};
    uint64_t first = news.base, last = news.base + (N_REGIONS - 1) * (uint64_t)STRIDE;

    CHECK_MSG(put(first + BYTES - 1, ASYMREG_ANY, buf, 2) == ASYMREG_ERANGE, "past the end");
    CHECK_MSG(put(first + BYTES, ASYMREG_ANY, buf, 1) == ASYMREG_ENOREGION, "between two");
    CHECK_MSG(put(first, news.ids[1], buf, 1) == ASYMREG_ERANGE, "another region's id");
    CHECK_MSG(put(UINT64_MAX, ASYMREG_ANY, buf, 2) == ASYMREG_EOVERFLOW, "past 2^64");
    CHECK_MSG(put(news.read_only, ASYMREG_ANY, buf, 1) == ASYMREG_EACCES, "read-only");
    CHECK_MSG(asymreg_amo(w, OWNER, last, ASYMREG_ANY, ASYMREG_AMO_ADD, 8, 1, 0, NULL) ==
                  ASYMREG_EACCES,
              "no atomics there");
    CHECK_MSG(asymreg_get(w, OWNER, news.read_only, ASYMREG_ANY, buf, 100) == 0, "reading");
    CHECK_MSG(put(0, ASYMREG_ANY, buf, 0) == 0, "nothing at all");
}

/* Operations on an unregistered region are refused: at once where the transport revokes, else after
 * a refresh. */
static void comes_and_goes(struct asymreg_context *ctx, int sock)
{
    unsigned char buf[8] = "newdata";
    uint64_t words[200], last_word = 0;
    uint64_t first = news.base, last = news.base + (N_REGIONS - 1) * (uint64_t)STRIDE;
    asymreg_id id;
    int rc;

    CHECK_MSG(put(last, news.ids[N_REGIONS - 1], buf, 8) == 0, "put before");
    tell(sock, 'u');
    if (!(caps.flags & ASYMREG_CAP_REVOKE))
        CHECK_MSG(asymreg_refresh(w ? ctx : NULL, OWNER) >= 0, "refresh");
    rc = put(last, news.ids[N_REGIONS - 1], buf, 8);
    CHECK_MSG(rc == ASYMREG_ESTALE, "unregistered: %s", asymreg_strerror(rc));
    rc = put(last, ASYMREG_ANY, buf, 8);
    CHECK_MSG(rc == ASYMREG_ENOREGION || rc == ASYMREG_ESTALE, "unregistered, any: %s",
              asymreg_strerror(rc));
    CHECK_MSG(asymreg_refresh(ctx, OWNER) >= 0, "refresh");
    CHECK_MSG(put(first, news.ids[0], buf, 8) == ASYMREG_ESTALE,
              "unregistered, of a shared segment");
    CHECK_MSG(put(news.base + STRIDE, news.ids[1], buf, 8) == 0, "its neighbour");
    id = tell(sock, 'r');
    CHECK_MSG(id != news.ids[N_REGIONS - 1], "a new registration has the old name");
    CHECK_MSG(put(last, ASYMREG_ANY, buf, 8) == 0 && put(last, id, buf, 8) == 0,
              "registered again");
    CHECK_MSG(put(last, news.ids[N_REGIONS - 1], buf, 8) == ASYMREG_ESTALE, "the old name");
    CHECK_MSG(put(first, ASYMREG_ANY, buf, 8) == 0, "registered again, in the segment");
    if (!(caps.flags & ASYMREG_CAP_REVOKE))
        return;
    /* Registered again while this side's copy of the table is old: one try finds that out, the next
     * succeeds. */
    tell(sock, 'u');
    tell(sock, 'r');
    rc = asymreg_put_nb(w, OWNER, last, ASYMREG_ANY, buf, 8, NULL);
    CHECK_MSG(rc == 0, "begun: %s", asymreg_strerror(rc));
    rc = asymreg_flush(w, OWNER);
    CHECK_MSG(rc == ASYMREG_ESTALE, "by an old copy: %s", asymreg_strerror(rc));
    rc = asymreg_put_nb(w, OWNER, last, ASYMREG_ANY, buf, 8, NULL);
    CHECK_MSG(rc == 0, "begun again: %s", asymreg_strerror(rc));
    rc = asymreg_flush(w, OWNER);
    CHECK_MSG(rc == 0, "after a refresh: %s", asymreg_strerror(rc));
    if (!(caps.flags & ASYMREG_CAP_ORDERED))
        return;
    /* Operations behind a refused one, more than the adapter's queue holds, are made in order. */
    tell(sock, 'u');
    tell(sock, 'r');
    rc = asymreg_put_nb(w, OWNER, last, ASYMREG_ANY, buf, 8, NULL);
    for (uint64_t i = 0; i < 200; i++) {
        words[i] = i;
        rc |= asymreg_put_nb(w, OWNER, news.base + STRIDE, news.ids[1], &words[i], 8, NULL);
    }
    CHECK_MSG(rc == 0 && asymreg_flush(w, OWNER) == ASYMREG_ESTALE, "the first of many");
    CHECK_MSG(asymreg_get(w, OWNER, news.base + STRIDE, ASYMREG_ANY, &last_word, 8) == 0 &&
                  last_word == 199,
              "the last put is there: %llu", (unsigned long long)last_word);
}

static void drained(int sock)
{
    unsigned char *buf = malloc(BIG_BYTES);
    struct pollfd p = {.fd = sock, .events = POLLIN};
    asymreg_id said;
    char order = 'd';
    int rc;

    CHECK_MSG(buf, "memory");
    memset(buf, 'x', BIG_BYTES);
    CHECK_MSG(put(news.big, news.big_id, buf, BIG_BYTES) == 0, "put much");
    CHECK_MSG(send(sock, &order, 1, 0) == 1, "send");
    do {
        rc = put(news.big, news.big_id, buf, BIG_BYTES);
    } while (rc == 0 && poll(&p, 1, 0) == 0);
    while (poll(&p, 1, 0) == 0)
        asymreg_progress(w);
    CHECK_MSG(recv(sock, &said, sizeof(said), MSG_WAITALL) == (ssize_t)sizeof(said), "recv");
    if (said == 1 && rc == 0) /* the last one came in time */
        rc = put(news.big, news.big_id, buf, BIG_BYTES);
    /* ASYMREG_ERANGE: some pieces had been copied. */
    CHECK_MSG(said == 1 ? rc == ASYMREG_ESTALE || rc == ASYMREG_ERANGE : rc == 0,
              "putting meanwhile: %s", asymreg_strerror(rc));
    CHECK_MSG(put(news.base + STRIDE, news.ids[1], buf, 8) == 0, "another one");
    free(buf);
}

/*
 * The owner unregisters and unmaps; this side's copy of its table is old. No operation reaches the
 * memory, and the owner survives: at once where the transport revokes, elsewhere after a refresh.
 */
static void goes_away(struct asymreg_context *ctx, int sock)
{
    static const uint64_t at[2] = {16384, 49152};
    uint64_t word = 1;

    for (int i = 0; i < 2; i++)
        CHECK_MSG(put(news.gone + at[i], news.gone_ids[i], &word, 8) == 0, "put before");
    tell(sock, 'm');
    if (strncmp(transport_name, "ucx", 3) != 0)
        CHECK_MSG(asymreg_refresh(ctx, OWNER) >= 0, "refresh");
    for (int i = 0; i < 2; i++) {
        int begun = asymreg_put_nb(w, OWNER, news.gone + at[i], news.gone_ids[i], &word, 8, NULL),
            flushed = asymreg_flush(w, OWNER);
        CHECK_MSG(begun == ASYMREG_ESTALE || flushed == ASYMREG_ESTALE,
                  "put without waiting: %s, %s", asymreg_strerror(begun),
                  asymreg_strerror(flushed));
        CHECK_MSG(put(news.gone + at[i], news.gone_ids[i], &word, 8) == ASYMREG_ESTALE, "put");
        CHECK_MSG(asymreg_get(w, OWNER, news.gone + at[i], news.gone_ids[i], &word, 8) ==
                      ASYMREG_ESTALE,
                  "get");
        if (caps.amo8_ops)
            CHECK_MSG(asymreg_amo(w, OWNER, news.gone + at[i], news.gone_ids[i], ASYMREG_AMO_ADD, 8,
                                  1, 0, NULL) == ASYMREG_ESTALE,
                      "add");
    }
    CHECK_MSG(put(news.base + STRIDE, news.ids[1], &word, 8) == 0, "the owner lives");
}

/* Can the kernel tell whether memory is there? */
static bool kernel_tells(void)
{
    void *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *some = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return madvise(none, 4096, MADV_POPULATE_READ) < 0 &&
           madvise(some, 4096, MADV_POPULATE_READ) == 0;
}

/* Access to memory that its owner unmapped, truncated or write-protected while registered fails,
 * and the owner survives. goes_away(), which ran before, made the owner unmap `gone`. */
static void is_gone(int sock)
{
    const uint64_t at[3] = {news.gone, news.file + page, news.file};
    uint64_t word = 1, got = 0;

    if (strncmp(transport_name, "ucx", 3) != 0 || !kernel_tells())
        return;
    for (int i = 1; i < 3; i++)
        CHECK_MSG(put(at[i], ASYMREG_ANY, &word, 8) == 0, "put before");
    tell(sock, 't');
    tell(sock, 'p');
    for (int i = 0; i < 3; i++) {
        CHECK_MSG(put(at[i], ASYMREG_ANY, &word, 8) == ASYMREG_EFAULT, "put %d", i);
        CHECK_MSG(asymreg_get(w, OWNER, at[i], ASYMREG_ANY, &word, 8) ==
                      (i == 2 ? 0 : ASYMREG_EFAULT),
                  "get %d", i);
    }
    CHECK_MSG(asymreg_amo(w, OWNER, at[0], ASYMREG_ANY, ASYMREG_AMO_ADD, 8, 1, 0, NULL) ==
                  ASYMREG_EFAULT,
              "add");
#if defined(__x86_64__) || defined(__aarch64__) /* memory that may be written may be read */
    CHECK_MSG(put(news.strange, ASYMREG_ANY, &word, 8) == 0 &&
                  asymreg_get(w, OWNER, news.strange, ASYMREG_ANY, &got, 8) == 0 && got == word,
              "what may only be written, and a load reads it");
#endif
    CHECK_MSG(put(news.base + STRIDE, news.ids[1], &word, 8) == 0, "the owner lives");
}

static void is_imported(struct asymreg_context *ctx, int sock)
{
    static struct news mine;
    char order = 'i';

    mine.blob_bytes = asymreg_export(ctx, mine.blob, sizeof(mine.blob), NULL);
    CHECK_MSG(mine.blob_bytes > 0, "export");
    CHECK_MSG(send(sock, &order, 1, 0) == 1 &&
                  send(sock, &mine, sizeof(mine), 0) == (ssize_t)sizeof(mine),
              "send");
    answer(sock);
}

static void dies(int sock)
{
    unsigned char buf[BYTES];
    char order = 'k';
    int rc;

    CHECK_MSG(send(sock, &order, 1, 0) == 1, "send");
    do {
        rc = asymreg_get(w, OWNER, news.base + STRIDE, ASYMREG_ANY, buf, BYTES);
    } while (rc == 0);
    CHECK_MSG(rc == ASYMREG_EPEER, "killed: %s", asymreg_strerror(rc));
    CHECK_MSG(put(news.base + STRIDE, ASYMREG_ANY, buf, 1) == ASYMREG_EPEER, "put to the dead");
}

/* The owner closes its context, and its process lives: only the owner can report it. */
static void closes(int sock)
{
    unsigned char buf[BYTES];
    char order = 'c';
    int rc;

    CHECK_MSG(send(sock, &order, 1, 0) == 1, "send");
    do {
        rc = asymreg_get(w, OWNER, news.base + STRIDE, ASYMREG_ANY, buf, BYTES);
    } while (rc != ASYMREG_EPEER); /* before that perhaps ASYMREG_ESTALE: regions go first */
    CHECK_MSG(put(news.base + STRIDE, ASYMREG_ANY, buf, 1) == ASYMREG_EPEER, "put to the closed");
}

static void user(int sock)
{
    struct asymreg_context *ctx = open_context();
    struct asymreg_error err;
    int rc;

    if (recv(sock, &news, sizeof(news), MSG_WAITALL) != (ssize_t)sizeof(news))
        exit(77); /* the owner prints why */
    CHECK_MSG(asymreg_worker_create(ctx, &w) == 0, "worker");
    CHECK_MSG(asymreg_put(w, OWNER, news.base, ASYMREG_ANY, "x", 1) == ASYMREG_ENOPEER,
              "before import");
    for (ssize_t n = 0; n < news.blob_bytes; n += 13)
        CHECK_MSG(asymreg_import(ctx, OWNER, news.blob, (size_t)n, NULL) < 0,
                  "imported %zd bytes of a blob", n);
    rc = asymreg_import(ctx, OWNER, news.blob, (size_t)news.blob_bytes, &err);
    CHECK_MSG(rc == 0, "import: %s", err.text);
    moves(sock);
    signals();
    refusals();
    comes_and_goes(ctx, sock);
    drained(sock);
    goes_away(ctx, sock);
    is_gone(sock);
    is_imported(ctx, sock);
    if (closing)
        closes(sock);
    else if (!living)
        dies(sock);
    CHECK_MSG(asymreg_forget(ctx, OWNER) == 0, "forget");
    asymreg_worker_destroy(w);
    asymreg_close(ctx);
    exit(0);
}

int main(int argc, char **argv)
{
    int pair[2], status;
    pid_t pids[2];

    coalesce = argc == 3 && strcmp(argv[2], "coalesce") == 0;
    living = argc == 3 && strcmp(argv[2], "living") == 0;
    closing = argc == 3 && strcmp(argv[2], "closing") == 0;
    CHECK_MSG(argc == 2 || coalesce || living || closing,
              "usage: regions ucx|ucx-thread|ibv [coalesce|living|closing]");
    transport_name = argv[1];
    page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK_MSG(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        CHECK_MSG(pids[i] >= 0, "fork");
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(100);
            close(pair[!i]);
            if (i == 0)
                owner(pair[0]);
            else
                user(pair[1]);
        }
    }
    close(pair[0]);
    close(pair[1]);
    CHECK_MSG(waitpid(pids[1], &status, 0) == pids[1], "waitpid");
    kill(pids[0], SIGKILL);
    waitpid(pids[0], NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_bound [CASE]: handles that are bound to a region of a peer. Owner and user are two contexts
 * of this process, except where the owner dies or publishes false data.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <pthread.h>

#define PE 5u

static struct asymreg_context *owner, *user;
static struct asymreg_worker *w;

static void setup(uint32_t mode, uint32_t owner_flags)
{
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n;

    owner = open_context(mode, owner_flags, 4096);
    user = open_context(mode, 0, 64);
    CHECK((n = asymreg_export(owner, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_import(user, PE, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(user, &w), 0);
}

static void teardown(void)
{
    asymreg_worker_destroy(w);
    asymreg_close(user);
    asymreg_close(owner);
}

static char *segment(size_t bytes)
{
    void *p;

    CHECK_EQ(asymreg_segment_alloc(owner, bytes, &p, NULL), 0);
    return p;
}

static asymreg_id reg(void *p, size_t bytes, uint32_t prot)
{
    asymreg_id id;

    CHECK_EQ(asymreg_register(owner, p, bytes, prot, NULL, &id, NULL), 0);
    return id;
}

/* Every operation, on every kind of memory. */
static void operations(char *p, int atomics)
{
    static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 63, 1000};
    unsigned char out[1000], in[1000];
    struct asymreg_bound b;
    uint64_t old = 77, word;

    reg(p, 4096, ASYMREG_ALL);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p + 8, ASYMREG_ANY, 4080, &b), 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        for (uint64_t at = 0; at < 20; at++) {
            for (size_t k = 0; k < sizes[i]; k++)
                out[k] = (unsigned char)(k * 7 + i + at);
            CHECK_EQ(asymreg_bound_put(&b, at, out, sizes[i]), 0);
            CHECK(memcmp(p + 8 + at, out, sizes[i]) == 0);
            memset(in, 0, sizeof(in));
            CHECK_EQ(asymreg_bound_get(&b, at, in, sizes[i]), 0);
            CHECK(memcmp(in, out, sizes[i]) == 0);
        }
    CHECK_EQ(asymreg_flush(w, PE), 0);
    CHECK_EQ(asymreg_bound_put(&b, 4080, out, 1), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_bound_get(&b, 4079, in, 2), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_bound_get(&b, UINT64_MAX, in, 2), ASYMREG_ERANGE);
    static volatile size_t far_too_many = SIZE_MAX;
    CHECK_EQ(asymreg_bound_put(&b, 0, out, far_too_many), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_bound_put(&b, 0, NULL, 8), -EINVAL);
    CHECK_EQ(asymreg_bound_get(&b, 0, NULL, 8), -EINVAL);
    CHECK_EQ(asymreg_bound_put(&b, 0, NULL, 0), 0);
    for (uint32_t bytes = 4; bytes <= 8 && atomics; bytes += 4) {
        uint64_t all = bytes == 4 ? UINT32_MAX : UINT64_MAX;
        const struct {
            uint32_t which;
            uint64_t operand, compare, then;
        } steps[] = {{ASYMREG_AMO_SET, 40, 0, 40},          {ASYMREG_AMO_ADD, 2, 0, 42},
                     {ASYMREG_AMO_FETCH_ADD, all, 0, 41},   {ASYMREG_AMO_SWAP, 9, 0, 9},
                     {ASYMREG_AMO_COMPARE_SWAP, 1, 8, 9},   {ASYMREG_AMO_COMPARE_SWAP, 1, 9, 1},
                     {ASYMREG_AMO_OR, 0xf0, 0, 0xf1},       {ASYMREG_AMO_AND, 0x3c, 0, 0x30},
                     {ASYMREG_AMO_XOR, all, 0, all ^ 0x30}, {ASYMREG_AMO_FETCH, 1, 0, all ^ 0x30}};
        uint64_t before;

        memset(p, 0x11, 64);
        for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
            before = 0;
            memcpy(&before, p + 16, bytes);
            CHECK_EQ(asymreg_bound_amo(&b, 8, steps[i].which, bytes, steps[i].operand,
                                       steps[i].compare, &old),
                     0);
            CHECK_EQ(old, before);
            word = 0;
            memcpy(&word, p + 16, bytes);
            CHECK_EQ(word, steps[i].then);
        }
        CHECK(p[15] == 0x11 && p[16 + bytes] == 0x11);
        CHECK_EQ(asymreg_bound_amo(&b, 9, ASYMREG_AMO_ADD, bytes, 1, 0, NULL), ASYMREG_EALIGN);
        CHECK_EQ(asymreg_bound_amo(&b, 4080, ASYMREG_AMO_ADD, bytes, 1, 0, NULL), ASYMREG_ERANGE);
    }
    if (!atomics)
        CHECK_EQ(asymreg_bound_amo(&b, 8, ASYMREG_AMO_ADD, 8, 1, 0, NULL), ASYMREG_ENOTSUP);
    CHECK_EQ(asymreg_bound_amo(&b, 0, ASYMREG_AMO_ADD, 2, 1, 0, NULL), -EINVAL);
    CHECK_EQ(asymreg_bound_amo(&b, 0, 99, 8, 1, 0, NULL), -EINVAL);
    CHECK_EQ(asymreg_bound_check(&b), 0);
    asymreg_unbind(&b);
    asymreg_unbind(&b); /* of zeros now */
}

static void on_shared_memory(void)
{
    setup(ASYMREG_LOCAL_SHM, 0);
    operations(segment(4096), 1);
    teardown();
}

static void by_cma(void)
{
    static char memory[4096] __attribute__((aligned(64)));

    setup(ASYMREG_LOCAL_CMA, 0);
    operations(memory, 0);
    teardown();
}

/* An address of this side that the kernel refuses is this side's error: the peer lives. */
static void from_nowhere(void)
{
    static char memory[4096] __attribute__((aligned(64)));
    static volatile uintptr_t nowhere = UINTPTR_MAX - 4095;
    char c;

    setup(ASYMREG_LOCAL_CMA, 0);
    asymreg_id id = reg(memory, 4096, ASYMREG_ALL);
    uint64_t at = (uintptr_t)memory;
    CHECK_EQ(asymreg_get(w, PE, at, id, &c, 1), 0);
    CHECK_EQ(asymreg_get(w, PE, at, id, (void *)nowhere, 8), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_put(w, PE, at, id, (void *)nowhere, 8), ASYMREG_EFAULT);
    CHECK_EQ(asymreg_get(w, PE, at, id, &c, 1), 0);
    teardown();
}

/* With a peer that drains an operation must be announced: no direct way. */
static void of_a_peer_that_drains(void)
{
    struct asymreg_bound b;
    char *p;

    setup(ASYMREG_LOCAL_SHM, ASYMREG_DRAIN);
    p = segment(8192);
    operations(p, 1);
    asymreg_id id = reg(p + 4096, 100, ASYMREG_ALL);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p + 4096, id, 100, &b), 0);
    CHECK(asymreg_bound_ptr(&b) == NULL);
    CHECK_EQ(asymreg_bound_put(&b, 0, "x", 1), 0);
    CHECK_EQ(asymreg_unregister_drain(owner, id, 1000, NULL), 0);
    CHECK_EQ(asymreg_bound_put(&b, 0, "y", 1), ASYMREG_ESTALE);
    CHECK_EQ(asymreg_bound_check(&b), ASYMREG_ESTALE);
    CHECK(p[4096] == 'x');
    asymreg_unbind(&b);
    teardown();
}

static void what_cannot_be_bound(void)
{
    struct asymreg_bound b = {.at = NULL};
    char *p, byte;

    setup(ASYMREG_LOCAL_SHM, 0);
    p = segment(4096);
    asymreg_id id = reg(p, 100, ASYMREG_READ);
    CHECK_EQ(asymreg_bind(NULL, PE, 1, 0, 1, &b), -EINVAL);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p, 0, 1, NULL), -EINVAL);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p, 0, 0, &b), -EINVAL);
    CHECK_EQ(asymreg_bind(w, PE + 1, (uintptr_t)p, 0, 1, &b), ASYMREG_ENOPEER);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p, 0, 101, &b), ASYMREG_ERANGE);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p + 100, 0, 1, &b), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p, id + ((asymreg_id)2 << 32), 1, &b), ASYMREG_ESTALE);
    CHECK_EQ(asymreg_bind(w, PE, UINT64_MAX, 0, 2, &b), ASYMREG_EOVERFLOW);
    CHECK(b.watch == NULL);
    memset(&b, 0x55, sizeof(b));
    CHECK_EQ(asymreg_bind(w, PE + 1, (uintptr_t)p, 0, 1, &b), ASYMREG_ENOPEER);
    CHECK(b.watch == NULL && b.at == NULL);
    CHECK_EQ(asymreg_bound_put(&b, 0, "x", 1), -EINVAL);
    CHECK_EQ(asymreg_bound_get(&b, 0, &byte, 1), -EINVAL);
    CHECK_EQ(asymreg_bound_amo(&b, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL), -EINVAL);
    CHECK_EQ(asymreg_bound_check(&b), -EINVAL);
    asymreg_unbind(&b);
    /* Permissions are those of the region. */
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p, id, 100, &b), 0);
    CHECK_EQ(b.tag, ASYMREG_READ); /* with number 0: what was refused keeps none */
    CHECK_EQ(asymreg_bound_put(&b, 0, "x", 1), ASYMREG_EACCES);
    CHECK_EQ(asymreg_bound_amo(&b, 0, ASYMREG_AMO_ADD, 8, 1, 0, NULL), ASYMREG_EACCES);
    CHECK(p[0] == 0);
    CHECK_EQ(asymreg_forget(user, PE), ASYMREG_EBUSY);
    asymreg_unbind(&b);
    CHECK_EQ(asymreg_forget(user, PE), 0);
    teardown();
}

/* Gone for good, while its neighbours stay; its mapping stays with the handle. */
static void after_unregister(void)
{
    enum { N = 50 };
    struct asymreg_bound b[N];
    asymreg_id ids[N], again;
    uint64_t x = 1;
    char *p;

    setup(ASYMREG_LOCAL_SHM, 0);
    p = segment(N * 64);
    for (int i = 0; i < N; i++) {
        ids[i] = reg(p + i * 64, 64, ASYMREG_ALL);
        CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p + (uintptr_t)i * 64, ids[i], 64, &b[i]), 0);
        CHECK(asymreg_bound_ptr(&b[i]) != NULL);
        CHECK_EQ(asymreg_bound_put(&b[i], 0, &x, 8), 0);
    }
    for (int gone = 0; gone < N; gone += 2) {
        CHECK_EQ(asymreg_unregister(owner, ids[gone]), 0);
        memset(p + gone * 64, 0, 64);
        for (int i = 0; i < N; i++) {
            int want = i % 2 == 0 && i <= gone ? ASYMREG_ESTALE : 0;
            CHECK_EQ(asymreg_bound_put(&b[i], 0, &x, 8), want);
            CHECK_EQ(asymreg_bound_get(&b[i], 0, &x, 8), want);
            CHECK_EQ(asymreg_bound_amo(&b[i], 8, ASYMREG_AMO_ADD, 8, 1, 0, NULL), want);
        }
        CHECK(p[gone * 64] == 0);
    }
    again = reg(p, 64, ASYMREG_ALL);
    CHECK(again != ids[0]);
    CHECK_EQ(asymreg_bound_put(&b[0], 0, &x, 8), ASYMREG_ESTALE);
    for (int i = 1; i < N; i += 2)
        CHECK_EQ(asymreg_unregister(owner, ids[i]), 0);
    CHECK_EQ(asymreg_unregister(owner, again), 0);
    CHECK_EQ(asymreg_segment_remove(owner, p), 0);
    /* Another segment in its place: the key of the old one is replaced. */
    p = segment(4096);
    again = reg(p, 64, ASYMREG_ALL);
    CHECK_EQ(asymreg_put(w, PE, (uintptr_t)p, again, &x, 8), 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(asymreg_bound_put(&b[i], 0, &x, 8), ASYMREG_ESTALE);
        *(volatile char *)asymreg_bound_ptr(&b[i]) = 1; /* harms nobody */
        asymreg_unbind(&b[i]);
    }
    asymreg_close(owner);
    owner = NULL;
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p, again, 64, &b[0]), ASYMREG_EPEER);
    teardown();
}

static void of_a_peer_that_closes(void)
{
    struct asymreg_bound b;
    char *p, c;

    setup(ASYMREG_LOCAL_SHM, 0);
    p = segment(4096);
    CHECK_EQ(asymreg_bind(w, PE, (uintptr_t)p, reg(p, 8, ASYMREG_ALL), 8, &b), 0);
    CHECK_EQ(asymreg_bound_get(&b, 0, &c, 1), 0);
    asymreg_close(owner);
    owner = NULL;
    CHECK_EQ(asymreg_bound_get(&b, 0, &c, 1), ASYMREG_EPEER);
    CHECK_EQ(asymreg_bound_put(&b, 0, &c, 1), ASYMREG_EPEER);
    asymreg_unbind(&b);
    teardown();
}

/* Operations on a dead peer's memory fail soon, and a flush reports it. */
static void of_a_peer_that_is_killed(void)
{
    struct asymreg_bound b;
    struct target t;
    uint64_t x = 0;
    int rc;

    for (int idle = 0; idle < 2; idle++) {
        target_start(&t, ASYMREG_LOCAL_SHM);
        user = open_context(ASYMREG_LOCAL_SHM, 0, 64);
        CHECK_EQ(asymreg_import(user, PE, t.blob, t.blob_bytes, NULL), 0);
        CHECK_EQ(asymreg_worker_create(user, &w), 0);
        struct answer a = tell(
            &t,
            (struct order){.what = REGISTER, .kind = SHARED, .bytes = 4096, .prot = ASYMREG_ALL});
        CHECK_EQ(asymreg_bind(w, PE, a.addr, a.id, 4096, &b), 0);
        CHECK_EQ(asymreg_bound_put(&b, 0, &x, 8), 0);
        kill(t.pid, SIGKILL);
        CHECK(waitpid(t.pid, NULL, 0) == t.pid);
        double deadline = now() + 30;
        do {
            rc = idle ? asymreg_flush(w, PE) : asymreg_bound_get(&b, 0, &x, 8);
            CHECK(now() < deadline);
        } while (rc == 0);
        CHECK_EQ(rc, ASYMREG_EPEER);
        CHECK_EQ(asymreg_bound_check(&b), ASYMREG_EPEER);
        close(t.sock);
        asymreg_unbind(&b);
        asymreg_worker_destroy(w);
        asymreg_close(user);
    }
}

/* The owner writes at random over all that its peers map. */
static void liar(struct target *t, unsigned seed)
{
    char line[512], name[256], *maps[8];
    size_t bytes[8];
    int n = 0;
    FILE *f = fopen("/proc/self/maps", "r");

    CHECK(f != NULL);
    while (n < 8 && fgets(line, sizeof(line), f)) {
        unsigned long from, to;
        char perms[8];
        name[0] = '\0';
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255[^\n]", &from, &to, perms, name) >= 3 &&
            strstr(name, "memfd:asymreg") && perms[1] == 'w') {
            maps[n] = (char *)from;
            bytes[n++] = to - from;
        }
    }
    fclose(f);
    CHECK(n > 0);
    send_all(t->sock, &n, sizeof(n));
    for (;;) {
        int k = rand_r(&seed) % n;
        size_t hot = rand_r(&seed) % 2 ? 512 : bytes[k], at = (size_t)rand_r(&seed) % hot & ~7ul;
        uint64_t *word = (uint64_t *)(void *)(maps[k] + at);
        switch (rand_r(&seed) % 4) {
        case 0: *word = UINT64_MAX; break;
        case 1: *word += 1; break;
        case 2: *word ^= UINT64_C(1) << rand_r(&seed) % 64; break;
        default: *word = (uint64_t)rand_r(&seed);
        }
    }
}

/* For every scribble: no crash, no hang, a defined answer each. */
static void of_a_peer_that_lies(void)
{
    enum { OPS = 30000, N = 16 };
    struct asymreg_bound b[N];
    struct target t;
    int pair[2], n;
    char *p;

    for (unsigned seed = 1; seed <= 4; seed++) {
        struct {
            uint64_t addr;
            ssize_t n;
            unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
        } h;
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
        if ((t.pid = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            t.sock = pair[0];
            owner = open_context(ASYMREG_LOCAL_SHM, 0, 256);
            p = segment(N * 64);
            for (int i = 0; i < N; i++)
                reg(p + i * 64, 64, ASYMREG_ALL);
            h.addr = (uintptr_t)p;
            h.n = asymreg_export(owner, h.blob, sizeof(h.blob), NULL);
            send_all(t.sock, &h, sizeof(h));
            CHECK(recv_all(t.sock, &n, sizeof(n)) == 0);
            liar(&t, seed);
        }
        close(pair[0]);
        t.sock = pair[1];
        CHECK(recv_all(t.sock, &h, sizeof(h)) == 0);
        user = open_context(ASYMREG_LOCAL_SHM, 0, 64);
        CHECK_EQ(asymreg_import(user, PE, h.blob, (size_t)h.n, NULL), 0);
        CHECK_EQ(asymreg_worker_create(user, &w), 0);
        for (int i = 0; i < N; i++)
            CHECK_EQ(asymreg_bind(w, PE, h.addr + (uint64_t)i * 64, 0, 64, &b[i]), 0);
        send_all(t.sock, &seed, sizeof(seed));
        CHECK(recv_all(t.sock, &n, sizeof(n)) == 0);
        unsigned r = seed;
        for (int i = 0; i < OPS; i++) {
            struct asymreg_bound *one = &b[rand_r(&r) % N], fresh;
            uint64_t x = 0, at = (uint64_t)rand_r(&r) % 8 * 8;
            int rc;
            switch (rand_r(&r) % 5) {
            case 0: rc = asymreg_bound_put(one, at, &x, 8); break;
            case 1: rc = asymreg_bound_get(one, at, &x, 8); break;
            case 2: rc = asymreg_bound_amo(one, at, ASYMREG_AMO_ADD, 8, 1, 0, &x); break;
            case 3: rc = asymreg_put(w, PE, h.addr + at, ASYMREG_ANY, &x, 8); break;
            default:
                if ((rc = asymreg_bind(w, PE, h.addr + at, ASYMREG_ANY, 8, &fresh)) == 0)
                    asymreg_unbind(&fresh);
            }
            CHECK(rc <= 0);
            if (i % 1000 == 0)
                (void)asymreg_refresh(user, PE);
        }
        for (int i = 0; i < N; i++)
            asymreg_unbind(&b[i]);
        asymreg_worker_destroy(w);
        asymreg_close(user);
        target_end(&t);
    }
}

/* Regions come and go while threads use their handles. Between two registrations the owner writes a
 * greater stamp into the memory: what a handle gets is never newer than its own registration. */
#define CHURN_REGIONS 32
static asymreg_id names[CHURN_REGIONS]; /* 0: in between */
static uint64_t stamps[CHURN_REGIONS];  /* when it was registered; in its memory at STAMP_AT */
#define STAMP_AT 8
static char *churned;
static int stop;

static void *uses_handles(void *arg)
{
    struct asymreg_bound b[CHURN_REGIONS];
    asymreg_id of[CHURN_REGIONS] = {0};
    uint64_t newest[CHURN_REGIONS] = {0}, stamp;
    struct asymreg_worker *mine;
    unsigned seed = (unsigned)(uintptr_t)arg;
    uint64_t x;
    int rc;

    memset(b, 0, sizeof(b));
    CHECK_EQ(asymreg_worker_create(user, &mine), 0);
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        int i = rand_r(&seed) % CHURN_REGIONS;
        asymreg_id id = __atomic_load_n(&names[i], __ATOMIC_ACQUIRE);
        stamp = __atomic_load_n(&stamps[i], __ATOMIC_ACQUIRE);
        if (!id || __atomic_load_n(&names[i], __ATOMIC_ACQUIRE) != id)
            continue; /* the stamp is another registration's */
        if (of[i] != id) {
            asymreg_unbind(&b[i]);
            of[i] = 0;
            rc = asymreg_bind(mine, PE, (uintptr_t)churned + (uintptr_t)i * 64, id, 64, &b[i]);
            CHECK(rc == 0 || rc == ASYMREG_ESTALE || rc == ASYMREG_EBUSY);
            if (rc < 0)
                continue;
            of[i] = id;
            newest[i] = stamp;
        }
        rc = asymreg_bound_put(&b[i], 0, &id, 8);
        CHECK(rc == 0 || rc == ASYMREG_ESTALE || rc == ASYMREG_EBUSY);
        rc = asymreg_bound_get(&b[i], STAMP_AT, &x, 8);
        CHECK(rc == 0 || rc == ASYMREG_ESTALE || rc == ASYMREG_EBUSY);
        CHECK(rc < 0 || x <= newest[i]);
    }
    for (int i = 0; i < CHURN_REGIONS; i++)
        asymreg_unbind(&b[i]);
    asymreg_worker_destroy(mine);
    return NULL;
}

static void beside_a_writer(void)
{
    enum { THREADS = 3, TIMES = 20000 };
    pthread_t threads[THREADS];
    unsigned seed = 1;

    setup(ASYMREG_LOCAL_SHM, 0);
    churned = segment(CHURN_REGIONS * 64);
    stop = 0;
    for (int i = 0; i < CHURN_REGIONS; i++)
        names[i] = reg(churned + i * 64, 64, ASYMREG_RW);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, uses_handles, (void *)(i + 1)) == 0);
    for (int k = 0; k < TIMES; k++) {
        int i = rand_r(&seed) % CHURN_REGIONS;
        CHECK_EQ(asymreg_unregister(owner, names[i]), 0);
        __atomic_store_n((uint64_t *)(void *)(churned + (size_t)i * 64 + STAMP_AT), (uint64_t)k + 1,
                         __ATOMIC_RELEASE);
        __atomic_store_n(&names[i], 0, __ATOMIC_RELEASE);
        __atomic_store_n(&stamps[i], (uint64_t)k + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&names[i], reg(churned + i * 64, 64, ASYMREG_RW), __ATOMIC_RELEASE);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    teardown();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"on_shared_memory", on_shared_memory},
    {"by_cma", by_cma},
    {"from_nowhere", from_nowhere},
    {"of_a_peer_that_drains", of_a_peer_that_drains},
    {"what_cannot_be_bound", what_cannot_be_bound},
    {"after_unregister", after_unregister},
    {"of_a_peer_that_closes", of_a_peer_that_closes},
    {"of_a_peer_that_is_killed", of_a_peer_that_is_killed},
    {"of_a_peer_that_lies", of_a_peer_that_lies},
    {"beside_a_writer", beside_a_writer},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        printf("%s\n", cases[i].name);
        fflush(stdout);
    }
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * [--no-pidfd=ENOSYS|EPERM]: asymreg_unregister_drain(). After its return no peer is inside a
 * transfer, and only the owner changes the memory. Over shared memory, CMA and both.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <pthread.h>
#include <sched.h>

#include "../../libasymreg/src/rma/context.h"

#define BYTES   ((size_t)8 << 20)
#define N_PEERS 2
#define LONG_MS 60000u

/* What owner and peers share. */
struct board {
    uint64_t round; /* peers write to `addr` in odd ones */
    uint64_t addr;
    asymreg_id id;
    uint64_t done[N_PEERS];    /* transfers */
    uint64_t refused[N_PEERS]; /* the round in which the region was found gone */
};

static struct board *board;
static uint64_t round_of(void)
{
    return __atomic_load_n(&board->round, __ATOMIC_ACQUIRE);
}

/* A peer: puts the whole region again and again, until it is refused. */
static void peer(int me, uint32_t mode, const void *blob, size_t n)
{
    struct asymreg_context *ctx = open_context(mode, 0, 0);
    struct asymreg_worker *w;
    char *buf = malloc(BYTES);
    uint64_t round = 0;
    int rc;

    memset(buf, 'x', BYTES);
    CHECK_EQ(asymreg_import(ctx, 1, blob, n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(ctx, &w), 0);
    for (;;) {
        while (round_of() == round || !(round_of() & 1))
            sched_yield();
        round = round_of();
        do {
            rc = asymreg_put(w, 1, board->addr, board->id, buf, BYTES);
            if (rc == 0)
                __atomic_fetch_add(&board->done[me], 1, __ATOMIC_RELEASE);
        } while (rc == 0);
        CHECK_EQ(rc, ASYMREG_ESTALE);
        __atomic_store_n(&board->refused[me], round, __ATOMIC_RELEASE);
    }
}

struct world {
    struct asymreg_context *ctx;
    pid_t peers[N_PEERS];
    char *memory;
};

static void world_init(struct world *w, uint32_t mode)
{
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    void *p = NULL;
    ssize_t n;

    memset(board, 0, sizeof(*board));
    w->ctx = open_context(mode, ASYMREG_DRAIN, 0);
    n = asymreg_export(w->ctx, blob, sizeof(blob), NULL);
    CHECK(n > 0 && n < 512);
    if (mode == ASYMREG_LOCAL_CMA)
        p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else
        CHECK_EQ(asymreg_segment_alloc(w->ctx, BYTES, &p, NULL), 0);
    w->memory = p;
    fflush(stdout);
    for (int i = 0; i < N_PEERS; i++) {
        if ((w->peers[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            peer(i, mode, blob, (size_t)n);
        }
        CHECK(w->peers[i] > 0);
    }
}

static void world_fini(struct world *w)
{
    for (int i = 0; i < N_PEERS; i++) {
        kill(w->peers[i], SIGKILL);
        waitpid(w->peers[i], NULL, 0);
    }
    asymreg_close(w->ctx);
}

/* Registers, and waits until each peer has put the whole region once. */
static void start_round(struct world *w)
{
    uint64_t before[N_PEERS];

    CHECK_EQ(asymreg_register(w->ctx, w->memory, BYTES, ASYMREG_RW, NULL, &board->id, NULL), 0);
    board->addr = (uintptr_t)w->memory;
    memcpy(before, board->done, sizeof(before));
    __atomic_fetch_add(&board->round, 1, __ATOMIC_ACQ_REL);
    for (int i = 0; i < N_PEERS; i++)
        while (__atomic_load_n(&board->done[i], __ATOMIC_ACQUIRE) == before[i]) {
            CHECK(waitpid(w->peers[i], NULL, WNOHANG) == 0);
            sched_yield();
        }
}

/* All live peers have been refused, and none writes. */
static void end_round(struct world *w, int first)
{
    for (int i = first; i < N_PEERS; i++)
        while (__atomic_load_n(&board->refused[i], __ATOMIC_ACQUIRE) != round_of()) {
            CHECK(waitpid(w->peers[i], NULL, WNOHANG) == 0);
            sched_yield();
        }
    __atomic_fetch_add(&board->round, 1, __ATOMIC_ACQ_REL);
}

static void stays_zero(struct world *w)
{
    memset(w->memory, 0, BYTES);
    for (int i = 0; i < 3; i++) {
        CHECK(w->memory[0] == 0 && memcmp(w->memory, w->memory + 1, BYTES - 1) == 0);
        usleep(1000);
    }
}

static void in_the_middle(struct world *w)
{
    for (int i = 0; i < 30; i++) {
        start_round(w);
        usleep((useconds_t)(i * 37 % 50) * 100);
        if (i % 2) {
            CHECK_EQ(asymreg_unregister_drain(w->ctx, board->id, LONG_MS, NULL), 0);
        } else {
            CHECK_EQ(asymreg_unregister(w->ctx, board->id), 0);
            CHECK_EQ(asymreg_unregister_drain(w->ctx, ASYMREG_ANY, LONG_MS, NULL), 0);
        }
        stays_zero(w);
        end_round(w, 0);
        CHECK_EQ(asymreg_unregister_drain(w->ctx, board->id, LONG_MS, NULL), ASYMREG_ESTALE);
    }
    CHECK_EQ(asymreg_unregister_drain(w->ctx, ASYMREG_ANY, 0, NULL), 0); /* nobody is inside */
}

static int is_inside(const struct world *w, pid_t pid)
{
    for (uint32_t i = 0; i < ASYMREG__ACTIVITY_SLOTS; i++) {
        const struct asymreg__activity_slot *s = &w->ctx->activity->slots[i];

        if (s->process >> 32 == (uint64_t)pid && s->busy)
            return 1;
    }
    return 0;
}

/* The drain waits for a peer that is stopped inside until the timeout, repeatedly; it does not wait
 * for one that dies there. */
static void stopped(struct world *w)
{
    int seen = 0, dead = 0, status;

    for (int i = 0; i < 200 && !dead; i++) {
        start_round(w);
        CHECK(kill(w->peers[0], SIGSTOP) == 0);
        CHECK(waitpid(w->peers[0], &status, WUNTRACED) == w->peers[0] && WIFSTOPPED(status));
        const int inside = is_inside(w, w->peers[0]);
        int rc = asymreg_unregister_drain(w->ctx, board->id, 20, NULL);
        CHECK(rc == ASYMREG_ETIMEDOUT ||
              (rc == 0 &&
               !inside)); /* the others are inside for as long as a busy machine lets them */
        if (inside) {
            CHECK_EQ(asymreg_unregister_drain(w->ctx, ASYMREG_ANY, 1, NULL), ASYMREG_ETIMEDOUT);
            dead = ++seen == 3;
        }
        if (dead) {
            CHECK(kill(w->peers[0], SIGKILL) == 0);
            CHECK_EQ(asymreg_unregister_drain(w->ctx, ASYMREG_ANY, LONG_MS, NULL), 0);
        } else {
            CHECK(kill(w->peers[0], SIGCONT) == 0);
            CHECK_EQ(asymreg_unregister_drain(w->ctx, ASYMREG_ANY, LONG_MS, NULL), 0);
        }
        stays_zero(w);
        end_round(w, dead);
    }
    CHECK(dead);
}

static uint32_t slots_taken(struct asymreg_context *ctx)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < ASYMREG__ACTIVITY_SLOTS; i++)
        n += ctx->activity->slots[i].process != 0;
    return n;
}

/* Refusals, and the release of the mark that shows a peer inside. */
static void one_process(uint32_t mode)
{
    struct asymreg_context *ctx = open_context(mode, ASYMREG_DRAIN, 0),
                           *user = open_context(mode, 0, 0);
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_worker *w[3];
    void *p = malloc(64);
    asymreg_id id, again;
    ssize_t n;
    char c;

    memset(blob, 0xa5, sizeof(blob)); /* no byte of the blob stays */
    CHECK((n = asymreg_export(ctx, blob, sizeof(blob), NULL)) > 0);
    if (mode == ASYMREG_LOCAL_SHM) {
        free(p);
        CHECK_EQ(asymreg_segment_alloc(ctx, 64, &p, NULL), 0);
    }
    CHECK_EQ(asymreg_register(ctx, p, 64, ASYMREG_RW, NULL, &id, NULL), 0);
    CHECK_EQ(asymreg_register(ctx, p, 64, ASYMREG_RW, FLAGS(ASYMREG_SHARE), &again, NULL), 0);
    CHECK_EQ(asymreg_unregister_drain(ctx, id, 0, NULL), ASYMREG_EBUSY);
    CHECK_EQ(asymreg_unregister(ctx, id), 0);
    for (uint32_t pe = 4; pe < 6; pe++)
        CHECK_EQ(asymreg_import(user, pe, blob, (size_t)n, NULL), 0);
    CHECK_EQ(slots_taken(ctx), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(asymreg_worker_create(user, &w[i]), 0);
        for (uint32_t pe = 4; pe < 6; pe++)
            CHECK_EQ(asymreg_get(w[i], pe, (uintptr_t)p, 0, &c, 1), 0);
    }
    CHECK_EQ(slots_taken(ctx), 6);
    asymreg_worker_destroy(w[0]);
    CHECK_EQ(slots_taken(ctx), 4);
    CHECK_EQ(asymreg_forget(user, 4), 0);
    CHECK_EQ(slots_taken(ctx), 2);
    CHECK_EQ(asymreg_unregister_drain(ctx, ASYMREG_ANY, 0, NULL), 0);
    CHECK_EQ(asymreg_get(w[1], 4, (uintptr_t)p, 0, &c, 1), ASYMREG_ENOPEER);
    CHECK_EQ(asymreg_get(w[1], 5, (uintptr_t)p, 0, &c, 1), 0);
    CHECK_EQ(asymreg_unregister_drain(ctx, id, 0, NULL), 0);
    CHECK_EQ(asymreg_get(w[1], 5, (uintptr_t)p, id, &c, 1), ASYMREG_ESTALE);
    asymreg_worker_destroy(w[1]);
    asymreg_worker_destroy(w[2]);
    asymreg_close(user);
    CHECK_EQ(slots_taken(ctx), 0);
    asymreg_close(ctx);

    /* Without ASYMREG_DRAIN: refused, and nothing has changed. */
    ctx = open_context(0, 0, 0);
    CHECK_EQ(asymreg_register(ctx, &c, 1, ASYMREG_RW, NULL, &id, NULL), 0);
    struct asymreg_error err = {0};
    CHECK_EQ(asymreg_unregister_drain(ctx, id, 0, &err), ASYMREG_ENOTSUP);
    CHECK_EQ(err.code, ASYMREG_ENOTSUP);
    CHECK(strstr(err.text, "ASYMREG_DRAIN") != NULL);
    CHECK_EQ(asymreg_unregister_drain(ctx, ASYMREG_ANY, 0, NULL), ASYMREG_ENOTSUP);
    CHECK_EQ(asymreg_unregister(ctx, id), 0);
    asymreg_close(ctx);
    if (mode != ASYMREG_LOCAL_SHM)
        free(p);
}

/* The slots in which peers mark their activity run out, and dead peers' slots are reused. */
static void places(void)
{
    struct asymreg__activity *a =
        mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct asymreg__activity_slot *s = NULL, *first = NULL;
    uint32_t fence;
    int all_fence;
    pid_t child;

    CHECK(a != MAP_FAILED);
    CHECK_EQ(asymreg__activity_check(a), ASYMREG_ETABLE);
    all_fence = asymreg__activity_init(a);
    CHECK_EQ(asymreg__activity_check(a), 0);
    if ((child = fork()) == 0) { /* dies while it is inside */
        for (uint32_t i = 0; i < ASYMREG__ACTIVITY_SLOTS - 1; i++) {
            CHECK_EQ(asymreg__activity_claim(a, 5, &s, &fence), 0);
            asymreg__activity_enter(s, 1, fence);
        }
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_EQ(asymreg__activity_drain(a, all_fence, 0), 0);
    for (uint32_t i = 0; i < ASYMREG__ACTIVITY_SLOTS; i++) {
        CHECK_EQ(asymreg__activity_claim(a, 6 + i % 2, &s, &fence), 0);
        CHECK_EQ(s->busy, 0);
        if (!first)
            first = s;
    }
    CHECK_EQ(asymreg__activity_claim(a, 6, &s, &fence), ASYMREG_EFULL);
    asymreg__activity_enter(first, 9, fence);
    CHECK_EQ(asymreg__activity_drain(a, all_fence, 0), ASYMREG_ETIMEDOUT); /* this process lives */
    asymreg__activity_exit(first);
    CHECK_EQ(asymreg__activity_drain(a, all_fence, 0), 0);
    asymreg__activity_release_all(a, 7);
    for (uint32_t i = 0; i < ASYMREG__ACTIVITY_SLOTS / 2; i++)
        CHECK_EQ(asymreg__activity_claim(a, 8, &s, &fence), 0);
    CHECK_EQ(asymreg__activity_claim(a, 8, &s, &fence), ASYMREG_EFULL);
    /* Nonsense by a hostile peer delays a drain only until its timeout. */
    memset(a->slots, 0x5a, sizeof(a->slots));
    a->n_used = UINT32_MAX;
    int rc = asymreg__activity_drain(a, all_fence, 1);
    CHECK(rc == 0 || rc == ASYMREG_ETIMEDOUT);
    /* Nor does such a count lead beyond the slots: their last page has room for one more. */
    struct asymreg__activity_slot *beyond = (void *)(a + 1);
    memset(a->slots, 0, sizeof(a->slots));
    beyond->process = (uint64_t)getpid() << 32;
    beyond->tag = 9;
    beyond->busy = 1;
    CHECK_EQ(asymreg__activity_drain(a, all_fence, 0), 0);
    asymreg__activity_release_all(a, 9);
    CHECK_EQ(beyond->busy, 1);
    munmap(a, sizeof(*a));
}

static void *wait_for_ever(void *arg)
{
    pause();
    return arg;
}

/* A process whose first thread has ended may still write; one without threads may not, reaped or
 * not. */
static void last_thread(void)
{
    struct asymreg__activity *a =
        mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    siginfo_t info;
    int all_fence;
    pid_t child;
    pthread_t other;

    CHECK(a != MAP_FAILED);
    all_fence = asymreg__activity_init(a);
    if ((child = fork()) == 0) {
        struct asymreg__activity_slot *s;
        uint32_t fence;
        CHECK_EQ(asymreg__activity_claim(a, 5, &s, &fence), 0);
        asymreg__activity_enter(s, 1, fence);
        CHECK(pthread_create(&other, NULL, wait_for_ever, NULL) == 0);
        pthread_exit(NULL);
    }
    CHECK(child > 0);
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
    while (state != 'Z') {
        FILE *f = fopen(path, "re");
        CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1);
        fclose(f);
        usleep(1000);
    }
    CHECK_EQ(asymreg__activity_drain(a, all_fence, 20), ASYMREG_ETIMEDOUT);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    CHECK_EQ(asymreg__activity_drain(a, all_fence, LONG_MS), 0);
    CHECK(waitpid(child, NULL, 0) == child);
    munmap(a, sizeof(*a));
}

/* A child that frees its parent's worker does not free the slot in which the worker marks its
 * activity at a peer. */
static void worker_of_a_parent(void)
{
    struct asymreg_context *owner = open_context(0, ASYMREG_DRAIN, 0),
                           *user = open_context(0, 0, 0);
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_worker *first, *second;
    char memory[8] = "";
    asymreg_id id;
    ssize_t n;
    int status;

    CHECK_EQ(asymreg_register(owner, memory, sizeof(memory), ASYMREG_RW, NULL, &id, NULL), 0);
    CHECK((n = asymreg_export(owner, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_import(user, 1, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(user, &first), 0);
    CHECK_EQ(asymreg_put(first, 1, (uintptr_t)memory, id, "a", 1), 0);
    CHECK(owner->activity->slots[0].process != 0);
    fflush(stdout);
    if (fork() == 0) {
        asymreg_worker_destroy(first);
        asymreg_close(user);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(asymreg_worker_create(user, &second), 0);
    CHECK_EQ(asymreg_put(second, 1, (uintptr_t)memory, id, "b", 1), 0);
    CHECK_EQ(owner->activity->n_used, 2); /* each has its own */
    asymreg_worker_destroy(first);
    asymreg_worker_destroy(second);
    CHECK(owner->activity->slots[0].process == 0 && owner->activity->slots[1].process == 0);
    asymreg_close(user);
    asymreg_close(owner);
    puts("worker_of_a_parent");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint32_t mode;
    } modes[] = {{"shm", ASYMREG_LOCAL_SHM},
                 {"cma", ASYMREG_LOCAL_CMA},
                 {"both", ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA}};

    no_pidfd_asked(argv[1]);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED);
    places();
    last_thread();
    for (size_t m = 0; m < 3; m++) {
        struct world w;
        one_process(modes[m].mode);
        world_init(&w, modes[m].mode);
        in_the_middle(&w);
        printf("in_the_middle %s\n", modes[m].name);
        stopped(&w);
        printf("stopped %s\n", modes[m].name);
        world_fini(&w);
    }
    worker_of_a_parent();
    return 0;
}

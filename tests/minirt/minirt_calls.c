/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call of minirt, in a job: teams, barriers, windows of all kinds, operations, and refused
 * calls. The scratch folder is argv[1]; with `leave` or `leave_team` in argv[2], rank 1 leaves in
 * the middle, and with `no_descriptor` it runs out of them: all others must get an error. */
#include <fcntl.h>
#include <minirt.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int PMI2_Finalize(void);

static struct minirt *rt;
static struct minirt_team *world;
static uint32_t me, n, n_nodes;

#define CHECK_END() (fprintf(stderr, "rank %u: %s\n", me, rt ? minirt_why(rt) : ""), exit(1))
#include "../check.h"
#define SAYS(text) CHECK(strstr(minirt_why(rt), text) != NULL)

/* The team's ranks are these processes, and its members agree by barriers of their own. */
static void check_team(struct minirt_team *t, uint32_t first, int64_t stride, uint32_t size)
{
    uint64_t least;

    CHECK(minirt_size(t) == size);
    for (uint32_t r = 0; r < size; r++)
        CHECK(rankmap_id(minirt_map(t), r) == (uint64_t)(first + stride * r));
    CHECK(rankmap_id(minirt_map(t), minirt_rank(t)) == me);
    for (int i = 0; i < 20; i++) {
        least = 1000 + (uint64_t)((minirt_rank(t) + (uint32_t)i) % size);
        CHECK(minirt_min(t, &least) == 0 && least == 1000);
    }
    CHECK(minirt_barrier(t) == 0);
}

static void teams(void)
{
    struct minirt_team *t, *u, *many[MINIRT_MAX_TEAMS];
    uint32_t columns = n > 2 ? 2 : 1, rest = n - me / columns * columns, i;
    struct rankmap *ranks;
    uint32_t here = n / n_nodes; /* the launcher fills nodes one after the other */

    check_team(world, 0, 1, n);
    CHECK(minirt_team_dup(world, &t) == 0);
    check_team(t, 0, 1, n);
    CHECK(minirt_team_reverse(t, &u) == 0);
    check_team(u, n - 1, -1, n);
    CHECK(minirt_team_free(t) == 0);
    CHECK(minirt_team_reverse(u, &t) == 0); /* a team outlives its parent */
    check_team(t, 0, 1, n);
    CHECK(minirt_team_free(u) == 0 && minirt_team_free(t) == 0);
    CHECK(minirt_team_row(world, columns, &t) == 0);
    check_team(t, me / columns * columns, 1, rest < columns ? rest : columns);
    CHECK(minirt_team_column(world, columns, &u) == 0);
    check_team(u, me % columns, columns, (n - me % columns + columns - 1) / columns);
    check_team(t, me / columns * columns, 1, rest < columns ? rest : columns);
    CHECK(minirt_team_free(t) == 0 && minirt_team_free(u) == 0);
    CHECK(minirt_team_every(world, 3, &t) == 0);
    check_team(t, me % 3, 3, (n - me % 3 + 2) / 3);
    CHECK(minirt_team_free(t) == 0);
    CHECK(n % n_nodes == 0 && minirt_team_node(world, &t) == 0);
    check_team(t, me / here * here, 1, here);
    CHECK(minirt_team_free(t) == 0);

    /* A team of some ranks, with the others outside. */
    CHECK(rankmap_from_ids(n > 2 ? (uint32_t[]){2, 0} : (uint32_t[]){0}, sizeof(uint32_t),
                           n > 2 ? 2 : 1, NULL, &ranks, NULL) == 0);
    CHECK(minirt_team_from(world, ranks, &t) == 0);
    CHECK((t == NULL) == (me != 0 && !(n > 2 && me == 2)));
    if (t)
        check_team(t, n > 2 ? 2 : 0, -2, n > 2 ? 2 : 1);
    CHECK(minirt_team_free(t) == 0);
    rankmap_unref(ranks);

    /* The maximal number of teams, one more, and again. */
    for (i = 0; i < MINIRT_MAX_TEAMS - 1; i++)
        CHECK(minirt_team_dup(world, &many[i]) == 0);
    CHECK(minirt_team_dup(world, &t) == MINIRT_ENOMEM);
    SAYS("no slot");
    while (i-- > 0)
        CHECK(minirt_team_free(many[i]) == 0);
    CHECK(minirt_team_dup(world, &t) == 0);
    check_team(t, 0, 1, n);
    CHECK(minirt_team_free(t) == 0);
    CHECK(minirt_team_free(world) == MINIRT_EINVAL &&
          minirt_team_every(world, 0, &t) == MINIRT_EINVAL &&
          minirt_team_row(world, 0, &t) == MINIRT_EINVAL);
}

/* Each rank puts a pattern over all of its left neighbour's window, and reads it back through
 * another team. */
static void use(struct minirt_window *w, uint64_t bytes)
{
    uint32_t to = (me + n - 1) % n;
    unsigned char *pattern = malloc(bytes), *back = malloc(bytes), *mine = minirt_window_base(w);
    struct minirt_team *reversed;
    uint64_t at;

    CHECK(pattern && back);
    for (uint64_t i = 0; i < bytes; i++)
        pattern[i] = (unsigned char)(i * 7 + me * 31 + i / 256);
    CHECK(minirt_window_at(w, world, to, 0, &at) == 0);
    CHECK(minirt_put(world, to, at, pattern, bytes) == 0 && minirt_barrier(world) == 0);
    for (uint64_t i = 0; i < bytes; i++)
        CHECK(mine[i] == (unsigned char)(i * 7 + (me + 1) % n * 31 + i / 256));
    CHECK(minirt_team_reverse(world, &reversed) == 0);
    CHECK(minirt_window_at(w, reversed, n - 1 - to, 1, &at) == 0 &&
          minirt_get(reversed, n - 1 - to, at, back, bytes - 1) == 0);
    CHECK(memcmp(back, pattern + 1, bytes - 1) == 0);
    CHECK(minirt_get(world, to, at, back, bytes) == MINIRT_EREMOTE);
    /* An operation may cross into the next part of a window: behind the last there is none. */
    SAYS("not within the region");
    CHECK(minirt_team_free(reversed) == 0);
    free(pattern);
    free(back);
}

static void atomics(struct minirt_window *w)
{
    uint64_t at, before, swaps = 0, *mine = minirt_window_base(w);
    const char *transport = getenv("MINIRT_TRANSPORT");

    memset(mine, 0, 64);
    CHECK(minirt_barrier(world) == 0 && minirt_window_at(w, world, 0, 8, &at) == 0);
    if (transport && strcmp(transport, "cma") == 0) {
        CHECK(minirt_add(world, 0, at, 1, NULL) == MINIRT_ENOTSUP);
        SAYS("process_vm_writev cannot update atomically");
        return;
    }
    for (uint64_t i = 0; i < 50; i++) {
        CHECK(minirt_add(world, 0, at, 2, NULL) == 0 &&
              minirt_add(world, 0, at + 8, 1, &before) == 0 && before < 50u * n);
        do
            CHECK(minirt_get(world, 0, at + 16, &swaps, 8) == 0 &&
                  minirt_compare_swap(world, 0, at + 16, swaps, swaps + 3, &before) == 0);
        while (before != swaps);
    }
    CHECK(minirt_swap(world, 0, at + 24, me + 1, &before) == 0 && before <= n);
    CHECK(minirt_barrier(world) == 0);
    if (me == 0)
        CHECK(mine[1] == 100u * n && mine[2] == 50u * n && mine[3] == 150u * n && mine[4] >= 1 &&
              mine[4] <= n);
    CHECK(minirt_add(world, 0, at + 1, 1, NULL) == MINIRT_EREMOTE);
    CHECK(minirt_barrier(world) == 0);
}

static void windows(const char *dir)
{
    static const char *const kinds[] = {
        "alloc_type=memory",
        "alloc_type=storage",
        "alloc_type=storage; storage_alloc_factor=0.5",
        "alloc_type=storage; storage_alloc_factor=0.3; storage_alloc_order=storage_first",
        "alloc_type=storage; storage_alloc_pager=resident",
        "alloc_type=storage; storage_alloc_unlink=true"};
    struct minirt_window *w, *many[MINIRT_MAX_WINDOWS];
    char hints[4096], path[3000];
    struct minirt_team *every;
    uint64_t bytes = 50000, at;
    struct stat st;
    int rc;

    CHECK(minirt_window_create(world, bytes, NULL, &w) == 0);
    use(w, bytes);
    atomics(w);
    CHECK(minirt_put(world, n, 0, &bytes, 8) == MINIRT_EINVAL &&
          minirt_window_at(w, world, n, 0, &at) == MINIRT_EINVAL);
    CHECK(minirt_window_at(w, world, 0, bytes, &at) == 0 &&
          minirt_window_at(w, world, 0, bytes + 1, &at) == MINIRT_EINVAL);
    SAYS("offset 50001 of a window of rank 0 (process 0), which has 50000 bytes");
    CHECK(minirt_get(world, 0, 8, &at, 8) == MINIRT_EREMOTE);
    SAYS("get of 8 bytes, rank 0");
    CHECK(minirt_window_free(w) == 0);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        snprintf(hints, sizeof(hints), "%s; storage_alloc_filename=%s/w%zu.%%r", kinds[i], dir, i);
        snprintf(path, sizeof(path), "%s/w%zu.%u", dir, i, me);
        CHECK(minirt_window_create(world, bytes, hints, &w) == 0);
        CHECK((stat(path, &st) == 0) == (i > 0 && i < 5));
        use(w, bytes);
        CHECK(storwin_sync(minirt_window_storage(w), 0, STORWIN_TO_END, NULL) == 0);
        if (i == 1) { /* a neighbour's put is in the file */
            unsigned char byte = 0;
            int fd = open(path, O_RDONLY);

            CHECK(fd >= 0 && pread(fd, &byte, 1, 49999) == 1 &&
                  byte == (unsigned char)(49999 * 7 + (me + 1) % n * 31 + 49999 / 256));
            close(fd);
        }
        CHECK(minirt_window_free(w) == 0);
        CHECK(i == 0 || i == 5 || unlink(path) == 0);
    }

    /* Refused by all ranks if by one. */
    CHECK(minirt_window_create(world, 10, "alloc_typ=memory", &w) == MINIRT_EINVAL);
    SAYS("alloc_typ: unknown name");
    CHECK(minirt_window_create(world, 10, "alloc_type=storage", &w) == MINIRT_EWINDOW);
    SAYS("storage_alloc_filename");
    CHECK(minirt_window_create(world, 10, "alloc_type=tape", &w) == MINIRT_EINVAL);
    SAYS("alloc_type");
    CHECK(minirt_window_create(
              world, 10,
              "alloc_type=storage; storage_alloc_filename=/none; storage_alloc_pager=user",
              &w) == MINIRT_ENOTSUP);
    SAYS("storage_alloc_pager=user");
    snprintf(hints, sizeof(hints), "alloc_type=storage; storage_alloc_filename=%s/%sw.%%r", dir,
             me == n - 1 ? "no/such/" : "");
    snprintf(path, sizeof(path), "%s/w.%u", dir, me);
    CHECK(minirt_window_create(world, 5000, hints, &w) == MINIRT_EWINDOW);
    SAYS(me == n - 1 ? "storage_alloc_filename" : "another rank could not open the window");
    CHECK(minirt_barrier(world) == 0 &&
          stat(path, &st) < 0); /* where the file was created it is removed again */

    /* Different lengths, and no memory at all. */
    CHECK(minirt_window_create(world, me == 0 ? 0 : 8 * me, NULL, &w) == 0);
    CHECK(n == 1 || (minirt_window_at(w, world, n - 1, 8 * (n - 1) - 1, &at) == 0 &&
                     minirt_get(world, n - 1, at, hints, 1) == 0));
    CHECK(minirt_window_at(w, world, 0, 0, &at) == MINIRT_EINVAL);
    CHECK(minirt_window_free(w) == 0);

    /* A window of a part of the job; the world's ranks may use its address too. */
    CHECK(minirt_team_every(world, 2, &every) == 0);
    CHECK(minirt_window_create(every, 4096, NULL, &w) == 0);
    CHECK(minirt_team_free(every) == MINIRT_EINVAL);
    *(uint64_t *)minirt_window_base(w) = me;
    CHECK(minirt_barrier(world) == 0 && minirt_window_at(w, world, me % 2, 0, &at) == 0 &&
          minirt_get(world, me % 2, at, &bytes, 8) == 0 && bytes == me % 2);
    if (n > 1) { /* a rank of the other part has another window in this slot */
        CHECK(minirt_window_at(w, world, 1 - me % 2, 0, &at) == MINIRT_EINVAL);
        SAYS("no part of this window");
    }
    CHECK(minirt_window_free(w) == 0 && minirt_team_free(every) == 0);

    /* The maximal number, and one more. */
    for (uint32_t i = 0; i < MINIRT_MAX_WINDOWS; i++)
        CHECK(minirt_window_create(world, 100, NULL, &many[i]) == 0);
    rc = minirt_window_create(world, 100, NULL, &w);
    CHECK(rc == MINIRT_ENOMEM);
    SAYS("no slot of 64 is free");
    for (uint32_t i = 0; i < MINIRT_MAX_WINDOWS; i++)
        CHECK(minirt_window_free(many[i]) == 0);
}

/* Returns when every rank but rank 1 has called it. */
static void await_survivors(const char *dir)
{
    char path[4096];
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/survivor.%u", dir, me);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
    for (uint32_t r = 0; r < n; r++) {
        snprintf(path, sizeof(path), "%s/survivor.%u", dir, r);
        while (r != 1 && stat(path, &st) < 0)
            usleep(1000);
    }
}

/* Rank 1 leaves without notifying the others: an operation on it, and barriers that need it, fail
 * with its name. No other rank leaves before all have the error. With UCX, connections to other
 * ranks may end too. */
static void leave(const char *dir, bool exact)
{
    struct minirt_window *w;
    uint64_t at = 0, word = 0;
    int rc;

    CHECK(n > 2 && minirt_window_create(world, 4096, NULL, &w) == 0 &&
          minirt_window_at(w, world, 1, 0, &at) == 0);
    CHECK(minirt_put(world, 1, at, &word, 8) == 0 && minirt_barrier(world) == 0);
    if (me == 1) {
        usleep(300000);  /* the others are waiting by now */
        PMI2_Finalize(); /* the launcher sees a regular end */
        _exit(0);
    }
    if (me % 4 == 0) {
        do {
            rc = minirt_get(world, 1, at, &word, 8);
            sched_yield();
        } while (rc == 0);
        CHECK(rc == MINIRT_EPEER);
        SAYS("rank 1 (process 1)");
    }
    rc = minirt_barrier(world);
    CHECK(rc == MINIRT_EPEER);
    SAYS("has gone");
    SAYS(exact ? "(process 1)" : "process ");
    fprintf(stderr, "told: %s\n", minirt_why(rt));
    await_survivors(dir);
    PMI2_Finalize();
    minirt_fini(rt);
    exit(0);
}

/* Rank 1 has no descriptor left to connect to a partner: it, and not that one, is the reason of the
 * others. */
static void barrier_without_descriptor(struct minirt_team *t)
{
    struct rlimit limit;
    rlim_t before;
    int rc;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    before = limit.rlim_cur;
    limit.rlim_cur = me == 1 ? 3 : before;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    rc = minirt_barrier(t);
    limit.rlim_cur = before;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(rc == (me == 1 ? MINIRT_ESYSTEM : MINIRT_EPEER));
    SAYS(me == 1 ? "Too many open files" : "(process 1)");
}

/* Before the first barrier of a team in another order, in which every rank has partners that it has
 * not met, rank 1 leaves: ranks that cannot reach it end the barriers of those that wait for them.
 * Or it stays, without a descriptor. */
static void leave_team(const char *dir, bool leaves)
{
    uint32_t order[64];
    struct minirt_team *t;
    struct rankmap *ranks;

    CHECK(n == 8);
    for (uint32_t r = 0; r < n; r++)
        order[r] = 3 * r % n;
    CHECK(rankmap_from_ids(order, sizeof(order[0]), n, NULL, &ranks, NULL) == 0);
    CHECK(minirt_team_from(world, ranks, &t) == 0 && t);
    rankmap_unref(ranks);
    CHECK(minirt_barrier(world) == 0);
    if (leaves && me == 1) {
        PMI2_Finalize();
        _exit(0);
    }
    if (leaves) {
        usleep(300000); /* rank 1 has left */
        CHECK(minirt_barrier(t) < 0);
    } else {
        barrier_without_descriptor(t);
    }
    fprintf(stderr, "told: %s\n", minirt_why(rt));
    await_survivors(dir);
    PMI2_Finalize();
    minirt_fini(rt);
    exit(0);
}

int main(int argc, char **argv)
{
    struct minirt_info info;
    uint32_t rounds = 0;
    int rc;

    if (argc < 2)
        return 2;
    rc = minirt_init(&rt);
    CHECK(rc == 0);
    world = minirt_world(rt);
    me = minirt_rank(world);
    n = minirt_size(world);
    minirt_get_info(rt, &info);
    n_nodes = info.n_nodes;
    while (1u << rounds < n)
        rounds++;
    /* A rank that walks the ring has the addresses on the way too. */
    CHECK(info.n_peers <= 2 * rounds || strcmp(info.wireup, "ring") == 0);
    if (argc > 2 && strcmp(argv[2], "leave") != 0)
        leave_team(argv[1], strcmp(argv[2], "leave_team") == 0);
    if (argc > 2)
        leave(argv[1], strcmp(info.transport, "ucx") != 0);
    teams();
    windows(argv[1]);
    rc = minirt_fini(rt);
    rt = NULL;
    CHECK(rc == 0);
    if (me == 0)
        CHECK(printf("calls: %u ranks on %u nodes, all right\n", n, n_nodes) > 0 &&
              fflush(stdout) == 0);
    return 0;
}

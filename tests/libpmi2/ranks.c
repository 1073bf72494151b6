/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of the drop-in library's own tests: ranks MODE [ARGUMENT]. A rank that finds a fault prints
 * it and exits with 1; rank 0 prints "ok MODE".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pmi2.h"

static int rank, size;

#define CHECK_END() (fprintf(stderr, "rank %d\n", rank), _exit(1))
#include "../check.h"

static void init(void)
{
    int spawned, appnum;

    CHECK(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS);
}

static void counts(unsigned long *n_read, unsigned long *n_asked)
{
    CHECK(PMI2_SHMEM_Counts(n_read, n_asked) == PMI2_SUCCESS);
}

static void put(const char *key, const char *value)
{
    CHECK(PMI2_KVS_Put(key, value) == PMI2_SUCCESS);
}

static void fence(void)
{
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
}

static void expect(const char *key, const char *want)
{
    char value[PMI2_MAX_VALLEN + 1];
    int n = -7;

    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, value, sizeof(value), &n) == PMI2_SUCCESS);
    CHECK(n == (int)strlen(want) && strcmp(value, want) == 0);
}

/* Lengths from 1 to the maximum, with every byte that a value may have. */
static void fill(char *value, int length, unsigned seed)
{
    for (int i = 0; i < length; i++) {
        seed = seed * 1103515245u + 12345u;
        value[i] = (char)(33 + (seed >> 16) % 94);
    }
    value[length] = '\0';
}

static int n_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    CHECK(d != NULL);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Mappings of shared memory. Private ones come and go with the allocator. */
static int n_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, "/memfd:") || strstr(line, "/dev/shm/");
    fclose(f);
    return n;
}

/* ---- put, fence, get ---- */

/* Values of every length in many fences: the latest wins, and memory does not grow. */
static void do_rounds(int rounds)
{
    char key[64], value[PMI2_MAX_VALLEN + 1];
    int files = 0, maps = 0;

    for (int round = 0; round < rounds; round++) {
        snprintf(key, sizeof(key), "key-%d", rank);
        fill(value, 1 + (round * 37 + rank) % PMI2_MAX_VALLEN, (unsigned)(round * 1000 + rank));
        put(key, value);
        fence();
        for (int i = 0; i < size; i++) {
            const int r = (rank + i) % size;

            snprintf(key, sizeof(key), "key-%d", r);
            fill(value, 1 + (round * 37 + r) % PMI2_MAX_VALLEN, (unsigned)(round * 1000 + r));
            expect(key, value);
        }
        fence(); /* no rank puts the next round's before all have read this one's */
        if (round == 10) {
            files = n_entries("/proc/self/fd");
            maps = n_maps();
        }
    }
    CHECK(n_entries("/proc/self/fd") == files);
    CHECK(n_maps() == maps);
}

/* Gets while a fence is in flight; their pointers stay valid. */
static void do_ifence(const char *answers)
{
    unsigned long r0, a0, r1, a1;
    const char *kept;
    char key[64], mine[64], value[64];
    int n;

    for (int round = 0; round < 20; round++) {
        snprintf(mine, sizeof(mine), "key-%d", rank);
        snprintf(value, sizeof(value), "round %d of %d", round, rank);
        put(mine, value);
        CHECK(PMI2_KVS_Ifence() == PMI2_SUCCESS);
        if (round > 0 && strcmp(answers, "shm") == 0) {
            counts(&r0, &a0);
            for (int i = 0; i < size;
                 i++) { /* this round's or the last one's; the others may have put already */
                snprintf(key, sizeof(key), "key-%d", i);
                CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, value, sizeof(value), &n) ==
                      PMI2_SUCCESS);
                CHECK(n == (int)strlen(value) && n > 9);
            }
            counts(&r1, &a1);
            CHECK(r1 - r0 == (unsigned long)size && a1 == a0);
        }
        if (rank == 0)
            usleep(2000); /* the others delay a little */
        CHECK(PMI2_KVS_Wait() == PMI2_SUCCESS);
        CHECK(PMI2_KVS_Wait() != PMI2_SUCCESS);
        for (int i = 0; i < size; i++) {
            snprintf(key, sizeof(key), "key-%d", i);
            snprintf(value, sizeof(value), "round %d of %d", round, i);
            expect(key, value);
        }
        fence();
    }
    CHECK(PMIX_KVS_Ifence() == PMI2_SUCCESS);
    CHECK(PMIX_Wait() == PMI2_SUCCESS);
    CHECK(PMIX_Wait() != PMI2_SUCCESS);
    if (strcmp(answers, "shm") != 0) {
        CHECK(PMI2_SHMEM_KVS_Get("key-0", &kept, &n) == PMI2_ERR_OTHER);
        return;
    }
    CHECK(PMI2_SHMEM_KVS_Get("key-0", &kept, &n) == PMI2_SUCCESS);
    CHECK(strcmp(kept, "round 19 of 0") == 0 && n == (int)strlen(kept));
    fence(); /* all have it */
    if (rank == 0)
        put("key-0", "another");
    fence();
    expect("key-0", "another");
    CHECK(strcmp(kept, "round 19 of 0") == 0);
}

static void do_many(void)
{
    enum { N = 500 };
    static char names[N][32];
    const char *keys[N], *values[N];
    int lengths[N], found = -1;
    char value[64];

    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof(names[i]), i % 10 == 9 ? "absent-%d" : "many-%d", i);
        keys[i] = names[i];
        snprintf(value, sizeof(value), "value of %d", i);
        if (i % size == rank && i % 10 != 9)
            put(names[i], value);
    }
    fence();
    CHECK(PMI2_SHMEM_KVS_Get_many(N, keys, values, lengths, &found) == PMI2_SUCCESS);
    CHECK(found == N - N / 10);
    for (int i = 0; i < N; i++) {
        snprintf(value, sizeof(value), "value of %d", i);
        CHECK((values[i] == NULL) == (i % 10 == 9));
        CHECK(!values[i] || (strcmp(values[i], value) == 0 && lengths[i] == (int)strlen(value)));
    }
    CHECK(PMI2_SHMEM_KVS_Get_many(0, keys, values, lengths, &found) == PMI2_SUCCESS && found == 0);
    CHECK(PMI2_SHMEM_KVS_Get_many(-1, keys, values, lengths, &found) == PMI2_ERR_INVALID_ARG);
    keys[3] = "";
    CHECK(PMI2_SHMEM_KVS_Get_many(N, keys, values, lengths, &found) == PMI2_ERR_INVALID_KEY);
}

static void do_allgather(const char *answers)
{
    char *all = malloc((size_t)size * PMI2_MAX_VALLEN), value[PMI2_MAX_VALLEN + 1];
    const int shared = strcmp(answers, "shm") == 0;
    unsigned long r0, a0, r1, a1;
    int files = 0, maps = 0;

    CHECK(all != NULL);
    CHECK(PMIX_Allgather("", all) == PMI2_ERR_INVALID_VAL);
    fill(value, PMI2_MAX_VALLEN, 1);
    CHECK(PMIX_Allgather(value, all) == PMI2_ERR_INVALID_VAL_LENGTH);
    CHECK(PMIX_Allgather("x", NULL) == PMI2_ERR_INVALID_ARG);
    counts(&r0, &a0);
    for (int round = 0; round < 40; round++) {
        const void *values = NULL;
        void *waited = NULL;
        int stride = 0, told = 0;

        fill(value, round ? 1 + (round * 100 + rank) % (PMI2_MAX_VALLEN - 1) : PMI2_MAX_VALLEN - 1,
             (unsigned)(round + rank * 100));
        memset(all, 'x', (size_t)size * PMI2_MAX_VALLEN);
        switch (round % 4) {
        case 0: CHECK(PMIX_Allgather(value, all) == PMI2_SUCCESS); break;
        case 1:
            CHECK(PMIX_Iallgather(value, all) == PMI2_SUCCESS);
            CHECK(PMI2_KVS_Wait() != PMI2_SUCCESS);
            CHECK(PMIX_Wait() == PMI2_SUCCESS);
            break;
        case 2:
            CHECK(PMI2_Iallgather(value) == PMI2_SUCCESS);
            CHECK(PMI2_Iallgather_wait(all) == PMI2_SUCCESS);
            break;
        default:
            CHECK(PMI2_SHMEM_Iallgather(value) == PMI2_SUCCESS);
            if (round % 8 == 3)
                CHECK(PMI2_SHMEM_Iallgather_wait(&waited) == PMI2_SUCCESS);
            else
                CHECK(PMI2_SHMEM_Iallgather_wait_stride(&waited, &told) == PMI2_SUCCESS);
        }
        if (waited || shared) {
            CHECK(PMI2_SHMEM_Allgathered(&values, &stride) == PMI2_SUCCESS);
            CHECK(!waited || values == waited);
            CHECK(told == (round % 8 == 7 ? stride : 0));
            CHECK(shared ? stride < PMI2_MAX_VALLEN + 64 : stride == PMI2_MAX_VALLEN);
        } else {
            CHECK(PMI2_SHMEM_Allgathered(&values, &stride) == PMI2_ERR_OTHER);
        }
        if (round == 8) {
            files = n_entries("/proc/self/fd");
            maps = n_maps();
        }
        for (int i = 0; i < size; i++) {
            fill(value, round ? 1 + (round * 100 + i) % (PMI2_MAX_VALLEN - 1) : PMI2_MAX_VALLEN - 1,
                 (unsigned)(round + i * 100));
            CHECK(waited || strcmp(all + (size_t)i * PMI2_MAX_VALLEN, value) == 0);
            CHECK(!values || strcmp((const char *)values + (size_t)i * (size_t)stride, value) == 0);
        }
    }
    CHECK(n_entries("/proc/self/fd") == files && n_maps() == maps);
    counts(&r1, &a1);
    CHECK(shared ? a1 == a0 : r1 == r0);
    free(all);
}

/* ---- failures ---- */

/* More pairs than the table holds: the library asks the server, and finds all of them. */
static void do_full(void)
{
    unsigned long r0, a0, r1, a1;
    char key[64], value[PMI2_MAX_VALLEN + 1];
    const char *early;
    int n;

    put(rank ? "other" : "early", "bird");
    fence();
    CHECK(PMI2_SHMEM_KVS_Get("early", &early, &n) == PMI2_SUCCESS);
    for (int i = 0; i < 2000 / size; i++) {
        snprintf(key, sizeof(key), "big-%d-%d", rank, i);
        fill(value, PMI2_MAX_VALLEN, (unsigned)(i * size + rank));
        put(key, value);
    }
    if (rank == 0)
        put("early", "worm");
    fence();
    counts(&r0, &a0);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < 2000 / size; i += 7) {
            snprintf(key, sizeof(key), "big-%d-%d", r, i);
            fill(value, PMI2_MAX_VALLEN, (unsigned)(i * size + r));
            expect(key, value);
        }
    expect("early", "worm");
    counts(&r1, &a1);
    CHECK(r1 == r0 && a1 > a0);
    CHECK(strcmp(early, "bird") == 0); /* values handed out stay */
    CHECK(PMI2_SHMEM_KVS_Get("early", &early, &n) == PMI2_ERR_OTHER);
}

/* From now on no descriptor can be taken. */
static void use_up_descriptors(void)
{
    struct rlimit limit;
    int top = open("/dev/null", O_RDONLY);

    CHECK(top >= 0 && close(top) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)top;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* One Allgather comes as an array and the next does not: each has its own values. A Fence between
 * them does not change values that the first has handed out. */
static void do_one_array(void)
{
    char *all = calloc((size_t)size, PMI2_MAX_VALLEN), value[64];
    const void *values;
    void *waited;
    int stride;

    CHECK(all != NULL);
    for (int round = 0; round < 4; round++) {
        snprintf(value, sizeof(value), "%d of %d", round, rank);
        if (round % 2) {
            CHECK(PMI2_SHMEM_Iallgather(value) == PMI2_SUCCESS);
            CHECK(PMI2_SHMEM_Iallgather_wait(&waited) == PMI2_SUCCESS);
        } else {
            CHECK(PMIX_Allgather(value, all) == PMI2_SUCCESS);
        }
        fence();
        CHECK(PMI2_SHMEM_Allgathered(&values, &stride) ==
              (round == 2 ? PMI2_ERR_OTHER : PMI2_SUCCESS));
        for (int r = 0; r < size; r++) {
            snprintf(value, sizeof(value), "%d of %d", round, r);
            CHECK(round % 2 || strcmp(all + (size_t)r * PMI2_MAX_VALLEN, value) == 0);
            CHECK(round == 2 || strcmp((const char *)values + r * stride, value) == 0);
        }
        if (round == 1)
            use_up_descriptors();
    }
    /* Two at the same time, neither as an array: the server keeps the values of one. */
    for (int i = 0; i < 2; i++) {
        snprintf(value, sizeof(value), "%d at once of %d", i, rank);
        CHECK(PMI2_Iallgather(value) == PMI2_SUCCESS);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(PMI2_Iallgather_wait(all) == PMI2_SUCCESS);
        for (int r = 0; r < size; r++) {
            snprintf(value, sizeof(value), "%d at once of %d", i, r);
            CHECK(strcmp(all + (size_t)r * PMI2_MAX_VALLEN, value) == 0);
        }
    }
    free(all);
}

/* No descriptor is left to take the table's. */
static void do_no_descriptor(void)
{
    unsigned long n_read, n_asked;

    use_up_descriptors();
    init();
    put(rank ? "other" : "zero", "value");
    fence();
    expect("zero", "value");
    counts(&n_read, &n_asked);
    CHECK(n_read == 0 && n_asked == 1);
}

/* Before any fence, without a question to the server. */
static void do_mapping(void)
{
    char value[PMI2_MAX_VALLEN + 1];
    unsigned long n_read, n_asked;
    int length;

    CHECK(PMI2_KVS_Get(NULL, PMI2_ID_NULL, "PMI_process_mapping", value, sizeof(value), &length) ==
          PMI2_SUCCESS);
    CHECK(strncmp(value, "(vector,", 8) == 0);
    counts(&n_read, &n_asked);
    CHECK(n_read == 1 && n_asked == 0);
}

/* The name of a table's memory, as /proc shows it; not that of a program in a folder "shmht". */
static int is_table(const char *path)
{
    return strstr(path, "/memfd:shmht") || strstr(path, "/dev/shm/shmht-");
}

/* Every way in which a client could try to write. */
static void do_write(void)
{
    char line[512], path[64];
    unsigned long first, last;
    int n_maps = 0;
    FILE *maps;

    put(rank ? "other" : "zero", "value");
    fence();
    maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps)) {
        char prot[8];

        if (!is_table(line) || sscanf(line, "%lx-%lx %7s", &first, &last, prot) != 3)
            continue;
        n_maps++;
        CHECK(prot[1] == '-');
        CHECK(mprotect((void *)first, 4096, PROT_READ | PROT_WRITE) != 0);
    }
    fclose(maps);
    CHECK(n_maps > 0);
    for (int fd = 3; fd < 64; fd++) {
        char target[256] = "";
        int again;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof(target) - 1) < 0 || !is_table(target))
            continue;
        CHECK(ftruncate(fd, 0) != 0);
        CHECK(write(fd, "x", 1) < 0);
        CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
        again = open(path, O_RDWR); /* root may */
        CHECK(again < 0 ||
              (pwrite(again, "x", 1, 0) < 0 && ftruncate(again, 4096) != 0 &&
               mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED &&
               fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0));
        if (again >= 0)
            close(again);
    }
    expect("zero", "value");
}

/* Rank 1 dies: in its put, in the fence, or with the table mapped. */
static void do_die(const char *where)
{
    put(rank ? "other" : "zero", "value");
    if (strcmp(where, "put") == 0 && rank == 1)
        kill(getpid(), SIGKILL);
    if (strcmp(where, "fence") == 0 && rank == 1) {
        CHECK(PMI2_KVS_Ifence() == PMI2_SUCCESS);
        kill(getpid(), SIGKILL);
    }
    fence();
    expect("zero", "value");
    if (rank == 1)
        kill(getpid(), SIGKILL);
    fence();
    CHECK(!"reached");
}

/* Shared memory that still has a name in a file system. */
static int n_named(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        n += strstr(line, "/dev/shm/shmht-") && !strstr(line, "(deleted)");
    fclose(maps);
    return n;
}

/* The server dies while the ranks are in a fence: an error, not a hang. Values already read stay
 * valid. */
static void do_orphans(const char *report)
{
    const char *value;
    int n, rc;
    FILE *f;

    put(rank ? "other" : "zero", "value");
    fence();
    CHECK(PMI2_SHMEM_KVS_Get("zero", &value, &n) == PMI2_SUCCESS);
    CHECK(prctl(PR_SET_PDEATHSIG, 0) == 0); /* pmirun's ranks would die with it */
    fence();
    CHECK(n_named() == 0); /* no process could revoke it */
    if (rank == 0) {
        usleep(200000); /* the others are in the fence by now */
        kill(atoi(getenv("RANKS_SERVER")), SIGKILL);
        _exit(0);
    }
    alarm(50); /* pmirun's limit has ended with pmirun */
    rc = PMI2_KVS_Fence();
    f = fopen(report, "a");
    if (f && rc != PMI2_SUCCESS && strcmp(value, "value") == 0 &&
        PMI2_KVS_Put("late", "x") != PMI2_SUCCESS && PMI2_Finalize() != PMI2_SUCCESS)
        fprintf(f, "ended well\n");
    if (f)
        fclose(f);
    _exit(0);
}

/* Threads share the library. */
static void *thread_main(void *arg)
{
    for (int i = 0; i < 2000; i++)
        expect(i % 2 ? "zero" : "other", "value");
    return NULL;
}

static void do_threads(void)
{
    pthread_t threads[4];

    put(rank ? "other" : "zero", "value");
    fence();
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, thread_main, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* A caller need not ask whether an attribute was found, as Flux's pmi2_info does not. */
static void do_attributes(void)
{
    char value[PMI2_MAX_ATTRVALUE + 1] = "";
    int n, array[1] = {0};

    CHECK(PMI2_Info_GetJobAttr("universeSize", value, sizeof(value), NULL) == PMI2_SUCCESS);
    CHECK(atoi(value) >= size);
    CHECK(PMI2_Info_GetJobAttrIntArray("universeSize", array, 1, &n, NULL) == PMI2_SUCCESS);
    CHECK(n == 1 && array[0] == atoi(value));
    CHECK(PMI2_Info_GetJobAttr("none", value, sizeof(value), NULL) == PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_Info_GetNodeAttr("none", value, sizeof(value), NULL, 0) == PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_Info_GetJobAttrIntArray("none", array, 1, &n, NULL) == PMI2_ERR_INVALID_KEY);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";

    if (strcmp(mode, "no-descriptor") == 0)
        do_no_descriptor();
    else
        init();
    if (strcmp(mode, "rounds") == 0)
        do_rounds(atoi(argument));
    else if (strcmp(mode, "mapping") == 0)
        do_mapping();
    else if (strcmp(mode, "ifence") == 0)
        do_ifence(argument);
    else if (strcmp(mode, "many") == 0)
        do_many();
    else if (strcmp(mode, "allgather") == 0)
        do_allgather(argument);
    else if (strcmp(mode, "one-array") == 0)
        do_one_array();
    else if (strcmp(mode, "full") == 0)
        do_full();
    else if (strcmp(mode, "write") == 0)
        do_write();
    else if (strcmp(mode, "die") == 0)
        do_die(argument);
    else if (strcmp(mode, "orphans") == 0)
        do_orphans(argument);
    else if (strcmp(mode, "threads") == 0)
        do_threads();
    else if (strcmp(mode, "attributes") == 0)
        do_attributes();
    else
        CHECK(strcmp(mode, "no-descriptor") == 0);
    CHECK(PMI2_Finalize() == PMI2_SUCCESS);
    if (rank == 0)
        printf("ok %s\n", mode);
    CHECK(fflush(stdout) == 0);
    return 0;
}

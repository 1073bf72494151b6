/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shmht_contract processes|threads <keys> <puts>: the readers' contract (shmht.h). One writer
 * inserts, updates, deletes, merges and grows its table from the least size, while four readers
 * look up without pause: as processes with their own mappings, or as threads on the writer's view
 * (where ThreadSanitizer sees all accesses).
 *
 * The writer publishes its progress in memory beside the table: floor[i] is the version of key i
 * whose put has returned. A reader's next Get must find the version that it loads there, with
 * acquire, or a later one. Each reader also checks that no value is torn, no version goes back, no
 * key appears that was never put, pointers keep what they point to, and a walk through the log
 * meets every key that was there when it began. Each eighth key is deleted after half of its puts:
 * a reader may not find it, but if it does, all of this holds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define N_READERS 4
#define N_HELD    64

struct shared {
    sem_t reading; /* posted by each reader after its first round */
    _Atomic uint32_t done;
    _Atomic uint64_t gets[N_READERS]; /* while the writer wrote */
    _Atomic uint32_t floor[];         /* by key: 0 before it is put */
};

struct reader {
    struct shmht_reader *r;
    struct shared *shared;
    uint64_t n_keys;
    int number;
    int fd;         /* of the object; -1: a thread on the writer's view */
    uint32_t *seen; /* by key */
    uint64_t rng;
    struct shmht_bytes held[N_HELD];
    uint64_t held_key[N_HELD];
    uint32_t held_version[N_HELD];
};

static int is_deleted_often(uint64_t i)
{
    return i % 8 == 7;
}

static void check_one(struct reader *me, uint64_t i, uint32_t floor,
                      const struct shmht_bytes *value)
{
    int64_t version;

    if (!value->ptr) {
        CHECK(floor == 0 || is_deleted_often(i));
        return;
    }
    version = version32(value, i);
    CHECK(version > 0);
    CHECK(version >= floor);
    CHECK(version >= me->seen[i]);
    me->seen[i] = (uint32_t)version;
}

static void get_one(struct reader *me)
{
    uint64_t i = next_random(&me->rng) % me->n_keys, h = next_random(&me->rng) % N_HELD;
    uint32_t floor = atomic_load_explicit(&me->shared->floor[i], memory_order_acquire);
    struct shmht_bytes value = {NULL, 0};
    char key[16];
    int rc;

    key16(key, i);
    rc = shmht_get(me->r, key, 16, &value);
    CHECK(rc == 0 || rc == SHMHT_ENOENT);
    check_one(me, i, floor, &value);
    if (me->held[h].ptr) /* an old pointer still has the old value */
        CHECK(version32(&me->held[h], me->held_key[h]) == me->held_version[h]);
    if (value.ptr) {
        me->held[h] = value;
        me->held_key[h] = i;
        me->held_version[h] = me->seen[i];
    }
    key[0] = 'x';
    CHECK(shmht_get(me->r, key, 16, &value) == SHMHT_ENOENT);
}

static void get_batch(struct reader *me)
{
    struct shmht_bytes keys[SHMHT_BATCH], values[SHMHT_BATCH];
    char names[SHMHT_BATCH][16];
    uint64_t which[SHMHT_BATCH];
    uint32_t floors[SHMHT_BATCH];

    for (unsigned j = 0; j < SHMHT_BATCH; j++) {
        which[j] = next_random(&me->rng) % me->n_keys;
        floors[j] = atomic_load_explicit(&me->shared->floor[which[j]], memory_order_acquire);
        key16(names[j], which[j]);
        keys[j] = (struct shmht_bytes){names[j], 16};
    }
    CHECK(shmht_get_many(me->r, keys, SHMHT_BATCH, values) >= 0);
    for (unsigned j = 0; j < SHMHT_BATCH; j++)
        check_one(me, which[j], floors[j], &values[j]);
}

static void walk(struct reader *me, unsigned char *met)
{
    struct shmht_iter it = {0};
    struct shmht_bytes key, value;
    int rc;

    for (uint64_t i = 0; i < me->n_keys; i++)
        met[i] = atomic_load_explicit(&me->shared->floor[i], memory_order_acquire) == 0;
    while ((rc = shmht_reader_next(me->r, &it, &key, &value)) == 1) {
        uint64_t i = 0;

        CHECK(key.len == 16);
        for (int d = 8; d < 16; d++)
            i = i * 10 + (uint64_t)(((const char *)key.ptr)[d] - '0');
        CHECK(i < me->n_keys && version32(&value, i) > 0);
        met[i] = 1;
    }
    CHECK(rc == 0);
    for (uint64_t i = 0; i < me->n_keys; i++)
        CHECK(met[i] || is_deleted_often(i));
}

static void *read_until_done(void *arg)
{
    struct reader *me = arg;
    unsigned char *met = malloc(me->n_keys);
    uint64_t n = 0;

    CHECK(met != NULL);
    me->seen = calloc(me->n_keys, sizeof(*me->seen));
    CHECK(me->seen != NULL);
    while (!atomic_load_explicit(&me->shared->done, memory_order_acquire)) {
        for (int k = 0; k < 50; k++)
            get_one(me);
        get_batch(me);
        if (me->fd >= 0) { /* attaching also works during growth */
            struct shmht_reader *another;

            CHECK(shmht_reader_attach(NULL, me->fd, NULL, &another, NULL) == 0);
            shmht_reader_detach(another);
        }
        if (++n == 1)
            CHECK(sem_post(&me->shared->reading) == 0);
        if (n % 64 == 0)
            walk(me, met);
        atomic_fetch_add_explicit(&me->shared->gets[me->number], 50 + SHMHT_BATCH,
                                  memory_order_relaxed);
    }
    walk(me, met);
    /* At the end all values are the writer's last ones. */
    for (uint64_t i = 0; i < me->n_keys; i++) {
        struct shmht_bytes value;
        char key[16];
        int rc;

        key16(key, i);
        rc = shmht_get(me->r, key, 16, &value);
        if (rc == SHMHT_ENOENT && is_deleted_often(i))
            continue;
        CHECK(rc == 0);
        CHECK(version32(&value, i) ==
              (int64_t)atomic_load_explicit(&me->shared->floor[i], memory_order_acquire));
    }
    free(met);
    free(me->seen);
    return NULL;
}

/* Waits until each reader has done one round: from then on they read concurrently with the writer.
 * If one dies, the wait for it reports that. */
static void wait_for_readers(struct shared *shared)
{
    struct timespec until;

    CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += 20;
    for (int k = 0; k < N_READERS; k++)
        (void)sem_timedwait(&shared->reading, &until);
}

/* Puts every key once, in a growing prefix, and updates among the present ones; now and then merges
 * a block of them. */
static void write_all(struct shmht_writer *w, struct shared *shared, uint64_t n_keys,
                      uint64_t n_puts)
{
    unsigned char value[32], buf[SHMHT_BLOCK_HEADER_BYTES + 64 * 56];
    uint64_t next = 0, rng = 99;
    char key[16];

    for (uint64_t n = 0; n < n_puts || next < n_keys; n++) {
        uint64_t i = next < n_keys && (next == 0 || next * n_puts <= n * n_keys)
                         ? next++
                         : next_random(&rng) % next;
        uint32_t version = atomic_load_explicit(&shared->floor[i], memory_order_relaxed) + 1;

        if (n % 1000 == 999) {
            struct block b;
            uint64_t first = next > 64 ? next_random(&rng) % (next - 64) : 0,
                     count = next < 64 ? next : 64;

            block_begin(&b, buf, sizeof(buf));
            for (uint64_t j = first; j < first + count; j++) {
                key16(key, j);
                fill32(value, j, atomic_load_explicit(&shared->floor[j], memory_order_relaxed) + 1);
                block_add(&b, key, 16, value, 32);
            }
            CHECK(shmht_writer_merge(w, buf, block_end(&b), NULL) == 0);
            for (uint64_t j = first; j < first + count; j++)
                atomic_fetch_add_explicit(&shared->floor[j], 1, memory_order_release);
            version = atomic_load_explicit(&shared->floor[i], memory_order_relaxed) + 1;
        }
        key16(key, i);
        fill32(value, i, version);
        CHECK(shmht_put(w, key, 16, value, 32) >= 0);
        atomic_store_explicit(&shared->floor[i], version, memory_order_release);
        if (is_deleted_often(i) && n % 2)
            CHECK(shmht_delete(w, key, 16) == 0);
        if (n == n_puts / 2)
            wait_for_readers(shared);
    }
}

static int run_processes(struct shmht_writer *w, struct shared *shared, uint64_t n_keys,
                         uint64_t n_puts)
{
    struct shmht_desc desc;
    pid_t pids[N_READERS];
    int failed = 0;

    CHECK(shmht_writer_share(w, &desc) >= 0);
    for (int k = 0; k < N_READERS; k++) {
        pids[k] = fork();
        CHECK(pids[k] >= 0);
        if (pids[k] == 0) {
            struct reader me = {.shared = shared,
                                .n_keys = n_keys,
                                .number = k,
                                .fd = shmht_writer_share(w, NULL),
                                .rng = (uint64_t)k + 1};

            alarm(300);
            CHECK(shmht_reader_attach(&desc, shmht_writer_share(w, NULL), NULL, &me.r, NULL) == 0);
            read_until_done(&me);
            shmht_reader_detach(me.r);
            _exit(0);
        }
    }
    write_all(w, shared, n_keys, n_puts);
    atomic_store_explicit(&shared->done, 1, memory_order_release);
    for (int k = 0; k < N_READERS; k++) {
        int status;

        CHECK(waitpid(pids[k], &status, 0) == pids[k]);
        failed |= status != 0;
    }
    return failed;
}

static int run_threads(struct shmht_writer *w, struct shared *shared, uint64_t n_keys,
                       uint64_t n_puts)
{
    static struct reader readers[N_READERS];
    pthread_t threads[N_READERS];

    for (int k = 0; k < N_READERS; k++) {
        readers[k] = (struct reader){.r = shmht_writer_view(w),
                                     .shared = shared,
                                     .n_keys = n_keys,
                                     .number = k,
                                     .fd = -1,
                                     .rng = (uint64_t)k + 1};
        CHECK(pthread_create(&threads[k], NULL, read_until_done, &readers[k]) == 0);
    }
    write_all(w, shared, n_keys, n_puts);
    atomic_store_explicit(&shared->done, 1, memory_order_release);
    for (int k = 0; k < N_READERS; k++)
        CHECK(pthread_join(threads[k], NULL) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = 256 << 20, .expected_entries = 1};
    uint64_t n_keys, n_puts, gets = 0;
    struct shmht_stats stats;
    struct shared *shared;
    struct shmht_writer *w;
    int failed;

    if (argc != 4) {
        fprintf(stderr, "usage: shmht_contract processes|threads <keys> <puts>\n");
        return 2;
    }
    n_keys = strtoull(argv[2], NULL, 10);
    n_puts = strtoull(argv[3], NULL, 10);
    shared = mmap(NULL, sizeof(*shared) + n_keys * sizeof(shared->floor[0]), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && sem_init(&shared->reading, 1, 0) == 0);
    CHECK(shmht_writer_create(&opts, &w, NULL) == 0);
    failed = (argv[1][0] == 'p' ? run_processes : run_threads)(w, shared, n_keys, n_puts);
    for (int k = 0; k < N_READERS; k++)
        gets += atomic_load(&shared->gets[k]);
    CHECK(shmht_reader_stats(shmht_writer_view(w), &stats) == 0);
    printf("%llu keys, %llu puts, %llu growths; %llu gets beside them\n",
           (unsigned long long)stats.entries, (unsigned long long)n_puts,
           (unsigned long long)stats.table_grows, (unsigned long long)gets);
    CHECK(failed || (gets > 0 && stats.entries <= n_keys && stats.entries >= n_keys * 7 / 8 &&
                     stats.table_grows > 5));
    shmht_writer_destroy(w);
    return failed;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* An OpenSHMEM program with asymmetric memory.
 *
 *   oshcc asymshmem.c $(pkg-config --cflags --libs asymreg) -o asymshmem
 *   oshrun -n 4 ./asymshmem
 *
 * With Debian 12's Open MPI 4.1.4 add --mca opal_common_ucx_opal_mem_hooks 0 to oshrun: without,
 * any program dies in shmem_finalize.
 *
 * Each PE registers what it has: a malloc'd array, whose length differs from PE to PE, and a mapped
 * file that PE 0 alone opens. No call that registers is collective. Symmetric memory carries what
 * "Asymmetric Memory Extension for OpenSHMEM", section 2, leaves to the program: addresses; and the
 * bootstrap blobs, once. Then any PE reaches any of it by (PE, address):
 *
 *   1. every PE puts its number into its slot of its neighbour's array
 *   2. every PE adds to a counter at PE 0 (atomics need shared memory here, so the counter is in
 *      asymreg_segment_alloc() memory)
 *   3. every PE gets its own line of PE 0's file, and the last one writes one, which is then in the
 *      file
 *   4. PE 1 frees its array; who still uses the address gets an error, not somebody else's data
 *
 * All PEs on one node: the transport is shared memory and CMA. Another transport is one argument of
 * asymreg_open(). */
#define _GNU_SOURCE
#include <asymreg.h>
#include <shmem.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_PES 64
#define LINE    64

/* What a PE says of itself; symmetric, one for each PE. */
struct card {
    uint64_t blob_bytes;
    char blob[1024];
    uint64_t array, n, counter, file; /* addresses at that PE; 0: it has none */
    asymreg_id array_id;
};

static struct card mine;           /* symmetric, as all global variables are */
static struct card cards[MAX_PES]; /* filled by the PEs that they are of */

static void check(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "PE %d: %s: %s\n", shmem_my_pe(), what, asymreg_strerror(rc));
        shmem_global_exit(1);
    }
}

static void expect(int is, const char *what)
{
    if (!is) {
        fprintf(stderr, "PE %d: not so: %s\n", shmem_my_pe(), what);
        shmem_global_exit(1);
    }
}

/* PE 0's file: a line for each PE, mapped and registered. */
static char *map_file(struct asymreg_context *ctx, int fd, int n_pes)
{
    char *file;

    expect(ftruncate(fd, (off_t)n_pes * LINE) == 0, "the file can grow");
    for (int pe = 0; pe < n_pes; pe++)
        expect(dprintf(fd, "line of PE %-*d\n", LINE - 12, pe) == LINE, "the file can be written");
    file = mmap(NULL, (size_t)n_pes * LINE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    expect(file != MAP_FAILED, "the file can be mapped");
    check(asymreg_register(ctx, file, (size_t)n_pes * LINE, ASYMREG_RW, 0, NULL, NULL),
          "register the file");
    return file;
}

/* Everybody's card goes to everybody. */
static void exchange(int me, int n_pes)
{
    for (int pe = 0; pe < n_pes; pe++)
        shmem_putmem(&cards[me], &mine, sizeof(mine), pe);
    shmem_barrier_all(); /* completes the puts, too */
}

int main(int argc, char **argv)
{
    struct asymreg_context *ctx;
    struct asymreg_worker *worker;
    int me, n_pes, next;
    uint64_t *array, value;
    char path[] = "/tmp/asymshmem.XXXXXX", *file = NULL, line[LINE + 1] = "";
    void *counter = NULL;
    ssize_t n;

    (void)argc, (void)argv;
    shmem_init();
    me = shmem_my_pe();
    n_pes = shmem_n_pes();
    next = (me + 1) % n_pes;
    expect(n_pes <= MAX_PES, "there are at most 64 PEs");

    /* What each has, registered when it has it. */
    check(asymreg_open(NULL, &ctx, NULL), "open");
    check(asymreg_worker_create(ctx, &worker), "worker");
    mine.n = (uint64_t)n_pes * (uint64_t)(me + 1);
    array = calloc(mine.n, sizeof(*array));
    expect(array != NULL, "there is memory");
    check(
        asymreg_register(ctx, array, mine.n * sizeof(*array), ASYMREG_RW, 0, &mine.array_id, NULL),
        "register the array");
    mine.array = (uintptr_t)array;
    if (me == 0) {
        int fd = mkstemp(path);

        check(asymreg_segment_alloc(ctx, 4096, &counter, NULL), "alloc");
        check(asymreg_register(ctx, counter, 8, ASYMREG_ALL, 0, NULL, NULL),
              "register the counter");
        expect(fd >= 0, "there is a temporary file");
        file = map_file(ctx, fd, n_pes);
        close(fd);
        mine.counter = (uintptr_t)counter;
        mine.file = (uintptr_t)file;
    }
    n = asymreg_export(ctx, mine.blob, sizeof(mine.blob), NULL);
    check((int)n, "export");
    mine.blob_bytes = (uint64_t)n;
    exchange(me, n_pes);
    for (int pe = 0; pe < n_pes; pe++)
        check(asymreg_import(ctx, (uint32_t)pe, cards[pe].blob, (size_t)cards[pe].blob_bytes, NULL),
              "import");

    /* 1. An address that is good at one PE only. */
    value = 100 + (uint64_t)me;
    check(asymreg_put(worker, (uint32_t)next, cards[next].array + (uint64_t)me * 8,
                      cards[next].array_id, &value, 8),
          "put");
    check(asymreg_flush(worker, (uint32_t)next), "flush");
    check(asymreg_get(worker, (uint32_t)next, cards[next].array + (cards[next].n - 1) * 8,
                      ASYMREG_ANY, &value, 8),
          "get of the last");
    expect(asymreg_get(worker, (uint32_t)next, cards[next].array + cards[next].n * 8 - 1,
                       ASYMREG_ANY, &value, 2) == ASYMREG_ERANGE,
           "a get past the end is refused");
    /* 2. */
    check(asymreg_amo(worker, 0, cards[0].counter, ASYMREG_ANY, ASYMREG_AMO_FETCH_ADD, 8,
                      (uint64_t)me + 1, 0, &value),
          "add");
    /* 3. */
    check(asymreg_get(worker, 0, cards[0].file + (uint64_t)me * LINE, ASYMREG_ANY, line, LINE),
          "get a line");
    expect(strtol(line + 11, NULL, 10) == me, "it is this PE's line");
    if (me == n_pes - 1) {
        check(asymreg_put(worker, 0, cards[0].file + (uint64_t)me * LINE, ASYMREG_ANY,
                          "written from afar", 17),
              "put a line");
        check(asymreg_flush(worker, 0), "flush");
    }
    shmem_barrier_all();

    expect(array[(me + n_pes - 1) % n_pes] == 100u + (uint64_t)((me + n_pes - 1) % n_pes),
           "the neighbour's number has arrived");
    if (me == 0) {
        int fd = open(path, O_RDONLY);

        expect(*(uint64_t *)counter == (uint64_t)n_pes * (uint64_t)(n_pes + 1) / 2,
               "all have added");
        expect(fd >= 0 && pread(fd, line, 17, (off_t)(n_pes - 1) * LINE) == 17 &&
                   memcmp(line, "written from afar", 17) == 0,
               "what was put is in the file");
        close(fd);
        unlink(path);
    }

    /* 4. */
    if (me == n_pes - 1) {
        check(asymreg_unregister(ctx, mine.array_id), "unregister");
        free(array);
    }
    shmem_barrier_all();
    if (n_pes > 1 && me == 0) {
        int rc = asymreg_get(worker, (uint32_t)n_pes - 1, cards[n_pes - 1].array,
                             cards[n_pes - 1].array_id, &value, 8);

        expect(rc == ASYMREG_ESTALE || rc == ASYMREG_ENOREGION, "what is gone is refused");
        printf("%d PEs: %s\n", n_pes,
               "asymmetric memory put, got, added to, and gone, without a collective call");
    }
    shmem_barrier_all();
    asymreg_worker_destroy(worker);
    asymreg_close(ctx);
    shmem_finalize();
    return 0;
}

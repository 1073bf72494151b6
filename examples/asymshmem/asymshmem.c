/* SPDX-License-Identifier: BSD-3-Clause */
/* An OpenSHMEM program with asymmetric memory: the standard calls, and one that registers.
 *
 * Each PE has a malloc'd array, whose length differs from PE to PE; PE 0 has a mapped file too. A
 * PE registers its memory alone, without the others. Symmetric memory carries the addresses. Then
 * any PE reaches all of this memory by (PE, address):
 *
 *   1. every PE puts its number into its slot of its neighbour's array
 *   2. every PE adds to a counter, the last element of the last PE's array
 *   3. every PE gets its own line of PE 0's file, and the last PE puts a new line into the file
 *   4. the last PE unregisters its array: accesses by other PEs now fail */
#define _GNU_SOURCE
#include <shmem.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "asymshmem.h"

#define MAX_PES 64
#define LINE    64

static uint64_t arrays[MAX_PES]; /* symmetric: where each PE's array is */
static uint64_t file_at;         /* symmetric: where PE 0's file is */

static void must_hold(int is, const char *what)
{
    if (!is) {
        fprintf(stderr, "PE %d: not so: %s\n", shmem_my_pe(), what);
        shmem_global_exit(1);
    }
}

/* A file with a line for each PE, mapped and registered. */
static char *map_file(const char *path, int n_pes)
{
    int fd = open(path, O_RDWR);
    char *file;

    must_hold(fd >= 0 && ftruncate(fd, (off_t)n_pes * LINE) == 0, "there is a temporary file");
    for (int pe = 0; pe < n_pes; pe++)
        must_hold(dprintf(fd, "line of PE %-*d\n", LINE - 12, pe) == LINE,
                  "the file can be written");
    file = mmap(NULL, (size_t)n_pes * LINE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    must_hold(file != MAP_FAILED && shmemx_register(file, (size_t)n_pes * LINE) == 0,
              "the file can be mapped and registered");
    return file;
}

int main(void)
{
    char path[] = "/tmp/asymshmem.XXXXXX", line[LINE + 1] = "", *file;
    int me, n_pes, next, last, fd;
    long *array, *counter;
    size_t n;

    shmem_init();
    me = shmem_my_pe();
    n_pes = shmem_n_pes();
    next = (me + 1) % n_pes;
    last = n_pes - 1;
    must_hold(n_pes <= MAX_PES, "there are at most 64 PEs");

    n = (size_t)n_pes * (size_t)(me + 1) + 1;
    array = calloc(n, sizeof(*array));
    must_hold(array && shmemx_register(array, n * sizeof(*array)) == 0, "memory can be registered");
    for (int pe = 0; pe < n_pes; pe++)
        shmem_uint64_p(&arrays[me], (uintptr_t)array, pe);
    if (me == 0) {
        fd = mkstemp(path);
        must_hold(fd >= 0, "there is a temporary file");
        close(fd);
        file = map_file(path, n_pes);
        for (int pe = 0; pe < n_pes; pe++)
            shmem_uint64_p(&file_at, (uintptr_t)file, pe);
    }
    shmem_barrier_all();

    shmem_long_p((long *)(uintptr_t)arrays[next] + me, 100 + me, next); /* 1 */
    counter = (long *)(uintptr_t)arrays[last] + (size_t)n_pes * (size_t)n_pes;
    shmem_long_atomic_add(counter, me + 1, last);                                /* 2 */
    shmem_getmem(line, (char *)(uintptr_t)file_at + (size_t)me * LINE, LINE, 0); /* 3 */
    must_hold(strtol(line + 11, NULL, 10) == me, "it is this PE's line");
    if (me == last)
        shmem_putmem((char *)(uintptr_t)file_at + (size_t)me * LINE, "written from afar", 17, 0);
    shmem_barrier_all();

    must_hold(array[(me + last) % n_pes] == 100 + (me + last) % n_pes, "the number has arrived");
    if (me == last)
        must_hold(*counter == (long)n_pes * (n_pes + 1) / 2, "all have added");
    if (me == 0) {
        fd = open(path, O_RDONLY);
        must_hold(fd >= 0 && pread(fd, line, 17, (off_t)last * LINE) == 17 &&
                      memcmp(line, "written from afar", 17) == 0,
                  "what was put is in the file");
        close(fd);
        unlink(path);
    }
    if (me == last) /* 4 */
        must_hold(shmemx_unregister(array) == 0, "memory can be unregistered");
    shmem_barrier_all();
    must_hold(!shmem_addr_accessible((void *)(uintptr_t)arrays[last], last),
              "unregistered memory is refused");
    if (me == 0)
        printf("%d PEs: asymmetric memory put, got, added to, and gone, by standard calls\n",
               n_pes);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * together DIR ATOMIC STEPS [RANK STEP [GROWN] | RANK -MILLISECONDS]: each step puts into the next
 * rank's part and commits all parts, by swmpi_commit(). It begins where the files in DIR are, which
 * must be one step on all ranks, and whole. RANK dies before it commits STEP (0: no rank does), or
 * after MILLISECONDS. With GROWN the window is twice as long, and the steps after that one store
 * into its second half too. With 0 STEPS it commits a window that has a rank without bytes, too.
 */
#include "world.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>

#define WORDS 40000 /* of a window that has not grown */

static struct world w;
static uint64_t n_words = WORDS, grown; /* the step after which it has grown */

/* Word i of a rank's part after a step: a quarter of them changes in each. */
static uint64_t word(uint64_t i, uint64_t step, int rank)
{
    const uint64_t since = i == 0 ? 0 : (step - i) % 4;
    uint64_t last = step > since ? step - since : 0;

    if (i >= WORDS && last <= grown)
        last = 0;
    return i == 0 ? step : last * 1000000 + last * i % 977 + (last ? (uint64_t)rank : 0);
}

static MPI_Info hints(const char *name, const char *atomic)
{
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_type", "storage");
    MPI_Info_set(info, "storage_alloc_filename", name);
    MPI_Info_set(info, "storage_alloc_pager", "resident");
    MPI_Info_set(info, "storage_alloc_atomic", atomic);
    MPI_Info_set(info, "swmpi_commit", "all");
    return info;
}

/* A rank without bytes and hints takes part in the commits of the others. */
static void with_empty(const char *dir, const char *atomic, int (*commit)(MPI_Win))
{
    const int empty = w.rank == w.size - 1;
    char name[4096];
    uint64_t *base;
    MPI_Info info;
    MPI_Win win;

    snprintf(name, sizeof(name), "%s/empty.%%r", dir);
    info = hints(name, atomic);
    MPI_Info_set(info, "storage_alloc_unlink", "true");
    MPI_Win_allocate(empty ? 0 : 8000, 8, empty ? MPI_INFO_NULL : info, MPI_COMM_WORLD, &base,
                     &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (!empty)
        base[5] = 7;
    CHECK_MSG(commit(win) == MPI_SUCCESS, "commit with an empty rank");
    MPI_Win_free(&win);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_MSG(commit(win) != MPI_SUCCESS, "commit of MPI_WIN_NULL");
    MPI_Info_free(&info);
}

static MPI_Win allocate(const char *dir, const char *atomic, uint64_t **base)
{
    char name[4096];
    MPI_Info info;
    MPI_Win win;

    snprintf(name, sizeof(name), "%s/part.%%r", dir);
    info = hints(name, atomic);
    MPI_Win_allocate((MPI_Aint)n_words * 8, 8, info, MPI_COMM_WORLD, base, &win);
    MPI_Info_free(&info);
    return win;
}

/* Puts what changes into the next rank's part. */
static void put(MPI_Win win, uint64_t step)
{
    static uint64_t from[2 * WORDS / 4];
    const int to = (w.rank + 1) % w.size;
    const uint64_t first = step % 4;
    const int n = (int)n_words / 4;
    MPI_Datatype each_fourth;

    for (uint64_t k = 0; k < n_words / 4; k++)
        from[k] = word(first + 4 * k, step, to);
    MPI_Type_vector(n, 1, 4, MPI_UINT64_T, &each_fourth);
    MPI_Type_commit(&each_fourth);
    MPI_Win_fence(0, win);
    MPI_Put(from, n, MPI_UINT64_T, to, (MPI_Aint)first, 1, each_fourth, win);
    if (first != 0)
        MPI_Put(&step, 1, MPI_UINT64_T, to, 0, 1, MPI_UINT64_T, win);
    MPI_Win_fence(0, win);
    MPI_Type_free(&each_fourth);
}

int main(int argc, char **argv)
{
    int (*commit)(MPI_Win);
    uint64_t *base, mine, least, most, steps;
    long dies = argc > 5 ? atol(argv[5]) : 0;
    MPI_Win win;

    w = world_start(&argc, &argv);
    CHECK_MSG(argc >= 4, "arguments");
    *(void **)&commit = dlsym(RTLD_DEFAULT, "swmpi_commit");
    CHECK_MSG(commit, "without libswmpi.so");
    steps = strtoull(argv[3], NULL, 10);
    if (dies != 0 && atoi(argv[4]) != w.rank)
        dies = 0;
    if (argc > 6) {
        n_words = 2 * WORDS;
        grown = strtoull(argv[6], NULL, 10);
    }
    win = allocate(argv[1], argv[2], &base);
    mine = base[0];
    MPI_Allreduce(&mine, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &most, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    CHECK_MSG(least == most, "restored %llu to %llu", (unsigned long long)least,
              (unsigned long long)most);
    for (uint64_t i = 0; i < n_words; i++)
        CHECK_MSG(base[i] == word(i, mine, w.rank), "word %llu of step %llu is %llu",
                  (unsigned long long)i, (unsigned long long)mine, (unsigned long long)base[i]);
    if (w.rank == 0) {
        printf("restored %llu\n", (unsigned long long)mine);
        fflush(stdout);
    }
    if (dies < 0) {
        const struct itimerval t = {.it_value = {-dies / 1000, -dies % 1000 * 1000}};

        setitimer(ITIMER_REAL, &t, NULL);
    }
    for (uint64_t step = mine + 1; step <= steps; step++) {
        put(win, step);
        if (dies > 0 && step == (uint64_t)dies) {
            usleep(300000); /* the others commit, as far as they can */
            raise(SIGKILL);
        }
        CHECK_MSG(commit(win) == MPI_SUCCESS, "commit");
        if (w.rank == 0) {
            printf("committed %llu\n", (unsigned long long)step);
            fflush(stdout);
        }
    }
    MPI_Win_free(&win);
    if (steps == 0)
        with_empty(argv[1], argv[2], commit);
    return world_end(&w, "together");
}

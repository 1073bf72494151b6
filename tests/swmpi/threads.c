/* SPDX-License-Identifier: BSD-3-Clause */
/* threads HINTS...: for each of the hints, with MPI_THREAD_MULTIPLE, several threads of every rank
 * concurrently allocate, use, sync and free their own windows, each on its own communicator. If the
 * library gets MPI_THREAD_SERIALIZED for this program, they do so one after the other. */
#include "window.h"
#include <pthread.h>

#define N_THREADS 3
#define N_ROUNDS  4
#define WORDS     1024

static struct world w;
static const char *hints;

struct task {
    pthread_t thread;
    MPI_Comm comm;
    int number;
};

static void *work(void *arg)
{
    const struct task *t = arg;
    int to = (w.rank + 1) % w.size, from = (w.rank + w.size - 1) % w.size;

    for (int round = 0; round < N_ROUNDS; round++) {
        MPI_Info info = info_of(hints);
        int64_t *base, *memory, value = w.rank * 1000 + t->number * 100 + round;
        MPI_Win win;

        MPI_Win_allocate(WORDS * 8, 8, info, t->comm, &base, &win);
        MPI_Alloc_mem(4096, info, &memory);
        memory[1] = value;
        base[WORDS - 1] = -1;
        MPI_Barrier(t->comm);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win);
        MPI_Put(&value, 1, MPI_INT64_T, to, WORDS - 1, 1, MPI_INT64_T, win);
        MPI_Win_unlock(to, win);
        MPI_Barrier(t->comm);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w.rank, 0, win);
        MPI_Win_sync(win);
        CHECK_MSG(base[WORDS - 1] == from * 1000 + t->number * 100 + round,
                  "thread %d, round %d: %lld", t->number, round, (long long)base[WORDS - 1]);
        MPI_Win_unlock(w.rank, win);
        CHECK_MSG(memory[1] == value, "MPI_Alloc_mem gave two threads the same memory");
        MPI_Free_mem(memory);
        MPI_Win_free(&win);
        MPI_Info_free(&info);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct task tasks[N_THREADS];
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w.size);
    if (level < MPI_THREAD_SERIALIZED)
        return world_skip(&w, "threads", "no MPI_THREAD_SERIALIZED");
    for (int i = 0; i < N_THREADS; i++) {
        tasks[i].number = i;
        MPI_Comm_dup(MPI_COMM_WORLD, &tasks[i].comm);
    }
    for (int k = 1; k < argc; k++) {
        hints = argv[k];
        for (int i = 0; i < N_THREADS; i++) {
            CHECK_MSG(pthread_create(&tasks[i].thread, NULL, work, &tasks[i]) == 0, "no thread");
            if (level < MPI_THREAD_MULTIPLE)
                pthread_join(tasks[i].thread, NULL);
        }
        for (int i = 0; i < N_THREADS && level == MPI_THREAD_MULTIPLE; i++)
            pthread_join(tasks[i].thread, NULL);
    }
    for (int i = 0; i < N_THREADS; i++)
        MPI_Comm_free(&tasks[i].comm);
    return world_end(&w, "threads");
}

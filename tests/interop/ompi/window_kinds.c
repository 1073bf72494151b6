/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided communication over windows of every kind: create, allocate, dynamic on all ranks,
 * allocate_shared on the ranks of a host. Each has put, get, accumulate, get_accumulate,
 * fetch_and_op and compare_and_swap, between fences, under locks, and between post, start, complete
 * and wait. Ranks print the results; where these depend on the order, sums that do not. */
#include "../mpi/world.h"

/* A rank's part of a window: one long for each rank, and then these. */
enum { SUM, HALVES, TICKETS, CLAIMED, NEIGHBOUR, LARGEST, EXTRA };

struct window {
    const char *kind;
    MPI_Win win;
    MPI_Comm comm;
    int rank, size;
    long *mine;      /* this rank's part */
    MPI_Aint *bases; /* where each rank's begins, as displacements in bytes */
};

static MPI_Aint at(const struct window *w, int rank, int slot)
{
    return w->bases[rank] + (MPI_Aint)sizeof(long) * slot;
}

static double as_double(long bits)
{
    double d;

    memcpy(&d, &bits, sizeof(d));
    return d;
}

/* Every rank writes to every rank, reads back from the next, and adds. */
static void between_fences(const struct window *w, long *checksum)
{
    const int next = (w->rank + 1) % w->size;
    long *out = calloc((size_t)w->size, sizeof(long)), *in = calloc((size_t)w->size, sizeof(long));
    long one = w->rank + 1;
    double half = 0.5 * (w->rank + 1);

    CHECK_MSG(out && in, "out of memory");
    memset(w->mine, 0, sizeof(long) * (size_t)(w->size + EXTRA));
    MPI_Win_fence(0, w->win);
    for (int r = 0; r < w->size; r++) {
        out[r] = 100L * w->rank + r;
        MPI_Put(&out[r], 1, MPI_LONG, r, at(w, r, w->rank), 1, MPI_LONG, w->win);
    }
    MPI_Win_fence(0, w->win);
    for (int r = 0; r < w->size; r++)
        CHECK_MSG(w->mine[r] == 100L * r + w->rank, "%s: put of rank %d is %ld", w->kind, r,
                  w->mine[r]);
    MPI_Get(in, w->size, MPI_LONG, next, at(w, next, 0), w->size, MPI_LONG, w->win);
    MPI_Win_fence(0, w->win);
    for (int r = 0; r < w->size; r++) {
        CHECK_MSG(in[r] == 100L * r + next, "%s: get of slot %d is %ld", w->kind, r, in[r]);
        *checksum = 31 * *checksum + in[r];
    }
    for (int r = 0; r < w->size; r++) {
        MPI_Accumulate(&one, 1, MPI_LONG, r, at(w, r, w->size + SUM), 1, MPI_LONG, MPI_SUM, w->win);
        MPI_Accumulate(&half, 1, MPI_DOUBLE, r, at(w, r, w->size + HALVES), 1, MPI_DOUBLE, MPI_SUM,
                       w->win);
        MPI_Accumulate(&one, 1, MPI_LONG, r, at(w, r, w->size + LARGEST), 1, MPI_LONG, MPI_MAX,
                       w->win);
    }
    MPI_Win_fence(0, w->win);
    free(out);
    free(in);
}

/* Rank 0 has a counter, from which each rank draws three tickets, and a place that one may
 * claim. */
static void under_locks(const struct window *w, long *tickets, long *winners, long *seen)
{
    const long one = 1, none = 0, me = w->rank + 1;
    long before = -1, drawn = 0, won;

    for (int i = 0; i < 3; i++) {
        MPI_Win_lock(i == 1 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, w->win);
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, at(w, 0, w->size + TICKETS), MPI_SUM, w->win);
        MPI_Win_unlock(0, w->win);
        drawn += before;
    }
    MPI_Win_lock_all(0, w->win);
    MPI_Compare_and_swap(&me, &none, &before, MPI_LONG, 0, at(w, 0, w->size + CLAIMED), w->win);
    MPI_Win_flush(0, w->win);
    won = before == 0;
    MPI_Get_accumulate(&none, 1, MPI_LONG, seen, 1, MPI_LONG, w->size - 1,
                       at(w, w->size - 1, w->size + SUM), 1, MPI_LONG, MPI_NO_OP, w->win);
    MPI_Win_flush_all(w->win);
    MPI_Win_unlock_all(w->win);
    MPI_Allreduce(&drawn, tickets, 1, MPI_LONG, MPI_SUM, w->comm);
    MPI_Allreduce(&won, winners, 1, MPI_LONG, MPI_SUM, w->comm);
    CHECK_MSG(*tickets == 3L * w->size * (3L * w->size - 1) / 2, "%s: tickets add up to %ld",
              w->kind, *tickets);
    CHECK_MSG(*winners == 1, "%s: %ld ranks have claimed the place", w->kind, *winners);
}

/* Each rank exposes its part to the previous one, and writes to the next. */
static void post_start_complete_wait(const struct window *w)
{
    const int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;
    const long value = 7L * w->rank + 3;
    MPI_Group all, from, to;

    MPI_Comm_group(w->comm, &all);
    MPI_Group_incl(all, 1, &before, &from);
    MPI_Group_incl(all, 1, &next, &to);
    MPI_Win_post(from, 0, w->win);
    MPI_Win_start(to, 0, w->win);
    MPI_Put(&value, 1, MPI_LONG, next, at(w, next, w->size + NEIGHBOUR), 1, MPI_LONG, w->win);
    MPI_Win_complete(w->win);
    MPI_Win_wait(w->win);
    MPI_Group_free(&all);
    MPI_Group_free(&from);
    MPI_Group_free(&to);
}

static void exercise(const struct window *w, int print)
{
    long checksum = 0, tickets, winners, seen = -1;

    between_fences(w, &checksum);
    under_locks(w, &tickets, &winners, &seen);
    MPI_Barrier(w->comm);
    post_start_complete_wait(w);
    MPI_Win_fence(0, w->win); /* changes under locks are visible too */
    CHECK_MSG(w->mine[w->size + SUM] == (long)w->size * (w->size + 1) / 2, "%s: sum %ld", w->kind,
              w->mine[w->size + SUM]);
    CHECK_MSG(w->rank != 0 || w->mine[w->size + TICKETS] == 3L * w->size, "%s: counter %ld",
              w->kind, w->mine[w->size + TICKETS]);
    if (print)
        printf("window_kinds %s rank %d: %ld %ld %.2f %ld %ld %ld %ld %ld\n", w->kind, w->rank,
               checksum, w->mine[w->size + SUM], as_double(w->mine[w->size + HALVES]),
               w->mine[w->size + LARGEST], tickets, winners, seen, w->mine[w->size + NEIGHBOUR]);
    fflush(stdout);
    MPI_Win_fence(0, w->win);
}

static void begin(struct window *w, const char *kind, MPI_Comm comm)
{
    *w = (struct window){.kind = kind, .comm = comm};
    MPI_Comm_rank(comm, &w->rank);
    MPI_Comm_size(comm, &w->size);
    w->bases = calloc((size_t)w->size, sizeof(MPI_Aint));
    CHECK_MSG(w->bases, "out of memory");
}

static void created(MPI_Comm comm)
{
    struct window w;
    long *memory;
    MPI_Aint bytes;

    begin(&w, "create", comm);
    bytes = (MPI_Aint)sizeof(long) * (w.size + EXTRA);
    MPI_Alloc_mem(bytes, MPI_INFO_NULL, &memory);
    w.mine = memory;
    MPI_Win_create(memory, bytes, 1, MPI_INFO_NULL, comm, &w.win);
    exercise(&w, 1);
    MPI_Win_free(&w.win);
    MPI_Free_mem(memory);
    free(w.bases);
}

static void allocated(MPI_Comm comm)
{
    struct window w;

    begin(&w, "allocate", comm);
    MPI_Win_allocate((MPI_Aint)sizeof(long) * (w.size + EXTRA), 1, MPI_INFO_NULL, comm, &w.mine,
                     &w.win);
    exercise(&w, 1);
    MPI_Win_free(&w.win);
    free(w.bases);
}

static void dynamic(MPI_Comm comm)
{
    struct window w;
    MPI_Aint bytes, base;

    begin(&w, "dynamic", comm);
    bytes = (MPI_Aint)sizeof(long) * (w.size + EXTRA);
    w.mine = calloc(1, (size_t)bytes);
    CHECK_MSG(w.mine, "out of memory");
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &w.win);
    MPI_Win_attach(w.win, w.mine, bytes);
    MPI_Get_address(w.mine, &base);
    MPI_Allgather(&base, 1, MPI_AINT, w.bases, 1, MPI_AINT, comm);
    exercise(&w, 1);
    MPI_Win_detach(w.win, w.mine);
    MPI_Win_free(&w.win);
    free(w.mine);
    free(w.bases);
}

/* Loads and stores too. The number of ranks on a host varies, so only checks, no output. */
static void shared(void)
{
    struct window w;
    MPI_Comm node;
    MPI_Aint bytes;
    long *next;
    int unit;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    begin(&w, "shared", node);
    MPI_Win_allocate_shared((MPI_Aint)sizeof(long) * (w.size + EXTRA), 1, MPI_INFO_NULL, node,
                            &w.mine, &w.win);
    exercise(&w, 0);
    MPI_Win_shared_query(w.win, (w.rank + 1) % w.size, &bytes, &unit, &next);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win);
    next[0] = 9000 + w.rank;
    MPI_Win_sync(w.win);
    MPI_Barrier(node);
    MPI_Win_sync(w.win);
    CHECK_MSG(w.mine[0] == 9000 + (w.rank + w.size - 1) % w.size, "shared: a store gave %ld",
              w.mine[0]);
    MPI_Win_unlock_all(w.win);
    MPI_Win_free(&w.win);
    MPI_Comm_free(&node);
    free(w.bases);
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);

    created(MPI_COMM_WORLD);
    allocated(MPI_COMM_WORLD);
    dynamic(MPI_COMM_WORLD);
    shared();
    return world_end(&w, "window_kinds");
}

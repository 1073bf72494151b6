/* SPDX-License-Identifier: BSD-3-Clause */
/* A distributed hash table ("MPI Windows on Storage for HPC Applications", sections 3.3 and 3.4):
 * each rank's window holds a local volume and, behind it, an overflow heap for collisions. Every
 * rank inserts numbers into all windows with one-sided operations alone: a compare-and-swap takes a
 * free place of the volume; else a fetch-and-add takes an element of the heap, a swap makes it the
 * head of the place's chain, and a put fills it. At the end each rank walks its own table and
 * checks that it holds every number once, in its place. */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Elements of the window; place 0 counts the heap's taken elements. */
struct element {
    uint64_t value; /* 0: free */
    uint64_t next;  /* element that hangs on this one, 0: none */
};

static uint64_t volume = 1000000, heap_factor = 4, fill_percent = 80, touch;

struct table {
    struct element *base;
    MPI_Win win;
    MPI_Aint bytes;
    uint64_t n_mine; /* numbers that this rank inserts */
};

/* The number that rank `rank` inserts as its i-th: never 0, and no two alike. */
static uint64_t value_of(const struct program *p, int rank, uint64_t i, uint64_t salt)
{
    uint64_t value = program_mix((i * (uint64_t)p->size + (uint64_t)rank + 1) ^ program_mix(salt));

    return value ? value : program_mix(UINT64_MAX ^ program_mix(salt));
}

static int owner_of(const struct program *p, uint64_t value)
{
    return (int)((value >> 32) % (uint64_t)p->size);
}

static uint64_t first_element(uint64_t value)
{
    return 1 + program_mix(value) % volume;
}

static MPI_Aint field_at(uint64_t element, size_t field)
{
    return (MPI_Aint)(element * sizeof(struct element) + field);
}

static void insert_value(const struct program *p, const struct table *t, uint64_t value)
{
    static const uint64_t none = 0, one = 1;
    uint64_t place = first_element(value), found = 0, taken = 0, head = 0;
    int owner = owner_of(p, value);
    struct element e;

    MPI_Compare_and_swap(&value, &none, &found, MPI_UINT64_T, owner,
                         field_at(place, offsetof(struct element, value)), t->win);
    MPI_Win_flush(owner, t->win);
    if (found == 0)
        return;
    MPI_Fetch_and_op(&one, &taken, MPI_UINT64_T, owner,
                     field_at(0, offsetof(struct element, value)), MPI_SUM, t->win);
    MPI_Win_flush(owner, t->win);
    CHECK(taken < volume * heap_factor, "rank %d: the heap of %llu elements is full", owner,
          (unsigned long long)(volume * heap_factor));
    taken += volume + 1;
    MPI_Fetch_and_op(&taken, &head, MPI_UINT64_T, owner,
                     field_at(place, offsetof(struct element, next)), MPI_REPLACE, t->win);
    MPI_Win_flush(owner, t->win);
    e = (struct element){value, head};
    MPI_Put(&e, 2, MPI_UINT64_T, owner, field_at(taken, 0), 2, MPI_UINT64_T, t->win);
    MPI_Win_flush(owner, t->win);
}

/* Walks this rank's table and counts. The sum of a mix of all numbers proves that they are the ones
 * inserted. */
static void verify_table(const struct program *p, const struct table *t, uint64_t salt)
{
    uint64_t mine[2] = {0, 0}, found[2], expected[2] = {0, 0}, all[2],
             n_elements = volume * (1 + heap_factor) + 1;

    for (uint64_t place = 1; place <= volume; place++) {
        for (uint64_t i = place; i && t->base[i].value; i = t->base[i].next) {
            const struct element *e = &t->base[i];

            CHECK(i < n_elements && e->next < n_elements, "element %llu leads out of the table",
                  (unsigned long long)i);
            CHECK(owner_of(p, e->value) == p->rank && first_element(e->value) == place,
                  "element %llu holds %llx, which belongs elsewhere", (unsigned long long)i,
                  (unsigned long long)e->value);
            mine[0]++;
            mine[1] += program_mix(e->value + 1);
            CHECK(mine[0] <= t->n_mine * (uint64_t)p->size,
                  "more elements than were inserted: a chain has a cycle");
        }
    }
    for (uint64_t i = 0; i < t->n_mine; i++)
        expected[1] += program_mix(value_of(p, p->rank, i, salt) + 1);
    expected[0] = t->n_mine;
    MPI_Allreduce(mine, found, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(expected, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK(found[0] == all[0] && found[1] == all[1],
          "%llu elements are in the table, %llu were inserted", (unsigned long long)found[0],
          (unsigned long long)all[0]);
}

/* Processor time of this process. One rank waits for no other, so this is its cost on a busy
 * machine too. */
static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum { CLEAR, INSERT, SYNC, PROCESSOR, N_TIMES };
static const char *const metrics[N_TIMES] = {"clear", "insert", "sync", "insert, processor time"};

/* One trial: seconds of clearing the table, of the inserts, and of making them durable. */
static void run_trial(struct program *p, struct table *t, uint64_t salt, double seconds[N_TIMES])
{
    double start = MPI_Wtime(), used;

    memset(t->base, 0, touch ? (size_t)t->bytes : (size_t)field_at(volume + 1, 0));
    MPI_Barrier(MPI_COMM_WORLD);
    seconds[CLEAR] = program_slowest(MPI_Wtime() - start);
    used = processor_seconds();
    start = MPI_Wtime();
    MPI_Win_lock_all(0, t->win);
    for (uint64_t i = 0; i < t->n_mine; i++)
        insert_value(p, t, value_of(p, p->rank, i, salt));
    MPI_Win_unlock_all(t->win);
    MPI_Barrier(MPI_COMM_WORLD);
    seconds[INSERT] = program_slowest(MPI_Wtime() - start);
    seconds[PROCESSOR] = program_slowest(processor_seconds() - used);
    start = MPI_Wtime();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, t->win);
    MPI_Win_sync(t->win);
    MPI_Win_unlock(p->rank, t->win);
    seconds[SYNC] = program_slowest(MPI_Wtime() - start);
    verify_table(p, t, salt);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* How much more than the first case, in %. */
static void print_overhead(const struct program *p, const char *which, uint64_t n, int i,
                           const char *metric, double value, double *base)
{
    if (*base == 0)
        *base = value;
    else
        program_figure(p, which, n, p->cases[i].who, metric, 100 * (value / *base - 1), "%");
}

static void print_times(struct program *p,
                        double seconds[PROGRAM_MAX_CASES][N_TIMES][PROGRAM_MAX_TRIALS], uint64_t n)
{
    const char *which = touch ? "clear all" : "insert";
    double base = 0, base_both = 0, base_processor = 0, both[PROGRAM_MAX_TRIALS], median[N_TIMES];

    for (int i = 0; i < p->n_cases; i++) {
        if (p->works[i] != 1)
            continue;
        for (uint64_t t = 0; t < p->n_trials; t++)
            both[t] = seconds[i][INSERT][t] + seconds[i][SYNC][t];
        for (int m = 0; m < N_TIMES; m++) {
            median[m] = program_median(seconds[i][m], p->n_trials);
            program_figure(p, which, n, p->cases[i].who, metrics[m], median[m], "s");
        }
        print_overhead(p, which, n, i, "overhead", median[INSERT], &base);
        print_overhead(p, which, n, i, "overhead with sync", program_median(both, p->n_trials),
                       &base_both);
        print_overhead(p, which, n, i, "overhead, processor time", median[PROCESSOR],
                       &base_processor);
    }
}

int main(int argc, char **argv)
{
    static const struct program_option options[] = {
        {"--volume", &volume, 400, "elements of 16 bytes in each rank's local volume"},
        {"--heap", &heap_factor, 4, "elements of its heap, as a multiple of that"},
        {"--fill", &fill_percent, 80, "numbers that each rank inserts, as % of a volume"},
        {"--touch", &touch, 0,
         "1: clear the heap too, so that every page is used (out-of-core runs)"},
        {0},
    };
    static double seconds[PROGRAM_MAX_CASES][N_TIMES][PROGRAM_MAX_TRIALS];
    struct program p;
    struct table t;
    uint64_t trial;

    program_init(&p, "dht", &argc, &argv, options);
    CHECK(volume > 0 && volume < UINT64_C(1) << 40 && heap_factor < 1000,
          "--volume or --heap is out of range");
    t.bytes = field_at(volume * (1 + heap_factor) + 1, 0);
    t.n_mine = volume * fill_percent / 100;
    for (int i = -1; program_next(&p, &i, &trial);) {
        double one[N_TIMES];

        if (!program_window(&p, i, t.bytes, 1, &t.base, &t.win))
            continue;
        run_trial(&p, &t, p.seed + trial, one);
        for (int m = 0; m < N_TIMES; m++)
            seconds[i][m][trial] = one[m];
        MPI_Win_free(&t.win);
    }
    print_times(&p, seconds, t.n_mine * (uint64_t)p.size);
    return program_end(&p);
}

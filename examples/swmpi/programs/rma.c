/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations as the IMB-RMA benchmarks measure them ("MPI Windows on Storage for HPC
 * Applications", section 3.1): one operation in each passive epoch, without a sync. `bandwidth` is
 * of the bytes that the slowest active rank moved, `time` that of one operation of 8 bytes. The
 * ranks check afterwards what arrived.
 *
 *   unidirectional, bidirectional put and get; accumulate, get-accumulate, fetch-and-op,
 *   compare-and-swap: rank 0 and
 *     rank 1, or rank 0 alone if it is the only rank (Figure 5)
 *   one to all put and get: rank 0 with every rank; exchange put and get: every rank with both
 *   neighbours (Figure 6) */
#include "program.h"
#include <stdlib.h>
#include <string.h>

#define N_SIZES 16

enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP };
enum { ONE_WAY, BOTH_WAYS, TO_ALL, EXCHANGE };

static const struct operation {
    const char *name;
    int what, pattern;
} operations[] = {
    {"unidirectional put", PUT, ONE_WAY},    {"unidirectional get", GET, ONE_WAY},
    {"bidirectional put", PUT, BOTH_WAYS},   {"bidirectional get", GET, BOTH_WAYS},
    {"accumulate", ACCUMULATE, ONE_WAY},     {"get-accumulate", GET_ACCUMULATE, ONE_WAY},
    {"fetch-and-op", FETCH_AND_OP, ONE_WAY}, {"compare-and-swap", COMPARE_AND_SWAP, ONE_WAY},
    {"one to all put", PUT, TO_ALL},         {"one to all get", GET, TO_ALL},
    {"exchange put", PUT, EXCHANGE},         {"exchange get", GET, EXCHANGE},
};
#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static uint64_t n_iterations = 200, most_kib = 4096;

struct buffers {
    struct program *p;
    MPI_Win win;
    int64_t *base, *out, *in; /* each half of the window has as many words as the others */
    uint64_t words;           /* of the largest operation */
};

/* The contents of a rank's window, and of its messages. */
static int64_t word_of(int rank, uint64_t i)
{
    return (int64_t)(program_mix((uint64_t)rank << 32 | i) >> 20);
}

static int is_active(const struct program *p, const struct operation *op)
{
    return op->pattern == EXCHANGE || p->rank == 0 || (op->pattern == BOTH_WAYS && p->rank == 1);
}

static int n_targets(const struct program *p, const struct operation *op)
{
    return op->pattern == TO_ALL ? p->size : op->pattern == EXCHANGE ? 2 : 1;
}

/* The k-th target and the half of its window: the first at the right neighbour, the second at the
 * left one. */
static int target_of(const struct program *p, const struct operation *op, int k, int *half)
{
    *half = op->pattern == EXCHANGE ? k : 0;
    switch (op->pattern) {
    case TO_ALL: return k;
    case EXCHANGE: return k ? (p->rank + p->size - 1) % p->size : (p->rank + 1) % p->size;
    default: return p->size > 1 ? 1 - p->rank : 0;
    }
}

static void issue_operation(const struct buffers *b, const struct operation *op, uint64_t words,
                            int target, int half, int64_t i)
{
    MPI_Aint at = (MPI_Aint)((uint64_t)half * b->words);
    int n = (int)words;
    int64_t next = i + 1, one = 1;

    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, b->win);
    switch (op->what) {
    case PUT: MPI_Put(b->out, n, MPI_INT64_T, target, at, n, MPI_INT64_T, b->win); break;
    case GET: MPI_Get(b->in, n, MPI_INT64_T, target, at, n, MPI_INT64_T, b->win); break;
    case ACCUMULATE:
        MPI_Accumulate(b->out, n, MPI_INT64_T, target, at, n, MPI_INT64_T, MPI_SUM, b->win);
        break;
    case GET_ACCUMULATE:
        MPI_Get_accumulate(b->out, n, MPI_INT64_T, b->in, n, MPI_INT64_T, target, at, n,
                           MPI_INT64_T, MPI_SUM, b->win);
        break;
    case FETCH_AND_OP:
        MPI_Fetch_and_op(&one, b->in, MPI_INT64_T, target, at, MPI_SUM, b->win);
        break;
    default: MPI_Compare_and_swap(&next, &i, b->in, MPI_INT64_T, target, at, b->win);
    }
    MPI_Win_unlock(target, b->win);
}

/* Words as word_of() has them, except the first, in which atomic operations count. */
static void fill_buffers(const struct buffers *b, const struct operation *op)
{
    const int counts = op->what == FETCH_AND_OP || op->what == COMPARE_AND_SWAP;

    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b->p->rank, 0, b->win);
    for (uint64_t i = 0; i < 2 * b->words; i++)
        b->base[i] = counts ? 0 : word_of(b->p->rank, i);
    MPI_Win_unlock(b->p->rank, b->win);
    for (uint64_t i = 0; i < b->words; i++)
        b->out[i] = word_of(b->p->rank + b->p->size, i);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Of every word the first, the last, and some between. */
static void verify_in(const struct buffers *b, const struct operation *op, uint64_t words)
{
    int half, target = target_of(b->p, op, n_targets(b->p, op) - 1, &half);
    int64_t before = (int64_t)n_iterations - 1;

    for (uint64_t i = 0; i < words; i += i < words - 1 && i + 511 >= words ? words - 1 - i : 511) {
        int64_t expected = word_of(target, (uint64_t)half * b->words + i);

        if (op->what == GET_ACCUMULATE)
            expected += before * b->out[i];
        else if (op->what != GET)
            expected = before;
        CHECK(b->in[i] == expected, "%s of %llu words: word %llu fetched is %lld, not %lld",
              op->name, (unsigned long long)words, (unsigned long long)i, (long long)b->in[i],
              (long long)expected);
    }
}

/* What others did to this rank's window. */
static void verify_window(const struct buffers *b, const struct operation *op, uint64_t words)
{
    struct program from = *b->p;
    int half;

    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b->p->rank, 0, b->win);
    for (from.rank = 0; from.rank < from.size; from.rank++) {
        for (int k = 0; is_active(&from, op) && k < n_targets(&from, op); k++) {
            if (target_of(&from, op, k, &half) != b->p->rank)
                continue;
            for (uint64_t i = 0; i < words;
                 i += i < words - 1 && i + 511 >= words ? words - 1 - i : 511) {
                int64_t here = b->base[(uint64_t)half * b->words + i],
                        sent = word_of(from.rank + from.size, i);
                int64_t expected = word_of(b->p->rank, (uint64_t)half * b->words + i);

                if (op->what == PUT)
                    expected = sent;
                else if (op->what == ACCUMULATE || op->what == GET_ACCUMULATE)
                    expected += (int64_t)n_iterations * sent;
                else if (op->what != GET)
                    expected = (int64_t)n_iterations;
                CHECK(here == expected,
                      "%s of %llu words: word %llu in the window is %lld, not %lld", op->name,
                      (unsigned long long)words, (unsigned long long)i, (long long)here,
                      (long long)expected);
            }
        }
    }
    MPI_Win_unlock(b->p->rank, b->win);
}

/* Seconds of one operation on the slowest active rank; ranks that wait let MPI make progress. */
static double measure_operation(const struct buffers *b, const struct operation *op, uint64_t words)
{
    const int active = is_active(b->p, op);
    double seconds = 0, start;

    fill_buffers(b, op);
    start = MPI_Wtime();
    for (uint64_t i = 0; active && i < n_iterations; i++)
        for (int k = 0; k < n_targets(b->p, op); k++) {
            int half, target = target_of(b->p, op, k, &half);

            issue_operation(b, op, words, target, half, (int64_t)i);
        }
    if (active)
        seconds = (MPI_Wtime() - start) / (double)n_iterations / n_targets(b->p, op);
    MPI_Barrier(MPI_COMM_WORLD);
    if (active && op->what != PUT && op->what != ACCUMULATE)
        verify_in(b, op, words);
    verify_window(b, op, words);
    return program_slowest(seconds);
}

/* Words of each size: one, and from 256 KiB to the most, or the most alone. */
static int choose_sizes(uint64_t words[N_SIZES])
{
    int n = 0;

    words[n++] = 1;
    for (uint64_t kib = most_kib < 256 ? most_kib : 256; kib <= most_kib && n < N_SIZES; kib *= 2)
        words[n++] = kib * 128;
    return n;
}

int main(int argc, char **argv)
{
    static const struct program_option options[] = {
        {"--iterations", &n_iterations, 5, "operations of each kind and size"},
        {"--most", &most_kib, 16, "KiB of the largest operation, up to 65536"},
        {0},
    };
    static double seconds[PROGRAM_MAX_CASES][N_OPERATIONS][N_SIZES][PROGRAM_MAX_TRIALS];
    uint64_t words[N_SIZES], trial;
    struct buffers b;
    struct program p;
    int n;

    program_init(&p, "rma", &argc, &argv, options);
    CHECK(n_iterations > 0 && most_kib > 0 && most_kib <= 65536, "an option is out of range");
    n = choose_sizes(words);
    b.p = &p;
    b.words = most_kib * 128;
    b.out = malloc(b.words * 8);
    b.in = malloc(b.words * 8);
    CHECK(b.out && b.in, "no memory");
    for (int i = -1; program_next(&p, &i, &trial);) {
        if (!program_window(&p, i, (MPI_Aint)(b.words * 16), 8, &b.base, &b.win))
            continue;
        for (size_t o = 0; o < N_OPERATIONS; o++)
            for (int s = 0; s < n; s++)
                if (s == 0 ||
                    (operations[o].what != FETCH_AND_OP && operations[o].what != COMPARE_AND_SWAP))
                    seconds[i][o][s][trial] = measure_operation(&b, &operations[o], words[s]);
        MPI_Win_free(&b.win);
    }
    for (int i = 0; i < p.n_cases; i++) {
        if (p.works[i] != 1)
            continue;
        for (size_t o = 0; o < N_OPERATIONS; o++) {
            program_figure(&p, operations[o].name, 8, p.cases[i].who, "time",
                           1e6 * program_median(seconds[i][o][0], p.n_trials), "us");
            for (int s = 1; s < n && seconds[i][o][s][0] > 0; s++)
                program_figure(
                    &p, operations[o].name, words[s] * 8, p.cases[i].who, "bandwidth",
                    (double)words[s] * 8e-6 / program_median(seconds[i][o][s], p.n_trials), "MB/s");
        }
    }
    free(b.out);
    free(b.in);
    return program_end(&p);
}

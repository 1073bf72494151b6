/* SPDX-License-Identifier: BSD-3-Clause */
/* Word count by MapReduce ("MPI Windows on Storage for HPC Applications", section 3.5.2), with a checkpoint after every
 * map task, in two forms: 1S  one-sided: ranks draw tasks with a fetch-and-add, count into a table in their window, and
 * fetch what they reduce with gets; a checkpoint is an exclusive lock on the own window and MPI_Win_sync, which writes
 * what changed 2S  collective: tasks are dealt out in rounds, tables travel by MPI_Alltoall; a checkpoint writes every
 * rank's table into one file with MPI_File_write_at_all and MPI_File_sync Each is also timed without checkpoints. The
 * input is made of words drawn by Zipf's law, so that every count is known beforehand. */
#include "program.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORD_BYTES 16 /* with a NUL */
#define CHUNK      ((size_t)1 << 20)

static uint64_t n_words = 50000, task_mib = 64, tasks_per_rank = 4;

/* A word and how often it was seen; no word in it: free. */
struct entry {
    uint64_t count;
    char word[WORD_BYTES];
};

/* A window: the counter of drawn tasks (rank 0's counts), how many this rank has done, then one slice of the table for
 * each rank that reduces. */
struct store {
    uint64_t next_task, n_done;
    uint64_t pad[510];
    struct entry table[];
};

struct job {
    struct program *p;
    int input; /* descriptor of the input */
    uint64_t n_tasks;
    uint64_t slice; /* entries of a slice, a power of two */
    size_t bytes;   /* of a store */
    char (*words)[WORD_BYTES];
    uint64_t *expected; /* how often each word is in the input, on every rank */
    char *chunk;
};

static uint64_t hash_of(const char *word, size_t length)
{
    uint64_t h = length;

    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)word[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

/* Adds to a word's count in the slice of the rank that reduces it. */
static void count(const struct job *j, struct entry *table, const char *word, size_t length, uint64_t by)
{
    uint64_t h = hash_of(word, length);
    struct entry *slice = table + (h >> 40) % (uint64_t)j->p->size * j->slice;

    for (uint64_t at = h & (j->slice - 1), tries = 0;; at = (at + 1) & (j->slice - 1)) {
        struct entry *e = &slice[at];

        if (e->word[0] == 0)
            memcpy(e->word, word, length);
        else if (memcmp(e->word, word, length) != 0 || e->word[length] != 0) {
            CHECK(++tries < j->slice, "a slice of %llu words is full", (unsigned long long)j->slice);
            continue;
        }
        e->count += by;
        return;
    }
}

/* Words of 2 to 15 letters, all different: a number in base 26 behind a length that varies. */
static void make_words(struct job *j)
{
    for (uint64_t i = 0; i < n_words; i++) {
        uint64_t x = program_mix(i), length = 5 + x % 10, number = i;

        for (uint64_t k = 0; k < length; k++) {
            j->words[i][k] = (char)('a' + (k < 5 ? number % 26 : x % 26));
            number /= 26;
            x = program_mix(x);
        }
    }
}

/* Writes this rank's share of the input and counts its words. A task ends on a blank. */
static void make_input(struct job *j, const char *path)
{
    double *sum = malloc(n_words * sizeof(*sum)), all = 0;
    uint64_t rng = j->p->seed + (uint64_t)j->p->rank, mask = 65535, *first = malloc((mask + 1) * sizeof(*first));
    size_t task = task_mib << 20;

    CHECK(sum && first, "no memory");
    CHECK((j->input = open(path, O_CREAT | O_RDWR, 0600)) >= 0, "%s cannot be made", path);
    for (uint64_t i = 0; i < n_words; i++)
        sum[i] = all += 1.0 / (double)(i + 1);
    for (uint64_t i = 0, word = 0; i <= mask; i++) { /* where to look for a random number with these upper bits */
        while (word < n_words - 1 && sum[word] / all < (double)i / (double)(mask + 1))
            word++;
        first[i] = word;
    }
    for (uint64_t t = (uint64_t)j->p->rank; t < j->n_tasks; t += (uint64_t)j->p->size) {
        for (size_t at = 0; at < task; at += CHUNK) {
            size_t n = 0;

            while (n + WORD_BYTES < CHUNK) {
                uint64_t r = program_mix(++rng), word = first[r & mask];
                size_t length;

                while (word < n_words - 1 &&
                       sum[word] / all < ((double)(r & mask) + (double)(r >> 32) / 4294967296.0) / (double)(mask + 1))
                    word++;
                length = strlen(j->words[word]);
                memcpy(j->chunk + n, j->words[word], length);
                n += length;
                j->chunk[n++] = ' ';
                j->expected[word]++;
            }
            memset(j->chunk + n, ' ', CHUNK - n);
            CHECK(pwrite(j->input, j->chunk, CHUNK, (off_t)(t * task + at)) == (ssize_t)CHUNK, "%s: no space?", path);
        }
    }
    free(sum);
    free(first);
    MPI_Allreduce(MPI_IN_PLACE, j->expected, (int)n_words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* Counts the words of one task. MPI gets its turn now and then: others may wait for an answer of this rank. */
static void map(const struct job *j, uint64_t task, struct entry *table)
{
    int flag;

    for (size_t at = 0; at < task_mib << 20; at += CHUNK) {
        const char *c = j->chunk, *end = c + CHUNK;

        CHECK(pread(j->input, j->chunk, CHUNK, (off_t)((task * task_mib << 20) + at)) == (ssize_t)CHUNK,
              "the input is cut off");
        while (c < end) {
            const char *blank = memchr(c, ' ', (size_t)(end - c));

            if (blank > c)
                count(j, table, c, (size_t)(blank - c), 1);
            c = blank + 1;
        }
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
}

static void merge(const struct job *j, struct entry *table, const struct entry *slice)
{
    for (uint64_t i = 0; i < j->slice; i++)
        if (slice[i].word[0])
            count(j, table, slice[i].word, strlen(slice[i].word), slice[i].count);
}

/* Every word is in the slice of its rank, as often as it was written. */
static void verify(const struct job *j, struct entry *table, const char *who)
{
    uint64_t n = 0, expected = 0;

    for (uint64_t i = 0; i < n_words; i++) {
        size_t length = strlen(j->words[i]);
        uint64_t h = hash_of(j->words[i], length), at = h & (j->slice - 1);
        struct entry *slice = table + (uint64_t)j->p->rank * j->slice;

        if ((h >> 40) % (uint64_t)j->p->size != (uint64_t)j->p->rank || j->expected[i] == 0)
            continue;
        expected++;
        while (slice[at].word[0] && strcmp(slice[at].word, j->words[i]) != 0)
            at = (at + 1) & (j->slice - 1);
        CHECK(slice[at].word[0] && slice[at].count == j->expected[i],
              "%s: '%s' was counted %llu times, written %llu times", who, j->words[i],
              (unsigned long long)slice[at].count, (unsigned long long)j->expected[i]);
    }
    for (uint64_t i = 0; i < j->slice; i++)
        n += table[(uint64_t)j->p->rank * j->slice + i].word[0] != 0;
    CHECK(n == expected, "%s: %llu words were counted, %llu written", who, (unsigned long long)n,
          (unsigned long long)expected);
}

/* The time of the checkpoints alone is told apart. 0: the hints had no effect. */
static int one_sided(struct job *j, int which, int checkpoint, double seconds[2])
{
    static const uint64_t one = 1;
    struct program *p = j->p;
    struct entry *slice = malloc(j->slice * sizeof(*slice)),
                 *result = calloc(j->slice * (uint64_t)p->size, sizeof(*result));
    struct store *s;
    double start, begin;
    MPI_Win win;

    CHECK(slice && result, "no memory");
    if (!program_window(p, which, (MPI_Aint)j->bytes, 1, &s, &win)) {
        free(slice);
        free(result);
        return 0;
    }
    memset(s, 0, j->bytes);
    if (checkpoint) { /* the empty table is on storage: what is timed is the tasks */
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, win);
        MPI_Win_sync(win);
        MPI_Win_unlock(p->rank, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    seconds[1] = 0;
    for (;;) {
        uint64_t task;

        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Fetch_and_op(&one, &task, MPI_UINT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_unlock(0, win);
        if (task >= j->n_tasks)
            break;
        map(j, task, s->table);
        s->n_done++;
        if (checkpoint) {
            start = MPI_Wtime();
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, win);
            MPI_Win_sync(win);
            MPI_Win_unlock(p->rank, win);
            seconds[1] += MPI_Wtime() - start;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD); /* all tables are whole */
    for (int r = 0; r < p->size; r++) {
        int from = (p->rank + r) % p->size;

        MPI_Win_lock(MPI_LOCK_SHARED, from, 0, win);
        MPI_Get(slice, (int)(j->slice * sizeof(*slice)), MPI_BYTE, from,
                (MPI_Aint)(sizeof(*s) + (uint64_t)p->rank * j->slice * sizeof(*slice)),
                (int)(j->slice * sizeof(*slice)), MPI_BYTE, win);
        MPI_Win_unlock(from, win);
        merge(j, result, slice);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* nobody reads the tables any more */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, win);
    memcpy(s->table + (uint64_t)p->rank * j->slice, result + (uint64_t)p->rank * j->slice, j->slice * sizeof(*slice));
    start = MPI_Wtime();
    if (checkpoint)
        MPI_Win_sync(win);
    seconds[1] += MPI_Wtime() - start;
    MPI_Win_unlock(p->rank, win);
    seconds[0] = program_slowest(MPI_Wtime() - begin);
    seconds[1] = program_slowest(seconds[1]);
    verify(j, s->table, p->cases[which].who);
    MPI_Win_free(&win);
    free(slice);
    free(result);
    return 1;
}

static void collective(struct job *j, const char *path, double seconds[2])
{
    struct program *p = j->p;
    size_t table_bytes = j->slice * (uint64_t)p->size * sizeof(struct entry);
    struct entry *table = calloc(1, table_bytes), *slices = malloc(table_bytes), *result = calloc(1, table_bytes);
    double start, begin;
    MPI_File file = MPI_FILE_NULL;

    CHECK(table && slices && result, "no memory");
    if (path)
        CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file) ==
                  MPI_SUCCESS,
              "%s", path);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    seconds[1] = 0;
    for (uint64_t round = 0; round < j->n_tasks; round += (uint64_t)p->size) {
        if (round + (uint64_t)p->rank < j->n_tasks)
            map(j, round + (uint64_t)p->rank, table);
        start = MPI_Wtime();
        if (path) {
            MPI_File_write_at_all(file, (MPI_Offset)((size_t)p->rank * table_bytes), table, (int)table_bytes, MPI_BYTE,
                                  MPI_STATUS_IGNORE);
            MPI_File_sync(file);
        }
        seconds[1] += MPI_Wtime() - start;
    }
    MPI_Alltoall(table, (int)(j->slice * sizeof(*table)), MPI_BYTE, slices, (int)(j->slice * sizeof(*table)), MPI_BYTE,
                 MPI_COMM_WORLD);
    for (int r = 0; r < p->size; r++)
        merge(j, result, slices + (uint64_t)r * j->slice);
    start = MPI_Wtime();
    if (path) {
        MPI_File_write_at_all(file, (MPI_Offset)((size_t)p->rank * table_bytes), result, (int)table_bytes, MPI_BYTE,
                              MPI_STATUS_IGNORE);
        MPI_File_sync(file);
    }
    seconds[1] += MPI_Wtime() - start;
    seconds[0] = program_slowest(MPI_Wtime() - begin);
    seconds[1] = program_slowest(seconds[1]);
    if (path)
        MPI_File_close(&file);
    verify(j, result, "2S");
    free(table);
    free(slices);
    free(result);
}

static double report(const struct job *j, const char *who, const char *which, double times[2][PROGRAM_MAX_TRIALS],
                     double base)
{
    double s[PROGRAM_MAX_TRIALS], total;
    uint64_t bytes = j->n_tasks * task_mib << 20;

    memcpy(s, times[0], sizeof(s));
    total = program_median(s, j->p->n_trials);
    program_figure(j->p, which, bytes, who, "time", total, "s");
    if (base > 0) {
        program_figure(j->p, which, bytes, who, "checkpoint overhead", 100 * (total / base - 1), "%");
        for (uint64_t t = 0; t < j->p->n_trials; t++)
            s[t] = 100 * times[1][t] / (times[0][t] - times[1][t]);
        program_figure(j->p, which, bytes, who, "time in checkpoints", program_median(s, j->p->n_trials), "%");
    }
    return total;
}

static void start(struct job *j, const char *input)
{
    uint64_t room = 2 * n_words / (uint64_t)j->p->size + 16;

    j->n_tasks = tasks_per_rank * (uint64_t)j->p->size;
    for (j->slice = 16; j->slice < room; j->slice *= 2)
        ;
    j->bytes = sizeof(struct store) + j->slice * (uint64_t)j->p->size * sizeof(struct entry);
    CHECK(j->bytes < INT32_MAX, "the table is too large");
    j->words = calloc(n_words, sizeof(*j->words));
    j->expected = calloc(n_words, sizeof(*j->expected));
    j->chunk = malloc(CHUNK);
    CHECK(j->words && j->expected && j->chunk, "no memory");
    make_words(j);
    make_input(j, input);
}

int main(int argc, char **argv)
{
    static const struct program_option options[] = {
        {"--words", &n_words, 1000, "different words, up to 5,000,000"},
        {"--task", &task_mib, 1, "MiB of text in a map task"},
        {"--tasks", &tasks_per_rank, 2, "map tasks a rank"},
        {0},
    };
    static double times[PROGRAM_MAX_CASES][2][PROGRAM_MAX_TRIALS], two[2][2][PROGRAM_MAX_TRIALS];
    char input[4096], path[4096], who[64];
    struct program p;
    struct job j = {.p = &p};
    uint64_t trial;
    double base;

    program_init(&p, "mapreduce", &argc, &argv, options);
    CHECK(n_words > 0 && n_words <= 5000000 && task_mib > 0 && tasks_per_rank > 0, "an option is out of range");
    snprintf(input, sizeof(input), "%s/mapreduce.input", p.dir ? p.dir : ".");
    snprintf(path, sizeof(path), "%s/mapreduce.mpiio", p.dir ? p.dir : ".");
    start(&j, input);
    for (int i = -1; program_next(&p, &i, &trial);) {
        double one[2];

        for (int with = 0; i == 0 && with < 2; with++) {
            collective(&j, with && p.dir ? path : NULL, one);
            two[with][0][trial] = one[0];
            two[with][1][trial] = one[1];
        }
        if (one_sided(&j, i, p.cases[i].hints[0] != 0, one)) {
            times[i][0][trial] = one[0];
            times[i][1][trial] = one[1];
        }
    }
    base = report(&j, "2S", "no checkpoints", two[0], 0);
    if (p.dir)
        report(&j, "2S MPI I/O", "checkpoints", two[1], base);
    base = 0;
    for (int i = 0; i < p.n_cases; i++) {
        if (p.works[i] != 1)
            continue;
        snprintf(who, sizeof(who), "1S %s", p.cases[i].who);
        if (p.cases[i].hints[0] == 0)
            base = report(&j, who, "no checkpoints", times[i], 0);
        else
            report(&j, who, "checkpoints", times[i], base);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    close(j.input);
    if (p.rank == 0) {
        unlink(input);
        unlink(path);
    }
    free(j.words);
    free(j.expected);
    free(j.chunk);
    return program_end(&p);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Word count by MapReduce ("MPI Windows on Storage for HPC Applications", section 3.5.2), with a
 * checkpoint after every map task, in two forms:
 *
 *   1S  one-sided: ranks draw tasks with a fetch-and-add, and fetch what they reduce with gets. A
 *       checkpoint is the table and the tasks that it counts, in the older of two slots in the
 *       window (section 4): the changed blocks, a header with a checksum, MPI_Win_sync. With
 *       --restart 1 a job continues from the newest whole slot of each rank.
 *   2S  collective: tasks are dealt out in rounds, tables travel by MPI_Alltoall; a checkpoint
 *       writes every rank's table into one file with MPI_File_write_at_all and MPI_File_sync.
 *
 * Each is also timed without checkpoints. The input is made of words drawn by Zipf's law, so that
 * every count is known beforehand. */
#include "program.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define WORD_BYTES 16 /* with a NUL */
#define CHUNK      ((size_t)1 << 20)

#define BLOCK     ((size_t)4096) /* unit of a checkpoint's update */
#define MAX_TASKS 24576          /* of all ranks: limited by the bits in a slot's header */
#define MAGIC     UINT64_C(0x6365646572706177)

static uint64_t n_words = 50000, task_mib = 64, tasks_per_rank = 4, restart = 0, alarm_ms = 0;

/* A word and how often it was seen; no word in it: free. */
struct entry {
    uint64_t count;
    char word[WORD_BYTES];
};

/* A checkpoint: the tasks whose words the table counts. The table follows, one slice for each rank
 * that reduces. */
struct slot {
    uint64_t magic, job, generation, sum;
    uint64_t tasks[MAX_TASKS / 64];
    uint64_t pad[512 - 4 - MAX_TASKS / 64];
    struct entry table[];
};

/* A window: the counter of drawn tasks (rank 0's counts), two slots, and what this rank has
 * reduced. */
struct store {
    uint64_t next_task;
    uint64_t pad[511];
    unsigned char slots[];
};

struct job {
    struct program *p;
    int input; /* descriptor of the input */
    uint64_t n_tasks;
    uint64_t slice;            /* entries of a slice, a power of two */
    size_t table_bytes, bytes; /* of a table and of a store */
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
static void count_word(const struct job *j, struct entry *table, const char *word, size_t length,
                       uint64_t by)
{
    uint64_t h = hash_of(word, length);
    struct entry *slice = table + (h >> 40) % (uint64_t)j->p->size * j->slice;

    for (uint64_t at = h & (j->slice - 1), tries = 0;; at = (at + 1) & (j->slice - 1)) {
        struct entry *e = &slice[at];

        if (e->word[0] == 0)
            memcpy(e->word, word, length);
        else if (memcmp(e->word, word, length) != 0 || e->word[length] != 0) {
            CHECK(++tries < j->slice, "a slice of %llu words is full",
                  (unsigned long long)j->slice);
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
    uint64_t rng = j->p->seed + (uint64_t)j->p->rank, mask = 65535,
             *first = malloc((mask + 1) * sizeof(*first));
    size_t task = task_mib << 20;

    CHECK(sum && first, "no memory");
    CHECK((j->input = open(path, O_CREAT | O_RDWR, 0600)) >= 0, "%s cannot be made", path);
    for (uint64_t i = 0; i < n_words; i++)
        sum[i] = all += 1.0 / (double)(i + 1);
    for (uint64_t i = 0, word = 0; i <= mask;
         i++) { /* where to look for a random number with these upper bits */
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
                       sum[word] / all < ((double)(r & mask) + (double)(r >> 32) / 4294967296.0) /
                                             (double)(mask + 1))
                    word++;
                length = strlen(j->words[word]);
                memcpy(j->chunk + n, j->words[word], length);
                n += length;
                j->chunk[n++] = ' ';
                j->expected[word]++;
            }
            memset(j->chunk + n, ' ', CHUNK - n);
            CHECK(pwrite(j->input, j->chunk, CHUNK, (off_t)(t * task + at)) == (ssize_t)CHUNK,
                  "%s: no space?", path);
        }
    }
    free(sum);
    free(first);
    MPI_Allreduce(MPI_IN_PLACE, j->expected, (int)n_words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* Counts the words of one task. Calls MPI now and then: other ranks may wait for an answer of this
 * one. */
static void map_task(const struct job *j, uint64_t task, struct entry *table)
{
    int flag;

    for (size_t at = 0; at < task_mib << 20; at += CHUNK) {
        const char *c = j->chunk, *end = c + CHUNK;

        CHECK(pread(j->input, j->chunk, CHUNK, (off_t)((task * task_mib << 20) + at)) ==
                  (ssize_t)CHUNK,
              "the input is cut off");
        while (c < end) {
            const char *blank = memchr(c, ' ', (size_t)(end - c));

            if (blank > c)
                count_word(j, table, c, (size_t)(blank - c), 1);
            c = blank + 1;
        }
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
}

static void merge_slice(const struct job *j, struct entry *table, const struct entry *slice)
{
    for (uint64_t i = 0; i < j->slice; i++)
        if (slice[i].word[0])
            count_word(j, table, slice[i].word, strlen(slice[i].word), slice[i].count);
}

/* Every word is in the slice of its rank, as often as it was written. */
static void verify_slice(const struct job *j, const struct entry *slice, const char *who)
{
    uint64_t n = 0, expected = 0;

    for (uint64_t i = 0; i < n_words; i++) {
        size_t length = strlen(j->words[i]);
        uint64_t h = hash_of(j->words[i], length), at = h & (j->slice - 1);

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
        n += slice[i].word[0] != 0;
    CHECK(n == expected, "%s: %llu words were counted, %llu written", who, (unsigned long long)n,
          (unsigned long long)expected);
}

/* The state of a rank of a one-sided job. */
struct side {
    struct job *j;
    MPI_Win win;
    struct store *store;
    struct entry *table;            /* being counted into; the window has copies */
    uint64_t tasks[MAX_TASKS / 64]; /* whose words are in it */
    uint64_t generation;
    int newest; /* slot */
    double checkpoint_seconds;
};

static struct slot *slot_of(const struct side *s, int i)
{
    return (void *)(s->store->slots + (size_t)i * (sizeof(struct slot) + s->j->table_bytes));
}

static struct entry *result_of(const struct side *s)
{
    return (void *)slot_of(s, 2);
}

/* A job of another seed, size or number of ranks cannot continue from this checkpoint. */
static uint64_t job_id(const struct job *j)
{
    uint64_t id = program_mix(j->p->seed) + n_words;

    id = program_mix(id) + task_mib;
    id = program_mix(id) + j->n_tasks;
    id = program_mix(id) + (uint64_t)j->p->size;
    return program_mix(id) + (uint64_t)j->p->rank;
}

static uint64_t sum_of(const struct job *j, const struct slot *slot)
{
    const uint64_t *at = slot->tasks,
                   *end = (const uint64_t *)((const char *)slot->table + j->table_bytes);
    uint64_t sum = slot->job ^ program_mix(slot->generation);

    for (; at < end; at++)
        sum = (sum ^ *at) * UINT64_C(0x9e3779b97f4a7c15) ^ sum >> 31;
    return sum;
}

/* Makes the older slot the newest. */
static void write_checkpoint(struct side *s)
{
    const struct job *j = s->j;
    struct slot *slot = slot_of(s, 1 - s->newest);
    const char *from = (const char *)s->table;
    char *to = (char *)slot->table;
    double start = MPI_Wtime();

    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, j->p->rank, 0, s->win);
    slot->magic = 0;
    for (size_t at = 0; at < j->table_bytes; at += BLOCK) {
        size_t n = j->table_bytes - at < BLOCK ? j->table_bytes - at : BLOCK;

        if (memcmp(to + at, from + at, n) != 0)
            memcpy(to + at, from + at, n);
    }
    memcpy(slot->tasks, s->tasks, sizeof(s->tasks));
    slot->job = job_id(j);
    slot->generation = ++s->generation;
    slot->sum = sum_of(j, slot);
    slot->magic = MAGIC;
    MPI_Win_sync(s->win);
    MPI_Win_unlock(j->p->rank, s->win);
    s->newest = 1 - s->newest;
    s->checkpoint_seconds += MPI_Wtime() - start;
}

/* Finds the newest whole slot, if any, and takes it over. */
static void restore_checkpoint(struct side *s)
{
    for (int i = 0; i < 2; i++) {
        const struct slot *slot = slot_of(s, i);

        if (slot->magic != MAGIC || slot->generation <= s->generation ||
            slot->sum != sum_of(s->j, slot))
            continue;
        CHECK(slot->job == job_id(s->j), "the window holds checkpoints of another job");
        s->newest = i;
        s->generation = slot->generation;
    }
    if (s->generation > 0) {
        memcpy(s->tasks, slot_of(s, s->newest)->tasks, sizeof(s->tasks));
        memcpy(s->table, slot_of(s, s->newest)->table, s->j->table_bytes);
    }
}

/* Lists the tasks that no rank has done; returns how many. */
static uint64_t tasks_left(const struct side *s, uint64_t *left)
{
    static uint64_t done[MAX_TASKS / 64];
    uint64_t n = 0;

    MPI_Allreduce(s->tasks, done, MAX_TASKS / 64, MPI_UINT64_T, MPI_BOR, MPI_COMM_WORLD);
    for (uint64_t t = 0; t < s->j->n_tasks; t++)
        if (!(done[t / 64] >> t % 64 & 1))
            left[n++] = t;
    return n;
}

/* Kills this rank without a warning, at any point of its work. */
static void set_alarm(void)
{
    struct itimerval in = {.it_value = {.tv_sec = (time_t)(alarm_ms / 1000),
                                        .tv_usec = (suseconds_t)(alarm_ms % 1000 * 1000)}};

    if (alarm_ms > 0)
        setitimer(ITIMER_REAL, &in, NULL);
}

static void map_tasks(struct side *s, const uint64_t *left, uint64_t n_left, int with_checkpoints)
{
    static const uint64_t one = 1;

    for (;;) {
        uint64_t i, task;

        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, s->win);
        MPI_Fetch_and_op(&one, &i, MPI_UINT64_T, 0, 0, MPI_SUM, s->win);
        MPI_Win_unlock(0, s->win);
        if (i >= n_left)
            return;
        task = left[i];
        map_task(s->j, task, s->table);
        s->tasks[task / 64] |= UINT64_C(1) << task % 64;
        if (with_checkpoints)
            write_checkpoint(s);
    }
}

/* Gets this rank's slice of every table, adds them up, and puts the sum into the window. */
static void reduce_slices(struct side *s, int with_checkpoints)
{
    const struct job *j = s->j;
    const struct program *p = j->p;
    const size_t slice_bytes = j->slice * sizeof(struct entry);
    struct entry *slice = malloc(slice_bytes), *sum = calloc(1, j->table_bytes);
    int *newest = malloc((size_t)p->size * sizeof(*newest));
    double start;

    CHECK(slice && sum && newest, "no memory");
    if (!with_checkpoints) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, s->win);
        memcpy(slot_of(s, s->newest)->table, s->table, j->table_bytes);
        MPI_Win_unlock(p->rank, s->win);
    }
    MPI_Allgather(&s->newest, 1, MPI_INT, newest, 1, MPI_INT,
                  MPI_COMM_WORLD); /* all tables are whole */
    for (int r = 0; r < p->size; r++) {
        int from = (p->rank + r) % p->size;
        const char *at =
            (const char *)slot_of(s, newest[from])->table + (size_t)p->rank * slice_bytes;

        MPI_Win_lock(MPI_LOCK_SHARED, from, 0, s->win);
        MPI_Get(slice, (int)slice_bytes, MPI_BYTE, from, (MPI_Aint)(at - (const char *)s->store),
                (int)slice_bytes, MPI_BYTE, s->win);
        MPI_Win_unlock(from, s->win);
        merge_slice(j, sum, slice);
    }
    start = MPI_Wtime();
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, s->win);
    memcpy(result_of(s), (const char *)sum + (size_t)p->rank * slice_bytes, slice_bytes);
    if (with_checkpoints)
        MPI_Win_sync(s->win);
    MPI_Win_unlock(p->rank, s->win);
    s->checkpoint_seconds += with_checkpoints ? MPI_Wtime() - start : 0;
    free(slice);
    free(sum);
    free(newest);
}

/* The same for the same words and counts in any order. */
static void print_digest(const struct side *s)
{
    const struct entry *e = result_of(s), *end = e + s->j->slice;
    uint64_t digest = 0;

    for (; e < end; e++)
        if (e->word[0])
            digest += program_mix(hash_of(e->word, strlen(e->word)) + e->count);
    MPI_Allreduce(MPI_IN_PLACE, &digest, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (s->j->p->rank == 0)
        fprintf(stderr, "mapreduce: the words and their counts: %016llx\n",
                (unsigned long long)digest);
}

/* Reports the time of the checkpoints apart. 0: the hints had no effect. */
static int run_one_sided(struct job *j, int which, int with_checkpoints, double seconds[2])
{
    struct program *p = j->p;
    struct side s = {.j = j};
    uint64_t *left = malloc(j->n_tasks * sizeof(*left)), n_left;
    double begin;

    if (!program_window(p, which, (MPI_Aint)j->bytes, 1, &s.store, &s.win)) {
        free(left);
        return 0;
    }
    s.table = calloc(1, j->table_bytes);
    CHECK(s.table && left, "no memory");
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, s.win);
    if (restart && with_checkpoints)
        restore_checkpoint(&s);
    else
        memset(s.store, 0, j->bytes);
    s.store->next_task = 0;
    if (with_checkpoints) /* the empty table is on storage: the clock covers the tasks */
        MPI_Win_sync(s.win);
    MPI_Win_unlock(p->rank, s.win);
    n_left = tasks_left(&s, left);
    if (restart)
        program_figure(p, p->cases[which].who, j->n_tasks, "1S", "tasks restored",
                       (double)(j->n_tasks - n_left), "tasks");
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    set_alarm();
    map_tasks(&s, left, n_left, with_checkpoints);
    reduce_slices(&s, with_checkpoints);
    seconds[0] = program_slowest(MPI_Wtime() - begin);
    seconds[1] = program_slowest(s.checkpoint_seconds);
    verify_slice(j, result_of(&s), p->cases[which].who);
    if (restart)
        print_digest(&s);
    MPI_Win_free(&s.win);
    free(s.table);
    free(left);
    return 1;
}

static void write_table(MPI_File file, const char *path, int rank, const struct entry *table,
                        size_t bytes)
{
    CHECK(MPI_File_write_at_all(file, (MPI_Offset)((size_t)rank * bytes), table, (int)bytes,
                                MPI_BYTE, MPI_STATUS_IGNORE) == MPI_SUCCESS,
          "%s", path);
    CHECK(MPI_File_sync(file) == MPI_SUCCESS, "%s", path);
}

static void run_collective(struct job *j, const char *path, double seconds[2])
{
    struct program *p = j->p;
    size_t table_bytes = j->slice * (uint64_t)p->size * sizeof(struct entry);
    struct entry *table = calloc(1, table_bytes), *slices = malloc(table_bytes),
                 *result = calloc(1, table_bytes);
    double start, begin;
    MPI_File file = MPI_FILE_NULL;

    CHECK(table && slices && result, "no memory");
    if (path)
        CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                            &file) == MPI_SUCCESS,
              "%s", path);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    seconds[1] = 0;
    for (uint64_t round = 0; round < j->n_tasks; round += (uint64_t)p->size) {
        if (round + (uint64_t)p->rank < j->n_tasks)
            map_task(j, round + (uint64_t)p->rank, table);
        start = MPI_Wtime();
        if (path)
            write_table(file, path, p->rank, table, table_bytes);
        seconds[1] += MPI_Wtime() - start;
    }
    MPI_Alltoall(table, (int)(j->slice * sizeof(*table)), MPI_BYTE, slices,
                 (int)(j->slice * sizeof(*table)), MPI_BYTE, MPI_COMM_WORLD);
    for (int r = 0; r < p->size; r++)
        merge_slice(j, result, slices + (uint64_t)r * j->slice);
    start = MPI_Wtime();
    if (path)
        write_table(file, path, p->rank, result, table_bytes);
    seconds[1] += MPI_Wtime() - start;
    seconds[0] = program_slowest(MPI_Wtime() - begin);
    seconds[1] = program_slowest(seconds[1]);
    if (path)
        MPI_File_close(&file);
    verify_slice(j, result + (uint64_t)p->rank * j->slice, "2S");
    free(table);
    free(slices);
    free(result);
}

static double print_seconds(const struct job *j, const char *who, const char *which,
                            double times[2][PROGRAM_MAX_TRIALS], double base)
{
    double s[PROGRAM_MAX_TRIALS], total;
    uint64_t bytes = j->n_tasks * task_mib << 20;

    memcpy(s, times[0], sizeof(s));
    total = program_median(s, j->p->n_trials);
    program_figure(j->p, which, bytes, who, "time", total, "s");
    if (base > 0) {
        program_figure(j->p, which, bytes, who, "checkpoint overhead", 100 * (total / base - 1),
                       "%");
        for (uint64_t t = 0; t < j->p->n_trials; t++)
            s[t] = 100 * times[1][t] / (times[0][t] - times[1][t]);
        program_figure(j->p, which, bytes, who, "time in checkpoints",
                       program_median(s, j->p->n_trials), "%");
    }
    return total;
}

static void start_job(struct job *j, const char *input)
{
    uint64_t room = 2 * n_words / (uint64_t)j->p->size + 16;

    j->n_tasks = tasks_per_rank * (uint64_t)j->p->size;
    for (j->slice = 16; j->slice < room; j->slice *= 2)
        ;
    j->table_bytes = j->slice * (uint64_t)j->p->size * sizeof(struct entry);
    j->bytes = sizeof(struct store) + 2 * (sizeof(struct slot) + j->table_bytes) +
               j->slice * sizeof(struct entry);
    CHECK(j->n_tasks <= MAX_TASKS && j->table_bytes < INT32_MAX / 4, "the job is too large");
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
        {"--restart", &restart, 0,
         "1: only one-sided, from the checkpoint that the windows of --case hold, if any"},
        {"--alarm", &alarm_ms, 0,
         "die this number of milliseconds after the first task has begun; 0: never"},
        {0},
    };
    static double times[PROGRAM_MAX_CASES][2][PROGRAM_MAX_TRIALS], two[2][2][PROGRAM_MAX_TRIALS];
    char input[4096], path[4096], who[64];
    struct program p;
    struct job j = {.p = &p};
    uint64_t trial;
    double base;

    program_init(&p, "mapreduce", &argc, &argv, options);
    CHECK(n_words > 0 && n_words <= 5000000 && task_mib > 0 && tasks_per_rank > 0,
          "an option is out of range");
    snprintf(input, sizeof(input), "%s/mapreduce.input", p.dir ? p.dir : ".");
    snprintf(path, sizeof(path), "%s/mapreduce.mpiio", p.dir ? p.dir : ".");
    start_job(&j, input);
    for (int i = -1; program_next(&p, &i, &trial);) {
        double one[2];

        for (int with = 0; i == 0 && !restart && with < 2; with++) {
            run_collective(&j, with && p.dir ? path : NULL, one);
            two[with][0][trial] = one[0];
            two[with][1][trial] = one[1];
        }
        if (run_one_sided(&j, i, p.cases[i].hints[0] != 0, one)) {
            times[i][0][trial] = one[0];
            times[i][1][trial] = one[1];
        }
    }
    base = restart ? 0 : print_seconds(&j, "2S", "no checkpoints", two[0], 0);
    if (p.dir && !restart)
        print_seconds(&j, "2S MPI I/O", "checkpoints", two[1], base);
    base = 0;
    for (int i = 0; i < p.n_cases; i++) {
        if (p.works[i] != 1)
            continue;
        snprintf(who, sizeof(who), "1S %s", p.cases[i].who);
        if (p.cases[i].hints[0] == 0)
            base = print_seconds(&j, who, "no checkpoints", times[i], 0);
        else
            print_seconds(&j, who, "checkpoints", times[i], base);
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

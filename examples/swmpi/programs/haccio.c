/* SPDX-License-Identifier: BSD-3-Clause */
/* The checkpoint and restart of HACC ("MPI Windows on Storage for HPC Applications", section
 * 3.5.1): the ranks write nine arrays of particle data, 38 bytes a particle, to one shared file,
 * and read them back: with MPI I/O (individual writes and MPI_File_sync), and with a window on that
 * file (stores and MPI_Win_sync). Each side opens, writes, synchronizes and closes; then opens,
 * reads and closes; the file is new each time. Each rank compares what it read byte by byte.
 * Without storage windows the window side checkpoints into memory. */
#include "program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_ARRAYS 9

/* xx yy zz vx vy vz phi: float; pid: int64_t; mask: uint16_t */
static const size_t element_bytes[N_ARRAYS] = {4, 4, 4, 4, 4, 4, 4, 8, 2};

static uint64_t n_particles = 8000000;

struct particles {
    unsigned char *array[N_ARRAYS];
    uint64_t n;     /* of this rank */
    uint64_t first; /* of all */
    /* of the arrays of the rank with most, rounded up to 64 KiB: where in the file the next rank
     * begins */
    MPI_Aint bytes;
};

static void particles_new(const struct program *p, struct particles *q)
{
    uint64_t most = (n_particles + (uint64_t)p->size - 1) / (uint64_t)p->size;

    q->first = most * (uint64_t)p->rank < n_particles ? most * (uint64_t)p->rank : n_particles;
    q->n = q->first + most <= n_particles ? most : n_particles - q->first;
    q->bytes = (MPI_Aint)((most * 38 + 65535) & ~UINT64_C(65535));
    for (int i = 0; i < N_ARRAYS; i++)
        CHECK((q->array[i] = malloc(q->n * element_bytes[i] + 1)), "no memory");
}

static void particles_fill(struct particles *q, uint64_t seed)
{
    for (int i = 0; i < N_ARRAYS; i++) {
        for (size_t at = 0; at < q->n * element_bytes[i]; at += 8) {
            uint64_t x = program_mix(seed + q->first * N_ARRAYS + at * N_ARRAYS + (uint64_t)i);
            size_t rest = q->n * element_bytes[i] - at;

            memcpy(q->array[i] + at, &x, rest < 8 ? rest : 8);
        }
    }
}

static void compare_particles(const struct particles *wrote, const struct particles *read,
                              const char *who)
{
    for (int i = 0; i < N_ARRAYS; i++)
        CHECK(memcmp(wrote->array[i], read->array[i], wrote->n * element_bytes[i]) == 0,
              "%s: array %d is not what was written", who, i);
}

static void clear_particles(struct particles *q)
{
    for (int i = 0; i < N_ARRAYS; i++)
        memset(q->array[i], 0, q->n * element_bytes[i]);
}

/* All arrays to or from one place, one after the other. */
static void copy_particles(struct particles *q, unsigned char *base, int out)
{
    for (int i = 0; i < N_ARRAYS; i++) {
        size_t bytes = q->n * element_bytes[i];

        memcpy(out ? base : q->array[i], out ? q->array[i] : base, bytes);
        base += bytes;
    }
}

static void mpiio_run(const struct program *p, const char *path, struct particles *q,
                      struct particles *back, double seconds[2])
{
    MPI_File file;
    MPI_Offset at = (MPI_Offset)p->rank * q->bytes;
    double start = MPI_Wtime();

    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL,
                        &file) == MPI_SUCCESS,
          "%s", path);
    for (int i = 0; i < N_ARRAYS; at += (MPI_Offset)(q->n * element_bytes[i]), i++)
        CHECK(MPI_File_write_at(file, at, q->array[i], (int)(q->n * element_bytes[i]), MPI_BYTE,
                                MPI_STATUS_IGNORE) == MPI_SUCCESS,
              "%s: array %d", path, i);
    CHECK(MPI_File_sync(file) == MPI_SUCCESS, "%s", path);
    MPI_File_close(&file);
    seconds[0] = program_slowest(MPI_Wtime() - start);
    at = (MPI_Offset)p->rank * q->bytes;
    start = MPI_Wtime();
    CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS,
          "%s", path);
    for (int i = 0; i < N_ARRAYS; at += (MPI_Offset)(q->n * element_bytes[i]), i++)
        CHECK(MPI_File_read_at(file, at, back->array[i], (int)(q->n * element_bytes[i]), MPI_BYTE,
                               MPI_STATUS_IGNORE) == MPI_SUCCESS,
              "%s: array %d", path, i);
    MPI_File_close(&file);
    seconds[1] = program_slowest(MPI_Wtime() - start);
}

/* The window of a case for reading, which leaves the file's contents as they are. */
static void window_to_read(const struct program *p, int which, MPI_Aint bytes, unsigned char **base,
                           MPI_Win *win)
{
    MPI_Info info = program_info(p->cases[which].hints, "storage_alloc_discard=true");

    MPI_Win_allocate(bytes, 1, info, MPI_COMM_WORLD, base, win);
    MPI_Info_free(&info);
}

/* 0: the hints had no effect. A window in memory keeps nothing, so it has no restart. */
static int window_run(struct program *p, int which, struct particles *q, struct particles *back,
                      double seconds[2])
{
    int stays = p->cases[which].hints[0] != 0;
    unsigned char *base;
    double start = MPI_Wtime();
    MPI_Win win;

    if (!program_window(p, which, q->bytes, 1, &base, &win))
        return 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, p->rank, 0, win);
    copy_particles(q, base, 1);
    MPI_Win_sync(win);
    MPI_Win_unlock(p->rank, win);
    if (stays)
        MPI_Win_free(&win);
    seconds[0] = program_slowest(MPI_Wtime() - start);
    start = MPI_Wtime();
    if (stays)
        window_to_read(p, which, q->bytes, &base, &win);
    copy_particles(back, base, 0);
    MPI_Win_free(&win);
    seconds[1] = program_slowest(MPI_Wtime() - start);
    return 1;
}

static void print_rates(struct program *p, const char *who, double seconds[2][PROGRAM_MAX_TRIALS],
                        const double base[2])
{
    static const char *const phases[] = {"checkpoint", "restart"};

    for (int phase = 0; phase < 2; phase++) {
        double s = program_median(seconds[phase], p->n_trials);

        program_figure(p, phases[phase], n_particles, who, "time", s, "s");
        if (base)
            program_figure(p, phases[phase], n_particles, who, "time of MPI I/O's",
                           100 * s / base[phase], "%");
    }
}

static void print_together(struct program *p, const char *who,
                           double seconds[2][PROGRAM_MAX_TRIALS], double *base)
{
    double sum[PROGRAM_MAX_TRIALS], s;

    for (uint64_t t = 0; t < p->n_trials; t++)
        sum[t] = seconds[0][t] + seconds[1][t];
    s = program_median(sum, p->n_trials);
    program_figure(p, "both", n_particles, who, "time", s, "s");
    if (*base > 0)
        program_figure(p, "both", n_particles, who, "time of MPI I/O's", 100 * s / *base, "%");
    else
        *base = s;
}

/* The cases unless the command line has some: a window through the page cache and one that is
 * resident, all ranks in one file. */
static void haccio_cases(struct program *p)
{
    static char storage[4400], resident[4500];

    if (!p->dir || strcmp(p->cases[0].who, "memory") != 0)
        return;
    snprintf(storage, sizeof(storage),
             "alloc_type=storage;storage_alloc_filename=%.4000s/"
             "haccio.win;swmpi_file=shared;storage_alloc_discard=true",
             p->dir);
    snprintf(resident, sizeof(resident), "%s;storage_alloc_pager=resident", storage);
    p->cases[0] = (struct program_case){"storage", storage};
    p->cases[1] = (struct program_case){"resident", resident};
    p->n_cases = 2;
}

int main(int argc, char **argv)
{
    static const struct program_option options[] = {
        {"--particles", &n_particles, 20000, "particles of all ranks, 38 bytes each"},
        {0},
    };
    static double seconds[PROGRAM_MAX_CASES][2][PROGRAM_MAX_TRIALS], mpiio[2][PROGRAM_MAX_TRIALS];
    char path[4096], window_path[4096];
    struct particles q, back;
    struct program p;
    uint64_t trial;
    double base[2], base_both = 0;

    program_init(&p, "haccio", &argc, &argv, options);
    haccio_cases(&p);
    particles_new(&p, &q);
    particles_new(&p, &back);
    snprintf(path, sizeof(path), "%s/haccio.mpiio", p.dir ? p.dir : ".");
    snprintf(window_path, sizeof(window_path), "%s/haccio.win", p.dir ? p.dir : ".");
    for (int i = -1; program_next(&p, &i, &trial);) {
        double one[2] = {0, 0};

        if (i == 0) {
            particles_fill(&q, p.seed + trial);
            if (p.dir) {
                clear_particles(&back);
                mpiio_run(&p, path, &q, &back, one);
                compare_particles(&q, &back, "MPI I/O");
                mpiio[0][trial] = one[0];
                mpiio[1][trial] = one[1];
                if (p.rank == 0)
                    unlink(path);
            }
        }
        clear_particles(&back);
        MPI_Barrier(MPI_COMM_WORLD);
        if (window_run(&p, i, &q, &back, one)) {
            compare_particles(&q, &back, p.cases[i].who);
            seconds[i][0][trial] = one[0];
            seconds[i][1][trial] = one[1];
        }
        if (p.dir && p.rank == 0)
            unlink(window_path);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (p.dir) {
        print_together(&p, "MPI I/O", mpiio, &base_both);
        print_rates(&p, "MPI I/O", mpiio, NULL);
        base[0] = program_median(mpiio[0], p.n_trials);
        base[1] = program_median(mpiio[1], p.n_trials);
    }
    for (int i = 0; i < p.n_cases; i++) {
        if (p.works[i] != 1)
            continue;
        if (p.dir)
            print_together(&p, p.cases[i].who, seconds[i], &base_both);
        print_rates(&p, p.cases[i].who, seconds[i], p.dir ? base : NULL);
    }
    for (int i = 0; i < N_ARRAYS; i++) {
        free(q.array[i]);
        free(back.array[i]);
    }
    return program_end(&p);
}

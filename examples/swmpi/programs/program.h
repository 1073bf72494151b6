/* SPDX-License-Identifier: BSD-3-Clause */
/* The programs share options, windows by case, checks, and the form of a figure. They are plain
 * MPI: hints place their windows, and an MPI without storage windows ignores these. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRAM_MAX_CASES  8
#define PROGRAM_MAX_TRIALS 32

/* Where windows live: a name for figures and hints as "key=value;key=value", "" for memory. */
struct program_case {
    const char *who;
    const char *hints;
};

struct program {
    const char *name;
    int rank, size;
    int quick;         /* --quick: only checks that it runs; its figures mean nothing */
    uint64_t n_trials; /* --trials: of each case, taken in turns */
    uint64_t seed;     /* --seed: another in each run, the same on all ranks */
    const char *dir;   /* --dir: where files go; without it only memory is used */
    int n_cases;
    struct program_case cases[PROGRAM_MAX_CASES];
    int works[PROGRAM_MAX_CASES]; /* -1 not tried, 0 the hints have no effect, 1 they have */
};

/* A further option of one program, with a number. */
struct program_option {
    const char *name; /* "--segment" */
    uint64_t *value;  /* the default; with --quick the smaller one */
    uint64_t quick;
    const char *help;
};

/* Ends the whole job with a message: if one rank left, the others would wait for it. */
#define CHECK(cond, ...) ((cond) ? (void)0 : program_die(__FILE__, __LINE__, #cond, __VA_ARGS__))
void program_die(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5), noreturn));

/* MPI_Init and the options; ends the job at a bad one. `options` ends with a name of NULL. */
void program_init(struct program *p, const char *name, int *argc, char ***argv,
                  const struct program_option *options);
int program_end(struct program *p);

/* A case and a trial at a time, the cases in turns: for (i = -1; program_next(&p, &i, &trial);).
 * The first case runs in every trial, also where its hints have no effect: the figures that need no
 * window are measured with it. */
int program_next(struct program *p, int *which, uint64_t *trial);

/* A window of a case. 0: its hints had no effect (a note on stderr), and no window exists. */
int program_window(struct program *p, int which, MPI_Aint bytes, int disp_unit, void *base,
                   MPI_Win *win);

/* Hints as an info, with `extra` (or NULL) appended; the caller frees it. */
MPI_Info program_info(const char *hints, const char *extra);

/* The slowest rank's. */
double program_slowest(double seconds);

/* One figure, printed by rank 0. */
void program_figure(const struct program *p, const char *which, uint64_t n, const char *who,
                    const char *metric, double value, const char *unit);

/* Sorts the n values. */
double program_median(double *values, size_t n);

/* A bijection of 64-bit numbers: distinct inputs give distinct, well mixed outputs. */
static inline uint64_t program_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

#endif

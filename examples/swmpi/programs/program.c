/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void program_die(const char *file, int line, const char *what, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s:%d: check failed: %s: ", file, line, what);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

static void print_usage(const struct program *p, const struct program_option *options)
{
    if (p->rank == 0) {
        fprintf(stderr,
                "usage: mpiexec -n N %s [--quick] [--trials N] [--seed N] [--dir DIR] [--case "
                "WHO[=HINTS]]...\n"
                "  --dir DIR           cases memory, storage and combined (half of each), with "
                "their files in DIR\n"
                "  --case WHO[=HINTS]  these cases instead: hints as key=value;key=value, none for "
                "memory\n",
                p->name);
        for (; options->name; options++)
            fprintf(stderr, "  %s N   %s (%llu)\n", options->name, options->help,
                    (unsigned long long)*options->value);
    }
    MPI_Finalize();
    exit(2);
}

static int parse_number(const char *text, uint64_t *value)
{
    char *end;

    *value = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && *end == 0;
}

static void add_case(struct program *p, char *text)
{
    char *equals = strchr(text, '=');

    CHECK(p->n_cases < PROGRAM_MAX_CASES, "more than %d cases", PROGRAM_MAX_CASES);
    if (equals)
        *equals = 0;
    p->cases[p->n_cases++] = (struct program_case){text, equals ? equals + 1 : ""};
}

static void usual_cases(struct program *p)
{
    static char storage[4096], combined[4200];

    p->cases[p->n_cases++] = (struct program_case){"memory", ""};
    if (!p->dir)
        return;
    snprintf(storage, sizeof(storage),
             "alloc_type=storage;storage_alloc_filename=%s/%s.%%r.%%w;storage_alloc_unlink=true",
             p->dir, p->name);
    snprintf(combined, sizeof(combined), "%s;storage_alloc_factor=0.5", storage);
    p->cases[p->n_cases++] = (struct program_case){"storage", storage};
    p->cases[p->n_cases++] = (struct program_case){"combined", combined};
}

void program_init(struct program *p, const char *name, int *argc, char ***argv,
                  const struct program_option *options)
{
    struct timespec now;

    MPI_Init(argc, argv);
    memset(p, 0, sizeof(*p));
    p->name = name;
    MPI_Comm_rank(MPI_COMM_WORLD, &p->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p->size);
    clock_gettime(CLOCK_REALTIME, &now);
    p->seed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    for (int i = 1; i < *argc; i++)
        p->quick |= strcmp((*argv)[i], "--quick") == 0;
    p->n_trials = p->quick ? 1 : 5;
    for (const struct program_option *o = options; p->quick && o->name; o++)
        *o->value = o->quick;
    for (int i = 1; i < *argc; i++) {
        char *arg = (*argv)[i], *value = i + 1 < *argc ? (*argv)[i + 1] : NULL;
        const struct program_option *o = options;
        int ok = strcmp(arg, "--quick") == 0;

        if (ok)
            continue;
        while (o->name && strcmp(arg, o->name) != 0)
            o++;
        if (value && o->name)
            ok = parse_number(value, o->value);
        else if (value && strcmp(arg, "--trials") == 0)
            ok = parse_number(value, &p->n_trials) && p->n_trials > 0 &&
                 p->n_trials <= PROGRAM_MAX_TRIALS;
        else if (value && strcmp(arg, "--seed") == 0)
            ok = parse_number(value, &p->seed);
        else if (value && strcmp(arg, "--dir") == 0)
            ok = (p->dir = value) != NULL;
        else if (value && strcmp(arg, "--case") == 0)
            add_case(p, value), ok = 1;
        if (!ok)
            print_usage(p, options);
        i++;
    }
    if (p->n_cases == 0)
        usual_cases(p);
    for (int i = 0; i < p->n_cases; i++)
        p->works[i] = -1;
    MPI_Bcast(&p->seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (p->rank == 0)
        fprintf(stderr, "%s: --seed %llu\n", name, (unsigned long long)p->seed);
}

int program_end(struct program *p)
{
    int tried = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < p->n_cases; i++)
        tried |= p->works[i] == 1;
    MPI_Finalize();
    return tried ? 0 : 77;
}

int program_next(struct program *p, int *which, uint64_t *trial)
{
    if (*which < 0)
        *trial = 0;
    do {
        if (++*which == p->n_cases) {
            *which = 0;
            if (++*trial == p->n_trials)
                return 0;
        }
    } while (p->works[*which] == 0 && *which > 0);
    return 1;
}

MPI_Info program_info(const char *hints, const char *extra)
{
    char text[8192], *rest = text, *piece, *equals;
    MPI_Info info;

    MPI_Info_create(&info);
    CHECK((size_t)snprintf(text, sizeof(text), "%s;%s", hints, extra ? extra : "") < sizeof(text),
          "hints are too long");
    while ((piece = strsep(&rest, ";"))) {
        piece += strspn(piece, " ");
        if (!*piece)
            continue;
        CHECK((equals = strchr(piece, '=')), "a hint without '=': %s", piece);
        *equals = 0;
        MPI_Info_set(info, piece, equals + 1);
    }
    return info;
}

/* Whether the hints took effect, by a key of the window's info that libswmpi.so alone sets: some
 * MPIs return every hint that they were given. */
static int in_effect(MPI_Win win, const char *hints)
{
    char value[MPI_MAX_INFO_VAL + 1];
    MPI_Info used;
    int found = 0;

    if (!strstr(hints, "alloc_type=storage"))
        return 1;
    MPI_Win_get_info(win, &used);
    MPI_Info_get(used, "swmpi_sync", MPI_MAX_INFO_VAL, value, &found);
    MPI_Info_free(&used);
    return found;
}

int program_window(struct program *p, int which, MPI_Aint bytes, int disp_unit, void *base,
                   MPI_Win *win)
{
    MPI_Info info = program_info(p->cases[which].hints, NULL);
    int first = 1;

    MPI_Win_allocate(bytes, disp_unit, info, MPI_COMM_WORLD, base, win);
    MPI_Info_free(&info);
    if (p->works[which] < 0)
        p->works[which] = in_effect(*win, p->cases[which].hints);
    else
        first = 0;
    if (p->works[which])
        return 1;
    if (p->rank == 0 && first)
        fprintf(stderr, "%s: %s: skipped: this MPI ignores the hints; run it with libswmpi.so\n",
                p->name, p->cases[which].who);
    MPI_Win_free(win);
    return 0;
}

double program_slowest(double seconds)
{
    double slowest;

    MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

void program_figure(const struct program *p, const char *which, uint64_t n, const char *who,
                    const char *metric, double value, const char *unit)
{
    if (p->rank != 0)
        return;
    printf("{\"bench\":\"swmpi_%s\",\"case\":\"%s\",\"n\":%llu,\"who\":\"%s\",\"metric\":\"%s\","
           "\"value\":%.6g,"
           "\"unit\":\"%s\"}\n",
           p->name, which, (unsigned long long)n, who, metric, value, unit);
    fflush(stdout);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double program_median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

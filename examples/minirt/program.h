/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs on minirt: start and failure, numbers of the command line, random numbers.
 */
#ifndef MINIRT_PROGRAM_H
#define MINIRT_PROGRAM_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "minirt.h"

/* A failure ends the job with its reason. */
#define MUST(rt, call)                                                                             \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            minirt_abort(rt);                                                                      \
    } while (0)

/* minirt_init(); with MINIRT_STATS=1 in the environment rank 0 prints its cost on stderr. */
struct minirt *program_start(void);
/* Collective. For each part, rank 0 prints its own time so far, the slowest rank's, and its bytes.
 */
void program_report(struct minirt *rt, FILE *to);

static inline _Noreturn void program_die(struct minirt *rt, const char *what, const char *why)
{
    fprintf(stderr, "minirt: %s%s%s\n", what, why ? ": " : "", why ? why : "");
    minirt_abort(rt);
}

/* The end of main(): 0, or 1 when the output could not be written, or not all ranks left in order.
 */
static inline int program_end(struct minirt *rt)
{
    int unsaid = fflush(stdout) != 0 || ferror(stdout), rc;

    if (unsaid)
        fprintf(stderr, "minirt: cannot write: %s\n", strerror(errno));
    rc = minirt_fini(rt);
    if (rc < 0)
        fprintf(stderr, "minirt: leaving the job failed\n");
    return unsaid || rc < 0;
}

/* The number after `--name`, `otherwise` without it. */
static inline uint64_t program_number(int argc, char **argv, const char *name, uint64_t otherwise,
                                      uint64_t least, uint64_t most)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0) {
            char *end;
            unsigned long long v;

            errno = 0;
            v = strtoull(argv[i + 1], &end, 10);
            if (errno || end == argv[i + 1] || *end || argv[i + 1][0] == '-' || v < least ||
                v > most) {
                fprintf(stderr, "--%s %s is not a number from %" PRIu64 " to %" PRIu64 "\n", name,
                        argv[i + 1], least, most);
                exit(2);
            }
            return v;
        }
    return otherwise;
}

/* The text behind `--name`, or NULL. */
static inline const char *program_text(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return argv[i + 1];
    return NULL;
}

/* Every argument is one of the `--names` and has a value. */
static inline void program_usage(int argc, char **argv, const char *usage, const char *names)
{
    for (int i = 1; i < argc; i += 2) {
        const char *at =
            strncmp(argv[i], "--", 2) == 0 && argv[i][2] ? strstr(names, argv[i] + 2) : NULL;
        size_t n = at ? strlen(argv[i] + 2) : 0;

        if (!at || i + 1 == argc || (at != names && at[-1] != ' ') || (at[n] && at[n] != ' ')) {
            fprintf(stderr, "usage: %s\n", usage);
            exit(2);
        }
    }
}

/* The i-th of a sequence of random numbers (splitmix64). */
static inline uint64_t program_random(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif

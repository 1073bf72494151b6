/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the PMI programs of this folder: rank 0 prints a table of checks and results, and every
 * rank counts its failures.
 *
 * Each check demands the right result. A list of struct known beside the program's checks has the
 * peers' known faults: with such a peer's name as the second argument, the program prints the
 * failure as known and does not count it, or omits the check because the peer would end the job or
 * never answer. */
#ifndef INTEROP_TABLE_H
#define INTEROP_TABLE_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct known {
    const char *peer;  /* "srun" or "hydra" */
    const char *check; /* the check's name; with `*` at the end, its beginning */
    int leave_out;     /* 1: do not even try */
    const char *why;
};

struct table {
    const struct known *known;
    size_t n_known;
    const char *peer; /* "" for a launcher that must do everything right */
    int rank;
    int n_failed;
};

static inline const struct known *table_known(const struct table *t, const char *check)
{
    for (size_t i = 0; i < t->n_known; i++) {
        const struct known *k = &t->known[i];
        size_t n = strlen(k->check);

        if (strcmp(k->peer, t->peer) != 0)
            continue;
        if (n && k->check[n - 1] == '*' ? !strncmp(k->check, check, n - 1)
                                        : !strcmp(k->check, check))
            return k;
    }
    return NULL;
}

/* Whether the check may be tried with this peer. */
static inline int table_try(const struct table *t, const char *check)
{
    const struct known *k = table_known(t, check);

    if (!k || !k->leave_out)
        return 1;
    if (t->rank == 0)
        printf("%-44s not tried: %s\n", check, k->why);
    return 0;
}

__attribute__((format(printf, 4, 5))) static inline int
table_row(struct table *t, int right, const char *check, const char *result, ...)
{
    const struct known *k = right ? NULL : table_known(t, check);
    char text[400];
    va_list args;

    va_start(args, result);
    vsnprintf(text, sizeof(text), result, args);
    va_end(args);
    if (t->rank == 0 || !right)
        printf("%-44s %s%s%s%s\n", check, text,
               right ? ""
               : k   ? "  known: "
                     : "  WRONG",
               k ? k->why : "", t->rank ? " (not rank 0)" : "");
    if (!right && !k)
        t->n_failed++;
    fflush(stdout);
    return right;
}

#endif

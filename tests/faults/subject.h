/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the programs whose calls fail in turn. Each does one round of its library's operations
 * and, after a failure, a second one, which the first must not disturb. A failure that the
 * library reports is printed, and the status is 1. WRONG aborts when a library does what no failure
 * excuses: it reports success for work that it has not done, loses older data, or leaks a
 * descriptor.
 */
#ifndef FAULTS_SUBJECT_H
#define FAULTS_SUBJECT_H

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK_END() abort()
#include "../check.h"

#define WRONG(...)                                                                                 \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: WRONG: ", __FILE__, __LINE__);                                     \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        abort();                                                                                   \
    } while (0)

/* The resources that a round must give back. */
struct holdings {
    int fds, threads, maps;
    size_t bytes; /* allocated */
};

static inline int subject_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    if (!d)
        return -1;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Mappings of files that are not programs. */
static inline int subject_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[1024];
    int n = 0;

    if (!f)
        return -1;
    while (fgets(line, sizeof(line), f))
        n += strstr(line, "memfd:") || strstr(line, "/dev/shm/") || strstr(line, "(deleted)") ||
             strstr(line, "subject.");
    fclose(f);
    return n;
}

static inline struct holdings subject_holdings(void)
{
    struct holdings h = {subject_entries("/proc/self/fd"), subject_entries("/proc/self/task"),
                         subject_maps(), 0};

    h.bytes = mallinfo2().uordblks;
    return h;
}

/* The count itself may have failed; then it is unknown. */
static inline int subject_more(int before, int after)
{
    return before > 2 && after > 2 && after > before;
}

/* A thread that has been joined may be listed for a moment. */
static inline struct holdings subject_settled(const struct holdings *before)
{
    struct holdings h = subject_holdings();

    for (int i = 0; i < 1000 && subject_more(before->threads, h.threads); i++) {
        usleep(1000);
        h = subject_holdings();
    }
    return h;
}

static inline void subject_compare(const struct holdings *before, const struct holdings *after)
{
    if (subject_more(before->fds, after->fds))
        WRONG("%d descriptors before, %d afterwards", before->fds - 3, after->fds - 3);
    if (subject_more(before->threads, after->threads))
        WRONG("%d threads before, %d afterwards", before->threads - 2, after->threads - 2);
    if (before->maps >= 0 && after->maps > before->maps)
        WRONG("%d files mapped before, %d afterwards", before->maps, after->maps);
}

/* Runs it once, and again if it failed. round() returns 0, or an error that it has printed. */
static inline int subject_run(int (*round)(void), int check_memory)
{
    struct holdings before = subject_holdings(), after;
    int rc = round(), again = 0;

    after = subject_settled(&before);
    subject_compare(&before, &after);
    if (rc != 0) {
        again = round();
        if (again != 0)
            fprintf(stderr, "and a second time\n");
        before = after;
        after = subject_settled(&before);
        subject_compare(&before, &after);
        /* The first round has allocated what lives until exit: stdio's buffers, the library's
         * lists. */
        if (check_memory && after.bytes > before.bytes)
            WRONG("%zu bytes allocated before, %zu afterwards", before.bytes, after.bytes);
    }
    if (rc == 0 && (puts("ok") < 0 || fflush(stdout) != 0)) {
        perror("stdout");
        return 1;
    }
    return rc != 0;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "icount.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FUNCTIONS 256

/* "events: Ir" or, with caches, "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw". */
enum { IR, D1MR = 4, D1MW, DLMR = 7, DLMW, N_EVENTS };

struct counted {
    char name[96];
    struct icount counts;
};

extern char **environ;

static int run_valgrind(const char *argument, const char *last_cache, const char *file)
{
    char out[128], program[4096], arg[64], last[64];
    char *argv[] = {(char[]){"valgrind"},
                    (char[]){"--tool=callgrind"},
                    out,
                    (char[]){"--compress-strings=no"},
                    (char[]){"--compress-pos=no"},
                    last_cache ? (char[]){"--cache-sim=yes"} : (char[]){"--cache-sim=no"},
                    (char[]){"--I1=32768,8,64"},
                    (char[]){"--D1=32768,8,64"},
                    last,
                    program,
                    arg,
                    NULL};
    posix_spawn_file_actions_t actions;
    ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
    int error, status;
    pid_t pid;

    if (len < 0)
        return -1;
    program[len] = '\0';
    snprintf(out, sizeof(out), "--callgrind-out-file=%s", file);
    snprintf(arg, sizeof(arg), "%s", argument);
    snprintf(last, sizeof(last), "--LL=%s", last_cache ? last_cache : "262144,8,64");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    error = posix_spawnp(&pid, "valgrind", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error) {
        fprintf(stderr, "no instruction counts: valgrind: %s (package valgrind)\n",
                strerror(error));
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    if (status != 0) {
        fprintf(stderr, "no instruction counts: %s under valgrind ended with status 0x%x\n",
                program, (unsigned)status);
        return -1;
    }
    return 0;
}

/* "fn=NAME", then "LINE COST" lines; "calls=..." says that the next line's cost is that of what was
 * called. Both count. */
static void add_line(struct icount *counts, const char *line)
{
    uint64_t event[N_EVENTS] = {0};
    char *at = strchr(line, ' '); /* behind the number of the source's line */

    for (unsigned i = 0; i < N_EVENTS && at && *at && *at != '\n'; i++)
        event[i] = strtoull(at, &at, 10);
    counts->instructions += event[IR];
    counts->d1_misses += event[D1MR] + event[D1MW];
    counts->ll_misses += event[DLMR] + event[DLMW];
}

static unsigned read_counts(FILE *f, const char *prefix, struct counted *counted)
{
    struct counted *at = NULL;
    char line[4096];
    unsigned n = 0;

    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, "fn=", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            at = NULL;
            if (strncmp(line + 3, prefix, strlen(prefix)) != 0 ||
                strlen(line + 3) >= sizeof(at->name))
                continue;
            for (unsigned i = 0; i < n && !at; i++)
                if (strcmp(counted[i].name, line + 3) == 0)
                    at = &counted[i];
            if (!at && n < MAX_FUNCTIONS) {
                at = &counted[n++];
                strcpy(at->name, line + 3);
                at->counts = (struct icount){0};
            }
        } else if (at && line[0] >= '0' && line[0] <= '9') {
            add_line(&at->counts, line);
        }
    }
    return n;
}

int icount_run(const char *argument, const char *prefix, const char *last_cache,
               void (*found)(const char *function, const struct icount *counts, void *context),
               void *context)
{
    static struct counted counted[MAX_FUNCTIONS];
    char file[] = "/tmp/icount.XXXXXX";
    int fd = mkstemp(file), result = -1;
    FILE *f;

    if (fd < 0) {
        fprintf(stderr, "no instruction counts: %s: %s\n", file, strerror(errno));
        return -1;
    }
    close(fd);
    if (run_valgrind(argument, last_cache, file) == 0 && (f = fopen(file, "r"))) {
        unsigned n = read_counts(f, prefix, counted);

        fclose(f);
        for (unsigned i = 0; i < n; i++)
            found(counted[i].name, &counted[i].counts, context);
        result = 0;
    }
    unlink(file);
    return result;
}

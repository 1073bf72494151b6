/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main() of a fuzz target that is built without libFuzzer: runs each file named on the command
 * line, and each file of each directory named there, through the target once. Each input lies in a
 * heap block of exactly its size, so that a sanitizer sees a read past its end.
 *
 * --random N BYTES [SEED]: runs N inputs of random bytes instead, alternately BYTES long and of a
 * random length below that.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static unsigned long n_run;

/* Runs one file. Returns 0, or -1 with a message when it cannot be read. */
static int run_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    uint8_t *exact = size ? data : data + 1; /* an empty input must not have a readable byte */
    int rc = -1;

    if (file && data && fread(data, 1, size, file) == size) {
        LLVMFuzzerTestOneInput(exact, size);
        n_run++;
        rc = 0;
    } else {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    }
    free(data);
    if (file)
        fclose(file);
    return rc;
}

static int run_path(const char *path);

/* Runs the files of a directory in the order of their names, so that a crash is found at the same
 * place each time. */
static int run_directory(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    int rc = 0;

    if (n < 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    for (int i = 0; i < n; i++) {
        char name[4096];
        int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);

        if (entries[i]->d_name[0] != '.' && (length >= (int)sizeof name || run_path(name) != 0))
            rc = -1;
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int run_path(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    if (S_ISDIR(st.st_mode))
        return run_directory(path);
    return run_file(path, (size_t)st.st_size);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d) >> 32;
}

static int run_random(unsigned long n, size_t bytes, uint64_t seed)
{
    uint64_t state = seed | 1;

    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout); /* a finding aborts */
    for (; n_run < n; n_run++) {
        const size_t size = n_run % 2 ? bytes : next_random(&state) % bytes;
        uint8_t *data = malloc(size ? size : 1);

        if (!data)
            return 1;
        for (size_t i = 0; i < size; i++)
            data[i] = (uint8_t)next_random(&state);
        LLVMFuzzerTestOneInput(size ? data : data + 1, size);
        free(data);
    }
    printf("%lu inputs\n", n_run);
    return 0;
}

int main(int argc, char **argv)
{
    int status = 0;

    if (argc >= 4 && strcmp(argv[1], "--random") == 0)
        return run_random(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                          argc > 4 ? strtoull(argv[4], NULL, 10) : (uint64_t)time(NULL));
    for (int i = 1; i < argc; i++)
        if (run_path(argv[i]) != 0)
            status = 1;
    printf("%lu inputs\n", n_run);
    if (n_run == 0) {
        fprintf(stderr, "no input was found\n");
        status = 1;
    }
    return status;
}

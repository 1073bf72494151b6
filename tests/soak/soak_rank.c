/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of the soak: soak_rank SEED ROUNDS FATE. Puts, fences, gathers and gets, and checks the
 * values; prints "WRONG" and exits with 98 for a wrong one. A lost server is no fault: then it
 * exits with 3.
 *
 *     FATE   well, or the deed of one of the ranks in one of the rounds:
 *            kill exit abort segv close hang
 *            spawn     rank 0 spawns a job of its own kind in some of the rounds; ends well
 *            children  rank 0 spawns one job after the other until a file "stop" exists, and writes
 *                      their number to a file "spawned-SEED"
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pmi2.h"

static int rank, size;
static uint64_t seed; /* of the job: the same on all ranks */
static char program[4096];

static void gone(const char *what, int rc)
{
    fprintf(stderr, "soak_rank: rank %d: %s: %d\n", rank, what, rc);
    exit(3);
}

static void must(int rc, const char *what)
{
    if (rc != PMI2_SUCCESS)
        gone(what, rc);
}

static void wrong(const char *what, int round, int of)
{
    printf("WRONG: rank %d, round %d, of rank %d: %s\n", rank, round, of, what);
    fflush(stdout);
    _exit(98);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Rank r's value in a round. */
static void value_of(int round, int r, char *value, int most)
{
    uint64_t x = mix(seed + (uint64_t)round, (uint64_t)r);
    int n = 1 + (int)(x % (uint64_t)most);

    for (int i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        value[i] = (char)('!' + (x >> 33) % 90);
        if (value[i] == ';') /* bytes that PMI-2 on other servers cannot carry */
            value[i] = ':';
    }
    value[n] = '\0';
}

static void put_get(int round)
{
    char key[64], value[600], got[PMI2_MAX_VALLEN];
    int n;

    snprintf(key, sizeof(key), "k%d-%d", rank, round % 3);
    value_of(round, rank, value, 500);
    must(PMI2_KVS_Put(key, value), "put");
    must(PMI2_KVS_Fence(), "fence");
    for (int i = 1; i <= 3; i++) {
        const int r = (rank + i * (1 + round % 3)) % size;

        snprintf(key, sizeof(key), "k%d-%d", r, round % 3);
        value_of(round, r, value, 500);
        must(PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, got, sizeof(got), &n), "get");
        if (strcmp(got, value) != 0)
            wrong("another value", round, r);
    }
    must(PMI2_KVS_Fence(), "fence");
}

static void gather(int round)
{
    static char all[64 * PMI2_MAX_VALLEN];
    char value[600];

    if (size > 64)
        return;
    value_of(round, rank, value, 300);
    if (round % 2) {
        must(PMIX_Allgather(value, all), "allgather");
    } else {
        must(PMI2_Iallgather(value), "iallgather");
        must(PMI2_Iallgather_wait(all), "its end");
    }
    for (int r = 0; r < size; r++) {
        value_of(round, r, value, 300);
        if (strcmp(all + (size_t)r * PMI2_MAX_VALLEN, value) != 0)
            wrong("another value gathered", round, r);
    }
}

static int spawn(const char *rounds, int n)
{
    char text[32], jobid[PMI2_MAX_VALLEN];
    const char *cmd = program, *argv[] = {text, rounds, "well", NULL}, **argvs[] = {argv};
    int argcs[] = {3}, maxprocs[] = {n}, sizes[] = {0}, errors[16] = {0};

    snprintf(text, sizeof(text), "%llu", (unsigned long long)(seed + 1));
    return PMI2_Job_Spawn(1, &cmd, argcs, argvs, maxprocs, sizes, NULL, 0, NULL, jobid,
                          sizeof(jobid), errors);
}

static void meet(const char *fate)
{
    fflush(NULL);
    if (strcmp(fate, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(fate, "exit") == 0)
        _exit(7);
    else if (strcmp(fate, "abort") == 0)
        PMI2_Abort(1, "abort by the soak");
    else if (strcmp(fate, "segv") == 0)
        raise(SIGSEGV);
    else if (strcmp(fate, "close") == 0)
        for (int fd = 3; fd < 64; fd++)
            close(fd);
    else if (strcmp(fate, "hang") == 0)
        for (;;)
            pause();
}

static void children(const char *number)
{
    char name[64], next[80];
    unsigned long n = 0;

    while (access("stop", F_OK) != 0) {
        FILE *f;
        int rc = spawn("2", 1 + (int)(n % 3));

        if (rc != PMI2_SUCCESS)
            gone("spawn", rc);
        n++;
        snprintf(name, sizeof(name), "spawned-%s", number);
        snprintf(next, sizeof(next), "%s.new", name);
        f = fopen(next, "w");
        if (!f || fprintf(f, "%lu\n", n) < 0 || fclose(f) != 0 || rename(next, name) != 0)
            gone(next, errno);
        usleep(20000);
    }
}

int main(int argc, char **argv)
{
    const struct rlimit none = {0, 0};
    int spawned, appnum, rounds, when, who;
    const char *fate;

    if (argc != 4)
        return 2;
    setrlimit(RLIMIT_CORE, &none);
    snprintf(program, sizeof(program), "%s", argv[0]);
    seed = strtoull(argv[1], NULL, 10);
    rounds = atoi(argv[2]);
    fate = argv[3];
    must(PMI2_Init(&spawned, &size, &rank, &appnum), "init");
    when = (int)(mix(seed, 1) % (uint64_t)(rounds + 1));
    who = (int)(mix(seed, 2) % (uint64_t)size);
    if (strcmp(fate, "children") == 0) {
        must(PMI2_KVS_Fence(), "fence"); /* until then its shared memory keeps its name */
        children(argv[1]);
    }
    for (int round = 0; round < rounds; round++) {
        if (round == when && rank == who)
            meet(fate);
        if (mix(seed, (uint64_t)round) % 3)
            put_get(round);
        else
            gather(round);
        if (strcmp(fate, "spawn") == 0 && rank == 0 && mix(seed, 77 + (uint64_t)round) % 4 == 0) {
            int rc = spawn("2", 2);

            if (rc != PMI2_SUCCESS)
                gone("spawn", rc);
        }
    }
    must(PMI2_Finalize(), "finalize");
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that progress during other calls: nonblocking MODE [FOLDER [socket]], built with
 * libpmi.so.0 (TEST_PMI1) and with libpmi2.so.0. A file in FOLDER proves that a call does not wait:
 * a rank that others need writes it when its calls have returned, or the others write it when they
 * have passed without a further call of that rank. A rank that finds a fault prints it and exits
 * with 1; rank 0 prints "ok MODE". `socket`: without shared memory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "either.h"

enum { MANY = 2000, LONG = 1000, MAX_RANKS = 64, OUTSTANDING = PMI2_MAX_OUTSTANDING };

static int length = LONG, rounds = 20;

/* ---- the two libraries ---- */

static int get(const char *key, char value[LONG + 1])
{
    return get_value(key, value, LONG + 1);
}

#ifdef TEST_PMI1
static void abort_job(const char *why)
{
    PMI_Abort(3, why);
}

#define fence_begin PMI_Ibarrier
#define fence_wait  PMI_Wait
#define fence_test  PMI_Test
#else
static void abort_job(const char *why)
{
    PMI2_Abort(1, why);
}

#define fence_begin PMI2_KVS_Ifence
#define fence_wait  PMI2_KVS_Wait
#define fence_test  PMI2_KVS_Test
#endif

/* ---- helpers ---- */

static void nap(void)
{
    const struct timespec ms = {.tv_nsec = 1000000};

    nanosleep(&ms, NULL);
}

static void tell(const char *folder, const char *name)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
}

/* Wait for a file; run.sh ends the job if it never appears. */
static void hear(const char *folder, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    while (access(path, F_OK) != 0)
        nap();
}

static void value_of(char value[LONG + 1], int round, int who)
{
    memset(value, 'a' + (round + who) % 26, (size_t)length);
    value[length] = '\0';
    value[snprintf(value, (size_t)length, "%d-of-%d", round, who)] = '.';
}

static void put_nth(int round, int who)
{
    char key[64], value[LONG + 1];

    snprintf(key, sizeof(key), "nth-%d-%d", who, round);
    value_of(value, round, who);
    CHECK(put_plain(key, value) == OK);
}

static void expect_nth(int round, int who)
{
    char key[64], value[LONG + 1], want[LONG + 1];

    snprintf(key, sizeof(key), "nth-%d-%d", who, round);
    value_of(want, round, who);
    CHECK(get(key, value) == OK);
    CHECK(strcmp(value, want) == 0);
}

/* ---- calls that do not wait ---- */

/* Rank 0 begins and puts before any other rank has come, and gets from shared memory. */
static void do_behind(const char *folder, int shared)
{
    unsigned long r0, a0, r1, a1;

    put_nth(MANY, rank);
    CHECK(fence() == OK);
    if (rank > 0)
        hear(folder, "behind");
    CHECK(fence_begin() == OK);
    if (rank == 0) {
        CHECK(counts(&r0, &a0) == OK);
        for (int i = 0; i < MANY; i++) {
            put_nth(i, 0);
            if (shared && i % 100 == 0)
                expect_nth(MANY, (i / 100) % size);
        }
        CHECK(counts(&r1, &a1) == OK && a1 == a0);
        CHECK(r1 - r0 == (shared ? MANY / 100 : 0));
        put_nth(0, 0);
    }
    CHECK(fence_begin() == OK);
    if (rank == 0)
        tell(folder, "behind");
    CHECK(fence_wait() == OK && fence_wait() == OK && fence_wait() == FAIL);
    for (int i = rank; i < MANY; i += size)
        expect_nth(i, 0);
    CHECK(fence() == OK);
}

/* Rank 0 begins three Fences with puts between them and then makes no call until all others have
 * passed them. */
static void do_progress(const char *folder)
{
    for (int round = 0; round < 3; round++) {
        put_nth(round, rank);
        CHECK((rank == 0 ? fence_begin() : fence()) == OK);
        for (int who = 0; rank > 0 && who < size; who++)
            expect_nth(round, who);
    }
    if (rank == size - 1)
        tell(folder, "progress");
    if (rank == 0) {
        int done = 0;

        hear(folder, "progress");
        for (; !done; nap())
            CHECK(fence_test(&done) == OK);
        CHECK(fence_wait() == OK && fence_wait() == OK);
    }
    CHECK(fence() == OK);
}

#ifndef TEST_PMI1
/* The same with Allgathers. */
static void do_gather_progress(const char *folder)
{
    static char all[MAX_RANKS * PMI2_MAX_VALLEN];
    char value[64];
    void *values;
    int stride, done = 0;

    CHECK(size <= MAX_RANKS);
    snprintf(value, sizeof(value), "%d here", rank);
    if (rank == 0) {
        CHECK(PMI2_SHMEM_Iallgather(value) == OK && fence_begin() == OK);
        put_nth(0, 0);
        hear(folder, "gather");
        for (; !done; nap())
            CHECK(PMI2_SHMEM_Iallgather_test(&values, &stride, &done) == OK);
        for (done = 0; !done; nap())
            CHECK(fence_test(&done) == OK);
    } else {
        CHECK(PMIX_Allgather(value, all) == OK && fence() == OK);
        if (rank == size - 1)
            tell(folder, "gather");
        values = all;
        stride = PMI2_MAX_VALLEN;
    }
    for (int who = 0; who < size; who++) {
        snprintf(value, sizeof(value), "%d here", who);
        CHECK(strcmp((char *)values + who * stride, value) == 0);
    }
    CHECK(fence() == OK);
    expect_nth(0, 0);
}

/* Rank 0 completes an Allgather although it has begun a Fence that the others have not entered. */
static void do_order(const char *folder)
{
    static char all[MAX_RANKS * PMI2_MAX_VALLEN];
    char value[64];

    CHECK(size <= MAX_RANKS);
    snprintf(value, sizeof(value), "%d here", rank);
    if (rank == 0) {
        CHECK(PMI2_Iallgather(value) == OK && fence_begin() == OK);
        CHECK(PMI2_Iallgather_wait(all) == OK);
        tell(folder, "order");
        CHECK(fence_wait() == OK);
    } else {
        CHECK(PMIX_Allgather(value, all) == OK);
        hear(folder, "order");
        CHECK(fence() == OK);
    }
    for (int who = 0; who < size; who++) {
        snprintf(value, sizeof(value), "%d here", who);
        CHECK(strcmp(all + who * PMI2_MAX_VALLEN, value) == 0);
    }
}

/* The two interfaces' operations among each other: each completes its own. */
static void do_kinds(void)
{
    static char own[MAX_RANKS * PMI2_MAX_VALLEN], all[MAX_RANKS * PMI2_MAX_VALLEN];
    int done = -1;

    CHECK(size <= MAX_RANKS);
    CHECK(PMIX_Iallgather("first", own) == OK && PMI2_Iallgather("second") == OK);
    CHECK(PMI2_Iallgather_wait(all) == OK && strcmp(all, "second") == 0);
    CHECK(PMI2_Iallgather_wait(all) == FAIL && PMI2_Iallgather_test(all, &done) == FAIL);
    CHECK(PMIX_Wait() == OK && strcmp(own, "first") == 0);
    CHECK(PMI2_Iallgather("third") == OK && PMIX_KVS_Ifence() == OK);
    CHECK(PMIX_Wait() == OK && PMIX_Wait() == FAIL);
    CHECK(PMI2_Iallgather_wait(all) == OK && strcmp(all, "third") == 0);
}

static void tell_as(const char *folder, const char *what, int round, int who)
{
    char name[64];

    snprintf(name, sizeof(name), "%s-%d-%d", what, round, who);
    tell(folder, name);
}

static void hear_as(const char *folder, const char *what, int round, int who)
{
    char name[64];

    snprintf(name, sizeof(name), "%s-%d-%d", what, round, who);
    hear(folder, name);
}

/* The server was stopped, so it finds all of the ranks' operations at once: each Allgather has its
 * own values, and all are in shared memory. */
static void do_stopped(const char *folder)
{
    unsigned long r0, a0, r1, a1;
    char value[64];
    void *values;
    int stride;

    for (int round = 0; round < 5; round++) {
        tell_as(folder, "ready", round, rank);
        for (int who = 0; rank == 0 && who < size; who++)
            hear_as(folder, "ready", round, who);
        if (rank == 0) {
            CHECK(kill(getppid(), SIGSTOP) == 0);
            tell_as(folder, "stopped", round, 0);
        }
        hear_as(folder, "stopped", round, 0);
        CHECK(counts(&r0, &a0) == OK);
        for (int i = 0; i < 4; i++) {
            snprintf(value, sizeof(value), "%d, %d of %d", round, i, rank);
            CHECK(PMI2_Iallgather(value) == OK && fence_begin() == OK);
        }
        tell_as(folder, "begun", round, rank);
        for (int who = 0; rank == 0 && who < size; who++)
            hear_as(folder, "begun", round, who);
        if (rank == 0)
            CHECK(kill(getppid(), SIGCONT) == 0);
        for (int i = 0; i < 4; i++) {
            CHECK(PMI2_SHMEM_Iallgather_wait_stride(&values, &stride) == OK);
            for (int who = 0; who < size; who++) {
                snprintf(value, sizeof(value), "%d, %d of %d", round, i, who);
                CHECK(strcmp((char *)values + who * stride, value) == 0);
            }
            CHECK(fence_wait() == OK);
        }
        CHECK(counts(&r1, &a1) == OK && a1 == a0);
        CHECK(fence() == OK);
    }
}

/* ---- Allgathers of every form among Fences, as many as may be outstanding ---- */

static const char *between = "-"; /* words of a value: our server alone carries all bytes */

static void gathered(const char *values, int stride, int number)
{
    char want[64];

    for (int who = 0; who < size; who++) {
        snprintf(want, sizeof(want), "%d%sof%s%d", number, between, between, who);
        CHECK(strcmp(values + who * stride, want) == 0);
    }
}

static int begin_one(int number, void *buffer)
{
    char value[64];

    snprintf(value, sizeof(value), "%d%sof%s%d", number, between, between, rank);
    switch (number % 4) {
    case 0: return PMIX_Iallgather(value, buffer);
    case 1: return PMIX_KVS_Ifence();
    case 2: return PMI2_Iallgather(value);
    default: return PMI2_SHMEM_Iallgather(value);
    }
}

/* Some wait, and some test until it is complete. */
static void end_one(int number, char *buffer, int asks)
{
    void *values = buffer;
    int stride = PMI2_MAX_VALLEN, done = !asks, rc;

    do {
        switch (number % 4) {
        case 0:
        case 1: rc = asks ? PMIX_Test(&done) : PMIX_Wait(); break;
        case 2:
            rc = asks ? PMI2_Iallgather_test(buffer, &done) : PMI2_Iallgather_wait(buffer);
            break;
        default:
            rc = asks ? PMI2_SHMEM_Iallgather_test(&values, &stride, &done)
                      : PMI2_SHMEM_Iallgather_wait_stride(&values, &stride);
        }
        CHECK(rc == OK);
        if (!done)
            nap();
    } while (!done);
    if (number % 4 != 1)
        gathered(values, stride, number);
}

static void do_mixed(void)
{
    static char buffers[OUTSTANDING][MAX_RANKS * PMI2_MAX_VALLEN];
    int done = -1;

    CHECK(size <= MAX_RANKS);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < OUTSTANDING; i++) {
            CHECK(begin_one(round + i, buffers[i]) == OK);
            put_nth(round, rank);
        }
        CHECK(PMI2_KVS_Ifence() == FAIL && PMI2_Iallgather("x") == FAIL);
        CHECK(PMIX_Iallgather("x", buffers[0]) == FAIL);
        for (int i = 0; i < OUTSTANDING; i++)
            end_one(round + i, buffers[i], (rank + round + i) % 3);
        CHECK(PMIX_Wait() == FAIL && PMIX_Test(&done) == FAIL && done == 0);
        CHECK(fence() == OK);
        for (int who = 0; who < size; who++)
            expect_nth(round, who);
        CHECK(fence() == OK);
    }
}
#endif

static void finalize_at_exit(void)
{
    CHECK(finalize() != OK);
}

/* Rank 0 ends the job while its Fence is in flight. */
static void do_abort(void)
{
    if (rank == 0) {
        CHECK(atexit(finalize_at_exit) == 0);
        CHECK(fence_begin() == OK);
        for (int i = 0; i < MANY; i++)
            put_nth(i, 0);
        abort_job("enough");
    }
    for (;;)
        pause();
}

static void *fence_thread(void *arg)
{
    fence();
    return arg;
}

static void on_alarm(int number)
{
    (void)number;
    abort_job("enough");
}

/* Rank 0 ends the job while a Fence of its own waits: in another thread, or in the one that a
 * signal handler interrupts. */
static void do_abort_waiting(int handler)
{
    pthread_t thread;

    if (rank == 0) {
        CHECK(atexit(finalize_at_exit) == 0);
        CHECK(signal(SIGALRM, on_alarm) != SIG_ERR);
        if (handler) {
            alarm(1);
            fence();
        }
        CHECK(pthread_create(&thread, NULL, fence_thread, NULL) == 0);
        for (int i = 0; i < 200; i++)
            nap();
        abort_job("enough");
    }
    for (;;)
        pause();
}

static void finalize_if_possible(void)
{
    finalize();
}

/* Rank 0 ends the job with a reason that the wire cannot carry. */
static void do_abort_long(void)
{
    static char why[100000];

    if (rank == 0) {
        memset(why, 'x', sizeof(why) - 1);
        CHECK(atexit(finalize_if_possible) == 0);
        abort_job(why);
    }
    for (;;)
        pause();
}

/* ---- what any server provides ---- */

static void do_old(void)
{
    int done = -1, n_done = 0;

    CHECK(fence_test(&done) == FAIL && done == 0 && fence_wait() == FAIL);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < OUTSTANDING; i++) {
            CHECK(fence_begin() == OK);
            if (i < 3)
                put_nth(round * 3 + i, rank);
        }
        CHECK(fence_begin() == FAIL);
        CHECK(fence() == OK); /* another may wait at the same time; it does not count */
        for (int who = 0; who < size; who++)
            expect_nth(round * 3 + 2, who);
        for (n_done = 0; n_done < OUTSTANDING; n_done += done) {
            done = 1;
            CHECK((n_done % 2 ? fence_wait() : fence_test(&done)) == OK);
        }
        CHECK(fence_wait() == FAIL);
    }
    for (int i = 0; i < rounds * 3; i++)
        expect_nth(i, (rank + i) % size);
    CHECK(fence() == OK);
#ifndef TEST_PMI1
    do_kinds();
    do_mixed();
#endif
    CHECK(fence_begin() == OK && fence_begin() == OK); /* finalize waits for them */
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *folder = argc > 2 ? argv[2] : ".";

    init();
    if (strcmp(mode, "behind") == 0)
        do_behind(folder, argc <= 3);
    else if (strcmp(mode, "progress") == 0)
        do_progress(folder);
#ifndef TEST_PMI1
    else if (strcmp(mode, "gather-progress") == 0)
        do_gather_progress(folder);
    else if (strcmp(mode, "order") == 0)
        do_order(folder);
    else if (strcmp(mode, "stopped") == 0)
        do_stopped(folder);
    else if (strcmp(mode, "mixed") == 0) {
        between = " ;%";
        do_mixed();
    }
#endif
    else if (strcmp(mode, "abort") == 0)
        do_abort();
    else if (strcmp(mode, "abort-long") == 0)
        do_abort_long();
    else if (strcmp(mode, "abort-handler") == 0 || strcmp(mode, "abort-thread") == 0)
        do_abort_waiting(strcmp(mode, "abort-handler") == 0);
    else if (strcmp(mode, "old") == 0) {
        length = 300; /* Slurm's server loses longer lines on PMI-1 */
        rounds = 5;
        do_old();
    } else
        CHECK(!"a mode");
    CHECK(finalize() == OK);
    if (rank == 0)
        printf("ok %s\n", mode);
    CHECK(fflush(stdout) == 0);
    return 0;
}

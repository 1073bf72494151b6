/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hinted puts, Gets that wait, and rings: hints MODE [ARGUMENT], built with libpmi.so.0
 * (TEST_PMI1) and with libpmi2.so.0, which send them over different wires. A rank that finds a
 * fault prints it and exits with 1; rank 0 prints "ok MODE".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "either.h"

enum {
    VALUE_BYTES = 1025,
    NONE = PMI2_HINT_NONE,
    SPARSE = PMI2_HINT_SPARSE,
    DENSE = PMI2_HINT_DENSE
};

/* ---- the two libraries ---- */

static int get(const char *key, char value[VALUE_BYTES])
{
    return get_value(key, value, VALUE_BYTES);
}

#ifdef TEST_PMI1
enum {
    NOT_OFFERED = PMI_ERR_OTHER,
    BAD_ARGUMENT = PMI_ERR_INVALID_ARG,
    TOO_LONG = PMI_ERR_INVALID_VAL_LENGTH,
    RING_MAX = PMI_RING_MAX,
    VALUE_MAX = 1023
};

static int put(const char *key, const char *value, int hint)
{
    return hint == NONE ? put_plain(key, value) : PMI_KVS_Put_hinted(space, key, value, hint);
}

/* PMI-1 has none that progresses by itself. */
static int fence_begin(void)
{
    return fence();
}

static int fence_end(void)
{
    return OK;
}

static int get_wait(int source, const char *key, char value[VALUE_BYTES])
{
    return PMI_KVS_Get_wait(space, source, key, value, VALUE_BYTES);
}

static int ring(const char *value, int *place, int *places, char *left, char *right, int room)
{
    return PMI_Ring(value, place, places, left, right, room);
}

static void own_arguments(char value[VALUE_BYTES])
{
    CHECK(PMI_KVS_Put_hinted("another", "k", "v", SPARSE) == PMI_ERR_INVALID_KVS);
    CHECK(PMI_KVS_Put_hinted(NULL, "k", "v", SPARSE) == PMI_ERR_INVALID_KVS);
    CHECK(PMI_KVS_Put_hinted(space, "", "v", SPARSE) == PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Put_hinted(space, "k", NULL, SPARSE) == PMI_ERR_INVALID_VAL);
    CHECK(PMI_KVS_Get_wait("another", -1, "k", value, VALUE_BYTES) == PMI_ERR_INVALID_KVS);
    CHECK(PMI_KVS_Get_wait(space, -1, NULL, value, VALUE_BYTES) == PMI_ERR_INVALID_KEY);
    CHECK(PMI_KVS_Get_wait(space, -1, "k", NULL, VALUE_BYTES) == PMI_ERR_INVALID_VAL);
    CHECK(PMI_Ring("", NULL, NULL, NULL, NULL, 0) == PMI_ERR_INVALID_VAL);
}
#else
enum {
    NOT_OFFERED = PMI2_ERR_OTHER,
    BAD_ARGUMENT = PMI2_ERR_INVALID_ARG,
    TOO_LONG = PMI2_ERR_INVALID_VAL_LENGTH,
    RING_MAX = PMI2_MAX_VALLEN - 1,
    VALUE_MAX = PMI2_MAX_VALLEN
};

static int put(const char *key, const char *value, int hint)
{
    return hint == NONE ? put_plain(key, value) : PMI2_KVS_Put_hinted(key, value, hint);
}

static int fence_begin(void)
{
    return PMI2_KVS_Ifence();
}

static int fence_end(void)
{
    return PMI2_KVS_Wait();
}

static int get_wait(int source, const char *key, char value[VALUE_BYTES])
{
    int n = -1, rc = PMI2_KVS_Get_wait(source, key, value, VALUE_BYTES, &n);

    CHECK(rc != OK || n == (int)strlen(value));
    return rc;
}

static int ring(const char *value, int *place, int *places, char *left, char *right, int room)
{
    return room % 2 ? PMI2_Ring(value, place, places, left, right, room)
                    : PMIX_Ring(value, place, places, left, right, room);
}

static void own_arguments(char value[VALUE_BYTES])
{
    int n;

    CHECK(PMI2_KVS_Put_hinted("", "v", SPARSE) == PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_KVS_Put_hinted("k", NULL, SPARSE) == PMI2_ERR_INVALID_VAL);
    CHECK(PMI2_KVS_Get_wait(-1, "", value, VALUE_BYTES, &n) == PMI2_ERR_INVALID_KEY);
    CHECK(PMI2_KVS_Get_wait(-1, "k", NULL, VALUE_BYTES, &n) == BAD_ARGUMENT);
    CHECK(PMI2_KVS_Get_wait(-1, "k", value, VALUE_BYTES, NULL) == BAD_ARGUMENT);
    CHECK(PMI2_KVS_Get_wait(-1, "k", value, 0, &n) == BAD_ARGUMENT);
}
#endif

/* ---- put and get ---- */

static void text_of(char *text, const char *what, int round, int who)
{
    snprintf(text, 64, "%s-%d-of-%d", what, round, who);
}

static void put_round(const char *what, int round, int hint)
{
    char key[64], value[64];

    snprintf(key, sizeof(key), "%s-%d", what, rank);
    text_of(value, what, round, rank);
    CHECK(put(key, value, hint) == OK);
}

static void expect(int rc, const char *value, const char *what, int round, int who)
{
    char want[64];

    text_of(want, what, round, who);
    if (rc != OK || strcmp(value, want) != 0) {
        fprintf(stderr, "rank %d: %s of rank %d: %d \"%s\", not \"%s\"\n", rank, what, who, rc,
                rc == OK ? value : "", want);
        _exit(1);
    }
}

static void wait_for(const char *what, int round, int who, int source)
{
    char key[64], value[VALUE_BYTES];
    int rc;

    snprintf(key, sizeof(key), "%s-%d", what, who);
    rc = get_wait(source, key, value);
    expect(rc, value, what, round, who);
}

/* The same with a --get-timeout that a busy machine may exceed before the putting rank runs: then
 * the Get is repeated. */
static int get_wait_again(int source, const char *key, char value[VALUE_BYTES])
{
    int rc = FAIL;

    for (int i = 0; i < 100 && rc == FAIL; i++)
        rc = get_wait(source, key, value);
    return rc;
}

/* The library refuses these before it asks any server. */
static void arguments(void)
{
    char value[VALUE_BYTES];
    int place, places;

    own_arguments(value);
    CHECK(put("hint", "v", -1) == BAD_ARGUMENT);
    CHECK(put("hint", "v", DENSE + 1) == BAD_ARGUMENT);
    CHECK(get_wait(-2, "source", value) == BAD_ARGUMENT);
    CHECK(get_wait(size, "source", value) == BAD_ARGUMENT);
    CHECK(ring("v", NULL, &places, value, value, 10) == BAD_ARGUMENT);
    CHECK(ring("v", &place, &places, value, NULL, 10) == BAD_ARGUMENT);
    CHECK(ring("v", &place, &places, value, value, 0) == BAD_ARGUMENT);
}

/* First without a Fence, from ranks that put late; then with a Fence each round, where the latest
 * value counts. PMI's own get never waits. */
static void do_pairs(const char *answers)
{
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned long r0, a0, r1, a1;
    char key[64], value[VALUE_BYTES];

    arguments();
    CHECK(get("absent", value) == FAIL);
    if (rank % 2)
        usleep(300000); /* the others ask in the meantime */
    put_round("sparse", 1, SPARSE);
    wait_for("sparse", 1, next, next);
    wait_for("sparse", 1, before, -1);
    wait_for("sparse", 1, rank, rank); /* its own */
    CHECK(fence() == OK);
    for (int round = 2; round < 5; round++) {
        put_round("sparse", round, SPARSE);
        put_round("dense", round, DENSE);
        put_round("plain", round, NONE);
        CHECK(fence() == OK);
        for (int who = 0; who < size; who++) {
            wait_for("sparse", round, who, who);
            wait_for("dense", round, who, -1);
            snprintf(key, sizeof(key), "dense-%d", who);
            expect(get(key, value), value, "dense", round, who);
            snprintf(key, sizeof(key), "plain-%d", who);
            expect(get(key, value), value, "plain", round, who);
        }
        CHECK(fence() == OK);
    }
    if (strcmp(answers, "nodes") == 0) { /* no Fence yet: each is only at its home */
        int n_found = 0;

        for (int who = 0; who < size; who++) {
            snprintf(key, sizeof(key), "sparse-%d", who);
            if (get(key, value) != FAIL) {
                expect(OK, value, "sparse", 4, who);
                n_found++;
            }
        }
        CHECK(n_found < size);
    }
    if (strcmp(answers, "shm") == 0) { /* a Get that waits looks there first */
        CHECK(counts(&r0, &a0) == OK);
        for (int who = 0; who < size; who++)
            wait_for("sparse", 4, who, who);
        CHECK(counts(&r1, &a1) == OK && r1 - r0 == (unsigned long)size && a1 == a0);
    }
    CHECK(get("absent", value) == FAIL);
}

/* All wait for one key; its value has the maximal length. */
static void do_one(void)
{
    char value[VALUE_BYTES], want[VALUE_BYTES];

    memset(want, 'v', sizeof(want));
    want[VALUE_MAX] = '\0';
    if (rank == 0) {
        usleep(500000);
        CHECK(put("one", want, SPARSE) == OK);
    }
    CHECK(get_wait(0, "one", value) == OK && strcmp(value, want) == 0);
    if (rank == size - 1)
        CHECK(put("back", "and-forth", SPARSE) == OK);
    CHECK(get_wait(size - 1, "back", value) == OK && strcmp(value, "and-forth") == 0);
}

/* Each rank waits for its predecessor's value and then puts it: a chain. */
static void do_chain(void)
{
    char key[64], value[VALUE_BYTES] = "0";

    for (int round = 0; round < 20; round++) {
        snprintf(key, sizeof(key), "chain-%d-%d", round, rank - 1);
        if (rank > 0)
            CHECK(get_wait(rank - 1, key, value) == OK && atoi(value) == 1000 * round + rank - 1);
        snprintf(key, sizeof(key), "chain-%d-%d", round, rank);
        snprintf(value, sizeof(value), "%d", 1000 * round + rank);
        CHECK(put(key, value, SPARSE) == OK);
    }
}

static int n_lines(const char *path)
{
    FILE *f = fopen(path, "r");
    int c, n = 0;

    while (f && (c = getc(f)) != EOF)
        n += c == '\n';
    if (f)
        fclose(f);
    return n;
}

static void add_line(const char *path)
{
    FILE *f = fopen(path, "a");

    CHECK(f && fputs("told\n", f) >= 0 && fclose(f) == 0);
}

/* The last rank puts a key and leaves; the others wait for that key and for one that it has not
 * put. */
static void do_source(void)
{
    char value[VALUE_BYTES];

    if (rank == size - 1) {
        usleep(200000); /* the others are waiting by now */
        put_round("source", 1, SPARSE);
        return;
    }
    CHECK(get_wait(size - 1, "never", value) == FAIL);
    wait_for("source", 1, size - 1, size - 1);
    CHECK(get_wait(size - 1, "never-either", value) == FAIL); /* now it is known */
}

/*
 * A key that nobody puts: `last`, the others have left; `all`, they wait too; `fenced`, half of
 * them are in a Fence; `time`, rank 0 is outside PMI, until all others have recorded in `report`
 * that their Get has ended. All but the first end by --get-timeout alone. The session continues
 * afterwards.
 */
static void do_never(const char *how, const char *report)
{
    const int next = (rank + 1) % size;
    char key[64], value[VALUE_BYTES];
    int rc;

    if (strcmp(how, "last") == 0) {
        if (rank > 0 && rank % 2)
            _exit(finalize()); /* some exit, some have finalized */
        if (rank > 0)
            return;
    }
    if (strcmp(how, "time") == 0) {
        if (rank > 0) {
            CHECK(get_wait(-1, "never", value) == FAIL);
            add_line(report);
        }
        while (rank == 0 && n_lines(report) < size - 1)
            usleep(10000);
    } else if (strcmp(how, "fenced") != 0 || rank % 2) {
        CHECK(get_wait(-1, "never", value) == FAIL);
        CHECK(get_wait(0, "never", value) == FAIL);
    }
    if (strcmp(how, "last") == 0)
        return;
    CHECK(fence() == OK);
    put_round("after", 1, SPARSE);
    snprintf(key, sizeof(key), "after-%d", next);
    rc = get_wait_again(next, key, value);
    expect(rc, value, "after", 1, next);
    CHECK(fence() == OK);
}

/*
 * The last rank puts, and says nothing or DENSE, and enters the Fence; the others wait for the key,
 * so the Fence waits for them, until --get-timeout. Ranks of its node get the key; those elsewhere
 * (`nodes`) get it only after the Fence, unless their node is the key's home.
 */
static void do_dense(const char *where)
{
    static const int hints[2] = {NONE, DENSE};
    char key[64], value[VALUE_BYTES];
    const int putter = size - 1;
    int n_failed = 0, rc;

    for (int k = 0; k < 2 && rank == putter; k++) {
        snprintf(key, sizeof(key), "dense-%d", k);
        CHECK(put(key, "here", hints[k]) == OK);
    }
    for (int k = 0; k < 2 && rank != putter; k++) {
        snprintf(key, sizeof(key), "dense-%d", k);
        rc = strcmp(where, "nodes") == 0 ? get_wait(putter, key, value)
                                         : get_wait_again(putter, key, value);
        CHECK(rc == FAIL || (rc == OK && strcmp(value, "here") == 0));
        n_failed += rc == FAIL;
    }
    if (rank == 0)
        CHECK((n_failed > 0) == (strcmp(where, "nodes") == 0));
    CHECK(fence() == OK);
    for (int k = 0; k < 2; k++) {
        snprintf(key, sizeof(key), "dense-%d", k);
        CHECK(get_wait(putter, key, value) == OK && strcmp(value, "here") == 0);
    }
    CHECK(fence() == OK);
}

/* Rank 0's Fence progresses by itself, and its later puts follow that Fence: a Get of them before
 * the rank's own Fence ends by --get-timeout. */
static void do_ifence(void)
{
    char value[VALUE_BYTES];

    if (rank == 0) {
        CHECK(put("before", "the-Fence", SPARSE) == OK);
        CHECK(fence_begin() == OK);
        usleep(200000);
        CHECK(put("behind", "the-Fence", SPARSE) == OK);
        CHECK(fence_end() == OK);
    } else {
        CHECK(get_wait_again(0, "before", value) == OK && strcmp(value, "the-Fence") == 0);
        CHECK(get_wait(0, "behind", value) == FAIL);
        CHECK(get_wait(0, "never", value) == FAIL);
        CHECK(fence_begin() == OK);
        CHECK(get_wait_again(0, "behind", value) == OK &&
              strcmp(value, "the-Fence") == 0); /* waits for its own Fence first */
        CHECK(fence_end() == OK);
    }
    CHECK(fence() == OK);
}

/* ---- rings ---- */

/* With values up to PMI-1's length, which a ring over both wires carries. */
static void do_ring(int most)
{
    char left[VALUE_BYTES], right[VALUE_BYTES], value[VALUE_BYTES + 1], key[64], got[VALUE_BYTES];
    int place = -1, places = -1;

    arguments();
    memset(value, 'v', sizeof(value));
    value[RING_MAX + 1] = '\0';
    CHECK(ring(value, &place, &places, left, right, sizeof(left)) == TOO_LONG);
    for (int round = 0; round < 4; round++) {
        /* Lengths from 1 to the maximum; the ring's order is not known beforehand. */
        const int length = round == 0   ? most
                           : round == 1 ? 30
                                        : 30 + (rank * 7 + round) % (most - 30);

        memset(value, 'a' + round, sizeof(value));
        value[snprintf(value, sizeof(value), "%d-%d-", round, rank)] = '+';
        value[length] = '\0';
        CHECK(ring(value, &place, &places, left, right, (int)sizeof(left) - round % 2) == OK);
        CHECK(places == size && place >= 0 && place < size);
        snprintf(key, sizeof(key), "at-%d-%d", round, place);
        CHECK(put(key, value, NONE) == OK && fence() == OK);
        snprintf(key, sizeof(key), "at-%d-%d", round, (place + size - 1) % size);
        CHECK(get(key, got) == OK && strcmp(got, left) == 0);
        snprintf(key, sizeof(key), "at-%d-%d", round, (place + 1) % size);
        CHECK(get(key, got) == OK && strcmp(got, right) == 0);
    }
    value[5] = '\0';
    CHECK(ring(value, &place, &places, left, right, 5) == TOO_LONG); /* no room for its NUL */
    CHECK(ring(value, &place, &places, left, right, 6) == OK && strlen(left) == 5 &&
          strlen(right) == 5);
}

/* ---- a server without hints ---- */

static void do_old(void)
{
    char key[64], value[VALUE_BYTES];

    arguments();
    put_round("sparse", 1, SPARSE);
    for (int i = 0; i < 2; i++) { /* before any Fence a get ends the job under mpiexec.hydra on
                                     PMI-2 */
        CHECK(get_wait((rank + 1) % size, "sparse-0", value) == NOT_OFFERED);
        CHECK(get_wait(-1, "never", value) == NOT_OFFERED);
    }
    CHECK(fence() == OK);
    CHECK(get_wait(-1, "sparse-0", value) == NOT_OFFERED); /* for all, although it is there */
    for (int who = 0; who < size; who++) {
        snprintf(key, sizeof(key), "sparse-%d", who);
        expect(get(key, value), value, "sparse", 1, who);
    }
    do_ring(RING_MAX);
}

/* No launcher at all. */
static void do_alone(void)
{
    char value[VALUE_BYTES];

    CHECK(size == 1);
    arguments();
    put_round("sparse", 1, SPARSE);
    wait_for("sparse", 1, 0, 0);
    CHECK(get_wait(-1, "never", value) == FAIL);
    do_ring(RING_MAX);
}

/* ---- a process ends ---- */

/* Rank 1 is killed while it and others wait. */
static void do_die(void)
{
    char value[VALUE_BYTES];

    if (rank == 0)
        pause();
    if (rank == 1)
        alarm(1);
    CHECK(get_wait(-1, "never", value) == OK);
}

/* The server, or another node, dies while all wait: each rank gets an error, which it records, and
 * none hangs.
 * */
static void do_orphans(const char *report)
{
    char value[VALUE_BYTES];
    FILE *f;
    int rc;

    CHECK(prctl(PR_SET_PDEATHSIG, 0) == 0 && signal(SIGTERM, SIG_IGN) != SIG_ERR);
    CHECK(fence() == OK);
    printf("ready\n");
    CHECK(fflush(stdout) == 0);
    if (rank == 0 && strcmp(getenv("HINTS_KILL") ? getenv("HINTS_KILL") : "", "server") == 0) {
        usleep(300000); /* the others are waiting by now */
        kill(atoi(getenv("RANKS_SERVER")), SIGKILL);
        _exit(0);
    }
    if (rank == 0) { /* who could put the key */
        CHECK(signal(SIGTERM, SIG_DFL) != SIG_ERR);
        for (;;)
            pause();
    }
    rc = get_wait(-1, "never", value);
    f = fopen(report, "a");
    if (f && rc == FAIL)
        fprintf(f, "ended well\n");
    if (f)
        fclose(f);
    _exit(0);
}

/* The program has made its connection non-blocking: the library must still wait for answers. */
static void make_nonblocking(void)
{
    const char *number = getenv("PMI_FD");

    CHECK(number && fcntl(atoi(number), F_SETFL, O_NONBLOCK) == 0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "",
               *report = argc > 3 ? argv[3] : "";

    if (strcmp(mode, "nonblocking") == 0)
        make_nonblocking();
    init();
    if (strcmp(mode, "pairs") == 0)
        do_pairs(argument);
    else if (strcmp(mode, "one") == 0)
        do_one();
    else if (strcmp(mode, "chain") == 0)
        do_chain();
    else if (strcmp(mode, "never") == 0)
        do_never(argument, report);
    else if (strcmp(mode, "source") == 0)
        do_source();
    else if (strcmp(mode, "dense") == 0)
        do_dense(argument);
    else if (strcmp(mode, "ifence") == 0)
        do_ifence();
    else if (strcmp(mode, "ring") == 0)
        do_ring(*argument ? atoi(argument) : RING_MAX);
    else if (strcmp(mode, "nonblocking") == 0)
        do_ring(RING_MAX);
    else if (strcmp(mode, "old") == 0)
        do_old();
    else if (strcmp(mode, "alone") == 0)
        do_alone();
    else if (strcmp(mode, "die") == 0)
        do_die();
    else if (strcmp(mode, "orphans") == 0)
        do_orphans(argument);
    else
        CHECK(!"a mode");
    CHECK(finalize() == OK);
    if (rank == 0)
        printf("ok %s\n", mode);
    CHECK(fflush(stdout) == 0);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A PMIx client for traffic between nodes, for far.sh: far_client WHAT [argument]. It prints faults
 * to standard error, and exits with 1. */
#define _GNU_SOURCE
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pmix_proc_t me, all;
static uint32_t size;

#define GIVES(call, want)                                                                          \
    do {                                                                                           \
        pmix_status_t rc_ = (call);                                                                \
        if (rc_ != (want)) {                                                                       \
            fprintf(stderr, "rank %u: line %d: %s: %s\n", me.rank, __LINE__, #call,                \
                    PMIx_Error_string(rc_));                                                       \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define OK(call) GIVES(call, PMIX_SUCCESS)

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "rank %u: wrong: %s\n", me.rank, what);
    _exit(1);
}

static void wait_ms(unsigned ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

static pmix_proc_t peer(uint32_t rank)
{
    pmix_proc_t p = all;

    p.rank = rank;
    return p;
}

static void fence(bool data)
{
    pmix_info_t info[1];

    PMIX_INFO_LOAD(&info[0], PMIX_COLLECT_DATA, &data, PMIX_BOOL);
    OK(PMIx_Fence(&all, 1, info, 1));
}

/* ---- an absent rank ---- */

static void say_status(const char *what, pmix_status_t rc)
{
    printf("%s: %s\n", what, PMIx_Error_string(rc));
    fflush(stdout);
}

/* The last rank finalizes, and stays for a while; the others wait for it. */
static void early(const char *where)
{
    const pmix_proc_t last = peer(size - 1);
    pmix_value_t *v;

    fence(false);
    if (me.rank == size - 1) {
        wait_ms(200);
        OK(PMIx_Finalize(NULL, 0));
        wait_ms(4000);
        exit(0);
    }
    if (strcmp(where, "fence") == 0)
        say_status(where, PMIx_Fence(&all, 1, NULL, 0));
    else if (strcmp(where, "connect") == 0)
        say_status(where, PMIx_Connect(&all, 1, NULL, 0));
    else
        say_status(where, PMIx_Get(&last, "never", NULL, 0, &v));
}

/* ---- data ---- */

/* Each rank brings this many KiB, several times; each sees the others' data. */
static void big(size_t bytes)
{
    for (uint32_t round = 0; round < 3; round++) {
        char key[32], *p = malloc(bytes);
        pmix_value_t mine = {.type = PMIX_BYTE_OBJECT}, *v;

        snprintf(key, sizeof(key), "big%u", round);
        memset(p, (int)(me.rank + round), bytes);
        mine.data.bo.bytes = p;
        mine.data.bo.size = bytes;
        OK(PMIx_Put(PMIX_GLOBAL, key, &mine));
        OK(PMIx_Commit());
        fence(true);
        for (uint32_t r = 0; r < size; r++) {
            const pmix_proc_t of = peer(r);

            OK(PMIx_Get(&of, key, NULL, 0, &v));
            check(v->data.bo.size == bytes, "a length");
            for (size_t i = 0; i < bytes; i += 777)
                check((unsigned char)v->data.bo.bytes[i] == (unsigned char)(r + round), "a byte");
            PMIX_VALUE_RELEASE(v);
        }
        free(p);
    }
}

/* Many fences over many sets of ranks, in an order that differs between ranks. */
static void sets(void)
{
    for (uint32_t round = 0; round < 20; round++) {
        for (uint32_t i = 0; i < size; i++) {
            const uint32_t other = (size + round - i) % size; /* who pairs with whom */
            pmix_proc_t pair[2] = {peer(i), peer(other)};

            if (i >= other || (me.rank != i && me.rank != other))
                continue;
            OK(PMIx_Fence(pair, 2, NULL, 0));
        }
    }
    fence(false);
}

/* ---- published values ---- */

static pmix_status_t publish(const char *key, const char *text, int range, int persist)
{
    pmix_data_range_t r = (pmix_data_range_t)range;
    pmix_persistence_t p = (pmix_persistence_t)persist;
    pmix_info_t info[3];

    PMIX_INFO_LOAD(&info[0], key, text, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &r, PMIX_DATA_RANGE);
    PMIX_INFO_LOAD(&info[2], PMIX_PERSISTENCE, &p, PMIX_PERSIST);
    return PMIx_Publish(info, 3);
}

/* wait_s -1: does not wait; 0: without limit */
static pmix_status_t look_up(const char *key, int wait_s)
{
    pmix_pdata_t *found;
    pmix_info_t info[2];
    pmix_status_t rc;
    int all_of_them = 0;

    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all_of_them, PMIX_INT);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &wait_s, PMIX_INT);
    PMIX_PDATA_CREATE(found, 1);
    PMIX_LOAD_KEY(found[0].key, key);
    rc = PMIx_Lookup(found, 1, info, wait_s < 0 ? 0 : wait_s == 0 ? 1 : 2);
    if (rc == PMIX_SUCCESS)
        check(found[0].value.type == PMIX_STRING && strcmp(found[0].value.data.string, key) == 0,
              "a published value");
    PMIX_PDATA_FREE(found, 1);
    return rc;
}

/* Is this rank on our node? */
static bool is_near(uint32_t rank)
{
    pmix_value_t *v;
    bool near = false;
    char *save = NULL;

    OK(PMIx_Get(&all, PMIX_LOCAL_PEERS, NULL, 0, &v));
    for (char *p = strtok_r(v->data.string, ",", &save); p; p = strtok_r(NULL, ",", &save))
        near = near || (uint32_t)atoi(p) == rank;
    PMIX_VALUE_RELEASE(v);
    return near;
}

static void names(void)
{
    const pmix_status_t miss = PMIX_ERR_NOT_FOUND;
    char key[32];

    if (me.rank == 0) {
        OK(publish("everywhere", "everywhere", PMIX_RANGE_SESSION, PMIX_PERSIST_APP));
        OK(publish("node", "node", PMIX_RANGE_LOCAL, PMIX_PERSIST_APP));
        OK(publish("job", "job", PMIX_RANGE_NAMESPACE, PMIX_PERSIST_APP));
        OK(publish("own", "own", PMIX_RANGE_PROC_LOCAL, PMIX_PERSIST_APP));
        OK(publish("once", "once", PMIX_RANGE_SESSION, PMIX_PERSIST_FIRST_READ));
        GIVES(publish("x", "x", PMIX_RANGE_RM, PMIX_PERSIST_APP), PMIX_ERR_NOT_SUPPORTED);
    }
    fence(false);
    OK(look_up("everywhere", -1));
    OK(look_up("job", -1));
    GIVES(look_up("node", -1), is_near(0) ? PMIX_SUCCESS : miss);
    GIVES(look_up("own", -1), me.rank == 0 ? PMIX_SUCCESS : miss);
    fence(false);
    if (me.rank == size - 1) {
        OK(look_up("once", -1));
        GIVES(look_up("once", -1), miss);
        GIVES(publish("everywhere", "again", PMIX_RANGE_GLOBAL, PMIX_PERSIST_APP),
              PMIX_ERR_DUPLICATE_KEY);
    }
    fence(false);
    /* each waits for what the next one publishes later */
    snprintf(key, sizeof(key), "of-%u", (me.rank + 1) % size);
    if (me.rank % 2 == 0)
        OK(look_up(key, 0));
    snprintf(key, sizeof(key), "of-%u", me.rank);
    wait_ms(50);
    OK(publish(key, key, PMIX_RANGE_SESSION, PMIX_PERSIST_PROC));
    GIVES(look_up("nowhere", 1), PMIX_ERR_TIMEOUT);
    fence(false);
}

/* At the limits of a process: 1,024 values; 4 MiB. */
static void limits(void)
{
    static char text[1 << 20];
    pmix_status_t rc = PMIX_SUCCESS;
    pmix_info_t *info;
    char key[32];
    uint32_t n = 0;

    PMIX_INFO_CREATE(info, 256);
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < 256; i++) {
            snprintf(key, sizeof(key), "r%u-%u-%u", me.rank, round, i);
            PMIX_INFO_LOAD(&info[i], key, "v", PMIX_STRING);
        }
        OK(PMIx_Publish(info, 256)); /* the last one to the limit */
    }
    GIVES(publish("more", "more", PMIX_RANGE_PROC_LOCAL, PMIX_PERSIST_APP),
          PMIX_ERR_OUT_OF_RESOURCE);
    fence(false);
    OK(PMIx_Unpublish(NULL, NULL, 0));
    memset(text, 'x', sizeof(text) - 1);
    while (rc == PMIX_SUCCESS && n < 10) {
        snprintf(key, sizeof(key), "large-%u-%u", me.rank, n);
        rc = publish(key, text, PMIX_RANGE_SESSION, PMIX_PERSIST_APP);
        n += rc == PMIX_SUCCESS;
    }
    check(rc == PMIX_ERR_OUT_OF_RESOURCE && n == 3, "more than 4 MiB, with their keys");
    fence(false);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *arg = argc > 2 ? argv[2] : "";
    pmix_value_t *v;

    OK(PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    OK(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &v));
    size = v->data.uint32;
    PMIX_VALUE_RELEASE(v);
    if (strcmp(what, "early") == 0)
        early(arg);
    else if (strcmp(what, "big") == 0)
        big((size_t)atoi(arg) << 10);
    else if (strcmp(what, "sets") == 0)
        sets();
    else if (strcmp(what, "names") == 0)
        names();
    else if (strcmp(what, "limits") == 0)
        limits();
    else
        check(false, "the command line");
    OK(PMIx_Finalize(NULL, 0));
    printf("%s ok\n", what);
    return 0;
}

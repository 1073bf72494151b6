/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put for which malloc() fails never reaches the server: every allocation of
 * PMI_KVS_Put_hinted() fails in turn, under a server that counts puts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmi.h"

#include "../check.h"

/* ---- memory ---- */

static _Thread_local int countdown = -1; /* allocations until one fails; -1: none does */
static _Thread_local int n_failed;

static int refuses(void)
{
    if (countdown < 0 || countdown-- > 0)
        return 0;
    n_failed++;
    return 1;
}

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);

void *malloc(size_t bytes)
{
    return refuses() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return refuses() ? NULL : __libc_calloc(n, bytes);
}

/* ---- the server: a line, an answer ---- */

static atomic_int n_puts;

static const char *answer(const char *line)
{
    if (strncmp(line, "cmd=init ", 9) == 0)
        return "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
    if (strncmp(line, "cmd=get_maxes", 13) == 0)
        return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
    if (strncmp(line, "cmd=get_appnum", 14) == 0)
        return "cmd=appnum appnum=0\n";
    if (strncmp(line, "cmd=get_my_kvsname", 18) == 0)
        return "cmd=my_kvsname kvsname=space\n";
    if (strncmp(line, "cmd=put ", 8) == 0) {
        n_puts++;
        return "cmd=put_result rc=0\n";
    }
    return "cmd=finalize_ack\n";
}

static void *serve(void *arg)
{
    const int fd = *(int *)arg;
    char line[2048];
    size_t n = 0;

    while (read(fd, line + n, 1) == 1) {
        const char *text;

        if (line[n++] != '\n' && n < sizeof(line))
            continue;
        text = answer(line);
        CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
        n = 0;
    }
    return NULL;
}

/* How many allocations of a put failed until it succeeded. */
static int put(const char *key)
{
    int failures = 0;

    for (int nth = 0;; nth++) {
        const int before = n_puts;
        int rc;

        n_failed = 0;
        countdown = nth;
        rc = PMI_KVS_Put_hinted("space", key, "value", PMI_HINT_SPARSE);
        countdown = -1;
        if (rc == PMI_SUCCESS && n_failed == 0) {
            CHECK(n_puts == before + 1);
            return failures;
        }
        failures++;
        CHECK(rc == PMI_ERR_NOMEM);
        CHECK(n_puts == before);
    }
}

int main(void)
{
    int pair[2], spawned, failures = 0, n = 0;
    char number[16], key[64], value[1024];
    pthread_t server;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(pthread_create(&server, NULL, serve, &pair[1]) == 0);
    snprintf(number, sizeof(number), "%d", pair[0]);
    setenv("PMI_FD", number, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    CHECK(PMI_Init(&spawned) == PMI_SUCCESS);
    for (int i = 0; i < 200; i++) { /* the table grows on the way */
        snprintf(key, sizeof(key), "key-%d", i);
        failures += put(key);
    }
    CHECK(failures >= 200);
    CHECK(PMI_KVS_Iter_first("space", key, sizeof(key), value, sizeof(value)) == PMI_SUCCESS);
    for (; key[0]; n++)
        CHECK(PMI_KVS_Iter_next("space", key, sizeof(key), value, sizeof(value)) == PMI_SUCCESS);
    CHECK(n == 200);
    CHECK(PMI_Finalize() == PMI_SUCCESS);
    CHECK(pthread_join(server, NULL) == 0);
    puts("ok");
    return 0;
}

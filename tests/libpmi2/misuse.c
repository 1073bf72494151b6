/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Misuse by a program, built with libpmi.so.0 (MISUSE_PMI1) and with libpmi2.so.0: a second
 * init after one that failed, an init that is refused, and spawns of more processes than an int
 * counts. The server sends garbage or a refusal, or there is none.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pmi.h"
#include "pmi2.h"

#include "../check.h"

#ifdef MISUSE_PMI1
enum { OK = PMI_SUCCESS, BAD_ARGUMENT = PMI_ERR_INVALID_ARG, OTHER = PMI_ERR_OTHER };

static int init(void)
{
    int spawned;

    return PMI_Init(&spawned);
}

static int finalize(void)
{
    return PMI_Finalize();
}

static int spawn(int n, const char *cmds[], const int maxprocs[])
{
    return PMI_Spawn_multiple(n, cmds, NULL, maxprocs, NULL, NULL, 0, NULL, NULL);
}

static int spawn_without_room(const char *cmds[])
{
    return BAD_ARGUMENT; /* PMI-1 returns no id */
}
#else
enum { OK = PMI2_SUCCESS, BAD_ARGUMENT = PMI2_ERR_INVALID_ARG, OTHER = PMI2_ERR_OTHER };

static int init(void)
{
    return PMI2_Init(NULL, NULL, NULL, NULL);
}

static int finalize(void)
{
    return PMI2_Finalize();
}

static int spawn(int n, const char *cmds[], const int maxprocs[])
{
    return PMI2_Job_Spawn(n, cmds, NULL, NULL, maxprocs, NULL, NULL, 0, NULL, NULL, 0, NULL);
}

static int spawn_without_room(const char *cmds[])
{
    const int one = 1;
    char id[1];

    return PMI2_Job_Spawn(1, cmds, NULL, NULL, &one, NULL, NULL, 0, NULL, id, 0, NULL);
}
#endif

/* A server that sends this and nothing else. */
static void serve(const char *answer, int pair[2])
{
    char number[16];

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    snprintf(number, sizeof(number), "%d", pair[0]);
    CHECK(setenv("PMI_FD", number, 1) == 0 && setenv("PMI_RANK", "0", 1) == 0 &&
          setenv("PMI_SIZE", "1", 1) == 0);
    CHECK(send(pair[1], answer, strlen(answer), 0) == (ssize_t)strlen(answer));
}

/* The server speaks another version. */
static void init_refused(void)
{
    int pair[2];

    serve("cmd=response_to_init pmi_version=9 pmi_subversion=0 rc=-1\n", pair);
    CHECK(init() == OTHER);
}

/* init closes the connection when it fails; by the next call its number may be that of the
 * program's own file. */
static void init_again(void)
{
    int pair[2], mine;

    serve("no PMI at all\n", pair);
    CHECK(init() != OK);
    CHECK(fcntl(pair[0], F_GETFD) < 0);
    mine = memfd_create("mine", 0);
    CHECK(mine >= 0 && dup2(mine, pair[0]) == pair[0]);
    CHECK(init() != OK);
    CHECK(lseek(mine, 0, SEEK_END) == 0); /* nothing was written there */
    CHECK(fcntl(pair[0], F_GETFD) >= 0);  /* and it is still open */
    CHECK(finalize() != OK);
}

static void spawn_too_many(void)
{
    const char *cmds[] = {"a", "b", "c"};
    int most[] = {INT_MAX, 1, 0}, wraps[] = {INT_MAX, INT_MAX, 2}, negative[] = {1, -1, 1};

    CHECK(init() == OK); /* a singleton: a valid spawn is refused, since no server can do it */
    CHECK(spawn(1, cmds, most) != OK && spawn(1, cmds, most) != BAD_ARGUMENT);
    CHECK(spawn(2, cmds, most) == BAD_ARGUMENT);
    CHECK(spawn(3, cmds, wraps) == BAD_ARGUMENT);
    CHECK(spawn(3, cmds, negative) == BAD_ARGUMENT);
    CHECK(spawn(0, cmds, most) == BAD_ARGUMENT);
    CHECK(spawn(1, cmds, NULL) == BAD_ARGUMENT);
    CHECK(spawn_without_room(cmds) == BAD_ARGUMENT);
    CHECK(finalize() == OK);
}

int main(int argc, char **argv)
{
    unsetenv("PMI_FD");
    unsetenv("PMI_PORT");
    if (argc == 2 && strcmp(argv[1], "init") == 0)
        init_again();
    else if (argc == 2 && strcmp(argv[1], "refused") == 0)
        init_refused();
    else if (argc == 2 && strcmp(argv[1], "spawn") == 0)
        spawn_too_many();
    else
        return 2;
    return 0;
}

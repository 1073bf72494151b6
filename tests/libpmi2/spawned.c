/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spawned jobs that connect by TCP, as an MPI does: spawned [ROUNDS [told]], on any
 * number of ranks. Each rank spawns CHILDREN processes a round, whose pairs have its own address
 * from the beginning (preput). They connect to it. It gets their addresses from their key-value
 * space, connects to each, disconnects, and connects again, to an address that the child has
 * published under a name. Siblings connect to each other. Each process checks which process it has
 * reached: a refused connection means an address that came too early, too late or from another job.
 * told: under servers where a job cannot get another job's pairs, the parent takes the address that
 * the child sends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef SPAWNED_PMI1
#include "pmi.h"
#else
#include "pmi2.h"
#endif

#define CHILDREN 3
#define TEXT     1024
#define PORT_KEY "PARENT_ROOT_PORT_NAME"

static int rank, size;
static char job[256];

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "%s rank %d: %s: %s\n", job, rank, what, detail);
    exit(1);
}

/* ---- the two interfaces ---- */

static int begin(void)
{
    int spawned = 0;
#ifdef SPAWNED_PMI1
    if (PMI_Init(&spawned) != PMI_SUCCESS || PMI_Get_rank(&rank) != PMI_SUCCESS ||
        PMI_Get_size(&size) != PMI_SUCCESS || PMI_KVS_Get_my_name(job, sizeof(job)) != PMI_SUCCESS)
#else
    int appnum;

    if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS ||
        PMI2_Job_GetId(job, sizeof(job)) != PMI2_SUCCESS)
#endif
        fail("init", "failed");
    return spawned;
}

static void end(void)
{
#ifdef SPAWNED_PMI1
    PMI_Finalize();
#else
    PMI2_Finalize();
#endif
}

static void put_and_fence(const char *key, const char *value)
{
#ifdef SPAWNED_PMI1
    if (PMI_KVS_Put(job, key, value) != PMI_SUCCESS || PMI_KVS_Commit(job) != PMI_SUCCESS ||
        PMI_Barrier() != PMI_SUCCESS)
#else
    if (PMI2_KVS_Put(key, value) != PMI2_SUCCESS || PMI2_KVS_Fence() != PMI2_SUCCESS)
#endif
        fail("put and fence", key);
}

static void get(const char *space, const char *key, char value[TEXT])
{
#ifdef SPAWNED_PMI1
    if (PMI_KVS_Get(space, key, value, TEXT) != PMI_SUCCESS)
#else
    int n;

    if (PMI2_KVS_Get(space, -1, key, value, TEXT, &n) != PMI2_SUCCESS)
#endif
        fail("no such key", key);
}

/* Spawns the children of a round. By PMI-2, rank 1 gives a buffer that is too short for the id. */
static void spawn(const char *self, const char *port, const char *round)
{
    const char *argv[] = {round, NULL}, **argvs[] = {argv};
    int n = CHILDREN, none = 0, errors[CHILDREN] = {-1, -1, -1};
#ifdef SPAWNED_PMI1
    PMI_keyval_t preput = {(char[]){PORT_KEY}, (char *)(uintptr_t)port};
    const PMI_keyval_t *info[] = {NULL};

    if (PMI_Spawn_multiple(1, &self, argvs, &n, &none, info, 1, &preput, errors) != PMI_SUCCESS)
#else
    struct MPID_Info pair = {.key = (char[]){PORT_KEY}, .value = (char *)(uintptr_t)port};
    const struct MPID_Info *preput[] = {&pair}, *info[] = {NULL};
    char id[256];
    int argc = 1;

    if (PMI2_Job_Spawn(1, &self, &argc, argvs, &n, &none, info, 1, preput, id,
                       rank == 1 ? 1 : sizeof(id),
                       errors) != (rank == 1 ? PMI2_ERR_INVALID_LENGTH : PMI2_SUCCESS))
#endif
        fail("spawn", round);
    for (int i = 0; i < CHILDREN; i++)
        if (errors[i] != 0)
            fail("error of a spawned process", round);
}

static void publish(const char *name, const char *port)
{
#ifdef SPAWNED_PMI1
    if (PMI_Publish_name(name, port) != PMI_SUCCESS)
#else
    if (PMI2_Nameserv_publish(name, NULL, port) != PMI2_SUCCESS)
#endif
        fail("publish", name);
}

static void unpublish(const char *name)
{
#ifdef SPAWNED_PMI1
    if (PMI_Unpublish_name(name) != PMI_SUCCESS)
#else
    if (PMI2_Nameserv_unpublish(name, NULL) != PMI2_SUCCESS)
#endif
        fail("unpublish", name);
}

/* Until it is published. */
static void look_up(const char *name, char port[TEXT])
{
    const struct timespec a_while = {.tv_nsec = 1000000};

#ifdef SPAWNED_PMI1
    while (PMI_Lookup_name(name, port) != PMI_SUCCESS)
#else
    while (PMI2_Nameserv_lookup(name, NULL, port, TEXT) != PMI2_SUCCESS)
#endif
        nanosleep(&a_while, NULL);
}

/* ---- TCP ---- */

/* Opens a port of this process, and writes its address as text. */
static int listen_at(char text[TEXT])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        fail("listen", strerror(errno));
    snprintf(text, TEXT, "127.0.0.1:%u", (unsigned)ntohs(addr.sin_port));
    return fd;
}

static int dial(const char *text)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *colon = strchr(text, ':');
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (!colon)
        fail("no address", text);
    addr.sin_port = htons((uint16_t)atoi(colon + 1));
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0)
        fail(text, strerror(errno));
    return fd;
}

static void say(int fd, const char *text)
{
    const size_t n = strlen(text);

    if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
        fail("send", strerror(errno));
}

/* Reads what the other side sends until it closes. */
static void hear(int fd, char text[TEXT])
{
    size_t n = 0;
    ssize_t got;

    while (n < TEXT - 1 && (got = recv(fd, text + n, TEXT - 1 - n, 0)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(fd);
}

/* Sends our name to the next process that connects. */
static void answer(int listener, const char *who)
{
    int fd = accept(listener, NULL, NULL);

    if (fd < 0)
        fail("accept", strerror(errno));
    say(fd, who);
    close(fd);
}

static void expect(int fd, const char *who)
{
    char text[TEXT];

    hear(fd, text);
    if (strcmp(text, who) != 0) {
        fprintf(stderr, "instead of \"%s\" ", who);
        fail("reached another", text);
    }
}

/* ---- the two sides ---- */

static void name_of(char name[TEXT], const char *space, int r)
{
    snprintf(name, TEXT, "again-%.200s-%d", space, r);
}

static void child(const char *round)
{
    char own[TEXT], parent[TEXT], next[TEXT], who[TEXT], key[64], name[TEXT], other[TEXT];
    int listener = listen_at(own), sibling, fd;

    snprintf(who, sizeof(who), "%s %d %.40s %.40s", job, rank, round, own);
    get(job, PORT_KEY, parent);
    snprintf(key, sizeof(key), "P%d-businesscard", rank);
    put_and_fence(key, own);
    fd = dial(parent);
    say(fd, who);
    close(fd);
    snprintf(key, sizeof(key), "P%d-businesscard", (rank + 1) % size);
    get(job, key, next);
    sibling = dial(next);
    answer(listener, who); /* to a sibling and to the parent, in either order */
    answer(listener, who);
    snprintf(other, sizeof(other), "%s %d %.40s %.40s", job, (rank + 1) % size, round, next);
    expect(sibling, other);
    close(listener);

    listener = listen_at(own);
    name_of(name, job, rank);
    publish(name, own);
    answer(listener, who);
    unpublish(name);
    close(listener);
    end();
}

static void parent(const char *self, int n_rounds, int told)
{
    char own[TEXT], who[CHILDREN][TEXT], space[CHILDREN][256], card[CHILDREN][64], at[TEXT],
        name[TEXT], key[64], round[64], said[64];
    int listener = listen_at(own), r[CHILDREN];

    for (int i = 0; i < n_rounds; i++) {
        snprintf(round, sizeof(round), "%d-%d", rank, i);
        spawn(self, own, round);
        for (int k = 0; k < CHILDREN; k++) {
            int fd = accept(listener, NULL, NULL);

            hear(fd, who[k]);
            if (sscanf(who[k], "%255s %d %63s %63s", space[k], &r[k], said, card[k]) != 4 ||
                strcmp(said, round) != 0)
                fail("a child of another round", who[k]);
        }
        for (int k = 0; k < CHILDREN; k++) {
            snprintf(key, sizeof(key), "P%d-businesscard", r[k]);
            if (!told) {
                get(space[k], key, at);
                if (strcmp(at, card[k]) != 0)
                    fail("another address than the child has put", at);
            }
            expect(dial(card[k]), who[k]);
        }
        for (int k = 0; k < CHILDREN; k++) {
            name_of(name, space[k], r[k]);
            look_up(name, at);
            expect(dial(at), who[k]);
        }
    }
    close(listener);
    end();
}

int main(int argc, char **argv)
{
    alarm(60);
    if (begin()) {
        child(argc > 1 ? argv[1] : "");
    } else {
        parent(argv[0], argc > 1 ? atoi(argv[1]) : 1, argc > 2);
        if (rank == 0)
            puts("ok");
    }
    return 0;
}

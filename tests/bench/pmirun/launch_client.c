/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that bench_launch starts: a bare PMI-1 client without a library, so that the figures
 * are the launcher's and server's, not a client's. Linked statically where possible.
 *
 *     launch_client FILE ROUNDS
 *
 * init, then ROUNDS times: put one pair and enter the barrier; then get the two neighbours' values
 * of the last round, check them, and finalize. Its times go into FILE, a record of doubles for each
 * rank: see struct record. Without arguments it returns at once: the floor of a launch.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch_record.h"

static int fd;
static char reply[2048];

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void die(const char *what)
{
    fprintf(stderr, "launch_client: %s: %s\n", what, reply);
    exit(9);
}

/* Send a line, read a line, and insist that it begins as expected. Returns what follows. */
static const char *ask(const char *request, const char *expect)
{
    size_t n = strlen(request), have = 0;

    if (write(fd, request, n) != (ssize_t)n)
        die("write");
    do {
        ssize_t got = read(fd, reply + have, sizeof(reply) - 1 - have);

        if (got <= 0)
            die("read");
        have += (size_t)got;
        reply[have] = '\0';
    } while (reply[have - 1] != '\n');
    n = strlen(expect);
    if (strncmp(reply, expect, n) != 0)
        die(expect);
    return reply + n;
}

static int environment(const char *name)
{
    const char *text = getenv(name);

    if (!text) {
        fprintf(stderr, "launch_client: no %s\n", name);
        exit(9);
    }
    return atoi(text);
}

int main(int argc, char **argv)
{
    struct record r = {0};
    char line[512], kvs[300], expect[64];
    int rank, size, rounds, out;
    double t;

    if (argc == 1)
        return 0;
    r.started = now_ms();
    if (argc != 3)
        return 2;
    rounds = atoi(argv[2]);
    fd = environment("PMI_FD");
    rank = environment("PMI_RANK");
    size = environment("PMI_SIZE");

    ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init ");
    ask("cmd=get_maxes\n", "cmd=maxes ");
    ask("cmd=get_appnum\n", "cmd=appnum ");
    snprintf(kvs, sizeof(kvs), "%s", ask("cmd=get_my_kvsname\n", "cmd=my_kvsname "));
    kvs[strcspn(kvs, "\n")] = '\0'; /* kvsname=… , perhaps among others */
    r.init = now_ms() - r.started;

    for (int i = 0; i < rounds; i++) {
        t = now_ms();
        snprintf(line, sizeof(line),
                 "cmd=put %s key=k%d value=address-of-%d-in-round-%d-port-40000\n", kvs, rank, rank,
                 i);
        ask(line, "cmd=put_result ");
        r.put = now_ms() - t;
        ask("cmd=barrier_in\n", "cmd=barrier_out");
        r.round[i < MAX_ROUNDS ? i : MAX_ROUNDS - 1] = now_ms() - t;
    }

    t = now_ms();
    for (int side = 0; side < 2; side++) {
        int peer = (rank + (side ? 1 : size - 1)) % size;

        snprintf(line, sizeof(line), "cmd=get %s key=k%d\n", kvs, peer);
        ask(line, "cmd=get_result ");
        snprintf(expect, sizeof(expect), "value=address-of-%d-in-round-%d-port-40000", peer,
                 rounds - 1);
        if (!strstr(reply, expect))
            die("wrong value");
    }
    r.gets = now_ms() - t;

    t = now_ms();
    ask("cmd=finalize\n", "cmd=finalize_ack");
    r.finalize = now_ms() - t;
    r.ended = now_ms();
    out = open(argv[1], O_WRONLY);
    if (out < 0 ||
        pwrite(out, &r, sizeof(r), (off_t)rank * (off_t)sizeof(r)) != (ssize_t)sizeof(r)) {
        perror("launch_client: record");
        return 9;
    }
    return 0;
}

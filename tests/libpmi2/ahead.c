/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which requests libpmi.so.0 sends ahead of the answers, and answers that few servers give: ahead
 * MODE. The program is its own server, at the other end of the socket. The server neither reads nor
 * answers during a call that must not wait, so a call that waits runs into the alarm and fails the
 * test.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pmi.h"

#include "../check.h"

enum { WINDOW = 65536, AHEAD = 48, MANY = 3000, LONG = 1000 };

static int ends[2]; /* the library's, the server's */
static const char *inited, *found;
static const char *maxes = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n";
static char heard[1 << 20]; /* the library's bytes that the server has read */

/* ---- the server ---- */

static void say(const char *text)
{
    CHECK(send(ends[1], text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

/* Reads all that has arrived. */
static const char *hear(void)
{
    size_t have = 0;
    ssize_t n;

    while ((n = recv(ends[1], heard + have, sizeof(heard) - 1 - have, MSG_DONTWAIT)) > 0)
        have += (size_t)n;
    heard[have] = '\0';
    return heard;
}

static int hears(const char *text)
{
    if (strcmp(hear(), text) == 0)
        return 1;
    fprintf(stderr, "the server has read \"%s\"\n", heard);
    return 0;
}

static int n_puts, n_barriers;

static const char *answer(const char *line)
{
    if (strncmp(line, "cmd=init ", 9) == 0)
        return inited;
    if (strncmp(line, "cmd=get_maxes", 13) == 0)
        return maxes;
    if (strncmp(line, "cmd=get_appnum", 14) == 0)
        return "cmd=appnum appnum=0\n";
    if (strncmp(line, "cmd=get_my_kvsname", 18) == 0)
        return "cmd=my_kvsname kvsname=space\n";
    if (strncmp(line, "cmd=put ", 8) == 0) {
        char want[64];

        snprintf(want, sizeof(want), "cmd=put kvsname=space key=key-%d ", n_puts);
        CHECK(strncmp(line, want, strlen(want)) == 0); /* in order */
        n_puts++;
        return "cmd=put_result rc=0\n";
    }
    if (strncmp(line, "cmd=barrier_in", 14) == 0) {
        n_barriers++;
        return "cmd=barrier_out\n";
    }
    if (strncmp(line, "cmd=lookup_name", 15) == 0 || strncmp(line, "cmd=get ", 8) == 0)
        return found;
    CHECK(strncmp(line, "cmd=finalize", 12) == 0);
    return "cmd=finalize_ack\n";
}

/* Answers each line, up to and including the one that begins with this. */
static void *serve(void *last)
{
    char lines[65536];
    size_t have = 0;
    ssize_t n;

    while ((n = recv(ends[1], lines + have, sizeof(lines) - 1 - have, 0)) > 0) {
        char *line = lines, *end;

        have += (size_t)n;
        lines[have] = '\0';
        for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            say(answer(line));
            if (strncmp(line, last, strlen(last)) == 0) {
                CHECK(!end[1]);
                return NULL;
            }
        }
        have = strlen(line);
        memmove(lines, line, have);
    }
    return NULL;
}

static pthread_t serving(const char *last)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, serve, (void *)(uintptr_t)last) == 0);
    return thread;
}

/* ---- the client ---- */

static void init(int ours)
{
    pthread_t thread;
    char number[16];
    int spawned;

    inited = ours ? "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1 fp-server=1 "
                    "fp-exchange=1\n"
                  : "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    snprintf(number, sizeof(number), "%d", ends[0]);
    setenv("PMI_FD", number, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    thread = serving("cmd=get_my_kvsname");
    CHECK(PMI_Init(&spawned) == PMI_SUCCESS);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void finalize(void)
{
    pthread_t thread = serving("cmd=finalize");

    CHECK(PMI_Finalize() == PMI_SUCCESS);
    CHECK(pthread_join(thread, NULL) == 0);
}

static int test(void)
{
    int done = -1;

    CHECK(PMI_Test(&done) == PMI_SUCCESS);
    return done;
}

static int put(int number, size_t length)
{
    char key[32], value[2000];

    snprintf(key, sizeof(key), "key-%d", number);
    memset(value, 'v', length);
    value[length] = '\0';
    return PMI_KVS_Put("space", key, value);
}

#define BARRIER "cmd=barrier_in\n"
#define PUT(n)  "cmd=put kvsname=space key=key-" #n " value=v\n"

/* To a server that answers in order the library sends all requests at once; it takes the answers
 * one by one. */
static void do_ours(void)
{
    char key[64], value[64];
    int why = 0;

    init(1);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    CHECK(put(0, 1) == PMI_SUCCESS && put(1, 1) == PMI_SUCCESS);
    CHECK(put(2, 1025) == PMI_ERR_INVALID_VAL_LENGTH); /* returns at once, and sends nothing */
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    CHECK(put(3, 1) == PMI_SUCCESS && PMI_Ibarrier() == PMI_SUCCESS);
    CHECK(hears(BARRIER PUT(0) PUT(1) BARRIER PUT(3) BARRIER));
    CHECK(!test() && !test());
    say("cmd=barrier_out\n");
    CHECK(test() && !test());
    /* The second put is refused: the Fence behind it, and no other, reports that. */
    say("cmd=put_result rc=0\ncmd=put_result rc=7\ncmd=barrier_out\ncmd=put_result rc=0\n"
        "cmd=barrier_out\n");
    CHECK(PMI_KVS_Put_refused(key, sizeof(key), &why) == PMI_FAIL);
    CHECK(PMI_Wait() == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(PMI_KVS_Put_refused(key, 5, &why) == PMI_ERR_INVALID_KEY_LENGTH);
    CHECK(PMI_KVS_Put_refused(key, sizeof(key), &why) == PMI_SUCCESS);
    CHECK(strcmp(key, "key-1") == 0 && why == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(PMI_Wait() == PMI_SUCCESS);
    CHECK(PMI_KVS_Put_refused(key, sizeof(key), &why) == PMI_FAIL);
    CHECK(PMI_Wait() == PMI_FAIL && PMI_Test(&why) == PMI_FAIL && why == 0);
    /* The refused pair is not there. */
    CHECK(PMI_KVS_Iter_first("space", key, sizeof(key), value, sizeof(value)) == PMI_SUCCESS);
    CHECK(strcmp(key, "key-0") == 0);
    CHECK(PMI_KVS_Iter_next("space", key, sizeof(key), value, sizeof(value)) == PMI_SUCCESS);
    CHECK(strcmp(key, "key-3") == 0);
    CHECK(PMI_KVS_Iter_next("space", key, sizeof(key), value, sizeof(value)) == PMI_SUCCESS);
    CHECK(!key[0]);
    finalize();
}

/* To any other server the library sends one request, and the next in the first call after the
 * answer. */
static void do_other(void)
{
    init(0);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS && put(0, 1) == PMI_SUCCESS);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    CHECK(hears(BARRIER) && !test() && hears(""));
    say("cmd=barrier_out\n");
    CHECK(hears("") && test() && !test() && hears(PUT(0)));
    say("cmd=put_result rc=0\n");
    CHECK(put(1, 1) == PMI_SUCCESS); /* another call does, too */
    CHECK(hears(BARRIER));
    say("cmd=barrier_out\n");
    CHECK(PMI_Wait() == PMI_SUCCESS);
    CHECK(hears(PUT(1)));
    say("cmd=put_result rc=0\n");
    finalize();
}

/* The library sends as many as the server announces, and one more. A waiting barrier does not
 * count. */
static void do_limit(void)
{
    pthread_t thread;

    init(1);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PMI_MAX_OUTSTANDING; i++)
            CHECK(PMI_Ibarrier() == PMI_SUCCESS);
        CHECK(PMI_Ibarrier() == PMI_FAIL);
        n_barriers = 0;
        thread = serving("cmd=put");
        CHECK(PMI_Barrier() == PMI_SUCCESS);
        CHECK(PMI_Ibarrier() == PMI_FAIL);
        for (int i = 0; i < PMI_MAX_OUTSTANDING; i++)
            CHECK(i % 2 ? test() : PMI_Wait() == PMI_SUCCESS);
        CHECK(PMI_Wait() == PMI_FAIL);
        n_puts = 0;
        CHECK(put(0, 1) == PMI_SUCCESS);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(n_barriers == PMI_MAX_OUTSTANDING + 1);
    }
    finalize();
}

/* The server does not read, and the socket takes little: puts wait in the library. */
static void do_full(void)
{
    const int little = 4096;
    pthread_t thread;
    char key[64];
    int why;

    init(1);
    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)) == 0);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    for (int i = 0; i < MANY; i++)
        CHECK(put(i, LONG) == PMI_SUCCESS);
    CHECK(put(MANY, 1025) == PMI_SUCCESS); /* the program has not looked at it */
    CHECK(PMI_Ibarrier() == PMI_SUCCESS && !test());
    n_puts = n_barriers = 0;
    thread = serving("cmd=finalize");
    CHECK(PMI_Wait() == PMI_SUCCESS);
    CHECK(PMI_Wait() == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(PMI_KVS_Put_refused(key, sizeof(key), &why) == PMI_SUCCESS);
    CHECK(strcmp(key, "key-3000") == 0 && why == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(PMI_Finalize() == PMI_SUCCESS);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(n_puts == MANY && n_barriers == 2);
}

/* This many requests go out ahead of the answers, and one more with each answer. */
static void do_window(void)
{
    int n = 0;

    init(1);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    for (int i = 0; i < MANY; i++)
        CHECK(put(i, LONG) == PMI_SUCCESS);
    for (const char *p = hear(); (p = strchr(p, '\n')) != NULL; p++)
        n++;
    CHECK(n == AHEAD && strlen(heard) <= WINDOW && heard[strlen(heard) - 1] == '\n');
    CHECK(!test() && hears(""));
    /* The library reads all these answers at once, and sends one more request for each. */
    say("cmd=barrier_out\ncmd=put_result rc=0\ncmd=put_result rc=0\ncmd=put_result rc=0\n");
    CHECK(test() && strncmp(hear(), "cmd=put ", 8) == 0);
    n = 0;
    for (const char *p = heard; (p = strchr(p, '\n')) != NULL; p++)
        n++;
    CHECK(n == 4 && heard[strlen(heard) - 1] == '\n');
    CHECK(close(ends[1]) == 0 && PMI_Finalize() != PMI_SUCCESS);
}

/* A put that the wire cannot carry fails at its turn, before two Fences begun earlier are complete:
 * the third Fence reports it. */
static void do_refused(void)
{
    char key[64];
    int why;

    init(1);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS && PMI_Ibarrier() == PMI_SUCCESS);
    for (int i = 2; i < AHEAD; i++)
        CHECK(put(i, 1) == PMI_SUCCESS);
    CHECK(put(AHEAD, 1025) == PMI_SUCCESS && PMI_Ibarrier() == PMI_SUCCESS);
    say("cmd=barrier_out\n");
    CHECK(test() && !test());
    say("cmd=barrier_out\n");
    CHECK(test() && !test());
    for (int i = 2; i < AHEAD; i++)
        say("cmd=put_result rc=0\n");
    say("cmd=barrier_out\n");
    CHECK(PMI_Wait() == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(PMI_KVS_Put_refused(key, sizeof(key), &why) == PMI_SUCCESS);
    CHECK(strcmp(key, "key-48") == 0 && why == PMI_ERR_INVALID_VAL_LENGTH);
    hear();
    finalize();
}

/* A later Fence's put is refused before an earlier one's: both Fences fail, each with its own. */
static void do_two_refused(void)
{
    char key[64];
    int why;

    init(1);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS && put(0, 1) == PMI_SUCCESS);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    for (int i = 3; i < AHEAD; i++)
        CHECK(put(i, 1) == PMI_SUCCESS);
    CHECK(put(AHEAD, 1025) == PMI_SUCCESS && PMI_Ibarrier() == PMI_SUCCESS);
    say("cmd=barrier_out\n");
    CHECK(test() && !test()); /* there is room for the long one, which the wire cannot carry */
    say("cmd=put_result rc=5\ncmd=barrier_out\n");
    CHECK(PMI_Wait() == PMI_ERR_INVALID_KEY_LENGTH);
    CHECK(PMI_KVS_Put_refused(key, sizeof(key), &why) == PMI_SUCCESS);
    CHECK(strcmp(key, "key-0") == 0 && why == PMI_ERR_INVALID_KEY_LENGTH);
    for (int i = 3; i < AHEAD; i++)
        say(i == 9 ? "cmd=put_result rc=5\n" : "cmd=put_result rc=0\n");
    say("cmd=barrier_out\n");
    CHECK(PMI_Wait() == PMI_ERR_INVALID_VAL_LENGTH); /* one of its two */
    CHECK(PMI_KVS_Put_refused(key, sizeof(key), &why) == PMI_SUCCESS);
    CHECK(strcmp(key, "key-48") == 0 && why == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    say("cmd=barrier_out\n");
    CHECK(PMI_Wait() == PMI_SUCCESS);
    hear();
    finalize();
}

/* The server closes: operations in flight fail, and so do later ones. */
static void do_death(void)
{
    init(1);
    for (int i = 0; i < 3; i++)
        CHECK(PMI_Ibarrier() == PMI_SUCCESS && put(i, LONG) == PMI_SUCCESS);
    for (int i = 3; i < MANY; i++)
        CHECK(put(i, LONG) == PMI_SUCCESS);
    say("cmd=barrier_out\n");
    CHECK(close(ends[1]) == 0);
    CHECK(PMI_Wait() == PMI_SUCCESS); /* it has been answered */
    CHECK(PMI_Wait() != PMI_SUCCESS && PMI_Wait() != PMI_SUCCESS);
    CHECK(put(0, 1) != PMI_SUCCESS && PMI_Ibarrier() != PMI_SUCCESS);
    CHECK(PMI_Finalize() != PMI_SUCCESS);
}

/* A put behind the last Fence is refused: finalize reports it. */
static void do_unreported(void)
{
    pthread_t thread;

    init(1);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS && put(0, 1) == PMI_SUCCESS);
    CHECK(hears(BARRIER PUT(0)));
    say("cmd=barrier_out\ncmd=put_result rc=7\n");
    CHECK(PMI_Wait() == PMI_SUCCESS);
    thread = serving("cmd=finalize");
    CHECK(PMI_Finalize() == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* The server has answered and closed: the library reads its answers, although it can no longer
 * write. */
static void do_left(void)
{
    init(1);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS && hears(BARRIER));
    say("cmd=barrier_out\n");
    CHECK(close(ends[1]) == 0);
    CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    CHECK(PMI_Wait() == PMI_SUCCESS);
    CHECK(PMI_Wait() != PMI_SUCCESS);
    CHECK(PMI_Finalize() != PMI_SUCCESS);
}

/* An abort reaches the server, also while answers wait unread. */
static void do_abort(void)
{
    int status;
    pid_t pid;

    init(1);
    for (int i = 0; i < 4; i++)
        CHECK(PMI_Ibarrier() == PMI_SUCCESS);
    CHECK(hears(BARRIER BARRIER BARRIER BARRIER));
    say("cmd=barrier_out\ncmd=barrier_out\ncmd=barrier_out\n");
    CHECK(test());
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        PMI_Abort(5, NULL);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    CHECK(strncmp(hear(), "cmd=abort exitcode=5", 20) == 0);
}

/* A port that is longer than the server has said is not written. */
static void do_lookup(void)
{
    char port[64 + 1] = "";
    pthread_t thread;
    int max = 0;

    maxes = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=64\n";
    init(0);
    CHECK(PMI_KVS_Get_value_length_max(&max) == PMI_SUCCESS && max == 64);
    port[max] = '!';
    found = "cmd=lookup_result rc=0 info=ok port=123456789.123456789.123456789."
            "123456789.123456789.123456789.1234\n";
    thread = serving("cmd=lookup_name");
    CHECK(PMI_Lookup_name("service", port) == PMI_ERR_INVALID_VAL_LENGTH);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(port[max] == '!');
    found = "cmd=lookup_result rc=0 info=ok port=123456789.123456789.123456789."
            "123456789.123456789.123456789.123\n";
    thread = serving("cmd=lookup_name");
    CHECK(PMI_Lookup_name("service", port) == PMI_SUCCESS && strlen(port) == 63);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(port[max] == '!');
    finalize();
}

/* Without a mapping every rank is on a node of its own; without a server there is no answer. */
static void do_mapping(void)
{
    pthread_t thread;
    int n = 0;

    init(0);
    found = "cmd=get_result rc=-1 msg=key_not_found value=unknown\n";
    thread = serving("cmd=get ");
    CHECK(PMI_Get_clique_size(&n) == PMI_SUCCESS && n == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(close(ends[1]) == 0);
    CHECK(PMI_Get_clique_size(&n) != PMI_SUCCESS);
    CHECK(PMI_Finalize() != PMI_SUCCESS);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    alarm(30);
    if (strcmp(mode, "ours") == 0)
        do_ours();
    else if (strcmp(mode, "other") == 0)
        do_other();
    else if (strcmp(mode, "limit") == 0)
        do_limit();
    else if (strcmp(mode, "full") == 0)
        do_full();
    else if (strcmp(mode, "window") == 0)
        do_window();
    else if (strcmp(mode, "refused") == 0)
        do_refused();
    else if (strcmp(mode, "two-refused") == 0)
        do_two_refused();
    else if (strcmp(mode, "death") == 0)
        do_death();
    else if (strcmp(mode, "unreported") == 0)
        do_unreported();
    else if (strcmp(mode, "left") == 0)
        do_left();
    else if (strcmp(mode, "abort") == 0)
        do_abort();
    else if (strcmp(mode, "lookup") == 0)
        do_lookup();
    else if (strcmp(mode, "mapping") == 0)
        do_mapping();
    else
        CHECK(!"a mode");
    puts("ok");
    return 0;
}

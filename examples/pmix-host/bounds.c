/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works around faults of libpmix 4.2 by which one client stops the server, and with it all jobs.
 *
 * A value that does not fit into a segment of its shared store (gds/ds21: 4 MiB) makes the server
 * free a foreign block on its error path, and abort. So a client's message may be no larger than a
 * segment. Both sides of the store read the segment's size in their environment.
 *
 * The server reads a new client's greeting in its only thread, without a time limit. Any user of
 * the node can connect, send nothing, and so stop it. Accepted sockets inherit the time limit of
 * the listening one; libpmix treats a greeting that exceeds it as a lost connection.
 *
 * Several such connections, or another fault, still stop it. So the host sends it a request
 * every half second; without an answer for half a minute it fails.
 *
 * Not bounded: a rank that has changed its user id. libpmix refuses its connection, and then may
 * crash. A process that does not know the namespace's name, which is random, cannot cause this.
 */
#define _GNU_SOURCE
#include "bounds.h"

#include "lib.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#define MESSAGE "PMIX_MCA_ptl_base_max_msg_size" /* MiB */
#define SEGMENT "NS_DATA_SEG_SIZE"               /* bytes */
#define ROOM    (64u << 10)                      /* in a segment, for the key and the like */

static bool message_is_ours;

void bounds_begin(void)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", ((unsigned)BOUNDS_MESSAGE_MIB << 20) + ROOM);
    setenv(SEGMENT, text, 0); /* and stays for the ranks */
    message_is_ours = !getenv(MESSAGE);
    snprintf(text, sizeof(text), "%d", BOUNDS_MESSAGE_MIB);
    setenv(MESSAGE, text, 0);
}

/* Sets the limit on all listening sockets of this process. Ours never block: it does not matter
 * there. */
static void limit_greetings(void)
{
    const struct timeval limit = {BOUNDS_GREETING_S, 0};
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *e;

    while (d && (e = readdir(d))) {
        int fd = atoi(e->d_name), listens = 0;
        socklen_t len = sizeof(listens);

        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens)
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    }
    if (d)
        closedir(d);
}

void bounds_end(void)
{
    if (message_is_ours)
        unsetenv(MESSAGE); /* what clients take from the server is not bounded */
    limit_greetings();
}

static bool asked; /* and not answered */
static unsigned n_silent_ticks;

/* In libpmix's thread. */
static void server_answers(pmix_status_t status, void *arg)
{
    __atomic_store_n(&asked, false, __ATOMIC_RELEASE);
}

bool bounds_tick(void)
{
    if (__atomic_load_n(&asked, __ATOMIC_ACQUIRE))
        return ++n_silent_ticks != BOUNDS_TICKS;
    n_silent_ticks = 0;
    __atomic_store_n(&asked, true, __ATOMIC_RELEASE);
    if (lib.PMIx_server_register_resources(NULL, 0, server_answers, NULL) != PMIX_SUCCESS)
        __atomic_store_n(&asked, false, __ATOMIC_RELEASE);
    return true;
}

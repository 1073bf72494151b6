/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded in pmirun's agents: some of their TCP connections fail. The first is to the head, the
 * next ones are to other agents. NO_PEERS: "refused" or "closed": at once, to other agents; "mute":
 * connections to other agents carry nothing; "mute-head": only the first one carries nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *how;

/* Read now: later the agent takes over its head's environment. */
__attribute__((constructor)) static void begin(void)
{
    const char *says = getenv("NO_PEERS");

    how = says ? strdup(says) : NULL;
}

/* Connects to a port of the same family that never answers, as its queue is full, or that closes
 * the connection. */
static int connect_to_nobody(int fd, int family, int is_closed)
{
    struct sockaddr_storage ss = {.ss_family = (sa_family_t)family};
    socklen_t len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

    if (family == AF_INET)
        ((struct sockaddr_in *)(void *)&ss)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)(void *)&ss)->sin6_addr = in6addr_loopback;
    if (listener < 0 || bind(listener, (struct sockaddr *)&ss, len) != 0 ||
        listen(listener, 0) != 0 || getsockname(listener, (struct sockaddr *)&ss, &len) != 0)
        abort();
    for (int i = 0; i < 3 && !is_closed; i++) {
        int other = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        (void)syscall(SYS_connect, other, &ss, len);
    }
    rc = (int)syscall(SYS_connect, fd, &ss, len);
    if (is_closed) {
        const int error = errno;

        close(listener);
        errno = error;
    }
    return rc;
}

int connect(int fd, const struct sockaddr *sa, socklen_t len)
{
    static int n;
    const int is_tcp = sa->sa_family == AF_INET || sa->sa_family == AF_INET6;
    const int is_first = is_tcp && n++ == 0;

    if (!is_tcp || !how || is_first != (strcmp(how, "mute-head") == 0))
        return (int)syscall(SYS_connect, fd, sa, len);
    if (strcmp(how, "refused") != 0)
        return connect_to_nobody(fd, sa->sa_family, strcmp(how, "closed") == 0);
    errno = ECONNREFUSED;
    return -1;
}

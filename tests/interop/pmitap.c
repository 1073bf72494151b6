/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmitap: records the messages between a PMI client and its server.
 *
 *     launcher ... pmitap DIR PROG [ARG...]
 *
 * The launcher starts pmitap in place of PROG. pmitap takes the server's end from PMI_FD (or
 * connects to PMI_PORT), starts PROG with a connection to itself instead, and relays both ways.
 * Each read becomes one record of a transcript, so the boundaries at which bytes arrived are kept;
 * transcripts/README.md has the grammar.
 *
 * Called under any other name (a symbolic link), pmitap runs the program of that name in the
 * directory $PMITAP_REAL and writes into $PMITAP_DIR. This taps a spawned process without a change
 * to the spawn request.
 *
 * Environment: PMITAP_CLIENT and PMITAP_SERVER give the header's lines of those names.
 *
 * DIR/LABEL.txt is the transcript, LABEL being r<rank>, or k<pid>.<rank> in a spawned process.
 * DIR/order gets one line "LABEL C" or "LABEL S" for each record, appended before it forwards the
 * bytes, so that the order of the lines over all ranks is one in which a cause precedes its effect.
 *
 * A chunk goes out whole before the next is read in its direction: memory is bounded and a slow
 * reader slows its writer, as without pmitap. Exits with PROG's status, or dies of the same signal.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 65536, /* the most that one read takes, hence the longest record */
    LINGER_MS = 300      /* how long we wait for the server's last words once the client is dead */
};

extern char **environ;

/* One direction of the relay. */
struct lane {
    int *src, *dst;
    char who;         /* 'C' or 'S': who sends here */
    int ended;        /* the sender closed and so did we, towards the receiver */
    size_t len, sent; /* of the chunk in buf, and how much of it has gone out */
    char buf[CHUNK_BYTES];
};

static int log_fd = -1, order_fd = -1;
static char label[64];

static void die(const char *fmt, ...)
{
    va_list ap;

    fputs("pmitap: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(125);
}

/* Writes at once: the launcher may kill us at any moment, and the record until then must stay.
 * */
static void put_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);

        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w < 0) {
            die("cannot write the transcript: %s", strerror(errno));
        }
        p += w;
        n -= (size_t)w;
    }
}

static void note(const char *fmt, ...)
{
    char line[8192];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof line) {
        die("a header line is too long");
    }
    put_all(log_fd, line, (size_t)n);
}

static void log_chunk(char who, const char *p, size_t n)
{
    static char out[4 * CHUNK_BYTES + 8];
    char line[80];
    size_t o = 0, i;
    int k = snprintf(line, sizeof line, "%s %c\n", label, who);

    put_all(order_fd, line, (size_t)k);
    out[o++] = who;
    out[o++] = ' ';
    out[o++] = '"';
    for (i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];

        if (c == '\n') {
            out[o++] = '\\';
            out[o++] = 'n';
        } else if (c == '"' || c == '\\') {
            out[o++] = '\\';
            out[o++] = (char)c;
        } else if (c >= 32 && c < 127) {
            out[o++] = (char)c;
        } else {
            o += (size_t)sprintf(out + o, "\\x%02X", c);
        }
    }
    out[o++] = '"';
    out[o++] = '\n';
    put_all(log_fd, out, o);
}

static void open_log(const char *dir, const char *prog, char **args)
{
    const char *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE"),
               *spawned = getenv("PMI_SPAWNED");
    const char *base = strrchr(prog, '/');
    const char *client = getenv("PMITAP_CLIENT"), *server = getenv("PMITAP_SERVER");
    char path[PATH_MAX];
    char **e;

    if (!rank) {
        rank = getenv("PMI_ID") ? getenv("PMI_ID") : "unknown";
    }
    if (spawned && strcmp(spawned, "0") != 0) {
        snprintf(label, sizeof label, "k%ld.%.16s", (long)getpid(), rank);
    } else {
        snprintf(label, sizeof label, "r%.16s", rank);
    }
    snprintf(path, sizeof path, "%s/%s.txt", dir, label);
    log_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0) {
        die("%s: %s", path, strerror(errno));
    }
    snprintf(path, sizeof path, "%s/order", dir);
    order_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (order_fd < 0) {
        die("%s: %s", path, strerror(errno));
    }
    note("# client: %s\n# server: %s\n# program: %s", client ? client : "unknown",
         server ? server : "unknown", base ? base + 1 : prog);
    for (e = args; *e; e++) {
        note(" %s", *e);
    }
    note("\n");
    note("# rank: %s\n# size: %s\n# transport: %s\n", rank, size ? size : "unknown",
         getenv("PMI_FD") ? "fd" : "port");
    for (e = environ; *e; e++) {
        if (strncmp(*e, "PMI_", 4) == 0 || strncmp(*e, "PMI2_", 5) == 0 ||
            strncmp(*e, "MPI_LOCAL", 9) == 0) {
            note("# env: %s\n", *e);
        }
    }
}

static int connect_to(const char *hostport)
{
    const char *colon = strrchr(hostport, ':');
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *ai;
    char host[256];
    int fd, rc;

    if (!colon || (size_t)(colon - hostport) >= sizeof host) {
        die("PMI_PORT is %s, not host:port", hostport);
    }
    memcpy(host, hostport, (size_t)(colon - hostport));
    host[colon - hostport] = '\0';
    rc = getaddrinfo(host, colon + 1, &hints, &ai);
    if (rc != 0) {
        die("%s: %s", hostport, gai_strerror(rc));
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, ai->ai_addr, ai->ai_addrlen) != 0) {
        die("%s: %s", hostport, strerror(errno));
    }
    freeaddrinfo(ai);
    return fd;
}

/* Opens a port for the client, and puts its address into PMI_PORT. */
static int offer_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    char text[32];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0) {
        die("cannot listen: %s", strerror(errno));
    }
    snprintf(text, sizeof text, "127.0.0.1:%u", (unsigned)ntohs(a.sin_port));
    setenv("PMI_PORT", text, 1);
    return fd;
}

static pid_t start(const char *prog, char **argv, int give_fd, int fd_number,
                   const sigset_t *old_mask)
{
    pid_t tap = getpid(), pid = fork();

    if (pid < 0) {
        die("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != tap) {
            _exit(125);
        }
        sigprocmask(SIG_SETMASK, old_mask, NULL);
        if (give_fd >= 0 &&
            dup2(give_fd, fd_number) < 0) { /* the numbers differ, so CLOEXEC is gone */
            _exit(125);
        }
        execvp(prog, argv);
        fprintf(stderr, "pmitap: %s: %s\n", prog, strerror(errno));
        _exit(127);
    }
    return pid;
}

/* The sender closed, or the receiver is unreachable: closes towards the receiver, once. */
static void lane_end(struct lane *l)
{
    if (l->ended) {
        return;
    }
    l->ended = 1;
    note("# %c closed\n", l->who);
    if (*l->dst >= 0) {
        shutdown(*l->dst, SHUT_WR);
    }
}

static void lane_read(struct lane *l)
{
    ssize_t n = recv(*l->src, l->buf, sizeof l->buf, MSG_DONTWAIT);

    if (n > 0) {
        log_chunk(l->who, l->buf, (size_t)n);
        l->len = (size_t)n;
        l->sent = 0;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        lane_end(l);
    }
}

static void lane_write(struct lane *l)
{
    ssize_t n = send(*l->dst, l->buf + l->sent, l->len - l->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n > 0) {
        l->sent += (size_t)n;
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        l->sent = l->len; /* no receiver; continues to read, for the record */
    }
    if (l->sent == l->len) {
        l->len = l->sent = 0;
    }
}

/* Relays until both directions have ended, or the child has ended and the server sends no more.
 * */
static int relay(int server, int client, int listener, int sigs, pid_t child)
{
    static struct lane up, down;
    int status = 0, alive = 1;

    up.src = &client;
    up.dst = &server;
    up.who = 'C';
    down.src = &server;
    down.dst = &client;
    down.who = 'S';
    while (alive || !up.ended || !down.ended) {
        struct pollfd p[4] = {
            {server, 0, 0}, {client, 0, 0}, {sigs, POLLIN, 0}, {listener, POLLIN, 0}};

        p[1].events |= (short)(up.ended || up.len ? 0 : POLLIN);
        p[0].events |= (short)(up.len ? POLLOUT : 0);
        p[0].events |= (short)(down.ended || down.len || client < 0 ? 0 : POLLIN);
        p[1].events |= (short)(down.len ? POLLOUT : 0);
        if (!p[0].events) {
            p[0].fd = -1; /* poll() would return at once for a peer that has hung up */
        }
        if (!p[1].events) {
            p[1].fd = -1;
        }
        int n = poll(p, 4, alive ? -1 : LINGER_MS);

        if (n < 0 && errno != EINTR) {
            die("poll: %s", strerror(errno));
        }
        if (n == 0) {
            break;
        }
        if (n < 0) {
            continue;
        }
        if (p[2].revents) {
            struct signalfd_siginfo si;

            if (read(sigs, &si, sizeof si) == (ssize_t)sizeof si && si.ssi_signo != SIGCHLD &&
                alive) {
                kill(child, (int)si.ssi_signo);
            }
            if (alive && waitpid(child, &status, WNOHANG) == child) {
                alive = 0;
                if (client < 0) { /* it never connected */
                    break;
                }
            }
        }
        if (listener >= 0 && p[3].revents) {
            client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (client >= 0) {
                close(listener);
                listener = -1;
            }
            continue;
        }
        if (up.len && p[0].revents) {
            lane_write(&up);
        }
        if (down.len && p[1].revents) {
            lane_write(&down);
        }
        if (!up.len && !up.ended && p[1].revents & (POLLIN | POLLHUP | POLLERR)) {
            lane_read(&up);
        }
        if (!down.len && !down.ended && p[0].revents & (POLLIN | POLLHUP | POLLERR)) {
            lane_read(&down);
        }
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *self = strrchr(argv[0], '/'), *dir, *fd_text = getenv("PMI_FD"),
               *port = getenv("PMI_PORT");
    static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
    int server = -1, pair[2] = {-1, -1}, listener = -1, sigs, status, given = -1;
    char real[PATH_MAX];
    sigset_t mask, old;
    pid_t child;
    size_t i;

    self = self ? self + 1 : argv[0];
    if (strcmp(self, "pmitap") == 0) {
        if (argc < 3) {
            die("usage: pmitap DIR PROG [ARG...]");
        }
        dir = argv[1];
        argv += 2;
        snprintf(real, sizeof real, "%s", argv[0]);
    } else {
        dir = getenv("PMITAP_DIR");
        if (!dir || !getenv("PMITAP_REAL")) {
            die("called as %s, but PMITAP_DIR or PMITAP_REAL is not set", self);
        }
        snprintf(real, sizeof real, "%s/%s", getenv("PMITAP_REAL"), self);
    }
    if (!fd_text && !port) {
        die("neither PMI_FD nor PMI_PORT is set: not started by a PMI launcher");
    }
    open_log(dir, real, argv + 1);

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    for (i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
        sigaddset(&mask, passed_on[i]);
    }
    sigprocmask(SIG_BLOCK, &mask, &old);
    sigs = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (sigs < 0) {
        die("signalfd: %s", strerror(errno));
    }
    if (fd_text) {
        given = atoi(fd_text);
        server = fcntl(given, F_DUPFD_CLOEXEC, given + 1); /* the number itself is the child's */
        if (server < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            die("PMI_FD %s: %s", fd_text, strerror(errno));
        }
        close(given);
        if (pair[1] == given) { /* dup2() onto itself would keep CLOEXEC */
            int moved = fcntl(pair[1], F_DUPFD_CLOEXEC, given + 1);

            close(pair[1]);
            pair[1] = moved;
        }
    } else {
        server = connect_to(port);
        listener = offer_port();
    }
    child = start(real, argv, pair[1], given, &old);
    if (pair[1] >= 0) {
        close(pair[1]);
    }
    status = relay(server, pair[0], listener, sigs, child);

    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};

        note("# killed: signal %d\n", WTERMSIG(status));
        setrlimit(RLIMIT_CORE, &none);
        sigprocmask(SIG_SETMASK, &old, NULL);
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
        return 128 + WTERMSIG(status);
    }
    note("# exit: %d\n", WEXITSTATUS(status));
    return WEXITSTATUS(status);
}

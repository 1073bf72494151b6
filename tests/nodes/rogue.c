/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attackers that a server must refuse.
 *
 *     rogue ADDRESS PORT garbage          bytes without sense
 *     rogue ADDRESS PORT silent N         N connections that send nothing, until the server closes
 *                                          them
 *     rogue ADDRESS PORT half             half of a hello, then nothing, until the server closes
 *     rogue ADDRESS PORT cut              half of a hello, then closes
 *     rogue ADDRESS PORT secret JOB FROM TO   says hello to TO as node FROM, and proves it with
 *                                             another secret
 *     rogue ADDRESS PORT replay FILE      sends FILE, a dialler's side of an earlier conversation
 *     rogue proxy MODE FILE COMMAND       runs an agent, and sits between it and its head; records
 *                                         what the agent sends in FILE. MODE:
 *         pass                            does nothing
 *         replay                          the agent's first frames are sent twice, and so are the
 *                                         head's
 *         forge                           a forged frame between two of the agent's
 *         alter                           flips a bit of the agent's third frame
 *         truncate                        half of its third frame, and the end
 *         hold                            passes nothing of the head's while FILE.hold exists
 *
 * Status 0: the server closed the connection; 1: it did not, or sent more than it may.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../examples/pmirun/multinode/channel.h"

static void die(const char *what)
{
    fprintf(stderr, "rogue: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_to(const char *address, int port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || inet_pton(AF_INET, address, &sa.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
        die("connect");
    return fd;
}

static void send_all(int fd, const void *p, size_t n)
{
    if (send(fd, p, n, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
        die("send");
}

/* Reads until the other side closes; 0 when it has sent `most` bytes or fewer. */
static int expect_end(int fd, size_t most)
{
    char buf[4096];
    size_t all = 0;

    for (;;) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (poll(&pfd, 1, 15000) <= 0)
            return 1;
        n = recv(fd, buf, sizeof(buf), 0);
        if (n <= 0)
            return all > most;
        all += (size_t)n;
    }
}

static int garbage(int fd)
{
    char bytes[4096];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 31 + 7);
    send_all(fd, bytes, sizeof(bytes));
    return expect_end(fd, 0);
}

static int silent(const char *address, int port, int n)
{
    int *fds = calloc((size_t)n, sizeof(*fds)), bad = 0;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (int i = 0; i < n; i++)
        fds[i] = connect_to(address, port);
    for (int i = 0; i < n; i++)
        bad |= expect_end(fds[i], 0);
    free(fds);
    return bad;
}

static void parse_hex(const char *text, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned v = 0;

        sscanf(text + 2 * i, "%2x", &v);
        out[i] = (uint8_t)v;
    }
}

static int half(int fd, bool then_close)
{
    static const char hello[30] = "FPNL\2";

    send_all(fd, hello, sizeof(hello));
    if (then_close) {
        shutdown(fd, SHUT_WR);
    }
    return expect_end(fd, 0);
}

static int wrong_secret(int fd, const char *job, uint32_t from, uint32_t to)
{
    struct channel_self self = {.id = from};
    struct channel c;
    const void *hello;
    char answer[CHANNEL_ANSWER_BYTES], proof[CHANNEL_PROOF_BYTES];
    size_t n;

    memset(self.secret, 0x5a, sizeof(self.secret));
    memset(proof, 0x33, sizeof(proof));
    parse_hex(job, self.job, sizeof(self.job));
    if (channel_start(abort) != 0)
        return 1;
    channel_init(&c, &self, true, to);
    n = channel_output(&c, &hello);
    send_all(fd, hello, n);
    if (recv(fd, answer, sizeof(answer), MSG_WAITALL) != (ssize_t)sizeof(answer))
        return 1; /* it should have answered: all of the hello is right */
    send_all(fd, proof, sizeof(proof));
    send_all(fd, "and what follows, to be ignored", 31);
    channel_fini(&c);
    return expect_end(fd, 0);
}

static int play(int fd, const char *path)
{
    char bytes[65536];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(bytes, 1, sizeof(bytes), f) : 0;

    if (n < CHANNEL_HELLO_BYTES + CHANNEL_PROOF_BYTES)
        return 1;
    fclose(f);
    send_all(fd, bytes, n);
    return expect_end(fd, CHANNEL_ANSWER_BYTES);
}

/* ---- between an agent and its head ---- */

/* One direction of the conversation. */
struct way {
    int from, to;
    size_t preface; /* bytes of the handshake that are still to come */
    unsigned n_frames;
    uint8_t buf[1 << 18];
    size_t len;
};

static const char *mode;
static FILE *record;

/* Frame 0 was sent already; a forged frame with another number ends the connection. */
static void forge(int to)
{
    uint8_t frame[CHANNEL_FRAME_BYTES + 4] = {4};

    send_all(to, frame, sizeof(frame));
}

/* Handles a whole frame. False: nothing follows it. */
static bool pass_frame(struct way *w, size_t n, bool of_agent)
{
    unsigned number = w->n_frames++;

    if (of_agent && number == 2 && strcmp(mode, "alter") == 0)
        w->buf[17] ^= 4;
    if (of_agent && number == 2 && strcmp(mode, "truncate") == 0) {
        send_all(w->to, w->buf, n / 2);
        return false;
    }
    if (of_agent && number == 1 && strcmp(mode, "forge") == 0)
        forge(w->to);
    send_all(w->to, w->buf, n);
    if (number < 3 && strcmp(mode, "replay") == 0)
        send_all(w->to, w->buf, n);
    return true;
}

static bool pass(struct way *w, bool of_agent)
{
    ssize_t n = recv(w->from, w->buf + w->len, sizeof(w->buf) - w->len, 0);

    if (n <= 0)
        return false;
    if (of_agent && record)
        fwrite(w->buf + w->len, 1, (size_t)n, record), fflush(record);
    w->len += (size_t)n;
    for (;;) {
        size_t frame;

        if (w->preface && w->len) {
            size_t some = w->len < w->preface ? w->len : w->preface;

            send_all(w->to, w->buf, some);
            memmove(w->buf, w->buf + some, w->len -= some);
            w->preface -= some;
        }
        if (w->preface || w->len < CHANNEL_HEAD_BYTES)
            return true;
        frame = CHANNEL_FRAME_BYTES + (w->buf[0] | (size_t)w->buf[1] << 8 |
                                       (size_t)w->buf[2] << 16 | (size_t)w->buf[3] << 24);
        if (frame > sizeof(w->buf))
            return false;
        if (w->len < frame)
            return true;
        if (!pass_frame(w, frame, of_agent))
            return false;
        memmove(w->buf, w->buf + frame, w->len -= frame);
    }
}

static int listen_at(const char *address, int *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || inet_pton(AF_INET, address, &sa.sin_addr) != 1 ||
        bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 || listen(fd, 4) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        die("listen");
    *port = ntohs(sa.sin_port);
    return fd;
}

/* Starts the agent with the boot line that we read, with our port in place of the head's. */
static pid_t start_agent(const char *command, int *listener, int *head_port, char *head,
                         int *to_agent)
{
    char lines[4096] = "", line[1024] = "";
    int p[2], port;
    pid_t pid;

    setvbuf(stdin, NULL, _IONBF, 0);
    while (strcmp(line, "end\n") != 0 && fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "port %d", head_port) == 1)
            continue;
        if (sscanf(line, "head %63s", head) == 1) { /* its port is the line before */
            *listener = listen_at(head, &port);
            snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "port %d\n", port);
        }
        snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s", line);
    }
    if (pipe(p) != 0)
        die("pipe");
    pid = fork();
    if (pid == 0) {
        dup2(p[0], STDIN_FILENO);
        close(p[0]);
        close(p[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(p[0]);
    if (write(p[1], lines, strlen(lines)) != (ssize_t)strlen(lines))
        die("write");
    *to_agent = p[1]; /* stays open */
    return pid;
}

/* Not yet to be passed on. */
static bool is_held(const char *file)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s.hold", file);
    return strcmp(mode, "hold") == 0 && access(path, F_OK) == 0;
}

static int proxy(const char *file, const char *command)
{
    static struct way up, down;
    int head_port = 0, to_agent, listener = -1, status;
    char head[64] = "";
    pid_t pid = start_agent(command, &listener, &head_port, head, &to_agent);
    struct pollfd pfd[3];

    up.from = down.to = accept(listener, NULL, NULL);
    if (up.from < 0)
        die("accept");
    down.from = up.to = connect_to(head, head_port);
    up.preface = CHANNEL_HELLO_BYTES + CHANNEL_PROOF_BYTES;
    down.preface = CHANNEL_ANSWER_BYTES;
    pfd[0] = (struct pollfd){.fd = up.from, .events = POLLIN};
    pfd[1] = (struct pollfd){.fd = down.from, .events = POLLIN};
    pfd[2] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        char byte;

        pfd[1].events = is_held(file) ? 0 : POLLIN;
        if (poll(pfd, 3, strcmp(mode, "hold") == 0 ? 50 : -1) < 0)
            break;
        if (pfd[0].revents && !pass(&up, true))
            break;
        if (pfd[1].revents && !pass(&down, false))
            break;
        if (pfd[2].revents && read(STDIN_FILENO, &byte, 1) <= 0)
            break;
    }
    close(up.from);
    close(down.from);
    close(to_agent);
    waitpid(pid, &status, 0);
    return 0;
}

int main(int argc, char **argv)
{
    int port, fd;

    if (argc == 5 && strcmp(argv[1], "proxy") == 0) {
        mode = argv[2];
        record = fopen(argv[3], "w");
        return proxy(argv[3], argv[4]);
    }
    if (argc < 4)
        return 2;
    port = atoi(argv[2]);
    if (strcmp(argv[3], "silent") == 0 && argc == 5)
        return silent(argv[1], port, atoi(argv[4]));
    fd = connect_to(argv[1], port);
    if (strcmp(argv[3], "garbage") == 0)
        return garbage(fd);
    if (strcmp(argv[3], "half") == 0 || strcmp(argv[3], "cut") == 0)
        return half(fd, argv[3][0] == 'c');
    if (strcmp(argv[3], "secret") == 0 && argc == 7)
        return wrong_secret(fd, argv[4], (uint32_t)strtoul(argv[5], NULL, 10),
                            (uint32_t)strtoul(argv[6], NULL, 10));
    if (strcmp(argv[3], "replay") == 0 && argc == 5)
        return play(fd, argv[4]);
    return 2;
}

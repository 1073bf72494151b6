/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_costs: the processor time of pmirun's links between nodes on this machine, for the
 * simulation (costs.h). Each is this thread's processor time for both ends, halved; the median of
 * some runs.
 *
 *     frame       the fixed cost of sealing or opening a channel's frame, from one of 1,000 bytes
 *     crypt_byte  the cost of each further byte, in frames of up to 16 KiB
 *     copy_byte   a byte through a TCP connection, in pieces of 16 KiB, from more memory than a
 *                 cache holds
 *     connect     a TCP connection: made, with the options that pmirun sets, and closed
 *     shake       a channel's handshake
 *
 * It prints one JSON line a figure.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "../../../examples/pmirun/multinode/channel.h"
#include "../bench.h"

#define SMALL        1000u
#define LARGE        16384u
#define BUFFER_BYTES (32u << 20)
#define RUNS         15

static struct channel_self selves[2] = {{.id = 0}, {.id = 1}};
static size_t n_frames;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "wire_costs: %s\n", what);
    exit(1);
}

/* ---- the channel ---- */

static bool opened(void *ctx, struct channel *c)
{
    (void)ctx, (void)c;
    return true;
}

static bool frame(void *ctx, struct channel *c, const void *p, size_t n)
{
    (void)ctx, (void)c, (void)p, (void)n;
    n_frames++;
    return true;
}

static void replayed(void *ctx, struct channel *c, uint64_t number)
{
    (void)ctx, (void)c, (void)number;
}

static const struct channel_ops ops = {opened, frame, replayed};

static void move_bytes(struct channel *from, struct channel *to)
{
    const void *p;
    size_t n = channel_output(from, &p);

    must(n == 0 || channel_input(to, p, n, &ops, NULL) == 0, "a channel fails");
    channel_sent(from, n);
}

static void shake_hands(struct channel c[2])
{
    channel_init(&c[0], &selves[0], true, 1);
    channel_init(&c[1], &selves[1], false, CHANNEL_NOBODY);
    for (int i = 0; i < 2; i++) {
        move_bytes(&c[0], &c[1]);
        move_bytes(&c[1], &c[0]);
    }
    must(c[0].state == CHANNEL_OPEN && c[1].state == CHANNEL_OPEN, "no handshake");
}

static double shake_ns(unsigned n)
{
    uint64_t t = bench_cpu_ns();

    for (unsigned i = 0; i < n; i++) {
        struct channel c[2];

        shake_hands(c);
        channel_fini(&c[0]);
        channel_fini(&c[1]);
    }
    return (double)(bench_cpu_ns() - t) / n / 2;
}

static double frame_ns(unsigned n, size_t bytes)
{
    static char data[LARGE];
    struct channel c[2];
    uint64_t t;

    shake_hands(c);
    n_frames = 0;
    t = bench_cpu_ns();
    for (unsigned i = 0; i < n; i++) {
        must(channel_send(&c[0], data, bytes) == 0, "a frame is not sent");
        move_bytes(&c[0], &c[1]);
    }
    t = bench_cpu_ns() - t;
    must(n_frames == n, "frames are lost");
    channel_fini(&c[0]);
    channel_fini(&c[1]);
    return (double)t / n / 2;
}

/* ---- TCP ---- */

static int listener(struct sockaddr_in *sa)
{
    socklen_t len = sizeof(*sa);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    *sa = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(fd >= 0 && bind(fd, (struct sockaddr *)sa, sizeof(*sa)) == 0 && listen(fd, 8) == 0 &&
             getsockname(fd, (struct sockaddr *)sa, &len) == 0,
         "no listening socket");
    return fd;
}

static void set_options(int epoll, int fd)
{
    const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, 4},
                   {IPPROTO_TCP, TCP_KEEPINTVL, 2},
                   {IPPROTO_TCP, TCP_KEEPCNT, 3}};
    struct epoll_event ev = {.events = EPOLLIN};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    must(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) == 0, "epoll_ctl");
}

static void connect_pair(int listening, const struct sockaddr_in *sa, int epoll, int fd[2])
{
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    must(fd[0] >= 0 && connect(fd[0], (const struct sockaddr *)sa, sizeof(*sa)) == 0, "connect");
    fd[1] = accept(listening, NULL, NULL);
    must(fd[1] >= 0, "accept");
    set_options(epoll, fd[0]);
    set_options(epoll, fd[1]);
}

static double connect_ns(unsigned n)
{
    struct sockaddr_in sa;
    int listening = listener(&sa), epoll = epoll_create1(0), fd[2];
    uint64_t t = bench_cpu_ns();

    for (unsigned i = 0; i < n; i++) {
        connect_pair(listening, &sa, epoll, fd);
        close(fd[0]);
        close(fd[1]);
    }
    t = bench_cpu_ns() - t;
    close(listening);
    close(epoll);
    return (double)t / n / 2;
}

/* A piece through a connection. */
static double piece_ns(unsigned n, size_t bytes)
{
    static char data[BUFFER_BYTES];
    struct sockaddr_in sa;
    int listening = listener(&sa), epoll = epoll_create1(0), fd[2];
    uint64_t t;

    memset(data, 1, sizeof(data));
    connect_pair(listening, &sa, epoll, fd);
    t = bench_cpu_ns();
    for (unsigned i = 0; i < n; i++) {
        char *p = data + 2 * (size_t)LARGE * i % BUFFER_BYTES;

        must(send(fd[0], p, bytes, 0) == (ssize_t)bytes, "send");
        must(recv(fd[1], p + LARGE, bytes, MSG_WAITALL) == (ssize_t)bytes, "recv");
    }
    t = bench_cpu_ns() - t;
    close(fd[0]);
    close(fd[1]);
    close(listening);
    close(epoll);
    return (double)t / n / 2;
}

/* ---- figures ---- */

enum { FRAME, CRYPT_BYTE, COPY_BYTE, CONNECT, SHAKE, N_FIGURES };

int main(int argc, char **argv)
{
    static const char *const names[N_FIGURES] = {"frame", "crypt_byte", "copy_byte", "connect",
                                                 "shake"};
    static double values[N_FIGURES][RUNS];
    struct bench b;
    unsigned n;

    bench_init(&b, "wire_costs", argc, argv);
    must(channel_start(abort) == 0, "no libsodium");
    n = b.quick ? 20 : 1000;
    for (size_t i = 0; i < RUNS; i++) {
        values[SHAKE][i] = shake_ns(n / 4);
        values[FRAME][i] = frame_ns(n * 10, SMALL);
        values[CRYPT_BYTE][i] = (frame_ns(n, LARGE) - values[FRAME][i]) / (LARGE - SMALL);
        values[FRAME][i] -= values[CRYPT_BYTE][i] * SMALL;
        values[COPY_BYTE][i] = (piece_ns(n, LARGE) - piece_ns(n, SMALL)) / (LARGE - SMALL);
        values[CONNECT][i] = connect_ns(n);
    }
    for (size_t k = 0; k < N_FIGURES; k++)
        bench_figure(&b, "links", 1, "pmirun", names[k], bench_median(values[k], RUNS),
                     k == CRYPT_BYTE || k == COPY_BYTE ? "ns/byte" : "ns");
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* asymput: the experiment of "Asymmetric Memory Extension for OpenSHMEM", section 4, over any
 * transport. See README.md. */
#define _GNU_SOURCE
#include "asymput.h"

#ifdef ASYMPUT_UCX
#include <asymreg-ucx.h>
#endif
#ifdef ASYMPUT_IBV
#include <asymreg-ibv.h>
#endif

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: asymput [OPTION]...\n"
    "One process registers N regions, another puts to and gets from random ones of them, and the "
    "same with one region.\n"
    "  -t, --transport shm|cma|ucx|ibv  transport (shm)\n"
    "  -n, --regions N[,N]...           numbers of regions (1,10,100,1000,10000,100000,1000000)\n"
    "  -b, --block BYTES                size of an operation and of a region (1024)\n"
    "  -o, --ops N                      operations a trial (1000000)\n"
    "  -r, --trials N                   trials, at most 32; the median is printed (5)\n"
    "  -p, --puts PERCENT               share of puts; the rest are gets (50)\n"
    "  -s, --seed N                     seed of the random addresses (the time of day)\n"
    "  -c, --check                      verify the bytes that were put\n"
    "  -S, --stats                      print what the client read of the server's table\n"
    "  -g, --plot FILE                  draw the figure as SVG (gnuplot)\n"
    "  -d, --device NAME                verbs adapter\n"
    "  -L, --listen PORT                be the server, for one client\n"
    "  -C, --connect HOST -P, --port N  be the client\n"
    "Without the last three asymput starts both processes here. Status 77: the transport is not "
    "built "
    "in, or has no device.\n";

void fail(const char *what, int code)
{
    fprintf(stderr, "asymput: %s%s%s\n", what, code ? ": " : "",
            code ? asymreg_strerror(code) : "");
    exit(1);
}

/* Figures that could not be written are not a result. */
static void check_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        fail("cannot write", -errno);
}

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void send_all(int sock, const void *buf, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(sock, (const char *)buf + done, bytes - done, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            fail("send", -errno);
        done += n > 0 ? (size_t)n : 0;
    }
}

bool receive_all(int sock, void *buf, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(sock, (char *)buf + done, bytes - done);

        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return false;
        if (n < 0 && errno != EINTR)
            fail("read", -errno);
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

static _Noreturn void skip_transport(const char *why)
{
    printf("skip: %s\n", why);
    fflush(stdout);
    exit(77);
}

struct asymreg_context *open_context(const struct options *o)
{
    struct asymreg_opts opts = {.size = sizeof(opts), .max_segments = 16};
    struct asymreg_local_opts local = {.size = sizeof(local)};
    struct asymreg_context *ctx;
    int rc = 0;

    /* The table may be pinned: no larger than needed. */
    for (uint32_t i = 0; i < o->n_points; i++) {
        if (o->regions[i] + 1 > opts.max_regions)
            opts.max_regions = (uint32_t)o->regions[i] + 1;
    }
    if (strcmp(o->transport, "shm") == 0 || strcmp(o->transport, "cma") == 0) {
        /* The published table is in shared memory in both cases. */
        local.flags = strcmp(o->transport, "shm") == 0 ? ASYMREG_LOCAL_SHM
                                                       : ASYMREG_LOCAL_CMA | ASYMREG_LOCAL_SHM;
        rc = asymreg_local_create(&local, &opts.transport, NULL);
    } else if (strcmp(o->transport, "ucx") == 0) {
#ifdef ASYMPUT_UCX
        rc = asymreg_ucx_create(NULL, &opts.transport, NULL);
#else
        skip_transport("built without UCX: apt install libucx-dev");
#endif
    } else {
#ifdef ASYMPUT_IBV
        struct asymreg_ibv_opts ibv = {
            .size = sizeof(ibv), .device = o->device, .timeout_ms = 10000};

        rc = asymreg_ibv_create(&ibv, &opts.transport, NULL);
        if (rc == -ENODEV)
            skip_transport(asymreg_ibv_strerror(rc));
#else
        skip_transport("built without verbs: apt install libibverbs-dev");
#endif
    }
    if (rc < 0)
        fail(o->transport, rc);
    rc = asymreg_open(&opts, &ctx, NULL);
    if (rc < 0)
        fail("asymreg_open", rc);
    return ctx;
}

/* A socket to the other side; -1 with errno. */
static int open_socket(const char *host, const char *port, bool listening)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = listening ? AI_PASSIVE : 0},
                    *list;
    int sock = -1, one = 1, peer;

    if (getaddrinfo(host, port, &hints, &list) != 0)
        fail("no such host or port", 0);
    for (struct addrinfo *a = list; a && sock < 0; a = a->ai_next) {
        sock = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (sock < 0)
            continue;
        setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (listening ? bind(sock, a->ai_addr, a->ai_addrlen) < 0 || listen(sock, 1) < 0
                      : connect(sock, a->ai_addr, a->ai_addrlen) < 0) {
            close(sock);
            sock = -1;
        }
    }
    freeaddrinfo(list);
    if (sock >= 0 && listening) {
        peer = accept(sock, NULL, NULL);
        close(sock);
        sock = peer;
    }
    return sock;
}

/* Both processes here. The server ends with this one. */
static int run_both(const struct options *o)
{
    int pair[2], status;
    pid_t server, client;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        fail("socketpair", -errno);
    fflush(NULL);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        run_server(o, pair[1]);
        exit(0);
    }
    client = server < 0 ? -1 : fork();
    if (client == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[1]);
        run_client(o, pair[0]);
        check_output();
        exit(0);
    }
    if (client < 0)
        fail("fork", -errno);
    close(pair[0]);
    close(pair[1]);
    if (waitpid(client, &status, 0) != client)
        fail("waitpid", -errno);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        kill(server, SIGKILL);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    if (waitpid(server, &status, 0) != server)
        fail("waitpid", -errno);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static uint64_t parse_number(const char *text, uint64_t least, uint64_t most)
{
    char *end;
    unsigned long long v;

    errno = 0;
    v = strtoull(text, &end, 0);
    if (errno || end == text || *end || *text == '-' || v < least || v > most) {
        fprintf(stderr, "asymput: %s is not a number from %llu to %llu\n", text,
                (unsigned long long)least, (unsigned long long)most);
        exit(2);
    }
    return v;
}

static void parse_regions(struct options *o, char *list)
{
    char *save = NULL;

    o->n_points = 0;
    for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        if (o->n_points == MAX_POINTS)
            fail("too many numbers of regions", 0);
        o->regions[o->n_points++] = parse_number(word, 1, 4000000);
    }
}

static void parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"transport", 1, NULL, 't'}, {"regions", 1, NULL, 'n'}, {"block", 1, NULL, 'b'},
        {"ops", 1, NULL, 'o'},       {"trials", 1, NULL, 'r'},  {"puts", 1, NULL, 'p'},
        {"seed", 1, NULL, 's'},      {"check", 0, NULL, 'c'},   {"stats", 0, NULL, 'S'},
        {"plot", 1, NULL, 'g'},      {"device", 1, NULL, 'd'},  {"listen", 1, NULL, 'L'},
        {"connect", 1, NULL, 'C'},   {"port", 1, NULL, 'P'},    {"help", 0, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    char all[] = "1,10,100,1000,10000,100000,1000000";
    int c;

    parse_regions(o, all);
    while ((c = getopt_long(argc, argv, "t:n:b:o:r:p:s:cSg:d:L:C:P:h", longs, NULL)) != -1) {
        switch (c) {
        case 't': o->transport = optarg; break;
        case 'n': parse_regions(o, optarg); break;
        case 'b': o->block = parse_number(optarg, 1, 1u << 30); break;
        case 'o': o->ops = parse_number(optarg, 1, UINT32_MAX); break;
        case 'r': o->trials = (uint32_t)parse_number(optarg, 1, MAX_TRIALS); break;
        case 'p': o->puts = (uint32_t)parse_number(optarg, 0, 100); break;
        case 's': o->seed = parse_number(optarg, 0, UINT64_MAX); break;
        case 'c': o->check = true; break;
        case 'S': o->stats = true; break;
        case 'g': o->plot = optarg; break;
        case 'd': o->device = optarg; break;
        case 'L': o->listen = optarg; break;
        case 'C': o->connect = optarg; break;
        case 'P': o->port = optarg; break;
        case 'h':
            fputs(usage_text, stdout);
            check_output();
            exit(0);
        default: fputs(usage_text, stderr); exit(2);
        }
    }
    if (optind < argc || o->n_points == 0 || (o->listen && o->connect) || !o->connect != !o->port ||
        (strcmp(o->transport, "shm") && strcmp(o->transport, "cma") &&
         strcmp(o->transport, "ucx") && strcmp(o->transport, "ibv"))) {
        fputs(usage_text, stderr);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = {.transport = "shm",
                        .block = 1024,
                        .ops = 1000000,
                        .trials = 5,
                        .puts = 50,
                        .seed = now_ns()};
    int sock;

    parse_options(argc, argv, &o);
    if (!o.listen && !o.connect)
        return run_both(&o);
    sock = open_socket(o.connect, o.listen ? o.listen : o.port, o.listen != NULL);
    if (sock < 0)
        fail("connect or listen", -errno);
    if (o.listen)
        run_server(&o, sock);
    else
        run_client(&o, sock);
    check_output();
    return 0;
}

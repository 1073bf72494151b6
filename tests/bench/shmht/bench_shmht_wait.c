/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Get that waits: in shared memory (shmht_get_wait()), and by socket, as PMI's.
 *
 *     bench_shmht_wait [--quick] [--seed N]
 *
 * 1, 4 and 16 clients ask for a key that is not there yet, and sleep. The writer puts it: then it
 * calls shmht_writer_wake() once, or answers each client's request, which it has read before. The
 * requests are keys and the answers values, without PMI's parsing.
 *
 *     waiters-K  latency_us: from before the put until a client has the value, median over clients
 *                and rounds; writer_cpu_us: processor time of the writer for a round, with the
 *                requests that it reads.
 */
#define _GNU_SOURCE
#include <shmht.h>

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../bench.h"

#define MAX_CLIENTS 16u
#define MAX_ROUNDS  1000u

/* What a client finds: when the writer began. */
struct answer {
    uint64_t began_ns;
    char rest[24];
};

struct shared {
    double latency_us[MAX_CLIENTS * MAX_ROUNDS];
};

struct job {
    unsigned n_clients, n_rounds;
    struct shmht_writer *table; /* NULL: by socket */
    int sockets[MAX_CLIENTS][2], done[2];
    struct shared *shared;
};

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "bench_shmht_wait: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static void make_key(char key[16], unsigned round)
{
    char text[24];

    snprintf(text, sizeof(text), "mpi-adr-%08u", round);
    memcpy(key, text, 16);
}

static struct answer ask_table(const struct shmht_reader *r, const char *key)
{
    struct shmht_bytes value;
    struct answer a;

    must(shmht_get_wait(r, key, 16, -1, &value) == 0, "shmht_get_wait");
    memcpy(&a, value.ptr, sizeof(a));
    return a;
}

static struct answer ask_socket(int fd, const char *key)
{
    struct answer a;

    must(send(fd, key, 16, MSG_NOSIGNAL) == 16, "send");
    must(recv(fd, &a, sizeof(a), 0) == sizeof(a), "recv");
    return a;
}

static void client(const struct job *job, unsigned number)
{
    struct shmht_reader *r = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (job->table)
        must(shmht_reader_attach(NULL, shmht_writer_share(job->table, NULL), NULL, &r, NULL) == 0,
             "attach");
    for (unsigned round = 0; round < job->n_rounds; round++) {
        struct answer a;
        char key[16];

        make_key(key, round);
        a = r ? ask_table(r, key) : ask_socket(job->sockets[number][1], key);
        job->shared->latency_us[number * job->n_rounds + round] =
            (double)(bench_ns(CLOCK_MONOTONIC) - a.began_ns) / 1000;
        must(write(job->done[1], "", 1) == 1, "write");
    }
    _exit(0);
}

/* One round of the writer. Returns its processor time in µs. */
static double serve_round(const struct job *job, unsigned round)
{
    const struct timespec until_asleep = {0, 300000};
    struct answer a = {.rest = "lid 0001 qp 0007"};
    uint64_t start = bench_cpu_ns(), cpu;
    char key[16], byte;

    for (unsigned i = 0; i < job->n_clients && !job->table; i++)
        must(recv(job->sockets[i][0], key, 16, 0) == 16, "recv");
    cpu = bench_cpu_ns() - start;
    nanosleep(&until_asleep, NULL);
    make_key(key, round);
    start = bench_cpu_ns();
    a.began_ns = bench_ns(CLOCK_MONOTONIC);
    if (job->table) {
        must(shmht_put(job->table, key, 16, &a, sizeof(a)) == SHMHT_PUT_NEW, "shmht_put");
        must(shmht_writer_wake(job->table) >= 0, "shmht_writer_wake");
    }
    for (unsigned i = 0; i < job->n_clients && !job->table; i++)
        must(send(job->sockets[i][0], &a, sizeof(a), MSG_NOSIGNAL) == sizeof(a), "send");
    cpu += bench_cpu_ns() - start;
    for (unsigned i = 0; i < job->n_clients; i++)
        must(read(job->done[0], &byte, 1) == 1, "read");
    return (double)cpu / 1000;
}

static void run(const struct bench *b, struct job *job, const char *who)
{
    static double cpu_us[MAX_ROUNDS];
    pid_t pids[MAX_CLIENTS];
    char name[32];
    int status;

    must(pipe(job->done) == 0, "pipe");
    for (unsigned i = 0; i < job->n_clients; i++)
        must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, job->sockets[i]) == 0, "socketpair");
    for (unsigned i = 0; i < job->n_clients; i++) {
        fflush(NULL);
        pids[i] = fork();
        must(pids[i] >= 0, "fork");
        if (pids[i] == 0)
            client(job, i);
    }
    for (unsigned round = 0; round < job->n_rounds; round++)
        cpu_us[round] = serve_round(job, round);
    for (unsigned i = 0; i < job->n_clients; i++) {
        must(waitpid(pids[i], &status, 0) == pids[i] && status == 0, "a client failed");
        close(job->sockets[i][0]);
        close(job->sockets[i][1]);
    }
    close(job->done[0]);
    close(job->done[1]);
    snprintf(name, sizeof(name), "waiters-%u", job->n_clients);
    bench_figure(b, name, job->n_rounds, who, "latency_us",
                 bench_median(job->shared->latency_us, job->n_clients * job->n_rounds), "us");
    bench_figure(b, name, job->n_rounds, who, "writer_cpu_us", bench_median(cpu_us, job->n_rounds),
                 "us");
}

int main(int argc, char **argv)
{
    static const unsigned counts[] = {1, 4, 16};
    struct job job = {0};
    struct bench b;

    bench_init(&b, "shmht_wait", argc, argv);
    job.n_rounds = b.quick ? 20 : MAX_ROUNDS;
    job.shared =
        mmap(NULL, sizeof(*job.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(job.shared != MAP_FAILED, "mmap");
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 16 << 20};

        job.n_clients = counts[i];
        must(shmht_writer_create(&opts, &job.table, NULL) == 0, "shmht_writer_create");
        run(&b, &job, "shmht_get_wait");
        shmht_writer_destroy(job.table);
        job.table = NULL;
        run(&b, &job, "socket");
    }
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many processes that Get at the same time (SHMEMPMI, Figures 1 and 8a).
 *
 *     bench_shmht_clients [--quick] [--seed N] [--n N] [--trials N] [--peer NAME]...
 *
 * 1 ... 64 processes each attach to the store, warm up, start together and ask for keys drawn at
 * random.
 *
 *     clients-K  cpu_ns_per_get: processor time of a Get; wall_ns_per_get: a client's wait for it,
 *                also with more clients than processors. Median over the clients, then over the
 *                trials.
 *     flat       cpu_most_by_least: the highest cost over all numbers of clients divided by the
 *                lowest; 1 is flat. cpu_most_by_least_from_2 leaves out the single client.
 *
 * socket is the paper's baseline: one server that takes requests from all clients' sockets in turn.
 * It is cheaper than PMI: a request is a key and an answer a value, without parsing; it has only
 * wall time.
 */
#define _GNU_SOURCE
#include "stores.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "children.h"

#define N_QUERIES      32768u
#define ROUNDS         4u
#define SOCKET_QUERIES 16384u /* of all clients together */

static const unsigned counts[] = {1, 2, 4, 8, 16, 32, 64};
#define N_COUNTS (sizeof(counts) / sizeof(*counts))

static const char *const names[] = {"ours", "ours-2m", "SHMEM-2/XXH3", "SHMEM-1/XXH3"};
#define N_NAMES (sizeof(names) / sizeof(*names))

struct job {
    struct run *run;
    struct store_run *store;
    struct queries warm, timed;
    struct bench bench;           /* the child's: its own keys */
    int sockets[MAX_CHILDREN][2]; /* [1] is the client's */
};

static void pass(const struct store_run *s, const struct queries *q)
{
    struct sum sum = {0, 0};

    s->ops->get(s->store, q, &sum);
    sum_check(s->ops->name, q, &sum, 0);
}

static void client_ready(void *ctx, unsigned child)
{
    struct job *job = ctx;
    const struct store_run *s = job->store;

    job->bench = job->run->bench;
    job->bench.rng = (job->bench.rng + child) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    if (s->ops->attach(s->store, 1) != 0)
        die("%s: a client cannot attach", s->ops->name);
    for (unsigned round = 0; round < ROUNDS; round++) {
        queries_draw(&job->warm, &job->bench, s->n, 0);
        pass(s, &job->warm);
    }
}

static void client_go(void *ctx, unsigned child, double *figures)
{
    struct job *job = ctx;
    uint64_t cpu = 0, wall = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t cpu_start, wall_start;

        queries_draw(&job->timed, &job->bench, job->store->n, 0);
        wall_start = bench_ns(CLOCK_MONOTONIC);
        cpu_start = bench_cpu_ns();
        pass(job->store, &job->timed);
        cpu += bench_cpu_ns() - cpu_start;
        wall += bench_ns(CLOCK_MONOTONIC) - wall_start;
    }
    figures[0] = (double)cpu / (double)(ROUNDS * job->timed.n);
    figures[1] = (double)wall / (double)(ROUNDS * job->timed.n);
}

/* ---- The server behind sockets --------------------------------------------- */

static void serve(struct job *job, unsigned n)
{
    struct pollfd polls[MAX_CHILDREN];
    unsigned open = n;

    for (unsigned i = 0; i < n; i++)
        polls[i] = (struct pollfd){.fd = job->sockets[i][0], .events = POLLIN};
    while (open && poll(polls, n, -1) > 0)
        for (unsigned i = 0; i < n; i++) {
            struct key key;
            const void *value;

            if (!polls[i].revents)
                continue;
            if (recv(polls[i].fd, &key, sizeof(key), 0) != (ssize_t)sizeof(key)) {
                polls[i].fd = -1;
                open--;
                continue;
            }
            value = job->store->ops->find(job->store->store, &key, job->timed.key_len);
            if (!value ||
                send(polls[i].fd, value, VALUE_BYTES, MSG_NOSIGNAL) != (ssize_t)VALUE_BYTES)
                _exit(1);
        }
    _exit(0);
}

static void socket_ready(void *ctx, unsigned child)
{
    struct job *job = ctx;

    job->bench = job->run->bench;
    job->bench.rng = (job->bench.rng + child) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (unsigned i = 0; i < MAX_CHILDREN; i++)
        if (i != child && job->sockets[i][1] >= 0)
            close(job->sockets[i][1]);
}

static void socket_go(void *ctx, unsigned child, double *figures)
{
    struct job *job = ctx;
    struct sum sum = {0, 0};
    uint64_t start;
    int fd = job->sockets[child][1];

    queries_draw(&job->timed, &job->bench, job->store->n, 0);
    start = bench_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < job->timed.n; i++) {
        struct value value;

        if (send(fd, &job->timed.keys[i], KEY_BYTES, MSG_NOSIGNAL) != (ssize_t)KEY_BYTES ||
            recv(fd, &value, sizeof(value), MSG_WAITALL) != (ssize_t)sizeof(value))
            die("socket: a client got no answer");
        sum.found++;
        sum.mix += data_head(&value);
    }
    figures[1] = (double)(bench_ns(CLOCK_MONOTONIC) - start) / (double)job->timed.n;
    sum_check("socket", &job->timed, &sum, 0);
}

/* ---- Trials ----------------------------------------------------------------- */

static void medians(double figures[][MAX_FIGURES], unsigned n, double *cpu, double *wall)
{
    double values[MAX_CHILDREN];

    for (unsigned i = 0; i < n; i++)
        values[i] = figures[i][0];
    *cpu = bench_median(values, n);
    for (unsigned i = 0; i < n; i++)
        values[i] = figures[i][1];
    *wall = bench_median(values, n);
}

static void run_sockets(struct job *job, unsigned n, double *wall)
{
    static const struct children_ops ops = {socket_ready, socket_go};
    double figures[MAX_CHILDREN][MAX_FIGURES], cpu;
    size_t n_queries = job->timed.n;
    pid_t server, parent = getpid();
    int status = 1;

    for (unsigned i = 0; i < MAX_CHILDREN; i++)
        job->sockets[i][0] = job->sockets[i][1] = -1;
    for (unsigned i = 0; i < n; i++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, job->sockets[i]) != 0)
            die("socketpair failed");
    fflush(NULL);
    server = fork();
    if (server < 0)
        die("cannot start a server");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        for (unsigned i = 0; i < n; i++)
            close(job->sockets[i][1]);
        serve(job, n);
    }
    for (unsigned i = 0; i < n; i++)
        close(job->sockets[i][0]);
    if (n_queries > SOCKET_QUERIES / n)
        job->timed.n = SOCKET_QUERIES / n;
    children_run(&ops, job, n, figures);
    job->timed.n = n_queries;
    for (unsigned i = 0; i < n; i++)
        close(job->sockets[i][1]);
    if (waitpid(server, &status, 0) != server || status != 0)
        die("socket: the server failed");
    medians(figures, n, &cpu, wall);
}

static void print_flat(struct bench *b, uint64_t n, const char *who, const double *cpu)
{
    double least = cpu[0], most = cpu[0], least2 = cpu[1], most2 = cpu[1];

    for (unsigned c = 0; c < N_COUNTS; c++) {
        least = cpu[c] < least ? cpu[c] : least;
        most = cpu[c] > most ? cpu[c] : most;
        if (c >= 1) {
            least2 = cpu[c] < least2 ? cpu[c] : least2;
            most2 = cpu[c] > most2 ? cpu[c] : most2;
        }
    }
    bench_figure(b, "flat", n, who, "cpu_most_by_least", most / least, "ratio");
    bench_figure(b, "flat", n, who, "cpu_most_by_least_from_2", most2 / least2, "ratio");
}

static void run_size(struct run *run, uint64_t n)
{
    static const struct children_ops ops = {client_ready, client_go};
    struct bench *b = &run->bench;
    struct samples cpu[N_NAMES][N_COUNTS] = {0}, wall[N_NAMES + 1][N_COUNTS] = {0};
    struct store_run stores[N_NAMES];
    const char *who[N_NAMES + 1];
    unsigned n_stores = 0, trials = run->trials ? run->trials : b->quick ? 1 : 9;
    unsigned turn[N_COUNTS * (N_NAMES + 1)], n_turns = 0;
    struct job job = {.run = run};
    uint32_t *order = data_order(b, n);
    int sockets = run_wants(run, "socket");

    queries_init(&job.warm, b->quick ? 2048 : N_QUERIES);
    queries_init(&job.timed, b->quick ? 2048 : N_QUERIES);
    for (unsigned i = 0; i < N_NAMES; i++)
        if (peer_find(names[i]) && run_wants(run, names[i])) {
            store_fill(&stores[n_stores], peer_find(names[i]), order, n, n);
            store_check(&stores[n_stores]);
            who[n_stores++] = names[i];
        }
    if (!n_stores)
        skip();
    who[n_stores] = "socket";
    for (unsigned i = 0; i < (n_stores + (sockets ? 1 : 0)) * N_COUNTS; i++)
        turn[n_turns++] = i;
    for (unsigned t = 0; t < trials; t++) {
        shuffle(b, turn, n_turns);
        for (unsigned i = 0; i < n_turns; i++) {
            unsigned s = turn[i] / N_COUNTS, c = turn[i] % N_COUNTS;
            double figures[MAX_CHILDREN][MAX_FIGURES], cpu_ns, wall_ns;

            bench_random(b, 2); /* the children's seeds */
            job.store = &stores[s < n_stores ? s : 0];
            if (s == n_stores) {
                run_sockets(&job, counts[c], &wall_ns);
            } else {
                children_run(&ops, &job, counts[c], figures);
                medians(figures, counts[c], &cpu_ns, &wall_ns);
                samples_add(&cpu[s][c], cpu_ns);
            }
            samples_add(&wall[s][c], wall_ns);
        }
    }
    for (unsigned s = 0; s < n_turns / N_COUNTS; s++) {
        double of_count[N_COUNTS];

        for (unsigned c = 0; c < N_COUNTS; c++) {
            char name[32];

            snprintf(name, sizeof(name), "clients-%u", counts[c]);
            if (s < n_stores) {
                of_count[c] = samples_median(&cpu[s][c]);
                bench_figure(b, name, n, who[s], "cpu_ns_per_get", of_count[c], "ns");
                samples_fini(&cpu[s][c]);
            }
            bench_figure(b, name, n, who[s], "wall_ns_per_get", samples_median(&wall[s][c]), "ns");
            samples_fini(&wall[s][c]);
        }
        if (s < n_stores)
            print_flat(b, n, who[s], of_count);
    }
    for (unsigned i = 0; i < n_stores; i++)
        store_destroy(&stores[i]);
    queries_fini(&job.warm);
    queries_fini(&job.timed);
    free(order);
}

int main(int argc, char **argv)
{
    struct run run;

    run_init(&run, "shmht_clients", argc, argv);
    run_size(&run, run.n ? run.n : run.bench.quick ? 20000 : 1000000);
    return 0;
}

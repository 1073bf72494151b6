/* SPDX-License-Identifier: BSD-3-Clause */
/* The paper's other PEs: puts and gets to random regions of the server, and the same to one region
 * that holds them all. */
#define _GNU_SOURCE
#include "asymput.h"

#include <string.h>

#define PE_SERVER 0u

struct result {
    uint64_t n;
    double one_ns, many_ns, register_ns;
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* One trial: nanoseconds an operation. Both kinds go to the same memory in the same order; only the
 * address, and so the lookup, differs. */
static double run_trial(const struct options *o, struct asymreg_worker *worker, uint64_t base,
                        uint64_t n, uint64_t seed, char *buf)
{
    uint64_t begin = now_ns(), state = seed | 1;
    int rc = 0;

    for (uint64_t i = 0; i < o->ops && rc == 0; i++) {
        uint64_t r = next_random(&state);
        uint64_t addr = base + (r >> 8) % n * o->block;

        if (r % 100 < o->puts)
            rc = asymreg_put(worker, PE_SERVER, addr, ASYMREG_ANY, buf, (size_t)o->block);
        else
            rc = asymreg_get(worker, PE_SERVER, addr, ASYMREG_ANY, buf, (size_t)o->block);
    }
    if (rc == 0)
        rc = asymreg_flush(worker, PE_SERVER);
    if (rc < 0)
        fail("put or get", rc);
    return (double)(now_ns() - begin) / (double)o->ops;
}

/* A put into the many regions is visible to a get from the one: they are the same memory. */
static void check_data(const struct options *o, struct asymreg_worker *worker,
                       const struct reply *m, uint64_t n)
{
    char *put = malloc((size_t)o->block), *got = malloc((size_t)o->block);
    uint64_t state = o->seed | 1;
    char pair[2];
    int rc;

    if (!put || !got)
        fail("check", -12);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t offset = (next_random(&state) >> 8) % n * o->block;

        memset(put, (int)i, (size_t)o->block);
        rc = asymreg_put(worker, PE_SERVER, m->many + offset, ASYMREG_ANY, put, (size_t)o->block);
        if (rc == 0)
            rc = asymreg_flush(worker, PE_SERVER);
        if (rc == 0)
            rc =
                asymreg_get(worker, PE_SERVER, m->one + offset, ASYMREG_ANY, got, (size_t)o->block);
        if (rc < 0)
            fail("check", rc);
        if (memcmp(put, got, (size_t)o->block) != 0) {
            fprintf(stderr, "asymput: region %llu of %llu does not hold what was put\n",
                    (unsigned long long)(offset / o->block), (unsigned long long)n);
            exit(1);
        }
    }
    /* One byte of the last region, and one past it. */
    rc =
        asymreg_get(worker, PE_SERVER, m->many + n * o->block - 1, ASYMREG_ANY, pair, sizeof(pair));
    if (rc != ASYMREG_ERANGE) {
        fprintf(stderr, "asymput: a get past the last region reports: %s\n", asymreg_strerror(rc));
        exit(1);
    }
    free(put);
    free(got);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(double *values, uint32_t n)
{
    qsort(values, n, sizeof(*values), compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static struct result measure_point(const struct options *o, int sock, struct asymreg_worker *worker,
                                   uint64_t n)
{
    double one[MAX_TRIALS], many[MAX_TRIALS];
    struct request request = {.n = n, .block = o->block};
    struct reply m;
    char *buf = calloc(1, (size_t)o->block);

    send_all(sock, &request, sizeof(request));
    if (!receive_all(sock, &m, sizeof(m)) || !buf)
        fail("the server has gone", 0);
    if (m.error < 0)
        fail("the server cannot register", (int)m.error);
    if (o->check)
        check_data(o, worker, &m, n);
    for (uint32_t i = 0; i < o->trials; i++) {
        one[i] = run_trial(o, worker, m.one, n, o->seed + i, buf);
        many[i] = run_trial(o, worker, m.many, n, o->seed + i, buf);
    }
    free(buf);
    return (struct result){.n = n,
                           .one_ns = median_of(one, o->trials),
                           .many_ns = median_of(many, o->trials),
                           .register_ns = m.register_ns};
}

/* The paper's Figure 1: time of a million operations against the number of regions. */
static void draw_plot(const struct options *o, const struct result *results)
{
    FILE *gnuplot = popen("gnuplot", "w");

    if (!gnuplot)
        fail("gnuplot", -2);
    fprintf(gnuplot,
            "set terminal svg size 720,480 dynamic\nset output '%s'\nset logscale x\nset format x "
            "'10^{%%T}'\nset yrange [0:*]\n"
            "set xlabel 'asymmetric regions'\nset ylabel 'time of 1 million operations, s'\nset "
            "key left top\nset grid\n"
            "set title '%s, %llu-byte blocks, %u %% puts'\n"
            "plot '-' using 1:2 with linespoints title 'asymmetric', '-' using 1:2 with "
            "linespoints title 'one region'\n",
            o->plot, o->transport, (unsigned long long)o->block, o->puts);
    for (uint32_t i = 0; i < o->n_points; i++)
        fprintf(gnuplot, "%llu %g\n", (unsigned long long)results[i].n, results[i].many_ns / 1e3);
    fprintf(gnuplot, "e\n");
    for (uint32_t i = 0; i < o->n_points; i++)
        fprintf(gnuplot, "%llu %g\n", (unsigned long long)results[i].n, results[i].one_ns / 1e3);
    fprintf(gnuplot, "e\n");
    if (pclose(gnuplot) != 0)
        fail("gnuplot", 0);
}

/* What the client has read of the server's table to find the regions. */
static void print_stats(struct asymreg_context *ctx)
{
    struct asymreg_stats s = {.size = sizeof(s)};
    int rc = asymreg_context_stats(ctx, &s);

    if (rc < 0)
        fail("asymreg_context_stats", rc);
    printf("the copy of the server's table: %llu refreshes, %llu records and %llu leaves read, "
           "%llu bytes, %llu retries\n",
           (unsigned long long)s.n_refreshes, (unsigned long long)s.n_records,
           (unsigned long long)s.n_leaves, (unsigned long long)s.read_bytes,
           (unsigned long long)s.n_retries);
}

void run_client(const struct options *o, int sock)
{
    struct asymreg_context *ctx = open_context(o);
    struct asymreg_worker *worker;
    struct result results[MAX_POINTS];
    struct request end = {0};
    struct asymreg_error err;
    struct hello hello;
    int rc;

    if (!receive_all(sock, &hello, sizeof(hello)) || hello.blob_bytes > sizeof(hello.blob))
        fail("the server has gone", 0);
    rc = asymreg_import(ctx, PE_SERVER, hello.blob, (size_t)hello.blob_bytes, &err);
    if (rc < 0)
        fail(err.text, 0);
    rc = asymreg_worker_create(ctx, &worker);
    if (rc < 0)
        fail("asymreg_worker_create", rc);
    printf(
        "%s, blocks of %llu bytes, %u %% puts: nanoseconds an operation, median of %u times %llu\n",
        o->transport, (unsigned long long)o->block, o->puts, o->trials, (unsigned long long)o->ops);
    printf("%10s %12s %12s %8s %14s\n", "regions", "asymmetric", "one region", "ratio",
           "register each");
    for (uint32_t i = 0; i < o->n_points; i++) {
        struct result r = results[i] = measure_point(o, sock, worker, o->regions[i]);

        printf("%10llu %12.1f %12.1f %8.3f %14.0f\n", (unsigned long long)r.n, r.many_ns, r.one_ns,
               r.many_ns / r.one_ns, r.register_ns);
        fflush(stdout);
    }
    if (o->stats)
        print_stats(ctx);
    send_all(sock, &end, sizeof(end));
    asymreg_worker_destroy(worker);
    asymreg_close(ctx);
    if (o->plot)
        draw_plot(o, results);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* `pmiprobe client`: runs a PMI program once for each variation of a small server, and reports how
 * it ended. */
#define _GNU_SOURCE /* pipe2(), sigabbrev_np() */
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

struct options {
    double timeout;
    int ranks;
    unsigned wires; /* 0: those that the program uses */
    const char *pattern, *name;
    bool json, verbose;
    char **argv;
};

struct child {
    pid_t pid;
    int out; /* its output's pipe */
    bool ended;
    int status;
    uint64_t hash; /* of its whole output */
    size_t n_text;
    char text[2048]; /* the last of it */
};

struct outcome {
    bool survived, hang;
    char what[300];
    uint64_t hash;
    unsigned wires;
    char text[2048]; /* what a rank that failed printed */
};

static void drain_output(struct child *c)
{
    char part[1024];
    ssize_t n;

    while (c->out >= 0 && (n = read(c->out, part, sizeof(part))) > 0) {
        size_t len = (size_t)n, keep = sizeof(c->text) - 1 - len;

        for (size_t i = 0; i < len; i++)
            c->hash = (c->hash ^ (unsigned char)part[i]) * 1099511628211u;
        if (c->n_text > keep) {
            memmove(c->text, c->text + c->n_text - keep, keep);
            c->n_text = keep;
        }
        memcpy(c->text + c->n_text, part, len);
        c->n_text += len;
        c->text[c->n_text] = '\0';
    }
}

static bool start_rank(const struct options *o, struct job *j, int rank, struct child *c)
{
    char fd[32], id[32], size[32];
    const char *env[] = {fd, id, size, "PMI_PORT", "PMI_ID", "PMI_SPAWNED", "PMI_JOBID", NULL};
    int pair[2], out[2];

    c->out = -1;
    c->hash = 14695981039346656037u;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return false;
    if (pipe2(out, O_CLOEXEC) < 0) {
        close(pair[0]);
        close(pair[1]);
        return false;
    }
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    snprintf(fd, sizeof(fd), "PMI_FD=%d", pair[1]);
    snprintf(id, sizeof(id), "PMI_RANK=%d", rank);
    snprintf(size, sizeof(size), "PMI_SIZE=%d", o->ranks);
    c->out = out[0];
    c->pid = proc_start(o->argv, env, out[1], pair[1]);
    close(out[1]);
    close(pair[1]);
    if (conn_open(&j->rank[rank].c, pair[0], false) < 0)
        return false;
    return c->pid > 0;
}

/* Serves all ranks until they have ended, or time is up. */
static void serve_ranks(const struct options *o, struct job *j, struct child *child)
{
    int64_t end = now_ms() + (int64_t)(o->timeout * 1000), cut = 0;
    int n_left = o->ranks;

    while (n_left > 0 && !probe_stopped && now_ms() < end && (!cut || now_ms() < cut)) {
        struct pollfd p[MAX_RANKS];

        for (int r = 0; r < o->ranks; r++)
            p[r] = (struct pollfd){j->rank[r].gone ? -1 : j->rank[r].c.fd, POLLIN, 0};
        poll(p, (nfds_t)o->ranks, 5);
        for (int r = 0; r < o->ranks; r++) {
            enum got g = GOT_TIMEOUT;

            for (int k = 0;
                 k < 64 && !j->rank[r].gone && (g = conn_recv(&j->rank[r].c, 0)) == GOT_MSG; k++)
                serve_message(j, r);
            if (g == GOT_CLOSED || g == GOT_BAD)
                j->rank[r].gone = true;
            if (g == GOT_BAD)
                j->trouble = "the client sent something not in the protocol";
            drain_output(&child[r]);
            if (!child[r].ended &&
                waitpid(child[r].pid, &child[r].status, WNOHANG) == child[r].pid) {
                child[r].ended = true;
                n_left--;
                if (child[r].status != 0 && !cut)
                    cut = now_ms() + 300; /* the rest of the job would wait for it */
            }
        }
        if (j->aborted && !cut)
            cut = now_ms() + 300;
    }
}

static void judge_ranks(const struct options *o, const struct job *j, const struct child *child,
                        struct outcome *res)
{
    const struct child *bad = NULL;
    bool all_final = true;

    for (int r = 0; r < o->ranks; r++) {
        res->hash = res->hash * 31 + child[r].hash;
        all_final &= j->rank[r].finalized;
        if (child[r].ended && child[r].status != 0 && (!bad || WIFSIGNALED(child[r].status)))
            bad = &child[r];
    }
    for (int r = 0; r < o->ranks && !bad; r++)
        if (!child[r].ended)
            res->hang = true;
    res->wires = j->wires;
    res->survived = !bad && !res->hang;
    if (bad)
        memcpy(res->text, bad->text, sizeof(res->text));
    if (bad && WIFSIGNALED(bad->status))
        snprintf(res->what, sizeof(res->what), "SIG%s after %s",
                 sigabbrev_np(WTERMSIG(bad->status)), j->last);
    else if (bad)
        snprintf(res->what, sizeof(res->what), "%s %d after %s",
                 j->aborted ? "abort, exit" : "exit", WEXITSTATUS(bad->status), j->last);
    else if (res->hang)
        snprintf(res->what, sizeof(res->what), "%s after %s", j->aborted ? "abort" : "hang",
                 j->last[0] ? j->last : "nothing at all");
    else
        snprintf(res->what, sizeof(res->what), "%s", all_final ? "ok" : "exit 0, but no finalize");
    if (j->trouble || j->refused.code) {
        size_t n = strlen(res->what);

        snprintf(res->what + n, sizeof(res->what) - n, "; %s",
                 j->trouble ? j->trouble : j->refused.text);
    }
}

static void run_variation(const struct options *o, const struct variation *v, struct outcome *res)
{
    static struct job j;
    static struct child child[MAX_RANKS];
    bool started = true;

    memset(res, 0, sizeof(*res));
    memset(child, 0, sizeof(child));
    j.v = v;
    j.n = o->ranks;
    for (int r = 0; r < o->ranks; r++)
        j.rank[r].c.fd = child[r].out = -1;
    for (int r = 0; r < o->ranks && started; r++)
        started = start_rank(o, &j, r, &child[r]);
    if (started)
        serve_ranks(o, &j, child);
    for (int r = 0; r < o->ranks; r++) {
        if (child[r].pid > 0)
            proc_end(child[r].pid, !child[r].ended, 200);
        drain_output(&child[r]);
        if (child[r].out >= 0)
            close(child[r].out);
    }
    if (started)
        judge_ranks(o, &j, child, res);
    else
        snprintf(res->what, sizeof(res->what), "cannot start the program");
    if (o->verbose && res->text[0])
        fprintf(stderr, "--- %s\n%s\n", v->name, res->text);
    job_reset(&j);
}

static void print_row(const struct options *o, const struct variation *v, const struct outcome *res)
{
    const char *verdict = res->survived ? "ok" : v->must ? "FAIL" : "dies";

    if (o->json) {
        printf("{\"tool\":\"pmiprobe\",\"peer\":\"");
        print_json(stdout, o->name);
        printf("\",\"variation\":\"%s\",\"must\":%s,\"survived\":%s,\"happened\":\"", v->name,
               v->must ? "true" : "false", res->survived ? "true" : "false");
        print_json(stdout, res->what);
        printf("\"}\n");
    } else {
        printf("|");
        print_cell(stdout, v->name, 28);
        print_cell(stdout, verdict, 4);
        print_cell(stdout, res->what, 36);
        print_cell(stdout, v->what, 30);
        printf("\n");
    }
    fflush(stdout);
}

static int run_variations(const struct options *o)
{
    struct outcome first, again, res;
    struct variation v;
    bool steady;
    int n = 0, n_dead = 0, n_fail = 0;

    variation_at(0, &v);
    run_variation(o, &v, &first);
    run_variation(o, &v, &again);
    /* If a program prints the same twice, a difference later shows that a value arrived changed. */
    steady = first.hash == again.hash;
    if (!first.survived || !first.wires) {
        fprintf(stderr, "pmiprobe: under an ordinary server the program does not work: %s\n%s\n",
                first.wires ? first.what : "it did not speak PMI", first.text);
        return 1;
    }
    if (!o->json)
        printf("| variation                    |      | what happened                        | the "
               "server                     |\n"
               "|---|---|---|---|\n");
    for (int i = 0; variation_at(i, &v) && !probe_stopped; i++) {
        if (!((o->wires ? o->wires : first.wires) & v.wires) ||
            (o->pattern && fnmatch(o->pattern, v.name, 0) != 0))
            continue;
        run_variation(o, &v, &res);
        if (probe_stopped)
            break;
        if (res.survived && steady && res.hash != first.hash)
            snprintf(res.what, sizeof(res.what), "ok, but it printed something else");
        print_row(o, &v, &res);
        n++;
        n_dead += !res.survived;
        n_fail += !res.survived && v.must;
    }
    if (n == 0 && !probe_stopped) {
        fprintf(stderr,
                "pmiprobe: no variation of this wire is called %s (see pmiprobe variations)\n",
                o->pattern);
        return 2;
    }
    if (!o->json)
        printf("\n%d variations, survived %d, died in %d; of those %d FAIL, which every client "
               "must survive\n",
               n, n - n_dead, n_dead, n_fail);
    return probe_stopped ? 128 + probe_stopped : n_fail ? 1 : 0;
}

int client_main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"timeout", required_argument, NULL, 't'}, {"ranks", required_argument, NULL, 'n'},
        {"wire", required_argument, NULL, 'w'},    {"variation", required_argument, NULL, 'c'},
        {"name", required_argument, NULL, 'N'},    {"json", no_argument, NULL, 'j'},
        {"verbose", no_argument, NULL, 'v'},       {NULL, 0, NULL, 0},
    };
    struct options o = {.timeout = 5, .ranks = 1};
    int c;

    while ((c = getopt_long(argc, argv, "+t:n:w:c:N:jv", longs, NULL)) != -1) {
        switch (c) {
        case 't': o.timeout = atof(optarg); break;
        case 'n': o.ranks = atoi(optarg); break;
        case 'w': o.wires = optarg[0] == '1' ? WIRE_1 : optarg[0] == '2' ? WIRE_2 : 0; break;
        case 'c': o.pattern = optarg; break;
        case 'N': o.name = optarg; break;
        case 'j': o.json = true; break;
        case 'v': o.verbose = true; break;
        default: return 2;
        }
    }
    o.argv = argv + optind;
    if (optind == argc || o.ranks < 1 || o.ranks > MAX_RANKS || o.timeout < 0.1 ||
        o.timeout > 3600) {
        fprintf(stderr,
                "usage: pmiprobe client [--timeout S] [--ranks N] [--wire 1|2] [--variation NAME] "
                "[--name PEER] [--json] [--verbose] -- PROG ARGS...\n");
        return 2;
    }
    if (!o.name)
        o.name = o.argv[0];
    proc_setup();
    return run_variations(&o);
}

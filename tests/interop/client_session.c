/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Our client session as a real process of a real job: run it under any launcher that speaks PMI,
 *
 *     mpiexec.hydra -n 4 client_session --wire 1
 *     srun -n 4 --mpi=pmi2 client_session --wire 2 --ring
 *
 * It uses every call of the session and checks every answer; the first wrong answer ends it with
 * status 1 and a line that names it. At the end it prints "client_session ok wire=W rank=R size=N".
 *
 *     --wire 1|2    PMI-1 (the default) or PMI-2
 *     --rounds N    fences of put, fence, get-all; default 3
 *     --any-wins    accept any value of a key that was put again, for servers that do not promise
 *                   the latest: mpiexec.hydra 4.0 keeps the first on PMI-2, and on PMI-1 now and
 *                   then serves an old one (16 ranks)
 *     --pipeline    send without waiting (not for slurmstepd)
 *     --names       publish, lookup and unpublish as well
 *     --node        node attributes as well (PMI-2)
 *     --ring        PMIX_Ring as well (PMI-2, Slurm)
 *     --spawn       rank 0 starts two more processes of this program
 *     --abort       rank 0 aborts the job with exit code 7 while the others are in a fence
 *     --server NAME the profile that names the server's limits
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <pmiwire.h>

#define DEADLINE_SECONDS 60

struct options {
    int wire, rounds, pipeline, names, node, ring, spawn, abort, child, any_wins;
    const char *server;
    const char *program;
};

static struct pmiwire_client *session;
static int server_fd = -1;
static int my_rank = -1;

static void die(const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "client_session rank %d: ", my_rank);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

static void check_rc(int rc, const char *what)
{
    if (rc < 0)
        die("%s: %s (%d)", what, pmiwire_strerror(rc), rc);
}

/* Moves bytes until the next event. One write() a request, as slurmstepd requires. */
static void wait_event(uint32_t op, const char *what, struct pmiwire_event *ev)
{
    static char buf[65536];

    for (;;) {
        const void *data;
        size_t n;
        ssize_t moved;
        struct pmiwire_error err;
        int rc = pmiwire_client_next(session, ev, &err);

        if (rc > 0) {
            if (ev->op != op)
                die("%s: event %u came, not %u", what, ev->op, op);
            return;
        }
        if (rc < 0)
            die("%s: the session died: %s", what, err.text);
        n = pmiwire_client_output(session, &data);
        if (n) {
            moved = write(server_fd, data, n);
            if (moved < 0)
                die("%s: write: %m", what);
            pmiwire_client_sent(session, (size_t)moved);
            continue;
        }
        moved = read(server_fd, buf, sizeof(buf));
        if (moved < 0)
            die("%s: read: %m", what);
        if (moved == 0)
            pmiwire_client_eof(session);
        else
            pmiwire_client_input(session, buf, (size_t)moved);
    }
}

/* Waits for the answer to a request that returned `rc`, and checks that both succeeded. */
static void expect(int rc, uint32_t op, const char *what, struct pmiwire_event *ev)
{
    check_rc(rc, what);
    wait_event(op, what, ev);
    if (ev->rc)
        die("%s: %s (%d), the server says %d %.*s", what, pmiwire_strerror(ev->rc), ev->rc,
            ev->peer_rc, (int)ev->text.len, ev->text.ptr ? ev->text.ptr : "");
}

static void expect_value(const struct pmiwire_event *ev, const char *value, const char *what)
{
    if (ev->value.len != strlen(value) || memcmp(ev->value.ptr, value, ev->value.len) != 0)
        die("%s: \"%.*s\" came, not \"%s\"", what, (int)ev->value.len,
            ev->value.ptr ? ev->value.ptr : "", value);
}

static const char *need_env(const char *name)
{
    const char *text = getenv(name);

    if (!text)
        die("%s is not set: start me with a launcher that speaks PMI", name);
    return text;
}

static int env_int(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

/* PMI_PORT is host:port. */
static int dial(const char *port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list, *a;
    char host[256];
    const char *colon = strrchr(port, ':');
    int fd = -1, rc;

    if (!colon || (size_t)(colon - port) >= sizeof(host))
        die("PMI_PORT=%s is not host:port", port);
    memcpy(host, port, (size_t)(colon - port));
    host[colon - port] = '\0';
    rc = getaddrinfo(host, colon + 1, &hints, &list);
    if (rc)
        die("%s: %s", port, gai_strerror(rc));
    for (a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        die("cannot connect to %s: %m", port);
    return fd;
}

static void init(const struct options *o, struct pmiwire_info_client *info)
{
    struct pmiwire_client_opts opts = {.size = sizeof(opts)};
    struct pmiwire_event ev;

    opts.wire = o->wire == 2 ? PMIWIRE_V2 : PMIWIRE_V1;
    opts.flags = o->pipeline ? PMIWIRE_CLIENT_PIPELINE : 0;
    opts.jobid = getenv("PMI_JOBID");
    opts.server = o->server ? pmiwire_profile_find(o->server) : NULL;
    if (o->server && !opts.server)
        die("no profile is called %s", o->server);
    opts.rank = env_int("PMI_RANK", o->wire == 2 ? -1 : 0);
    opts.n_ranks = env_int("PMI_SIZE", 1);
    if (getenv("PMI_FD")) {
        server_fd = atoi(getenv("PMI_FD"));
    } else {
        server_fd = dial(need_env("PMI_PORT"));
        opts.has_pmiid = 1;
        opts.pmiid = atoi(need_env("PMI_ID"));
    }
    check_rc(pmiwire_client_create(&opts, &session), "create");
    expect(0, PMIWIRE_OP_INIT, "init", &ev);
    pmiwire_client_query(session, info);
    my_rank = info->rank;
    if (getenv("PMI_RANK") && info->rank != atoi(getenv("PMI_RANK")))
        die("the server says rank %d, PMI_RANK %s", info->rank, getenv("PMI_RANK"));
    if (getenv("PMI_SIZE") && info->n_ranks != atoi(getenv("PMI_SIZE")))
        die("the server says size %d, PMI_SIZE %s", info->n_ranks, getenv("PMI_SIZE"));
    if (info->version != o->wire || info->appnum < -1) /* Slurm returns -1: unknown */
        die("version %d.%d, appnum %d", info->version, info->subversion, info->appnum);
}

static void check_job(const struct options *o, const struct pmiwire_info_client *info)
{
    struct pmiwire_event ev;
    int universe;

    expect(pmiwire_client_request(session, PMIWIRE_OP_KVSNAME, pmiwire_strz(NULL), 1),
           PMIWIRE_OP_KVSNAME, "kvsname", &ev);
    if (ev.value.len == 0 ||
        (info->kvsname.ptr && (ev.value.len != info->kvsname.len ||
                               memcmp(ev.value.ptr, info->kvsname.ptr, ev.value.len) != 0)))
        die("kvsname differs from init's");
    expect(pmiwire_client_request(session, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), 2),
           PMIWIRE_OP_UNIVERSE_SIZE, "universe size", &ev);
    universe = ev.number;
    if (universe != -1 && universe < 1)
        die("universe size %d", universe);
    expect(pmiwire_client_request(session, PMIWIRE_OP_APPNUM, pmiwire_strz(NULL), 3),
           PMIWIRE_OP_APPNUM, "appnum", &ev);
    if (ev.number != info->appnum || ev.cookie != 3)
        die("appnum %d, but %d in init's answer", ev.number, info->appnum);
    expect(
        pmiwire_client_request(session, PMIWIRE_OP_JOBATTR, pmiwire_strz("PMI_process_mapping"), 4),
        PMIWIRE_OP_JOBATTR, "PMI_process_mapping", &ev);
    if (ev.value.len < 8 || memcmp(ev.value.ptr, "(vector,", 8) != 0)
        die("PMI_process_mapping=%.*s", (int)ev.value.len, ev.value.ptr);
    if (my_rank == 0)
        printf("client_session: wire=%d universe=%d mapping=%.*s\n", o->wire, universe,
               (int)ev.value.len, ev.value.ptr);
}

/* Every rank puts one pair of a fresh key and one of a key that stays; the last put of the latter
 * must win. */
static void rounds(const struct options *o, const struct pmiwire_info_client *info)
{
    static const struct pmiwire_str own = {NULL, 0};
    struct pmiwire_event ev;
    char key[64], value[64];

    for (int round = 0; round < o->rounds; round++) {
        snprintf(key, sizeof(key), "fresh-%d-%d", round, my_rank);
        snprintf(value, sizeof(value), "v-%d-%d", round, my_rank);
        expect(pmiwire_client_put(session, pmiwire_strz(key), pmiwire_strz(value),
                                  PMIWIRE_HINT_NONE, 10),
               PMIWIRE_OP_PUT, "put", &ev);
        snprintf(key, sizeof(key), "stays-%d", my_rank);
        expect(pmiwire_client_put(session, pmiwire_strz(key), pmiwire_strz(value),
                                  PMIWIRE_HINT_NONE, 11),
               PMIWIRE_OP_PUT, "put", &ev);
        expect(pmiwire_client_fence(session, pmiwire_strz(NULL), 12), PMIWIRE_OP_FENCE, "fence",
               &ev);
        for (int peer = 0; peer < info->n_ranks; peer++) {
            snprintf(value, sizeof(value), "v-%d-%d", round, peer);
            snprintf(key, sizeof(key), "fresh-%d-%d", round, peer);
            expect(pmiwire_client_get(session, own, peer, pmiwire_strz(key), PMIWIRE_GET_LOCAL, 13),
                   PMIWIRE_OP_GET, key, &ev);
            expect_value(&ev, value, key);
            snprintf(key, sizeof(key), "stays-%d", peer);
            expect(pmiwire_client_get(session, own, -1, pmiwire_strz(key), PMIWIRE_GET_LOCAL, 14),
                   PMIWIRE_OP_GET, key, &ev);
            for (int old = o->any_wins ? 0 : round; old <= round; old++) {
                snprintf(value, sizeof(value), "v-%d-%d", old, peer);
                if (ev.value.len == strlen(value) && memcmp(ev.value.ptr, value, ev.value.len) == 0)
                    break;
            }
            expect_value(&ev, value, key);
        }
        /* No rank may put the next value while others still read this one. */
        expect(pmiwire_client_fence(session, pmiwire_strz(NULL), 15), PMIWIRE_OP_FENCE,
               "second fence", &ev);
        /* A server that answers the fence at once makes the first get wait instead: let all ranks
         * pass one. */
        if (o->wire == 2) {
            snprintf(key, sizeof(key), "passed-%d-%d", round, my_rank);
            expect(pmiwire_client_put(session, pmiwire_strz(key), pmiwire_strz("1"),
                                      PMIWIRE_HINT_NONE, 16),
                   PMIWIRE_OP_PUT, key, &ev);
            expect(pmiwire_client_fence(session, pmiwire_strz(NULL), 17), PMIWIRE_OP_FENCE,
                   "third fence", &ev);
            for (int peer = 0; peer < info->n_ranks; peer++) {
                snprintf(key, sizeof(key), "passed-%d-%d", round, peer);
                expect(
                    pmiwire_client_get(session, own, -1, pmiwire_strz(key), PMIWIRE_GET_LOCAL, 18),
                    PMIWIRE_OP_GET, key, &ev);
            }
        }
    }
}

/* After a fence: mpiexec.hydra 4.0 ends the job at a PMI-2 get before the first fence. */
static void miss(void)
{
    static const struct pmiwire_str own = {NULL, 0};
    struct pmiwire_event ev;

    check_rc(
        pmiwire_client_get(session, own, -1, pmiwire_strz("no-such-key"), PMIWIRE_GET_LOCAL, 5),
        "get of nothing");
    wait_event(PMIWIRE_OP_GET, "get of nothing", &ev);
    if (ev.rc != PMIWIRE_ENOENT)
        die("a missing key: rc %d (%s), the server's rc %d", ev.rc, pmiwire_strerror(ev.rc),
            ev.peer_rc);
}

static void ask_all_at_once(const struct pmiwire_info_client *info)
{
    static const struct pmiwire_str own = {NULL, 0};
    struct pmiwire_event ev;
    char key[64];
    int n = info->n_ranks < 20 ? info->n_ranks : 20;

    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "stays-%d", i);
        check_rc(
            pmiwire_client_get(session, own, -1, pmiwire_strz(key), PMIWIRE_GET_LOCAL, (uint64_t)i),
            key);
    }
    for (int i = 0; i < n; i++) {
        wait_event(PMIWIRE_OP_GET, "get of many", &ev);
        if (ev.rc || ev.cookie != (uint64_t)i)
            die("get %d of many: rc %d, cookie %d", i, ev.rc, (int)ev.cookie);
    }
}

static void names(void)
{
    struct pmiwire_event ev;
    char service[64], port[64];

    snprintf(service, sizeof(service), "fencepost-%ld-%d", (long)getppid(), my_rank);
    snprintf(port, sizeof(port), "tag#0$port#%d$", 40000 + my_rank);
    expect(pmiwire_client_publish(session, pmiwire_strz(service), pmiwire_strz(port), 20),
           PMIWIRE_OP_PUBLISH, "publish", &ev);
    expect(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, pmiwire_strz(service), 21),
           PMIWIRE_OP_LOOKUP, "lookup", &ev);
    expect_value(&ev, port, "lookup");
    expect(pmiwire_client_request(session, PMIWIRE_OP_UNPUBLISH, pmiwire_strz(service), 22),
           PMIWIRE_OP_UNPUBLISH, "unpublish", &ev);
    check_rc(pmiwire_client_request(session, PMIWIRE_OP_LOOKUP, pmiwire_strz(service), 23),
             "lookup after unpublish");
    wait_event(PMIWIRE_OP_LOOKUP, "lookup after unpublish", &ev);
    if (ev.rc != PMIWIRE_ENOENT)
        die("lookup after unpublish: rc %d (%s), the server says %d", ev.rc,
            pmiwire_strerror(ev.rc), ev.peer_rc);
}

static void node_attributes(void)
{
    struct pmiwire_event ev;
    char key[64];

    snprintf(key, sizeof(key), "node-%d", my_rank);
    expect(pmiwire_client_nodeattr_put(session, pmiwire_strz(key), pmiwire_strz("here"), 30),
           PMIWIRE_OP_NODEATTR_PUT, "node attribute", &ev);
    expect(pmiwire_client_request(session, PMIWIRE_OP_NODEATTR_WAIT, pmiwire_strz(key), 31),
           PMIWIRE_OP_NODEATTR_WAIT, "node attribute", &ev);
    expect_value(&ev, "here", "node attribute");
    check_rc(pmiwire_client_request(session, PMIWIRE_OP_NODEATTR_GET,
                                    pmiwire_strz("no-such-attribute"), 32),
             "no attribute");
    wait_event(PMIWIRE_OP_NODEATTR_GET, "no attribute", &ev);
    if (ev.rc != PMIWIRE_ENOENT && ev.rc != PMIWIRE_EPEER)
        die("a missing attribute: rc %d", ev.rc);
}

static void ring(const struct pmiwire_info_client *info)
{
    struct pmiwire_event ev;
    char mine[32], left[32], right[32];
    int n = info->n_ranks;

    snprintf(mine, sizeof(mine), "ring-%d", my_rank);
    snprintf(left, sizeof(left), "ring-%d", (my_rank + n - 1) % n);
    snprintf(right, sizeof(right), "ring-%d", (my_rank + 1) % n);
    expect(pmiwire_client_ring(session, pmiwire_strz(mine), 40), PMIWIRE_OP_RING, "ring", &ev);
    if (ev.number != my_rank)
        die("ring: place %d", ev.number);
    expect_value(&ev, left, "ring, left");
    ev.value = ev.value2;
    expect_value(&ev, right, "ring, right");
}

/* Rank 0 spawns two more of these programs in two sub-commands, with arguments and a preput
 * pair. */
static void spawn(const struct options *o)
{
    const struct pmiwire_str argv[] = {pmiwire_strz("--child"), pmiwire_strz("--wire"),
                                       pmiwire_strz(o->wire == 2 ? "2" : "1"),
                                       pmiwire_strz("--any-wins")};
    const struct pmiwire_keyval preput = {pmiwire_strz("from-parent"), pmiwire_strz("hello")};
    struct pmiwire_spawn_cmd cmds[2] = {
        {.execname = pmiwire_strz(o->program), .maxprocs = 1, .argv = argv}};
    struct pmiwire_spawn req = {.n_cmds = 2, .n_preput = 1, .cmds = cmds, .preput = &preput};
    struct pmiwire_event ev;

    cmds[0].argc = o->any_wins ? 4 : 3;
    cmds[1] = cmds[0];
    if (my_rank == 0)
        expect(pmiwire_client_spawn(session, &req, 50), PMIWIRE_OP_SPAWN, "spawn", &ev);
}

/* A child's checks: its rank, and its parent's pairs. */
static void child(const struct pmiwire_info_client *info)
{
    static const struct pmiwire_str own = {NULL, 0};
    struct pmiwire_event ev;

    if (info->n_ranks != 2)
        die("child: size %d", info->n_ranks);
    expect(pmiwire_client_get(session, own, -1, pmiwire_strz("from-parent"), PMIWIRE_GET_LOCAL, 60),
           PMIWIRE_OP_GET, "preput", &ev);
    expect_value(&ev, "hello", "preput");
}

/* The last rank does not enter the fence, so it never completes; the abort must not wait for it. */
static void abort_job(const struct pmiwire_info_client *info)
{
    struct pmiwire_event ev;
    int last = my_rank == info->n_ranks - 1;

    if (!last)
        check_rc(pmiwire_client_fence(session, pmiwire_strz(NULL), 70), "fence");
    if (my_rank == 0) {
        check_rc(pmiwire_client_abort(session, 7, pmiwire_strz("on-purpose"), 71), "abort");
        wait_event(last ? PMIWIRE_OP_ABORT : PMIWIRE_OP_FENCE, "abort", &ev);
    } else if (!last) {
        wait_event(PMIWIRE_OP_FENCE, "fence of the aborted", &ev);
        if (ev.rc != PMIWIRE_EEOF)
            die("a fence that rank 0 aborts: rc %d", ev.rc);
    }
    pause(); /* until the launcher ends us */
}

static void parse(int argc, char **argv, struct options *o)
{
    memset(o, 0, sizeof(*o));
    o->wire = 1;
    o->rounds = 3;
    o->program = argv[0];
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];

        if (strcmp(a, "--wire") == 0 && i + 1 < argc)
            o->wire = atoi(argv[++i]);
        else if (strcmp(a, "--rounds") == 0 && i + 1 < argc)
            o->rounds = atoi(argv[++i]);
        else if (strcmp(a, "--server") == 0 && i + 1 < argc)
            o->server = argv[++i];
        else if (strcmp(a, "--pipeline") == 0)
            o->pipeline = 1;
        else if (strcmp(a, "--any-wins") == 0)
            o->any_wins = 1;
        else if (strcmp(a, "--names") == 0)
            o->names = 1;
        else if (strcmp(a, "--node") == 0)
            o->node = 1;
        else if (strcmp(a, "--ring") == 0)
            o->ring = 1;
        else if (strcmp(a, "--spawn") == 0)
            o->spawn = 1;
        else if (strcmp(a, "--abort") == 0)
            o->abort = 1;
        else if (strcmp(a, "--child") == 0)
            o->child = 1;
        else
            die("unknown option %s", a);
    }
    if (o->wire != 1 && o->wire != 2)
        die("--wire is 1 or 2");
}

int main(int argc, char **argv)
{
    struct options o;
    struct pmiwire_info_client info;
    struct pmiwire_event ev;

    alarm(DEADLINE_SECONDS);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(argc, argv, &o);
    init(&o, &info);
    if (o.child)
        child(&info);
    else
        check_job(&o, &info);
    rounds(&o, &info);
    miss();
    ask_all_at_once(&info);
    if (o.names)
        names();
    if (o.node)
        node_attributes();
    if (o.ring)
        ring(&info);
    if (o.spawn)
        spawn(&o);
    if (o.abort)
        abort_job(&info);
    expect(pmiwire_client_finalize(session, 99), PMIWIRE_OP_FINALIZE, "finalize", &ev);
    if (pmiwire_client_next(session, &ev, NULL) != PMIWIRE_ESTATE)
        die("the session continues after finalize");
    pmiwire_client_destroy(session);
    close(server_fd);
    printf("client_session ok wire=%d rank=%d size=%d%s\n", o.wire, info.rank, info.n_ranks,
           o.child ? " child" : "");
    return 0;
}

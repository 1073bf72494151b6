/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * server RANKS PROGRAM [ARGUMENT…]: the smallest PMI server that starts MPI programs.
 * libpmiwire speaks PMI-1 and PMI-2; one libshmht table holds the job's pairs. A client that knows
 * our extensions gets the table's descriptor with the answer to init; any other client asks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmiwire.h>
#include <shmht.h>

#define MAX_RANKS 1024
static struct rank {
    struct pmiwire_conn *conn;
    int fd, pid, table_sent;
} ranks[MAX_RANKS];
static struct pmiwire_server *server;
static struct shmht_writer *table;
static int n_ranks, n_open, status, epoll_fd;

static void end_job(int code, const char *why)
{
    if (status)
        return;
    status = code & 255 ? code & 255 : 1; /* of the first cause */
    fprintf(stderr, "server: %s\n", why);
    for (int i = 0; i < n_ranks; i++)
        if (ranks[i].pid > 0)
            kill(ranks[i].pid, SIGKILL);
}

static int on_put(void *ctx, const struct pmiwire_peer *who, struct pmiwire_str key,
                  struct pmiwire_str value)
{
    char text[PMIWIRE_DEFAULT_VALLEN_MAX + 1] = ""; /* the table's values are C strings */

    (void)ctx, (void)who;
    if (value.len >= sizeof(text))
        return PMIWIRE_EVALLEN;
    memcpy(text, value.ptr, value.len);
    return shmht_put(table, key.ptr, key.len, text, value.len + 1) < 0 ? -ENOMEM : 0;
}

static int on_find(void *ctx, const struct pmiwire_peer *job, struct pmiwire_str key,
                   struct pmiwire_str *value)
{
    struct shmht_bytes found;

    (void)ctx, (void)job;
    if (shmht_get(shmht_writer_view(table), key.ptr, key.len, &found) != 0)
        return PMIWIRE_ENOENT;
    *value = (struct pmiwire_str){found.ptr, found.len - 1};
    return 0;
}

static void on_abort(void *ctx, const struct pmiwire_peer *who, int32_t code,
                     struct pmiwire_str message)
{
    (void)ctx, (void)who, (void)message;
    end_job(code, "a rank called abort");
}

static void on_stuck(void *ctx, const struct pmiwire_peer *who, uint32_t what, uint32_t why)
{
    (void)ctx, (void)who, (void)what, (void)why;
    end_job(1, "ranks wait for one that has finalized or ended");
}

/* Writes the engine's output for a connection, with the table's descriptor where it is due. */
static void on_ready(void *ctx, struct pmiwire_conn *conn, void *cookie)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    const int table_fd = shmht_writer_share(table, NULL);
    struct iovec iov;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
    struct pmiwire_info_conn info;
    struct rank *r = cookie;
    const void *out;
    ssize_t sent;

    memcpy(CMSG_DATA(&control.head), &table_fd, sizeof(int));
    pmiwire_conn_query(conn, &info);
    while ((iov.iov_len = pmiwire_conn_output(conn, &out)) > 0) {
        iov.iov_base = (void *)(uintptr_t)out;
        msg.msg_controllen = info.has_extensions && !r->table_sent ? sizeof(control) : 0;
        if ((sent = sendmsg(r->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL)) < 0)
            return;
        r->table_sent |= msg.msg_controllen > 0;
        pmiwire_conn_sent(conn, (size_t)sent);
    }
}

static void rank_receive(struct rank *r)
{
    struct pmiwire_conn *conn = r->conn;
    struct pmiwire_info_conn info;
    char bytes[65536];
    ssize_t n;

    on_ready(NULL, conn, r); /* what a full socket has kept back */
    while ((n = recv(r->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        if (pmiwire_conn_input(conn, bytes, (size_t)n) != 0)
            break; /* the client broke the protocol */
    if (n < 0 && errno == EAGAIN)
        return;
    pmiwire_conn_query(conn, &info);
    if (info.state == PMIWIRE_CONN_INITED || info.state == PMIWIRE_CONN_FAILED)
        end_job(1, "a rank ended without finalize");
    n_open--;
    pmiwire_conn_close(conn);
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, r->fd, NULL); /* a child before exec() may have a copy */
    close(r->fd);
}

/* Creates the engine, the table, and the announcement that clients get at init. */
static int set_up(uint32_t *job)
{
    struct pmiwire_server_ops ops = {
        .size = sizeof(ops), .put = on_put, .find = on_find, .ready = on_ready, .abort = on_abort};
    struct pmiwire_server_opts opts = {.size = sizeof(opts), .ops = &ops};
    struct pmiwire_job_opts jo = {.size = sizeof(jo), .kvsname = "job", .n_ranks = n_ranks};
    struct shmht_writer_opts table_opts = {.size = sizeof(table_opts), .max_bytes = 1u << 30};
    char mapping[64], desc_text[SHMHT_DESC_TEXT_BYTES];
    struct shmht_desc desc;

    ops.stuck = on_stuck;
    snprintf(mapping, sizeof(mapping), "(vector,(0,1,%d))", n_ranks); /* all on one node */
    return (epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
           pmiwire_server_create(&opts, &server) != 0 ||
           pmiwire_server_job_add(server, &jo, job) != 0 ||
           pmiwire_server_job_attr(server, *job, pmiwire_strz("PMI_process_mapping"),
                                   pmiwire_strz(mapping)) != 0 ||
           shmht_writer_create(&table_opts, &table, NULL) != 0 ||
           shmht_writer_share(table, &desc) < 0 ||
           shmht_desc_format(&desc, desc_text, sizeof(desc_text)) < 0 ||
           pmiwire_server_advertise(server, *job, PMIWIRE_EXT_TABLE, pmiwire_strz(desc_text)) != 0;
}

static int rank_start(struct rank *r, uint32_t job, char **argv)
{
    /* Edge-triggered: rank_receive() also sends the rest when a full socket has room again. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = r};
    char env[3][24];
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -1;
    if ((r->pid = fork()) == 0) {
        snprintf(env[0], sizeof(env[0]), "PMI_FD=%d", dup(pair[1])); /* stays open in exec() */
        snprintf(env[1], sizeof(env[1]), "PMI_RANK=%d", (int)(r - ranks));
        snprintf(env[2], sizeof(env[2]), "PMI_SIZE=%d", n_ranks);
        if (!putenv(env[0]) && !putenv(env[1]) && !putenv(env[2]))
            execvp(argv[0], argv);
        perror(argv[0]);
        _exit(127);
    }
    close(pair[1]);
    r->fd = pair[0];
    if (pmiwire_server_accept(server, job, (int)(r - ranks), r, &r->conn) != 0 || r->pid < 0)
        return -1;
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, r->fd, &event);
}

int main(int argc, char **argv)
{
    struct epoll_event event;
    uint32_t job = 0;
    int how; /* a rank ended */

    n_open = n_ranks = argc > 2 ? atoi(argv[1]) : 0;
    if (n_ranks < 1 || n_ranks > MAX_RANKS)
        return fprintf(stderr, "usage: server RANKS PROGRAM [ARGUMENT...]\n"), 2;
    if (set_up(&job) != 0)
        end_job(1, "cannot create the engine and the table");
    for (int i = 0; i < n_ranks && !status; i++)
        if (rank_start(&ranks[i], job, argv + 2) != 0)
            end_job(1, "cannot start a rank");
    while (n_open > 0 && !status)
        if (epoll_wait(epoll_fd, &event, 1, -1) == 1)
            rank_receive(event.data.ptr);
    for (int i = 0; i < n_ranks; i++)
        if (ranks[i].pid > 0 && waitpid(ranks[i].pid, &how, 0) > 0 && !status)
            status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
    pmiwire_server_destroy(server);
    shmht_writer_destroy(table);
    return status;
}

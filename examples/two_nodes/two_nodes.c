/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * two_nodes PROGRAM [ARGUMENT…]: a job on two nodes, a rank on each. Nodes are processes with a PMI
 * server; frames go over a socket, in a real launcher over an authenticated link to another host.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pmiwire.h>

/* On the link: a frame, or an END, the rank's status. A node serves on until it has the other's. */
static struct message {
    struct message *next;
    size_t n;
    char bytes[];
} * first, **last = &first;
static struct pmiwire_server *server;
static struct pmiwire_conn *conn; /* of this node's rank, until it closes its end */
static int me, pid, status, sent_end, got_end;

static int on_send(void *ctx, const struct pmiwire_peer *job, uint32_t node,
                   const struct iovec *iov, uint32_t n_iov, size_t bytes)
{
    struct message *m = calloc(1, sizeof(*m) + bytes);

    if (!m)
        _exit(1); /* the other node sees the link break */
    for (uint32_t i = 0; i < n_iov; m->n += iov[i++].iov_len)
        memcpy(m->bytes + m->n, iov[i].iov_base, iov[i].iov_len);
    *last = m;
    last = &m->next;
    return 0;
}

/* The end of this node's part: its rank has ended or, with a reason, is stopped. */
static void end_node(int code, const char *why)
{
    status = status ? status : code;
    if (why && !sent_end && fprintf(stderr, "node %d: %s\n", me, why) > 0)
        kill(pid, SIGKILL);
    if (!sent_end++)
        on_send(NULL, NULL, !me, &(struct iovec){&(char){(char)code}, 1}, 1, 1);
}

static void on_stuck(void *ctx, const struct pmiwire_peer *who, uint32_t what, uint32_t why)
{
    end_node(1, "ranks wait for one that is gone");
}

static void on_abort(void *ctx, const struct pmiwire_peer *who, int32_t code, struct pmiwire_str s)
{
    end_node(code & 255 ? code & 255 : 1, "its rank called MPI_Abort");
}

static void link_serve(int link_fd)
{
    static unsigned char bytes[PMIWIRE_EXCHANGE_FRAME_BYTES];
    struct message *m;
    ssize_t n;

    while ((m = first) && send(link_fd, m->bytes, m->n, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
        last = (first = m->next) ? last : &first;
        free(m);
    }
    while ((n = recv(link_fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        if (n > 1)
            pmiwire_server_frame(server, 0, !me, bytes, (size_t)n);
        else if ((got_end = 1) && bytes[0])
            end_node(bytes[0], "the job has failed on the other node");
    if (n == 0 && !got_end) {
        pmiwire_server_node_lost(server, 0, !me); /* answers every client that waits */
        end_node(1, "the other node is lost");
        got_end = 1, first = NULL; /* nobody reads it */
    }
}

static void rank_serve(int fd)
{
    char bytes[65536];
    const void *out;
    ssize_t n = conn ? recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) : -1;
    int how;

    if (n == 0 || (n > 0 && pmiwire_conn_input(conn, bytes, (size_t)n) != 0)) {
        pmiwire_conn_close(conn); /* it has closed its end, or broken the protocol */
        conn = NULL;
        shutdown(fd, SHUT_RDWR);
    }
    while (conn && (n = (ssize_t)pmiwire_conn_output(conn, &out)) > 0 &&
           (n = send(fd, out, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        pmiwire_conn_sent(conn, (size_t)n);
    if (!conn && waitpid(pid, &how, WNOHANG) == pid)
        end_node(WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how), NULL);
}

int main(int argc, char **argv)
{
    struct pmiwire_server_ops ops = {
        .size = sizeof(ops), .send = on_send, .stuck = on_stuck, .abort = on_abort};
    struct pmiwire_server_opts opts = {.size = sizeof(opts), .ops = &ops};
    struct pmiwire_job_opts jo = {.size = sizeof(jo), .kvsname = "job", .n_ranks = 2};
    int link[2], pair[2];
    uint32_t job;

    if (argc < 2 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0)
        return fprintf(stderr, "usage: two_nodes PROGRAM [ARGUMENT...]\n"), 2;
    me = fork() == 0; /* the beginning: a server on each node, which knows every rank's node */
    close(link[!me]);
    jo.node_of = (const uint32_t[]){0, 1};
    jo.node = (uint32_t)me;
    if (pmiwire_server_create(&opts, &server) != 0 ||
        pmiwire_server_job_add(server, &jo, &job) != 0 || /* before the first frame */
        pmiwire_server_job_attr(server, job, pmiwire_strz("PMI_process_mapping"),
                                pmiwire_strz("(vector,(0,2,1))")) != 0 ||
        pmiwire_server_accept(server, job, me, NULL, &conn) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return 2;
    if ((pid = fork()) == 0) {
        dup2(pair[1], 99); /* stays open in exec() */
        setenv("PMI_FD", "99", 1);
        setenv("PMI_RANK", me ? "1" : "0", 1);
        setenv("PMI_SIZE", "2", 1);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    close(pair[1]);
    while (!sent_end || !got_end || first) { /* the end: END sent and received */
        struct timespec now;
        struct pollfd fds[] = {{link[me], (short)(first ? POLLIN | POLLOUT : POLLIN), 0},
                               {conn ? pair[0] : -1, POLLIN, 0}};

        poll(fds, 2, conn ? 500 : 20); /* without a connection, the process ends soon */
        clock_gettime(CLOCK_MONOTONIC, &now);
        pmiwire_server_tick(server, (uint64_t)now.tv_sec * 1000000000);
        link_serve(link[me]);
        rank_serve(pair[0]);
    }
    while (wait(NULL) > 0)
        ;
    pmiwire_server_destroy(server);
    return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* serve PROGRAM [ARGUMENT...]: a PMI server for one rank, over a socket. */
#include <pmiwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void complain(void *ctx, const struct pmiwire_peer *who, int code, const char *text)
{
    (void)ctx, (void)who, (void)code;
    fprintf(stderr, "serve: %s\n", text);
}

int main(int argc, char **argv)
{
    struct pmiwire_server_ops ops = {.size = sizeof(ops), .diag = complain};
    struct pmiwire_server_opts opts = {.size = sizeof(opts), .ops = &ops};
    struct pmiwire_job_opts job = {.size = sizeof(job), .kvsname = "kvs_0", .n_ranks = 1};
    struct pmiwire_server *server;
    struct pmiwire_conn *conn;
    char buf[4096], fd[16];
    const void *out;
    int pair[2], status = 0, rc;
    uint32_t id;
    ssize_t n;

    if (argc < 2 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 ||
        pmiwire_server_create(&opts, &server) != 0 ||
        pmiwire_server_job_add(server, &job, &id) != 0 ||
        pmiwire_server_accept(server, id, 0, NULL, &conn) != 0)
        return 2;
    snprintf(fd, sizeof(fd), "%d", pair[1]);
    setenv("PMI_FD", fd, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    if (fork() == 0) {
        close(pair[0]);
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    close(pair[1]);
    while ((n = read(pair[0], buf, sizeof(buf))) > 0) {
        rc = pmiwire_conn_input(conn, buf, (size_t)n);
        while ((n = (ssize_t)pmiwire_conn_output(conn, &out)) > 0 &&
               (n = write(pair[0], out, (size_t)n)) > 0)
            pmiwire_conn_sent(conn, (size_t)n);
        if (rc != 0)
            break;
    }
    pmiwire_conn_close(conn);
    pmiwire_server_destroy(server);
    wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

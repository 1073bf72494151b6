/* SPDX-License-Identifier: BSD-3-Clause */
/* A process writes a table and hands it to its child, who reads it in place. */
#include <shmht.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int writer(int sock)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 64 << 20};
    struct shmht_error err;
    struct shmht_desc desc;
    struct shmht_writer *w;
    char key[32], value[32];
    int rc = 0;

    if (shmht_writer_create(&opts, &w, &err) < 0)
        return fprintf(stderr, "writer: %s\n", err.text);
    for (int rank = 0; rc >= 0 && rank < 1000; rank++) {
        snprintf(key, sizeof(key), "mpi-addr-%d", rank);
        snprintf(value, sizeof(value), "lid %04x qp %04x", rank / 16, rank);
        rc = shmht_put(w, key, strlen(key), value, strlen(value) + 1);
    }
    if (rc >= 0)
        rc = shmht_fd_send(sock, shmht_writer_share(w, &desc), &desc);
    shmht_writer_destroy(w); /* or continue: the readers see it */
    return rc < 0 ? fprintf(stderr, "writer: %s\n", shmht_strerror(rc)) : 0;
}

static int reader(int sock)
{
    struct shmht_error err;
    struct shmht_bytes value;
    struct shmht_reader *r;
    struct shmht_desc desc;
    int fd = shmht_fd_recv(sock, &desc);

    if (fd < 0 || shmht_reader_attach(&desc, fd, NULL, &r, &err) < 0)
        return fprintf(stderr, "reader: %s\n", fd < 0 ? shmht_strerror(fd) : err.text);
    if (shmht_get(r, "mpi-addr-7", 10, &value) == 0)
        printf("rank 7 is at %s\n", (const char *)value.ptr); /* in place: no copy was made */
    shmht_reader_detach(r);
    return close(fd);
}

int main(void)
{
    int pair[2], status = 1;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return 1;
    if (fork() == 0)
        return close(pair[1]) != 0 || reader(pair[0]) != 0;
    if (writer(pair[1]) != 0)
        return 1;
    wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

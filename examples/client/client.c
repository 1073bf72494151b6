/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: the smallest PMI client. Start here to put PMI into a runtime of your own.
 *
 * Every rank puts its process id, enters the Fence, and gets its right neighbour's: from the job's
 * table in shared memory where the server (../server, pmirun) offers one, by its socket otherwise.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <pmiwire.h>
#include <shmht.h>

static struct pmiwire_client *pmi;
static int sock, table_fd = -1;

/* Receives bytes, and the descriptor that may come with them. */
static ssize_t receive_bytes(void *bytes, size_t n)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {bytes, n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};

    msg.msg_controllen = sizeof(control);
    ssize_t got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    if (got > 0 && CMSG_FIRSTHDR(&msg) && table_fd < 0)
        memcpy(&table_fd, CMSG_DATA(&control.head), sizeof(int));
    return got;
}

/* Moves bytes until the request that was made last is answered; rc is that of the request. */
static struct pmiwire_event wait_for(int rc)
{
    struct pmiwire_event event = {.rc = rc};
    char bytes[4096];
    const void *out;
    size_t n;

    while (rc == 0 && (rc = pmiwire_client_next(pmi, &event, NULL)) == 0) {
        while ((n = pmiwire_client_output(pmi, &out)) > 0 && write(sock, out, n) == (ssize_t)n)
            pmiwire_client_sent(pmi, n);
        ssize_t got = receive_bytes(bytes, sizeof(bytes));
        if (got > 0)
            pmiwire_client_input(pmi, bytes, (size_t)got);
        else
            pmiwire_client_eof(pmi);
    }
    if (rc < 0 || event.rc != 0) {
        fprintf(stderr, "client: %s\n", pmiwire_strerror(rc < 0 ? rc : event.rc));
        exit(1);
    }
    return event;
}

int main(void)
{
    struct pmiwire_client_opts opts = {.size = sizeof(opts), .flags = PMIWIRE_CLIENT_EXTENSIONS};
    struct shmht_reader *table = NULL;
    struct pmiwire_str own_space = {0}, value;
    struct pmiwire_info_client info;
    struct shmht_bytes found = {NULL, 0};
    struct shmht_desc desc;
    char key[32], text[32];

    if (!getenv("PMI_FD") || !getenv("PMI_RANK") || !getenv("PMI_SIZE"))
        return fprintf(stderr, "client: start me under a PMI launcher\n"), 1;
    sock = atoi(getenv("PMI_FD"));
    opts.rank = atoi(getenv("PMI_RANK"));
    opts.n_ranks = atoi(getenv("PMI_SIZE"));
    if (pmiwire_client_create(&opts, &pmi) != 0)
        return 1;
    wait_for(0); /* init, which every session begins with */
    pmiwire_client_query(pmi, &info);
    if (table_fd >= 0 && shmht_desc_parse(info.ext[PMIWIRE_EXT_TABLE].ptr,
                                          info.ext[PMIWIRE_EXT_TABLE].len, &desc) == 0)
        shmht_reader_attach(&desc, table_fd, NULL, &table, NULL);
    snprintf(key, sizeof(key), "pid-%d", opts.rank);
    snprintf(text, sizeof(text), "%d", (int)getpid());
    wait_for(pmiwire_client_put(pmi, pmiwire_strz(key), pmiwire_strz(text), PMIWIRE_HINT_NONE, 0));
    wait_for(pmiwire_client_fence(pmi, own_space, 0));
    snprintf(key, sizeof(key), "pid-%d", (opts.rank + 1) % opts.n_ranks);
    if (table && shmht_get(table, key, strlen(key), &found) == 0)
        value = (struct pmiwire_str){found.ptr, found.len - 1}; /* without its NUL */
    else
        value = wait_for(
                    pmiwire_client_get(pmi, own_space, -1, pmiwire_strz(key), PMIWIRE_GET_LOCAL, 0))
                    .value;
    printf("rank %d of %d: %s is %.*s, %s\n", opts.rank, opts.n_ranks, key, (int)value.len,
           value.ptr, value.ptr == found.ptr ? "read from shared memory" : "read from the server");
    wait_for(pmiwire_client_finalize(pmi, 0));
    shmht_reader_detach(table);
    pmiwire_client_destroy(pmi);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The paper's PE 0: it registers memory, says where, and takes no further part. (With UCX it has to
 * take in what UCX sends it.) */
#define _GNU_SOURCE
#include "asymput.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct memory {
    int fd;
    size_t bytes;
    char *one, *many;
    asymreg_id one_id;
    asymreg_id *ids;
    uint64_t n;
};

static void release_memory(struct asymreg_context *ctx, struct memory *m, bool segments)
{
    for (uint64_t i = 0; i < m->n; i++)
        asymreg_unregister(ctx, m->ids[i]);
    if (m->one_id)
        asymreg_unregister(ctx, m->one_id);
    if (m->many && segments)
        asymreg_segment_remove(ctx, m->many);
    if (m->one)
        munmap(m->one, m->bytes);
    if (m->many)
        munmap(m->many, m->bytes);
    if (m->fd >= 0)
        close(m->fd);
    free(m->ids);
    memset(m, 0, sizeof(*m));
    m->fd = -1;
}

/* Maps one piece of memory twice. */
static int map_memory(struct memory *m, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    m->bytes = (size_t)((bytes + page - 1) / page * page);
    m->fd = memfd_create("asymput", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (m->fd < 0 || ftruncate(m->fd, (off_t)m->bytes) < 0)
        return -errno;
    /* Sealed against shortening, peers may map it. */
    if (fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
        return -errno;
    m->one = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (m->one == MAP_FAILED) {
        m->one = NULL;
        return -errno;
    }
    m->many = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    if (m->many == MAP_FAILED) {
        m->many = NULL;
        return -errno;
    }
    return 0;
}

static int provide_memory(struct asymreg_context *ctx, const struct request *r, bool segments,
                          struct memory *m, struct reply *reply)
{
    struct asymreg_register_opts opts = {.size = sizeof(opts), .flags = ASYMREG_FD};
    uint64_t begin;
    int rc = map_memory(m, r->n * r->block);

    if (rc < 0)
        return rc;
    m->ids = calloc(r->n, sizeof(*m->ids));
    if (!m->ids)
        return -ENOMEM;
    opts.fd = m->fd;
    rc = asymreg_register(ctx, m->one, m->bytes, ASYMREG_RW, segments ? &opts : NULL, &m->one_id,
                          NULL);
    opts.flags |= ASYMREG_SEGMENT; /* of many regions */
    if (rc == 0 && segments)
        rc = asymreg_register(ctx, m->many, m->bytes, ASYMREG_RW, &opts, NULL, NULL);
    begin = now_ns();
    for (; rc == 0 && m->n < r->n; m->n++)
        rc = asymreg_register(ctx, m->many + m->n * r->block, (size_t)r->block, ASYMREG_RW, NULL,
                              &m->ids[m->n], NULL);
    reply->register_ns = (double)(now_ns() - begin) / (double)r->n;
    reply->one = (uintptr_t)m->one;
    reply->many = (uintptr_t)m->many;
    return rc;
}

void run_server(const struct options *o, int sock)
{
    struct asymreg_context *ctx = open_context(o);
    bool helps = strcmp(o->transport, "ucx") == 0, segments = strcmp(o->transport, "cma") != 0;
    struct asymreg_worker *worker;
    struct memory memory = {.fd = -1};
    struct hello hello = {0};
    struct request request;
    ssize_t n = asymreg_export(ctx, hello.blob, sizeof(hello.blob), NULL);
    int rc = asymreg_worker_create(ctx, &worker);

    if (n < 0 || rc < 0)
        fail("asymreg_export", n < 0 ? (int)n : rc);
    hello.blob_bytes = (uint64_t)n;
    send_all(sock, &hello, sizeof(hello));
    for (;;) {
        struct pollfd p = {.fd = sock, .events = POLLIN};
        struct reply reply = {0};

        while (helps && poll(&p, 1, 0) == 0) {
            for (int i = 0; i < 64; i++)
                asymreg_progress(worker);
            sched_yield(); /* the client may need this processor */
        }
        if (!receive_all(sock, &request, sizeof(request)) || request.n == 0)
            break;
        release_memory(ctx, &memory, segments && memory.n > 0);
        reply.error = provide_memory(ctx, &request, segments, &memory, &reply);
        send_all(sock, &reply, sizeof(reply));
        if (reply.error < 0)
            break;
    }
    release_memory(ctx, &memory, segments && memory.n > 0);
    asymreg_worker_destroy(worker);
    asymreg_close(ctx);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* subject_shmht memfd|named: a table that grows and is rebuilt, its readers, blocks, compaction,
 * resumption, an array. */
#define _GNU_SOURCE
#include "subject.h"

#include <shmht.h>
#include <sys/socket.h>
#include <unistd.h>

#define N 400u

static uint32_t flags;

struct things {
    struct shmht_writer *w, *w2, *compact;
    struct shmht_reader *r;
    struct shmht_array *a, *view;
    int pair[2], fd;
    char *block;
};

static int failed(const char *what, int rc)
{
    fprintf(stderr, "subject_shmht: %s: %s\n", what,
            rc > -4096 ? strerror(-rc) : shmht_strerror(rc));
    return rc;
}

static void pair_of(uint32_t i, char *key, char *value)
{
    sprintf(key, "key-%u", i);
    sprintf(value, "%0*u", (int)(10 + i % 300), i);
}

/* The table has exactly the first n pairs, with the right values. */
static void look(const struct shmht_reader *r, uint32_t n)
{
    struct shmht_bytes found, key_found;
    struct shmht_iter it = {0};
    char key[32], value[400];
    uint32_t seen = 0;

    for (uint32_t i = 0; i < N; i++) {
        int rc;

        pair_of(i, key, value);
        rc = shmht_get(r, key, strlen(key), &found);
        if (rc ==
            SHMHT_ECORRUPT) /* fstat() has failed, so it could not see that the object has grown */
            rc = shmht_get(r, key, strlen(key), &found);
        if (i < n)
            CHECK(rc == 0 && found.len == strlen(value) + 1 &&
                  memcmp(found.ptr, value, found.len) == 0);
        else
            CHECK(rc == SHMHT_ENOENT);
    }
    while (shmht_reader_next(r, &it, &key_found, &found) == 1)
        seen++;
    CHECK(seen == n);
}

static int fill(struct shmht_writer *w, const struct shmht_reader *r)
{
    char key[32], value[400];
    int rc, first = 0;

    for (uint32_t i = 0; i < N; i++) {
        pair_of(i, key, value);
        rc = shmht_put(w, key, strlen(key), value, strlen(value) + 1);
        if (rc < 0) { /* unchanged, so another try may succeed */
            look(shmht_writer_view(w), i);
            if (r)
                look(r, i);
            if (first)
                return failed("put", rc);
            first = failed("put", rc);
            i--;
        }
    }
    look(shmht_writer_view(w), N);
    return first;
}

static int attach(struct things *t)
{
    struct shmht_desc desc, got;
    int rc, fd = shmht_writer_share(t->w, &desc);

    if (fd < 0)
        return failed("share", fd);
    if (flags & SHMHT_NAMED) {
        rc = shmht_reader_attach(&desc, -1, NULL, &t->r, NULL);
        return rc < 0 ? failed("attach", rc) : 0;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, t->pair) != 0) {
        perror("subject_shmht: socketpair");
        return -1;
    }
    rc = shmht_fd_send(t->pair[0], fd, &desc);
    if (rc < 0)
        return failed("send", rc);
    close(t->pair[0]);
    t->pair[0] = -1;
    t->fd = rc = shmht_fd_recv(t->pair[1], &got);
    if (rc < 0)
        return failed("recv", rc);
    rc = shmht_reader_attach(&got, t->fd, NULL, &t->r, NULL);
    return rc < 0 ? failed("attach", rc) : 0;
}

static int blocks(struct things *t, const struct shmht_writer_opts *opts)
{
    struct shmht_merged merged;
    struct shmht_iter it = {0};
    ssize_t n;
    int rc;

    t->block = malloc(1 << 20);
    if (!t->block)
        return failed("malloc", -12);
    n = shmht_reader_export(t->r, &it, t->block, 1 << 20);
    CHECK(n > 0);
    rc = shmht_writer_create(opts, &t->w2, NULL);
    if (rc < 0)
        return failed("create", rc);
    rc = shmht_writer_merge(t->w2, t->block, (size_t)n, &merged);
    if (rc < 0) {
        look(shmht_writer_view(t->w2), 0);
        return failed("merge", rc);
    }
    CHECK(merged.n_new == N);
    look(shmht_writer_view(t->w2), N);
    rc = shmht_writer_compact(t->w2, NULL, &t->compact, NULL);
    look(shmht_writer_view(t->w2), N);
    if (rc < 0)
        return failed("compact", rc);
    look(shmht_writer_view(t->compact), N);
    return 0;
}

static int array(struct things *t)
{
    struct shmht_array_opts opts = {
        .size = sizeof(opts), .n_ranks = 1000, .stride_bytes = 24, .flags = flags};
    struct shmht_bytes v;
    struct shmht_desc desc;
    int rc = shmht_array_create(&opts, &t->a, NULL);

    if (rc < 0)
        return failed("array", rc);
    for (uint64_t i = 0; i < opts.n_ranks; i++)
        CHECK(shmht_array_put(t->a, i, &i, sizeof(i)) == 0);
    rc = shmht_array_share(t->a, &desc);
    if (rc >= 0)
        rc = shmht_array_attach(&desc, flags & SHMHT_NAMED ? -1 : rc, NULL, &t->view, NULL);
    if (rc < 0)
        return failed("attach to an array", rc);
    for (uint64_t i = 0; i < opts.n_ranks; i++)
        CHECK(shmht_array_get(t->view, i, &v) == 0 && memcmp(v.ptr, &i, sizeof(i)) == 0);
    return 0;
}

static void release(struct things *t)
{
    shmht_reader_detach(t->r);
    shmht_writer_destroy(t->compact);
    shmht_writer_destroy(t->w2);
    shmht_writer_destroy(t->w);
    shmht_array_detach(t->view);
    shmht_array_destroy(t->a);
    free(t->block);
    for (int i = 0; i < 2; i++)
        if (t->pair[i] >= 0)
            close(t->pair[i]);
    if (t->fd >= 0)
        close(t->fd);
}

static int once(void)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 64 << 20, .flags = flags};
    struct things t = {.pair = {-1, -1}, .fd = -1};
    int rc = shmht_writer_create(&opts, &t.w, NULL);

    if (rc < 0)
        failed("create", rc);
    if (rc == 0)
        rc = attach(&t);
    if (rc == 0)
        rc = fill(t.w, t.r);
    if (rc == 0)
        look(t.r, N);
    if (rc == 0)
        rc = blocks(&t, &opts);
    if (rc == 0)
        rc = array(&t);
    release(&t);
    return rc;
}

int main(int argc, char **argv)
{
    flags = argc > 1 && strcmp(argv[1], "named") == 0 ? SHMHT_NAMED : 0;
    return subject_run(once, 1);
}

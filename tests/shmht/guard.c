/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients cannot write. Tries every way to write through a client's descriptor, as this user and,
 * if this is root, as user 65534 too: mapping for writing, mprotect(), write(), ftruncate(),
 * fallocate() and its hole punching, MADV_REMOVE, seals, reopening through /proc/self/fd. After
 * each the table must be unchanged, and the writer must still be able to grow it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

/* Attacks that need a writable descriptor: another user must not even get one. */
static void with_writable(int fd, size_t bytes)
{
    char byte = 'x';

    CHECK(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(mmap(NULL, bytes, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
    CHECK(pwrite(fd, &byte, 1, 0) < 0);
    CHECK(ftruncate(fd, 4096) < 0);
    CHECK(ftruncate(fd, 0) < 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
}

static void attack(int fd, int other_user)
{
    char path[64];
    struct stat st;
    unsigned char *p;
    void *q;
    int again;

    CHECK(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0400);
    with_writable(fd, (size_t)st.st_size);
    p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && memcmp(p, "SHMHTRGN", 8) == 0);
    CHECK(mprotect(p, 4096, PROT_READ | PROT_WRITE) < 0);
    CHECK(madvise(p, 4096, MADV_REMOVE) < 0);
    q = mremap(p, (size_t)st.st_size, (size_t)st.st_size * 2, MREMAP_MAYMOVE);
    CHECK(q != MAP_FAILED);
    CHECK(mprotect(q, 4096, PROT_READ | PROT_WRITE) < 0);
    CHECK(fallocate(fd, 0, 0, st.st_size * 2) < 0);
    CHECK(ftruncate(fd, st.st_size * 2) < 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR);
    if (other_user) {
        CHECK(again < 0 && (errno == EACCES || errno == EPERM));
        CHECK(open(path, O_WRONLY) < 0);
        CHECK(open(path, O_RDONLY | O_TRUNC) < 0);
        CHECK(fchmod(fd, 0600) < 0);
    } else if (again >= 0) {
        /* Root may open anything, and the owner may change the mode first: the seals still hold. */
        with_writable(again, (size_t)st.st_size);
        close(again);
    }
    CHECK(memcmp(q, "SHMHTRGN", 8) == 0);
}

/* Runs attack() in a child, as another user if uid is not 0. */
static void in_child(int fd, uid_t uid)
{
    pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (pid == 0) {
        if (uid != 0)
            CHECK(setgid(uid) == 0 && setuid(uid) == 0 && setuid(0) < 0);
        attack(fd, uid != 0);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A client of another user attaches and reads, but cannot open a named object of another user.
 * */
static void reads_as(int fd, const struct shmht_desc *desc, uid_t uid)
{
    pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (pid == 0) {
        struct shmht_reader *r;
        struct shmht_bytes value;

        CHECK(setgid(uid) == 0 && setuid(uid) == 0);
        CHECK(shmht_reader_attach(desc, fd, NULL, &r, NULL) == 0);
        CHECK(shmht_get(r, "key", 3, &value) == 0 && value.len == 5);
        shmht_reader_detach(r);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* What a child's calls of its parent's writers return: they have no mapping there. */
static void refused_in_child(struct shmht_writer *w, struct shmht_array *a)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20};
    struct shmht_bytes value;
    struct shmht_writer *own;
    struct shmht_desc desc;
    char block[256];
    struct shmht_iter it = {0};
    ssize_t n;

    CHECK(shmht_put(w, "key", 3, "other", 5) == -EPERM);
    CHECK(shmht_writer_get(w, "key", 3, &value) == -EPERM && !value.ptr);
    CHECK(shmht_writer_reserve(w, 1 << 20) == -EPERM);
    CHECK(shmht_writer_publish(w) == -EPERM);
    CHECK(shmht_writer_compact(w, NULL, &own, NULL) == -EPERM);
    CHECK(shmht_writer_share(w, &desc) == -EPERM);
    CHECK(shmht_array_put(a, 7, "v", 1) == -EPERM && shmht_array_share(a, &desc) == -EPERM);
    CHECK(shmht_writer_create(&opts, &own, NULL) == 0);
    CHECK(shmht_put(own, "mine", 4, "v", 1) == SHMHT_PUT_NEW);
    n = shmht_reader_export(shmht_writer_view(own), &it, block, sizeof(block));
    CHECK(n > 0 && shmht_writer_merge(w, block, (size_t)n, NULL) == -EPERM);
    shmht_writer_destroy(own);
}

/* The writer's forked children do not inherit its mapping. */
static void not_inherited(struct shmht_writer *w, struct shmht_array *a)
{
    unsigned char page[1];
    struct shmht_bytes value;

    CHECK(shmht_get(shmht_writer_view(w), "key", 3, &value) == 0);
    pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (pid == 0) {
        refused_in_child(w, a);
        _exit(mincore((void *)((uintptr_t)value.ptr & ~(uintptr_t)4095), 1, page) < 0 &&
                      errno == ENOMEM
                  ? 0
                  : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 16 << 20};
    struct shmht_array_opts aopts = {.size = sizeof(aopts), .n_ranks = 1000, .stride_bytes = 32};
    struct shmht_stats stats;
    struct shmht_writer *w;
    struct shmht_array *a;
    struct shmht_desc desc;

    CHECK(shmht_writer_create(&opts, &w, NULL) == 0 && shmht_array_create(&aopts, &a, NULL) == 0);
    CHECK(shmht_writer_share(w, &desc) >= 0);
    CHECK(shmht_put(w, "key", 3, "value", 5) == 0);
    CHECK(shmht_reader_stats(shmht_writer_view(w), &stats) == 0);
    if (stats.notes & SHMHT_NOTE_NO_SEALS) {
        printf("skip: this kernel has no F_SEAL_FUTURE_WRITE (Linux 5.1)\n");
        return 77;
    }
    in_child(shmht_writer_share(w, NULL), 0);
    in_child(shmht_array_share(a, NULL), 0);
    not_inherited(w, a);
    for (uint64_t i = 0; i < 50000; i++) /* the writer itself can still write and grow */
        CHECK(shmht_put(w, &i, sizeof(i), &i, sizeof(i)) == 0);
    in_child(shmht_writer_share(w, NULL), 0);
    if (geteuid() != 0) {
        printf("skip: needs root to be another user; as this one, all of it held\n");
        return 77;
    }
    in_child(shmht_writer_share(w, NULL), 65534);
    in_child(shmht_array_share(a, NULL), 65534);
    reads_as(shmht_writer_share(w, NULL), &desc, 65534);
    shmht_array_destroy(a);
    shmht_writer_destroy(w);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * subject_asymreg shm|cma: a target that registers memory and an initiator that reaches it. An
 * operation that reports success has taken effect; a peer that was not reachable in the first round
 * is in the second.
 */
#define _GNU_SOURCE
#include "subject.h"

#include <asymreg.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 8192u

struct card {
    uint64_t addr;
    asymreg_id id;
    int64_t blob_bytes; /* or an error */
    char blob[ASYMREG_MAX_BLOB_BYTES];
};

static uint32_t way;

static int failed(const char *what, int rc)
{
    fprintf(stderr, "subject_asymreg: %s: %s\n", what, asymreg_strerror(rc));
    return rc;
}

static int get_all(int fd, void *to, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, (char *)to + at, n - at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        at += (size_t)got;
    }
    return 0;
}

static int put_all(int fd, const void *from, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t put = write(fd, (const char *)from + at, n - at);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return -1;
        at += (size_t)put;
    }
    return 0;
}

/* Registers memory, publishes its address, waits until the initiator has written. */
static int target(int out, int in)
{
    struct asymreg_local_opts local = {.size = sizeof(local), .flags = way};
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = 64};
    struct asymreg_context *ctx = NULL;
    static struct card card;
    void *p = NULL;
    char end;
    int rc;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rc = asymreg_local_create(&local, &opts.transport, NULL);
    if (rc == 0)
        rc = asymreg_open(&opts, &ctx, NULL);
    if (rc == 0)
        rc = asymreg_segment_alloc(ctx, BYTES, &p, NULL);
    if (rc == 0)
        rc = asymreg_register(ctx, p, BYTES, ASYMREG_ALL, NULL, &card.id, NULL);
    card.addr = (uintptr_t)p;
    card.blob_bytes = rc;
    if (rc == 0) {
        memset(p, 'a', BYTES);
        card.blob_bytes = asymreg_export(ctx, card.blob, sizeof(card.blob), NULL);
    }
    if (card.blob_bytes < 0)
        failed("target", (int)card.blob_bytes);
    if (put_all(out, &card, sizeof(card)) != 0)
        perror("subject_asymreg: the target cannot write");
    else if (card.blob_bytes >= 0)
        (void)!read(in, &end, 1);
    asymreg_close(ctx);
    return card.blob_bytes < 0;
}

static int operations(struct asymreg_worker *me, const struct card *card)
{
    char buf[3000], seen[3000];
    int rc;

    memset(buf, 'b', sizeof(buf));
    rc = asymreg_put(me, 1, card->addr + 100, card->id, buf, sizeof(buf));
    if (rc == 0)
        rc = asymreg_flush(me, 1);
    if (rc < 0)
        return failed("put", rc);
    rc = asymreg_get(me, 1, card->addr + 100, card->id, seen, sizeof(seen));
    if (rc < 0)
        return failed("get", rc);
    if (memcmp(buf, seen, sizeof(buf)) != 0)
        WRONG("what was put is not there");
    rc = asymreg_get(me, 1, card->addr, card->id, seen, 100);
    if (rc < 0)
        return failed("get", rc);
    for (int i = 0; i < 100; i++)
        CHECK(seen[i] == 'a');
    rc = asymreg_get(me, 1, card->addr + BYTES, card->id, seen, 1);
    CHECK(rc < 0);
    return 0;
}

static int initiator(const struct card *card)
{
    struct asymreg_local_opts local = {.size = sizeof(local), .flags = way};
    struct asymreg_opts opts = {.size = sizeof(opts), .max_regions = 64};
    struct asymreg_context *ctx = NULL;
    struct asymreg_worker *me = NULL;
    int rc, again;

    rc = asymreg_local_create(&local, &opts.transport, NULL);
    if (rc == 0)
        rc = asymreg_open(&opts, &ctx, NULL);
    if (rc < 0)
        return failed("open", rc);
    rc = again = asymreg_import(ctx, 1, card->blob, (size_t)card->blob_bytes, NULL);
    if (rc < 0) {
        failed("import", rc);
        again = asymreg_import(ctx, 1, card->blob, (size_t)card->blob_bytes, NULL);
    }
    if (again == 0)
        again = asymreg_worker_create(ctx, &me);
    if (again < 0) {
        failed("worker", again);
        rc = rc ? rc : again;
    } else {
        again = operations(me, card);
        if (again < 0)
            operations(me, card);
        rc = rc ? rc : again;
    }
    asymreg_worker_destroy(me);
    asymreg_close(ctx);
    return rc;
}

static int once(void)
{
    int there[2] = {-1, -1}, back[2] = {-1, -1}, status = 0, rc = -1;
    static struct card card;
    pid_t pid = -1;

    if (pipe2(there, O_CLOEXEC) != 0 || pipe2(back, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        perror("subject_asymreg: pipes and a process");
    } else if (pid == 0) {
        close(there[0]);
        close(back[1]);
        _exit(target(there[1], back[0]));
    } else {
        close(there[1]);
        there[1] = -1;
        if (get_all(there[0], &card, sizeof(card)) != 0)
            fprintf(stderr, "subject_asymreg: the target says nothing\n");
        else if (card.blob_bytes >= 0)
            rc = initiator(&card);
    }
    for (int i = 0; i < 2; i++) {
        if (there[i] >= 0)
            close(there[i]);
        if (back[i] >= 0)
            close(back[i]);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return rc;
}

int main(int argc, char **argv)
{
    way = argc > 1 && strcmp(argv[1], "cma") == 0 ? ASYMREG_LOCAL_CMA : ASYMREG_LOCAL_SHM;
    return subject_run(once, 0);
}

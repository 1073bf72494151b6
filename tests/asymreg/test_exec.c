/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A target that calls exec() keeps its process id and start time but runs another program: its
 * peers neither read nor write that program's memory, and report that the target has gone. A
 * target's child is no target either. test_exec --victim ADDRESS READY GO is the other program.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <poll.h>

#define BYTES  65536u
#define SECRET "SECRET OF ANOTHER PROGRAM"
/* Where no program has its own memory. */
#if UINTPTR_MAX > UINT32_MAX
#define ADDRESS 0x7ea000000000u
#else
#define ADDRESS 0x7ea00000u
#endif

static const char *self;

/* At an address where another program can have memory too. */
static char *memory_at(uintptr_t address)
{
    char *want = (char *)address;
    char *p = mmap(want, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == want ? p : NULL;
}

/* Maps the same address, waits, and reports whether the memory is unchanged. */
static int victim(char **argv)
{
    char *p = memory_at((uintptr_t)strtoull(argv[2], NULL, 16)), c = 0;
    int ready = atoi(argv[3]), go = atoi(argv[4]);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CHECK(p != NULL);
    for (size_t i = 0; i < BYTES; i += 64)
        strcpy(p + i, SECRET);
    CHECK(write(ready, "r", 1) == 1);
    CHECK(read(go, &c, 1) == 1);
    for (size_t i = 0; i < BYTES; i += 64)
        if (strcmp(p + i, SECRET) != 0) {
            fprintf(stderr, "another program's memory was written: %.30s\n", p + i);
            return 1;
        }
    return 0;
}

struct hello {
    uint64_t addr;
    ssize_t blob_bytes;
    char blob[ASYMREG_MAX_BLOB_BYTES];
};

struct child {
    pid_t pid;
    int ready[2], go[2]; /* pipes */
    struct hello hello;
};

/* Registers memory, and becomes another program on request. */
static void target(struct child *ch, uint32_t mode)
{
    char address[32], ready[16], go[16], c;
    struct asymreg_context *ctx = open_context(mode, 0, 64);
    void *p = memory_at(ADDRESS);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mode == ASYMREG_LOCAL_SHM && p) {
        munmap(p, BYTES);
        CHECK_EQ(asymreg_segment_alloc(ctx, BYTES, &p, NULL), 0);
    }
    ch->hello.addr = (uintptr_t)p;
    ch->hello.blob_bytes = asymreg_export(ctx, ch->hello.blob, sizeof(ch->hello.blob), NULL);
    if (p)
        CHECK_EQ(asymreg_register(ctx, p, BYTES, ASYMREG_RW, NULL, NULL, NULL), 0);
    CHECK(write(ch->ready[1], &ch->hello, sizeof(ch->hello)) == sizeof(ch->hello));
    CHECK(read(ch->go[0], &c, 1) == 1);
    snprintf(address, sizeof(address), "%llx", (unsigned long long)ADDRESS);
    snprintf(ready, sizeof(ready), "%d", ch->ready[1]);
    snprintf(go, sizeof(go), "%d", ch->go[0]);
    execl(self, self, "--victim", address, ready, go, (char *)NULL);
    _exit(3);
}

static void start(struct child *ch, uint32_t mode)
{
    CHECK(pipe(ch->ready) == 0 && pipe(ch->go) == 0);
    if ((ch->pid = fork()) == 0)
        target(ch, mode);
    CHECK(ch->pid > 0);
    close(ch->ready[1]);
    close(ch->go[0]);
    for (size_t n = 0; n < sizeof(ch->hello);) {
        ssize_t got = read(ch->ready[0], (char *)&ch->hello + n, sizeof(ch->hello) - n);
        CHECK(got > 0);
        n += (size_t)got;
    }
    if (!ch->hello.addr) {
        kill(ch->pid, SIGKILL);
        printf("skip: no memory at %#llx\n", (unsigned long long)ADDRESS);
        exit(77);
    }
}

static void finish(struct child *ch)
{
    int status;

    CHECK(write(ch->go[1], "x", 1) == 1);
    CHECK(waitpid(ch->pid, &status, 0) == ch->pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ch->ready[0]);
    close(ch->go[1]);
}

/* Operations before, during and after the exec: from some moment on each returns ASYMREG_EPEER. */
static void becomes_another_program(uint32_t mode)
{
    struct asymreg_context *ctx = open_context(mode, 0, 64);
    struct pollfd ready = {.events = POLLIN};
    struct asymreg_worker *w;
    struct child ch;
    char buf[64], c;
    int rc = 0, after = 0;
    double deadline;

    start(&ch, mode);
    ready.fd = ch.ready[0];
    CHECK_EQ(asymreg_import(ctx, 1, ch.hello.blob, (size_t)ch.hello.blob_bytes, NULL), 0);
    CHECK_EQ(asymreg_worker_create(ctx, &w), 0);
    CHECK_EQ(asymreg_put(w, 1, ch.hello.addr, ASYMREG_ANY, "mine", 5), 0);
    CHECK(write(ch.go[1], "x", 1) == 1);
    deadline = now() + 30;
    for (unsigned i = 0; !after || rc == 0; i++) {
        memset(buf, 0, sizeof(buf));
        rc = i % 2 ? asymreg_put(w, 1, ch.hello.addr + 64 * (i % 1000), ASYMREG_ANY, "mine", 5)
                   : asymreg_get(w, 1, ch.hello.addr, ASYMREG_ANY, buf, sizeof(buf));
        CHECK(rc == 0 || rc == ASYMREG_EPEER);
        CHECK(strncmp(buf, "SECRET", 6) != 0);
        after = after || poll(&ready, 1, 0) == 1;
        CHECK(now() < deadline);
    }
    CHECK(read(ch.ready[0], &c, 1) == 1 && c == 'r');
    CHECK_EQ(asymreg_get(w, 1, ch.hello.addr, ASYMREG_ANY, buf, 8), ASYMREG_EPEER);
    CHECK_EQ(asymreg_put(w, 1, ch.hello.addr, ASYMREG_ANY, "mine", 5), ASYMREG_EPEER);
    CHECK_EQ(asymreg_flush(w, 1), ASYMREG_EPEER);
    CHECK_EQ(asymreg_import(ctx, 2, ch.hello.blob, (size_t)ch.hello.blob_bytes, NULL),
             ASYMREG_EPEER);
    asymreg_worker_destroy(w);
    asymreg_close(ctx);
    finish(&ch);
}

/* In a child, calls that would change the published state are refused; the parent's table is
 * unchanged. */
static void a_child_changes_nothing(uint32_t mode)
{
    struct asymreg_context *ctx =
        open_context(mode, mode & ASYMREG_LOCAL_SHM ? ASYMREG_DRAIN : 0, 64);
    struct asymreg_stats before = {.size = sizeof(before)}, after = before;
    struct asymreg_worker *w, *another;
    struct asymreg_error err = {0};
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n;
    asymreg_id id;
    void *p, *q;
    int status;
    pid_t pid;

    CHECK_EQ(asymreg_segment_alloc(ctx, 8192, &p, NULL), 0);
    CHECK_EQ(asymreg_register(ctx, p, 4096, ASYMREG_RW, NULL, &id, NULL), 0);
    CHECK((n = asymreg_export(ctx, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_import(ctx, 1, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(ctx, &w), 0);
    CHECK_EQ(asymreg_context_stats(ctx, &before), 0);
    if ((pid = fork()) == 0) {
        CHECK_EQ(asymreg_register(ctx, (char *)p + 4096, 10, ASYMREG_RW, NULL, NULL, &err), -EPERM);
        CHECK(err.code == -EPERM && strstr(err.text, "another process"));
        CHECK_EQ(asymreg_unregister(ctx, id), -EPERM);
        CHECK_EQ(asymreg_unregister_drain(ctx, id, 1, NULL), -EPERM);
        CHECK_EQ(asymreg_unregister_drain(ctx, ASYMREG_ANY, 1, NULL), -EPERM);
        CHECK_EQ(asymreg_segment_alloc(ctx, 4096, &q, NULL), -EPERM);
        CHECK_EQ(asymreg_register(ctx, &status, 4, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
                 -EPERM);
        CHECK_EQ(asymreg_segment_remove(ctx, p), -EPERM);
        CHECK_EQ(asymreg_import(ctx, 2, blob, (size_t)n, NULL), -EPERM);
        CHECK_EQ(asymreg_forget(ctx, 1), -EPERM);
        CHECK_EQ(asymreg_worker_create(ctx, &another), -EPERM);
        asymreg_worker_destroy(w);
        asymreg_close(ctx);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(asymreg_context_stats(ctx, &after), 0);
    CHECK_EQ(after.n_regions, before.n_regions);
    CHECK_EQ(asymreg_put(w, 1, (uintptr_t)p, id, "still here", 11), 0);
    CHECK_EQ(asymreg_flush(w, 1), 0);
    CHECK_EQ(asymreg_unregister(ctx, id), 0);
    asymreg_worker_destroy(w);
    asymreg_close(ctx);
}

int main(int argc, char **argv)
{
    enum { TIMES = 5 };

    self = argv[0];
    if (argc == 5 && strcmp(argv[1], "--victim") == 0)
        return victim(argv);
    for (int i = 0; i < TIMES; i++) {
        becomes_another_program(ASYMREG_LOCAL_CMA);
        becomes_another_program(ASYMREG_LOCAL_SHM);
    }
    a_child_changes_nothing(ASYMREG_LOCAL_SHM);
    a_child_changes_nothing(ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA);
    puts("exec and fork");
    return 0;
}

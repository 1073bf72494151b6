/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * [--no-pidfd=ENOSYS|EPERM]: descriptors that contexts send, keep and close; peers that /proc
 * hides; children that close their parent's descriptors; and a context's limits.
 */
#define _GNU_SOURCE
#include "targets.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#define PE 7u

/* Peers that may not trace each other: nothing works until the descriptors have been sent. */
static void descriptors_by_message(void)
{
    struct target t;
    struct asymreg_context *ctx;
    struct asymreg_worker *me;
    struct answer a;
    int status;
    char c;

    fflush(stdout);
    if (fork() == 0) {
        if (getuid() == 0)
            CHECK(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
        target_start_as(&t, ASYMREG_LOCAL_SHM, 1);
        ctx = open_context(ASYMREG_LOCAL_SHM, 0, 0);
        struct asymreg_error err = {0};
        CHECK_EQ(asymreg_import(ctx, PE, t.blob, t.blob_bytes, &err), ASYMREG_EUNREACH);
        CHECK_EQ(err.code, ASYMREG_EUNREACH);
        CHECK_EQ(err.pe, PE);
        CHECK(strstr(err.text, "descriptor") != NULL);
        /* the reason and a remedy, also where CMA was tried after the descriptor */
        struct asymreg_context *both = open_context(0, 0, 0);
        CHECK_EQ(asymreg_import(both, PE, t.blob, t.blob_bytes, &err), ASYMREG_EUNREACH);
        CHECK(strstr(err.text, "no right to trace") && strstr(err.text, "asymreg_fds_send"));
        asymreg_close(both);
        a = tell(&t, (struct order){
                         .what = REGISTER, .kind = SHARED, .bytes = 4096, .prot = ASYMREG_RW});
        CHECK_EQ(a.rc, 0);
        struct order o = {.what = SEND_FDS};
        send_all(t.sock, &o, sizeof(o));
        CHECK_EQ(asymreg_fds_recv(ctx, t.sock), 2); /* the table, and the segment */
        struct answer sent;
        CHECK(recv_all(t.sock, &sent, sizeof(sent)) == 0);
        CHECK_EQ(sent.rc, 2);
        CHECK_EQ(asymreg_import(ctx, PE, t.blob, t.blob_bytes, NULL), 0);
        CHECK_EQ(asymreg_worker_create(ctx, &me), 0);
        CHECK_EQ(asymreg_put(me, PE, a.addr, a.id, "x", 1), 0);
        CHECK_EQ(tell(&t, (struct order){.what = LOOK, .addr = a.addr}).value, 'x');
        CHECK_EQ(asymreg_get(me, PE, a.addr, a.id, &c, 1), 0);
        /* One registered later has not been sent. */
        a = tell(&t, (struct order){
                         .what = REGISTER, .kind = SHARED, .bytes = 4096, .prot = ASYMREG_RW});
        CHECK_EQ(asymreg_put(me, PE, a.addr, a.id, "x", 1), ASYMREG_EUNREACH);
        send_all(t.sock, &o, sizeof(o));
        CHECK_EQ(asymreg_fds_recv(ctx, t.sock), 1); /* it alone is new */
        CHECK(recv_all(t.sock, &sent, sizeof(sent)) == 0);
        CHECK_EQ(sent.rc, 3);
        CHECK_EQ(asymreg_put(me, PE, a.addr, a.id, "x", 1), 0);
        asymreg_worker_destroy(me);
        asymreg_close(ctx);
        target_end(&t);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("descriptors_by_message");
}

static int n_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Received descriptors that are not kept are closed: of a message with two, and of one received
 * before. */
static void descriptors_not_kept(void)
{
    struct asymreg_context *sender = open_context(ASYMREG_LOCAL_SHM, 0, 0),
                           *ctx = open_context(ASYMREG_LOCAL_SHM, 0, 0);
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_RIGHTS,
                            .cmsg_len = CMSG_LEN(2 * sizeof(int))}};
    char bytes[40] = {0};
    struct iovec iov = {bytes, sizeof(bytes)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    int pair[2], file, ro, open_now;
    char path[] = "/tmp/asymreg-test-XXXXXX";
    void *p;

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    memcpy(CMSG_DATA(&control.header), pair, 2 * sizeof(int));
    open_now = n_descriptors();
    CHECK(sendmsg(pair[0], &msg, 0) == (ssize_t)sizeof(bytes));
    CHECK_EQ(asymreg_fds_recv(ctx, pair[1]), ASYMREG_EBLOB);
    CHECK_EQ(n_descriptors(), open_now);

    /* A message without the magic, else whole. */
    CHECK_EQ(asymreg_fds_send(sender, pair[0]), 1);
    msg.msg_controllen = sizeof(control.bytes);
    CHECK(recvmsg(pair[1], &msg, 0) == (ssize_t)sizeof(bytes));
    bytes[0] ^= 1;
    CHECK(sendmsg(pair[0], &msg, 0) == (ssize_t)sizeof(bytes));
    memcpy(&file, CMSG_DATA(&control.header), sizeof(file));
    close(file);
    CHECK_EQ(asymreg_fds_recv(ctx, pair[1]), ASYMREG_EBLOB);
    CHECK_EQ(n_descriptors(), open_now);

    /* One file twice: first for reading alone. */
    CHECK((file = mkstemp(path)) >= 0 && (ro = open(path, O_RDONLY)) >= 0 &&
          ftruncate(file, 8192) == 0 && unlink(path) == 0);
    CHECK((p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) != MAP_FAILED);
    CHECK_EQ(asymreg_register(sender, p, 4096, ASYMREG_READ, SEGMENT_OF(0, ro, 0), NULL, NULL), 0);
    CHECK_EQ(asymreg_fds_send(sender, pair[0]), 2);
    CHECK_EQ(asymreg_fds_recv(ctx, pair[1]), 2);
    CHECK_EQ(asymreg_register(sender, (char *)p + 4096, 4096, ASYMREG_RW, SEGMENT_OF(0, file, 4096),
                              NULL, NULL),
             0);
    open_now = n_descriptors();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(asymreg_fds_send(sender, pair[0]), 3);
        CHECK_EQ(asymreg_fds_recv(ctx, pair[1]),
                 i == 0); /* what can write takes the place of what cannot */
        CHECK_EQ(n_descriptors(), open_now);
    }
    munmap(p, 8192);
    close(file);
    close(ro);
    close(pair[0]);
    close(pair[1]);
    asymreg_close(ctx);
    asymreg_close(sender);
    puts("descriptors_not_kept");
}

/* Calls on a socket that fails end, and shared memory that is off sends nothing but the table. */
static void descriptors_not_sent(void)
{
    struct asymreg_context *ctx = open_context(ASYMREG_LOCAL_CMA, 0, 0);
    int file = memfd_create("file", MFD_CLOEXEC), pair[2];
    void *p;

    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    CHECK((p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) != MAP_FAILED);
    CHECK_EQ(asymreg_register(ctx, p, 4096, ASYMREG_RW, SEGMENT_OF(0, file, 0), NULL, NULL), 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK_EQ(asymreg_fds_send(ctx, pair[0]), 1);
    alarm(30); /* ends the test, should a call repeat for ever */
    CHECK_EQ(asymreg_fds_send(ctx, -1), -EBADF);
    CHECK_EQ(asymreg_fds_recv(ctx, -1), -EBADF);
    alarm(0);
    close(pair[0]);
    close(pair[1]);
    munmap(p, 4096);
    close(file);
    asymreg_close(ctx);
    puts("descriptors_not_sent");
}

/* A process without standard input may register descriptor 0, and the library may get it. */
static void descriptor_zero(void)
{
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_context *ctx;
    int status;
    ssize_t n;
    void *p;

    fflush(stdout);
    if (fork() == 0) {
        close(0);
        CHECK_EQ(memfd_create("file", MFD_CLOEXEC), 0);
        CHECK(ftruncate(0, 4096) == 0);
        CHECK((p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 0, 0)) != MAP_FAILED);
        ctx = open_context(ASYMREG_LOCAL_SHM, 0, 0);
        CHECK_EQ(asymreg_register(ctx, p, 4096, ASYMREG_RW, FD_OF(0, 0, 0), NULL, NULL), 0);
        CHECK((n = asymreg_export(ctx, blob, sizeof(blob), NULL)) > 0);
        close(0);
        errno = EIO; /* of an earlier call: a success leaves it */
        CHECK_EQ(asymreg_import(ctx, PE, blob, (size_t)n, NULL), 0);
        asymreg_close(ctx);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("descriptor_zero");
}

/* A context keeps a descriptor of each of its first peers, whichever peers it had before. */
static void descriptors_of_peers(void)
{
    struct asymreg_context *ctx = open_context(ASYMREG_LOCAL_SHM, 0, 64);
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    ssize_t n = asymreg_export(ctx, blob, sizeof(blob), NULL);
    int first = 0;

    CHECK(n > 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(asymreg_import(ctx, PE, blob, (size_t)n, NULL), 0);
        if (i == 0)
            first = n_descriptors();
        CHECK_EQ(n_descriptors(), first);
        CHECK_EQ(asymreg_forget(ctx, PE), 0);
    }
    asymreg_close(ctx);
    puts("descriptors_of_peers");
}

/* A file that the kernel lets no peer map for writing: a put fails, and asymreg_resolve() says
 * why. */
static void sealed_file(void)
{
    struct asymreg_context *ctx = open_context(ASYMREG_LOCAL_SHM, 0, 64);
    int file = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_error err = {.code = 0};
    struct asymreg_worker *me;
    asymreg_id id;
    ssize_t n;
    void *p;

    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    CHECK((p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) != MAP_FAILED);
    if (fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK) == 0) { /* Linux 5.1 */
        CHECK_EQ(asymreg_register(ctx, p, 4096, ASYMREG_RW, FD_OF(0, file, 0), &id, NULL), 0);
        CHECK((n = asymreg_export(ctx, blob, sizeof(blob), NULL)) > 0);
        CHECK_EQ(asymreg_import(ctx, PE, blob, (size_t)n, NULL), 0);
        CHECK_EQ(asymreg_worker_create(ctx, &me), 0);
        CHECK_EQ(asymreg_put(me, PE, (uintptr_t)p, id, "x", 1), ASYMREG_EACCES);
        CHECK_EQ(asymreg_resolve(me, PE, (uintptr_t)p, id, 1, ASYMREG_READ, NULL, &err), 0);
        CHECK_EQ(asymreg_resolve(me, PE, (uintptr_t)p, id, 1, ASYMREG_WRITE, NULL, &err),
                 ASYMREG_EACCES);
        CHECK(strstr(err.text, "cannot be written from here"));
        asymreg_worker_destroy(me);
    }
    munmap(p, 4096);
    close(file);
    asymreg_close(ctx);
    puts("sealed_file");
}

/* Linux 5.3 to 5.5 has descriptors of processes, but cannot fetch another process's descriptor:
 * then /proc opens its file. */
static void without_getfd(void)
{
    struct asymreg_context *ctx;
    struct asymreg_worker *me;
    struct target t;
    struct answer a;
    int status;

    fflush(stdout);
    if (fork() == 0) {
        no_calls(SYS_pidfd_getfd, SYS_pidfd_getfd, ENOSYS);
        target_start(&t, ASYMREG_LOCAL_SHM);
        ctx = open_context(ASYMREG_LOCAL_SHM, 0, 0);
        CHECK_EQ(asymreg_import(ctx, PE, t.blob, t.blob_bytes, NULL), 0);
        CHECK_EQ(asymreg_worker_create(ctx, &me), 0);
        a = tell(&t, (struct order){
                         .what = REGISTER, .kind = SHARED, .bytes = 4096, .prot = ASYMREG_RW});
        CHECK_EQ(asymreg_put(me, PE, a.addr, a.id, "x", 1), 0);
        CHECK_EQ(tell(&t, (struct order){.what = LOOK, .addr = a.addr}).value, 'x');
        asymreg_worker_destroy(me);
        asymreg_close(ctx);
        target_end(&t);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
    puts("without_getfd");
}

/* A memfd counts as a file. A too large one is an error, not an end by SIGXFSZ. */
static void limit_of_files(void)
{
    const struct rlimit limit = {1 << 20, 1 << 20};
    struct asymreg_opts small = {.size = sizeof(small), .max_regions = 128};
    struct asymreg_context *ctx;
    int status;
    void *p;

    fflush(stdout);
    if (fork() == 0) {
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK_EQ(asymreg_open(NULL, &ctx, NULL), -EFBIG);
        CHECK_EQ(asymreg_open(&small, &ctx, NULL), 0);
        CHECK_EQ(asymreg_segment_alloc(ctx, (1 << 20) + 1, &p, NULL), -EFBIG);
        CHECK_EQ(asymreg_segment_alloc(ctx, 1 << 20, &p, NULL), 0);
        asymreg_close(ctx);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("limit_of_files");
}

/* A child that closes its inherited context, as destructors do at exit, does not affect its
 * parent's peers. */
static void closed_by_a_child(void)
{
    struct asymreg_context *owner = open_context(ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA, 0, 0),
                           *peer = open_context(ASYMREG_LOCAL_SHM | ASYMREG_LOCAL_CMA, 0, 0);
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    struct asymreg_worker *me;
    char memory[8] = "before";
    asymreg_id id;
    ssize_t n;
    int status;

    CHECK_EQ(asymreg_register(owner, memory, sizeof(memory), ASYMREG_RW, NULL, &id, NULL), 0);
    CHECK((n = asymreg_export(owner, blob, sizeof(blob), NULL)) > 0);
    CHECK_EQ(asymreg_import(peer, PE, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(peer, &me), 0);
    CHECK_EQ(asymreg_put(me, PE, (uintptr_t)memory, id, "first", 6), 0);
    fflush(stdout);
    if (fork() == 0) {
        asymreg_close(owner);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK_EQ(asymreg_put(me, PE, (uintptr_t)memory, id, "after", 6), 0);
    CHECK_EQ(asymreg_flush(me, PE), 0);
    CHECK(strcmp(memory, "after") == 0);
    asymreg_worker_destroy(me);
    asymreg_close(peer);
    asymreg_close(owner);
    puts("closed_by_a_child");
}

/* Empties a process's directory in /proc, for this process and its children. 0: that is not allowed
 * here. */
static int hide(pid_t pid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    return (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
           mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", path, "tmpfs", 0, NULL) == 0;
}

/* A peer that /proc does not show (hidepid, other users) does not count as dead; and its death is
 * noticed. */
static void hidden_peer(void)
{
    struct asymreg_local_opts opts = {.size = sizeof(opts)};
    unsigned char address[ASYMREG_MAX_ADDRESS_BYTES];
    struct asymreg_transport *t;
    size_t n = sizeof(address);
    struct asymreg_ep *ep;
    pid_t child, peer;
    int to[2], status;

    fflush(stdout);
    if ((child = fork()) == 0) {
        CHECK(pipe(to) == 0);
        CHECK_EQ(asymreg_local_create(&opts, &t, NULL), 0);
        if ((peer = fork()) == 0) {
            t->ops->destroy(t);
            CHECK_EQ(asymreg_local_create(&opts, &t, NULL), 0);
            CHECK_EQ(t->ops->address(t, address, &n, NULL), 0);
            CHECK(write(to[1], &n, sizeof(n)) == sizeof(n) &&
                  write(to[1], address, n) == (ssize_t)n);
            for (;;)
                pause();
        }
        CHECK(peer > 0 && read(to[0], &n, sizeof(n)) == sizeof(n) &&
              read(to[0], address, n) == (ssize_t)n);
        int hidden = hide(peer), rc = t->ops->connect(t, address, n, &ep, NULL);
        for (int i = 0; rc == 0 && i < 2; i++) { /* before and after */
            CHECK_EQ(t->ops->peer_alive(t, ep), i ? ASYMREG_EPEER : 0);
            CHECK(i || (kill(peer, SIGKILL) == 0 && waitpid(peer, NULL, 0) == peer));
        }
        if (rc < 0)
            kill(peer, SIGKILL);
        CHECK_EQ(rc, 0);
        t->ops->disconnect(t, ep);
        CHECK_EQ(t->ops->connect(t, address, n, &ep, NULL), ASYMREG_EPEER);
        t->ops->destroy(t);
        _exit(hidden ? 0 : 77);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
    puts(WEXITSTATUS(status) ? "hidden_peer: nothing could be hidden" : "hidden_peer");
}

/* A context's own refusals, and its limits. */
static void limits(void)
{
    struct asymreg_opts o = {.size = sizeof(o), .max_regions = 200, .max_segments = 4};
    struct asymreg_context *ctx;
    static char memory[65536];
    asymreg_id id, ids[256];
    void *p[5];

    o.size = 1;
    CHECK_EQ(asymreg_open(&o, &ctx, NULL), -EINVAL);
    o.size = sizeof(o);
    o.flags = 8;
    CHECK_EQ(asymreg_open(&o, &ctx, NULL), -EINVAL);
    o.flags = 0;
    o.ring = 17;
    CHECK_EQ(asymreg_open(&o, &ctx, NULL), -EINVAL);
    o.ring = 0;
    o.max_regions = ASYMREG_MAX_REGIONS + 1;
    CHECK_EQ(asymreg_open(&o, &ctx, NULL), -EINVAL);
    o.max_regions = 200;
    CHECK_EQ(asymreg_open(&o, &ctx, NULL), 0);
    for (int i = 0; i < 256; i++) /* 200 rounded up to leaves of 128 */
        CHECK_EQ(asymreg_register(ctx, memory + i * 3, 2, ASYMREG_READ, NULL, &ids[i], NULL), 0);
    CHECK_EQ(asymreg_register(ctx, memory + 256 * 3, 2, ASYMREG_READ, NULL, &id, NULL),
             ASYMREG_EFULL);
    CHECK_EQ(asymreg_unregister(ctx, ids[0]), 0);
    CHECK_EQ(asymreg_register(ctx, memory + 256 * 3, 2, ASYMREG_READ, NULL, &id, NULL), 0);
    for (int i = 0; i < 3; i++) /* one of the four is all private memory */
        CHECK_EQ(asymreg_segment_alloc(ctx, 1, &p[i], NULL), 0);
    CHECK_EQ(asymreg_segment_alloc(ctx, 1, &p[3], NULL), ASYMREG_EFULL);
    CHECK_EQ(asymreg_segment_remove(ctx, p[1]), 0);
    CHECK_EQ(asymreg_segment_remove(ctx, p[1]), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_segment_remove(ctx, (char *)p[0] + 1), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_segment_alloc(ctx, 1, &p[1], NULL), 0);
    CHECK_EQ(asymreg_segment_remove(ctx, memory), ASYMREG_ENOREGION);
    CHECK_EQ(asymreg_segment_alloc(ctx, 0, &p[3], NULL), -EINVAL);
    CHECK_EQ(asymreg_segment_alloc(ctx, SIZE_MAX, &p[3], NULL), -ENOMEM);
    CHECK_EQ(asymreg_unregister(ctx, ids[1]), 0);
    CHECK_EQ(asymreg_register(ctx, p[0], 4096, ASYMREG_ALL, NULL, &id, NULL), 0);
    CHECK_EQ(asymreg_segment_remove(ctx, p[0]), ASYMREG_EBUSY);
    CHECK_EQ(asymreg_unregister(ctx, id), 0);
    CHECK_EQ(asymreg_register(ctx, (char *)p[0] + 4095, 2, ASYMREG_ALL, NULL, &id, NULL),
             ASYMREG_ERANGE);
    CHECK_EQ(asymreg_register(ctx, p[0], 4096, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
             ASYMREG_EOVERLAP);
    CHECK_EQ(asymreg_register(ctx, memory, 1000, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
             ASYMREG_EOVERLAP);
    CHECK_EQ(asymreg_register(ctx, memory, 0, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
             -EINVAL);
    CHECK_EQ(
        asymreg_register(ctx, memory, SIZE_MAX, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
        ASYMREG_EOVERFLOW);
    CHECK_EQ(
        asymreg_register(ctx, memory + 900, 10, ASYMREG_RW, SEGMENT_OF(0, 9999, 0), NULL, NULL),
        -EBADF);
    CHECK_EQ(asymreg_segment_remove(ctx, p[0]), 0);
    asymreg_close(ctx);
    asymreg_close(NULL);
    /* The default of max_segments, where it stops growing with max_regions. */
    o.max_regions = 65536;
    o.max_segments = 0;
    CHECK_EQ(asymreg_open(&o, &ctx, NULL), 0);
    for (int i = 0; i < 65536; i++)
        CHECK_EQ(
            asymreg_register(ctx, memory + i, 1, ASYMREG_RW, FLAGS(ASYMREG_SEGMENT), NULL, NULL),
            i < 65535 ? 0 : ASYMREG_EFULL);
    asymreg_close(ctx);
    puts("limits");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        CHECK(no_pidfd_asked(argv[1]));
    closed_by_a_child();
    hidden_peer();
    limits();
    limit_of_files();
    descriptors_not_kept();
    descriptors_not_sent();
    descriptor_zero();
    descriptors_of_peers();
    sealed_file();
    without_getfd();
    descriptors_by_message();
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* shared: eight processes and the segments that they share, in every layout; and refused calls. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "storwin_test.h"

#define RANKS 8

struct kind {
    const char *name;
    uint32_t alloc_type, factor_ppb, order, own_files, flags;
    uint64_t unit; /* sizes are multiples of it */
};

static uint64_t page;
static char names[RANKS][128];
static const char *filenames[RANKS];
static char shm_name[80];

static uint64_t size_of(const struct kind *k, unsigned rank)
{
    return rank == 3 ? 0 : (rank + 1) * k->unit; /* one has nothing */
}

static struct storwin_window *open_rank(const struct kind *k, unsigned rank,
                                        struct storwin_error *err, int *rc)
{
    static uint64_t bytes[RANKS];
    struct storwin_shared shared = {.size = sizeof(shared),
                                    .n_ranks = RANKS,
                                    .rank = rank,
                                    .bytes = bytes,
                                    .shm_name = shm_name,
                                    .flags = k->flags};
    struct storwin_opts opts = storage_opts(test_path("shared"));
    struct storwin_window *win = NULL;

    for (unsigned i = 0; i < RANKS; i++)
        bytes[i] = size_of(k, i);
    opts.alloc_type = k->alloc_type;
    opts.factor_ppb = k->factor_ppb;
    opts.order = k->order;
    opts.flags = STORWIN_UNLINK | STORWIN_MEMFD;
    opts.offset_bytes = k->own_files ? page : 0;
    if (k->own_files)
        shared.filenames = filenames;
    *rc = storwin_alloc_shared(&opts, &shared, &win, err);
    return win;
}

static void check_layout(const struct kind *k, const struct storwin_window *win, unsigned rank)
{
    struct storwin_info_part part = {.size = sizeof(part)};
    uint64_t at = 0;

    for (unsigned i = 0; i < RANKS; i++) {
        void *base;
        uint64_t offset, bytes;

        CHECK(storwin_shared_segment(win, i, &base, &offset, &bytes) == 0);
        CHECK(bytes == size_of(k, i) && (base == NULL) == (bytes == 0));
        if (k->flags & STORWIN_SHARED_NONCONTIG)
            at = (at + page - 1) / page * page;
        CHECK(offset == at);
        if (i == rank)
            CHECK(storwin_base(win) == base);
        at += bytes;
    }
    CHECK(window_bytes(win) == at);
    at = 0;
    for (uint32_t i = 0; storwin_part_query(win, i, &part) == 0; i++) {
        CHECK(part.offset >= at && part.bytes > 0 && part.coherent == 1 &&
              fcntl(part.fd, F_GETFD) >= 0);
        at = part.offset + part.bytes;
    }
    CHECK(at == window_bytes(win));
    CHECK(storwin_shared_segment(win, RANKS, NULL, NULL, NULL) == -EINVAL);
}

static uint8_t value(unsigned from, uint64_t i)
{
    return (uint8_t)(from * 37 + i * 11 + i / 251);
}

/* Each stores into the segment of the next rank and reads its own. */
static void run_rank(const struct kind *k, unsigned rank, pthread_barrier_t *barrier)
{
    struct storwin_error err;
    struct storwin_window *win = NULL;
    const unsigned next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
    uint8_t *theirs, *mine;
    int rc = 0;

    if (rank == 0)
        win = open_rank(k, 0, &err, &rc);
    pthread_barrier_wait(barrier);
    if (rank != 0)
        win = open_rank(k, rank, &err, &rc);
    if (rc < 0)
        fprintf(stderr, "%s, rank %u: %s\n", k->name, rank, err.text);
    CHECK(rc == 0);
    pthread_barrier_wait(barrier);
    CHECK(storwin_shared_unlink(win, NULL) == 0); /* any may, more than once */
    check_layout(k, win, rank);
    CHECK(storwin_shared_segment(win, next, (void **)&theirs, NULL, NULL) == 0);
    for (uint64_t i = 0; i < size_of(k, next); i++)
        theirs[i] = value(rank, i);
    pthread_barrier_wait(barrier);
    mine = storwin_base(win);
    for (uint64_t i = 0; i < size_of(k, rank); i++)
        CHECK(mine[i] == value(before, i));
    if (rank == 0)
        CHECK(storwin_sync(win, 0, STORWIN_TO_END, &err) == 0);
    pthread_barrier_wait(barrier);
    if (rank == 1 && k->alloc_type == STORWIN_STORAGE && k->factor_ppb == STORWIN_FACTOR_ONE) {
        uint8_t *copy = malloc(size_of(k, 1));
        uint64_t offset;

        storwin_shared_segment(win, 1, NULL, &offset, NULL);
        read_file(k->own_files ? filenames[1] : test_path("shared"), k->own_files ? page : offset,
                  copy, size_of(k, 1));
        CHECK(memcmp(copy, mine, size_of(k, 1)) == 0);
        free(copy);
    }
    pthread_barrier_wait(barrier);
    CHECK(storwin_free(win, &err) == 0);
}

static void run(const struct kind *k)
{
    pthread_barrier_t *barrier =
        mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attr;
    pid_t pids[RANKS];

    printf("%s\n", k->name);
    fflush(stdout);
    CHECK(barrier != MAP_FAILED && pthread_barrierattr_init(&attr) == 0);
    CHECK(pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrier_init(barrier, &attr, RANKS) == 0);
    for (unsigned rank = 0; rank < RANKS; rank++) {
        pids[rank] = fork();
        CHECK(pids[rank] >= 0);
        if (pids[rank] == 0) {
            run_rank(k, rank, barrier);
            _exit(0);
        }
    }
    for (unsigned left = RANKS; left > 0; left--) {
        int status;

        CHECK(wait(&status) > 0);
        if (status != 0) /* the others would wait for it in vain */
            for (unsigned i = 0; i < RANKS; i++)
                kill(pids[i], SIGKILL);
        CHECK(status == 0);
    }
    munmap(barrier, page);
    CHECK(count_entries(test_dir) == 0); /* rank 0 removed the files */
    CHECK(shm_open(shm_name, O_RDWR, 0) < 0 && errno == ENOENT);
}

/* A part with its descriptor, to another process. */
static void send_part(int socket, const struct storwin_info_part *part)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                          .cmsg_level = SOL_SOCKET,
                          .cmsg_type = SCM_RIGHTS}};
    struct iovec data = {(void *)(uintptr_t)part, sizeof(*part)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    int fd = part->fd;

    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
    CHECK(sendmsg(socket, &message, 0) == (ssize_t)sizeof(*part));
}

static void receive_part(int socket, struct storwin_info_part *part)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {part, sizeof(*part)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    int fd;

    CHECK(recvmsg(socket, &message, 0) == (ssize_t)sizeof(*part) && message.msg_controllen > 0);
    memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
    part->fd = fd;
}

/* The peer maps two parts under one base; of the window it has only the received descriptors. */
static void peer(int socket, uint64_t bytes)
{
    uint8_t *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct storwin_info_part part;

    CHECK(base != MAP_FAILED);
    for (int i = 0; i < 2; i++) {
        receive_part(socket, &part);
        CHECK(part.coherent && part.offset + part.bytes <= bytes);
        CHECK(mmap(base + part.offset, part.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                   part.fd, (off_t)part.fd_offset) == base + part.offset);
        close(part.fd);
    }
    for (uint64_t i = 0; i < bytes; i++) {
        CHECK(base[i] == value(1, i));
        base[i] = value(2, i);
    }
    CHECK(send(socket, "", 1, 0) == 1);
}

/* A combined window of one process, served to another by its parts. */
static void lent(uint32_t order)
{
    const uint64_t bytes = 10 * page + 77;
    struct storwin_opts opts = storage_opts(test_path("lent"));
    struct storwin_info_part part = {.size = sizeof(part)};
    struct storwin_window *win;
    uint8_t *base, *copy;
    int sockets[2], status;
    pid_t pid;

    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0);
    pid = fork();
    if (pid == 0) {
        peer(sockets[1], bytes);
        _exit(0);
    }
    close(sockets[1]);
    copy = malloc(bytes);
    opts.factor_ppb = STORWIN_FACTOR_ONE / 2;
    opts.order = order;
    opts.offset_bytes = 3 * page;
    opts.flags = STORWIN_MEMFD | STORWIN_UNLINK;
    CHECK(storwin_alloc(&opts, bytes, &win, NULL) == 0);
    base = storwin_base(win);
    for (uint64_t i = 0; i < bytes; i++)
        base[i] = value(1, i);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(storwin_part_query(win, i, &part) == 0);
        send_part(sockets[0], &part);
    }
    CHECK(storwin_part_query(win, 2, &part) == STORWIN_ERANGE);
    CHECK(recv(sockets[0], copy, 1, 0) == 1);
    for (uint64_t i = 0; i < bytes; i++)
        CHECK(base[i] == value(2, i));
    CHECK(storwin_sync(win, 0, STORWIN_TO_END, NULL) == 0);
    CHECK(storwin_part_query(win, order == STORWIN_STORAGE_FIRST ? 0 : 1, &part) == 0 &&
          part.kind == STORWIN_STORAGE);
    read_file(test_path("lent"), part.fd_offset, copy, part.bytes);
    CHECK(memcmp(copy, base + part.offset, part.bytes) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(storwin_free(win, NULL) == 0);
    close(sockets[0]);
    free(copy);
}

static void refusals(void)
{
    uint64_t bytes[2] = {page, page + 1}, three[3] = {page, page + 1, 1};
    struct storwin_shared good = {.size = sizeof(good),
                                  .n_ranks = 2,
                                  .bytes = bytes,
                                  .shm_name = shm_name},
                          s;
    struct storwin_opts opts = storage_opts(test_path("shared"));
    struct storwin_window *win, *other;
    struct storwin_error err;

#define REFUSED(code)                                                                              \
    CHECK(storwin_alloc_shared(&opts, &s, &win, &err) == (code) && count_entries(test_dir) == 0)
    CHECK(storwin_alloc_shared(&opts, NULL, &win, &err) == -EINVAL);
    s = good, s.size = 1;
    REFUSED(-EINVAL);
    s = good, s.n_ranks = 0;
    REFUSED(-EINVAL);
    s = good, s.rank = 2;
    REFUSED(-EINVAL);
    s = good, s.bytes = NULL;
    REFUSED(-EINVAL);
    s = good, s.flags = 2;
    REFUSED(-EINVAL);
    s = good, s.shm_name = "no-slash";
    REFUSED(-EINVAL);
    s = good, s.shm_name = "/a/b";
    REFUSED(-EINVAL);
    s = good, s.shm_name = "/";
    REFUSED(-EINVAL);
    s = good, s.shm_name = "/x",
    opts.pager = STORWIN_PAGER_RESIDENT; /* the shortest name is good */
    REFUSED(STORWIN_ECONFLICT);
    CHECK(strcmp(err.hint, "storage_alloc_pager") == 0);
    opts.pager = STORWIN_PAGER_KERNEL, opts.factor_ppb = STORWIN_FACTOR_AUTO;
    REFUSED(STORWIN_EMISSING);
    opts.factor_ppb = STORWIN_FACTOR_ONE / 2, s.shm_name = NULL;
    REFUSED(-EINVAL);
    opts.factor_ppb = STORWIN_FACTOR_ONE;
    s = good, s.n_ranks = 3, s.bytes = three,
    s.filenames = filenames; /* the third would begin in the middle of a page */
    REFUSED(-EINVAL);
    s = good, s.rank = 1; /* before rank 0 */
    REFUSED(-ENOENT);
    bytes[0] = STORWIN_MAX_BYTES, bytes[1] = 0; /* the longest segment, and the longest window */
    REFUSED(-ENOENT);
    bytes[1] = 1;
    REFUSED(-EINVAL);
    bytes[0] = page, bytes[1] = STORWIN_MAX_BYTES + 1;
    REFUSED(-EINVAL);
    bytes[1] = page + 1;
    opts.alloc_type = STORWIN_MEMORY;
    REFUSED(-ENOENT);
    s = good;
    CHECK(storwin_alloc_shared(&opts, &s, &win, &err) == 0);
    CHECK(storwin_alloc_shared(&opts, &s, &other, &err) == -EEXIST);
    bytes[1] += 2 * page; /* not what rank 0 made */
    s.rank = 1;
    CHECK(storwin_alloc_shared(&opts, &s, &other, &err) == STORWIN_ESHORT);
    CHECK(storwin_free(win, &err) == 0);
    opts.alloc_type = STORWIN_STORAGE;
    bytes[1] -= 2 * page;
    s.rank = 0;
    CHECK(storwin_alloc_shared(&opts, &s, &win, &err) == 0);
    bytes[1] += 1;
    s.rank = 1;
    CHECK(storwin_alloc_shared(&opts, &s, &other, &err) == STORWIN_ESHORT);
    CHECK(storwin_free(win, &err) == 0);
    unlink(test_path("shared"));
}

int main(void)
{
    const uint32_t one = STORWIN_FACTOR_ONE;

    page = (uint64_t)sysconf(_SC_PAGESIZE);
    test_begin();
    snprintf(shm_name, sizeof(shm_name), "/%s", test_dir);
    for (unsigned i = 0; i < RANKS; i++) {
        snprintf(names[i], sizeof(names[i]), "%s/segment%u", test_dir, i);
        filenames[i] = names[i];
    }
    {
        const struct kind kinds[] = {
            {"memory", STORWIN_MEMORY, one, 0, 0, 0, 1000},
            {"memory, apart", STORWIN_MEMORY, one, 0, 0, STORWIN_SHARED_NONCONTIG, 1000},
            {"one file", STORWIN_STORAGE, one, 0, 0, 0, 1001},
            {"one file, apart", STORWIN_STORAGE, one, 0, 0, STORWIN_SHARED_NONCONTIG, 5000},
            {"a file each", STORWIN_STORAGE, one, 0, 1, 0, page},
            {"a file each, apart", STORWIN_STORAGE, one, 0, 1, STORWIN_SHARED_NONCONTIG, 7777},
            {"half in one file", STORWIN_STORAGE, one / 2, 0, 0, 0, 3333},
            {"half in a file each, storage first", STORWIN_STORAGE, one / 2, 1, 1,
             STORWIN_SHARED_NONCONTIG, 9000},
            {"a third in a file each", STORWIN_STORAGE, one / 3, 0, 1, 0, 3 * page},
        };

        for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
            run(&kinds[i]);
    }
    lent(STORWIN_MEMORY_FIRST);
    lent(STORWIN_STORAGE_FIRST);
    refusals();
    shm_unlink(shm_name);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory object: cap, full file systems, lack of memory, limits; regions that attach refuses;
 * names; successors; 2 MB pages. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm.h"

static struct shmht_writer_opts opts_of(uint64_t max_bytes)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = max_bytes};

    return opts;
}

/* Puts values of some KiB until that fails; checks that the failure changes nothing; returns its
 * code. */
static int fill_up(struct shmht_writer *w, uint64_t *n)
{
    static unsigned char value[3000];
    struct shmht_reader *r = shmht_writer_view(w);
    struct shmht_stats s, s2;
    struct shmht_bytes got;
    int rc;

    for (*n = 0; (rc = shmht_put(w, n, sizeof(*n), value, sizeof(value))) == 0; ++*n)
        assert_true(*n < 100000);
    assert_int_equal(shmht_reader_stats(r, &s), 0);
    assert_int_equal(shmht_put(w, n, sizeof(*n), value, sizeof(value)), rc);
    assert_int_equal(shmht_get(r, n, sizeof(*n), &got), SHMHT_ENOENT);
    assert_int_equal(shmht_reader_stats(r, &s2), 0);
    assert_true(s.entries == *n && s2.entries == *n && s2.live_bytes == s.live_bytes);
    for (uint64_t i = 0; i < *n; i++) {
        assert_int_equal(shmht_get(r, &i, sizeof(i), &got), 0);
        assert_int_equal(got.len, sizeof(value));
    }
    return rc;
}

static void test_cap(void **state)
{
    static const uint64_t caps[] = {SHMHT_MIN_REGION_BYTES, 65536, 65536 + 4095, 1 << 20, 5000000};
    static unsigned char value[8192];
    struct shmht_bytes got;
    struct shmht_stats s;
    struct shmht_reader *r;
    uint64_t n, rest;

    for (int i = 0; i < 5; i++) {
        struct shmht_writer_opts opts = opts_of(caps[i]);
        struct shmht_writer *w;

        assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
        assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
        assert_int_equal(fill_up(w, &n), SHMHT_EFULL);
        shmht_reader_stats(r, &s);
        assert_true(s.total_bytes <= caps[i] && s.free_bytes < 3100 + 4096);
        assert_int_equal(shmht_put(w, "k", 1, "v", 1) < 0 ? SHMHT_EFULL : 0,
                         s.free_bytes < 8 ? SHMHT_EFULL : 0); /* a smaller pair still fits */
        /* and so does one that takes the last byte */
        shmht_reader_stats(r, &s);
        rest = s.max_bytes - (s.total_bytes - s.free_bytes);
        assert_in_range(rest, 8, sizeof(value));
        assert_int_equal(shmht_put(w, "l", 1, value, rest - 5), SHMHT_PUT_NEW);
        assert_int_equal(shmht_put(w, "m", 1, "", 0), SHMHT_EFULL);
        shmht_reader_detach(r);
        assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
        assert_int_equal(shmht_get(r, "l", 1, &got), 0);
        assert_int_equal(got.len, rest - 5);
        shmht_reader_detach(r);
        shmht_writer_destroy(w);
    }
}

/* A tmpfs of 1 MiB, in a mount namespace of a child's own. */
static void test_enospc(void **state)
{
    pid_t pid;
    int status;

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char dir[] = "/tmp/shmht-test-XXXXXX", name[64];
        struct shmht_writer_opts opts = opts_of(64 << 20);
        struct shmht_reader *r;
        struct shmht_bytes got;
        struct shmht_desc desc;
        struct shmht_writer *w;
        uint64_t n, zero = 0;
        int rc;

        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            !mkdtemp(dir))
            _exit(77);
        if (mount("none", dir, "tmpfs", 0, "size=1m") != 0) {
            rmdir(dir);
            _exit(77);
        }
        snprintf(name, sizeof(name), "%s/table", dir);
        opts.flags = SHMHT_NAMED;
        opts.name = name;
        CHECK(shmht_writer_create(&opts, &w, NULL) == 0);
        CHECK(shmht_writer_share(w, &desc) >= 0);
        CHECK(shmht_reader_attach(&desc, -1, NULL, &r, NULL) == 0);
        rc = fill_up(w, &n);
        CHECK(rc == -ENOSPC && n > 250);
        CHECK(shmht_get(r, &zero, sizeof(zero), &got) == 0);
        shmht_reader_detach(r);
        shmht_writer_destroy(w);
        opts.expected_entries = 1000000;
        CHECK(shmht_writer_create(&opts, &w, NULL) == -ENOSPC);
        CHECK(access(name, F_OK) < 0); /* nothing is left */
        CHECK(umount(dir) == 0 && rmdir(dir) == 0);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("no mount namespace here: ENOSPC not tested\n");
        return;
    }
    assert_int_equal(status, 0);
}

/* Growth that would leave too little memory is refused before the attempt. */
static void test_enomem(void **state)
{
    struct shmht_writer_opts opts = opts_of(64 << 20);
    struct shmht_writer *w;
    uint64_t n;

    opts.min_free_bytes = UINT64_MAX / 2;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0); /* the first pages are not checked */
    assert_int_equal(fill_up(w, &n), -ENOMEM);
    assert_true(n > 200 && n < 400); /* a mebibyte */
    shmht_writer_destroy(w);
    opts.expected_entries = 1000000;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), -ENOMEM);
    opts.min_free_bytes = 0;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    shmht_writer_destroy(w);
}

/* A child whose kernel refuses MFD_NOEXEC_SEAL, as before Linux 6.3, creates a table without it. */
static void test_before_6_3(void **state)
{
    const unsigned low =
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4; /* half of an argument */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + low),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 8, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
    struct shmht_writer_opts opts = opts_of(1 << 20);
    struct shmht_writer *w;
    struct shmht_reader *r;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            _exit(77);
        CHECK(memfd_create("shmht-test", MFD_CLOEXEC | 8) < 0 && errno == EINVAL);
        CHECK(shmht_writer_create(&opts, &w, NULL) == 0);
        CHECK(shmht_put(w, "k", 1, "v", 1) == SHMHT_PUT_NEW);
        CHECK(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL) == 0);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("no filter of system calls here: Linux before 6.3 not tested\n");
        return;
    }
    assert_int_equal(status, 0);
}

/* A limit on file sizes, where the kernel would send SIGXFSZ; a limit on address space. */
static void test_rlimits(void **state)
{
    struct rlimit before, low;
    struct shmht_writer_opts opts = opts_of(64 << 20);
    struct shmht_writer *w;
    struct shmht_stats s;
    uint64_t n;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 1 << 20;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_int_equal(fill_up(w, &n), -EFBIG);
    shmht_reader_stats(shmht_writer_view(w), &s);
    assert_in_range(s.total_bytes - s.free_bytes, (1 << 20) - 3100, 1 << 20); /* no step fits */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(shmht_put(w, "k", 1, "v", 1), 0);
    shmht_writer_destroy(w);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    low = before;
    low.rlim_cur = UINT64_C(2) << 30;
    opts.max_bytes = UINT64_C(8) << 30;
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), -ENOMEM);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
#endif
}

/* A memfd with `bytes` of a good table's beginning, not sealed. */
static int unsealed_image(const struct shmht_writer *w, size_t bytes)
{
    int fd = memfd_create("shmht-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *copy = malloc(bytes + 1);

    assert_true(fd >= 0 && copy != NULL);
    assert_int_equal(pread(shmht_writer_share(w, NULL), copy, bytes, 0), bytes);
    assert_int_equal(write(fd, copy, bytes), bytes);
    free(copy);
    return fd;
}

/* The same, changed by one value and sealed. */
static int image(const struct shmht_writer *w, size_t bytes, size_t at, uint64_t value,
                 size_t value_bytes)
{
    const uint16_t one = 1;
    const char *low = (const char *)&value; /* its lower bytes, in this machine's order */
    int fd = unsealed_image(w, bytes);

    if (!*(const char *)&one)
        low += sizeof(value) - value_bytes;
    if (value_bytes)
        assert_int_equal(pwrite(fd, low, value_bytes, (off_t)at), value_bytes);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return fd;
}

static void test_attach_refuses(void **state)
{
    static const struct {
        size_t at;
        uint64_t value;
        size_t bytes;
        int rc;
        const char *what;
    } changes[] = {
        {0, 'X', 1, SHMHT_EMAGIC, "magic"},
        {8, 0x04030201, 4, SHMHT_EORDER, "byte_order"},
        {8, 7, 4, SHMHT_ECORRUPT, "byte_order"},
        {12, 2, 2, SHMHT_EVERSION, "layout"},
        {14, 32, 1, SHMHT_EVERSION, "word_bits"},
        {15, 2, 1, SHMHT_EKIND, "kind"},
        {15, 0, 1, SHMHT_ECORRUPT, "kind"},
        {32, 0, 8, SHMHT_ECORRUPT, "max_bytes"}, /* max_bytes */
        {32, SHMHT_MAX_REGION_BYTES + 1, 8, SHMHT_ECORRUPT, "max_bytes"},
        {40, 1, 8, SHMHT_EHASH, "hash_check"}, /* seed */
        {48, 1, 8, SHMHT_EHASH, "hash_check"}, /* what the hash should be */
        {56, 3, 4, SHMHT_EHASH, "hash_id"},    /* hash id */
        {56, SHMHT_HASH_CALLER, 4, SHMHT_EHASH, "hash_id"},
        {60, 1, 1, SHMHT_ECORRUPT, "granule_shift"}, /* granule */
        {60, 7, 1, SHMHT_ECORRUPT, "granule_shift"},
        {61, 91, 1, SHMHT_ECORRUPT, "max_load_percent"},          /* load */
        {62, 3, 1, SHMHT_ECORRUPT, "duplicates"},                 /* policy */
        {64, 0, 8, SHMHT_ECORRUPT, "table"},                      /* table: none */
        {64, UINT64_MAX, 8, SHMHT_ECORRUPT, "table"},             /* beyond everything */
        {64, UINT64_C(1) << 32 | 63, 8, SHMHT_ECORRUPT, "table"}, /* in the header */
        {128, 0, 8, SHMHT_ECORRUPT, "top"},                       /* top */
        {128, 4098, 8, SHMHT_ECORRUPT, "top"},
        {128, UINT64_MAX - 3, 8, SHMHT_ECORRUPT, "top"},
        {128, 1 << 19, 8, SHMHT_ETRUNC, "bytes"},
    };
    struct shmht_writer_opts opts = opts_of(1 << 20);
    struct shmht_reader_opts how = {.size = sizeof(how)};
    struct shmht_reader *r = NULL;
    struct shmht_writer *w;
    struct shmht_stats stats;
    struct shmht_error err;
    struct shmht_desc desc;
    size_t bytes;
    int fd, fds;

    opts.seed = 5;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_put(w, "key", 3, "value", 5), 0);
    assert_true(shmht_writer_share(w, &desc) >= 0);
    shmht_reader_stats(shmht_writer_view(w), &stats);
    bytes = stats.total_bytes;
    fd = image(w, bytes, 0, 0, 0);
    assert_int_equal(shmht_reader_attach(&desc, fd, NULL, &r, NULL), 0);
    shmht_reader_detach(r);
    close(fd);
    r = NULL;
    fds = n_fds();
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        fd = image(w, bytes, changes[i].at, changes[i].value, changes[i].bytes);
        assert_int_equal(shmht_reader_attach(NULL, fd, NULL, &r, &err), changes[i].rc);
        assert_int_equal(err.code, changes[i].rc);
        assert_string_equal(err.what, changes[i].what);
        assert_non_null(strstr(err.text, shmht_strerror(err.code)));
        close(fd);
        assert_int_equal(n_fds(), fds);
    }
    static const size_t cuts[] = {0, 1, 64, 4095, 4096, 4097, 4200, 4800};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        fd = image(w, cuts[i], 0, 0, 0);
        assert_int_equal(shmht_reader_attach(NULL, fd, NULL, &r, NULL), SHMHT_ETRUNC);
        close(fd);
    }
    fd = unsealed_image(w, bytes);
    assert_int_equal(shmht_reader_attach(NULL, fd, NULL, &r, NULL), SHMHT_EUNSEALED);
    how.flags = SHMHT_UNSEALED;
    assert_int_equal(shmht_reader_attach(NULL, fd, &how, &r, NULL), 0);
    shmht_reader_detach(r);
    r = NULL;
    close(fd);
    how.flags = 0;
    how.max_bytes = (1 << 20) - 1;
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL),
                     SHMHT_ELIMIT);
    how.max_bytes++;
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL), 0);
    shmht_reader_detach(r);
    r = NULL;
    desc.id ^= 1;
    assert_int_equal(shmht_reader_attach(&desc, shmht_writer_share(w, NULL), NULL, &r, NULL),
                     SHMHT_ESTALE);
    assert_int_equal(shmht_reader_attach(NULL, -1, NULL, &r, NULL), -EINVAL);
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, NULL, NULL),
                     -EINVAL);
    assert_int_equal(shmht_writer_compact(w, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(shmht_reader_attach(NULL, 9999, NULL, &r, NULL), -EBADF);
    how.size--;
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL),
                     -EINVAL);
    how.size++;
    how.flags = SHMHT_NAMED;
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL),
                     -EINVAL);
    fd = open("/dev/null", O_RDONLY);
    assert_true(shmht_reader_attach(NULL, fd, NULL, &r, NULL) < 0);
    close(fd);
    assert_null(r);
    shmht_writer_destroy(w);
}

static void test_names(void **state)
{
    struct shmht_writer_opts opts = opts_of(1 << 20);
    char name[64], other[80];
    struct shmht_reader *r;
    struct shmht_bytes got;
    struct shmht_writer *w, *w2;
    struct shmht_error err;
    struct shmht_desc desc;
    struct stat st;

    snprintf(name, sizeof(name), "/dev/shm/shmht-test-%ld", (long)getpid());
    snprintf(other, sizeof(other), "%s.link", name);
    opts.flags = SHMHT_NAMED;
    static const char *const bad[] = {"relative", "/dev/shm/a b", "/dev/shm/a;b",
                                      "",         "/dev/shm/a=b", "/dev/shm/\x80"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        opts.name = bad[i];
        assert_int_equal(shmht_writer_create(&opts, &w, NULL), SHMHT_ENAME);
    }
    opts.name = "x";
    assert_int_equal(shmht_writer_create(&opts, &w, &err), SHMHT_ENAME);
    assert_non_null(strstr(err.text, " x: "));
    opts.name = name;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_writer_create(&opts, &w2, NULL), -EEXIST);
    assert_true(stat(name, &st) == 0 && (st.st_mode & 0777) == 0400);
    assert_int_equal(shmht_put(w, "key", 3, "value", 5), 0);
    assert_true(shmht_writer_share(w, &desc) >= 0);
    assert_string_equal(desc.name, name);
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), 0);
    assert_int_equal(shmht_get(r, "key", 3, &got), 0);
    shmht_reader_detach(r);
    desc.uid++;
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), SHMHT_EOWNER);
    desc.uid--;
    assert_int_equal(chmod(name, 0422), 0);
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), SHMHT_EOWNER);
    assert_int_equal(chmod(name, 0400), 0);
    assert_int_equal(symlink(name, other), 0);
    snprintf(desc.name, sizeof(desc.name), "%s", other);
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), -ELOOP);
    unlink(other);
    assert_int_equal(mkfifo(other, 0400), 0);
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), SHMHT_EOWNER);
    unlink(other);
    shmht_writer_destroy(w);
    assert_true(stat(name, &st) < 0);
    opts.name = NULL; /* a name that cannot be guessed */
    opts.flags |= SHMHT_KEEP_NAME;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_true(shmht_writer_share(w, &desc) >= 0);
    assert_true(strlen(desc.name) == strlen("/dev/shm/shmht-") + 32);
    shmht_writer_destroy(w);
    assert_int_equal(unlink(desc.name), 0);
}

/* Returns whether another process would see a living writer. */
static int is_locked(int fd)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

    assert_int_equal(fcntl(fd, F_OFD_GETLK, &lock), 0);
    return lock.l_type == F_WRLCK;
}

/* A named object that its writer leaves behind: unlocked, and with all pairs. */
static void test_kept_object(void **state)
{
    struct shmht_writer_opts opts = opts_of(1 << 20);
    struct shmht_bytes value;
    struct shmht_reader *r;
    struct shmht_writer *w;
    struct shmht_desc desc;
    int fd;

    opts.flags = SHMHT_NAMED | SHMHT_KEEP_NAME;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_true(shmht_writer_share(w, &desc) >= 0);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(shmht_put(w, &i, sizeof(i), &i, sizeof(i)), 0);
    fd = open(desc.name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(is_locked(fd));
    shmht_writer_destroy(w);
    assert_false(is_locked(fd));
    close(fd);
    desc.generation++;
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), SHMHT_ESTALE);
    desc.generation--;
    assert_int_equal(shmht_reader_attach(&desc, -1, NULL, &r, NULL), 0);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(shmht_get(r, &i, sizeof(i), &value), 0);
    shmht_reader_detach(r);
    assert_int_equal(unlink(desc.name), 0);
}

/* A compaction keeps the policy and takes the next generation; one that does not fit changes
 * nothing. */
static void test_compact(void **state)
{
    struct shmht_writer_opts opts = opts_of(1 << 20), small = opts_of(SHMHT_MIN_REGION_BYTES);
    struct shmht_writer *w, *w2 = NULL;
    uint64_t one = 1;
    struct shmht_stats s;

    opts.duplicates = SHMHT_DUP_KEEP;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(shmht_put(w, &i, sizeof(i), &i, sizeof(i)), 0);
    assert_int_equal(shmht_writer_compact(w, &small, &w2, NULL), SHMHT_EFULL);
    shmht_reader_stats(shmht_writer_view(w), &s);
    assert_true(s.entries == 1000 && s.generation == 1 && s.superseded == 0);
    opts.duplicates = SHMHT_DUP_REPLACE;
    assert_int_equal(shmht_writer_compact(w, &opts, &w2, NULL), 0);
    assert_int_equal(shmht_put(w2, &one, sizeof(one), "v", 1), SHMHT_PUT_KEPT);
    assert_int_equal(shmht_put(w2, "other", 5, "v", 1), SHMHT_PUT_NEW);
    shmht_reader_stats(shmht_writer_view(w2), &s);
    assert_true(s.entries == 1001 && s.generation == 2);
    shmht_reader_stats(shmht_writer_view(w), &s);
    assert_int_equal(s.superseded, 2);
    shmht_writer_destroy(w);
    shmht_writer_destroy(w2);
}

/* With and without 2 MB pages the table works, and the statistics report which. */
static void test_huge(void **state)
{
    struct shmht_writer_opts opts = opts_of(32 << 20);
    struct shmht_reader_opts how = {.size = sizeof(how), .flags = SHMHT_HUGE | SHMHT_POPULATE};
    struct shmht_reader *r;
    struct shmht_writer *w;
    struct shmht_bytes got;
    struct shmht_stats s;
    uint64_t n;

    opts.flags = SHMHT_HUGE;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(fill_up(w, &n), SHMHT_EFULL);
    shmht_reader_stats(shmht_writer_view(w), &s);
    assert_true(s.huge_bytes <= s.total_bytes && s.huge_bytes % (2 << 20) == 0);
    assert_true((s.notes & SHMHT_NOTE_NO_HUGE ? s.huge_errno > 0 : s.huge_bytes > 0));
    printf("writer: %llu of %llu bytes in 2 MB pages, errno %d\n", (unsigned long long)s.huge_bytes,
           (unsigned long long)s.total_bytes, (int)s.huge_errno);
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &how, &r, NULL), 0);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(shmht_get(r, &i, sizeof(i), &got), 0);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* A child that destroys its inherited handles closes only its descriptors: names, and its own later
 * mappings, stay. */
static void test_closed_by_a_child(void **state)
{
    struct shmht_writer_opts opts = opts_of(1 << 20);
    struct shmht_array_opts shape = {
        .size = sizeof(shape), .n_ranks = 100, .stride_bytes = 8, .flags = SHMHT_NAMED};
    struct shmht_desc table_desc, array_desc;
    struct shmht_bytes value;
    struct shmht_array *array;
    struct shmht_writer *w;
    int status = -1;
    pid_t pid;

    opts.flags = SHMHT_NAMED;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_array_create(&shape, &array, NULL), 0);
    assert_true(shmht_writer_share(w, &table_desc) >= 0);
    assert_true(shmht_array_share(array, &array_desc) >= 0);
    assert_int_equal(shmht_put(w, "key", 3, "value", 5), SHMHT_PUT_NEW);
    assert_int_equal(shmht_get(shmht_writer_view(w), "key", 3, &value), 0);
    pid = fork();
    if (pid == 0) {
        /* What the parent has mapped there, the child has not: the place is free, and the kernel
         * takes it. */
        unsigned char *p = mmap((void *)((uintptr_t)value.ptr & ~(uintptr_t)4095), 4096,
                                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
            _exit(2);
        *p = 7;
        shmht_array_destroy(array);
        shmht_writer_destroy(w);
        _exit(*p == 7 ? 0 : 3);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
    assert_int_equal(access(table_desc.name, F_OK), 0);
    assert_int_equal(access(array_desc.name, F_OK), 0);
    assert_int_equal(shmht_put(w, "k", 1, "v", 1), SHMHT_PUT_NEW);
    shmht_array_destroy(array);
    shmht_writer_destroy(w);
    assert_int_equal(access(table_desc.name, F_OK), -1);
    assert_int_equal(access(array_desc.name, F_OK), -1);
}

/* A descriptor names the object's owner, even after the process has changed its user. */
static void test_owner_in_descriptor(void **state)
{
    struct shmht_writer_opts opts = opts_of(1 << 20);
    struct shmht_array_opts shape = {
        .size = sizeof(shape), .n_ranks = 100, .stride_bytes = 8, .flags = SHMHT_NAMED};
    struct shmht_desc table_desc, array_desc;
    struct shmht_array *array, *a;
    struct shmht_writer *w;
    struct shmht_reader *r;

    if (geteuid() != 0) {
        print_message("skip: to become another user needs root\n");
        skip();
    }
    opts.flags = SHMHT_NAMED;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_array_create(&shape, &array, NULL), 0);
    assert_int_equal(seteuid(12345), 0);
    assert_true(shmht_writer_share(w, &table_desc) >= 0);
    assert_true(shmht_array_share(array, &array_desc) >= 0);
    assert_int_equal(seteuid(0), 0);
    assert_true(table_desc.uid == 0 && array_desc.uid == 0);
    assert_int_equal(shmht_reader_attach(&table_desc, -1, NULL, &r, NULL), 0);
    assert_int_equal(shmht_array_attach(&array_desc, -1, NULL, &a, NULL), 0);
    shmht_reader_detach(r);
    shmht_array_detach(a);
    shmht_array_destroy(array);
    shmht_writer_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_enospc),
        cmocka_unit_test(test_enomem),
        cmocka_unit_test(test_before_6_3),
        cmocka_unit_test(test_rlimits),
        cmocka_unit_test(test_attach_refuses),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_kept_object),
        cmocka_unit_test(test_compact),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_closed_by_a_child),
        cmocka_unit_test(test_owner_in_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

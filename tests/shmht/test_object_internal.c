/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects in states that no caller can produce: an interrupted put, a region that turns hostile
 * under its reader, records beyond 4 GiB. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../libshmht/src/internal.h"
#include "cm.h"

static struct shmht_writer_opts opts_of(uint64_t max_bytes)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = max_bytes};

    return opts;
}

/* Growth that was refused for lack of memory succeeds when there is some again. */
static void test_memory_freed(void **state)
{
    static unsigned char value[3000];
    struct shmht_writer_opts opts = opts_of(64 << 20);
    struct shmht_writer *w;
    uint64_t n = 0;
    int rc;

    assert_true(shmht__available_bytes() > (64 << 20));
    opts.min_free_bytes = UINT64_MAX / 2;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    while ((rc = shmht_put(w, &n, sizeof(n), value, sizeof(value))) == 0)
        n++;
    assert_int_equal(rc, -ENOMEM);
    w->object.min_free_bytes = 0;
    assert_int_equal(shmht_put(w, &n, sizeof(n), value, sizeof(value)), 0);
    shmht_writer_destroy(w);
}

/* Compacting a named object that another process has changed fails, and leaves nothing open. */
static void test_compact_changed(void **state)
{
    struct shmht_writer_opts opts = opts_of(1 << 20);
    struct shmht_writer *w, *next;
    struct shmht_stats s;
    uint64_t empty;
    int fds;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    empty = w->top;
    for (uint64_t i = 0; i < 40; i++)
        assert_int_equal(shmht_put(w, &i, sizeof(i), "v", 1), SHMHT_PUT_NEW);
    fds = n_fds();
    for (int i = 0; i < 2; i++) { /* a log of no record, or of the first ones */
        atomic_store(&w->header->top, empty + (uint64_t)i * 10 * 16);
        assert_int_equal(shmht_writer_compact(w, NULL, &next, NULL), SHMHT_ECORRUPT);
        assert_int_equal(n_fds(), fds);
        shmht_reader_stats(shmht_writer_view(w), &s);
        assert_int_equal(s.superseded, 0);
    }
    shmht_writer_destroy(w);
}

/* After growth the next Get keeps the new table, so that later Gets need not check it. */
static void test_remembers(void **state)
{
    struct shmht_writer_opts opts = opts_of(1 << 20);
    struct shmht_bytes value;
    struct shmht_reader *r;
    struct shmht_writer *w;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(shmht_put(w, &i, sizeof(i), "v", 1), SHMHT_PUT_NEW);
        assert_int_equal(shmht_get(r, &i, sizeof(i), &value), 0);
        assert_true(atomic_load(&r->table)->table == atomic_load(&w->header->table));
    }
    assert_int_equal(r->n_tables, 1 + atomic_load(&w->header->table_grows));
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* Pages of address space. */
static uint64_t n_pages(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long long n = 0;

    assert_true(f && fscanf(f, "%llu", &n) == 1);
    fclose(f);
    return n;
}

/* A mapping is aligned for 2 MB pages, and leaves no address space behind. */
static void test_map(void **state)
{
    static const uint64_t sizes[] = {1, HUGE_BYTES, 5 * HUGE_BYTES / 2 + 1, 3 * HUGE_BYTES};
    int fd = memfd_create("shmht-test", MFD_CLOEXEC);
    uint64_t bytes, before = n_pages();

    assert_true(fd >= 0);
    for (int i = 0; i < 200; i++) {
        uint64_t size = sizes[i % 4];
        unsigned char *base;

        assert_int_equal(shmht__map(fd, size, PROT_READ, &base, &bytes), 0);
        assert_int_equal(bytes, align_up(size, PAGE_BYTES));
        assert_true(size < HUGE_BYTES || (uintptr_t)base % HUGE_BYTES == 0);
        assert_int_equal(munmap(base, bytes), 0);
    }
    assert_true(n_pages() < before + 8 * HUGE_BYTES / PAGE_BYTES);
    close(fd);
}

/* 2 MB pages: counted up to the first that the kernel refuses, whose errno is kept. */
static void test_collapse(void **state)
{
    const int collapse = 25; /* MADV_COLLAPSE */
    unsigned char *all =
        mmap(NULL, 8 * HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *base;
    uint64_t huge = 0;
    int32_t code = 0;

    assert_true(all != MAP_FAILED);
    base = (unsigned char *)align_up((uintptr_t)all, HUGE_BYTES) + 2 * HUGE_BYTES;
    munmap(all, (size_t)(base - all));
    munmap(base + 3 * HUGE_BYTES, (size_t)(all - base) + 5 * HUGE_BYTES);
    memset(base, 1, 3 * HUGE_BYTES);
    assert_int_equal(shmht__collapse(base, 3 * HUGE_BYTES, 4 * HUGE_BYTES, &huge, &code), -1);
    assert_true(huge == 0 && madvise(base + 3 * HUGE_BYTES, HUGE_BYTES, collapse) != 0);
    assert_int_equal(code, errno);
    if (madvise(base, 3 * HUGE_BYTES, collapse) == 0) {
        assert_int_equal(shmht__collapse(base, 1, 3 * HUGE_BYTES - 1, &huge, &code), 0);
        assert_int_equal(huge, HUGE_BYTES);
        assert_int_equal(shmht__collapse(base, 0, 5 * HUGE_BYTES, &huge, &code), -1);
        assert_int_equal(huge, 4 * HUGE_BYTES);
    } else {
        printf("no 2 MB pages here: %s\n", strerror(errno));
    }
    munmap(base, 3 * HUGE_BYTES);
}

/* Where standard input has been closed, the descriptor for readers may be 0. */
static void test_descriptor_0(void **state)
{
    const int input = fcntl(0, F_DUPFD_CLOEXEC, 100);
    struct shmht__object o;

    assert_int_equal(shmht__object_create(&o, NULL, 0, 1 << 20, 0), 0);
    close(0);
    errno = ENOENT; /* of an earlier call */
    assert_int_equal(shmht__object_publish(&o, 0), 0);
    assert_int_equal(o.ro_fd, 0);
    shmht__object_close(&o, 1);
    assert_true(fcntl(0, F_GETFD) < 0);
    if (input >= 0) {
        dup2(input, 0);
        close(input);
    }
}

/* A writer killed between two stores leaves a record in the log that no slot refers to. */
static void leave_interrupted_put(struct shmht_writer *w)
{
    unsigned char *p = w->object.base + w->top;
    struct shmht__record rec = record_plan(6, 2);
    uint32_t word = record_word(&rec);

    memcpy(p, &word, 4);
    memcpy(p + 4, "orphan42", 8);
    atomic_store(&w->header->top, w->top + 12);
}

/* A Get does not find that record, readers attach, and a copy has it whole or not at all. */
static void test_interrupted_put(void **state)
{
    for (int named = 0; named < 2; named++) {
        struct shmht_writer_opts opts = opts_of(1 << 20);
        struct shmht_bytes key, value;
        struct shmht_iter it = {0};
        struct shmht_desc desc;
        struct shmht_reader *r;
        struct shmht_writer *w;
        int fd, n = 0;

        opts.flags = named ? SHMHT_NAMED | SHMHT_KEEP_NAME : 0;
        assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
        assert_int_equal(shmht_put(w, "key", 3, "value", 5), 0);
        leave_interrupted_put(w);
        assert_true(shmht_writer_share(w, &desc) >= 0);
        fd = dup(shmht_writer_share(w, NULL));
        shmht_writer_destroy(w);
        assert_int_equal(shmht_reader_attach(&desc, named ? -1 : fd, NULL, &r, NULL), 0);
        assert_int_equal(shmht_get(r, "key", 3, &value), 0);
        assert_int_equal(shmht_get(r, "orphan", 6, &value), SHMHT_ENOENT);
        opts.flags = 0;
        assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
        while (shmht_reader_next(r, &it, &key, &value) == 1) {
            assert_int_equal(shmht_put(w, key.ptr, key.len, value.ptr, value.len), SHMHT_PUT_NEW);
            n++;
        }
        assert_int_equal(n, 2);
        assert_int_equal(shmht_get(shmht_writer_view(w), "key", 3, &value), 0);
        assert_int_equal(shmht_get(shmht_writer_view(w), "orphan", 6, &value), 0);
        assert_true(value.len == 2 && memcmp(value.ptr, "42", 2) == 0);
        shmht_reader_detach(r);
        shmht_writer_destroy(w);
        if (named)
            assert_int_equal(unlink(desc.name), 0);
        close(fd);
    }
}

/* A region that turns hostile after attach; behind it is an inaccessible page.
 * */
static void test_turns_hostile(void **state)
{
    enum { BYTES = 16384 };
    unsigned char *all =
        mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct shmht_writer_opts opts = opts_of(BYTES);
    struct shmht_reader_opts how = {.size = sizeof(how)};
    struct shmht_bytes value, key = {"mpi-adr-00000001", 16}, pair;
    struct shmht_iter it = {0};
    struct shmht__header *h;
    struct shmht_reader *r;
    struct shmht_writer *w;
    struct shmht_stats s;
    uint64_t table, top;

    assert_true(all != MAP_FAILED && mprotect(all + BYTES, 4096, PROT_NONE) == 0);
    opts.region = all;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_put(w, key.ptr, key.len, "value", 5), 0);
    h = w->header;
    table = atomic_load(&h->table);
    how.region = all;
    how.region_bytes = BYTES;
    assert_int_equal(shmht_reader_attach(NULL, -1, &how, &r, NULL), 0);
    atomic_store(&h->table, 0); /* before the first Get */
    assert_int_equal(shmht_get(r, key.ptr, key.len, &value), SHMHT_ECORRUPT);
    assert_int_equal(shmht_get(r, "a", 1, &value), SHMHT_ECORRUPT);
    assert_int_equal(shmht_get_many(r, &key, 1, &value), SHMHT_ECORRUPT);
    atomic_store(&h->table, table);
    assert_int_equal(shmht_get(r, key.ptr, key.len, &value), 0);
    top = atomic_load(&h->top);
    static const uint64_t tables[] = {0,
                                      65,
                                      UINT64_MAX,
                                      UINT64_C(1) << 32 | UINT32_MAX,
                                      UINT64_C(257) << 32,
                                      UINT64_C(193) << 32 | 64,
                                      UINT64_C(1) << 32 | 256,
                                      (uint64_t)UINT32_MAX << 32 | 65};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        atomic_store(&h->table, tables[i]);
        assert_int_equal(shmht_get(r, key.ptr, key.len, &value), SHMHT_ECORRUPT);
        assert_int_equal(shmht_get_many(r, &key, 1, &value), SHMHT_ECORRUPT);
        assert_null(value.ptr);
        assert_int_equal(shmht_reader_stats(r, &s), 0);
    }
    for (uint32_t i = 0; i < 100; i++) { /* more often than a handle remembers */
        atomic_store(&h->table, UINT64_C(1) << 32 | (64 + i));
        (void)shmht_get(r, key.ptr, key.len, &value);
    }
    atomic_store(&h->table, table);
    assert_int_equal(shmht_get(r, key.ptr, key.len, &value), 0);
    static const uint64_t tops[] = {UINT64_MAX, UINT64_MAX - 3, BYTES + 4, UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
        atomic_store(&h->top, tops[i]);
        for (it.pos = 0; shmht_reader_next(r, &it, &pair, &value) == 1;)
            ;
        assert_int_equal(shmht_reader_next(r, &it, &pair, &value), SHMHT_ECORRUPT);
    }
    atomic_store(&h->top, top);
    for (uint64_t off = 0; off < UINT32_MAX; off = off * 2 + 1) /* slots that point anywhere */
        for (uint32_t last = 0; last < 2; last++) {
            for (uint32_t i = 0; i < w->n_lines * LINE_SLOTS; i++)
                if (atomic_load(&w->lines[i]) != 0)
                    atomic_store(&w->lines[i],
                                 (atomic_load(&w->lines[i]) >> 32 << 32) |
                                     (uint32_t)(last ? BYTES / 4 - off % 32 - 1 : off));
            assert_true(shmht_get(r, key.ptr, key.len, &value) < 0);
            assert_true(shmht_get_many(r, &key, 1, &value) <= 0);
        }
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
    munmap(all, BYTES + 4096);
}

/* Another process keeps changing the cap in the header while this one attaches. */
static void test_cap_flips(void **state)
{
    enum { BYTES = 16384, ROUNDS = 500000 };
    unsigned char *all =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct shmht_writer_opts opts = opts_of(BYTES);
    struct shmht_reader_opts how = {.size = sizeof(how), .region = all, .region_bytes = BYTES};
    struct shmht_writer *w;
    pid_t pid;

    assert_true(all != MAP_FAILED);
    opts.region = all;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        volatile uint64_t *cap = &w->header->max_bytes;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            *cap = 1 << 30;
            *cap = BYTES;
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct shmht_reader *r;

        if (shmht_reader_attach(NULL, -1, &how, &r, NULL) != 0)
            continue;
        if (r->max_bytes > BYTES || atomic_load(&r->bytes) > BYTES) {
            kill(pid, SIGKILL);
            fail_msg("round %d: a reader of %d bytes may read %llu", i, BYTES,
                     (unsigned long long)r->max_bytes);
        }
        shmht_reader_detach(r);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    shmht_writer_destroy(w);
    munmap(all, BYTES);
}

/* Records beyond 4 GiB. The hole on the way there is a hole of the file too, so that this takes no
 * memory. */
static void test_beyond_4g(void **state)
{
    static const uint64_t caps[] = {UINT64_C(8) << 30,
                                    UINT64_C(24) << 30}; /* granules of 4 and of 8 bytes */

    for (int c = 0; c < 2; c++) {
        struct shmht_writer_opts opts = opts_of(caps[c]);
        uint64_t far = (UINT64_C(5) << 30) * (uint64_t)(3 * c + 1);
        struct shmht_iter it = {0};
        struct shmht_bytes key, got;
        struct shmht_reader *r;
        struct shmht_writer *w;
        uint32_t *skip;
        uint64_t n = 0;

        if (shmht_writer_create(&opts, &w, NULL) != 0) {
            printf("no %llu bytes of address space\n", (unsigned long long)caps[c]);
            continue;
        }
        for (uint64_t i = 0; i < 30; i++)
            assert_int_equal(shmht_put(w, &i, sizeof(i), &i, sizeof(i)), 0);
        assert_int_equal(ftruncate(w->object.fd, (off_t)far), 0);
        skip = (uint32_t *)(void *)(w->object.base + w->top);
        skip[0] = WORD_SKIP;
        skip[1] = (uint32_t)((far - w->top) >> w->view.granule_shift);
        w->object.bytes = w->object.checked_bytes = far;
        w->top = far;
        atomic_store(&w->header->top, far);
        shmht__reader_set_bytes(&w->view, far);
        assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
        for (uint64_t i = 30; i < 3000; i++)
            assert_int_equal(shmht_put(w, &i, sizeof(i), &i, sizeof(i)), 0);
        for (uint64_t i = 0; i < 3000; i++) {
            assert_int_equal(shmht_get(r, &i, sizeof(i), &got), 0);
            assert_memory_equal(got.ptr, &i, sizeof(i));
            key = (struct shmht_bytes){&i, sizeof(i)};
            assert_int_equal(shmht_get_many(r, &key, 1, &got), 1);
            assert_true(((const unsigned char *)got.ptr - r->base > (ptrdiff_t)far) == (i >= 30));
        }
        while (shmht_reader_next(r, &it, &key, &got) == 1)
            n++;
        assert_true(n == 3000);
        shmht_reader_detach(r);
        shmht_writer_destroy(w);
    }
}

/* A table in the caller's memory with one pair, and its reader, which trusts no byte of it. */
static void small_table(unsigned char *region, uint64_t bytes, uint64_t expected,
                        struct shmht_writer **w, struct shmht_reader **r)
{
    struct shmht_writer_opts opts = opts_of(bytes);
    struct shmht_reader_opts how = {.size = sizeof(how), .region = region, .region_bytes = bytes};

    opts.region = region;
    opts.expected_entries = expected;
    assert_int_equal(shmht_writer_create(&opts, w, NULL), 0);
    assert_int_equal(shmht_put(*w, "key", 3, "value", 5), 0);
    assert_int_equal(shmht_reader_attach(NULL, -1, &how, r, NULL), 0);
}

/* A skip of no bytes, or of more than the log has, ends an iteration. */
static void test_bad_skips(void **state)
{
    static _Alignas(64) unsigned char region[16384];
    struct shmht_bytes key, value;
    struct shmht_writer *w;
    struct shmht_reader *r;
    uint32_t *skip, left;

    small_table(region, sizeof(region), 0, &w, &r);
    skip = (uint32_t *)(void *)(region + HEADER_BYTES);
    while (*skip == 0) /* the table comes first */
        skip++;
    left =
        (uint32_t)((w->top - (uint64_t)((unsigned char *)skip - region)) >> w->view.granule_shift);
    skip[0] = WORD_SKIP;
    for (int i = 0; i < 3; i++) {
        const uint32_t sizes[] = {0, left + 1, UINT32_MAX};
        struct shmht_iter it = {.pos = (uint64_t)((unsigned char *)skip - region)};

        skip[1] = sizes[i];
        assert_int_equal(shmht_reader_next(r, &it, &key, &value), SHMHT_ECORRUPT);
    }
    skip[1] = left; /* a skip of all of it is one */
    assert_int_equal(shmht_reader_next(
                         r, &(struct shmht_iter){.pos = (uint64_t)((unsigned char *)skip - region)},
                         &key, &value),
                     0);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* A table without a free slot, which no writer makes: a Get reads SHMHT_MAX_PROBE lines. */
static void test_no_free_slot(void **state)
{
    static _Alignas(64) unsigned char region[1 << 20];
    struct shmht_bytes value;
    struct shmht_writer *w;
    struct shmht_reader *r;
    uint64_t table, n_slots, home = 0, far, *slots, key = 0;

    small_table(region, sizeof(region), 10000, &w, &r);
    table = atomic_load(&w->header->table);
    slots = (uint64_t *)(void *)(region + (table & UINT32_MAX) * LINE_BYTES);
    n_slots = (table >> 32) * LINE_SLOTS;
    assert_true(table >> 32 > SHMHT_MAX_PROBE + 1);
    for (uint64_t i = 0; i < n_slots; i++) {
        if (slots[i] == 0)
            slots[i] = SLOT(0x12345678, DELETED_OFFSET);
        else
            home = i, key = slots[i];
    }
    assert_int_equal(shmht_get(r, "absent", 6, &value), SHMHT_ENOENT);
    assert_int_equal(shmht_get(r, "key", 3, &value), 0);
    slots[home] = SLOT(0x12345678, DELETED_OFFSET);
    far = (home + (SHMHT_MAX_PROBE - 1) * LINE_SLOTS) % n_slots;
    slots[far] = key; /* in the last line of those */
    assert_int_equal(shmht_get(r, "key", 3, &value), 0);
    slots[far] = SLOT(0x12345678, DELETED_OFFSET);
    slots[(far + LINE_SLOTS) % n_slots] = key;
    assert_int_equal(shmht_get(r, "key", 3, &value), SHMHT_ENOENT);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_freed),  cmocka_unit_test(test_interrupted_put),
        cmocka_unit_test(test_turns_hostile), cmocka_unit_test(test_cap_flips),
        cmocka_unit_test(test_beyond_4g),     cmocka_unit_test(test_bad_skips),
        cmocka_unit_test(test_no_free_slot),  cmocka_unit_test(test_compact_changed),
        cmocka_unit_test(test_remembers),     cmocka_unit_test(test_map),
        cmocka_unit_test(test_collapse),      cmocka_unit_test(test_descriptor_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

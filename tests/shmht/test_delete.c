/* SPDX-License-Identifier: BSD-3-Clause */
/* Deleting pairs, compacting, and readers that follow. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cm.h"

static struct shmht_writer *create(const struct shmht_writer_opts *with)
{
    struct shmht_writer_opts opts = *with;
    struct shmht_writer *w;

    opts.size = sizeof(opts);
    if (opts.max_bytes == 0)
        opts.max_bytes = 64 << 20;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    return w;
}

static struct shmht_reader *attach(const struct shmht_writer *w)
{
    struct shmht_reader *r;

    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
    return r;
}

static struct shmht_stats stats_of(const struct shmht_reader *r)
{
    struct shmht_stats s;

    assert_int_equal(shmht_reader_stats(r, &s), 0);
    assert_int_equal(s.total_bytes, s.header_bytes + s.live_bytes + s.garbage_bytes +
                                        s.table_bytes + s.old_table_bytes + s.free_bytes);
    return s;
}

static int put(struct shmht_writer *w, uint64_t i, uint64_t version)
{
    unsigned char value[32];
    char key[16];

    key16(key, i);
    fill32(value, i, version);
    return shmht_put(w, key, sizeof(key), value, sizeof(value));
}

static int delete_key(struct shmht_writer *w, uint64_t i)
{
    char key[16];

    key16(key, i);
    return shmht_delete(w, key, sizeof(key));
}

/* The version that a reader finds by all three calls; -1: none. */
static int64_t version_of(const struct shmht_reader *r, uint64_t i)
{
    struct shmht_bytes value = {"", 1}, many = {"", 1}, name, key, other;
    int64_t walked = -1, version;
    struct shmht_iter it = {0};
    char text[16];
    int rc;

    key16(text, i);
    name = (struct shmht_bytes){text, sizeof(text)};
    rc = shmht_get(r, text, sizeof(text), &value);
    assert_int_equal(shmht_get_many(r, &name, 1, &many), rc == 0);
    while (shmht_reader_next(r, &it, &key, &other) == 1)
        if (key.len == sizeof(text) && memcmp(key.ptr, text, sizeof(text)) == 0)
            walked = version32(&other, i);
    version = rc == 0 ? version32(&value, i) : -1;
    if (rc != 0) {
        assert_int_equal(rc, SHMHT_ENOENT);
        assert_true(!value.ptr && value.len == 0 && !many.ptr && many.len == 0);
    } else {
        assert_int_equal(version32(&many, i), version);
    }
    assert_int_equal(walked, version);
    return version;
}

static void test_delete(void **state)
{
    for (uint32_t policy = SHMHT_DUP_REPLACE; policy <= SHMHT_DUP_KEEP; policy++) {
        struct shmht_writer *w = create(&(struct shmht_writer_opts){.duplicates = policy});
        struct shmht_reader *r = attach(w);
        struct shmht_bytes held;
        struct shmht_stats s;
        char key[16];

        assert_int_equal(delete_key(w, 1), SHMHT_ENOENT);
        assert_int_equal(shmht_delete(w, "", 0), SHMHT_EKEYLEN);
        assert_int_equal(shmht_delete(w, key, SHMHT_MAX_KEY_BYTES + 1), SHMHT_EKEYLEN);
        for (uint64_t i = 0; i < 10; i++)
            assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
        key16(key, 1);
        assert_int_equal(shmht_get(r, key, sizeof(key), &held), 0);
        assert_int_equal(delete_key(w, 1), 0);
        assert_int_equal(delete_key(w, 1), SHMHT_ENOENT);
        assert_int_equal(version_of(r, 1), -1);
        assert_int_equal(shmht_writer_get(w, key, sizeof(key), &(struct shmht_bytes){0}),
                         SHMHT_ENOENT);
        s = stats_of(r);
        assert_int_equal(s.entries, 9);
        assert_int_equal(s.garbage_bytes, 52);
        assert_int_equal(version32(&held, 1), 1);
        assert_int_equal(put(w, 1, 2), SHMHT_PUT_NEW);
        assert_int_equal(version_of(r, 1), 2);
        assert_int_equal(version32(&held, 1), 1);
        for (uint64_t i = 0; i < 10; i++)
            assert_int_equal(version_of(r, i), i == 1 ? 2 : 1);
        assert_int_equal(stats_of(r).entries, 10);
        shmht_reader_detach(r);
        shmht_writer_destroy(w);
    }
}

/* Deletion keeps a key of the longest form, and the empty value, apart from their neighbours. */
static void test_delete_long(void **state)
{
    static char key[SHMHT_MAX_KEY_BYTES];
    struct shmht_writer *w = create(&(struct shmht_writer_opts){0});
    struct shmht_reader *r = attach(w);
    struct shmht_bytes value;

    memset(key, 'k', sizeof(key));
    assert_int_equal(shmht_put(w, key, sizeof(key), NULL, 0), SHMHT_PUT_NEW);
    assert_int_equal(shmht_put(w, key, sizeof(key) - 1, "v", 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_put(w, key, 1, NULL, 0), SHMHT_PUT_NEW);
    assert_int_equal(shmht_delete(w, key, sizeof(key)), 0);
    assert_int_equal(shmht_get(r, key, sizeof(key), &value), SHMHT_ENOENT);
    assert_int_equal(shmht_get(r, key, sizeof(key) - 1, &value), 0);
    assert_int_equal(shmht_delete(w, key, 1), 0);
    assert_int_equal(shmht_get(r, key, 1, &value), SHMHT_ENOENT);
    assert_int_equal(stats_of(r).entries, 1);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* One key, put and deleted often, takes one slot. */
static void test_slot_again(void **state)
{
    struct shmht_writer *w = create(&(struct shmht_writer_opts){0});
    struct shmht_reader *r = attach(w);

    for (uint64_t n = 1; n <= 100000; n++) {
        assert_int_equal(put(w, 7, n), SHMHT_PUT_NEW);
        assert_int_equal(delete_key(w, 7), 0);
    }
    assert_int_equal(stats_of(r).table_grows, 0);
    assert_int_equal(version_of(r, 7), -1);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

static uint64_t same_hash(const void *key, size_t len, uint64_t seed)
{
    return seed & 0;
}

/* Keys of one hash fill more than one line: those behind a deleted one are found, updated in place,
 * and take its slot only if they are nowhere else. */
static void test_equal_hashes(void **state)
{
    struct shmht_writer_opts opts = {.hash_id = SHMHT_HASH_CALLER, .hash = same_hash};
    struct shmht_reader_opts ropts = {
        .size = sizeof(ropts), .hash_id = SHMHT_HASH_CALLER, .hash = same_hash};
    struct shmht_writer *w = create(&opts);
    struct shmht_reader *r;

    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), &ropts, &r, NULL), 0);
    for (uint64_t i = 0; i < 20; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    for (uint64_t gone = 0; gone < 20; gone++) {
        assert_int_equal(delete_key(w, gone), 0);
        for (uint64_t i = 0; i < 20; i++)
            assert_int_equal(version_of(r, i), i == gone ? -1 : (int64_t)(gone + 1));
        /* the others first: none of them may take the slot */
        for (uint64_t i = 0; i < 20; i++)
            assert_int_equal(i == gone ? 1 : put(w, i, gone + 2), SHMHT_PUT_REPLACED);
        assert_int_equal(put(w, gone, gone + 2), SHMHT_PUT_NEW);
        for (uint64_t i = 0; i < 20; i++)
            assert_int_equal(version_of(r, i), gone + 2);
    }
    assert_int_equal(stats_of(r).entries, 20);
    assert_int_equal(stats_of(r).table_grows, 0);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* A cache: many keys come and go. Growth leaves deleted keys out; a compacted table is small. */
static void test_churn(void **state)
{
    enum { LIVE = 20, ALL = 100000 };
    struct shmht_writer *w = create(&(struct shmht_writer_opts){0}), *next;
    struct shmht_reader *r = attach(w);
    struct shmht_desc desc;
    struct shmht_stats s;
    int fd;

    for (uint64_t i = 0; i < ALL; i++) {
        assert_int_equal(put(w, i, i), SHMHT_PUT_NEW);
        if (i >= LIVE)
            assert_int_equal(delete_key(w, i - LIVE), 0);
    }
    s = stats_of(r);
    assert_int_equal(s.entries, LIVE);
    assert_true(s.table_grows > 5 && s.table_grows < 20);
    assert_int_equal(shmht_writer_compact(w, NULL, &next, NULL), 0);
    fd = shmht_writer_share(next, &desc);
    assert_int_equal(shmht_reader_follow(r, &desc, fd, NULL), 0);
    s = stats_of(r);
    assert_true(s.entries == LIVE && s.garbage_bytes == 0 && s.total_bytes < 65536 * 2);
    for (uint64_t i = ALL - 2 * LIVE; i < ALL; i++)
        assert_int_equal(version_of(r, i), i < ALL - LIVE ? -1 : (int64_t)i);
    shmht_writer_destroy(w);
    assert_int_equal(version_of(r, ALL - 1), ALL - 1);
    shmht_reader_detach(r);
    shmht_writer_destroy(next);
}

/* A compacted table is filled as the old one, or as the options say. */
static void test_compact_load(void **state)
{
    struct shmht_writer *w = create(&(struct shmht_writer_opts){.max_load_percent = 20}), *next,
                        *third;
    struct shmht_writer_opts opts = {.size = sizeof(opts), .max_bytes = 1 << 20};

    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_writer_compact(w, &opts, &next, NULL), 0);
    assert_true(stats_of(shmht_writer_view(next)).slots >= 5000);
    opts.max_load_percent = 80;
    assert_int_equal(shmht_writer_compact(next, &opts, &third, NULL), 0);
    assert_true(stats_of(shmht_writer_view(third)).slots < 5000);
    shmht_writer_destroy(w);
    shmht_writer_destroy(next);
    shmht_writer_destroy(third);
}

/* In a process without standard input a reader's descriptor is 0. */
static void test_descriptor_0(void **state)
{
    struct shmht_writer *w = create(&(struct shmht_writer_opts){0}), *next;
    const int input = fcntl(0, F_DUPFD_CLOEXEC, 100);
    struct shmht_reader *r;
    struct shmht_desc desc;
    int fd;

    close(0);
    r = attach(w);
    assert_true(fcntl(0, F_GETFD) >= 0);
    assert_int_equal(put(w, 1, 1), SHMHT_PUT_NEW);
    assert_int_equal(shmht_writer_compact(w, NULL, &next, NULL), 0);
    fd = shmht_writer_share(next, &desc);
    assert_int_equal(shmht_reader_follow(r, &desc, fd, NULL), 0);
    assert_int_equal(version_of(r, 1), 1);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
    shmht_writer_destroy(next);
    if (input >= 0) {
        dup2(input, 0);
        close(input);
    }
}

/* At the cap a delete works. The put of that key may still fail: a compacted table has the room. */
static void test_at_cap(void **state)
{
    struct shmht_writer *w = create(&(struct shmht_writer_opts){.max_bytes = 1 << 20}), *next;
    struct shmht_reader *r = attach(w);
    uint64_t n = 0;

    while (put(w, n, 1) == SHMHT_PUT_NEW)
        n++;
    assert_int_equal(put(w, n, 1), SHMHT_EFULL);
    for (uint64_t i = 0; i < n / 2; i++)
        assert_int_equal(delete_key(w, i), 0);
    assert_int_equal(put(w, n, 1), SHMHT_EFULL);
    assert_int_equal(stats_of(r).entries, n - n / 2);
    assert_int_equal(shmht_writer_compact(w, NULL, &next, NULL), 0);
    assert_int_equal(put(next, n, 1), SHMHT_PUT_NEW);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
    shmht_writer_destroy(next);
}

/* With the table full and room in the log, a deleted key's own slot suffices. */
static void test_full_table(void **state)
{
    static _Alignas(64) unsigned char region[SHMHT_MIN_REGION_BYTES];
    struct shmht_writer *w =
        create(&(struct shmht_writer_opts){.region = region, .max_bytes = sizeof(region)});
    struct shmht_reader *r = shmht_writer_view(w);
    uint64_t n = 0, gone = 5;
    int rc;

    while ((rc = shmht_put(w, &n, sizeof(n), NULL, 0)) == SHMHT_PUT_NEW)
        n++;
    assert_int_equal(rc, SHMHT_EFULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(shmht_delete(w, &gone, sizeof(gone)), 0);
        assert_int_equal(shmht_put(w, &n, sizeof(n), NULL, 0), SHMHT_EFULL);
        assert_int_equal(shmht_get(r, &gone, sizeof(gone), &(struct shmht_bytes){0}), SHMHT_ENOENT);
        assert_int_equal(shmht_put(w, &gone, sizeof(gone), NULL, 0), SHMHT_PUT_NEW);
    }
    assert_int_equal(stats_of(r).entries, n);
    assert_int_equal(shmht_reader_follow(r, NULL, -1, NULL), -EINVAL);
    shmht_writer_destroy(w);
}

/* Slots of the present table that are not empty (LAYOUT.md). */
static uint64_t used_slots(const unsigned char *region)
{
    uint64_t table, slot, n = 0;

    memcpy(&table, region + 64, sizeof(table));
    for (uint64_t i = 0; i < (table >> 32) * 8; i++) {
        memcpy(&slot, region + (table & UINT32_MAX) * 64 + i * 8, sizeof(slot));
        n += slot != 0;
    }
    return n;
}

/* Deleted keys hold slots until the table grows, and none afterwards. */
static void test_growth(void **state)
{
    static _Alignas(64) unsigned char region[65536];
    struct shmht_writer *w = create(&(struct shmht_writer_opts){
        .region = region, .max_bytes = sizeof(region), .expected_entries = 22});
    struct shmht_reader *r = shmht_writer_view(w);
    uint64_t n = 0;

    /* 4 lines, of which 70 % of the slots are 22; then 8, and 44 */
    for (; n < 22; n++)
        assert_int_equal(put(w, n, 1), SHMHT_PUT_NEW);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(delete_key(w, i), 0);
    assert_true(stats_of(r).table_grows == 0 && used_slots(region) == 22);
    for (; n < 22 + 32; n++) {
        assert_int_equal(put(w, n, 1), SHMHT_PUT_NEW);
        assert_int_equal(stats_of(r).table_grows, 1);
        assert_int_equal(used_slots(region), n + 1 - 10);
    }
    assert_int_equal(put(w, n, 1), SHMHT_PUT_NEW);
    assert_int_equal(stats_of(r).table_grows, 2);
    shmht_writer_destroy(w);
}

/* With deferred growth a delete reaches the readers' table and the private one. */
static void test_deferred(void **state)
{
    struct shmht_writer *w = create(&(struct shmht_writer_opts){.flags = SHMHT_DEFER});
    struct shmht_reader *r = attach(w);
    uint64_t shown = 0;

    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    while (shmht_get(r, "mpi-adr-00000001", 16, &(struct shmht_bytes){0}) == 0 && shown < 10)
        shown++;
    assert_true(shown == 10 && shmht_writer_has_unpublished(w));
    assert_int_equal(delete_key(w, 1), 0);
    assert_int_equal(delete_key(w, 900), 0);
    assert_int_equal(version_of(r, 1), -1);
    assert_int_equal(put(w, 1, 2), SHMHT_PUT_NEW);
    assert_int_equal(shmht_get(r, "mpi-adr-00000001", 16, &(struct shmht_bytes){0}), SHMHT_ENOENT);
    assert_int_equal(shmht_writer_publish(w), 0);
    assert_int_equal(stats_of(r).entries, 999);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(version_of(r, i), i == 1 ? 2 : i == 900 ? -1 : 1);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

/* A merge puts a deleted key back, and an exported block has no deleted pair. */
static void test_blocks(void **state)
{
    struct shmht_writer *w = create(&(struct shmht_writer_opts){0});
    struct shmht_reader *r = shmht_writer_view(w);
    struct shmht_iter it = {0};
    struct shmht_merged merged;
    unsigned char block[4096];
    ssize_t n;

    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
    n = shmht_reader_export(r, &it, block, sizeof(block));
    assert_int_equal(n, 32 + 10 * 52);
    assert_int_equal(delete_key(w, 3), 0);
    it = (struct shmht_iter){0};
    assert_int_equal(shmht_reader_export(r, &it, block + n, sizeof(block) - (size_t)n),
                     32 + 9 * 52);
    assert_int_equal(shmht_writer_merge(w, block, (size_t)n, &merged), 0);
    assert_int_equal(merged.n_new, 1);
    assert_int_equal(version_of(r, 3), 1);
    shmht_writer_destroy(w);
}

static int is_mapped(const void *p)
{
    unsigned char page;
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);

    return mincore((void *)((uintptr_t)p / size * size), 1, &page) == 0;
}

static int n_mappings(void) /* of tables */
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        n += strstr(line, "/memfd:") || strstr(line, "/dev/shm/");
    fclose(f);
    assert_true(n > 0);
    return n;
}

/* Following moves one reader, and unmaps what it had; a failure leaves it where it was. */
static void test_follow(void **state)
{
    for (uint32_t flags = 0; flags <= SHMHT_NAMED; flags += SHMHT_NAMED) {
        struct shmht_writer *w = create(&(struct shmht_writer_opts){.flags = flags}), *next, *third;
        struct shmht_reader_opts ropts = {.size = sizeof(ropts), .max_bytes = 64 << 20};
        struct shmht_desc first, desc;
        struct shmht_bytes held;
        struct shmht_reader *r, *stays;
        struct shmht_error err;
        struct shmht_iter it = {0};
        int fd = shmht_writer_share(w, &first), next_fd, mapped;

        for (uint64_t i = 0; i < 1000; i++)
            assert_int_equal(put(w, i, 1), SHMHT_PUT_NEW);
        assert_int_equal(shmht_reader_attach(&first, flags ? -1 : fd, &ropts, &r, NULL), 0);
        assert_int_equal(shmht_reader_attach(&first, flags ? -1 : fd, &ropts, &stays, NULL), 0);
        assert_int_equal(shmht_get(r, "mpi-adr-00000999", 16, &held), 0);
        assert_int_equal(delete_key(w, 0), 0);
        assert_int_equal(shmht_writer_compact(w, NULL, &next, NULL), 0);
        assert_int_equal(put(next, 999, 2), SHMHT_PUT_REPLACED);
        next_fd = shmht_writer_share(next, &desc);

        /* its own table, no table, a writer's view, a table beyond the reader's limit */
        mapped = n_mappings();
        assert_int_equal(shmht_reader_follow(r, &first, flags ? -1 : fd, &err), SHMHT_ESTALE);
        assert_string_equal(err.what, "generation");
        assert_int_equal(n_mappings(), mapped);
        assert_int_equal(shmht_reader_follow(r, NULL, -1, &err), -EINVAL);
        assert_int_equal(shmht_reader_follow(shmht_writer_view(w), &desc, next_fd, &err), -EINVAL);
        third = create(&(struct shmht_writer_opts){.max_bytes = 65 << 20, .generation = 9});
        assert_int_equal(shmht_reader_follow(r, NULL, shmht_writer_share(third, NULL), &err),
                         SHMHT_ELIMIT);
        shmht_writer_destroy(third);
        assert_int_equal(version_of(r, 999), 1);
        assert_int_equal(version32(&held, 999), 1);

        assert_int_equal(shmht_reader_follow(r, &desc, flags ? -1 : next_fd, NULL), 0);
        assert_false(is_mapped(held.ptr));
        assert_int_equal(version_of(r, 999), 2);
        assert_int_equal(version_of(r, 0), -1);
        for (uint64_t i = 1000; i < 5000; i++) /* growth of the new table */
            assert_int_equal(put(next, i, 1), SHMHT_PUT_NEW);
        assert_int_equal(version_of(r, 4999), 1);
        assert_int_equal(version_of(stays, 999), 1);
        assert_int_equal(shmht_reader_next(r, &it, &held, &held), 1);
        assert_int_equal(shmht_reader_follow(r, &desc, flags ? -1 : next_fd, NULL), SHMHT_ESTALE);
        shmht_writer_destroy(w);
        shmht_writer_destroy(next);
        shmht_reader_detach(stays);
        shmht_reader_detach(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delete),       cmocka_unit_test(test_delete_long),
        cmocka_unit_test(test_slot_again),   cmocka_unit_test(test_equal_hashes),
        cmocka_unit_test(test_churn),        cmocka_unit_test(test_descriptor_0),
        cmocka_unit_test(test_compact_load), cmocka_unit_test(test_at_cap),
        cmocka_unit_test(test_full_table),   cmocka_unit_test(test_growth),
        cmocka_unit_test(test_deferred),     cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

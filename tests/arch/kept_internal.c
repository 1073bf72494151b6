/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that the libraries wrote on x86-64 (.little) and on s390x (.big). The test fails when
 * today's libraries write other bytes or cannot read these.
 *
 *     arch_kept_internal FOLDER         the test: opens the files of both byte orders
 *     arch_kept_internal write FOLDER   writes those of this machine's order
 *
 * A file of this machine's order has the bytes that the library writes today, and opens. One of the
 * other order is refused with the code for that; a packed map is the same on both, and is read. A
 * file is text: the number of bytes, then its lines of 16 bytes that are not all zero. After a
 * change of a format, the script `keep` rewrites all of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <pmiwire/exchange.h>
#include <rankmap.h>
#include <shmht.h>
#include <storwin.h>

#include "../../libasymreg/src/table/table.h"

#define CAP   (1u << 20)
#define ORDER (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)

static const char *folder;
static const char *const orders[] = {"big", "little"};
static uint8_t bytes[CAP] __attribute__((aligned(4096)));

/* ------------------------------------------------------------------ kept files */

static FILE *kept_open(const char *name, int order, const char *mode)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s.%s", folder, name, orders[order]);
    if (!(file = fopen(path, mode)))
        fail_msg("%s: %s", path, strerror(errno));
    return file;
}

/* Writes into `to`, which has CAP bytes. */
static size_t kept_read(const char *name, int order, uint8_t *to)
{
    FILE *file = kept_open(name, order, "r");
    unsigned at, byte[16], total;

    memset(to, 0, CAP);
    assert_int_equal(fscanf(file, "%u bytes", &total), 1);
    assert_true(total <= CAP);
    while (fscanf(file, "%x:", &at) == 1) {
        assert_true(at + 16 <= CAP);
        for (unsigned i = 0; i < 16; i++) {
            assert_int_equal(fscanf(file, "%2x", &byte[i]), 1);
            to[at + i] = (uint8_t)byte[i];
        }
    }
    assert_true(feof(file));
    fclose(file);
    return total;
}

static void kept_write(const char *name, const uint8_t *from, size_t n)
{
    static const uint8_t zeros[16];
    FILE *file = kept_open(name, ORDER, "w");

    fprintf(file, "%zu bytes\n", n);
    for (size_t at = 0; at < n; at += 16) {
        if (memcmp(from + at, zeros, 16) == 0)
            continue;
        fprintf(file, "%06zx:", at);
        for (unsigned i = 0; i < 16; i++)
            fprintf(file, "%s%02x", i % 4 ? "" : " ", from[at + i]);
        fputc('\n', file);
    }
    if (fclose(file) != 0)
        fail_msg("%s: %s", name, strerror(errno));
}

/* ------------------------------------------------------------------ libshmht */

static const char *const keys[] = {"mpi-addr-0", "mpi-addr-1", "mpi-addr-2"};
static const char *const values[] = {"lid 0001 qp 0007", "", "lid 0002 qp 0009"};

static struct shmht_writer *table_writer(uint8_t *region)
{
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = SHMHT_MIN_REGION_BYTES, .region = region, .seed = 7};
    struct shmht_writer *w;

    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    return w;
}

static void table_fill(struct shmht_writer *w)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(shmht_put(w, keys[i], strlen(keys[i]), values[i], strlen(values[i])),
                         SHMHT_PUT_NEW);
}

static size_t table_make(uint8_t *to)
{
    struct shmht_writer *w = table_writer(to);

    table_fill(w);
    shmht_writer_destroy(w);
    memset(to + 16, 0, 8); /* the random identifier */
    return SHMHT_MIN_REGION_BYTES;
}

static size_t block_make(uint8_t *to)
{
    static uint8_t region[SHMHT_MIN_REGION_BYTES] __attribute__((aligned(64)));
    struct shmht_writer *w = table_writer(region);
    struct shmht_iter it = {0};
    ssize_t n;

    table_fill(w);
    n = shmht_reader_export(shmht_writer_view(w), &it, to, CAP);
    assert_true(n > 0);
    shmht_writer_destroy(w);
    return (size_t)n;
}

static int table_attach(uint8_t *region, struct shmht_reader **r, struct shmht_error *err)
{
    struct shmht_reader_opts opts = {
        .size = sizeof(opts), .region = region, .region_bytes = SHMHT_MIN_REGION_BYTES};

    return shmht_reader_attach(NULL, -1, &opts, r, err);
}

static void table_has_pairs(const struct shmht_reader *r)
{
    for (int i = 0; i < 3; i++) {
        struct shmht_bytes value;

        assert_int_equal(shmht_get(r, keys[i], strlen(keys[i]), &value), 0);
        assert_int_equal(value.len, strlen(values[i]));
        assert_memory_equal(value.ptr, values[i], value.len);
    }
}

static void table_check(uint8_t *kept, size_t n, int ours)
{
    struct shmht_reader *r;
    struct shmht_error err;
    int rc = table_attach(kept, &r, &err);

    assert_int_equal(n, SHMHT_MIN_REGION_BYTES);
    if (!ours) {
        assert_int_equal(rc, SHMHT_EORDER);
        assert_non_null(strstr(err.text, "byte order"));
        return;
    }
    assert_int_equal(rc, 0);
    table_has_pairs(r);
    shmht_reader_detach(r);
}

static void block_check(uint8_t *kept, size_t n, int ours)
{
    static uint8_t region[SHMHT_MIN_REGION_BYTES] __attribute__((aligned(64)));
    struct shmht_writer *w = table_writer(region);
    struct shmht_merged merged = {0};
    struct pmiwire_keyval pair;
    struct shmht_reader *r;
    size_t pos = 0;

    assert_int_equal(shmht_writer_merge(w, kept, n, &merged), ours ? 0 : SHMHT_EORDER);
    assert_int_equal(merged.n_new, ours ? 3 : 0);
    assert_int_equal(table_attach(region, &r, NULL), 0);
    if (ours)
        table_has_pairs(r);
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
    /* Libpmiwire reads and writes the same blocks. */
    assert_int_equal(pmiwire_block_next(kept, n, &pos, &pair), ours ? 1 : PMIWIRE_EVERSION);
}

/* ------------------------------------------------------------------ libpmiwire */

struct node {
    struct pmiwire_exchange *x;
    uint8_t *sent; /* its frame */
    size_t bytes;
    int n_done, n_pairs;
};

static int node_send(void *ctx, uint32_t to, const struct iovec *iov, uint32_t n_iov, size_t n)
{
    struct node *node = ctx;

    (void)to;
    if (!node->sent)
        return 0;
    assert_true(n <= CAP && node->bytes == 0);
    for (uint32_t i = 0; i < n_iov; i++) {
        memcpy(node->sent + node->bytes, iov[i].iov_base, iov[i].iov_len);
        node->bytes += iov[i].iov_len;
    }
    return 0;
}

static uint32_t node_of(void *ctx, uint32_t rank)
{
    (void)ctx;
    return rank;
}

static void node_done(void *ctx, uint32_t kind, uint32_t number, int rc)
{
    (void)kind, (void)number;
    ((struct node *)ctx)->n_done += rc == 0;
}

static int node_pairs(void *ctx, uint32_t kind, uint32_t number, const void *block, size_t n)
{
    struct node *node = ctx;
    struct pmiwire_keyval pair;
    size_t pos = 0;

    (void)kind, (void)number;
    while (pmiwire_block_next(block, n, &pos, &pair) == 1) {
        int i = node->n_pairs++;

        assert_true(i < 3 && pair.key.len == strlen(keys[i]) &&
                    pair.value.len == strlen(values[i]));
        assert_memory_equal(pair.key.ptr, keys[i], pair.key.len);
        assert_memory_equal(pair.value.ptr, values[i], pair.value.len);
    }
    assert_int_equal(pos, n);
    return 0;
}

static void node_create(struct node *node, uint32_t me)
{
    const struct pmiwire_exchange_ops ops = {.size = sizeof(ops),
                                             .send = node_send,
                                             .node_of = node_of,
                                             .done = node_done,
                                             .pairs = node_pairs};
    const struct pmiwire_exchange_opts opts = {.size = sizeof(opts),
                                               .ops = &ops,
                                               .ctx = node,
                                               .job = 7,
                                               .node = me,
                                               .n_nodes = 2,
                                               .n_ranks = 2,
                                               .ranks = &me,
                                               .n_local = 1,
                                               .n_below = me};

    assert_int_equal(pmiwire_exchange_create(&opts, &node->x), 0);
}

/* The frames that node 1 sends to node 0 in a Fence. */
static size_t frame_make(uint8_t *to)
{
    struct node node = {.sent = to};

    node_create(&node, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pmiwire_exchange_put(node.x, 1, pmiwire_strz(keys[i]),
                                              pmiwire_strz(values[i]), PMIWIRE_HINT_DENSE),
                         0);
    assert_int_equal(pmiwire_exchange_fence(node.x, 1), 0);
    pmiwire_exchange_destroy(node.x);
    assert_true(node.bytes > 0);
    return node.bytes;
}

static void frame_check(uint8_t *kept, size_t n, int ours)
{
    struct node node = {.sent = NULL};

    node_create(&node, 0);
    assert_int_equal(pmiwire_exchange_fence(node.x, 0), 0);
    assert_int_equal(pmiwire_exchange_input(node.x, 1, kept, n), ours ? 0 : PMIWIRE_EVERSION);
    assert_int_equal(node.n_done, ours);
    assert_int_equal(node.n_pairs, ours ? 3 : 0);
    pmiwire_exchange_destroy(node.x);
}

/* ------------------------------------------------------------------ librankmap */

enum { N_MAPS = 5, MAX_RANKS = 1024 };

/* The ids of a map that LAYOUT.md's form 1 + `which` packs. */
static uint32_t map_ids(int which, uint64_t *ids)
{
    static const uint64_t first[] = {1000, 2111, 5007, 9001};
    uint64_t at = 1000;
    uint32_t random = 12345;

    for (uint32_t r = 0; r < MAX_RANKS; r++) {
        uint32_t other;

        random = random * 1103515245u + 12345u;
        other = (random >> 16) % (r + 1);
        switch (which) {
        case 0: ids[r] = 100 + 3 * r; break;                              /* regular */
        case 1: ids[r] = first[r / 256] + r % 256 * (1 + r / 256); break; /* runs */
        case 2: ids[r] = ids[other], ids[other] = r; break;               /* packed: shuffled */
        case 3: ids[r] = at += 1 + (random >> 16) % 3; break;             /* bitmap */
        default: ids[r] = at += 1 + (random >> 16) % 20;                  /* elias-fano */
        }
    }
    return MAX_RANKS;
}

static size_t maps_make(uint8_t *to)
{
    size_t n = 0;

    for (int which = 0; which < N_MAPS; which++) {
        uint64_t ids[MAX_RANKS];
        uint32_t n_ids = map_ids(which, ids);
        struct rankmap *map;
        ssize_t more;

        assert_int_equal(rankmap_from_ids(ids, sizeof(ids[0]), n_ids, NULL, &map, NULL), 0);
        more = rankmap_pack(map, to + n, CAP - n);
        assert_true(more > 24);
        if (to[n + 5] != 1 + which)
            fail_msg("map %d is packed in the form %d", which, to[n + 5]);
        n += (size_t)more;
        rankmap_unref(map);
    }
    return n;
}

static void maps_check(uint8_t *kept, size_t n, int ours)
{
    size_t at = 0;

    (void)ours; /* identical on all machines */
    for (int which = 0; which < N_MAPS; which++) {
        uint64_t ids[MAX_RANKS];
        uint32_t n_ids = map_ids(which, ids);
        struct rankmap *map;
        ssize_t more = rankmap_unpack(kept + at, n - at, NULL, &map);

        assert_true(more > 0);
        at += (size_t)more;
        assert_int_equal(rankmap_size(map), n_ids);
        for (uint32_t r = 0; r < n_ids; r++)
            assert_int_equal(rankmap_id(map, r), ids[r]);
        rankmap_unref(map);
    }
    assert_int_equal(at, n);
}

/* ------------------------------------------------------------------ libstorwin */

enum { STATE = 600 };

static char file_path[] = "kept-XXXXXX"; /* in the working directory, which is that of the build */

static void file_remove(void)
{
    (void)unlink(file_path);
}

static int file_open(void)
{
    int fd;

    strcpy(file_path, "kept-XXXXXX");
    fd = mkstemp(file_path);
    if (fd < 0)
        fail_msg("%s: %s", file_path, strerror(errno));
    return fd;
}

static int window_open(struct storwin_window **win, struct storwin_error *err)
{
    struct storwin_opts opts;

    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.filename = file_path;
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_JOURNAL;
    return storwin_alloc(&opts, STATE, win, err);
}

/* Two commits: a whole area, and a batch of the journal. */
static size_t commits_make(uint8_t *to)
{
    struct storwin_window *win;
    struct storwin_error err;
    int fd = file_open();
    ssize_t n;

    if (window_open(&win, &err) < 0)
        fail_msg("%s: %s", err.hint, err.text);
    for (int commit = 1; commit <= 2; commit++) {
        memset((char *)storwin_base(win) + 100 * commit, '0' + commit, 200);
        if (storwin_commit(win, &err) < 0)
            fail_msg("%s: %s", err.hint, err.text);
    }
    assert_int_equal(storwin_free(win, NULL), 0);
    n = pread(fd, to, CAP, 0);
    assert_true(n > 0 && n < (ssize_t)CAP);
    close(fd);
    file_remove();
    return (size_t)n;
}

static void commits_check(uint8_t *kept, size_t n, int ours)
{
    static uint8_t after[CAP];
    struct storwin_window *win;
    struct storwin_error err;
    int fd = file_open(), rc;

    assert_int_equal(pwrite(fd, kept, n, 0), n);
    rc = window_open(&win, &err);
    if (ours) {
        const char *state;

        if (rc < 0)
            fail_msg("%s: %s", err.hint, err.text);
        state = storwin_base(win);
        for (int i = 0; i < STATE; i++)
            assert_int_equal(state[i], i < 100 ? 0 : i < 200 ? '1' : i < 400 ? '2' : 0);
        assert_int_equal(storwin_free(win, NULL), 0);
    } else {
        assert_int_equal(rc, STORWIN_EFORMAT);
        assert_non_null(strstr(err.text, "byte order"));
        assert_int_equal(pread(fd, after, CAP, 0), n); /* and unchanged */
        assert_memory_equal(after, kept, n);
    }
    close(fd);
    file_remove();
}

/* ------------------------------------------------------------------ libasymreg */

static const struct asymreg__table_opts table_sizes = {
    .max_regions = 128, .max_segments = 4, .ring = 16, .max_handle_bytes = 16};

static size_t regions_make(uint8_t *to)
{
    struct asymreg__table *table;
    uint64_t segment, n = asymreg__table_bytes(&table_sizes);
    asymreg_id id[3];

    assert_true(n > 0 && n <= CAP);
    assert_int_equal(asymreg__table_create(&table_sizes, to, 42, &table), 0);
    assert_int_equal(asymreg__table_segment_add(table, 0x10000, 0x10000, "handle", 6, &segment), 0);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(
            asymreg__table_insert(table, 0x10000 + 0x1000 * i, 0x100, ASYMREG_RW, segment, &id[i]),
            0);
    assert_int_equal(asymreg__table_remove(table, id[1]), 0);
    asymreg__table_destroy(table);
    ((struct asymreg__header *)(void *)to)->log.state = TABLE_OPEN; /* as before */
    return n;
}

static int read_kept(void *ctx, uint64_t offset, void *to, size_t n)
{
    memcpy(to, (const uint8_t *)ctx + offset, n);
    return 0;
}

static void regions_check(uint8_t *kept, size_t n, int ours)
{
    for (int mapped = 0; mapped < 2; mapped++) {
        const struct asymreg__cache_opts opts = {.read = mapped ? NULL : read_kept,
                                                 .mapped = mapped ? kept : NULL,
                                                 .ctx = kept,
                                                 .bytes = n,
                                                 .incarnation = 42};
        struct asymreg__cache *cache;
        struct asymreg__segment_copy segment;
        struct asymreg__reader *reader;
        const struct asymreg_region *r;

        assert_int_equal(asymreg__cache_create(&opts, &cache), ours ? 0 : ASYMREG_EVERSION);
        if (!ours)
            continue;
        assert_true(asymreg__cache_refresh(cache) > 0);
        assert_int_equal(asymreg__reader_create(asymreg__cache_index(cache), &reader), 0);
        assert_null(asymreg__index_lookup(reader, 0x11000));
        assert_non_null(r = asymreg__index_lookup(reader, 0x120ff));
        assert_true(r->start == 0x12000 && r->last == 0x120ff && r->prot == ASYMREG_RW);
        assert_int_equal(asymreg__cache_segment(cache, r->value, &segment), 0);
        assert_int_equal(segment.handle_bytes, 6);
        assert_memory_equal(segment.handle, "handle", 6);
        asymreg__reader_destroy(reader);
        asymreg__cache_destroy(cache);
    }
}

/* ------------------------------------------------------------------ all of them */

static const struct kind {
    const char *name;
    size_t (*make)(uint8_t *to); /* into CAP zeros */
    void (*check)(uint8_t *kept, size_t n, int ours);
} kinds[] = {
    {"shmht-block", block_make, block_check},
    {"shmht-table", table_make, table_check},
    {"pmiwire-frame", frame_make, frame_check},
    {"rankmap-packed", maps_make, maps_check},
    {"storwin-commits", commits_make, commits_check},
    {"asymreg-table", regions_make, regions_check},
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void is_written_today(void **state)
{
    static uint8_t kept[CAP];

    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        size_t n;

        memset(bytes, 0, CAP);
        n = kinds[i].make(bytes);
        if (kept_read(kinds[i].name, ORDER, kept) != n || memcmp(kept, bytes, n) != 0)
            fail_msg("the library does not write what %s.%s has: if the format was meant to "
                     "change, tests/arch/keep writes the files anew",
                     kinds[i].name, orders[ORDER]);
    }
}

static void this_order_opens(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++)
        kinds[i].check(bytes, kept_read(kinds[i].name, ORDER, bytes), 1);
}

static void other_order_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++)
        kinds[i].check(bytes, kept_read(kinds[i].name, !ORDER, bytes), 0);
}

/* Is the file of this machine's byte order? */
static void write_all(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++) {
        memset(bytes, 0, CAP);
        kept_write(kinds[i].name, bytes, kinds[i].make(bytes));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_written_today),
                                       cmocka_unit_test(this_order_opens),
                                       cmocka_unit_test(other_order_is_refused)};
    const struct CMUnitTest writes[] = {cmocka_unit_test(write_all)};

    atexit(file_remove);
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        folder = argv[2];
        return cmocka_run_group_tests(writes, NULL, NULL);
    }
    if (argc != 2) {
        fprintf(stderr, "usage: arch_kept_internal [write] FOLDER\n");
        return 2;
    }
    folder = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}

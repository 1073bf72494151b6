/* SPDX-License-Identifier: BSD-3-Clause */
/* The address vector: entries of each width, tags and their escape, groups that come, grow and go,
 * flat ids in maps. */
#include <pthread.h>
#include <stdbool.h>

#include "rankmap_tools.h"

#define TOP_BIT (UINT64_C(1) << 63)

static struct rankmap_av *av_new(uint32_t entry_bytes, uint64_t capacity, uint64_t tag_mask)
{
    struct rankmap_av_opts opts = {.size = sizeof(opts),
                                   .entry_bytes = entry_bytes,
                                   .capacity = capacity,
                                   .tag_mask = tag_mask};
    struct rankmap_av *av = NULL;

    assert_int_equal(rankmap_av_create(&opts, &av), 0);
    return av;
}

static struct rankmap_info_av info_of(const struct rankmap_av *av)
{
    struct rankmap_info_av info = {.size = sizeof(info)};

    assert_int_equal(rankmap_av_query(av, &info), 0);
    return info;
}

static struct rankmap_av_group group_add(struct rankmap_av *av, uint64_t n)
{
    struct rankmap_av_group group;

    assert_int_equal(rankmap_av_group_add(av, n, &group), 0);
    assert_int_equal(group.n_procs, n);
    return group;
}

static void has(const struct rankmap_av *av, uint64_t id, uint64_t addr, uint64_t tag)
{
    struct rankmap_av_entry entry;

    assert_int_equal(rankmap_av_get(av, id, &entry), 0);
    assert_int_equal(entry.addr, addr);
    assert_int_equal(entry.tag, tag);
}

static void bad_options(void **state)
{
    static const struct {
        uint32_t entry_bytes;
        uint64_t capacity, tag_mask;
        int rc;
    } cases[] = {
        {4, 10, 0, -EINVAL},
        {RANKMAP_MAX_WIDTH + 1, 10, 0, -EINVAL},
        {24, 10, 1, -EINVAL},
        {8, 10, UINT64_MAX, -EINVAL},
        {12, 10, 1, -EINVAL},
        {8, 0, 0, RANKMAP_ERANGE},
        {8, RANKMAP_ID_LIMIT + 1, 0, RANKMAP_ERANGE},
#if SIZE_MAX == UINT32_MAX /* no such address space */
        {8, UINT64_C(1) << 29, 0, RANKMAP_ERANGE},
        {8, UINT64_C(1) << 33, 0, RANKMAP_ERANGE},
#endif
    };
    struct rankmap_av *av = NULL;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rankmap_av_opts opts = {.size = sizeof(opts),
                                       .entry_bytes = cases[i].entry_bytes,
                                       .capacity = cases[i].capacity,
                                       .tag_mask = cases[i].tag_mask};

        assert_int_equal(rankmap_av_create(&opts, &av), cases[i].rc);
    }
    assert_int_equal(rankmap_av_create(NULL, &av), -EINVAL);
    assert_null(av);
    rankmap_av_destroy(NULL);
}

static void widths(void **state)
{
    static const uint32_t width[] = {8, 12, 16};

    for (int i = 0; i < 3; i++) {
        struct rankmap_av *av = av_new(width[i], 100000, width[i] == 8 ? TOP_BIT | 6 : 0);
        struct rankmap_av_group group = group_add(av, 5000);
        uint64_t before = info_of(av).bytes;

        for (uint64_t id = 0; id < 5000; id++)
            assert_int_equal(rankmap_av_set(av, id, 0x1000 + 8 * id, id % 7), 0);
        for (uint64_t id = 0; id < 5000; id++)
            has(av, id, 0x1000 + 8 * id, id % 7);
        assert_int_equal(rankmap_av_set(av, 5000, 1, 0), RANKMAP_ENOENT);
        assert_int_equal(info_of(av).bytes, before); /* nothing was escaped */
        assert_true(before >= 5000 * (uint64_t)width[i] &&
                    before < 5000 * (uint64_t)width[i] + 1000);
        if (width[i] == 12)
            assert_int_equal(rankmap_av_set(av, 0, 1, UINT64_C(1) << 32), RANKMAP_ETAG);
        assert_int_equal(rankmap_av_set_rule(av, group.id, 0, 1, 0), -EINVAL);
        rankmap_av_destroy(av);
    }
}

static void tags_and_escapes(void **state)
{
    struct rankmap_av *av = av_new(8, 10000, TOP_BIT | 6);
    const uint64_t *words = info_of(av).base;
    uint64_t unescaped;

    group_add(av, 5000);
    assert_int_equal(rankmap_av_set(av, 3, 0x1000, 8), RANKMAP_ETAG);
    assert_int_equal(rankmap_av_set(av, 3, 0x1000, 7), 0); /* all ones is an ordinary tag */
    assert_int_equal(words[3], TOP_BIT | 6 | 0x1000);
    has(av, 3, 0x1000, 7);
    assert_int_equal(rankmap_av_set(av, 3, 0x1000, 5), 0);
    assert_int_equal(words[3], TOP_BIT | 2 | 0x1000);
    assert_int_equal(rankmap_av_word_addr(words[3], TOP_BIT | 6), 0x1000);
    assert_false(rankmap_av_word_escaped(words[3], TOP_BIT | 6));
    unescaped = info_of(av).bytes;
    for (uint64_t id = 0; id < 5000; id += 2) /* these addresses use the bits of the tag */
        assert_int_equal(rankmap_av_set(av, id, UINT64_MAX - id, id % 8), 0);
    assert_true(rankmap_av_word_escaped(words[2], TOP_BIT | 6));
    assert_true(info_of(av).bytes > unescaped + 2500 * 24);
    for (uint64_t id = 0; id < 5000; id += 2)
        has(av, id, UINT64_MAX - id, id % 8);
    has(av, 3, 0x1000, 5);
    has(av, 1, 0, 0);                                    /* never set */
    assert_int_equal(rankmap_av_set(av, 2, 0x40, 1), 0); /* and back */
    has(av, 2, 0x40, 1);
    has(av, 4, UINT64_MAX - 4, 4);
    rankmap_av_destroy(av);
    av = av_new(8, 10, 0); /* no tags: every address fits */
    group_add(av, 10);
    assert_int_equal(rankmap_av_set(av, 0, UINT64_MAX, 0), 0);
    has(av, 0, UINT64_MAX, 0);
    assert_int_equal(rankmap_av_set(av, 0, 1, 1), RANKMAP_ETAG);
    rankmap_av_destroy(av);
}

/* A table of escapes has two equal copies, and is at most half full: 16 slots are enough for 8. */
static void tables_of_escapes(void **state)
{
    struct rankmap_av *av = av_new(8, 100, 1);
    uint64_t without, table;
    uint32_t last;

    group_add(av, 30);
    group_add(av, 30);
    last = group_add(av, 10).id;
    without = info_of(av).bytes;
    assert_int_equal(rankmap_av_set(av, 0, 1, 0), 0);
    table = info_of(av).bytes - without;
    assert_true(table >= 16 * 24 && table < 17 * 24 + 100);
    for (uint64_t id = 1; id < 7; id++)
        assert_int_equal(rankmap_av_set(av, id, 2 * id + 1, 0), 0);
    assert_int_equal(info_of(av).bytes, without + table);
    assert_int_equal(rankmap_av_group_retire(av, last), 0); /* fills the second copy */
    without -= UINT64_C(10) * 8;
    assert_int_equal(info_of(av).bytes, without + 2 * table);
    assert_int_equal(rankmap_av_set(av, 7, 15, 0), 0);
    assert_int_equal(info_of(av).bytes, without + 2 * table);
    assert_int_equal(rankmap_av_set(av, 8, 17, 0), 0);
    assert_int_equal(info_of(av).bytes, without + 3 * table + UINT64_C(16) * 24);
    for (uint64_t id = 0; id < 9; id++)
        has(av, id, 2 * id + 1, 0);
    rankmap_av_destroy(av);
}

/* The paper's own case: one bit, two transports. */
static void one_tag_bit(void **state)
{
    const uint64_t addrs[] = {0, 0x1000, TOP_BIT - 1, TOP_BIT, TOP_BIT | 5, UINT64_MAX};
    struct rankmap_av *av = av_new(8, 100, TOP_BIT);
    const uint64_t *words = info_of(av).base;

    group_add(av, 100);
    for (uint64_t tag = 0; tag < 2; tag++)
        for (uint64_t i = 0; i < 6; i++) {
            bool escaped = addrs[i] >= TOP_BIT || (tag == 1 && addrs[i] == TOP_BIT - 1);

            assert_int_equal(rankmap_av_set(av, i, addrs[i], tag), 0);
            has(av, i, addrs[i], tag);
            assert_int_equal(rankmap_av_word_escaped(words[i], TOP_BIT), escaped);
            if (!escaped)
                assert_int_equal(rankmap_av_word_addr(words[i], TOP_BIT), addrs[i]);
        }
    assert_int_equal(rankmap_av_set(av, 0, 1, 2), RANKMAP_ETAG);
    rankmap_av_destroy(av);
}

static void implicit(void **state)
{
    struct rankmap_av *av = av_new(0, RANKMAP_ID_LIMIT, 0);
    struct rankmap_av_group world = group_add(av, 786432), spawned = group_add(av, 100);

    assert_null(info_of(av).base);
    assert_int_equal(rankmap_av_set_rule(av, world.id, 0, 1, 3), 0);
    assert_int_equal(rankmap_av_set_rule(av, spawned.id, 5000, 16, 1), 0);
    has(av, 786431, 786431, 3);
    has(av, spawned.base + 99, 5000 + 16 * 99, 1);
    assert_int_equal(rankmap_av_set(av, 0, 1, 0), -EINVAL);
    assert_int_equal(rankmap_av_set_rule(av, 99, 0, 1, 0), RANKMAP_ENOENT);
    assert_int_equal(rankmap_av_set_rule(av, world.id, UINT64_MAX - 786430, 1, 0), RANKMAP_ERANGE);
    assert_int_equal(rankmap_av_set_rule(av, world.id, 0, UINT64_MAX, 0), RANKMAP_ERANGE);
    has(av, 5, 5, 3);
    assert_int_equal(rankmap_av_set_rule(av, spawned.id, UINT64_MAX - 119, 1, 1), 0);
    assert_int_equal(rankmap_av_group_grow(av, spawned.id, 121),
                     RANKMAP_ERANGE); /* its addresses would wrap */
    assert_int_equal(rankmap_av_group_grow(av, spawned.id, 120), 0);
    has(av, spawned.base + 119, UINT64_MAX, 1);
    assert_true(info_of(av).bytes < 4096); /* of 786,532 processes */
    rankmap_av_destroy(av);
}

static void groups(void **state)
{
    struct rankmap_av *av = av_new(16, 10000, 0);
    const void *base = info_of(av).base;
    struct rankmap_av_group a = group_add(av, 1000), b = group_add(av, 2000),
                            c = group_add(av, 500), d, found;
    uint64_t lpid;

    assert_int_equal(a.id, 0);
    assert_int_equal(b.base, 1000);
    assert_int_equal(c.base, 3000);
    for (uint64_t id = 0; id < 3500; id++)
        assert_int_equal(rankmap_av_set(av, id, id + 1, id), 0);
    assert_int_equal(rankmap_av_group_retire(av, b.id), 0);
    assert_int_equal(info_of(av).n_groups, 2);
    assert_int_equal(rankmap_av_group_get(av, b.id, &found), RANKMAP_ENOENT);
    assert_int_equal(rankmap_av_group_retire(av, b.id), RANKMAP_ENOENT);
    assert_int_equal(rankmap_av_locate(av, 1500, &found, &lpid), RANKMAP_ENOENT);
    assert_int_equal(rankmap_av_set(av, 1500, 1, 1), RANKMAP_ENOENT);
    has(av, 999, 1000, 999); /* its neighbours are as they were */
    has(av, 3000, 3001, 3000);
    assert_int_equal(rankmap_av_group_grow(av, a.id, 1500), 0);
    has(av, 1499, 0, 0); /* of the retired group nothing is left */
    assert_int_equal(rankmap_av_group_grow(av, a.id, 3001), RANKMAP_EFULL);
    assert_int_equal(rankmap_av_group_grow(av, a.id, 1499), RANKMAP_ERANGE);
    d = group_add(av, 1500); /* exactly the gap */
    assert_int_equal(d.base, 1500);
    assert_int_equal(d.id, 3);
    has(av, 2999, 0, 0);
    assert_int_equal(rankmap_av_locate(av, 3499, &found, &lpid), 0);
    assert_int_equal(found.id, c.id);
    assert_int_equal(lpid, 499);
    assert_int_equal(rankmap_av_locate(av, 3500, &found, &lpid), RANKMAP_ENOENT);
    assert_int_equal(rankmap_av_group_add(av, 6501, &found), RANKMAP_EFULL);
    found = group_add(av, 6500);
    assert_int_equal(found.base, 3500);
    assert_int_equal(rankmap_av_group_add(av, 1, &found), RANKMAP_EFULL);
    assert_int_equal(rankmap_av_group_add(av, 0, &found), -EINVAL);
    assert_ptr_equal(info_of(av).base, base);
    has(av, 3000, 3001, 3000);
    rankmap_av_destroy(av);
}

/* The last group goes, and others come and go after it. */
static void no_group(void **state)
{
    struct rankmap_av *av = av_new(8, 100, 0);
    struct rankmap_av_group group;
    struct rankmap_av_entry entry;
    uint64_t lpid;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(rankmap_av_get(av, 0, &entry), RANKMAP_ENOENT);
        assert_int_equal(rankmap_av_locate(av, 0, &group, &lpid), RANKMAP_ENOENT);
        assert_int_equal(info_of(av).n_groups, 0);
        group = group_add(av, 10);
        has(av, 9, 0, 0);
        assert_int_equal(rankmap_av_group_retire(av, group.id), 0);
    }
    rankmap_av_destroy(av);
}

static void many_groups(void **state)
{
    struct rankmap_av *av = av_new(8, 1000000, 1);
    uint64_t seed = 8;
    uint32_t ids[300], n = 0;

    for (int i = 0; i < 2000; i++) {
        struct rankmap_av_group group;

        if (n < 300 && scramble(&seed, 3) > 0) {
            group = group_add(av, 1 + scramble(&seed, 900));
            ids[n++] = group.id;
            has(av, group.base, 0, 0);
            has(av, group.base + group.n_procs - 1, 0, 0);
            assert_int_equal(rankmap_av_set(av, group.base, 2 * group.id, 0), 0);
            assert_int_equal(rankmap_av_set(av, group.base + group.n_procs - 1, 2 * group.id, 0),
                             0);
        } else if (n > 0) {
            uint32_t k = scramble(&seed, n);

            assert_int_equal(rankmap_av_group_retire(av, ids[k]), 0);
            ids[k] = ids[--n];
        }
        for (uint32_t k = 0; k < n; k += 7) {
            struct rankmap_av_group found;
            uint64_t lpid;

            assert_int_equal(rankmap_av_group_get(av, ids[k], &group), 0);
            has(av, group.base, 2 * group.id, 0);
            assert_int_equal(rankmap_av_locate(av, group.base + group.n_procs - 1, &found, &lpid),
                             0);
            assert_int_equal(found.id, ids[k]);
            assert_int_equal(lpid, group.n_procs - 1);
        }
    }
    assert_int_equal(info_of(av).n_groups, n);
    rankmap_av_destroy(av);
}

/* mlut: a map over two groups, by flat ids, and the way back. */
static void flat_ids(void **state)
{
    struct rankmap_av *av = av_new(8, SIZE_MAX > UINT32_MAX ? UINT64_C(1) << 33 : 1 << 24, 0);
    static const uint32_t pgids[4] = {1, 0, 1, 0};
    static const uint64_t lpids[4] = {7, 3, 2, 0};
    uint64_t flat[4] = {0}, lpid;
    struct rankmap_av_group group;
    struct rankmap *map;
    struct rankmap_lookup l;

    group_add(av, 1000);
    group_add(av, 10);
    assert_int_equal(rankmap_av_group_get(av, 2, &group), RANKMAP_ENOENT);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rankmap_av_group_get(av, pgids[i], &group), 0);
        assert_true(lpids[i] < group.n_procs);
        flat[i] = group.base + lpids[i];
    }
    assert_int_equal(rankmap_from_ids(flat, sizeof(uint64_t), 4, NULL, &map, NULL), 0);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(rankmap_av_locate(av, rankmap_id(map, r), &group, &lpid), 0);
        assert_int_equal(group.id, pgids[r]);
        assert_int_equal(lpid, lpids[r]);
        assert_int_equal(rankmap_av_set(av, flat[r], 0x100 + r, 0), 0);
    }
    assert_int_equal(rankmap_lookup_init(&l, map, (uintptr_t)info_of(av).base, 8), 0);
    for (uint32_t r = 0; r < 4; r++)
        assert_int_equal(*(uint64_t *)rankmap_addr(&l, r), 0x100 + r);
    rankmap_unref(map);
    rankmap_av_destroy(av);
}

/* Entries of the caller's own: reserved, zeroed and returned like the others, and never read. */
static void own_entries(void **state)
{
    struct peer {
        void *endpoint[3];
        int is_local;
    };
    struct rankmap_av *av = av_new(sizeof(struct peer), 10000, 0);
    struct peer *peers = (struct peer *)(uintptr_t)info_of(av).base;
    struct rankmap_av_group world = group_add(av, 1000), spawned = group_add(av, 2000);
    struct rankmap_av_entry entry;
    struct rankmap_lookup l;
    struct rankmap *map;

    assert_int_equal(info_of(av).entry_bytes, sizeof(struct peer));
    for (uint64_t id = 0; id < 3000; id++) {
        assert_int_equal(peers[id].is_local, 0);
        peers[id].is_local = (int)id;
    }
    assert_int_equal(rankmap_av_set(av, 0, 1, 0), -EINVAL);
    assert_int_equal(rankmap_av_get(av, 0, &entry), -EINVAL);
    assert_int_equal(rankmap_av_set_rule(av, world.id, 0, 1, 0), -EINVAL);
    map = affine(0, 3, 1000);
    assert_int_equal(rankmap_lookup_init(&l, map, (uintptr_t)peers, sizeof(struct peer)), 0);
    for (uint32_t r = 0; r < 1000; r++)
        assert_int_equal(((struct peer *)rankmap_addr(&l, r))->is_local, 3 * r);
    rankmap_unref(map);
    assert_int_equal(rankmap_av_group_retire(av, spawned.id), 0);
    spawned = group_add(av, 2000);
    assert_int_equal(spawned.base, 1000);
    for (uint64_t id = 0; id < 3000; id++)
        assert_int_equal(peers[id].is_local, id < 1000 ? id : 0);
    rankmap_av_destroy(av);
    rankmap_av_destroy(av_new(RANKMAP_MAX_WIDTH, 10, 0));
}

/* The groups that a map has processes of, whatever its form. */
static void groups_of_maps(void **state)
{
    struct rankmap_av *av = av_new(0, 100000, 0);
    struct rankmap_av_group a = group_add(av, 1000), b = group_add(av, 500), c = group_add(av, 10),
                            group = {.id = 99};
    static const uint64_t in_two[] = {7, 1500, 3, 1501}; /* of a and c, around b */
    struct rankmap *maps[6], *all = affine(0, 1, 1510), *list;
    static const uint32_t want[6] = {1, 2, 5, 4, 0, 3}; /* a bit for each */

    maps[0] = affine(0, 1, 1000);
    maps[1] = affine(1100, 2, 100);
    assert_int_equal(rankmap_from_ids(in_two, sizeof(uint64_t), 4, NULL, &maps[2], NULL), 0);
    list = affine(1, 2, 2);
    assert_int_equal(rankmap_compose(maps[2], list, NULL, &maps[3]), 0); /* 1500, 1501 */
    rankmap_unref(list);
    maps[4] = affine(0, 1, 0);
    maps[5] = affine(999, 1, 2);
    for (int i = 0; i < 6; i++) {
        uint32_t got = 0;

        for (uint32_t id = 0; rankmap_av_group_next(av, maps[i], id, &group) == 0;
             id = group.id + 1) {
            assert_true(group.id >= id);
            got |= 1u << group.id;
        }
        assert_int_equal(got, want[i]);
    }
    assert_int_equal(rankmap_av_group_next(av, all, b.id, &group), 0);
    assert_int_equal(group.id, b.id);
    assert_int_equal(group.base, 1000);
    assert_int_equal(group.n_procs, 500);
    assert_int_equal(rankmap_av_group_retire(av, a.id), 0);
    b = group_add(av, 20); /* lower ids than c, and a higher number */
    assert_int_equal(rankmap_av_group_next(av, all, c.id + 1, &group), 0);
    assert_int_equal(group.id, b.id);
    assert_int_equal(rankmap_av_group_next(av, all, 0, &group), 0);
    assert_int_equal(group.id, 1);
    assert_int_equal(rankmap_av_group_next(av, all, b.id + 1, &group), RANKMAP_ENOENT);
    assert_int_equal(group.id, 1);
    assert_int_equal(rankmap_av_group_next(av, NULL, 0, &group), -EINVAL);
    for (int i = 0; i < 6; i++)
        rankmap_unref(maps[i]);
    rankmap_unref(all);
    rankmap_av_destroy(av);
}

struct reader {
    struct rankmap_av *av;
    _Atomic int stop;
    _Atomic uint64_t n_wrong;
};

static void *read_on(void *arg)
{
    struct reader *reader = arg;
    struct rankmap_av_group group;
    struct rankmap_info_av info = {.size = sizeof(info)};
    struct rankmap_av_entry entry;
    uint64_t lpid;

    while (!reader->stop) {
        reader->n_wrong += rankmap_av_query(reader->av, &info) != 0 || info.n_groups < 1 ||
                           info.bytes < 100 * 8 || info.n_procs < 100;
        for (uint64_t id = 0; id < 100; id++) {
            reader->n_wrong +=
                rankmap_av_get(reader->av, id, &entry) != 0 || entry.addr != 2 * id + (id % 3 == 0);
            reader->n_wrong += rankmap_av_locate(reader->av, id, &group, &lpid) != 0 ||
                               group.id != 0 || lpid != id;
        }
    }
    return NULL;
}

/* Groups come and go while other threads look up. */
static void readers(void **state)
{
    struct reader reader = {.av = av_new(8, 1000000, 1)};
    pthread_t thread[2];

    group_add(reader.av, 100);
    for (uint64_t id = 0; id < 100; id++)
        assert_int_equal(rankmap_av_set(reader.av, id, 2 * id + (id % 3 == 0), 0), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_on, &reader), 0);
    for (int i = 0; i < 300; i++) {
        struct rankmap_av_group group = group_add(reader.av, 50);

        for (uint64_t id = 0; id < 50; id++)
            assert_int_equal(rankmap_av_set(reader.av, group.base + id, id | 1, 0),
                             0); /* all escaped */
        if (i % 2)
            assert_int_equal(rankmap_av_group_retire(reader.av, group.id), 0);
    }
    reader.stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(reader.n_wrong, 0);
    rankmap_av_destroy(reader.av);
}

/* Changes beside readers take no memory once the tables have their size, however many they are. */
static void changes_are_bounded(void **state)
{
    struct reader reader = {.av = av_new(8, 1000000, 1)};
    struct rankmap_av_group group;
    pthread_t thread[2];
    uint64_t before = 0;

    group_add(reader.av, 100);
    for (uint64_t id = 0; id < 100; id++)
        assert_int_equal(rankmap_av_set(reader.av, id, 2 * id + (id % 3 == 0), 0), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, read_on, &reader), 0);
    for (int i = 0; i < 20000; i++) {
        if (i == 4)
            before = info_of(reader.av).bytes;
        group = group_add(reader.av, 10);
        assert_int_equal(rankmap_av_set(reader.av, group.base + 9, 7, 0), 0); /* escaped */
        assert_int_equal(rankmap_av_group_grow(reader.av, group.id, 20), 0);
        assert_int_equal(rankmap_av_group_retire(reader.av, group.id), 0);
    }
    reader.stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(reader.n_wrong, 0);
    assert_int_equal(info_of(reader.av).bytes, before);
    rankmap_av_destroy(reader.av);
}

/* No more than `size` is filled, and a smaller one is refused. */
static void size_of_info(void **state)
{
    struct rankmap_av *av = av_new(8, 1000, 1);
    struct {
        struct rankmap_info_av info;
        uint64_t more;
    } longer = {.info = {.size = sizeof(longer)}, .more = 99};

    assert_int_equal(rankmap_av_query(av, &longer.info), 0);
    assert_int_equal(longer.info.size, sizeof(longer));
    assert_int_equal(longer.more, 99);
    longer.info = (struct rankmap_info_av){.size = sizeof(longer.info) - 1};
    assert_int_equal(rankmap_av_query(av, &longer.info), -EINVAL);
    assert_int_equal(longer.info.entry_bytes, 0);
    rankmap_av_destroy(av);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_options),      cmocka_unit_test(widths),
        cmocka_unit_test(tags_and_escapes), cmocka_unit_test(tables_of_escapes),
        cmocka_unit_test(one_tag_bit),      cmocka_unit_test(implicit),
        cmocka_unit_test(groups),           cmocka_unit_test(no_group),
        cmocka_unit_test(many_groups),      cmocka_unit_test(flat_ids),
        cmocka_unit_test(readers),          cmocka_unit_test(changes_are_bounded),
        cmocka_unit_test(size_of_info),     cmocka_unit_test(own_entries),
        cmocka_unit_test(groups_of_maps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

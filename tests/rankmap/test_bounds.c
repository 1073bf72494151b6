/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every block of the allocator, and every array, text and packed map of the caller, ends where an
 * inaccessible page begins. So a read or write behind it is a crash, in any build. Blocks begin
 * with junk.
 */
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rankmap_tools.h"

/* The last bytes before an inaccessible page, rounded up to the alignment. The mapping begins with
 * its size. */
static void *block_new(size_t bytes, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + align - 1) / align * align,
           whole = page + (room + page - 1) / page * page;
    unsigned char *base =
        mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(base != MAP_FAILED);
    assert_int_equal(mprotect(base + whole, page, PROT_NONE), 0);
    whole += page;
    memcpy(base, &whole, sizeof(whole));
    return memset(base + whole - page - room, 0xa5, room);
}

static void block_free(void *p)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
    unsigned char *base = (unsigned char *)p - (uintptr_t)p % page - page;

    memcpy(&whole, base, sizeof(whole));
    munmap(base, whole);
}

static void *guarded_realloc(void *ctx, void *ptr, size_t bytes)
{
    assert_null(ptr);
    return block_new(bytes, 16);
}

static void guarded_free(void *ctx, void *ptr)
{
    block_free(ptr);
}

static const struct rankmap_allocator allocator = {.realloc = guarded_realloc,
                                                   .free = guarded_free};

/* Ids of every model, all distinct. */
enum { STRIDE, BLOCKS, DENSE, SPARSE, LOCAL, SHUFFLED, RUNS, STRIDED_RUNS, FAR, PAIRS, N_MODELS };

static void fill_ids(uint64_t *ids, uint32_t n, int model, uint64_t seed)
{
    for (uint32_t r = 0; r < n; r++)
        switch (model) {
        case STRIDE: ids[r] = 7 + 3 * (uint64_t)r; break;
        case BLOCKS: ids[r] = (r + 3) / 8 * 100 + (r + 3) % 8; break;
        case DENSE: ids[r] = 3 * (uint64_t)r + scramble(&seed, 3); break;
        case SPARSE: ids[r] = 32 * (uint64_t)r + scramble(&seed, 32); break;
        case LOCAL: ids[r] = (uint64_t)(r / 64 * 37 % 101) << 20 | (r ^ 5) << 4 | r % 3; break;
        case PAIRS: ids[r] = (r + 1) / 2 * 100 + (r + 1) / 2 * 7 % 11 + (r + 1) % 2; break;
        case RUNS: ids[r] = (uint64_t)(r / 50 * 7 % 23) * 1000 + r; break;
        case STRIDED_RUNS: ids[r] = (uint64_t)(r / 50 * 7 % 23) * 10000 + 3 * (uint64_t)r; break;
        default: ids[r] = (model == FAR ? UINT64_C(1) << 28 : 100000) * r + scramble(&seed, 99999);
        }
    for (uint32_t i = model == SHUFFLED || model == FAR ? n : 0; i > 1; i--) {
        uint32_t k = scramble(&seed, i);
        uint64_t swap = ids[k];

        ids[k] = ids[i - 1];
        ids[i - 1] = swap;
    }
}

static void use_index(struct rankmap *map, const uint64_t *ids, uint32_t n, const uint64_t *others,
                      uint32_t n_others)
{
    struct rankmap_index *index;

    assert_int_equal(rankmap_index_create(map, &allocator, &index), 0);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(rankmap_index_rank(index, ids[r]), r);
    for (uint32_t i = 0; i < n_others; i++) {
        int64_t rank = rankmap_index_rank(index, others[i]);

        assert_true(rank == RANKMAP_ENOENT || ids[rank] == others[i]);
    }
    rankmap_index_destroy(index);
}

static void use_packed(const struct rankmap *map, const struct rankmap_opts *opts)
{
    size_t len = (size_t)rankmap_pack(map, NULL, 0);
    void *bytes = block_new(len, 1);
    struct rankmap *again;

    assert_int_equal(rankmap_pack(map, bytes, len), len);
    assert_int_equal(rankmap_unpack(bytes, len, opts, &again), len);
    assert_int_equal(rankmap_compare(map, again), RANKMAP_IDENT);
    rankmap_unref(again);
    block_free(bytes);
}

/* A map of guarded ids: its ids, its inverse, sets with other ids, its packed form. */
static void use_map(const uint64_t *ids, uint32_t n, size_t id_bytes, uint32_t flags)
{
    enum { N_OTHERS = 500 };
    const struct rankmap_opts opts = {
        .size = sizeof(opts), .allocator = &allocator, .flags = flags};
    void *array = block_new(n * id_bytes, 1), *out = block_new(n * id_bytes, 1);
    uint64_t others[N_OTHERS], seed = n, most = 0;
    struct rankmap *map, *rest, *set;

    for (uint32_t r = 0; r < n; r++) {
        if (id_bytes == 4)
            ((uint32_t *)array)[r] = (uint32_t)ids[r];
        else
            ((uint64_t *)array)[r] = ids[r];
        most = ids[r] > most ? ids[r] : most;
    }
    for (uint32_t i = 0; i < N_OTHERS; i++)
        others[i] = i * (most / N_OTHERS + 1) + scramble(&seed, (uint32_t)(most / N_OTHERS) + 1);
    assert_int_equal(rankmap_from_ids(array, id_bytes, n, &opts, &map, NULL), 0);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(rankmap_id(map, r), ids[r]);
    assert_int_equal(rankmap_ids(map, 0, n, id_bytes, out), 0);
    assert_memory_equal(out, array, n * id_bytes);
    use_index(map, ids, n, others, N_OTHERS);
    assert_int_equal(rankmap_from_ids64(others, N_OTHERS, &opts, &rest, NULL), 0);
    assert_int_equal(rankmap_intersection(rest, map, &opts, &set), 0);
    for (uint32_t r = 0; r < rankmap_size(set); r++)
        assert_true(rankmap_rank(map, rankmap_id(set, r)) >= 0);
    rankmap_unref(set);
    rankmap_unref(rest);
    use_packed(map, &opts);
    rankmap_unref(map);
    block_free(out);
    block_free(array);
}

static void maps(void **state)
{
    static const uint32_t sizes[] = {1, 2, 3, 16, 62, 64, 66, 256, 258, 1000};
    static const uint32_t kinds[N_MODELS] = {
        RANKMAP_STRIDE, RANKMAP_BLOCKSTRIDE, RANKMAP_BITMAP, RANKMAP_ELIAS_FANO,
        RANKMAP_FRAMES, RANKMAP_PACKED,      RANKMAP_RUNS,   RANKMAP_RUNS,
        RANKMAP_PACKED, RANKMAP_ELIAS_FANO};
    uint64_t ids[1000];

    for (int model = 0; model < N_MODELS; model++) {
        struct rankmap *map;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            fill_ids(ids, sizes[i], model, i);
            use_map(ids, sizes[i], 8, 0);
            if (model != FAR)
                use_map(ids, sizes[i], 4, i % 2 ? RANKMAP_FAST : 0);
        }
        assert_int_equal(rankmap_from_ids64(ids, 1000, NULL, &map, NULL), 0);
        assert_int_equal(kind_of(map), kinds[model]);
        rankmap_unref(map);
    }
}

/* Each text and each beginning of it. */
static void texts(void **state)
{
    static const struct {
        const char *text;
        uint32_t n; /* ranks of a list; of a job, if nodes */
        bool nodes;
    } cases[] = {
        {"0-9:3,7", 5, false},
        {"0-3 8-90:40\t7", 8, false},
        {"(vector,(0,2,4))", 7, true},
        {"(vector, [(0,2,1)]x2, 5)", 7, true},
        {"[[0,2,1,2],[4,1,3,1]]", 7, true},
        {"{\"version\":1,\"map\":[[0,1,3,1],[1,1,4,1]]}", 7, true},
    };
    const struct rankmap_opts opts = {.size = sizeof(opts), .allocator = &allocator};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t whole = strlen(cases[i].text), len = 1; len <= whole; len++) {
            char *text = memcpy(block_new(len, 1), cases[i].text, len);
            struct rankmap *map = NULL;
            int rc = cases[i].nodes
                         ? rankmap_nodes_from_text(text, len, cases[i].n, &opts, &map, NULL)
                         : rankmap_from_text(text, len, &opts, &map, NULL);

            assert_true(rc == 0 || (rc == RANKMAP_ESYNTAX && len < whole));
            if (len == whole)
                assert_int_equal(rankmap_size(map), cases[i].n);
            rankmap_unref(map);
            block_free(text);
        }
}

/* Escapes fill tables of 16, 32 and 64 slots, and are copied at every size. */
static void escapes(void **state)
{
    const struct rankmap_av_opts opts = {.size = sizeof(opts),
                                         .allocator = &allocator,
                                         .entry_bytes = 8,
                                         .capacity = 1000,
                                         .tag_mask = 1};
    struct rankmap_av_group world, group;
    struct rankmap_av_entry entry;
    struct rankmap_av *av;

    assert_int_equal(rankmap_av_create(&opts, &av), 0);
    assert_int_equal(rankmap_av_group_add(av, 40, &world), 0);
    for (uint64_t id = 0; id < 30; id++) {
        assert_int_equal(rankmap_av_group_add(av, 10, &group), 0);
        assert_int_equal(rankmap_av_set(av, id, 2 * id + 1, 1), 0);
        assert_int_equal(rankmap_av_group_retire(av, group.id), 0);
        for (uint64_t k = 0; k <= id; k++) {
            assert_int_equal(rankmap_av_get(av, k, &entry), 0);
            assert_true(entry.addr == 2 * k + 1 && entry.tag == 1);
        }
    }
    rankmap_av_destroy(av);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps), cmocka_unit_test(texts),
                                       cmocka_unit_test(escapes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random puts, deletes, merges and compactions against an array of the expected values. Built
 * twice: with this machine's look-up, and with the portable one (SHMHT__PORTABLE).
 */
#include "cm.h"

#define N_KEYS 3000

struct naive {
    uint64_t value[N_KEYS]; /* seed of the value; 0: absent */
    uint64_t order[N_KEYS]; /* when it was put last */
    uint64_t n;
};

static uint64_t rng;

static uint64_t below(uint64_t n)
{
    return next_random(&rng) % n;
}

/* Keys of 1 to 40 bytes, mostly 16, some that share a beginning. */
static size_t make_key(uint64_t i, unsigned char *key)
{
    size_t len = i % 5 == 0 ? 3 + i % 38 : 16;

    memset(key, 'k', 40);
    for (int b = 0; b < 3; b++)
        key[b] = (unsigned char)(i >> 8 * b);
    return len;
}

static uint64_t number_of(const void *key)
{
    const unsigned char *k = key;

    return k[0] | (uint64_t)k[1] << 8 | (uint64_t)k[2] << 16;
}

static size_t make_value(uint64_t seed, unsigned char *value)
{
    size_t len = seed % 97 == 0 ? 1100 + seed % 900 : seed % 60;

    for (size_t i = 0; i < len; i++)
        value[i] = (unsigned char)mix(seed + i);
    return len;
}

static void check_value(const struct shmht_bytes *got, uint64_t seed)
{
    unsigned char value[2048];
    size_t len = make_value(seed, value);

    assert_int_equal(got->len, len);
    assert_memory_equal(got->ptr, value, len);
}

/* Every key, in a random order, one by one and in batches. */
static void check_gets(const struct shmht_reader *r, const struct naive *m)
{
    static unsigned char bytes[N_KEYS][40];
    static struct shmht_bytes keys[N_KEYS], values[N_KEYS];
    struct shmht_bytes one;
    size_t present = 0;
    uint64_t step = 2 * below(N_KEYS / 2) + 1;

    for (uint64_t j = 0; j < N_KEYS; j++) {
        uint64_t i = j * step % N_KEYS;

        keys[j] = (struct shmht_bytes){bytes[j], make_key(i, bytes[j])};
        assert_int_equal(shmht_get(r, keys[j].ptr, keys[j].len, &one),
                         m->value[i] ? 0 : SHMHT_ENOENT);
        if (m->value[i])
            check_value(&one, m->value[i]);
        present += m->value[i] != 0;
    }
    assert_int_equal(shmht_get_many(r, keys, N_KEYS, values), present);
    for (uint64_t j = 0; j < N_KEYS; j++) {
        uint64_t i = j * step % N_KEYS;

        assert_true((values[j].ptr != NULL) == (m->value[i] != 0));
        if (m->value[i])
            check_value(&values[j], m->value[i]);
    }
}

static void check_all(const struct shmht_reader *r, const struct naive *m)
{
    struct shmht_iter it = {0};
    struct shmht_bytes key, value;
    struct shmht_stats s;
    uint64_t last = 0, n = 0, i;

    check_gets(r, m);
    while (shmht_reader_next(r, &it, &key, &value) == 1) {
        i = number_of(key.ptr);
        assert_true(i < N_KEYS && m->value[i] != 0 && m->order[i] > last);
        last = m->order[i];
        check_value(&value, m->value[i]);
        n++;
    }
    shmht_reader_stats(r, &s);
    assert_true(n == m->n && s.entries == n);
    assert_true(s.total_bytes == s.header_bytes + s.live_bytes + s.garbage_bytes + s.table_bytes +
                                     s.old_table_bytes + s.free_bytes);
}

static void remember(struct naive *m, uint64_t i, uint64_t seed, uint64_t *clock)
{
    m->n += m->value[i] == 0;
    m->value[i] = seed;
    m->order[i] = ++*clock;
}

static void put_one(struct shmht_writer *w, struct naive *m, uint32_t policy, uint64_t *clock)
{
    unsigned char key[40], value[2048];
    uint64_t i = below(N_KEYS), seed = next_random(&rng) | 1;
    size_t key_len = make_key(i, key), value_len = make_value(seed, value);
    int there = m->value[i] != 0;

    assert_int_equal(shmht_put(w, key, key_len, value, value_len),
                     !there                        ? SHMHT_PUT_NEW
                     : policy == SHMHT_DUP_REPLACE ? SHMHT_PUT_REPLACED
                     : policy == SHMHT_DUP_KEEP    ? SHMHT_PUT_KEPT
                                                   : SHMHT_EEXIST);
    if (!there || policy == SHMHT_DUP_REPLACE)
        remember(m, i, seed, clock);
}

static void delete_one(struct shmht_writer *w, struct naive *m)
{
    unsigned char key[40];
    uint64_t i = below(N_KEYS);

    assert_int_equal(shmht_delete(w, key, make_key(i, key)), m->value[i] ? 0 : SHMHT_ENOENT);
    m->n -= m->value[i] != 0;
    m->value[i] = 0;
}

static void merge_some(struct shmht_writer *w, struct naive *m, uint32_t policy, uint64_t *clock)
{
    static unsigned char buf[1 << 20];
    unsigned char key[40], value[2048];
    struct shmht_merged expect = {0, 0, 0}, merged;
    struct block b;
    uint64_t n = below(400);
    size_t shift = below(8);

    block_begin(&b, buf + shift, sizeof(buf) - shift);
    while (n-- > 0) {
        uint64_t i = below(N_KEYS), seed = next_random(&rng) | 1;
        size_t key_len = make_key(i, key);

        block_add(&b, key, key_len, value, make_value(seed, value));
        if (m->value[i] == 0)
            expect.n_new++;
        else if (policy == SHMHT_DUP_REPLACE)
            expect.n_replaced++;
        else
            expect.n_kept++;
        if (m->value[i] == 0 || policy == SHMHT_DUP_REPLACE)
            remember(m, i, seed, clock);
    }
    assert_int_equal(shmht_writer_merge(w, buf + shift, block_end(&b), &merged), 0);
    assert_memory_equal(&merged, &expect, sizeof(expect));
}

static void run(uint64_t seed, uint32_t policy, uint64_t max_bytes, uint32_t load, uint32_t flags)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts),
                                     .max_bytes = max_bytes,
                                     .flags = flags,
                                     .duplicates = policy,
                                     .max_load_percent = load};
    static struct naive m;
    struct shmht_writer *w, *next;
    struct shmht_reader *r;
    struct shmht_stats s;
    uint64_t clock = 0;

    memset(&m, 0, sizeof(m));
    rng = seed;
    assert_int_equal(shmht_writer_create(&opts, &w, NULL), 0);
    assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL), 0);
    for (int round = 0; round < 12; round++) {
        for (uint64_t n = below(800); n > 0; n--)
            if (below(4) > 0)
                put_one(w, &m, policy, &clock);
            else
                delete_one(w, &m);
        merge_some(w, &m, policy, &clock);
        assert_int_equal(shmht_writer_publish(w), 0);
        check_all(r, &m);
        if (round % 4 == 3) {
            opts.generation = 0;
            assert_int_equal(shmht_writer_compact(w, round % 8 == 3 ? NULL : &opts, &next, NULL),
                             0);
            shmht_reader_stats(r, &s);
            assert_true(s.superseded == s.generation + 1);
            check_all(r, &m); /* the old one stays unchanged */
            shmht_writer_destroy(w);
            check_all(r, &m);
            shmht_reader_detach(r);
            w = next;
            assert_int_equal(shmht_reader_attach(NULL, shmht_writer_share(w, NULL), NULL, &r, NULL),
                             0);
            check_all(r, &m);
        }
    }
    shmht_reader_detach(r);
    shmht_writer_destroy(w);
}

static void test_random(void **state)
{
    for (uint32_t policy = SHMHT_DUP_REPLACE; policy <= SHMHT_DUP_KEEP; policy++) {
        run(1 + policy, policy, 64 << 20, 0, 0);
        run(11 + policy, policy, 64 << 20, 90, 0);
        run(31 + policy, policy, 64 << 20, 0, SHMHT_DEFER);
    }
#if SIZE_MAX > UINT32_MAX
    run(21, SHMHT_DUP_REPLACE, UINT64_C(20) << 30, 30, 0); /* records aligned to 8 */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

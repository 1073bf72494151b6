/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps shared between threads that look up, compose, index, and take and drop references, the last
 * of them too. */
#include <pthread.h>

#include "rankmap_tools.h"

enum { N = 4096, N_THREADS = 4, N_ROUNDS = 60 };

static struct rankmap *shared[3];

/* Returns how many answers were wrong. */
static void *work(void *arg)
{
    uintptr_t wrong = 0, self = (uintptr_t)arg;
    uint64_t seed = self;

    for (int round = 0; round < N_ROUNDS; round++)
        for (int m = 0; m < 3; m++) {
            struct rankmap *map = rankmap_ref(shared[m]), *half = NULL, *view = NULL;
            struct rankmap_index *index = NULL;
            struct rankmap_lookup l;

            wrong += rankmap_affine(self % 2, 2, N / 2, NULL, &half) != 0;
            wrong += rankmap_compose(map, half, NULL, &view) != 0;
            wrong += rankmap_index_create(view, NULL, &index) != 0;
            wrong += rankmap_lookup_init(&l, view, 0, 1) != 0;
            for (int i = 0; i < 50; i++) {
                uint32_t r = scramble(&seed, N / 2);

                wrong += rankmap_at(&l, r) != rankmap_id(map, 2 * r + (uint32_t)(self % 2));
                wrong += rankmap_index_rank(index, rankmap_at_nobranch(&l, r)) != (int64_t)r;
            }
            rankmap_index_destroy(index);
            rankmap_unref(half);
            rankmap_unref(map);
            rankmap_unref(view); /* may hold the last reference but one */
        }
    for (int m = 0; m < 3; m++)
        rankmap_unref(shared[m]); /* each thread was given one */
    return (void *)wrong;
}

static void sharing(void **state)
{
    uint32_t *ids = permutation(N, 6);
    struct rankmap_opts fast = {.size = sizeof(fast), .flags = RANKMAP_FAST};
    pthread_t thread[N_THREADS];

    shared[0] = from32(ids, N);
    assert_int_equal(rankmap_from_ids(ids, sizeof(uint32_t), N, &fast, &shared[1], NULL), 0);
    assert_int_equal(make_block(0, 16, 64, 1, 5, N, NULL, &shared[2]), 0);
    for (int i = 0; i < N_THREADS; i++)
        for (int m = 0; m < 3; m++)
            rankmap_ref(shared[m]);
    for (uintptr_t i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    for (int m = 0; m < 3; m++)
        rankmap_unref(shared[m]); /* ours: the threads' keep them alive */
    for (int i = 0; i < N_THREADS; i++) {
        void *wrong;

        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        assert_null(wrong);
    }
    free(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sharing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

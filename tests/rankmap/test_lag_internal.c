/* SPDX-License-Identifier: BSD-3-Clause */
/* The detector's inner loop, in each of its forms, against one element after the other. */
#include "rankmap_tools.h"

#include "../../librankmap/src/internal.h"

/* One element after the other. */
static size_t lag_of(const uint32_t *a, size_t n, size_t lag, uint32_t stride)
{
    for (size_t i = 0; i < n; i++)
        if (a[i + lag] - a[i] != stride)
            return i;
    return n;
}

/* The same answers from every width of vector. */
static void kernels(void **state)
{
    enum { N = 3000 };
    uint32_t *a = xmalloc(N * sizeof(*a));
    uint64_t *b = xmalloc(N * sizeof(*b)), seed = 1;

    for (int i = 0; i < 3000; i++) {
        size_t lag = 1 + scramble(&seed, 100), n = scramble(&seed, N - 100),
               shift = scramble(&seed, 8), want;
        uint32_t stride = scramble(&seed, 2) ? scramble(&seed, 50) : 0 - scramble(&seed, 50);

        if (n + lag + shift > N)
            n = N - lag - shift;
        for (size_t k = 0; k < N; k++)
            a[k] = k < shift + lag ? scramble(&seed, 1000) : a[k - lag] + stride;
        if (scramble(&seed, 3))
            a[scramble(&seed, N)]++;
        for (size_t k = 0; k < N; k++)
            b[k] = (uint64_t)a[k] + (UINT64_C(1) << 33);
        want = lag_of(a + shift, n, lag, stride);
        assert_int_equal(rankmap__lag32(a + shift, n, lag, stride), want);
        assert_int_equal(rankmap__lag32_base(a + shift, n, lag, stride), want);
        if (a[0] < 0x7fffffff && (int32_t)stride >= 0) {
            assert_int_equal(rankmap__lag64(b + shift, n, lag, stride), want);
            assert_int_equal(rankmap__lag64_base(b + shift, n, lag, stride), want);
        }
    }
    free(b);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

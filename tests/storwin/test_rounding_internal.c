/* SPDX-License-Identifier: BSD-3-Clause */
/* The number of a window's pages on storage: the rounded factor, for windows of any length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "../../libstorwin/src/internal.h"
#include "storwin_test.h"

/* The nearest number of pages, a half up, with nothing lost: |2 * (k * 10^9 - pages * ppb)| is
 * least. */
static uint64_t naive_pages(uint64_t pages, uint32_t ppb)
{
    for (uint64_t k = 0;; k++)
        if (2 * pages * ppb < (2 * k + 1) * UINT64_C(1000000000))
            return k;
}

static void rounding(void **state)
{
    uint64_t rng = 88172645463325252u;

    for (uint64_t pages = 0; pages < 64; pages++)
        for (uint32_t f = 0; f <= 1000; f++)
            assert_int_equal(storwin__storage_pages(pages, f * 1000000),
                             naive_pages(pages, f * 1000000));
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t pages = test_random(&rng) % 1000;
        uint32_t ppb = (uint32_t)(test_random(&rng) % (STORWIN_FACTOR_ONE + 1));

        assert_int_equal(storwin__storage_pages(pages, ppb), naive_pages(pages, ppb));
    }
    for (uint64_t pages = 1; pages <= STORWIN_MAX_BYTES / 4096; pages *= 2) {
        assert_int_equal(storwin__storage_pages(pages, 0), 0);
        assert_int_equal(storwin__storage_pages(pages, STORWIN_FACTOR_ONE), pages);
        assert_int_equal(storwin__storage_pages(pages, STORWIN_FACTOR_ONE / 2),
                         pages / 2 + pages % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounding)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

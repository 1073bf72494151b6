/* SPDX-License-Identifier: BSD-3-Clause */
/* Marks of separators: both twins against a byte by byte reference, on bytes that end where a page
 * that cannot be read begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../libpmiwire/src/codec/marks.h"

typedef size_t mark_fn(const char *begin, const char *p, size_t n, char separator, int to_eol,
                       struct pmiwire__marks *m);

static uint64_t rng = UINT64_C(0x9e3779b97f4a7c15);

static uint32_t below(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)((rng >> 20) % n);
}

static int bit(const uint64_t *words, size_t i)
{
    return (int)(words[i / 64] >> i % 64 & 1);
}

/* What the marks must be. */
static void check(const char *p, size_t n, char separator, int to_eol, size_t end,
                  const struct pmiwire__marks *m)
{
    const char *eol = to_eol ? memchr(p, '\n', n) : NULL;
    const size_t want = eol ? (size_t)(eol - p) : n;
    size_t stop = SIZE_MAX, equals = SIZE_MAX;

    assert_int_equal(end, want);
    assert_int_equal(m->nuls != 0, memchr(p, '\0', want) != NULL);
    for (size_t i = want / 64 * 64 + 64;
         i-- > 0;) { /* the last window as a whole: nothing is marked behind the end */
        assert_int_equal(bit(m->stops, i), i == want || (i < want && p[i] == separator));
        assert_int_equal(bit(m->equals, i), i < want && p[i] == '=');
    }
    for (size_t i = want + 1; i-- > 0;) {
        if (i == want || p[i] == separator)
            stop = i;
        if (i < want && p[i] == '=')
            equals = i;
        assert_int_equal(pmiwire__next_stop(m, i), stop);
        if (equals < stop)
            assert_int_equal(pmiwire__next_equals(m, i, stop), equals);
        else
            assert_true(pmiwire__next_equals(m, i, stop) >= stop);
    }
}

static void try_mark(mark_fn *mark, const char *begin, const char *p, size_t n)
{
    struct pmiwire__marks m;

    for (int to_eol = 0; to_eol <= 1; to_eol++)
        for (int wire = 0; wire <= 1; wire++) {
            const char separator = " ;"[wire];

            memset(&m, 0xa5, sizeof(m));
            check(p, n, separator, to_eol, mark(begin, p, n, separator, to_eol, &m), &m);
        }
}

/* Every length up to some windows, and around the longest span; bytes of which many, few or none
 * are separators. */
static void test_mark(mark_fn *mark)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = 2 * page;
    char *base =
             mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *end;

    assert_true(base != MAP_FAILED);
    assert_int_equal(mprotect(base + room, page, PROT_NONE), 0);
    end = base + room;
    for (unsigned round = 0; round < 24; round++) {
        const uint32_t rare = 2u << round % 8;

        for (size_t i = 0; i < room; i++)
            base[i] = below(rare) ? (char)('a' + below(26)) : " ;=\n\0"[below(round % 3 ? 3 : 5)];
        for (size_t n = 0; n <= 200; n++) {
            try_mark(mark, end - n, end - n, n); /* nothing readable before, nothing behind */
            try_mark(mark, end - n - below(20), end - n, n);
        }
        for (size_t n = PMIWIRE__SPAN - 65; n <= PMIWIRE__SPAN; n += 13)
            try_mark(mark, end - n, end - n, n);
        try_mark(mark, base, end - PMIWIRE__SPAN, PMIWIRE__SPAN);
    }
    munmap(base, room + page);
}

static void test_narrow(void **state)
{
    (void)state;
    test_mark(pmiwire__mark_narrow);
}

static void test_wide(void **state)
{
    (void)state;
    if (!pmiwire__can_mark_wide()) {
        print_message("skip: this processor has no AVX-512BW\n");
        skip();
    }
    test_mark(pmiwire__mark_wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_narrow), cmocka_unit_test(test_wide)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

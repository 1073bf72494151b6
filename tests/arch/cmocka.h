/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of cmocka that our unit tests use, for architectures where Debian 12 has cmocka only as
 * a foreign package. As in cmocka, a test that fails or skips leaves by longjmp().
 */
#ifndef CMOCKA_H
#define CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state);
    int (*teardown_func)(void **state);
    void *initial_state;
};

#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f, NULL, NULL, NULL                                                                    \
    }
#define cmocka_unit_test_setup(f, setup)                                                           \
    {                                                                                              \
#f, f, setup, NULL, NULL                                                                   \
    }
#define cmocka_unit_test_teardown(f, teardown)                                                     \
    {                                                                                              \
#f, f, NULL, teardown, NULL                                                                \
    }
#define cmocka_unit_test_setup_teardown(f, setup, teardown)                                        \
    {                                                                                              \
#f, f, setup, teardown, NULL                                                               \
    }

typedef int (*cm_group_fn)(void **state);

int cm_run(const char *group, const struct CMUnitTest *tests, size_t n, cm_group_fn setup,
           cm_group_fn teardown);
void cm_ends(int how, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5), noreturn));
void cmocka_set_test_filter(const char *pattern);
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum { CM_FAILED = 1, CM_SKIPPED };

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cm_run(#tests, tests, sizeof(tests) / sizeof(tests[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    cm_run(name, tests, sizeof(tests) / sizeof(tests[0]), setup, teardown)
#define skip()        cm_ends(CM_SKIPPED, __FILE__, __LINE__, "skipped")
#define fail()        cm_ends(CM_FAILED, __FILE__, __LINE__, "failed")
#define fail_msg(...) cm_ends(CM_FAILED, __FILE__, __LINE__, __VA_ARGS__)

static inline void cm_numbers(uintmax_t a, uintmax_t b, int equal, const char *text,
                              const char *file, int line)
{
    if ((a == b) != equal)
        cm_ends(CM_FAILED, file, line, "%s: %#jx %s %#jx", text, a, equal ? "!=" : "==", b);
}

static inline void cm_strings(const char *a, const char *b, int equal, const char *file, int line)
{
    if ((strcmp(a, b) == 0) != equal)
        cm_ends(CM_FAILED, file, line, "\"%s\" %s \"%s\"", a, equal ? "!=" : "==", b);
}

static inline void cm_bytes(const void *a, const void *b, size_t n, int equal, const char *file,
                            int line)
{
    if ((memcmp(a, b, n) == 0) != equal)
        cm_ends(CM_FAILED, file, line, "%zu bytes that %s", n, equal ? "differ" : "are the same");
}

static inline void cm_range(uintmax_t v, uintmax_t min, uintmax_t max, const char *file, int line)
{
    if (v < min || v > max)
        cm_ends(CM_FAILED, file, line, "%ju is not in [%ju, %ju]", v, min, max);
}

#define CM_NUMBERS(a, b, equal, text)                                                              \
    cm_numbers((uintmax_t)(a), (uintmax_t)(b), equal, text, __FILE__, __LINE__)
#define CM_POINTER(p) ((uintptr_t)(p))

#define assert_true(c)                   CM_NUMBERS((c) != 0, 1, 1, #c)
#define assert_false(c)                  CM_NUMBERS((c) != 0, 0, 1, #c)
#define assert_int_equal(a, b)           CM_NUMBERS(a, b, 1, #a)
#define assert_int_not_equal(a, b)       CM_NUMBERS(a, b, 0, #a)
#define assert_null(p)                   CM_NUMBERS(CM_POINTER(p), 0, 1, #p)
#define assert_non_null(p)               CM_NUMBERS(CM_POINTER(p), 0, 0, #p)
#define assert_ptr_equal(a, b)           CM_NUMBERS(CM_POINTER(a), CM_POINTER(b), 1, #a)
#define assert_ptr_not_equal(a, b)       CM_NUMBERS(CM_POINTER(a), CM_POINTER(b), 0, #a)
#define assert_string_equal(a, b)        cm_strings(a, b, 1, __FILE__, __LINE__)
#define assert_string_not_equal(a, b)    cm_strings(a, b, 0, __FILE__, __LINE__)
#define assert_memory_equal(a, b, n)     cm_bytes(a, b, n, 1, __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, n) cm_bytes(a, b, n, 0, __FILE__, __LINE__)
#define assert_in_range(v, min, max)                                                               \
    cm_range((uintmax_t)(v), (uintmax_t)(min), (uintmax_t)(max), __FILE__, __LINE__)

#endif

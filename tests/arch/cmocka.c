/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmocka.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf leave;
static int inside;
static const char *filter = "*";

void print_message(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
}

void print_error(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
}

void cm_ends(int how, const char *file, int line, const char *format, ...)
{
    va_list ap;

    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
    if (!inside)
        exit(255);
    longjmp(leave, how);
}

/* 0, CM_FAILED or CM_SKIPPED */
static int call(const struct CMUnitTest *test, void **state)
{
    int how;

    if (test->initial_state)
        *state = test->initial_state;
    inside = 1;
    how = setjmp(leave);
    if (how == 0) {
        if (test->setup_func && test->setup_func(state) != 0)
            cm_ends(CM_FAILED, __FILE__, __LINE__, "setup failed");
        test->test_func(state);
    }
    inside = 0;
    if (test->teardown_func && test->teardown_func(state) != 0)
        how = CM_FAILED;
    return how;
}

void cmocka_set_test_filter(const char *pattern)
{
    filter = pattern;
}

int cm_run(const char *group, const struct CMUnitTest *tests, size_t n, cm_group_fn setup,
           cm_group_fn teardown)
{
    void *group_state = NULL;
    int n_failed = 0;

    if (setup && setup(&group_state) != 0) {
        printf("%s: the group's setup failed\n", group);
        return 1;
    }
    for (size_t i = 0; i < n; i++) {
        void *state = group_state;
        int how;

        if (fnmatch(filter, tests[i].name, 0) != 0)
            continue;
        how = call(&tests[i], &state);

        printf("%s %s\n", how == 0 ? "ok" : how == CM_FAILED ? "FAILED" : "skipped", tests[i].name);
        fflush(stdout);
        n_failed += how == CM_FAILED;
    }
    if (teardown && teardown(&group_state) != 0)
        n_failed++;
    return n_failed;
}

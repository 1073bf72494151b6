/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A check in a test that is a plain main (cmocka has its own): it prints place and condition on
 * standard error and ends the process. It also works in a forked child.
 *
 * CHECK_END() ends the process, by default with _exit(1). A test that prints its rank, cleans up or
 * calls abort() first defines its own before it includes this header.
 */
#ifndef FENCEPOST_TESTS_CHECK_H
#define FENCEPOST_TESTS_CHECK_H

#include <stdio.h>
#include <unistd.h>

#ifndef CHECK_END
#define CHECK_END() _exit(1)
#endif

/* CHECK_MSG(condition, format, ...): with a message behind the condition. */
#define CHECK_MSG(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s: ", __FILE__, __LINE__, #condition);              \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            CHECK_END();                                                                           \
        }                                                                                          \
    } while (0)

#define CHECK(condition) CHECK_MSG(condition, "%s", "")

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The house's rule for option structs: refused if shorter than this release's, if a byte is set
 * behind this release's members, or if longer than 4,096 bytes. Each library's test_opts_size.c
 * applies it to every function of its library that takes such a struct.
 */
#ifndef FENCEPOST_TESTS_OPTS_SIZE_H
#define FENCEPOST_TESTS_OPTS_SIZE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls the function with these options; returns its result, after undoing a success. */
typedef int opts_try_fn(void *opts, void *ctx);

/* `size` bytes of heap (so that a sanitizer sees reads past them): those of `good`, then zeros, one
 * byte of which may have another value. */
static inline int opts_try(const void *good, size_t bytes, size_t says, size_t set_at,
                           opts_try_fn *attempt, void *ctx)
{
    const size_t room = says > bytes ? says : bytes;
    unsigned char *opts = calloc(1, room), *before = malloc(room);
    int rc;

    if (!opts || !before)
        abort();
    memcpy(opts, good, bytes);
    memcpy(opts, &says, sizeof(says));
    if (set_at)
        opts[set_at] = 1;
    memcpy(before, opts, room);
    rc = attempt(opts, ctx);
    if (memcmp(before, opts, room) != 0)
        rc = -EFAULT; /* the caller's struct has changed */
    free(before);
    free(opts);
    return rc;
}

/* Returns the number of sizes that are treated otherwise, and prints them. `good` itself must be
 * accepted. */
static inline int opts_sizes(const char *what, const void *good, size_t bytes, opts_try_fn *attempt,
                             void *ctx)
{
    const struct {
        size_t says, set_at;
        int rc;
    } cases[] = {
        {0, 0, -EINVAL},
        {sizeof(size_t), 0, -EINVAL},
        {bytes - 1, 0, -EINVAL},
        {bytes, 0, 0},
        {bytes + 1, 0, 0},
        {bytes + 8, 0, 0},
        {bytes + 1, bytes, -EINVAL},
        {bytes + 8, bytes, -EINVAL},
        {4096, 0, 0},
        {bytes + 8, bytes + 7, -EINVAL},
        {4096, 4095, -EINVAL},
        {4097, 0, -EINVAL},
        {SIZE_MAX / 2, 0, -EINVAL},
    };
    int wrong = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int rc;

        if (cases[i].says > 1u << 20) { /* no such memory: the call must not read it */
            unsigned char *opts = malloc(bytes);

            if (!opts)
                abort();
            memcpy(opts, good, bytes);
            memcpy(opts, &cases[i].says, sizeof(size_t));
            rc = attempt(opts, ctx);
            free(opts);
        } else {
            rc = opts_try(good, bytes, cases[i].says, cases[i].set_at, attempt, ctx);
        }
        if (rc == cases[i].rc || (rc > 0 && cases[i].rc == 0))
            continue;
        fprintf(stderr, "%s: size %zu of %zu%s: %d, not %d\n", what, cases[i].says, bytes,
                cases[i].set_at ? ", something set behind" : "", rc, cases[i].rc);
        wrong++;
    }
    return wrong;
}

#endif

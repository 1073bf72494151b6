/* SPDX-License-Identifier: BSD-3-Clause */
/* A spawn as both interfaces describe it, in libpmiwire's form. */
#ifndef FENCEPOST_LIBPMI2_SPAWN_H
#define FENCEPOST_LIBPMI2_SPAWN_H

#include <pmiwire/client.h>

/* An array of n structs of `stride` bytes that each have a `char *` key and value at these places.
 */
struct keyvals {
    const void *first;
    int n;
    size_t stride, key_at, value_at;
};

/* The number of processes of a spawn; -EINVAL: invalid, or more than an int can count. */
int spawn_count(int n_cmds, const char *const cmds[], const int maxprocs[]);
/* A spawn in libpmiwire's form; its strings remain the caller's. Release it also after a failure.
 */
struct pmiwire_spawn_cmd *spawn_begin(struct pmiwire_spawn *req, int n_cmds,
                                      const struct keyvals *preput);
/* argc -1: argv ends with NULL. 0 or -ENOMEM. */
int spawn_describe(struct pmiwire_spawn_cmd *cmd, const char *name, int argc, const char **argv,
                   int maxprocs, const struct keyvals *info);
void spawn_release(struct pmiwire_spawn *req);
/* The codes of n processes from an answer: errcodes=0,0,-1. 0 where it has none. */
void spawn_errcodes(const struct pmiwire_msg *msg, int errors[], int n);

#endif

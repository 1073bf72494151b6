/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's pairs in shared memory, where the server offers them (pmiwire/extension.h): a Get
 * without the server. */
#ifndef FENCEPOST_LIBPMI2_TABLE_H
#define FENCEPOST_LIBPMI2_TABLE_H

#include <pmiwire/client.h>

#include <shmht.h>

struct table {
    struct shmht_reader *reader; /* NULL: none */
    int by_name;                 /* not by a descriptor: so come arrays */
    int ended; /* the server no longer updates it; values got from it stay valid */
};

/* Attach to what the server advertises, if anything; fd: what came with it, or -1. Without it every
 * Get asks the server. */
void table_open(struct table *t, struct pmiwire_str advertised, int fd);
void table_close(struct table *t);

/*
 * The answer to a fence or an Allgather: does the server still keep it up to date, and are there an
 * Allgather's values in shared memory? Their array, or NULL. *fd: the descriptor that has come, or
 * -1; closed and -1 when it was the array's.
 */
struct shmht_array *table_fenced(struct table *t, const struct pmiwire_msg *answer, int *fd);

/* The value that a rank gave to an Allgather, as table_get(). */
int array_get(const struct shmht_array *array, int rank, struct pmiwire_str *value);

/* All its values, by rank, *stride bytes each. */
const void *array_values(const struct shmht_array *array, int *stride);

/* 0: the value, a string with a NUL behind it, valid until table_close(). Otherwise ask. */
int table_get(struct table *t, struct pmiwire_str key, struct pmiwire_str *value);

/* Many keys at once: values[i] is absent if only the server may have keys[i]. Returns the number
 * found. */
int table_get_many(struct table *t, const struct shmht_bytes *keys, size_t n,
                   struct shmht_bytes *values);

#endif

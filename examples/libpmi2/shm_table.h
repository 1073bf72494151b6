/* SPDX-License-Identifier: BSD-3-Clause */
/* The job's pairs in shared memory, where the server offers them (pmiwire/extension.h): a Get that
 * asks nobody. */
#ifndef FENCEPOST_LIBPMI2_TABLE_H
#define FENCEPOST_LIBPMI2_TABLE_H

#include <pmiwire/client.h>

#include <shmht.h>

struct table {
    struct shmht_reader *reader; /* NULL: none */
    int ended; /* the server keeps it up to date no more; what was got from it stays valid */
    struct shmht_array *array; /* of the last Allgather; NULL: it has none */
    int array_is_new;          /* the last fence has brought it */
};

/* Attach to what the server advertises, if anything; fd: what came with it, or -1. Without it every
 * Get is asked. */
void table_open(struct table *t, struct pmiwire_str advertised, int fd);
void table_close(struct table *t);

/*
 * The answer to a fence: does the server still keep it up to date, and did an Allgather bring an
 * array? fd: what came with it, or -1. The array of the Allgather before ends here if so.
 */
void table_fenced(struct table *t, const struct pmiwire_msg *answer, int fd);

/* The fence that was answered last was an Allgather: if it brought no array, the one of the
 * Allgather before ends here. */
void table_allgathered(struct table *t);

/* The value that a rank gave to the last Allgather, as table_get(). */
int table_gathered(const struct table *t, int rank, struct pmiwire_str *value);

/* All values of the last Allgather, by rank, *stride bytes each; there must have been one. */
const void *table_values(const struct table *t, int *stride);

/* 0: the value, a string with a NUL behind it, valid until table_close(). Otherwise ask. */
int table_get(struct table *t, struct pmiwire_str key, struct pmiwire_str *value);

/* Many keys at once: values[i] is absent where keys[i] must be asked for. Returns how many were
 * found. */
int table_get_many(struct table *t, const struct shmht_bytes *keys, size_t n,
                   struct shmht_bytes *values);

#endif

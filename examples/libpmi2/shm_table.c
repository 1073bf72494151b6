/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <unistd.h>

#include "shm_table.h"

/* The shared memory object that an extension describes. -1: nothing that can be attached. */
static int read_desc(int rc, struct pmiwire_str text, int fd, struct shmht_desc *desc)
{
    if (rc != 0 || shmht_desc_parse(text.ptr, text.len, desc) != 0)
        return -1;
    return fd < 0 && !desc->name[0] ? -1 : 0; /* its descriptor has not come */
}

void table_open(struct table *t, struct pmiwire_str advertised, int fd)
{
    struct shmht_desc desc;

    memset(t, 0, sizeof(*t));
    if (read_desc(advertised.ptr ? 0 : -1, advertised, fd, &desc) == 0 &&
        shmht_reader_attach(&desc, desc.name[0] ? -1 : fd, NULL, &t->reader, NULL) != 0)
        t->reader = NULL;
    t->by_name = t->reader && desc.name[0];
}

void table_close(struct table *t)
{
    shmht_reader_detach(t->reader);
    t->reader = NULL;
}

struct shmht_array *table_fenced(struct table *t, const struct pmiwire_msg *answer, int *fd)
{
    struct shmht_array *array = NULL;
    struct pmiwire_str text = {0};
    struct shmht_desc desc;

    if (!answer)
        return NULL;
    if (pmiwire_msg_ext(answer, PMIWIRE_EXT_TABLE_END, &text) == 0)
        t->ended = 1;
    if (read_desc(pmiwire_msg_ext(answer, PMIWIRE_EXT_ARRAY, &text), text, *fd, &desc) != 0)
        return NULL;
    if (shmht_array_attach(&desc, desc.name[0] ? -1 : *fd, NULL, &array, NULL) != 0)
        array = NULL;
    if (!desc.name[0]) {
        close(*fd);
        *fd = -1;
    }
    return array;
}

/* A value as the server stores them: a string, NUL included. */
static int is_string(struct shmht_bytes v)
{
    return v.len > 0 && ((const char *)v.ptr)[v.len - 1] == '\0';
}

int table_get(struct table *t, struct pmiwire_str key, struct pmiwire_str *value)
{
    struct shmht_bytes v;

    if (!t->reader || t->ended || shmht_get(t->reader, key.ptr, key.len, &v) != 0 || !is_string(v))
        return -1;
    *value = (struct pmiwire_str){v.ptr, v.len - 1};
    return 0;
}

int array_get(const struct shmht_array *array, int rank, struct pmiwire_str *value)
{
    struct shmht_bytes v;

    if (rank < 0 || shmht_array_get(array, (uint64_t)rank, &v) != 0 || !is_string(v))
        return -1;
    *value = (struct pmiwire_str){v.ptr, strlen(v.ptr)};
    return 0;
}

const void *array_values(const struct shmht_array *array, int *stride)
{
    struct shmht_info_array info;

    shmht_array_query(array, &info);
    *stride = (int)info.stride_bytes;
    return info.values;
}

int table_get_many(struct table *t, const struct shmht_bytes *keys, size_t n,
                   struct shmht_bytes *values)
{
    int found = 0;

    memset(values, 0, n * sizeof(*values));
    if (!t->reader || t->ended || shmht_get_many(t->reader, keys, n, values) < 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (values[i].ptr && is_string(values[i]))
            found++;
        else
            values[i] = (struct shmht_bytes){NULL, 0};
    }
    return found;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* libshmht, in pages of 4 KB and of 2 MB. A Get is a client's: through a reader attached to the
 * writer's descriptor. */
#include <stdlib.h>

#include <shmht.h>

#include "peer.h"

#define MAX_BATCH 64u

struct store {
    struct shmht_writer *writer;
    struct shmht_reader *reader;
    uint32_t flags; /* of both */
    struct shmht_desc desc;
    int fd;
};

static void ours_destroy(void *store)
{
    struct store *s = store;

    shmht_reader_detach(s->reader);
    shmht_writer_destroy(s->writer);
    free(s);
}

static void *create(uint64_t expected, uint32_t flags)
{
    struct shmht_writer_opts opts = {.size = sizeof(opts),
                                     .expected_entries = expected,
                                     .flags = flags,
                                     .max_load_percent = peer_load_percent};
    struct store *s = calloc(1, sizeof(*s));

    /* A cap: address space, not memory. Growth from small leaves old tables behind. */
    opts.max_bytes = (UINT64_C(256) << 20) + (expected ? expected : MAX_ENTRIES) * 256;
    if (!s)
        return NULL;
    s->flags = flags;
    if (shmht_writer_create(&opts, &s->writer, NULL) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

static void *ours_create(uint64_t expected)
{
    return create(expected, 0);
}

static void *ours_2m_create(uint64_t expected)
{
    return create(expected, SHMHT_HUGE);
}

static int ours_insert(void *store, const struct pair *pairs, size_t n)
{
    struct store *s = store;

    for (size_t i = 0; i < n; i++) {
        int rc = shmht_put(s->writer, pairs[i].key.s, KEY_BYTES, pairs[i].value.s, VALUE_BYTES);

        if (rc != SHMHT_PUT_NEW)
            return rc < 0 ? rc : -1;
    }
    return 0;
}

static int ours_attach(void *store, int populate)
{
    struct store *s = store;
    struct shmht_reader_opts opts = {.size = sizeof(opts),
                                     .flags = s->flags | (populate ? SHMHT_POPULATE : 0)};

    return shmht_reader_attach(&s->desc, s->fd, &opts, &s->reader, NULL);
}

static int ours_finish(void *store)
{
    struct store *s = store;

    s->fd = shmht_writer_share(s->writer, &s->desc);
    return s->fd < 0 ? s->fd : ours_attach(s, 0);
}

static inline const void *look_up(void *store, const struct key *key, size_t len)
{
    struct shmht_bytes value;

    return shmht_get(((struct store *)store)->reader, key->s, len + 1, &value) == 0 ? value.ptr
                                                                                    : NULL;
}

PEER_LOOPS(ours, look_up)

static void ours_get_many(void *store, const struct queries *queries, size_t batch, struct sum *sum)
{
    const struct shmht_reader *reader = ((struct store *)store)->reader;
    struct shmht_bytes keys[MAX_BATCH], values[MAX_BATCH];

    for (size_t i = 0, some; i < queries->n; i += some) {
        some = queries->n - i < batch ? queries->n - i : batch;
        for (size_t j = 0; j < some; j++)
            keys[j] = (struct shmht_bytes){queries->keys[i + j].s, queries->key_len + 1};
        if (shmht_get_many(reader, keys, some, values) < 0)
            return;
        for (size_t j = 0; j < some; j++)
            if (values[j].ptr) {
                sum->found++;
                sum->mix += data_head(values[j].ptr);
            }
    }
}

static uint64_t ours_allocated(void *store)
{
    struct shmht_stats stats;

    return shmht_reader_stats(((struct store *)store)->reader, &stats) == 0 ? stats.total_bytes : 0;
}

static uint64_t ours_bytes(void *store)
{
    struct shmht_stats stats;

    return shmht_reader_stats(((struct store *)store)->reader, &stats) == 0
               ? stats.total_bytes - stats.free_bytes
               : 0;
}

extern const struct peer_ops peer_ours, peer_ours_2m;
const struct peer_ops peer_ours = {
    .name = "ours",
    .bytes_an_entry = 75,
    .create = ours_create,
    .insert = ours_insert,
    .finish = ours_finish,
    .find = ours_find,
    .get = ours_get,
    .get_dependent = ours_get_dependent,
    .get_many = ours_get_many,
    .attach = ours_attach,
    .bytes = ours_bytes,
    .allocated = ours_allocated,
    .destroy = ours_destroy,
};
const struct peer_ops peer_ours_2m = {
    .name = "ours-2m",
    .bytes_an_entry = 75,
    .create = ours_2m_create,
    .insert = ours_insert,
    .finish = ours_finish,
    .find = ours_find,
    .get = ours_get,
    .get_dependent = ours_get_dependent,
    .get_many = ours_get_many,
    .attach = ours_attach,
    .bytes = ours_bytes,
    .allocated = ours_allocated,
    .destroy = ours_destroy,
};

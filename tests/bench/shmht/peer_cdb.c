/* SPDX-License-Identifier: BSD-3-Clause */
/* tinycdb: written once into a memfd, then mapped and read. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cdb.h>

#include "peer.h"

struct store {
    struct cdb_make make;
    struct cdb cdb;
    int fd, made;
};

static void *cdb_create(uint64_t expected)
{
    struct store *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->fd = memfd_create("bench_shmht_cdb", MFD_CLOEXEC);
    if (s->fd < 0 || cdb_make_start(&s->make, s->fd) != 0) {
        if (s->fd >= 0)
            close(s->fd);
        free(s);
        return NULL;
    }
    return s;
}

static int cdb_insert(void *store, const struct pair *pairs, size_t n)
{
    struct store *s = store;

    for (size_t i = 0; i < n; i++)
        if (cdb_make_add(&s->make, pairs[i].key.s, KEY_BYTES, pairs[i].value.s, VALUE_BYTES) != 0)
            return -1;
    return 0;
}

static int cdb_finish(void *store)
{
    struct store *s = store;

    s->made = 1;
    return cdb_make_finish(&s->make) != 0 ? -1 : cdb_init(&s->cdb, s->fd);
}

static int cdb_attach(void *store, int populate)
{
    struct store *s = store;

    return cdb_init(&s->cdb, s->fd);
}

static inline const void *look_up(void *store, const struct key *key, size_t len)
{
    struct store *s = store;

    return cdb_find(&s->cdb, key->s, (unsigned)len + 1) > 0 ? cdb_getdata(&s->cdb) : NULL;
}

PEER_LOOPS(tinycdb, look_up)

static uint64_t cdb_bytes(void *store)
{
    struct stat st;

    return fstat(((struct store *)store)->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void cdb_destroy(void *store)
{
    struct store *s = store;

    if (!s->made) /* the only way to free what it has gathered */
        cdb_make_finish(&s->make);
    else if (s->cdb.cdb_mem)
        cdb_free(&s->cdb);
    close(s->fd);
    free(s);
}

extern const struct peer_ops peer_cdb;
const struct peer_ops peer_cdb = {
    .name = "tinycdb",
    .bytes_an_entry = 90,
    .create = cdb_create,
    .insert = cdb_insert,
    .finish = cdb_finish,
    .find = tinycdb_find,
    .get = tinycdb_get,
    .get_dependent = tinycdb_get_dependent,
    .attach = cdb_attach,
    .bytes = cdb_bytes,
    .destroy = cdb_destroy,
};

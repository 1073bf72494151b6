/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LMDB in one read transaction, without its reader table (MDB_NOTLS, MDB_NOLOCK). Its file is a
 * memfd, opened by its name under /proc: it leaves no file, however the benchmark ends.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lmdb.h>

#include "peer.h"

#define MAP_BYTES ((size_t)1 << 31)

struct store {
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    int fd;
};

static void lmdb_destroy(void *store)
{
    struct store *s = store;

    if (s->txn)
        mdb_txn_abort(s->txn);
    if (s->env)
        mdb_env_close(s->env);
    if (s->fd >= 0)
        close(s->fd);
    free(s);
}

/* Opens the file, begins a transaction, and opens the database in it. */
static int open_env(struct store *s, unsigned env_flags, unsigned txn_flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
    return mdb_env_create(&s->env) != 0 || mdb_env_set_mapsize(s->env, MAP_BYTES) != 0 ||
           mdb_env_open(s->env, path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOLOCK | env_flags, 0600) !=
               0 ||
           mdb_txn_begin(s->env, NULL, txn_flags, &s->txn) != 0 ||
           mdb_dbi_open(s->txn, NULL, 0, &s->dbi) != 0;
}

static void *lmdb_create(uint64_t expected)
{
    struct store *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->fd = memfd_create("bench_shmht_lmdb", MFD_CLOEXEC);
    if (s->fd < 0 || open_env(s, MDB_NOSYNC | MDB_WRITEMAP, 0) != 0) {
        lmdb_destroy(s);
        return NULL;
    }
    return s;
}

/* What was inherited is left alone: it belongs to the writer. */
static int lmdb_attach(void *store, int populate)
{
    struct store *s = store;

    s->env = NULL;
    s->txn = NULL;
    return open_env(s, MDB_RDONLY, MDB_RDONLY);
}

static int lmdb_insert(void *store, const struct pair *pairs, size_t n)
{
    struct store *s = store;

    for (size_t i = 0; i < n; i++) {
        MDB_val key = {KEY_BYTES, (void *)(uintptr_t)pairs[i].key.s};
        MDB_val value = {VALUE_BYTES, (void *)(uintptr_t)pairs[i].value.s};

        if (mdb_put(s->txn, s->dbi, &key, &value, 0) != 0)
            return -1;
    }
    return 0;
}

static int lmdb_finish(void *store)
{
    struct store *s = store;
    int rc = mdb_txn_commit(s->txn);

    s->txn = NULL;
    return rc != 0 ? rc : mdb_txn_begin(s->env, NULL, MDB_RDONLY, &s->txn);
}

static inline const void *look_up(void *store, const struct key *key, size_t len)
{
    struct store *s = store;
    MDB_val name = {len + 1, (void *)(uintptr_t)key->s}, value;

    return mdb_get(s->txn, s->dbi, &name, &value) == 0 ? value.mv_data : NULL;
}

PEER_LOOPS(lmdb, look_up)

static uint64_t lmdb_bytes(void *store)
{
    struct store *s = store;
    MDB_envinfo info;
    MDB_stat stat;

    mdb_env_info(s->env, &info);
    mdb_env_stat(s->env, &stat);
    return (info.me_last_pgno + 1) * stat.ms_psize;
}

extern const struct peer_ops peer_lmdb;
const struct peer_ops peer_lmdb = {
    .name = "LMDB",
    .bytes_an_entry = 110,
    .create = lmdb_create,
    .insert = lmdb_insert,
    .finish = lmdb_finish,
    .find = lmdb_find,
    .get = lmdb_get,
    .get_dependent = lmdb_get_dependent,
    .attach = lmdb_attach,
    .bytes = lmdb_bytes,
    .destroy = lmdb_destroy,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching, with the checks that shmht.h promises; those of the header are in header.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Copies the constant fields of a checked header, and checks the copies: a hostile writer may have
 * changed the header in between. */
int shmht__reader_bind(struct shmht_reader *r, const struct shmht__header *h, uint32_t kind,
                       uint32_t hash_id, shmht_hash_fn *hash, struct shmht_error *err)
{
    struct shmht__table t;
    uint64_t table, check;
    int rc;

    r->generation = h->generation;
    r->id = h->id;
    if (kind != SHMHT_KIND_TABLE)
        return 0;
    r->hash_id = h->hash_id;
    r->seed = h->seed;
    r->granule_shift = h->granule_shift;
    /* changed since the check */
    if (r->granule_shift < 2 || r->granule_shift > 6)
        return shmht__refused(err, SHMHT_ECORRUPT, "granule_shift", r->granule_shift);
    table = atomic_load_explicit(&h->table, memory_order_acquire);
    if (shmht__reader_table(r, table, &t) != 0)
        return shmht__refused(err, SHMHT_ECORRUPT, "table", table);
    r->flip_lo = SHMHT__XXH_FLIP_16A + r->seed;
    r->flip_hi = SHMHT__XXH_FLIP_16B - r->seed;
    r->n_usual = r->hash_id == SHMHT_HASH_XXH3 && r->granule_shift == 2 ? HIT_KEY_BYTES - 8 : 0;
    r->hash = r->hash_id >= SHMHT_HASH_CALLER && r->hash_id == hash_id ? hash : NULL;
    rc = r->hash_id >= SHMHT_HASH_CALLER && !r->hash
             ? SHMHT_EHASH
             : shmht__hash_check(r->hash_id, r->hash, r->seed, &check);
    if (rc < 0)
        return shmht__refused(err, rc, "hash_id", r->hash_id);
    return check != h->hash_check ? shmht__refused(err, SHMHT_EHASH, "hash_check", check) : 0;
}

int shmht__reader_opts_take(struct shmht_reader_opts *to, const struct shmht_reader_opts *from,
                            struct shmht_error *err)
{
    int rc = shmht__opts_take(to, from, sizeof(*to), err);

    if (rc < 0)
        return rc;
    if (to->flags & ~(SHMHT_POPULATE | SHMHT_HUGE | SHMHT_UNSEALED))
        return shmht__refused(err, -EINVAL, "flags", to->flags);
    if ((uintptr_t)to->region % LINE_BYTES != 0)
        return shmht__refused(err, -EINVAL, "region", (uintptr_t)to->region);
    if (to->max_bytes == 0)
        to->max_bytes = SHMHT_MAX_REGION_BYTES;
    return 0;
}

/* Opens a named object of this user. */
static int open_named(const char *name, uint32_t uid)
{
    struct stat st;
    int fd;

    if (!shmht__name_ok(name))
        return SHMHT_ENAME;
    /* O_NONBLOCK: open() must return for a FIFO too. */
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != uid ||
        st.st_mode & (S_IWGRP | S_IWOTH)) {
        close(fd);
        return SHMHT_EOWNER;
    }
    return fd;
}

/* Opens, checks and maps the object into r. On failure the caller detaches. */
static int open_object(const struct shmht_desc *desc, int fd, const struct shmht_reader_opts *opts,
                       uint32_t kind, struct shmht_reader *r, struct shmht_error *err)
{
    const char *name = desc ? desc->name : NULL;
    unsigned char *base = NULL;
    struct stat st;
    uint64_t bytes;
    int named = fd < 0, rc, seals;

    if (named && !desc)
        return shmht__refused(err, -EINVAL, "desc", 0);
    if (desc && desc->kind != kind)
        return shmht__refused(err, SHMHT_EKIND, "kind", desc->kind);
    r->fd = named ? open_named(name, desc->uid) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (r->fd < 0)
        return named ? shmht__failed(err, r->fd, "open", name)
                     : shmht__failed(err, -errno, "duplicate", "the descriptor");
    seals = named ? F_SEAL_SHRINK : fcntl(r->fd, F_GET_SEALS);
    if (!(opts->flags & SHMHT_UNSEALED) && (seals < 0 || !(seals & F_SEAL_SHRINK)))
        return shmht__failed(err, SHMHT_EUNSEALED, "trust", NULL);
    if (fstat(r->fd, &st) != 0)
        return shmht__failed(err, -errno, "measure", name);
    bytes = (uint64_t)st.st_size;
    if (st.st_size < (off_t)HEADER_BYTES)
        return shmht__refused(err, SHMHT_ETRUNC, "bytes", bytes);
    /* First the header, which has the cap. */
    rc = shmht__map(r->fd, HEADER_BYTES, PROT_READ, &base, &r->map_bytes);
    if (rc < 0)
        return shmht__failed(err, rc, "map", name);
    r->base = base;
    r->max_bytes = shmht__read_once(&shmht__header_of(r)->max_bytes);
    rc = shmht__header_check(shmht__header_of(r), r->fd, &bytes, kind, desc, opts->max_bytes, err);
    munmap(base, r->map_bytes);
    r->base = NULL;
    if (rc < 0)
        return rc;
    if (r->max_bytes < HEADER_BYTES || r->max_bytes > opts->max_bytes)
        return shmht__refused(err, SHMHT_ECORRUPT, "max_bytes", r->max_bytes);
    rc = shmht__map(r->fd, r->max_bytes, PROT_READ, &base, &r->map_bytes);
    if (rc < 0)
        return shmht__failed(err, rc, "map", name);
    r->base = base;
    shmht__reader_set_bytes(r, bytes < r->max_bytes ? bytes : r->max_bytes);
    return shmht__reader_bind(r, shmht__header_of(r), kind, opts->hash_id, opts->hash, err);
}

/* Fills in a reader whose handle the caller owns. On failure it leaves nothing open. */
int shmht__attach_object(const struct shmht_desc *desc, int fd,
                         const struct shmht_reader_opts *opts, uint32_t kind,
                         struct shmht_reader *r, struct shmht_error *err)
{
    uint64_t bytes, top;
    int rc = open_object(desc, fd, opts, kind, r, err);

    if (rc < 0) {
        shmht__detach_object(r);
        return rc;
    }
    /* the bytes in use */
    bytes = atomic_load_explicit(&r->bytes, memory_order_relaxed);
    top = atomic_load_explicit(&shmht__header_of(r)->top, memory_order_relaxed);
    if (kind == SHMHT_KIND_TABLE && top < bytes)
        bytes = top;
    if (opts->flags & SHMHT_HUGE &&
        shmht__collapse(r->base, 0, bytes, &r->huge_bytes, &r->huge_errno) != 0)
        r->notes |= SHMHT_NOTE_NO_HUGE;
    if (opts->flags & SHMHT_POPULATE &&
        madvise((void *)(uintptr_t)r->base, align_up(bytes, PAGE_BYTES), MADV_POPULATE_READ) != 0)
        r->notes |= SHMHT_NOTE_NO_POPULATE;
    return 0;
}

void shmht__detach_object(struct shmht_reader *r)
{
    if (r->fd < 0)
        return;
    if (r->base)
        munmap((void *)(uintptr_t)r->base, (size_t)r->map_bytes);
    close(r->fd);
    r->base = NULL;
    r->fd = -1;
}

/* As shmht__attach_object(), for a table in the caller's memory. */
static int attach_region(const struct shmht_desc *desc, int fd,
                         const struct shmht_reader_opts *opts, struct shmht_reader *r,
                         struct shmht_error *err)
{
    uint64_t bytes = opts->region_bytes;
    int rc;

    if (desc || fd >= 0)
        return shmht__refused(err, -EINVAL, "region", (uintptr_t)opts->region);
    if (bytes < HEADER_BYTES)
        return shmht__refused(err, SHMHT_ETRUNC, "region_bytes", bytes);
    r->base = opts->region;
    rc = shmht__header_check(shmht__header_of(r), -1, &bytes, SHMHT_KIND_TABLE, NULL,
                             opts->max_bytes, err);
    if (rc < 0)
        return rc;
    r->max_bytes = shmht__read_once(&shmht__header_of(r)->max_bytes);
    /* changed since the check */
    if (r->max_bytes < HEADER_BYTES)
        return shmht__refused(err, SHMHT_ECORRUPT, "max_bytes", r->max_bytes);
    if (r->max_bytes > bytes)
        r->max_bytes = bytes;
    shmht__reader_set_bytes(r, r->max_bytes);
    return shmht__reader_bind(r, shmht__header_of(r), SHMHT_KIND_TABLE, opts->hash_id, opts->hash,
                              err);
}

int shmht_reader_attach(const struct shmht_desc *desc, int fd, const struct shmht_reader_opts *opts,
                        struct shmht_reader **out, struct shmht_error *err)
{
    struct shmht_reader_opts o;
    struct shmht_reader *r;
    int rc = out ? shmht__reader_opts_take(&o, opts, err) : shmht__refused(err, -EINVAL, "out", 0);

    if (rc == 0)
        rc = shmht__handle_alloc(o.allocator, sizeof(*r), &r, err);
    if (rc < 0)
        return rc;
    r->opts = o;
    r->fd = -1;
    rc = o.region ? attach_region(desc, fd, &o, r, err)
                  : shmht__attach_object(desc, fd, &o, SHMHT_KIND_TABLE, r, err);
    if (rc < 0)
        shmht__handle_free(o.allocator, r);
    else
        *out = r;
    return rc;
}

int shmht_reader_follow(struct shmht_reader *r, const struct shmht_desc *desc, int fd,
                        struct shmht_error *err)
{
    struct shmht_reader next;
    int rc;

    if (r->fd < 0)
        return shmht__refused(err, -EINVAL, "region", (uintptr_t)r->base);
    memset(&next, 0, sizeof(next));
    next.opts = r->opts;
    next.fd = -1;
    rc = shmht__attach_object(desc, fd, &r->opts, SHMHT_KIND_TABLE, &next, err);
    if (rc < 0)
        return rc;
    if (next.generation <= r->generation) {
        rc = shmht__refused(err, SHMHT_ESTALE, "generation", next.generation);
        shmht__detach_object(&next);
        return rc;
    }
    shmht__detach_object(r);
    *r = next;
    /* it pointed into next */
    atomic_store_explicit(&r->table, &r->tables[0], memory_order_relaxed);
    return 0;
}

void shmht_reader_detach(struct shmht_reader *r)
{
    if (!r || r->object)
        return;
    shmht__detach_object(r);
    shmht__handle_free(r->opts.allocator, r);
}

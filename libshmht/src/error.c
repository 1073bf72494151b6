/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>

#include "internal.h"

const char *shmht_version(void)
{
    return SHMHT_VERSION;
}

/* Returns NULL for a code that this library does not know. */
static const char *phrase(int code)
{
    switch (code) {
    case 0: return "success";
    case SHMHT_ENOENT: return "no such key, or no value at this rank yet";
    case SHMHT_EEXIST: return "already there";
    case SHMHT_EFULL: return "table is at its byte cap";
    case SHMHT_EKEYLEN: return "key is empty or too long";
    case SHMHT_EVALLEN: return "value is too long";
    case SHMHT_ECORRUPT: return "region, block or descriptor is corrupt";
    case SHMHT_EMAGIC: return "not a region, block or descriptor of libshmht";
    case SHMHT_EVERSION: return "another version of the layout";
    case SHMHT_EORDER: return "written in the other byte order";
    case SHMHT_EKIND: return "an array where a table is expected, or the reverse";
    case SHMHT_ETRUNC: return "shorter than its header says";
    case SHMHT_EHASH: return "hash function is unknown here or computes other values";
    case SHMHT_EPROBE: return "too many keys with the same hash";
    case SHMHT_EUNSEALED: return "memory object is not sealed against truncation";
    case SHMHT_EOWNER: return "named object belongs to another user, or others may write to it";
    case SHMHT_ESTALE: return "not the region that the descriptor describes";
    case SHMHT_EBUSY: return "the region's writer is alive";
    case SHMHT_ELIMIT: return "region is larger than this reader's limit";
    case SHMHT_ENAME: return "name is not a plain absolute path, or is too long";
    case SHMHT_ENOBUF: return "buffer is too small";
    case SHMHT_EPROC: return "/proc/self/fd is missing: mount /proc";
    case SHMHT_ERANK: return "rank is beyond the array";
    case SHMHT_EFIXED: return "region lies in the caller's memory";
    case -ENOMEM: return "out of memory or address space";
    case -ENOSPC: return "file system is full";
    case -EINVAL: return "invalid argument";
    case -EFBIG: return "larger than this process may make a file (RLIMIT_FSIZE)";
    case -EEXIST: return "name is taken";
    case -ENOENT: return "no such file";
    case -EACCES: return "permission denied";
    case -EPERM: return "not permitted";
    case -EBADF: return "not an open descriptor";
    case -EMFILE: return "too many open files";
    case -ENFILE: return "too many open files on this node";
    case -EPIPE: return "the other end is closed";
    default: return NULL;
    }
}

const char *shmht_strerror(int code)
{
    const char *known = phrase(code);

    return known ? known : code < 0 && code > -4096 ? "system error" : "unknown error code";
}

static int fill(struct shmht_error *err, int code, const char *what)
{
    size_t n = strlen(err->text);

    err->code = code;
    err->what = what;
    if (phrase(code))
        snprintf(err->text + n, sizeof(err->text) - n, ": %s", phrase(code));
    else
        snprintf(err->text + n, sizeof(err->text) - n, ": errno %d", -code);
    return code;
}

int shmht__refused(struct shmht_error *err, int code, const char *what, uint64_t value)
{
    if (!err)
        return code;
    snprintf(err->text, sizeof(err->text), "%s is %llu", what, (unsigned long long)value);
    return fill(err, code, what);
}

int shmht__failed(struct shmht_error *err, int code, const char *step, const char *object)
{
    if (!err)
        return code;
    snprintf(err->text, sizeof(err->text), "cannot %s %.191s", step,
             object && object[0] ? object : "the memory object");
    return fill(err, code, step);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Error phrases, error details, and the version. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strerrordesc_np() */
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

const char *shmht_version(void)
{
    return SHMHT_VERSION;
}

/* Returns NULL for a code that is not one of this library. */
static const char *own_phrase(int code)
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
    case SHMHT_EBUSY: return "another process has locked the object";
    case SHMHT_ELIMIT: return "region is larger than this reader's limit";
    case SHMHT_ENAME: return "name is not a plain absolute path, or is too long";
    case SHMHT_ENOBUF: return "buffer is too small";
    case SHMHT_EPROC: return "/proc/self/fd is missing: mount /proc";
    case SHMHT_ERANK: return "rank is beyond the array";
    case SHMHT_EFIXED: return "region lies in the caller's memory";
    default: return NULL;
    }
}

/* Returns the C library's phrase for an errno, without its static buffer, or NULL for an unknown
 * number. glibc 2.32 has a function for it; elsewhere strerror() uses a static buffer for unknown
 * numbers only. */
static const char *errno_phrase(int number)
{
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)
    return strerrordesc_np(number);
#endif
#endif
    return number <= EHWPOISON ? strerror(number) : NULL;
}

const char *shmht_strerror(int code)
{
    const char *phrase = own_phrase(code);

    if (!phrase && code < 0 && code > -4096)
        phrase = errno_phrase(-code);
    return phrase ? phrase : "unknown error code";
}

static int error_finish(struct shmht_error *err, int code, const char *what)
{
    size_t n = strlen(err->text);

    err->code = code;
    err->what = what;
    snprintf(err->text + n, sizeof(err->text) - n, ": %s", shmht_strerror(code));
    return code;
}

int(shmht__refused)(struct shmht_error *err, int code, const char *what, uint64_t value)
{
    if (!err)
        return code;
    snprintf(err->text, sizeof(err->text), "%s is %llu", what, (unsigned long long)value);
    return error_finish(err, code, what);
}

int(shmht__outside)(struct shmht_error *err, const char *what, uint64_t value, uint64_t least,
                    uint64_t most)
{
    if (!err)
        return -EINVAL;
    snprintf(err->text, sizeof(err->text), "%s is %llu, and must be from %llu to %llu", what,
             (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
    return error_finish(err, -EINVAL, what);
}

int(shmht__failed)(struct shmht_error *err, int code, const char *step, const char *object)
{
    if (!err)
        return code;
    snprintf(err->text, sizeof(err->text), "cannot %s %.191s", step,
             object && object[0] ? object : "the memory object");
    return error_finish(err, code, step);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <shmht.h>

const char *shmht_version(void)
{
    return SHMHT_VERSION;
}

const char *shmht_strerror(int code)
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
    case SHMHT_ETRUNC: return "shorter than it says it is";
    case SHMHT_EHASH: return "hash function is unknown here or computes other values";
    case SHMHT_EPROBE: return "too many keys with the same hash";
    case SHMHT_EUNSEALED: return "memory object is not sealed against truncation";
    case SHMHT_EOWNER: return "named object belongs to somebody else or may be written by others";
    case SHMHT_ESTALE: return "not the region that the descriptor describes";
    case SHMHT_EBUSY: return "the region's writer is alive";
    case SHMHT_ELIMIT: return "region is larger than this reader's limit";
    case SHMHT_ENAME: return "name is not a plain absolute path, or is too long";
    case SHMHT_ENOBUF: return "buffer is too small";
    case SHMHT_EPROC: return "/proc/self/fd is needed and not there";
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
    default: return code < 0 && code > -4096 ? "system error" : "unknown error code";
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include <rankmap/base.h>

const char *rankmap_version(void)
{
    return RANKMAP_VERSION;
}

const char *rankmap_strerror(int code)
{
    switch (code) {
    case 0: return "success";
    case RANKMAP_EDUP: return "an id or rank comes twice";
    case RANKMAP_ERANGE: return "a rank, id, count or parameter is out of range";
    case RANKMAP_ESYNTAX: return "text is no list of ranks, task map or process mapping";
    case RANKMAP_EFORMAT: return "bytes are no packed map";
    case RANKMAP_ENOENT: return "no such rank, id, group or entry";
    case RANKMAP_ENOBUF: return "buffer is too small";
    case RANKMAP_ELEVELS: return "too many levels";
    case RANKMAP_ETAG: return "address uses the tag's bits, or tag does not fit them";
    case RANKMAP_EFULL: return "the reserved range of flat ids is full";
    case RANKMAP_ENOTONE: return "map has equal ids, and so no inverse";
    case -ENOMEM: return "out of memory";
    case -EINVAL: return "invalid argument";
    default: return "unknown error code";
    }
}

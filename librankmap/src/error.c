/* SPDX-License-Identifier: BSD-3-Clause */
/* Error texts and details, and the version. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strerrordesc_np */
#endif
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

const char *rankmap_version(void)
{
    return RANKMAP_VERSION;
}

/* Returns the text of an errno value, NULL for an unknown one. glibc 2.32 has a function without a
 * static buffer; elsewhere strerror() writes to one only for unknown values. */
static const char *errno_text(int number)
{
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)
    return strerrordesc_np(number);
#endif
#endif
    return number <= EHWPOISON ? strerror(number) : NULL;
}

const char *rankmap_strerror(int code)
{
    const char *text;

    switch (code) {
    case 0: return "success";
    case RANKMAP_EDUP: return "an id or rank comes twice";
    case RANKMAP_ERANGE: return "a rank, id, count or parameter is out of range";
    case RANKMAP_ESYNTAX: return "text is not a list of ranks, task map or process mapping";
    case RANKMAP_EFORMAT: return "bytes are not a packed map";
    case RANKMAP_ENOENT: return "no rank has this id, or no such process group";
    case RANKMAP_ENOBUF: return "buffer is too small";
    case RANKMAP_ELEVELS: return "too many levels";
    case RANKMAP_ETAG: return "tag does not fit the tag's bits";
    case RANKMAP_EFULL: return "the reserved range of flat ids is full";
    case RANKMAP_ENOTINJECTIVE: return "map has equal ids, and so no inverse";
    default: break;
    }
    text = code < 0 && code > -4096 ? errno_text(-code) : NULL;
    return text ? text : "unknown error code";
}

int(rankmap__fail)(struct rankmap_error *err, int code, uint64_t where, uint64_t id,
                   const char *format, ...)
{
    va_list args;

    *err = (struct rankmap_error){.code = code, .where = where, .id = id};
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return code;
}

void rankmap__detail_copy(int rc, struct rankmap_error *detail, struct rankmap_error *err)
{
    if (detail->code != rc)
        rankmap__fail(detail, rc, NOWHERE, RANKMAP_NO_ID, "%s", rankmap_strerror(rc));
    *err = *detail;
}

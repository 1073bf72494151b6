/* SPDX-License-Identifier: BSD-3-Clause */
/* Error phrases, error details, and the version. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strerrordesc_np */
#endif
#include "base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The error's name in the C locale, without a static buffer: glibc 2.32 has a function for it,
 * elsewhere strerror() uses a static buffer for unknown numbers only. NULL: unknown. */
static const char *errno_text(int number)
{
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 32)
    return strerrordesc_np(number);
#endif
#endif
    return number <= EHWPOISON ? strerror(number) : NULL;
}

const char *asymreg_strerror(int code)
{
    const char *text;

    if (code >= 0)
        return "success";
    switch (code) {
    case ASYMREG_ENOREGION: return "no registered region holds the address";
    case ASYMREG_ERANGE: return "not within the region";
    case ASYMREG_ESTALE: return "the region has been unregistered";
    case ASYMREG_EACCES: return "the region does not permit this access";
    case ASYMREG_EPEER: return "the peer has gone";
    case ASYMREG_EOVERLAP: return "overlaps a registered region";
    case ASYMREG_EOVERFLOW: return "address plus length runs past 2^64";
    case ASYMREG_EFAULT: return "no accessible memory behind the region";
    case ASYMREG_ENOTSUP: return "the transport cannot do this";
    case ASYMREG_EFULL: return "no room for another region or segment";
    case ASYMREG_EALIGN: return "atomic operation on a misaligned address";
    case ASYMREG_ENOPEER: return "no such peer";
    case ASYMREG_EUNREACH: return "the transport cannot reach this peer";
    case ASYMREG_EBLOB: return "not a bootstrap blob";
    case ASYMREG_EVERSION: return "version or byte order not supported";
    case ASYMREG_ETABLE: return "the peer's table contradicts itself";
    case ASYMREG_EBUSY: return "in use (a bound handle, another user), or changing too fast";
    case ASYMREG_ETRANSPORT: return "the transport failed";
    case ASYMREG_ETIMEDOUT: return "timed out";
    default: break;
    }
    text = code > -4096 ? errno_text(-code) : NULL;
    return text ? text : "unknown error code";
}

int(asymreg__fail)(struct asymreg_error *err, int code, const char *format, ...)
{
    va_list args;

    if (!err)
        return code;
    *err = (struct asymreg_error){.code = code, .pe = ASYMREG__NO_PE};
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return code;
}

int(asymreg__fail_at)(struct asymreg_error *err, int code, const struct asymreg_error *inner,
                      uint32_t pe, uint64_t addr, uint64_t bytes)
{
    if (!err)
        return code;
    if (inner && inner->code)
        *err = *inner;
    else
        asymreg__fail(err, code, "%s", asymreg_strerror(code));
    err->code = code;
    err->pe = pe;
    err->addr = addr;
    err->bytes = bytes;
    err->reserved = 0;
    return code;
}

const char *asymreg_version(void)
{
    return ASYMREG_VERSION;
}

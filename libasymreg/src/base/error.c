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

static const char *const phrases[] = {
    "no registered region holds the address",
    "not within the region",
    "the region has been unregistered",
    "the region does not permit this access",
    "the peer has gone",
    "overlaps a registered region",
    "address plus length runs past 2^64",
    "no accessible memory behind the region",
    "the transport cannot do this",
    "no room for another region or segment",
    "atomic operation on a misaligned address",
    "no such peer",
    "the transport cannot reach this peer",
    "not a bootstrap blob",
    "version or byte order not supported",
    "the peer's table contradicts itself",
    "in use (a bound handle, another user), or changing too fast",
    "the transport failed",
    "timed out",
};

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
    int i;

    if (code >= 0)
        return "success";
    i = ASYMREG_ENOREGION - code;
    if (i >= 0 && i < (int)(sizeof(phrases) / sizeof(*phrases)))
        return phrases[i];
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* Error phrases and the version. */
#define _GNU_SOURCE /* strerrordesc_np */
#include <asymreg/base.h>

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
    "in use, or changing too fast",
    "the transport failed",
    "timed out",
};

const char *asymreg_strerror(int code)
{
    const char *text;
    int i = ASYMREG_ENOREGION - code;

    if (code >= 0)
        return "success";
    if (i >= 0 && i < (int)(sizeof(phrases) / sizeof(*phrases)))
        return phrases[i];
    text = code > -4096 ? strerrordesc_np(-code) : NULL;
    return text ? text : "unknown error";
}

const char *asymreg_version(void)
{
    return ASYMREG_VERSION;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Option structs of other releases. */
#ifndef ASYMREG_SRC_OPTS_H
#define ASYMREG_SRC_OPTS_H

#include <stddef.h>
#include <string.h>

/* Whether an option struct has all of this release's members. */
static inline int asymreg__opts_readable(const void *opts, size_t ours)
{
    size_t size;

    memcpy(&size, opts, sizeof(size));
    return size >= ours && size <= 4096; /* none is near that: the size was not set */
}

/* Whether an option struct is this release's, or a longer one of a later release in which nothing
 * is set that this one does not know. */
static inline int asymreg__opts_known(const void *opts, size_t ours)
{
    const unsigned char *bytes = opts;
    size_t size;

    if (!asymreg__opts_readable(opts, ours))
        return 0;
    memcpy(&size, opts, sizeof(size));
    for (size_t i = ours; i < size; i++)
        if (bytes[i])
            return 0;
    return 1;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as little-endian bytes, in all messages between servers. */
#ifndef PMIRUN_BYTES_H
#define PMIRUN_BYTES_H

#include <stdint.h>

static inline void bytes_put_u32(void *to, uint32_t v)
{
    uint8_t *p = to;

    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline uint32_t bytes_get_u32(const void *from)
{
    const uint8_t *p = from;

    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void bytes_put_u64(void *to, uint64_t v)
{
    bytes_put_u32(to, (uint32_t)v);
    bytes_put_u32((uint8_t *)to + 4, (uint32_t)(v >> 32));
}

static inline uint64_t bytes_get_u64(const void *from)
{
    return bytes_get_u32(from) | (uint64_t)bytes_get_u32((const uint8_t *)from + 4) << 32;
}

#endif

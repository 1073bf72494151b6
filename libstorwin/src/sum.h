/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STORWIN_SUM_H
#define STORWIN_SUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t storwin__sum_ahead(const void *data, size_t bytes, uint64_t seed, const void *next);

static inline uint64_t storwin__sum(const void *data, size_t bytes, uint64_t seed)
{
    return storwin__sum_ahead(data, bytes, seed, data);
}

#endif

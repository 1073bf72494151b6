/* SPDX-License-Identifier: BSD-3-Clause */
#include "detect_peers.h"

void detect_ch4(const int32_t *a, size_t n, struct found *found)
{
    int32_t offset = a[0], size = (int32_t)n, block = 1, stride;

    found->regular = 0;
    while (block < size && a[block] == offset + block)
        block++;
    if (block == size) {
        *found = (struct found){1, offset, size, size};
        return;
    }
    stride = a[block] - offset;
    if (stride <= block)
        return;
    for (int32_t i = 0; i < size; i++)
        if (a[i] != offset + i / block * stride + i % block)
            return;
    *found = (struct found){1, offset, block, stride};
}

void detect_main(const int32_t *a, size_t n, struct found *found)
{
    int64_t offset = a[0], stride = n > 1 ? (int64_t)a[1] - a[0] : 1;

    found->regular = 0;
    for (size_t i = 0; i < n; i++)
        if (a[i] != offset + (int64_t)i * stride)
            return;
    *found = (struct found){1, offset, 1, stride};
}

void detect_ucc(const int32_t *a, size_t n, struct found *found)
{
    int64_t stride = n > 1 ? (int64_t)a[1] - a[0] : 1;

    found->regular = 0;
    for (size_t i = 2; i < n; i++)
        if ((int64_t)a[i] - a[i - 1] != stride)
            return;
    *found = (struct found){1, a[0], 1, stride};
}

uint64_t read_sum(const int32_t *a, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (uint32_t)a[i];
    return sum;
}

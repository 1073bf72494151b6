/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in text and in arrays; a keyed hash and a sort, for the server and the exchange. */
#include "base_internal.h"

/* ---- numbers ---- */

size_t pmiwire__parse_digits(struct pmiwire_str text, uint64_t *value)
{
    size_t n = 0;

    *value = 0;
    for (; n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9'; n++)
        if (*value <= UINT32_MAX)
            *value = *value * 10 + (uint64_t)(text.ptr[n] - '0');
    return n;
}

int pmiwire__parse_int(struct pmiwire_str text, int32_t *out)
{
    const int negative = text.len > 0 && text.ptr[0] == '-';
    const struct pmiwire_str digits = {negative ? text.ptr + 1 : text.ptr,
                                       text.len - (size_t)negative};
    uint64_t v;
    size_t n = pmiwire__parse_digits(digits, &v);

    if (n == 0 || n != digits.len || n > 10 || v > (uint64_t)INT32_MAX + (uint64_t)negative)
        return PMIWIRE_ETYPE;
    *out = (int32_t)(negative ? -(int64_t)v : (int64_t)v);
    return 0;
}

/* ---- a search in a sorted array ---- */

uint32_t pmiwire__sorted_find(const uint32_t *a, uint32_t n, uint32_t v)
{
    uint32_t lo = 0, len = n;

    while (len > 1) {
        if (a[lo + len / 2] <= v)
            lo += len / 2;
        len -= len / 2;
    }
    return n > 0 && a[lo] == v ? lo : UINT32_MAX;
}

/* ---- SipHash-1-3 ---- */

static uint64_t rotate_left(uint64_t x, int b)
{
    return (x << b) | (x >> (64 - b));
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[3];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[2] = rotate_left(v[2], 32);
}

uint64_t pmiwire__hash(const uint64_t key[2], struct pmiwire_str s)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                     key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    uint64_t m;
    size_t i;

    for (i = 0; i + 8 <= s.len; i += 8) {
        memcpy(&m, s.ptr + i, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    m = 0;
    if (s.len > i)
        memcpy(&m, s.ptr + i, s.len - i);
    m |= (uint64_t)s.len << 56;
    v[3] ^= m;
    sip_round(v);
    v[0] ^= m;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- heapsort: in place, no memory, no bad case ---- */

static uint64_t load_number(const void *a, size_t i, size_t width)
{
    return width == 4 ? ((const uint32_t *)a)[i] : ((const uint64_t *)a)[i];
}

static void store_number(void *a, size_t i, size_t width, uint64_t v)
{
    if (width == 4)
        ((uint32_t *)a)[i] = (uint32_t)v;
    else
        ((uint64_t *)a)[i] = v;
}

static void sift_down(void *a, size_t i, size_t n, size_t width)
{
    const uint64_t v = load_number(a, i, width);
    size_t child;

    for (; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && load_number(a, child + 1, width) > load_number(a, child, width))
            child++;
        if (v >= load_number(a, child, width))
            break;
        store_number(a, i, width, load_number(a, child, width));
    }
    store_number(a, i, width, v);
}

void pmiwire__sort(void *a, size_t n, size_t width)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(a, i, n, width);
    for (size_t i = n; i-- > 1;) {
        const uint64_t v = load_number(a, 0, width);

        store_number(a, 0, width, load_number(a, i, width));
        store_number(a, i, width, v);
        sift_down(a, 0, i, width);
    }
}

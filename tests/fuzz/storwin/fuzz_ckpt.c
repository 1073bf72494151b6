/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libFuzzer target: the header of a checkpoint's slot. Any bytes are looked at within their bounds; what is taken for a header is one
 * that this library would have made, byte for byte; and a header with any byte changed is not taken.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"
#include "fuzz.h"
#include "internal.h"

static void check(int holds)
{
    if (!holds)
        abort();
}

static void any_bytes(const uint8_t *data, uint64_t bytes, uint32_t slot)
{
    struct storwin__ckpt_header *raw = malloc(sizeof(*raw)), h, made;
    int rc;

    check(raw != NULL);
    memcpy(raw, data, sizeof(*raw));
    rc = storwin__ckpt_header_check(raw, bytes, slot, &h);
    check(rc == 0 || rc == STORWIN_ENONE || rc == STORWIN_EFORMAT);
    if (rc == 0) {
        storwin__ckpt_header_make(&made, bytes, h.generation, h.app_version, h.data_sum, slot);
        check(memcmp(&made, raw, sizeof(made)) == 0 && h.generation > 0);
    }
    free(raw);
}

/* A header of these numbers, then the same with one byte different. */
static void made_header(const uint8_t *data)
{
    struct storwin__ckpt_header h, seen;
    uint64_t n[4];
    uint8_t *bytes = (uint8_t *)&h;

    memcpy(n, data, sizeof(n));
    storwin__ckpt_header_make(&h, n[0], n[1], n[2], n[3], data[32] & 1);
    check(storwin__ckpt_header_check(&h, n[0], data[32] & 1, &seen) == (n[1] ? 0 : STORWIN_ENONE));
    check(storwin__ckpt_header_check(&h, n[0] + 1, data[32] & 1, &seen) == STORWIN_EFORMAT);
    check(storwin__ckpt_header_check(&h, n[0], !(data[32] & 1), &seen) == STORWIN_EFORMAT);
    if (data[34] == 0)
        return;
    bytes[data[33] % sizeof(h)] ^= data[34];
    check(storwin__ckpt_header_check(&h, n[0], data[32] & 1, &seen) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t bytes = 0;

    if (size >= 35)
        made_header(data);
    if (size < sizeof(struct storwin__ckpt_header))
        return 0;
    memcpy(&bytes, data + offsetof(struct storwin__ckpt_header, bytes), sizeof(bytes));
    any_bytes(data, bytes, data[20] & 1);
    any_bytes(data, 4096, 0);
    return 0;
}

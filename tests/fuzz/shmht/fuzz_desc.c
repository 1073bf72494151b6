/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors from a peer: an accepted descriptor is written again unchanged, and holds only safe
 * characters. */
#include "fuzz.h"

#include <shmht.h>
#include <string.h>

static void check(const struct shmht_desc *desc)
{
    char text[SHMHT_DESC_TEXT_BYTES];
    struct shmht_desc again;
    ssize_t n = shmht_desc_format(desc, text, sizeof(text));

    MUST(n > 0 && (size_t)n == strlen(text));
    MUST(strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,._-/") ==
         (size_t)n);
    MUST(shmht_desc_parse(text, (size_t)n, &again) == 0 &&
         memcmp(desc, &again, sizeof(again)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shmht_desc desc;

    if (shmht_desc_parse((const char *)data, size, &desc) == 0)
        check(&desc);
    return 0;
}

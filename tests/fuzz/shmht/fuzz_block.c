/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block from an untrusted server: walked, and merged into tables of each policy. A refused merge
 * must not change the table; after an accepted one, a Get must find every pair of the block.
 */
#include "fuzz.h"

#include <shmht.h>
#include <string.h>

#define REGION_BYTES 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char *region;
    struct shmht_writer_opts opts = {
        .size = sizeof(opts), .max_bytes = REGION_BYTES, .seed = 7, .expected_entries = 4};
    struct shmht_bytes key, value, found;
    struct shmht_iter it = {0};
    struct shmht_merged merged;
    struct shmht_stats stats;
    struct shmht_writer *w;
    uint64_t n = 0;
    int walked, rc;

    if (!region && posix_memalign((void **)&region, 64, REGION_BYTES) != 0)
        return 0;
    while ((walked = shmht_block_next(data, size, &it, &key, &value)) == 1) {
        MUST((const uint8_t *)key.ptr >= data && (const uint8_t *)key.ptr + key.len <= data + size);
        MUST((const uint8_t *)value.ptr >= data &&
             (const uint8_t *)value.ptr + value.len <= data + size);
        n++;
    }
    opts.duplicates = size > 40 ? data[40] % 3 : 0;
    opts.region = region;
    MUST(shmht_writer_create(&opts, &w, NULL) == 0);
    MUST(shmht_put(w, "first", 5, "1", 1) == SHMHT_PUT_NEW);
    rc = shmht_writer_merge(w, data, size, &merged);
    MUST(shmht_reader_stats(shmht_writer_view(w), &stats) == 0);
    MUST(shmht_get(shmht_writer_view(w), "first", 5, &found) == 0);
    if (rc == 0) {
        MUST(walked == 0 && merged.n_new + merged.n_replaced + merged.n_kept == n &&
             stats.entries == merged.n_new + 1);
        for (it.pos = 0; shmht_block_next(data, size, &it, &key, &value) == 1;)
            MUST(shmht_get(shmht_writer_view(w), key.ptr, key.len, &found) == 0);
    } else {
        MUST(stats.entries == 1 && found.len == 1);
    }
    shmht_writer_destroy(w);
    return 0;
}

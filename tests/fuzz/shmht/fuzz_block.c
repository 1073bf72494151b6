/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block from an untrusted server, merged into tables of each policy. A refused merge must not
 * change the table; after an accepted one, a Get must find every pair, and the same block again has
 * no new key.
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
    uint32_t n_pairs;
    int rc;

    if (!region && posix_memalign((void **)&region, 64, REGION_BYTES) != 0)
        return 0;
    opts.duplicates = size > 40 ? data[40] % 3 : 0;
    opts.region = region;
    MUST(shmht_writer_create(&opts, &w, NULL) == 0);
    MUST(shmht_put(w, "first", 5, "1", 1) == SHMHT_PUT_NEW);
    rc = shmht_writer_merge(w, data, size, &merged);
    MUST(shmht_reader_stats(shmht_writer_view(w), &stats) == 0);
    MUST(shmht_get(shmht_writer_view(w), "first", 5, &found) == 0);
    if (rc == 0) {
        memcpy(&n_pairs, data + 16, sizeof(n_pairs));
        MUST(merged.n_new + merged.n_replaced + merged.n_kept == n_pairs &&
             stats.entries == merged.n_new + 1);
        while (shmht_reader_next(shmht_writer_view(w), &it, &key, &value) == 1)
            MUST(shmht_get(shmht_writer_view(w), key.ptr, key.len, &found) == 0 &&
                 found.ptr == value.ptr && found.len == value.len);
        rc = shmht_writer_merge(w, data, size, &merged);
        MUST(rc == SHMHT_EFULL || (rc == 0 && merged.n_new == 0));
    } else {
        MUST(stats.entries == 1 && found.len == 1);
    }
    shmht_writer_destroy(w);
    return 0;
}

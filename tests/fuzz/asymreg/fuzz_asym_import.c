/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap blobs. The first byte chooses raw bytes, or changes (two bytes of offset, one of value)
 * to a valid blob of this process with a corrected checksum, so that the code behind it is reached.
 * The blob always names this process.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <asymreg.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHECKSUM_AT = 16 };

static uint64_t checksum(const unsigned char *p, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        h = (h ^ (i >= CHECKSUM_AT && i < CHECKSUM_AT + 8 ? 0 : p[i])) * UINT64_C(0x100000001b3);
    return h;
}

static void try_blob(struct asymreg_context *c, struct asymreg_worker *w, const unsigned char *blob,
                     size_t n)
{
    struct asymreg_region r;
    char buf[16];

    if (asymreg_import(c, 3, blob, n, NULL) < 0)
        return;
    asymreg_refresh(c, 3);
    asymreg_resolve(w, 3, (uintptr_t)buf, ASYMREG_ANY, 1, 0, &r, NULL);
    asymreg_get(w, 3, (uintptr_t)buf, 0, buf, 8);
    asymreg_put(w, 3, 4096, 0, buf, 16);
    asymreg_flush(w, 3);
    if (asymreg_forget(c, 3) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct asymreg_context *c;
    static struct asymreg_worker *w;
    static unsigned char good[ASYMREG_MAX_BLOB_BYTES];
    static size_t n_good, pid_at;
    static char memory[64];
    unsigned char blob[ASYMREG_MAX_BLOB_BYTES];
    uint64_t pid = (uint64_t)getpid(), sum;

    if (!c) {
        struct asymreg_opts o = {
            .size = sizeof(o), .max_regions = 256, .ring = 16, .flags = ASYMREG_DRAIN};
        ssize_t n;
        if (asymreg_open(&o, &c, NULL) < 0 || asymreg_worker_create(c, &w) < 0 ||
            asymreg_register(c, memory, sizeof(memory), ASYMREG_RW, NULL, NULL, NULL) < 0 ||
            (n = asymreg_export(c, good, sizeof(good), NULL)) < 0)
            abort();
        n_good = (size_t)n;
        pid_at = n_good - 24; /* the last words of the transport's address: process, canary */
        if (memcmp(good + pid_at, &pid, 8) != 0)
            abort();
        try_blob(c, w, good, n_good);
    }
    if (size == 0)
        return 0;
    if (!(data[0] & 1)) {
        try_blob(c, w, data + 1, size - 1);
        return 0;
    }
    memcpy(blob, good, n_good);
    for (size_t i = 1; i + 3 <= size; i += 3)
        blob[(data[i] | data[i + 1] << 8) % n_good] = data[i + 2];
    memcpy(blob + pid_at, &pid, 8);
    sum = checksum(blob, n_good);
    memcpy(blob + CHECKSUM_AT, &sum, 8);
    try_blob(c, w, blob, n_good);
    return 0;
}

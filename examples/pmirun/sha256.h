/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHA-256 (FIPS 180-4) and HMAC (RFC 2104), since libc has neither. Nothing here allocates; MT-Safe
 * on distinct objects.
 */
#ifndef PMIRUN_SHA256_H
#define PMIRUN_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32u

struct sha256 {
    uint32_t h[8];
    uint64_t n; /* bytes so far */
    uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

/* A key, with the part of the work that is the same for each message done. */
struct hmac {
    struct sha256 inner, outer;
};

void hmac_init(struct hmac *k, const void *key, size_t n);
/* hmac_begin(), sha256_add() as often as needed, hmac_end(). */
void hmac_begin(const struct hmac *k, struct sha256 *s);
void hmac_end(const struct hmac *k, struct sha256 *s, uint8_t out[SHA256_BYTES]);

/* Compared in a time that does not depend on where they differ. */
bool bytes_equal(const uint8_t *a, const uint8_t *b, size_t n);

#endif

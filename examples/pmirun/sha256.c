/* SPDX-License-Identifier: BSD-3-Clause */
#include "sha256.h"

#include <string.h>

static const uint32_t k256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* One round of FIPS 180-4, 6.2.2, in which the names of the eight variables move on instead of
 * their values. */
static inline void step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                        uint32_t g, uint32_t *h, uint32_t kw)
{
    uint32_t t1 = *h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) + kw;

    *d += t1;
    *h = t1 + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));
}

static void compress(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++)
        w[i] = w[i - 16] + (rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
               (rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, h, sizeof(s));
    for (int i = 0; i < 64; i += 8) {
        const uint32_t *k = k256 + i, *v = w + i;

        step(s[0], s[1], s[2], &s[3], s[4], s[5], s[6], &s[7], k[0] + v[0]);
        step(s[7], s[0], s[1], &s[2], s[3], s[4], s[5], &s[6], k[1] + v[1]);
        step(s[6], s[7], s[0], &s[1], s[2], s[3], s[4], &s[5], k[2] + v[2]);
        step(s[5], s[6], s[7], &s[0], s[1], s[2], s[3], &s[4], k[3] + v[3]);
        step(s[4], s[5], s[6], &s[7], s[0], s[1], s[2], &s[3], k[4] + v[4]);
        step(s[3], s[4], s[5], &s[6], s[7], s[0], s[1], &s[2], k[5] + v[5]);
        step(s[2], s[3], s[4], &s[5], s[6], s[7], s[0], &s[1], k[6] + v[6]);
        step(s[1], s[2], s[3], &s[4], s[5], s[6], s[7], &s[0], k[7] + v[7]);
    }
    for (int i = 0; i < 8; i++)
        h[i] += s[i];
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(s->h, start, sizeof(start));
    s->n = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t have = s->n % 64;

    if (n == 0)
        return;
    s->n += n;
    if (have) {
        size_t some = n < 64 - have ? n : 64 - have;

        memcpy(s->block + have, p, some);
        p += some;
        n -= some;
        if (have + some < 64)
            return;
        compress(s->h, s->block);
    }
    for (; n >= 64; p += 64, n -= 64)
        compress(s->h, p);
    if (n)
        memcpy(s->block, p, n);
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    static const uint8_t pad[64] = {0x80};
    uint64_t bits = s->n * 8;
    uint8_t length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, pad, 1 + (119 - s->n % 64) % 64);
    sha256_add(s, length, 8);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void hmac_init(struct hmac *k, const void *key, size_t n)
{
    uint8_t block[64] = {0}, pad[64];

    if (n > sizeof(block)) {
        sha256_init(&k->inner);
        sha256_add(&k->inner, key, n);
        sha256_end(&k->inner, block);
    } else {
        memcpy(block, key, n);
    }
    for (int i = 0; i < 64; i++)
        pad[i] = block[i] ^ 0x36;
    sha256_init(&k->inner);
    sha256_add(&k->inner, pad, sizeof(pad));
    for (int i = 0; i < 64; i++)
        pad[i] = block[i] ^ 0x5c;
    sha256_init(&k->outer);
    sha256_add(&k->outer, pad, sizeof(pad));
}

void hmac_begin(const struct hmac *k, struct sha256 *s)
{
    *s = k->inner;
}

void hmac_end(const struct hmac *k, struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    uint8_t digest[SHA256_BYTES];

    sha256_end(s, digest);
    *s = k->outer;
    sha256_add(s, digest, sizeof(digest));
    sha256_end(s, out);
}

bool bytes_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
    volatile uint8_t differ = 0;

    for (size_t i = 0; i < n; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

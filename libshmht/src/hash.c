/* SPDX-License-Identifier: BSD-3-Clause */
#include "hash.h"

#define P32_1 UINT64_C(0x9E3779B1)
#define P32_2 UINT64_C(0x85EBCA77)
#define P32_3 UINT64_C(0xC2B2AE3D)
#define P64_1 UINT64_C(0x9E3779B185EBCA87)
#define P64_2 SHMHT__XXH_P64_2
#define P64_3 SHMHT__XXH_P64_3
#define P64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define P64_5 UINT64_C(0x27D4EB2F165667C5)

#define SECRET_BYTES 192
#define STRIPE_BYTES 64
/* stripes until the accumulators are scrambled */
#define BLOCK_STRIPES ((SECRET_BYTES - STRIPE_BYTES) / 8)

/* XXH3's default secret. */
static const unsigned char secret0[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static uint64_t xxh_avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * SHMHT__XXH_MX1;
    return h ^ h >> 32;
}

static uint64_t xxh_mix16(const unsigned char *p, const unsigned char *secret, uint64_t seed)
{
    return shmht__mul_fold(shmht__le64(p) ^ (shmht__le64(secret) + seed),
                           shmht__le64(p + 8) ^ (shmht__le64(secret + 8) - seed));
}

/* 17 to 128 bytes: 16 from either end, then the next 16, towards the middle. */
static uint64_t hash_128(const unsigned char *p, size_t len, uint64_t seed)
{
    uint64_t acc = len * P64_1;

    for (size_t i = 0; i <= (len - 1) / 32; i++) {
        acc += xxh_mix16(p + 16 * i, secret0 + 32 * i, seed);
        acc += xxh_mix16(p + len - 16 * (i + 1), secret0 + 32 * i + 16, seed);
    }
    return xxh_avalanche(acc);
}

/* 129 to 240 bytes. */
static uint64_t hash_240(const unsigned char *p, size_t len, uint64_t seed)
{
    uint64_t acc = len * P64_1;
    size_t n = len / 16;

    for (size_t i = 0; i < 8; i++)
        acc += xxh_mix16(p + 16 * i, secret0 + 16 * i, seed);
    acc = xxh_avalanche(acc);
    for (size_t i = 8; i < n; i++)
        acc += xxh_mix16(p + 16 * i, secret0 + 16 * (i - 8) + 3, seed);
    return xxh_avalanche(acc + xxh_mix16(p + len - 16, secret0 + 136 - 17, seed));
}

static void add_stripe(uint64_t *acc, const unsigned char *p, const unsigned char *secret)
{
    for (int i = 0; i < 8; i++) {
        uint64_t v = shmht__le64(p + 8 * i), k = v ^ shmht__le64(secret + 8 * i);

        acc[i ^ 1] += v;
        acc[i] += (k & 0xffffffffu) * (k >> 32);
    }
}

static uint64_t hash_stripes(const unsigned char *p, size_t len, const unsigned char *secret)
{
    uint64_t acc[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    size_t n_stripes = (len - 1) / STRIPE_BYTES;
    uint64_t h = len * P64_1;

    for (size_t s = 0; s < n_stripes; s++) {
        add_stripe(acc, p + s * STRIPE_BYTES, secret + 8 * (s % BLOCK_STRIPES));
        if (s % BLOCK_STRIPES == BLOCK_STRIPES - 1)
            for (int i = 0; i < 8; i++)
                acc[i] = (acc[i] ^ acc[i] >> 47 ^
                          shmht__le64(secret + SECRET_BYTES - STRIPE_BYTES + 8 * i)) *
                         P32_1;
    }
    add_stripe(acc, p + len - STRIPE_BYTES, secret + SECRET_BYTES - STRIPE_BYTES - 7);
    for (int i = 0; i < 4; i++)
        h += shmht__mul_fold(acc[2 * i] ^ shmht__le64(secret + 11 + 16 * i),
                             acc[2 * i + 1] ^ shmht__le64(secret + 19 + 16 * i));
    return xxh_avalanche(h);
}

static void put_le64(unsigned char *p, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(x >> 8 * i);
}

uint64_t shmht__xxh3_long(const unsigned char *p, size_t len, uint64_t seed)
{
    unsigned char secret[SECRET_BYTES];
    uint64_t h;

    if (len == 0) {
        h = seed ^ shmht__le64(secret0 + 56) ^ shmht__le64(secret0 + 64);
        h = (h ^ h >> 33) * P64_2;
        h = (h ^ h >> 29) * P64_3;
        return h ^ h >> 32;
    }
    if (len <= 128)
        return hash_128(p, len, seed);
    if (len <= 240)
        return hash_240(p, len, seed);
    for (int i = 0; i < SECRET_BYTES; i += 16) {
        put_le64(secret + i, shmht__le64(secret0 + i) + seed);
        put_le64(secret + i + 8, shmht__le64(secret0 + i + 8) - seed);
    }
    return hash_stripes(p, len, secret);
}

uint64_t shmht__fnv1a(const unsigned char *p, size_t len, uint64_t seed)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

int shmht__hash(uint32_t hash_id, const void *key, size_t len, uint64_t seed, uint64_t *hash)
{
    switch (hash_id) {
    case SHMHT_HASH_XXH3: *hash = shmht__xxh3(key, len, seed); return 0;
    case SHMHT_HASH_FNV1A: *hash = shmht__fnv1a(key, len, seed); return 0;
    default: return SHMHT_EHASH;
    }
}

/* Computes the value on which two processes' hashes must agree. It hashes two lengths, so that a
 * function that is right for one length alone does not pass. */
int shmht__hash_check(uint32_t hash_id, shmht_hash_fn *hash, uint64_t seed, uint64_t *check)
{
    static const char text[] = "libshmht layout 1";
    uint64_t a, b;
    int rc = 0;

    if (hash) {
        a = hash(text, sizeof(text) - 1, seed);
        b = hash(text, 8, seed);
    } else {
        rc = shmht__hash(hash_id, text, sizeof(text) - 1, seed, &a);
        if (rc == 0)
            rc = shmht__hash(hash_id, text, 8, seed, &b);
    }
    if (rc < 0)
        return rc;
    *check = a ^ (b << 1 | b >> 63);
    return 0;
}

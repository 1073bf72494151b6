/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hashes by id. XXH3 (64 bits, seeded) follows the specification that comes with xxHash 0.8; up
 * to 16 bytes it is inline, as most keys are that short. A hash id on a wire must mean the same
 * function everywhere, so this code depends on no package.
 */
#ifndef SHMHT_SRC_HASH_H
#define SHMHT_SRC_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <shmht.h>

#define SHMHT__XXH_P64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define SHMHT__XXH_P64_3 UINT64_C(0x165667B19E3779F9)
#define SHMHT__XXH_MX1   UINT64_C(0x165667919E3779F9)
#define SHMHT__XXH_MX2   UINT64_C(0x9FB21C651E98DF25)

/* Words of XXH3's default secret that short inputs use, XORed in pairs. */
#define SHMHT__XXH_FLIP_3   UINT64_C(0x0000000087275a9b) /* bytes 0 and 4 */
#define SHMHT__XXH_FLIP_8   UINT64_C(0xc73ab174c5ecd5a2) /* bytes 8 and 16 */
#define SHMHT__XXH_FLIP_16A UINT64_C(0x6782737bea4239b9) /* bytes 24 and 32 */
#define SHMHT__XXH_FLIP_16B UINT64_C(0xaf56bc3b0996523a) /* bytes 40 and 48 */

/* len of 17 and more, or 0 */
uint64_t shmht__xxh3_long(const unsigned char *p, size_t len, uint64_t seed);
uint64_t shmht__fnv1a(const unsigned char *p, size_t len, uint64_t seed);
/* SHMHT_HASH_XXH3 or SHMHT_HASH_FNV1A; SHMHT_EHASH for any other id, also a caller's. */
int shmht__hash(uint32_t hash_id, const void *key, size_t len, uint64_t seed, uint64_t *hash);
/* The value on which two processes must agree; hash is the caller's own, or NULL. */
int shmht__hash_check(uint32_t hash_id, shmht_hash_fn *hash, uint64_t seed, uint64_t *check);

static inline uint32_t shmht__le32(const unsigned char *p)
{
    uint32_t x;

    memcpy(&x, p, sizeof(x));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap32(x);
#endif
    return x;
}

static inline uint64_t shmht__le64(const unsigned char *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof(x));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* Both halves of the 128-bit product, XORed. */
static inline uint64_t shmht__mul_fold(uint64_t a, uint64_t b)
{
#if defined(__GNUC__) && defined(__x86_64__)
    uint64_t low, high;

    /* The product as below, without the two registers that gcc would save and restore for it. */
    __asm__("mulq %3" : "=a"(low), "=d"(high) : "%0"(a), "rm"(b) : "cc");
    return low ^ high;
#elif defined(__SIZEOF_INT128__)
    __extension__ unsigned __int128 p = (unsigned __int128)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
#else
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t ll = al * bl, hl = ah * bl, lh = al * bh, hh = ah * bh;
    uint64_t mid = (ll >> 32) + (uint32_t)hl + lh;

    return ((mid << 32) | (uint32_t)ll) ^ (hh + (hl >> 32) + (mid >> 32));
#endif
}

static inline uint64_t shmht__rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

/* XXH3 of 9 to 16 bytes, without the last step. lo is SHMHT__XXH_FLIP_16A + seed, hi is
 * SHMHT__XXH_FLIP_16B - seed. */
static inline uint64_t shmht__xxh3_16(const unsigned char *p, size_t len, uint64_t lo, uint64_t hi)
{
    uint64_t h;

    lo ^= shmht__le64(p);
    hi ^= shmht__le64(p + len - 8);
    h = len + __builtin_bswap64(lo) + hi + shmht__mul_fold(lo, hi);
    return (h ^ h >> 37) * SHMHT__XXH_MX1;
}

static inline uint64_t shmht__xxh3(const void *key, size_t len, uint64_t seed)
{
    const unsigned char *p = key;
    uint64_t h;

    if (len - 9 < 8) {
        h = shmht__xxh3_16(p, len, SHMHT__XXH_FLIP_16A + seed, SHMHT__XXH_FLIP_16B - seed);
        return h ^ h >> 32;
    }
    if (len > 16 || len == 0)
        return shmht__xxh3_long(p, len, seed);
    if (len >= 4) {
        seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
        h = shmht__le32(p + len - 4) + ((uint64_t)shmht__le32(p) << 32);
        h ^= SHMHT__XXH_FLIP_8 - seed;
        h ^= shmht__rotl(h, 49) ^ shmht__rotl(h, 24);
        h *= SHMHT__XXH_MX2;
        h = (h ^ ((h >> 35) + len)) * SHMHT__XXH_MX2;
        return h ^ h >> 28;
    }
    h = (uint64_t)p[0] << 16 | (uint64_t)p[len >> 1] << 24 | p[len - 1] | (uint64_t)len << 8;
    h ^= SHMHT__XXH_FLIP_3 + seed;
    h = (h ^ h >> 33) * SHMHT__XXH_P64_2;
    h = (h ^ h >> 29) * SHMHT__XXH_P64_3;
    return h ^ h >> 32;
}

#endif

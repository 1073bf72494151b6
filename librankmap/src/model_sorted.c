/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ascending ids as bits. A bitmap has a bit for each id of the range; the id of rank r is the
 * position of the r-th set bit. Elias-Fano stores the low `bits` bits of each id directly, and the
 * high part h of rank r as a set bit at position h + r: 2 bits a rank for the high parts. Both
 * select in a bit vector, with a directory that counts the set bits before each stretch of 1,024.
 *
 * Source: P. Elias 1974, R. Fano 1971; the directory is plain rank/select.
 */
#include "internal.h"

#define STRETCH_WORDS 16u

/* Bit vector and directory of a map; low parts of Elias-Fano after them. */
struct bits {
    const uint64_t *word;
    const uint32_t *before; /* set bits before each stretch, and last their total */
    const unsigned char *low;
    size_t n_words, n_stretches;
};

static uint64_t stretches_of(uint64_t n_words)
{
    return (n_words + STRETCH_WORDS - 1) / STRETCH_WORDS;
}

static uint64_t vector_bytes(uint64_t n_words)
{
    return 8 * n_words + (4 * (stretches_of(n_words) + 1) + 7) / 8 * 8;
}

unsigned rankmap__ef_low_bits(uint64_t n, uint64_t range)
{
    return range / n == 0 ? 0 : rankmap__bit_length(range / n) - 1;
}

uint64_t rankmap__bitmap_words(uint64_t range)
{
    return range / 64 + 1;
}

uint64_t rankmap__ef_words(uint64_t n, uint64_t range)
{
    return rankmap__bitmap_words(n + (range >> rankmap__ef_low_bits(n, range)));
}

uint64_t rankmap__bitmap_bytes(uint64_t range)
{
    return 16 + vector_bytes(rankmap__bitmap_words(range));
}

uint64_t rankmap__ef_bytes(uint64_t n, uint64_t range)
{
    return 16 + vector_bytes(rankmap__ef_words(n, range)) +
           (n * rankmap__ef_low_bits(n, range) + 7) / 8 + 8;
}

static struct bits bits_of(const struct rankmap *map)
{
    struct bits b = {.word = map->word + 2};

    b.n_words = rankmap__sorted_words(map);
    b.n_stretches = stretches_of(b.n_words);
    b.before = (const uint32_t *)(b.word + b.n_words);
    b.low = (const unsigned char *)b.word + vector_bytes(b.n_words);
    return b;
}

size_t rankmap__sorted_words(const struct rankmap *map)
{
    return map->kind == RANKMAP_BITMAP ? rankmap__bitmap_words(map->word[1])
                                       : rankmap__ef_words(map->n, map->word[1]);
}

const unsigned char *rankmap__ef_low(const struct rankmap *map)
{
    return bits_of(map).low;
}

void rankmap__sorted_fill(struct rankmap *map, const struct ids *ids)
{
    struct bits b = bits_of(map);
    uint64_t *word = map->word + 2, min = map->word[0];
    uint32_t *before = (uint32_t *)(word + b.n_words), count = 0;
    bool ef = map->kind == RANKMAP_ELIAS_FANO;
    unsigned char *low = (unsigned char *)word + vector_bytes(b.n_words);

    for (size_t i = 0; i < ids->n; i++) {
        uint64_t id = ids_get(ids, i) - min, at = ef ? (id >> map->bits) + i : id;

        word[at / 64] |= UINT64_C(1) << at % 64;
        if (ef)
            rankmap__bits_set(low, i, map->bits, id & ((UINT64_C(1) << map->bits) - 1));
    }
    for (size_t i = 0; i < b.n_words; i++) {
        if (i % STRETCH_WORDS == 0)
            before[i / STRETCH_WORDS] = count;
        count += (uint32_t)__builtin_popcountll(word[i]);
    }
    before[b.n_stretches] = count;
}

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* Returns the position of the k-th set bit of a word with more than k set bits. */
INLINE unsigned select_in_word(uint64_t word, unsigned k)
{
    unsigned at = 0;

    for (unsigned half = 32; half > 0; half /= 2) {
        unsigned n = (unsigned)__builtin_popcountll(word & ((UINT64_C(1) << half) - 1));

        if (k >= n) {
            k -= n;
            word >>= half;
            at += half;
        }
    }
    return at;
}

/* Returns the position of a rank's bit; compiled with and without an instruction that counts
 * bits. */
INLINE uint64_t select_by_counts(const struct bits *b, uint32_t rank)
{
    size_t lo = 0, n = b->n_stretches, i;

    while (n > 1) {
        size_t half = n / 2;

        lo = b->before[lo + half] <= rank ? lo + half : lo;
        n -= half;
    }
    rank -= b->before[lo];
    for (i = lo * STRETCH_WORDS;; i++) {
        uint32_t here = (uint32_t)__builtin_popcountll(b->word[i]);

        if (rank < here)
            return (uint64_t)i * 64 + select_in_word(b->word[i], rank);
        rank -= here;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("popcnt"))) static uint64_t select_with_popcnt(const struct bits *b,
                                                                     uint32_t rank)
{
    return select_by_counts(b, rank);
}
#endif

static uint64_t select_bit(const struct bits *b, uint32_t rank)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("popcnt"))
        return select_with_popcnt(b, rank);
#endif
    return select_by_counts(b, rank);
}

static uint64_t id_at(const struct rankmap *map, const struct bits *b, uint32_t rank, uint64_t bit)
{
    if (map->kind == RANKMAP_BITMAP)
        return map->word[0] + bit;
    return map->word[0] +
           ((bit - rank) << map->bits |
            rankmap__bits_get(b->low, rank, map->bits, (UINT64_C(1) << map->bits) - 1));
}

uint64_t rankmap__sorted_id(const struct rankmap *map, uint32_t rank)
{
    struct bits b = bits_of(map);

    return id_at(map, &b, rank, select_bit(&b, rank));
}

void rankmap__sorted_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
{
    struct bits b = bits_of(map);
    uint64_t bit, word;
    size_t i;

    if (n == 0)
        return;
    bit = select_bit(&b, first);
    i = bit / 64;
    word = b.word[i] & ~UINT64_C(0) << bit % 64;
    for (uint32_t k = 0; k < n; k++) {
        while (word == 0)
            word = b.word[++i];
        out[k] = id_at(map, &b, first + k, (uint64_t)i * 64 + (unsigned)__builtin_ctzll(word));
        word &= word - 1;
    }
}

/* Returns the rank of an id between the least and the greatest. */
int64_t rankmap__sorted_rank(const struct rankmap *map, uint64_t id)
{
    struct bits b = bits_of(map);
    uint32_t lo = 0, n = map->n;

    if (map->kind == RANKMAP_BITMAP) {
        uint64_t bit = id - map->word[0], rank;
        size_t word = bit / 64;

        if (!(b.word[word] >> bit % 64 & 1))
            return RANKMAP_ENOENT;
        rank = b.before[word / STRETCH_WORDS];
        for (size_t i = word / STRETCH_WORDS * STRETCH_WORDS; i < word; i++)
            rank += (unsigned)__builtin_popcountll(b.word[i]);
        return (int64_t)(rank + (unsigned)__builtin_popcountll(b.word[word] &
                                                               ((UINT64_C(1) << bit % 64) - 1)));
    }
    while (n > 1) {
        uint32_t half = n / 2;

        lo = id_at(map, &b, lo + half, select_bit(&b, lo + half)) <= id ? lo + half : lo;
        n -= half;
    }
    return id_at(map, &b, lo, select_bit(&b, lo)) == id ? (int64_t)lo : RANKMAP_ENOENT;
}

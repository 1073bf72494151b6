/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables: bit-packed, 32-bit, and frames (bases and differences from them, both packed); the choice
 * among all tables. */
#include <errno.h>

#include "internal.h"

#define PAD             8u /* bytes after a packed table: lookups read eight bytes at a time */
#define MIN_FRAME_SHIFT 3u
#define MAX_FRAME_SHIFT 10u

unsigned rankmap__bit_length(uint64_t value)
{
    return value == 0 ? 0 : 64 - (unsigned)__builtin_clzll(value);
}

static uint64_t low_mask(unsigned bits)
{
    return (UINT64_C(1) << bits) - 1;
}

static uint64_t packed_size(uint64_t n, unsigned bits)
{
    return (n * bits + 7) / 8 + PAD;
}

uint64_t rankmap__packed_bytes(uint64_t n, unsigned bits)
{
    return 16 + packed_size(n, bits);
}

/* ORs a value into a packed table whose bits there are 0. */
void rankmap__bits_set(void *table, uint64_t index, unsigned bits, uint64_t value)
{
    uint64_t at = index * bits, word;
    unsigned char *byte = (unsigned char *)table + (at >> 3);

    value <<= at & 7;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(&word, byte, sizeof(word));
    word |= value;
    memcpy(byte, &word, sizeof(word));
}

/* Parts of a map of frames. */
struct frames {
    const unsigned char *base, *low;
    unsigned shift, base_bits;
};

static size_t frames_base_size(uint64_t n, unsigned shift, unsigned base_bits)
{
    return packed_size((n + (UINT64_C(1) << shift) - 1) >> shift, base_bits);
}

static struct frames frames_of(const struct rankmap *map)
{
    struct frames f = {.base = (const unsigned char *)(map->word + 2),
                       .shift = map->aux & 0xff,
                       .base_bits = map->aux >> 8};

    f.low = f.base + frames_base_size(map->n, f.shift, f.base_bits);
    return f;
}

static inline uint64_t frames_get(const struct frames *f, uint64_t rank, unsigned bits)
{
    return rankmap__bits_get(f->base, rank >> f->shift, f->base_bits, low_mask(f->base_bits)) +
           rankmap__bits_get(f->low, rank, bits, low_mask(bits));
}

size_t rankmap__table_bytes(const struct rankmap *map)
{
    switch (map->kind) {
    case RANKMAP_PACKED: return rankmap__packed_bytes(map->n, map->bits);
    case RANKMAP_LUT32: return 16 + (size_t)map->n * 4;
    case RANKMAP_FRAMES:
        return 16 + frames_base_size(map->n, map->aux & 0xff, map->aux >> 8) +
               packed_size(map->n, map->bits);
    case RANKMAP_BITMAP: return rankmap__bitmap_bytes(map->word[1]);
    default: return rankmap__ef_bytes(map->n, map->word[1]);
    }
}

uint64_t rankmap__table_id(const struct rankmap *map, uint32_t rank)
{
    struct frames f;

    switch (map->kind) {
    case RANKMAP_PACKED:
        return map->word[0] +
               rankmap__bits_get(map->word + 2, rank, map->bits, low_mask(map->bits));
    case RANKMAP_LUT32: return map->word[0] + ((const uint32_t *)(map->word + 2))[rank];
    case RANKMAP_FRAMES: f = frames_of(map); return map->word[0] + frames_get(&f, rank, map->bits);
    default: return rankmap__sorted_id(map, rank);
    }
}

void rankmap__table_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out)
{
    uint64_t min = map->word[0], mask = low_mask(map->bits), bits = map->bits;
    struct frames f;

    switch (map->kind) {
    case RANKMAP_PACKED:
        for (uint32_t i = 0; i < n; i++)
            out[i] = min + rankmap__bits_get(map->word + 2, (uint64_t)first + i, bits, mask);
        break;
    case RANKMAP_LUT32:
        for (uint32_t i = 0; i < n; i++)
            out[i] = min + ((const uint32_t *)(map->word + 2))[(size_t)first + i];
        break;
    case RANKMAP_FRAMES:
        f = frames_of(map);
        for (uint32_t i = 0; i < n; i++)
            out[i] = min + frames_get(&f, (uint64_t)first + i, map->bits);
        break;
    default: rankmap__sorted_expand(map, first, n, out);
    }
}

int64_t rankmap__table_rank(const struct rankmap *map, uint64_t id)
{
    struct walk w;

    if (id < map->word[0] || id - map->word[0] > map->word[1])
        return RANKMAP_ENOENT;
    if (map->kind == RANKMAP_BITMAP || map->kind == RANKMAP_ELIAS_FANO)
        return rankmap__sorted_rank(map, id);
    for (rankmap__walk_start(&w, map); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++)
            if (w.id[i] == id)
                return w.first + i;
    return RANKMAP_ENOENT;
}

/*
 * Finds the frame size with the smallest table: each frame of 2^shift ranks stores its least id,
 * each rank its difference from that. Makes one pass over frames of 8, and joins them in pairs as
 * they are completed.
 */
static size_t best_frames(const struct ids *ids, uint64_t range, unsigned *shift, unsigned *bits)
{
    enum { N = MAX_FRAME_SHIFT - MIN_FRAME_SHIFT + 1 };
    uint64_t min[N] = {0}, max[N] = {0}, span[N] = {0};
    size_t best = SIZE_MAX, unit = (size_t)1 << MIN_FRAME_SHIFT;

    for (size_t at = 0; at < ids->n; at += unit) {
        uint64_t lo = UINT64_MAX, hi = 0;
        bool end = ids->n - at <= unit;

        for (size_t i = at; i < ids->n && i < at + unit; i++) {
            uint64_t id = ids_get(ids, i);

            lo = min_u64(lo, id);
            hi = max_u64(hi, id);
        }
        for (unsigned k = 0; k < N; k++) {
            size_t frame = unit << k;

            if (at % frame == 0) {
                min[k] = lo;
                max[k] = hi;
            } else {
                min[k] = min_u64(min[k], lo);
                max[k] = max_u64(max[k], hi);
            }
            if ((at + unit) % frame == 0 || end)
                span[k] = max_u64(span[k], max[k] - min[k]);
        }
    }
    for (unsigned k = 0; k < N; k++) {
        unsigned w = rankmap__bit_length(span[k]);
        size_t bytes = 16 +
                       frames_base_size(ids->n, k + MIN_FRAME_SHIFT, rankmap__bit_length(range)) +
                       packed_size(ids->n, w);

        if (bytes < best) {
            best = bytes;
            *shift = k + MIN_FRAME_SHIFT;
            *bits = w;
        }
    }
    return best;
}

static void frames_fill(struct rankmap *map, const struct ids *ids)
{
    unsigned char *base = (unsigned char *)(map->word + 2);
    unsigned shift = map->aux & 0xff, base_bits = map->aux >> 8;
    unsigned char *low = base + frames_base_size(map->n, shift, base_bits);
    size_t frame = (size_t)1 << shift;

    for (size_t at = 0; at < ids->n; at += frame) {
        size_t end = min_u64(at + frame, ids->n);
        uint64_t least = UINT64_MAX;

        for (size_t i = at; i < end; i++)
            least = min_u64(least, ids_get(ids, i));
        rankmap__bits_set(base, at >> shift, base_bits, least - map->word[0]);
        for (size_t i = at; i < end; i++)
            rankmap__bits_set(low, i, map->bits, ids_get(ids, i) - least);
    }
}

/* Collects bits in a word and writes four bytes at a time; writes single values if they are wider
 * than that. */
static void packed_fill(struct rankmap *map, const struct ids *ids)
{
    unsigned char *out = (unsigned char *)(map->word + 2);
    unsigned used = 0, bits = map->bits, chunk = bits <= 32 ? 32 : 8;
    uint64_t word = 0;

    for (size_t i = 0; i < ids->n; i++) {
        word |= (ids_get(ids, i) - map->word[0]) << used;
        used += bits;
        while (used >= chunk) {
            for (unsigned k = 0; k < chunk; k += 8)
                *out++ = (unsigned char)(word >> k);
            word >>= chunk;
            used -= chunk;
        }
    }
    for (; used > 0; used = used > 8 ? used - 8 : 0) {
        *out++ = (unsigned char)word;
        word >>= 8;
    }
}

static void lut32_fill(struct rankmap *map, const struct ids *ids)
{
    uint32_t *out = (uint32_t *)(map->word + 2);

    for (size_t i = 0; i < ids->n; i++)
        out[i] = (uint32_t)(ids_get(ids, i) - map->word[0]);
}

/*
 * Makes the smallest table of irregular ids, or 32 bits a rank with RANKMAP_FAST; 0 with *out
 * untouched if it does not take less than bytes_to_beat. A table with slower lookups must be much
 * smaller: bitmap and Elias-Fano at most half of the packed table, frames three quarters.
 */
int rankmap__from_table(const struct make *mk, const struct ids *ids, uint64_t min, uint64_t range,
                        bool ascending, size_t bytes_to_beat, struct rankmap **out)
{
    unsigned bits = rankmap__bit_length(range), value_bits = bits, shift = 0;
    uint64_t packed = rankmap__packed_bytes(ids->n, bits), best = packed;
    uint32_t kind = RANKMAP_PACKED;
    struct rankmap *map;

    if (mk->flags & RANKMAP_FAST && range <= UINT32_MAX) {
        kind = RANKMAP_LUT32;
        value_bits = 32;
        best = 16 + ids->n * 4;
    } else {
        if (ascending) {
            uint64_t bitmap = rankmap__bitmap_bytes(range), ef = rankmap__ef_bytes(ids->n, range);

            if (bitmap <= packed / 2) {
                kind = RANKMAP_BITMAP;
                best = bitmap;
            }
            if (ef <= packed / 2 && ef < best) {
                kind = RANKMAP_ELIAS_FANO;
                value_bits = rankmap__ef_low_bits(ids->n, range);
                best = ef;
            }
        }
        if (ids->n >= 64) {
            unsigned frame_bits = 0;
            size_t frames = best_frames(ids, range, &shift, &frame_bits);

            if (frames <= packed / 4 * 3 && frames < best) {
                kind = RANKMAP_FRAMES;
                value_bits = frame_bits;
                best = frames;
            }
        }
    }
    if (best >= bytes_to_beat)
        return 0;
    map = rankmap__new(mk, kind, (uint32_t)ids->n, best);
    if (!map)
        return -ENOMEM;
    map->flags = mk->distinct ? MAP_DISTINCT : 0;
    map->bits = (uint8_t)value_bits;
    map->aux = kind == RANKMAP_FRAMES ? shift | bits << 8 : 0;
    map->word[0] = min;
    map->word[1] = range;
    switch (kind) {
    case RANKMAP_PACKED: packed_fill(map, ids); break;
    case RANKMAP_LUT32: lut32_fill(map, ids); break;
    case RANKMAP_FRAMES: frames_fill(map, ids); break;
    default: rankmap__sorted_fill(map, ids);
    }
    *out = map;
    return 0;
}

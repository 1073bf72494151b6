/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps as bytes: LAYOUT.md has the format. Reading trusts no byte: regular maps and runs pass the
 * checks of their constructors; tables are decoded into an array and detected again.
 */
#include <errno.h>

#include "internal.h"

#define MAGIC          UINT32_C(0x314d4b52)
#define LAYOUT_VERSION 1
#define HEADER_BYTES   24u
#define RUN_BYTES      20u
/* most ranks to expand when checking a map of few bytes */
#define CHECK_RANKS (UINT64_C(1) << 16)

enum { FORM_REGULAR = 1, FORM_RUNS, FORM_PACKED, FORM_BITMAP, FORM_ELIAS_FANO };

static void store_u32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static void store_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static uint32_t load_u32(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load_u64(const unsigned char *p)
{
    return load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

static uint32_t form_of(const struct rankmap *map)
{
    if (rankmap__is_regular(map))
        return FORM_REGULAR;
    switch (map->kind) {
    case RANKMAP_RUNS: return FORM_RUNS;
    case RANKMAP_BITMAP: return FORM_BITMAP;
    case RANKMAP_ELIAS_FANO: return FORM_ELIAS_FANO;
    default: return FORM_PACKED;
    }
}

/* Returns the bits of a packed value: at least 1, so that the bytes limit the ranks. */
static unsigned value_bits(uint64_t min, uint64_t max)
{
    return max == min ? 1 : rankmap__bit_length(max - min);
}

static uint64_t low_bytes(const struct rankmap *map)
{
    return map->kind == RANKMAP_ELIAS_FANO ? ((uint64_t)map->n * map->bits + 7) / 8 : 0;
}

static uint64_t packed_bytes(const struct rankmap *map)
{
    uint64_t min, max;

    switch (form_of(map)) {
    case FORM_REGULAR: return HEADER_BYTES + 16 + 16 * (uint64_t)map->n_levels;
    case FORM_RUNS: return HEADER_BYTES + RUN_BYTES * (uint64_t)map->aux;
    case FORM_PACKED:
        rankmap__exact_bounds(map, &min, &max);
        return HEADER_BYTES + 8 + ((uint64_t)map->n * value_bits(min, max) + 7) / 8;
    default: return HEADER_BYTES + 16 + 8 * (uint64_t)rankmap__sorted_words(map) + low_bytes(map);
    }
}

static void pack_shape(const struct rankmap *map, unsigned char *p)
{
    struct shape shape;

    rankmap__shape_of(map, &shape);
    store_u64(p, (uint64_t)shape.o);
    store_u64(p + 8, shape.phi);
    for (uint32_t i = 0; i < shape.n_levels; i++) {
        store_u64(p + 16 + 16 * i, (uint64_t)shape.level[i].stride);
        store_u64(p + 24 + 16 * i, i + 1 < shape.n_levels ? shape.level[i].count : 0);
    }
}

static void pack_runs(const struct rankmap *map, unsigned char *p)
{
    for (uint32_t i = 0; i < map->aux; i++, p += RUN_BYTES) {
        struct piece run = rankmap__run(map, i);

        store_u64(p, (uint64_t)run.first);
        store_u64(p + 8, (uint64_t)run.stride);
        store_u32(p + 16, (uint32_t)run.n);
    }
}

static void pack_sorted(const struct rankmap *map, unsigned char *p)
{
    size_t n = rankmap__sorted_words(map);

    store_u64(p, map->word[0]);
    store_u64(p + 8, map->word[1]);
    for (size_t i = 0; i < n; i++)
        store_u64(p + 16 + 8 * i, map->word[2 + i]);
    memcpy(p + 16 + 8 * n, rankmap__ef_low(map), low_bytes(map));
}

/* Returns the bits of a value. */
static unsigned pack_values(const struct rankmap *map, unsigned char *p)
{
    uint64_t min, max, word = 0;
    unsigned bits, used = 0;
    struct walk w;

    rankmap__exact_bounds(map, &min, &max);
    bits = value_bits(min, max);
    store_u64(p, min);
    p += 8;
    for (rankmap__walk_start(&w, map); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++) {
            word |= (w.id[i] - min) << used; /* 7 + 40 bits at most */
            for (used += bits; used >= 8; used -= 8, word >>= 8)
                *p++ = (unsigned char)word;
        }
    if (used > 0)
        *p = (unsigned char)word;
    return bits;
}

ssize_t rankmap_pack(const struct rankmap *map, void *buf, size_t cap)
{
    unsigned char *p = buf;
    uint32_t form;
    uint64_t bytes;

    if (!map || (!buf && cap > 0))
        return -EINVAL;
    bytes = packed_bytes(map);
    /* A view on a 32-bit machine may pack into more than any buffer there. */
    if (bytes > PTRDIFF_MAX || (buf && cap < bytes))
        return RANKMAP_ENOBUF;
    if (!buf)
        return (ssize_t)bytes;
    form = form_of(map);
    store_u32(p, MAGIC);
    p[4] = LAYOUT_VERSION;
    p[5] = (unsigned char)form;
    p[6] = 0;
    p[7] = 0;
    store_u32(p + 8, map->n);
    store_u32(p + 12, form == FORM_RUNS ? map->aux : 0);
    store_u64(p + 16, bytes - HEADER_BYTES);
    if (form == FORM_REGULAR) {
        p[6] = map->n_levels;
        pack_shape(map, p + HEADER_BYTES);
    } else if (form == FORM_RUNS) {
        pack_runs(map, p + HEADER_BYTES);
    } else if (form == FORM_PACKED) {
        p[6] = (unsigned char)pack_values(map, p + HEADER_BYTES);
    } else {
        pack_sorted(map, p + HEADER_BYTES);
    }
    return (ssize_t)bytes;
}

/* The packed map being read. */
struct packed {
    const unsigned char *body;
    size_t bytes;
    uint32_t n, k, param;
};

static int unpack_shape(const struct make *mk, const struct packed *in, struct rankmap **out)
{
    struct shape shape = {.n = in->n, .n_levels = in->param};
    uint64_t period = 1;

    if (in->param == 0 || in->bytes != 16 + 16 * (size_t)in->param)
        return RANKMAP_EFORMAT;
    if (in->param > RANKMAP_MAX_LEVELS)
        return RANKMAP_ELEVELS;
    shape.o = (int64_t)load_u64(in->body);
    shape.phi = load_u64(in->body + 8);
    for (uint32_t i = 0; i < in->param; i++) {
        shape.level[i].stride = (int64_t)load_u64(in->body + 16 + 16 * i);
        shape.level[i].count = load_u64(in->body + 24 + 16 * i);
        if ((shape.level[i].count == 0) != (i + 1 == in->param))
            return RANKMAP_EFORMAT;
        if (i + 1 < in->param && __builtin_mul_overflow(period, shape.level[i].count, &period))
            period = UINT64_MAX;
    }
    if (shape.phi >= period || shape.phi > (uint64_t)INT64_MAX - in->n)
        return RANKMAP_ERANGE;
    return rankmap__from_shape(mk, &shape, out);
}

static int unpack_runs(const struct make *mk, const struct packed *in, struct rankmap **out)
{
    const unsigned char *p = in->body;
    struct piece *pieces;
    uint64_t n = 0;
    int rc = 0;

    if (in->k == 0 || in->bytes != RUN_BYTES * (uint64_t)in->k)
        return RANKMAP_EFORMAT;
    pieces = rankmap__alloc(mk->alloc, in->k, sizeof(*pieces));
    if (!pieces)
        return -ENOMEM;
    for (uint32_t i = 0; i < in->k; i++, p += RUN_BYTES) {
        pieces[i] =
            (struct piece){(int64_t)load_u64(p), (int64_t)load_u64(p + 8), load_u32(p + 16)};
        n += pieces[i].n;
        if (pieces[i].n == 0)
            rc = RANKMAP_EFORMAT;
    }
    if (n != in->n)
        rc = RANKMAP_EFORMAT;
    if (rc == 0)
        rc = rankmap__from_pieces(mk, pieces, in->k, out);
    rankmap__free(mk->alloc, pieces);
    return rc;
}

/* Reads a value of a packed table without padding. */
static uint64_t value_at(const unsigned char *table, size_t bytes, uint64_t index, unsigned bits)
{
    uint64_t at = index * bits, word = 0;
    size_t byte = (size_t)(at / 8);

    for (unsigned i = 0; i < 8 && byte + i < bytes; i++)
        word |= (uint64_t)table[byte + i] << 8 * i;
    return word >> at % 8 & ((UINT64_C(1) << bits) - 1);
}

static int decode_packed(const struct packed *in, uint64_t *ids)
{
    uint64_t min = load_u64(in->body);

    for (uint64_t i = 0; i < in->n; i++)
        ids[i] = min + value_at(in->body + 8, in->bytes - 8, i, in->param);
    return 0;
}

/* Decodes the set bits of a bit vector in order; position less rank is the high part of
 * Elias-Fano. */
static int decode_sorted(const struct packed *in, size_t n_words, unsigned low_bits, bool ef,
                         uint64_t *ids)
{
    const unsigned char *words = in->body + 16, *low = words + 8 * n_words;
    uint64_t min = load_u64(in->body), range = load_u64(in->body + 8), n = 0, previous = 0;

    for (size_t i = 0; i < n_words; i++)
        for (uint64_t word = load_u64(words + 8 * i); word != 0; word &= word - 1, n++) {
            uint64_t id = (uint64_t)i * 64 + (unsigned)__builtin_ctzll(word);

            if (n == in->n)
                return RANKMAP_EFORMAT;
            if (ef)
                id = (id - n) << low_bits |
                     value_at(low, (in->n * (uint64_t)low_bits + 7) / 8, n, low_bits);
            if (id > range || (n > 0 && id <= previous))
                return RANKMAP_EFORMAT;
            previous = id;
            ids[n] = min + id;
        }
    return n == in->n ? 0 : RANKMAP_EFORMAT;
}

static int unpack_table(const struct make *mk, const struct packed *in, uint32_t form,
                        struct rankmap **out)
{
    uint64_t min, range = 0, *ids;
    struct ids source = {.n = in->n};
    uint64_t n_words = 0;
    unsigned low_bits = 0;
    int rc;

    if (in->n == 0 || in->bytes < (form == FORM_PACKED ? 8 : 16))
        return RANKMAP_EFORMAT;
    min = load_u64(in->body);
    if (form == FORM_PACKED) {
        if (in->param == 0 || in->param > 40 ||
            in->bytes != 8 + ((uint64_t)in->n * in->param + 7) / 8)
            return RANKMAP_EFORMAT;
    } else {
        range = load_u64(in->body + 8);
        if (in->param != 0 || range >= RANKMAP_ID_LIMIT || range < in->n - 1)
            return RANKMAP_EFORMAT;
        low_bits = form == FORM_BITMAP ? 0 : rankmap__ef_low_bits(in->n, range);
        n_words =
            form == FORM_BITMAP ? rankmap__bitmap_words(range) : rankmap__ef_words(in->n, range);
        if (in->bytes != 16 + 8 * n_words + ((uint64_t)in->n * low_bits + 7) / 8)
            return RANKMAP_EFORMAT;
    }
    if (min >= RANKMAP_ID_LIMIT)
        return RANKMAP_ERANGE;
    ids = rankmap__alloc(mk->alloc, in->n, sizeof(*ids));
    if (!ids)
        return -ENOMEM;
    rc = form == FORM_PACKED ? decode_packed(in, ids)
                             : decode_sorted(in, n_words, low_bits, form == FORM_ELIAS_FANO, ids);
    source.a64 = ids;
    if (rc == 0)
        rc = rankmap__from_ids(mk, &source, out);
    rankmap__free(mk->alloc, ids);
    return rc;
}

ssize_t rankmap_unpack(const void *buf, size_t len, const struct rankmap_opts *opts,
                       struct rankmap **out)
{
    const unsigned char *p = buf;
    struct packed in;
    struct make mk;
    uint64_t bytes;
    int rc = rankmap__make_init(&mk, opts, out && (buf || len == 0));

    if (rc < 0)
        return rc;
    if (len < HEADER_BYTES || load_u32(p) != MAGIC || p[4] != LAYOUT_VERSION || p[7] != 0)
        return RANKMAP_EFORMAT;
    bytes = load_u64(p + 16);
    if (bytes > len - HEADER_BYTES)
        return RANKMAP_EFORMAT;
    in = (struct packed){p + HEADER_BYTES, (size_t)bytes, load_u32(p + 8), load_u32(p + 12), p[6]};
    if (in.n > RANKMAP_MAX_RANKS || (p[5] != FORM_RUNS && in.k != 0))
        return RANKMAP_EFORMAT;
    mk.max_check = bytes > CHECK_RANKS ? bytes : CHECK_RANKS;
    switch (p[5]) {
    case FORM_REGULAR: rc = unpack_shape(&mk, &in, out); break;
    case FORM_RUNS: rc = in.param ? RANKMAP_EFORMAT : unpack_runs(&mk, &in, out); break;
    case FORM_PACKED:
    case FORM_BITMAP:
    case FORM_ELIAS_FANO: rc = unpack_table(&mk, &in, p[5], out); break;
    default: rc = RANKMAP_EFORMAT;
    }
    return rc < 0 ? rc : (ssize_t)(HEADER_BYTES + bytes);
}

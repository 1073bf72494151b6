/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inverse of tables, dense or hashed; sets for membership; equal ids.
 *
 * Hashed: ids and ranks, bucket after bucket, and each bucket's start. Ids chosen to fall into one
 * bucket cost at most a binary search of it: a bucket of more than SCANNED ids is sorted, in linear
 * time.
 */
#include <errno.h>

#include "internal.h"

/* up to this many ids of the range for each rank, the inverse is an array */
#define DENSE_FACTOR  4u
#define BITMAP_FACTOR 64u /* the same for a set of one bit an id */
#define BITMAP_ALWAYS (UINT64_C(1) << 16)

#define SCANNED 16u /* most entries of an unsorted bucket */

struct rankmap_index {
    const struct rankmap_allocator *alloc;
    const struct rankmap *map;
    struct rankmap *held; /* map, if the index owns a reference; else NULL */
    uint64_t min, range;
    /* Dense: by id − min, rank + 1 or 0, with one more 0 beyond the range; else NULL. */
    uint32_t *slot;
    /* Hashed: n entries, each the low half of id − min, then the rank; else NULL. If the range is
     * wider, the map has the high half. Without slot and entry, rankmap_rank() answers. */
    uint64_t *entry;
    uint32_t *start;    /* of each bucket, and the end of the last */
    uint64_t n_buckets; /* a power of two */
};

static size_t bucket_of(const struct rankmap_index *index, uint64_t id)
{
    return id_hash(id) & (index->n_buckets - 1);
}

/* Sorts by the bits low_bit … high_bit-1, stably; scratch has room for n. */
void rankmap__sort(uint64_t *keys, uint64_t *scratch, size_t n, unsigned low_bit, unsigned high_bit)
{
    uint64_t *from = keys, *to = scratch, *swap;

    for (unsigned shift = low_bit; shift < high_bit && n > 1; shift += 8) {
        size_t at[257] = {0};

        for (size_t i = 0; i < n; i++)
            at[(from[i] >> shift & 0xff) + 1]++;
        if (at[(from[0] >> shift & 0xff) + 1] == n)
            continue; /* all digits are equal */
        for (unsigned d = 0; d < 256; d++)
            at[d + 1] += at[d];
        for (size_t i = 0; i < n; i++)
            to[at[from[i] >> shift & 0xff]++] = from[i];
        swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, n * sizeof(*keys));
}

uint64_t rankmap__find_twin(uint64_t *keys, uint64_t *scratch, size_t n, unsigned bits)
{
    rankmap__sort(keys, scratch, n, 0, bits);
    for (size_t i = 1; i < n; i++)
        if (keys[i] == keys[i - 1])
            return keys[i];
    return RANKMAP_NO_ID;
}

static bool bitmap_pays(uint64_t range, uint64_t n)
{
    return range < BITMAP_ALWAYS || range / BITMAP_FACTOR < n;
}

/* Makes a zeroed bit vector for numbers up to range. */
static uint64_t *bitmap_new(const struct rankmap_allocator *alloc, uint64_t range)
{
    uint64_t n_words = range / 64 + 1;
    uint64_t *bits = rankmap__alloc(alloc, n_words, sizeof(*bits));

    if (bits)
        memset(bits, 0, n_words * sizeof(*bits));
    return bits;
}

static int distinct_by_bits(const struct rankmap_allocator *alloc, const struct ids *ids,
                            uint64_t min, uint64_t range)
{
    uint64_t *bits = bitmap_new(alloc, range), twice = 0;

    if (!bits)
        return -ENOMEM;
    for (size_t i = 0; i < ids->n; i++) {
        uint64_t at = ids_get(ids, i) - min, bit = UINT64_C(1) << at % 64;

        twice |= bits[at / 64] & bit;
        bits[at / 64] |= bit;
    }
    rankmap__free(alloc, bits);
    return twice == 0;
}

static int distinct_by_sort(const struct rankmap_allocator *alloc, const struct ids *ids,
                            uint64_t min, uint64_t range)
{
    size_t n = ids->n;
    uint64_t *keys = rankmap__alloc(alloc, 2 * n, sizeof(*keys)), twin;

    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        keys[i] = ids_get(ids, i) - min;
    twin = rankmap__find_twin(keys, keys + n, n, rankmap__bit_length(range));
    rankmap__free(alloc, keys);
    return twin == RANKMAP_NO_ID;
}

/* Returns 1 if all ids differ, 0 if not, or -ENOMEM. */
int rankmap__check_distinct(const struct rankmap_allocator *alloc, const struct ids *ids,
                            uint64_t min, uint64_t max)
{
    if (max - min < ids->n - 1)
        return 0;
    if (bitmap_pays(max - min, ids->n))
        return distinct_by_bits(alloc, ids, min, max - min);
    return distinct_by_sort(alloc, ids, min, max - min);
}

/* As rankmap__check_distinct(), for a map whose parameters do not decide it. */
int rankmap__map_distinct(const struct rankmap_allocator *alloc, const struct rankmap *map)
{
    uint64_t *a = rankmap__alloc(alloc, map->n, sizeof(*a)), min, max;
    struct ids ids = {.a64 = a, .n = map->n};
    int distinct;

    if (!a)
        return -ENOMEM;
    rankmap__expand(map, 0, map->n, a);
    rankmap__bounds(map, &min, &max);
    distinct = map->n <= 1 ? 1 : rankmap__check_distinct(alloc, &ids, min, max);
    rankmap__free(alloc, a);
    return distinct;
}

/* Returns whether rankmap_rank() is quick without an index. */
static bool rank_is_quick(const struct rankmap *map)
{
    if (rankmap__is_view(map))
        return false;
    if (rankmap__is_regular(map)) {
        struct shape shape;

        rankmap__shape_of(map, &shape);
        return shape.n_levels <= 2 || rankmap__shape_nests(&shape);
    }
    return map->kind == RANKMAP_BITMAP || map->kind == RANKMAP_ELIAS_FANO ||
           (map->kind == RANKMAP_RUNS && (map->flags & MAP_ASCENDING || map->aux <= 8)) ||
           map->n <= 8;
}

static void fill_dense(struct rankmap_index *index)
{
    uint32_t *slot = index->slot;
    uint64_t min = index->min;
    struct walk w;

    memset(slot, 0, (index->range + 2) * sizeof(*slot));
    for (rankmap__walk_start(&w, index->map); rankmap__walk_next(&w);)
        for (uint32_t i = 0, first = w.first + 1, n = w.n; i < n; i++)
            slot[w.id[i] - min] = first + i;
}

/* Sorts the large buckets by the low halves of ids. At most 256 ids have the same low half. */
static int sort_buckets(struct rankmap_index *index, size_t largest)
{
    const uint32_t *start = index->start;
    uint64_t *scratch;

    if (largest <= SCANNED)
        return 0;
    scratch = rankmap__alloc(index->alloc, largest, sizeof(*scratch));
    if (!scratch)
        return -ENOMEM;
    for (size_t b = 0; b < index->n_buckets; b++)
        if (start[b + 1] - start[b] > SCANNED)
            rankmap__sort(index->entry + start[b], scratch, start[b + 1] - start[b], 32, 64);
    rankmap__free(index->alloc, scratch);
    return 0;
}

static int fill_hashed(struct rankmap_index *index)
{
    uint32_t *start = index->start, sum = 0, largest = 0;
    uint64_t *entry = index->entry, min = index->min, mask = index->n_buckets - 1;
    struct walk w;

    memset(start, 0, (index->n_buckets + 1) * sizeof(*start));
    for (rankmap__walk_start(&w, index->map); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++)
            start[id_hash(w.id[i]) & mask]++;
    for (size_t b = 0; b < index->n_buckets; b++) {
        largest = start[b] > largest ? start[b] : largest;
        sum += start[b];
        start[b] = sum;
    }
    start[index->n_buckets] = sum;
    /* Places each entry from its bucket's end down to its start. */
    for (rankmap__walk_start(&w, index->map); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++)
            entry[--start[id_hash(w.id[i]) & mask]] = (w.id[i] - min) << 32 | (w.first + i);
    return sort_buckets(index, largest);
}

static void index_free(struct rankmap_index *index)
{
    rankmap__free(index->alloc, index->start);
    rankmap__free(index->alloc, index->entry);
    rankmap__free(index->alloc, index->slot);
    rankmap__free(index->alloc, index);
}

static int index_fill(struct rankmap_index *index)
{
    const struct rankmap *map = index->map;
    uint64_t max;

    rankmap__bounds(map, &index->min, &max);
    index->range = max - index->min;
    if (index->range / DENSE_FACTOR < map->n) {
        index->slot = rankmap__alloc(index->alloc, index->range + 2, sizeof(*index->slot));
        if (!index->slot)
            return -ENOMEM;
        fill_dense(index);
        return 0;
    }
    for (index->n_buckets = 1; index->n_buckets < map->n;)
        index->n_buckets *= 2;
    index->entry = rankmap__alloc(index->alloc, map->n, sizeof(*index->entry));
    index->start = rankmap__alloc(index->alloc, index->n_buckets + 1, sizeof(*index->start));
    return index->entry && index->start ? fill_hashed(index) : -ENOMEM;
}

/* Makes an index without a reference to the map. `many`: so many queries follow that filling it
 * pays even for a quick map. */
int rankmap__index_new(const struct rankmap *map, const struct rankmap_allocator *alloc, bool many,
                       struct rankmap_index **out)
{
    struct rankmap_index *index;
    int rc = 0;

    if (!(map->flags & MAP_DISTINCT))
        return RANKMAP_ENOTINJECTIVE;
    index = rankmap__alloc(alloc, 1, sizeof(*index));
    if (!index)
        return -ENOMEM;
    *index = (struct rankmap_index){.alloc = alloc, .map = map};
    if (many || !rank_is_quick(map))
        rc = index_fill(index);
    if (rc < 0)
        index_free(index);
    else
        *out = index;
    return rc;
}

int rankmap_index_create(struct rankmap *map, const struct rankmap_allocator *alloc,
                         struct rankmap_index **out)
{
    struct rankmap_index *index;
    int rc;

    if (!map || !out || rankmap__allocator_take(&alloc, alloc) < 0)
        return -EINVAL;
    rc = rankmap__index_new(map, alloc, false, &index);
    if (rc < 0)
        return rc;
    index->held = rankmap_ref(map);
    *out = index;
    return 0;
}

void rankmap_index_destroy(struct rankmap_index *index)
{
    struct rankmap *held;

    if (!index)
        return;
    held = index->held;
    index_free(index);
    rankmap_unref(held);
}

/* Returns the first entry of at least `least` in a sorted bucket. */
static const uint64_t *find_entry(const uint64_t *e, const uint64_t *end, uint64_t least)
{
    while (e < end) {
        const uint64_t *middle = e + (end - e) / 2;

        if (*middle < least)
            e = middle + 1;
        else
            end = middle;
    }
    return e;
}

/* Searches a large bucket, or one whose entries have the low halves of wider numbers. */
static int64_t bucket_search(const struct rankmap_index *index, const uint64_t *e,
                             const uint64_t *end, uint64_t id)
{
    uint64_t low = (id - index->min) << 32;

    if (end - e > SCANNED) {
        e = find_entry(e, end, low);
        end = find_entry(e, end, low | UINT32_MAX);
    }
    for (; e < end; e++)
        if (*e - low < UINT32_MAX && rankmap_id(index->map, (uint32_t)*e) == id)
            return (uint32_t)*e;
    return RANKMAP_ENOENT;
}

static int64_t rank_in_bucket(const struct rankmap_index *index, size_t bucket, uint64_t id)
{
    const uint64_t *e = index->entry + index->start[bucket];
    const uint64_t *end = index->entry + index->start[bucket + 1];
    uint64_t away = id - index->min;

    if (end - e > SCANNED || index->range > UINT32_MAX)
        return bucket_search(index, e, end, id);
    for (; e < end; e++)
        if (*e >> 32 == away)
            return (uint32_t)*e;
    return RANKMAP_ENOENT;
}

int64_t rankmap_index_rank(const struct rankmap_index *index, uint64_t id)
{
    if (index->slot) {
        uint32_t found = index->slot[min_u64(id - index->min, index->range + 1)];

        return found != 0 ? (int64_t)found - 1 : RANKMAP_ENOENT;
    }
    if (!index->entry)
        return rankmap_rank(index->map, id);
    return rank_in_bucket(index, bucket_of(index, id), id);
}

/* No branch depends on the ids. */
static void ranks_dense(const struct rankmap_index *index, const uint64_t *ids, size_t n,
                        uint32_t *ranks)
{
    const uint32_t *slot = index->slot;
    uint64_t min = index->min, beyond = index->range + 1;

    for (size_t i = 0; i < n; i++)
        ranks[i] = slot[min_u64(ids[i] - min, beyond)] - 1;
}

/* Searches up to BLOCK ids in rounds: first every bucket's first entry, then, for ids not found
 * yet, the second entry, and so on. */
static void ranks_hashed(const struct rankmap_index *index, const uint64_t *ids, size_t n,
                         uint32_t *ranks)
{
    uint32_t at[BLOCK], end[BLOCK], who[BLOCK];
    bool wide = index->range > UINT32_MAX;
    size_t left = 0;

    for (size_t i = 0; i < n; i++) {
        size_t bucket = bucket_of(index, ids[i]);

        ranks[i] = RANKMAP_NO_RANK;
        at[left] = index->start[bucket];
        end[left] = index->start[bucket + 1];
        who[left] = (uint32_t)i;
        if (end[left] - at[left] > SCANNED) {
            int64_t rank = rank_in_bucket(index, bucket, ids[i]);

            ranks[i] = rank < 0 ? RANKMAP_NO_RANK : (uint32_t)rank;
            continue;
        }
        left += at[left] < end[left] && ids[i] - index->min <= index->range;
    }
    while (left > 0) {
        size_t again = 0;

        for (size_t i = 0; i < left; i++) {
            uint32_t w = who[i], last = end[i], next = at[i] + 1;
            uint64_t rank = index->entry[next - 1] - ((ids[w] - index->min) << 32);
            bool found = rank < UINT32_MAX;

            if (wide && found)
                found = rankmap_id(index->map, (uint32_t)rank) == ids[w];
            ranks[w] = found ? (uint32_t)rank : ranks[w];
            at[again] = next;
            end[again] = last;
            who[again] = w;
            again += !found && next < last;
        }
        left = again;
    }
}

/* rankmap_index_rank() for many ids; RANKMAP_NO_RANK for an id without a rank. */
void rankmap__index_ranks(const struct rankmap_index *index, const uint64_t *ids, size_t n,
                          uint32_t *ranks)
{
    if (index->slot) {
        ranks_dense(index, ids, n, ranks);
    } else if (index->entry) {
        ranks_hashed(index, ids, n, ranks);
    } else {
        for (size_t i = 0; i < n; i++) {
            int64_t rank = rankmap_rank(index->map, ids[i]);

            ranks[i] = rank < 0 ? RANKMAP_NO_RANK : (uint32_t)rank;
        }
    }
}

/* Makes a set for n_asked membership tests; map is not empty and outlives the set. */
int rankmap__members_init(struct members *m, const struct rankmap_allocator *alloc,
                          const struct rankmap *map, uint64_t n_asked)
{
    struct walk w;

    *m = (struct members){.alloc = alloc, .map = map};
    rankmap__bounds(map, &m->min, &m->max);
    if (rankmap__is_affine(map) || (rank_is_quick(map) && n_asked < map->n / 16))
        return 0;
    if (!bitmap_pays(m->max - m->min, n_asked + map->n))
        return rankmap__index_new(map, alloc, true, &m->index);
    m->bits = bitmap_new(alloc, m->max - m->min + 1);
    if (!m->bits)
        return -ENOMEM;
    for (rankmap__walk_start(&w, map); rankmap__walk_next(&w);)
        for (uint32_t i = 0; i < w.n; i++)
            m->bits[(w.id[i] - m->min) / 64] |= UINT64_C(1) << (w.id[i] - m->min) % 64;
    return 0;
}

void rankmap__members_fini(struct members *m)
{
    rankmap__free(m->alloc, m->bits);
    rankmap_index_destroy(m->index);
}

/* Tests up to BLOCK ids for membership. */
void rankmap__members_have(const struct members *m, const uint64_t *ids, size_t n, bool *has)
{
    uint32_t ranks[BLOCK];
    uint64_t range = m->max - m->min;

    if (m->index)
        rankmap__index_ranks(m->index, ids, n, ranks);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = ids[i] - m->min;

        if (m->index)
            has[i] = ranks[i] != RANKMAP_NO_RANK;
        else if (m->bits) /* the bit vector has one more bit, 0, beyond the range */
            has[i] = m->bits[min_u64(at, range + 1) / 64] >> min_u64(at, range + 1) % 64 & 1;
        else
            has[i] = at <= range && rankmap_rank(m->map, ids[i]) >= 0;
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Types and functions that the files of librankmap share. */
#ifndef RANKMAP_INTERNAL_H
#define RANKMAP_INTERNAL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <rankmap/group.h>
#include <rankmap/lookup.h>
#include <rankmap/map.h>

#define BLOCK        256u               /* ids expanded at a time, on the stack */
#define STRIDE_LIMIT (INT64_C(1) << 40) /* most that a digit may add to an id, either sign */
#define OFFSET_LIMIT (INT64_C(1) << 45) /* of |o|: virtual starts of blocks lie outside the ids */
#define INDEX_FACTOR UINT64_C(0x9e3779b97f4a7c15)

enum {
    MAP_DISTINCT = 1,  /* no id comes twice */
    MAP_ASCENDING = 2, /* runs: ids ascend with ranks */
    MAP_WIDE = 4,      /* runs: 64-bit offsets and strides */
    MAP_STRIDED = 8,   /* runs: strides are stored; otherwise they are 1 */
};

/*
 * A map: a header of 24 bytes, and its model in word[]:
 *
 *   regular, 1 level   o, s
 *   regular, L levels  o + s1·φ, s1, φ, and for each level above the first {⌈2^64/W⌉, s − c'·s'},
 *                      where W is the product of the counts below it, and c' and s' are count and
 *                      stride of the level below it
 *   views              parent, and a regular model
 *   lut                min, max − min, n values of 32 or `bits` bits, each an id − min
 *   frames             min, max − min, packed bases, packed lows; aux: shift | bits of a base << 8
 *   bitmap             min, max − min, bit vector and its directory (see model_sorted.c)
 *   elias-fano         the same for the high parts, then the packed low parts; bits: of a low part
 *   runs               min, then for each of aux runs: first rank, id − min, and stride if
 *                      MAP_STRIDED (see model_runs.c)
 */
struct rankmap {
    atomic_uint refs;
    uint8_t kind;
    uint8_t n_levels;
    uint8_t bits;
    uint8_t flags;
    uint32_t n;
    uint32_t aux;
    const struct rankmap_allocator *alloc;
    uint64_t word[];
};

static inline bool rankmap__is_regular(const struct rankmap *map)
{
    return map->kind <= RANKMAP_MD;
}

static inline bool rankmap__is_view(const struct rankmap *map)
{
    return map->kind >= RANKMAP_LUT_STRIDE;
}

static inline bool rankmap__is_affine(const struct rankmap *map)
{
    return rankmap__is_regular(map) && map->n_levels == 1;
}

static inline struct rankmap *rankmap__table_of(const struct rankmap *view)
{
    return (struct rankmap *)(uintptr_t)view->word[0];
}

/* A regular model's formula. The last count is ignored; levels from n_levels on are undefined. */
struct shape {
    int64_t o;
    uint64_t phi;
    uint32_t n;
    uint32_t n_levels;
    struct rankmap_level level[RANKMAP_MAX_LEVELS];
};

/* A stretch of ids with one stride. */
struct piece {
    int64_t first;
    int64_t stride;
    uint64_t n;
};

/* A map's ids, up to BLOCK at a time. */
struct walk {
    const struct rankmap *map;
    uint32_t first; /* rank of id[0] */
    uint32_t n;
    uint64_t id[BLOCK];
};

static inline int64_t piece_last(const struct piece *p)
{
    return p->first + p->stride * (int64_t)(p->n - 1);
}

static inline int64_t piece_low(const struct piece *p)
{
    return p->n > 1 && p->stride < 0 ? piece_last(p) : p->first;
}

static inline int64_t piece_high(const struct piece *p)
{
    return p->n > 1 && p->stride > 0 ? piece_last(p) : p->first;
}

/* Ids in the caller's array or in scratch memory. */
struct ids {
    const uint32_t *a32; /* this or a64; the other is NULL */
    const uint64_t *a64;
    size_t n;
};

static inline uint64_t ids_get(const struct ids *ids, size_t i)
{
    return ids->a32 ? ids->a32[i] : ids->a64[i];
}

/* The bits of a hash table's slot or bucket. */
static inline size_t id_hash(uint64_t id)
{
    return (size_t)(id * INDEX_FACTOR >> 32);
}

/* Settings for making a map. */
struct make {
    const struct rankmap_allocator *alloc;
    uint64_t id_limit;
    uint32_t flags;
    bool distinct;      /* known to have no duplicate ids: no check needed */
    uint64_t max_check; /* most ranks to expand for a check that the parameters do not decide */
};

/* opts.c */
extern const struct rankmap_allocator rankmap__libc;
/* The rule for option structs: copies `bytes` bytes. -EINVAL if the struct is shorter, or longer
 * with a byte other than 0 that this release does not know. */
int rankmap__opts_take(void *to, const void *from, size_t bytes);
/* Takes the given allocator, or libc's for NULL. -EINVAL if one of its functions is missing. */
int rankmap__allocator_take(const struct rankmap_allocator **to,
                            const struct rankmap_allocator *from);
/* Checks the options, then that the call's other arguments are complete: no pointer that must
 * be given is NULL. */
int rankmap__make_fill(struct make *mk, const struct rankmap_opts *opts);
static inline int rankmap__make_init(struct make *mk, const struct rankmap_opts *opts,
                                     bool complete)
{
    int rc = rankmap__make_fill(mk, opts);

    return rc < 0 || complete ? rc : -EINVAL;
}
/* Takes 64-bit numbers, so that a size beyond a 32-bit machine fails and does not wrap. */
void *rankmap__alloc(const struct rankmap_allocator *alloc, uint64_t n, uint64_t size);
void rankmap__free(const struct rankmap_allocator *alloc, void *p);

/* error.c */
#define NOWHERE UINT64_MAX
/* Fills err; returns code. */
__attribute__((format(printf, 5, 6))) int rankmap__fail(struct rankmap_error *err, int code,
                                                        uint64_t where, uint64_t id,
                                                        const char *format, ...);
/* A failure's code is negative: what callers, compilers and analysers of other files rely on. */
static inline int rankmap__negative(int code)
{
    return code < 0 ? code : -EINVAL;
}
#define rankmap__fail(...) rankmap__negative(rankmap__fail(__VA_ARGS__))
/* A failure without detail gets the code's phrase as its text. */
void rankmap__detail_copy(int rc, struct rankmap_error *detail, struct rankmap_error *err);
/* Ends a function that has an err, which may be NULL. Returns rc. */
static inline int rankmap__report(int rc, struct rankmap_error *detail, struct rankmap_error *err)
{
    if (rc < 0 && err)
        rankmap__detail_copy(rc, detail, err);
    return rc;
}

/* map.c */
struct rankmap *rankmap__new(const struct make *mk, uint32_t kind, uint32_t n,
                             uint64_t model_bytes);
size_t rankmap__model_bytes(const struct rankmap *map);
size_t rankmap__bytes(const struct rankmap *map); /* of the object, its header included */
void rankmap__bounds(const struct rankmap *map, uint64_t *min, uint64_t *max);       /* n > 0 */
void rankmap__exact_bounds(const struct rankmap *map, uint64_t *min, uint64_t *max); /* n > 0 */
void rankmap__gather(const struct rankmap *map, const uint64_t *ranks, size_t n, uint64_t *out);
void rankmap__expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out);
void rankmap__walk_start(struct walk *w, const struct rankmap *map);
bool rankmap__walk_next(struct walk *w); /* false after the last id */

/* make.c */
int rankmap__from_shape(const struct make *mk, const struct shape *shape, struct rankmap **out);
int rankmap__view(const struct make *mk, struct rankmap *table, const struct shape *shape,
                  struct rankmap **out);
void rankmap__explain_twins(const struct make *mk, const struct ids *ids, const char *places,
                            const char *what, struct rankmap_error *err);
/* what: of which two ranges may not have the same, for err */
int rankmap__from_ranges(const struct make *mk, const struct rankmap_range *ranges, size_t n,
                         const char *what, struct rankmap **out, struct rankmap_error *err);

/* model_regular.c */
size_t rankmap__regular_bytes(uint32_t n_levels);
void rankmap__shape_store(uint64_t *words, const struct shape *shape);
void rankmap__shape_of(const struct rankmap *map, struct shape *shape); /* regular maps and views */
void rankmap__regular_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out);

/* Returns the id of rank r from the words of a regular model. */
static inline uint64_t rankmap__regular_id(const uint64_t *w, uint32_t n_levels, uint64_t r)
{
    uint64_t id = w[0] + r * w[1];

    if (n_levels > 1) {
        r += w[2];
        for (uint32_t i = 1; i < n_levels; i++)
            id += rankmap__mulhi(r, w[1 + 2 * i]) * w[2 + 2 * i];
    }
    return id;
}

/* shape.c */
int rankmap__shape_normalize(struct shape *shape, uint64_t id_limit);
int64_t rankmap__shape_at(const struct shape *shape, uint64_t x); /* x = r + φ */
void rankmap__shape_bounds(const struct shape *shape, int64_t *min, int64_t *max);
uint64_t rankmap__shape_period(const struct shape *shape); /* product of the counts but the last */
bool rankmap__shape_storable(const struct shape *shape);
/* 1, 0, or -1: the parameters do not decide it */
int rankmap__shape_distinct(const struct shape *shape);
/* Whether each stride exceeds the sum of all levels below it. */
bool rankmap__shape_nests(const struct shape *shape);
int64_t rankmap__shape_rank(const struct shape *shape, int64_t id);

/* compose_closed.c: returns 1 with the shape of p∘c, not normalized yet, in *out; 0 if no rule
 * applies */
int rankmap__closure(const struct shape *p, const struct shape *c, struct shape *out);
void rankmap__shape_reverse(struct shape *shape);

/* progression.c: arithmetic progressions */
/* *x with a·x ≡ gcd (mod b), 0 ≤ x < b */
uint64_t rankmap__gcd(uint64_t a, uint64_t b, int64_t *x);
uint64_t rankmap__mulmod(uint64_t a, uint64_t b, uint64_t modulus); /* modulus below 2^63 */
bool rankmap__piece_meet(const struct piece *a, const struct piece *b, struct piece *index_of_a);

/* detect_lag.c: the first i below n with a[i + lag] − a[i] ≠ stride, else n. The base forms run on
 * every processor. */
size_t rankmap__lag32(const uint32_t *a, size_t n, size_t lag, uint32_t stride);
size_t rankmap__lag64(const uint64_t *a, size_t n, size_t lag, uint64_t stride);
size_t rankmap__lag32_base(const uint32_t *a, size_t n, size_t lag, uint32_t stride);
size_t rankmap__lag64_base(const uint64_t *a, size_t n, size_t lag, uint64_t stride);

/* detect.c */
int rankmap__from_ids(const struct make *mk, const struct ids *ids, struct rankmap **out);

/* model_table.c */
int rankmap__from_table(const struct make *mk, const struct ids *ids, uint64_t min, uint64_t range,
                        bool ascending, size_t bytes_to_beat, struct rankmap **out);
uint64_t rankmap__table_id(const struct rankmap *map, uint32_t rank);
void rankmap__table_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out);
int64_t rankmap__table_rank(const struct rankmap *map, uint64_t id);
size_t rankmap__table_bytes(const struct rankmap *map);
uint64_t rankmap__packed_bytes(uint64_t n, unsigned bits);
unsigned rankmap__bit_length(uint64_t value);
void rankmap__bits_set(void *table, uint64_t index, unsigned bits, uint64_t value);

/* model_sorted.c: bitmap and Elias-Fano. Words are those of the bit vector, bytes of the model. Ids
 * that are far apart may need more than a size_t holds. */
uint64_t rankmap__bitmap_words(uint64_t range);
uint64_t rankmap__bitmap_bytes(uint64_t range);
unsigned rankmap__ef_low_bits(uint64_t n, uint64_t range);
uint64_t rankmap__ef_words(uint64_t n, uint64_t range);
uint64_t rankmap__ef_bytes(uint64_t n, uint64_t range);
size_t rankmap__sorted_words(const struct rankmap *map);
const unsigned char *rankmap__ef_low(const struct rankmap *map);
void rankmap__sorted_fill(struct rankmap *map, const struct ids *ids);
uint64_t rankmap__sorted_id(const struct rankmap *map, uint32_t rank);
void rankmap__sorted_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out);
int64_t rankmap__sorted_rank(const struct rankmap *map, uint64_t id);

/* model_runs.c */
int rankmap__from_pieces(const struct make *mk, struct piece *pieces, size_t n_pieces,
                         struct rankmap **out);
int rankmap__two_runs(const struct make *mk, const struct shape *shape, struct rankmap **out);
bool rankmap__shape_if(const struct rankmap *map, struct shape *shape);
int rankmap__runs_of_ids(const struct make *mk, const struct ids *ids, size_t max_bytes,
                         struct rankmap **out);
struct piece rankmap__run(const struct rankmap *map, uint32_t i); /* of runs */
uint32_t rankmap__run_first(const struct rankmap *map, uint32_t i);
uint64_t rankmap__runs_id(const struct rankmap *map, uint32_t rank);
void rankmap__runs_expand(const struct rankmap *map, uint32_t first, uint32_t n, uint64_t *out);
int64_t rankmap__runs_rank(const struct rankmap *map, uint64_t id);
size_t rankmap__runs_bytes(const struct rankmap *map);
/* The pieces of a map of one level or of runs; other maps have none. */
size_t rankmap__n_pieces(const struct rankmap *map);
void rankmap__pieces_get(const struct rankmap *map, struct piece *pieces);

/* inverse.c */
/* 1, 0, -ENOMEM */
int rankmap__map_distinct(const struct rankmap_allocator *alloc, const struct rankmap *map);
void rankmap__sort(uint64_t *keys, uint64_t *scratch, size_t n, unsigned low_bit,
                   unsigned high_bit);
/* Sorts the low `bits` bits. Returns the least key that comes twice, or RANKMAP_NO_ID. */
uint64_t rankmap__find_twin(uint64_t *keys, uint64_t *scratch, size_t n, unsigned bits);
int rankmap__check_distinct(const struct rankmap_allocator *alloc, const struct ids *ids,
                            uint64_t min, uint64_t max);
int rankmap__index_new(const struct rankmap *map, const struct rankmap_allocator *alloc, bool many,
                       struct rankmap_index **out); /* holds no reference */
void rankmap__index_ranks(const struct rankmap_index *index, const uint64_t *ids, size_t n,
                          uint32_t *ranks); /* n ≤ BLOCK */

/* group.c */
/* Selects the ids of a that b has (wanted) or does not have. Both are groups. */
int rankmap__select(struct make mk, struct rankmap *a, const struct rankmap *b, bool wanted,
                    struct rankmap **out);

/* A set of a map's ids, for many membership tests. */
struct members {
    const struct rankmap_allocator *alloc;
    uint64_t *bits;
    uint64_t min, max;
    const struct rankmap *map; /* for rankmap_rank(), if that is quick or has an index */
    struct rankmap_index *index;
};
int rankmap__members_init(struct members *m, const struct rankmap_allocator *alloc,
                          const struct rankmap *map, uint64_t n_asked);
void rankmap__members_fini(struct members *m);
void rankmap__members_have(const struct members *m, const uint64_t *ids, size_t n,
                           bool *has); /* n ≤ BLOCK */

static inline int64_t word_i64(uint64_t w)
{
    return (int64_t)w;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t abs_i64(int64_t v)
{
    return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

#endif

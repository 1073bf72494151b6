/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file table.h
 * @brief Layer two: publish an index in memory that peers can read, and keep a copy of a peer's. No
 *        I/O of its own.
 *
 * **The owner** (struct asymreg_table) keeps its regions in a block of memory that you make
 * readable for peers: shared memory, or registered with a network. Every change is one 32-byte slot
 * rewritten and one record appended to a ring, the change log. No call of a peer is needed.
 *
 * **A peer** (struct asymreg_cache) is given a function that reads bytes of that block, or its
 * address if it is mapped, and keeps an index of it. asymreg_cache_refresh() brings it up to date
 * in the cheapest way that works:
 *   - by delta: the records since last time, if the ring still has them: two reads, whatever the
 *     size of the table;
 *   - by leaf: if not, the generations of all leaves (128 slots, 4 KiB each), and only the leaves
 *     that changed;
 *   - whole: the first time, or when asked.
 *
 * What is read is checked before it is used: a torn, stale or hostile table gives ASYMREG_EBUSY or
 * ASYMREG_ETABLE, never a wild read.
 *
 * **Segments.** A region lies in a segment: one registration of a transport, with its handle bytes.
 * Many regions may share one. Region.value is the segment's number in the lower and its generation
 * in the upper 32 bits; a peer reads the handle when it first needs it.
 *
 * **Layout** of the block, all in host byte order (version and order are in the header), each part
 * on a multiple of 4096 bytes: header · ring of 48-byte records {sequence, slot, slot's new
 * content} · leaf generations, 8 bytes each (odd: being written) · slots {start, last, generation,
 * prot, value} · segments {generation, …, base, last, handle}. A writer moves log_head before it
 * overwrites a record, and log_tail after it wrote one: what a peer copied is valid if log_head has
 * not passed it when looked at again.
 *
 * A killed writer leaves at worst one leaf odd and one record missing: peers get ASYMREG_EBUSY for
 * that leaf, and learn of the death from their transport.
 *
 * **Threads.** Making a table or a cache is MT-Safe. A table has one writer: one thread at a time
 * calls what changes, asks or destroys it, while readers of its index, here and in other processes,
 * go on. So has a cache (refresh, segment, figures, destroy); asymreg_cache_stale() may be called
 * at any time. To take something back, or to destroy, allocates nothing but what the index needs
 * (asymreg_index_remove()).
 *
 * Source: the copied table of "Asymmetric Memory Extension for OpenSHMEM", section 3; log, leaves
 * and generations are ours.
 */
#ifndef ASYMREG_TABLE_H
#define ASYMREG_TABLE_H

#include <asymreg/base.h>
#include <asymreg/index.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Slots of a leaf. */
#define ASYMREG_LEAF_SLOTS 128u
/** Most records of a log. */
#define ASYMREG_MAX_RING 0x100000u
/** Most segments of a table. */
#define ASYMREG_MAX_SEGMENTS 0x4000000u

/** The sizes of a table. Zero all, set `size`, then what differs. */
struct asymreg_table_opts {
    size_t size;               /**< sizeof(struct asymreg_table_opts) */
    uint32_t max_regions;      /**< 0: 1,048,576. Rounded up to whole leaves */
    uint32_t max_segments;     /**< 0: 4096 */
    uint32_t ring;             /**< records of the log, a power of two, 16 at least; 0: 4096 */
    uint32_t max_handle_bytes; /**< longest handle of a segment; at most 1024 */
    uint32_t simd;             /**< as in struct asymreg_index_opts */
    uint32_t reserved;         /**< 0 */
};

/** The owner's side. */
struct asymreg_table;

/**
 * @brief Bytes of memory that a table of these sizes is published in.
 * @param opts  the sizes
 * @return bytes, a multiple of 4096; 0: bad options
 *
 * MT-Safe. Allocates nothing.
 */
ASYMREG_API uint64_t asymreg_table_bytes(const struct asymreg_table_opts *opts);

/**
 * @brief Make an empty table in a block of memory.
 * @param opts         its sizes
 * @param memory       asymreg_table_bytes() bytes of zeros, aligned to 64; stays the caller's, and
 *                     in use until destroy
 * @param incarnation  a number that no other table has had: random, or the time; not 0
 * @param table        the new table
 * @return 0, -EINVAL, -ENOMEM
 *
 * MT-Safe. Allocates.
 */
ASYMREG_API int asymreg_table_create(const struct asymreg_table_opts *opts, void *memory,
                                     uint64_t incarnation, struct asymreg_table **table);

/**
 * @brief Mark the table closed, so that peers see that it has gone, and free the owner's side. NULL
 *        is allowed.
 */
ASYMREG_API void asymreg_table_destroy(struct asymreg_table *table);

/**
 * @brief Publish a transport's registration.
 * @param table         the table
 * @param base,bytes    the memory that it covers; 0 and 2^64-1 cover all of the address space, with
 *                      its last byte
 * @param handle        its handle; copied
 * @param handle_bytes  length of it
 * @param segment       value for the regions inside
 * @return 0, -EINVAL, ASYMREG_EOVERFLOW, ASYMREG_EFULL
 *
 * One writer.
 */
ASYMREG_API int asymreg_table_segment_add(struct asymreg_table *table, uint64_t base,
                                          uint64_t bytes, const void *handle, size_t handle_bytes,
                                          uint64_t *segment);

/**
 * @brief Take a segment back.
 * @param table    the table
 * @param segment  from asymreg_table_segment_add()
 * @return 0, ASYMREG_ESTALE, ASYMREG_EBUSY (a region lies in it)
 *
 * One writer.
 */
ASYMREG_API int asymreg_table_segment_remove(struct asymreg_table *table, uint64_t segment);

/**
 * @brief Publish a region.
 * @param table        the table
 * @param start,bytes  the region, inside its segment
 * @param prot         ASYMREG_READ, ASYMREG_WRITE, ASYMREG_ATOMIC
 * @param segment      where it lies
 * @param id           its identifier
 * @return 0, ASYMREG_ERANGE (not inside the segment), ASYMREG_ESTALE (no such segment), and as
 *         asymreg_index_insert()
 *
 * One writer, any readers in any process. A peer that refreshes after this call finds it. Cost: as
 * asymreg_index_insert() and 80 bytes written.
 */
ASYMREG_API int asymreg_table_insert(struct asymreg_table *table, uint64_t start, uint64_t bytes,
                                     uint32_t prot, uint64_t segment, asymreg_id *id);

/**
 * @brief Take a region back.
 * @param table  the table
 * @param id     its identifier
 * @return 0, ASYMREG_ESTALE, -ENOMEM
 *
 * One writer. A peer that refreshes after this call does not find it.
 */
ASYMREG_API int asymreg_table_remove(struct asymreg_table *table, asymreg_id id);

/**
 * @brief The owner's own index, for lookups and going through it; not to be changed. It lives as
 *        long as the table. @param table a table @return its index
 */
ASYMREG_API struct asymreg_index *asymreg_table_index(struct asymreg_table *table);

/**
 * @name How to refresh
 * @{
 */
/** by delta if the log reaches back far enough, else by leaf, else whole */
#define ASYMREG_REFRESH_AUTO  0u
#define ASYMREG_REFRESH_DELTA 1u /**< by delta or not at all (ASYMREG_EBUSY) */
#define ASYMREG_REFRESH_LEAF  2u /**< every leaf whose generation differs */
#define ASYMREG_REFRESH_WHOLE 3u /**< every leaf */
/** @} */

/**
 * Reads bytes of a peer's block: [offset, offset + bytes) to dst. 0 or an error, which the cache
 * passes on. Two calls read in that order; one call may read its bytes in any order, and while they
 * change.
 */
typedef int asymreg_read_fn(void *ctx, uint64_t offset, void *dst, size_t bytes);

/** How to reach a peer's table. Zero all, set `size`, then what differs. */
struct asymreg_cache_opts {
    size_t size;           /**< sizeof(struct asymreg_cache_opts) */
    asymreg_read_fn *read; /**< may be NULL if `mapped` is given */
    void *ctx;             /**< for `read` */
    const void *mapped;    /**< the block as mapped here, or NULL */
    uint64_t bytes;        /**< length of the block */
    uint64_t incarnation;  /**< that it must have; 0: any */
    uint32_t simd;         /**< as in struct asymreg_index_opts */
    uint32_t reserved;     /**< 0 */
};

/** A peer's side. */
struct asymreg_cache;

/** Figures of a cache. */
struct asymreg_cache_stats {
    size_t size; /**< sizeof(struct asymreg_cache_stats), set by the caller: no more than that is
                    filled */
    uint64_t n_refreshes; /**< that found something new */
    uint64_t n_records;   /**< log records read */
    uint64_t n_leaves;    /**< leaves read */
    uint64_t read_bytes;  /**< bytes read of the peer's block */
    uint64_t n_retries;   /**< reads repeated because the table changed meanwhile */
};

/**
 * @brief Make a cache and check the header of the table. It is empty until refreshed.
 * @param opts   how to reach it
 * @param cache  the new cache
 * @return 0, -EINVAL, -ENOMEM, what `read` returned, ASYMREG_ETABLE, ASYMREG_EVERSION,
 *         ASYMREG_ESTALE (another incarnation), ASYMREG_EPEER (closed)
 *
 * MT-Safe. Allocates.
 */
ASYMREG_API int asymreg_cache_create(const struct asymreg_cache_opts *opts,
                                     struct asymreg_cache **cache);

/** @brief Free a cache, after the readers of its index. NULL is allowed. */
ASYMREG_API void asymreg_cache_destroy(struct asymreg_cache *cache);

/**
 * @brief Bring the cache up to date with everything that was published before the call.
 * @param cache  the cache
 * @param mode   ASYMREG_REFRESH_*
 * @return changes found (0: none); or what `read` returned, ASYMREG_EPEER (closed), ASYMREG_EBUSY
 *         (overtaken again and again), ASYMREG_ETABLE, -ENOMEM
 *
 * After an error the cache answers as of some earlier moment; a later refresh mends it. One thread
 * at a time; readers of the index go on meanwhile. Cost: by delta two reads (1.4 µs each with CMA,
 * nothing when mapped) and the changes; see the README.
 */
ASYMREG_API int asymreg_cache_refresh(struct asymreg_cache *cache, uint32_t mode);

/**
 * @brief Has the table changed since the last refresh?
 * @param cache  a cache
 * @return 1: yes, or closed; 0: no, or not known because the block is not mapped
 *
 * MT-Safe. Cost: one load.
 */
ASYMREG_API int asymreg_cache_stale(const struct asymreg_cache *cache);

/**
 * @brief The index of the peer's regions, to make readers of: identifiers, permissions and segments
 *        are the owner's.
 *
 * It lives as long as the cache. Only asymreg_cache_refresh() changes it.
 *
 * @param cache  the cache
 * @return its index
 */
ASYMREG_API struct asymreg_index *asymreg_cache_index(struct asymreg_cache *cache);

/** A segment as its owner published it. */
struct asymreg_segment {
    uint64_t base; /**< address of its first byte */
    uint64_t last; /**< and of its last */
    uint32_t handle_bytes;
    uint32_t reserved;
    unsigned char handle[1024]; /**< the transport's */
};

/**
 * @brief Read a segment of the peer.
 * @param cache    the cache
 * @param segment  value of a region
 * @param out      the segment
 * @return 0, ASYMREG_ESTALE (another generation: refresh), ASYMREG_ETABLE, ASYMREG_EBUSY, or what
 *         `read` returned
 *
 * One thread at a time. Cost: two reads.
 */
ASYMREG_API int asymreg_cache_segment(struct asymreg_cache *cache, uint64_t segment,
                                      struct asymreg_segment *out);

/** @brief Figures of a cache. @param cache the cache @param stats filled @return 0, -EINVAL */
ASYMREG_API int asymreg_cache_get_stats(const struct asymreg_cache *cache,
                                        struct asymreg_cache_stats *stats);

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_TABLE_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file base.h
 * @brief What every part of libasymreg shares: version, errors, permissions, region identifiers.
 *
 * A process opens a *context* to register memory and to reach its peers. A *region* is registered
 * memory that peers may access. A *segment* is one registration with the transport; many regions
 * can lie in it. A context publishes a *table* of its regions and segments. Each peer keeps a copy
 * of the regions, and reads a segment's entry when it first uses the segment.
 */
#ifndef ASYMREG_BASE_H
#define ASYMREG_BASE_H

#include <stddef.h>
#include <stdint.h>

/** Release of this header; asymreg_version() is that of the library in use. */
#define ASYMREG_VERSION_MAJOR 0
#define ASYMREG_VERSION_MINOR 1
#define ASYMREG_VERSION_PATCH 0
#define ASYMREG_VERSION       "0.1.0"

#if defined(__GNUC__)
#define ASYMREG_API __attribute__((visibility("default")))
#else
#define ASYMREG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Error codes
 * Functions return 0 or more on success, `-errno` for a system cause, or one of these. The values
 * never change.
 *
 * A function refuses an option struct with -EINVAL if `size` is less than the struct has in this
 * release, or more than 4,096; or if a byte behind the members that this release knows is not 0.
 * @{
 */
/** no registered region has the address, according to the peer's newest table. From
 * asymreg_segment_remove(): no segment begins at the address */
#define ASYMREG_ENOREGION (-25001)
/** the access begins inside a region and runs past its end, or is outside the region that the
 * identifier names */
#define ASYMREG_ERANGE (-25002)
/** the registration that the identifier names has ended. With ASYMREG_ANY: this side's copy of the
 * peer's table had a region at the address, and the newest table has none. For an operation begun
 * with _nb it can also mean that the copy was old: begin the operation again. libasymreg-ibv has
 * more causes: see asymreg-ibv.h */
#define ASYMREG_ESTALE (-25003)
/** the region, its segment or its file does not permit this access */
#define ASYMREG_EACCES    (-25004)
#define ASYMREG_EPEER     (-25005) /**< the peer has closed, exited, been killed or called exec() */
#define ASYMREG_EOVERLAP  (-25006) /**< overlaps a region or segment that is registered already */
#define ASYMREG_EOVERFLOW (-25007) /**< address plus length runs past 2^64 */
/** registered, but no memory is there (unmapped, truncated file), or the memory is not writable */
#define ASYMREG_EFAULT (-25008)
/** the transport cannot do this; struct asymreg_error and asymreg_resolve() give the reason */
#define ASYMREG_ENOTSUP (-25009)
/** no room: max_regions or max_segments is reached; 4,096 workers already use a peer that has
 * ASYMREG_DRAIN; a registration has 2^32 users; or a worker has 2^28 handles of the peer */
#define ASYMREG_EFULL (-25010)
/** an atomic on an address that is no multiple of its size */
#define ASYMREG_EALIGN  (-25011)
#define ASYMREG_ENOPEER (-25012) /**< no peer of this number has been imported */
/** the transport cannot reach this peer (another node, no permission); struct asymreg_error and
 * asymreg_resolve() give the reason */
#define ASYMREG_EUNREACH (-25013)
/** these bytes are no bootstrap blob: damaged, truncated, or something else */
#define ASYMREG_EBLOB (-25014)
/** a blob, table or transport of a version or byte order that this library does not know */
#define ASYMREG_EVERSION (-25015)
#define ASYMREG_ETABLE   (-25016) /**< the peer's published table contradicts itself */
/** the peer's table changed faster than it could be read; or the object is still in use */
#define ASYMREG_EBUSY      (-25017)
#define ASYMREG_ETRANSPORT (-25018) /**< the transport failed in a way that it could not name */
#define ASYMREG_ETIMEDOUT  (-25019) /**< the time given has passed */
/** @} */

/**
 * @name Permissions of a region
 * @{
 */
#define ASYMREG_READ   1u /**< peers may get */
#define ASYMREG_WRITE  2u /**< peers may put */
#define ASYMREG_ATOMIC 4u /**< peers may use atomics */
#define ASYMREG_RW     (ASYMREG_READ | ASYMREG_WRITE)
#define ASYMREG_ALL    (ASYMREG_READ | ASYMREG_WRITE | ASYMREG_ATOMIC)
/** @} */

/**
 * An identifier names one registration of a context; the context never uses it for another one. Two
 * contexts may use the same identifier, so in a job (PE, id) names a registration. Send the
 * identifier to the peer together with an address: then the peer uses this registration, and not a
 * later one of the same memory.
 *
 * The identifier has the region's *slot* (its place in the published table) in the lower 32 bits,
 * and the slot's *generation* in the upper 32. The generation is odd while a region is in the slot,
 * and grows with each change. A slot that has had its last generation is never used again.
 */
typedef uint64_t asymreg_id;

/** Any region that has the address. No region has this identifier. */
#define ASYMREG_ANY ((asymreg_id)0)

/** A region that asymreg_resolve() has found: a copy, which does not change later. */
struct asymreg_region {
    uint64_t start;    /**< address of its first byte, in the process that registered it */
    uint64_t last;     /**< address of its last byte: a region may end at 2^64 */
    asymreg_id id;     /**< this registration; never ASYMREG_ANY */
    uint32_t prot;     /**< ASYMREG_READ and so on */
    uint32_t reserved; /**< 0 */
    uint64_t value;    /**< its segment: number in the lower, generation in the upper 32 bits */
};

/** Most regions of a context. */
#define ASYMREG_MAX_REGIONS 0x4000000u
/** Most segments of a context. */
#define ASYMREG_MAX_SEGMENTS 0x4000000u

/** Where a context's memory comes from. Both functions must be set (else -EINVAL), and must be
 * MT-Safe. The allocator must outlive every object that was made with it. */
struct asymreg_allocator {
    /** allocates if ptr is NULL. The result is aligned as that of malloc(); NULL: no memory */
    void *(*realloc)(void *ctx, void *ptr, size_t bytes);
    void (*free)(void *ctx, void *ptr); /**< never of NULL */
    void *ctx;                          /**< first argument of both */
};

/**
 * What went wrong, in the caller's memory. Functions with a parameter of this type write it only on
 * failure; NULL is allowed.
 */
struct asymreg_error {
    int32_t code;      /**< the function's result */
    uint32_t pe;       /**< the peer concerned; UINT32_MAX: none */
    uint64_t addr;     /**< address of the memory concerned */
    uint64_t bytes;    /**< its length; 0: no memory is concerned */
    uint32_t reserved; /**< 0 */
    char text[228];    /**< one English sentence without a newline, for a person */
};

/**
 * @brief Explain an error code.
 * @param code  a negative value returned by this library (or 0)
 * @return a constant phrase without a newline, never NULL: in English, or libc's own
 *
 * MT-Safe. Allocates nothing.
 */
ASYMREG_API const char *asymreg_strerror(int code);

/** @brief Release of the library in use, such as "0.1.0". MT-Safe. */
ASYMREG_API const char *asymreg_version(void);

#ifdef __cplusplus
}
#endif
#endif /* ASYMREG_BASE_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file base.h
 * @brief What every part of librankmap shares: version, limits, errors, allocator.
 */
#ifndef RANKMAP_BASE_H
#define RANKMAP_BASE_H

#include <stddef.h>
#include <stdint.h>

/** Release of this header; rankmap_version() is that of the library in use. */
#define RANKMAP_VERSION_MAJOR 0
#define RANKMAP_VERSION_MINOR 1
#define RANKMAP_VERSION_PATCH 0
#define RANKMAP_VERSION       "0.1.0"

/* RANKMAP_API sets the visibility of the functions. A library that contains librankmap can hide
 * them: it defines RANKMAP_API as __attribute__((visibility("hidden"))) before it includes the
 * first header. */
#ifndef RANKMAP_API
#if defined(__GNUC__)
#define RANKMAP_API __attribute__((visibility("default")))
#else
#define RANKMAP_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Limits
 * @{
 */
#define RANKMAP_MAX_RANKS  UINT32_C(0xffffffff) /**< size of a map: ranks are 0 to 2^32 - 2 */
#define RANKMAP_ID_LIMIT   (UINT64_C(1) << 40)  /**< ids are below this */
#define RANKMAP_MAX_LEVELS 8u                   /**< levels of a formula: see map.h */
/** bytes of an entry that a lookup points at */
#define RANKMAP_MAX_WIDTH 65536u
#define RANKMAP_NO_RANK   UINT32_C(0xffffffff)         /**< no such rank, like MPI_UNDEFINED */
#define RANKMAP_NO_ID     UINT64_C(0xffffffffffffffff) /**< no such id */
/** @} */

/**
 * @name Error codes
 * A function that returns a code returns 0 or more on success, -ENOMEM, -EINVAL, or one of the
 * codes below. Their values never change.
 *
 * A function refuses an option struct with -EINVAL if the struct's `size` is below that of this
 * release or above 4,096, or if one of its bytes beyond the members of this release is not 0.
 * @{
 */
#define RANKMAP_EDUP (-23001) /**< an id, or a rank in a list, comes twice */
/** a rank, id, count or parameter is out of range, or a sum would be */
#define RANKMAP_ERANGE (-23002)
/** text that is not a list of ranks, a task map or a process mapping */
#define RANKMAP_ESYNTAX (-23003)
#define RANKMAP_EFORMAT (-23004) /**< bytes that are not a packed map */
/** no rank of this map has that id; or the address vector has no such process group */
#define RANKMAP_ENOENT  (-23005)
#define RANKMAP_ENOBUF  (-23006) /**< the caller's buffer is too small */
#define RANKMAP_ELEVELS (-23007) /**< a packed map has more than RANKMAP_MAX_LEVELS levels */
/** a tag does not fit the bits that the address vector's entries have for it */
#define RANKMAP_ETAG (-23008)
/** the address vector's range of ids has no room for the group, or no group number is left */
#define RANKMAP_EFULL (-23009)
/** the map has duplicate ids, so it has no inverse and is not an MPI group; for example a map from
 * ranks to nodes */
#define RANKMAP_ENOTINJECTIVE (-23010)
/** @} */

/**
 * @brief Explain an error code.
 * @param code  a value that this library returned: 0, a RANKMAP_E… code, or a negated errno
 * @return a constant phrase without a newline, never NULL: in English, or libc's own
 *
 * MT-Safe. Allocates nothing.
 */
RANKMAP_API const char *rankmap_strerror(int code);

/** @brief Release of the library in use, such as "0.1.0". MT-Safe. */
RANKMAP_API const char *rankmap_version(void);

/** What failed and where: the last parameter of functions that report more than a code. They fill
 * it in only if they fail. */
struct rankmap_error {
    int32_t code;      /**< the function's result */
    uint32_t reserved; /**< 0 */
    /** in a text: the byte where parsing stopped, or where a bad range begins. In an array: the
     * index of the bad element, or of the second of two equal elements. No place known: 2^64 - 1 */
    uint64_t where;
    uint64_t id;    /**< the bad id or rank; else #RANKMAP_NO_ID */
    char text[128]; /**< one English sentence without a newline */
};

/**
 * The source of memory: for maps, indexes, address vectors with their tables, and scratch.
 *
 *   - Both functions must be set. The library calls them in the thread that calls the library.
 *   - `realloc` of NULL allocates. It returns memory aligned as malloc() does, or NULL.
 *   - Objects keep a pointer to this struct, so it must outlive the last of them.
 */
struct rankmap_allocator {
    void *(*realloc)(void *ctx, void *ptr, size_t bytes);
    void (*free)(void *ctx, void *ptr);
    void *ctx;
};

#ifdef __cplusplus
}
#endif
#endif /* RANKMAP_BASE_H */

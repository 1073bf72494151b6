/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file base.h
 * @brief What every part of libstorwin shares: version, limits, allocator, errors.
 */
#ifndef STORWIN_BASE_H
#define STORWIN_BASE_H

#include <stddef.h>
#include <stdint.h>

/** Release of this header. storwin_version() returns the release of the library in use. */
#define STORWIN_VERSION_MAJOR 0
#define STORWIN_VERSION_MINOR 1
#define STORWIN_VERSION_PATCH 0
#define STORWIN_VERSION       "0.1.0"

#if defined(__GNUC__)
#define STORWIN_API __attribute__((visibility("default")))
#else
#define STORWIN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct storwin_window;

/**
 * @name Limits
 * @{
 */
/** bytes of one window, and of all segments of a shared one */
#define STORWIN_MAX_BYTES       (UINT64_C(1) << 46)
#define STORWIN_MAX_PATH        4095u    /**< bytes of a file name, without its NUL */
#define STORWIN_MAX_RANKS       65536u   /**< processes of a shared window */
#define STORWIN_MAX_STRIPES     65535u   /**< striping_factor */
#define STORWIN_MIN_BLOCK       4096u    /**< block_bytes */
#define STORWIN_MAX_BLOCK       1048576u /**< block_bytes */
#define STORWIN_MAX_GENERATIONS 16u      /**< storage_alloc_generations; at least 2 */
/** smallest budget of the user pager, bytes */
#define STORWIN_MIN_BUDGET (UINT64_C(1) << 20)
/** @} */

/**
 * Allocates handles and tables; a window's own memory is mapped.
 *   - Both functions must be set. Otherwise a call with this allocator returns -EINVAL.
 *   - The allocator must outlive every object made with it. The library's threads call it too.
 *   - Neither the allocator's state nor the memory that it returns may lie in a window with the
 *     user pager: the threads that serve that window's faults call the allocator under the pager's
 *     lock, and would deadlock.
 */
struct storwin_allocator {
    /** as realloc(): NULL allocates; aligned as malloc() aligns; returns NULL without memory */
    void *(*realloc)(void *ctx, void *ptr, size_t bytes);
    void (*free)(void *ctx, void *ptr); /**< never of NULL */
    void *ctx;
};

/* ---------- errors */

/**
 * Detail of a failure, in the caller's memory. Functions with a parameter of this type write it
 * only on failure; NULL is allowed.
 */
struct storwin_error {
    int32_t code;    /**< the function's result */
    char hint[32];   /**< key of the hint that caused it, such as "storage_alloc_filename"; or "" */
    uint64_t offset; /**< failed sync: first byte of the window that may not be durable */
    uint64_t bytes;  /**< failed sync: length of that range; 0: the failure concerns no range */
    char text[232];  /**< one English sentence without a newline, for a person */
};

/**
 * @name Results
 * Functions return 0 or more on success, `-errno` for a system cause, or one of the library's own
 * negative codes. The values never change.
 *
 * A function refuses an option struct with -EINVAL in two cases: its size is below that of this
 * release or above 4,096 bytes, or it has bytes other than 0 behind the members that this release
 * knows.
 * @{
 */
#define STORWIN_PENDING 1        /**< not an error: the sync has not completed */
#define STORWIN_UNKNOWN 2        /**< not an error: no hint of this library has this key */
#define STORWIN_EVALUE  (-24001) /**< the value of a hint or option is not allowed */
/** a required hint is missing: storage without a file name */
#define STORWIN_EMISSING  (-24002)
#define STORWIN_ECONFLICT (-24003) /**< two hints that exclude each other */
/** the device, or the file of a shared window, ends before the window; or a file was shortened */
#define STORWIN_ESHORT (-24004)
#define STORWIN_ETYPE  (-24005) /**< neither a regular file nor a block device */
/** a link, or a file in a shared directory, that belongs to another user */
#define STORWIN_EOWNER (-24006)
/** this kernel, or its settings, do not allow the user pager */
#define STORWIN_EPAGER  (-24007)
#define STORWIN_ERANGE  (-24008) /**< offset and length do not lie within the window */
#define STORWIN_ESYNTAX (-24009) /**< a hint string that is not `key=value;key=value` */
/** the file has other content than commits, or has commits but the window has no
 * storage_alloc_atomic, or its state is longer than the window */
#define STORWIN_EFORMAT  (-24010)
#define STORWIN_ENONE    (-24011) /**< the file has no commit, or not the requested one */
#define STORWIN_EVERSION (-24012) /**< another version of the application wrote the state */
/** not allowed in this state (such as a commit of a window without storage_alloc_atomic, or a sync
 * while one is pending), or in a child of the process */
#define STORWIN_ESTATE (-24013)
#define STORWIN_EBUSY  (-24014) /**< in use: still attached, or opened by another process */
#define STORWIN_ENOWIN (-24015) /**< the window is not attached */
/** committed data do not match their checksums; the text of the error names the newest generation
 * that is whole, if there is one */
#define STORWIN_EDAMAGED (-24016)
#define STORWIN_ERACE    (-24017) /**< stores during a commit; nothing was committed */
/** @} */

/**
 * @brief Explain a result.
 * @param code  a value returned by this library
 * @return a constant English phrase without a newline, never NULL
 *
 * MT-Safe. Allocates nothing.
 */
STORWIN_API const char *storwin_strerror(int code);

/** @brief Release of the library in use, such as "0.1.0". MT-Safe. */
STORWIN_API const char *storwin_version(void);

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_BASE_H */

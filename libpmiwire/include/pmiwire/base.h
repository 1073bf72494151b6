/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file base.h
 * @brief What every part of libpmiwire shares: version, strings, errors, allocator.
 */
#ifndef PMIWIRE_BASE_H
#define PMIWIRE_BASE_H

#include <stddef.h>
#include <stdint.h>

/** Release of this header. pmiwire_version() returns the release of the library in use. */
#define PMIWIRE_VERSION_MAJOR 0
#define PMIWIRE_VERSION_MINOR 1
#define PMIWIRE_VERSION_PATCH 0
#define PMIWIRE_VERSION       "0.1.0"

#if defined(__GNUC__)
#define PMIWIRE_API __attribute__((visibility("default")))
#else
#define PMIWIRE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Error codes
 * Functions return 0 or more on success, `-errno` for a system cause (only `-ENOMEM`, `-EINVAL` and
 * `-EAGAIN` occur), or one of these. The values never change.
 *
 * A function refuses an option struct or a table of callbacks with -EINVAL in three cases: the
 * member `size` is below the size of this release's struct; `size` is above 4,096; or a byte behind
 * this release's members is not 0.
 * @{
 */
/** PMI-2 length is not a positive decimal of at most 6 characters */
#define PMIWIRE_EBADLEN (-21001)
#define PMIWIRE_ETOOBIG (-21002) /**< message longer than the limit given */
#define PMIWIRE_ENUL    (-21003) /**< a NUL byte inside a message */
/** message does not begin with `cmd=` or `mcmd=` and a name */
#define PMIWIRE_ENOCMD   (-21004)
#define PMIWIRE_ENOEQ    (-21005) /**< a word without `=` */
#define PMIWIRE_EEMPTY   (-21006) /**< an empty key, or an empty value where one is needed */
#define PMIWIRE_EUNTERM  (-21007) /**< a PMI-2 body that does not end with `;` */
#define PMIWIRE_EFIELDS  (-21008) /**< more fields than the array has, or than the limit */
#define PMIWIRE_EUNKNOWN (-21009) /**< unknown command */
#define PMIWIRE_EMISSING (-21010) /**< a mandatory field is missing */
#define PMIWIRE_EDUP     (-21011) /**< repeats a field that is allowed once */
/** not a number (or truth value) where one is needed, or out of its range */
#define PMIWIRE_ETYPE       (-21012)
#define PMIWIRE_EKEYLEN     (-21013) /**< key longer than the maximum */
#define PMIWIRE_EVALLEN     (-21014) /**< value longer than the maximum */
#define PMIWIRE_ECHARS      (-21015) /**< a byte that this wire or this peer cannot carry */
#define PMIWIRE_ELINE       (-21016) /**< message longer than this peer can read */
#define PMIWIRE_EPEERFIELDS (-21017) /**< more fields than this peer can read */
/** an extra field with a name that some peer gives a meaning */
#define PMIWIRE_ERESERVED (-21018)
#define PMIWIRE_ENOBUF    (-21019) /**< the caller's buffer is too small */
#define PMIWIRE_ESTATE    (-21020) /**< call or command not allowed in this state */
#define PMIWIRE_EPROTO    (-21021) /**< the peer's answer does not fit the request */
#define PMIWIRE_EVERSION  (-21022) /**< the other side does not speak this version */
#define PMIWIRE_EMAPPING  (-21023) /**< syntax error in a process mapping */
/** a process mapping that is too long, or has numbers out of range */
#define PMIWIRE_EMAPSIZE (-21024)
#define PMIWIRE_ENOENT   (-21025) /**< no such key, name, job or attribute */
#define PMIWIRE_EEXIST   (-21026) /**< name already published, or rank already connected */
#define PMIWIRE_ESLOW    (-21027) /**< a client that does not read its replies */
#define PMIWIRE_ESTALL   (-21028) /**< a client silent in the middle of a message */
#define PMIWIRE_EEOF     (-21029) /**< the connection ended in the middle of a conversation */
#define PMIWIRE_ESTALE   (-21030) /**< the request of this token has ended */
#define PMIWIRE_EPEER    (-21031) /**< the peer refused; the event's peer_rc has its own code */
#define PMIWIRE_ELOST    (-21032) /**< a node of the job is lost */
#define PMIWIRE_ETIME    (-21033) /**< no answer within the time given */
#define PMIWIRE_EGONE    (-21034) /**< a rank that the operation needs is gone (server.h) */
/** @} */

/**
 * @name Framings of a message (codec.h)
 * @{
 */
#define PMIWIRE_V1      1u
#define PMIWIRE_V2      2u
#define PMIWIRE_V1_MCMD 3u
/** @} */

/** Not an error: the answer comes later (see server.h). */
#define PMIWIRE_PENDING 1

/** @name Hints of a Put: who will read the key (exchange.h)
 * @{ */
#define PMIWIRE_HINT_NONE   0u /**< unknown: the exchange decides by its opts.unhinted */
#define PMIWIRE_HINT_SPARSE 1u /**< few ranks */
#define PMIWIRE_HINT_DENSE  2u /**< most ranks */
/** @} */

/** @name Where a Get looks (exchange.h)
 * @{ */
#define PMIWIRE_GET_LOCAL 0u /**< PMI's own Get: on this node only */
/** on this node, then at the key's home node, which answers at once */
#define PMIWIRE_GET_REMOTE 1u
/** as REMOTE, but wait at the home until a rank puts the key, or no rank is left that could */
#define PMIWIRE_GET_WAIT 2u
/** @} */

/**
 * A view of bytes that somebody else owns, not terminated by NUL. An absent string is `{NULL, 0}`.
 * A string that is present and empty has a pointer.
 */
struct pmiwire_str {
    const char *ptr;
    size_t len; /**< bytes */
};

/** @brief View of a NUL-terminated string; of NULL: the absent view. MT-Safe. */
static inline struct pmiwire_str pmiwire_strz(const char *s)
{
    struct pmiwire_str v = {s, 0};

    if (s)
        while (s[v.len])
            v.len++;
    return v;
}

/** A key and a value, both views. */
struct pmiwire_keyval {
    struct pmiwire_str key;
    struct pmiwire_str value;
};

/**
 * Where sessions, servers and exchanges get memory. `realloc` and `free` must be set: otherwise the
 * function that takes the allocator returns -EINVAL.
 *   - `realloc` of NULL allocates; blocks are aligned as malloc() aligns them.
 *   - The allocator outlives every object that was made with it.
 */
struct pmiwire_allocator {
    void *(*realloc)(void *ctx, void *ptr, size_t bytes);
    void (*free)(void *ctx, void *ptr);
    void *ctx;
};

/**
 * Detail of an error. A call whose last parameter points to one fills it in only on failure. The
 * parameter may be NULL.
 */
struct pmiwire_error {
    int32_t code;     /**< PMIWIRE_E* or -errno, as returned */
    uint16_t command; /**< PMIWIRE_V1_* or PMIWIRE_V2_* (command.h), 0 none */
    uint16_t field;   /**< PMIWIRE_F_*, 0 none */
    size_t offset;    /**< bytes from the start of the input, if known, else 0 */
    char text[160];   /**< `put: a mandatory field is missing: field "key"` */
};

/**
 * @brief Explain an error code.
 * @param code  PMIWIRE_E*, -errno (libc's text), or 0
 * @return a constant phrase without a newline, never NULL; in English, for -errno libc's own text
 *
 * MT-Safe. Allocates nothing.
 */
PMIWIRE_API const char *pmiwire_strerror(int code);

/** @brief Release of the library in use, such as "0.1.0". MT-Safe. */
PMIWIRE_API const char *pmiwire_version(void);

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_BASE_H */

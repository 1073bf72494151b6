/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file storwin.h
 * @brief Windows over memory and storage: one address range in memory, on a file or block device,
 *        or both; selective sync; atomic commits, which are checkpoints too; a pager.
 *
 * A *window* is an address range that a program accesses with plain loads and stores, or exposes to
 * other processes for one-sided communication. Options, or the string hints of MPI storage windows,
 * place its bytes: in memory, in a file or block device, or part in each.
 *
 *   - *Allocation* reserves the space. A full disk, a short device, a limit or a missing permission
 *     fails storwin_alloc(), and raises no SIGBUS later.
 *   - A *sync* makes earlier stores durable. A store is not durable before a sync returns.
 *   - A *commit* is a sync of all or nothing: whenever the program or the machine stops, the file
 *     holds the last commit or the previous one, whole. A checkpoint is a commit, and its cost is
 *     proportional to the changes.
 *   - The *pager* keeps the storage part: in the page cache (kernel, the default); all of it in
 *     private memory (resident: exact and fast syncs); or in private memory of a bounded size
 *     (user: for windows many times larger than memory).
 *
 * For random accesses out of core, the kernel pager with STORWIN_ACCESS_RANDOM in a control group
 * is the fastest. The user pager reaches 0.2 to 0.7 of its rate in most runs, because each fault
 * wakes a thread and the first store into a page faults again; it reaches 16 to 60 times the rate
 * of the kernel pager without advice. Choose it to bound memory without a control group, and for
 * syncs that write only the changed pages.
 *
 *     storwin_opts_init(&opts);
 *     opts.alloc_type = STORWIN_STORAGE;
 *     opts.filename = "half.win";
 *     opts.flags = STORWIN_UNLINK;
 *     rc = storwin_opts_set(&opts, "storage_alloc_factor", "0.5", &err);
 *     if (rc == 0)
 *         rc = storwin_alloc(&opts, 8 << 20, &win, &err);
 *     if (rc < 0) {
 *         fprintf(stderr, "half: %s: %s\n", err.hint, err.text);
 *         return 1;
 *     }
 *     memset(storwin_base(win), 'x', 8 << 20);
 *     rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
 *
 * This is not an MPI library (examples/swmpi interposes on one), and it does not lock out processes
 * that write the same bytes. Limits and caveats are at the end of this file.
 *
 * Source: "MPI Windows on Storage for HPC Applications", sections 2.1 (windows, hints), 4
 * (checkpoints by two windows) and 6 (a user-level pager, its future work). Reservation, selective
 * sync, asynchronous sync and error reports are ours.
 */
#ifndef STORWIN_H
#define STORWIN_H

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
struct storwin_allocator;
struct storwin_error;

/* ---------- windows */

/** Options of a window. Begin with storwin_opts_init(): some defaults are not 0. */
struct storwin_opts {
    size_t size;          /**< sizeof(struct storwin_opts), set by storwin_opts_init() */
    uint32_t alloc_type;  /**< STORWIN_MEMORY (default) or STORWIN_STORAGE. With STORWIN_MEMORY,
                             only STORWIN_MEMFD and the allocator of the options below have an
                             effect */
    uint32_t order;       /**< STORWIN_MEMORY_FIRST (default) or STORWIN_STORAGE_FIRST */
    const char *filename; /**< path of a file or block device, not NULL for storage; read during the
                             call only */
    uint64_t offset_bytes; /**< offset of the window in the file or device: a multiple of the page
                              size */
    uint32_t factor_ppb;   /**< part on storage in billionths, rounded to the nearest page, half a
                            page upwards; default: all */
    uint32_t access_style; /**< STORWIN_ACCESS_ bits; 0: unknown */
    uint32_t file_perm;    /**< permissions of a new file, 0 to 0777 less the umask; default 0600 */
    uint32_t striping_factor; /**< devices to stripe a new file across, up to STORWIN_MAX_STRIPES;
                                 0: leave as is */
    uint32_t striping_unit;   /**< bytes of a stripe, a multiple of 65,536; 0: leave as is */
    uint32_t pager;           /**< STORWIN_PAGER_KERNEL (default), _RESIDENT or _USER */
    uint32_t flags;           /**< STORWIN_UNLINK, STORWIN_DISCARD, STORWIN_SPARSE, STORWIN_MEMFD */
    uint32_t n_threads; /**< threads that write back or page, at most 64; 0: the library chooses */
    uint64_t memory_bytes; /**< STORWIN_FACTOR_AUTO: most bytes of the memory part; 0: the memory
                              available now, less an eighth */
    uint64_t budget_bytes; /**< STORWIN_PAGER_USER: resident bytes, at least STORWIN_MIN_BUDGET; 0:
                              a quarter of the available memory */
    const struct storwin_allocator *allocator; /**< for handles and tables; NULL: libc */
    uint32_t atomic;      /**< STORWIN_ATOMIC_ : how storwin_commit() writes; default _NONE */
    uint32_t changes;     /**< STORWIN_CHANGES_ : how a commit finds changes; default _TRACKED */
    uint64_t generation;  /**< with `atomic`: open the newest commit whose generation is at most
                            this; 0: the newest */
    uint64_t block_bytes; /**< STORWIN_PAGER_USER: unit of reading and eviction: a power of 2
                             from 4,096 to 1,048,576; rounded up to a page, and down to a sixteenth
                             of the budget; 0: by access_style */
    uint64_t app_version; /**< with `atomic`: the caller's version number of the state's format,
                             stored with the first commit; 0: the file's */
};

/**
 * @brief Set every option to its default: a window in memory.
 * @param opts  the caller's struct
 * MT-Safe on distinct objects. Allocates nothing.
 */
STORWIN_API void storwin_opts_init(struct storwin_opts *opts);

/**
 * @brief Set the option that one hint names.
 *
 * HINTS.md lists keys and values; both are case-sensitive. A later call for the same key replaces
 * the earlier value, as MPI_Info_set() does.
 *
 * @param opts   options to change; unchanged unless the result is 0
 * @param key    such as "storage_alloc_factor"
 * @param value  such as "0.5"; for storage_alloc_filename, the string must live until the window
 *               is allocated
 * @param err    detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_UNKNOWN: this library has no such hint; ignore it, as MPI does
 *   - STORWIN_EVALUE: the value is not allowed
 *   - -EINVAL: a NULL argument, or options of a wrong size
 *
 * MT-Safe on distinct objects. Allocates nothing. Independent of the locale.
 */
STORWIN_API int storwin_opts_set(struct storwin_opts *opts, const char *key, const char *value,
                                 struct storwin_error *err);

/**
 * @brief Allocate a window.
 *
 *   - A new file is created together with its space, or not at all.
 *   - An existing file that ends before the window does is grown.
 *   - A relative path starts at the working directory.
 *   - Symbolic links are followed only if they belong to the caller or to root.
 *   - A killed process may leave direct writes to the range in flight. The call waits for them up
 *     to 120 s, then fails with STORWIN_EBUSY. It waits in the same way for a sync of another
 *     window on the range.
 *   - Memory and new files read as zeros. The base is page-aligned.
 *
 * @param opts   options; NULL: a window in memory
 * @param bytes  length of the window, 0 to STORWIN_MAX_BYTES. A window of 0 bytes has the base
 *               NULL.
 * @param win    receives the window, untouched on failure
 * @param err    detail on failure, or NULL; `hint` names the hint that caused it
 * @return
 *   - 0
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options are wrong
 *   - STORWIN_ESHORT, STORWIN_ETYPE, STORWIN_EOWNER: the file or device is refused
 *   - STORWIN_EPAGER: userfaultfd is not available
 *   - STORWIN_EBUSY: direct writes of another process to the range do not end
 *   - STORWIN_EDAMAGED, STORWIN_EFORMAT, STORWIN_EVERSION, STORWIN_ENONE, STORWIN_EBUSY: with
 *     storage_alloc_atomic, the state of the file; see storwin_commit()
 *   - -ENOSPC: full; -EFBIG: over the limit of the process (RLIMIT_FSIZE) or the file system
 *   - -ENOMEM; -EINVAL; any error of open()
 *
 * @threads   MT-Safe.
 * @allocates the window and its handle; the pagers resident and user also allocate their tables.
 * @cost      system calls. The resident pager also reads the file, and clears the memory that the
 *            file does not fill.
 * @source    section 2.1, MPI_Win_allocate; reservation and clean-up are ours.
 */
STORWIN_API int storwin_alloc(const struct storwin_opts *opts, uint64_t bytes,
                              struct storwin_window **win, struct storwin_error *err);

/**
 * @brief First address of a window, or of this rank's segment of a shared one. NULL for 0 bytes.
 * @param win  a window, or NULL
 * MT-Safe.
 */
STORWIN_API void *storwin_base(const struct storwin_window *win);

/** Length of a range that ends where the window does. */
#define STORWIN_TO_END UINT64_MAX

/**
 * @brief Make earlier stores to a range durable, and also the name of a file that the window
 *        created. Writes every page that overlaps the range.
 *
 * After a failure:
 *   - The call reports it once. `offset` and `bytes` of the error span the bytes that may not be
 *     durable.
 *   - That range counts as changed, and the next sync writes it again. With the pagers kernel and
 *     user, this holds for the pages that are still in memory.
 *   - With the kernel pager, if a second attempt does not fail again, the error spans the whole
 *     range of the call.
 *   - With the kernel pager on ext4, the next sync of any part of that range writes it past the
 *     page cache, since ext4 itself would lose it. While that call runs, nothing may store into the
 *     4 MiB blocks of the file (aligned to 4 MiB) that the range touches: no thread of any process,
 *     no system call and no device. Such a store may be lost without an error. Stores during the
 *     sync that fails, and between the two syncs, are safe.
 *
 * @param win     a window; its memory part is ignored
 * @param offset  first byte, relative to the window
 * @param bytes   length, or STORWIN_TO_END; 0 does nothing
 * @param err     detail on failure, or NULL
 * @return
 *   - 0
 *   - -EIO, -ENOSPC, …: from the device or file system
 *   - STORWIN_ESHORT: the file was shortened
 *   - STORWIN_ERANGE
 *   - STORWIN_ESTATE: an asynchronous sync is pending, or the window belongs to another process
 *
 * @threads   One sync of a window at a time; loads and stores may continue (see the caveats).
 * @allocates Possibly, for requests in flight; without memory it continues with fewer.
 * @cost      writing the changed pages; with the resident pager also a scan of the page tables,
 *            about 1 ms a GiB.
 * @source    section 2.1, MPI_Win_sync; selection, parallel writing and error ranges are ours
 */
STORWIN_API int storwin_sync(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                             struct storwin_error *err);

/**
 * @brief Free a window: sync it unless STORWIN_DISCARD was set, unmap it, and remove the file if
 *        STORWIN_UNLINK was set (which also skips the sync).
 * @param win  a window, or NULL. Every result except STORWIN_EBUSY and STORWIN_ESTATE frees the
 *             window.
 * @param err  detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_EBUSY: still attached to a dynamic window, or a sync is pending; nothing was done
 *   - STORWIN_ESTATE: the window belongs to another process; nothing was done
 *   - any error of storwin_sync() or unlink()
 *
 * @threads No other thread uses the window during the call or afterwards.
 */
STORWIN_API int storwin_free(struct storwin_window *win, struct storwin_error *err);

/**
 * @name Values of options
 * @{
 */
#define STORWIN_MEMORY  0u /**< alloc_type: memory */
#define STORWIN_STORAGE 1u /**< alloc_type: storage, or both (see factor_ppb) */

#define STORWIN_MEMORY_FIRST  0u /**< order: the low addresses are memory */
#define STORWIN_STORAGE_FIRST 1u /**< order: the low addresses are storage */

#define STORWIN_PAGER_KERNEL   0u /**< shared mapping through the page cache */
#define STORWIN_PAGER_RESIDENT 1u /**< all in private memory, written back by sync */
#define STORWIN_PAGER_USER     2u /**< bounded private memory, paged by this library */

#define STORWIN_ATOMIC_NONE    0u /**< no commits */
#define STORWIN_ATOMIC_JOURNAL 1u /**< commits append to a journal until it is full */
#define STORWIN_ATOMIC_SLOTS   2u /**< each commit updates the older of two copies */
/** the journal if less than 40 % changed, else the older copy */
#define STORWIN_ATOMIC_AUTO 3u

#define STORWIN_CHANGES_TRACKED 0u /**< by this process's page tables, and storwin_touched() */
/** by storwin_touched() alone: a commit omits undeclared stores */
#define STORWIN_CHANGES_DECLARED 1u
/** by comparing checksums of the whole window, about 0.1 s a GiB */
#define STORWIN_CHANGES_COMPARED 2u

/** factor_ppb of a window wholly on storage */
#define STORWIN_FACTOR_ONE UINT32_C(1000000000)
/** factor_ppb: as much in memory as is available, all other pages on storage */
#define STORWIN_FACTOR_AUTO UINT32_MAX

/** access_style bits, the words of the MPI standard */
#define STORWIN_ACCESS_READ_ONCE    (1u << 0)
#define STORWIN_ACCESS_WRITE_ONCE   (1u << 1)
#define STORWIN_ACCESS_READ_MOSTLY  (1u << 2)
#define STORWIN_ACCESS_WRITE_MOSTLY (1u << 3)
#define STORWIN_ACCESS_SEQUENTIAL   (1u << 4)
#define STORWIN_ACCESS_REVERSE      (1u << 5) /**< reverse_sequential */
#define STORWIN_ACCESS_RANDOM       (1u << 6)

/** flags: remove the file when the window is freed. If the name is a symbolic link of the caller's,
 * this removes the target, not the link. No effect on devices. */
#define STORWIN_UNLINK (1u << 0)
/** flags: do not sync when the window is freed */
#define STORWIN_DISCARD (1u << 1)
/** flags: reserve no space; a full disk then causes a SIGBUS or a failed sync */
#define STORWIN_SPARSE (1u << 2)
/** flags: memory has a descriptor that others can map (storwin_part_query()); also without storage
 */
#define STORWIN_MEMFD (1u << 3)
/** @} */

/**
 * Allocates handles and tables; a window's own memory is mapped.
 *   - Both functions must be set: otherwise a call that takes the allocator returns -EINVAL.
 *   - The allocator outlives every object made with it. The library's threads call it too.
 *   - Neither its own state nor the memory that it returns may lie in a window with the user pager:
 *     the threads that serve that window's faults call it under the pager's lock, and would
 *     deadlock.
 */
struct storwin_allocator {
    /** as realloc(): NULL allocates; aligned as malloc() aligns; returns NULL without memory */
    void *(*realloc)(void *ctx, void *ptr, size_t bytes);
    void (*free)(void *ctx, void *ptr); /**< never of NULL */
    void *ctx;
};

/* ---------- errors */

/**
 * Detail of a failure, in the caller's memory. Functions that take one write it on failure only;
 * NULL is allowed.
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
 * negative codes. The values never change. An option struct is refused with -EINVAL if it is
 * shorter than this release's, longer than 4,096 bytes, or has a byte other than 0 that this
 * release does not know.
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
/** the file has content other than commits, or a state longer than the window */
#define STORWIN_EFORMAT  (-24010)
#define STORWIN_ENONE    (-24011) /**< the file has no commit, or not the requested one */
#define STORWIN_EVERSION (-24012) /**< another version of the application wrote the state */
/** not allowed now (a commit of a window without commits, a sync while one is pending), or not
 *  allowed in a child of the process */
#define STORWIN_ESTATE (-24013)
#define STORWIN_EBUSY  (-24014) /**< in use: still attached, or opened by another process */
#define STORWIN_ENOWIN (-24015) /**< the window is not attached */
/** committed data do not match their checksums; the text names the previous generation if that is
 * whole */
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

/* ---------- hints in strings */

/** A key and a value, NUL-terminated, as MPI_Info_get() gives them. */
struct storwin_hint {
    const char *key;
    const char *value;
};

/**
 * @brief Split the string `key=value;key=value` into hints, for storwin_opts_set() one by one.
 *
 * Empty pieces and a `;` at the end are allowed. Blanks around a key or a value are dropped. A
 * value may contain `=` but no `;`.
 *
 * @param text     the caller's string; the call writes NULs into it, also on failure, and the hints
 *                 point into it
 * @param hints    array of cap_hints
 * @param cap_hints  its length
 * @param err      detail on failure, or NULL
 * @return
 *   - the number of hints
 *   - STORWIN_ESYNTAX: a piece without `=` or with an empty key
 *   - -ENOBUFS: more than cap_hints
 *   - -EINVAL
 *
 * MT-Safe on distinct objects. Allocates nothing.
 */
STORWIN_API int storwin_hints_split(char *text, struct storwin_hint *hints, size_t cap_hints,
                                    struct storwin_error *err);

/**
 * @brief The hint keys of this library, for callers that pass each to MPI_Info_get().
 * @param i  from 0
 * @return the i-th key, or NULL past the last
 * MT-Safe. Allocates nothing.
 */
STORWIN_API const char *storwin_hint_key(size_t i);

/* ---------- asynchronous sync: for a runtime with a progress loop of its own */

/**
 * @brief Start a sync of a range and return; a thread does the work.
 *
 * Stores made before the call are durable when the sync completes; later ones may be. A window has
 * at most one asynchronous sync.
 *
 * @param win     a window
 * @param offset  first byte
 * @param bytes   length, or STORWIN_TO_END
 * @param err     detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ERANGE
 *   - STORWIN_ESTATE: an asynchronous sync is pending, or its result was not collected; or as
 *     storwin_sync()
 *   - -EAGAIN: the system has no thread to give
 *
 * @threads MT-Safe on distinct objects.
 */
STORWIN_API int storwin_sync_start(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                                   struct storwin_error *err);

/**
 * @brief Test whether the asynchronous sync has completed, and collect its result if it has.
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return STORWIN_PENDING; 0: complete; STORWIN_ESTATE: none was started; or the sync's error
 * MT-Safe on distinct objects. Never blocks.
 */
STORWIN_API int storwin_sync_test(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Wait for the asynchronous sync and collect its result.
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return 0; STORWIN_ESTATE: none was started; or the sync's error
 * MT-Safe on distinct objects.
 */
STORWIN_API int storwin_sync_wait(struct storwin_window *win, struct storwin_error *err);

/* ---------- atomic commits */

/**
 * @brief Commit a window: all of its storage part as it is now, or none of it.
 *
 * It works on adopted windows, and on windows with storage_alloc_atomic and the pager resident.
 * After it has returned 0, a crash at any moment leaves the file at this commit or a later one,
 * whole. Any other result leaves it at the previous commit or at this one, whole. The window's
 * addresses never change.
 *
 *   - With another pager storage_alloc_atomic fails with STORWIN_ECONFLICT. The pagers kernel and
 *     user write pages to their places in the file between commits, as memory runs short, and a
 *     commit needs the last state whole there. A pager that evicts to other places would have to
 *     know each page's place, and opening a window reads all of it and compares checksums: the
 *     pager user does neither.
 *   - A commit has a *generation*: 1 for the first, and one more for each commit that found a
 *     change. storwin_query() returns it. Without changes the call writes nothing.
 *   - No thread may store into the window during the call. Such a store is detected: STORWIN_ERACE,
 *     and nothing is committed; call again. Two kinds of stores are not detected: with
 *     STORWIN_CHANGES_DECLARED or _COMPARED, a store that is undone during the call; with _TRACKED,
 *     a device's store into a page that storwin_touched() has never named.
 *   - After a failure all earlier changes still count as changes; the next commit writes all of
 *     them.
 *   - storwin_sync() of any range of such a window, storwin_sync_start() and storwin_free() commit.
 *
 * Opening the file:
 *   - storwin_alloc() or storwin_adopt() restores the newest generation. The window may be longer
 *     than the stored state: the memory behind the state keeps its content. A shorter window is
 *     STORWIN_EFORMAT; storwin_file_query() returns the stored length.
 *   - A file keeps the app_version of its first commit. Opening it with another version fails with
 *     STORWIN_EVERSION, and does not change the file.
 *   - The file is locked while the window lives, or a child of fork() holds its descriptors. A
 *     killed process keeps the lock until its writes end: storwin_alloc() waits for it up to 10 s.
 *     Windows without storage_alloc_atomic ignore the lock, and overwrite the commits.
 *   - Commits follow the open file and not its name: after the file was removed or replaced they
 *     return 0, and no later call finds them.
 *
 * Damage:
 *   - A damaged record or block is detected. STORWIN_EDAMAGED names the newest generation that is
 *     whole, and the hint storage_alloc_generation opens it.
 *   - The generation before the newest can be opened in that way unless a commit after the newest
 *     failed or was interrupted; older generations can while the journal has them. The first commit
 *     after that discards the newer generations, even if nothing was stored, and possibly if it
 *     fails. storwin_free() is such a commit unless STORWIN_DISCARD is set.
 *   - With STORWIN_ATOMIC_SLOTS the two generations share no byte: damage of one leaves the other.
 *     With a journal, a damaged block of a copy damages every generation that builds on it.
 *   - If the file was shortened, the next commit writes all of it; a crash before may lose
 *     everything.
 *
 * Space: a file holds two copies of the window, and a journal of the same length unless
 * STORWIN_ATOMIC_SLOTS is set; LAYOUT.md describes it. A window longer than the stored state places
 * its copies and journal behind three times the old length, and overwrites any content of the file
 * there.
 *
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ERACE: see above
 *   - STORWIN_ESTATE: the window has no storage_alloc_atomic, an asynchronous sync is pending, or
 *     it belongs to another process
 *   - -ENOMEM, -EIO, -ENOSPC, …: the file still has the previous commit (after the first call that
 *     follows the opening of an older generation, it may have that generation)
 *
 * @threads   One commit or sync of a window at a time; no stores during the call.
 * @allocates 16 bytes for each 4,096 bytes that changed, during the call.
 * @cost      the changed pages, written once, and two flushes of the device. When the journal is
 *            full, or more than 40 % changed, the call updates the other copy instead.
 * @source    ours; the two copies are section 4's swap of two windows
 */
STORWIN_API int storwin_commit(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Commit a window under a generation that the caller chooses, to commit several windows as
 *        one.
 *
 * As storwin_commit(), but a call without changes makes a generation too. To commit several windows
 * together, of one process or of several:
 *
 *   1. Choose a number above every window's storwin_info.newest_generation. (If both copies of the
 *      newest record are damaged, that is only one above the generation before.)
 *   2. Commit all windows but one under this number. Continue when every call has returned 0. (With
 *      MPI: each rank commits its own, then reduces the results.)
 *   3. Commit the last window, which *decides*: once that has returned 0, the commit is valid for
 *      all.
 *
 * Repeat a call that failed under the same number, without a store in between. If it fails for
 * good, free the windows with STORWIN_DISCARD set and open them as after a crash: beginning another
 * number before the last window has decided may lose the previous commit.
 *
 * After a crash, open every window and take the smallest of their generations. Every window has
 * that generation, since the next one begins only after the last window has decided. Open windows
 * with another generation again, with storage_alloc_generation set to the smallest. Two cases are
 * the caller's errors:
 *
 *   - A window still has another generation (storwin_query()): storage_alloc_generation had opened
 *     an older generation, and a crash came before every window had committed after that. Open all
 *     windows with that older generation.
 *   - A window has no commit while another has several: its file was lost. Taking 0 as the smallest
 *     would discard everything.
 *
 * @param win         a window
 * @param generation  above every generation that the file has seen, below 2^63
 * @param err         detail on failure, or NULL
 * @return as storwin_commit(); STORWIN_EVALUE: the number is not allowed
 * @threads One commit or sync of a window at a time; no stores during the call.
 * @source  ours; one record that decides, as the two-window swap has for one window
 */
STORWIN_API int storwin_commit_as(struct storwin_window *win, uint64_t generation,
                                  struct storwin_error *err);

/**
 * @brief Make existing memory a window with commits.
 *
 * If the file holds a commit, the call copies it into the memory. Otherwise the memory keeps its
 * content, and the first commit writes all of it. After a failure the content of the memory is
 * undefined.
 *
 *   - Any memory works: malloc(), a mapping, huge pages, a segment shared with others. Page-aligned
 *     memory is written past the page cache.
 *   - This process's page tables show its stores (STORWIN_CHANGES_TRACKED). They do not show stores
 *     of other processes and of devices, such as a network adapter's into registered memory:
 *     declare those with storwin_touched(), or set STORWIN_CHANGES_COMPARED. For a shared mapping
 *     STORWIN_CHANGES_TRACKED fails with -EOPNOTSUPP; for a part that the program later maps anew
 *     as shared, each commit fails with STORWIN_ERACE.
 *   - Where the kernel cannot track (before Linux 6.7, or private huge pages), commits compare.
 *
 * @param ptr    the memory: remains the caller's, and outlives the window
 * @param bytes  its length, 1 to STORWIN_MAX_BYTES / 4
 * @param opts   as for storwin_alloc(), wholly on storage; `atomic` defaults to
 *               STORWIN_ATOMIC_AUTO
 * @param win    receives the window, untouched on failure
 * @param err    detail on failure, or NULL
 * @return
 *   - 0
 *   - -EFAULT: part of the memory is not mapped or not writable
 *   - -EOPNOTSUPP: `changes` cannot work for this memory
 *   - or as storwin_alloc()
 *
 * @threads   MT-Safe; no thread stores into the memory during the call.
 * @allocates the handle, and 8 bytes for each 4,096 of the window.
 * @source    ours
 */
STORWIN_API int storwin_adopt(void *ptr, uint64_t bytes, const struct storwin_opts *opts,
                              struct storwin_window **win, struct storwin_error *err);

/**
 * @brief Declare stores to a range that page tables do not show.
 *
 * Call it after the stores and before the commit that must include them.
 *
 * @param win     a window with storage_alloc_atomic
 * @param offset  first byte
 * @param bytes   length, or STORWIN_TO_END
 * @return 0; STORWIN_ERANGE; STORWIN_ESTATE: the window has no commits, or belongs to another
 *         process; -EINVAL
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_touched(struct storwin_window *win, uint64_t offset, uint64_t bytes);

/** A file of commits according to its records; only opening it verifies the data. */
struct storwin_info_file {
    size_t size;         /**< sizeof(struct storwin_info_file), set by the caller */
    uint64_t bytes;      /**< length of the newest state; a window for it is at least as long */
    uint64_t generation; /**< of the newest commit */
    /** a generation that storage_alloc_generation opens: the previous commit, or an older one; 0:
     * none */
    uint64_t older_generation;
    uint64_t app_version; /**< as committed; 0: none was set */
    /** 1: both copies of another record are damaged, perhaps of a newer commit: storwin_alloc()
     *  fails with STORWIN_EDAMAGED unless storage_alloc_generation is set */
    uint32_t damaged;
    uint32_t reserved; /**< 0 */
};

/**
 * @brief Read the records of a file of commits, without opening a window. Writes and locks nothing.
 *
 * @param opts  filename and offset are used; the other options must be valid
 * @param info  the caller sets its `size`: the call fills no more than that; a size below the first
 *              release's fails with -EINVAL. Untouched on failure.
 * @param err   detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ENONE: no commit: the file is empty, or its first commit was interrupted
 *   - STORWIN_EFORMAT: the file has other content
 *   - STORWIN_EDAMAGED: every record is damaged
 *   - STORWIN_ETYPE: neither a regular file nor a block device
 *   - STORWIN_EOWNER: another user's link or file, as for storwin_alloc()
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options are wrong
 *   - -ENOENT, -EACCES, -EIO, …: from open() and reading
 *
 * @threads   MT-Safe. If a process commits during the call, the result is one of its last two
 * commits.
 * @allocates the name, during the call.
 * @cost      four small reads; 32 for a file without commits.
 */
STORWIN_API int storwin_file_query(const struct storwin_opts *opts, struct storwin_info_file *info,
                                   struct storwin_error *err);

/* ---------- windows that processes share */

/** shared flags: each segment begins on a page of its own */
#define STORWIN_SHARED_NONCONTIG (1u << 0)

/** The processes of a shared window. All pass the same values, except `rank`. */
struct storwin_shared {
    size_t size;      /**< sizeof(struct storwin_shared) */
    uint32_t n_ranks; /**< number of processes, 1 to STORWIN_MAX_RANKS */
    uint32_t rank;    /**< of this process */
    /** array of n_ranks uint64_t: length of each segment, 0 allowed, in rank order */
    const uint64_t *bytes;
    const char *const *filenames; /**< array of n_ranks: a file for each segment; NULL: all segments
                                     lie in opts->filename, one after the other */
    const char *shm_name;         /**< for memory: name of a shared memory object, "/" and up to 254
                                     characters; else NULL */
    uint32_t flags;               /**< STORWIN_SHARED_NONCONTIG */
    uint32_t reserved;            /**< 0 */
};

/**
 * @brief Allocate a window whose segments several processes of one node share.
 *
 *   1. Rank 0 calls first: it creates and reserves everything.
 *   2. After that call has returned 0, the other ranks call, and map the objects that rank 0
 *      created. (With MPI: rank 0, broadcast of the result, the others.)
 *   3. After all have attached, storwin_shared_settle() on one of them removes the name `shm_name`.
 *
 * Every process maps all segments: one after the other without a gap, or, with
 * STORWIN_SHARED_NONCONTIG, each on a page of its own. With a file for each segment and no gaps,
 * every segment but the last non-empty one must be a multiple of the page size. The pager is the
 * kernel's. Factor and order divide the whole range; the memory part is the object `shm_name`.
 *
 * storwin_base() is this rank's segment. A sync of the whole window covers all segments;
 * storwin_shared_segment() returns the range of one.
 *
 * @param opts    as for storwin_alloc(); with storage_alloc_factor=auto every rank passes the same
 *                memory_bytes, not 0
 * @param shared  the processes; read during the call only
 * @param win     receives the window, untouched on failure
 * @param err     detail on failure, or NULL
 * @return
 *   - as storwin_alloc()
 *   - -EINVAL: a value of `shared` is not allowed
 *   - -EEXIST: on rank 0: the name `shm_name` exists
 *   - STORWIN_ESHORT: on another rank: the object or file is shorter than the segments
 *
 * @threads MT-Safe. Killing a process does not affect the mappings of the others.
 * @source  section 2.1, MPI_Win_allocate_shared
 */
STORWIN_API int storwin_alloc_shared(const struct storwin_opts *opts,
                                     const struct storwin_shared *shared,
                                     struct storwin_window **win, struct storwin_error *err);

/**
 * @brief Address, offset and length of a rank's segment.
 * @param win     a shared window
 * @param rank    the rank
 * @param base    receives its address in this process, NULL if it has 0 bytes; or NULL
 * @param offset  receives its offset in the window; or NULL
 * @param bytes   receives its length; or NULL
 * @return 0; -EINVAL: not a shared window, or no such rank
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_shared_segment(const struct storwin_window *win, uint32_t rank, void **base,
                                       uint64_t *offset, uint64_t *bytes);

/**
 * @brief Remove the name of the shared memory object, after all ranks have attached.
 *
 * Then the processes leave nothing behind, however they end. Without this call rank 0's
 * storwin_free() removes the name.
 *
 * @param win  a shared window of any rank
 * @param err  detail on failure, or NULL
 * @return 0, also if the name is gone already; -errno of shm_unlink()
 * MT-Safe on distinct objects.
 */
STORWIN_API int storwin_shared_settle(struct storwin_window *win, struct storwin_error *err);

/* ---------- dynamic windows */

/** A dynamic window: windows that are synced together, as the storage side of MPI's. */
struct storwin_dynamic;

/**
 * @brief Create a dynamic window, empty.
 * @param allocator  for the window's handle and its list of attached windows; NULL: libc
 * @param dyn        receives it
 * @return 0; -EINVAL: an allocator without realloc or free; -ENOMEM
 * @threads MT-Safe. Allocates.
 * @source section 2.1, MPI_Win_attach
 */
STORWIN_API int storwin_dynamic_create(const struct storwin_allocator *allocator,
                                       struct storwin_dynamic **dyn);

/**
 * @brief Detach every window and free the dynamic window; the others stay.
 * @param dyn  a dynamic window that no other thread is using, or NULL
 */
STORWIN_API void storwin_dynamic_destroy(struct storwin_dynamic *dyn);

/**
 * @brief Attach a window. It cannot be freed until it is detached from every dynamic window.
 * @param dyn  a dynamic window
 * @param win  a window of at least one byte
 * @return 0; -EEXIST: attached already; -EINVAL: 0 bytes; -ENOMEM
 * @threads The functions of one dynamic window are MT-Safe.
 * @cost    O(windows attached).
 */
STORWIN_API int storwin_dynamic_attach(struct storwin_dynamic *dyn, struct storwin_window *win);

/**
 * @brief Detach a window.
 * @param dyn  a dynamic window
 * @param win  a window
 * @return 0; STORWIN_ENOWIN: it is not attached
 * @threads MT-Safe. @cost O(windows attached). Allocates nothing.
 */
STORWIN_API int storwin_dynamic_detach(struct storwin_dynamic *dyn, struct storwin_window *win);

/**
 * @brief Sync every window attached.
 * @param dyn  a dynamic window
 * @param err  detail of the first failure, or NULL
 * @return 0, or the first error; the other windows are synced nevertheless
 * @threads One sync of a window at a time; attach and detach block meanwhile.
 */
STORWIN_API int storwin_dynamic_sync(struct storwin_dynamic *dyn, struct storwin_error *err);

/* ---------- properties of a window, and statistics */

/**
 * @name Values of struct storwin_info
 * @{
 */
#define STORWIN_TRACK_NONE 0u /**< nothing to track: a window in memory, or of 0 bytes */
#define STORWIN_TRACK_SCAN 1u /**< asynchronous write protection and PAGEMAP_SCAN (Linux 6.7) */
/** write faults, handled by a thread of this library (userfaultfd, Linux 5.7) */
#define STORWIN_TRACK_FAULTS 2u
#define STORWIN_TRACK_MSYNC  3u /**< the page cache's own dirty bits: the kernel pager */
/** none: every sync writes all pages; the resident pager if userfaultfd is not allowed */
#define STORWIN_TRACK_ALL      4u
#define STORWIN_TRACK_DECLARED 5u /**< by storwin_touched() alone */
/** every commit compares checksums of the whole window */
#define STORWIN_TRACK_COMPARED 6u

#define STORWIN_RECOVERY_NONE  0u /**< the file held no commit */
#define STORWIN_RECOVERY_CLEAN 1u /**< the newest generation was restored */
/** as CLEAN; a later record was unfinished: its commit had not returned success */
#define STORWIN_RECOVERY_UNFINISHED 2u
/** as CLEAN; one of two copies of a record was damaged, the other was used */
#define STORWIN_RECOVERY_REPAIRED 3u
#define STORWIN_RECOVERY_OLDER    4u /**< the generation that storage_alloc_generation requested */

#define STORWIN_TARGET_NONE   0u /**< no storage part */
#define STORWIN_TARGET_FILE   1u
#define STORWIN_TARGET_DEVICE 2u

#define STORWIN_STRIPING_NONE        0u /**< not asked for */
#define STORWIN_STRIPING_APPLIED     1u /**< set on the new file */
#define STORWIN_STRIPING_UNSUPPORTED 2u /**< the file system does not stripe, or refused */
#define STORWIN_STRIPING_EXISTING    3u /**< no effect: the file existed, or is a device */
/** @} */

/** The properties of a window as allocated. */
struct storwin_info {
    size_t size;               /**< sizeof(struct storwin_info), set by the caller */
    void *base;                /**< first address of the whole window */
    uint64_t bytes;            /**< its length; of a shared one, of all segments with their gaps */
    uint64_t memory_bytes;     /**< length of its memory part */
    uint64_t storage_bytes;    /**< length of its storage part */
    uint64_t offset_bytes;     /**< where in the file the storage part begins */
    uint64_t budget_bytes;     /**< user pager: its budget */
    uint32_t page_bytes;       /**< unit of the division, of tracking and of sync */
    uint32_t alloc_type;       /**< STORWIN_MEMORY or _STORAGE */
    uint32_t order;            /**< STORWIN_MEMORY_FIRST or _STORAGE_FIRST */
    uint32_t factor_ppb;       /**< as asked; STORWIN_FACTOR_AUTO stays */
    uint32_t pager;            /**< STORWIN_PAGER_ */
    uint32_t track;            /**< STORWIN_TRACK_ : how changed pages are found */
    uint32_t target;           /**< STORWIN_TARGET_ */
    uint32_t created;          /**< 1: the file is new */
    uint32_t striping;         /**< STORWIN_STRIPING_ */
    uint32_t huge;             /**< 1: huge pages were requested */
    uint32_t user_faults_only; /**< 1: the pager may not serve faults of system calls: pass no
                                  pointer into the window to one */
    uint32_t keeps_pinned; /**< 1: the user pager evicts no pinned page (Linux 6.8 reports them) */
    uint64_t generation;   /**< of the last commit; 0: none */
    uint64_t newest_generation; /**< the largest that its file has seen; above `generation` if an
                                   older one was opened */
    uint64_t replayed_bytes;    /**< journal bytes replayed when the window was opened */
    uint32_t atomic;            /**< STORWIN_ATOMIC_ */
    uint32_t recovery;          /**< STORWIN_RECOVERY_ : result of opening the file */
    uint64_t block_bytes;       /**< user pager: unit of reading and eviction */
    uint64_t app_version;       /**< of the state; 0: none was set */
};

/**
 * @brief Return the properties of a window.
 * @param win   a window
 * @param info  the caller sets its `size`: the call fills no more than that; a size below the first
 *              release's fails with -EINVAL
 * @return 0; -EINVAL
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_query(const struct storwin_window *win, struct storwin_info *info);

/**
 * @brief The effective value of a hint, as text in the hint's own form, for MPI_Win_get_info().
 * @param win    a window
 * @param key    one of storwin_hint_key()
 * @param value  receives the value and a NUL: "unsupported" for a striping_factor or striping_unit
 *               that could not be applied; the resulting part for the auto factor
 * @param cap    bytes of `value`
 * @return
 *   - length of the value without its NUL
 *   - -ENOENT: not a hint of this library, or without effect on this window
 *   - -ENOBUFS: `cap` is too small
 *
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_hint_query(const struct storwin_window *win, const char *key, char *value,
                                   size_t cap);

/**
 * A part of a window and its backing: another process needs this to map the same bytes.
 */
struct storwin_info_part {
    size_t size;       /**< sizeof(struct storwin_info_part), set by the caller */
    uint64_t offset;   /**< first byte, relative to the window; a multiple of the page size except
                          in a shared window without gaps */
    uint64_t bytes;    /**< length; the mapping extends to the end of the page */
    uint32_t kind;     /**< STORWIN_MEMORY or STORWIN_STORAGE */
    uint32_t coherent; /**< 1: a process that maps `fd` MAP_SHARED shares the memory; 0: `fd` shows
                          the state of the last sync */
    int32_t fd;    /**< the file, device or memory object, open for reading and writing; -1: private
                      memory */
    uint32_t file; /**< number of a storage part's file; 0 unless a shared window has one for each
                      segment */
    uint64_t fd_offset; /**< where in `fd` the part begins */
};

/**
 * @brief The i-th part of a window, in address order, and its descriptor.
 *
 * For a process that serves its window to other processes of the node: it sends the descriptors
 * (SCM_RIGHTS), and the others map the parts one after another.
 *   - The window owns the descriptor: it is valid until storwin_free(), and the caller must not
 *     close, lock or resize it. Duplicate it to keep it longer.
 *   - A memory part has one if STORWIN_MEMFD was set: a memfd, sealed against growing and
 *     shrinking. In a shared window it is the object `shm_name`.
 *
 * @param win   a window
 * @param i     from 0
 * @param part  the caller sets its `size`: the call fills no more than that; a size below the first
 *              release's fails with -EINVAL
 * @return 0; STORWIN_ERANGE: no such part; -EINVAL
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_part_query(const struct storwin_window *win, uint32_t i,
                                   struct storwin_info_part *part);

/**
 * @name Values of struct storwin_stats
 * @{
 */
#define STORWIN_WROTE_NOTHING  0u /**< last sync: nothing had changed */
#define STORWIN_WROTE_MSYNC    1u /**< the kernel wrote from the page cache */
#define STORWIN_WROTE_BUFFERED 2u /**< pwrite() of the changed ranges, then fdatasync() */
#define STORWIN_WROTE_DIRECT   3u /**< the same past the page cache (O_DIRECT) */
/** @} */

/** Statistics of a window. With STORWIN_TRACK_MSYNC only the syncs are counted. */
struct storwin_stats {
    size_t size;             /**< sizeof(struct storwin_stats), set by the caller */
    uint64_t n_syncs;        /**< syncs */
    uint64_t dirty_bytes;    /**< found changed by all syncs */
    uint64_t written_bytes;  /**< handed to storage by all syncs and evictions */
    uint64_t n_requests;     /**< number of these writes */
    uint64_t resident_bytes; /**< user pager: held now; above the budget only while blocks are
                                pinned or cannot be written */
    uint64_t n_faults;       /**< user pager: faults served */
    uint64_t read_bytes;     /**< user pager: read from storage, with read-ahead */
    uint64_t n_pinned;       /**< user pager: blocks not evicted because of a pinned page */
    uint32_t wrote;          /**< STORWIN_WROTE_ of the last sync */
    uint32_t reserved;       /**< 0 */
};

/**
 * @brief Return the statistics of a window: the basis for choosing a pager or a budget.
 * @param win    a window
 * @param stats  the caller sets its `size`: the call fills no more than that; a size below the
 *               first release's fails with -EINVAL
 * @return 0; -EINVAL
 * MT-Safe: the counters may stem from slightly different moments. Allocates nothing.
 */
STORWIN_API int storwin_window_stats(const struct storwin_window *win, struct storwin_stats *stats);

/**
 * @name Limits and caveats
 *
 *   - Two windows on overlapping ranges of one file see each other's writes only if both have the
 *     kernel pager. Windows on one file should have the same pager: if direct writes of one and
 *     stores into the page cache by another touch the same or neighbouring pages, Linux reports
 *     -EIO to both.
 *   - After fork() the child has a copy of memory parts and of resident windows, and no mapping of
 *     a user-paged one; with STORWIN_MEMFD it shares memory parts. Only the allocating process may
 *     sync and free: in a child these return STORWIN_ESTATE and do nothing.
 *   - When a file is shortened under a window, access behind its new end raises SIGBUS with the
 *     kernel pager. The next sync reports STORWIN_ESHORT with the range that is lost, and reports
 *     it only once if that sync extends the file again. A resident window still has all of the
 *     data, and writes them again.
 *   - A page that changes while a sync writes it is stored in its old form, its new form, or a mix
 *     of their sectors. It counts as changed for the next sync.
 *   - The library does not see stores that bypass this process's page tables: those of a system
 *     call or a device that has *pinned* pages, such as a read() with O_DIRECT,
 *     process_vm_writev(), io_uring's fixed buffers and memory registered with a network adapter.
 *     Plain read() and recv() copy page by page, and are safe.
 *       - User pager: where the kernel reports pinned pages (Linux 6.8;
 *         storwin_info.keeps_pinned), it keeps them in memory, beyond its budget if necessary, and
 *         every sync writes them. Elsewhere, and with direct reads from NFS and FUSE, such a store
 *         is lost without an error if its page is evicted before it: use a bounce buffer, or
 *         another pager.
 *       - Resident pager: such a store during a sync of its page may not count as a change.
 *   - Space cannot be reserved on file systems that copy on write (btrfs), nor on those that refuse
 *     fallocate() and store compressed data: there the disk can be full after allocation.
 * @{
 */
/** bytes of one window, and of all segments of a shared one */
#define STORWIN_MAX_BYTES   (UINT64_C(1) << 46)
#define STORWIN_MAX_PATH    4095u    /**< bytes of a file name, without its NUL */
#define STORWIN_MAX_RANKS   65536u   /**< processes of a shared window */
#define STORWIN_MAX_STRIPES 65535u   /**< striping_factor */
#define STORWIN_MIN_BLOCK   4096u    /**< block_bytes */
#define STORWIN_MAX_BLOCK   1048576u /**< block_bytes */
/** smallest budget of the user pager, bytes */
#define STORWIN_MIN_BUDGET (UINT64_C(1) << 20)
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file storwin.h
 * @brief Windows over memory and storage: one address range in memory, on a file or block device,
 *        or both; selective sync; atomic commits, which are checkpoints too; a pager.
 *
 * A *window* is a range of addresses that a program reads and writes with plain loads and stores,
 * or exposes to others with one-sided communication. Options, or the string hints of MPI storage
 * windows, say where its bytes live: in memory, in a file or device, or one part in each. The space
 * is reserved at allocation, so that a full disk, a short device, a limit or a permission is an
 * error of storwin_alloc() and not a SIGBUS later. A *sync* makes durable what was written; nothing
 * before it does. A *commit* is a sync of all or nothing: whenever the program or the machine
 * stops, the file holds the last commit or the one before, whole. A checkpoint is a commit, at the
 * cost of what changed. The *pager* holds the storage part: in the page cache (kernel, the
 * default), all in private memory (resident: exact and fast syncs), or in private memory of a
 * bounded size (user: for windows many times larger than memory).
 *
 * Random accesses out of core are faster with the pager kernel and STORWIN_ACCESS_RANDOM in a
 * control group: user does 0.2 to 0.7 of their rate in most runs, since each fault wakes a thread,
 * and each first store into a page faults once more. It does 16 to 60 times the rate of the
 * kernel's paging without advice. It is for a bound on memory where there is no control group, and
 * for syncs that write what changed and no more.
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
 * Not an MPI library (examples/swmpi interposes on one), and not a lock between processes that
 * write the same bytes. Limits and caveats are at the end of this file.
 *
 * Source: "MPI Windows on Storage for HPC Applications", sections 2.1 (windows, hints), 4
 * (checkpoints by two windows) and 6 (a user-level pager, its future work). Reservation, selective
 * sync, asynchronous sync and error reports are ours.
 */
#ifndef STORWIN_H
#define STORWIN_H

#include <stddef.h>
#include <stdint.h>

/** Release of this header; storwin_version() is that of the library in use. */
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

/** What a window shall be. Begin with storwin_opts_init(): not every default is 0. */
struct storwin_opts {
    size_t size;          /**< sizeof(struct storwin_opts), set by storwin_opts_init() */
    uint32_t alloc_type;  /**< STORWIN_MEMORY (default) or STORWIN_STORAGE; the rest but
                             STORWIN_MEMFD and the allocator concerns storage only */
    uint32_t order;       /**< STORWIN_MEMORY_FIRST (default) or STORWIN_STORAGE_FIRST */
    const char *filename; /**< path of a file or block device, not NULL for storage; read during the
                             call only */
    uint64_t offset_bytes; /**< where in it the window begins: a multiple of the page size */
    uint32_t factor_ppb; /**< part on storage in billionths, rounded to the nearest page, a half up:
                            default all */
    uint32_t access_style; /**< STORWIN_ACCESS_ bits, 0: unknown */
    uint32_t file_perm;    /**< permissions of a new file, 0 to 0777 less the umask; default 0600 */
    uint32_t striping_factor; /**< devices to stripe a new file across, up to STORWIN_MAX_STRIPES;
                                 0: leave as is */
    uint32_t striping_unit;   /**< bytes of a stripe, a multiple of 65,536; 0: leave as is */
    uint32_t pager;           /**< STORWIN_PAGER_KERNEL (default), _RESIDENT or _USER */
    uint32_t flags;           /**< STORWIN_UNLINK, STORWIN_DISCARD, STORWIN_SPARSE, STORWIN_MEMFD */
    uint32_t n_threads; /**< threads that write back or page, at most 64; 0: the library chooses */
    uint64_t memory_bytes; /**< STORWIN_FACTOR_AUTO: what the memory part may take; 0: what is
                              available now, less an eighth */
    uint64_t budget_bytes; /**< STORWIN_PAGER_USER: resident bytes, at least STORWIN_MIN_BUDGET; 0:
                              a quarter of what is available */
    const struct storwin_allocator *allocator; /**< of handles and tables; NULL: libc */
    uint32_t atomic; /**< STORWIN_ATOMIC_ : how storwin_commit() writes; default _NONE: there are no
                         commits */
    uint32_t changes; /**< STORWIN_CHANGES_ : how a commit finds what changed; default _TRACKED */
    uint64_t generation;  /**< with `atomic`: open this one, or if it is none what was the newest
                            then; 0: the newest */
    uint64_t block_bytes; /**< STORWIN_PAGER_USER: what it reads and evicts at a time: a power of 2
                             from 4,096 to 1,048,576; rounded up to a page, and down to a sixteenth
                             of the budget; 0: by access_style */
    uint64_t app_version; /**< with `atomic`: the caller's number for the form of the state, stored
                             with the first commit; 0: that of the file */
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
 * Keys and values are those of the table in HINTS.md, case counts. A later call for the same key
 * replaces the earlier value, as MPI_Info_set() does.
 *
 * @param opts   options to change; unchanged unless the result is 0
 * @param key    such as "storage_alloc_factor"
 * @param value  such as "0.5"; as storage_alloc_filename it must live until the allocation returns
 * @param err    detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_UNKNOWN: this library has no such hint; ignore it, as MPI does
 *   - STORWIN_EVALUE: the value is not allowed
 *   - -EINVAL: a NULL argument; options of a wrong size
 *
 * MT-Safe on distinct objects. Allocates nothing. Independent of the locale.
 */
STORWIN_API int storwin_opts_set(struct storwin_opts *opts, const char *key, const char *value,
                                 struct storwin_error *err);

/**
 * @brief Allocate a window.
 *
 *   - A new file is created at once with its space, or not at all.
 *   - A file that exists is grown when the window ends behind its end.
 *   - A relative name is looked up from the working directory.
 *   - Links are followed only if they belong to the caller or to root.
 *   - Direct writes to the range that a killed process has left under way are waited for, at most
 *     120 s; so is a sync of another window on it. After that it is STORWIN_EBUSY.
 *   - Memory and new files read as zeros. The base is page-aligned.
 *
 * @param opts   what it shall be, NULL for memory
 * @param bytes  length of the window, 0 to STORWIN_MAX_BYTES. A window of 0 bytes has the base
 *               NULL.
 * @param win    receives the window, untouched on failure
 * @param err    detail on failure, or NULL; `hint` names the hint that the cause belongs to
 * @return
 *   - 0
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options
 *   - STORWIN_ESHORT, STORWIN_ETYPE, STORWIN_EOWNER: the target
 *   - STORWIN_EPAGER: no userfaultfd here
 *   - STORWIN_EBUSY: direct writes of another process to the range do not end
 *   - STORWIN_EDAMAGED, STORWIN_EFORMAT, STORWIN_EVERSION, STORWIN_ENONE, STORWIN_EBUSY: with
 *     storage_alloc_atomic, the file; see storwin_commit()
 *   - -ENOSPC: full; -EFBIG: over the limit of the process (RLIMIT_FSIZE) or the file system
 *   - -ENOMEM; -EINVAL; whatever open() gives
 *
 * @threads   MT-Safe.
 * @allocates the window, the struct, and for the pagers resident and user what their tables need.
 * @cost      system calls; with the resident pager, reading the file, and clearing the memory for
 *            what it does not hold.
 * @source    section 2.1, MPI_Win_allocate; reservation and clean-up are ours.
 */
STORWIN_API int storwin_alloc(const struct storwin_opts *opts, uint64_t bytes,
                              struct storwin_window **win, struct storwin_error *err);

/**
 * @brief First address of a window; in a shared one, of this rank's segment. NULL for 0 bytes.
 * @param win  a window, or NULL
 * MT-Safe.
 */
STORWIN_API void *storwin_base(const struct storwin_window *win);

/** length of a range that ends where the window does */
#define STORWIN_TO_END UINT64_MAX

/**
 * @brief Make durable what was written to a range before the call, and the name of a file that the
 *        window created. Whole pages that the range touches are written.
 *
 * After a failure:
 *   - it is reported once; `offset` and `bytes` of the error span what may not be stored
 *   - that range counts as changed, and the next sync writes it again; with the pagers kernel and
 *     user, as far as it is still in memory
 *   - with kernel, a failure that does not come again concerns the whole range asked for
 *   - with kernel on ext4, the next sync of any of that range writes it past the page cache, since
 *     ext4 itself would lose it. From that call until its return, nothing may be stored into the
 *     4 MiB of the file, aligned to 4 MiB, that hold any byte of the range: neither by a thread of
 *     any process nor by a system call or a device. Such a store may be lost with no error. Stores
 *     during the sync that fails, and before the next one, are safe
 *
 * @param win     a window; nothing is done for its memory
 * @param offset  first byte, relative to the window
 * @param bytes   length, or STORWIN_TO_END; 0 does nothing
 * @param err     detail on failure, or NULL
 * @return
 *   - 0
 *   - -EIO, -ENOSPC, …: the device's or file system's answer
 *   - STORWIN_ESHORT: the file was shortened
 *   - STORWIN_ERANGE
 *   - STORWIN_ESTATE: an asynchronous sync is under way, or the window is another process's
 *
 * @threads   One sync of a window at a time; loads and stores may go on (see the caveats).
 * @allocates Possibly, for requests in flight; when there is no memory it makes do without.
 * @cost      the writing of what changed; with the resident pager also a scan of the page tables,
 *            about 1 ms a GiB.
 * @source    section 2.1, MPI_Win_sync; selection, parallel writing and error ranges are ours
 */
STORWIN_API int storwin_sync(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                             struct storwin_error *err);

/**
 * @brief Free a window: sync it unless STORWIN_DISCARD was set, unmap it, and remove the file if
 *        STORWIN_UNLINK was set (then nothing is synced either).
 * @param win  a window, or NULL. Gone afterwards, whatever is returned, except with STORWIN_EBUSY
 *             and STORWIN_ESTATE.
 * @param err  detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_EBUSY: still attached to a dynamic window, or a sync under way; nothing was done
 *   - STORWIN_ESTATE: it is another process's; nothing was done
 *   - else what storwin_sync() or unlink() returned
 *
 * @threads No other thread uses the window meanwhile or afterwards.
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
#define STORWIN_ATOMIC_SLOTS   2u /**< each commit brings the older of two copies up to date */
/** a journal below 40 % changed, else the older copy */
#define STORWIN_ATOMIC_AUTO 3u

#define STORWIN_CHANGES_TRACKED 0u /**< by this process's page tables, and storwin_touched() */
/** by storwin_touched() alone: what is not declared is not committed */
#define STORWIN_CHANGES_DECLARED 1u
/** by comparing checksums of everything, about 0.1 s a GiB */
#define STORWIN_CHANGES_COMPARED 2u

/** factor_ppb of a window wholly on storage */
#define STORWIN_FACTOR_ONE UINT32_C(1000000000)
/** factor_ppb: as much in memory as is available, the rest on storage */
#define STORWIN_FACTOR_AUTO UINT32_MAX

/** access_style bits, the words of the MPI standard */
#define STORWIN_ACCESS_READ_ONCE    (1u << 0)
#define STORWIN_ACCESS_WRITE_ONCE   (1u << 1)
#define STORWIN_ACCESS_READ_MOSTLY  (1u << 2)
#define STORWIN_ACCESS_WRITE_MOSTLY (1u << 3)
#define STORWIN_ACCESS_SEQUENTIAL   (1u << 4)
#define STORWIN_ACCESS_REVERSE      (1u << 5) /**< reverse_sequential */
#define STORWIN_ACCESS_RANDOM       (1u << 6)

/** flags: remove the file when the window is freed, through a symbolic link of the caller's what it
 *  leads to and not the link; no effect on devices */
#define STORWIN_UNLINK (1u << 0)
/** flags: do not sync when the window is freed */
#define STORWIN_DISCARD (1u << 1)
/** flags: reserve no space; a full disk is then a SIGBUS or a failed sync */
#define STORWIN_SPARSE (1u << 2)
/** flags: memory has a descriptor for others to map, storwin_part_query(); also without storage */
#define STORWIN_MEMFD (1u << 3)
/** @} */

/**
 * Where handles and tables come from; a window's own memory is mapped.
 *   - Both functions are set, else what takes it returns -EINVAL.
 *   - It outlives what was made with it. The library's threads call it too.
 *   - Neither what it keeps nor the memory that it gives lies in a window with the pager user: the
 *     threads that serve such a window's faults call it under the pager's lock, and would wait for
 *     themselves.
 */
struct storwin_allocator {
    /** as realloc(): NULL allocates; aligned as malloc() aligns; NULL when there is no memory */
    void *(*realloc)(void *ctx, void *ptr, size_t bytes);
    void (*free)(void *ctx, void *ptr); /**< never of NULL */
    void *ctx;
};

/* ---------- errors */

/**
 * What went wrong, in the caller's memory. Functions that take one write it only on failure; NULL
 * is allowed.
 */
struct storwin_error {
    int32_t code;    /**< what the function returned */
    char hint[32];   /**< key of the hint that caused it, such as "storage_alloc_filename"; or "" */
    uint64_t offset; /**< of a failed sync: first byte of the window that may not be stored */
    uint64_t bytes;  /**< of a failed sync: length of that range; 0 when no range is concerned */
    char text[232];  /**< one English sentence without a newline, for a person */
};

/**
 * @name Results
 * Functions return 0 or more on success, `-errno` for a system cause, or one of the library's own
 * negative codes. The values never change. An option struct shorter than this release's is -EINVAL,
 * and so is a longer one if anything is set that this release does not know, or if it says that it
 * has more than 4,096 bytes.
 * @{
 */
#define STORWIN_PENDING 1        /**< not an error: the sync is still under way */
#define STORWIN_UNKNOWN 2        /**< not an error: no hint of this library has this key */
#define STORWIN_EVALUE  (-24001) /**< a hint or option has a value that is not allowed */
/** a hint is needed and absent: storage without a file name */
#define STORWIN_EMISSING  (-24002)
#define STORWIN_ECONFLICT (-24003) /**< two hints that exclude each other */
/** the device, or the file of a shared window, ends before the window does; a file was shortened */
#define STORWIN_ESHORT (-24004)
#define STORWIN_ETYPE  (-24005) /**< the name is no regular file and no block device */
/** a link, or a file in a shared directory, that belongs to somebody else */
#define STORWIN_EOWNER (-24006)
/** this kernel, or its settings, do not allow the user-level pager */
#define STORWIN_EPAGER  (-24007)
#define STORWIN_ERANGE  (-24008) /**< offset and length do not lie within the window */
#define STORWIN_ESYNTAX (-24009) /**< a hint string that is not `key=value;key=value` */
/** the file holds something else than commits, or a state that is longer than the window */
#define STORWIN_EFORMAT  (-24010)
#define STORWIN_ENONE    (-24011) /**< the file holds no commit, or not the one asked for */
#define STORWIN_EVERSION (-24012) /**< the state is of another version of the application */
/** not allowed now (a commit of a window without commits, a sync while one is under way), or not in
 *  a child of the process */
#define STORWIN_ESTATE (-24013)
#define STORWIN_EBUSY  (-24014) /**< in use: still attached, or opened by another process */
#define STORWIN_ENOWIN (-24015) /**< the window is not attached */
/** what was committed does not match its checksums; the text names the generation before if that is
 *  whole */
#define STORWIN_EDAMAGED (-24016)
#define STORWIN_ERACE    (-24017) /**< stores came during a commit; nothing was committed */
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
 * @brief Cut the string `key=value;key=value` into hints, for storwin_opts_set() one after another.
 *
 * A `;` at the end and empty pieces are allowed; blanks around a key or a value are dropped; a
 * value may hold `=` but no `;`.
 *
 * @param text     the caller's string, in which NULs are written; the hints point into it. It may
 *                 be cut on failure too.
 * @param hints    array of cap_hints
 * @param cap_hints  its length
 * @param err      detail on failure, or NULL
 * @return
 *   - how many hints
 *   - STORWIN_ESYNTAX: a piece without `=` or with an empty key
 *   - -ENOBUFS: more than cap_hints
 *   - -EINVAL
 *
 * MT-Safe on distinct objects. Allocates nothing.
 */
STORWIN_API int storwin_hints_split(char *text, struct storwin_hint *hints, size_t cap_hints,
                                    struct storwin_error *err);

/**
 * @brief The keys that this library knows, for who asks MPI_Info_get() for each.
 * @param i  from 0
 * @return the i-th key, or NULL past the last
 * MT-Safe. Allocates nothing.
 */
STORWIN_API const char *storwin_hint_key(size_t i);

/* ---------- asynchronous sync: for a runtime with a progress loop of its own */

/**
 * @brief Begin a sync of a range and return: a thread does the work.
 *
 * Stores made before the call are durable when it ends; later ones may be or not. A window has one
 * at a time.
 *
 * @param win     a window
 * @param offset  first byte
 * @param bytes   length, or STORWIN_TO_END
 * @param err     detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ERANGE
 *   - STORWIN_ESTATE: one is under way or waits to be collected, or as storwin_sync()
 *   - -EAGAIN: no thread
 *
 * @threads MT-Safe on distinct objects.
 */
STORWIN_API int storwin_sync_start(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                                   struct storwin_error *err);

/**
 * @brief Ask whether the sync begun is done; collects its result when it is.
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return STORWIN_PENDING; 0: done; STORWIN_ESTATE: none was begun; or the sync's error
 * MT-Safe on distinct objects. Never blocks.
 */
STORWIN_API int storwin_sync_test(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Wait for the sync begun and collect its result.
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return 0; STORWIN_ESTATE: none was begun; or the sync's error
 * MT-Safe on distinct objects.
 */
STORWIN_API int storwin_sync_wait(struct storwin_window *win, struct storwin_error *err);

/* ---------- atomic commits */

/**
 * @brief Commit a window: all of its storage part as it is now, or nothing.
 *
 * For windows with storage_alloc_atomic and the pager resident, and adopted ones. When this returns
 * 0, a crash at any moment leaves the file at this commit or a later one, whole. Any other result
 * leaves it at the commit before or at this one, whole. The addresses of the window never change.
 *
 *   - With another pager storage_alloc_atomic is STORWIN_ECONFLICT. kernel and user write pages to
 *     their places in the file between commits, as memory runs short, and a commit needs the last
 *     state whole there. A pager that evicts elsewhere has to know for each page where it is, and a
 *     window opens only after all of it was read and compared with its checksum: user does neither.
 *   - A commit has a *generation*: 1 for the first, one more for each that found a change.
 *     storwin_query() tells it. Without changes nothing is written.
 *   - Nobody stores into the window during the call. A store that comes all the same is detected,
 *     STORWIN_ERACE, and nothing is committed; call again. (With STORWIN_CHANGES_DECLARED or
 *     _COMPARED one that is undone meanwhile is not; with _TRACKED a device's only in pages that
 *     storwin_touched() has ever named.)
 *   - After a failure everything that changed counts as changed; the next commit writes all of it
 *     again.
 *   - storwin_sync() of any range of such a window, also in the background, and storwin_free() do
 *     the same.
 *   - storwin_alloc() or storwin_adopt() on the file brings the newest generation back. The window
 *     may be longer than the state was: what is behind it stays as the memory is. A shorter window
 *     is STORWIN_EFORMAT; storwin_file_query() gives the stored length.
 *   - A file keeps the app_version of its first commit. A window that is opened with another one is
 *     STORWIN_EVERSION, and the file stays as it is.
 *   - A record or block that is damaged is detected. STORWIN_EDAMAGED names the newest generation
 *     that is whole, and the hint storage_alloc_generation opens it. One generation before the
 *     newest can be opened that way unless a commit after the newest failed or was cut off; older
 *     ones as far as the journal holds them. The first commit after that discards the newer ones.
 *     With STORWIN_ATOMIC_SLOTS the two share no byte, so that damage of one leaves the other; with
 *     a journal a damaged block of a copy damages all generations that build on it.
 *   - The next commit writes all of a file that was shortened; a crash before may lose everything.
 *   - A file has room for two copies of the window, and for a journal as long unless
 *     STORWIN_ATOMIC_SLOTS is set. LAYOUT.md describes it. A window that is longer than the state
 *     was puts those of its length behind three of the old length, and overwrites what is there.
 *   - The file is locked as long as the window lives, or a child of fork() with its descriptors.
 *     storwin_alloc() waits up to 10 s for that: a killed process keeps it until its writes end.
 *
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ERACE: see above
 *   - STORWIN_ESTATE: the window has no storage_alloc_atomic, an asynchronous sync is under way, or
 *     it is another process's
 *   - -ENOMEM, -EIO, -ENOSPC, …: the file still holds the commit before
 *
 * @threads   One commit or sync of a window at a time; no stores meanwhile.
 * @allocates 16 bytes for each 4,096 bytes that changed, during the call.
 * @cost      the changed pages, written once, and two flushes of the device. When the journal is
 *            full, or more than 40 % changed, the other copy is brought up to date instead.
 * @source    ours; the two copies are section 4's swap of two windows
 */
STORWIN_API int storwin_commit(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Commit a window under a number of the caller's, for several windows in one commit.
 *
 * As storwin_commit(), but a generation is made even if nothing changed. Windows of one process or
 * of several are committed together so:
 *
 *   1. Choose a number above every window's storwin_info.newest_generation. If both
 *      copies of the newest record are damaged, that is only one above the generation before.
 *   2. Commit all windows but one under it. Go on when every call has returned 0. (With MPI: each
 *      rank its own, then a reduction of the results.)
 *   3. Commit the last one, which *decides*: when that returns 0, the number counts for all.
 *
 * A call that failed is made again under the same number, without a store in between. Where it
 * fails for good, free the windows with STORWIN_DISCARD set and open them as after a crash: who
 * begins another number before the last was decided may lose the one before.
 *
 * After a crash open every window, and take the least of their generations. All windows hold it,
 * since nobody begins the next before the last has decided: open those that came with another one
 * again, with storage_alloc_generation set to it. Two cases are errors of the caller's:
 *
 *   - A window that then has another generation (storwin_query()): storage_alloc_generation had
 *     gone back to an older one, and a crash came before all had committed after that. Open all
 *     with that older one.
 *   - A window without a commit beside one with several: its file was lost. Taking 0 for the least
 *     would give up everything.
 *
 * @param win         a window
 * @param generation  above all that the file has seen, below 2^63
 * @param err         detail on failure, or NULL
 * @return as storwin_commit(); STORWIN_EVALUE: the number
 * @threads One commit or sync of a window at a time; no stores meanwhile.
 * @source  ours; one record that decides, as the two-window swap has for one window
 */
STORWIN_API int storwin_commit_as(struct storwin_window *win, uint64_t generation,
                                  struct storwin_error *err);

/**
 * @brief Make memory that exists already a window with commits.
 *
 * If the file holds a commit, the memory receives it. Else the memory stays as it is, and the first
 * commit writes all of it. After a failure the memory may hold anything.
 *
 *   - Any memory will do: malloc(), a mapping, huge pages, a segment shared with others. If it is
 *     page-aligned it is written past the page cache.
 *   - Stores are found by this process's page tables (STORWIN_CHANGES_TRACKED). These do not show
 *     stores of other processes and of devices, such as a network adapter's into registered memory:
 *     declare them by storwin_touched(), or set STORWIN_CHANGES_COMPARED. Where a mapping is
 *     shared, STORWIN_CHANGES_TRACKED is -EOPNOTSUPP.
 *   - Where the kernel cannot track (before Linux 6.7, or private huge pages), commits compare.
 *
 * @param ptr    the memory: stays the caller's, and outlives the window
 * @param bytes  its length, 1 to STORWIN_MAX_BYTES / 4
 * @param opts   as for storwin_alloc(), wholly on storage; `atomic`, unless set, is
 *               STORWIN_ATOMIC_AUTO
 * @param win    receives the window, untouched on failure
 * @param err    detail on failure, or NULL
 * @return
 *   - 0
 *   - -EFAULT: the memory is not all there and writable
 *   - -EOPNOTSUPP: changes of it cannot be found in the way that was asked for
 *   - or as storwin_alloc()
 *
 * @threads   MT-Safe; nobody stores into the memory during the call.
 * @allocates the struct, and 8 bytes for each 4,096 of the window.
 * @source    ours
 */
STORWIN_API int storwin_adopt(void *ptr, uint64_t bytes, const struct storwin_opts *opts,
                              struct storwin_window **win, struct storwin_error *err);

/**
 * @brief Declare that a range was stored into in a way that page tables do not show.
 *
 * Call it after the stores, before the commit that shall have them.
 *
 * @param win     a window with storage_alloc_atomic
 * @param offset  first byte
 * @param bytes   length, or STORWIN_TO_END
 * @return 0; STORWIN_ERANGE; STORWIN_ESTATE: no such window, or another process's; -EINVAL
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_touched(struct storwin_window *win, uint64_t offset, uint64_t bytes);

/** What a file of commits holds, by its records alone: the data are verified when it is opened. */
struct storwin_info_file {
    size_t size;         /**< sizeof(struct storwin_info_file), set by the caller */
    uint64_t bytes;      /**< length of the newest state; a window for it is as long or longer */
    uint64_t generation; /**< of the newest commit */
    /** one that storage_alloc_generation opens: the commit before, or an older one; 0: none */
    uint64_t older_generation;
    uint64_t app_version; /**< as committed; 0: none was set */
    /** 1: both copies of another record are damaged, perhaps of a newer commit: storwin_alloc() is
     *  STORWIN_EDAMAGED unless storage_alloc_generation is set */
    uint32_t damaged;
    uint32_t reserved; /**< 0 */
};

/**
 * @brief Ask what a file of commits holds, without opening it. Nothing is written or locked.
 *
 * @param opts  filename and offset; the others count only for being valid
 * @param info  its `size` is set: no more than that is filled; a smaller one is -EINVAL. Untouched
 *              on failure.
 * @param err   detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ENONE: no commit: an empty file, or one whose first commit was cut off
 *   - STORWIN_EFORMAT: the file holds something else
 *   - STORWIN_EDAMAGED: no record is whole
 *   - STORWIN_ETYPE: neither a regular file nor a block device
 *   - STORWIN_EOWNER: another user's link or file, as storwin_alloc() refuses it
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options
 *   - -ENOENT, -EACCES, -EIO, …: from open() and reading
 *
 * @threads   MT-Safe. While a process commits, the answer is of one of its last two commits.
 * @allocates The name, during the call.
 * @cost      four small reads; of a file without commits, 32.
 */
STORWIN_API int storwin_file_query(const struct storwin_opts *opts, struct storwin_info_file *info,
                                   struct storwin_error *err);

/* ---------- windows that processes share */

/** shared flags: each segment begins on a page of its own */
#define STORWIN_SHARED_NONCONTIG (1u << 0)

/** The processes of a shared window. All of them say the same, but for `rank`. */
struct storwin_shared {
    size_t size;      /**< sizeof(struct storwin_shared) */
    uint32_t n_ranks; /**< how many processes, 1 to STORWIN_MAX_RANKS */
    uint32_t rank;    /**< this one */
    /** array of n_ranks uint64_t: length of each segment, 0 allowed, in rank order */
    const uint64_t *bytes;
    const char *const *filenames; /**< array of n_ranks: a file for each segment; NULL:
                                     opts->filename holds all, one after the other */
    const char *shm_name;         /**< for memory: name of a shared memory object, "/" and up to 254
                                     characters; else NULL */
    uint32_t flags;               /**< STORWIN_SHARED_NONCONTIG */
    uint32_t reserved;            /**< 0 */
};

/**
 * @brief Allocate a window whose segments several processes of one node share.
 *
 *   1. Rank 0 creates and reserves.
 *   2. When its call has returned 0, and not before, the other ranks make theirs, and map what is
 *      there. (With MPI: rank 0, broadcast of the result, the others.)
 *   3. Once all have attached, storwin_shared_settle() on one of them removes the name `shm_name`.
 *
 * Every process maps all segments: one after the other without a gap, or, with
 * STORWIN_SHARED_NONCONTIG, each on a page of its own. With a file for each segment and no gaps,
 * every segment but the last non-empty one must be a multiple of the page size. The pager is the
 * kernel's; factor and order divide the whole range, and the memory part is the object `shm_name`.
 *
 * storwin_base() is this rank's segment. A sync of all covers all segments;
 * storwin_shared_segment() has the range of one's own.
 *
 * @param opts    as for storwin_alloc(); storage_alloc_factor=auto needs the same memory_bytes, not
 *                0, from all
 * @param shared  the processes; read during the call only
 * @param win     receives the window, untouched on failure
 * @param err     detail on failure, or NULL
 * @return
 *   - as storwin_alloc()
 *   - -EINVAL: `shared` makes no sense
 *   - -EEXIST: rank 0 found `shm_name` taken
 *   - STORWIN_ESHORT: what another rank mapped is shorter than agreed
 *
 * @threads MT-Safe. A process that is killed leaves the others' mappings as they are.
 * @source  section 2.1, MPI_Win_allocate_shared
 */
STORWIN_API int storwin_alloc_shared(const struct storwin_opts *opts,
                                     const struct storwin_shared *shared,
                                     struct storwin_window **win, struct storwin_error *err);

/**
 * @brief Where a rank's segment is.
 * @param win     a shared window
 * @param rank    whose
 * @param base    receives its address in this process, NULL if it has 0 bytes; or NULL
 * @param offset  receives its offset in the window; or NULL
 * @param bytes   receives its length; or NULL
 * @return 0; -EINVAL: no shared window or no such rank
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_shared_segment(const struct storwin_window *win, uint32_t rank, void **base,
                                       uint64_t *offset, uint64_t *bytes);

/**
 * @brief All have attached: remove the name of the shared memory object, so that nothing is left
 *        behind however the processes end. Otherwise rank 0's storwin_free() does it.
 * @param win  a shared window of any rank
 * @param err  detail on failure, or NULL
 * @return 0, also when the name has gone already; -errno of shm_unlink()
 * MT-Safe on distinct objects.
 */
STORWIN_API int storwin_shared_settle(struct storwin_window *win, struct storwin_error *err);

/* ---------- dynamic windows */

/** Windows that are synced together: the storage side of an MPI dynamic window. */
struct storwin_dynamic;

/**
 * @brief Create a dynamic window, empty.
 * @param allocator  of the set, or NULL
 * @param dyn        receives it
 * @return 0; -EINVAL: an allocator without realloc or free; -ENOMEM
 * @threads MT-Safe. Allocates.
 * @source section 2.1, MPI_Win_attach
 */
STORWIN_API int storwin_dynamic_create(const struct storwin_allocator *allocator,
                                       struct storwin_dynamic **dyn);

/**
 * @brief Detach every window and free the set; the windows stay.
 * @param dyn  a set, or NULL, that no other thread is using
 */
STORWIN_API void storwin_dynamic_destroy(struct storwin_dynamic *dyn);

/**
 * @brief Attach a window. It cannot be freed until it is detached everywhere.
 * @param dyn  a set
 * @param win  a window of at least one byte
 * @return 0; -EEXIST: attached already; -EINVAL: 0 bytes; -ENOMEM
 * @threads The functions of one set are MT-Safe.
 * @cost    O(windows attached).
 */
STORWIN_API int storwin_dynamic_attach(struct storwin_dynamic *dyn, struct storwin_window *win);

/**
 * @brief Detach a window.
 * @param dyn  a set
 * @param win  a window
 * @return 0; STORWIN_ENOWIN: it is not attached
 * @threads MT-Safe. @cost O(windows attached). Allocates nothing.
 */
STORWIN_API int storwin_dynamic_detach(struct storwin_dynamic *dyn, struct storwin_window *win);

/**
 * @brief Sync every window attached.
 * @param dyn  a set
 * @param err  detail of the first failure, or NULL
 * @return 0, or the first error; the other windows are synced all the same
 * @threads One sync of a window at a time; attach and detach wait.
 */
STORWIN_API int storwin_dynamic_sync(struct storwin_dynamic *dyn, struct storwin_error *err);

/* ---------- what a window became, and statistics */

/**
 * @name Values of struct storwin_info
 * @{
 */
#define STORWIN_TRACK_NONE 0u /**< nothing to track: a window in memory, or of 0 bytes */
#define STORWIN_TRACK_SCAN 1u /**< asynchronous write protection and PAGEMAP_SCAN (Linux 6.7) */
/** write faults that a thread of this library takes (userfaultfd, Linux 5.7) */
#define STORWIN_TRACK_FAULTS 2u
#define STORWIN_TRACK_MSYNC  3u /**< the page cache's own marks: the kernel pager */
/** none: every sync writes everything; the resident pager where userfaultfd is not allowed */
#define STORWIN_TRACK_ALL      4u
#define STORWIN_TRACK_DECLARED 5u /**< by storwin_touched() alone */
/** every commit compares the checksums of everything */
#define STORWIN_TRACK_COMPARED 6u

#define STORWIN_RECOVERY_NONE  0u /**< the file held no commit */
#define STORWIN_RECOVERY_CLEAN 1u /**< the newest generation came back */
/** so it did, and a record behind it was not finished: that commit was never acknowledged */
#define STORWIN_RECOVERY_UNFINISHED 2u
/** so it did, and the damaged one of two copies of a record does not matter */
#define STORWIN_RECOVERY_REPAIRED 3u
#define STORWIN_RECOVERY_OLDER    4u /**< the one that storage_alloc_generation asked for */

#define STORWIN_TARGET_NONE   0u /**< no storage part */
#define STORWIN_TARGET_FILE   1u
#define STORWIN_TARGET_DEVICE 2u

#define STORWIN_STRIPING_NONE        0u /**< not asked for */
#define STORWIN_STRIPING_APPLIED     1u /**< set on the new file */
#define STORWIN_STRIPING_UNSUPPORTED 2u /**< the file system does not stripe, or refused */
#define STORWIN_STRIPING_EXISTING    3u /**< no effect: the file existed, or is a device */
/** @} */

/** What a window became. */
struct storwin_info {
    size_t size;               /**< sizeof(struct storwin_info), set by the caller */
    void *base;                /**< first address of the whole window */
    uint64_t bytes;            /**< its length; of a shared one, of all segments with their gaps */
    uint64_t memory_bytes;     /**< of it in memory */
    uint64_t storage_bytes;    /**< of it on storage */
    uint64_t offset_bytes;     /**< where in the file the storage part begins */
    uint64_t budget_bytes;     /**< user pager: its bound */
    uint32_t page_bytes;       /**< unit of the division, of tracking and of sync */
    uint32_t alloc_type;       /**< STORWIN_MEMORY or _STORAGE */
    uint32_t order;            /**< STORWIN_MEMORY_FIRST or _STORAGE_FIRST */
    uint32_t factor_ppb;       /**< as asked; STORWIN_FACTOR_AUTO stays */
    uint32_t pager;            /**< STORWIN_PAGER_ */
    uint32_t track;            /**< STORWIN_TRACK_ : how changed pages are found */
    uint32_t target;           /**< STORWIN_TARGET_ */
    uint32_t created;          /**< 1: the file is new */
    uint32_t striping;         /**< STORWIN_STRIPING_ */
    uint32_t huge;             /**< 1: huge pages were asked for */
    uint32_t user_faults_only; /**< 1: the pager may not serve faults of system calls: give none a
                                  pointer into the window */
    uint32_t keeps_pinned; /**< user pager: 1: the kernel tells which pages are pinned (Linux 6.8);
                              these are not evicted */
    uint64_t generation;   /**< of the last commit; 0: none */
    uint64_t newest_generation; /**< the largest that its file has seen; above `generation` if that
                                   was asked for */
    uint64_t replayed_bytes;    /**< of the journal, when the window was opened */
    uint32_t atomic;            /**< STORWIN_ATOMIC_ */
    uint32_t recovery;          /**< STORWIN_RECOVERY_ : what was found when it was opened */
    uint64_t block_bytes;       /**< user pager: what it reads and evicts at a time */
    uint64_t app_version;       /**< of the state; 0: none was set */
};

/**
 * @brief What a window became.
 * @param win   a window
 * @param info  its `size` is set: no more than that is filled; a smaller one is -EINVAL
 * @return 0; -EINVAL
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_query(const struct storwin_window *win, struct storwin_info *info);

/**
 * @brief What became of a hint, as text in the hint's own form, as MPI_Win_get_info() wants it.
 * @param win    a window
 * @param key    one of storwin_hint_key()
 * @param value  receives the value and a NUL; for striping_factor and striping_unit that could not
 *               be applied "unsupported"; for the auto factor the part that it came to
 * @param cap    bytes of `value`
 * @return
 *   - length of the value without its NUL
 *   - -ENOENT: not a hint of this library, or not in effect for this window
 *   - -ENOBUFS: `cap` is too small
 *
 * MT-Safe. Allocates nothing.
 */
STORWIN_API int storwin_hint_query(const struct storwin_window *win, const char *key, char *value,
                                   size_t cap);

/**
 * A part of a window with what lies behind it: what another process needs to map the same bytes.
 */
struct storwin_info_part {
    size_t size;       /**< sizeof(struct storwin_info_part), set by the caller */
    uint64_t offset;   /**< first byte, relative to the window; a multiple of the page size but in a
                          shared window without gaps */
    uint64_t bytes;    /**< length; the mapping goes on to the end of the page */
    uint32_t kind;     /**< STORWIN_MEMORY or STORWIN_STORAGE */
    uint32_t coherent; /**< 1: who maps `fd` MAP_SHARED has the same memory; 0: what others see in
                          `fd` is as of the last sync */
    int32_t fd;    /**< the file, device or memory object, open for reading and writing; -1: private
                      memory */
    uint32_t file; /**< of storage: number of the file, 0 unless a shared window has one for each
                      segment */
    uint64_t fd_offset; /**< where in `fd` the part begins */
};

/**
 * @brief The i-th part of a window, in the order of addresses, and a descriptor of it.
 *
 * For a process that serves its window to others of the node: it sends them the descriptors
 * (SCM_RIGHTS), and they map the parts one after another.
 *   - The descriptor stays the window's: valid until storwin_free(), not to be closed, locked or
 *     resized. Duplicate it to keep it longer.
 *   - Memory has one where STORWIN_MEMFD was set: a memfd, sealed against growing and shrinking, or
 *     in a shared window the object `shm_name`.
 *
 * @param win   a window
 * @param i     from 0
 * @param part  its `size` is set: no more than that is filled; a smaller one is -EINVAL
 * @return 0; STORWIN_ERANGE: there are no more parts; -EINVAL
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

/** What a window has done so far. With STORWIN_TRACK_MSYNC only the syncs are counted. */
struct storwin_stats {
    size_t size;             /**< sizeof(struct storwin_stats), set by the caller */
    uint64_t n_syncs;        /**< syncs */
    uint64_t dirty_bytes;    /**< found changed by all syncs */
    uint64_t written_bytes;  /**< handed to storage by all syncs and evictions */
    uint64_t n_requests;     /**< in how many requests */
    uint64_t resident_bytes; /**< user pager: held now; above the bound only while blocks are pinned
                                or cannot be written */
    uint64_t n_faults;       /**< user pager: faults served */
    uint64_t read_bytes;     /**< user pager: read from storage, with read-ahead */
    uint64_t n_pinned; /**< user pager: blocks that were not evicted because pages of theirs were
                          pinned */
    uint32_t wrote;    /**< STORWIN_WROTE_ of the last sync */
    uint32_t reserved; /**< 0 */
};

/**
 * @brief What a window has done so far, for who chooses a pager or a budget.
 * @param win    a window
 * @param stats  its `size` is set: no more than that is filled; a smaller one is -EINVAL
 * @return 0; -EINVAL
 * MT-Safe: counters may be of slightly different moments. Allocates nothing.
 */
STORWIN_API int storwin_window_stats(const struct storwin_window *win, struct storwin_stats *stats);

/**
 * @name Limits and caveats
 *
 *   - Two windows on overlapping ranges of one file see each other's writes only when both have the
 *     kernel pager. Windows on one file should have the same pager: where direct writes of one meet
 *     stores into the page cache by another, in the same or a neighbouring page, Linux reports -EIO
 *     to both.
 *   - After fork() a child has a copy of memory parts and of resident windows, and no mapping of a
 *     user-paged one; with STORWIN_MEMFD it shares memory parts. Only the allocating process may
 *     sync and free: in a child these return STORWIN_ESTATE and do nothing.
 *   - A file that is shortened under a window: access behind its new end is a SIGBUS with the
 *     kernel pager. The next sync reports STORWIN_ESHORT with the range that has gone, once as far
 *     as that sync makes the file longer again; a resident window has all of it, and writes it
 *     again.
 *   - A page changed while a sync writes it is stored as before, as after, or mixed by sectors; it
 *     counts as changed for the next sync.
 *   - Stores that do not go through this process's page tables are not seen: those of a system call
 *     or a device that has *pinned* pages, as a read() with O_DIRECT, process_vm_writev(),
 *     io_uring's fixed buffers and memory registered with a network adapter do. Where the kernel
 *     tells which pages are pinned (Linux 6.8; storwin_info.keeps_pinned), a user-paged window
 *     keeps these in memory, if need be beyond its bound, and every sync writes them. Elsewhere,
 *     and with direct reads from NFS and FUSE, such stores are lost when the page is evicted
 *     meanwhile, with no error: let them go through a buffer, or use another pager. In a resident
 *     window, those made during a sync of the same pages may not count as changed. Plain read() and
 *     recv() copy page by page, and are safe.
 *   - Space cannot be reserved on file systems that copy on write (btrfs) or that refuse
 *     fallocate() and hold compressed data: there a full disk can still come later.
 * @{
 */
/** bytes of one window, and of all segments of a shared one */
#define STORWIN_MAX_BYTES   (UINT64_C(1) << 46)
#define STORWIN_MAX_PATH    4095u    /**< bytes of a file name, without its NUL */
#define STORWIN_MAX_RANKS   65536u   /**< processes of a shared window */
#define STORWIN_MAX_STRIPES 65535u   /**< striping_factor */
#define STORWIN_MIN_BLOCK   4096u    /**< block_bytes */
#define STORWIN_MAX_BLOCK   1048576u /**< block_bytes */
/** bytes that a user-paged window holds at least */
#define STORWIN_MIN_BUDGET (UINT64_C(1) << 20)
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_H */

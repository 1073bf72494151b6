/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file window.h
 * @brief Windows: options and hints, allocation, sync, properties and statistics.
 */
#ifndef STORWIN_WINDOW_H
#define STORWIN_WINDOW_H

#include <storwin/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------- windows */

/** Options of a window. Begin with storwin_opts_init(): some defaults are not 0. */
struct storwin_opts {
    size_t size; /**< sizeof(struct storwin_opts), set by storwin_opts_init() */
    /** STORWIN_MEMORY (default) or STORWIN_STORAGE. With STORWIN_MEMORY, of the options below only
     * STORWIN_MEMFD and the allocator have an effect */
    uint32_t alloc_type;
    uint32_t order; /**< STORWIN_MEMORY_FIRST (default) or STORWIN_STORAGE_FIRST */
    /** path of a file or block device, not NULL for storage; read during the call only */
    const char *filename;
    /** offset of the window in the file or device: a multiple of the page size */
    uint64_t offset_bytes;
    /** part on storage, in billionths of the window, rounded to the nearest page, half a page
     * upwards; default: all */
    uint32_t factor_ppb;
    uint32_t access_style; /**< STORWIN_ACCESS_ bits; 0: unknown */
    uint32_t file_perm;    /**< permissions of a new file, 0 to 0777 less the umask; default 0600 */
    /** devices to stripe a new file across, up to STORWIN_MAX_STRIPES; 0: as the directory */
    uint32_t striping_factor;
    uint32_t striping_unit; /**< bytes of a stripe, a multiple of 65,536; 0: as the directory */
    uint32_t pager;         /**< STORWIN_PAGER_KERNEL (default), _RESIDENT or _USER */
    /** STORWIN_UNLINK, STORWIN_DISCARD, STORWIN_SPARSE, STORWIN_MEMFD, STORWIN_RAW */
    uint32_t flags;
    /** threads that write back, page, or compute checksums, at most 64; 0: the library chooses */
    uint32_t n_threads;
    /** with STORWIN_FACTOR_AUTO: the largest size of the memory part, bytes; 0: the memory
     * available now, less an eighth */
    uint64_t memory_bytes;
    /** with STORWIN_PAGER_USER: the bytes that it may keep in memory, at least STORWIN_MIN_BUDGET;
     * 0: a quarter of the available memory */
    uint64_t budget_bytes;
    const struct storwin_allocator *allocator; /**< for handles and tables; NULL: libc */
    uint32_t atomic;  /**< STORWIN_ATOMIC_ : how storwin_commit() writes; default _NONE */
    uint32_t changes; /**< STORWIN_CHANGES_ : how a commit finds changes; default _TRACKED */
    /** with `atomic`: open the newest commit whose generation is at most this. A number above the
     * newest of all fails with STORWIN_ENONE. 0: the newest of all */
    uint64_t generation;
    /** with STORWIN_PAGER_USER: unit of reading and eviction, a power of 2 from 4,096 to 1,048,576.
     * It is rounded up to a page, and down to a sixteenth of the budget. 0: by access_style */
    uint64_t block_bytes;
    /** with `atomic`: the caller's version number of the state's format, stored with the first
     * commit; 0: that of the file */
    uint64_t app_version;
    /** with STORWIN_ATOMIC_SLOTS: number of commits that the file keeps readable, the newest
     * included, 2 to STORWIN_MAX_GENERATIONS. It is fixed when the file is made. 0: that of the
     * file, 2 for a new one. The file has this number of copies of the window. */
    uint64_t generations;
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
 *   - A killed process may leave direct writes to the range in flight. The call waits up to 120 s
 *     for them, and for a sync of another window on the range. Then it fails with STORWIN_EBUSY.
 *   - With storage_alloc_atomic the call also waits for the file's lock (storwin/commit.h).
 *   - Memory and new files read as zeros. The base is page-aligned.
 *
 * @param opts   options; NULL: a window in memory
 * @param bytes  length of the window, 0 to STORWIN_MAX_BYTES. A window of 0 bytes has the base
 *               NULL.
 * @param out    receives the window, untouched on failure
 * @param err    detail on failure, or NULL; `hint` names the hint that caused it
 * @return
 *   - 0
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options are wrong
 *   - STORWIN_ESHORT, STORWIN_ETYPE, STORWIN_EOWNER: the file or device is refused
 *   - STORWIN_EPAGER: userfaultfd is not available
 *   - STORWIN_EBUSY: direct writes of another process to the range do not end; or a window with
 *     commits has the file open
 *   - STORWIN_EFORMAT: the file holds commits, at the window's offset or at offset 0, and neither
 *     storage_alloc_atomic nor STORWIN_RAW is set
 *   - STORWIN_EDAMAGED, STORWIN_EFORMAT, STORWIN_EVERSION, STORWIN_ENONE, STORWIN_EBUSY: with
 *     storage_alloc_atomic: the commits of the file cannot be opened; see storwin_commit()
 *   - -ENOSPC: full; -EFBIG: over the limit of the process (RLIMIT_FSIZE) or the file system
 *   - -EOPNOTSUPP: storage_alloc_atomic on a machine with pages above 64 KiB
 *   - -EAGAIN: other processes created and removed the file in each of several attempts
 *   - -ENOMEM; -EINVAL; any error of open()
 *
 * @threads   MT-Safe.
 * @allocates the window and its handle; the pagers resident and user also allocate their tables.
 * @cost      system calls. The resident pager also reads the file, and clears the memory that the
 *            file does not fill.
 * @source    the paper (see storwin.h), section 2.1, MPI_Win_allocate; reservation and clean-up are
 *            ours.
 */
STORWIN_API int storwin_alloc(const struct storwin_opts *opts, uint64_t bytes,
                              struct storwin_window **out, struct storwin_error *err);

/**
 * @brief First address of a window, or of this rank's segment of a shared one. NULL for 0 bytes.
 * @param win  a window, or NULL
 * MT-Safe.
 */
STORWIN_API void *storwin_base(const struct storwin_window *win);

/** As a length: up to the end of the window. */
#define STORWIN_TO_END UINT64_MAX

/**
 * @brief Make earlier stores to a range durable.
 *
 * The call writes every changed page that overlaps the range. If the window created the file, the
 * call also makes the name of the file durable.
 *
 * After a failure:
 *   - The call reports it once. `offset` and `bytes` of the error span the bytes that may not be
 *     durable.
 *   - That range counts as changed, and the next sync writes it again. With the pagers kernel and
 *     user, this holds for the pages that are still in memory.
 *   - With the kernel pager, the call writes the whole range a second time. If this does not fail,
 *     the error spans the whole range of the call.
 *   - With the kernel pager on ext4, the next sync of any part of that range writes this part past
 *     the page cache, since ext4 itself would lose it. While that sync runs, nothing may store into
 *     the file's 4 MiB blocks (aligned to 4 MiB) that contain this part: no thread of any process,
 *     no system call, no device. Such a store may be lost without an error. Stores during the
 *     failed sync, and between the two syncs, are safe.
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
 * @threads   Make one sync of a window at a time; loads and stores may continue (see the caveats in
 *            storwin.h).
 * @allocates possibly, for requests in flight; without memory it continues with fewer requests.
 * @cost      writes the changed pages; with the resident pager also scans the page tables, about 1
 *            ms a GiB.
 * @source    the paper (see storwin.h), section 2.1, MPI_Win_sync; selection, parallel writing and
 *            error ranges are ours
 */
STORWIN_API int storwin_sync(struct storwin_window *win, uint64_t offset, uint64_t bytes,
                             struct storwin_error *err);

/**
 * @brief Free a window: sync it, unmap it, and remove the file if STORWIN_UNLINK was set.
 *
 * With STORWIN_DISCARD or STORWIN_UNLINK the call does not sync. Every result except STORWIN_EBUSY
 * and STORWIN_ESTATE frees the window.
 *
 * @param win  a window, or NULL
 * @param err  detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_EBUSY: still attached to a dynamic window, or a sync is pending; nothing was done
 *   - STORWIN_ESTATE: the window belongs to another process; nothing was done
 *   - any error of storwin_sync() or unlink()
 *
 * @threads No other thread may use the window during the call or afterwards.
 */
STORWIN_API int storwin_free(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Free a window without a sync, as if STORWIN_DISCARD had been set.
 *
 * The file of a window with commits stays at the last commit. So a program can abandon a half-made
 * change.
 *
 * @param win  a window, or NULL
 * @param err  detail on failure, or NULL
 * @return as storwin_free()
 *
 * @threads No other thread may use the window during the call or afterwards.
 */
STORWIN_API int storwin_discard(struct storwin_window *win, struct storwin_error *err);

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
/** a commit appends to the journal if less than 40 % changed, else updates the older copy */
#define STORWIN_ATOMIC_AUTO 3u

#define STORWIN_CHANGES_TRACKED 0u /**< by this process's page tables */
/** by comparing checksums of the whole window, about 0.1 s a GiB */
#define STORWIN_CHANGES_COMPARED 2u

/** factor_ppb of a window wholly on storage */
#define STORWIN_FACTOR_ONE UINT32_C(1000000000)
/** factor_ppb: as many pages in memory as are available, all others on storage */
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
 * this removes the target and not the link. No effect on devices. */
#define STORWIN_UNLINK (1u << 0)
/** flags: do not sync when the window is freed */
#define STORWIN_DISCARD (1u << 1)
/** flags: reserve no space; a full disk then causes a SIGBUS or a failed sync */
#define STORWIN_SPARSE (1u << 2)
/** flags: a memory part has a descriptor, which other processes can map (storwin_part_query());
 * also for a window in memory */
#define STORWIN_MEMFD (1u << 3)
/** flags: without storage_alloc_atomic, open a file that holds commits as a plain window: its bytes
 * are the window's, and stores overwrite the commits */
#define STORWIN_RAW (1u << 4)
/** @} */

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
 *   - -EAGAIN: the system cannot make a thread
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
#define STORWIN_TRACK_ALL 4u
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

#define STORWIN_STRIPING_NONE        0u /**< not requested */
#define STORWIN_STRIPING_APPLIED     1u /**< set on the new file */
#define STORWIN_STRIPING_UNSUPPORTED 2u /**< the file system does not stripe, or refused */
#define STORWIN_STRIPING_EXISTING    3u /**< no effect: the file existed, or is a device */
/** @} */

/** The properties of a window as allocated. */
struct storwin_info {
    size_t size;            /**< sizeof(struct storwin_info), set by the caller */
    void *base;             /**< first address of the whole window */
    uint64_t bytes;         /**< its length; of a shared one, of all segments with their gaps */
    uint64_t memory_bytes;  /**< length of its memory part */
    uint64_t storage_bytes; /**< length of its storage part */
    uint64_t offset_bytes;  /**< where in the file the storage part begins */
    uint64_t budget_bytes;  /**< user pager: its budget */
    uint32_t page_bytes;    /**< unit of parts, of tracking and of syncs */
    uint32_t alloc_type;    /**< STORWIN_MEMORY or _STORAGE */
    uint32_t order;         /**< STORWIN_MEMORY_FIRST or _STORAGE_FIRST */
    uint32_t factor_ppb;    /**< as requested, STORWIN_FACTOR_AUTO too */
    uint32_t pager;         /**< STORWIN_PAGER_ */
    uint32_t track;         /**< STORWIN_TRACK_ : how changed pages are found */
    uint32_t target;        /**< STORWIN_TARGET_ */
    uint32_t created;       /**< 1: the file is new */
    uint32_t striping;      /**< STORWIN_STRIPING_ */
    uint32_t huge;          /**< 1: huge pages were requested */
    /** 1: the user pager may not serve faults of system calls: pass no pointer into the window to a
     * system call */
    uint32_t user_faults_only;
    uint32_t keeps_pinned; /**< 1: the user pager evicts no pinned page (Linux 6.8 reports them) */
    uint64_t generation;   /**< of the last commit; 0: none */
    /** the largest that its file has seen; above `generation` if an older one was opened */
    uint64_t newest_generation;
    uint64_t replayed_bytes; /**< journal bytes replayed when the window was opened */
    uint32_t atomic;         /**< STORWIN_ATOMIC_ */
    uint32_t recovery;       /**< STORWIN_RECOVERY_ : result of opening the file */
    uint64_t block_bytes;    /**< user pager: unit of reading and eviction */
    uint64_t app_version;    /**< of the state; 0: none was set */
};

/**
 * @brief Return the properties of a window.
 * @param win   a window
 * @param info  the caller sets its `size`: the call fills no more than that; a size below the first
 *              release's fails with -EINVAL
 * @return 0; -EINVAL
 * MT-Safe, but not during a commit, revert or storwin_follow() of the window. An asynchronous
 * commit lasts until its result is collected. Allocates nothing.
 */
STORWIN_API int storwin_query(const struct storwin_window *win, struct storwin_info *info);

/**
 * @brief The effective value of a hint, as text in the hint's own form, for MPI_Win_get_info().
 * @param win    a window
 * @param key    one of storwin_hint_key()
 * @param value  receives the value and a NUL. For a striping_factor or striping_unit that could not
 *               be applied: "unsupported". For the auto factor: the resulting part
 * @param cap    bytes of `value`
 * @return
 *   - length of the value without its NUL
 *   - -ENOENT: not a hint of this library, or without effect on this window
 *   - -ENOBUFS: `cap` is too small
 *
 * MT-Safe as storwin_query(). Allocates nothing.
 */
STORWIN_API int storwin_hint_query(const struct storwin_window *win, const char *key, char *value,
                                   size_t cap);

/**
 * A part of a window, and the file or memory object behind it. Another process needs this to map
 * the same bytes.
 */
struct storwin_info_part {
    size_t size; /**< sizeof(struct storwin_info_part), set by the caller */
    /** first byte, relative to the window; a multiple of the page size except in a shared window
     * without gaps */
    uint64_t offset;
    uint64_t bytes; /**< length; the mapping extends to the end of the page */
    uint32_t kind;  /**< STORWIN_MEMORY or STORWIN_STORAGE */
    /** 1: a process that maps `fd` MAP_SHARED shares the memory; 0: `fd` shows the state of the
     * last sync */
    uint32_t coherent;
    /** the file, device or memory object, open for reading and writing; -1: private memory, or the
     * storage part of a window with commits */
    int32_t fd;
    /** number of a storage part's file; 0 unless a shared window has one for each segment */
    uint32_t file;
    uint64_t fd_offset; /**< where in `fd` the part begins */
};

/**
 * @brief The i-th part of a window, in address order, and its descriptor.
 *
 * This is for a process that serves its window to other processes of the node. It sends them the
 * descriptors (SCM_RIGHTS), and they map the parts at consecutive addresses.
 *   - The window owns the descriptor. It is valid until storwin_free(), and the caller must not
 *     close, lock or resize it. Duplicate it to keep it longer.
 *   - A memory part has a descriptor if STORWIN_MEMFD was set: a memfd, sealed against growing and
 *     shrinking. In a shared window the descriptor is that of the object `shm_name`.
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

/** Statistics of a window. With STORWIN_TRACK_MSYNC only n_syncs is counted. */
struct storwin_stats {
    size_t size;            /**< sizeof(struct storwin_stats), set by the caller */
    uint64_t n_syncs;       /**< syncs */
    uint64_t dirty_bytes;   /**< found changed by all syncs */
    uint64_t written_bytes; /**< written to storage by all syncs and evictions */
    uint64_t n_requests;    /**< number of these writes */
    /** user pager: bytes in memory now; above the budget only while blocks are pinned, or cannot be
     * written */
    uint64_t resident_bytes;
    uint64_t n_faults;   /**< user pager: faults served */
    uint64_t read_bytes; /**< user pager: read from storage, with read-ahead */
    uint64_t n_pinned;   /**< user pager: blocks not evicted because of a pinned page */
    uint32_t wrote;      /**< STORWIN_WROTE_ of the last sync */
    uint32_t reserved;   /**< 0 */
};

/**
 * @brief Return the statistics of a window: the basis for choosing a pager or a budget.
 * @param win    a window
 * @param stats  the caller sets its `size`: the call fills no more than that; a size below the
 *               first release's fails with -EINVAL
 * @return 0; -EINVAL
 * MT-Safe; the counters may be of slightly different moments. Allocates nothing.
 */
STORWIN_API int storwin_window_stats(const struct storwin_window *win, struct storwin_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_WINDOW_H */

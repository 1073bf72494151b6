/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file read.h
 * @brief Readers: they copy one commit of a file, beside its writer, without a lock and without
 *        writing.
 */
#ifndef STORWIN_READ_H
#define STORWIN_READ_H

#include <storwin/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @brief Open the newest commit of a file for reading, or the newest up to opts->generation.
 *
 * The window is a copy of one commit, in private memory that refuses stores (SIGSEGV). The copy
 * changes only in storwin_follow(). Any number of processes and threads may read a file, beside
 * one window that commits to it; neither side waits for the other.
 *
 *   - The call opens the file for reading only: mode 0444, a read-only mount or a read-only device
 *     suffices. It takes no lock, and writes neither the file nor a name.
 *   - The copy is never a mix of two commits. Since the writer may overwrite an old commit while
 *     the call reads it, the call compares the checksum of its copy with the one in the commit's
 *     record. If they differ and the records have changed, the call begins again. If they differ
 *     and no record has changed, the file is damaged.
 *   - After 16 attempts the call fails with STORWIN_EBUSY. A writer overwrites old commits:
 *       - with STORWIN_ATOMIC_JOURNAL: when the journal is full;
 *       - with STORWIN_ATOMIC_AUTO: also when 40 % or more has changed;
 *       - with STORWIN_ATOMIC_SLOTS: in each commit, the oldest of `storage_alloc_generations`
 *         commits. A larger number gives slow readers more time.
 *   - A reader sees a commit as soon as its record is in the file. This is shortly before
 *     storwin_commit() returns. The reader sees the commit even if that call then fails to flush
 *     the record. A power cut before the record is durable may undo a commit that a reader has
 *     seen.
 *   - Readers follow the open file and not its name.
 *
 * storwin_base(), storwin_query(), storwin_part_query() and storwin_free() work as on other
 * windows; the length is that of the commit. Calls that write return STORWIN_ESTATE.
 *
 * @param opts  filename, offset_bytes, generation, app_version, n_threads and allocator are used.
 *              With a generation, the call opens the newest commit up to that number. Other
 *              options must be valid, and have no effect.
 * @param out   receives the window, untouched on failure
 * @param err   detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ENONE: no commit, or none up to opts->generation, or opts->generation is above the
 *     newest one
 *   - STORWIN_EDAMAGED: the commit does not match its checksum. If it is not the newest, the writer
 *     may be overwriting it at this moment.
 *   - STORWIN_EBUSY: the writer commits faster than the call reads
 *   - STORWIN_EFORMAT, STORWIN_EVERSION, STORWIN_ETYPE, STORWIN_EOWNER: as storwin_alloc()
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options are wrong
 *   - -ENOMEM; -ENOENT, -EACCES, -EIO, …: from open() and reading
 *
 * @threads   MT-Safe.
 * @allocates private memory of the commit's length; 8 bytes for each 4,096 and three bits for each
 *            page; one descriptor.
 * @cost      reads the commit through the page cache, which readers share, and computes its
 *            checksum.
 * @source    ours
 */
STORWIN_API int storwin_open_read(const struct storwin_opts *opts, struct storwin_window **out,
                                  struct storwin_error *err);

/**
 * @brief Bring a reader's copy to the newest commit.
 *
 * After a failure the copy is unchanged. After the result 1, storwin_base() and the length may have
 * changed: read them again.
 *
 * @param win  a window of storwin_open_read()
 * @param err  detail on failure, or NULL
 * @return
 *   - 1: the copy is of another commit now. The new generation is lower if a writer has opened an
 *     older generation and committed.
 *   - 0: the copy is of the newest commit already
 *   - STORWIN_ESTATE: not a reader, or it belongs to another process
 *   - or as storwin_open_read()
 *
 * @threads   Make one call for a window at a time. No thread may read the copy during the call.
 * @allocates during the call: memory for the changes in the journal since the copy's commit, or for
 *            a second copy.
 * @cost      if nothing is new: two small reads. If the writer has only appended to the journal
 *            since the copy's commit: reads the new batches. Otherwise, and always with
 *            STORWIN_ATOMIC_SLOTS: reads the whole commit, as storwin_open_read().
 * @source    ours
 */
STORWIN_API int storwin_follow(struct storwin_window *win, struct storwin_error *err);

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_READ_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file read.h
 * @brief Readers: one commit of a file, beside its writer, without a lock and without writing.
 */
#ifndef STORWIN_READ_H
#define STORWIN_READ_H

#include <storwin/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @brief Open the newest commit of a file for reading, or the one that `opts` names.
 *
 * The window is a copy of one commit, in private memory that refuses stores (SIGSEGV). The copy
 * changes only in storwin_follow(). Any number of processes and threads may read a file, beside
 * one window that commits to it; neither side waits for the other.
 *
 *   - The file is opened for reading only: mode 0444, a read-only mount and a read-only device
 *     suffice. The call takes no lock, and writes neither the file nor a name.
 *   - The copy is never a mix of two commits. The writer replaces the data of an old commit while
 *     the call reads them; so the call compares the copy's checksum with that of the commit's
 *     record. If they differ and the writer has written a new record meanwhile, it starts again
 *     with that; if no record has changed, the file is damaged.
 *   - A writer that replaces the data 16 times while they are read causes STORWIN_EBUSY. With a
 *     journal, it replaces them when the journal is full or 40 % changed. With STORWIN_ATOMIC_SLOTS
 *     a commit replaces the oldest of `storage_alloc_generations` commits: more of them give slow
 *     readers time.
 *   - A reader sees a commit when its record is in the file: shortly before storwin_commit()
 *     returns, and also if that call then fails to flush the record. A power cut at that moment
 *     may take such a commit back.
 *   - Readers follow the open file and not its name.
 *
 * storwin_base(), storwin_query(), storwin_part_query() and storwin_free() work as on other
 * windows; the length is that of the commit. Calls that write return STORWIN_ESTATE.
 *
 * @param opts  filename; offset_bytes, generation (the newest commit up to this number),
 *              app_version, n_threads and allocator. Other options must be valid, and have no
 *              effect.
 * @param out   receives the window, untouched on failure
 * @param err   detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ENONE: no commit, or not the named one
 *   - STORWIN_EDAMAGED: the commit does not match its checksum. One that is not the newest may be
 *     overwritten at this moment.
 *   - STORWIN_EBUSY: the writer commits faster than the call reads
 *   - STORWIN_EFORMAT, STORWIN_EVERSION, STORWIN_ETYPE, STORWIN_EOWNER: as storwin_alloc()
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options are wrong
 *   - -ENOMEM; -ENOENT, -EACCES, -EIO, …: from open() and reading
 *
 * @threads   MT-Safe.
 * @allocates the length of the commit, of the process's own; 8 bytes for each 4,096 and three bits
 *            for each page; one descriptor.
 * @cost      reading the commit through the page cache, which readers share, and its checksum.
 * @source    ours
 */
STORWIN_API int storwin_open_read(const struct storwin_opts *opts, struct storwin_window **out,
                                  struct storwin_error *err);

/**
 * @brief Bring a reader's copy to the newest commit.
 *
 * After a failure the copy is unchanged. After 1, storwin_base() and the length may have changed:
 * read them again.
 *
 * @param win  a window of storwin_open_read()
 * @param err  detail on failure, or NULL
 * @return
 *   - 1: the copy is of another commit now. Its generation can be lower, if a writer has opened an
 *     older generation and committed.
 *   - 0: the copy is of the newest commit already
 *   - STORWIN_ESTATE: not a reader, or it belongs to another process
 *   - or as storwin_open_read()
 *
 * @threads   One call for a window at a time; no thread reads the copy during the call.
 * @allocates during the call: the changes in the journal since the copy's commit; else a second
 *            copy.
 * @cost      two small reads if nothing is new. The new batches of the journal, if the writer has
 *            only appended to it since; else the whole commit, as storwin_open_read(): with
 *            STORWIN_ATOMIC_SLOTS always.
 * @source    ours
 */
STORWIN_API int storwin_follow(struct storwin_window *win, struct storwin_error *err);

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_READ_H */

/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file commit.h
 * @brief Atomic commits, also of existing memory and of several windows at once.
 */
#ifndef STORWIN_COMMIT_H
#define STORWIN_COMMIT_H

#include <storwin/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @brief Commit a window: all of its storage part as it is now, or none of it.
 *
 * The call works on adopted windows (storwin_adopt()), and on windows with storage_alloc_atomic and
 * the pager resident. After it has returned 0, a crash at any moment leaves the file at this commit
 * or a later one, whole. Any other result leaves the file at the previous commit or at this one,
 * whole. The window's addresses never change.
 *
 *   - With another pager, storwin_alloc() with storage_alloc_atomic fails with STORWIN_ECONFLICT.
 *     The pagers kernel and user write pages to their places in the file between commits, when
 *     memory runs short. But until the next commit the file must hold the last one, whole.
 *   - A commit has a number, its *generation*: 1 for the first commit, and one more for each commit
 *     that found a change. storwin_query() returns it. Without changes the call writes nothing.
 *   - Threads may store into the window during the call. The commit is a *picture*: the window at
 *     one moment during the call. If it contains a store, it also contains all stores that
 *     happen-before that one. See below.
 *   - After a failure all earlier changes still count as changes, and the next commit writes them.
 *   - storwin_sync() of any range of such a window, storwin_sync_start() and storwin_free() make a
 *     commit of the whole window. storwin_discard() frees the window without a commit;
 *     storwin_revert() undoes the changes since the last one.
 *
 * Stores during the call:
 *   - Without stores, the call writes from the window itself. In compared windows (see below), it
 *     writes from short copies, since only checksums show stores there. It does the same for the
 *     first and last page of adopted memory if they also have other data.
 *   - If there are stores, the call copies pages and writes the copies. If it has written an area
 *     (see LAYOUT.md), it copies only the pages that were stored into meanwhile. If it has appended
 *     to the journal, it copies all pages of this commit, and the next commits that append begin
 *     with the copies at once, until one of them finds no store. The copies take memory until the
 *     call ends.
 *   - It copies in rounds: each round copies again what was stored into since the last round. When
 *     a round finds no store, the copies are the picture. No thread waits for the call, but the
 *     first store into a page after each round costs a fault of tracking again.
 *   - If threads store in each of 8 rounds, the call forks this process, and takes the picture from
 *     the child. The child runs nothing of the program, sends no SIGCHLD, and ends within the call.
 *     Threads that take a page fault wait while the kernel copies this process's page tables: about
 *     5 ms a GiB of its memory.
 *   - A window is *compared* if a commit finds its changes by comparing checksums: with
 *     STORWIN_CHANGES_COMPARED, or where the kernel cannot track. Then each round reads the whole
 *     window, and after a fork the call copies the whole window from the child.
 *   - The call fails with STORWIN_ERACE, and commits nothing, if threads store in each round and a
 *     fork does not help: fork is not allowed, or pages of the window are shared or marked
 *     MADV_DONTFORK. Call again, or store less.
 *   - If other processes share the memory of a compared window, the commit needs a round in which
 *     none of them stores.
 *   - Two kinds of stores during the call are not detected, and may be in the commit in part:
 *       - in a compared window, a store that is undone during the call;
 *       - in any other window, a device's store. It can also make the commit fail its checksums
 *         (STORWIN_EDAMAGED) when the file is opened.
 *   - Do not store into memory with MADV_WIPEONFORK during the call.
 *
 * Opening the file:
 *   - storwin_alloc() or storwin_adopt() restores the newest generation. The window may be longer
 *     than the stored state: the memory behind the state keeps its content. If the window is
 *     shorter than the generation that is opened, the call fails with STORWIN_EFORMAT.
 *     storwin_file_query() returns the length of the newest.
 *   - A file keeps the app_version of its first commit. Opening it with another version fails with
 *     STORWIN_EVERSION, and does not change the file.
 *   - The window locks the file until the window is freed, or longer if a child of fork() still
 *     holds the window's descriptors. While the file is locked, no other window can open it, with
 *     commits or without. Readers (storwin_open_read()) can, since they take no lock. Windows
 *     without commits do not exclude each other.
 *   - If another process holds the lock, storwin_alloc() and storwin_adopt() wait up to 10 s, then
 *     fail with STORWIN_EBUSY. A killed process keeps the lock until its writes end. If another
 *     window of this process holds the lock, the call fails at once.
 *   - Commits follow the open file and not its name. If the file is removed or replaced, later
 *     commits return 0, but no later call that opens the name finds them.
 *
 * Damage:
 *   - A damaged record or block is detected. The error text of STORWIN_EDAMAGED names the newest
 *     generation that is whole; the hint storage_alloc_generation opens it.
 *   - Which older generations can be opened:
 *       - The one before the newest, unless a commit after the newest failed or was interrupted.
 *       - With a journal also earlier ones, as long as the journal holds them.
 *       - With opts.generations = N the last N; the oldest of these only if no later commit failed
 *         or was interrupted.
 *   - The first commit after you have opened an older generation discards the newer ones, even if
 *     nothing was stored, and possibly even if this commit fails. storwin_free() makes this commit
 *     unless STORWIN_DISCARD is set.
 *   - With STORWIN_ATOMIC_SLOTS the generations share no byte: damage of one leaves the others
 *     whole. With a journal, a damaged block of a copy damages every generation that builds on it.
 *   - If the file was shortened, the next commit writes the whole window. A crash before that
 *     commit is complete may lose everything.
 *
 * Space (LAYOUT.md describes the file):
 *
 *   - A file holds two copies of the window, and a journal of the same length unless
 *     STORWIN_ATOMIC_SLOTS is set.
 *   - With opts.generations = N > 2 it holds N copies, and a commit writes the changes of the
 *     last N commits.
 *   - Let C be the length of the stored state, rounded up to 64 KiB. If the window is longer than
 *     C, new copies and a new journal go behind the old ones, whose space is 3·C (with N > 2: N·C).
 *     The new ones overwrite any content that the file has there.
 *
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ERACE: see "Stores during the call"
 *   - -EFAULT: a changed page is unmapped or protected; or, in adopted memory, the first or last
 *     page is unmapped or protected, and it also has other data. `offset` and `bytes` of the error
 *     name the first such range. The file is unchanged. Before Linux 5.14 the call finds only
 *     unmapped pages, and a protected page ends the process. A page that MADV_GUARD_INSTALL guards
 *     may end it too.
 *   - STORWIN_ESTATE: the window has no storage_alloc_atomic or belongs to another process, or an
 *     asynchronous sync is pending
 *   - -ENOMEM, -EIO, -ENOSPC, …: the file's newest commit is still the previous one. Exception: if
 *     you had opened an older generation, and this was the first commit since, the newest commit
 *     may be that generation
 *
 * @threads   Make one commit or sync of a window at a time; loads and stores may continue.
 * @allocates during the call: a bit for each page, if it writes 256 pages or more. If it appends to
 *            the journal: 16 bytes for each 4,096 bytes that changed, and copies of up to 1 MiB. If
 *            threads store meanwhile: a copy of the pages that it writes, and three bits for each
 *            page. Needs about 80 KiB of stack.
 * @cost      writes the changed pages once, and flushes the device twice. In four cases the call
 *            updates the older copy instead of the journal: with STORWIN_ATOMIC_SLOTS; if the
 *            journal is full; with STORWIN_ATOMIC_AUTO if 40 % or more has changed; if it must
 *            write the whole window, as in the first commit. If threads store meanwhile, it also
 *            copies the pages that it writes, and each round (see "Stores during the call") takes
 *            about 0.5 ms a GiB; the first such commit writes twice.
 * @source    ours; the two copies are the swap of two windows of "MPI Windows on Storage for HPC
 *            Applications", section 4; the rounds are those of a live migration
 */
STORWIN_API int storwin_commit(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Commit a window under a generation that the caller chooses, to commit several windows as
 *        one.
 *
 * As storwin_commit(), but a call without changes makes a generation too. To commit several windows
 * together, of one process or of several:
 *
 *   1. Choose a number above every window's storwin_info.newest_generation.
 *   2. Commit all windows but one under this number. Continue when every call has returned 0. (With
 *      MPI: each rank commits its own, then reduces the results.)
 *   3. Commit the last window. It *decides*: once this call has returned 0, the commit is valid for
 *      all windows.
 *
 * If both copies of a file's newest record are damaged, the record's generation is unknown, and
 * newest_generation is only one above the generation before.
 *
 * If a call fails, repeat it under the same number, without a store in between. If it fails again
 * and again, free the windows with storwin_discard() and open them as after a crash. Do not begin
 * another number before the last window has decided: otherwise the previous commit may be lost.
 *
 * After a crash, open every window and take the smallest of their generations. Every window still
 * has that generation, since the next one begins only after the last window has decided. If a
 * window opened at another generation, open it again with storage_alloc_generation set to the
 * smallest. Two cases need another remedy:
 *
 *   - A window still has another generation (storwin_query()). Then you had opened an older
 *     generation with storage_alloc_generation, and the crash came before every window had made its
 *     next commit. Open all windows with that older generation.
 *   - A window has no commit while another has several. Then its file was lost. Do not take 0 as
 *     the smallest: this would discard everything.
 *
 * @param win         a window
 * @param generation  above every generation that the file has seen, below 2^63
 * @param err         detail on failure, or NULL
 * @return as storwin_commit(); STORWIN_EVALUE: the number is not allowed; STORWIN_ESHORT: the file
 *         was shortened after a call that failed, so commit under another number
 * @threads Make one commit or sync of a window at a time. Loads and stores may continue, but no
 *          store may come between a call that failed and its repetition.
 * @source  ours; one record decides for all windows
 */
STORWIN_API int storwin_commit_generation(struct storwin_window *win, uint64_t generation,
                                          struct storwin_error *err);

/**
 * @brief Start a commit of the window as it is now, and return; a thread writes it.
 *
 * The picture is of a moment during this call: later stores are not in it, and count for the next
 * commit.
 *
 * A window has at most one asynchronous operation. Collect its result by storwin_commit_wait(), or
 * call storwin_commit_test() until it returns another value than STORWIN_PENDING. Until then, other
 * calls that sync, commit or revert the window return STORWIN_ESTATE, and storwin_free() returns
 * STORWIN_EBUSY.
 *
 *     rc = storwin_commit_start(win, &err);
 *     while (rc == 0 && (rc = storwin_commit_test(win, &err)) == STORWIN_PENDING)
 *         rc = compute_and_store(win);
 *
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return
 *   - 0: started
 *   - STORWIN_ERACE, -EFAULT, STORWIN_ESTATE, -ENOMEM, …: as storwin_commit(); nothing was started
 *   - -EAGAIN: the system cannot make a thread
 *
 * @threads   MT-Safe on distinct objects; loads and stores continue.
 * @allocates a copy of the pages that the commit writes, until it is complete.
 * @cost      finds the changes and copies them: about 0.4 ms a MiB. If the last commit failed to
 *            write its record, the call also writes that record.
 * @source    ours
 */
STORWIN_API int storwin_commit_start(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Test whether the asynchronous commit has completed, and collect its result if it has.
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return STORWIN_PENDING; 0: committed; STORWIN_ESTATE: none was started; or an error of
 *         storwin_commit(), after which the changes count as changes again
 * MT-Safe on distinct objects. Never blocks.
 */
STORWIN_API int storwin_commit_test(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Wait for the asynchronous commit and collect its result.
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return as storwin_commit_test(), without STORWIN_PENDING
 * MT-Safe on distinct objects.
 */
STORWIN_API int storwin_commit_wait(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief A descriptor for poll(): readable (POLLIN) from the moment when the asynchronous commit or
 *        sync has completed until its result is collected.
 * @param win  a window; the descriptor is its own, until it is freed: only poll it
 * @param err  detail on failure, or NULL
 * @return the descriptor, the same in each call; STORWIN_ESTATE: the window belongs to another
 *         process; -EMFILE, …; -EINVAL
 * MT-Safe on distinct objects. The first call opens the descriptor.
 */
STORWIN_API int storwin_commit_fd(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Bring a window back to its last commit, in place. This undoes a change that the program
 *        does not want.
 *
 *   - The call reads the pages that changed since the last commit, from the copy in the file and
 *     from the journal. It touches no other pages. Exception: if an older generation or a longer
 *     window was opened, and nothing was committed since, the call reads the whole state.
 *   - The call does not change the file. Exception: if the last commit failed while it wrote its
 *     record, the call first completes that commit, and the window comes back to its state.
 *   - If the stored state is shorter than the window, the memory behind the state keeps its
 *     content. This ends with the first commit of the longer window.
 *   - After STORWIN_EDAMAGED, -EFAULT or an error of reading, the content of the changed pages is
 *     undefined. They still count as changed.
 *
 * @param win  a window
 * @param err  detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ENONE: nothing was committed so far; the window is unchanged
 *   - STORWIN_ESHORT: the file was shortened, even if only by unused space of the journal; the
 *     window is unchanged
 *   - STORWIN_ESTATE: as storwin_commit()
 *   - -EFAULT: a changed page is unmapped or protected
 *   - STORWIN_EDAMAGED, -EIO, …: the last commit cannot be read
 *
 * @threads   Make one commit or sync of a window at a time. No thread may store into the window
 *            during the call.
 * @allocates during the call: 64 KiB; then for each batch of the journal its index and 1 MiB, one
 *            batch after the other.
 * @cost      reads the changed pages, with gaps of up to 64 KiB between them. The journal has one
 *            batch for each commit: of each batch the call reads the index, and those pieces of 1
 *            MiB that hold changed pages.
 * @source    ours
 */
STORWIN_API int storwin_revert(struct storwin_window *win, struct storwin_error *err);

/**
 * @brief Make existing memory a window with commits.
 *
 * If the file holds a commit, the call copies it into the memory. Otherwise the memory keeps its
 * content, and the first commit writes all of it. After a failure the content of the memory is
 * undefined.
 *
 *   - Any memory works: malloc(), a mapping, huge pages. A mapping shared with other processes
 *     needs STORWIN_CHANGES_COMPARED. Page-aligned memory is written past the page cache. In other
 *     memory, such as malloc() returns, each changed page counts as two.
 *   - By default (STORWIN_CHANGES_TRACKED) commits find changes by this process's page tables.
 *     The page tables do not show stores of other processes or of devices, such as those of a
 *     network adapter into registered memory. For such stores set STORWIN_CHANGES_COMPARED.
 *   - With STORWIN_CHANGES_TRACKED, a shared mapping fails with -EOPNOTSUPP. If the program later
 *     maps a part of the memory anew as shared, each commit fails with STORWIN_ERACE.
 *   - Where the kernel cannot track (before Linux 6.7, or private huge pages), commits compare
 *     checksums.
 *
 * @param ptr    the memory: remains the caller's, and outlives the window
 * @param bytes  its length, 1 to STORWIN_MAX_BYTES / 4
 * @param opts   as for storwin_alloc(), wholly on storage; `atomic` defaults to
 *               STORWIN_ATOMIC_AUTO
 * @param out    receives the window, untouched on failure
 * @param err    detail on failure, or NULL
 * @return
 *   - 0
 *   - -EFAULT: part of the memory is not mapped or not writable
 *   - -EOPNOTSUPP: `changes` cannot work for this memory
 *   - STORWIN_ECONFLICT: the pager user
 *   - or as storwin_alloc()
 *
 * @threads   MT-Safe; no thread may store into the memory during the call.
 * @allocates the handle, and 8 bytes for each 4,096 of the window.
 * @source    ours
 */
STORWIN_API int storwin_adopt(void *ptr, uint64_t bytes, const struct storwin_opts *opts,
                              struct storwin_window **out, struct storwin_error *err);

/** What the records of a file of commits say. Only opening the file verifies the data. `bytes` and
 * `generation` are those of the newest commit, or of the newest up to opts->generation. */
struct storwin_info_file {
    size_t size;         /**< sizeof(struct storwin_info_file), set by the caller */
    uint64_t bytes;      /**< length of the state; a window for it is at least as long */
    uint64_t generation; /**< of the commit */
    /** the generation before that one, for storage_alloc_generation; 0: none. It may fail to open
     * if a commit after the newest failed or was interrupted, since such a commit may have
     * overwritten parts of it */
    uint64_t older_generation;
    uint64_t app_version; /**< as committed; 0: none was set */
    /** 1: both copies of another record are damaged, perhaps the record of a newer commit.
     * storwin_alloc() then fails with STORWIN_EDAMAGED unless storage_alloc_generation is set */
    uint32_t damaged;
    uint32_t generations; /**< commits kept readable at least: storage_alloc_generations */
};

/**
 * @brief Read the records of a file of commits, without opening a window. Writes and locks nothing.
 *
 * @param opts  filename, offset and generation are used; the other options must be valid
 * @param info  the caller sets its `size`: the call fills no more than that; a size below the first
 *              release's fails with -EINVAL. Untouched on failure.
 * @param err   detail on failure, or NULL
 * @return
 *   - 0
 *   - STORWIN_ENONE: no commit: the file is empty, or its first commit was interrupted; or no
 *     generation up to opts->generation
 *   - STORWIN_EFORMAT: the file has other content
 *   - STORWIN_EDAMAGED: every record is damaged
 *   - STORWIN_ETYPE: neither a regular file nor a block device
 *   - STORWIN_EOWNER: another user's link or file, as for storwin_alloc()
 *   - STORWIN_EVALUE, STORWIN_EMISSING, STORWIN_ECONFLICT: the options are wrong
 *   - -ENOENT, -EACCES, -EIO, …: from open() and reading
 *
 * @threads   MT-Safe. If a process commits during the call, the result is one of its last two
 *            commits.
 * @allocates the name, during the call.
 * @cost      two small reads for each generation that the file keeps; 32 small reads for a file
 *            without commits.
 */
STORWIN_API int storwin_file_query(const struct storwin_opts *opts, struct storwin_info_file *info,
                                   struct storwin_error *err);

#ifdef __cplusplus
}
#endif

#endif /* STORWIN_COMMIT_H */

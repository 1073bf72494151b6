/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file storwin.h
 * @brief Windows over memory and storage: one address range in memory, on a file or block device,
 *        or part in each, with syncs of the changed pages, atomic commits, and pagers.
 *
 * A *window* is an address range that a program accesses with plain loads and stores, or exposes to
 * other processes for one-sided communication. Options, or the string hints of MPI storage windows,
 * place its bytes: in memory, in a file or block device, or part in each.
 *
 *   - *Allocation* reserves the space. If the disk is full, the device too short, a limit reached
 *     or a permission missing, storwin_alloc() fails; no SIGBUS comes later.
 *   - A *sync* makes earlier stores durable. A store is not durable before a sync returns.
 *   - A *commit* is a sync of all or nothing. After storwin_commit() has returned 0, a crash of the
 *     program or the machine leaves the file at this commit or a later one, whole. A crash during
 *     the call leaves it at this commit or the previous one, whole. A checkpoint is a commit, and
 *     its cost is proportional to the changes.
 *   - The *pager* keeps the storage part in memory while the program uses it:
 *       - kernel, the default: in the page cache;
 *       - resident: all of it in private memory, for exact and fast syncs;
 *       - user: in private memory of a bounded size, for windows many times larger than memory.
 *
 * For random accesses out of core, the fastest is the kernel pager with STORWIN_ACCESS_RANDOM, in a
 * control group that bounds memory. The user pager reaches 0.2 to 0.7 of that rate in most runs,
 * since each of its faults wakes a thread, and the first store into a page faults again. Without
 * STORWIN_ACCESS_RANDOM the kernel pager is slower: the user pager has 16 to 126 times its rate.
 * Choose the user pager to bound memory without a control group, and for syncs that write only the
 * changed pages.
 *
 *     storwin_opts_init(&opts);
 *     opts.alloc_type = STORWIN_STORAGE;
 *     opts.filename = "half.win";
 *     opts.flags = STORWIN_UNLINK;
 *     rc = storwin_opts_set(&opts, "storage_alloc_factor", "0.5", &err);
 *     if (rc == 0)
 *         rc = storwin_alloc(&opts, 8 << 20, &win, &err);
 *     if (rc < 0) {
 *         fprintf(stderr, "half: %s\n", err.text);
 *         return 1;
 *     }
 *     memset(storwin_base(win), 'x', 8 << 20);
 *     rc = storwin_sync(win, 0, STORWIN_TO_END, &err);
 *
 * The headers, in the order to read them:
 *
 *   - storwin/base.h    limits, allocator, error codes and details
 *   - storwin/window.h  options and hints; allocate, sync and free; properties and statistics
 *   - storwin/commit.h  atomic commits, and existing memory as a window
 *   - storwin/read.h    readers of a file of commits, beside its writer
 *   - storwin/shared.h  windows that processes share, and windows that are synced together
 *
 * This is not an MPI library (examples/swmpi interposes on one).
 *
 * Caveats:
 *
 *   - A window with commits locks its file. Other windows do not lock out processes that write the
 *     same bytes.
 *   - Two windows on overlapping ranges of one file see each other's writes only if both have the
 *     kernel pager.
 *   - Windows on one file should have the same pager. If one window writes directly (past the page
 *     cache) and another stores into the page cache, both into the same or neighbouring pages,
 *     Linux reports -EIO to both.
 *   - After fork() the child has copies of resident windows, and no mapping of a window with the
 *     user pager. With STORWIN_MEMFD it shares memory parts; otherwise it has copies of them. Only
 *     the allocating process may sync, commit and free: in a child these calls return
 *     STORWIN_ESTATE and do nothing.
 *   - If a file is shortened while a window uses it, the next sync returns STORWIN_ESHORT and names
 *     the range that the file has lost. If that sync makes the file longer again, later syncs do
 *     not report the loss. With the kernel pager, an access behind the new end of the file raises
 *     SIGBUS. A resident window still has all of the data, and the sync that reports the range has
 *     also written it again.
 *   - If a page changes while a sync writes it, the file holds the old page, the new page, or a mix
 *     of sectors of both. The page counts as changed for the next sync.
 *   - The library does not see stores that bypass this process's page tables. These are stores by a
 *     system call or a device that has *pinned* pages: a read() with O_DIRECT, process_vm_writev(),
 *     io_uring's fixed buffers, memory registered with a network adapter. Plain read() and recv()
 *     copy page by page, and are safe.
 *       - User pager: if the kernel can report pinned pages (Linux 6.8;
 *         storwin_info.keeps_pinned), the pager keeps them in memory, beyond its budget if
 *         necessary, and every sync writes them. Otherwise, and with direct reads from NFS and
 *         FUSE, such a store is lost without an error if its page has been evicted. Use a bounce
 *         buffer, or another pager.
 *       - Resident pager: such a store during a sync of its page may not count as a change.
 *   - Some file systems cannot reserve space: those that copy on write (btrfs), and those that
 *     store compressed data and refuse fallocate(). There the disk can become full after the
 *     allocation.
 *
 * Source: "MPI Windows on Storage for HPC Applications", sections 2.1 (windows, hints), 4
 * (checkpoints by two windows) and 6 (future work: a user-level pager). Reservation, selective
 * sync, asynchronous sync and error reports are ours.
 */
#ifndef STORWIN_H
#define STORWIN_H

#include <storwin/base.h>
#include <storwin/window.h>
#include <storwin/commit.h>
#include <storwin/read.h>
#include <storwin/shared.h>

#endif /* STORWIN_H */

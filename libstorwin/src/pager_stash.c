/* SPDX-License-Identifier: BSD-3-Clause */
/* The stash: addresses to which the user pager moves blocks, out of the program's reach, while it
 * writes them. */
#include "pager.h"

#include <sys/mman.h>

/* most bytes that a sync moves at a time, but at least one block */
#define STASH_BYTES 262144u

/* Moves content of the stash back, or copies it if it cannot be moved. */
void storwin__stash_return(const struct storwin__pager *p, uint64_t to, uint8_t *stash,
                           uint64_t bytes)
{
    const uint64_t done = storwin__uffd_move(p->uffd, to, (uint64_t)(uintptr_t)stash, bytes);

    if (done == bytes)
        return;
    storwin__uffd_copy(p->uffd, stash + done, to + done, bytes - done, 0, p->win->page_bytes);
    (void)madvise(stash + done, (size_t)(bytes - done), MADV_DONTNEED);
}

/* Reserves addresses for the stash. */
void storwin__stash_open(struct storwin__pager *p, unsigned evictors)
{
    uint8_t *stash;

    if (!p->can_move)
        return;
    p->sync_stash = (size_t)storwin__round_up(STASH_BYTES, p->block_bytes);
    p->evictor_stash = (size_t)(storwin__min(STORWIN__EVICT_BATCH, p->keep_free) * p->block_bytes);
    p->all_stash = p->sync_stash + evictors * p->evictor_stash;
    stash = mmap(NULL, p->all_stash, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stash == MAP_FAILED)
        return;
    (void)madvise(stash, p->all_stash, MADV_NOHUGEPAGE);
    (void)madvise(stash, p->all_stash, MADV_DONTFORK);
    if (storwin__uffd_register(p->uffd, (uint64_t)(uintptr_t)stash, p->all_stash, 1) == 0)
        p->stash = stash;
    else
        munmap(stash, p->all_stash);
}

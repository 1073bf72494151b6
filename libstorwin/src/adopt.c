/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows over existing memory. */
#include "internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* A range according to /proc/self/maps. */
struct range {
    uint64_t lo, hi;
    int readable, writable, anonymous; /* every page is */
    int shared;                        /* some page is */
};

static int read_range(struct range *r)
{
    FILE *file = fopen("/proc/self/maps", "re");
    char line[512];
    uint64_t next = r->lo;

    if (!file)
        return -errno;
    r->writable = r->anonymous = 1;
    while (next < r->hi && fgets(line, sizeof(line), file)) {
        uint64_t lo, hi, inode;
        char perms[5];

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64, &lo, &hi, perms, &inode) !=
                4 ||
            hi <= next)
            continue;
        if (lo > next || perms[0] != 'r')
            break;
        r->writable &= perms[1] == 'w';
        r->anonymous &= inode == 0;
        r->shared |= perms[3] == 's';
        next = hi;
    }
    fclose(file);
    r->readable = next >= r->hi;
    r->writable &= r->readable;
    return 0;
}

/* Checks that opts->changes can find changes of this memory. */
static int check_memory(const void *ptr, uint64_t bytes, uint32_t changes,
                        struct storwin_error *err)
{
    struct range r = {.lo = (uint64_t)(uintptr_t)ptr, .hi = (uint64_t)(uintptr_t)ptr + bytes};
    int rc = read_range(&r);

    if (rc < 0 && changes != STORWIN_CHANGES_TRACKED)
        return 0;
    if (rc == 0 && !r.writable)
        return storwin__fail(err, -EFAULT, NULL, "%" PRIu64 " bytes at %p are not all writable",
                             bytes, ptr);
    if ((rc < 0 || r.shared) && changes == STORWIN_CHANGES_TRACKED)
        return storwin__fail(err, -EOPNOTSUPP, "storage_alloc_changes",
                             "stores of other processes into %s memory cannot be tracked; set "
                             "storage_alloc_changes to compared",
                             rc < 0 ? "possibly shared" : "shared");
    return 0;
}

/* Whether a range is all writable, and no other process can store into it. */
int storwin__memory_private(uint64_t lo, uint64_t hi)
{
    struct range r = {.lo = lo, .hi = hi};

    return read_range(&r) == 0 && r.writable && !r.shared;
}

/* Whether every mapping of a range can be read, and none is of a file, which may be shorter. */
int storwin__memory_readable(uint64_t lo, uint64_t hi)
{
    struct range r = {.lo = lo, .hi = hi};

    return read_range(&r) == 0 && r.readable && r.anonymous;
}

int storwin_adopt(void *ptr, uint64_t bytes, const struct storwin_opts *opts,
                  struct storwin_window **out, struct storwin_error *err)
{
    struct storwin_opts own;
    struct storwin__plan plan = {
        .opts = &own, .bytes = bytes, .paths = &own.filename, .n_files = 1, .adopt = ptr};
    int rc;

    if (!ptr || !out || !opts || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)ptr)
        return storwin__fail(err, -EINVAL, NULL, "an argument is NULL, or the length is 0");
    rc = storwin__opts_or_defaults(&own, opts, err);
    if (rc < 0)
        return rc;
    if (own.pager == STORWIN_PAGER_USER)
        return storwin__fail(err, STORWIN_ECONFLICT, "storage_alloc_pager",
                             "existing memory cannot have the pager user");
    own.alloc_type = STORWIN_STORAGE;
    own.factor_ppb = STORWIN_FACTOR_ONE;
    own.pager = STORWIN_PAGER_RESIDENT;
    own.flags &= ~STORWIN_MEMFD;
    if (own.atomic == STORWIN_ATOMIC_NONE)
        own.atomic = own.generations > 2 ? STORWIN_ATOMIC_SLOTS : STORWIN_ATOMIC_AUTO;
    rc = check_memory(ptr, bytes, own.changes, err);
    return rc < 0 ? rc : storwin__window_create(&plan, out, err);
}

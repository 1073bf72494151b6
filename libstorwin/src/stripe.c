/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Striping of new files on Lustre by the interface of its kernel module: the file is opened without
 * a layout, then an ioctl sets one. Structures and numbers as in lustre_user.h.
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LUSTRE_MAGIC      0x0BD00BD0
#define LOV_MAGIC_V1      0x0BD10BD0u
#define LOV_PATTERN_RAID0 1u
#define LOV_DELAY_CREATE  (O_NOCTTY | FASYNC)
#define LOV_SETSTRIPE     _IOW('f', 154, long)

struct lov_user_md {
    uint32_t magic, pattern;
    uint64_t object_id, object_seq;
    uint32_t stripe_size;
    uint16_t stripe_count, stripe_offset;
};
_Static_assert(sizeof(struct lov_user_md) == 32, "the layout that Lustre reads");

/* Creates the striped file and returns its descriptor. Without striping: sets *outcome and returns
 * 0. -EEXIST if the name is taken. */
int storwin__stripe(int dir_fd, const char *name, const struct storwin_opts *opts,
                    uint32_t *outcome)
{
    struct lov_user_md md = {.magic = LOV_MAGIC_V1,
                             .pattern = LOV_PATTERN_RAID0,
                             .stripe_size = opts->striping_unit,
                             .stripe_count = (uint16_t)opts->striping_factor,
                             .stripe_offset = UINT16_MAX};
    struct statfs fs;
    int fd;

    *outcome = STORWIN_STRIPING_UNSUPPORTED;
    if (fstatfs(dir_fd, &fs) < 0 || fs.f_type != LUSTRE_MAGIC)
        return 0;
    fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC | LOV_DELAY_CREATE,
                opts->file_perm & 0777);
    if (fd < 0)
        return errno == EEXIST ? -EEXIST : 0;
    if (ioctl(fd, LOV_SETSTRIPE, &md) < 0) {
        unlinkat(dir_fd, name, 0);
        close(fd);
        return 0;
    }
    *outcome = STORWIN_STRIPING_APPLIED;
    return fd;
}

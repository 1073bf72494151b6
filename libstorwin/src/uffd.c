/* SPDX-License-Identifier: BSD-3-Clause */
/* userfaultfd, by its system calls. */
#include "uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FEATURE_POISON (UINT64_C(1) << 14)
#define FEATURE_MOVE   (UINT64_C(1) << 16)

/* From Linux 6.6. */
struct poison {
    struct uffdio_range range;
    uint64_t mode;
    int64_t updated;
};
#define UFFDIO_POISON_ _IOWR(UFFDIO, 0x08, struct poison)

/* From Linux 6.8. */
struct move {
    uint64_t to, from, bytes, mode;
    int64_t moved;
};
#define MOVE_DONTWAKE UINT64_C(1)
#define UFFDIO_MOVE_  _IOWR(UFFDIO, 0x05, struct move)

/* Makes a userfaultfd, by the system call or by /dev/userfaultfd, as the system allows. -1: see
 * errno. */
int storwin__uffd_create(uint32_t *user_faults_only)
{
    int fd, device;

    *user_faults_only = 0;
    if (storwin__disabled(STORWIN__NO_UFFD)) {
        errno = EPERM;
        return -1;
    }
    if (storwin__disabled(STORWIN__NO_SYS_UFFD))
        goto user_faults;
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        return fd;
#ifdef USERFAULTFD_IOC_NEW
    device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device >= 0) {
        fd = ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
        close(device);
        if (fd >= 0)
            return fd;
    }
#else
    (void)device;
#endif
user_faults:
    *user_faults_only = 1;
    return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
}

/* Opens a descriptor with the features that the kernel has: a descriptor can request them only
 * once. */
int storwin__uffd_open(uint32_t *user_faults_only, uint32_t *can_poison, uint32_t *can_move)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = storwin__uffd_create(user_faults_only);
    uint64_t have;

    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0)
        goto fail;
    have = api.features;
    close(fd);
    fd = storwin__uffd_create(user_faults_only);
    api = (struct uffdio_api){
        .api = UFFD_API,
        .features = have & (UFFD_FEATURE_PAGEFAULT_FLAG_WP | FEATURE_POISON | FEATURE_MOVE)};
    if (fd < 0 || !(have & UFFD_FEATURE_PAGEFAULT_FLAG_WP) || ioctl(fd, UFFDIO_API, &api) < 0)
        goto fail;
    *can_poison = (have & FEATURE_POISON) != 0;
    *can_move = (have & FEATURE_MOVE) && !storwin__disabled(STORWIN__NO_MOVE);
    return fd;
fail:
    if (fd >= 0)
        close(fd);
    return -1;
}

/* From now on, stores into the range fault; with `missing`, accesses to absent pages too. */
int storwin__uffd_register(int fd, uint64_t at, uint64_t bytes, int missing)
{
    struct uffdio_register reg = {.range = {at, bytes},
                                  .mode = UFFDIO_REGISTER_MODE_WP |
                                          (missing ? UFFDIO_REGISTER_MODE_MISSING : 0)};

    return ioctl(fd, UFFDIO_REGISTER, &reg) < 0 ? -errno : 0;
}

void storwin__uffd_wake(int fd, uint64_t at, uint64_t bytes)
{
    struct uffdio_range range = {at, bytes};

    (void)ioctl(fd, UFFDIO_WAKE, &range);
}

/* Protects pages, or removes the protection and wakes the threads that wait to store. */
int storwin__uffd_protect(int fd, uint64_t at, uint64_t bytes, int on)
{
    struct uffdio_writeprotect wp = {.range = {at, bytes},
                                     .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};

    while (ioctl(fd, UFFDIO_WRITEPROTECT, &wp) < 0) {
        if (errno != EAGAIN)
            return -errno;
        sched_yield();
    }
    return 0;
}

/* Copies pages in, protected or not, and wakes no thread. If memory is short it waits for memory,
 * as a fault in the kernel does. */
void storwin__uffd_copy(int fd, const uint8_t *from, uint64_t to, uint64_t bytes, int protect,
                        uint64_t page_bytes)
{
    struct uffdio_copy copy = {.dst = to, .src = (uint64_t)(uintptr_t)from, .len = bytes};

    while (copy.len > 0) {
        uint64_t done;

        copy.mode = UFFDIO_COPY_MODE_DONTWAKE | (protect ? UFFDIO_COPY_MODE_WP : 0);
        copy.copy = 0;
        if (ioctl(fd, UFFDIO_COPY, &copy) == 0)
            return;
        done = copy.copy > 0 ? (uint64_t)copy.copy : errno == EEXIST ? page_bytes : 0;
        copy.dst += done;
        copy.src += done;
        copy.len -= done;
        if (done == 0)
            usleep(errno == EAGAIN ? 10 : 1000);
    }
}

/* Moves pages up to the first pinned one. Returns the number of bytes moved. */
uint64_t storwin__uffd_move(int fd, uint64_t to, uint64_t from, uint64_t bytes)
{
    uint64_t done = 0;

    while (done < bytes) {
        struct move what = {to + done, from + done, bytes - done, MOVE_DONTWAKE, 0};

        if (ioctl(fd, UFFDIO_MOVE_, &what) == 0)
            return bytes;
        if (what.moved > 0)
            done += (uint64_t)what.moved;
        else if (errno == EAGAIN)
            sched_yield();
        else
            break;
    }
    return done;
}

/* Makes accesses to these pages raise SIGBUS from now on. */
int storwin__uffd_poison(int fd, uint64_t at, uint64_t bytes)
{
    struct poison what = {.range = {at, bytes}, .mode = 0};

    return ioctl(fd, UFFDIO_POISON_, &what) < 0 ? -errno : 0;
}

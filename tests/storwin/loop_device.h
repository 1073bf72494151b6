/* SPDX-License-Identifier: BSD-3-Clause */
/* Loop devices for one test. Needs root. */
#ifndef LOOP_DEVICE_H
#define LOOP_DEVICE_H

#include <linux/loop.h>
#include <sys/ioctl.h>

#include "storwin_test.h"

static char loop_path[32];

static inline void loop_skip(const char *why)
{
    printf("skip: needs loop devices and mount(): %s: %s\n", why, strerror(errno));
    exit(77);
}

/* A loop device on the file; it disappears when both descriptors are closed, however this process
 * ends. */
static inline int loop_attach(const char *file)
{
    struct loop_info64 info;
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC),
        back = open(file, O_RDWR | O_CLOEXEC), dev = -1;

    if (control < 0)
        loop_skip("/dev/loop-control");
    CHECK(back >= 0);
    for (int tries = 0; tries < 10000; tries++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE, 0);

        if (n < 0)
            loop_skip("LOOP_CTL_GET_FREE");
        snprintf(loop_path, sizeof(loop_path), "/dev/loop%d", n);
        dev = open(loop_path, O_RDWR | O_CLOEXEC);
        if (dev < 0 && errno == ENXIO) { /* another process's is just going */
            usleep(1000);
            continue;
        }
        if (dev < 0)
            loop_skip(loop_path);
        if (ioctl(dev, LOOP_SET_FD, back) == 0)
            break;
        close(dev);
        dev = -1;
        CHECK(errno == EBUSY); /* another process was quicker */
    }
    CHECK(dev >= 0);
    memset(&info, 0, sizeof(info));
    info.lo_flags = LO_FLAGS_AUTOCLEAR;
    CHECK(ioctl(dev, LOOP_SET_STATUS64, &info) == 0);
    close(back);
    close(control);
    return dev;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A holder of a published table's descriptor can read the table and has no way to write to it;
 * memory for peers' writes stays writable. */
#define _GNU_SOURCE
#include "targets.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* The descriptor in the next message of asymreg_fds_send(). */
static int receive(int sock)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))), text[256];
    struct iovec iov = {text, sizeof(text)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control,
                         .msg_controllen = sizeof(control)};
    int fd;

    CHECK(recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC) > 0 && CMSG_FIRSTHDR(&hdr));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&hdr)), sizeof(fd));
    return fd;
}

/* Whether it is the table's, which see LAYOUT.md. */
static int look(int fd)
{
    const char *magic = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "!ASYREG1" : "1GERYSA!";
    char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    int table;

    CHECK(p != MAP_FAILED);
    table = memcmp(p, magic, 8) == 0;
    CHECK_EQ(mprotect(p, 4096, PROT_READ | PROT_WRITE) == 0, !table);
    CHECK_EQ(munmap(p, 4096), 0);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK_EQ(p != MAP_FAILED, !table);
    if (p != MAP_FAILED)
        munmap(p, 4096);
    CHECK_EQ(pwrite(fd, "", 1, 4095) == 1, !table);
    CHECK(ftruncate(fd, 1) < 0);
    return table;
}

static int kernel_has_seal(void)
{
    int fd = memfd_create("probe", MFD_CLOEXEC | MFD_ALLOW_SEALING), has;

    CHECK(fd >= 0);
    has = fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;
    close(fd);
    return has;
}

int main(void)
{
    struct asymreg_opts o = {.size = sizeof(o), .flags = ASYMREG_DRAIN, .max_regions = 1000};
    char blob[ASYMREG_MAX_BLOB_BYTES], *shared;
    struct asymreg_context *c;
    struct asymreg_worker *w;
    int pair[2], tables = 0;
    ssize_t n;
    void *p;

    if (!kernel_has_seal()) {
        printf("skip: this kernel has no F_SEAL_FUTURE_WRITE (Linux 5.1)\n");
        return 77;
    }
    CHECK_EQ(asymreg_open(&o, &c, NULL), 0);
    CHECK_EQ(asymreg_segment_alloc(c, 4096, &p, NULL), 0);
    shared = p;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    CHECK_EQ(asymreg_fds_send(c, pair[0]), 3); /* table, activity, segment */
    for (int i = 0; i < 3; i++) {
        int fd = receive(pair[1]);
        tables += look(fd);
        close(fd);
    }
    CHECK_EQ(tables, 1);
    /* The owner itself publishes as before. */
    n = asymreg_export(c, blob, sizeof(blob), NULL);
    CHECK(n > 0);
    CHECK_EQ(asymreg_import(c, 1, blob, (size_t)n, NULL), 0);
    CHECK_EQ(asymreg_worker_create(c, &w), 0);
    CHECK_EQ(asymreg_register(c, shared, 100, ASYMREG_RW, NULL, NULL, NULL), 0);
    CHECK_EQ(asymreg_put(w, 1, (uintptr_t)shared, ASYMREG_ANY, "x", 1), 0);
    CHECK_EQ(shared[0], 'x');
    asymreg_worker_destroy(w);
    asymreg_close(c);
    close(pair[0]);
    close(pair[1]);
    return 0;
}

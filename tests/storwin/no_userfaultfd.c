/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * no_userfaultfd COMMAND [ARGUMENT...]: runs COMMAND with userfaultfd refused with EPERM, by the
 * system call and by /dev/userfaultfd. Sandboxes refuse it; and tools that run one thread at a
 * time, such as valgrind, hang when a thread's page fault waits for another thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW 0xaa00
#endif

int main(int argc, char **argv)
{
    const unsigned low =
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4; /* half of an argument */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + low),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, USERFAULTFD_IOC_NEW, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

    if (argc < 2) {
        fprintf(stderr, "usage: no_userfaultfd COMMAND [ARGUMENT...]\n");
        return 64;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("skip: no filter of system calls: %s\n", strerror(errno));
        return 77;
    }
    execvp(argv[1], argv + 1);
    fprintf(stderr, "no_userfaultfd: %s: %s\n", argv[1], strerror(errno));
    return 127;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* userfaultfd, by its system calls: the build's headers may be older than the kernel. */
#ifndef STORWIN_UFFD_H
#define STORWIN_UFFD_H

#include "internal.h"

int storwin__uffd_create(uint32_t *user_faults_only);
int storwin__uffd_open(uint32_t *user_faults_only, uint32_t *can_poison, uint32_t *can_move);
int storwin__uffd_register(int fd, uint64_t at, uint64_t bytes, int missing);
void storwin__uffd_wake(int fd, uint64_t at, uint64_t bytes);
int storwin__uffd_protect(int fd, uint64_t at, uint64_t bytes, int on);
void storwin__uffd_copy(int fd, const uint8_t *from, uint64_t to, uint64_t bytes, int protect,
                        uint64_t page_bytes);
uint64_t storwin__uffd_move(int fd, uint64_t to, uint64_t from, uint64_t bytes);
int storwin__uffd_poison(int fd, uint64_t at, uint64_t bytes);

#endif

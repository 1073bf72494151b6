/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef STORWIN_SUM_H
#define STORWIN_SUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t storwin__sum(const void *data, size_t bytes, uint64_t seed);

#endif

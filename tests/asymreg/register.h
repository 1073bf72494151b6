/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of asymreg_register() in one expression. */
#ifndef ASYMREG_TESTS_REGISTER_H
#define ASYMREG_TESTS_REGISTER_H

#include <asymreg.h>

#define FLAGS(f)                                                                                   \
    (&(struct asymreg_register_opts){.size = sizeof(struct asymreg_register_opts), .flags = (f)})
/* Memory of a device, by the number of its kind. */
#define KIND_OF(k) KIND_WITH(k, 0, 0)
#define KIND_WITH(k, f, descriptor)                                                                \
    (&(struct asymreg_register_opts){.size = sizeof(struct asymreg_register_opts),                 \
                                     .flags = (f),                                                 \
                                     .kind = (k),                                                  \
                                     .fd = (descriptor)})
/* A mapping of a descriptor from this offset on: a region, or with ASYMREG_SEGMENT a segment. */
#define FD_OF(f, descriptor, offset)                                                               \
    (&(struct asymreg_register_opts){.size = sizeof(struct asymreg_register_opts),                 \
                                     .flags = ASYMREG_FD | (f),                                    \
                                     .fd = (descriptor),                                           \
                                     .fd_offset = (offset)})
#define SEGMENT_OF(f, descriptor, offset) FD_OF(ASYMREG_SEGMENT | (f), descriptor, offset)

#endif

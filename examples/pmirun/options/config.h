/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that options name. */
#ifndef PMIRUN_CONFIG_H
#define PMIRUN_CONFIG_H

#include "row.h"

/* The text of a file of at most `max` bytes, without NUL bytes, NUL-terminated; to be freed. */
char *read_file(const struct parse *p, const char *path, size_t max);
option_fn set_configfile;

#endif

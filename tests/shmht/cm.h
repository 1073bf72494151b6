/* SPDX-License-Identifier: BSD-3-Clause */
/* cmocka, and the headers that it needs before. */
#ifndef TESTS_SHMHT_CM_H
#define TESTS_SHMHT_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common.h"

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of each fuzz target; libFuzzer calls it, or driver.c without libFuzzer. */
#ifndef FENCEPOST_TESTS_FUZZ_H
#define FENCEPOST_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A condition that must hold: otherwise prints the place and aborts, which is a finding. */
#define CHECK_END() abort()
#include "../check.h"
#define MUST CHECK

/* Feeds one input to the code under test. Returns 0; a finding is a crash, a sanitizer's report or
 * abort(). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif

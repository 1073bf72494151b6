/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of hydra, srun and mpirun that pmirun refuses. */
#ifndef PMIRUN_ADVICE_H
#define PMIRUN_ADVICE_H

#include <stddef.h>

struct advice {
    const char *names; /* as those of a row (row.h) */
    const char *use;   /* follows the name in the message: what to do instead */
};

extern const struct advice advices[];
extern const size_t n_advices;

#endif

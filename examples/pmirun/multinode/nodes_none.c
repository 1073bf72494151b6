/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces the rest of multinode/ in builds without libsodium. */
#include "../local/role.h"
#include "../local/util.h"

static void refuse(void) __attribute__((noreturn));

static void refuse(void)
{
    die(STATUS_USAGE,
        "this pmirun runs jobs on one node only, since it was built without libsodium: "
        "install libsodium-dev and pkg-config, and build it again");
}

void head_set_up(struct pmirun *pr)
{
    refuse();
}

void agent_set_up(struct pmirun *pr, char **args)
{
    (void)pr, (void)args;
    refuse();
}

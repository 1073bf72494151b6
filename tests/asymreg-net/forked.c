/* SPDX-License-Identifier: BSD-3-Clause */
/* fork() with UCX open: the child is refused UCX, by name, and not left with puts that never
 * arrive. A child that was forked while UCX was closed may open it. */
#include "../check.h"

#include <asymreg-ucx.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int create_result(void)
{
    struct asymreg_error err = {.code = 0};
    struct asymreg_transport *t;
    int rc = asymreg_ucx_create(NULL, &t, &err);

    if (rc == 0)
        t->ops->destroy(t);
    else
        CHECK(err.code == rc && strstr(err.text, "fork"));
    return rc;
}

/* In a child, or in a child of it. */
static int result_in_child(int depth)
{
    pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (pid == 0)
        _exit(depth > 1 ? -result_in_child(depth - 1) : -create_result());
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return -WEXITSTATUS(status);
}

int main(void)
{
    struct asymreg_transport *t;

    CHECK(result_in_child(1) == 0);
    CHECK(create_result() == 0);
    CHECK(result_in_child(1) == 0);
    CHECK(asymreg_ucx_create(NULL, &t, NULL) == 0);
    CHECK(result_in_child(1) == -EPERM);
    CHECK(result_in_child(2) == -EPERM);
    CHECK(create_result() == 0);
    t->ops->destroy(t);
    CHECK(result_in_child(2) == 0);
    return 0;
}

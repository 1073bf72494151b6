/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints "sleeper pid P" on each rank and blocks: for tests of signals and time limits. With a file
 * name as argument, a rank that gets SIGUSR1 appends its number there, so that a forwarded signal
 * leaves a trace beside the output. */
#include "world.h"

#include <fcntl.h>
#include <signal.h>

static const char *trace;
static int my_rank;

static void on_signal(int number)
{
    char line[2] = {(char)('0' + my_rank % 10), '\n'};
    int fd = open(trace, O_WRONLY | O_APPEND | O_CREAT, 0600);

    (void)number;
    if (fd >= 0) {
        if (write(fd, line, sizeof(line)) < 0)
            _exit(4);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct world w = world_start(&argc, &argv);

    my_rank = w.rank;
    if (argc > 1) {
        trace = argv[1];
        signal(SIGUSR1, on_signal);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("sleeper pid %ld\n", (long)getpid());
    fflush(stdout);
    for (;;)
        pause();
}

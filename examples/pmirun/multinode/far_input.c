/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries standard input to ranks on nodes other than the head. The agents write it to the ranks'
 * pipes (local/input.c). The head reads up to INPUT_WINDOW_BYTES ahead of the slowest agent.
 */
#define _GNU_SOURCE
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Reads and sends while there is room. A file is always ready, and epoll does not take it. */
static void read_some(struct pmirun *pr, bool once)
{
    while (pr->input.src.fd >= 0 && pr->input.room > 0) {
        size_t most = pr->input.room < INPUT_BYTES ? pr->input.room : INPUT_BYTES;
        ssize_t n = read(pr->input.src.fd, pr->input.buf, most);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 && errno != EIO) /* a terminal that has hung up */
            say(pr, "cannot read standard input: %s; ranks see its end", strerror(errno));
        if (!nodes_send_input(pr, pr->input.buf, n > 0 ? (size_t)n : 0) || n <= 0) {
            input_close(pr);
            return;
        }
        pr->input.room -= (uint32_t)n;
        pr->input.n_sent += (uint64_t)n;
        if (once)
            break;
    }
    if (once && pr->input.src.fd >= 0 && pr->input.room == 0) {
        loop_del(pr, &pr->input.src);
        pr->input.waits = true;
    }
}

static void on_head_stdin(struct pmirun *pr, struct source *src, uint32_t events)
{
    (void)src, (void)events;
    if (!input_in_background(pr))
        read_some(pr, true);
}

void head_input_start(struct pmirun *pr)
{
    int fd, rc;

    if (pr->opt.stdin_rank == STDIN_NONE)
        return;
    fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    pr->input.buf = malloc(INPUT_BYTES);
    if (fd < 0 || !pr->input.buf) {
        if (fd >= 0)
            close(fd);
        nodes_send_input(pr, "", 0);
        return;
    }
    pr->input.src = (struct source){on_head_stdin, fd};
    pr->input.room = INPUT_WINDOW_BYTES;
    rc = loop_add(pr, &pr->input.src, EPOLLIN);
    pr->input.is_file = rc == -EPERM;
    if (pr->input.is_file)
        read_some(pr, false);
    else if (rc)
        input_close(pr);
}

void head_input_room(struct pmirun *pr, struct node *node, uint32_t n)
{
    struct input *in = &pr->input;
    uint64_t least;

    node->input_took += n;
    least = node->input_took;
    for (uint32_t i = 0; i < pr->opt.n_nodes && pr->opt.stdin_rank == STDIN_ALL; i++)
        if (pr->nodes->head.nodes[i].input_took < least)
            least = pr->nodes->head.nodes[i].input_took;
    if (in->src.fd < 0 || least > in->n_sent) /* the latter makes no sense */
        return;
    in->room = (uint32_t)(INPUT_WINDOW_BYTES - (in->n_sent - least));
    if (in->room == 0)
        return;
    if (pr->input.is_file) {
        read_some(pr, false);
    } else if (pr->input.waits) {
        pr->input.waits = false;
        if (loop_add(pr, &pr->input.src, EPOLLIN) != 0)
            input_close(pr);
    }
}

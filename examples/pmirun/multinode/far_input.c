/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries standard input to ranks on nodes other than the head. The agents write it to the ranks'
 * pipes (local/input.c). The head reads up to INPUT_WINDOW_BYTES ahead of the slowest agent.
 */
#define _GNU_SOURCE
#include "head.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../local/input.h"
#include "../local/job.h"

/* Reads and sends while there is room. A file is always ready, and epoll does not take it. */
static void read_some(struct head *h, bool once)
{
    while (h->input->src.fd >= 0 && h->input->room > 0) {
        size_t most = h->input->room < INPUT_BYTES ? h->input->room : INPUT_BYTES;
        ssize_t n = read(h->input->src.fd, h->input->buf, most);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 && errno != EIO) /* a terminal that has hung up */
            say("cannot read standard input: %s; ranks see its end", strerror(errno));
        if (!nodes_send_input(h, h->input->buf, n > 0 ? (size_t)n : 0) || n <= 0) {
            input_close(h->input);
            return;
        }
        h->input->room -= (uint32_t)n;
        h->input->n_sent += (uint64_t)n;
        if (once)
            break;
    }
    if (once && h->input->src.fd >= 0 && h->input->room == 0) {
        loop_del(&h->input->src);
        h->input->waits = true;
    }
}

static void on_head_stdin(void *of, struct source *src, uint32_t events)
{
    struct head *h = of;
    if (!input_in_background(h->input))
        read_some(h, true);
}

void head_input_start(struct head *h)
{
    int fd, rc;

    if (h->jobs->opt->stdin_rank == STDIN_NONE)
        return;
    fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    h->input->buf = malloc(INPUT_BYTES);
    if (fd < 0 || !h->input->buf) {
        if (fd >= 0)
            close(fd);
        nodes_send_input(h, "", 0);
        return;
    }
    h->input->src = (struct source){on_head_stdin, h, fd};
    h->input->room = INPUT_WINDOW_BYTES;
    rc = loop_add(&h->input->src, EPOLLIN);
    h->input->is_file = rc == -EPERM;
    if (h->input->is_file)
        read_some(h, false);
    else if (rc)
        input_close(h->input);
}

void head_input_room(struct head *h, struct node *node, uint32_t n)
{
    struct input *in = h->input;
    uint64_t least;

    node->input_took += n;
    least = node->input_took;
    for (uint32_t i = 0; i < h->jobs->opt->n_nodes && h->jobs->opt->stdin_rank == STDIN_ALL; i++)
        if (h->nodes[i].input_took < least)
            least = h->nodes[i].input_took;
    if (in->src.fd < 0 || least > in->n_sent) /* the latter makes no sense */
        return;
    in->room = (uint32_t)(INPUT_WINDOW_BYTES - (in->n_sent - least));
    if (in->room == 0)
        return;
    if (h->input->is_file) {
        read_some(h, false);
    } else if (h->input->waits) {
        h->input->waits = false;
        if (loop_add(&h->input->src, EPOLLIN) != 0)
            input_close(h->input);
    }
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdin of a rank 0 on another node than the head. The head reads, up to WINDOW_BYTES ahead of what
 * has been written into rank 0's pipe there; the agent fills the pipe.
 */
#define _GNU_SOURCE
#include "nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define WINDOW_BYTES 65536u

/* ---- the agent of rank 0 ---- */

static void forward(struct pmirun *pr)
{
    while (pr->input.head < pr->input.len) {
        ssize_t n = write(pr->input.pipe.fd, pr->input.buf + pr->input.head,
                          pr->input.len - pr->input.head);

        if (n > 0) {
            pr->input.head += (size_t)n;
            agent_tell_number(pr, MSG_TOOK, (uint32_t)n);
        } else if (errno == EAGAIN) {
            if (!pr->input.blocked)
                pr->input.blocked = loop_add(pr, &pr->input.pipe, EPOLLOUT) == 0;
            return;
        } else if (errno != EINTR) {
            pr->input.ends = true; /* rank 0 does not want it any more */
            break;
        }
    }
    if (pr->input.blocked)
        loop_del(pr, &pr->input.pipe);
    pr->input.blocked = false;
    if (pr->input.ends)
        input_close(pr);
}

void agent_input_given(struct pmirun *pr, const char *p, size_t n)
{
    if (!pr->input.buf)
        pr->input.buf = malloc(WINDOW_BYTES);
    pr->input.ends |= p && n == 0;
    if (n && pr->input.buf) {
        if (pr->input.head) {
            memmove(pr->input.buf, pr->input.buf + pr->input.head, pr->input.len - pr->input.head);
            pr->input.len -= pr->input.head;
            pr->input.head = 0;
        }
        if (n > WINDOW_BYTES - pr->input.len)
            n = WINDOW_BYTES - pr->input.len; /* the head does not send more */
        memcpy(pr->input.buf + pr->input.len, p, n);
        pr->input.len += n;
    }
    if (pr->input.pipe.fd >= 0 && !pr->input.blocked)
        forward(pr);
}

static void on_room(struct pmirun *pr, struct source *src, uint32_t events)
{
    (void)src, (void)events;
    forward(pr);
}

int agent_input(struct pmirun *pr, int *child_fd)
{
    int p[2];

    if (!pr->input.buf)
        pr->input.buf = malloc(WINDOW_BYTES);
    if (!pr->input.buf || pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    pr->input.pipe = (struct source){on_room, p[1]};
    *child_fd = p[0];
    agent_input_given(pr, NULL, 0); /* what came before */
    return 0;
}

/* ---- the head ---- */

/* Reads and sends while there is room; a file is always ready, and epoll does not take it. */
static void read_some(struct pmirun *pr, bool once)
{
    while (pr->input.src.fd >= 0 && pr->input.room > 0) {
        size_t most = pr->input.room < INPUT_BYTES ? pr->input.room : INPUT_BYTES;
        ssize_t n = read(pr->input.src.fd, pr->input.buf, most);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 && errno != EIO) /* a terminal that has hung up */
            say(pr, "cannot read standard input: %s; it ends here", strerror(errno));
        if (!nodes_send_input(pr, pr->input.buf, n > 0 ? (size_t)n : 0) || n <= 0) {
            input_close(pr);
            return;
        }
        pr->input.room -= (uint32_t)n;
        if (once)
            break;
    }
    if (once && pr->input.src.fd >= 0 && pr->input.room == 0) {
        loop_del(pr, &pr->input.src);
        pr->input.blocked = true;
    }
}

static void on_readable(struct pmirun *pr, struct source *src, uint32_t events)
{
    (void)src, (void)events;
    if (!input_in_background(pr))
        read_some(pr, true);
}

void head_input_start(struct pmirun *pr)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), rc;

    pr->input.buf = malloc(INPUT_BYTES);
    if (fd < 0 || !pr->input.buf) {
        if (fd >= 0)
            close(fd);
        nodes_send_input(pr, "", 0);
        return;
    }
    pr->input.src = (struct source){on_readable, fd};
    pr->input.room = WINDOW_BYTES;
    rc = loop_add(pr, &pr->input.src, EPOLLIN);
    pr->input.is_file = rc == -EPERM;
    if (pr->input.is_file)
        read_some(pr, false);
    else if (rc)
        input_close(pr);
}

void head_input_room(struct pmirun *pr, uint32_t n)
{
    if (pr->input.src.fd < 0)
        return;
    pr->input.room = n < WINDOW_BYTES - pr->input.room ? pr->input.room + n : WINDOW_BYTES;
    if (pr->input.is_file) {
        read_some(pr, false);
    } else if (pr->input.blocked) {
        pr->input.blocked = false;
        if (loop_add(pr, &pr->input.src, EPOLLIN) != 0)
            input_close(pr);
    }
}

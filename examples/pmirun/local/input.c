/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdin is rank 0's. A file or pipe is simply inherited: nothing is copied, and nothing is read
 * that rank 0 does not read. A terminal cannot be: ranks are in background process groups and would
 * be stopped by SIGTTIN, so what is typed is handed on through a pipe, as long as we are in the
 * foreground.
 */
#define _GNU_SOURCE
#include "input.h"

#include "pmirun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define RETRY_NS (500 * NS_PER_MS)

static void on_event(struct pmirun *pr, struct source *src, uint32_t events);

int input_init(struct pmirun *pr, int *child_fd)
{
    int p[2], fd;

    *child_fd = STDIN_FILENO;
    if (!isatty(STDIN_FILENO))
        return 0;
    pr->input.buf = malloc(INPUT_BYTES);
    fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (!pr->input.buf || fd < 0 || pipe2(p, O_CLOEXEC) != 0) {
        if (fd >= 0)
            close(fd);
        return -errno;
    }
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    pr->input.src = (struct source){on_event, fd};
    pr->input.pipe = (struct source){on_event, p[1]};
    *child_fd = p[0];
    return loop_add(pr, &pr->input.src, EPOLLIN);
}

void input_close(struct pmirun *pr)
{
    pr->input.retry_ns = 0;
    loop_close(pr, &pr->input.src);
    loop_close(pr, &pr->input.pipe);
}

/* Hands on what is there. When the pipe is full, waits for it and not for the terminal. */
static void input_forward(struct pmirun *pr)
{
    while (pr->input.head < pr->input.len) {
        ssize_t n = write(pr->input.pipe.fd, pr->input.buf + pr->input.head,
                          pr->input.len - pr->input.head);

        if (n > 0) {
            pr->input.head += (size_t)n;
        } else if (errno == EAGAIN) {
            if (!pr->input.blocked) {
                loop_del(pr, &pr->input.src);
                pr->input.blocked = loop_add(pr, &pr->input.pipe, EPOLLOUT) == 0;
            }
            return;
        } else if (errno != EINTR) {
            input_close(pr); /* rank 0 does not want it any more */
            return;
        }
    }
    if (pr->input.blocked) {
        pr->input.blocked = false;
        loop_del(pr, &pr->input.pipe);
        loop_add(pr, &pr->input.src, EPOLLIN);
    }
}

bool input_in_background(struct pmirun *pr)
{
    if (!isatty(pr->input.src.fd) || tcgetpgrp(pr->input.src.fd) == getpgrp())
        return false;
    loop_del(pr, &pr->input.src);
    pr->input.retry_ns = pr->now_ns + RETRY_NS;
    return true;
}

static void on_event(struct pmirun *pr, struct source *src, uint32_t events)
{
    ssize_t n;

    (void)events;
    if (src == &pr->input.pipe) {
        input_forward(pr);
        return;
    }
    if (input_in_background(pr))
        return;
    n = read(src->fd, pr->input.buf, INPUT_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        input_close(pr);
        return;
    }
    pr->input.head = 0;
    pr->input.len = (size_t)n;
    input_forward(pr);
}

void input_retry(struct pmirun *pr)
{
    pr->input.retry_ns = 0;
    if (pr->input.src.fd >= 0 && loop_add(pr, &pr->input.src, EPOLLIN) != 0)
        input_close(pr);
}

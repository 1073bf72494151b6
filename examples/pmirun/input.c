/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdin is rank 0's. A file or pipe is simply inherited: nothing is copied, and nothing is read that rank 0 does not
 * read. A terminal cannot be: ranks are in background process groups and would be stopped by
 * SIGTTIN, so what is typed is handed on through a pipe, as long as we are in the foreground.
 */
#define _GNU_SOURCE
#include "pmirun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define INPUT_BYTES 4096u
#define RETRY_NS (500 * NS_PER_MS)

int input_init(struct pmirun *pr, int *child_fd)
{
    int p[2], fd;

    *child_fd = STDIN_FILENO;
    if (!isatty(STDIN_FILENO))
        return 0;
    pr->input_buf = malloc(INPUT_BYTES);
    fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (!pr->input_buf || fd < 0 || pipe2(p, O_CLOEXEC) != 0) {
        if (fd >= 0)
            close(fd);
        return -errno;
    }
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    pr->input = (struct source){SOURCE_INPUT, fd};
    pr->input_pipe = (struct source){SOURCE_INPUT_PIPE, p[1]};
    *child_fd = p[0];
    return loop_add(pr, &pr->input, EPOLLIN);
}

static void input_close(struct pmirun *pr)
{
    pr->input_retry_ns = 0;
    if (pr->input.fd >= 0) {
        loop_del(pr, &pr->input);
        close(pr->input.fd);
    }
    if (pr->input_pipe.fd >= 0)
        close(pr->input_pipe.fd);
    pr->input.fd = pr->input_pipe.fd = -1;
}

/* Hands on what is there. When the pipe is full, waits for it and not for the terminal. */
static void input_forward(struct pmirun *pr)
{
    while (pr->input_head < pr->input_len) {
        ssize_t n = write(pr->input_pipe.fd, pr->input_buf + pr->input_head, pr->input_len - pr->input_head);

        if (n > 0) {
            pr->input_head += (size_t)n;
        } else if (errno == EAGAIN) {
            if (!pr->input_blocked) {
                loop_del(pr, &pr->input);
                pr->input_blocked = loop_add(pr, &pr->input_pipe, EPOLLOUT) == 0;
            }
            return;
        } else if (errno != EINTR) {
            input_close(pr); /* rank 0 does not want it any more */
            return;
        }
    }
    if (pr->input_blocked) {
        pr->input_blocked = false;
        loop_del(pr, &pr->input_pipe);
        loop_add(pr, &pr->input, EPOLLIN);
    }
}

void input_event(struct pmirun *pr, struct source *src)
{
    ssize_t n;

    if (pr->input.fd < 0)
        return;
    if (src->kind == SOURCE_INPUT_PIPE) {
        input_forward(pr);
        return;
    }
    if (tcgetpgrp(pr->input.fd) != getpgrp()) { /* what is typed now is for somebody else */
        loop_del(pr, &pr->input);
        pr->input_retry_ns = pr->now_ns + RETRY_NS;
        return;
    }
    n = read(pr->input.fd, pr->input_buf, INPUT_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        input_close(pr);
        return;
    }
    pr->input_head = 0;
    pr->input_len = (size_t)n;
    input_forward(pr);
}

void input_retry(struct pmirun *pr)
{
    pr->input_retry_ns = 0;
    if (pr->input.fd >= 0 && loop_add(pr, &pr->input, EPOLLIN) != 0)
        input_close(pr);
}

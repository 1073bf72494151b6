/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdin is rank 0's. A file or pipe is simply inherited: nothing is copied, and nothing is read
 * that rank 0 does not read. A terminal cannot be: ranks are in background process groups and would
 * be stopped by SIGTTIN, so what is typed is handed on through a pipe, as long as we are in the
 * foreground.
 *
 * Where rank 0 is another node's, the head reads, up to WINDOW_BYTES ahead of what has been written
 * into rank 0's pipe there.
 */
#define _GNU_SOURCE
#include "pmirun.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define INPUT_BYTES  4096u
#define RETRY_NS     (500 * NS_PER_MS)
#define WINDOW_BYTES 65536u

/* An agent's rank 0: a pipe that we fill. */
static int agent_pipe(struct pmirun *pr, int *child_fd)
{
    int p[2];

    if (!pr->input_buf)
        pr->input_buf = malloc(WINDOW_BYTES);
    if (!pr->input_buf || pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    pr->input_pipe = (struct source){SOURCE_INPUT_PIPE, p[1]};
    *child_fd = p[0];
    input_agent_given(pr, NULL, 0); /* what came before */
    return 0;
}

int input_init(struct pmirun *pr, int *child_fd)
{
    int p[2], fd;

    if (pr->agent)
        return agent_pipe(pr, child_fd);
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
    if (pr->input_pipe.fd >= 0) {
        loop_del(pr, &pr->input_pipe);
        close(pr->input_pipe.fd);
    }
    pr->input.fd = pr->input_pipe.fd = -1;
}

/* ---- an agent ---- */

static void agent_forward(struct pmirun *pr)
{
    while (pr->input_head < pr->input_len) {
        ssize_t n = write(pr->input_pipe.fd, pr->input_buf + pr->input_head,
                          pr->input_len - pr->input_head);

        if (n > 0) {
            pr->input_head += (size_t)n;
            agent_took(pr, (uint32_t)n);
        } else if (errno == EAGAIN) {
            if (!pr->input_blocked)
                pr->input_blocked = loop_add(pr, &pr->input_pipe, EPOLLOUT) == 0;
            return;
        } else if (errno != EINTR) {
            pr->input_ends = true; /* rank 0 does not want it any more */
            break;
        }
    }
    if (pr->input_blocked)
        loop_del(pr, &pr->input_pipe);
    pr->input_blocked = false;
    if (pr->input_ends)
        input_close(pr);
}

void input_agent_given(struct pmirun *pr, const char *p, size_t n)
{
    if (!pr->input_buf)
        pr->input_buf = malloc(WINDOW_BYTES);
    pr->input_ends |= p && n == 0;
    if (n && pr->input_buf) {
        if (pr->input_head) {
            memmove(pr->input_buf, pr->input_buf + pr->input_head, pr->input_len - pr->input_head);
            pr->input_len -= pr->input_head;
            pr->input_head = 0;
        }
        if (n > WINDOW_BYTES - pr->input_len)
            n = WINDOW_BYTES - pr->input_len; /* the head does not send more */
        memcpy(pr->input_buf + pr->input_len, p, n);
        pr->input_len += n;
    }
    if (pr->input_pipe.fd >= 0 && !pr->input_blocked)
        agent_forward(pr);
}

/* ---- the head ---- */

/* Reads and sends while there is room; a file is always ready, and epoll does not take it. */
static void head_read(struct pmirun *pr, bool once)
{
    while (pr->input.fd >= 0 && pr->input_room > 0) {
        size_t most = pr->input_room < INPUT_BYTES ? pr->input_room : INPUT_BYTES;
        ssize_t n = read(pr->input.fd, pr->input_buf, most);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0 && errno != EIO) /* a terminal that has hung up */
            say(pr, "cannot read standard input: %s; it ends here", strerror(errno));
        if (!nodes_send_input(pr, pr->input_buf, n > 0 ? (size_t)n : 0) || n <= 0) {
            input_close(pr);
            return;
        }
        pr->input_room -= (uint32_t)n;
        if (once)
            break;
    }
    if (once && pr->input.fd >= 0 && pr->input_room == 0) {
        loop_del(pr, &pr->input);
        pr->input_blocked = true;
    }
}

void input_head_start(struct pmirun *pr)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3), rc;

    pr->input_buf = malloc(INPUT_BYTES);
    if (fd < 0 || !pr->input_buf) {
        if (fd >= 0)
            close(fd);
        nodes_send_input(pr, "", 0);
        return;
    }
    pr->input = (struct source){SOURCE_INPUT, fd};
    pr->input_room = WINDOW_BYTES;
    rc = loop_add(pr, &pr->input, EPOLLIN);
    pr->input_is_file = rc == -EPERM;
    if (pr->input_is_file)
        head_read(pr, false);
    else if (rc)
        input_close(pr);
}

void input_head_room(struct pmirun *pr, uint32_t n)
{
    if (pr->input.fd < 0)
        return;
    pr->input_room = n < WINDOW_BYTES - pr->input_room ? pr->input_room + n : WINDOW_BYTES;
    if (pr->input_is_file) {
        head_read(pr, false);
    } else if (pr->input_blocked) {
        pr->input_blocked = false;
        if (loop_add(pr, &pr->input, EPOLLIN) != 0)
            input_close(pr);
    }
}

void input_head_close(struct pmirun *pr)
{
    input_close(pr);
}

/* ---- a terminal of one node ---- */

/* Hands on what is there. When the pipe is full, waits for it and not for the terminal. */
static void input_forward(struct pmirun *pr)
{
    while (pr->input_head < pr->input_len) {
        ssize_t n = write(pr->input_pipe.fd, pr->input_buf + pr->input_head,
                          pr->input_len - pr->input_head);

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

    if (pr->agent) {
        if (pr->input_pipe.fd >= 0)
            agent_forward(pr);
        return;
    }
    if (pr->input.fd < 0)
        return;
    if (src->kind == SOURCE_INPUT_PIPE) {
        input_forward(pr);
        return;
    }
    if (isatty(pr->input.fd) &&
        tcgetpgrp(pr->input.fd) != getpgrp()) { /* what is typed now is for somebody else */
        loop_del(pr, &pr->input);
        pr->input_retry_ns = pr->now_ns + RETRY_NS;
        return;
    }
    if (pr->head) {
        head_read(pr, true);
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

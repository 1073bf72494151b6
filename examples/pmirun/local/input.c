/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standard input of the rank, or the ranks, that get it.
 *
 * One rank on this node inherits a file or a pipe: pmirun copies nothing and reads nothing. A
 * terminal cannot be inherited: ranks are in background process groups, and SIGTTIN would stop
 * them. So pmirun reads the terminal, while it is in the foreground, and writes to a pipe. Input
 * for all ranks, and input from a head, takes pipes too: each rank is a `feed`, and pmirun reads
 * the next piece when all feeds have the last one. A feed that its rank has closed delays no other.
 */
#define _GNU_SOURCE
#include "input.h"

#include "job.h"
#include "role.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_NS   (500 * NS_PER_MS)
#define FILE_READS 16 /* of a file, before others have their turn */

/* ---- to the ranks ---- */

/* Writes to one feed as much as it takes. */
static void feed_push(struct input *in, struct feed *f)
{
    while (f->src.fd >= 0 && f->at < in->len) {
        ssize_t n = write(f->src.fd, in->buf + f->at, in->len - f->at);

        if (n > 0) {
            f->at += (size_t)n;
        } else if (errno == EAGAIN) {
            (void)loop_add(&f->src, EPOLLOUT);
            return;
        } else if (errno != EINTR) {
            loop_close(&f->src); /* the rank does not want it any more */
        }
    }
    loop_del(&f->src);
}

/* Writes to all feeds, and drops bytes that all have. Returns how many feeds are left. */
static uint32_t push_input(struct input *in)
{
    size_t least = in->len;
    uint32_t n_open = 0;

    for (uint32_t i = 0; i < in->n_joined; i++) {
        struct feed *f = &in->feeds[i];

        feed_push(in, f);
        n_open += f->src.fd >= 0;
        if (f->src.fd >= 0 && f->at < least)
            least = f->at;
    }
    if (least == 0)
        return n_open;
    in->len -= least;
    memmove(in->buf, in->buf + least, in->len);
    for (uint32_t i = 0; i < in->n_joined; i++)
        in->feeds[i].at -= in->feeds[i].at < least ? in->feeds[i].at : least;
    if (in->agent)
        agent_report(in->agent, MSG_TOOK, &(struct report){.value = (uint32_t)least});
    return n_open;
}

/* ---- from standard input ---- */

/* In the background, the terminal is not ours: looks again later. */
static void input_retry(void *of)
{
    struct input *in = of;

    if (in->src.fd >= 0 && loop_add(&in->src, EPOLLIN) != 0)
        input_close(in);
}

/* The terminal is not ours then: it looks again later. */
static bool input_in_background(struct input *in)
{
    if (!isatty(in->src.fd) || tcgetpgrp(in->src.fd) == getpgrp())
        return false;
    loop_del(&in->src);
    timer_call(&in->retry, loop.now_ns + RETRY_NS, input_retry, in);
    return true;
}

static bool input_has_room(const struct input *in)
{
    return in->head ? in->room > 0 : in->len == 0;
}

/* Reads one piece. False: nothing has arrived, or it was the end. */
static bool read_piece(struct input *in)
{
    const size_t most = in->head && in->room < INPUT_BYTES ? in->room : INPUT_BYTES;
    const ssize_t n = read(in->from, in->buf, most);
    const size_t len = n > 0 ? (size_t)n : 0;
    bool wanted;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n < 0 && errno != EIO) /* a terminal that has hung up */
        log_message("cannot read standard input: %s; ranks see its end", strerror(errno));
    if (in->head) {
        wanted = head_send_input(in->head, in->buf, len);
        in->room -= (uint32_t)len;
        in->n_sent += len;
    } else {
        in->len = len;
        wanted = len && push_input(in) > 0;
    }
    if (len && wanted)
        return true;
    input_close(in);
    return false;
}

static void read_file_pieces(struct input *in)
{
    for (int i = 0; i < FILE_READS && input_has_room(in); i++)
        if (!read_piece(in))
            return;
    for (uint32_t i = 0; i < in->n_joined && in->len == 0; i++)
        if (in->feeds[i].src.fd >= 0) { /* it has room: the loop calls this again at once */
            (void)loop_add(&in->feeds[i].src, EPOLLOUT);
            return;
        }
}

static void on_stdin(void *of, struct source *src, uint32_t events)
{
    struct input *in = of;

    if (input_in_background(in) || !read_piece(in) || input_has_room(in))
        return;
    loop_del(&in->src);
    in->waits = true;
}

/* There is room again. */
static void input_resume(struct input *in)
{
    if (in->is_file) {
        read_file_pieces(in);
    } else if (in->waits) {
        in->waits = false;
        if (loop_add(&in->src, EPOLLIN) != 0)
            input_close(in);
    }
}

static void on_feed_room(void *of, struct source *src, uint32_t events)
{
    struct input *in = of;
    const bool more = push_input(in) > 0;

    if ((in->ends && in->len == 0) || (!more && !in->agent))
        input_close(in);
    else if (in->len == 0)
        input_resume(in);
}

/*
 * A process that shares a pipe or a terminal with us, such as a pager, may take what epoll has
 * reported: a read() must not wait then. O_NONBLOCK needs a description of our own (output.c).
 * epoll keeps the one that we were given: on a new one of a FIFO it does not see an earlier end.
 */
static int open_without_wait(int fd)
{
    struct stat st;
    int own = -1;

    if (fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || isatty(fd)))
        own = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return own >= 0 ? own : fd;
}

/* ---- what others call ---- */

void input_start(struct input *in)
{
    const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int rc;

    if (fd < 0 && in->head)
        head_send_input(in->head, "", 0);
    if (fd < 0) {
        input_close(in);
        return;
    }
    in->room = INPUT_WINDOW_BYTES;
    in->from = open_without_wait(fd);
    rc = loop_open(&in->src, on_stdin, in, fd, EPOLLIN);
    in->is_file = rc == -EPERM;
    if (in->is_file)
        read_file_pieces(in);
    else if (rc)
        input_close(in);
}

void input_taken(struct input *in, uint64_t n)
{
    if (in->src.fd < 0 || n > in->n_sent) /* the latter makes no sense */
        return;
    in->room = (uint32_t)(INPUT_WINDOW_BYTES - (in->n_sent - n));
    if (in->room > 0)
        input_resume(in);
}

bool input_join(struct input *in, const struct rank *r, int *child_fd)
{
    const bool all = in->opt->stdin_rank == STDIN_ALL;
    int p[2] = {-1, -1};
    bool has_pipe;

    if (r->job->number != 0 || (!all && r->number != in->opt->stdin_rank))
        return false;
    *child_fd = STDIN_FILENO;
    if (!all && !in->agent && !isatty(STDIN_FILENO))
        return true;
    if (!in->feeds) {
        in->n_feeds = all ? r->job->n_local : 1;
        in->feeds = xzalloc(in->n_feeds * sizeof(*in->feeds));
    }
    has_pipe = pipe2(p, O_CLOEXEC) == 0;
    if (has_pipe)
        fcntl(p[1], F_SETFL, O_NONBLOCK);
    else
        log_message("cannot pass standard input to rank %u: %s", r->number, strerror(errno));
    /* Without a pipe too: the others' input begins when all feeds have joined. */
    in->feeds[in->n_joined++].src = (struct source){on_feed_room, in, has_pipe ? p[1] : -1, 0};
    *child_fd = p[0];
    if (in->n_joined == in->n_feeds && in->agent)
        input_given(in, NULL, 0); /* what came before */
    else if (in->n_joined == in->n_feeds)
        input_start(in);
    return has_pipe;
}

void input_given(struct input *in, const char *p, size_t n)
{
    in->ends |= p && n == 0;
    if (n > INPUT_WINDOW_BYTES - in->len)
        n = INPUT_WINDOW_BYTES - in->len; /* the head does not send more */
    if (n) {
        memcpy(in->buf + in->len, p, n);
        in->len += n;
    }
    if (!in->feeds || in->n_joined < in->n_feeds)
        return;
    push_input(in);
    if (in->ends && in->len == 0)
        input_close(in);
}

void input_close(struct input *in)
{
    timer_set(&in->retry, 0);
    if (in->src.fd >= 0 && in->from != in->src.fd)
        close(in->from);
    loop_close(&in->src);
    for (uint32_t i = 0; i < in->n_joined; i++)
        loop_close(&in->feeds[i].src);
}

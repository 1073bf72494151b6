/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks' output, line by line, to our stdout and stderr.
 *
 * pmirun forwards a line when it is complete, so that lines of two ranks never mix. It forwards a
 * line that grows beyond LINE_MAX_BYTES, or has no end within PART_NS (a prompt), in pieces.
 *
 * The reader of our output may be slow (a pager) and must not delay the PMI service: nothing here
 * blocks. Bytes that cannot be written wait in the sink. While it holds more than SINK_HIGH, the
 * streams that feed it are not read (back-pressure): each such rank waits in its own write().
 */
#define _GNU_SOURCE
#include "output.h"

#include "job.h"
#include "job_end.h"
#include "progress.h"
#include "role.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 65536u
#define PART_NS        (200 * NS_PER_MS)
#define SINK_FLUSH     65536u
#define SINK_HIGH      (1024u * 1024u)
#define SINK_LOW       65536u

/* bytes of each kind of output that an agent may have in flight to the head */
#define AGENT_ROOM (256u * 1024u)

/* How to write to a sink without ever waiting. */
enum {
    HOW_PLAIN,    /* a write to a regular file never waits */
    HOW_NONBLOCK, /* a new O_NONBLOCK description of the same pipe or terminal */
    HOW_SEND,     /* a socket */
    HOW_POLL      /* ask poll() first, and write no more than a pipe takes at once */
};

static size_t sink_waiting(const struct sink *sk)
{
    return sk->len - sk->head;
}

static ssize_t sink_write(const struct sink *sk, const char *p, size_t n)
{
    struct pollfd pfd = {.fd = sk->src.fd, .events = POLLOUT};

    switch (sk->how) {
    case HOW_SEND: return send(sk->src.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    case HOW_POLL:
        if (poll(&pfd, 1, 0) == 0) {
            errno = EAGAIN;
            return -1;
        }
        return write(sk->src.fd, p, n < 4096 ? n : 4096);
    default: return write(sk->src.fd, p, n);
    }
}

static void set_full(struct output *o, struct sink *sk, bool full)
{
    for (unsigned which = 0; which < 2 && full != sk->full; which++)
        if (sk->kinds >> which & 1)
            o->n_full[which] += full ? 1 : UINT32_MAX;
    sk->full = full;
}

static void resume_streams(struct output *o, struct sink *sk)
{
    if (sk->full && o->jobs->drain.at)
        job_give_time(o->jobs);
    set_full(o, sk, false);
    for (unsigned which = 0; which < 2 && o->jobs->head; which++)
        if (o->n_full[which] == 0)
            head_give_room(o->jobs->head, which);
    while (sk->paused) {
        struct stream *st = sk->paused;

        sk->paused = st->next_paused;
        if (st->src.fd >= 0 && loop_add(&st->src, EPOLLIN) != 0)
            output_close(o, st);
    }
}

/* The reader is gone: drops the bytes, and ends the job if it was stdout, as SIGPIPE would. */
static void sink_died(struct output *o, struct sink *sk, int err)
{
    sk->dead = true;
    sk->head = sk->len = 0;
    loop_del(&sk->src);
    resume_streams(o, sk);
    if (sk == &o->err)
        return;
    if (err == EPIPE) {
        log_verbose("the reader of %s has closed it", sk->name);
        job_stop(o->jobs, STATUS_SIGNAL + SIGPIPE);
    } else {
        log_message("cannot write to %s: %s", sk->name, strerror(err));
        job_stop(o->jobs, STATUS_OUTPUT);
    }
}

static void sink_flush(struct output *o, struct sink *sk)
{
    while (sk->head < sk->len) {
        ssize_t n = -1;

        errno = EAGAIN;
        if (progress_hide(o->jobs->progress, sk))
            n = sink_write(sk, sk->buf + sk->head, sink_waiting(sk));
        if (n > 0) {
            progress_wrote(o->jobs->progress, sk, sk->buf + sk->head, (size_t)n);
            sk->head += (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno != EAGAIN) {
            sink_died(o, sk, errno);
            return;
        } else {
            /* A file that epoll does not take never answers EAGAIN. */
            (void)loop_add(&sk->src, EPOLLOUT);
            break;
        }
    }
    if (sk->head == sk->len) {
        sk->head = sk->len = 0;
        loop_del(&sk->src);
    }
    if (sk->full && sink_waiting(sk) <= SINK_LOW)
        resume_streams(o, sk);
}

static void on_sink_room(void *of, struct source *src, uint32_t events)
{
    struct output *o = of;
    sink_flush(o, (struct sink *)src);
}

/*
 * O_NONBLOCK belongs to the open file description, which we share with our parent shell: setting it
 * on fd 1 would make the shell's writes fail. A new open() through /proc gives one of our own.
 */
static void sink_init(struct output *o, struct sink *sk, int fd, const char *name, unsigned kinds)
{
    struct stat st;
    char path[32];
    int own;

    sk->src = (struct source){on_sink_room, o, fd, 0};
    sk->how = HOW_POLL;
    sk->name = name;
    sk->kinds = kinds;
    if (fstat(fd, &st) != 0) {
        sk->dead = errno == EBADF; /* closed */
        return;
    }
    if (S_ISSOCK(st.st_mode)) {
        sk->how = HOW_SEND;
    } else if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode)) {
        sk->how = HOW_PLAIN;
    } else if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY) { /* else a write is an error */
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own >= 0) {
            sk->src.fd = own;
            sk->how = HOW_NONBLOCK;
        }
    }
}

void output_init(struct output *o)
{
    o->out.room = o->err.room = AGENT_ROOM;
    sink_init(o, &o->out, STDOUT_FILENO, "stdout", 1);
    sink_init(o, &o->err, STDERR_FILENO, "stderr", 2);
}

void output_drop_stderr(struct output *o)
{
    struct sink *sk = &o->err;

    sink_flush(o, sk);
    sink_died(o, sk, 0);
    if (sk->src.fd != STDERR_FILENO)
        close(sk->src.fd);
    sk->src.fd = STDERR_FILENO;
}

static void sink_append(struct output *o, struct sink *sk, const char *p, size_t n)
{
    if (sk->dead)
        return;
    if (sk->len + n > sk->cap && sk->head > 0) {
        memmove(sk->buf, sk->buf + sk->head, sink_waiting(sk));
        sk->len -= sk->head;
        sk->head = 0;
    }
    sk->buf = xgrow(sk->buf, &sk->cap, sk->len + n);
    memcpy(sk->buf + sk->len, p, n);
    sk->len += n;
    if (sink_waiting(sk) > SINK_HIGH)
        set_full(o, sk, true);
}

void output_text(void *of, const char *text, size_t len)
{
    struct output *o = of;

    if (o->jobs->agent && agent_report_text(o->jobs->agent, text, len))
        return;
    /* pmirun's own lines are few, but a client that misbehaves can cause many. */
    if (sink_waiting(&o->err) < 2 * SINK_HIGH)
        sink_append(o, &o->err, text, len);
}

/* Before output_init() too: what waits since then is lost otherwise. */
void output_flush_stderr(void *of)
{
    struct sink *sk = &((struct output *)of)->err;

    while (sk->head < sk->len) {
        const ssize_t n = write(STDERR_FILENO, sk->buf + sk->head, sink_waiting(sk));

        if (n <= 0)
            return;
        sk->head += (size_t)n;
    }
}

bool output_raw(struct output *o, const char *text, size_t len)
{
    return !o->err.dead && sink_write(&o->err, text, len) > 0;
}

/* ---- files ---- */

/* The pattern with the rank's values; to be freed. */
static char *file_name(const struct output *o, const char *pattern, const struct rank *r)
{
    char *name = xprintf("%s", "");

    for (const char *t = pattern; *t; t++) {
        const size_t plain = strcspn(t, "%");

        if (plain)
            name = xappend(name, "%.*s", (int)plain, t);
        t += plain;
        if (!*t)
            break;
        switch (*++t) { /* which are the only ones: set_pattern() */
        case 'r': name = xappend(name, "%u", r->number); break;
        case 'g': name = xappend(name, "%u", r->job->number); break;
        case 'p': name = xappend(name, "%u", r->node); break;
        case 'h': name = xappend(name, "%s", node_name(o->jobs, r->node)); break;
        default: name = xappend(name, "%%"); break;
        }
    }
    return name;
}

/* The file of this name, opened for the first rank that writes to it. Takes `name`. NULL with
 * errno. */
static struct sink *file_open(struct output *o, char *name)
{
    struct sink *sk;
    int fd;

    for (size_t i = 0; i < o->n_files; i++)
        if (strcmp(o->files[i]->name, name) == 0) {
            free(name);
            return o->files[i];
        }
    /* O_NONBLOCK: a FIFO without a reader is an error, not a wait */
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (fd < 0)
        return NULL;
    sk = xzalloc(sizeof(*sk));
    sink_init(o, sk, fd, name, 0);
    o->files = xrealloc(o->files, (o->n_files + 1) * sizeof(struct sink *));
    return o->files[o->n_files++] = sk;
}

static bool begin_stream(struct output *o, struct stream *st, const char *pattern)
{
    const unsigned kind = st == &st->rank->err ? 2 : 1;
    char *name;
    struct sink *sk;

    if (!pattern)
        return true;
    name = file_name(o, pattern, st->rank);
    sk = file_open(o, name);
    if (!sk) {
        log_message("cannot open %s for the output of %s: %s; stopping the job", name,
                    rank_name(st->rank), strerror(errno));
        free(name);
        return false;
    }
    if (sk->full && !(sk->kinds & kind))
        o->n_full[kind - 1]++;
    sk->kinds |= kind;
    st->sink = sk;
    return true;
}

bool output_begin(struct output *o, struct rank *r)
{
    r->out.sink = &o->out;
    r->err.sink = &o->err;
    return begin_stream(o, &r->out, o->jobs->opt->outfile) &&
           begin_stream(o, &r->err, o->jobs->opt->errfile);
}

/* ---- streams ---- */

#define LABEL_BYTES 64u

/* What a line begins with: --timestamp-output, -l. Returns its length. */
static int print_label(const struct options *opt, const struct rank *r, char *label)
{
    struct timespec now;
    struct tm tm;
    int n = 0;

    if (opt->timestamps) {
        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &tm);
        n = (int)strftime(label, LABEL_BYTES, "%F %T", &tm);
        n += snprintf(label + n, LABEL_BYTES - (size_t)n, ".%03ld ", now.tv_nsec / 1000000);
    }
    if (opt->labels && r->job->number == 0)
        n += snprintf(label + n, LABEL_BYTES - (size_t)n, "[%u] ", r->number);
    else if (opt->labels)
        n += snprintf(label + n, LABEL_BYTES - (size_t)n, "[%u:%u] ", r->job->number, r->number);
    return n;
}

/* Forwards bytes, with labels at the beginning of lines. */
static void stream_emit(struct output *o, struct stream *st, const char *p, size_t n)
{
    char label[LABEL_BYTES];
    int label_len;

    if (n == 0)
        return;
    label_len = print_label(o->jobs->opt, st->rank, label);
    if (label_len == 0) {
        sink_append(o, st->sink, p, n);
        st->mid_line = p[n - 1] != '\n';
        return;
    }
    while (n > 0) {
        const char *nl = memchr(p, '\n', n);
        size_t len = nl ? (size_t)(nl - p) + 1 : n;

        if (!st->mid_line)
            sink_append(o, st->sink, label, (size_t)label_len);
        sink_append(o, st->sink, p, len);
        st->mid_line = !nl;
        p += len;
        n -= len;
    }
}

static void emit_part(struct output *o, struct stream *st)
{
    stream_emit(o, st, st->part, st->part_len);
    st->part_len = 0;
}

static void part_expired(struct output *o, struct stream *st, bool *more)
{
    if (!output_is_open(st) || st->part_len == 0)
        return;
    if (loop.now_ns - st->part_ns >= PART_NS)
        emit_part(o, st);
    else
        *more = true;
}

/* Forwards unfinished lines that have waited long enough. */
static void output_parts(void *of)
{
    struct output *o = of;
    bool more = false;

    for (struct job *job = o->jobs->first; job; job = job->next) {
        for (uint32_t i = 0; i < job->n_local; i++) {
            part_expired(o, &job->ranks[i].out, &more);
            part_expired(o, &job->ranks[i].err, &more);
        }
    }
    if (more)
        timer_call(&o->part, loop.now_ns + PART_NS, output_parts, o);
}

static void keep_part(struct output *o, struct stream *st, const char *p, size_t n)
{
    st->part = xgrow(st->part, &st->part_cap, st->part_len + n);
    memcpy(st->part + st->part_len, p, n);
    st->part_len += n;
    st->part_ns = loop.now_ns;
    if (!o->part.waits)
        timer_call(&o->part, loop.now_ns + PART_NS, output_parts, o);
}

static void stream_feed(struct output *o, struct stream *st, const char *p, size_t n)
{
    const char *nl = memrchr(p, '\n', n);

    if (o->jobs->n_ranks == 1 && !o->jobs->opt->labels &&
        !o->jobs->opt->timestamps) { /* no other line to keep apart from */
        stream_emit(o, st, p, n);
        return;
    }
    if (nl) {
        size_t len = (size_t)(nl - p) + 1;

        emit_part(o, st);
        stream_emit(o, st, p, len);
        p += len;
        n -= len;
    }
    if (n == 0)
        return;
    if (st->part_len + n < LINE_MAX_BYTES) {
        keep_part(o, st, p, n);
        return;
    }
    emit_part(o, st);
    stream_emit(o, st, p, n);
}

/* A closed stream has no descriptor, and no agent sends its bytes. */
bool output_is_open(const struct stream *st)
{
    return st->src.fd >= 0 || st->remote;
}

void output_remote(struct output *o, struct stream *st, const char *p, size_t n)
{
    if (!output_is_open(st))
        return;
    if (n == 0) {
        output_close(o, st);
        return;
    }
    stream_feed(o, st, p, n);
    if (sink_waiting(st->sink) >= SINK_FLUSH && !st->sink->src.events)
        sink_flush(o, st->sink);
}

void output_room_given(struct output *o, struct sink *sk, uint32_t n)
{
    sk->room = n < AGENT_ROOM - sk->room ? sk->room + n : AGENT_ROOM;
    if (sk->full)
        resume_streams(o, sk);
}

/* Sends the bytes to the head unchanged: it makes the lines. */
static void pass_on(struct output *o, const struct stream *st, const char *p, size_t n)
{
    if (!agent_report_output(o->jobs->agent, st, p, n))
        return;
    st->sink->room -= (uint32_t)n;
    set_full(o, st->sink, st->sink->room == 0);
}

/* Reads one piece. Returns its length; 0: nothing has arrived, or it was the end. */
static size_t stream_read(struct output *o, struct stream *st)
{
    struct sink *sk = st->sink;
    size_t most = SCRATCH_BYTES;
    ssize_t n;

    if (o->jobs->agent && most > sk->room)
        most = sk->room;
    n = read(st->src.fd, loop.scratch, most);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0) { /* lost output is an error */
        log_message("cannot read the output of rank %u: %s", st->rank->number, strerror(errno));
        job_set_status(o->jobs, STATUS_OUTPUT);
    }
    if (n <= 0) {
        output_close(o, st);
        return 0;
    }
    if (o->jobs->agent) {
        pass_on(o, st, loop.scratch, (size_t)n);
        return (size_t)n;
    }
    stream_feed(o, st, loop.scratch, (size_t)n);
    if (sink_waiting(sk) >= SINK_FLUSH && !sk->src.events)
        sink_flush(o, sk);
    return (size_t)n;
}

static void on_stream(void *of, struct source *src, uint32_t events)
{
    struct output *o = of;
    struct stream *st = (struct stream *)src;
    struct sink *sk = st->sink;

    if (sk->full) {
        loop_del(&st->src);
        st->next_paused = sk->paused;
        sk->paused = st;
        return;
    }
    (void)stream_read(o, st);
}

int output_attach(struct output *o, struct stream *st, int fd)
{
    int rc;

    rc = loop_open(&st->src, on_stream, o, fd, EPOLLIN);
    if (rc != 0) {
        close(fd);
        st->src.fd = -1;
        return rc;
    }
    o->n_streams++;
    return 0;
}

void output_close(struct output *o, struct stream *st)
{
    if (!output_is_open(st))
        return;
    emit_part(o, st);
    if (o->jobs->agent)
        agent_report_output(o->jobs->agent, st, NULL, 0);
    loop_close(&st->src);
    st->remote = false;
    free(st->part);
    st->part = NULL;
    st->part_cap = 0;
    o->n_streams--;
}

void output_end(struct output *o, struct stream *st)
{
    int left = 0;
    size_t n;

    if (st->src.fd >= 0 && ioctl(st->src.fd, FIONREAD, &left) != 0)
        left = 0;
    while (left > 0) {
        if (st->sink->full) /* on_stream() reads the rest when there is room */
            return;
        n = stream_read(o, st);
        left = n ? left - (int)n : 0;
    }
    output_close(o, st);
}

void output_flush(struct output *o)
{
    if (o->out.head < o->out.len && !o->out.src.events)
        sink_flush(o, &o->out);
    if (o->err.head < o->err.len && !o->err.src.events)
        sink_flush(o, &o->err);
    for (size_t i = 0; i < o->n_files; i++)
        if (sink_waiting(o->files[i]) > 0 && !o->files[i]->src.events)
            sink_flush(o, o->files[i]);
}

bool output_pending(const struct output *o)
{
    bool pending = sink_waiting(&o->out) > 0 || sink_waiting(&o->err) > 0;

    for (size_t i = 0; i < o->n_files && !pending; i++)
        pending = sink_waiting(o->files[i]) > 0;
    return pending;
}

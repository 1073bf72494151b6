/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket, the messages that come on it, and how bytes are shown. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void sleep_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

int conn_open(struct conn *c, int fd, bool v1_value_to_eol)
{
    int flags = fcntl(fd, F_GETFL);

    memset(c, 0, sizeof(*c));
    c->fd = fd;
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -errno;
    c->buf = malloc(CONN_BYTES);
    if (!c->buf)
        return -ENOMEM;
    pmiwire_decoder_init(&c->dec, CONN_BYTES, v1_value_to_eol ? PMIWIRE_DECODE_VALUE_TO_EOL : 0);
    c->msg.fields = c->fields;
    c->msg.cap_fields = CONN_FIELDS;
    return 0;
}

void conn_close(struct conn *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->closed = true;
    free(c->buf);
    c->buf = NULL;
}

int conn_send(struct conn *c, const void *data, size_t len, int timeout_ms, size_t *sent)
{
    int64_t end = now_ms() + timeout_ms;
    size_t done = 0;
    int rc = 0;

    while (done < len) {
        ssize_t n = send(c->fd, (const char *)data + done, len - done, MSG_NOSIGNAL);
        int64_t left = end - now_ms();
        struct pollfd p = {c->fd, POLLOUT, 0};

        if (n < 0 && errno == ENOTSOCK) /* a launcher that hands out a pipe */
            n = write(c->fd, (const char *)data + done, len - done);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN || errno == EINTR) {
            if (left <= 0 || poll(&p, 1, (int)left) == 0) {
                rc = -ETIMEDOUT;
                break;
            }
        } else {
            rc = -EPIPE;
            break;
        }
    }
    if (sent)
        *sent = done;
    return rc;
}

/* Read once: 1 something came, 0 time is up, -1 the end. */
static int read_more(struct conn *c, int64_t end)
{
    int64_t left = end - now_ms();
    struct pollfd p = {c->fd, POLLIN, 0};
    ssize_t n;

    if (c->closed)
        return -1;
    if (poll(&p, 1, left > 0 ? (int)left : 0) <= 0)
        return now_ms() >= end ? 0 : 1;
    n = read(c->fd, c->buf + c->len, CONN_BYTES - c->len);
    if (n > 0) {
        c->len += (size_t)n;
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    c->closed = true;
    return -1;
}

enum got conn_recv(struct conn *c, int timeout_ms)
{
    int64_t end = now_ms() + timeout_ms;

    memmove(c->buf, c->buf + c->used, c->len - c->used);
    c->len -= c->used;
    c->used = 0;
    for (;;) {
        ssize_t n = pmiwire_decode(&c->dec, c->buf, c->len, &c->msg);
        int rc;

        if (n > 0) {
            c->used = (size_t)n;
            return GOT_MSG;
        }
        if (n < 0) {
            c->error = (int)n;
            c->used = c->dec.err_bytes ? c->dec.err_bytes : c->len;
            pmiwire_decoder_init(&c->dec, CONN_BYTES, c->dec.flags);
            return GOT_BAD;
        }
        rc = read_more(c, end);
        if (rc < 0)
            return GOT_CLOSED;
        if (rc == 0)
            return GOT_TIMEOUT;
    }
}

bool conn_ends(struct conn *c, int timeout_ms)
{
    int64_t end = now_ms() + timeout_ms;
    int rc;

    do {
        c->len = c->used = 0;
        rc = read_more(c, end);
    } while (rc > 0);
    return rc < 0;
}

char *printable(const char *data, size_t len, char *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)data[i];

        if (n + 8 > cap) {
            n += (size_t)snprintf(out + n, cap - n, "...");
            break;
        }
        if (b == '\n')
            n += (size_t)snprintf(out + n, cap - n, i + 1 < len ? "\\n" : "");
        else if (b < 32 || b > 126)
            n += (size_t)snprintf(out + n, cap - n, "\\x%02x", b);
        else
            out[n++] = (char)b;
    }
    out[n] = '\0';
    return out;
}

bool str_is(struct pmiwire_str s, const char *text)
{
    return s.ptr && s.len == strlen(text) && memcmp(s.ptr, text, s.len) == 0;
}

void print_json(FILE *f, const char *text)
{
    for (; *text; text++) {
        unsigned char b = (unsigned char)*text;

        if (b == '"' || b == '\\')
            fprintf(f, "\\%c", b);
        else if (b < 32 || b > 126)
            fprintf(f, "\\u%04x", b);
        else
            fputc(b, f);
    }
}

void print_cell(FILE *f, const char *text, int width)
{
    fputc(' ', f);
    for (; *text; text++, width--) {
        if (*text == '|') { /* ends a cell of a markdown table */
            fputc('\\', f);
            width--;
        }
        fputc(*text, f);
    }
    fprintf(f, "%*s |", width > 0 ? width : 0, "");
}

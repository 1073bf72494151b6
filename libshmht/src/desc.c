/* SPDX-License-Identifier: BSD-3-Clause */
/* A region's description as text, alone or with its file descriptor. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static const char text_magic[] = "shmht";

void shmht__desc_fill(const struct shmht__header *h, const struct shmht__object *o,
                      struct shmht_desc *desc)
{
    struct stat st;

    memset(desc, 0, sizeof(*desc));
    desc->kind = h->kind;
    desc->layout = h->layout;
    desc->hash_id = h->kind == SHMHT_KIND_TABLE ? h->hash_id : 0;
    /* The process may have changed its user since it created the object. */
    desc->uid = (uint32_t)(o->fd >= 0 && fstat(o->fd, &st) == 0 ? st.st_uid : geteuid());
    desc->id = h->id;
    desc->generation = h->generation;
    desc->max_bytes = h->max_bytes;
    snprintf(desc->name, sizeof(desc->name), "%s", o->name);
}

int shmht_writer_share(const struct shmht_writer *w, struct shmht_desc *desc)
{
    if (w->object.fd < 0)
        return SHMHT_EFIXED;
    if (desc && shmht__may_write(&w->object) < 0)
        return -EPERM;
    if (desc)
        shmht__desc_fill(w->header, &w->object, desc);
    return w->object.ro_fd;
}

static int desc_check(const struct shmht_desc *desc)
{
    if (desc->name[0] && !shmht__name_ok(desc->name))
        return SHMHT_ENAME;
    if (desc->layout != SHMHT_LAYOUT_VERSION)
        return SHMHT_EVERSION;
    if (desc->kind != SHMHT_KIND_TABLE && desc->kind != SHMHT_KIND_ARRAY)
        return SHMHT_ECORRUPT;
    return desc->max_bytes < HEADER_BYTES || desc->max_bytes > SHMHT_MAX_REGION_BYTES
               ? SHMHT_ECORRUPT
               : 0;
}

/* LAYOUT.md defines the text. */
ssize_t shmht_desc_format(const struct shmht_desc *desc, char *buf, size_t cap)
{
    char text[SHMHT_DESC_TEXT_BYTES];
    int n;

    if (desc->name[0] && !shmht__name_ok(desc->name))
        return SHMHT_ENAME;
    n = snprintf(text, sizeof(text), "%s%x,%x,%x,%x,%llx,%llx,%llx,%s", text_magic,
                 (unsigned)desc->layout, (unsigned)desc->kind, (unsigned)desc->hash_id,
                 (unsigned)desc->uid, (unsigned long long)desc->id,
                 (unsigned long long)desc->generation, (unsigned long long)desc->max_bytes,
                 desc->name[0] ? desc->name : "-");
    if (n < 0 || (size_t)n >= sizeof(text) || (size_t)n >= cap)
        return SHMHT_ENOBUF;
    memcpy(buf, text, (size_t)n + 1);
    return n;
}

/* Reads a hexadecimal field that ends with a comma. Returns the text behind it, or NULL. */
static const char *hex_field(const char *p, const char *end, unsigned digits, uint64_t *number)
{
    uint64_t x = 0;
    unsigned n;

    for (n = 0; p < end && *p != ','; p++, n++) {
        char c = *p;

        if (n == digits || !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return NULL;
        x = x << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    if (n == 0 || p == end)
        return NULL;
    *number = x;
    return p + 1;
}

int shmht_desc_parse(const char *text, size_t len, struct shmht_desc *desc)
{
    static const unsigned digits[7] = {4, 4, 8, 8, 16, 16, 16};
    const char *p = text + sizeof(text_magic) - 1, *end = text + len;
    struct shmht_desc d;
    uint64_t field[7];
    int rc;

    if (len < sizeof(text_magic) - 1 || memcmp(text, text_magic, sizeof(text_magic) - 1) != 0)
        return SHMHT_EMAGIC;
    for (int i = 0; i < 7; i++) {
        p = hex_field(p, end, digits[i], &field[i]);
        if (!p)
            return SHMHT_ECORRUPT;
        /* Of another version, the rest may look different. */
        if (i == 0 && field[0] != SHMHT_LAYOUT_VERSION)
            return SHMHT_EVERSION;
    }
    memset(&d, 0, sizeof(d));
    d.layout = (uint32_t)field[0];
    d.kind = (uint32_t)field[1];
    d.hash_id = (uint32_t)field[2];
    d.uid = (uint32_t)field[3];
    d.id = field[4];
    d.generation = field[5];
    d.max_bytes = field[6];
    if (end - p >= (ptrdiff_t)sizeof(d.name) || end == p || memchr(p, '\0', (size_t)(end - p)))
        return SHMHT_ENAME;
    if (end - p != 1 || *p != '-') {
        memcpy(d.name, p, (size_t)(end - p));
        if (!shmht__name_ok(d.name))
            return SHMHT_ENAME;
    }
    rc = desc_check(&d);
    if (rc == 0)
        *desc = d;
    return rc;
}

/* A message is the text, padded with NULs to SHMHT_DESC_TEXT_BYTES, and the file descriptor. */
int shmht_fd_send(int sock, int fd, const struct shmht_desc *desc)
{
    union {
        struct cmsghdr header; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    char text[SHMHT_DESC_TEXT_BYTES] = {0};
    struct iovec iov = {text, sizeof(text)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *cmsg;
    ssize_t n = shmht_desc_format(desc, text, sizeof(text));

    if (n < 0)
        return (int)n;
    memset(&control, 0, sizeof(control));
    cmsg = CMSG_FIRSTHDR(&msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    do {
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
        /* A stream may accept a part; the first part carried the descriptor. */
        if (n > 0 && (size_t)n < iov.iov_len) {
            iov.iov_base = (char *)iov.iov_base + n;
            iov.iov_len -= (size_t)n;
            msg.msg_control = NULL;
            msg.msg_controllen = 0;
            n = -1;
            errno = EINTR;
        }
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

/* Keeps the first descriptor of a message in *fd, and closes all others. */
static void take_fds(struct msghdr *msg, int *fd)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
            int other;

            memcpy(&other, CMSG_DATA(c) + at, sizeof(other));
            if (*fd < 0)
                *fd = other;
            else
                close(other);
        }
    }
}

int shmht_fd_recv(int sock, struct shmht_desc *desc)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    char text[SHMHT_DESC_TEXT_BYTES];
    size_t have = 0;
    int fd = -1, rc = 0;

    while (rc == 0 && have < sizeof(text)) {
        struct iovec iov = {text + have, sizeof(text) - have};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
        ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            rc = n < 0 ? -errno : -EPIPE;
            break;
        }
        take_fds(&msg, &fd);
        have += (size_t)n;
        if (have >= sizeof(text_magic) - 1 && memcmp(text, text_magic, sizeof(text_magic) - 1) != 0)
            rc = SHMHT_EMAGIC;
    }
    if (rc == 0 && fd < 0)
        rc = SHMHT_EMAGIC;
    if (rc == 0)
        rc = shmht_desc_parse(text, strnlen(text, sizeof(text)), desc);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptor as text, as bytes, and in the company of a file descriptor. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static const char text_magic[] = "shmht";
static const unsigned char pack_magic[8] = {'S', 'H', 'M', 'H', 'T', 'D', 'S', 'C'};

_Static_assert(8 + 4 * 4 + 3 * 8 + 8 + SHMHT_MAX_NAME_BYTES == SHMHT_DESC_BYTES, "layout");

void shmht__desc_fill(const struct shmht__header *h, const struct shmht__object *o,
                      struct shmht_desc *desc)
{
    struct stat st;

    memset(desc, 0, sizeof(*desc));
    desc->kind = h->kind;
    desc->layout = h->layout;
    desc->hash_id = h->kind == SHMHT_KIND_TABLE ? h->hash_id : 0;
    desc->uid = (uint32_t)(o->fd >= 0 && fstat(o->fd, &st) == 0
                               ? st.st_uid
                               : geteuid()); /* the process may be another user's by now */
    desc->id = h->id;
    desc->generation = h->generation;
    desc->max_bytes = h->max_bytes;
    snprintf(desc->name, sizeof(desc->name), "%s", o->name);
}

int shmht_writer_desc(const struct shmht_writer *w, struct shmht_desc *desc)
{
    if (w->object.fd < 0)
        return SHMHT_EFIXED;
    shmht__desc_fill(w->header, &w->object, desc);
    return 0;
}

static int check(const struct shmht_desc *desc)
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

/* shmht<layout>,<kind>,<hash id>,<uid>,<id>,<generation>,<max bytes>,<name or ->: numbers in
 * hexadecimal */
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

/* One hexadecimal field that ends with a comma. Returns what follows, or NULL. */
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
        if (i == 0 && field[0] != SHMHT_LAYOUT_VERSION)
            return SHMHT_EVERSION; /* the rest may look different */
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
    rc = check(&d);
    if (rc == 0)
        *desc = d;
    return rc;
}

static unsigned char *put_le(unsigned char *p, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *p++ = (unsigned char)(x >> 8 * i);
    return p;
}

int shmht_desc_pack(const struct shmht_desc *desc, unsigned char *buf)
{
    unsigned char *p = buf;
    size_t len = strnlen(desc->name, sizeof(desc->name));

    if (desc->name[0] && !shmht__name_ok(desc->name))
        return SHMHT_ENAME;
    memcpy(p, pack_magic, sizeof(pack_magic));
    p = put_le(p + sizeof(pack_magic), desc->layout, 4);
    p = put_le(p, desc->kind, 4);
    p = put_le(p, desc->hash_id, 4);
    p = put_le(p, desc->uid, 4);
    p = put_le(p, desc->id, 8);
    p = put_le(p, desc->generation, 8);
    p = put_le(p, desc->max_bytes, 8);
    p = put_le(p, len, 8);
    memset(p, 0, SHMHT_MAX_NAME_BYTES);
    memcpy(p, desc->name, len);
    return 0;
}

int shmht_desc_unpack(const unsigned char *buf, size_t len, struct shmht_desc *desc)
{
    struct shmht_desc d;
    uint64_t name_len;
    int rc;

    if (len < sizeof(pack_magic))
        return SHMHT_ETRUNC;
    if (memcmp(buf, pack_magic, sizeof(pack_magic)) != 0)
        return SHMHT_EMAGIC;
    if (len < SHMHT_DESC_BYTES)
        return SHMHT_ETRUNC;
    memset(&d, 0, sizeof(d));
    d.layout = shmht__le32(buf + 8);
    if (d.layout != SHMHT_LAYOUT_VERSION)
        return SHMHT_EVERSION;
    d.kind = shmht__le32(buf + 12);
    d.hash_id = shmht__le32(buf + 16);
    d.uid = shmht__le32(buf + 20);
    d.id = shmht__le64(buf + 24);
    d.generation = shmht__le64(buf + 32);
    d.max_bytes = shmht__le64(buf + 40);
    name_len = shmht__le64(buf + 48);
    if (name_len >= sizeof(d.name) || memchr(buf + 56, '\0', (size_t)name_len))
        return SHMHT_ENAME;
    memcpy(d.name, buf + 56, (size_t)name_len);
    rc = check(&d);
    if (rc == 0)
        *desc = d;
    return rc;
}

int shmht_fd_send(int sock, int fd, const struct shmht_desc *desc)
{
    union {
        struct cmsghdr header; /* for its alignment */
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    unsigned char packed[SHMHT_DESC_BYTES];
    struct iovec iov = {packed, sizeof(packed)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *cmsg;
    ssize_t n;
    int rc = shmht_desc_pack(desc, packed);

    if (rc < 0)
        return rc;
    memset(&control, 0, sizeof(control));
    cmsg = CMSG_FIRSTHDR(&msg);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    do {
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
        if (n > 0 &&
            (size_t)n <
                iov.iov_len) { /* a stream may take a part; the descriptor went with the first */
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

/* The descriptors of a message: the first is kept in *fd, all others are closed. */
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
    unsigned char packed[SHMHT_DESC_BYTES];
    size_t have = 0;
    int fd = -1, rc = 0;

    while (rc == 0 && have < sizeof(packed)) {
        struct iovec iov = {packed + have, sizeof(packed) - have};
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
        if (have >= sizeof(pack_magic) && memcmp(packed, pack_magic, sizeof(pack_magic)) != 0)
            rc = SHMHT_EMAGIC;
    }
    if (rc == 0 && fd < 0)
        rc = SHMHT_EMAGIC;
    if (rc == 0)
        rc = shmht_desc_unpack(packed, sizeof(packed), desc);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

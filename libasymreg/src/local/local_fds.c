/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors by message, for peers that may not fetch them: see asymreg_fds_send(). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "local_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FDS_MAGIC 0x44465341u

/* One message for each descriptor. */
struct fd_message {
    uint32_t magic;
    uint32_t more; /* messages after this one */
    uint64_t pid, start_time, dev, ino;
};

int asymreg__local_fds_send(struct asymreg__local *l, int sock)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}}; /* its padding, too, is sent */
    int n = 0, sent = 0, rc = 0;

    pthread_mutex_lock(&l->lock);
    for (struct asymreg_mem *m = l->mems; m; m = m->next)
        n += m->fd >= 0;
    for (struct asymreg_mem *m = l->mems; m && rc == 0; m = m->next) {
        struct fd_message msg = {FDS_MAGIC,    0, l->self.pid, l->self.start_time, m->handle.dev,
                                 m->handle.ino};
        struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
        struct msghdr hdr = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.buf,
                             .msg_controllen = sizeof(control.buf)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&hdr);
        ssize_t done;
        if (m->fd < 0)
            continue;
        msg.more = (uint32_t)(n - sent - 1);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &m->fd, sizeof(int));
        do
            done = sendmsg(sock, &hdr, MSG_NOSIGNAL);
        while (done < 0 && errno == EINTR);
        if (done == (ssize_t)sizeof(msg))
            sent++;
        else
            rc = done < 0 ? -errno : -EIO;
    }
    pthread_mutex_unlock(&l->lock);
    return rc < 0 ? rc : sent;
}

/* Returns a message's descriptor; -1 if it has none, or several, which are then closed. */
static int fd_of_message(struct msghdr *hdr)
{
    int fd = -1, n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c; c = CMSG_NXTHDR(hdr, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len; at += sizeof(int)) {
            if (n++ > 0)
                close(fd);
            memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
        }
    }
    if (n > 1) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int fd_is_writable(int fd)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
}

/* Keeps a descriptor. Returns 1 if it is new; 0 if one with the same access is kept already (this
 * one is then closed); or -ENOMEM. */
static int fd_keep(struct asymreg__local *l, const struct fd_message *msg, int fd)
{
    struct received *r;
    int old = fd, rc = 0;

    pthread_mutex_lock(&l->lock);
    for (r = l->received; r; r = r->next)
        if (r->pid == msg->pid && r->start_time == msg->start_time && r->dev == msg->dev &&
            r->ino == msg->ino)
            break;
    if (!r) {
        r = asymreg__alloc(l->allocator, sizeof(*r));
        rc = r ? 1 : -ENOMEM;
        if (r) {
            *r = (struct received){.next = l->received,
                                   .pid = msg->pid,
                                   .start_time = msg->start_time,
                                   .dev = msg->dev,
                                   .ino = msg->ino,
                                   .fd = fd};
            l->received = r;
            old = -1;
        }
    } else if (!fd_is_writable(r->fd) && fd_is_writable(fd)) {
        old = r->fd; /* it has held the file until now, so its inode number is not reused */
        r->fd = fd;
        rc = 1;
    }
    pthread_mutex_unlock(&l->lock);
    if (old >= 0)
        close(old);
    return rc;
}

/* Receives one message and keeps its descriptor. Returns 1 if the descriptor is new, 0 if it was
 * known, or an error. *more: how many messages follow. */
static int fd_receive(struct asymreg__local *l, int sock, uint32_t *more)
{
    union {
        char buf[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct fd_message msg;
    struct iovec iov = {.iov_base = &msg, .iov_len = sizeof(msg)};
    struct msghdr hdr = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.buf,
                         .msg_controllen = sizeof(control.buf)};
    struct stat st;
    ssize_t n;
    int fd;

    do
        n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    fd = fd_of_message(&hdr);
    if (n != (ssize_t)sizeof(msg) || msg.magic != FDS_MAGIC || fd < 0 || fstat(fd, &st) < 0 ||
        st.st_dev != msg.dev || st.st_ino != msg.ino) {
        if (fd >= 0)
            close(fd);
        return ASYMREG_EBLOB;
    }
    *more = msg.more;
    return fd_keep(l, &msg, fd);
}

int asymreg__local_fds_recv(struct asymreg__local *l, int sock)
{
    uint32_t more;
    int n = 0, rc;

    do {
        rc = fd_receive(l, sock, &more);
        if (rc < 0)
            return rc;
        n += rc;
    } while (more > 0);
    return n;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core.h"
#include "session.h"

static int env_number(const char *name, int absent)
{
    const char *text = getenv(name);
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : 0;

    return text && end > text && !*end && value == (int)value ? (int)value : absent;
}

/* PMI_PORT=host:port */
static int connect_to(const char *where)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list, *a;
    const char *colon = strrchr(where, ':');
    char host[256];
    int fd = -1, on = 1;

    if (!colon || (size_t)(colon - where) >= sizeof(host))
        return -EINVAL;
    memcpy(host, where, (size_t)(colon - where));
    host[colon - where] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
        return -EHOSTUNREACH;
    for (a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        return -ECONNREFUSED;
    /* Small questions, each waiting for its answer. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

int environment_read(struct environment *env)
{
    const char *port = getenv("PMI_PORT");

    memset(env, 0, sizeof(*env));
    env->rank = env_number("PMI_RANK", -1);
    env->size = env_number("PMI_SIZE", -1);
    env->jobid = getenv("PMI_JOBID");
    env->fd = env_number("PMI_FD", -1);
    if (env->fd >= 0 || !port)
        return 0;
    env->has_id = 1;
    env->id = env_number("PMI_ID", 0);
    env->fd = connect_to(port);
    return env->fd < 0 ? env->fd : 0;
}

/* Whether this can be written or read now. For descriptors other than sockets. */
static int is_ready(int fd, short events)
{
    struct pollfd pfd = {.fd = fd, .events = events};

    return poll(&pfd, 1, 0) > 0;
}

/*
 * Sends the session's output, as much as the socket accepts now. A Unix socket accepts a short
 * message whole or not at all. If TCP's is full, the rest of a message waits for the next call.
 */
static void write_out(struct session *s)
{
    const void *out;
    size_t left;
    ssize_t n;

    while ((left = pmiwire_client_output(s->client, &out)) > 0) {
        n = send(s->fd, out, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == ENOTSOCK) {
            if (!is_ready(s->fd, POLLOUT))
                return;
            n = write(s->fd, out, left);
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == ENOBUFS))
            return;
        if (n < 0 && errno == EPIPE)
            return; /* its last messages can still be read, and then the end */
        if (n < 0) {
            pmiwire_client_eof(s->client);
            return;
        }
        pmiwire_client_sent(s->client, (size_t)n);
    }
}

/* A user of the passed descriptor has duplicated it. */
static void close_passed(struct session *s)
{
    if (s->passed_fd >= 0)
        close(s->passed_fd);
    s->passed_fd = -1;
}

/* A descriptor that came with bytes: that of shared memory which they announce. */
static void take_descriptor(struct session *s, struct msghdr *msg)
{
    for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
        const size_t n = h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS
                             ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                             : 0;

        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
            close_passed(s);
            s->passed_fd = fd;
        }
    }
}

/* Read what the server has sent; with `wait`, wait for it. 0: nothing has come. */
static int read_in(struct session *s, int wait)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control;
    char in[8192];
    struct iovec iov = {in, sizeof(in)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    do {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        n = recvmsg(s->fd, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    } while (n < 0 && errno == EINTR);
    if (n >= 0) {
        take_descriptor(s, &msg);
    } else if (errno == ENOTSOCK) {
        if (!wait && !is_ready(s->fd, POLLIN))
            return 0;
        do
            n = read(s->fd, in, sizeof(in));
        while (n < 0 && errno == EINTR);
    }
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        pmiwire_client_eof(s->client);
    else
        pmiwire_client_input(s->client, in, (size_t)n);
    return 1;
}

/* Wait until there is something to read, or room to write. The descriptor may be non-blocking:
 * O_NONBLOCK belongs to the open file, and any process that shares it can set it. */
static void wait_ready(struct session *s)
{
    const void *out;
    struct pollfd pfd = {.fd = s->fd, .events = POLLIN};

    if (pmiwire_client_output(s->client, &out) > 0)
        pfd.events |= POLLOUT;
    else if (read_in(s, 1))
        return;
    poll(&pfd, 1, -1);
    if (pfd.revents & ~POLLOUT)
        read_in(s, 0);
}

/* ---- non-blocking requests ---- */

/* Cap of the requests sent ahead of their answers: leaves room for an abort. */
#define MAX_AHEAD (PMIWIRE_CLIENT_MAX_PENDING - 16u)

/* The name of an array disappears when the next collective completes: until a process has opened
 * one by name, it begins no other collective. */
static int is_full(const struct session *s)
{
    return s->n_ahead == MAX_AHEAD || (s->table.by_name && s->n_arrays_due > 0);
}

static int send_request(struct session *s, struct request *r)
{
    int rc = is_full(s) ? -EAGAIN : r->send(s, r, (uintptr_t)r);

    if (rc == 0)
        s->n_ahead++;
    return rc;
}

/* Make the requests that can be made. Returns how many of them completed at once. */
static int hand_over(struct session *s)
{
    int n_over = 0;

    while (s->first) {
        struct request *r = s->first;
        int rc = send_request(s, r);

        if (rc == -EAGAIN)
            break;
        s->first = r->next;
        if (rc == 0)
            continue;
        n_over++;
        r->done(s, r, rc, NULL);
    }
    return n_over;
}

static void request_answered(struct session *s, const struct pmiwire_event *ev)
{
    struct request *r = (struct request *)(uintptr_t)ev->cookie;

    s->n_ahead--;
    r->done(s, r, ev->rc, ev);
}

/* The result of one step: the answer to SESSION_ASK; something; nothing. Negative: the session is
 * over, and with it every pending operation. */
enum { NOTHING, SOMETHING, ANSWER };

static int session_step(struct session *s, int wait, struct pmiwire_event *ev)
{
    int rc = pmiwire_client_next(s->client, ev, NULL);

    if (rc == 0) {
        if (hand_over(s) > 0)
            return SOMETHING;
        write_out(s);
        rc = pmiwire_client_next(s->client, ev, NULL); /* the session may have ended */
    }
    if (rc == 0 && wait) {
        wait_ready(s);
        return SOMETHING;
    }
    if (rc == 0)
        return read_in(s, 0) ? SOMETHING : NOTHING;
    if (rc < 0) {
        hand_over(s);
        return rc;
    }
    s->peer_rc = ev->peer_rc;
    if (ev->op == PMIWIRE_OP_FENCE || ev->op == PMIWIRE_OP_GATHER)
        s->array = table_fenced(&s->table, ev->msg, &s->passed_fd);
    if (ev->cookie != SESSION_ASK)
        request_answered(s, ev);
    shmht_array_detach(s->array);
    s->array = NULL;
    return ev->cookie == SESSION_ASK ? ANSWER : SOMETHING;
}

int session_begin(struct session *s, struct request *r)
{
    int rc = s->first ? -EAGAIN : send_request(s, r);

    if (rc == -EAGAIN) {
        r->next = NULL;
        if (s->first)
            s->last->next = r;
        else
            s->first = r;
        s->last = r;
        rc = 0;
    }
    write_out(s);
    return rc;
}

void session_begin_first(struct session *s, struct request *r)
{
    if (!s->first)
        s->last = r;
    r->next = s->first;
    s->first = r;
}

int session_busy(const struct session *s)
{
    return s->first || s->n_ahead > 0;
}

int session_progress(struct session *s, int wait)
{
    struct pmiwire_event ev;

    return session_busy(s) && session_step(s, wait, &ev) == SOMETHING;
}

/* ---- requests that wait ---- */

struct pmiwire_client *session_ready(struct session *s)
{
    while (session_busy(s))
        session_progress(s, 1);
    return s->client;
}

int session_wait(struct session *s, struct pmiwire_event *ev)
{
    int rc;

    do
        rc = session_step(s, 1, ev);
    while (rc >= 0 && rc != ANSWER);
    return rc < 0 ? rc : ev->rc;
}

/* Whether slurmstepd is our server. A mpiexec.hydra that srun has started leaves Slurm's variables
 * to its ranks, and adds its own. */
static int is_slurm(void)
{
    return getenv("SLURM_STEP_ID") && !getenv("MPI_LOCALRANKID");
}

/* Identifies the server. slurmstepd loses longer PMI-1 lines than other servers; pmirun and Hydra
 * read everything that a client may put. */
static const struct pmiwire_profile *server_profile(void)
{
    return pmiwire_profile_find(is_slurm() ? "slurmstepd" : "hydra-4.0");
}

int session_offers(const struct session *s, uint16_t ext)
{
    return s->info.ext[ext].ptr != NULL;
}

int session_open(struct session *s, const struct environment *env, uint32_t wire)
{
    struct pmiwire_client_opts opts = {
        .size = sizeof(opts),
        .wire = wire,
        .flags = PMIWIRE_CLIENT_EXTENSIONS | PMIWIRE_CLIENT_PIPELINE_KNOWN,
        .rank = env->rank < 0 ? 0 : env->rank,
        .n_ranks = env->size < 0 ? 1 : env->size,
        .has_pmiid = env->has_id,
        .pmiid = env->id,
        .jobid = env->jobid,
        .server = server_profile(),
    };
    struct pmiwire_event ev;
    int rc;

    memset(s, 0, sizeof(*s));
    s->wire = wire;
    s->fd = env->fd;
    s->passed_fd = -1;
    rc = pmiwire_client_create(&opts, &s->client);
    if (rc == 0)
        rc = session_wait(s, &ev);
    if (rc < 0) {
        session_close(s);
        return rc;
    }
    pmiwire_client_query(s->client, &s->info);
    table_open(&s->table, s->info.ext[PMIWIRE_EXT_TABLE], s->passed_fd);
    close_passed(s);
    return rc;
}

/* Whether the key is in shared memory. */
static int read_key(struct session *s, struct pmiwire_str key, struct pmiwire_str *value)
{
    if (table_get(&s->table, key, value) != 0)
        return 0;
    s->n_read++;
    return 1;
}

/* The answer to a get that was queued, or could not be. */
static int finish_get(struct session *s, int rc, struct pmiwire_str *value)
{
    struct pmiwire_event ev;

    s->n_asked++;
    if (rc == 0)
        rc = session_wait(s, &ev);
    if (rc == 0)
        *value = ev.value;
    return rc;
}

int session_get(struct session *s, struct pmiwire_str jobid, int source, struct pmiwire_str key,
                struct pmiwire_str *value)
{
    if (!jobid.ptr && read_key(s, key, value))
        return 0;
    return finish_get(
        s, pmiwire_client_get(session_ready(s), jobid, source, key, PMIWIRE_GET_LOCAL, SESSION_ASK),
        value);
}

int session_get_wait(struct session *s, int source, struct pmiwire_str key,
                     struct pmiwire_str *value)
{
    int rc;

    if (!session_offers(s, PMIWIRE_EXT_EXCHANGE))
        return PMIWIRE_EVERSION;
    if (read_key(s, key, value))
        return 0;
    rc = finish_get(s,
                    pmiwire_client_get(session_ready(s), pmiwire_strz(NULL), source, key,
                                       PMIWIRE_GET_WAIT, SESSION_ASK),
                    value);
    return rc == PMIWIRE_EPEER ? PMIWIRE_ENOENT : rc;
}

int session_put(struct session *s, struct pmiwire_str key, struct pmiwire_str value, uint32_t hint)
{
    struct pmiwire_event ev;
    int rc = pmiwire_client_put(session_ready(s), key, value, hint, SESSION_ASK);

    return rc == 0 ? session_wait(s, &ev) : rc;
}

/* ---- ring ---- */

/* Slurm and pmirun have PMI-2's ring; PMI-1's is an extension. Another server would end the job. */
static int has_ring(const struct session *s)
{
    return s->wire == PMIWIRE_V1 ? session_offers(s, PMIWIRE_EXT_EXCHANGE)
                                 : session_offers(s, PMIWIRE_EXT_SERVER) || is_slurm();
}

/* A neighbour's value. */
static int copy_neighbour(struct pmiwire_str value, char to[SESSION_RING_MAX_BYTES + 1])
{
    int rc = check_string(0, &value);

    return rc == 0 && give(value, to, SESSION_RING_MAX_BYTES + 1) != 0 ? PMIWIRE_EVALLEN : rc;
}

static int get_neighbour(struct session *s, int rank, char *to)
{
    struct pmiwire_str value;
    char key[64];
    int rc;

    snprintf(key, sizeof(key), "-ring-%u-%d", s->n_rings, rank);
    rc = session_get(s, (struct pmiwire_str){NULL, 0}, rank, pmiwire_strz(key), &value);
    return rc == 0 ? copy_neighbour(value, to) : rc;
}

static int ring_of_pairs(struct session *s, int rank, int n_ranks, const char *value,
                         struct ring *ring)
{
    struct pmiwire_event ev;
    char key[64];
    int rc;

    snprintf(key, sizeof(key), "-ring-%u-%d", s->n_rings, rank);
    rc = session_put(s, pmiwire_strz(key), pmiwire_strz(value), PMIWIRE_HINT_NONE);
    if (rc == 0)
        rc = pmiwire_client_fence(s->client, pmiwire_strz(NULL), SESSION_ASK);
    if (rc == 0)
        rc = session_wait(s, &ev);
    if (rc == 0)
        rc = get_neighbour(s, (rank + n_ranks - 1) % n_ranks, ring->left);
    if (rc == 0)
        rc = get_neighbour(s, (rank + 1) % n_ranks, ring->right);
    s->n_rings++;
    ring->place = rank;
    return rc;
}

int session_ring(struct session *s, int rank, int n_ranks, const char *value, struct ring *ring)
{
    struct pmiwire_event ev;
    int rc;

    if (!has_ring(s))
        return ring_of_pairs(s, rank, n_ranks, value, ring);
    rc = pmiwire_client_ring(session_ready(s), pmiwire_strz(value), SESSION_ASK);
    if (rc == 0)
        rc = session_wait(s, &ev);
    if (rc < 0)
        return rc;
    ring->place = ev.number;
    rc = copy_neighbour(ev.value, ring->left);
    return rc == 0 ? copy_neighbour(ev.value2, ring->right) : rc;
}

void session_close(struct session *s)
{
    table_close(&s->table);
    close_passed(s);
    pmiwire_client_destroy(s->client);
    s->client = NULL;
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A client session's life, and its bytes in and out. */
#include <errno.h>

#include "client_internal.h"

#define DEFAULT_FIELDS 256u
#define MIN_FIELDS     16u
#define MAX_FIELDS     (1u << 20)
#define MAX_MSG_BYTES  ((size_t)1 << 30)
#define ALIGN          16u

static size_t align_up(size_t n)
{
    return (n + (ALIGN - 1)) & ~(size_t)(ALIGN - 1);
}

/* Copies the options and fills in the defaults. */
static int client_opts_take(struct pmiwire_client_opts *o, const struct pmiwire_client_opts *from)
{
    if (!from || pmiwire__opts_take(o, from, sizeof(*o)) != 0)
        return -EINVAL;
    if (o->wire == 0)
        o->wire = PMIWIRE_V1;
    if (o->max_msg_bytes == 0)
        o->max_msg_bytes = PMIWIRE_DEFAULT_MAX_MSG_BYTES;
    if (o->max_fields == 0)
        o->max_fields = DEFAULT_FIELDS;
    if (o->max_subversion == 0)
        o->max_subversion = 1;
    if (!o->server)
        o->server = pmiwire_profile_find("any-server");
    return 0;
}

static int client_opts_check(const struct pmiwire_client_opts *o)
{
    const uint32_t speaks = o->wire == PMIWIRE_V2 ? PMIWIRE_PEER_V2 : PMIWIRE_PEER_V1;
    const size_t jobid = o->jobid ? strlen(o->jobid) : 0;

    if ((o->wire != PMIWIRE_V1 && o->wire != PMIWIRE_V2) ||
        (o->flags &
         ~(PMIWIRE_CLIENT_PIPELINE | PMIWIRE_CLIENT_EXTENSIONS | PMIWIRE_CLIENT_PIPELINE_KNOWN)) ||
        o->reserved || o->max_subversion > INT32_MAX)
        return -EINVAL;
    if (o->max_fields < MIN_FIELDS || o->max_fields > MAX_FIELDS ||
        o->max_msg_bytes > MAX_MSG_BYTES || o->max_msg_bytes < PMIWIRE__MIN_MSG_BYTES ||
        jobid > o->max_msg_bytes - PMIWIRE__MIN_MSG_BYTES)
        return -EINVAL;
    if (!(o->server->flags & speaks))
        return -EINVAL;
    /* Without the wire's rank the caller must give it. */
    if (o->wire == PMIWIRE_V1 && !o->has_pmiid && (o->rank < 0 || o->rank >= o->n_ranks))
        return -EINVAL;
    if (o->has_pmiid && o->pmiid < 0)
        return -EINVAL;
    return 0;
}

/* Returns room for an incomplete answer of the longest size, and for one more read. */
static size_t in_bytes(const struct pmiwire_client_opts *o)
{
    return 2 * o->max_msg_bytes;
}

static size_t session_bytes(const struct pmiwire_client_opts *o)
{
    return align_up(sizeof(struct pmiwire_client)) +
           align_up(o->max_fields * sizeof(struct pmiwire_field)) + align_up(in_bytes(o)) +
           2 * align_up(o->max_msg_bytes) + (o->jobid ? align_up(strlen(o->jobid) + 1) : 0);
}

static void *take_bytes(char **next, size_t bytes)
{
    char *p = *next;

    *next += align_up(bytes);
    return p;
}

/* Lays a session out in memory of session_bytes() bytes. */
static struct pmiwire_client *session_init(void *mem, const struct pmiwire_client_opts *o)
{
    char *next = mem;
    struct pmiwire_client *c = take_bytes(&next, sizeof(*c));
    uint32_t decode_flags = 0;

    memset(c, 0, sizeof(*c));
    c->msg.fields = take_bytes(&next, o->max_fields * sizeof(struct pmiwire_field));
    c->msg.cap_fields = o->max_fields;
    c->cap_in = in_bytes(o);
    c->in = take_bytes(&next, c->cap_in);
    c->out = take_bytes(&next, o->max_msg_bytes);
    c->scratch = take_bytes(&next, o->max_msg_bytes);
    if (o->jobid) {
        c->jobid = take_bytes(&next, strlen(o->jobid) + 1);
        strcpy(c->jobid, o->jobid);
    }
    c->wire = o->wire;
    c->flags = o->flags;
    c->has_pmiid = o->has_pmiid != 0;
    c->pmiid = o->pmiid;
    c->max_subversion = o->max_subversion;
    c->threaded = o->threaded;
    c->max_msg_bytes = o->max_msg_bytes;
    c->server = *o->server;
    c->info.rank = o->rank;
    c->info.n_ranks = o->n_ranks;
    c->info.appnum = -1;
    /* A server that accepts blanks in values sends them back unescaped. */
    if (c->server.flags & PMIWIRE_PEER_SPACES)
        decode_flags = PMIWIRE_DECODE_VALUE_TO_EOL;
    pmiwire_decoder_init(&c->decoder, o->max_msg_bytes, decode_flags);
    return c;
}

int pmiwire_client_create(const struct pmiwire_client_opts *opts, struct pmiwire_client **out)
{
    struct pmiwire_allocator a;
    struct pmiwire_client_opts o;
    struct pmiwire_client *c;
    void *mem;
    int rc;

    if (!out || client_opts_take(&o, opts) || client_opts_check(&o) ||
        pmiwire__allocator_take(&a, o.allocator))
        return -EINVAL;
    mem = a.realloc(a.ctx, NULL, session_bytes(&o));
    if (!mem)
        return -ENOMEM;
    c = session_init(mem, &o);
    c->allocator = a;
    rc = pmiwire__client_start(c);
    if (rc < 0) {
        pmiwire_client_destroy(c);
        return rc;
    }
    *out = c;
    return 0;
}

void pmiwire_client_destroy(struct pmiwire_client *c)
{
    if (c)
        c->allocator.free(c->allocator.ctx, c);
}

/* ---- bytes out ---- */

void pmiwire__client_encode(struct pmiwire_client *c, struct pmiwire_encoder *e, uint16_t cmd)
{
    if (c->out_head) {
        memmove(c->out, c->out + c->out_head, c->out_tail - c->out_head);
        c->out_tail -= c->out_head;
        c->out_head = 0;
    }
    pmiwire_enc_begin(e, c->out + c->out_tail, c->max_msg_bytes - c->out_tail, cmd, &c->server);
    e->can_bytes = c->has_bytes != 0;
}

int pmiwire__client_encoded(struct pmiwire_client *c, struct pmiwire_encoder *e)
{
    ssize_t n = pmiwire_enc_end(e, NULL);

    if (n == PMIWIRE_ENOBUF)
        return c->out_tail > c->out_head ? -EAGAIN : PMIWIRE_ETOOBIG;
    if (n < 0)
        return (int)n;
    c->out_tail += (size_t)n;
    return 0;
}

/* End of the last request that fits into the window after the oldest one. Whole requests only:
 * after an incomplete message a server thinks that the client hangs. */
static uint64_t window_end(struct pmiwire_client *c)
{
    const uint64_t oldest = pmiwire__pending_at(c, 0)->end;
    uint64_t end = oldest;

    for (uint32_t i = 1; i < c->n_pending; i++) {
        uint64_t next = pmiwire__pending_at(c, i)->end;

        if (next > end && next - oldest <= c->max_msg_bytes)
            end = next;
    }
    return end;
}

/* Position in the stream up to which bytes may be sent now. */
static uint64_t send_limit(struct pmiwire_client *c)
{
    uint64_t end;

    if (c->n_pending == 0)
        return pmiwire__queued(c);
    end = c->flags & PMIWIRE_CLIENT_PIPELINE ? window_end(c) : pmiwire__pending_at(c, 0)->end;
    return end > c->abort_end ? end : c->abort_end;
}

size_t pmiwire_client_output(struct pmiwire_client *c, const void **data)
{
    uint64_t end = send_limit(c);

    *data = c->out + c->out_head;
    return c->dead || c->state == PMIWIRE__OVER || end < c->sent ? 0 : (size_t)(end - c->sent);
}

void pmiwire_client_sent(struct pmiwire_client *c, size_t n)
{
    const void *data;
    size_t most = pmiwire_client_output(c, &data);

    if (n > most)
        n = most;
    c->out_head += n;
    c->sent += n;
}

/* ---- bytes in ---- */

int pmiwire_client_input(struct pmiwire_client *c, const void *data, size_t n)
{
    if (c->dead)
        return c->dead;
    if (c->state == PMIWIRE__OVER)
        return PMIWIRE_ESTATE;
    if (c->eof)
        return n ? PMIWIRE_ESTATE : 0;
    c->in_head += c->shown;
    c->shown = 0;
    if (n > c->cap_in - c->in_tail && c->in_head) {
        memmove(c->in, c->in + c->in_head, c->in_tail - c->in_head);
        c->in_tail -= c->in_head;
        c->in_head = 0;
    }
    if (n > c->cap_in - c->in_tail) {
        pmiwire__client_fail(c, PMIWIRE_ETOOBIG);
        return c->dead;
    }
    if (n)
        memcpy(c->in + c->in_tail, data, n);
    c->in_tail += n;
    return 0;
}

void pmiwire_client_eof(struct pmiwire_client *c)
{
    c->eof = 1;
}

/* ---- the server's answers at init ---- */

void pmiwire_client_query(const struct pmiwire_client *c, struct pmiwire_info_client *info)
{
    if (c->state == PMIWIRE__STARTING)
        memset(info, 0, sizeof(*info));
    else
        *info = c->info;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe server's answers, written without the encoder, which refuses malformed ones. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

struct reply {
    char body[32768];
    size_t n;
    bool v2;
};

static void add_field(struct reply *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_field(struct reply *r, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(r->body + r->n, sizeof(r->body) - r->n, fmt, ap);
    va_end(ap);
    if (n > 0 && r->n + (size_t)n < sizeof(r->body) - 2) {
        r->n += (size_t)n;
        r->body[r->n++] = r->v2 ? ';' : ' ';
    }
}

static void open_reply(struct reply *r, bool v2, const char *cmd)
{
    r->n = 0;
    r->v2 = v2;
    add_field(r, "cmd=%s", cmd);
}

/* Adds the variation's fields at this place. */
static void add_extras(struct reply *r, const struct variation *v, unsigned place)
{
    static char text[16384];

    if (!(v->place & place))
        return;
    for (unsigned i = 0; i < v->n; i++) {
        switch (v->kind) {
        case X_PAIR: add_field(r, "x-probe%u=%u", i, i); break;
        case X_NO_EQUALS: add_field(r, "x-probe%u", i); break;
        case X_EMPTY: add_field(r, "x-probe%u=", i); break;
        case X_THRID: add_field(r, "thrid=0x1234"); break;
        case X_LONG:
            memset(text, 'x', sizeof(text));
            add_field(r, "x-probe%u=%.*s", i,
                      (int)(v->long_bytes < sizeof(text) ? v->long_bytes : sizeof(text)), text);
            break;
        }
    }
}

static void send_reply(struct job *j, int rank, struct reply *r)
{
    const struct variation *v = j->v;
    struct conn *c = &j->rank[rank].c;
    char out[32768 + 16];
    size_t len, step;

    if (v->delay_ms)
        sleep_ms(v->delay_ms);
    if (r->v2 && v->no_final)
        r->n--;
    if (!r->v2)
        r->body[r->n - 1] = '\n';
    len = frame(r->v2 ? PMIWIRE_V2 : PMIWIRE_V1, r->body, r->n, out, sizeof(out));
    if (r->v2 && v->pad_right) {
        char digits[24];

        snprintf(digits, sizeof(digits), "%-6u", (unsigned)r->n);
        memcpy(out, digits, 6);
    }
    step = v->split ? 1 : len;
    for (size_t i = 0; i < len; i += step)
        if (conn_send(c, out + i, step, 2000, NULL) == -ETIMEDOUT) {
            j->trouble = "the client does not read";
            return;
        }
}

/* ---- pairs ---- */

static char *copy_str(struct pmiwire_str s)
{
    char *p = malloc(s.len + 1);

    if (p) {
        if (s.len)
            memcpy(p, s.ptr, s.len);
        p[s.len] = '\0';
    }
    return p;
}

static const char *find_pair(const struct job *j, char space, struct pmiwire_str key)
{
    for (int i = j->n_pairs - 1; i >= 0; i--) {
        const char *k = j->pair[i].key;

        if (k && k[0] == space && strlen(k + 1) == key.len && memcmp(k + 1, key.ptr, key.len) == 0)
            return j->pair[i].value;
    }
    return NULL;
}

/* `space` keeps pairs 'k', node attributes 'n' and published names 'p' apart. */
static int store_pair(struct job *j, char space, struct pmiwire_str key, struct pmiwire_str value)
{
    char *k, *v;

    if (!key.len || !value.ptr || j->n_pairs == MAX_PAIRS)
        return 1;
    k = malloc(key.len + 2);
    v = copy_str(value);
    if (!k || !v) {
        free(k);
        free(v);
        return 1;
    }
    k[0] = space;
    memcpy(k + 1, key.ptr, key.len);
    k[key.len + 1] = '\0';
    j->pair[j->n_pairs].key = k;
    j->pair[j->n_pairs++].value = v;
    return 0;
}

static int withdraw_name(struct job *j, struct pmiwire_str key)
{
    int n = 0;

    for (int i = 0; i < j->n_pairs; i++) {
        char *k = j->pair[i].key;

        if (k[0] == 'p' && strlen(k + 1) == key.len && memcmp(k + 1, key.ptr, key.len) == 0) {
            k[0] = '-';
            n++;
        }
    }
    return n ? 0 : 1;
}

void job_reset(struct job *j)
{
    for (int i = 0; i < j->n_pairs; i++) {
        free(j->pair[i].key);
        free(j->pair[i].value);
    }
    for (int i = 0; i < j->n; i++)
        conn_close(&j->rank[i].c);
    memset(j, 0, sizeof(*j));
}

static const char *process_mapping(const struct job *j, char *out, size_t cap)
{
    const char *m = j->v->mapping;
    size_t n, want;

    if (m && strcmp(m, "-") == 0)
        return NULL;
    if (m && strcmp(m, "compact") == 0)
        m = "(vector,[0]x64)";
    if (m && strncmp(m, "long:", 5) == 0) {
        want = (size_t)atoi(m + 5);
        n = (size_t)snprintf(out, cap, "(vector");
        for (unsigned i = 0; n + 20 < cap && n + 11 < want; i++)
            n += (size_t)snprintf(out + n, cap - n, ",(%u,1,%d)", i % 100, i ? 1 : j->n);
        snprintf(out + n, cap - n, ")");
        return out;
    }
    if (m)
        return m;
    snprintf(out, cap, "(vector,(0,1,%d))", j->n);
    return out;
}

static const char *lookup_pair(const struct job *j, char space, struct pmiwire_str key, char *out,
                               size_t cap)
{
    if (space != 'p' && str_is(key, "PMI_process_mapping"))
        return process_mapping(j, out, cap);
    if (space == 'j' && str_is(key, "universeSize")) {
        snprintf(out, cap, "%d", j->n);
        return out;
    }
    return find_pair(j, space, key);
}

/* ---- answers ---- */

static struct pmiwire_str field_value(const struct pmiwire_msg *m, uint16_t id)
{
    struct pmiwire_str s = {NULL, 0};

    pmiwire_msg_str(m, id, &s);
    return s;
}

static void add_rc(struct job *j, struct reply *r, int code, bool last)
{
    if (!j->v->no_rc && last == j->v->rc_last)
        add_field(r, "rc=%d", code);
}

static void reply_rc(struct job *j, int rank, bool v2, const char *cmd, int code)
{
    static struct reply r;

    open_reply(&r, v2, cmd);
    add_rc(j, &r, code, false);
    add_rc(j, &r, code, true);
    send_reply(j, rank, &r);
}

static void reply_value(struct job *j, int rank, bool v2, const char *cmd, const char *value,
                        unsigned places)
{
    static struct reply r;

    open_reply(&r, v2, cmd);
    add_rc(j, &r, value || v2 ? 0 : 1, false);
    if (v2)
        add_field(&r, "found=%s", value ? "TRUE" : "FALSE");
    add_extras(&r, j->v, places & AT_GET);
    if (value)
        add_field(&r, "value=%s", value);
    add_rc(j, &r, value || v2 ? 0 : 1, true);
    add_extras(&r, j->v, places & AT_GET_TAIL);
    send_reply(j, rank, &r);
}

static void fence_in(struct job *j, int rank, bool v2)
{
    static struct reply r;

    j->rank[rank].in_fence = true;
    for (int i = 0; i < j->n; i++)
        if (!j->rank[i].in_fence)
            return;
    for (int i = 0; i < j->n; i++) {
        j->rank[i].in_fence = false;
        open_reply(&r, v2, v2 ? "kvs-fence-response" : "barrier_out");
        add_rc(j, &r, 0, false);
        add_extras(&r, j->v, AT_FENCE);
        add_rc(j, &r, 0, true);
        send_reply(j, i, &r);
    }
}

static void serve_init(struct job *j, int rank, const struct pmiwire_msg *m)
{
    static struct reply r;
    int32_t version = 1, sub = 1;

    pmiwire_msg_int(m, PMIWIRE_F_PMI_VERSION, &version);
    pmiwire_msg_int(m, PMIWIRE_F_PMI_SUBVERSION, &sub);
    open_reply(&r, false, "response_to_init");
    add_rc(j, &r, 0, false);
    add_field(&r, "pmi_version=%d pmi_subversion=%d", version,
              version == 1 && j->v->subversion ? j->v->subversion : sub);
    add_extras(&r, j->v, AT_INIT);
    add_rc(j, &r, 0, true);
    send_reply(j, rank, &r);
}

static void serve_maxes(struct job *j, int rank)
{
    static struct reply r;
    const struct variation *v = j->v;

    open_reply(&r, false, "maxes");
    add_extras(&r, v, AT_MAXES);
    add_field(&r, "kvsname_max=%d keylen_max=%d vallen_max=%d",
              v->kvsname_max ? v->kvsname_max : 256, v->keylen_max ? v->keylen_max : 64,
              v->vallen_max ? v->vallen_max : 1024);
    send_reply(j, rank, &r);
}

static void serve_v1(struct job *j, int rank, const struct pmiwire_msg *m)
{
    static struct reply r;
    char text[16384];
    const char *value;

    open_reply(&r, false, "?");
    switch (m->id) {
    case PMIWIRE_V1_INIT: serve_init(j, rank, m); break;
    case PMIWIRE_V1_GET_MAXES: serve_maxes(j, rank); break;
    case PMIWIRE_V1_GET_APPNUM:
        open_reply(&r, false, "appnum");
        add_field(&r, "appnum=0");
        send_reply(j, rank, &r);
        break;
    case PMIWIRE_V1_GET_UNIVERSE_SIZE:
        open_reply(&r, false, "universe_size");
        add_field(&r, "size=%d", j->n);
        send_reply(j, rank, &r);
        break;
    case PMIWIRE_V1_GET_MY_KVSNAME:
        open_reply(&r, false, "my_kvsname");
        add_field(&r, "kvsname=kvs_probe_0");
        send_reply(j, rank, &r);
        break;
    case PMIWIRE_V1_PUT:
        reply_rc(
            j, rank, false, "put_result",
            store_pair(j, 'k', field_value(m, PMIWIRE_F_KEY), field_value(m, PMIWIRE_F_VALUE)));
        break;
    case PMIWIRE_V1_GET:
        reply_value(j, rank, false, "get_result",
                    lookup_pair(j, 'k', field_value(m, PMIWIRE_F_KEY), text, sizeof(text)),
                    AT_GET | AT_GET_TAIL);
        break;
    case PMIWIRE_V1_BARRIER_IN: fence_in(j, rank, false); break;
    case PMIWIRE_V1_PUBLISH_NAME:
        reply_rc(
            j, rank, false, "publish_result",
            store_pair(j, 'p', field_value(m, PMIWIRE_F_SERVICE), field_value(m, PMIWIRE_F_PORT)));
        break;
    case PMIWIRE_V1_UNPUBLISH_NAME:
        reply_rc(j, rank, false, "unpublish_result",
                 withdraw_name(j, field_value(m, PMIWIRE_F_SERVICE)));
        break;
    case PMIWIRE_V1_LOOKUP_NAME:
        value = find_pair(j, 'p', field_value(m, PMIWIRE_F_SERVICE));
        open_reply(&r, false, "lookup_result");
        add_rc(j, &r, value ? 0 : 1, false);
        if (value)
            add_field(&r, "port=%s", value);
        add_rc(j, &r, value ? 0 : 1, true);
        send_reply(j, rank, &r);
        break;
    case PMIWIRE_V1_SPAWN: reply_rc(j, rank, false, "spawn_result", 1); break;
    case PMIWIRE_V1_ABORT: j->aborted = true; break;
    case PMIWIRE_V1_FINALIZE:
        j->rank[rank].finalized = true;
        reply_rc(j, rank, false, "finalize_ack", 0);
        break;
    default: j->trouble = "a command that this probe does not know"; break;
    }
}

static void serve_fullinit(struct job *j, int rank)
{
    static struct reply r;

    open_reply(&r, true, "fullinit-response");
    add_rc(j, &r, 0, false);
    add_field(&r, "pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0", rank, j->n);
    add_extras(&r, j->v, AT_FULLINIT);
    add_field(&r,
              j->v->verbose_number ? "debugged=0;pmiverbose=0" : "debugged=FALSE;pmiverbose=FALSE");
    add_rc(j, &r, 0, true);
    send_reply(j, rank, &r);
}

static void serve_v2(struct job *j, int rank, const struct pmiwire_msg *m)
{
    static struct reply r;
    struct pmiwire_str key = field_value(m, PMIWIRE_F_KEY), value = field_value(m, PMIWIRE_F_VALUE);
    char text[16384], name[64];
    const char *port;

    switch (m->id) {
    case PMIWIRE_V2_FULLINIT: serve_fullinit(j, rank); break;
    case PMIWIRE_V2_JOB_GETID:
        open_reply(&r, true, "job-getid-response");
        add_rc(j, &r, 0, false);
        add_field(&r, "jobid=kvs_probe_0");
        add_rc(j, &r, 0, true);
        send_reply(j, rank, &r);
        break;
    case PMIWIRE_V2_KVS_PUT:
        reply_rc(j, rank, true, "kvs-put-response", store_pair(j, 'k', key, value));
        break;
    case PMIWIRE_V2_KVS_GET:
        reply_value(j, rank, true, "kvs-get-response", lookup_pair(j, 'k', key, text, sizeof(text)),
                    AT_GET | AT_GET_TAIL);
        break;
    case PMIWIRE_V2_KVS_FENCE: fence_in(j, rank, true); break;
    case PMIWIRE_V2_INFO_GETJOBATTR:
        reply_value(j, rank, true, "info-getjobattr-response",
                    lookup_pair(j, 'j', key, text, sizeof(text)), 0);
        break;
    case PMIWIRE_V2_INFO_GETNODEATTR:
        reply_value(j, rank, true, "info-getnodeattr-response",
                    lookup_pair(j, 'n', key, text, sizeof(text)), 0);
        break;
    case PMIWIRE_V2_INFO_PUTNODEATTR:
        reply_rc(j, rank, true, "info-putnodeattr-response", store_pair(j, 'n', key, value));
        break;
    case PMIWIRE_V2_NAME_PUBLISH:
        reply_rc(
            j, rank, true, "name-publish-response",
            store_pair(j, 'p', field_value(m, PMIWIRE_F_NAME), field_value(m, PMIWIRE_F_PORT)));
        break;
    case PMIWIRE_V2_NAME_UNPUBLISH:
        reply_rc(j, rank, true, "name-unpublish-response",
                 withdraw_name(j, field_value(m, PMIWIRE_F_NAME)));
        break;
    case PMIWIRE_V2_NAME_LOOKUP:
        port = find_pair(j, 'p', field_value(m, PMIWIRE_F_NAME));
        open_reply(&r, true, "name-lookup-response");
        add_rc(j, &r, port ? 0 : 1, false);
        if (port)
            add_field(&r, "port=%s;value=%s;found=TRUE", port, port);
        add_rc(j, &r, port ? 0 : 1, true);
        send_reply(j, rank, &r);
        break;
    case PMIWIRE_V2_ABORT: j->aborted = true; break;
    case PMIWIRE_V2_FINALIZE:
        j->rank[rank].finalized = true;
        reply_rc(j, rank, true, "finalize-response", 0);
        break;
    default: /* ring, spawn, job-connect: refused in form */
        snprintf(name, sizeof(name), "%.*s-response", (int)(m->cmd.len < 40 ? m->cmd.len : 40),
                 m->cmd.ptr);
        reply_rc(j, rank, true, name, 1);
        break;
    }
}

void serve_message(struct job *j, int r)
{
    const struct pmiwire_msg *m = &j->rank[r].c.msg;

    j->n_commands++;
    if (j->refused.code == 0 && m->id != 0)
        pmiwire_msg_check(m, 0, &j->refused);
    printable(m->cmd.ptr, m->cmd.len, j->last, sizeof(j->last));
    if (m->wire == PMIWIRE_V2 || m->id == PMIWIRE_V1_INIT) {
        int32_t version = 2;

        pmiwire_msg_int(m, PMIWIRE_F_PMI_VERSION, &version);
        j->wires |= version == 2 ? WIRE_2 : WIRE_1;
    }
    if (m->wire == PMIWIRE_V2)
        serve_v2(j, r, m);
    else
        serve_v1(j, r, m);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded conversations: `play FILE` sends the client's side to a server, `replay` the server's
 * side to a client.
 *
 * A transcript is text, one record a line: `C "bytes"` came from the client, `S "bytes"` from the
 * server, with \n, \t, \r, \", \\ and \xHH; lines that begin with # are comments. Consecutive
 * records of one side are one stream.
 *
 * Bytes differ from run to run, so messages are compared: the name of the command, and the recorded
 * fields that do not depend on the run. NOT compared are the values of rank, size, kvsname, jobid,
 * spawner-jobid, port, pmiid, msg, errmsg, appnum, ring-count and of the launcher's keys (PMI_...
 * and universeSize). A recorded value of * matches anything. Fields beyond the recorded ones are no
 * difference.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

struct block {
    char who; /* 'C' or 'S' */
    int line; /* where it begins */
    char *data;
    size_t len;
};

struct transcript {
    struct block *block;
    int n;
};

#define MAX_FILE_BYTES (16u << 20)

static int hex_digit(int c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Undoes the quoting of one record, in place. Returns its length, -1 if malformed. */
static ssize_t unquote_record(char *s)
{
    char *out = s, *start = s;

    if (*s++ != '"')
        return -1;
    for (; *s && *s != '"'; s++) {
        if (*s != '\\') {
            *out++ = *s;
            continue;
        }
        switch (*++s) {
        case 'n': *out++ = '\n'; break;
        case 't': *out++ = '\t'; break;
        case 'r': *out++ = '\r'; break;
        case '0': *out++ = '\0'; break;
        case '"': *out++ = '"'; break;
        case '\\': *out++ = '\\'; break;
        case 'x':
            if (hex_digit(s[1]) < 0 || hex_digit(s[2]) < 0)
                return -1;
            *out++ = (char)(hex_digit(s[1]) * 16 + hex_digit(s[2]));
            s += 2;
            break;
        default: return -1;
        }
    }
    return *s == '"' ? out - start : -1;
}

static bool append_record(struct transcript *t, char who, int line, const char *data, size_t len)
{
    struct block *b = t->n ? &t->block[t->n - 1] : NULL;
    char *more;

    if (!b || b->who != who) {
        struct block *grown = realloc(t->block, (size_t)(t->n + 1) * sizeof(*grown));

        if (!grown)
            return false;
        t->block = grown;
        b = &grown[t->n++];
        *b = (struct block){who, line, NULL, 0};
    }
    more = realloc(b->data, b->len + len + 1);
    if (!more)
        return false;
    b->data = more;
    memcpy(more + b->len, data, len);
    b->len += len;
    return true;
}

static void transcript_free(struct transcript *t)
{
    for (int i = 0; i < t->n; i++)
        free(t->block[i].data);
    free(t->block);
}

/* 0, or -1 with a message in err. */
static int transcript_read(struct transcript *t, const char *path, char *err, size_t cap)
{
    FILE *f = fopen(path, "re");
    char *line = NULL;
    size_t size = 0, total = 0;
    int n = 0, rc = 0;

    memset(t, 0, sizeof(*t));
    if (!f) {
        snprintf(err, cap, "%s: %s", path, strerror(errno));
        return -1;
    }
    while (rc == 0 && getline(&line, &size, f) > 0) {
        ssize_t len;

        n++;
        total += strlen(line);
        if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0')
            continue;
        len = (line[0] == 'C' || line[0] == 'S') && line[1] == ' ' ? unquote_record(line + 2) : -1;
        if (len < 0 || total > MAX_FILE_BYTES) {
            snprintf(err, cap, "%s:%d: neither C \"bytes\" nor S \"bytes\"", path, n);
            rc = -1;
        } else if (!append_record(t, line[0], n, line + 2, (size_t)len)) {
            snprintf(err, cap, "out of memory");
            rc = -1;
        }
    }
    free(line);
    fclose(f);
    if (rc == 0 && t->n == 0) {
        snprintf(err, cap, "%s: no records", path);
        rc = -1;
    }
    return rc;
}

static bool value_varies(uint16_t id)
{
    static const uint16_t ids[] = {
        PMIWIRE_F_RANK,          PMIWIRE_F_SIZE,   PMIWIRE_F_KVSNAME,  PMIWIRE_F_JOBID,
        PMIWIRE_F_SPAWNER_JOBID, PMIWIRE_F_PORT,   PMIWIRE_F_PMIID,    PMIWIRE_F_MSG,
        PMIWIRE_F_ERRMSG,        PMIWIRE_F_APPNUM, PMIWIRE_F_PMIJOBID, PMIWIRE_F_RING_COUNT,
        PMIWIRE_F_PMIRANK,
    };

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* The first difference, in words; NULL: none. */
static const char *find_difference(const struct pmiwire_msg *want, const struct pmiwire_msg *got,
                                   bool any_value)
{
    static char text[200];

    if (want->cmd.len != got->cmd.len || memcmp(want->cmd.ptr, got->cmd.ptr, want->cmd.len) != 0) {
        snprintf(text, sizeof(text), "another command than %.*s", (int)want->cmd.len,
                 want->cmd.ptr);
        return text;
    }
    for (uint32_t i = 0; i < want->n_fields; i++) {
        const struct pmiwire_field *a = &want->fields[i], *b = NULL;
        bool same;

        for (uint32_t k = 0; k < got->n_fields && !b; k++)
            if (got->fields[k].key.len == a->key.len &&
                memcmp(got->fields[k].key.ptr, a->key.ptr, a->key.len) == 0)
                b = &got->fields[k];
        if (!b && (a->id == PMIWIRE_F_MSG || a->id == PMIWIRE_F_ERRMSG || a->id == PMIWIRE_F_RC))
            continue;
        if (!b) {
            snprintf(text, sizeof(text), "field %.*s is missing", (int)a->key.len, a->key.ptr);
            return text;
        }
        same =
            str_is(a->value, "*") || value_varies(a->id) ||
            (any_value && a->id == PMIWIRE_F_VALUE) ||
            (a->value.len == b->value.len && memcmp(a->value.ptr, b->value.ptr, a->value.len) == 0);
        if (!same) {
            snprintf(text, sizeof(text), "field %.*s is not as recorded", (int)a->key.len,
                     a->key.ptr);
            return text;
        }
    }
    return NULL;
}

/* A recorded stream, message by message. */
struct reader {
    const char *at;
    size_t left;
    struct pmiwire_decoder dec;
    struct pmiwire_msg msg;
    struct pmiwire_field fields[CONN_FIELDS];
};

static void reader_open(struct reader *r, const struct block *b)
{
    r->at = b->data;
    r->left = b->len;
    r->msg.fields = r->fields;
    r->msg.cap_fields = CONN_FIELDS;
}

/* The length of the next message; 0 at the end, or if the rest is no whole message. */
static size_t reader_next(struct reader *r)
{
    ssize_t n;

    pmiwire_decoder_init(&r->dec, MAX_FILE_BYTES, 0);
    n = pmiwire_decode(&r->dec, r->at, r->left, &r->msg);
    if (n <= 0)
        return 0;
    r->at += n;
    r->left -= (size_t)n;
    return (size_t)n;
}

/* Does a request ask for a value of the launcher's own? */
static bool launcher_key(const struct pmiwire_msg *m)
{
    struct pmiwire_str key = {NULL, 0};

    pmiwire_msg_str(m, PMIWIRE_F_KEY, &key);
    return (key.len > 4 && memcmp(key.ptr, "PMI_", 4) == 0) || str_is(key, "universeSize");
}

/* Sends a recorded message, with our key-value space's name in place of the recorded one's. */
static void say_renamed(struct play *p, const char *data, size_t len, int wire, const char *old)
{
    static char out[131072];
    size_t n = 0, skip = wire == PMIWIRE_V2 ? 6 : 0, n_old = strlen(old),
           n_new = strlen(p->kvsname);

    if (!n_old || !n_new || len > sizeof(out) / 2) {
        say_raw(p, data, len);
        return;
    }
    for (size_t i = skip; i < len && n + n_new + 8 < sizeof(out);) {
        if (len - i >= n_old && memcmp(data + i, old, n_old) == 0) {
            memcpy(out + n, p->kvsname, n_new);
            n += n_new;
            i += n_old;
        } else {
            out[n++] = data[i++];
        }
    }
    say_raw(p, out, frame(wire == PMIWIRE_V2 ? PMIWIRE_V2 : PMIWIRE_V1, out, n, out, sizeof(out)));
}

static void take_name(struct pmiwire_str s, char *out, size_t cap)
{
    if (s.len && s.len < cap) {
        memcpy(out, s.ptr, s.len);
        out[s.len] = '\0';
    }
}

static struct pmiwire_str name_in(const struct pmiwire_msg *m)
{
    struct pmiwire_str s = {NULL, 0};

    if (m->id == PMIWIRE_V1_MY_KVSNAME)
        pmiwire_msg_str(m, PMIWIRE_F_KVSNAME, &s);
    else if (m->id == PMIWIRE_V2_JOB_GETID_RESPONSE)
        pmiwire_msg_str(m, PMIWIRE_F_JOBID, &s);
    return s;
}

void transcript_play(struct play *p, const char *path)
{
    char name[4096], err[4200], old[512] = "";
    const char *mark = strstr(path, "{rank}");
    static struct reader r;
    struct transcript t;
    bool any_value[64] = {false};
    unsigned asked = 0, answered = 0;

    if (mark)
        snprintf(name, sizeof(name), "%.*s%d%s", (int)(mark - path), path, p->rank, mark + 6);
    else
        snprintf(name, sizeof(name), "%s", path);
    if (transcript_read(&t, name, err, sizeof(err)) < 0)
        finish(p, V_NONE, "%.500s", err);
    for (int i = 0; i < t.n; i++) {
        const struct block *b = &t.block[i];
        const char *at = b->data;
        size_t n;

        reader_open(&r, b);
        while ((n = reader_next(&r))) {
            const char *diff;

            if (b->who == 'C') {
                any_value[asked++ % 64] = launcher_key(&r.msg);
                say_renamed(p, at, n, r.msg.wire, old);
            } else {
                hear(p);
                take_name(name_in(&r.msg), old, sizeof(old));
                take_name(name_in(&p->c.msg), p->kvsname, sizeof(p->kvsname));
                diff = find_difference(&r.msg, &p->c.msg, any_value[answered++ % 64]);
                if (diff)
                    finish(p, V_WRONG, "%s:%d: %s: %s", name, b->line, diff, p->text);
            }
            at += n;
        }
        if (b->who == 'C' && r.left) /* not a message: sent as it is */
            say_raw(p, r.at, r.left);
    }
    transcript_free(&t);
    finish(p, V_OK, "%u messages said, %u replies as recorded", asked, answered);
}

/* ---- replay: we are the server ---- */

static int serve_recorded(const struct transcript *t, struct conn *c, const char *path,
                          int timeout_ms)
{
    static struct reader r;
    char text[160];

    for (int i = 0; i < t->n; i++) {
        const struct block *b = &t->block[i];

        if (b->who == 'S') {
            if (conn_send(c, b->data, b->len, timeout_ms, NULL) < 0) {
                printf("%s:%d: the client does not read\n", path, b->line);
                return 1;
            }
            continue;
        }
        reader_open(&r, b);
        while (reader_next(&r)) {
            enum got g = conn_recv(c, timeout_ms);
            const char *diff;

            if (g != GOT_MSG) {
                printf("%s:%d: %.*s expected, %s\n", path, b->line, (int)r.msg.cmd.len,
                       r.msg.cmd.ptr,
                       g == GOT_TIMEOUT  ? "nothing came"
                       : g == GOT_CLOSED ? "the client has closed"
                                         : pmiwire_strerror(c->error));
                return 1;
            }
            diff = find_difference(&r.msg, &c->msg, true);
            if (diff) {
                printf("%s:%d: %s: %s\n", path, b->line, diff,
                       printable(c->buf, c->used, text, sizeof(text)));
                return 1;
            }
        }
    }
    return 0;
}

int replay_main(int argc, char **argv)
{
    const char *env[] = {NULL, NULL, NULL, "PMI_PORT", "PMI_ID", "PMI_SPAWNED", NULL};
    char **prog = argv + 2, err[4200], fd[32];
    static struct conn c;
    struct transcript t;
    int pair[2], rc, status = 0;
    bool ended = false;
    pid_t pid;

    if (argc > 2 && strcmp(argv[2], "--") == 0)
        prog++;
    if (argc < 3 || !*prog) {
        fprintf(stderr, "usage: pmiprobe replay FILE -- PROG ARGS...\n");
        return 2;
    }
    if (transcript_read(&t, argv[1], err, sizeof(err)) < 0) {
        fprintf(stderr, "pmiprobe: %s\n", err);
        transcript_free(&t);
        return 2;
    }
    proc_setup();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
        conn_open(&c, pair[0], false) < 0) {
        perror("pmiprobe: cannot make a connection");
        return 3;
    }
    snprintf(fd, sizeof(fd), "PMI_FD=%d", pair[1]);
    env[0] = fd;
    env[1] = getenv("PMI_RANK") ? "PMI_DEBUG_UNUSED"
                                : "PMI_RANK=0"; /* a caller's own rank and size stay */
    env[2] = getenv("PMI_SIZE") ? "PMI_DEBUG_UNUSED" : "PMI_SIZE=1";
    pid = proc_start(prog, env, -1, pair[1]);
    close(pair[1]);
    rc = pid > 0 ? serve_recorded(&t, &c, argv[1], 5000) : 3;
    for (int64_t end = now_ms() + (rc ? 200 : 5000);
         pid > 0 && !ended && now_ms() < end && !probe_stopped; sleep_ms(5))
        ended = waitpid(pid, &status, WNOHANG) == pid;
    if (pid > 0)
        proc_end(pid, !ended, 200);
    if (!ended)
        printf("the client did not end\n");
    else if (WIFSIGNALED(status))
        printf("the client died of signal %d\n", WTERMSIG(status));
    else
        printf("the client's status is %d\n", WEXITSTATUS(status));
    transcript_free(&t);
    conn_close(&c);
    return rc || !ended || status ? 1 : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The process under the launcher: sends one case's messages and reports the replies. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "probe.h"

static const char *const verdict_names[V_COUNT] = {
    "none",    "ok",          "not offered", "accepted",   "error reply", "closed",
    "delayed", "wrong reply", "hang",        "job killed", "crash"};

const char *verdict_name(enum verdict v)
{
    return v < V_COUNT ? verdict_names[v] : "none";
}

int verdict_find(const char *name)
{
    for (int i = 0; i < V_COUNT; i++)
        if (strcmp(name, verdict_names[i]) == 0)
            return i;
    return V_NONE;
}

/* ---- the report: one file a rank, one line a fact, read by the probe while we run and after ----
 * */

static void report_path(const struct play *p, int rank, char *out, size_t cap)
{
    snprintf(out, cap, "%s.%d", p->report, rank);
}

void note(struct play *p, const char *word)
{
    char path[4096];
    int fd;

    if (!p->report)
        return;
    report_path(p, p->rank, path, sizeof(path));
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%s\n", word) < 0) { /* else the server gets the blame */
        fprintf(stderr, "pmiprobe: cannot report \"%s\": %s: %s\n", word, path, strerror(errno));
        exit(3);
    }
    close(fd);
}

bool wait_note(struct play *p, int rank, const char *word, int ms)
{
    char path[4096], line[512];
    int64_t end = now_ms() + ms;

    if (!p->report)
        return false;
    report_path(p, rank, path, sizeof(path));
    do {
        FILE *f = fopen(path, "re");
        bool found = false;

        while (f && !found && fgets(line, sizeof(line), f))
            found = strncmp(line, word, strlen(word)) == 0;
        if (f)
            fclose(f);
        if (found)
            return true;
        sleep_ms(10);
    } while (now_ms() < end);
    return false;
}

/* Finalizes if the server still answers; the verdict on a bad server is out already. */
static void send_finalize(struct play *p)
{
    size_t n;

    if (p->spoiled || p->c.closed || !p->begun)
        return;
    request_begin(p, PMIWIRE_V1_FINALIZE, PMIWIRE_V2_FINALIZE);
    n = (size_t)pmiwire_enc_end(&p->enc, NULL);
    if (conn_send(&p->c, p->out, n, 500, NULL) < 0)
        return;
    for (int i = 0; i < 8 && conn_recv(&p->c, 1000) == GOT_MSG; i++)
        if (p->c.msg.id == PMIWIRE_V1_FINALIZE_ACK || p->c.msg.id == PMIWIRE_V2_FINALIZE_RESPONSE)
            break;
}

void finish(struct play *p, enum verdict v, const char *fmt, ...)
{
    char line[700];
    va_list ap;
    int n;

    if (p->setup && v > V_OK && v < V_WRONG) /* would look like an answer to the case's message */
        v = V_WRONG;
    n = snprintf(line, sizeof(line), "verdict %d %s", (int)v, p->setup ? "in init: " : "");

    va_start(ap, fmt);
    vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
    va_end(ap);
    for (char *s = line; *s; s++)
        if ((unsigned char)*s < 32)
            *s = ' ';
    if (v == V_CLOSED) { /* does the whole job end, or only this rank? */
        note(p, "closed");
        sleep_ms(300);
    }
    if (p->report)
        note(p, line);
    else
        printf("rank %d: %s: %s\n", p->rank, verdict_name(v), strchr(line + 8, ' ') + 1);
    if (p->pc && (p->pc->flags & CASE_WITNESS) && p->rank == 0)
        wait_note(p, 1, "verdict", 2000);
    send_finalize(p);
    exit(p->report || v == V_OK ? 0 : 1);
}

/* ---- talking ---- */

size_t frame(int wire, const char *body, size_t len, char *out, size_t cap)
{
    size_t head = wire == PMIWIRE_V2 ? 6 : 0;
    char digits[24];

    if (len + head > cap)
        return 0;
    memmove(out + head, body, len);
    if (head) {
        snprintf(digits, sizeof(digits), "%6u", (unsigned)len);
        memcpy(out, digits, 6);
    }
    return len + head;
}

void say_raw(struct play *p, const void *data, size_t len)
{
    int rc = conn_send(&p->c, data, len, p->reply_ms, NULL);

    if (rc == -EPIPE) { /* a reply may still be waiting */
        p->c.closed = false;
        return;
    }
    if (rc < 0)
        finish(p, V_HANG, "the server does not read");
}

/* ---- requests as the protocol has them, built by the encoder ---- */

void request_begin(struct play *p, uint16_t v1, uint16_t v2)
{
    const uint16_t cmd = p->wire == PMIWIRE_V2 ? v2 : v1;

    p->reply = pmiwire_command_get(pmiwire_command_get(cmd)->reply);
    pmiwire_enc_begin(&p->enc, p->out, sizeof(p->out), cmd, NULL);
    p->enc.pad_right = p->pad_right;
}

size_t request_end(struct play *p)
{
    struct pmiwire_error err;
    ssize_t n = pmiwire_enc_end(&p->enc, &err);

    if (n < 0)
        finish(p, V_NONE, "cannot send this: %s", err.text);
    return (size_t)n;
}

void request_send(struct play *p)
{
    say_raw(p, p->out, request_end(p));
}

void request_call(struct play *p)
{
    const struct pmiwire_command_desc *reply = p->reply;

    request_send(p);
    hear_cmd(p, reply->name);
}

void request_plain(struct play *p, uint16_t v1, uint16_t v2)
{
    request_begin(p, v1, v2);
    request_call(p);
}

void request_text(struct play *p, uint16_t field, const char *value)
{
    pmiwire_enc_str(&p->enc, field, pmiwire_strz(value));
}

/* ---- answers ---- */

const struct pmiwire_msg *hear(struct play *p)
{
    struct conn *c = &p->c;
    char raw[120];

    switch (conn_recv(c, p->reply_ms)) {
    case GOT_MSG: printable(c->buf, c->used, p->text, sizeof(p->text)); return &c->msg;
    case GOT_CLOSED: finish(p, V_CLOSED, "connection closed");
    case GOT_TIMEOUT:
        p->spoiled = true;
        finish(p, V_HANG, "no reply in %.1f s", p->reply_ms / 1000.0);
    case GOT_BAD: break;
    }
    p->spoiled = true;
    finish(p, V_WRONG, "not in the protocol (%s): %s", pmiwire_strerror(c->error),
           printable(c->buf, c->used, raw, sizeof(raw)));
}

void hear_cmd(struct play *p, const char *cmd)
{
    const struct pmiwire_msg *m = hear(p);

    if (!str_is(m->cmd, cmd))
        finish(p, V_WRONG, "%s expected, got: %s", cmd, p->text);
}

struct pmiwire_str field_of(struct play *p, uint16_t id)
{
    struct pmiwire_str s = {NULL, 0};

    pmiwire_msg_str(&p->c.msg, id, &s);
    return s;
}

int number_of(struct play *p, uint16_t id, const char *name)
{
    int32_t v;

    if (pmiwire_msg_int(&p->c.msg, id, &v) < 0)
        finish(p, V_WRONG, "no number %s: %s", name, p->text);
    return v;
}

int rc_of(struct play *p)
{
    int32_t rc = 0;
    int e = pmiwire_msg_int(&p->c.msg, PMIWIRE_F_RC, &rc);

    if (e == PMIWIRE_ETYPE || (e < 0 && p->wire == PMIWIRE_V2))
        finish(p, V_WRONG, "no rc: %s", p->text);
    return rc;
}

void begin_version(struct play *p, int version, int subversion)
{
    request_begin(p, PMIWIRE_V1_INIT, PMIWIRE_V1_INIT);
    pmiwire_enc_int(&p->enc, PMIWIRE_F_PMI_VERSION, version);
    pmiwire_enc_int(&p->enc, PMIWIRE_F_PMI_SUBVERSION, subversion);
    request_call(p);
}

/* Slurm's server expects the PMI_JOBID that it has set; MPICH's clients never send it. */
void fullinit(struct play *p, bool with_jobid)
{
    const char *jobid = getenv("PMI_JOBID");

    request_begin(p, 0, PMIWIRE_V2_FULLINIT);
    if (jobid && with_jobid)
        request_text(p, PMIWIRE_F_PMIJOBID, jobid);
    pmiwire_enc_int(&p->enc, PMIWIRE_F_PMIRANK, p->rank);
    pmiwire_enc_int(&p->enc, PMIWIRE_F_THREADED, 0);
    request_call(p);
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "fullinit refused: %s", p->text);
    p->begun = true;
}

void begin(struct play *p)
{
    struct pmiwire_str s;

    p->setup = true;
    begin_version(p, p->wire == PMIWIRE_V2 ? 2 : 1, p->wire == PMIWIRE_V2 ? 0 : 1);
    if (number_of(p, PMIWIRE_F_RC, "rc") != 0)
        finish(p, V_ERROR, "init refused: %s", p->text);
    p->keylen_max = 64;
    p->vallen_max = 1024;
    if (p->wire == PMIWIRE_V2) {
        fullinit(p, true);
        p->setup = false;
        return;
    }
    p->begun = true;
    request_plain(p, PMIWIRE_V1_GET_MAXES, 0);
    p->kvsname_max = number_of(p, PMIWIRE_F_KVSNAME_MAX, "kvsname_max");
    p->keylen_max = number_of(p, PMIWIRE_F_KEYLEN_MAX, "keylen_max");
    p->vallen_max = number_of(p, PMIWIRE_F_VALLEN_MAX, "vallen_max");
    request_plain(p, PMIWIRE_V1_GET_MY_KVSNAME, 0);
    s = field_of(p, PMIWIRE_F_KVSNAME);
    if (!s.len || s.len >= sizeof(p->kvsname))
        finish(p, V_WRONG, "no kvsname: %s", p->text);
    memcpy(p->kvsname, s.ptr, s.len);
    p->kvsname[s.len] = '\0';
    p->setup = false;
}

void put_begin(struct play *p)
{
    request_begin(p, PMIWIRE_V1_PUT, PMIWIRE_V2_KVS_PUT);
    if (p->wire != PMIWIRE_V2)
        request_text(p, PMIWIRE_F_KVSNAME, p->kvsname);
}

int put(struct play *p, const char *key, const char *value, size_t len)
{
    put_begin(p);
    request_text(p, PMIWIRE_F_KEY, key);
    pmiwire_enc_str(&p->enc, PMIWIRE_F_VALUE, (struct pmiwire_str){value, len});
    request_call(p);
    return rc_of(p);
}

int put_as_is(struct play *p, const char *key, const char *value)
{
    char body[1000], message[1100];
    int n;

    if (p->wire == PMIWIRE_V2) {
        n = snprintf(body, sizeof(body), "cmd=kvs-put;key=%s;value=%s;", key, value);
        n = snprintf(message, sizeof(message), p->pad_right ? "%-6d%s" : "%6d%s", n, body);
    } else {
        n = snprintf(message, sizeof(message), "cmd=put kvsname=%s key=%s value=%s\n", p->kvsname,
                     key, value);
    }
    say_raw(p, message, (size_t)n);
    hear_cmd(p, p->wire == PMIWIRE_V2 ? "kvs-put-response" : "put_result");
    return rc_of(p);
}

void get_begin(struct play *p, const char *key)
{
    request_begin(p, PMIWIRE_V1_GET, PMIWIRE_V2_KVS_GET);
    if (p->wire != PMIWIRE_V2)
        request_text(p, PMIWIRE_F_KVSNAME, p->kvsname);
    request_text(p, PMIWIRE_F_KEY, key);
}

int get(struct play *p, const char *key, struct pmiwire_str *value)
{
    int found = 1;

    get_begin(p, key);
    request_call(p);
    pmiwire_msg_int(&p->c.msg, PMIWIRE_F_FOUND, &found);
    *value = field_of(p, PMIWIRE_F_VALUE);
    return rc_of(p) == 0 && found && value->ptr ? 0 : 1;
}

void fence_send(struct play *p)
{
    request_begin(p, PMIWIRE_V1_BARRIER_IN, PMIWIRE_V2_KVS_FENCE);
    request_send(p);
}

void fence(struct play *p)
{
    request_plain(p, PMIWIRE_V1_BARRIER_IN, PMIWIRE_V2_KVS_FENCE);
    if (rc_of(p) != 0)
        finish(p, V_ERROR, "fence refused: %s", p->text);
}

void put_ok(struct play *p, const char *key, const char *value)
{
    if (put(p, key, value, strlen(value)) != 0)
        finish(p, V_ERROR, "put refused: %s", p->text);
}

void get_is(struct play *p, const char *key, const char *value)
{
    struct pmiwire_str s;

    if (get(p, key, &s) != 0)
        finish(p, V_ERROR, "pair not found: %s", p->text);
    if (!str_is(s, value))
        finish(p, V_WRONG, "%s expected, got: %s", value, p->text);
}

void alive(struct play *p)
{
    request_plain(p, PMIWIRE_V1_GET_MAXES, PMIWIRE_V2_JOB_GETID);
}

void provoke(struct play *p, const void *data, size_t len)
{
    char first[sizeof(p->text)];

    say_raw(p, data, len);
    hear(p);
    memcpy(first, p->text, sizeof(first));
    if (p->c.msg.id == PMIWIRE_V1_FINALIZE_ACK || p->c.msg.id == PMIWIRE_V2_FINALIZE_RESPONSE) {
        p->spoiled = true;
        finish(p, V_WRONG, "taken for finalize: %s", first);
    }
    if (rc_of(p) == 0)
        finish(p, V_TAKEN, "%s", first);
    if (p->c.msg.id) /* is the connection still served? */
        alive(p);
    finish(p, V_ERROR, "%s", first);
}

/* Rank 1 of a job whose rank 0 misbehaves: puts and gets until rank 0 has its verdict, and once
 * after it. */
void witness(struct play *p)
{
    int64_t worst = 0;
    bool more = true;

    begin(p);
    note(p, "ready");
    for (int i = 0; i < 400 && more; i++) {
        int64_t start = now_ms();
        struct pmiwire_str s;

        more = !wait_note(p, 0, "verdict", 0);
        if (put(p, "witness", "there", 5) != 0)
            finish(p, V_ERROR, "put of the other rank refused: %s", p->text);
        get(p, "witness", &s); /* found or not: rank 0 cannot fence */
        if (now_ms() - start > worst)
            worst = now_ms() - start;
        sleep_ms(15);
    }
    if (worst > 500)
        finish(p, V_DELAYED, "a put and a get of the other rank took %d ms", (int)worst);
    finish(p, V_OK, "a put and a get of the other rank took at most %d ms", (int)worst);
}

/* ---- the command line ---- */

static const char *connect_port(struct play *p, const char *port)
{
    static char host[256];
    const char *colon = strrchr(port, ':'), *id = getenv("PMI_ID");
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    int fd = -1;

    if (!colon || (size_t)(colon - port) >= sizeof(host))
        return "PMI_PORT is not host:port";
    memcpy(host, port, (size_t)(colon - port));
    if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
        return "cannot resolve the host of PMI_PORT";
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0 || conn_open(&p->c, fd, true) < 0)
        return "cannot connect to PMI_PORT";
    if (!id)
        return "PMI_PORT without PMI_ID";
    request_begin(p, PMIWIRE_V1_INITACK, PMIWIRE_V1_INITACK);
    request_text(p, PMIWIRE_F_PMIID, id);
    request_call(p);
    for (int i = 0; i < 3; i++) {
        int32_t v;

        hear_cmd(p, "set");
        if (pmiwire_msg_int(&p->c.msg, PMIWIRE_F_RANK, &v) == 0)
            p->rank = v;
        if (pmiwire_msg_int(&p->c.msg, PMIWIRE_F_SIZE, &v) == 0)
            p->size = v;
    }
    return NULL;
}

const char *play_connect(struct play *p)
{
    const char *fd = getenv("PMI_FD"), *port = getenv("PMI_PORT");
    const char *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");

    p->rank = rank ? atoi(rank) : 0;
    p->size = size ? atoi(size) : 1;
    if (!fd && port)
        return connect_port(p, port);
    if (!fd || !isdigit((unsigned char)fd[0]))
        return "no PMI_FD and no PMI_PORT: this process was not started by a PMI server";
    return conn_open(&p->c, atoi(fd), true) < 0 ? "PMI_FD is not an open descriptor" : NULL;
}

int play_main(int argc, char **argv)
{
    const char *seconds = getenv("PMIPROBE_TIMEOUT"), *reply = getenv("PMIPROBE_REPLY_MS");
    static struct play p;
    const char *error;

    if (argc != 2) {
        fprintf(stderr, "usage: LAUNCHER ... pmiprobe play CASE|FILE\n");
        return 2;
    }
    /* This process must end, even if the launcher is gone or the server hangs. */
    alarm(seconds && atoi(seconds) > 0 ? (unsigned)atoi(seconds) : 60);
    signal(SIGPIPE, SIG_IGN);
    p.report = getenv("PMIPROBE_REPORT");
    p.reply_ms = reply && atoi(reply) > 0 ? atoi(reply) : 2000;
    p.pc = case_find(argv[1]);
    p.wire = p.pc ? p.pc->wire : PMIWIRE_V1;
    error = play_connect(&p);
    if (error) {
        p.pc = NULL;
        finish(&p, V_NONE, "%s", error);
    }
    note(&p, "started");
    if (!p.pc)
        transcript_play(&p, argv[1]);
    if (p.size < p.pc->ranks)
        finish(&p, V_NONE, "PMI_SIZE is %d, this case needs %d", p.size, p.pc->ranks);
    if ((p.pc->flags & CASE_WITNESS) && p.rank == 1)
        witness(&p);
    if (p.rank >= p.pc->ranks) { /* more ranks than the case has: they only fence */
        begin(&p);
        finish(&p, V_OK, "idle");
    }
    if (p.pc->flags & CASE_WITNESS)
        wait_note(&p, 1, "ready", 3000);
    p.pc->run(&p);
    finish(&p, V_OK, "as expected");
}

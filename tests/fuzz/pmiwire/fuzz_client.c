/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile server against a client session that has several requests pending.
 *
 * The first byte chooses the session: bit 0 PMI-2, bit 1 pipelining, bit 2 PMI_PORT, bit 3 a
 * session that begins behind a good init, bit 4 values with blanks, bit 5 pipelining to a server of
 * this project, bit 6 such a server, bit 7 our extensions and a server that offers them all (6 and
 * 7: where there is a good init). The rest is a program: a byte below 64 makes the request of that
 * number; from 64 to 95 it moves some bytes out; 255 ends the input; any other byte gives in its
 * low five bits (0: the rest) the number of following bytes that the server sends at once.
 *
 * It must hold: exactly one event, in order, answers each accepted request, and no event answers
 * anything else; views lie in readable memory; the session ends and stays ended.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include <pmiwire.h>

struct run {
    struct pmiwire_client *c;
    uint64_t asked; /* cookies 1 to asked have been accepted */
    uint64_t heard;
    int started; /* INIT's event is owed */
    int over;
};

static unsigned sum; /* a sum of the views' bytes, so that the compiler keeps the reads */

static void touch(struct pmiwire_str s)
{
    MUST(s.ptr || s.len == 0);
    for (size_t i = 0; i < s.len; i++)
        sum += (unsigned char)s.ptr[i];
}

static void take_events(struct run *r)
{
    struct pmiwire_event ev;
    int rc;

    while ((rc = pmiwire_client_next(r->c, &ev, NULL)) > 0) {
        if (ev.op == PMIWIRE_OP_INIT) {
            MUST(r->started);
            r->started = 0;
        } else {
            MUST(ev.cookie == ++r->heard && r->heard <= r->asked);
        }
        MUST(rc == 1 && ev.rc <= 0);
        touch(ev.value);
        touch(ev.value2);
        touch(ev.text);
        for (uint32_t i = 0; ev.msg && i < ev.msg->n_fields; i++) {
            touch(ev.msg->fields[i].key);
            touch(ev.msg->fields[i].value);
        }
    }
    if (r->over)
        MUST(rc == r->over);
    if (rc < 0) {
        MUST(r->heard == r->asked && !r->started);
        r->over = rc;
    }
}

static void ask(struct run *r, unsigned what)
{
    static const struct pmiwire_str odd_key = {"k =\0", 4}, odd = {"a\n\0%;", 5}, empty = {"", 0};
    static const struct pmiwire_str key = {"key", 3}, value = {"a-value", 7}, none = {NULL, 0};
    static const struct pmiwire_str argv[] = {{"x", 1}, {"", 0}};
    static const struct pmiwire_spawn_cmd cmds[] = {
        {.execname = {"a", 1}, .maxprocs = 2, .argc = 1, .argv = argv},
        {.execname = {"b", 1}, .maxprocs = 1}};
    static const struct pmiwire_spawn spawn = {.n_cmds = 2, .cmds = cmds};
    struct pmiwire_client *c = r->c;
    uint64_t cookie = r->asked + 1;
    int rc;

    switch (what == 60 ? 24 : what % 24) {
    case 24: rc = pmiwire_client_gather(c, value, cookie); break;
    case 0: rc = pmiwire_client_put(c, key, value, PMIWIRE_HINT_NONE, cookie); break;
    case 1: rc = pmiwire_client_get(c, none, -1, key, PMIWIRE_GET_LOCAL, cookie); break;
    case 2: rc = pmiwire_client_fence(c, pmiwire_strz(NULL), cookie); break;
    case 3: rc = pmiwire_client_request(c, PMIWIRE_OP_KVSNAME, pmiwire_strz(NULL), cookie); break;
    case 4:
        rc = pmiwire_client_request(c, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), cookie);
        break;
    case 5: rc = pmiwire_client_request(c, PMIWIRE_OP_APPNUM, pmiwire_strz(NULL), cookie); break;
    case 6: rc = pmiwire_client_request(c, PMIWIRE_OP_JOBATTR, key, cookie); break;
    case 7: rc = pmiwire_client_request(c, PMIWIRE_OP_NODEATTR_WAIT, key, cookie); break;
    case 8: rc = pmiwire_client_nodeattr_put(c, key, value, cookie); break;
    case 9: rc = pmiwire_client_publish(c, key, value, cookie); break;
    case 10: rc = pmiwire_client_request(c, PMIWIRE_OP_UNPUBLISH, key, cookie); break;
    case 11: rc = pmiwire_client_request(c, PMIWIRE_OP_LOOKUP, key, cookie); break;
    case 12: rc = pmiwire_client_spawn(c, &spawn, cookie); break;
    case 13: rc = pmiwire_client_ring(c, value, cookie); break;
    case 14: rc = pmiwire_client_request(c, PMIWIRE_OP_JOB_CONNECT, key, cookie); break;
    case 15: rc = pmiwire_client_request(c, PMIWIRE_OP_JOB_DISCONNECT, key, cookie); break;
    case 16: rc = pmiwire_client_abort(c, 3, key, cookie); break;
    case 17: rc = pmiwire_client_fence(c, key, cookie); break;
    case 18: rc = pmiwire_client_finalize(c, cookie); break;
    case 19: rc = pmiwire_client_put(c, odd_key, odd, PMIWIRE_HINT_NONE, cookie); break;
    case 20: rc = pmiwire_client_put(c, key, empty, PMIWIRE_HINT_SPARSE, cookie); break;
    case 21: rc = pmiwire_client_publish(c, odd_key, odd, cookie); break;
    case 22: rc = pmiwire_client_ring(c, odd, cookie); break;
    default: rc = pmiwire_client_get(c, none, 0, key, PMIWIRE_GET_WAIT, cookie); break;
    }
    MUST(rc <= 0);
    if (r->over)
        MUST(rc == r->over);
    if (rc == 0)
        r->asked = cookie;
}

static void move_out(struct run *r, size_t most)
{
    const void *data;
    size_t n = pmiwire_client_output(r->c, &data);

    if (n > most)
        n = most;
    touch((struct pmiwire_str){data, n});
    pmiwire_client_sent(r->c, n);
}

/* A correct server's messages at init, so that the rest of the input meets an established
 * session. */
static void good_init(struct run *r, uint32_t wire, int offers, int ours)
{
    static const char *const v1[] = {"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n",
                                     "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
                                     "cmd=appnum appnum=0\n", "cmd=my_kvsname kvsname=k\n"};
    static const char *const v2[] = {"cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n",
                                     "    50cmd=fullinit-response;rc=0;rank=0;size=1;appnum=0;"};
    static const char *const offered[] = {
        "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2 fp-server=1 fp-exchange=1 "
        "fp-bytes=1\n",
        "    87cmd=fullinit-response;rc=0;rank=0;size=1;appnum=0;fp-server=1;fp-exchange=1;"
        "fp-bytes=1;"};
    static const char ours_v1[] = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2 "
                                  "fp-server=1 fp-exchange=1\n",
                      ours_v2[] = "    76cmd=fullinit-response;rc=0;rank=0;size=1;appnum=0;"
                                  "fp-server=1;fp-exchange=1;";
    size_t n = wire == PMIWIRE_V2 ? 2 : 4;

    for (size_t i = 0; i < n; i++) {
        const char *text = wire == PMIWIRE_V2 ? (ours && i == 1 ? ours_v2 : v2[i])
                                              : (ours && i == 0 ? ours_v1 : v1[i]);

        if (offers && i == (wire == PMIWIRE_V2 ? 1 : 0))
            text = offered[i];
        move_out(r, SIZE_MAX);
        MUST(pmiwire_client_input(r->c, text, strlen(text)) == 0);
        take_events(r);
    }
    MUST(!r->started && !r->over);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pmiwire_client_opts o = {.size = sizeof(o)};
    struct run r = {0};

    if (size == 0)
        return 0;
    o.wire = data[0] & 1 ? PMIWIRE_V2 : PMIWIRE_V1;
    o.flags = (data[0] & 2 ? PMIWIRE_CLIENT_PIPELINE : 0) |
              (data[0] & 32 ? PMIWIRE_CLIENT_PIPELINE_KNOWN : 0) |
              (data[0] & 128 ? PMIWIRE_CLIENT_EXTENSIONS : 0);
    o.has_pmiid = (data[0] & 12) == 4;
    o.n_ranks = 1;
    o.max_msg_bytes = 512;
    o.max_fields = 24;
    if ((data[0] & 17) == 16)
        o.server = pmiwire_profile_find("flux");
    MUST(pmiwire_client_create(&o, &r.c) == 0);
    r.started = 1;
    if (data[0] & 8)
        good_init(&r, o.wire, data[0] >> 7, data[0] & 64);
    data++;
    size--;
    while (size) {
        uint8_t op = *data++;
        size_t n = op & 31;

        size--;
        if (op < 64) {
            ask(&r, op);
        } else if (op < 96) {
            move_out(&r, n ? n : SIZE_MAX);
        } else if (op == 255) {
            break;
        } else {
            uint8_t *exact;

            if (n == 0 || n > size)
                n = size;
            /* A block of exactly this size, so that a sanitizer sees reads past its end; freed
             * before the events are read. */
            exact = malloc(n ? n : 1);
            MUST(exact);
            memcpy(exact, data, n);
            pmiwire_client_input(r.c, exact, n);
            free(exact);
            data += n;
            size -= n;
            take_events(&r);
        }
    }
    take_events(&r);
    pmiwire_client_eof(r.c);
    take_events(&r);
    MUST(r.over);
    ask(&r, 2);
    take_events(&r);
    pmiwire_client_destroy(r.c);
    return 0;
}

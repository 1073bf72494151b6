/* SPDX-License-Identifier: BSD-3-Clause */
/* Cases: messages that are wrong in some way, and clients that stop in the middle or do not read.
 * */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

/* Bytes of the case, in a buffer of its own. %s stands for the name of the key-value space. */
static char *bad_bytes(struct play *p, size_t *len)
{
    static const char *const text[][2] = {
        /* PMI-1, PMI-2 without length */
        [BAD_GET_NO_KEY] = {"cmd=get kvsname=%s\n", "cmd=kvs-get;"},
        [BAD_PUT_NO_VALUE] = {"cmd=put kvsname=%s key=a\n", "cmd=kvs-put;key=a;"},
        [BAD_GET_NO_KVSNAME] = {"cmd=get key=a\n", NULL},
        [BAD_DUPLICATE] = {"cmd=put kvsname=%s key=a key=b value=v\n",
                           "cmd=kvs-put;key=a;key=b;value=v;"},
        [BAD_NO_EQUALS] = {"cmd=put kvsname=%s junk key=a value=v\n",
                           "cmd=kvs-put;junk;key=a;value=v;"},
        [BAD_UNKNOWN] = {"cmd=frobnicate a=b\n", "cmd=frobnicate;a=b;"},
        [BAD_GARBAGE] = {"hello, is this PMI?\n", "hello, is this PMI?"},
        [BAD_UNTERMINATED] = {NULL, "cmd=kvs-put;key=a;value=v"},
        [BAD_SPAWN_COUNT] =
            {"mcmd=spawn\nnprocs=1\nexecname=/bin/true\ntotspawns=1\nspawnssofar=1\n"
             "argcnt=3\narg1=one\nendcmd\n",
             "cmd=spawn;ncmds=1;preputcount=0;subcmd=/bin/true;maxprocs=1;argc=3;argv0=one;"},
        [BAD_SPAWN_NO_EXEC] =
            {"mcmd=spawn\nnprocs=1\ntotspawns=1\nspawnssofar=1\nargcnt=0\nendcmd\n",
             "cmd=spawn;ncmds=1;preputcount=0;maxprocs=1;argc=0;"},
        [BAD_ABORTED_MCMD] = {"mcmd=spawn\nnprocs=two\ncmd=get_maxes\nendcmd\n", NULL},
        [BAD_LEN_NEGATIVE] = {NULL, "   -13cmd=job-getid"},
        [BAD_LEN_ZERO] = {NULL, "     0cmd=job-getid;"},
        [BAD_LEN_TEXT] = {NULL, "abcdefcmd=job-getid;"},
        [BAD_LEN_HUGE] = {NULL, "999999cmd=kvs-put;key=a;value="},
        [BAD_NUL] = {"cmd=put kvsname=%s key=a?b value=v\n", "cmd=kvs-put;key=a?b;value=v;"},
        [BAD_LONG] = {"cmd=put kvsname=%s key=a value=", "cmd=kvs-put;key=a;value="},
    };
    int bad = p->pc->arg, v2 = p->wire == PMIWIRE_V2;
    const char *format = text[bad][v2];
    size_t cap = 2u << 20, n = 0;
    char *out = calloc(1, cap);

    if (!out || !format)
        finish(p, V_NONE, "out of memory");
    for (; *format; format++) {
        if (format[0] == '%' && format[1] == 's') {
            n += (size_t)snprintf(out + n, cap - n, "%s", p->kvsname);
            format++;
        } else {
            out[n++] = *format;
        }
    }
    if (bad == BAD_NUL) {
        *strchr(out, '?') = '\0';
    } else if (bad == BAD_LONG && !v2) {
        memset(out + n, 'x', 1u << 20);
        n += 1u << 20;
        out[n++] = '\n';
    } else if (bad == BAD_LONG || bad == BAD_LEN_HUGE) {
        size_t body = bad == BAD_LONG ? 200000 : 6 + 999999;

        memset(out + n, 'x', body - n - 1);
        out[body - 1] = ';';
        n = body;
    }
    /* The cases about the length have their own; the others get a correct one. */
    if (v2 && (bad < BAD_LEN_NEGATIVE || bad > BAD_LEN_HUGE))
        n = frame(PMIWIRE_V2, out, n, out, cap);
    *len = n;
    return out;
}

void case_bad(struct play *p)
{
    size_t len = 0;
    char *bytes;

    begin(p);
    bytes = bad_bytes(p, &len);
    provoke(p, bytes, len);
}

/* Rank 0 is in the fence and stops within its next message; rank 1's fence must still end. */
void case_stall(struct play *p)
{
    size_t n;
    int64_t start;
    int took;

    begin(p);
    fence(p);
    if (p->rank == 0) {
        fence_send(p);
        sleep_ms(50);
        get_begin(p, "no-such-key");
        n = request_end(p);
        say_raw(p, p->out, n / 2);
        note(p, "half");
        sleep_ms(1500);
        say_raw(p, p->out + n / 2, n - n / 2);
        p->reply_ms = 500;
        hear(p);
        hear(p);
        finish(p, V_OK, "stopped in mid-message for 1.5 s");
    }
    wait_note(p, 0, "half", 1000);
    sleep_ms(50);
    start = now_ms();
    fence(p);
    took = (int)(now_ms() - start);
    if (took > 500)
        finish(p, V_DELAYED, "the other rank's fence took %d ms", took);
    finish(p, V_OK, "the other rank's fence took %d ms", took);
}

/* The same with puts and gets: rank 1 is the witness. */
void case_stall_get(struct play *p)
{
    size_t n;

    begin(p);
    get_begin(p, "no-such-key");
    n = request_end(p);
    say_raw(p, p->out, n / 2);
    sleep_ms(1500);
    say_raw(p, p->out + n / 2, n - n / 2);
    hear(p);
    finish(p, V_OK, "stopped in mid-message for 1.5 s");
}

/* Ask without end and read nothing, while rank 1 is the witness. */
void case_no_read(struct play *p)
{
    size_t sent = 0, n;
    int rc = 0;

    begin(p);
    if (p->wire == PMIWIRE_V2) {
        request_begin(p, 0, PMIWIRE_V2_INFO_GETJOBATTR);
        request_text(p, PMIWIRE_F_KEY, "PMI_process_mapping");
    } else {
        get_begin(p, "PMI_process_mapping");
    }
    n = request_end(p);
    while (rc == 0 && sent < 8u << 20) {
        size_t part = 0;

        rc = conn_send(&p->c, p->out, n, 700, &part);
        sent += part;
    }
    p->spoiled = true;
    if (rc == -EPIPE)
        finish(p, V_CLOSED, "cut off after %zu KiB of requests", sent >> 10);
    finish(p, V_OK,
           rc == 0 ? "served %zu KiB of requests unread"
                   : "not read any further after %zu KiB of requests",
           sent >> 10);
}

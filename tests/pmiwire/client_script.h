/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of the client session: a server of scripted bytes. */
#ifndef FENCEPOST_TESTS_CLIENT_SCRIPT_H
#define FENCEPOST_TESTS_CLIENT_SCRIPT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pmiwire.h>

static struct pmiwire_client *session;
static struct pmiwire_event ev;
static size_t step_bytes; /* bytes fed at a time; 0: all */

/* PMI-2 text with its length, in one of a few static places. */
static const char *v2(const char *body)
{
    static char buf[8][4096];
    static unsigned next;
    char *p = buf[next++ % 8];

    snprintf(p, sizeof(buf[0]), "%6zu%s", strlen(body), body);
    return p;
}

/* The session's output must now be exactly this. */
static void sends(const char *text)
{
    const void *data;
    size_t n = pmiwire_client_output(session, &data);

    if (n != strlen(text) || memcmp(data, text, n) != 0)
        fail_msg("sends \"%.*s\", not \"%s\"", (int)n, (const char *)data, text);
    pmiwire_client_sent(session, n);
    assert_int_equal(pmiwire_client_output(session, &data), 0);
}

/* The server sends this; no event may come before its last byte. */
static int hear(const char *text)
{
    size_t n = strlen(text), step = step_bytes ? step_bytes : n;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i += step) {
        assert_int_equal(pmiwire_client_input(session, text + i, n - i < step ? n - i : step), 0);
        rc = pmiwire_client_next(session, &ev, NULL);
        if (rc > 0 && i + step < n)
            fail_msg("an event came %zu bytes early", n - i - step);
    }
    return rc;
}

__attribute__((unused)) static void is_str(struct pmiwire_str s, const char *text)
{
    if (s.len != strlen(text) || (s.len && memcmp(s.ptr, text, s.len) != 0))
        fail_msg("\"%.*s\" is not \"%s\"", (int)s.len, s.ptr ? s.ptr : "", text);
}

/* The server sends this, and the session reports that event. */
static void answered(const char *text, uint32_t op, int rc)
{
    assert_int_equal(hear(text), 1);
    assert_int_equal(ev.op, op);
    if (ev.rc != rc)
        fail_msg("rc %d (%s), not %d", ev.rc, pmiwire_strerror(ev.rc), rc);
}

static void idle(void)
{
    const void *data;

    assert_int_equal(pmiwire_client_next(session, &ev, NULL), 0);
    assert_int_equal(pmiwire_client_output(session, &data), 0);
}

#define S(text) pmiwire_strz(text)
static const struct pmiwire_str absent;

static struct pmiwire_client_opts options(uint32_t wire)
{
    struct pmiwire_client_opts o = {.size = sizeof(o)};

    o.wire = wire;
    o.rank = 1;
    o.n_ranks = 4;
    return o;
}

static void create(const struct pmiwire_client_opts *o)
{
    pmiwire_client_destroy(session);
    session = NULL;
    assert_int_equal(pmiwire_client_create(o, &session), 0);
}

#define INIT_V1   "cmd=init pmi_version=1 pmi_subversion=1\n"
#define INIT_V2   "cmd=init pmi_version=2 pmi_subversion=0\n"
#define INITED_V1 "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
#define INITED_V2 "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"
#define MAXES     "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
#define FULLINIT  "cmd=fullinit;pmirank=1;threaded=FALSE;"
#define FULLINITED                                                                                 \
    "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=4;appnum=3;debugged="   \
    "FALSE;"                                                                                       \
    "pmiverbose=FALSE;"

static void begin_v1(void)
{
    sends(INIT_V1);
    assert_int_equal(hear(INITED_V1), 0);
    sends("cmd=get_maxes\n");
    assert_int_equal(hear(MAXES), 0);
    sends("cmd=get_appnum\n");
    assert_int_equal(hear("cmd=appnum appnum=3\n"), 0);
    sends("cmd=get_my_kvsname\n");
    answered("cmd=my_kvsname kvsname=kvs_1\n", PMIWIRE_OP_INIT, 0);
}

static void begin_v2(void)
{
    sends(INIT_V2);
    assert_int_equal(hear(INITED_V2), 0);
    sends(v2(FULLINIT));
    answered(v2(FULLINITED), PMIWIRE_OP_INIT, 0);
}

static void fresh_with(const struct pmiwire_client_opts *o)
{
    create(o);
    if (o->wire == PMIWIRE_V2)
        begin_v2();
    else
        begin_v1();
}

static void fresh(uint32_t wire, uint32_t flags)
{
    struct pmiwire_client_opts o = options(wire);

    o.flags = flags;
    fresh_with(&o);
}

static int cleanup(void **state)
{
    pmiwire_client_destroy(session);
    session = NULL;
    step_bytes = 0;
    return 0;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core.h"
#include "ops.h"
#include "pmi.h"
#include "pmi2.h"

_Static_assert(CORE_OK == PMI_SUCCESS && CORE_OK == PMI2_SUCCESS, "one number");
_Static_assert(CORE_FAIL == PMI_FAIL && CORE_FAIL == PMI2_FAIL, "one number");
_Static_assert(CORE_NOT_INITIALIZED == PMI_ERR_INIT && CORE_NOT_INITIALIZED == PMI2_ERR_INIT,
               "one number");
_Static_assert(PMI_MAX_OUTSTANDING == PMI2_MAX_OUTSTANDING, "one number");
_Static_assert(PMI_ERR_NOMEM == PMI2_ERR_NOMEM && PMI_ERR_INVALID_ARG == PMI2_ERR_INVALID_ARG &&
                   PMI_ERR_INVALID_KEY_LENGTH == PMI2_ERR_INVALID_KEY_LENGTH &&
                   PMI_ERR_INVALID_VAL == PMI2_ERR_INVALID_VAL &&
                   PMI_ERR_INVALID_VAL_LENGTH == PMI2_ERR_INVALID_VAL_LENGTH,
               "one number");

struct core core = {.lock = PTHREAD_MUTEX_INITIALIZER};

int core_leave(int code)
{
    pthread_mutex_unlock(&core.lock);
    return code;
}

int core_enter(void)
{
    pthread_mutex_lock(&core.lock);
    return core.initialized ? CORE_OK : core_leave(CORE_NOT_INITIALIZED);
}

int core_enter_job(void)
{
    int code = core_enter();

    return code == CORE_OK && core.alone ? core_leave(CORE_FAIL) : code;
}

int core_code(int rc)
{
    switch (rc) {
    case 0: return CORE_OK;
    case -ENOMEM: return PMI2_ERR_NOMEM;
    case -EINVAL: return PMI2_ERR_INVALID_ARG;
    case PMIWIRE_EKEYLEN: return PMI2_ERR_INVALID_KEY_LENGTH;
    case PMIWIRE_EEMPTY:
    case PMIWIRE_ECHARS: return PMI2_ERR_INVALID_VAL;
    case PMIWIRE_ELINE:
    case PMIWIRE_EVALLEN: return PMI2_ERR_INVALID_VAL_LENGTH;
    default: return CORE_FAIL;
    }
}

int core_ask(int queued, struct pmiwire_event *ev)
{
    return queued < 0 ? queued : session_wait(&core.session, ev);
}

int core_ask_about(uint32_t op, const char *about, struct pmiwire_event *ev)
{
    return core_ask(
        pmiwire_client_request(session_ready(&core.session), op, pmiwire_strz(about), SESSION_ASK),
        ev);
}

int check_string(int rc, const struct pmiwire_str *value)
{
    return rc == 0 && value->len && memchr(value->ptr, 0, value->len) ? PMIWIRE_ECHARS : rc;
}

int give(struct pmiwire_str from, char *to, int length)
{
    if (length <= 0 || from.len >= (size_t)length)
        return -1;
    if (from.len)
        memcpy(to, from.ptr, from.len);
    to[from.len] = '\0';
    return 0;
}

/* ---- life ---- */

static int connect_session(const struct environment *env, uint32_t wire)
{
    const char *says = getenv("PMI_SPAWNED");
    struct pmiwire_event ev;
    int rc = session_open(&core.session, env, wire);

    if (rc < 0)
        return rc;
    core.session.info.spawned |= says && atoi(says) != 0;
    ev.value = core.session.info.kvsname;
    if (wire == PMIWIRE_V2)
        rc = core_ask_about(PMIWIRE_OP_KVSNAME, NULL, &ev);
    if (rc == 0 && give(ev.value, core.name, sizeof(core.name)) != 0)
        rc = PMIWIRE_EPROTO;
    if (rc < 0)
        session_close(&core.session);
    return rc;
}

int core_init(uint32_t wire, const char *name_alone, int (*code)(int rc))
{
    struct environment env;
    int rc = 0;

    pthread_mutex_lock(&core.lock);
    if (core.initialized)
        return CORE_OK;
    /* PMI_FD is closed after finalize, and its number may be the program's own by now. */
    if (core.finalized || environment_read(&env) < 0)
        return core_leave(CORE_FAIL);
    core.alone = env.fd < 0;
    core.keeps_pairs = wire == PMIWIRE_V1; /* its iterator shows them */
    if (core.alone) {
        core.session.info = (struct pmiwire_info_client){.n_ranks = 1};
        snprintf(core.name, sizeof(core.name), "%s", name_alone);
    } else {
        rc = connect_session(&env, wire);
    }
    core.initialized = rc == 0;
    core.finalized = rc != 0;
    return rc == 0 ? CORE_OK : core_leave(code(rc));
}

int core_end(void)
{
    struct pmiwire_event ev;
    int rc = 0;

    if (!core.alone) {
        rc = core_ask(pmiwire_client_finalize(session_ready(&core.session), SESSION_ASK), &ev);
        session_close(&core.session);
    }
    if (rc == 0)
        rc = ops_unreported();
    ops_free();
    pairs_free(&core.pairs);
    core.initialized = 0;
    core.finalized = 1;
    return rc;
}

/* An abort behind an unanswered request may not reach the server; then the end of the process
 * notifies it. */
static void send_abort(int exitcode, const char *message)
{
    struct pmiwire_event ev;
    int rc =
        pmiwire_client_abort(core.session.client, exitcode, pmiwire_strz(message), SESSION_ASK);

    if (rc < 0) /* the wire cannot carry the message */
        rc = pmiwire_client_abort(core.session.client, exitcode, pmiwire_strz(NULL), SESSION_ASK);
    if (!session_busy(&core.session)) {
        core_ask(rc, &ev);
        return;
    }
    while (session_progress(&core.session, 0))
        ;
    core.initialized = 0; /* otherwise finalize during exit would wait */
    core.finalized = 1;
}

/* A call that waits for the server keeps the lock: one of another thread, or the one that a signal
 * handler interrupts. Exit handlers would wait for it too. The server ends the job of a process
 * that ends without finalize. */
void core_abort(int exitcode, const char *message)
{
    struct timespec limit;

    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec++;
    if (pthread_mutex_timedlock(&core.lock, &limit) != 0)
        _exit(exitcode);
    if (core.initialized && !core.alone)
        send_abort(exitcode, message);
    core_leave(0); /* exit handlers may finalize */
    exit(exitcode);
}

int core_number(const int *value, int *to)
{
    int code = to ? core_enter() : PMI2_ERR_INVALID_ARG;

    if (code != CORE_OK)
        return code;
    *to = *value;
    return core_leave(CORE_OK);
}

/* ---- pairs ---- */

/* The memory for a kept pair is allocated before the server stores the pair. */
int core_put(const char *key, const char *value, int hint)
{
    struct pair *pair = NULL;
    int rc = 0;

    if (core.alone || core.keeps_pairs)
        rc = pairs_prepare(&core.pairs, key, value, &pair);
    if (rc == 0 && !core.alone) {
        rc = op_put(key, value, hint, pair);
        if (rc == 0) /* it keeps the pair */
            return 0;
        if (rc == 1)
            rc = session_put(&core.session, pmiwire_strz(key), pmiwire_strz(value), (uint32_t)hint);
    }
    if (rc == 0 && pair)
        pairs_add(&core.pairs, pair);
    else
        pairs_drop(pair);
    return rc;
}

int core_own(const char *key, struct pmiwire_str *value)
{
    const struct pair *own = pairs_find(&core.pairs, key);

    *value = pmiwire_strz(own ? own->value : "");
    return own ? 0 : PMIWIRE_ENOENT;
}

int core_get(const char *space, int source, const char *key, struct pmiwire_str *value)
{
    const int own_space = !space || strcmp(space, core.name) == 0;

    if (core.alone)
        return own_space ? core_own(key, value) : PMIWIRE_ENOENT;
    return check_string(session_get(&core.session, pmiwire_strz(own_space ? NULL : space), source,
                                    pmiwire_strz(key), value),
                        value);
}

int core_get_wait(int source, const char *key, struct pmiwire_str *value)
{
    if (source < -1 || source >= core.session.info.n_ranks)
        return -EINVAL;
    if (core.alone)
        return core_own(key, value);
    return check_string(session_get_wait(&core.session, source, pmiwire_strz(key), value), value);
}

int core_ring(const char *value, int *rank, int *ranks, char left[], char right[], int max)
{
    const struct pmiwire_info_client *info = &core.session.info;
    struct ring ring = {0};
    struct pmiwire_str l, r;
    int rc = 0;

    if (!core.alone)
        rc = session_ring(&core.session, info->rank, info->n_ranks, value, &ring);
    if (rc < 0)
        return rc;
    l = pmiwire_strz(core.alone ? value : ring.left);
    r = pmiwire_strz(core.alone ? value : ring.right);
    if (l.len >= (size_t)max || r.len >= (size_t)max)
        return PMIWIRE_EVALLEN;
    give(l, left, max);
    give(r, right, max);
    *rank = ring.place;
    *ranks = info->n_ranks;
    return 0;
}

/* ---- names ---- */

int core_publish(const char *service, const char *port)
{
    struct pmiwire_event ev;

    return core_ask(pmiwire_client_publish(session_ready(&core.session), pmiwire_strz(service),
                                           pmiwire_strz(port), SESSION_ASK),
                    &ev);
}

int core_unpublish(const char *service)
{
    struct pmiwire_event ev;

    return core_ask_about(PMIWIRE_OP_UNPUBLISH, service, &ev);
}

int core_lookup(const char *service, char port[], int bytes)
{
    struct pmiwire_event ev;
    int rc = core_ask_about(PMIWIRE_OP_LOOKUP, service, &ev);

    rc = check_string(rc, &ev.value);
    return rc == 0 && give(ev.value, port, bytes) != 0 ? PMIWIRE_EVALLEN : rc;
}

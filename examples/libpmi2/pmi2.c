/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpmi2.so.0: PMI-2's interface (pmi2.h) over libpmiwire. Started without a launcher, a program
 * is alone: rank 0 of 1.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "pmi2.h"
#include "session.h"

#define ID_MAX_BYTES 256
#define EXIT_ABORT   1

/* What goes on while other calls are made. */
enum split { NOTHING, FENCE, GATHER };

static struct {
    pthread_mutex_t lock;
    int initialized,
        finalized; /* also when init has failed on a connection, which is then closed */
    int alone;     /* no launcher */
    struct session session;
    struct pmiwire_info_client info;
    char jobid[ID_MAX_BYTES];
    struct pairs pairs; /* while alone */
    enum split split;
    void *gather_to;    /* of PMIX_Iallgather */
    unsigned n_gathers; /* so far */
    char *
        gathered; /* where there is no shared memory, what PMI2_SHMEM_Iallgather_wait() hands out */
} pmi = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int leave(int rc)
{
    pthread_mutex_unlock(&pmi.lock);
    return rc;
}

/* Take the lock; PMI2_ERR_INIT, without it, before PMI2_Init(). */
static int enter(void)
{
    pthread_mutex_lock(&pmi.lock);
    return pmi.initialized ? PMI2_SUCCESS : leave(PMI2_ERR_INIT);
}

/* PMI's own numbers for what it has a number for. */
static int pmi_code(int rc)
{
    switch (rc) {
    case 0: return PMI2_SUCCESS;
    case -ENOMEM: return PMI2_ERR_NOMEM;
    case -EINVAL: return PMI2_ERR_INVALID_ARG;
    case PMIWIRE_EKEYLEN: return PMI2_ERR_INVALID_KEY_LENGTH;
    case PMIWIRE_EEMPTY:
    case PMIWIRE_ECHARS: return PMI2_ERR_INVALID_VAL;
    case PMIWIRE_ELINE:
    case PMIWIRE_EVALLEN: return PMI2_ERR_INVALID_VAL_LENGTH;
    case PMIWIRE_EPEER:
    case PMIWIRE_EVERSION: /* this server has no such thing */ return PMI2_ERR_OTHER;
    default: return PMI2_FAIL;
    }
}

/* Ask, and wait for the answer: its rc. */
static int ask(int queued, struct pmiwire_event *ev)
{
    return queued < 0 ? queued : session_wait(&pmi.session, ev);
}

static struct pmiwire_client *client(void)
{
    return pmi.session.client;
}

/* ---- life ---- */

static int open_session(const struct environment *env)
{
    const char *says = getenv("PMI_SPAWNED");
    struct pmiwire_event ev;
    int rc = session_open(&pmi.session, env, PMIWIRE_V2);

    if (rc < 0)
        return rc;
    pmiwire_client_query(client(), &pmi.info);
    pmi.info.spawned |= says && atoi(says) != 0;
    rc =
        ask(pmiwire_client_ask(client(), PMIWIRE_OP_KVSNAME, pmiwire_strz(NULL), SESSION_ASK), &ev);
    if (rc == 0 && give(ev.value, pmi.jobid, sizeof(pmi.jobid)) != 0)
        rc = -ENOMEM;
    if (rc < 0)
        session_close(&pmi.session);
    return rc;
}

int PMI2_Init(int *spawned, int *size, int *rank, int *appnum)
{
    struct environment env;
    int rc = 0;

    pthread_mutex_lock(&pmi.lock);
    if (!pmi.initialized) {
        if (pmi.finalized) /* PMI_FD is closed, and its number may be the program's own by now */
            return leave(PMI2_FAIL);
        if (environment_read(&env) < 0)
            return leave(PMI2_FAIL);
        pmi.alone = env.fd < 0;
        if (pmi.alone) {
            pmi.info = (struct pmiwire_info_client){.n_ranks = 1};
            snprintf(pmi.jobid, sizeof(pmi.jobid), "singleton");
        } else {
            rc = open_session(&env);
        }
        if (rc < 0) {
            pmi.finalized = 1;
            return leave(pmi_code(rc));
        }
        pmi.initialized = 1;
    }
    if (spawned)
        *spawned = pmi.info.spawned != 0;
    if (size)
        *size = pmi.info.n_ranks;
    if (rank)
        *rank = pmi.info.rank;
    if (appnum)
        *appnum = pmi.info.appnum;
    return leave(PMI2_SUCCESS);
}

int PMI2_Initialized(void)
{
    int initialized;

    pthread_mutex_lock(&pmi.lock);
    initialized = pmi.initialized;
    return leave(initialized);
}

int PMI2_Finalize(void)
{
    struct pmiwire_event ev;
    int rc = enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    if (!pmi.alone) {
        rc = ask(pmiwire_client_finalize(client(), SESSION_ASK), &ev);
        session_close(&pmi.session);
    }
    pairs_free(&pmi.pairs);
    free(pmi.gathered);
    pmi.gathered = NULL;
    pmi.split = NOTHING;
    pmi.initialized = 0;
    pmi.finalized = 1;
    return leave(pmi_code(rc));
}

int PMI2_Abort(int flag, const char msg[])
{
    struct pmiwire_event ev;

    (void)flag; /* no launcher ends one process alone */
    if (msg)
        fprintf(stderr, "PMI2_Abort: %s\n", msg);
    if (enter() == PMI2_SUCCESS) {
        if (!pmi.alone)
            ask(pmiwire_client_abort(client(), EXIT_ABORT, pmiwire_strz(msg ? msg : ""),
                                     SESSION_ASK),
                &ev);
        leave(0); /* what runs at exit may finalize */
    }
    exit(EXIT_ABORT);
}

/* ---- what the job is ---- */

static int give_number(const int *value, int *to)
{
    int rc;

    if (!to)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    *to = *value;
    return leave(PMI2_SUCCESS);
}

int PMI2_Job_GetRank(int *rank)
{
    return give_number(&pmi.info.rank, rank);
}

int PMI2_Info_GetSize(int *size)
{
    return give_number(&pmi.info.n_ranks, size);
}

int PMI2_Job_GetId(char jobid[], int jobid_size)
{
    int rc;

    if (!jobid)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    return leave(give(pmiwire_strz(pmi.jobid), jobid, jobid_size) == 0 ? PMI2_SUCCESS
                                                                       : PMI2_ERR_INVALID_LENGTH);
}

int PMI2_Job_Connect(const char jobid[], PMI2_Connect_comm_t *conn)
{
    struct pmiwire_event ev;
    int rc;

    if (!jobid || !conn)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    rc = pmi.alone ? PMIWIRE_EPEER
                   : ask(pmiwire_client_ask(client(), PMIWIRE_OP_JOB_CONNECT, pmiwire_strz(jobid),
                                            SESSION_ASK),
                         &ev);
    return leave(pmi_code(rc));
}

int PMI2_Job_Disconnect(const char jobid[])
{
    struct pmiwire_event ev;
    int rc;

    if (!jobid)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    rc = pmi.alone ? PMIWIRE_EPEER
                   : ask(pmiwire_client_ask(client(), PMIWIRE_OP_JOB_DISCONNECT,
                                            pmiwire_strz(jobid), SESSION_ASK),
                         &ev);
    return leave(pmi_code(rc));
}

/* ---- key-value space ---- */

static int check_key(const char *key)
{
    if (!key || !*key)
        return PMI2_ERR_INVALID_KEY;
    return strlen(key) > PMI2_MAX_KEYLEN ? PMI2_ERR_INVALID_KEY_LENGTH : PMI2_SUCCESS;
}

static int check_value(const char *value, size_t max)
{
    if (!value)
        return PMI2_ERR_INVALID_VAL;
    return strlen(value) > max ? PMI2_ERR_INVALID_VAL_LENGTH : PMI2_SUCCESS;
}

static int put(const char *key, const char *value, int hint)
{
    if (pmi.alone)
        return pairs_keep(&pmi.pairs, key, value);
    return session_put(&pmi.session, pmiwire_strz(key), pmiwire_strz(value), (uint32_t)hint);
}

int PMI2_KVS_Put_hinted(const char key[], const char value[], int hint)
{
    int rc = check_key(key);

    if (rc == PMI2_SUCCESS)
        rc = check_value(value, PMI2_MAX_VALLEN);
    if (rc == PMI2_SUCCESS && (hint < PMI2_HINT_NONE || hint > PMI2_HINT_DENSE))
        rc = PMI2_ERR_INVALID_ARG;
    if (rc == PMI2_SUCCESS)
        rc = enter();
    return rc == PMI2_SUCCESS ? leave(pmi_code(put(key, value, hint))) : rc;
}

int PMI2_KVS_Put(const char key[], const char value[])
{
    return PMI2_KVS_Put_hinted(key, value, PMI2_HINT_NONE);
}

/* What this process, which is alone, has put. */
static int get_own(const char *key, struct pmiwire_str *value)
{
    const struct pair *own = pairs_find(&pmi.pairs, key);

    *value = pmiwire_strz(own ? own->value : "");
    return own ? 0 : PMIWIRE_ENOENT;
}

/* The value of a key; a view that lives until the next request. PMIWIRE_ENOENT when there is none.
 * */
static int get(const char *jobid, int source, const char *key, struct pmiwire_str *value)
{
    const int own_space = !jobid || strcmp(jobid, pmi.jobid) == 0;

    if (pmi.alone)
        return own_space ? get_own(key, value) : PMIWIRE_ENOENT;
    return session_get(&pmi.session, pmiwire_strz(own_space ? NULL : jobid), source,
                       pmiwire_strz(key), value);
}

/* Before a get: PMI2_SUCCESS, with the lock held. */
static int enter_get(const char *key, const char *value, int maxvalue, const int *vallen)
{
    int rc = check_key(key);

    if (rc == PMI2_SUCCESS && (!value || !vallen || maxvalue < 1))
        rc = PMI2_ERR_INVALID_ARG;
    return rc == PMI2_SUCCESS ? enter() : rc;
}

/* And after it. */
static int leave_get(int rc, struct pmiwire_str view, char value[], int maxvalue, int *vallen)
{
    if (rc == 0 && give(view, value, maxvalue) == 0) {
        *vallen = (int)view.len;
    } else if (rc == 0) {
        memcpy(value, view.ptr, (size_t)maxvalue - 1);
        value[maxvalue - 1] = '\0';
        *vallen = -(int)view.len;
    }
    return leave(pmi_code(rc));
}

int PMI2_KVS_Get(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue,
                 int *vallen)
{
    struct pmiwire_str view = {0};
    int rc = enter_get(key, value, maxvalue, vallen);

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = get(jobid, src_pmi_id, key, &view);
    return leave_get(rc, view, value, maxvalue, vallen);
}

int PMI2_KVS_Get_wait(int src_pmi_id, const char key[], char value[], int maxvalue, int *vallen)
{
    struct pmiwire_str view = {0};
    int rc = enter_get(key, value, maxvalue, vallen);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (src_pmi_id < PMI2_ID_NULL || src_pmi_id >= pmi.info.n_ranks)
        rc = -EINVAL;
    else if (pmi.alone)
        rc = get_own(key, &view);
    else
        rc = session_get_wait(&pmi.session, src_pmi_id, pmiwire_strz(key), &view);
    return leave_get(rc, view, value, maxvalue, vallen);
}

int PMI2_SHMEM_KVS_Get(const char key[], const char **value, int *vallen)
{
    struct pmiwire_str view;
    int rc = check_key(key);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (!value || !vallen)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (table_get(&pmi.session.table, pmiwire_strz(key), &view) != 0)
        return leave(PMI2_ERR_OTHER);
    pmi.session.n_read++;
    *value = view.ptr;
    *vallen = (int)view.len;
    return leave(PMI2_SUCCESS);
}

#define MANY 64

int PMI2_SHMEM_KVS_Get_many(int n, const char *const keys[], const char *values[], int vallens[],
                            int *found)
{
    struct shmht_bytes names[MANY], got[MANY];
    int rc;

    if (n < 0 || !keys || !values || !vallens || !found)
        return PMI2_ERR_INVALID_ARG;
    for (int i = 0; i < n; i++)
        if ((rc = check_key(keys[i])) != PMI2_SUCCESS)
            return rc;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (!pmi.session.table.reader || pmi.session.table.ended)
        return leave(PMI2_ERR_OTHER);
    *found = 0;
    for (int at = 0; at < n; at += MANY) {
        const int some = n - at < MANY ? n - at : MANY;

        for (int i = 0; i < some; i++)
            names[i] = (struct shmht_bytes){keys[at + i], strlen(keys[at + i])};
        *found += table_get_many(&pmi.session.table, names, (size_t)some, got);
        for (int i = 0; i < some; i++) {
            values[at + i] = got[i].ptr;
            vallens[at + i] = got[i].ptr ? (int)got[i].len - 1 : 0;
        }
    }
    pmi.session.n_read += (unsigned long)*found;
    return leave(PMI2_SUCCESS);
}

int PMI2_SHMEM_Counts(unsigned long *n_read, unsigned long *n_asked)
{
    int rc = n_read && n_asked ? enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    *n_read = pmi.session.n_read;
    *n_asked = pmi.session.n_asked;
    return leave(PMI2_SUCCESS);
}

/* ---- collectives, of which one at a time goes on by itself ---- */

/* Begin a fence. 0, or why not. */
static int begin(enum split what)
{
    int rc = 0;

    if (pmi.split != NOTHING)
        return PMIWIRE_ESTATE;
    if (!pmi.alone) {
        rc = pmiwire_client_fence(client(), pmiwire_strz(NULL), SESSION_SPLIT);
        if (rc == 0)
            session_split(&pmi.session);
    }
    if (rc == 0)
        pmi.split = what;
    return rc;
}

/* Complete it. */
static int complete(enum split what)
{
    if (pmi.split != what)
        return PMIWIRE_ESTATE;
    pmi.split = NOTHING;
    return pmi.alone ? 0 : session_join(&pmi.session);
}

static int entered(int rc, enum split what, int (*step)(enum split))
{
    return rc == PMI2_SUCCESS ? leave(pmi_code(step(what))) : rc;
}

static int both(enum split what)
{
    int rc = begin(what);

    return rc == 0 ? complete(what) : rc;
}

int PMI2_KVS_Fence(void)
{
    return entered(enter(), FENCE, both);
}

int PMI2_KVS_Ifence(void)
{
    return entered(enter(), FENCE, begin);
}

int PMI2_KVS_Wait(void)
{
    return entered(enter(), FENCE, complete);
}

int PMIX_KVS_Ifence(void)
{
    return PMI2_KVS_Ifence();
}

/* An Allgather is a put, a fence and a get of each rank's: every server can do that. */
static void gather_key(char *key, size_t cap, unsigned gather, int rank)
{
    snprintf(key, cap, "-allgather-%u-%d", gather, rank);
}

static int gather_begin(const char *value, void *to)
{
    char key[PMI2_MAX_KEYLEN];
    int rc;

    if (pmi.split != NOTHING)
        return PMIWIRE_ESTATE;
    gather_key(key, sizeof(key), pmi.n_gathers, pmi.info.rank);
    rc = put(key, value, PMI2_HINT_NONE);
    if (rc == 0)
        rc = begin(GATHER);
    if (rc == 0)
        pmi.gather_to = to;
    return rc;
}

/* What a rank gave. */
static int gathered_value(int rank, struct pmiwire_str *value)
{
    char key[PMI2_MAX_KEYLEN];

    if (!pmi.alone && table_gathered(&pmi.session.table, rank, value) == 0) {
        pmi.session.n_read++;
        return 0;
    }
    gather_key(key, sizeof(key), pmi.n_gathers, rank);
    return get(NULL, rank, key, value);
}

static int copy_values(char *to)
{
    struct pmiwire_str value;
    int rc = 0;

    for (int rank = 0; rc == 0 && rank < pmi.info.n_ranks; rank++, to += PMI2_MAX_VALLEN) {
        rc = gathered_value(rank, &value);
        if (rc == 0 && give(value, to, PMI2_MAX_VALLEN) != 0)
            rc = PMIWIRE_EVALLEN;
        if (rc == 0)
            memset(to + value.len, 0, PMI2_MAX_VALLEN - value.len);
    }
    return rc;
}

/* Complete an Allgather. With `to`, copy its values there; without, they are in the array, or in
 * memory of our own. */
static int gather_complete(void *to)
{
    int rc = complete(GATHER);

    if (rc == PMIWIRE_ESTATE)
        return rc;
    free(pmi.gathered);
    pmi.gathered = NULL;
    if (rc == 0 && !to && !pmi.session.table.array) {
        to = pmi.gathered = malloc((size_t)pmi.info.n_ranks * PMI2_MAX_VALLEN);
        if (!to)
            rc = -ENOMEM;
    }
    if (rc == 0 && to)
        rc = copy_values(to);
    pmi.n_gathers++;
    return rc;
}

static int gather_check(const char *value)
{
    int rc = check_value(value, PMI2_MAX_VALLEN - 1);

    if (rc == PMI2_SUCCESS && !*value)
        rc = PMI2_ERR_INVALID_VAL;
    return rc == PMI2_SUCCESS ? enter() : rc;
}

int PMI2_Iallgather(const char value[])
{
    int rc = gather_check(value);

    return rc == PMI2_SUCCESS ? leave(pmi_code(gather_begin(value, NULL))) : rc;
}

int PMI2_Iallgather_wait(void *buffer)
{
    int rc = buffer ? enter() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? leave(pmi_code(gather_complete(buffer))) : rc;
}

int PMI2_SHMEM_Iallgather(const char value[])
{
    return PMI2_Iallgather(value);
}

int PMI2_SHMEM_Iallgather_wait(void **values)
{
    int rc = values ? enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = gather_complete(NULL);
    if (rc == 0)
        *values = pmi.gathered ? pmi.gathered
                               : (void *)(uintptr_t)shmht_array_values(pmi.session.table.array);
    return leave(pmi_code(rc));
}

int PMI2_SHMEM_Allgathered(const void **values, int *stride)
{
    struct shmht_array_info info;
    int rc = values && stride ? enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    if (pmi.gathered) {
        *values = pmi.gathered;
        *stride = PMI2_MAX_VALLEN;
        return leave(PMI2_SUCCESS);
    }
    if (!pmi.session.table.array || shmht_array_info(pmi.session.table.array, &info) != 0)
        return leave(PMI2_ERR_OTHER);
    *values = shmht_array_values(pmi.session.table.array);
    *stride = (int)info.stride_bytes;
    return leave(PMI2_SUCCESS);
}

int PMIX_Iallgather(const char value[], void *buffer)
{
    int rc = buffer ? gather_check(value) : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? leave(pmi_code(gather_begin(value, buffer))) : rc;
}

int PMIX_Wait(void)
{
    int rc = enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    if (pmi.split == GATHER)
        rc = pmi.gather_to ? gather_complete(pmi.gather_to) : PMIWIRE_ESTATE;
    else
        rc = complete(FENCE);
    return leave(pmi_code(rc));
}

int PMIX_Allgather(const char value[], void *buffer)
{
    int rc = buffer ? gather_check(value) : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = gather_begin(value, buffer);
    return leave(pmi_code(rc == 0 ? gather_complete(buffer) : rc));
}

int PMI2_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue)
{
    struct ring ring = {0};
    struct pmiwire_str l, r;
    int rc = check_value(value, PMI2_MAX_VALLEN - 1);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (!rank || !ranks || !left || !right || maxvalue < 1)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (!pmi.alone)
        rc = session_ring(&pmi.session, pmi.info.rank, pmi.info.n_ranks, value, &ring);
    if (rc < 0)
        return leave(pmi_code(rc));
    l = pmiwire_strz(pmi.alone ? value : ring.left);
    r = pmiwire_strz(pmi.alone ? value : ring.right);
    if (l.len >= (size_t)maxvalue || r.len >= (size_t)maxvalue)
        return leave(PMI2_ERR_INVALID_VAL_LENGTH);
    give(l, left, maxvalue);
    give(r, right, maxvalue);
    *rank = ring.place;
    *ranks = pmi.info.n_ranks;
    return leave(PMI2_SUCCESS);
}

int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue)
{
    return PMI2_Ring(value, rank, ranks, left, right, maxvalue);
}

int PMIX_Ring_offered(void)
{
    if (enter() != PMI2_SUCCESS)
        return 0;
    return leave(pmi.alone || pmi.info.ext[PMIWIRE_EXT_EXCHANGE].ptr);
}

/* ---- attributes ---- */

/* What both kinds of attributes have in common: not found is no error. */
static int attribute(int rc, struct pmiwire_str text, char value[], int valuelen, int *found)
{
    *found = rc == 0;
    if (rc == PMIWIRE_ENOENT)
        return PMI2_SUCCESS;
    if (rc == 0 && give(text, value, valuelen) != 0)
        return PMI2_ERR_INVALID_VAL_LENGTH;
    return pmi_code(rc);
}

/* 3,1,4 */
static int numbers(const char *text, int array[], int arraylen, int *outlen)
{
    int n = 0;

    while (*text) {
        char *end;
        long v = strtol(text, &end, 10);

        if (end == text || (*end && *end != ',') || v != (int)v)
            return PMI2_ERR_INVALID_VAL;
        if (n < arraylen)
            array[n] = (int)v;
        n++;
        text = *end ? end + 1 : end;
    }
    *outlen = n;
    return n > arraylen ? PMI2_ERR_INVALID_LENGTH : PMI2_SUCCESS;
}

int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int *found, int waitfor)
{
    struct pmiwire_event ev = {0};
    const struct pair *own;
    int rc = check_key(name);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (!value || !found)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (pmi.alone) {
        own = pairs_find(&pmi.pairs, name);
        ev.value = pmiwire_strz(own ? own->value : "");
        rc = own ? 0 : PMIWIRE_ENOENT;
    } else {
        rc = ask(pmiwire_client_ask(client(),
                                    waitfor ? PMIWIRE_OP_NODEATTR_WAIT : PMIWIRE_OP_NODEATTR_GET,
                                    pmiwire_strz(name), SESSION_ASK),
                 &ev);
    }
    return leave(attribute(rc, ev.value, value, valuelen, found));
}

int PMI2_Info_PutNodeAttr(const char name[], const char value[])
{
    struct pmiwire_event ev;
    int rc = check_key(name);

    if (rc == PMI2_SUCCESS)
        rc = check_value(value, PMI2_MAX_ATTRVALUE);
    if (rc == PMI2_SUCCESS)
        rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (pmi.alone)
        rc = pairs_keep(&pmi.pairs, name, value);
    else
        rc = ask(pmiwire_client_nodeattr_put(client(), pmiwire_strz(name), pmiwire_strz(value),
                                             SESSION_ASK),
                 &ev);
    return leave(pmi_code(rc));
}

int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int *found)
{
    struct pmiwire_event ev = {0};
    int rc = check_key(name);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (!value || !found)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    rc =
        pmi.alone
            ? PMIWIRE_ENOENT
            : ask(pmiwire_client_ask(client(), PMIWIRE_OP_JOBATTR, pmiwire_strz(name), SESSION_ASK),
                  &ev);
    return leave(attribute(rc, ev.value, value, valuelen, found));
}

int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                  int *found)
{
    char text[PMI2_MAX_ATTRVALUE + 1];
    int rc;

    if (!array || !outlen || arraylen < 0)
        return PMI2_ERR_INVALID_ARG;
    rc = PMI2_Info_GetNodeAttr(name, text, sizeof(text), found, 0);
    return rc == PMI2_SUCCESS && *found ? numbers(text, array, arraylen, outlen) : rc;
}

int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                 int *found)
{
    char text[PMI2_MAX_ATTRVALUE + 1];
    int rc;

    if (!array || !outlen || arraylen < 0)
        return PMI2_ERR_INVALID_ARG;
    rc = PMI2_Info_GetJobAttr(name, text, sizeof(text), found);
    return rc == PMI2_SUCCESS && *found ? numbers(text, array, arraylen, outlen) : rc;
}

/* ---- names ---- */

/* Begin a request about a service name: PMI2_SUCCESS with the lock held and a server to ask. */
static int enter_name(const char *service, const char *other)
{
    int rc = service && other ? enter() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS && pmi.alone ? leave(PMI2_FAIL) : rc;
}

int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info *info_ptr,
                          const char port[])
{
    struct pmiwire_event ev;
    int rc = enter_name(service_name, port);

    (void)info_ptr; /* no key of it has a meaning */
    if (rc != PMI2_SUCCESS)
        return rc;
    rc = ask(pmiwire_client_publish(client(), pmiwire_strz(service_name), pmiwire_strz(port),
                                    SESSION_ASK),
             &ev);
    return leave(pmi_code(rc));
}

int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info *info_ptr, char port[],
                         int portLen)
{
    struct pmiwire_event ev;
    int rc = enter_name(service_name, port);

    (void)info_ptr;
    if (rc != PMI2_SUCCESS)
        return rc;
    rc = ask(
        pmiwire_client_ask(client(), PMIWIRE_OP_LOOKUP, pmiwire_strz(service_name), SESSION_ASK),
        &ev);
    if (rc == 0 && give(ev.value, port, portLen) != 0)
        return leave(PMI2_ERR_INVALID_VAL_LENGTH);
    return leave(pmi_code(rc));
}

int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info *info_ptr)
{
    struct pmiwire_event ev;
    int rc = enter_name(service_name, service_name);

    (void)info_ptr;
    if (rc != PMI2_SUCCESS)
        return rc;
    rc = ask(
        pmiwire_client_ask(client(), PMIWIRE_OP_UNPUBLISH, pmiwire_strz(service_name), SESSION_ASK),
        &ev);
    return leave(pmi_code(rc));
}

/* ---- spawn ---- */

static struct keyvals keyvals(const struct MPID_Info *first, int n)
{
    return (struct keyvals){first, first ? n : 0, sizeof(*first), offsetof(struct MPID_Info, key),
                            offsetof(struct MPID_Info, value)};
}

/* An array of pointers as one of structs; NULL with *n 0 when there are none, or no memory (*rc).
 */
static struct MPID_Info *collect(const struct MPID_Info **vector, int n, int *rc)
{
    struct MPID_Info *all = n > 0 && vector ? calloc((size_t)n, sizeof(*all)) : NULL;

    if (n > 0 && vector && !all)
        *rc = -ENOMEM;
    for (int i = 0; all && i < n; i++)
        if (vector[i])
            all[i] = *vector[i];
    return all;
}

static int spawn(struct pmiwire_spawn *req, int n_procs, char jobid[], int jobid_size, int errors[])
{
    struct pmiwire_event ev = {0};
    int rc = ask(pmiwire_client_spawn(client(), req, SESSION_ASK), &ev);

    if (errors)
        spawn_errcodes(rc == 0 ? ev.msg : NULL, errors, n_procs);
    if (rc == 0 && jobid && give(ev.value, jobid, jobid_size) != 0)
        rc = -EINVAL;
    return rc;
}

int PMI2_Job_Spawn(int count, const char *cmds[], int argcs[], const char **argvs[],
                   const int maxprocs[], const int info_keyval_sizes[],
                   const struct MPID_Info *info_keyval_vectors[], int preput_keyval_size,
                   const struct MPID_Info *preput_keyval_vector[], char jobId[], int jobIdSize,
                   int errors[])
{
    struct pmiwire_spawn_cmd *list;
    struct pmiwire_spawn req;
    struct MPID_Info *preputs;
    struct keyvals preput;
    int rc, n;

    if (preput_keyval_size < 0 || (n = spawn_count(count, cmds, maxprocs)) < 0)
        return PMI2_ERR_INVALID_ARG;
    rc = enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (pmi.alone)
        return leave(PMI2_FAIL);
    preputs = collect(preput_keyval_vector, preput_keyval_size, &rc);
    preput = keyvals(preputs, preput_keyval_size);
    list = rc == 0 ? spawn_begin(&req, count, &preput) : NULL;
    if (!list) {
        free(preputs);
        return leave(PMI2_ERR_NOMEM);
    }
    for (int i = 0; rc == 0 && i < count; i++) {
        int n_info = info_keyval_sizes && info_keyval_vectors ? info_keyval_sizes[i] : 0;
        struct keyvals info = keyvals(n_info > 0 ? info_keyval_vectors[i] : NULL, n_info);

        rc = spawn_describe(&list[i], cmds[i], argcs ? argcs[i] : -1, argvs ? argvs[i] : NULL,
                            maxprocs[i], &info);
    }
    if (rc == 0)
        rc = spawn(&req, n, jobId, jobIdSize, errors);
    for (int i = 0; errors && rc != 0 && i < n; i++)
        errors[i] = pmi_code(rc);
    spawn_release(&req);
    free(preputs);
    return leave(pmi_code(rc));
}

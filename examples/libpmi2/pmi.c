/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpmi.so.0: PMI-1's interface (pmi.h) over libpmiwire, for programs linked with Slurm's library
 * of that name. Slurm's own speaks Slurm's RPC to srun and so works under srun alone; this one
 * speaks PMI-1 to whoever gave it PMI_FD or PMI_PORT.
 *
 * A put goes out at once; PMI_KVS_Commit() has nothing left to do. Started without a launcher, a
 * program is alone: rank 0 of 1.
 *
 * What the wire has no request for: PMI_KVS_Create() and PMI_KVS_Destroy() fail with PMI_FAIL, and
 * the iterator yields the pairs that this process itself has put.
 *
 * Calls from several threads are served one at a time.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmiwire/mapping.h>

#include "common.h"
#include "pmi.h"
#include "session.h"

#define NAME_MAX_BYTES  256
#define KEY_MAX_BYTES   64
#define VALUE_MAX_BYTES 1024

static struct {
    pthread_mutex_t lock;
    int initialized,
        finalized; /* also when init has failed on a connection, which is then closed */
    int alone;     /* no launcher */
    struct session session;
    struct pmiwire_info_client info;
    char kvsname[NAME_MAX_BYTES];
    struct pairs pairs;
    struct pair *next; /* of the iterator */
} pmi = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void enter(void)
{
    pthread_mutex_lock(&pmi.lock);
}

static int leave(int rc)
{
    pthread_mutex_unlock(&pmi.lock);
    return rc;
}

/* PMI's own numbers for what it has a number for. */
static int pmi_code(int rc)
{
    switch (rc) {
    case 0: return PMI_SUCCESS;
    case -ENOMEM: return PMI_ERR_NOMEM;
    case PMIWIRE_EKEYLEN: return PMI_ERR_INVALID_KEY_LENGTH;
    case PMIWIRE_ELINE:
    case PMIWIRE_EVALLEN: return PMI_ERR_INVALID_VAL_LENGTH;
    case PMIWIRE_EVERSION: return PMI_ERR_OTHER;
    default: return PMI_FAIL;
    }
}

/* Ask, and wait for the answer. */
static int ask(int queued, struct pmiwire_event *ev)
{
    int rc = queued < 0 ? queued : session_wait(&pmi.session, ev);

    if (rc == PMIWIRE_EPEER && ev->peer_rc > 0 && ev->peer_rc <= PMI_ERR_INVALID_KVS)
        return ev->peer_rc;
    return pmi_code(rc);
}

static int give_number(const int *value, int *to)
{
    if (!to)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    *to = *value;
    return leave(PMI_SUCCESS);
}

/* ---- life ---- */

int PMI_Init(int *spawned)
{
    struct environment env;
    int rc;

    if (!spawned)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (pmi.initialized) {
        *spawned = pmi.info.spawned;
        return leave(PMI_SUCCESS);
    }
    if (pmi.finalized) /* PMI_FD is closed, and its number may be the program's own by now */
        return leave(PMI_FAIL);
    rc = environment_read(&env);
    if (rc < 0)
        return leave(PMI_FAIL);
    pmi.alone = env.fd < 0;
    if (pmi.alone) {
        pmi.info = (struct pmiwire_info_client){.n_ranks = 1};
        snprintf(pmi.kvsname, sizeof(pmi.kvsname), "singleton_%ld", (long)getpid());
    } else {
        const char *says = getenv("PMI_SPAWNED");

        rc = session_open(&pmi.session, &env, PMIWIRE_V1);
        if (rc < 0) {
            pmi.finalized = 1;
            return leave(pmi_code(rc));
        }
        pmiwire_client_query(pmi.session.client, &pmi.info);
        pmi.info.spawned |= says && atoi(says) != 0;
        if (give(pmi.info.kvsname, pmi.kvsname, sizeof(pmi.kvsname)) != 0) {
            session_close(&pmi.session);
            pmi.finalized = 1;
            return leave(PMI_FAIL);
        }
    }
    pmi.initialized = 1;
    *spawned = pmi.info.spawned ? PMI_TRUE : PMI_FALSE;
    return leave(PMI_SUCCESS);
}

int PMI_Initialized(PMI_BOOL *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    enter();
    *initialized = pmi.initialized ? PMI_TRUE : PMI_FALSE;
    return leave(PMI_SUCCESS);
}

int PMI_Finalize(void)
{
    struct pmiwire_event ev;
    int rc = PMI_SUCCESS;

    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (!pmi.alone) {
        rc = ask(pmiwire_client_finalize(pmi.session.client, 0), &ev);
        session_close(&pmi.session);
    }
    pairs_free(&pmi.pairs);
    pmi.next = NULL;
    pmi.initialized = 0;
    pmi.finalized = 1;
    return leave(rc);
}

int PMI_Abort(int exit_code, const char error_msg[])
{
    char text[256] = "";
    struct pmiwire_event ev;

    enter();
    if (pmi.initialized && !pmi.alone) {
        /* PMI-1 cannot write a space, and a launcher has little use for more than a line. */
        snprintf(text, sizeof(text), "%s", error_msg ? error_msg : "");
        for (char *p = text; *p; p++)
            if (*p <= ' ' || *p > '~' || *p == '=')
                *p = '_';
        ask(pmiwire_client_abort(pmi.session.client, exit_code, pmiwire_strz(text), 0), &ev);
    }
    if (error_msg)
        fprintf(stderr, "PMI_Abort: %s\n", error_msg);
    leave(0); /* what runs at exit may finalize */
    exit(exit_code);
}

/* ---- what the job is ---- */

int PMI_Get_size(int *size)
{
    return give_number(&pmi.info.n_ranks, size);
}

int PMI_Get_rank(int *rank)
{
    return give_number(&pmi.info.rank, rank);
}

int PMI_Get_appnum(int *appnum)
{
    return give_number(&pmi.info.appnum, appnum);
}

int PMI_Get_universe_size(int *size)
{
    struct pmiwire_event ev = {.number = 1};
    int rc = PMI_SUCCESS;

    if (!size)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (!pmi.alone)
        rc = ask(
            pmiwire_client_ask(pmi.session.client, PMIWIRE_OP_UNIVERSE_SIZE, pmiwire_strz(NULL), 0),
            &ev);
    if (rc == PMI_SUCCESS)
        *size = ev.number;
    return leave(rc);
}

int PMI_Get_id(char id_str[], int length)
{
    return PMI_KVS_Get_my_name(id_str, length);
}

int PMI_Get_kvs_domain_id(char id_str[], int length)
{
    return PMI_KVS_Get_my_name(id_str, length);
}

int PMI_Get_id_length_max(int *length)
{
    return PMI_KVS_Get_name_length_max(length);
}

int PMI_Barrier(void)
{
    struct pmiwire_event ev;

    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    return leave(pmi.alone
                     ? PMI_SUCCESS
                     : ask(pmiwire_client_fence(pmi.session.client, pmiwire_strz(NULL), 0), &ev));
}

/* ---- the ranks of this node, from PMI_process_mapping ---- */

/* Node of each rank, malloced; NULL with *rc set. Without a mapping every rank is taken to be on a
 * node of its own. */
static uint32_t *nodes(int *rc)
{
    uint32_t n_ranks = (uint32_t)pmi.info.n_ranks, n_blocks = 0;
    struct pmiwire_mapping_block *blocks = NULL;
    uint32_t *node_of = calloc(n_ranks, sizeof(*node_of));
    struct pmiwire_event ev;
    int err;

    *rc = node_of ? PMI_SUCCESS : PMI_ERR_NOMEM;
    if (!node_of || pmi.alone)
        return node_of;
    *rc = ask(pmiwire_client_ask(pmi.session.client, PMIWIRE_OP_JOBATTR,
                                 pmiwire_strz("PMI_process_mapping"), 0),
              &ev);
    if (*rc != PMI_SUCCESS) {
        for (uint32_t i = 0; i < n_ranks; i++)
            node_of[i] = i;
        *rc = PMI_SUCCESS;
        return node_of;
    }
    err = pmiwire_mapping_parse(ev.value, NULL, 0, &n_blocks, NULL);
    if (err == PMIWIRE_ENOBUF)
        blocks = calloc(n_blocks, sizeof(*blocks));
    if (!blocks || pmiwire_mapping_parse(ev.value, blocks, n_blocks, &n_blocks, NULL) != 0 ||
        pmiwire_mapping_expand(blocks, n_blocks, n_ranks, node_of) != 0) {
        *rc = err == PMIWIRE_ENOBUF && !blocks ? PMI_ERR_NOMEM : PMI_FAIL;
        free(node_of);
        node_of = NULL;
    }
    free(blocks);
    return node_of;
}

/* Count the ranks of this node, and write them where ranks is not NULL. */
static int clique(int ranks[], int length, int *size)
{
    uint32_t *node_of;
    int rc, n = 0;

    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    node_of = nodes(&rc);
    for (int i = 0; node_of && i < pmi.info.n_ranks; i++) {
        if (node_of[i] != node_of[pmi.info.rank])
            continue;
        if (ranks && n >= length) {
            rc = PMI_ERR_INVALID_LENGTH;
            break;
        }
        if (ranks)
            ranks[n] = i;
        n++;
    }
    free(node_of);
    if (rc == PMI_SUCCESS && size)
        *size = n;
    return leave(rc);
}

int PMI_Get_clique_size(int *size)
{
    return size ? clique(NULL, 0, size) : PMI_ERR_INVALID_ARG;
}

int PMI_Get_clique_ranks(int ranks[], int length)
{
    return ranks ? clique(ranks, length, NULL) : PMI_ERR_INVALID_ARG;
}

/* ---- names ---- */

int PMI_Publish_name(const char service_name[], const char port[])
{
    struct pmiwire_event ev;

    if (!service_name || !port)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (pmi.alone)
        return leave(PMI_FAIL);
    return leave(ask(pmiwire_client_publish(pmi.session.client, pmiwire_strz(service_name),
                                            pmiwire_strz(port), 0),
                     &ev));
}

int PMI_Unpublish_name(const char service_name[])
{
    struct pmiwire_event ev;

    if (!service_name)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (pmi.alone)
        return leave(PMI_FAIL);
    return leave(ask(
        pmiwire_client_ask(pmi.session.client, PMIWIRE_OP_UNPUBLISH, pmiwire_strz(service_name), 0),
        &ev));
}

/* The interface has no length: callers must have PMI_KVS_Get_value_length_max() bytes. */
int PMI_Lookup_name(const char service_name[], char port[])
{
    struct pmiwire_event ev;
    int rc;

    if (!service_name || !port)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (pmi.alone)
        return leave(PMI_FAIL);
    rc = ask(
        pmiwire_client_ask(pmi.session.client, PMIWIRE_OP_LOOKUP, pmiwire_strz(service_name), 0),
        &ev);
    if (rc == PMI_SUCCESS && give(ev.value, port, VALUE_MAX_BYTES) != 0)
        rc = PMI_FAIL;
    return leave(rc);
}

/* ---- key-value space ---- */

int PMI_KVS_Get_my_name(char kvsname[], int length)
{
    if (!kvsname)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    return leave(give(pmiwire_strz(pmi.kvsname), kvsname, length) == 0 ? PMI_SUCCESS
                                                                       : PMI_ERR_INVALID_LENGTH);
}

/* Advertised by the server; alone, the usual. */
static int give_max(const int *advertised, int usual, int *to)
{
    int rc = give_number(advertised, to);

    if (rc == PMI_SUCCESS && *to == 0)
        *to = usual;
    return rc;
}

int PMI_KVS_Get_name_length_max(int *length)
{
    return give_max(&pmi.info.kvsname_max, NAME_MAX_BYTES, length);
}

int PMI_KVS_Get_key_length_max(int *length)
{
    return give_max(&pmi.info.keylen_max, KEY_MAX_BYTES, length);
}

int PMI_KVS_Get_value_length_max(int *length)
{
    return give_max(&pmi.info.vallen_max, VALUE_MAX_BYTES, length);
}

int PMI_KVS_Create(char kvsname[], int length)
{
    (void)kvsname, (void)length;
    return PMI_FAIL;
}

int PMI_KVS_Destroy(const char kvsname[])
{
    (void)kvsname;
    return PMI_FAIL;
}

int PMI_KVS_Put(const char kvsname[], const char key[], const char value[])
{
    return PMI_KVS_Put_hinted(kvsname, key, value, PMI_HINT_NONE);
}

int PMI_KVS_Put_hinted(const char kvsname[], const char key[], const char value[], int hint)
{
    struct pmiwire_event ev;
    int rc = PMI_SUCCESS;

    if (!kvsname)
        return PMI_ERR_INVALID_KVS;
    if (!key || !*key)
        return PMI_ERR_INVALID_KEY;
    if (!value)
        return PMI_ERR_INVALID_VAL;
    if (hint < PMI_HINT_NONE || hint > PMI_HINT_DENSE)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (strcmp(kvsname, pmi.kvsname) != 0)
        return leave(PMI_ERR_INVALID_KVS);
    if (!pmi.alone)
        rc = ask(pmiwire_client_put(pmi.session.client, pmiwire_strz(key), pmiwire_strz(value),
                                    (uint32_t)hint, 0),
                 &ev);
    if (rc == PMI_SUCCESS)
        rc = pmi_code(pairs_keep(&pmi.pairs, key, value));
    return leave(rc);
}

int PMI_KVS_Commit(const char kvsname[])
{
    if (!kvsname)
        return PMI_ERR_INVALID_KVS;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    return leave(strcmp(kvsname, pmi.kvsname) == 0 ? PMI_SUCCESS : PMI_ERR_INVALID_KVS);
}

/* Before a get: PMI_SUCCESS, with the lock held. */
static int enter_get(const char *kvsname, const char *key, const char *value)
{
    if (!kvsname)
        return PMI_ERR_INVALID_KVS;
    if (!key || !*key)
        return PMI_ERR_INVALID_KEY;
    if (!value)
        return PMI_ERR_INVALID_VAL;
    enter();
    return pmi.initialized ? PMI_SUCCESS : leave(PMI_ERR_INIT);
}

/* And after it. */
static int leave_get(int rc, struct pmiwire_str view, char value[], int length)
{
    if (rc == 0 && give(view, value, length) != 0)
        return leave(PMI_ERR_INVALID_VAL_LENGTH);
    return leave(pmi_code(rc));
}

/* What this process, which is alone, has put. */
static int get_own(const char *key, struct pmiwire_str *value)
{
    const struct pair *own = pairs_find(&pmi.pairs, key);

    *value = pmiwire_strz(own ? own->value : "");
    return own ? 0 : PMIWIRE_ENOENT;
}

int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length)
{
    struct pmiwire_str view = {0};
    int rc = enter_get(kvsname, key, value), own_space;

    if (rc != PMI_SUCCESS)
        return rc;
    own_space = strcmp(kvsname, pmi.kvsname) == 0;
    if (pmi.alone)
        rc = own_space ? get_own(key, &view) : PMIWIRE_ENOENT;
    else
        rc = session_get(&pmi.session, pmiwire_strz(own_space ? NULL : kvsname), -1,
                         pmiwire_strz(key), &view);
    return leave_get(rc, view, value, length);
}

int PMI_KVS_Get_wait(const char kvsname[], int source, const char key[], char value[], int length)
{
    struct pmiwire_str view = {0};
    int rc = enter_get(kvsname, key, value);

    if (rc != PMI_SUCCESS)
        return rc;
    if (strcmp(kvsname, pmi.kvsname) != 0)
        return leave(PMI_ERR_INVALID_KVS);
    if (source < -1 || source >= pmi.info.n_ranks)
        return leave(PMI_ERR_INVALID_ARG);
    if (pmi.alone)
        rc = get_own(key, &view);
    else
        rc = session_get_wait(&pmi.session, source, pmiwire_strz(key), &view);
    return leave_get(rc, view, value, length);
}

int PMI_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue)
{
    struct ring ring = {0};
    int rc = 0;

    if (!value || !*value)
        return PMI_ERR_INVALID_VAL;
    if (strlen(value) > PMI_RING_MAX) /* the answer carries two of them */
        return PMI_ERR_INVALID_VAL_LENGTH;
    if (!rank || !ranks || !left || !right || maxvalue < 1)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (pmi.alone) {
        give(pmiwire_strz(value), ring.left, sizeof(ring.left));
        give(pmiwire_strz(value), ring.right, sizeof(ring.right));
    } else {
        rc = session_ring(&pmi.session, pmi.info.rank, pmi.info.n_ranks, value, &ring);
    }
    if (rc < 0)
        return leave(pmi_code(rc));
    if (strlen(ring.left) >= (size_t)maxvalue || strlen(ring.right) >= (size_t)maxvalue)
        return leave(PMI_ERR_INVALID_VAL_LENGTH);
    give(pmiwire_strz(ring.left), left, maxvalue);
    give(pmiwire_strz(ring.right), right, maxvalue);
    *rank = ring.place;
    *ranks = pmi.info.n_ranks;
    return leave(PMI_SUCCESS);
}

int PMI_SHMEM_Counts(unsigned long *n_read, unsigned long *n_asked)
{
    if (!n_read || !n_asked)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    *n_read = pmi.session.n_read;
    *n_asked = pmi.session.n_asked;
    return leave(PMI_SUCCESS);
}

static int iterate(const char kvsname[], char key[], int key_len, char val[], int val_len,
                   int first)
{
    struct pair *p;

    if (!kvsname)
        return PMI_ERR_INVALID_KVS;
    if (!key || key_len <= 0)
        return PMI_ERR_INVALID_KEY;
    if (!val || val_len <= 0)
        return PMI_ERR_INVALID_VAL;
    enter();
    if (!pmi.initialized)
        return leave(PMI_ERR_INIT);
    if (strcmp(kvsname, pmi.kvsname) != 0)
        return leave(PMI_ERR_INVALID_KVS);
    p = first ? pmi.pairs.first : pmi.next;
    if (!p) {
        key[0] = val[0] = '\0';
        return leave(PMI_SUCCESS);
    }
    if (give(pmiwire_strz(p->key), key, key_len) != 0)
        return leave(PMI_ERR_INVALID_KEY_LENGTH);
    if (give(pmiwire_strz(p->value), val, val_len) != 0)
        return leave(PMI_ERR_INVALID_VAL_LENGTH);
    pmi.next = p->next;
    return leave(PMI_SUCCESS);
}

int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    return iterate(kvsname, key, key_len, val, val_len, 1);
}

int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    return iterate(kvsname, key, key_len, val, val_len, 0);
}

/* ---- spawn ---- */

static struct keyvals keyvals(const PMI_keyval_t *first, int n)
{
    return (struct keyvals){first, first ? n : 0, sizeof(PMI_keyval_t), offsetof(PMI_keyval_t, key),
                            offsetof(PMI_keyval_t, val)};
}

int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[],
                       int errors[])
{
    const struct keyvals preput = keyvals(preput_keyval_vector, preput_keyval_size);
    struct pmiwire_spawn_cmd *list;
    struct pmiwire_spawn req;
    struct pmiwire_event ev;
    int rc = PMI_SUCCESS, n;

    if (preput_keyval_size < 0 || (n = spawn_count(count, cmds, maxprocs)) < 0)
        return PMI_ERR_INVALID_ARG;
    enter();
    if (!pmi.initialized || pmi.alone)
        return leave(pmi.initialized ? PMI_FAIL : PMI_ERR_INIT);
    list = spawn_begin(&req, count, &preput);
    if (!list)
        return leave(PMI_ERR_NOMEM);
    for (int i = 0; rc == PMI_SUCCESS && i < count; i++) {
        int n_info = info_keyval_sizesp && info_keyval_vectors ? info_keyval_sizesp[i] : 0;
        struct keyvals info = keyvals(n_info > 0 ? info_keyval_vectors[i] : NULL, n_info);

        rc = pmi_code(
            spawn_describe(&list[i], cmds[i], -1, argvs ? argvs[i] : NULL, maxprocs[i], &info));
    }
    if (rc == PMI_SUCCESS)
        rc = ask(pmiwire_client_spawn(pmi.session.client, &req, 0), &ev);
    if (errors)
        spawn_errcodes(rc == PMI_SUCCESS ? ev.msg : NULL, errors, n);
    for (int i = 0; errors && rc != PMI_SUCCESS && i < n; i++)
        errors[i] = rc;
    spawn_release(&req);
    return leave(rc);
}

/* ---- options on the command line: this implementation has none ---- */

int PMI_Parse_option(int num_args, char *args[], int *num_parsed, PMI_keyval_t **keyvalp, int *size)
{
    if (num_args < 1)
        return PMI_ERR_INVALID_NUM_ARGS;
    if (!args)
        return PMI_ERR_INVALID_ARGS;
    if (!num_parsed)
        return PMI_ERR_INVALID_NUM_PARSED;
    if (!keyvalp)
        return PMI_ERR_INVALID_KEYVALP;
    if (!size)
        return PMI_ERR_INVALID_SIZE;
    *num_parsed = 0;
    *keyvalp = NULL;
    *size = 0;
    return PMI_SUCCESS;
}

int PMI_Args_to_keyval(int *argcp, char *((*argvp)[]), PMI_keyval_t **keyvalp, int *size)
{
    if (!argcp || !argvp || !keyvalp || !size)
        return PMI_ERR_INVALID_ARG;
    *keyvalp = NULL;
    *size = 0;
    return PMI_SUCCESS;
}

int PMI_Free_keyvals(PMI_keyval_t keyvalp[], int size)
{
    if (size < 0 || (size > 0 && !keyvalp))
        return PMI_ERR_INVALID_ARG;
    return PMI_SUCCESS; /* nothing here ever hands any out */
}

int PMI_Get_options(char *str, int *length)
{
    if (!str || !length)
        return PMI_ERR_INVALID_ARG;
    if (*length < 1)
        return PMI_ERR_INVALID_LENGTH;
    str[0] = '\0';
    *length = 0;
    return PMI_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpmi.so.0: PMI-1's interface (pmi.h) over libpmiwire, for programs linked with Slurm's library
 * of that name. Slurm's own uses Slurm's RPC to srun, and so works under srun only; this one speaks
 * PMI-1 to the server that set PMI_FD or PMI_PORT.
 *
 * A put is sent at once; PMI_KVS_Commit() does nothing. Without a launcher, a program is rank 0 of
 * 1.
 *
 * Calls without a request on the wire: PMI_KVS_Create() and PMI_KVS_Destroy() fail with PMI_FAIL;
 * the iterator yields the pairs that this process itself has put.
 *
 * Calls from several threads are served one at a time.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmiwire/mapping.h>

#include "core.h"
#include "ops.h"
#include "pmi.h"
#include "spawn.h"

#define KEY_MAX_BYTES   64
#define VALUE_MAX_BYTES 1024

static struct pair *next_pair; /* of the iterator */

/* PMI's number for what libpmiwire returned, or the server's own. */
static int pmi1_code(int rc)
{
    if (rc == PMIWIRE_EPEER && core.session.peer_rc > 0 &&
        core.session.peer_rc <= PMI_ERR_INVALID_KVS)
        return core.session.peer_rc;
    return rc == PMIWIRE_EVERSION ? PMI_ERR_OTHER : core_code(rc);
}

static int pmi1_leave(int rc)
{
    return core_leave(pmi1_code(rc));
}

/* ---- life ---- */

int PMI_Init(int *spawned)
{
    char name[32];
    int rc;

    if (!spawned)
        return PMI_ERR_INVALID_ARG;
    snprintf(name, sizeof(name), "singleton_%ld", (long)getpid());
    rc = core_init(PMIWIRE_V1, name, pmi1_code);
    if (rc != PMI_SUCCESS)
        return rc;
    *spawned = core_info()->spawned ? PMI_TRUE : PMI_FALSE;
    return core_leave(PMI_SUCCESS);
}

int PMI_Initialized(PMI_BOOL *initialized)
{
    if (!initialized)
        return PMI_ERR_INVALID_ARG;
    *initialized = core_enter() == PMI_SUCCESS ? PMI_TRUE : PMI_FALSE;
    if (*initialized)
        core_leave(0);
    return PMI_SUCCESS;
}

int PMI_Finalize(void)
{
    int rc = core_enter();

    if (rc != PMI_SUCCESS)
        return rc;
    next_pair = NULL;
    return pmi1_leave(core_end());
}

int PMI_Abort(int exit_code, const char error_msg[])
{
    char text[256] = "";

    if (error_msg)
        fprintf(stderr, "PMI_Abort: %s\n", error_msg);
    /* PMI-1 cannot write a space, and launchers print one line only. */
    snprintf(text, sizeof(text), "%s", error_msg ? error_msg : "");
    for (char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '=')
            *p = '_';
    core_abort(exit_code, text);
}

/* ---- what the job is ---- */

int PMI_Get_size(int *size)
{
    return core_number(&core_info()->n_ranks, size);
}

int PMI_Get_rank(int *rank)
{
    return core_number(&core_info()->rank, rank);
}

int PMI_Get_appnum(int *appnum)
{
    return core_number(&core_info()->appnum, appnum);
}

int PMI_Get_universe_size(int *size)
{
    struct pmiwire_event ev = {.number = 1};
    int rc = size ? core_enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    if (!core.alone)
        rc = core_ask_about(PMIWIRE_OP_UNIVERSE_SIZE, NULL, &ev);
    if (rc == 0)
        *size = ev.number;
    return pmi1_leave(rc);
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
    struct op *op;
    int rc = core_enter();

    if (rc != PMI_SUCCESS)
        return rc;
    rc = op_fence(1, &op);
    return pmi1_leave(rc == 0 ? op_complete(op, NULL, NULL) : rc);
}

int PMI_Ibarrier(void)
{
    struct op *op;
    int rc = core_enter();

    return rc == PMI_SUCCESS ? pmi1_leave(op_fence(0, &op)) : rc;
}

int PMI_Wait(void)
{
    int rc = core_enter();

    return rc == PMI_SUCCESS ? pmi1_leave(op_complete(op_oldest(OP_FENCE), NULL, NULL)) : rc;
}

int PMI_Test(int *done)
{
    int rc = done ? core_enter() : PMI_ERR_INVALID_ARG;

    return rc == PMI_SUCCESS ? pmi1_leave(op_complete(op_oldest(OP_FENCE), NULL, done)) : rc;
}

/* ---- the ranks of this node, from PMI_process_mapping ---- */

/* Node of each rank, malloced. Without a mapping every rank counts as on a node of its own. 0,
 * -ENOMEM or PMIWIRE_E*. */
static int read_nodes(uint32_t **nodes_of)
{
    uint32_t n_ranks = (uint32_t)core_info()->n_ranks, n_blocks = 0;
    struct pmiwire_mapping_block *blocks = NULL;
    uint32_t *node_of = calloc(n_ranks, sizeof(*node_of));
    struct pmiwire_event ev;
    int rc;

    *nodes_of = node_of;
    if (!node_of || core.alone)
        return node_of ? 0 : -ENOMEM;
    rc = core_ask_about(PMIWIRE_OP_JOBATTR, "PMI_process_mapping", &ev);
    if (rc == PMIWIRE_ENOENT || rc == PMIWIRE_EPEER) {
        for (uint32_t i = 0; i < n_ranks; i++)
            node_of[i] = i;
        return 0;
    }
    if (rc < 0)
        return rc;
    rc = pmiwire_mapping_parse(ev.value, NULL, 0, &n_blocks, NULL);
    if (rc == PMIWIRE_ENOBUF) {
        blocks = calloc(n_blocks, sizeof(*blocks));
        rc = blocks ? pmiwire_mapping_parse(ev.value, blocks, n_blocks, &n_blocks, NULL) : -ENOMEM;
    }
    if (rc == 0)
        rc = pmiwire_mapping_expand(blocks, n_blocks, n_ranks, node_of);
    free(blocks);
    return rc;
}

/* Count the ranks of this node, and write them where ranks is not NULL. */
static int get_clique(int ranks[], int length, int *size)
{
    uint32_t *node_of = NULL;
    int rc = core_enter(), n = 0;

    if (rc != PMI_SUCCESS)
        return rc;
    rc = pmi1_code(read_nodes(&node_of));
    for (int i = 0; rc == PMI_SUCCESS && i < core_info()->n_ranks; i++) {
        if (node_of[i] != node_of[core_info()->rank])
            continue;
        if (ranks && n >= length)
            rc = PMI_ERR_INVALID_LENGTH;
        else if (ranks)
            ranks[n] = i;
        n++;
    }
    free(node_of);
    if (rc == PMI_SUCCESS && size)
        *size = n;
    return core_leave(rc);
}

int PMI_Get_clique_size(int *size)
{
    return size ? get_clique(NULL, 0, size) : PMI_ERR_INVALID_ARG;
}

int PMI_Get_clique_ranks(int ranks[], int length)
{
    return ranks ? get_clique(ranks, length, NULL) : PMI_ERR_INVALID_ARG;
}

/* ---- names ---- */

int PMI_Publish_name(const char service_name[], const char port[])
{
    int rc = service_name && port ? core_enter_job() : PMI_ERR_INVALID_ARG;

    return rc == PMI_SUCCESS ? pmi1_leave(core_publish(service_name, port)) : rc;
}

int PMI_Unpublish_name(const char service_name[])
{
    int rc = service_name ? core_enter_job() : PMI_ERR_INVALID_ARG;

    return rc == PMI_SUCCESS ? pmi1_leave(core_unpublish(service_name)) : rc;
}

/* The interface has no length: callers must have PMI_KVS_Get_value_length_max() bytes. */
int PMI_Lookup_name(const char service_name[], char port[])
{
    int rc = service_name && port ? core_enter_job() : PMI_ERR_INVALID_ARG, max;

    if (rc != PMI_SUCCESS)
        return rc;
    max = core_info()->vallen_max;
    if (max <= 0 || max > VALUE_MAX_BYTES)
        max = VALUE_MAX_BYTES;
    return pmi1_leave(core_lookup(service_name, port, max));
}

/* ---- key-value space ---- */

int PMI_KVS_Get_my_name(char kvsname[], int length)
{
    int rc = kvsname ? core_enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    return core_leave(give(pmiwire_strz(core.name), kvsname, length) == 0 ? PMI_SUCCESS
                                                                          : PMI_ERR_INVALID_LENGTH);
}

/* Advertised by the server; without a launcher, the usual ones. */
static int give_max(const int *advertised, int usual, int *to)
{
    int rc = core_number(advertised, to);

    if (rc == PMI_SUCCESS && *to == 0)
        *to = usual;
    return rc;
}

int PMI_KVS_Get_name_length_max(int *length)
{
    return give_max(&core_info()->kvsname_max, CORE_NAME_BYTES, length);
}

int PMI_KVS_Get_key_length_max(int *length)
{
    return give_max(&core_info()->keylen_max, KEY_MAX_BYTES, length);
}

int PMI_KVS_Get_value_length_max(int *length)
{
    return give_max(&core_info()->vallen_max, VALUE_MAX_BYTES, length);
}

int PMI_KVS_Create(char kvsname[], int length)
{
    (void)kvsname, (void)length;
    return PMI_FAIL;
}

int PMI_KVS_Destroy(const char kvsname[])
{
    return PMI_FAIL;
}

int PMI_KVS_Put(const char kvsname[], const char key[], const char value[])
{
    return PMI_KVS_Put_hinted(kvsname, key, value, PMI_HINT_NONE);
}

/* PMI_SUCCESS, with the lock held, if the space is our own. */
static int enter_space(const char *kvsname)
{
    int rc = kvsname ? core_enter() : PMI_ERR_INVALID_KVS;

    if (rc == PMI_SUCCESS && strcmp(kvsname, core.name) != 0)
        rc = core_leave(PMI_ERR_INVALID_KVS);
    return rc;
}

/* Argument checks of puts and gets. */
static int check_pair(const char *kvsname, const char *key, const char *value)
{
    if (!kvsname)
        return PMI_ERR_INVALID_KVS;
    if (!key || !*key)
        return PMI_ERR_INVALID_KEY;
    return value ? PMI_SUCCESS : PMI_ERR_INVALID_VAL;
}

int PMI_KVS_Put_hinted(const char kvsname[], const char key[], const char value[], int hint)
{
    int rc = check_pair(kvsname, key, value);

    if (rc == PMI_SUCCESS && (hint < PMI_HINT_NONE || hint > PMI_HINT_DENSE))
        rc = PMI_ERR_INVALID_ARG;
    if (rc == PMI_SUCCESS)
        rc = enter_space(kvsname);
    return rc == PMI_SUCCESS ? pmi1_leave(core_put(key, value, hint)) : rc;
}

int PMI_KVS_Put_refused(char key[], int keylen, int *error)
{
    int rc = key && error ? core_enter() : PMI_ERR_INVALID_ARG, why = 0;

    if (rc != PMI_SUCCESS)
        return rc;
    rc = op_refused(key, keylen, &why);
    if (rc == 0)
        *error = pmi1_code(why);
    return pmi1_leave(rc);
}

int PMI_KVS_Commit(const char kvsname[])
{
    int rc = enter_space(kvsname);

    return rc == PMI_SUCCESS ? core_leave(rc) : rc;
}

/* After a get. */
static int pmi1_leave_get(int rc, struct pmiwire_str view, char value[], int length)
{
    return pmi1_leave(rc == 0 && give(view, value, length) != 0 ? PMIWIRE_EVALLEN : rc);
}

int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length)
{
    struct pmiwire_str view = {0};
    int rc = check_pair(kvsname, key, value);

    if (rc == PMI_SUCCESS)
        rc = core_enter();
    if (rc != PMI_SUCCESS)
        return rc;
    rc = core_get(kvsname, -1, key, &view);
    return pmi1_leave_get(rc, view, value, length);
}

int PMI_KVS_Get_wait(const char kvsname[], int source, const char key[], char value[], int length)
{
    struct pmiwire_str view = {0};
    int rc = check_pair(kvsname, key, value);

    if (rc == PMI_SUCCESS)
        rc = enter_space(kvsname);
    if (rc != PMI_SUCCESS)
        return rc;
    rc = core_get_wait(source, key, &view);
    return pmi1_leave_get(rc, view, value, length);
}

int PMI_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue)
{
    int rc;

    if (!value || !*value)
        return PMI_ERR_INVALID_VAL;
    if (strlen(value) > PMI_RING_MAX) /* the answer carries two of them */
        return PMI_ERR_INVALID_VAL_LENGTH;
    if (!rank || !ranks || !left || !right || maxvalue < 1)
        return PMI_ERR_INVALID_ARG;
    rc = core_enter();
    return rc == PMI_SUCCESS ? pmi1_leave(core_ring(value, rank, ranks, left, right, maxvalue))
                             : rc;
}

int PMI_SHMEM_Counts(unsigned long *n_read, unsigned long *n_asked)
{
    int rc = n_read && n_asked ? core_enter() : PMI_ERR_INVALID_ARG;

    if (rc != PMI_SUCCESS)
        return rc;
    *n_read = core.session.n_read;
    *n_asked = core.session.n_asked;
    return core_leave(PMI_SUCCESS);
}

static int iterate_pairs(const char kvsname[], char key[], int key_len, char val[], int val_len,
                         int first)
{
    struct pair *p;
    int rc;

    if (!kvsname)
        return PMI_ERR_INVALID_KVS;
    if (!key || key_len <= 0)
        return PMI_ERR_INVALID_KEY;
    if (!val || val_len <= 0)
        return PMI_ERR_INVALID_VAL;
    rc = enter_space(kvsname);
    if (rc != PMI_SUCCESS)
        return rc;
    p = first ? core.pairs.first : next_pair;
    if (!p) {
        key[0] = val[0] = '\0';
        return core_leave(PMI_SUCCESS);
    }
    if (give(pmiwire_strz(p->key), key, key_len) != 0)
        return core_leave(PMI_ERR_INVALID_KEY_LENGTH);
    if (give(pmiwire_strz(p->value), val, val_len) != 0)
        return core_leave(PMI_ERR_INVALID_VAL_LENGTH);
    next_pair = p->next;
    return core_leave(PMI_SUCCESS);
}

int PMI_KVS_Iter_first(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    return iterate_pairs(kvsname, key, key_len, val, val_len, 1);
}

int PMI_KVS_Iter_next(const char kvsname[], char key[], int key_len, char val[], int val_len)
{
    return iterate_pairs(kvsname, key, key_len, val, val_len, 0);
}

/* ---- spawn ---- */

static struct keyvals pmi1_keyvals(const PMI_keyval_t *first, int n)
{
    return (struct keyvals){first, first ? n : 0, sizeof(PMI_keyval_t), offsetof(PMI_keyval_t, key),
                            offsetof(PMI_keyval_t, val)};
}

int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[],
                       int errors[])
{
    const struct keyvals preput = pmi1_keyvals(preput_keyval_vector, preput_keyval_size);
    struct pmiwire_spawn_cmd *list;
    struct pmiwire_spawn req;
    struct pmiwire_event ev;
    int rc, n;

    n = preput_keyval_size < 0 ? -EINVAL : spawn_count(count, cmds, maxprocs);
    if (n < 0)
        return PMI_ERR_INVALID_ARG;
    rc = core_enter_job();
    if (rc != PMI_SUCCESS)
        return rc;
    list = spawn_begin(&req, count, &preput);
    if (!list)
        return core_leave(PMI_ERR_NOMEM);
    for (int i = 0; rc == 0 && i < count; i++) {
        int n_info = info_keyval_sizesp && info_keyval_vectors ? info_keyval_sizesp[i] : 0;
        struct keyvals infos = pmi1_keyvals(n_info > 0 ? info_keyval_vectors[i] : NULL, n_info);

        rc = spawn_describe(&list[i], cmds[i], -1, argvs ? argvs[i] : NULL, maxprocs[i], &infos);
    }
    if (rc == 0)
        rc = core_ask(pmiwire_client_spawn(session_ready(&core.session), &req, SESSION_ASK), &ev);
    if (errors)
        spawn_errcodes(rc == 0 ? ev.msg : NULL, errors, n);
    for (int i = 0; errors && rc != 0 && i < n; i++)
        errors[i] = pmi1_code(rc);
    spawn_release(&req);
    return pmi1_leave(rc);
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
    return PMI_SUCCESS; /* this implementation never allocates any */
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

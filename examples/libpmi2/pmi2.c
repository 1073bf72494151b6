/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpmi2.so.0: PMI-2's interface (pmi2.h) over libpmiwire. Without a launcher, a program is rank 0
 * of 1.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "ops.h"
#include "pmi2.h"
#include "spawn.h"

#define EXIT_ABORT 1

/* Leave with PMI's code for libpmiwire's result. OTHER: this server lacks the feature. */
static int pmi2_code(int rc)
{
    return rc == PMIWIRE_EPEER || rc == PMIWIRE_EVERSION ? PMI2_ERR_OTHER : core_code(rc);
}

static int pmi2_leave(int rc)
{
    return core_leave(pmi2_code(rc));
}

/* ---- life ---- */

int PMI2_Init(int *spawned, int *size, int *rank, int *appnum)
{
    int rc = core_init(PMIWIRE_V2, "singleton", pmi2_code);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (spawned)
        *spawned = core_info()->spawned != 0;
    if (size)
        *size = core_info()->n_ranks;
    if (rank)
        *rank = core_info()->rank;
    if (appnum)
        *appnum = core_info()->appnum;
    return core_leave(PMI2_SUCCESS);
}

int PMI2_Initialized(void)
{
    return core_enter() == PMI2_SUCCESS ? core_leave(1) : 0;
}

int PMI2_Finalize(void)
{
    int rc = core_enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    return pmi2_leave(core_end());
}

int PMI2_Abort(int flag, const char msg[])
{
    (void)flag; /* no launcher can end a single process */
    if (msg)
        fprintf(stderr, "PMI2_Abort: %s\n", msg);
    core_abort(EXIT_ABORT, msg ? msg : "");
}

/* ---- what the job is ---- */

int PMI2_Job_GetRank(int *rank)
{
    return core_number(&core_info()->rank, rank);
}

int PMI2_Info_GetSize(int *size)
{
    return core_number(&core_info()->n_ranks, size);
}

int PMI2_Job_GetId(char jobid[], int jobid_size)
{
    int rc = jobid ? core_enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    return core_leave(give(pmiwire_strz(core.name), jobid, jobid_size) == 0
                          ? PMI2_SUCCESS
                          : PMI2_ERR_INVALID_LENGTH);
}

/* Connect to a job or disconnect from it. */
static int other_job(uint32_t op, const char *jobid)
{
    struct pmiwire_event ev;
    int rc = core_enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    return pmi2_leave(core.alone ? PMIWIRE_EPEER : core_ask_about(op, jobid, &ev));
}

int PMI2_Job_Connect(const char jobid[], PMI2_Connect_comm_t *conn)
{
    return jobid && conn ? other_job(PMIWIRE_OP_JOB_CONNECT, jobid) : PMI2_ERR_INVALID_ARG;
}

int PMI2_Job_Disconnect(const char jobid[])
{
    return jobid ? other_job(PMIWIRE_OP_JOB_DISCONNECT, jobid) : PMI2_ERR_INVALID_ARG;
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

int PMI2_KVS_Put_hinted(const char key[], const char value[], int hint)
{
    int rc = check_key(key);

    if (rc == PMI2_SUCCESS)
        rc = check_value(value, PMI2_MAX_VALLEN);
    if (rc == PMI2_SUCCESS && (hint < PMI2_HINT_NONE || hint > PMI2_HINT_DENSE))
        rc = PMI2_ERR_INVALID_ARG;
    if (rc == PMI2_SUCCESS)
        rc = core_enter();
    return rc == PMI2_SUCCESS ? pmi2_leave(core_put(key, value, hint)) : rc;
}

int PMI2_KVS_Put(const char key[], const char value[])
{
    return PMI2_KVS_Put_hinted(key, value, PMI2_HINT_NONE);
}

/* Before a get: PMI2_SUCCESS, with the lock held. */
static int enter_get(const char *key, const char *value, int maxvalue, const int *vallen)
{
    int rc = check_key(key);

    if (rc == PMI2_SUCCESS && (!value || !vallen || maxvalue < 1))
        rc = PMI2_ERR_INVALID_ARG;
    return rc == PMI2_SUCCESS ? core_enter() : rc;
}

/* And after it. */
static int pmi2_leave_get(int rc, struct pmiwire_str view, char value[], int maxvalue, int *vallen)
{
    if (rc == 0 && give(view, value, maxvalue) == 0) {
        *vallen = (int)view.len;
    } else if (rc == 0) {
        memcpy(value, view.ptr, (size_t)maxvalue - 1);
        value[maxvalue - 1] = '\0';
        *vallen = -(int)view.len;
    }
    return pmi2_leave(rc);
}

int PMI2_KVS_Get(const char *jobid, int src_pmi_id, const char key[], char value[], int maxvalue,
                 int *vallen)
{
    struct pmiwire_str view = {0};
    int rc = enter_get(key, value, maxvalue, vallen);

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = core_get(jobid, src_pmi_id, key, &view);
    return pmi2_leave_get(rc, view, value, maxvalue, vallen);
}

int PMI2_KVS_Get_wait(int src_pmi_id, const char key[], char value[], int maxvalue, int *vallen)
{
    struct pmiwire_str view = {0};
    int rc = enter_get(key, value, maxvalue, vallen);

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = core_get_wait(src_pmi_id, key, &view);
    return pmi2_leave_get(rc, view, value, maxvalue, vallen);
}

int PMI2_SHMEM_KVS_Get(const char key[], const char **value, int *vallen)
{
    struct pmiwire_str view;
    int rc = check_key(key);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (!value || !vallen)
        return PMI2_ERR_INVALID_ARG;
    rc = core_enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (table_get(&core.session.table, pmiwire_strz(key), &view) != 0)
        return core_leave(PMI2_ERR_OTHER);
    rc = check_string(0, &view);
    if (rc != 0)
        return pmi2_leave(rc);
    core.session.n_read++;
    *value = view.ptr;
    *vallen = (int)view.len;
    return core_leave(PMI2_SUCCESS);
}

#define MANY 64

int PMI2_SHMEM_KVS_Get_many(int n, const char *const keys[], const char *values[], int vallens[],
                            int *found)
{
    struct shmht_bytes names[MANY], got[MANY];
    int rc;

    if (n < 0 || !keys || !values || !vallens || !found)
        return PMI2_ERR_INVALID_ARG;
    for (int i = 0; i < n; i++) {
        rc = check_key(keys[i]);
        if (rc != PMI2_SUCCESS)
            return rc;
    }
    rc = core_enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (!core.session.table.reader || core.session.table.ended)
        return core_leave(PMI2_ERR_OTHER);
    *found = 0;
    for (int at = 0; at < n; at += MANY) {
        const int some = n - at < MANY ? n - at : MANY;

        for (int i = 0; i < some; i++)
            names[i] = (struct shmht_bytes){keys[at + i], strlen(keys[at + i])};
        *found += table_get_many(&core.session.table, names, (size_t)some, got);
        for (int i = 0; i < some; i++) {
            const struct pmiwire_str view = {got[i].ptr, got[i].ptr ? got[i].len - 1 : 0};
            const int is_string = check_string(0, &view) == 0;

            *found -= !is_string;
            values[at + i] = is_string ? view.ptr : NULL;
            vallens[at + i] = is_string ? (int)view.len : 0;
        }
    }
    core.session.n_read += (unsigned long)*found;
    return core_leave(PMI2_SUCCESS);
}

int PMI2_SHMEM_Counts(unsigned long *n_read, unsigned long *n_asked)
{
    int rc = n_read && n_asked ? core_enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    *n_read = core.session.n_read;
    *n_asked = core.session.n_asked;
    return core_leave(PMI2_SUCCESS);
}

/* ---- Fences and Allgathers, blocking or not ---- */

int PMI2_KVS_Fence(void)
{
    struct op *op;
    int rc = core_enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = op_fence(1, &op);
    return pmi2_leave(rc == 0 ? op_complete(op, NULL, NULL) : rc);
}

int PMI2_KVS_Ifence(void)
{
    struct op *op;
    int rc = core_enter();

    return rc == PMI2_SUCCESS ? pmi2_leave(op_fence(0, &op)) : rc;
}

int PMI2_KVS_Wait(void)
{
    int rc = core_enter();

    return rc == PMI2_SUCCESS ? pmi2_leave(op_complete(op_oldest(OP_FENCE), NULL, NULL)) : rc;
}

int PMI2_KVS_Test(int *done)
{
    int rc = done ? core_enter() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? pmi2_leave(op_complete(op_oldest(OP_FENCE), NULL, done)) : rc;
}

int PMI2_KVS_Put_refused(char key[], int keylen, int *error)
{
    int rc = key && error ? core_enter() : PMI2_ERR_INVALID_ARG, why = 0;

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = op_refused(key, keylen, &why);
    if (rc == 0)
        *error = pmi2_code(why);
    return pmi2_leave(rc);
}

int PMIX_KVS_Ifence(void)
{
    return PMI2_KVS_Ifence();
}

/* With the lock held: whether a process may give this value to an Allgather. */
static int enter_gather(const char *value)
{
    int rc = check_value(value, PMI2_MAX_VALLEN - 1);

    if (rc == PMI2_SUCCESS && !*value)
        rc = PMI2_ERR_INVALID_VAL;
    return rc == PMI2_SUCCESS ? core_enter() : rc;
}

int PMI2_Iallgather(const char value[])
{
    struct op *op;
    int rc = enter_gather(value);

    return rc == PMI2_SUCCESS ? pmi2_leave(op_gather(0, value, NULL, &op)) : rc;
}

int PMI2_Iallgather_wait(void *buffer)
{
    int rc = buffer ? core_enter() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? pmi2_leave(op_complete(op_oldest(OP_GATHER), buffer, NULL)) : rc;
}

int PMI2_Iallgather_test(void *buffer, int *done)
{
    int rc = buffer && done ? core_enter() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? pmi2_leave(op_complete(op_oldest(OP_GATHER), buffer, done)) : rc;
}

int PMI2_SHMEM_Iallgather(const char value[])
{
    return PMI2_Iallgather(value);
}

/* Complete an Allgather and leave its values in place. */
static int complete_in_place(void **values, int *stride, int *done)
{
    const void *where;
    int unasked, rc = core_enter();

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = op_complete(op_oldest(OP_GATHER), NULL, done);
    if (rc == 0 && (!done || *done)) {
        rc = op_gathered(&where, stride ? stride : &unasked);
        *values = (void *)(uintptr_t)where;
    }
    return pmi2_leave(rc);
}

int PMI2_SHMEM_Iallgather_wait(void **values)
{
    return values ? complete_in_place(values, NULL, NULL) : PMI2_ERR_INVALID_ARG;
}

int PMI2_SHMEM_Iallgather_wait_stride(void **values, int *stride)
{
    return values && stride ? complete_in_place(values, stride, NULL) : PMI2_ERR_INVALID_ARG;
}

int PMI2_SHMEM_Iallgather_test(void **values, int *stride, int *done)
{
    return values && stride && done ? complete_in_place(values, stride, done)
                                    : PMI2_ERR_INVALID_ARG;
}

int PMI2_SHMEM_Allgathered(const void **values, int *stride)
{
    int rc = values && stride ? core_enter() : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    return core_leave(op_gathered(values, stride) == 0 ? PMI2_SUCCESS : PMI2_ERR_OTHER);
}

int PMIX_Iallgather(const char value[], void *buffer)
{
    struct op *op;
    int rc = buffer ? enter_gather(value) : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? pmi2_leave(op_gather(0, value, buffer, &op)) : rc;
}

/* Complete the oldest of both kinds. */
static int complete_oldest(int *done)
{
    int rc = core_enter();

    return rc == PMI2_SUCCESS
               ? pmi2_leave(op_complete(op_oldest(OP_FENCE | OP_GATHER_TO), NULL, done))
               : rc;
}

int PMIX_Wait(void)
{
    return complete_oldest(NULL);
}

int PMIX_Test(int *done)
{
    return done ? complete_oldest(done) : PMI2_ERR_INVALID_ARG;
}

int PMIX_Allgather(const char value[], void *buffer)
{
    struct op *op;
    int rc = buffer ? enter_gather(value) : PMI2_ERR_INVALID_ARG;

    if (rc != PMI2_SUCCESS)
        return rc;
    rc = op_gather(1, value, buffer, &op);
    return pmi2_leave(rc == 0 ? op_complete(op, buffer, NULL) : rc);
}

int PMI2_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue)
{
    int rc = check_value(value, PMI2_MAX_VALLEN - 1);

    if (rc == PMI2_SUCCESS && (!rank || !ranks || !left || !right || maxvalue < 1))
        rc = PMI2_ERR_INVALID_ARG;
    if (rc == PMI2_SUCCESS)
        rc = core_enter();
    return rc == PMI2_SUCCESS ? pmi2_leave(core_ring(value, rank, ranks, left, right, maxvalue))
                              : rc;
}

int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue)
{
    return PMI2_Ring(value, rank, ranks, left, right, maxvalue);
}

int PMIX_Ring_offered(void)
{
    if (core_enter() != PMI2_SUCCESS)
        return 0;
    return core_leave(core.alone || core_info()->ext[PMIWIRE_EXT_EXCHANGE].ptr);
}

/* ---- attributes ---- */

/* PMIWIRE_OP_NODEATTR_GET, _WAIT or PMIWIRE_OP_JOBATTR. Not found is an error only for a caller
 * who does not ask whether it was. */
static int get_attribute(uint32_t op, const char *name, char value[], int valuelen, int *found)
{
    struct pmiwire_event ev = {0};
    int rc = check_key(name);

    if (rc != PMI2_SUCCESS)
        return rc;
    if (!value)
        return PMI2_ERR_INVALID_ARG;
    rc = core_enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (!core.alone)
        rc = core_ask_about(op, name, &ev);
    else
        rc = op == PMIWIRE_OP_JOBATTR ? PMIWIRE_ENOENT : core_own(name, &ev.value);
    rc = check_string(rc, &ev.value);
    if (found)
        *found = rc == 0;
    if (rc == PMIWIRE_ENOENT)
        return core_leave(found ? PMI2_SUCCESS : PMI2_ERR_INVALID_KEY);
    if (rc == 0 && give(ev.value, value, valuelen) != 0)
        return core_leave(PMI2_ERR_INVALID_VAL_LENGTH);
    return pmi2_leave(rc);
}

/* 3,1,4 */
static int parse_numbers(const char *text, int array[], int arraylen, int *outlen)
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

static int get_numbers(uint32_t op, const char *name, int array[], int arraylen, int *outlen,
                       int *found)
{
    char text[PMI2_MAX_ATTRVALUE + 1];
    int rc;

    if (!array || !outlen || arraylen < 0)
        return PMI2_ERR_INVALID_ARG;
    rc = get_attribute(op, name, text, sizeof(text), found);
    return rc == PMI2_SUCCESS && (!found || *found) ? parse_numbers(text, array, arraylen, outlen)
                                                    : rc;
}

int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int *found, int waitfor)
{
    return get_attribute(waitfor ? PMIWIRE_OP_NODEATTR_WAIT : PMIWIRE_OP_NODEATTR_GET, name, value,
                         valuelen, found);
}

int PMI2_Info_PutNodeAttr(const char name[], const char value[])
{
    struct pmiwire_event ev;
    int rc = check_key(name);

    if (rc == PMI2_SUCCESS)
        rc = check_value(value, PMI2_MAX_ATTRVALUE);
    if (rc == PMI2_SUCCESS)
        rc = core_enter();
    if (rc != PMI2_SUCCESS)
        return rc;
    if (core.alone)
        rc = core_put(name, value, PMI2_HINT_NONE);
    else
        rc = core_ask(pmiwire_client_nodeattr_put(session_ready(&core.session), pmiwire_strz(name),
                                                  pmiwire_strz(value), SESSION_ASK),
                      &ev);
    return pmi2_leave(rc);
}

int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int *found)
{
    return get_attribute(PMIWIRE_OP_JOBATTR, name, value, valuelen, found);
}

int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                  int *found)
{
    return get_numbers(PMIWIRE_OP_NODEATTR_GET, name, array, arraylen, outlen, found);
}

int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int *outlen,
                                 int *found)
{
    return get_numbers(PMIWIRE_OP_JOBATTR, name, array, arraylen, outlen, found);
}

/* ---- names ---- */

/* All three ignore info_ptr: no key has a meaning. */

int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info *info_ptr,
                          const char port[])
{
    int rc = service_name && port ? core_enter_job() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? pmi2_leave(core_publish(service_name, port)) : rc;
}

int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info *info_ptr, char port[],
                         int portLen)
{
    int rc = service_name && port ? core_enter_job() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? pmi2_leave(core_lookup(service_name, port, portLen)) : rc;
}

int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info *info_ptr)
{
    int rc = service_name ? core_enter_job() : PMI2_ERR_INVALID_ARG;

    return rc == PMI2_SUCCESS ? pmi2_leave(core_unpublish(service_name)) : rc;
}

/* ---- spawn ---- */

static struct keyvals pmi2_keyvals(const struct MPID_Info *first, int n)
{
    return (struct keyvals){first, first ? n : 0, sizeof(*first), offsetof(struct MPID_Info, key),
                            offsetof(struct MPID_Info, value)};
}

/* An array of pointers as one of structs; NULL with *n 0 when there are none, or no memory (*rc).
 */
static struct MPID_Info *copy_infos(const struct MPID_Info **vector, int n, int *rc)
{
    struct MPID_Info *all = n > 0 && vector ? calloc((size_t)n, sizeof(*all)) : NULL;

    if (n > 0 && vector && !all)
        *rc = -ENOMEM;
    for (int i = 0; all && i < n; i++)
        if (vector[i])
            all[i] = *vector[i];
    return all;
}

int PMI2_Job_Spawn(int count, const char *cmds[], int argcs[], const char **argvs[],
                   const int maxprocs[], const int info_keyval_sizes[],
                   const struct MPID_Info *info_keyval_vectors[], int preput_keyval_size,
                   const struct MPID_Info *preput_keyval_vector[], char jobId[], int jobIdSize,
                   int errors[])
{
    struct pmiwire_spawn_cmd *list;
    struct pmiwire_spawn req;
    struct pmiwire_event ev;
    struct MPID_Info *preputs;
    struct keyvals preput;
    int rc, n;

    n = preput_keyval_size < 0 ? -EINVAL : spawn_count(count, cmds, maxprocs);
    if (n < 0 || (jobId && jobIdSize < 1))
        return PMI2_ERR_INVALID_ARG;
    rc = core_enter_job();
    if (rc != PMI2_SUCCESS)
        return rc;
    preputs = copy_infos(preput_keyval_vector, preput_keyval_size, &rc);
    preput = pmi2_keyvals(preputs, preput_keyval_size);
    list = rc == 0 ? spawn_begin(&req, count, &preput) : NULL;
    if (!list) {
        free(preputs);
        return core_leave(PMI2_ERR_NOMEM);
    }
    for (int i = 0; rc == 0 && i < count; i++) {
        int n_info = info_keyval_sizes && info_keyval_vectors ? info_keyval_sizes[i] : 0;
        struct keyvals info = pmi2_keyvals(n_info > 0 ? info_keyval_vectors[i] : NULL, n_info);

        rc = spawn_describe(&list[i], cmds[i], argcs ? argcs[i] : -1, argvs ? argvs[i] : NULL,
                            maxprocs[i], &info);
    }
    if (rc == 0)
        rc = core_ask(pmiwire_client_spawn(session_ready(&core.session), &req, SESSION_ASK), &ev);
    if (errors)
        spawn_errcodes(rc == 0 ? ev.msg : NULL, errors, n);
    for (int i = 0; errors && rc != 0 && i < n; i++)
        errors[i] = pmi2_code(rc);
    spawn_release(&req);
    free(preputs);
    if (rc == 0 && jobId && give(ev.value, jobId, jobIdSize) != 0)
        return core_leave(PMI2_ERR_INVALID_LENGTH);
    return pmi2_leave(rc);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of commands and fields, and its uses: lookup, checking, typed access. */
#include <errno.h>
#include <stdio.h>

#include "codec_internal.h"

#define FIELD(ID, name, type)                                                                      \
    [PMIWIRE_F_##ID] = {name, PMIWIRE_F_##ID, PMIWIRE_TYPE_##type, 0, sizeof(name) - 1}
#define INDEXED(ID, name, type)                                                                    \
    [PMIWIRE_F_##ID] = {name, PMIWIRE_F_##ID, PMIWIRE_TYPE_##type, 1, sizeof(name) - 1}

const struct pmiwire_field_desc pmiwire__fields[PMIWIRE_F_COUNT_] = {
    FIELD(RC, "rc", INT),
    FIELD(MSG, "msg", TEXT),
    FIELD(ERRMSG, "errmsg", TEXT),
    FIELD(THRID, "thrid", STR),
    FIELD(PMI_VERSION, "pmi_version", INT),
    FIELD(PMI_SUBVERSION, "pmi_subversion", INT),
    FIELD(PMIID, "pmiid", INT),
    FIELD(RANK, "rank", INT),
    FIELD(SIZE, "size", INT),
    FIELD(DEBUG, "debug", INT),
    FIELD(APPNUM, "appnum", INT),
    FIELD(KVSNAME_MAX, "kvsname_max", INT),
    FIELD(KEYLEN_MAX, "keylen_max", INT),
    FIELD(VALLEN_MAX, "vallen_max", INT),
    FIELD(KVSNAME, "kvsname", STR),
    FIELD(KEY, "key", STR),
    FIELD(VALUE, "value", STR),
    FIELD(FOUND, "found", BOOL),
    FIELD(GROUP, "group", STR),
    FIELD(TAG, "tag", STR),
    FIELD(SERVICE, "service", STR),
    FIELD(PORT, "port", STR),
    FIELD(INFO, "info", STR),
    FIELD(EXITCODE, "exitcode", INT),
    FIELD(MESSAGE, "message", TEXT),
    FIELD(ERROR_MSG, "error_msg", TEXT),
    FIELD(NPROCS, "nprocs", INT),
    FIELD(EXECNAME, "execname", STR),
    FIELD(TOTSPAWNS, "totspawns", INT),
    FIELD(SPAWNSSOFAR, "spawnssofar", INT),
    FIELD(ARGCNT, "argcnt", INT),
    INDEXED(ARG, "arg", STR),
    FIELD(PREPUT_NUM, "preput_num", INT),
    INDEXED(PREPUT_KEY, "preput_key_", STR),
    INDEXED(PREPUT_VAL, "preput_val_", STR),
    FIELD(INFO_NUM, "info_num", INT),
    FIELD(INFONUM, "infonum", INT),
    INDEXED(INFO_KEY, "info_key_", STR),
    INDEXED(INFO_VAL, "info_val_", STR),
    FIELD(ERRCODES, "errcodes", STR),
    FIELD(JOBID, "jobid", STR),
    FIELD(VERSIONOK, "versionok", STR),
    FIELD(STDIO, "stdio", STR),
    FIELD(AUTHTYPE, "authtype", STR),
    FIELD(PMIJOBID, "pmijobid", STR),
    FIELD(PMIRANK, "pmirank", INT),
    FIELD(SRCID, "srcid", INT),
    FIELD(THREADED, "threaded", BOOL),
    FIELD(V2_PMI_VERSION, "pmi-version", INT),
    FIELD(V2_PMI_SUBVERSION, "pmi-subversion", INT),
    FIELD(SPAWNER_JOBID, "spawner-jobid", STR),
    FIELD(DEBUGGED, "debugged", BOOL),
    FIELD(PMIVERBOSE, "pmiverbose", BOOL),
    FIELD(WAIT, "wait", BOOL),
    FIELD(NAME, "name", STR),
    FIELD(INFOKEYCOUNT, "infokeycount", INT),
    INDEXED(INFOKEY, "infokey", STR),
    INDEXED(INFOVAL, "infoval", STR),
    FIELD(NCMDS, "ncmds", INT),
    FIELD(PREPUTCOUNT, "preputcount", INT),
    INDEXED(PPKEY, "ppkey", STR),
    INDEXED(PPVAL, "ppval", STR),
    FIELD(SUBCMD, "subcmd", STR),
    FIELD(MAXPROCS, "maxprocs", INT),
    FIELD(ARGC, "argc", INT),
    INDEXED(ARGV, "argv", STR),
    FIELD(RING_COUNT, "ring-count", INT),
    FIELD(RING_LEFT, "ring-left", STR),
    FIELD(RING_RIGHT, "ring-right", STR),
    FIELD(ISWORLD, "isworld", BOOL),
    FIELD(KVSCOPY, "kvscopy", BOOL),
};

/* Fields of each command. Every reply may also hold rc and a text; every PMI-2 message thrid. */
/* clang-format off */
#define REQ(f) {PMIWIRE_F_##f, PMIWIRE_REQUIRED}
#define OPT(f) {PMIWIRE_F_##f, 0}
#define IDX(f) {PMIWIRE_F_##f, PMIWIRE_INDEXED | PMIWIRE_REPEATS}
#define IDXE(f) {PMIWIRE_F_##f, PMIWIRE_INDEXED | PMIWIRE_REPEATS | PMIWIRE_MAYEMPTY}
#define SUB(f) {PMIWIRE_F_##f, PMIWIRE_REPEATS}
#define SUBREQ(f) {PMIWIRE_F_##f, PMIWIRE_REPEATS | PMIWIRE_REQUIRED}
/* clang-format on */
#define REPLY1 OPT(RC), OPT(MSG)
#define REPLY2 REQ(RC), OPT(ERRMSG), OPT(THRID)

#define FIELDS(name, ...) static const struct pmiwire_command_field name[] = {__VA_ARGS__}

FIELDS(f_init, REQ(PMI_VERSION), REQ(PMI_SUBVERSION));
FIELDS(f_response_to_init, REPLY1, REQ(PMI_VERSION), REQ(PMI_SUBVERSION));
FIELDS(f_initack, OPT(PMIID), REPLY1, OPT(RANK), OPT(SIZE), OPT(APPNUM), OPT(DEBUG));
FIELDS(f_set, OPT(SIZE), OPT(RANK), OPT(DEBUG));
FIELDS(f_reply1, REPLY1);
FIELDS(f_maxes, REPLY1, REQ(KVSNAME_MAX), REQ(KEYLEN_MAX), REQ(VALLEN_MAX));
FIELDS(f_appnum, REPLY1, REQ(APPNUM));
FIELDS(f_universe_size, REPLY1, REQ(SIZE));
FIELDS(f_my_kvsname, REPLY1, REQ(KVSNAME));
FIELDS(f_put, OPT(KVSNAME), REQ(KEY), REQ(VALUE));
FIELDS(f_get, OPT(KVSNAME), REQ(KEY));
FIELDS(f_get_result, REPLY1, OPT(FOUND), {PMIWIRE_F_VALUE, PMIWIRE_REQUIRED | PMIWIRE_MAYEMPTY});
FIELDS(f_barrier_in, OPT(GROUP));
FIELDS(f_barrier_out, REPLY1, OPT(GROUP), OPT(TAG));
FIELDS(f_publish_name, REQ(SERVICE), REQ(PORT));
FIELDS(f_name_result, REPLY1, OPT(INFO));
FIELDS(f_service, REQ(SERVICE));
FIELDS(f_lookup_result, REPLY1, OPT(INFO), OPT(PORT));
FIELDS(f_spawn1, REQ(NPROCS), REQ(EXECNAME), REQ(TOTSPAWNS), REQ(SPAWNSSOFAR), OPT(ARGCNT),
       IDXE(ARG), OPT(PREPUT_NUM), IDX(PREPUT_KEY), IDXE(PREPUT_VAL), OPT(INFO_NUM), OPT(INFONUM),
       IDX(INFO_KEY), IDXE(INFO_VAL));
FIELDS(f_spawn_result, REPLY1, OPT(ERRCODES), OPT(JOBID));
FIELDS(f_singinit, REQ(PMI_VERSION), REQ(PMI_SUBVERSION), OPT(STDIO), OPT(AUTHTYPE));
FIELDS(f_singinit_info, REPLY1, REQ(VERSIONOK), OPT(STDIO), REQ(KVSNAME));
FIELDS(f_abort1, OPT(EXITCODE), {PMIWIRE_F_MESSAGE, PMIWIRE_MAYEMPTY},
       {PMIWIRE_F_ERROR_MSG, PMIWIRE_MAYEMPTY});

FIELDS(f_fullinit, OPT(PMIJOBID), OPT(PMIRANK), OPT(SRCID), OPT(THREADED), OPT(THRID));
FIELDS(f_fullinit_response, REPLY2, OPT(V2_PMI_VERSION), OPT(V2_PMI_SUBVERSION), REQ(RANK),
       REQ(SIZE), REQ(APPNUM), OPT(SPAWNER_JOBID), OPT(DEBUGGED), OPT(PMIVERBOSE));
FIELDS(f_request2, OPT(THRID));
FIELDS(f_reply2, REPLY2);
FIELDS(f_jobid_response, REPLY2, REQ(JOBID));
FIELDS(f_jobid, REQ(JOBID), OPT(THRID));
FIELDS(f_connect_response, REPLY2, OPT(KVSCOPY));
FIELDS(f_kvs_put, REQ(KEY), {PMIWIRE_F_VALUE, PMIWIRE_REQUIRED | PMIWIRE_MAYEMPTY}, OPT(THRID));
FIELDS(f_kvs_get, OPT(JOBID), OPT(SRCID), REQ(KEY), OPT(THRID));
FIELDS(f_found, REPLY2, OPT(FOUND), {PMIWIRE_F_VALUE, PMIWIRE_MAYEMPTY});
FIELDS(f_key, OPT(KVSNAME), REQ(KEY), OPT(THRID));
FIELDS(f_key_wait, REQ(KEY), OPT(WAIT), OPT(THRID));
FIELDS(f_name_publish, REQ(NAME), REQ(PORT), OPT(INFOKEYCOUNT), IDX(INFOKEY), IDXE(INFOVAL),
       OPT(THRID));
FIELDS(f_name, REQ(NAME), OPT(INFOKEYCOUNT), IDX(INFOKEY), IDXE(INFOVAL), OPT(THRID));
FIELDS(f_name_lookup_response, REPLY2, OPT(PORT), OPT(VALUE), OPT(FOUND));
FIELDS(f_spawn2, REQ(NCMDS), OPT(PREPUTCOUNT), IDX(PPKEY), IDXE(PPVAL), SUBREQ(SUBCMD),
       SUBREQ(MAXPROCS), SUB(ARGC), IDXE(ARGV), SUB(INFOKEYCOUNT), IDX(INFOKEY), IDXE(INFOVAL),
       OPT(THRID));
FIELDS(f_spawn_response, REPLY2, OPT(JOBID), {PMIWIRE_F_ERRCODES, PMIWIRE_REPEATS});
FIELDS(f_ring, REQ(RING_COUNT), {PMIWIRE_F_RING_LEFT, PMIWIRE_MAYEMPTY},
       {PMIWIRE_F_RING_RIGHT, PMIWIRE_MAYEMPTY}, OPT(THRID));
FIELDS(f_ring_response, REPLY2, REQ(RING_COUNT), {PMIWIRE_F_RING_LEFT, PMIWIRE_MAYEMPTY},
       {PMIWIRE_F_RING_RIGHT, PMIWIRE_MAYEMPTY});
FIELDS(f_abort2, OPT(ISWORLD), OPT(EXITCODE), {PMIWIRE_F_MSG, PMIWIRE_MAYEMPTY},
       {PMIWIRE_F_MESSAGE, PMIWIRE_MAYEMPTY}, OPT(THRID));

#define LIST(fields) fields, sizeof(fields) / sizeof(fields[0])
/* A request and its answer; a request without answer; a request without fields. */
#define QUERY(w, ID, name, ANSWER, fields)                                                         \
    [PMIWIRE_##ID] = {name, PMIWIRE_##ID, w, PMIWIRE_##ANSWER, 0, LIST(fields), sizeof(name) - 1}
#define BARE(w, ID, name, ANSWER)                                                                  \
    [PMIWIRE_##ID] = {name, PMIWIRE_##ID, w, PMIWIRE_##ANSWER, 0, NULL, 0, sizeof(name) - 1}
#define REPLY(w, ID, name, fields)                                                                 \
    [PMIWIRE_##ID] = {name, PMIWIRE_##ID, w, 0, 1, LIST(fields), sizeof(name) - 1}

static const struct pmiwire_command_desc commands[] = {
    QUERY(PMIWIRE_V1, V1_INIT, "init", V1_RESPONSE_TO_INIT, f_init),
    REPLY(PMIWIRE_V1, V1_RESPONSE_TO_INIT, "response_to_init", f_response_to_init),
    QUERY(PMIWIRE_V1, V1_INITACK, "initack", V1_INITACK, f_initack),
    REPLY(PMIWIRE_V1, V1_SET, "set", f_set),
    BARE(PMIWIRE_V1, V1_GET_MAXES, "get_maxes", V1_MAXES),
    REPLY(PMIWIRE_V1, V1_MAXES, "maxes", f_maxes),
    BARE(PMIWIRE_V1, V1_GET_APPNUM, "get_appnum", V1_APPNUM),
    REPLY(PMIWIRE_V1, V1_APPNUM, "appnum", f_appnum),
    BARE(PMIWIRE_V1, V1_GET_UNIVERSE_SIZE, "get_universe_size", V1_UNIVERSE_SIZE),
    REPLY(PMIWIRE_V1, V1_UNIVERSE_SIZE, "universe_size", f_universe_size),
    BARE(PMIWIRE_V1, V1_GET_MY_KVSNAME, "get_my_kvsname", V1_MY_KVSNAME),
    REPLY(PMIWIRE_V1, V1_MY_KVSNAME, "my_kvsname", f_my_kvsname),
    QUERY(PMIWIRE_V1, V1_PUT, "put", V1_PUT_RESULT, f_put),
    REPLY(PMIWIRE_V1, V1_PUT_RESULT, "put_result", f_reply1),
    QUERY(PMIWIRE_V1, V1_GET, "get", V1_GET_RESULT, f_get),
    REPLY(PMIWIRE_V1, V1_GET_RESULT, "get_result", f_get_result),
    QUERY(PMIWIRE_V1, V1_BARRIER_IN, "barrier_in", V1_BARRIER_OUT, f_barrier_in),
    REPLY(PMIWIRE_V1, V1_BARRIER_OUT, "barrier_out", f_barrier_out),
    QUERY(PMIWIRE_V1, V1_PUBLISH_NAME, "publish_name", V1_PUBLISH_RESULT, f_publish_name),
    REPLY(PMIWIRE_V1, V1_PUBLISH_RESULT, "publish_result", f_name_result),
    QUERY(PMIWIRE_V1, V1_UNPUBLISH_NAME, "unpublish_name", V1_UNPUBLISH_RESULT, f_service),
    REPLY(PMIWIRE_V1, V1_UNPUBLISH_RESULT, "unpublish_result", f_name_result),
    QUERY(PMIWIRE_V1, V1_LOOKUP_NAME, "lookup_name", V1_LOOKUP_RESULT, f_service),
    REPLY(PMIWIRE_V1, V1_LOOKUP_RESULT, "lookup_result", f_lookup_result),
    QUERY(PMIWIRE_V1_MCMD, V1_SPAWN, "spawn", V1_SPAWN_RESULT, f_spawn1),
    REPLY(PMIWIRE_V1, V1_SPAWN_RESULT, "spawn_result", f_spawn_result),
    QUERY(PMIWIRE_V1, V1_SINGINIT, "singinit", V1_SINGINIT_INFO, f_singinit),
    REPLY(PMIWIRE_V1, V1_SINGINIT_INFO, "singinit_info", f_singinit_info),
    QUERY(PMIWIRE_V1, V1_ABORT, "abort", CMD_UNKNOWN, f_abort1),
    BARE(PMIWIRE_V1, V1_FINALIZE, "finalize", V1_FINALIZE_ACK),
    REPLY(PMIWIRE_V1, V1_FINALIZE_ACK, "finalize_ack", f_reply1),

    QUERY(PMIWIRE_V2, V2_FULLINIT, "fullinit", V2_FULLINIT_RESPONSE, f_fullinit),
    REPLY(PMIWIRE_V2, V2_FULLINIT_RESPONSE, "fullinit-response", f_fullinit_response),
    QUERY(PMIWIRE_V2, V2_JOB_GETID, "job-getid", V2_JOB_GETID_RESPONSE, f_request2),
    REPLY(PMIWIRE_V2, V2_JOB_GETID_RESPONSE, "job-getid-response", f_jobid_response),
    QUERY(PMIWIRE_V2, V2_JOB_CONNECT, "job-connect", V2_JOB_CONNECT_RESPONSE, f_jobid),
    REPLY(PMIWIRE_V2, V2_JOB_CONNECT_RESPONSE, "job-connect-response", f_connect_response),
    QUERY(PMIWIRE_V2, V2_JOB_DISCONNECT, "job-disconnect", V2_JOB_DISCONNECT_RESPONSE, f_jobid),
    REPLY(PMIWIRE_V2, V2_JOB_DISCONNECT_RESPONSE, "job-disconnect-response", f_reply2),
    QUERY(PMIWIRE_V2, V2_KVS_PUT, "kvs-put", V2_KVS_PUT_RESPONSE, f_kvs_put),
    REPLY(PMIWIRE_V2, V2_KVS_PUT_RESPONSE, "kvs-put-response", f_reply2),
    QUERY(PMIWIRE_V2, V2_KVS_GET, "kvs-get", V2_KVS_GET_RESPONSE, f_kvs_get),
    REPLY(PMIWIRE_V2, V2_KVS_GET_RESPONSE, "kvs-get-response", f_found),
    QUERY(PMIWIRE_V2, V2_KVS_FENCE, "kvs-fence", V2_KVS_FENCE_RESPONSE, f_request2),
    REPLY(PMIWIRE_V2, V2_KVS_FENCE_RESPONSE, "kvs-fence-response", f_reply2),
    QUERY(PMIWIRE_V2, V2_INFO_GETJOBATTR, "info-getjobattr", V2_INFO_GETJOBATTR_RESPONSE, f_key),
    REPLY(PMIWIRE_V2, V2_INFO_GETJOBATTR_RESPONSE, "info-getjobattr-response", f_found),
    QUERY(PMIWIRE_V2, V2_INFO_GETNODEATTR, "info-getnodeattr", V2_INFO_GETNODEATTR_RESPONSE,
          f_key_wait),
    REPLY(PMIWIRE_V2, V2_INFO_GETNODEATTR_RESPONSE, "info-getnodeattr-response", f_found),
    QUERY(PMIWIRE_V2, V2_INFO_PUTNODEATTR, "info-putnodeattr", V2_INFO_PUTNODEATTR_RESPONSE,
          f_kvs_put),
    REPLY(PMIWIRE_V2, V2_INFO_PUTNODEATTR_RESPONSE, "info-putnodeattr-response", f_reply2),
    QUERY(PMIWIRE_V2, V2_NAME_PUBLISH, "name-publish", V2_NAME_PUBLISH_RESPONSE, f_name_publish),
    REPLY(PMIWIRE_V2, V2_NAME_PUBLISH_RESPONSE, "name-publish-response", f_reply2),
    QUERY(PMIWIRE_V2, V2_NAME_UNPUBLISH, "name-unpublish", V2_NAME_UNPUBLISH_RESPONSE, f_name),
    REPLY(PMIWIRE_V2, V2_NAME_UNPUBLISH_RESPONSE, "name-unpublish-response", f_reply2),
    QUERY(PMIWIRE_V2, V2_NAME_LOOKUP, "name-lookup", V2_NAME_LOOKUP_RESPONSE, f_name),
    REPLY(PMIWIRE_V2, V2_NAME_LOOKUP_RESPONSE, "name-lookup-response", f_name_lookup_response),
    QUERY(PMIWIRE_V2, V2_SPAWN, "spawn", V2_SPAWN_RESPONSE, f_spawn2),
    REPLY(PMIWIRE_V2, V2_SPAWN_RESPONSE, "spawn-response", f_spawn_response),
    QUERY(PMIWIRE_V2, V2_RING, "ring", V2_RING_RESPONSE, f_ring),
    REPLY(PMIWIRE_V2, V2_RING_RESPONSE, "ring-response", f_ring_response),
    QUERY(PMIWIRE_V2, V2_ABORT, "abort", CMD_UNKNOWN, f_abort2),
    QUERY(PMIWIRE_V2, V2_FINALIZE, "finalize", V2_FINALIZE_RESPONSE, f_request2),
    REPLY(PMIWIRE_V2, V2_FINALIZE_RESPONSE, "finalize-response", f_reply2),
};

#define N_SLOTS (sizeof(commands) / sizeof(commands[0]))
/* Ids of the two wires lie in two runs; the gap between them is empty. */
#define N_V1     ((uint32_t)PMIWIRE_V1_FINALIZE_ACK)
#define FIRST_V2 ((uint32_t)PMIWIRE_V2_FULLINIT)

const struct pmiwire_command_desc *pmiwire_command_get(uint16_t id)
{
    if (id >= N_SLOTS || !commands[id].name)
        return NULL;
    return &commands[id];
}

const struct pmiwire_field_desc *pmiwire_field_get(uint16_t id)
{
    if (id == 0 || id >= PMIWIRE_F_COUNT_)
        return NULL;
    return &pmiwire__fields[id];
}

static bool has_name(uint16_t command, struct pmiwire_str name)
{
    return commands[command].name_bytes == name.len &&
           memcmp(commands[command].name, name.ptr, name.len) == 0;
}

uint16_t pmiwire__command_find(uint16_t wire, struct pmiwire_str name)
{
    static const uint16_t frequent[2][3] = {
        {PMIWIRE_V1_PUT, PMIWIRE_V1_GET, PMIWIRE_V1_BARRIER_IN},
        {PMIWIRE_V2_KVS_PUT, PMIWIRE_V2_KVS_GET, PMIWIRE_V2_KVS_FENCE},
    };
    const bool is_v2 = wire == PMIWIRE_V2;
    const uint16_t end = is_v2 ? N_SLOTS : N_V1 + 1;

    for (size_t i = 0; i < 3; i++)
        if (has_name(frequent[is_v2][i], name))
            return frequent[is_v2][i];
    for (uint16_t id = is_v2 ? FIRST_V2 : 1; id < end; id++)
        if (has_name(id, name))
            return id;
    return 0;
}

/* Fields by the length of their names, the frequent ones first; 0 ends a list. */
#define LONGEST_NAME 14u
static const uint8_t fields_of_length[LONGEST_NAME + 1][12] = {
    [2] = {PMIWIRE_F_RC},
    [3] = {PMIWIRE_F_KEY, PMIWIRE_F_MSG, PMIWIRE_F_ARG, PMIWIRE_F_TAG},
    [4] = {PMIWIRE_F_RANK, PMIWIRE_F_SIZE, PMIWIRE_F_PORT, PMIWIRE_F_ARGV, PMIWIRE_F_INFO,
           PMIWIRE_F_WAIT, PMIWIRE_F_NAME, PMIWIRE_F_ARGC},
    [5] = {PMIWIRE_F_VALUE, PMIWIRE_F_FOUND, PMIWIRE_F_JOBID, PMIWIRE_F_SRCID, PMIWIRE_F_THRID,
           PMIWIRE_F_PPKEY, PMIWIRE_F_PPVAL, PMIWIRE_F_PMIID, PMIWIRE_F_DEBUG, PMIWIRE_F_GROUP,
           PMIWIRE_F_STDIO, PMIWIRE_F_NCMDS},
    [6] = {PMIWIRE_F_ERRMSG, PMIWIRE_F_APPNUM, PMIWIRE_F_NPROCS, PMIWIRE_F_ARGCNT,
           PMIWIRE_F_SUBCMD},
    [7] = {PMIWIRE_F_KVSNAME, PMIWIRE_F_PMIRANK, PMIWIRE_F_SERVICE, PMIWIRE_F_MESSAGE,
           PMIWIRE_F_INFOKEY, PMIWIRE_F_INFOVAL, PMIWIRE_F_INFONUM, PMIWIRE_F_ISWORLD,
           PMIWIRE_F_KVSCOPY},
    [8] = {PMIWIRE_F_EXITCODE, PMIWIRE_F_EXECNAME, PMIWIRE_F_INFO_NUM, PMIWIRE_F_ERRCODES,
           PMIWIRE_F_AUTHTYPE, PMIWIRE_F_PMIJOBID, PMIWIRE_F_THREADED, PMIWIRE_F_DEBUGGED,
           PMIWIRE_F_MAXPROCS},
    [9] = {PMIWIRE_F_ERROR_MSG, PMIWIRE_F_TOTSPAWNS, PMIWIRE_F_INFO_KEY, PMIWIRE_F_INFO_VAL,
           PMIWIRE_F_VERSIONOK, PMIWIRE_F_RING_LEFT},
    [10] = {PMIWIRE_F_KEYLEN_MAX, PMIWIRE_F_VALLEN_MAX, PMIWIRE_F_PREPUT_NUM, PMIWIRE_F_PMIVERBOSE,
            PMIWIRE_F_RING_COUNT, PMIWIRE_F_RING_RIGHT},
    [11] = {PMIWIRE_F_PMI_VERSION, PMIWIRE_F_V2_PMI_VERSION, PMIWIRE_F_KVSNAME_MAX,
            PMIWIRE_F_SPAWNSSOFAR, PMIWIRE_F_PREPUT_KEY, PMIWIRE_F_PREPUT_VAL,
            PMIWIRE_F_PREPUTCOUNT},
    [12] = {PMIWIRE_F_INFOKEYCOUNT},
    [13] = {PMIWIRE_F_SPAWNER_JOBID},
    [14] = {PMIWIRE_F_PMI_SUBVERSION, PMIWIRE_F_V2_PMI_SUBVERSION},
};

static uint16_t field_by_name(const char *name, size_t len, unsigned indexed)
{
    const uint8_t *ids;

    if (len > LONGEST_NAME)
        return 0;
    ids = fields_of_length[len];
    for (size_t i = 0; i < sizeof(fields_of_length[0]) && ids[i]; i++)
        if (pmiwire__fields[ids[i]].indexed == indexed &&
            memcmp(pmiwire__fields[ids[i]].name, name, len) == 0)
            return ids[i];
    return 0;
}

uint16_t pmiwire__field_find(struct pmiwire_str key, uint32_t *index)
{
    size_t n = key.len;
    uint32_t number = 0, scale = 1;
    uint16_t id;

    if (index)
        *index = 0;
    while (n > 0 && key.ptr[n - 1] >= '0' && key.ptr[n - 1] <= '9' && key.len - n < 9) {
        number += (uint32_t)(key.ptr[n - 1] - '0') * scale;
        scale *= 10;
        n--;
    }
    id = field_by_name(key.ptr, n, n < key.len);
    /* One spelling for each number, so that argv1 and argv01 are not two fields of one index. */
    if (id == 0 || (key.len - n > 1 && key.ptr[n] == '0'))
        return 0;
    if (index)
        *index = number;
    return id;
}

static int parse_bool(struct pmiwire_str text, int32_t *out)
{
    if (pmiwire__is(text, "TRUE") || pmiwire__is(text, "true") || pmiwire__is(text, "1") ||
        pmiwire__is(text, "yes"))
        *out = 1;
    else if (pmiwire__is(text, "FALSE") || pmiwire__is(text, "false") || pmiwire__is(text, "0") ||
             pmiwire__is(text, "no"))
        *out = 0;
    else
        return PMIWIRE_ETYPE;
    return 0;
}

/* A number or a truth value, by the field's type. */
static int field_number(const struct pmiwire_field *f, int32_t *out)
{
    return pmiwire__fields[f->id].type == PMIWIRE_TYPE_BOOL ? parse_bool(f->value, out)
                                                            : pmiwire__parse_int(f->value, out);
}

const struct pmiwire_field *pmiwire__msg_field(const struct pmiwire_msg *msg, uint16_t field)
{
    for (uint32_t i = 0; i < msg->n_fields; i++)
        if (msg->fields[i].id == field)
            return &msg->fields[i];
    return NULL;
}

int pmiwire_msg_str(const struct pmiwire_msg *msg, uint16_t field, struct pmiwire_str *out)
{
    const struct pmiwire_field *f = pmiwire__msg_field(msg, field);

    if (!f)
        return PMIWIRE_EMISSING;
    *out = f->value;
    return 0;
}

int pmiwire_msg_int(const struct pmiwire_msg *msg, uint16_t field, int32_t *out)
{
    const struct pmiwire_field *f = pmiwire__msg_field(msg, field);

    return f ? field_number(f, out) : PMIWIRE_EMISSING;
}

/* Checks one field's value against its type. */
static int check_value(const struct pmiwire_field *f, uint16_t flags)
{
    const uint8_t type = pmiwire__fields[f->id].type;
    int32_t number;

    if (f->value.len == 0)
        return (flags & PMIWIRE_MAYEMPTY) || type == PMIWIRE_TYPE_TEXT ? 0 : PMIWIRE_EEMPTY;
    return type == PMIWIRE_TYPE_INT || type == PMIWIRE_TYPE_BOOL ? field_number(f, &number) : 0;
}

int pmiwire__msg_error(struct pmiwire_error *err, int code, uint16_t command, uint16_t field,
                       size_t offset)
{
    const struct pmiwire_command_desc *c = pmiwire_command_get(command);
    const struct pmiwire_field_desc *f = pmiwire_field_get(field);
    char where[48] = "";

    if (!err)
        return code;
    if (f)
        snprintf(where, sizeof(where), ": field \"%s%s\"", f->name, f->indexed ? "N" : "");
    pmiwire__error(err, code, c ? c->name : NULL, where, offset);
    err->command = command;
    err->field = field;
    return code;
}

/* Returns a field's offset in its message, from the command's name, which has a fixed place in each
 * framing. */
static size_t offset_of(const struct pmiwire_msg *msg, const struct pmiwire_field *f)
{
    size_t cmd = msg->wire == PMIWIRE_V2 ? PMIWIRE_V2_HEADER_BYTES + 4 : 4;

    return (size_t)(f->key.ptr - msg->cmd.ptr) + cmd + (msg->wire == PMIWIRE_V1_MCMD);
}

/* A reply with rc != 0 needs no other field. */
static int is_refusal(const struct pmiwire_msg *msg)
{
    int32_t rc = 0;

    return pmiwire_msg_int(msg, PMIWIRE_F_RC, &rc) == 0 && rc != 0;
}

int pmiwire_msg_check(const struct pmiwire_msg *msg, uint32_t flags, struct pmiwire_error *err)
{
    const struct pmiwire_command_desc *c = pmiwire_command_get(msg->id);
    uint32_t seen = 0; /* bit i: c->fields[i] has come; no command has more than 32 */
    int refusal;

    if (!c)
        return pmiwire__msg_error(err, PMIWIRE_EUNKNOWN, 0, 0, 0);
    for (uint32_t i = 0; i < msg->n_fields; i++) {
        const struct pmiwire_field *f = &msg->fields[i];
        uint32_t k = 0;
        int rc;

        while (k < c->n_fields && c->fields[k].field != f->id)
            k++;
        if (f->id == 0 || k == c->n_fields)
            continue;
        if ((seen >> k & 1) && !(c->fields[k].flags & PMIWIRE_REPEATS)) {
            if (flags & PMIWIRE_CHECK_FIRST_WINS)
                continue;
            return pmiwire__msg_error(err, PMIWIRE_EDUP, c->id, f->id, offset_of(msg, f));
        }
        seen |= UINT32_C(1) << k;
        rc = check_value(f, c->fields[k].flags);
        if (rc < 0)
            return pmiwire__msg_error(err, rc, c->id, f->id, offset_of(msg, f));
    }
    refusal = c->is_reply && is_refusal(msg);
    for (uint32_t k = 0; k < c->n_fields; k++)
        if ((c->fields[k].flags & PMIWIRE_REQUIRED) && !(seen >> k & 1) && !refusal)
            return pmiwire__msg_error(err, PMIWIRE_EMISSING, c->id, c->fields[k].field, 0);
    return 0;
}

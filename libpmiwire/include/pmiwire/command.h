/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file command.h
 * @brief One table with every command of both wires and its fields, for reading, checking, writing,
 *        documenting and fuzzing messages.
 *
 * The table is data. Walk the ids below PMIWIRE_CMD_COUNT_ to print a manual, as `pmiprobe
 * --commands` does, or a fuzzing dictionary, as `pmiprobe --dict` does.
 *
 * Check a message with pmiwire_msg_check() before you trust its fields. The call finds missing
 * mandatory fields, duplicates, empty values and malformed numbers, and reports the field and its
 * offset. It skips fields that the table does not have, so that peers may send extra fields.
 *
 *     if (pmiwire_msg_check(&msg, 0, &err) != 0)       // server (client: CHECK_FIRST_WINS)
 *         …err.code, err.text…
 *     else if (msg.id == PMIWIRE_V1_GET)
 *         rc = pmiwire_msg_str(&msg, PMIWIRE_F_KEY, &key);
 *     for (uint16_t id = 0; id < PMIWIRE_CMD_COUNT_; id++)
 *         if ((c = pmiwire_command_get(id)) != NULL)
 *             …c->name, c->fields…
 */
#ifndef PMIWIRE_COMMAND_H
#define PMIWIRE_COMMAND_H

#include <pmiwire/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Commands. In this list the reply to a request, if any, comes next. The numbers never change. */
enum {
    PMIWIRE_CMD_UNKNOWN = 0,

    /* PMI-1, client to server, and the server's answer */
    PMIWIRE_V1_INIT = 1,
    PMIWIRE_V1_RESPONSE_TO_INIT,
    PMIWIRE_V1_INITACK, /**< request and answer have the same name */
    PMIWIRE_V1_SET,     /**< three of these follow the answer to initack */
    PMIWIRE_V1_GET_MAXES,
    PMIWIRE_V1_MAXES,
    PMIWIRE_V1_GET_APPNUM,
    PMIWIRE_V1_APPNUM,
    PMIWIRE_V1_GET_UNIVERSE_SIZE,
    PMIWIRE_V1_UNIVERSE_SIZE,
    PMIWIRE_V1_GET_MY_KVSNAME,
    PMIWIRE_V1_MY_KVSNAME,
    PMIWIRE_V1_PUT,
    PMIWIRE_V1_PUT_RESULT,
    PMIWIRE_V1_GET,
    PMIWIRE_V1_GET_RESULT,
    PMIWIRE_V1_BARRIER_IN,
    PMIWIRE_V1_BARRIER_OUT,
    PMIWIRE_V1_PUBLISH_NAME,
    PMIWIRE_V1_PUBLISH_RESULT,
    PMIWIRE_V1_UNPUBLISH_NAME,
    PMIWIRE_V1_UNPUBLISH_RESULT,
    PMIWIRE_V1_LOOKUP_NAME,
    PMIWIRE_V1_LOOKUP_RESULT,
    PMIWIRE_V1_SPAWN, /**< framed as PMIWIRE_V1_MCMD, one message for each sub-command */
    PMIWIRE_V1_SPAWN_RESULT,
    PMIWIRE_V1_SINGINIT,
    PMIWIRE_V1_SINGINIT_INFO,
    PMIWIRE_V1_ABORT, /**< no answer */
    PMIWIRE_V1_FINALIZE,
    PMIWIRE_V1_FINALIZE_ACK,

    /* PMI-2 */
    PMIWIRE_V2_FULLINIT = 64,
    PMIWIRE_V2_FULLINIT_RESPONSE,
    PMIWIRE_V2_JOB_GETID,
    PMIWIRE_V2_JOB_GETID_RESPONSE,
    PMIWIRE_V2_JOB_CONNECT,
    PMIWIRE_V2_JOB_CONNECT_RESPONSE,
    PMIWIRE_V2_JOB_DISCONNECT,
    PMIWIRE_V2_JOB_DISCONNECT_RESPONSE,
    PMIWIRE_V2_KVS_PUT,
    PMIWIRE_V2_KVS_PUT_RESPONSE,
    PMIWIRE_V2_KVS_GET,
    PMIWIRE_V2_KVS_GET_RESPONSE,
    PMIWIRE_V2_KVS_FENCE,
    PMIWIRE_V2_KVS_FENCE_RESPONSE,
    PMIWIRE_V2_INFO_GETJOBATTR,
    PMIWIRE_V2_INFO_GETJOBATTR_RESPONSE,
    PMIWIRE_V2_INFO_GETNODEATTR,
    PMIWIRE_V2_INFO_GETNODEATTR_RESPONSE,
    PMIWIRE_V2_INFO_PUTNODEATTR,
    PMIWIRE_V2_INFO_PUTNODEATTR_RESPONSE,
    PMIWIRE_V2_NAME_PUBLISH,
    PMIWIRE_V2_NAME_PUBLISH_RESPONSE,
    PMIWIRE_V2_NAME_UNPUBLISH,
    PMIWIRE_V2_NAME_UNPUBLISH_RESPONSE,
    PMIWIRE_V2_NAME_LOOKUP,
    PMIWIRE_V2_NAME_LOOKUP_RESPONSE,
    PMIWIRE_V2_SPAWN,
    PMIWIRE_V2_SPAWN_RESPONSE,
    PMIWIRE_V2_RING,
    PMIWIRE_V2_RING_RESPONSE,
    PMIWIRE_V2_ABORT, /**< no answer */
    PMIWIRE_V2_FINALIZE,
    PMIWIRE_V2_FINALIZE_RESPONSE,
    PMIWIRE_CMD_COUNT_ /**< one past the last; grows */
};

/** Fields. If a field's name differs between the wires (`pmi_version`, `pmi-version`), each name is
 * a field of its own. */
enum {
    PMIWIRE_F_NONE = 0,
    PMIWIRE_F_RC = 1,
    PMIWIRE_F_MSG,
    PMIWIRE_F_ERRMSG,
    PMIWIRE_F_THRID,
    PMIWIRE_F_PMI_VERSION,
    PMIWIRE_F_PMI_SUBVERSION,
    PMIWIRE_F_PMIID,
    PMIWIRE_F_RANK,
    PMIWIRE_F_SIZE,
    PMIWIRE_F_DEBUG,
    PMIWIRE_F_APPNUM,
    PMIWIRE_F_KVSNAME_MAX,
    PMIWIRE_F_KEYLEN_MAX,
    PMIWIRE_F_VALLEN_MAX,
    PMIWIRE_F_KVSNAME,
    PMIWIRE_F_KEY,
    PMIWIRE_F_VALUE,
    PMIWIRE_F_FOUND,
    PMIWIRE_F_GROUP,
    PMIWIRE_F_TAG,
    PMIWIRE_F_SERVICE,
    PMIWIRE_F_PORT,
    PMIWIRE_F_INFO,
    PMIWIRE_F_EXITCODE,
    PMIWIRE_F_MESSAGE,
    PMIWIRE_F_ERROR_MSG,
    PMIWIRE_F_NPROCS,
    PMIWIRE_F_EXECNAME,
    PMIWIRE_F_TOTSPAWNS,
    PMIWIRE_F_SPAWNSSOFAR,
    PMIWIRE_F_ARGCNT,
    PMIWIRE_F_ARG, /**< arg1 … */
    PMIWIRE_F_PREPUT_NUM,
    PMIWIRE_F_PREPUT_KEY, /**< preput_key_0 … */
    PMIWIRE_F_PREPUT_VAL,
    PMIWIRE_F_INFO_NUM,
    PMIWIRE_F_INFONUM, /**< info_num in MPICH's own description */
    PMIWIRE_F_INFO_KEY,
    PMIWIRE_F_INFO_VAL,
    PMIWIRE_F_ERRCODES,
    PMIWIRE_F_JOBID,
    PMIWIRE_F_VERSIONOK,
    PMIWIRE_F_STDIO,
    PMIWIRE_F_AUTHTYPE,
    PMIWIRE_F_PMIJOBID,
    PMIWIRE_F_PMIRANK,
    PMIWIRE_F_SRCID,
    PMIWIRE_F_THREADED,
    PMIWIRE_F_V2_PMI_VERSION,    /**< pmi-version */
    PMIWIRE_F_V2_PMI_SUBVERSION, /**< pmi-subversion */
    PMIWIRE_F_SPAWNER_JOBID,
    PMIWIRE_F_DEBUGGED,
    PMIWIRE_F_PMIVERBOSE,
    PMIWIRE_F_WAIT,
    PMIWIRE_F_NAME,
    PMIWIRE_F_INFOKEYCOUNT,
    PMIWIRE_F_INFOKEY, /**< infokey0 … */
    PMIWIRE_F_INFOVAL,
    PMIWIRE_F_NCMDS,
    PMIWIRE_F_PREPUTCOUNT,
    PMIWIRE_F_PPKEY, /**< ppkey0 … */
    PMIWIRE_F_PPVAL,
    PMIWIRE_F_SUBCMD, /**< opens a sub-command, to which the fields behind this one belong */
    PMIWIRE_F_MAXPROCS,
    PMIWIRE_F_ARGC,
    PMIWIRE_F_ARGV, /**< argv0 … */
    PMIWIRE_F_RING_COUNT,
    PMIWIRE_F_RING_LEFT,
    PMIWIRE_F_RING_RIGHT,
    PMIWIRE_F_ISWORLD,
    PMIWIRE_F_KVSCOPY,
    PMIWIRE_F_COUNT_ /**< one past the last; grows */
};

/**
 * @name What a field holds
 * @{
 */
#define PMIWIRE_TYPE_STR  0u /**< bytes without blanks */
#define PMIWIRE_TYPE_TEXT 1u /**< prose: may hold spaces and be empty */
#define PMIWIRE_TYPE_INT  2u /**< decimal, optional `-`, in the range of int32_t */
#define PMIWIRE_TYPE_BOOL 3u /**< TRUE or FALSE; yes, no, true, false, 1 and 0 are read too */
/** @} */

/**
 * @name How a field occurs in a command
 * @{
 */
#define PMIWIRE_REQUIRED 1u /**< mandatory; in a reply only when rc is 0 or absent */
#define PMIWIRE_INDEXED  2u /**< `name` and a number, many times */
#define PMIWIRE_REPEATS  4u /**< may come once for each sub-command */
#define PMIWIRE_MAYEMPTY 8u /**< may be empty */
/** @} */

/** A field's name and type. */
struct pmiwire_field_desc {
    const char *name; /**< without index */
    uint16_t id;      /**< PMIWIRE_F_* */
    uint8_t type;     /**< PMIWIRE_TYPE_* */
    uint8_t indexed;  /**< 1: the key is the name and a decimal number, as in `argv3` */
    uint8_t name_bytes;
};

/** A field's place in a command. */
struct pmiwire_command_field {
    uint16_t field; /**< PMIWIRE_F_* */
    uint16_t flags; /**< PMIWIRE_REQUIRED … */
};

/** A command. */
struct pmiwire_command_desc {
    const char *name;
    uint16_t id;   /**< PMIWIRE_V1_* or PMIWIRE_V2_* */
    uint16_t wire; /**< framing */
    /** id of a request's answer; 0: this is a reply, or a request without an answer */
    uint16_t reply;
    uint16_t is_reply;
    const struct pmiwire_command_field *fields;
    uint16_t n_fields;
    uint16_t name_bytes;
};

/**
 * @brief Get a command's description by its id. NULL: no such command; ids have gaps.
 *
 * MT-Safe. Cost: constant.
 */
PMIWIRE_API const struct pmiwire_command_desc *pmiwire_command_get(uint16_t id);

/** @brief Get a field's description. NULL: no such field. MT-Safe. */
PMIWIRE_API const struct pmiwire_field_desc *pmiwire_field_get(uint16_t id);

/** For pmiwire_msg_check(): accept duplicate fields. The first one counts, as in every PMI client.
 * */
#define PMIWIRE_CHECK_FIRST_WINS 1u

/**
 * @brief Check a decoded message against the table.
 *
 * @param msg    decoded
 * @param flags  0 for a server: a duplicate of a field that may occur only once is an error.
 *               PMIWIRE_CHECK_FIRST_WINS for a client
 * @param err    filled in on failure, with the offset from the message's start; may be NULL
 * @return 0, PMIWIRE_EUNKNOWN, PMIWIRE_EMISSING, PMIWIRE_EDUP, PMIWIRE_EEMPTY, PMIWIRE_ETYPE
 *
 * The call skips fields that the command does not have.
 *
 * MT-Safe. Allocates nothing. Cost: one pass over the fields.
 */
PMIWIRE_API int pmiwire_msg_check(const struct pmiwire_msg *msg, uint32_t flags,
                                  struct pmiwire_error *err);

/**
 * @name Typed access to a decoded message
 * If a field occurs several times, these calls use the first one. They return 0, PMIWIRE_EMISSING
 * (absent) or PMIWIRE_ETYPE, and leave the output untouched on failure. MT-Safe. They allocate
 * nothing. Cost: a scan of the message's fields.
 * @{
 */
/** @brief Get a field's bytes as on the wire; see pmiwire_unescape(). */
PMIWIRE_API int pmiwire_msg_str(const struct pmiwire_msg *msg, uint16_t field,
                                struct pmiwire_str *out);
/** @brief Get a number in the range of int32_t; from a PMIWIRE_TYPE_BOOL field 0 or 1. */
PMIWIRE_API int pmiwire_msg_int(const struct pmiwire_msg *msg, uint16_t field, int32_t *out);
/** @} */

/** A sub-command to spawn. */
struct pmiwire_spawn_cmd {
    struct pmiwire_str execname;
    uint32_t maxprocs;              /**< 1 or more */
    uint32_t argc;                  /**< arguments, the program's name not among them */
    const struct pmiwire_str *argv; /**< argc of them */
    uint32_t n_info;
    uint32_t reserved;
    const struct pmiwire_keyval *info; /**< n_info of them */
};

/** A spawn request: PMI's way to start further processes. */
struct pmiwire_spawn {
    uint32_t n_cmds;
    uint32_t n_preput;
    const struct pmiwire_spawn_cmd *cmds;
    const struct pmiwire_keyval
        *preput; /**< put into the children's key-value space before they start */
};

#ifdef __cplusplus
}
#endif
#endif /* PMIWIRE_COMMAND_H */

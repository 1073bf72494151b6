/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec_internal.h"

static const struct pmiwire__ext extensions[PMIWIRE_EXT_COUNT_] = {
    [PMIWIRE_EXT_SERVER] = {"fp-server", PMIWIRE__AT_INIT},
    [PMIWIRE_EXT_TABLE] = {"fp-table", PMIWIRE__AT_INIT},
    [PMIWIRE_EXT_CLIENT] = {"fp-client", PMIWIRE__AT_HELLO},
    [PMIWIRE_EXT_ARRAY] = {"fp-array", PMIWIRE__AT_FENCE},
    [PMIWIRE_EXT_TABLE_END] = {"fp-table-end", PMIWIRE__AT_FENCE},
    [PMIWIRE_EXT_EXCHANGE] = {"fp-exchange", PMIWIRE__AT_INIT},
    [PMIWIRE_EXT_HINT] = {"fp-hint", PMIWIRE__AT_PUT},
    [PMIWIRE_EXT_GET] = {"fp-get", PMIWIRE__AT_GET},
    [PMIWIRE_EXT_SRC] = {"fp-src", PMIWIRE__AT_GET},
    [PMIWIRE_EXT_RING] = {"fp-ring", PMIWIRE__AT_ENTER},
    [PMIWIRE_EXT_GATHER] = {"fp-gather", PMIWIRE__AT_ENTER | PMIWIRE__AT_KVS_FENCE},
    [PMIWIRE_EXT_PLACE] = {"fp-place", PMIWIRE__AT_FENCE},
    [PMIWIRE_EXT_LEFT] = {"fp-left", PMIWIRE__AT_FENCE},
    [PMIWIRE_EXT_RIGHT] = {"fp-right", PMIWIRE__AT_FENCE},
    [PMIWIRE_EXT_BYTES] = {"fp-bytes", PMIWIRE__AT_INIT | PMIWIRE__AT_DATA},
};

const struct pmiwire__ext *pmiwire__ext_get(uint16_t ext)
{
    return ext > 0 && ext < PMIWIRE_EXT_COUNT_ ? &extensions[ext] : NULL;
}

uint16_t pmiwire__ext_place(uint16_t cmd)
{
    switch (cmd) {
    case PMIWIRE_V1_INIT:
    case PMIWIRE_V2_FULLINIT: return PMIWIRE__AT_HELLO;
    case PMIWIRE_V1_RESPONSE_TO_INIT:
    case PMIWIRE_V2_FULLINIT_RESPONSE: return PMIWIRE__AT_INIT;
    case PMIWIRE_V1_BARRIER_OUT:
    case PMIWIRE_V2_KVS_FENCE_RESPONSE: return PMIWIRE__AT_FENCE | PMIWIRE__AT_DATA;
    case PMIWIRE_V1_PUT:
    case PMIWIRE_V2_KVS_PUT: return PMIWIRE__AT_PUT | PMIWIRE__AT_DATA;
    case PMIWIRE_V1_GET:
    case PMIWIRE_V2_KVS_GET: return PMIWIRE__AT_GET | PMIWIRE__AT_DATA;
    case PMIWIRE_V1_BARRIER_IN: return PMIWIRE__AT_ENTER | PMIWIRE__AT_DATA;
    case PMIWIRE_V2_KVS_FENCE: return PMIWIRE__AT_KVS_FENCE | PMIWIRE__AT_DATA;
    case PMIWIRE_V1_GET_RESULT:
    case PMIWIRE_V1_PUBLISH_NAME:
    case PMIWIRE_V1_UNPUBLISH_NAME:
    case PMIWIRE_V1_LOOKUP_NAME:
    case PMIWIRE_V1_LOOKUP_RESULT:
    case PMIWIRE_V1_SPAWN:
    case PMIWIRE_V2_KVS_GET_RESPONSE:
    case PMIWIRE_V2_INFO_PUTNODEATTR:
    case PMIWIRE_V2_INFO_GETNODEATTR:
    case PMIWIRE_V2_INFO_GETNODEATTR_RESPONSE:
    case PMIWIRE_V2_INFO_GETJOBATTR:
    case PMIWIRE_V2_INFO_GETJOBATTR_RESPONSE:
    case PMIWIRE_V2_NAME_PUBLISH:
    case PMIWIRE_V2_NAME_UNPUBLISH:
    case PMIWIRE_V2_NAME_LOOKUP:
    case PMIWIRE_V2_NAME_LOOKUP_RESPONSE:
    case PMIWIRE_V2_SPAWN:
    case PMIWIRE_V2_RING:
    case PMIWIRE_V2_RING_RESPONSE: return PMIWIRE__AT_DATA;
    default: return 0;
    }
}

int pmiwire_msg_ext(const struct pmiwire_msg *msg, uint16_t ext, struct pmiwire_str *out)
{
    const struct pmiwire__ext *desc = pmiwire__ext_get(ext);

    if (!desc || !(desc->at & pmiwire__ext_place(msg->id)))
        return PMIWIRE_EMISSING;
    for (uint32_t i = 0; i < msg->n_fields; i++) {
        if (msg->fields[i].id == 0 && pmiwire__is(msg->fields[i].key, desc->name)) {
            *out = msg->fields[i].value;
            return 0;
        }
    }
    return PMIWIRE_EMISSING;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Single answers of pmiwire_conn_query(). */
#ifndef PMIWIRE_TESTS_CONN_INFO_H
#define PMIWIRE_TESTS_CONN_INFO_H

#include <pmiwire/server.h>

static inline struct pmiwire_info_conn conn_info(const struct pmiwire_conn *c)
{
    struct pmiwire_info_conn info;

    pmiwire_conn_query(c, &info);
    return info;
}

static inline uint32_t conn_state(const struct pmiwire_conn *c)
{
    return conn_info(c).state;
}

static inline int conn_error(const struct pmiwire_conn *c)
{
    return conn_info(c).error;
}

#endif

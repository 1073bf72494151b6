/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpmix, loaded when the first job goes by PMIx. Linked, it would cost every pmirun 10 ms at its
 * start, and be needed on each node.
 *
 * Its headers are included here alone. Of what they declare only types, constants and the functions
 * below may be used: most of their macros call functions of the library by name.
 */
#ifndef PMIRUN_LIB_H
#define PMIRUN_LIB_H

#include <pmix.h>
#include <pmix_server.h>

/* clang-format off */
#define LIB_FUNCTIONS(X) \
    X(PMIx_server_init) X(PMIx_server_finalize) X(PMIx_Get_version) X(PMIx_Error_string) \
    X(PMIx_server_register_nspace) X(PMIx_server_deregister_nspace) \
    X(PMIx_server_register_client) X(PMIx_server_deregister_client) \
    X(PMIx_server_register_resources) X(PMIx_server_setup_fork) X(PMIx_server_dmodex_request) \
    X(PMIx_generate_regex) X(PMIx_generate_ppn) \
    X(PMIx_Notify_event) X(PMIx_Register_event_handler) \
    X(PMIx_Data_pack) X(PMIx_Data_unpack) X(PMIx_Value_destruct)
/* clang-format on */
#define LIB_MEMBER(name) __typeof__(&name) name;

struct lib {
    LIB_FUNCTIONS(LIB_MEMBER)
};

extern struct lib lib; /* once lib_load() has returned 0 */

/* 0, or -1 and *why: what to install. Loads it once. */
int lib_load(const char **why);

#endif

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

#include <stdbool.h>

#include <pmix.h>
#include <pmix_server.h>

/* clang-format off */
#define LIB_FUNCTIONS(X) \
    X(PMIx_server_init) X(PMIx_Get_version) X(PMIx_Error_string) \
    X(PMIx_server_register_nspace) X(PMIx_server_deregister_nspace) \
    X(PMIx_server_register_client) X(PMIx_server_deregister_client) \
    X(PMIx_server_register_resources) X(PMIx_server_setup_fork) X(PMIx_server_dmodex_request) \
    \
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

/*
 * Waiting for libpmix's thread, but not without end: what clients do can make it crash or hang
 * (a fence that ends twice when two of its ranks die at once, in 4.2.2).
 *
 *     struct lib_wait *w = lib_wait();
 *     rc = lib_waited(w, lib.PMIx_server_register_nspace(..., lib_on_done, w));
 */
#define LIB_WAIT_S 22            /* two newcomers that say nothing hold it up for 20 (bounds.h) */
struct lib_wait *lib_wait(void); /* exits when out of memory */
/* rc: what the call has returned. Its status then, or PMIX_ERR_TIMEOUT: libpmix does not answer,
 * and what it was given must stay. PMIX_OPERATION_SUCCEEDED becomes PMIX_SUCCESS. */
pmix_status_t lib_waited(struct lib_wait *w, pmix_status_t rc);
void lib_on_done(pmix_status_t status, void *w);
/* Has libpmix's thread sleep from now on. PMIx_server_finalize() is no end: it hangs, or crashes,
 * when a client has died in its PMIx_Init() (4.2.2). False: it did not answer within a second. */
bool lib_park(void);

#endif

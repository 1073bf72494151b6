/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libpmix when the first job uses PMIx. If it were linked, every launch would take 10 ms
 * more and every node would need it.
 *
 * Only this header includes libpmix's. Use their types and constants, and the functions below, but
 * not their macros: most call functions of the library by name.
 */
#ifndef LIB_H
#define LIB_H

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
 *     rc = lib_waited(w, w ? lib.PMIx_server_register_nspace(..., lib_on_done, w) : 0);
 */
#define LIB_WAIT_S 22            /* two silent newcomers stall it for 20 s (bounds.h) */
struct lib_wait *lib_wait(void); /* NULL: out of memory; lib_waited() then says so */
/* Waits for the status of a call that returned rc. PMIX_ERR_TIMEOUT: libpmix does not answer, and
 * its arguments must stay valid. PMIX_OPERATION_SUCCEEDED becomes PMIX_SUCCESS. */
pmix_status_t lib_waited(struct lib_wait *w, pmix_status_t rc);
void lib_on_done(pmix_status_t status, void *w);
/* Makes libpmix's thread sleep for good. PMIx_server_finalize() cannot be used: it hangs or crashes
 * when a client has died in its PMIx_Init() (4.2.2). False: no answer within a second. */
bool lib_park(void);

#endif

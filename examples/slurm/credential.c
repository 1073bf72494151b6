/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The step's secret on its way from srun to its nodes, as a MUNGE credential: encrypted under the
 * cluster's key, as Slurm's own credentials, and decoded by munged for one user alone.
 */
#include "plugin.h"

#include <munge.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static munge_ctx_t make_context(void)
{
    munge_ctx_t ctx = munge_ctx_create();

    if (ctx && settings.munge)
        (void)munge_ctx_set(ctx, MUNGE_OPT_SOCKET, settings.munge); /* the call reports a failure */
    return ctx;
}

char *credential_seal(const char *text, const char **why)
{
    munge_ctx_t ctx = make_context();
    char *credential = NULL;
    munge_err_t err =
        ctx ? munge_ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, geteuid()) : EMUNGE_NO_MEMORY;

    if (err == EMUNGE_SUCCESS)
        err = munge_encode(&credential, ctx, text, (int)strlen(text));
    munge_ctx_destroy(ctx);
    *why = munge_strerror(err);
    return err == EMUNGE_SUCCESS ? credential : NULL;
}

/* An old credential, or one decoded on this host before, is accepted: it hides a text and admits no
 * one. A credential of another user would make this agent serve that user's head. */
char *credential_open(const char *credential, const char **why)
{
    munge_ctx_t ctx = make_context();
    void *payload = NULL;
    char *text = NULL;
    int n = 0;
    uid_t uid = (uid_t)-1;
    munge_err_t err =
        ctx ? munge_decode(credential, ctx, &payload, &n, &uid, NULL) : EMUNGE_NO_MEMORY;

    munge_ctx_destroy(ctx);
    if (err == EMUNGE_CRED_EXPIRED || err == EMUNGE_CRED_REWOUND || err == EMUNGE_CRED_REPLAYED)
        err = EMUNGE_SUCCESS;
    *why = munge_strerror(err);
    if (err == EMUNGE_SUCCESS && uid != geteuid())
        *why = "it belongs to another user";
    else if (err == EMUNGE_SUCCESS && payload && n > 0 && (text = calloc(1, (size_t)n + 1)))
        memcpy(text, payload, (size_t)n);
    free(payload);
    return text;
}

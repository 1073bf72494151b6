/* SPDX-License-Identifier: BSD-3-Clause */
/* A PMIx client without an MPI: bare SIZE [without-names]. Job keys, a fence with its data and a
 * Get of every peer's value, one without data, with Gets from the server after it, and names that
 * are published, looked up and unpublished. Rank 0 prints "bare ok size=N". */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pmix_proc_t me;

#define CHECK_END() (PMIx_Abort(1, "a check failed", NULL, 0), exit(1))
#include "../../check.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        pmix_status_t rc_ = (call);                                                                \
        CHECK_MSG(rc_ == PMIX_SUCCESS, "%s", PMIx_Error_string(rc_));                              \
    } while (0)

static uint32_t job_number(const char *key)
{
    pmix_proc_t all;
    pmix_value_t *value;
    uint32_t n;

    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    OK(PMIx_Get(&all, key, NULL, 0, &value));
    CHECK_MSG(value->type == PMIX_UINT32, "%s has type %d", key, value->type);
    n = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return n;
}

static void put(const char *key, const char *text)
{
    pmix_value_t value;

    value.type = PMIX_STRING;
    value.data.string = (char *)(uintptr_t)text;
    OK(PMIx_Put(PMIX_GLOBAL, key, &value));
    OK(PMIx_Commit());
}

static void expect(uint32_t rank, const char *key, const char *text)
{
    pmix_proc_t peer;
    pmix_value_t *value;

    PMIX_LOAD_PROCID(&peer, me.nspace, rank);
    OK(PMIx_Get(&peer, key, NULL, 0, &value));
    CHECK_MSG(value->type == PMIX_STRING && strcmp(value->data.string, text) == 0, "%s of rank %u",
              key, rank);
    PMIX_VALUE_RELEASE(value);
}

static void fence(bool with_data)
{
    pmix_info_t info;

    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &with_data, PMIX_BOOL);
    OK(PMIx_Fence(NULL, 0, &info, 1));
    PMIX_INFO_DESTRUCT(&info);
}

/* Every rank's name is there after a fence, and gone after the next. */
static void names(uint32_t size)
{
    char name[64], text[64];
    char *keys[] = {name, NULL};
    pmix_pdata_t found;
    pmix_info_t info;

    snprintf(name, sizeof(name), "bare-name-%u", me.rank);
    snprintf(text, sizeof(text), "text of %u", me.rank);
    PMIX_INFO_LOAD(&info, name, text, PMIX_STRING);
    OK(PMIx_Publish(&info, 1));
    PMIX_INFO_DESTRUCT(&info);
    fence(false);
    PMIX_PDATA_CONSTRUCT(&found);
    snprintf(found.key, sizeof(found.key), "bare-name-%u", (me.rank + 1) % size);
    snprintf(text, sizeof(text), "text of %u", (me.rank + 1) % size);
    OK(PMIx_Lookup(&found, 1, NULL, 0));
    CHECK_MSG(found.value.type == PMIX_STRING && strcmp(found.value.data.string, text) == 0,
              "another value");
    CHECK_MSG(found.proc.rank == (me.rank + 1) % size, "published by rank %u", found.proc.rank);
    PMIX_PDATA_DESTRUCT(&found);
    fence(false);
    OK(PMIx_Unpublish(keys, NULL, 0));
    fence(false);
    PMIX_PDATA_CONSTRUCT(&found);
    snprintf(found.key, sizeof(found.key), "bare-name-%u", (me.rank + 1) % size);
    CHECK_MSG(PMIx_Lookup(&found, 1, NULL, 0) != PMIX_SUCCESS, "a name that was taken back");
    PMIX_PDATA_DESTRUCT(&found);
}

int main(int argc, char **argv)
{
    char text[64];
    uint32_t size;

    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr, "bare: PMIx_Init: no server\n");
        return 1;
    }
    size = job_number(PMIX_JOB_SIZE);
    CHECK_MSG(argc < 2 || size == (uint32_t)atoi(argv[1]), "a job of %u, not %s", size, argv[1]);
    CHECK_MSG(me.rank < size, "of %u", size);
    CHECK_MSG(job_number(PMIX_UNIV_SIZE) >= size, "a universe smaller than the job");
    CHECK_MSG(job_number(PMIX_LOCAL_SIZE) <= size, "a node with more ranks than the job");
    snprintf(text, sizeof(text), "fenced %u", me.rank);
    put("bare-fenced", text);
    fence(true);
    for (uint32_t r = 0; r < size; r++) {
        snprintf(text, sizeof(text), "fenced %u", r);
        expect(r, "bare-fenced", text);
    }
    fence(false);
    snprintf(text, sizeof(text), "asked for %u", me.rank);
    put("bare-direct", text);
    fence(false); /* does not bring it: the Get asks the rank's server */
    for (uint32_t r = 0; r < size; r++) {
        snprintf(text, sizeof(text), "asked for %u", r);
        expect(r, "bare-direct", text);
    }
    fence(false);
    if (argc < 3) {
        names(size);
        fence(false);
    } else if (me.rank == 0) {
        printf("  not tried: names\n"); /* Slurm has none */
    }
    if (me.rank == 0)
        printf("bare ok size=%u\n", size);
    fflush(stdout);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}

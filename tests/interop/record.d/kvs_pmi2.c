/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's PMI-2 client library, its API call by call.  pmi2 MODE. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void say(const char *what, int rc)
{
    if (rc != PMI2_SUCCESS) {
        fprintf(stderr, "%s: %d\n", what, rc);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "kvs";
    char key[64], value[1025], left[64], right[64], job[256];
    int spawned, rank, size, appnum, len, found, i, n, m, errs[4] = {0};

    say("init", PMI2_Init(&spawned, &size, &rank, &appnum));
    if (strcmp(mode, "kvs") == 0) {
        say("jobid", PMI2_Job_GetId(job, sizeof job));
        snprintf(key, sizeof key, "addr-%d", rank);
        snprintf(value, sizeof value, "rank %d; a=b;;c; ;", rank);
        say("put", PMI2_KVS_Put(key, value));
        if (rank == 0) {
            memset(value, 'v', 1024);
            value[1024] = '\0';
            say("put long", PMI2_KVS_Put("long", value));
        }
        say("fence", PMI2_KVS_Fence());
        for (i = 0; i < size; i++) {
            snprintf(key, sizeof key, "addr-%d", i);
            say(key, PMI2_KVS_Get(job, i, key, value, sizeof value, &len));
        }
        say("get long", PMI2_KVS_Get(job, PMI2_ID_NULL, "long", value, sizeof value, &len));
        say("no-such-key",
            PMI2_KVS_Get(job, PMI2_ID_NULL, "no-such-key", value, sizeof value, &len));
    } else if (strcmp(mode, "info") == 0) {
        static const char *const attrs[] = {"PMI_process_mapping", "universeSize", "hasNameServ",
                                            "no-such-attr"};

        for (i = 0; i < 4; i++) {
            say(attrs[i], PMI2_Info_GetJobAttr(attrs[i], value, sizeof value, &found));
        }
        if (rank == 0) {
            say("getnodeattr", PMI2_Info_GetNodeAttr("seg", value, sizeof value, &found, 0));
            sleep(1);
            say("putnodeattr", PMI2_Info_PutNodeAttr("seg", "/shm.0;x"));
        } else {
            say("getnodeattr", PMI2_Info_GetNodeAttr("seg", value, sizeof value, &found, 1));
        }
    } else if (strcmp(mode, "name") == 0) {
        if (rank == 0) {
            say("publish", PMI2_Nameserv_publish("ocean", NULL, "port-1234"));
        }
        say("fence", PMI2_KVS_Fence());
        say("lookup", PMI2_Nameserv_lookup("ocean", NULL, value, sizeof value));
        say("fence", PMI2_KVS_Fence());
        if (rank == 0) {
            say("unpublish", PMI2_Nameserv_unpublish("ocean", NULL));
            say("lookup again", PMI2_Nameserv_lookup("ocean", NULL, value, sizeof value));
        }
    } else if (strcmp(mode, "ring") == 0) {
        snprintf(value, sizeof value, "ep-%d", rank);
        say("ring", PMIX_Ring(value, &n, &m, left, right, sizeof left));
    } else if (strcmp(mode, "spawn") == 0 && rank == 0) {
        const char *cmds[] = {"/mnt/kid2"}, *args[] = {"hello", "two words", NULL},
                   **argvs[] = {args};
        int argcs[] = {2};
        const int procs[] = {2}, sizes[] = {1};
        struct MPID_Info wdir = {.key = (char *)"wdir", .value = (char *)"/mnt"};
        struct MPID_Info port = {.key = (char *)"parent-port", .value = (char *)"tag#0$"};
        const struct MPID_Info *infos[] = {&wdir}, *pre[] = {&port};

        say("spawn", PMI2_Job_Spawn(1, cmds, argcs, argvs, procs, sizes, infos, 1, pre, job,
                                    sizeof job, errs));
    } else if (strcmp(mode, "abort") == 0) {
        say("fence", PMI2_KVS_Fence());
        if (rank == size - 1) {
            PMI2_Abort(1, "the end");
        }
        say("fence", PMI2_KVS_Fence());
    }
    say("finalize", PMI2_Finalize());
    return 0;
}

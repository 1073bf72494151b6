/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's PMI-1 client library, its API piece by piece.  sl1 MODE. */
#include <slurm/pmi.h>
#include <stdio.h>
#include <string.h>

static void say(const char *what, int rc)
{
    if (rc != PMI_SUCCESS) {
        fprintf(stderr, "%s: %d\n", what, rc);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "kvs";
    char kvs[256] = "", key[64], value[1024], id[256];
    int spawned, rank, size, n, i, errs[4] = { 0 };

    say("init", PMI_Init(&spawned));
    say("rank", PMI_Get_rank(&rank));
    say("size", PMI_Get_size(&size));
    say("kvsname", PMI_KVS_Get_my_name(kvs, sizeof kvs));
    if (strcmp(mode, "kvs") == 0) {
        say("universe", PMI_Get_universe_size(&n));
        say("appnum", PMI_Get_appnum(&n));
        say("id", PMI_Get_id(id, sizeof id));
        say("clique", PMI_Get_clique_size(&n));
        snprintf(key, sizeof key, "addr-%d", rank);
        snprintf(value, sizeof value, "tcp://10.0.0.%d:4711?x=y;z", rank + 1);
        say("put", PMI_KVS_Put(kvs, key, value));
        say("commit", PMI_KVS_Commit(kvs));
        say("barrier", PMI_Barrier());
        for (i = 0; i < size; i++) {
            snprintf(key, sizeof key, "addr-%d", i);
            say(key, PMI_KVS_Get(kvs, key, value, sizeof value));
        }
        say("no-such-key", PMI_KVS_Get(kvs, "no-such-key", value, sizeof value));
    } else if (strcmp(mode, "name") == 0) {
        if (rank == 0) {
            say("publish", PMI_Publish_name("ocean", "port-1234"));
        }
        say("barrier", PMI_Barrier());
        say("lookup", PMI_Lookup_name("ocean", value));
        say("barrier", PMI_Barrier());
        if (rank == 0) {
            say("unpublish", PMI_Unpublish_name("ocean"));
            say("lookup again", PMI_Lookup_name("ocean", value));
        }
    } else if (strcmp(mode, "spawn") == 0 && !spawned && rank == 0) {
        const char *cmds[] = { "/mnt/kid1" }, *args[] = { "kvs", NULL }, **argvs[] = { args };
        PMI_keyval_t info[] = { { (char *)"wdir", (char *)"/mnt" } }, pre[] = { { (char *)"parent", (char *)"me" } };
        const PMI_keyval_t *infos[] = { info };
        const int procs[] = { 2 }, sizes[] = { 1 };

        say("spawn", PMI_Spawn_multiple(1, cmds, argvs, procs, sizes, infos, 1, pre, errs));
    } else if (strcmp(mode, "abort") == 0) {
        say("barrier", PMI_Barrier());
        if (rank == size - 1) {
            PMI_Abort(7, "the end");
        }
        say("barrier", PMI_Barrier());
    }
    say("finalize", PMI_Finalize());
    return 0;
}

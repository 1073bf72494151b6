/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPICH's PMI-1 client, from libmpich.a, its API call by call.  pmi1 MODE.
 *
 * Debian's MPICH is built for UCX, which cannot open a port: MPI_Comm_spawn() fails before it
 * reaches PMI, and an MPI program never sends a spawn. So this program calls the library's own
 * PMI_Spawn_multiple(). (Slurm's pmi.h has the same prototypes; its libpmi is no PMI client: it
 * asks srun by Slurm's own messages.)
 */
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
    char kvs[256] = "", key[64], value[1024];
    int spawned, rank, size, n, i, errs[4] = {0};

    say("init", PMI_Init(&spawned));
    say("rank", PMI_Get_rank(&rank));
    say("size", PMI_Get_size(&size));
    say("kvsname", PMI_KVS_Get_my_name(kvs, sizeof kvs));
    if (strcmp(mode, "kvs") == 0) {
        say("universe", PMI_Get_universe_size(&n));
        say("appnum", PMI_Get_appnum(&n));
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
    } else if (strcmp(mode, "spawn") == 0 || strcmp(mode, "multi") == 0) {
        const char *cmds[] = {"/mnt/kid1", "kid1"};
        const char *args1[] = {"kid", "two words", "a=b;c", NULL}, *args2[] = {"kid", NULL};
        const char **argvs[] = {args1, args2};
        PMI_keyval_t info[] = {{(char *)"wdir", (char *)"/mnt"}, {(char *)"path", (char *)"/mnt"}};
        PMI_keyval_t pre[] = {{(char *)"PARENT_ROOT_PORT_NAME", (char *)"tag#0$port#1234$"}};
        const PMI_keyval_t *infos[] = {info, info};
        const int procs[] = {1, 2}, sizes[] = {0, 2};

        if (rank == 0) {
            say("spawn", PMI_Spawn_multiple(*mode == 's' ? 1 : 2, cmds, argvs, procs, sizes, infos,
                                            1, pre, errs));
        }
        say("barrier", PMI_Barrier());
    } else if (strcmp(mode, "kid") == 0) {
        say("appnum", PMI_Get_appnum(&n));
        say("get", PMI_KVS_Get(kvs, "PARENT_ROOT_PORT_NAME", value, sizeof value));
        say("barrier", PMI_Barrier());
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

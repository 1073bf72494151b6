/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's PMI-2 client library, all of its API.
 *   pmi2 api [PEER]    every function but the two below
 *   pmi2 spawn [PEER]  PMI2_Job_Spawn of `pmi2 child`, which reports by publishing a name
 *   pmi2 mixed         one exchange, for a job whose other ranks run `pmi1 mixed`
 *   pmi2 ring          PMIX_Ring alone, for ranks on any nodes
 *   pmi2 abort         the last rank calls PMI2_Abort while the others wait in a fence
 * Prints a table, and from rank 0 "pmi2 MODE ok size=N" when every check passes; else exits with
 * 1. */
#include "table.h"

#include <slurm/pmi2.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct known known[] = {
    /* Slurm 22.05.8, mpi/pmi2. */
    {"srun", "PMI2_Info_GetJobAttr absent", 0, "found=TRUE whatever is asked"},
    {"srun", "PMI2_Info_GetJobAttrIntArray absent", 0, "found=TRUE whatever is asked"},
    {"srun", "PMI2_KVS_Get [semi;colon]", 0, "ends the value at the first ;"},
    {"srun", "PMI2_KVS_Get [;;two;;]", 0, "ends the value at the first ;"},
    {"srun", "PMI2_KVS_Get [tail;]", 0, "ends the value at the first ;"},
    {"srun", "PMI2_Nameserv_publish twice", 0, "the second wins"},
    {"srun", "PMI2_Nameserv_unpublish absent", 0, "rc=0"},
    {"srun", "PMI2_Job_Connect", 1, "never answered"},
    {"srun", "PMI2_Job_Disconnect", 1, "never answered"},
    {"srun", "argument semi;colon", 1,
     "ends the argument at the first ; and then refuses the spawn"},
    {"srun", "PMI2_KVS_Put [semi;colon]", 0, "refused by our library: this server would cut it"},
    {"srun", "PMI2_KVS_Put [;;two;;]", 0, "refused by our library: this server would cut it"},
    {"srun", "PMI2_KVS_Put [tail;]", 0, "refused by our library: this server would cut it"},
    /* Hydra 4.0.2 speaking PMI-2. */
    {"hydra", "PMI2_KVS_Put [semi;colon]", 0, "refused by our library: this server would cut it"},
    {"hydra", "PMI2_KVS_Put [;;two;;]", 0, "refused by our library: this server would cut it"},
    {"hydra", "PMI2_KVS_Put [tail;]", 0, "refused by our library: this server would cut it"},
    {"hydra", "PMI2_Info_GetJobAttr universeSize", 0, "found=FALSE unless -usize is given"},
    {"hydra", "PMI2_Info_GetJobAttrIntArray", 0, "found=FALSE unless -usize is given"},
    {"hydra", "PMI2_KVS_Get 1024 bytes", 0, "rc=0 for the put, and 1023 bytes kept"},
    {"hydra", "PMI2_KVS_Get key of 64", 0, "rc=0 for the put, and 63 bytes of the key kept"},
    {"hydra", "PMI2_KVS_Get [semi;colon]", 0, "ends the value at the first ;"},
    {"hydra", "PMI2_KVS_Get [;;two;;]", 0, "ends the value at the first ;"},
    {"hydra", "PMI2_KVS_Get [tail;]", 0, "ends the value at the first ;"},
    {"hydra", "PMI2_KVS_Get latest", 0, "on PMI-2 the first value of a key stays"},
    {"hydra", "PMI2_Nameserv_lookup", 0, "sends port=, where this library reads value="},
    {"hydra", "PMI2_Nameserv_unpublish absent", 0, "rc=0"},
    {"hydra", "PMIX_Ring", 1, "unknown command: the whole job is ended"},
    {"hydra", "PMI2_Job_Connect", 1, "unknown command: the whole job is ended"},
    {"hydra", "PMI2_Job_Disconnect", 1, "unknown command: the whole job is ended"},
    {"hydra", "argument semi;colon", 1, "ends the argument at the first ;"},
    {"hydra", "PMI2_Job_Spawn child's report", 1, "PMI2_Nameserv_lookup does not work"},
};

static struct table table = {known, COUNT(known), "", 0, 0};
static int size;
static char jobid[256];

#define ROW(right, check, ...) table_row(&table, right, check, __VA_ARGS__)

static int ok(const char *check, int rc)
{
    return ROW(rc == PMI2_SUCCESS, check, "%d", rc);
}

static void fence(void)
{
    int rc = PMI2_KVS_Fence();

    if (rc != PMI2_SUCCESS)
        ROW(0, "PMI2_KVS_Fence", "%d", rc);
}

/* A value that no other rank, key or round has: `n` bytes that both wires can carry. */
static void fill(char *value, int n, int seed)
{
    for (int i = 0; i < n; i++)
        value[i] = (char)('A' + (seed + i) % 26);
    value[n] = 0;
}

static void get_expect(const char *check, const char *job, int source, const char *key,
                       const char *expected)
{
    char value[PMI2_MAX_VALLEN + 8] = "";
    int length = -7;
    int rc = PMI2_KVS_Get(job, source, key, value, sizeof(value), &length);

    ROW(rc == PMI2_SUCCESS && !strcmp(value, expected) && length == (int)strlen(expected), check,
        "%d, %d bytes%s", rc, length, strcmp(value, expected) ? ", another value" : "");
}

static void info(void)
{
    char value[PMI2_MAX_ATTRVALUE] = "";
    int found = -1, universe, array[8] = {0}, n = -1, rc;

    rc = PMI2_Info_GetJobAttr("universeSize", value, sizeof(value), &found);
    universe = atoi(value);
    ROW(rc == PMI2_SUCCESS && found == 1 && universe >= size, "PMI2_Info_GetJobAttr universeSize",
        "%d found=%d %s", rc, found, value);
    found = -1;
    rc = PMI2_Info_GetJobAttrIntArray("universeSize", array, COUNT(array), &n, &found);
    ROW(rc == PMI2_SUCCESS && found == 1 && n == 1 && array[0] == universe,
        "PMI2_Info_GetJobAttrIntArray", "%d found=%d n=%d [0]=%d", rc, found, n, array[0]);
    found = -1;
    rc = PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof(value), &found);
    ROW(rc == PMI2_SUCCESS && found == 1 && !strncmp(value, "(vector,(", 9),
        "PMI2_Info_GetJobAttr PMI_process_mapping", "%d found=%d %s", rc, found,
        found ? value : "");
    found = -1;
    rc = PMI2_Info_GetJobAttr("noSuchAttribute", value, sizeof(value), &found);
    ROW(rc == PMI2_SUCCESS && found == 0, "PMI2_Info_GetJobAttr absent", "%d found=%d", rc, found);
    found = -1;
    rc = PMI2_Info_GetJobAttrIntArray("noSuchAttribute", array, COUNT(array), &n, &found);
    ROW(rc == PMI2_SUCCESS && found == 0, "PMI2_Info_GetJobAttrIntArray absent", "%d found=%d", rc,
        found);
}

/* Node attributes, which the ranks of one host share without a fence. */
static void node_attributes(void)
{
    char value[PMI2_MAX_ATTRVALUE] = "", text[64];
    int found = -1, array[8] = {0}, n = -1, rc;

    rc = PMI2_Info_GetNodeAttr("interopNever", value, sizeof(value), &found, 0);
    ROW(rc == PMI2_SUCCESS && found == 0, "PMI2_Info_GetNodeAttr absent", "%d found=%d", rc, found);
    if (table_try(&table, "PMI2_Info_GetNodeAttr wait before put")) {
        if (table.rank == 0) {
            usleep(200000); /* long enough that most of the others ask first and have to wait */
            ok("PMI2_Info_PutNodeAttr", PMI2_Info_PutNodeAttr("interopLate", "late=value"));
        }
        found = -1;
        rc = PMI2_Info_GetNodeAttr("interopLate", value, sizeof(value), &found, 1);
        ROW(rc == PMI2_SUCCESS && found == 1 && !strcmp(value, "late=value"),
            "PMI2_Info_GetNodeAttr wait before put", "%d found=%d %s", rc, found, value);
    }
    snprintf(text, sizeof(text), "interop%d", table.rank);
    ok("PMI2_Info_PutNodeAttr own", PMI2_Info_PutNodeAttr(text, "3,1,4,1,5"));
    fence();
    snprintf(text, sizeof(text), "interop%d", (table.rank + 1) % size);
    found = -1;
    rc = PMI2_Info_GetNodeAttr(text, value, sizeof(value), &found, 1);
    ROW(rc == PMI2_SUCCESS && found == 1 && !strcmp(value, "3,1,4,1,5"),
        "PMI2_Info_GetNodeAttr wait after put", "%d found=%d %s", rc, found, value);
    found = -1;
    rc = PMI2_Info_GetNodeAttr(text, value, sizeof(value), &found, 0);
    ROW(rc == PMI2_SUCCESS && found == 1 && !strcmp(value, "3,1,4,1,5"),
        "PMI2_Info_GetNodeAttr no wait", "%d found=%d %s", rc, found, value);
    found = -1;
    rc = PMI2_Info_GetNodeAttrIntArray(text, array, COUNT(array), &n, &found);
    ROW(rc == PMI2_SUCCESS && found == 1 && n == 5 && array[0] == 3 && array[4] == 5,
        "PMI2_Info_GetNodeAttrIntArray", "%d found=%d n=%d", rc, found, n);
    found = -1;
    rc = PMI2_Info_GetNodeAttrIntArray("interopNever", array, COUNT(array), &n, &found);
    ROW(rc == PMI2_SUCCESS && found == 0, "PMI2_Info_GetNodeAttrIntArray absent", "%d found=%d", rc,
        found);
}

static void kvs(void)
{
    /* 1023 is the most that PMI2_MAX_VALLEN of 1024 means when the terminating zero is counted,
     * 1024 when it is not. */
    static const int lengths[] = {1, 2, 63, 64, 255, 256, 1000, 1023, 1024};
    static const char *const odd[] = {"a=b=c",   "two words",        "semi;colon",
                                      ";;two;;", "(vector,(0,1,2))", "tail;"};
    char key[PMI2_MAX_KEYLEN + 1], value[PMI2_MAX_VALLEN + 1], check[64];
    int next = (table.rank + 1) % size, n_stale = 0, put_1024 = PMI2_FAIL, put_64;

    for (size_t i = 0; i < COUNT(lengths); i++) {
        snprintf(check, sizeof(check), "PMI2_KVS_Put %d bytes", lengths[i]);
        if (!table_try(&table, check))
            continue;
        snprintf(key, sizeof(key), "length-%d-%d", lengths[i], table.rank);
        fill(value, lengths[i], table.rank + (int)i);
        if (lengths[i] < PMI2_MAX_VALLEN) {
            ok(check, PMI2_KVS_Put(key, value));
        } else { /* refused, or kept whole: both are right */
            put_1024 = PMI2_KVS_Put(key, value);
            ROW(1, check, "%d", put_1024);
        }
    }
    ok("PMI2_KVS_Fence after put", PMI2_KVS_Fence());
    for (size_t i = 0; i < COUNT(lengths); i++) {
        snprintf(check, sizeof(check), "PMI2_KVS_Get %d bytes", lengths[i]);
        if (!table_try(&table, check))
            continue;
        snprintf(key, sizeof(key), "length-%d-%d", lengths[i], next);
        fill(value, lengths[i], next + (int)i);
        if (lengths[i] < PMI2_MAX_VALLEN || put_1024 == PMI2_SUCCESS)
            get_expect(check, i % 2 ? NULL : jobid, i % 3 ? PMI2_ID_NULL : next, key, value);
    }
    /* The longest key that the library lets through: PMI2_MAX_KEYLEN. */
    memset(key, 'k', PMI2_MAX_KEYLEN);
    key[PMI2_MAX_KEYLEN] = 0;
    snprintf(key, 20, "longest-%d", table.rank);
    key[strlen(key)] = '-';
    put_64 = PMI2_KVS_Put(key, "long-key"); /* refused, or kept whole: both are right */
    ROW(1, "PMI2_KVS_Put key of 64", "%d", put_64);
    for (size_t i = 0; i < COUNT(odd); i++) {
        snprintf(check, sizeof(check), "PMI2_KVS_Put [%s]", odd[i]);
        snprintf(value, 32, "odd-%zu-%d", i, table.rank);
        if (table_try(&table, check))
            ok(check, PMI2_KVS_Put(value, odd[i]));
    }
    fence();
    if (put_64 == PMI2_SUCCESS)
        get_expect("PMI2_KVS_Get key of 64", NULL, PMI2_ID_NULL, key, "long-key");
    for (size_t i = 0; i < COUNT(odd); i++) {
        snprintf(check, sizeof(check), "PMI2_KVS_Get [%s]", odd[i]);
        snprintf(value, 32, "odd-%zu-%d", i, next);
        if (table_try(&table, check))
            get_expect(check, NULL, PMI2_ID_NULL, value, odd[i]);
    }
    /* The latest value wins in each of many fences; every rank reads every rank's. */
    for (int round = 0; round < 5; round++) {
        snprintf(key, sizeof(key), "round-%d", table.rank);
        snprintf(value, sizeof(value), "r%d-%d", round, table.rank);
        if (PMI2_KVS_Put(key, value) != PMI2_SUCCESS)
            ROW(0, "PMI2_KVS_Put again", "round %d", round);
        fence();
        for (int i = 0; i < size; i++) {
            char got[64] = "";
            int length, rc;

            snprintf(key, sizeof(key), "round-%d", i);
            snprintf(value, sizeof(value), "r%d-%d", round, i);
            rc = PMI2_KVS_Get(NULL, PMI2_ID_NULL, key, got, sizeof(got), &length);
            n_stale += rc != PMI2_SUCCESS || strcmp(got, value) != 0;
        }
        fence(); /* no one puts the next round's before all have read this one's */
    }
    ROW(n_stale == 0, "PMI2_KVS_Get latest", "5 rounds, %d stale values", n_stale);
    if (table_try(&table, "PMI2_KVS_Get absent")) {
        int length = -1,
            rc = PMI2_KVS_Get(NULL, PMI2_ID_NULL, "no-such-key", value, sizeof(value), &length);

        ROW(rc != PMI2_SUCCESS || length <= 0, "PMI2_KVS_Get absent", "%d, %d bytes", rc, length);
    }
    if (table_try(&table, "PMI2_KVS_Get buffer too small")) {
        int length = 0, rc = PMI2_KVS_Get(NULL, PMI2_ID_NULL, "length-63-0", value, 10, &length);

        /* By the header, a negative length gives the value's length. */
        ROW(rc != PMI2_SUCCESS || length == -63, "PMI2_KVS_Get buffer too small", "%d, %d", rc,
            length);
    }
}

static void names(void)
{
    char service[64], port[PMI2_MAX_VALLEN] = "";
    int rc;

    snprintf(service, sizeof(service), "interop.%d", table.rank);
    ok("PMI2_Nameserv_publish", PMI2_Nameserv_publish(service, NULL, "tag#0$port=1:2"));
    fence();
    snprintf(service, sizeof(service), "interop.%d", (table.rank + 1) % size);
    rc = PMI2_Nameserv_lookup(service, NULL, port, sizeof(port));
    ROW(rc == PMI2_SUCCESS && !strcmp(port, "tag#0$port=1:2"), "PMI2_Nameserv_lookup", "%d %s", rc,
        port);
    fence();
    if (table_try(&table, "PMI2_Nameserv_publish twice")) {
        snprintf(service, sizeof(service), "interop.%d", table.rank);
        rc = PMI2_Nameserv_publish(service, NULL, "again");
        ROW(rc != PMI2_SUCCESS, "PMI2_Nameserv_publish twice", "%d", rc);
    }
    snprintf(service, sizeof(service), "interop.%d", table.rank);
    ok("PMI2_Nameserv_unpublish", PMI2_Nameserv_unpublish(service, NULL));
    fence();
    if (table_try(&table, "PMI2_Nameserv_lookup absent")) {
        port[0] = 0;
        rc = PMI2_Nameserv_lookup(service, NULL, port, sizeof(port));
        ROW(rc != PMI2_SUCCESS, "PMI2_Nameserv_lookup absent", "%d %s", rc, port);
    }
    if (table_try(&table, "PMI2_Nameserv_unpublish absent")) {
        rc = PMI2_Nameserv_unpublish(service, NULL);
        ROW(rc != PMI2_SUCCESS, "PMI2_Nameserv_unpublish absent", "%d", rc);
    }
}

static void ring(void)
{
    char mine[32], left[64] = "", right[64] = "", expected_left[32], expected_right[32];
    int ring_rank = -1, ring_size = -1, rc;

    if (!table_try(&table, "PMIX_Ring"))
        return;
    for (int round = 0; round < 2; round++) {
        snprintf(mine, sizeof(mine), "ring%d-%d", round, table.rank);
        snprintf(expected_left, sizeof(mine), "ring%d-%d", round, (table.rank + size - 1) % size);
        snprintf(expected_right, sizeof(mine), "ring%d-%d", round, (table.rank + 1) % size);
        rc = PMIX_Ring(mine, &ring_rank, &ring_size, left, right, sizeof(left));
        ROW(rc == PMI2_SUCCESS && ring_rank == table.rank && ring_size == size &&
                !strcmp(left, expected_left) && !strcmp(right, expected_right),
            "PMIX_Ring", "%d rank=%d size=%d left=%s right=%s", rc, ring_rank, ring_size, left,
            right);
    }
}

/* No server ever had these two commands: any answer is right except success for a nonexistent
 * job. */
static void connect_job(void)
{
    PMI2_Connect_comm_t conn;
    int rc;

    memset(&conn, 0, sizeof(conn));
    if (table_try(&table, "PMI2_Job_Connect")) {
        rc = PMI2_Job_Connect("no-such-job", &conn);
        ROW(rc != PMI2_SUCCESS, "PMI2_Job_Connect", "%d", rc);
    }
    if (table_try(&table, "PMI2_Job_Disconnect")) {
        rc = PMI2_Job_Disconnect("no-such-job");
        ROW(rc != PMI2_SUCCESS, "PMI2_Job_Disconnect", "%d", rc);
    }
}

static const char *const sent[] = {"plain",    "two words",   "k=v", "semi;colon",
                                   "dou\"ble", "back\\slash", "*",   "$HOME"};

static int try_argument(const char *argument)
{
    char check[64];

    snprintf(check, sizeof(check), "argument %s", argument);
    return table_try(&table, check);
}

static void spawn(const char *self)
{
    /* The structure is the header's: a list, which the library reads as an array. */
    struct MPID_Info infos[2], preput;
    const struct MPID_Info *info_vectors[2] = {infos, infos}, *preputs[1] = {&preput};
    const char *cmds[2] = {self, self};
    const char *first[3 + COUNT(sent)] = {"child", table.peer[0] ? table.peer : "none", "first"};
    const char *second[3] = {"child", first[1], "second"};
    const char **argvs[2] = {first, second};
    int argcs[2] = {3, 3}, maxprocs[2] = {2, 1}, info_sizes[2] = {1, 0};
    int errors[3] = {-7, -7, -7}, rc;
    char spawned[256] = "", service[320], port[PMI2_MAX_VALLEN];

    for (size_t i = 0; i < COUNT(sent); i++)
        if (try_argument(sent[i]))
            first[argcs[0]++] = sent[i];
    memset(infos, 0, sizeof(infos));
    memset(&preput, 0, sizeof(preput));
    infos[0].key = infos[1].key = (char[]){"interop-key"};
    infos[0].value = infos[1].value = (char[]){"interop-value"};
    preput.key = (char[]){"interop-preput"};
    preput.value = (char[]){"from-the-parent"};
    if (table.rank == 0) {
        rc = PMI2_Job_Spawn(2, cmds, argcs, argvs, maxprocs, info_sizes, info_vectors, 1, preputs,
                            spawned, sizeof(spawned), errors);
        ROW(rc == PMI2_SUCCESS && spawned[0], "PMI2_Job_Spawn", "%d jobid=%s errors=%d,%d,%d", rc,
            spawned, errors[0], errors[1], errors[2]);
        ROW(strcmp(spawned, jobid) != 0, "PMI2_Job_Spawn other jobid", "%s", spawned);
        ROW(errors[0] == 0 && errors[1] == 0 && errors[2] == 0, "PMI2_Job_Spawn errors", "%d,%d,%d",
            errors[0], errors[1], errors[2]);
        for (int i = 0;
             table_try(&table, "PMI2_Job_Spawn child's report") && rc == PMI2_SUCCESS && i < 3;
             i++) {
            int got = -1;

            snprintf(service, sizeof(service), "spawned.%d", i);
            port[0] = 0;
            for (int tries = 0; tries < 300 && got != PMI2_SUCCESS; tries++) {
                got = PMI2_Nameserv_lookup(service, NULL, port, sizeof(port));
                if (got != PMI2_SUCCESS)
                    usleep(50000);
            }
            ROW(got == PMI2_SUCCESS && !strcmp(port, "child-ok"), "PMI2_Job_Spawn child's report",
                "%d %s", got, port);
        }
        ok("PMI2_Nameserv_publish for the children",
           PMI2_Nameserv_publish("parent.done", NULL, "1"));
        for (int i = 0;
             table_try(&table, "PMI2_Job_Spawn child's report") && rc == PMI2_SUCCESS && i < 3;
             i++) {
            int got = PMI2_SUCCESS; /* until each child has seen that */

            snprintf(service, sizeof(service), "spawned.%d", i);
            for (int tries = 0; tries < 300 && got == PMI2_SUCCESS; tries++) {
                got = PMI2_Nameserv_lookup(service, NULL, port, sizeof(port));
                if (got == PMI2_SUCCESS)
                    usleep(50000);
            }
        }
    }
    fence();
}

/* The same exchange, key by key, as in pmi1.c: the two run in one job. */
static void mixed(void)
{
    char key[64], want[64];

    for (int round = 0; round < 3; round++) {
        snprintf(key, sizeof(key), "mixed-%d-%d", round, table.rank);
        snprintf(want, sizeof(want), "value=%d", round * 1000 + table.rank);
        ok("PMI2_KVS_Put mixed", PMI2_KVS_Put(key, want));
        fence();
        for (int i = 0; i < size; i++) {
            snprintf(key, sizeof(key), "mixed-%d-%d", round, i);
            snprintf(want, sizeof(want), "value=%d", round * 1000 + i);
            get_expect("PMI2_KVS_Get mixed", NULL, PMI2_ID_NULL, key, want);
        }
    }
}

static void child(int argc, char **argv, int spawned, int appnum)
{
    char value[PMI2_MAX_VALLEN] = "", service[64];
    int length, rc;

    ROW(spawned == 1, "child: PMI2_Init spawned", "%d", spawned);
    ROW(size == 3, "child: PMI2_Init size", "%d", size);
    ROW(appnum == (table.rank == 2), "child: PMI2_Init appnum", "%d on rank %d", appnum,
        table.rank);
    ROW(!strcmp(argv[3], table.rank == 2 ? "second" : "first"), "child: argv", "%s", argv[3]);
    if (table.rank != 2) {
        int at = 4;

        for (size_t i = 0; i < COUNT(sent); i++) {
            if (!try_argument(sent[i]))
                continue;
            ROW(at < argc && !strcmp(argv[at], sent[i]), "child: argv as sent", "[%s] for [%s]",
                at < argc ? argv[at] : "(none)", sent[i]);
            at++;
        }
        ROW(argc == at, "child: argc", "%d", argc);
    }
    rc = PMI2_KVS_Get(NULL, PMI2_ID_NULL, "interop-preput", value, sizeof(value), &length);
    ROW(rc == PMI2_SUCCESS && !strcmp(value, "from-the-parent"), "child: PMI2_KVS_Get preput",
        "%d %s", rc, value);
    fence();
    snprintf(service, sizeof(service), "spawned.%d", table.rank);
    ok("child: PMI2_Nameserv_publish",
       PMI2_Nameserv_publish(service, NULL, table.n_failed ? "child-failed" : "child-ok"));
    /* A server may unpublish a job's names at its end: stay until the parent has read them.
     * */
    for (int tries = 0; table_try(&table, "PMI2_Job_Spawn child's report") && tries < 300;
         tries++) {
        if (PMI2_Nameserv_lookup("parent.done", NULL, value, sizeof(value)) == PMI2_SUCCESS)
            break;
        usleep(50000);
    }
    ok("child: PMI2_Nameserv_unpublish", PMI2_Nameserv_unpublish(service, NULL));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "api";
    int spawned = -1, appnum = -1, rc, again;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2)
        table.peer = argv[2];
    if (!strcmp(mode, "child") && argc < 4)
        return 2;
    ROW(PMI2_Initialized() == 0, "PMI2_Initialized before", "%d", PMI2_Initialized());
    rc = PMI2_Init(&spawned, &size, &table.rank, &appnum);
    if (!ROW(rc == PMI2_SUCCESS, "PMI2_Init", "%d spawned=%d size=%d rank=%d appnum=%d", rc,
             spawned, size, table.rank, appnum))
        return 1;
    ROW(PMI2_Initialized() == 1, "PMI2_Initialized", "%d", PMI2_Initialized());
    rc = PMI2_Job_GetId(jobid, sizeof(jobid));
    ROW(rc == PMI2_SUCCESS && jobid[0], "PMI2_Job_GetId", "%d %s", rc, jobid);
    if (!strcmp(mode, "abort")) {
        fence();
        if (table.rank == size - 1)
            PMI2_Abort(1, "interop abort");
        PMI2_KVS_Fence();
        return 1; /* reached only when the abort did not end this rank */
    } else if (!strcmp(mode, "child")) {
        child(argc, argv, spawned, appnum);
    } else if (!strcmp(mode, "spawn")) {
        spawn(argv[0]);
    } else if (!strcmp(mode, "mixed")) {
        mixed();
    } else if (!strcmp(mode, "ring")) {
        ring();
    } else {
        again = -1;
        rc = PMI2_Job_GetRank(&again);
        ROW(rc == PMI2_SUCCESS && again == table.rank, "PMI2_Job_GetRank", "%d %d", rc, again);
        again = -1;
        rc = PMI2_Info_GetSize(&again);
        ROW(rc == PMI2_SUCCESS && again == size, "PMI2_Info_GetSize", "%d %d", rc, again);
        ROW(spawned == 0, "PMI2_Init spawned", "%d", spawned);
        info();
        node_attributes();
        kvs();
        names();
        ring();
        connect_job();
    }
    fence();
    ok("PMI2_Finalize", PMI2_Finalize());
    if (table.rank == 0 && !table.n_failed)
        printf("pmi2 %s ok size=%d\n", mode, size);
    return table.n_failed != 0;
}

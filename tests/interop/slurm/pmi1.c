/* SPDX-License-Identifier: BSD-3-Clause */
/* The PMI-1 API, with Slurm's libpmi (every function) or, with -DPMI_MPICH, with the client inside
 * MPICH's libmpich.a (every function that it has).
 *   pmi1 api [PEER]     every function but the two below
 *   pmi1 spawn [PEER]   PMI_Spawn_multiple of `pmi1 child`, which reports by publishing a name
 *   pmi1 mixed          one exchange, for a job whose other ranks run `pmi2 mixed`
 *   pmi1 abort [N]      the last rank calls PMI_Abort(N), default 42, while the others wait in a
 *                       barrier
 * Prints a table, and from rank 0 "pmi1 MODE ok size=N" when every check passes; else exits with 1.
 *
 * Slurm's libpmi never speaks PMI's wire: it asks srun, over Slurm's RPC, and so starts alone as
 * rank 0 of 1 under any other launcher. It has publish, lookup, unpublish and spawn only in name. A
 * library that does speak the wire can replace it (same soname, same ABI); that one must keep all
 * promises of the header. */
#include "table.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#ifdef PMI_MPICH /* Debian installs no pmi.h of MPICH's */
#define PMI_SUCCESS 0
#define PMI_BOOL    int
typedef struct PMI_keyval_t {
    const char *key;
    char *val;
} PMI_keyval_t;
int PMI_Init(int *spawned);
int PMI_Initialized(int *initialized);
int PMI_Finalize(void);
int PMI_Get_size(int *size);
int PMI_Get_rank(int *rank);
int PMI_Get_universe_size(int *size);
int PMI_Get_appnum(int *appnum);
int PMI_Publish_name(const char service_name[], const char port[]);
int PMI_Unpublish_name(const char service_name[]);
int PMI_Lookup_name(const char service_name[], char port[]);
int PMI_Barrier(void);
int PMI_Abort(int exit_code, const char error_msg[]);
int PMI_KVS_Get_my_name(char kvsname[], int length);
int PMI_KVS_Get_name_length_max(int *length);
int PMI_KVS_Get_key_length_max(int *length);
int PMI_KVS_Get_value_length_max(int *length);
int PMI_KVS_Put(const char kvsname[], const char key[], const char value[]);
int PMI_KVS_Commit(const char kvsname[]);
int PMI_KVS_Get(const char kvsname[], const char key[], char value[], int length);
int PMI_Spawn_multiple(int count, const char *cmds[], const char **argvs[], const int maxprocs[],
                       const int info_keyval_sizesp[], const PMI_keyval_t *info_keyval_vectors[],
                       int preput_keyval_size, const PMI_keyval_t preput_keyval_vector[],
                       int errors[]);
#else
#include <slurm/pmi.h>
#endif

static const struct known known[] = {
    /* Hydra 4.0.2. */
    {"hydra", "argument [endcmd]", 1,
     "takes arg3=endcmd for the end of the command, and the job ends"},
    {"hydra", "PMI_Spawn_multiple of no such program", 1,
     "rc=0 and errcodes 0, but the new processes never start"},
    /* Slurm's libpmi under srun: it does not use the wire. */
    {"srun", "PMI_Get_appnum", 0, "the job step's number, or -1 on the wire"},
    {"srun", "PMI_Publish_name", 0,
     "always PMI_FAIL, and on the wire there is no rc in the answer"},
    {"srun", "PMI_Lookup_name", 0, "always PMI_FAIL, and on the wire there is no rc in the answer"},
    {"srun", "PMI_Unpublish_name", 0,
     "always PMI_FAIL, and on the wire there is no rc in the answer"},
    {"srun", "PMI_KVS_Iter_*", 0, "error 14 where pairs are"},
    /* A libpmi that speaks the wire, in place of Slurm's, with Slurm's own server. */
    {"wire-srun", "PMI_Get_appnum", 0, "-1 on the wire"},
    {"wire-srun", "PMI_KVS_Put 1023 bytes", 0,
     "refused by our library: this server takes 1,024 bytes for a whole line"},
    {"wire-srun", "PMI_KVS_Get 1023 bytes", 0,
     "refused by our library: this server takes 1,024 bytes for a whole line"},
    {"wire-srun", "PMI_Publish_name twice", 0, "the second wins"},
    {"wire-srun", "PMI_Unpublish_name absent", 0, "rc=0"},
    {"wire-srun", "PMI_KVS_Create", 0, "the wire has no request for it"},
    /* The same with a server that has all requests. */
    {"wire", "PMI_KVS_Create", 0, "the wire has no request for it"},
    {"wire", "PMI_KVS_Put [semi;colon]", 0, "refused: not every server could carry it"},
    {"wire", "PMI_KVS_Get [semi;colon]", 0, "refused: not every server could carry it"},
    {"wire", "argument [back\\slash]", 1, "refused: not every server could carry it"},
};

static struct table table = {known, COUNT(known), "", 0, 0};
static int size, value_max, key_max;
static char kvsname[1024];
static char value[70000], expected[70000];

#define ROW(right, check, ...) table_row(&table, right, check, __VA_ARGS__)

static int ok(const char *check, int rc)
{
    return ROW(rc == PMI_SUCCESS, check, "%d", rc);
}

static void barrier(void)
{
    int rc = PMI_Barrier();

    if (rc != PMI_SUCCESS)
        ROW(0, "PMI_Barrier", "%d", rc);
}

static void identity(void)
{
    int n = -7, rc;

    rc = PMI_Get_universe_size(&n);
    ROW(rc == PMI_SUCCESS && (n == -1 || n >= size), "PMI_Get_universe_size", "%d %d", rc, n);
    n = -7;
    rc = PMI_Get_appnum(&n);
    ROW(rc == PMI_SUCCESS && n == 0, "PMI_Get_appnum", "%d %d", rc, n);
    rc = PMI_KVS_Get_name_length_max(&n);
    ROW(rc == PMI_SUCCESS && n > 0 && (int)strlen(kvsname) < n, "PMI_KVS_Get_name_length_max",
        "%d %d", rc, n);
    rc = PMI_KVS_Get_key_length_max(&key_max);
    ROW(rc == PMI_SUCCESS && key_max >= 32, "PMI_KVS_Get_key_length_max", "%d %d", rc, key_max);
    rc = PMI_KVS_Get_value_length_max(&value_max);
    ROW(rc == PMI_SUCCESS && value_max >= 64 && value_max < 65000, "PMI_KVS_Get_value_length_max",
        "%d %d", rc, value_max);
#ifndef PMI_MPICH
    char id[512] = "", domain[512] = "";
    int *ranks = NULL, mine = 0;

    rc = PMI_Get_id_length_max(&n);
    ROW(rc == PMI_SUCCESS && n > 0, "PMI_Get_id_length_max", "%d %d", rc, n);
    rc = PMI_Get_id(id, sizeof(id));
    ROW(rc == PMI_SUCCESS && id[0], "PMI_Get_id", "%d %s", rc, id);
    rc = PMI_Get_kvs_domain_id(domain, sizeof(domain));
    ROW(rc == PMI_SUCCESS && domain[0], "PMI_Get_kvs_domain_id", "%d %s", rc, domain);
    rc = PMI_Get_clique_size(&n);
    ROW(rc == PMI_SUCCESS && n == size, "PMI_Get_clique_size", "%d %d", rc,
        n); /* the test runs on one host */
    ranks = calloc((size_t)(n > 0 ? n : 1), sizeof(int));
    rc = PMI_Get_clique_ranks(ranks, n);
    for (int i = 0; ranks && i < n; i++)
        mine += ranks[i] == table.rank;
    ROW(rc == PMI_SUCCESS && mine == 1, "PMI_Get_clique_ranks", "%d, %d of %d are this rank", rc,
        mine, n);
    free(ranks);
#endif
}

static void fill(char *text, int n, int seed)
{
    for (int i = 0; i < n; i++)
        text[i] = (char)('A' + (seed + i) % 26);
    text[n] = 0;
}

static void get_expect(const char *check, const char *key, const char *want)
{
    int rc = PMI_KVS_Get(kvsname, key, value, value_max);

    ROW(rc == PMI_SUCCESS && !strcmp(value, want), check, "%d %zu bytes%s", rc, strlen(value),
        strcmp(value, want) ? ", another value" : "");
}

static void kvs(void)
{
    static const char *const odd[] = {"a=b=c", "semi;colon", "(vector,(0,1,2))", "rc=0", "cmd=put"};
    /* 1 to the longest, which with its terminating zero fills value_max. */
    int lengths[] = {1, 63, 64, 255, 0}, next = (table.rank + 1) % size, n_stale = 0, rc;
    char key[300], check[64];

    lengths[4] = value_max - 1;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        snprintf(key, sizeof(key), "length-%zu-%d", i, table.rank);
        snprintf(check, sizeof(check), "PMI_KVS_Put %d bytes", lengths[i]);
        fill(expected, lengths[i], table.rank + (int)i);
        ok(check, PMI_KVS_Put(kvsname, key, expected));
    }
    for (size_t i = 0; i < COUNT(odd); i++) {
        snprintf(key, sizeof(key), "odd-%zu-%d", i, table.rank);
        snprintf(check, sizeof(check), "PMI_KVS_Put [%s]", odd[i]);
        ok(check, PMI_KVS_Put(kvsname, key, odd[i]));
    }
    ok("PMI_KVS_Commit", PMI_KVS_Commit(kvsname));
    ok("PMI_Barrier", PMI_Barrier());
    for (size_t i = 0; i < COUNT(lengths); i++) {
        snprintf(key, sizeof(key), "length-%zu-%d", i, next);
        snprintf(check, sizeof(check), "PMI_KVS_Get %d bytes", lengths[i]);
        fill(expected, lengths[i], next + (int)i);
        get_expect(check, key, expected);
    }
    for (size_t i = 0; i < COUNT(odd); i++) {
        snprintf(key, sizeof(key), "odd-%zu-%d", i, next);
        snprintf(check, sizeof(check), "PMI_KVS_Get [%s]", odd[i]);
        get_expect(check, key, odd[i]);
    }
    if (table_try(&table, "PMI_KVS_Get absent")) {
        rc = PMI_KVS_Get(kvsname, "no-such-key", value, value_max);
        ROW(rc != PMI_SUCCESS, "PMI_KVS_Get absent", "%d", rc);
    }
#ifndef PMI_MPICH /* its own limit is below the server's, and not enforced */
    fill(expected, value_max + 1, 0);
    rc = PMI_KVS_Put(kvsname, "too-long", expected);
    ROW(rc != PMI_SUCCESS, "PMI_KVS_Put too long", "%d", rc);
#endif
    for (int round = 0; table_try(&table, "PMI_KVS_Get many rounds") && round < 5; round++) {
        /* "You may not put more than once with the same key", so each round has its own key.
         * */
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < size; i++) {
                char want[64];

                snprintf(key, sizeof(key), "round-%d-%d", round, i);
                snprintf(want, sizeof(want), "r%d-%d", round, i);
                if (pass == 0) {
                    if (i == table.rank)
                        n_stale += PMI_KVS_Put(kvsname, key, want) != PMI_SUCCESS;
                } else {
                    rc = PMI_KVS_Get(kvsname, key, value, value_max);
                    n_stale += rc != PMI_SUCCESS || strcmp(value, want) != 0;
                }
            }
            if (pass == 0)
                PMI_KVS_Commit(kvsname);
            barrier();
        }
        if (round == 4)
            ROW(n_stale == 0, "PMI_KVS_Get many rounds", "%d wrong", n_stale);
    }
}

static void names(void)
{
    char service[64], port[1024] = "";
    int rc;

    snprintf(service, sizeof(service), "interop.%d", table.rank);
    ok("PMI_Publish_name", PMI_Publish_name(service, "tag#0$port=1:2"));
    barrier();
    snprintf(service, sizeof(service), "interop.%d", (table.rank + 1) % size);
    rc = PMI_Lookup_name(service, port);
    ROW(rc == PMI_SUCCESS && !strcmp(port, "tag#0$port=1:2"), "PMI_Lookup_name", "%d %s", rc, port);
    barrier();
    snprintf(service, sizeof(service), "interop.%d", table.rank);
    rc = PMI_Publish_name(service, "again");
    ROW(rc != PMI_SUCCESS, "PMI_Publish_name twice", "%d", rc);
    ok("PMI_Unpublish_name", PMI_Unpublish_name(service));
    barrier();
    port[0] = 0;
    rc = PMI_Lookup_name(service, port);
    ROW(rc != PMI_SUCCESS, "PMI_Lookup_name absent", "%d", rc);
    rc = PMI_Unpublish_name(service);
    ROW(rc != PMI_SUCCESS, "PMI_Unpublish_name absent", "%d", rc);
}

#ifndef PMI_MPICH
static void key_value_spaces(void)
{
    char other[1024] = "", key[300] = "", val[2048] = "";
    int rc, pairs = 0, own = 0;

    rc = PMI_KVS_Create(other, sizeof(other));
    ROW(rc == PMI_SUCCESS && other[0] && strcmp(other, kvsname) != 0, "PMI_KVS_Create", "%d %s", rc,
        other);
    if (rc == PMI_SUCCESS) {
        ok("PMI_KVS_Put in a created space", PMI_KVS_Put(other, "colour", "green"));
        rc = PMI_KVS_Get(other, "colour", val, value_max);
        ROW(rc == PMI_SUCCESS && !strcmp(val, "green"), "PMI_KVS_Get in a created space", "%d %s",
            rc, val);
        ok("PMI_KVS_Destroy", PMI_KVS_Destroy(other));
        rc = PMI_KVS_Get(other, "colour", val, value_max);
        ROW(rc != PMI_SUCCESS, "PMI_KVS_Get in a destroyed space", "%d", rc);
    }
    /* The job's own space: this rank's own puts must be among the pairs. */
    snprintf(other, sizeof(other), "odd-0-%d", table.rank);
    rc = PMI_KVS_Iter_first(kvsname, key, key_max, val, value_max);
    while (rc == PMI_SUCCESS && key[0] && pairs < 100000) {
        pairs++;
        own += !strcmp(key, other) && !strcmp(val, "a=b=c");
        rc = PMI_KVS_Iter_next(kvsname, key, key_max, val, value_max);
    }
    ROW(rc == PMI_SUCCESS && own == 1, "PMI_KVS_Iter_first, _next", "%d, %d pairs", rc, pairs);
}

/* Calls that parse a launcher's command line: no result is specified, but each must return. */
static void options(void)
{
    char text[4096] = "", *args[] = {(char[]){"prog"}, (char[]){"-np"}, (char[]){"2"}, NULL},
         **argv = args;
    int n = sizeof(text), argc = 3, n_parsed = 0, n_keyvals = 0, rc;
    PMI_keyval_t *keyvals = NULL;

    rc = PMI_Get_options(text, &n);
    ROW(1, "PMI_Get_options", "%d", rc);
    rc = PMI_Parse_option(argc - 1, argv + 1, &n_parsed, &keyvals, &n_keyvals);
    ROW(1, "PMI_Parse_option", "%d n=%d", rc, n_keyvals);
    if (rc == PMI_SUCCESS)
        ok("PMI_Free_keyvals of a parsed option", PMI_Free_keyvals(keyvals, n_keyvals));
    keyvals = NULL;
    n_keyvals = 0;
    rc = PMI_Args_to_keyval(&argc, (char *((*)[]))args, &keyvals, &n_keyvals);
    ROW(1, "PMI_Args_to_keyval", "%d n=%d", rc, n_keyvals);
    if (rc == PMI_SUCCESS)
        ok("PMI_Free_keyvals", PMI_Free_keyvals(keyvals, n_keyvals));
}
#endif

static const char *const sent[] = {
    "plain",        "two words", "k=v",   "semi;colon", "dou\"ble", "sin'gle", "back\\slash",
    " lead trail ", "*",         "$HOME", "endcmd",     "cmd=x",    "",        "after empty"};

static int try_argument(const char *argument)
{
    char check[64];

    snprintf(check, sizeof(check), "argument [%s]", argument);
    return table_try(&table, check);
}

static void spawn(void)
{
    char self[4096] = ""; /* an absolute path, since the children start in another folder */
    const char *first[4 + COUNT(sent)] = {"child", table.peer[0] ? table.peer : "none", "first"};
    const char *second[4] = {"child", first[1], "second", NULL};
    const char *cmds[2] = {self, self}, **argvs[2] = {first, second};
    int maxprocs[2] = {2, 1}, info_sizes[2] = {2, 0}, errors[3] = {-7, -7, -7}, n = 3, rc;
    PMI_keyval_t infos[2] = {{(char[]){"interop-key"}, (char[]){"interop value"}},
                             {(char[]){"wdir"}, (char[]){"/"}}};
    PMI_keyval_t preput[2] = {{(char[]){"interop-preput"}, (char[]){"from-the-parent"}},
                              {(char[]){"interop-second"}, (char[]){"tag#0$a=b"}}};
    const PMI_keyval_t *info_vectors[2] = {infos, infos};
    char service[64], port[1024] = "";

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        ROW(0, "readlink", "failed");
    for (size_t i = 0; i < COUNT(sent); i++)
        if (try_argument(sent[i]))
            first[n++] = sent[i];
    if (table.rank == 0) {
        rc = PMI_Spawn_multiple(2, cmds, argvs, maxprocs, info_sizes, info_vectors, 2, preput,
                                errors);
        ROW(rc == PMI_SUCCESS && errors[0] == 0 && errors[1] == 0 && errors[2] == 0,
            "PMI_Spawn_multiple", "%d errors=%d,%d,%d", rc, errors[0], errors[1], errors[2]);
        for (int i = 0; rc == PMI_SUCCESS && i < 3; i++) {
            int got = -1;

            snprintf(service, sizeof(service), "spawned.%d", i);
            for (int tries = 0; tries < 300 && got != PMI_SUCCESS; tries++) {
                got = PMI_Lookup_name(service, port);
                if (got != PMI_SUCCESS)
                    usleep(50000);
            }
            ROW(got == PMI_SUCCESS && !strcmp(port, "child-ok"),
                "PMI_Spawn_multiple child's report", "%d %s", got, port);
        }
        ok("PMI_Publish_name for the children", PMI_Publish_name("parent.done", "1"));
        for (int i = 0; rc == PMI_SUCCESS && i < 3; i++) { /* until each child has seen that */
            snprintf(service, sizeof(service), "spawned.%d", i);
            for (int tries = 0; tries < 300 && PMI_Lookup_name(service, port) == PMI_SUCCESS;
                 tries++)
                usleep(50000);
        }
        if (table_try(&table, "PMI_Spawn_multiple of no such program")) {
            const char *none = "/no/such/program", *no_args[1] = {NULL}, **no_argvs[1] = {no_args};
            int one = 1, zero = 0, error = 0;
            const PMI_keyval_t *no_info[1] = {NULL};

            rc = PMI_Spawn_multiple(1, &none, no_argvs, &one, &zero, no_info, 0, NULL, &error);
            ROW(rc != PMI_SUCCESS || error != 0, "PMI_Spawn_multiple of no such program",
                "%d error=%d", rc, error);
        }
    }
    barrier();
}

/* The same exchange, key by key, as in pmi2.c: the two run in one job. */
static void mixed(void)
{
    char key[64], want[64];

    for (int round = 0; round < 3; round++) {
        snprintf(key, sizeof(key), "mixed-%d-%d", round, table.rank);
        snprintf(want, sizeof(want), "value=%d", round * 1000 + table.rank);
        ok("PMI_KVS_Put mixed", PMI_KVS_Put(kvsname, key, want));
        ok("PMI_KVS_Commit mixed", PMI_KVS_Commit(kvsname));
        barrier();
        for (int i = 0; i < size; i++) {
            snprintf(key, sizeof(key), "mixed-%d-%d", round, i);
            snprintf(want, sizeof(want), "value=%d", round * 1000 + i);
            get_expect("PMI_KVS_Get mixed", key, want);
        }
    }
}

static void child(int argc, char **argv, int spawned)
{
    char service[64], folder[4096] = "";
    int rc, appnum = -1;

    ROW(spawned == 1, "child: PMI_Init spawned", "%d", spawned);
    ROW(size == 3, "child: PMI_Get_size", "%d", size);
    rc = PMI_Get_appnum(&appnum);
    ROW(rc == PMI_SUCCESS && appnum == (table.rank == 2), "child: PMI_Get_appnum",
        "%d %d on rank %d", rc, appnum, table.rank);
    ROW(!strcmp(argv[3], table.rank == 2 ? "second" : "first"), "child: argv", "%s", argv[3]);
    if (table.rank != 2) {
        int at = 4;

        ROW(getcwd(folder, sizeof(folder)) && !strcmp(folder, "/"), "child: wdir of the info", "%s",
            folder);
        for (size_t i = 0; i < COUNT(sent); i++) {
            if (!try_argument(sent[i]))
                continue;
            ROW(at < argc && !strcmp(argv[at], sent[i]), "child: argv as sent", "[%s] for [%s]",
                at < argc ? argv[at] : "(none)", sent[i]);
            at++;
        }
        ROW(argc == at, "child: argc", "%d", argc);
    }
    get_expect("child: PMI_KVS_Get preput", "interop-preput", "from-the-parent");
    get_expect("child: PMI_KVS_Get second preput", "interop-second", "tag#0$a=b");
    barrier();
    snprintf(service, sizeof(service), "spawned.%d", table.rank);
    ok("child: PMI_Publish_name",
       PMI_Publish_name(service, table.n_failed ? "child-failed" : "child-ok"));
    /* A server may unpublish a job's names at its end: stay until the parent has read them.
     * */
    for (int tries = 0; tries < 300 && PMI_Lookup_name("parent.done", folder) != PMI_SUCCESS;
         tries++)
        usleep(50000);
    ok("child: PMI_Unpublish_name", PMI_Unpublish_name(service));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "api";
    int spawned = -1, n = -1, rc;
    PMI_BOOL initialized = -1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2)
        table.peer = argv[2];
    if (!strcmp(mode, "child") && argc < 4)
        return 2;
    rc = PMI_Initialized(&initialized);
    ROW(rc == PMI_SUCCESS && initialized == 0, "PMI_Initialized before", "%d %d", rc, initialized);
    rc = PMI_Init(&spawned);
    if (!ROW(rc == PMI_SUCCESS, "PMI_Init", "%d spawned=%d", rc, spawned))
        return 1;
    rc = PMI_Initialized(&initialized);
    ROW(rc == PMI_SUCCESS && initialized == 1, "PMI_Initialized", "%d %d", rc, initialized);
    rc = PMI_Get_rank(&table.rank);
    ROW(rc == PMI_SUCCESS && table.rank >= 0, "PMI_Get_rank", "%d %d", rc, table.rank);
    rc = PMI_Get_size(&size);
    ROW(rc == PMI_SUCCESS && size > table.rank, "PMI_Get_size", "%d %d", rc, size);
    if (getenv("INTEROP_SIZE")) /* a library without a launcher returns 1, and all else succeeds */
        ROW(strcmp(mode, "child") == 0 || size == atoi(getenv("INTEROP_SIZE")),
            "PMI_Get_size as started", "%d", size);
    rc = PMI_KVS_Get_my_name(kvsname, 256);
    ROW(rc == PMI_SUCCESS && kvsname[0], "PMI_KVS_Get_my_name", "%d %s", rc, kvsname);
    if (PMI_KVS_Get_value_length_max(&n) == PMI_SUCCESS)
        value_max = n;
    if (!strcmp(mode, "abort")) {
        barrier();
        if (table.rank == size - 1)
            PMI_Abort(argc > 2 ? atoi(argv[2]) : 42, "interop abort");
        PMI_Barrier();
        return 1; /* reached only when the abort did not end this rank */
    } else if (!strcmp(mode, "child")) {
        child(argc, argv, spawned);
    } else if (!strcmp(mode, "spawn")) {
        spawn();
    } else if (!strcmp(mode, "mixed")) {
        mixed();
    } else {
        ROW(spawned == 0, "PMI_Init spawned", "%d", spawned);
        identity();
        kvs();
        names();
#ifndef PMI_MPICH
        key_value_spaces();
        options();
#endif
    }
    barrier();
    ok("PMI_Finalize", PMI_Finalize());
    if (table.rank == 0 && !table.n_failed)
        printf("pmi1 %s ok size=%d\n", mode, size);
    return table.n_failed != 0;
}

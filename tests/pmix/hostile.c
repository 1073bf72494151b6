/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A malicious PMIx client, and other clients that work at the same time.
 *
 *     hostile ATTACK [ARGUMENT]     rank 0; see the table at the end
 *     hostile work [ROUNDS]         ranks 1 ... n - 1: put, fence, get
 *
 * Rank 0 prints the result of each attempt; a worker prints "done" when all its values were right.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <pmix.h>

extern char **environ;

static pmix_proc_t me;
static uint32_t size;
static const char *self;

static void say(const char *what, pmix_status_t rc)
{
    printf("%s: %s\n", what, PMIx_Error_string(rc));
    fflush(stdout);
}

static void must(const char *what, pmix_status_t rc)
{
    if (rc == PMIX_SUCCESS || rc == PMIX_OPERATION_SUCCEEDED)
        return;
    say(what, rc);
    _exit(1);
}

static void a_while(long ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static pmix_proc_t rank(uint32_t number)
{
    pmix_proc_t p = me;

    p.rank = number;
    return p;
}

static void begin(void)
{
    pmix_value_t *value;
    pmix_proc_t all;

    must("PMIx_Init", PMIx_Init(&me, NULL, 0));
    all = rank(PMIX_RANK_WILDCARD);
    must("PMIx_Get of the job's size", PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value));
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
}

static void finish(void)
{
    must("PMIx_Finalize", PMIx_Finalize(NULL, 0));
}

/* ---- workers ---- */

static uint32_t expected(uint32_t number, uint32_t round)
{
    return number * 1000003u + round;
}

static void work_round(const pmix_proc_t *workers, uint32_t round)
{
    char key[32];
    pmix_value_t value, *got;
    pmix_info_t collect;
    bool yes = true;

    snprintf(key, sizeof(key), "round%u", round);
    value.type = PMIX_UINT32;
    value.data.uint32 = expected(me.rank, round);
    must("PMIx_Put", PMIx_Put(PMIX_GLOBAL, key, &value));
    must("PMIx_Commit", PMIx_Commit());
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    must("PMIx_Fence", PMIx_Fence(workers, size - 1, &collect, 1));
    for (uint32_t i = 1; i < size; i++) {
        pmix_proc_t of = rank(i);

        must("PMIx_Get", PMIx_Get(&of, key, NULL, 0, &got));
        if (got->type != PMIX_UINT32 || got->data.uint32 != expected(i, round)) {
            printf("rank %u: a wrong value of rank %u in round %u\n", me.rank, i, round);
            exit(1);
        }
        PMIX_VALUE_RELEASE(got);
    }
}

static void work(const char *argument)
{
    const uint32_t rounds = argument ? (uint32_t)atoi(argument) : 20;
    pmix_proc_t workers[64];

    for (uint32_t i = 1; i < size && i <= 64; i++)
        workers[i - 1] = rank(i);
    for (uint32_t round = 0; round < rounds; round++) {
        work_round(workers, round);
        a_while(20);
    }
    puts("done");
}

/* ---- collectives of others ---- */

/* libpmix waits for a missing value until its own timeout. */
static pmix_info_t limit(void)
{
    pmix_info_t info;
    int seconds = 1;

    PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    return info;
}

static void fence_wrong(const char *argument)
{
    const pmix_proc_t other = rank(size + 7), nobody = {.nspace = "nobody", .rank = 0};
    const pmix_info_t wait = limit();

    say("fence over a rank that is not there", PMIx_Fence(&other, 1, &wait, 1));
    say("fence over a job that is not there", PMIx_Fence(&nobody, 1, &wait, 1));
    say("connect to a job that is not there", PMIx_Connect(&nobody, 1, &wait, 1));
}

/* Enters a fence of the workers', which is theirs alone. */
static void fence_join(const char *argument)
{
    const pmix_proc_t procs[] = {rank(1), rank(2), rank(3)};
    const pmix_info_t wait = limit();

    for (int i = 0; i < 5; i++)
        say("fence over other ranks", PMIx_Fence(procs, 3, &wait, 1));
}

/* ---- published values ---- */

static pmix_status_t publish(const char *key, const char *text)
{
    pmix_info_t info;
    pmix_status_t rc;

    PMIX_INFO_LOAD(&info, key, text, PMIX_STRING);
    rc = PMIx_Publish(&info, 1);
    PMIX_INFO_DESTRUCT(&info);
    return rc;
}

static void publish_many(const char *argument)
{
    const uint32_t n = argument ? (uint32_t)atoi(argument) : 3000;
    uint32_t done = 0;
    pmix_status_t rc = PMIX_SUCCESS;
    char key[32];

    for (; done < n && rc == PMIX_SUCCESS; done++) {
        snprintf(key, sizeof(key), "many%u", done);
        rc = publish(key, "x");
    }
    printf("published: %u\n", done - (rc != PMIX_SUCCESS));
    say("publish too many keys", rc);
}

static void publish_large(const char *argument)
{
    const size_t bytes = (size_t)64 << 20;
    char *text = malloc(bytes);

    memset(text, 'x', bytes);
    text[bytes - 1] = '\0';
    signal(SIGPIPE, SIG_IGN); /* the server may close the connection */
    say("publish a large value", publish("large", text));
    free(text);
}

/* Each alone is within the limit, all together are not. */
static void publish_some(const char *argument)
{
    static char text[100001];
    pmix_status_t rc = PMIX_SUCCESS;
    pmix_info_t *infos;
    char key[32];

    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < 100 && rc == PMIX_SUCCESS; i++) {
        snprintf(key, sizeof(key), "some%d", i);
        rc = publish(key, text);
    }
    say("publish many values that are large together", rc);
    PMIX_INFO_CREATE(infos, 1000);
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof(key), "once%d", i);
        PMIX_INFO_LOAD(&infos[i], key, "x", PMIX_STRING);
    }
    say("publish too many at once", PMIx_Publish(infos, 1000));
    PMIX_INFO_FREE(infos, 1000);
}

static unsigned n_answers, n_refused;

static void on_found(pmix_status_t status, pmix_pdata_t data[], size_t n, void *arg)
{
    (void)data, (void)n, (void)arg;
    n_refused += status == PMIX_ERR_OUT_OF_RESOURCE;
    __atomic_add_fetch(&n_answers, 1, __ATOMIC_RELEASE);
}

/* A small request with a large answer. */
static void lookup_repeated(void)
{
    static char text[100001];
    pmix_pdata_t *found;

    memset(text, 'x', sizeof(text) - 1);
    must("PMIx_Publish", publish("repeated", text));
    PMIX_PDATA_CREATE(found, 256);
    for (int i = 0; i < 256; i++)
        strcpy(found[i].key, "repeated");
    say("look a key up 256 times", PMIx_Lookup(found, 256, NULL, 0));
    PMIX_PDATA_FREE(found, 256);
}

static void lookup_flood(const char *argument)
{
    const unsigned n = argument ? (unsigned)atoi(argument) : 5000;
    char key[32];
    char *keys[2] = {key, NULL};
    pmix_info_t wait;
    int all = 0;

    lookup_repeated();
    PMIX_INFO_LOAD(&wait, PMIX_WAIT, &all, PMIX_INT);
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "never%u", i);
        must("PMIx_Lookup_nb", PMIx_Lookup_nb(keys, &wait, 1, on_found, NULL));
    }
    for (int i = 0; i < 500 && __atomic_load_n(&n_answers, __ATOMIC_ACQUIRE) < n - 16; i++)
        a_while(20);
    a_while(200);
    printf("lookups: %u refused, %u wait\n", n_refused, n - n_answers);
}

/* ---- the server's other memory ---- */

static void put_large(const char *argument)
{
    const size_t bytes = (size_t)(argument ? atoi(argument) : 64) << 20;
    char *text = malloc(bytes);
    pmix_value_t value = {.type = PMIX_STRING};

    memset(text, 'x', bytes);
    text[bytes - 1] = '\0';
    value.data.string = text;
    say("put a large value", PMIx_Put(PMIX_GLOBAL, "large", &value));
    say("commit", PMIx_Commit());
}

/* ---- processes ---- */

static pmix_status_t spawn(const char *program, int n, pmix_info_t *info, size_t n_info)
{
    char *argv[] = {strdup(program), NULL};
    pmix_app_t app = {.cmd = argv[0], .argv = argv, .maxprocs = n};
    pmix_nspace_t nspace;
    pmix_status_t rc;

    app.info = info;
    app.ninfo = n_info;
    rc = PMIx_Spawn(NULL, 0, &app, 1, nspace);
    free(argv[0]);
    return rc;
}

/* What belongs to all programs is in the request once. */
static void spawn_long(void)
{
    static char hosts[100001];
    char *argv[] = {strdup("/bin/true"), NULL};
    pmix_nspace_t nspace;
    pmix_info_t info;
    pmix_app_t *apps = calloc(1000, sizeof(*apps));

    memset(hosts, 'x', sizeof(hosts) - 1);
    PMIX_INFO_LOAD(&info, PMIX_HOST, hosts, PMIX_STRING);
    for (int i = 0; i < 1000; i++)
        apps[i] = (pmix_app_t){.cmd = argv[0], .argv = argv, .maxprocs = 1};
    say("spawn 1000 programs with many hosts", PMIx_Spawn(&info, 1, apps, 1000, nspace));
    PMIX_INFO_DESTRUCT(&info);
    free(argv[0]);
    free(apps);
}

static void spawn_many(const char *argument)
{
    spawn_long();
    say("spawn too many", spawn("/bin/true", 1000000, NULL, 0));
    say("spawn more than may run", spawn("/bin/true", 9, NULL, 0));
    say("spawn none", spawn("/bin/true", 0, NULL, 0));
    say("spawn fewer than none", spawn("/bin/true", -5, NULL, 0));
    say("spawn what is not there", spawn("/no/such/program", 1, NULL, 0));
    say("spawn no program", spawn("", 1, NULL, 0));
    for (int i = 0; i < 20; i++)
        spawn("/bin/true", 2, NULL, 0);
    say("spawn few", spawn("/bin/true", 2, NULL, 0));
}

static void abort_others(const char *argument)
{
    pmix_proc_t procs[2] = {{.nspace = "nobody", .rank = 0}, rank(2)};

    say("abort of a job that is not there", PMIx_Abort(77, "hostile was here", procs, 2));
    a_while(5000);
}

/* ---- paths of its choice ---- */

static void files(const char *path)
{
    pmix_info_t info[3];
    char *victim = NULL;
    bool yes = true;
    size_t n = 0;

    if (asprintf(&victim, "%s/out", path) < 0)
        _exit(1);
    PMIX_INFO_LOAD(&info[n++], PMIX_OUTPUT_TO_FILE, victim, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_OUTPUT_TO_DIRECTORY, victim, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_PREFIX, victim, PMIX_STRING);
    say("spawn with its output in files", spawn("/bin/pwd", 1, info, n));
    n = 0;
    PMIX_INFO_LOAD(&info[n++], PMIX_TMPDIR, victim, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_NSDIR, victim, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_TMPDIR, victim, PMIX_STRING);
    say("spawn with folders", spawn("/bin/pwd", 1, info, n));
    say("publish a folder", PMIx_Publish(info, n));
    n = 0;
    PMIX_INFO_LOAD(&info[n++], PMIX_REGISTER_CLEANUP, path, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_REGISTER_CLEANUP_DIR, path, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_CLEANUP_RECURSIVE, &yes, PMIX_BOOL);
    say("have a folder removed", PMIx_Job_control(NULL, 0, info, n, NULL, NULL));
    n = 0;
    PMIX_INFO_LOAD(&info[n++], PMIX_LOG_LOCAL_SYSLOG, "hostile", PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_LOG_GLOBAL_SYSLOG, "hostile", PMIX_STRING);
    say("write to the system's log", PMIx_Log(info, n, NULL, 0));
    n = 0;
    PMIX_INFO_LOAD(&info[n++], PMIX_JOB_CTRL_KILL, &yes, PMIX_BOOL);
    say("kill by job control", PMIx_Job_control(NULL, 0, info, n, NULL, NULL));
}

/* ---- events ---- */

static void events(const char *argument)
{
    const pmix_status_t codes[] = {PMIX_ERR_LOST_CONNECTION, PMIX_ERR_PROC_ABORTED,
                                   PMIX_ERR_UNREACH, PMIX_EVENT_JOB_END};
    pmix_proc_t other = rank(2);
    pmix_info_t info[2];

    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_AFFECTED_PROC, &other, PMIX_PROC);
    PMIX_INFO_LOAD(&info[1], "x", "y", PMIX_STRING);
    for (int i = 0; i < 2000; i++)
        PMIx_Notify_event(codes[i % 4], &other, PMIX_RANGE_GLOBAL, info, 2, NULL, NULL);
    say("events in the name of another rank",
        PMIx_Notify_event(codes[0], &other, PMIX_RANGE_GLOBAL, info, 2, NULL, NULL));
}

/* ---- another rank's name ---- */

/* This program once more, as another rank; its exit status. */
static int impersonate(const char *number, const char *nspace, const char *attack)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (number)
            setenv("PMIX_RANK", number, 1);
        if (nspace)
            setenv("PMIX_NAMESPACE", nspace, 1);
        alarm(10);
        execl(self, self, attack, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void claims(const char *argument)
{
    printf("as a rank that is not there: %d\n", impersonate("4711", NULL, "nothing"));
    printf("as a rank without a number: %d\n", impersonate("x", NULL, "nothing"));
    printf("as of a job that is not there: %d\n", impersonate(NULL, "nobody", "nothing"));
    fflush(stdout);
    /* libpmix distinguishes users, not the ranks of one user. */
    printf("as rank 2, which comes and goes: %d\n", impersonate("2", NULL, "nothing"));
    printf("as rank 2, which crashes: %d\n", impersonate("2", NULL, "crash"));
}

static void nothing(const char *argument)
{
    a_while(argument ? atoi(argument) : 0);
}

static void crash(const char *argument)
{
    raise(SIGKILL);
}

/* ---- input that is not PMIx ---- */

/* The server's address: "NAME;tcp4://ADDRESS:PORT" in the environment. */
static bool find_server(struct sockaddr_in *to)
{
    for (char **e = environ; *e; e++) {
        char *at = strncmp(*e, "PMIX_SERVER_URI", 15) == 0 ? strstr(*e, ";tcp4://") : NULL;
        char *port = at ? strrchr(at, ':') : NULL;

        if (!port)
            continue;
        *to = (struct sockaddr_in){.sin_family = AF_INET};
        to->sin_port = htons((uint16_t)atoi(port + 1));
        to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return true;
    }
    return false;
}

static int dial(const struct sockaddr_in *to)
{
    const struct timeval limit = {2, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void garbage(const char *argument)
{
    struct sockaddr_in to;
    uint64_t x = 88172645463325252u;
    unsigned char bytes[4096], answer[256];
    int held[200], n_held = 0, n_answered = 0;

    signal(SIGPIPE, SIG_IGN);
    if (!find_server(&to)) {
        puts("the server's address is not in the environment");
        return;
    }
    for (int i = 0; i < 200; i++) {
        /* An empty one; random bytes; a length beyond all memory. */
        const size_t n = i % 3 == 0 ? 0 : i % 3 == 1 ? sizeof(bytes) : 64;
        int fd = dial(&to);

        for (size_t k = 0; k < sizeof(bytes); k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            bytes[k] = (unsigned char)(i % 3 == 2 ? 0x7f : x);
        }
        if (fd < 0)
            continue;
        (void)!write(fd, bytes, n); /* the server may have cut it off already */
        if (i % 3 == 2)
            held[n_held++] = fd;
        else
            close(fd);
    }
    printf("connections: %d held\n", n_held);
    fflush(stdout);
    a_while(500);
    for (int i = 0; i < n_held; i++) {
        if (recv(held[i], answer, sizeof(answer), MSG_DONTWAIT) > 0)
            n_answered++;
        close(held[i]);
    }
    printf("connections: %d answered\n", n_answered);
}

/* Connections with half a handshake; waits until the server cuts them off. */
static void silent(const char *argument)
{
    const int n = argument ? atoi(argument) : 1;
    struct sockaddr_in to;
    int fds[16];
    char c = 0;

    if (!find_server(&to))
        exit(1);
    for (int i = 0; i < n && i < 16; i++) {
        fds[i] = dial(&to);
        if (fds[i] < 0 || write(fds[i], &c, 1) != 1)
            exit(1);
    }
    for (int i = 0; i < n && i < 16; i++)
        while (read(fds[i], &c, 1) < 0 && errno == EAGAIN)
            ;
    puts("the server has closed the connection");
}

/* ---- the beginning ---- */

static const struct {
    const char *name;
    void (*attack)(const char *argument);
} attacks[] = {
    {"work", work},           {"fence", fence_wrong},   {"join", fence_join},
    {"many", publish_many},   {"large", publish_large}, {"some", publish_some},
    {"lookup", lookup_flood}, {"put", put_large},       {"spawn", spawn_many},
    {"abort", abort_others},  {"files", files},         {"events", events},
    {"claims", claims},       {"garbage", garbage},     {"silent", silent},
    {"nothing", nothing},     {"crash", crash},
};

int main(int argc, char **argv)
{
    self = argv[0];
    for (size_t i = 0; argc > 1 && i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        if (strcmp(argv[1], attacks[i].name) != 0)
            continue;
        begin();
        attacks[i].attack(argc > 2 ? argv[2] : NULL);
        finish();
        return 0;
    }
    fprintf(stderr, "usage: hostile ATTACK [ARGUMENT]\n");
    return 2;
}

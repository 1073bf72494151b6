/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMIx host: libpmix's server in this process, and the jobs that it knows.
 *
 * libpmix has threads of its own. They take none of our signals: all are blocked when they start. A
 * rank on its way to execve() shares our memory with them too (launch.c). That is safe: it makes
 * raw system calls, changes only its flight, and drops the descriptors that they open.
 */
#define _GNU_SOURCE
#include "../local/host.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pmiwire/mapping.h>

#include "../local/folder.h"
#include "../local/launch.h"
#include "../local/pmirun.h"
#include "bounds.h"
#include "hosted.h"
#include "keys.h"

#ifndef HOST_WITHOUT /* a key that is left out: for a test's own pmirun */
#define HOST_WITHOUT NULL
#endif

extern char **environ;

/* A request to libpmix for the data that a client here has put. */
struct modex {
    struct modex *next;
    uint64_t id;
    const struct hosted *of;
    uint32_t rank;
    uint32_t ticks_gone; /* how long the client has been gone */
    host_done_fn done;
    void *ctx;
};

/* One a process, as the library that it loads. */
static struct {
    bool runs;
    struct queue queue;
    struct hosted *jobs;
    struct modex *modexes;
    uint64_t last_id;
    char *folder;
} host;

/* ---- what libpmix knows ---- */

struct hosted *hosted_find(const char *nspace)
{
    struct hosted *h = host.jobs;

    while (h && strcmp(h->nspace, nspace) != 0)
        h = h->next;
    return h;
}

uint64_t hosted_n_ranks(void)
{
    uint64_t n = 0;

    for (const struct hosted *h = host.jobs; h; h = h->next)
        n += h->n_ranks;
    return n;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = ((const struct rank *)b)->number;

    return x < y ? -1 : x > y;
}

/* An agent has its own ranks only, in their order. */
static struct rank *rank_here(const struct hosted *h, uint32_t number)
{
    if (!h || !h->job)
        return NULL;
    return bsearch(&number, h->job->ranks, h->job->n_local, sizeof(*h->job->ranks), by_number);
}

struct rank *hosted_rank(const char *nspace, uint32_t number, struct hosted **h)
{
    *h = hosted_find(nspace);
    return rank_here(*h, number);
}

static struct hosted *hosted_add(const char *nspace, uint32_t n_ranks, struct job *job)
{
    struct hosted *h = calloc(1, sizeof(*h));

    if (!h)
        return NULL;
    snprintf(h->nspace, sizeof(h->nspace), "%s", nspace);
    h->n_ranks = n_ranks;
    h->job = job;
    h->n_open = job ? calloc(job->n_local ? job->n_local : 1, sizeof(*h->n_open)) : NULL;
    if (job && !h->n_open) {
        free(h);
        return NULL;
    }
    h->next = host.jobs;
    host.jobs = h;
    return h;
}

static void hosted_remove(struct hosted *h)
{
    struct hosted **p = &host.jobs;

    while (*p != h)
        p = &(*p)->next;
    *p = h->next;
    free(h->n_open);
    free(h);
}

/* ---- the server ---- */

bool host_available(const char **why)
{
    return lib_load(why) == 0;
}

static void set_string(pmix_info_t *info, const char *key, char *s)
{
    snprintf(info->key, sizeof(info->key), "%s", key);
    info->value.type = PMIX_STRING;
    info->value.data.string = s;
}

/* Removes variables of another launcher, which are not for our server; keeps libpmix's settings. */
static void drop_stale(void)
{
    for (size_t i = 0; environ[i];) {
        char *name = NULL;

        if (strncmp(environ[i], "PMIX_", 5) == 0 && strncmp(environ[i], "PMIX_MCA_", 9) != 0)
            name = strndup(environ[i], strcspn(environ[i], "="));
        if (name && unsetenv(name) == 0)
            i = 0;
        else
            i++;
        free(name);
    }
}

/* This node, as its own ranks see it. */
static void own_name(struct pmirun *pr, char *buf, size_t size)
{
    buf[0] = '\0';
    if (pr->agent)
        snprintf(buf, size, "%s", agent_host_name(pr));
    else
        gethostname(buf, size - 1);
    buf[size - 1] = '\0';
    buf[strcspn(buf, ".,;")] = '\0'; /* libpmix cuts them there too; and they stand in lists */
    if (!buf[0])
        snprintf(buf, size, "localhost");
}

static uint32_t own_node(struct pmirun *pr)
{
    return pr->agent ? agent_node(pr) : 0;
}

#define FENCE_VARIABLE "PMIX_MCA_pmix_server_fence_localonly_opt"

/* For a timeline, makes libpmix hand us the fences of one node too, which it would end itself. It
 * reads the variable when it starts; the user's setting wins. True: remove the variable again. */
static bool want_fences(const struct pmirun *pr)
{
    return pr->timeline.on && !getenv(FENCE_VARIABLE) && setenv(FENCE_VARIABLE, "0", 1) == 0;
}

/* The server's own name, folder, and node. 0, or libpmix's error. */
static pmix_status_t init_server(struct pmirun *pr)
{
    char name[256], *nspace = xprintf("pmirun.%s.%u", pr->guard.key, own_node(pr));
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    pmix_info_t info[6] = {0};
    sigset_t all, before;
    pmix_status_t rc;
    bool wanted;

    own_name(pr, name, sizeof(name));
    set_string(&info[0], PMIX_SERVER_TMPDIR, host.folder);
    set_string(&info[1], PMIX_SYSTEM_TMPDIR, host.folder);
    set_string(&info[2], PMIX_SERVER_NSPACE, nspace);
    set_string(&info[3], PMIX_HOSTNAME, name);
    snprintf(info[4].key, sizeof(info[4].key), "%s", PMIX_SERVER_RANK);
    info[4].value.type = PMIX_PROC_RANK;
    info[4].value.data.rank = own_node(pr);
    /* The node's topology, to clients: in memory that they share, and as text. */
    snprintf(info[5].key, sizeof(info[5].key), "%s", PMIX_SERVER_SHARE_TOPOLOGY);
    info[5].value.type = PMIX_BOOL;
    info[5].value.data.flag = true;
    drop_stale();
    topology_use(pr, true);
    wanted = want_fences(pr);
    bounds_begin();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = lib.PMIx_server_init(upcalls_module(&host.queue), info, sizeof(info) / sizeof(info[0]));
    if (rc == PMIX_SUCCESS)
        lib.PMIx_Register_event_handler(&code, 1, NULL, 0, upcalls_on_event, NULL, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bounds_end();
    if (wanted)
        unsetenv(FENCE_VARIABLE);
    topology_use(pr, false);
    free(nspace);
    return rc;
}

static void free_queued(struct queued *q)
{
    upcall_free((struct upcall *)(void *)q);
}

/* libpmix may still ask when we are leaving, if it could not be parked. */
static void take(struct pmirun *pr, struct queued *q)
{
    if (host.runs)
        requests_take(pr, q);
    else
        free_queued(q);
}

/* 0, or a STATUS_* and *why. */
static int start_server(struct pmirun *pr, char **why)
{
    const char *text, *tmp;
    pmix_status_t rc;
    int err;

    if (host.runs)
        return 0;
    if (lib_load(&text) != 0) {
        *why = xprintf("%s", text);
        return STATUS_RESOURCES;
    }
    tmp = folder_get(pr, FOLDER_TMP);
    free(host.folder); /* of a start that failed */
    host.folder = tmp ? xprintf("%s/pmix", tmp) : NULL;
    if (!tmp || (mkdir(host.folder, 0700) != 0 && errno != EEXIST)) {
        *why = xprintf("cannot make a folder for PMIx in %s: %s", tmp ? tmp : "$TMPDIR or /tmp",
                       strerror(errno));
        return STATUS_RESOURCES;
    }
    err = queue_open(pr, &host.queue, take);
    if (err) {
        *why = xprintf("cannot make an eventfd for PMIx: %s", strerror(-err));
        return STATUS_RESOURCES;
    }
    rc = init_server(pr);
    if (rc != PMIX_SUCCESS) {
        queue_close(pr, &host.queue, NULL);
        *why = xprintf("libpmix's server does not start: %s", lib.PMIx_Error_string(rc));
        return STATUS_RESOURCES;
    }
    host.runs = true;
    if (!pr->tick.at)
        timer_set(pr, &pr->tick, pr->now_ns, pmi_tick);
    far_ready(pr);
    return 0;
}

/* ---- a job ---- */

/* NULL: cannot be written. */
static char *anl_map(const struct keys_job *k)
{
    size_t cap = 64 + 16 * (size_t)k->n_ranks;
    uint32_t *zeros = k->node_of ? NULL : calloc(k->n_ranks, sizeof(*zeros));
    const uint32_t *node_of = k->node_of ? k->node_of : zeros;
    char *text = malloc(cap);

    if (!text || !node_of ||
        pmiwire_mapping_encode(node_of, k->n_ranks, PMIWIRE_MAPPING_CLASSIC, cap - 1, text, cap) <=
            0) {
        free(text);
        text = NULL;
    }
    free(zeros);
    return text;
}

/* Builds the job's description, checks and registers it. 0, or a STATUS_* and *why. */
static int register_space(struct pmirun *pr, struct keys_job *k, uint32_t n_local, char **why)
{
    const char *without = HOST_WITHOUT, *key, *who = "";
    struct keys keys = {0};
    char name[256], *map = anl_map(k);
    pmix_status_t rc = PMIX_SUCCESS;
    struct lib_wait *w;
    uint32_t rank;
    int err;

    own_name(pr, name, sizeof(name));
    k->n_nodes = pr->opt.n_nodes ? pr->opt.n_nodes : 1;
    k->node = own_node(pr);
    k->host = name;
    k->anl_map = map;
    k->universe = pr->opt.universe_size > 0 ? (uint32_t)pr->opt.universe_size : k->n_ranks;
    err = keys_make(&keys, k);
    if (without)
        keys_remove(&keys, without);
    key = err ? NULL : keys_missing(&keys, k, &who, &rank);
    if (err) {
        *why = xprintf("cannot describe the job to PMIx: %s",
                       err == -EINVAL ? "libpmix cannot write its maps" : strerror(-err));
    } else if (key && rank == UINT32_MAX) {
        *why = xprintf("PMIx clients would hang: the job's description lacks the key %s, "
                       "which %s ask for; this pmirun is broken",
                       key, who);
    } else if (key) {
        *why = xprintf("PMIx clients would hang: the description of rank %u lacks the key "
                       "%s, which %s ask for; this pmirun is broken",
                       rank, key, who);
    } else {
        w = lib_wait();
        rc = lib_waited(w, lib.PMIx_server_register_nspace(k->nspace, (int)n_local, keys.info,
                                                           keys.n, lib_on_done, w));
        if (rc != PMIX_SUCCESS)
            *why = xprintf("libpmix refuses the job: %s", lib.PMIx_Error_string(rc));
    }
    if (rc != PMIX_ERR_TIMEOUT) /* else it may still read them */
        keys_free(&keys);
    free(map);
    return *why ? STATUS_RESOURCES : 0;
}

#define SERVER_FDS 32 /* of libpmix's threads, and while it reads topology and writes its files */

/* libpmix needs a descriptor for each client; without one a client would hang. */
static int check_descriptors(struct pmirun *pr, const struct job *job, char **why)
{
    uint64_t need, have;

    if (launch_check_limits(pr, job->n_local + (job->n_local + SERVER_FDS) / 3, &need, &have) == 0)
        return 0;
    *why = xprintf("%u processes that use PMIx need %llu descriptors, the limit is %llu: raise it "
                   "(ulimit -n)",
                   job->n_local, (unsigned long long)need, (unsigned long long)have);
    return STATUS_RESOURCES;
}

/* Lets its ranks here connect, each as itself only. */
static int register_clients(const struct job *job, char **why)
{
    for (uint32_t i = 0; i < job->n_local; i++) {
        pmix_proc_t proc = {.rank = job->ranks[i].number};
        struct lib_wait *w = lib_wait();
        pmix_status_t rc;

        snprintf(proc.nspace, sizeof(proc.nspace), "%s", job->kvsname);
        rc = lib_waited(
            w, lib.PMIx_server_register_client(&proc, geteuid(), getegid(), NULL, lib_on_done, w));
        if (rc != PMIX_SUCCESS) {
            *why = xprintf("libpmix refuses rank %u: %s", proc.rank, lib.PMIx_Error_string(rc));
            return STATUS_RESOURCES;
        }
    }
    return 0;
}

/* What a client's libpmix reads; PMIX_RANK, which differs, is launch.c's. */
static int set_vars(struct job *job, char **why)
{
    pmix_proc_t proc = {.rank = job->ranks[0].number};
    char **env = NULL;
    pmix_status_t rc;

    snprintf(proc.nspace, sizeof(proc.nspace), "%s", job->kvsname);
    rc = lib.PMIx_server_setup_fork(&proc, &env);
    for (char **e = env; e && *e; e++) {
        if (rc == PMIX_SUCCESS && strncmp(*e, "PMIX_RANK=", 10) != 0)
            job_var(job, *e);
        else
            free(*e);
    }
    free(env);
    if (rc != PMIX_SUCCESS) {
        *why = xprintf("libpmix has no variables for the ranks: %s", lib.PMIx_Error_string(rc));
        return STATUS_RESOURCES;
    }
    /* Without it, every process of Open MPI 4 starts as rank 0 of 1. */
    job_var(job, xprintf("OMPI_MCA_schizo=ompi"));
    return 0;
}

/* Folders whose names its ranks get. */
static int make_folders(const struct job *job, const char *nsdir, char **why)
{
    int rc = mkdir(nsdir, 0700);
    char *path;

    if (rc != 0)
        *why = xprintf("cannot make the folder %s: %s", nsdir, strerror(errno));
    for (uint32_t i = 0; rc == 0 && i < job->n_local; i++) {
        path = xappend(NULL, "%s/%u", nsdir, job->ranks[i].number);
        rc = mkdir(path, 0700);
        if (rc != 0)
            *why = xprintf("cannot make the folder %s: %s", path, strerror(errno));
        free(path);
    }
    return rc == 0 ? 0 : STATUS_RESOURCES;
}

int host_job(struct pmirun *pr, struct job *job, char **why)
{
    uint32_t *app_procs = xrealloc(NULL, (job->n_apps + 1) * sizeof(*app_procs));
    struct keys_job k = {.nspace = job->kvsname,
                         .n_ranks = job->n_ranks,
                         .node_of = job->node_of,
                         .n_apps = job->n_apps,
                         .app_procs = app_procs,
                         .n_before = job_others(pr, job),
                         .binding = job->bound,
                         .parent = job->spawner,
                         .parent_rank = job->spawner_rank};
    char *nsdir = NULL;
    int status;

    *why = NULL;
    for (uint32_t i = 0; i < job->n_apps; i++)
        app_procs[i] = job->apps[i].n_procs;
    status = check_descriptors(pr, job, why);
    if (status == 0)
        status = start_server(pr, why);
    if (status == 0) {
        nsdir = xprintf("%s/job%u", host.folder, job->number);
        k.tmpdir = host.folder;
        k.nsdir = nsdir;
        status = make_folders(job, nsdir, why);
    }
    if (status == 0)
        status = register_space(pr, &k, job->n_local, why);
    if (status == 0 && !hosted_add(job->kvsname, job->n_ranks, job)) {
        *why = xprintf("out of memory for a job's PMIx clients");
        status = STATUS_RESOURCES;
    }
    if (status == 0)
        status = register_clients(job, why);
    if (status == 0)
        status = set_vars(job, why);
    free(nsdir);
    free(app_procs);
    return status;
}

bool host_space(struct pmirun *pr, const struct space *s)
{
    struct keys_job k = {.nspace = s->nspace,
                         .n_ranks = s->n_ranks,
                         .node_of = s->node_of,
                         .n_apps = s->n_apps,
                         .app_procs = s->app_procs,
                         .parent = s->parent};
    char *why = NULL;

    if (!host.runs)
        return false;
    if (hosted_find(s->nspace))
        return true;
    if (register_space(pr, &k, 0, &why) != 0 || !hosted_add(s->nspace, s->n_ranks, NULL)) {
        say(pr, "%s", why ? why : "out of memory for a job's PMIx clients");
        free(why);
        return false;
    }
    return true;
}

static void ignore(pmix_status_t status, void *arg)
{
}

void host_space_over(struct pmirun *pr, const char *nspace)
{
    struct hosted *h = host.runs ? hosted_find(nspace) : NULL;

    if (!h)
        return;
    lib.PMIx_server_deregister_nspace(h->nspace, ignore, NULL);
    hosted_remove(h);
}

/* ---- who is gone ---- */

bool hosted_is_gone(const struct rank *r)
{
    return r->state == RANK_EXITED || r->pmi_state == PMIWIRE_CONN_FINALIZED;
}

/*
 * When all ranks of a job have entered a fence, libpmix hands it to us, or ends it itself if they
 * are all here. For a rank that is gone it would wait without end. So pmirun lowers the number of
 * ranks: libpmix then hands over the fence once the others have entered.
 */
void hosted_recount(struct hosted *h)
{
    static pmix_info_t no_data = {.key = PMIX_REGISTER_NODATA, .value.type = PMIX_BOOL};
    int n = 0;

    no_data.value.data.flag = true;
    for (uint32_t i = 0; i < h->job->n_local; i++)
        n += !hosted_is_gone(&h->job->ranks[i]);
    if (n > 0)
        lib.PMIx_server_register_nspace(h->nspace, n, &no_data, 1, ignore, NULL);
}

/* ---- pairs that a client here has put, for another node ---- */

void host_modex(struct pmirun *pr, const char *nspace, uint32_t rank, host_done_fn done, void *ctx)
{
    struct hosted *h;
    pmix_proc_t proc = {.rank = rank};
    struct modex *m;

    if (!hosted_rank(nspace, rank, &h)) {
        done(ctx, PMIX_ERR_NOT_FOUND, NULL, 0);
        return;
    }
    m = malloc(sizeof(*m));
    if (!m) {
        done(ctx, PMIX_ERR_NOMEM, NULL, 0);
        return;
    }
    *m = (struct modex){host.modexes, ++host.last_id, h, rank, 0, done, ctx};
    host.modexes = m;
    snprintf(proc.nspace, sizeof(proc.nspace), "%s", nspace);
    lib.PMIx_server_dmodex_request(&proc, upcalls_on_given, (void *)(uintptr_t)m->id);
}

static void given(struct modex **p, int status, const char *data, size_t len)
{
    struct modex *m = *p;

    *p = m->next;
    m->done(m->ctx, status, data, len);
    free(m);
}

void hosted_given(struct upcall *u)
{
    struct modex **p = &host.modexes;

    while (*p && (*p)->id != u->token)
        p = &(*p)->next;
    if (*p) /* else it was given up */
        given(p, u->status, u->data, u->len);
}

/* libpmix would wait without end for data of a client that is gone. */
static void give_up_modexes(void)
{
    for (struct modex **p = &host.modexes; *p;) {
        const struct rank *r = rank_here((*p)->of, (*p)->rank);

        if (r && !hosted_is_gone(r))
            p = &(*p)->next;
        else if ((*p)->ticks_gone++ < 2) /* the answer may be on its way */
            p = &(*p)->next;
        else
            given(p, PMIX_ERR_NOT_FOUND, NULL, 0);
    }
}

/* ---- events ---- */

#define EVENT_INFOS 3

struct event {
    pmix_proc_t proc; /* that it befell */
    pmix_info_t info[EVENT_INFOS];
};

/* In libpmix's thread. */
static void event_sent(pmix_status_t status, void *arg)
{
    free(arg);
}

void host_event(struct pmirun *pr, int code, const char *nspace, uint32_t rank, int status)
{
    struct event *e;
    pmix_info_t *info;

    if (!host.runs || !(e = calloc(1, sizeof(*e))))
        return;
    snprintf(e->proc.nspace, sizeof(e->proc.nspace), "%s", nspace);
    e->proc.rank = rank;
    info = e->info;
    snprintf(info[0].key, sizeof(info[0].key), "%s", PMIX_EVENT_AFFECTED_PROC);
    info[0].value.type = PMIX_PROC;
    info[0].value.data.proc = &e->proc;
    snprintf(info[1].key, sizeof(info[1].key), "%s", PMIX_EXIT_CODE);
    info[1].value.type = PMIX_INT;
    info[1].value.data.integer = status;
    /* Only to clients that asked for this code: others would end. */
    snprintf(info[2].key, sizeof(info[2].key), "%s", PMIX_EVENT_NON_DEFAULT);
    info[2].value.type = PMIX_BOOL;
    info[2].value.data.flag = true;
    if (lib.PMIx_Notify_event(code, &e->proc, PMIX_RANGE_SESSION, info, EVENT_INFOS, event_sent,
                              e) != PMIX_SUCCESS)
        free(e);
}

static int event_code(const struct rank *r, const siginfo_t *si)
{
    if (r->aborted)
        return PMIX_ERR_PROC_REQUESTED_ABORT;
    if (si->si_code != CLD_EXITED)
        return PMIX_ERR_PROC_ABORTED_BY_SIG;
    if (r->pmi_state == PMIWIRE_CONN_INITED)
        return PMIX_ERR_PROC_TERM_WO_SYNC;
    return si->si_status ? PMIX_ERR_EXIT_NONZERO_TERM : PMIX_EVENT_PROC_TERMINATED;
}

void host_rank_gone(struct pmirun *pr, struct rank *r, const siginfo_t *si)
{
    struct hosted *h;
    int code = event_code(r, si);

    if (!host.runs || !hosted_rank(r->job->kvsname, r->number, &h))
        return;
    h->n_open[r - r->job->ranks] = 0;
    hosted_recount(h);
    far_rank_gone(pr, r);
    if (pr->stopping)
        return;
    host_event(pr, code, r->job->kvsname, r->number, si->si_status);
    far_event(pr, code, r, si->si_status);
}

/* ---- the end ---- */

void host_job_over(struct pmirun *pr, struct job *job)
{
    struct hosted *h = host.runs ? hosted_find(job->kvsname) : NULL;

    if (!h)
        return;
    for (struct modex **p = &host.modexes; *p;) {
        if ((*p)->of == h)
            given(p, PMIX_ERR_NOT_FOUND, NULL, 0);
        else
            p = &(*p)->next;
    }
    far_job_over(pr, job);
    lib.PMIx_server_deregister_nspace(h->nspace, ignore, NULL);
    hosted_remove(h);
}

void host_tick(struct pmirun *pr)
{
    if (!host.runs)
        return;
    bounds_tick(pr);
    give_up_modexes();
    far_tick(pr);
}

void host_stop(struct pmirun *pr)
{
    if (!host.runs)
        return;
    host.runs = false;
    far_stop(pr);
    while (host.modexes) {
        struct modex *m = host.modexes;

        host.modexes = m->next;
        free(m);
    }
    if (!lib_park()) /* it may still use what is ours */
        return;
    queue_close(pr, &host.queue, free_queued);
    requests_free();
    while (host.jobs)
        hosted_remove(host.jobs);
    free(host.folder);
    host.folder = NULL;
}

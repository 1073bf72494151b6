/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libpmix's server in this process, and the jobs that it knows.
 *
 * libpmix has threads of its own. They take none of our signals: all are blocked when they start.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pmiwire/mapping.h>

#include "bounds.h"
#include "groups.h"
#include "keys.h"
#include "names.h"
#include "requests.h"

#ifndef HOST_WITHOUT /* a key that is left out: for a test's own host */
#define HOST_WITHOUT NULL
#endif

extern char **environ;

void host_say(struct pmix_host *h, const char *format, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    h->ops.say(h->ctx, text);
}

/* To be freed; NULL: no memory. */
static char *text_make(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *text_make(const char *format, ...)
{
    char *text;
    va_list ap;
    int n;

    va_start(ap, format);
    n = vasprintf(&text, format, ap);
    va_end(ap);
    return n < 0 ? NULL : text;
}

/* ---- jobs and ranks ---- */

struct host_job *host_job_find(const struct pmix_host *h, uint32_t number)
{
    struct host_job *job = h->jobs;

    while (job && job->number != number)
        job = job->next;
    return job;
}

static int client_compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = ((const struct client *)b)->rank;

    return x < y ? -1 : x > y;
}

struct client *host_client(const struct host_job *job, uint32_t rank)
{
    return job->n_clients == 0 ? NULL
                               : bsearch(&rank, job->clients, job->n_clients, sizeof(*job->clients),
                                         client_compare);
}

uint32_t host_client_gone(const struct client *c)
{
    if (c->state == PMIWIRE_CONN_FINALIZED)
        return PMIWIRE_GONE_FINALIZED;
    if (!c->ended)
        return 0;
    return c->state == PMIWIRE_CONN_NEW ? PMIWIRE_GONE_ABSENT : PMIWIRE_GONE_ENDED;
}

static void job_free(struct host_job *job)
{
    free(job->node_of);
    free(job->app_procs);
    free(job->parent);
    free(job->clients);
    free(job);
}

/* NULL: no memory. */
static struct host_job *job_new(const struct pmix_host *h, const struct pmix_host_job *from)
{
    struct host_job *job = calloc(1, sizeof(*job));
    const size_t apps = from->n_apps * sizeof(*job->app_procs);

    if (!job)
        return NULL;
    job->number = from->number;
    job->n_ranks = from->n_ranks;
    job->n_apps = from->n_apps;
    snprintf(job->nspace, sizeof(job->nspace), "%s", from->nspace);
    job->node_of = calloc(from->n_ranks, sizeof(*job->node_of));
    job->app_procs = malloc(apps + 1);
    job->parent = from->parent ? strdup(from->parent) : NULL;
    for (uint32_t i = 0; job->node_of && i < from->n_ranks; i++) {
        job->node_of[i] = from->node_of ? from->node_of[i] : h->node;
        job->n_clients += job->node_of[i] == h->node;
    }
    job->clients = calloc(job->n_clients + 1, sizeof(*job->clients));
    if (!job->node_of || !job->app_procs || !job->clients || (from->parent && !job->parent)) {
        job_free(job);
        return NULL;
    }
    memcpy(job->app_procs, from->app_procs, apps);
    for (uint32_t i = 0, n = 0; i < from->n_ranks; i++)
        if (job->node_of[i] == h->node)
            job->clients[n++] = (struct client){.rank = i, .state = PMIWIRE_CONN_NEW};
    return job;
}

/* ---- the server ---- */

bool pmix_host_available(const char **why)
{
    return lib_load(why) == 0;
}

static void info_string(pmix_info_t *info, const char *key, char *s)
{
    snprintf(info->key, sizeof(info->key), "%s", key);
    info->value.type = PMIX_STRING;
    info->value.data.string = s;
}

static void info_bool(pmix_info_t *info, const char *key)
{
    snprintf(info->key, sizeof(info->key), "%s", key);
    info->value.type = PMIX_BOOL;
    info->value.data.flag = true;
}

/* Removes variables of another launcher, which are not for our server; keeps libpmix's settings. */
static void drop_stale_vars(void)
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

#define FENCE_VARIABLE "PMIX_MCA_pmix_server_fence_localonly_opt"

/* Makes libpmix hand us the fences of one node too, which it would end itself. It reads the
 * variable when it starts; the user's setting wins. True: remove the variable again. */
static bool want_fences(const struct pmix_host *h)
{
    return h->ops.waits && !getenv(FENCE_VARIABLE) && setenv(FENCE_VARIABLE, "0", 1) == 0;
}

/* The server's own name, folder, and node. 0, or libpmix's error. */
static pmix_status_t server_init(struct pmix_host *h)
{
    char *nspace = text_make("%s.%u", h->server, h->node);
    pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
    pmix_info_t info[6] = {0};
    sigset_t all, before;
    pmix_status_t rc;
    bool wanted;

    if (!nspace)
        return PMIX_ERR_NOMEM;
    info_string(&info[0], PMIX_SERVER_TMPDIR, h->folder);
    info_string(&info[1], PMIX_SYSTEM_TMPDIR, h->folder);
    info_string(&info[2], PMIX_SERVER_NSPACE, nspace);
    info_string(&info[3], PMIX_HOSTNAME, h->name);
    snprintf(info[4].key, sizeof(info[4].key), "%s", PMIX_SERVER_RANK);
    info[4].value.type = PMIX_PROC_RANK;
    info[4].value.data.rank = h->node;
    /* The node's topology, to clients: in memory that they share, and as text. */
    info_bool(&info[5], PMIX_SERVER_SHARE_TOPOLOGY);
    drop_stale_vars();
    wanted = want_fences(h);
    bounds_begin();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = lib.PMIx_server_init(upcalls_module(&h->queue, h->env_key), info,
                              sizeof(info) / sizeof(info[0]));
    if (rc == PMIX_SUCCESS)
        lib.PMIx_Register_event_handler(&code, 1, NULL, 0, upcalls_on_event, NULL, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bounds_end();
    if (wanted)
        unsetenv(FENCE_VARIABLE);
    free(nspace);
    return rc;
}

/* 0, or -1 and *why. */
static int server_start(struct pmix_host *h, const char *folder, char **why)
{
    const char *text;
    pmix_status_t rc;

    if (h->runs)
        return 0;
    if (lib_load(&text) != 0) {
        *why = text_make("%s", text);
        return -1;
    }
    free(h->folder); /* of a start that failed */
    h->folder = text_make("%s/pmix", folder);
    if (!h->folder || (mkdir(h->folder, 0700) != 0 && errno != EEXIST)) {
        *why = text_make("cannot make a folder for PMIx in %s: %s", folder, strerror(errno));
        return -1;
    }
    rc = server_init(h);
    if (rc != PMIX_SUCCESS) {
        *why = text_make("libpmix's server does not start: %s", lib.PMIx_Error_string(rc));
        return -1;
    }
    h->runs = true;
    return 0;
}

/* ---- a job for libpmix ---- */

/* NULL: cannot be written. */
static char *anl_map_make(const struct host_job *job)
{
    size_t cap = 64 + 16 * (size_t)job->n_ranks;
    char *text = malloc(cap);

    if (text && pmiwire_mapping_encode(job->node_of, job->n_ranks, PMIWIRE_MAPPING_CLASSIC, cap - 1,
                                       text, cap) <= 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Fills in what is known of every job. */
static void keys_job_fill(const struct pmix_host *h, const struct host_job *job, struct keys_job *k)
{
    k->nspace = job->nspace;
    k->n_ranks = job->n_ranks;
    k->n_nodes = h->n_nodes;
    k->node = h->node;
    k->node_of = job->node_of;
    k->host = h->name;
    k->n_apps = job->n_apps;
    k->app_procs = job->app_procs;
    k->parent = job->parent;
}

/* Builds the job's description, checks and registers it. 0, or -1 and *why. */
static int space_register(struct pmix_host *h, struct host_job *job, struct keys_job *k, char **why)
{
    const char *without = HOST_WITHOUT, *key, *who = "";
    char *map = anl_map_make(job);
    struct keys keys = {0};
    pmix_status_t rc = PMIX_SUCCESS;
    struct lib_wait *w;
    uint32_t rank;
    int err;

    keys_job_fill(h, job, k);
    k->anl_map = map;
    err = keys_make(&keys, k);
    if (without)
        keys_remove(&keys, without);
    key = err ? NULL : keys_missing(&keys, k, &who, &rank);
    if (err) {
        *why = text_make("cannot describe the job to PMIx: %s",
                         err == -EINVAL ? "libpmix cannot write its maps" : strerror(-err));
    } else if (key && rank == UINT32_MAX) {
        *why = text_make("PMIx clients would hang: the job's description lacks the key %s, which "
                         "%s ask for; this pmirun is broken",
                         key, who);
    } else if (key) {
        *why = text_make("PMIx clients would hang: the description of rank %u lacks the key %s, "
                         "which %s ask for; this pmirun is broken",
                         rank, key, who);
    } else {
        w = lib_wait();
        rc = lib_waited(w, w ? lib.PMIx_server_register_nspace(k->nspace, (int)job->n_clients,
                                                               keys.info, keys.n, lib_on_done, w)
                             : 0);
        if (rc != PMIX_SUCCESS)
            *why = text_make("libpmix refuses the job: %s", lib.PMIx_Error_string(rc));
        job->registered = rc == PMIX_SUCCESS;
    }
    if (rc != PMIX_ERR_TIMEOUT) /* else it may still read them */
        keys_free(&keys);
    free(map);
    return job->registered ? 0 : -1;
}

/* Lets the job's ranks here connect, each as itself only. */
static int clients_register(const struct host_job *job, char **why)
{
    for (uint32_t i = 0; i < job->n_clients; i++) {
        pmix_proc_t proc = {.rank = job->clients[i].rank};
        struct lib_wait *w = lib_wait();
        pmix_status_t rc;

        snprintf(proc.nspace, sizeof(proc.nspace), "%s", job->nspace);
        rc = lib_waited(w, w ? lib.PMIx_server_register_client(&proc, geteuid(), getegid(), NULL,
                                                               lib_on_done, w)
                             : 0);
        if (rc != PMIX_SUCCESS) {
            *why = text_make("libpmix refuses rank %u: %s", proc.rank, lib.PMIx_Error_string(rc));
            return -1;
        }
    }
    return 0;
}

/* What a client's libpmix reads; PMIX_RANK, which differs, is the launcher's. */
static int vars_make(const struct host_job *job, char ***vars, char **why)
{
    pmix_proc_t proc = {.rank = job->clients[0].rank};
    char **env = NULL;
    pmix_status_t rc;
    size_t n = 0, k = 0;

    snprintf(proc.nspace, sizeof(proc.nspace), "%s", job->nspace);
    rc = lib.PMIx_server_setup_fork(&proc, &env);
    while (env && env[n])
        n++;
    *vars = rc == PMIX_SUCCESS ? calloc(n + 2, sizeof(**vars)) : NULL;
    for (size_t i = 0; i < n; i++) {
        if (*vars && strncmp(env[i], "PMIX_RANK=", 10) != 0)
            (*vars)[k++] = env[i];
        else
            free(env[i]);
    }
    free(env);
    /* Without it, every process of Open MPI 4 starts as rank 0 of 1. */
    if (*vars && ((*vars)[k] = strdup("OMPI_MCA_schizo=ompi")))
        return 0;
    *why = text_make("libpmix has no variables for the ranks: %s",
                     rc == PMIX_SUCCESS ? "out of memory" : lib.PMIx_Error_string(rc));
    return -1;
}

/* Folders whose names its ranks get. */
static int folders_make(const struct host_job *job, const char *nsdir, char **why)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s", nsdir);
    for (uint32_t i = 0;; i++) {
        if (mkdir(path, 0700) != 0) {
            *why = text_make("cannot make the folder %s: %s", path, strerror(errno));
            return -1;
        }
        if (i == job->n_clients)
            return 0;
        snprintf(path, sizeof(path), "%s/%u", nsdir, job->clients[i].rank);
    }
}

/* It has ranks here. */
static int job_begin_here(struct pmix_host *h, struct host_job *job,
                          const struct pmix_host_job *from, char ***vars, char **why)
{
    struct keys_job k = {.n_before = from->n_before,
                         .universe = from->universe,
                         .parent_rank = from->parent_rank,
                         .cpusets = from->cpusets,
                         .localities = from->localities};
    const bool ran = h->runs;
    char *nsdir = NULL;
    int rc = server_start(h, from->folder, why);

    if (rc == 0) {
        nsdir = text_make("%s/job%u", h->folder, job->number);
        k.tmpdir = h->folder;
        k.nsdir = nsdir;
        rc = nsdir ? folders_make(job, nsdir, why) : -1;
    }
    for (struct host_job *other = h->jobs; rc == 0 && !ran && other; other = other->next) {
        struct keys_job elsewhere = {.universe = other->n_ranks};

        if (!other->registered && other != job)
            rc = space_register(h, other, &elsewhere, why);
    }
    if (rc == 0)
        rc = space_register(h, job, &k, why);
    if (rc == 0)
        rc = clients_register(job, why);
    if (rc == 0)
        rc = vars_make(job, vars, why);
    free(nsdir);
    return rc;
}

int pmix_host_job_begin(struct pmix_host *h, const struct pmix_host_job *from, char ***vars,
                        char **why)
{
    struct keys_job elsewhere = {.universe = from->n_ranks};
    struct host_job *job = job_new(h, from);
    int rc = 0;

    *vars = NULL;
    *why = NULL;
    if (job) {
        job->next = h->jobs;
        h->jobs = job;
        if (job->n_clients > 0)
            rc = job_begin_here(h, job, from, vars, why);
        else if (h->runs)
            rc = space_register(h, job, &elsewhere, why);
    }
    if ((!job || rc != 0) && !*why)
        *why = text_make("out of memory for a job's PMIx clients");
    return job && rc == 0 ? 0 : -1;
}

/* ---- data that a client here has put, for another node ---- */

int host_modex(struct pmix_host *h, const struct host_job *job, uint32_t rank, uint64_t token)
{
    struct upcall *answer; /* allocated before: it must not be lost */
    pmix_proc_t proc = {.rank = rank};

    if (!h->runs || !host_client(job, rank))
        return HOST_ENOENT;
    answer = upcall_new_given(token);
    if (!answer)
        return HOST_ENOMEM;
    snprintf(proc.nspace, sizeof(proc.nspace), "%s", job->nspace);
    if (lib.PMIx_server_dmodex_request(&proc, upcalls_on_given, answer) != PMIX_SUCCESS)
        upcalls_on_given(PMIX_ERR_NOT_FOUND, NULL, 0, answer);
    return HOST_OK;
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

/* Notifies the clients here that asked for events of this code. */
static void event_notify(int code, const char *nspace, uint32_t rank, int status)
{
    struct event *e = calloc(1, sizeof(*e));
    pmix_info_t *info;

    if (!e)
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
    info_bool(&info[2], PMIX_EVENT_NON_DEFAULT);
    if (lib.PMIx_Notify_event(code, &e->proc, PMIX_RANGE_SESSION, info, EVENT_INFOS, event_sent,
                              e) != PMIX_SUCCESS)
        free(e);
}

static int event_code(enum pmix_host_end end)
{
    switch (end) {
    case PMIX_HOST_ABORTED: return PMIX_ERR_PROC_REQUESTED_ABORT;
    case PMIX_HOST_SIGNALED: return PMIX_ERR_PROC_ABORTED_BY_SIG;
    case PMIX_HOST_UNSYNCED: return PMIX_ERR_PROC_TERM_WO_SYNC;
    case PMIX_HOST_BADLY: return PMIX_ERR_EXIT_NONZERO_TERM;
    default: return PMIX_EVENT_PROC_TERMINATED;
    }
}

static void done_ignore(pmix_status_t status, void *arg)
{
}

/*
 * When all ranks of a job have entered a fence, libpmix hands it to us, or ends it itself if they
 * are all here. For a rank that is gone it would wait without end. So the host lowers the number of
 * ranks: libpmix then hands over the fence once the others have entered.
 */
void host_recount(const struct host_job *job)
{
    static pmix_info_t no_data = {.key = PMIX_REGISTER_NODATA, .value.type = PMIX_BOOL};
    int n = 0;

    no_data.value.data.flag = true;
    for (uint32_t i = 0; i < job->n_clients; i++)
        n += !host_client_gone(&job->clients[i]);
    if (n > 0)
        lib.PMIx_server_register_nspace(job->nspace, n, &no_data, 1, done_ignore, NULL);
}

void pmix_host_rank_ended(struct pmix_host *h, uint32_t number, uint32_t rank,
                          enum pmix_host_end end, int status)
{
    const struct host_job *job = host_job_find(h, number);
    struct client *c = job ? host_client(job, rank) : NULL;

    if (!job || !h->runs)
        return;
    if (c) {
        c->ended = true;
        c->n_open = 0;
        host_recount(job);
        names_rank_gone(h, number, rank);
    }
    event_notify(event_code(end), job->nspace, rank, status);
}

/* ---- the loop ---- */

int pmix_host_fd(const struct pmix_host *h)
{
    return h->queue.fd;
}

void pmix_host_progress(struct pmix_host *h)
{
    for (struct queued *q = queue_take(&h->queue), *next; q; q = next) {
        next = q->next;
        requests_take(h, (struct upcall *)(void *)q);
    }
}

void pmix_host_tick(struct pmix_host *h, uint64_t now_ns)
{
    h->now_ns = now_ns;
    if (!h->runs)
        return;
    if (!bounds_tick())
        h->ops.failed(h->ctx, "libpmix's server has not answered for 30 s, so no PMIx client is "
                              "served; a program that connects to its port and sends nothing can "
                              "cause that");
    requests_send_again(h);
    groups_tick(h);
    names_tick(h);
}

bool pmix_host_frame(struct pmix_host *h, uint32_t node, const void *frame, size_t bytes)
{
    return groups_input(h, node, frame, bytes);
}

void pmix_host_link_ready(struct pmix_host *h, uint32_t node)
{
    groups_link_ready(h, node);
}

void pmix_host_answer(struct pmix_host *h, uint64_t token, int rc, struct pmiwire_str text)
{
    if (token == 0)
        names_retry(h);
    else if (!names_answer(h, token, rc, text))
        requests_spawned(h, token, rc, text);
}

/* ---- begin and end ---- */

int pmix_host_create(const struct pmix_host_opts *opts, struct pmix_host **host)
{
    struct pmix_host *h = calloc(1, sizeof(*h));
    int rc;

    if (!h)
        return -ENOMEM;
    h->ops = *opts->ops;
    h->ctx = opts->ctx;
    h->node = opts->node;
    h->n_nodes = opts->n_nodes;
    h->server = strdup(opts->server);
    h->name = strdup(opts->host);
    h->env_key = strdup(opts->env_key);
    rc = h->server && h->name && h->env_key ? queue_open(&h->queue) : -ENOMEM;
    if (rc == 0) {
        *host = h;
        return 0;
    }
    free(h->server);
    free(h->name);
    free(h->env_key);
    free(h);
    return rc;
}

void pmix_host_job_end(struct pmix_host *h, uint32_t number)
{
    struct host_job **p = &h->jobs, *job;

    while (*p && (*p)->number != number)
        p = &(*p)->next;
    job = *p;
    if (!job)
        return;
    groups_job_end(h, number);
    names_job_end(h, number);
    if (h->runs && job->registered)
        lib.PMIx_server_deregister_nspace(job->nspace, done_ignore, NULL);
    *p = job->next;
    job_free(job);
}

void pmix_host_destroy(struct pmix_host *h)
{
    if (!h)
        return;
    groups_free(h);
    names_free(h);
    if (h->runs && !lib_park()) /* it may still use what is ours */
        return;
    for (struct queued *q = queue_take(&h->queue), *next; q; q = next) {
        next = q->next;
        upcall_free((struct upcall *)(void *)q);
    }
    requests_free(h);
    while (h->jobs) {
        struct host_job *job = h->jobs;

        h->jobs = job->next;
        job_free(job);
    }
    queue_close(&h->queue);
    free(h->folder);
    free(h->server);
    free(h->name);
    free(h->env_key);
    free(h);
}

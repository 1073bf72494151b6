/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses how a job's ranks find each other. --mpi auto decides by the libraries of its programs,
 * without running them. For most the ELF file suffices (elf_needed.c): it names MPICH, or only
 * libraries of a compiler, and imports nothing that starts or loads another program. For the others
 * pmirun asks the loader for the whole list (`ld.so --list`). A program that may start or load any
 * MPI gets PMI and PMIx: its MPI takes its own.
 */
#define _GNU_SOURCE
#include "mpi_detect.h"

#include "bind.h"
#include "elf_needed.h"
#include "folder.h"
#include "host.h"
#include "job.h"
#include "job_end.h"
#include "launch.h"
#include "loop.h"
#include "ompi_binding.h"
#include "program.h"
#include "rank_env.h"
#include "role.h"
#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_BYTES (256u << 10) /* of a list of libraries, at most */
/* For the lists of all programs of a job. Meanwhile pmirun serves no rank and an agent does not
 * answer its head, so both limits are well below --node-timeout's 25 s. */
#define LIST_S         10u /* the first job */
#define LIST_SPAWNED_S 1u  /* a spawned one: ranks of others run */
/* While no rank asks: the first look, the next ones each after twice the time, and the warning. */
#define LOOK_NS (30 * NS_PER_MS)
#define WARN_S  10u
#define LOOK_AT 64u /* processes, at most */

extern char **environ;

static const char OPENMPI[] = "libmpi.so.40";

/* ---- what programs need ---- */

/* Libraries that some program of the job needs. */
struct found {
    bool pmi;                /* an MPI that speaks PMI, or a PMI client */
    bool openmpi, openmpi4;  /* Open MPI; and what 5 no longer has */
    bool pmix;               /* a PMIx client, or PRRTE */
    bool other;              /* one that proves nothing, and may need one of the above */
    bool unproven;           /* a program that may start or load any of them */
    bool hidden;             /* the same, or a static program, which may start another */
    char openmpi_path[4096]; /* where Open MPI is, "": not known */
    uint64_t end_ns;         /* for lists, of all programs together */
    uint32_t n_unasked;      /* programs for whose lists no time was left */
};

static void note_library(void *ctx, const char *name)
{
    static const char *const pmi[] = {"libmpich", "libmpi.so.12", "libpmi.so", "libpmi2.so", NULL};
    static const char *const openmpi[] = {"libmpi.so.40", "liboshmem.so.40", NULL};
    static const char *const pmix[] = {"libpmix.so", "libprrte.so", NULL};
    static const char *const runtime[] = {
        "ld-linux",    "ld-musl",      "libc.",         "libm.so",        "libmvec.so",
        "libdl.so",    "librt.so",     "libpthread.so", "libutil.so",     "libresolv.so",
        "libgcc_s.so", "libstdc++.so", "libatomic.so",  "libgfortran.so", "libquadmath.so",
        "libgomp.so",  "libasan.so",   "libubsan.so",   "libtsan.so",     "linux-vdso.so",
        NULL};
    struct found *f = ctx;

    if (begins_with(name, pmi))
        f->pmi = true;
    else if (begins_with(name, openmpi))
        f->openmpi = true;
    else if (strcmp(name, "libopen-rte.so.40") == 0)
        f->openmpi4 = true;
    else if (begins_with(name, pmix))
        f->pmix = true;
    else if (!begins_with(name, runtime))
        f->other = true;
}

/* A line of the list: "\tNAME => PATH (0xADDRESS)", or without "NAME =>". */
static void note_line(struct found *f, char *line)
{
    char *name = line + strspn(line, " \t"), *path = strstr(name, " => ");

    if (path) {
        *path = '\0';
        path += 4;
        path[strcspn(path, " ")] = '\0';
    } else {
        name[strcspn(name, " ")] = '\0';
    }
    note_library(f, name);
    if (path && path[0] == '/' && strcmp(name, "libopen-rte.so.40") == 0)
        snprintf(f->openmpi_path, sizeof(f->openmpi_path), "%s", path);
}

/* The user's part of the ranks' environment, all that matters to what loads them. */
static char **loader_env(const struct app *app)
{
    const size_t n = strings_count(environ);
    char **e = xrealloc(NULL, (n + app->n_sets + 1) * sizeof(*e));
    size_t k = 0;

    for (uint32_t i = 0; i < app->n_sets; i++)
        if (!app_sets(app, app->sets[i], i + 1))
            e[k++] = app->sets[i];
    for (size_t i = 0; i < n; i++)
        if (!app_sets(app, environ[i], 0))
            e[k++] = environ[i];
    e[k] = NULL;
    return e;
}

/* Starts `interp --list program`, whose output can be read from *out. */
static int start_list(const struct app *app, char *interp, pid_t *pid, int *out)
{
    char list[] = "--list", *argv[] = {interp, list, app->path, NULL}, **env;
    posix_spawn_file_actions_t files;
    int p[2], rc;

    if (pipe2(p, O_CLOEXEC) != 0)
        return errno;
    env = loader_env(app);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, p[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (app->wdir)
        posix_spawn_file_actions_addchdir_np(&files, app->wdir);
    rc = posix_spawn(pid, interp, &files, NULL, argv, env);
    posix_spawn_file_actions_destroy(&files);
    free(env);
    close(p[1]);
    if (rc)
        close(p[0]);
    *out = p[0];
    return rc;
}

/* All libraries of the program. */
static void note_list(const struct app *app, char *interp, struct found *f)
{
    char *text = xrealloc(NULL, LIST_BYTES), *save = NULL;
    pid_t pid = 0;
    int fd = -1, rc = start_list(app, interp, &pid, &fd);

    if (rc == 0) {
        const ssize_t n = read_until(fd, text, LIST_BYTES - 1, f->end_ns);
        const bool all = n >= 0 && n < (ssize_t)LIST_BYTES - 1;

        if (all)
            text[n] = '\0';
        close(fd);
        kill_child(pid); /* it has ended, or is to end */
        for (char *line = all ? strtok_r(text, "\n", &save) : NULL; line;
             line = strtok_r(NULL, "\n", &save))
            note_line(f, line);
        if (!all)
            log_message(
                "warning: %s --list %s does not end or prints too much: the libraries of %s are "
                "ignored; choose with --mpi",
                interp, app->path, app->path);
    } else {
        log_verbose("%s, which loads %s, cannot be started: %s", interp, app->path, strerror(rc));
    }
    free(text);
}

static void note_program(const struct app *app, bool lists, struct found *f)
{
    struct found own = {.end_ns = f->end_ns};
    struct needs needs = {.library = note_library, .ctx = &own};
    char *full = app->path[0] == '/' || !app->wdir ? NULL : xprintf("%s/%s", app->wdir, app->path);
    int fd = open(full ? full : app->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool elf = fd >= 0 && needs_read(fd, &needs);

    free(full);
    if (fd >= 0)
        close(fd);
    if (elf && needs.interp[0] && (own.openmpi || own.pmix || (own.other && !own.pmi)) && lists) {
        if (clock_ns() < f->end_ns)
            note_list(app, needs.interp, &own);
        else
            f->n_unasked++;
    }
    if (!own.pmi && !own.openmpi && !own.pmix) {
        f->unproven = f->unproven || !elf || own.other || needs.leads_on;
        f->hidden = f->hidden || f->unproven || !needs.interp[0];
    }
    f->openmpi = f->openmpi || own.openmpi;
    f->openmpi4 = f->openmpi4 || own.openmpi4;
    f->pmix = f->pmix || (own.pmix && !own.pmi);
    if (own.openmpi_path[0])
        snprintf(f->openmpi_path, sizeof(f->openmpi_path), "%s", own.openmpi_path);
}

/* The libraries of all programs of the job. An agent looks at programs without a rank here too,
 * where they exist: all nodes should find the same. */
static void note_programs(struct job *job, struct found *f)
{
    const uint32_t limit_s = job->spawned ? LIST_SPAWNED_S : LIST_S;

    f->end_ns = clock_ns() + limit_s * NS_PER_S;
    for (uint32_t i = 0; i < job->n_apps; i++) {
        struct app *app = &job->apps[i];

        if (app->path || program_resolve(app) == 0)
            note_program(app, job->jobs->opt->mpi != MPI_PMI, f);
    }
    if (f->n_unasked)
        log_message(
            "warning: %u s were not enough to find the job's libraries: those of %u programs are "
            "ignored; choose with --mpi",
            limit_s, f->n_unasked);
}

/* ---- Open MPI 4 by PMI-1 ---- */

/* Fencepost's libpmi, in the build tree or where both are installed; NULL: missing. */
static char *find_libpmi(void)
{
    static const char *const places[] = {"../pmi", PMIRUN_LIBDIR};
    char self[4096], *slash, *path, *found = NULL;
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    self[n < 0 ? 0 : n] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !found; i++) {
        path = xprintf("%s/%s/libpmi.so.0", self, places[i]);
        found = realpath(path, NULL);
        free(path);
    }
    return found;
}

/* Does this Open MPI have its component for Flux? Looks in upstream's and Debian's folders. */
static bool has_component(const struct found *f)
{
    static const char *const places[] = {"openmpi", "openmpi/lib/openmpi3", "openmpi3"};
    char *real = f->openmpi_path[0] ? realpath(f->openmpi_path, NULL) : NULL;
    bool has = false;

    if (real)
        *strrchr(real, '/') = '\0';
    for (size_t i = 0; real && i < sizeof(places) / sizeof(places[0]) && !has; i++) {
        char *path = xprintf("%s/%s/mca_pmix_flux.so", real, places[i]);

        has = access(path, R_OK) == 0;
        free(path);
    }
    free(real);
    return has;
}

/* Do ranks here outnumber the processors that they may use? */
static bool is_crowded(const struct job *job)
{
    struct place_set set = {0};

    return bind_own(&set) && job->jobs->n_live + job->n_local > place_set_count(&set);
}

/* The same on all nodes, and hardly twice on a host. Open MPI takes it as its own number of the
 * job, but drops bit 15 of it where it abbreviates the name of a process. */
static uint32_t job_number(const struct job *job)
{
    return hash_text(job->kvsname) & 0x7fff7fff;
}

/* For any Open MPI: what it would leave behind lies in folders of ours, and ranks that wait yield
 * their processor where they outnumber the processors, as under mpirun --oversubscribe. */
static int set_openmpi(struct folders *folders, struct job *job, char **why)
{
    const char *tmp = folder_get(folders, FOLDER_TMP), *shm;

    if (!tmp) {
        *why = xprintf("cannot make a temporary folder in %s: %s", folder_where(FOLDER_TMP),
                       strerror(errno));
        return STATUS_RESOURCES;
    }
    shm = folder_get(folders, FOLDER_SHM);
    if (!shm) {
        log_verbose("cannot make a folder in %s: %s; memory that ranks share is in %s",
                    folder_where(FOLDER_SHM), strerror(errno), tmp);
        shm = tmp;
    }
    job_var(job, xprintf("OMPI_MCA_orte_tmpdir_base=%s", tmp));
    job_var(job, xprintf("OMPI_MCA_btl_vader_backing_directory=%s", shm));
    job_var(job, xprintf("OMPI_MCA_btl_sm_backing_directory=%s", shm)); /* vader's name in 5 */
    job_var(job, xprintf("OMPI_MCA_osc_sm_backing_directory=%s", shm));
    job_var(job, xprintf("OMPI_MCA_osc_rdma_backing_directory=%s", shm));
    /* Open MPI looks for System V's by making a segment, which a kill leaves behind. */
    job_var(job, xprintf("OMPI_MCA_shmem=mmap"));
    /* All ranks on this host, those of spawned jobs too: Open MPI 5 does not reach a host's own
     * address by its network, and leaves the loopback out unless told. Both lists at once are an
     * error there. */
    if ((!job->jobs->agent || job->jobs->opt->one_host) && !getenv("OMPI_MCA_btl_tcp_if_exclude"))
        job_var(job, xprintf("OMPI_MCA_btl_tcp_if_include=127.0.0.0/8"));
    job->yields = is_crowded(job);
    if (job->yields)
        job_var(job, xprintf("OMPI_MCA_mpi_yield_when_idle=1"));
    return 0;
}

static int set_flux(struct job *job, char **why)
{
    char *libpmi = find_libpmi();

    if (!libpmi) {
        *why = xprintf("--mpi openmpi: our libpmi.so.0 is not beside pmirun, in ../pmi or %s",
                       PMIRUN_LIBDIR);
        return STATUS_NOEXEC;
    }
    job_var(job, xprintf("FLUX_JOB_ID=%u", job_number(job)));
    job_var(job, xprintf("FLUX_PMI_LIBRARY_PATH=%s", libpmi));
    free(libpmi);
    return 0;
}

/* The bindings of ranks, for peers of this node. */
static int put_places(struct job *job, char **why)
{
    int err = early_put(job, job_number(job));

    if (err == 0)
        return 0;
    *why = xprintf("cannot store the bindings of ranks: %s", pmiwire_strerror(err));
    return STATUS_RESOURCES;
}

/* ---- the choice ---- */

const char *mpi_detect_name(const struct job *job)
{
    static const char *const names[] = {"auto", "pmi", "openmpi", "pmix"};

    return names[job->mpi];
}

/* A sentence for the user, which never has a quote in it: it becomes a text in JSON. */
static void set_mpi(struct job *job, enum mpi_mode mode, const char *because)
{
    job->mpi = mode;
    job->mpi_reason = xprintf("%s", because);
}

/* The programs name neither Open MPI nor PMIx. A spawned job speaks what its spawner speaks. */
static void choose_unproven(struct job *job, const struct found *f)
{
    const char *no_pmix;

    if (!f->unproven || job->spawned) {
        set_mpi(job, MPI_PMI, "no program names Open MPI or PMIx");
    } else if (pmix_host_available(&no_pmix)) {
        job->offers_pmix = true;
        set_mpi(job, MPI_PMIX, "a program may start or load any MPI: PMI and PMIx are there");
    } else {
        set_mpi(job, MPI_PMI, no_pmix);
    }
}

/* By what the programs need. */
static int choose_by_need(struct job *job, const struct found *f, char **why)
{
    const char *no_pmix = NULL;
    char *libpmi;

    if (!f->openmpi && !f->pmix) {
        choose_unproven(job, f);
        return 0;
    }
    libpmi = f->openmpi && f->openmpi4 && has_component(f) ? find_libpmi() : NULL;
    if (libpmi) {
        free(libpmi);
        set_mpi(job, MPI_OPENMPI,
                "a program needs libmpi.so.40 with libopen-rte.so.40 (Open MPI 4), which has its "
                "component for Flux");
    } else if (pmix_host_available(&no_pmix)) {
        set_mpi(job, MPI_PMIX,
                !f->openmpi    ? "a program needs libpmix or PRRTE"
                : !f->openmpi4 ? "a program needs libmpi.so.40 without libopen-rte.so.40 (Open MPI "
                                 "5)"
                               : "a program needs Open MPI 4, and its component for Flux or our "
                                 "libpmi is missing");
    } else if (job->n_ranks == 1) {
        set_mpi(job, MPI_PMI,
                "a program needs PMIx, which is missing, but the job has one process");
    } else {
        *why = xprintf("a program needs %s, and this pmirun has no PMIx: %s; --mpi pmi starts it "
                       "anyway, each process as rank 0 of 1",
                       f->openmpi ? "Open MPI" : "PMIx", no_pmix);
        return STATUS_NOEXEC;
    }
    return 0;
}

static int choose_as_told(struct job *job, enum mpi_mode mode, char **why)
{
    const char *no_pmix;

    if (mode == MPI_PMIX && !pmix_host_available(&no_pmix)) {
        *why = xprintf("this pmirun has no PMIx: %s", no_pmix);
        return STATUS_NOEXEC;
    }
    set_mpi(job, mode, job->mpi != MPI_AUTO ? "its spawner uses it" : "--mpi requires it");
    return 0;
}

/* What this takes before the ranks' places are known. */
static int set_mpi_vars(struct job *job, char **why)
{
    int status = job->mpi != MPI_PMI ? set_openmpi(job->jobs->folders, job, why) : 0;

    if (status == 0 && job->mpi == MPI_OPENMPI)
        status = set_flux(job, why);
    if (status == 0 && job->mpi != MPI_PMI)
        topology_vars(job->jobs->topology, job);
    /* Else MPICH 5 aborts: it finds PMI and PMIx, and nothing says which to use. A build without
     * PMI-1 then takes what it has. */
    if (status == 0 && job->mpi == MPI_PMIX)
        job_var(job, xprintf("MPIR_CVAR_PMI_VERSION=1"));
    return status;
}

/* PMIx that no program is known to need could not be set up: the ranks have PMI alone. */
static int withdraw_pmix(struct job *job, char **why)
{
    host_job_over(job->number);
    free(job->mpi_reason);
    job->mpi = MPI_PMI;
    job->mpi_reason = *why;
    job->offers_pmix = false;
    *why = NULL;
    return 0;
}

void mpi_detect_report(const struct job *job)
{
    log_verbose("job %u: --mpi %s: %s", job->number, mpi_detect_name(job), job->mpi_reason);
    if (job->wrong_mpi && job->number == 0)
        log_message(
            "warning: a program is linked with Open MPI%s: each process starts as rank 0 of 1; "
            "remove --mpi %s",
            job->mpi == MPI_PMI ? ", which does not speak PMI by itself"
                                : " 5, which has no component for Flux",
            mpi_detect_name(job));
}

/* ---- an MPI that nothing proved ---- */

/* An MPI in this process's memory; NULL: none. */
static const char *find_mapped_mpi(pid_t pid)
{
    static const char *const names[] = {"/libmpi.so",  "/liboshmem.so", "/libmpich.so",
                                        "/libmpi_abi", "/libpmix.so",   "/libpmi.so",
                                        "/libpmi2.so"};
    char path[64], line[4096];
    const char *found = NULL;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f))
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++)
            if (strstr(line, names[i]))
                found = strstr(line, "/libmpi.so.40") ? OPENMPI : names[i] + 1;
    if (f)
        fclose(f);
    return found;
}

/* The same for it and its descendants, while *n processes remain to be examined. */
static const char *mapped_below(pid_t pid, unsigned *n)
{
    const char *found;
    pid_t *children;

    if (*n == 0)
        return NULL;
    --*n;
    found = find_mapped_mpi(pid);
    children = children_of(pid);
    for (const pid_t *child = children; *child && !found; child++)
        found = mapped_below(*child, n);
    free(children);
    return found;
}

static bool has_asked(const struct job *job)
{
    for (uint32_t i = 0; i < job->n_local; i++)
        if (job->ranks[i].pmi_state != PMIWIRE_CONN_NEW)
            return true;
    return false;
}

static void warn_silent_mpi(struct job *job, const char *when)
{
    log_message(
        "warning: a process of the job has loaded %s, but no rank has used PMI or PMIx%s: each "
        "may run as rank 0 of 1; does what starts the program clear its environment (PMI_*, "
        "PMIX_*)? Else choose with --mpi",
        job->silent_mpi, when);
    job->silent_mpi = NULL;
}

/* Looks for an MPI in the ranks' memory while none of them has asked for PMI or PMIx. Open MPI
 * without PMIx ends the job; any other causes a warning after a while, or at the job's end. */
static void look_at_ranks(void *of)
{
    struct jobs *jobs = of;
    const uint64_t since_ns = loop.now_ns - loop.start_ns;
    struct job *job = jobs->first;
    unsigned n = LOOK_AT;
    uint32_t i;

    if (has_asked(job) || jobs->stopping) {
        job->silent_mpi = NULL;
        return;
    }
    launch_land_all(
        jobs->launcher); /* a child that shares our memory has our libraries, libpmix too */
    for (i = 0; i < job->n_local && !job->silent_mpi; i++)
        if (job->ranks[i].state == RANK_RUNNING)
            job->silent_mpi = mapped_below(job->ranks[i].pid, &n);
    if (job->silent_mpi == OPENMPI && job->mpi == MPI_PMI && jobs->opt->mpi == MPI_AUTO) {
        log_message(
            "%s has loaded %s, which would start each process as rank 0 of 1, since the job has "
            "no PMIx: %s; use --mpi pmix or --mpi openmpi (Open MPI 4); stopping the job",
            rank_name(&job->ranks[i - 1]), job->silent_mpi, job->mpi_reason);
        job_stop(jobs, STATUS_NOEXEC);
    } else if (job->silent_mpi && since_ns >= WARN_S * NS_PER_S) {
        warn_silent_mpi(job, " yet");
    } else {
        timer_call(&jobs->look, loop.now_ns + since_ns, look_at_ranks, jobs);
    }
}

void mpi_detect_ended(struct job *job)
{
    if (!has_asked(job) && !job->jobs->stopping)
        warn_silent_mpi(job, "");
}

/* ---- the choice for a job ---- */

int mpi_detect_choose(struct job *job, char **why)
{
    struct agent *agent = job->jobs->agent;
    enum mpi_mode mode = job->mpi != MPI_AUTO ? job->mpi : job->jobs->opt->mpi;
    struct found f = {0};
    int status;

    if (mode != MPI_PMIX)
        note_programs(job, &f);
    status = mode == MPI_AUTO ? choose_by_need(job, &f, why) : choose_as_told(job, mode, why);
    if (status == 0)
        status = set_mpi_vars(job, why);
    if (status && job->offers_pmix)
        status = withdraw_pmix(job, why);
    if (status == 0)
        status = bind_job(job->jobs->topology, job, why);
    if (status == 0 && job->mpi == MPI_OPENMPI)
        status = put_places(job, why);
    if (status == 0 && job->mpi == MPI_PMIX) {
        status = host_job(job, why);
        if (status && job->offers_pmix)
            status = withdraw_pmix(job, why);
    }
    if (status)
        return status;
    job->wrong_mpi = f.openmpi && (mode == MPI_PMI || (mode == MPI_OPENMPI && !f.openmpi4));
    if (job->number == 0 && job->n_ranks > 1 && f.hidden && !job->wrong_mpi &&
        (job->mpi == MPI_PMI || job->offers_pmix) &&
        (!agent || job->node_of[0] == agent_node(agent))) /* one of the nodes looks */
        timer_call(&job->jobs->look, loop.now_ns + LOOK_NS, look_at_ranks, job->jobs);
    if (agent)
        agent_report(agent, MSG_CHOSE,
                     &(struct report){.job = job->number,
                                      .value = job->mpi,
                                      .detail = job->wrong_mpi,
                                      .text = job->mpi_reason});
    else
        mpi_detect_report(job);
    return 0;
}

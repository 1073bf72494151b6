/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's topology: processors, caches, memory, devices.
 *
 * An MPI asks hwloc for it, which reads small files of /sys: some hundred on two processors and a
 * dozen more with each further one. Without this file every rank would read them at the same time.
 * So pmirun reads them once, and hwloc in the ranks reads the result from a file of XML
 * (HWLOC_XMLFILE). With HWLOC_THISSYSTEM=1 binding still works, and with
 * HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1 each rank still sees only what its own control group
 * allows; the file has all processors.
 *
 * A child of ours calls hwloc: to find devices hwloc loads their drivers' libraries, which may be
 * slow, start threads, or crash. Without an answer within FIND_S each rank finds its topology
 * itself, as it does when libhwloc is not on this node: loaded, not linked, since few jobs want it.
 *
 * To bind ranks, pmirun itself needs the list of processors: the child writes it as a table
 * (place/place.h) into memory that both share.
 */
#define _GNU_SOURCE
#include "topology.h"

#include "folder.h"
#include "job.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hwloc.h>

#define LIBRARY "libhwloc.so.15"
#define FIND_S  10u

extern char **environ;

static const char no_file[] = "its file cannot be written";

/* What the child is to do. */
struct task {
    const char *file;      /* to be written; NULL: none */
    bool table;            /* to be made */
    const char *synthetic; /* hwloc's description of a node that is not this one; NULL: none */
};

/* What it has found: valid once a byte has come through the pipe. */
struct found {
    const char *why; /* there is none: a text of this program, which the child is a copy of */
    bool elsewhere;
    uint32_t n_pus;
    struct place_pu pus[PLACE_MAX_PUS];
};

/* ---- in the child ---- */

/* What we use of libhwloc. */
/* clang-format off */
#define FUNCTIONS(X) \
    X(hwloc_get_api_version) X(hwloc_topology_init) X(hwloc_topology_set_flags) \
    X(hwloc_topology_set_all_types_filter) X(hwloc_topology_set_synthetic) \
    X(hwloc_topology_load) X(hwloc_topology_export_xmlbuffer) X(hwloc_topology_is_thissystem) \
    X(hwloc_get_type_depth) X(hwloc_get_nbobjs_by_depth) X(hwloc_get_obj_by_depth)
/* clang-format on */
#define POINTER(name) static __typeof__(&name) dl_##name;
FUNCTIONS(POINTER)

static bool load_library(void)
{
    void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (!lib)
        return false;
#define FIND(name)                                                                                 \
    *(void **)&dl_##name = dlsym(lib, #name);                                                      \
    if (!dl_##name)                                                                                \
        return false;
    FUNCTIONS(FIND)
    return dl_hwloc_get_api_version() >> 16 == HWLOC_API_VERSION >> 16;
}

static bool write_file(hwloc_topology_t topology, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    char *xml;
    int len; /* with the NUL */
    ssize_t n = 1;

    if (fd < 0 || dl_hwloc_topology_export_xmlbuffer(topology, &xml, &len, 0) != 0)
        return false;
    for (len--; len > 0 && (n = write(fd, xml, (size_t)len)) > 0; len -= (int)n)
        xml += n;
    return n > 0 && close(fd) == 0;
}

/* ---- the table ---- */

/* The memory next to an object: its first, which is the ordinary one where there are several. */
static hwloc_obj_t memory_of(hwloc_obj_t obj)
{
    hwloc_obj_t m = obj->memory_first_child;

    while (m && m->type != HWLOC_OBJ_NUMANODE)
        m = m->memory_first_child;
    return m;
}

static void fill_pu(struct place_pu *pu, uint32_t number, hwloc_obj_t obj)
{
    static const struct {
        hwloc_obj_type_t type;
        enum place_level level;
    } levels[] = {{HWLOC_OBJ_PACKAGE, PLACE_SOCKET},
                  {HWLOC_OBJ_L3CACHE, PLACE_L3},
                  {HWLOC_OBJ_L2CACHE, PLACE_L2},
                  {HWLOC_OBJ_L1CACHE, PLACE_L1},
                  {HWLOC_OBJ_CORE, PLACE_CORE}};

    *pu = (struct place_pu){.os = obj->os_index, .usable = 1};
    for (int i = 0; i < PLACE_LEVELS; i++)
        pu->of[i] = PLACE_NONE;
    pu->of[PLACE_NODE] = 0;
    pu->of[PLACE_HWTHREAD] = number;
    for (; obj; obj = obj->parent) {
        hwloc_obj_t memory = pu->of[PLACE_NUMA] == PLACE_NONE ? memory_of(obj) : NULL;

        if (memory)
            pu->of[PLACE_NUMA] = memory->logical_index;
        for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
            if (obj->type == levels[i].type)
                pu->of[levels[i].level] = obj->logical_index;
    }
    if (pu->of[PLACE_CORE] == PLACE_NONE) /* hwloc knows of no cores on some machines */
        pu->of[PLACE_CORE] = number;
}

/* False: too many processors. */
static bool make_table(hwloc_topology_t topology, struct found *found)
{
    const int depth = dl_hwloc_get_type_depth(topology, HWLOC_OBJ_PU);

    found->n_pus = (uint32_t)dl_hwloc_get_nbobjs_by_depth(topology, depth);
    found->elsewhere = !dl_hwloc_topology_is_thissystem(topology);
    if (found->n_pus == 0 || found->n_pus > PLACE_MAX_PUS)
        return false;
    for (uint32_t i = 0; i < found->n_pus; i++) {
        fill_pu(&found->pus[i], i, dl_hwloc_get_obj_by_depth(topology, depth, i));
        if (found->pus[i].os >= PLACE_MAX_PUS)
            return false;
    }
    return true;
}

/* The file has all devices: each rank's hwloc filters those that it does not want or may not use.
 */
static const char *find_topology(const struct task *task, struct found *found)
{
    static const char not_found[] = "hwloc does not find it";
    hwloc_topology_t topology;

    if (!load_library())
        return LIBRARY " cannot be loaded (apt install libhwloc15)";
    if (dl_hwloc_topology_init(&topology) != 0)
        return not_found;
    if (task->synthetic && dl_hwloc_topology_set_synthetic(topology, task->synthetic) != 0)
        return "hwloc does not understand it";
    if (dl_hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        (task->file &&
         dl_hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0) ||
        dl_hwloc_topology_load(topology) != 0)
        return not_found;
    if (task->file && !write_file(topology, task->file))
        return no_file;
    return task->table && !make_table(topology, found) ? "it has more than 8192 processors" : NULL;
}

static _Noreturn void run_child(const struct task *task, struct found *found, int to, pid_t parent)
{
    const int fd = STDERR_FILENO + 1;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || dup2(to, fd) < 0)
        _exit(1);
    syscall(SYS_close_range, fd + 1, ~0u, 0);
    found->why = find_topology(task, found);
    if (write(fd, "", 1) != 1)
        _exit(1);
    for (;;) /* pmirun kills it: no library may clean up */
        pause();
}

/* ---- in pmirun ---- */

/* The first has the file; the others are "1". */
static const char *const hwloc_vars[] = {"HWLOC_XMLFILE", "HWLOC_THISSYSTEM",
                                         "HWLOC_THISSYSTEM_ALLOWED_RESOURCES"};

#define N_HWLOC_VARS (sizeof(hwloc_vars) / sizeof(hwloc_vars[0]))

/* Waits for the child's answer and ends it. NULL, or why there is no topology. */
static const char *await_child(const struct found *found, pid_t pid, int from)
{
    char byte;
    const ssize_t n = read_until(from, &byte, 1, clock_ns() + FIND_S * NS_PER_S);

    kill_child(pid);
    return n < 0 ? "hwloc has not found it within 10 s" : n == 1 ? found->why : "hwloc has crashed";
}

static const char *make_topology(struct topology *t, const struct task *task)
{
    struct found *found =
        mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t self = getpid();
    const char *why;
    int p[2];
    pid_t pid;

    if (found == MAP_FAILED || pipe2(p, O_CLOEXEC) != 0)
        return strerror(errno);
    pid = fork();
    if (pid == 0)
        run_child(task, found, p[1], self);
    close(p[1]);
    why = pid < 0 ? strerror(errno) : await_child(found, pid, p[0]);
    close(p[0]);
    if (task->table && why != no_file) { /* else topology_table() asks without a file */
        t->table_tried = true;
        t->no_table = why;
        t->table = (struct place_topology){found->n_pus, found->pus};
        t->elsewhere = found->elsewhere;
    } else {
        munmap(found, sizeof(*found));
    }
    return why;
}

const struct place_topology *topology_table(struct topology *t, const char **why)
{
    if (!t->table_tried)
        make_topology(t, &(struct task){.table = true, .synthetic = t->opt->topology});
    *why = t->no_table;
    return t->no_table ? NULL : &t->table;
}

/* The file, XML of version 2; the first call makes it, in our temporary folder. NULL: none, and -v
 * says why. */
static const char *topology_file(struct topology *t)
{
    const char *folder, *why;

    if (t->tried)
        return t->file;
    t->tried = true;
    folder = folder_get(t->folders, FOLDER_TMP);
    if (!folder) {
        why = strerror(errno);
    } else {
        t->file = xprintf("%s/topology.xml", folder);
        why = make_topology(
            t, &(struct task){.file = t->file,
                              .table = place_binds(&t->opt->place) && !t->opt->topology});
    }
    if (why) {
        log_verbose("each rank detects the node's topology itself: %s", why);
        free(t->file);
        t->file = NULL;
    } else {
        log_verbose("the node's topology is in %s", t->file);
    }
    return t->file;
}

static bool is_hwlocs(const char *assignment)
{
    return strncmp(assignment, "HWLOC_", 6) == 0;
}

/* If the user sets a variable of hwloc, pmirun sets none: they might contradict. */
static bool user_sets(const struct job *job)
{
    for (char **e = environ; *e; e++)
        if (is_hwlocs(*e))
            return true;
    for (uint32_t i = 0; i < job->n_apps; i++)
        for (uint32_t k = 0; k < job->apps[i].n_sets; k++)
            if (is_hwlocs(job->apps[i].sets[k]))
                return true;
    return false;
}

void topology_vars(struct topology *t, struct job *job)
{
    const char *file;

    if (user_sets(job)) {
        log_verbose("each rank detects the node's topology itself: a variable HWLOC_* is set");
        return;
    }
    if (job->n_local < 2 && !t->tried) /* a lone rank finds it sooner by itself */
        return;
    file = topology_file(t);
    for (size_t i = 0; file && i < N_HWLOC_VARS; i++)
        job_var(job, xprintf("%s=%s", hwloc_vars[i], i == 0 ? file : "1"));
}

void topology_use(const struct topology *t, bool use)
{
    for (size_t i = 0; t->file && i < N_HWLOC_VARS; i++)
        if (use)
            setenv(hwloc_vars[i], i == 0 ? t->file : "1", 1);
        else
            unsetenv(hwloc_vars[i]);
}

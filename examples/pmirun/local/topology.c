/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The node's topology: processors, caches, memory, devices.
 *
 * An MPI asks hwloc for it, which reads small files of /sys, some hundred on two processors and a
 * dozen more with each further one. Where every rank does so, all read the same at the same time.
 * Here pmirun does it once, and hwloc in the ranks reads the result from a file of XML
 * (HWLOC_XMLFILE). With HWLOC_THISSYSTEM=1 binding still works, and with
 * HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1 each rank still takes what its own control group allows out
 * of the file, which has what is disallowed too.
 *
 * A child of ours calls hwloc: to find devices hwloc loads their drivers' libraries, which may be
 * slow, start threads, or crash. Without an answer within FIND_S each rank finds its topology
 * itself, as it does when libhwloc is not on this node: loaded, not linked, since few jobs want it.
 */
#define _GNU_SOURCE
#include "topology.h"

#include "folder.h"
#include "pmirun.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hwloc.h>

#define LIBRARY "libhwloc.so.15"
#define FIND_S  10

extern char **environ;

/* What the child says, in one byte, when it is done. */
enum answer { FOUND, NO_LIBRARY, NO_TOPOLOGY, NO_FILE };

/* ---- in the child ---- */

/* What we use of libhwloc. */
/* clang-format off */
#define FUNCTIONS(X) \
    X(hwloc_get_api_version) X(hwloc_topology_init) X(hwloc_topology_set_flags) \
    X(hwloc_topology_set_all_types_filter) X(hwloc_topology_load) X(hwloc_topology_export_xmlbuffer)
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

static bool write_file(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    size_t done = 0;
    ssize_t n;

    while (fd >= 0 && done < len && (n = write(fd, text + done, len - done)) > 0)
        done += (size_t)n;
    return fd >= 0 && close(fd) == 0 && done == len;
}

/* Everything is kept: what a rank does not want, or may not have, its own hwloc leaves out. */
static enum answer find(const char *path)
{
    hwloc_topology_t topology;
    char *xml;
    int len; /* with the NUL */

    if (!load_library())
        return NO_LIBRARY;
    if (dl_hwloc_topology_init(&topology) != 0 ||
        dl_hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        dl_hwloc_topology_set_all_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        dl_hwloc_topology_load(topology) != 0 ||
        dl_hwloc_topology_export_xmlbuffer(topology, &xml, &len, 0) != 0)
        return NO_TOPOLOGY;
    return write_file(path, xml, (size_t)len - 1) ? FOUND : NO_FILE;
}

static void child(const char *path, int to, pid_t parent) __attribute__((noreturn));

static void child(const char *path, int to, pid_t parent)
{
    char answer;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0 || dup2(to, STDERR_FILENO + 1) < 0)
        _exit(1);
    syscall(SYS_close_range, STDERR_FILENO + 2, ~0u, 0);
    answer = (char)find(path);
    if (write(STDERR_FILENO + 1, &answer, 1) != 1)
        _exit(1);
    for (;;) /* it is killed: no library has anything to tidy up */
        pause();
}

/* ---- in pmirun ---- */

/* Set beside HWLOC_XMLFILE. */
static const char *const flags[] = {"HWLOC_THISSYSTEM", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES"};

/* Waits for the child's answer and ends it. NULL, or why there is no topology. */
static const char *await(pid_t pid, int from)
{
    static const char *const why[] = {
        [NO_LIBRARY] = LIBRARY " cannot be loaded (apt install libhwloc15)",
        [NO_TOPOLOGY] = "hwloc does not find it",
        [NO_FILE] = "its file cannot be written",
    };
    struct pollfd p = {.fd = from, .events = POLLIN};
    const uint64_t end = clock_ns() + FIND_S * NS_PER_S;
    unsigned char answer;
    ssize_t n = -1;
    int rc;

    do
        rc = poll(&p, 1, clock_ns() < end ? (int)((end - clock_ns()) / NS_PER_MS) + 1 : 0);
    while (rc < 0 && errno == EINTR);
    if (rc > 0)
        n = read(from, &answer, 1);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    if (rc == 0)
        return "hwloc has not found it within 10 s";
    return n == 1 && answer <= NO_FILE ? why[answer] : "hwloc has crashed";
}

static const char *make(const char *path)
{
    const pid_t self = getpid();
    const char *why;
    int p[2];
    pid_t pid;

    if (pipe2(p, O_CLOEXEC) != 0)
        return strerror(errno);
    pid = fork();
    if (pid == 0)
        child(path, p[1], self);
    close(p[1]);
    why = pid < 0 ? strerror(errno) : await(pid, p[0]);
    close(p[0]);
    return why;
}

const char *topology_file(struct pmirun *pr)
{
    struct topology *t = &pr->topology;
    const char *folder, *why;

    if (t->tried)
        return t->file;
    t->tried = true;
    folder = folder_get(pr, FOLDER_TMP);
    if (!folder) {
        why = strerror(errno);
    } else {
        t->file = xprintf("%s/topology.xml", folder);
        why = make(t->file);
    }
    if (why) {
        trace(pr, "each rank looks for the node's topology itself: %s", why);
        free(t->file);
        t->file = NULL;
    } else {
        trace(pr, "the node's topology is in %s", t->file);
    }
    return t->file;
}

static bool is_hwlocs(const char *assignment)
{
    return strncmp(assignment, "HWLOC_", 6) == 0;
}

/* Where the user has a word with hwloc, it is left alone: one variable changes what another does. */
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

void topology_vars(struct pmirun *pr, struct job *job)
{
    const char *file;

    if (user_sets(job)) {
        trace(pr, "each rank looks for the node's topology itself: a variable HWLOC_* is set");
        return;
    }
    if (job->n_local < 2 && !pr->topology.tried) /* it finds it sooner than we do it for it */
        return;
    file = topology_file(pr);
    if (!file)
        return;
    job_var(job, xprintf("HWLOC_XMLFILE=%s", file));
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        job_var(job, xprintf("%s=1", flags[i]));
}

void topology_use(const struct pmirun *pr, bool use)
{
    if (!pr->topology.file)
        return;
    if (use)
        setenv("HWLOC_XMLFILE", pr->topology.file, 1);
    else
        unsetenv("HWLOC_XMLFILE");
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (use)
            setenv(flags[i], "1", 1);
        else
            unsetenv(flags[i]);
    }
}

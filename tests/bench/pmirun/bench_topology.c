/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hwloc's cost for the ranks of a node: each discovers the topology itself, or reads it from XML,
 * as under pmirun.
 *
 *     bench_topology [--quick] [--seed N]
 *
 * N processes of this program begin at the same time and load the topology with devices, as Open
 * MPI does. Two cases: this node; and a node of 128 cores, where hwloc reads a copy of such a
 * node's /sys (HWLOC_FSROOT) in /tmp: cheaper than /sys itself, whose files the kernel generates
 * for each read. Figures are medians over the trials: the time until the last process is done, and
 * the mean processor time and number of read() calls of a process.
 */
#define _GNU_SOURCE
#include "../bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <hwloc.h>

#define CORES     128u
#define PACKAGES  2u
#define L3_CORES  8u
#define MAX_PROCS 64
#define TRIALS    7

static char folder[] = "/tmp/bench_topology.XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void tidy_up(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void interrupted(int sig)
{
    tidy_up();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void give_up(const char *what)
{
    fprintf(stderr, "bench_topology: %s: %s\n", what, strerror(errno));
    tidy_up();
    exit(1);
}

/* ---- a node of 128 cores ---- */

/* A file below the folder, and the folders that it lies in. */
static void put(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(const char *text, const char *format, ...)
{
    char path[256];
    size_t n = (size_t)snprintf(path, sizeof(path), "%s/", folder);
    FILE *f;
    va_list ap;

    va_start(ap, format);
    vsnprintf(path + n, sizeof(path) - n, format, ap);
    va_end(ap);
    for (char *p = path + n; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            give_up(path);
    }
    f = fopen(path, "w");
    if (!f || fprintf(f, "%s\n", text) < 0 || fclose(f) != 0)
        give_up(path);
}

/* The processors [from, from + n) as a mask. */
static const char *mask(unsigned from, unsigned n)
{
    static char text[CORES / 32 * 9];
    size_t at = 0;

    for (unsigned word = CORES / 32; word-- > 0;) {
        uint32_t bits = 0;

        for (unsigned i = 0; i < 32; i++)
            if (word * 32 + i - from < n) /* unsigned: below `from` is far above */
                bits |= UINT32_C(1) << i;
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%08x%s", bits, word ? "," : "");
    }
    return text;
}

static void put_cache(unsigned cpu, unsigned index, const char *type, unsigned level,
                      const char *size, unsigned shared_by)
{
    const char *format = "sys/devices/system/cpu/cpu%u/cache/index%u/%s";
    char number[16];

    snprintf(number, sizeof(number), "%u", level);
    put(mask(cpu / shared_by * shared_by, shared_by), format, cpu, index, "shared_cpu_map");
    put(number, format, cpu, index, "level");
    put(type, format, cpu, index, "type");
    snprintf(number, sizeof(number), "%u", cpu / shared_by);
    put(number, format, cpu, index, "id");
    put(size, format, cpu, index, "size");
    put("64", format, cpu, index, "coherency_line_size");
    put("64", format, cpu, index, "number_of_sets");
    put("1", format, cpu, index, "physical_line_partition");
}

static void put_cpu(unsigned cpu)
{
    const char *format = "sys/devices/system/cpu/cpu%u/topology/%s";
    const unsigned each = CORES / PACKAGES;
    char number[16];

    put(mask(cpu, 1), format, cpu, "core_cpus");
    put(mask(cpu / each * each, each), format, cpu, "package_cpus");
    put(mask(cpu / each * each, each), format, cpu, "die_cpus");
    put(mask(cpu, 1), format, cpu, "cluster_cpus");
    snprintf(number, sizeof(number), "%u", cpu % each);
    put(number, format, cpu, "core_id");
    snprintf(number, sizeof(number), "%u", cpu / each);
    put(number, format, cpu, "physical_package_id");
    put_cache(cpu, 0, "Data", 1, "32K", 1);
    put_cache(cpu, 1, "Instruction", 1, "32K", 1);
    put_cache(cpu, 2, "Unified", 2, "1024K", 1);
    put_cache(cpu, 3, "Unified", 3, "32768K", L3_CORES);
}

static void put_node(unsigned node)
{
    const unsigned each = CORES / PACKAGES;
    char text[64];

    put(mask(node * each, each), "sys/devices/system/node/node%u/cpumap", node);
    snprintf(text, sizeof(text), "Node %u MemTotal: 268435456 kB", node);
    put(text, "sys/devices/system/node/node%u/meminfo", node);
    put(node ? "20 10" : "10 20", "sys/devices/system/node/node%u/distance", node);
}

static void put_tree(void)
{
    put("0-127", "sys/devices/system/cpu/online");
    put("0-127", "sys/devices/system/cpu/possible");
    put("0-1", "sys/devices/system/node/online");
    put("0-1", "sys/devices/system/node/possible");
    put("processor : 0", "proc/cpuinfo");
    for (unsigned cpu = 0; cpu < CORES; cpu++)
        put_cpu(cpu);
    for (unsigned node = 0; node < PACKAGES; node++)
        put_node(node);
}

/* ---- processes ---- */

struct sample {
    double cpu_ms, reads;
};

static double n_reads(void)
{
    FILE *f = fopen("/proc/self/io", "re");
    double n = 0;
    char line[64];

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "syscr: ", 7) == 0)
            n = strtod(line + 7, NULL);
    if (f)
        fclose(f);
    return n;
}

static hwloc_topology_t load(enum hwloc_type_filter_e devices)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0 ||
        hwloc_topology_set_io_types_filter(topology, devices) != 0 ||
        hwloc_topology_load(topology) != 0) {
        perror("bench_topology: hwloc");
        _exit(1);
    }
    return topology;
}

static void set_source(const char *variable, const char *value)
{
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_THISSYSTEM");
    if (variable)
        setenv(variable, value, 1);
    if (variable && strcmp(variable, "HWLOC_XMLFILE") == 0)
        setenv("HWLOC_THISSYSTEM", "1", 1);
}

/* Runs in a process of its own. */
static void rank(int start, int to, unsigned n_pus)
{
    struct sample s = {0, 0};
    hwloc_topology_t topology;
    double before;
    char c;

    while (read(start, &c, 1) < 0 && errno == EINTR)
        ;
    before = n_reads();
    s.cpu_ms = (double)bench_cpu_ns();
    topology = load(HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    s.cpu_ms = ((double)bench_cpu_ns() - s.cpu_ms) * 1e-6;
    s.reads = n_reads() - before;
    if (n_pus && (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU) != n_pus) {
        fprintf(stderr, "bench_topology: not %u processors\n", n_pus);
        _exit(1);
    }
    _exit(write(to, &s, sizeof(s)) == (ssize_t)sizeof(s) ? 0 : 1);
}

/* n processes at once; returns the time until the last is done, in ms. */
static double run(int n, unsigned n_pus, struct sample *mean)
{
    int start[2], results[2], status;
    bool failed = false;
    struct sample s;
    uint64_t began;

    if (pipe(start) != 0 || pipe(results) != 0)
        give_up("pipe");
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid < 0)
            give_up("fork");
        if (pid == 0) {
            signal(SIGINT, SIG_DFL);
            signal(SIGTERM, SIG_DFL);
            close(start[1]);
            rank(start[0], results[1], n_pus);
        }
    }
    close(start[0]);
    close(results[1]);
    began = bench_ns(CLOCK_MONOTONIC);
    close(start[1]); /* they begin */
    *mean = (struct sample){0, 0};
    while (read(results[0], &s, sizeof(s)) == (ssize_t)sizeof(s)) {
        mean->cpu_ms += s.cpu_ms / n;
        mean->reads += s.reads / n;
    }
    began = bench_ns(CLOCK_MONOTONIC) - began;
    close(results[0]);
    while (wait(&status) > 0)
        failed |= status != 0;
    if (failed) {
        errno = EIO;
        give_up("a process failed");
    }
    return (double)began * 1e-6;
}

/* As pmirun does once, into a file. */
static void export_xml(const char *path)
{
    pid_t pid = fork(); /* in a child: hwloc keeps state, processes begin without */
    int status;

    if (pid == 0)
        _exit(hwloc_topology_export_xml(load(HWLOC_TYPE_FILTER_KEEP_ALL), path, 0) != 0);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        give_up("hwloc has no topology");
}

static void compare(const struct bench *b, const char *which, int n, const char *root,
                    unsigned n_pus)
{
    static const char *const who[] = {"each finds it", "from XML"};
    const int trials = b->quick ? 1 : TRIALS;
    double wall[2][TRIALS], cpu[2][TRIALS], reads[2];
    struct sample mean;
    char xml[64];

    snprintf(xml, sizeof(xml), "%s/%s.xml", folder, which);
    set_source(root ? "HWLOC_FSROOT" : NULL, root);
    export_xml(xml);
    for (int t = 0; t < trials; t++) {
        for (int i = 0; i < 2; i++) {
            int k = (i + t) % 2; /* the order changes */

            if (k == 1)
                set_source("HWLOC_XMLFILE", xml);
            else
                set_source(root ? "HWLOC_FSROOT" : NULL, root);
            wall[k][t] = run(n, n_pus, &mean);
            cpu[k][t] = mean.cpu_ms;
            reads[k] = mean.reads;
        }
    }
    for (int k = 0; k < 2; k++) {
        bench_figure(b, which, (uint64_t)n, who[k], "all_done",
                     bench_median(wall[k], (size_t)trials), "ms");
        bench_figure(b, which, (uint64_t)n, who[k], "cpu_each",
                     bench_median(cpu[k], (size_t)trials), "ms");
        bench_figure(b, which, (uint64_t)n, who[k], "reads_each", reads[k], "calls");
    }
}

int main(int argc, char **argv)
{
    static const int sizes[] = {2, 16, MAX_PROCS};
    struct bench b;

    bench_init(&b, "topology", argc, argv);
    if (!mkdtemp(folder))
        give_up(folder);
    signal(SIGINT, interrupted);
    signal(SIGTERM, interrupted);
    put_tree();
    for (int i = 0; i < (b.quick ? 1 : (int)(sizeof(sizes) / sizeof(sizes[0]))); i++) {
        compare(&b, "this node", sizes[i], NULL, 0);
        compare(&b, "128 cores", sizes[i], folder, CORES);
    }
    tidy_up();
    return 0;
}

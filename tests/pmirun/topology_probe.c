/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's view of hwloc: loads the topology with devices, binds itself to its last allowed
 * processor, and prints both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hwloc.h>

static const char *list(hwloc_const_bitmap_t set)
{
    char *text;

    return hwloc_bitmap_list_asprintf(&text, set) < 0 ? "?" : text;
}

/* Has this process opened anything of a processor or device in /sys since it began? hwloc's root
 * folder stays open, files do not: so by the number of its calls of read(). */
static long n_reads(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    char line[64];
    long n = -1;

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "syscr: ", 7) == 0)
            n = strtol(line + 7, NULL, 10);
    if (f)
        fclose(f);
    return n;
}

int main(void)
{
    const char *xml = getenv("HWLOC_XMLFILE");
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    hwloc_topology_t t;
    long reads = n_reads();

    if (hwloc_topology_init(&t) != 0 ||
        hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        hwloc_topology_load(t) != 0) {
        puts("hwloc failed");
        return 1;
    }
    reads = n_reads() - reads;
    hwloc_bitmap_only(set, (unsigned)hwloc_bitmap_last(hwloc_topology_get_allowed_cpuset(t)));
    printf("allowed=%s pus=%d devices=%d here=%d", list(hwloc_topology_get_allowed_cpuset(t)),
           hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU),
           hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PCI_DEVICE) +
               hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_OS_DEVICE),
           hwloc_topology_is_thissystem(t));
    printf(" bind=%d", hwloc_set_cpubind(t, set, HWLOC_CPUBIND_STRICT));
    hwloc_get_cpubind(t, set, 0);
    printf(" bound=%s\n", list(set));
    fprintf(stderr, "xml=%s reads=%ld\n", xml ? xml : "none", reads);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A faulty libhwloc: as FAKE_HWLOC selects, it crashes or hangs on load, or has another version. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned hwloc_get_api_version(void);
int hwloc_topology_init(void);
int hwloc_topology_set_flags(void);
int hwloc_topology_set_all_types_filter(void);
int hwloc_topology_load(void);
int hwloc_topology_export_xmlbuffer(void);
int hwloc_get_obj_by_depth(void);
int hwloc_get_nbobjs_by_depth(void);
int hwloc_get_type_depth(void);
int hwloc_topology_is_thissystem(void);
int hwloc_topology_set_synthetic(void);

static const char *what(void)
{
    const char *value = getenv("FAKE_HWLOC");

    return value ? value : "";
}

__attribute__((constructor)) static void loaded(void)
{
    if (strcmp(what(), "crash") == 0)
        abort();
    while (strcmp(what(), "hang") == 0)
        pause();
}

unsigned hwloc_get_api_version(void)
{
    return strcmp(what(), "old") == 0 ? 0x10b00 : 0x20900;
}

int hwloc_topology_init(void)
{
    return -1;
}

int hwloc_topology_set_flags(void)
{
    return -1;
}

int hwloc_topology_set_all_types_filter(void)
{
    return -1;
}

int hwloc_topology_load(void)
{
    return -1;
}

int hwloc_topology_export_xmlbuffer(void)
{
    return -1;
}

int hwloc_topology_set_synthetic(void)
{
    return -1;
}

int hwloc_topology_is_thissystem(void)
{
    return -1;
}

int hwloc_get_type_depth(void)
{
    return -1;
}

int hwloc_get_nbobjs_by_depth(void)
{
    return -1;
}

int hwloc_get_obj_by_depth(void)
{
    return -1;
}

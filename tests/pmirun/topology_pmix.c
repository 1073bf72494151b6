/* SPDX-License-Identifier: BSD-3-Clause */
/* The node's topology as a PMIx client sees it: the offered shared memory and text, the topology
 * that libpmix itself has loaded, and the client's binding. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hwloc.h>
#include <pmix.h>

static void must(pmix_status_t rc, const char *what)
{
    if (rc == PMIX_SUCCESS)
        return;
    printf("%s: %s\n", what, PMIx_Error_string(rc));
    exit(1);
}

static const char *get(const pmix_proc_t *of, const char *key)
{
    pmix_value_t *value;

    if (PMIx_Get(of, key, NULL, 0, &value) != PMIX_SUCCESS || value->type != PMIX_STRING)
        return "";
    return value->data.string;
}

int main(void)
{
    pmix_topology_t found = PMIX_TOPOLOGY_STATIC_INIT;
    hwloc_topology_t topology;
    pmix_proc_t me, all;
    char *allowed;

    must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
    all = me;
    all.rank = PMIX_RANK_WILDCARD;
    must(PMIx_Load_topology(&found), "PMIx_Load_topology");
    topology = found.topology;
    hwloc_bitmap_list_asprintf(&allowed, hwloc_topology_get_allowed_cpuset(topology));
    printf("allowed=%s here=%d shared=%d text=%d\n", allowed,
           hwloc_topology_is_thissystem(topology),
           access(get(&all, PMIX_HWLOC_SHMEM_FILE), R_OK) == 0,
           strncmp(get(&all, PMIX_HWLOC_XML_V2), "<?xml", 5) == 0);
    printf("rank=%u cpuset=%s locality=%s\n", me.rank, get(&me, PMIX_CPUSET),
           get(&me, PMIX_LOCALITY_STRING));
    must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
}

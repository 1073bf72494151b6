/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of Slurm's libpmi2: put, fence, get, an attribute. Its status names the call that
 * failed. */
#include <stdio.h>
#include <string.h>

#include <slurm/pmi2.h>

int main(void)
{
    int spawned, size, rank, appnum, len, found;
    char jobid[256], key[32], want[32], value[1024];

    if (PMI2_Init(&spawned, &size, &rank, &appnum))
        return 10;
    if (PMI2_Job_GetId(jobid, sizeof(jobid)))
        return 11;
    snprintf(key, sizeof(key), "k%d", rank);
    snprintf(want, sizeof(want), "value-%d", rank);
    if (PMI2_KVS_Put(key, want))
        return 12;
    if (PMI2_KVS_Fence())
        return 13;
    for (int r = 0; r < size; r++) {
        snprintf(key, sizeof(key), "k%d", r);
        snprintf(want, sizeof(want), "value-%d", r);
        if (PMI2_KVS_Get(jobid, PMI2_ID_NULL, key, value, sizeof(value), &len))
            return 14;
        if (strcmp(value, want) != 0)
            return 15;
    }
    if (PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof(value), &found))
        return 16;
    printf("rank %d of %d, mapping %s\n", rank, size, found ? "found" : "not found");
    return PMI2_Finalize() ? 17 : 0;
}

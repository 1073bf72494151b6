/* SPDX-License-Identifier: BSD-3-Clause */
/* Slurm's callbacks, and the option; plugin.h shows which process runs which. */
#include "plugin.h"

#include <string.h>

SPANK_PLUGIN(fencepost, 1)

struct settings settings = {FENCEPOST_PMIRUN, FENCEPOST_LIBPMI, NULL};

static bool wanted, no_shm;
static int n_components; /* of the step, in srun */

/* Called in srun, and again in slurmstepd, where the call alone matters, not the value. */
static int on_option(int val, const char *value, int remote)
{
    if (!remote && value && *value && strcmp(value, "shm") != 0 && strcmp(value, "no-shm") != 0) {
        slurm_error("--fencepost takes nothing, shm or no-shm, not \"%.64s\"", value);
        return -1;
    }
    wanted = true;
    no_shm = !remote && value && strcmp(value, "no-shm") == 0;
    return 0;
}

struct spank_option spank_options[] = {
    {(char[]){"fencepost"}, (char[]){"[shm|no-shm]"},
     (char[]){"serve PMI from Fencepost's pmirun; no-shm: without its shared table"}, 2, 0,
     on_option},
    SPANK_OPTIONS_TABLE_END};

/* The arguments in plugstack.conf, which the administrator writes: a mistake there ends any srun.
 */
int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "pmirun=", 7) == 0)
            settings.pmirun = argv[i] + 7;
        else if (strncmp(argv[i], "libpmi=", 7) == 0)
            settings.libpmi = argv[i] + 7;
        else if (strncmp(argv[i], "munge=", 6) == 0)
            settings.munge = argv[i] + 6;
        else {
            slurm_error("fencepost: plugstack.conf: \"%s\" is not one of pmirun=, libpmi=, munge=",
                        argv[i]);
            return -1;
        }
    }
    return 0;
}

/* Once for each component of a step, before srun asks for an allocation. Only the first one's
 * environment would have the credential, and no node learns where its component's ranks begin. */
int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[])
{
    (void)spank, (void)argc, (void)argv;
    if (spank_context() != S_CTX_LOCAL || ++n_components == 1 || !wanted)
        return 0;
    slurm_error("--fencepost cannot serve a step of several components (\":\", --het-group): use "
                "--mpi=pmi2, or an srun for each");
    return -1;
}

/* Callbacks that do nothing without the option. */
#define CALLBACK(name, call)                                                                       \
    int slurm_spank_##name(spank_t spank, int argc, char *argv[])                                  \
    {                                                                                              \
        (void)spank, (void)argc, (void)argv;                                                       \
        return wanted ? (call) : 0;                                                                \
    }

/* Where plugstack.conf says `optional`, srun ignores the refusal above. */
CALLBACK(local_user_init, n_components > 1 ? -1 : srun_begin(spank, no_shm))
CALLBACK(user_init, stepd_begin(spank))
CALLBACK(task_init, stepd_task(spank))
CALLBACK(task_post_fork, stepd_forked(spank))
CALLBACK(task_exit, stepd_exited(spank))
CALLBACK(exit, stepd_end())

# SPDX-License-Identifier: BSD-3-Clause
# Tests source it that choose pmirun's hosts themselves: without this, one that runs in a batch system's allocation would get the hosts of that.
unset "${!SLURM_@}" PBS_NODEFILE LSB_MCPU_HOSTS LSB_DJOB_HOSTFILE PE_HOSTFILE HYDRA_HOST_FILE

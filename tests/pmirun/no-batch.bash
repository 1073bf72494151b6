# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests that choose pmirun's hosts themselves: without it, a test inside a batch system's allocation would use the allocation's
# hosts.
unset "${!SLURM_@}" PBS_NODEFILE LSB_MCPU_HOSTS LSB_DJOB_HOSTFILE PE_HOSTFILE

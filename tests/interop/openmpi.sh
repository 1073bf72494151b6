#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# openmpi.sh <pmirun> shm|no-shm <our libpmi.so.0> <hello, built by Open MPI 4>: four ranks of an unmodified Open MPI under pmirun.
set -u
export LC_ALL=C FLUX_JOB_ID=$$ FLUX_PMI_LIBRARY_PATH=$3 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl=self,tcp
case $(ompi_info --parseable --param pmix flux 2> /dev/null) in
*mca:pmix:flux*) ;;
*) echo "skip: this Open MPI has no component for Flux" && exit 77 ;;
esac
options=()
[ "$2" = shm ] || options=(--no-shm)
TMPDIR=$(mktemp -d) || exit 1 # of its session folders
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
out=$(timeout 100 "$1" --timeout 90 "${options[@]}" -n 4 "$4" 4 2>&1)
status=$?
echo "$out"
[ $status = 0 ] && [ "$(grep -c '^hello from rank [0-3] of 4' <<< "$out")" = 4 ]

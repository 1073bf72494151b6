# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder: starts jobs under each launcher, and checks that they leave nothing.
#   launch_init KIND LAUNCHER LIBRARY   KIND: pmirun, hydra or openmpi; LIBRARY: libswmpi.so of the MPI
#   launch SECONDS N WITH [NAME=VALUE]... -- PROGRAM [ARGUMENT]...   WITH: with or without the library; output in $work/out
work=$(mktemp -d "${SWMPI_TEST_DIR:-.}/swmpi.XXXXXX") || exit 1
work=$(cd "$work" && pwd) || exit 1
finish() {
    trap - EXIT HUP INT TERM
    [ -z "${job:-}" ] || kill -TERM "$job" 2> /dev/null
    rm -rf "$work" ${links:+"$links"}
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

launch_init() {
    kind=$1 launcher=$2 library=$3
    case $library in
    *[[:blank:]:]*) # LD_PRELOAD is a list, separated by blanks and colons
        links=$(mktemp -d) || exit 1
        ln -s "$library" "$links/libswmpi.so"
        library=$links/libswmpi.so
        ;;
    esac
    # For Open MPI 4.1 of Debian 12 on one node: one-sided communication over messages (osc/rdma crashes over vader, osc/ucx hangs),
    # and permission to run as root with more ranks than cores.
    if [ "$kind" = openmpi ]; then
        export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_mpi_yield_when_idle=1
        case $("$launcher" --version) in
        *") 4."*)
            export OMPI_MCA_btl=self,vader OMPI_MCA_osc=pt2pt,sm OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_orte_tmpdir_base=$work OMPI_MCA_io=romio321
            ;;
        *) export OMPI_MCA_btl=self,sm PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_prte_tmpdir_base=$work ;;
        esac
    fi
}

launch() {
    local limit=$1 n=$2 with=$3 set=() status
    shift 3
    while [ "$1" != -- ]; do
        set+=("$1")
        shift
    done
    shift
    [ "$with" = without ] || set+=("LD_PRELOAD=$library")
    timeout -k 5 "$limit" "$launcher" -n "$n" env "${set[@]}" "$@" > "$work/out" 2> "$work/err" < /dev/null &
    job=$!
    wait "$job"
    status=$?
    job=
    return $status
}

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# tests/interop/started.sh PMIRUN PAGE [--load N]
#
# Programs of each MPI that is installed, by each way in which users start one, without an option of pmirun: four ranks, in each second cell on
# two nodes, where pmirun has several; in another release of Debian (tests/run --in) on one and on two. A cell is right if each rank prints its
# number and the size, once. --load: N jobs in each cell on one node and N on two (under valgrind a tenth), while twice as many processes as
# there are processors do nothing but count. Prints the table in Markdown, and compares this release's copy in the page, between the lines
# <!-- started: RELEASE --> and <!-- end -->. What is not installed is left out by name, and the page then not compared. Status 1: a cell
# failed, or the page differs.
set -u
. "${0%/*}/../pmirun/no-batch.bash"
[ $# -ge 2 ] || { sed -n 's/^# \(tests\/interop\/started.sh .*\)/usage: \1/p' "$0" >&2; exit 2; }
pmirun=$(realpath "$1") page=$(realpath "$2") jobs=1
dir=$(mktemp -d) || exit 1
trap 'kill "${load[@]}" 2> /dev/null; rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1
load=() both=${IN_DEBIAN:+yes}
if [ "${3-}" = --load ]; then
    jobs=$4 both=yes
    for ((i = 0; i < 2 * $(nproc); i++)); do
        while :; do :; done &
        load+=($!)
    done
fi
export OMPI_MCA_btl_base_warn_component_unused=0
# What Debian's OpenSHMEM needs under its own launcher too.
export OMPI_MCA_opal_common_ucx_opal_mem_hooks=0
failed=0 n=0 missing=()
has() { command -v "$1" > /dev/null || { missing+=("$1") && false; }; }

# ---- programs: NAME, what starts it with each MPI ----
mpis=(mpich openmpi openshmem pmix abi-mpich abi-openmpi)
cat > mpi.c << 'END'
#include <mpi.h>
#include <stdio.h>
int say(void);
int say(void)
{
    int rank, one = 1, n = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&one, &n, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d\n", rank, n);
    MPI_Finalize();
    return 0;
}
END
cat > shmem.c << 'END'
#include <shmem.h>
#include <stdio.h>
int main(void)
{
    static int n;
    shmem_init();
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        shmem_int_atomic_inc(&n, pe);
    shmem_barrier_all();
    printf("rank %d of %d\n", shmem_my_pe(), n);
    shmem_finalize();
    return 0;
}
END
cat > pmix.c << 'END'
#include <pmix.h>
#include <stdio.h>
int main(void)
{
    pmix_proc_t me, all;
    pmix_value_t *size;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS)
        return 1;
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size) != PMIX_SUCCESS || PMIx_Fence(&all, 1, NULL, 0) != PMIX_SUCCESS)
        return 1;
    printf("rank %u of %u\n", me.rank, size->data.uint32);
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
END
# The ABI's library: a stub that loads an MPI only when it is called, so that no list of libraries shows which.
cat > abi.c << 'END'
#include <dlfcn.h>
#include <stddef.h>
int abi_say(void);
int abi_say(void)
{
    void *lib = dlopen("libsay.so", RTLD_NOW | RTLD_GLOBAL);
    int (*say)(void) = lib ? (int (*)(void))dlsym(lib, "say") : NULL;
    return say ? say() : 1;
}
END
echo 'int abi_say(void); int main(void) { return abi_say(); }' > abi-main.c
echo 'int say(void); int main(void) { return say(); }' > main.c
cat > hello.f90 << 'END'
program hello
    use mpi
    integer :: rank, n, err
    call mpi_init(err)
    call mpi_comm_rank(mpi_comm_world, rank, err)
    call mpi_allreduce(1, n, 1, mpi_integer, mpi_sum, mpi_comm_world, err)
    write (*, '(a,i0,a,i0)') 'rank ', rank, ' of ', n
    call mpi_finalize(err)
end program
END
printf 'from mpi4py import MPI\nc = MPI.COMM_WORLD\nprint("rank", c.rank, "of", c.allreduce(1))\n' > hello.py
make() { "$@" > make.log 2>&1 || { failed=1 && echo "FAIL: $*" && cat make.log && false; }; } # COMMAND...
for mpi in mpich openmpi; do
    has "mpicc.$mpi" || continue
    make "mpicc.$mpi" -O2 -o "$mpi" mpi.c main.c
    mkdir "lib.$mpi"
    make "mpicc.$mpi" -O2 -shared -fPIC -o "lib.$mpi/libsay.so" mpi.c
    make cc -O2 -shared -fPIC -Wl,-soname,libmpi_abi.so.0 -o "lib.$mpi/libmpi_abi.so" abi.c
    ln -s libmpi_abi.so "lib.$mpi/libmpi_abi.so.0"
    make cc -O2 -o "abi-$mpi" abi-main.c "-Llib.$mpi" -lmpi_abi
    has "mpif90.$mpi" && make "mpif90.$mpi" -o "$mpi-fortran" hello.f90
done
has oshcc && make oshcc -O2 -o openshmem shmem.c
has pkg-config && if pkg-config --exists pmix; then
    make cc -O2 -o pmix pmix.c $(pkg-config --cflags --libs pmix) # a list of words
else
    missing+=(libpmix-dev)
fi
/usr/bin/python3 -c 'import mpi4py' 2> /dev/null || missing+=(python3-mpi4py)
for program in valgrind taskset perl; do has $program; done

several=
"$pmirun" -N 2 --launch fork -n 2 true 2> err && several=yes || missing+=("several nodes: $(cat err)")

# ---- cells ----
# job COMMAND...: a job of it, or with --load `jobs` on each number of nodes; sets $cell
places=('' '-N 2 --launch fork')
turn() { places=("${places[1]}" "${places[0]}"); }
job() {
    local nodes i jobs=$jobs limit=150
    [ "$1" != valgrind ] || jobs=$(((jobs + 9) / 10)) limit=400
    cell=✓
    turn
    for nodes in "${places[@]}"; do
        [ -z "$nodes" ] || [ -n "$several" ] || continue
        for ((i = 0; i < jobs; i++)); do
            n=$((n + 1))
            timeout -k 15 $limit "$pmirun" $nodes -n 4 "$@" > out 2> err < /dev/null
            status=$?
            [ $status = 0 ] && [ "$(grep -o 'rank [0-3] of 4' out | sort | uniq -c | grep -c ' 1 rank')" = 4 ] && continue
            failed=1 cell=FAILED
            echo "FAIL: pmirun $nodes -n 4 $*: status $status, or not four ranks of 4"
            cat out err
        done
        [ "$both" = yes ] || break
    done
}
chain=(nice taskset -c "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/self/status)" timeout 120 perl -e 'exec @ARGV')
# started ROW MPI: sets $cell
started() {
    local program=$dir/$2
    cell=-
    case $2 in
    abi-*) export LD_LIBRARY_PATH=$dir/lib.${2#abi-} ;;
    *) unset LD_LIBRARY_PATH ;;
    esac
    [ -x "$program" ] || { cell="not installed"; return; }
    printf '#!/bin/sh\n./bare\nexit\n' > script
    printf '"%s"\n' "$program" > bare # without a first line
    chmod +x script bare
    case $1 in
    itself) job "$program" ;;
    sh) job sh -c "'$program'" ;;
    script) job ./script ;;
    env) job env A=1 "$program" ;;
    chain) ! command -v perl taskset > /dev/null || job "${chain[@]}" "$program" ;;
    valgrind) ! command -v valgrind > /dev/null || job valgrind -q --log-file=/dev/null "$program" ;;
    python) # Debian's mpi4py is Open MPI's
        [ "$2" != openmpi ] || ! /usr/bin/python3 -c 'import mpi4py' 2> /dev/null || job /usr/bin/python3 hello.py
        ;;
    fortran) [ ! -x "$program-fortran" ] || job "$program-fortran" ;;
    esac
}
version() { # PACKAGE: its upstream version
    dpkg-query -W -f '${Version}' "$1" 2> /dev/null | sed 's/^[0-9]*://; s/.*+really//; s/[-+~].*//'
}
release=$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release)
release="$(sed -n 's/^ID=\(.\)\(.*\)/\U\1\L\2/p' /etc/os-release) $release"
ompi=$(version openmpi-bin)
{
    echo "| $release | MPICH $(version mpich) | Open MPI $ompi | its OpenSHMEM | a PMIx client, libpmix $(version libpmix-dev) | libmpi_abi, MPICH's | libmpi_abi, Open MPI's |"
    echo "|---|---|---|---|---|---|---|"
} | tee table
for row in 'itself|`./a.out`' 'sh|`sh -c ./a.out`' 'script|a script of a script' 'env|`env A=1 ./a.out`' 'chain|`nice taskset -c … timeout … perl -e …`' \
    'valgrind|`valgrind ./a.out`' 'python|`python3`, mpi4py' 'fortran|in Fortran'; do
    line="| ${row#*|} |"
    turn # so that no MPI has the same place in all rows
    for mpi in "${mpis[@]}"; do
        started "${row%%|*}" "$mpi"
        line+=" $cell |"
    done
    echo "$line" | tee -a table
done
if [ ${#missing[@]} -gt 0 ]; then
    printf 'left out, not installed: %s\n' "${missing[@]}"
elif ! diff <(sed -n "/^<!-- started: $release -->\$/,/^<!-- end -->\$/p" "$page" | grep '^|') table; then
    echo "FAILED: the table of $release in $page is not the one above"
    failed=1
fi
echo "$n jobs"
exit $failed

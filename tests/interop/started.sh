#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# started.sh PMIRUN MPI PROGRAM: an MPI program by each way in which users start one, without an option of pmirun, on one node and, where pmirun
# has several, on two. MPI is mpich or openmpi, PROGRAM hello.c built for it. Each cell must have the right ranks. What is not installed is left out by name.
set -u
. "${0%/*}/../pmirun/no-batch.bash"
pmirun=$1 mpi=$2 program=$3
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1
export OMPI_MCA_btl_base_warn_component_unused=0
failed=0 n=0

# cell COMMAND...: four ranks of it
cell() {
    local nodes
    for nodes in '' '-N 2 --launch fork'; do
        [ -z "$nodes" ] || [ -n "$several" ] || continue
        n=$((n + 1))
        timeout -k 5 100 "$pmirun" $nodes -n 4 "$@" > out 2> err < /dev/null || { failed=1 && echo "FAIL: pmirun $nodes -n 4 $*: status $?"; }
        [ "$(grep -o 'rank [0-3] of 4' out | sort -u | wc -l)" = 4 ] && continue
        failed=1
        echo "FAIL: pmirun $nodes -n 4 $*: not four ranks of 4"
        cat out err
    done
}
has() { command -v "$1" > /dev/null || { echo "left out, not installed: $1" && false; }; }

several=
"$pmirun" -N 2 --launch fork -n 2 true 2> err && several=yes || echo "left out, several nodes: $(cat err)"
printf '#!/bin/sh\n"%s" 4\nexit\n' "$program" > script
printf 'exec "%s" 4\n' "$program" > bare
chmod +x script bare
cell "$program" 4
cell ./script
cell ./bare
cell sh -c "'$program' 4"
cell env A=1 "$program" 4
cell nice "$program" 4
cell timeout 90 "$program" 4
has taskset && cell taskset -c "$(sed -n 's/^Cpus_allowed_list:\t*//p' /proc/self/status)" "$program" 4
has valgrind && cell valgrind -q --log-file=/dev/null "$program" 4
has perl && cell perl -e 'exec @ARGV' "$program" 4
if has "mpif90.$mpi"; then
    cat > hello.f90 << 'END'
program hello
    use mpi
    integer :: rank, n, err
    call mpi_init(err)
    call mpi_comm_rank(mpi_comm_world, rank, err)
    call mpi_comm_size(mpi_comm_world, n, err)
    write (*, '(a,i0,a,i0)') 'rank ', rank, ' of ', n
    call mpi_finalize(err)
end program
END
    "mpif90.$mpi" -o fortran hello.f90 && cell ./fortran || failed=1
fi
# Debian's mpi4py is Open MPI's.
if [ "$mpi" = openmpi ]; then
    if /usr/bin/python3 -c 'import mpi4py' 2> /dev/null; then
        printf 'from mpi4py import MPI\nc = MPI.COMM_WORLD\nprint("rank", c.rank, "of", c.allreduce(1))\n' > hello.py
        cell /usr/bin/python3 hello.py
    else
        echo "left out, not installed: python3-mpi4py"
    fi
fi
[ $failed = 0 ] && echo "$n jobs"
exit $failed

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# mpi_detect.sh PMIRUN LIBPMI LIBDIR CC GROUP: how pmirun connects ranks (--mpi), and the temporary folders of its jobs. The programs
# are linked with empty libraries of the names that real MPIs have. LIBDIR is the path from pmirun's folder to an installed libpmi.so.0.
# Groups: see the end. Environment: OPENMPI, an Open MPI 4 program, for the group openmpi; RAWPMI, the program of rawpmi.c.
set -u
pmirun=$1 libpmi=$2 libdir=$3 cc=$4 group=$5
. "${0%/*}/jobs.bash"
export TMPDIR=$dir/tmp LC_ALL=C
mkdir "$TMPDIR"
unset FLUX_JOB_ID FLUX_PMI_LIBRARY_PATH

err_times() { [ "$(grep -c -e "$2" "$dir/err")" = "$1" ] || fail "stderr has \"$2\" not $1 times"; }

# library FOLDER NAME [LIBRARY]: an empty one, which needs another of its folder
library() {
    mkdir -p "$dir/$1"
    $cc -shared -fPIC -o "$dir/$1/$2" -Wl,-soname,"$2" -Wl,--no-as-needed "-Wl,-rpath,\$ORIGIN" "$dir/empty.c" ${3:+"$dir/$1/$3"} || exit 1
}
# program NAME [FOLDER/LIBRARY [OPTION...]]: linked with it; it prints the variables that select how an MPI connects, and sleeps for $1 seconds
program() {
    local name=$1 lib=${2:-}
    shift
    [ $# != 1 ] || set -- "$lib" "-Wl,-rpath,$dir/${lib%/*}"
    $cc -o "$dir/$name" "$dir/program.c" -Wl,--no-as-needed ${lib:+"$dir/$lib"} "${@:2}" || exit 1
}
sources() {
    echo 'int fencepost_empty_library = 1;' > "$dir/empty.c"
    cat > "$dir/program.c" << 'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv)
{
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "FLUX_", 5) == 0 || strncmp(*e, "OMPI_MCA_", 9) == 0 || strncmp(*e, "PMIX_", 5) == 0 ||
            strncmp(*e, "MPIR_CVAR_", 10) == 0)
            puts(*e);
    fflush(stdout);
    sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 0);
    return 0;
}
END
    library v4 libopen-rte.so.40
    library v4 libmpi.so.40 libopen-rte.so.40
    mkdir "$dir/v4/openmpi"
    : > "$dir/v4/openmpi/mca_pmix_flux.so"
    library v5 libmpi.so.40
    library mpich libmpich.so.12
    library pmix libpmix.so.2
    library tool libtool.so.1
    library behind libopen-rte.so.40
    library behind libmpi.so.40 libopen-rte.so.40
    library behind libapp.so.1 libmpi.so.40
    mkdir -p "$dir/behind/openmpi/lib/openmpi3"
    : > "$dir/behind/openmpi/lib/openmpi3/mca_pmix_flux.so"
    program plain
    program v4_program v4/libmpi.so.40
    program v5_program v5/libmpi.so.40
    program mpich_program mpich/libmpich.so.12
    program tool_program tool/libtool.so.1
    program pmix_program pmix/libpmix.so.2
    program behind_program behind/libapp.so.1
    library behind5 libmpi.so.40
    library behind5 libapp.so.1 libmpi.so.40
    program lost_program behind/libapp.so.1 "-Wl,-rpath-link,$dir/behind" # needs LD_LIBRARY_PATH
}

# way NAME PROGRAM [argument...]: two ranks of it use that way
way() {
    local name=$1
    shift
    run 0 -v --stats -n 2 "$@"
    err_times 1 "job 0: --mpi $name: "
    err_has "\"mpi\":\"$name\",\"mpi_why\":\"[^\"]*\"}$"
}

# Without PMIx a job that needs it does not start, unless one rank is alone.
# A program that may start or load any MPI has PMIx beside PMI where PMIx is there, one rank too.
offers_pmix() { # PROGRAM [argument...]
    if "$pmirun" --mpi pmix -n 1 true 2> /dev/null; then
        way pmix "$@"
        run 0 -v -n 1 "$@"
        err_times 1 'job 0: --mpi pmix: '
    else
        way pmi "$@"
    fi
}
needs_pmix() { # PROGRAM
    if "$pmirun" --mpi pmix -n 1 true 2> /dev/null; then
        way pmix "$1"
        out_has '^PMIX_RANK=1$'
    else
        run 126 -n 2 "$1"
        err_has 'has no PMIx: .*--mpi pmi starts it all the same'
        run 0 -n 1 "$1"
    fi
}

test_auto() {
    sources
    way pmi "$dir/plain"
    [ ! -s "$dir/out" ] || fail "a program of no MPI has variables of one"
    way pmi "$dir/mpich_program"
    offers_pmix "$dir/tool_program"
    way openmpi "$dir/v4_program"
    [ "$(sort -u "$dir/out" | grep -c '^FLUX_JOB_ID=')" = 1 ] || fail "not one number of the job"
    out_has "^FLUX_PMI_LIBRARY_PATH=$(realpath "$libpmi")$"
    out_has "^OMPI_MCA_orte_tmpdir_base=$TMPDIR/pmirun-[0-9a-f]*-[0-9a-f]*$"
    out_has '^OMPI_MCA_btl_vader_backing_directory=/dev/shm/pmirun-[0-9a-f]*-[0-9a-f]*$'
    out_has '^OMPI_MCA_shmem=mmap$'
    run 0 --mpi openmpi -n 2 "$dir/v5_program"
    err_times 1 'warning: a program is linked with Open MPI 5, which has no component for Flux: each process starts as rank 0 of 1; remove --mpi openmpi$'
    run 0 --mpi openmpi -n 2 "$dir/v4_program"
    ! grep -q warning "$dir/err" || fail "Open MPI 4 causes a warning"
    way openmpi "$dir/behind_program" # a library of it needs Open MPI, and Debian's folder of components
    offers_pmix sh -c "exec $dir/plain"
    if "$pmirun" --mpi pmix -n 1 true 2> /dev/null; then
        out_has '^MPIR_CVAR_PMI_VERSION=1$' # else MPICH 5 aborts, since it finds PMI and PMIx
        MPIR_CVAR_PMI_VERSION=x run 0 -n 1 sh -c "exec $dir/plain"
        [ "$(grep MPIR_CVAR "$dir/out")" = MPIR_CVAR_PMI_VERSION=x ] || fail "the user's choice of PMI does not win"
    fi
    for wrapper in env nice 'timeout 50'; do offers_pmix $wrapper "$dir/plain"; done
    printf 'extern void *dlopen(const char *, int); int main(void) { return !dlopen("libc.so.6", 2); }\n' > "$dir/opens.c"
    $cc -o "$dir/opens" "$dir/opens.c" -ldl || exit 1
    offers_pmix "$dir/opens"
    way pmi hostname
    way openmpi "$dir/plain" : -n 1 "$dir/v4_program"
    needs_pmix "$dir/v5_program"
    needs_pmix "$dir/pmix_program"
    rm "$dir/v4/openmpi/mca_pmix_flux.so"
    needs_pmix "$dir/v4_program"
    # A static program, one that is no ELF file, one whose headers are cut off, and one of another machine.
    if $cc -static -o "$dir/static" "$dir/program.c" 2> /dev/null; then way pmi "$dir/static"; fi
    printf '#!/bin/sh\nexit 0\n' > "$dir/script"
    printf 'exit 0\n' > "$dir/bare"
    chmod +x "$dir/script" "$dir/bare"
    offers_pmix "$dir/script"
    offers_pmix "$dir/bare"
    # PMIx that cannot be set up is no reason to refuse a program that may need none.
    TMPDIR=$dir/nowhere way pmi "$dir/script"
    (ulimit -n 40 && way pmi "$dir/script" && exit "$failed") || failed=1
    head -c 100 "$dir/plain" > "$dir/cut"
    cp "$dir/plain" "$dir/alien"
    printf '\001' | dd of="$dir/alien" bs=1 seek=18 conv=notrunc 2> /dev/null # e_machine
    chmod +x "$dir/cut"
    run 126 -n 2 "$dir/cut"
    run 126 -n 2 "$dir/alien"
    # pmirun runs the program's loader in the rank's environment and folder.
    : > "$dir/v4/openmpi/mca_pmix_flux.so"
    LD_LIBRARY_PATH=/nowhere run 0 -v -n 2 -x LD_LIBRARY_PATH=/x -x "LD_LIBRARY_PATH=$dir/behind" "$dir/lost_program"
    err_has 'job 0: --mpi openmpi: '
    run 0 -v -n 2 --wdir "$dir" -x LD_LIBRARY_PATH="$dir/behind" ./lost_program
    err_has 'job 0: --mpi openmpi: '
}

test_options() {
    sources
    run 2 --mpi nonsense -n 1 true
    err_has 'wants auto, pmi, openmpi, pmix or pmi2, not "nonsense"'
    run 2 --mpi
    run 2 -n 1 true : --mpi pmi true
    for m in auto pmi openmpi; do run 0 --mpi $m -n 1 true; done
    # The user's choice wins.
    run 0 --mpi openmpi -n 1 -x FLUX_JOB_ID=5 "$dir/plain"
    [ "$(grep FLUX_JOB_ID "$dir/out")" = FLUX_JOB_ID=5 ] || fail "-x does not win"
    OMPI_MCA_mpi_yield_when_idle=0 OMPI_MCA_btl_vader_backing_directory=/x run 0 --mpi openmpi -n 1 "$dir/plain"
    [ "$(grep -c vader "$dir/out")" = 1 ] && out_has '^OMPI_MCA_btl_vader_backing_directory=/x$'
    out_has '^OMPI_MCA_mpi_yield_when_idle=0$'
    # The choice of a Flux around us does not.
    FLUX_PMI_LIBRARY_PATH=/x FLUX_JOB_ID=f run 0 --mpi openmpi -n 1 "$dir/plain"
    out_has "^FLUX_PMI_LIBRARY_PATH=$(realpath "$libpmi")$"
    [ "$(grep -c FLUX "$dir/out")" = 2 ] || fail "variables of Flux that are not ours"
    # Ranks that outnumber the processors yield.
    run 0 --mpi openmpi -n "$(($(nproc) + 1))" "$dir/plain"
    out_has '^OMPI_MCA_mpi_yield_when_idle=1$'
    run 0 --mpi openmpi -n "$(nproc)" "$dir/plain"
    if grep -q yield "$dir/out"; then fail "ranks that have a processor each yield"; fi
    # Open MPI with --mpi pmi: a warning, and it starts.
    run 0 --mpi pmi -n 2 "$dir/v4_program"
    err_times 1 'warning: a program is linked with Open MPI'
    [ ! -s "$dir/out" ] || fail "--mpi pmi sets variables"
    run 0 --mpi pmi -n 2 "$dir/mpich_program"
    [ ! -s "$dir/err" ] || fail "a warning about MPICH"
    # Installed elsewhere, with and without our libpmi.
    mkdir -p "$dir/prefix/bin"
    cp "$pmirun" "$dir/prefix/bin/pmirun"
    pmirun=$dir/prefix/bin/pmirun
    run 126 --mpi openmpi -n 1 true
    err_has 'libpmi.so.0 is not beside pmirun'
    mkdir -p "$dir/prefix/bin/$libdir"
    cp "$libpmi" "$dir/prefix/bin/$libdir/libpmi.so.0"
    run 0 --mpi openmpi -n 1 "$dir/plain"
    out_has "^FLUX_PMI_LIBRARY_PATH=$(realpath "$dir/prefix/bin/$libdir")/libpmi.so.0$"
}

# A script, and programs that it starts, which never ask for PMI.
test_hidden() {
    sources
    printf '#!/bin/sh\n"%s" "$1"\nexit\n' "$dir/v4_program" > "$dir/script"
    chmod +x "$dir/script"
    warned() { # [argument of pmirun...]: once, within a minute
        begin "$@" "$dir/script" 100
        soon err_is_there || fail "no warning"
        kill "$pid"
        wait "$pid"
        err_times 1 'warning: a process of the job has loaded libmpi.so.40, but no rank has used PMI or PMIx yet'
    }
    err_is_there() { [ -s "$dir/err" ]; }
    if "$pmirun" --mpi pmix -n 1 true 2> /dev/null; then
        warned -n 2
        ! "$pmirun" -N 2 --launch fork -n 2 true 2> /dev/null || warned -N 2 --launch fork -n 4
    fi
    warned --mpi pmi -n 2
    run 0 -n 1 "$dir/script" 4 # alone it is right
    [ ! -s "$dir/err" ] || fail "a warning about a single process"
    run 0 --mpi openmpi -n 2 "$dir/script" 4
    [ ! -s "$dir/err" ] || fail "a warning where --mpi says it"
    printf '#!/bin/sh\n"%s" "$1"\nexit\n' "$dir/mpich_program" > "$dir/script"
    run 0 -n 2 "$dir/script" 1
    err_times 1 'warning: a process of the job has loaded libmpich.so, but no rank has used PMI or PMIx: '
    run 0 -n 2 "$dir/mpich_program" 1
    [ ! -s "$dir/err" ] || fail "a warning about a program that names MPICH"
    # A rank on its way to execve() shares pmirun's memory, and its libraries.
    for _ in {1..10}; do
        run 0 -n 32 sh -c 'exit 0'
        [ ! -s "$dir/err" ] || fail "a warning about ranks without an MPI"
    done
    # Without PMIx, Open MPI ends the job. The folder that PMIx needs is missing here.
    printf '#!/bin/sh\n"%s" "$1"\nexit\n' "$dir/v5_program" > "$dir/script"
    TMPDIR=$dir/nowhere run 126 -n 2 "$dir/script" 50
    err_has '^pmirun: rank [01].* has loaded libmpi.so.40, .* the job has no PMIx: .*nowhere: .*; stopping the job$'
}

# The loader hangs, or prints without end: pmirun kills it, and the job continues without its answer.
test_loader() {
    sources
    for what in 'exec yes' 'exec sleep 1000.25'; do
        printf '#!/bin/sh\n%s\n' "$what" > "$dir/loader"
        chmod +x "$dir/loader"
        program odd_program tool/libtool.so.1 "-Wl,--dynamic-linker=$dir/loader"
        run 126 -n 2 "$dir/odd_program" # the kernel wants another loader too
        err_times 1 'warning: .*/loader --list .*/odd_program does not end or prints too much'
    done
    ! pgrep -f 'sleep 1000.25' > /dev/null || fail "the loader still runs"
    # All programs of a job share one time limit: here the first takes it all. A spawned job's limit is shorter.
    printf '#!/bin/sh\necho asked >> "%s"\nexec sleep 1000.25\n' "$dir/asked" > "$dir/loader"
    run 126 -n 1 "$dir/odd_program" : -n 1 "$dir/odd_program" : -n 1 "$dir/odd_program"
    [ "$(wc -l < "$dir/asked")" = 1 ] || fail "the loader was asked $(wc -l < "$dir/asked") times"
    err_times 1 'does not end or prints too much'
    err_times 1 'warning: 10 s were not enough .*: those of 2 programs are ignored;'
    printf '#!/bin/sh\nexec sleep 5\n' > "$dir/loader"
    run 0 -n 1 "$RAWPMI" spawn 1 "$dir/odd_program"
    err_times 1 'does not end or prints too much'
}

is_gone() { [ ! -e "$1" ] && [ ! -e "/dev/shm/${1##*/}" ]; }
in_shell() { "$pmirun" --mpi openmpi -n 1 sh -c "$1"; }
folder() { grep -a '^/' "$dir/out" | head -1; }
# hold [argument of pmirun...]: a job whose rank shows its folder and sleeps
hold() {
    begin --mpi openmpi "$@" -n 1 sh -c 'echo $OMPI_MCA_orte_tmpdir_base; sleep 50 & wait'
    soon grep -q '^/' "$dir/out" || fail "no folder"
    held=$(folder)
}
fill='d=$OMPI_MCA_orte_tmpdir_base; s=$OMPI_MCA_btl_vader_backing_directory
    for f in "$d" "$s"; do
        mkdir -p "$f/a/b/c" "$f/closed/x" && echo x > "$f/a/b/c/file" && echo x > "$f/closed/x/file"
        ln -s "$KEPT" "$f/link" && ln -s "$KEPT" "$f/a/link" && ln -s ../.. "$f/a/b/up" && ln -s nowhere "$f/a/dangling" && mkfifo "$f/a/fifo"
        chmod 0 "$f/closed/x/file" "$f/closed/x" "$f/closed" && chmod 500 "$f/a/b/c"
    done; echo $d'

# spawn_no_folder [argument of pmirun...]: a spawned program's library is missing, and the spawner gets an error about a resource
spawn_no_folder() {
    TMPDIR=$dir/nowhere run 0 "$@" -n 1 "$RAWPMI" spawn 1 "$dir/v4_program"
    err_has "cannot make a temporary folder in $dir/nowhere: No such file"
    out_has '^cmd=spawn_result rc=-1 msg=Cannot_allocate_memory$'
}

test_folders() {
    export KEPT=$dir/kept
    mkdir "$KEPT"
    echo x > "$KEPT/file"
    run 0 --mpi openmpi -n 1 sh -c "stat -c '%a %u' \"\$OMPI_MCA_orte_tmpdir_base\" \"\$OMPI_MCA_btl_vader_backing_directory\""
    [ "$(sort -u "$dir/out")" = "700 $(id -u)" ] || fail "others may enter"
    run 0 --mpi openmpi -n 1 sh -c "$fill"
    is_gone "$(folder)" || fail "a folder is left after the end: $(find "$(folder)")"
    run 3 --mpi openmpi -n 1 sh -c "$fill; exit 3"
    is_gone "$(folder)" || fail "a folder is left after a failure"
    # Deeper than a path may be long.
    run 0 --mpi openmpi -n 1 sh -c 'cd "$OMPI_MCA_orte_tmpdir_base" && echo $OMPI_MCA_orte_tmpdir_base
        perl -e "for (1..3000) { mkdir q(0123456789) and chdir q(0123456789) or die }"'
    is_gone "$(folder)" || fail "a deep folder is left"
    # None for programs that need none.
    run 0 --mpi pmi -n 1 sh -c 'ls "$TMPDIR"'
    [ ! -s "$dir/out" ] || fail "a needless folder"

    # Killed: the guard removes it.
    begin --mpi openmpi -n 1 sh -c "$fill; sleep 50 & wait"
    soon grep -q '^/' "$dir/out" || fail "no folder"
    kill -9 "$pid"
    wait "$pid" 2> /dev/null
    soon is_gone "$(folder)" || fail "a folder is left after kill -9"

    # Killed with its guard: the next pmirun removes it, and leaves the folders of a live pmirun. It does not follow a link of the right name.
    begin --mpi openmpi -n 1 sh -c "$fill; sleep 50 & wait"
    soon grep -q '^/' "$dir/out" || fail "no folder"
    kill -STOP "$pid"
    for guard in $(cat "/proc/$pid/task/$pid/children"); do
        [ "$(cat "/proc/$guard/comm")" != job-guard ] || kill -9 "$guard"
    done
    kill -9 "$pid"
    wait "$pid" 2> /dev/null
    dead=$(folder)
    [ -d "$dead" ] || fail "the folder is gone without a guard: nothing is tested"
    hold
    [ ! -e "$dead" ] && [ ! -e "/dev/shm/${dead##*/}" ] || fail "the next pmirun leaves a dead one's folder: $(find "$dead")"
    ln -s "$KEPT" "${held%-*}-0123456789abcdef"
    mkdir "${held%-*}-short" "$TMPDIR/pmirun-other"
    run 0 --mpi openmpi -n 1 true
    [ -d "$held" ] && [ -d "/dev/shm/${held##*/}" ] || fail "a living one's folder is gone"
    [ -L "${held%-*}-0123456789abcdef" ] && [ -d "${held%-*}-short" ] && [ -d "$TMPDIR/pmirun-other" ] || fail "what is not ours is gone"
    mkdir "${held%-*}-0000000000000000"
    if chown 12345 "${held%-*}-0000000000000000" 2> /dev/null; then
        run 0 --mpi openmpi -n 1 true
        [ -d "${held%-*}-0000000000000000" ] || fail "another user's folder is gone"
    fi
    kill -9 "$pid" # and its guard removes it
    wait "$pid" 2> /dev/null
    soon is_gone "$held" || fail "a folder is left after kill -9"
    [ "$(cat "$KEPT/file")" = x ] || fail "a link was followed"

    # A read-only /dev/shm: all folders are in TMPDIR.
    if unshare -m true 2> /dev/null; then
        unshare -m sh -c 'mount -t tmpfs -o ro none /dev/shm && exec "$@"' sh \
            "$pmirun" -v --mpi openmpi -n 1 sh -c 'echo $OMPI_MCA_btl_vader_backing_directory' > "$dir/out" 2> "$dir/err" || fail "status $?"
        out_has "^$TMPDIR/pmirun-"
        err_has 'cannot make a folder in /dev/shm: '
    fi
    TMPDIR=$dir/nowhere run 250 --mpi openmpi -n 1 true
    err_has "cannot make a temporary folder in $dir/nowhere: No such file"
    sources
    spawn_no_folder
}

# Several nodes: each has its own folders, the head reports their choices once, and that they differ.
test_nodes() {
    sources
    "$pmirun" -N 2 --launch fork -n 2 true 2> "$dir/err" || { echo "skip: $(cat "$dir/err")" && exit 77; }
    run 0 -v --stats -N 2 --launch fork -n 4 "$dir/v4_program"
    err_times 1 'job 0: --mpi openmpi: '
    err_has '"mpi":"openmpi"'
    [ "$(sort -u "$dir/out" | grep -c '^FLUX_JOB_ID=')" = 1 ] || fail "not one number of the job"
    [ "$(sort -u "$dir/out" | grep -c vader_backing)" = 2 ] || fail "not one folder a node"
    for f in $(sed -n 's/.*tmpdir_base=//p' "$dir/out"); do is_gone "$f" || fail "a node leaves $f"; done
    run 0 --mpi pmi -N 2 --launch fork -n 4 "$dir/v4_program"
    err_times 1 'warning: a program is linked with Open MPI'
    spawn_no_folder -N 2 --launch fork
    # One group on each node; the second needs Open MPI, and all nodes look at both.
    run 0 -v -N 2 --launch fork -n 2 "$dir/plain" : -n 2 "$dir/v4_program"
    err_times 1 'job 0: --mpi openmpi: '
    [ "$(grep -c FLUX_PMI "$dir/out")" = 4 ] || fail "not all ranks go by Open MPI's way"
    # Nodes that find different libraries under one name: descriptor 200 of each agent is another folder.
    printf '#!/bin/bash\nexec 200< "%s/$2"\nshift 2\nexec sh -c "$*"\n' "$dir" > "$dir/agent"
    chmod +x "$dir/agent"
    ln -s behind "$dir/a"
    ln -s behind5 "$dir/b"
    two=(--hosts a,b --launch-agent "$dir/agent")
    run 126 "${two[@]}" -n 2 -x LD_LIBRARY_PATH=/proc/self/fd/200 "$dir/lost_program"
    if "$pmirun" --mpi pmix -n 1 true 2> /dev/null; then
        err_has '^pmirun: [ab] would start its ranks as --mpi [a-z]* (.*), another node as --mpi [a-z]* (.*)'
    fi
    # A killed head: its agents remove their folders.
    begin "${two[@]}" --mpi openmpi -n 2 sh -c 'echo $OMPI_MCA_orte_tmpdir_base; sleep 50 & wait'
    soon eval '[ "$(grep -c "^/" "$dir/out")" = 2 ]' || fail "not two folders"
    kill -9 "$pid"
    wait "$pid" 2> /dev/null
    for f in $(cat "$dir/out"); do soon is_gone "$f" || fail "an agent whose head is killed leaves $f"; done
}

# A real Open MPI.
test_openmpi() {
    unset LD_LIBRARY_PATH
    run 0 -v --stats -n 4 "$OPENMPI" 4
    err_times 1 'job 0: --mpi openmpi: '
    [ "$(grep -c '^hello from rank [0-3] of 4' "$dir/out")" = 4 ] || fail "not four ranks of 4"
    [ "$(ls -A "$TMPDIR")" = "" ] || fail "left in TMPDIR: $(ls -A "$TMPDIR")"
    OMPI_MCA_btl=self,tcp SLURM_JOBID=1 SLURM_NODELIST=x run 0 -n 2 "$OPENMPI" 2
    if "$pmirun" -N 2 --launch fork -n 2 true 2> /dev/null; then
        run 0 -N 2 --launch fork -n 4 "$OPENMPI" 4
        [ "$(grep -c '^hello from rank [0-3] of 4' "$dir/out")" = 4 ] || fail "not four ranks of 4 on 2 nodes"
        [ "$(ls -A "$TMPDIR")" = "" ] || fail "left in TMPDIR: $(ls -A "$TMPDIR")"
    fi
}

case $group in
auto | options | hidden | loader | folders | nodes | openmpi) "test_$group" ;;
*) echo "no group $group" && exit 2 ;;
esac
finish

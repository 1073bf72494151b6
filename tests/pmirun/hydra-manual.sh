#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# hydra-manual.sh PMIRUN MPIEXEC RAWPMI [--table]: runs the examples of hydra's manual and --help under MPIEXEC (hydra's) and PMIRUN: both give the
# same lines (in any order) and status, or a known difference, named here. --table prints commands and results in Markdown.
set -u
. "$(dirname "$0")/no-batch.bash"
pmirun=$1
hydra=$2
raw=$3
table=${4-}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cd "$dir" || exit 1
unset MPIEXEC_TIMEOUT HYDRA_HOST_FILE HYDRA_LAUNCHER
failed=0
n=0
n_differ=0
[ -z "$table" ] || printf '| typed | hydra | pmirun | |\n|---|---|---|---|\n'

# The programs of the examples.
cat > app << 'END'
#!/bin/sh
echo "rank $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS here"
END
cat > vars << 'END'
#!/bin/sh
echo "$PMI_RANK: A=${A-} B=${B-} OMP=${OMP_NUM_THREADS-} in ${PWD##*/}"
END
cat > size << 'END'
#!/bin/bash
# bash, since dash takes descriptors of one digit alone
ask() { printf "$1" >&$PMI_FD; read -r answer <&$PMI_FD; }
ask 'cmd=init pmi_version=1 pmi_subversion=1\n'
ask 'cmd=get_universe_size\n'
echo "${answer##* }"
ask 'cmd=finalize\n'
END
printf '#!/bin/sh\necho "$PMI_RANK: $(sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status)"\n' > cpus
chmod +x app vars size cpus
ln -s "$raw" raw
mkdir sub
printf '%s\n' donner foo shakey terra > hosts
printf '%s\n' '# processes a host' donner:2 foo:3 shakey:2 > slots
printf '%s\n' '-n 1 ./app' '-n 2 ./app' > config
printf '%s\n' '-genv A 1 -n 1 ./vars' '-n 1 -env B 2 ./vars' > config2

# result COMMAND...: its lines, sorted, with ; between, and its status
result() {
    local out
    rm -f file.*
    out=$(timeout -k 5 60 "$@" 2> err < /dev/null)
    status=$?
    printf '%s' "$out" | sort | tr '\n' ';'
    for f in file.*; do
        [ ! -e "$f" ] || printf '%s: %s;' "$f" "$(sort "$f" | tr '\n' ' ')"
    done
    echo "status $status"
}
# typed ARGUMENTS [DIFFERENCE]: as a shell reads them. DIFFERENCE: pmirun's own output and the reason, "lines|reason"
typed() {
    local theirs ours verdict known=${2-} i
    n=$((n + 1))
    ours=$(eval "result '$pmirun' $1")
    for ((i = 0; i < 8; i++)); do # hydra 4.0.2 itself dies of SIGPIPE now and then on a busy machine, once in some 200 runs
        theirs=$(eval "result '$hydra' $1")
        [ "$theirs" != "$ours" ] && [ -z "$known" ] || break
    done
    if [ "$theirs" = "$ours" ]; then
        verdict=same
        [ -z "$known" ] || { echo "FAIL: no difference any more: $1"; failed=1; }
    elif [ -n "$known" ] && [ "$ours" = "${known%%|*}" ]; then
        verdict=${known#*|}
        n_differ=$((n_differ + 1))
    else
        verdict=FAIL
        failed=1
        printf 'FAIL: mpiexec %s\n  hydra:  %s\n  pmirun: %s\n' "$1" "$theirs" "$ours"
    fi
    [ -z "$table" ] || printf '| `%s` | %s | %s | %s |\n' "${1//|/\\|}" "${theirs//|/\\|}" "${ours//|/\\|}" "$verdict"
}

# Processes.
typed '-n 4 ./app'
typed '-np 2 ./app'
typed '-n 1 ./app : -n 2 ./app'
typed './app'
# Hosts.
typed '-launcher fork -f hosts -n 4 ./app'
typed '-launcher fork -f slots -n 7 ./app'
typed '-launcher fork -f slots -n 14 ./app'
typed '-launcher fork -machinefile slots -n 3 ./app'
typed '-launcher fork -hosts donner,foo -n 2 ./app'
typed '-launcher fork -hosts donner:2,foo:1 -n 3 ./app'
typed '-launcher fork -hosts donner,foo -n 4 ./app' \
    "$(printf 'rank %s here;' '0 of 4, 0 of 2' '1 of 4, 1 of 2' '2 of 4, 0 of 2' '3 of 4, 1 of 2')status 0|the same numbers on other hosts"
typed '-launcher fork -host donner -n 2 ./app'
typed '-launcher fork -hosts donner,foo -ppn 2 -n 4 ./app'
typed '-launcher fork -f hosts -ppn 2 -n 8 ./app'
# Processors.
if [ "$(nproc)" -gt 1 ] && "$pmirun" --bind-to core -n 1 true 2> err; then
    typed '-bind-to hwthread -n 2 ./cpus'
    typed '-bind-to core -n 1 ./cpus'
    typed '-bind-to numa -map-by numa -n 2 ./cpus'
    typed '-map-by node -n 2 ./cpus'
    typed "-bind-to user:$(sed -n 's/^Cpus_allowed_list:\t*\([0-9]*\).*/\1/p' /proc/self/status) -n 1 ./cpus"
fi
# Environment.
typed '-env A 1 -n 2 ./vars'
typed '-genv A 1 -n 1 ./vars : -n 1 ./vars'
typed '-genv A=1 -n 1 -env B=2 ./vars'
typed '-genv A 1 -n 1 -env A 2 ./vars : -n 1 ./vars'
typed '-genv OMP_NUM_THREADS 4 -n 2 ./vars'
typed '-n 1 -env A 1 -env B 2 ./vars'
export A=inherited B=too
typed '-genvall -n 1 ./vars'
typed '-genvlist A,PATH -n 1 ./vars' '0: A=inherited B= OMP= in '"${dir##*/}"';status 0|hydra passes on more than is listed'
typed '-genvnone -n 1 /bin/sh -c "echo A=\$A"' 'A=;status 0|hydra passes on what its proxy has'
typed '-n 1 -envall ./vars'
typed '-n 1 -envlist A,PATH ./vars' '0: A=inherited B= OMP= in '"${dir##*/}"';status 0|hydra passes on more than is listed'
unset A B
# Folders and files.
typed '-wdir sub -n 1 ../vars'
typed "-wdir $dir/sub -n 2 ../vars"
typed '-configfile config'
typed '-configfile config2'
# Output.
typed '-l -n 2 ./app'
typed '-prepend-rank -n 2 ./app'
typed '-outfile-pattern file.%r -n 2 ./app'
typed '-outfile-pattern file.%r.%g.%p -n 2 ./app'
typed '-errfile-pattern file.%r -n 2 sh -c "echo \$PMI_RANK >&2"'
typed '-print-all-exitcodes -n 2 true' 'status 0|hydra: exit codes on standard output; here on standard error'
# The universe.
typed '-usize 16 -n 1 ./size'
typed '-usize SYSTEM -n 1 ./size'
typed '-usize INFINITE -n 1 ./size'
typed '-launcher fork -f slots -usize SYSTEM -n 1 ./size' 'size=7;status 0|hydra counts the slots of hosts that have a rank'
typed '-pmi-port -n 2 true'
# Hydra's own options, without effect here.
typed '-rmk user -n 1 ./app'
typed '-topolib hwloc -n 1 ./app'
typed '-demux poll -n 1 ./app'
typed '-disable-hostname-propagation -n 1 ./app'
typed '-disable-x -n 1 ./app'
# Ends.
typed '-n 2 true'
typed '-n 1 sh -c "exit 3"'
typed '-n 1 sh -c "exit 5" : -n 1 sh -c "exit 5"'
typed '-n 1 no-such-program' 'status 127|hydra: 255'
typed '-n 1 ./raw exit 7 inited'
typed '-n 1 ./raw exit 0 inited' 'status 251|an end without finalize; --ends hydra: 0'
typed '-n 1 ./raw abort 33'
typed '-n 1 sh -c "kill -9 \$\$"' 'status 137|128 + the signal, as a shell has it; hydra: the signal'
typed '-n 1 sh -c "(sleep 5; echo child) & exit 0"' 'status 0|processes that outlive their rank are ended; --ends hydra waits'

[ $failed = 0 ] && [ -z "$table" ] && echo "$n examples, $n_differ that differ, each for its reason"
exit $failed

# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options for PMI and PMIx, and for the end of a job.
options="--mpi --pmi-1.2 --pmi-port --no-shm --universe-size --max-procs --shm-max --ends"

size() { printf '%s\n' 'ask() { printf "$1" >&3; read -r answer <&3; }' "ask 'cmd=init pmi_version=1 pmi_subversion=1\n'" "ask 'cmd=get_universe_size\n'" 'echo "$answer"' "ask 'cmd=finalize\n'"; }
size > size

try() {
    case $1 in
    --mpi)
        with pmi 'x;' -n 1 echo x
        with pmi2 'x;' -n 1 echo x
        bad x
        ;;
    --pmi-1.2) ok 'x;' "$name" -n 1 echo x ;;
    --pmi-port | --no-shm) run 0 "$name" -n 3 "$raw" pgf ;;
    --universe-size)
        with 7 'cmd=universe_size rc=0 size=7;' -n 1 sh size
        with SYSTEM 'cmd=universe_size rc=0 size=1;' -n 1 sh size
        several && with SYSTEM 'cmd=universe_size rc=0 size=5;' --hosts a:4,b --launch-agent ./agent -n 1 sh size
        run 0 "$name" INFINITE -n 1 sh size
        bad x -2 2147483648
        ;;
    --max-procs)
        run 0 "$name" 0 -n 1 "$raw" spawn 1 true
        out_has 'Disk.quota.exceeded'
        bad x -1 1000001
        ;;
    --shm-max)
        with 1 'x;' -n 1 echo x
        bad 0 x 65537
        ;;
    --ends)
        run 251 "$name" strict -n 1 "$raw" exit 0 inited
        run 0 "$name" hydra -n 1 "$raw" exit 0 inited
        run 7 "$name" hydra -n 1 "$raw" exit 7 inited
        ok 'child;' "$name" hydra -n 1 sh -c '(sleep 0.3; echo child) & exit 0'
        ok '' "$name" strict -n 1 sh -c '(sleep 30; echo child) & exit 0'
        several && run 0 "$name" hydra -N 2 --launch fork -n 2 "$raw" exit 0 inited
        several && ok 'child;child;' "$name" hydra -N 2 --launch fork -n 2 sh -c '(sleep 0.3; echo child) & exit 0'
        for ends in strict hydra; do # ignored, as a shell does for commands started with &
            : > out
            (trap '' INT; exec "$pmirun" $name $ends -n 1 sh -c "echo up; sleep $([ $ends = hydra ] && echo 60 || echo 1)") > out 2> err &
            for ((i = 0; i < 300; i++)); do grep -q up out && break || sleep 0.1; done
            kill -INT $!
            wait $!
            got=$?
            [ "$got" = $([ $ends = hydra ] && echo 130 || echo 0) ] || fail "$name $ends: status $got after SIGINT"
        done
        bad x
        ;;
    esac
}

# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options that name nodes and the way to them.
options="-N --hosts --hostfile --ppn --launch --fanout --launch-agent --links --design"

try() {
    case $1 in
    -N)
        several && with 2 '0 1;0 2;1 2;' -n 3 --launch fork sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        bad 0 x 65537
        ;;
    --hosts)
        if several; then
            on 'a b ' "$name" a,b -n 4 true
            on 'a ' "$name" a:2,b -n 2 true
            on 'n01 n02 n12 ' "$name=n[01-02,12]" -n 3 true
            on 'a b-c.d::1 u@e_f ' "$name" "a,b-c.d::1,u@e_f" -n 3 true
            ok '0 1;0 3;1 3;2 3;' --launch-agent ./agent "$name" a:2,b,a -n 4 sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
            ok '0 1;0 4;1 4;2 4;3 4;' --launch-agent ./agent "$name" a:2,b -n 5 sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        fi
        bad a,,b -oX 'a;b' $'a\nb' 'a b' 'a$b' 'u@-oX' 'a@' a:0 a:x a:1000001 'n[2-1]' 'n[1' 'n[]' 'n[1-]' "$(printf '%0256d' 0)"
        for list in a,-b 'b,a;b' 'n[1-99999999]'; do
            run 2 "$name" "$list" -n 1 true
            err_has "$name: "
        done
        run 2 "$name" a:600000,b,a:600000 -n 1 true
        err_has 'host a is named more than once, and has more than 1000000 slots'
        run 2 "$name" '' -n 1 true
        err_has "$name wants host names"
        ;;
    --hostfile)
        if several; then
            printf '%s\n' '# hosts' 'a:2 # two' '' $'b\tslots=1 max_slots=4\r' 'n[1-2]' > hosts
            on 'a b n1 n2 ' "$name" hosts -n 5 true
            HYDRA_HOST_FILE=hosts on 'a b n1 n2 ' -n 5 true
            HYDRA_HOST_FILE=hosts on 'c ' --hosts c -n 2 true
            HYDRA_HOST_FILE=hosts run 0 -N 2 --launch fork -n 2 true
            HYDRA_HOST_FILE= run 0 -n 1 true
            HYDRA_HOST_FILE=/no/such run 2 -n 1 true
            err_has 'HYDRA_HOST_FILE /no/such: '
            echo localhost > nodes
            HYDRA_HOST_FILE=/no/such PBS_NODEFILE=nodes run 0 -n 1 true
            HYDRA_HOST_FILE=/no/such SLURM_STEP_NUM_TASKS=2 run 0 -n 1 true
            HYDRA_HOST_FILE=/no/such ok 'no;' --launch fork -n 1 sh -c 'echo ${HYDRA_HOST_FILE-no}'
            ok '0 1;0 1;0 1;0 2;1 2;' --launch-agent ./agent "$name=hosts" -n 5 sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        fi
        for line in '-oX' 'a;b' 'a $(touch ran)' '`touch ran`' 'a b' 'a slots=0' 'a slots=x' 'a:2 slots=2' 'a, b' 'a slots=1 cpus=2'; do
            printf '%s\n' ok "$line" > hosts
            run 2 "$name" hosts -n 1 true
            err_has "$name hosts, line 2: "
        done
        [ ! -e ran ] || fail "a shell has seen a host file"
        printf 'a\0b\n' > hosts
        run 2 "$name" hosts -n 1 true
        err_has "$name hosts: has a NUL byte"
        echo '# none' > hosts
        run 2 "$name" hosts -n 1 true
        err_has "$name hosts: names no host"
        bad /no/such
        ;;
    --ppn)
        several && with 2 '0 1;0 2;1 2;' -n 3 --launch fork sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        with 2 'x;x;x;' -n 3 echo x
        bad 0 x
        ;;
    --launch)
        several && with fork 'x;x;' -N 2 -n 2 echo x
        several && with 'env "H=<%h>" %c' '<a>;<b>;' --hosts a,b -n 2 sh -c 'echo $H'
        bad x 'env %h' 'env %c "' 'env %c %x'
        ;;
    --fanout)
        several && with 1 'x;x;x;' -N 3 --launch fork -n 3 echo x
        bad 0 x 65537
        ;;
    --launch-agent)
        several && with ./agent 'x;' --hosts a -n 1 echo x
        run 2 "$name" '' --hosts a -n 1 true
        err_has "$name wants PROG"
        ;;
    --links)
        several && with tcp 'x;x;' -N 2 --launch fork -n 2 echo x
        several && with any 'x;x;' -N 2 --launch fork -n 2 echo x
        bad x
        run 2 "$name" ucx -n 1 true
        err_has "pmirun: $name ucx: links between nodes no longer use UCX; use $name tcp"
        ;;
    --design)
        several && with tree 'x;x;' -N 2 --launch fork -n 2 echo x
        bad x
        ;;
    esac
}

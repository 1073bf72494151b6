# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options of a group of processes.
options="-n -x --env --envlist --envnone --envall --wdir --path -h -V --info"

try() {
    case $1 in
    -n)
        with 2 'x;x;' echo x
        ok 'x;' echo x
        ok 'x;x;' --ppn 2 echo x
        ok 'x;x;' --map-by ppr:2:node echo x
        ok 'x;y;' --ppn 2 echo x : echo y # a group beside others has one process
        if several; then
            ok 'x;x;x;x;' --launch-agent ./agent --host a:4 echo x
            ok 'x;x;x;' --launch-agent ./agent --host a:2,b echo x
            ok 'x;x;' --launch-agent ./agent --hosts a,b echo x
            ok 'x;x;x;x;' --launch-agent ./agent --hosts a,b --ppn 2 echo x
            ok 'x;x;' --launch-agent ./agent -N 2 --hosts a:4,b:4 echo x
            ok 'x;x;' -N 2 --launch fork echo x
            ok 'x;x;x;x;x;x;' -N 2 --ppn 3 --launch fork echo x
            printf 'a\nb\na\nb\n' > pbs
            PBS_NODEFILE=pbs ok '0 2;0 2;1 2;1 2;' --launch-agent ./agent sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
            SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' ok 'x;x;x;x;' --launch ssh --launch-agent ./agent echo x
            SLURM_JOB_NODELIST='n[1-2]' SLURM_TASKS_PER_NODE='2(x2)' SLURM_STEP_NUM_TASKS=4 ok 'x;' echo x # within a rank
        fi
        run 2 --ppn 1000000 -N 2 true
        err_has 'more than 1000000 processes'
        bad 0 -1 x 1000001 2x 99999999999999999999
        ;;
    -x)
        with A=1 '1;' -n 1 sh -c 'echo $A'
        A=2 with A '2;' --genvnone -n 1 /bin/sh -c 'echo $A'
        ok 'no;' "$name" NO_SUCH -n 1 sh -c 'echo ${NO_SUCH-no}'
        err_has "warning: $name NO_SUCH: pmirun's environment lacks this variable"
        bad =1 PMI_RANK=1 MPI_LOCALRANKID
        ;;
    --env)
        ok '1 2;' "$name" A '1 2' -n 1 sh -c 'echo "$A"'
        ok ';' "$name" A '' -n 1 sh -c 'echo "$A"'
        ok '1 2;' "$name" "A=1 2" -n 1 sh -c 'echo "$A"'
        run 2 "$name" =A 1 -n 1 true
        err_has "$name: \"=A\" does not"
        run 2 "$name" PMI_RANK=1 -n 1 true
        err_has "$name PMI_RANK=1"
        run 2 "$name" PMI_RANK 1 -n 1 true
        err_has "$name PMI_RANK"
        run 2 "$name=A" 1 true
        err_has "$name wants its arguments as two words"
        ;;
    --envlist)
        A=1 B=2 C=3 with A,B '1 2 no;' -n 1 /bin/sh -c 'echo $A $B ${C-no}'
        bad A,,B ,A PMI_RANK A=1
        ;;
    --envnone) A=1 ok 'no 2;' "$name" -env B 2 -n 1 /bin/sh -c 'echo ${A-no} $B' ;;
    --envall) A=1 ok '1;no;' --genvnone "$name" -n 1 /bin/sh -c 'echo ${A-no}' : -n 1 /bin/sh -c 'echo ${A-no}' ;;
    --wdir)
        with / '/;' -n 1 pwd
        run 126 "$name" /no/such -n 1 true
        err_has /no/such
        run 2 "$name" '' -n 1 true
        err_has "$name"
        ;;
    --path)
        with "$dir/bin" 'from bin;' -n 1 only-here
        run 127 "$name" /no/such -n 1 only-here
        run 2 "$name" '' -n 1 true
        err_has "$name"
        ;;
    -h)
        run 0 "$name"
        out_has '^usage: '
        run 0 "$name=table"
        out_has '^\.TS'
        run 2 "$name=x"
        err_has "$name wants man, table or names, not \"x\""
        ;;
    -V)
        run 0 "$name"
        out_has '^pmirun [0-9.]* '
        run 2 "$name=x"
        err_has "$name takes no argument, not \"x\""
        ;;
    --info)
        run 0 "$name"
        out_has '^launchers: fork'
        ;;
    esac
}

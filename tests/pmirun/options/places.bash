# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options that place and bind ranks.
options="--map --map-by --bind-to --report-bindings --topology"

try() {
    case $1 in
    --map)
        several && with cyclic '0 0;1 0;2 1;' -N 2 --launch fork -n 3 sh -c 'echo $PMI_RANK $MPI_LOCALRANKID'
        with block 'x;' -n 1 echo x
        bad x
        ;;
    --map-by)
        several && with ppr:2:node '0 1;0 2;1 2;' -n 3 --launch fork sh -c 'echo $MPI_LOCALRANKID $MPI_LOCALNRANKS'
        several && with node '0 0;1 0;2 1;' -N 2 --launch fork -n 3 sh -c 'echo $PMI_RANK $MPI_LOCALRANKID'
        with slot 'x;' -n 1 echo x
        hwloc && with hwthread:block "$cpu;" -n 1 sh -c 'echo $PMIRUN_CPUSET'
        bad x socket:x core:PE=0
        for value in ppr:x:node ppr:0:node ppr:1:core; do
            run 2 "$name" $value -n 1 true
            err_has "$name wants "
        done
        ;;
    --bind-to)
        with none ';' -n 1 sh -c 'echo $PMIRUN_CPUSET'
        with "list:$cpu" "$cpu;" -n 1 sh -c 'echo $PMIRUN_CPUSET'
        hwloc && with hwthread "$cpu;" -n 1 sh -c 'echo $PMIRUN_CPUSET'
        bad x core:0 list: list:2-1 list:8192
        ;;
    --report-bindings)
        ok 'x;' "$name" -n 1 echo x
        err_has 'pmirun: rank 0 not bound, processors '
        ;;
    --topology)
        run 2 "$name" 'core:2 pu:2' -n 1 true
        err_has "$name "
        hwloc || return 0
        with 'core:2 pu:2' 'x;' --bind-to core --report-bindings -n 1 echo x
        err_has 'rank 0 placed on core 0[hwt 0-1]: [BB/..], processors 0-1'
        run 2 "$name" 'nonsense:2' --bind-to core -n 1 true
        err_has "$name \"nonsense:2\": hwloc does not understand it"
        ;;
    esac
}

# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options of all groups.
options="--genv --genvlist --genvnone --genvall --mca --gwdir --gpath --configfile"

try() {
    case $1 in
    --genv)
        ok '1;2;' "$name" A=1 -n 1 sh -c 'echo $A' : --env A=2 -n 1 sh -c 'echo $A'
        ok '1;2;' "$name" A 1 -n 1 sh -c 'echo $A' : --env A 2 -n 1 sh -c 'echo $A'
        run 2 "$name" '' 1 -n 1 true
        err_has "$name: \"\""
        run 2 -n 1 true : "$name" A 1 true
        err_has "$name is for the whole job"
        ;;
    --genvlist)
        A=1 B=2 with A '1 no;2 1;' -n 1 /bin/sh -c 'echo $A ${B-no}' : --envall -n 1 /bin/sh -c 'echo $B $A'
        bad A,
        ;;
    --genvnone) A=1 ok 'no 2;' "$name" -n 1 -x B=2 /bin/sh -c 'echo ${A-no} $B' ;;
    --genvall) A=1 ok '1;' --genvnone "$name" -n 1 sh -c 'echo $A' ;;
    --mca)
        ok 'tcp;' "$name" btl tcp -n 1 sh -c 'echo $OMPI_MCA_btl'
        [ ! -s err ] || fail "a warning about a parameter of the library"
        for word in rmaps_base_mapping_policy plm_rsh_agent hwloc_base_binding_policy; do
            run 0 "$name" $word x -n 1 true
            err_has "warning: $name $word is a parameter of mpirun itself"
        done
        run 2 "$name" a=b c -n 1 true
        err_has "$name: \"a=b\""
        ;;
    --gwdir)
        with /usr '/;/usr;' -n 1 pwd : --wdir / -n 1 pwd
        run 2 "$name" '' -n 1 true
        err_has "$name wants DIR"
        ;;
    --gpath)
        with "$dir/bin" 'from bin;from bin;' -n 1 only-here : -n 1 only-here
        run 2 "$name" '' -n 1 true
        err_has "$name wants DIR"
        ;;
    --configfile)
        printf '%s\n' '# two groups' '-l -n 1 echo "a  b" \' "'c d' # the end" '' '-n 2 echo e\ f' > config
        ok '[0] a  b c d;[1] e f;[2] e f;' "$name" config
        ok '[0] a  b c d;[1] e f;[2] e f;' -genv A 1 "$name=config"
        for text in '-n 1 echo "a' '-n x echo' '--configfile config' '# nothing'; do
            echo "$text" > config
            run 2 "$name" config
            err_has config
        done
        printf -- '-n 1 \0 true' > config
        run 2 "$name" config
        err_has "$name config: has a NUL byte"
        run 2 "$name" /no/such
        err_has "$name /no/such: No such file"
        run 2 "$name" "$dir"
        err_has "$name $dir: Is a directory"
        run 2 "$name" config true
        err_has 'must be the last option, "true" follows it'
        ;;
    esac
}

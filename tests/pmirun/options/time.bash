# SPDX-License-Identifier: BSD-3-Clause
# Cases of options.sh: options that limit times.
options="--start-timeout --wait-hosts --node-timeout --get-timeout --stall-timeout --timeout"

try() {
    case $1 in
    --start-timeout | --wait-hosts | --node-timeout | --get-timeout | --stall-timeout)
        several && with 50.5 'x;x;' -N 2 --launch fork -n 2 echo x
        bad -1 x nan 1e10
        ;;
    --timeout)
        run 124 "$name" 0.2 -n 1 sleep 60
        with 60 'x;' -n 1 echo x
        bad -1 x inf
        MPIEXEC_TIMEOUT=0.2 run 124 -n 1 sleep 60
        MPIEXEC_TIMEOUT=0.2 run 0 "$name" 0 -n 1 sleep 0.5
        MPIEXEC_TIMEOUT= run 0 -n 1 true
        MPIEXEC_TIMEOUT=x run 2 -n 1 true
        err_has 'MPIEXEC_TIMEOUT wants seconds, not "x"'
        ;;
    esac
}

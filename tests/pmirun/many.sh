#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# many.sh PMIRUN RAWPMI: as many ranks as the limit on descriptors allows, 1,000 at most.
. "${0%/*}/rawpmi.bash"

want=1000
limit=$(ulimit -Hn)
[ "$limit" = unlimited ] || [ "$limit" -ge 4000 ] || want=$(((limit - 100) / 4))
run 0 -n $want /bin/true
run 0 --stats -n $want "$raw" pgf
err_has "\"puts\":$want,\"gets\":$((2 * want)),"
cat "$dir/err"
run 0 --pmi-port -n $want "$raw" pgf
finish

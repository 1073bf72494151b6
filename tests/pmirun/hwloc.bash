# SPDX-License-Identifier: BSD-3-Clause
# Sourced by pmirun's tests of placement and topology. Makes a folder $dir, which the script's end removes, $TMPDIR in it, and a
# control group.
. "$(dirname "$0")/no-batch.bash"
export LC_ALL=C
for name in ${!HWLOC_*} PMIRUN_CPUSET; do unset "$name"; done
dir=$(mktemp -d) || exit 1
mkdir "$dir/tmp" && export TMPDIR=$dir/tmp
cpuset=
cleanup() {
    for ((i = 0; i < 50; i++)); do # EBUSY while one of its processes exits
        [ -n "$cpuset" ] && ! rmdir "$cpuset" 2> /dev/null || break
        sleep 0.1
    done
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
failed=0
ulimit -c 0

fail() {
    echo "FAIL: $*"
    sed 's/^/    out: /' "$dir/out"
    sed 's/^/    err: /' "$dir/err"
    failed=1
}

out_has() { [ "$(grep -c -e "$1" "$dir/out")" = "$2" ] || fail "stdout has not $2 times \"$1\""; }

# make_cpuset CPU: $cpuset is a control group of this processor alone, in $controllers. Otherwise prints the reason and returns false.
make_cpuset() {
    controllers=
    if [ -w /sys/fs/cgroup/cpuset/tasks ]; then
        controllers=/sys/fs/cgroup/cpuset
    elif grep -qsw cpuset /sys/fs/cgroup/cgroup.subtree_control; then
        controllers=/sys/fs/cgroup
    fi
    if [ "$(id -u)" != 0 ] || [ -z "$controllers" ] || ! mkdir "$controllers/fencepost-$$" 2> "$dir/err"; then
        echo "not tried with a control group of fewer processors: none can be made here"
        return 1
    fi
    cpuset=$controllers/fencepost-$$
    if ! { cat "$controllers"/cpuset.mems* | head -1 > "$cpuset/cpuset.mems" && echo "$1" > "$cpuset/cpuset.cpus"; } 2> "$dir/err"; then
        echo "not tried with a control group of fewer processors: $(cat "$dir/err")"
        return 1
    fi
}

# SPDX-License-Identifier: BSD-3-Clause
# clean.sh SUITE FOLDER: the Debian packages build in a root of that release which has what control's Build-Depends names, and nothing else; and
# the launcher's package installs there, and runs.
set -eu
suite=$1 folder=$2 tree=$(dirname "$0")/../..
exec "$tree/tests/in-debian" "$suite" "$folder" sh -euc '
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p /tmp/source
    cp -R cmake/debian /tmp/source/debian
    for n in 1 2 3; do
        apt-get -q update && apt-get -qy --no-install-recommends install dpkg-dev && apt-get -qy --no-install-recommends build-dep /tmp/source && break
        [ $n -lt 3 ] || { echo "skip: no packages from the mirror" && exit 77; }
    done > build/apt.log 2>&1
    cmake/debian/build build/packages > build/log 2>&1 || { tail -n 40 build/log; echo "FAILED: the packages do not build"; exit 1; }
    apt-get -qy install ./build/packages/fencepost-pmirun_[0-9]*.deb > build/apt.log 2>&1 || { tail -n 10 build/apt.log; echo "FAILED: fencepost-pmirun does not install"; exit 1; }
    cd /
    pmirun -n 2 true
    pmirun --info | tee /dev/stderr | grep -q "^mpi: .* pmix$"
    pmirun -v --mpi pmix -n 1 true
    for name in mpirun mpiexec; do ! command -v $name || { echo "FAILED: a package brings $name"; exit 1; }; done
'

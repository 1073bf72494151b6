#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# built.sh EXAMPLE FOLDER PMIRUN: builds MPICH twice, original and embedded, and runs MPICH's own tests of communicators and groups in both:
# each must end alike.
set -u
example=$1 pmirun=$3
"$(dirname "$0")/fetch" "$2" || exit
cd "$2" || exit 1
rm -rf embedded-source
cp -a mpich embedded-source && "$example/embed" embedded-source || exit 1
"$example/build" mpich original > original.log 2>&1 || { tail -n 5 original.log && exit 1; }
rm -rf embedded
"$example/build" embedded-source embedded > embedded.log 2>&1 || { tail -n 5 embedded.log && exit 1; }
"$example/suite" mpich original embedded "$pmirun" comm group

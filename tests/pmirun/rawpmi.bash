# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests of pmirun on one node with clients that speak PMI by hand: SCRIPT PMIRUN RAWPMI.
set -u
pmirun=$1
. "${0%/*}/jobs.bash"
main=$$
ln -s "$2" "$dir/rawpmi" # texts for a shell name it, so its path has no blanks
raw=$dir/rawpmi

# SPDX-License-Identifier: BSD-3-Clause
# docs.sh <include directory> <doxygen> <Doxyfile>: the public headers go through Doxygen without a warning: every function
# and struct is documented, and what is documented is right. Fields, constants and members of an enum may have no comment.
set -eu
include=$1 doxygen=$2 doxyfile=$3
# Doxygen silently ignores a header without @file.
if find "$include" -name '*.h' -exec grep -L '[@\\]file' {} + | grep .; then
    echo "FAILED: the headers above have no @file" >&2
    exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
printf '%s\n' "@INCLUDE = \"$doxyfile\"" "OUTPUT_DIRECTORY = $scratch" "WARN_LOGFILE = $scratch/warnings" "GENERATE_XML = NO" | "$doxygen" -
if grep -Ev 'Member .* \((variable|macro definition|enumvalue)\) of .* is not documented\.$' "$scratch/warnings"; then
    echo "FAILED: Doxygen warns" >&2
    exit 1
fi
find "$scratch/html" -name '*.html' | wc -l

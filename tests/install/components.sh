# SPDX-License-Identifier: BSD-3-Clause
# The two components: each installs its own files below DESTDIR, and nothing else.
. "$(dirname "$0")/common.sh"

DESTDIR=$scratch/runtime "$CMAKE" --install "$BUILD" --component "lib$NAME-runtime" > /dev/null
DESTDIR=$scratch/dev "$CMAKE" --install "$BUILD" --component "lib$NAME-dev" > /dev/null

list() { (cd "$1" && find . ! -type d -printf '%f\n' | sort); }
list "$scratch/runtime" > "$scratch/runtime.txt"
if [ ! -s "$scratch/runtime.txt" ] || grep -v "^lib$NAME\.so\.[0-9.]*$" "$scratch/runtime.txt"; then
    fail "the runtime component is not exactly lib$NAME.so.*"
fi
grep -qx "lib$NAME\.so\.$VERSION" "$scratch/runtime.txt" || fail "no lib$NAME.so.$VERSION in the runtime component"

list "$scratch/dev" > "$scratch/dev.txt"
for file in "lib$NAME.so" "lib$NAME.a" "$NAME.pc" "$NAME-config.cmake" "$NAME-config-version.cmake" "$NAME-targets.cmake" \
    "${NAME}_static-targets.cmake" \
    $(cd "$FOLDER" && find include man -name '*.[1-9h]' -printf '%f\n' 2> /dev/null); do
    grep -qxF "$file" "$scratch/dev.txt" || fail "no $file in the development component"
done
if grep "^lib$NAME\.so\." "$scratch/dev.txt"; then
    fail "the development component installs the runtime's files"
fi
if grep -rn -e "$FOLDER" -e "$BUILD" --include='*.pc' --include='*.cmake' "$scratch/dev"; then
    fail "an installed file names the build machine's folders"
fi
echo "runtime: $(wc -l < "$scratch/runtime.txt") files; development: $(wc -l < "$scratch/dev.txt") files"

# SPDX-License-Identifier: BSD-3-Clause
# The library's folder without the rest of the tree: configured alone, copied elsewhere, and compiled by one line. A back-end is
# configured alone beside the installed library that it belongs to, and compiled by one line with that one's headers. None is optimized, which
# takes most of a build's time: the build that this test belongs to has the optimizer's warnings.
. "$(dirname "$0")/common.sh"

core=()
if [ -n "$CORE" ]; then
    install_library "" --prefix "$scratch/core"
    core=(-DCMAKE_PREFIX_PATH="$scratch/core")
fi
echo "cmake -S lib$NAME"
"$CMAKE" -S "$FOLDER" -B "$scratch/alone" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-Werror "${core[@]}" \
    -DCMAKE_INSTALL_PREFIX="$scratch/prefix" > "$scratch/log" || { cat "$scratch/log"; fail "configure"; }
"$CMAKE" --build "$scratch/alone" > "$scratch/log" || { cat "$scratch/log"; fail "build"; }
"$CMAKE" --install "$scratch/alone" > "$scratch/log" || { cat "$scratch/log"; fail "install"; }
"$CMAKE" --install "$scratch/alone" --component "lib$NAME-dev" > "$scratch/log" || { cat "$scratch/log"; fail "install the component"; }
[ -s "$scratch/alone/install_manifest_lib$NAME-dev.txt" ] || fail "no manifest of lib$NAME-dev"
[ -n "$(find "$scratch/prefix" -name "lib$NAME.so.$VERSION")" ] || fail "no lib$NAME.so.$VERSION was installed"

echo "uninstall: what was installed goes, and nothing else"
echo "a stranger's" > "$scratch/prefix/include/stranger.h"
if DESTDIR=$scratch/elsewhere "$CMAKE" --build "$scratch/alone" --target uninstall > "$scratch/log" 2>&1; then fail "uninstall where nothing is succeeds"; fi
"$CMAKE" --build "$scratch/alone" --target uninstall > "$scratch/log" || { cat "$scratch/log"; fail "uninstall"; }
left=$(cd "$scratch/prefix" && find . ! -type d)
[ "$left" = ./include/stranger.h ] || fail "uninstall left: $left"
[ -z "$(find "$scratch/prefix" -type d -path "*/cmake/$NAME")" ] || fail "uninstall left cmake/$NAME"
if "$CMAKE" --build "$scratch/alone" --target uninstall > "$scratch/log" 2>&1; then fail "a second uninstall finds something"; fi

if [ -n "$CORE" ]; then
    echo "cc src/*.c -Iinclude, and the headers of lib$CORE"
    modules=$(sed -n 's/^Requires.private: //p' "$scratch/alone/$NAME.pc.in")
    "$CC" -std=c11 -Wall -Wextra -Werror "$FOLDER"/src/*.c "${includes[@]}" "${defines[@]}" "$here/consumer/consumer.c" \
        -o "$scratch/one_line" $("$PKG_CONFIG" --cflags --libs $modules)
    "$CC" -std=c11 -D_GNU_SOURCE -E -Werror "$FOLDER"/src/*.c "${includes[@]}" $("$PKG_CONFIG" --cflags $modules) > "$scratch/preprocessed"
    "$scratch/one_line"
    exit
fi

echo "the folder copied into another project"
mkdir -p "$scratch/project/third_party"
cp -R "$FOLDER" "$scratch/project/third_party/lib$NAME"
cp "$here/consumer/consumer.c" "$scratch/project"
cat > "$scratch/project/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.16...3.25)
project(other LANGUAGES C)
add_subdirectory(third_party/lib$NAME)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE $NAME::$NAME)
add_executable(consumer_static consumer.c)
target_link_libraries(consumer_static PRIVATE $NAME::${NAME}_static)
END
# The quotes that CMAKE_C_FLAGS needs around each define make a file of defines simpler.
printf '#define %s %s\n' CONSUMER_HEADER "<$NAME.h>" CONSUMER_STRERROR "${NAME}_strerror" \
    CONSUMER_VERSION "${UPPER}_VERSION" CONSUMER_EXPECT "\"$VERSION\"" > "$scratch/defines.h"
"$CMAKE" -S "$scratch/project" -B "$scratch/project/build" -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_C_FLAGS="-include $scratch/defines.h" > "$scratch/log" || { cat "$scratch/log"; fail "configure"; }
"$CMAKE" --build "$scratch/project/build" --target consumer consumer_static > "$scratch/log" || { cat "$scratch/log"; fail "build"; }
"$scratch/project/build/consumer"
"$scratch/project/build/consumer_static"

# The sources lie in src/, or in folders of it.
(
    cd "$scratch/project/third_party"
    sources=("lib$NAME"/src/*.c)
    [ -e "${sources[0]}" ] || sources=("lib$NAME"/src/*/*.c)
    echo "cc ${sources[0]%/*.c} … -Ilib$NAME/include"
    "$CC" "${sources[@]}" -I"lib$NAME/include" "${defines[@]}" ../consumer.c -o ../one_line
    "$CC" -std=c11 -Wall -Wextra -Werror -fsyntax-only "${sources[@]}" -I"lib$NAME/include" "${defines[@]}" ../consumer.c
    echo "-D_GNU_SOURCE on the command line"
    "$CC" -std=c11 -D_GNU_SOURCE -E -Werror "${sources[@]}" -I"lib$NAME/include" > ../preprocessed
)
"$scratch/project/one_line"

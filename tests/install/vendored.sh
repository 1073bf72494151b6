# SPDX-License-Identifier: BSD-3-Clause
# Another project takes the whole tree in by FetchContent from a path, and links one library: shared and static, C11 and C++17. It gets
# neither our programs nor our tests, and its own build type and options stay as they are. With the two lines of the root README it builds and
# installs no other library of ours. Configure prints status lines alone. A second copy, which a dependency of the project may bring, changes
# nothing. With BUILD_SHARED_LIBS=OFF the library's usual name means the static one.
. "$(dirname "$0")/common.sh"
mkdir "$scratch/project"
cp "$here/consumer/consumer.c" "$scratch/project/consumer.c"
cp "$here/consumer/consumer.c" "$scratch/project/consumer.cc"
cat > "$scratch/project/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.16...3.25)
project(other VERSION 9.8.7 LANGUAGES C CXX)
include(FetchContent)
FetchContent_Declare(fencepost SOURCE_DIR "$ROOT")
$(sed -n '/^FetchContent_MakeAvailable(/,/^set_property(/p' "$ROOT/README.md")
add_subdirectory("$ROOT" second EXCLUDE_FROM_ALL)
foreach(target IN ITEMS $NAME ${NAME}_static)
    foreach(language IN ITEMS c cc)
        add_executable(\${target}_\${language} consumer.\${language})
        target_compile_features(\${target}_\${language} PRIVATE c_std_11 cxx_std_17)
        target_compile_options(\${target}_\${language} PRIVATE -include $scratch/defines.h ${strict[*]})
        target_link_libraries(\${target}_\${language} PRIVATE $NAME::\${target})
    endforeach()
endforeach()
if(TARGET pmirun OR TARGET uninstall OR NOT PROJECT_VERSION STREQUAL 9.8.7 OR CMAKE_BUILD_TYPE)
    message(FATAL_ERROR "the vendored tree changed its parent")
endif()
END
cat >> "$scratch/project/CMakeLists.txt" << END
get_target_property(aliased $NAME::$NAME ALIASED_TARGET)
if(DEFINED BUILD_SHARED_LIBS AND NOT aliased STREQUAL ${NAME}_static)
    message(FATAL_ERROR "BUILD_SHARED_LIBS=OFF: $NAME::$NAME is \${aliased}")
endif()
END
printf '#define %s %s\n' CONSUMER_HEADER "<$NAME.h>" CONSUMER_STRERROR "${ID}_strerror" \
    CONSUMER_VERSION "${UPPER}_VERSION" CONSUMER_EXPECT "\"$VERSION\"" > "$scratch/defines.h"
"$CMAKE" -S "$scratch/project" -B "$scratch/build" -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
    > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "configure"; }
grep -q "^-- Fencepost:.* lib$NAME $VERSION" "$scratch/log" || { cat "$scratch/log"; fail "configure does not name the library"; }
if grep -v '^-- ' "$scratch/log"; then fail "configure prints the lines above into another project's output"; fi
"$CMAKE" --build "$scratch/build" > "$scratch/log" || { cat "$scratch/log"; fail "build"; }
built=$(cd "$scratch/build" && find . -name 'lib*.so' -printf '%f ')
for library in $built; do
    case " ${CORE:+lib$CORE.so} lib$NAME.so " in *" $library "*) ;; *) fail "built without being linked: $library" ;; esac
done
"$CMAKE" --install "$scratch/build" --prefix "$scratch/prefix" > "$scratch/log" || { cat "$scratch/log"; fail "install"; }
[ ! -e "$scratch/prefix" ] || { find "$scratch/prefix"; fail "the files above are installed with the project"; }
for language in c cc; do
    "$scratch/build/${NAME}_$language"
    needs_shared "$scratch/build/${NAME}_$language" || fail "$language: $NAME::$NAME is not the shared library"
    "$scratch/build/${NAME}_static_$language"
    if needs_shared "$scratch/build/${NAME}_static_$language"; then
        fail "$language: $NAME::${NAME}_static is the shared library"
    fi
done
"$CMAKE" -S "$scratch/project" -B "$scratch/build" -DBUILD_SHARED_LIBS=OFF > "$scratch/log" 2>&1 ||
    { cat "$scratch/log"; fail "configure with BUILD_SHARED_LIBS=OFF"; }

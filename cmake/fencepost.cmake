# SPDX-License-Identifier: BSD-3-Clause
# The build rules of Fencepost. The top level includes this file, and so does each library, which may be configured alone;
# including it twice does no harm. It leaves no plain variables behind for others to rely on (a sibling folder would not see
# them): it keeps state in cache options and global properties.
#
#   library.cmake   fencepost_library()                                  a library, its packages and its install rules
#   programs.cmake  fencepost_program() _test() _fuzz() _bench()         what is built on top of the libraries
#   features.cmake  fencepost_find_features() _missing() _summary()     what this machine has, and the table at the end

# Paths to libraries of the build tree are relative, so that the result does not depend on the folder of the build.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
option(FENCEPOST_WERROR "Treat compiler warnings as errors" OFF)
# Whether the outermost project is ours: the first that includes this file. (PROJECT_IS_TOP_LEVEL is newer than CMake 3.16.)
if(NOT DEFINED FENCEPOST_IS_TOP_LEVEL)
    string(COMPARE EQUAL "${PROJECT_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}" is_top_level)
    set(FENCEPOST_IS_TOP_LEVEL ${is_top_level} CACHE INTERNAL "")
endif()
set(FENCEPOST_RULES ${CMAKE_CURRENT_LIST_DIR} CACHE INTERNAL "") # where the functions find the files beside this one
# A project that includes us, and a library that is configured alone, get the libraries alone.
string(COMPARE EQUAL "${CMAKE_PROJECT_NAME}" fencepost is_whole)
option(FENCEPOST_EXAMPLES "Build the programs in examples/" ${is_whole})
option(FENCEPOST_TESTS "Build tests, fuzz targets and benchmarks; for a library that is configured alone: its unit tests" ${is_whole})
if(FENCEPOST_TESTS)
    enable_testing() # it sets a variable, which would not outlive a function
endif()
option(FENCEPOST_FUZZ "Link fuzz targets with libFuzzer (clang only); otherwise they replay their corpus" OFF)
set(FENCEPOST_FUZZ_SECONDS 10 CACHE STRING "How long the smoke run of each libFuzzer target lasts")
set(FENCEPOST_SANITIZE "" CACHE STRING "Argument of -fsanitize=, such as address,undefined or thread")

if(FENCEPOST_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()

if(FENCEPOST_IS_TOP_LEVEL AND NOT TARGET uninstall)
    add_custom_target(uninstall VERBATIM
        COMMAND ${CMAKE_COMMAND} -DMANIFESTS=${CMAKE_BINARY_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake)
endif()

# fencepost_compile_options(<target>)
#   The house's warnings, and the sanitizers asked for, on one target. The other functions call it. Callbacks of programs and tests leave
#   parameters unused; fencepost_library() warns of them, as others compile a library with flags of their own.
function(fencepost_compile_options target)
    set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON)
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wpedantic -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wcast-qual -Wvla -Wundef -Wno-unused-parameter
        $<$<BOOL:${FENCEPOST_WERROR}>:-Werror>)
    set(sanitize ${FENCEPOST_SANITIZE})
    if(FENCEPOST_FUZZ)
        string(JOIN "," sanitize fuzzer-no-link ${FENCEPOST_SANITIZE})
    endif()
    if(sanitize)
        set(flags -fsanitize=${sanitize} -fno-sanitize-recover=all -fno-omit-frame-pointer)
        target_compile_options(${target} PRIVATE ${flags})
        target_link_options(${target} PRIVATE ${flags})
    endif()
endfunction()

# fencepost_search_path(<target> [<path>])
#   Where an installed target finds shared libraries: <path>, the user's CMAKE_INSTALL_RPATH, and folders outside this project that it is
#   linked with. In the build tree it searches the same: CMake pads a path that it replaces at installation with colons, and the loader
#   searches the working directory for each empty element.
function(fencepost_search_path target)
    set_target_properties(${target} PROPERTIES
        INSTALL_RPATH "${ARGN};${CMAKE_INSTALL_RPATH}" INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/library.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/programs.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/features.cmake)

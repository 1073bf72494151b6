# SPDX-License-Identifier: BSD-3-Clause
# What this machine has. Nothing here is required: a test whose feature is missing is still listed, and skips with the name
# of the package that it wants.

# fencepost_find_features()
#   Looks for everything optional and records each as a feature. Features, for NEEDS of fencepost_test():
#     cmocka  c++  pkg-config  mpich  openmpi  openshmem  slurm  pmix  ucx  ibverbs  qemu  fuse  abigail  doxygen  spin  callgrind
#     gnuplot  libfuzzer, and the peers of benchmarks: glib  uthash  absl  ck  lmdb  tinycdb  xxhash
function(fencepost_find_features)
    find_path(CMOCKA_INCLUDE_DIR cmocka.h)
    find_library(CMOCKA_LIBRARY cmocka)
    if(CMOCKA_INCLUDE_DIR AND CMOCKA_LIBRARY AND NOT TARGET cmocka)
        add_library(cmocka INTERFACE IMPORTED GLOBAL)
        target_include_directories(cmocka INTERFACE ${CMOCKA_INCLUDE_DIR})
        target_link_libraries(cmocka INTERFACE ${CMOCKA_LIBRARY})
    endif()
    fencepost_feature(cmocka "unit tests" "libcmocka-dev" CMOCKA_INCLUDE_DIR CMOCKA_LIBRARY)

    find_program(FENCEPOST_CXX NAMES c++ g++ clang++)
    fencepost_feature(c++ "headers and consumers in C++17" "g++" FENCEPOST_CXX)
    find_program(FENCEPOST_PKG_CONFIG NAMES pkg-config pkgconf)
    fencepost_feature(pkg-config "pkg-config consumers" "pkg-config" FENCEPOST_PKG_CONFIG)

    find_program(FENCEPOST_MPICC_MPICH mpicc.mpich)
    find_program(FENCEPOST_MPIEXEC_HYDRA mpiexec.hydra)
    fencepost_feature(mpich "MPICH interop" "mpich libmpich-dev" FENCEPOST_MPICC_MPICH FENCEPOST_MPIEXEC_HYDRA)

    find_program(FENCEPOST_SRUN srun)
    find_program(FENCEPOST_SLURMCTLD slurmctld)
    find_program(FENCEPOST_SLURMD slurmd)
    find_program(FENCEPOST_MUNGED munged)
    find_path(FENCEPOST_SLURM_PMI2_H slurm/pmi2.h)
    find_path(FENCEPOST_SLURM_PMI_H slurm/pmi.h)
    fencepost_feature(slurm "Slurm interop" "slurm-wlm munge libpmi2-0-dev libpmi0-dev" FENCEPOST_SRUN
        FENCEPOST_SLURMCTLD FENCEPOST_SLURMD FENCEPOST_MUNGED FENCEPOST_SLURM_PMI2_H FENCEPOST_SLURM_PMI_H)

    find_program(FENCEPOST_MPICC_OPENMPI mpicc.openmpi)
    find_program(FENCEPOST_MPIEXEC_OPENMPI mpiexec.openmpi)
    fencepost_feature(openmpi "Open MPI interop" "openmpi-bin libopenmpi-dev" FENCEPOST_MPICC_OPENMPI FENCEPOST_MPIEXEC_OPENMPI)
    find_program(FENCEPOST_OSHCC oshcc)
    find_program(FENCEPOST_OSHRUN oshrun)
    fencepost_feature(openshmem "OpenSHMEM interop" "openmpi-bin libopenmpi-dev" FENCEPOST_OSHCC FENCEPOST_OSHRUN)

    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(FENCEPOST_PMIX QUIET IMPORTED_TARGET GLOBAL pmix)
    endif()
    fencepost_feature(pmix "PMIx beside pmibench" "libpmix-dev pkg-config" FENCEPOST_PMIX_FOUND)
    find_path(FENCEPOST_UCX_H ucp/api/ucp.h)
    find_library(FENCEPOST_LIBUCP ucp)
    fencepost_feature(ucx "UCX transport" "libucx-dev pkg-config" FENCEPOST_UCX_H FENCEPOST_LIBUCP FENCEPOST_PKG_CONFIG)
    find_path(FENCEPOST_VERBS_H infiniband/verbs.h)
    find_library(FENCEPOST_LIBIBVERBS ibverbs)
    fencepost_feature(ibverbs "verbs transport" "libibverbs-dev pkg-config" FENCEPOST_VERBS_H FENCEPOST_LIBIBVERBS FENCEPOST_PKG_CONFIG)
    find_program(FENCEPOST_QEMU qemu-system-x86_64)
    fencepost_feature(qemu "tests in a QEMU guest" "qemu-system-x86" FENCEPOST_QEMU)
    find_path(FENCEPOST_FUSE_H fuse3/fuse.h)
    fencepost_feature(fuse "file systems that fail on purpose" "libfuse3-dev fuse3" FENCEPOST_FUSE_H)

    foreach(peer IN ITEMS "glib|libglib2.0-dev|glib-2.0/glib.h" "uthash|uthash-dev|uthash.h" "ck|libck-dev|ck_ht.h"
            "absl|libabsl-dev|absl/container/flat_hash_map.h" "lmdb|liblmdb-dev|lmdb.h" "tinycdb|libcdb-dev|cdb.h"
            "xxhash|libxxhash-dev|xxhash.h")
        string(REPLACE "|" ";" peer "${peer}")
        list(POP_FRONT peer name package header)
        find_path(FENCEPOST_PEER_${name} ${header})
        fencepost_feature(${name} "benchmarks beside ${name}" ${package} FENCEPOST_PEER_${name})
    endforeach()

    find_program(FENCEPOST_SPIN spin)
    fencepost_feature(spin "model checking" "spin" FENCEPOST_SPIN)
    find_program(FENCEPOST_VALGRIND valgrind)
    fencepost_feature(callgrind "counting instructions" "valgrind" FENCEPOST_VALGRIND)
    find_program(FENCEPOST_GNUPLOT gnuplot)
    fencepost_feature(gnuplot "drawing figures" "gnuplot-nox" FENCEPOST_GNUPLOT)

    find_program(FENCEPOST_ABIDIFF abidiff)
    find_program(FENCEPOST_ABIDW abidw)
    fencepost_feature(abigail "ABI check" "abigail-tools" FENCEPOST_ABIDIFF FENCEPOST_ABIDW)
    find_program(FENCEPOST_DOXYGEN doxygen)
    fencepost_feature(doxygen "documentation check" "doxygen" FENCEPOST_DOXYGEN)

    if(FENCEPOST_FUZZ)
        include(CheckCSourceCompiles)
        set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer)
        check_c_source_compiles("#include <stddef.h>
            int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { return d && n > 1 ? 0 : 0; }" FENCEPOST_LIBFUZZER)
        if(NOT FENCEPOST_LIBFUZZER)
            unset(FENCEPOST_LIBFUZZER CACHE) # look again once it is installed
            message(FATAL_ERROR "FENCEPOST_FUZZ needs clang with libFuzzer: apt install clang libclang-rt-14-dev, "
                "then use the preset fuzz or CC=clang")
        endif()
    endif()
    fencepost_feature(libfuzzer "fuzzing (else corpora only)" "clang libclang-rt-14-dev, and use --preset fuzz"
        FENCEPOST_LIBFUZZER)
endfunction()

# fencepost_feature(<name> <what it is for> <how to get it> <variable>...)
#   Records a feature, present when every variable is true.
function(fencepost_feature name title package)
    set(found ON)
    foreach(variable IN LISTS ARGN)
        if(NOT ${variable})
            set(found OFF)
        endif()
        mark_as_advanced(${variable})
    endforeach()
    set_property(GLOBAL APPEND PROPERTY FENCEPOST_FEATURES ${name})
    set_property(GLOBAL PROPERTY FENCEPOST_FEATURE_${name} ${found})
    set_property(GLOBAL PROPERTY FENCEPOST_FEATURE_${name}_TITLE "${title}")
    set_property(GLOBAL PROPERTY FENCEPOST_FEATURE_${name}_PACKAGE "${package}")
endfunction()

# fencepost_missing(<variable> <feature>...)
#   Sets <variable> to the packages that are missing for these features: an empty string, hence false, when all are here.
function(fencepost_missing variable)
    set(missing "")
    foreach(name IN LISTS ARGN)
        get_property(found GLOBAL PROPERTY FENCEPOST_FEATURE_${name})
        get_property(package GLOBAL PROPERTY FENCEPOST_FEATURE_${name}_PACKAGE)
        if("${package}" STREQUAL "")
            message(FATAL_ERROR "unknown feature ${name}")
        elseif(NOT found)
            string(APPEND missing " ${package}")
        endif()
    endforeach()
    string(STRIP "${missing}" missing)
    set(${variable} "${missing}" PARENT_SCOPE)
endfunction()

# fencepost_summary()
#   The table at the end of configure: the libraries that exist, and what is on, what is off, and how to turn it on.
function(fencepost_summary)
    set(libraries "")
    get_property(names GLOBAL PROPERTY FENCEPOST_LIBRARIES)
    foreach(name IN LISTS names)
        get_property(version GLOBAL PROPERTY FENCEPOST_${name}_VERSION)
        string(APPEND libraries " lib${name} ${version}")
    endforeach()
    message("")
    message("Fencepost ${PROJECT_VERSION}  ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}, "
        "prefix ${CMAKE_INSTALL_PREFIX}")
    message("  libraries:${libraries}")
    set(states "FENCEPOST_EXAMPLES|examples|FENCEPOST_EXAMPLES=ON" "FENCEPOST_TESTS|tests and benchmarks|FENCEPOST_TESTS=ON"
        "FENCEPOST_WERROR|warnings are errors|FENCEPOST_WERROR=ON"
        "FENCEPOST_SANITIZE|sanitizers|cmake --preset asan, or tsan")
    foreach(state IN LISTS states)
        string(REPLACE "|" ";" state "${state}")
        list(POP_FRONT state variable title how)
        fencepost_summary_line("${title}" "${${variable}}" "${how}")
    endforeach()
    get_property(features GLOBAL PROPERTY FENCEPOST_FEATURES)
    foreach(name IN LISTS features)
        get_property(found GLOBAL PROPERTY FENCEPOST_FEATURE_${name})
        get_property(title GLOBAL PROPERTY FENCEPOST_FEATURE_${name}_TITLE)
        get_property(package GLOBAL PROPERTY FENCEPOST_FEATURE_${name}_PACKAGE)
        fencepost_summary_line("${title}" ${found} "apt install ${package}")
    endforeach()
    message("")
endfunction()

# One line of the table; the last column shows only for what is off.
function(fencepost_summary_line title state how)
    string(LENGTH "${title}" length)
    math(EXPR length "34 - ${length}")
    string(REPEAT " " ${length} pad)
    if(state STREQUAL "ON")
        message("  ${title}${pad}on")
    elseif(state)
        message("  ${title}${pad}${state}")
    else()
        message("  ${title}${pad}off   ${how}")
    endif()
endfunction()

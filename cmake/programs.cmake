# SPDX-License-Identifier: BSD-3-Clause

# fencepost_program(<name> SOURCES <file>... [LIBS <target>...] [MAN <page>...] [COMPONENT <component> | NO_INSTALL])
#   A program of examples/: built as bin/<name> of the build tree and installed, in the component fencepost-tools if none is given.
#   LIBS names libraries as an installed user would: pmiwire::pmiwire or pmiwire::pmiwire_static.
function(fencepost_program name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "NO_INSTALL" "COMPONENT" "SOURCES;LIBS;MAN")
    if(NOT arg_COMPONENT)
        set(arg_COMPONENT fencepost-tools)
    endif()
    fencepost_executable()
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
    if(NOT arg_NO_INSTALL)
        if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}") # beside the libraries that the same prefix holds
            fencepost_search_path(${name} "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
        endif()
        install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${arg_COMPONENT})
        fencepost_install_man(${arg_COMPONENT} ${arg_MAN})
    endif()
endfunction()

# fencepost_test(<name> SOURCES <file>... [LIBS <target>...] [INCLUDES <dir>...] [DEFINES <X=1>...] [ARGS <arg>...] ...)
# fencepost_test(<name> COMMAND <program> [<arg>...] ...)
#   A program built as a test, or a command (a script, $<TARGET_FILE:prog>) run as one. It passes with status 0, is skipped
#   with 77 (and must then print what is missing), fails with any other.
#   LIBS      `cmocka` may be among them, and is then also a NEEDS; a test of internals links pmiwire::pmiwire_static
#   NEEDS     features of fencepost_find_features(): when one is missing, nothing is built and the test reports a skip
#   LABELS    unit (the default), fuzz, interop, install (and consumer), docs, bench; `full` for tests that only tests/run
#             --full runs
#   TIMEOUT   seconds, default 180, against hangs on a slow machine; ten times as many for another architecture (tests/arch)
#   ENV       VAR=value for its environment
#   SERIAL    run it while no other test runs
#   A folder with the unit tests of a library sets FENCEPOST_TESTS_OF to the library's name: its tests have that name as a label too, and the
#   target check-<name> builds what they need and runs them, except those labelled full. A cmocka program takes --filter=PATTERN.
function(fencepost_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "SOURCES;LIBS;INCLUDES;DEFINES;ARGS;COMMAND;NEEDS;LABELS;ENV")
    if("cmocka" IN_LIST arg_LIBS)
        list(APPEND arg_NEEDS cmocka)
        list(APPEND arg_SOURCES ${FENCEPOST_RULES}/../tests/filter.c)
    endif()
    # UCX 1.18's own way to see mmap() makes ucp_init() wait for ever in one process of four on Debian 13: see libasymreg/ucx/README.md.
    # With the other way LeakSanitizer finds leaks everywhere.
    get_property(ucx_minor GLOBAL PROPERTY FENCEPOST_UCX_MINOR)
    if(ucx_minor GREATER_EQUAL 18 AND "${arg_NEEDS}" MATCHES "(^|;)(ucx|openmpi|openshmem)(;|$)") # Open MPI uses UCX too
        if(FENCEPOST_SANITIZE)
            list(APPEND arg_ENV UCX_MEM_MMAP_HOOK_MODE=none)
        else()
            list(APPEND arg_ENV UCX_MEM_MMAP_HOOK_MODE=reloc)
        endif()
    endif()
    fencepost_missing(missing ${arg_NEEDS})
    if(missing)
        set(arg_COMMAND sh -c "echo 'skip: needs ${missing}' && exit 77") # a semicolon would end the list item
    elseif(NOT arg_COMMAND)
        fencepost_executable()
        set(arg_COMMAND ${name} ${arg_ARGS})
    endif()
    if(NOT arg_LABELS)
        set(arg_LABELS unit)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 180)
    endif()
    if(CMAKE_CROSSCOMPILING)
        math(EXPR arg_TIMEOUT "10 * ${arg_TIMEOUT}")
    endif()
    add_test(NAME ${name} COMMAND ${arg_COMMAND})
    if(FENCEPOST_TESTS_OF)
        list(APPEND arg_LABELS ${FENCEPOST_TESTS_OF})
        fencepost_check_target(${FENCEPOST_TESTS_OF} ${arg_COMMAND})
    endif()
    if("full" IN_LIST arg_LABELS AND NOT CMAKE_PROJECT_NAME STREQUAL "fencepost")
        set_tests_properties(${name} PROPERTIES DISABLED TRUE) # a library alone has its short tests
    endif()
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
        ENVIRONMENT "${arg_ENV}" RUN_SERIAL ${arg_SERIAL})
endfunction()

# fencepost_check_target(<library> <command>...)
#   The target check-<library>, which runs the library's tests after the programs that <command> names.
function(fencepost_check_target library)
    set(check check-${library})
    if(NOT TARGET ${check})
        include(ProcessorCount)
        ProcessorCount(processors)
        math(EXPR processors "${processors} + 1") # many tests wait
        add_custom_target(${check} USES_TERMINAL VERBATIM WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
            COMMAND ${CMAKE_CTEST_COMMAND} -L "^${library}$" -LE "^full$" -j ${processors} --output-on-failure)
    endif()
    foreach(word IN LISTS ARGN)
        string(REGEX REPLACE "^\\$<TARGET_FILE:(.*)>$" "\\1" word "${word}")
        if(TARGET ${word})
            add_dependencies(${check} ${word})
        endif()
    endforeach()
endfunction()

# fencepost_fuzz(<name> SOURCES <file>... CORPUS <dir> [LIBS <target>...] [INCLUDES <dir>...] [DICT <file>] [MAX_LEN <bytes>]
#                [DEFINES <X=1>...])
#   A fuzz target: sources that define LLVMFuzzerTestOneInput() (tests/fuzz/fuzz.h declares it). It is built everywhere,
#   and a test labelled `fuzz` runs every file of CORPUS through it: with tests/fuzz/driver.c as its main(), or, when
#   FENCEPOST_FUZZ is on, with libFuzzer, where a second test <name>_smoke fuzzes for FENCEPOST_FUZZ_SECONDS.
#   Inputs that fail are left in fuzz/ of the build tree.
function(fencepost_fuzz name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "CORPUS;DICT;MAX_LEN" "SOURCES;LIBS;INCLUDES;DEFINES")
    get_filename_component(arg_CORPUS ${arg_CORPUS} ABSOLUTE)
    set(house ${FENCEPOST_RULES}/..)
    set(out ${CMAKE_BINARY_DIR}/fuzz)
    list(APPEND arg_INCLUDES ${house}/tests/fuzz)
    if(NOT FENCEPOST_FUZZ)
        list(APPEND arg_SOURCES ${house}/tests/fuzz/driver.c)
    endif()
    fencepost_executable()
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${out})
    if(NOT FENCEPOST_FUZZ)
        fencepost_test(${name} COMMAND ${name} ${arg_CORPUS} LABELS fuzz TIMEOUT 120)
        return()
    endif()
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    # libFuzzer exits with 77 after a finding, which means a skip here.
    set(flags -error_exitcode=1 -timeout=10 -rss_limit_mb=2048 -artifact_prefix=${out}/${name}-)
    if(arg_DICT)
        get_filename_component(arg_DICT ${arg_DICT} ABSOLUTE)
        list(APPEND flags -dict=${arg_DICT})
    endif()
    if(arg_MAX_LEN)
        list(APPEND flags -max_len=${arg_MAX_LEN})
    endif()
    file(MAKE_DIRECTORY ${out}/${name}-corpus)
    math(EXPR limit "${FENCEPOST_FUZZ_SECONDS} + 120")
    fencepost_test(${name} COMMAND ${name} -runs=0 ${flags} ${arg_CORPUS} LABELS fuzz TIMEOUT 120)
    fencepost_test(${name}_smoke LABELS fuzz TIMEOUT ${limit}
        COMMAND ${name} -max_total_time=${FENCEPOST_FUZZ_SECONDS} ${flags} ${out}/${name}-corpus ${arg_CORPUS})
endfunction()

# fencepost_bench(<name> SOURCES <file>... [LIBS <target>...] [INCLUDES <dir>...] [DEFINES <X=1>...] [ARGS <arg>...]
#                 [NEEDS <feature>...] [TIMEOUT <seconds>])
#   A benchmark: built as bench/<name> of the build tree. It takes --quick and prints one JSON object a line,
#   {"bench","case","n","who","metric","value","unit"}. A test labelled `bench` runs it with ARGS and --quick, and checks
#   the form of each line, never a time, so it runs beside other tests. Another, <name>_full, labelled `full`, runs it
#   whole and alone, and leaves the figures in figures/<name>.json of the build tree. tests/report puts them on a page.
#   TIMEOUT   seconds of the quick run, default 180
function(fencepost_bench name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;LIBS;INCLUDES;DEFINES;ARGS;NEEDS")
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 180)
    endif()
    fencepost_missing(missing ${arg_NEEDS})
    if(NOT missing)
        fencepost_executable()
        set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
        if(FENCEPOST_SANITIZE) # nobody measures there
            set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
        endif()
    endif()
    fencepost_report(${name} "${missing}" ${CMAKE_BINARY_DIR}/bench/${name} ${arg_ARGS})
    fencepost_test(${name} NEEDS ${arg_NEEDS} LABELS bench TIMEOUT ${arg_TIMEOUT}
        COMMAND sh ${FENCEPOST_RULES}/check-bench.sh ${CMAKE_BINARY_DIR}/bench/${name} ${arg_ARGS} --quick)
    fencepost_test(${name}_full NEEDS ${arg_NEEDS} LABELS full TIMEOUT 1800 SERIAL
        COMMAND sh ${FENCEPOST_RULES}/check-bench.sh -o ${CMAKE_BINARY_DIR}/figures/${name}.json
            ${CMAKE_BINARY_DIR}/bench/${name} ${arg_ARGS})
endfunction()

# fencepost_report(<name> <missing packages> <command>...)
#   Adds the command, which takes --quick and prints figures as a benchmark does, to tests/report, or has the report name the
#   missing packages.
function(fencepost_report name missing)
    string(JOIN "\t" line ${name} "needs ${missing}" ${ARGN})
    set_property(GLOBAL APPEND_STRING PROPERTY FENCEPOST_REPORT "${line}\n")
endfunction()

# The executable of the functions above, whose variables it sees. Programs may use POSIX and Linux interfaces, hence gnu11.
macro(fencepost_executable)
    if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "${name}: SOURCES is needed; unknown: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    add_executable(${name} ${arg_SOURCES})
    fencepost_compile_options(${name})
    target_include_directories(${name} PRIVATE ${arg_INCLUDES})
    target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
    target_link_libraries(${name} PRIVATE ${arg_LIBS})
endmacro()

# SPDX-License-Identifier: BSD-3-Clause
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# fencepost_library(<name> VERSION <x.y.z> SOVERSION <n> DESCRIPTION <text>
#                   [LINK <system library>...] [REQUIRES <pkg-config module>...] [REQUIRES_PRIVATE <pkg-config module>...]
#                   [BACK_END_OF <name>] [TESTS <folder>...])
#
#   Builds lib<name> from src/*.c and src/*/*.c with the public headers of include/, as lib<name>.so (target <name>::<name>) and
#   lib<name>.a (target <name>::<name>_static). The objects are compiled once, position independent, with hidden visibility:
#   only what a header marks with the library's API macro is exported, under the version nodes of src/lib<name>.map.
#
#   LINK              libraries of the C library's own family: m, pthread, rt, dl
#   REQUIRES          packages whose headers our header includes
#   REQUIRES_PRIVATE  packages that only our sources use
#   BACK_END_OF       the library of this project whose headers ours includes; its users pass it the objects that ours creates
#   TESTS             folders of tests/ with its unit tests, by default <name>; a library that is configured alone with FENCEPOST_TESTS
#                     builds them, and a back-end then builds its core too
#
#   A project that contains the tree twice gets the library of the first copy. With BUILD_SHARED_LIBS=OFF, <name>::<name> is lib<name>.a in
#   the build tree.
#
#   Installs, under GNUInstallDirs and DESTDIR, the components
#     lib<name>-runtime   lib<name>.so.<n>*
#     lib<name>-dev       lib<name>.so, lib<name>.a, headers, man/*, <name>.pc, the package for find_package(<name>), and, with doxygen
#                         and perl, the manual pages made from the headers
#
#   The target `amalgamation` writes amalgamation/<name>.c and <name>.h of the build tree, the library as two files.
function(fencepost_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "VERSION;SOVERSION;DESCRIPTION;BACK_END_OF" "LINK;REQUIRES;REQUIRES_PRIVATE;TESTS")
    if(NOT arg_VERSION OR NOT DEFINED arg_SOVERSION OR arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "fencepost_library(${name}): VERSION and SOVERSION are needed; unknown: ${arg_UNPARSED_ARGUMENTS}")
    endif()
    if(TARGET ${name})
        message(STATUS "lib${name}: already in this project; ${CMAKE_CURRENT_SOURCE_DIR} is skipped")
        return()
    endif()
    set(map ${CMAKE_CURRENT_SOURCE_DIR}/src/lib${name}.map)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/*.c ${CMAKE_CURRENT_SOURCE_DIR}/src/*/*.c)

    if(arg_REQUIRES OR arg_REQUIRES_PRIVATE)
        find_package(PkgConfig REQUIRED)
        foreach(module IN LISTS arg_REQUIRES arg_REQUIRES_PRIVATE)
            pkg_check_modules(${module} REQUIRED IMPORTED_TARGET GLOBAL ${module})
        endforeach()
    endif()

    string(COMPARE EQUAL "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_SOURCE_DIR}" alone)
    if(arg_BACK_END_OF AND NOT TARGET ${arg_BACK_END_OF}::${arg_BACK_END_OF})
        if(alone AND FENCEPOST_TESTS)
            add_subdirectory(.. ${CMAKE_CURRENT_BINARY_DIR}/lib${arg_BACK_END_OF} EXCLUDE_FROM_ALL)
        else()
            find_package(${arg_BACK_END_OF} REQUIRED)
        endif()
    endif()

    add_library(${name}_objects OBJECT ${sources})
    add_library(${name} SHARED $<TARGET_OBJECTS:${name}_objects>)
    add_library(${name}_static STATIC $<TARGET_OBJECTS:${name}_objects>)
    foreach(target IN ITEMS ${name}_objects ${name} ${name}_static)
        fencepost_compile_options(${target})
        target_compile_options(${target} PRIVATE -Wunused-parameter)
        target_include_directories(${target} PUBLIC
            $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        foreach(module IN LISTS arg_REQUIRES)
            target_link_libraries(${target} PUBLIC PkgConfig::${module})
        endforeach()
        foreach(module IN LISTS arg_REQUIRES_PRIVATE)
            target_link_libraries(${target} PRIVATE PkgConfig::${module})
        endforeach()
        target_link_libraries(${target} PRIVATE ${arg_LINK})
        if(arg_BACK_END_OF)
            set(core ${arg_BACK_END_OF}::${arg_BACK_END_OF})
            target_link_libraries(${target} PUBLIC $<IF:$<STREQUAL:${target},${name}_static>,${core}_static,${core}>)
        endif()
    endforeach()
    set_target_properties(${name}_objects PROPERTIES
        POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden C_EXTENSIONS OFF)
    set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${name})
    set_target_properties(${name} PROPERTIES VERSION ${arg_VERSION} SOVERSION ${arg_SOVERSION} LINK_DEPENDS ${map})
    target_link_options(${name} PRIVATE -Wl,--version-script=${map})
    fencepost_search_path(${name}) # the program's own path finds a back-end's core
    if(NOT FENCEPOST_SANITIZE AND NOT FENCEPOST_FUZZ) # clang leaves the sanitizer's own symbols to the program
        target_link_options(${name} PRIVATE -Wl,-z,defs)
    endif()
    if(DEFINED BUILD_SHARED_LIBS AND NOT BUILD_SHARED_LIBS)
        add_library(${name}::${name} ALIAS ${name}_static)
    else()
        add_library(${name}::${name} ALIAS ${name})
    endif()
    add_library(${name}::${name}_static ALIAS ${name}_static)

    install(TARGETS ${name} EXPORT ${name}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib${name}-runtime NAMELINK_COMPONENT lib${name}-dev)
    install(TARGETS ${name}_static EXPORT ${name}_static
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib${name}-dev)
    install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT lib${name}-dev
        FILES_MATCHING PATTERN "*.h")
    file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/man/*.[1-9])
    fencepost_install_man(lib${name}-dev ${pages})
    fencepost_generate_docs()
    fencepost_amalgamate()
    fencepost_install_pkgconfig()
    fencepost_install_cmake_package()
    set_property(GLOBAL APPEND PROPERTY FENCEPOST_LIBRARIES ${name})
    set_property(GLOBAL PROPERTY FENCEPOST_${name}_VERSION ${arg_VERSION})
    set_property(GLOBAL PROPERTY FENCEPOST_${name}_CORE ${arg_BACK_END_OF})
    set_property(GLOBAL PROPERTY FENCEPOST_${name}_DIR ${CMAKE_CURRENT_SOURCE_DIR})

    if(alone AND FENCEPOST_TESTS)
        fencepost_find_features()
        if(NOT arg_TESTS)
            set(arg_TESTS ${name})
        endif()
        foreach(folder IN LISTS arg_TESTS)
            add_subdirectory(${FENCEPOST_RULES}/../tests/${folder} tests/${folder})
        endforeach()
    endif()
endfunction()

# fencepost_install_man(<component> [<page>...])
#   Installs manual pages into the section that their suffix names.
function(fencepost_install_man component)
    foreach(page IN LISTS ARGN)
        string(REGEX MATCH "[1-9]$" section ${page})
        install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
    endforeach()
endfunction()

# The documentation of fencepost_library(), whose variables it sees: doc/html of its build folder, and the public headers as manual pages,
# man3 and man7. Without doxygen there is none, and without perl there are no pages.
macro(fencepost_generate_docs)
    find_program(FENCEPOST_DOXYGEN doxygen)
    find_program(FENCEPOST_PERL perl)
    mark_as_advanced(FENCEPOST_DOXYGEN FENCEPOST_PERL)
    set(doc_out ${CMAKE_CURRENT_BINARY_DIR}/doc)
    string(MAKE_C_IDENTIFIER ${name} doc_upper)
    string(TOUPPER ${doc_upper} doc_upper)
    configure_file(${FENCEPOST_RULES}/Doxyfile.in ${doc_out}/Doxyfile @ONLY)
    set_property(GLOBAL PROPERTY FENCEPOST_${name}_DOXYFILE ${doc_out}/Doxyfile)
    if(FENCEPOST_DOXYGEN AND FENCEPOST_PERL)
        set(man_script ${FENCEPOST_RULES}/manpages.pl)
        set(man_out ${CMAKE_CURRENT_BINARY_DIR}/man)
        set(man_readme ${CMAKE_CURRENT_SOURCE_DIR}/README.md)
        file(GLOB_RECURSE man_headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/include/*.h)
        set(man_core "")
        if(arg_BACK_END_OF)
            set(man_core --core ${arg_BACK_END_OF})
        endif()
        add_custom_command(OUTPUT ${man_out}/made DEPENDS ${man_script} ${doc_out}/Doxyfile ${man_headers} ${man_readme} VERBATIM
            COMMAND ${CMAKE_COMMAND} -E remove_directory ${doc_out}/xml
            COMMAND ${FENCEPOST_DOXYGEN} ${doc_out}/Doxyfile
            COMMAND ${FENCEPOST_PERL} ${man_script} --name ${name} --version ${arg_VERSION} ${man_core} --readme ${man_readme}
                --include ${CMAKE_CURRENT_SOURCE_DIR}/include --xml ${doc_out}/xml --out ${man_out}
            COMMAND ${CMAKE_COMMAND} -E touch ${man_out}/made
            COMMENT "Manual pages of lib${name}")
        add_custom_target(${name}_man ALL DEPENDS ${man_out}/made)
        install(DIRECTORY ${man_out}/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT lib${name}-dev OPTIONAL
            FILES_MATCHING PATTERN "*.[37]")
    endif()
endmacro()

# The two files of fencepost_library(), whose variables it sees: amalgamation/<name>.c and <name>.h of the build tree, made by the
# target `amalgamation`. A back-end has none, and without perl there is no such target.
macro(fencepost_amalgamate)
    if(FENCEPOST_IS_TOP_LEVEL AND FENCEPOST_PERL AND NOT arg_BACK_END_OF)
        set(two_script ${FENCEPOST_RULES}/amalgamation.pl)
        set(two_license ${FENCEPOST_RULES}/../LICENSE)
        set(two_out ${CMAKE_BINARY_DIR}/amalgamation)
        file(GLOB_RECURSE two_headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/include/*.h ${CMAKE_CURRENT_SOURCE_DIR}/src/*.h)
        add_custom_command(OUTPUT ${two_out}/${name}.c ${two_out}/${name}.h VERBATIM
            DEPENDS ${two_script} ${two_license} ${sources} ${two_headers}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${two_out}
            COMMAND ${FENCEPOST_PERL} ${two_script} --name ${name} --version ${arg_VERSION} --folder ${CMAKE_CURRENT_SOURCE_DIR}
                --license ${two_license} --out ${two_out}
            COMMENT "lib${name} as two files")
        add_custom_target(${name}_amalgamation DEPENDS ${two_out}/${name}.c ${two_out}/${name}.h)
        if(NOT TARGET amalgamation)
            add_custom_target(amalgamation)
        endif()
        add_dependencies(amalgamation ${name}_amalgamation)
    endif()
endmacro()

# The <name>.pc of fencepost_library(), whose variables it sees. It is written at install time, when the prefix is final:
# `cmake --install DIR --prefix P` then gives a file that says P. Each installation writes its own temporary file in the build tree, so
# installations may run at the same time, also with the same prefix.
macro(fencepost_install_pkgconfig)
    set(pc_libdir ${CMAKE_INSTALL_LIBDIR})
    set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
    foreach(dir IN ITEMS pc_libdir pc_includedir)
        if(NOT IS_ABSOLUTE "${${dir}}")
            set(${dir} "\${prefix}/${${dir}}")
        endif()
    endforeach()
    string(JOIN ", " pc_requires ${arg_BACK_END_OF} ${arg_REQUIRES})
    string(JOIN ", " pc_requires_private ${arg_REQUIRES_PRIVATE})
    list(TRANSFORM arg_LINK PREPEND "-l" OUTPUT_VARIABLE pc_libs_private)
    string(JOIN " " pc_libs_private ${pc_libs_private})
    set(pc_prefix "@pc_prefix@") # kept for the second pass
    configure_file(${FENCEPOST_RULES}/library.pc.in ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc.in @ONLY)
    set(pc_destination ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    if(NOT IS_ABSOLUTE ${pc_destination})
        set(pc_destination "\${CMAKE_INSTALL_PREFIX}/${pc_destination}")
    endif()
    install(CODE "string(REPLACE \" \" \"\\\\ \" pc_prefix \"\${CMAKE_INSTALL_PREFIX}\")
        string(RANDOM LENGTH 16 pc_dir)
        set(pc_dir \"${CMAKE_CURRENT_BINARY_DIR}/pkgconfig/\${pc_dir}\")
        set(pc_file \"\${pc_dir}/${name}.pc\")
        configure_file(\"${CMAKE_CURRENT_BINARY_DIR}/${name}.pc.in\" \"\${pc_file}\" @ONLY)
        file(INSTALL DESTINATION \"${pc_destination}\" TYPE FILE FILES \"\${pc_file}\")
        file(REMOVE_RECURSE \"\${pc_dir}\")"
        COMPONENT lib${name}-dev)
endmacro()

# The package of fencepost_library() for find_package(<name>), whose variables it sees.
macro(fencepost_install_cmake_package)
    set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/${name})
    set(package_modules ${arg_REQUIRES} ${arg_REQUIRES_PRIVATE})
    set(package_core ${arg_BACK_END_OF})
    configure_package_config_file(${FENCEPOST_RULES}/library-config.cmake.in
        ${CMAKE_CURRENT_BINARY_DIR}/${name}-config.cmake INSTALL_DESTINATION ${package_dir}
        PATH_VARS CMAKE_INSTALL_LIBDIR NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
    write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/${name}-config-version.cmake
        VERSION ${arg_VERSION} COMPATIBILITY SameMinorVersion)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/${name}-config-version.cmake
        DESTINATION ${package_dir} COMPONENT lib${name}-dev)
    foreach(kind IN ITEMS "" _static)
        install(EXPORT ${name}${kind} FILE ${name}${kind}-targets.cmake NAMESPACE ${name}:: DESTINATION ${package_dir}
            COMPONENT lib${name}-dev)
    endforeach()
endmacro()

# SPDX-License-Identifier: BSD-3-Clause
# Another architecture, by Debian's cross compilers: -DFENCEPOST_ARCH=aarch64, riscv64, s390x (under qemu-user), i686 or musl (x86-64 with musl).
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FENCEPOST_ARCH)
set(CMAKE_SYSTEM_NAME Linux)
if(FENCEPOST_ARCH STREQUAL "musl")
    set(CMAKE_SYSTEM_PROCESSOR x86_64)
    set(CMAKE_C_COMPILER musl-gcc)
    set(CMAKE_C_FLAGS_INIT "-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu") # the kernel's headers are there
    set(CMAKE_FIND_ROOT_PATH /usr/lib/x86_64-linux-musl)
else()
    set(CMAKE_SYSTEM_PROCESSOR ${FENCEPOST_ARCH})
    set(CMAKE_C_COMPILER ${FENCEPOST_ARCH}-linux-gnu-gcc)
    set(CMAKE_FIND_ROOT_PATH /usr/${FENCEPOST_ARCH}-linux-gnu)
endif()
if(FENCEPOST_ARCH STREQUAL "i686") # programs run natively, with the loader and the libraries of the cross compiler
    set(CMAKE_C_FLAGS_INIT -Wno-psabi) # silences GCC's note about the changed alignment of 64-bit atomics in structs
    set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2,-rpath,/usr/i686-linux-gnu/lib")
elseif(NOT FENCEPOST_ARCH STREQUAL "musl")
    set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${FENCEPOST_ARCH} -L /usr/${FENCEPOST_ARCH}-linux-gnu)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

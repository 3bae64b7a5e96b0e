# SPDX-License-Identifier: Apache-2.0
# Cross build for aarch64 on Debian 12: its cross compiler (deploy/bootstrap.sh arm64), arm64 libraries and a Rust standard
# library from deploy/arm64_sysroot.sh. Programs run under qemu-user, as the processor that QEMU_CPU names.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(DUNLIN_CLANG_TARGET --target=aarch64-linux-gnu)  # of what clang compiles: tests (DunlinTests.cmake)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH cmake_folder)
cmake_path(GET cmake_folder PARENT_PATH source_folder)
set(CMAKE_SYSROOT ${source_folder}/build/aarch64-sysroot)
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})

# Of the Rust library: Debian's compiler, which has the standard library of both architectures.
set(DUNLIN_CARGO_TARGET aarch64-unknown-linux-gnu)
set(DUNLIN_CARGO_DIR ${source_folder}/build/aarch64-cargo CACHE PATH "Where cargo builds the Rust library")
set(rust_folder ${CMAKE_SYSROOT}/rust/usr)
set(DUNLIN_CARGO_ENVIRONMENT
  RUSTC=${rust_folder}/bin/rustc
  LD_LIBRARY_PATH=${rust_folder}/lib/x86_64-linux-gnu
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=${CMAKE_C_COMPILER}
  CC_aarch64_unknown_linux_gnu=${CMAKE_C_COMPILER}
  CFLAGS_aarch64_unknown_linux_gnu=--sysroot=${CMAKE_SYSROOT})

# SPDX-License-Identifier: Apache-2.0
# Shared build rules: warnings, sanitizers, ccache, and the one-line declaration of libraries.

# DUNLIN_CPU_ARCHITECTURE: that of the processor that is built for. On ARM a char is signed and a * b + c is not contracted,
# as on x86-64, so that code that is the same has the same results.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(DUNLIN_CPU_ARCHITECTURE aarch64)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fsigned-char;-ffp-contract=off>")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(DUNLIN_CPU_ARCHITECTURE x86_64)
else()
  message(FATAL_ERROR "processor ${CMAKE_SYSTEM_PROCESSOR} is neither x86_64 nor aarch64")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # ccache's manual, "Precompiled headers": what it must not compare to cache sources that use one.
  set(sloppiness pch_defines,time_macros,include_file_mtime,include_file_ctime)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=${sloppiness} ${CCACHE_PROGRAM})
endif()

# GCC's collector starts at 128 MB on the heap, which most sources pass, some several times. At 512 MB they compile 8 % faster
# (up to 25 % where protobuf meets JSON), with 100 MB more at the peak; the objects are the same.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=524288>")
endif()

if(DUNLIN_SANITIZE)
  string(REPLACE ";" "," sanitizers "${DUNLIN_SANITIZE}")
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 takes members of std::regex for uninitialized between the sanitizers' checks.
    add_compile_options(-Wno-error=maybe-uninitialized)
  endif()
  add_link_options(-fsanitize=${sanitizers})
endif()

option(DUNLIN_FUZZ "Instrument the build for libFuzzer and declare its programs (preset fuzz, make fuzz)" OFF)
if(DUNLIN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "DUNLIN_FUZZ needs clang++, which has libFuzzer: cmake --preset fuzz")
  endif()
  # The first undefined operation ends the program, as the first bad access does.
  add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-recover=all)
endif()

# What runs: a check of the stack in each function with a buffer, and relocations that are all resolved, and then read-only,
# before main (tests/deploy/hardening_test.py). The CPU kernels' buffers are tiles that no input's length reaches: no check.
if(NOT DUNLIN_SANITIZE AND NOT DUNLIN_FUZZ)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>")
  add_link_options(LINKER:-z,relro,-z,now)
  # What of the Rust library nothing calls stays out of programs: 4 MB of color management, of crates that decode images.
  add_link_options($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:LINKER:--gc-sections>)
endif()

# Warnings are errors on our code; generated protobuf code does not link this. What another compiler would warn of is not
# looked for while fuzzing.
add_library(dunlin_warnings INTERFACE)
if(NOT DUNLIN_FUZZ)
  target_compile_options(dunlin_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Werror)
endif()

# dunlin_precompile(NAME PATH [target ...]): NAME compiles cmake/precompiled/PATH.h once, for targets that use it.
function(dunlin_precompile name header)
  set(source ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// Holds the precompiled header alone.\n")
  add_library(${name} OBJECT ${source})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARGN})
  target_precompile_headers(${name} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled/${header}.h)
endfunction()

# NAME's sources use the header that PRECOMPILED made. GCC accepts it only if macros and options agree, and CMake makes
# GCC warn if not. -fpch-preprocess: for ccache. With precompiled headers GCC 12 reports string copies out of bounds
# that are not, so these targets go without those warnings; the kernels keep them.
function(dunlin_use_precompiled name precompiled)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${name} REUSE_FROM ${precompiled})
    set(options -fpch-preprocess -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
    target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
  endif()
endfunction()

option(DUNLIN_UNITY "Compile libraries, tests and CUDA sources in batches: half of the time from nothing" OFF)

# NAME's sources are compiled in batches of 16, so that names in anonymous namespaces must differ within a target, and local names
# from them (-Wshadow). What a batch hides or says wrongly is seen where sources are compiled one by one, in the preset dev and by
# clang-tidy: includes that are missing, and types with members of anonymous namespaces.
function(dunlin_use_unity name)
  if(DUNLIN_UNITY)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# dunlin_link_plain(NAME RESULT): where sanitizers leave the library out, its archive in DUNLIN_PLAIN_BUILD stands for it; RESULT
# says whether. Always built are libraries of tests, the kernels (DUNLIN_SANITIZE_VARIANTS) and the gRPC transport, which is
# another one with gRPC's archives (DunlinArchives). Instrumented and plain code share containers: those of the standard library
# need nothing, and absl's, which poison their free slots, the option allow_user_poisoning=0 of AddressSanitizer.
function(dunlin_link_plain name result)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE folder)
  set(${result} FALSE PARENT_SCOPE)
  set(instrumented "${DUNLIN_SANITIZE_FOLDERS}|^(kernels|tests|server/transport/grpc)/")
  if(DUNLIN_SANITIZE_FOLDERS AND DUNLIN_PLAIN_BUILD AND NOT "${folder}/" MATCHES "${instrumented}")
    set(source ${CMAKE_BINARY_DIR}/plain/${name}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Its code is in the plain build's archive.\n")
    add_library(${name} STATIC ${source})
    # A target, not a path: so that what it needs comes after it on the command line of the linker.
    add_library(${name}_plain STATIC IMPORTED GLOBAL)
    set_target_properties(${name}_plain PROPERTIES IMPORTED_LOCATION ${DUNLIN_PLAIN_BUILD}/${folder}/lib${name}.a)
    target_link_libraries(${name} PUBLIC ${name}_plain)
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# dunlin_add_library(NAME SOURCES a.cc ... [DEPS target ...] [PCH engine|edge|none])
# A static library of our code; includes are written from the repository root. PCH: its precompiled header, engine if
# not given; kernels have none, because each code variant has compiler options of its own.
function(dunlin_add_library name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;DEPS" ${ARGN})
  dunlin_link_plain(${name} is_plain)
  if(is_plain)
    set(ARG_PCH none)
    target_link_libraries(${name}_plain INTERFACE ${ARG_DEPS})
  else()
    add_library(${name} STATIC ${ARG_SOURCES})
  endif()
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE dunlin_warnings)
  if(NOT ARG_PCH)
    set(ARG_PCH engine)
  endif()
  if(NOT ARG_PCH STREQUAL none)
    dunlin_use_precompiled(${name} dunlin_pch_${ARG_PCH})
    dunlin_use_unity(${name})
  endif()
endfunction()

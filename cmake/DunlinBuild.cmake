# SPDX-License-Identifier: Apache-2.0
# Shared build rules: warnings, sanitizers, ccache, and the one-line declarations of libraries and tests.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

if(DUNLIN_SANITIZE)
  string(REPLACE ";" "," sanitizers "${DUNLIN_SANITIZE}")
  # GCC 12 takes members of std::regex for uninitialized between the sanitizers' checks.
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -Wno-error=maybe-uninitialized)
  add_link_options(-fsanitize=${sanitizers})
endif()

# Warnings are errors on our code; generated protobuf code does not link this.
add_library(dunlin_warnings INTERFACE)
target_compile_options(dunlin_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Werror)

# dunlin_add_library(NAME SOURCES a.cc ... [DEPS target ...])
# A static library of our code; includes are written from the repository root.
function(dunlin_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE dunlin_warnings)
endfunction()

# dunlin_add_test(NAME SOURCES a_test.cc ... [LIBS target ...] [LABELS label ...] [TIMEOUT seconds])
# One GoogleTest program, one ctest entry. DUNLIN_SOURCE_DIR names the tree, for goldens.
function(dunlin_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE DUNLIN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest GTest::gtest_main dunlin_warnings)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)  # of machines that are slow or busy; alone the longest takes two minutes
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

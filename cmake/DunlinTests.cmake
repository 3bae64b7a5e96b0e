# SPDX-License-Identifier: Apache-2.0
# The declarations of tests. A program holds the tests of a room or of several, because each link takes up to 1.5 CPU seconds
# and 60 MB; a ctest entry runs a part of one, in a process of its own.

# lld links a program in a quarter of the time of GNU ld. Only test programs use it: the binary, the CUDA module and the
# dist are linked by the compiler's own linker, and so are builds with sanitizers.
find_program(DUNLIN_LLD ld.lld)
option(DUNLIN_TESTS_WITH_LLD "Link the test programs with lld, where it is installed" ON)

# clang compiles sources without optimisation in 40 to 65 % of the time of GCC 12, and with -O1 in 1.25 times of it. What is tested
# is what the compiler of the build made. Builds with sanitizers have one compiler, whose runtime they link.
find_program(DUNLIN_CLANG NAMES clang++-14 clang++)
option(DUNLIN_TESTS_WITH_CLANG "Compile the sources of tests without optimisation with clang, where it is installed and GCC compiles the rest" ON)

# NAME has sources of tests alone, and no optimisation.
function(dunlin_compile_with_clang name)
  if(DUNLIN_TESTS_WITH_CLANG AND DUNLIN_CLANG AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT DUNLIN_SANITIZE)
    set(clang ${DUNLIN_CLANG} ${DUNLIN_CLANG_TARGET})
    set(launcher ${CMAKE_SOURCE_DIR}/cmake/compile_with_clang.sh ${CMAKE_CXX_COMPILER_LAUNCHER} ${clang} --)
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER "${launcher}")
  endif()
endfunction()

# dunlin_precompile_test(NAME PATH [FLAGS flag ...] [LIBS target ...]): dunlin_precompile for tests, which are compiled
# with -fPIE, where libraries have -fPIC.
function(dunlin_precompile_test name header)
  cmake_parse_arguments(ARG "" "" "FLAGS;LIBS" ${ARGN})
  dunlin_precompile(${name} ${header} GTest::gmock GTest::gtest ${ARG_LIBS})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE ${ARG_FLAGS})
  if(-O0 IN_LIST ARG_FLAGS)
    dunlin_compile_with_clang(${name})
  endif()
endfunction()

# A program of tests, without any. Linked with tests/test_main.cc.
function(dunlin_add_test_program name)
  add_executable(${name} $<TARGET_OBJECTS:dunlin_test_templates>)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE dunlin_test_main GTest::gmock GTest::gtest)
  if(DUNLIN_LLD AND DUNLIN_TESTS_WITH_LLD AND NOT DUNLIN_SANITIZE)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
endfunction()

# dunlin_add_test(NAME SOURCES a_test.cc ... [LIBS target ...] [LABELS label ...] [TIMEOUT seconds] [PCH edge]
#                 [DEFINES macro=value ...] [NEEDS target ...])
# The ctest entry NAME: the tests in SOURCES, in the program DUNLIN_TEST_PROGRAM, or in one of their own where that is not set.
# Each test is in the entry of its source, and so in exactly one; the target NAME builds the program. With a sanitizer, entries
# without its label (asan, tsan) are programs of their own, and others share those of their folder, so that a shard of
# .ci/sanitizer_shard compiles only what it runs.
# DUNLIN_SOURCE_DIR names the tree, for goldens. NEEDS: targets that are built before. PCH edge: of sources that call an Edge
# through gRPC, whose headers take as long as the rest of a source.
# What a program tests is in libraries; its own sources have no optimisation, which takes half of their compile time.
# Folders whose tests compute as much as what they test set DUNLIN_OPTIMIZED_TESTS: -O1, which takes two thirds of -O2's compile time.
function(dunlin_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PCH" "SOURCES;LIBS;LABELS;DEFINES;NEEDS" ${ARGN})
  set(sanitizer_label asan)
  if(DUNLIN_SANITIZE STREQUAL "thread")
    set(sanitizer_label tsan)
  endif()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/tests OUTPUT_VARIABLE folder)
  string(REPLACE "/" "_" folder ${folder})
  set(program ${name})
  if(DUNLIN_TEST_PROGRAM AND NOT DUNLIN_SANITIZE)
    set(program ${DUNLIN_TEST_PROGRAM})
  elseif(DUNLIN_TEST_PROGRAM AND sanitizer_label IN_LIST ARG_LABELS)
    set(program ${DUNLIN_TEST_PROGRAM}_of_${folder})
  endif()
  if(NOT TARGET ${program})
    dunlin_add_test_program(${program})
  endif()
  if(NOT program STREQUAL name)
    add_custom_target(${name} ALL)
    add_dependencies(${name} ${program})
  endif()

  # Entries of one folder share their objects, if they share program and precompiled header, so that batches span entries.
  set(precompiled dunlin_pch_test)
  if(DUNLIN_OPTIMIZED_TESTS)
    set(precompiled dunlin_pch_test_optimized)
  elseif(ARG_PCH)
    set(precompiled dunlin_pch_test_${ARG_PCH})
  endif()
  set(objects ${program}_of_${folder}_with_${precompiled})
  if(NOT TARGET ${objects})
    add_library(${objects} OBJECT)
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_include_directories(${objects} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${objects} PRIVATE GTest::gmock GTest::gtest dunlin_warnings)
    target_compile_options(${objects} PRIVATE -fPIE)
    dunlin_use_precompiled(${objects} ${precompiled})
    dunlin_use_unity(${objects})
    set(optimization -O1)
    if(NOT DUNLIN_OPTIMIZED_TESTS)
      set(optimization -O0)
      dunlin_compile_with_clang(${objects})
    endif()
    target_compile_options(${objects} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${optimization}>)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endif()
  target_sources(${objects} PRIVATE ${ARG_SOURCES})
  target_compile_definitions(${objects} PRIVATE DUNLIN_SOURCE_DIR="${CMAKE_SOURCE_DIR}" ${ARG_DEFINES})
  target_link_libraries(${objects} PRIVATE ${ARG_LIBS})
  target_link_libraries(${program} PRIVATE ${ARG_LIBS})
  if(ARG_NEEDS)
    add_dependencies(${program} ${ARG_NEEDS})
  endif()

  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  list(FILTER ARG_SOURCES INCLUDE REGEX "_test\\.cc$")
  set(sources)
  foreach(source IN LISTS ARG_SOURCES)
    cmake_path(NORMAL_PATH source)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR}/tests)
    list(APPEND sources ${source})
  endforeach()
  if(NOT sources)
    message(FATAL_ERROR "${name} has no source named *_test.cc")
  endif()
  list(JOIN sources "," sources)
  add_test(NAME ${name} COMMAND ${program} --entry=${name} --sources=${sources})
  # What may take long starts first, so that no processor waits for it in the end; ctest itself knows costs from its second run on.
  set(cost 0)
  if(ARG_TIMEOUT)
    math(EXPR cost "${ARG_TIMEOUT} / 10")
  elseif(ARG_LABELS MATCHES "integration|kernels")
    set(cost 20)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)  # of machines that are slow or busy; alone the longest takes two minutes
  endif()
  if(CMAKE_CROSSCOMPILING)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 10")  # under emulation
  elseif(DUNLIN_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 2")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} COST ${cost})
endfunction()

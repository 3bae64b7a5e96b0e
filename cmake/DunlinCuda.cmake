# SPDX-License-Identifier: Apache-2.0
# The CUDA toolkit, and device code built with it. nvcc is called by its own rules and not as a CMake language: the
# toolkit may be a folder of wheels, whose layout CMake's detection does not know. Sets DUNLIN_CUDA_FOUND.
#
# The toolkit is the one at DUNLIN_CUDA_ROOT, that of the nvcc on PATH, or the one that deploy/cuda_toolkit.sh installed.
set(DUNLIN_CUDA_ROOT "" CACHE PATH "Folder of a CUDA toolkit; empty looks on PATH and in build/cuda-toolkit")
set(DUNLIN_CUDA_VERSION_MIN 12.4)

foreach(found DUNLIN_NVCC DUNLIN_CUDART_STATIC DUNLIN_CUOBJDUMP)
  if(${found} AND NOT EXISTS "${${found}}")
    unset(${found} CACHE)  # the toolkit that was found is gone
  endif()
endforeach()
find_program(DUNLIN_NVCC nvcc HINTS ${DUNLIN_CUDA_ROOT}/bin
             PATHS ${CMAKE_SOURCE_DIR}/build/cuda-toolkit/nvidia/cu13/bin)
set(DUNLIN_CUDA_FOUND FALSE)
if(DUNLIN_NVCC AND NOT CMAKE_CROSSCOMPILING)
  execute_process(COMMAND ${DUNLIN_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
  string(REGEX MATCH "release ([0-9.]+)" nvcc_release "${nvcc_version}")
  set(nvcc_release ${CMAKE_MATCH_1})
  get_filename_component(nvcc_real ${DUNLIN_NVCC} REALPATH)
  get_filename_component(cuda_bin ${nvcc_real} DIRECTORY)
  get_filename_component(DUNLIN_CUDA_TOOLKIT ${cuda_bin} DIRECTORY)
  find_library(DUNLIN_CUDART_STATIC cudart_static NO_DEFAULT_PATH
               PATHS ${DUNLIN_CUDA_TOOLKIT} PATH_SUFFIXES lib lib64 targets/x86_64-linux/lib)
  find_path(DUNLIN_CUDA_INCLUDE cuda_runtime_api.h NO_DEFAULT_PATH
            PATHS ${DUNLIN_CUDA_TOOLKIT} PATH_SUFFIXES include targets/x86_64-linux/include)
  find_program(DUNLIN_CUOBJDUMP cuobjdump HINTS ${cuda_bin})
  if("${nvcc_release}" VERSION_LESS DUNLIN_CUDA_VERSION_MIN)
    message(STATUS "CUDA module: not built, nvcc ${nvcc_release} is older than ${DUNLIN_CUDA_VERSION_MIN}")
  elseif(NOT DUNLIN_CUDART_STATIC OR NOT DUNLIN_CUDA_INCLUDE)
    message(STATUS "CUDA module: not built, ${DUNLIN_CUDA_TOOLKIT} has no libcudart_static.a or no headers")
  else()
    set(DUNLIN_CUDA_FOUND TRUE)
    message(STATUS "CUDA module: built with nvcc ${nvcc_release}")
  endif()
else()
  message(STATUS "CUDA module: not built, there is no nvcc (deploy/cuda_toolkit.sh installs one)")
endif()

# Machine code for Ampere, Ada, Hopper and, where nvcc knows it (12.8), Blackwell; PTX for what comes after.
set(DUNLIN_CUDA_ARCHITECTURES "" CACHE STRING "Compute capabilities that the CUDA module has code for; empty: all; \
runnable: those of this machine's GPUs, as far as they are among all, and 90a, whose instructions the tests look into")
set(all_architectures 80 86 89 90a)
if(NOT "${nvcc_release}" VERSION_LESS 12.8)
  list(APPEND all_architectures 100 120)
endif()
if(DUNLIN_CUDA_ARCHITECTURES STREQUAL "runnable")
  set(DUNLIN_CUDA_ARCHITECTURES 90a)  # hides the cache's entry
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE capabilities ERROR_QUIET)
  foreach(arch IN LISTS all_architectures)
    string(REGEX REPLACE "(.)$" "[.]\\1" capability "${arch}")
    if(capabilities MATCHES "(^|\n)${capability}(\n|$)")
      list(APPEND DUNLIN_CUDA_ARCHITECTURES ${arch})
    endif()
  endforeach()
elseif(NOT DUNLIN_CUDA_ARCHITECTURES)
  set(DUNLIN_CUDA_ARCHITECTURES ${all_architectures})
endif()
# nvcc runs its front end once for each of these. No source differs between 8.0 and 8.6, or between 9.0 and 9.0a but
# for those with ARCHITECTURES 90a: one front end for both makes the same code in three quarters of the time.
set(codes_of_80 "")
set(codes_of_90 ",compute_90")
set(DUNLIN_CUDA_TARGETS "")
foreach(arch ${DUNLIN_CUDA_ARCHITECTURES})
  if(arch MATCHES "^8[06]$")
    string(APPEND codes_of_80 ",sm_${arch}")
  elseif(arch MATCHES "^90a?$")
    string(APPEND codes_of_90 ",sm_${arch}")
  else()
    list(APPEND DUNLIN_CUDA_TARGETS -gencode=arch=compute_${arch},code=sm_${arch})
  endif()
endforeach()
foreach(arch 80 90)
  if(codes_of_${arch})
    string(SUBSTRING "${codes_of_${arch}}" 1 -1 codes)
    list(APPEND DUNLIN_CUDA_TARGETS "-gencode=arch=compute_${arch},code=[${codes}]")
  endif()
endforeach()

# Another nvcc than the pinned one may warn of other things, or spill a register (12.4 does in two kernels).
set(DUNLIN_CUDA_WARNINGS -Xptxas=-warn-spills,-warn-lmem-usage)
if("${nvcc_release}" VERSION_EQUAL 13.0)
  list(APPEND DUNLIN_CUDA_WARNINGS -Werror=all-warnings)
endif()

# dunlin_cuda_objects(OUT [NAME name] [OPTIONS flag ...] [ARCHITECTURES 90a ...] SOURCES a.cu ...): appends the object files to
# the list OUT. ARCHITECTURES: machine code for these alone, without PTX, whatever DUNLIN_CUDA_ARCHITECTURES says: for sources
# whose instructions other devices lack (wgmma and TMA need 90a), and whose kernels' rows name the same devices.
# NAME: with DUNLIN_UNITY the sources are one, of this name, because most of a source's compile time is its headers, which nvcc
# reads once for the host and once for each architecture. Names in their anonymous namespaces must differ.
function(dunlin_cuda_objects out)
  cmake_parse_arguments(ARG "" "NAME" "ARCHITECTURES;OPTIONS;SOURCES" ${ARGN})
  set(targets ${DUNLIN_CUDA_TARGETS})
  if(ARG_ARCHITECTURES)
    set(targets "")
    foreach(arch ${ARG_ARCHITECTURES})
      list(APPEND targets -gencode=arch=compute_${arch},code=sm_${arch})
    endforeach()
  endif()
  set(objects ${${out}})
  file(RELATIVE_PATH room ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(sources ${ARG_SOURCES})
  if(DUNLIN_UNITY AND ARG_NAME)
    set(content "")
    foreach(source ${ARG_SOURCES})
      string(APPEND content "#include \"${room}/${source}\"\n")
    endforeach()
    set(sources ${ARG_NAME}.cu)
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${sources} CONTENT "${content}" @ONLY)
  endif()
  foreach(source ${sources})
    set(path ${CMAKE_CURRENT_SOURCE_DIR}/${source})
    set(depends ${source})
    if(NOT source IN_LIST ARG_SOURCES)
      set(path ${CMAKE_CURRENT_BINARY_DIR}/${source})
      set(depends ${path} ${ARG_SOURCES})
    endif()
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${DUNLIN_NVCC} -c ${path} -o ${object} -MD -MF ${object}.d
              -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 ${targets} --expt-relaxed-constexpr
              ${ARG_OPTIONS} ${DUNLIN_CUDA_WARNINGS}
              -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Werror
              -I${CMAKE_SOURCE_DIR} -isystem ${DUNLIN_CUDA_INCLUDE} -isystem ${DUNLIN_CUDA_INCLUDE}/cccl
      DEPENDS ${depends}
      DEPFILE ${object}.d
      COMMENT "Building CUDA object ${room}/${source}"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${out} ${objects} PARENT_SCOPE)
endfunction()

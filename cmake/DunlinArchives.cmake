# SPDX-License-Identifier: Apache-2.0
# Links packages that come both as shared libraries and as archives from their archives: calls inside and between them
# then bypass the PLT and GOT, whose lines are rarely in the cache when a request comes.
# Builds with sanitizers stay with the shared libraries.

option(DUNLIN_ARCHIVES "Link gRPC, Protobuf and abseil from archives, where there are any" ON)
if(DUNLIN_SANITIZE)
  set(DUNLIN_ARCHIVES OFF)
endif()

# dunlin_use_archives(PATTERN): every imported target of this directory whose name matches, and whose shared library has
# its archive beside it. All of a package or nothing is right: call it for whatever shares global state.
function(dunlin_use_archives pattern)
  if(NOT DUNLIN_ARCHIVES)
    return()
  endif()
  get_property(targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  list(FILTER targets INCLUDE REGEX ${pattern})
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(NOT type MATCHES "^(SHARED|UNKNOWN)_LIBRARY$")
      continue()
    endif()
    get_target_property(library ${target} LOCATION)
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive ${library})
    if(NOT EXISTS ${archive})
      message(FATAL_ERROR "${target} has no archive ${archive}; configure with -DDUNLIN_ARCHIVES=OFF")
    endif()
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations)
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive})
    endforeach()
  endforeach()
endfunction()

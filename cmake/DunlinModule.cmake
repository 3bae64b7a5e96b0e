# SPDX-License-Identifier: Apache-2.0
# DUNLIN_API_DIGEST: a digest of the contract, kernels/api, and of the arithmetic that devices share, kernels/shared. It
# is compiled into the loader of device modules and into every module, and ties a module to its binary.
file(GLOB api_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/api/*.h
     ${CMAKE_SOURCE_DIR}/kernels/shared/*.h)
set(api_digests "")
foreach(header ${api_headers})
  file(SHA256 ${header} digest)
  string(APPEND api_digests ${digest})
endforeach()
string(SHA256 DUNLIN_API_DIGEST "${api_digests}")
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${api_headers})

// SPDX-License-Identifier: Apache-2.0
// A device in a shared library of its own, opened at run time by kernels/loader: the one symbol that such a library
// exports, and the table behind it.
//
// DeviceOps passes the structs of kernels/api and a std::vector across the boundary, so a module works only with the
// binary whose contract it was compiled with: abi_version is the layout of this struct, api_digest a digest of all
// headers of kernels/api. Module and binary share the system's libstdc++.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/device.h"

namespace dunlin::kernels {

inline constexpr uint32_t kDeviceModuleAbi = 2;
inline constexpr char kDeviceModuleEntry[] = "dunlin_device_module";

struct DeviceModuleOptions {
  int32_t device;                      // DeviceOptions::cuda_device
  const char* cublas_library;          // as DeviceOptions
  const char* cublas_algorithm_cache;  // as DeviceOptions
  bool sm90_kernels;                   // as DeviceOptions
  bool cuda_graphs;                    // as DeviceOptions
};

// The description of an opened device and what it offers, or why none was opened; all are null-terminated.
struct DeviceModuleReply {
  char description[256];
  char facts[1024];   // as Device::facts
  char warning[512];  // as Device::warning
  char error[512];
};

struct DeviceModule {
  uint32_t abi_version;    // kDeviceModuleAbi; the first field of every version
  const char* api_digest;  // DUNLIN_API_DIGEST when the module was compiled, hexadecimal
  const DeviceOps* ops;    // static; no entry is null
  // Null, with reply->error set, when the device, its driver or a library is missing or too old. reply is not null.
  DeviceContext* (*open)(const DeviceModuleOptions* options, DeviceModuleReply* reply);
  void (*close)(DeviceContext*);
};

// Type of the exported function; what it returns is static.
using DeviceModuleEntry = const DeviceModule* (*)();

}  // namespace dunlin::kernels

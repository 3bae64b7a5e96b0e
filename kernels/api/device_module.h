// A device that lives in a shared library of its own and is opened at run time: the one symbol that such a library
// exports, and what stands behind it. Opened by kernels/module.
//
// The functions of DeviceOps take the structs of kernels/api and a std::vector, so a module serves only the binary
// whose contract it was compiled with: abi_version says how this struct reads, api_digest is the digest of every header
// of kernels/api. Both use the system's one libstdc++.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/device.h"

namespace dunlin::kernels {

inline constexpr uint32_t kDeviceModuleAbi = 1;
inline constexpr char kDeviceModuleEntry[] = "dunlin_device_module";

struct DeviceModuleOptions {
  const char* cublas_library;          // path or name of the cuBLASLt library; "" lets the module look for it
  const char* cublas_algorithm_cache;  // as DeviceOptions
};

// What an open device is called, or why there is none; both end with a 0 byte.
struct DeviceModuleReply {
  char description[256];
  char error[512];
};

struct DeviceModule {
  uint32_t abi_version;    // kDeviceModuleAbi; the first field of every version
  const char* api_digest;  // DUNLIN_API_DIGEST as the module was compiled, hexadecimal
  const DeviceOps* ops;    // static; no entry is null
  // Null, with reply->error, when there is no such device, driver or library, or it is too old. reply is never null.
  DeviceContext* (*open)(const DeviceModuleOptions* options, DeviceModuleReply* reply);
  void (*close)(DeviceContext*);
};

// Type of the exported function; what it returns is static.
using DeviceModuleEntry = const DeviceModule* (*)();

}  // namespace dunlin::kernels

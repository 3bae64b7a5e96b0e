// SPDX-License-Identifier: Apache-2.0
// A module's device, opened by the loader, for tests.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "kernels/api/device.h"

namespace dunlin::kernels {

// Null, with the reason, when there is none. Where tests run on another machine, DUNLIN_TEST_CUDA_MODULE names the CUDA
// module, DUNLIN_TEST_FAKE_MODULE the fake one, and DUNLIN_TEST_CUBLAS the cuBLASLt library.
inline std::unique_ptr<Device> OpenModule(const std::string& path, std::string* error, int32_t number = 0) {
  const bool is_fake = path.find("fake") != std::string::npos;
  const char* module = std::getenv(is_fake ? "DUNLIN_TEST_FAKE_MODULE" : "DUNLIN_TEST_CUDA_MODULE");
  const char* cublas = std::getenv("DUNLIN_TEST_CUBLAS");
  DeviceOptions options;
  options.cuda_module = module != nullptr ? module : path;
  if (cublas != nullptr) options.cublas_library = cublas;
  options.cuda_device = number;
  return OpenDevice(DeviceKind::kCuda, options, error);
}

}  // namespace dunlin::kernels

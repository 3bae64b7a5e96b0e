// SPDX-License-Identifier: Apache-2.0
// Owns host memory that a device can copy from and to asynchronously (DeviceOps::allocate_host). Thread rule: one
// owner.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

class HostMemory {
 public:
  // RESOURCE_EXHAUSTED names the use. device outlives the memory.
  static absl::StatusOr<HostMemory> Allocate(kernels::Device* device, size_t bytes, const char* use) {
    void* data = device->ops->allocate_host(device->context, bytes);
    if (data != nullptr) return HostMemory(device, data, bytes);
    return absl::ResourceExhaustedError(absl::StrCat("host memory has no room for ", use, " of ", bytes, " bytes"));
  }

  std::byte* data() const { return static_cast<std::byte*>(data_.get()); }

 private:
  struct Releaser {
    kernels::Device* device;
    size_t bytes;
    void operator()(void* data) const { device->ops->release_host(device->context, data, bytes); }
  };
  HostMemory(kernels::Device* device, void* data, size_t bytes) : data_(data, Releaser{device, bytes}) {}

  std::unique_ptr<void, Releaser> data_;
};

}  // namespace dunlin::engine

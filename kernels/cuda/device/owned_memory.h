// SPDX-License-Identifier: Apache-2.0
// Device memory released with its owner; for measurements before the server is ready.
#pragma once

#include "kernels/cuda/device/launchers.h"

namespace dunlin::kernels::cuda {

class OwnedMemory {
 public:
  // data() is null when the allocation failed.
  OwnedMemory(DeviceContext* context, size_t bytes)
      : context_(context), bytes_(bytes), data_(Allocate(context, bytes)) {}
  ~OwnedMemory() { Release(context_, data_, bytes_); }
  OwnedMemory(const OwnedMemory&) = delete;
  OwnedMemory& operator=(const OwnedMemory&) = delete;
  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  DeviceContext* const context_;
  const size_t bytes_;
  void* const data_;
};

}  // namespace dunlin::kernels::cuda

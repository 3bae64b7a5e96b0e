// Device memory that is released with its owner. For what measures, before anything serves.
#pragma once

#include "kernels/cuda/launchers.h"

namespace dunlin::kernels::cuda {

class OwnedMemory {
 public:
  // data() is null where the device has no room.
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

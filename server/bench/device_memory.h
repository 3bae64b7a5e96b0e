// Device memory that is released with its owner, reached by copies alone: what a bench allocates on any device.
// Thread rule: one thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace dunlin::server::bench {

// OK; FAILED_PRECONDITION for what the device does not take; else INTERNAL. Both name the operation.
absl::Status StatusOf(kernels::KernelStatus status, const char* operation);

class DeviceMemory {
 public:
  // Zeroed. RESOURCE_EXHAUSTED names `what` and its size.
  static absl::StatusOr<DeviceMemory> Allocate(kernels::Device* device, size_t bytes, const char* what);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  // Addresses on the device: for operations, never for the host.
  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }

  // Copies `bytes` from the host to this memory from `offset` on, or its first bytes back. Reading waits for what was
  // enqueued before.
  absl::Status Write(const void* host, size_t bytes, size_t offset = 0);
  absl::Status Read(void* host, size_t bytes) const;

 private:
  kernels::Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Copies from any device memory, and waits for it.
absl::Status ReadDevice(kernels::Device* device, void* host, const void* memory, size_t bytes);

}  // namespace dunlin::server::bench

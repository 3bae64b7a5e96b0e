// SPDX-License-Identifier: Apache-2.0
// Owned device memory for the benches, on any device; the host accesses it only by copies.
// Thread rule: one thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"

namespace dunlin::tools::bench {

// OK; FAILED_PRECONDITION for what the device does not support; otherwise INTERNAL. Both name the operation.
absl::Status StatusOf(kernels::KernelStatus status, const char* operation);

class DeviceMemory {
 public:
  // Zero-initialised. RESOURCE_EXHAUSTED names `what` and its size.
  static absl::StatusOr<DeviceMemory> Allocate(kernels::Device* device, size_t bytes, const char* what);
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  // Device addresses: the host must not dereference them.
  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  size_t bytes() const { return bytes_; }

  // Write copies `bytes` from the host to `offset`, Read copies the first `bytes` back. Reading waits for operations
  // enqueued before.
  absl::Status Write(const void* host, size_t bytes, size_t offset = 0);
  absl::Status Read(void* host, size_t bytes) const;
  // Makes every value NaN, in any float format: what a kernel does not write shows.
  absl::Status Poison();

 private:
  kernels::Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// As DeviceMemory::Poison, for any device memory.
absl::Status PoisonDevice(kernels::Device* device, void* memory, size_t bytes);

// Copies from any device memory and waits for the copy.
absl::Status ReadDevice(kernels::Device* device, void* host, const void* memory, size_t bytes);

}  // namespace dunlin::tools::bench

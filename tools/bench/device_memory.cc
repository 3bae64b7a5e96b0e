// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/device_memory.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dunlin::tools::bench {

absl::Status StatusOf(kernels::KernelStatus status, const char* operation) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  if (status == kernels::KernelStatus::kUnsupported) {
    return absl::FailedPreconditionError(absl::StrCat(operation, ": not supported by this device"));
  }
  return absl::InternalError(absl::StrCat(operation, " failed: ", kernels::Name(status)));
}

absl::StatusOr<DeviceMemory> DeviceMemory::Allocate(kernels::Device* device, size_t bytes, const char* what) {
  DeviceMemory memory;
  bytes = std::max<size_t>(bytes, 64);
  memory.data_ = device->ops->allocate(device->context, bytes);
  if (memory.data_ == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", what, ": ", bytes, " bytes"));
  }
  memory.device_ = device;
  memory.bytes_ = bytes;
  return memory;
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->ops->release(device_->context, data_, bytes_);
}

absl::Status DeviceMemory::Write(const void* host, size_t bytes, size_t offset) {
  std::byte* const to = static_cast<std::byte*>(data_) + offset;
  return StatusOf(device_->ops->copy_to_device(device_->context, to, host, bytes), "copy to the device");
}

absl::Status DeviceMemory::Read(void* host, size_t bytes) const {
  return ReadDevice(device_, host, data_, bytes);
}

absl::Status DeviceMemory::Poison() {
  return PoisonDevice(device_, data_, bytes_);
}

absl::Status PoisonDevice(kernels::Device* device, void* memory, size_t bytes) {
  const std::vector<std::byte> nan(bytes, std::byte{0xFF});
  absl::Status status =
      StatusOf(device->ops->copy_to_device(device->context, memory, nan.data(), bytes), "copy to the device");
  // The source must live until it has been read.
  if (status.ok()) status = StatusOf(device->ops->synchronize(device->context), "copy to the device");
  return status;
}

absl::Status ReadDevice(kernels::Device* device, void* host, const void* memory, size_t bytes) {
  absl::Status status =
      StatusOf(device->ops->copy_to_host(device->context, host, memory, bytes), "copy from the device");
  if (status.ok()) status = StatusOf(device->ops->synchronize(device->context), "copy from the device");
  return status;
}

}  // namespace dunlin::tools::bench

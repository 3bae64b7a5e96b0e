// SPDX-License-Identifier: Apache-2.0
// Devices and memory of the attention tests.
#include "tests/kernels/attention/devices.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>

namespace dunlin::kernels::testing {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr auto kGuard = std::byte{0xA5};

}  // namespace

Device& CpuDevice(const std::string& variant, int num_threads) {
  static auto* devices = new std::map<std::pair<std::string, int>, std::unique_ptr<Device>>();
  std::unique_ptr<Device>& device = (*devices)[{variant, num_threads}];
  if (device == nullptr) {
    std::string error;
    device = OpenDevice(DeviceKind::kCpu, {.num_threads = num_threads, .cpu_variant = variant}, &error);
    if (device == nullptr) {
      std::cerr << "cannot open cpu device: " << error << '\n';
      std::abort();
    }
  }
  return *device;
}

PoisonedMemory::PoisonedMemory(size_t bytes) : size_(bytes), memory_(new std::byte[bytes + kGuardBytes + 64]) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.get());
  data_ = memory_.get() + (64 - address % 64) % 64;
  std::fill_n(data_, bytes, std::byte{0xFF});
  std::fill_n(data_ + bytes, kGuardBytes, kGuard);
}

bool PoisonedMemory::Intact() const {
  return std::all_of(data_ + size_, data_ + size_ + kGuardBytes, [](std::byte b) { return b == kGuard; });
}

DType RoundingOf(AttentionBackend backend, DType dtype, int32_t head_dim, const std::string& variant) {
  const bool widens_to_bf16 = variant == "avx512_bf16" && head_dim % 64 == 0 && backend != AttentionBackend::kMath;
  return widens_to_bf16 && dtype == DType::kF8E4M3 ? DType::kBF16 : dtype;
}

std::vector<DType> CudaRoundingsOf(AttentionBackend backend, DType dtype) {
  if (dtype != DType::kF8E4M3 || backend == AttentionBackend::kMath) return {dtype};
  if (backend == AttentionBackend::kFlash) return {DType::kBF16};
  return {dtype, DType::kBF16};
}

std::string Describe(AttentionBackend backend, DType dtype, const std::string& variant) {
  return std::string(Name(backend)) + " " + Name(dtype) + " " + variant;
}

}  // namespace dunlin::kernels::testing

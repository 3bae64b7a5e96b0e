// SPDX-License-Identifier: Apache-2.0
// Opened CPU devices, aligned poisoned memory, and the axes that every test iterates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace dunlin::kernels::testing {

inline constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
inline constexpr DType kKvDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};  // of KV pages
inline constexpr auto kBackends = EnumeratorsOf(kAttentionBackendTable, &AttentionBackendTraits::backend);

// A device that stays open until the program ends. variant as in DeviceOptions.
Device& CpuDevice(const std::string& variant, int num_threads);

// 64-byte aligned bytes, all 0xFF (NaN in FP32, FP16 and BF16), followed by a guard that Intact() checks.
class PoisonedMemory {
 public:
  explicit PoisonedMemory(size_t bytes);
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool Intact() const;

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> memory_;
  std::byte* data_;
};

// The dtype whose rounding queries and weights have beside keys and values of `dtype` on a CPU device of a variant.
DType RoundingOf(AttentionBackend backend, DType dtype, int32_t head_dim, const std::string& variant);
// AttentionRunner::RoundingsOf of CUDA devices: FLASH multiplies codes as BF16, EFFICIENT in FP32, or on 9.0 as FLASH.
std::vector<DType> CudaRoundingsOf(AttentionBackend backend, DType dtype);

// "flash bf16 avx512", for failure messages.
std::string Describe(AttentionBackend backend, DType dtype, const std::string& variant);

}  // namespace dunlin::kernels::testing

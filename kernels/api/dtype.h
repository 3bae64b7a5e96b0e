// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, and the precisions that a request may choose. Plain data, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/choice_table.h"

namespace dunlin::kernels {

enum class DType : uint8_t { kF32, kF16, kBF16, kF8E4M3 };

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kF8E4M3:
      return 1;
  }
  return 0;
}

constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kF16:
      return "fp16";
    case DType::kBF16:
      return "bf16";
    case DType::kF8E4M3:
      return "fp8_e4m3";
  }
  return "?";
}

// How weights are stored and multiplied. Activations between operations are always FP32.
enum class Precision : uint8_t { kFp32, kBf16, kFp16, kFp8 };
inline constexpr int kNumPrecisions = 4;

struct PrecisionTraits {
  Precision precision;
  const char* name;    // in configs, requests, commands, metrics and messages
  DType weight_dtype;  // of PackedWeight
  DType kv_dtype;      // of the KV pages this precision writes
};
inline constexpr PrecisionTraits kPrecisionTable[kNumPrecisions] = {
    {Precision::kFp32, "fp32", DType::kF32, DType::kF32},
    {Precision::kBf16, "bf16", DType::kBF16, DType::kBF16},
    {Precision::kFp16, "fp16", DType::kF16, DType::kF16},
    {Precision::kFp8, "fp8", DType::kF8E4M3, DType::kBF16},
};
static_assert(IsChoiceTable(kPrecisionTable, &PrecisionTraits::precision));

constexpr const PrecisionTraits& Traits(Precision precision) {
  return kPrecisionTable[static_cast<size_t>(precision)];
}
constexpr const char* Name(Precision precision) {
  return Traits(precision).name;
}

}  // namespace dunlin::kernels

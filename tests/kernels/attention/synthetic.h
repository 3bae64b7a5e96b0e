// SPDX-License-Identifier: Apache-2.0
// Deterministic test data: a number is a function of (seed, kind, position, head, dimension) alone, so that the same
// sequence can be laid out, chunked and batched in any way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/api/dtype.h"
#include "kernels/api/float_formats.h"

namespace dunlin::kernels::testing {

enum class Kind : uint64_t { kQuery, kKey, kValue };

inline uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Uniform in [-1, 1).
inline float Synthetic(uint64_t seed, Kind kind, int64_t position, int32_t head, int32_t dim) {
  const uint64_t place = (static_cast<uint64_t>(position) << 24) ^ (static_cast<uint64_t>(head) << 12) ^
                         static_cast<uint64_t>(dim) ^ (static_cast<uint64_t>(kind) << 60);
  const uint64_t bits = Mix(Mix(seed) ^ place);
  return static_cast<float>(static_cast<int64_t>(bits >> 40)) * 0x1p-23F - 1.0F;
}

inline float RoundTo(DType dtype, float value) {
  switch (dtype) {
    case DType::kF16:
      return Fp16ToFloat(FloatToFp16(value));
    case DType::kBF16:
      return Bf16ToFloat(FloatToBf16(value));
    default:
      return value;
  }
}

inline std::vector<float> Rounded(DType dtype, const float* row, int32_t count) {
  std::vector<float> rounded(row, row + count);
  for (float& value : rounded) value = RoundTo(dtype, value);
  return rounded;
}

// One token's key or value as a KV page gives it back: E4M3 has one scale for the row, its largest magnitude on 448.
inline std::vector<float> RoundRow(DType dtype, std::vector<float> row) {
  if (dtype != DType::kF8E4M3) {
    for (float& x : row) x = RoundTo(dtype, x);
    return row;
  }
  float largest = 0.0F;
  for (const float x : row) largest = std::max(largest, std::fabs(x));
  if (largest == 0.0F) return row;
  const float scale = largest / 448.0F;
  for (float& x : row) x = E4M3ToFloat(FloatToE4M3(x * (1.0F / scale))) * scale;
  return row;
}

}  // namespace dunlin::kernels::testing

// SPDX-License-Identifier: Apache-2.0
// Limits on the size of a model. Within them no product of two fields overflows 64 bits, and
// (num_heads + 2 * num_kv_heads) * head_dim and 2 * ffn_dim fit an int32_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::engine {

inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxHiddenDim = 1 << 17;
inline constexpr int64_t kMaxHeads = 1024;
inline constexpr int64_t kMaxHeadDim = 1024;
inline constexpr int64_t kMaxFfnDim = 1 << 20;
inline constexpr int64_t kMaxExperts = 1024;           // kernels::kExpertsMax
inline constexpr int64_t kMaxContextTokens = 1 << 24;  // rotary positions are FP32, exact up to 2^24
inline constexpr size_t kMaxEosTokens = 64;
inline constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;  // some list the format of each matrix: 3 MB

}  // namespace dunlin::engine

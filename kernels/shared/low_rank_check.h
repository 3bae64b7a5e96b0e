// SPDX-License-Identifier: Apache-2.0
// What the host can see of the parameters of low-rank adapters. Host code, pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/api/low_rank.h"

namespace dunlin::kernels {

inline bool IsValid(const LowRankPair& pair, int64_t out_stride) {
  const bool stored = pair.dtype == DType::kF32 || pair.dtype == DType::kF16 || pair.dtype == DType::kBF16;
  return pair.down != nullptr && pair.up != nullptr && stored && pair.rank >= 1 && pair.rank <= kLowRankMax &&
         pair.first_column >= 0 && pair.out_features > 0 &&
         int64_t{pair.first_column} + pair.out_features <= out_stride;
}

inline bool IsValid(const AddLowRankParams& params) {
  if (params.num_uses < 0 || (params.num_uses > 0 && params.uses == nullptr)) return false;
  if (params.num_uses > 0 && (params.in == nullptr || params.out == nullptr || params.scratch == nullptr)) return false;
  if (params.in_features <= 0 || params.in_stride < params.in_features) return false;
  return std::all_of(params.uses, params.uses + params.num_uses, [&](const LowRankUse& use) {
    return use.pairs != nullptr && use.num_pairs >= 1 && use.num_pairs <= kLowRankPairsMax && use.rows != nullptr &&
           use.num_rows > 0 && std::all_of(use.pairs, use.pairs + use.num_pairs, [&](const LowRankPair& pair) {
             return IsValid(pair, params.out_stride);
           });
  });
}

}  // namespace dunlin::kernels

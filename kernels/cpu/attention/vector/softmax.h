// SPDX-License-Identifier: Apache-2.0
// Softmax and merge by vectors of 16 (tile_ops.h gives their meaning). Included by the vector files only, always
// inlined or templates over their types, so no code is shared between them. Step: a file's own type with its Lanes and
// P. A row's masked keys take no part: their lanes are replaced by -inf before the maximum, and their P is masked to 0.
// How a row becomes exponentials is the Step's, by FloatExpRow or one of its own. Instantiations: 1 P type per
// including file.
#pragma once

#include <limits>

#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/tile_ops.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::attention {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats Exp2(typename Lanes::Floats x) {
  const auto whole = Lanes::RoundToInteger(x);
  const auto part = Lanes::Sub(x, whole);
  auto y = Lanes::Broadcast(kExp2Coefficients[5]);
#pragma GCC unroll 8
  for (int i = 4; i >= 0; --i) y = Lanes::MulAdd(y, part, Lanes::Broadcast(kExp2Coefficients[i]));
  // Not less: a NaN propagates, -inf gives 0.
  return Lanes::SelectOrZero(Lanes::NotLess(x, Lanes::Broadcast(kExp2Smallest)), Lanes::TimesPowerOf2(y, whole));
}

// What is subtracted in the exponent. A row of nothing but -inf takes 0, and its P becomes 0.
DUNLIN_INLINE float ScaledMax(float max, float scale) {
  return max == kMinusInfinity ? 0.0F : max * scale;
}

// 2^((part_max - max) scale): what a sum taken against part_max is multiplied by. Exactly 1 when they are equal.
template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats RescaleOf(typename Lanes::Floats part_max, typename Lanes::Floats max,
                                               typename Lanes::Floats scale) {
  const auto equal = Lanes::Equal(part_max, max);  // also of two -inf
  return Lanes::Select(equal, Lanes::Broadcast(1.0F), Exp2<Lanes>(Lanes::Mul(Lanes::Sub(part_max, max), scale)));
}

template <typename Lanes>
DUNLIN_INLINE float RowMax(const float* s, int count) {
  const auto none = Lanes::Broadcast(kMinusInfinity);
  auto max = none;
  int j = 0;
  for (; j + 16 <= count; j += 16) max = Lanes::Max(max, Lanes::Load(s + j));
  if (j < count) max = Lanes::Max(max, Lanes::Select(Lanes::FirstLanes(count - j), Lanes::Load(s + j), none));
  return Lanes::ReduceMax(max);
}

// Step::ExpRow makes P of one row, 2^(s scale - scaled_max), zeros past count up to a multiple of 16 at least, and
// returns sum + P, as it was stored, by lanes: so the weights of a row whose P is rounded still add up to 1.
template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats FloatExpRow(const float* s, int count, float scale, float scaled_max,
                                                 typename Lanes::Floats sum, float* p) {
  const auto scales = Lanes::Broadcast(scale);
  const auto shift = Lanes::Broadcast(scaled_max);
  int j = 0;
#pragma GCC unroll 4
  for (; j + 16 <= count; j += 16) {
    const auto e = Exp2<Lanes>(Lanes::MulSub(Lanes::Load(s + j), scales, shift));
    Lanes::Store(p + j, e);
    sum = Lanes::Add(sum, e);
  }
  if (j < count) {
    const auto x = Lanes::MulSub(Lanes::Load(s + j), scales, shift);
    const auto e = Lanes::SelectOrZero(Lanes::FirstLanes(count - j), Exp2<Lanes>(x));
    Lanes::Store(p + j, e);
    sum = Lanes::Add(sum, e);
  }
  return sum;
}

// Three passes: the tile's maximum of each row; the new maxima and factors, 16 rows a vector; the exponentials.
template <typename Step>
void RunningSoftmax(const RunningSoftmaxArgs& args) {
  using Lanes = typename Step::Lanes;
  alignas(64) float tile_max[kMaxRows];
  alignas(64) float scaled_max[kMaxRows];
  const auto scale = Lanes::Broadcast(args.scale);
  const auto none = Lanes::Broadcast(kMinusInfinity);
  for (int r = 0; r < args.rows; ++r) tile_max[r] = RowMax<Lanes>(args.s + r * args.s_stride, args.valid[r]);
  for (int r = 0; r < args.rows; r += 16) {
    const auto rows = Lanes::FirstLanes(args.rows - r);
    const auto old_max = Lanes::LoadMasked(args.row_max + r, rows);
    const auto max = Lanes::Max(Lanes::LoadMasked(tile_max + r, rows), old_max);
    Lanes::StoreMasked(args.row_max + r, rows, max);
    Lanes::StoreMasked(args.alpha + r, rows, RescaleOf<Lanes>(old_max, max, scale));
    Lanes::Store(scaled_max + r, Lanes::Select(Lanes::Equal(max, none), Lanes::Zero(), Lanes::Mul(max, scale)));
  }
  for (int r = 0; r < args.rows; ++r) {
    float* lane_sum = args.lane_sum + r * kLanes;
    const auto sum = Lanes::Mul(Lanes::Load(lane_sum), Lanes::Broadcast(args.alpha[r]));
    Lanes::Store(lane_sum, Step::ExpRow(args.s + r * args.s_stride, args.valid[r], args.scale, scaled_max[r], sum,
                                        static_cast<typename Step::P*>(args.p) + r * args.p_stride));
  }
}

template <typename Step>
void ChunkSoftmax(const ChunkSoftmaxArgs& args) {
  using Lanes = typename Step::Lanes;
  for (int r = 0; r < args.rows; ++r) {
    const float* s = args.s + r * args.s_stride;
    const float max = RowMax<Lanes>(s, args.valid[r]);
    const auto sum = Step::ExpRow(s, args.valid[r], args.scale, ScaledMax(max, args.scale), Lanes::Zero(),
                                  static_cast<typename Step::P*>(args.p) + r * args.p_stride);
    args.row_max[r] = max;
    args.row_sum[r] = Lanes::ReduceAdd(sum);
  }
}

template <typename Step>  // its P is FP32
void FullSoftmax(const FullSoftmaxArgs& args) {
  using Lanes = typename Step::Lanes;
  for (int r = 0; r < args.rows; ++r) {
    float* s = args.s + r * args.s_stride;
    const int count = args.valid[r];
    const float max = RowMax<Lanes>(s, count);
    const float sum =
        Lanes::ReduceAdd(Step::ExpRow(s, count, args.scale, ScaledMax(max, args.scale), Lanes::Zero(), s));
    if (sum == 0.0F) continue;  // every score is -inf: P is 0 already
    const auto sums = Lanes::Broadcast(sum);
    for (int j = 0; j < count; j += 16) Lanes::Store(s + j, Lanes::Div(Lanes::Load(s + j), sums));
  }
}

template <typename Step>
void Merge(const MergeArgs& args) {
  using Lanes = typename Step::Lanes;
  for (int r = 0; r < args.rows; ++r) {
    const float old_max = args.row_max[r];
    const float chunk_max = args.chunk_max[r];
    const float max = chunk_max > old_max ? chunk_max : old_max;
    const auto keep = RescaleOf<Lanes>(Lanes::Broadcast(old_max), Lanes::Broadcast(max), Lanes::Broadcast(args.scale));
    const auto take =
        RescaleOf<Lanes>(Lanes::Broadcast(chunk_max), Lanes::Broadcast(max), Lanes::Broadcast(args.scale));
    args.row_max[r] = max;
    args.row_sum[r] = args.row_sum[r] * Lanes::FirstLane(keep) + args.chunk_sum[r] * Lanes::FirstLane(take);
    float* o = args.o + r * args.o_stride;
    const float* chunk_o = args.chunk_o + r * args.o_stride;
    for (int64_t d = 0; d < args.o_stride; d += 16) {
      Lanes::Store(o + d, Lanes::MulAdd(Lanes::Load(chunk_o + d), take, Lanes::Mul(Lanes::Load(o + d), keep)));
    }
  }
}

}  // namespace dunlin::kernels::cpu::attention

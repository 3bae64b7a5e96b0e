// Softmax and merge by vectors of 16 (tile_ops.h gives their meaning). Included by the vector files only, always
// inlined or templates over their types, so none of it leaves those files. Step: a file's own type with its Lanes and
// P. A row's masked keys take no part: their lanes are replaced by -inf before the maximum, and their P is masked to 0.
// How a row becomes exponentials is the Step's, by FloatExpRow or one of its own. Instantiations: 1 P type per
// including file.
#pragma once

#include <limits>

#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::vectors {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats Exp2(typename Lanes::Floats x) {
  const auto whole = Lanes::Round(x);
  const auto part = Lanes::Subtract(x, whole);
  auto y = Lanes::Set(kExp2Coefficients[5]);
#pragma GCC unroll 8
  for (int i = 4; i >= 0; --i) y = Lanes::Fma(y, part, Lanes::Set(kExp2Coefficients[i]));
  // Not below: a NaN goes through, -inf gives 0.
  return Lanes::OrZero(Lanes::NotLess(x, Lanes::Set(kExp2Smallest)), Lanes::TimesPowerOfTwo(y, whole));
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
  return Lanes::Choose(equal, Lanes::Set(1.0F), Exp2<Lanes>(Lanes::Multiply(Lanes::Subtract(part_max, max), scale)));
}

template <typename Lanes>
DUNLIN_INLINE float RowMax(const float* s, int count) {
  const auto none = Lanes::Set(kMinusInfinity);
  auto max = none;
  int j = 0;
  for (; j + 16 <= count; j += 16) max = Lanes::Max(max, Lanes::LoadAny(s + j));
  if (j < count) max = Lanes::Max(max, Lanes::Choose(Lanes::First(count - j), Lanes::LoadAny(s + j), none));
  return Lanes::Largest(max);
}

// Step::ExpRow makes P of one row, 2^(s scale - scaled_max), zeros past count up to a multiple of 16 at least, and
// returns sum + P, as it was stored, by lanes: so the weights of a row whose P is rounded still add up to 1.
template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats FloatExpRow(const float* s, int count, float scale, float scaled_max,
                                                 typename Lanes::Floats sum, float* p) {
  const auto scales = Lanes::Set(scale);
  const auto shift = Lanes::Set(scaled_max);
  int j = 0;
#pragma GCC unroll 4
  for (; j + 16 <= count; j += 16) {
    const auto e = Exp2<Lanes>(Lanes::FmaSubtract(Lanes::LoadAny(s + j), scales, shift));
    Lanes::StoreAny(p + j, e);
    sum = Lanes::Add(sum, e);
  }
  if (j < count) {
    const auto x = Lanes::FmaSubtract(Lanes::LoadAny(s + j), scales, shift);
    const auto e = Lanes::OrZero(Lanes::First(count - j), Exp2<Lanes>(x));
    Lanes::StoreAny(p + j, e);
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
  const auto scale = Lanes::Set(args.scale);
  const auto none = Lanes::Set(kMinusInfinity);
  for (int r = 0; r < args.rows; ++r) tile_max[r] = RowMax<Lanes>(args.s + r * args.s_stride, args.valid[r]);
  for (int r = 0; r < args.rows; r += 16) {
    const auto rows = Lanes::TailOf(args.rows - r);
    const auto old_max = Lanes::LoadFirst(args.row_max + r, rows);
    const auto max = Lanes::Max(Lanes::LoadFirst(tile_max + r, rows), old_max);
    Lanes::StoreFirst(args.row_max + r, max, rows);
    Lanes::StoreFirst(args.alpha + r, RescaleOf<Lanes>(old_max, max, scale), rows);
    Lanes::Store(scaled_max + r, Lanes::Choose(Lanes::Equal(max, none), Lanes::Zero(), Lanes::Multiply(max, scale)));
  }
  for (int r = 0; r < args.rows; ++r) {
    float* lane_sum = args.lane_sum + r * kLanes;
    const auto sum = Lanes::Multiply(Lanes::Load(lane_sum), Lanes::Set(args.alpha[r]));
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
    args.row_sum[r] = Lanes::Sum(sum);
  }
}

template <typename Step>  // its P is FP32
void FullSoftmax(const FullSoftmaxArgs& args) {
  using Lanes = typename Step::Lanes;
  for (int r = 0; r < args.rows; ++r) {
    float* s = args.s + r * args.s_stride;
    const int count = args.valid[r];
    const float max = RowMax<Lanes>(s, count);
    const float sum = Lanes::Sum(Step::ExpRow(s, count, args.scale, ScaledMax(max, args.scale), Lanes::Zero(), s));
    if (sum == 0.0F) continue;  // every score is -inf: P is 0 already
    const auto sums = Lanes::Set(sum);
    for (int j = 0; j < count; j += 16) Lanes::StoreAny(s + j, Lanes::Divide(Lanes::LoadAny(s + j), sums));
  }
}

template <typename Step>
void Merge(const MergeArgs& args) {
  using Lanes = typename Step::Lanes;
  for (int r = 0; r < args.rows; ++r) {
    const float old_max = args.row_max[r];
    const float chunk_max = args.chunk_max[r];
    const float max = chunk_max > old_max ? chunk_max : old_max;
    const auto keep = RescaleOf<Lanes>(Lanes::Set(old_max), Lanes::Set(max), Lanes::Set(args.scale));
    const auto take = RescaleOf<Lanes>(Lanes::Set(chunk_max), Lanes::Set(max), Lanes::Set(args.scale));
    args.row_max[r] = max;
    args.row_sum[r] = args.row_sum[r] * Lanes::Lane0(keep) + args.chunk_sum[r] * Lanes::Lane0(take);
    float* o = args.o + r * args.o_stride;
    const float* chunk_o = args.chunk_o + r * args.o_stride;
    for (int64_t d = 0; d < args.o_stride; d += 16) {
      Lanes::Store(o + d, Lanes::Fma(Lanes::Load(chunk_o + d), take, Lanes::Multiply(Lanes::Load(o + d), keep)));
    }
  }
}

}  // namespace dunlin::kernels::cpu::vectors

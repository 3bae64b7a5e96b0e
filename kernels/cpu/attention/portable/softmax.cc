// SPDX-License-Identifier: Apache-2.0
// Score adjustment, softmax and merge of the portable variant: plain C++, one rounding per operation (built with
// -ffp-contract=off). Source: Milakov & Gimelshein 2018 (running maximum); Rabe & Staats 2021 (chunk summaries).
#include "kernels/cpu/attention/portable/softmax.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/tanh.h"

namespace dunlin::kernels::cpu::portable {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

float Exp2(float x) {
  if (x < kExp2Smallest) return 0.0F;  // a NaN compares false and propagates
  constexpr float kRound = 0x1.8p23F;  // adding it rounds to an integer
  const float whole = (x + kRound) - kRound;
  if (!(whole <= 127.0F)) return x * x;  // NaN or +infinity: a softmax exponent is never above 0 otherwise
  const float part = x - whole;
  float y = kExp2Coefficients[5];
  for (int i = 4; i >= 0; --i) y = y * part + kExp2Coefficients[i];
  return y * std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(whole) + 127) << 23);
}

// 2^((part_max - max) scale): what a sum taken against part_max is multiplied by. Exactly 1 when they are equal.
float Rescale(float part_max, float max, float scale) {
  return part_max == max ? 1.0F : Exp2((part_max - max) * scale);  // equal also when both are -inf
}

// Source: tanh.h. Both forms are computed, so that a loop over scores has no branch.
float Tanh(float x) {
  const float size = std::fabs(x);
  const float square = x * x;
  float y = kTanhCoefficients[5];
  for (int i = 4; i >= 0; --i) y = y * square + kTanhCoefficients[i];
  const float small = y * square * x + x;
  const float large = 1.0F - 2.0F / (Exp2((size < kTanhLargest ? size : kTanhLargest) * kTanhExponent) + 1.0F);
  return size < kTanhSmall ? small : (x != x ? x : std::copysign(large, x));
}

float LoadBias(const AdjustRowArgs& args, int j) {
  switch (args.bias_dtype) {
    case DType::kF32:
      return static_cast<const float*>(args.bias)[j];
    case DType::kF16:
      return Fp16ToFloat(static_cast<const uint16_t*>(args.bias)[j]);
    default:
      return Bf16ToFloat(static_cast<const uint16_t*>(args.bias)[j]);
  }
}

float RowMax(const float* s, int count) {
  float max = kMinusInfinity;
  for (int j = 0; j < count; ++j) max = s[j] > max ? s[j] : max;
  return max;
}

// The value subtracted in the exponent, already scaled. A row of nothing but -inf takes 0, and its P becomes 0.
float ScaledMax(float max, float scale) {
  return max == kMinusInfinity ? 0.0F : max * scale;
}

// p = 2^(s scale - scaled_max), adding lane by lane into sum; zeros up to the next multiple of kLanes.
void ExpRow(const float* s, int count, float scale, float scaled_max, float* lane_sum, float* p) {
  for (int j = 0; j < count; ++j) {
    const float e = Exp2(s[j] * scale - scaled_max);
    lane_sum[j % kLanes] += e;
    p[j] = e;
  }
  for (int j = count; j % kLanes != 0; ++j) p[j] = 0.0F;
}

float SumLanes(const float* lane_sum) {
  float sum = 0.0F;
  for (int lane = 0; lane < kLanes; ++lane) sum += lane_sum[lane];
  return sum;
}

}  // namespace

void AdjustRow(const AdjustRowArgs& args) {
  float* s = args.s;
  const float inner = args.softcap == 0.0F ? args.scale : args.scale / args.softcap;
  for (int j = 0; j < args.count; ++j) s[j] *= inner;
  if (args.softcap != 0.0F) {
    for (int j = 0; j < args.count; ++j) s[j] = Tanh(s[j]) * args.softcap;
  }
  if (args.slope != 0.0F) {
    for (int j = 0; j < args.count; ++j) s[j] += args.slope * static_cast<float>(args.distance + j);
  }
  if (args.bias != nullptr) {
    for (int j = 0; j < args.count; ++j) s[j] += LoadBias(args, j);
  }
  if (args.mask != nullptr) {
    for (int j = 0; j < args.count; ++j) s[j] = args.mask[j] != 0 ? s[j] : kMinusInfinity;
  }
}

void RunningSoftmax(const RunningSoftmaxArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    const float* s = args.s + r * args.s_stride;
    const float old_max = args.row_max[r];
    const float tile_max = RowMax(s, args.valid[r]);
    const float max = tile_max > old_max ? tile_max : old_max;
    const float scaled_max = ScaledMax(max, args.scale);
    const float alpha = Rescale(old_max, max, args.scale);
    float* lane_sum = args.lane_sum + r * kLanes;
    for (int lane = 0; lane < kLanes; ++lane) lane_sum[lane] *= alpha;
    ExpRow(s, args.valid[r], args.scale, scaled_max, lane_sum, static_cast<float*>(args.p) + r * args.p_stride);
    args.row_max[r] = max;
    args.alpha[r] = alpha;
  }
}

void ChunkSoftmax(const ChunkSoftmaxArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    const float* s = args.s + r * args.s_stride;
    const float max = RowMax(s, args.valid[r]);
    float lane_sum[kLanes] = {};
    ExpRow(s, args.valid[r], args.scale, ScaledMax(max, args.scale), lane_sum,
           static_cast<float*>(args.p) + r * args.p_stride);
    args.row_max[r] = max;
    args.row_sum[r] = SumLanes(lane_sum);
  }
}

void FullSoftmax(const FullSoftmaxArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    float* s = args.s + r * args.s_stride;
    float lane_sum[kLanes] = {};
    ExpRow(s, args.valid[r], args.scale, ScaledMax(RowMax(s, args.valid[r]), args.scale), lane_sum, s);
    const float sum = SumLanes(lane_sum);
    if (sum == 0.0F) continue;  // every score is -inf: P is 0 already
    for (int j = 0; j < args.valid[r]; ++j) s[j] /= sum;
  }
}

void Merge(const MergeArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    const float old_max = args.row_max[r];
    const float max = args.chunk_max[r] > old_max ? args.chunk_max[r] : old_max;
    const float keep = Rescale(old_max, max, args.scale);
    const float take = Rescale(args.chunk_max[r], max, args.scale);
    args.row_max[r] = max;
    args.row_sum[r] = args.row_sum[r] * keep + args.chunk_sum[r] * take;
    float* o = args.o + r * args.o_stride;
    const float* chunk_o = args.chunk_o + r * args.o_stride;
    for (int64_t d = 0; d < args.o_stride; ++d) o[d] = o[d] * keep + chunk_o[d] * take;
  }
}

}  // namespace dunlin::kernels::cpu::portable

// SPDX-License-Identifier: Apache-2.0
// NEON tiles of BF16 pages, the pairs multiplied by the BF16 dot product (BFDOT: gemm/neon_bf16/products.h says how it
// rounds), which needs P in BF16. MATH's P is FP32, so its values are widened (vector/loaders.h).
#include <cstring>

#include "kernels/cpu/attention/neon/tile_lanes.h"
#include "kernels/cpu/attention/neon_bf16/tiles.h"
#include "kernels/cpu/attention/vector/table.h"

namespace dunlin::kernels::cpu {
namespace {

struct DotStep {
  using Lanes = neon::TileLanes;
  using P = uint16_t;
  using Vector = Lanes::Floats;  // pairs
  using Factor = Lanes::Factor;
  static constexpr bool kWidens = false;
  static constexpr bool kScalesKeys = false;
  static constexpr int kKeys = 2;
  static constexpr int kParts = 1;
  DUNLIN_INLINE Factor Broadcast(const void* pair) {
    float bits = 0.0F;
    std::memcpy(&bits, pair, sizeof(bits));
    return Lanes::ToFactor(bits);
  }
  DUNLIN_INLINE Vector ScaleValue(const std::byte* /*block*/, int64_t /*slot*/, int /*head_dim*/, Vector value) {
    return value;
  }
  DUNLIN_INLINE Vector Accumulate(Vector sum, Factor a, Vector b) {
    return {{AddQuarter(sum.low.low, a, b.low.low), AddQuarter(sum.low.high, a, b.low.high)},
            {AddQuarter(sum.high.low, a, b.high.low), AddQuarter(sum.high.high, a, b.high.high)}};
  }

 private:
  // By the lane of a register that a scalar load fills (Quarter::Accumulate).
  DUNLIN_INLINE float32x4_t AddQuarter(float32x4_t sum, float a, float32x4_t b) {
    __asm__("bfdot %0.4s, %1.8h, %2.2h[0]" : "+w"(sum) : "w"(b), "w"(a));
    return sum;
  }
};

struct DotKeys : DotStep {
  static constexpr int kStepBytes = 64;
  static constexpr int kPages = 4;
  DUNLIN_INLINE int64_t Steps(int head_dim) { return (head_dim + 1) / 2; }
  DUNLIN_INLINE Vector Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    return Lanes::Load(blocks[vector] + step * 64);
  }
};

struct DotValues : DotStep, attention::PairBlock {
  DUNLIN_INLINE Vector Load(const std::byte* step, int /*part*/, int vector, const Lanes::Mask& tail) {
    return Lanes::AsFloats(Lanes::LoadIntsMasked(step + 64 * vector, tail));
  }
  DUNLIN_INLINE Vector FirstKey(Vector pairs) { return Masked(pairs, 0xFFFF); }
  DUNLIN_INLINE Vector LastKey(Vector pairs) { return Masked(pairs, ~0xFFFF); }

  // Step::ExpRow of vector/softmax.h.
  DUNLIN_INLINE Vector ExpRow(const float* s, int count, float scale, float scaled_max, Vector sum, uint16_t* p) {
    const Vector scales = Lanes::Broadcast(scale);
    const Vector shift = Lanes::Broadcast(scaled_max);
    for (int j = 0; j < count; j += 16) {
      const Vector x = Lanes::MulSub(Lanes::Load(s + j), scales, shift);
      const Vector e = Lanes::SelectOrZero(Lanes::FirstLanes(count - j), attention::Exp2<Lanes>(x));
      sum = Lanes::Add(sum, {StoreRounded(e.low, p + j), StoreRounded(e.high, p + j + 8)});
    }
    return sum;
  }

 private:
  DUNLIN_INLINE Vector Masked(const Vector& pairs, int bits) {
    return Lanes::AsFloats(Lanes::And(Lanes::AsInts(pairs), Lanes::BroadcastInts(bits)));
  }
  // Eight values in BF16; returns them so rounded.
  DUNLIN_INLINE Lanes::Half::Floats StoreRounded(const Lanes::Half::Floats& x, uint16_t* p) {
    const bfloat16x8_t rounded = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(x.low), x.high);
    const uint16x8_t bits = vreinterpretq_u16_bf16(rounded);
    vst1q_u16(p, bits);
    return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(bits), 16)),
            vreinterpretq_f32_u32(vshll_high_n_u16(bits, 16))};
  }
};

}  // namespace

const TileOps kNeonBf16DotTiles = attention::TilesOf<DotKeys, DotValues, attention::Bf16Values<neon::TileLanes>>();

}  // namespace dunlin::kernels::cpu
